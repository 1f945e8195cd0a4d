package kv

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"kist/kv/record"
)

// What is read by its slug again and again is kept; a change of the record, or
// of its owner's account, is seen by anyone who asks after it was acknowledged.
func TestShared(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	user(t, s, "bob") // who may stay when ann is shut out
	r := add(t, s, u.ID, record.Links, `{"originalUrl":"https://example.org/1","slug":"go"}`)
	same := func(slug string) {
		t.Helper()
		for range 2 { // read, and kept
			got, err := s.Shared(slug)
			view(t, s, func(tx *Tx) error {
				want, missing := tx.Slug(slug)
				is.Equal(got, want)
				is.Equal(code(err), code(missing))
				return nil
			})
		}
	}
	same("go")
	same("none")
	edit(t, s, r, `{"isPublic":true,"originalUrl":"https://example.org/2"}`)
	same("go")
	edit(t, s, r, `{"slug":"went"}`)
	same("go")
	same("went")
	got, err := s.Shared("went")
	is.NoErr(err)
	got.Public, got.Slug = false, "mine" // the caller's own
	same("went")

	shut := func(is bool) {
		update(t, s, func(tx *Tx) error {
			u, err := tx.User(u.ID)
			if err != nil {
				return err
			}
			u.Disabled = is
			return tx.SaveUser(u)
		})
	}
	shut(true)
	_, err = s.Shared("went")
	is.Equal(code(err), "not_found")
	shut(false)
	same("went")

	limited := add(t, s, u.ID, record.Notes, `{"content":"","slug":"once","isPublic":true,"maxViews":1}`)
	same("once")
	is.NoErr(s.Seen(limited))
	same("once")
	update(t, s, func(tx *Tx) error {
		r, err := tx.Slug("went")
		if err != nil {
			return err
		}
		return tx.Remove(r)
	})
	same("went")
}

// However many read meanwhile, none of them leaves behind what a commit has
// changed.
func TestSharedRace(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	r := add(t, s, u.ID, record.Notes, `{"title":"0","content":"","slug":"n"}`)
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !done.Load() {
				_, _ = s.Shared("n")
			}
		})
	}
	for i := range 100 {
		want := edit(t, s, r, fmt.Sprintf(`{"title":"%d"}`, i))
		got, err := s.Shared("n")
		is.NoErr(err)
		is.Equal(string(got.Body), string(want.Body))
	}
	done.Store(true)
	readers.Wait()
}

// What is kept is bounded.
func TestSharedBounds(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	long := strings.Repeat("x", maxSharedOne)
	add(t, s, u.ID, record.Notes, `{"slug":"long","content":"`+long+`"}`)
	const fits = maxSharedOne - sharedOver - 100
	const n = maxShared/fits + 10
	for i := range n {
		add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"slug":"n%d","content":"%s"}`, i, long[:fits]))
	}
	_, err := s.Shared("long")
	is.NoErr(err)
	is.Equal(s.shared.Load().size.Load(), int64(0)) // too long to be kept
	for i := range n {
		_, err := s.Shared(fmt.Sprint("n", i))
		is.NoErr(err)
		is.True(s.shared.Load().size.Load() <= maxShared)
	}
	is.True(s.shared.Load().size.Load() > 0)
}
