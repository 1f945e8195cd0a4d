package catalog_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// A record read by its slug is cached. Everyone who asks after a change of the record
// or of its owner's account was acknowledged sees the change.
func TestShared(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kvtest.User(t, s, "bob") // remains an administrator when ann is disabled
	r := kvtest.Add(t, s, u.ID, record.Links, `{"originalUrl":"https://example.org/1","slug":"go"}`)
	same := func(slug string) {
		t.Helper()
		for range 2 { // read, then cached
			got, _, err := catalog.Shared(s, slug, math.MaxInt)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				want, missing := catalog.Slug(tx, slug)
				is.Equal(got, want)
				is.Equal(kvtest.Code(err), kvtest.Code(missing))
				return nil
			})
		}
	}
	same("go")
	same("none")
	kvtest.Edit(t, s, r, `{"isPublic":true,"originalUrl":"https://example.org/2"}`)
	same("go")
	kvtest.Edit(t, s, r, `{"slug":"went"}`)
	same("go")
	same("went")
	got, _, err := catalog.Shared(s, "went", math.MaxInt)
	is.NoErr(err)
	got.Public, got.Slug = false, "mine" // the caller's own
	same("went")

	disable := func(yes bool) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, u.ID)
			if err != nil {
				return err
			}
			u.Disabled = yes
			return people.SaveUser(tx, u)
		})
	}
	disable(true)
	_, _, err = catalog.Shared(s, "went", math.MaxInt)
	is.Equal(kvtest.Code(err), "not_found")
	disable(false)
	same("went")

	limited := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"","slug":"once","isPublic":true,"maxViews":1}`)
	same("once")
	is.NoErr(catalog.Seen(s, limited, history.Visit{}))
	same("once")
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Slug(tx, "went")
		if err != nil {
			return err
		}
		return catalog.Remove(tx, r)
	})
	same("went")
}

// However many readers run at once, none of them leaves an outdated record in the
// cache.
func TestSharedRace(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"title":"0","content":"","slug":"n"}`)
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !done.Load() {
				_, _, _ = catalog.Shared(s, "n", math.MaxInt)
			}
		})
	}
	for i := range 100 {
		want := kvtest.Edit(t, s, r, fmt.Sprintf(`{"title":"%d"}`, i))
		got, _, err := catalog.Shared(s, "n", math.MaxInt)
		is.NoErr(err)
		is.Equal(string(got.Body), string(want.Body))
	}
	done.Store(true)
	readers.Wait()
}

// The cache is bounded.
func TestSharedBounds(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	long := strings.Repeat("x", catalog.MaxSharedOne)
	kvtest.Add(t, s, u.ID, record.Notes, `{"slug":"long","content":"`+long+`"}`)
	const fits = catalog.MaxSharedOne - catalog.SharedOver - 100
	const n = catalog.MaxShared/fits + 10
	for i := range n {
		kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"slug":"n%d","content":"%s"}`, i, long[:fits]))
	}
	got, unread, err := catalog.Shared(s, "long", 0)
	is.NoErr(err)
	is.True(got.Body == nil) // it is not read
	is.True(unread > len(long))
	is.Equal(catalog.SharedSize(s), int64(0))
	got, _, err = catalog.Shared(s, "long", math.MaxInt)
	is.NoErr(err)
	is.True(len(got.Body) > len(long))
	is.Equal(catalog.SharedSize(s), int64(0)) // too long to be cached
	for i := range n {
		_, _, err := catalog.Shared(s, fmt.Sprint("n", i), math.MaxInt)
		is.NoErr(err)
		is.True(catalog.SharedSize(s) <= catalog.MaxShared)
	}
	is.True(catalog.SharedSize(s) > 0)
}
