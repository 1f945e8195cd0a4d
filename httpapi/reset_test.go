package httpapi

import (
	"net/url"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/people"
)

func TestResetLogin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addUser("bob", people.Member)
	a.withPassword(bob, "correct horse")
	cookie := a.enter("bob", "correct horse")
	a.codesOn(cookie)
	path := "/api/v1/admin/users/" + bob.ID.String() + "/reset-login"
	a.do(as(cookie, "POST", path, nil)).want(403)
	a.post("/api/v1/admin/users/01890a5d-ac96-774b-bcce-b302099a8057/reset-login", nil).want(404)
	link := strings.TrimPrefix(a.post(path, nil).want(200).text("url"), "https://kist.example.org")
	a.do(as(cookie, "GET", "/api/v1/me", nil)).want(401)
	a.do(apiRequest{method: "POST", path: "/api/v1/auth/login", anyone: true, json: `{"username":"bob","password":"correct horse"}`}).want(401)
	post := func(path, password, repeat, site string) *answer {
		h := withHeader("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", site, "Accept", "text/html")
		return a.do(apiRequest{method: "POST", path: path, anyone: true, header: h, body: strings.NewReader(url.Values{"password": {password}, "repeat": {repeat}}.Encode())})
	}
	page := a.visit(link, "Accept", "text/html").want(200)
	is.True(strings.Contains(string(page.body), "bob"))
	is.Equal(page.header.Get("Cache-Control"), "no-store")
	a.visit(link[:len(link)-1]+"!", "Accept", "text/html").want(404)
	is.True(strings.Contains(string(post(link, "short", "short", "same-origin").want(422).body), "password-error"))
	is.True(strings.Contains(string(post(link, "another horse", "other", "same-origin").want(422).body), "repeat-error"))
	post(link, "another horse", "another horse", "cross-site").want(403)
	got := post(link, "another horse", "another horse", "same-origin").want(303)
	a.do(as(got.cookieOf(sessionName), "GET", "/api/v1/me", nil)).want(200)
	post(link, "another horse", "another horse", "same-origin").want(404) // once
	a.enter("bob", "another horse")
	is.True(!strings.Contains(a.log.String(), link[len(link)-20:]))

	late := strings.TrimPrefix(a.post(path, nil).want(200).text("url"), "https://kist.example.org")
	a.clock.advance(people.ResetTime)
	a.visit(late).want(404)
	off := strings.TrimPrefix(a.post(path, nil).want(200).text("url"), "https://kist.example.org")
	a.patch("/api/v1/admin/users/"+bob.ID.String(), `{"disabled":true}`).want(200)
	a.visit(off).want(404)
}
