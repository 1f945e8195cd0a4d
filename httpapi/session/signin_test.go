package session_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/captcha"
	"kist/httpapi/limit"
	"kist/httpapi/outbound"
	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// solved solves the proof of work that an answer asks for.
func solved(got *apitest.Answer) string {
	got.App.Helper()
	var e struct {
		Captcha struct{ Challenge captcha.Challenge }
	}
	got.App.NoErr(json.Unmarshal(got.Body, &e))
	return solvedChallenge(got.App, e.Captcha.Challenge)
}

func solvedChallenge(t testing.TB, c captcha.Challenge) string {
	t.Helper()
	for n := int64(0); n <= c.MaxNumber; n++ {
		if captcha.Solution(c.Salt, n) == c.Challenge {
			b, err := json.Marshal(map[string]any{
				"algorithm": c.Algorithm, "challenge": c.Challenge, "number": n, "salt": c.Salt, "signature": c.Signature,
			})
			if err != nil {
				t.Fatal(err)
			}
			return base64.StdEncoding.EncodeToString(b)
		}
	}
	t.Fatal("the challenge has no solution")
	return ""
}

// retryAfter is when an answer says to come back.
func retryAfter(got *apitest.Answer) time.Duration {
	got.App.Helper()
	n, err := strconv.Atoi(got.Header.Get("Retry-After"))
	if err != nil || n < 1 {
		got.App.Fatalf("no Retry-After: %q", got.Header.Get("Retry-After"))
	}
	return time.Duration(n) * time.Second
}

// One network has so many wrong passwords in all, whatever names they are for,
// and no more of them are hashed.
func TestSignInGuessesOfNetwork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.WithPassword(a.User, "correct horse")
	a.Share("x", "slug", "locked", "password", "secret")
	for i := range limit.GuessesOfAll - 1 {
		apitest.Login(a, "2001:db8::"+strconv.Itoa(i+1), fmt.Sprint("nobody", i), "wrong horse").Want(401)
	}
	// items count too
	a.Send("GET", "/x/locked", "X-Share-Password", "wrong", "X-Forwarded-For", "2001:db8::ffff").Want(401)
	got := apitest.Login(a, "2001:db8::1", "one-more", "wrong horse").Want(429)
	is.Equal(got.Code(), "too_many_guesses")
	is.True(retryAfter(got) > 200*time.Second)
	apitest.Login(a, "2001:db8::1", "ann", "correct horse").Want(429)
	a.Send("GET", "/x/locked", "X-Share-Password", "secret", "X-Forwarded-For", "2001:db8::1").Want(429)
	works := a.Server.Passwords
	a.Server.Passwords = nil // nothing is hashed for them
	apitest.Login(a, "2001:db8::1", "ann", "correct horse").Want(429)
	a.Send("GET", "/x/locked", "X-Share-Password", "secret", "X-Forwarded-For", "2001:db8::1").Want(429)
	a.Server.Passwords = works
	apitest.Login(a, "2001:db8:0:1::1", "ann", "correct horse").Want(200) // another network
	a.Clock.Advance(retryAfter(got))
	apitest.Login(a, "2001:db8::1", "ann", "correct horse").Want(200)
}

// When strangers have tried too often for one name, a browser that has signed
// in before signs in as ever, and others after a proof of work.
func TestSignInProof(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.WithPassword(a.User, "correct horse")
	device := apitest.Login(a, "192.0.2.7", "ann", "correct horse").Want(200).CookieOf("__Host-kist_device")
	for round := range 2 {
		for i := range limit.GuessesOverall { // from 32 networks; the last ones have to prove
			got := apitest.Login(a, fmt.Sprintf("2001:db8:%d:%d::1", round, i), "ann", "wrong horse")
			is.True(got.Status == 401 || got.Status == 400)
		}
		apitest.Login(a, "198.51.100.9", "ann", "correct horse", "Cookie", device).Want(200)
		got := apitest.Login(a, "203.0.113.5", "ann", "correct horse").Want(400)
		is.Equal(got.Code(), "captcha_required")
		is.Equal(got.At("captcha.provider"), "pow")
		is.True(retryAfter(got) <= limit.GuessWindow)
		token := solved(got)
		apitest.Login(a, "203.0.113.5", "ann", "correct horse", "X-Captcha-Token", token[:len(token)-8]).Want(400)
		apitest.Login(a, "203.0.113.5", "ann", "correct horse", "X-Captcha-Token", token).Want(200)
		apitest.Login(a, "203.0.113.6", "ann", "correct horse", "X-Captcha-Token", token).Want(400) // once
		a.Clock.Advance(time.Minute)
	}
	// A proof does not lift what holds for one network.
	for range limit.GuessesFrom {
		got := apitest.Login(a, "203.0.113.77", "ann", "wrong horse").Want(400)
		apitest.Login(a, "203.0.113.77", "ann", "wrong horse", "X-Captcha-Token", solved(got)).Want(401)
	}
	apitest.Login(a, "203.0.113.77", "ann", "correct horse").Want(429)
	a.Clock.Advance(limit.GuessWindow)
	apitest.Login(a, "203.0.113.77", "ann", "correct horse").Want(200)
}

// The form says so too, and works with the proof.
func TestSignInProofForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.WithPassword(a.User, "correct horse")
	for i := range limit.GuessesOverall {
		a.Guessed(fmt.Sprint(i), "login:ann")
	}
	post := func(values url.Values) *apitest.Answer {
		h := apitest.WithHeader(
			"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "X-Forwarded-For",
			"203.0.113.5",
		)
		return a.Do(apitest.Request{
			Method: "POST", Path: "/login", Anyone: true, Header: h, Body: strings.NewReader(values.Encode()),
		})
	}
	got := post(url.Values{"username": {"ann"}, "password": {"correct horse"}, "next": {"/files"}}).Want(400)
	is.True(strings.Contains(string(got.Body), "Turn it on, or try again in 5 minutes."))
	is.True(!strings.Contains(string(got.Body), "correct horse"))
	is.True(strings.Contains(got.Header.Get("Content-Security-Policy"), "worker-src 'self'"))
	is.True(retryAfter(got) <= limit.GuessWindow)
	token := solvedChallenge(t, a.Server.Challenges.Challenge(a.Server.Store.Now()))
	is.Equal(
		post(url.Values{
			"username": {"ann"}, "password": {"correct horse"}, "next": {"/files"}, "captcha": {token},
		}).Want(303).Header.Get("Location"),
		"/files",
	)

	for range limit.GuessesFrom {
		a.Guessed("203.0.113.5/32", "login:bob")
	}
	got = post(url.Values{"username": {"bob"}, "password": {"correct horse"}}).Want(429)
	is.True(retryAfter(got) > 200*time.Second)
	is.True(strings.Contains(string(got.Body), "Too many wrong passwords. Try again in 5 minutes."))
}

// A browser that has signed in has a count of its own for that account, until
// the password changes. Nobody else can make a cookie.
func TestDeviceCookie(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.WithPassword(a.User, "correct horse")
	bob := a.AddUser("bob", people.Member)
	a.WithPassword(bob, "correct horse")
	got := apitest.Login(a, "192.0.2.7", "ann", "correct horse").Want(200)
	device := got.CookieOf("__Host-kist_device")
	set := strings.Join(got.Header.Values("Set-Cookie"), "\n")
	for _, part := range []string{
		"__Host-kist_device=", "Max-Age=31536000", "HttpOnly", "Secure", "SameSite=Lax", "Path=/",
	} {
		is.True(strings.Contains(set[strings.Index(set, "__Host-kist_device"):], part))
	}
	for range limit.GuessesFrom {
		a.Guessed("192.0.2.7/32", "login:ann")
		a.Guessed("192.0.2.7/32", "login:bob")
	}
	apitest.Login(a, "192.0.2.7", "ann", "correct horse").Want(429)
	apitest.Login(a, "192.0.2.7", "ann", "correct horse", "Cookie", device).Want(200)
	apitest.Login(a, "192.0.2.7", "bob", "correct horse", "Cookie", device).Want(429) // it is ann's
	forged := []byte(device)
	forged[len(forged)-1] ^= 4
	for _, bad := range []string{
		string(forged), device[:len(device)-1], "__Host-kist_device=", "__Host-kist_device=AAAA",
		"kist_device=" + device[len("__Host-kist_device="):],
	} {
		apitest.Login(a, "192.0.2.7", "ann", "correct horse", "Cookie", bad).Want(429)
	}
	for range limit.GuessesOnDevice {
		apitest.Login(a, "198.51.100.9", "ann", "wrong horse", "Cookie", device).Want(401)
	}
	apitest.Login(a, "198.51.100.9", "ann", "correct horse", "Cookie", device).Want(429)
	apitest.Login(a, "198.51.100.9", "ann", "correct horse").Want(200) // attempts with the cookie do not count for others
	a.Clock.Advance(limit.GuessWindow)

	a.WithPassword(a.User, "battery staple")
	for range limit.GuessesFrom {
		a.Guessed("192.0.2.7/32", "login:ann")
	}
	apitest.Login(a, "192.0.2.7", "ann", "battery staple", "Cookie", device).Want(429)
	a.Clock.Advance(limit.GuessWindow)
	device = apitest.Login(a, "192.0.2.7", "ann", "battery staple").Want(200).CookieOf("__Host-kist_device")
	a.Clock.Advance(session.DeviceTime)
	for range limit.GuessesFrom {
		a.Guessed("192.0.2.7/32", "login:ann")
	}
	apitest.Login(a, "192.0.2.7", "ann", "battery staple", "Cookie", device).Want(429)
}

// Passwords that many use, and those with the user's name, are refused wherever
// one is set, and are no hindrance to signing in.
func TestCommonPasswords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "trustno1")
	cookie := a.Enter("ann", "trustno1")
	const common, named = "is one of the most common passwords. Choose another", "is easy to guess: repeats, rows such " +
		"as 1234 or qwerty, and the names of user and server count as one character. Choose another"
	for password, why := range map[string]string{"Iloveyou": common, "annann4711": named, "kist 4711": named} {
		got := a.Do(apitest.As(
			cookie, "PATCH", "/api/v1/me", map[string]string{"password": password, "currentPassword": "trustno1"},
		)).Want(422)
		is.Equal(got.Text("fields.password"), why)
		got = a.Patch("/api/v1/admin/users/"+a.User.ID.String(), map[string]string{"password": password}).Want(422)
		is.Equal(got.Text("fields.password"), why)
		got = a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/admin/users", JSON: map[string]string{"username": "ANNANN", "password": password},
		}).Want(422)
		is.Equal(got.Text("fields.password"), why)
	}
	a.Patch(
		"/api/v1/admin/users/"+a.User.ID.String(), map[string]string{"username": "bea", "password": "annann4711"},
	).Want(200)
	a.Patch(
		"/api/v1/admin/users/"+a.User.ID.String(), map[string]string{"username": "annann", "password": "annann4711"},
	).Want(422)

	post := func(a *apitest.App, path, password string) *apitest.Answer {
		h := apitest.WithHeader(
			"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Accept", "text/html",
		)
		form := url.Values{"username": {"bea"}, "password": {password}, "repeat": {password}}
		return a.Do(apitest.Request{
			Method: "POST", Path: path, Anyone: true, Header: h, Body: strings.NewReader(form.Encode()),
		})
	}
	reset := strings.TrimPrefix(
		a.Post("/api/v1/admin/users/"+a.User.ID.String()+"/reset-login", nil).Want(200).Text("url"),
		"https://kist.example.org",
	)
	empty, token := apitest.StartEmpty(t), ""
	a.NoErr(empty.Server.Store.Update(func(tx *kv.Tx) (err error) { token, err = people.Claim(tx); return err }))
	for _, password := range []string{"Iloveyou", "Beatrice!"} {
		post(a, reset, password).Want(422)
		post(empty, "/claim/"+token, password).Want(422)
	}
	post(a, reset, "another horse").Want(303)
	post(empty, "/claim/"+token, "another horse").Want(201)
}

// A new password ends all other sessions and revokes devices, or the keys that
// are named.
func TestNewPasswordRevokes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		revoke func(ids map[string]string) any
		gone   []string
	}{
		"absent": {nil, []string{"phone", "tablet"}},
		"named": {func(ids map[string]string) any {
			return []string{ids["phone"], ids["laptop"]}
		}, []string{"phone", "laptop"}},
		"none": {func(map[string]string) any { return []string{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := apitest.Start(t)
			a.WithPassword(a.User, "correct horse")
			cookie, other := a.Enter("ann", "correct horse"), a.Enter("ann", "correct horse")
			secrets, ids := map[string]string{}, map[string]string{}
			for name, device := range map[string]string{"phone": "kist-extension", "tablet": "kist-extension", "laptop": ""} {
				a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
					k, secret, err := people.AddKey(
						tx, people.Key{Owner: a.User.ID, Name: name, Device: device, Scopes: []people.Scope{people.ScopeAll}},
					)
					if err == nil {
						secrets[name], ids[name] = secret, k.ID.String()
					}
					return err
				}))
			}
			form := map[string]any{"password": "battery staple", "currentPassword": "correct horse"}
			if c.revoke != nil {
				form["revoke"] = c.revoke(ids)
			}
			is.Equal(
				a.Do(apitest.As(
					cookie, "PATCH", "/api/v1/me", map[string]any{"displayName": "A", "revoke": []string{}},
				)).Want(422).Text("fields.revoke"),
				"can only be given together with a new password",
			)
			again := a.Do(apitest.As(cookie, "PATCH", "/api/v1/me", form)).Want(200).CookieOf(apitest.SessionName)
			a.Do(apitest.As(again, "GET", "/api/v1/me", nil)).Want(200)
			a.Do(apitest.As(other, "GET", "/api/v1/me", nil)).Want(401)
			for name, secret := range secrets {
				want := 200
				if slices.Contains(c.gone, name) {
					want = 401
				}
				a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes", Key: secret}).Want(want)
			}
		})
	}
}

// A password that an administrator sets ends all sessions of the account and
// revokes its devices, or the keys of it that are named; no key of anyone else.
func TestPasswordResetRevokes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		revoke func(ids map[string]string) any
		gone   []string
	}{
		"absent": {nil, []string{"phone", "tablet"}},
		"named": {func(ids map[string]string) any {
			return []string{ids["phone"], ids["laptop"], ids["other"]}
		}, []string{"phone", "laptop"}},
		"none": {func(map[string]string) any { return []string{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t)
			bob := a.AddUser("bob", people.Member)
			a.WithPassword(bob, "correct horse")
			cookie := a.Enter("bob", "correct horse")
			secrets, ids := map[string]string{}, map[string]string{}
			add := func(owner *people.User, name, device string) {
				a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
					k, secret, err := people.AddKey(
						tx, people.Key{Owner: owner.ID, Name: name, Device: device, Scopes: []people.Scope{people.ScopeAll}},
					)
					if err == nil {
						secrets[name], ids[name] = secret, k.ID.String()
					}
					return err
				}))
			}
			add(bob, "phone", "kist-extension")
			add(bob, "tablet", "kist-extension")
			add(bob, "laptop", "")
			add(a.User, "other", "kist-extension")
			path := "/api/v1/admin/users/" + bob.ID.String()
			is.Equal(
				a.Patch(path, map[string]any{"displayName": "B", "revoke": []string{}}).Want(422).Text("fields.revoke"),
				"can only be given together with a new password",
			)
			for _, secret := range secrets {
				a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes", Key: secret}).Want(200)
			}
			form := map[string]any{"password": "battery staple"}
			if c.revoke != nil {
				form["revoke"] = c.revoke(ids)
			}
			a.Patch(path, form).Want(200)
			a.Do(apitest.As(cookie, "GET", "/api/v1/me", nil)).Want(401)
			for name, secret := range secrets {
				want := 200
				if slices.Contains(c.gone, name) {
					want = 401
				}
				a.Do(apitest.Request{Method: "GET", Path: "/api/v1/notes", Key: secret}).Want(want)
			}
			a.Enter("bob", "battery staple")
		})
	}
}

// Disabling an account ends its sessions for good.
func TestDisableEndsSessions(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	a.WithPassword(bob, "correct horse")
	cookie := a.Enter("bob", "correct horse")
	for _, disabled := range []bool{true, false} {
		a.Patch("/api/v1/admin/users/"+bob.ID.String(), map[string]bool{"disabled": disabled}).Want(200)
		a.Do(apitest.As(cookie, "GET", "/api/v1/me", nil)).Want(401)
	}
	a.Do(apitest.As(a.Enter("bob", "correct horse"), "GET", "/api/v1/me", nil)).Want(200)
}

// A key that may only upload sees its own uploads and fetches; the address of a
// webhook is for those who may change it; addresses inside the network are for
// administrators.
func TestUploadKeySeesItsOwn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	mine, other, reader := a.As(a.AddKey(bob, people.ScopeUpload)), a.As(a.AddKey(bob, people.ScopeUpload)), a.As(a.AddKey(bob, people.ScopeRead))
	writer := a.As(a.AddKey(bob, people.ScopeAll))

	id := mine.Post(
		"/api/v1/remote-upload", `{"url":"http://127.0.0.1:1/x"}`,
	).Want(202).At("jobs").([]any)[0].(map[string]any)["id"].(string)
	at := "/api/v1/remote-upload/" + id
	is.Equal(len(mine.Get("/api/v1/remote-upload").Want(200).At("jobs").([]any)), 1)
	is.Equal(len(other.Get("/api/v1/remote-upload").Want(200).At("jobs").([]any)), 0)
	is.Equal(len(reader.Get("/api/v1/remote-upload").Want(200).At("jobs").([]any)), 1)
	mine.Get(at).Want(200)
	writer.Get(at).Want(200)
	other.Get(at).Want(404)
	other.Patch(at, `{"action":"cancel"}`).Want(404)
	other.Do(apitest.Request{Method: "DELETE", Path: at, Key: other.Key}).Want(404)
	mine.Patch(at, `{"action":"cancel"}`).Want(200)

	begun := mine.Do(apitest.Request{
		Method: "POST", Path: upload.TusPath, Key: mine.Key,
		Header: apitest.WithHeader("Tus-Resumable", web.TusVersion, "Upload-Length", "2"), Raw: true,
	}).Want(201)
	at = strings.TrimPrefix(begun.Header.Get("Location"), "https://kist.example.org")
	head := func(a *apitest.App) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "HEAD", Path: at, Key: a.Key, Header: apitest.WithHeader("Tus-Resumable", web.TusVersion), Raw: true,
		})
	}
	head(mine).Want(200)
	head(other).Want(404)
	head(reader).Want(403) // it may not upload

	const secret = "http://127.0.0.1:1/hook/s3cret?token=s3cret"
	hook := writer.Post("/api/v1/integrations/webhooks", `{"url":"`+secret+`"}`).Want(201)
	is.Equal(hook.Text("data.url"), secret)
	id = hook.Text("data.id")
	writer.Post("/api/v1/integrations/webhooks/"+id+"/test", nil).Want(200)
	for _, path := range []string{"", "/" + id, "/" + id + "/deliveries"} {
		got := reader.Get("/api/v1/integrations/webhooks" + path).Want(200)
		is.True(!strings.Contains(string(got.Body), "s3cret"))
		is.True(strings.Contains(string(got.Body), "http://127.0.0.1:1/***"))
		is.True(strings.Contains(string(writer.Get("/api/v1/integrations/webhooks"+path).Want(200).Body), "s3cret"))
	}
}

func TestHideAddresses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) {
		c.Outbound = outbound.New(outbound.Options{Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.5")}, nil
		}})
	})
	bob := a.AddUser("bob", people.Member)
	text := (&outbound.Refused{Host: "nas.example", Addr: netip.MustParseAddr("10.0.0.5"), Why: "is private"}).Error()
	for u, shown := range map[*people.User]bool{a.User: true, bob: false} {
		var id record.ID
		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			f, err := jobs.AddFetch(tx, jobs.Fetch{Owner: u.ID, URL: "http://nas.example/x", Fields: "{}"})
			if err == nil {
				id = f.ID
				f, err = jobs.BeginFetch(tx, u.ID, f.ID)
			}
			if err == nil {
				err = jobs.FailFetch(tx, f, text, false, 0)
			}
			return err
		}))
		by := a.As(a.AddKey(u, people.ScopeAll))
		got := by.Get("/api/v1/remote-upload/" + id.String()).Want(200)
		is.Equal(strings.Contains(got.Text("data.error"), "10.0.0.5"), shown)
		is.True(strings.Contains(got.Text("data.error"), "nas.example"))
		is.Equal(strings.Contains(string(by.Get("/api/v1/remote-upload").Want(200).Body), "10.0.0.5"), shown)

		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			_, err := jobs.AddWebhook(
				tx,
				jobs.Webhook{
					Owner: u.ID, URL: "http://nas.example/", Format: jobs.FormatJSON, Events: []jobs.Event{"note.created"},
					Enabled: true,
				},
			)
			return err
		}))
		by.Post("/api/v1/notes", `{"content":"c"}`).Want(201)
		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			found, _, err := jobs.DueDeliveries(tx, func(*jobs.Webhook) int { return 1 }, func(jobs.Due) bool { return false })
			for _, d := range found {
				err = errors.Join(err, jobs.Tried(tx, d.Place, jobs.Try{Error: text}))
			}
			return err
		}))
		hooks := by.Get(apitest.HooksAt).Want(200)
		is.Equal(strings.Contains(hooks.Text("data.0.lastError"), "10.0.0.5"), shown)
		log := by.Get(apitest.HooksAt + "/" + hooks.Text("data.0.id") + "/deliveries").Want(200)
		is.Equal(strings.Contains(log.Text("data.0.error"), "10.0.0.5"), shown)
		is.True(strings.Contains(log.Text("data.0.error"), "nas.example"))
		tested := by.Post(apitest.HooksAt+"/"+hooks.Text("data.0.id")+"/test", nil).Want(200).Text("error")
		is.Equal(strings.Contains(tested, "10.0.0.5"), shown)
		is.True(strings.Contains(tested, "nas.example"))
	}
}

// Retry-After is accurate: a second before it is over the answer is the same,
// then it is not.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	ask := func(a *apitest.App) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: `{"extension_id":"x"}`,
		})
	}
	for name, one := range map[string]struct {
		fill func(a *apitest.App)
		try  func(a *apitest.App) *apitest.Answer
	}{
		"devices that wait": {func(a *apitest.App) {
			for range 5 {
				ask(a).Want(200)
				a.Clock.Advance(7 * time.Second)
			}
		}, ask},
		"wrong codes": {func(a *apitest.App) {
			for range limit.GuessesFrom {
				a.Guessed("127.0.0.1/32", "device:"+a.User.ID.String())
			}
		}, func(a *apitest.App) *apitest.Answer {
			return a.Do(apitest.As(apitest.SessionName+"="+a.Session(), "GET", "/device?user_code=BCDF-BCDF", nil))
		}},
		"passwords on a form": {func(a *apitest.App) {
			a.WithPassword(a.User, "correct horse")
			for range limit.GuessesFrom {
				a.Guessed("127.0.0.1/32", "login:ann")
			}
		}, func(a *apitest.App) *apitest.Answer {
			h := apitest.WithHeader("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
			return a.Do(apitest.Request{
				Method: "POST", Path: "/login", Anyone: true, Header: h,
				Body: strings.NewReader("username=ann&password=correct+horse"),
			})
		}},
		"the password of an item": {func(a *apitest.App) {
			a.Share("x", "slug", "locked", "password", "secret")
			for range limit.GuessesFrom {
				a.Guessed("127.0.0.1/32", a.ID("locked"))
			}
		}, func(a *apitest.App) *apitest.Answer {
			h := apitest.WithHeader("Content-Type", "application/x-www-form-urlencoded")
			return a.Do(apitest.Request{
				Method: "POST", Path: "/v/locked", Anyone: true, Header: h, Body: strings.NewReader("password=secret"),
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := apitest.Start(t)
			one.fill(a)
			a.Clock.Advance(time.Minute)
			wait := retryAfter(one.try(a).Want(429))
			is.True(wait > 3*time.Minute)
			a.Clock.Advance(wait - 3*time.Second)
			one.try(a).Want(429)
			a.Clock.Advance(3 * time.Second)
			is.True(one.try(a).Status != 429)
		})
	}
}

// An answer in text has the challenge too, on a line of its own.
func TestProofInText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.Post("/api/v1/notes", `{"title":"t","content":"text","slug":"locked","isPublic":true,"password":"secret"}`).Want(201)
	guess := func(n int, password string, header ...string) *apitest.Answer {
		return a.Send("GET", "/x/locked", append([]string{
			"X-Share-Password", password, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", n),
		}, header...)...)
	}
	n := 0
	got := guess(n, "wrong")
	for ; got.Status == 401; got = guess(n, "wrong") {
		n++
	}
	got.Want(400)
	is.Equal(got.Header.Get("Content-Type"), "text/plain; charset=utf-8")
	sentence, challenge, _ := strings.Cut(string(got.Body), "\n")
	is.True(strings.HasPrefix(sentence, "Too many wrong passwords. "))
	got.Body = []byte(challenge)
	is.Equal(string(guess(n, "secret", "X-Captcha-Token", solved(got)).Want(200).Body), "text")
}
