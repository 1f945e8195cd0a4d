package catalog_test

import (
	"fmt"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// Titles that a former version filed under their beginning come to the places of today, with all that was deep in a
// list. A record that cannot be read does not keep the others.
func TestFormerOrders(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	kvtest.Tick(s) // there is nothing to renew now, so this store leaves the keys below
	u := kvtest.User(t, s, "ann")
	titles := []string{"Äpfel", "10", "Zoo", "9", "“Beeren”", "apple"}
	for i := range 250 { // more than one transaction
		titles = append(titles, fmt.Sprintf("Photo %d", i))
	}
	var all []*record.Record
	for _, title := range titles {
		all = append(all, kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"title":%q,"content":""}`, title)))
	}
	want := titlesOf(t, s, u.ID, 0)
	is.Equal(want[:5], []string{"9", "10", "Äpfel", "apple", "“Beeren”"})
	is.Equal(want[5:8], []string{"Photo 0", "Photo 1", "Photo 2"})

	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for i, r := range all {
			now, err := catalog.RecordRows.Get(tx.Tx, r.Key())
			is.NoErr(err)
			now.Order = record.Fold(titles[i])
			if titles[i] == "Zoo" {
				now.Body = []byte(`{"title":7}`)
			}
			is.NoErr(catalog.RecordRows.Put(tx.Tx, now))
		}
		return nil
	})
	now := kvtest.CopyOf(t, s)
	for range 3 {
		kvtest.Tick(now)
	}
	want = want[:len(want)-1] // it stays at its former place
	is.Equal(titlesOf(t, now, u.ID, 0), want)
	is.Equal(titlesOf(t, now, u.ID, 253), want[253:])
	kvtest.View(t, now, func(tx *kv.Tx) error {
		r, err := catalog.Owned(tx, u.ID, record.Notes, all[0].ID)
		is.NoErr(err)
		is.Equal(r.Seq, all[0].Seq) // nobody changed it
		is.True(r.OrderedNow())
		return nil
	})
}

// A record that was deleted after its key was found is not taken for one that cannot be read.
func TestFormerOrderOfDeleted(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	failed := 0
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		failed, err = catalog.RenewOrders(s, tx, record.RowKey(u.ID, record.Notes, u.ID)) // no note has this id
		return err
	})
	is.Equal(failed, 0)
}

// titlesOf are the titles in a list by title, but those that cannot be read.
func titlesOf(t *testing.T, s *kv.Store, owner record.ID, offset int) (titles []string) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		page, err := catalog.List(tx, catalog.Query{
			Owner: owner, Kind: record.Notes, Sort: catalog.Title, Limit: 500, Offset: offset,
		})
		if err != nil {
			return err
		}
		for _, r := range page.Records {
			b, err := r.Decode()
			if err == nil {
				titles = append(titles, b.Title())
			}
		}
		return nil
	})
	return titles
}
