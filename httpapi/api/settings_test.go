package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/field"
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

// TestSecurityContact: a contact is one address that fits on a line of security.txt.
func TestSecurityContact(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	for contact, status := range map[string]int{
		"mailto:security@example.org":                200,
		"mailto:ann+kist@example.org":                200,
		"https://example.org/report":                 200,
		"https://example.org/report?for=kist#a":      200,
		"":                                           200,
		"security@example.org":                       422,
		"mailto:":                                    422,
		"mailto:ann":                                 422,
		"mailto:Ann <ann@example.org>":               422,
		"mailto:ann@example.org,bob@example.org":     422,
		"mailto:ann@example.org?bcc=eve@example.org": 422,
		"mailto:ann@example.org\nExpires: 2999-01-01T00:00:00Z":      422,
		"http://example.org/report":                                  422,
		"https:///report":                                            422,
		"https://ann:secret@example.org/":                            422,
		"https://example.org/a b\r\nContact: mailto:eve@example.org": 422,
		"mailto:jürgen@example.org":                                  422,
		"https://exämple.org/":                                       422,
		"https://example.org/ä":                                      422,
		"tel:+49-1234":                                               422,
		"javascript:alert(1)":                                        422,
		"mailto:" + strings.Repeat("a", 300) + "@example.org":        422,
		"https://example.org/" + strings.Repeat("a", field.MaxURL):   422,
	} {
		got := a.Do(apitest.Request{
			Method: "PATCH", Path: "/api/v1/admin/settings", JSON: map[string]any{"securityContact": contact},
		})
		if got.Status != status {
			t.Errorf("%.80q: %d", contact, got.Status)
		}
		if status == 422 && got.Text("fields.securityContact") == "" {
			t.Errorf("%.80q: the field is not named", contact)
		}
	}
}
