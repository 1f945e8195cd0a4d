package catalog

import (
	"errors"
	"fmt"
	"sync"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

const (
	reorderBatch = 200  // records in one transaction at most
	reorderFails = 1000 // unreadable records after which renewOrders leaves the rest to the next start
)

// A reordering is how far renewOrders has come since the store was opened.
type reordering struct {
	mu     sync.Mutex
	done   bool
	failed map[record.ID]bool // records that it cannot read
}

var reorderings kv.Slot[reordering]

// renewOrders gives records of former versions the present form of their sort key by title, some with each call. That
// is no change of the record. Nothing makes such keys later, so it is done when it has found the last one.
func renewOrders(s *kv.Store) {
	work := reorderings.Of(s)
	work.mu.Lock()
	defer work.mu.Unlock()
	if work.done {
		return
	}
	if work.failed == nil {
		work.failed = map[record.ID]bool{}
	}
	err := work.step(s)
	if err != nil {
		s.Log().Error("cannot renew the order of titles; will retry", "error", err)
	}
}

// step renews some records, or finds that there are none left.
func (work *reordering) step(s *kv.Store) error {
	keys, err := work.former(s)
	if err != nil {
		return err
	}
	if len(keys) == 0 || len(work.failed) > reorderFails {
		work.done = true
		return nil
	}
	return s.Update(func(tx *kv.Tx) error { return work.renew(s, tx, keys) })
}

// former are the keys of some records whose sort key is by a former rule. In each list these are the last ones.
func (work *reordering) former(s *kv.Store) (keys [][]byte, err error) {
	err = s.View(func(tx *kv.Tx) error {
		all, err := people.Users(tx)
		if err != nil {
			return err
		}
		for i := range all {
			for _, k := range record.Kinds {
				keys = work.appendFormer(keys, tx, all[i].ID, k)
			}
		}
		return nil
	})
	return keys, err
}

func (work *reordering) appendFormer(keys [][]byte, tx *kv.Tx, owner record.ID, k *record.Kind) [][]byte {
	prefix := append(kv.OwnedKey(owner, k.Code), byTitle)
	for entry := range tx.Walk(recordOrder, prefix, nil, true) {
		id := record.ID(entry[len(entry)-len(record.ID{}):])
		filed := record.Record{Order: string(entry[len(prefix) : len(entry)-len(id)-1])}
		if len(keys) == reorderBatch || filed.OrderedNow() {
			break
		}
		if !work.failed[id] {
			keys = append(keys, record.RowKey(owner, k, id))
		}
	}
	return keys
}

// renew gives records their present sort keys, until the transaction is large. It leaves out those that it cannot read.
func (work *reordering) renew(s *kv.Store, tx *kv.Tx, keys [][]byte) error {
	for _, key := range keys {
		if tx.Volume() >= kv.MaxVolume {
			break
		}
		r, err := reordered(tx, key)
		if errors.Is(err, table.ErrMissing) { // it was deleted meanwhile
			continue
		}
		if err != nil {
			_, _, id := record.SplitKey(key)
			s.Log().Error("cannot renew the place of a record in lists by title", "error", err)
			work.failed[id] = true
			continue
		}
		if err := RecordRows.Put(tx.Tx, r); err != nil {
			return err
		}
	}
	rankCache.Drop(tx)
	return nil
}

// reordered reads a record and sets its sort key.
func reordered(tx *kv.Tx, key []byte) (*record.Record, error) {
	r, err := RecordRows.Get(tx.Tx, key)
	if err != nil {
		return nil, fmt.Errorf("record %x: %w", key, err)
	}
	return r, r.Reorder()
}
