package catalog_test

import (
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// TestUnexamined: files whose metadata nobody has looked for are found from any place in the feed. Storing the result
// changes nothing else, and not if the file has other bytes by now.
func TestUnexamined(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"n"}`)
	a := kvtest.Add(t, s, u.ID, record.Files, `{}`)
	b := kvtest.Add(t, s, u.ID, record.Files, `{}`)
	select {
	case <-catalog.UnexaminedAdded(s):
	default:
		t.Fatal("no signal")
	}
	list := func(since uint64, limit int) (all []*record.Record, next uint64) {
		kvtest.View(t, s, func(tx *kv.Tx) error { all, next = catalog.Unexamined(tx, since, limit, 1); return nil })
		return all, next
	}
	all, next := list(0, 1)
	is.Equal(len(all), 1)
	is.Equal(all[0].ID, a.ID)
	all, next = list(next, 10)
	is.Equal(len(all), 1)
	is.Equal(all[0].ID, b.ID)
	all, same := list(next, 10)
	is.Equal(len(all), 0)
	is.Equal(same, next)

	m := record.Metadata{State: record.MetadataRemovable, Rules: 1, Found: 1, Size: 2}
	other := *b
	other.Bytes = &record.Content{Ref: [32]byte{99}}
	gone := *b
	gone.ID = record.ID{1}
	for _, r := range []*record.Record{a, &other, &gone} {
		kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Examined(tx, r, m) })
	}
	all, _ = list(0, 10)
	is.Equal(len(all), 1)
	is.Equal(all[0].ID, b.ID)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := catalog.Owned(tx, u.ID, record.Files, a.ID)
		is.NoErr(err)
		is.Equal(now.Bytes.Metadata, m)
		is.Equal(now.Seq, a.Seq)
		is.True(now.Updated.Equal(a.Updated))
		return nil
	})
}
