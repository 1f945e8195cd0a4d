package httpapi_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

var trustsProxy = func(c *web.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")} }

func TestHSTS(t *testing.T) {
	t.Parallel()
	const proxy, stranger = "192.0.2.1", "192.0.2.9"
	for name, c := range map[string]struct {
		base, peer string
		encrypted  bool
		proto      []string
		want       string
	}{
		"over TLS":                 {"https://kist.example.org", stranger, true, nil, "max-age=31536000"},
		"over plain HTTP":          {"https://kist.example.org", stranger, false, nil, ""},
		"a proxy says https":       {"https://kist.example.org", proxy, false, []string{"https"}, "max-age=31536000"},
		"a proxy shouts it":        {"https://kist.example.org", proxy, false, []string{" HTTPS "}, "max-age=31536000"},
		"a proxy says http":        {"https://kist.example.org", proxy, true, []string{"http"}, ""},
		"a proxy says nothing":     {"https://kist.example.org", proxy, false, nil, ""},
		"the last value counts":    {"https://kist.example.org", proxy, false, []string{"https, http"}, ""},
		"a stranger says https":    {"https://kist.example.org", stranger, false, []string{"https"}, ""},
		"the base URL is not so":   {"http://kist.example.org", stranger, true, nil, ""},
		"nor is it behind a proxy": {"http://kist.example.org", proxy, false, []string{"https"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t, trustsProxy, func(cfg *web.Config) { cfg.Base = c.base })
			for _, path := range []string{"/login", "/api/v1/me", "/x/none"} {
				var header []string
				for _, v := range c.proto {
					header = append(header, "X-Forwarded-Proto", v)
				}
				got := a.From(c.peer, "GET", path, "kist.example.org", c.encrypted, "", header...)
				is.Equal(got.Header.Get("Strict-Transport-Security"), c.want)
			}
		})
	}
}

// Cookies are for HTTPS alone wherever visitors use that, and a cookie that
// another host of the domain may have set signs nobody in there.
func TestSecureCookies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, trustsProxy, func(c *web.Config) { c.Base, c.AnyHost = "http://nas:7080", true })
	a.WithPassword(a.User, "correct horse")
	login := func(header ...string) (session *http.Cookie) {
		header = append(header, "Content-Type", "application/json")
		got := a.From("192.0.2.1", "POST", "/api/v1/auth/login", "nas:7080", false, `{"username":"ann","password":"correct horse"}`, header...)
		is.Equal(got.StatusCode, 200)
		all := got.Cookies()
		is.Equal(len(all), 2) // the session's and the device's
		for _, c := range all {
			is.Equal(c.Secure, strings.HasPrefix(c.Name, "__Host-"))
			is.Equal(c.Path, "/")
			is.Equal(c.Domain, "")
		}
		return all[0]
	}
	me := func(name, value string, header ...string) int {
		return a.From("192.0.2.1", "GET", "/api/v1/me", "nas:7080", false, "", append(header, "Cookie", name+"="+value)...).StatusCode
	}
	https := []string{"X-Forwarded-Proto", "https"}

	plain, safe := login(), login(https...)
	is.Equal(plain.Name, "kist_session")
	is.Equal(safe.Name, "__Host-kist_session")
	is.Equal(me(plain.Name, plain.Value), 200) // each goes on in its scheme
	is.Equal(me(safe.Name, safe.Value, https...), 200)

	is.Equal(me("kist_session", plain.Value, https...), 401)
	is.Equal(me("kist_session", safe.Value, https...), 401)
	got := a.From("192.0.2.1", "GET", "/api/v1/me", "nas:7080", false, "", append(
		https, "Cookie", "kist_session="+plain.Value+"; "+safe.Name+"="+safe.Value,
	)...)
	is.Equal(got.StatusCode, 200)
	// What was there before the sign-in is not taken on.
	is.True(login(append(https, "Cookie", "__Host-kist_session=kist_chosen")...).Value != "kist_chosen")

	// A page of the app reads its answers by the same cookie.
	page := a.From("192.0.2.1", "GET", "/account", "nas:7080", false, "", append(
		https, "Cookie", safe.Name+"="+safe.Value,
	)...)
	is.Equal(page.StatusCode, 200)
	// The grants of visitors are for HTTPS alone, too.
	slug := a.Upload(
		map[string]string{"isPublic": "true", "maxViews": "3"}, apitest.File("a.txt", "text/plain", "x"),
	).Want(201).Text("slug")
	for _, header := range [][]string{nil, https} {
		got := a.From("192.0.2.1", "GET", "/x/"+slug, "nas:7080", false, "", header...)
		is.Equal(got.StatusCode, 200)
		is.Equal(got.Cookies()[0].Secure, header != nil)
	}
}

func TestMisdirected(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, trustsProxy, func(c *web.Config) { c.Content = "https://content.example.net" })
	for host, status := range map[string]int{
		"kist.example.org":       200,
		"KIST.example.org:7080":  200,
		"kist.example.org.":      200,
		"localhost":              200,
		"LocalHost:7080":         200,
		"127.0.0.1:7080":         200,
		"127.8.9.10":             200,
		"[::1]:7080":             200,
		"[::1]":                  200,
		"192.168.1.5":            200,
		"[2001:db8::1]:80":       200,
		"":                       200, // as programs that speak HTTP/1.0 ask
		"evil.example":           421,
		"kist.example.org.evil":  421,
		"xkist.example.org":      421,
		"localhost.evil.example": 421,
		"127.0.0.1.evil.example": 421,
		"0x7f.1":                 421,
		"[::1].evil.example":     421,
		"evil.example:127.0.0.1": 421,
		"nas":                    421,
	} {
		t.Run(host, func(t *testing.T) {
			is := is.New(t)
			is.Equal(a.From("192.0.2.9", "GET", "/login", host, false, "").StatusCode, status)
			is.Equal(a.From("192.0.2.9", "GET", "/healthz", host, false, "").StatusCode, 200)
			is.Equal(a.From("192.0.2.9", "GET", "/readyz", host, false, "").StatusCode, 200)
			// What a stranger says of the host is not believed; what a proxy says, is.
			is.Equal(
				a.From("192.0.2.9", "GET", "/login", host, false, "", "X-Forwarded-Host", "kist.example.org").StatusCode, status,
			)
			is.Equal(
				a.From("192.0.2.1", "GET", "/login", host, false, "", "X-Forwarded-Host", "kist.example.org").StatusCode, 200,
			)
			is.Equal(a.From("192.0.2.1", "GET", "/login", host, false, "", "X-Forwarded-Host", "evil.example").StatusCode, 421)
		})
	}
	is.Equal(a.From("192.0.2.9", "GET", "/x/none", "content.example.net", false, "").StatusCode, 404)

	// The answer is a plain sentence, for programs and browsers alike, whatever
	// is asked with.
	got := a.Do(apitest.Request{
		Method: "GET", Path: "/login", Anyone: true, Raw: true,
		Header: apitest.WithHeader("Host", "evil.example", "Accept", "text/html"),
	}).Want(421)
	is.True(strings.HasPrefix(string(got.Body), "This server does not answer at the address"))
	is.Equal(apitest.MediaOf(got.Header), "text/plain")
	got = a.Do(apitest.Request{
		Method: "GET", Path: "/api/v1/me", Header: apitest.WithHeader("Host", "evil.example"),
	}).Want(421)
	is.Equal(got.Text("code"), "misdirected")
	a.Do(apitest.Request{
		Method: "OPTIONS", Path: "/api/v1/me", Anyone: true, Raw: true,
		Header: apitest.WithHeader(
			"Host", "evil.example", "Origin", "http://evil.example", "Access-Control-Request-Method", "GET",
		),
	}).Want(421)

	// no address was given
	b := apitest.Start(t, func(c *web.Config) { c.Base, c.AnyHost = "http://127.0.0.1:7080", true })
	is.Equal(b.From("192.0.2.9", "GET", "/login", "nas:7080", false, "").StatusCode, 200)
}

// What proxies and the base URL disagree on is written to the log, once.
func TestProxyDisagrees(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peer, host   string
		header       []string
		proto, other int
	}{
		"agrees":           {"192.0.2.1", "kist.example.org", []string{"X-Forwarded-Proto", "https"}, 0, 0},
		"says nothing":     {"192.0.2.1", "127.0.0.1:7080", nil, 0, 0},
		"says http":        {"192.0.2.1", "kist.example.org", []string{"X-Forwarded-Proto", "http"}, 1, 0},
		"has another host": {"192.0.2.1", "kist.lan", nil, 0, 1},
		"says another host": {
			"192.0.2.1", "127.0.0.1", []string{"X-Forwarded-Host", "kist.lan", "X-Forwarded-Proto", "http"}, 1, 1,
		},
		"of content":            {"192.0.2.1", "content.example.net", []string{"X-Forwarded-Proto", "https"}, 0, 0},
		"of content, says http": {"192.0.2.1", "content.example.net", []string{"X-Forwarded-Proto", "http"}, 1, 0},
		"says a riddle":         {"192.0.2.1", "kist.example.org", []string{"X-Forwarded-Proto", "gopher"}, 0, 0},
		"a stranger":            {"192.0.2.9", "kist.lan", []string{"X-Forwarded-Proto", "http"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t, trustsProxy, func(c *web.Config) { c.Content = "https://content.example.net" })
			for range 3 {
				a.From(c.peer, "GET", "/healthz", "probe.lan", false, "", "X-Forwarded-Proto", "http") // of no account
				a.From(c.peer, "GET", "/about", c.host, false, "", c.header...)
			}
			is.Equal(strings.Count(a.Logged.String(), "another scheme than"), c.proto)
			is.Equal(strings.Count(a.Logged.String(), "for a host that is not"), c.other)
		})
	}
}

// An escape never separates segments, nor do dots lead out of them.
func TestEscapedSegments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Base = "https://kist.example.org/kist" })
	slug := a.Share("x")
	for path, status := range map[string]int{
		"/x/" + slug:                       200,
		"/%78/" + slug:                     200, // other escapes are as good as what they stand for
		"/kist/x/" + slug:                  200,
		"/x%2f" + slug:                     404,
		"/x%2F" + slug:                     404,
		"/kist%2fx/" + slug:                404,
		"/%6bist%2fx/" + slug:              404,
		"/kist/x%2f" + slug:                404,
		"/x/%2f" + slug:                    404,
		"/x/" + slug + "%2f":               404,
		"/x/..%2fx%2f" + slug:              404,
		"/v/%2e%2e/x/" + slug:              404,
		"/v/../x/" + slug:                  404,
		"/x/./" + slug:                     404,
		"/x/%2e%2e":                        404,
		"/x/..":                            404,
		"/x%5c" + slug:                     404,
		"/x/%5C" + slug:                    404,
		"/api%2fv1%2fme":                   404,
		"/api/v1%2fme":                     404,
		"/api/v1/notes%2fp%2fx":            404,
		"/api/v1/notes/..%2fme":            404,
		"/api/v1/notes/%2e%2e":             404,
		"/api/v1/me":                       200,
		"/static%2f..%2f..%2fsecret":       404,
		"/static/..%5c..%5csecret":         404,
		"/api/v1/files/" + slug + "%2fcon": 404,
	} {
		t.Run(path, func(t *testing.T) {
			is := is.New(t)
			got := a.Do(apitest.Request{Method: "GET", Path: path, Raw: true})
			is.Equal(got.Status, status)
		})
	}
	is.Equal(a.Send("OPTIONS", "/x%2fa").Status, 404) // nor does it tell methods
}

// Pages share no window with other sites and use no sensors; what the API
// answers is no part of other sites' pages. Requests by CORS are not subject to
// that (Fetch standard).
func TestIsolation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	slug := a.Post("/api/v1/notes", map[string]any{"content": "x", "isPublic": true}).Want(201).Text("data.slug")
	html := apitest.WithHeader("Accept", "text/html")
	for _, path := range []string{
		"/login", "/about", "/v/" + slug, "/v/none", "/account", "/x/none", "/api/v1/reference",
	} {
		got := a.Do(apitest.Request{Method: "GET", Path: path, Raw: true, Header: html})
		is.Equal(apitest.MediaOf(got.Header), "text/html")
		is.Equal(got.Header["Cross-Origin-Opener-Policy"], []string{"same-origin"})
		is.Equal(len(got.Header["Permissions-Policy"]), 1)
		for _, needed := range []string{"clipboard", "web-share", "fullscreen", "screen-wake-lock", "autoplay"} {
			is.True(!strings.Contains(got.Header.Get("Permissions-Policy"), needed))
		}
		for _, feature := range []string{"camera=()", "microphone=()", "geolocation=()", "usb=()"} {
			is.True(strings.Contains(got.Header.Get("Permissions-Policy"), feature))
		}
	}
	for _, path := range []string{
		"/api/v1/me", "/api/v1/none", "/api/v1/openapi", "/api/v1/qr?text=a", "/api/v1/notes", "/api/v1/tags",
	} {
		got := a.Get(path)
		is.Equal(got.Header["Cross-Origin-Resource-Policy"], []string{"same-origin"})
	}
	// The device flow and calls with a key work from an extension's page.
	got := a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: `{"extension_id":"x"}`,
		Header: apitest.WithHeader("Origin", "chrome-extension://abc"),
	}).Want(200)
	is.Equal(got.Header.Get("Access-Control-Allow-Origin"), "*")
}
