package httpapi

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
)

var trustsProxy = func(c *web.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")} }

// from has the server answer a request that comes from an address, as its
// handler sees it. The others of the header are as withHeader takes them.
func (a *app) from(peer, method, path, host string, encrypted bool, body string, header ...string) *http.Response {
	a.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host, r.Header = peer+":5000", host, withHeader(header...)
	if encrypted {
		r.TLS = new(tls.ConnectionState)
	}
	w := httptest.NewRecorder()
	a.server.ServeHTTP(w, r)
	return w.Result()
}

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
			a := start(t, trustsProxy, func(cfg *web.Config) { cfg.Base = c.base })
			for _, path := range []string{"/login", "/api/v1/me", "/x/none"} {
				var header []string
				for _, v := range c.proto {
					header = append(header, "X-Forwarded-Proto", v)
				}
				got := a.from(c.peer, "GET", path, "kist.example.org", c.encrypted, "", header...)
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
	a := start(t, trustsProxy, func(c *web.Config) { c.Base, c.AnyHost = "http://nas:7080", true })
	a.withPassword(a.user, "correct horse")
	login := func(header ...string) (session *http.Cookie) {
		header = append(header, "Content-Type", "application/json")
		got := a.from("192.0.2.1", "POST", "/api/v1/auth/login", "nas:7080", false, `{"username":"ann","password":"correct horse"}`, header...)
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
		return a.from("192.0.2.1", "GET", "/api/v1/me", "nas:7080", false, "", append(header, "Cookie", name+"="+value)...).StatusCode
	}
	https := []string{"X-Forwarded-Proto", "https"}

	plain, safe := login(), login(https...)
	is.Equal(plain.Name, "kist_session")
	is.Equal(safe.Name, "__Host-kist_session")
	is.Equal(me(plain.Name, plain.Value), 200) // each goes on in its scheme
	is.Equal(me(safe.Name, safe.Value, https...), 200)

	is.Equal(me("kist_session", plain.Value, https...), 401)
	is.Equal(me("kist_session", safe.Value, https...), 401)
	got := a.from("192.0.2.1", "GET", "/api/v1/me", "nas:7080", false, "", append(https, "Cookie", "kist_session="+plain.Value+"; "+safe.Name+"="+safe.Value)...)
	is.Equal(got.StatusCode, 200)
	// What was there before the sign-in is not taken on.
	is.True(login(append(https, "Cookie", "__Host-kist_session=kist_chosen")...).Value != "kist_chosen")

	// A page of the app reads its answers by the same cookie.
	page := a.from("192.0.2.1", "GET", "/account", "nas:7080", false, "", append(https, "Cookie", safe.Name+"="+safe.Value)...)
	is.Equal(page.StatusCode, 200)
	// The grants of visitors are for HTTPS alone, too.
	slug := a.upload(map[string]string{"isPublic": "true", "maxViews": "3"}, file{"a.txt", "text/plain", "x"}).want(201).text("slug")
	for _, header := range [][]string{nil, https} {
		got := a.from("192.0.2.1", "GET", "/x/"+slug, "nas:7080", false, "", header...)
		is.Equal(got.StatusCode, 200)
		is.Equal(got.Cookies()[0].Secure, header != nil)
	}
}

func TestMisdirected(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, trustsProxy, func(c *web.Config) { c.Content = "https://content.example.net" })
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
			is.Equal(a.from("192.0.2.9", "GET", "/login", host, false, "").StatusCode, status)
			is.Equal(a.from("192.0.2.9", "GET", "/healthz", host, false, "").StatusCode, 200)
			is.Equal(a.from("192.0.2.9", "GET", "/readyz", host, false, "").StatusCode, 200)
			// What a stranger says of the host is not believed; what a proxy says, is.
			is.Equal(a.from("192.0.2.9", "GET", "/login", host, false, "", "X-Forwarded-Host", "kist.example.org").StatusCode, status)
			is.Equal(a.from("192.0.2.1", "GET", "/login", host, false, "", "X-Forwarded-Host", "kist.example.org").StatusCode, 200)
			is.Equal(a.from("192.0.2.1", "GET", "/login", host, false, "", "X-Forwarded-Host", "evil.example").StatusCode, 421)
		})
	}
	is.Equal(a.from("192.0.2.9", "GET", "/x/none", "content.example.net", false, "").StatusCode, 404)

	// The answer is a plain sentence, for programs and browsers alike, whatever
	// is asked with.
	got := a.do(apiRequest{method: "GET", path: "/login", anyone: true, raw: true, header: withHeader("Host", "evil.example", "Accept", "text/html")}).want(421)
	is.True(strings.HasPrefix(string(got.body), "This server does not answer at the address"))
	is.Equal(mediaOf(got.header), "text/plain")
	got = a.do(apiRequest{method: "GET", path: "/api/v1/me", header: withHeader("Host", "evil.example")}).want(421)
	is.Equal(got.text("code"), "misdirected")
	a.do(apiRequest{method: "OPTIONS", path: "/api/v1/me", anyone: true, raw: true, header: withHeader("Host", "evil.example", "Origin", "http://evil.example", "Access-Control-Request-Method", "GET")}).want(421)

	b := start(t, func(c *web.Config) { c.Base, c.AnyHost = "http://127.0.0.1:7080", true }) // no address was given
	is.Equal(b.from("192.0.2.9", "GET", "/login", "nas:7080", false, "").StatusCode, 200)
}

// What proxies and the base URL disagree on is written to the log, once.
func TestProxyDisagrees(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peer, host   string
		header       []string
		proto, other int
	}{
		"agrees":                {"192.0.2.1", "kist.example.org", []string{"X-Forwarded-Proto", "https"}, 0, 0},
		"says nothing":          {"192.0.2.1", "127.0.0.1:7080", nil, 0, 0},
		"says http":             {"192.0.2.1", "kist.example.org", []string{"X-Forwarded-Proto", "http"}, 1, 0},
		"has another host":      {"192.0.2.1", "kist.lan", nil, 0, 1},
		"says another host":     {"192.0.2.1", "127.0.0.1", []string{"X-Forwarded-Host", "kist.lan", "X-Forwarded-Proto", "http"}, 1, 1},
		"of content":            {"192.0.2.1", "content.example.net", []string{"X-Forwarded-Proto", "https"}, 0, 0},
		"of content, says http": {"192.0.2.1", "content.example.net", []string{"X-Forwarded-Proto", "http"}, 1, 0},
		"says a riddle":         {"192.0.2.1", "kist.example.org", []string{"X-Forwarded-Proto", "gopher"}, 0, 0},
		"a stranger":            {"192.0.2.9", "kist.lan", []string{"X-Forwarded-Proto", "http"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t, trustsProxy, func(c *web.Config) { c.Content = "https://content.example.net" })
			for range 3 {
				a.from(c.peer, "GET", "/healthz", "probe.lan", false, "", "X-Forwarded-Proto", "http") // of no account
				a.from(c.peer, "GET", "/about", c.host, false, "", c.header...)
			}
			is.Equal(strings.Count(a.log.String(), "another scheme than"), c.proto)
			is.Equal(strings.Count(a.log.String(), "for a host that is not"), c.other)
		})
	}
}

// An escape never separates segments, nor do dots lead out of them.
func TestEscapedSegments(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.Base = "https://kist.example.org/kist" })
	slug := a.share("x")
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
			got := a.do(apiRequest{method: "GET", path: path, raw: true})
			is.Equal(got.status, status)
		})
	}
	is.Equal(a.send("OPTIONS", "/x%2fa").status, 404) // nor does it tell methods
}

// Pages share no window with other sites and use no sensors; what the API
// answers is no part of other sites' pages. Requests by CORS are not subject to
// that (Fetch standard).
func TestIsolation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	slug := a.post("/api/v1/notes", map[string]any{"content": "x", "isPublic": true}).want(201).text("data.slug")
	html := withHeader("Accept", "text/html")
	for _, path := range []string{"/login", "/about", "/v/" + slug, "/v/none", "/account", "/x/none", "/api/v1/reference"} {
		got := a.do(apiRequest{method: "GET", path: path, raw: true, header: html})
		is.Equal(mediaOf(got.header), "text/html")
		is.Equal(got.header["Cross-Origin-Opener-Policy"], []string{"same-origin"})
		is.Equal(len(got.header["Permissions-Policy"]), 1)
		for _, needed := range []string{"clipboard", "web-share", "fullscreen", "screen-wake-lock", "autoplay"} {
			is.True(!strings.Contains(got.header.Get("Permissions-Policy"), needed))
		}
		for _, feature := range []string{"camera=()", "microphone=()", "geolocation=()", "usb=()"} {
			is.True(strings.Contains(got.header.Get("Permissions-Policy"), feature))
		}
	}
	for _, path := range []string{"/api/v1/me", "/api/v1/none", "/api/v1/openapi", "/api/v1/qr?text=a", "/api/v1/notes", "/api/v1/tags"} {
		got := a.get(path)
		is.Equal(got.header["Cross-Origin-Resource-Policy"], []string{"same-origin"})
	}
	// The device flow and calls with a key work from an extension's page.
	got := a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/authorize", anyone: true, json: `{"extension_id":"x"}`, header: withHeader("Origin", "chrome-extension://abc")}).want(200)
	is.Equal(got.header.Get("Access-Control-Allow-Origin"), "*")
}
