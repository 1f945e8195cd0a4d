package api_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
	"kist/kv/record"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	made := a.Post("/api/v1/admin/users", `{"username":"Bob","password":"long enough","quotaBytes":10}`).Want(201)
	id := made.Text("data.id")
	is.Equal(made.Text("data.role"), "user")
	is.Equal(made.At("data.quotaBytes"), 10.0)
	is.True(!strings.Contains(string(made.Body), "password"))
	path := "/api/v1/admin/users/" + id
	is.Equal(a.Get(path).Want(200).Object("data"), made.Object("data"))
	is.Equal(a.Get("/api/v1/admin/users").Want(200).At("total"), 2.0)

	is.Equal(
		a.Post("/api/v1/admin/users", `{"username":"bOB","password":"long enough"}`).Want(409).Text("code"), "username_taken",
	)
	is.Equal(a.Patch(path, `{"username":"ANN"}`).Want(409).Text("code"), "username_taken")
	is.Equal(a.Patch(path, `{"username":"BOB"}`).Want(200).Text("data.username"), "BOB")
	for body, field := range map[string]string{
		`{"username":"x"}`: "password", `{"password":"long enough"}`: "username", `{"username":"","password":"long enough"}`: "username",
		`{"username":"` + strings.Repeat("u", 65) + `","password":"long enough"}`: "username", `{"username":"a b","password":"long enough"}`: "username",
		`{"username":"é","password":"long enough"}`: "username", `{"username":"x","password":"7 bytes"}`: "password", `{"username":"x","password":""}`: "password",
		`{"username":"x","password":"` + strings.Repeat("p", 1025) + `"}`: "password", `{"username":"x","password":"long enough","role":"root"}`: "role",
		`{"username":"x","password":"long enough","quotaBytes":-1}`: "quotaBytes", `{"username":"x","password":"long enough","quotaBytes":9007199254740993}`: "quotaBytes",
	} {
		is.Equal(a.Post("/api/v1/admin/users", body).Want(422).Fields(), []string{field})
	}
	is.Equal(a.Get("/api/v1/admin/users").Want(200).At("total"), 2.0)
	for _, body := range []string{
		`{"role":null}`, `{"role":""}`, `{"disabled":null}`, `{"username":null}`, `{"username":" "}`, `{"password":null}`,
		`{"password":""}`, `{"quotaBytes":-1}`,
	} {
		a.Patch(path, body).Want(422)
	}

	// A user, or their keys, are turned off from the next request on.
	bob := a.As(a.AddKey(&people.User{ID: record.ID(apitest.MustID(t, id))}, people.ScopeAll))
	bob.Get("/api/v1/me").Want(200)
	a.Patch(path, `{"apiTokensDisabled":true}`).Want(200)
	is.Equal(bob.Get("/api/v1/me").Want(401).Text("code"), "api_tokens_disabled")
	a.Patch(path, `{"apiTokensDisabled":false,"disabled":true}`).Want(200)
	is.Equal(bob.Get("/api/v1/me").Want(401).Text("code"), "user_disabled")
	a.Patch(path, `{"disabled":false}`).Want(200)
	bob.Get("/api/v1/me").Want(200)

	// A quota holds from the next upload on; null is the instance's.
	bob.Upload(nil, apitest.File("a", "", "0123456789")).Want(201)
	is.Equal(bob.Refused(bob.UploadRequest(nil, apitest.File("b", "", "x")), 403).Text("code"), "quota_exceeded")
	a.Patch(path, `{"quotaBytes":null}`).Want(200)
	bob.Upload(nil, apitest.File("b", "", "x")).Want(201)
	a.Patch("/api/v1/admin/settings", `{"defaultQuotaBytes":11}`).Want(200)
	is.Equal(bob.Get("/api/v1/me").At("data.quotaEffectiveBytes"), 11.0)
	bob.Refused(bob.UploadRequest(nil, apitest.File("c", "", "x")), 403)
	a.Patch(path, `{"quotaBytes":0}`).Want(200)
	bob.Upload(nil, apitest.File("c", "", "x")).Want(201)

	stats := a.Get("/api/v1/admin/stats").Want(200)
	is.Equal(stats.At("data.users"), 2.0)
	is.Equal(stats.At("data.bytes"), 12.0)
	is.Equal(stats.At("data.counts.file"), 3.0)

	a.Delete(path).Want(200)
	is.Equal(bob.Get("/api/v1/me").Want(401).Text("code"), "unknown_key")
	a.Get(path).Want(404)
	a.Delete(path).Want(404)
	is.Equal(a.Get("/api/v1/admin/stats").At("data.bytes"), 0.0)
}

// TestLastAdministrator: there is always one who can act.
func TestLastAdministrator(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	me := "/api/v1/admin/users/" + a.User.ID.String()
	refused := func() {
		t.Helper()
		for _, body := range []string{`{"role":"user"}`, `{"disabled":true}`, `{"role":"user","displayName":"x"}`} {
			is.Equal(a.Patch(me, body).Want(409).Text("code"), "last_admin")
		}
		is.Equal(a.Delete(me).Want(409).Text("code"), "last_admin")
		is.Equal(a.Get(me).Want(200).Text("data.displayName"), "")
		is.Equal(a.Get(me).At("data.disabled"), false)
	}
	refused()
	a.AddUser("bob", people.Member)
	other := a.AddUser("eve", people.Admin)
	a.Patch("/api/v1/admin/users/"+other.ID.String(), `{"disabled":true}`).Want(200)
	refused()
	a.Patch("/api/v1/admin/users/"+other.ID.String(), `{"disabled":false}`).Want(200)
	a.Patch(me, `{"role":"user"}`).Want(200)
	is.Equal(a.Get(me).Want(403).Text("code"), "not_admin") // at once
}
