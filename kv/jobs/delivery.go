package jobs

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// DeliveryState is the state of a delivery.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryWaits  DeliveryState = "waiting"
	DeliveryDone   DeliveryState = "done"
	DeliveryParked DeliveryState = "parked" // given up; it can be sent again by hand
)

// Delivery is one event on its way to one webhook.
type Delivery struct {
	ID      record.ID     `json:"ID"`
	Hook    record.ID     `json:"Hook"`
	Owner   record.ID     `json:"Owner"`
	Subject record.ID     `json:"Subject"` // what the event is about; deliveries about one subject arrive in order
	Event   Event         `json:"Event"`
	At      time.Time     `json:"At"`   // of the event
	Size    int64         `json:"Size"` // of the notice, in bytes
	State   DeliveryState `json:"State"`
	Due     time.Time     `json:"Due"`   // the next try; zero while an earlier one of the subject waits
	Tries   int           `json:"Tries"` // since it was queued, or sent again by hand
	Noted   time.Time     `json:"Noted"` // the last try, or when it was parked; zero: never tried

	// The last try.
	Try
}

// tries are the waits before each try of a delivery.
var tries = []time.Duration{
	0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, maxRetry,
}

// maxRetry is the longest time until a failed delivery is tried again.
const maxRetry = 24 * time.Hour

// maxWait bounds the wait that a target may ask for.
const maxWait = time.Hour

// maxGap is the longest time between two tries of one run of failures: the
// longest wait, and time for the try.
const maxGap = 25 * time.Hour

// pauseAfter is how long a target must fail before nothing more is sent to it.
const pauseAfter = 3 * 24 * time.Hour

// Try is the result of sending a delivery once.
type Try struct {
	At     time.Time     `json:"TryAt"`
	Took   time.Duration `json:"Took"`
	URL    string        `json:"URL"`
	Format Format        `json:"Format"`
	Status int           `json:"Status"` // 0: no answer
	Error  string        `json:"Error"`  // a sentence; "" on success
	Answer string        `json:"Answer"` // the beginning of the answer's body
	Wait   time.Duration `json:"-"`      // the wait that the target asks for
}

// hold is for how long the target wants nothing at all; 0 if it does not say so.
func (t Try) hold() time.Duration {
	if t.Status != http.StatusTooManyRequests && t.Status != http.StatusServiceUnavailable {
		return 0
	}
	return min(t.Wait, maxWait)
}

// Record records a try at the given time of the clock for retries. An answer that
// holds the target does not count as a try, unless the event is old. What was held
// is due after all that has waited meanwhile.
func (d *Delivery) Record(t Try, now, monotonic time.Time) {
	d.Try, d.Noted, d.Due = t, now, time.Time{}
	if t.hold() > 0 && d.State == DeliveryWaits && now.Sub(d.At) < pauseAfter {
		d.Due = monotonic.Add(t.hold())
		return
	}

	d.Tries++
	switch {
	case t.Error == "":
		d.State = DeliveryDone
	case d.State == DeliveryWaits && d.Tries >= len(tries):
		d.State = DeliveryParked
	case d.State == DeliveryWaits:
		d.Due = monotonic.Add(max(tries[d.Tries], min(t.Wait, maxWait)))
	}
}

// Bounds of webhooks.
const (
	maxQueued      = 20_000   // waiting deliveries of a webhook
	maxQueuedBytes = 64 << 20 // size of their notices
	LogLength      = 200      // finished deliveries that a webhook keeps
	maxLogBytes    = 8 << 20  // size of their notices
)

// The kinds of sums over a webhook's deliveries. sumTelling is per notice of an
// owner: how many deliveries carry it. The bytes are stored.
const (
	sumWaiting   = 'w'
	sumWaitBytes = 'W'
	sumOver      = 'l'
	sumOverBytes = 'L'
	sumTelling   = 'n'
)

// The parts of a webhook's log.
const (
	logOver    = 0 // done or parked
	logRetried = 1 // tried and waiting for the next try
	logWaiting = 2 // all waiting ones, ordered by the time of the event
)

// DeliveryRows is the table of deliveries: those that wait, and the log.
var DeliveryRows = func() *table.Table[Delivery] {
	t := kv.JsonTable(deliveryBucket, func(d *Delivery) []byte { return kv.OwnedKey(d.Hook, d.ID[:]...) },
		table.Index[Delivery]{Bucket: deliveryLine, Keys: func(d *Delivery, file func([]byte)) {
			if d.State == DeliveryWaits {
				file(append(kv.OwnedKey(d.Hook, d.Subject[:]...), d.ID[:]...))
			}
		}},
		table.Index[Delivery]{Bucket: deliveryDue, Keys: func(d *Delivery, file func([]byte)) {
			if d.State == DeliveryWaits && !d.Due.IsZero() {
				at := binary.BigEndian.AppendUint64(kv.OwnedKey(d.Owner, d.Hook[:]...), kv.Signed(d.Due))
				file(append(append(at, d.ID[:]...), d.Subject[:]...))
			}
		}},
		table.Index[Delivery]{Bucket: deliveryLog, Keys: func(d *Delivery, file func([]byte)) {
			part := byte(logOver)
			if d.State == DeliveryWaits {
				part = logRetried
			}
			entry := func(part byte, at time.Time) {
				file(append(binary.BigEndian.AppendUint64(kv.OwnedKey(d.Hook, part), kv.Signed(at)), d.ID[:]...))
			}
			if d.State == DeliveryWaits {
				entry(logWaiting, d.At)
			}
			if !d.Noted.IsZero() {
				entry(part, d.Noted)
			}
		}})
	t.Sums = deliverySum
	t.Tally = func(d *Delivery, add func([]byte, int64)) {
		n, size := byte(sumOver), byte(sumOverBytes)
		if d.State == DeliveryWaits {
			n, size = sumWaiting, sumWaitBytes
		}
		add(kv.OwnedKey(d.Hook, n), 1)
		add(kv.OwnedKey(d.Hook, size), d.Size)
		add(telling(d.Owner, d.ID), 1)
	}
	return t
}()

// DeliveryTable keeps deliveries and the notices that they carry.
var DeliveryTable = kv.Table{
	Buckets: []table.Bucket{deliveryBucket, deliveryLine, deliveryDue, deliveryLog, deliverySum, noticeBucket},
	Check: func(a *kv.Audit) {
		kv.CheckRows(DeliveryRows, func(a *kv.Audit, d *Delivery) {
			a.Refers(hookBucket, kv.OwnedKey(d.Owner, d.Hook[:]...), "delivery", d.ID)
			a.Refers(noticeBucket, noticeKey(d), "delivery", d.ID)
			if misplaced(a.Tx, d) {
				a.Say("delivery %s is due although an earlier one for its subject waits, "+
					"or is not due although it is the first", d.ID)
			}
		})(a)
		for k, v := range a.Walk(noticeBucket, nil, nil, false) {
			if err := json.Unmarshal(v, new(Notice)); err != nil {
				a.Say("%s %x cannot be read: %w", noticeBucket.Name, k, err)
			}
			if len(k) != 32 || DeliveryRows.Sum(a.Tx.Tx, telling(record.ID(k[:16]), record.ID(k[16:]))) == 0 {
				a.Say("%s %x belongs to no delivery", noticeBucket.Name, k)
			}
		}
	},
	Refill: func(r *kv.Refill) error {
		if err := kv.CopyRows(r, DeliveryRows, kv.Mending[Delivery]{Then: func(r *kv.Refill, d *Delivery) error {
			notice := r.Before.Get(noticeBucket, noticeKey(d))
			if notice == nil || r.Get(hookBucket, kv.OwnedKey(d.Owner, d.Hook[:]...)) == nil {
				r.Lost(fmt.Errorf("delivery %s: its webhook or its notice is missing", d.ID))
				_, err := DeliveryRows.Delete(r.Tx.Tx, DeliveryRows.Key(d))
				return err
			}
			return r.Put(noticeBucket, noticeKey(d), bytes.Clone(notice))
		}}); err != nil {
			return err
		}
		return realign(r)
	},
}

// realign makes only the first delivery of each subject due. Earlier ones may have
// been lost.
func realign(r *kv.Refill) error {
	var wrong [][]byte
	for d, err := range DeliveryRows.All(r.Tx.Tx, nil) {
		if err == nil && misplaced(r.Tx, d) {
			wrong = append(wrong, DeliveryRows.Key(d))
		}
	}
	for i, key := range wrong {
		d, err := DeliveryRows.Get(r.Tx.Tx, key)
		if err != nil {
			return err
		}
		if d.Due.IsZero() {
			d.Due = d.At
		} else {
			d.Due = time.Time{}
		}
		if err := DeliveryRows.Put(r.Tx.Tx, d); err != nil {
			return err
		}
		if i%kv.RefillBatch == kv.RefillBatch-1 {
			if err := r.Renew(); err != nil {
				return err
			}
		}
	}
	return nil
}

// telling is the key of the number of deliveries that carry a notice.
func telling(owner, id record.ID) []byte { return append(kv.OwnedKey(owner, sumTelling), id[:]...) }

// noticeKey is the key of a delivery's notice. The deliveries of one event to
// several webhooks share their id and the notice.
func noticeKey(d *Delivery) []byte { return kv.OwnedKey(d.Owner, d.ID[:]...) }

// Emit adds a delivery for each of the owner's webhooks that wants the event. It is
// for events that are not changes of a record. Deliveries of one subject arrive in
// the order in which they were added.
func Emit(tx *kv.Tx, owner record.ID, e Event, subject record.ID, n Notice) error {
	return Deliver(tx, owner, e, subject, func() (Notice, error) { return n, nil })
}

// tellAdmins is Emit for each administrator whose account is not disabled.
func tellAdmins(tx *kv.Tx, e Event, n Notice) error {
	all, err := people.Users(tx)
	if err != nil {
		return err
	}
	subject := tx.NewID()
	for _, u := range all {
		if u.Role != people.Admin || u.Disabled {
			continue
		}
		if err := Emit(tx, u.ID, e, subject, n); err != nil {
			return err
		}
	}
	return nil
}

// TellBackupFailed adds the event for a backup by schedule that has failed or is late. why is a sentence, last is when the
// last good one was made; zero if never.
func TellBackupFailed(s *kv.Store, why string, last time.Time) error {
	told := struct {
		Error string     `json:"error"`
		Last  *time.Time `json:"lastAt"`
	}{Error: why}
	if !last.IsZero() {
		told.Last = &last
	}
	data, err := json.Marshal(told)
	if err != nil {
		return err
	}
	return s.Update(func(tx *kv.Tx) error {
		return tellAdmins(tx, BackupFailed, Notice{Title: why, Path: "/admin", Data: data})
	})
}

// Deliver is Emit with a function that makes the notice. It is called only if a
// webhook wants the event.
func Deliver(tx *kv.Tx, owner record.ID, e Event, subject record.ID, tell func() (Notice, error)) error {
	all, err := Webhooks(tx, owner)
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
			if err != nil {
				return fmt.Errorf("event %s: %w", e, err)
			}
			notice, err = json.Marshal(n)
			if err != nil {
				return fmt.Errorf("event %s: %w", e, err)
			}
			id = tx.NewID()
			if err := tx.Put(noticeBucket, kv.OwnedKey(owner, id[:]...), notice); err != nil {
				return err
			}
		}
		d := &Delivery{
			ID: id, Hook: h.ID, Owner: owner, Subject: subject, Event: e,
			At: tx.Now, Size: int64(len(notice)), State: DeliveryWaits,
		}
		if err := enqueue(tx, h, d); err != nil {
			return err
		}
	}
	return nil
}

// queueFull is the log's text for a delivery that was parked because the queue was full.
var queueFull = "The queue of this webhook was full: it holds " + strconv.Itoa(maxQueued) + " deliveries and " +
	strconv.Itoa(maxQueuedBytes>>20) + " MiB, and then gives up the oldest for each new one."

// enqueue puts a delivery at the end of the webhook's queue. If the queue is full,
// it parks the oldest deliveries.
func enqueue(tx *kv.Tx, h *Webhook, d *Delivery) error {
	for {
		n := DeliveryRows.Sum(tx.Tx, kv.OwnedKey(h.ID, sumWaiting))
		if n == 0 || n < maxQueued && DeliveryRows.Sum(tx.Tx, kv.OwnedKey(h.ID, sumWaitBytes))+d.Size <= maxQueuedBytes {
			break
		}
		if err := parkOldest(tx, h); err != nil {
			return err
		}
	}
	if first(tx, h.ID, d.Subject) == nil {
		d.Due = tx.Store().MonotonicNow()
	}
	deliveriesDue.Raise(tx)
	return DeliveryRows.Put(tx.Tx, d)
}

func parkOldest(tx *kv.Tx, h *Webhook) error {
	key := oldest(tx, h.ID, logWaiting)
	if key == nil {
		return errors.New("the delivery counters are wrong")
	}
	oldest, err := DeliveryRows.Get(tx.Tx, key)
	if err != nil {
		return err
	}
	oldest.State, oldest.Due, oldest.Noted, oldest.Error = DeliveryParked, time.Time{}, tx.Now, queueFull
	if h.LastError != queueFull {
		h.LastError = queueFull
		if err := webhookRows.Put(tx.Tx, h); err != nil {
			return err
		}
	}
	return settle(tx, oldest)
}

// oldest is the key of the first delivery in a part of a webhook's log; nil if
// there is none.
func oldest(tx *kv.Tx, hook record.ID, part byte) []byte {
	for k := range tx.Walk(deliveryLog, kv.OwnedKey(hook, part), nil, false) {
		return kv.OwnedKey(hook, k[len(k)-16:]...)
	}
	return nil
}

// first is the key of the next delivery of a subject; nil if none is waiting.
func first(tx *kv.Tx, hook, subject record.ID) []byte {
	for k := range tx.Walk(deliveryLine, kv.OwnedKey(hook, subject[:]...), nil, false) {
		return kv.OwnedKey(hook, k[32:]...)
	}
	return nil
}

// misplaced reports whether a delivery is due although it is not the next of its
// subject, or the other way round.
func misplaced(tx *kv.Tx, d *Delivery) bool {
	next := d.State == DeliveryWaits && bytes.Equal(first(tx, d.Hook, d.Subject), DeliveryRows.Key(d))
	return next == d.Due.IsZero()
}

// settle stores a delivery that was due. If another one is next for its subject now,
// settle makes that one due. It also keeps the log within its bounds.
func settle(tx *kv.Tx, d *Delivery) error {
	if err := DeliveryRows.Put(tx.Tx, d); err != nil {
		return err
	}
	if key := first(tx, d.Hook, d.Subject); key != nil {
		next, err := DeliveryRows.Get(tx.Tx, key)
		if err != nil {
			return err
		}
		if next.Due.IsZero() {
			next.Due = tx.Store().MonotonicNow()
			deliveriesDue.Raise(tx)
			if err := DeliveryRows.Put(tx.Tx, next); err != nil {
				return err
			}
		}
		if next.ID != d.ID && d.State == DeliveryWaits && !d.Due.IsZero() { // an earlier one has been redelivered since
			d.Due = time.Time{}
			if err := DeliveryRows.Put(tx.Tx, d); err != nil {
				return err
			}
		}
	}
	for {
		n := DeliveryRows.Sum(tx.Tx, kv.OwnedKey(d.Hook, sumOver))
		if n <= LogLength && (n <= 1 || DeliveryRows.Sum(tx.Tx, kv.OwnedKey(d.Hook, sumOverBytes)) <= maxLogBytes) {
			return nil
		}
		if err := dropDelivery(tx, oldest(tx, d.Hook, logOver)); err != nil {
			return err
		}
	}
}

// dropDelivery deletes a delivery, and its notice if no other delivery carries it.
func dropDelivery(tx *kv.Tx, key []byte) error {
	d, err := DeliveryRows.Delete(tx.Tx, key)
	if err != nil || DeliveryRows.Sum(tx.Tx, telling(d.Owner, d.ID)) > 0 {
		return err
	}
	return tx.Delete(noticeBucket, noticeKey(d))
}

// deliveriesDue signals that a delivery may be due.
var deliveriesDue kv.Signal

// DueSignal delivers a value when a delivery may have become due since the last
// receive. It is for one reader.
func DueSignal(s *kv.Store) <-chan struct{} { return deliveriesDue.Of(s) }

// A Place names a delivery.
type Place struct{ Owner, Hook, ID record.ID }

func (p Place) key() []byte { return kv.OwnedKey(p.Hook, p.ID[:]...) }

// A Due names a delivery that is the next of its subject.
type Due struct {
	Place
	Subject record.ID
}

// DueDeliveries finds deliveries that are due, for each webhook the longest due
// first. room says how many more a webhook may be sent; it is called for every
// enabled webhook with waiting deliveries. busy says whether a delivery of the same
// subject is being sent. wait is as in findDue, or until a target is held no more.
func DueDeliveries(
	tx *kv.Tx, room func(*Webhook) int, busy func(Due) bool,
) (found []Due, wait time.Duration, err error) {
	now, held := tx.Store().MonotonicNow(), time.Duration(0)
	found, wait, err = findDue(tx, deliveryDue, nil, 32, func(hook []byte) (int, error) {
		h, err := webhookRows.Get(tx.Tx, hook)
		if err != nil { // must not hold up the others
			tx.Store().Log().Error("cannot read a webhook; nothing is sent to it", "webhook", record.ID(hook[16:]), "error", err)
			return -1, nil
		}
		if disabled, err := people.Disabled(tx, h.Owner); err != nil || disabled || !h.Enabled || !h.Paused.IsZero() {
			return -1, err
		}
		n := room(h)
		if left := h.Held.Sub(now); left > 0 {
			held = soonest(held, left)
			return -1, nil
		}
		return n, nil
	}, func(hook, ids []byte) (Due, bool) {
		t := Due{Place{record.ID(hook), record.ID(hook[16:]), record.ID(ids)}, record.ID(ids[16:])}
		return t, busy(t)
	})
	return found, soonest(wait, held), err
}

// soonest is the shorter of two waits, of which 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// Delivery reads a delivery and its notice.
func ReadDelivery(tx *kv.Tx, p Place) (*Delivery, *Notice, error) {
	d, err := DeliveryRows.Get(tx.Tx, p.key())
	if err != nil {
		return nil, nil, kv.UserError(err, "delivery")
	}
	if d.Owner != p.Owner {
		return nil, nil, record.NotFound("delivery")
	}
	n := new(Notice)
	if err := json.Unmarshal(tx.Get(noticeBucket, noticeKey(d)), n); err != nil {
		return nil, nil, fmt.Errorf("delivery %s: %w", d.ID, err)
	}
	return d, n, nil
}

// Tried records the result of sending a delivery. It does nothing if the delivery or
// its webhook is gone.
func Tried(tx *kv.Tx, p Place, t Try) error {
	monotonic := tx.Store().MonotonicNow()
	if err := note(tx, p.Owner, p.Hook, t, monotonic); err != nil {
		if kv.Missing(err) {
			return nil
		}
		return err
	}
	d, err := DeliveryRows.Get(tx.Tx, p.key())
	if errors.Is(err, table.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	d.Record(t, tx.Now, monotonic)
	return settle(tx, d)
}

func note(tx *kv.Tx, owner, hook record.ID, t Try, monotonic time.Time) error {
	h, err := ReadWebhook(tx, owner, hook)
	if err != nil {
		return err
	}
	if t.Error == "" && h.Failures > 0 { // deliveries that were held back may be sent
		deliveriesDue.Raise(tx)
	}
	h.Record(t, tx.Now, monotonic)
	return webhookRows.Put(tx.Tx, h)
}

// Tested records a delivery that was sent by hand, outside the queue.
func Tested(tx *kv.Tx, p Place, e Event, at time.Time, n Notice, t Try) error {
	if err := note(tx, p.Owner, p.Hook, t, tx.Store().MonotonicNow()); err != nil {
		return err
	}
	notice, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("event %s: %w", e, err)
	}
	d := &Delivery{
		ID: p.ID, Hook: p.Hook, Owner: p.Owner, Subject: p.Hook, Event: e, At: at, Size: int64(len(notice)),
		State: DeliveryParked,
	}
	d.Record(t, tx.Now, time.Time{})
	if err := tx.Put(noticeBucket, noticeKey(d), notice); err != nil {
		return err
	}
	return settle(tx, d)
}

// Redeliver queues a delivery to be sent again at once, with a full set of tries.
// Later ones of the same subject wait for it. It fails with Taken if the webhook is
// off or paused.
func Redeliver(tx *kv.Tx, p Place) error {
	h, err := ReadWebhook(tx, p.Owner, p.Hook)
	if err != nil {
		return err
	}
	if !h.Enabled || !h.Paused.IsZero() {
		text := "This webhook is off or paused. Turn it on, or test it, first."
		return &record.Error{Fault: record.Taken, Code: "webhook_off", Text: text}
	}
	d, _, err := ReadDelivery(tx, p)
	if err != nil {
		return err
	}
	before := first(tx, p.Hook, d.Subject)
	d.State, d.Due, d.Tries = DeliveryWaits, time.Time{}, 0
	if before == nil || string(before) >= string(p.key()) {
		d.Due = tx.Store().MonotonicNow()
		if before != nil && string(before) > string(p.key()) { // it has to wait now
			next, err := DeliveryRows.Get(tx.Tx, before)
			if err != nil {
				return err
			}
			next.Due = time.Time{}
			if err := DeliveryRows.Put(tx.Tx, next); err != nil {
				return err
			}
		}
	}
	deliveriesDue.Raise(tx)
	return DeliveryRows.Put(tx.Tx, d)
}

// DeliveryLog lists the latest deliveries of a webhook that were tried or
// given up, latest first: LogLength at most.
func DeliveryLog(tx *kv.Tx, hook record.ID) ([]Delivery, error) {
	var all []Delivery
	for _, part := range []byte{logOver, logRetried} {
		n := 0
		for k := range tx.Walk(deliveryLog, kv.OwnedKey(hook, part), nil, true) {
			n++
			if n > LogLength {
				break
			}
			d, err := DeliveryRows.Get(tx.Tx, kv.OwnedKey(hook, k[len(k)-16:]...))
			if err != nil {
				return nil, fmt.Errorf("log of webhook %s: %w", hook, err)
			}
			all = append(all, *d)
		}
	}
	slices.SortFunc(all, func(a, b Delivery) int {
		return cmp.Or(b.Noted.Compare(a.Noted), bytes.Compare(b.ID[:], a.ID[:]))
	})
	return all[:min(len(all), LogLength)], nil
}

// Queued is how many deliveries wait for the webhook.
func Queued(tx *kv.Tx, hook record.ID) int64 {
	return DeliveryRows.Sum(tx.Tx, kv.OwnedKey(hook, sumWaiting))
}
