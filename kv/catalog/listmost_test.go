package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// A page ends at its limit of bytes, but has at least one record, and the next page
// continues there, in every order. Cut texts count with their cut length.
func TestListBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	const notes = 10
	for i := range notes {
		long := 10_000
		if i == 4 {
			long = 100_000 // more than a page on its own
		}
		kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"title":"n%d","content":%q}`, i, strings.Repeat("x", long)))
	}
	for _, sort := range []catalog.Sort{catalog.Newest, catalog.Oldest, catalog.Updated, catalog.Title, catalog.Views} {
		for _, brief := range []bool{false, true} {
			q := catalog.Query{Owner: u.ID, Kind: record.Notes, Sort: sort, Limit: 500, Most: 35_000, Brief: brief}
			seen, pages := map[record.ID]bool{}, 0
			for {
				var page catalog.Page
				kvtest.View(t, s, func(tx *kv.Tx) (err error) { page, err = catalog.List(tx, q); return err })
				is.Equal(page.Total, notes)
				is.True(len(page.Records) > 0)
				size := 0
				for _, r := range page.Records {
					is.True(!seen[r.ID])
					seen[r.ID] = true
					size += len(r.Body)
				}
				is.True(size <= q.Most || len(page.Records) == 1)
				pages++
				q.After = page.Next
				if q.After == "" {
					break
				}
			}
			is.Equal(len(seen), notes)
			is.Equal(pages == 1, brief)
		}
	}
	q := catalog.Query{Owner: u.ID, Kind: record.Notes, Limit: 500, Most: 35_000, Offset: 8}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		page, err := catalog.List(tx, q)
		is.Equal(len(page.Records), 2)
		is.Equal(page.Next, "")
		return err
	})
}
