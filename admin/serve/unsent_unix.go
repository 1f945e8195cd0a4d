//go:build linux || darwin

package serve

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent is how many bytes the system accepts for a connection beyond those that are on
// their way. Without it, the send buffer grows to several MiB, and a write to a client that
// reads slowly, but steadily, takes longer than the server waits for one.
const maxUnsent = 256 << 10

// boundUnsent sets maxUnsent for a listener. The connections that it accepts inherit it.
func boundUnsent(_, _ string, listener syscall.RawConn) error {
	var failed error
	err := listener.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
	})
	if err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("bound what is not sent yet: %w", failed)
	}
	return nil
}
