package people_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
)

// Counts survive a kill and a stop, and are deleted from the disk when they expire.
func TestTriesLast(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, clock.Now)
	rows := func(s *kv.Store) (n int) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			for range tx.Walk(kvtest.Bucket("meta"), []byte("try "), nil, false) {
				n++
			}
			return kvtest.Audit(tx)
		})
		return n
	}
	for range 5 {
		people.TriesOf(s).Settle(s.Now(), false, kvtest.Limit("a"), people.Limit{Kind: 'a', Of: "b", Most: 5})
	}
	people.TriesOf(s).SignedIn("192.0.2.7/32", s.Now())
	is.NoErr(s.Flush())
	is.Equal(rows(s), 3)
	killed := kvtest.CopyOf(t, s)
	is.Equal(people.TriesOf(killed).Wait(killed.Now(), kvtest.Limit("a")), people.TryWindow)

	clock.Add(time.Minute)
	is.NoErr(s.Close())
	s = kvtest.OpenAt(t, dir, clock.Now)
	is.Equal(people.TriesOf(s).Wait(s.Now(), kvtest.Limit("a")), people.TryWindow-time.Minute)
	is.True(people.TriesOf(s).Wait(s.Now(), people.Limit{Kind: 'a', Of: "b", Most: 5}) > 0)
	is.True(people.TriesOf(s).Familiar("192.0.2.7/32", s.Now()))

	clock.Add(people.TryWindow)
	is.NoErr(s.Flush())
	is.Equal(rows(s), 1)
	is.Equal(people.TriesOf(s).Wait(s.Now(), kvtest.Limit("a")), time.Duration(0))
	clock.Add(people.NetworkTime)
	is.NoErr(s.Flush())
	is.Equal(rows(s), 0)
}
