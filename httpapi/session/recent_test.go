package session_test

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

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/people"
)

// Ten minutes after a sign-in, a session cannot change how somebody signs in until its user
// confirms it. API keys can, as before.
func TestRecentSignIn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	mine := a.Enter("ann", "correct horse")
	code, recovery := a.CodesOn(mine)
	phone := apitest.NewSoftKey(a)
	addPasskey(a, mine, phone, "phone").Want(201)
	hook := a.Post("/api/v1/integrations/webhooks", `{"url":"https://example.org/hook"}`).Want(201).Text("data.id")
	const none = "/01890a5d-ac96-774b-bcce-b302099a8057" // nobody looks whether there is one
	changes := []apitest.Request{
		apitest.As(mine, "POST", "/api/v1/keys", `{"name":"laptop"}`),
		apitest.As(mine, "PATCH", "/api/v1/keys"+none, `{"disabled":true}`),
		apitest.As(mine, "DELETE", "/api/v1/keys"+none, nil),
		apitest.As(mine, "POST", "/api/v1/setups", `{"program":"shell"}`), // it comes with a key
		apitest.As(mine, "POST", "/api/v1/me/codes", nil),
		apitest.As(mine, "PUT", "/api/v1/me/codes", `{}`),
		apitest.As(mine, "DELETE", "/api/v1/me/codes", nil),
		apitest.As(mine, "POST", "/api/v1/me/recovery-codes", nil),
		apitest.As(mine, "POST", "/api/v1/me/passkeys/options", nil),
		apitest.As(mine, "POST", "/api/v1/me/passkeys", `{}`),
		apitest.As(mine, "PATCH", "/api/v1/me/passkeys"+none, `{"name":"x"}`),
		apitest.As(mine, "DELETE", "/api/v1/me/passkeys"+none, nil),
		apitest.As(mine, "POST", "/api/v1/me/identities", `{}`),
		apitest.As(mine, "DELETE", "/api/v1/me/identities"+none, nil),
		apitest.As(mine, "PATCH", "/api/v1/admin/users/"+a.User.ID.String(), `{"displayName":"Ann"}`),
		apitest.As(mine, "PATCH", "/api/v1/admin/users/"+a.User.ID.String(), `{"password":"battery staple"}`),
		apitest.As(mine, "POST", "/api/v1/admin/users", `{}`),
		apitest.As(mine, "DELETE", "/api/v1/admin/users"+none, nil),
		apitest.As(mine, "POST", "/api/v1/admin/invitations", `{}`),
		apitest.As(mine, "POST", "/api/v1/admin/users"+none+"/reset-login", nil),
		apitest.As(mine, "GET", "/api/v1/export", nil),
		apitest.As(mine, "GET", "/api/v1/admin/backup", nil),
		apitest.As(mine, "POST", "/api/v1/integrations/webhooks", `{"url":"https://example.org/hook"}`),
		apitest.As(
			mine, "PATCH", "/api/v1/integrations/webhooks/"+hook, `{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}`,
		),
		apitest.As(mine, "PATCH", "/api/v1/integrations/webhooks/"+hook, `{"name":"x","url":"https://example.com/hook"}`),
		apitest.As(mine, "PATCH", "/api/v1/integrations/webhooks/"+hook, `{"events":null}`),
		apitest.As(mine, "PATCH", "/api/v1/admin/settings", `{"trashDays":7}`),
		apitest.As(mine, "POST", "/api/v1/auth/device/verify", `{"user_code":"BCDF-GHJK","action":"approve"}`),
		apitest.As(mine, "POST", "/device", `action=approve&user_code=BCDF-GHJK`),
	}
	changes[len(changes)-1].Header.Set("Content-Type", "application/x-www-form-urlencoded")
	a.Clock.Advance(people.RecentTime)
	for _, q := range changes {
		if got := a.Do(q); got.Status != 403 || !bytes.Contains(got.Body, []byte("Confirm that it is you.")) {
			t.Errorf("%s %s: %d %s", q.Method, q.Path, got.Status, got.Body)
		}
	}
	for _, r := range a.Server.Routes() { // each such operation was tried
		tried := slices.ContainsFunc(changes, func(q apitest.Request) bool {
			return q.Method == r.Method && regexp.MustCompile("^"+wildPath.ReplaceAllString(r.Path, "[^/]+")+"$").MatchString(q.Path)
		})
		is.Equal(r.Access.Confirms != nil, tried)
	}
	a.Do(apitest.As(mine, "PATCH", "/api/v1/me", `{"displayName":"Ann"}`)).Want(200)
	a.Do(apitest.As(mine, "PATCH", "/api/v1/integrations/webhooks/"+hook, `{"name":"x"}`)).Want(200)
	a.Do(apitest.As(mine, "POST", "/api/v1/auth/device/verify", `{"user_code":"BCDF-GHJK","action":"deny"}`)).Want(404)
	a.Do(apitest.As(mine, "GET", "/api/v1/keys", nil)).Want(200)
	a.Post("/api/v1/keys", `{"name":"laptop"}`).Want(201) // with an API key
	a.Get("/api/v1/export").Want(200)

	confirm := func(body any) *apitest.Answer { return a.Do(apitest.As(mine, "POST", "/api/v1/auth/confirm", body)) }
	for _, bad := range []string{
		`{}`, `{"password":"wrong horse"}`, `{"code":"000000"}`, `{"recoveryCode":"BCDF-GHJK-LMNP-QRST"}`,
	} {
		confirm(bad).Want(422)
	}
	is.Equal(confirm(`{"ticket":"x","passkey":"{}"}`).Want(409).Code(), "ticket_ended")
	passkey := func(k *apitest.SoftKey) *apitest.Answer {
		t.Helper()
		ask := a.Do(apitest.As(mine, "POST", "/api/v1/auth/passkey/options", nil)).Want(200)
		return confirm(map[string]string{
			"ticket": ask.Text("ticket"), "passkey": k.Get(a, ask.At("passkey").(map[string]any)),
		})
	}
	unverified := *phone
	unverified.Flags = 1
	is.Equal(passkey(&unverified).Want(409).Code(), "wrong_passkey")
	phone.Count = unverified.Count
	for _, alone := range []map[string]string{{"code": code(0)}, {"recoveryCode": recovery[0]}} {
		is.True(strings.Contains(confirm(alone).Want(422).Text("fields.password"), "is required"))
	}
	for _, prove := range []func() *apitest.Answer{
		func() *apitest.Answer { return confirm(`{"password":"correct horse"}`) },
		func() *apitest.Answer { return passkey(phone) },
	} {
		is.Equal(a.Do(changes[0]).Want(403).Code(), "recent_sign_in_required")
		prove().Want(200)
		a.Do(changes[0]).Want(201)
		a.Clock.Advance(people.RecentTime)
	}
	for range limit.GuessesFrom {
		confirm(`{"password":"wrong horse"}`)
	}
	confirm(`{"password":"correct horse"}`).Want(429)
	a.Do(apitest.As(mine, "GET", "/api/v1/me", nil)).Want(200) // the session goes on

	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/confirm", JSON: `{"password":"correct horse"}`, Key: a.Key,
	}).Want(403)
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
	"createInvitation": "a link that makes an account",
	"editSettings":     "who may use keys, and the service that tells people from programs",
	"createWebhook":    "sends everything on", "editWebhook": "sends it elsewhere",
	"exportAccount": "a copy", "readBackup": "a copy of everything",
}

// passing are the other operations about accounts, with the reason why a session needs no confirmation.
var passing = map[string]string{
	"editMe":           "a new password needs the present one in the same request",
	"removeSession":    "ends access",
	"removeSessions":   "ends access",
	"removeInvitation": "ends access",
	"revokeDevice":     "a device ends its own access",
	"removeWebhook":    "ends access",
	"testWebhook":      "goes where the webhook goes",
	"redeliver":        "goes where the webhook goes",
	"confirm":          "is the confirmation",
	"postConfirm":      "is the confirmation",
	"askPasskey":       "begins a sign-in or a confirmation",
	"startImport":      "adds records", "stopImport": "ends an import",
	"makeBackup": "goes where the operator has said",
	"listKeys":   "shows no secret", "listPasskeys": "shows no secret", "listSessions": "shows no secret", "listIdentities": "shows no secret",
}

// Each operation about accounts, keys and what leaves the server is judged by its effect.
func TestConfirmsByEffect(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	about := regexp.MustCompile(`^(/api/v1/(me|keys|setups|admin|auth|integrations|export|import|activity)\b|/login\b|/device$)`)
	for _, r := range a.Server.Routes() {
		_, lasts := lasting[r.ID]
		_, passes := passing[r.ID]
		changes := r.Method != http.MethodGet && !(r.Access.Open && !lasts && !passes) // who signs in has no session yet
		if lasts != (r.Access.Confirms != nil) || lasts && passes || about.MatchString(r.Path) && changes && !lasts &&
			!passes {
			t.Errorf("%s %s (%s): judge it by its effect", r.Method, r.Path, r.ID)
		}
	}
}

// The right currentPassword in the body confirms the request, and only this one.
func TestCurrentPasswordConfirms(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	mine := a.Enter("ann", "correct horse")
	a.Clock.Advance(people.RecentTime)
	key := func(password string) *apitest.Answer {
		return a.Do(apitest.As(mine, "POST", "/api/v1/keys", `{"name":"laptop","currentPassword":`+password+`}`))
	}
	for _, none := range []string{`null`, `true`, `["correct horse"]`} {
		is.Equal(key(none).Want(403).Code(), "recent_sign_in_required")
	}
	is.True(key(`"wrong horse"`).Want(422).Text("fields.currentPassword") != "")
	is.Equal(key(`"correct horse"`).Want(201).Text("data.name"), "laptop")
	is.Equal(
		a.Do(apitest.As(mine, "POST", "/api/v1/keys", `{"name":"laptop"}`)).Want(403).Code(), "recent_sign_in_required",
	)
	a.Do(apitest.As(
		mine, "DELETE", "/api/v1/keys/01890a5d-ac96-774b-bcce-b302099a8057", `{"currentPassword":"correct horse"}`,
	)).Want(404)
	a.Do(apitest.As(
		mine, "PATCH", "/api/v1/admin/settings", `{"trashDays":7,"currentPassword":"correct horse"}`,
	)).Want(200)
	for range limit.GuessesFrom {
		key(`"wrong horse"`)
	}
	key(`"correct horse"`).Want(429)
	a.Post("/api/v1/keys", `{"name":"laptop","currentPassword":"wrong horse"}`).Want(201) // an API key needs none

	// An account without a password confirms in another way.
	b := apitest.Start(t)
	none := b.SessionCookie() + "=" + b.Session()
	b.Clock.Advance(people.RecentTime)
	is.Equal(
		b.Do(apitest.As(none, "POST", "/api/v1/keys", `{"name":"x","currentPassword":""}`)).Want(403).Code(),
		"recent_sign_in_required",
	)
}

// The page that connects a device asks who uses the browser, in place, and goes on with the code filled in.
func TestDevicePageConfirms(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	mine := a.Enter("ann", "correct horse")
	a.Clock.Advance(people.RecentTime)
	asked := a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: `{"extension_id":"phone"}`,
	}).Want(200)
	page := "/device?user_code=" + asked.Text("user_code")
	post := func(path, form string) *apitest.Answer {
		q := apitest.As(mine, "POST", path, form)
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.Header.Set("Accept", "text/html")
		return a.Do(q)
	}
	show := func() string { return string(a.Do(apitest.As(mine, "GET", page, nil)).Want(200).Body) }
	is.True(strings.Contains(show(), `action="/login/confirm"`))
	form := func(password string) string { return url.Values{"next": {page}, "password": {password}}.Encode() }
	is.True(strings.Contains(string(post("/login/confirm", form("wrong horse")).Want(422).Body), "not right"))
	is.Equal(post("/login/confirm", form("correct horse")).Want(303).Header.Get("Location"), page)
	is.True(strings.Contains(show(), `value="approve"`))
	post("/device", "action=approve&user_code="+asked.Text("user_code")).Want(200)
	poll, _ := json.Marshal(map[string]string{"device_code": asked.Text("device_code")})
	a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true, JSON: string(poll)}).Want(200)
}

// A code confirms only the session of an account without a password.
func TestConfirmWithoutPassword(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	mine := a.SessionCookie() + "=" + a.Session()
	confirm := func(body any) *apitest.Answer { return a.Do(apitest.As(mine, "POST", "/api/v1/auth/confirm", body)) }
	for _, bad := range []string{`{}`, `{"password":""}`, `{"password":"correct horse"}`} {
		is.Equal(confirm(bad).Want(409).Code(), "nothing_to_confirm_with")
	}
	confirm(`{"code":"123456"}`).Want(422)
	code, recovery := a.CodesOn(mine)
	for _, proof := range []map[string]string{{"code": code(20)}, {"recoveryCode": recovery[0]}} {
		a.Clock.Advance(people.RecentTime)
		a.Do(apitest.As(mine, "POST", "/api/v1/keys", `{"name":"laptop"}`)).Want(403)
		confirm(proof).Want(200)
		a.Do(apitest.As(mine, "POST", "/api/v1/keys", `{"name":"laptop"}`)).Want(201)
	}
}

// A sign-in at the issuer counts as recent only if the issuer has asked its user a short time ago,
// and one by a proxy never does.
func TestSilentSignIn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p, with := withProvider(t)
	a := apitest.Start(t, with, func(c *web.Config) {
		c.AuthHeader, c.TrustedProxies = "Remote-User", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	a.WithPassword(a.User, "correct horse")
	a.Link(a.User, p, "id-ann")
	change := func(b *idpBrowser) *apitest.Answer { return b.own("POST", "/api/v1/keys", `{"name":"laptop"}`) }
	refused := func(b *idpBrowser) {
		t.Helper()
		is.Equal(change(b).Want(403).Code(), "recent_sign_in_required")
		is.Equal(b.own("GET", "/api/v1/me/security", nil).Want(200).At("data.recent"), false)
	}
	at := func(said any) {
		p.Set(func() {
			p.Forge = func(claims map[string]any) string {
				claims["auth_time"] = said
				return p.Key.Sign(`{"alg":"RS256","kid":"first"}`, claims)
			}
		})
	}
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	for _, said := range []any{nil, "now", 0, ago(people.RecentTime), ago(-time.Hour)} {
		at(said)
		b := newIDPBrowser(a, p)
		b.signIn("ann").Want(303)
		refused(b)
	}
	at(ago(people.RecentTime - time.Minute))
	b := newIDPBrowser(a, p)
	b.signIn("ann").Want(303)
	change(b).Want(201)
	a.Clock.Advance(time.Minute)
	refused(b)

	// The issuer asks again, and the browser goes on where it was.
	p.Set(func() { p.Forge = nil })
	address := b.open("/login/oidc?next=%2Faccount%2Fsecurity").Want(303).Header.Get("Location")
	u, err := url.Parse(address)
	is.NoErr(err)
	is.Equal(u.Query().Get("prompt"), "login")
	is.Equal(u.Query().Get("max_age"), "600")
	is.Equal(b.open(b.authorize(address, "ann")).Want(303).Header.Get("Location"), "/account/security")
	change(b).Want(201)

	b = newIDPBrowser(a, p)
	b.send(apitest.Request{
		Method: "GET", Path: "/login", Anyone: true, Header: http.Header{"Remote-User": {"ann"}},
	}).Want(303)
	refused(b)
	b.own("POST", "/api/v1/auth/confirm", `{"password":"correct horse"}`).Want(200)
	change(b).Want(201)
}

// The type of a patch decides nothing about who may redirect what is kept.
func TestConfirmationOfMergePatches(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	at := "/api/v1/integrations/webhooks/" + a.Post(
		"/api/v1/integrations/webhooks", `{"url":"https://example.org/a"}`,
	).Want(201).Text("data.id")
	mine := a.SessionCookie() + "=" + a.Session()
	a.Clock.Advance(people.RecentTime)
	for _, media := range []string{"application/json", "application/merge-patch+json", "Application/Merge-Patch+JSON; x=y"} {
		for body, status := range map[string]int{`{"url":"https://example.com/b"}`: 403, `{"name":"b"}`: 200} {
			got := a.Do(apitest.Request{
				Method: "PATCH", Path: at, Anyone: true, Body: strings.NewReader(body), Raw: true,
				Header: apitest.WithHeader("Cookie", mine, "Content-Type", media),
			})
			if got.Status != status {
				t.Errorf("%s, %s: %d %s", media, body, got.Status, apitest.CutText(got.Body))
			}
		}
	}
}
