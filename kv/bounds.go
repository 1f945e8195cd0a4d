package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// Bounds for each owner, so that no account makes the store slow for everyone.
const (
	maxEach    = 200       // each of API keys, folders and upload requests
	maxRecords = 1_000_000 // records of all kinds together

	// MaxSessions bounds the browsers signed in to one account. A further sign-in
	// signs out the one that was used longest ago.
	MaxSessions = 200
)

// TooMany is the error for an owner who has reached a limit. what names the things in
// the plural.
func TooMany(what, code string, limit int64) error {
	text := fmt.Sprintf("You have %d %s already, and more are not possible. Delete some first.", limit, what)
	return &record.Error{Fault: record.Denied, Code: code, Text: text}
}

// CheckBound refuses another row when the owner already has maxEach. It reads at most
// maxEach keys.
func (tx *Tx) CheckBound(b table.Bucket, owner record.ID, what, code string) error {
	n := int64(0)
	for range tx.Walk(b, owner[:], nil, false) {
		n++
		if n >= tx.s.most.Each {
			return TooMany(what, code, n)
		}
	}
	return nil
}

// Bounds are maxEach (also used for MaxSessions) and maxRecords; tests lower them.
type Bounds struct{ Each, Records int64 }

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
func TextsMark(seq, instant []byte) []byte {
	return slices.Concat(seq, instant, []byte{2}) // 2: tables that count since 2026-11-23
}

// textsHold reports whether the sums of text match the present rows.
func (tx *Tx) textsHold() bool {
	at := tx.Get(workcopy.MetaBucket, MetaTexts)
	now := TextsMark(tx.Get(workcopy.MetaBucket, MetaSeq), tx.Get(workcopy.MetaBucket, MetaInstant))
	return at != nil && bytes.Equal(at, now)
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
