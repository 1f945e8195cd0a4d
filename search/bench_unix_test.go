//go:build unix

package search

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kist/kv/record"
	"kist/search/corpus"
)

// notes adds notes of about 300 characters, each with a sentence that is in all
// of them.
func (l *library) notes(owner record.ID, n int) {
	l.Helper()
	c := corpus.New()
	l.fatal(c.Fill(l.store, owner, n, func() string { return c.Text(20) + "the old harbour by the sea " + c.Text(20) }))
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
}

// cpu is how long this process has computed.
func cpu() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPhrase looks up phrases in an index of 100 000 notes, all of which
// have the words.
func BenchmarkPhrase(b *testing.B) {
	l := newLibrary(b)
	ann := l.user("ann")
	l.notes(ann, 100_000)
	l.open()
	l.settled(1)
	l.ready()
	for _, text := range []string{`"old harbour"`, `"old harbour by"`, `"the old harbour by the sea"`, `"harbour old"`, `"by harb`, `"harbour by th`, `"the sea" -"old sea"`} {
		b.Run(text, func(b *testing.B) {
			q, err := Parse(text)
			l.fatal(err)
			for b.Loop() {
				v, _ := l.x.View(b.Context())
				h, err := v.Find(b.Context(), q.For(ann, true, func(func(record.ID, string) bool) {}), nil)
				l.fatal(err)
				b.ReportMetric(float64(h.Total()), "hits")
				v.Close()
			}
		})
	}
}
