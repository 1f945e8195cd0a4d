package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Starting is a server that is not ready yet because its working copy is being
// rebuilt. It answers /healthz with 200 and everything else with 503, logs how far
// it is, and asks systemd for more time.
type Starting struct {
	Listen string
	Secure *tls.Config // nil for plain HTTP
	Log    *slog.Logger

	share   atomic.Uint64 // bits of a float64: the part of the work that is done, from 0 to 1
	front   net.Listener
	server  *http.Server
	started time.Time
	work    sync.WaitGroup
	stop    context.CancelFunc
}

// How often a long start reports, and how much more time it asks systemd for
// each time.
const (
	startingReport = 5 * time.Second
	startingExtend = 60 * time.Second
)

// Rebuild opens the listener and answers from now on. It is for kv.Options.
// progress takes the part of the rebuild that is done, from 0 to 1. The error says
// why it is impossible to listen.
func (s *Starting) Rebuild() (progress func(share float64), err error) {
	s.started = time.Now()
	if err := s.answer(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() { s.report(ctx) })
	return func(share float64) { s.share.Store(math.Float64bits(share)) }, nil
}

// Open opens the listener, unless it is open.
func (s *Starting) Open() (_ net.Listener, err error) {
	if s.front == nil {
		s.front, err = listenPublic(s.Listen)
	}
	return s.front, err
}

// answer opens the listener and answers from now on.
func (s *Starting) answer() error {
	if _, err := s.Open(); err != nil {
		return err
	}
	s.server = &http.Server{
		Handler: s, TLSConfig: s.Secure, MaxHeaderBytes: 8 << 10,
		ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	s.server.SetKeepAlivesEnabled(false) // the next request may be for the ready server
	s.work.Go(func() {
		var err error
		l := lent{s.front}
		if s.Secure != nil {
			err = s.server.ServeTLS(l, "", "")
		} else {
			err = s.server.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("visitors get no answer while the server starts", "error", err)
		}
	})
	return nil
}

// hush ends what Rebuild has begun. Visitors who connect wait.
func (s *Starting) hush() error {
	if s.server == nil {
		return nil
	}
	if s.stop != nil {
		s.stop()
	}
	end, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	if s.server.Shutdown(end) != nil {
		_ = s.server.Close() // only slow visitors are cut off
	}
	s.work.Wait()
	s.server, s.stop = nil, nil
	return s.front.(deadliner).SetDeadline(time.Time{})
}

// End stops answering and returns the listener. If nothing was answered yet, End opens
// the listener. Visitors who connect meanwhile wait.
func (s *Starting) End() (net.Listener, error) {
	defer func() { s.front = nil }()
	front, err := s.Open()
	if err != nil {
		return front, err
	}
	return front, s.hush()
}

// Close ends a start that failed. After End it does nothing.
func (s *Starting) Close() error {
	if s.front == nil {
		return nil
	}
	front, err := s.End()
	return errors.Join(err, front.Close())
}

type deadliner interface{ SetDeadline(time.Time) error }

// lent is a listener that a server can close only for itself: the listener stays
// open and accepts nobody until its deadline is reset.
type lent struct{ net.Listener }

func (l lent) Close() error { return l.Listener.(deadliner).SetDeadline(time.Unix(1, 0)) }

// done says how far the start is, for people.
func (s *Starting) done() string {
	return fmt.Sprintf("%.0f %%", math.Floor(100*math.Float64frombits(s.share.Load())))
}

// left estimates how long the rebuild still takes. It returns false if it is too
// early for an estimate.
func (s *Starting) left() (time.Duration, bool) {
	share := math.Float64frombits(s.share.Load())
	if share < 0.01 {
		return 0, false
	}
	return time.Duration(float64(time.Since(s.started)) * (1 - share) / share), true
}

func (s *Starting) report(ctx context.Context) {
	tick := time.NewTicker(startingReport)
	defer tick.Stop()
	for {
		state := fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=Reading the journal, %s done",
			startingExtend.Microseconds(), s.done())
		if _, err := daemon.SdNotify(false, state); err != nil {
			s.Log.Error("systemd cannot be told that the start takes longer", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		args := []any{"done", s.done()}
		if left, ok := s.left(); ok {
			args = append(args, "left", left.Round(time.Second))
		}
		s.Log.Info("the journal is being read", args...)
	}
}

// ServeHTTP answers until the server is ready.
func (s *Starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Path == "/healthz" {
		_, _ = io.WriteString(w, "ok\n")
		return
	}
	after := 5 * time.Second
	if left, ok := s.left(); ok {
		after = min(max(left, time.Second), time.Minute)
	}
	w.Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(after.Seconds()))))
	status := http.StatusServiceUnavailable
	if r.Method == http.MethodHead && r.Header.Get("Tus-Resumable") != "" {
		status = http.StatusLocked // after 503, tus clients start the upload again
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "Starting: reading the journal, %s done.\n", s.done())
}
