package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"testing"

	"github.com/matryer/is"
)

// FuzzOps checks that append writes what parseOps has read so that it is read
// the same way, and no longer than before.
func FuzzOps(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		is := is.New(t)
		ops, err := parseOps(nil, b)
		if err != nil {
			is.True(errors.Is(err, errFrame))
			return
		}
		is.True(len(ops) <= len(b)/2)
		var again []byte
		total := 0
		for _, op := range ops {
			is.True(op.Bucket < removal)
			is.True(op.Key != nil)
			total += len(op.Key) + len(op.Value)
			again = op.append(again)
		}
		is.True(total <= len(b))
		is.True(len(again) <= len(b)) // lengths may have been written longer
		got, err := parseOps(nil, again)
		is.NoErr(err)
		is.Equal(got, ops)
	})
}

// FuzzReplay checks that a log of any bytes is read safely, that no read is
// longer than the log, and that Append of the same records leads to the same
// state. With mend, all checksums are right.
func FuzzReplay(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		is := is.New(t)
		if mend {
			b = mended(b, header{layout: plainLayout, format: format}, logMagic)
		}
		m := newMemory(nil)
		m.seen[fileName(logName, 0)] = &inode{data: b}
		records, got, _ := replayed(t, m, len(b))

		again := newMemory(nil)
		j, err := New(again, format)
		is.NoErr(err)
		is.NoErr(j.Begin(State{}))
		var r Record
		for i, ops := range records {
			r.Reset(0)
			for _, op := range ops {
				r.Add(op, nil)
			}
			to := State{Seq: uint64(i) + 1}
			if i == len(records)-1 {
				to = got.State
			}
			is.NoErr(j.Append(&r, to))
		}
		same, done, err := replayed(t, again, len(again.seen[fileName(logName, 0)].data))
		is.NoErr(err)
		is.Equal(same, records)
		is.Equal(done.State, got.State)
		is.Equal(done.Cut, int64(0))
	})
}

// FuzzSnapshot checks that a snapshot of any bytes is read safely, and that the
// content of a whole one matches its digest.
func FuzzSnapshot(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		is := is.New(t)
		if mend {
			h := header{layout: layout, format: format, State: State{Seq: 1}}
			if len(b) >= 8 { // the place of the digest that the end repeats
				h.Digest = Digest(binary.BigEndian.Uint64(b[len(b)-8:]))
			}
			b = mended(b, h, snapMagic)
		}
		m := newMemory(nil)
		m.seen[fileName(snapName, 1)] = &inode{data: b}
		m.seen[fileName(logName, 1)] = &inode{}
		j, err := New(watched{m, t, len(b)}, format)
		if err != nil {
			is.True(errors.As(err, new(*Newer)))
			return
		}
		var digest Digest
		state, err := j.files.readSnapshot(1, func(ops []Op) error {
			for _, op := range ops {
				digest.Add(op, nil)
			}
			return nil
		})
		if err != nil {
			is.True(errors.As(err, new(*Damaged)))
			return
		}
		is.Equal(state, State{1, digest})
	})
}

// FuzzPackedLog checks that a compressed log of any bytes is read safely, and
// that the unpacked size of a frame is bounded.
func FuzzPackedLog(f *testing.F) {
	m := newMemory(nil)
	j, err := New(m, format)
	if err == nil {
		err = j.Begin(State{})
	}
	var b book
	var r Record
	for n := range 40 {
		b = b.with(&r, []Op{{1, fmt.Appendf(nil, "key %d", n), bytes.Repeat([]byte("value"), 20*n)}})
		if err == nil {
			err = j.Append(&r, b.State)
		}
	}
	if err == nil {
		err = errors.Join(j.Begin(b.State), compress(j, b.State))
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.seen[fileName(logName, 0)].data, false)
	f.Add(bytes.Repeat([]byte{0xff}, 200), true)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if mend {
			b = mended(b, header{layout: layout, format: format}, logMagic)
		}
		m := newMemory(nil)
		m.seen[fileName(logName, 0)] = &inode{data: b}
		replayed(t, m, len(b))
		r := &reader{file: bytes.NewReader(b), at: min(headerSize, int64(len(b))), size: int64(len(b)), kind: packedLog}
		for {
			payload, err := r.next()
			if err != nil {
				return
			}
			is.New(t).True(len(payload) <= max(len(b), maxPacked+16))
		}
	})
}

// mended is a file with the header and, after 44 bytes of b, frames with the
// lengths in b and with right checksums.
func mended(b []byte, h header, magic string) []byte {
	b = bytes.Clone(b)
	copy(b, h.append(nil, magic))
	for at := headerSize; at+frameHead <= len(b); {
		n := int(binary.BigEndian.Uint32(b[at:]))
		if n > len(b)-at-frameHead {
			break
		}
		binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+frameHead:at+frameHead+n], castagnoli))
		at += frameHead + n
	}
	return b
}

// replayed returns the content of a journal, record by record.
func replayed(t *testing.T, m *memory, most int) ([][]Op, Replayed, error) {
	t.Helper()
	is := is.New(t)
	var records [][]Op
	j, err := New(watched{m, t, most}, format)
	if err != nil {
		is.True(errors.As(err, new(*Newer)))
		return nil, Replayed{}, err
	}
	done, err := j.Replay(func() error { return nil }, func(ops []Op) error {
		kept := make([]Op, len(ops)) // the memory is reused
		for i, op := range ops {
			kept[i] = Op{op.Bucket, bytes.Clone(op.Key), bytes.Clone(op.Value)}
		}
		records = append(records, kept)
		return nil
	})
	is.True(err == nil || errors.As(err, new(*Damaged)))
	is.Equal(len(records), done.Records)
	is.Equal(done.Seq, uint64(len(records)))
	return records, done, err
}

// watched checks that no read is longer than most.
type watched struct {
	*memory
	t    *testing.T
	most int
}

func (w watched) Open(name string) (File, error) {
	f, err := w.memory.Open(name)
	if name == RecentName {
		return f, err // it is as long as it is
	}
	return watchedFile{f, w}, err
}

type watchedFile struct {
	File
	w watched
}

func (f watchedFile) ReadAt(b []byte, off int64) (int, error) {
	if len(b) > f.w.most {
		f.w.t.Fatalf("%d bytes are read of a file of %d", len(b), f.w.most)
	}
	return f.File.ReadAt(b, off)
}

// A length in a file does not make reading it take more memory than the file
// has bytes.
func TestLengthsTakeNoMemory(t *testing.T) {
	is := is.New(t)
	for _, n := range []uint32{1 << 16, 1 << 30, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		m := newMemory(nil)
		b := header{layout: plainLayout, format: format}.append(nil, logMagic)
		b = binary.BigEndian.AppendUint32(b, n)
		b = append(b, make([]byte, 1000)...)
		m.seen[fileName(logName, 0)] = &inode{data: b}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, done, err := replayed(t, m, len(b))
		runtime.ReadMemStats(&after)
		is.NoErr(err)
		is.Equal(done.Cut, int64(len(b)-headerSize))
		is.True(after.TotalAlloc-before.TotalAlloc < 1<<20)
	}
	b := append([]byte{1}, binary.AppendUvarint(nil, 1<<40)...)
	_, err := parseOps(nil, b)
	is.True(errors.Is(err, errFrame))
	_, err = (&reader{file: bytes.NewReader(nil)}).next()
	is.Equal(err, io.EOF)
}

// FuzzSurvey checks that a log of any bytes is surveyed safely. The records it
// finds must have rising numbers and be read the same twice. With mend, all
// checksums are right.
func FuzzSurvey(f *testing.F) {
	f.Add([]byte{}, false)
	whole := append(header{layout: plainLayout, format: format}.append(nil, logMagic), sealed(
		State{Seq: 1}, []byte("\x01\x03key\x05value"),
	)...)
	f.Add(append(append(whole, "torn"...), sealed(State{Seq: 3}, []byte("\x81\x03key"))...), false)
	f.Add(whole[:len(whole)-1], true)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		is := is.New(t)
		if mend {
			b = mended(b, header{layout: plainLayout, format: format}, logMagic)
		}
		m := newMemory(nil)
		m.seen[fileName(logName, 0)] = &inode{data: b}
		j, err := New(m, format)
		if err != nil {
			is.True(errors.As(err, new(*Newer)))
			return
		}
		s, err := j.Survey(0, func(int64) {})
		is.NoErr(err)
		first, second := &counted{t: t}, &counted{t: t}
		_, err = s.Salvage(nil, first)
		is.NoErr(err)
		_, err = s.Salvage(nil, second)
		is.NoErr(err)
		is.Equal(first.records, second.records)
	})
}
