package kv

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"kist/kv/table"
	"kist/kv/workcopy"
)

// When a wall clock that leaps forward is believed. DESIGN.md has the reasons.
const (
	leapMost   = 24 * time.Hour       // a longer leap is doubted
	leapLasts  = time.Hour            // until it has lasted this long
	leapStart  = 400 * 24 * time.Hour // at a start: the machine may have been off
	leapSettle = 10 * time.Minute     // how long a start takes: the system may set its clock late
)

// clockSet is earlier than any time that a set clock can show. A store whose
// time is before it was made on a machine whose clock was not set yet.
var clockSet = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// A reading is what two clocks show at one moment: the wall clock, and one
// that nobody sets and that starts at any value.
type reading struct {
	wall    time.Time
	elapsed time.Duration
}

// after is what the wall clock should show when the other clock shows elapsed.
func (r reading) after(elapsed time.Duration) time.Time { return r.wall.Add(elapsed - r.elapsed) }

// belief is what a store knows of the time.
type belief struct {
	start  reading // wall: where the store's time stood when it was opened
	sure   reading // wall: the store's time when the wall clock was last believed
	doubt  reading // wall: what the clock showed when it leaped; zero: it is believed
	noted  time.Duration
	stored bool // a doubt is in the store
}

// judge decides whether the reading's wall clock is believed, which is the case
// if the belief it returns has no doubt. The time it returns is what the store
// goes by: the wall clock's, or that of the last sure reading and what has
// passed since; never earlier than last.
func (b belief) judge(last time.Time, now reading) (time.Time, belief) {
	expected := b.sure.after(now.elapsed)
	goesOn := !b.doubt.wall.IsZero() && now.wall.Sub(b.doubt.after(now.elapsed)).Abs() <= leapMost
	starting := now.elapsed-b.start.elapsed < leapSettle && now.wall.Sub(b.start.after(now.elapsed)) <= leapStart
	switch {
	case now.wall.Sub(expected) <= leapMost,
		b.sure.wall.Before(clockSet),
		goesOn && now.elapsed-b.doubt.elapsed >= leapLasts,
		!goesOn && starting:
		at := later(last, now.wall)
		b.sure, b.doubt = reading{at, now.elapsed}, reading{}
		return at, b
	case !goesOn:
		b.doubt = now
	}
	return later(last, expected), b
}

// resume is the belief at a start. The doubt that an earlier process had is
// what the clock showed last and for how long; it goes on if the clock is
// still there or later, so that a restart makes nothing believed.
func (b belief) resume(doubted time.Time, lasted time.Duration, now reading) belief {
	if ahead := now.wall.Sub(doubted); !doubted.IsZero() && ahead >= -leapMost && ahead <= leapStart {
		b.doubt = reading{now.wall.Add(-lasted), now.elapsed - lasted}
	}
	return b
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// timekeeper holds what the store believes.
type timekeeper struct {
	sync.Mutex
	elapsed  func() time.Duration // nil: the wall clock is always believed
	belief   belief
	doubting atomic.Bool
}

// Wall is the time that the store goes by, in whole milliseconds: the wall
// clock, as far as it is believed, held back from going behind the latest
// transaction, be it a View, so that what has expired stays expired when the
// clock is set back.
func (s *Store) Wall() time.Time {
	now := s.now().UnixMilli()
	if s.clock.elapsed != nil && (now-s.instant.Load() >= leapMost.Milliseconds() || s.clock.doubting.Load()) {
		return s.checkClock()
	}
	return s.advance(now)
}

// advance brings the store's time to ms or leaves it where it is, if that is
// later. It returns the store's time.
func (s *Store) advance(ms int64) time.Time {
	for {
		last := s.instant.Load()
		if ms <= last {
			return time.UnixMilli(last).UTC()
		}
		if s.instant.CompareAndSwap(last, ms) {
			return time.UnixMilli(ms).UTC()
		}
	}
}

// checkClock compares the wall clock with the one that nobody sets, and says
// so in the log when it begins or ceases to be doubted.
func (s *Store) checkClock() time.Time {
	c := &s.clock
	if c.elapsed == nil {
		return s.Wall()
	}
	c.Lock()
	defer c.Unlock()
	now := reading{s.now().Round(0), c.elapsed()} // Round: a time.Now has more than the wall clock in it
	before := c.belief.doubt
	var at time.Time
	at, c.belief = c.belief.judge(time.UnixMilli(s.instant.Load()), now)
	at = s.advance(at.UnixMilli())
	doubts := !c.belief.doubt.wall.IsZero()
	c.doubting.Store(doubts)
	switch {
	case doubts && c.belief.doubt != before:
		s.log.Warn("the clock jumped and is not believed yet; nothing expires because of it",
			"clock", now.wall.UTC(), "storeTime", at, "believedAfter", leapLasts)
	case !doubts && !before.wall.IsZero() && now.wall.Sub(before.after(now.elapsed)).Abs() <= leapMost:
		s.log.Warn("the clock's jump has lasted and is believed now; if the clock is wrong, set it and run kist doctor --reset-clock", "storeTime", at)
	case !doubts && !before.wall.IsZero():
		s.log.Info("the clock is back and is believed again", "storeTime", at)
	}
	return at
}

// A ClockDoubt says that the wall clock has jumped and is not believed yet.
type ClockDoubt struct {
	Clock  time.Time     `json:"clock"`  // what it shows
	Lasted time.Duration `json:"lasted"` // since it jumped
	Wait   time.Duration `json:"wait"`   // until it is believed
}

// ClockDoubt is the present doubt; ok is false if the clock is believed.
func (s *Store) ClockDoubt() (d ClockDoubt, ok bool) {
	s.clock.Lock()
	defer s.clock.Unlock()
	if s.clock.belief.doubt.wall.IsZero() {
		return d, false
	}
	d = ClockDoubt{Clock: s.now().UTC(), Lasted: s.clock.elapsed() - s.clock.belief.doubt.elapsed}
	d.Wait = max(leapLasts-d.Lasted, 0)
	return d, true
}

// doubtNoted is how often a doubt that goes on is written down.
const doubtNoted = time.Minute

// watchClock is called every second: it keeps the two clocks compared, and
// writes down how long a doubt has lasted.
func (s *Store) watchClock(closing bool) error {
	if s.clock.elapsed == nil {
		return nil
	}
	s.checkClock()
	s.clock.Lock()
	b, elapsed := s.clock.belief, s.clock.elapsed()
	doubts := !b.doubt.wall.IsZero()
	due := doubts != b.stored || doubts && (closing || elapsed-b.noted >= doubtNoted)
	s.clock.Unlock()
	if !due {
		return nil
	}
	if err := s.Update(func(tx *Tx) error {
		if !doubts {
			return tx.Delete(workcopy.MetaBucket, metaDoubt)
		}
		row := binary.BigEndian.AppendUint64(nil, uint64(b.doubt.after(elapsed).UnixMilli()))
		return tx.Put(workcopy.MetaBucket, metaDoubt, binary.BigEndian.AppendUint64(row, uint64((elapsed-b.doubt.elapsed).Milliseconds())))
	}); err != nil {
		return err
	}
	s.clock.Lock()
	s.clock.belief.stored, s.clock.belief.noted = doubts, elapsed
	s.clock.Unlock()
	return nil
}

// startClock reads what the store knew of the time when it was closed.
func (s *Store) startClock(tx *table.Tx) {
	var at time.Time
	if v := tx.Get(workcopy.MetaBucket, MetaInstant); len(v) == 8 {
		s.instant.Store(int64(binary.BigEndian.Uint64(v)))
		at = time.UnixMilli(s.instant.Load())
	}
	if v := tx.Get(workcopy.MetaBucket, metaMonotonic); len(v) == 8 {
		s.steady.at, s.steady.elapsed = time.UnixMilli(int64(binary.BigEndian.Uint64(v))).UTC(), s.elapsed()
	}
	if s.clock.elapsed == nil {
		return
	}
	now := reading{s.now().Round(0), s.clock.elapsed()}
	b := belief{start: reading{at, now.elapsed}, sure: reading{at, now.elapsed}}
	if v := tx.Get(workcopy.MetaBucket, metaDoubt); len(v) == 16 {
		b = b.resume(time.UnixMilli(int64(binary.BigEndian.Uint64(v))), time.Duration(binary.BigEndian.Uint64(v[8:]))*time.Millisecond, now)
		b.stored = true
	}
	s.clock.belief = b
	s.clock.doubting.Store(!b.doubt.wall.IsZero())
}

// stopClock writes down the time as the store is closed.
func (s *Store) stopClock() error {
	return errors.Join(s.watchClock(true), s.Update(func(tx *Tx) error {
		return errors.Join(tx.Put(workcopy.MetaBucket, MetaInstant, tx.Instant()), s.saveMonotonic(tx.Tx, tx.Now))
	}))
}

// monotonicClock is the clock that retries go by. The store's own time stands still
// after a clock that was ahead has been set back; this one goes on.
type monotonicClock struct {
	sync.Mutex
	at      time.Time
	elapsed time.Duration
}

// MonotonicNow is the time on the clock that retries go by: that of the store, or
// later, and it never stands still.
func (s *Store) MonotonicNow() time.Time {
	s.steady.Lock()
	defer s.steady.Unlock()
	elapsed := s.elapsed()
	at := s.steady.at.Add(elapsed - s.steady.elapsed)
	if wall := s.Wall(); s.steady.at.IsZero() || wall.After(at) {
		at = wall
	}
	s.steady.at, s.steady.elapsed = at, elapsed
	return at.Truncate(time.Millisecond)
}

// saveMonotonic writes down the clock of retries where it is ahead of the instant
// of the transaction by more than a second, so that it goes on from there after
// a restart.
func (s *Store) saveMonotonic(t *table.Tx, instant time.Time) error {
	if at := s.MonotonicNow(); at.Sub(instant) > time.Second {
		return t.Put(workcopy.MetaBucket, metaMonotonic, binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())))
	}
	return nil
}
