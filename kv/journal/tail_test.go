package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/matryer/is"
)

// sealed is the frame of a record with any payload behind its state.
func sealed(to State, rest []byte) []byte {
	b := make([]byte, frameHead, frameHead+stateSize+len(rest))
	b = binary.BigEndian.AppendUint64(b, to.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(to.Digest))
	return sealFrame(append(b, rest...))
}

// A whole record at the end that does not fit is not a torn one: a number is
// missing before it, or another program wrote it.
func TestWholeRecordThatDoesNotFit(t *testing.T) {
	for what, frame := range map[string][]byte{
		"jump":     sealed(State{Seq: 5}, Op{1, []byte("k"), []byte("v")}.append(nil)),
		"nonsense": sealed(State{Seq: 4}, []byte{1, 200}),
	} {
		t.Run(what, func(t *testing.T) {
			is := is.New(t)
			m := newMemory(rand.New(rand.NewPCG(1, 10)))
			generationsOf(t, m, 1)
			log := m.seen[fileName(logName, 0)]
			at := len(log.data)
			log.data = append(log.data, frame...)
			j, err := New(m, format)
			is.NoErr(err)
			_, done, err := replay(j)
			var damage *Damaged
			is.True(errors.As(err, &damage))
			is.Equal(damage.At, int64(at))
			is.Equal(done.Seq, uint64(3))
			is.True(errors.As(problems(j), &damage))
		})
	}
}

// Remains of a removed log in a disk block do not count as later records.
func TestOldRecordBehindTheEnd(t *testing.T) {
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 11)))
	_, b := generationsOf(t, m, 1)
	log := m.seen[fileName(logName, 0)]
	for _, tail := range [][]byte{sealed(State{Seq: 2}, nil), append(make([]byte, 13), sealed(State{Seq: 3}, nil)...)} {
		whole := log.data
		log.data = append(bytes.Clone(whole), tail...)
		j, err := New(m, format)
		is.NoErr(err)
		got, done, err := replay(j)
		is.NoErr(err)
		is.True(got.is(b))
		is.Equal(done.Cut, int64(len(tail)))
		log.data = whole
	}
}

// However the newest log is torn, Replay reads its longest beginning of whole
// records. Records appended after that are then found as well.
func TestTornTails(t *testing.T) {
	cuts := 300
	if *long {
		cuts = 20_000
	}
	rnd := rand.New(rand.NewPCG(1, 30))
	m := newMemory(rnd)
	j, b := generationsOf(t, m, 3)
	var r Record
	is.New(t).NoErr(j.Begin(b.State))
	name, _ := j.End()
	ends := map[int]book{headerSize: b} // where whole records end
	for range 15 {
		next := b.with(&r, someOps(rnd))
		is.New(t).NoErr(j.Append(&r, next.State))
		b = next
		ends[len(m.seen[name].data)] = b
	}
	whole := m.seen[name].data
	for i := range cuts {
		is := is.New(t)
		at := headerSize + rnd.IntN(len(whole)+1-headerSize)
		c := withoutRecent(m.copied())
		log := c.seen[name]
		log.data = log.data[:at]
		switch i % 4 {
		case 0:
			log.data = append(log.data, make([]byte, rnd.IntN(3000))...)
		case 1:
			log.data = append(log.data, someBytes(rnd, rnd.IntN(3000))...)
		case 2: // blocks within it were never written
			from := max(at-rnd.IntN(200), headerSize)
			clear(log.data[from:])
			at = from
		}
		end := at
		for ends[end].entries == nil {
			end--
		}
		want := ends[end]
		// The old bytes may be zeros or noise.
		for n := end + 1; n <= len(log.data) && n <= len(whole); n++ {
			if ends[n].entries != nil && bytes.Equal(log.data[:n], whole[:n]) {
				want, end = ends[n], n
			}
		}
		cj, err := New(c, format)
		is.NoErr(err)
		got, done, err := replay(cj)
		is.NoErr(err)
		is.True(got.is(want))
		is.Equal(done.Cut, int64(len(log.data)-end))
		is.NoErr(problems(cj))

		is.NoErr(cj.Begin(got.State))
		for range 3 {
			next := got.with(&r, someOps(rnd))
			is.NoErr(cj.Append(&r, next.State))
			got = next
		}
		is.True(holds(t, c.cut(rnd)).is(got))
	}
}
