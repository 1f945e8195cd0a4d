package kv

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"kist/blobs/disk"
	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/workcopy"
)

// These bound the space that is left free on the disk. New content is refused while
// less than the reserve is free, and new records while less than a quarter of it is.
// Removals, counts and sign-ins continue. Ballast is a file that is removed when
// something else has filled the disk, so that removals still find room.
const (
	reserveLeast = 4 << 20
	reserveMost  = 1 << 30
	reserveShare = 50 // of the whole disk: 1/50
	ballastMost  = 8 << 20
	ballastShare = 64
	ballastRetry = 600 // seconds after a failed write: an attempt may use up a quota shared with others
	ballastName  = "ballast"
)

// diskSpace watches the free space.
type diskSpace struct {
	// Set once.
	log    *slog.Logger
	prune  func() error // removes old generations of the journal
	folder *disk.Folder // of derived files
	space  func() (disk.Room, error)

	pruned time.Time // when old generations were last removed to make room; used by flushLoop only

	low    atomic.Bool  // the file system says that there is no room for new records
	full   atomic.Bool  // a commit found no room, whatever the file system says: a quota may be used up
	held   atomic.Bool  // the ballast exists
	balked atomic.Int64 // when writing the ballast last failed, in seconds since 1970
	failed atomic.Bool  // the last commit failed to write, and not for lack of space
}

// None reports whether there is no room for new records.
func (d *diskSpace) None() bool { return d.low.Load() || d.full.Load() }

// Reserve returns how many bytes of a disk of the given total size are left free.
func Reserve(total uint64) uint64 {
	return min(max(total/reserveShare, reserveLeast), reserveMost)
}

// open starts watching the disk that holds the data directory.
func (d *diskSpace) open(dir string) error {
	f, err := disk.OpenFolder(filepath.Join(dir, "cache"))
	if err != nil {
		return err
	}
	d.folder = f
	info, err := f.Lstat(ballastName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular():
		d.held.Store(true)
	default:
		// Something else has the name. Removing it lets the ballast be made again;
		// nothing else needs the name.
		if err := f.Remove(ballastName); err != nil {
			d.log.Warn("cache/ballast is not a file and cannot be removed", "error", err)
		}
	}
	return nil
}

// forJournal tells the journal about the disk.
func (d *diskSpace) forJournal() (journal.Space, error) {
	r, err := d.space()
	return spaceFor(r), err
}

func spaceFor(r disk.Room) journal.Space {
	const limit = 1 << 62
	return journal.Space{Free: int64(min(r.Free, limit)), Reserve: int64(Reserve(r.Total))}
}

// Retention returns how long copying the data directory may take while a server runs
// on it.
func Retention(dir string) (journal.Retention, error) {
	j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
	if err != nil {
		return journal.Retention{}, err
	}
	j.OnDisk(func() (journal.Space, error) {
		r, err := disk.Space(dir)
		return spaceFor(r), err
	})
	r, err := j.Retention()
	return r, errors.Join(err, j.Close())
}

// FreeForContent returns how many bytes of new content the disk can take now; a large
// number if that is unknown.
func (s *Store) FreeForContent() int64 {
	if s.space.full.Load() {
		return 0
	}
	r, err := s.space.space()
	if err != nil {
		return 1 << 62
	}
	keep := Reserve(r.Total)
	if r.Free <= keep || r.NoFiles() {
		return 0
	}
	return int64(min(r.Free-keep, 1<<62))
}

// NoFiles reports whether the disk can hold no more files (inodes).
func (s *Store) NoFiles() bool {
	r, err := s.space.space()
	return err == nil && r.NoFiles()
}

// ErrFull says that the disk has no room for anything new.
var ErrFull = &record.Error{
	Fault: record.Full, Code: "disk_full",
	Text: "The server's disk is full. Nothing was stored. Remove something to make room.",
}

// check checks the free space. It is called every second.
func (d *diskSpace) check() {
	r, err := d.space()
	if err != nil {
		return
	}
	keep := Reserve(r.Total)
	low := r.Free < keep/4
	if low != d.low.Swap(low) {
		if low {
			d.log.Error("the disk is full: nothing new is stored until there is room", "freeBytes", r.Free)
		} else {
			d.log.Info("there is room on the disk again", "freeBytes", r.Free)
		}
	}

	if r.Free < keep && time.Since(d.pruned) > time.Minute {
		d.pruned = time.Now()
		if err := d.prune(); err != nil {
			d.log.Warn("old parts of the journal could not be removed to make room", "error", err)
		}
	}

	size := min(ballastMost, r.Total/ballastShare)
	switch held := d.held.Load(); {
	case held && r.Free < size:
		d.removeBallast()
	case !held && !d.full.Load() && r.Free > keep/4+2*size && time.Now().Unix()-d.balked.Load() > ballastRetry:
		d.makeBallast(int64(size))
	}
}

// makeBallast writes random bytes, because a file system may compress others.
func (d *diskSpace) makeBallast(size int64) {
	err := d.folder.Publish(ballastName, func(w io.Writer) error {
		_, err := io.CopyN(w, rand.Reader, size)
		return err
	})
	if err != nil {
		d.balked.Store(time.Now().Unix())
		return
	}
	d.held.Store(true)
}

// removeBallast makes room for removals and reports whether it did.
func (d *diskSpace) removeBallast() bool {
	if !d.held.Swap(false) {
		return false
	}
	return d.folder.Remove(ballastName) == nil
}

// ErrUnwritable says that the disk failed to take a commit. Reading goes on.
var ErrUnwritable = &record.Error{
	Fault: record.Busy, Code: "storage_failed", Retry: 10 * time.Second,
	Text: "The server cannot write to its disk at the moment. Nothing was stored; existing data can still be read.",
}

// commitFailed notes why a commit could not be written and turns the error into one
// for the client.
func (d *diskSpace) commitFailed(err error) error {
	if workcopy.NoRoom(err) {
		d.removeBallast()
		if !d.full.Swap(true) {
			d.log.Error("the disk is full, or a quota is used up: nothing new is stored until a write finds room", "error", err)
		}
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	if !errors.As(err, new(syscall.Errno)) && !errors.As(err, new(*copyError)) {
		return err // not the disk's fault
	}
	if !d.failed.Swap(true) {
		d.log.Error("cannot write to the disk; nothing is stored until writes succeed again", "error", err)
	}
	return fmt.Errorf("%w (%w)", ErrUnwritable, err)
}

// commitSucceeded notes that a commit was written.
func (d *diskSpace) commitSucceeded() {
	if d.failed.Load() && d.failed.Swap(false) {
		d.log.Warn("writes to the disk succeed again")
	}
}

// Failing reports whether the latest commit could not be written because the disk
// failed. The store tries again every second.
func (s *Store) Failing() bool {
	err := s.behind.failure()
	return s.space.failed.Load() || err != nil && !workcopy.NoRoom(err)
}

// retryBytes is the size of a commit that shows that there is room again. A smaller
// one might fit into the last block of a file.
const retryBytes = 64 << 10

// retryWrite makes a commit if the latest one failed, or if one found no room although
// the file system reports some. This shows when the disk works again even if nobody
// stores anything.
func (s *Store) retryWrite() {
	try := func(n int) error { // the commit has already noted a failure
		return s.Update(func(tx *Tx) error {
			value := make([]byte, n)
			Random(value)
			return tx.Put(workcopy.MetaBucket, metaTried, value)
		})
	}
	if s.space.full.Load() && !s.space.low.Load() && s.behind.failure() == nil && try(retryBytes) == nil && try(8) == nil {
		s.space.full.Store(false)
		s.log.Info("a write found room on the disk again")
	}
	if s.Failing() {
		_ = try(8)
	}
}
