package kv

import (
	"fmt"
	"sync"
	"time"

	"kist/kv/record"
	"kist/kv/table"
)

// What one owner may have, so that no account makes the store slow for all.
const (
	MaxEach    = 200       // API keys, folders and upload requests, of each
	MaxRecords = 1_000_000 // of all kinds

	// MaxSessions is how many browsers are signed in to an account. One more
	// signs the one out that was used longest ago.
	MaxSessions = 200

	// WritesPerHour is the default of Options.WritesPerHour.
	WritesPerHour = 4 << 30
)

func tooMany(what, code string, limit int64) error {
	return &record.Error{Fault: record.Denied, Code: "too_many_" + code, Text: fmt.Sprintf("You have %d %s already, and more are not possible. Delete some first.", limit, what)}
}

// checkBound refuses a row of the owner's beyond MaxEach. It reads no more keys
// than that.
func (tx *Tx) checkBound(b table.Bucket, owner record.ID, what, code string) error {
	n := int64(0)
	for range tx.Walk(b, owner[:], nil, false) {
		if n++; n >= tx.s.most.each {
			return tooMany(what, code, n)
		}
	}
	return nil
}

// bounds are MaxEach (and MaxSessions) and MaxRecords, but for tests.
type bounds struct{ each, records int64 }

// writes is how much each owner has had written to the journal recently. It is
// forgotten when the process ends.
type writes struct {
	perHour int64

	mu sync.Mutex
	of map[record.ID]spending
}

// spending counts bytes, of which perHour are forgotten in an hour, evenly.
type spending struct {
	bytes float64
	at    time.Time
}

func (w *writes) now(owner record.ID, now time.Time) float64 {
	got := w.of[owner]
	return max(0, got.bytes-max(0, now.Sub(got.at).Hours())*float64(w.perHour)) // a clock may be set back
}

// add counts what a commit has written.
func (w *writes) add(owner record.ID, bytes int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[record.ID]spending{}
	}
	w.of[owner] = spending{w.now(owner, now) + float64(bytes), now}
}

// setBack is called when the clock was ahead and has been set back to now:
// bytes that were counted then are forgotten from now on.
func (w *writes) setBack(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for owner, got := range w.of {
		if got.at.After(now) {
			got.at = now
			w.of[owner] = got
		}
	}
}

// wait is how long the owner has to wait before more is written; 0 if not at
// all.
func (w *writes) wait(owner record.ID, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes, limit := w.now(owner, now), float64(w.perHour)
	if w.perHour == 0 || bytes < limit {
		return 0
	}
	return max(time.Second, time.Duration((bytes-limit)/limit*float64(time.Hour)))
}

// mayWrite refuses records while their owner has had too much written.
func (tx *Tx) mayWrite(owner record.ID) error {
	if wait := tx.s.writes.wait(owner, tx.Now); wait > 0 {
		return &record.Error{Fault: record.TooMany, Code: "too_many_writes", Text: "Too much was written for this account in the last hour. Try again later.", Retry: wait}
	}
	return nil
}
