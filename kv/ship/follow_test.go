package ship_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// following opens a store that follows what the remote has now, in a new folder.
func following(t *testing.T, m blobs.Remote) (dir string, store *kv.Store, f *ship.Follower) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := ship.Fetch(t.Context(), m, time.Time{}, workcopy.Format, dir)
	if err != nil {
		t.Fatal(err)
	}
	store = kvtest.Opened(t, dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Follow: true})
	at, err := kv.State(store)
	if err == nil {
		err = got.Confirm(at)
	}
	if err == nil {
		f, err = ship.Follow(t.Context(), ship.Options{Remote: m, Address: "s3://test/kist"}, workcopy.Format, got.Instance, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, store, f
}

// readAll reads until there is nothing more.
func readAll(t *testing.T, f *ship.Follower, take func(journal.Framed) error) error {
	t.Helper()
	for {
		if n, err := f.Read(t.Context(), take); n == 0 || err != nil {
			return err
		}
	}
}

// A store that follows has all that the other one has committed, and nothing else can
// change it. Its journal leads to the same state.
func TestFollow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	dir, owner := kvtest.Inhabited(t)
	first, _ := opened(t, dir, ship.Options{Remote: m, Sync: true}, nil)
	ready(t, first)
	place, second, f := following(t, m)
	apply := func(r journal.Framed) error { return kv.Apply(second, r, nil) }
	for i := range 40 {
		r := kvtest.Add(t, first, owner, record.Notes, fmt.Sprintf(`{"content":"note %d","tags":["t"]}`, i))
		if i%3 == 0 {
			kvtest.Edit(t, first, r, `{"title":"other"}`)
		}
		if i%11 == 10 { // also what was not read yet
			is.NoErr(ship.Merge(t.Context(), m))
		}
		if i%5 != 4 {
			continue
		}
		is.NoErr(readAll(t, f, apply))
		is.Equal(differing(kvtest.ContentOf(t, second), kvtest.ContentOf(t, first)), "")
	}
	is.Equal(tried(second), kv.ErrFollows)
	is.NoErr(second.Trim([]uint64{1}))
	want, err := kv.State(first)
	is.NoErr(err)
	got, err := kv.State(second)
	is.NoErr(err)
	is.Equal(got, want)
	is.NoErr(second.Close())

	// After a start it goes on; damage in the order is noticed and changes nothing.
	second = kvtest.Opened(t, place, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Follow: true})
	is.NoErr(tried(first))
	is.NoErr(tried(first))
	skipped := false
	err = readAll(t, f, func(r journal.Framed) error {
		if !skipped {
			skipped = true
			return nil
		}
		return kv.Apply(second, r, nil)
	})
	is.True(errors.Is(err, journal.ErrOther))
	at, err := kv.State(second)
	is.NoErr(err)
	is.Equal(at, want)
}

// Follower.Behind knows how many records are there, also before it has read them.
func TestFollowerBehind(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	first, _ := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m, Sync: true}, nil)
	ready(t, first)
	_, second, f := following(t, m)
	apply := func(r journal.Framed) error { return kv.Apply(second, r, nil) }
	is.NoErr(readAll(t, f, apply))
	is.Equal(f.Behind(), uint64(0))
	for range 30 { // each is a slot
		is.NoErr(tried(first))
	}
	want, err := kv.State(first)
	is.NoErr(err)
	for {
		n, err := f.Read(t.Context(), apply)
		is.NoErr(err)
		at, err := kv.State(second)
		is.NoErr(err)
		is.Equal(f.Behind(), want.Seq-at.Seq)
		if n == 0 {
			break
		}
	}
	is.Equal(f.Behind(), uint64(0))
}

// Who takes over stops the other one, and only if nothing was missed.
func TestFollowerTakesOver(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	first, _ := opened(t, filepath.Join(t.TempDir(), "data"), ship.Options{Remote: m, Sync: true, MaxLag: time.Hour, URL: "https://first"}, nil)
	ready(t, first)
	place, second, f := following(t, m)
	apply := func(r journal.Framed) error { return kv.Apply(second, r, nil) }
	is.NoErr(readAll(t, f, apply))
	is.Equal(f.Last().URL, "https://first")
	is.Equal(f.Last().MaxLag, time.Hour)
	is.NoErr(tried(first))
	is.Equal(f.TakeOver(t.Context(), place, false), ship.ErrMoved)
	m.set(nil, func(verb, name string) error { // the answer is lost
		if verb == "put" {
			return errCut
		}
		return nil
	})
	is.NoErr(f.TakeOver(t.Context(), place, true))
	m.set(nil, nil)
	mine, err := ship.Writes(t.Context(), m, place)
	is.NoErr(err)
	is.True(mine)
	slots := len(m.names("log/"))
	is.True(!f.Won())
	is.NoErr(readAll(t, f, apply))
	is.True(f.Won())
	is.Equal(len(m.names("log/")), slots)
	is.Equal(kvtest.Code(tried(first)), "not_the_writer")
	is.NoErr(second.Close())
	third, _ := opened(t, place, ship.Options{Remote: m, Sync: true}, nil)
	ready(t, third)
	is.NoErr(tried(third))
	is.Equal(len(m.names("snap/")), 1)
	back, _, err := restored(t, m, time.Time{})
	is.NoErr(err)
	is.Equal(differing(kvtest.ContentOf(t, back), kvtest.ContentOf(t, third)), "")
}

// What does not continue the history, or what the history does not continue, is Broken.
func TestFollowBroken(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	dir := filepath.Join(t.TempDir(), "data")
	first, _ := opened(t, dir, ship.Options{Remote: m, Sync: true}, nil)
	ready(t, first)
	_, second, f := following(t, m)
	apply := func(r journal.Framed) error { return kv.Apply(second, r, nil) }
	at, err := kv.State(second)
	is.NoErr(err)
	follow := func(at journal.State) error {
		instance, err := datadir.ReadInstance(dir)
		is.NoErr(err)
		_, err = ship.Follow(t.Context(), ship.Options{Remote: m}, workcopy.Format, instance, at)
		return err
	}
	is.NoErr(follow(at)) // the control
	is.True(errors.As(follow(journal.State{Seq: at.Seq, Digest: at.Digest + 1}), new(*ship.Broken)))
	is.True(errors.As(follow(journal.State{Seq: at.Seq + 1, Digest: at.Digest}), new(*ship.Broken)))
	is.NoErr(tried(first))
	gone := m.names("log/")
	is.NoErr(m.Delete(t.Context(), gone[len(gone)-1], time.Time{}))
	is.NoErr(second.Close())
	is.NoErr(tried(first))
	err = readAll(t, f, apply)
	is.True(errors.As(err, new(*ship.Broken)))
}
