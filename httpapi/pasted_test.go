package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/httpapi/web"
)

// TestPastedAddresses: an address with what stood around it leads to what was meant, if that is there and the visitor
// may see it. Otherwise the answer is that of any unknown address.
func TestPastedAddresses(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	a.Share("hello", "slug", "Trip2026")
	a.Share("hello", "slug", "ends-")
	a.Share("hello", "slug", "once", "maxViews", "1")
	a.Share("hello", "slug", "closed", "password", "open sesame")
	a.Upload(map[string]string{"slug": "mine"}, apitest.File("a.txt", "text/plain", "hello")).Want(201)
	a.Post("/api/v1/shorten", `{"originalUrl":"https://go.dev","slug":"go","isPublic":true}`).Want(201)
	a.Post("/api/v1/games", `{"title":"Chess","isPublic":true}`).Want(201)
	a.Ask(map[string]any{"title": "Photos", "slug": "send-me"})
	note := a.Note("in it", "")
	a.Collect("album", "", note)
	a.Collect("shut", `,"password":"open sesame"`, note)
	const nobody = "0198f0c3-9d5b-7c3a-8f00-000000000000"
	username := a.User.Name

	for path, to := range map[string]string{
		"/v/Trip2026/":                    "/v/Trip2026",
		"/x/Trip2026/":                    "/x/Trip2026",
		"/Trip2026/":                      "/Trip2026",
		"//v/Trip2026":                    "/v/Trip2026",
		"/v//Trip2026":                    "/v/Trip2026",
		"/v/Trip2026%20":                  "/v/Trip2026",
		"/v/Trip2026%0A":                  "/v/Trip2026",
		"/v/Trip2026,":                    "/v/Trip2026",
		"/v/Trip2026)":                    "/v/Trip2026",
		"/v/Trip2026).":                   "/v/Trip2026",
		"/v/Trip2026%3E%22":               "/v/Trip2026",
		"/v/Trip2026/?fbclid=a%20b&x=%2F": "/v/Trip2026?fbclid=a%20b&x=%2F",
		"/v/ends-,":                       "/v/ends-",
		"/v/once/":                        "/v/once",
		"/v/closed/":                      "/v/closed",
		"/s/go/":                          "/s/go",
		"/s/go;":                          "/s/go",
		"/go/":                            "/go",
		"/go!":                            "/go",
		"/up/send-me/":                    "/up/send-me",
		"/up/send-me.":                    "/up/send-me",
		"/send-me)":                       "/send-me",
		"/g/" + username + "/":            "/g/" + username,
		"/v/album/" + note + "/":          "/v/album/" + note,
		"/x/album/" + note + ")":          "/x/album/" + note,
		"/x/album.zip,":                   "/x/album.zip",
		"/v/shut/" + note + "/":           "/v/shut/" + note,
		"/v/shut/" + nobody + "/":         "/v/shut/" + nobody,
		"/login/":                         "/login",
		"/help/":                          "/help",
		"//":                              "",

		"/v/nothing/":              "",
		"/v/mine/":                 "",
		"/v/mine)":                 "",
		"/mine/":                   "",
		"/v/TRIP2026/":             "",
		"/s/Trip2026/":             "",
		"/up/Trip2026/":            "",
		"/g/nobody/":               "",
		"/v/album/" + nobody + "/": "",
		"/t/Trip2026/":             "",
		"/api/v1/files/":           "",
		"//evil.example":           "",
		"//evil.example/":          "",
		"//evil.example/%2e%2e":    "",
		"/v/Trip2026%2F":           "",
		"/v/Trip2026%5C":           "",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got := a.Send(method, path)
			is := is.NewRelaxed(t)
			want := http.StatusPermanentRedirect
			if to == "" {
				want = http.StatusNotFound
			}
			if got.Status != want || got.Header.Get("Location") != to {
				t.Errorf("%s %s: %d %q, not %d %q", method, path, got.Status, got.Header.Get("Location"), want, to)
			}
			if to != "" {
				is.Equal(got.Header.Get("Cache-Control"), "no-store")
				is.True(a.Send(http.MethodHead, to).Status != http.StatusPermanentRedirect)
			}
		}
		is.New(t).Equal(a.Send(http.MethodPost, path).Header.Get("Location"), "")
	}
	a.Do(apitest.Request{Method: "GET", Path: "/v/mine/", Raw: true}).Want(http.StatusPermanentRedirect) // its owner
	is := is.New(t)
	is.Equal(a.Counted("files", "once", "views"), 0)
	is.Equal(a.Counted("shorten", "go", "clicks"), 0)
}

// TestPastedGuesses: who guesses slugs with something around them is stopped like others.
func TestPastedGuesses(t *testing.T) {
	t.Parallel()
	for _, around := range []string{"/v/%s/", "//v/%s", "/%s//!", "//v/%s/!", "//v/%s/mine", "//x/%s/mine"} {
		a := apitest.Start(t)
		a.Share("hello", "slug", "Trip2026")
		a.Share("hello", "slug", "mine", "password", "open sesame")
		a.Collect("shut", `,"password":"open sesame"`, a.Note("in it", ""))
		for i := range limit.MaxMisses {
			a.Send("GET", fmt.Sprintf(around, strings.Repeat("x", i+1))).Want(404)
		}
		is := is.NewRelaxed(t)
		for _, path := range []string{
			"/v/Trip2026/", "//v/Trip2026", "/Trip2026/", "/v/Trip2026)", "/v//Trip2026", "/Trip2026//!", "//v/Trip2026/!",
			"//v/shut/mine",
		} {
			got := a.Send("GET", path)
			is.Equal(got.Status, 429) // the address is still guarded
			is.Equal(got.Header.Get("Location"), "")
		}
	}
}

// TestPastedBelow: a redirect stays below the path of the server's address, and at the address for content.
func TestPastedBelow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Base = "https://kist.example.org/kist" })
	a.Share("hello", "slug", "Trip2026")
	is.Equal(a.Send("GET", "/kist/v/Trip2026/").Header.Get("Location"), "/kist/v/Trip2026")
	is.Equal(a.Send("GET", "/kist//v/Trip2026").Header.Get("Location"), "/kist/v/Trip2026")

	apart := apitest.Start(t, apitest.Apart)
	apart.Share("hello", "slug", "Trip2026")
	got := apart.From("192.0.2.7", "GET", "/x/Trip2026/", apitest.ContentHost, true, "")
	is.Equal(got.Header.Get("Location"), "/x/Trip2026")
	got = apart.From("192.0.2.7", "GET", "/v/Trip2026/", apitest.ContentHost, true, "")
	is.Equal(got.Header.Get("Location"), "")
}
