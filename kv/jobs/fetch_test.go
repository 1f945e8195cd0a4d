package jobs_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

// The consequences of a failed try.
func TestFetchFailed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steady := now.Add(time.Hour)
	for _, c := range []struct {
		name   string
		tries  int
		passes bool
		asked  time.Duration
		wait   time.Duration // 0: it has failed
	}{
		{"first", 1, true, 0, 10 * time.Second},
		{"second", 2, true, 0, time.Minute},
		{"third", 3, true, 0, 5 * time.Minute},
		{"fourth", 4, true, 0, 30 * time.Minute},
		{"fifth", 5, true, 0, 0},
		{"for good", 1, false, 0, 0},
		{"asked for more", 1, true, 40 * time.Second, 40 * time.Second},
		{"asked for less", 2, true, time.Second, time.Minute},
		{"asked for a day", 1, true, 24 * time.Hour, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			f := jobs.Fetch{State: jobs.FetchRuns, Tries: c.tries, Total: 100, Bytes: 7}
			is.Equal(f.Reserved(), int64(100))
			f.Failed("why", c.passes, c.asked, now, steady)
			is.Equal(f.Problem, "why")
			is.Equal(f.Reserved(), int64(0))
			is.Equal(f.Over(), c.wait == 0)
			if c.wait == 0 {
				is.Equal(f.State, jobs.FetchFailed)
				is.Equal(f.Ended, now)
				is.True(f.Due.IsZero())
				f.Again(steady)
				is.Equal(f, jobs.Fetch{State: jobs.FetchWaits, Due: steady, Total: -1})
				return
			}
			is.Equal(f.State, jobs.FetchWaits)
			is.Equal(f.Due, steady.Add(c.wait))
			is.True(f.Ended.IsZero())
		})
	}
}

func addFetch(s *kv.Store, f jobs.Fetch) (made *jobs.Fetch, err error) {
	err = s.Update(func(tx *kv.Tx) error { made, err = jobs.AddFetch(tx, f); return err })
	return made, err
}

func beginFetch(t testing.TB, s *kv.Store, f *jobs.Fetch) (begun *jobs.Fetch) {
	t.Helper()
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) { begun, err = jobs.BeginFetch(tx, f.Owner, f.ID); return err })
	return begun
}

func readFetch(t testing.TB, s *kv.Store, f *jobs.Fetch) (now *jobs.Fetch) {
	t.Helper()
	kvtest.View(t, s, func(tx *kv.Tx) (err error) { now, err = jobs.ReadFetch(tx, f.Owner, f.ID); return err })
	return now
}

// Space is reserved only while a try is running. The slug is reserved until the
// remote upload is over.
func TestFetchIsSetAside(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	leave := func(n int64) { // the row of the remote upload counts as text
		t.Helper()
		full := kvtest.TextNow(t, s, u.ID)
		kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: full + n}) })
	}
	one, err := addFetch(s, jobs.Fetch{Owner: u.ID, URL: "https://example.org/a", Slug: "mine", Password: "hash"})
	is.NoErr(err)
	is.Equal(one.State, jobs.FetchWaits)
	begun := func() int64 {
		var use people.Usage
		kvtest.View(t, s, func(tx *kv.Tx) (err error) {
			use, err = people.UsageOf(tx, u)
			return err
		})
		return use.Begun
	}
	is.Equal(begun(), int64(0)) // it is waiting
	run := beginFetch(t, s, one)
	is.Equal(run.Tries, 1)
	leave(100)
	// already running
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := jobs.BeginFetch(tx, u.ID, one.ID)
		return err
	})), "not_running")
	run.Total = 101
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return jobs.NoteFetch(tx, run) })), "quota_exceeded")
	run.Total = 60
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.NoteFetch(tx, run) })
	is.Equal(begun(), int64(60))
	leave(100)
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Length: 41})
	is.Equal(kvtest.Code(err), "quota_exceeded") // the reservation counts for other uploads
	run.Bytes = 20
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.NoteFetch(tx, run) })
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(inbox.ReservedBytes(tx), int64(40))
		return kvtest.Audit(tx)
	})
	run.Total, run.Bytes = -1, 70 // as it grows
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.NoteFetch(tx, run) })
	is.Equal(begun(), int64(70))

	// Nothing else can take the slug: no record, upload or upload request.
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{}) })
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := catalog.Add(tx, catalog.Draft{
			Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, `{"content":"c","slug":"mine"}`),
		})
		return err
	})), "slug_taken")
	_, err = kvtest.BeginUpload(s, inbox.Upload{Owner: u.ID, Slug: "mine"})
	is.Equal(kvtest.Code(err), "slug_taken")
	_, err = addFetch(s, jobs.Fetch{Owner: u.ID, Slug: "mine"})
	is.Equal(kvtest.Code(err), "slug_taken")
	ask := new(inbox.RequestForm)
	ask.Slug = "mine"
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		_, err := inbox.AddRequest(tx, u.ID, ask, "")
		return err
	})), "slug_taken")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c","slug":"hers"}`)
	_, err = addFetch(s, jobs.Fetch{Owner: u.ID, Slug: "hers"})
	is.Equal(kvtest.Code(err), "slug_taken")

	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.FailFetch(tx, run, "It broke off.", true, 0) })
	is.Equal(begun(), int64(0))
	is.Equal(readFetch(t, s, one).Problem, "It broke off.")
	run = beginFetch(t, s, one)
	is.Equal(run.Tries, 2)
	is.Equal(run.Bytes, int64(0)) // from the start
	mine := kvtest.Form(t, record.Files, `{}`)
	mine.Slug, mine.Folder, mine.AddTags = "mine", uuid.Max, []string{uuid.Max.String()}
	var r *record.Record
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		is.NoErr(inbox.FinishFetch(tx, run, mine, kvtest.Content(record.Files, 1, 60)))
		r, err = catalog.Record(tx, run.Owner, record.Files, "mine")
		return err
	})
	is.Equal(r.Slug, "mine")
	is.Equal(r.Password, "hash")
	done := readFetch(t, s, one)
	is.Equal([]any{done.State, done.File, done.Bytes, done.Problem}, []any{jobs.FetchDone, r.ID, int64(60), ""})
	is.Equal(begun(), int64(0))
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		return inbox.FinishFetch(tx, run, mine, kvtest.Content(record.Files, 1, 60))
	})), "not_running") // once
	kvtest.View(t, s, kvtest.Audit)
}

// A try that was cancelled, removed or started again in the meantime has no effect.
func TestFetchIsCancelled(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u, other := kvtest.User(t, s, "ann"), kvtest.User(t, s, "ben")
	one, err := addFetch(s, jobs.Fetch{Owner: u.ID, Slug: "mine"})
	is.NoErr(err)
	nothing := func(f *jobs.Fetch, want string) {
		t.Helper()
		is.Helper()
		for _, verb := range []func(*kv.Tx) error{
			func(tx *kv.Tx) error { return jobs.NoteFetch(tx, f) },
			func(tx *kv.Tx) error { return jobs.FailFetch(tx, f, "x", true, 0) },
			func(tx *kv.Tx) error { return jobs.RequeueFetch(tx, f) },
			func(tx *kv.Tx) error {
				return inbox.FinishFetch(tx, f, kvtest.Form(t, record.Files, `{}`), kvtest.Content(record.Files, 1, 1))
			},
		} {
			is.Equal(kvtest.Code(s.Update(verb)), want)
		}
	}
	old := beginFetch(t, s, one)
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error { return jobs.CancelFetch(tx, other.ID, one.ID) })), "not_found")
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.CancelFetch(tx, u.ID, one.ID) })
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		return jobs.CancelFetch(tx, u.ID, one.ID)
	})), "remote_upload_over")
	nothing(old, "not_running")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c","slug":"mine"}`) // it is free
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		return jobs.RetryFetch(tx, u.ID, one.ID, uuid.Nil)
	})), "slug_taken")

	two, err := addFetch(s, jobs.Fetch{Owner: u.ID})
	is.NoErr(err)
	old = beginFetch(t, s, two)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.CancelFetch(tx, u.ID, two.ID) })
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.RetryFetch(tx, u.ID, two.ID, uuid.Nil) })
	is.Equal(kvtest.Code(s.Update(func(tx *kv.Tx) error {
		return jobs.RetryFetch(tx, u.ID, two.ID, uuid.Nil)
	})), "remote_upload_not_failed")
	nothing(old, "not_running")
	run := beginFetch(t, s, two)
	is.Equal(run.Tries, 1)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.RequeueFetch(tx, run) })
	is.Equal(readFetch(t, s, two).Tries, 0) // the other server was not at fault
	run = beginFetch(t, s, two)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.RemoveFetch(tx, u.ID, two.ID) })
	nothing(run, "not_found")

	three, err := addFetch(s, jobs.Fetch{Owner: u.ID})
	is.NoErr(err)
	run = beginFetch(t, s, three)
	run.Total = 1000
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.NoteFetch(tx, run) })
	is.NoErr(people.RemoveUser(s, u.ID, "root"))
	nothing(run, "not_found")
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.LeftOver(tx, u.ID), nil)
		is.Equal(inbox.ReservedBytes(tx), int64(0))
		return kvtest.Audit(tx)
	})
}

// DueFetches finds the first due remote uploads of each owner whose account is enabled.
func TestDueFetches(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	due := func(busy ...record.ID) (ids []record.ID, wait time.Duration) {
		kvtest.View(t, s, func(tx *kv.Tx) error {
			found, w, err := jobs.DueFetches(tx, 2, func(id record.ID) bool {
				for _, b := range busy {
					if b == id {
						return true
					}
				}
				return false
			})
			for _, f := range found {
				ids = append(ids, f.ID)
			}
			wait = w
			return err
		})
		return ids, wait
	}
	ids, wait := due()
	is.Equal(len(ids), 0)
	is.Equal(wait, time.Duration(0))
	ann, ben := kvtest.User(t, s, "ann"), kvtest.User(t, s, "ben")
	var of []*jobs.Fetch
	for _, owner := range []record.ID{ann.ID, ann.ID, ann.ID, ben.ID} {
		c.Add(time.Millisecond)
		f, err := addFetch(s, jobs.Fetch{Owner: owner})
		is.NoErr(err)
		of = append(of, f)
	}
	ids, _ = due()
	is.Equal(ids, []record.ID{of[0].ID, of[1].ID, of[3].ID})
	ids, _ = due(of[0].ID)
	is.Equal(ids, []record.ID{of[1].ID, of[2].ID, of[3].ID})
	run := beginFetch(t, s, of[0])
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.FailFetch(tx, run, "x", true, 25*time.Second) })
	ids, wait = due(of[1].ID, of[2].ID, of[3].ID)
	is.Equal(len(ids), 0)
	is.True(wait > 20*time.Second && wait <= 25*time.Second)
	c.Add(time.Minute)
	ids, _ = due(of[1].ID, of[2].ID, of[3].ID)
	is.Equal(ids, []record.ID{of[0].ID})
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, ann.ID)
		is.NoErr(err)
		u.Disabled = true
		return people.SaveUser(tx, u)
	})
	ids, _ = due()
	is.Equal(ids, []record.ID{of[3].ID})
	for i, name := range []string{"cat", "dan", "eve"} { // the one in the middle is due first
		f, err := addFetch(s, jobs.Fetch{Owner: kvtest.User(t, s, name).ID})
		is.NoErr(err)
		run := beginFetch(t, s, f)
		asked := []time.Duration{40 * time.Second, 20 * time.Second, 30 * time.Second}[i]
		kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.FailFetch(tx, run, "x", true, asked) })
	}
	_, wait = due()
	is.True(wait > 15*time.Second && wait <= 20*time.Second)
}

// Waiting and finished remote uploads are bounded, and finished ones expire.
func TestFetchesAreBounded(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	u := kvtest.User(t, s, "ann")
	count := func() int {
		n := 0
		kvtest.View(t, s, func(tx *kv.Tx) error {
			all, err := jobs.Fetches(tx, u.ID)
			n = len(all)
			return err
		})
		return n
	}
	var first *jobs.Fetch
	for round := range 2 {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			for range jobs.MaxFetches {
				f, err := jobs.AddFetch(tx, jobs.Fetch{Owner: u.ID})
				is.NoErr(err)
				if first == nil {
					first = f
				}
			}
			_, err := jobs.AddFetch(tx, jobs.Fetch{Owner: u.ID})
			is.Equal(kvtest.Code(err), "too_many_remote_uploads")
			return nil
		})
		is.Equal(count(), jobs.MaxFetches+min(round, 1)*jobs.KeptFetches)
		c.Add(time.Second)
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			all, err := jobs.Fetches(tx, u.ID)
			is.NoErr(err)
			for _, f := range all {
				if !f.Over() {
					is.NoErr(jobs.CancelFetch(tx, u.ID, f.ID))
				}
			}
			return nil
		})
		is.Equal(count(), jobs.KeptFetches)
	}
	is.Equal(kvtest.Code(s.View(func(tx *kv.Tx) error {
		_, err := jobs.ReadFetch(tx, u.ID, first.ID)
		return err
	})), "not_found")
	last, err := addFetch(s, jobs.Fetch{Owner: u.ID})
	is.NoErr(err)
	c.Add(jobs.FetchTime - time.Minute)
	kvtest.Update(t, s, jobs.DropFetches)
	is.Equal(count(), jobs.KeptFetches+1)
	c.Add(time.Minute)
	kvtest.Update(t, s, jobs.DropFetches)
	is.Equal(count(), 1) // the waiting one stays
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.ClearFetches(tx, u.ID) })
	is.Equal(count(), 1)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.CancelFetch(tx, u.ID, last.ID) })
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.ClearFetches(tx, u.ID) })
	is.Equal(count(), 0)
	kvtest.View(t, s, kvtest.Audit)
}

// Remote uploads that were running when the process ended wait again, with nothing
// reserved, but not for ever.
func TestResumeFetches(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	one, err := addFetch(s, jobs.Fetch{Owner: u.ID, Slug: "mine"})
	is.NoErr(err)
	waits, err := addFetch(s, jobs.Fetch{Owner: u.ID})
	is.NoErr(err)
	for n := 1; ; n++ {
		run := beginFetch(t, s, one)
		run.Total, run.Bytes = 1000, 10
		kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.NoteFetch(tx, run) })
		is.NoErr(s.Close())
		s = kvtest.OpenAt(t, dir, nil)
		kvtest.Update(t, s, jobs.ResumeFetches)
		now := readFetch(t, s, one)
		kvtest.View(t, s, func(tx *kv.Tx) error {
			is.Equal(inbox.ReservedBytes(tx), int64(0))
			return kvtest.Audit(tx)
		})
		if now.Over() {
			is.Equal(n, 5)
			is.Equal(now.Problem, "The server was stopped during the transfer.")
			break
		}
		is.True(!now.Due.After(s.MonotonicNow())) // at once
	}
	is.Equal(readFetch(t, s, waits).Tries, 0)
}

// At the end of a remote upload, bytes that were not reserved are charged on top of
// text, like a new file. Reserved bytes always fit.
func TestFetchOfUnknownLengthIsCharged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":%q}`, strings.Repeat("x", 5000)))
	quota := func(n int64) {
		kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{DefaultQuota: n}) })
	}
	run := func(total int64) *jobs.Fetch {
		f, err := addFetch(s, jobs.Fetch{Owner: u.ID, URL: "https://example.org/a"})
		is.NoErr(err)
		f = beginFetch(t, s, f)
		f.Total = total
		kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.NoteFetch(tx, f) })
		return f
	}
	finish := func(f *jobs.Fetch, ref byte, size int64) error {
		return s.Update(func(tx *kv.Tx) error {
			return inbox.FinishFetch(tx, f, kvtest.Form(t, record.Files, `{}`), kvtest.Content(record.Files, ref, size))
		})
	}
	one, two := run(-1), run(-1)
	quota(kvtest.TextNow(t, s, u.ID) + 1000)
	is.NoErr(finish(one, 1, 600))
	is.Equal(kvtest.Code(finish(two, 2, 600)), "quota_exceeded")
	is.Equal(readFetch(t, s, two).State, jobs.FetchRuns) // nothing changed

	quota(0)
	two.Bytes = 400
	kvtest.Update(t, s, func(tx *kv.Tx) error { return jobs.NoteFetch(tx, two) })
	quota(kvtest.TextNow(t, s, u.ID) + 600 + 1000)                // 1000 are left
	is.Equal(kvtest.Code(finish(two, 2, 1001)), "quota_exceeded") // 400 are reserved
	is.NoErr(finish(two, 2, 1000))

	quota(0)
	one = run(1000)
	quota(kvtest.TextNow(t, s, u.ID) + 1600 + 1000)
	kvtest.Update(t, s, func(tx *kv.Tx) error { // text is added in between
		_, err := catalog.Add(tx, catalog.Draft{
			Owner: u.ID, Kind: record.Files, Form: kvtest.Form(t, record.Files, `{"description":"d"}`), Content: kvtest.Content(record.Files, 4, 0),
		})
		return err
	})
	is.NoErr(finish(one, 3, 1000))
	kvtest.View(t, s, kvtest.Audit)
}
