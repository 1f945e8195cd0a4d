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
	Was      time.Time `json:"was"` // the store's time before
	Now      time.Time `json:"now"`
	Reopened int       `json:"reopened"` // items whose end had come and been told to webhooks, and that are open again
	Redated  int       `json:"redated"`  // rows with a time that has not come yet
}

// ErrClockUnset says that the machine's clock shows a time before 2025.
var ErrClockUnset = errors.New("the machine's clock is not set; set it first (timedatectl set-ntp true)")

// resetBatch is how many rows are changed in one transaction.
const resetBatch = 200

// ResetClock sets the store's time to what the wall clock shows, be that
// earlier than any transaction, and takes times that have not come yet out of
// what is kept: what is to be tried again moves by as much as the time does,
// what has happened is dated now. It may be called again if it fails.
//
// What expires is open again, as that is computed. What was removed because
// its time had come stays removed. Ids go on rising.
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
			return done, fmt.Errorf("the store's time is set back, but not all that was kept is corrected: %w", err)
		}
	}
	everySlot{s}.refresh()
	s.log.Warn("the store's time was set by an administrator", "was", done.Was, "now", done.Now, "itemsReopened", done.Reopened, "rowsRedated", done.Redated)
	return done, nil
}

// A Redate is a ResetClock that has set the store's time back, and takes times that
// have not come yet out of the rows.
type Redate struct {
	*Store
	Now  time.Time
	back time.Duration // by which the time was set back
	Done *ClockReset
}

// Past dates what has happened now if it lies ahead.
func (r *Redate) Past(all ...*time.Time) (changed bool) {
	for _, t := range all {
		if t.After(r.Now) {
			*t, changed = r.Now, true
		}
	}
	return changed
}

// Limit brings an end that is further off than it can be to where it can be.
func (r *Redate) Limit(t *time.Time, d time.Duration) bool {
	if !t.After(r.Now.Add(d)) {
		return false
	}
	*t = r.Now.Add(d)
	return true
}

// Due brings a time of the clock of retries to where it would be.
func (r *Redate) Due(t *time.Time, d time.Duration) bool {
	if !t.After(r.Now.Add(d)) {
		return false
	}
	if *t = t.Add(-r.back); t.Before(r.Now) || t.After(r.Now.Add(d)) {
		*t = r.Now
	}
	return true
}

// RedateRows is the Redate of a table whose rows are put as fix changes them.
func RedateRows[T any](t *table.Table[T], fix func(*Redate, *T) bool) func(*Redate) (int, error) {
	return func(r *Redate) (int, error) {
		return Correct(r, t, func(tx *Tx, v *T) error { return t.Put(tx.Tx, v) }, func(v *T) bool { return fix(r, v) })
	}
}

// RedateInstants is the Redate of a bucket whose values begin with an instant.
func RedateInstants(b table.Bucket) func(*Redate) (int, error) {
	return func(r *Redate) (int, error) { return correctInstants(r.Store, b, r.Now) }
}

// Correct has fix look at each row of the table and writes those that it
// changes with put. It returns how many there were.
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

// InBatches walks a bucket, asks which about each row, and runs change for the
// keys that it says, resetBatch to a transaction.
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

// correctInstants brings instants that have not come yet, with which the values
// of a bucket begin, to now.
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
