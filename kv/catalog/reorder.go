package catalog

import (
	"errors"
	"sync/atomic"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// The work of renewOrders: records in one transaction, and transactions a second.
const (
	reorderBatch = 200
	reorderTimes = 10
)

// ordersNow says that no list by title has a key by a former rule.
var ordersNow kv.Slot[atomic.Bool]

// renewOrders gives records of former versions the present form of their sort key by title, some each second. That is
// no change of the record. It looks once after a start: nothing makes such keys later, except that a record comes back
// from the trash, which waits for the next start.
func renewOrders(s *kv.Store) {
	done := ordersNow.Of(s)
	for n := 0; n < reorderTimes && !done.Load(); n++ {
		keys, err := formerOrders(s)
		if err == nil && len(keys) > 0 {
			err = s.Update(func(tx *kv.Tx) error { return reorder(tx, keys) })
		}
		if err != nil {
			s.Log().Error("cannot renew the order of titles; the next start tries again", "error", err)
		}
		done.Store(err != nil || len(keys) == 0)
	}
}

// formerOrders are the keys of some records whose sort key is by a former rule. In each list these are the last ones.
func formerOrders(s *kv.Store) (keys [][]byte, err error) {
	err = s.View(func(tx *kv.Tx) error {
		all, err := people.Users(tx)
		if err != nil {
			return err
		}
		for i := range all {
			for _, k := range record.Kinds {
				keys = appendFormer(keys, tx, all[i].ID, k)
			}
		}
		return nil
	})
	return keys, err
}

func appendFormer(keys [][]byte, tx *kv.Tx, owner record.ID, k *record.Kind) [][]byte {
	prefix := append(kv.OwnedKey(owner, k.Code), byTitle)
	for entry := range tx.Walk(recordOrder, prefix, nil, true) {
		id := record.ID(entry[len(entry)-len(record.ID{}):])
		filed := record.Record{Order: string(entry[len(prefix) : len(entry)-len(id)-1])}
		if len(keys) == reorderBatch || filed.OrderedNow() {
			break
		}
		keys = append(keys, record.RowKey(owner, k, id))
	}
	return keys
}

// reorder renews the sort keys of records.
func reorder(tx *kv.Tx, keys [][]byte) error {
	for _, key := range keys {
		r, err := RecordRows.Get(tx.Tx, key)
		if errors.Is(err, table.ErrMissing) {
			continue
		}
		if err != nil {
			return err
		}
		if err := r.Reorder(); err != nil {
			return err
		}
		if err := RecordRows.Put(tx.Tx, r); err != nil {
			return err
		}
	}
	rankCache.Drop(tx)
	return nil
}
