package kv_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/tables"
	"kist/kv/workcopy"
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
					r, err = catalog.Add(tx, u.ID, record.Notes, kvtest.Form(t, record.Notes, fmt.Sprintf(`{"content":"c","tags":["t%d"]}`, i%7)), nil, "")
					return err
				}); err != nil {
					t.Error(err)
					return
				}
				if err := s.View(func(tx *kv.Tx) error { _, err := catalog.Owned(tx, u.ID, record.Notes, r.ID); return err }); err != nil {
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
	writers.Go(func() { // another working copy takes the place of the one that moves go to
		for done := 0; done < 30; {
			switch err := kv.Compact(s, func() {}); {
			case err == nil:
				done++
			case errors.Is(err, workcopy.ErrGaveUp): // a check is under way
				runtime.Gosched()
			default:
				t.Error(err)
				return
			}
		}
	})
	writers.Wait()
	close(done)
	readers.Wait()
	is.NoErr(s.CheckCopy(func(err error) { problems = append(problems, err) }))
	is.Equal(len(problems), 0)
}

// Compacting gives the disk back what half-full pages took. Readers of the former working
// copy keep it, and the next start trusts the new one.
func TestCompact(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for i := range 3000 {
			form := kvtest.Form(t, record.Notes, fmt.Sprintf(`{"title":"%x","content":"c","tags":["t"]}`, sha256.Sum256([]byte{byte(i), byte(i >> 8)})))
			if _, err := catalog.Add(tx, u.ID, record.Notes, form, nil, ""); err != nil {
				return err
			}
		}
		return nil
	})
	file := filepath.Join(dir, "cache", "kist.db")
	size := func() int64 { info, err := os.Stat(file); is.NoErr(err); return info.Size() }
	is.NoErr(drain(s))
	before, first := size(), kv.Bolt(s)
	is.True(workcopy.Loose(first))
	kvtest.View(t, s, func(tx *kv.Tx) error { // of the former copy
		is.NoErr(kv.Compact(s, func() {
			kvtest.Add(t, s, u.ID, record.Notes, `{"content":"meanwhile"}`)
			is.NoErr(drain(s))
		}))
		kvtest.Add(t, s, u.ID, record.Notes, `{"content":"later"}`)
		return kvtest.Audit(tx)
	})
	is.True(kv.Bolt(s) != first)
	is.True(size() < before*3/4)
	is.True(!workcopy.Loose(kv.Bolt(s)))
	is.NoErr(s.CheckCopy(func(err error) { t.Error(err) }))
	kvtest.View(t, s, kvtest.Audit)
	is.NoErr(s.Close())

	s, err := kv.Open(dir, kv.Options{Schema: tables.All, Rebuild: func() (func(float64), error) { return nil, errors.New("rebuilt") }})
	is.NoErr(err)
	kvtest.View(t, s, kvtest.Audit)
	is.NoErr(s.Close())
}

// A loose working copy is compacted on request, once.
func TestCompactCopy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		for i := range 3000 {
			title := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
			form := kvtest.Form(t, record.Notes, fmt.Sprintf(`{"title":"%x","content":"c"}`, title))
			if _, err := catalog.Add(tx, u.ID, record.Notes, form, nil, ""); err != nil {
				return err
			}
		}
		return nil
	})
	is.NoErr(drain(s))
	loose := kv.Bolt(s)
	total := int64(0)
	wrote := func(n int64) { total += n }

	end := kv.BeginCheck(s)
	is.NoErr(s.CompactCopy(wrote))
	is.Equal(kv.Bolt(s), loose) // it is being checked
	end()

	is.NoErr(s.CompactCopy(wrote))
	compact := kv.Bolt(s)
	is.True(compact != loose)
	is.True(!workcopy.Loose(compact))
	is.True(!kv.Compacting(s))
	is.True(total > 3000*64) // the titles

	is.NoErr(s.CompactCopy(wrote))
	is.Equal(kv.Bolt(s), compact)
	kvtest.View(t, s, kvtest.Audit)
}

// A compaction ends when nobody reads the former working copy any more; another one may
// only begin then.
func TestCompactingEnds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	kvtest.User(t, s, "ann")
	first := kv.Bolt(s)
	var ended <-chan error
	kvtest.View(t, s, func(*kv.Tx) error {
		ended = kv.BeginCompaction(s)
		for kv.Bolt(s) == first {
			runtime.Gosched()
		}
		kvtest.User(t, s, "bob")
		is.NoErr(drain(s))
		is.True(kv.Compacting(s))
		return nil
	})
	is.NoErr(<-ended)
	is.True(!kv.Compacting(s))
	kvtest.View(t, s, kvtest.Audit)
}

// A stop, or many commits, end a compaction, which leaves no file.
func TestCompactGivesUp(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	first := kv.Bolt(s)
	is.True(errors.Is(kv.Compact(s, func() {
		for range 300 {
			kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":%q}`, strings.Repeat("x", 60_000)))
		}
		is.NoErr(drain(s))
	}), workcopy.ErrGaveUp))
	is.Equal(kv.Bolt(s), first)
	var closing sync.WaitGroup
	is.True(errors.Is(kv.Compact(s, func() {
		closing.Go(func() { is.NoErr(s.Close()) })
		for !errors.Is(s.Update(func(*kv.Tx) error { return nil }), kv.ErrClosed) { // a View could wait for the end of this function
			runtime.Gosched()
		}
	}), workcopy.ErrGaveUp))
	closing.Wait()
	_, err := os.Stat(filepath.Join(dir, "cache", "kist.db.new"))
	is.True(errors.Is(err, fs.ErrNotExist))
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
					_, err := catalog.Add(tx, u.ID, record.Notes, kvtest.Form(t, record.Notes, `{"content":"c"}`), nil, "")
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

// A log that has ended is compressed in a quiet time, although a start needs it. The store
// starts from it after a clean stop, after a kill and in a copy.
func TestShorten(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	noScrub := func(time.Duration) <-chan time.Time { return nil } // while one reads the log, it is not compressed
	s := kvtest.Opened(t, dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Timer: noScrub})
	u := kvtest.User(t, s, "ann")
	for range 40 {
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			for i := range 100 {
				if _, err := catalog.Add(tx, u.ID, record.Notes, kvtest.Form(t, record.Notes, fmt.Sprintf(`{"title":"note %d","content":"c","tags":["t"]}`, i)), nil, ""); err != nil {
					return err
				}
			}
			return nil
		})
	}
	is.NoErr(kv.Shorten(s))
	text, err := os.ReadFile(filepath.Join(dir, "journal", "log-0000000000000000"))
	is.NoErr(err)
	is.Equal(text[11], byte(2)) // the layout of a compressed log
	snaps, err := filepath.Glob(filepath.Join(dir, "journal", "snap-*"))
	is.NoErr(err)
	is.Equal(len(snaps), 0)
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"last"}`)
	var want map[string]string
	kvtest.View(t, s, func(tx *kv.Tx) error { want = kvtest.Dump(tx); return nil })
	killed := kvtest.CopyOf(t, s)
	kvtest.View(t, killed, kvtest.Audit)
	kvtest.View(t, killed, func(tx *kv.Tx) error {
		now := kvtest.Dump(tx)
		for key, value := range want {
			if !strings.HasPrefix(key, "meta") && now[key] != value {
				t.Fatalf("%q is %q, not %q", key, now[key], value)
			}
		}
		return nil
	})
	is.NoErr(s.Close())
	s, err = kv.Open(dir, kv.Options{Schema: tables.All, Rebuild: func() (func(float64), error) { return nil, errors.New("rebuilt") }})
	is.NoErr(err)
	kvtest.View(t, s, kvtest.Audit)
	is.NoErr(s.Close())
}

// While the copy is checked, nobody compacts it, because the committer would wait for the
// check. The next attempt waits, longer each time.
func TestCompactWaits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	kvtest.User(t, s, "ann")
	first := kv.Bolt(s)
	end := kv.BeginCheck(s)
	for _, wait := range []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour} {
		is.True(errors.Is(<-kv.BeginCompaction(s), workcopy.ErrGaveUp))
		is.Equal(kv.CompactionWait(s), wait)
	}
	is.Equal(kv.Bolt(s), first)
	end()
	is.NoErr(<-kv.BeginCompaction(s))
	is.Equal(kv.CompactionWait(s), time.Duration(0))
	is.True(kv.Bolt(s) != first)
	kvtest.View(t, s, kvtest.Audit)
}

// An import makes few commits, but large ones: the working copy is not compacted meanwhile.
func TestCalm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.True(kv.CalmSince(0, 0))
	is.True(kv.CalmSince(100, 300_000))    // a household
	is.True(!kv.CalmSince(200, 300_000))   // a load of small requests
	is.True(!kv.CalmSince(50, 10_000_000)) // an import
}
