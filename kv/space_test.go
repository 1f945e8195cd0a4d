package kv

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"kist/blobs/disk"
	"kist/kv/record"
)

// On a disk without room nothing new is taken; removals, views of limited
// items and what makes things smaller go on; and all goes on on its own when
// there is room again.
func TestFullDisk(t *testing.T) {
	is := is.New(t)
	const total = 1 << 40
	var free atomic.Uint64
	free.Store(total)
	s := opened(t, filepath.Join(t.TempDir(), "data"), Options{
		Schema: All,
		Log:    quiet, Space: func() (disk.Room, error) { return disk.Room{Free: free.Load(), Total: total}, nil },
	})
	u := user(t, s, "ann")
	r := add(t, s, u.ID, record.Notes, `{"content":"some text","isPublic":true,"maxViews":5}`)
	gone := add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	ballast := filepath.Join(s.Dir(), "cache", ballastName)
	CheckDiskSpace(s)
	info, err := os.Stat(ballast)
	is.NoErr(err)
	is.Equal(info.Size(), int64(ballastMost))
	is.Equal(s.FreeForContent(), int64(total-reserveMost))

	free.Store(reserveMost / 2) // for files; what is in records still fits
	CheckDiskSpace(s)
	is.Equal(s.FreeForContent(), int64(0))
	add(t, s, u.ID, record.Notes, `{"content":"c"}`)

	free.Store(1 << 20)
	CheckDiskSpace(s)
	_, err = os.Stat(ballast)
	is.True(os.IsNotExist(err)) // given up
	change := func(text string) error {
		return s.Update(func(tx *Tx) error {
			r, err := tx.Record(u.ID, record.Notes, r.ID.String())
			if err != nil {
				return err
			}
			f, err := patch(r, text)
			if err != nil {
				return err
			}
			return tx.Save(r, f, "")
		})
	}
	is.True(errors.Is(change(`{"content":"much more text than before"}`), ErrFull))
	is.NoErr(change(`{"isPublic":false}`))
	is.NoErr(change(`{"isPublic":true,"content":"less"}`))
	err = s.Update(func(tx *Tx) error {
		_, err := tx.Add(u.ID, record.Notes, form(t, record.Notes, `{"content":"c"}`), nil, "")
		return err
	})
	is.True(errors.Is(err, ErrFull))
	update(t, s, func(tx *Tx) error {
		r, err := tx.Record(u.ID, record.Notes, gone.ID.String())
		if err != nil {
			return err
		}
		return tx.Remove(r)
	})

	free.Store(total)
	CheckDiskSpace(s)
	add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	_, err = os.Stat(ballast)
	is.NoErr(err)
}

// Whatever stands in the place of the ballast, the store opens.
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
			path := filepath.Join(dir, "cache", ballastName)
			is.NoErr(os.RemoveAll(path))
			is.NoErr(put(path))
			s := openAt(t, dir, nil)
			CheckDiskSpace(s)
			info, err := os.Lstat(path)
			is.NoErr(err)
			is.Equal(info.Mode().IsRegular(), name != "filled folder")
			is.Equal(HasBallast(s), name != "filled folder")
		})
	}
}
