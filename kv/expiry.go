package kv

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"kist/kv/record"
)

// endBatch is how many ends are told in one transaction, at most.
const endBatch = 100

// tellExpired is the Tick of records.
func (s *Store) tellExpired() {
	if err := s.emitExpired(); err != nil {
		s.log.Error("ends not told; they are tried again", "error", err)
	}
}

// emitExpired tells the webhooks of items that have expired since it last looked.
// What has expired is refused the instant it does; this is not what does it.
func (s *Store) emitExpired() error {
	for {
		due := false
		if err := s.View(func(tx *Tx) error {
			for range tx.expiredKeys() {
				due = true
				break
			}
			return nil
		}); err != nil || !due {
			return err
		}
		told := 0
		if err := s.Update(func(tx *Tx) error {
			var keys [][]byte
			for key := range tx.expiredKeys() {
				keys = append(keys, bytes.Clone(key))
			}
			for i := 0; i < len(keys) && tx.Volume() < maxVolume; i++ {
				mark := tx.Mark()
				err := tx.emitExpiry(keys[i])
				if err == nil {
					told++
					continue
				}
				s.log.Error("an end is not told", "error", err) // it must not hold up the others
				if err := tx.Undo(mark); err != nil {
					return err
				}
			}
			return nil
		}); err != nil || told == 0 {
			return err
		}
	}
}

// emitExpiry tells of the end of the record at key.
func (tx *Tx) emitExpiry(key []byte) error {
	r, err := records.Get(tx.Tx, key)
	if err != nil {
		return fmt.Errorf("record %x: %w", key, err)
	}
	if err := tx.emit(record.ItemExpired, r); err != nil {
		return err
	}
	r.Ended = true
	return tx.save(r)
}

// expiredKeys yields the keys of items that have expired and were not told of.
func (tx *Tx) expiredKeys() func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		n := 0
		for k := range tx.Walk(recordEnd, nil, nil, false) {
			if n++; n > endBatch || binary.BigEndian.Uint64(k) > signed(tx.Now) || !yield(k[8:]) {
				return
			}
		}
	}
}
