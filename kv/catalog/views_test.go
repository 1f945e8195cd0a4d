package catalog_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// However many visitors race, an item with a limit is delivered exactly that many
// times. The count and the action are on the disk by then.
func TestExactLimits(t *testing.T) {
	for _, limit := range []int{1, 7} {
		for _, action := range []string{"null", `"make_private"`, `"delete"`} {
			t.Run(fmt.Sprint(limit, action), func(t *testing.T) {
				is := is.New(t)
				s := kvtest.Open(t)
				u := kvtest.User(t, s, "ann")
				r := kvtest.Add(
					t, s, u.ID, record.Files,
					fmt.Sprintf(`{"slug":"limited","isPublic":true,"maxViews":%d,"maxViewsAction":%s}`, limit, action),
				)
				errs := make([]error, 200)
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() { errs[i] = catalog.Seen(s, r, history.Visit{}) })
				}
				wg.Wait()
				seen := 0
				for _, err := range errs {
					switch {
					case err == nil:
						seen++
					case action == `"delete"`:
						is.Equal(kvtest.Code(err), "not_found")
					default:
						is.Equal(kvtest.Code(err), "limit_reached")
					}
				}
				is.Equal(seen, limit)
				killed := kvtest.CopyOf(t, s)
				for _, s := range []*kv.Store{s, killed} {
					kvtest.View(t, s, func(tx *kv.Tx) error {
						now, err := catalog.Slug(tx, "limited")
						if action == `"delete"` {
							is.Equal(kvtest.Code(err), "not_found")
							is.Equal(len(catalog.UnreferencedRefs(tx, tx.Now, 9)), 1)
							return kvtest.Audit(tx)
						}
						is.NoErr(err)
						is.True(now.Reached && !now.Public)
						is.Equal(kvtest.Viewed(tx, now), [2]int64{int64(limit), int64(limit)})
						is.Equal(kvtest.Code(now.Open(tx.Now)), "limit_reached")
						is.Equal(kvtest.Code(catalog.Seen(s, now, history.Visit{})), "limit_reached")
						return kvtest.Audit(tx)
					})
				}
			})
		}
	}
}

// see counts views until one is refused, up to limit.
func see(t testing.TB, s *kv.Store, r *record.Record, most int) int {
	t.Helper()
	for n := range most {
		if err := catalog.Seen(s, r, history.Visit{}); err != nil {
			return n
		}
	}
	return most
}

func TestLimitStartsAnew(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Links, `{"originalUrl":"https://example.org/","isPublic":true,"maxClicks":2}`)
	is.Equal(see(t, s, r, 9), 2)
	r = kvtest.Edit(t, s, r, `{"maxClicks":5}`)
	is.Equal(see(t, s, r, 9), 0) // raising the limit does not restart the count
	r = kvtest.Edit(t, s, r, `{"isPublic":true}`)
	is.Equal(see(t, s, r, 9), 5)
	r = kvtest.Edit(t, s, r, `{"isPublic":true,"maxClicks":9}`)
	is.Equal(see(t, s, r, 3), 3)
	r = kvtest.Edit(t, s, r, `{"maxClicks":2}`) // fewer than were seen: the next view is refused and closes it
	is.Equal(see(t, s, r, 9), 0)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := catalog.Record(tx, u.ID, record.Links, r.ID.String())
		is.NoErr(err)
		is.True(now.Reached)
		is.Equal(kvtest.Viewed(tx, now)[0], int64(10)) // all views there ever were
		return nil
	})

	// Views from before there was a limit do not count against it, though
	// they are written later.
	r = kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c","isPublic":true}`)
	is.Equal(see(t, s, r, 5), 5)
	limited := kvtest.Edit(t, s, r, `{"maxViews":3}`)
	is.NoErr(catalog.Seen(s, r, history.Visit{})) // by a visitor who read the record before
	is.NoErr(s.Flush())
	is.Equal(see(t, s, limited, 9), 3)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.Viewed(tx, r), [2]int64{9, 3})
		return kvtest.Audit(tx)
	})
	is.Equal(
		kvtest.Code(catalog.Seen(
			s, &record.Record{Owner: u.ID, Kind: record.Notes, Share: record.Share{Limit: 1}}, history.Visit{},
		)),
		"not_found",
	)
}

// Views of unlimited items are counted in memory. None is lost when they are written,
// by a flush or by Close.
func TestUnlimitedViews(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	r, gone := kvtest.Add(
		t, s, u.ID, record.Notes, `{"content":"c"}`,
	), kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				_ = catalog.Seen(s, r, history.Visit{})
			}
		})
	}
	wg.Wait()
	is.NoErr(catalog.Seen(s, gone, history.Visit{}))
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, gone) })
	is.NoErr(s.Close())
	s = kvtest.OpenAt(t, dir, nil)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.Viewed(tx, r), [2]int64{1000, 0})
		return kvtest.Audit(tx)
	})
}

func TestExpiry(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, c.Now)
	u := kvtest.User(t, s, "ann")
	end := c.Now().Add(time.Hour).UTC()
	r := kvtest.Add(
		t, s, u.ID, record.Notes,
		fmt.Sprintf(`{"content":"c","isPublic":true,"maxViews":9,"expiresAt":%q}`, end.Format(time.RFC3339Nano)),
	)
	openNow := func(s *kv.Store) string {
		var err error
		kvtest.View(t, s, func(tx *kv.Tx) error { err = r.Open(tx.Now); return nil })
		return kvtest.Code(err)
	}
	c.Ms.Store(end.UnixMilli() - 1)
	is.NoErr(catalog.Seen(s, r, history.Visit{}))
	is.Equal(openNow(s), "")
	c.Ms.Store(end.UnixMilli()) // nothing is written from here on
	is.Equal(openNow(s), "expired")

	// The clock is set back: expired items stay expired, here, after a stop, and in
	// the files that a killed process leaves, as far as it wrote.
	c.Ms.Store(end.UnixMilli() - 1000)
	is.Equal(openNow(s), "expired")
	is.Equal(kvtest.Code(catalog.Seen(s, r, history.Visit{})), "expired")
	is.Equal(s.Now(), end)
	is.NoErr(s.Close())
	s = kvtest.OpenAt(t, dir, c.Now)
	is.Equal(openNow(s), "expired")
	is.Equal(openNow(kvtest.CopyOf(t, s)), "expired")
	c.Ms.Store(end.UnixMilli() + 5)
	is.Equal(s.Now(), end.Add(5*time.Millisecond))

	f := kvtest.Form(
		t, record.Notes, fmt.Sprintf(`{"content":"c","expiresAt":%q}`, end.Add(5*time.Millisecond).Format(time.RFC3339Nano)),
	)
	err := s.Update(func(tx *kv.Tx) error {
		_, err := catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: f})
		return err
	})
	is.Equal(kvtest.Code(err), "invalid_fields")
	r = kvtest.Edit(t, s, r, `{"expiresAt":"1970-01-01T00:00:00Z"}`) // a patch may set it
	is.Equal(openNow(s), "expired")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := catalog.Record(tx, u.ID, record.Notes, r.ID.String())
		is.NoErr(err)
		is.True(now.Expired(tx.Now))
		return nil
	})
}
