package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"kist/kv/kvtest/needs"

	"github.com/matryer/is"
)

// compress compresses the logs that ended before the state, as former versions did.
func compress(j *Journal, at State) error {
	g, err := j.files.list()
	if err != nil {
		return err
	}
	for i, seq := range g.logs {
		if seq >= at.Seq || i+1 == len(g.logs) {
			break
		}
		if err := compressLog(j, seq, g.logs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// compressLog compresses the log from seq to next, where the next log begins.
func compressLog(j *Journal, seq, next uint64) error {
	name := fileName(logName, seq)
	f, r, h, err := j.files.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if h.layout != plainLayout {
		return nil
	}
	var b bytes.Buffer
	h.layout = layout
	b.Write(h.append(nil, logMagic))
	p := &packer{w: &b}
	for seq < next {
		payload, err := r.next()
		if err != nil {
			return err
		}
		seq = binary.BigEndian.Uint64(payload)
		if err := p.add(payload); err != nil {
			return err
		}
	}
	if err := p.flush(); err != nil {
		return err
	}
	return j.files.folder.Publish(name, func(w io.Writer) error {
		_, err := w.Write(b.Bytes())
		return err
	})
}

// packer writes the frames of a log of layout 2.
type packer struct {
	w              io.Writer
	records        []byte // records for the next frame
	last           [stateSize]byte
	packed, backup []byte // reused memory
	frame          []byte
}

// add adds the payload of a record.
func (p *packer) add(payload []byte) error {
	if len(p.records)+len(payload) > packTarget {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if len(payload) > maxPacked {
		p.frame = append(append(p.frame[:0], make([]byte, frameHead)...), payload...)
		err := p.write(plainRecord)
		p.frame = nil // it may be very long
		return err
	}
	p.records = binary.AppendUvarint(p.records, uint64(len(payload)))
	p.records = append(p.records, payload...)
	copy(p.last[:], payload)
	return nil
}

// flush writes the added records in a frame.
func (p *packer) flush() error {
	if len(p.records) == 0 {
		return nil
	}
	var err error
	p.packed, p.backup, err = pack(p.packed, p.backup, p.records)
	if err != nil {
		return err
	}
	p.frame = append(append(p.frame[:0], make([]byte, frameHead)...), p.last[:]...)
	p.frame = append(p.frame, p.packed...)
	p.records = p.records[:0]
	return p.write(packedRecords)
}

func (p *packer) write(kind byte) error {
	p.frame = append(p.frame, kind)
	_, err := p.w.Write(sealFrame(p.frame))
	return err
}

// layouts returns the layouts of the files, by name.
func layouts(m *memory) map[string]byte {
	all := map[string]byte{}
	for name, f := range m.seen {
		if name != RecentName {
			all[name] = f.data[11]
		}
	}
	return all
}

// A compressed log has the same content as the plain one.
func TestCompressedLogs(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 70)))
	j, b := opened(t, m)
	var r Record
	states := map[string]book{}
	for n := range 3 {
		for i := range 400 {
			ops := []Op{{1, fmt.Appendf(nil, "key %d", i), bytes.Repeat([]byte("some words "), 1+i)}}
			if i == 200 { // one that is not compressed
				ops = append(ops, Op{2, []byte("large"), someBytes(m.rnd, maxPacked+1)})
			}
			b = b.with(&r, ops)
			is.NoErr(j.Append(&r, b.State))
		}
		name, _ := j.End()
		states[name] = b
		is.NoErr(j.Begin(b.State))
		if n < 2 {
			is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
		}
	}
	before := m.copied()
	old, err := m.Open(fileName(logName, 0))
	is.NoErr(err)
	size, err := old.Size()
	is.NoErr(err)
	is.NoErr(compress(j, State{Seq: 800}))
	is.NoErr(problems(j))
	is.Equal(layouts(m), map[string]byte{
		fileName(logName, 0): layout, fileName(logName, 400): layout, fileName(logName, 800): plainLayout, fileName(logName, 1200): plainLayout,
		fileName(snapName, 400): layout, fileName(snapName, 800): layout,
	})
	is.True(holds(t, m).is(b))
	is.True(len(m.seen[fileName(logName, 0)].data)-maxPacked < (int(size)-maxPacked)/3)
	whole := make([]byte, size)
	_, err = old.ReadAt(whole, 0)
	is.NoErr(err)
	is.True(bytes.Equal(whole, before.seen[fileName(logName, 0)].data))

	// Without snapshots everything is read from the logs.
	for name := range m.seen {
		if strings.HasPrefix(name, snapName) {
			delete(m.seen, name)
		}
	}
	is.True(holds(t, m).is(b))
}

// A damaged frame loses only its own records: the records of the others can be
// found and read.
func TestPackedDamageIsLocal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 72)))
	j, b := opened(t, m)
	var r Record
	for i := range 300 {
		b = b.with(&r, []Op{{1, fmt.Appendf(nil, "key %d", i), someBytes(m.rnd, 1000)}})
		is.NoErr(j.Append(&r, b.State))
	}
	is.NoErr(j.Begin(b.State))
	is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
	is.NoErr(compress(j, b.State))
	name := fileName(logName, 0)
	marks, _ := frames(t, m.seen[name].data)
	is.True(len(marks) >= 4)
	m.seen[name].data[marks[1]+100] ^= 1

	_, rd, _, err := j.files.open(name)
	is.NoErr(err)
	read, last := 0, uint64(0)
	for {
		at := rd.at
		payload, err := rd.next()
		if errors.Is(err, errFrame) {
			rd.at, rd.buf = at, nil
			whole, found := rd.resync(last)
			is.True(found)
			is.Equal(whole, int64(marks[2]))
			rd.at = whole
			continue
		}
		if err != nil {
			break
		}
		ops, err := parseOps(nil, payload[stateSize:])
		is.NoErr(err)
		is.Equal(len(ops), 1)
		read++
		last = binary.BigEndian.Uint64(payload)
	}
	is.Equal(last, b.Seq)
	is.True(read > 150 && read < 300)
}

// A log that a former version has compressed leads to the state that it had there.
func TestFormerCompressedLog(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	b, err := os.ReadFile("testdata/compressed-log")
	is.NoErr(err)
	m := newMemory(nil)
	m.seen[fileName(logName, 0)] = &inode{data: b}
	m.seen[fileName(logName, 60)] = &inode{
		data: header{plainLayout, format, State{60, 0x917e3b4e06b41381}, 0}.append(nil, logMagic),
	}
	got := holds(t, m)
	is.Equal(len(got.entries), 41)
	is.Equal(got.State, State{60, 0x917e3b4e06b41381})
}
