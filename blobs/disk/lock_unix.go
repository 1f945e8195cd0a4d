//go:build unix

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NoFollow is the flag with which a file is not opened through a symbolic link.
const NoFollow = unix.O_NOFOLLOW

// TryLock locks the file for this process alone. The lock ends when the file is
// closed or the process ends. The error is ErrLocked if another process has it.
func TryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
