package jobs_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"

	"github.com/matryer/is"
)

// Deliveries are part of the transaction that they report.
func TestDeliveries(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	hook := func(owner record.ID, enabled bool, events ...jobs.Event) (h jobs.Webhook) {
		kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
			h, err = jobs.AddWebhook(
				tx, jobs.Webhook{Owner: owner, URL: "https://example.org/", Events: events, Enabled: enabled},
			)
			return err
		})
		return h
	}
	all, some, off, other := hook(ann.ID, true, "*"), hook(ann.ID, true, "note.updated"), hook(ann.ID, false, "*"), hook(bob.ID, true, "*")
	waiting := func(h jobs.Webhook) (events []jobs.Event) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			for _, d := range kvtest.DeliveriesOf(t, tx, h.ID) {
				events = append(events, d.Event)
				_, n, err := jobs.ReadDelivery(tx, jobs.Place{Owner: ann.ID, Hook: h.ID, ID: d.ID})
				is.NoErr(err)
				v, err := n.Shown()
				is.NoErr(err)
				is.Equal(v.Owner, ann.ID)
				is.Equal(d.Subject, v.ID)
			}
			return nil
		})
		return events
	}
	f := kvtest.Form(
		t, record.Notes,
		`{"content":"c","slug":"the-slug","tags":["t"],"isPublic":true,"maxViews":1,"maxViewsAction":"delete"}`,
	)
	n := kvtest.Commits(t, s)
	failed := s.Update(func(tx *kv.Tx) error {
		if _, err := catalog.Add(tx, catalog.Draft{Owner: ann.ID, Kind: record.Notes, Form: f}); err != nil {
			return err
		}
		return kvtest.ErrPlanned
	})
	is.Equal(failed.Error(), kvtest.ErrPlanned.Error())
	is.Equal(kvtest.Commits(t, s), n)
	is.Equal(len(waiting(all)), 0)

	var r *record.Record
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		r, err = catalog.Add(tx, catalog.Draft{Owner: ann.ID, Kind: record.Notes, Form: f})
		return err
	})
	is.Equal(kvtest.Commits(t, s), n+1) // with the record
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := catalog.Add(tx, catalog.Draft{Owner: ann.ID, Kind: record.Notes, Form: f})
		return err
	})), "slug_taken")
	is.Equal(waiting(all), []jobs.Event{"note.created"})
	r = kvtest.Edit(t, s, r, `{"title":"x"}`)
	is.NoErr(catalog.Seen(s, r, history.Visit{}))
	is.Equal(waiting(all), []jobs.Event{"note.created", "note.updated", "limit.reached", "note.deleted"})
	is.Equal(waiting(some), []jobs.Event{"note.updated"})
	is.Equal(len(waiting(off)), 0)
	is.Equal(len(waiting(other)), 0)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		d := kvtest.DeliveriesOf(t, tx, all.ID)[3]
		_, n, err := jobs.ReadDelivery(tx, jobs.Place{Owner: ann.ID, Hook: all.ID, ID: d.ID})
		is.NoErr(err)
		is.Equal(n.Views, int64(1))
		is.Equal(n.Tags[0].Name, "t")
		_, _, err = jobs.ReadDelivery(tx, jobs.Place{Owner: bob.ID, Hook: all.ID, ID: d.ID})
		is.Equal(kvtest.Code(err), "not_found")
		return kvtest.Audit(tx)
	})

	is.Equal(kvtest.Code(jobs.RemoveWebhook(s, bob.ID, all.ID)), "not_found")
	is.NoErr(jobs.RemoveWebhook(s, ann.ID, all.ID))
	is.Equal(len(waiting(all)), 0)
	kvtest.View(t, s, kvtest.Audit)
}

// openStill opens a store whose retry clock follows the store's clock.
func openStill(t testing.TB, dir string, now func() time.Time) *kv.Store {
	t.Helper()
	return kvtest.Opened(t, dir, kv.Options{Schema: tables.All, Now: now, Log: kvtest.Quiet, Monotonic: func() time.Duration {
		return 0
	}})
}

func hookNow(t testing.TB, s *kv.Store, h jobs.Webhook) (now *jobs.Webhook) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) (err error) { now, err = jobs.ReadWebhook(tx, h.Owner, h.ID); return err })
	return now
}

// A delivery is tried at once and then on the schedule, and is parked after the
// eighth try. All of this survives reopening the store.
func TestRetrySchedule(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := openStill(t, dir, c.Now)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, "*")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	for i, wait := range []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 0,
	} {
		found, _ := kvtest.Due(t, s)
		is.Equal(len(found), 1)
		kvtest.Tried(t, s, found[0], "no")
		is.Equal(hookNow(t, s, h).Failures, i+1)
		if i%3 == 2 {
			is.NoErr(s.Close())
			s = openStill(t, dir, c.Now)
		}
		found, left := kvtest.Due(t, s)
		is.Equal(len(found), 0)
		is.Equal(left, wait)
		c.Add(wait - time.Millisecond)
		found, _ = kvtest.Due(t, s)
		is.Equal(len(found), 0)
		c.Add(time.Millisecond)
	}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		d := kvtest.DeliveriesOf(t, tx, h.ID)[0]
		is.Equal(d.State, jobs.DeliveryParked)
		is.Equal(d.Tries, 8)
		is.Equal(d.Error, "no")
		return kvtest.Audit(tx)
	})
}

// A target may ask for more time, an hour at most.
func TestRetryAfter(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := openStill(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	kvtest.HookFor(t, s, u.ID, "*")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	for asked, want := range map[time.Duration]time.Duration{
		time.Second: 5 * time.Second, time.Minute: time.Minute, 100 * time.Hour: time.Hour,
	} {
		found, _ := kvtest.Due(t, s)
		kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.Tried(tx, found[0], jobs.Try{Error: "no", Wait: asked}) })
		_, left := kvtest.Due(t, s)
		is.Equal(left, want)
		kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.Redeliver(tx, found[0]) })
	}
}

// TestHold: 429 and 503 with Retry-After hold the target and use up no try. Then
// what has waited comes first, and in each record the order stays.
func TestHold(t *testing.T) {
	for name, row := range map[string]struct {
		try   jobs.Try
		holds time.Duration // 0: it counts as a try of the schedule
	}{
		"too many":            {jobs.Try{Error: "no", Status: 429, Wait: 2 * time.Second}, 2 * time.Second},
		"overloaded":          {jobs.Try{Error: "no", Status: 503, Wait: time.Minute}, time.Minute},
		"asks for very long":  {jobs.Try{Error: "no", Status: 429, Wait: 100 * time.Hour}, time.Hour},
		"does not say":        {jobs.Try{Error: "no", Status: 429}, 0},
		"is broken":           {jobs.Try{Error: "no", Status: 500, Wait: time.Second}, 0},
		"does not answer":     {jobs.Try{Error: "no"}, 0},
		"overloaded for good": {jobs.Try{Error: "no", Status: 503}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			c := kvtest.NewClock()
			dir := filepath.Join(t.TempDir(), "data")
			s := openStill(t, dir, c.Now)
			u := kvtest.User(t, s, "ann")
			h := kvtest.HookFor(t, s, u.ID, "*")
			first := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"first"}`)
			kvtest.Edit(t, s, first, `{"content":"changed"}`)
			c.Add(time.Millisecond)
			kvtest.Add(t, s, u.ID, record.Notes, `{"content":"second"}`)

			found, _ := kvtest.Due(t, s)
			is.Equal(len(found), 2)
			kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.Tried(tx, found[0], row.try) })
			c.Add(time.Millisecond)
			kvtest.Add(t, s, u.ID, record.Notes, `{"content":"third"}`)
			if row.holds == 0 {
				others, _ := kvtest.Due(t, s)
				is.Equal(len(others), 2) // not held
				return
			}

			is.NoErr(s.Close())
			s = openStill(t, dir, c.Now) // it is kept
			nothing, left := kvtest.Due(t, s)
			is.Equal(len(nothing), 0)
			is.Equal(left, row.holds-time.Millisecond)
			c.Add(left)
			all, _ := kvtest.Due(t, s)
			is.Equal(len(all), 3)
			is.Equal(all[0], found[1])
			is.Equal(all[2], found[0]) // after what has waited
			kvtest.View(t, s, func(tx *kv.Tx) error {
				d, _, err := jobs.ReadDelivery(tx, found[0])
				is.NoErr(err)
				is.Equal(d.Tries, 0)
				is.Equal(d.Event, jobs.Created(record.Notes)) // the change comes later
				return kvtest.Audit(tx)
			})

			kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.Tried(tx, all[0], row.try) })
			kvtest.Update(t, s, func(tx *kv.Tx) error {
				now, err := jobs.ReadWebhook(tx, h.Owner, h.ID)
				is.NoErr(err)
				return jobs.SaveWebhook(tx, now) // such as to another address
			})
			all, _ = kvtest.Due(t, s)
			is.Equal(len(all), 2)
		})
	}
}

// An event that is refused for days is given up as any other.
func TestHoldEnds(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := openStill(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, "*")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	tries := 0
	for range 1000 {
		found, left := kvtest.Due(t, s)
		if len(found) == 0 && left == 0 {
			break
		}
		c.Add(left)
		if len(found) == 0 {
			continue
		}
		tries++
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			if err := jobs.Tried(tx, found[0], jobs.Try{Error: "no", Status: 503, Wait: time.Hour}); err != nil {
				return err
			}
			return jobs.Tried(tx, jobs.Place{Owner: h.Owner, Hook: h.ID, ID: record.ID{1}}, jobs.Try{}) // another one arrives
		})
	}
	is.True(tries > 72 && tries < 100)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.DeliveriesOf(t, tx, h.ID)[0].State, jobs.DeliveryParked)
		return kvtest.Audit(tx)
	})
}

// A failing delivery holds back only the later ones of its record.
func TestHeadOfLine(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := openStill(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, "*")
	one := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"one"}`)
	one = kvtest.Edit(t, s, one, `{"content":"two"}`)
	other := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"other"}`)
	events := func() (all []string) {
		found, _ := kvtest.Due(t, s)
		kvtest.View(t, s, func(tx *kv.Tx) error {
			for _, p := range found {
				d, _, err := jobs.ReadDelivery(tx, p)
				is.NoErr(err)
				all = append(all, fmt.Sprint(d.Event, " ", map[record.ID]string{one.ID: "one", other.ID: "other"}[d.Subject]))
			}
			return kvtest.Audit(tx)
		})
		slices.Sort(all)
		return all
	}
	is.Equal(events(), []string{"note.created one", "note.created other"})
	found, _ := kvtest.Due(t, s)
	kvtest.Tried(t, s, found[0], "no")
	is.Equal(events(), []string{"note.created other"})
	kvtest.Tried(t, s, found[1], "")
	is.Equal(events(), nil)
	c.Add(5 * time.Second)
	is.Equal(events(), []string{"note.created one"})
	kvtest.Tried(t, s, found[0], "")
	is.Equal(events(), []string{"note.updated one"})
	first := found[0]
	found, _ = kvtest.Due(t, s)

	// A redelivery goes before later deliveries.
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.Redeliver(tx, first) })
	is.Equal(events(), []string{"note.created one"})
	kvtest.Tried(t, s, found[0], "no") // it was being sent
	is.Equal(events(), []string{"note.created one"})
	kvtest.Tried(t, s, first, "")
	is.Equal(events(), []string{"note.updated one"})
	is.Equal(hookNow(t, s, h).Failures, 0)
}

// A target that has failed for three days is paused. A change of the webhook, or a
// successful delivery, ends the pause. Events during the pause wait.
func TestPause(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := openStill(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, "*")
	fail := func() {
		kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
		found, _ := kvtest.Due(t, s)
		kvtest.Tried(t, s, found[len(found)-1], "no")
	}
	pause := func() {
		fail()
		c.Add(24 * time.Hour)
		fail()
		c.Add(25 * time.Hour)
		fail()
		c.Add(23*time.Hour - time.Second)
		fail()
		is.True(hookNow(t, s, h).Paused.IsZero())
		c.Add(time.Second)
		fail()
		is.Equal(hookNow(t, s, h).Paused.UnixMilli(), c.Now().UnixMilli())
		found, wait := kvtest.Due(t, s)
		is.Equal(len(found), 0)
		is.Equal(wait, time.Duration(0))
		kvtest.Add(t, s, u.ID, record.Notes, `{"content":"meanwhile"}`)
	}
	pause()
	c.Add(24 * time.Hour)
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		h, err := jobs.ReadWebhook(tx, u.ID, h.ID)
		is.NoErr(err)
		return jobs.SaveWebhook(tx, h)
	})
	found, _ := kvtest.Due(t, s)
	is.Equal(len(found), 6)
	for _, p := range found {
		kvtest.Tried(t, s, p, "")
	}
	// Two failures far apart, with nothing sent in between, do not count as three
	// days of failures.
	fail()
	c.Add(1000 * time.Hour)
	fail()
	is.True(hookNow(t, s, h).Paused.IsZero())
	kvtest.Tried(t, s, found[0], "")
	pause()
	p := jobs.Place{Owner: u.ID, Hook: h.ID, ID: record.ID{7}}
	redeliver := s.Update(func(tx *kv.Tx) error { return jobs.Redeliver(tx, found[0]) })
	is.Equal(kvtest.Code(redeliver), "webhook_off")
	select {
	case <-jobs.DueSignal(s):
	default:
	}
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		return jobs.Tested(tx, p, jobs.WebhookTest, tx.Now, jobs.Notice{Title: "x"}, jobs.Try{Status: 204})
	})
	<-jobs.DueSignal(s)
	is.True(hookNow(t, s, h).Paused.IsZero())
	kvtest.View(t, s, func(tx *kv.Tx) error {
		log, err := jobs.DeliveryLog(tx, h.ID)
		is.NoErr(err)
		is.Equal(log[0].ID, p.ID)
		is.Equal(log[0].State, jobs.DeliveryDone)
		return kvtest.Audit(tx)
	})
}

// Setting the clock back does not hold up retries, although the store's time then
// stands still.
func TestRetriesGoOnWhenTheClockIsSetBack(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	var elapsed time.Duration
	o := kv.Options{Schema: tables.All, Now: c.Now, Log: kvtest.Quiet, Monotonic: func() time.Duration { return elapsed }}
	s := kvtest.Opened(t, t.TempDir(), o)
	u := kvtest.User(t, s, "ann")
	kvtest.HookFor(t, s, u.ID, "*")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	c.Add(1000 * time.Hour)
	found, _ := kvtest.Due(t, s)
	kvtest.Tried(t, s, found[0], "no")
	c.Add(-1000 * time.Hour)
	found, wait := kvtest.Due(t, s)
	is.Equal(len(found), 0)
	is.Equal(wait, 5*time.Second)
	elapsed += 4 * time.Second
	_, wait = kvtest.Due(t, s)
	is.Equal(wait, time.Second)
	elapsed += time.Second
	found, _ = kvtest.Due(t, s)
	is.Equal(len(found), 1)
	// Nor does a restart after a stop or a kill.
	kvtest.Tried(t, s, found[0], "no")
	elapsed += 10 * time.Second
	before := s.MonotonicNow()
	is.NoErr(s.Close())
	s = kvtest.Opened(t, s.Dir(), o)
	is.True(!s.MonotonicNow().Before(before))
	_, wait = kvtest.Due(t, s)
	is.True(wait <= 20*time.Second)
	elapsed += 20 * time.Second
	found, _ = kvtest.Due(t, s)
	is.Equal(len(found), 1)
	kvtest.Tried(t, s, found[0], "no") // due in two minutes
	s = openStill(t, kvtest.LeftOf(t, s), c.Now)
	_, wait = kvtest.Due(t, s)
	is.True(wait > 110*time.Second && wait < 130*time.Second)
	before = s.MonotonicNow()
	c.Add(2000 * time.Hour) // and forward
	is.Equal(s.MonotonicNow().Sub(before) > 900*time.Hour, true)
}

// A webhook with a full queue gives up the oldest deliveries and reports it.
func TestFullQueue(t *testing.T) {
	needs.Time(t)
	is := is.New(t)
	c := kvtest.NewClock()
	s := openStill(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, "*")
	const size = jobs.MaxQueuedBytes / 10
	big := jobs.Notice{Title: strings.Repeat("x", size)}
	for i := range 13 {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			return jobs.Emit(tx, u.ID, jobs.UploadReceived, record.ID{byte(i % 2)}, big)
		})
	}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(jobs.Queued(tx, h.ID), int64(9))
		states := map[jobs.DeliveryState]int{}
		for _, d := range kvtest.DeliveriesOf(t, tx, h.ID) {
			states[d.State]++
			is.True((d.State == jobs.DeliveryParked) == (d.Error != ""))
		}
		is.Equal(states[jobs.DeliveryParked], 1) // the log has its own bound
		return kvtest.Audit(tx)
	})
	is.True(strings.Contains(hookNow(t, s, h).LastError, "was full"))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		all := kvtest.DeliveriesOf(t, tx, h.ID)
		is.Equal(all[0].State, jobs.DeliveryParked) // the oldest except those that the log dropped
		is.Equal(all[1].State, jobs.DeliveryWaits)
		is.Equal(jobs.Oldest(tx, h.ID, jobs.LogWaiting), kv.OwnedKey(h.ID, all[1].ID[:]...))
		return nil
	})
	found, _ := kvtest.Due(t, s)
	is.Equal(len(found), 2)
}

// However much is queued for a target, DueDeliveries reads only what is due. An
// unreadable webhook holds up no other.
func TestDueIsCheap(t *testing.T) {
	needs.Time(t)
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	dead, alive := kvtest.HookFor(t, s, u.ID, jobs.UploadReceived), kvtest.HookFor(t, s, u.ID, jobs.UploadApproved)
	for range 10 {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			for range 1000 {
				if err := jobs.Emit(tx, u.ID, jobs.UploadReceived, tx.NewID(), jobs.Notice{Title: "t"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		return jobs.Emit(tx, u.ID, jobs.UploadApproved, tx.NewID(), jobs.Notice{})
	})
	kvtest.View(t, s, func(tx *kv.Tx) error {
		asked := 0
		found, _, err := jobs.DueDeliveries(tx, func(*jobs.Webhook) int {
			return 2
		}, func(jobs.Due) bool { asked++; return false })
		is.NoErr(err)
		is.Equal(len(found), 3)
		is.True(asked <= 5) // two and one more, and one
		is.Equal(found[2].Hook, alive.ID)
		d, _, err := jobs.ReadDelivery(tx, found[0].Place)
		is.NoErr(err)
		is.Equal(found[0].Subject, d.Subject)
		found, _, err = jobs.DueDeliveries(tx, func(*jobs.Webhook) int {
			return 1
		}, func(x jobs.Due) bool { return x.Subject == d.Subject })
		is.NoErr(err)
		is.Equal(len(found), 2)
		is.True(found[0].Subject != d.Subject)
		return nil
	})
	harmed := errors.New("not to be kept")
	is.True(errors.Is(s.Update(func(tx *kv.Tx) error {
		is.NoErr(tx.Put(kvtest.Bucket("webhook"), kv.OwnedKey(u.ID, dead.ID[:]...), []byte("{")))
		found, _, err := jobs.DueDeliveries(tx, func(*jobs.Webhook) int { return 1 }, func(jobs.Due) bool { return false })
		is.NoErr(err)
		is.Equal(len(found), 1)
		is.Equal(found[0].Hook, alive.ID)
		return harmed
	}), harmed))
	is.NoErr(jobs.RemoveWebhook(s, u.ID, dead.ID))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, dead.ID), nil)
		return kvtest.Audit(tx)
	})
}

// The log keeps the last 200 finished deliveries and also shows failing ones.
func TestDeliveryLog(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := openStill(t, t.TempDir(), c.Now)
	u := kvtest.User(t, s, "ann")
	h := kvtest.HookFor(t, s, u.ID, "*")
	for i := range jobs.LogLength + 50 {
		kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
		found, _ := kvtest.Due(t, s)
		p := found[len(found)-1]
		kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.Tried(tx, p, jobs.Try{Status: 200 + i, Answer: "fine"}) })
		c.Add(time.Second)
	}
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	found, _ := kvtest.Due(t, s)
	kvtest.Tried(t, s, found[0], "no")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"never tried"}`)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		log, err := jobs.DeliveryLog(tx, h.ID)
		is.NoErr(err)
		is.Equal(len(log), jobs.LogLength)
		is.Equal(log[0].Error, "no")
		is.Equal(log[1].Status, 200+jobs.LogLength+49)
		is.Equal(len(kvtest.DeliveriesOf(t, tx, h.ID)), jobs.LogLength+2)
		return kvtest.Audit(tx)
	})
}

// A disabled account gets no deliveries until it is enabled again.
func TestShutAccountsAreNotTold(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	kvtest.User(t, s, "root")
	u := kvtest.User(t, s, "ann")
	kvtest.HookFor(t, s, u.ID, "*")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	disable := func(yes bool) {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, u.ID)
			is.NoErr(err)
			u.Disabled = yes
			return people.SaveUser(tx, u)
		})
	}
	disable(true)
	found, _ := kvtest.Due(t, s)
	is.Equal(len(found), 0)
	disable(false)
	found, _ = kvtest.Due(t, s)
	is.Equal(len(found), 1)
}

// The model of the queue: every delivery, in the order of creation.
type queued struct {
	id      record.ID
	hook    int
	subject byte
	state   jobs.DeliveryState
	due     int64 // after start; only for the first waiting one of a subject
	tries   int
}

type queueModel struct {
	all     []*queued
	failing map[int]int64 // since when, by webhook
	paused  map[int]bool
	tried   map[int]int64 // the last failure, by webhook
}

// first is the subject's next delivery; nil if none is waiting.
func (m *queueModel) first(hook int, subject byte) *queued {
	for _, q := range m.all {
		if q.hook == hook && q.subject == subject && q.state == jobs.DeliveryWaits {
			return q
		}
	}
	return nil
}

// Random histories agree with the model. They include restarts after a kill, a clock
// that jumps both ways, late results and paused webhooks.
func TestQueueModel(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { queueHistory(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func queueHistory(t *testing.T, rnd *rand.Rand) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := openStill(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	hs := []jobs.Webhook{
		kvtest.HookFor(t, s, u.ID, "*"), kvtest.HookFor(t, s, u.ID, jobs.UploadReceived),
		kvtest.HookFor(t, s, u.ID, jobs.UploadApproved),
	}
	m := &queueModel{failing: map[int]int64{}, paused: map[int]bool{}, tried: map[int]int64{}}
	at := func(q *queued) jobs.Place { return jobs.Place{Owner: u.ID, Hook: hs[q.hook].ID, ID: q.id} }
	schedule := []int64{0, 5e3, 30e3, 120e3, 600e3, 3600e3, 6 * 3600e3, 24 * 3600e3}
	for step := range 250 {
		now := s.MonotonicNow().UnixMilli()
		switch op := rnd.IntN(20); {
		case op < 7:
			e, subject := []jobs.Event{
				jobs.UploadReceived, jobs.UploadApproved, jobs.UploadRejected,
			}[rnd.IntN(3)], byte(rnd.IntN(4))
			planned := rnd.IntN(8) == 0
			err := s.Update(func(tx *kv.Tx) error {
				if err := jobs.Emit(tx, u.ID, e, record.ID{subject}, jobs.Notice{Title: "t"}); err != nil || !planned {
					return err
				}
				return kvtest.ErrPlanned
			})
			if planned {
				is.True(errors.Is(err, kvtest.ErrPlanned))
				break
			}
			is.NoErr(err)
			for i, h := range hs {
				if !h.Wants(e) {
					continue
				}
				q := &queued{hook: i, subject: subject, state: jobs.DeliveryWaits, due: now}
				kvtest.View(t, s, func(tx *kv.Tx) error {
					all := kvtest.DeliveriesOf(t, tx, h.ID)
					q.id = all[len(all)-1].ID
					return nil
				})
				m.all = append(m.all, q)
			}
		case op < 14 && len(m.all) > 0: // a result, of a due delivery or a late one
			q := m.all[rnd.IntN(len(m.all))]
			if first := m.first(q.hook, q.subject); first != nil && rnd.IntN(6) > 0 {
				q = first
			}
			fails := rnd.IntN(3) > 0
			problem := ""
			if fails {
				problem = "no"
			}
			kvtest.Tried(t, s, at(q), problem)
			q.tries++
			switch {
			case !fails:
				delete(m.failing, q.hook)
				m.paused[q.hook] = false
				q.state = jobs.DeliveryDone
			case m.failing[q.hook] == 0 || now-m.tried[q.hook] > (25*time.Hour).Milliseconds():
				m.failing[q.hook] = now
			case now-m.failing[q.hook] >= (3 * 24 * time.Hour).Milliseconds():
				m.paused[q.hook] = true
			}
			m.tried[q.hook] = now
			if fails && q.state == jobs.DeliveryWaits {
				q.due = 0
				if q.tries >= len(schedule) {
					q.state = jobs.DeliveryParked
				} else if m.first(q.hook, q.subject) == q {
					q.due = now + schedule[q.tries]
				}
			}
		case op == 14 && len(m.all) > 0: // by hand
			q := m.all[rnd.IntN(len(m.all))]
			err := s.Update(func(tx *kv.Tx) error { return jobs.Redeliver(tx, at(q)) })
			if m.paused[q.hook] {
				is.Equal(kvtest.Code(err), "webhook_off")
				break
			}
			is.NoErr(err)
			q.state, q.tries, q.due = jobs.DeliveryWaits, 0, now
		case op == 15:
			h := rnd.IntN(len(hs))
			kvtest.Update(t, s, func(tx *kv.Tx) error {
				h, err := jobs.ReadWebhook(tx, u.ID, hs[h].ID)
				return errors.Join(err, jobs.SaveWebhook(tx, h))
			})
			delete(m.failing, h)
			m.paused[h] = false
		case op == 16:
			s = openStill(t, kvtest.LeftOf(t, s), c.Now) // killed
		case op == 17:
			c.Add(-time.Duration(rnd.IntN(3600)) * time.Second)
		default:
			c.Add(time.Duration(rnd.ExpFloat64() * float64(2*time.Hour)))
		}

		now = s.MonotonicNow().UnixMilli()
		want := map[jobs.Place]bool{}
		for _, q := range m.all {
			first := m.first(q.hook, q.subject) == q
			if q.state == jobs.DeliveryWaits && !first {
				q.due = 0
			}
			if first && q.due == 0 {
				q.due = now
			}
			if first && q.due <= now && !m.paused[q.hook] {
				want[at(q)] = true
			}
		}
		found, _ := kvtest.Due(t, s)
		got := map[jobs.Place]bool{}
		for _, p := range found {
			got[p] = true
		}
		for _, q := range m.all {
			if got[at(q)] != want[at(q)] {
				t.Fatalf("delivery %s of webhook %d: due %t, want %t", q.id, q.hook, got[at(q)], want[at(q)])
			}
		}
		is.Equal(len(got), len(want))
		kvtest.View(t, s, func(tx *kv.Tx) error {
			for i, h := range hs {
				all := kvtest.DeliveriesOf(t, tx, h.ID)
				mine := slices.DeleteFunc(slices.Clone(m.all), func(q *queued) bool { return q.hook != i })
				slices.SortFunc(mine, func(a, b *queued) int { return bytes.Compare(a.id[:], b.id[:]) })
				is.Equal(len(all), len(mine))
				for j, d := range all {
					if d.ID != mine[j].id || d.State != mine[j].state || d.Tries != mine[j].tries {
						t.Fatalf("delivery %s is %s after %d tries; want %+v", d.ID, d.State, d.Tries, mine[j])
					}
				}
			}
			if step%10 > 0 {
				return nil
			}
			return kvtest.Audit(tx)
		})
	}
}

// A failed backup is told to the webhooks of administrators, and to no others.
func TestBackupFailed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	ann := kvtest.User(t, s, "ann") // an administrator
	var ben *people.User
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		ben, err = people.AddUser(tx, people.User{Name: "ben", Role: people.Member, Quota: -1})
		return err
	})
	kvtest.HookFor(t, s, ann.ID, jobs.BackupFailed)
	kvtest.HookFor(t, s, ann.ID, jobs.AllEvents)
	kvtest.HookFor(t, s, ann.ID, jobs.ItemExpired)
	kvtest.HookFor(t, s, ben.ID, jobs.AllEvents)
	kvtest.HookFor(t, s, ben.ID, jobs.BackupFailed)
	is.NoErr(jobs.TellBackupFailed(s, "There is no room left.", time.Time{}))
	places, _ := kvtest.Due(t, s)
	is.Equal(len(places), 2)
	for _, p := range places {
		is.Equal(p.Owner, ann.ID)
		kvtest.View(t, s, func(tx *kv.Tx) error {
			_, n, err := jobs.ReadDelivery(tx, p)
			is.NoErr(err)
			is.Equal(string(n.Data), `{"error":"There is no room left.","lastAt":null}`)
			return nil
		})
	}
}
