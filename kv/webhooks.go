package kv

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"kist/kv/record"
	"kist/kv/table"
)

// Bounds of webhooks.
const (
	MaxWebhooks    = 50       // of an owner: each event is written down for every one that wants it
	maxQueued      = 20_000   // deliveries of a webhook
	maxQueuedBytes = 64 << 20 // of what they tell
	LogLength      = 200      // deliveries of a webhook that are kept when they are over
	maxLogBytes    = 8 << 20  // of what those tell
)

// What the sums of a webhook's deliveries are of, or with an owner's notice,
// how many deliveries tell it. The bytes are stored.
const (
	sumWaiting   = 'w'
	sumWaitBytes = 'W'
	sumOver      = 'l'
	sumOverBytes = 'L'
	sumTelling   = 'n'
)

// The parts of a webhook's log.
const (
	logOver    = 0 // done, or parked
	logRetried = 1 // tried, and waiting for the next try
	logWaiting = 2 // all that wait, by the time of the event
)

var hooks = jsonTable(hookBucket, func(h *record.Webhook) []byte { return ownedKey(h.Owner, h.ID[:]...) })

var hookTable = Table{
	Buckets: []table.Bucket{hookBucket}, Check: checkOwned(hooks, "webhook"), Refill: refillOwned(hooks),
	Paid: []table.Bucket{hookBucket},
	Drop: dropWebhooks,
	Redate: redateRows(hooks, func(r *Redate, v *record.Webhook) bool {
		return r.Past(&v.Created, &v.LastTried, &v.LastDelivered, &v.Failing, &v.Tried, &v.Paused)
	}),
}

var deliveries = func() *table.Table[record.Delivery] {
	t := jsonTable(deliveryBucket, func(d *record.Delivery) []byte { return ownedKey(d.Hook, d.ID[:]...) },
		table.Index[record.Delivery]{Bucket: deliveryLine, Keys: func(d *record.Delivery, file func([]byte)) {
			if d.State == record.Waiting {
				file(append(ownedKey(d.Hook, d.Subject[:]...), d.ID[:]...))
			}
		}},
		table.Index[record.Delivery]{Bucket: deliveryDue, Keys: func(d *record.Delivery, file func([]byte)) {
			if d.State == record.Waiting && !d.Due.IsZero() {
				at := binary.BigEndian.AppendUint64(ownedKey(d.Owner, d.Hook[:]...), signed(d.Due))
				file(append(append(at, d.ID[:]...), d.Subject[:]...))
			}
		}},
		table.Index[record.Delivery]{Bucket: deliveryLog, Keys: func(d *record.Delivery, file func([]byte)) {
			part := byte(logOver)
			if d.State == record.Waiting {
				part = logRetried
			}
			entry := func(part byte, at time.Time) {
				file(append(binary.BigEndian.AppendUint64(ownedKey(d.Hook, part), signed(at)), d.ID[:]...))
			}
			if d.State == record.Waiting {
				entry(logWaiting, d.At)
			}
			if !d.Noted.IsZero() {
				entry(part, d.Noted)
			}
		}})
	t.Sums = deliverySum
	t.Tally = func(d *record.Delivery, add func([]byte, int64)) {
		n, size := byte(sumOver), byte(sumOverBytes)
		if d.State == record.Waiting {
			n, size = sumWaiting, sumWaitBytes
		}
		add(ownedKey(d.Hook, n), 1)
		add(ownedKey(d.Hook, size), d.Size)
		add(telling(d.Owner, d.ID), 1)
	}
	return t
}()

var deliveryTable = Table{
	Buckets: []table.Bucket{deliveryBucket, deliveryLine, deliveryDue, deliveryLog, deliverySum, noticeBucket},
	Check: func(a *Audit) {
		checkRows(deliveries, func(a *Audit, d *record.Delivery) {
			a.Refers(hookBucket, ownedKey(d.Owner, d.Hook[:]...), "delivery", d.ID)
			a.Refers(noticeBucket, noticeKey(d), "delivery", d.ID)
			if a.misplaced(d) {
				a.Say("delivery %s is due, and another one about the same comes first; or it is not, and comes first", d.ID)
			}
		})(a)
		for k, v := range a.Walk(noticeBucket, nil, nil, false) {
			if err := json.Unmarshal(v, new(record.Notice)); err != nil {
				a.Say("%s %x cannot be read: %w", noticeBucket.Name, k, err)
			}
			if len(k) != 32 || deliveries.Sum(a.Tx.Tx, telling(record.ID(k[:16]), record.ID(k[16:]))) == 0 {
				a.Say("%s %x is told by no delivery", noticeBucket.Name, k)
			}
		}
	},
	Refill: func(r *Refill) error {
		if err := refill(r, deliveries, mending[record.Delivery]{then: func(r *Refill, d *record.Delivery) error {
			notice := r.Before.Get(noticeBucket, noticeKey(d))
			if notice == nil || r.Get(hookBucket, ownedKey(d.Owner, d.Hook[:]...)) == nil {
				r.Lost(fmt.Errorf("delivery %s: its webhook, or what it tells, is not there", d.ID))
				_, err := deliveries.Delete(r.Tx.Tx, deliveries.Key(d))
				return err
			}
			return r.Put(noticeBucket, noticeKey(d), bytes.Clone(notice))
		}}); err != nil {
			return err
		}
		return realign(r)
	},
	Paid: []table.Bucket{noticeBucket},
	Redate: redateRows(deliveries, func(r *Redate, v *record.Delivery) bool {
		changed := r.Past(&v.At, &v.Noted, &v.Try.At)
		return r.Due(&v.Due, record.MaxRetry) || changed
	}),
}

// realign makes due the first delivery of each subject, and no other: those
// before it may be lost.
func realign(r *Refill) error {
	var wrong [][]byte
	for d, err := range deliveries.All(r.Tx.Tx, nil) {
		if err == nil && r.misplaced(d) {
			wrong = append(wrong, deliveries.Key(d))
		}
	}
	for i, key := range wrong {
		d, err := deliveries.Get(r.Tx.Tx, key)
		if err != nil {
			return err
		}
		if d.Due.IsZero() {
			d.Due = d.At
		} else {
			d.Due = time.Time{}
		}
		if err := deliveries.Put(r.Tx.Tx, d); err != nil {
			return err
		}
		if i%refillBatch == refillBatch-1 {
			if err := r.renew(); err != nil {
				return err
			}
		}
	}
	return nil
}

// telling is the key of the sum of the deliveries that tell a notice.
func telling(owner, id record.ID) []byte { return append(ownedKey(owner, sumTelling), id[:]...) }

// noticeKey is where what a delivery tells is kept. The deliveries of one
// event to several webhooks share their id and it.
func noticeKey(d *record.Delivery) []byte { return ownedKey(d.Owner, d.ID[:]...) }

// Emit writes a delivery for each of the owner's webhooks that wants an event
// that is not a change of a record. Those of one subject arrive in the order
// of their making.
func (tx *Tx) Emit(owner record.ID, e record.Event, subject record.ID, n record.Notice) error {
	return tx.deliver(owner, e, subject, func() (record.Notice, error) { return n, nil })
}

func (tx *Tx) deliver(owner record.ID, e record.Event, subject record.ID, tell func() (record.Notice, error)) error {
	all, err := tx.Webhooks(owner)
	if err != nil {
		return err
	}
	var notice []byte
	var id record.ID
	for i := range all {
		h := &all[i]
		if !h.Wants(e) {
			continue
		}
		if notice == nil {
			n, err := tell()
			if err == nil {
				notice, err = json.Marshal(n)
			}
			if err != nil {
				return fmt.Errorf("event %s: %w", e, err)
			}
			id = tx.NewID()
			if err := tx.Put(noticeBucket, ownedKey(owner, id[:]...), notice); err != nil {
				return err
			}
		}
		d := &record.Delivery{
			ID: id, Hook: h.ID, Owner: owner, Subject: subject, Event: e, At: tx.Now, Size: int64(len(notice)), State: record.Waiting,
		}
		if err := tx.enqueue(h, d); err != nil {
			return err
		}
	}
	return nil
}

// queueFull is what the log says of a delivery that had no room. It is for
// people.
var queueFull = "The queue of this webhook was full: it holds " + strconv.Itoa(maxQueued) + " deliveries and " +
	strconv.Itoa(maxQueuedBytes>>20) + " MiB, and then gives up the oldest for each new one."

// enqueue puts a delivery at the end of the webhook's queue. Where that is
// full, the oldest are parked.
func (tx *Tx) enqueue(h *record.Webhook, d *record.Delivery) error {
	for {
		n := deliveries.Sum(tx.Tx, ownedKey(h.ID, sumWaiting))
		if n == 0 || n < maxQueued && deliveries.Sum(tx.Tx, ownedKey(h.ID, sumWaitBytes))+d.Size <= maxQueuedBytes {
			break
		}
		if err := tx.parkOldest(h); err != nil {
			return err
		}
	}
	if tx.first(h.ID, d.Subject) == nil {
		d.Due = tx.s.MonotonicNow()
	}
	tx.due = true
	return deliveries.Put(tx.Tx, d)
}

func (tx *Tx) parkOldest(h *record.Webhook) error {
	key := tx.oldest(h.ID, logWaiting)
	if key == nil {
		return errors.New("the sums of deliveries are wrong")
	}
	oldest, err := deliveries.Get(tx.Tx, key)
	if err != nil {
		return err
	}
	oldest.State, oldest.Due, oldest.Noted, oldest.Error = record.Parked, time.Time{}, tx.Now, queueFull
	if h.LastError != queueFull {
		h.LastError = queueFull
		if err := hooks.Put(tx.Tx, h); err != nil {
			return err
		}
	}
	return tx.settle(oldest)
}

// oldest is the key of the first delivery in a part of a webhook's log; nil if
// there is none.
func (tx *Tx) oldest(hook record.ID, part byte) []byte {
	for k := range tx.Walk(deliveryLog, ownedKey(hook, part), nil, false) {
		return ownedKey(hook, k[len(k)-16:]...)
	}
	return nil
}

// first is the key of the delivery that is the next of its subject; nil if
// none waits.
func (tx *Tx) first(hook, subject record.ID) []byte {
	for k := range tx.Walk(deliveryLine, ownedKey(hook, subject[:]...), nil, false) {
		return ownedKey(hook, k[32:]...)
	}
	return nil
}

// misplaced reports whether a delivery is due though it is not the next of its
// subject, or the other way round.
func (tx *Tx) misplaced(d *record.Delivery) bool {
	next := d.State == record.Waiting && bytes.Equal(tx.first(d.Hook, d.Subject), deliveries.Key(d))
	return next == d.Due.IsZero()
}

// settle writes a delivery that was due, makes the next of its subject due if
// that is another one now, and keeps the log within its bounds.
func (tx *Tx) settle(d *record.Delivery) error {
	if err := deliveries.Put(tx.Tx, d); err != nil {
		return err
	}
	if key := tx.first(d.Hook, d.Subject); key != nil {
		next, err := deliveries.Get(tx.Tx, key)
		if err != nil {
			return err
		}
		if next.Due.IsZero() {
			next.Due, tx.due = tx.s.MonotonicNow(), true
			if err := deliveries.Put(tx.Tx, next); err != nil {
				return err
			}
		}
		if next.ID != d.ID && d.State == record.Waiting && !d.Due.IsZero() { // one before it was sent again meanwhile
			d.Due = time.Time{}
			if err := deliveries.Put(tx.Tx, d); err != nil {
				return err
			}
		}
	}
	for {
		n := deliveries.Sum(tx.Tx, ownedKey(d.Hook, sumOver))
		if n <= LogLength && (n <= 1 || deliveries.Sum(tx.Tx, ownedKey(d.Hook, sumOverBytes)) <= maxLogBytes) {
			return nil
		}
		if err := tx.dropDelivery(tx.oldest(d.Hook, logOver)); err != nil {
			return err
		}
	}
}

// dropDelivery forgets a delivery, and what it tells if no other one tells it.
func (tx *Tx) dropDelivery(key []byte) error {
	d, err := deliveries.Delete(tx.Tx, key)
	if err != nil || deliveries.Sum(tx.Tx, telling(d.Owner, d.ID)) > 0 {
		return err
	}
	return tx.Delete(noticeBucket, noticeKey(d))
}

// Webhooks lists the owner's webhooks, oldest first.
func (tx *Tx) Webhooks(owner record.ID) ([]record.Webhook, error) {
	return collect(hooks, tx, owner[:])
}

// Webhook reads one of the owner's webhooks.
func (tx *Tx) Webhook(owner, id record.ID) (*record.Webhook, error) {
	h, err := hooks.Get(tx.Tx, ownedKey(owner, id[:]...))
	return h, userError(err, "webhook")
}

// AddWebhook keeps a webhook: the changes of the same and later transactions
// are delivered to it. An owner has MaxWebhooks at most.
func (tx *Tx) AddWebhook(h record.Webhook) (record.Webhook, error) {
	if err := tx.requireOwner(h.Owner); err != nil {
		return h, err
	}
	n := 0
	for range tx.Walk(hookBucket, h.Owner[:], nil, false) {
		n++
	}
	if n >= MaxWebhooks {
		return h, &record.Error{Fault: record.Denied, Code: "too_many_webhooks", Text: fmt.Sprintf("You have %d webhooks already, and more are not possible.", n)}
	}
	h.ID, h.Created = tx.NewID(), tx.Now
	return h, hooks.Put(tx.Tx, &h)
}

// SaveWebhook changes a webhook, which must have been read in the same
// transaction. A change ends a pause: what waits is tried again.
func (tx *Tx) SaveWebhook(h *record.Webhook) error {
	h.Resume()
	h.Forget(tx.Now)
	tx.due = true
	return hooks.Put(tx.Tx, h)
}

// dropBatch is how many deliveries of a webhook that goes are dropped in one
// transaction.
const dropBatch = 500

// RemoveWebhook takes a webhook and its deliveries away. It is turned off
// first; the deliveries go in several transactions, so that others are not
// kept waiting. When it is cut short, calling it again goes on.
func (s *Store) RemoveWebhook(owner, id record.ID) error {
	err := s.Update(func(tx *Tx) error {
		h, err := tx.Webhook(owner, id)
		if err != nil {
			return err
		}
		h.Enabled = false
		return tx.SaveWebhook(h)
	})
	for done := false; err == nil && !done; {
		err = s.Update(func(tx *Tx) (err error) {
			done, err = tx.dropWebhook(owner, id, dropBatch)
			return err
		})
	}
	return err
}

// dropWebhook drops so many of a webhook's deliveries, and the webhook itself
// if none is left. The latest go first: should it be cut short, what is left
// of a subject begins with the one that is due.
func (tx *Tx) dropWebhook(owner, id record.ID, limit int) (done bool, err error) {
	var some [][]byte
	for k := range tx.Walk(deliveryBucket, id[:], nil, true) {
		if some = append(some, slices.Clone(k)); len(some) == limit {
			break
		}
	}
	for _, k := range some {
		if err := tx.dropDelivery(k); err != nil {
			return false, err
		}
	}
	if done = len(some) < limit; done {
		_, err = hooks.Delete(tx.Tx, ownedKey(owner, id[:]...))
	}
	return done, userError(err, "webhook")
}

// dropWebhooks drops dropBatch deliveries of one of the owner's webhooks, and
// the webhook itself if none is left. It says whether the owner has none.
func dropWebhooks(tx *Tx, owner record.ID) (done bool, err error) {
	all, err := tx.Webhooks(owner)
	if err != nil || len(all) == 0 {
		return err == nil, err
	}
	_, err = tx.dropWebhook(owner, all[0].ID, dropBatch)
	return false, err
}

// Due tells by a value that a delivery may be due since it was last asked. It
// is for one reader.
func (s *Store) Due() <-chan struct{} { return s.due }

// A Place names a delivery.
type Place struct{ Owner, Hook, ID record.ID }

func (p Place) key() []byte { return ownedKey(p.Hook, p.ID[:]...) }

// A Due names a delivery that is the next of its subject.
type Due struct {
	Place
	Subject record.ID
}

// DueDeliveries finds deliveries whose time has come, of each webhook those
// that are due for longest. room says how many more of a webhook may go out;
// it is asked of every webhook for which something waits and that is on. busy
// says of which subjects a delivery is out. wait is as in findDue.
func (tx *Tx) DueDeliveries(room func(*record.Webhook) int, busy func(Due) bool) (found []Due, wait time.Duration, err error) {
	return findDue(tx, deliveryDue, nil, 32, func(hook []byte) (int, error) {
		h, err := hooks.Get(tx.Tx, hook)
		if err != nil { // must not hold up the others
			tx.s.log.Error("a webhook cannot be read, and nothing is sent to it", "webhook", record.ID(hook[16:]), "error", err)
			return -1, nil
		}
		if shut, err := tx.Disabled(h.Owner); err != nil || shut || !h.Enabled || !h.Paused.IsZero() {
			return -1, err
		}
		return room(h), nil
	}, func(hook, ids []byte) (Due, bool) {
		t := Due{Place{record.ID(hook), record.ID(hook[16:]), record.ID(ids)}, record.ID(ids[16:])}
		return t, busy(t)
	})
}

// Delivery reads a delivery and what it tells.
func (tx *Tx) Delivery(p Place) (*record.Delivery, *record.Notice, error) {
	d, err := deliveries.Get(tx.Tx, p.key())
	if err == nil && d.Owner != p.Owner {
		err = table.ErrMissing
	}
	if err != nil {
		return nil, nil, userError(err, "delivery")
	}
	n := new(record.Notice)
	if err := json.Unmarshal(tx.Get(noticeBucket, noticeKey(d)), n); err != nil {
		return nil, nil, fmt.Errorf("delivery %s: %w", d.ID, err)
	}
	return d, n, nil
}

// Tried writes down what came of sending a delivery. One that is gone is none
// of the caller's business any more.
func (tx *Tx) Tried(p Place, t record.Try) error {
	monotonic := tx.s.MonotonicNow()
	if err := tx.note(p.Owner, p.Hook, t, monotonic); err != nil {
		if missing(err) {
			return nil
		}
		return err
	}
	d, err := deliveries.Get(tx.Tx, p.key())
	if errors.Is(err, table.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	d.Record(t, tx.Now, monotonic)
	return tx.settle(d)
}

// note writes down at the webhook what came of a try.
func (tx *Tx) note(owner, hook record.ID, t record.Try, monotonic time.Time) error {
	h, err := tx.Webhook(owner, hook)
	if err != nil {
		return err
	}
	tx.due = tx.due || t.Error == "" && h.Failures > 0 // what was held back may go
	h.Record(t, tx.Now, monotonic)
	return hooks.Put(tx.Tx, h)
}

// Tested writes down a delivery that was sent by hand, outside of the queue.
func (tx *Tx) Tested(p Place, e record.Event, at time.Time, n record.Notice, t record.Try) error {
	if err := tx.note(p.Owner, p.Hook, t, tx.s.MonotonicNow()); err != nil {
		return err
	}
	notice, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("event %s: %w", e, err)
	}
	d := &record.Delivery{
		ID: p.ID, Hook: p.Hook, Owner: p.Owner, Subject: p.Hook, Event: e, At: at, Size: int64(len(notice)),
		State: record.Parked,
	}
	d.Record(t, tx.Now, time.Time{})
	return errors.Join(tx.Put(noticeBucket, noticeKey(d), notice), tx.settle(d))
}

// Redeliver has a delivery sent again, at once and with all its tries. Later
// ones of the same subject wait for it. It fails with Taken if the webhook
// sends nothing.
func (tx *Tx) Redeliver(p Place) (*record.Delivery, error) {
	h, err := tx.Webhook(p.Owner, p.Hook)
	if err != nil {
		return nil, err
	}
	if !h.Enabled || !h.Paused.IsZero() {
		return nil, &record.Error{Fault: record.Taken, Code: "webhook_off", Text: "This webhook is off or paused. Turn it on, or test it, first."}
	}
	d, _, err := tx.Delivery(p)
	if err != nil {
		return nil, err
	}
	before := tx.first(p.Hook, d.Subject)
	d.State, d.Due, d.Tries = record.Waiting, time.Time{}, 0
	if before == nil || string(before) >= string(p.key()) {
		d.Due = tx.s.MonotonicNow()
		if before != nil && string(before) > string(p.key()) { // it has to wait now
			next, err := deliveries.Get(tx.Tx, before)
			if err != nil {
				return nil, err
			}
			next.Due = time.Time{}
			if err := deliveries.Put(tx.Tx, next); err != nil {
				return nil, err
			}
		}
	}
	tx.due = true
	return d, deliveries.Put(tx.Tx, d)
}

// DeliveryLog lists the latest deliveries of a webhook that were tried or
// given up, latest first: LogLength at most.
func (tx *Tx) DeliveryLog(hook record.ID) ([]record.Delivery, error) {
	var all []record.Delivery
	for _, part := range []byte{logOver, logRetried} {
		n := 0
		for k := range tx.Walk(deliveryLog, ownedKey(hook, part), nil, true) {
			if n++; n > LogLength {
				break
			}
			d, err := deliveries.Get(tx.Tx, ownedKey(hook, k[len(k)-16:]...))
			if err != nil {
				return nil, fmt.Errorf("log of webhook %s: %w", hook, err)
			}
			all = append(all, *d)
		}
	}
	slices.SortFunc(all, func(a, b record.Delivery) int {
		return cmp.Or(b.Noted.Compare(a.Noted), bytes.Compare(b.ID[:], a.ID[:]))
	})
	return all[:min(len(all), LogLength)], nil
}

// Queued is how many deliveries wait for the webhook.
func (tx *Tx) Queued(hook record.ID) int64 { return deliveries.Sum(tx.Tx, ownedKey(hook, sumWaiting)) }
