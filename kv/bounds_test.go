package kv_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// The rows of an owner are bounded, and deleting some makes room again.
func TestBounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), clock.Now)
	kv.SetBounds(s, 5, 3)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	makes := map[string]func(tx *kv.Tx, i int, owner record.ID) error{
		"too_many_keys": func(tx *kv.Tx, _ int, owner record.ID) error {
			_, _, err := people.AddKey(tx, people.Key{Owner: owner, Scopes: []people.Scope{people.ScopeAll}})
			return err
		},
		"too_many_folders": func(tx *kv.Tx, i int, owner record.ID) error {
			_, err := catalog.AddFolder(tx, owner, fmt.Sprint(i), "")
			return err
		},
		"too_many_requests": func(tx *kv.Tx, i int, owner record.ID) error {
			_, err := inbox.AddRequest(tx, owner, &inbox.RequestForm{Request: inbox.NewRequest()}, "")
			return err
		},
	}
	for want, one := range makes {
		for i := range 5 {
			kvtest.Update(t, s, func(tx *kv.Tx) error { return one(tx, i, ann.ID) })
		}
		err := s.Update(func(tx *kv.Tx) error { return one(tx, 5, ann.ID) })
		is.Equal(kvtest.Code(err), want)
		kvtest.Update(t, s, func(tx *kv.Tx) error { return one(tx, 5, bob.ID) })
	}
	var first *record.Record
	for range 3 {
		first = kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"c"}`)
	}
	another := func() error {
		return s.Update(func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, catalog.Draft{
				Owner: ann.ID, Kind: record.Snippets, Form: kvtest.Form(t, record.Snippets, `{"content":"c"}`),
			})
			return err
		})
	}
	is.Equal(kvtest.Code(another()), "too_many_items")
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Trash(tx, first, "") })
	is.Equal(kvtest.Code(another()), "too_many_items") // those in the trash count
	is.NoErr(catalog.EmptyTrash(s, ann.ID))
	is.NoErr(another())

	// One more session ends the one that was used longest ago.
	var secrets []string
	for range 6 {
		clock.Add(time.Minute)
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			_, secret, err := people.AddSession(tx, ann.ID, "", "", tx.Now)
			secrets = append(secrets, secret)
			return err
		})
	}
	_, err := people.AuthenticateSession(s, secrets[0])
	is.Equal(kvtest.Code(err), "session_ended")
	for _, secret := range secrets[1:] {
		_, err := people.AuthenticateSession(s, secret)
		is.NoErr(err)
	}
}

// An owner's tags are bounded too, however they are made.
func TestTagsAreBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	note := kvtest.Add(t, s, ann.ID, record.Notes, `{"content":"c","tags":["first"]}`)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for i := range record.MaxOwnTags - 1 {
			if err := catalog.TagRows.Put(
				tx.Tx, &record.Tag{ID: tx.NewID(), Owner: ann.ID, Name: fmt.Sprint(i), Created: tx.Now},
			); err != nil {
				return err
			}
		}
		return nil
	})
	add := func(owner record.ID) error {
		return s.Update(func(tx *kv.Tx) error { _, err := catalog.AddTag(tx, owner, "another", ""); return err })
	}
	edit := func(tag string) error {
		return s.Update(func(tx *kv.Tx) error {
			r, err := catalog.Record(tx, ann.ID, record.Notes, note.ID.String())
			is.NoErr(err)
			f, err := kvtest.Patch(r, `{"tags":["`+tag+`"]}`)
			is.NoErr(err)
			return catalog.Save(tx, r, f, "")
		})
	}
	is.Equal(kvtest.Code(add(ann.ID)), "too_many_tags")
	is.Equal(kvtest.Code(edit("another")), "too_many_tags")
	is.NoErr(edit("7"))
	is.NoErr(add(bob.ID))
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		tag, err := catalog.TagNamed(tx, ann.ID, "8")
		is.NoErr(err)
		_, err = catalog.TagRows.Delete(tx.Tx, kv.OwnedKey(ann.ID, tag.ID[:]...))
		return err
	})
	is.NoErr(edit("another"))
}
