// Package webhook brings what happens in the store to webhooks.
package webhook

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"kist/httpapi/outbound"
	"kist/kv"
	"kist/kv/record"
)

// Bounds of what is under way at once. A target is ill if its last try failed
// or took long: it may hang, and others must not wait for it.
const (
	maxOut        = 64 // deliveries
	maxIll        = 32 // of them to targets that are ill
	maxOfOwner    = 16 // of them of one owner
	maxIllOfOwner = 8  // of those to targets that are ill
	maxOfHook     = 2  // of them to one target; one if it is ill
	maxTests      = 16 // tests, beside them
	maxTestsOf    = 4  // of them of one owner
)

// Times of the sender.
const (
	TryTime  = 10 * time.Second       // for one try
	TestTime = 8 * time.Second        // for a test: clients wait for ten seconds
	parting  = 3 * time.Second        // for the tries under way when the Sender is stopped
	longest  = time.Minute            // between two looks at the queue: the clock may have been set
	again    = 5 * time.Second        // until the store is tried again when it fails
	pace     = 100 * time.Millisecond // between two tries of a target that is dead, for each failure
	maxPace  = 30 * time.Second       // between two tries of such a target, whatever waits for it
	dead     = 10                     // failures in a row of such a target
	slow     = time.Second            // a try that takes as long may hang the next time
)

// queue is what a Sender needs of the store.
type queue interface {
	// Find is kv.Tx.DueDeliveries.
	Find(room func(*record.Webhook) int, busy func(kv.Due) bool) ([]kv.Due, time.Duration, error)
	// Load reads a delivery; a record.Error of the class Missing if it is gone.
	Load(kv.Place) (*record.Webhook, *record.Delivery, *record.Notice, error)
	// Tried is kv.Tx.Tried.
	Tried(kv.Place, record.Try) error
	// Due is kv.Store.Due.
	Due() <-chan struct{}
}

// A Sender delivers.
type Sender struct {
	queue  queue
	client *outbound.Client
	base   string
	log    *slog.Logger

	mu      sync.Mutex
	tests   int               // under way
	testsOf map[record.ID]int // by owner
}

// New makes a Sender. base is the absolute address of the server, without a
// slash at the end.
func New(s *kv.Store, client *outbound.Client, base string, log *slog.Logger) *Sender {
	return newSender(storeQueue{s}, client, base, log)
}

func newSender(q queue, client *outbound.Client, base string, log *slog.Logger) *Sender {
	return &Sender{queue: q, client: client, base: base, log: log, testsOf: map[record.ID]int{}}
}

// storeQueue is the queue of a store.
type storeQueue struct{ *kv.Store }

func (s storeQueue) Find(room func(*record.Webhook) int, busy func(kv.Due) bool) (found []kv.Due, wait time.Duration, err error) {
	err = s.View(func(tx *kv.Tx) error {
		found, wait, err = tx.DueDeliveries(room, busy)
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

// schedule is the state of a Sender that runs.
type schedule struct {
	out   map[line]bool // under way; true if to a target that is ill
	of    map[record.ID]int
	owned map[record.ID]count
	ill   int
	begun map[record.ID]attempt // of the webhooks for which something waits
	n     int                   // how many were begun
}

// line is what arrives in order: deliveries to one webhook about one subject.
type line struct{ hook, subject record.ID }

func lineOf(t kv.Due) line { return line{t.Hook, t.Subject} }

// count is of what is under way, and of that to targets that are ill.
type count struct{ out, ill int }

// attempt says which of all that were begun was the latest of a webhook, and
// when.
type attempt struct {
	n  int
	at time.Time
}

func newSchedule() *schedule {
	return &schedule{out: map[line]bool{}, of: map[record.ID]int{}, owned: map[record.ID]count{}, begun: map[record.ID]attempt{}}
}

// Run delivers what is due until ctx ends. It then begins nothing new, gives
// the tries under way three seconds, and returns when all are over. A try that
// is cut off is made again after the next start.
func (c *Sender) Run(ctx context.Context) {
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var work sync.WaitGroup
	over := make(chan kv.Due, maxOut)
	r := newSchedule()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		turns, wait := c.next(r)
		for _, t := range turns {
			work.Go(func() {
				c.deliver(sending, t.Place)
				over <- t
			})
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.queue.Due():
		case t := <-over:
			r.settle(t)
		drain:
			for {
				select {
				case t := <-over:
					r.settle(t)
				default:
					break drain
				}
			}
		}
	}
	late := time.AfterFunc(parting, cut)
	defer late.Stop()
	work.Wait()
}

// begin counts a delivery in.
func (r *schedule) begin(t kv.Due, ill bool) {
	r.out[lineOf(t)] = ill
	r.of[t.Hook]++
	n := r.owned[t.Owner]
	n.out++
	if ill {
		n.ill++
		r.ill++
	}
	r.owned[t.Owner] = n
	r.n++
	r.begun[t.Hook] = attempt{r.n, time.Now()}
}

// settle counts a delivery out.
func (r *schedule) settle(t kv.Due) {
	n := r.owned[t.Owner]
	n.out--
	if r.out[lineOf(t)] {
		n.ill--
		r.ill--
	}
	r.owned[t.Owner] = n
	if n.out == 0 {
		delete(r.owned, t.Owner)
	}
	delete(r.out, lineOf(t))
	if r.of[t.Hook]--; r.of[t.Hook] == 0 {
		delete(r.of, t.Hook)
	}
}

// mayBegin reports whether one more may go out for the owner.
func (r *schedule) mayBegin(owner record.ID, ill bool) bool {
	n := r.owned[owner]
	return n.out < maxOfOwner && (!ill || r.ill < maxIll && n.ill < maxIllOfOwner)
}

// next chooses what to begin, and how long to wait if nothing happens. Those
// webhooks come first whose latest delivery was begun longest ago, so that each
// has its turn.
func (c *Sender) next(r *schedule) (turns []kv.Due, wait time.Duration) {
	if len(r.out) == maxOut {
		return nil, longest
	}
	now, held := time.Now(), longest
	ill := map[record.ID]bool{} // the webhooks for which something waits
	found, wait, err := c.queue.Find(func(h *record.Webhook) int {
		ill[h.ID] = h.Failures > 0 || h.LastTook >= slow
		if !ill[h.ID] {
			return max(0, maxOfHook-r.of[h.ID])
		}
		if b, ok := r.begun[h.ID]; ok && h.Failures >= dead {
			if left := min(time.Duration(h.Failures)*pace, maxPace) - now.Sub(b.at); left > 0 {
				held = min(held, left)
				return 0
			}
		}
		return max(0, 1-r.of[h.ID])
	}, func(t kv.Due) bool {
		_, out := r.out[lineOf(t)]
		return out
	})
	if err != nil {
		c.log.Error("the queue of webhooks cannot be read; it is tried again", "error", err)
		return nil, again
	}
	for hook := range r.begun {
		if _, waits := ill[hook]; !waits {
			delete(r.begun, hook)
		}
	}
	slices.SortStableFunc(found, func(a, b kv.Due) int { return r.begun[a.Hook].n - r.begun[b.Hook].n })
	for _, t := range found {
		if len(r.out) == maxOut {
			break
		}
		if r.mayBegin(t.Owner, ill[t.Hook]) {
			r.begin(t, ill[t.Hook])
			turns = append(turns, t)
		}
	}
	if wait == 0 {
		wait = longest
	}
	return turns, min(wait, held)
}

// deliver makes one try of a delivery and writes down what came of it.
func (c *Sender) deliver(ctx context.Context, p kv.Place) {
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
func (c *Sender) Test(ctx context.Context, h *record.Webhook, m Message) (record.Try, error) {
	if !c.testing(h.Owner, 1) {
		return record.Try{}, &record.Error{Fault: record.Busy, Code: "busy", Text: "Too many webhooks are being tested; try again in a moment.", Retry: TestTime}
	}
	defer c.testing(h.Owner, -1)
	ctx, cancel := context.WithTimeout(ctx, TestTime)
	defer cancel()
	return c.try(ctx, h, m), nil
}

// testing counts one more or one less test of an owner, if that may be.
func (c *Sender) testing(owner record.ID, by int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by > 0 && (c.tests == maxTests || c.testsOf[owner] == maxTestsOf) {
		return false
	}
	c.tests += by
	if c.testsOf[owner] += by; c.testsOf[owner] == 0 {
		delete(c.testsOf, owner)
	}
	return true
}
