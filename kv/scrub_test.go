package kv

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

	"kist/kv/record"
)

// scrubs is a timer that a test drives: the long waits between scrubs end when
// the test says so, the short ones within a scrub at once.
type scrubs struct{ ticks, ended chan time.Time }

func newScrubs() scrubs { return scrubs{make(chan time.Time), make(chan time.Time, 100)} }

func (c scrubs) after(d time.Duration) <-chan time.Time {
	if d >= scrubFirst {
		c.ended <- time.Time{}
		return c.ticks
	}
	now := make(chan time.Time, 1)
	now <- time.Time{}
	return now
}

// run lets a scrub begin and waits until it has ended.
func (c scrubs) run(t *testing.T, s *Store) JournalHealth {
	t.Helper()
	<-c.ended // the one before, or the start
	c.ticks <- time.Time{}
	c.ended <- <-c.ended
	return s.JournalHealth()
}

// flip changes a bit in the middle of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		if at < 0 {
			at += int64(len(b))
		}
		b[at] ^= 4
		f, err2 := os.OpenFile(path, os.O_WRONLY, 0)
		err = err2
		if err == nil {
			_, err = f.WriteAt(b[at:at+1], at)
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newestFile is the newest log or snapshot of a data directory.
func newestFile(t *testing.T, dir, kind string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "journal", kind+"-*"))
	if err != nil || len(all) == 0 {
		t.Fatal("there is no "+kind, err)
	}
	return all[len(all)-1]
}

// killed is everything that a store holds that is opened on what a process that
// is killed now leaves.
func killed(t *testing.T, s *Store) map[string]string {
	t.Helper()
	c := copyOf(t, s)
	return contentOf(t, c)
}

// Whatever happens to the journal of a store that is open: the next scrub finds
// it, and from then on a kill loses nothing.
func TestScrubHeals(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		harm  func(t *testing.T, dir string)
		finds string
	}{
		"nothing":         {func(*testing.T, string) {}, ""},
		"bit of a record": {func(t *testing.T, dir string) { flip(t, newestFile(t, dir, "log"), 300) }, "log-"},
		"last record":     {func(t *testing.T, dir string) { flip(t, newestFile(t, dir, "log"), -3) }, "log-"},
		"head of the log": {func(t *testing.T, dir string) { flip(t, newestFile(t, dir, "log"), 20) }, "log-"},
		"snapshot":        {func(t *testing.T, dir string) { flip(t, newestFile(t, dir, "snap"), 500) }, "snap-"},
		"log cut": {func(t *testing.T, dir string) {
			if err := os.Truncate(newestFile(t, dir, "log"), 400); err != nil {
				t.Fatal(err)
			}
		}, "log-"},
		"log removed": {func(t *testing.T, dir string) {
			if err := os.Remove(newestFile(t, dir, "log")); err != nil {
				t.Fatal(err)
			}
		}, "log-"},
		"log a link": {func(t *testing.T, dir string) {
			path := newestFile(t, dir, "log")
			if err := errors.Join(os.Rename(path, filepath.Join(dir, "elsewhere")), os.Symlink(filepath.Join(dir, "elsewhere"), path)); err != nil {
				t.Fatal(err)
			}
		}, "symbolic link"},
		"log a directory": {func(t *testing.T, dir string) {
			path := newestFile(t, dir, "log")
			if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "full"), 0o700)); err != nil {
				t.Fatal(err)
			}
		}, "directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			c := newScrubs()
			s := opened(t, filepath.Join(t.TempDir(), "data"), Options{Schema: All, Log: quiet, Timer: c.after})
			u := user(t, s, "ann")
			more := func() {
				for i := range 20 {
					add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"content":"note %d"}`, i))
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
				is.Equal(len(filesIn(t, filepath.Join(s.Dir(), "journal"))), 3)
			} else {
				is.Equal(len(h.Damaged), 1)
				is.True(strings.Contains(h.Damaged[0], row.finds))
				is.True(!h.Healed.IsZero())
			}
			want := contentOf(t, s)
			is.True(maps.Equal(killed(t, s), want))
			more()
			is.True(maps.Equal(killed(t, s), contentOf(t, s)))
			again := c.run(t, s) // the new generation is what is read from now on
			is.Equal(again.Damaged, h.Damaged)
			is.True(again.Checked.After(h.Checked))
			is.Equal(again.Healed, h.Healed)
			view(t, s, audit)
		})
	}
}

// A scrub that is asked for does not wait for its turn.
func TestScrubNow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newScrubs()
	s := opened(t, filepath.Join(t.TempDir(), "data"), Options{Schema: All, Log: quiet, Timer: c.after})
	u := user(t, s, "ann")
	add(t, s, u.ID, record.Notes, `{"content":"note"}`)
	add(t, s, u.ID, record.Notes, `{"content":"note"}`)
	flip(t, newestFile(t, s.Dir(), "log"), 300)
	<-c.ended // it waits for its turn, which does not come
	s.ScrubNow()
	<-c.ended
	h := s.JournalHealth()
	is.Equal(len(h.Damaged), 1)
	is.True(!h.Healed.IsZero())
}

// Damage that cannot be healed is told as such, and healed as soon as that is
// possible.
func TestScrubCannotHeal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newScrubs()
	s := opened(t, filepath.Join(t.TempDir(), "data"), Options{Schema: All, Log: quiet, Timer: c.after})
	u := user(t, s, "ann")
	add(t, s, u.ID, record.Notes, `{"content":"note"}`)
	add(t, s, u.ID, record.Notes, `{"content":"note"}`)
	flip(t, newestFile(t, s.Dir(), "log"), 300)
	// What the digest does not prove is never written as a snapshot.
	is.NoErr(Between(s, func() error { StoreState(s).Digest++; return nil }))
	h := c.run(t, s)
	is.Equal(len(h.Damaged), 1)
	is.True(h.Healed.IsZero())
	is.NoErr(Between(s, func() error { StoreState(s).Digest--; return nil }))
	h = c.run(t, s)
	is.Equal(len(h.Damaged), 1)
	is.True(!h.Healed.IsZero())
	is.True(maps.Equal(killed(t, s), contentOf(t, s)))
}

// A scrub reads the journal while it is written to, and finds nothing wrong.
func TestScrubWhileWriting(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := newScrubs()
	s := opened(t, filepath.Join(t.TempDir(), "data"), Options{Schema: All, Log: quiet, Timer: c.after})
	u := user(t, s, "ann")
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			add(t, s, u.ID, record.Notes, `{"content":"note"}`)
			if i%20 == 0 {
				_ = Between(s, func() error { MakeSnapshotDue(s); return nil })
			}
		}
	}()
	for range 30 {
		is.Equal(len(c.run(t, s).Damaged), 0)
	}
	close(stop)
	<-done
}

// A store is closed in the middle of a scrub at once.
func TestCloseEndsScrub(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	ticks, waits := make(chan time.Time), make(chan time.Duration)
	s, err := Open(filepath.Join(t.TempDir(), "data"), Options{Schema: All, Log: quiet, Timer: func(d time.Duration) <-chan time.Time {
		if d < scrubFirst {
			waits <- d // and never goes on
		}
		return ticks
	}})
	is.NoErr(err)
	ticks <- time.Time{}
	<-waits
	is.NoErr(s.Close())
}

// A scrub works one part of the time in scrubShare, and is not slower than it
// takes to read everything in scrubMost.
func TestScrubPace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	begin := time.Unix(1000, 0)
	p := pace{total: 1 << 30, last: begin}
	is.Equal(p.wait(1<<20, begin.Add(10*time.Millisecond)), 190*time.Millisecond)
	is.Equal(p.wait(1<<20, begin.Add(time.Minute)), scrubMost/1024)
	is.Equal(p.wait(1<<20, begin.Add(-time.Second)), time.Duration(0))
	p.total = 0
	is.Equal(p.wait(1<<20, begin.Add(time.Hour)), scrubMost)
}

// At a start after a clean stop, damage that can be seen cheaply is healed
// before the first write, as the working copy is proven whole.
func TestStartHeals(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, dir string){
		"head of the log": func(t *testing.T, dir string) { flip(t, newestFile(t, dir, "log"), 20) },
		"last record":     func(t *testing.T, dir string) { flip(t, newestFile(t, dir, "log"), -3) },
		"log cut": func(t *testing.T, dir string) {
			if err := os.Truncate(newestFile(t, dir, "log"), 400); err != nil {
				t.Fatal(err)
			}
		},
		"log removed": func(t *testing.T, dir string) {
			if err := os.Remove(newestFile(t, dir, "log")); err != nil {
				t.Fatal(err)
			}
		},
		"log a link": func(t *testing.T, dir string) {
			path := newestFile(t, dir, "log")
			if err := errors.Join(os.Rename(path, filepath.Join(dir, "elsewhere")), os.Symlink(filepath.Join(dir, "elsewhere"), path)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir, _ := inhabited(t)
			if _, err := identify(dir); err != nil {
				return // this system cannot prove that a working copy is whole
			}
			s, err := Open(dir, Options{Schema: All, Log: quiet})
			is.NoErr(err)
			is.NoErr(s.Compact())
			add(t, s, anyone(t, s), record.Notes, `{"content":"the last"}`)
			before := contentOf(t, s)
			is.NoErr(s.Close())
			harm(t, dir)
			s = openAt(t, dir, nil)
			h := s.JournalHealth()
			is.Equal(len(h.Damaged), 1)
			is.True(strings.Contains(h.Damaged[0], "log-"))
			is.True(!h.Healed.IsZero())
			is.True(maps.Equal(contentOf(t, s), before))
			is.True(maps.Equal(killed(t, s), before))
		})
	}
}

// anyone is a user of the store.
func anyone(t *testing.T, s *Store) (id record.ID) {
	t.Helper()
	view(t, s, func(tx *Tx) error {
		all, err := tx.Users()
		id = all[0].ID
		return err
	})
	return id
}

// A newest snapshot that is missing or is no file does not keep a store from
// starting: the one before and the logs lead to the same state.
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
			s := open(t)
			u := user(t, s, "ann")
			is.NoErr(s.Compact())
			add(t, s, u.ID, record.Notes, `{"content":"c"}`)
			is.NoErr(s.Compact())
			add(t, s, u.ID, record.Notes, `{"content":"d"}`)
			is.NoErr(harm(newestFile(t, s.Dir(), "snap")))
			dir := filepath.Join(t.TempDir(), "copy")
			is.NoErr(os.MkdirAll(dir, 0o700))
			is.NoErr(os.Rename(filepath.Join(s.Dir(), "journal"), filepath.Join(dir, "journal")))
			c := openAt(t, dir, nil)
			is.True(maps.Equal(contentOf(t, c), contentOf(t, s)))
			is.NoErr(c.Close())
			is.NoErr(os.Rename(filepath.Join(dir, "journal"), filepath.Join(s.Dir(), "journal")))
		})
	}
}

// BenchmarkCreateWhileScrubbed is BenchmarkCreate with a journal of 100 000
// notes that is read all the time, at the pace of a scrub, and without.
func BenchmarkCreateWhileScrubbed(b *testing.B) {
	for _, scrubbed := range []bool{false, true} {
		b.Run(fmt.Sprintf("scrub=%v", scrubbed), func(b *testing.B) {
			s := open(b)
			u := user(b, s, "ann")
			fill(b, s, u.ID, 100_000)
			if err := s.Compact(); err != nil {
				b.Fatal(err)
			}
			fill(b, s, u.ID, 20_000)
			f := form(b, record.Notes, `{"title":"A note","content":"With some text.","tags":["one","two"]}`)
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
					if wrong, err := Scrub(s); err != nil || wrong != nil {
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
					if err := s.Update(func(tx *Tx) error {
						_, err := tx.Add(u.ID, record.Notes, f, nil, "")
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
