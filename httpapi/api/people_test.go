package api_test

import (
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// TestPeople: everybody on the server sees the names of the others, unless they hide or the administrator closes the list.
func TestPeople(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	admin := a.As(a.AddKey(a.User, people.ScopeRead, people.ScopeAdmin))
	ben := a.As(a.AddKey(a.AddUser("ben", people.Member), people.ScopeRead, people.ScopeWrite))
	cleo := a.AddUser("cleo", people.Member)
	names := func(of *apitest.App) (all []any) {
		t.Helper()
		for _, p := range of.Get("/api/v1/people?sort=title").Want(200).At("data").([]any) {
			all = append(all, p.(map[string]any)["name"])
		}
		return all
	}
	is.Equal(names(ben), []any{"ann", "ben", "cleo"})
	one := ben.Get("/api/v1/people?sort=title&limit=1").Want(200)
	is.Equal(one.At("data.0"), map[string]any{"id": a.User.ID.String(), "name": "ann", "displayName": a.User.DisplayName})
	is.Equal(one.At("total"), 3.0)

	is.Equal(ben.Get("/api/v1/me").Want(200).At("data.hidden"), false)
	is.Equal(ben.Patch("/api/v1/me", `{"hidden":true}`).Want(200).At("data.hidden"), true)
	is.Equal(ben.Patch("/api/v1/me", `{"displayName":"Ben"}`).Want(200).At("data.hidden"), true)
	admin.Patch("/api/v1/admin/users/"+cleo.ID.String(), `{"disabled":true}`).Want(200)
	is.Equal(names(ben), []any{"ann"})
	is.Equal(names(admin), []any{"ann"})
	ben.Patch("/api/v1/me", `{"hidden":false}`).Want(200)
	is.Equal(names(admin), []any{"ann", "ben"})

	is.Equal(admin.Get("/api/v1/admin/settings").Want(200).At("data.listPeople"), true)
	is.Equal(admin.Patch("/api/v1/admin/settings", `{"listPeople":false}`).Want(200).At("data.listPeople"), false)
	is.Equal(ben.Get("/api/v1/people").Want(403).Code(), "people_not_listed")
	is.Equal(names(admin), []any{"ann", "ben"})
	admin.Patch("/api/v1/admin/settings", `{"listPeople":true}`).Want(200)
	is.Equal(names(ben), []any{"ann", "ben"})

	a.As(a.AddKey(a.User, people.ScopeUpload)).Get("/api/v1/people").Want(403)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/people", Anyone: true}).Want(401)
}
