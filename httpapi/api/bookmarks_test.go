package api_test

import (
	"bytes"
	"encoding/json"
	"image"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// A bookmark of a page that is there already is made all the same, and the
// answer names the others.
func TestDuplicateBookmarks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	type answered struct {
		Data        struct{ ID, Slug string }
		DuplicateOf []struct{ ID, Slug string }
	}
	keep := func(address string) (made answered) {
		is.NoErr(json.Unmarshal(
			a.Do(apitest.Request{
				Method: "POST", Path: "/api/v1/bookmarks", JSON: map[string]any{"url": address, "title": "T"},
			}).Want(201).Body,
			&made,
		))
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
		is.NoErr(json.Unmarshal(
			a.Do(apitest.Request{Method: "GET", Path: "/api/v1/bookmarks?" + query}).Want(200).Body, &list,
		))
		is.Equal(len(list.Data), list.Total)
		return list.Total
	}
	is.Equal(found("url="+url.QueryEscape("https://example.org:443/a?fbclid=1")), 3)
	is.Equal(found("url="+url.QueryEscape("https://example.org/")), 0)
	is.Equal(found("unreachable=true"), 0)
	is.Equal(found("unreachable=false"), 4)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/bookmarks?url=javascript:1", Raw: true}).Want(400)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/bookmarks?unreachable=maybe", Raw: true}).Want(400)

	// Another user's are hidden.
	bob := a.AddUser("bob", people.Member)
	made := a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/bookmarks", Key: a.AddKey(bob, people.ScopeAll),
		JSON: map[string]any{"url": "https://example.org/a"},
	}).Want(201)
	is.Equal(made.At("duplicateOf"), []any{})

	// What it leads to now is what counts.
	a.Do(apitest.Request{
		Method: "PATCH", Path: "/api/v1/bookmarks/" + first.Data.Slug, JSON: map[string]any{"url": "https://example.org/b"},
	}).Want(200)
	is.Equal(len(keep("https://example.org/b").DuplicateOf), 1)
}

// A bookmark without a title gets that of its page, in the background. What its
// owner gave is left as it is, and the look is no edit.
func TestBookmarkIsFilledIn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
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
	post := func(fields map[string]any) *apitest.Answer {
		return a.Do(apitest.Request{Method: "POST", Path: "/api/v1/bookmarks", JSON: fields}).Want(201)
	}
	seen := func(g *apitest.Answer) bool { return g.At("data.reachable") != "unknown" }

	a.Do(apitest.Request{
		Method: "PATCH", Path: "/api/v1/admin/settings", JSON: map[string]any{"linkChecks": false},
	}).Want(200)
	made := post(map[string]any{"url": site.URL + "/a"})
	is.Equal(made.At("data.reachable"), "unknown")
	is.Equal(made.At("data.checkedAt"), nil)
	stop := a.Looking() // before it is allowed to
	on := a.Do(apitest.Request{
		Method: "PATCH", Path: "/api/v1/admin/settings", JSON: map[string]any{"linkChecks": true},
	}).Want(200)
	is.Equal(on.At("data.linkChecks"), true)
	path := "/api/v1/bookmarks/" + made.Text("data.id")
	got := a.Until(path, seen)
	is.Equal(got.At("data.title"), "The <page>")
	is.Equal(got.At("data.description"), "What it is about")
	is.Equal(got.At("data.reachable"), "yes")
	is.Equal(got.At("data.unreachableSince"), nil)
	is.Equal(got.At("data.updatedAt"), made.At("data.updatedAt"))
	is.Equal(<-asked, "/a")
	stop()

	// Found again by anyone who looks next.
	made = post(map[string]any{"url": site.URL + "/b", "title": "Mine"})
	a.Looking()
	path = "/api/v1/bookmarks/" + made.Text("data.id")
	got = a.Until(path, seen)
	is.Equal(got.At("data.title"), "Mine")
	is.Equal(got.At("data.description"), "What it is about")
	is.Equal(<-asked, "/b")
}

// A bookmark gets the icon of its site, once for all of them, whatever its owner
// wrote; who may see the bookmark may see it, and nobody else.
func TestBookmarkIcon(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	site, asked := apitest.IconSite(t)
	keep := func(slug string, more map[string]any) *apitest.Answer {
		fields := map[string]any{"url": site + "/" + slug, "slug": slug, "title": "Mine", "description": "Mine"}
		maps.Copy(fields, more)
		return a.Post("/api/v1/bookmarks", fields).Want(201)
	}
	made := keep("own", nil)
	is.Equal(made.At("data.iconUrl"), nil)
	keep("open", map[string]any{"isPublic": true})
	a.Patch("/api/v1/admin/settings", `{"linkChecks":false}`).Want(200)
	stop := a.Looking()
	a.Visit("/t/open").Want(404)
	is.Equal(asked.Load(), int32(0))
	a.Patch("/api/v1/admin/settings", `{"linkChecks":true}`).Want(200)
	for _, slug := range []string{"own", "open"} {
		got := a.Until("/api/v1/bookmarks/"+slug, func(g *apitest.Answer) bool { return g.At("data.iconUrl") != nil })
		is.Equal(got.At("data.iconUrl"), "https://kist.example.org/t/"+slug)
		is.Equal(got.At("data.title"), "Mine")
		is.Equal(got.At("data.updatedAt"), got.At("data.createdAt")) // it is no edit
	}
	is.Equal(asked.Load(), int32(1))

	got := a.Get("/t/own").Want(200)
	c, kind, err := image.DecodeConfig(bytes.NewReader(got.Body))
	is.NoErr(err)
	is.True(kind == "png" && c.Width == 64 && c.Height == 64)
	a.IsHostile("/t/own", got.Header)
	is.Equal(got.Header.Get("Content-Type"), "image/png")
	is.Equal(got.Header.Get("Cache-Control"), "private, no-cache")
	tag := got.Header.Get("Etag")
	is.True(tag != "")
	a.Do(apitest.Request{Method: "GET", Path: "/t/own", Header: http.Header{"If-None-Match": {tag}}}).Want(304)
	is.Equal(len(a.Do(apitest.Request{Method: "HEAD", Path: "/t/own"}).Want(200).Body), 0)
	is.True(bytes.Equal(a.Get("/t/own.png").Want(200).Body, got.Body))

	bob := a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll)
	a.Do(apitest.Request{Method: "GET", Path: "/t/own", Key: bob}).Want(404)
	a.Do(apitest.Request{Method: "GET", Path: "/t/own", Key: a.AddKey(a.User, people.ScopeUpload)}).Want(404)
	a.Visit("/t/own").Want(404)
	is.Equal(a.Visit("/t/open").Want(200).Header.Get("Cache-Control"), "private, no-cache")
	edit := func(fields string) { a.Patch("/api/v1/bookmarks/open", fields).Want(200) }
	edit(`{"password":"open sesame"}`)
	a.Visit("/t/open").Want(401)
	is.Equal(
		a.Visit("/t/open", "X-Share-Password", "open sesame").Want(200).Header.Get("Cache-Control"), "private, no-store",
	)
	is.True(!strings.Contains(string(a.Visit("/v/open").Want(401).Body), "/t/open"))
	edit(`{"password":"","maxViews":5}`)
	g := a.Guest()
	g.See("GET", "/t/open").Want(404)
	is.True(strings.Contains(string(g.See("GET", "/v/open").Want(200).Body), `<img class="favicon" src="/t/open"`))
	g.See("GET", "/t/open").Want(200)
	is.Equal(a.Get("/api/v1/bookmarks/open").At("data.views"), 1.0) // of the page: an icon is no view
	edit(`{"maxViews":null,"expiresAt":"` + a.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`)
	a.Visit("/t/open").Want(200)
	a.Clock.Advance(time.Hour)
	a.Visit("/t/open").Want(410)
	edit(`{"expiresAt":null}`)

	// Lost, it is got again when somebody wants to see it, and once.
	stop()
	cache := filepath.Join(a.Server.Store.Dir(), "cache", "icons")
	is.NoErr(os.RemoveAll(cache))
	for range 3 {
		a.Get("/t/own").Want(404)
		a.Visit("/t/open").Want(404)
	}
	a.Looking()
	a.Until("/api/v1/bookmarks", func(*apitest.Answer) bool { return a.Get("/t/open").Status == 200 })
	a.Get("/t/own").Want(200)
	is.Equal(asked.Load(), int32(2))
	removed, err := a.Server.Icons.Sweep(func() ([]record.ID, error) { return catalog.Icons(a.Server.Store) })
	is.NoErr(err)
	is.Equal(removed, 0)

	// It is that of the page which the bookmark leads to now.
	a.Patch("/api/v1/admin/settings", `{"linkChecks":false}`).Want(200)
	is.Equal(a.Patch("/api/v1/bookmarks/own", `{"url":"https://example.org/"}`).Want(200).At("data.iconUrl"), nil)
	a.Get("/t/own").Want(404)
	// Turned off, nothing is asked for one that is lost.
	is.NoErr(os.RemoveAll(cache))
	a.Get("/t/open").Want(404)
	is.Equal(asked.Load(), int32(2))
}

// The icon is the server's own picture: it comes from the origin of the pages,
// and nothing of it is at the one for content.
func TestIconOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.Apart)
	site, _ := apitest.IconSite(t)
	a.Post("/api/v1/bookmarks", map[string]any{"url": site, "slug": "open", "isPublic": true}).Want(201)
	a.Looking()
	a.Until("/api/v1/bookmarks/open", func(g *apitest.Answer) bool { return g.At("data.iconUrl") != nil })
	is.Equal(a.Visit("/t/open").Want(200).Header.Get("Content-Type"), "image/png")
	a.Guest().See("GET", "/t/open", "Host", apitest.ContentHost).Want(404)
	a.Guest().See("GET", "/t/open.png", "Host", apitest.ContentHost).Want(404)
}
