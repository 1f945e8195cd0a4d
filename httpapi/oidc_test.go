package httpapi

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	jose "github.com/go-jose/go-jose/v4"
	"github.com/matryer/is"
	"github.com/zitadel/oidc/v3/example/server/storage"
	zoidc "github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"kist/httpapi/limit"
	"kist/httpapi/oidc"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// provider is an issuer of OpenID Connect, made with the library of a certified one, with
// the users ann and bob, whose passwords are their names.
type provider struct {
	*storage.Storage
	op      op.OpenIDProvider
	front   *httptest.Server
	url     string
	options oidc.Options

	mu     sync.Mutex
	key    *signingKey
	groups []string
	slim   bool                        // says little in the ID token
	skew   time.Duration               // the clock is so much behind
	down   bool                        // answers nothing
	forge  func(map[string]any) string // makes ID tokens, from the claims of the provider's
}

type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

func newSigningKey(id string) *signingKey {
	key, _ := rsa.GenerateKey(rand.Reader, 2048) // cannot fail
	return &signingKey{id, key}
}

func (k *signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *signingKey) Key() any                                    { return k.key }
func (k *signingKey) ID() string                                  { return k.id }

type publicKey struct{ *signingKey }

func (k publicKey) Key() any                           { return &k.key.PublicKey }
func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }

type idpUsers struct{}

func (idpUsers) GetUserByID(id string) *storage.User {
	name, ok := strings.CutPrefix(id, "id-")
	if !ok {
		return nil
	}
	return idpUsers{}.GetUserByUsername(name)
}

func (idpUsers) GetUserByUsername(name string) *storage.User {
	return &storage.User{ID: "id-" + name, Username: name, Password: name, FirstName: strings.ToUpper(name[:1]) + name[1:], LastName: "Example"}
}

func (idpUsers) ExampleClientID() string { return "service" }

// idpClient is a client with an address to go to after signing out.
type idpClient struct {
	op.Client
	p *provider
}

func (c idpClient) PostLogoutRedirectURIs() []string     { return []string{c.p.options.Leave} }
func (c idpClient) ClockSkew() time.Duration             { return 0 }
func (c idpClient) IDTokenUserinfoClaimsAssertion() bool { return !c.p.slim }
func (c idpClient) IsScopeAllowed(string) bool           { return true }
func (c idpClient) IDTokenLifetime() time.Duration       { return 5*time.Minute - c.p.skew }
func (c idpClient) LoginURL(id string) string            { return c.p.url + "/in?id=" + id }

func (p *provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	return idpClient{c, p}, err
}

func (p *provider) SigningKey(context.Context) (op.SigningKey, error) { return p.key, nil }

func (p *provider) KeySet(context.Context) ([]op.Key, error) { return []op.Key{publicKey{p.key}}, nil }

func (p *provider) SetUserinfoFromRequest(ctx context.Context, info *zoidc.UserInfo, r op.IDTokenRequest, scopes []string) error {
	if info.Subject = r.GetSubject(); p.slim {
		return nil
	}
	info.AppendClaims("groups", p.groups)
	return p.Storage.SetUserinfoFromRequest(ctx, info, r, scopes)
}

func (p *provider) SetUserinfoFromToken(ctx context.Context, info *zoidc.UserInfo, token, subject, origin string) error {
	info.AppendClaims("groups", p.groups)
	return p.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
}

func (p *provider) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock() // one request at a time: the storage reads what set changes
	defer p.mu.Unlock()
	switch {
	case p.down:
		panic(http.ErrAbortHandler)
	case r.URL.Path == "/in" && r.Method == http.MethodGet:
		_, _ = io.WriteString(w, `<!doctype html><title>in</title><form method="post"><input name="username"></form>`)
	case r.URL.Path == "/in":
		id, name := r.URL.Query().Get("id"), r.FormValue("username")
		if err := p.CheckUsernamePassword(name, name, id); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, p.url+"/authorize/callback?id="+id, http.StatusFound)
	case r.URL.Path == "/oauth/token" && p.forge != nil:
		got := httptest.NewRecorder()
		p.op.ServeHTTP(got, r)
		var answer, claims map[string]any
		_ = json.Unmarshal(got.Body.Bytes(), &answer)
		raw, _ := answer["id_token"].(string)
		payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(raw+"..", ".")[1])
		_ = json.Unmarshal(payload, &claims)
		answer["id_token"] = p.forge(claims)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	default:
		p.op.ServeHTTP(w, r)
	}
}

// sign makes a token.
func (k *signingKey) sign(header string, claims map[string]any) string {
	b, _ := json.Marshal(claims)
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(b)
	if strings.Contains(header, "none") {
		return text + "."
	}
	h := crypto.SHA256.New()
	h.Write([]byte(text))
	sum, _ := rsa.SignPKCS1v15(rand.Reader, k.key, crypto.SHA256, h.Sum(nil))
	return text + "." + base64.RawURLEncoding.EncodeToString(sum)
}

// newProvider makes a provider, which starts with client.
func newProvider(t testing.TB) *provider {
	p := &provider{key: newSigningKey("first"), groups: []string{"family"}, front: httptest.NewUnstartedServer(nil)}
	p.front.Config.Handler = p
	p.url = "http://" + p.front.Listener.Addr().String()
	t.Cleanup(p.front.Close)
	return p
}

// client starts the provider and returns the client for a server with the address.
func (p *provider) client(t testing.TB, base string, with ...func(*oidc.Options)) *oidc.Client {
	t.Helper()
	p.options = oidc.Options{
		Issuer: p.url, ClientID: "kist", ClientSecret: "secret", Name: "Example ID", Scopes: []string{"openid", "profile"}, GroupsClaim: "groups",
		Redirect: base + session.OIDCPath + "/callback", Leave: base + "/login",
	}
	for _, f := range with {
		f(&p.options)
	}
	p.Storage = storage.NewStorageWithClients(idpUsers{}, map[string]*storage.Client{"kist": storage.WebClient("kist", "secret", p.options.Redirect)})
	var err error
	p.op, err = op.NewProvider(&op.Config{CryptoKey: [32]byte{1}, CodeMethodS256: true, AuthMethodPost: true}, p, op.StaticIssuer(p.url), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	p.front.Start()
	return oidc.New(p.options)
}

// withProvider makes a provider and gives the server its client.
func withProvider(t testing.TB, with ...func(*oidc.Options)) (*provider, func(*web.Config)) {
	t.Helper()
	p := newProvider(t)
	return p, func(c *web.Config) { c.OIDC = p.client(t, c.Base, with...) }
}

// idpBrowser is what a browser keeps between requests to the server and the provider.
type idpBrowser struct {
	a       *app
	p       *provider
	cookies map[string]string // of the server
	at      string            // the address where the provider left it
}

func newIDPBrowser(a *app, p *provider) *idpBrowser {
	return &idpBrowser{a, p, map[string]string{}, ""}
}

// open asks the server as a browser does that comes from nowhere.
func (b *idpBrowser) open(path string) *answer {
	b.a.Helper()
	return b.send(apiRequest{method: "GET", path: path, anyone: true, header: http.Header{"Accept": {"text/html"}, "Sec-Fetch-Site": {"cross-site"}}})
}

func (b *idpBrowser) send(q apiRequest) *answer {
	b.a.Helper()
	for name, value := range b.cookies {
		q.header.Add("Cookie", name+"="+value)
	}
	got := b.a.do(q)
	res := http.Response{Header: got.header}
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
func (b *idpBrowser) own(method, path string, json any) *answer {
	b.a.Helper()
	return b.send(apiRequest{method: method, path: path, anyone: true, json: json, header: http.Header{"Sec-Fetch-Site": {"same-origin"}}})
}

// authorize signs the user in at the provider and returns the path and query of the
// address that it sends the browser back to.
func (b *idpBrowser) authorize(at, name string) string {
	b.a.Helper()
	u, err := url.Parse(at)
	b.a.fatal(err)
	for range 4 {
		var res *http.Response
		if u.Path == "/in" {
			res, err = plain.PostForm(u.String(), url.Values{"username": {name}})
		} else {
			res, err = plain.Get(u.String())
		}
		b.a.fatal(err)
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusFound {
			b.a.Fatalf("the provider answers %d at %s: %s", res.StatusCode, u, text)
		}
		if u, err = u.Parse(res.Header.Get("Location")); err != nil {
			b.a.Fatal(err)
		}
		if strings.HasSuffix(u.Path, "/callback") && !strings.HasPrefix(u.String(), b.p.url) {
			return u.RequestURI()
		}
	}
	b.a.Fatalf("the provider does not come back: %s", u)
	return ""
}

// signIn begins a sign-in, passes the provider and returns the server's answer to the
// browser that comes back.
func (b *idpBrowser) signIn(name string) *answer {
	b.a.Helper()
	return b.open(b.authorize(b.begin().String(), name))
}

// enter signs in with the password that all accounts have.
func (b *idpBrowser) enter(name string) {
	b.a.Helper()
	b.own("POST", "/api/v1/auth/login", map[string]string{"username": name, "password": "correct horse"}).want(200)
}

// begin begins a sign-in and returns where it goes on at the provider.
func (b *idpBrowser) begin() *url.URL {
	b.a.Helper()
	u, err := url.Parse(b.open("/login/oidc?next=/notes").want(303).header.Get("Location"))
	b.a.fatal(err)
	return u
}

// me is the name of the user who is signed in; "" if nobody is.
func (b *idpBrowser) me() string {
	b.a.Helper()
	got := b.own("GET", "/api/v1/me", nil)
	if got.status == 401 {
		return ""
	}
	return got.want(200).text("data.username")
}

func (a *app) link(u *people.User, p *provider, subject string) {
	a.Helper()
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		return people.AddIdentity(tx, u.ID, p.url, subject, "", "")
	}))
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := start(t, with)
	a.withPassword(a.user, "correct horse")
	is.True(strings.Contains(string(newIDPBrowser(a, p).open("/login?next=/notes").want(200).body), `href="/login/oidc?next=%2fnotes">Sign in with Example ID</a>`))

	// Neither the name nor anything else but a link decides: ann at the provider is nobody here.
	b := newIDPBrowser(a, p)
	got := b.signIn("ann").want(403)
	is.True(strings.Contains(string(got.body), "No account here is linked"))
	is.True(strings.Contains(a.log.String(), "subject id-ann"))
	is.Equal(b.me(), "")

	// Linking is done signed in.
	b = newIDPBrowser(a, p)
	b.enter("ann")
	at := b.own("POST", "/api/v1/me/identities", map[string]string{"next": "/account"}).want(200).text("data.url")
	q, err := url.Parse(at)
	is.NoErr(err)
	is.Equal(q.Query().Get("code_challenge_method"), "S256")
	is.Equal(q.Query().Get("redirect_uri"), "https://kist.example.org/login/oidc/callback")
	back := b.authorize(at, "ann")
	is.Equal(b.open(back).want(303).header.Get("Location"), "/account")
	list := b.own("GET", "/api/v1/me/identities", nil).want(200)
	is.Equal(list.at("total"), 1.0)
	is.Equal(list.text("data.0.subject"), "id-ann")
	is.Equal(list.text("data.0.name"), "ann")

	// Now it signs in, and the address goes on where it was to.
	b = newIDPBrowser(a, p)
	got = b.signIn("ann").want(303)
	is.Equal(got.header.Get("Location"), "/notes")
	is.Equal(b.me(), "ann")
	for _, line := range got.header.Values("Set-Cookie") {
		is.True(strings.Contains(line, "HttpOnly") && strings.Contains(line, "Secure"))
	}
	is.True(!strings.Contains(a.log.String(), b.cookies["kist_oidc_end"]))

	// The same again is a replay: the browser has no flow any more.
	got = newIDPBrowser(a, p).open(back).want(401)
	is.True(strings.Contains(string(got.body), "started in another browser"))

	// Signing out leads to the provider with the ID token, from a page of this server.
	got = b.own("POST", "/logout", nil)
	is.Equal(got.want(303).header.Get("Location"), "/login/oidc/end")
	page := string(b.own("GET", "/login/oidc/end", nil).want(200).body)
	_, address, _ := strings.Cut(page, `<a class="button" href="`)
	address, _, _ = strings.Cut(address, `"`)
	res, err := plain.Get(strings.ReplaceAll(address, "&amp;", "&"))
	is.NoErr(err)
	res.Body.Close()
	is.Equal(res.StatusCode, 302)
	is.Equal(res.Header.Get("Location"), "https://kist.example.org/login")
	is.Equal(b.own("GET", "/login/oidc/end", nil).want(303).header.Get("Location"), "/login?out=1")

	// Removing the link ends the sessions that came from it, and no others.
	b.signIn("ann").want(303)
	other := a.enter("ann", "correct horse")
	b.own("DELETE", "/api/v1/me/identities/"+list.text("data.0.id"), nil).want(200)
	is.Equal(b.me(), "")
	a.do(as(other, "GET", "/api/v1/me", nil)).want(200)
	newIDPBrowser(a, p).signIn("ann").want(403)
}

func (a *app) disable(u *people.User) {
	a.Helper()
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		now, err := people.ReadUser(tx, u.ID)
		if err != nil {
			return err
		}
		now.Disabled = true
		return people.SaveUser(tx, now)
	}))
}

func (a *app) userNamed(name string) *people.User {
	a.Helper()
	var u *people.User
	a.fatal(a.server.Store.View(func(tx *kv.Tx) (err error) { u, err = people.UserNamed(tx, name); return err }))
	return u
}

// TestOIDCState tries answers that do not belong to what the browser began.
func TestOIDCState(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := start(t, with)
	a.withPassword(a.user, "correct horse")
	a.link(a.user, p, "id-ann")
	b := newIDPBrowser(a, p)
	back := b.authorize(b.begin().String(), "ann")

	got := newIDPBrowser(a, p).open(back).want(401) // another browser
	is.Equal(got.cookies(), 0)
	other := newIDPBrowser(a, p) // which began one of its own
	other.begin()
	is.True(strings.Contains(string(other.open(back).want(401).body), "does not belong to the sign-in"))
	b.open(back + "&iss=https%3A%2F%2Fother.example.org").want(401) // RFC 9207
	b.open("/login/oidc/callback?state=&code=x").want(401)
	is.Equal(b.me(), "")
	b.open(back).want(303) // a wrong answer has not ended the right one
	is.Equal(b.me(), "ann")

	// A code works once, also for a browser that keeps its cookie.
	b = newIDPBrowser(a, p)
	back = b.authorize(b.begin().String(), "ann")
	kept := b.cookies["__Host-kist_oidc"]
	b.open(back).want(303)
	b = newIDPBrowser(a, p)
	b.cookies["__Host-kist_oidc"] = kept
	is.True(strings.Contains(string(b.open(back).want(401).body), "did not confirm"))

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
		b.open(back).want(401)
		is.Equal(b.me(), "")
	}
	is.True(strings.Contains(a.log.String(), "the nonce is another"))

	// The user cancels. What the provider says is not on the page.
	b = newIDPBrowser(a, p)
	got = b.open("/login/oidc/callback?error=access_denied&error_description=%3Cb%3Eevil&state=" + b.begin().Query().Get("state")).want(401)
	is.True(strings.Contains(string(got.body), "or you cancelled") && !strings.Contains(string(got.body), "evil"))

	// Where to go on is a path of this server.
	b = newIDPBrowser(a, p)
	back = b.authorize(b.open("/login/oidc?next=//evil.example.org").want(303).header.Get("Location"), "ann")
	is.Equal(b.open(back).want(303).header.Get("Location"), "/")

	// A link is for the session that began it.
	bob := a.addUser("bob", people.Member)
	a.withPassword(bob, "correct horse")
	b = newIDPBrowser(a, p)
	b.enter("ann")
	back = b.authorize(b.own("POST", "/api/v1/me/identities", "{}").want(200).text("data.url"), "eve")
	planted := b.cookies["__Host-kist_oidc"]
	victim := newIDPBrowser(a, p)
	victim.enter("bob")
	victim.cookies["__Host-kist_oidc"] = planted
	victim.open(back).want(401)
	is.Equal(victim.own("GET", "/api/v1/me/identities", nil).want(200).at("total"), 0.0)
	a.do(apiRequest{method: "POST", path: "/api/v1/me/identities", json: "{}"}).want(403) // an API key has no browser

	// Guessing is limited.
	for range limit.GuessesOfAll + 1 {
		b = newIDPBrowser(a, p)
		got = b.open("/login/oidc/callback?code=guess&state=" + b.begin().Query().Get("state"))
	}
	is.Equal(got.want(429).header.Get("Retry-After") != "", true)
}

func (got *answer) cookies() int { return len(got.header.Values("Set-Cookie")) }

// TestOIDCGroups tries what the provider's groups and the account's state decide.
func TestOIDCGroups(t *testing.T) {
	t.Parallel()
	for _, slim := range []bool{false, true} {
		is := is.New(t)
		p, with := withProvider(t, func(o *oidc.Options) { o.AllowGroup, o.AdminGroup, o.Create = "family", "parents", true })
		p.slim = slim // groups and names come from the user info then
		a := start(t, with)
		a.link(a.user, p, "id-ann")

		// ann is the only administrator and stays it, whatever the groups say.
		ann := newIDPBrowser(a, p)
		ann.signIn("ann").want(303)
		is.Equal(a.userNamed("ann").Role, people.Admin)

		// A new account gets a free name; that of another is never taken for the same user.
		p.set(func() { p.groups = []string{"family", "parents"} })
		a.addUser("eve", people.Member)
		eve := newIDPBrowser(a, p)
		eve.signIn("eve").want(303)
		is.Equal(eve.me(), "eve-2")
		is.Equal(a.userNamed("eve-2").Role, people.Admin)
		is.Equal(a.userNamed("eve-2").DisplayName, "Eve Example")

		// Roles follow the group at the next sign-in.
		p.set(func() { p.groups = []string{"family"} })
		ann.signIn("ann").want(303)
		is.Equal(a.userNamed("ann").Role, people.Member)
		newIDPBrowser(a, p).signIn("eve").want(303)
		is.Equal(a.userNamed("eve-2").Role, people.Admin) // the last one
		is.Equal(eve.me(), "eve-2")

		// A session where groups decide is not extended by use.
		a.clock.advance(20 * 24 * time.Hour)
		is.Equal(eve.me(), "eve-2")
		a.clock.advance(11 * 24 * time.Hour)
		is.Equal(eve.me(), "")
		eve.signIn("eve").want(303)
		second := newIDPBrowser(a, p)
		second.signIn("eve").want(303)

		// Who has lost the group is out, and so are the sessions; others stay.
		p.set(func() { p.groups = []string{"parents"} })
		ann.me()
		got := newIDPBrowser(a, p).signIn("eve").want(403)
		is.True(strings.Contains(string(got.body), "may not use this server"))
		is.Equal(eve.me()+second.me(), "")
		newIDPBrowser(a, p).signIn("stranger").want(403)
		is.True(kv.Missing(a.server.Store.View(func(tx *kv.Tx) error { _, err := people.UserNamed(tx, "stranger"); return err })))

		// A disabled account.
		p.set(func() { p.groups = []string{"family"} })
		u := a.userNamed("ann")
		a.disable(u)
		got = newIDPBrowser(a, p).signIn("ann").want(403)
		is.True(strings.Contains(string(got.body), "This account is disabled."))
	}
}

// TestOIDCTokens tries what a provider refuses to issue, and what it does on bad days.
func TestOIDCTokens(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := start(t, with)
	a.withPassword(a.user, "correct horse")
	a.link(a.user, p, "id-ann")
	const rs256 = `{"alg":"RS256","kid":"first"}`
	other := newSigningKey("first")
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, row := range map[string]struct {
		claims map[string]any // instead of the provider's; nil removes one
		header string         // rs256 if ""
		key    *signingKey    // the provider's if nil
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
		p.set(func() {
			p.forge = func(claims map[string]any) string {
				maps.Copy(claims, row.claims)
				maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
				if row.header == "-" {
					return ""
				}
				return cmp.Or(row.key, p.key).sign(cmp.Or(row.header, rs256), claims)
			}
		})
		b := newIDPBrowser(a, p)
		got := b.signIn("ann")
		if is.Equal(got.status == 303, row.ok); (b.me() == "ann") != row.ok {
			t.Errorf("%s: %d", name, got.status)
		}
		a.clock.advance(people.TryWindow + time.Second) // or the limit of guesses is reached
	}
	p.set(func() { p.forge = nil })

	// The keys change while the server runs.
	p.set(func() { p.key = newSigningKey("second") })
	newIDPBrowser(a, p).signIn("ann").want(303)

	// The clocks differ: tokens seem to have expired half a minute ago, then long ago.
	p.set(func() { p.skew = 5*time.Minute + 30*time.Second })
	newIDPBrowser(a, p).signIn("ann").want(303)
	p.set(func() { p.skew = 10 * time.Minute })
	newIDPBrowser(a, p).signIn("ann").want(401)
	p.set(func() { p.skew = 0 })

	// The issuer goes away in the middle.
	b := newIDPBrowser(a, p)
	back := b.authorize(b.begin().String(), "ann")
	p.set(func() { p.down = true })
	got := b.open(back).want(503)
	is.True(strings.Contains(string(got.body), "cannot be reached") && strings.Contains(string(got.body), `name="password"`))
	a.enter("ann", "correct horse")
}

// TestOIDCAway starts a server whose issuer is away.
func TestOIDCAway(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	p.down = true
	a := start(t, with, func(c *web.Config) { c.NoPasswords = true })
	a.withPassword(a.user, "correct horse")
	a.link(a.user, p, "id-ann")
	got := newIDPBrowser(a, p).open("/login/oidc").want(503)
	is.True(got.header.Get("Retry-After") != "")
	is.True(!strings.Contains(string(got.body), `name="password"`)) // passwords are off
	a.do(apiRequest{method: "POST", path: "/api/v1/auth/login", anyone: true, json: map[string]string{"username": "ann", "password": "correct horse"}}).want(403)
	h := a.server.OIDC.Check(t.Context())
	is.Equal(h.Problem, "The issuer closed the connection without an answer.")

	p.set(func() { p.down = false })
	newIDPBrowser(a, p).open("/login/oidc").want(503) // not asked again so soon
	again := oidc.New(p.options)
	h = again.Check(t.Context())
	is.Equal(h.Problem+h.Refused, "")
	is.True(h.Leaves && h.Ahead.Abs() < 2*time.Second)
	options := p.options
	options.Redirect = "https://elsewhere.example.org/login/oidc/callback"
	is.Equal(oidc.New(options).Check(t.Context()).Refused, "status 400")
	options.Issuer += "/" // issuers are compared to the letter
	is.True(strings.Contains(oidc.New(options).Check(t.Context()).Problem, "did not match"))
}

// TestBrowserOIDC links an account, signs out here and at the provider, and in again.
func TestBrowserOIDC(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	p := newProvider(t)
	b.server.OIDC = p.client(t, b.url)
	atProvider := func() {
		t.Helper()
		b.until(`location.pathname === '/in' && !!document.querySelector('[name=username]')`)
		b.js(`document.querySelector('[name=username]').value = 'ann', document.querySelector('form').submit()`)
	}
	b.open("/account/security")
	b.press("Link Example ID")
	atProvider()
	b.until(`location.pathname === '/account/security' && document.querySelector('#identities .name')?.textContent === 'ann'`)

	b.open("/account")
	b.press("Sign out")
	b.until(`location.pathname === '/login' && !!document.querySelector('h1')`)
	b.press("Sign in with Example ID")
	atProvider()
	b.until(`location.pathname === '/' && !!document.querySelector('#main')`)
	is.True(b.sound())
}

// TestBrowserOIDCRefused: in a browser, too, only an answer of the provider to this browser's own question signs in.
func TestBrowserOIDCRefused(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	p := newProvider(t)
	b.server.OIDC = p.client(t, b.url, func(o *oidc.Options) { o.AllowGroup, o.Create = "family", true })
	var mu sync.Mutex
	var back string // where the provider sent the browser last
	chromedp.ListenTarget(b.ctx, func(event any) {
		if e, ok := event.(*cdpnet.EventRequestWillBeSent); ok && strings.HasPrefix(e.Request.URL, b.url+"/login/oidc/callback?") {
			mu.Lock()
			defer mu.Unlock()
			back = e.Request.URL
		}
	})
	callback := func() string {
		mu.Lock()
		defer mu.Unlock()
		return back
	}
	// begin comes as a stranger and goes to the provider; finish signs in there.
	begin := func() {
		t.Helper()
		b.do(cdpnet.ClearBrowserCookies())
		b.open("/login?next=/notes")
		b.press("Sign in with Example ID")
		b.until(`location.pathname === '/in' && !!document.querySelector('[name=username]')`)
	}
	finish := func(name string) {
		t.Helper()
		b.js(`void (document.querySelector('[name=username]').value = ` + quoted(name) + `, document.querySelector('form').submit())`)
	}
	signIn := func(name string) {
		t.Helper()
		begin()
		finish(name)
	}
	cookie := func(name string) string {
		t.Helper()
		var value string
		b.do(chromedp.ActionFunc(func(ctx context.Context) error {
			all, err := cdpnet.GetCookies().WithURLs([]string{b.url + "/login"}).Do(ctx)
			for _, c := range all {
				if c.Name == name {
					value = c.Value
				}
			}
			return err
		}))
		return value
	}
	who := func() string { // is signed in
		t.Helper()
		got := b.app.do(as(b.sessionCookie()+"="+cookie(b.sessionCookie()), "GET", "/api/v1/me", nil))
		if got.status == 401 {
			return ""
		}
		return got.want(200).text("data.username")
	}
	enters := func(name string) {
		t.Helper()
		b.until(`location.pathname === '/notes' && !!document.querySelector('#main')`)
		is.Equal(who(), name)
	}
	refused := func(text string) {
		t.Helper()
		b.until(`location.pathname === '/login/oidc/callback' && document.body?.innerText.includes(` + quoted(text) + `)`)
		is.Equal(who(), "")
	}
	signIn("eve")
	enters("eve") // an account that did not exist

	// An answer comes twice: without the question, and with the cookie of it.
	begin()
	kept := cookie("kist_oidc")
	finish("eve")
	enters("eve")
	used := callback()
	b.do(cdpnet.ClearBrowserCookies(), chromedp.Navigate(used))
	refused("started in another browser")
	b.do(cdpnet.SetCookie("kist_oidc", kept).WithURL(b.url), chromedp.Navigate(used))
	refused("did not confirm")

	// The question of another browser, and a nonce that was not sent.
	begin()
	b.js(`void (location.href = ` + quoted(b.url+"/login/oidc/callback?code=x&state="+strings.Repeat("x", 43)) + `)`)
	refused("does not belong to the sign-in")
	p.set(func() {
		p.forge = func(claims map[string]any) string {
			claims["nonce"] = "another"
			return p.key.sign(`{"alg":"RS256","kid":"first"}`, claims)
		}
	})
	signIn("eve")
	refused("did not confirm")
	p.set(func() { p.forge = nil })

	p.set(func() { p.key = newSigningKey("second") })
	signIn("eve")
	enters("eve")
	p.set(func() { p.skew = 5*time.Minute + 30*time.Second })
	signIn("eve")
	enters("eve")
	p.set(func() { p.skew = 10 * time.Minute })
	signIn("eve")
	refused("did not confirm")
	p.set(func() { p.skew = 0 })

	// Without the group, the session that the browser still has ends too.
	signIn("eve")
	enters("eve")
	p.set(func() { p.groups = []string{"friends"} })
	b.js(`void (location.href = '/login/oidc')`)
	b.until(`location.pathname === '/in' && !!document.querySelector('[name=username]')`)
	finish("eve")
	refused("may not use this server")
	p.set(func() { p.groups = []string{"family"} })

	b.disable(b.userNamed("eve"))
	signIn("eve")
	refused("This account is disabled.")
	is.True(b.sound())

	// The issuer goes away before the server can ask it for the token.
	p.set(func() { p.forge = func(map[string]any) string { panic(http.ErrAbortHandler) } })
	signIn("eve")
	refused("cannot be reached")
	is.True(b.js(`!!document.querySelector('[name=password]')`).(bool))
}
