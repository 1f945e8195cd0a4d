//go:build darwin || freebsd

package socket

import (
	"os"

	"golang.org/x/sys/unix"
)

// solLocal is the level of the options of Unix sockets (sys/un.h).
const solLocal = 0

// peerUID returns the user id of the process at the other end of a socket.
func peerUID(fd int) (int, error) {
	cred, err := unix.GetsockoptXucred(fd, solLocal, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, os.NewSyscallError("getsockopt", err)
	}
	return int(cred.Uid), nil
}
