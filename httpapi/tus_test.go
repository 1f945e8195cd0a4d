package httpapi

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/inbox"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

// tus sends a request of the protocol. Header is pairs; one that is empty is
// not sent.
func (a *app) tus(method, path, body string, header ...string) *answer {
	a.Helper()
	return a.tusBy(false, method, path, body, header...)
}

// tusBy is tus with the app's key or without one.
func (a *app) tusBy(anyone bool, method, path, body string, header ...string) *answer {
	a.Helper()
	h := withHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody)
	for i := 0; i+1 < len(header); i += 2 {
		h.Del(header[i])
		if header[i+1] != "" {
			h.Set(header[i], header[i+1])
		}
	}
	q := apiRequest{method: method, path: path, header: h, raw: true, anyone: anyone}
	if body != "" {
		q.body = strings.NewReader(body)
	}
	got := a.do(q)
	if v := got.header.Get("Tus-Resumable"); v != "1.0.0" {
		a.Errorf("%s %s: Tus-Resumable is %q", method, path, v)
	}
	return got
}

func meta(pairs ...string) string {
	var all []string
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, pairs[i]+" "+base64.StdEncoding.EncodeToString([]byte(pairs[i+1])))
	}
	return strings.Join(all, ",")
}

// begin begins an upload and returns its address.
func (a *app) begin(length int, pairs ...string) string {
	a.Helper()
	return a.tus("POST", upload.TusPath, "", "Upload-Length", fmt.Sprint(length), "Upload-Metadata", meta(pairs...)).want(201).header.Get("Location")
}

func (a *app) piece(at string, offset int, body string, header ...string) *answer {
	a.Helper()
	return a.tus("PATCH", at, body, append([]string{"Upload-Offset", fmt.Sprint(offset)}, header...)...)
}

// offset asks where the upload is.
func (a *app) offset(at string) string {
	a.Helper()
	return a.tus("HEAD", at, "").want(200).header.Get("Upload-Offset")
}

func (a *app) parts() int {
	a.Helper()
	names, err := a.server.Blobs.Parts.Names()
	a.fatal(err)
	return len(names)
}

func TestTusDescribes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for _, path := range []string{upload.TusPath, upload.TusPath + "/01890a5d-ac96-774b-bcce-b302099a8057"} {
		got := a.do(apiRequest{method: "OPTIONS", path: path, anyone: true}).want(204)
		is.Equal(got.header.Get("Tus-Version"), "1.0.0")
		is.Equal(got.header.Get("Tus-Extension"), "creation,creation-with-upload,creation-defer-length,expiration,checksum,termination")
		is.Equal(got.header.Get("Tus-Checksum-Algorithm"), "sha1,sha256")
		is.Equal(got.header.Get("Tus-Max-Size"), fmt.Sprint(64<<20))
	}
	// A page of another origin may send and read what the protocol needs.
	got := a.do(apiRequest{method: "OPTIONS", path: upload.TusPath, anyone: true, header: withHeader("Origin", "https://elsewhere.example", "Access-Control-Request-Method", "PATCH")}).want(204)
	for _, name := range []string{"tus-resumable", "upload-length", "upload-offset", "upload-metadata", "upload-defer-length", "upload-checksum"} {
		is.True(strings.Contains(got.header.Get("Access-Control-Allow-Headers"), name))
	}
	got = a.do(apiRequest{method: "GET", path: upload.TusPath, header: withHeader("Origin", "https://elsewhere.example")}).want(200)
	for _, name := range []string{"Location", "Upload-Offset", "Upload-Length", "Upload-Expires", "X-Kist-Url"} {
		is.True(strings.Contains(got.header.Get("Access-Control-Expose-Headers"), name))
	}
}

// HEAD without the version of tus is GET without the body, and what is not
// allowed says what is.
func TestTusHead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	at := a.begin(5)
	get, head := a.get(at).want(200), a.do(apiRequest{method: "HEAD", path: at}).want(200)
	for _, name := range []string{"Content-Type", "Content-Length", "Upload-Offset", "Upload-Length", "Cache-Control"} {
		is.Equal(head.header.Get(name), get.header.Get(name))
	}
	is.Equal(len(head.body), 0)
	a.tus("HEAD", at, "", "Tus-Resumable", "0.2.2").want(412)
	is.Equal(a.tus("POST", at, "", "X-HTTP-Method-Override", "PUT").want(405).header.Get("Allow"), "DELETE, GET, HEAD, OPTIONS, PATCH, POST")
	is.Equal(a.do(apiRequest{method: "PUT", path: at, raw: true}).want(405).header.Get("Allow"), "DELETE, GET, HEAD, OPTIONS, PATCH, POST")
}

// TestTusRepeatedBegin: a POST whose answer was lost can be sent again. It starts one upload, and a
// file that came with it is stored once.
func TestTusRepeatedBegin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	begin := func(key, length, body string, pairs ...string) *answer {
		return a.tus("POST", upload.TusPath, body, "Upload-Length", length, "Upload-Metadata", meta(pairs...), "Idempotency-Key", key)
	}
	files := func() float64 { return a.get("/api/v1/files").want(200).at("total").(float64) }

	first := begin("k1", "11", "", "filename", "a.txt", "slug", "sea").want(201)
	at := first.header.Get("Location")
	a.piece(at, 0, "hello ").want(204)
	again := begin("k1", "11", "", "filename", "a.txt", "slug", "sea").want(201)
	is.Equal(again.header.Get("Location"), at)
	is.Equal(again.header.Get("Upload-Offset"), "6")
	is.Equal(again.text("data.id"), first.text("data.id"))
	a.piece(at, 6, "world").want(204)

	// Complete with one request: the repetition's bytes are not needed.
	first = begin("k2", "3", "abc", "filename", "b.txt").want(201)
	again = begin("k2", "3", "abc", "filename", "b.txt").want(201)
	is.Equal(again.header.Get("Upload-Offset"), "3")
	is.Equal(again.text("file.id"), first.text("file.id"))
	is.Equal(files(), 2.0)

	// Another request with the key starts nothing.
	begin("k2", "3", "abc", "filename", "c.txt").want(422)
	is.Equal(begin("k2", "4", "abc", "filename", "b.txt").want(422).code(), "idempotency_mismatch")
	begin(strings.Repeat("k", 256), "3", "abc").want(400)
	is.Equal(files(), 2.0)

	// An upload that failed or was cancelled is not given again.
	at = begin("k3", "3", "", "filename", "d.txt").want(201).header.Get("Location")
	a.tus("DELETE", at, "").want(204)
	other := begin("k3", "3", "abc", "filename", "d.txt").want(201).header.Get("Location")
	is.True(other != at)
	is.Equal(files(), 3.0)

	// Without a key, each request starts an upload.
	is.True(begin("", "3", "abc", "filename", "b.txt").want(201).text("file.id") != first.text("file.id"))
}

// TestTusRepeatedBeginNearQuota: the reservation of an upload does not stand in the way of its own
// repetition.
func TestTusRepeatedBeginNearQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.patch("/api/v1/admin/settings", `{"defaultQuotaBytes":100}`).want(200)
	begin := func(key string) *answer {
		return a.tus("POST", upload.TusPath, "", "Upload-Length", "60", "Idempotency-Key", key)
	}
	at := begin("k").want(201).header.Get("Location")
	is.Equal(begin("k").want(201).header.Get("Location"), at)
	is.Equal(begin("other").want(403).code(), "quota_exceeded")
	a.piece(at, 0, strings.Repeat("x", 60)).want(204)
	is.Equal(begin("k").want(201).header.Get("Upload-Offset"), "60")
}

// TestTusRepeatedBeginTakesOver: a repetition that arrives while the first request still sends its
// body ends that request and continues with the bytes that it brought. So does one that arrives
// after the connection broke.
func TestTusRepeatedBeginTakesOver(t *testing.T) {
	needs.Alone(t)
	for name, breaks := range map[string]bool{"stalled": false, "broken": true} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			content := strings.Repeat("0123456789", 40_000)
			header := func() http.Header {
				return withHeader("Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", meta("filename", "a.txt"), "Idempotency-Key", "k")
			}
			status, end := a.stalled("POST", upload.TusPath, header(), content[:300_000], int64(len(content)))
			defer end()
			if breaks {
				end()
				<-status
			}
			again := a.tus("POST", upload.TusPath, "", "Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", meta("filename", "a.txt"), "Idempotency-Key", "k").want(201)
			offset := 0
			_, err := fmt.Sscan(again.header.Get("Upload-Offset"), &offset)
			is.NoErr(err)
			is.True(offset > 0 && offset <= 300_000)
			if !breaks {
				is.Equal(<-status, 409)
			}
			at := again.header.Get("Location")
			slug := a.piece(at, offset, content[offset:]).want(204).header.Get("X-Kist-Slug")
			is.True(string(a.get("/x/"+slug).want(200).body) == content)
			is.Equal(a.get("/api/v1/files").want(200).at("total"), 1.0)
		})
	}
}

// TestTus takes an upload from its beginning to its file.
func TestTus(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	tag := a.post("/api/v1/tags", `{"name":"old"}`).want(201).text("data.id")
	created := a.tus("POST", upload.TusPath, "", "Upload-Length", "11", "Upload-Metadata", meta(
		"filename", "../Sea.txt", "filetype", "text/markdown", "description", "Noon", "isPublic", "true", "slug", "sea", "folderName", "Holidays",
		"tagIds", `["`+tag+`"]`, "newTags", "a,b", "password", "open sesame", "maxViews", "3", "maxViewsAction", "delete", "expiresAt", "2130-01-01T00:00:00Z", "unknown", "x",
	)).want(201)
	at := created.header.Get("Location")
	is.True(strings.HasPrefix(at, upload.TusPath+"/"))
	is.Equal(created.text("data.filename"), "Sea.txt")
	is.Equal(created.at("file"), nil)
	ends, err := http.ParseTime(created.header.Get("Upload-Expires"))
	is.NoErr(err)
	is.True(time.Until(ends) > 23*time.Hour && time.Until(ends) <= 24*time.Hour)

	head := a.tus("HEAD", at, "").want(200)
	is.Equal(head.header.Get("Upload-Offset"), "0")
	is.Equal(head.header.Get("Upload-Length"), "11")
	is.Equal(head.header.Get("Cache-Control"), "no-store")
	is.True(strings.Contains(head.header.Get("Upload-Metadata"), meta("filename", "../Sea.txt")))
	is.True(!strings.Contains(head.header.Get("Upload-Metadata"), "password"))
	is.Equal(a.get(upload.TusPath).want(200).at("total"), 1.0)

	// The slug is kept free.
	is.Equal(a.post("/api/v1/notes", `{"content":"c","slug":"sea"}`).want(409).code(), "slug_taken")

	got := a.piece(at, 0, "hello ").want(204)
	is.Equal(got.header.Get("Upload-Offset"), "6")
	is.True(got.header.Get("Upload-Expires") != "")
	is.Equal(a.offset(at), "6")
	wrong := a.piece(at, 5, "x").want(409)
	is.Equal(wrong.code(), "offset_mismatch")
	is.Equal(wrong.header.Get("Upload-Offset"), "6")
	is.Equal(a.get(at).want(200).at("data.offset"), 6.0)

	end := a.piece(at, 6, "world").want(204)
	is.Equal(end.header.Get("Upload-Offset"), "11")
	is.Equal(end.header.Get("X-Kist-Slug"), "sea")
	is.Equal(end.header.Get("X-Kist-Url"), "https://kist.example.org/x/sea")
	file := a.get("/api/v1/files/sea").want(200)
	is.Equal(file.text("data.originalName"), "Sea.txt")
	is.Equal(file.text("data.mimeType"), "text/plain") // as in a form: the name tells
	is.Equal(file.text("data.folder.name"), "Holidays")
	is.Equal(file.at("data.maxViews"), 3.0)
	is.Equal(file.at("data.hasPassword"), true)
	is.Equal(file.text("data.tags.2.name") != "", true)
	sum := sha256.Sum256([]byte("hello world"))
	is.Equal(file.text("data.sha256"), hex.EncodeToString(sum[:]))
	is.Equal(string(a.visit("/x/sea", "x-share-password", "open sesame").want(200).body), "hello world")
	is.Equal(a.parts(), 0)

	// Anyone who missed the answer finds out, and uploads nothing again.
	again := a.tus("HEAD", at, "").want(200)
	is.Equal(again.header.Get("Upload-Offset"), "11")
	is.Equal(again.header.Get("X-Kist-Id"), file.text("data.id"))
	is.Equal(a.piece(at, 11, "").want(204).header.Get("X-Kist-Slug"), "sea")
	is.Equal(a.get(at).want(200).text("file.slug"), "sea")
	is.Equal(a.get(at).at("data.complete"), true)
	is.Equal(a.get(at).text("data.filename"), "Sea.txt")
	a.piece(at, 11, "more").want(413)
	is.Equal(a.tus("DELETE", at, "").want(409).code(), "upload_complete")
	is.Equal(a.get(upload.TusPath).want(200).at("total"), 0.0)
	a.delete("/api/v1/files/sea").want(200)
	is.Equal(a.tus("HEAD", at, "").want(200).header.Get("X-Kist-Slug"), "")
	a.clock.advance(25 * time.Hour)
	is.Equal(a.get(at).want(410).code(), "upload_expired")
}

// TestTusRefuses begins uploads that are refused and leave nothing behind.
func TestTusRefuses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.MaxUpload = 1000 })
	a.post("/api/v1/notes", `{"content":"c","slug":"taken"}`).want(201)
	for name, c := range map[string]struct {
		status int
		code   string
		body   string
		header []string
	}{
		"no version":          {412, "tus_version", "", []string{"Tus-Resumable", "", "Upload-Length", "1"}},
		"other version":       {412, "tus_version", "", []string{"Tus-Resumable", "0.2.2", "Upload-Length", "1"}},
		"no length":           {400, "malformed", "", nil},
		"negative":            {400, "malformed", "", []string{"Upload-Length", "-1"}},
		"signed":              {400, "malformed", "", []string{"Upload-Length", "+1"}},
		"fraction":            {400, "malformed", "", []string{"Upload-Length", "1.0"}},
		"beyond 64 bits":      {400, "malformed", "", []string{"Upload-Length", "9223372036854775808"}},
		"too long":            {413, "too_large", "", []string{"Upload-Length", "1001"}},
		"largest number":      {413, "too_large", "", []string{"Upload-Length", "9223372036854775807"}},
		"both lengths":        {400, "malformed", "", []string{"Upload-Length", "1", "Upload-Defer-Length", "1"}},
		"strange deferral":    {400, "malformed", "", []string{"Upload-Defer-Length", "2"}},
		"part of a file":      {400, "malformed", "abc", []string{"Upload-Length", "3", "Upload-Concat", "partial"}},
		"parts of a file":     {400, "malformed", "", []string{"Upload-Concat", "final;/api/v1/tus/x"}},
		"metadata, no base64": {400, "malformed", "", []string{"Upload-Length", "1", "Upload-Metadata", "filename a!"}},
		"metadata twice":      {400, "malformed", "", []string{"Upload-Length", "1", "Upload-Metadata", "a YQ==,a YQ=="}},
		"metadata, no name":   {400, "malformed", "", []string{"Upload-Length", "1", "Upload-Metadata", "a YQ==,,b YQ=="}},
		"slug taken":          {409, "slug_taken", "", []string{"Upload-Length", "1", "Upload-Metadata", meta("slug", "taken")}},
		"slug":                {422, "invalid_fields", "", []string{"Upload-Length", "1", "Upload-Metadata", meta("slug", "a/b")}},
		"never a limit":       {422, "invalid_fields", "", []string{"Upload-Length", "1", "Upload-Metadata", meta("maxViews", "0")}},
		"past end":            {422, "invalid_fields", "", []string{"Upload-Length", "1", "Upload-Metadata", meta("expiresAt", "2020-01-01T00:00:00Z")}},
		"no boolean":          {422, "invalid_fields", "", []string{"Upload-Length", "1", "Upload-Metadata", meta("isPublic", "yes")}},
		"type of the body":    {415, "unsupported_media_type", "x", []string{"Upload-Length", "1", "Content-Type", "text/plain"}},
		"body too long":       {413, "too_large", "xy", []string{"Upload-Length", "1"}},
		"checksum":            {460, "checksum_mismatch", "x", []string{"Upload-Length", "1", "Upload-Checksum", "sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0="}},
		"checksum unknown":    {400, "malformed", "x", []string{"Upload-Length", "1", "Upload-Checksum", "crc32 AAAA"}},
		"checksum short":      {400, "malformed", "x", []string{"Upload-Length", "1", "Upload-Checksum", "sha1 AAAA"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := *a
			a.TB = t
			got := a.tus("POST", upload.TusPath, c.body, c.header...)
			is.Equal(got.status, c.status)
			is.Equal(got.code(), c.code)
		})
	}
	a.tusBy(true, "POST", upload.TusPath, "", "Upload-Length", "1").want(401)
	a.as(a.addKey(a.user, people.ScopeRead)).tus("POST", upload.TusPath, "", "Upload-Length", "1").want(403)
	is.Equal(a.get(upload.TusPath).want(200).at("total"), 0.0)
	is.Equal(a.parts(), 0)
	a.nothingLeft()

	at := a.begin(5)
	for name, c := range map[string]struct {
		status int
		header []string
	}{
		"no version": {412, []string{"Tus-Resumable", ""}}, "type": {415, []string{"Content-Type", "application/octet-stream"}},
		"no offset": {400, []string{"Upload-Offset", ""}}, "negative offset": {400, []string{"Upload-Offset", "-1"}}, "another length": {400, []string{"Upload-Length", "6"}},
		"beyond": {409, []string{"Upload-Offset", "1"}},
	} {
		if got := a.piece(at, 0, "hello", c.header...); got.status != c.status {
			t.Errorf("%s: %d, want %d", name, got.status, c.status)
		}
	}
	a.piece(at, 0, "hello!").want(413)
	is.Equal(a.offset(at), "0")

	// Another's is not there.
	bob := a.addKey(a.addUser("bob", people.Member), people.ScopeAll)
	for _, method := range []string{"HEAD", "PATCH", "DELETE", "GET"} {
		q := apiRequest{method: method, path: at, key: bob, raw: true, header: withHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "0")}
		a.do(q).want(404)
	}
	is.Equal(a.offset(at), "0")
	a.tus("DELETE", at, "").want(204)
	a.tus("HEAD", at, "").want(404)
	a.tus("DELETE", upload.TusPath+"/nothing", "").want(404)
	is.Equal(a.parts(), 0)
}

// Bytes may come with the beginning; a length may come later; nothing is a file
// too.
func TestTusShapes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	got := a.tus("POST", upload.TusPath, "hel", "Upload-Length", "5").want(201)
	is.Equal(got.header.Get("Upload-Offset"), "3")
	a.piece(got.header.Get("Location"), 3, "lo").want(204)
	whole := a.tus("POST", upload.TusPath, "hello", "Upload-Length", "5").want(201)
	is.Equal(whole.at("data.complete"), true)
	is.True(whole.text("file.slug") == whole.header.Get("X-Kist-Slug"))
	is.Equal(len(a.blobNames()), 1) // equal content is kept once

	empty := a.tus("POST", upload.TusPath, "", "Upload-Length", "0", "Upload-Metadata", "filename").want(201)
	is.Equal(empty.at("file.size"), 0.0)

	later := a.tus("POST", upload.TusPath, "", "Upload-Defer-Length", "1").want(201).header.Get("Location")
	is.Equal(a.tus("HEAD", later, "").want(200).header.Get("Upload-Defer-Length"), "1")
	a.piece(later, 0, "hel").want(204)
	a.piece(later, 3, "lo", "Upload-Length", "2").want(400)
	is.Equal(a.get(later).at("data.length"), nil)
	is.True(a.piece(later, 3, "lo", "Upload-Length", "5").want(204).header.Get("X-Kist-Slug") != "")
	late := a.tus("POST", upload.TusPath, "hello", "Upload-Defer-Length", "1").want(201).header.Get("Location")
	is.True(a.piece(late, 5, "", "Upload-Length", "5").want(204).header.Get("X-Kist-Slug") != "")

	over := a.begin(5)
	a.tus("POST", over, "hello", "X-HTTP-Method-Override", "PATCH", "Upload-Offset", "0").want(204)
	is.Equal(a.tus("POST", over, "", "X-HTTP-Method-Override", "HEAD").want(204).header.Get("Upload-Offset"), "5")
	a.tus("POST", over, "", "X-HTTP-Method-Override", "PUT").want(405)
	gone := a.begin(5)
	a.tus("POST", gone, "", "X-HTTP-Method-Override", "DELETE").want(204)
	is.Equal(a.get(gone).want(404).code(), "not_found")
	is.Equal(a.parts(), 0)
}

func TestTusChecksum(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	at := a.begin(10)
	one := sha1.Sum([]byte("hello")) //nolint:gosec // tus asks for it
	a.piece(at, 0, "hello", "Upload-Checksum", "sha1 "+base64.StdEncoding.EncodeToString(one[:])).want(204)
	is.Equal(a.piece(at, 5, "world", "Upload-Checksum", "sha1 "+base64.StdEncoding.EncodeToString(one[:])).want(460).code(), "checksum_mismatch")
	is.Equal(a.offset(at), "5")
	two := sha256.Sum256([]byte("world"))
	got := a.piece(at, 5, "world", "Upload-Checksum", "sha256 "+base64.StdEncoding.EncodeToString(two[:])).want(204)
	is.Equal(string(a.get("/x/"+got.header.Get("X-Kist-Slug")).want(200).body), "helloworld")
}

// An upload is counted against the quota from its beginning.
func TestTusQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.patch("/api/v1/admin/settings", `{"defaultQuotaBytes":100,"maxUploadBytes":90}`).want(200)
	is.Equal(a.tus("POST", upload.TusPath, "", "Upload-Length", "91").want(413).code(), "too_large")
	at := a.begin(90)
	is.Equal(a.tus("POST", upload.TusPath, "", "Upload-Length", "11").want(403).code(), "quota_exceeded")
	is.Equal(a.upload(nil, file{"a", "", strings.Repeat("x", 11)}).want(403).code(), "quota_exceeded")
	open := a.tus("POST", upload.TusPath, "", "Upload-Defer-Length", "1").want(201).header.Get("Location")
	is.Equal(a.piece(open, 0, strings.Repeat("x", 11)).want(403).code(), "quota_exceeded")
	a.piece(open, 0, strings.Repeat("x", 10)).want(204)
	a.piece(at, 0, strings.Repeat("x", 90)).want(204)
	a.tus("DELETE", open, "").want(204)
	is.Equal(a.upload(nil, file{"a", "", strings.Repeat("x", 10)}).want(403).code(), "quota_exceeded") // the text of the first one counts
	text := int(a.get("/api/v1/me").at("data.textBytes").(float64))
	a.patch("/api/v1/admin/settings", map[string]int{"defaultQuotaBytes": 100 + text}).want(200)
	a.upload(nil, file{"a", "", strings.Repeat("x", 10)}).want(201)
}

// stalled sends the first bytes of a body and keeps the connection, until the server ends it.
func (a *app) stalled(method, path string, header http.Header, first string, length int64) (answered <-chan int, end func()) {
	a.Helper()
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(a.Context(), method, a.url+path, r)
	a.fatal(err)
	req.ContentLength = length
	req.Header = header
	req.Header.Set("X-Api-Key", a.key)
	req.Header.Set("Tus-Resumable", web.TusVersion)
	req.Header.Set("Content-Type", upload.TusBody)
	status := inBackground(req)
	_, err = w.Write([]byte(first))
	a.fatal(err)
	a.receiving()
	return status, func() { _ = w.CloseWithError(io.ErrUnexpectedEOF) }
}

// receiving waits until bytes of an upload arrive.
func (a *app) receiving() {
	a.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		parts, err := os.ReadDir(filepath.Join(a.server.Store.Dir(), "cache", "uploads", "parts"))
		if !errors.Is(err, fs.ErrNotExist) {
			a.fatal(err)
		}
		for _, part := range parts {
			if info, err := part.Info(); err == nil && info.Size() > 0 {
				return
			}
		}
		if time.Now().After(deadline) {
			a.Fatal("the body is not being received")
		}
	}
}

// inBackground sends a request. It returns the status of the answer, or 0 if no answer comes.
func inBackground(req *http.Request) <-chan int {
	status := make(chan int, 1)
	go func() {
		res, err := plain.Do(req)
		if err != nil {
			status <- 0
			return
		}
		_ = res.Body.Close()
		status <- res.StatusCode
	}()
	return status
}

// sending sends the first bytes of a piece and keeps the connection, until the server ends it.
func (a *app) sending(at string, offset int, first string, length int64) (answered <-chan int, end func()) {
	a.Helper()
	return a.stalled("PATCH", at, withHeader("Upload-Offset", fmt.Sprint(offset)), first, length)
}

// A client that asks how far its upload is does not begin a new one because the
// server is busy.
func TestTusBusy(t *testing.T) {
	t.Parallel()
	a := start(t)
	busy := &record.Error{Fault: record.Busy, Code: "upload_busy", Text: "Another request is working on this upload.", Retry: time.Second}
	for _, of := range []struct {
		method, version string
		err             error
		status          int
	}{
		{"HEAD", web.TusVersion, busy, 423},
		{"HEAD", web.TusVersion, session.TooMany(time.Second), 423},
		{"HEAD", web.TusVersion, syscall.ENOSPC, 423},
		{"HEAD", web.TusVersion, record.NotFound("upload"), 404},
		{"HEAD", "", busy, 503},
		{"PATCH", web.TusVersion, busy, 503},
	} {
		r, w := httptest.NewRequest(of.method, upload.TusPath+"/x", http.NoBody), httptest.NewRecorder()
		r.Header.Set("Tus-Resumable", of.version)
		a.server.Fail(&web.AnswerWriter{ResponseWriter: w, Ctl: http.NewResponseController(w)}, r, "x", of.err)
		if w.Code != of.status {
			t.Errorf("%s %q after %v: %d, not %d", of.method, of.version, of.err, w.Code, of.status)
		}
	}
}

// Anyone who comes back does not wait for the connection that died: what that
// brought is kept.
func TestTusTakesOver(t *testing.T) {
	needs.Alone(t)
	for name, come := range map[string]func(a *app, at string) string{
		"HEAD":  func(a *app, at string) string { return a.offset(at) },
		"PATCH": func(a *app, at string) string { return a.piece(at, 0, "x").want(409).header.Get("Upload-Offset") },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			content := strings.Repeat("0123456789", 40_000)
			at := a.begin(len(content))
			status, end := a.sending(at, 0, content[:300_000], int64(len(content)))
			defer end()
			begun := time.Now()
			offset := 0
			_, err := fmt.Sscan(come(a, at), &offset)
			is.NoErr(err)
			is.True(time.Since(begun) < 5*time.Second) // not the time of a slow body
			is.True(offset <= 300_000)
			end()
			if got := <-status; got != 409 && got != 0 {
				t.Errorf("the one before was answered %d", got)
			}
			end2 := a.piece(at, offset, content[offset:]).want(204)
			is.Equal(string(a.get("/x/"+end2.header.Get("X-Kist-Slug")).want(200).body), content)
		})
	}
}

// What a connection brought before it broke is kept, unless it has a checksum.
func TestTusBreaksOff(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	at := a.begin(400_000)
	status, end := a.sending(at, 0, strings.Repeat("x", 300_000), 400_000)
	end()
	<-status
	eventually(t, "the upload is not where it broke off", func() bool { return a.get(at).at("data.offset") == 300_000.0 })
	is.Equal(a.offset(at), "300000")
}

// Where the bytes are not there, as in a backup, the upload starts again.
func TestTusWithoutItsBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	at := a.begin(11)
	a.piece(at, 0, "hello ").want(204)
	path := filepath.Join(a.server.Store.Dir(), "cache", "uploads", "parts", at[len(upload.TusPath)+1:])
	is.NoErr(os.Truncate(path, 3))
	is.Equal(a.offset(at), "0")
	a.piece(at, 0, "hello ").want(204)
	is.NoErr(os.Remove(path))
	a.piece(at, 6, "world").want(409)
	got := a.piece(at, 0, "hello world").want(204)
	is.Equal(string(a.get("/x/"+got.header.Get("X-Kist-Slug")).want(200).body), "hello world")
}

// An end that fails, such as without free space, loses nothing: asking again
// tries again. So it is when the process ends before the record is made.
func TestTusEndFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	at := a.begin(5)
	a.patch("/api/v1/admin/settings", `{"defaultQuotaBytes":4}`).want(200)
	a.piece(at, 0, "hello").want(403)
	is.Equal(a.tus("HEAD", at, "").want(403).header.Get("X-Kist-Slug"), "")
	is.Equal(a.get("/api/v1/files").at("total"), 0.0)
	a.patch("/api/v1/admin/settings", `{"defaultQuotaBytes":null}`).want(200)
	got := a.tus("HEAD", at, "").want(200)
	is.Equal(string(a.get("/x/"+got.header.Get("X-Kist-Slug")).want(200).body), "hello")
}

// A large upload passes through little memory, however it comes.
func TestTusMemory(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.MaxUpload = 1 << 40 })
	a.tus("POST", upload.TusPath, "", "Upload-Length", "1").want(201) // the document that answers are checked against is in memory now
	base, most := heap(), int64(0)
	got := a.tusZeros(much, func() { most = max(most, heap()) })
	is.True(most > 0)
	is.True(most < base+8<<20)
	is.Equal(got.header.Get("Upload-Offset"), fmt.Sprint(much))
}

// tusZeros uploads zeros in one piece.
func (a *app) tusZeros(size int64, at func()) *answer {
	a.Helper()
	path := a.tus("POST", upload.TusPath, "", "Upload-Length", fmt.Sprint(size)).want(201).header.Get("Location")
	req, err := http.NewRequestWithContext(a.Context(), "PATCH", a.url+path, &zeros{size: size, at: at})
	a.fatal(err)
	req.ContentLength = size
	req.Header = withHeader("X-Api-Key", a.key, "Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "0")
	res, err := plain.Do(req)
	a.fatal(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a.fatal(err)
	return (&answer{app: a, status: res.StatusCode, header: res.Header, body: body}).want(204)
}

// TestTusLong uploads 20 GiB of zeros, for which the heap never grows past 48
// MiB, garbage and all: go test ./httpapi -run TusLong -long -timeout 1h
func TestTusLong(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	if !*long {
		needs.LeaveOut(t, "a resumable upload of 20 GiB", "no -long")
	}
	a := start(t, func(c *web.Config) { c.MaxUpload = 1 << 40 })
	var m runtime.MemStats
	most := uint64(0)
	a.tusZeros(20<<30, func() {
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	})
	t.Logf("the heap had %d KiB at most", most>>10)
	is.True(most < 48<<20)
}

// An upload of unknown length that is over a bound by now takes no more.
func TestTusBoundLowered(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	at := a.tus("POST", upload.TusPath, "", "Upload-Defer-Length", "1").want(201).header.Get("Location")
	a.piece(at, 0, "hello").want(204)
	a.patch("/api/v1/admin/settings", map[string]any{"maxUploadBytes": 4}).want(200)
	req, err := http.NewRequestWithContext(t.Context(), "PATCH", a.url+at, io.MultiReader(strings.NewReader("world"))) // of no known length
	is.NoErr(err)
	req.Header = withHeader("X-Api-Key", a.key, "Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "5")
	res, err := plain.Do(req)
	is.NoErr(err)
	is.NoErr(res.Body.Close())
	is.Equal(res.StatusCode, 413)
}

// A user who is gone takes their uploads along.
func TestTusWithoutItsOwner(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addUser("bob", people.Member)
	key := a.addKey(bob, people.ScopeAll)
	a.do(apiRequest{method: "POST", path: upload.TusPath, key: key, raw: true, body: strings.NewReader("hel"), header: withHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Length", "5")}).want(201)
	is.Equal(a.parts(), 1)
	a.delete("/api/v1/admin/users/" + bob.ID.String()).want(200)
	is.NoErr(a.server.Store.View(func(tx *kv.Tx) error {
		awaited, err := inbox.OpenUploads(tx)
		is.Equal(len(awaited), 0) // the sweep removes the bytes
		return err
	}))
}
