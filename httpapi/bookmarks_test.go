package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// A bookmark of a page that is there already is made all the same, and the
// answer names the others.
func TestDuplicateBookmarks(t *testing.T) {
	is := is.New(t)
	a := start(t)
	type answered struct {
		Data        struct{ ID, Slug string }
		DuplicateOf []struct{ ID, Slug string }
	}
	keep := func(address string) (made answered) {
		is.NoErr(json.Unmarshal(a.do(request{method: "POST", path: "/api/v1/bookmarks", json: map[string]any{"url": address, "title": "T"}}).want(201).body, &made))
		return made
	}
	first := keep("https://example.org/a")
	is.Equal(len(first.DuplicateOf), 0)
	second := keep("https://EXAMPLE.org/a/?utm_source=mail#top")
	is.Equal(len(second.DuplicateOf), 1)
	is.Equal(second.DuplicateOf[0].ID, first.Data.ID)
	is.Equal(second.DuplicateOf[0].Slug, first.Data.Slug)
	is.Equal(len(keep("https://example.org/a").DuplicateOf), 2)
	is.Equal(len(keep("https://example.org/a#/route").DuplicateOf), 0)

	found := func(query string) int {
		var list struct {
			Data  []struct{ ID string }
			Total int
		}
		is.NoErr(json.Unmarshal(a.do(request{method: "GET", path: "/api/v1/bookmarks?" + query}).want(200).body, &list))
		is.Equal(len(list.Data), list.Total)
		return list.Total
	}
	is.Equal(found("url="+url.QueryEscape("https://example.org:443/a?fbclid=1")), 3)
	is.Equal(found("url="+url.QueryEscape("https://example.org/")), 0)
	is.Equal(found("unreachable=true"), 0)
	is.Equal(found("unreachable=false"), 4)
	a.do(request{method: "GET", path: "/api/v1/bookmarks?url=javascript:1", raw: true}).want(400)
	a.do(request{method: "GET", path: "/api/v1/bookmarks?unreachable=1", raw: true}).want(400)

	// Another's are nobody's business.
	bob := a.addUser("bob", record.Member)
	made := a.do(request{method: "POST", path: "/api/v1/bookmarks", key: a.addKey(bob, record.ScopeAll), json: map[string]any{"url": "https://example.org/a"}}).want(201)
	is.Equal(made.at("duplicateOf"), []any{})

	// What it leads to now is what counts.
	a.do(request{method: "PATCH", path: "/api/v1/bookmarks/" + first.Data.Slug, json: map[string]any{"url": "https://example.org/b"}}).want(200)
	is.Equal(len(keep("https://example.org/b").DuplicateOf), 1)
}

// looking has the server look at pages until the test ends, or stop is called.
func (a *app) looking() (stop func()) {
	ctx, end := context.WithCancel(a.Context())
	var run sync.WaitGroup
	run.Go(func() { a.server.lookout.Run(ctx) })
	stop = func() { end(); run.Wait() }
	a.Cleanup(stop)
	return stop
}

// until asks for a record until it is as it should be.
func (a *app) until(path string, good func(*answer) bool) *answer {
	a.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		got := a.do(request{method: "GET", path: path}).want(200)
		if good(got) {
			return got
		}
		if time.Now().After(end) {
			a.Fatalf("%s stays as %s", path, got.body)
		}
		runtime.Gosched() // the request takes its time
	}
}

// A bookmark without a title gets that of its page, in the background. What its
// owner gave is left as it is, and the look is no edit.
func TestBookmarkIsFilledIn(t *testing.T) {
	is := is.New(t)
	a := start(t)
	asked := make(chan string, 10)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>The &lt;page&gt;</title><meta name=description content='What it is about'>")
	}))
	defer site.Close()
	post := func(fields map[string]any) *answer {
		return a.do(request{method: "POST", path: "/api/v1/bookmarks", json: fields}).want(201)
	}
	seen := func(g *answer) bool { return g.at("data.reachable") != "unknown" }

	a.do(request{method: "PATCH", path: "/api/v1/admin/settings", json: map[string]any{"linkChecks": false}}).want(200)
	made := post(map[string]any{"url": site.URL + "/a"})
	is.Equal(made.at("data.reachable"), "unknown")
	is.Equal(made.at("data.checkedAt"), nil)
	stop := a.looking() // before it is allowed to
	on := a.do(request{method: "PATCH", path: "/api/v1/admin/settings", json: map[string]any{"linkChecks": true}}).want(200)
	is.Equal(on.at("data.linkChecks"), true)
	path := "/api/v1/bookmarks/" + made.text("data.id")
	got := a.until(path, seen)
	is.Equal(got.at("data.title"), "The <page>")
	is.Equal(got.at("data.description"), "What it is about")
	is.Equal(got.at("data.reachable"), "yes")
	is.Equal(got.at("data.unreachableSince"), nil)
	is.Equal(got.at("data.updatedAt"), made.at("data.updatedAt"))
	is.Equal(<-asked, "/a")
	stop()

	// Found again by whoever looks next.
	made = post(map[string]any{"url": site.URL + "/b", "title": "Mine"})
	a.looking()
	path = "/api/v1/bookmarks/" + made.text("data.id")
	got = a.until(path, seen)
	is.Equal(got.at("data.title"), "Mine")
	is.Equal(got.at("data.description"), "What it is about")
	is.Equal(<-asked, "/b")
}
