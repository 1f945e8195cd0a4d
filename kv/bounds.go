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

// TooMany refuses one more of what an owner has as many of as allowed. what is in the
// plural; code ends the code of the error.
func TooMany(what, code string, limit int64) error {
	return &record.Error{Fault: record.Denied, Code: "too_many_" + code, Text: fmt.Sprintf("You have %d %s already, and more are not possible. Delete some first.", limit, what)}
}

// CheckBound refuses a row of the owner's beyond MaxEach. It reads no more keys
// than that.
func (tx *Tx) CheckBound(b table.Bucket, owner record.ID, what, code string) error {
	n := int64(0)
	for range tx.Walk(b, owner[:], nil, false) {
		if n++; n >= tx.s.most.Each {
			return TooMany(what, code, n)
		}
	}
	return nil
}

// Bounds are MaxEach (and MaxSessions) and MaxRecords, but for tests.
type Bounds struct{ Each, Records int64 }

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

// MayWrite refuses records while their owner has had too much written.
func (tx *Tx) MayWrite(owner record.ID) error {
	if wait := tx.s.writes.wait(owner, tx.Now); wait > 0 {
		return &record.Error{Fault: record.TooMany, Code: "too_many_writes", Text: "Too much was written for this account in the last hour. Try again later.", Retry: wait}
	}
	return nil
}

// The text of an owner is the length of the stored rows of their records and tags,
// of those of the files that came in by their upload requests, and what was said
// of uploads that are not done. The sum is kept in meta, as a new bucket or a new
// sum over records would be a new format. Programs that do not know the sums leave
// them as they are, and older ones sum up records alone, so metaTexts has what
// only this program writes: the number of the feed and the instant of the latest
// commit. If it is anything else, the sums are made again at the next start.

// textOf is the key of the sum of the owner's text.
func textOf(owner record.ID) []byte { return append(bytes.Clone(metaText), owner[:]...) }

// TextSum says for the Bytes of a table that n bytes are text of the owner's.
func TextSum(owner record.ID, n int) (table.Bucket, []byte, int) {
	return workcopy.MetaBucket, textOf(owner), n
}

// Text is how many bytes of text the owner has.
func (tx *Tx) Text(owner record.ID) int64 { return tx.Sum(workcopy.MetaBucket, textOf(owner)) }

// TextsMark is what metaTexts is after a commit that leaves the sums right, given
// what metaSeq and metaInstant are.
func TextsMark(seq, instant []byte) []byte { return slices.Concat(seq, instant) }

// textsHold reports whether the sums of text belong to the rows as they are.
func (tx *Tx) textsHold() bool {
	at := tx.Get(workcopy.MetaBucket, MetaTexts)
	return at != nil && bytes.Equal(at, TextsMark(tx.Get(workcopy.MetaBucket, MetaSeq), tx.Get(workcopy.MetaBucket, MetaInstant)))
}

// texts sums the text of each owner up from the rows.
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

// RowText is the Text of a table whose rows count as they are stored.
func RowText(b table.Bucket) func(*Tx, func(record.ID, int64)) {
	return func(tx *Tx, add func(record.ID, int64)) {
		for k, row := range tx.Walk(b, nil, nil, false) {
			if len(k) >= 16 {
				add(record.ID(k[:16]), int64(len(row)))
			}
		}
	}
}

// sumTexts makes the sums of text again.
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
	if !tx.textsHold() { // the next start makes them
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
