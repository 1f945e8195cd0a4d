//go:build unix

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Rename moves a file from one folder to another and replaces a file of that
// name.
func Rename(from *os.File, name string, to *os.File, as string) error {
	for {
		err := unix.Renameat(int(from.Fd()), name, int(to.Fd()), as)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.LinkError{Op: "renameat", Old: name, New: as, Err: err}
		}
		return nil
	}
}

// CanMove reports whether files can be moved from one folder to the other. They
// can if both are on one file system and in one mount of it.
func CanMove(a, b *os.File) bool {
	var x, y unix.Stat_t
	if unix.Fstat(int(a.Fd()), &x) != nil || unix.Fstat(int(b.Fd()), &y) != nil || x.Dev != y.Dev {
		return false
	}
	// The system compares the mounts before it looks up the name.
	const nothing = ".kist-is-here-no-such-file"
	return !errors.Is(Rename(a, nothing, b, nothing), unix.EXDEV)
}
