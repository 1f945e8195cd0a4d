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
	"kist/kv/people"
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
	s := indexed(b, a)
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
			b.Run(ask.name+"/"+name, func(b *testing.B) { measure(b, a, a.Key, at+"limit=20&q="+url.QueryEscape(ask.q), nil) })
		}
	}
	if text, err := os.ReadFile("/proc/self/status"); err == nil {
		_, rss, _ := strings.Cut(string(text), "VmRSS:")
		rss, _, _ = strings.Cut(rss, "\n")
		b.Log("resident:", strings.TrimSpace(rss))
	}
}

// indexed makes the index of all that is there.
func indexed(b *testing.B, a *apitest.App) search.State {
	b.Helper()
	a.Indexed()
	wait, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	s, err := a.Server.Search.Await(wait, func(s search.State) bool { return s.Phase == search.Ready })
	a.NoErr(err)
	return s
}

// measure asks for a path of the API again and again. before may be something that happens before each.
func measure(b *testing.B, a *apitest.App, key, path string, before func()) {
	b.Helper()
	var took []time.Duration
	total := ""
	for b.Loop() {
		if before != nil {
			before()
		}
		r, err := http.NewRequestWithContext(b.Context(), "GET", a.URL+"/api/v1/"+path, nil)
		a.NoErr(err)
		r.Header.Set("X-Api-Key", key)
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
}

// BenchmarkSearchShared searches as somebody who has 100 000 notes and whom another shares 5000 with, and as a member of
// 150 collections that show the same tag of 2000 notes, at rest and after a change before each search:
//
//	go test ./httpapi/api -run xxx -bench SearchShared -benchtime 100x
func BenchmarkSearchShared(b *testing.B) {
	a := apitest.Start(b)
	c := corpus.New()
	fill := func(u *people.User, n int) {
		a.NoErr(c.Fill(a.Server.Store, u.ID, record.Notes, n, func() record.Body { return c.Note("") }))
	}
	fill(a.User, 100_000)
	share := func(from string, n, collections int, to *people.User) {
		u := a.AddUser(from, people.Member)
		fill(u, n)
		as := a.As(a.AddKey(u, people.ScopeAll))
		for range collections {
			id := as.Post("/api/v1/collections", `{"title":"all","source":{"tag":"bench"}}`).Want(201).Text("data.id")
			as.Do(apitest.Request{
				Method: "PUT", Path: "/api/v1/collections/" + id + "/members/" + to.ID.String(), JSON: `{"role":"see"}`,
			}).Want(200)
		}
	}
	many := a.AddUser("many", people.Member)
	share("bob", 5000, 1, a.User)
	share("dan", 2000, 150, many)
	indexed(b, a)
	keys := map[string]string{"mine": a.Key, "all": a.Key, "150 collections": a.AddKey(many, people.ScopeAll)}
	note := a.Note("changes", "")
	change := func() { a.Patch("/api/v1/notes/"+note, `{"isFavorite":true}`).Want(200) }
	for _, q := range []string{"dulu", "sa", "sa lida", "dulx"} {
		for _, from := range []string{"mine", "all", "150 collections"} {
			of := "mine"
			if from != "mine" {
				of = "all"
			}
			path := "search?limit=20&from=" + of + "&q=" + url.QueryEscape(q)
			b.Run(from+"/"+q+"/at rest", func(b *testing.B) { measure(b, a, keys[from], path, nil) })
			b.Run(from+"/"+q+"/after a change", func(b *testing.B) { measure(b, a, keys[from], path, change) })
		}
	}
}
