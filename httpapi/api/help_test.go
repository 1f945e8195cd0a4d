package api_test

import (
	"bytes"
	"compress/gzip"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

// TestHandbook: anyone can read every page, without scripts, and every link in
// it leads to a page and a heading that are there.
func TestHandbook(t *testing.T) {
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Base = "https://kist.example.org/kist" })
	paths := []string{"/help", "/help?q=backup", "/help?q=nosuchword"}
	for _, topic := range embed.Topics() {
		paths = append(paths, "/help/"+topic.Name)
	}
	pages := map[string]string{}
	for _, path := range paths {
		got := a.Do(apitest.Request{
			Method: "GET", Path: path, Anyone: true, Header: http.Header{"Accept": {"text/html"}, "Accept-Encoding": {"gzip"}},
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
		total := len(got.Body)
		for _, file := range regexp.MustCompile(`/static/[a-z0-9.-]+\.(?:css|js|svg)`).FindAllString(string(page), -1) {
			total += len(a.Do(apitest.Request{
				Method: "GET", Path: file, Anyone: true, Header: http.Header{"Accept-Encoding": {"gzip"}},
			}).Want(200).Body)
		}
		t.Logf("%s: %d bytes, %d of them the page", path, total, len(got.Body))
		is.True(total < 15<<10)
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
	a.Do(apitest.Request{Method: "GET", Path: "/help/nothing", Anyone: true}).Want(404)
	a.Do(apitest.Request{Method: "GET", Path: "/help/index", Anyone: true}).Want(404)
	a.Do(apitest.Request{Method: "GET", Path: "/help/", Anyone: true}).Want(308)
}

func TestHandbookSearch(t *testing.T) {
	is := is.New(t)
	a := apitest.Start(t)
	find := func(query string) string { return string(a.Visit("/help?q=" + query).Want(200).Body) }
	page := find("dns+Rebinding")
	is.True(strings.Contains(page, `<a href="/help/proxy-and-tls">Proxy and TLS</a>`))
	is.Equal(strings.Count(page, `<li>`), 1)
	is.True(strings.Contains(page, `value="dns Rebinding"`))
	is.True(strings.Contains(find("nosuchword"), "No page of the handbook contains all these words."))
	is.True(!strings.Contains(find("%3Cimg+src%3Dx%3E"), "<img"))
	is.True(strings.Contains(find("+"), "<h1")) // nothing to look for: the index
	a.Visit("/help?q=%ff").Want(400)
}
