// Package linkcheck looks at the pages that bookmarks lead to: for what a
// bookmark lacks, for the icons of their sites, and to see which pages are gone.
package linkcheck

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"kist/httpapi/outbound"
	"kist/httpapi/thumb"
	"kist/kv"
	"kist/kv/record"
)

// What a host and the server have to bear.
const (
	maxOut   = 4                // looks at once, each at another host
	checkGap = 30 * time.Second // between two looks at a host
	fillGap  = 2 * time.Second  // the same, if someone waits for what the page says
	longest  = 10 * time.Minute // between two looks at the queue
	again    = 5 * time.Second  // until the store is tried again when it fails; twice that each time, up to longest
	maxHosts = 10_000           // of which it is remembered when they were asked
)

// queue is what a Checker needs of the store.
type queue interface {
	// Find is kv.Tx.DuePages.
	Find(take func(kv.DuePage) (more bool)) (wait time.Duration, err error)
	// Load reads what is to be looked at; a record.Error of the class Missing if
	// it is gone. idle says that nothing is to be asked now.
	Load(kv.DuePage) (p *record.Page, address string, idle bool, err error)
	// Postpone is kv.Tx.PostponePage.
	Postpone(kv.DuePage) error
	// Looked is kv.Tx.Looked.
	Looked(*record.Page, record.Look) error
	// Due is kv.Store.PageCheckDue.
	Due() <-chan struct{}
}

// A Checker looks.
type Checker struct {
	queue queue
	ask   func(ctx context.Context, address string, fill bool) record.Look
	log   *slog.Logger
}

// New makes a Checker.
func New(s *kv.Store, c *outbound.Client, icons *thumb.Icons, log *slog.Logger) *Checker {
	return &Checker{queue: storeQueue{s}, ask: (&client{c, icons, log}).ask, log: log}
}

// storeQueue is the queue of a store.
type storeQueue struct{ *kv.Store }

func (s storeQueue) Due() <-chan struct{} { return s.PageCheckDue() }

func (s storeQueue) Find(take func(kv.DuePage) bool) (wait time.Duration, err error) {
	err = s.View(func(tx *kv.Tx) error {
		wait, err = tx.DuePages(take)
		return err
	})
	return wait, err
}

func (s storeQueue) Load(t kv.DuePage) (p *record.Page, address string, idle bool, err error) {
	err = s.View(func(tx *kv.Tx) error {
		var b *record.Bookmark
		if p, b, idle, err = tx.LoadDuePage(t); err == nil {
			address = b.URL
		}
		return err
	})
	return p, address, idle, err
}

func (s storeQueue) Postpone(t kv.DuePage) error {
	return s.Update(func(tx *kv.Tx) error { return tx.PostponePage(t) })
}

func (s storeQueue) Looked(p *record.Page, l record.Look) error {
	return s.Update(func(tx *kv.Tx) error { return tx.SavePageCheck(p, l) })
}

// host is what is remembered of a host.
type host struct {
	out   bool      // it is being asked
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

// done is a look that is over.
type done struct {
	turn kv.DuePage
	wait time.Duration // that the host asks for
	held bool          // the store failed: nothing is begun for a while
}

// Run looks at what is due until ctx ends. It then cuts off what is under way,
// which is looked at again after the next start, and returns when all is over.
func (l *Checker) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	over := make(chan done, maxOut)
	hosts := map[uint64]host{}
	out := 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	var held time.Time
	hold := again
	for ctx.Err() == nil {
		wait := time.Until(held)
		if wait <= 0 {
			var turns []kv.DuePage
			turns, wait = l.next(hosts, maxOut-out)
			for _, t := range turns {
				out++
				work.Go(func() { over <- l.check(ctx, t) })
			}
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.queue.Due():
		case d := <-over:
			out--
			now := time.Now()
			hosts[d.turn.Host] = host{asked: now, free: now.Add(d.wait)}
			if !d.held {
				hold = again
			} else if !now.Before(held) {
				held, hold = now.Add(hold), min(2*hold, longest)
			}
		}
	}
}

// next chooses what to begin, and how long to wait if nothing happens. Two
// looks are at one host only after its gap.
func (l *Checker) next(hosts map[uint64]host, room int) (turns []kv.DuePage, wait time.Duration) {
	now := time.Now()
	if len(hosts) > maxHosts {
		for k, h := range hosts {
			if !h.out && !now.Before(h.from(false)) {
				delete(hosts, k)
			}
		}
	}
	if room == 0 {
		return nil, longest
	}
	held := longest
	wait, err := l.queue.Find(func(t kv.DuePage) bool {
		h, known := hosts[t.Host]
		if h.out {
			return true
		}
		if from := h.from(t.Fill); known && now.Before(from) {
			held = min(held, from.Sub(now))
			return true
		}
		h.out = true
		hosts[t.Host] = h
		turns = append(turns, t)
		return len(turns) < room
	})
	if err != nil {
		for _, t := range turns {
			h := hosts[t.Host]
			h.out = false
			hosts[t.Host] = h
		}
		l.log.Error("it cannot be read which pages are due; it is tried again", "error", err)
		return nil, again
	}
	if wait == 0 {
		wait = longest
	}
	return turns, max(min(wait, held), time.Millisecond)
}

// check looks at a page and writes down what came of it. One that cannot be
// read, or written, must not hold up the others.
func (l *Checker) check(ctx context.Context, t kv.DuePage) done {
	p, address, idle, err := l.queue.Load(t)
	var gone *record.Error
	if errors.As(err, &gone) && gone.Fault == record.Missing {
		return done{turn: t} // removed meanwhile
	}
	var found record.Look
	if err == nil && !idle {
		if found = l.ask(ctx, address, p.Fill); ctx.Err() != nil {
			return done{turn: t} // it was cut off
		}
		err = l.queue.Looked(p, found)
	}
	if errors.Is(err, kv.ErrClosed) {
		return done{turn: t, held: true}
	}
	if err != nil {
		l.log.Error("a page cannot be looked at", "bookmark", t.ID, "error", err)
	}
	if err != nil || idle {
		err = l.queue.Postpone(t)
	}
	return done{turn: t, wait: found.Wait, held: err != nil}
}
