package kv_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/tables"
)

// drain brings all commits to the working copy.
func drain(s *kv.Store) error {
	return kv.Between(s, func() error { _, err := kv.Drain(s); return err })
}

// The store can be read at every moment while its changes move to the working copy, and
// every view is consistent.
func TestViewsWhileChangesMove(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for i := range 150 {
				var r *record.Record
				if err := s.Update(func(tx *kv.Tx) (err error) {
					r, err = catalog.Add(tx, catalog.Draft{
						Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(
							t, record.Notes, fmt.Sprintf(`{"content":"c","tags":["t%d"]}`, i%7),
						),
					})
					return err
				}); err != nil {
					t.Error(err)
					return
				}
				if err := s.View(func(tx *kv.Tx) error {
					_, err := catalog.Owned(tx, u.ID, record.Notes, r.ID)
					return err
				}); err != nil {
					t.Errorf("an acknowledged note is missing: %v", err)
				}
				if i%3 == w%3 {
					if err := s.Update(func(tx *kv.Tx) error {
						r, err := catalog.Record(tx, u.ID, record.Notes, r.ID.String())
						if err != nil {
							return err
						}
						return catalog.Remove(tx, r)
					}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for {
				if err := s.View(kvtest.Audit); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	var problems []error
	writers.Go(func() {
		for range 10 {
			if err := s.CheckCopy(func(err error) { problems = append(problems, err) }); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Go(func() { // the moves do not wait for enough commits
		for range 30 {
			if err := drain(s); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	close(done)
	readers.Wait()
	is.NoErr(s.CheckCopy(func(err error) { problems = append(problems, err) }))
	is.Equal(len(problems), 0)
}

// While the working copy cannot be written, everything acknowledged can be read and
// nothing new is stored. The store goes on when it can be written again. If that never
// happens, the next start makes a new one.
func TestWorkingCopyFails(t *testing.T) {
	t.Parallel()
	for _, mended := range []bool{true, false} {
		t.Run(fmt.Sprint(mended), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
			is.NoErr(err)
			u := kvtest.User(t, s, "ann")
			name := []byte(kvtest.Bucket("tag").Name)
			change := func(fn func(*bolt.Tx) error) { is.NoErr(kv.StoreBolt(s).Update(fn)) }
			change(func(b *bolt.Tx) error { return b.DeleteBucket(name) })
			r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c","tags":["t"]}`)
			is.True(errors.Is(drain(s), kv.ErrCopy))
			is.True(s.Failing())
			add := func() error {
				return s.Update(func(tx *kv.Tx) error {
					_, err := catalog.Add(tx, catalog.Draft{
						Owner: u.ID, Kind: record.Notes, Form: kvtest.Form(t, record.Notes, `{"content":"c"}`),
					})
					return err
				})
			}
			is.True(errors.Is(add(), kv.ErrUnwritable))
			kvtest.View(t, s, func(tx *kv.Tx) error { _, err := catalog.Owned(tx, u.ID, record.Notes, r.ID); return err })
			notes := 1
			if mended {
				is.NoErr(kv.Bolt(s).Update(func(b *bolt.Tx) error { _, err := b.CreateBucket(name); return err }))
				err := drain(s)                 // tries again at once
				if errors.Is(err, kv.ErrCopy) { // an attempt that began before has failed
					err = drain(s)
				}
				is.NoErr(err)
				is.NoErr(add())
				notes++
				is.True(!s.Failing())
				is.NoErr(s.Close())
			} else {
				is.True(errors.Is(s.Close(), kv.ErrCopy))
			}
			s = kvtest.OpenAt(t, dir, nil)
			kvtest.View(t, s, kvtest.Audit)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				for _, err := range catalog.NewestFirst(tx, u.ID, record.Notes) {
					is.NoErr(err)
					notes--
				}
				return nil
			})
			is.Equal(notes, 0)
		})
	}
}
