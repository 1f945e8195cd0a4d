package record

import (
	"net/http"
	"time"
)

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
	if t.hold() > 0 && d.State == Waiting && now.Sub(d.At) < pauseAfter {
		d.Due = monotonic.Add(t.hold())
		return
	}

	d.Tries++
	switch {
	case t.Error == "":
		d.State = Done
	case d.State == Waiting && d.Tries >= len(tries):
		d.State = Parked
	case d.State == Waiting:
		d.Due = monotonic.Add(max(tries[d.Tries], min(t.Wait, maxWait)))
	}
}

// Record records the result of a try.
func (w *Webhook) Record(t Try, now, monotonic time.Time) {
	w.Forget(now)
	w.LastStatus, w.LastError, w.LastTried, w.LastTook = t.Status, t.Error, now, t.Took
	if held := monotonic.Add(t.hold()); held.After(w.Held) {
		w.Held = held
	}
	if t.Error == "" {
		w.LastDelivered = now
		w.Resume()
		return
	}
	if w.Failures++; w.Failing.IsZero() || monotonic.Sub(w.Tried) > maxGap {
		w.Failing = monotonic // an old failure says nothing about the time since
	}
	w.Tried = monotonic
	if w.Paused.IsZero() && monotonic.Sub(w.Failing) >= pauseAfter {
		w.Paused = now
	}
}

// Resume ends a pause and forgets failures.
func (w *Webhook) Resume() {
	w.Failures, w.Failing, w.Paused = 0, time.Time{}, time.Time{}
}
