package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"kist/kv/record"
	"kist/kv/table"
)

// viewTable is the counters of views, of records and of upload requests, which
// bring them over in a repair.
var viewTable = Table{
	Buckets: []table.Bucket{viewBucket},
	Check: func(a *Audit) {
		if n := a.Count(viewBucket) - a.owed[viewBucket]; n != 0 {
			a.Say("%d counters of views belong to no item", n)
		}
		delete(a.owed, viewBucket)
	},
	Flush: flushViews,
}

// flushViews takes the views that are counted in memory.
func flushViews(s *Store) (write func(*Tx) error, giveBack func()) {
	s.pending.Lock()
	defer s.pending.Unlock()
	views := s.pending.views
	s.pending.views = nil
	if len(views) == 0 {
		return nil, nil
	}
	return func(tx *Tx) error {
			for key, n := range views {
				if key[len(record.ID{})] == 0 { // kind 0 means none
					if err := tx.countRequest(key[:], n); err != nil {
						return err
					}
					continue
				}
				r, err := records.Get(tx.Tx, key[:])
				if errors.Is(err, table.ErrMissing) {
					continue // removed meanwhile
				}
				if err != nil { // must not hold up the others' counts
					s.log.Error("views not counted", "views", n, "error", err)
					continue
				}
				if err := tx.count(r, n); err != nil {
					return err
				}
			}
			return nil
		}, func() {
			s.pending.Lock()
			defer s.pending.Unlock()
			for key, n := range views {
				s.pending.view(key, n)
			}
		}
}

// refillViews copies the counter of a record or an upload request.
func refillViews(r *Refill, id record.ID) error {
	if n := r.Before.Get(viewBucket, id[:]); n != nil {
		return r.Put(viewBucket, bytes.Clone(id[:]), bytes.Clone(n))
	}
	return nil
}

// views is a record's counter: all views, and those against its limit.
type views struct{ total, used int64 }

func (v views) row() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(v.total)), uint64(v.used))
}

func (tx *Tx) views(r *record.Record) views { return tx.viewsOf(r.ID) }

func (tx *Tx) viewsOf(id record.ID) views {
	if b := tx.Get(viewBucket, id[:]); len(b) == 16 {
		return views{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
	}
	return views{}
}

// Used is how many views have counted against the record's limit.
func (tx *Tx) Used(r *record.Record) int64 { return tx.views(r).used }

func (tx *Tx) setViews(r *record.Record, before, got views) error {
	return errors.Join(
		tx.Delete(recordOrder, viewOrder(r, before.total)),
		tx.Put(recordOrder, viewOrder(r, got.total), nil),
		tx.Put(viewBucket, r.ID[:], got.row()),
	)
}

// count adds n views that were counted in memory, which is where an item
// without a limit counts: if it has one by now, they came before it.
func (tx *Tx) count(r *record.Record, n int64) error {
	before := tx.views(r)
	return tx.setViews(r, before, views{before.total + n, before.used})
}

// countRequest adds views that were counted in memory; key is the request's.
func (tx *Tx) countRequest(key []byte, n int64) error {
	if tx.Get(requestBucket, key) == nil {
		return nil // removed meanwhile
	}
	id := key[len(key)-len(record.ID{}):]
	before := tx.viewsOf(record.ID(id))
	return tx.Put(viewBucket, bytes.Clone(id), views{before.total + n, before.used}.row())
}

// Seen counts one view of an item by someone other than its owner and says
// whether it may be delivered: nil, Missing or Gone. For an item with a limit
// the count, and the action if this was the last view, are on the disk when
// Seen returns; otherwise the count is written within a second. r is as the
// caller read it; what decides is the record as it is now.
func (s *Store) Seen(r *record.Record) error {
	if r.Limit == 0 {
		s.pending.Lock()
		s.pending.view([record.KeySize]byte(r.Key()), 1)
		s.pending.Unlock()
		return nil
	}
	var verdict error
	err := s.Update(func(tx *Tx) error {
		now, err := records.Get(tx.Tx, r.Key())
		if err != nil {
			return userError(err, "item")
		}
		if err := now.Open(tx.Now); err != nil {
			return err
		}
		before := tx.views(now)
		used, due, err := now.Spend(before.used)
		if verdict = err; err == nil {
			if err := tx.setViews(now, before, views{before.total + 1, used}); err != nil {
				return err
			}
		}
		if due {
			return tx.limitReached(now)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return verdict
}

// limitReached does what the owner wants done when the limit is spent.
func (tx *Tx) limitReached(r *record.Record) error {
	if err := tx.emit(record.LimitReached, r); err != nil {
		return err
	}
	if r.AtLimit == record.Delete {
		terms := r.Terms()
		return errors.Join(tx.Remove(r), tx.Put(spentBucket, append([]byte{}, r.ID[:]...), append(tx.instant(), terms[:]...)))
	}
	r.Close()
	return tx.save(r)
}

var spentTable = Table{Buckets: []table.Bucket{spentBucket}, Refill: func(r *Refill) error { return r.copy(spentBucket, nil) }, Redate: redateInstants(spentBucket)}

// spentTime is how long it is known that a limit has deleted a record.
const spentTime = time.Hour

const spentSize = 8 + 16 // when, and the record's terms

// Spent reports whether the owner's record was deleted by its limit a while
// ago, when it had these terms, and the account is open.
func (tx *Tx) Spent(owner, id record.ID, terms [16]byte) (bool, error) {
	if v := tx.Get(spentBucket, id[:]); len(v) != spentSize || [16]byte(v[8:]) != terms {
		return false, nil
	}
	shut, err := tx.Disabled(owner)
	return !shut, err
}

// DropSpent forgets which records limits have deleted when that is long ago.
func (tx *Tx) DropSpent() error {
	var over [][]byte
	for k, v := range tx.Walk(spentBucket, nil, nil, false) {
		if len(v) != spentSize || int64(binary.BigEndian.Uint64(v)) < tx.Now.Add(-spentTime).UnixMilli() {
			over = append(over, append([]byte{}, k...))
		}
	}
	for _, k := range over {
		if err := tx.Delete(spentBucket, k); err != nil {
			return err
		}
	}
	return nil
}
