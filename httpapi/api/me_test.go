package api_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
	"kist/kv/record"
)

// TestMe changes the own account. The password of the user is set by the
// administrator first.
func TestMe(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t)
	id := a.Made("/api/v1/admin/users", `{"username":"Bob","password":"first pass","role":"user"}`)
	bob := a.As(a.AddKey(&people.User{ID: record.ID(apitest.MustID(t, id))}, people.ScopeAll))
	got := bob.Get("/api/v1/me").Want(200)
	is.Equal(got.Text("data.username"), "Bob")
	is.Equal(got.At("data.quotaBytes"), nil)
	is.Equal(got.At("data.usedBytes"), 0.0)
	bob.Upload(nil, apitest.File("a.txt", "", "hello")).Want(201)
	kept := bob.Get("/api/v1/me").Want(200)
	is.True(kept.At("data.textBytes").(float64) > 0)
	is.Equal(kept.At("data.usedBytes"), 5+kept.At("data.textBytes").(float64))
	is.Equal(bob.Get("/api/v1/me").At("data.counts.file"), 1.0)

	is.Equal(bob.Patch("/api/v1/me", `{"displayName":"  Bob \t B. "}`).Want(200).Text("data.displayName"), "Bob B.")
	// Nothing else of an account is the user's to change.
	got = bob.Do(apitest.Request{
		Method: "PATCH", Path: "/api/v1/me",
		JSON: `{"role":"admin","quotaBytes":1,"username":"root","disabled":true,"apiTokensDisabled":true}`, Raw: true,
	}).Want(200)
	is.Equal(got.Text("data.role"), "user")
	is.Equal(got.Text("data.username"), "Bob")
	is.Equal(got.Text("data.displayName"), "Bob B.")
	is.Equal(got.At("data.disabled"), false)

	change := func(now, next string) *apitest.Answer {
		return bob.Patch("/api/v1/me", map[string]any{"currentPassword": now, "password": next})
	}
	is.Equal(change("wrong", "second pass").Want(422).Fields(), []string{"currentPassword"})
	is.Equal(bob.Patch("/api/v1/me", `{"password":"second pass"}`).Want(422).Fields(), []string{"currentPassword"})
	is.Equal(change("first pass", "short").Want(422).Fields(), []string{"password"})
	is.Equal(change("first pass", "").Want(422).Fields(), []string{"password"})
	is.Equal(
		bob.Patch("/api/v1/me", `{"currentPassword":"first pass","password":null}`).Want(422).Fields(), []string{"password"},
	)
	change("first pass", "second pass").Want(200)
	is.Equal(change("first pass", "third pass").Want(422).Fields(), []string{"currentPassword"})
	change("second pass", strings.Repeat("correct horse ba", 64)).Want(200)
	is.Equal(bob.Get("/api/v1/me").Text("data.displayName"), "Bob B.")
	// Wrong ones cannot be tried without end.
	for change("wrong", "fourth pass").Status != 429 {
		if strings.Count(a.Logged.String(), `"status":422`) > 40 {
			t.Fatal("wrong passwords are taken without end")
		}
	}
	is.True(change("wrong", "fourth pass").Want(429).Header.Get("Retry-After") != "")
}
