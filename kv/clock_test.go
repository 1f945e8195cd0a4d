package kv_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/tables"
)

const day = 24 * time.Hour

// clocks are a wall clock and a monotonic clock, both driven by a test.
type clocks struct {
	kvtest.Clock
	elapsed atomic.Int64
}

func newClocks() *clocks {
	c := new(clocks)
	c.Ms.Store(kvtest.NewClock().Ms.Load())
	return c
}

func (c *clocks) options() kv.Options {
	return kv.Options{Schema: tables.All, Now: c.Now, Log: kvtest.Quiet, Elapsed: func() time.Duration {
		return time.Duration(c.elapsed.Load())
	}}
}

// pass moves both clocks forward.
func (c *clocks) pass(d time.Duration) {
	c.elapsed.Add(int64(d))
	c.Add(d)
}

// Nothing expires because a clock jumps for a while, even over a restart, and
// everything continues when the clock is right again.
func TestClockJumps(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	s := kvtest.Opened(t, t.TempDir(), c.options())
	u := kvtest.User(t, s, "ann")
	var h jobs.Webhook
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		h, err = jobs.AddWebhook(tx, jobs.Webhook{Owner: u.ID, Events: []jobs.Event{jobs.ItemExpired}, Enabled: true})
		return err
	})
	r := kvtest.Add(
		t, s, u.ID, record.Notes,
		fmt.Sprintf(`{"content":"c","isPublic":true,"expiresAt":%q}`, c.Now().Add(50*time.Hour).UTC().Format(time.RFC3339)),
	)
	c.pass(time.Hour) // the start is over
	is.NoErr(kv.WatchClock(s, false))
	told := func() (n int) {
		kvtest.Tick(s)
		kvtest.View(t, s, func(tx *kv.Tx) error { n = len(kvtest.DeliveriesOf(t, tx, h.ID)); return kvtest.Audit(tx) })
		return n
	}
	open := func() bool {
		var err error
		kvtest.View(t, s, func(tx *kv.Tx) error {
			r, err := catalog.Slug(tx, r.Slug)
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
		c.Add(leap)
		is.Equal(told(), 0)
		is.True(open())
		is.Equal(s.Now(), before)
		is.True(s.MonotonicNow().Sub(steady) < time.Minute) // nothing is tried again early
		d, doubts := s.ClockDoubt()
		is.True(doubts)
		is.Equal(d.Wait, time.Hour)
		c.pass(30 * time.Minute)
		is.Equal(s.Now(), before.Add(30*time.Minute)) // time goes on meanwhile
		is.NoErr(kv.WatchClock(s, false))

		// Stopped and started, killed and started: the doubt stays.
		is.NoErr(s.Close())
		s = kvtest.Opened(t, s.Dir(), c.options())
		d, doubts = s.ClockDoubt()
		is.True(doubts)
		is.Equal(d.Wait, 30*time.Minute)
		is.Equal(told(), 0)
		c.pass(10 * time.Minute)
		is.NoErr(kv.WatchClock(s, false))
		killed := kvtest.Opened(t, kvtest.LeftOf(t, s), c.options())
		d, doubts = killed.ClockDoubt()
		is.True(doubts)
		is.Equal(d.Wait, 20*time.Minute)
		is.True(killed.Now().Before(before.Add(time.Hour)))

		c.Add(-leap)
		is.Equal(s.Now(), c.Now().UTC())
		_, doubts = s.ClockDoubt()
		is.True(!doubts)
		is.NoErr(kv.WatchClock(s, false))
		is.True(open())
		c.pass(time.Hour)
		is.NoErr(kv.WatchClock(s, false))
	}
	c.pass(50 * time.Hour)
	is.Equal(told(), 1) // its time has really come
	c.Add(leap)
	is.True(s.Now().Before(c.Now().Add(-leap + time.Second)))
	c.pass(time.Hour)
	is.Equal(s.Now(), c.Now().UTC()) // believed
}

// A machine that was off has the right time at once.
func TestClockAfterPause(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	s := kvtest.Opened(t, t.TempDir(), c.options())
	kvtest.User(t, s, "ann")
	is.NoErr(s.Close())
	c.Add(7 * day)
	c.elapsed.Store(0)
	s = kvtest.Opened(t, s.Dir(), c.options())
	is.Equal(s.Now(), c.Now().UTC())
	_, doubts := s.ClockDoubt()
	is.True(!doubts)
}

// A doubt says when it ends, also after a short leap.
func TestClockDoubtEnds(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	s := kvtest.Opened(t, t.TempDir(), c.options())
	c.pass(time.Hour) // the start is over
	is.NoErr(kv.WatchClock(s, false))
	c.Add(5 * time.Minute)
	for _, left := range []time.Duration{5 * time.Minute, 4 * time.Minute, time.Minute} {
		is.NoErr(kv.WatchClock(s, false))
		d, doubts := s.ClockDoubt()
		is.True(doubts)
		c.pass(d.Wait - left)
		d, _ = s.ClockDoubt()
		is.Equal(d.Wait, left)
	}
	c.pass(time.Minute)
	is.NoErr(kv.WatchClock(s, false))
	_, doubts := s.ClockDoubt()
	is.True(!doubts)
}

// Writers that race with a clock leaping back and forth never see the leaps, and ids
// rise in the order in which they are made.
func TestClockRaces(t *testing.T) {
	is := is.New(t)
	c := newClocks()
	s := kvtest.Opened(t, t.TempDir(), c.options())
	kvtest.User(t, s, "ann")
	c.pass(time.Hour)
	is.NoErr(kv.WatchClock(s, false))
	begun := s.Now()
	const leap = 73 * 365 * day
	var work sync.WaitGroup
	var lock sync.Mutex
	var ids []record.ID
	for i := range 200 {
		work.Go(func() {
			if i%4 == 0 {
				c.Add(leap)
				defer c.Add(-leap)
			}
			is.NoErr(s.Update(func(tx *kv.Tx) error {
				id := tx.NewID()
				lock.Lock()
				ids = append(ids, id)
				lock.Unlock()
				if tx.Now.Sub(begun) > time.Minute {
					return fmt.Errorf("a transaction at %s", tx.Now)
				}
				return tx.Put(kvtest.Bucket("meta"), []byte("test"), append([]byte{}, id[:]...))
			}))
			is.NoErr(s.View(func(tx *kv.Tx) error {
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
