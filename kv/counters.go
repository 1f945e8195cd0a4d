package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"kist/kv/record"
	"kist/kv/table"
)

// flushEvery is how late the views of unlimited items, the last use of keys
// and wrong tries may be written; a killed process loses no more of them than
// that.
const flushEvery = time.Second

// counters is what is counted in memory until the next flush.
type counters struct {
	sync.Mutex
	views map[[record.KeySize]byte]int64
	keys  map[[32]byte]time.Time // by owner and id
	noted map[[32]byte]time.Time // what of keys was on its way to the disk last
}

func (s *Store) flushLoop() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-tick.C:
			s.checkDiskSpace()
			s.retryWrite()
			if err := s.watchClock(false); err != nil {
				s.log.Error("the doubt of the clock is not written down; it is tried again", "error", err)
			}
			if err := s.emitExpired(); err != nil {
				s.log.Error("ends not told; they are tried again", "error", err)
			}
			if err := s.flush(); err != nil {
				s.log.Error("counts not written; they are kept for the next try", "error", err)
			}
		}
	}
}

// flush writes what is counted in memory. What cannot be written stays.
func (s *Store) flush() error {
	s.pending.Lock()
	views, used := s.pending.views, s.pending.keys
	s.pending.views, s.pending.keys = nil, nil
	for key, at := range used {
		s.pending.note(key, at)
	}
	s.pending.Unlock()
	counted := s.tries.take(s.wall(), triesPerFlush)
	if len(views) == 0 && len(used) == 0 && len(counted) == 0 {
		return nil
	}
	err := s.Update(func(tx *Tx) error {
		if err := tx.saveTries(counted); err != nil {
			return err
		}
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
		for key, at := range used {
			k, err := keys.Get(tx.Tx, key[:])
			if errors.Is(err, table.ErrMissing) {
				continue
			}
			if err != nil {
				s.log.Error("use of a key not noted", "error", err)
				continue
			}
			k.LastUsed = at
			tx.callers = tx.callers || k.Slide(at)
			if err := keys.Put(tx.Tx, k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.tries.giveBack(counted)
		s.pending.Lock()
		defer s.pending.Unlock()
		for key, n := range views {
			s.pending.view(key, n)
		}
		for key, at := range used {
			if s.pending.keys[key].Before(at) {
				s.pending.use(key, at)
			}
		}
	}
	return err
}

func (u *counters) view(key [record.KeySize]byte, n int64) {
	if u.views == nil {
		u.views = map[[record.KeySize]byte]int64{}
	}
	u.views[key] += n
}

func (u *counters) note(key [32]byte, at time.Time) {
	if u.noted == nil {
		u.noted = map[[32]byte]time.Time{}
	}
	u.noted[key] = at
}

func (u *counters) use(key [32]byte, at time.Time) {
	if u.keys == nil {
		u.keys = map[[32]byte]time.Time{}
	}
	u.keys[key] = at
}

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

var spentTable = Table{Buckets: []table.Bucket{spentBucket}, Refill: func(r *Refill) error { return r.copy(spentBucket, nil) }}

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
