package kv

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kist/kv/record"
	"kist/kv/table"
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
	wall := s.now().Round(0).Truncate(time.Millisecond).UTC()
	if wall.Before(clockSet) {
		return done, ErrClockUnset
	}
	if err := s.Update(func(tx *Tx) error {
		done.Was, done.Now = tx.Now, wall
		s.clock.Lock()
		s.steady.Lock()
		s.pending.Lock()
		s.instant.Store(wall.UnixMilli())
		if s.clock.elapsed != nil {
			at := reading{wall, s.clock.elapsed()}
			s.clock.belief.start, s.clock.belief.sure, s.clock.belief.doubt = at, at, reading{}
			s.clock.doubting.Store(false)
		}
		s.steady.at, s.steady.elapsed = wall, s.elapsed()
		s.pending.noted = nil
		s.pending.Unlock()
		s.tries.setBack(wall)
		s.writes.setBack(wall)
		s.steady.Unlock()
		s.clock.Unlock()
		tx.Now, tx.callers, tx.due, tx.look = wall, true, true, true
		return tx.Delete(metaBucket, metaMonotonic)
	}); err != nil {
		return done, err
	}
	now, back := wall, max(done.Was.Sub(wall), 0)
	past := func(all ...*time.Time) (changed bool) {
		for _, t := range all {
			if t.After(now) {
				*t, changed = now, true
			}
		}
		return changed
	}
	// most brings an end that is further off than it can be to where it can be.
	limit := func(t *time.Time, d time.Duration) bool {
		if !t.After(now.Add(d)) {
			return false
		}
		*t = now.Add(d)
		return true
	}
	// due brings a time of the clock of retries to where it would be.
	due := func(t *time.Time, d time.Duration) bool {
		if !t.After(now.Add(d)) {
			return false
		}
		if *t = t.Add(-back); t.Before(now) || t.After(now.Add(d)) {
			*t = now
		}
		return true
	}
	for _, step := range []func() (int, error){
		func() (int, error) {
			return correct(s, records, func(tx *Tx, r *record.Record) error {
				if before, err := records.Get(tx.Tx, r.Key()); err == nil && before.Ended && !r.Ended {
					done.Reopened++
				}
				return tx.save(r)
			}, func(r *record.Record) bool {
				changed := past(&r.Created, &r.Updated)
				if r.Ended && !r.Expired(now) {
					r.Ended, changed = false, true
				}
				return changed
			})
		},
		func() (int, error) {
			return correct(s, keys, nil, func(k *record.Key) bool {
				changed := past(&k.Created, &k.LastUsed)
				return k.Slides > 0 && limit(&k.Expires, k.Slides) || changed
			})
		},
		func() (int, error) {
			return correct(s, devices, nil, func(d *record.Device) bool {
				changed := past(&d.Created, &d.Polled)
				return limit(&d.Expires, DeviceTime) || changed
			})
		},
		func() (int, error) {
			return correct(s, uploads, nil, func(u *Upload) bool {
				changed := past(&u.Created)
				return limit(&u.Expires, UploadTime) || changed
			})
		},
		func() (int, error) {
			return correct(s, fetches, nil, func(f *record.Fetch) bool {
				changed := past(&f.Created, &f.Ended)
				return due(&f.Due, record.MaxRetry) || changed
			})
		},
		func() (int, error) {
			return correct(s, hooks, nil, func(h *record.Webhook) bool {
				return past(&h.Created, &h.LastTried, &h.LastDelivered, &h.Failing, &h.Tried, &h.Paused)
			})
		},
		func() (int, error) {
			return correct(s, deliveries, nil, func(d *record.Delivery) bool {
				changed := past(&d.At, &d.Noted, &d.Try.At)
				return due(&d.Due, record.MaxRetry) || changed
			})
		},
		func() (int, error) {
			return correct(s, pages, nil, func(p *record.Page) bool {
				changed := past(&p.Checked, &p.Failing, &p.Gone)
				return due(&p.Due, record.MaxLook) || changed
			})
		},
		func() (int, error) {
			return correct(s, requests, nil, func(q *record.Request) bool { return past(&q.Created, &q.Updated) })
		},
		func() (int, error) {
			return correct(s, items, nil, func(i *record.Item) bool { return past(&i.Created, &i.Decided) })
		},
		func() (int, error) { return s.correctInstants(unreferencedBucket, now) },
		func() (int, error) { return s.correctInstants(spentBucket, now) },
		func() (int, error) { return s.correctInstants(senderBucket, now) },
		func() (int, error) { return s.forgetAnswers(now) },
	} {
		n, err := step()
		done.Redated += n
		if err != nil {
			return done, fmt.Errorf("the store's time is set back, but not all that was kept is corrected: %w", err)
		}
	}
	select {
	case s.due <- struct{}{}:
	default:
	}
	select {
	case s.look <- struct{}{}:
	default:
	}
	s.log.Warn("the store's time was set by an administrator", "was", done.Was, "now", done.Now, "itemsReopened", done.Reopened, "rowsRedated", done.Redated)
	return done, nil
}

// correct has fix look at each row of the table and writes those that it
// changes, by put if that is not nil. It returns how many there were.
func correct[T any](s *Store, t *table.Table[T], put func(*Tx, *T) error, fix func(*T) bool) (n int, err error) {
	if put == nil {
		put = func(tx *Tx, v *T) error { return t.Put(tx.Tx, v) }
	}
	err = s.inBatches(t.Rows, func(key, row []byte) (bool, error) {
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

// inBatches walks a bucket, asks which about each row, and runs change for the
// keys that it says, resetBatch to a transaction.
func (s *Store) inBatches(b table.Bucket, which func(key, row []byte) (bool, error), change func(*Tx, []byte) error) error {
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
			tx.callers = true // keys may be among them
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
func (s *Store) correctInstants(b table.Bucket, now time.Time) (n int, err error) {
	ahead := func(_, v []byte) (bool, error) {
		return len(v) >= 8 && int64(binary.BigEndian.Uint64(v)) > now.UnixMilli(), nil
	}
	err = s.inBatches(b, ahead, func(tx *Tx, key []byte) error {
		v := tx.Get(b, key)
		if got, _ := ahead(key, v); !got {
			return nil
		}
		n++
		return tx.Put(b, key, append(binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())), v[8:]...))
	})
	return n, err
}

// forgetAnswers forgets the answers that would be kept for too long.
func (s *Store) forgetAnswers(now time.Time) (n int, err error) {
	err = s.inBatches(answerBucket, func(_, v []byte) (bool, error) {
		var a storedAnswer
		return json.Unmarshal(v, &a) != nil || a.Expires.After(now.Add(answerFor)), nil
	}, func(tx *Tx, key []byte) error {
		n++
		return tx.Delete(answerBucket, key)
	})
	return n, err
}
