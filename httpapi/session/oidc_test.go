package session_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/httpapi/oidc"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// withProvider makes a provider and gives the server its client.
func withProvider(t testing.TB, with ...func(*oidc.Options)) (*apitest.Provider, func(*web.Config)) {
	t.Helper()
	p := apitest.NewProvider(t)
	return p, func(c *web.Config) { c.OIDC = p.Client(t, c.Base, with...) }
}

// idpBrowser is what a browser keeps between requests to the server and the provider.
type idpBrowser struct {
	a       *apitest.App
	p       *apitest.Provider
	cookies map[string]string // of the server
	at      string            // the address where the provider left it
}

func newIDPBrowser(a *apitest.App, p *apitest.Provider) *idpBrowser {
	return &idpBrowser{a, p, map[string]string{}, ""}
}

// open asks the server as a browser does that comes from nowhere.
func (b *idpBrowser) open(path string) *apitest.Answer {
	b.a.Helper()
	return b.send(apitest.Request{
		Method: "GET", Path: path, Anyone: true,
		Header: http.Header{"Accept": {"text/html"}, "Sec-Fetch-Site": {"cross-site"}},
	})
}

func (b *idpBrowser) send(q apitest.Request) *apitest.Answer {
	b.a.Helper()
	for name, value := range b.cookies {
		q.Header.Add("Cookie", name+"="+value)
	}
	got := b.a.Do(q)
	res := http.Response{Header: got.Header}
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return got
}

// own asks the server as its own pages do.
func (b *idpBrowser) own(method, path string, json any) *apitest.Answer {
	b.a.Helper()
	return b.send(apitest.Request{
		Method: method, Path: path, Anyone: true, JSON: json, Header: http.Header{"Sec-Fetch-Site": {"same-origin"}},
	})
}

// authorize signs the user in at the provider and returns the path and query of the
// address that it sends the browser back to.
func (b *idpBrowser) authorize(at, name string) string {
	b.a.Helper()
	u, err := url.Parse(at)
	b.a.NoErr(err)
	for range 4 {
		var res *http.Response
		if u.Path == "/in" {
			res, err = apitest.Plain.PostForm(u.String(), url.Values{"username": {name}})
		} else {
			res, err = apitest.Plain.Get(u.String())
		}
		b.a.NoErr(err)
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusFound {
			b.a.Fatalf("the provider answers %d at %s: %s", res.StatusCode, u, text)
		}
		u, err = u.Parse(res.Header.Get("Location"))
		if err != nil {
			b.a.Fatal(err)
		}
		if strings.HasSuffix(u.Path, "/callback") && !strings.HasPrefix(u.String(), b.p.URL) {
			return u.RequestURI()
		}
	}
	b.a.Fatalf("the provider does not come back: %s", u)
	return ""
}

// signIn begins a sign-in, passes the provider and returns the server's answer to the
// browser that comes back.
func (b *idpBrowser) signIn(name string) *apitest.Answer {
	b.a.Helper()
	return b.open(b.authorize(b.begin().String(), name))
}

// enter signs in with the password that all accounts have.
func (b *idpBrowser) enter(name string) {
	b.a.Helper()
	b.own("POST", "/api/v1/auth/login", map[string]string{"username": name, "password": "correct horse"}).Want(200)
}

// begin begins a sign-in and returns where it goes on at the provider.
func (b *idpBrowser) begin() *url.URL {
	b.a.Helper()
	u, err := url.Parse(b.open("/login/oidc?next=/notes").Want(303).Header.Get("Location"))
	b.a.NoErr(err)
	return u
}

// me is the name of the user who is signed in; "" if nobody is.
func (b *idpBrowser) me() string {
	b.a.Helper()
	got := b.own("GET", "/api/v1/me", nil)
	if got.Status == 401 {
		return ""
	}
	return got.Want(200).Text("data.username")
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := apitest.Start(t, with)
	a.WithPassword(a.User, "correct horse")
	is.True(strings.Contains(
		string(newIDPBrowser(a, p).open("/login?next=/notes").Want(200).Body),
		`href="/login/oidc?next=%2fnotes">Sign in with Example ID</a>`,
	))

	// Neither the name nor anything else but a link decides: ann at the provider is nobody here.
	b := newIDPBrowser(a, p)
	got := b.signIn("ann").Want(403)
	is.True(strings.Contains(string(got.Body), "No account here is linked"))
	is.True(strings.Contains(a.Logged.String(), "subject id-ann"))
	is.Equal(b.me(), "")

	// Linking is done signed in.
	b = newIDPBrowser(a, p)
	b.enter("ann")
	at := b.own("POST", "/api/v1/me/identities", map[string]string{"next": "/account"}).Want(200).Text("data.url")
	q, err := url.Parse(at)
	is.NoErr(err)
	is.Equal(q.Query().Get("code_challenge_method"), "S256")
	is.Equal(q.Query().Get("redirect_uri"), "https://kist.example.org/login/oidc/callback")
	back := b.authorize(at, "ann")
	is.Equal(b.open(back).Want(303).Header.Get("Location"), "/account")
	list := b.own("GET", "/api/v1/me/identities", nil).Want(200)
	is.Equal(list.At("total"), 1.0)
	is.Equal(list.Text("data.0.subject"), "id-ann")
	is.Equal(list.Text("data.0.name"), "ann")

	// Now it signs in, and the address goes on where it was to.
	b = newIDPBrowser(a, p)
	got = b.signIn("ann").Want(303)
	is.Equal(got.Header.Get("Location"), "/notes")
	is.Equal(b.me(), "ann")
	for _, line := range got.Header.Values("Set-Cookie") {
		is.True(strings.Contains(line, "HttpOnly") && strings.Contains(line, "Secure"))
	}
	is.True(!strings.Contains(a.Logged.String(), b.cookies["kist_oidc_end"]))

	// The same again is a replay: the browser has no flow any more.
	got = newIDPBrowser(a, p).open(back).Want(401)
	is.True(strings.Contains(string(got.Body), "started in another browser"))

	// Signing out leads to the provider with the ID token, from a page of this server.
	got = b.own("POST", "/logout", nil)
	is.Equal(got.Want(303).Header.Get("Location"), "/login/oidc/end")
	page := string(b.own("GET", "/login/oidc/end", nil).Want(200).Body)
	_, address, _ := strings.Cut(page, `<a class="button" href="`)
	address, _, _ = strings.Cut(address, `"`)
	res, err := apitest.Plain.Get(strings.ReplaceAll(address, "&amp;", "&"))
	is.NoErr(err)
	res.Body.Close()
	is.Equal(res.StatusCode, 302)
	is.Equal(res.Header.Get("Location"), "https://kist.example.org/login")
	is.Equal(b.own("GET", "/login/oidc/end", nil).Want(303).Header.Get("Location"), "/login?out=1")

	// Removing the link ends the sessions that came from it, and no others.
	b.signIn("ann").Want(303)
	other := a.Enter("ann", "correct horse")
	b.own("DELETE", "/api/v1/me/identities/"+list.Text("data.0.id"), nil).Want(200)
	is.Equal(b.me(), "")
	a.Do(apitest.As(other, "GET", "/api/v1/me", nil)).Want(200)
	newIDPBrowser(a, p).signIn("ann").Want(403)
}

// TestOIDCState tries answers that do not belong to what the browser began.
func TestOIDCState(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := apitest.Start(t, with)
	a.WithPassword(a.User, "correct horse")
	a.Link(a.User, p, "id-ann")
	b := newIDPBrowser(a, p)
	back := b.authorize(b.begin().String(), "ann")

	got := newIDPBrowser(a, p).open(back).Want(401) // another browser
	is.Equal(cookies(got), 0)
	other := newIDPBrowser(a, p) // which began one of its own
	other.begin()
	is.True(strings.Contains(string(other.open(back).Want(401).Body), "does not belong to a sign-in"))
	b.open(back + "&iss=https%3A%2F%2Fother.example.org").Want(401) // RFC 9207
	b.open("/login/oidc/callback?state=&code=x").Want(401)
	is.Equal(b.me(), "")
	b.open(back).Want(303) // a wrong answer has not ended the right one
	is.Equal(b.me(), "ann")

	// A code works once, also for a browser that keeps its cookie.
	b = newIDPBrowser(a, p)
	back = b.authorize(b.begin().String(), "ann")
	kept := b.cookies["__Host-kist_oidc"]
	b.open(back).Want(303)
	b = newIDPBrowser(a, p)
	b.cookies["__Host-kist_oidc"] = kept
	is.True(strings.Contains(string(b.open(back).Want(401).Body), "did not confirm"))

	// Another nonce or verifier than the one that was sent.
	for _, name := range []string{"nonce", "verifier"} {
		b = newIDPBrowser(a, p)
		back = b.authorize(b.begin().String(), "ann")
		raw, err := base64.RawURLEncoding.DecodeString(b.cookies["__Host-kist_oidc"])
		is.NoErr(err)
		var f map[string]string
		is.NoErr(json.Unmarshal(raw, &f))
		f[name] = strings.Repeat("x", 43)
		raw, err = json.Marshal(f)
		is.NoErr(err)
		b.cookies["__Host-kist_oidc"] = base64.RawURLEncoding.EncodeToString(raw)
		b.open(back).Want(401)
		is.Equal(b.me(), "")
	}
	is.True(strings.Contains(a.Logged.String(), "the nonce is another"))

	// The user cancels. What the provider says is not on the page.
	b = newIDPBrowser(a, p)
	got = b.open("/login/oidc/callback?error=access_denied&error_description=%3Cb%3Eevil&state=" + b.begin().Query().Get("state")).Want(401)
	is.True(strings.Contains(string(got.Body), "or you cancelled") && !strings.Contains(string(got.Body), "evil"))

	// Where to go on is a path of this server.
	b = newIDPBrowser(a, p)
	back = b.authorize(b.open("/login/oidc?next=//evil.example.org").Want(303).Header.Get("Location"), "ann")
	is.Equal(b.open(back).Want(303).Header.Get("Location"), "/")

	// A link is for the session that began it.
	bob := a.AddUser("bob", people.Member)
	a.WithPassword(bob, "correct horse")
	b = newIDPBrowser(a, p)
	b.enter("ann")
	back = b.authorize(b.own("POST", "/api/v1/me/identities", "{}").Want(200).Text("data.url"), "eve")
	planted := b.cookies["__Host-kist_oidc"]
	victim := newIDPBrowser(a, p)
	victim.enter("bob")
	victim.cookies["__Host-kist_oidc"] = planted
	victim.open(back).Want(401)
	is.Equal(victim.own("GET", "/api/v1/me/identities", nil).Want(200).At("total"), 0.0)
	a.Do(apitest.Request{Method: "POST", Path: "/api/v1/me/identities", JSON: "{}"}).Want(403) // an API key has no browser

	// Guessing is limited.
	for range limit.GuessesOfAll + 1 {
		b = newIDPBrowser(a, p)
		got = b.open("/login/oidc/callback?code=guess&state=" + b.begin().Query().Get("state"))
	}
	is.Equal(got.Want(429).Header.Get("Retry-After") != "", true)
}

// TestOIDCTabs: each tab of a browser may have its own sign-in, as far as they fit into a cookie.
func TestOIDCTabs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := apitest.Start(t, with)
	a.Link(a.User, p, "id-ann")
	const cookie = "__Host-kist_oidc"

	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}} {
		b := newIDPBrowser(a, p)
		var tabs []string
		for range order {
			tabs = append(tabs, b.authorize(b.begin().String(), "ann"))
		}
		for _, tab := range order {
			is.Equal(b.open(tabs[tab]).Want(303).Header.Get("Location"), "/notes")
			is.Equal(b.me(), "ann")
			b.open(tabs[tab]).Want(401) // once
		}
		is.Equal(b.cookies[cookie], "")
	}

	// The oldest goes when there are too many, or when they are too long.
	for _, row := range []struct {
		next       string
		tabs, kept int
	}{{"/notes", 6, 4}, {"/" + strings.Repeat("x", 1000), 4, 2}, {"/" + strings.Repeat("<", 1000), 4, 4}} {
		b := newIDPBrowser(a, p)
		var tabs []string
		for range row.tabs {
			at := b.open("/login/oidc?next=" + url.QueryEscape(row.next)).Want(303).Header.Get("Location")
			tabs = append(tabs, b.authorize(at, "ann"))
			is.True(len(cookie)+len(b.cookies[cookie]) < 4096)
		}
		for i, tab := range tabs {
			is.Equal(b.open(tab).Status == 303, i >= row.tabs-row.kept) // row
		}
	}
}

func cookies(got *apitest.Answer) int { return len(got.Header.Values("Set-Cookie")) }

// TestOIDCGroups tries what the provider's groups and the account's state decide.
func TestOIDCGroups(t *testing.T) {
	t.Parallel()
	for _, slim := range []bool{false, true} {
		is := is.New(t)
		p, with := withProvider(t, func(o *oidc.Options) { o.AllowGroup, o.AdminGroup, o.Create = "family", "parents", true })
		p.Slim = slim // groups and names come from the user info then
		a := apitest.Start(t, with)
		a.Link(a.User, p, "id-ann")

		// ann is the only administrator and stays it, whatever the groups say.
		ann := newIDPBrowser(a, p)
		ann.signIn("ann").Want(303)
		is.Equal(a.UserNamed("ann").Role, people.Admin)

		// A new account gets a free name; that of another is never taken for the same user.
		p.Set(func() { p.Groups = []string{"family", "parents"} })
		a.AddUser("eve", people.Member)
		eve := newIDPBrowser(a, p)
		eve.signIn("eve").Want(303)
		is.Equal(eve.me(), "eve-2")
		is.Equal(a.UserNamed("eve-2").Role, people.Admin)
		is.Equal(a.UserNamed("eve-2").DisplayName, "Eve Example")

		// Roles follow the group at the next sign-in.
		p.Set(func() { p.Groups = []string{"family"} })
		ann.signIn("ann").Want(303)
		is.Equal(a.UserNamed("ann").Role, people.Member)
		newIDPBrowser(a, p).signIn("eve").Want(303)
		is.Equal(a.UserNamed("eve-2").Role, people.Admin) // the last one
		is.Equal(eve.me(), "eve-2")

		// A session where groups decide is not extended by use.
		a.Clock.Advance(20 * 24 * time.Hour)
		is.Equal(eve.me(), "eve-2")
		a.Clock.Advance(11 * 24 * time.Hour)
		is.Equal(eve.me(), "")
		eve.signIn("eve").Want(303)
		second := newIDPBrowser(a, p)
		second.signIn("eve").Want(303)

		// Who has lost the group is out, and so are the sessions; others stay.
		p.Set(func() { p.Groups = []string{"parents"} })
		ann.me()
		got := newIDPBrowser(a, p).signIn("eve").Want(403)
		is.True(strings.Contains(string(got.Body), "may not use this server"))
		is.Equal(eve.me()+second.me(), "")
		newIDPBrowser(a, p).signIn("stranger").Want(403)
		is.True(kv.Missing(a.Server.Store.View(func(tx *kv.Tx) error {
			_, err := people.UserNamed(tx, "stranger")
			return err
		})))

		// A disabled account.
		p.Set(func() { p.Groups = []string{"family"} })
		u := a.UserNamed("ann")
		a.Disable(u)
		got = newIDPBrowser(a, p).signIn("ann").Want(403)
		is.True(strings.Contains(string(got.Body), "This account is disabled."))
	}
}

// TestOIDCClaims tries where groups and names may be, and what the log says without them.
func TestOIDCClaims(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t, func(o *oidc.Options) {
		o.AllowGroup, o.GroupsClaim, o.Create = "family", "realm.roles", true
	})
	a := apitest.Start(t, with)
	for name, row := range map[string]struct {
		token  map[string]any // instead of what the provider says in the ID token
		noInfo bool
		info   map[string]any // in the user info
		status int
		log    string
	}{
		"in the token, without user info": {
			map[string]any{"realm": map[string]any{"roles": []string{"/family"}}}, true, nil, 303, "",
		},
		"in the user info": {nil, false, map[string]any{"roles": "family"}, 303, ""},
		"a short list in the token": {
			map[string]any{"realm": map[string]any{"roles": []string{"x"}}},
			false,
			map[string]any{"roles": map[string]any{"family": map[string]any{"1": "example"}}},
			303, "",
		},
		"in neither": {
			map[string]any{"realm": map[string]any{"roles": []string{"x"}}},
			false,
			map[string]any{"roles": []string{"y"}},
			403,
			"the claim realm.roles has x, y, and not family",
		},
		"lost, and no user info": {
			map[string]any{"realm": map[string]any{"roles": []string{"x", "z"}}},
			true, nil, 503, "cannot be reached",
		},
		"empty": {
			map[string]any{"realm": map[string]any{"roles": []string{}}},
			false, nil, 403,
			"the claim realm.roles is empty",
		},
		"another claim": {
			map[string]any{"groups": "family"},
			false, nil, 403,
			"there is no claim realm.roles with the group family; the claims are amr, ",
		},
		"unknown and no user info": {nil, true, nil, 503, "cannot be reached"},
	} {
		p.Set(func() {
			p.NoInfo, p.Info = row.noInfo, map[string]any{"realm": row.info}
			p.Forge = func(claims map[string]any) string {
				delete(claims, "groups")
				delete(claims, "realm")
				maps.Copy(claims, row.token)
				return p.Key.Sign(`{"alg":"RS256","kid":"first"}`, claims)
			}
		})
		got := newIDPBrowser(a, p).signIn("bob")
		if got.Status != row.status || !strings.Contains(a.Logged.String(), row.log) {
			t.Errorf("%s: %d, %s", name, got.Status, a.Logged.String())
		}
	}
	is.Equal(a.UserNamed("bob").DisplayName, "Bob Example")
}

// TestOIDCTokens tries what a provider refuses to issue, and what it does on bad days.
func TestOIDCTokens(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := apitest.Start(t, with)
	a.WithPassword(a.User, "correct horse")
	a.Link(a.User, p, "id-ann")
	const rs256 = `{"alg":"RS256","kid":"first"}`
	other := apitest.NewSigningKey("first")
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, row := range map[string]struct {
		claims map[string]any      // instead of the provider's; nil removes one
		header string              // rs256 if ""
		key    *apitest.SigningKey // the provider's if nil
		ok     bool
	}{
		"as it is":       {ok: true},
		"a minute late":  {claims: map[string]any{"exp": in(-30 * time.Second)}, ok: true},
		"expired":        {claims: map[string]any{"exp": in(-2 * time.Minute)}},
		"not yet":        {claims: map[string]any{"nbf": in(10 * time.Minute)}},
		"alg none":       {header: `{"alg":"none","kid":"first"}`},
		"HMAC":           {header: `{"alg":"HS256","kid":"first"}`},
		"other key":      {key: other},
		"other audience": {claims: map[string]any{"aud": "other"}},
		"other party":    {claims: map[string]any{"aud": []string{"kist", "other"}, "azp": "other"}},
		"other issuer":   {claims: map[string]any{"iss": "https://other.example.org"}},
		"no subject":     {claims: map[string]any{"sub": nil}},
		"other access":   {claims: map[string]any{"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}},
		"nothing":        {header: "-"},
	} {
		p.Set(func() {
			p.Forge = func(claims map[string]any) string {
				maps.Copy(claims, row.claims)
				maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
				if row.header == "-" {
					return ""
				}
				return cmp.Or(row.key, p.Key).Sign(cmp.Or(row.header, rs256), claims)
			}
		})
		b := newIDPBrowser(a, p)
		got := b.signIn("ann")
		is.Equal(got.Status == 303, row.ok)
		if (b.me() == "ann") != row.ok {
			t.Errorf("%s: %d", name, got.Status)
		}
		a.Clock.Advance(people.TryWindow + time.Second) // or the limit of guesses is reached
	}
	p.Set(func() { p.Forge = nil })

	// The keys change while the server runs.
	p.Set(func() { p.Key = apitest.NewSigningKey("second") })
	newIDPBrowser(a, p).signIn("ann").Want(303)

	// The clocks differ: tokens seem to have expired half a minute ago, then long ago.
	p.Set(func() { p.Skew = 5*time.Minute + 30*time.Second })
	newIDPBrowser(a, p).signIn("ann").Want(303)
	p.Set(func() { p.Skew = 10 * time.Minute })
	newIDPBrowser(a, p).signIn("ann").Want(401)
	p.Set(func() { p.Skew = 0 })

	// The issuer goes away in the middle.
	b := newIDPBrowser(a, p)
	back := b.authorize(b.begin().String(), "ann")
	p.Set(func() { p.Down = true })
	got := b.open(back).Want(503)
	is.True(strings.Contains(string(got.Body), "cannot be reached") && strings.Contains(string(got.Body), `name="password"`))
	a.Enter("ann", "correct horse")
}

// TestOIDCAway starts a server whose issuer is away.
func TestOIDCAway(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Now()
	p, with := withProvider(t, func(o *oidc.Options) { o.Now = func() time.Time { return now } })
	p.Down = true
	a := apitest.Start(t, with, func(c *web.Config) { c.NoPasswords = true })
	a.WithPassword(a.User, "correct horse")
	a.Link(a.User, p, "id-ann")
	got := newIDPBrowser(a, p).open("/login/oidc").Want(503)
	is.True(got.Header.Get("Retry-After") != "")
	is.True(!strings.Contains(string(got.Body), `name="password"`)) // passwords are off
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/login", Anyone: true,
		JSON: map[string]string{"username": "ann", "password": "correct horse"},
	}).Want(403)
	h := a.Server.OIDC.Check(t.Context())
	is.Equal(h.Problem, "The issuer closed the connection without an answer.")

	p.Set(func() { p.Down = false })
	newIDPBrowser(a, p).open("/login/oidc").Want(503) // not asked again so soon
	again := oidc.New(p.Options)
	h = again.Check(t.Context())
	is.Equal(h.Problem+h.Refused, "")
	is.True(h.Leaves && h.Ahead.Abs() < 2*time.Second)
	options := p.Options
	options.Redirect = "https://elsewhere.example.org/login/oidc/callback"
	is.Equal(oidc.New(options).Check(t.Context()).Refused, "status 400")
	options.Issuer += "/" // issuers are compared to the letter
	is.True(strings.Contains(oidc.New(options).Check(t.Context()).Problem, "did not match"))
}

// TestOIDCJoins: an invitation makes the account of an identity too, where the service makes none of its own.
func TestOIDCJoins(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := apitest.Start(t, with)
	shared := a.Post("/api/v1/collections", `{"title":"Holidays"}`).Want(201)
	body := `{"quotaBytes":7,"collections":[{"id":"` + shared.Text("data.id") + `","role":"edit"}]}`
	link := strings.TrimPrefix(a.Post("/api/v1/admin/invitations", body).Want(201).Text("url"), "https://kist.example.org")
	join := func(name string) (*idpBrowser, *apitest.Answer) {
		b := newIDPBrowser(a, p)
		at := b.open("/login/oidc?next=" + url.QueryEscape(link)).Want(303).Header.Get("Location")
		return b, b.open(b.authorize(at, name))
	}

	b, got := join("eve")
	is.Equal(got.Want(303).Header.Get("Location"), "/collections/"+shared.Text("data.id"))
	is.Equal(b.me(), "eve")
	is.Equal(a.Get("/api/v1/collections/"+shared.Text("data.id")).Want(200).At("data.members.0.role"), "edit")
	is.Equal(a.UserNamed("eve").Quota, int64(7))
	is.Equal(a.Get("/api/v1/admin/invitations").Want(200).At("total"), 0.0)

	_, got = join("ann")
	is.Equal(got.Status, 403) // it is used up, and nobody is linked
	is.Equal(a.Get("/api/v1/admin/users").Want(200).At("total"), 2.0)

	// Who has an account signs in to it and uses nothing up.
	link = strings.TrimPrefix(a.Post("/api/v1/admin/invitations", `{}`).Want(201).Text("url"), "https://kist.example.org")
	_, got = join("eve")
	is.Equal(got.Want(303).Header.Get("Location"), link)
	is.Equal(a.Get("/api/v1/admin/invitations").Want(200).At("total"), 1.0)
	is.True(!strings.Contains(a.Logged.String(), link[20:]))
}
