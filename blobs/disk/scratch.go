package disk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrLocked says that another process has locked a file.
var ErrLocked = errors.New("locked")

// A Scratch is a folder of mode 0700 for files that a process needs while it
// runs. It is locked as long as its process lives.
type Scratch struct {
	Path  string
	owner *os.File
}

const (
	ownerName = "owner" // the file in a scratch folder that is locked
	// youngScratch is how old a folder without an owner must be to count as
	// left over: its process may be about to lock it.
	youngScratch = time.Minute
)

// NewScratch makes a scratch folder in the parent, which must exist. Its name
// begins with the prefix. NewScratch first removes left-over folders with the
// same prefix.
func NewScratch(parent, prefix string) (*Scratch, error) {
	if err := SweepScratch(parent, prefix); err != nil {
		return nil, err
	}
	for {
		path := filepath.Join(parent, prefix+rand.Text())
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		s, err := ownScratch(path)
		if errors.Is(err, ErrLocked) || errors.Is(err, fs.ErrNotExist) {
			continue // a sweep removed it meanwhile
		}
		return s, err
	}
}

// ownScratch makes this process the owner of a new scratch folder. The error is ErrLocked or
// fs.ErrNotExist if a sweep takes the folder for a left-over one.
func ownScratch(path string) (*Scratch, error) {
	owner, err := os.OpenFile(filepath.Join(path, ownerName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	s := &Scratch{Path: path, owner: owner}
	if err := TryLock(owner); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if _, err := os.Lstat(owner.Name()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close removes the folder and its files.
func (s *Scratch) Close() error { return errors.Join(s.owner.Close(), os.RemoveAll(s.Path)) }

// SweepScratch removes the scratch folders in the parent whose names begin with
// the prefix and whose process has ended.
func SweepScratch(parent, prefix string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if gone := sweepScratch(filepath.Join(parent, e.Name())); gone != nil {
			err = errors.Join(err, fmt.Errorf("cannot remove the left-over folder of another run: %w", gone))
		}
	}
	return err
}

func sweepScratch(path string) error {
	f, err := os.OpenFile(filepath.Join(path, ownerName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < youngScratch {
			return nil //nolint:nilerr // it is gone, or its owner is about to lock it
		}
		return os.RemoveAll(path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil // it belongs to another user
	}
	if err != nil {
		return err
	}
	if err := TryLock(f); err != nil {
		if errors.Is(err, ErrLocked) {
			err = nil
		}
		return errors.Join(err, f.Close())
	}
	return (&Scratch{Path: path, owner: f}).Close()
}
