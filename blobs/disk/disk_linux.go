package disk

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CreateUnnamed opens a new file that has no name: it is gone when it is
// closed, however the process ends.
func CreateUnnamed(root *os.Root) (*os.File, error) {
	return root.OpenFile(".", unix.O_TMPFILE|os.O_RDWR, 0o600)
}

// LinkUnnamed gives a file that CreateUnnamed opened a name in the folder. It
// never replaces one: the error is fs.ErrExist when the name is taken.
func LinkUnnamed(file, folder *os.File, name string) error {
	// The link in /proc stands for the open file itself and is the one way
	// to name it that takes no privilege.
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

// Missing reports whether nothing has the name in the folder. It may miss that;
// what it reports is so.
func Missing(folder *os.File, name string) bool {
	var info unix.Stat_t
	return unix.Fstatat(int(folder.Fd()), name, &info, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT
}

// StartWriteBack has the system start to write n bytes at offset to disk and
// does not wait. It is advice: whether the bytes arrive is for Sync to say.
func StartWriteBack(file *os.File, offset, n int64) {
	_ = unix.SyncFileRange(int(file.Fd()), offset, n, unix.SYNC_FILE_RANGE_WRITE)
}
