//go:build unix

package search

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kist/kv"
	"kist/kv/record"
	"kist/search/corpus"
)

// notes adds notes, each with a sentence that is in all of them.
func (l *library) notes(owner record.ID, n int) {
	l.Helper()
	c := corpus.New()
	l.fatal(c.Fill(l.store, owner, record.Notes, n, func() record.Body { return c.Note("the old harbour by the sea ") }))
}

// bytes is the size of the index on the disk.
func (l *library) bytes() (n int64) {
	l.Helper()
	l.fatal(filepath.WalkDir(filepath.Join(l.dir, "cache", "index"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			info, _ := e.Info()
			n += info.Size()
		}
		return nil
	}))
	return n
}

// BenchmarkBuild rebuilds the index of 50 000 notes, and tells how many of
// them it takes in a second:
//
//	go test ./search -run xxx -bench Build -benchtime 2x
func BenchmarkBuild(b *testing.B) {
	const n = 50_000
	l := newLibrary(b)
	l.notes(l.user("ann"), n)
	l.open()
	l.settled(1)
	l.ready()
	var took time.Duration
	busy := cpu()
	for b.Loop() {
		built := l.x.State().Built
		begun := time.Now()
		l.x.Rebuild()
		l.settled(built + 1)
		l.ready()
		took += time.Since(begun)
	}
	b.ReportMetric(float64(n*b.N)/took.Seconds(), "docs/s")
	b.ReportMetric(float64((cpu()-busy).Microseconds())/float64(n*b.N), "cpu-µs/doc")
	b.ReportMetric(float64(l.bytes())/n, "bytes/doc")
}

// cpu is how long this process has computed.
func cpu() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFollow lets 5000 records a second arrive, as 64 clients create
// them, and tells what the index costs:
//
//	go test ./search -run xxx -bench Follow -benchtime 1x
func BenchmarkFollow(b *testing.B) {
	const n = 50_000
	c := corpus.New()
	for _, as := range []struct {
		name string
		kind *record.Kind
		body func() record.Body
	}{
		{"notes", record.Notes, func() record.Body { return c.Note("") }},
		{"bookmarks", record.Bookmarks, c.Bookmark},
	} {
		b.Run(as.name, func(b *testing.B) {
			for b.Loop() {
				l := newLibrary(b)
				l.fatal(c.Fill(l.store, l.user("ann"), as.kind, n, as.body))
				_, all, _, err := l.store.Feed(1<<62, 1)
				l.fatal(err)
				var shown atomic.Uint64
				wake := make(chan struct{}, 1)
				l.open(func(o *Options) {
					o.Wake, o.idle = wake, 5*time.Second
					o.Feed = func(since uint64, limit int) ([]kv.Change, uint64, uint64, error) {
						shown := shown.Load()
						some, _, trimmed, err := l.store.Feed(since, min(limit, int(max(shown, since)-since)+1))
						for len(some) > 0 && some[len(some)-1].Seq > shown {
							some = some[:len(some)-1]
						}
						return some, shown, trimmed, err
					}
				})
				l.ready()
				busy := cpu()
				tick := time.NewTicker(10 * time.Millisecond)
				for at := uint64(0); at < all; {
					<-tick.C
					at = min(at+50, all)
					shown.Store(at)
					offer(wake, struct{}{})
				}
				_, err = l.x.Await(b.Context(), func(s State) bool { return s.Place >= all })
				l.fatal(err)
				b.ReportMetric(float64((cpu()-busy).Microseconds())/n, "cpu-µs/doc")
				b.ReportMetric(float64(l.bytes())/n, "bytes/doc")
				l.tidied()
				l.close()
				b.ReportMetric(float64(l.bytes())/n, "bytes/doc-at-rest")
			}
		})
	}
}

// BenchmarkFind asks indexes of 20 000 and of 100 000 notes, beside which two
// others have a tenth as many each:
//
//	go test ./search -run xxx -bench Find -benchtime 300x
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{20_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := newLibrary(b)
			ann := l.user("ann")
			l.notes(ann, n)
			l.notes(l.user("bob"), n/10)
			l.notes(l.user("cat"), n/10)
			l.open()
			l.settled(1)
			l.ready()
			for _, of := range []struct{ name, text string }{
				{"word", "lida"},
				{"rare", "dulu"},
				{"common", "sa"},
				{"two", "sa lida"},
				{"phrase", `"sa ta"`},
				{"phrase in all", `"old harbour"`},
				{"six in all", `"the old harbour by the sea"`},
				{"begun", `"harbour by th`},
				{"one letter", "s"},
				{"two letters", "lo"},
				{"three letters", "lof"},
				{"error", "dulx"},
				{"not", `"the sea" -"old sea"`},
			} {
				b.Run(of.name, func(b *testing.B) { l.benchmark(b, ann, of.text, of.name != "error") })
			}
		})
	}
}

// benchmark measures a query that shows 50 results.
func (l *library) benchmark(b *testing.B, owner record.ID, text string, strict bool) {
	q, err := Parse(text)
	l.fatal(err)
	b.ReportAllocs()
	var took []time.Duration
	busy := cpu()

	for b.Loop() {
		begun := time.Now()
		v, _ := l.x.View()
		h, err := v.Find(b.Context(), q.For(owner, strict, func(func(record.ID, string) bool) {}), nil)
		l.fatal(err)
		h.Page(nil, 51)
		v.Close()
		took = append(took, time.Since(begun))
		b.ReportMetric(float64(h.Total()), "hits")
	}

	slices.Sort(took)
	b.ReportMetric(float64((cpu()-busy).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
