package journal

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// From the first record that carries something until a clean stop, older programs
// refuse the journal.
func TestCarriedAndOlderPrograms(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 1)))
	j, b := opened(t, m)
	b = add(t, j, b, "one")
	is.True(m.seen[CarriedName] == nil)
	m.fail = func(step, name string) error {
		if name == CarriedName {
			return syscall.ENOSPC
		}
		return nil
	}
	is.True(errors.Is(j.Carry(func() error { return nil }), syscall.ENOSPC))
	m.fail = nil
	is.NoErr(j.Carry(func() error { return nil }))
	add(t, j, b, "two")
	mark := m.cut(m.rnd).seen[CarriedName].data
	is.Equal(hex.EncodeToString(mark), "6b6973742d6c6f6700000004"+hex.EncodeToString(make([]byte, 32)))
	h, err := parseHeader(mark, logMagic)
	is.NoErr(err)
	is.Equal(h.layout, uint32(4)) // New says Newer
	is.NoErr(j.Close())
	is.True(m.cut(m.rnd).seen[CarriedName] == nil)
}

// Before a snapshot and at a stop, what the records carry is put on stable storage.
// If that fails, there is no snapshot, and the stop is not clean.
func TestCarriedIsSettled(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 2)))
	j, b := opened(t, m)
	settled, failure := 0, error(nil)
	is.NoErr(j.Carry(func() error { settled++; return failure }))
	b = add(t, j, b, "one")
	is.NoErr(j.Begin(b.State))
	is.Equal(settled, 0) // the log before is still read
	failure = syscall.EIO
	is.True(errors.Is(j.Snapshot(t.Context(), b.State, format, b.all()), syscall.EIO))
	is.Equal(settled, 1)
	g, err := j.files.list()
	is.NoErr(err)
	is.Equal(len(g.snaps), 0)
	failure = nil
	is.NoErr(j.Snapshot(t.Context(), b.State, format, b.all()))
	is.Equal(settled, 2)

	failure = syscall.EIO
	is.True(errors.Is(j.Close(), syscall.EIO))
	is.True(m.seen[CarriedName] != nil)
}

// Records goes on after damage and says what is damaged.
func TestRecords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory(rand.New(rand.NewPCG(1, 3)))
	j, b := opened(t, m)
	b = add(t, j, b, "one")
	is.NoErr(j.Begin(b.State))
	second := b.State
	b = add(t, j, b, "two")
	is.NoErr(j.Begin(b.State))
	add(t, j, b, "three")
	count := func(from uint64) (n int, err error) {
		err = j.Records(from, func([]Op) error { n++; return nil })
		return n, err
	}
	n, err := count(0)
	is.NoErr(err)
	is.Equal(n, 3)
	n, err = count(second.Seq)
	is.NoErr(err)
	is.Equal(n, 2)
	m.seen[fileName(logName, second.Seq)].data[headerSize+frameHead] ^= 1
	n, err = count(0)
	is.True(IsDamage(err))
	is.Equal(n, 2)
	stop := errors.New("stop")
	is.True(errors.Is(j.Records(0, func([]Op) error { return stop }), stop))
}
