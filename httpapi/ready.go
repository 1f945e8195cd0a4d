package httpapi

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/record"
)

// What is found out about the storage holds for readyKept, and is waited for
// no longer than readyWait.
const (
	readyKept = time.Second
	readyWait = 2 * time.Second
)

// readiness says whether the server can take what it is for: it is not being
// stopped, and the storage can be written to.
type readiness struct {
	stopping atomic.Bool
	turn     chan struct{} // holds one: who has put it there may look
	looked   time.Time
	err      error // what was found
}

var (
	errStopping = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The server is being stopped."}
	errNoAnswer = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The storage does not answer."}
	errNoRoom   = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The disk is full."}
	errJournal  = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The journal is damaged and could not be replaced yet; the log names the file. Make a backup now."}
	errNoWrite  = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The storage cannot be written to."}
)

var healthOp = web.Operation{
	Tag: "server", Summary: "Says whether the server is alive.",
	Reply: web.Reply{Status: 200, Doc: "Alive.", Body: web.TextOf("ok\n")}, AtContentOrigin: true, Serve: health,
}

func health(c *web.Request) error {
	h := c.W.Header()
	h.Set("Content-Type", web.TextType)
	h.Set("Cache-Control", "no-store")
	_, _ = c.W.Write([]byte("ok\n")) // the client may be gone
	return nil
}

var readyOp = web.Operation{
	Tag: "server", Summary: "Says whether the server can store what it is sent, and is not being stopped.",
	Reply: web.Reply{Status: 200, Doc: "Ready.", Body: web.TextOf("ok\n")}, Fails: []int{503},
}

// ready answers 200 when the server can take what it is for, else 503. A journal
// that is damaged makes it 503 only while a kill would lose what was committed;
// once that is healed a second line says so. It may be asked by anyone as often as they like: the disk is looked at once a
// second, by one at a time.
func (s *Server) ready(c *web.Request) error {
	if s.readiness.stopping.Load() {
		return errStopping
	}
	if err := s.storage(c.R.Context()); err != nil {
		return err
	}
	h := c.Site.Store.JournalHealth()
	if len(h.Damaged) == 0 {
		return health(c)
	}
	if h.Healed.IsZero() {
		return errJournal
	}
	if err := health(c); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.W, "journal: damage was found and healed at %s; the log names the file\n", h.Healed.Format(time.RFC3339)) // the client may be gone
	return nil
}

// Lives reports whether the server gets on: requests come to an answer, and who
// writes the records has a turn. A disk that is full does not end a life.
// It waits for some seconds at most.
func (s *Server) Lives(ctx context.Context) bool { return !errors.Is(s.storage(ctx), errNoAnswer) }

// storage reports why the storage cannot be written to. A disk that hangs is
// waited for in the background, by one at a time, until the server is stopped.
func (s *Server) storage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	r := &s.readiness
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return errNoAnswer
	}
	if time.Since(r.looked) < readyKept {
		defer func() { <-r.turn }()
		return r.err
	}
	found := make(chan error, 1)
	s.Running.Go(func() {
		defer func() { <-r.turn }()
		r.err = s.tryStorage()
		r.looked = time.Now()
		found <- r.err
	})
	select {
	case err := <-found:
		return err
	case <-ctx.Done():
		return errNoAnswer
	}
}

// tryStorage looks whether the latest commit failed, has the one who writes the records take a turn, and writes a byte
// to the disk, which it leaves no trace of.
func (s *Server) tryStorage() error {
	if s.Store.FreeForContent() == 0 {
		return errNoRoom
	}
	if s.Store.Failing() {
		return errNoWrite
	}
	err := s.Store.Update(func(*kv.Tx) error { return nil })
	if err == nil {
		err = s.Blobs.Try()
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errNoRoom
	}
	if err != nil {
		s.Log.Error("the storage cannot be written to", "error", err)
		return errNoWrite
	}
	return nil
}
