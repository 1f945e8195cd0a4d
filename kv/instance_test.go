package kv_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/repair"
	"kist/kv/tables"
)

// inhabitedBy returns a closed data directory with an account.
func inhabitedBy(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	kvtest.User(t, s, name)
	is.New(t).NoErr(s.Close())
	return dir
}

// A data directory with an instance is never taken for a new one, even if nothing else
// is left of it.
func TestInstanceWithoutJournal(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(dir string) error{
		"missing": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "journal")) },
		"empty": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "journal")), os.Mkdir(filepath.Join(dir, "journal"), 0o700))
		},
		"no records": func(dir string) error {
			return os.Truncate(filepath.Join(dir, "journal", "log-0000000000000000"), 44)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := inhabitedBy(t, "ann")
			is.NoErr(harm(dir))
			for _, gone := range []string{"cache", "blobs", datadir.CleanName, "LOCK"} {
				is.NoErr(os.RemoveAll(filepath.Join(dir, gone)))
			}
			for range 2 {
				_, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
				is.True(err != nil)
				is.True(strings.Contains(err.Error(), "the file INSTANCE says that there were"))
				_, err = os.Lstat(filepath.Join(dir, datadir.InstanceName))
				is.NoErr(err)
			}
		})
	}
}

// The first start writes the file, also in a directory older than the file. It stays
// the same, and a damaged one is written again.
func TestInstanceIsKept(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := inhabitedBy(t, "ann")
	path := filepath.Join(dir, datadir.InstanceName)
	first, err := os.ReadFile(path)
	is.NoErr(err)
	origin, _, err := kv.Origin(dir)
	is.NoErr(err)
	is.Equal(string(first), fmt.Sprintf(`{"format":1,"instance":"%s"}`+"\n", origin))
	info, err := os.Stat(path)
	is.NoErr(err)
	is.Equal(info.Mode().Perm()&0o077, fs.FileMode(0))
	for name, harm := range map[string]func() error{
		"as it is": func() error { return nil },
		"missing":  func() error { return os.Remove(path) },
		"torn":     func() error { return os.Truncate(path, 10) },
		"emptied":  func() error { return os.Truncate(path, 0) },
		"no cache": func() error { return os.RemoveAll(filepath.Join(dir, "cache")) },
	} {
		is.NoErr(harm())
		is.NoErr(kvtest.OpenAt(t, dir, nil).Close())
		now, err := os.ReadFile(path)
		is.NoErr(err)
		if string(now) != string(first) {
			t.Errorf("%s: %s", name, now)
		}
	}
	is.NoErr(os.WriteFile(path, []byte(`{"format":2,"name":"x"}`), 0o600))
	_, err = kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
	is.True(err != nil && strings.Contains(err.Error(), "has format 2"))
}

// A journal beside the INSTANCE of another instance is refused. Removing the file
// confirms that the journal is the right one.
func TestInstanceOfAnother(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, other := inhabitedBy(t, "ann"), inhabitedBy(t, "bob")
	is.NoErr(os.Rename(filepath.Join(other, datadir.InstanceName), filepath.Join(dir, datadir.InstanceName)))
	for range 2 { // with a working copy that is proven, and without
		_, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
		is.True(err != nil)
		is.True(strings.Contains(err.Error(), "two data directories were mixed"))
		var problems []error
		i, err := tables.All.Inspect(dir, t.TempDir(), func(int64) {}, func(err error) { problems = append(problems, err) })
		is.NoErr(err)
		is.NoErr(i.Close())
		is.Equal(len(problems), 1) // it says so before the start does
		is.True(strings.Contains(problems[0].Error(), "two data directories were mixed"))
		is.NoErr(os.RemoveAll(filepath.Join(dir, "cache")))
	}
	is.NoErr(os.Remove(filepath.Join(dir, datadir.InstanceName)))
	is.NoErr(kvtest.OpenAt(t, dir, nil).Close())
}

// A journal of another instance in the place of the old one is refused, whether it has
// more commits or fewer. The working copy and both journals stay as they were: each
// may be all that is left of its instance.
func TestJournalOfAnother(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]bool{"more": true, "fewer": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir, other := inhabitedBy(t, "ann"), inhabitedBy(t, "bob")
			long := dir
			if more {
				long = other
			}
			s := kvtest.OpenAt(t, long, nil)
			for range 20 { // more than the store commits on its own while the other is made
				kvtest.Add(t, s, kvtest.Anyone(t, s), record.Notes, `{"content":"c"}`)
			}
			is.NoErr(s.Close())
			copied := filepath.Join(dir, "cache", "kist.db")
			before, err := os.ReadFile(copied)
			is.NoErr(err)
			mine, theirs := filepath.Join(dir, "journal"), filepath.Join(other, "journal")
			for path := range kvtest.FilesIn(t, mine) {
				is.NoErr(os.Remove(path))
			}
			is.NoErr(os.CopyFS(mine, os.DirFS(theirs)))
			was := kvtest.FilesIn(t, mine)

			_, err = kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
			is.True(err != nil)
			is.True(strings.Contains(err.Error(), "two data directories were mixed"))
			is.True(maps.Equal(kvtest.FilesIn(t, mine), was))
			after, err := os.ReadFile(copied)
			is.NoErr(err)
			is.True(bytes.Equal(after, before))

			// A repair takes one of the two.
			_, err = repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
			is.NoErr(err)
			s = kvtest.OpenAt(t, dir, nil)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				all, err := people.Users(tx)
				is.NoErr(err)
				is.Equal(len(all), 1)
				is.Equal(all[0].Name, map[bool]string{true: "bob", false: "ann"}[more])
				return kvtest.Audit(tx)
			})
		})
	}
}

// A folder in the place of INSTANCE is refused with advice, and a repair puts it
// aside.
func TestInstanceIsFolder(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := inhabitedBy(t, "ann")
	path := filepath.Join(dir, datadir.InstanceName)
	is.NoErr(os.Remove(path))
	is.NoErr(os.Mkdir(path, 0o700))
	_, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
	is.True(err != nil)
	is.Equal(err.Error(), path+" is not a file; remove it and try again")
	r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
	is.NoErr(err)
	is.True(r.Whole())
	is.NoErr(kvtest.OpenAt(t, dir, nil).Close())
}

// A repair may lose the secret that identifies the instance. The result still starts.
func TestInstanceAfterRepair(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := inhabitedBy(t, "ann")
	_, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
	is.NoErr(err)
	is.NoErr(kvtest.OpenAt(t, dir, nil).Close())
	_, err = os.Lstat(filepath.Join(dir, datadir.InstanceName))
	is.NoErr(err)
}

// touched returns every name below a folder with mode, time of change and bytes.
func touched(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := kvtest.FilesIn(t, dir)
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all[path] += fmt.Sprint(info.Mode(), info.ModTime().UnixNano())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// Data of a newer version is refused and nothing is touched, not even LOCK.
func TestNewerTouchesNothing(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{"layout": 8, "format": 12} {
		for _, lock := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, LOCK %v", name, lock), func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				dir := inhabitedBy(t, "ann")
				log := filepath.Join(dir, "journal", "log-0000000000000000")
				b, err := os.ReadFile(log)
				is.NoErr(err)
				binary.BigEndian.PutUint32(b[at:], 77)
				binary.BigEndian.PutUint32(b[40:], crc32.Checksum(b[:40], crc32.MakeTable(crc32.Castagnoli)))
				is.NoErr(os.WriteFile(log, b, 0o600))
				if lock {
					is.NoErr(os.WriteFile(filepath.Join(dir, "LOCK"), []byte("1\n"), 0o600))
				} else {
					is.NoErr(os.Remove(filepath.Join(dir, "LOCK")))
				}
				before := touched(t, dir)
				_, err = kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
				is.True(errors.As(err, new(*journal.Newer)))
				is.True(strings.Contains(err.Error(), "77"))
				_, err = repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
				is.True(errors.As(err, new(*journal.Newer)))
				is.True(maps.Equal(touched(t, dir), before))
			})
		}
	}
}
