package apitest

import (
	"net/http"
	"strings"
	"time"

	"kist/kv"
	"kist/kv/people"
)

// withPassword gives a user a password.
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

// cookieOf is the cookie that an answer sets, as the browser sends it; "" if it is
// to forget.
func (got *Answer) CookieOf(name string) string {
	got.App.Helper()
	res := http.Response{Header: got.Header}
	for _, c := range res.Cookies() {
		if c.Name == name {
			if c.MaxAge < 0 {
				return ""
			}
			return c.Name + "=" + c.Value
		}
	}
	got.App.Fatalf("no cookie %s", name)
	return ""
}

const SessionName = "__Host-kist_session"

// enter signs a browser in and returns its cookie.
func (a *App) Enter(name, password string) string {
	a.Helper()
	return a.Do(ApiRequest{Method: "POST", Path: "/api/v1/auth/login", Anyone: true, JSON: map[string]string{"username": name, "password": password}}).Want(200).CookieOf(SessionName)
}

// as is a request of a browser with the cookie, from the server's own pages.
func As(cookie, method, path string, json any) ApiRequest {
	return ApiRequest{Method: method, Path: path, Anyone: true, JSON: json, Header: http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"same-origin"}}}
}

// A client of the device flow that polls as the browser extension does: it
// stops at any error that it does not know, and never asks again.
type Extension struct{ A *App }

func (e Extension) Poll(secret string) (key string, done bool) {
	e.A.Helper()
	got := e.A.Do(ApiRequest{Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true, JSON: map[string]string{"device_code": secret}})
	if got.Status == 200 {
		if got.At("expires_in") != 2592000.0 || got.At("interval") != 5.0 || got.Text("token_type") != "ApiKey" || !strings.HasPrefix(got.Text("api_key"), "kist_") {
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
	got := s.A.Do(ApiRequest{Method: "POST", Path: "/api/v1/auth/device/token", Anyone: true, JSON: map[string]string{"device_code": secret}})
	if got.Status == 200 {
		return got.Text("api_key"), true
	}
	if got.Text("error") == "slow_down" {
		s.Every = got.At("interval").(float64)
	}
	return "", got.Text("error") != "authorization_pending" && got.Text("error") != "slow_down"
}
