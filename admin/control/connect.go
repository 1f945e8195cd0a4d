package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"kist/admin/ops"
	"kist/admin/socket"
	"kist/blobs"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/tables"
	"kist/search"
)

// Times of a command that looks for the server.
const (
	startTime = 1 * time.Second       // for a server that has the lock and no socket yet
	startStep = 50 * time.Millisecond // between two looks
)

// Options say how to reach a data directory.
type Options struct {
	Dir     string
	GCDelay time.Duration // of a sweep if no server runs
	Log     *slog.Logger
	Handler func(*kv.Store, Commands) http.Handler // answers if no server runs
}

// Connect reaches a data directory: through the socket of its server if one runs,
// or else by opening it, which makes one that is not there. In that case no server can start until the client is
// closed.
func Connect(ctx context.Context, o Options) (*Client, error) {
	dir := o.Dir
	path := filepath.Join(dir, socket.Name)
	var deadline time.Time
	for {
		server, err := Running(ctx, dir)
		if err == nil {
			return server, nil
		}
		if !errors.Is(err, socket.ErrNobody) {
			return nil, fmt.Errorf("cannot reach the running server: %w", err)
		}

		store, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: o.Log})
		if err == nil {
			return inThisProcess(store, o), nil
		}

		held, ok := errors.AsType[*datadir.InUse](err)
		if !ok {
			return nil, err
		}
		// The lock belongs to a server that is about to listen or about to end,
		// or to another command.
		if deadline.IsZero() {
			deadline = time.Now().Add(startTime)
		} else if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w, which does not answer on %s; wait until it has ended, or stop it", held, path)
		}
		if err := Wait(ctx, startStep); err != nil {
			return nil, err
		}
	}
}

// Wait waits for a time, or until ctx ends, whose error it then returns.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Running reaches the server of a data directory. It fails with socket.ErrNobody if
// none runs.
func Running(ctx context.Context, dir string) (*Client, error) {
	path := filepath.Join(dir, socket.Name)
	conn, err := socket.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	return overSocket(path), conn.Close()
}

func overSocket(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx, path) }
	t := &http.Transport{DialContext: dial}
	end := func() error {
		t.CloseIdleConnections()
		return nil
	}
	return &Client{http: http.Client{Transport: t}, end: end}
}

// inThisProcess runs the handler on a store that is open in this process.
func inThisProcess(s *kv.Store, o Options) *Client {
	index, end := indexOf(s, o.Log)
	handler := o.Handler(s, NewCommands(Backend{Store: s, Sweep: sweepOf(s, o), Index: index, Contents: contentsOf(s)}))
	return &Client{
		http: http.Client{Transport: inProcess{handler}}, settle: settleOf(s, index, o.Log),
		end: func() error { return errors.Join(end(), s.Close()) },
	}
}

// contentsOf opens the stored files of an open store.
func contentsOf(s *kv.Store) func(func(*blobs.Store) error) error {
	return func(fn func(*blobs.Store) error) error {
		content, err := blobs.OpenIn(s.Dir())
		if err != nil {
			return fmt.Errorf("cannot open the content: %w", err)
		}
		return errors.Join(fn(content), content.Close())
	}
}

// sweepOf sweeps an open store.
func sweepOf(store *kv.Store, o Options) func(context.Context, bool) (ops.Swept, error) {
	return func(ctx context.Context, now bool) (swept ops.Swept, err error) {
		err = contentsOf(store)(func(content *blobs.Store) (err error) {
			swept, err = (&ops.Sweeper{Store: store, Blobs: content, Delay: o.GCDelay, Log: o.Log}).Sweep(ctx, now)
			return err
		})
		return swept, err
	}
}

// indexOf runs the search index of an open store, from the first call of index until
// end is called.
func indexOf(store *kv.Store, log *slog.Logger) (index func() (*search.Index, error), end func() error) {
	var x *search.Index
	var content *blobs.Store
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	index = func() (*search.Index, error) {
		if x != nil {
			return x, nil
		}
		var err error
		content, err = blobs.OpenIn(store.Dir())
		if err != nil {
			return nil, fmt.Errorf("cannot open the content: %w", err)
		}
		made, err := ops.NewIndex(store, content, log)
		if err != nil {
			return nil, errors.Join(err, content.Close())
		}
		x = made
		work.Go(func() { x.Run(ctx) })
		return x, nil
	}
	return index, func() error {
		cancel()
		work.Wait()
		if content == nil {
			return nil
		}
		return content.Close()
	}
}
