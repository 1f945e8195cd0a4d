package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// A bookmark of a page that is there already is made all the same, and the
// answer names the others.
func TestDuplicateBookmarks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	type answered struct {
		Data        struct{ ID, Slug string }
		DuplicateOf []struct{ ID, Slug string }
	}
	keep := func(address string) (made answered) {
		is.NoErr(json.Unmarshal(a.do(apiRequest{method: "POST", path: "/api/v1/bookmarks", json: map[string]any{"url": address, "title": "T"}}).want(201).body, &made))
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
		is.NoErr(json.Unmarshal(a.do(apiRequest{method: "GET", path: "/api/v1/bookmarks?" + query}).want(200).body, &list))
		is.Equal(len(list.Data), list.Total)
		return list.Total
	}
	is.Equal(found("url="+url.QueryEscape("https://example.org:443/a?fbclid=1")), 3)
	is.Equal(found("url="+url.QueryEscape("https://example.org/")), 0)
	is.Equal(found("unreachable=true"), 0)
	is.Equal(found("unreachable=false"), 4)
	a.do(apiRequest{method: "GET", path: "/api/v1/bookmarks?url=javascript:1", raw: true}).want(400)
	a.do(apiRequest{method: "GET", path: "/api/v1/bookmarks?unreachable=maybe", raw: true}).want(400)

	// Another user's are hidden.
	bob := a.addUser("bob", people.Member)
	made := a.do(apiRequest{method: "POST", path: "/api/v1/bookmarks", key: a.addKey(bob, people.ScopeAll), json: map[string]any{"url": "https://example.org/a"}}).want(201)
	is.Equal(made.at("duplicateOf"), []any{})

	// What it leads to now is what counts.
	a.do(apiRequest{method: "PATCH", path: "/api/v1/bookmarks/" + first.Data.Slug, json: map[string]any{"url": "https://example.org/b"}}).want(200)
	is.Equal(len(keep("https://example.org/b").DuplicateOf), 1)
}

// looking has the server look at pages until the test ends, or stop is called.
func (a *app) looking() (stop func()) {
	ctx, end := context.WithCancel(a.Context())
	var run sync.WaitGroup
	run.Go(func() { a.server.Links.Run(ctx) })
	run.Go(func() { a.server.Pictures.Run(ctx) })
	stop = func() { end(); run.Wait() }
	a.Cleanup(stop)
	return stop
}

// until asks for a record until it is as it should be.
func (a *app) until(path string, good func(*answer) bool) *answer {
	a.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		got := a.do(apiRequest{method: "GET", path: path}).want(200)
		if good(got) {
			return got
		}
		if time.Now().After(end) {
			a.Fatalf("%s stays as %s", path, got.body)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// A bookmark without a title gets that of its page, in the background. What its
// owner gave is left as it is, and the look is no edit.
func TestBookmarkIsFilledIn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	asked := make(chan string, 10)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			http.NotFound(w, r)
			return
		}
		asked <- r.URL.Path
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>The &lt;page&gt;</title><meta name=description content='What it is about'>")
	}))
	defer site.Close()
	post := func(fields map[string]any) *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/bookmarks", json: fields}).want(201)
	}
	seen := func(g *answer) bool { return g.at("data.reachable") != "unknown" }

	a.do(apiRequest{method: "PATCH", path: "/api/v1/admin/settings", json: map[string]any{"linkChecks": false}}).want(200)
	made := post(map[string]any{"url": site.URL + "/a"})
	is.Equal(made.at("data.reachable"), "unknown")
	is.Equal(made.at("data.checkedAt"), nil)
	stop := a.looking() // before it is allowed to
	on := a.do(apiRequest{method: "PATCH", path: "/api/v1/admin/settings", json: map[string]any{"linkChecks": true}}).want(200)
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

	// Found again by anyone who looks next.
	made = post(map[string]any{"url": site.URL + "/b", "title": "Mine"})
	a.looking()
	path = "/api/v1/bookmarks/" + made.text("data.id")
	got = a.until(path, seen)
	is.Equal(got.at("data.title"), "Mine")
	is.Equal(got.at("data.description"), "What it is about")
	is.Equal(<-asked, "/b")
}

// iconSite is a site with an icon, which counts how often it is asked for it.
func iconSite(t testing.TB) (address string, asked *atomic.Int32) {
	t.Helper()
	var icon bytes.Buffer
	m := image.NewNRGBA(image.Rect(0, 0, 96, 96))
	draw.Draw(m, m.Rect, image.NewUniform(color.NRGBA{0xd0, 0x20, 0x30, 0xff}), image.Point{}, draw.Src)
	if err := png.Encode(&icon, m); err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int32)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/icon.png" {
			if r.URL.RawQuery == "" { // not for the picture of the page
				asked.Add(1)
			}
			_, _ = w.Write(icon.Bytes())
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>Page</title><link rel=icon href=/icon.png><meta property=og:image content=/icon.png?og>")
	}))
	t.Cleanup(site.Close)
	return site.URL, asked
}

// A bookmark gets the icon of its site, once for all of them, whatever its owner
// wrote; who may see the bookmark may see it, and nobody else.
func TestBookmarkIcon(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	site, asked := iconSite(t)
	keep := func(slug string, more map[string]any) *answer {
		fields := map[string]any{"url": site + "/" + slug, "slug": slug, "title": "Mine", "description": "Mine"}
		maps.Copy(fields, more)
		return a.post("/api/v1/bookmarks", fields).want(201)
	}
	made := keep("own", nil)
	is.Equal(made.at("data.iconUrl"), nil)
	keep("open", map[string]any{"isPublic": true})
	a.patch("/api/v1/admin/settings", `{"linkChecks":false}`).want(200)
	stop := a.looking()
	a.visit("/t/open").want(404)
	is.Equal(asked.Load(), int32(0))
	a.patch("/api/v1/admin/settings", `{"linkChecks":true}`).want(200)
	for _, slug := range []string{"own", "open"} {
		got := a.until("/api/v1/bookmarks/"+slug, func(g *answer) bool { return g.at("data.iconUrl") != nil })
		is.Equal(got.at("data.iconUrl"), "https://kist.example.org/t/"+slug)
		is.Equal(got.at("data.title"), "Mine")
		is.Equal(got.at("data.updatedAt"), got.at("data.createdAt")) // it is no edit
	}
	is.Equal(asked.Load(), int32(1))

	got := a.get("/t/own").want(200)
	c, kind, err := image.DecodeConfig(bytes.NewReader(got.body))
	is.NoErr(err)
	is.True(kind == "png" && c.Width == 64 && c.Height == 64)
	a.isHostile("/t/own", got.header)
	is.Equal(got.header.Get("Content-Type"), "image/png")
	is.Equal(got.header.Get("Cache-Control"), "private, no-cache")
	tag := got.header.Get("Etag")
	is.True(tag != "")
	a.do(apiRequest{method: "GET", path: "/t/own", header: http.Header{"If-None-Match": {tag}}}).want(304)
	is.Equal(len(a.do(apiRequest{method: "HEAD", path: "/t/own"}).want(200).body), 0)
	is.True(bytes.Equal(a.get("/t/own.png").want(200).body, got.body))

	bob := a.addKey(a.addUser("bob", people.Member), people.ScopeAll)
	a.do(apiRequest{method: "GET", path: "/t/own", key: bob}).want(404)
	a.do(apiRequest{method: "GET", path: "/t/own", key: a.addKey(a.user, people.ScopeUpload)}).want(404)
	a.visit("/t/own").want(404)
	is.Equal(a.visit("/t/open").want(200).header.Get("Cache-Control"), "private, no-cache")
	edit := func(fields string) { a.patch("/api/v1/bookmarks/open", fields).want(200) }
	edit(`{"password":"open sesame"}`)
	a.visit("/t/open").want(401)
	is.Equal(a.visit("/t/open", "X-Share-Password", "open sesame").want(200).header.Get("Cache-Control"), "private, no-store")
	is.True(!strings.Contains(string(a.visit("/v/open").want(401).body), "/t/open"))
	edit(`{"password":"","maxViews":5}`)
	g := a.guest()
	g.see("GET", "/t/open").want(404)
	is.True(strings.Contains(string(g.see("GET", "/v/open").want(200).body), `<img class="favicon" src="/t/open"`))
	g.see("GET", "/t/open").want(200)
	is.Equal(a.get("/api/v1/bookmarks/open").at("data.views"), 1.0) // of the page: an icon is no view
	edit(`{"maxViews":null,"expiresAt":"` + a.clock.now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`)
	a.visit("/t/open").want(200)
	a.clock.advance(time.Hour)
	a.visit("/t/open").want(410)
	edit(`{"expiresAt":null}`)

	// Lost, it is got again when somebody wants to see it, and once.
	stop()
	cache := filepath.Join(a.server.Store.Dir(), "cache", "icons")
	is.NoErr(os.RemoveAll(cache))
	for range 3 {
		a.get("/t/own").want(404)
		a.visit("/t/open").want(404)
	}
	a.looking()
	a.until("/api/v1/bookmarks", func(*answer) bool { return a.get("/t/open").status == 200 })
	a.get("/t/own").want(200)
	is.Equal(asked.Load(), int32(2))
	removed, err := a.server.Icons.Sweep(func() ([]record.ID, error) { return catalog.Icons(a.server.Store) })
	is.NoErr(err)
	is.Equal(removed, 0)

	// It is that of the page which the bookmark leads to now.
	a.patch("/api/v1/admin/settings", `{"linkChecks":false}`).want(200)
	is.Equal(a.patch("/api/v1/bookmarks/own", `{"url":"https://example.org/"}`).want(200).at("data.iconUrl"), nil)
	a.get("/t/own").want(404)
	// Turned off, nothing is asked for one that is lost.
	is.NoErr(os.RemoveAll(cache))
	a.get("/t/open").want(404)
	is.Equal(asked.Load(), int32(2))
}

// The icon is the server's own picture: it comes from the origin of the pages,
// and nothing of it is at the one for content.
func TestIconOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, apart)
	site, _ := iconSite(t)
	a.post("/api/v1/bookmarks", map[string]any{"url": site, "slug": "open", "isPublic": true}).want(201)
	a.looking()
	a.until("/api/v1/bookmarks/open", func(g *answer) bool { return g.at("data.iconUrl") != nil })
	is.Equal(a.visit("/t/open").want(200).header.Get("Content-Type"), "image/png")
	a.guest().see("GET", "/t/open", "Host", contentHost).want(404)
	a.guest().see("GET", "/t/open.png", "Host", contentHost).want(404)
}
