package session_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
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
	get := func(a *apitest.App, path, cookie string, names ...string) *apitest.Answer {
		t.Helper()
		h := http.Header{"Accept": {"text/html"}, "Remote-User": names}
		if cookie != "" {
			h.Set("Cookie", cookie)
		}
		return a.Do(apitest.Request{Method: "GET", Path: path, Anyone: true, Header: h})
	}
	a := apitest.Start(t, behind)
	bob := a.AddUser("bob", people.Member)
	a.WithPassword(bob, "correct horse")

	is.Equal(get(a, "/notes", "", "ANN").Want(303).Header.Get("Location"), "/login?next=%2Fnotes")
	got := get(a, "/login?next=%2Fnotes", "", "ANN").Want(303)
	is.Equal(got.Header.Get("Location"), "/notes")
	ann := got.CookieOf(apitest.SessionName)
	get(a, "/notes", ann, "ann").Want(200)
	is.Equal(get(a, "/login?next=%2Fnotes", ann, "ann").Want(303).Header.Get("Set-Cookie"), "") // the session stays

	// A proxy does not open an account whose sign-in was reset.
	a.Post("/api/v1/admin/users/"+bob.ID.String()+"/reset-login", nil).Want(200)
	is.True(strings.Contains(string(get(a, "/login", "", "bob").Want(403).Body), "was reset"))
	a.Patch("/api/v1/admin/users/"+bob.ID.String(), `{"password":"correct horse"}`).Want(200)
	get(a, "/login", "", "bob").Want(303)

	// The header is no credential in itself: what another site has a browser send is refused
	// as always, and so is a request without a session.
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/notes", Anyone: true, JSON: `{"content":"c"}`,
		Header: http.Header{"Remote-User": {"ann"}},
	}).Want(401)
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/notes", Anyone: true, JSON: `{"content":"c"}`,
		Header: http.Header{"Remote-User": {"ann"}, "Cookie": {ann}, "Sec-Fetch-Site": {"cross-site"}},
	}).Want(403)
	// an API key needs no session
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Header: http.Header{"Remote-User": {"bob"}}}).Want(200)

	// Somebody else at the same browser is not the user of its session.
	is.Equal(get(a, "/notes", ann, "bob").Want(303).Header.Get("Location"), "/login?next=%2Fnotes")
	other := get(a, "/login", ann, "bob").Want(303).CookieOf(apitest.SessionName)
	is.Equal(a.Do(apitest.As(other, "GET", "/api/v1/me", nil)).Want(200).Text("data.username"), "bob")

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
		for name, value := range map[string]string{
			"Sec-Fetch-Site": row.site, "Sec-Fetch-Mode": row.mode, "Sec-Fetch-Dest": row.dest,
		} {
			if value != "" {
				h.Set(name, value)
			}
		}
		got := a.Do(apitest.Request{Method: "GET", Path: "/login", Anyone: true, Header: h}).Want(row.want)
		is.Equal(got.Header.Get("Set-Cookie") != "", row.want == 303)
	}

	// Two names: the proxy passes on what the client has sent.
	get(a, "/login", "", "ann", "bob").Want(400)
	// Nobody is created, and the disabled stay out.
	is.True(strings.Contains(string(get(a, "/login", "", "stranger").Want(403).Body), "no account here"))
	get(a, "/login", "", "").Want(200) // the proxy knows nobody
	a.Disable(bob)
	get(a, "/login", "", "bob").Want(403)

	// Signing out does not sign in again at once.
	ann = get(a, "/login", "", "ann").Want(303).CookieOf(apitest.SessionName)
	q := apitest.As(ann, "POST", "/logout", nil)
	q.Header.Set("Remote-User", "ann")
	is.Equal(a.Do(q).Want(303).Header.Get("Location"), "/login?out=1")
	is.True(strings.Contains(string(get(a, "/login?out=1", "", "ann").Want(200).Body), "signed in as ann"))

	// From anybody else, and without the flag, the header says nothing.
	for _, with := range []func(*web.Config){
		func(c *web.Config) {
			behind(c)
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
		},
		func(c *web.Config) { behind(c); c.AuthHeader = "" },
		func(c *web.Config) { behind(c); c.AuthHeader = "X-Other" },
	} {
		a := apitest.Start(t, with)
		get(a, "/login", "", "ann").Want(200)
	}
}
