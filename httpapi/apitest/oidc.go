package apitest

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/storage"
	zoidc "github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"kist/httpapi/oidc"
	"kist/httpapi/session"
	"kist/kv"
	"kist/kv/people"
)

// Provider is an issuer of OpenID Connect, made with the library of a certified one, with
// the users ann and bob, whose passwords are their names.
type Provider struct {
	*storage.Storage
	op      op.OpenIDProvider
	front   *httptest.Server
	URL     string
	Options oidc.Options

	mu     sync.Mutex
	Key    *SigningKey
	Groups []string
	Slim   bool                        // says little in the ID token
	NoInfo bool                        // refuses the user info
	Info   map[string]any              // more claims for the user info
	Skew   time.Duration               // the clock is so much behind
	Down   bool                        // answers nothing
	Forge  func(map[string]any) string // makes ID tokens, from the claims of the provider's
}

type SigningKey struct {
	id  string
	key *rsa.PrivateKey
}

func NewSigningKey(id string) *SigningKey {
	key, _ := rsa.GenerateKey(rand.Reader, 2048) // cannot fail
	return &SigningKey{id, key}
}

func (k *SigningKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

func (k *SigningKey) Key() any { return k.key }

func (k *SigningKey) ID() string { return k.id }

type publicKey struct{ *SigningKey }

func (k publicKey) Key() any { return &k.key.PublicKey }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }

func (k publicKey) Use() string { return "sig" }

type idpUsers struct{}

func (idpUsers) GetUserByID(id string) *storage.User {
	name, ok := strings.CutPrefix(id, "id-")
	if !ok {
		return nil
	}
	return idpUsers{}.GetUserByUsername(name)
}

func (idpUsers) GetUserByUsername(name string) *storage.User {
	return &storage.User{
		ID: "id-" + name, Username: name, Password: name, FirstName: strings.ToUpper(name[:1]) + name[1:],
		LastName: "Example",
	}
}

func (idpUsers) ExampleClientID() string { return "service" }

// idpClient is a client with an address to go to after signing out.
type idpClient struct {
	op.Client
	p *Provider
}

func (c idpClient) PostLogoutRedirectURIs() []string { return []string{c.p.Options.Leave} }

func (c idpClient) ClockSkew() time.Duration { return 0 }

func (c idpClient) IDTokenUserinfoClaimsAssertion() bool { return !c.p.Slim }

func (c idpClient) IsScopeAllowed(string) bool { return true }

func (c idpClient) IDTokenLifetime() time.Duration { return 5*time.Minute - c.p.Skew }

func (c idpClient) LoginURL(id string) string { return c.p.URL + "/in?id=" + id }

func (p *Provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	return idpClient{c, p}, err
}

func (p *Provider) SigningKey(context.Context) (op.SigningKey, error) { return p.Key, nil }

func (p *Provider) KeySet(context.Context) ([]op.Key, error) { return []op.Key{publicKey{p.Key}}, nil }

func (p *Provider) SetUserinfoFromRequest(
	ctx context.Context, info *zoidc.UserInfo, r op.IDTokenRequest, scopes []string,
) error {
	info.Subject = r.GetSubject()
	if p.Slim {
		return nil
	}
	info.AppendClaims("groups", p.Groups)
	return p.Storage.SetUserinfoFromRequest(ctx, info, r, scopes)
}

func (p *Provider) SetUserinfoFromToken(
	ctx context.Context, info *zoidc.UserInfo, token, subject, origin string,
) error {
	info.AppendClaims("groups", p.Groups)
	for name, value := range p.Info {
		info.AppendClaims(name, value)
	}
	return p.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
}

func (p *Provider) Set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock() // one request at a time: the storage reads what set changes
	defer p.mu.Unlock()
	switch {
	case p.Down:
		panic(http.ErrAbortHandler)
	case r.URL.Path == "/userinfo" && p.NoInfo:
		http.Error(w, "no user info", http.StatusForbidden)
	case r.URL.Path == "/in" && r.Method == http.MethodGet:
		_, _ = io.WriteString(w, `<!doctype html><title>in</title><form method="post"><input name="username"></form>`)
	case r.URL.Path == "/in":
		id, name := r.URL.Query().Get("id"), r.FormValue("username")
		if err := p.CheckUsernamePassword(name, name, id); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, p.URL+"/authorize/callback?id="+id, http.StatusFound)
	case r.URL.Path == "/oauth/token" && p.Forge != nil:
		got := httptest.NewRecorder()
		p.op.ServeHTTP(got, r)
		var answer, claims map[string]any
		_ = json.Unmarshal(got.Body.Bytes(), &answer)
		raw, _ := answer["id_token"].(string)
		payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(raw+"..", ".")[1])
		_ = json.Unmarshal(payload, &claims)
		answer["id_token"] = p.Forge(claims)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	default:
		p.op.ServeHTTP(w, r)
	}
}

// Sign makes a token.
func (k *SigningKey) Sign(header string, claims map[string]any) string {
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

// NewProvider makes a provider, which starts with client.
func NewProvider(t testing.TB) *Provider {
	p := &Provider{Key: NewSigningKey("first"), Groups: []string{"family"}, front: httptest.NewUnstartedServer(nil)}
	p.front.Config.Handler = p
	p.URL = "http://" + p.front.Listener.Addr().String()
	t.Cleanup(p.front.Close)
	return p
}

// Client starts the provider and returns the client for a server with the address.
func (p *Provider) Client(t testing.TB, base string, with ...func(*oidc.Options)) *oidc.Client {
	t.Helper()
	p.Options = oidc.Options{
		Issuer: p.URL, ClientID: "kist", ClientSecret: "secret", Name: "Example ID", Scopes: []string{"openid", "profile"}, GroupsClaim: "groups",
		Redirect: base + session.OIDCPath + "/callback", Leave: base + "/login",
	}
	for _, f := range with {
		f(&p.Options)
	}
	p.Storage = storage.NewStorageWithClients(
		idpUsers{}, map[string]*storage.Client{"kist": storage.WebClient("kist", "secret", p.Options.Redirect)},
	)
	var err error
	p.op, err = op.NewProvider(
		&op.Config{CryptoKey: [32]byte{1}, CodeMethodS256: true, AuthMethodPost: true}, p, op.StaticIssuer(p.URL),
		op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		t.Fatal(err)
	}
	p.front.Start()
	return oidc.New(p.Options)
}

func (a *App) Link(u *people.User, p *Provider, subject string) {
	a.Helper()
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		return people.AddIdentity(tx, u.ID, p.URL, subject, "", "")
	}))
}

func (a *App) Disable(u *people.User) {
	a.Helper()
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		now, err := people.ReadUser(tx, u.ID)
		if err != nil {
			return err
		}
		now.Disabled = true
		return people.SaveUser(tx, now)
	}))
}

func (a *App) UserNamed(name string) *people.User {
	a.Helper()
	var u *people.User
	a.NoErr(a.Server.Store.View(func(tx *kv.Tx) (err error) { u, err = people.UserNamed(tx, name); return err }))
	return u
}
