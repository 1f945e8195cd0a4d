package upload_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image/color"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// replace sends other bytes for the file at an address of the API.
func replace(a *apitest.App, at, content string, header ...string) *apitest.Answer {
	a.Helper()
	return a.Do(apitest.Request{
		Method: "PUT", Path: at, Body: strings.NewReader(content), Header: apitest.WithHeader(header...),
	})
}

// Other bytes appear under the same link, with their name and type, and the former ones come back.
func TestReplaceContent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	first := a.Upload(
		map[string]string{"isPublic": "true", "description": "words"}, apitest.File("a.txt", "text/plain", "one"),
	).Want(201)
	slug, tag := first.Text("slug"), first.Header.Get("Etag")
	at := "/api/v1/files/" + slug

	second := replace(
		a, at+"/content?name=../b.html", "<!doctype html><p>two", "Content-Type", "text/html", "If-Match", tag,
	).Want(200)
	sum := sha256.Sum256([]byte("<!doctype html><p>two"))
	for member, want := range map[string]any{
		"id": first.Text("id"), "slug": slug, "originalName": "b.html", "mimeType": "text/html", "size": 21.0,
		"sha256": hex.EncodeToString(sum[:]), "description": "words", "isPublic": true, "createdAt": first.Text("createdAt"),
	} {
		is.Equal(second.At("data."+member), want)
	}
	is.True(second.Header.Get("Etag") != tag)
	is.Equal(string(a.Visit("/x/"+slug).Want(200).Body), "<!doctype html><p>two")

	lost := replace(a, at+"/content", "three", "If-Match", tag).Want(412)
	is.Equal(lost.Code(), "changed_elsewhere")
	is.Equal(lost.Text("data.originalName"), "b.html")

	all := a.Get(at + "/versions").Want(200)
	is.Equal(all.At("total"), 1.0)
	is.Equal(all.At("data.0.size"), 3.0)
	version := at + "/versions/" + all.Text("data.0.id")
	is.Equal(a.Get(version).Want(200).Text("data.originalName"), "a.txt")
	is.Equal(a.Get("/api/v1/trash").Want(200).Text("data.0.versionOf"), first.Text("id"))

	third := a.Do(apitest.Request{
		Method: "POST", Path: version + "/restore", Header: apitest.WithHeader("If-Match", second.Header.Get("Etag")),
	}).Want(200)
	is.Equal(third.Text("data.originalName"), "a.txt")
	is.Equal(string(a.Visit("/x/"+slug).Want(200).Body), "one")
	is.Equal(a.Get(at+"/versions").Want(200).At("data.0.size"), 21.0)
	a.Do(apitest.Request{Method: "POST", Path: version + "/restore"}).Want(404) // is the present one
	is.True(a.Sound())
}

// Names and types come from the request as programs send them.
func TestReplacedName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	slug := a.Upload(nil, apitest.File("a.txt", "text/plain", "one")).Want(201).Text("slug")
	at := "/api/v1/files/" + slug + "/content"
	for _, tt := range []struct{ query, disposition, media, name, is string }{
		{"", "", "", "a.txt", "text/plain"},
		{"", "", "application/x-www-form-urlencoded", "a.txt", "text/plain"}, // curl --data-binary
		{"", `attachment; filename="b.md"`, "", "b.md", "text/markdown"},
		{"", `attachment; filename*=UTF-8''%C3%A4.csv`, "", "ä.csv", "text/csv"},
		{"?name=c.json", `attachment; filename="b.md"`, "", "c.json", "application/json"},
		{"", "", "text/x-python", "c.json", "application/json"},
	} {
		got := replace(a, at+tt.query, "{}", "Content-Disposition", tt.disposition, "Content-Type", tt.media).Want(200)
		is.Equal(got.Text("data.originalName"), tt.name)
		is.Equal(got.Text("data.mimeType"), tt.is)
	}
}

// A form with one file is taken as well.
func TestReplacedByForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	slug := a.Upload(nil, apitest.File("a.txt", "text/plain", "one")).Want(201).Text("slug")
	form := a.UploadRequest(map[string]string{"description": "ignored"}, apitest.File("b.md", "text/markdown", "two"))
	form.Method, form.Path = "PUT", "/api/v1/files/"+slug+"/content"
	got := a.Do(form).Want(200)
	is.Equal(got.Text("data.originalName"), "b.md")
	is.Equal(got.Text("data.mimeType"), "text/markdown")
	is.Equal(string(a.Get("/x/"+slug).Want(200).Body), "two")
	is.True(a.Sound())
}

// Bad bodies and other people's files change nothing and leave nothing behind.
func TestReplaceRefused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	slug := a.Upload(nil, apitest.File("a.txt", "text/plain", "one")).Want(201).Text("slug")
	at := "/api/v1/files/" + slug + "/content"
	replace(a, at, "--b\r\n", "Content-Type", "multipart/form-data; boundary=b").Want(400)
	two := a.UploadRequest(nil, apitest.File("b.txt", "", "two"), apitest.File("c.txt", "", "three"))
	two.Method, two.Path = "PUT", at
	a.Do(two).Want(422)
	replace(a, at, "zip", "Content-Encoding", "gzip").Want(415)
	host := strings.TrimPrefix(a.URL, "http://")
	conn, err := net.Dial("tcp", host)
	is.NoErr(err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\n\r\n", at, host, a.Key) // curl -X PUT
	is.NoErr(err)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	is.NoErr(err)
	is.Equal(got.StatusCode, 400)
	is.NoErr(got.Body.Close())
	replace(a, at, "e", "Content-Range", "bytes 2-2/3").Want(400)
	replace(a, "/api/v1/files/nothing/content", "two").Want(404)
	a.Do(apitest.Request{Method: "PUT", Path: at, Anyone: true, Body: strings.NewReader("two")}).Want(401)
	other := a.AddKey(a.AddUser("bob", people.Member), people.ScopeRead, people.ScopeWrite)
	a.Do(apitest.Request{Method: "PUT", Path: at, Key: other, Body: strings.NewReader("two")}).Want(404)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/files/" + slug + "/versions", Key: other}).Want(404)

	is.Equal(a.Get("/api/v1/files/"+slug).Want(200).Text("data.originalName"), "a.txt")
	is.Equal(a.Get("/api/v1/files/"+slug+"/versions").Want(200).At("total"), 0.0)
	is.Equal(string(a.Get("/x/"+slug).Want(200).Body), "one")
	is.True(a.Sound())
}

// While the trash is off, the former bytes make room for the new ones.
func TestReplaceAtQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Patch("/api/v1/admin/settings", map[string]any{"trashDays": 0, "defaultQuotaBytes": 100_000}).Want(200)
	slug := a.Upload(nil, apitest.File("a.txt", "text/plain", strings.Repeat("a", 90_000))).Want(201).Text("slug")
	at := "/api/v1/files/" + slug + "/content"
	replace(a, at, strings.Repeat("b", 95_000)).Want(200)
	is.Equal(replace(a, at, strings.Repeat("c", 100_001)).Want(403).Code(), "quota_exceeded")

	a.Patch("/api/v1/admin/settings", map[string]any{"trashDays": 30}).Want(200)
	is.Equal(replace(a, at, strings.Repeat("d", 20_000)).Want(403).Code(), "quota_exceeded")
	is.Equal(a.Get("/api/v1/files/"+slug).Want(200).At("data.size"), 95_000.0)
	is.True(a.Sound())
}

// The picture of a film does not stay with other bytes.
func TestReplacedFilm(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	film := apitest.File("film.webm", "video/webm", "\x1aE\xdf\xa3 film")
	slug := a.Upload(nil, film).Want(201).Text("slug")
	at := "/api/v1/files/" + slug
	picture := func() {
		a.Do(apitest.Request{
			Method: "PUT", Path: at + "/poster", Raw: true, Body: bytes.NewReader([]byte(apitest.JpegOf(9, 9, color.Black))),
			Header: http.Header{"Content-Type": {"application/octet-stream"}},
		}).Want(200)
		a.Get("/t/" + slug).Want(200)
	}
	picture()
	replace(a, at+"/content", film.Content+" two", "Content-Type", "video/webm").Want(200)
	a.Get("/t/" + slug).Want(204)
	picture()
	version := at + "/versions/" + a.Get(at+"/versions").Want(200).Text("data.0.id")
	a.Do(apitest.Request{
		Method: "POST", Path: version + "/restore", Header: apitest.WithHeader("If-Match", `"other"`),
	}).Want(412)
	a.Post(at+"/versions/"+uuid.NewString()+"/restore", nil).Want(404)
	a.Get("/t/" + slug).Want(200) // nothing was changed
	a.Post(version+"/restore", nil).Want(200)
	a.Get("/t/" + slug).Want(204)
}
