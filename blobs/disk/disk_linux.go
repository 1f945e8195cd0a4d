package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"

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
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.LinkError{Op: "linkat", Old: self, New: name, Err: err}
		}
		return nil
	}
}

// WriteNew makes the file name in a folder below top, with mode 0600. The file
// is complete when it gets its name. Nothing is synced. The folder must exist and
// be no symbolic link; the error is fs.ErrExist when the name is taken.
func WriteNew(top *os.File, folder, name string, b []byte) error {
	conn, err := top.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = writeNew(int(fd), folder, name, b) })
	if err != nil {
		return err
	}
	return failed
}

// writeNew uses bare system calls: an os.File would need a dozen more.
func writeNew(top int, folder, name string, b []byte) error {
	dir, err := unix.Openat(top, folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir) //nolint:errcheck // it was only read

	var info unix.Stat_t
	if unix.Fstatat(dir, name, &info, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return fs.ErrExist
	}

	file, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(file) //nolint:errcheck // a later sync reports what was not written
	for len(b) > 0 {
		n, err := unix.Write(file, b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(file), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// SyncAll puts everything on stable storage that was written to the file system
// of the open file, by any program. It reports every write that has failed since
// the file was opened. The error is errors.ErrUnsupported if this system or file
// system may not promise that.
func SyncAll(file *os.File) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	failed := errors.ErrUnsupported
	err = conn.Control(func(fd uintptr) {
		if reportsSync() && syncsAll(int(fd)) {
			failed = unix.Syncfs(int(fd))
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// syncsAll reports whether syncfs waits for the disk. For FUSE, for instance, it
// does not.
func syncsAll(fd int) bool {
	var s unix.Statfs_t
	if unix.Fstatfs(fd, &s) != nil {
		return false
	}
	known := []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC}
	return slices.Contains(known, int64(s.Type)) //nolint:unconvert // its type differs between systems
}

// reportsSync reports whether syncfs reports failed writes, as it does since
// Linux 5.8.
var reportsSync = sync.OnceValue(func() bool {
	var name unix.Utsname
	var major, minor int
	if unix.Uname(&name) != nil {
		return false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 8)
})

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
