package kv_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/datadir"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/tables"
)

// scrubs is a timer driven by a test: the long waits between scrubs end when the test
// says so, the short ones within a scrub at once.
type scrubs struct{ ticks, ended chan time.Time }

func newScrubs() scrubs { return scrubs{make(chan time.Time), make(chan time.Time, 100)} }

func (c scrubs) after(d time.Duration) <-chan time.Time {
	if d >= kv.ScrubFirst {
		c.ended <- time.Time{}
		return c.ticks
	}
	now := make(chan time.Time, 1)
	now <- time.Time{}
	return now
}

// run starts a scrub and waits for its end.
func (c scrubs) run(t *testing.T, s *kv.Store) kv.JournalHealth {
	t.Helper()
	<-c.ended // the one before, or the start
	c.ticks <- time.Time{}
	c.ended <- <-c.ended
	return s.JournalHealth()
}

// killed returns everything in a store opened on the files that a process killed now
// would leave.
func killed(t *testing.T, s *kv.Store) map[string]string {
	t.Helper()
	c := kvtest.CopyOf(t, s)
	return kvtest.ContentOf(t, c)
}

// The next scrub finds any damage to the journal of an open store, and from then on a
// kill loses nothing.
func TestScrubHeals(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		harm  func(t *testing.T, dir string)
		finds string
	}{
		"nothing":         {func(*testing.T, string) {}, ""},
		"bit of a record": {func(t *testing.T, dir string) { kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 300) }, "log-"},
		"last record":     {func(t *testing.T, dir string) { kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), -3) }, "log-"},
		"head of the log": {func(t *testing.T, dir string) { kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 20) }, "log-"},
		"snapshot": {func(t *testing.T, dir string) {
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "snap"), 500)
		}, "snap-"},
		"log cut": {func(t *testing.T, dir string) {
			if err := os.Truncate(kvtest.NewestFile(t, dir, "log"), 400); err != nil {
				t.Fatal(err)
			}
		}, "log-"},
		"log removed": {func(t *testing.T, dir string) {
			if err := os.Remove(kvtest.NewestFile(t, dir, "log")); err != nil {
				t.Fatal(err)
			}
		}, "log-"},
		"log a link": {func(t *testing.T, dir string) {
			path := kvtest.NewestFile(t, dir, "log")
			if err := errors.Join(
				os.Rename(path, filepath.Join(dir, "elsewhere")), os.Symlink(filepath.Join(dir, "elsewhere"), path),
			); err != nil {
				t.Fatal(err)
			}
		}, "symbolic link"},
		"log a directory": {func(t *testing.T, dir string) {
			path := kvtest.NewestFile(t, dir, "log")
			if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "full"), 0o700)); err != nil {
				t.Fatal(err)
			}
		}, "directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := newScrubs()
			s := kvtest.Opened(
				t, filepath.Join(t.TempDir(), "data"), kv.Options{Schema: tables.All, Log: kvtest.Quiet, Timer: c.after},
			)
			u := kvtest.User(t, s, "ann")
			more := func() {
				for i := range 20 {
					kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"note %d"}`, i))
				}
			}
			more()
			is.NoErr(s.Compact()) // a generation
			more()
			row.harm(t, s.Dir())
			more() // acknowledged, and in a journal that is damaged already
			h := c.run(t, s)
			is.True(!h.Checked.IsZero())
			if row.finds == "" {
				is.Equal(len(h.Damaged), 0)
				is.Equal(len(kvtest.FilesIn(t, filepath.Join(s.Dir(), "journal"))), 4) // two logs, a snapshot, and recent
			} else {
				is.Equal(len(h.Damaged), 1)
				is.True(strings.Contains(h.Damaged[0], row.finds))
				is.True(!h.Healed.IsZero())
			}
			want := kvtest.ContentOf(t, s)
			is.True(maps.Equal(killed(t, s), want))
			more()
			is.True(maps.Equal(killed(t, s), kvtest.ContentOf(t, s)))
			again := c.run(t, s) // the new generation is what is read from now on
			is.Equal(again.Damaged, h.Damaged)
			is.True(again.Checked.After(h.Checked))
			is.Equal(again.Healed, h.Healed)
			kvtest.View(t, s, kvtest.Audit)
		})
	}
}

// A requested scrub starts at once.
func TestScrubNow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newScrubs()
	s := kvtest.Opened(
		t, filepath.Join(t.TempDir(), "data"), kv.Options{Schema: tables.All, Log: kvtest.Quiet, Timer: c.after},
	)
	u := kvtest.User(t, s, "ann")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"note"}`)
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"note"}`)
	kvtest.Flip(t, kvtest.NewestFile(t, s.Dir(), "log"), 300)
	<-c.ended // it waits for its turn, which does not come
	s.ScrubNow()
	<-c.ended
	h := s.JournalHealth()
	is.Equal(len(h.Damaged), 1)
	is.True(!h.Healed.IsZero())
}

// Damage that cannot be healed is reported as such, and healed as soon as possible.
func TestScrubCannotHeal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newScrubs()
	s := kvtest.Opened(
		t, filepath.Join(t.TempDir(), "data"), kv.Options{Schema: tables.All, Log: kvtest.Quiet, Timer: c.after},
	)
	u := kvtest.User(t, s, "ann")
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"note"}`)
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"note"}`)
	kvtest.Flip(t, kvtest.NewestFile(t, s.Dir(), "log"), 300)
	// A state that the digest does not prove is never written as a snapshot.
	is.NoErr(kv.Between(s, func() error { kv.StoreState(s).Digest++; return nil }))
	h := c.run(t, s)
	is.Equal(len(h.Damaged), 1)
	is.True(h.Healed.IsZero())
	is.NoErr(kv.Between(s, func() error { kv.StoreState(s).Digest--; return nil }))
	h = c.run(t, s)
	is.Equal(len(h.Damaged), 1)
	is.True(!h.Healed.IsZero())
	is.True(maps.Equal(killed(t, s), kvtest.ContentOf(t, s)))
}

// A scrub reads the journal while it is written to, and finds nothing wrong.
func TestScrubWhileWriting(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newScrubs()
	s := kvtest.Opened(
		t, filepath.Join(t.TempDir(), "data"), kv.Options{Schema: tables.All, Log: kvtest.Quiet, Timer: c.after},
	)
	u := kvtest.User(t, s, "ann")
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			kvtest.Add(t, s, u.ID, record.Notes, `{"content":"note"}`)
			if i%20 == 0 {
				_ = kv.Between(s, func() error { kv.MakeSnapshotDue(s); return nil })
			}
		}
	}()
	for range 30 {
		is.Equal(len(c.run(t, s).Damaged), 0)
	}
	close(stop)
	<-done
}

// A store closes at once in the middle of a scrub.
func TestCloseEndsScrub(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ticks, waits := make(chan time.Time), make(chan time.Duration)
	s, err := kv.Open(filepath.Join(t.TempDir(), "data"), kv.Options{Schema: tables.All, Log: kvtest.Quiet, Timer: func(d time.Duration) <-chan time.Time {
		if d < kv.ScrubFirst {
			waits <- d // and never goes on
		}
		return ticks
	}})
	is.NoErr(err)
	ticks <- time.Time{}
	<-waits
	is.NoErr(s.Close())
}

// At a start after a clean stop, damage that can be seen cheaply is healed
// before the first write, as the working copy is proven whole.
func TestStartHeals(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, dir string){
		"head of the log": func(t *testing.T, dir string) { kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 20) },
		"last record":     func(t *testing.T, dir string) { kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), -3) },
		"log cut": func(t *testing.T, dir string) {
			if err := os.Truncate(kvtest.NewestFile(t, dir, "log"), 400); err != nil {
				t.Fatal(err)
			}
		},
		"log removed": func(t *testing.T, dir string) {
			if err := os.Remove(kvtest.NewestFile(t, dir, "log")); err != nil {
				t.Fatal(err)
			}
		},
		"log a link": func(t *testing.T, dir string) {
			path := kvtest.NewestFile(t, dir, "log")
			if err := errors.Join(
				os.Rename(path, filepath.Join(dir, "elsewhere")), os.Symlink(filepath.Join(dir, "elsewhere"), path),
			); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir, _ := kvtest.Inhabited(t)
			if _, err := datadir.Identify(dir); err != nil {
				return // this system cannot prove that a working copy is whole
			}
			s, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
			is.NoErr(err)
			is.NoErr(s.Compact())
			kvtest.Add(t, s, kvtest.Anyone(t, s), record.Notes, `{"content":"the last"}`)
			before := kvtest.ContentOf(t, s)
			is.NoErr(s.Close())
			harm(t, dir)
			s = kvtest.OpenAt(t, dir, nil)
			h := s.JournalHealth()
			is.Equal(len(h.Damaged), 1)
			is.True(strings.Contains(h.Damaged[0], "log-"))
			is.True(!h.Healed.IsZero())
			is.True(maps.Equal(kvtest.ContentOf(t, s), before))
			is.True(maps.Equal(killed(t, s), before))
		})
	}
}

// A store starts even if the newest snapshot is missing or not a file: the previous one
// and the logs lead to the same state.
func TestStartWithoutSnapshot(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(path string) error{
		"missing": os.Remove,
		"link":    func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
		"directory": func(path string) error {
			return errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "x"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := kvtest.Open(t)
			u := kvtest.User(t, s, "ann")
			is.NoErr(s.Compact())
			kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
			is.NoErr(s.Compact())
			kvtest.Add(t, s, u.ID, record.Notes, `{"content":"d"}`)
			is.NoErr(harm(kvtest.NewestFile(t, s.Dir(), "snap")))
			dir := filepath.Join(t.TempDir(), "copy")
			is.NoErr(os.MkdirAll(dir, 0o700))
			is.NoErr(os.Rename(filepath.Join(s.Dir(), "journal"), filepath.Join(dir, "journal")))
			c := kvtest.OpenAt(t, dir, nil)
			is.True(maps.Equal(kvtest.ContentOf(t, c), kvtest.ContentOf(t, s)))
			is.NoErr(c.Close())
			is.NoErr(os.Rename(filepath.Join(dir, "journal"), filepath.Join(s.Dir(), "journal")))
		})
	}
}

// BenchmarkCreateWhileScrubbed is BenchmarkCreate with a journal of 100 000 notes,
// while it is read continuously at the pace of a scrub, and without reading.
func BenchmarkCreateWhileScrubbed(b *testing.B) {
	for _, scrubbed := range []bool{false, true} {
		b.Run(fmt.Sprintf("scrub=%v", scrubbed), func(b *testing.B) {
			s := kvtest.Open(b)
			u := kvtest.User(b, s, "ann")
			fill(b, s, u.ID, 100_000)
			if err := s.Compact(); err != nil {
				b.Fatal(err)
			}
			fill(b, s, u.ID, 20_000)
			f := kvtest.Form(b, record.Notes, `{"title":"A note","content":"With some text.","tags":["one","two"]}`)
			stop, done := make(chan bool), make(chan int)
			go func() {
				n := 0
				for ; scrubbed; n++ {
					select {
					case <-stop:
						done <- n
						return
					default:
					}
					if wrong, err := kv.Scrub(s); err != nil || wrong != nil {
						b.Error(wrong, err)
					}
				}
				done <- 0
			}()
			b.ReportAllocs()
			b.SetParallelism(16 / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := s.Update(func(tx *kv.Tx) error {
						_, err := catalog.Add(tx, catalog.Draft{Owner: u.ID, Kind: record.Notes, Form: f})
						return err
					}); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
			close(stop)
			b.ReportMetric(float64(<-done), "scrubs")
		})
	}
}
