package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// NoFollow is the flag with which a file is not opened through a symbolic link; there is none here.
const NoFollow = 0

// TryLock locks the file for this process alone. The lock ends when the file is
// closed or the process ends. The error is ErrLocked if another process has it.
func TryLock(f *os.File) error {
	// The lock covers a byte far past the process id, so that others can read
	// the id.
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: 1 << 20})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
