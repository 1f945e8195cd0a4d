package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"kist/admin/socket"
)

// listenPublic listens for visitors, on host:port or on a socket such as
// unix:/run/kist.sock. A reverse proxy that runs as another user reaches the
// socket through its group.
func listenPublic(listen string) (net.Listener, error) {
	if path, ok := SocketPath(listen); ok {
		l, err := socket.ListenUnix(path, 0o660)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %s: %w", listen, Cause(err))
		}
		return l, nil
	}
	config := net.ListenConfig{Control: boundUnsent}
	config.SetMultipathTCP(false) // its connections do not inherit what boundUnsent sets
	l, err := config.Listen(context.Background(), "tcp", listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen on %s: %w; end what uses it, or choose another --listen",
			listen, Cause(err))
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another --listen", listen, Cause(err))
	}
	return l, nil
}

// Bound returns listen with the port of l, if listen leaves the port to the
// system, as 127.0.0.1:0 does.
func Bound(listen string, l net.Listener) string {
	at, ok := l.Addr().(*net.TCPAddr)
	host, port, err := net.SplitHostPort(listen)
	if !ok || err != nil || strings.Trim(port, "0") != "" {
		return listen
	}
	return net.JoinHostPort(host, strconv.Itoa(at.Port))
}

// Cause returns the innermost error of a failure of the network, without the
// addresses that the caller names already.
func Cause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		err = e.Err
	}
	return err
}

// Announce writes where the server listens, and the claim link unless it is "". It
// writes all of it at once, for programs that wait for it.
func Announce(w io.Writer, version, listen, base, link string) {
	text := fmt.Sprintf("Kist %s listens on %s and is reachable at %s\n", version, listen, base)
	if link != "" {
		text += fmt.Sprintf("There is no administrator yet. Open this link to create the first administrator:\n%s\n", link)
	}
	fmt.Fprint(w, text)
}
