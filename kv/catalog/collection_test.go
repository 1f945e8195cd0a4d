package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// members returns the ids of a collection's items, in its order.
func members(t *testing.T, s *kv.Store, r *record.Record) (ids []string) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := catalog.Owned(tx, r.Owner, r.Kind, r.ID)
		if err != nil {
			return err
		}
		all, err := catalog.ItemsOf(tx, now)
		if err != nil {
			return err
		}
		for _, m := range all.All {
			ids = append(ids, m.ID.String())
		}
		return nil
	})
	return ids
}

// byOwner asks as the owner of a collection.
func byOwner(c *record.Record) record.Asker { return record.Asker{ID: c.Owner, Role: record.RoleOwner} }

// change runs fn on a collection as it is now.
func change(s *kv.Store, r *record.Record, fn func(tx *kv.Tx, r *record.Record) error) error {
	return s.Update(func(tx *kv.Tx) error {
		now, err := catalog.Owned(tx, r.Owner, r.Kind, r.ID)
		if err != nil {
			return err
		}
		return fn(tx, now)
	})
}

// A collection that its limit deletes is private at once, stays an hour for its last visitor, and is then gone for good,
// unless its owner shared it again or wants another action. Its items stay.
func TestSpentCollection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	owner := kvtest.User(t, s, "ann").ID
	note := kvtest.Add(t, s, owner, record.Notes, `{"content":"c"}`)
	var all []*record.Record
	for range 3 {
		r := kvtest.Add(
			t, s, owner, record.Collections,
			`{"title":"c","isPublic":true,"maxViews":1,"maxViewsAction":"delete","source":{"items":["`+note.ID.String()+`"]}}`,
		)
		is.NoErr(catalog.Seen(s, r, history.Visit{}))
		is.Equal(kvtest.Code(catalog.Seen(s, r, history.Visit{})), "limit_reached")
		all = append(all, r)
	}
	left := func() (n []bool) {
		kvtest.Update(t, s, catalog.DropSpent)
		kvtest.View(t, s, func(tx *kv.Tx) error {
			for _, r := range all {
				_, err := catalog.Owned(tx, owner, r.Kind, r.ID)
				n = append(n, err == nil)
				is.True(err == nil || kv.Missing(err))
			}
			return kvtest.Audit(tx)
		})
		return n
	}
	kvtest.Edit(t, s, all[1], `{"isPublic":true}`)
	kvtest.Edit(t, s, all[2], `{"maxViewsAction":"make_private"}`)
	c.Add(time.Hour - time.Second)
	is.Equal(left(), []bool{true, true, true})
	c.Add(2 * time.Second)
	is.Equal(left(), []bool{false, true, true})
	is.Equal(inTrash(t, s, owner, nil, ""), nil)
	is.NoErr(catalog.Seen(s, all[1], history.Visit{})) // the count began again
	c.Add(time.Hour + time.Second)
	is.Equal(left(), []bool{false, false, true})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		_, err := catalog.Owned(tx, owner, note.Kind, note.ID)
		is.Equal(tx.Count(kvtest.Bucket("spent")), 0)
		return err
	})
}

// What is gone for good needs no reminder to delete it: nothing names the account of a collection after its removal.
func TestSpentCollectionRemoved(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	kvtest.User(t, s, "root")
	owner := kvtest.User(t, s, "ann").ID
	var all []*record.Record
	for range 3 {
		r := kvtest.Add(
			t, s, owner, record.Collections, `{"title":"c","isPublic":true,"maxViews":1,"maxViewsAction":"delete"}`,
		)
		is.NoErr(catalog.Seen(s, r, history.Visit{}))
		all = append(all, r)
	}
	reminders := func() (n int) {
		kvtest.View(t, s, func(tx *kv.Tx) error { n = tx.Count(kvtest.Bucket("spent")); return nil })
		return n
	}
	is.Equal(reminders(), 3)
	is.NoErr(change(s, all[0], catalog.Remove))
	is.Equal(reminders(), 2)
	is.NoErr(change(s, all[1], func(tx *kv.Tx, r *record.Record) error { return catalog.Trash(tx, r, "") }))
	is.Equal(reminders(), 2) // it can come back
	is.NoErr(catalog.EmptyTrash(s, owner))
	is.Equal(reminders(), 1)
	is.NoErr(people.RemoveUser(s, owner, "root"))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, owner), nil)
		return kvtest.Audit(tx)
	})
}

// Adding, removing and moving items agree with a list, whatever the history.
func TestPickedModel(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	owner := kvtest.User(t, s, "ann").ID
	var notes []string
	for i := range 12 {
		notes = append(notes, kvtest.Add(t, s, owner, record.Notes, fmt.Sprintf(`{"content":"%d"}`, i)).ID.String())
	}
	r := kvtest.Add(
		t, s, owner, record.Collections, `{"title":"c","source":{"items":["`+notes[3]+`","`+notes[1]+`","`+notes[3]+`"]}}`,
	)
	want := []string{notes[3], notes[1]}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		id, before := notes[rnd.IntN(len(notes))], notes[rnd.IntN(len(notes))]
		had := slices.Contains(want, id)
		without := slices.DeleteFunc(slices.Clone(want), func(x string) bool { return x == id })
		switch n := rnd.IntN(8); {
		case n == 0:
			is.NoErr(change(s, r, func(tx *kv.Tx, r *record.Record) error { return catalog.Pick(tx, r, byOwner(r), nil, []string{id}) }))
			want = without
		case n < 4:
			is.NoErr(change(s, r, func(tx *kv.Tx, r *record.Record) error { return catalog.Pick(tx, r, byOwner(r), []string{id}, nil) }))
			if !had {
				want = append(want, id)
			}
		case n == 4:
			err := change(s, r, func(tx *kv.Tx, r *record.Record) error {
				return catalog.Move(tx, r, byOwner(r), uuid.MustParse(id), uuid.Nil)
			})
			is.Equal(err == nil, had)
			if had {
				want = append(without, id)
			}
		default: // often to the same place, so that the room between ranks runs out
			before = notes[n%2]
			err := change(s, r, func(tx *kv.Tx, r *record.Record) error {
				return catalog.Move(tx, r, byOwner(r), uuid.MustParse(id), uuid.MustParse(before))
			})
			is.Equal(err == nil, had && slices.Contains(want, before))
			if err == nil && id != before {
				want = slices.Insert(without, slices.Index(without, before), id)
			}
		}
		is.Equal(members(t, s, r), want)
	}
	kvtest.View(t, s, kvtest.Audit)
}

// An item may be away for a while. Only its removal for good takes it out.
func TestMissingMembers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	owner := kvtest.User(t, s, "ann").ID
	a := kvtest.Add(t, s, owner, record.Notes, `{"content":"a"}`)
	b := kvtest.Add(t, s, owner, record.Notes, `{"content":"b"}`)
	r := kvtest.Add(
		t, s, owner, record.Collections, `{"title":"c","source":{"items":["`+a.ID.String()+`","`+b.ID.String()+`"]}}`,
	)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		_, err := catalog.RecordRows.Delete(tx.Tx, a.Key())
		return err
	})
	is.Equal(members(t, s, r), []string{b.ID.String()})
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.RecordRows.Put(tx.Tx, a) })
	is.Equal(members(t, s, r), []string{a.ID.String(), b.ID.String()})
	text := kvtest.TextNow(t, s, owner)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, a) })
	is.Equal(members(t, s, r), []string{b.ID.String()})
	is.True(kvtest.TextNow(t, s, owner) < text-100) // its place counted too
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, r) })
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("member")), 0)
		_, err := catalog.Owned(tx, owner, record.Notes, b.ID) // the items stay
		is.NoErr(err)
		return kvtest.Audit(tx)
	})
}

// A collection over a folder or a tag has what is there now, in its order.
func TestLiveMembers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	owner := kvtest.User(t, s, "ann").ID
	names := func(r *record.Record) string {
		var all []string
		kvtest.View(t, s, func(tx *kv.Tx) error {
			now, err := catalog.Owned(tx, owner, r.Kind, r.ID)
			is.NoErr(err)
			m, err := catalog.ItemsOf(tx, now)
			is.NoErr(err)
			for _, x := range m.All {
				item, err := catalog.Owned(tx, owner, x.Kind, x.ID)
				is.NoErr(err)
				b, err := item.Decode()
				is.NoErr(err)
				all = append(all, b.Title()+string(x.LeftOut))
			}
			return nil
		})
		return strings.Join(all, " ")
	}
	add := func(name, more string) (r *record.Record) {
		kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
			f := kvtest.Form(t, record.Files, `{"tags":["trip"]`+more+`}`)
			f.FolderName = "sea"
			f.Body.(*record.File).OriginalName = name
			r, err = catalog.Add(tx, catalog.Draft{
				Owner: owner, Kind: record.Files, Form: f, Content: &record.Content{Ref: [32]byte{name[0]}, Size: 5},
			})
			return err
		})
		return r
	}
	first := add("b", "")
	folder := kvtest.Add(
		t, s, owner, record.Collections, `{"title":"f","source":{"folderId":"`+first.Folder.String()+`"}}`,
	)
	tag := kvtest.Add(
		t, s, owner, record.Collections, `{"title":"t","tags":["trip"],"sort":"title","source":{"tag":"TRIP"}}`,
	)
	add("c", "")
	add("a", `,"maxViews":3`)
	kvtest.Add(t, s, owner, record.Notes, `{"title":"d","content":"","tags":["trip"],"expiresAt":"2999-01-01T00:00:00Z"}`)
	is.Equal(names(folder), "alimit c b")
	is.Equal(names(tag), "alimit b c dend")
	kvtest.Edit(t, s, folder, `{"sort":"oldest"}`)
	is.Equal(names(folder), "b c alimit")

	var v record.Shown
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := catalog.Owned(tx, owner, record.Collections, tag.ID)
		is.NoErr(err)
		return catalog.Show(tx, now, &v)
	})
	is.Equal([3]int64{v.Collected.Items, v.Collected.Bytes, v.Collected.LeftOut}, [3]int64{2, 10, 2})
	is.Equal(v.Collected.TagName, "trip")

	// Another folder or tag takes the place of one that is removed; otherwise nothing does.
	var other *record.Tag
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) { other, err = catalog.AddTag(tx, owner, "sea", ""); return err })
	is.NoErr(catalog.RemoveTag(s, owner, v.Collected.Tag, other.ID))
	is.Equal(names(tag), "alimit b c dend")
	is.NoErr(catalog.RemoveTag(s, owner, other.ID, uuid.Nil))
	is.Equal(names(tag), "")
	is.NoErr(catalog.RemoveFolder(s, owner, first.Folder))
	is.Equal(names(folder), "")
	kvtest.View(t, s, kvtest.Audit)
}

func TestSourceRefused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann").ID, kvtest.User(t, s, "bob").ID
	note := kvtest.Add(t, s, bob, record.Notes, `{"content":"x"}`).ID.String()
	own := kvtest.Add(t, s, ann, record.Collections, `{"title":"c"}`).ID.String()
	for _, source := range []string{
		`{"items":["` + note + `"]}`, `{"items":["` + own + `"]}`, `{"tag":"none"}`, `{"folderId":"` + note + `"}`,
	} {
		is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, catalog.Draft{
				Owner: ann, Kind: record.Collections, Form: kvtest.Form(t, record.Collections, `{"title":"c","source":`+source+`}`),
			})
			return err
		})), "invalid_fields")
	}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("member")), 0)
		return kvtest.Audit(tx)
	})
}

// A collection may be full, and its place in the transaction stays small: see DESIGN.md.
func TestFullCollection(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	owner := kvtest.User(t, s, "ann").ID
	var ids []string
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for i := range record.MaxPicked + 1 {
			r, err := catalog.Add(tx, catalog.Draft{
				Owner: owner, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, fmt.Sprintf(`{"content":"%d"}`, i)),
			})
			if err != nil {
				return err
			}
			ids = append(ids, r.ID.String())
		}
		return nil
	})
	r := kvtest.Add(
		t, s, owner, record.Collections,
		`{"title":"c","source":{"items":["`+strings.Join(ids[:record.MaxPicked], `","`)+`"]}}`,
	)
	is.Equal(len(members(t, s, r)), record.MaxPicked)
	add := func(id string) error {
		return change(s, r, func(tx *kv.Tx, r *record.Record) error { return catalog.Pick(tx, r, byOwner(r), []string{id}, nil) })
	}
	is.NoErr(add(ids[0])) // it is in it
	is.Equal(
		add(ids[record.MaxPicked]).Error(),
		"The collection has 5000 items already, and more are not possible. Take out some first.",
	)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Remove(tx, r) })
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(tx.Count(kvtest.Bucket("member")), 0); return nil })
}

// A collection cannot be in a collection, itself included, and the error says so. It says of a
// stranger's collection what it says of anything else that the owner does not have.
func TestCollectionInCollection(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann").ID, kvtest.User(t, s, "bob").ID
	r := kvtest.Add(t, s, ann, record.Collections, `{"title":"a","source":{"items":[]}}`)
	other := kvtest.Add(t, s, ann, record.Collections, `{"title":"b","source":{"items":[]}}`)
	theirs := kvtest.Add(t, s, bob, record.Collections, `{"title":"c","source":{"items":[]}}`)
	const isCollection, isNothing = "a collection, which cannot be in a collection", "an item that you do not have"
	for id, want := range map[string]string{
		r.ID.String(): isCollection, other.ID.String(): isCollection,
		theirs.ID.String(): isNothing, uuid.New().String(): isNothing,
	} {
		err := change(s, r, func(tx *kv.Tx, r *record.Record) error { return catalog.Pick(tx, r, byOwner(r), []string{id}, nil) })
		is.Equal(fmt.Sprint(err), "The field add names "+want+": "+id+".")
	}
}
