package disk

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CreateUnnamed opens a new file that has no name. The file disappears when it
// is closed, however the process ends.
func CreateUnnamed(root *os.Root) (*os.File, error) {
	return root.OpenFile(".", unix.O_TMPFILE|os.O_RDWR, 0o600)
}

// LinkUnnamed gives a file from CreateUnnamed a name in the folder. It never
// replaces a file: the error is fs.ErrExist when the name is taken.
func LinkUnnamed(file, folder *os.File, name string) error {
	// The link in /proc refers to the open file itself. It is the only way to
	// name the file that needs no privilege.
	self := "/proc/self/fd/" + strconv.Itoa(int(file.Fd()))
	for {
		err := unix.Linkat(unix.AT_FDCWD, self, int(folder.Fd()), name, unix.AT_SYMLINK_FOLLOW)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return &os.LinkError{Op: "linkat", Old: self, New: name, Err: err}
		}
	}
}

// Missing reports whether nothing in the folder has the name. If true, it is
// certain; if false, it is not.
func Missing(folder *os.File, name string) bool {
	var info unix.Stat_t
	return unix.Fstatat(int(folder.Fd()), name, &info, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT
}

// StartWriteBack makes the system start writing n bytes at offset to disk and
// does not wait. It is advice: only Sync tells whether the bytes are on disk.
func StartWriteBack(file *os.File, offset, n int64) {
	_ = unix.SyncFileRange(int(file.Fd()), offset, n, unix.SYNC_FILE_RANGE_WRITE)
}
