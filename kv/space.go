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

// Space that is left free on the disk. New content is refused while less than
// the reserve is free, and new records while less than a quarter of it: what
// removes, counts and signs in goes on. Ballast is a file that is given up
// when something else has filled the disk, so that removals still find room.
const (
	reserveLeast = 4 << 20
	reserveMost  = 1 << 30
	reserveShare = 50 // of the whole disk: 1/50
	ballastMost  = 8 << 20
	ballastShare = 64
	ballastRetry = 600 // seconds after it could not be written: a try may take what a quota leaves to others
	ballastName  = "ballast"
)

// diskSpace watches the free space.
type diskSpace struct {
	log    *slog.Logger
	prune  func() error // gives up old generations of the journal
	folder *disk.Folder // of derived files
	space  func() (disk.Room, error)
	low    atomic.Bool  // the file system says that there is no room for new records
	full   atomic.Bool  // a commit found no room, whatever the file system says: a quota may be used up
	pruned time.Time    // when old generations were last given up for room; the ticking goroutine's
	held   atomic.Bool  // the ballast is there
	balked atomic.Int64 // when it could not be written, in seconds since 1970
	failed atomic.Bool  // the last write of a commit failed, and not for want of room
}

// None reports whether there is no room for new records.
func (d *diskSpace) None() bool { return d.low.Load() || d.full.Load() }

// Reserve is how much of a disk of the total size is left free, in bytes.
func Reserve(total uint64) uint64 {
	return min(max(total/reserveShare, reserveLeast), reserveMost)
}

// open begins to watch the disk that the data directory is on.
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
	case err == nil && info.Mode().IsRegular():
		d.held.Store(true)
	case err == nil:
		// Something else has the name. The ballast is made again if this can go;
		// nothing else needs it.
		if err := f.Remove(ballastName); err != nil {
			d.log.Warn("what stands in the place of cache/ballast cannot be removed", "error", err)
		}
	}
	return err
}

// forJournal is what the journal is told of the disk.
func (d *diskSpace) forJournal() (journal.Space, error) {
	r, err := d.space()
	return spaceFor(r), err
}

func spaceFor(r disk.Room) journal.Space {
	const most = 1 << 62
	return journal.Space{Free: int64(min(r.Free, most)), Reserve: int64(Reserve(r.Total))}
}

// Retention says how long a copy of the data directory may take that is made
// while a server runs on it.
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

// FreeForContent is how many bytes of new content the disk takes at present; a large
// number where that cannot be found out.
func (s *Store) FreeForContent() int64 {
	if s.space.full.Load() {
		return 0
	}
	r, err := s.space.space()
	if err != nil {
		return 1 << 62
	}
	keep := Reserve(r.Total)
	if r.Free <= keep || r.Files > 0 && r.FreeFiles == 0 {
		return 0
	}
	return int64(min(r.Free-keep, 1<<62))
}

// ErrFull says that the disk has no room for anything new.
var ErrFull = &record.Error{Fault: record.Full, Code: "disk_full", Text: "The server's disk is full. Nothing was stored; what is removed makes room."}

// check looks at the free space. It is called every second.
func (d *diskSpace) check() {
	r, err := d.space()
	if err != nil {
		return
	}
	keep := Reserve(r.Total)
	low := r.Free < keep/4
	if low != d.low.Swap(low) {
		if low {
			d.log.Error("the disk is full: nothing new is taken until there is room", "freeBytes", r.Free)
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
		// Random bytes: a file system may keep no others in full.
		if err := d.folder.Publish(ballastName, func(w io.Writer) error {
			_, err := io.CopyN(w, rand.Reader, int64(size))
			return err
		}); err == nil {
			d.held.Store(true)
		} else {
			d.balked.Store(time.Now().Unix())
		}
	}
}

// commitGrowth is what the working copy may grow by in a commit.
const commitGrowth = 1 << 20

// freeForCommit gives up the ballast if a commit of bbolt's may not find room for
// its pages: it cannot be tried again, as an append to the journal can.
func (d *diskSpace) freeForCommit() {
	if !d.held.Load() {
		return
	}
	if r, err := d.space(); err == nil && r.Free < commitGrowth {
		d.removeBallast()
	}
}

// removeBallast makes room for removals; it reports whether it did.
func (d *diskSpace) removeBallast() bool {
	if !d.held.Swap(false) {
		return false
	}
	return d.folder.Remove(ballastName) == nil
}

// ErrUnwritable says that the disk failed to take a commit. Reading goes on.
var ErrUnwritable = &record.Error{
	Fault: record.Busy, Code: "storage_failed", Retry: 10 * time.Second,
	Text: "The server's disk fails to write at the moment. Nothing was stored; what is there can be read.",
}

// commitFailed notes why a commit could not be written, and turns the error into
// one for the client.
func (d *diskSpace) commitFailed(err error) error {
	if workcopy.NoRoom(err) {
		d.removeBallast()
		if !d.full.Swap(true) {
			d.log.Error("the disk is full, or a quota is used up: nothing new is taken until a write finds room", "error", err)
		}
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	if !errors.As(err, new(syscall.Errno)) {
		return err // not the disk's fault
	}
	if !d.failed.Swap(true) {
		d.log.Error("the disk fails to write; nothing is stored until it does again", "error", err)
	}
	return fmt.Errorf("%w (%w)", ErrUnwritable, err)
}

// commitSucceeded notes that a commit was written.
func (d *diskSpace) commitSucceeded() {
	if d.failed.Load() && d.failed.Swap(false) {
		d.log.Warn("the disk writes again")
	}
}

// Failing reports whether the latest commit could not be written because the
// disk failed. It is tried again every second.
func (s *Store) Failing() bool { return s.space.failed.Load() }

// retryBytes is the size of a commit that shows that there is room again. A
// small one would fit into the last block of a file.
const retryBytes = 64 << 10

// retryWrite makes a commit if the latest one failed, or one found no room
// where the file system says there is some. So it shows when the disk works
// again though nobody stores anything.
func (s *Store) retryWrite() {
	try := func(n int) error { // a failure is noted already
		return s.Update(func(tx *Tx) error {
			value := make([]byte, n)
			Random(value)
			return tx.Put(workcopy.MetaBucket, metaTried, value)
		})
	}
	if s.space.full.Load() && !s.space.low.Load() && try(retryBytes) == nil && try(8) == nil {
		s.space.full.Store(false)
		s.log.Info("a write found room on the disk again")
	}
	if s.Failing() {
		_ = try(8)
	}
}
