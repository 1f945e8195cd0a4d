package ship_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/blobs/sealed"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/workcopy"
)

// inEachStore runs a test over a plain store and over an encrypted one. in is where that has its objects.
func inEachStore(t *testing.T, fn func(t *testing.T, in string, over func(blobs.Remote) blobs.Remote)) {
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		fn(t, "", nil)
	})
	t.Run("encrypted", func(t *testing.T) {
		t.Parallel()
		fn(t, "sealed/", func(to blobs.Remote) blobs.Remote { return encrypted(t, to) })
	})
}

// encrypted is what a server with a key file uses of a remote.
func encrypted(t testing.TB, to blobs.Remote) blobs.Remote {
	t.Helper()
	key, err := sealed.NewKey(sealed.Secret{1})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := sealed.New(key, to)
	return r
}

// An encrypted store gives back what there was, and nothing of it can be read without the key: no text, no
// name of an object but numbers, no hash.
func TestEncryptedRestore(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMemory()
	dir, owner := kvtest.Inhabited(t)
	for range 3 { // stops and starts
		store, _ := opened(t, dir, ship.Options{Remote: encrypted(t, m), Sync: true}, nil)
		ready(t, store)
		for i := range 20 {
			kvtest.Add(t, store, owner, record.Notes, fmt.Sprintf(`{"content":"marker %d","tags":["markers"]}`, i))
		}
		want := kvtest.ContentOf(t, store)
		is.NoErr(store.Close())
		back, _, err := restored(t, encrypted(t, m), time.Time{})
		is.NoErr(err)
		is.Equal(differing(kvtest.ContentOf(t, back), want), "")
	}
	is.True(len(m.objects) > 10)
	instance := instanceOf(t, dir)
	for name, b := range m.objects {
		for _, text := range []string{"marker", "kistslot", instance, "https://"} {
			is.True(!bytes.Contains(b, []byte(text)))
		}
		is.True(name == "meta" || strings.HasPrefix(name, "sealed/"))
	}
}

// A store is used with the key that it was begun with, or none. Else the server does not start, and changes nothing.
func TestStartWithoutTheKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		first, then func(testing.TB, blobs.Remote) blobs.Remote
		want        string
	}{
		{"encrypted, and no key", encrypted, guarded, "is encrypted; add --store-key-file"},
		{"plain, and a key", guarded, encrypted, "stop the server and run kist store encrypt"},
		{"another key", encrypted, otherKey, "name the right key file"},
		{"the same key", encrypted, encrypted, ""},
		{"plain", guarded, guarded, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m, dir := newMemory(), filepath.Join(t.TempDir(), "data")
			store, _ := opened(t, dir, ship.Options{Remote: c.first(t, m), Sync: true}, nil)
			ready(t, store)
			is.NoErr(store.Close())
			before := maps.Clone(m.objects)
			again, _, err := open(t, dir, ship.Options{Remote: c.then(t, m), Sync: true}, nil)
			if c.want == "" {
				is.NoErr(err)
				is.NoErr(again.Close())
				return
			}
			is.True(err != nil && strings.Contains(err.Error(), c.want))
			is.Equal(slices.Sorted(maps.Keys(m.objects)), slices.Sorted(maps.Keys(before)))
		})
	}
}

func guarded(_ testing.TB, to blobs.Remote) blobs.Remote {
	r, _ := sealed.Plain(to)
	return r
}

func otherKey(t testing.TB, to blobs.Remote) blobs.Remote {
	t.Helper()
	key, err := sealed.NewKey(sealed.Secret{2})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := sealed.New(key, to)
	return r
}

// A server that cannot reach its store at the start does not write to it in the wrong way later.
func TestStoreWithoutTheKeyIsSeenLater(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, dir := newMemory(), filepath.Join(t.TempDir(), "data")
	store, _ := opened(t, dir, ship.Options{Remote: encrypted(t, m), Sync: true}, nil)
	ready(t, store)
	is.NoErr(store.Close())
	before := maps.Clone(m.objects)

	m.set(func(string, string) error { return errCut }, nil)
	store, s := opened(t, dir, ship.Options{Remote: guarded(t, m)}, nil)
	is.NoErr(tried(store))
	m.set(nil, nil)
	for s.Refuse() == nil {
		_ = tried(store)
	}
	is.Equal(s.Refuse(), ship.ErrOver)
	is.True(strings.Contains(s.Status().Failure.Error(), "--store-key-file"))
	is.NoErr(store.Close())
	is.Equal(slices.Sorted(maps.Keys(m.objects)), slices.Sorted(maps.Keys(before)))
}

// One writer at a time, and a lost answer is no other writer, also if each put seals with another salt.
func TestEncryptedWriters(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m, dir := newMemory(), filepath.Join(t.TempDir(), "data")
	first, s := opened(t, dir, ship.Options{Remote: encrypted(t, m), Sync: true, URL: "https://first"}, nil)
	ready(t, first)
	lost := false
	m.set(nil, func(verb, name string) error {
		if verb == "put" && !lost {
			lost = true
			return errCut
		}
		return nil
	})
	is.NoErr(tried(first))
	is.True(lost)
	m.set(nil, nil)

	place := t.TempDir()
	got, err := ship.Fetch(t.Context(), encrypted(t, m), time.Time{}, workcopy.Format, place)
	is.NoErr(err)
	is.NoErr(errors.Join(datadir.WriteInstance(place, got.Instance), got.Claim(place)))
	second, _ := opened(t, place, ship.Options{Remote: encrypted(t, m), Sync: true, TakeOver: true}, nil)
	ready(t, second)
	is.Equal(tried(first), ship.ErrOver)
	is.True(strings.Contains(s.Status().Failure.Error(), "has taken over"))
}

// What nothing needs is removed from an encrypted store, too.
func TestEncryptedContents(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruningOver(t, time.Hour, func(to blobs.Remote) blobs.Remote { return encrypted(t, to) })
	var refs []blobs.Ref
	for n := range 20 {
		refs = append(refs, p.add(n))
	}
	names := func() []string { return p.m.names("sealed/blobs/") }
	is.Equal(len(names()), 20)
	for _, ref := range refs[:10] {
		p.remove(ref, true)
	}
	for range 3 {
		p.pass(time.Hour)
		is.NoErr(p.prune())
	}
	is.Equal(len(names()), 10)
	is.NoErr(p.ship.Compare(t.Context(), p.contents()))
	got, err := rehearsed(t, p.remote(p.m))
	is.NoErr(err)
	at, err := kv.State(p.store)
	is.NoErr(err)
	is.Equal(got.State, at)
	is.Equal(len(p.m.names("sealed/from/")), 1)
}
