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

// A record at the end that is whole and does not fit is no torn one: a number
// was left out before it, or it was not this program that wrote it.
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

// What a disk has kept in a block from a log that was removed is not taken for
// a record that comes after.
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
