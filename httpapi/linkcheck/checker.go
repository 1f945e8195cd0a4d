// Package linkcheck checks the pages of bookmarks: it fills in what bookmarks lack, fetches the
// icons of their sites, and finds pages that are gone. Page.Record in kv/record/page.go
// decides when failures make a page gone.
package linkcheck

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"kist/httpapi/outbound"
	"kist/httpapi/thumb"
	"kist/httpapi/worker"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// Limits for the load on sites and the server.
const (
	maxOut   = 4                // checks at the same time, each of another host
	checkGap = 30 * time.Second // between two checks of a host
	fillGap  = 2 * time.Second  // the same, if someone is waiting for the title
	// at most between two checks of the queue, and the longest pause after errors of the store
	maxCheckTime = 10 * time.Minute
	maxHosts     = 10_000 // hosts whose last check is remembered
)

// queue is the part of the store that a Checker needs.
type queue interface {
	// Find is catalog.DuePages.
	Find(take func(catalog.DuePage) (more bool)) (wait time.Duration, err error)
	// Load reads a page to check. The error is a record.Error of the class Missing if it is
	// gone. idle means that the owner is disabled, so the page is not requested.
	Load(catalog.DuePage) (p *record.Page, address string, idle bool, err error)
	// Postpone is catalog.PostponePage.
	Postpone(catalog.DuePage) error
	// Looked is catalog.SavePageCheck.
	Looked(*record.Page, record.Look) error
	// Due is catalog.PageCheckDue.
	Due() <-chan struct{}
}

// A Checker checks pages.
type Checker struct {
	queue queue
	ask   func(ctx context.Context, address string, fill bool) record.Look
	log   *slog.Logger

	mu    sync.Mutex
	hosts map[uint64]host
	held  time.Time     // no check starts before this time
	hold  time.Duration // the pause after the next error of the store
}

// New makes a Checker.
func New(s *kv.Store, c *outbound.Client, icons *thumb.Icons, log *slog.Logger) *Checker {
	return &Checker{queue: storeQueue{s}, ask: (&client{c, icons, log}).ask, log: log}
}

type storeQueue struct{ *kv.Store }

func (s storeQueue) Due() <-chan struct{} { return catalog.PageCheckDue(s.Store) }

func (s storeQueue) Find(take func(catalog.DuePage) bool) (wait time.Duration, err error) {
	err = s.View(func(tx *kv.Tx) error {
		wait, err = catalog.DuePages(tx, take)
		return err
	})
	return wait, err
}

func (s storeQueue) Load(t catalog.DuePage) (p *record.Page, address string, idle bool, err error) {
	err = s.View(func(tx *kv.Tx) error {
		var b *record.Bookmark
		p, b, idle, err = catalog.LoadDuePage(tx, t)
		if err != nil {
			return err
		}
		address = b.URL
		return nil
	})
	return p, address, idle, err
}

func (s storeQueue) Postpone(t catalog.DuePage) error {
	return s.Update(func(tx *kv.Tx) error { return catalog.PostponePage(tx, t) })
}

func (s storeQueue) Looked(p *record.Page, l record.Look) error {
	return s.Update(func(tx *kv.Tx) error { return catalog.SavePageCheck(tx, p, l) })
}

type host struct {
	asked time.Time // when the last check ended
	free  time.Time // no request before this time, at the host's wish
}

// from is when the host may be checked again.
func (h host) from(fill bool) time.Time {
	gap := checkGap
	if fill {
		gap = fillGap
	}
	if at := h.asked.Add(gap); at.After(h.free) {
		return at
	}
	return h.free
}

// Run checks due pages until ctx ends. Then it cuts off running checks, which are repeated after
// the next start, and returns when all have ended.
func (l *Checker) Run(ctx context.Context) {
	l.hosts, l.hold = map[uint64]host{}, worker.Again
	worker.New(worker.Options[uint64]{
		Name: "link checks", AtOnce: maxOut, Longest: maxCheckTime, Due: l.queue.Due(), Find: l.find, Log: l.log,
	}).Run(ctx)
}

// find returns the due checks that may start. A host is checked again only after its gap.
func (l *Checker) find(q *worker.Queue[uint64], free int) (due []worker.Job[uint64], wait time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if left := l.held.Sub(now); left > 0 {
		return nil, left, nil
	}
	if len(l.hosts) > maxHosts {
		maps.DeleteFunc(l.hosts, func(_ uint64, h host) bool { return !now.Before(h.from(false)) })
	}
	held := maxCheckTime
	chosen := map[uint64]bool{}
	wait, err = l.queue.Find(func(t catalog.DuePage) bool {
		if chosen[t.Host] || q.Running(t.Host) != nil {
			return true
		}
		if h, known := l.hosts[t.Host]; known {
			if left := h.from(t.Fill).Sub(now); left > 0 {
				held = min(held, left)
				return true
			}
		}
		chosen[t.Host] = true
		due = append(due, worker.Job[uint64]{Key: t.Host, Do: func(ctx context.Context) { l.check(ctx, t) }})
		return len(due) < free
	})
	return due, min(cmp.Or(wait, held), held), err
}

// check checks a page and remembers when its host may be checked again. After an error of the
// store it pauses all checks.
func (l *Checker) check(ctx context.Context, t catalog.DuePage) {
	wait, ok := l.look(ctx, t)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.hosts[t.Host] = host{asked: now, free: now.Add(wait)}
	if ok {
		l.hold = worker.Again
	} else if !now.Before(l.held) {
		l.held, l.hold = now.Add(l.hold), min(2*l.hold, maxCheckTime)
	}
}

// look checks a page and stores the result. A page that cannot be read or stored must not delay
// the others. wait is the time that the host asks for; ok is false if the store failed.
func (l *Checker) look(ctx context.Context, t catalog.DuePage) (wait time.Duration, ok bool) {
	p, address, idle, err := l.queue.Load(t)
	if kv.Missing(err) {
		return 0, true // removed in the meantime
	}
	var found record.Look
	if err == nil && !idle {
		found = l.ask(ctx, address, p.Fill)
		if ctx.Err() != nil {
			return 0, true // cut off
		}
		err = l.queue.Looked(p, found)
	}
	if errors.Is(err, kv.ErrClosed) {
		return 0, false
	}
	if err != nil {
		l.log.Error("cannot check a page", "bookmark", t.ID, "error", err)
	}
	if err != nil || idle {
		err = l.queue.Postpone(t)
	}
	return found.Wait, err == nil
}
