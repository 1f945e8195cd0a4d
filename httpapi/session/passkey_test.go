package session_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv/people"
)

// addPasskey adds the passkey in the browser with the cookie.
func addPasskey(a *apitest.App, cookie string, k *apitest.SoftKey, name string) *apitest.Answer {
	a.Helper()
	ask := a.Do(apitest.As(cookie, "POST", "/api/v1/me/passkeys/options", nil)).Want(200)
	return a.Do(apitest.As(
		cookie, "POST", "/api/v1/me/passkeys",
		map[string]string{
			"name": name, "ticket": ask.Text("ticket"), "passkey": k.Create(a, ask.At("passkey").(map[string]any)),
		},
	))
}

// nameless signs in with the passkey alone.
func nameless(a *apitest.App, k *apitest.SoftKey) *apitest.Answer {
	a.Helper()
	ask := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/passkey/options", Anyone: true}).Want(200)
	return a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/passkey", Anyone: true,
		JSON: map[string]string{"ticket": ask.Text("ticket"), "passkey": k.Get(a, ask.At("passkey").(map[string]any))},
	})
}

func TestPasskeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	mine := a.Enter("ann", "correct horse")
	phone, stick := apitest.NewSoftKey(a), apitest.NewSoftKey(a)
	got := addPasskey(a, mine, phone, "phone").Want(201)
	is.Equal(got.Text("data.name"), "phone")
	is.Equal(len(got.At("recoveryCodes").([]any)), people.RecoveryCodes)
	is.Equal(addPasskey(a, mine, phone, "again").Want(409).Code(), "passkey_taken")
	is.Equal(len(addPasskey(a, mine, stick, "stick").Want(201).At("recoveryCodes").([]any)), 0)
	list := a.Do(apitest.As(mine, "GET", "/api/v1/me/passkeys", nil)).Want(200)
	is.Equal(list.At("total"), 2.0)

	for _, k := range []*apitest.SoftKey{phone, stick} {
		got := nameless(a, k).Want(200)
		is.Equal(got.Text("data.username"), "ann")
		a.Do(apitest.As(got.CookieOf(apitest.SessionName), "GET", "/api/v1/me", nil)).Want(200)
	}
	// As the second step.
	ask := func() *apitest.Answer {
		t.Helper()
		got := apitest.Login(a, "", "ann", "correct horse").Want(401)
		is.Equal(got.Code(), "second_factor_required")
		is.Equal(fmt.Sprint(got.At("methods")), "[passkey recoveryCode]")
		is.Equal(len(got.At("passkey.allowCredentials").([]any)), 2)
		return got
	}
	first := ask()
	phone.Flags = 1 // after a password, the authenticator need not check who its user is
	answer := phone.Get(a, first.At("passkey").(map[string]any))
	step(a, "", first.Text("ticket"), map[string]string{"passkey": answer}).Want(200)
	is.Equal(step(a, "", first.Text("ticket"), map[string]string{"passkey": answer}).Want(401).Code(), "ticket_ended")
	// the challenge is another
	is.Equal(step(a, "", ask().Text("ticket"), map[string]string{"passkey": answer}).Want(401).Code(), "wrong_passkey")
	is.Equal(nameless(a, phone).Want(401).Code(), "wrong_passkey") // without a password it must
	phone.Flags = 5

	// A ticket is for one purpose.
	open := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/passkey/options", Anyone: true}).Want(200)
	is.Equal(
		step(
			a, "", open.Text("ticket"), map[string]string{"passkey": phone.Get(a, open.At("passkey").(map[string]any))},
		).Want(401).Code(),
		"ticket_ended",
	)

	// A copy of a passkey has an older counter.
	good := phone.Count
	phone.Count = 0
	is.Equal(nameless(a, phone).Want(401).Code(), "passkey_refused")
	phone.Count = good
	nameless(a, phone).Want(200)
	is.True(strings.Contains(
		string(a.Do(apitest.As(mine, "GET", "/api/v1/activity", nil)).Want(200).Body), `"passkey_refused"`,
	))

	for name, change := range map[string]func(k *apitest.SoftKey){
		"relying party": func(k *apitest.SoftKey) { k.Rp = "evil.example.org" },
		"origin":        func(k *apitest.SoftKey) { k.Origin = "https://evil.example.org" },
		"presence":      func(k *apitest.SoftKey) { k.Flags = 4 },
		"key":           func(k *apitest.SoftKey) { k.Key = apitest.NewSoftKey(a).Key },
		"id":            func(k *apitest.SoftKey) { k.ID = apitest.NewSoftKey(a).ID },
		"user":          func(k *apitest.SoftKey) { k.User = make([]byte, 16) },
		"short user":    func(k *apitest.SoftKey) { k.User = k.User[:15] },
		"no user":       func(k *apitest.SoftKey) { k.User = nil },
		"backup":        func(k *apitest.SoftKey) { k.Flags |= 8 },
	} {
		wrong := *phone
		change(&wrong)
		if got := nameless(a, &wrong).Want(401); got.Code() != "wrong_passkey" {
			t.Errorf("%s: %s", name, got.Code())
		}
		phone.Count = wrong.Count
	}
	for _, bad := range []string{
		"x", "{}", "null", `{"id":"AA","rawId":"AA","type":"public-key","response":{}}`, strings.Repeat("a", 4096),
	} {
		ask := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/passkey/options", Anyone: true}).Want(200)
		is.Equal(
			a.Do(apitest.Request{
				Method: "POST", Path: "/api/v1/auth/passkey", Anyone: true,
				JSON: map[string]string{"ticket": ask.Text("ticket"), "passkey": bad},
			}).Want(401).Code(),
			"wrong_passkey",
		)
		ask = a.Do(apitest.As(mine, "POST", "/api/v1/me/passkeys/options", nil)).Want(200)
		a.Do(apitest.As(
			mine, "POST", "/api/v1/me/passkeys", map[string]string{"name": "x", "ticket": ask.Text("ticket"), "passkey": bad},
		)).Want(422)
	}

	// Another user can neither use the ticket nor change the passkeys.
	bob := a.AddUser("bob", people.Member)
	a.WithPassword(bob, "correct horse")
	his := a.Enter("bob", "correct horse")
	offer := a.Do(apitest.As(mine, "POST", "/api/v1/me/passkeys/options", nil)).Want(200)
	third := apitest.NewSoftKey(a)
	made := third.Create(a, offer.At("passkey").(map[string]any))
	is.Equal(
		a.Do(apitest.As(
			his, "POST", "/api/v1/me/passkeys", map[string]string{"name": "x", "ticket": offer.Text("ticket"), "passkey": made},
		)).Want(409).Code(),
		"ticket_ended",
	)
	id := list.At("data").([]any)[0].(map[string]any)["id"].(string)
	a.Do(apitest.As(his, "PATCH", "/api/v1/me/passkeys/"+id, `{"name":"x"}`)).Want(404)
	a.Do(apitest.As(his, "DELETE", "/api/v1/me/passkeys/"+id, nil)).Want(404)
	is.Equal(
		a.Do(apitest.As(mine, "PATCH", "/api/v1/me/passkeys/"+id, `{"name":"desk"}`)).Want(200).Text("data.name"), "desk",
	)
	for _, v := range list.At("data").([]any) {
		a.Do(apitest.As(mine, "DELETE", "/api/v1/me/passkeys/"+v.(map[string]any)["id"].(string), nil)).Want(200)
	}
	is.Equal(nameless(a, phone).Want(401).Code(), "wrong_passkey")
	a.Enter("ann", "correct horse") // no second step is left
}

// A form that is sent twice is no copy of a passkey: one request signs in, the others are too late.
func TestPasskeyTwice(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	mine := a.Enter("ann", "correct horse")
	phone := apitest.NewSoftKey(a)
	addPasskey(a, mine, phone, "phone").Want(201)
	for range 5 {
		ask := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/passkey/options", Anyone: true}).Want(200)
		body := map[string]string{"ticket": ask.Text("ticket"), "passkey": phone.Get(a, ask.At("passkey").(map[string]any))}
		var wg sync.WaitGroup
		var got [4]*apitest.Answer
		for i := range got {
			wg.Go(func() {
				got[i] = a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/passkey", Anyone: true, JSON: body})
			})
		}
		wg.Wait()
		entered := 0
		for _, one := range got {
			if one.Status == 200 {
				entered++
			} else {
				is.Equal(one.Want(401).Code(), "ticket_ended")
			}
		}
		is.Equal(entered, 1)
	}
	is.True(!strings.Contains(
		string(a.Do(apitest.As(mine, "GET", "/api/v1/activity", nil)).Want(200).Body), `"passkey_refused"`,
	))
}

// The page of sign-in offers passkeys once anybody has one, and its form works.
func TestPasskeyForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	is.True(!strings.Contains(string(a.Visit("/login", "Accept", "text/html").Want(200).Body), "data-passkey"))
	k := apitest.NewSoftKey(a)
	addPasskey(a, a.Enter("ann", "correct horse"), k, "phone").Want(201)
	page := a.Visit("/login", "Accept", "text/html").Want(200)
	is.True(strings.Contains(string(page.Body), "data-passkey"))
	is.True(strings.Contains(page.Header.Get("Content-Security-Policy"), "script-src 'self'"))
	post := func(values url.Values) *apitest.Answer {
		h := apitest.WithHeader(
			"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Accept", "text/html",
		)
		return a.Do(apitest.Request{
			Method: "POST", Path: "/login/passkey", Anyone: true, Header: h, Body: strings.NewReader(values.Encode()),
		})
	}
	ask := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/passkey/options", Anyone: true}).Want(200)
	values := url.Values{
		"ticket": {ask.Text("ticket")}, "passkey": {k.Get(a, ask.At("passkey").(map[string]any))}, "next": {"/files"},
	}
	is.Equal(post(values).Want(303).Header.Get("Location"), "/files")
	is.True(strings.Contains(string(post(values).Want(401).Body), "Begin again."))
	is.True(strings.Contains(string(post(url.Values{}).Want(401).Body), "Begin again."))
}

// Browsers have passkeys only for names, and over HTTPS or on this machine.
func TestPasskeyAddresses(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]int{
		"https://kist.example.org": 200, "https://kist.example.org:8443/kist": 200, "http://localhost:7080": 200, "http://kist.localhost": 200,
		"http://kist.example.org": 403, "https://192.0.2.1": 403, "http://127.0.0.1:7080": 403, "https://[2001:db8::1]": 403,
	} {
		a := apitest.Start(t, func(c *web.Config) { c.Base = base })
		got := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/passkey/options", Anyone: true}).Want(want)
		if want == 403 && got.Code() != "no_passkeys_here" {
			t.Errorf("%s: %s", base, got.Code())
		}
	}
}

// FuzzPasskeyAnswer sends answers of authenticators that are not ours.
func FuzzPasskeyAnswer(f *testing.F) {
	a := apitest.Start(f)
	k := apitest.NewSoftKey(a)
	options := map[string]any{"challenge": "AAAA", "user": map[string]any{"id": apitest.URLText(a.User.ID[:])}}
	f.Add(k.Create(f, options))
	f.Add(k.Get(f, options))
	f.Add(`{"id":"","rawId":"","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"AA","signature":""}}`)
	f.Fuzz(func(t *testing.T, answer string) {
		ticket, _ := a.Server.Tickets.Issue(
			grant.Ticket{For: grant.ForPasskey, Network: sha256.Sum256([]byte("127.0.0.1/32"))}, a.Server.Store.Now(),
		)
		body, err := json.Marshal(map[string]string{"ticket": ticket, "passkey": answer})
		if err != nil {
			t.Skip()
		}
		one := *a
		one.TB = t
		if got := one.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/passkey", Anyone: true, JSON: string(body),
		}); got.Status == 200 || got.Status >= 500 {
			t.Errorf("status %d", got.Status)
		}
	})
}
