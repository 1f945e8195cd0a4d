package kv

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kist/kv/table"
	"kist/kv/workcopy"
)

// These decide when a wall clock that leaps forward is believed. DESIGN.md has the
// reasons.
const (
	leapMost   = time.Minute          // a longer leap is doubted
	leapLasts  = time.Hour            // it is believed when it has lasted as long as it leapt, or this long
	leapStart  = 400 * 24 * time.Hour // the longest leap believed at a start: the machine may have been off
	leapSettle = 10 * time.Minute     // how long a start counts as one: the system may set its clock late
)

// catchUp is how many times slower the store's time goes while the wall clock is behind it. It
// does not stand still, so that what is stored one after another has different times.
const catchUp = 10

// clockSet is earlier than any time on a correctly set clock. A store whose time is
// before clockSet was made on a machine whose clock was not set yet.
var clockSet = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// A reading is what two clocks show at one moment: the wall clock, and a monotonic
// clock that starts at any value.
type reading struct {
	wall    time.Time
	elapsed time.Duration
}

// after returns what the wall clock should show when the monotonic clock shows elapsed.
func (r reading) after(elapsed time.Duration) time.Time { return r.wall.Add(elapsed - r.elapsed) }

// belief is what a store knows about the time.
type belief struct {
	start  reading       // wall: the store's time when it was opened
	sure   reading       // wall: the store's time when the wall clock was last believed
	doubt  reading       // wall: what the clock showed when it leaped; zero if it is believed
	noted  time.Duration // when the doubt was last saved, on the monotonic clock
	stored bool          // the store holds a saved doubt
}

// judge decides whether to believe the reading's wall clock. It does if the belief it
// returns has no doubt. It also returns the store's time: the wall clock's time, or
// the last sure time plus what has elapsed since. That time is never before last. While the
// wall clock is behind it, it goes slowly.
func (b belief) judge(last time.Time, now reading) (time.Time, belief) {
	expected := b.sure.after(now.elapsed)
	goesOn := !b.doubt.wall.IsZero() && now.wall.Sub(b.doubt.after(now.elapsed)).Abs() <= leapMost
	starting := now.elapsed-b.start.elapsed < leapSettle && now.wall.Sub(b.start.after(now.elapsed)) <= leapStart
	switch {
	case now.wall.Sub(expected) <= leapMost,
		b.sure.wall.Before(clockSet),
		goesOn && now.elapsed-b.doubt.elapsed >= b.lasts(now),
		!goesOn && starting:
		slow := b.sure.wall.Add((now.elapsed - b.sure.elapsed) / catchUp)
		at := Later(last, Later(now.wall, slow))
		b.sure, b.doubt = reading{at, now.elapsed}, reading{}
		return at, b
	case !goesOn:
		b.doubt = now
	}
	return Later(last, expected), b
}

// lasts is how long the clock's leap must last until it is believed.
func (b belief) lasts(now reading) time.Duration {
	return min(now.wall.Sub(b.sure.after(now.elapsed)), leapLasts)
}

// resume is the belief at a start. An earlier process saved what the doubted clock
// last showed and how long the doubt had lasted. The doubt continues if the clock is
// still there or later, so that a restart alone makes no clock believed.
func (b belief) resume(doubted time.Time, lasted time.Duration, now reading) belief {
	if ahead := now.wall.Sub(doubted); !doubted.IsZero() && ahead >= -leapMost && ahead <= leapStart {
		b.doubt = reading{now.wall.Add(-lasted), now.elapsed - lasted}
	}
	return b
}

// timekeeper holds what the store believes.
type timekeeper struct {
	// Set once.
	log     *slog.Logger
	now     func() time.Time     // the wall clock
	uptime  func() time.Duration // a monotonic clock
	elapsed func() time.Duration // nil if the wall clock is always believed

	instant  atomic.Int64   // the latest instant of a transaction, in milliseconds
	doubting atomic.Bool    // belief has a doubt
	steady   monotonicClock // the retry clock, with a lock of its own

	sync.Mutex
	belief belief // under the mutex
}

// wall is the store's time in whole milliseconds: the wall clock, as far as it is
// believed. It is never earlier than the latest transaction, including a View, so
// that an expired item stays expired when the clock is set back.
func (c *timekeeper) wall() time.Time {
	now := c.now().UnixMilli()
	if c.elapsed != nil && (now-c.instant.Load() >= leapMost.Milliseconds() || c.doubting.Load()) {
		return c.check()
	}
	return c.advance(now)
}

// advance moves the store's time forward to ms, unless it is already later. It
// returns the store's time.
func (c *timekeeper) advance(ms int64) time.Time {
	for {
		last := c.instant.Load()
		if ms <= last {
			return time.UnixMilli(last).UTC()
		}
		if c.instant.CompareAndSwap(last, ms) {
			return time.UnixMilli(ms).UTC()
		}
	}
}

// check compares the wall clock with the monotonic one. It logs when a doubt
// starts or ends.
func (c *timekeeper) check() time.Time {
	if c.elapsed == nil {
		return c.wall()
	}
	c.Lock()
	defer c.Unlock()
	now := reading{c.now().Round(0), c.elapsed()} // Round drops the monotonic reading in time.Now
	before := c.belief.doubt
	var at time.Time
	at, c.belief = c.belief.judge(time.UnixMilli(c.instant.Load()), now)
	at = c.advance(at.UnixMilli())
	doubts := !c.belief.doubt.wall.IsZero()
	c.doubting.Store(doubts)
	switch {
	case doubts && c.belief.doubt != before:
		c.log.Warn("the clock jumped and is not believed yet; nothing expires because of it",
			"clock", now.wall.UTC(), "storeTime", at, "believedAfter", c.belief.lasts(now).Round(time.Second))
	case !doubts && !before.wall.IsZero() && now.wall.Sub(before.after(now.elapsed)).Abs() <= leapMost:
		c.log.Warn("the clock's jump has lasted and is believed now; if the clock is wrong, set it; "+
			"kist help repair says how the records come back to the right time", "storeTime", at)
	case !doubts && !before.wall.IsZero():
		c.log.Info("the clock is right again and is believed", "storeTime", at)
	}
	return at
}

// MonotonicNow is the time on the retry clock. It is the store's time or later, and
// it never stands still.
func (s *Store) MonotonicNow() time.Time { return s.clock.monotonic() }

// A ClockDoubt says that the wall clock has jumped and is not believed yet.
type ClockDoubt struct {
	Clock  time.Time     `json:"clock"`  // what the wall clock shows
	Lasted time.Duration `json:"lasted"` // since the jump
	Wait   time.Duration `json:"wait"`   // until the clock is believed
}

// ClockDoubt returns the current doubt; ok is false if the clock is believed.
func (s *Store) ClockDoubt() (d ClockDoubt, ok bool) {
	s.clock.Lock()
	defer s.clock.Unlock()
	if s.clock.belief.doubt.wall.IsZero() {
		return d, false
	}
	now := reading{s.clock.now().Round(0), s.clock.elapsed()}
	d = ClockDoubt{Clock: now.wall.UTC(), Lasted: now.elapsed - s.clock.belief.doubt.elapsed}
	d.Wait = max(s.clock.belief.lasts(now)-d.Lasted, 0)
	return d, true
}

// doubtNoted is how often a continuing doubt is saved.
const doubtNoted = time.Minute

// watch is called every second. It compares the two clocks and saves how long a
// doubt has lasted.
func (c *timekeeper) watch(s *Store, closing bool) error {
	if c.elapsed == nil {
		return nil
	}
	c.check()
	c.Lock()
	b, elapsed := c.belief, c.elapsed()
	doubts := !b.doubt.wall.IsZero()
	due := doubts != b.stored || doubts && (closing || elapsed-b.noted >= doubtNoted)
	c.Unlock()
	if !due {
		return nil
	}
	if err := s.Update(func(tx *Tx) error {
		if !doubts {
			return tx.Delete(workcopy.MetaBucket, metaDoubt)
		}
		row := binary.BigEndian.AppendUint64(nil, uint64(b.doubt.after(elapsed).UnixMilli()))
		row = binary.BigEndian.AppendUint64(row, uint64((elapsed - b.doubt.elapsed).Milliseconds()))
		return tx.Put(workcopy.MetaBucket, metaDoubt, row)
	}); err != nil {
		return err
	}
	c.Lock()
	c.belief.stored, c.belief.noted = doubts, elapsed
	c.Unlock()
	return nil
}

// start reads what the store knew about the time when it was closed.
func (c *timekeeper) start(tx *table.Tx) {
	var at time.Time
	if v := tx.Get(workcopy.MetaBucket, MetaInstant); len(v) == 8 {
		c.instant.Store(int64(binary.BigEndian.Uint64(v)))
		at = time.UnixMilli(c.instant.Load())
	}
	if v := tx.Get(workcopy.MetaBucket, metaMonotonic); len(v) == 8 {
		c.steady.at, c.steady.elapsed = time.UnixMilli(int64(binary.BigEndian.Uint64(v))).UTC(), c.uptime()
	}
	if c.elapsed == nil {
		return
	}
	now := reading{c.now().Round(0), c.elapsed()}
	b := belief{start: reading{at, now.elapsed}, sure: reading{at, now.elapsed}}
	if v := tx.Get(workcopy.MetaBucket, metaDoubt); len(v) == 16 {
		wall := time.UnixMilli(int64(binary.BigEndian.Uint64(v)))
		lasted := time.Duration(binary.BigEndian.Uint64(v[8:])) * time.Millisecond
		b = b.resume(wall, lasted, now)
		b.stored = true
	}
	c.belief = b
	c.doubting.Store(!b.doubt.wall.IsZero())
}

// stop saves the time when the store is closed.
func (c *timekeeper) stop(s *Store) error {
	return errors.Join(c.watch(s, true), s.Update(func(tx *Tx) error {
		if err := tx.Put(workcopy.MetaBucket, MetaInstant, tx.Instant()); err != nil {
			return err
		}
		return c.saveMonotonic(tx.Tx, tx.Now)
	}))
}

// monotonicClock is the retry clock. The store's own time stands still after a clock
// that was ahead has been set back; this clock keeps running.
type monotonicClock struct {
	sync.Mutex
	at      time.Time
	elapsed time.Duration
}

// monotonic is the time on the retry clock; see Store.MonotonicNow.
func (c *timekeeper) monotonic() time.Time {
	c.steady.Lock()
	defer c.steady.Unlock()
	elapsed := c.uptime()
	at := c.steady.at.Add(elapsed - c.steady.elapsed)
	if wall := c.wall(); c.steady.at.IsZero() || wall.After(at) {
		at = wall
	}
	c.steady.at, c.steady.elapsed = at, elapsed
	return at.Truncate(time.Millisecond)
}

// saveMonotonic saves the retry clock if it is more than a second ahead of the
// transaction's instant, so that it continues from there after a restart.
func (c *timekeeper) saveMonotonic(t *table.Tx, instant time.Time) error {
	if at := c.monotonic(); at.Sub(instant) > time.Second {
		return t.Put(workcopy.MetaBucket, metaMonotonic, binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())))
	}
	return nil
}

// Later is the later of two instants; a if they are equal.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
