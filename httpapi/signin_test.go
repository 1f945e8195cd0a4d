package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/captcha"
	"kist/httpapi/limit"
	"kist/httpapi/outbound"
	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

// guessed counts a wrong password for a thing, as if a visitor from the network
// had sent it.
func (a *app) guessed(network, at string) {
	a.Helper()
	people.TriesOf(a.server.Store).Settle(a.server.Store.Now(), false,
		people.Limit{Kind: limit.KindFrom, Of: network + " " + at}, people.Limit{Kind: limit.KindAll, Of: network}, people.Limit{Kind: limit.KindOverall, Of: at})
}

// behindProxy has the server believe X-Forwarded-For, so that a test has many
// addresses.
func behindProxy(c *web.Config) {
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// login signs in from an address, with further headers.
func (a *app) login(from, name, password string, header ...string) *answer {
	a.Helper()
	return a.do(apiRequest{
		method: "POST", path: "/api/v1/auth/login", anyone: true, json: map[string]string{"username": name, "password": password},
		header: withHeader(append([]string{"X-Forwarded-For", from}, header...)...),
	})
}

// solved solves the proof of work that an answer asks for.
func (got *answer) solved() string {
	got.app.Helper()
	var e struct {
		Captcha struct{ Challenge captcha.Challenge }
	}
	got.app.fatal(json.Unmarshal(got.body, &e))
	return solvedChallenge(got.app, e.Captcha.Challenge)
}

func solvedChallenge(t testing.TB, c captcha.Challenge) string {
	t.Helper()
	for n := int64(0); n <= c.MaxNumber; n++ {
		if captcha.Solution(c.Salt, n) == c.Challenge {
			b, err := json.Marshal(map[string]any{"algorithm": c.Algorithm, "challenge": c.Challenge, "number": n, "salt": c.Salt, "signature": c.Signature})
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
func (got *answer) retryAfter() time.Duration {
	got.app.Helper()
	n, err := strconv.Atoi(got.header.Get("Retry-After"))
	if err != nil || n < 1 {
		got.app.Fatalf("no Retry-After: %q", got.header.Get("Retry-After"))
	}
	return time.Duration(n) * time.Second
}

// One network has so many wrong passwords in all, whatever names they are for,
// and no more of them are hashed.
func TestSignInGuessesOfNetwork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.withPassword(a.user, "correct horse")
	a.share("x", "slug", "locked", "password", "secret")
	for i := range limit.GuessesOfAll - 1 {
		a.login("2001:db8::"+strconv.Itoa(i+1), fmt.Sprint("nobody", i), "wrong horse").want(401)
	}
	a.send("GET", "/x/locked", "X-Share-Password", "wrong", "X-Forwarded-For", "2001:db8::ffff").want(401) // items count too
	got := a.login("2001:db8::1", "one-more", "wrong horse").want(429)
	is.Equal(got.code(), "too_many_guesses")
	is.True(got.retryAfter() > 200*time.Second)
	a.login("2001:db8::1", "ann", "correct horse").want(429)
	a.send("GET", "/x/locked", "X-Share-Password", "secret", "X-Forwarded-For", "2001:db8::1").want(429)
	works := a.server.Passwords
	a.server.Passwords = nil // nothing is hashed for them
	a.login("2001:db8::1", "ann", "correct horse").want(429)
	a.send("GET", "/x/locked", "X-Share-Password", "secret", "X-Forwarded-For", "2001:db8::1").want(429)
	a.server.Passwords = works
	a.login("2001:db8:0:1::1", "ann", "correct horse").want(200) // another network
	a.clock.advance(got.retryAfter())
	a.login("2001:db8::1", "ann", "correct horse").want(200)
}

// flood sends sign-ins with ever new names until the returned function is
// called: from one address, or each from the next of many.
func (a *app) flood(connections int, from func(n int) string) (end func()) {
	var stop atomic.Bool
	var n atomic.Int64
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for !stop.Load() {
				i := int(n.Add(1))
				body := fmt.Sprintf(`{"username":"u%d","password":"wrong horse"}`, i)
				req, err := http.NewRequestWithContext(a.Context(), "POST", a.url+"/api/v1/auth/login", strings.NewReader(body))
				if err != nil {
					a.Error(err)
					return
				}
				req.Header = http.Header{"Content-Type": {web.JSONType}, "X-Forwarded-For": {from(i)}}
				res, err := plain.Do(req)
				if err != nil {
					a.Error(err)
					return
				}
				_ = res.Body.Close()
			}
		})
	}
	return func() {
		stop.Store(true)
		all.Wait()
	}
}

// While one address floods sign-in, or many that the server does not know do,
// the owner is signed in within two seconds.
func TestSignInUnderFlood(t *testing.T) {
	needs.Time(t)
	needs.Alone(t)
	for name, from := range map[string]func(int) string{
		"one address":   func(int) string { return "192.0.2.66" },
		"new addresses": func(n int) string { return fmt.Sprintf("2001:db8:%x:%x::1", n>>16, n&0xffff) },
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, behindProxy, realPasswords)
			a.withPassword(a.user, "correct horse")
			device := a.login("192.0.2.7", "ann", "correct horse").want(200).cookieOf("__Host-kist_device")
			var quiet time.Duration // the longest of some, since others may use the machine
			for range 5 {
				begun := time.Now()
				a.login("192.0.2.7", "ann", "correct horse").want(200)
				quiet = max(quiet, time.Since(begun))
			}
			// A machine that is slow without a flood has no two seconds with it, and the
			// race detector makes hashing many times slower, so that a turn may not come in
			// time: the gate runs this without it, and with it for data races alone.
			limit, rounds := max(2*2*time.Second, 16*quiet), 18
			if raceEnabled {
				limit, rounds = time.Minute, 2
			}
			end := a.flood(24, from)
			defer end()
			for range rounds {
				begun := time.Now()
				signIn := func(from string, header ...string) {
					got := a.login(from, "ann", "correct horse", header...)
					for raceEnabled && got.status == 503 && time.Since(begun) < limit {
						got = a.login(from, "ann", "correct horse", header...)
					}
					got.want(200)
				}
				signIn("192.0.2.7")                      // a network that has signed in before
				signIn("198.51.100.9", "Cookie", device) // a browser that has, elsewhere
				if took := time.Since(begun); took >= limit {
					t.Errorf("signed in twice within %v, and within %v without a flood", took, quiet)
				}
			}
		})
	}
}

// When strangers have tried too often for one name, a browser that has signed
// in before signs in as ever, and others after a proof of work.
func TestSignInProof(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.withPassword(a.user, "correct horse")
	device := a.login("192.0.2.7", "ann", "correct horse").want(200).cookieOf("__Host-kist_device")
	for round := range 2 {
		for i := range limit.GuessesOverall { // from 32 networks; the last ones have to prove
			got := a.login(fmt.Sprintf("2001:db8:%d:%d::1", round, i), "ann", "wrong horse")
			is.True(got.status == 401 || got.status == 400)
		}
		a.login("198.51.100.9", "ann", "correct horse", "Cookie", device).want(200)
		got := a.login("203.0.113.5", "ann", "correct horse").want(400)
		is.Equal(got.code(), "captcha_required")
		is.Equal(got.at("captcha.provider"), "pow")
		is.True(got.retryAfter() <= limit.GuessWindow)
		token := got.solved()
		a.login("203.0.113.5", "ann", "correct horse", "X-Captcha-Token", token[:len(token)-8]).want(400)
		a.login("203.0.113.5", "ann", "correct horse", "X-Captcha-Token", token).want(200)
		a.login("203.0.113.6", "ann", "correct horse", "X-Captcha-Token", token).want(400) // once
		a.clock.advance(time.Minute)
	}
	// A proof does not lift what holds for one network.
	for range limit.GuessesFrom {
		got := a.login("203.0.113.77", "ann", "wrong horse").want(400)
		a.login("203.0.113.77", "ann", "wrong horse", "X-Captcha-Token", got.solved()).want(401)
	}
	a.login("203.0.113.77", "ann", "correct horse").want(429)
	a.clock.advance(limit.GuessWindow)
	a.login("203.0.113.77", "ann", "correct horse").want(200)
}

// The form says so too, and works with the proof.
func TestSignInProofForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.withPassword(a.user, "correct horse")
	for i := range limit.GuessesOverall {
		a.guessed(fmt.Sprint(i), "login:ann")
	}
	post := func(values url.Values) *answer {
		h := withHeader("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "X-Forwarded-For", "203.0.113.5")
		return a.do(apiRequest{method: "POST", path: "/login", anyone: true, header: h, body: strings.NewReader(values.Encode())})
	}
	got := post(url.Values{"username": {"ann"}, "password": {"correct horse"}, "next": {"/files"}}).want(400)
	is.True(strings.Contains(string(got.body), "Turn it on, or try again in 5 minutes."))
	is.True(!strings.Contains(string(got.body), "correct horse"))
	is.True(strings.Contains(got.header.Get("Content-Security-Policy"), "worker-src 'self'"))
	is.True(got.retryAfter() <= limit.GuessWindow)
	token := solvedChallenge(t, a.server.Challenges.Challenge(a.server.Store.Now()))
	is.Equal(post(url.Values{"username": {"ann"}, "password": {"correct horse"}, "next": {"/files"}, "captcha": {token}}).want(303).header.Get("Location"), "/files")

	for range limit.GuessesFrom {
		a.guessed("203.0.113.5/32", "login:bob")
	}
	got = post(url.Values{"username": {"bob"}, "password": {"correct horse"}}).want(429)
	is.True(got.retryAfter() > 200*time.Second)
	is.True(strings.Contains(string(got.body), "Too many wrong passwords. Try again in 5 minutes."))
}

// A browser that has signed in has a count of its own for that account, until
// the password changes. Nobody else can make a cookie.
func TestDeviceCookie(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.withPassword(a.user, "correct horse")
	bob := a.addUser("bob", people.Member)
	a.withPassword(bob, "correct horse")
	got := a.login("192.0.2.7", "ann", "correct horse").want(200)
	device := got.cookieOf("__Host-kist_device")
	set := strings.Join(got.header.Values("Set-Cookie"), "\n")
	for _, part := range []string{"__Host-kist_device=", "Max-Age=31536000", "HttpOnly", "Secure", "SameSite=Lax", "Path=/"} {
		is.True(strings.Contains(set[strings.Index(set, "__Host-kist_device"):], part))
	}
	for range limit.GuessesFrom {
		a.guessed("192.0.2.7/32", "login:ann")
		a.guessed("192.0.2.7/32", "login:bob")
	}
	a.login("192.0.2.7", "ann", "correct horse").want(429)
	a.login("192.0.2.7", "ann", "correct horse", "Cookie", device).want(200)
	a.login("192.0.2.7", "bob", "correct horse", "Cookie", device).want(429) // it is ann's
	forged := []byte(device)
	forged[len(forged)-1] ^= 4
	for _, bad := range []string{string(forged), device[:len(device)-1], "__Host-kist_device=", "__Host-kist_device=AAAA", "kist_device=" + device[len("__Host-kist_device="):]} {
		a.login("192.0.2.7", "ann", "correct horse", "Cookie", bad).want(429)
	}
	for range limit.GuessesOnDevice {
		a.login("198.51.100.9", "ann", "wrong horse", "Cookie", device).want(401)
	}
	a.login("198.51.100.9", "ann", "correct horse", "Cookie", device).want(429)
	a.login("198.51.100.9", "ann", "correct horse").want(200) // attempts with the cookie do not count for others
	a.clock.advance(limit.GuessWindow)

	a.withPassword(a.user, "battery staple")
	for range limit.GuessesFrom {
		a.guessed("192.0.2.7/32", "login:ann")
	}
	a.login("192.0.2.7", "ann", "battery staple", "Cookie", device).want(429)
	a.clock.advance(limit.GuessWindow)
	device = a.login("192.0.2.7", "ann", "battery staple").want(200).cookieOf("__Host-kist_device")
	a.clock.advance(session.DeviceTime)
	for range limit.GuessesFrom {
		a.guessed("192.0.2.7/32", "login:ann")
	}
	a.login("192.0.2.7", "ann", "battery staple", "Cookie", device).want(429)
}

// Passwords that many use, and those with the user's name, are refused wherever
// one is set, and are no hindrance to signing in.
func TestCommonPasswords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "trustno1")
	cookie := a.enter("ann", "trustno1")
	const common, named = "is one of the most common passwords. Choose another", "is easy to guess: repeats, rows such as 1234 or qwerty, and the names of user and server count as one character. Choose another"
	for password, why := range map[string]string{"Iloveyou": common, "annann4711": named, "kist 4711": named} {
		got := a.do(as(cookie, "PATCH", "/api/v1/me", map[string]string{"password": password, "currentPassword": "trustno1"})).want(422)
		is.Equal(got.text("fields.password"), why)
		got = a.patch("/api/v1/admin/users/"+a.user.ID.String(), map[string]string{"password": password}).want(422)
		is.Equal(got.text("fields.password"), why)
		got = a.do(apiRequest{method: "POST", path: "/api/v1/admin/users", json: map[string]string{"username": "ANNANN", "password": password}}).want(422)
		is.Equal(got.text("fields.password"), why)
	}
	a.patch("/api/v1/admin/users/"+a.user.ID.String(), map[string]string{"username": "bea", "password": "annann4711"}).want(200)
	a.patch("/api/v1/admin/users/"+a.user.ID.String(), map[string]string{"username": "annann", "password": "annann4711"}).want(422)

	post := func(a *app, path, password string) *answer {
		h := withHeader("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Accept", "text/html")
		form := url.Values{"username": {"bea"}, "password": {password}, "repeat": {password}}
		return a.do(apiRequest{method: "POST", path: path, anyone: true, header: h, body: strings.NewReader(form.Encode())})
	}
	reset := strings.TrimPrefix(a.post("/api/v1/admin/users/"+a.user.ID.String()+"/reset-login", nil).want(200).text("url"), "https://kist.example.org")
	empty, token := startEmpty(t), ""
	a.fatal(empty.server.Store.Update(func(tx *kv.Tx) (err error) { token, err = people.Claim(tx); return err }))
	for _, password := range []string{"Iloveyou", "Beatrice!"} {
		post(a, reset, password).want(422)
		post(empty, "/claim/"+token, password).want(422)
	}
	post(a, reset, "another horse").want(303)
	post(empty, "/claim/"+token, "another horse").want(201)
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
		"named":  {func(ids map[string]string) any { return []string{ids["phone"], ids["laptop"]} }, []string{"phone", "laptop"}},
		"none":   {func(map[string]string) any { return []string{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			a.withPassword(a.user, "correct horse")
			cookie, other := a.enter("ann", "correct horse"), a.enter("ann", "correct horse")
			secrets, ids := map[string]string{}, map[string]string{}
			for name, device := range map[string]string{"phone": "kist-extension", "tablet": "kist-extension", "laptop": ""} {
				a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
					k, secret, err := people.AddKey(tx, people.Key{Owner: a.user.ID, Name: name, Device: device, Scopes: []people.Scope{people.ScopeAll}})
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
			is.Equal(a.do(as(cookie, "PATCH", "/api/v1/me", map[string]any{"displayName": "A", "revoke": []string{}})).want(422).text("fields.revoke"), "can only be given together with a new password")
			again := a.do(as(cookie, "PATCH", "/api/v1/me", form)).want(200).cookieOf(sessionName)
			a.do(as(again, "GET", "/api/v1/me", nil)).want(200)
			a.do(as(other, "GET", "/api/v1/me", nil)).want(401)
			for name, secret := range secrets {
				want := 200
				if slices.Contains(c.gone, name) {
					want = 401
				}
				a.do(apiRequest{method: "GET", path: "/api/v1/notes", key: secret}).want(want)
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
		"named":  {func(ids map[string]string) any { return []string{ids["phone"], ids["laptop"], ids["other"]} }, []string{"phone", "laptop"}},
		"none":   {func(map[string]string) any { return []string{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			bob := a.addUser("bob", people.Member)
			a.withPassword(bob, "correct horse")
			cookie := a.enter("bob", "correct horse")
			secrets, ids := map[string]string{}, map[string]string{}
			add := func(owner *people.User, name, device string) {
				a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
					k, secret, err := people.AddKey(tx, people.Key{Owner: owner.ID, Name: name, Device: device, Scopes: []people.Scope{people.ScopeAll}})
					if err == nil {
						secrets[name], ids[name] = secret, k.ID.String()
					}
					return err
				}))
			}
			add(bob, "phone", "kist-extension")
			add(bob, "tablet", "kist-extension")
			add(bob, "laptop", "")
			add(a.user, "other", "kist-extension")
			path := "/api/v1/admin/users/" + bob.ID.String()
			is.Equal(a.patch(path, map[string]any{"displayName": "B", "revoke": []string{}}).want(422).text("fields.revoke"), "can only be given together with a new password")
			for _, secret := range secrets {
				a.do(apiRequest{method: "GET", path: "/api/v1/notes", key: secret}).want(200)
			}
			form := map[string]any{"password": "battery staple"}
			if c.revoke != nil {
				form["revoke"] = c.revoke(ids)
			}
			a.patch(path, form).want(200)
			a.do(as(cookie, "GET", "/api/v1/me", nil)).want(401)
			for name, secret := range secrets {
				want := 200
				if slices.Contains(c.gone, name) {
					want = 401
				}
				a.do(apiRequest{method: "GET", path: "/api/v1/notes", key: secret}).want(want)
			}
			a.enter("bob", "battery staple")
		})
	}
}

// Disabling an account ends its sessions for good.
func TestDisableEndsSessions(t *testing.T) {
	t.Parallel()
	a := start(t)
	bob := a.addUser("bob", people.Member)
	a.withPassword(bob, "correct horse")
	cookie := a.enter("bob", "correct horse")
	for _, disabled := range []bool{true, false} {
		a.patch("/api/v1/admin/users/"+bob.ID.String(), map[string]bool{"disabled": disabled}).want(200)
		a.do(as(cookie, "GET", "/api/v1/me", nil)).want(401)
	}
	a.do(as(a.enter("bob", "correct horse"), "GET", "/api/v1/me", nil)).want(200)
}

// A key that may only upload sees its own uploads and fetches; the address of a
// webhook is for those who may change it; addresses inside the network are for
// administrators.
func TestUploadKeySeesItsOwn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addUser("bob", people.Member)
	mine, other, reader := a.as(a.addKey(bob, people.ScopeUpload)), a.as(a.addKey(bob, people.ScopeUpload)), a.as(a.addKey(bob, people.ScopeRead))
	writer := a.as(a.addKey(bob, people.ScopeAll))

	id := mine.post("/api/v1/remote-upload", `{"url":"http://127.0.0.1:1/x"}`).want(202).at("jobs").([]any)[0].(map[string]any)["id"].(string)
	at := "/api/v1/remote-upload/" + id
	is.Equal(len(mine.get("/api/v1/remote-upload").want(200).at("jobs").([]any)), 1)
	is.Equal(len(other.get("/api/v1/remote-upload").want(200).at("jobs").([]any)), 0)
	is.Equal(len(reader.get("/api/v1/remote-upload").want(200).at("jobs").([]any)), 1)
	mine.get(at).want(200)
	writer.get(at).want(200)
	other.get(at).want(404)
	other.patch(at, `{"action":"cancel"}`).want(404)
	other.do(apiRequest{method: "DELETE", path: at, key: other.key}).want(404)
	mine.patch(at, `{"action":"cancel"}`).want(200)

	begun := mine.do(apiRequest{method: "POST", path: upload.TusPath, key: mine.key, header: withHeader("Tus-Resumable", web.TusVersion, "Upload-Length", "2"), raw: true}).want(201)
	at = strings.TrimPrefix(begun.header.Get("Location"), "https://kist.example.org")
	head := func(a *app) *answer {
		return a.do(apiRequest{method: "HEAD", path: at, key: a.key, header: withHeader("Tus-Resumable", web.TusVersion), raw: true})
	}
	head(mine).want(200)
	head(other).want(404)
	head(reader).want(403) // it may not upload

	const secret = "http://127.0.0.1:1/hook/s3cret?token=s3cret"
	hook := writer.post("/api/v1/integrations/webhooks", `{"url":"`+secret+`"}`).want(201)
	is.Equal(hook.text("data.url"), secret)
	id = hook.text("data.id")
	writer.post("/api/v1/integrations/webhooks/"+id+"/test", nil).want(200)
	for _, path := range []string{"", "/" + id, "/" + id + "/deliveries"} {
		got := reader.get("/api/v1/integrations/webhooks" + path).want(200)
		is.True(!strings.Contains(string(got.body), "s3cret"))
		is.True(strings.Contains(string(got.body), "http://127.0.0.1:1/***"))
		is.True(strings.Contains(string(writer.get("/api/v1/integrations/webhooks"+path).want(200).body), "s3cret"))
	}
}

func TestHideAddresses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) {
		c.Outbound = outbound.New(outbound.Options{Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.5")}, nil
		}})
	})
	bob := a.addUser("bob", people.Member)
	text := (&outbound.Refused{Host: "nas.example", Addr: netip.MustParseAddr("10.0.0.5"), Why: "is private"}).Error()
	for u, shown := range map[*people.User]bool{a.user: true, bob: false} {
		var id record.ID
		a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
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
		by := a.as(a.addKey(u, people.ScopeAll))
		got := by.get("/api/v1/remote-upload/" + id.String()).want(200)
		is.Equal(strings.Contains(got.text("data.error"), "10.0.0.5"), shown)
		is.True(strings.Contains(got.text("data.error"), "nas.example"))
		is.Equal(strings.Contains(string(by.get("/api/v1/remote-upload").want(200).body), "10.0.0.5"), shown)

		a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
			_, err := jobs.AddWebhook(tx, jobs.Webhook{Owner: u.ID, URL: "http://nas.example/", Format: jobs.FormatJSON, Events: []jobs.Event{"note.created"}, Enabled: true})
			return err
		}))
		by.post("/api/v1/notes", `{"content":"c"}`).want(201)
		a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
			found, _, err := jobs.DueDeliveries(tx, func(*jobs.Webhook) int { return 1 }, func(jobs.Due) bool { return false })
			for _, d := range found {
				err = errors.Join(err, jobs.Tried(tx, d.Place, jobs.Try{Error: text}))
			}
			return err
		}))
		hooks := by.get(hooksAt).want(200)
		is.Equal(strings.Contains(hooks.text("data.0.lastError"), "10.0.0.5"), shown)
		log := by.get(hooksAt + "/" + hooks.text("data.0.id") + "/deliveries").want(200)
		is.Equal(strings.Contains(log.text("data.0.error"), "10.0.0.5"), shown)
		is.True(strings.Contains(log.text("data.0.error"), "nas.example"))
		tested := by.post(hooksAt+"/"+hooks.text("data.0.id")+"/test", nil).want(200).text("error")
		is.Equal(strings.Contains(tested, "10.0.0.5"), shown)
		is.True(strings.Contains(tested, "nas.example"))
	}
}

// Retry-After is accurate: a second before it is over the answer is the same,
// then it is not.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	ask := func(a *app) *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/authorize", anyone: true, json: `{"extension_id":"x"}`})
	}
	for name, one := range map[string]struct {
		fill func(a *app)
		try  func(a *app) *answer
	}{
		"devices that wait": {func(a *app) {
			for range 5 {
				ask(a).want(200)
				a.clock.advance(7 * time.Second)
			}
		}, ask},
		"wrong codes": {func(a *app) {
			for range limit.GuessesFrom {
				a.guessed("127.0.0.1/32", "device:"+a.user.ID.String())
			}
		}, func(a *app) *answer {
			return a.do(as(sessionName+"="+a.session(), "GET", "/device?user_code=BCDF-BCDF", nil))
		}},
		"passwords on a form": {func(a *app) {
			a.withPassword(a.user, "correct horse")
			for range limit.GuessesFrom {
				a.guessed("127.0.0.1/32", "login:ann")
			}
		}, func(a *app) *answer {
			h := withHeader("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
			return a.do(apiRequest{method: "POST", path: "/login", anyone: true, header: h, body: strings.NewReader("username=ann&password=correct+horse")})
		}},
		"the password of an item": {func(a *app) {
			a.share("x", "slug", "locked", "password", "secret")
			for range limit.GuessesFrom {
				a.guessed("127.0.0.1/32", a.id("locked"))
			}
		}, func(a *app) *answer {
			h := withHeader("Content-Type", "application/x-www-form-urlencoded")
			return a.do(apiRequest{method: "POST", path: "/v/locked", anyone: true, header: h, body: strings.NewReader("password=secret")})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			one.fill(a)
			a.clock.advance(time.Minute)
			wait := one.try(a).want(429).retryAfter()
			is.True(wait > 3*time.Minute)
			a.clock.advance(wait - 3*time.Second)
			one.try(a).want(429)
			a.clock.advance(3 * time.Second)
			is.True(one.try(a).status != 429)
		})
	}
}

// An answer in text has the challenge too, on a line of its own.
func TestProofInText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.post("/api/v1/notes", `{"title":"t","content":"text","slug":"locked","isPublic":true,"password":"secret"}`).want(201)
	guess := func(n int, password string, header ...string) *answer {
		return a.send("GET", "/x/locked", append([]string{"X-Share-Password", password, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", n)}, header...)...)
	}
	n := 0
	got := guess(n, "wrong")
	for ; got.status == 401; got = guess(n, "wrong") {
		n++
	}
	got.want(400)
	is.Equal(got.header.Get("Content-Type"), "text/plain; charset=utf-8")
	sentence, challenge, _ := strings.Cut(string(got.body), "\n")
	is.True(strings.HasPrefix(sentence, "Too many wrong passwords. "))
	got.body = []byte(challenge)
	is.Equal(string(guess(n, "secret", "X-Captcha-Token", got.solved()).want(200).body), "text")
}
