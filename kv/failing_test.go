package kv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs/disk"
	"kist/kv/journal"
	"kist/kv/record"
)

// failingFolder is the folder of a journal whose files cannot be synced while
// told so.
type failingFolder struct {
	*disk.Folder
	fail  atomic.Bool
	cause error        // of what fails; EIO if nil
	most  atomic.Int64 // syncs of files of at most that many bytes work; -1 for none
}

type failingFile struct {
	*os.File
	in *failingFolder
}

func (f *failingFolder) Open(name string) (journal.File, error) {
	file, err := f.Folder.Open(name)
	return failingFile{file, f}, err
}

func (f failingFile) Size() (int64, error) {
	info, err := f.Stat()
	return info.Size(), err
}

func (f failingFile) Datasync() error {
	if f.in.fail.Load() {
		size, err := f.Size()
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
func failing(t *testing.T, s *Store) *failingFolder {
	t.Helper()
	is := is.New(t)
	folder, err := disk.OpenFolder(filepath.Join(s.Dir(), "journal"))
	is.NoErr(err)
	f := &failingFolder{Folder: folder, cause: syscall.EIO}
	f.most.Store(-1)
	is.NoErr(Between(s, func() error {
		if SnapshotUnderWay(s) != nil {
			return errors.New("a snapshot is being written")
		}
		name, size := (*StoreJournal(s)).End()
		j, err := journal.New(f, Format)
		if err == nil {
			err = j.Resume(*StoreState(s), name, size)
		}
		if err == nil {
			err = (*StoreJournal(s)).Close()
		}
		*StoreJournal(s) = j
		return err
	}))
	return f
}

// While the disk fails to sync, nothing is stored and everything can be read;
// it shows when the disk works again, be there writers or not; and what was
// acknowledged is there after a kill at any time.
func TestFailingDisk(t *testing.T) {
	is := is.New(t)
	s := open(t)
	f := failing(t, s)
	u := user(t, s, "ann")
	r := add(t, s, u.ID, record.Notes, `{"content":"before"}`)
	try := func() (made *record.Record, err error) {
		err = s.Update(func(tx *Tx) (err error) {
			made, err = tx.Add(u.ID, record.Notes, form(t, record.Notes, `{"content":"c"}`), nil, "")
			return err
		})
		return made, err
	}
	count := func(s *Store) (n int) {
		view(t, s, func(tx *Tx) error {
			for _, err := range tx.Newest(u.ID, record.Notes) {
				if err != nil {
					return err
				}
				n++
			}
			return audit(tx)
		})
		return n
	}
	for round := range 3 {
		f.fail.Store(true)
		for range 3 {
			_, err := try()
			is.True(errors.Is(err, ErrUnwritable))
			is.True(errors.Is(err, syscall.EIO))
			var e *record.Error
			is.True(errors.As(err, &e) && e.Fault == record.Busy && e.Retry > 0)
			is.True(s.Failing())
			view(t, s, func(tx *Tx) error { _, err := tx.Owned(u.ID, record.Notes, r.ID); return err })
			is.Equal(count(copyOf(t, s)), 1+round) // killed now
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
		is.Equal(count(copyOf(t, s)), 2+round)
	}
}

// A change that is too large for a record is not the disk's fault.
func TestTooLargeCommit(t *testing.T) {
	is := is.New(t)
	s := open(t)
	err := CommitFailed(s, errors.New("too large"))
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
			s := opened(t, filepath.Join(t.TempDir(), "data"), Options{
				Schema: All,
				Log:    quiet, Space: func() (disk.Room, error) { return disk.Room{Free: 1 << 39, Total: 1 << 40}, nil },
			})
			f := failing(t, s)
			u := user(t, s, "ann")
			r := add(t, s, u.ID, record.Notes, `{"content":"before"}`)
			try := func() error {
				return s.Update(func(tx *Tx) error {
					_, err := tx.Add(u.ID, record.Notes, form(t, record.Notes, `{"content":"c"}`), nil, "")
					return err
				})
			}
			ballast := filepath.Join(s.Dir(), "cache", ballastName)
			CheckDiskSpace(s)
			_, err := os.Stat(ballast)
			is.NoErr(err)

			f.cause = cause
			f.fail.Store(true)
			err = try()
			is.True(errors.Is(err, ErrFull))
			is.True(errors.Is(err, cause))
			_, err = os.Stat(ballast)
			is.True(errors.Is(err, fs.ErrNotExist)) // given up, to make room
			still := func() {
				t.Helper()
				CheckDiskSpace(s)
				RetryWrite(s)
				is.True(errors.Is(try(), ErrFull))
				is.Equal(s.FreeForContent(), int64(0))
				is.True(!s.Failing()) // it is full, not broken
			}
			still()
			_, size := (*StoreJournal(s)).End()
			f.most.Store(size + retryBytes/2)
			is.NoErr(s.Update(func(tx *Tx) error { // a removal fits
				r, err := tx.Record(u.ID, record.Notes, r.ID.String())
				if err != nil {
					return err
				}
				return tx.Remove(r)
			}))
			still()
			f.fail.Store(false)
			CheckDiskSpace(s)
			RetryWrite(s)
			is.True(s.FreeForContent() > 0)
			is.NoErr(try())
			is.NoErr(s.Close())
			s = openAt(t, s.Dir(), nil)
			view(t, s, func(tx *Tx) error {
				is.True(len(tx.Get(bucket("meta"), []byte("tried"))) <= 8) // what was written to find out is gone
				return audit(tx)
			})
		})
	}
}
