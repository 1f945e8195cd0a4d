package kv_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// failingFolder is the folder of a journal whose files cannot be synced while the test
// says so.
type failingFolder struct {
	*disk.Folder
	fail  atomic.Bool
	cause error        // the error of failing syncs; EIO if nil
	most  atomic.Int64 // syncs work while the log has at most this many bytes; -1 for never
	log   *os.File     // the newest
}

type failingFile struct {
	*os.File
	in *failingFolder
}

func (f *failingFolder) Open(name string) (journal.File, error) {
	file, err := f.Folder.Open(name)
	if strings.HasPrefix(name, "log-") && name != journal.RecentName {
		f.log = file
	}
	return failingFile{file, f}, err
}

func (f failingFile) Size() (int64, error) {
	info, err := f.Stat()
	return info.Size(), err
}

func (f failingFile) Datasync() error {
	if f.in.fail.Load() {
		size, err := failingFile{f.in.log, f.in}.Size()
		if err != nil {
			return err
		}
		if size > f.in.most.Load() {
			return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: f.in.cause}
		}
	}
	return disk.Datasync(f.File)
}

// failing gives an open store such a folder.
func failing(t *testing.T, s *kv.Store) *failingFolder {
	t.Helper()
	is := is.New(t)
	folder, err := disk.OpenFolder(filepath.Join(s.Dir(), "journal"))
	is.NoErr(err)
	f := &failingFolder{Folder: folder, cause: syscall.EIO}
	f.most.Store(-1)
	is.NoErr(kv.Between(s, func() error {
		if kv.SnapshotUnderWay(s) != nil {
			return errors.New("a snapshot is being written")
		}
		name, size := (*kv.StoreJournal(s)).End()
		j, err := journal.New(f, workcopy.Format)
		if err == nil {
			err = j.Resume(*kv.StoreState(s), name, size)
		}
		if err == nil {
			err = (*kv.StoreJournal(s)).Close()
		}
		*kv.StoreJournal(s) = j
		return err
	}))
	return f
}

// While the disk fails to sync, nothing is stored and everything can be read. The
// store notices when the disk works again, with or without writers. Acknowledged data
// survives a kill at any time.
func TestFailingDisk(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	f := failing(t, s)
	u := kvtest.User(t, s, "ann")
	r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"before"}`)
	try := func() (made *record.Record, err error) {
		err = s.Update(func(tx *kv.Tx) (err error) {
			made, err = catalog.Add(tx, catalog.Draft{
				Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, `{"content":"c"}`),
			})
			return err
		})
		return made, err
	}
	count := func(s *kv.Store) (n int) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			for _, err := range catalog.NewestFirst(tx, u.ID, record.Notes) {
				if err != nil {
					return err
				}
				n++
			}
			return kvtest.Audit(tx)
		})
		return n
	}
	for round := range 3 {
		f.fail.Store(true)
		for range 3 {
			_, err := try()
			is.True(errors.Is(err, kv.ErrUnwritable))
			is.True(errors.Is(err, syscall.EIO))
			var e *record.Error
			is.True(errors.As(err, &e) && e.Fault == record.Busy && e.Retry > 0)
			is.True(s.Failing())
			kvtest.View(t, s, func(tx *kv.Tx) error { _, err := catalog.Owned(tx, u.ID, record.Notes, r.ID); return err })
			is.Equal(count(kvtest.CopyOf(t, s)), 1+round) // killed now
		}
		f.fail.Store(false)
		if round == 1 { // nobody writes but the store itself
			for deadline := time.Now().Add(time.Minute); s.Failing(); time.Sleep(10 * time.Millisecond) {
				is.True(time.Now().Before(deadline))
			}
		}
		_, err := try()
		is.NoErr(err)
		is.True(!s.Failing())
		is.Equal(count(s), 2+round)
		is.Equal(count(kvtest.CopyOf(t, s)), 2+round)
	}
}

// A change that is too large for a record is not the disk's fault.
func TestTooLargeCommit(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	err := kv.CommitFailed(s, errors.New("too large"))
	is.Equal(err.Error(), "too large")
	is.True(!s.Failing())
}

// A write that finds no room on a disk that says it has some, as when a quota
// is used up, has the effects of a full disk. They last until a write of
// ordinary size succeeds: a small one may fit into what is left.
func TestQuotaUsedUp(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := kvtest.Opened(t, filepath.Join(t.TempDir(), "data"), kv.Options{
				Schema: tables.All,
				Log:    kvtest.Quiet, Space: func() (disk.Room, error) { return disk.Room{Free: 1 << 39, Total: 1 << 40}, nil },
			})
			f := failing(t, s)
			u := kvtest.User(t, s, "ann")
			r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"before"}`)
			try := func() error {
				return s.Update(func(tx *kv.Tx) error {
					_, err := catalog.Add(tx, catalog.Draft{
						Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, `{"content":"c"}`),
					})
					return err
				})
			}
			ballast := filepath.Join(s.Dir(), "cache", kv.BallastName)
			kv.CheckDiskSpace(s)
			_, err := os.Stat(ballast)
			is.NoErr(err)

			f.cause = cause
			f.fail.Store(true)
			err = try()
			is.True(errors.Is(err, kv.ErrFull))
			is.True(errors.Is(err, cause))
			_, err = os.Stat(ballast)
			is.True(errors.Is(err, fs.ErrNotExist)) // given up, to make room
			still := func() {
				t.Helper()
				kv.CheckDiskSpace(s)
				kv.RetryWrite(s)
				is.True(errors.Is(try(), kv.ErrFull))
				is.Equal(s.FreeForContent(), int64(0))
				is.True(!s.Failing()) // it is full, not broken
			}
			still()
			_, size := (*kv.StoreJournal(s)).End()
			f.most.Store(size + kv.RetryBytes/2)
			is.NoErr(s.Update(func(tx *kv.Tx) error { // a removal fits
				r, err := catalog.Record(tx, u.ID, record.Notes, r.ID.String())
				if err != nil {
					return err
				}
				return catalog.Remove(tx, r)
			}))
			still()
			f.fail.Store(false)
			kv.CheckDiskSpace(s)
			kv.RetryWrite(s)
			is.True(s.FreeForContent() > 0)
			is.NoErr(try())
			is.NoErr(s.Close())
			s = kvtest.OpenAt(t, s.Dir(), nil)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				is.True(len(tx.Get(kvtest.Bucket("meta"), []byte("tried"))) <= 8) // the large test value is gone
				return kvtest.Audit(tx)
			})
		})
	}
}
