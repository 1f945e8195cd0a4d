package serve

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"
)

// TestUnsentIsBounded: what a connection accepts for a client that does not read is bounded,
// so that each write shows that the client has taken something.
func TestUnsentIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l, err := listenPublic("127.0.0.1:0")
	is.NoErr(err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	is.NoErr(err)
	defer client.Close()
	conn, err := l.Accept()
	is.NoErr(err)
	defer conn.Close()

	is.NoErr(conn.SetWriteDeadline(time.Now().Add(time.Second)))
	_, err = conn.Write(make([]byte, 64<<20)) // more than both buffers can hold
	is.True(errors.Is(err, os.ErrDeadlineExceeded))

	raw, err := conn.(syscall.Conn).SyscallConn()
	is.NoErr(err)
	var unsent int
	var failed error
	is.NoErr(raw.Control(func(fd uintptr) { unsent, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) }))
	is.NoErr(failed)
	is.True(unsent <= 2*maxUnsent) // the last piece may be beyond it
}
