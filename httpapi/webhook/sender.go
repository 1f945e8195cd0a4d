// Package webhook delivers events of the store to webhooks.
package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"kist/httpapi/limit"
	"kist/httpapi/outbound"
	"kist/httpapi/worker"
	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/record"
)

// Limits for deliveries at the same time. A target is ill if its last attempt failed or took long. It
// may hang, and other targets must not wait for it.
const (
	maxOut        = 64 // deliveries
	maxIll        = 32 // to ill targets
	maxOfOwner    = 16 // of one owner
	maxIllOfOwner = 8  // of one owner to ill targets
	maxOfHook     = 2  // to one target; one if it is ill
	maxTests      = 16 // additional tests
	maxTestsOf    = 4  // tests of one owner
)

// Times of the sender.
const (
	TryTime      = 10 * time.Second       // for one attempt
	TestTime     = 8 * time.Second        // for a test: clients wait for ten seconds
	stopTime     = 3 * time.Second        // for running attempts when the Sender stops
	maxCheckTime = time.Minute            // at most between two checks of the queue
	pace         = 100 * time.Millisecond // between two attempts at a dead target, times its failures
	maxPace      = 30 * time.Second       // maximum time between two such attempts
	dead         = 10                     // failures in a row that make a target dead
	slow         = time.Second            // an attempt that takes this long makes a target ill
)

// queue is the part of the store that a Sender needs.
type queue interface {
	// Find is jobs.DueDeliveries.
	Find(room func(*jobs.Webhook) int, busy func(jobs.Due) bool) ([]jobs.Due, time.Duration, error)
	// Load reads a delivery; a record.Error of the class Missing if it is gone.
	Load(jobs.Place) (*jobs.Webhook, *jobs.Delivery, *jobs.Notice, error)
	// Tried is jobs.Tried.
	Tried(jobs.Place, jobs.Try) error
	// Due is jobs.DueSignal.
	Due() <-chan struct{}
}

// A Sender delivers messages.
type Sender struct {
	queue  queue
	client *outbound.Client
	base   string
	log    *slog.Logger
	tests  limit.AtOnce[record.ID] // by owner
}

// New makes a Sender. base is the absolute address of the server, without a final slash.
func New(s *kv.Store, client *outbound.Client, base string, log *slog.Logger) *Sender {
	return newSender(storeQueue{s}, client, base, log)
}

func newSender(q queue, client *outbound.Client, base string, log *slog.Logger) *Sender {
	return &Sender{
		queue: q, client: client, base: base, log: log,
		tests: limit.AtOnce[record.ID]{All: maxTests, Each: maxTestsOf},
	}
}

type storeQueue struct{ *kv.Store }

func (s storeQueue) Due() <-chan struct{} { return jobs.DueSignal(s.Store) }

func (s storeQueue) Find(
	room func(*jobs.Webhook) int, busy func(jobs.Due) bool,
) (found []jobs.Due, wait time.Duration, err error) {
	err = s.View(func(tx *kv.Tx) error {
		found, wait, err = jobs.DueDeliveries(tx, room, busy)
		return err
	})
	return found, wait, err
}

func (s storeQueue) Load(p jobs.Place) (h *jobs.Webhook, d *jobs.Delivery, n *jobs.Notice, err error) {
	err = s.View(func(tx *kv.Tx) error {
		h, err = jobs.ReadWebhook(tx, p.Owner, p.Hook)
		if err != nil {
			return err
		}
		d, n, err = jobs.ReadDelivery(tx, p)
		return err
	})
	return h, d, n, err
}

func (s storeQueue) Tried(p jobs.Place, t jobs.Try) error {
	return s.Update(func(tx *kv.Tx) error { return jobs.Tried(tx, p, t) })
}

// line is a sequence that must arrive in order: deliveries to one webhook about one subject.
type line struct{ hook, subject record.ID }

func lineOf(t jobs.Due) line { return line{t.Hook, t.Subject} }

// The limits that running deliveries share.
type (
	toHook     record.ID
	ofOwner    record.ID
	illOfOwner record.ID // zero: all owners
)

// Run delivers what is due until ctx ends. Then it starts nothing new, gives running attempts three
// seconds, and returns when all have ended. An attempt that is cut off is repeated after the next
// start.
func (c *Sender) Run(ctx context.Context) {
	worker.New(worker.Options[line]{
		Name: "webhooks", AtOnce: maxOut, Longest: maxCheckTime, Parting: stopTime,
		Due: c.queue.Due(), Find: c.find, Log: c.log,
	}).Run(ctx)
}

// find returns the deliveries that may start within the limits of their webhooks. Webhooks take
// turns.
func (c *Sender) find(q *worker.Queue[line], _ int) (due []worker.Job[line], wait time.Duration, err error) {
	now, held := time.Now(), maxCheckTime
	ill := map[record.ID]bool{} // the webhooks with waiting deliveries
	found, wait, err := c.queue.Find(func(h *jobs.Webhook) int {
		ill[h.ID] = h.Failures > 0 || h.LastTook >= slow
		if !ill[h.ID] {
			return maxOfHook
		}
		if h.Failures >= dead {
			if left := min(time.Duration(h.Failures)*pace, maxPace) - now.Sub(q.Served(h.ID)); left > 0 {
				held = min(held, left)
				return 0
			}
		}
		return 1
	}, func(t jobs.Due) bool { return q.Running(lineOf(t)) != nil })
	if err != nil {
		return nil, 0, err
	}
	q.Forget(func(hook record.ID) bool { _, waits := ill[hook]; return waits })
	for _, t := range found {
		due = append(due, worker.Job[line]{
			Key: lineOf(t), Turn: t.Hook, Shares: shares(t, ill[t.Hook]),
			Do: func(ctx context.Context) { c.deliver(ctx, t.Place) },
		})
	}
	return due, min(cmp.Or(wait, held), held), nil
}

// shares says what a delivery has in common with others.
func shares(t jobs.Due, ill bool) []worker.Share {
	all := []worker.Share{{Of: ofOwner(t.Owner), Max: maxOfOwner}}
	if !ill {
		return append(all, worker.Share{Of: toHook(t.Hook), Max: maxOfHook})
	}
	return append(all, worker.Share{Of: toHook(t.Hook), Max: 1},
		worker.Share{Of: illOfOwner(t.Owner), Max: maxIllOfOwner}, worker.Share{Of: illOfOwner{}, Max: maxIll})
}

func (c *Sender) deliver(ctx context.Context, p jobs.Place) {
	h, d, n, err := c.queue.Load(p)
	if kv.Missing(err) {
		return // removed in the meantime
	}
	var t jobs.Try
	if err != nil {
		c.log.Error("cannot read a delivery", "webhook", p.Hook, "delivery", p.ID, "error", err)
		t = jobs.Try{At: time.Now().UTC(), Error: "The delivery cannot be read. The server's log has details."}
	} else {
		t = c.try(ctx, h, Message{ID: d.ID, Event: d.Event, At: d.At, Notice: n})
	}
	if ctx.Err() != nil && t.Error != "" {
		return // cut off
	}
	if t.Error != "" {
		c.log.Debug("a delivery failed", "webhook", p.Hook, "delivery", p.ID, "status", t.Status)
	}
	worker.Persist(ctx, c.log.With("webhook", p.Hook, "delivery", p.ID), func() error { return c.queue.Tried(p, t) })
}

// Test sends a message to a webhook immediately, without the queue. It takes at most TestTime. The
// error is Busy if too many tests are running.
func (c *Sender) Test(ctx context.Context, h *jobs.Webhook, m Message) (jobs.Try, error) {
	if c.tests.Take(h.Owner, 1) != nil {
		return jobs.Try{}, &record.Error{
			Fault: record.Busy, Code: "busy", Retry: TestTime,
			Text: "Too many webhook tests are running. Try again in a moment.",
		}
	}
	defer c.tests.Give(h.Owner, 1)

	ctx, cancel := context.WithTimeout(ctx, TestTime)
	defer cancel()
	return c.try(ctx, h, m), nil
}
