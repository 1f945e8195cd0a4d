package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"

	"github.com/google/uuid"
	"github.com/matryer/is"
)

// Tags and folders of many records are removed in several transactions.
func TestRelabel(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	f := kvtest.Form(t, record.Files, `{"folderName":"F","tags":["a","b"]}`)
	only := kvtest.Form(t, record.Links, `{"originalUrl":"https://example.org/","tags":["a"]}`)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for range kv.RemoveBatch + 10 {
			if _, err := catalog.Add(tx, catalog.Draft{
				Owner: u.ID, Kind: record.Files, Form: f, Content: kvtest.Content(record.Files, 1, 1),
			}); err != nil {
				return err
			}
			if _, err := catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Links, Form: only}); err != nil {
				return err
			}
		}
		return nil
	})
	var a, b *record.Tag
	var folder *record.Folder
	kvtest.View(t, s, func(tx *kv.Tx) (err error) {
		a, err = catalog.TagNamed(tx, u.ID, "a")
		if err != nil {
			return err
		}
		b, err = catalog.TagNamed(tx, u.ID, "b")
		if err != nil {
			return err
		}
		folder, err = catalog.FolderNamed(tx, u.ID, "f")
		return err
	})
	is.Equal(kvtest.Code(catalog.RemoveTag(s, u.ID, a.ID, a.ID)), "invalid_fields")
	is.Equal(kvtest.Code(catalog.RemoveTag(s, u.ID, a.ID, uuid.New())), "invalid_fields")
	is.NoErr(catalog.RemoveTag(s, u.ID, a.ID, b.ID))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(catalog.TagCounts(tx, b)["file"], int64(kv.RemoveBatch+10))
		is.Equal(catalog.TagCounts(tx, b)["shortlink"], int64(kv.RemoveBatch+10))
		is.Equal(kvtest.LeftOver(tx, a.ID), nil)
		is.Equal(catalog.FolderCount(tx, folder), int64(kv.RemoveBatch+10))
		return kvtest.Audit(tx)
	})
	is.NoErr(catalog.RemoveTag(s, u.ID, b.ID, uuid.Nil))
	is.NoErr(catalog.RemoveFolder(s, u.ID, folder.ID))
	is.Equal(kvtest.Code(catalog.RemoveFolder(s, u.ID, folder.ID)), "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, b.ID), nil)
		is.Equal(kvtest.LeftOver(tx, folder.ID), nil)
		return kvtest.Audit(tx)
	})
}

// A form may only name tags and folders of its owner, or the record is not created.
func TestFileUnder(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	var mine, theirs *record.Tag
	var folder *record.Folder
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		mine, err = catalog.AddTag(tx, ann.ID, "Mine", "#123456")
		if err != nil {
			return err
		}
		theirs, err = catalog.AddTag(tx, bob.ID, "theirs", "")
		if err != nil {
			return err
		}
		folder, err = catalog.AddFolder(tx, bob.ID, "theirs", "")
		return err
	})
	fields := func(text string) map[string]string {
		f := kvtest.Form(t, record.Files, text)
		err := s.Update(func(tx *kv.Tx) error {
			_, err := catalog.Add(tx, catalog.Draft{
				Owner: ann.ID, Kind: record.Files, Form: f, Content: kvtest.Content(record.Files, 1, 1),
			})
			return err
		})
		var e *record.Error
		if !kvtest.AsError(err, &e) {
			t.Fatal(err)
		}
		return e.Fields
	}
	is.Equal(fields(fmt.Sprintf(`{"tagIds":[%q],"folderId":%q}`, theirs.ID, folder.ID)),
		map[string]string{"tagIds": "names a tag that you do not have", "folderId": "names a folder that you do not have"})
	many := make([]string, record.MaxTags)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	is.Equal(
		fields(fmt.Sprintf(`{"tagIds":[%q],"newTags":%q}`, mine.ID, strings.Join(many, ","))),
		map[string]string{"tags": "must have at most 64 entries"},
	)

	r := kvtest.Add(
		t, s, ann.ID, record.Files, fmt.Sprintf(`{"tags":["MINE","new"],"tagIds":[%q],"newTags":"new, newer"}`, mine.ID),
	)
	names := func() (names []string) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			now, err := catalog.Record(tx, ann.ID, record.Files, r.ID.String())
			if err != nil {
				return err
			}
			var v record.Shown
			err = catalog.Show(tx, now, &v)
			for _, t := range v.TagList {
				names = append(names, t.Name)
			}
			return err
		})
		return names
	}
	is.Equal(names(), []string{"Mine", "new", "newer"}) // as first written
	kvtest.Edit(t, s, r, fmt.Sprintf(`{"removeTagIds":[%q]}`, mine.ID))
	is.Equal(names(), []string{"new", "newer"})
	kvtest.Edit(t, s, r, fmt.Sprintf(`{"tags":["x"],"addTagIds":[%q]}`, mine.ID))
	is.Equal(names(), []string{"x", "Mine"})
	kvtest.Edit(t, s, r, `{"tags":[]}`)
	is.Equal(names(), nil)
	kvtest.View(t, s, kvtest.Audit)
}
