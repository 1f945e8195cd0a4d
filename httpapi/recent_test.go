package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/people"
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
		as(mine, "PATCH", "/api/v1/integrations/webhooks/"+hook, `{"name":"x","url":"https://example.com/hook"}`),
		as(mine, "PATCH", "/api/v1/integrations/webhooks/"+hook, `{"events":null}`),
		as(mine, "PATCH", "/api/v1/admin/settings", `{"trashDays":7}`),
		as(mine, "POST", "/api/v1/auth/device/verify", `{"user_code":"BCDF-GHJK","action":"approve"}`),
		as(mine, "POST", "/device", `action=approve&user_code=BCDF-GHJK`),
	}
	changes[len(changes)-1].header.Set("Content-Type", "application/x-www-form-urlencoded")
	a.clock.advance(people.RecentTime)
	for _, q := range changes {
		if got := a.do(q); got.status != 403 || !bytes.Contains(got.body, []byte("Confirm that it is you.")) {
			t.Errorf("%s %s: %d %s", q.method, q.path, got.status, got.body)
		}
	}
	for _, r := range a.server.Routes() { // each such operation was tried
		tried := slices.ContainsFunc(changes, func(q apiRequest) bool {
			return q.method == r.Method && regexp.MustCompile("^"+wildPath.ReplaceAllString(r.Path, "[^/]+")+"$").MatchString(q.path)
		})
		is.Equal(r.Access.Confirms != nil, tried)
	}
	a.do(as(mine, "PATCH", "/api/v1/me", `{"displayName":"Ann"}`)).want(200)
	a.do(as(mine, "PATCH", "/api/v1/integrations/webhooks/"+hook, `{"name":"x"}`)).want(200)
	a.do(as(mine, "POST", "/api/v1/auth/device/verify", `{"user_code":"BCDF-GHJK","action":"deny"}`)).want(404)
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
		a.clock.advance(people.RecentTime)
	}
	for range limit.GuessesFrom {
		confirm(`{"password":"wrong horse"}`)
	}
	confirm(`{"password":"correct horse"}`).want(429)
	a.do(as(mine, "GET", "/api/v1/me", nil)).want(200) // the session goes on

	a.do(apiRequest{method: "POST", path: "/api/v1/auth/confirm", json: `{"password":"correct horse"}`, key: a.key}).want(403)
}

var wildPath = regexp.MustCompile(`\{[A-Za-z]+\}`)

// lasting are the operations that make, redirect or copy lasting access to an account, or what is in it.
var lasting = map[string]string{
	"createKey": "a key", "editKey": "turns a key on again", "removeKey": "a key", "createSetup": "a key",
	"verifyDevice": "a device's key", "postDevice": "a device's key",
	"offerPasskey": "a passkey", "addPasskey": "a passkey", "editPasskey": "a passkey's name", "removePasskey": "a passkey",
	"offerCodes": "a secret of codes", "setCodes": "codes", "clearCodes": "no second step", "renewRecovery": "recovery codes",
	"linkIdentity": "a link", "removeIdentity": "a link",
	"createUser": "an account", "editUser": "a password, a role", "removeUser": "an account", "resetUser": "a link that sets a password",
	"editSettings":  "who may use keys, and the service that tells people from programs",
	"createWebhook": "sends everything on", "editWebhook": "sends it elsewhere",
	"export": "a copy", "readBackup": "a copy of everything",
}

// passing are the other operations about accounts, with the reason why a session needs no confirmation.
var passing = map[string]string{
	"editMe":         "a new password needs the present one in the same request",
	"removeSession":  "ends access",
	"removeSessions": "ends access",
	"revokeDevice":   "a device ends its own access",
	"removeWebhook":  "ends access",
	"testWebhook":    "goes where the webhook goes",
	"redeliver":      "goes where the webhook goes",
	"confirm":        "is the confirmation",
	"postConfirm":    "is the confirmation",
	"askPasskey":     "begins a sign-in or a confirmation",
	"startImport":    "adds records", "stopImport": "ends an import",
	"listKeys": "shows no secret", "listPasskeys": "shows no secret", "listSessions": "shows no secret", "listIdentities": "shows no secret",
}

// Each operation about accounts, keys and what leaves the server is judged by its effect.
func TestConfirmsByEffect(t *testing.T) {
	t.Parallel()
	a := start(t)
	about := regexp.MustCompile(`^(/api/v1/(me|keys|setups|admin|auth|integrations|export|import|activity)\b|/login\b|/device$)`)
	for _, r := range a.server.Routes() {
		_, lasts := lasting[r.ID]
		_, passes := passing[r.ID]
		changes := r.Method != http.MethodGet && !(r.Access.Open && !lasts && !passes) // who signs in has no session yet
		if lasts != (r.Access.Confirms != nil) || lasts && passes || about.MatchString(r.Path) && changes && !lasts && !passes {
			t.Errorf("%s %s (%s): judge it by its effect", r.Method, r.Path, r.ID)
		}
	}
}

// The right currentPassword in the body confirms the request, and only this one.
func TestCurrentPasswordConfirms(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	mine := a.enter("ann", "correct horse")
	a.clock.advance(people.RecentTime)
	key := func(password string) *answer {
		return a.do(as(mine, "POST", "/api/v1/keys", `{"name":"laptop","currentPassword":`+password+`}`))
	}
	for _, none := range []string{`null`, `true`, `["correct horse"]`} {
		is.Equal(key(none).want(403).code(), "recent_sign_in_required")
	}
	is.True(key(`"wrong horse"`).want(422).text("fields.currentPassword") != "")
	is.Equal(key(`"correct horse"`).want(201).text("data.name"), "laptop")
	is.Equal(a.do(as(mine, "POST", "/api/v1/keys", `{"name":"laptop"}`)).want(403).code(), "recent_sign_in_required")
	a.do(as(mine, "DELETE", "/api/v1/keys/01890a5d-ac96-774b-bcce-b302099a8057", `{"currentPassword":"correct horse"}`)).want(404)
	a.do(as(mine, "PATCH", "/api/v1/admin/settings", `{"trashDays":7,"currentPassword":"correct horse"}`)).want(200)
	for range limit.GuessesFrom {
		key(`"wrong horse"`)
	}
	key(`"correct horse"`).want(429)
	a.post("/api/v1/keys", `{"name":"laptop","currentPassword":"wrong horse"}`).want(201) // an API key needs none

	// An account without a password confirms in another way.
	b := start(t)
	none := b.sessionCookie() + "=" + b.session()
	b.clock.advance(people.RecentTime)
	is.Equal(b.do(as(none, "POST", "/api/v1/keys", `{"name":"x","currentPassword":""}`)).want(403).code(), "recent_sign_in_required")
}

// The page that connects a device asks who uses the browser, in place, and goes on with the code filled in.
func TestDevicePageConfirms(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	mine := a.enter("ann", "correct horse")
	a.clock.advance(people.RecentTime)
	asked := a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/authorize", anyone: true, json: `{"extension_id":"phone"}`}).want(200)
	page := "/device?user_code=" + asked.text("user_code")
	post := func(path, form string) *answer {
		q := as(mine, "POST", path, form)
		q.header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.header.Set("Accept", "text/html")
		return a.do(q)
	}
	show := func() string { return string(a.do(as(mine, "GET", page, nil)).want(200).body) }
	is.True(strings.Contains(show(), `action="/login/confirm"`))
	form := func(password string) string { return url.Values{"next": {page}, "password": {password}}.Encode() }
	is.True(strings.Contains(string(post("/login/confirm", form("wrong horse")).want(422).body), "not right"))
	is.Equal(post("/login/confirm", form("correct horse")).want(303).header.Get("Location"), page)
	is.True(strings.Contains(show(), `value="approve"`))
	post("/device", "action=approve&user_code="+asked.text("user_code")).want(200)
	poll, _ := json.Marshal(map[string]string{"device_code": asked.text("device_code")})
	a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/token", anyone: true, json: string(poll)}).want(200)
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
		a.clock.advance(people.RecentTime)
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
	for _, said := range []any{nil, "now", 0, ago(people.RecentTime), ago(-time.Hour)} {
		at(said)
		b := newIDPBrowser(a, p)
		b.signIn("ann").want(303)
		refused(b)
	}
	at(ago(people.RecentTime - time.Minute))
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
