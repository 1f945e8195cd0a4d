package kv_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// A store whose clock showed 2099 for long comes back to the present. Expired items
// are open, their expiry is announced again when it really comes, retries happen, and
// ids keep rising.
func TestResetClock(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarted), func(t *testing.T) {
			is := is.New(t)
			c := newClocks()
			s := kvtest.Opened(t, t.TempDir(), c.options())
			u := kvtest.User(t, s, "ann")
			h := kvtest.HookFor(t, s, u.ID, "item.expired")
			ends := func(d time.Duration) string {
				return fmt.Sprintf(`{"content":"c","isPublic":true,"expiresAt":%q}`, c.Now().Add(d).UTC().Format(time.RFC3339))
			}
			old := kvtest.Add(t, s, u.ID, record.Notes, ends(100*time.Hour))
			mark := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/","title":"t"}`)
			var secret string
			kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
				_, secret, err = people.AddSession(tx, u.ID, "Firefox", "127.0.0.1", tx.Now)
				return err
			})
			const leap = 73 * 365 * day
			c.pass(time.Hour)
			is.NoErr(kv.WatchClock(s, false))
			c.Add(leap)
			s.Now()
			c.pass(time.Hour)
			is.Equal(s.Now(), c.Now().UTC()) // believed
			kvtest.Tick(s)
			young := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"made in 2099"}`)
			var upload *inbox.Upload
			kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
				if upload, err = inbox.AddUpload(tx, inbox.Upload{Owner: u.ID, Length: 5}); err != nil {
					return err
				}
				return tx.Put(kvtest.Bucket("blob.loose"), make([]byte, 32), tx.Instant())
			})
			c.Add(-leap)
			now := c.Now().UTC()
			is.True(s.Now().Sub(now) > 70*365*day) // the store's time does not go back on its own
			if restarted {
				is.NoErr(s.Close())
				s = kvtest.Opened(t, s.Dir(), c.options())
				is.True(s.Now().Sub(now) > 70*365*day)
			}

			done, err := s.ResetClock()
			is.NoErr(err)
			is.Equal(done.Now, now)
			is.Equal(done.Reopened, 1)
			is.True(done.Redated >= 4)
			is.Equal(s.Now(), now)
			is.True(s.MonotonicNow().Sub(now) < time.Minute)
			next := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"made after"}`)
			is.True(string(next.ID[:]) > string(young.ID[:]))
			kvtest.View(t, s, func(tx *kv.Tx) error {
				is.Equal(tx.Now, now)
				r, err := catalog.Slug(tx, old.Slug)
				is.NoErr(err)
				is.NoErr(r.Open(tx.Now))
				is.True(!r.Ended)
				r, err = catalog.Owned(tx, u.ID, record.Notes, young.ID)
				is.NoErr(err)
				is.True(r.Created.Equal(now) && r.Updated.Equal(now))
				p, err := catalog.PageRows.Get(tx.Tx, kv.OwnedKey(u.ID, mark.ID[:]...))
				is.NoErr(err)
				is.True(p.Due.Sub(now) <= record.MaxLook)
				up, err := inbox.FindUpload(tx, u.ID, upload.ID)
				is.NoErr(err)
				is.True(up.Expires.Equal(now.Add(inbox.UploadTime)))
				is.Equal(int64(binary.BigEndian.Uint64(tx.Get(kvtest.Bucket("blob.loose"), make([]byte, 32)))), now.UnixMilli())
				for _, d := range kvtest.DeliveriesOf(t, tx, h.ID) {
					is.True(!d.Due.After(now.Add(record.MaxRetry)))
				}
				return kvtest.Audit(tx)
			})
			_, err = people.AuthenticateSession(s, secret)
			is.NoErr(err)

			// Once more: there is nothing left to do.
			done, err = s.ResetClock()
			is.NoErr(err)
			is.Equal(done.Reopened, 0)
			is.Equal(done.Redated, 0)

			// It stays so after a kill, and time goes on.
			s = kvtest.Opened(t, kvtest.LeftOf(t, s), c.options())
			is.Equal(s.Now(), now)
			c.pass(101 * time.Hour)
			kvtest.Tick(s)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				r, err := catalog.Slug(tx, old.Slug)
				is.NoErr(err)
				is.True(r.Ended && r.Open(tx.Now) != nil)
				is.Equal(len(kvtest.DeliveriesOf(t, tx, h.ID)), 2) // told again, now that it is so
				return kvtest.Audit(tx)
			})
		})
	}
}

// Wrong tries, sign-ins and bytes counted while the clock was ahead keep nobody
// waiting after it was set back.
func TestResetClockEndsWaits(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	o := c.options()
	o.WritesPerHour = 1000
	s := kvtest.Opened(t, t.TempDir(), o)
	u := kvtest.User(t, s, "ann")
	c.Add(73 * 365 * day)
	s.Now()
	c.pass(time.Hour)
	ahead := s.Now()
	is.Equal(ahead, c.Now().UTC()) // believed
	for range 5 {
		people.TriesOf(s).Settle(ahead, false, kvtest.Limit("ann"))
	}
	people.TriesOf(s).SignedIn("198.51.100.0/24", ahead)
	kv.SpendWrites(s, u.ID, 1500, ahead)
	is.NoErr(s.Flush())
	c.Add(-73 * 365 * day)

	_, err := s.ResetClock()
	is.NoErr(err)
	is.True(people.TriesOf(s).Wait(s.Now(), kvtest.Limit("ann")) <= people.TryWindow)
	is.True(kv.WriteWait(s, u.ID) <= time.Hour)
	c.pass(people.TryWindow)
	is.Equal(people.TriesOf(s).Wait(s.Now(), kvtest.Limit("ann")), time.Duration(0))
	c.pass(time.Hour)
	is.Equal(kv.WriteWait(s, u.ID), time.Duration(0))
	c.pass(90 * day)
	is.True(!people.TriesOf(s).Familiar("198.51.100.0/24", s.Now()))
}

// ResetClock refuses a machine clock that is not set.
func TestResetToUnsetClock(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	s := kvtest.Opened(t, t.TempDir(), c.options())
	kvtest.User(t, s, "ann")
	before := s.Now()
	c.Ms.Store(0)
	_, err := s.ResetClock()
	is.Equal(err, kv.ErrClockUnset)
	is.Equal(s.Now(), before)
}
