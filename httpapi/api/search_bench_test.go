package api_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kist/httpapi/apitest"
	"kist/kv/record"
	"kist/search"
	"kist/search/corpus"
)

// BenchmarkSearch asks an index of 100 000 notes over HTTP, one client, and
// tells how fast it was made:
//
//	go test ./httpapi -run xxx -bench Search -benchtime 200x
func BenchmarkSearch(b *testing.B) {
	a := apitest.Start(b)
	c := corpus.New()
	// of about 300 characters
	a.NoErr(c.Fill(a.Server.Store, a.User.ID, record.Notes, 100_000, func() record.Body { return c.Note("") }))
	begun := time.Now()
	a.Indexed()
	wait, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	s, err := a.Server.Search.Await(wait, func(s search.State) bool { return s.Phase == search.Ready })
	a.NoErr(err)
	b.Logf("indexed %d documents, %.0f a second", s.Documents, float64(s.Documents)/time.Since(begun).Seconds())
	for _, ask := range []struct{ name, q string }{
		{"rare", "dulu"},
		{"common", "sa"},
		{"prefix", "lof"},
		{"phrase", `"sa ta"`},
		{"two", "sa lida"},
		{"error", "dulx"},
	} {
		for _, at := range []string{"search?", "notes?brief=true&"} {
			name, _, _ := strings.Cut(at, "?")
			b.Run(ask.name+"/"+name, func(b *testing.B) {
				path := a.URL + "/api/v1/" + at + "limit=20&q=" + url.QueryEscape(ask.q)
				var took []time.Duration
				total := ""
				for b.Loop() {
					r, err := http.NewRequestWithContext(b.Context(), "GET", path, nil)
					a.NoErr(err)
					r.Header.Set("X-Api-Key", a.Key)
					begun := time.Now()
					res, err := apitest.Plain.Do(r)
					a.NoErr(err)
					body, err := io.ReadAll(res.Body)
					a.NoErr(err)
					res.Body.Close()
					if res.StatusCode != http.StatusOK {
						b.Fatalf("%s: %s", res.Status, body)
					}
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
