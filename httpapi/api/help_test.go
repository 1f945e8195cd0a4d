package api_test

import (
	"bytes"
	"compress/gzip"
	"html"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

// TestHandbook: anyone can read every page, without scripts, and every link in
// it leads to a page and a heading that are there, in every language.
func TestHandbook(t *testing.T) {
	ids := map[string][]string{} // of the headings, by the page
	for _, l := range embed.Langs() {
		t.Run(string(l), func(t *testing.T) {
			for path, page := range handbookIn(t, l) {
				var own []string
				for _, id := range regexp.MustCompile(`<h[1-6] id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
					own = append(own, id[1])
				}
				if others, ok := ids[path]; ok && !slices.Equal(own, others) {
					t.Errorf("%s: the headings have other ids: %v, %v", path, own, others)
				}
				ids[path] = own
			}
		})
	}
	a := apitest.Start(t)
	a.Do(apitest.Request{Method: "GET", Path: "/help/nothing", Anyone: true}).Want(404)
	a.Do(apitest.Request{Method: "GET", Path: "/help/index", Anyone: true}).Want(404)
	a.Do(apitest.Request{Method: "GET", Path: "/help/de/sharing", Anyone: true}).Want(404)
	a.Do(apitest.Request{Method: "GET", Path: "/help/", Anyone: true}).Want(308)
}

// handbookIn fetches and checks the pages that a reader of the language gets.
func handbookIn(t *testing.T, l embed.Lang) map[string]string {
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Base = "https://kist.example.org/kist" })
	paths := []string{"/help", "/help?q=backup", "/help?q=nosuchword"}
	for _, topic := range embed.Topics(l) {
		paths = append(paths, "/help/"+topic.Name)
	}
	pages := map[string]string{}
	for _, path := range paths {
		got := a.Do(apitest.Request{
			Method: "GET", Path: path, Anyone: true, Header: http.Header{
				"Accept": {"text/html"}, "Accept-Encoding": {"gzip"}, "Accept-Language": {string(l) + "-AT, fr;q=0.5"},
			},
		}).Want(200)
		r, err := gzip.NewReader(bytes.NewReader(got.Body))
		is.NoErr(err)
		page, err := io.ReadAll(r)
		is.NoErr(err)
		pages["/kist"+path] = string(page)
		is.True(!bytes.Contains(page, []byte("<script")))
		is.True(bytes.Contains(page, []byte("<h1")))
		is.True(!bytes.Contains(page, []byte("<br>"))) // lines are joined
		is.True(!bytes.Contains(page, []byte(`<pre class="plain"`)))
		is.Equal(got.Header.Get("Content-Security-Policy"), embed.HelpPage{}.Policy())
		is.True(strings.Contains(got.Header.Get("Vary"), "Accept-Language"))
		is.True(strings.Contains(got.Header.Get("Vary"), "Cookie"))
		is.True(strings.Contains(string(page), `<html lang="`+string(l)+`"`))
		if topic, ok := embed.HelpTopic(l, strings.TrimPrefix(path, "/help/")); ok {
			is.True(strings.Contains(string(page), `<div class="prose" lang="`+string(topic.Lang)+`"><h1`))
			is.True(strings.Contains(string(page), ">"+topic.Title+"</h1>"))
			is.Equal(strings.Contains(string(page), l.T("page.inEnglish")), topic.Lang != l)
		}
		total := len(got.Body)
		for _, file := range regexp.MustCompile(`/static/[a-z0-9.-]+\.(?:css|js|svg)`).FindAllString(string(page), -1) {
			total += len(a.Do(apitest.Request{
				Method: "GET", Path: file, Anyone: true, Header: http.Header{"Accept-Encoding": {"gzip"}},
			}).Want(200).Body)
		}
		t.Logf("%s: %d bytes, %d of them the page", path, total, len(got.Body))
		is.True(total < 15<<10)
	}
	for _, topic := range embed.Topics(l) { // the index says which pages are in another language
		link := `<a href="/kist/help/` + topic.Name + `"`
		if topic.Lang != l {
			link += ` lang="` + string(topic.Lang) + `"`
		}
		is.True(strings.Contains(pages["/kist/help"], link+">"+topic.Title+"</a>"))
	}
	count := 0
	for path, page := range pages {
		for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			to, anchor, _ := strings.Cut(html.UnescapeString(link[1]), "#")
			if to == "" {
				to = path
			} else if !strings.HasPrefix(to, "/kist/help") {
				continue
			}
			count++
			if target, ok := pages[to]; !ok || anchor != "" && !strings.Contains(target, ` id="`+anchor+`"`) {
				t.Errorf("%s: %s leads nowhere", path, link[1])
			}
		}
	}
	t.Log(count, "links")
	is.True(count > 80)
	return pages
}

func TestHandbookSearch(t *testing.T) {
	is := is.New(t)
	a := apitest.Start(t)
	find := func(query string) string { return string(a.Visit("/help?q=" + query).Want(200).Body) }
	page := find("dns+Rebinding")
	is.True(strings.Contains(page, `<a href="/help/proxy-and-tls" lang="en">Proxy and TLS</a>`))
	is.Equal(strings.Count(page, `<li>`), 1)
	is.True(strings.Contains(page, `value="dns Rebinding"`))
	is.True(strings.Contains(find("nosuchword"), "No page of the handbook contains all these words."))
	is.True(!strings.Contains(find("%3Cimg+src%3Dx%3E"), "<img"))
	is.True(strings.Contains(find("+"), "<h1")) // nothing to look for: the index
	a.Visit("/help?q=%ff").Want(400)

	german := string(a.Visit("/help?q=papierkorb+leeren", "Accept-Language", "de").Want(200).Body)
	is.True(strings.Contains(german, `<a href="/help/deleted" lang="de">Papierkorb und Versionen</a>`))
	german = string(a.Visit("/help?q=dns+Rebinding", "Accept-Language", "de").Want(200).Body)
	is.True(strings.Contains(german, `<a href="/help/proxy-and-tls" lang="en">Proxy and TLS</a>`))

	// what the account has chosen goes before what the browser prefers
	a.Patch("/api/v1/me", `{"language":"de"}`).Want(200)
	page = string(a.Do(apitest.Request{
		Method: "GET", Path: "/help/sharing", Header: http.Header{"Accept": {"text/html"}, "Accept-Language": {"en"}},
	}).Want(200).Body)
	is.True(strings.Contains(page, `<h1 id="h-sharing">Teilen</h1>`))
}
