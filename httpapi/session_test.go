package httpapi

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// withPassword gives a user a password.
func (a *app) withPassword(u *people.User, password string) {
	a.Helper()
	hash, err := a.server.Passwords.Hash(a.Context(), "", password)
	a.fatal(err)
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, u.ID)
		if err != nil {
			return err
		}
		u.Password = hash
		return people.SaveUser(tx, u)
	}))
}

// cookieOf is the cookie that an answer sets, as the browser sends it; "" if it is
// to forget.
func (got *answer) cookieOf(name string) string {
	got.app.Helper()
	res := http.Response{Header: got.header}
	for _, c := range res.Cookies() {
		if c.Name == name {
			if c.MaxAge < 0 {
				return ""
			}
			return c.Name + "=" + c.Value
		}
	}
	got.app.Fatalf("no cookie %s", name)
	return ""
}

const sessionName = "__Host-kist_session"

// enter signs a browser in and returns its cookie.
func (a *app) enter(name, password string) string {
	a.Helper()
	return a.do(apiRequest{method: "POST", path: "/api/v1/auth/login", anyone: true, json: map[string]string{"username": name, "password": password}}).want(200).cookieOf(sessionName)
}

// as is a request of a browser with the cookie, from the server's own pages.
func as(cookie, method, path string, json any) apiRequest {
	return apiRequest{method: method, path: path, anyone: true, json: json, header: http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"same-origin"}}}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	login := func(name, password string) *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/auth/login", anyone: true, json: map[string]string{"username": name, "password": password}})
	}
	got := login("ann", "wrong horse").want(401)
	is.Equal(got.text("code"), "wrong_login")
	is.Equal(got.header.Get("Set-Cookie"), "")
	is.Equal(string(login("nobody", "wrong horse").want(401).body[:60]), string(got.body[:60])) // one answer for both
	is.Equal(strings.Count(a.log.String(), `"msg":"sign-in failed","client":"127.0.0.1","user":"`), 2)

	got = login("Ann", "correct horse").want(200)
	is.Equal(got.text("data.username"), "ann")
	cookie := got.header.Get("Set-Cookie")
	for _, part := range []string{sessionName + "=kist_", "Path=/", "Max-Age=2592000", "HttpOnly", "Secure", "SameSite=Lax"} {
		is.True(strings.Contains(cookie, part))
	}
	mine := got.cookieOf(sessionName)
	is.Equal(a.do(as(mine, "GET", "/api/v1/me", nil)).want(200).text("data.username"), "ann")
	a.do(as(mine, "POST", "/api/v1/notes", `{"content":"c"}`)).want(201)
	a.do(as(mine, "GET", "/api/v1/admin/users", nil)).want(200)
	is.True(!strings.Contains(a.log.String(), "correct horse"))
	is.True(!strings.Contains(a.log.String(), strings.TrimPrefix(mine, sessionName+"=")))

	// The secret is no API key, and a bad key beside a good cookie is refused.
	a.do(apiRequest{method: "GET", path: "/api/v1/me", key: strings.TrimPrefix(mine, sessionName+"=")}).want(401)
	q := as(mine, "GET", "/api/v1/me", nil)
	q.header.Set("X-Api-Key", "kist_bad")
	a.do(q).want(401)

	// Signing in again ends the session that the browser had.
	q = as(mine, "POST", "/api/v1/auth/login", map[string]string{"username": "ann", "password": "correct horse"})
	next := a.do(q).want(200).cookieOf(sessionName)
	is.True(next != mine)
	a.do(as(mine, "GET", "/api/v1/me", nil)).want(401)

	other := a.enter("ann", "correct horse")
	list := a.do(as(next, "GET", "/api/v1/me/sessions", nil)).want(200)
	is.Equal(list.at("total"), 2.0)
	for _, v := range list.at("data").([]any) {
		if s := v.(map[string]any); s["current"] == false {
			a.do(as(next, "DELETE", "/api/v1/me/sessions/"+s["id"].(string), nil)).want(200)
		}
	}
	a.do(as(other, "GET", "/api/v1/me", nil)).want(401)
	other = a.enter("ann", "correct horse")
	a.do(as(next, "DELETE", "/api/v1/me/sessions", nil)).want(200)
	a.do(as(other, "GET", "/api/v1/me", nil)).want(401)

	// A new password ends all others and gives this browser a new session.
	other = a.enter("ann", "correct horse")
	got = a.do(as(next, "PATCH", "/api/v1/me", map[string]string{"password": "battery staple", "currentPassword": "correct horse"})).want(200)
	again := got.cookieOf(sessionName)
	a.do(as(next, "GET", "/api/v1/me", nil)).want(401)
	a.do(as(other, "GET", "/api/v1/me", nil)).want(401)
	a.do(as(again, "GET", "/api/v1/me", nil)).want(200)

	a.enter("ann ", "battery staple") // as keyboards of telephones complete it

	got = a.do(as(again, "POST", "/api/v1/auth/logout", nil)).want(200)
	is.Equal(got.cookieOf(sessionName), "")
	replayed := a.do(as(again, "GET", "/api/v1/me", nil)).want(401)
	is.Equal(replayed.text("code"), "session_ended")
	is.Equal(replayed.text("error"), "This session has ended; sign in again.")
	a.do(as(again, "POST", "/api/v1/auth/logout", nil)).want(200)
}

// What another site has a browser send is refused wherever the cookie would
// count, and where one would be set; keys are not a browser's to send.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	cookie := a.enter("ann", "correct horse")
	for name, h := range map[string]http.Header{
		"cross-site": {"Sec-Fetch-Site": {"cross-site"}},
		"same-site":  {"Sec-Fetch-Site": {"same-site"}},
		"other":      {"Origin": {"https://evil.example"}},
		"null":       {"Origin": {"null"}},
		"port":       {"Origin": {"https://kist.example.org:8443"}},
		"sub":        {"Origin": {"https://a.kist.example.org"}},
		"plain http": {"Origin": {"http://kist.example.org"}},
		"suffix":     {"Origin": {"https://kist.example.org.evil.example"}},
	} {
		t.Run(name, func(*testing.T) {
			h := h.Clone()
			h.Set("Cookie", cookie)
			for _, q := range []apiRequest{
				{method: "POST", path: "/api/v1/notes", json: `{"content":"c"}`},
				{method: "DELETE", path: "/api/v1/notes/" + "01890a5d-ac96-774b-bcce-b302099a8057"},
				{method: "PATCH", path: "/api/v1/me", json: `{"displayName":"x"}`},
				{method: "POST", path: "/api/v1/auth/login", json: `{"username":"ann","password":"correct horse"}`},
				{method: "POST", path: "/api/v1/auth/logout"},
				{method: "POST", path: "/api/v1/auth/device/verify", json: `{"user_code":"BCDF-BCDF","action":"approve"}`},
				{method: "POST", path: "/logout"},
			} {
				q.anyone, q.header = true, h.Clone()
				is.Equal(a.do(q).want(403).header.Get("Set-Cookie"), "")
			}
			h.Del("Cookie")
			a.do(apiRequest{method: "POST", path: "/api/v1/notes", json: `{"content":"c"}`, header: h}).want(201)
		})
	}
	h := http.Header{"Cookie": {cookie}, "Origin": {"https://kist.example.org"}} // a proxy has changed the Host
	a.do(apiRequest{method: "POST", path: "/api/v1/notes", json: `{"content":"c"}`, anyone: true, header: h}).want(201)
	a.do(as(cookie, "GET", "/api/v1/me", nil)).want(200)
}

// A user who is no administrator manages keys and sessions of their own in a
// browser, and nothing more; turning keys off does not shut browsers out.
func TestSessionOfAUser(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addUser("bob", people.Member)
	a.withPassword(bob, "correct horse")
	cookie := a.enter("bob", "correct horse")
	key := a.do(as(cookie, "POST", "/api/v1/keys", `{"name":"k"}`)).want(201).text("key")
	is.Equal(a.do(as(cookie, "GET", "/api/v1/keys", nil)).want(200).at("total"), 1.0)
	a.do(as(cookie, "GET", "/api/v1/admin/users", nil)).want(403)
	a.do(apiRequest{method: "GET", path: "/api/v1/me", key: key}).want(200)
	a.do(apiRequest{method: "PATCH", path: "/api/v1/admin/settings", json: `{"apiTokensDisabled":true}`}).want(200)
	a.do(apiRequest{method: "GET", path: "/api/v1/me", key: key}).want(401)
	a.do(as(cookie, "GET", "/api/v1/me", nil)).want(200)
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, bob.ID)
		if err != nil {
			return err
		}
		u.Disabled = true
		return people.SaveUser(tx, u)
	}))
	a.do(as(cookie, "GET", "/api/v1/me", nil)).want(401)
	a.do(apiRequest{method: "POST", path: "/api/v1/auth/login", anyone: true, json: `{"username":"bob","password":"correct horse"}`}).want(401)
}

// Passwords cannot be tried out, whether the name is there or not.
func TestSignInThrottle(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	try := func(name, password string) *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/auth/login", anyone: true, json: map[string]string{"username": name, "password": password}})
	}
	for _, name := range []string{"ann", "nobody"} {
		for range limit.GuessesFrom {
			try(name, "wrong horse").want(401)
		}
		got := try(name, "correct horse").want(429)
		is.True(got.header.Get("Retry-After") != "")
	}
	a.clock.advance(limit.GuessWindow)
	try("ann", "correct horse").want(200)
}

// The pages sign in and out without scripts, and lead on within the server
// alone.
func TestSignInPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	post := func(path, cookie string, values url.Values) *answer {
		h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}}
		if cookie != "" {
			h.Set("Cookie", cookie)
		}
		return a.do(apiRequest{method: "POST", path: path, anyone: true, header: h, body: strings.NewReader(values.Encode())})
	}
	for next, to := range map[string]string{
		"/files?x=1": "/files?x=1", "/device?user_code=BCDF-GHJK": "/device?user_code=BCDF-GHJK", "": "/",
		"//evil.example": "/", "/\\evil.example": "/", "https://evil.example/": "/", "javascript:alert(1)": "/", "/a\r\nSet-Cookie: x=1": "/", "/\t/evil.example": "/", "evil": "/",
	} {
		page := a.do(apiRequest{method: "GET", path: "/login?next=" + url.QueryEscape(next), anyone: true}).want(200)
		is.True(strings.Contains(string(page.body), "password"))
		got := post("/login", "", url.Values{"username": {"ann"}, "password": {"correct horse"}, "next": {next}}).want(303)
		is.Equal(got.header.Get("Location"), to)
	}
	got := post("/login", "", url.Values{"username": {`"><b>ann`}, "password": {"wrong"}, "next": {"/files"}}).want(401)
	is.True(!strings.Contains(string(got.body), "<b>"))
	is.True(strings.Contains(string(got.body), `value="/files"`))
	cookie := a.enter("ann", "correct horse")
	is.Equal(a.do(as(cookie, "GET", "/login?next=/files", nil)).want(303).header.Get("Location"), "/files")
	got = post("/logout", cookie, nil).want(303)
	is.Equal(got.cookieOf(sessionName), "")
	is.Equal(a.do(as(cookie, "GET", "/device?user_code=bcdfghjk", nil)).want(303).header.Get("Location"), "/login?next=%2Fdevice%3Fuser_code%3DBCDF-GHJK")
}

// A client of the device flow that polls as the browser extension does: it
// stops at any error that it does not know, and never asks again.
type extension struct{ a *app }

func (e extension) poll(secret string) (key string, done bool) {
	e.a.Helper()
	got := e.a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/token", anyone: true, json: map[string]string{"device_code": secret}})
	if got.status == 200 {
		if got.at("expires_in") != 2592000.0 || got.at("interval") != 5.0 || got.text("token_type") != "ApiKey" || !strings.HasPrefix(got.text("api_key"), "kist_") {
			e.a.Errorf("the client takes no such answer: %s", got.body)
		}
		return got.text("api_key"), true
	}
	switch got.text("error") {
	case "authorization_pending", "slow_down":
		return "", false
	}
	return "", true
}

// And one that raises its interval by what it is told.
type script struct {
	a     *app
	every float64
}

func (s *script) poll(secret string) (key string, done bool) {
	s.a.Helper()
	s.a.clock.advance(time.Duration(s.every * float64(time.Second)))
	got := s.a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/token", anyone: true, json: map[string]string{"device_code": secret}})
	if got.status == 200 {
		return got.text("api_key"), true
	}
	if got.text("error") == "slow_down" {
		s.every = got.at("interval").(float64)
	}
	return "", got.text("error") != "authorization_pending" && got.text("error") != "slow_down"
}

// Clients that are known by an id are shown by their name: where they ask, once
// they are connected, and in the list of keys.
func TestDeviceNames(t *testing.T) {
	t.Parallel()
	for id, name := range map[string]string{
		"cgdfgoapmfgdjapeehbgcnldocokgbae": "Swush extension", "swush-cli": "Swush command line", "some <client>": "some <client>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			a.withPassword(a.user, "correct horse")
			cookie := a.enter("ann", "correct horse")
			got := a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/authorize", anyone: true, json: map[string]string{"extension_id": id}}).want(200)
			page := html.UnescapeString(string(a.do(as(cookie, "GET", "/device?user_code="+got.text("user_code"), nil)).want(200).body))
			is.True(strings.Contains(page, name))
			is.Equal(strings.Contains(page, id), id == name)
			h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}, "Cookie": {cookie}}
			form := url.Values{"user_code": {got.text("user_code")}, "action": {"approve"}}
			done := a.do(apiRequest{method: "POST", path: "/device", anyone: true, header: h, body: strings.NewReader(form.Encode())}).want(200)
			is.True(strings.Contains(html.UnescapeString(string(done.body)), name+" is connected to your account."))
			key := a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/token", anyone: true, json: map[string]string{"device_code": got.text("device_code")}}).want(200)
			is.True(key.text("api_key") != "")
			keys := a.do(as(cookie, "GET", "/api/v1/keys", nil)).want(200)
			var shown []string
			for i := range keys.at("data").([]any) {
				if keys.text(fmt.Sprintf("data.%d.device", i)) != "" {
					shown = append(shown, keys.text(fmt.Sprintf("data.%d.name", i)))
				}
			}
			is.Equal(shown, []string{name})
		})
	}
}

func TestDeviceFlow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	cookie := a.enter("ann", "correct horse")
	begin := func() *answer {
		got := a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/authorize", anyone: true, json: `{"extension_id":"kist <b>extension"}`}).want(200)
		for _, name := range []string{"device_code", "user_code", "verification_uri", "verification_uri_complete", "expires_in", "interval"} {
			is.True(got.at(name) != nil)
		}
		is.Equal(got.at("expires_in"), 600.0)
		is.Equal(got.at("interval"), 5.0)
		is.Equal(got.text("verification_uri_complete"), "https://kist.example.org/device?user_code="+got.text("user_code"))
		return got
	}
	got := begin()
	code, secret := got.text("user_code"), got.text("device_code")
	impatient, patient := extension{a}, &script{a: a, every: 1}
	for range 3 {
		_, done := impatient.poll(secret)
		is.True(!done)
	}
	for range 3 {
		_, done := patient.poll(secret)
		is.True(!done)
	}
	is.True(patient.every >= 10)

	a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/verify", json: map[string]string{"user_code": code, "action": "approve"}}).want(403) // no API key decides
	page := a.do(as(cookie, "GET", "/device?user_code="+strings.ToLower(code), nil)).want(200)
	is.True(strings.Contains(string(page.body), "kist &lt;b&gt;extension"))
	is.True(strings.Contains(string(page.body), code))
	is.True(strings.Contains(string(page.body), "127.0.0.1"))
	_, done := impatient.poll(secret)
	is.True(!done) // looking approves nothing
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}, "Cookie": {cookie}}
	a.do(apiRequest{method: "POST", path: "/device", anyone: true, header: h, body: strings.NewReader(url.Values{"user_code": {code}, "action": {"approve"}}.Encode())}).want(200)

	var wg sync.WaitGroup
	keys := make(chan string, 10)
	for range cap(keys) {
		wg.Go(func() {
			if key, _ := impatient.poll(secret); key != "" {
				keys <- key
			}
		})
	}
	wg.Wait()
	is.Equal(len(keys), 1)
	key := <-keys
	a.do(apiRequest{method: "GET", path: "/api/v1/me", key: key}).want(200)
	a.do(apiRequest{method: "POST", path: "/api/v1/notes", key: key, json: `{"content":"c"}`}).want(201)
	a.do(apiRequest{method: "GET", path: "/api/v1/keys", key: key}).want(403)
	a.do(apiRequest{method: "GET", path: "/api/v1/me/sessions", key: key}).want(403)
	is.Equal(a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/token", anyone: true, json: map[string]string{"device_code": secret}}).want(400).text("error"), "invalid_grant")

	got = begin()
	a.do(as(cookie, "POST", "/api/v1/auth/device/verify", map[string]string{"user_code": got.text("user_code"), "action": "deny"})).want(200)
	is.Equal(a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/token", anyone: true, json: map[string]string{"device_code": got.text("device_code")}}).want(400).text("error"), "access_denied")
	got = begin()
	a.clock.advance(people.DeviceTime)
	is.Equal(a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/token", anyone: true, json: map[string]string{"device_code": got.text("device_code")}}).want(400).text("error"), "expired_token")
	cookie = a.enter("ann", "correct horse") // who approves has signed in within the last ten minutes
	a.do(as(cookie, "GET", "/device?user_code="+got.text("user_code"), nil)).want(404)

	a.clock.advance(limit.GuessWindow) // wrong codes cannot be tried out
	cookie = a.enter("ann", "correct horse")
	for range limit.GuessesFrom {
		a.do(as(cookie, "POST", "/api/v1/auth/device/verify", `{"user_code":"BCDF-BCDF","action":"approve"}`)).want(404)
	}
	is.Equal(a.do(as(cookie, "POST", "/api/v1/auth/device/verify", `{"user_code":"BCDF-BCDF","action":"approve"}`)).want(429).text("error"), "Too many wrong codes. Try again in 5 minutes.")
}

// The page says where a device asks from, as far as that is known.
func TestDeviceAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	a.withPassword(a.user, "correct horse")
	cookie := a.enter("ann", "correct horse")
	for from, want := range map[string]string{
		"192.0.2.7": "The request came from 192.0.2.7 at ", "2001:db8:0:1::7": "The request came from 2001:db8:0:1::7 at ", "": "The request came at ",
	} {
		r := httptest.NewRequest("POST", "/api/v1/auth/device/authorize", strings.NewReader(`{"extension_id":"x"}`))
		r.Host = "localhost"
		r.Header.Set("Content-Type", web.JSONType)
		r.RemoteAddr = "@" // a socket
		if from != "" {
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("X-Forwarded-For", from)
		}
		w := httptest.NewRecorder()
		a.server.ServeHTTP(w, r)
		is.Equal(w.Code, 200)
		var got struct {
			Code string `json:"user_code"`
		}
		is.NoErr(json.Unmarshal(w.Body.Bytes(), &got))
		page := string(a.do(as(cookie, "GET", "/device?user_code="+got.Code, nil)).want(200).body)
		is.True(strings.Contains(page, want))
	}
}

// Requests that wait are bounded, in a way that both clients understand.
func TestDeviceFlowBusy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	ask := func() *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/authorize", anyone: true, json: `{"extension_id":"x"}`})
	}
	begun := time.Now()
	for range 5 {
		is.Equal(ask().want(200).header.Get("Cache-Control"), "no-store")
	}
	got := ask().want(429)
	is.Equal(got.text("error"), "slow_down")
	is.True(got.text("error_description") != "")
	wait, err := strconv.Atoi(got.header.Get("Retry-After")) // until the first of the five is over
	is.NoErr(err)
	is.True(wait <= 600 && wait >= 600-int(time.Since(begun)/time.Second)-1)
	a.clock.advance(people.DeviceTime)
	ask().want(200)
}

// With API keys turned off, for all or for who approves, nobody is let in, and
// each step says so. A request can still be denied.
func TestDeviceFlowOff(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	cookie := a.enter("ann", "correct horse")
	me := "/api/v1/admin/users/" + a.user.ID.String()
	authorize := func() *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/authorize", anyone: true, json: `{"extension_id":"x"}`})
	}
	verify := func(code, action string) *answer {
		return a.do(as(cookie, "POST", "/api/v1/auth/device/verify", map[string]string{"user_code": code, "action": action}))
	}
	poll := func(got *answer) *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/token", anyone: true, json: map[string]string{"device_code": got.text("device_code")}})
	}
	for _, path := range []string{"/api/v1/admin/settings", me} {
		cookie = a.enter("ann", "correct horse")
		approved, waits, denied := authorize().want(200), authorize().want(200), authorize().want(200)
		verify(approved.text("user_code"), "approve").want(200)
		a.do(as(cookie, "PATCH", path, `{"apiTokensDisabled":true}`)).want(200)
		got := poll(approved).want(403)
		is.Equal(got.text("error"), "access_denied")
		is.True(got.text("error_description") != "")
		is.Equal(verify(waits.text("user_code"), "approve").want(403).text("code"), "api_tokens_disabled")
		h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}, "Cookie": {cookie}}
		form := url.Values{"user_code": {waits.text("user_code")}, "action": {"approve"}}
		page := a.do(apiRequest{method: "POST", path: "/device", anyone: true, header: h, body: strings.NewReader(form.Encode())}).want(403)
		is.True(strings.Contains(string(page.body), "API keys are turned off."))
		if path == me { // nothing was decided
			is.Equal(poll(waits).want(400).text("error"), "authorization_pending")
		} else {
			is.Equal(poll(waits).want(403).text("error"), "access_denied")
		}
		verify(denied.text("user_code"), "deny").want(200)
		if path != me {
			is.Equal(authorize().want(403).text("error"), "access_denied")
		}
		a.do(as(cookie, "PATCH", path, `{"apiTokensDisabled":false}`)).want(200)
		poll(approved).want(200)
		a.clock.advance(people.DeviceTime)
	}
}

// What clients of the device flow are answered, to the letter.
func TestDeviceAnswers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	cookie := a.enter("ann", "correct horse")
	send := func(step string, body map[string]string) *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/" + step, anyone: true, json: body})
	}
	begin := func() (code, secret string) {
		got := send("authorize", map[string]string{"extension_id": "kist extension"}).want(200)
		is.Equal(len(parse(t, string(got.body))), 6)
		is.True(regexp.MustCompile("^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$").MatchString(got.text("user_code")))
		is.Equal(got.text("verification_uri"), "https://kist.example.org/device")
		is.Equal(got.text("verification_uri_complete"), "https://kist.example.org/device?user_code="+got.text("user_code"))
		is.Equal(got.at("expires_in"), 600.0)
		is.Equal(got.at("interval"), 5.0)
		return got.text("user_code"), got.text("device_code")
	}
	poll := func(secret string) *answer { return send("token", map[string]string{"device_code": secret}) }
	refused := func(got *answer, status int, code string) {
		t.Helper()
		is.Equal(got.status, status)
		is.Equal(got.text("error"), code)
		is.True(got.text("error_description") != "")
	}

	code, secret := begin()
	got := poll(secret)
	refused(got, 400, "authorization_pending")
	is.Equal(got.at("interval"), 5.0)
	a.clock.advance(people.DeviceInterval) // never too fast
	refused(poll(secret), 400, "authorization_pending")
	got = poll(secret)
	refused(got, 400, "slow_down")
	is.Equal(got.at("interval"), 10.0)

	a.do(as(cookie, "POST", "/api/v1/auth/device/verify", map[string]string{"user_code": code, "action": "approve"})).want(200)
	got = poll(secret).want(200)
	key := got.text("api_key")
	is.True(strings.HasPrefix(key, "kist_"))
	is.Equal(parse(t, string(got.body)), map[string]any{"token_type": "ApiKey", "api_key": key, "expires_in": 2592000.0, "interval": 5.0})
	refused(poll(secret), 400, "invalid_grant")
	made := a.do(as(cookie, "GET", "/api/v1/keys", nil)).want(200).object("data.0")
	is.Equal(made["name"], "kist extension")
	is.Equal(made["scopes"], []any{"read", "write", "upload"})
	use := func() int { return a.do(apiRequest{method: "GET", path: "/api/v1/me", key: key}).status }
	for range 3 { // thirty days from its last use
		a.clock.advance(29 * 24 * time.Hour)
		is.Equal(use(), 200)
		a.flush()
	}
	a.clock.advance(30 * 24 * time.Hour)
	is.Equal(use(), 401)
}

// Clients of the device flow read errors in the form of OAuth alone (RFC 6749,
// section 5.2).
func TestDeviceFlowBadRequests(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for path, bodies := range map[string][]string{
		"authorize": {`{}`, `{"extension_id":""}`, `{"extension_id":7}`, `{"extension_id":"` + strings.Repeat("x", 129) + `"}`, `{`, `[]`},
		"token":     {`{}`, `{"device_code":""}`, `{"device_code":"` + strings.Repeat("x", 257) + `"}`, `{`},
	} {
		for _, body := range bodies {
			got := a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/" + path, anyone: true, json: body, raw: true}).want(400)
			is.Equal(got.text("error"), "invalid_request")
			is.True(got.text("error_description") != "")
		}
	}
	got := a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/authorize", anyone: true, json: `{}`, raw: true})
	is.True(strings.Contains(got.text("error_description"), "xtension_id is required."))
}

// Who signs in where nobody has an account is told how there comes to be one.
func TestSignInBeforeTheClaim(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := startEmpty(t)
	const told = "There is no account yet."
	is.True(strings.Contains(string(a.visit("/login").want(200).body), told))
	a.addUser("ann", people.Admin)
	is.True(!strings.Contains(string(a.visit("/login").want(200).body), told))
}

// A client leaves by taking its own key away, and can take no other.
func TestDeviceRevoke(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	cookie := a.enter("ann", "correct horse")
	connect := func() string {
		got := a.do(apiRequest{method: "POST", path: "/api/v1/auth/device/authorize", anyone: true, json: `{"extension_id":"kist extension"}`}).want(200)
		a.do(as(cookie, "POST", "/api/v1/auth/device/verify", map[string]string{"user_code": got.text("user_code"), "action": "approve"})).want(200)
		key, _ := extension{a}.poll(got.text("device_code"))
		return key
	}
	one, two := connect(), connect()
	const path = "/api/v1/auth/device/revoke"
	a.do(apiRequest{method: "POST", path: path, key: one}).want(200)
	a.as(one).get("/api/v1/notes").want(401)
	a.do(apiRequest{method: "POST", path: path, key: one}).want(401)
	a.as(two).get("/api/v1/notes").want(200)
	is.Equal(a.do(apiRequest{method: "POST", path: path}).want(403).text("code"), "no_device") // a key that was made by hand
	a.get("/api/v1/notes").want(200)
	a.do(as(cookie, "POST", path, nil)).want(403) // nor a session
	a.do(apiRequest{method: "POST", path: path, anyone: true}).want(401)
}
