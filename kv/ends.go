package kv

import (
	"bytes"
	"encoding/binary"

	"kist/kv/record"
)

// endBatch is how many ends are told in one transaction.
const endBatch = 100

// tellEnds tells the webhooks of items that have expired since it last looked.
// What has expired is refused the instant it does; this is not what does it.
func (s *Store) tellEnds() error {
	for {
		var due int
		if err := s.View(func(tx *Tx) error {
			for range tx.ended() {
				due++
			}
			return nil
		}); err != nil || due == 0 {
			return err
		}
		told := 0
		if err := s.Update(func(tx *Tx) error {
			var keys [][]byte
			for key := range tx.ended() {
				keys = append(keys, bytes.Clone(key))
			}
			for _, key := range keys {
				r, err := records.Get(tx.Tx, key)
				if err != nil { // must not hold up the others
					s.log.Error("an end is not told", "error", err)
					continue
				}
				if err := tx.emit(record.ItemExpired, r); err != nil {
					return err
				}
				r.Ended = true
				if err := tx.save(r); err != nil {
					return err
				}
				told++
			}
			return nil
		}); err != nil {
			return err
		}
		if due < endBatch || told == 0 {
			return nil
		}
	}
}

// ended yields the keys of items that have expired and were not told of.
func (tx *Tx) ended() func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		n := 0
		for k := range tx.Walk(recordEnd, nil, nil, false) {
			if n++; n > endBatch || binary.BigEndian.Uint64(k) > signed(tx.Now) || !yield(k[8:]) {
				return
			}
		}
	}
}
