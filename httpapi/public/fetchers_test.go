package public_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
	"Chrome/140.0.0.0 Safari/537.36"

// TestFetchers: an item with a limit is shown to those who open it, and only its title to what fetches links.
func TestFetchers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		agent, mode string
		page, bytes bool // whether the item is sent at the address of its page, and of its bytes
	}{
		"a browser":            {chrome, "navigate", true, true},
		"a phone named Cubot":  {strings.Replace(chrome, "Win64", "CUBOT X19", 1), "navigate", true, true},
		"a page's picture":     {chrome, "no-cors", false, true},
		"a mail filter":        {chrome, "", false, false},
		"curl":                 {"curl/8.7.1", "", false, true},
		"wget":                 {"Wget/1.21", "", false, true},
		"PowerShell":           {"Mozilla/5.0 (Windows NT; en-US) WindowsPowerShell/5.1.19041.1", "", false, true},
		"a script":             {"node-fetch/1.0 (+https://github.com/bitinn/node-fetch)", "", false, true},
		"a player":             {"VLC/3.0.20 LibVLC/3.0.20", "", false, true},
		"nobody":               {"", "", false, true},
		"a messenger":          {"Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)", "", false, false},
		"one that navigates":   {"Mozilla/5.0 (compatible; Googlebot/2.1)", "navigate", false, false},
		"a new one":            {"Unheard/1.0 (+https://unheard.example)", "", false, false},
		"a server":             {"Pleroma 2.6.0; https://pleroma.example <a@example.org>", "", false, false},
		"one like Firefox":     {"Mozilla/5.0 (rv:11.0) Firefox/11.0 (via ggpht.com GoogleImageProxy)", "", false, false},
		"the app of a network": {"Tumblr/14.0.835.186", "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			for path, sent := range map[string]bool{"/v/": row.page, "/": row.page, "/x/": row.bytes} {
				slug := a.Share("the secret", "maxViews", "1")
				got := a.Send("GET", path+slug, "User-Agent", row.agent, "Sec-Fetch-Mode", row.mode).Want(200)
				is.Equal(strings.Contains(string(got.Body), "the secret"), sent)
				is.Equal(a.Counted("files", slug, "views") == 1, sent)
				is.Equal(strings.Contains(string(got.Body), "Show it"), !sent)
			}
			slug := a.Post("/api/v1/shorten", `{"originalUrl":"https://go.dev/secret","isPublic":true,"maxClicks":1}`).
				Want(201).Text("data.slug")
			for _, path := range []string{"/v/", "/", "/s/"} {
				got := a.Send("GET", path+slug, "User-Agent", row.agent, "Sec-Fetch-Mode", row.mode)
				is.Equal(got.Status == 302, row.bytes && path == "/") // that is a click, so /s/ is used up
				is.True(!strings.Contains(string(got.Body), "secret"))
			}
			is.Equal(a.Counted("shorten", slug, "clicks") == 1, row.bytes)

			// A visitor with the password is a person.
			slug = a.Share("the secret", "maxViews", "1", "password", "open sesame")
			got := a.Send("GET", "/v/"+slug, "User-Agent", row.agent, "Sec-Fetch-Mode", row.mode).Want(401)
			is.True(!strings.Contains(string(got.Body), "the secret"))
		})
	}
}

// TestShowIt: the button of a card shows the item and counts it, whatever the browser sends, and nobody else sees it
// after the last time.
func TestShowIt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	show := func(g *apitest.Guest, slug, form string) *apitest.Answer {
		return g.See("POST", "/v/"+slug, "User-Agent", chrome, "X-Form", form)
	}

	slug := a.Share("the secret", "maxViews", "1")
	g := a.Guest()
	card := g.See("GET", "/x/"+slug, "User-Agent", chrome, "Sec-Fetch-Mode", "").Want(200)
	is.True(strings.Contains(string(card.Body), `action="/v/`+slug+`"`))
	is.True(strings.Contains(card.Header.Get("Content-Security-Policy"), "form-action 'self';"))
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		g.See("POST", "/v/"+slug, append(header, "User-Agent", chrome, "X-Form", "show=page")...).Want(403)
	}
	is.Equal(a.Counted("files", slug, "views"), 0)
	page := show(g, slug, "show=page").Want(200)
	is.True(strings.Contains(string(page.Body), "the secret"))
	is.Equal(a.Counted("files", slug, "views"), 1)
	show(g, slug, "show=page").Want(200) // again, by the same visitor
	g.See("GET", "/v/"+slug, "User-Agent", chrome, "Sec-Fetch-Mode", "").Want(200)
	is.Equal(string(a.Guest().See("GET", rawIn(page)).Want(200).Body), "the secret") // without a cookie
	show(a.Guest(), slug, "show=page").Want(410)
	is.Equal(a.Counted("files", slug, "views"), 1)

	slug = a.Post("/api/v1/shorten", `{"originalUrl":"https://go.dev/secret","isPublic":true,"maxClicks":1}`).
		Want(201).Text("data.slug")
	card = a.Guest().See("GET", "/s/"+slug, "User-Agent", chrome, "Sec-Fetch-Mode", "").Want(200)
	is.True(strings.Contains(card.Header.Get("Content-Security-Policy"), "form-action 'self' http: https:;"))
	is.Equal(show(a.Guest(), slug, "show=link").Want(302).Header.Get("Location"), "https://go.dev/secret")
	show(a.Guest(), slug, "show=link").Want(410)

	slug = a.Share("the secret", "maxViews", "1", "password", "open sesame")
	show(a.Guest(), slug, "show=page").Want(401)
	g = a.Guest()
	show(g, slug, "password=open+sesame").Want(303)
	show(g, slug, "show=page").Want(200)
	page = g.See("GET", "/v/"+slug, "User-Agent", chrome, "Sec-Fetch-Mode", "").Want(200) // no second button
	is.True(strings.Contains(string(page.Body), "the secret"))
	is.Equal(a.Counted("files", slug, "views"), 1)
}

// TestNotIndexed: search engines do not list stored bytes that they find a link to.
func TestNotIndexed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	slug := a.Share("hello")
	a.Collect("album", "", a.Upload(nil, apitest.File("a.txt", "text/plain", "hello")).Want(201).Text("id"))
	note := a.Post("/api/v1/notes", `{"content":"hello","isPublic":true}`).Want(201).Text("data.slug")
	for _, path := range []string{"/x/" + slug, "/x/" + slug + ".txt", "/x/" + note, "/x/album.zip"} {
		is.Equal(a.Send("GET", path).Want(200).Header.Get("X-Robots-Tag"), "noindex")
		is.Equal(a.Send("HEAD", path).Want(200).Header.Get("X-Robots-Tag"), "noindex")
	}
}
