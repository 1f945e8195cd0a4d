package httpapi

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"kist/blobs/flight"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/record"
)

// The result of a check of the storage is used for readyKept. Requests wait for a check at
// most readyWait.
const (
	readyKept = time.Second
	readyWait = 2 * time.Second
)

// readiness says whether the server can do its work: it is not stopping, and the storage
// is writable.
type readiness struct {
	stopping  atomic.Bool
	checks    flight.Group[struct{}, error]
	checkedAt time.Time // used by checks only, like found
	found     error
}

var (
	errStopping = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The server is stopping."}
	errNoAnswer = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The storage does not answer."}
	errNoRoom   = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The disk is full."}
	errNoFiles  = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The disk can hold no more files (inodes)."}
	errJournal  = &record.Error{
		Fault: record.Busy, Code: "not_ready",
		Text: "The journal is damaged and could not be replaced yet; the log names the file. Make a backup now.",
	}
	errNoWrite = &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The storage is not writable."}
)

func health(c *web.Request) error {
	h := c.W.Header()
	h.Set("Content-Type", web.TextType)
	h.Set("Cache-Control", "no-store")
	_, _ = c.W.Write([]byte("ok\n")) // the client may be gone
	return nil
}

// ready answers 200 if the server can do its work, otherwise 503. While the object store
// makes the server refuse changes, the answer is the same error. A damaged journal gives
// 503 only while a kill would lose committed data. Once that is repaired, a second line of
// the answer says so. Anyone may ask at any rate: the disk is checked once a second, by one
// request at a time.
func (s *Server) ready(c *web.Request) error {
	if err := s.writable(c.R.Context()); err != nil {
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
	at := h.Healed.Format(time.RFC3339)
	const healed = "journal: damage was found and healed at %s; the log names the file\n"
	_, _ = fmt.Fprintf(c.W, healed, at) // the client may be gone
	return nil
}

// writable returns the reason why the server stores nothing at the moment.
func (s *Server) writable(ctx context.Context) error {
	if s.readiness.stopping.Load() {
		return errStopping
	}
	if err := s.Ship.Refuse(); err != nil {
		return err
	}
	return s.storage(ctx)
}

// Lives reports whether the server makes progress: the storage answers, and the writer of
// records gets its turn. A full disk does not count as dead. It waits for at most readyWait.
func (s *Server) Lives(ctx context.Context) bool { return !errors.Is(s.storage(ctx), errNoAnswer) }

// storage returns the reason why the storage is not writable. One check at a time waits
// for a hanging disk in the background, until the server stops.
func (s *Server) storage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	r := &s.readiness
	found, err := r.checks.Do(ctx, struct{}{}, func(context.Context) (error, error) {
		s.Running.Add(1)
		defer s.Running.Done()
		if time.Since(r.checkedAt) >= readyKept {
			r.found, r.checkedAt = s.tryStorage(), time.Now()
		}
		return r.found, nil
	})
	if err != nil {
		return errNoAnswer
	}
	return found
}

// tryStorage checks whether the disk has room, the latest commit failed, and writing works.
func (s *Server) tryStorage() error {
	if s.Store.NoFiles() {
		return errNoFiles
	}
	if s.Store.FreeForContent() == 0 {
		return errNoRoom
	}
	if s.Store.Failing() {
		return errNoWrite
	}
	err := s.tryWrites()
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errNoRoom
	}
	if err != nil {
		s.Log.Error("the storage is not writable", "error", err)
		return errNoWrite
	}
	return nil
}

// tryWrites runs an empty write transaction, and writes a byte to the disk, which it removes again.
func (s *Server) tryWrites() error {
	if err := s.Store.Update(func(*kv.Tx) error { return nil }); err != nil {
		return err
	}
	return s.Blobs.Try()
}
