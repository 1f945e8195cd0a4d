package httpapi

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

	"kist/kv/people"

	"github.com/google/uuid"
	"github.com/matryer/is"
)

// replace sends other bytes for the file at an address of the API.
func (a *app) replace(at, content string, header ...string) *answer {
	a.Helper()
	return a.do(apiRequest{method: "PUT", path: at, body: strings.NewReader(content), header: withHeader(header...)})
}

// Other bytes appear under the same link, with their name and type, and the former ones come back.
func TestReplaceContent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	first := a.upload(map[string]string{"isPublic": "true", "description": "words"}, file{"a.txt", "text/plain", "one"}).want(201)
	slug, tag := first.text("slug"), first.header.Get("Etag")
	at := "/api/v1/files/" + slug

	second := a.replace(at+"/content?name=../b.html", "<!doctype html><p>two", "Content-Type", "text/html", "If-Match", tag).want(200)
	sum := sha256.Sum256([]byte("<!doctype html><p>two"))
	for member, want := range map[string]any{
		"id": first.text("id"), "slug": slug, "originalName": "b.html", "mimeType": "text/html", "size": 21.0,
		"sha256": hex.EncodeToString(sum[:]), "description": "words", "isPublic": true, "createdAt": first.text("createdAt"),
	} {
		is.Equal(second.at("data."+member), want)
	}
	is.True(second.header.Get("Etag") != tag)
	is.Equal(string(a.visit("/x/"+slug).want(200).body), "<!doctype html><p>two")

	lost := a.replace(at+"/content", "three", "If-Match", tag).want(412)
	is.Equal(lost.code(), "changed_elsewhere")
	is.Equal(lost.text("data.originalName"), "b.html")

	all := a.get(at + "/versions").want(200)
	is.Equal(all.at("total"), 1.0)
	is.Equal(all.at("data.0.size"), 3.0)
	version := at + "/versions/" + all.text("data.0.id")
	is.Equal(a.get(version).want(200).text("data.originalName"), "a.txt")
	is.Equal(a.get("/api/v1/trash").want(200).text("data.0.versionOf"), first.text("id"))

	third := a.do(apiRequest{method: "POST", path: version + "/restore", header: withHeader("If-Match", second.header.Get("Etag"))}).want(200)
	is.Equal(third.text("data.originalName"), "a.txt")
	is.Equal(string(a.visit("/x/"+slug).want(200).body), "one")
	is.Equal(a.get(at+"/versions").want(200).at("data.0.size"), 21.0)
	a.do(apiRequest{method: "POST", path: version + "/restore"}).want(404) // is the present one
	is.True(a.sound())
}

// Names and types come from the request as programs send them.
func TestReplacedName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	slug := a.upload(nil, file{"a.txt", "text/plain", "one"}).want(201).text("slug")
	at := "/api/v1/files/" + slug + "/content"
	for _, tt := range []struct{ query, disposition, media, name, is string }{
		{"", "", "", "a.txt", "text/plain"},
		{"", "", "application/x-www-form-urlencoded", "a.txt", "text/plain"}, // curl --data-binary
		{"", `attachment; filename="b.md"`, "", "b.md", "text/markdown"},
		{"", `attachment; filename*=UTF-8''%C3%A4.csv`, "", "ä.csv", "text/csv"},
		{"?name=c.json", `attachment; filename="b.md"`, "", "c.json", "application/json"},
		{"", "", "text/x-python", "c.json", "application/json"},
	} {
		got := a.replace(at+tt.query, "{}", "Content-Disposition", tt.disposition, "Content-Type", tt.media).want(200)
		is.Equal(got.text("data.originalName"), tt.name)
		is.Equal(got.text("data.mimeType"), tt.is)
	}
}

// A form with one file is taken as well.
func TestReplacedByForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	slug := a.upload(nil, file{"a.txt", "text/plain", "one"}).want(201).text("slug")
	form := a.uploadRequest(map[string]string{"description": "ignored"}, file{"b.md", "text/markdown", "two"})
	form.method, form.path = "PUT", "/api/v1/files/"+slug+"/content"
	got := a.do(form).want(200)
	is.Equal(got.text("data.originalName"), "b.md")
	is.Equal(got.text("data.mimeType"), "text/markdown")
	is.Equal(string(a.get("/x/"+slug).want(200).body), "two")
	is.True(a.sound())
}

// Bad bodies and other people's files change nothing and leave nothing behind.
func TestReplaceRefused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	slug := a.upload(nil, file{"a.txt", "text/plain", "one"}).want(201).text("slug")
	at := "/api/v1/files/" + slug + "/content"
	a.replace(at, "--b\r\n", "Content-Type", "multipart/form-data; boundary=b").want(400)
	two := a.uploadRequest(nil, file{"b.txt", "", "two"}, file{"c.txt", "", "three"})
	two.method, two.path = "PUT", at
	a.do(two).want(422)
	a.replace(at, "zip", "Content-Encoding", "gzip").want(415)
	host := strings.TrimPrefix(a.url, "http://")
	conn, err := net.Dial("tcp", host)
	is.NoErr(err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\n\r\n", at, host, a.key) // curl -X PUT
	is.NoErr(err)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	is.NoErr(err)
	is.Equal(got.StatusCode, 400)
	is.NoErr(got.Body.Close())
	a.replace(at, "e", "Content-Range", "bytes 2-2/3").want(400)
	a.replace("/api/v1/files/nothing/content", "two").want(404)
	a.do(apiRequest{method: "PUT", path: at, anyone: true, body: strings.NewReader("two")}).want(401)
	other := a.addKey(a.addUser("bob", people.Member), people.ScopeRead, people.ScopeWrite)
	a.do(apiRequest{method: "PUT", path: at, key: other, body: strings.NewReader("two")}).want(404)
	a.do(apiRequest{method: "GET", path: "/api/v1/files/" + slug + "/versions", key: other}).want(404)

	is.Equal(a.get("/api/v1/files/"+slug).want(200).text("data.originalName"), "a.txt")
	is.Equal(a.get("/api/v1/files/"+slug+"/versions").want(200).at("total"), 0.0)
	is.Equal(string(a.get("/x/"+slug).want(200).body), "one")
	is.True(a.sound())
}

// While the trash is off, the former bytes make room for the new ones.
func TestReplaceAtQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.patch("/api/v1/admin/settings", map[string]any{"trashDays": 0, "defaultQuotaBytes": 100_000}).want(200)
	slug := a.upload(nil, file{"a.txt", "text/plain", strings.Repeat("a", 90_000)}).want(201).text("slug")
	at := "/api/v1/files/" + slug + "/content"
	a.replace(at, strings.Repeat("b", 95_000)).want(200)
	is.Equal(a.replace(at, strings.Repeat("c", 100_001)).want(403).code(), "quota_exceeded")

	a.patch("/api/v1/admin/settings", map[string]any{"trashDays": 30}).want(200)
	is.Equal(a.replace(at, strings.Repeat("d", 20_000)).want(403).code(), "quota_exceeded")
	is.Equal(a.get("/api/v1/files/"+slug).want(200).at("data.size"), 95_000.0)
	is.True(a.sound())
}

// The picture of a film does not stay with other bytes.
func TestReplacedFilm(t *testing.T) {
	t.Parallel()
	a := start(t)
	film := file{"film.webm", "video/webm", "\x1aE\xdf\xa3 film"}
	slug := a.upload(nil, film).want(201).text("slug")
	at := "/api/v1/files/" + slug
	picture := func() {
		a.do(apiRequest{
			method: "PUT", path: at + "/poster", raw: true, body: bytes.NewReader([]byte(jpegOf(9, 9, color.Black))),
			header: http.Header{"Content-Type": {"application/octet-stream"}},
		}).want(200)
		a.get("/t/" + slug).want(200)
	}
	picture()
	a.replace(at+"/content", film.content+" two", "Content-Type", "video/webm").want(200)
	a.get("/t/" + slug).want(204)
	picture()
	version := at + "/versions/" + a.get(at+"/versions").want(200).text("data.0.id")
	a.do(apiRequest{method: "POST", path: version + "/restore", header: withHeader("If-Match", `"other"`)}).want(412)
	a.post(at+"/versions/"+uuid.NewString()+"/restore", nil).want(404)
	a.get("/t/" + slug).want(200) // nothing was changed
	a.post(version+"/restore", nil).want(200)
	a.get("/t/" + slug).want(204)
}
