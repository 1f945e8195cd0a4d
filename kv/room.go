package kv

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"kist/blobs/disk"
	"kist/kv/record"
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
	ballastName  = "ballast"
)

// room watches the free space.
type room struct {
	folder *disk.Folder // of derived files
	space  func() (disk.Room, error)
	low    atomic.Bool // no new records
	held   atomic.Bool // the ballast is there
}

// Reserve is how much of a disk of the total size is left free, in bytes.
func Reserve(total uint64) uint64 {
	return min(max(total/reserveShare, reserveLeast), reserveMost)
}

// openRoom begins to watch the disk that the data directory is on.
func (s *Store) openRoom() error {
	f, err := disk.OpenFolder(filepath.Join(s.dir, "cache"))
	if err != nil {
		return err
	}
	s.room.folder = f
	file, err := f.Read(ballastName)
	if err == nil {
		s.room.held.Store(true)
		err = file.Close()
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// Room is how many bytes of new content the disk takes at present; a large
// number where that cannot be found out.
func (s *Store) Room() int64 {
	r, err := s.room.space()
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

// watch looks at the free space. It is called every second.
func (s *Store) watch() {
	r, err := s.room.space()
	if err != nil {
		return
	}
	keep := Reserve(r.Total)
	low := r.Free < keep/4
	if low != s.room.low.Swap(low) {
		if low {
			s.log.Error("the disk is full: nothing new is taken until there is room", "freeBytes", r.Free)
		} else {
			s.log.Info("there is room on the disk again", "freeBytes", r.Free)
		}
	}
	size := min(ballastMost, r.Total/ballastShare)
	switch held := s.room.held.Load(); {
	case held && r.Free < size:
		s.giveUpBallast()
	case !held && r.Free > keep/4+2*size:
		// Random bytes: a file system may keep no others in full.
		if err := s.room.folder.Publish(ballastName, func(w io.Writer) error {
			_, err := io.CopyN(w, rand.Reader, int64(size))
			return err
		}); err == nil {
			s.room.held.Store(true)
		}
	}
}

// commitRoom is what the working copy may grow by in a commit.
const commitRoom = 1 << 20

// makeRoom gives up the ballast if a commit of bbolt's may not find room for
// its pages: it cannot be tried again, as an append to the journal can.
func (s *Store) makeRoom() {
	if !s.room.held.Load() {
		return
	}
	if r, err := s.room.space(); err == nil && r.Free < commitRoom {
		s.giveUpBallast()
	}
}

// giveUpBallast makes room for removals; it reports whether it did.
func (s *Store) giveUpBallast() bool {
	if !s.room.held.Swap(false) {
		return false
	}
	return s.room.folder.Remove(ballastName) == nil
}

// full notes that the disk is, if that is what the error of a commit says.
func (s *Store) full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		s.giveUpBallast()
		s.room.low.Store(true)
		return fmt.Errorf("%w (%w)", ErrFull, err)
	}
	return err
}
