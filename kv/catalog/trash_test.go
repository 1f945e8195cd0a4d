package catalog_test

import (
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

func trash(t *testing.T, s *kv.Store, r *record.Record) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Trash(tx, r, "test") })
}

func untrash(t *testing.T, s *kv.Store, r *record.Record) (got *record.Record) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		deleted, err := catalog.Trashed(tx, r.Owner, r.ID)
		if err == nil {
			got, err = catalog.Untrash(tx, deleted)
		}
		return err
	})
	return got
}

// inTrash lists the titles of the owner's deleted records.
func inTrash(t *testing.T, s *kv.Store, owner record.ID, k *record.Kind, text string) (titles []string) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for after, more := []byte(nil), true; more; {
			p, err := catalog.ListTrash(tx, owner, k, text, after, 2)
			if err != nil {
				return err
			}
			for _, item := range p.Items {
				titles = append(titles, item.Title)
			}
			more = len(p.Items) == 2
			if more {
				after = p.Items[1].Place
			} else if int(p.Total) != len(titles) {
				t.Errorf("the total is %d of %q", p.Total, titles)
			}
		}
		return kvtest.Audit(tx)
	})
	return titles
}

// A restored record is what it was, with its views, visits, tags and page. Nothing finds
// it meanwhile, and its content and its quota stay in use.
func TestTrash(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	hook := kvtest.HookFor(t, s, u.ID, jobs.Removed(record.Notes), jobs.Restored(record.Notes))
	r := kvtest.Add(
		t, s, u.ID, record.Notes,
		`{"content":"a","title":"Plan","slug":"plan","isPublic":true,"logVisits":true,"tags":["x","y"],"maxViews":9}`,
	)
	seen(t, s, r, history.Visit{Referrer: "example.org"})
	before := visits(t, s, r)
	link := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/"}`)
	var file *record.Record
	var shown record.Shown
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		f := kvtest.Form(t, record.Files, `{}`)
		f.FolderName = "folder"
		file, err = catalog.Add(tx, catalog.Draft{
			Owner: u.ID, Kind: record.Files, Form: f, Content: &record.Content{Ref: [32]byte{1}, Size: 500},
		})
		if err == nil {
			r, err = catalog.Record(tx, u.ID, record.Notes, "plan")
		}
		if err == nil {
			err = catalog.Show(tx, r, &shown)
		}
		return err
	})
	for _, one := range []*record.Record{r, link, file} {
		c.Add(time.Second)
		trash(t, s, one)
	}
	is.Equal(inTrash(t, s, u.ID, nil, ""), []string{"", "https://example.org/", "Plan"})
	is.Equal(inTrash(t, s, u.ID, record.Notes, ""), []string{"Plan"})
	is.Equal(inTrash(t, s, u.ID, nil, "PLA"), []string{"Plan"})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		_, err := catalog.Slug(tx, "plan")
		is.True(kv.Missing(err))
		is.Equal(tx.Count(kvtest.Bucket("record.label")), 0)
		is.Equal(tx.Count(kvtest.Bucket("record.order")), 0)
		is.Equal(tx.Count(kvtest.Bucket("page.due")), 0)
		is.True(catalog.Referenced(tx, [32]byte{1}))
		is.Equal(len(tx.Having([32]byte{1})), 1)
		use, err := people.UsageOf(tx, u)
		is.NoErr(err)
		is.Equal(use.Bytes, int64(500))
		deleted, err := catalog.Trashed(tx, u.ID, r.ID)
		is.NoErr(err)
		is.Equal(deleted.By, "test")
		return nil
	})

	got := untrash(t, s, r)
	is.Equal(got.Slug, "plan")
	untrash(t, s, link)
	untrash(t, s, file)
	is.Equal(visits(t, s, r), before)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := catalog.Slug(tx, "plan")
		is.NoErr(err)
		var v record.Shown
		is.NoErr(catalog.Show(tx, now, &v))
		v.Seq = shown.Seq
		is.Equal(v, shown)
		is.Equal(catalog.Used(tx, now), int64(1))
		is.Equal(len(kvtest.DeliveriesOf(t, tx, hook.ID)), 2)
		is.Equal(tx.Count(kvtest.Bucket("page.due")), 1)
		_, err = catalog.Trashed(tx, u.ID, r.ID)
		is.True(kv.Missing(err))
		return kvtest.Audit(tx)
	})
}

// A slug that was given away stays where it is; tags and folders that were deleted are
// left out.
func TestUntrashAfterChanges(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"a","slug":"plan","tags":["x","y"]}`)
	gone := r.Tags[0]
	trash(t, s, r)
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"b","slug":"plan"}`)
	is.NoErr(catalog.RemoveTag(s, u.ID, gone, record.ID{}))
	got := untrash(t, s, r)
	is.True(got.Slug != "plan" && got.Slug != "")
	is.Equal(got.Tags, r.Tags[1:])
	kvtest.View(t, s, kvtest.Audit)
}

// What was deleted 30 days ago goes for good, with its views and visits. Without a trash
// it goes at once.
func TestPurge(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	add := func() *record.Record {
		r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"a","isPublic":true}`)
		seen(t, s, r, history.Visit{})
		is.NoErr(s.Flush())
		return r
	}
	trash(t, s, add())
	c.Add(time.Hour)
	trash(t, s, add())
	c.Add(people.DefaultTrashDays*24*time.Hour - time.Minute)
	kvtest.Tick(s)
	is.Equal(len(inTrash(t, s, u.ID, nil, "")), 1)
	setDays := func(n int64) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			set, err := people.ReadSettings(tx)
			is.NoErr(err)
			set.TrashDays = n
			return people.SetSettings(tx, set)
		})
	}
	setDays(0)
	trash(t, s, add())
	is.Equal(len(inTrash(t, s, u.ID, nil, "")), 1)
	kvtest.Tick(s)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for _, b := range []string{"trash", "view", "visit"} {
			is.Equal(tx.Count(kvtest.Bucket(b)), 0)
		}
		return kvtest.Audit(tx)
	})
}

// A repair keeps the trash.
func TestTrashIsRepaired(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, c.Now)
	u := kvtest.User(t, s, "ann")
	c.Add(24 * time.Hour)
	r := kvtest.Add(t, s, u.ID, record.Bookmarks, `{"url":"https://example.org/","isPublic":true}`)
	seen(t, s, r, history.Visit{})
	is.NoErr(s.Flush())
	trash(t, s, r)
	before := kvtest.ContentOf(t, s)
	s = repaired(t, s, dir, c.Now)
	is.Equal(kvtest.ContentOf(t, s), before)
	got := untrash(t, s, r)
	kvtest.View(t, s, func(tx *kv.Tx) error { is.Equal(kvtest.Viewed(tx, got)[0], int64(1)); return kvtest.Audit(tx) })
}
