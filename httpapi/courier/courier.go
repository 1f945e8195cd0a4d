// Package courier brings what happens in the store to webhooks.
package courier

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"kist/httpapi/outbound"
	"kist/kv"
	"kist/kv/record"
)

// Bounds of what is under way at once.
const (
	maxOut     = 16 // deliveries
	maxFailing = 8  // of them to targets whose last try failed: they may hang, and others must not wait for them
	maxOfHook  = 2  // of them to one target; one if its last try failed
	maxTests   = 8  // tests, beside them
)

// Times of the courier.
const (
	TryTime  = 10 * time.Second       // for one try
	TestTime = 8 * time.Second        // for a test: clients wait for ten seconds
	parting  = 3 * time.Second        // for the tries under way when the courier is stopped
	longest  = time.Minute            // between two looks at the queue: the clock may have been set
	again    = 5 * time.Second        // until the store is tried again when it fails
	pace     = 100 * time.Millisecond // between two tries of a target that is dead, for each failure
	maxPace  = 30 * time.Second       // between two tries of such a target, whatever waits for it
	dead     = 10                     // failures in a row of such a target
)

// queue is what the courier needs of the store.
type queue interface {
	// Find is kv.Tx.DueDeliveries.
	Find(after kv.Place, room func(*record.Webhook) int, busy func(record.ID) bool) ([]kv.Place, time.Duration, error)
	// Load reads a delivery; a record.Error of the class Missing if it is gone.
	Load(kv.Place) (*record.Webhook, *record.Delivery, *record.Notice, error)
	// Tried is kv.Tx.Tried.
	Tried(kv.Place, record.Try) error
	// Due is kv.Store.Due.
	Due() <-chan struct{}
}

// A Courier delivers.
type Courier struct {
	queue  queue
	client *outbound.Client
	base   string
	log    *slog.Logger
	tests  chan struct{}
}

// New makes a courier. base is the absolute address of the server, without a
// slash at the end.
func New(s *kv.Store, client *outbound.Client, base string, log *slog.Logger) *Courier {
	return newCourier(storeQueue{s}, client, base, log)
}

func newCourier(q queue, client *outbound.Client, base string, log *slog.Logger) *Courier {
	return &Courier{queue: q, client: client, base: base, log: log, tests: make(chan struct{}, maxTests)}
}

// storeQueue is the queue of a store.
type storeQueue struct{ *kv.Store }

func (s storeQueue) Find(after kv.Place, room func(*record.Webhook) int, busy func(record.ID) bool) (found []kv.Place, wait time.Duration, err error) {
	err = s.View(func(tx *kv.Tx) error {
		found, wait, err = tx.DueDeliveries(after, room, busy)
		return err
	})
	return found, wait, err
}

func (s storeQueue) Load(p kv.Place) (h *record.Webhook, d *record.Delivery, n *record.Notice, err error) {
	err = s.View(func(tx *kv.Tx) error {
		if h, err = tx.Webhook(p.Owner, p.Hook); err != nil {
			return err
		}
		d, n, err = tx.Delivery(p)
		return err
	})
	return h, d, n, err
}

func (s storeQueue) Tried(p kv.Place, t record.Try) error {
	return s.Update(func(tx *kv.Tx) error { return tx.Tried(p, t) })
}

// round is the state of a courier that runs.
type round struct {
	out   map[record.ID]bool      // deliveries under way
	of    map[record.ID]int       // how many of them, by webhook
	ill   map[record.ID]bool      // of them, those to targets whose last try failed
	last  map[record.ID]time.Time // the latest try of targets that are dead, by webhook
	after kv.Place                // the latest that was begun
}

// Run delivers what is due until ctx ends. It then begins nothing new, gives
// the tries under way three seconds, and returns when all are over. A try that
// is cut off is made again after the next start.
func (c *Courier) Run(ctx context.Context) {
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var work sync.WaitGroup
	over := make(chan kv.Place, maxOut)
	r := round{out: map[record.ID]bool{}, of: map[record.ID]int{}, ill: map[record.ID]bool{}, last: map[record.ID]time.Time{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		places, wait := c.next(&r)
		for _, p := range places {
			work.Go(func() {
				c.bring(sending, p)
				over <- p
			})
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			late := time.AfterFunc(parting, cut)
			defer late.Stop()
			work.Wait()
			return
		case <-timer.C:
		case <-c.queue.Due():
		case p := <-over:
			r.settle(p)
		drain:
			for {
				select {
				case p := <-over:
					r.settle(p)
				default:
					break drain
				}
			}
		}
	}
}

func (r *round) settle(p kv.Place) {
	delete(r.out, p.ID)
	delete(r.ill, p.ID)
	if r.of[p.Hook]--; r.of[p.Hook] == 0 {
		delete(r.of, p.Hook)
	}
}

// next chooses what to begin, and how long to wait if nothing happens.
func (c *Courier) next(r *round) (places []kv.Place, wait time.Duration) {
	now := time.Now()
	for hook, at := range r.last {
		if now.Sub(at) >= maxPace {
			delete(r.last, hook)
		}
	}
	if len(r.out) == maxOut {
		return nil, longest
	}
	failing, held, slow := map[record.ID]bool{}, longest, map[record.ID]bool{}
	found, wait, err := c.queue.Find(r.after, func(h *record.Webhook) int {
		if h.Failures == 0 {
			return max(0, maxOfHook-r.of[h.ID])
		}
		failing[h.ID] = true
		slow[h.ID] = h.Failures >= dead
		if at, ok := r.last[h.ID]; ok && slow[h.ID] {
			if left := min(time.Duration(h.Failures)*pace, maxPace) - now.Sub(at); left > 0 {
				held = min(held, left)
				return 0
			}
		}
		return max(0, 1-r.of[h.ID])
	}, func(id record.ID) bool { return r.out[id] })
	if err != nil {
		c.log.Error("the queue of webhooks cannot be read; it is tried again", "error", err)
		return nil, again
	}
	for _, p := range found {
		if len(r.out) == maxOut {
			break
		}
		if failing[p.Hook] {
			if len(r.ill) == maxFailing {
				continue
			}
			r.ill[p.ID] = true
		}
		if slow[p.Hook] {
			r.last[p.Hook] = now
		}
		r.out[p.ID], r.after = true, p
		r.of[p.Hook]++
		places = append(places, p)
	}
	if wait == 0 {
		wait = longest
	}
	return places, min(wait, held)
}

// bring makes one try of a delivery and writes down what came of it.
func (c *Courier) bring(ctx context.Context, p kv.Place) {
	h, d, n, err := c.queue.Load(p)
	var e *record.Error
	if errors.As(err, &e) && e.Fault == record.Missing {
		return // removed meanwhile
	}
	var t record.Try
	if err == nil {
		t = c.try(ctx, h, Message{ID: d.ID, Event: d.Event, At: d.At, Notice: n})
	} else {
		c.log.Error("a delivery cannot be read", "webhook", p.Hook, "delivery", p.ID, "error", err)
		t = record.Try{At: time.Now().UTC(), Error: "The delivery cannot be read; the server's log says more."}
	}
	if ctx.Err() != nil && t.Error != "" {
		return // it was cut off
	}
	if t.Error != "" {
		c.log.Debug("a delivery failed", "webhook", p.Hook, "delivery", p.ID, "status", t.Status)
	}
	// What is not written down would be sent again at once.
	for {
		err := c.queue.Tried(p, t)
		if err == nil || errors.Is(err, kv.ErrClosed) {
			return
		}
		c.log.Error("what came of a delivery is not written down; it is tried again", "webhook", p.Hook, "delivery", p.ID, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// Test sends a message to a webhook at once, outside of the queue. It takes
// TestTime at most; Busy if too many tests are under way.
func (c *Courier) Test(ctx context.Context, h *record.Webhook, m Message) (record.Try, error) {
	select {
	case c.tests <- struct{}{}:
		defer func() { <-c.tests }()
	default:
		return record.Try{}, &record.Error{Fault: record.Busy, Code: "busy", Text: "Too many webhooks are being tested; try again in a moment.", Retry: TestTime}
	}
	ctx, cancel := context.WithTimeout(ctx, TestTime)
	defer cancel()
	return c.try(ctx, h, m), nil
}
