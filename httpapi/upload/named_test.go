package upload_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// put uploads a body under the end of an address.
func put(a *apitest.App, end, content string, header ...string) *apitest.Answer {
	a.Helper()
	return a.Do(apitest.Request{
		Method: "PUT", Path: "/api/v1/upload/" + end, Body: strings.NewReader(content), Header: apitest.WithHeader(header...),
	})
}

// TestUploadNamed: a body is stored under the name in the path and answered as the same file in a form is.
func TestUploadNamed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for end, want := range map[string]struct{ name, mimeType string }{
		"notes.md":               {"notes.md", "text/markdown"},
		"holiday%20%281%29.txt":  {"holiday (1).txt", "text/plain"},
		"100%25.txt":             {"100%.txt", "text/plain"},
		"%C3%9Cber%20uns.txt":    {"Über uns.txt", "text/plain"},
		"U%CC%88ber%20uns.txt":   {"Über uns.txt", "text/plain"},
		"c%3A%22d%22%3F.txt":     {"c:\"d\"?.txt", "text/plain"},
		"a%E2%80%AEtxt.exe.txt":  {"atxt.exe.txt", "text/plain"},
		"noext":                  {"noext", "text/plain"},
		"a.txt?isPublic=true":    {"a.txt", "text/plain"},
		"a.txt?description=a%26": {"a.txt", "text/plain"},
	} {
		got := put(a, end, "hello").Want(201)
		is.Equal(got.Text("originalName"), want.name)
		is.Equal(strings.Split(got.Text("mimeType"), ";")[0], want.mimeType)
		is.Equal(got.At("size"), 5.0)
		is.Equal(got.Header.Get("Location"), got.Text("url"))
		is.Equal(got.At("isPublic"), strings.Contains(end, "isPublic"))
	}

	form := a.Upload(nil, apitest.File("b.txt", "text/plain", "hello")).Want(201)
	named := put(a, "b.txt", "hello", "Content-Type", "text/plain").Want(201)
	is.Equal(named.Fields(), form.Fields())
	is.Equal(named.Header.Get("Location") != "", form.Header.Get("Location") != "")
	is.Equal(named.Text("mimeType"), form.Text("mimeType"))

	full := put(a, "c.txt?isPublic=true&slug=sea&maxViews=2&maxViewsAction=delete&folderName=Trip&newTags=a,b"+
		"&description=words&expiresAt=2099-01-01T00:00:00Z", "hello").Want(201)
	for member, want := range map[string]any{
		"slug": "sea", "maxViews": 2.0, "maxViewsAction": "delete", "folder.name": "Trip", "description": "words",
		"expiresAt": "2099-01-01T00:00:00.000Z",
	} {
		is.Equal(full.At(member), want)
	}

	address := put(a, "d.txt", "hello", "Accept", "text/plain").Want(201)
	is.Equal(string(address.Body), address.Header.Get("Location")+"\n")
	empty := a.Do(apitest.Request{Method: "PUT", Path: "/api/v1/upload/empty.txt", Body: http.NoBody, Raw: true}).Want(201)
	is.Equal(empty.At("size"), 0.0)

	// Again with the same key: the same file. Another name is another request.
	once := put(a, "e.txt", "hello", "Idempotency-Key", "k").Want(201)
	is.Equal(put(a, "e.txt", "hello", "Idempotency-Key", "k").Want(201).Text("id"), once.Text("id"))
	is.Equal(put(a, "f.txt", "hello", "Idempotency-Key", "k").Status, 422)
}

// TestUploadNamedRefused: a request without a usable name or without the right to upload stores nothing.
func TestUploadNamedRefused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	before := a.Get("/api/v1/files").Want(200).At("total")
	for _, tt := range []struct {
		end    string
		status int
		header []string
	}{
		{"", 404, nil},
		{"a/b.txt", 404, nil},
		{"a%2Fb.txt", 404, nil},
		{"a.txt?password=secret", 400, nil},
		{"a.txt?isPublic=maybe", 422, nil},
		{"a.txt?maxViews=0", 422, nil},
		{"a.txt?slug=a%20b", 422, nil},
		{"a.txt?slug=a&slug=b", 422, nil},
		{"a.txt", 415, []string{"Content-Type", "multipart/form-data; boundary=x"}},
		{"a.txt", 415, []string{"Content-Encoding", "gzip"}},
		{"a.txt", 400, []string{"Content-Range", "bytes 0-4/10"}},
	} {
		q := apitest.Request{
			Method: "PUT", Path: "/api/v1/upload/" + tt.end, Body: strings.NewReader("hello"),
			Header: apitest.WithHeader(tt.header...), Raw: true,
		}
		got := a.Do(q)
		if got.Status != tt.status {
			t.Errorf("%s %v: %d, not %d: %s", tt.end, tt.header, got.Status, tt.status, got.Body)
		}
	}
	q := apitest.Request{Method: "PUT", Path: "/api/v1/upload/a.txt", Body: strings.NewReader("hello"), Raw: true}
	q.Key = a.AddKey(a.User, people.ScopeRead)
	a.Do(q).Want(403)
	q.Key, q.Anyone, q.Body = "", true, strings.NewReader("hello")
	a.Do(q).Want(401)
	is.Equal(a.Get("/api/v1/files").Want(200).At("total"), before)
	q = apitest.Request{Method: "PUT", Path: "/api/v1/upload/a.txt", Body: strings.NewReader("hello")}
	q.Key = a.AddKey(a.User, people.ScopeUpload)
	a.Do(q).Want(201)
}
