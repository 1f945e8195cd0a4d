package httpapi

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/search"
)

// library keeps notes of about 300 characters in words of Zipf's frequency:
// the first word is in most of them, the last ones in a few.
func (a *app) library(n int) []string {
	a.Helper()
	syllables := strings.Fields("ba re mi to ku la ne so vi da po ge ri ta mo fu hi ze wa lu")
	words := make([]string, 20000)
	for i := range words {
		for x, k := i*7919+13, 0; k < 3+i%2; k++ {
			words[i] += syllables[x%20]
			x = x/20 + i
		}
		words[i] += strconv.Itoa(i % 7)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rnd, 1.1, 8, uint64(len(words)-1))
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[zipf.Uint64()] + " ")
		}
		return b.String()
	}
	for done := 0; done < n; {
		a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
			for range 500 {
				f := record.NewForm(record.Notes)
				f.Body = &record.Note{Name: fmt.Sprint("note ", done, " ", text(3)), Content: text(45)}
				f.Tags = []string{"bench", words[done%50]}
				if _, err := tx.Add(a.user.ID, record.Notes, f, nil, ""); err != nil {
					return err
				}
				done++
			}
			return nil
		}))
	}
	return words
}

// BenchmarkSearch asks an index of 100 000 notes over HTTP, one client, and
// tells how fast it was made:
//
//	go test ./httpapi -run xxx -bench Search -benchtime 200x
func BenchmarkSearch(b *testing.B) {
	a := start(b)
	words := a.library(100_000)
	begun := time.Now()
	a.indexed()
	wait, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	s, err := a.server.Search.Await(wait, func(s search.State) bool { return s.Phase == search.Ready })
	a.fatal(err)
	b.Logf("indexed %d documents, %.0f a second", s.Documents, float64(s.Documents)/time.Since(begun).Seconds())
	for _, c := range []struct{ name, q string }{
		{"rare", words[15000]},
		{"common", words[0]},
		{"prefix", words[300][:4]},
		{"prefix2", words[300][:2]},
		{"phrase", `"` + words[0] + " " + words[1] + `"`},
		{"two", words[0] + " " + words[300]},
		{"error", words[300][:4] + "x" + words[300][5:]},
	} {
		for _, at := range []string{"search", "notes"} {
			b.Run(c.name+"/"+at, func(b *testing.B) {
				path := a.url + "/api/v1/" + at + "?limit=20&brief=true&q=" + url.QueryEscape(c.q)
				var took []time.Duration
				total := ""
				for b.Loop() {
					r, err := http.NewRequestWithContext(b.Context(), "GET", path, nil)
					a.fatal(err)
					r.Header.Set("X-Api-Key", a.key)
					begun := time.Now()
					res, err := plain.Do(r)
					a.fatal(err)
					body, err := io.ReadAll(res.Body)
					a.fatal(err)
					res.Body.Close()
					took = append(took, time.Since(begun))
					_, total, _ = strings.Cut(string(body), `"total":`)
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
				n, _, _ := strings.Cut(total, ",")
				hits, _ := strconv.Atoi(n)
				b.ReportMetric(float64(hits), "hits")
			})
		}
	}
	if text, err := os.ReadFile("/proc/self/status"); err == nil {
		_, rss, _ := strings.Cut(string(text), "VmRSS:")
		rss, _, _ = strings.Cut(rss, "\n")
		b.Log("resident:", strings.TrimSpace(rss))
	}
}
