package ship_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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
				acknowledged[name] = err == nil
				if err != nil {
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
	is.NoErr(datadir.WriteInstance(place, got.Instance))
	is.NoErr(got.Claim(place))
	_, _, err = open(t, place, ship.Options{Remote: m, Sync: true}, nil)
	is.True(err != nil && strings.Contains(err.Error(), "another server (https://first) writes to s3://test/kist"))
	is.NoErr(tried(first)) // it was not disturbed
	is.NoErr(os.RemoveAll(place))
	is.NoErr(os.Mkdir(place, 0o700))
	got, err = ship.Fetch(t.Context(), m, time.Time{}, workcopy.Format, place)
	is.NoErr(err)
	is.NoErr(datadir.WriteInstance(place, got.Instance))
	is.NoErr(got.Claim(place))
	second, _ := opened(t, place, ship.Options{Remote: m, Sync: true, URL: "https://second", TakeOver: true}, nil)
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
	_, _, err = open(t, dir, ship.Options{Remote: m, Sync: true, TakeOver: true}, nil)
	is.True(err != nil && strings.Contains(err.Error(), "commits that this data directory lacks"))
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
	is.True(err != nil && strings.Contains(err.Error(), "once with --take-over"))
	_, _, err = open(t, dir, ship.Options{Remote: m, TakeOver: true}, clock.Now)
	is.True(err != nil && strings.Contains(err.Error(), "that this data directory lacks"))
	other, _ := opened(t, dir, ship.Options{Remote: newMemory()}, clock.Now) // the control: another prefix
	is.NoErr(other.Close())
}

// filesOf returns the contents that records refer to. The error names one that the remote lacks or
// that differs there.
func filesOf(t *testing.T, store *kv.Store, m *memory) (all []blobs.Ref, err error) {
	t.Helper()
	kvtest.View(t, store, func(tx *kv.Tx) error {
		for k := range tx.Walk(tables.All.Contents()[0].Bucket, nil, nil, false) {
			all = append(all, blobs.Ref(k[:32]))
		}
		return nil
	})
	for _, ref := range all {
		if bad := blobs.CheckBytes(ref, bytes.NewReader(m.objects[ref.RemoteName()])); bad != nil {
			err = fmt.Errorf("content %s: %w", ref, bad)
		}
	}
	return all, err
}

// Fetch gives the store as it was at any instant, with its files.
func TestRestoreAtAnyTime(t *testing.T) {
	needs.Time(t)
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
			content, err := blobs.Open(filepath.Join(dir, "blobs"))
			is.NoErr(err)
			kept, err := stage(t, content, 1+rnd.IntN(1000)).Keep()
			is.NoErr(err)
			is.NoErr(refer(store, kept.Ref))
			kept.Release()
			is.NoErr(content.Close())
			all = append(all, moment{clock.Now(), kvtest.ContentOf(t, store)})
		}
		is.NoErr(store.Close())
		if round == 1 { // the store is used without the flag, and the old part of the journal is removed
			clock.Add(time.Second)
			alone := kvtest.OpenAt(t, dir, clock.Now)
			kvtest.Add(t, alone, owner, record.Notes, `{"content":"alone"}`)
			dropHistory(t, alone)
			is.NoErr(alone.Close())
		}
	}
	is.Equal(len(m.names("snap/")), 2) // the gap has one, too
	most := 0
	for range 50 {
		got := all[rnd.IntN(len(all))]
		back, _, err := restored(t, m, got.at)
		is.NoErr(err)
		is.Equal(differing(kvtest.ContentOf(t, back), got.want), "")
		files, err := filesOf(t, back, m)
		is.NoErr(err)
		is.True(len(files) > 0)
		lacking := m.copied() // the control
		delete(lacking.objects, files[rnd.IntN(len(files))].RemoteName())
		_, err = filesOf(t, back, lacking)
		is.True(err != nil)
		is.NoErr(back.Close())

		// Whenever the writer is lost, the files of what is there are there.
		part := newMemory()
		for _, name := range m.puts[:10+rnd.IntN(len(m.puts)-10)] {
			if b, there := m.objects[name]; there { // else a short-lived one
				part.objects[name] = b
			}
		}
		if len(part.names("snap/")) == 0 {
			continue
		}
		back, _, err = restored(t, part, time.Time{})
		is.NoErr(err)
		files, err = filesOf(t, back, part)
		is.NoErr(err)
		is.NoErr(back.Close())
		most = max(most, len(files))
	}
	is.True(most > 40) // of 60
	_, _, err := restored(t, m, all[0].at.Add(-24*time.Hour))
	is.True(err != nil && strings.Contains(err.Error(), "begins after"))
}

// What is wrong in the remote is named.
func TestDamageIsNamed(t *testing.T) {
	needs.Time(t)
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
	_, got, err := restored(t, m, time.Time{})
	is.NoErr(err) // the control
	is.NoErr(got.Damage)

	gone := m.copied()
	delete(gone.objects, middle)
	_, got, err = restored(t, gone, time.Time{})
	is.NoErr(err)
	is.Equal(got.Damage.Error(), middle+" is missing in the object store")
	_, _, err = restored(t, gone, time.Now())
	is.True(err != nil && strings.Contains(err.Error(), middle+" is missing") &&
		strings.Contains(err.Error(), "add --at 20"))

	rnd := rand.New(rand.NewPCG(1, 3))
	for range 50 {
		bad := m.copied()
		bad.objects[middle][rnd.IntN(len(bad.objects[middle]))] ^= 1 << rnd.IntN(8)
		_, got, err = restored(t, bad, time.Time{})
		is.NoErr(err)
		is.True(strings.Contains(got.Damage.Error(), middle))
	}

	snap := m.copied() // a damaged snapshot is skipped if the slots before it are there
	name := snap.names("snap/")[0]
	snap.objects[name][200] ^= 1
	_, _, err = restored(t, snap, time.Time{})
	is.True(err != nil)

	other := newMemory()
	dir2, _ := kvtest.Inhabited(t)
	foreign, _ := opened(t, dir2, ship.Options{Remote: other, Sync: true}, nil)
	for range len(log) {
		ready(t, foreign)
	}
	is.NoErr(foreign.Close())
	mixed := m.copied()
	mixed.objects[middle] = other.objects[middle]
	_, got, err = restored(t, mixed, time.Time{})
	is.NoErr(err)
	is.True(strings.Contains(got.Damage.Error(), middle+" in the object store belongs to instance"))
	mixed.objects[middle] = m.objects[log[0]]
	_, got, err = restored(t, mixed, time.Time{})
	is.NoErr(err)
	is.True(strings.Contains(got.Damage.Error(), middle+" in the object store is damaged: it has slot 1 in the place of"))
	_, _, err = restored(t, newMemory(), time.Time{})
	is.True(err != nil && strings.Contains(err.Error(), "no data of kist"))
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
	exact, err = ship.Race(t.Context(), &memory{objects: map[string][]byte{}, made: map[string]time.Time{}, loose: true})
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

// severable is a remote that its user may lose.
type severable struct {
	*memory
	cut   atomic.Bool
	early func(name string) // called before each put, if it is not nil
}

func (s *severable) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if s.cut.Load() {
		return errCut
	}
	if s.early != nil {
		s.early(name)
	}
	return s.memory.Put(ctx, name, body, size)
}

// A writer that was cut off for so long that it must begin with a snapshot leaves none
// if another has taken over meanwhile. A restore does not use one that it left.
func TestSnapshotOfNoHistory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	net := &severable{memory: m}
	dir := filepath.Join(t.TempDir(), "data")
	first, s := opened(t, dir, ship.Options{Remote: net}, nil)
	is.NoErr(tried(first))
	for s.Status().Records > 0 || s.Status().LastSnapshot.IsZero() {
		is.NoErr(first.View(func(*kv.Tx) error { return nil }))
	}
	net.cut.Store(true)
	for range 5 {
		is.NoErr(tried(first))
	}
	dropHistory(t, first)

	second, _, err := restored(t, m, time.Time{})
	is.NoErr(err)
	place := second.Dir()
	is.NoErr(second.Close())
	second, _ = opened(t, place, ship.Options{Remote: m, Sync: true, TakeOver: true}, nil)
	ready(t, second)
	is.NoErr(tried(second))
	want := kvtest.ContentOf(t, second)
	is.NoErr(second.Close())
	snaps := m.names("snap/")

	net.cut.Store(false)
	for deadline := time.Now().Add(20 * time.Second); tried(first) == nil && time.Now().Before(deadline); {
	}
	is.True(strings.Contains(s.Status().Failure.Error(), "has taken over"))
	is.Equal(m.names("snap/"), snaps)
	back, got, err := restored(t, m, time.Time{})
	is.NoErr(err)
	is.Equal(len(got.Bad), 0)
	is.Equal(differing(kvtest.ContentOf(t, back), want), "")

	lost := kvtest.NewestFile(t, dir, "snap")
	_, seq, _ := strings.Cut(filepath.Base(lost), "-")
	b, err := os.ReadFile(lost)
	is.NoErr(err)
	m.objects["snap/"+seq] = b
	back, got, err = restored(t, m, time.Time{})
	is.NoErr(err)
	is.Equal(len(got.Bad), 1)
	is.True(strings.Contains(got.Bad[0], "snap/"+seq))
	is.Equal(differing(kvtest.ContentOf(t, back), want), "")
}

// dropHistory writes a snapshot and removes what the journal has from before, as if it had grown too
// long. It returns the name of the snapshot.
func dropHistory(t *testing.T, store *kv.Store) string {
	t.Helper()
	if err := store.Compact(); err != nil {
		t.Fatal(err)
	}
	newest := filepath.Base(kvtest.NewestFile(t, store.Dir(), "snap"))
	_, seq, _ := strings.Cut(newest, "-")
	for path := range kvtest.FilesIn(t, filepath.Join(store.Dir(), "journal")) {
		if _, n, _ := strings.Cut(filepath.Base(path), "-"); n < seq {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	return newest
}

// A journal that grew too long while the store could not be reached leaves a gap in the history. One
// snapshot is written for it, however often it cannot be put. It closes the gap afterwards.
func TestGapDuringOutage(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	net := &severable{memory: m}
	store, s := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: net}, nil)
	is.NoErr(tried(store))
	for !s.Status().Complete || s.Status().Records > 0 {
		is.NoErr(store.View(func(*kv.Tx) error { return nil }))
	}
	net.cut.Store(true)
	is.NoErr(tried(store))
	dropHistory(t, store)
	for deadline := time.Now().Add(20 * time.Second); s.Status().Complete; {
		is.NoErr(tried(store))
		is.True(time.Now().Before(deadline))
	}
	fails := func(times uint64) {
		for failed := s.Status().Errors; s.Status().Errors < failed+times; {
			is.NoErr(tried(store))
		}
	}
	fails(1)
	newest := filepath.Base(kvtest.NewestFile(t, store.Dir(), "snap"))
	fails(4)
	for s.Status().Failure == nil { // one request has failed too often
		is.NoErr(tried(store))
	}
	is.True(!s.Status().Complete)
	is.Equal(filepath.Base(kvtest.NewestFile(t, store.Dir(), "snap")), newest)

	net.cut.Store(false)
	for deadline := time.Now().Add(20 * time.Second); !s.Status().Complete || s.Status().Records > 0; {
		is.NoErr(store.View(func(*kv.Tx) error { return nil }))
		is.True(time.Now().Before(deadline))
	}
	want := kvtest.ContentOf(t, store)
	is.NoErr(store.Close())
	is.True(len(m.names("snap/")) > 1)
	back, got, err := restored(t, m, time.Time{})
	is.NoErr(err)
	is.Equal(len(got.Bad), 0)
	is.Equal(differing(kvtest.ContentOf(t, back), want), "")
}

// ordered is a remote that notes the contents that it lacked when it got a slot whose records refer
// to them.
type ordered struct {
	*memory
	refers func(journal.Op) (blobs.Ref, bool)

	mu      sync.Mutex
	refs    int
	lacking []string // the first few
}

func (o *ordered) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if strings.HasPrefix(name, "log/") {
		b := make([]byte, size)
		if _, err := body.ReadAt(b, 0); err != nil && err != io.EOF {
			return err
		}
		slot, err := ship.ParseSlot(b)
		if err != nil {
			return err
		}
		if _, err := journal.Frames(slot.Frames, slot.Before, func(f journal.Framed) (bool, error) {
			for _, op := range f.Ops {
				if ref, adds := o.refers(op); adds {
					o.note(name, ref)
				}
			}
			return true, nil
		}); err != nil {
			return err
		}
	}
	return o.memory.Put(ctx, name, body, size)
}

func (o *ordered) note(slot string, ref blobs.Ref) {
	there := len(o.names(ref.RemoteName())) > 0
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refs++
	if !there && len(o.lacking) < 10 {
		o.lacking = append(o.lacking, slot+" needs "+ref.RemoteName())
	}
}

// A slot is put after every content that its records refer to, in both modes, with several uploads
// at the same time and a store that loses requests. The control is a Shipper that overlooks what
// records refer to.
func TestContentsBeforeSlots(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]struct{ sync, blind bool }{
		"async": {}, "sync": {sync: true}, "control": {blind: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			net := &ordered{memory: newMemory(), refers: tables.All.Refers()}
			dir := filepath.Join(t.TempDir(), "data")
			store, s := opened(t, dir, ship.Options{Remote: net, Sync: o.sync}, nil)
			ready(t, store)
			for !s.Status().Complete || s.Status().Records > 0 {
				is.NoErr(store.View(func(*kv.Tx) error { return nil }))
			}
			if o.blind {
				ship.Blind(s)
			}
			var puts atomic.Int32
			net.set(func(verb, name string) error {
				if verb == "put" && puts.Add(1)%7 == 0 {
					return errCut
				}
				return nil
			}, nil)
			content, err := blobs.Open(filepath.Join(dir, "blobs"))
			is.NoErr(err)
			var work sync.WaitGroup
			for range 4 {
				work.Go(func() {
					for i := range 15 {
						kept, err := stage(t, content, 100+i*300).Keep()
						is.NoErr(err)
						for deadline := time.Now().Add(20 * time.Second); refer(store, kept.Ref) != nil && time.Now().Before(deadline); {
						}
						kept.Release()
					}
				})
			}
			work.Wait()
			is.NoErr(content.Close())
			is.NoErr(store.Close())
			is.Equal(s.Status().Records, uint64(0))
			is.True(net.refs >= 60)
			is.Equal(len(net.lacking) > 0, o.blind)
		})
	}
}

// A record that the journal has, but that is not the one that was acknowledged, is not
// put.
func TestOtherRecord(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	dir := t.TempDir()
	j, err := journal.Open(filepath.Join(dir, "journal"), workcopy.Format)
	is.NoErr(err)
	defer j.Close()
	is.NoErr(j.Begin(journal.State{}))
	var r journal.Record
	var at journal.State
	add := func() {
		op := journal.Op{Bucket: 6, Key: fmt.Append(nil, at.Seq), Value: []byte("value")}
		r.Reset(at.Digest)
		r.Add(op, nil)
		at = journal.State{Seq: at.Seq + 1, Digest: r.Digest()}
		is.NoErr(j.Append(&r, at))
	}
	add()
	s := ship.New(ship.Options{Remote: m, Sync: true, Address: "s3://test/kist", Log: kvtest.Quiet})
	is.NoErr(s.Start(ship.Source{
		Dir: dir, Journal: j, At: at, Format: workcopy.Format, Instance: "0123456789abcdef", Now: time.Now,
		Refers: func(journal.Op) (ref blobs.Ref, adds bool) { return ref, false },
		Compact: func() error {
			op := journal.Op{Bucket: 6, Key: []byte("0"), Value: []byte("value")}
			return j.Snapshot(t.Context(), at, workcopy.Format, func(yield func(journal.Op) bool) { yield(op) })
		},
	}))
	s.Await()
	add()
	is.NoErr(s.Committed(at, 1)) // the control
	slots := len(m.names("log/"))
	add()
	other := at
	other.Digest++
	failed := make(chan error, 1)
	go func() { failed <- s.Committed(other, 1) }()
	for s.Status().Errors == 0 && s.Status().Slots == uint64(slots) {
		runtime.Gosched()
	}
	is.True(strings.Contains(fmt.Sprint(s.Status().Failure), "another digest"))
	is.Equal(len(m.names("log/")), slots)
	is.NoErr(s.Committed(at, 1)) // the control: the record that the journal has
	is.NoErr(<-failed)           // it waited for this number
	is.NoErr(s.Close())
}

// A second data directory does not take over a store that lets several writers win: it
// could not stop the first. The first one goes on.
func TestNoTakeoverWithoutExactPuts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	m.loose = true
	dir := filepath.Join(t.TempDir(), "data")
	first, s := opened(t, dir, ship.Options{Remote: m, Sync: true, URL: "https://first"}, nil)
	ready(t, first)
	is.True(!s.Status().Exact)
	is.NoErr(first.Close())
	first, _ = opened(t, dir, ship.Options{Remote: m, Sync: true, URL: "https://first"}, nil) // the control: the same one
	ready(t, first)

	place := t.TempDir()
	got, err := ship.Fetch(t.Context(), m, time.Time{}, workcopy.Format, place)
	is.NoErr(err)
	is.NoErr(datadir.WriteInstance(place, got.Instance))
	is.NoErr(got.Claim(place))
	objects := m.names("")
	_, _, err = open(t, place, ship.Options{Remote: m, Sync: true, TakeOver: true}, nil)
	is.True(err != nil && strings.Contains(err.Error(), "lets several writers win"))
	is.Equal(m.names(""), objects)
	is.NoErr(tried(first))
}

// A copy of a data directory is not the writer, unless it is told to take over. Then it is, even
// if both begin at the same time.
func TestClonedDataDirectory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	dir := filepath.Join(t.TempDir(), "data")
	store, _ := opened(t, dir, ship.Options{Remote: m, Sync: true}, nil)
	ready(t, store)
	is.NoErr(store.Close())
	clone := filepath.Join(t.TempDir(), "data")
	is.NoErr(os.CopyFS(clone, os.DirFS(dir)))
	objects := m.names("log/")
	_, _, err := open(t, clone, ship.Options{Remote: m, Sync: true}, nil)
	is.True(err != nil && strings.Contains(err.Error(), "is a copy of the one that writes to"))
	is.Equal(m.names("log/"), objects)

	// The second one begins and ends between the moment when the first one has read
	// the last slot and its fence.
	net := &severable{memory: m}
	var second *kv.Store
	var other *ship.Shipper
	net.early = func(name string) {
		if !strings.HasPrefix(name, "log/") {
			return
		}
		net.early = nil
		second, other = opened(t, clone, ship.Options{Remote: m, Sync: true, TakeOver: true}, nil)
	}
	_, _, err = open(t, dir, ship.Options{Remote: net, Sync: true}, nil)
	is.True(err != nil && strings.Contains(err.Error(), "has taken over"))
	ready(t, second)
	is.NoErr(other.Status().Failure)
	back, _, err := restored(t, m, time.Time{})
	is.NoErr(err)
	is.Equal(differing(kvtest.ContentOf(t, back), kvtest.ContentOf(t, second)), "")
}

// A server that sleeps between its look at the newest slot and its fence does not become
// the writer in the place of a slot that was merged meanwhile.
func TestLateFence(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	first, _ := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m, Sync: true}, nil)
	ready(t, first)
	is.NoErr(tried(first))
	place := filepath.Join(t.TempDir(), "data")
	is.NoErr(os.Mkdir(place, 0o700))
	got, err := ship.Fetch(t.Context(), m, time.Time{}, workcopy.Format, place)
	is.NoErr(err)
	is.NoErr(datadir.WriteInstance(place, got.Instance))
	is.NoErr(got.Claim(place))
	net := &severable{memory: m}
	net.early = func(name string) {
		if !strings.HasPrefix(name, "log/") {
			return
		}
		net.early = nil
		for range 20 {
			is.NoErr(tried(first))
		}
		is.NoErr(ship.Merge(t.Context(), m))
	}
	_, _, err = open(t, place, ship.Options{Remote: net, Sync: true, TakeOver: true}, nil)
	is.True(err != nil && strings.Contains(err.Error(), "commits that this data directory lacks"))
	is.NoErr(tried(first))
	back, _, err := restored(t, m, time.Time{})
	is.NoErr(err)
	is.Equal(differing(kvtest.ContentOf(t, back), kvtest.ContentOf(t, first)), "")
}

// refer makes a commit that refers to a content.
func refer(store *kv.Store, ref blobs.Ref) error {
	return store.Update(func(tx *kv.Tx) error {
		return tx.Put(tables.All.Contents()[0].Bucket, append(ref[:], "a row"...), nil)
	})
}

// stage makes a content of random bytes, which Keep has not seen yet.
func stage(t *testing.T, content *blobs.Store, size int) *blobs.Stage {
	t.Helper()
	st, err := content.Stage()
	if err == nil {
		b := make([]byte, size)
		kv.Random(b)
		_, err = st.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// While a large file is on its way, a server in sync mode acknowledges other changes.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	slow := &severable{memory: newMemory()}
	begun, release := make(chan struct{}), make(chan struct{})
	begin, finish := sync.OnceFunc(func() { close(begun) }), sync.OnceFunc(func() { close(release) })
	slow.early = func(name string) {
		if strings.HasPrefix(name, "blobs/") {
			begin()
			<-release
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	is.NoErr(kvtest.OpenAt(t, dir, nil).Close())
	content, err := blobs.Open(filepath.Join(dir, "blobs"))
	is.NoErr(err)
	defer content.Close()
	st := stage(t, content, 1<<20)
	store, s := opened(t, dir, ship.Options{Remote: slow, Sync: true}, nil)
	t.Cleanup(finish) // before the store closes
	ready(t, store)
	content.OnKeep = s.Ahead
	stored := make(chan error, 1)
	go func() {
		kept, err := st.Keep()
		if err == nil {
			defer kept.Release()
			err = refer(store, kept.Ref)
		}
		stored <- err
	}()
	<-begun
	for slots := len(slow.names("log/")); len(slow.names("log/")) < slots+3; {
		is.NoErr(tried(store))
	}
	finish()
	is.NoErr(<-stored)
	is.NoErr(store.Close())
	is.Equal(len(slow.names("blobs/")), 1)
	is.Equal(s.Status().Errors, uint64(0))
	back, _, err := restored(t, slow, time.Time{})
	is.NoErr(err)
	is.NoErr(back.Close())
}

// A file that cannot be put is not acknowledged in sync mode, and is no obstacle to other
// changes.
func TestFileThatCannotBePut(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	dir := filepath.Join(t.TempDir(), "data")
	store, s := opened(t, dir, ship.Options{Remote: m, Sync: true}, nil)
	ready(t, store)
	content, err := blobs.Open(filepath.Join(dir, "blobs"))
	is.NoErr(err)
	defer content.Close()
	content.OnKeep = s.Ahead
	m.set(func(_, name string) error {
		if strings.HasPrefix(name, "blobs/") {
			return errCut
		}
		return nil
	}, nil)
	_, err = stage(t, content, 1<<20).Keep()
	is.True(errors.Is(err, ship.ErrUnreachable))
	is.NoErr(tried(store))
	m.set(nil, nil)
	kept, err := stage(t, content, 1<<20).Keep()
	is.NoErr(err)
	is.NoErr(refer(store, kept.Ref))
	kept.Release()
	is.Equal(len(m.names("blobs/")), 1)
	is.NoErr(store.Close())
	_, err = stage(t, content, 1<<20).Keep()
	is.True(err != nil)
}

// lists notes where lists of the slots begin.
type lists struct {
	*memory
	after []string
}

func (l *lists) After(ctx context.Context, prefix, after string) iter.Seq2[blobs.Object, error] {
	if prefix == "log/" {
		l.after = append(l.after, after)
	}
	return l.memory.After(ctx, prefix, after)
}

// A start lists only the slots since the last stop, if the object store still has them
// as the data directory remembers them. Then it lists what comes after its fence.
func TestStartListsFewSlots(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := &lists{memory: newMemory()}
	dir := filepath.Join(t.TempDir(), "data")
	store, _ := opened(t, dir, ship.Options{Remote: l, Sync: true}, nil)
	ready(t, store)
	for range 20 {
		is.NoErr(tried(store))
	}
	is.NoErr(store.Close())
	start := func() (listed []string) {
		names := l.names("log/")
		l.after = nil
		store, _ := opened(t, dir, ship.Options{Remote: l, Sync: true, TakeOver: true}, nil)
		ready(t, store)
		is.NoErr(store.Close())
		is.Equal(l.names("log/")[:len(names)], names) // it has read to the end
		return l.after
	}
	names := l.names("log/")
	is.Equal(start(), []string{names[len(names)-2], names[len(names)-1]})

	names = l.names("log/") // the slots are merged
	first, last := strings.TrimPrefix(names[0], "log/"), strings.TrimPrefix(names[len(names)-1], "log/")
	for _, name := range names {
		l.objects["log/"+first+"-"+last] = append(l.objects["log/"+first+"-"+last], l.objects[name]...)
		delete(l.objects, name)
	}
	is.Equal(start(), []string{names[len(names)-2], "", "log/" + last})

	got, err := ship.Fetch(t.Context(), l, time.Time{}, workcopy.Format, t.TempDir())
	is.NoErr(err)
	is.NoErr(os.Remove(filepath.Join(dir, "STORE")))
	is.NoErr(got.Claim(dir)) // a restore remembers the end, too
	names = l.names("log/")
	is.Equal(start(), []string{names[len(names)-2], names[len(names)-1]})
}

// A store that asks for it is left alone for that time.
func TestLater(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	store, s := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m, Sync: true}, nil)
	ready(t, store)
	const wait = 500 * time.Millisecond
	var at []time.Time
	m.set(func(string, string) error {
		at = append(at, time.Now())
		if len(at) > 3 {
			return nil
		}
		return &blobs.Later{Err: errCut, Wait: wait}
	}, nil)
	is.NoErr(tried(store))
	m.set(nil, nil)
	is.Equal(s.Status().Errors, uint64(3))
	for i := range 3 {
		is.True(at[i+1].Sub(at[i]) >= wait)
	}
}
