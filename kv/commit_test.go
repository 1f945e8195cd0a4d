package kv_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/history"
	"kist/kv/jobs"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/table"
)

// A lone writer gets a separate commit at once: no timer makes it wait for others. A
// transaction without changes makes no commit.
func TestLoneWriter(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	n, fastest := kvtest.Commits(t, s), time.Hour
	for i := range 30 {
		start := time.Now()
		kvtest.Update(t, s, func(tx *kv.Tx) error { return tx.Put(kvtest.Bucket("answer"), []byte{byte(i)}, nil) })
		fastest = min(fastest, time.Since(start))
	}
	is.Equal(kvtest.Commits(t, s), n+30)
	is.True(fastest < 5*time.Millisecond) // bbolt's own batches wait for 10
	kvtest.Update(t, s, func(tx *kv.Tx) error { tx.NewID(); return nil })
	kvtest.Update(t, s, func(tx *kv.Tx) error { return tx.Put(kvtest.Bucket("answer"), []byte{0}, nil) })
	is.True(errors.Is(s.Update(func(tx *kv.Tx) error {
		return errors.Join(tx.Put(kvtest.Bucket("answer"), []byte{99}, nil), kvtest.ErrPlanned)
	}), kvtest.ErrPlanned))
	is.Equal(kvtest.Commits(t, s), n+30)
}

// together hands all jobs to the committer while it is busy, so that they
// share its next commit, and returns their errors.
func together(t testing.TB, s *kv.Store, jobs []func(*kv.Tx) error) []error {
	t.Helper()
	begun, gate, first := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		first <- s.Update(func(tx *kv.Tx) error {
			close(begun)
			<-gate
			return tx.Put(kvtest.Bucket("meta"), []byte("test"), tx.Instant())
		})
	}()
	<-begun
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, fn := range jobs {
		wg.Go(func() { errs[i] = s.Update(fn) })
		for s.Waiting() < i+1 { // in this order
			runtime.Gosched()
		}
	}
	close(gate)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	return errs
}

func TestSharedCommit(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	n := kvtest.Commits(t, s)
	jobs := make([]func(*kv.Tx) error, 64)
	made := make([]*record.Record, len(jobs))
	f := kvtest.Form(t, record.Notes, `{"content":"c","tags":["a"]}`)
	for i := range jobs {
		jobs[i] = func(tx *kv.Tx) (err error) {
			made[i], err = catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: f})
			return err
		}
	}
	is.NoErr(errors.Join(together(t, s, jobs)...))
	is.Equal(kvtest.Commits(t, s), n+1) // one for all, with the one that was under way
	for i, r := range made[1:] {
		is.True(string(r.ID[:]) > string(made[i].ID[:]))
		is.True(r.Seq == made[i].Seq+1)
		is.Equal(r.Tags, made[0].Tags)
	}
}

// When jobs share a commit, failing or panicking ones leave nothing behind, and the
// others lose nothing.
func TestFailuresAreTakenBack(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kept := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c","slug":"kept","tags":["a","b"]}`)
	jobs := make([]func(*kv.Tx) error, 40)
	f := kvtest.Form(t, record.Notes, `{"content":"c","tags":["b","c"]}`)
	var id [40]record.ID
	for i := range jobs {
		jobs[i] = func(tx *kv.Tx) error {
			r, err := catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: f})
			if err != nil {
				return err
			}
			id[i] = r.ID
			switch i % 4 {
			case 1:
				again := *f
				again.Slug = r.Slug
				_, err = catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: &again})
				return err
			case 2:
				if err := catalog.Remove(tx, kept); err != nil {
					return err
				}
				return kvtest.ErrPlanned
			case 3:
				if err := catalog.Remove(tx, kept); err != nil {
					return err
				}
				var none *record.Record
				return catalog.Remove(tx, none)
			}
			return nil
		}
	}
	errs := together(t, s, jobs)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for i, err := range errs {
			_, there := catalog.Record(tx, u.ID, record.Notes, id[i].String())
			is.Equal(there == nil, i%4 == 0)
			switch i % 4 {
			case 0:
				is.NoErr(err)
			case 1:
				is.Equal(kvtest.Code(err), "slug_taken")
			case 2:
				is.True(errors.Is(err, kvtest.ErrPlanned))
			case 3:
				is.True(strings.Contains(err.Error(), "panic in a transaction: runtime error"))
				is.True(strings.Contains(err.Error(), "commit_test.go")) // and where
			}
		}
		_, err := catalog.Slug(tx, "kept")
		is.NoErr(err)
		return kvtest.Audit(tx)
	})
}

// A refused change leaves nothing behind even if the caller continues in the same
// transaction.
func TestTakenInTheSameTransaction(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c","slug":"a-slug"}`)
	f := kvtest.Form(t, record.Files, `{"slug":"a-slug"}`)
	other := kvtest.Form(t, record.Notes, `{"content":"d","slug":"b-slug"}`)
	var refused, tag error
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		_, refused = catalog.Add(tx, catalog.Draft{
			Owner: u.ID, Kind: record.Files, Form: f, Content: kvtest.Content(record.Files, 1, 1),
		})
		if _, err := catalog.AddTag(tx, u.ID, "Tag", ""); err != nil {
			return err
		}
		_, tag = catalog.AddTag(tx, u.ID, "tAG", "")
		_, err := catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: other})
		return err
	})
	is.Equal(kvtest.Code(refused), "slug_taken")
	is.Equal(refused.Error(), "This slug is in use already.")
	is.Equal(kvtest.Code(tag), "tag_taken")
	kvtest.View(t, s, kvtest.Audit)
}

func TestClosed(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	f := kvtest.Form(t, record.Notes, `{"content":"c"}`)
	errs, made := make([]error, 100), make([]record.ID, 100)
	var closed error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = s.Update(func(tx *kv.Tx) error {
				r, err := catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: f})
				if err == nil {
					made[i] = r.ID
				}
				return err
			})
		})
		if i == 50 {
			wg.Go(func() { closed = s.Close() })
		}
	}
	wg.Wait()
	is.NoErr(closed)
	is.NoErr(s.Close()) // again
	is.True(errors.Is(s.Update(func(*kv.Tx) error { return nil }), kv.ErrClosed))
	is.True(errors.Is(s.View(func(*kv.Tx) error { return nil }), kv.ErrClosed))

	s = kvtest.OpenAt(t, dir, nil)
	kvtest.View(t, s, func(tx *kv.Tx) error {
		n := 0
		for i, err := range errs {
			if err == nil { // what was acknowledged is there
				_, err := catalog.Record(tx, u.ID, record.Notes, made[i].String())
				is.NoErr(err)
				n++
			} else {
				is.True(errors.Is(err, kv.ErrClosed))
			}
		}
		page, err := catalog.List(tx, catalog.Query{Owner: u.ID, Kind: record.Notes, Limit: 1})
		is.NoErr(err)
		is.Equal(page.Total, n)
		return kvtest.Audit(tx)
	})
}

// Ids sort in the order in which they were made, however many are made in a
// millisecond and wherever the clock goes.
func TestNewID(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, c.Now)
	var last record.ID
	some := func(n int) {
		var made []record.ID
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			for range n {
				made = append(made, tx.NewID())
			}
			return tx.Put(kvtest.Bucket("answer"), made[0][:], nil)
		})
		for _, id := range made {
			is.True(string(id[:]) > string(last[:]))
			is.Equal(id.Version().String(), "VERSION_7")
			is.Equal(id.Variant().String(), "RFC4122")
			last = id
		}
	}
	some(1)
	is.Equal(time.Unix(last.Time().UnixTime()).UnixMilli(), c.Ms.Load())
	some(10_000) // more than a millisecond has
	c.Add(time.Millisecond)
	some(10)
	c.Add(-time.Hour)
	some(10)
	is.NoErr(s.Close())
	c.Add(-time.Hour)
	s = kvtest.OpenAt(t, dir, c.Now)
	some(10)
	s = kvtest.CopyOf(t, s)
	some(10)
}

// A read within a transaction sees earlier writes of the transaction, even if they
// emptied whole pages.
func TestListAfterRemovalInOneTransaction(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	f := kvtest.Form(t, record.Notes, `{"content":"`+strings.Repeat("x", 500)+`"}`)
	var made []*record.Record
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for range 200 {
			r, err := catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: f})
			if err != nil {
				return err
			}
			made = append(made, r)
		}
		return nil
	})
	for _, sort := range catalog.Sorts(record.Notes) {
		var page catalog.Page
		err := s.Update(func(tx *kv.Tx) (err error) {
			for _, r := range made[50:150] {
				if err := catalog.Remove(tx, r); err != nil {
					return err
				}
			}
			page, err = catalog.List(tx, catalog.Query{Owner: u.ID, Kind: record.Notes, Limit: 500, Sort: sort})
			if err != nil {
				return err
			}
			for _, r := range append(made[:50:50], made[150:]...) {
				if err := catalog.Remove(tx, r); err != nil {
					return err
				}
			}
			none, err := catalog.List(tx, catalog.Query{Owner: u.ID, Kind: record.Notes, Limit: 500, Sort: sort})
			if len(none.Records) > 0 {
				err = fmt.Errorf("%d records are left", len(none.Records))
			}
			return errors.Join(err, kvtest.ErrPlanned)
		})
		is.True(errors.Is(err, kvtest.ErrPlanned))
		is.Equal(len(page.Records), 100)
		is.Equal(page.Total, 100)
	}
}

func TestCursorErrors(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	for range 3 {
		kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		q := catalog.Query{Owner: u.ID, Kind: record.Notes, Limit: 1}
		page, err := catalog.List(tx, q)
		is.NoErr(err)
		good := page.Next
		for _, bad := range []string{
			"x", "====", good + "=", good[:len(good)-4], strings.Repeat("A", 1000), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		} {
			q.After = bad
			_, err := catalog.List(tx, q)
			is.Equal(kvtest.Code(err), "bad_cursor")
		}
		yes := true
		for _, other := range []catalog.Query{
			{Owner: u.ID, Kind: record.Notes, Limit: 1, Sort: catalog.Oldest},
			{Owner: u.ID, Kind: record.Links, Limit: 1},
			{Owner: u.ID, Kind: record.Notes, Limit: 1, Public: &yes},
			{Owner: u.ID, Kind: record.Notes, Limit: 1, Text: "x"},
		} {
			other.After = good
			_, err := catalog.List(tx, other)
			is.Equal(kvtest.Code(err), "bad_cursor")
		}
		q.After, q.Limit = good, 7 // another page size does not make another list
		page, err = catalog.List(tx, q)
		is.NoErr(err)
		is.Equal(len(page.Records), 2)
		return nil
	})
}

// An answer is stored in one place and kept for a day.
func TestAnswers(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, filepath.Join(t.TempDir(), "data"), c.Now)
	ann, bob := kvtest.User(t, s, "ann").ID, kvtest.User(t, s, "bob").ID
	get := func(owner record.ID, key string) (body []byte, err error) {
		err = s.View(func(tx *kv.Tx) error {
			a, err := jobs.FindAnswer(tx, owner, key)
			if err != nil {
				return err
			}
			body, err = a.For([]byte("request"))
			return err
		})
		return body, err
	}
	_, err := get(ann, "k")
	is.Equal(kvtest.Code(err), "not_found")
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		return jobs.SaveIdempotentAnswer(tx, ann, "k", jobs.IdempotentAnswer{Request: []byte("request"), Body: []byte("yes")})
	})
	body, err := get(ann, "k")
	is.NoErr(err)
	is.Equal(string(body), "yes")
	_, err = get(bob, "k")
	is.Equal(kvtest.Code(err), "not_found")
	c.Add(24*time.Hour - time.Millisecond)
	_, err = get(ann, "k")
	is.NoErr(err)
	is.NoErr(jobs.DropIdempotentAnswers(s))
	_, err = get(ann, "k")
	is.NoErr(err)
	c.Add(time.Millisecond)
	_, err = get(ann, "k")
	is.Equal(kvtest.Code(err), "not_found")
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		return jobs.SaveIdempotentAnswer(tx, bob, "k", jobs.IdempotentAnswer{Request: []byte("another"), Body: []byte("no")})
	})
	is.NoErr(jobs.DropIdempotentAnswers(s))
	kvtest.View(t, s, func(tx *kv.Tx) error {
		n := 0
		for range tx.Walk(kvtest.Bucket("answer"), nil, nil, false) {
			n++
		}
		is.Equal(n, 1)
		return nil
	})
}

func TestDamagedRow(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	bad, good := kvtest.Add(
		t, s, u.ID, record.Notes, `{"content":"c"}`,
	), kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	kvtest.Update(t, s, func(tx *kv.Tx) error { return tx.Put(kvtest.Bucket("record"), bad.Key(), []byte{1, 1}) })
	is.NoErr(catalog.Seen(s, bad, history.Visit{}))
	is.NoErr(catalog.Seen(s, good, history.Visit{}))
	is.NoErr(s.Flush()) // one damaged row does not hold up the others' counts
	kvtest.View(t, s, func(tx *kv.Tx) error {
		is.Equal(kvtest.Viewed(tx, good)[0], int64(1))
		_, err := catalog.Record(tx, u.ID, record.Notes, bad.ID.String())
		is.True(err != nil && !errors.Is(err, table.ErrMissing) && kvtest.Code(err) == "")
		return nil
	})
}
