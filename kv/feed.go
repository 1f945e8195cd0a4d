package kv

import (
	"encoding/binary"
	"fmt"
	"slices"

	"kist/kv/record"
	"kist/kv/workcopy"
)

// A Change is a place in the feed of changes, where the record was last written
// or was removed.
type Change struct {
	Seq    uint64
	Owner  record.ID
	Kind   *record.Kind
	ID     record.ID
	Record *record.Record // nil: it was removed
}

// changesVolume bounds the bytes of rows that Changes reads at once.
const changesVolume = 4 << 20

// Changes lists up to limit changes after the place since, in order, with the
// records as they are now. Each existing record occurs once, at the place of its
// latest change. It lists fewer, but at least one, when rows are large. An unreadable
// row counts as missing; Audit reports it.
func (tx *Tx) Changes(since uint64, limit int) ([]Change, error) {
	var all []Change
	volume := 0
	for k, v := range tx.Walk(ChangeBucket, nil, binary.BigEndian.AppendUint64(nil, since), false) {
		if len(all) == limit || volume > changesVolume {
			break
		}
		if len(k) != 8 || len(v) != record.KeySize || record.KindOf(v[16]) == nil {
			return nil, fmt.Errorf("change %x: damaged", k)
		}
		c := Change{
			Seq: binary.BigEndian.Uint64(k), Owner: record.ID(v[:16]),
			Kind: record.KindOf(v[16]), ID: record.ID(v[17:]),
		}
		if row := tx.Get(RecordBucket, v); row != nil {
			volume += len(row)
			if r, err := record.ParseRow(v, row); err == nil && r.Seq == c.Seq {
				c.Record = r
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// Latest returns the place of the latest change in the feed.
func (tx *Tx) Latest() uint64 {
	if v := tx.Get(workcopy.MetaBucket, MetaSeq); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// Trimmed returns a place in the feed. Marks of removals up to it may be gone, so a
// reader that stopped before it has to start again.
func (tx *Tx) Trimmed() uint64 {
	if v := tx.Get(workcopy.MetaBucket, MetaTrimmed); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// trimBatch is how many marks Trim removes in one transaction.
const trimBatch = 500

// Trim removes the marks of removals at the given places, which the reader of the
// feed no longer needs. It leaves places of existing records alone.
func (s *Store) Trim(places []uint64) error {
	for some := range slices.Chunk(places, trimBatch) {
		if err := s.Update(func(tx *Tx) error {
			before := tx.Trimmed()
			high := before
			for _, seq := range some {
				k := binary.BigEndian.AppendUint64(nil, seq)
				v := tx.Get(ChangeBucket, k)
				if v == nil || tx.Get(RecordBucket, v) != nil {
					continue
				}
				if err := tx.Delete(ChangeBucket, k); err != nil {
					return err
				}
				high = max(high, seq)
			}
			if high == before {
				return nil
			}
			return tx.Put(workcopy.MetaBucket, MetaTrimmed, binary.BigEndian.AppendUint64(nil, high))
		}); err != nil {
			return err
		}
	}
	return nil
}

// Changed receives a value after commits that made changes. Several commits are one
// value if nobody receives in between. It is for one reader.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Feed reads changes as Tx.Changes does. It also returns the latest place in the feed
// and the place of the last removed mark.
func (s *Store) Feed(since uint64, limit int) (some []Change, latest, trimmed uint64, err error) {
	err = s.View(func(tx *Tx) (err error) {
		latest, trimmed = tx.Latest(), tx.Trimmed()
		some, err = tx.Changes(since, limit)
		return err
	})
	return some, latest, trimmed, err
}
