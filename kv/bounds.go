package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// Bounds for each owner, so that no account makes the store slow for everyone.
const (
	MaxEach    = 200       // each of API keys, folders and upload requests
	MaxRecords = 1_000_000 // records of all kinds together

	// MaxSessions bounds the browsers signed in to one account. A further sign-in
	// signs out the one that was used longest ago.
	MaxSessions = 200

	// WritesPerHour is the default of Options.WritesPerHour.
	WritesPerHour = 4 << 30
)

// TooMany is the error for an owner who has reached a limit. what names the things in
// the plural.
func TooMany(what, code string, limit int64) error {
	return &record.Error{Fault: record.Denied, Code: code, Text: fmt.Sprintf("You have %d %s already, and more are not possible. Delete some first.", limit, what)}
}

// CheckBound refuses another row when the owner already has MaxEach. It reads at most
// MaxEach keys.
func (tx *Tx) CheckBound(b table.Bucket, owner record.ID, what, code string) error {
	n := int64(0)
	for range tx.Walk(b, owner[:], nil, false) {
		if n++; n >= tx.s.most.Each {
			return TooMany(what, code, n)
		}
	}
	return nil
}

// Bounds are MaxEach (also used for MaxSessions) and MaxRecords; tests lower them.
type Bounds struct{ Each, Records int64 }

// writes counts how much was recently written to the journal for each owner. The
// counts end with the process.
type writes struct {
	perHour int64

	mu sync.Mutex
	of map[record.ID]spending
}

// spending is a count of bytes that drains evenly, by perHour in an hour.
type spending struct {
	bytes float64
	at    time.Time
}

func (w *writes) now(owner record.ID, now time.Time) float64 {
	got := w.of[owner]
	return max(0, got.bytes-max(0, now.Sub(got.at).Hours())*float64(w.perHour)) // the clock can be set back
}

// add counts the bytes that a commit wrote.
func (w *writes) add(owner record.ID, bytes int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[record.ID]spending{}
	}
	w.of[owner] = spending{w.now(owner, now) + float64(bytes), now}
}

// setBack is called when the clock was ahead and has been set back to now. Bytes
// counted while it was ahead start draining now.
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

// wait is how long the owner has to wait before writing more; 0 means not at all.
func (w *writes) wait(owner record.ID, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes, limit := w.now(owner, now), float64(w.perHour)
	if w.perHour == 0 || bytes < limit {
		return 0
	}
	return max(time.Second, time.Duration((bytes-limit)/limit*float64(time.Hour)))
}

// MayWrite refuses writes while too much was recently written for their owner.
func (tx *Tx) MayWrite(owner record.ID) error { return tx.s.writes.allow(owner, tx.Now) }

// MayWrite is Tx.MayWrite for a check before a transaction.
func (s *Store) MayWrite(owner record.ID) error { return s.writes.allow(owner, s.Now()) }

func (w *writes) allow(owner record.ID, now time.Time) error {
	if wait := w.wait(owner, now); wait > 0 {
		return &record.Error{Fault: record.TooMany, Code: "too_many_writes", Text: "Too much was written for this account in the last hour. Try again " + record.In(wait) + ".", Retry: wait}
	}
	return nil
}

// An owner's text is the total length of the stored rows of their records, tags and
// files received through upload requests, plus the metadata of unfinished uploads.
// The sum is kept in meta, because a new bucket or a new sum over records would be a
// new format. Older programs leave the sums as they are or count only records. So
// MetaTexts holds a value that only this program writes: the feed number and instant
// of the latest commit. If it differs, the next start computes the sums again.

// textOf is the key of an owner's sum of text.
func textOf(owner record.ID) []byte { return append(bytes.Clone(metaText), owner[:]...) }

// TextSum is what the Bytes function of a table returns for n bytes of the owner's text.
func TextSum(owner record.ID, n int) (table.Bucket, []byte, int) {
	return workcopy.MetaBucket, textOf(owner), n
}

// Text returns how many bytes of text the owner has.
func (tx *Tx) Text(owner record.ID) int64 { return tx.Sum(workcopy.MetaBucket, textOf(owner)) }

// TextsMark is the value of MetaTexts after a commit that keeps the sums correct,
// given the values of MetaSeq and MetaInstant.
func TextsMark(seq, instant []byte) []byte { return slices.Concat(seq, instant, []byte{2}) } // 2: tables that count since 2026-11-23

// textsHold reports whether the sums of text match the present rows.
func (tx *Tx) textsHold() bool {
	at := tx.Get(workcopy.MetaBucket, MetaTexts)
	return at != nil && bytes.Equal(at, TextsMark(tx.Get(workcopy.MetaBucket, MetaSeq), tx.Get(workcopy.MetaBucket, MetaInstant)))
}

// texts adds up each owner's text from the rows.
func (tx *Tx) texts() map[record.ID]int64 {
	all := map[record.ID]int64{}
	for _, t := range tx.s.schema.Tables {
		if t.Text != nil {
			t.Text(tx, func(owner record.ID, n int64) {
				if n > 0 {
					all[owner] += n
				}
			})
		}
	}
	return all
}

// RowText is the Text function of a table whose rows count with their stored length.
func RowText(b table.Bucket) func(*Tx, func(record.ID, int64)) {
	return func(tx *Tx, add func(record.ID, int64)) {
		for k, row := range tx.Walk(b, nil, nil, false) {
			if len(k) >= 16 {
				add(record.ID(k[:16]), int64(len(row)))
			}
		}
	}
}

// sumTexts computes the sums of text from scratch.
func (tx *Tx) sumTexts() error {
	all := tx.texts()
	var gone [][]byte
	for k := range tx.Walk(workcopy.MetaBucket, metaText, nil, false) {
		if id := k[len(metaText):]; len(id) != 16 || all[record.ID(id)] == 0 {
			gone = append(gone, bytes.Clone(k))
		}
	}
	for _, k := range gone {
		if err := tx.Delete(workcopy.MetaBucket, k); err != nil {
			return err
		}
	}
	for owner, n := range all {
		if err := tx.Put(workcopy.MetaBucket, textOf(owner), binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
			return err
		}
	}
	return nil
}

// checkTexts compares the sums of text with the rows.
func (tx *Tx) checkTexts(problem func(error)) {
	if !tx.textsHold() { // the next start computes them
		return
	}
	all := tx.texts()
	for k := range tx.Walk(workcopy.MetaBucket, metaText, nil, false) {
		if id := k[len(metaText):]; len(id) != 16 || all[record.ID(id)] == 0 {
			problem(fmt.Errorf("%s %q sums up the text of nobody", workcopy.MetaBucket.Name, k))
		}
	}
	for owner, n := range all {
		if got := tx.Text(owner); got != n {
			problem(fmt.Errorf("the text of %s is summed up to %d bytes and should be %d", owner, got, n))
		}
	}
}
