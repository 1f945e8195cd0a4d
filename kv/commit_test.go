package kv

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

	"kist/kv/record"
	"kist/kv/table"
)

// A writer that is alone gets a commit of its own, at once: no timer holds it
// back for others that do not come. A transaction that changes nothing is no
// commit.
func TestLoneWriter(t *testing.T) {
	is := is.New(t)
	s := open(t)
	n, fastest := commits(t, s), time.Hour
	for i := range 30 {
		start := time.Now()
		update(t, s, func(tx *Tx) error { return tx.Put(bucket("answer"), []byte{byte(i)}, nil) })
		fastest = min(fastest, time.Since(start))
	}
	is.Equal(commits(t, s), n+30)
	is.True(fastest < 5*time.Millisecond) // bbolt's own batches wait for 10
	update(t, s, func(tx *Tx) error { tx.NewID(); return nil })
	update(t, s, func(tx *Tx) error { return tx.Put(bucket("answer"), []byte{0}, nil) })
	is.True(errors.Is(s.Update(func(tx *Tx) error { return errors.Join(tx.Put(bucket("answer"), []byte{99}, nil), errPlanned) }), errPlanned))
	is.Equal(commits(t, s), n+30)
}

// together hands all jobs to the committer while it is busy, so that they
// share its next commit, and returns their errors.
func together(t testing.TB, s *Store, jobs []func(*Tx) error) []error {
	t.Helper()
	begun, gate, first := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		first <- s.Update(func(tx *Tx) error { close(begun); <-gate; return tx.Put(bucket("meta"), []byte("test"), tx.instant()) })
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
	s := open(t)
	u := user(t, s, "ann")
	n := commits(t, s)
	jobs := make([]func(*Tx) error, 64)
	made := make([]*record.Record, len(jobs))
	f := form(t, record.Notes, `{"content":"c","tags":["a"]}`)
	for i := range jobs {
		jobs[i] = func(tx *Tx) (err error) {
			made[i], err = tx.Add(u.ID, record.Notes, f, nil, "")
			return err
		}
	}
	is.NoErr(errors.Join(together(t, s, jobs)...))
	is.Equal(commits(t, s), n+1) // one for all, with the one that was under way
	for i, r := range made[1:] {
		is.True(string(r.ID[:]) > string(made[i].ID[:]))
		is.True(r.Seq == made[i].Seq+1)
		is.Equal(r.Tags, made[0].Tags)
	}
}

// Of jobs that share a commit, those that fail or panic leave nothing, and
// the others lose nothing.
func TestFailuresAreTakenBack(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	kept := add(t, s, u.ID, record.Notes, `{"content":"c","slug":"kept","tags":["a","b"]}`)
	jobs := make([]func(*Tx) error, 40)
	f := form(t, record.Notes, `{"content":"c","tags":["b","c"]}`)
	var id [40]record.ID
	for i := range jobs {
		jobs[i] = func(tx *Tx) error {
			r, err := tx.Add(u.ID, record.Notes, f, nil, "")
			if err != nil {
				return err
			}
			id[i] = r.ID
			switch i % 4 {
			case 1:
				again := *f
				again.Slug = r.Slug
				_, err = tx.Add(u.ID, record.Notes, &again, nil, "")
				return err
			case 2:
				if err := tx.Remove(kept); err != nil {
					return err
				}
				return errPlanned
			case 3:
				if err := tx.Remove(kept); err != nil {
					return err
				}
				var none *record.Record
				return tx.Remove(none)
			}
			return nil
		}
	}
	errs := together(t, s, jobs)
	view(t, s, func(tx *Tx) error {
		for i, err := range errs {
			_, there := tx.Record(u.ID, record.Notes, id[i].String())
			is.Equal(there == nil, i%4 == 0)
			switch i % 4 {
			case 0:
				is.NoErr(err)
			case 1:
				is.Equal(code(err), "slug_taken")
			case 2:
				is.True(errors.Is(err, errPlanned))
			case 3:
				is.True(strings.Contains(err.Error(), "panic in a transaction: runtime error"))
				is.True(strings.Contains(err.Error(), "commit_test.go")) // and where
			}
		}
		_, err := tx.Slug("kept")
		is.NoErr(err)
		return audit(tx)
	})
}

// What a verb refuses leaves nothing behind even if the caller goes on in the
// same transaction.
func TestTakenInTheSameTransaction(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	add(t, s, u.ID, record.Notes, `{"content":"c","slug":"a-slug"}`)
	f := form(t, record.Files, `{"slug":"a-slug"}`)
	other := form(t, record.Notes, `{"content":"d","slug":"b-slug"}`)
	var refused, tag error
	update(t, s, func(tx *Tx) error {
		_, refused = tx.Add(u.ID, record.Files, f, content(record.Files, 1, 1), "")
		if _, err := tx.AddTag(u.ID, "Tag", ""); err != nil {
			return err
		}
		_, tag = tx.AddTag(u.ID, "tAG", "")
		_, err := tx.Add(u.ID, record.Notes, other, nil, "")
		return err
	})
	is.Equal(code(refused), "slug_taken")
	is.Equal(refused.Error(), "This slug is in use already.")
	is.Equal(code(tag), "tag_taken")
	view(t, s, audit)
}

func TestClosed(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, nil)
	u := user(t, s, "ann")
	f := form(t, record.Notes, `{"content":"c"}`)
	errs, made := make([]error, 100), make([]record.ID, 100)
	var closed error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = s.Update(func(tx *Tx) error {
				r, err := tx.Add(u.ID, record.Notes, f, nil, "")
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
	is.True(errors.Is(s.Update(func(*Tx) error { return nil }), ErrClosed))
	is.True(errors.Is(s.View(func(*Tx) error { return nil }), ErrClosed))

	s = openAt(t, dir, nil)
	view(t, s, func(tx *Tx) error {
		n := 0
		for i, err := range errs {
			if err == nil { // what was acknowledged is there
				_, err := tx.Record(u.ID, record.Notes, made[i].String())
				is.NoErr(err)
				n++
			} else {
				is.True(errors.Is(err, ErrClosed))
			}
		}
		page, err := tx.List(Query{Owner: u.ID, Kind: record.Notes, Limit: 1})
		is.NoErr(err)
		is.Equal(page.Total, n)
		return audit(tx)
	})
}

// Ids sort in the order they were made, however many a millisecond has to
// give and wherever the clock goes.
func TestNewID(t *testing.T) {
	is := is.New(t)
	c := newClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, c.now)
	var last record.ID
	some := func(n int) {
		var made []record.ID
		update(t, s, func(tx *Tx) error {
			for range n {
				made = append(made, tx.NewID())
			}
			return tx.Put(bucket("answer"), made[0][:], nil)
		})
		for _, id := range made {
			is.True(string(id[:]) > string(last[:]))
			is.Equal(id.Version().String(), "VERSION_7")
			is.Equal(id.Variant().String(), "RFC4122")
			last = id
		}
	}
	some(1)
	is.Equal(time.Unix(last.Time().UnixTime()).UnixMilli(), c.ms.Load())
	some(10_000) // more than a millisecond has
	c.add(time.Millisecond)
	some(10)
	c.add(-time.Hour)
	some(10)
	is.NoErr(s.Close())
	c.add(-time.Hour)
	s = openAt(t, dir, c.now)
	some(10)
	s = copyOf(t, s)
	some(10)
}

// A verb that reads within a transaction sees what the transaction wrote
// before, whole pages emptied or not.
func TestListAfterRemovalInOneTransaction(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	f := form(t, record.Notes, `{"content":"`+strings.Repeat("x", 500)+`"}`)
	var made []*record.Record
	update(t, s, func(tx *Tx) error {
		for range 200 {
			r, err := tx.Add(u.ID, record.Notes, f, nil, "")
			if err != nil {
				return err
			}
			made = append(made, r)
		}
		return nil
	})
	for _, sort := range Sorts(record.Notes) {
		var page Page
		err := s.Update(func(tx *Tx) (err error) {
			for _, r := range made[50:150] {
				if err := tx.Remove(r); err != nil {
					return err
				}
			}
			if page, err = tx.List(Query{Owner: u.ID, Kind: record.Notes, Limit: 500, Sort: sort}); err != nil {
				return err
			}
			for _, r := range append(made[:50:50], made[150:]...) {
				if err := tx.Remove(r); err != nil {
					return err
				}
			}
			none, err := tx.List(Query{Owner: u.ID, Kind: record.Notes, Limit: 500, Sort: sort})
			if len(none.Records) > 0 {
				err = fmt.Errorf("%d records are left", len(none.Records))
			}
			return errors.Join(err, errPlanned)
		})
		is.True(errors.Is(err, errPlanned))
		is.Equal(len(page.Records), 100)
		is.Equal(page.Total, 100)
	}
}

func TestCursorErrors(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	for range 3 {
		add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	}
	view(t, s, func(tx *Tx) error {
		q := Query{Owner: u.ID, Kind: record.Notes, Limit: 1}
		page, err := tx.List(q)
		is.NoErr(err)
		good := page.Next
		for _, bad := range []string{"x", "====", good + "=", good[:len(good)-4], strings.Repeat("A", 1000), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
			q.After = bad
			_, err := tx.List(q)
			is.Equal(code(err), "bad_cursor")
		}
		yes := true
		for _, other := range []Query{
			{Owner: u.ID, Kind: record.Notes, Limit: 1, Sort: Oldest},
			{Owner: u.ID, Kind: record.Links, Limit: 1},
			{Owner: u.ID, Kind: record.Notes, Limit: 1, Public: &yes},
			{Owner: u.ID, Kind: record.Notes, Limit: 1, Text: "x"},
		} {
			other.After = good
			_, err := tx.List(other)
			is.Equal(code(err), "bad_cursor")
		}
		q.After, q.Limit = good, 7 // another page size is no other list
		page, err = tx.List(q)
		is.NoErr(err)
		is.Equal(len(page.Records), 2)
		return nil
	})
}

// An answer is one place, kept for a day.
func TestAnswers(t *testing.T) {
	is := is.New(t)
	c := newClock()
	s := openAt(t, filepath.Join(t.TempDir(), "data"), c.now)
	ann, bob := user(t, s, "ann").ID, user(t, s, "bob").ID
	get := func(owner record.ID, key string) (body []byte, err error) {
		err = s.View(func(tx *Tx) error {
			a, err := tx.IdempotentAnswer(owner, key)
			if err != nil {
				return err
			}
			body, err = a.For([]byte("request"))
			return err
		})
		return body, err
	}
	_, err := get(ann, "k")
	is.Equal(code(err), "not_found")
	update(t, s, func(tx *Tx) error {
		return tx.SaveIdempotentAnswer(ann, "k", IdempotentAnswer{[]byte("request"), []byte("yes")})
	})
	body, err := get(ann, "k")
	is.NoErr(err)
	is.Equal(string(body), "yes")
	_, err = get(bob, "k")
	is.Equal(code(err), "not_found")
	c.add(24*time.Hour - time.Millisecond)
	_, err = get(ann, "k")
	is.NoErr(err)
	update(t, s, func(tx *Tx) error { return tx.DropIdempotentAnswers() })
	_, err = get(ann, "k")
	is.NoErr(err)
	c.add(time.Millisecond)
	_, err = get(ann, "k")
	is.Equal(code(err), "not_found")
	update(t, s, func(tx *Tx) error {
		return tx.SaveIdempotentAnswer(bob, "k", IdempotentAnswer{[]byte("another"), []byte("no")})
	})
	update(t, s, func(tx *Tx) error { return tx.DropIdempotentAnswers() })
	view(t, s, func(tx *Tx) error {
		n := 0
		for range tx.Walk(bucket("answer"), nil, nil, false) {
			n++
		}
		is.Equal(n, 1)
		return nil
	})
}

func TestDamagedRow(t *testing.T) {
	is := is.New(t)
	s := open(t)
	u := user(t, s, "ann")
	bad, good := add(t, s, u.ID, record.Notes, `{"content":"c"}`), add(t, s, u.ID, record.Notes, `{"content":"c"}`)
	update(t, s, func(tx *Tx) error { return tx.Put(bucket("record"), bad.Key(), []byte{1, 1}) })
	is.NoErr(s.Seen(bad))
	is.NoErr(s.Seen(good))
	is.NoErr(s.Flush()) // one damaged row does not hold up the others' counts
	view(t, s, func(tx *Tx) error {
		is.Equal(viewed(tx, good)[0], int64(1))
		_, err := tx.Record(u.ID, record.Notes, bad.ID.String())
		is.True(err != nil && !errors.Is(err, table.ErrMissing) && code(err) == "")
		return nil
	})
}
