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

func tooMany(what, code string, most int64) error {
	return &record.Error{Fault: record.Denied, Code: "too_many_" + code, Text: fmt.Sprintf("You have %d %s already, and more are not possible. Delete some first.", most, what)}
}

// roomForRecord refuses a record beyond MaxRecords.
func (tx *Tx) roomForRecord(owner record.ID) error {
	n := int64(0)
	for _, k := range record.Kinds {
		n += records.Sum(tx.Tx, pair(owner, k.Code))
	}
	if most := tx.s.most.records; n >= most {
		return tooMany("items", "items", most)
	}
	return nil
}

// roomIn refuses a row of the owner's beyond MaxEach. It reads no more keys
// than that.
func (tx *Tx) roomIn(b table.Bucket, owner record.ID, what, code string) error {
	n := int64(0)
	for range tx.Walk(b, owner[:], nil, false) {
		if n++; n >= tx.s.most.each {
			return tooMany(what, code, n)
		}
	}
	return nil
}

// roomForKey refuses an API key beyond MaxEach, and ends the session that was
// used longest ago where one more would be beyond MaxSessions.
func (tx *Tx) roomForKey(k *record.Key) error {
	all, err := tx.credentials(k.Owner[:], k.Session)
	if err != nil || int64(len(all)) < tx.s.most.each {
		return err
	}
	if !k.Session {
		return tooMany("API keys", "keys", int64(len(all)))
	}
	oldest := &all[0]
	for i := range all {
		if all[i].LastUsed.Before(oldest.LastUsed) {
			oldest = &all[i]
		}
	}
	return tx.RemoveKey(k.Owner, oldest.ID)
}

// bounds are MaxEach (and MaxSessions) and MaxRecords, but for tests.
type bounds struct{ each, records int64 }

// writes is how much each owner has had written to the journal of late. It is
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
	is := w.of[owner]
	return max(0, is.bytes-max(0, now.Sub(is.at).Hours())*float64(w.perHour)) // a clock may be set back
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
	for owner, is := range w.of {
		if is.at.After(now) {
			is.at = now
			w.of[owner] = is
		}
	}
}

// wait is how long the owner has to wait before more is written; 0 if not at
// all.
func (w *writes) wait(owner record.ID, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes, most := w.now(owner, now), float64(w.perHour)
	if w.perHour == 0 || bytes < most {
		return 0
	}
	return max(time.Second, time.Duration((bytes-most)/most*float64(time.Hour)))
}

// mayWrite refuses records while their owner has had too much written.
func (tx *Tx) mayWrite(owner record.ID) error {
	if wait := tx.s.writes.wait(owner, tx.Now); wait > 0 {
		return &record.Error{Fault: record.TooMany, Code: "too_many_writes", Text: "Too much was written for this account in the last hour. Try again later.", Retry: wait}
	}
	return nil
}

// ofOwner are the buckets whose keys begin with the id of an owner, which pays
// for what is written to them.
var ofOwner = func() (all [table.MaxBucket + 1]bool) {
	for _, b := range []table.Bucket{
		keyBucket, recordBucket, recordLabel, recordOrder, tagBucket, tagName, folderBucket, folderName, hookBucket, answerBucket, noticeBucket,
		requestBucket, itemBucket, uploadBucket, importBucket, importRemarks, fetchBucket, pageBucket,
	} {
		all[b.No] = true
	}
	return all
}()
