package jobs

import (
	"net/http"
	"time"

	"kist/kv/record"
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
var tries = []time.Duration{0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, maxRetry}

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
