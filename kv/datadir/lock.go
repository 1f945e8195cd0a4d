package datadir

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"kist/blobs/disk"
)

// Lock keeps a second process out of the data directory. It ends with the process,
// even if the process is killed.
type Lock struct{ file *os.File }

// lockWait is how long Acquire tries, because a stopping process needs a moment.
const lockWait = time.Second

// InUse says that another process has the data directory open.
type InUse struct{ PID int }

func (e *InUse) Error() string {
	if e.PID == 0 {
		return "the data directory is in use by another process"
	}
	return fmt.Sprintf("the data directory is in use by process %d", e.PID)
}

// Acquire locks the file and writes the process id into it. It makes the file if it
// does not exist, and does not follow a link. It tries for a second before it fails with InUse.
func Acquire(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|disk.NoFollow, 0o600)
	if err != nil {
		if info, statErr := os.Lstat(path); statErr == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a file; remove it and try again", path)
		}
		return nil, fmt.Errorf("cannot open the lock file: %w", err)
	}
	for deadline := time.Now().Add(lockWait); ; {
		err := disk.TryLock(f)
		if err == nil {
			break
		}
		if !errors.Is(err, disk.ErrLocked) || time.Now().After(deadline) {
			owner := &InUse{Holder(f)}
			_ = f.Close() // nothing was written
			if errors.Is(err, disk.ErrLocked) {
				return nil, owner
			}
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		<-time.After(20 * time.Millisecond)
	}

	l := &Lock{f}
	if err := writeHolder(f, os.Getpid()); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write the lock file: %w", err), l.Release())
	}
	return l, nil
}

// writeHolder makes the file hold a process id and nothing else.
func writeHolder(f *os.File, pid int) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}

// Holder returns the process id in a lock file; 0 if there is none.
func Holder(f *os.File) int {
	var b [32]byte
	n, _ := f.ReadAt(b[:], 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid
}

// Release unlocks the file and leaves it in place.
func (l *Lock) Release() error { return l.file.Close() }
