package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// Titles that a former version filed under their beginning come to the places of today, with all that was deep in a list.
func TestFormerOrders(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	titles := []string{"Äpfel", "10", "Zoo", "9", "“Beeren”", "apple"}
	for i := range 250 { // more than one transaction
		titles = append(titles, fmt.Sprintf("Photo %d", i))
	}
	var all []*record.Record
	for _, title := range titles {
		all = append(all, kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"title":%q,"content":""}`, title)))
	}
	list := func(offset int) (got []string) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			page, err := catalog.List(tx, catalog.Query{
				Owner: u.ID, Kind: record.Notes, Sort: catalog.Title, Limit: 500, Offset: offset,
			})
			is.NoErr(err)
			for _, r := range page.Records {
				b, err := r.Decode()
				is.NoErr(err)
				got = append(got, b.Title())
			}
			return nil
		})
		return got
	}
	want := list(0)
	is.Equal(want[:5], []string{"9", "10", "Äpfel", "apple", "“Beeren”"})
	is.Equal(want[5:8], []string{"Photo 0", "Photo 1", "Photo 2"})

	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for i, r := range all {
			now, err := catalog.RecordRows.Get(tx.Tx, r.Key())
			is.NoErr(err)
			now.Order = record.Fold(titles[i])
			is.NoErr(catalog.RecordRows.Put(tx.Tx, now))
		}
		return nil
	})
	is.True(!slices.Equal(list(0), want))
	seq := all[0].Seq
	kvtest.Tick(s)
	is.Equal(list(0), want)
	is.Equal(list(253), want[253:])
	kvtest.View(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Owned(tx, u.ID, record.Notes, all[0].ID)
		is.NoErr(err)
		is.Equal(r.Seq, seq) // nobody changed it
		is.True(r.OrderedNow() && !strings.Contains(r.Order, "pfel"))
		return kvtest.Audit(tx)
	})
}
