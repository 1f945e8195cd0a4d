package httpapi

import (
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/session"
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
	changes := []apiRequest{
		as(mine, "POST", "/api/v1/keys", `{"name":"laptop"}`),
		as(mine, "POST", "/api/v1/me/codes", nil),
		as(mine, "PUT", "/api/v1/me/codes", `{}`),
		as(mine, "DELETE", "/api/v1/me/codes", nil),
		as(mine, "POST", "/api/v1/me/recovery-codes", nil),
		as(mine, "POST", "/api/v1/me/passkeys/options", nil),
		as(mine, "POST", "/api/v1/me/passkeys", `{}`),
		as(mine, "PATCH", "/api/v1/admin/users/"+a.user.ID.String(), `{"displayName":"Ann"}`),
		as(mine, "POST", "/api/v1/admin/users", `{}`),
		as(mine, "GET", "/api/v1/export", nil),
		as(mine, "GET", "/api/v1/admin/backup", nil),
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
	for _, prove := range []func() *answer{
		func() *answer { return confirm(`{"password":"correct horse"}`) },
		func() *answer { return confirm(map[string]string{"code": code(0)}) },
		func() *answer { return confirm(map[string]string{"recoveryCode": recovery[0]}) },
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
