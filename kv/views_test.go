package kv

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// However many race for it, an item with a limit is delivered exactly that
// often; what is counted, and the action, are on the disk by then.
func TestExactLimits(t *testing.T) {
	for _, limit := range []int{1, 7} {
		for _, action := range []string{"null", `"make_private"`, `"delete"`} {
			t.Run(fmt.Sprint(limit, action), func(t *testing.T) {
				is := is.New(t)
				s := open(t)
				u := user(t, s, "ann")
				r := add(t, s, u.ID, record.Files, fmt.Sprintf(`{"slug":"limited","isPublic":true,"maxViews":%d,"maxViewsAction":%s}`, limit, action))
				errs := make([]error, 200)
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() { errs[i] = s.Seen(r) })
				}
				wg.Wait()
				seen := 0
				for _, err := range errs {
					switch {
					case err == nil:
						seen++
					case action == `"delete"`:
						is.Equal(code(err), "not_found")
					default:
						is.Equal(code(err), "limit_reached")
					}
				}
				is.Equal(seen, limit)
				killed := copyOf(t, s)
				for _, s := range []*Store{s, killed} {
					view(t, s, func(tx *Tx) error {
						now, err := tx.Slug("limited")
						if action == `"delete"` {
							is.Equal(code(err), "not_found")
							is.Equal(len(tx.UnreferencedRefs(tx.Now, 9)), 1)
							return audit(tx)
						}
						is.NoErr(err)
						is.True(now.Reached && !now.Public)
						is.Equal(viewed(tx, now), [2]int64{int64(limit), int64(limit)})
						is.Equal(code(now.Open(tx.Now)), "limit_reached")
						is.Equal(code(s.Seen(now)), "limit_reached")
						return audit(tx)
					})
				}
			})
		}
	}
}

// edit changes a record as JSON says.
func edit(t testing.TB, s *Store, r *record.Record, text string) *record.Record {
	t.Helper()
	var now *record.Record
	update(t, s, func(tx *Tx) (err error) {
		if now, err = tx.Record(r.Owner, r.Kind, r.ID.String()); err != nil {
			return err
		}
		f, err := patch(now, text)
		if err != nil {
			return err
		}
		return tx.Save(now, f, "")
	})
	return now
}

// see counts views until one is refused, at most limit.
func see(t testing.TB, s *Store, r *record.Record, most int) int {
	t.Helper()
	for n := range most {
		if err := s.Seen(r); err != nil {
			return n
		}
	}
	return most
}

func TestLimitStartsAnew(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	r := add(t, s, u.ID, record.Links, `{"originalUrl":"https://example.org/","isPublic":true,"maxClicks":2}`)
	is.Equal(see(t, s, r, 9), 2)
	r = edit(t, s, r, `{"maxClicks":5}`)
	is.Equal(see(t, s, r, 9), 0) // more is not again
	r = edit(t, s, r, `{"isPublic":true}`)
	is.Equal(see(t, s, r, 9), 5)
	r = edit(t, s, r, `{"isPublic":true,"maxClicks":9}`)
	is.Equal(see(t, s, r, 3), 3)
	r = edit(t, s, r, `{"maxClicks":2}`) // fewer than were seen: the next is refused, and ends it
	is.Equal(see(t, s, r, 9), 0)
	view(t, s, func(tx *Tx) error {
		now, err := tx.Record(u.ID, record.Links, r.ID.String())
		is.NoErr(err)
		is.True(now.Reached)
		is.Equal(viewed(tx, now)[0], int64(10)) // all views there ever were
		return nil
	})

	// Views from before there was a limit do not count against it, though
	// they are written later.
	r = add(t, s, u.ID, record.Notes, `{"content":"c","isPublic":true}`)
	is.Equal(see(t, s, r, 5), 5)
	limited := edit(t, s, r, `{"maxViews":3}`)
	is.NoErr(s.Seen(r)) // by one who read the record before
	is.NoErr(s.Flush())
	is.Equal(see(t, s, limited, 9), 3)
	view(t, s, func(tx *Tx) error {
		is.Equal(viewed(tx, r), [2]int64{9, 3})
		return audit(tx)
	})
	is.Equal(code(s.Seen(&record.Record{Owner: u.ID, Kind: record.Notes, Share: record.Share{Limit: 1}})), "not_found")
}

// Views of unlimited items are counted in memory, and all there once they are
// written, which Close does too.
func TestUnlimitedViews(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, nil)
	u := user(t, s, "ann")
	r, gone := add(t, s, u.ID, record.Notes, `{"content":"c"}`), add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				_ = s.Seen(r)
			}
		})
	}
	wg.Wait()
	is.NoErr(s.Seen(gone))
	update(t, s, func(tx *Tx) error { return tx.Remove(gone) })
	is.NoErr(s.Close())
	s = openAt(t, dir, nil)
	view(t, s, func(tx *Tx) error {
		is.Equal(viewed(tx, r), [2]int64{1000, 0})
		return audit(tx)
	})
}

// What cannot be written is kept for the next try.
func TestCountsAreKept(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	r := add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	_, secret := key(t, s, u.ID, record.Key{})
	_, err := s.Authenticate(secret)
	is.NoErr(err)
	is.NoErr(s.Seen(r))
	SetClosed(s, true)
	is.True(s.Flush() != nil)
	is.NoErr(s.Seen(r))
	is.True(s.Flush() != nil)
	SetClosed(s, false)
	is.NoErr(s.Flush())
	view(t, s, func(tx *Tx) error {
		is.Equal(viewed(tx, r)[0], int64(2))
		ks, err := tx.Keys(u.ID)
		is.NoErr(err)
		is.True(!ks[0].LastUsed.IsZero())
		return nil
	})
}

func TestExpiry(t *testing.T) {
	is := is.New(t)
	c := newClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, c.now)
	u := user(t, s, "ann")
	end := c.now().Add(time.Hour).UTC()
	r := add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"c","isPublic":true,"maxViews":9,"expiresAt":%q}`, end.Format(time.RFC3339Nano)))
	openNow := func(s *Store) string {
		var err error
		view(t, s, func(tx *Tx) error { err = r.Open(tx.Now); return nil })
		return code(err)
	}
	c.ms.Store(end.UnixMilli() - 1)
	is.NoErr(s.Seen(r))
	is.Equal(openNow(s), "")
	c.ms.Store(end.UnixMilli()) // nothing is written from here on
	is.Equal(openNow(s), "expired")

	// The clock is set back: what has expired stays expired, here, after a
	// stop, and in what a killed process leaves, as far as it wrote.
	c.ms.Store(end.UnixMilli() - 1000)
	is.Equal(openNow(s), "expired")
	is.Equal(code(s.Seen(r)), "expired")
	is.Equal(s.Now(), end)
	is.NoErr(s.Close())
	s = openAt(t, dir, c.now)
	is.Equal(openNow(s), "expired")
	is.Equal(openNow(copyOf(t, s)), "expired")
	c.ms.Store(end.UnixMilli() + 5)
	is.Equal(s.Now(), end.Add(5*time.Millisecond))

	f := form(t, record.Notes, fmt.Sprintf(`{"content":"c","expiresAt":%q}`, end.Add(5*time.Millisecond).Format(time.RFC3339Nano)))
	err := s.Update(func(tx *Tx) error {
		_, err := tx.Add(u.ID, record.Notes, f, nil, "")
		return err
	})
	is.Equal(code(err), "invalid_fields")
	r = edit(t, s, r, `{"expiresAt":"1970-01-01T00:00:00Z"}`) // a patch may say so
	is.Equal(openNow(s), "expired")
	view(t, s, func(tx *Tx) error {
		now, err := tx.Record(u.ID, record.Notes, r.ID.String())
		is.NoErr(err)
		is.True(now.Expired(tx.Now))
		return nil
	})
}

// TestStoredViews holds the row of a counter.
func TestStoredViews(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(hex.EncodeToString(views{total: 0x1122, used: 3}.row()), "00000000000011220000000000000003")
}
