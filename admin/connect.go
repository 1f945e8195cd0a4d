package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"kist/admin/exit"
	"kist/admin/ops"
	"kist/admin/socket"
	"kist/blobs"
	"kist/kv"
)

// Times of a command that looks for the server.
const (
	startTime = 1 * time.Second       // for a server that has the lock and no socket yet
	startStep = 50 * time.Millisecond // between two looks
)

// connect reaches the data directory: through the socket of its server if one
// runs, else by opening it, which keeps a server out until the client is
// closed. Only when told to does it make a data directory.
func (c *Call) connect(ctx context.Context, create bool) (*client, error) {
	dir := c.DataDir
	path := filepath.Join(dir, socket.Name)
	var deadline time.Time
	for {
		server, err := c.running(ctx)
		if err == nil {
			return server, nil
		}
		if !errors.Is(err, socket.ErrNobody) {
			return nil, fmt.Errorf("cannot reach the running server: %w", err)
		}
		if deadline.IsZero() { // the first time around: nobody has it open, as far as can be seen
			if there, err := ops.HasData(dir); err != nil {
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

// running reaches the server of the data directory; ErrNobody if none runs.
func (c *Call) running(ctx context.Context) (*client, error) {
	path := filepath.Join(c.DataDir, socket.Name)
	conn, err := socket.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	return overSocket(path), conn.Close()
}

func overSocket(path string) *client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx, path) }}
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
