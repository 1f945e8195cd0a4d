package socket

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// peerUID returns the user id of the process at the other end of a socket.
func peerUID(fd int) (int, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, os.NewSyscallError("getsockopt", err)
	}
	return int(cred.Uid), nil
}

// shortPath returns a path that fits the address of a socket. It leads through
// an open folder if the path itself is too long, and is valid until done is
// called.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)), func() { _ = unix.Close(fd) }, nil
}
