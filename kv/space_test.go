package kv_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/tables"
)

// On a full disk nothing new is stored. Removals, views of limited items and edits that
// shrink something continue. Everything resumes on its own when there is room again.
func TestFullDisk(t *testing.T) {
	is := is.New(t)
	const total = 1 << 40
	var free atomic.Uint64
	free.Store(total)
	s := kvtest.Opened(t, filepath.Join(t.TempDir(), "data"), kv.Options{
		Schema: tables.All,
		Log:    kvtest.Quiet, Space: func() (disk.Room, error) { return disk.Room{Free: free.Load(), Total: total}, nil },
	})
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"some text","isPublic":true,"maxViews":5}`)
	gone := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	ballast := filepath.Join(s.Dir(), "cache", kv.BallastName)
	kv.CheckDiskSpace(s)
	info, err := os.Stat(ballast)
	is.NoErr(err)
	is.Equal(info.Size(), int64(kv.BallastMost))
	is.Equal(s.FreeForContent(), int64(total-kv.ReserveMost))

	free.Store(kv.ReserveMost / 2) // for files; what is in records still fits
	kv.CheckDiskSpace(s)
	is.Equal(s.FreeForContent(), int64(0))
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)

	free.Store(1 << 20)
	kv.CheckDiskSpace(s)
	_, err = os.Stat(ballast)
	is.True(os.IsNotExist(err)) // given up
	change := func(text string) error {
		return s.Update(func(tx *kv.Tx) error {
			r, err := catalog.Record(tx, u.ID, record.Notes, r.ID.String())
			if err != nil {
				return err
			}
			f, err := kvtest.Patch(r, text)
			if err != nil {
				return err
			}
			return catalog.Save(tx, r, f, "")
		})
	}
	is.True(errors.Is(change(`{"content":"much more text than before"}`), kv.ErrFull))
	is.NoErr(change(`{"isPublic":false}`))
	is.NoErr(change(`{"isPublic":true,"content":"less"}`))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(tx.Count(kvtest.Bucket("version")), 1) // what it replaced is not lost
		return nil
	})
	err = s.Update(func(tx *kv.Tx) error {
		_, err := catalog.Add(tx, catalog.Draft{
			Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, `{"content":"c"}`),
		})
		return err
	})
	is.True(errors.Is(err, kv.ErrFull))
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		r, err := catalog.Record(tx, u.ID, record.Notes, gone.ID.String())
		if err != nil {
			return err
		}
		return catalog.Remove(tx, r)
	})

	free.Store(total)
	kv.CheckDiskSpace(s)
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	_, err = os.Stat(ballast)
	is.NoErr(err)
}

// The store opens whatever has the name of the ballast.
func TestBallastIrregular(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"link out":      func(path string) error { return os.Symlink(os.DevNull, path) },
		"link to none":  func(path string) error { return os.Symlink("nothing", path) },
		"folder":        func(path string) error { return os.Mkdir(path, 0o700) },
		"filled folder": func(path string) error { return os.MkdirAll(filepath.Join(path, "more"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := inhabitedBy(t, "ann")
			path := filepath.Join(dir, "cache", kv.BallastName)
			is.NoErr(os.RemoveAll(path))
			is.NoErr(put(path))
			s := kvtest.OpenAt(t, dir, nil)
			kv.CheckDiskSpace(s)
			info, err := os.Lstat(path)
			is.NoErr(err)
			is.Equal(info.Mode().IsRegular(), name != "filled folder")
			is.Equal(kv.HasBallast(s), name != "filled folder")
		})
	}
}
