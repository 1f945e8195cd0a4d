package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"kist/kv/table"
	"kist/kv/workcopy"
)

// A ClockReset says what ResetClock did.
type ClockReset struct {
	Was      time.Time `json:"was"` // the store's time before the reset
	Now      time.Time `json:"now"`
	Reopened int       `json:"reopened"` // items that had expired, with webhooks notified, and are open again
	Redated  int       `json:"redated"`  // rows that had a time in the future
}

// ErrClockUnset says that the machine's clock shows a time before 2025.
var ErrClockUnset = errors.New("the machine's clock is not set; set it first (timedatectl set-ntp true)")

// resetBatch is how many rows one transaction changes.
const resetBatch = 200

// ResetClock sets the store's time to what the wall clock shows, even if that is
// earlier than past transactions, and corrects stored times in the future. Retries
// move back by as much as the time does; past events are dated now. It may be called
// again if it fails.
//
// Expired items are open again, because expiry is computed. Items that were removed
// because they expired stay removed. Ids keep rising.
func (s *Store) ResetClock() (ClockReset, error) {
	var done ClockReset
	wall := s.clock.now().Round(0).Truncate(time.Millisecond).UTC()
	if wall.Before(clockSet) {
		return done, ErrClockUnset
	}
	if err := s.Update(func(tx *Tx) error {
		done.Was, done.Now = tx.Now, wall
		s.clock.Lock()
		s.clock.steady.Lock()
		s.clock.instant.Store(wall.UnixMilli())
		if s.clock.elapsed != nil {
			at := reading{wall, s.clock.elapsed()}
			s.clock.belief.start, s.clock.belief.sure, s.clock.belief.doubt = at, at, reading{}
			s.clock.doubting.Store(false)
		}
		s.clock.steady.at, s.clock.steady.elapsed = wall, s.clock.uptime()
		s.writes.setBack(wall)
		s.clock.steady.Unlock()
		s.clock.Unlock()
		tx.Now, tx.after = wall, append(tx.after, everySlot{s})
		return tx.Delete(workcopy.MetaBucket, metaMonotonic)
	}); err != nil {
		return done, err
	}
	r := &Redate{Store: s, Now: wall, back: max(done.Was.Sub(wall), 0), Done: &done}
	for _, t := range s.schema.Tables {
		if t.Redate == nil {
			continue
		}
		n, err := t.Redate(r)
		done.Redated += n
		if err != nil {
			return done, fmt.Errorf("the store's time was set back, but not all stored times were corrected: %w", err)
		}
	}
	everySlot{s}.refresh()
	s.log.Warn("the store's time was set by an administrator", "was", done.Was, "now", done.Now, "itemsReopened", done.Reopened, "rowsRedated", done.Redated)
	return done, nil
}

// A Redate is the second part of ResetClock: the store's time is set back, and times
// in the future are being corrected in the rows.
type Redate struct {
	*Store
	Now  time.Time
	back time.Duration // how far the time was set back
	Done *ClockReset
}

// Past corrects times of past events: one in the future becomes now.
func (r *Redate) Past(all ...*time.Time) (changed bool) {
	for _, t := range all {
		if t.After(r.Now) {
			*t, changed = r.Now, true
		}
	}
	return changed
}

// Limit moves an end that is more than d in the future to d from now.
func (r *Redate) Limit(t *time.Time, d time.Duration) bool {
	if !t.After(r.Now.Add(d)) {
		return false
	}
	*t = r.Now.Add(d)
	return true
}

// Due corrects a time on the retry clock that is more than d in the future. It moves
// back by as much as the store's time did, or becomes now if that is still wrong.
func (r *Redate) Due(t *time.Time, d time.Duration) bool {
	if !t.After(r.Now.Add(d)) {
		return false
	}
	if *t = t.Add(-r.back); t.Before(r.Now) || t.After(r.Now.Add(d)) {
		*t = r.Now
	}
	return true
}

// RedateRows is the Redate function of a table. fix corrects a row and reports whether
// it changed.
func RedateRows[T any](t *table.Table[T], fix func(*Redate, *T) bool) func(*Redate) (int, error) {
	return func(r *Redate) (int, error) {
		return Correct(r, t, func(tx *Tx, v *T) error { return t.Put(tx.Tx, v) }, func(v *T) bool { return fix(r, v) })
	}
}

// RedateInstants is the Redate function of a bucket whose values begin with an instant.
func RedateInstants(b table.Bucket) func(*Redate) (int, error) {
	return func(r *Redate) (int, error) { return correctInstants(r.Store, b, r.Now) }
}

// Correct calls fix with each row of the table and writes the changed ones with put.
// It returns how many it wrote.
func Correct[T any](r *Redate, t *table.Table[T], put func(*Tx, *T) error, fix func(*T) bool) (n int, err error) {
	err = r.InBatches(t.Rows, func(key, row []byte) (bool, error) {
		v, err := t.Decode(key, row)
		return err == nil && fix(v), err
	}, func(tx *Tx, key []byte) error {
		v, err := t.Get(tx.Tx, key)
		if errors.Is(err, table.ErrMissing) {
			return nil
		}
		if err != nil || !fix(v) {
			return err
		}
		n++
		return put(tx, v)
	})
	return n, err
}

// InBatches walks a bucket and runs change for the keys of the rows that which
// selects, resetBatch in a transaction.
func (s *Store) InBatches(b table.Bucket, which func(key, row []byte) (bool, error), change func(*Tx, []byte) error) error {
	for after, more := []byte(nil), true; more; {
		var found [][]byte
		more = false
		if err := s.View(func(tx *Tx) error {
			for key, row := range tx.Walk(b, nil, after, false) {
				got, err := which(key, row)
				if err != nil {
					return err
				}
				if !got {
					continue
				}
				found = append(found, bytes.Clone(key))
				if more = len(found) == resetBatch; more {
					break
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if len(found) == 0 {
			return nil
		}
		after = found[len(found)-1]
		if err := s.Update(func(tx *Tx) error {
			tx.after = append(tx.after, everySlot{s}) // keys may be among them
			for _, key := range found {
				if err := change(tx, key); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// correctInstants sets future instants at the start of the values of a bucket to now.
func correctInstants(s *Store, b table.Bucket, now time.Time) (n int, err error) {
	ahead := func(_, v []byte) (bool, error) {
		return len(v) >= 8 && int64(binary.BigEndian.Uint64(v)) > now.UnixMilli(), nil
	}
	err = s.InBatches(b, ahead, func(tx *Tx, key []byte) error {
		v := tx.Get(b, key)
		if got, _ := ahead(key, v); !got {
			return nil
		}
		n++
		return tx.Put(b, key, append(binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())), v[8:]...))
	})
	return n, err
}
