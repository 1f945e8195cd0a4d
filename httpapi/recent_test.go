package httpapi

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv/record"
)

// Ten minutes after a sign-in, a session cannot change how somebody signs in until its user
// confirms it. API keys can, as before.
func TestRecentSignIn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	mine := a.enter("ann", "correct horse")
	code, recovery := a.codesOn(mine)
	phone := newSoftKey(a)
	a.addPasskey(mine, phone, "phone").want(201)
	hook := a.post("/api/v1/integrations/webhooks", `{"url":"https://example.org/hook"}`).want(201).text("data.id")
	const none = "/01890a5d-ac96-774b-bcce-b302099a8057" // nobody looks whether there is one
	changes := []apiRequest{
		as(mine, "POST", "/api/v1/keys", `{"name":"laptop"}`),
		as(mine, "PATCH", "/api/v1/keys"+none, `{"disabled":true}`),
		as(mine, "DELETE", "/api/v1/keys"+none, nil),
		as(mine, "POST", "/api/v1/setups", `{"program":"shell"}`), // it comes with a key
		as(mine, "POST", "/api/v1/me/codes", nil),
		as(mine, "PUT", "/api/v1/me/codes", `{}`),
		as(mine, "DELETE", "/api/v1/me/codes", nil),
		as(mine, "POST", "/api/v1/me/recovery-codes", nil),
		as(mine, "POST", "/api/v1/me/passkeys/options", nil),
		as(mine, "POST", "/api/v1/me/passkeys", `{}`),
		as(mine, "PATCH", "/api/v1/me/passkeys"+none, `{"name":"x"}`),
		as(mine, "DELETE", "/api/v1/me/passkeys"+none, nil),
		as(mine, "POST", "/api/v1/me/identities", `{}`),
		as(mine, "DELETE", "/api/v1/me/identities"+none, nil),
		as(mine, "PATCH", "/api/v1/admin/users/"+a.user.ID.String(), `{"displayName":"Ann"}`),
		as(mine, "PATCH", "/api/v1/admin/users/"+a.user.ID.String(), `{"password":"battery staple"}`),
		as(mine, "POST", "/api/v1/admin/users", `{}`),
		as(mine, "DELETE", "/api/v1/admin/users"+none, nil),
		as(mine, "POST", "/api/v1/admin/users"+none+"/reset-login", nil),
		as(mine, "GET", "/api/v1/export", nil),
		as(mine, "GET", "/api/v1/admin/backup", nil),
		as(mine, "POST", "/api/v1/integrations/webhooks", `{"url":"https://example.org/hook"}`),
		as(mine, "PATCH", "/api/v1/integrations/webhooks/"+hook, `{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`),
	}
	a.clock.advance(record.RecentTime)
	for _, q := range changes {
		if got := a.do(q); got.status != 403 || got.code() != "recent_sign_in_required" {
			t.Errorf("%s %s: %d %s", q.method, q.path, got.status, got.body)
		}
	}
	a.do(as(mine, "PATCH", "/api/v1/me", `{"displayName":"Ann"}`)).want(200)
	a.do(as(mine, "PATCH", "/api/v1/integrations/webhooks/"+hook, `{"name":"x"}`)).want(200)
	a.do(as(mine, "GET", "/api/v1/keys", nil)).want(200)
	a.post("/api/v1/keys", `{"name":"laptop"}`).want(201) // with an API key
	a.get("/api/v1/export").want(200)

	confirm := func(body any) *answer { return a.do(as(mine, "POST", "/api/v1/auth/confirm", body)) }
	for _, bad := range []string{`{}`, `{"password":"wrong horse"}`, `{"code":"000000"}`, `{"recoveryCode":"BCDF-GHJK-LMNP-QRST"}`} {
		confirm(bad).want(422)
	}
	is.Equal(confirm(`{"ticket":"x","passkey":"{}"}`).want(409).code(), "ticket_ended")
	passkey := func(k *softKey) *answer {
		t.Helper()
		ask := a.do(as(mine, "POST", "/api/v1/auth/passkey/options", nil)).want(200)
		return confirm(map[string]string{"ticket": ask.text("ticket"), "passkey": k.get(a, ask.at("passkey").(map[string]any))})
	}
	unverified := *phone
	unverified.flags = 1
	is.Equal(passkey(&unverified).want(409).code(), "wrong_passkey")
	phone.count = unverified.count
	for _, alone := range []map[string]string{{"code": code(0)}, {"recoveryCode": recovery[0]}} {
		is.True(strings.Contains(confirm(alone).want(422).text("fields.password"), "is required"))
	}
	for _, prove := range []func() *answer{
		func() *answer { return confirm(`{"password":"correct horse"}`) },
		func() *answer { return passkey(phone) },
	} {
		is.Equal(a.do(changes[0]).want(403).code(), "recent_sign_in_required")
		prove().want(200)
		a.do(changes[0]).want(201)
		a.clock.advance(record.RecentTime)
	}
	for range session.GuessesFrom {
		confirm(`{"password":"wrong horse"}`)
	}
	confirm(`{"password":"correct horse"}`).want(429)
	a.do(as(mine, "GET", "/api/v1/me", nil)).want(200) // the session goes on

	a.do(apiRequest{method: "POST", path: "/api/v1/auth/confirm", json: `{"password":"correct horse"}`, key: a.key}).want(403)
}

// A code confirms only the session of an account without a password.
func TestConfirmWithoutPassword(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	mine := a.sessionCookie() + "=" + a.session()
	confirm := func(body any) *answer { return a.do(as(mine, "POST", "/api/v1/auth/confirm", body)) }
	for _, bad := range []string{`{}`, `{"password":""}`, `{"password":"correct horse"}`} {
		is.Equal(confirm(bad).want(409).code(), "nothing_to_confirm_with")
	}
	confirm(`{"code":"123456"}`).want(422)
	code, recovery := a.codesOn(mine)
	for _, proof := range []map[string]string{{"code": code(20)}, {"recoveryCode": recovery[0]}} {
		a.clock.advance(record.RecentTime)
		a.do(as(mine, "POST", "/api/v1/keys", `{"name":"laptop"}`)).want(403)
		confirm(proof).want(200)
		a.do(as(mine, "POST", "/api/v1/keys", `{"name":"laptop"}`)).want(201)
	}
}

// A sign-in at the issuer counts as recent only if the issuer has asked its user a short time ago,
// and one by a proxy never does.
func TestSilentSignIn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := start(t, with, func(c *web.Config) {
		c.AuthHeader, c.TrustedProxies = "Remote-User", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	a.withPassword(a.user, "correct horse")
	a.link(a.user, p, "id-ann")
	change := func(b *idpBrowser) *answer { return b.own("POST", "/api/v1/keys", `{"name":"laptop"}`) }
	refused := func(b *idpBrowser) {
		t.Helper()
		is.Equal(change(b).want(403).code(), "recent_sign_in_required")
		is.Equal(b.own("GET", "/api/v1/me/security", nil).want(200).at("data.recent"), false)
	}
	at := func(said any) {
		p.set(func() {
			p.forge = func(claims map[string]any) string {
				claims["auth_time"] = said
				return p.key.sign(`{"alg":"RS256","kid":"first"}`, claims)
			}
		})
	}
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	for _, said := range []any{nil, "now", 0, ago(record.RecentTime), ago(-time.Hour)} {
		at(said)
		b := newIDPBrowser(a, p)
		b.signIn("ann").want(303)
		refused(b)
	}
	at(ago(record.RecentTime - time.Minute))
	b := newIDPBrowser(a, p)
	b.signIn("ann").want(303)
	change(b).want(201)
	a.clock.advance(time.Minute)
	refused(b)

	// The issuer asks again, and the browser goes on where it was.
	p.set(func() { p.forge = nil })
	address := b.open("/login/oidc?next=%2Faccount%2Fsecurity").want(303).header.Get("Location")
	u, err := url.Parse(address)
	is.NoErr(err)
	is.Equal(u.Query().Get("prompt"), "login")
	is.Equal(u.Query().Get("max_age"), "600")
	is.Equal(b.open(b.authorize(address, "ann")).want(303).header.Get("Location"), "/account/security")
	change(b).want(201)

	b = newIDPBrowser(a, p)
	b.send(apiRequest{method: "GET", path: "/login", anyone: true, header: http.Header{"Remote-User": {"ann"}}}).want(303)
	refused(b)
	b.own("POST", "/api/v1/auth/confirm", `{"password":"correct horse"}`).want(200)
	change(b).want(201)
}
