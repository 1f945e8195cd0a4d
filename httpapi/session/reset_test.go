package session_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

func TestResetLogin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	a.WithPassword(bob, "correct horse")
	cookie := a.Enter("bob", "correct horse")
	a.CodesOn(cookie)
	path := "/api/v1/admin/users/" + bob.ID.String() + "/reset-login"
	a.Do(apitest.As(cookie, "POST", path, nil)).Want(403)
	a.Post("/api/v1/admin/users/01890a5d-ac96-774b-bcce-b302099a8057/reset-login", nil).Want(404)
	link := strings.TrimPrefix(a.Post(path, nil).Want(200).Text("url"), "https://kist.example.org")
	a.Do(apitest.As(cookie, "GET", "/api/v1/me", nil)).Want(401)
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/login", Anyone: true, JSON: `{"username":"bob","password":"correct horse"}`,
	}).Want(401)
	post := func(path, password, repeat, site string) *apitest.Answer {
		h := apitest.WithHeader(
			"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", site, "Accept", "text/html",
		)
		return a.Do(apitest.Request{
			Method: "POST", Path: path, Anyone: true, Header: h,
			Body: strings.NewReader(url.Values{"password": {password}, "repeat": {repeat}}.Encode()),
		})
	}
	page := a.Visit(link, "Accept", "text/html").Want(200)
	is.True(strings.Contains(string(page.Body), "bob"))
	is.Equal(page.Header.Get("Cache-Control"), "no-store")
	a.Visit(link[:len(link)-1]+"!", "Accept", "text/html").Want(404)
	is.True(strings.Contains(string(post(link, "short", "short", "same-origin").Want(422).Body), "password-error"))
	is.True(strings.Contains(string(post(link, "another horse", "other", "same-origin").Want(422).Body), "repeat-error"))
	post(link, "another horse", "another horse", "cross-site").Want(403)
	got := post(link, "another horse", "another horse", "same-origin").Want(303)
	a.Do(apitest.As(got.CookieOf(apitest.SessionName), "GET", "/api/v1/me", nil)).Want(200)
	post(link, "another horse", "another horse", "same-origin").Want(404) // once
	a.Enter("bob", "another horse")
	is.True(!strings.Contains(a.Logged.String(), link[len(link)-20:]))

	late := strings.TrimPrefix(a.Post(path, nil).Want(200).Text("url"), "https://kist.example.org")
	a.Clock.Advance(people.ResetTime)
	a.Visit(late).Want(404)
	off := strings.TrimPrefix(a.Post(path, nil).Want(200).Text("url"), "https://kist.example.org")
	a.Patch("/api/v1/admin/users/"+bob.ID.String(), `{"disabled":true}`).Want(200)
	a.Visit(off).Want(404)
}
