package catalog

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"kist/kv"
	"kist/kv/jobs"
)

// endBatch is how many expired items one transaction reports at most.
const endBatch = 100

// tellExpired reports what has expired.
func tellExpired(s *kv.Store) {
	if err := emitExpired(s); err != nil {
		s.Log().Error("cannot report expired items; will retry", "error", err)
	}
}

// emitExpired sends webhook events for items that have expired since the last call, and deletes those whose owner wants
// that. It does not enforce expiry: expired items are refused from that instant anyway.
func emitExpired(s *kv.Store) error {
	for {
		due := false
		if err := s.View(func(tx *kv.Tx) error {
			for range expiredKeys(tx) {
				due = true
				break
			}
			return nil
		}); err != nil || !due {
			return err
		}

		told := 0
		if err := s.Update(func(tx *kv.Tx) error {
			var keys [][]byte
			for key := range expiredKeys(tx) {
				keys = append(keys, bytes.Clone(key))
			}
			for i := 0; i < len(keys) && tx.Volume() < kv.MaxVolume; i++ {
				mark := tx.Mark()
				if err := emitExpiry(tx, keys[i]); err != nil {
					s.Log().Error("cannot report an expired item", "error", err) // it must not hold up the others
					if err := tx.Undo(mark); err != nil {
						return err
					}
					continue
				}
				told++
			}
			return nil
		}); err != nil || told == 0 {
			return err
		}
	}
}

// emitExpiry sends the event for the expired record at key, and deletes it if its owner wants that.
func emitExpiry(tx *kv.Tx, key []byte) error {
	r, err := RecordRows.Get(tx.Tx, key)
	if err != nil {
		return fmt.Errorf("record %x: %w", key, err)
	}
	if err := emit(tx, jobs.ItemExpired, r); err != nil {
		return err
	}
	if r.EndDeletes {
		return Remove(tx, r)
	}
	r.Ended = true
	return save(tx, r)
}

// expiredKeys yields the keys of expired items that were not reported yet.
func expiredKeys(tx *kv.Tx) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		n := 0
		for k := range tx.Walk(recordEnd, nil, nil, false) {
			n++
			if n > endBatch || binary.BigEndian.Uint64(k) > kv.Signed(tx.Now) || !yield(k[8:]) {
				return
			}
		}
	}
}
