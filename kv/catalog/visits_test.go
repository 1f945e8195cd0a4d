package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// visits reads all visits of a record.
func visits(t *testing.T, s *kv.Store, r *record.Record) (v history.Visits) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) (err error) { v, err = history.VisitsOf(tx, r, 0, 1<<32-1); return err })
	return v
}

func seen(t *testing.T, s *kv.Store, r *record.Record, v history.Visit) {
	t.Helper()
	if err := catalog.Seen(s, r, v); err != nil {
		t.Fatal(err)
	}
}

// The counts by day are those of a model, whatever the clock does and however often the
// store is opened again.
func TestVisitsByDay(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	c := kvtest.NewClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, c.Now)
	u := kvtest.User(t, s, "ann")
	type model map[history.Day]*history.VisitDay
	var items []*record.Record
	var want []model
	for _, text := range []string{
		`{"content":"a","isPublic":true}`, `{"content":"b","isPublic":true,"logVisits":true}`,
		`{"content":"c","isPublic":true,"maxViews":1000000}`,
	} {
		items, want = append(items, kvtest.Add(t, s, u.ID, record.Notes, text)), append(want, model{})
	}
	total := make([]int64, len(items))
	for range 1000 {
		switch n := rnd.IntN(100); {
		case n < 80:
			i, now := rnd.IntN(len(items)), s.Now()
			v := history.Visit{
				What: history.VisitPage, Device: history.DeviceClasses[rnd.IntN(3)],
				Referrer: []string{"", "a.example", "b.example"}[rnd.IntN(3)],
			}
			seen(t, s, items[i], v)
			day := history.DayOf(now)
			if want[i][day] == nil {
				want[i][day] = new(history.VisitDay)
			}
			v.At = now
			want[i][day].Count(v)
			total[i]++
		case n < 90:
			c.Add(time.Duration(rnd.Int64N(int64(40 * time.Hour))))
		case n < 93:
			c.Add(-time.Duration(rnd.Int64N(int64(50 * time.Hour)))) // the store's time stands still
		case n < 97:
			is.NoErr(s.Flush())
		case n < 98:
			is.NoErr(s.Close())
			s = kvtest.OpenAt(t, dir, c.Now)
		default:
			is.NoErr(s.Flush())
			kvtest.View(t, s, kvtest.Audit)
			for i, r := range items {
				got := visits(t, s, r)
				is.Equal(len(got.Days), len(want[i]))
				sum := int64(0)
				for _, d := range got.Days {
					w := want[i][d.Day]
					is.True(w != nil)
					is.Equal([]int64{d.Phone, d.Desktop, d.Program}, []int64{w.Phone, w.Desktop, w.Program})
					is.Equal(d.Hosts, w.Hosts)
					sum += d.Views()
				}
				is.Equal(sum, total[i])
				kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(kvtest.Viewed(tx, r)[0], total[i]); return nil })
				is.True(!got.Last.After(s.Now()))
			}
		}
	}
	is.True(len(want[0]) > 5)
}

// Days are kept for 400 days, the log for 30 days and 1000 visits, and all of it as long
// as the record.
func TestVisitsAreDropped(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"a","isPublic":true,"logVisits":true}`)
	start := s.Now()
	for i := range history.VisitLogSize + 10 {
		seen(t, s, r, history.Visit{What: history.VisitFile, Referrer: fmt.Sprint("n", i), Network: fmt.Sprint(i)})
	}
	is.NoErr(s.Flush())
	got := visits(t, s, r)
	is.Equal(len(got.Log), history.VisitLogSize)
	is.Equal(got.Log[0].Referrer, fmt.Sprint("n", history.VisitLogSize+9)) // the latest

	tick := func() {
		for range history.VisitLogSize/kv.RemoveBatch + 1 {
			kvtest.Tick(s)
		}
		kvtest.View(t, s, kvtest.Audit)
		got = visits(t, s, r)
	}
	c.Ms.Store(start.Add(history.VisitLogTime).UnixMilli())
	tick()
	is.Equal(len(got.Log), history.VisitLogSize)
	c.Add(time.Millisecond)
	tick()
	is.Equal(len(got.Log), 0)
	is.Equal(len(got.Days), 1)
	seen(t, s, r, history.Visit{})
	is.NoErr(s.Flush())

	c.Ms.Store(history.DayOf(start).Start().Add(400 * 24 * time.Hour).UnixMilli())
	tick()
	is.Equal(len(got.Days), 2)
	c.Add(time.Millisecond)
	tick()
	is.Equal(len(got.Days), 1)
	is.Equal(len(got.Log), 0)

	seen(t, s, r, history.Visit{})
	is.NoErr(s.Flush())
	seen(t, s, r, history.Visit{}) // counted after the record is gone
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		now, err := catalog.Owned(tx, u.ID, record.Notes, r.ID)
		if err != nil {
			return err
		}
		return catalog.Remove(tx, now)
	})
	is.NoErr(s.Flush())
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("visit")), 0)
		is.Equal(tx.Count(kvtest.Bucket("visit.log")), 0)
		return kvtest.Audit(tx)
	})
}

// An item is logged only while its owner wants that. A view against a limit is logged in
// its own commit.
func TestVisitLog(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	hook := kvtest.HookFor(t, s, u.ID, jobs.ShareOpened)
	events := func() (n int) {
		kvtest.View(t, s, func(tx *kv.Tx) error { n = len(kvtest.DeliveriesOf(t, tx, hook.ID)); return nil })
		return n
	}
	v := history.Visit{What: history.VisitPage, Device: history.Phone, Referrer: "example.org", Network: "192.0.2.0/24"}
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"a","isPublic":true}`)
	seen(t, s, r, v)
	is.NoErr(s.Flush())
	is.Equal(len(visits(t, s, r).Log), 0)
	r = kvtest.Edit(t, s, r, `{"logVisits":true}`)
	is.Equal(events(), 0)

	// One event, then at most one in ten minutes.
	for i, want := range []int{1, 1, 1, 2, 2, 2, 3} {
		seen(t, s, r, v)
		seen(t, s, r, v)
		is.NoErr(s.Flush())
		is.Equal(len(visits(t, s, r).Log), i+1) // one of a network in a minute
		is.Equal(events(), want)
		c.Add(4 * time.Minute)
	}
	want := visits(t, s, r).Log[0].Visit
	is.Equal(want.At, c.Now().Add(-4*time.Minute).UTC())
	want.At = time.Time{}
	is.Equal(want, v)

	seen(t, s, r, v) // turned off before the flush
	r = kvtest.Edit(t, s, r, `{"logVisits":false}`)
	is.NoErr(s.Flush())
	is.Equal(len(visits(t, s, r).Log), 7) // what there was stays

	limited := kvtest.Add(
		t, s, u.ID, record.Links, `{"originalUrl":"https://example.org","isPublic":true,"maxClicks":2,"logVisits":true}`,
	)
	seen(t, s, limited, v)
	is.Equal(len(visits(t, s, limited).Log), 1)
	is.Equal(visits(t, s, limited).Days[0].Phone, int64(1))
	is.Equal(events(), 4)
	killed := kvtest.CopyOf(t, s)
	is.Equal(len(visits(t, killed, limited).Log), 1)
}

// What hostile visitors can make the server keep in memory is bounded, and their views
// count all the same.
func TestVisitsInMemory(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	var items []*record.Record
	for i := range 100 {
		items = append(
			items, kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"%d","isPublic":true,"logVisits":true}`, i)),
		)
	}
	host := fmt.Sprintf("%0230d", 0)
	for i := range 100_000 {
		seen(t, s, items[i%len(items)], history.Visit{Referrer: fmt.Sprintf("%s%d", host, i)})
	}
	views, hosts, log := catalog.PendingVisits(s)
	is.True(views > 0)
	is.True(hosts <= catalog.MaxHosts)
	is.True(log <= catalog.MaxLog)
	is.NoErr(s.Flush())
	sum := int64(0)
	for _, r := range items {
		v := visits(t, s, r)
		is.Equal(len(v.Days), 1)
		sum += v.Days[0].Views()
	}
	is.Equal(sum, int64(100_000))
	kvtest.View(t, s, kvtest.Audit)
}

// Visits that could not be written are written later, with those that came meanwhile.
func TestVisitsAreGivenBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"a","isPublic":true,"logVisits":true}`)
	other := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"b","isPublic":true}`)
	for range 3 {
		seen(t, s, r, history.Visit{Device: history.Phone, Referrer: "a.example", Network: "a"})
		seen(t, s, other, history.Visit{})
		_, giveBack := catalog.FlushViews(s)
		seen(t, s, r, history.Visit{Device: history.Desktop, Referrer: "b.example", Network: "b"})
		if giveBack != nil { // otherwise the store has just flushed
			giveBack()
		}
	}
	is.NoErr(s.Flush())
	write, _ := catalog.FlushViews(s)
	is.True(write == nil)
	v := visits(t, s, r)
	var views, a, b int64
	for _, d := range v.Days { // there are two if it is midnight
		views, a, b = views+d.Views(), a+d.Hosts["a.example"], b+d.Hosts["b.example"]
	}
	is.Equal([]int64{views, a, b, int64(len(v.Log))}, []int64{6, 3, 3, 2})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.Viewed(tx, r)[0], int64(6))
		is.Equal(kvtest.Viewed(tx, other)[0], int64(3))
		return kvtest.Audit(tx)
	})
}

// A repair keeps visits and the activity, but not the visits of lost records.
func TestRepairOfVisits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	var all []*record.Record
	for i := range 2 {
		r := kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"%d","isPublic":true,"logVisits":true}`, i))
		seen(t, s, r, history.Visit{Referrer: "a.example"})
		all = append(all, r)
	}
	is.NoErr(s.Flush())
	kvtest.Update(t, s, func(tx *kv.Tx) error { return tx.Put(kvtest.Bucket("record"), all[0].Key(), []byte("damaged")) })
	s = repaired(t, s, dir, nil)
	v := visits(t, s, all[0])
	is.Equal(len(v.Days)+len(v.Log), 0)
	v = visits(t, s, all[1])
	is.Equal(len(v.Log), 1)
	is.Equal(v.Days[0].Hosts["a.example"], int64(1))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		p, err := people.ActivityOf(tx, u.ID, nil, 10)
		is.NoErr(err)
		is.Equal(len(p.Rows), 2) // both were shared
		return kvtest.Audit(tx)
	})
}

// However often one network opens an item, one visit is logged in a minute, whether the
// visits are counted in memory or each in a commit of its own. Another network is logged too.
func TestVisitLogOncePerMinute(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]string{"unlimited": "", "limited": `,"maxViews":1000`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := kvtest.NewClock()
			s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
			u := kvtest.User(t, s, "ann")
			r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"a","isPublic":true,"logVisits":true`+limit+`}`)
			for _, step := range []struct {
				after  time.Duration
				logged int
			}{{0, 2}, {history.LoggedEvery - time.Millisecond, 2}, {time.Millisecond, 4}} {
				c.Add(step.after)
				for range 20 {
					seen(t, s, r, history.Visit{Network: "192.0.2.0/24"})
					seen(t, s, r, history.Visit{Network: "198.51.100.0/24"})
				}
				is.NoErr(s.Flush())
				is.Equal(len(visits(t, s, r).Log), step.logged)
			}
			is.Equal(visits(t, s, r).Days[0].Views(), int64(120)) // all are counted
		})
	}
}
