package public_test

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

	"kist/httpapi/apitest"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/public"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// TestContentAlone: nothing but content is at its origin, and no credential is
// of use there.
func TestContentAlone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.Apart)
	a.WithPassword(a.User, "correct horse")
	session := a.Enter("ann", "correct horse")
	a.Share("public", "slug", "open")
	a.Share("private", "slug", "hidden", "isPublic", "false")
	a.Post("/api/v1/shorten", `{"originalUrl":"https://example.org/","slug":"short","isPublic":true}`).Want(201)
	served := map[string]bool{"GET /x/open": true, "GET /healthz": true}
	words := strings.NewReplacer(
		"{slug}", "open", "{id}", a.User.ID.String(), "{username}", "ann", "{name}", "kist.css", "{token}", "x",
	)
	for _, r := range a.Server.Routes() {
		is.True(!r.AtContentOrigin || r.Access.Open) // nobody is known there
		for _, method := range []string{r.Method, http.MethodHead, http.MethodOptions, http.MethodPost} {
			path := words.Replace(r.Path)
			h := apitest.WithHeader("Host", apitest.ContentHost, "X-Api-Key", a.Key, "Cookie", session, "Origin", a.Server.Content, "Sec-Fetch-Site", "same-origin",
				"Access-Control-Request-Method", "POST", "Content-Type", "application/x-www-form-urlencoded")
			got := a.Do(apitest.Request{Method: method, Path: path, Anyone: true, Header: h, Raw: true})
			if served[method+" "+path] || method == http.MethodHead && served["GET "+path] {
				is.Equal(got.Status, 200)
			} else if got.Status != 404 {
				t.Errorf("%s %s: %d", method, path, got.Status)
			}
			if allows := got.Header.Get("Access-Control-Allow-Origin") + got.Header.Get("Allow"); allows != "" {
				t.Errorf("%s %s allows %s", method, path, allows)
			}
			for _, cookie := range got.Header.Values("Set-Cookie") {
				if !strings.HasPrefix(
					cookie, public.CookieName(grant.ToRead, "open")+"=",
				) || !strings.Contains(cookie, "; Path=/;") || !strings.Contains(cookie, "; Secure") {
					t.Errorf("%s %s sets the cookie %s", method, path, cookie)
				}
			}
			is.Equal(apitest.MediaOf(got.Header) == "text/html", false)
		}
	}
	for _, header := range [][]string{
		{"X-Api-Key", a.Key}, {"Cookie", session}, {"Authorization", "Bearer " + a.Key}, {"Accept", "text/html"},
	} {
		got := a.Send("GET", "/x/hidden", append(header, "Host", apitest.ContentHost)...).Want(404)
		a.IsHostile("hidden", got.Header)
		is.Equal(apitest.MediaOf(got.Header), "text/plain")
		a.Send("GET", "/short", append(header, "Host", apitest.ContentHost)...).Want(404)
	}
	// The base keeps all of it, at any address but the other's.
	a.Get("/api/v1/me").Want(200)
	a.Send("GET", "/login", "Host", "kist.example.org").Want(200)
	a.Send("OPTIONS", "/x/open", "Host", "kist.example.org").Want(204)
}

// TestContentSent: anyone who may have an item at the base gets it by way of the
// other origin, and nobody else does.
func TestContentSent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.Apart)
	a.WithPassword(a.User, "correct horse")
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
	for slug, fields := range map[string][]string{
		"open": nil, "hidden": {"isPublic", "false"}, "few": {"maxViews", "2"}, "locked": {"password", "open sesame"}, "ending": {"expiresAt", "2130-01-01T00:00:00Z"},
	} {
		a.Share(b.String(), append(fields, "slug", slug)...)
	}
	// Without a right, the bytes are at neither.
	for slug, status := range map[string]int{"hidden": 404, "locked": 401} {
		for _, path := range []string{"/x/", "/t/"} {
			a.Guest().See("GET", path+slug).Want(status)
			a.Guest().See("GET", path+slug, "Host", apitest.ContentHost).Want(status)
			a.Guest().See("GET", path+slug+"?g=AAAA", "Host", apitest.ContentHost).Want(status)
		}
	}
	a.Guest().See("GET", "/t/few", "Host", apitest.ContentHost).Want(404)
	// By the owner's session or key, a password, or as anyone.
	owner := a.Guest()
	name, value, _ := strings.Cut(a.Enter("ann", "correct horse"), "=")
	owner.Cookies[name] = value
	sesame := []string{"X-Share-Password", "open sesame"}
	for slug, g := range map[string]*apitest.Guest{
		"open": a.Guest(), "hidden": owner, "few": owner, "locked": a.Guest(), "ending": a.Guest(),
	} {
		for _, path := range []string{"/x/" + slug, "/t/" + slug, "/x/" + slug + ".png", "/x/" + slug + ".a%3Fb"} {
			got := g.Follow(g.See("GET", path, sesame...))
			is.Equal(got.Status, 200)
			a.IsHostile(path, got.Header)
			is.Equal(got.Header.Get("Cross-Origin-Resource-Policy"), "cross-origin") // so that pages of the base show it
			got = g.Follow(g.See("GET", path+"?download=1", sesame...)).Want(200)
			is.Equal(strings.HasPrefix(path, "/x/"), strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment"))
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
				a := apitest.Start(t, apitest.Apart)
				a.Share("0123456789", "slug", "item", "maxViews", "1", "maxViewsAction", action)
				over := map[string]int{"make_private": 410, "delete": 404}[action]
				g := a.Guest()
				at := "/x/item"
				if by == "page" {
					at = apitest.RawApart(g.See("GET", "/v/item").Want(200))
				} else {
					far := a.Guest() // the visitor's cookies there
					far.See("GET", at, "Host", apitest.ContentHost).Want(200)
					far.See("GET", at, "Host", apitest.ContentHost, "Range", "bytes=5-").Want(206)
					a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(over)
					g.See("GET", at).Want(over)
					return
				}
				a.Guest().See("GET", "/x/item").Want(over)
				a.Guest().See("GET", "/x/item", "Host", apitest.ContentHost).Want(over)
				is.Equal(string(a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(200).Body), "0123456789")
				a.Guest().See("GET", at, "Host", apitest.ContentHost, "Range", "bytes=5-").Want(206)
				// No byte comes from the base, which passes the right on as it is.
				a.Clock.Advance(public.ReadTime - time.Minute)
				for range 3 {
					sent := g.See("GET", "/x/item")
					is.Equal(len(sent.Body), 0)
					is.Equal(string(g.Follow(sent).Want(200).Body), "0123456789")
					again := g.See("GET", strings.TrimPrefix(sent.Header.Get("Location"), a.Server.Content))
					at = strings.TrimPrefix(again.Want(302).Header.Get("Location"), a.Server.Content)
					a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(200)
				}
				a.Clock.Advance(time.Minute)
				a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(over)
				g.See("GET", "/x/item").Want(over)
				g.See("GET", at).Want(over)
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
		a := apitest.Start(t)
		a.Share("0123456789", "slug", "item", "maxViews", "1")
		g := a.Guest()
		g.See("GET", "/v/item").Want(200)
		a.Clock.Advance(public.ReadTime - time.Minute)
		at := rawIn(g.See("GET", "/v/item").Want(200))
		a.Guest().See("GET", at).Want(200)
		at = rawIn(a.Guest().See("GET", strings.Replace(at, "/x/", "/v/", 1)).Want(200))
		a.Clock.Advance(time.Minute)
		is.Equal(a.Guest().See("GET", at).Status, 410)
	})
	t.Run("read", func(t *testing.T) {
		a := apitest.Start(t, apitest.Apart)
		a.Share("0123456789", "slug", "item", "maxViews", "1")
		at := apitest.RawApart(a.Guest().See("GET", "/v/item").Want(200))
		for range 3 {
			a.Clock.Advance(public.ReadTime / 4)
			at = strings.TrimPrefix(a.Guest().See("GET", at).Want(302).Header.Get("Location"), a.Server.Content)
		}
		a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(200)
		a.Clock.Advance(public.ReadTime / 4)
		a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(410)
	})
	t.Run("unlock", func(t *testing.T) {
		a := apitest.Start(t, apitest.Apart)
		a.Share("0123456789", "slug", "item", "password", "open sesame")
		at := strings.TrimPrefix(
			a.Guest().See("GET", "/x/item", "X-Share-Password", "open sesame").Want(302).Header.Get("Location"),
			a.Server.Content,
		)
		a.Clock.Advance(public.ReadTime - time.Minute)
		at = strings.TrimPrefix(a.Guest().See("GET", at).Want(302).Header.Get("Location"), a.Server.Content)
		a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(200)
		a.Clock.Advance(time.Minute)
		a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(401)
		a.Guest().See("GET", at).Want(401)

		// By the form, for as long as the cookie: a film is not over after ten minutes.
		g := a.Guest()
		g.See("POST", "/v/item", "X-Form", "password=open+sesame").Want(303)
		at = apitest.RawApart(g.See("GET", "/v/item").Want(200))
		a.Clock.Advance(public.UnlockTime - time.Minute)
		a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(200)
		at = apitest.RawApart(g.See("GET", "/v/item").Want(200))
		a.Clock.Advance(time.Minute)
		a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(200) // the page was a view of its own
		a.Clock.Advance(public.ReadTime)
		a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(401)
	})
	t.Run("own", func(t *testing.T) {
		a := apitest.Start(t, apitest.Apart)
		a.Share("0123456789", "slug", "item", "isPublic", "false")
		at := apitest.RawApart(a.Get("/v/item").Want(200))
		a.Guest().See("GET", at).Want(404) // at the base it is worth nothing
		a.Clock.Advance(public.OwnTime - time.Minute)
		a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(200)
		a.Clock.Advance(time.Minute)
		a.Guest().See("GET", at, "Host", apitest.ContentHost).Want(404)
		// A person is led back to the page, which knows its owner.
		sent := a.Send("GET", at, "Host", apitest.ContentHost, "Sec-Fetch-Dest", "document", "Accept", "text/html").Want(302)
		a.IsHostile("back", sent.Header)
		if to := sent.Header.Get("Location"); to != "https://kist.example.org/v/item" {
			t.Errorf("led to %s", to)
		}
	})
}

// TestContentLeadsBack: who is not to get the content at its origin is led to the
// page at the base, which is the only place with pages.
func TestContentLeadsBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.Apart)
	a.Share("0123456789", "slug", "few", "maxViews", "1")
	a.Share("0123456789", "slug", "hidden", "isPublic", "false")
	sent := a.Send("GET", "/x/few.txt", "Host", apitest.ContentHost, "User-Agent", "Slackbot-LinkExpanding 1.0")
	a.IsHostile("preview", sent.Header)
	is.Equal(sent.Want(302).Header.Get("Location"), "https://kist.example.org/v/few")
	is.Equal(len(sent.Body), 0)
	is.Equal(sent.Header.Get("Etag"), "")
	is.Equal(viewed(a, "few"), 0)

	at := strings.Replace(apitest.RawApart(a.Get("/v/hidden").Want(200)), "/hidden?", "/hidden.txt?", 1)
	a.Clock.Advance(public.OwnTime)
	sent = a.Send("GET", at, "Host", apitest.ContentHost, "Sec-Fetch-Dest", "document").Want(302)
	to, ok := strings.CutPrefix(sent.Header.Get("Location"), "https://kist.example.org")
	is.True(ok)
	a.Get(to).Want(200) // it has the extension still, as what is there is told to its owner alone
}

// TestContentPages: the policies of pages name the origin that their content
// comes from.
func TestContentPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.Apart)
	a.Share("x", "slug", "item")
	parts := func(path string) map[string]string {
		out := map[string]string{}
		for part := range strings.SplitSeq(a.Get(path).Want(200).Header.Get("Content-Security-Policy"), ";") {
			name, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
			out[name] = rest
		}
		return out
	}
	for _, path := range []string{"/v/item", "/item", "/"} {
		policy := parts(path)
		for name, sources := range policy {
			named := strings.Contains(sources, a.Server.Content)
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
		*apitest.App               // of an administrator
		user          *people.User // the owner
		cookie, keyID string
	}
	edit := func(s scene, change func(*people.Key)) {
		s.NoErr(s.Server.Store.Update(func(tx *kv.Tx) error {
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
		"late":     {func(s scene) { s.Clock.Advance(public.OwnTime - time.Minute) }, 0},
		"later":    {func(s scene) { s.Clock.Advance(public.OwnTime) }, session | key},
		"sign-out": {func(s scene) { s.Do(apitest.As(s.cookie, "POST", "/api/v1/auth/logout", nil)).Want(200) }, session},
		"session revoked": {func(s scene) {
			list := s.Do(apitest.As(s.cookie, "GET", "/api/v1/me/sessions", nil)).Want(200)
			s.Do(apitest.As(s.cookie, "DELETE", "/api/v1/me/sessions/"+list.Text("data.0.id"), nil)).Want(200)
		}, session},
		"password": {func(s scene) {
			s.WithPassword(s.user, "correct horse")
		}, session},
		"key revoked": {func(s scene) { s.Do(apitest.As(s.cookie, "DELETE", "/api/v1/keys/"+s.keyID, nil)).Want(200) }, key},
		"key disabled": {func(s scene) {
			s.Do(apitest.As(s.cookie, "PATCH", "/api/v1/keys/"+s.keyID, `{"disabled":true}`)).Want(200)
		}, key},
		"key expired": {func(s scene) {
			edit(s, func(k *people.Key) { k.Expires = s.Server.Store.Now() })
		}, key},
		"key may not read": {func(s scene) {
			edit(s, func(k *people.Key) { k.Scopes = []people.Scope{people.ScopeUpload} })
		}, key},
		"keys off": {func(s scene) {
			s.Patch("/api/v1/admin/users/"+s.user.ID.String(), `{"apiTokensDisabled":true}`).Want(200)
		}, key},
		"all keys off": {func(s scene) { s.Patch("/api/v1/admin/settings", `{"apiTokensDisabled":true}`).Want(200) }, key},
		"shut": {func(s scene) {
			s.Patch("/api/v1/admin/users/"+s.user.ID.String(), `{"disabled":true}`).Want(200)
		}, session | key},
		"removed": {func(s scene) { s.Delete("/api/v1/admin/users/" + s.user.ID.String()).Want(200) }, session | key},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it waits for the disk
			is := is.New(t)
			a := apitest.Start(t, apitest.Apart)
			bob := a.AddUser("bob", people.Member)
			secret := a.AddKey(bob, people.ScopeAll)
			a.As(secret).Share("0123456789", "slug", "item", "isPublic", "false")
			s := scene{App: a, user: bob}
			is.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
				_, secret, err := people.AddSession(tx, bob.ID, "Firefox", "192.0.2.7", tx.Now)
				s.cookie = a.SessionCookie() + "=" + secret
				return err
			}))
			s.keyID = a.Do(apitest.As(s.cookie, "GET", "/api/v1/keys", nil)).Want(200).Text("data.0.id")
			given := map[int]string{
				session: apitest.RawApart(a.Do(apitest.As(s.cookie, "GET", "/v/item", nil)).Want(200)),
				key:     apitest.RawApart(a.As(secret).Get("/v/item").Want(200)),
			}
			for _, at := range given {
				is.Equal(string(a.Send("GET", at, "Host", apitest.ContentHost).Want(200).Body), "0123456789")
			}
			row.does(s)
			for by, at := range given {
				want := 200
				if row.ends&by != 0 {
					want = 404
				}
				is.Equal(a.Send("GET", at, "Host", apitest.ContentHost).Status, want)
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
		apitest.Apart(c)
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	const home, away = "203.0.113.7", "2001:db8::7"
	type scene struct {
		*apitest.App
		at string // of the content, as the page of the base names it for who comes from home
	}
	from := func(s scene, network string) *apitest.Answer {
		return s.Send("GET", s.at, "Host", apitest.ContentHost, "X-Forwarded-For", network)
	}
	private := func(s scene) { s.Patch("/api/v1/files/item", `{"isPublic":false}`).Want(200) }
	for name, row := range map[string]struct {
		fields     []string
		own        bool
		then       func(s scene)
		away, home int
		views      int // with the page's
	}{
		"open":               {nil, false, nil, 200, 200, 1},
		"open, later":        {nil, false, func(s scene) { s.Clock.Advance(public.ReadTime) }, 200, 200, 3},
		"open, made private": {nil, false, private, 404, 404, 1},
		"open, gets a limit": {nil, false, func(s scene) {
			s.Patch("/api/v1/files/item", `{"maxViews":9}`).Want(200)
		}, 200, 200, 3},
		"open, gets a password": {nil, false, func(s scene) {
			s.Patch("/api/v1/files/item", `{"password":"open sesame"}`).Want(200)
		}, 401, 401, 1},
		"ending":               {[]string{"expiresAt", "2130-01-01T00:00:00Z"}, false, nil, 200, 200, 1},
		"limited":              {[]string{"maxViews", "9"}, false, nil, 200, 200, 2},
		"limited, used up":     {[]string{"maxViews", "1"}, false, nil, 410, 200, 1},
		"deleted by its limit": {[]string{"maxViews", "1", "maxViewsAction", "delete"}, false, nil, 404, 200, -1},
		"locked":               {[]string{"password", "open sesame"}, false, nil, 401, 200, 1},

		"private, own": {[]string{"isPublic", "false"}, true, nil, 200, 200, 0},
		"private, own, later": {[]string{"isPublic", "false"}, true, func(s scene) {
			s.Clock.Advance(public.ReadTime)
		}, 404, 200, 0},
		"private, own, much later": {[]string{"isPublic", "false"}, true, func(s scene) {
			s.Clock.Advance(public.OwnTime)
		}, 404, 404, 0},
		"private, own, gets a limit": {[]string{"isPublic", "false"}, true, func(s scene) {
			s.Patch("/api/v1/files/item", `{"isPublic":true,"maxViews":9}`).Want(200)
		}, 200, 200, 1},
		"private, own, keys off": {[]string{"isPublic", "false"}, true, func(s scene) {
			s.NoErr(s.Server.Store.Update(func(tx *kv.Tx) error {
				return people.SetSettings(tx, people.Settings{TokensOff: true})
			}))
		}, 404, 404, 0},
		"private, limited, own": {[]string{"isPublic", "false", "maxViews", "9"}, true, nil, 404, 200, 0},
		"private, locked, own":  {[]string{"isPublic", "false", "password", "open sesame"}, true, nil, 404, 200, 0},
		"locked, own":           {[]string{"password", "open sesame"}, true, nil, 401, 200, 0},
		"limited, own":          {[]string{"maxViews", "9"}, true, nil, 200, 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // counts are written once a second
			is := is.New(t)
			a := apitest.Start(t, behind)
			a.Share("0123456789", append(row.fields, "slug", "item")...)
			s := scene{App: a}
			header := http.Header{"X-Forwarded-For": {home}}
			if !row.own {
				header.Set("X-Share-Password", "open sesame")
			}
			s.at = apitest.RawApart(a.Do(apitest.Request{
				Method: "GET", Path: "/v/item", Anyone: !row.own, Header: header, Raw: true,
			}).Want(200))
			if row.then != nil {
				row.then(s)
			}
			is.Equal(from(s, away).Status, row.away)
			is.Equal(from(s, home).Status, row.home)
			if row.views >= 0 && name != "private, own, keys off" {
				a.Flush()
				is.Equal(viewed(a, "item"), row.views)
			}
		})
	}
}

// TestContentMisses: who has missed too often has what a grant is for, and
// nothing else.
func TestContentMisses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.Apart)
	a.Share("0123456789", "slug", "hidden", "isPublic", "false")
	a.Share("0123456789", "slug", "other", "isPublic", "false")
	at := apitest.RawApart(a.Get("/v/hidden").Want(200))
	for i := range limit.MaxMisses {
		a.Send("GET", fmt.Sprint("/x/none", i), "Host", apitest.ContentHost).Want(404)
	}
	a.Send("GET", "/x/hidden", "Host", apitest.ContentHost).Want(429)
	a.Send("GET", strings.Replace(at, "/hidden?", "/other?", 1), "Host", apitest.ContentHost).Want(429)
	is.Equal(string(a.Send("GET", at, "Host", apitest.ContentHost).Want(200).Body), "0123456789")
	a.Send("GET", strings.Replace(at, "/hidden?", "/hidden.txt?", 1), "Host", apitest.ContentHost).Want(200)
	a.Clock.Advance(limit.MissWindow)
	a.Send("GET", "/x/other", "Host", apitest.ContentHost).Want(404)
}
