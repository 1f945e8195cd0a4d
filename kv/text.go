package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"kist/kv/record"
)

// The text of an owner is the length of the stored rows of their records. The
// sum is kept in meta, as a new bucket or a new sum over records would be a new
// format. Programs that do not know the sums leave them as they are, so metaTexts
// says which number of the feed they belong to: every change of a record takes a
// new number. If it is not the latest, the sums are made again at the next start.

// textOf is the key of the sum of the owner's text.
func textOf(owner record.ID) []byte { return append(bytes.Clone(metaText), owner[:]...) }

// text is how many bytes the stored rows of the owner's records have.
func (tx *Tx) text(owner record.ID) int64 { return tx.Sum(metaBucket, textOf(owner)) }

// textsHold reports whether the sums of text belong to the records as they are.
func (tx *Tx) textsHold() bool {
	at := tx.Get(metaBucket, metaTexts)
	return at != nil && bytes.Equal(at, tx.Get(metaBucket, metaSeq))
}

// texts sums the text of each owner up from the rows.
func (tx *Tx) texts() map[record.ID]int64 {
	all := map[record.ID]int64{}
	for k, row := range tx.Walk(recordBucket, nil, nil, false) {
		if len(k) >= 16 {
			all[record.ID(k[:16])] += int64(len(row))
		}
	}
	return all
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
