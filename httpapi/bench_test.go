package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// discard is an answer that is not read.
type discard struct {
	h      http.Header
	status int
}

func (d *discard) Header() http.Header { return d.h }

func (d *discard) WriteHeader(status int) { d.status = status }

func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// bench answers one request over and over; body is sent again each time.
func bench(a *apitest.App, b *testing.B, status int, method, path, body string, header ...string) {
	b.Helper()
	b.ReportAllocs()
	w := &discard{h: http.Header{}}
	same := httptest.NewRequest(method, path, nil)
	same.Host = "localhost"
	same.ContentLength = int64(len(body))
	same.Header["X-Api-Key"] = []string{a.Key}
	for i := 0; i+1 < len(header); i += 2 {
		same.Header[header[i]] = header[i+1 : i+2]
	}
	for b.Loop() {
		r := *same
		if body != "" {
			r.Body = io.NopCloser(strings.NewReader(body))
		}
		clear(w.h)
		a.Server.ServeHTTP(w, &r)
		if w.status != status {
			b.Fatalf("%s %s: %d, want %d", method, path, w.status, status)
		}
	}
}

// quiet writes the log, but not into memory.
func quiet(c *web.Config) { c.Log = slog.New(slog.NewJSONHandler(io.Discard, nil)) }

const benchNote = `{"title":"Groceries","content":"- milk\n- bread\n- two pounds of apples","tags":["home","weekly"],"isPublic":true}`

// fill makes n notes.
func fill(a *apitest.App, n int) {
	a.Helper()
	const batch = 64
	var all sync.WaitGroup
	todo := make(chan int)
	for range batch {
		all.Go(func() {
			for range todo {
				form := record.NewForm(record.Notes)
				form.Body = &record.Note{Name: "Groceries", Content: "- milk\n- bread\n- two pounds of apples"}
				form.Tags = []string{"home", "weekly"}
				if err := a.Server.Store.Update(func(tx *kv.Tx) error {
					for range 100 {
						if _, err := catalog.Add(tx, catalog.Draft{
							Owner: a.User.ID, Kind: record.Notes, Form: form,
						}); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					a.Error(err)
				}
			}
		})
	}
	for i := range n / 100 {
		todo <- i
	}
	close(todo)
	all.Wait()
}

func BenchmarkRedirect(b *testing.B) {
	a := apitest.Start(b, quiet)
	a.Post(
		"/api/v1/shorten", `{"originalUrl":"https://example.org/a/long/path","slug":"golink","isPublic":true}`,
	).Want(201)
	key := a.Key
	a.Key = ""
	bench(a, b, 302, "GET", "/s/golink", "")
	a.Key = key
}

func BenchmarkReadOne(b *testing.B) {
	a := apitest.Start(b, quiet)
	slug := a.Post("/api/v1/notes", benchNote).Want(201).Text("data.slug")
	bench(a, b, 200, "GET", "/api/v1/notes/"+slug, "")
}

func BenchmarkRaw(b *testing.B) {
	a := apitest.Start(b, quiet)
	bench(a, b, 200, "GET", "/x/"+a.Share(strings.Repeat("x", 4<<10)), "")
}

func BenchmarkPage(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := apitest.Start(b, quiet)
			fill(a, n)
			b.Run("first", func(b *testing.B) { bench(a, b, 200, "GET", "/api/v1/notes", "") })
			deep := fmt.Sprintf("/api/v1/notes?offset=%d", n-1000)
			b.Run("offset", func(b *testing.B) { bench(a, b, 200, "GET", deep, "") })
			b.Run("offset, by title", func(b *testing.B) { bench(a, b, 200, "GET", deep+"&sort=title", "") })
			cursor := a.Get(fmt.Sprintf("/api/v1/notes?offset=%d", n-100)).Want(200).Text("nextCursor")
			b.Run("last", func(b *testing.B) { bench(a, b, 200, "GET", "/api/v1/notes?cursor="+cursor, "") })
		})
	}
}

// BenchmarkPages makes the first page for 16 clients at the same time.
func BenchmarkPages(b *testing.B) {
	a := apitest.Start(b, quiet)
	fill(a, 1000)
	b.SetParallelism(16 / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w := &discard{h: http.Header{}}
			r := httptest.NewRequest("GET", "/api/v1/notes", nil)
			r.Host = "localhost"
			r.Header["X-Api-Key"] = []string{a.Key}
			a.Server.ServeHTTP(w, r)
			if w.status != 200 {
				b.Errorf("status %d", w.status)
			}
		}
	})
}

func BenchmarkCreate(b *testing.B) {
	a := apitest.Start(b, quiet)
	bench(a, b, 201, "POST", "/api/v1/notes", benchNote, "Content-Type", "application/json")
}

func BenchmarkUpload(b *testing.B) {
	a := apitest.Start(b, quiet)
	q := a.UploadRequest(nil, apitest.File("a.bin", "", strings.Repeat("\x01", 4<<10)))
	var body bytes.Buffer
	_, err := body.ReadFrom(q.Body)
	a.NoErr(err)
	bench(a, b, 201, "POST", "/api/v1/upload", body.String(), "Content-Type", q.Header.Get("Content-Type"))
}
