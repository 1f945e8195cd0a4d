package httpapi

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/public"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

const contentHost = "content.example.org"

// apart has content served from an origin of its own.
func apart(c *web.Config) { c.Content = "https://" + contentHost }

// TestContentAlone: nothing but content is at its origin, and no credential is
// of use there.
func TestContentAlone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, apart)
	a.withPassword(a.user, "correct horse")
	session := a.enter("ann", "correct horse")
	a.share("public", "slug", "open")
	a.share("private", "slug", "hidden", "isPublic", "false")
	a.post("/api/v1/shorten", `{"originalUrl":"https://example.org/","slug":"short","isPublic":true}`).want(201)
	served := map[string]bool{"GET /x/open": true, "GET /healthz": true}
	words := strings.NewReplacer("{slug}", "open", "{id}", a.user.ID.String(), "{username}", "ann", "{name}", "kist.css", "{token}", "x")
	for _, r := range a.server.Routes() {
		is.True(!r.AtContentOrigin || r.Access.Open) // nobody is known there
		for _, method := range []string{r.Method, http.MethodHead, http.MethodOptions, http.MethodPost} {
			path := words.Replace(r.Path)
			h := withHeader("Host", contentHost, "X-Api-Key", a.key, "Cookie", session, "Origin", a.server.Content, "Sec-Fetch-Site", "same-origin",
				"Access-Control-Request-Method", "POST", "Content-Type", "application/x-www-form-urlencoded")
			got := a.do(apiRequest{method: method, path: path, anyone: true, header: h, raw: true})
			if served[method+" "+path] || method == http.MethodHead && served["GET "+path] {
				is.Equal(got.status, 200)
			} else if got.status != 404 {
				t.Errorf("%s %s: %d", method, path, got.status)
			}
			if allows := got.header.Get("Access-Control-Allow-Origin") + got.header.Get("Allow"); allows != "" {
				t.Errorf("%s %s allows %s", method, path, allows)
			}
			for _, cookie := range got.header.Values("Set-Cookie") {
				if !strings.HasPrefix(cookie, public.CookieName(grant.ToRead, "open")+"=") || !strings.Contains(cookie, "; Path=/;") || !strings.Contains(cookie, "; Secure") {
					t.Errorf("%s %s sets the cookie %s", method, path, cookie)
				}
			}
			is.Equal(mediaOf(got.header) == "text/html", false)
		}
	}
	for _, header := range [][]string{{"X-Api-Key", a.key}, {"Cookie", session}, {"Authorization", "Bearer " + a.key}, {"Accept", "text/html"}} {
		got := a.send("GET", "/x/hidden", append(header, "Host", contentHost)...).want(404)
		a.isHostile("hidden", got.header)
		is.Equal(mediaOf(got.header), "text/plain")
		a.send("GET", "/short", append(header, "Host", contentHost)...).want(404)
	}
	// The base keeps all of it, at any address but the other's.
	a.get("/api/v1/me").want(200)
	a.send("GET", "/login", "Host", "kist.example.org").want(200)
	a.send("OPTIONS", "/x/open", "Host", "kist.example.org").want(204)
}

// follow asks the origin for content for what the base sends there.
func (g *guest) follow(sent *answer) *answer {
	g.Helper()
	to, ok := strings.CutPrefix(sent.want(302).header.Get("Location"), g.server.Content)
	if !ok {
		g.Fatalf("it leads to %s", sent.header.Get("Location"))
	}
	g.isHostile("on the way", sent.header)
	return g.guest().see("GET", to, "Host", contentHost) // with the cookies of that origin: none
}

// rawApart is the address of the content in a page, without the origin.
func rawApart(page *answer) string {
	page.app.Helper()
	_, after, ok := strings.Cut(string(page.body), `"https://`+contentHost+"/x/")
	if !ok {
		page.app.Fatalf("the page has no address at the other origin: %s", cutText(page.body))
	}
	at, _, _ := strings.Cut(after, `"`)
	return "/x/" + strings.ReplaceAll(at, "&amp;", "&")
}

// TestContentSent: anyone who may have an item at the base gets it by way of the
// other origin, and nobody else does.
func TestContentSent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, apart)
	a.withPassword(a.user, "correct horse")
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
	for slug, fields := range map[string][]string{
		"open": nil, "hidden": {"isPublic", "false"}, "few": {"maxViews", "2"}, "locked": {"password", "open sesame"}, "ending": {"expiresAt", "2130-01-01T00:00:00Z"},
	} {
		a.share(b.String(), append(fields, "slug", slug)...)
	}
	// Without a right, the bytes are at neither.
	for slug, status := range map[string]int{"hidden": 404, "locked": 401} {
		for _, path := range []string{"/x/", "/t/"} {
			a.guest().see("GET", path+slug).want(status)
			a.guest().see("GET", path+slug, "Host", contentHost).want(status)
			a.guest().see("GET", path+slug+"?g=AAAA", "Host", contentHost).want(status)
		}
	}
	a.guest().see("GET", "/t/few", "Host", contentHost).want(404)
	// By the owner's session or key, a password, or as anyone.
	owner := a.guest()
	name, value, _ := strings.Cut(a.enter("ann", "correct horse"), "=")
	owner.cookies[name] = value
	sesame := []string{"X-Share-Password", "open sesame"}
	for slug, g := range map[string]*guest{"open": a.guest(), "hidden": owner, "few": owner, "locked": a.guest(), "ending": a.guest()} {
		for _, path := range []string{"/x/" + slug, "/t/" + slug, "/x/" + slug + ".png", "/x/" + slug + ".a%3Fb"} {
			got := g.follow(g.see("GET", path, sesame...))
			is.Equal(got.status, 200)
			a.isHostile(path, got.header)
			is.Equal(got.header.Get("Cross-Origin-Resource-Policy"), "cross-origin") // so that pages of the base show it
			got = g.follow(g.see("GET", path+"?download=1", sesame...)).want(200)
			is.Equal(strings.HasPrefix(path, "/x/"), strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment"))
		}
	}
}

// TestContentLimited: views at the other origin are exact, the page's own fetch
// belongs to the page, and who had the last view goes on reading, until the
// grant ends that was given for it.
func TestContentLimited(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"make_private", "delete"} {
		for _, by := range []string{"page", "raw"} {
			t.Run(action+"/"+by, func(t *testing.T) {
				is := is.New(t)
				a := start(t, apart)
				a.share("0123456789", "slug", "item", "maxViews", "1", "maxViewsAction", action)
				over := map[string]int{"make_private": 410, "delete": 404}[action]
				g := a.guest()
				at := "/x/item"
				if by == "page" {
					at = rawApart(g.see("GET", "/v/item").want(200))
				} else {
					far := a.guest() // the visitor's cookies there
					far.see("GET", at, "Host", contentHost).want(200)
					far.see("GET", at, "Host", contentHost, "Range", "bytes=5-").want(206)
					a.guest().see("GET", at, "Host", contentHost).want(over)
					g.see("GET", at).want(over)
					return
				}
				a.guest().see("GET", "/x/item").want(over)
				a.guest().see("GET", "/x/item", "Host", contentHost).want(over)
				is.Equal(string(a.guest().see("GET", at, "Host", contentHost).want(200).body), "0123456789")
				a.guest().see("GET", at, "Host", contentHost, "Range", "bytes=5-").want(206)
				// No byte comes from the base, which passes the right on as it is.
				a.clock.advance(public.ReadTime - time.Minute)
				for range 3 {
					sent := g.see("GET", "/x/item")
					is.Equal(len(sent.body), 0)
					is.Equal(string(g.follow(sent).want(200).body), "0123456789")
					again := g.see("GET", strings.TrimPrefix(sent.header.Get("Location"), a.server.Content))
					at = strings.TrimPrefix(again.want(302).header.Get("Location"), a.server.Content)
					a.guest().see("GET", at, "Host", contentHost).want(200)
				}
				a.clock.advance(time.Minute)
				a.guest().see("GET", at, "Host", contentHost).want(over)
				g.see("GET", "/x/item").want(over)
				g.see("GET", at).want(over)
			})
		}
	}
}

// TestGrantPassedOn: a grant that is passed on, into an address or to the other
// origin, ends when it would have.
func TestGrantPassedOn(t *testing.T) {
	t.Parallel()
	t.Run("page", func(t *testing.T) { // with one origin
		is := is.New(t)
		a := start(t)
		a.share("0123456789", "slug", "item", "maxViews", "1")
		g := a.guest()
		g.see("GET", "/v/item").want(200)
		a.clock.advance(public.ReadTime - time.Minute)
		at := rawIn(g.see("GET", "/v/item").want(200))
		a.guest().see("GET", at).want(200)
		at = rawIn(a.guest().see("GET", strings.Replace(at, "/x/", "/v/", 1)).want(200))
		a.clock.advance(time.Minute)
		is.Equal(a.guest().see("GET", at).status, 410)
	})
	t.Run("read", func(t *testing.T) {
		a := start(t, apart)
		a.share("0123456789", "slug", "item", "maxViews", "1")
		at := rawApart(a.guest().see("GET", "/v/item").want(200))
		for range 3 {
			a.clock.advance(public.ReadTime / 4)
			at = strings.TrimPrefix(a.guest().see("GET", at).want(302).header.Get("Location"), a.server.Content)
		}
		a.guest().see("GET", at, "Host", contentHost).want(200)
		a.clock.advance(public.ReadTime / 4)
		a.guest().see("GET", at, "Host", contentHost).want(410)
	})
	t.Run("unlock", func(t *testing.T) {
		a := start(t, apart)
		a.share("0123456789", "slug", "item", "password", "open sesame")
		at := strings.TrimPrefix(a.guest().see("GET", "/x/item", "X-Share-Password", "open sesame").want(302).header.Get("Location"), a.server.Content)
		a.clock.advance(public.ReadTime - time.Minute)
		at = strings.TrimPrefix(a.guest().see("GET", at).want(302).header.Get("Location"), a.server.Content)
		a.guest().see("GET", at, "Host", contentHost).want(200)
		a.clock.advance(time.Minute)
		a.guest().see("GET", at, "Host", contentHost).want(401)
		a.guest().see("GET", at).want(401)

		// By the form, for as long as the cookie: a film is not over after ten minutes.
		g := a.guest()
		g.see("POST", "/v/item", "X-Form", "password=open+sesame").want(303)
		at = rawApart(g.see("GET", "/v/item").want(200))
		a.clock.advance(public.UnlockTime - time.Minute)
		a.guest().see("GET", at, "Host", contentHost).want(200)
		at = rawApart(g.see("GET", "/v/item").want(200))
		a.clock.advance(time.Minute)
		a.guest().see("GET", at, "Host", contentHost).want(200) // the page was a view of its own
		a.clock.advance(public.ReadTime)
		a.guest().see("GET", at, "Host", contentHost).want(401)
	})
	t.Run("own", func(t *testing.T) {
		a := start(t, apart)
		a.share("0123456789", "slug", "item", "isPublic", "false")
		at := rawApart(a.get("/v/item").want(200))
		a.guest().see("GET", at).want(404) // at the base it is worth nothing
		a.clock.advance(public.OwnTime - time.Minute)
		a.guest().see("GET", at, "Host", contentHost).want(200)
		a.clock.advance(time.Minute)
		a.guest().see("GET", at, "Host", contentHost).want(404)
		// A person is led back to the page, which knows its owner.
		sent := a.send("GET", at, "Host", contentHost, "Sec-Fetch-Dest", "document", "Accept", "text/html").want(302)
		a.isHostile("back", sent.header)
		if to := sent.header.Get("Location"); to != "https://kist.example.org/v/item" {
			t.Errorf("led to %s", to)
		}
	})
}

// TestContentLeadsBack: who is not to get the content at its origin is led to the
// page at the base, which is the only place with pages.
func TestContentLeadsBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, apart)
	a.share("0123456789", "slug", "few", "maxViews", "1")
	a.share("0123456789", "slug", "hidden", "isPublic", "false")
	sent := a.send("GET", "/x/few.txt", "Host", contentHost, "User-Agent", "Slackbot-LinkExpanding 1.0")
	a.isHostile("preview", sent.header)
	is.Equal(sent.want(302).header.Get("Location"), "https://kist.example.org/v/few")
	is.Equal(len(sent.body), 0)
	is.Equal(sent.header.Get("Etag"), "")
	is.Equal(a.viewed("few"), 0)

	at := strings.Replace(rawApart(a.get("/v/hidden").want(200)), "/hidden?", "/hidden.txt?", 1)
	a.clock.advance(public.OwnTime)
	sent = a.send("GET", at, "Host", contentHost, "Sec-Fetch-Dest", "document").want(302)
	to, ok := strings.CutPrefix(sent.header.Get("Location"), "https://kist.example.org")
	is.True(ok)
	a.get(to).want(200) // it has the extension still, as what is there is told to its owner alone
}

// TestContentMisses: who has missed too often has what a grant is for, and
// nothing else.
func TestContentMisses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, apart)
	a.share("0123456789", "slug", "hidden", "isPublic", "false")
	a.share("0123456789", "slug", "other", "isPublic", "false")
	at := rawApart(a.get("/v/hidden").want(200))
	for i := range limit.MaxMisses {
		a.send("GET", fmt.Sprint("/x/none", i), "Host", contentHost).want(404)
	}
	a.send("GET", "/x/hidden", "Host", contentHost).want(429)
	a.send("GET", strings.Replace(at, "/hidden?", "/other?", 1), "Host", contentHost).want(429)
	is.Equal(string(a.send("GET", at, "Host", contentHost).want(200).body), "0123456789")
	a.send("GET", strings.Replace(at, "/hidden?", "/hidden.txt?", 1), "Host", contentHost).want(200)
	a.clock.advance(limit.MissWindow)
	a.send("GET", "/x/other", "Host", contentHost).want(404)
}

// TestContentPages: the policies of pages name the origin that their content
// comes from.
func TestContentPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, apart)
	a.share("x", "slug", "item")
	parts := func(path string) map[string]string {
		out := map[string]string{}
		for part := range strings.SplitSeq(a.get(path).want(200).header.Get("Content-Security-Policy"), ";") {
			name, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
			out[name] = rest
		}
		return out
	}
	for _, path := range []string{"/v/item", "/item", "/"} {
		policy := parts(path)
		for name, sources := range policy {
			named := strings.Contains(sources, a.server.Content)
			if wanted := slices.Contains([]string{"img-src", "media-src", "frame-src"}, name); named != wanted {
				t.Errorf("%s: %s %s", path, name, sources)
			}
		}
		is.True(policy["img-src"] != "")
	}
}

// TestContentOwner: what the owner has at the origin for content ends with the
// session or the API key that it was given to, at the next request.
func TestContentOwner(t *testing.T) {
	t.Parallel()
	type scene struct {
		*app                       // of an administrator
		user          *people.User // the owner
		cookie, keyID string
	}
	edit := func(s scene, change func(*people.Key)) {
		s.fatal(s.server.Store.Update(func(tx *kv.Tx) error {
			all, err := people.Keys(tx, s.user.ID)
			if err != nil {
				return err
			}
			change(&all[0])
			return people.SaveKey(tx, &all[0])
		}))
	}
	const session, key = 1, 2 // by what the owner comes
	for name, row := range map[string]struct {
		does func(s scene)
		ends int
	}{
		"nothing":  {func(scene) {}, 0},
		"late":     {func(s scene) { s.clock.advance(public.OwnTime - time.Minute) }, 0},
		"later":    {func(s scene) { s.clock.advance(public.OwnTime) }, session | key},
		"sign-out": {func(s scene) { s.do(as(s.cookie, "POST", "/api/v1/auth/logout", nil)).want(200) }, session},
		"session revoked": {func(s scene) {
			list := s.do(as(s.cookie, "GET", "/api/v1/me/sessions", nil)).want(200)
			s.do(as(s.cookie, "DELETE", "/api/v1/me/sessions/"+list.text("data.0.id"), nil)).want(200)
		}, session},
		"password": {func(s scene) {
			s.withPassword(s.user, "correct horse")
		}, session},
		"key revoked":  {func(s scene) { s.do(as(s.cookie, "DELETE", "/api/v1/keys/"+s.keyID, nil)).want(200) }, key},
		"key disabled": {func(s scene) { s.do(as(s.cookie, "PATCH", "/api/v1/keys/"+s.keyID, `{"disabled":true}`)).want(200) }, key},
		"key expired": {func(s scene) {
			edit(s, func(k *people.Key) { k.Expires = s.server.Store.Now() })
		}, key},
		"key may not read": {func(s scene) {
			edit(s, func(k *people.Key) { k.Scopes = []people.Scope{people.ScopeUpload} })
		}, key},
		"keys off": {func(s scene) {
			s.patch("/api/v1/admin/users/"+s.user.ID.String(), `{"apiTokensDisabled":true}`).want(200)
		}, key},
		"all keys off": {func(s scene) { s.patch("/api/v1/admin/settings", `{"apiTokensDisabled":true}`).want(200) }, key},
		"shut":         {func(s scene) { s.patch("/api/v1/admin/users/"+s.user.ID.String(), `{"disabled":true}`).want(200) }, session | key},
		"removed":      {func(s scene) { s.delete("/api/v1/admin/users/" + s.user.ID.String()).want(200) }, session | key},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it waits for the disk
			is := is.New(t)
			a := start(t, apart)
			bob := a.addUser("bob", people.Member)
			secret := a.addKey(bob, people.ScopeAll)
			a.as(secret).share("0123456789", "slug", "item", "isPublic", "false")
			s := scene{app: a, user: bob}
			is.NoErr(a.server.Store.Update(func(tx *kv.Tx) error {
				_, secret, err := people.AddSession(tx, bob.ID, "Firefox", "192.0.2.7", tx.Now)
				s.cookie = a.sessionCookie() + "=" + secret
				return err
			}))
			s.keyID = a.do(as(s.cookie, "GET", "/api/v1/keys", nil)).want(200).text("data.0.id")
			given := map[int]string{
				session: rawApart(a.do(as(s.cookie, "GET", "/v/item", nil)).want(200)),
				key:     rawApart(a.as(secret).get("/v/item").want(200)),
			}
			for _, at := range given {
				is.Equal(string(a.send("GET", at, "Host", contentHost).want(200).body), "0123456789")
			}
			row.does(s)
			for by, at := range given {
				want := 200
				if row.ends&by != 0 {
					want = 404
				}
				is.Equal(a.send("GET", at, "Host", contentHost).status, want)
			}
		})
	}
}

// TestContentNetworks: a visitor may come to the two origins from different
// networks. What that opens to others is nothing of an item with a limit or a
// password, and of the owner's others for a short while alone.
func TestContentNetworks(t *testing.T) {
	t.Parallel()
	behind := func(c *web.Config) {
		apart(c)
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	const home, away = "203.0.113.7", "2001:db8::7"
	type scene struct {
		*app
		at string // of the content, as the page of the base names it for who comes from home
	}
	from := func(s scene, network string) *answer {
		return s.send("GET", s.at, "Host", contentHost, "X-Forwarded-For", network)
	}
	private := func(s scene) { s.patch("/api/v1/files/item", `{"isPublic":false}`).want(200) }
	for name, row := range map[string]struct {
		fields     []string
		own        bool
		then       func(s scene)
		away, home int
		views      int // with the page's
	}{
		"open":                  {nil, false, nil, 200, 200, 1},
		"open, later":           {nil, false, func(s scene) { s.clock.advance(public.ReadTime) }, 200, 200, 3},
		"open, made private":    {nil, false, private, 404, 404, 1},
		"open, gets a limit":    {nil, false, func(s scene) { s.patch("/api/v1/files/item", `{"maxViews":9}`).want(200) }, 200, 200, 3},
		"open, gets a password": {nil, false, func(s scene) { s.patch("/api/v1/files/item", `{"password":"open sesame"}`).want(200) }, 401, 401, 1},
		"ending":                {[]string{"expiresAt", "2130-01-01T00:00:00Z"}, false, nil, 200, 200, 1},
		"limited":               {[]string{"maxViews", "9"}, false, nil, 200, 200, 2},
		"limited, used up":      {[]string{"maxViews", "1"}, false, nil, 410, 200, 1},
		"deleted by its limit":  {[]string{"maxViews", "1", "maxViewsAction", "delete"}, false, nil, 404, 200, -1},
		"locked":                {[]string{"password", "open sesame"}, false, nil, 401, 200, 1},

		"private, own":               {[]string{"isPublic", "false"}, true, nil, 200, 200, 0},
		"private, own, later":        {[]string{"isPublic", "false"}, true, func(s scene) { s.clock.advance(public.ReadTime) }, 404, 200, 0},
		"private, own, much later":   {[]string{"isPublic", "false"}, true, func(s scene) { s.clock.advance(public.OwnTime) }, 404, 404, 0},
		"private, own, gets a limit": {[]string{"isPublic", "false"}, true, func(s scene) { s.patch("/api/v1/files/item", `{"isPublic":true,"maxViews":9}`).want(200) }, 200, 200, 1},
		"private, own, keys off": {[]string{"isPublic", "false"}, true, func(s scene) {
			s.fatal(s.server.Store.Update(func(tx *kv.Tx) error { return people.SetSettings(tx, people.Settings{TokensOff: true}) }))
		}, 404, 404, 0},
		"private, limited, own": {[]string{"isPublic", "false", "maxViews", "9"}, true, nil, 404, 200, 0},
		"private, locked, own":  {[]string{"isPublic", "false", "password", "open sesame"}, true, nil, 404, 200, 0},
		"locked, own":           {[]string{"password", "open sesame"}, true, nil, 401, 200, 0},
		"limited, own":          {[]string{"maxViews", "9"}, true, nil, 200, 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // counts are written once a second
			is := is.New(t)
			a := start(t, behind)
			a.share("0123456789", append(row.fields, "slug", "item")...)
			s := scene{app: a}
			header := http.Header{"X-Forwarded-For": {home}}
			if !row.own {
				header.Set("X-Share-Password", "open sesame")
			}
			s.at = rawApart(a.do(apiRequest{method: "GET", path: "/v/item", anyone: !row.own, header: header, raw: true}).want(200))
			if row.then != nil {
				row.then(s)
			}
			is.Equal(from(s, away).status, row.away)
			is.Equal(from(s, home).status, row.home)
			if row.views >= 0 && name != "private, own, keys off" {
				a.flush()
				is.Equal(a.viewed("item"), row.views)
			}
		})
	}
}
