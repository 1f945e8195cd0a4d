package kv

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/record"
)

func addFetch(s *Store, f record.Fetch) (made *record.Fetch, err error) {
	err = s.Update(func(tx *Tx) error { made, err = tx.AddFetch(f); return err })
	return made, err
}

func beginFetch(t testing.TB, s *Store, f *record.Fetch) (begun *record.Fetch) {
	t.Helper()
	update(t, s, func(tx *Tx) (err error) { begun, err = tx.BeginFetch(f.Owner, f.ID); return err })
	return begun
}

func readFetch(t testing.TB, s *Store, f *record.Fetch) (now *record.Fetch) {
	t.Helper()
	view(t, s, func(tx *Tx) (err error) { now, err = tx.Fetch(f.Owner, f.ID); return err })
	return now
}

// What a try takes is reserved while it runs, and at no other time; the slug
// as long as it is not over.
func TestFetchIsSetAside(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: 100}) })
	one, err := addFetch(s, record.Fetch{Owner: u.ID, URL: "https://example.org/a", Slug: "mine", Password: "hash"})
	is.NoErr(err)
	is.Equal(one.State, record.FetchWaits)
	begun := func() int64 {
		var use Usage
		view(t, s, func(tx *Tx) (err error) {
			use, err = tx.Usage(u)
			return err
		})
		return use.Begun
	}
	is.Equal(begun(), int64(0)) // it waits
	run := beginFetch(t, s, one)
	is.Equal(run.Tries, 1)
	is.Equal(code(s.Update(func(tx *Tx) error { _, err := tx.BeginFetch(u.ID, one.ID); return err })), "not_running") // it runs already
	run.Total = 101
	is.Equal(code(s.Update(func(tx *Tx) error { return tx.NoteFetch(run) })), "quota_exceeded")
	run.Total = 60
	update(t, s, func(tx *Tx) error { return tx.NoteFetch(run) })
	is.Equal(begun(), int64(60))
	_, err = beginUpload(s, Upload{Owner: u.ID, Length: 41})
	is.Equal(code(err), "quota_exceeded") // others feel it
	run.Bytes = 20
	update(t, s, func(tx *Tx) error { return tx.NoteFetch(run) })
	view(t, s, func(tx *Tx) error {
		is.Equal(tx.ReservedBytes(), int64(40))
		return audit(tx)
	})
	run.Total, run.Bytes = -1, 70 // as it grows
	update(t, s, func(tx *Tx) error { return tx.NoteFetch(run) })
	is.Equal(begun(), int64(70))

	// The slug is nobody else's: not a record's, an upload's or an upload request's.
	update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{}) })
	is.Equal(code(s.Update(func(tx *Tx) error {
		_, err := tx.Add(u.ID, record.Notes, form(t, record.Notes, `{"content":"c","slug":"mine"}`), nil, "")
		return err
	})), "slug_taken")
	_, err = beginUpload(s, Upload{Owner: u.ID, Slug: "mine"})
	is.Equal(code(err), "slug_taken")
	_, err = addFetch(s, record.Fetch{Owner: u.ID, Slug: "mine"})
	is.Equal(code(err), "slug_taken")
	ask := new(record.RequestForm)
	ask.Slug = "mine"
	is.Equal(code(s.Update(func(tx *Tx) error { _, err := tx.AddRequest(u.ID, ask, ""); return err })), "slug_taken")
	add(t, s, u.ID, record.Notes, `{"content":"c","slug":"hers"}`)
	_, err = addFetch(s, record.Fetch{Owner: u.ID, Slug: "hers"})
	is.Equal(code(err), "slug_taken")

	update(t, s, func(tx *Tx) error { return tx.FailFetch(run, "It broke off.", true, 0) })
	is.Equal(begun(), int64(0))
	is.Equal(readFetch(t, s, one).Problem, "It broke off.")
	run = beginFetch(t, s, one)
	is.Equal(run.Tries, 2)
	is.Equal(run.Bytes, int64(0)) // from the beginning
	mine := form(t, record.Files, `{}`)
	mine.Slug, mine.Folder, mine.AddTags = "mine", uuid.Max, []string{uuid.Max.String()}
	var r *record.Record
	update(t, s, func(tx *Tx) (err error) {
		r, err = tx.FinishFetch(run, mine, content(record.Files, 1, 60))
		return err
	})
	is.Equal(r.Slug, "mine")
	is.Equal(r.Password, "hash")
	done := readFetch(t, s, one)
	is.Equal([]any{done.State, done.File, done.Bytes, done.Problem}, []any{record.FetchDone, r.ID, int64(60), ""})
	is.Equal(begun(), int64(0))
	is.Equal(code(s.Update(func(tx *Tx) error { _, err := tx.FinishFetch(run, mine, content(record.Files, 1, 60)); return err })), "not_running") // once
	view(t, s, audit)
}

// Of a try that was cancelled, removed or started again meanwhile nothing comes.
func TestFetchIsCancelled(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u, other := user(t, s, "ann"), user(t, s, "ben")
	one, err := addFetch(s, record.Fetch{Owner: u.ID, Slug: "mine"})
	is.NoErr(err)
	nothing := func(f *record.Fetch, want string) {
		t.Helper()
		is.Helper()
		for _, verb := range []func(*Tx) error{
			func(tx *Tx) error { return tx.NoteFetch(f) },
			func(tx *Tx) error { return tx.FailFetch(f, "x", true, 0) },
			func(tx *Tx) error { return tx.RequeueFetch(f) },
			func(tx *Tx) error {
				_, err := tx.FinishFetch(f, form(t, record.Files, `{}`), content(record.Files, 1, 1))
				return err
			},
		} {
			is.Equal(code(s.Update(verb)), want)
		}
	}
	old := beginFetch(t, s, one)
	is.Equal(code(s.Update(func(tx *Tx) error { return tx.CancelFetch(other.ID, one.ID) })), "not_found")
	update(t, s, func(tx *Tx) error { return tx.CancelFetch(u.ID, one.ID) })
	is.Equal(code(s.Update(func(tx *Tx) error { return tx.CancelFetch(u.ID, one.ID) })), "remote_upload_over")
	nothing(old, "not_running")
	add(t, s, u.ID, record.Notes, `{"content":"c","slug":"mine"}`) // it is free
	is.Equal(code(s.Update(func(tx *Tx) error { return tx.RetryFetch(u.ID, one.ID, uuid.Nil) })), "slug_taken")

	two, err := addFetch(s, record.Fetch{Owner: u.ID})
	is.NoErr(err)
	old = beginFetch(t, s, two)
	update(t, s, func(tx *Tx) error { return tx.CancelFetch(u.ID, two.ID) })
	update(t, s, func(tx *Tx) error { return tx.RetryFetch(u.ID, two.ID, uuid.Nil) })
	is.Equal(code(s.Update(func(tx *Tx) error { return tx.RetryFetch(u.ID, two.ID, uuid.Nil) })), "remote_upload_not_failed")
	nothing(old, "not_running")
	run := beginFetch(t, s, two)
	is.Equal(run.Tries, 1)
	update(t, s, func(tx *Tx) error { return tx.RequeueFetch(run) })
	is.Equal(readFetch(t, s, two).Tries, 0) // it was no fault of the other server
	run = beginFetch(t, s, two)
	update(t, s, func(tx *Tx) error { return tx.RemoveFetch(u.ID, two.ID) })
	nothing(run, "not_found")

	three, err := addFetch(s, record.Fetch{Owner: u.ID})
	is.NoErr(err)
	run = beginFetch(t, s, three)
	run.Total = 1000
	update(t, s, func(tx *Tx) error { return tx.NoteFetch(run) })
	is.NoErr(s.RemoveUser(u.ID))
	nothing(run, "not_found")
	view(t, s, func(tx *Tx) error {
		is.Equal(leftOver(tx, u.ID), nil)
		is.Equal(tx.ReservedBytes(), int64(0))
		return audit(tx)
	})
}

// Each owner's first are found, once they are due, of those who may.
func TestDueFetches(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	due := func(busy ...record.ID) (ids []record.ID, wait time.Duration) {
		view(t, s, func(tx *Tx) error {
			found, w, err := tx.DueFetches(2, func(id record.ID) bool {
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
	ann, ben := user(t, s, "ann"), user(t, s, "ben")
	var of []*record.Fetch
	for _, owner := range []record.ID{ann.ID, ann.ID, ann.ID, ben.ID} {
		c.add(time.Millisecond)
		f, err := addFetch(s, record.Fetch{Owner: owner})
		is.NoErr(err)
		of = append(of, f)
	}
	ids, _ = due()
	is.Equal(ids, []record.ID{of[0].ID, of[1].ID, of[3].ID})
	ids, _ = due(of[0].ID)
	is.Equal(ids, []record.ID{of[1].ID, of[2].ID, of[3].ID})
	run := beginFetch(t, s, of[0])
	update(t, s, func(tx *Tx) error { return tx.FailFetch(run, "x", true, 25*time.Second) })
	ids, wait = due(of[1].ID, of[2].ID, of[3].ID)
	is.Equal(len(ids), 0)
	is.True(wait > 20*time.Second && wait <= 25*time.Second)
	c.add(time.Minute)
	ids, _ = due(of[1].ID, of[2].ID, of[3].ID)
	is.Equal(ids, []record.ID{of[0].ID})
	update(t, s, func(tx *Tx) error {
		u, err := tx.User(ann.ID)
		is.NoErr(err)
		u.Disabled = true
		return tx.SaveUser(u)
	})
	ids, _ = due()
	is.Equal(ids, []record.ID{of[3].ID})
	for i, name := range []string{"cat", "dan", "eve"} { // the one in the middle is due first
		f, err := addFetch(s, record.Fetch{Owner: user(t, s, name).ID})
		is.NoErr(err)
		run := beginFetch(t, s, f)
		asked := []time.Duration{40 * time.Second, 20 * time.Second, 30 * time.Second}[i]
		update(t, s, func(tx *Tx) error { return tx.FailFetch(run, "x", true, asked) })
	}
	_, wait = due()
	is.True(wait > 15*time.Second && wait <= 20*time.Second)
}

// So many wait, and so many and for so long are remembered.
func TestFetchesAreBounded(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	u := user(t, s, "ann")
	count := func() int {
		n := 0
		view(t, s, func(tx *Tx) error {
			all, err := tx.Fetches(u.ID)
			n = len(all)
			return err
		})
		return n
	}
	var first *record.Fetch
	for round := range 2 {
		update(t, s, func(tx *Tx) error {
			for range MaxFetches {
				f, err := tx.AddFetch(record.Fetch{Owner: u.ID})
				is.NoErr(err)
				if first == nil {
					first = f
				}
			}
			_, err := tx.AddFetch(record.Fetch{Owner: u.ID})
			is.Equal(code(err), "too_many_remote_uploads")
			return nil
		})
		is.Equal(count(), MaxFetches+min(round, 1)*keptFetches)
		c.add(time.Second)
		update(t, s, func(tx *Tx) error {
			all, err := tx.Fetches(u.ID)
			is.NoErr(err)
			for _, f := range all {
				if !f.Over() {
					is.NoErr(tx.CancelFetch(u.ID, f.ID))
				}
			}
			return nil
		})
		is.Equal(count(), keptFetches)
	}
	is.Equal(code(s.View(func(tx *Tx) error { _, err := tx.Fetch(u.ID, first.ID); return err })), "not_found")
	last, err := addFetch(s, record.Fetch{Owner: u.ID})
	is.NoErr(err)
	c.add(fetchTime - time.Minute)
	update(t, s, (*Tx).DropFetches)
	is.Equal(count(), keptFetches+1)
	c.add(time.Minute)
	update(t, s, (*Tx).DropFetches)
	is.Equal(count(), 1) // what waits stays
	update(t, s, func(tx *Tx) error { return tx.ClearFetches(u.ID) })
	is.Equal(count(), 1)
	update(t, s, func(tx *Tx) error { return tx.CancelFetch(u.ID, last.ID) })
	update(t, s, func(tx *Tx) error { return tx.ClearFetches(u.ID) })
	is.Equal(count(), 0)
	view(t, s, audit)
}

// What ran when the process ended waits again, with nothing reserved; but not
// for ever.
func TestResumeFetches(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, nil)
	u := user(t, s, "ann")
	one, err := addFetch(s, record.Fetch{Owner: u.ID, Slug: "mine"})
	is.NoErr(err)
	waits, err := addFetch(s, record.Fetch{Owner: u.ID})
	is.NoErr(err)
	for n := 1; ; n++ {
		run := beginFetch(t, s, one)
		run.Total, run.Bytes = 1000, 10
		update(t, s, func(tx *Tx) error { return tx.NoteFetch(run) })
		is.NoErr(s.Close())
		s = openAt(t, dir, nil)
		update(t, s, (*Tx).ResumeFetches)
		now := readFetch(t, s, one)
		view(t, s, func(tx *Tx) error {
			is.Equal(tx.ReservedBytes(), int64(0))
			return audit(tx)
		})
		if now.Over() {
			is.Equal(n, 5)
			is.Equal(now.Problem, "The server was stopped meanwhile.")
			break
		}
		is.True(!now.Due.After(s.MonotonicNow())) // at once
	}
	is.Equal(readFetch(t, s, waits).Tries, 0)
}

// What came of a remote upload and was not reserved counts at its end as what is
// new does, beside text. What was reserved has its place.
func TestFetchOfUnknownLengthIsCharged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":%q}`, strings.Repeat("x", 5000)))
	quota := func(n int64) {
		update(t, s, func(tx *Tx) error { return tx.SetSettings(record.Settings{DefaultQuota: n}) })
	}
	run := func(total int64) *record.Fetch {
		f, err := addFetch(s, record.Fetch{Owner: u.ID, URL: "https://example.org/a"})
		is.NoErr(err)
		f = beginFetch(t, s, f)
		f.Total = total
		update(t, s, func(tx *Tx) error { return tx.NoteFetch(f) })
		return f
	}
	finish := func(f *record.Fetch, ref byte, size int64) error {
		return s.Update(func(tx *Tx) error {
			_, err := tx.FinishFetch(f, form(t, record.Files, `{}`), content(record.Files, ref, size))
			return err
		})
	}
	quota(textNow(t, s, u.ID) + 1000)
	one, two := run(-1), run(-1)
	is.NoErr(finish(one, 1, 600))
	is.Equal(code(finish(two, 2, 600)), "quota_exceeded")
	is.Equal(readFetch(t, s, two).State, record.FetchRuns) // nothing changed

	quota(textNow(t, s, u.ID) + 600 + 1000) // 1000 are left
	two.Bytes = 400
	update(t, s, func(tx *Tx) error { return tx.NoteFetch(two) })
	is.Equal(code(finish(two, 2, 1001)), "quota_exceeded") // 400 are reserved
	is.NoErr(finish(two, 2, 1000))

	quota(textNow(t, s, u.ID) + 1600 + 1000)
	one = run(1000)
	update(t, s, func(tx *Tx) error { // text comes in between
		_, err := tx.Add(u.ID, record.Files, form(t, record.Files, `{"description":"d"}`), content(record.Files, 4, 0), "")
		return err
	})
	is.NoErr(finish(one, 3, 1000))
	view(t, s, audit)
}
