package catalog_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/kvtest/needs"
	"kist/kv/record"
)

// manyNotes makes n notes in one commit.
func manyNotes(
	t testing.TB, s *kv.Store, owner record.ID, n int, form func(i int) *record.Form,
) (all []*record.Record) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for i := range n {
			r, err := catalog.Add(tx, catalog.Draft{Owner: owner, Kind: record.Notes, Form: form(i)})
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	return all
}

// Pages at any offset are those of a plain sorted list, in every order and with a
// facet, while records are created, edited and deleted. They walk few entries.
func TestDeepOffsets(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), clock.Now)
	u, other := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	rnd := rand.New(rand.NewPCG(1, 2))
	yes := true
	public := func() bool { return rnd.IntN(2) == 0 }
	form := func() *record.Form {
		return kvtest.Form(
			t, record.Notes, fmt.Sprintf(`{"title":"n%d","content":"x","isPublic":%t}`, rnd.IntN(1000), public()),
		)
	}
	all := map[record.ID]*record.Record{}
	keep := func(some []*record.Record) {
		for _, r := range some {
			all[r.ID] = r
		}
	}
	anyOne := func() *record.Record {
		ids := make([]record.ID, 0, len(all))
		for id := range all {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, func(a, b record.ID) int { return bytes.Compare(a[:], b[:]) })
		return all[ids[rnd.IntN(len(ids))]]
	}
	keep(manyNotes(t, s, u.ID, 4000, func(int) *record.Form { return form() }))

	type order struct {
		sort    catalog.Sort
		public  *bool
		compare func(a, b *record.Record) int
	}
	age := func(a, b *record.Record) int { return bytes.Compare(a.ID[:], b.ID[:]) }
	down := func(by func(a, b *record.Record) int) func(a, b *record.Record) int {
		return func(a, b *record.Record) int { return -cmp.Or(by(a, b), age(a, b)) }
	}
	updated := func(a, b *record.Record) int { return a.Updated.Compare(b.Updated) }
	orders := []order{
		{catalog.Newest, nil, down(age)},
		{catalog.Oldest, nil, age},
		{catalog.Newest, &yes, down(age)},
		{catalog.Oldest, &yes, age},
		{catalog.Updated, nil, down(updated)},
		{catalog.Title, nil, func(a, b *record.Record) int { return cmp.Or(cmp.Compare(a.Order, b.Order), age(a, b)) }},
		{catalog.Views, nil, down(age)}, // nobody has looked
	}
	check := func() {
		for _, o := range orders {
			var want []*record.Record
			for _, r := range all {
				if o.public == nil || r.Public {
					want = append(want, r)
				}
			}
			slices.SortFunc(want, o.compare)
			q := catalog.Query{Owner: u.ID, Kind: record.Notes, Sort: o.sort, Public: o.public, Limit: 3}
			for _, q.Offset = range []int{
				511, 512, 513, rnd.IntN(len(want)), rnd.IntN(len(want)), len(want) - 3, len(want) - 1, len(want), len(want) + 1000,
			} {
				var page catalog.Page
				kvtest.View(t, s, func(tx *kv.Tx) (err error) { page, err = catalog.List(tx, q); return err })
				is.Equal(page.Total, len(want))
				from := min(q.Offset, len(want))
				wanted := want[from:min(from+q.Limit, len(want))]
				is.Equal(len(page.Records), len(wanted))
				for i := range wanted {
					if page.Records[i].ID != wanted[i].ID {
						t.Fatalf("%s, offset %d: record %d is %s, want %s", o.sort, q.Offset, i, page.Records[i].ID, wanted[i].ID)
					}
				}
				is.Equal(page.Next != "", from+q.Limit < len(want))
				if o.public == nil && o.sort != catalog.Views && q.Offset < len(want) {
					kvtest.View(t, s, func(tx *kv.Tx) error {
						is.True(catalog.SkipBy(tx, q) < 2*catalog.RankStep)
						return nil
					})
				}
			}
		}
	}
	check()
	for range 40 {
		clock.Add(time.Duration(rnd.IntN(3)) * time.Millisecond)
		for range 1 + rnd.IntN(4) {
			switch rnd.IntN(8) {
			case 0: // more than a part has
				keep(manyNotes(t, s, u.ID, 1+rnd.IntN(700), func(int) *record.Form { return form() }))
			case 1: // older than the others
				kvtest.Update(t, s, func(tx *kv.Tx) error {
					r, err := catalog.Add(tx, catalog.Draft{
						Owner: u.ID, Kind: record.Notes, Form: form(), Past: &record.Past{
							Created: anyOne().Created.Add(-time.Millisecond),
						},
					})
					keep([]*record.Record{r})
					return err
				})
			case 2, 3:
				r := anyOne()
				all[r.ID] = kvtest.Edit(t, s, r, fmt.Sprintf(`{"title":"n%d"}`, rnd.IntN(1000)))
			case 4:
				r := anyOne()
				all[r.ID] = kvtest.Edit(t, s, r, fmt.Sprintf(`{"isPublic":%t}`, public()))
			case 5: // a run of neighbours, so that parts become empty
				middle := anyOne()
				kvtest.Update(t, s, func(tx *kv.Tx) error {
					for id, r := range all {
						if bytes.Equal(id[:6], middle.ID[:6]) && len(all) > 2000 && rnd.IntN(3) > 0 {
							if err := catalog.Remove(tx, r); err != nil {
								return err
							}
							delete(all, id)
						}
					}
					return nil
				})
			case 6:
				r := anyOne()
				kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, r) })
				delete(all, r.ID)
			case 7:
				manyNotes(t, s, other.ID, 3, func(int) *record.Form { return form() })
			}
		}
		check()
	}
	is.NoErr(s.View(kvtest.Audit))
}

// A transaction that began before the counts in memory were brought up to date sees its
// own list, and leaves right counts behind.
func TestDeepOffsetOfOlderView(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	all := manyNotes(t, s, u.ID, 2000, func(int) *record.Form { return kvtest.Form(t, record.Notes, `{"content":"x"}`) })
	at := func(tx *kv.Tx, offset int) record.ID {
		page, err := catalog.List(
			tx, catalog.Query{Owner: u.ID, Kind: record.Notes, Sort: catalog.Oldest, Limit: 1, Offset: offset},
		)
		is.NoErr(err)
		return page.Records[0].ID
	}
	begun, renewed, done := make(chan bool), make(chan bool), make(chan record.ID)
	go func() {
		var id record.ID
		kvtest.View(t, s, func(tx *kv.Tx) error {
			close(begun)
			<-renewed
			id = at(tx, 1500)
			return nil
		})
		done <- id
	}()
	<-begun
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, all[0]) })
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"new"}`) // as many as before
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(at(tx, 1500), all[1501].ID)
		return nil
	})
	close(renewed)
	is.Equal(<-done, all[1500].ID)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(at(tx, 1500), all[1501].ID)
		return nil
	})
}
