package session_test

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

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	login := func(name, password string) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/login", Anyone: true,
			JSON: map[string]string{"username": name, "password": password},
		})
	}
	got := login("ann", "wrong horse").Want(401)
	is.Equal(got.Text("code"), "wrong_login")
	is.Equal(got.Header.Get("Set-Cookie"), "")
	is.Equal(string(login("nobody", "wrong horse").Want(401).Body[:60]), string(got.Body[:60])) // one answer for both
	is.Equal(strings.Count(a.Logged.String(), `"msg":"sign-in failed","client":"127.0.0.1","user":"`), 2)

	got = login("Ann", "correct horse").Want(200)
	is.Equal(got.Text("data.username"), "ann")
	cookie := got.Header.Get("Set-Cookie")
	for _, part := range []string{
		apitest.SessionName + "=kist_", "Path=/", "Max-Age=2592000", "HttpOnly", "Secure", "SameSite=Lax",
	} {
		is.True(strings.Contains(cookie, part))
	}
	mine := got.CookieOf(apitest.SessionName)
	is.Equal(a.Do(apitest.As(mine, "GET", "/api/v1/me", nil)).Want(200).Text("data.username"), "ann")
	a.Do(apitest.As(mine, "POST", "/api/v1/notes", `{"content":"c"}`)).Want(201)
	a.Do(apitest.As(mine, "GET", "/api/v1/admin/users", nil)).Want(200)
	is.True(!strings.Contains(a.Logged.String(), "correct horse"))
	is.True(!strings.Contains(a.Logged.String(), strings.TrimPrefix(mine, apitest.SessionName+"=")))

	// The secret is no API key, and a bad key beside a good cookie is refused.
	a.Do(apitest.Request{
		Method: "GET", Path: "/api/v1/me", Key: strings.TrimPrefix(mine, apitest.SessionName+"="),
	}).Want(401)
	q := apitest.As(mine, "GET", "/api/v1/me", nil)
	q.Header.Set("X-Api-Key", "kist_bad")
	a.Do(q).Want(401)

	// Signing in again ends the session that the browser had.
	q = apitest.As(mine, "POST", "/api/v1/auth/login", map[string]string{"username": "ann", "password": "correct horse"})
	next := a.Do(q).Want(200).CookieOf(apitest.SessionName)
	is.True(next != mine)
	a.Do(apitest.As(mine, "GET", "/api/v1/me", nil)).Want(401)

	other := a.Enter("ann", "correct horse")
	list := a.Do(apitest.As(next, "GET", "/api/v1/me/sessions", nil)).Want(200)
	is.Equal(list.At("total"), 2.0)
	for _, v := range list.At("data").([]any) {
		if s := v.(map[string]any); s["current"] == false {
			a.Do(apitest.As(next, "DELETE", "/api/v1/me/sessions/"+s["id"].(string), nil)).Want(200)
		}
	}
	a.Do(apitest.As(other, "GET", "/api/v1/me", nil)).Want(401)
	other = a.Enter("ann", "correct horse")
	a.Do(apitest.As(next, "DELETE", "/api/v1/me/sessions", nil)).Want(200)
	a.Do(apitest.As(other, "GET", "/api/v1/me", nil)).Want(401)

	// A new password ends all others and gives this browser a new session.
	other = a.Enter("ann", "correct horse")
	got = a.Do(apitest.As(
		next, "PATCH", "/api/v1/me", map[string]string{"password": "battery staple", "currentPassword": "correct horse"},
	)).Want(200)
	again := got.CookieOf(apitest.SessionName)
	a.Do(apitest.As(next, "GET", "/api/v1/me", nil)).Want(401)
	a.Do(apitest.As(other, "GET", "/api/v1/me", nil)).Want(401)
	a.Do(apitest.As(again, "GET", "/api/v1/me", nil)).Want(200)

	a.Enter("ann ", "battery staple") // as keyboards of telephones complete it

	got = a.Do(apitest.As(again, "POST", "/api/v1/auth/logout", nil)).Want(200)
	is.Equal(got.CookieOf(apitest.SessionName), "")
	replayed := a.Do(apitest.As(again, "GET", "/api/v1/me", nil)).Want(401)
	is.Equal(replayed.Text("code"), "session_ended")
	is.Equal(replayed.Text("error"), "This session has ended; sign in again.")
	a.Do(apitest.As(again, "POST", "/api/v1/auth/logout", nil)).Want(200)
}

// What another site has a browser send is refused wherever the cookie would
// count, and where one would be set; keys are not a browser's to send.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	cookie := a.Enter("ann", "correct horse")
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
			for _, q := range []apitest.Request{
				{Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"c"}`},
				{Method: "DELETE", Path: "/api/v1/notes/" + "01890a5d-ac96-774b-bcce-b302099a8057"},
				{Method: "PATCH", Path: "/api/v1/me", JSON: `{"displayName":"x"}`},
				{Method: "POST", Path: "/api/v1/auth/login", JSON: `{"username":"ann","password":"correct horse"}`},
				{Method: "POST", Path: "/api/v1/auth/logout"},
				{Method: "POST", Path: "/api/v1/auth/device/verify", JSON: `{"user_code":"BCDF-BCDF","action":"approve"}`},
				{Method: "POST", Path: "/logout"},
			} {
				q.Anyone, q.Header = true, h.Clone()
				is.Equal(a.Do(q).Want(403).Header.Get("Set-Cookie"), "")
			}
			h.Del("Cookie")
			a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"c"}`, Header: h}).Want(201)
		})
	}
	h := http.Header{"Cookie": {cookie}, "Origin": {"https://kist.example.org"}} // a proxy has changed the Host
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/notes", JSON: `{"content":"c"}`, Anyone: true, Header: h,
	}).Want(201)
	a.Do(apitest.As(cookie, "GET", "/api/v1/me", nil)).Want(200)
}

// A user who is no administrator manages keys and sessions of their own in a
// browser, and nothing more; turning keys off does not shut browsers out.
func TestSessionOfAUser(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	a.WithPassword(bob, "correct horse")
	cookie := a.Enter("bob", "correct horse")
	key := a.Do(apitest.As(cookie, "POST", "/api/v1/keys", `{"name":"k"}`)).Want(201).Text("key")
	is.Equal(a.Do(apitest.As(cookie, "GET", "/api/v1/keys", nil)).Want(200).At("total"), 1.0)
	a.Do(apitest.As(cookie, "GET", "/api/v1/admin/users", nil)).Want(403)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Key: key}).Want(200)
	a.Do(apitest.Request{Method: "PATCH", Path: "/api/v1/admin/settings", JSON: `{"apiTokensDisabled":true}`}).Want(200)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Key: key}).Want(401)
	a.Do(apitest.As(cookie, "GET", "/api/v1/me", nil)).Want(200)
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, bob.ID)
		if err != nil {
			return err
		}
		u.Disabled = true
		return people.SaveUser(tx, u)
	}))
	a.Do(apitest.As(cookie, "GET", "/api/v1/me", nil)).Want(401)
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/login", Anyone: true, JSON: `{"username":"bob","password":"correct horse"}`,
	}).Want(401)
}

// Passwords cannot be tried out, whether the name is there or not.
func TestSignInThrottle(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	try := func(name, password string) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/login", Anyone: true,
			JSON: map[string]string{"username": name, "password": password},
		})
	}
	for _, name := range []string{"ann", "nobody"} {
		for range limit.GuessesFrom {
			try(name, "wrong horse").Want(401)
		}
		got := try(name, "correct horse").Want(429)
		is.True(got.Header.Get("Retry-After") != "")
	}
	a.Clock.Advance(limit.GuessWindow)
	try("ann", "correct horse").Want(200)
}

// The pages sign in and out without scripts, and lead on within the server
// alone.
func TestSignInPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	post := func(path, cookie string, values url.Values) *apitest.Answer {
		h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}}
		if cookie != "" {
			h.Set("Cookie", cookie)
		}
		return a.Do(apitest.Request{
			Method: "POST", Path: path, Anyone: true, Header: h, Body: strings.NewReader(values.Encode()),
		})
	}
	for next, to := range map[string]string{
		"/files?x=1": "/files?x=1", "/device?user_code=BCDF-GHJK": "/device?user_code=BCDF-GHJK", "": "/",
		"//evil.example": "/", "/\\evil.example": "/", "https://evil.example/": "/", "javascript:alert(1)": "/", "/a\r\nSet-Cookie: x=1": "/", "/\t/evil.example": "/", "evil": "/",
	} {
		page := a.Do(apitest.Request{Method: "GET", Path: "/login?next=" + url.QueryEscape(next), Anyone: true}).Want(200)
		is.True(strings.Contains(string(page.Body), "password"))
		got := post("/login", "", url.Values{"username": {"ann"}, "password": {"correct horse"}, "next": {next}}).Want(303)
		is.Equal(got.Header.Get("Location"), to)
	}
	got := post("/login", "", url.Values{"username": {`"><b>ann`}, "password": {"wrong"}, "next": {"/files"}}).Want(401)
	is.True(!strings.Contains(string(got.Body), "<b>"))
	is.True(strings.Contains(string(got.Body), `value="/files"`))
	cookie := a.Enter("ann", "correct horse")
	is.Equal(a.Do(apitest.As(cookie, "GET", "/login?next=/files", nil)).Want(303).Header.Get("Location"), "/files")
	got = post("/logout", cookie, nil).Want(303)
	is.Equal(got.CookieOf(apitest.SessionName), "")
	is.Equal(
		a.Do(apitest.As(cookie, "GET", "/device?user_code=bcdfghjk", nil)).Want(303).Header.Get("Location"),
		"/login?next=%2Fdevice%3Fuser_code%3DBCDF-GHJK",
	)
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
			a := apitest.Start(t)
			a.WithPassword(a.User, "correct horse")
			cookie := a.Enter("ann", "correct horse")
			got := a.Do(apitest.Request{
				Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: map[string]string{"extension_id": id},
			}).Want(200)
			page := html.UnescapeString(string(a.Do(apitest.As(
				cookie, "GET", "/device?user_code="+got.Text("user_code"), nil,
			)).Want(200).Body))
			is.True(strings.Contains(page, name))
			is.Equal(strings.Contains(page, id), id == name)
			h := http.Header{
				"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}, "Cookie": {cookie},
			}
			form := url.Values{"user_code": {got.Text("user_code")}, "action": {"approve"}}
			done := a.Do(apitest.Request{
				Method: "POST", Path: "/device", Anyone: true, Header: h, Body: strings.NewReader(form.Encode()),
			}).Want(200)
			is.True(strings.Contains(html.UnescapeString(string(done.Body)), name+" is connected to your account."))
			key := a.Do(apitest.Request{
				Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true,
				JSON: map[string]string{"device_code": got.Text("device_code")},
			}).Want(200)
			is.True(key.Text("api_key") != "")
			keys := a.Do(apitest.As(cookie, "GET", "/api/v1/keys", nil)).Want(200)
			var shown []string
			for i := range keys.At("data").([]any) {
				if keys.Text(fmt.Sprintf("data.%d.device", i)) != "" {
					shown = append(shown, keys.Text(fmt.Sprintf("data.%d.name", i)))
				}
			}
			is.Equal(shown, []string{name})
		})
	}
}

func TestDeviceFlow(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	cookie := a.Enter("ann", "correct horse")
	begin := func() *apitest.Answer {
		got := a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: `{"extension_id":"kist <b>extension"}`,
		}).Want(200)
		for _, name := range []string{
			"device_code", "user_code", "verification_uri", "verification_uri_complete", "expires_in", "interval",
		} {
			is.True(got.At(name) != nil)
		}
		is.Equal(got.At("expires_in"), 600.0)
		is.Equal(got.At("interval"), 5.0)
		is.Equal(got.Text("verification_uri_complete"), "https://kist.example.org/device?user_code="+got.Text("user_code"))
		return got
	}
	got := begin()
	code, secret := got.Text("user_code"), got.Text("device_code")
	impatient, patient := apitest.Extension{A: a}, &apitest.Script{A: a, Every: 1}
	for range 3 {
		_, done := impatient.Poll(secret)
		is.True(!done)
	}
	for range 3 {
		_, done := patient.Poll(secret)
		is.True(!done)
	}
	is.True(patient.Every >= 10)

	// no API key decides
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/device/verify", JSON: map[string]string{"user_code": code, "action": "approve"},
	}).Want(403)
	page := a.Do(apitest.As(cookie, "GET", "/device?user_code="+strings.ToLower(code), nil)).Want(200)
	is.True(strings.Contains(string(page.Body), "kist &lt;b&gt;extension"))
	is.True(strings.Contains(string(page.Body), code))
	is.True(strings.Contains(string(page.Body), "127.0.0.1"))
	_, done := impatient.Poll(secret)
	is.True(!done) // looking approves nothing
	h := http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}, "Cookie": {cookie},
	}
	a.Do(apitest.Request{
		Method: "POST", Path: "/device", Anyone: true, Header: h,
		Body: strings.NewReader(url.Values{"user_code": {code}, "action": {"approve"}}.Encode()),
	}).Want(200)

	var wg sync.WaitGroup
	keys := make(chan string, 10)
	for range cap(keys) {
		wg.Go(func() {
			if key, _ := impatient.Poll(secret); key != "" {
				keys <- key
			}
		})
	}
	wg.Wait()
	is.Equal(len(keys), 1)
	key := <-keys
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Key: key}).Want(200)
	a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes", Key: key, JSON: `{"content":"c"}`}).Want(201)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/keys", Key: key}).Want(403)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me/sessions", Key: key}).Want(403)
	is.Equal(
		a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true, JSON: map[string]string{"device_code": secret},
		}).Want(400).Text("error"),
		"invalid_grant",
	)

	got = begin()
	a.Do(apitest.As(
		cookie, "POST", "/api/v1/auth/device/verify", map[string]string{"user_code": got.Text("user_code"), "action": "deny"},
	)).Want(200)
	is.Equal(
		a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true,
			JSON: map[string]string{"device_code": got.Text("device_code")},
		}).Want(400).Text("error"),
		"access_denied",
	)
	got = begin()
	a.Clock.Advance(people.DeviceTime)
	is.Equal(
		a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true,
			JSON: map[string]string{"device_code": got.Text("device_code")},
		}).Want(400).Text("error"),
		"expired_token",
	)
	cookie = a.Enter("ann", "correct horse") // who approves has signed in within the last ten minutes
	a.Do(apitest.As(cookie, "GET", "/device?user_code="+got.Text("user_code"), nil)).Want(404)

	a.Clock.Advance(limit.GuessWindow) // wrong codes cannot be tried out
	cookie = a.Enter("ann", "correct horse")
	for range limit.GuessesFrom {
		a.Do(apitest.As(
			cookie, "POST", "/api/v1/auth/device/verify", `{"user_code":"BCDF-BCDF","action":"approve"}`,
		)).Want(404)
	}
	is.Equal(
		a.Do(apitest.As(
			cookie, "POST", "/api/v1/auth/device/verify", `{"user_code":"BCDF-BCDF","action":"approve"}`,
		)).Want(429).Text("error"),
		"Too many wrong codes. Try again in 5 minutes.",
	)
}

// The page says where a device asks from, as far as that is known.
func TestDeviceAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	a.WithPassword(a.User, "correct horse")
	cookie := a.Enter("ann", "correct horse")
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
		a.Server.ServeHTTP(w, r)
		is.Equal(w.Code, 200)
		var got struct {
			Code string `json:"user_code"`
		}
		is.NoErr(json.Unmarshal(w.Body.Bytes(), &got))
		page := string(a.Do(apitest.As(cookie, "GET", "/device?user_code="+got.Code, nil)).Want(200).Body)
		is.True(strings.Contains(page, want))
	}
}

// Requests that wait are bounded, in a way that both clients understand.
func TestDeviceFlowBusy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	ask := func() *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: `{"extension_id":"x"}`,
		})
	}
	begun := time.Now()
	for range 5 {
		is.Equal(ask().Want(200).Header.Get("Cache-Control"), "no-store")
	}
	got := ask().Want(429)
	is.Equal(got.Text("error"), "slow_down")
	is.True(got.Text("error_description") != "")
	wait, err := strconv.Atoi(got.Header.Get("Retry-After")) // until the first of the five is over
	is.NoErr(err)
	is.True(wait <= 600 && wait >= 600-int(time.Since(begun)/time.Second)-1)
	a.Clock.Advance(people.DeviceTime)
	ask().Want(200)
}

// With API keys turned off, for all or for who approves, nobody is let in, and
// each step says so. A request can still be denied.
func TestDeviceFlowOff(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	cookie := a.Enter("ann", "correct horse")
	me := "/api/v1/admin/users/" + a.User.ID.String()
	authorize := func() *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: `{"extension_id":"x"}`,
		})
	}
	verify := func(code, action string) *apitest.Answer {
		return a.Do(apitest.As(
			cookie, "POST", "/api/v1/auth/device/verify", map[string]string{"user_code": code, "action": action},
		))
	}
	poll := func(got *apitest.Answer) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true,
			JSON: map[string]string{"device_code": got.Text("device_code")},
		})
	}
	for _, path := range []string{"/api/v1/admin/settings", me} {
		cookie = a.Enter("ann", "correct horse")
		approved, waits, denied := authorize().Want(200), authorize().Want(200), authorize().Want(200)
		verify(approved.Text("user_code"), "approve").Want(200)
		a.Do(apitest.As(cookie, "PATCH", path, `{"apiTokensDisabled":true}`)).Want(200)
		got := poll(approved).Want(403)
		is.Equal(got.Text("error"), "access_denied")
		is.True(got.Text("error_description") != "")
		is.Equal(verify(waits.Text("user_code"), "approve").Want(403).Text("code"), "api_tokens_disabled")
		h := http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}, "Cookie": {cookie},
		}
		form := url.Values{"user_code": {waits.Text("user_code")}, "action": {"approve"}}
		page := a.Do(apitest.Request{
			Method: "POST", Path: "/device", Anyone: true, Header: h, Body: strings.NewReader(form.Encode()),
		}).Want(403)
		is.True(strings.Contains(string(page.Body), "API keys are turned off."))
		if path == me { // nothing was decided
			is.Equal(poll(waits).Want(400).Text("error"), "authorization_pending")
		} else {
			is.Equal(poll(waits).Want(403).Text("error"), "access_denied")
		}
		verify(denied.Text("user_code"), "deny").Want(200)
		if path != me {
			is.Equal(authorize().Want(403).Text("error"), "access_denied")
		}
		a.Do(apitest.As(cookie, "PATCH", path, `{"apiTokensDisabled":false}`)).Want(200)
		poll(approved).Want(200)
		a.Clock.Advance(people.DeviceTime)
	}
}

// What clients of the device flow are answered, to the letter.
func TestDeviceAnswers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	cookie := a.Enter("ann", "correct horse")
	send := func(step string, body map[string]string) *apitest.Answer {
		return a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/device/" + step, Anyone: true, JSON: body})
	}
	begin := func() (code, secret string) {
		got := send("authorize", map[string]string{"extension_id": "kist extension"}).Want(200)
		is.Equal(len(apitest.Parse(t, string(got.Body))), 6)
		is.True(regexp.MustCompile("^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$").MatchString(got.Text("user_code")))
		is.Equal(got.Text("verification_uri"), "https://kist.example.org/device")
		is.Equal(got.Text("verification_uri_complete"), "https://kist.example.org/device?user_code="+got.Text("user_code"))
		is.Equal(got.At("expires_in"), 600.0)
		is.Equal(got.At("interval"), 5.0)
		return got.Text("user_code"), got.Text("device_code")
	}
	poll := func(secret string) *apitest.Answer { return send("token", map[string]string{"device_code": secret}) }
	refused := func(got *apitest.Answer, status int, code string) {
		t.Helper()
		is.Equal(got.Status, status)
		is.Equal(got.Text("error"), code)
		is.True(got.Text("error_description") != "")
	}

	code, secret := begin()
	got := poll(secret)
	refused(got, 400, "authorization_pending")
	is.Equal(got.At("interval"), 5.0)
	a.Clock.Advance(people.DeviceInterval) // never too fast
	refused(poll(secret), 400, "authorization_pending")
	got = poll(secret)
	refused(got, 400, "slow_down")
	is.Equal(got.At("interval"), 10.0)

	a.Do(apitest.As(
		cookie, "POST", "/api/v1/auth/device/verify", map[string]string{"user_code": code, "action": "approve"},
	)).Want(200)
	got = poll(secret).Want(200)
	key := got.Text("api_key")
	is.True(strings.HasPrefix(key, "kist_"))
	is.Equal(
		apitest.Parse(t, string(got.Body)),
		map[string]any{
			"token_type": "ApiKey", "api_key": key, "access_token": key, "scope": "read write upload",
			"expires_in": 2592000.0, "interval": 5.0,
		},
	)
	refused(poll(secret), 400, "invalid_grant")
	made := a.Do(apitest.As(cookie, "GET", "/api/v1/keys", nil)).Want(200).Object("data.0")
	is.Equal(made["name"], "kist extension")
	is.Equal(made["scopes"], []any{"read", "write", "upload"})
	use := func() int { return a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Key: key}).Status }
	for range 3 { // thirty days from its last use
		a.Clock.Advance(29 * 24 * time.Hour)
		is.Equal(use(), 200)
		a.Flush()
	}
	a.Clock.Advance(30 * 24 * time.Hour)
	is.Equal(use(), 401)
}

// Libraries for OAuth send forms, and read their own names (RFC 8628, sections 3.1 and 3.4).
func TestDeviceFlowOfLibraries(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	cookie := a.Enter("ann", "correct horse")
	send := func(step, form string) *apitest.Answer {
		t.Helper()
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/" + step, Anyone: true, Body: strings.NewReader(form), Raw: true,
			Header: apitest.WithHeader("Content-Type", "application/x-www-form-urlencoded"),
		})
	}
	const grant = "&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code"
	foreign := a.Do(apitest.Request{ // a page of another site needs nobody's consent for this
		Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, Body: strings.NewReader("client_id=x"), Raw: true,
		Header: apitest.WithHeader("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site"),
	}).Want(400)
	is.Equal(foreign.Text("error_description"), "The request comes from another site.")
	begun := send("authorize", "client_id=Some+tool&scope=read").Want(200)
	poll := "client_id=Some+tool" + grant + "&device_code=" + begun.Text("device_code")
	is.Equal(send("token", poll).Want(400).Text("error"), "authorization_pending")
	is.Equal(send("token", strings.Replace(poll, "device_code", "password", 1)).Want(400).Text("error"), "unsupported_grant_type")
	a.Do(apitest.As(cookie, "POST", "/api/v1/auth/device/verify", map[string]string{
		"user_code": begun.Text("user_code"), "action": "approve",
	})).Want(200)
	a.Clock.Advance(2 * people.DeviceInterval)
	got := send("token", poll).Want(200)
	is.Equal(got.Text("token_type"), "Bearer") // the only type that they know
	is.Equal(got.Text("access_token"), got.Text("api_key"))
	is.Equal(got.Text("scope"), "read write upload")
	is.Equal(got.Header.Get("Cache-Control"), "no-store")
	a.Do(apitest.Request{
		Method: "GET", Path: "/api/v1/me", Anyone: true, Header: apitest.WithHeader("Authorization", "Bearer "+got.Text("access_token")),
	}).Want(200)
	is.Equal(a.Do(apitest.As(cookie, "GET", "/api/v1/keys", nil)).Want(200).Text("data.0.name"), "Some tool")
	is.Equal(send("token", poll).Want(400).Text("error"), "invalid_grant")

	for step, forms := range map[string][]string{
		"authorize": {"", "scope=read", "client_id=", "client_id=a&client_id=b", "client_id=%zz", "client_id=%00"},
		"token":     {"", grant[1:], "client_id=a" + grant, "device_code=", "device_code=a&device_code=b"},
	} {
		for _, form := range forms {
			if got := send(step, form); got.Status != 400 || got.Text("error") != "invalid_request" {
				t.Errorf("%s %q: %d %s", step, form, got.Status, apitest.CutText(got.Body))
			}
		}
	}
}

// Clients of the device flow read errors in the form of OAuth alone (RFC 6749,
// section 5.2).
func TestDeviceFlowBadRequests(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for path, bodies := range map[string][]string{
		"authorize": {
			`{}`, `{"extension_id":""}`, `{"extension_id":7}`, `{"extension_id":"` + strings.Repeat("x", 129) + `"}`, `{`, `[]`,
		},
		"token": {`{}`, `{"device_code":""}`, `{"device_code":"` + strings.Repeat("x", 257) + `"}`, `{`},
	} {
		for _, body := range bodies {
			got := a.Do(apitest.Request{
				Method: "POST", Path: "/api/v1/auth/device/" + path, Anyone: true, JSON: body, Raw: true,
			}).Want(400)
			is.Equal(got.Text("error"), "invalid_request")
			is.True(got.Text("error_description") != "")
		}
	}
	got := a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: `{}`, Raw: true,
	})
	is.True(strings.Contains(got.Text("error_description"), "xtension_id is required."))
}

// Who signs in where nobody has an account is told how there comes to be one.
func TestSignInBeforeTheClaim(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.StartEmpty(t)
	const told = "There is no account yet."
	is.True(strings.Contains(string(a.Visit("/login").Want(200).Body), told))
	a.AddUser("ann", people.Admin)
	is.True(!strings.Contains(string(a.Visit("/login").Want(200).Body), told))
}

// A client leaves by taking its own key away, and can take no other.
func TestDeviceRevoke(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.WithPassword(a.User, "correct horse")
	cookie := a.Enter("ann", "correct horse")
	connect := func() string {
		got := a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/auth/device/authorize", Anyone: true, JSON: `{"extension_id":"kist extension"}`,
		}).Want(200)
		a.Do(apitest.As(
			cookie, "POST", "/api/v1/auth/device/verify",
			map[string]string{"user_code": got.Text("user_code"), "action": "approve"},
		)).Want(200)
		key, _ := apitest.Extension{A: a}.Poll(got.Text("device_code"))
		return key
	}
	one, two := connect(), connect()
	const path = "/api/v1/auth/device/revoke"
	a.Do(apitest.Request{Method: "POST", Path: path, Key: one}).Want(200)
	a.As(one).Get("/api/v1/notes").Want(401)
	a.Do(apitest.Request{Method: "POST", Path: path, Key: one}).Want(401)
	a.As(two).Get("/api/v1/notes").Want(200)
	// a key that was made by hand
	is.Equal(a.Do(apitest.Request{Method: "POST", Path: path}).Want(403).Text("code"), "no_device")
	a.Get("/api/v1/notes").Want(200)
	a.Do(apitest.As(cookie, "POST", path, nil)).Want(403) // nor a session
	a.Do(apitest.Request{Method: "POST", Path: path, Anyone: true}).Want(401)
}
