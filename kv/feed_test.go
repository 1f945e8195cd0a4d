package kv_test

import (
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
)

// Marks of removals are removed after they were read. Entries of existing records stay
// in the feed, no matter who trims them.
func TestTrim(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	owner := kvtest.User(t, s, "ann")
	kept := kvtest.Add(t, s, owner.ID, record.Notes, `{"content":"kept"}`)
	gone := kvtest.Add(t, s, owner.ID, record.Notes, `{"content":"gone"}`)
	select {
	case <-s.Changed():
	default:
		t.Fatal("a commit with changes was not told")
	}
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, gone) })
	feed := func() (all []kv.Change) {
		kvtest.View(t, s, func(tx *kv.Tx) (err error) {
			all, err = tx.Changes(0, 100)
			return err
		})
		return all
	}
	all := feed()
	is.Equal(len(all), 2)
	is.Equal(all[0].Record.AppendRow(nil), kept.AppendRow(nil))
	is.True(all[1].Record == nil)
	is.Equal(all[1].ID, gone.ID)

	is.NoErr(s.Trim([]uint64{kept.Seq, 7777})) // a record that is there, and nothing
	is.Equal(len(feed()), 2)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Trimmed(), uint64(0))
		return nil
	})
	is.NoErr(s.Trim([]uint64{all[1].Seq}))
	is.Equal(len(feed()), 1)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Trimmed(), all[1].Seq)
		is.Equal(tx.Latest(), all[1].Seq)
		var problems []error
		tx.Audit(func(err error) { problems = append(problems, err) })
		is.Equal(len(problems), 0)
		return nil
	})
}
