// Package socket has the Unix sockets that kist listens on: that of its admin
// commands, and one for visitors if --listen names it.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Name is the name of the admin socket in a data directory.
const Name = "kist.sock"

// dialTime bounds one attempt to connect.
const dialTime = 2 * time.Second

// ErrNobody means that no server answers on a socket.
var ErrNobody = errors.New("no server answers")

// Listen opens the admin socket in a data directory. The caller must hold the
// directory open with kv.Open, so that the socket of a killed server can be
// replaced without a race. Whatever the mode of the file, which is 0600, only
// processes of the same user and of root are let in. Close removes the file.
func Listen(dir string) (net.Listener, error) {
	l, err := ListenUnix(filepath.Join(dir, Name), 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the admin socket: %w", err)
	}
	return owned{l}, nil
}

// ListenUnix listens on a socket with the mode. It replaces a socket that nobody
// answers on, and nothing else. Close removes the file.
func ListenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("there is something at %s that is no socket; move it away", path)
	default:
		conn, err := Dial(context.Background(), path)
		if err == nil {
			return nil, errors.Join(fmt.Errorf("another server answers on %s; stop that one first", path), conn.Close())
		}
		if !errors.Is(err, ErrNobody) {
			return nil, err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it would remove the short path, which is gone by then
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &unixListener{UnixListener: l, path: path}, nil
}

// unixListener removes its socket file when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
	once sync.Once
}

// Close removes the file first, so that nobody connects to a closed socket. A
// second call does nothing, because the file may be another server's by then.
func (l *unixListener) Close() (err error) {
	l.once.Do(func() {
		err = os.Remove(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		err = errors.Join(l.UnixListener.Close(), err)
	})
	return err
}

// owned accepts only connections of the same user and of root.
type owned struct{ net.Listener }

func (l owned) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if unix, ok := conn.(*net.UnixConn); ok && allowed(unix) {
			return conn, nil
		}
		_ = conn.Close() // refused
	}
}

// allowed reports whether the process at the other end may run admin commands.
func allowed(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	uid, failed := -1, error(nil)
	err = raw.Control(func(fd uintptr) { uid, failed = peerUID(int(fd)) })
	return err == nil && failed == nil && (uid == 0 || uid == os.Geteuid())
}

// maxSocketPath is the longest path, in bytes, that every system accepts for a
// socket.
const maxSocketPath = 103

// Dial connects to a socket. It fails with ErrNobody if the socket does not
// exist or is left of a killed server.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := shortPath(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNobody
	}
	if err != nil {
		return nil, err
	}
	defer done()
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "unix", short)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, ErrNobody
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("the socket %s belongs to another user; run this command as that user or as root", path)
	}
	return conn, err
}
