package catalog_test

import (
	"testing"
	"time"

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
	p := record.Photo{Taken: time.UnixMilli(1).UTC(), Camera: "Acme", Location: &record.Location{Lat: 1, Lon: 2}}
	other := *b
	other.Bytes = &record.Content{Ref: [32]byte{99}}
	gone := *b
	gone.ID = record.ID{1}
	for _, r := range []*record.Record{a, &other, &gone} {
		kvtest.Update(t, s, func(tx *kv.Tx) error { return catalog.Examined(tx, r, m, p) })
	}
	all, _ = list(0, 10)
	is.Equal(len(all), 1)
	is.Equal(all[0].ID, b.ID)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		now, err := catalog.Owned(tx, u.ID, record.Files, a.ID)
		is.NoErr(err)
		is.Equal(now.Bytes.Metadata, m)
		is.Equal(now.Bytes.Photo, p)
		is.Equal(now.Seq, a.Seq)
		is.True(now.Updated.Equal(a.Updated))
		return nil
	})
}

// TestPhotoIsFilledInOnce: what the owner has set stays when a file of a former version is looked at, and what is
// cleared stays when it is looked at again. The same bytes again keep it, and so does a version that comes back.
func TestPhotoIsFilledInOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Files, `{}`)
	own, other := time.UnixMilli(1_000).UTC(), time.UnixMilli(2_000).UTC()
	read := func() (p record.Photo) {
		kvtest.View(t, s, func(tx *kv.Tx) (err error) {
			r, err = catalog.Owned(tx, u.ID, record.Files, r.ID)
			p = r.Bytes.Photo
			return err
		})
		return p
	}
	set := func(at time.Time) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			now, err := catalog.Owned(tx, u.ID, record.Files, r.ID)
			if err != nil {
				return err
			}
			f, err := now.Form()
			if err != nil {
				return err
			}
			f.Taken = at
			return catalog.Save(tx, now, f, "")
		})
	}
	examined := func(rules byte) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			return catalog.Examined(
				tx, r, record.Metadata{State: record.MetadataNone, Rules: rules}, record.Photo{Taken: other, Lens: "long"},
			)
		})
	}
	replaced := func(with *record.Content) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			now, err := catalog.Owned(tx, u.ID, record.Files, r.ID)
			if err != nil {
				return err
			}
			b, err := now.Decode()
			if err != nil {
				return err
			}
			return catalog.Replace(tx, now, b.(*record.File), with, "test")
		})
	}
	set(own)
	is.Equal(read(), record.Photo{Taken: own})
	first := r.Bytes.Ref
	replaced(&record.Content{Ref: first, Size: r.Bytes.Size, Photo: record.Photo{Taken: other, Camera: "Cam1"}})
	is.Equal(read(), record.Photo{Taken: own, Camera: "Cam1"})
	examined(4)
	is.Equal(read(), record.Photo{Taken: own, Camera: "Cam1", Lens: "long"})
	set(time.Time{})
	examined(5)
	is.Equal(read(), record.Photo{Camera: "Cam1", Lens: "long"})
	set(own)
	replaced(&record.Content{Ref: first, Size: r.Bytes.Size, Photo: record.Photo{Taken: other}})
	is.Equal(read(), record.Photo{Taken: own, Camera: "Cam1", Lens: "long"})
	replaced(&record.Content{Ref: [32]byte{77}, Size: 3, Photo: record.Photo{Taken: other}})
	is.Equal(read(), record.Photo{Taken: other})
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		all, err := catalog.FileVersions(tx, r)
		if err != nil {
			return err
		}
		return catalog.RestoreFileVersion(tx, r, all[0].ID, "test")
	})
	is.Equal(read(), record.Photo{Taken: own, Camera: "Cam1", Lens: "long"})
}
