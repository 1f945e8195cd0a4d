package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv/people"
)

// TestProxyUser signs in users whom a proxy names.
func TestProxyUser(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	behind := func(c *web.Config) {
		c.AuthHeader, c.TrustedProxies = "Remote-User", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	get := func(a *app, path, cookie string, names ...string) *answer {
		t.Helper()
		h := http.Header{"Accept": {"text/html"}, "Remote-User": names}
		if cookie != "" {
			h.Set("Cookie", cookie)
		}
		return a.do(apiRequest{method: "GET", path: path, anyone: true, header: h})
	}
	a := start(t, behind)
	bob := a.addUser("bob", people.Member)
	a.withPassword(bob, "correct horse")

	is.Equal(get(a, "/notes", "", "ANN").want(303).header.Get("Location"), "/login?next=%2Fnotes")
	got := get(a, "/login?next=%2Fnotes", "", "ANN").want(303)
	is.Equal(got.header.Get("Location"), "/notes")
	ann := got.cookieOf(sessionName)
	get(a, "/notes", ann, "ann").want(200)
	is.Equal(get(a, "/login?next=%2Fnotes", ann, "ann").want(303).header.Get("Set-Cookie"), "") // the session stays

	// A proxy does not open an account whose sign-in was reset.
	a.post("/api/v1/admin/users/"+bob.ID.String()+"/reset-login", nil).want(200)
	is.True(strings.Contains(string(get(a, "/login", "", "bob").want(403).body), "was reset"))
	a.patch("/api/v1/admin/users/"+bob.ID.String(), `{"password":"correct horse"}`).want(200)
	get(a, "/login", "", "bob").want(303)

	// The header is no credential in itself: what another site has a browser send is refused
	// as always, and so is a request without a session.
	a.do(apiRequest{method: "POST", path: "/api/v1/notes", anyone: true, json: `{"content":"c"}`, header: http.Header{"Remote-User": {"ann"}}}).want(401)
	a.do(apiRequest{method: "POST", path: "/api/v1/notes", anyone: true, json: `{"content":"c"}`, header: http.Header{"Remote-User": {"ann"}, "Cookie": {ann}, "Sec-Fetch-Site": {"cross-site"}}}).want(403)
	a.do(apiRequest{method: "GET", path: "/api/v1/me", header: http.Header{"Remote-User": {"bob"}}}).want(200) // an API key needs no session

	// Somebody else at the same browser is not the user of its session.
	is.Equal(get(a, "/notes", ann, "bob").want(303).header.Get("Location"), "/login?next=%2Fnotes")
	other := get(a, "/login", ann, "bob").want(303).cookieOf(sessionName)
	is.Equal(a.do(as(other, "GET", "/api/v1/me", nil)).want(200).text("data.username"), "bob")

	// Only a browser that goes to the page starts a session: a picture or a frame in a page of
	// another site does not, since it would end the session that the browser has.
	for _, row := range []struct {
		site, mode, dest string
		want             int
	}{
		{"cross-site", "no-cors", "image", 403},
		{"same-site", "cors", "empty", 403},
		{"cross-site", "navigate", "iframe", 403},
		{"cross-site", "navigate", "document", 303}, // a link in a mail
		{"same-origin", "navigate", "document", 303},
		{"none", "navigate", "document", 303},
		{"", "", "", 303}, // a browser from before 2023
	} {
		h := http.Header{"Accept": {"text/html"}, "Remote-User": {"ann"}}
		for name, value := range map[string]string{"Sec-Fetch-Site": row.site, "Sec-Fetch-Mode": row.mode, "Sec-Fetch-Dest": row.dest} {
			if value != "" {
				h.Set(name, value)
			}
		}
		got := a.do(apiRequest{method: "GET", path: "/login", anyone: true, header: h}).want(row.want)
		is.Equal(got.header.Get("Set-Cookie") != "", row.want == 303)
	}

	// Two names: the proxy passes on what the client has sent.
	get(a, "/login", "", "ann", "bob").want(400)
	// Nobody is created, and the disabled stay out.
	is.True(strings.Contains(string(get(a, "/login", "", "stranger").want(403).body), "no account here"))
	get(a, "/login", "", "").want(200) // the proxy knows nobody
	a.disable(bob)
	get(a, "/login", "", "bob").want(403)

	// Signing out does not sign in again at once.
	ann = get(a, "/login", "", "ann").want(303).cookieOf(sessionName)
	q := as(ann, "POST", "/logout", nil)
	q.header.Set("Remote-User", "ann")
	is.Equal(a.do(q).want(303).header.Get("Location"), "/login?out=1")
	is.True(strings.Contains(string(get(a, "/login?out=1", "", "ann").want(200).body), "signed in as ann"))

	// From anybody else, and without the flag, the header says nothing.
	for _, with := range []func(*web.Config){
		func(c *web.Config) {
			behind(c)
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
		},
		func(c *web.Config) { behind(c); c.AuthHeader = "" },
		func(c *web.Config) { behind(c); c.AuthHeader = "X-Other" },
	} {
		a := start(t, with)
		get(a, "/login", "", "ann").want(200)
	}
}
