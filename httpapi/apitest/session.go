package apitest

import (
	"encoding/base32"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// WithPassword gives a user a password.
func (a *App) WithPassword(u *people.User, password string) {
	a.Helper()
	hash, err := a.Server.Passwords.Hash(a.Context(), "", password)
	a.NoErr(err)
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, u.ID)
		if err != nil {
			return err
		}
		u.Password = hash
		return people.SaveUser(tx, u)
	}))
}

const SessionName = "__Host-kist_session"

// Enter signs a browser in and returns its cookie.
func (a *App) Enter(name, password string) string {
	a.Helper()
	return a.Do(Request{
		Method: "POST", Path: "/api/v1/auth/login", Anyone: true,
		JSON: map[string]string{"username": name, "password": password},
	}).Want(200).CookieOf(SessionName)
}

// As is a request of a browser with the cookie, from the server's own pages.
func As(cookie, method, path string, json any) Request {
	return Request{
		Method: method, Path: path, Anyone: true, JSON: json,
		Header: http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"same-origin"}},
	}
}

// A client of the device flow that polls as the browser extension does: it
// stops at any error that it does not know, and never asks again.
type Extension struct{ A *App }

func (e Extension) Poll(secret string) (key string, done bool) {
	e.A.Helper()
	got := e.A.Do(Request{
		Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true, JSON: map[string]string{"device_code": secret},
	})
	if got.Status == 200 {
		if got.At("expires_in") != 2592000.0 || got.At("interval") != 5.0 || got.Text("token_type") != "ApiKey" ||
			!strings.HasPrefix(got.Text("api_key"), "kist_") {
			e.A.Errorf("the client takes no such answer: %s", got.Body)
		}
		return got.Text("api_key"), true
	}
	switch got.Text("error") {
	case "authorization_pending", "slow_down":
		return "", false
	}
	return "", true
}

// And one that raises its interval by what it is told.
type Script struct {
	A     *App
	Every float64
}

func (s *Script) Poll(secret string) (key string, done bool) {
	s.A.Helper()
	s.A.Clock.Advance(time.Duration(s.Every * float64(time.Second)))
	got := s.A.Do(Request{
		Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true, JSON: map[string]string{"device_code": secret},
	})
	if got.Status == 200 {
		return got.Text("api_key"), true
	}
	if got.Text("error") == "slow_down" {
		s.Every = got.At("interval").(float64)
	}
	return "", got.Text("error") != "authorization_pending" && got.Text("error") != "slow_down"
}

// Login signs in from an address, with further headers.
func Login(a *App, from, name, password string, header ...string) *Answer {
	a.Helper()
	return a.Do(Request{
		Method: "POST", Path: "/api/v1/auth/login", Anyone: true, JSON: map[string]string{"username": name, "password": password},
		Header: WithHeader(append([]string{"X-Forwarded-For", from}, header...)...),
	})
}

// CodesOn sets up one-time codes in the browser with the cookie. It moves the clock to the beginning of a time step:
// a code of the step before must not grow too old between here and the server.
func (a *App) CodesOn(cookie string) (code func(steps int) string, recovery []string) {
	a.Helper()
	now := a.Clock.Now()
	a.Clock.Advance(now.Truncate(30 * time.Second).Add(30 * time.Second).Sub(now))
	got := a.Do(As(cookie, "POST", "/api/v1/me/codes", nil)).Want(200)
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(got.Text("secret"))
	a.NoErr(err)
	code = func(steps int) string {
		return people.OneTimeCode(secret, a.Clock.Now().Add(time.Duration(steps)*30*time.Second))
	}
	got = a.Do(As(
		cookie, "PUT", "/api/v1/me/codes", map[string]string{"secret": got.Text("secret"), "code": code(-1)},
	)).Want(200)
	for _, v := range got.At("recoveryCodes").([]any) {
		recovery = append(recovery, v.(string))
	}
	return code, recovery
}

// Session is the secret of a new session of the app's user.
func (a *App) Session() (secret string) {
	a.Helper()
	return a.SessionOf(a.User)
}

// SessionOf is Session for another account.
func (a *App) SessionOf(u *people.User) (secret string) {
	a.Helper()
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) {
		_, secret, err = people.AddSession(tx, u.ID, "test", "127.0.0.1", tx.Now)
		return err
	}))
	return secret
}

// Guessed counts a wrong password for a thing, as if a visitor from the network
// had sent it.
func (a *App) Guessed(network, at string) {
	a.Helper()
	people.TriesOf(a.Server.Store).Settle(a.Server.Store.Now(), false,
		people.Limit{
			Kind: limit.KindFrom, Of: network + " " + at,
		}, people.Limit{Kind: limit.KindAll, Of: network}, people.Limit{Kind: limit.KindOverall, Of: at})
}

// BehindProxy has the server believe X-Forwarded-For, so that a test has many
// addresses.
func BehindProxy(c *web.Config) {
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// Flood sends sign-ins with ever new names until the returned function is
// called: from one address, or each from the next of many.
func (a *App) Flood(connections int, from func(n int) string) (end func()) {
	var stop atomic.Bool
	var n atomic.Int64
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for !stop.Load() {
				i := int(n.Add(1))
				body := fmt.Sprintf(`{"username":"u%d","password":"wrong horse"}`, i)
				req, err := http.NewRequestWithContext(a.Context(), "POST", a.URL+"/api/v1/auth/login", strings.NewReader(body))
				if err != nil {
					a.Error(err)
					return
				}
				req.Header = http.Header{"Content-Type": {web.JSONType}, "X-Forwarded-For": {from(i)}}
				res, err := Plain.Do(req)
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
