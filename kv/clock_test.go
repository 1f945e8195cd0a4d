package kv

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

const day = 24 * time.Hour

// hours24 is a day of the pure tests.
const hours24 = 24 * time.Hour

// TestJudgeClock: which wall clock is believed. The store's time stood at noon
// when it was opened; each step is the time since then and what the wall clock
// shows beyond that.
func TestJudgeClock(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type step struct {
		at, ahead time.Duration
		believed  bool
		stands    time.Duration // of the store's time, beyond noon and what has passed
	}
	const year = 365 * hours24
	for name, row := range map[string]struct {
		start time.Time
		steps []step
	}{
		"a right clock":                      {noon, []step{{0, 0, true, 0}, {time.Hour, 0, true, 0}, {9 * hours24, 0, true, 0}}},
		"a small leap":                       {noon, []step{{time.Hour, 0, true, 0}, {time.Hour, 23 * time.Hour, true, 23 * time.Hour}}},
		"off for a week":                     {noon, []step{{0, 7 * hours24, true, 7 * hours24}}},
		"off for a year":                     {noon, []step{{0, 399 * hours24, true, 399 * hours24}}},
		"off for two years":                  {noon, []step{{0, 2 * year, false, 0}, {59 * time.Minute, 2 * year, false, 0}, {time.Hour, 2 * year, true, 2 * year}}},
		"off for a week, set late":           {noon, []step{{0, -56 * year, true, -0}, {2 * time.Minute, 7 * hours24, true, 7 * hours24}}},
		"off for a week, set very late":      {noon, []step{{0, time.Minute, true, time.Minute}, {time.Hour, 7 * hours24, false, time.Minute}, {2 * time.Hour, 7 * hours24, true, 7 * hours24}}},
		"wrong at the start, then set":       {noon, []step{{0, 73 * year, false, 0}, {time.Minute, 7 * hours24, true, 7 * hours24}}},
		"2099 once":                          {noon, []step{{time.Hour, 0, true, 0}, {time.Hour, 73 * year, false, 0}, {time.Hour + time.Second, 0, true, 0}}},
		"2099 for 59 minutes":                {noon, []step{{time.Hour, 73 * year, false, 0}, {119 * time.Minute, 73 * year, false, 0}, {120*time.Minute - 1, 0, true, 0}}},
		"2099 for an hour":                   {noon, []step{{time.Hour, 73 * year, false, 0}, {2 * time.Hour, 73 * year, true, 73 * year}}},
		"a day is no leap, a bit more is":    {noon, []step{{time.Hour, hours24, true, hours24}, {time.Hour, 2*hours24 + time.Millisecond, false, hours24}}},
		"a clock that leaps about":           {noon, []step{{time.Hour, 5 * hours24, false, 0}, {90 * time.Minute, 20 * hours24, false, 0}, {125 * time.Minute, 20 * hours24, false, 0}, {150 * time.Minute, 20 * hours24, true, 20 * hours24}}},
		"forward and back again twice":       {noon, []step{{time.Hour, 5 * hours24, false, 0}, {90 * time.Minute, 0, true, 0}, {91 * time.Minute, 5 * hours24, false, 0}, {150 * time.Minute, 5 * hours24, false, 0}, {151 * time.Minute, 5 * hours24, true, 5 * hours24}}},
		"back by a year":                     {noon, []step{{time.Hour, 0, true, 0}, {2 * time.Hour, -year, true, -time.Hour}}},
		"begun before its clock was set":     {time.UnixMilli(0), []step{{0, 56 * year, true, 56 * year}}},
		"idle for a week, both clocks agree": {noon, []step{{time.Hour, 0, true, 0}, {8 * hours24, 0, true, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			const booted = 17 * time.Hour // the other clock starts anywhere
			start := reading{row.start, booted}
			b, last := belief{start: start, sure: start}, row.start
			for i, s := range row.steps {
				now := reading{row.start.Add(s.at + s.ahead), booted + s.at}
				at, next := b.judge(last, now)
				if believed := next.doubt.wall.IsZero(); believed != s.believed {
					t.Fatalf("step %d: believed is %v", i, believed)
				}
				want := row.start.Add(s.at + s.stands)
				if s.ahead < 0 {
					want = last // it stands still
				}
				is.True(at.Equal(want))
				b, last = next, at
			}
		})
	}
}

// TestResumeDoubt: a doubt outlives a restart where the clock is as it was.
func TestResumeDoubt(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		ahead    time.Duration // of the doubted clock
		now      time.Duration // what the clock shows at the start, beyond noon
		believed bool
		wait     time.Duration // until it is believed
	}{
		"still ahead":               {30 * hours24, 30*hours24 + time.Minute, false, 20 * time.Minute},
		"still far ahead":           {9000 * hours24, 9000*hours24 + time.Minute, false, 20 * time.Minute},
		"set right":                 {30 * hours24, time.Minute, true, 0},
		"set right after a week":    {30 * hours24, 7 * hours24, true, 0},
		"later than what it showed": {30 * hours24, 40 * hours24, false, 20 * time.Minute},
		"elsewhere altogether":      {30 * hours24, 9000 * hours24, false, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			now := reading{noon.Add(row.now), 5 * time.Second}
			start := reading{noon, now.elapsed}
			b := belief{start: start, sure: start}.resume(noon.Add(row.ahead), 40*time.Minute, now)
			_, b = b.judge(noon, now)
			is.Equal(b.doubt.wall.IsZero(), row.believed)
			if row.believed {
				return
			}
			after := func(d time.Duration) reading { return reading{now.wall.Add(d), now.elapsed + d} }
			_, early := b.judge(noon, after(row.wait-time.Second))
			is.True(!early.doubt.wall.IsZero())
			_, late := b.judge(noon, after(row.wait))
			is.True(late.doubt.wall.IsZero())
		})
	}
}

// clocks are a wall clock and one that nobody sets, both set by a test.
type clocks struct {
	clock
	elapsed atomic.Int64
}

func newClocks() *clocks {
	c := new(clocks)
	c.ms.Store(newClock().ms.Load())
	return c
}

func (c *clocks) options() Options {
	return Options{Schema: All, Now: c.now, Log: quiet, Elapsed: func() time.Duration { return time.Duration(c.elapsed.Load()) }}
}

// pass has time pass on both clocks.
func (c *clocks) pass(d time.Duration) {
	c.elapsed.Add(int64(d))
	c.add(d)
}

// Nothing ends because of a clock that jumps for a while, not over a restart
// either, and everything goes on when it is back.
func TestClockJumps(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	s := opened(t, t.TempDir(), c.options())
	u := user(t, s, "ann")
	var h record.Webhook
	update(t, s, func(tx *Tx) (err error) {
		h, err = tx.AddWebhook(record.Webhook{Owner: u.ID, Events: []record.Event{record.ItemExpired}, Enabled: true})
		return err
	})
	r := add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"c","isPublic":true,"expiresAt":%q}`, c.now().Add(50*time.Hour).UTC().Format(time.RFC3339)))
	c.pass(time.Hour) // the start is over
	is.NoErr(WatchClock(s, false))
	told := func() (n int) {
		tick(s)
		view(t, s, func(tx *Tx) error { n = len(deliveriesOf(t, tx, h.ID)); return audit(tx) })
		return n
	}
	open := func() bool {
		var err error
		view(t, s, func(tx *Tx) error {
			r, err := tx.Slug(r.Slug)
			if err == nil {
				err = r.Open(tx.Now)
			}
			return err
		})
		return err == nil
	}
	const leap = 73 * 365 * day
	for range 3 {
		before, steady := s.Now(), s.MonotonicNow()
		c.add(leap)
		is.Equal(told(), 0)
		is.True(open())
		is.Equal(s.Now(), before)
		is.True(s.MonotonicNow().Sub(steady) < time.Minute) // nothing is tried again early
		d, doubts := s.ClockDoubt()
		is.True(doubts)
		is.Equal(d.Wait, time.Hour)
		c.pass(30 * time.Minute)
		is.Equal(s.Now(), before.Add(30*time.Minute)) // time goes on meanwhile
		is.NoErr(WatchClock(s, false))

		// Stopped and started, killed and started: the doubt stays.
		is.NoErr(s.Close())
		s = opened(t, s.Dir(), c.options())
		d, doubts = s.ClockDoubt()
		is.True(doubts)
		is.Equal(d.Wait, 30*time.Minute)
		is.Equal(told(), 0)
		c.pass(10 * time.Minute)
		is.NoErr(WatchClock(s, false))
		killed := opened(t, leftOf(t, s), c.options())
		d, doubts = killed.ClockDoubt()
		is.True(doubts)
		is.Equal(d.Wait, 20*time.Minute)
		is.True(killed.Now().Before(before.Add(time.Hour)))

		c.add(-leap)
		is.Equal(s.Now(), c.now().UTC())
		_, doubts = s.ClockDoubt()
		is.True(!doubts)
		is.NoErr(WatchClock(s, false))
		is.True(open())
		c.pass(time.Hour)
		is.NoErr(WatchClock(s, false))
	}
	c.pass(50 * time.Hour)
	is.Equal(told(), 1) // its time has really come
	c.add(leap)
	is.True(s.Now().Before(c.now().Add(-leap + time.Second)))
	c.pass(time.Hour)
	is.Equal(s.Now(), c.now().UTC()) // believed
}

// A machine that was off has the right time at once.
func TestClockAfterPause(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	s := opened(t, t.TempDir(), c.options())
	user(t, s, "ann")
	is.NoErr(s.Close())
	c.add(7 * day)
	c.elapsed.Store(0)
	s = opened(t, s.Dir(), c.options())
	is.Equal(s.Now(), c.now().UTC())
	_, doubts := s.ClockDoubt()
	is.True(!doubts)
}

// Writers that race with a clock that leaps to and fro never see it, and ids
// rise in the order of their making.
func TestClockRaces(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	s := opened(t, t.TempDir(), c.options())
	user(t, s, "ann")
	c.pass(time.Hour)
	is.NoErr(WatchClock(s, false))
	begun := s.Now()
	const leap = 73 * 365 * day
	var work sync.WaitGroup
	var lock sync.Mutex
	var ids []record.ID
	for i := range 200 {
		work.Go(func() {
			if i%4 == 0 {
				c.add(leap)
				defer c.add(-leap)
			}
			is.NoErr(s.Update(func(tx *Tx) error {
				id := tx.NewID()
				lock.Lock()
				ids = append(ids, id)
				lock.Unlock()
				if tx.Now.Sub(begun) > time.Minute {
					return fmt.Errorf("a transaction at %s", tx.Now)
				}
				return tx.Put(bucket("meta"), []byte("test"), append([]byte{}, id[:]...))
			}))
			is.NoErr(s.View(func(tx *Tx) error {
				if tx.Now.Sub(begun) > time.Minute {
					return fmt.Errorf("a look at %s", tx.Now)
				}
				return nil
			}))
		})
	}
	work.Wait()
	for i := 1; i < len(ids); i++ {
		is.True(string(ids[i-1][:]) < string(ids[i][:]))
	}
}
