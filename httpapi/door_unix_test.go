//go:build unix

package httpapi_test

import (
	"syscall"
)

// smallWindow has a socket take as little at a time as the system lets it.
func smallWindow(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1)
}
