package ship_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// open opens a store that ships to the remote.
func open(t *testing.T, dir string, o ship.Options, now func() time.Time) (*kv.Store, *ship.Shipper, error) {
	t.Helper()
	o.Log, o.Address = kvtest.Quiet, "s3://test/kist"
	s := ship.New(o)
	store, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Now: now, Ship: s})
	return store, s, err
}

// opened is open that must succeed. The store is closed when the test ends.
func opened(t *testing.T, dir string, o ship.Options, now func() time.Time) (*kv.Store, *ship.Shipper) {
	t.Helper()
	store, s, err := open(t, dir, o, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, s
}

// ready waits until the store has been taken over, so that commits are shipped.
func ready(t *testing.T, store *kv.Store) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if err := tried(store); err == nil {
			return
		}
	}
	t.Fatal("the store does not get ready")
}

// tried makes a commit.
func tried(store *kv.Store) error {
	return store.Update(func(tx *kv.Tx) error {
		return tx.Put(workcopy.MetaBucket, []byte("tried"), fmt.Append(nil, rand.Uint64()))
	})
}

// restored opens what the remote has at an instant.
func restored(t *testing.T, m blobs.Remote, at time.Time) (*kv.Store, *ship.Fetched, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := ship.Fetch(t.Context(), m, at, workcopy.Format, dir)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(datadir.WriteInstance(dir, got.Instance), got.Claim(dir)); err != nil {
		t.Fatal(err)
	}
	return kvtest.OpenAt(t, dir, nil), got, nil
}

// differing returns a key whose value differs; "" if they agree.
func differing(got, want map[string]string) string {
	for _, m := range []map[string]string{got, want} {
		for key := range m {
			if got[key] != want[key] {
				return fmt.Sprintf("%q is %q, not %q", key, got[key], want[key])
			}
		}
	}
	return ""
}

// What the remote has is the store, whatever was in the data directory before.
func TestRestoreIsTheStore(t *testing.T) {
	t.Parallel()
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprintf("sync %v", sync), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newMemory()
			dir, owner := kvtest.Inhabited(t)
			for range 3 { // stops and starts
				store, _ := opened(t, dir, ship.Options{Remote: m, Sync: sync}, nil)
				ready(t, store)
				for i := range 20 {
					kvtest.Add(t, store, owner, record.Notes, fmt.Sprintf(`{"content":"note %d","tags":["t"]}`, i))
				}
				want := kvtest.ContentOf(t, store)
				is.NoErr(store.Close())
				back, _, err := restored(t, m, time.Time{})
				is.NoErr(err)
				is.Equal(differing(kvtest.ContentOf(t, back), want), "")
			}
			is.Equal(len(m.names("meta")), 1)
			is.Equal(len(m.names("snap/")), 1) // only the first start had to copy everything
			is.Equal(len(m.names("race/")), 0)
		})
	}
}

// In sync mode a restore at any moment has every commit that was acknowledged before,
// and of the others a prefix, whatever the network does.
func TestSyncLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newMemory()
			store, _ := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m, Sync: true}, nil)
			ready(t, store)
			u := kvtest.User(t, store, "ann")
			rnd := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			faulty := func(share int) func(string, string) error {
				return func(string, string) error {
					mu.Lock()
					defer mu.Unlock()
					if rnd.IntN(100) < share {
						return errCut
					}
					return nil
				}
			}
			m.set(faulty(12), faulty(12))
			acknowledged, refused := map[string]bool{}, 0
			for i := range 31 {
				name := fmt.Sprint("note", i)
				err := store.Update(func(tx *kv.Tx) error {
					return tx.Put(kv.SumBucket, append(u.ID[:], name...), []byte(name))
				})
				if acknowledged[name] = err == nil; err != nil {
					refused++
				}
				if i%10 > 0 {
					continue
				}
				back, _, err := restored(t, m.copied(), time.Time{})
				is.NoErr(err)
				have, all := 0, kvtest.ContentOf(t, back)
				for j := range i + 1 {
					name := fmt.Sprint("note", j)
					_, has := all[kv.SumBucket.Name+string(u.ID[:])+name]
					is.True(has || !acknowledged[name])
					if has {
						have++
					}
				}
				is.True(have > i/2)
			}
		})
	}
}

// A server that was taken over ships nothing more, acknowledges nothing more in sync
// mode, and does not start again.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	dir := filepath.Join(t.TempDir(), "data")
	first, old := opened(t, dir, ship.Options{Remote: m, Sync: true, URL: "https://first"}, nil)
	ready(t, first)
	is.NoErr(tried(first)) // the control

	place := t.TempDir()
	got, err := ship.Fetch(t.Context(), m, time.Time{}, workcopy.Format, place)
	is.NoErr(err)
	is.NoErr(errors.Join(datadir.WriteInstance(place, got.Instance), got.Claim(place)))
	second, _ := opened(t, place, ship.Options{Remote: m, Sync: true, URL: "https://second"}, nil)
	ready(t, second)
	objects := len(m.names("log/"))
	var refused *record.Error
	is.True(errors.As(tried(first), &refused))
	is.Equal(refused.Code, "not_the_writer")
	is.True(errors.As(tried(first), &refused)) // from now on without asking
	is.Equal(len(m.names("log/")), objects)
	is.True(strings.Contains(old.Status().Failure.Error(), "https://second"))
	is.NoErr(tried(second))
	is.NoErr(first.Close())
	_, _, err = open(t, dir, ship.Options{Remote: m, Sync: true}, nil)
	is.True(err != nil && strings.Contains(err.Error(), "another server (https://second) has taken over"))
	is.NoErr(second.Close())
	second, _ = opened(t, place, ship.Options{Remote: m}, nil) // the control: the writer may start again
	is.NoErr(second.Close())
	back, _, err := restored(t, m, time.Time{})
	is.NoErr(err)
	is.NoErr(kvtest.FirstError(back.Close()))
}

// A data directory that was restored to the past cannot continue the history, nor can
// one of another instance.
func TestForeign(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	m := newMemory()
	store, _ := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m, Sync: true}, clock.Now)
	ready(t, store)
	clock.Add(time.Hour)
	past := clock.Now()
	clock.Add(time.Hour)
	is.NoErr(tried(store))
	is.NoErr(store.Close())

	_, _, err := open(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m}, nil)
	is.True(err != nil && strings.Contains(err.Error(), "belongs to instance"))

	dir := t.TempDir()
	got, err := ship.Fetch(t.Context(), m, past, workcopy.Format, dir)
	is.NoErr(err)
	is.True(!got.Whole)
	is.NoErr(errors.Join(datadir.WriteInstance(dir, got.Instance), got.Claim(dir)))
	_, _, err = open(t, dir, ship.Options{Remote: m}, clock.Now)
	is.True(err != nil && strings.Contains(err.Error(), "has taken over"))
	other, _ := opened(t, dir, ship.Options{Remote: newMemory()}, clock.Now) // the control: another prefix
	is.NoErr(other.Close())
}

// Fetch gives the store as it was at any instant.
func TestRestoreAtAnyTime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	m := newMemory()
	dir := filepath.Join(t.TempDir(), "data")
	type moment struct {
		at   time.Time
		want map[string]string
	}
	var all []moment
	rnd := rand.New(rand.NewPCG(1, 2))
	var owner record.ID
	for round := range 4 {
		store, _ := opened(t, dir, ship.Options{Remote: m, Sync: true}, clock.Now)
		ready(t, store)
		if round == 0 {
			owner = kvtest.User(t, store, "ann").ID
		}
		for i := range 15 {
			clock.Add(time.Duration(1+rnd.IntN(1000)) * time.Millisecond)
			kvtest.Add(t, store, owner, record.Notes, fmt.Sprintf(`{"content":"%d %d"}`, round, i))
			all = append(all, moment{clock.Now(), kvtest.ContentOf(t, store)})
		}
		is.NoErr(store.Close())
		if round == 1 { // the store is used without the flag, and the old part of the journal is removed
			clock.Add(time.Second)
			alone := kvtest.OpenAt(t, dir, clock.Now)
			kvtest.Add(t, alone, owner, record.Notes, `{"content":"alone"}`)
			is.NoErr(alone.Compact())
			is.NoErr(alone.Close())
			newest := filepath.Base(kvtest.NewestFile(t, dir, "snap"))
			for path := range kvtest.FilesIn(t, filepath.Join(dir, "journal")) {
				if _, seq, _ := strings.Cut(filepath.Base(path), "-"); seq < strings.TrimPrefix(newest, "snap-") {
					is.NoErr(os.Remove(path))
				}
			}
		}
	}
	is.Equal(len(m.names("snap/")), 2) // the gap has one, too
	for range 50 {
		got := all[rnd.IntN(len(all))]
		back, _, err := restored(t, m, got.at)
		is.NoErr(err)
		is.Equal(differing(kvtest.ContentOf(t, back), got.want), "")
		is.NoErr(back.Close())
	}
	_, _, err := restored(t, m, all[0].at.Add(-24*time.Hour))
	is.True(err != nil && strings.Contains(err.Error(), "begins after"))
}

// What is wrong in the remote is named.
func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	dir, owner := kvtest.Inhabited(t)
	store, _ := opened(t, dir, ship.Options{Remote: m, Sync: true}, nil)
	ready(t, store)
	for range 10 {
		kvtest.Add(t, store, owner, record.Notes, `{"content":"note"}`)
	}
	is.NoErr(store.Close())
	log := m.names("log/")
	middle := log[len(log)/2]
	_, _, err := restored(t, m, time.Time{})
	is.NoErr(err) // the control

	gone := m.copied()
	delete(gone.objects, middle)
	_, _, err = restored(t, gone, time.Time{})
	is.True(err != nil && strings.Contains(err.Error(), middle+" is missing"))

	rnd := rand.New(rand.NewPCG(1, 3))
	for range 50 {
		bad := m.copied()
		bad.objects[middle][rnd.IntN(len(bad.objects[middle]))] ^= 1 << rnd.IntN(8)
		_, _, err = restored(t, bad, time.Time{})
		is.True(err != nil && strings.Contains(err.Error(), middle))
	}

	snap := m.copied() // a damaged snapshot is skipped if the slots before it are there
	name := snap.names("snap/")[0]
	snap.objects[name][200] ^= 1
	_, _, err = restored(t, snap, time.Time{})
	is.True(err != nil)

	other := newMemory()
	dir2, _ := kvtest.Inhabited(t)
	foreign, _ := opened(t, dir2, ship.Options{Remote: other, Sync: true}, nil)
	ready(t, foreign)
	is.NoErr(foreign.Close())
	mixed := m.copied()
	mixed.objects[middle] = other.objects[other.names("log/")[0]]
	_, _, err = restored(t, mixed, time.Time{})
	is.True(err != nil && strings.Contains(err.Error(), middle))
	_, _, err = restored(t, newMemory(), time.Time{})
	is.True(err != nil && strings.Contains(err.Error(), "no data of kist"))
}

// A writer that cannot reach the store stops when it is too late, and goes on when
// the store is back. Without the limit it goes on all the time.
func TestMaxLag(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{0, 300 * time.Millisecond} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newMemory()
			store, s := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m, MaxLag: limit}, nil)
			ready(t, store)
			for s.Status().LastSnapshot.IsZero() {
				is.NoErr(store.View(func(*kv.Tx) error { return nil }))
			}
			m.set(func(string, string) error { return errCut }, nil)
			var err error
			for began := time.Now(); time.Since(began) < 2*time.Second && err == nil; {
				err = tried(store)
			}
			is.Equal(err != nil, limit > 0)
			m.set(nil, nil)
			ready(t, store)
			is.NoErr(store.Close())
			is.Equal(s.Status().Records, uint64(0))
			_, got, err := restored(t, m, time.Time{})
			is.NoErr(err)
			is.True(got.Whole)
		})
	}
}

// An idle store sends nothing, not even a request.
func TestIdle(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	store, s := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m}, nil)
	is.NoErr(tried(store))
	for s.Status().Records > 0 {
		is.NoErr(store.View(func(*kv.Tx) error { return nil }))
	}
	m.set(func(verb, name string) error { t.Error("an idle store asks", verb, name); return nil }, nil)
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; {
		is.NoErr(store.View(func(*kv.Tx) error { return nil }))
	}
	m.set(nil, nil)
}

// A store that lets several writers win is found out.
func TestRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	exact, err := ship.Race(t.Context(), newMemory())
	is.NoErr(err)
	is.True(exact)
	exact, err = ship.Race(t.Context(), &memory{objects: map[string][]byte{}, loose: true})
	is.NoErr(err)
	is.True(!exact)
	m := newMemory()
	m.set(func(string, string) error { return errCut }, nil)
	_, err = ship.Race(t.Context(), m)
	is.True(errors.Is(err, errCut))
}

// Without a Shipper a commit does nothing for it.
func TestNoShipper(t *testing.T) {
	is := is.New(t)
	var s *ship.Shipper
	is.Equal(testing.AllocsPerRun(100, func() {
		if errors.Join(s.Start(ship.Source{}), s.Refuse(), s.Committed(journal.State{}, 1), s.Close()) != nil {
			t.Error("a Shipper that is nil fails")
		}
	}), 0.0)
}
