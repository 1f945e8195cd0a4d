package ship_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/kvtest/needs"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/workcopy"
)

// Merging changes nothing that can be restored, wherever it is cut short. It leaves the
// slots that stop a former writer.
func TestMerge(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	m := newMemory()
	dir := filepath.Join(t.TempDir(), "data")
	var owner record.ID
	var moments []time.Time
	var edges []string // the slots at the ends of epochs
	for round := range 3 {
		store, _ := opened(t, dir, ship.Options{Remote: m, Sync: true}, clock.Now)
		ready(t, store)
		if round == 0 {
			owner = kvtest.User(t, store, "ann").ID
		}
		first := len(m.names("log/"))
		for i := range 12 {
			clock.Add(time.Second)
			kvtest.Add(t, store, owner, record.Notes, fmt.Sprintf(`{"content":"%d %d"}`, round, i))
			moments = append(moments, clock.Now())
		}
		is.True(len(m.names("log/")) >= first+12)
		is.NoErr(store.Close())
		names := m.names("log/")
		edges = append(edges, names[len(names)-1])
		if round < 2 {
			edges = append(edges, fmt.Sprintf("log/%016x", len(names)+1)) // the next fence
		}
	}
	instance, err := datadir.ReadInstance(dir)
	is.NoErr(err)
	states := func(m *memory) (all []journal.State) {
		t.Helper()
		for _, at := range append(moments, time.Time{}) {
			got, err := ship.Fetch(t.Context(), m, at, workcopy.Format, t.TempDir())
			is.NoErr(err)
			all = append(all, got.State)
		}
		slots, err := ship.Check(t.Context(), m, workcopy.Format, instance, func(err error) { t.Error(err) })
		is.NoErr(err)
		is.True(slots >= 36)
		return all
	}
	want := states(m)
	before := len(m.names("log/"))
	for step := 0; ; step++ {
		c := m.copied()
		n := 0
		fail := func(verb, _ string) error {
			if verb != "put" && verb != "delete" {
				return nil
			}
			n++
			if n > step {
				return errCut
			}
			return nil
		}
		if step%2 == 0 { // the answer is lost, or the request is
			c.set(fail, nil)
		} else {
			c.set(nil, fail)
		}
		err := ship.Merge(t.Context(), c)
		c.set(nil, nil)
		if step%7 == 0 || err == nil {
			is.Equal(states(c), want) // step
		}
		whole := err == nil
		is.NoErr(ship.Merge(t.Context(), c))
		names := c.names("log/")
		is.True(len(names) < 12 && len(names) < before/2)
		for _, name := range edges {
			_, there := c.objects[name]
			is.True(there) // name
		}
		if step%7 == 0 {
			is.Equal(states(c), want)
		}
		if whole {
			is.True(step > 20) // there were as many steps
			break
		}
	}
}

// paged is a remote that lists in pages of three.
type paged struct {
	*memory
	next func() // called before the second page of the log
}

func (p *paged) After(ctx context.Context, prefix, after string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		for {
			n := 0
			for o, err := range p.memory.After(ctx, prefix, after) {
				n++
				if n > 3 {
					break
				}
				after = o.Name
				if !yield(o, err) {
					return
				}
			}
			if n <= 3 {
				return
			}
			if p.next != nil && prefix == "log/" {
				p.next()
				p.next = nil
			}
		}
	}
}

// Slots that are merged while they are listed are not missing.
func TestMergeWhileListed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	dir := filepath.Join(t.TempDir(), "data")
	store, _ := opened(t, dir, ship.Options{Remote: m, Sync: true}, nil)
	ready(t, store)
	for range 20 {
		is.NoErr(tried(store))
	}
	is.NoErr(store.Close())
	instance, err := datadir.ReadInstance(dir)
	is.NoErr(err)
	p := &paged{m, func() { is.NoErr(ship.Merge(t.Context(), m)) }}
	_, err = ship.Check(t.Context(), p, workcopy.Format, instance, func(err error) { t.Error(err) })
	is.NoErr(err)
	is.True(p.next == nil)
}

// mergedAt merges the slots before a call of Get.
type mergedAt struct {
	*memory
	gets atomic.Int64 // calls before that
	fn   func()
}

func (m *mergedAt) Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	if m.gets.Add(-1) == -1 {
		m.fn()
	}
	return m.memory.Get(ctx, name, from, n)
}

// Whenever slots are merged, those who read meanwhile find them.
func TestMergeWhileRead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	m := newMemory()
	dir := filepath.Join(t.TempDir(), "data")
	store, _ := opened(t, dir, ship.Options{Remote: m, Sync: true}, clock.Now)
	ready(t, store)
	owner := kvtest.User(t, store, "ann").ID
	var middle time.Time
	for i := range 24 {
		clock.Add(time.Second)
		kvtest.Add(t, store, owner, record.Notes, fmt.Sprintf(`{"content":"%d"}`, i))
		if i == 12 {
			middle = clock.Now()
			is.NoErr(store.Compact())
		}
	}
	is.NoErr(store.Close())
	for _, at := range []time.Time{{}, middle} {
		want, err := ship.Fetch(t.Context(), m, at, workcopy.Format, t.TempDir())
		is.NoErr(err)
		for n := 0; ; n++ {
			r := &mergedAt{memory: m.copied()}
			r.gets.Store(int64(n))
			r.fn = func() { is.NoErr(ship.Merge(t.Context(), r.memory)) }
			got, err := ship.Fetch(t.Context(), r, at, workcopy.Format, t.TempDir())
			is.NoErr(err) // n
			is.Equal(got.State, want.State)
			if r.gets.Load() >= 0 {
				break
			}
		}
	}
}

// A damaged slot is not put together with others, which could not be read then. The
// control is an object that has them all.
func TestMergeDamaged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	m := newMemory()
	store, _ := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m, Sync: true}, clock.Now)
	ready(t, store)
	var moments []time.Time
	for range 40 {
		clock.Add(time.Second)
		is.NoErr(store.Update(func(tx *kv.Tx) error {
			return tx.Put(
				workcopy.MetaBucket, kv.MetaInstant, binary.BigEndian.AppendUint64(nil, uint64(clock.Now().UnixMilli())),
			)
		}))
		moments = append(moments, clock.Now())
	}
	is.NoErr(store.Close())
	names := m.names("log/")
	bad := names[len(names)-20]
	m.objects[bad][len(m.objects[bad])-1] ^= 1
	last := func(m *memory) (n int) { // the moment before which all can be restored
		for n < len(moments) {
			if _, err := ship.Fetch(t.Context(), m, moments[n], workcopy.Format, t.TempDir()); err != nil {
				break
			}
			n++
		}
		return n
	}
	whole := last(m)
	is.True(whole > 15 && whole < 30)
	all := m.copied()
	var body []byte
	for _, name := range names[1:] {
		body = append(body, m.objects[name]...)
	}
	all.objects[names[1]+"-"+strings.TrimPrefix(names[len(names)-1], "log/")] = body
	is.Equal(last(all), whole) // the slots after the damage are hidden
	is.NoErr(ship.Merge(t.Context(), m))
	is.Equal(last(m), whole)
	is.True(len(m.names("log/")) < 15)
	is.True(slices.Contains(m.names("log/"), bad))
}
