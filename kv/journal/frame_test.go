package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/matryer/is"
)

func TestOps(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 300)
	for i, test := range []struct {
		op      Op
		encoded string
	}{
		{Op{0, []byte{}, []byte{}}, "\x00\x00\x00"},
		{Op{0, []byte{}, nil}, "\x80\x00"},
		{Op{1, []byte("key"), []byte("value")}, "\x01\x03key\x05value"},
		{Op{127, []byte("key"), []byte{}}, "\x7f\x03key\x00"},
		{Op{127, []byte("key"), nil}, "\xff\x03key"},
		{Op{5, long, long}, "\x05\xac\x02" + string(long) + "\xac\x02" + string(long)},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			is := is.New(t)
			is.Equal(string(test.op.append([]byte("before"))), "before"+test.encoded)
			got, err := parseOps(nil, []byte(test.encoded))
			is.NoErr(err)
			is.Equal(got, []Op{test.op})
			for n := 1; n < len(test.encoded); n++ { // no encoding is the beginning of another
				_, err := parseOps(nil, []byte(test.encoded[:n]))
				is.True(errors.Is(err, errFrame))
			}
		})
	}
	is := is.New(t)
	none, err := parseOps(nil, nil)
	is.NoErr(err)
	is.Equal(len(none), 0)
	for _, bad := range []string{
		"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x01\x01k\x80",
	} {
		_, err := parseOps(nil, []byte(bad))
		is.True(errors.Is(err, errFrame))
	}
}

// The ops of a record share memory. Appending to one's key does not change
// another.
func TestOpsDoNotOverlap(t *testing.T) {
	is := is.New(t)
	ops, err := parseOps(nil, []byte("\x01\x01k\x01v\x02\x01l\x01w"))
	is.NoErr(err)
	_ = append(ops[0].Key, "xxx"...)
	_ = append(ops[0].Value, "xxx"...)
	is.Equal(ops, []Op{{1, []byte("k"), []byte("v")}, {2, []byte("l"), []byte("w")}})
}

func TestRecord(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 20))
	var r Record
	var b book
	for range 200 {
		is := is.New(t)
		ops := someOps(rnd)
		next := b.with(&r, ops)
		rd := &reader{file: bytes.NewReader(r.seal(next.State)), size: int64(len(r.buf))}
		payload, err := rd.next()
		is.NoErr(err)
		is.Equal(binary.BigEndian.Uint64(payload), next.Seq)
		is.Equal(Digest(binary.BigEndian.Uint64(payload[8:])), next.Digest)
		got, err := parseOps(nil, payload[stateSize:])
		is.NoErr(err)
		is.Equal(got, ops)
		_, err = rd.next()
		is.Equal(err, io.EOF)

		var whole Digest // the same for every order of changes
		for op := range next.all() {
			whole.Add(op, nil)
		}
		is.Equal(next.Digest, whole)
		b = next
	}
	is := is.New(t)
	is.True(len(b.entries) > 5)
	r.Reset(b.Digest)
	for op := range b.all() {
		r.Add(Op{op.Bucket, op.Key, nil}, op.Value)
	}
	is.Equal(r.Digest(), Digest(0)) // the empty store

	r.Add(Op{1, nil, make([]byte, 5<<20)}, nil)
	r.Reset(0)
	is.True(cap(r.buf) < 1<<20) // a large record does not hold memory
}

func TestHeader(t *testing.T) {
	is := is.New(t)
	for _, h := range []header{
		{layout: layout, format: 0},
		{layout, 7, State{1, 2}, 1_700_000_000_000},
		{layout, math.MaxUint32, State{math.MaxUint64, math.MaxUint64}, -1},
	} {
		b := h.append([]byte("before"), logMagic)[6:]
		is.Equal(len(b), headerSize)
		got, err := parseHeader(append(b, "after"...), logMagic)
		is.NoErr(err)
		is.Equal(got, h)
		_, err = parseHeader(b, snapMagic)
		is.True(errors.Is(err, errFrame))
		for n := range b {
			_, err := parseHeader(b[:n], logMagic)
			is.True(errors.Is(err, errFrame))
			c := bytes.Clone(b)
			c[n] ^= 0x40
			got, err := parseHeader(c, logMagic)
			is.True(errors.Is(err, errFrame) || got.layout > layout)
		}
	}
	later := header{layout: layout + 1}.append(nil, logMagic)
	clear(later[12:]) // the rest is unknown
	got, err := parseHeader(later, logMagic)
	is.NoErr(err)
	is.Equal(got.layout, uint32(layout+1))
}

func TestNames(t *testing.T) {
	is := is.New(t)
	is.Equal(fileName(logName, 0), "log-0000000000000000")
	is.Equal(fileName(snapName, 0xabc), "snap-0000000000000abc")
	is.Equal(fileName(logName, math.MaxUint64), RecentName)

	m := newMemory(nil)
	for _, name := range []string{
		"snap-0000000000000010", "log-0000000000000010", "log-0000000000000002", "log-fffffffffffffffd", "snap-00000000000000ff",
		// Not part of the journal:
		".new-ABC", "log-10", "log-000000000000000G", "log-00000000000000AB", "log-00000000000000010", "LOG-0000000000000001",
		"snap-", "log-", "log-+000000000000001", "log-0x00000000000001", "log-0000_0000_0000_1", "0000000000000001", "snap-0000000000000001~",
		RecentName, CarriedName,
	} {
		m.seen[name] = &inode{}
	}
	j, err := New(m, format)
	is.NoErr(err)
	g, err := j.files.list()
	is.NoErr(err)
	is.Equal(g, generations{[]uint64{0x10, 0xff}, []uint64{2, 0x10, math.MaxUint64 - 2}})
	is.Equal(g.names(snapName, g.snaps), []string{"snap-0000000000000010", "snap-00000000000000ff"})
	empty, err := j.Empty()
	is.NoErr(err)
	is.True(!empty)

	j, err = New(newMemory(nil), format)
	is.NoErr(err)
	empty, err = j.Empty()
	is.NoErr(err)
	is.True(empty)
}

func TestResync(t *testing.T) {
	whole := func(seq uint64) []byte { return sealed(State{Seq: seq}, []byte("\x01\x03key\x05value")) }
	torn := whole(8)[:20]
	for name, test := range map[string]struct {
		file []byte
		want int64 // -1 for nothing
	}{
		"nothing":               {nil, -1},
		"too short":             {make([]byte, frameHead+stateSize-1), -1},
		"zeros":                 {make([]byte, 5000), -1},
		"a torn one":            {torn, -1},
		"the next":              {slices.Concat(torn, whole(8)), 20},
		"at the very beginning": {whole(8), 0},
		"one after":             {slices.Concat(torn, make([]byte, 700), whole(9)), 720},
		"the last that counts":  {slices.Concat(torn, whole(7+1<<20)), 20},
		"one too far":           {slices.Concat(torn, whole(8+1<<20)), -1},
		"the same again":        {slices.Concat(torn, whole(7)), -1},
		"older ones":            {slices.Concat(torn, whole(1), whole(6)), -1},
		"a damaged one":         {slices.Concat(torn, whole(8)[:30], []byte("x"), whole(8)[31:]), -1},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			before := []byte("whatever")
			r := &reader{file: bytes.NewReader(append(before, test.file...)), at: 8, size: int64(8 + len(test.file))}
			at, found := r.resync(7)
			is.Equal(found, test.want >= 0)
			if found {
				is.Equal(at, 8+test.want)
			}
		})
	}
}

// Frames are read into reused memory. A wrong length allocates none, and the
// memory for one long frame is released.
func TestReaderMemory(t *testing.T) {
	is := is.New(t)
	frame := func(n int) []byte { return sealFrame(append(make([]byte, frameHead), make([]byte, n)...)) }
	var file []byte
	for range 200 {
		file = append(file, frame(100<<10)...)
	}
	file = append(file, frame(20<<20)...)
	long := len(file)
	for range 20 {
		file = append(file, frame(100<<10)...)
	}
	wrong := len(file)
	file = append(file, frame(30<<20)...)
	file[len(file)-1] ^= 1
	var told int64
	r := &reader{file: bytes.NewReader(file), size: int64(len(file)), onRead: func(n int64) { told += n }}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for r.at < int64(long-20<<20-frameHead) {
		_, err := r.next()
		is.NoErr(err)
	}
	runtime.ReadMemStats(&after)
	is.True(after.TotalAlloc-before.TotalAlloc < 2*ahead)
	for r.at < int64(wrong) {
		_, err := r.next()
		is.NoErr(err)
	}
	is.True(cap(r.mem) <= keepBytes)
	runtime.ReadMemStats(&before)
	_, err := r.next()
	runtime.ReadMemStats(&after)
	is.True(errors.Is(err, errFrame))
	is.True(after.TotalAlloc-before.TotalAlloc < 2*ahead)
	is.True(told >= int64(wrong) && told <= int64(len(file)))
}

// A record is found wherever it begins, also across the pieces that are read.
func TestResyncFar(t *testing.T) {
	is := is.New(t)
	whole := sealed(State{Seq: 8}, []byte("\x01\x03key\x05value"))
	for off := ahead - len(whole) - 2; off < ahead+2; off++ {
		file := append(make([]byte, off), whole...)
		file = append(file, make([]byte, 10)...)
		at, found := (&reader{file: bytes.NewReader(file), size: int64(len(file))}).resync(7)
		is.True(found)
		is.Equal(at, int64(off))
	}
}
