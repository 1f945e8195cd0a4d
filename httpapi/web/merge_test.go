package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

const mergePatch = "application/merge-patch+json"

// Every PATCH with JSON takes the type of what it is (RFC 7396), and says so when it gets another.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	send := func(method, path, media, body string) *apitest.Answer {
		t.Helper()
		return a.Do(apitest.Request{
			Method: method, Path: path, Body: strings.NewReader(body), Raw: true, Header: apitest.WithHeader("Content-Type", media),
		})
	}
	for _, r := range a.Server.Routes() {
		if r.Method != "PATCH" || r.Tus || r.Access.Browser || r.Access.Admin {
			continue
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(r.Path)
		for _, media := range []string{mergePatch, mergePatch + "; charset=UTF-8"} {
			if got := send("PATCH", path, media, `{}`); got.Status == 415 {
				t.Errorf("PATCH %s, %s: %d %s", path, media, got.Status, apitest.CutText(got.Body))
			}
		}
		for _, media := range []string{"text/plain", "application/json-patch+json", ""} {
			got := send("PATCH", path, media, `{}`)
			if got.Status == 415 && got.Header.Get("Accept-Patch") != web.AcceptPatch {
				t.Errorf("PATCH %s, %q: Accept-Patch is %q", path, media, got.Header.Get("Accept-Patch"))
			}
		}
		options := a.Do(apitest.Request{Method: "OPTIONS", Path: path, Anyone: true, Raw: true}).Want(204)
		if options.Header.Get("Accept-Patch") != web.AcceptPatch {
			t.Errorf("OPTIONS %s: Accept-Patch is %q", path, options.Header.Get("Accept-Patch"))
		}
	}

	at := "/api/v1/notes/" + a.Post(
		"/api/v1/notes", `{"title":"a","content":"b","password":"open sesame 7","maxViews":3,"tags":["x","y"]}`,
	).Want(201).Text("data.id")
	got := send("PATCH", at, mergePatch, `{"title":null,"maxViews":null,"tags":["z"],"password":"","unknown":{"a":null}}`).Want(200)
	is.Equal(got.Text("data.title"), "")
	is.Equal(got.At("data.maxViews"), nil)
	is.Equal(got.At("data.tags"), []any{"z"}) // lists are replaced
	is.Equal(got.At("data.hasPassword"), false)
	is.Equal(got.Text("data.content"), "b")
	is.Equal(send("PATCH", at, "text/plain", `{}`).Want(415).Header.Get("Accept-Patch"), web.AcceptPatch)

	post := send("POST", "/api/v1/notes", mergePatch, `{"content":"x"}`).Want(415) // a new thing is no patch
	is.Equal(post.Header.Get("Accept-Patch"), "")
	is.Equal(a.Do(apitest.Request{Method: "OPTIONS", Path: "/api/v1/notes", Anyone: true}).Header.Get("Accept-Patch"), "")

	pieces := "/api/v1/tus/x"
	is.Equal(a.Do(apitest.Request{
		Method: "OPTIONS", Path: pieces, Anyone: true,
	}).Want(204).Header.Get("Accept-Patch"), "application/offset+octet-stream")
}

// Programs in browsers and their libraries send these names, and read these.
func TestCrossOriginHeaders(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	asked := a.Do(apitest.Request{
		Method: http.MethodOptions, Path: "/api/v1/notes", Anyone: true,
		Header: apitest.WithHeader("Origin", "https://app.example", "Access-Control-Request-Method", "POST"),
	}).Want(204).Header
	plain := a.Do(apitest.Request{
		Method: "GET", Path: "/api/v1/notes", Header: apitest.WithHeader("Origin", "https://app.example"),
	}).Want(200).Header
	for list, names := range map[string][]string{
		asked.Get("Access-Control-Allow-Headers"): {
			"authorization", "cache-control", "content-disposition", "content-type", "idempotency-key", "if-match",
			"if-modified-since", "if-none-match", "if-range", "prefer", "range", "tus-resumable", "upload-metadata",
			"x-api-key", "x-captcha-pass", "x-captcha-token", "x-request-id", "x-requested-with", "x-share-password",
			"x-upload-password",
		},
		plain.Get("Access-Control-Expose-Headers"): {
			"Accept-Patch", "Accept-Ranges", "Allow", "Content-Disposition", "Content-Range", "ETag", "Location",
			"Preference-Applied", "Retry-After", "Upload-Offset", "X-Request-Id",
		},
	} {
		all := strings.Split(list, ", ")
		for _, name := range names {
			if !strings.Contains(strings.ToLower(","+strings.Join(all, ",")+","), ","+strings.ToLower(name)+",") {
				t.Errorf("%s is not among %s", name, list)
			}
		}
	}
	if got := plain.Get("Access-Control-Allow-Credentials") + asked.Get("Access-Control-Allow-Credentials"); got != "" {
		t.Errorf("credentials of another origin: %q", got)
	}
}
