package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// Datasync makes the bytes of the file durable, and as much of its metadata as
// is needed to read them back.
func Datasync(file *os.File) error {
	for {
		err := unix.Fdatasync(int(file.Fd()))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: file.Name(), Err: err}
		}
		return nil
	}
}
