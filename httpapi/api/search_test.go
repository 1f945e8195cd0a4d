package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/api"
	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/search"
)

// found are the titles that a search finds, in order.
func found(a *apitest.App, q string, more ...string) string {
	a.Helper()
	values := url.Values{"q": {q}}
	for i := 0; i < len(more); i += 2 {
		values.Add(more[i], more[i+1])
	}
	answer := a.Get("/api/v1/search?" + values.Encode()).Want(200)
	var titles []string
	for _, x := range answer.At("data").([]any) {
		titles = append(titles, x.(map[string]any)["title"].(string))
	}
	if answer.At("nextCursor") == nil && answer.At("total") != float64(len(titles)) && values.Get("cursor") == "" {
		a.Errorf("%q: %v results, total %v", q, len(titles), answer.At("total"))
	}
	return strings.Join(titles, "|")
}

// What was just written is found by the next request, whether the index is
// there, is not, or is behind.
func TestSearch(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"index", "scan"} {
		t.Run(how, func(t *testing.T) {
			is := is.New(t)
			a := apitest.Start(t)
			if how == "index" {
				a.Indexed()
			}
			id := a.Post(
				"/api/v1/notes",
				map[string]any{"title": "Summer plans", "content": "Go to the *sea* <b>soon</b>", "tags": []string{"Long trip"}},
			).Want(201).Text("data.id")
			a.Post("/api/v1/notes", map[string]any{"content": "\n untitled, the sea"}).Want(201)
			a.Post(
				"/api/v1/bookmarks", map[string]any{"url": "https://example.org/sea", "title": "Sea", "isPublic": true},
			).Want(201)
			slug := a.Upload(
				map[string]string{"isPublic": "true"},
				apitest.File("sea story.txt", "", "Once upon a time there was a lighthouse keeper 😀 who lit the lamp."),
			).Want(201).Text("slug")

			is.Equal(found(a, "sea"), "sea story.txt|Sea|untitled, the sea|Summer plans")
			is.Equal(found(a, "sea", "kind", "notes"), "untitled, the sea|Summer plans")
			is.Equal(found(a, "sea", "tag", "long trip"), "Summer plans")
			is.Equal(found(a, "lighthose"), "sea story.txt") // in the text of a file, with an error
			is.Equal(found(a, "", "tags", "nothing"), "")
			is.Equal(found(a, "tag:trip"), "")
			is.Equal(found(a, `tag:"long trip"`), "Summer plans")

			one := a.Get("/api/v1/search?q=keeper+who").Want(200)
			is.Equal(one.Text("data.0.slug"), slug)
			is.Equal(one.Text("data.0.url"), "https://kist.example.org/x/"+slug)
			is.Equal(one.Text("data.0.record.originalName"), "sea story.txt")
			is.Equal(one.Text("data.0.highlight.text"), "Once upon a time there was a lighthouse keeper 😀 who lit the lamp.")
			is.Equal(fmt.Sprint(one.At("data.0.highlight.ranges")), "[[40 46] [50 53]]") // of UTF-16, in which 😀 counts two
			two := a.Get("/api/v1/search?q=soon+summer").Want(200)
			is.Equal(two.Text("data.0.highlight.text"), "Go to the *sea* <b>soon</b>") // text, not HTML
			is.Equal(fmt.Sprint(two.At("data.0.highlight.title")), "[[0 6]]")
			is.Equal(fmt.Sprint(two.At("data.0.tags")), "[Long trip]")

			// Edits and removals show at once.
			a.Patch("/api/v1/notes/"+id, map[string]any{"title": "Winter plans"}).Want(200)
			is.Equal(found(a, "summer"), "")
			is.Equal(found(a, "winter"), "Winter plans")
			a.Delete("/api/v1/notes/" + id).Want(200)
			is.Equal(found(a, "winter"), "")
			is.Equal(found(a, "kind:note"), "untitled, the sea")

			// Another's are not found, whatever is asked.
			bob := a.As(a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll))
			is.Equal(found(bob, "sea"), "")
			is.Equal(found(bob, ""), "")
			is.Equal(found(bob, "owner:"+a.User.ID.String()), "")
			is.Equal(found(bob, "tag:trip -tag:nothing"), "")
		})
	}
}

// The pages of a search together have the results of one long page.
func TestSearchPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	end := a.Indexed()
	for i := range 25 {
		a.Post(
			"/api/v1/notes", map[string]any{"title": fmt.Sprintf("%s %02d", []string{"sea", "x"}[i%2], i), "content": "sea"},
		).Want(201)
	}
	whole := found(a, "sea", "limit", "500")
	is.Equal(len(strings.Split(whole, "|")), 25)
	for range 2 {
		var pages []string
		cursor := ""
		for {
			answer := a.Get("/api/v1/search?q=sea&limit=7&cursor=" + cursor).Want(200)
			is.Equal(answer.At("total"), 25.0)
			is.Equal(answer.At("incomplete"), false)
			for _, x := range answer.At("data").([]any) {
				pages = append(pages, x.(map[string]any)["title"].(string))
			}
			if answer.At("nextCursor") == nil {
				break
			}
			cursor = answer.Text("nextCursor")
		}
		is.Equal(strings.Join(pages, "|"), whole)
		a.Get("/api/v1/search?q=other&cursor=" + cursor).Want(400)
		end() // the same without the index
	}
	for _, bad := range []string{
		"?limit=0", "?limit=501", "?kind=cat", "?cursor=x", "?q=" + strings.Repeat("x", 1001),
		"?q=" + strings.Repeat("a+", 33),
	} {
		a.Do(apitest.Request{Method: "GET", Path: "/api/v1/search" + bad, Raw: true}).Want(400)
	}
}

// q of a list is complete and in the list's order, with its filters.
func TestListsSearch(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"index", "scan"} {
		t.Run(how, func(t *testing.T) {
			is := is.New(t)
			a := apitest.Start(t)
			if how == "index" {
				a.Indexed()
			}
			for i := range 12 {
				a.Post(
					"/api/v1/notes",
					map[string]any{
						"title": fmt.Sprintf("%c sea", 'l'-i), "content": "x", "isFavorite": i%2 == 0,
						"tags": []string{[]string{"odd", "even"}[i%2]},
					},
				).Want(201)
				a.Post("/api/v1/snippets", map[string]any{"title": "sea", "content": "x"}).Want(201)
			}
			a.Post("/api/v1/notes", map[string]any{"title": "hills", "content": "no water"}).Want(201)
			list := func(query string) string {
				t.Helper()
				answer := a.Get("/api/v1/notes?" + query).Want(200)
				text := fmt.Sprint(answer.At("total"), ":")
				for _, x := range answer.At("data").([]any) {
					text += x.(map[string]any)["title"].(string)[:1]
				}
				return text
			}
			is.Equal(list("q=sea"), "12:abcdefghijkl")
			is.Equal(list("q=sea&sort=oldest&limit=3"), "12:lkj")
			is.Equal(list("q=sea&sort=title&offset=10"), "12:kl")
			is.Equal(list("q=se&favorite=true&limit=2"), "6:bd")
			is.Equal(list("q=sea&tag=odd&sort=title"), "6:bdfhjl")
			is.Equal(list("q=-sea"), "1:h")
			is.Equal(list("q=tag:odd+-is:favorite"), "0:")
			is.Equal(list("q=saes"), "0:")   // two errors
			is.Equal(list("q=hlils"), "1:h") // one
			is.Equal(list("q=%2B*"), "0:")
			next := a.Get("/api/v1/notes?q=sea&limit=5").Want(200).Text("nextCursor")
			is.Equal(list("q=sea&limit=5&cursor="+next), "12:fghij")
			a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes?q=other&cursor=" + next, Raw: true}).Want(400)
		})
	}
}

// While writers do not stop, whatever was acknowledged is found.
func TestSearchWhileWriting(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Indexed()
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 40 {
				word := fmt.Sprintf("word%dx%d", w, i)
				a.Post("/api/v1/notes", map[string]any{"title": word, "content": ""}).Want(201)
				if got := found(a, `"`+word+`"`); got != word {
					t.Errorf("%s was not found: %q", word, got)
				}
			}
		})
	}
	work.Wait()
	is.Equal(a.Get("/api/v1/notes?q=word&limit=1").Want(200).At("total"), 160.0)
	is.Equal(a.Get("/api/v1/admin/stats").Want(200).Text("data.index.state"), "ready")
}

// A client that goes away before the answer leaves no error in the log.
func TestSearchAbandoned(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Post("/api/v1/notes", map[string]any{"title": "sea", "content": ""}).Want(201)
	for _, path := range []string{"/api/v1/search?q=sea", "/api/v1/notes?q=sea"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
		r.Host = "localhost"
		r.Header.Set("X-Api-Key", a.Key)
		func() {
			defer func() { is.Equal(recover(), http.ErrAbortHandler) }()
			a.Server.ServeHTTP(httptest.NewRecorder(), r)
		}()
	}
	is.True(!strings.Contains(a.Logged.String(), `"level":"ERROR"`))
}

// A request that panics amid a search gives the index back, which could not be
// closed otherwise.
func TestSearchPanics(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	end := a.Indexed()
	c := &web.Request{Site: a.Server.Site, R: httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/search", nil)}
	func() {
		defer func() { is.Equal(recover(), "amid") }()
		_ = api.ViewWithIndex(c, true, func(*kv.Tx, api.IndexLookup) error { panic("amid") })
	}()
	end() // does not wait for ever
}

// A search that waits for the index keeps no place in which answers are made.
func TestWaitingSearchesHoldNoPlace(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	a.Post("/api/v1/notes", map[string]any{"title": "sea", "content": ""}).Want(201)
	for _, row := range []struct {
		path  string
		serve func(*web.Request) error
	}{
		{"/api/v1/search?q=sea", api.Search.Serve},
		{"/api/v1/notes?q=sea", api.ListRecords(record.Notes).Serve},
	} {
		t.Run(row.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				ctx, end := context.WithCancel(t.Context())
				site := &web.Site{
					Config: a.Server.Config, Limits: limit.New(func(netip.Prefix) bool { return true }),
				}
				opening := make(chan struct{})
				site.Search = search.New(search.Options{
					Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
					Feed: func(uint64, int) ([]kv.Change, uint64, uint64, error) {
						<-opening
						return nil, 0, 0, ctx.Err()
					},
				})
				var work, searches sync.WaitGroup
				work.Go(func() { site.Search.Run(ctx) })
				request := func() (*web.Request, *httptest.ResponseRecorder) {
					w := httptest.NewRecorder()
					return &web.Request{
						Site: site, R: httptest.NewRequestWithContext(ctx, "GET", row.path, nil),
						Caller: &people.Caller{User: *a.User},
						W:      &web.AnswerWriter{ResponseWriter: w, Ctl: http.NewResponseController(w)},
					}, w
				}
				for range 10 {
					searches.Go(func() {
						c, w := request()
						err := row.serve(c)
						if err != nil || !strings.Contains(w.Body.String(), `"sea"`) {
							t.Errorf("a search answered %s: %v", w.Body, err)
						}
						c.ReleaseMemory()
					})
				}
				synctest.Wait()

				before := time.Now()
				c, _ := request()
				is.NoErr(c.RespondOK())
				is.Equal(time.Since(before), time.Duration(0))
				c.ReleaseMemory()
				searches.Wait() // they read without the index
				end()
				close(opening)
				work.Wait()
			})
		})
	}
}
