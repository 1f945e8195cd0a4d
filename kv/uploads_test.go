package kv_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// A failed end of an upload changes nothing. The end does not fail because something
// named in the form was removed meanwhile.
func TestFinishUpload(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	one, err := kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 60, Password: "hash"})
	is.NoErr(err)
	f := kvtest.Form(t, record.Files, `{}`)
	f.AddTags, f.Folder, f.Expires = []string{uuid.Max.String()}, uuid.Max, s.Now().Add(time.Minute)
	c.Add(time.Hour)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: 10}) })
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		return inbox.FinishUpload(tx, one, f, kvtest.Content(record.Files, 1, 60))
	})), "quota_exceeded")
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{}) })
	kv.SetDiskLow(s, true)
	is.Equal(s.Update(func(tx *kv.Tx) error {
		return inbox.FinishUpload(tx, one, f, kvtest.Content(record.Files, 1, 60))
	}), kv.ErrFull)
	kv.SetDiskLow(s, false)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		got, err := inbox.FindUpload(tx, u.ID, one.ID)
		is.NoErr(err)
		is.True(!got.Done())
		is.NoErr(inbox.FinishUpload(tx, got, f, kvtest.Content(record.Files, 1, 60)))
		r, err := catalog.Record(tx, u.ID, record.Files, got.File.String())
		is.NoErr(err)
		is.Equal(r.Password, "hash")
		is.True(r.Expired(tx.Now))
		is.Equal(r.Folder, uuid.Nil)
		is.Equal(len(r.Tags), 0)
		return err
	})
	kvtest.View(t, s, kvtest.Audit)
}
