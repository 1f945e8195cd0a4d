// Package linkcheck looks at the pages that bookmarks lead to: for what a
// bookmark lacks, for the icons of their sites, and to see which pages are gone.
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

// What a host and the server have to bear.
const (
	maxOut   = 4                // looks at once, each at another host
	checkGap = 30 * time.Second // between two looks at a host
	fillGap  = 2 * time.Second  // the same, if someone waits for what the page says
	longest  = 10 * time.Minute // between two looks at the queue, or until the store is tried again when it fails over and over
	maxHosts = 10_000           // of which it is remembered when they were asked
)

// queue is what a Checker needs of the store.
type queue interface {
	// Find is catalog.DuePages.
	Find(take func(catalog.DuePage) (more bool)) (wait time.Duration, err error)
	// Load reads what is to be looked at; a record.Error of the class Missing if
	// it is gone. idle says that nothing is to be asked now.
	Load(catalog.DuePage) (p *record.Page, address string, idle bool, err error)
	// Postpone is catalog.PostponePage.
	Postpone(catalog.DuePage) error
	// Looked is catalog.SavePageCheck.
	Looked(*record.Page, record.Look) error
	// Due is catalog.PageCheckDue.
	Due() <-chan struct{}
}

// A Checker looks.
type Checker struct {
	queue queue
	ask   func(ctx context.Context, address string, fill bool) record.Look
	log   *slog.Logger

	mu    sync.Mutex
	hosts map[uint64]host
	held  time.Time     // nothing begins until then
	hold  time.Duration // how long nothing begins when the store fails once more
}

// New makes a Checker.
func New(s *kv.Store, c *outbound.Client, icons *thumb.Icons, log *slog.Logger) *Checker {
	return &Checker{queue: storeQueue{s}, ask: (&client{c, icons, log}).ask, log: log}
}

// storeQueue is the queue of a store.
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
		if p, b, idle, err = catalog.LoadDuePage(tx, t); err == nil {
			address = b.URL
		}
		return err
	})
	return p, address, idle, err
}

func (s storeQueue) Postpone(t catalog.DuePage) error {
	return s.Update(func(tx *kv.Tx) error { return catalog.PostponePage(tx, t) })
}

func (s storeQueue) Looked(p *record.Page, l record.Look) error {
	return s.Update(func(tx *kv.Tx) error { return catalog.SavePageCheck(tx, p, l) })
}

// host is what is remembered of a host.
type host struct {
	asked time.Time // when the latest look ended
	free  time.Time // it wants to be left alone until then
}

// from is when the host may be asked again.
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

// Run looks at what is due until ctx ends. It then cuts off what is under way,
// which is looked at again after the next start, and returns when all is over.
func (l *Checker) Run(ctx context.Context) {
	l.hosts, l.hold = map[uint64]host{}, worker.Again
	worker.New(worker.Options[uint64]{
		Name: "link checks", AtOnce: maxOut, Longest: longest, Due: l.queue.Due(), Find: l.find, Log: l.log,
	}).Run(ctx)
}

// find finds what may begin. Two looks are at one host only after its gap.
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
	held := longest
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

// check looks at a page and remembers when its host may be asked again. While
// the store fails, nothing is begun.
func (l *Checker) check(ctx context.Context, t catalog.DuePage) {
	wait, ok := l.look(ctx, t)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.hosts[t.Host] = host{asked: now, free: now.Add(wait)}
	if ok {
		l.hold = worker.Again
	} else if !now.Before(l.held) {
		l.held, l.hold = now.Add(l.hold), min(2*l.hold, longest)
	}
}

// look looks at a page and writes down what came of it. One that cannot be
// read, or written, must not hold up the others. wait is what the host asks for;
// ok is false if the store failed.
func (l *Checker) look(ctx context.Context, t catalog.DuePage) (wait time.Duration, ok bool) {
	p, address, idle, err := l.queue.Load(t)
	var gone *record.Error
	if errors.As(err, &gone) && gone.Fault == record.Missing {
		return 0, true // removed meanwhile
	}
	var found record.Look
	if err == nil && !idle {
		if found = l.ask(ctx, address, p.Fill); ctx.Err() != nil {
			return 0, true // it was cut off
		}
		err = l.queue.Looked(p, found)
	}
	if errors.Is(err, kv.ErrClosed) {
		return 0, false
	}
	if err != nil {
		l.log.Error("a page cannot be looked at", "bookmark", t.ID, "error", err)
	}
	if err != nil || idle {
		err = l.queue.Postpone(t)
	}
	return found.Wait, err == nil
}
