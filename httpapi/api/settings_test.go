package api_test

import (
	"net/http"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := a.Get("/api/v1/admin/settings").Want(200)
	is.Equal(got.At("data.apiTokensDisabled"), false)
	is.Equal(got.At("data.defaultQuotaBytes"), nil)
	is.Equal(got.At("data.maxUploadBytes"), nil)
	a.Patch("/api/v1/admin/settings", `{"maxUploadBytes":4}`).Want(200)
	is.Equal(a.Get("/api/v1/admin/settings").At("data.maxUploadBytes"), 4.0)
	a.Upload(nil, apitest.File("a", "", "1234")).Want(201)
	a.Refused(a.UploadRequest(nil, apitest.File("a", "", "12345")), 413)
	is.Equal(a.Patch("/api/v1/admin/settings", `{"maxUploadBytes":null}`).Want(200).At("data.maxUploadBytes"), nil)
	a.Upload(nil, apitest.File("a", "", "12345")).Want(201)
	for _, body := range []string{
		`{"maxUploadBytes":0}`, `{"maxUploadBytes":-1}`, `{"defaultQuotaBytes":"x"}`, `{"apiTokensDisabled":null}`,
		`{"apiTokensDisabled":"no"}`,
	} {
		a.Patch("/api/v1/admin/settings", body).Want(422)
	}
	// Turned off for all, keys are refused from the next request on; nothing
	// that needs no key is.
	a.Patch("/api/v1/admin/settings", `{"apiTokensDisabled":true}`).Want(200)
	is.Equal(a.Get("/api/v1/notes").Want(401).Text("code"), "api_tokens_disabled")
	is.Equal(a.Get("/api/v1/admin/settings").Want(401).Text("code"), "api_tokens_disabled")
	a.Visit("/api/v1/openapi").Want(200)
	a.Do(apitest.Request{Method: "GET", Path: "/healthz", Anyone: true, Header: http.Header{}}).Want(200)
}
