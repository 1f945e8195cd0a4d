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
	fail atomic.Bool
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
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: syscall.EIO}
	}
	return disk.Datasync(f.File)
}

// failing gives an open store such a folder.
func failing(t *testing.T, s *Store) *failingFolder {
	t.Helper()
	is := is.New(t)
	folder, err := disk.OpenFolder(filepath.Join(s.dir, "journal"))
	is.NoErr(err)
	f := &failingFolder{Folder: folder}
	is.NoErr(s.between(func() error {
		if s.gen.busy != nil {
			return errors.New("a snapshot is being written")
		}
		name, size := s.journal.End()
		j, err := journal.New(f, Format)
		if err == nil {
			err = j.Resume(s.state, name, size)
		}
		if err == nil {
			err = s.journal.Close()
		}
		s.journal = j
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
	err := s.unwritten(errors.New("too large"))
	is.Equal(err.Error(), "too large")
	is.True(!s.Failing())
}
