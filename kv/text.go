package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"kist/kv/record"
	"kist/kv/table"
)

// The text of an owner is the length of the stored rows of their records and tags,
// of those of the files that came in by their upload requests, and what was said
// of uploads that are not done. The sum is kept in meta, as a new bucket or a new
// sum over records would be a new format. Programs that do not know the sums leave
// them as they are, and older ones sum up records alone, so metaTexts has what
// only this program writes: the number of the feed and the instant of the latest
// commit. If it is anything else, the sums are made again at the next start.

// textOf is the key of the sum of the owner's text.
func textOf(owner record.ID) []byte { return append(bytes.Clone(metaText), owner[:]...) }

// textSum says for the Bytes of a table that n bytes are text of the owner's.
func textSum(owner record.ID, n int) (table.Bucket, []byte, int) {
	return metaBucket, textOf(owner), n
}

// text is how many bytes of text the owner has.
func (tx *Tx) text(owner record.ID) int64 { return tx.Sum(metaBucket, textOf(owner)) }

// textsMark is what metaTexts is after a commit that leaves the sums right, given
// what metaSeq and metaInstant are.
func textsMark(seq, instant []byte) []byte { return slices.Concat(seq, instant) }

// textsHold reports whether the sums of text belong to the rows as they are.
func (tx *Tx) textsHold() bool {
	at := tx.Get(metaBucket, metaTexts)
	return at != nil && bytes.Equal(at, textsMark(tx.Get(metaBucket, metaSeq), tx.Get(metaBucket, metaInstant)))
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

// rowText is the Text of a table whose rows count as they are stored.
func rowText(b table.Bucket) func(*Tx, func(record.ID, int64)) {
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
	for k := range tx.Walk(metaBucket, metaText, nil, false) {
		if id := k[len(metaText):]; len(id) != 16 || all[record.ID(id)] == 0 {
			gone = append(gone, bytes.Clone(k))
		}
	}
	for _, k := range gone {
		if err := tx.Delete(metaBucket, k); err != nil {
			return err
		}
	}
	for owner, n := range all {
		if err := tx.Put(metaBucket, textOf(owner), binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
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
	for k := range tx.Walk(metaBucket, metaText, nil, false) {
		if id := k[len(metaText):]; len(id) != 16 || all[record.ID(id)] == 0 {
			problem(fmt.Errorf("%s %q sums up the text of nobody", metaBucket.Name, k))
		}
	}
	for owner, n := range all {
		if got := tx.text(owner); got != n {
			problem(fmt.Errorf("the text of %s is summed up to %d bytes and should be %d", owner, got, n))
		}
	}
}
