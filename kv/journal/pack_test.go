package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

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

// Logs that a snapshot supersedes are compressed under the same name. They get
// smaller and have the same content, and so do files that were opened before.
func TestPack(t *testing.T) {
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
	is.NoErr(j.Pack(t.Context(), State{Seq: 800}))
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
	again := m.copied()
	is.NoErr(j.Pack(t.Context(), State{Seq: 800})) // nothing is left to do
	is.Equal(layouts(m), layouts(again))
}

// Pack leaves alone a damaged log, a log for which there is no space, and all
// logs when the time is over.
func TestPackLeaves(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 71))
	first := fileName(logName, 0)
	for name, test := range map[string]struct {
		harm   func(*memory, *Journal) context.Context
		failed bool
	}{
		"damaged": {func(m *memory, _ *Journal) context.Context { m.seen[first].data[100] ^= 1; return t.Context() }, false},
		"no room": {func(_ *memory, j *Journal) context.Context {
			j.OnDisk(func() (Space, error) { return Space{Free: 1000, Reserve: 900}, nil })
			return t.Context()
		}, false},
		"full": {func(m *memory, _ *Journal) context.Context {
			m.fail = func(step, _ string) error {
				if step == "fill" {
					return syscall.ENOSPC
				}
				return nil
			}
			return t.Context()
		}, true},
		"stopped": {func(*memory, *Journal) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		}, true},
	} {
		is := is.New(t)
		m := newMemory(rnd)
		j, b := generationsOf(t, m, 4)
		ctx := test.harm(m, j)
		before := bytes.Clone(m.seen[first].data)
		err := j.Pack(ctx, State{Seq: 9})
		if (err != nil) != test.failed {
			t.Errorf("%s: %v", name, err)
		}
		is.True(bytes.Equal(m.seen[first].data, before))
		m.fail = nil
		got, _, err := replay(j)
		is.NoErr(err)
		is.True(got.is(b))
	}
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
	is.NoErr(j.Pack(t.Context(), b.State))
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
