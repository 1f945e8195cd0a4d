package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"kist/admin/exit"
	"kist/blobs"
	"kist/kv"
)

// SocketName is the name of the admin socket in the data directory.
const SocketName = "kist.sock"

// Times of a command that looks for the server.
const (
	dialTime  = 2 * time.Second       // for one connection
	startTime = 1 * time.Second       // for a server that has the lock and no socket yet
	startStep = 50 * time.Millisecond // between two looks
)

// errNobody says that no server answers on a socket.
var errNobody = errors.New("no server answers")

// Listen opens the admin socket in the data directory, which the caller must
// hold open with kv.Open: a socket that is left of a killed server is then
// taken over without a race. Only processes of the same user, and root, are
// let in, whatever the mode of the file; it is 0600. Close removes the file.
func Listen(dir string) (net.Listener, error) {
	l, err := listenUnix(filepath.Join(dir, SocketName), 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the admin socket: %w", err)
	}
	return owned{l}, nil
}

// listenUnix takes the place of a socket nobody answers on, and of nothing
// else.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("there is something at %s that is no socket; move it away", path)
	default:
		conn, err := dialUnix(context.Background(), path)
		if err == nil {
			return nil, errors.Join(fmt.Errorf("another server answers on %s; stop that one first", path), conn.Close())
		}
		if !errors.Is(err, errNobody) {
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

// unixListener removes the file of its socket when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
	once sync.Once
}

// Close removes the file first, so that nobody connects to what is closed. A
// second call does nothing: by then the file may be another server's.
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

// owned accepts connections of the same user and of root.
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
		_ = conn.Close() // it was not allowed in
	}
}

// allowed reports whether the process at the other end may administer.
func allowed(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	uid, failed := -1, error(nil)
	err = raw.Control(func(fd uintptr) { uid, failed = peerUID(int(fd)) })
	return err == nil && failed == nil && (uid == 0 || uid == os.Geteuid())
}

// maxSocketPath is the longest path of a socket that every system takes.
const maxSocketPath = 103

// dialUnix connects to a socket; errNobody if there is none, or one that is
// left of a killed server.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := shortPath(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNobody
	}
	if err != nil {
		return nil, err
	}
	defer done()
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "unix", short)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, errNobody
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("the socket %s belongs to another user; run this command as that user or as root", path)
	}
	return conn, err
}

// hasData reports whether kist has been at home in the directory. It changes
// nothing.
func hasData(dir string) (bool, error) {
	for _, name := range []string{"LOCK", "cache", "journal", "blobs"} {
		_, err := os.Stat(filepath.Join(dir, name))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("cannot look into the data directory: %w", err)
		}
	}
	return false, nil
}

// connect reaches the data directory: through the socket of its server if one
// runs, else by opening it, which keeps a server out until the client is
// closed. Only when told to does it make a data directory.
func (c *Call) connect(ctx context.Context, create bool) (*client, error) {
	dir := c.DataDir
	path := filepath.Join(dir, SocketName)
	var deadline time.Time
	for {
		server, err := c.running(ctx)
		if err == nil {
			return server, nil
		}
		if !errors.Is(err, errNobody) {
			return nil, fmt.Errorf("cannot reach the running server: %w", err)
		}
		if deadline.IsZero() { // the first time around: nobody has it open, as far as can be seen
			if there, err := hasData(dir); err != nil {
				return nil, err
			} else if !there && !create {
				return nil, exit.Absent("data directory at", dir+"; kist serve and kist user add make one, and --data-dir names another")
			}
		}
		store, err := kv.Open(dir, kv.Options{Log: c.Log})
		if err == nil {
			return c.onStore(store), nil
		}
		held, ok := errors.AsType[*kv.InUse](err)
		if !ok {
			return nil, err
		}
		// The lock is held by a server that is about to listen, or that is
		// about to end, or by another command.
		if deadline.IsZero() {
			deadline = time.Now().Add(startTime)
		} else if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w, which does not answer on %s; wait until it has ended, or stop it", held, path)
		}
		time.Sleep(startStep)
	}
}

// running reaches the server of the data directory; errNobody if none runs.
func (c *Call) running(ctx context.Context) (*client, error) {
	path := filepath.Join(c.DataDir, SocketName)
	conn, err := dialUnix(ctx, path)
	if err != nil {
		return nil, err
	}
	return overSocket(path), conn.Close()
}

func overSocket(path string) *client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialUnix(ctx, path) }}
	return &client{http: http.Client{Transport: t}, close: func() error { t.CloseIdleConnections(); return nil }}
}

func (c *Call) onStore(s *kv.Store) *client {
	index, end := c.indexOn(s)
	handler := Handler(s, kv.NewPasswords(), c.sweepOn(s), index, nil, contentsOf(s))
	return &client{http: http.Client{Transport: inProcess{handler}}, close: func() error { return errors.Join(end(), s.Close()) }}
}

// contentsOf opens the contents beside a store that is open in this process.
func contentsOf(s *kv.Store) Contents {
	return func(fn func(*blobs.Store) error) error {
		content, err := blobs.OpenIn(s.Dir())
		if err != nil {
			return fmt.Errorf("cannot open the content: %w", err)
		}
		return errors.Join(fn(content), content.Close())
	}
}
