package kv_test

import (
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// Counts that cannot be written are kept for the next attempt.
func TestCountsAreKept(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	_, secret := kvtest.Key(t, s, u.ID, people.Key{})
	_, err := people.Authenticate(s, secret)
	is.NoErr(err)
	is.NoErr(catalog.Seen(s, r, history.Visit{}))
	kv.SetClosed(s, true)
	is.True(s.Flush() != nil)
	is.NoErr(catalog.Seen(s, r, history.Visit{}))
	is.True(s.Flush() != nil)
	kv.SetClosed(s, false)
	is.NoErr(s.Flush())
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.Viewed(tx, r)[0], int64(2))
		ks, err := people.Keys(tx, u.ID)
		is.NoErr(err)
		is.True(!ks[0].LastUsed.IsZero())
		return nil
	})
}
