package api_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/people"
)

const invitationsPath = "/api/v1/admin/invitations"

// tokenOf makes an invitation and returns the secret of its link.
func tokenOf(a *apitest.App, body string) string {
	a.Helper()
	link := a.Post(invitationsPath, body).Want(201).Text("url")
	token, found := strings.CutPrefix(link, "https://kist.example.org/join/")
	if !found {
		a.Fatal(link)
	}
	return token
}

// joining is a request that uses an invitation.
func joining(token, name string) apitest.Request {
	return apitest.Request{
		Method: "POST", Path: "/api/v1/auth/join", Anyone: true,
		JSON: map[string]any{"token": token, "username": name, "password": "correct horse", "displayName": "Somebody"},
	}
}

// TestInvitation: an invitation makes one account, with its role, its quota and its parts in collections.
func TestInvitation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	first := a.Post("/api/v1/collections", `{"title":"Holidays"}`).Want(201).Text("data.id")
	second := a.Post("/api/v1/collections", `{"title":"Recipes"}`).Want(201).Text("data.id")
	body := fmt.Sprintf(`{"role":"user","quotaBytes":1000,"collections":[{"id":%q,"role":"add"},{"id":%q,"role":"see"}]}`,
		first, second)
	made := a.Post(invitationsPath, body).Want(201)
	is.Equal(made.At("data.role"), "user")
	is.Equal(made.At("data.quotaBytes"), 1000.0)
	is.Equal(made.At("data.collections.0.title"), "Holidays")
	is.Equal(made.At("data.collections.1.role"), "see")
	is.Equal(made.At("data.createdBy.name"), "ann")
	token := strings.TrimPrefix(made.Text("url"), "https://kist.example.org/join/")

	a.Delete("/api/v1/collections/" + second).Want(200) // gone by then
	got := a.Do(joining(token, "bob")).Want(201)
	is.Equal(got.At("data.username"), "bob")
	is.Equal(got.At("data.displayName"), "Somebody")
	is.Equal(got.At("data.role"), "user")
	is.Equal(got.At("data.quotaBytes"), 1000.0)
	cookie := got.CookieOf(apitest.SessionName)
	is.Equal(a.Do(apitest.As(cookie, "GET", "/api/v1/collections?from=others", nil)).Want(200).IDs(), []string{first})
	is.Equal(a.Get("/api/v1/collections/"+first).Want(200).At("data.members.0.role"), "add")
	a.Enter("bob", "correct horse")

	is.Equal(a.Do(joining(token, "cleo")).Want(404).Code(), "not_found")
	is.Equal(a.Get(invitationsPath).Want(200).At("total"), 0.0)
	is.Equal(a.Get("/api/v1/admin/users").Want(200).At("total"), 2.0)
	is.True(!strings.Contains(a.Logged.String(), token[20:]))
	events := string(a.Get("/api/v1/admin/activity").Want(200).Body)
	is.True(strings.Contains(events, `"invitation_created"`) && strings.Contains(events, `"account_created"`))
}

// What is refused leaves the invitation as it was.
func TestInvitationIsNotUsedUp(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	token := tokenOf(a, `{}`)
	for name, c := range map[string]struct {
		change map[string]any
		header []string
		status int
		code   string
	}{
		"taken name":     {map[string]any{"username": "ANN"}, nil, 409, "username_taken"},
		"bad name":       {map[string]any{"username": "a b"}, nil, 422, "invalid_fields"},
		"no name":        {map[string]any{"username": nil}, nil, 422, "invalid_fields"},
		"short password": {map[string]any{"password": "short"}, nil, 422, "invalid_fields"},
		"common":         {map[string]any{"password": "password123"}, nil, 422, "invalid_fields"},
		"its own name":   {map[string]any{"username": "bobolink", "password": "bobolink1"}, nil, 422, "invalid_fields"},
		"no password":    {map[string]any{"password": nil}, nil, 422, "invalid_fields"},
		"another site":   {nil, []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross_origin"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			q := joining(token, "bob")
			for k, v := range c.change {
				q.JSON.(map[string]any)[k] = v
			}
			q.Header = apitest.WithHeader(c.header...)
			is.Equal(a.With(t).Do(q).Want(c.status).Code(), c.code)
		})
	}
	is.Equal(a.Get(invitationsPath).Want(200).At("total"), 1.0)
	a.Do(joining(token, "bob")).Want(201)
}

func TestInvitationRaces(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	token := tokenOf(a, `{}`)
	codes := make([]int, 20)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() { codes[i] = a.Do(joining(token, fmt.Sprint("racer", i))).Status })
	}
	all.Wait()
	made := 0
	for _, code := range codes {
		is.True(code == 201 || code == 404 || code == 503)
		if code == 201 {
			made++
		}
	}
	is.Equal(made, 1)
	is.Equal(a.Get("/api/v1/admin/users").Want(200).At("total"), 2.0)
}

// Only administrators invite, each to own collections, and a session has to be confirmed.
func TestInvitationAccess(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	ben := a.AddUser("ben", people.Admin)
	bens := a.As(a.AddKey(ben, people.ScopeAll, people.ScopeAdmin))
	own := a.Post("/api/v1/collections", `{"title":"Holidays"}`).Want(201).Text("data.id")
	to := func(id, role string) string { return fmt.Sprintf(`{"collections":[{"id":%q,"role":%q}]}`, id, role) }

	bens.Post(invitationsPath, to(own, "see")).Want(404)
	a.Post(invitationsPath, to("01890a5d-ac96-774b-bcce-b302099a8057", "see")).Want(404)
	for _, bad := range []string{
		to(own, "owner"), to("x", "see"), `{"collections":[{"role":"see"}]}`, `{"collections":["` + own + `"]}`,
		fmt.Sprintf(`{"collections":[{"id":%[1]q,"role":"see"},{"id":%[1]q,"role":"edit"}]}`, own),
		`{"collections":{}}`, `{"role":"root"}`, `{"expiresAt":"2020-01-01"}`,
		fmt.Sprintf(`{"expiresAt":%q}`, a.Clock.Now().Add(people.MaxInvitationTime+time.Hour).Format(time.RFC3339)),
		`{"collections":[` + strings.Repeat(`{},`, 20) + `{}]}`,
	} {
		a.Post(invitationsPath, bad).Want(422)
	}
	is.Equal(a.Get(invitationsPath).Want(200).At("total"), 0.0)

	a.Post(invitationsPath, to(own, "edit")).Want(201)
	seen := bens.Get(invitationsPath).Want(200)
	is.Equal(seen.At("data.0.collections"), nil) // they are ann's
	is.Equal(seen.At("data.0.createdBy.name"), "ann")
	member := a.As(a.AddKey(a.AddUser("cleo", people.Member), people.ScopeAll, people.ScopeAdmin))
	member.Get(invitationsPath).Want(403)
	member.Post(invitationsPath, `{}`).Want(403)
	id := seen.Text("data.0.id")
	member.Delete(invitationsPath + "/" + id).Want(403)
	bens.Delete(invitationsPath + "/" + id).Want(200)
	bens.Delete(invitationsPath + "/" + id).Want(404)

	a.WithPassword(ben, "correct horse")
	cookie := a.Enter("ben", "correct horse")
	a.Do(apitest.As(cookie, "POST", invitationsPath, map[string]any{})).Want(201)
	a.Clock.Advance(people.RecentTime)
	is.Equal(a.Do(apitest.As(cookie, "POST", invitationsPath, map[string]any{})).Want(403).Code(), "recent_sign_in_required")
	a.Do(apitest.As(cookie, "POST", invitationsPath, map[string]any{"currentPassword": "correct horse"})).Want(201)

	token := tokenOf(a, `{}`)
	bens.Patch("/api/v1/admin/users/"+a.User.ID.String(), `{"role":"user"}`).Want(200)
	a.Do(joining(token, "dora")).Want(404)
}

// Secrets that lead to nothing are few, and so are names that are in use.
func TestInvitationGuesses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	token := tokenOf(a, `{}`)
	for range 30 {
		a.Do(joining(token, "ann")).Want(409)
	}
	is.Equal(a.Do(joining(token, "ann")).Want(429).Code(), "too_many_guesses")
	a.Clock.Advance(time.Hour)
	a.Do(joining(token, "bob")).Want(201)

	for i := range 60 {
		a.Do(joining(fmt.Sprintf("%064d", i), "cleo")).Want(404)
	}
	is.Equal(a.Do(joining(fmt.Sprintf("%064d", 99), "cleo")).Want(429).Code(), "too_many_misses")
}

// TestJoinPage: the page of an invitation needs no script, keeps the secret to itself, and leads to what is shared.
func TestJoinPage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	shared := a.Post("/api/v1/collections", `{"title":"Holidays <1>"}`).Want(201)
	link := "/join/" + tokenOf(a, fmt.Sprintf(`{"collections":[{"id":%q,"role":"see"}]}`, shared.Text("data.id")))
	post := func(link, site string, values url.Values) *apitest.Answer {
		t.Helper()
		return a.Do(apitest.Request{
			Method: "POST", Path: link, Anyone: true, Body: strings.NewReader(values.Encode()),
			Header: apitest.WithHeader(
				"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", site, "Accept", "text/html",
			),
		})
	}
	filled := func(name, password, repeat string) url.Values {
		return url.Values{"username": {name}, "displayName": {"Bob"}, "password": {password}, "repeat": {repeat}}
	}

	page := a.Visit(link, "Accept", "text/html").Want(200)
	is.True(strings.Contains(string(page.Body), "Holidays &lt;1&gt;"))
	is.Equal(page.Header.Get("Cache-Control"), "no-store")
	is.Equal(page.Header.Get("Referrer-Policy"), "no-referrer")
	a.Visit(link[:len(link)-1]+"!", "Accept", "text/html").Want(404)
	own := a.Do(apitest.As(a.SessionCookie()+"="+a.Session(), "GET", link, nil)).Want(200)
	is.True(strings.Contains(string(own.Body), `class="alert"`)) // who is signed in has an account

	for what, c := range map[string]struct {
		values url.Values
		status int
		site   string
		shows  string
	}{
		"a short password": {filled("bob", "short", "short"), 422, "same-origin", `id="password-error"`},
		"two passwords":    {filled("bob", "correct horse", "other"), 422, "same-origin", `id="repeat-error"`},
		"a bad name":       {filled("b b", "correct horse", "correct horse"), 422, "same-origin", `id="username-error"`},
		"a taken name":     {filled("ann", "correct horse", "correct horse"), 409, "same-origin", `id="username-error"`},
		"another site":     {filled("bob", "correct horse", "correct horse"), 403, "cross-site", ""},
	} {
		got := post(link, c.site, c.values).Want(c.status)
		if !strings.Contains(string(got.Body), c.shows) {
			t.Errorf("%s: %s", what, got.Body)
		}
		is.True(!strings.Contains(string(got.Body), "correct horse"))
	}

	done := post(link, "same-origin", filled("bob", "correct horse", "correct horse")).Want(303)
	is.Equal(done.Header.Get("Location"), "/collections/"+shared.Text("data.id"))
	at := done.Header.Get("Location") + "/board"
	got := a.Do(apitest.As(done.CookieOf(apitest.SessionName), "GET", at, nil)).Want(200)
	is.True(strings.Contains(string(got.Body), "Holidays"))
	a.Visit(link, "Accept", "text/html").Want(404)
	gone := post(link, "same-origin", filled("cleo", "correct horse", "correct horse")).Want(404)
	is.True(strings.Contains(string(gone.Body), "This invitation does not work"))

	a.Visit("//join/"+link[len("/join/"):]+"/x", "Accept", "text/html").Want(404) // mistyped
	is.True(!strings.Contains(a.Logged.String(), link[20:]))
	plain := post("/join/"+tokenOf(a, `{}`), "same-origin", filled("cleo", "correct horse", "correct horse")).Want(303)
	is.Equal(plain.Header.Get("Location"), "/")
}

// What was typed stays when the account cannot be made now, but for the password.
func TestJoinLater(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a, takeOver := startShipped(t)
	link := "/join/" + tokenOf(a, `{}`)
	takeOver()
	got := a.Do(apitest.Request{
		Method: "POST", Path: link, Anyone: true,
		Body: strings.NewReader("username=bob&displayName=Bobby&password=correct+horse&repeat=correct+horse"),
		Header: apitest.WithHeader(
			"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Accept", "text/html",
		),
	}).Want(503)
	for _, part := range []string{`value="bob"`, `value="Bobby"`, "Another server has taken over this data."} {
		is.True(strings.Contains(string(got.Body), part))
	}
	is.True(!strings.Contains(string(got.Body), "correct horse"))
}

// Without passwords, the page asks for none.
func TestJoinWithoutPasswords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.NoPasswords = true })
	token := tokenOf(a, `{}`)
	page := a.Visit("/join/"+token, "Accept", "text/html").Want(200)
	is.True(!strings.Contains(string(page.Body), `type="password"`))
	is.Equal(a.Do(joining(token, "bob")).Want(403).Code(), "password_login_off")
}

// TestJoinByPasskey: a passkey that a script makes takes the place of the password, also where passwords are off.
func TestJoinByPasskey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.NoPasswords = true })
	link := "/join/" + tokenOf(a, `{}`)
	phone := apitest.NewSoftKey(a)
	asked := regexp.MustCompile(`data-passkey="([^"]*)"[^¶]*name="ticket" value="([^"]*)"`)
	post := func(name, ticket, passkey string) *apitest.Answer {
		t.Helper()
		values := url.Values{"username": {name}, "displayName": {""}, "ticket": {ticket}, "passkey": {passkey}}
		return a.Do(apitest.Request{
			Method: "POST", Path: link, Anyone: true, Body: strings.NewReader(values.Encode()),
			Header: apitest.WithHeader(
				"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Accept", "text/html",
			),
		})
	}
	offer := func(page *apitest.Answer) (ticket, passkey string) {
		t.Helper()
		found := asked.FindStringSubmatch(string(page.Body))
		is.True(found != nil)
		return found[2], phone.Create(t, apitest.Parse(t, html.UnescapeString(found[1])))
	}

	ticket, passkey := offer(a.Visit(link, "Accept", "text/html").Want(200))
	post("bob", "x"+ticket, passkey).Want(401)
	post("bob", ticket, `{}`).Want(401)
	post("bob", ticket, "").Want(403) // passwords are off
	post("b b", ticket, passkey).Want(422)
	post("ann", ticket, passkey).Want(409)
	phone.Flags = 1
	weak, answer := offer(post("ann", ticket, passkey).Want(401)) // a ticket is used once
	phone.Flags = 5
	ticket, passkey = offer(post("bob", weak, answer).Want(401)) // it signs in alone, so it must know its user
	done := post("bob", ticket, passkey).Want(303)
	me := a.Do(apitest.As(done.CookieOf(apitest.SessionName), "GET", "/api/v1/me", nil)).Want(200)
	is.Equal(me.At("data.username"), "bob")
	is.Equal(me.At("data.secondFactor"), true)
	post("bob", ticket, passkey).Want(404)

	ask := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/passkey/options", Anyone: true}).Want(200)
	a.Do(apitest.Request{Method: "POST", Path: "/api/v1/auth/passkey", Anyone: true, JSON: map[string]string{
		"ticket": ask.Text("ticket"), "passkey": phone.Get(a, ask.Object("passkey")),
	}}).Want(200)
}
