package kv

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// A store whose clock showed 2099 for long comes back to the present: what had
// expired is open, its end is told again when it really comes, what was to be
// tried again is, and ids go on rising.
func TestResetClock(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarted), func(t *testing.T) {
			is := is.New(t)
			c := newClocks()
			s := opened(t, t.TempDir(), c.options())
			u := user(t, s, "ann")
			h := hookFor(t, s, u.ID, "item.expired")
			ends := func(d time.Duration) string {
				return fmt.Sprintf(`{"content":"c","isPublic":true,"expiresAt":%q}`, c.now().Add(d).UTC().Format(time.RFC3339))
			}
			old := add(t, s, u.ID, record.Notes, ends(100*time.Hour))
			mark := add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/","title":"t"}`)
			var secret string
			update(t, s, func(tx *Tx) (err error) {
				_, secret, err = tx.AddSession(u.ID, "Firefox", "127.0.0.1")
				return err
			})
			const leap = 73 * 365 * day
			c.pass(time.Hour)
			is.NoErr(WatchClock(s, false))
			c.add(leap)
			s.Now()
			c.pass(time.Hour)
			is.Equal(s.Now(), c.now().UTC()) // believed
			tick(s)
			young := add(t, s, u.ID, record.Notes, `{"content":"made in 2099"}`)
			var upload *Upload
			update(t, s, func(tx *Tx) (err error) {
				if upload, err = tx.AddUpload(Upload{Owner: u.ID, Length: 5}); err != nil {
					return err
				}
				return tx.Put(bucket("blob.loose"), make([]byte, 32), tx.instant())
			})
			c.add(-leap)
			now := c.now().UTC()
			is.True(s.Now().Sub(now) > 70*365*day) // the store's time does not go back on its own
			if restarted {
				is.NoErr(s.Close())
				s = opened(t, s.Dir(), c.options())
				is.True(s.Now().Sub(now) > 70*365*day)
			}

			done, err := s.ResetClock()
			is.NoErr(err)
			is.Equal(done.Now, now)
			is.Equal(done.Reopened, 1)
			is.True(done.Redated >= 4)
			is.Equal(s.Now(), now)
			is.True(s.MonotonicNow().Sub(now) < time.Minute)
			next := add(t, s, u.ID, record.Notes, `{"content":"made after"}`)
			is.True(string(next.ID[:]) > string(young.ID[:]))
			view(t, s, func(tx *Tx) error {
				is.Equal(tx.Now, now)
				r, err := tx.Slug(old.Slug)
				is.NoErr(err)
				is.NoErr(r.Open(tx.Now))
				is.True(!r.Ended)
				r, err = tx.Owned(u.ID, record.Notes, young.ID)
				is.NoErr(err)
				is.True(r.Created.Equal(now) && r.Updated.Equal(now))
				p, err := pages.Get(tx.Tx, ownedKey(u.ID, mark.ID[:]...))
				is.NoErr(err)
				is.True(p.Due.Sub(now) <= record.MaxLook)
				up, err := tx.Upload(u.ID, upload.ID)
				is.NoErr(err)
				is.True(up.Expires.Equal(now.Add(UploadTime)))
				is.Equal(int64(binary.BigEndian.Uint64(tx.Get(bucket("blob.loose"), make([]byte, 32)))), now.UnixMilli())
				for _, d := range deliveriesOf(t, tx, h.ID) {
					is.True(!d.Due.After(now.Add(record.MaxRetry)))
				}
				return audit(tx)
			})
			_, err = s.AuthenticateSession(secret)
			is.NoErr(err)

			// Once more: there is nothing left to do.
			done, err = s.ResetClock()
			is.NoErr(err)
			is.Equal(done.Reopened, 0)
			is.Equal(done.Redated, 0)

			// It stays so after a kill, and time goes on.
			s = opened(t, leftOf(t, s), c.options())
			is.Equal(s.Now(), now)
			c.pass(101 * time.Hour)
			tick(s)
			view(t, s, func(tx *Tx) error {
				r, err := tx.Slug(old.Slug)
				is.NoErr(err)
				is.True(r.Ended && r.Open(tx.Now) != nil)
				is.Equal(len(deliveriesOf(t, tx, h.ID)), 2) // told again, now that it is so
				return audit(tx)
			})
		})
	}
}

// Wrong tries, sign-ins and bytes that were counted while the clock was ahead
// keep nobody waiting after it was set back.
func TestResetClockEndsWaits(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	o := c.options()
	o.WritesPerHour = 1000
	s := opened(t, t.TempDir(), o)
	u := user(t, s, "ann")
	c.add(73 * 365 * day)
	s.Now()
	c.pass(time.Hour)
	ahead := s.Now()
	is.Equal(ahead, c.now().UTC()) // believed
	for range 5 {
		s.Tries().Settle(ahead, false, limit("ann"))
	}
	s.Tries().SignedIn("198.51.100.0/24", ahead)
	SpendWrites(s, u.ID, 1500, ahead)
	is.NoErr(s.Flush())
	c.add(-73 * 365 * day)

	_, err := s.ResetClock()
	is.NoErr(err)
	is.True(s.Tries().Wait(s.Now(), limit("ann")) <= TryWindow)
	is.True(WriteWait(s, u.ID) <= time.Hour)
	c.pass(TryWindow)
	is.Equal(s.Tries().Wait(s.Now(), limit("ann")), time.Duration(0))
	c.pass(time.Hour)
	is.Equal(WriteWait(s, u.ID), time.Duration(0))
	c.pass(90 * day)
	is.True(!s.Tries().Familiar("198.51.100.0/24", s.Now()))
}

// A clock that is not set is no time to go back to.
func TestResetToUnsetClock(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	s := opened(t, t.TempDir(), c.options())
	user(t, s, "ann")
	before := s.Now()
	c.ms.Store(0)
	_, err := s.ResetClock()
	is.Equal(err, ErrClockUnset)
	is.Equal(s.Now(), before)
}
