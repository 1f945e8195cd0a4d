package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks the file for this process alone; the lock ends when the file is
// closed, or with the process. The error is ErrLocked if another has it.
func TryLock(f *os.File) error {
	// A byte far past the process id is locked, so that others can read that.
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: 1 << 20})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
