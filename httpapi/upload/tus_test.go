package upload_test

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

	"kist/httpapi/apitest"
	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/inbox"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

func TestTusDescribes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, path := range []string{upload.TusPath, upload.TusPath + "/01890a5d-ac96-774b-bcce-b302099a8057"} {
		got := a.Do(apitest.Request{Method: "OPTIONS", Path: path, Anyone: true}).Want(204)
		is.Equal(got.Header.Get("Tus-Version"), "1.0.0")
		is.Equal(
			got.Header.Get("Tus-Extension"),
			"creation,creation-with-upload,creation-defer-length,expiration,checksum,termination",
		)
		is.Equal(got.Header.Get("Tus-Checksum-Algorithm"), "sha1,sha256")
		is.Equal(got.Header.Get("Tus-Max-Size"), fmt.Sprint(64<<20))
	}
	// A page of another origin may send and read what the protocol needs.
	got := a.Do(apitest.Request{
		Method: "OPTIONS", Path: upload.TusPath, Anyone: true,
		Header: apitest.WithHeader("Origin", "https://elsewhere.example", "Access-Control-Request-Method", "PATCH"),
	}).Want(204)
	for _, name := range []string{
		"tus-resumable", "upload-length", "upload-offset", "upload-metadata", "upload-defer-length", "upload-checksum",
	} {
		is.True(strings.Contains(got.Header.Get("Access-Control-Allow-Headers"), name))
	}
	got = a.Do(apitest.Request{
		Method: "GET", Path: upload.TusPath, Header: apitest.WithHeader("Origin", "https://elsewhere.example"),
	}).Want(200)
	for _, name := range []string{"Location", "Upload-Offset", "Upload-Length", "Upload-Expires", "X-Kist-Url"} {
		is.True(strings.Contains(got.Header.Get("Access-Control-Expose-Headers"), name))
	}
}

// HEAD without the version of tus is GET without the body, and what is not
// allowed says what is.
func TestTusHead(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	at := a.Begin(5)
	get, head := a.Get(at).Want(200), a.Do(apitest.Request{Method: "HEAD", Path: at}).Want(200)
	for _, name := range []string{"Content-Type", "Content-Length", "Upload-Offset", "Upload-Length", "Cache-Control"} {
		is.Equal(head.Header.Get(name), get.Header.Get(name))
	}
	is.Equal(len(head.Body), 0)
	a.SendTus("HEAD", at, "", "Tus-Resumable", "0.2.2").Want(412)
	is.Equal(
		a.SendTus("POST", at, "", "X-HTTP-Method-Override", "PUT").Want(405).Header.Get("Allow"),
		"DELETE, GET, HEAD, OPTIONS, PATCH, POST",
	)
	is.Equal(
		a.Do(apitest.Request{Method: "PUT", Path: at, Raw: true}).Want(405).Header.Get("Allow"),
		"DELETE, GET, HEAD, OPTIONS, PATCH, POST",
	)
}

// TestTusRepeatedBegin: a POST whose answer was lost can be sent again. It starts one upload, and a
// file that came with it is stored once.
func TestTusRepeatedBegin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	begin := func(key, length, body string, pairs ...string) *apitest.Answer {
		return a.SendTus(
			"POST", upload.TusPath, body, "Upload-Length", length, "Upload-Metadata", apitest.Meta(pairs...), "Idempotency-Key",
			key,
		)
	}
	files := func() float64 { return a.Get("/api/v1/files").Want(200).At("total").(float64) }

	first := begin("k1", "11", "", "filename", "a.txt", "slug", "sea").Want(201)
	at := first.Header.Get("Location")
	a.Piece(at, 0, "hello ").Want(204)
	again := begin("k1", "11", "", "filename", "a.txt", "slug", "sea").Want(201)
	is.Equal(again.Header.Get("Location"), at)
	is.Equal(again.Header.Get("Upload-Offset"), "6")
	is.Equal(again.Text("data.id"), first.Text("data.id"))
	a.Piece(at, 6, "world").Want(204)

	// Complete with one request: the repetition's bytes are not needed.
	first = begin("k2", "3", "abc", "filename", "b.txt").Want(201)
	again = begin("k2", "3", "abc", "filename", "b.txt").Want(201)
	is.Equal(again.Header.Get("Upload-Offset"), "3")
	is.Equal(again.Text("file.id"), first.Text("file.id"))
	is.Equal(files(), 2.0)

	// Another request with the key starts nothing.
	begin("k2", "3", "abc", "filename", "c.txt").Want(422)
	is.Equal(begin("k2", "4", "abc", "filename", "b.txt").Want(422).Code(), "idempotency_mismatch")
	begin(strings.Repeat("k", 256), "3", "abc").Want(400)
	is.Equal(files(), 2.0)

	// An upload that failed or was cancelled is not given again.
	at = begin("k3", "3", "", "filename", "d.txt").Want(201).Header.Get("Location")
	a.SendTus("DELETE", at, "").Want(204)
	other := begin("k3", "3", "abc", "filename", "d.txt").Want(201).Header.Get("Location")
	is.True(other != at)
	is.Equal(files(), 3.0)

	// Without a key, each request starts an upload.
	is.True(begin("", "3", "abc", "filename", "b.txt").Want(201).Text("file.id") != first.Text("file.id"))
}

// TestTusRepeatedBeginNearQuota: the reservation of an upload does not stand in the way of its own
// repetition.
func TestTusRepeatedBeginNearQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Patch("/api/v1/admin/settings", `{"defaultQuotaBytes":100}`).Want(200)
	begin := func(key string) *apitest.Answer {
		return a.SendTus("POST", upload.TusPath, "", "Upload-Length", "60", "Idempotency-Key", key)
	}
	at := begin("k").Want(201).Header.Get("Location")
	is.Equal(begin("k").Want(201).Header.Get("Location"), at)
	is.Equal(begin("other").Want(403).Code(), "quota_exceeded")
	a.Piece(at, 0, strings.Repeat("x", 60)).Want(204)
	is.Equal(begin("k").Want(201).Header.Get("Upload-Offset"), "60")
}

// TestTusRepeatedBeginTakesOver: a repetition that arrives while the first request still sends its
// body ends that request and continues with the bytes that it brought. So does one that arrives
// after the connection broke.
func TestTusRepeatedBeginTakesOver(t *testing.T) {
	needs.Alone(t)
	for name, breaks := range map[string]bool{"stalled": false, "broken": true} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := apitest.Start(t)
			content := strings.Repeat("0123456789", 40_000)
			header := func() http.Header {
				return apitest.WithHeader(
					"Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", apitest.Meta("filename", "a.txt"), "Idempotency-Key",
					"k",
				)
			}
			status, end := stalled(a, "POST", upload.TusPath, header(), content[:300_000], int64(len(content)))
			defer end()
			if breaks {
				end()
				<-status
			}
			again := a.SendTus(
				"POST", upload.TusPath, "", "Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata",
				apitest.Meta("filename", "a.txt"), "Idempotency-Key", "k",
			).Want(201)
			offset := 0
			_, err := fmt.Sscan(again.Header.Get("Upload-Offset"), &offset)
			is.NoErr(err)
			is.True(offset > 0 && offset <= 300_000)
			if !breaks {
				is.Equal(<-status, 409)
			}
			at := again.Header.Get("Location")
			slug := a.Piece(at, offset, content[offset:]).Want(204).Header.Get("X-Kist-Slug")
			is.True(string(a.Get("/x/"+slug).Want(200).Body) == content)
			is.Equal(a.Get("/api/v1/files").Want(200).At("total"), 1.0)
		})
	}
}

// TestTus takes an upload from its beginning to its file.
func TestTus(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	tag := a.Post("/api/v1/tags", `{"name":"old"}`).Want(201).Text("data.id")
	created := a.SendTus("POST", upload.TusPath, "", "Upload-Length", "11", "Upload-Metadata", apitest.Meta(
		"filename", "../Sea.txt", "filetype", "text/markdown", "description", "Noon", "isPublic", "true", "slug", "sea", "folderName", "Holidays",
		"tagIds", `["`+tag+`"]`, "newTags", "a,b", "password", "open sesame", "maxViews", "3", "maxViewsAction", "delete", "expiresAt", "2130-01-01T00:00:00Z", "unknown", "x",
	)).Want(201)
	at := created.Header.Get("Location")
	is.True(strings.HasPrefix(at, upload.TusPath+"/"))
	is.Equal(created.Text("data.filename"), "Sea.txt")
	is.Equal(created.At("file"), nil)
	ends, err := http.ParseTime(created.Header.Get("Upload-Expires"))
	is.NoErr(err)
	is.True(time.Until(ends) > 23*time.Hour && time.Until(ends) <= 24*time.Hour)

	head := a.SendTus("HEAD", at, "").Want(200)
	is.Equal(head.Header.Get("Upload-Offset"), "0")
	is.Equal(head.Header.Get("Upload-Length"), "11")
	is.Equal(head.Header.Get("Cache-Control"), "no-store")
	is.True(strings.Contains(head.Header.Get("Upload-Metadata"), apitest.Meta("filename", "../Sea.txt")))
	is.True(!strings.Contains(head.Header.Get("Upload-Metadata"), "password"))
	is.Equal(a.Get(upload.TusPath).Want(200).At("total"), 1.0)

	// The slug is kept free.
	is.Equal(a.Post("/api/v1/notes", `{"content":"c","slug":"sea"}`).Want(409).Code(), "slug_taken")

	got := a.Piece(at, 0, "hello ").Want(204)
	is.Equal(got.Header.Get("Upload-Offset"), "6")
	is.True(got.Header.Get("Upload-Expires") != "")
	is.Equal(a.Offset(at), "6")
	wrong := a.Piece(at, 5, "x").Want(409)
	is.Equal(wrong.Code(), "offset_mismatch")
	is.Equal(wrong.Header.Get("Upload-Offset"), "6")
	is.Equal(a.Get(at).Want(200).At("data.offset"), 6.0)

	end := a.Piece(at, 6, "world").Want(204)
	is.Equal(end.Header.Get("Upload-Offset"), "11")
	is.Equal(end.Header.Get("X-Kist-Slug"), "sea")
	is.Equal(end.Header.Get("X-Kist-Url"), "https://kist.example.org/x/sea")
	file := a.Get("/api/v1/files/sea").Want(200)
	is.Equal(file.Text("data.originalName"), "Sea.txt")
	is.Equal(file.Text("data.mimeType"), "text/plain") // as in a form: the name tells
	is.Equal(file.Text("data.folder.name"), "Holidays")
	is.Equal(file.At("data.maxViews"), 3.0)
	is.Equal(file.At("data.hasPassword"), true)
	is.Equal(file.Text("data.tags.2.name") != "", true)
	sum := sha256.Sum256([]byte("hello world"))
	is.Equal(file.Text("data.sha256"), hex.EncodeToString(sum[:]))
	is.Equal(string(a.Visit("/x/sea", "x-share-password", "open sesame").Want(200).Body), "hello world")
	is.Equal(a.Parts(), 0)

	// Anyone who missed the answer finds out, and uploads nothing again.
	again := a.SendTus("HEAD", at, "").Want(200)
	is.Equal(again.Header.Get("Upload-Offset"), "11")
	is.Equal(again.Header.Get("X-Kist-Id"), file.Text("data.id"))
	is.Equal(a.Piece(at, 11, "").Want(204).Header.Get("X-Kist-Slug"), "sea")
	is.Equal(a.Get(at).Want(200).Text("file.slug"), "sea")
	is.Equal(a.Get(at).At("data.complete"), true)
	is.Equal(a.Get(at).Text("data.filename"), "Sea.txt")
	a.Piece(at, 11, "more").Want(413)
	is.Equal(a.SendTus("DELETE", at, "").Want(409).Code(), "upload_complete")
	is.Equal(a.Get(upload.TusPath).Want(200).At("total"), 0.0)
	a.Delete("/api/v1/files/sea").Want(200)
	is.Equal(a.SendTus("HEAD", at, "").Want(200).Header.Get("X-Kist-Slug"), "")
	a.Clock.Advance(25 * time.Hour)
	is.Equal(a.Get(at).Want(410).Code(), "upload_expired")
}

// TestTusRefuses begins uploads that are refused and leave nothing behind.
func TestTusRefuses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = 1000 })
	a.Post("/api/v1/notes", `{"content":"c","slug":"taken"}`).Want(201)
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
		"beyond 64 bits":      {413, "too_large", "", []string{"Upload-Length", "9223372036854775808"}},
		"too long":            {413, "too_large", "", []string{"Upload-Length", "1001"}},
		"largest number":      {413, "too_large", "", []string{"Upload-Length", "9223372036854775807"}},
		"both lengths":        {400, "malformed", "", []string{"Upload-Length", "1", "Upload-Defer-Length", "1"}},
		"strange deferral":    {400, "malformed", "", []string{"Upload-Defer-Length", "2"}},
		"part of a file":      {400, "malformed", "abc", []string{"Upload-Length", "3", "Upload-Concat", "partial"}},
		"parts of a file":     {400, "malformed", "", []string{"Upload-Concat", "final;/api/v1/tus/x"}},
		"metadata, no base64": {400, "malformed", "", []string{"Upload-Length", "1", "Upload-Metadata", "filename a!"}},
		"metadata twice":      {400, "malformed", "", []string{"Upload-Length", "1", "Upload-Metadata", "a YQ==,a YQ=="}},
		"metadata, no name":   {400, "malformed", "", []string{"Upload-Length", "1", "Upload-Metadata", "a YQ==,,b YQ=="}},
		"slug taken": {
			409, "slug_taken", "", []string{"Upload-Length", "1", "Upload-Metadata", apitest.Meta("slug", "taken")},
		},
		"slug": {
			422, "invalid_fields", "", []string{"Upload-Length", "1", "Upload-Metadata", apitest.Meta("slug", "a/b")},
		},
		"never a limit": {
			422, "invalid_fields", "", []string{"Upload-Length", "1", "Upload-Metadata", apitest.Meta("maxViews", "0")},
		},
		"past end": {
			422, "invalid_fields", "",
			[]string{"Upload-Length", "1", "Upload-Metadata", apitest.Meta("expiresAt", "2020-01-01T00:00:00Z")},
		},
		"no boolean": {
			422, "invalid_fields", "", []string{"Upload-Length", "1", "Upload-Metadata", apitest.Meta("isPublic", "yes")},
		},
		"type of the body": {
			415, "unsupported_media_type", "x", []string{"Upload-Length", "1", "Content-Type", "text/plain"},
		},
		"body too long": {413, "too_large", "xy", []string{"Upload-Length", "1"}},
		"checksum": {
			460, "checksum_mismatch", "x",
			[]string{"Upload-Length", "1", "Upload-Checksum", "sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0="},
		},
		"checksum unknown": {400, "malformed", "x", []string{"Upload-Length", "1", "Upload-Checksum", "crc32 AAAA"}},
		"checksum short":   {400, "malformed", "x", []string{"Upload-Length", "1", "Upload-Checksum", "sha1 AAAA"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := *a
			a.TB = t
			got := a.SendTus("POST", upload.TusPath, c.body, c.header...)
			is.Equal(got.Status, c.status)
			is.Equal(got.Code(), c.code)
		})
	}
	a.SendTusBy(true, "POST", upload.TusPath, "", "Upload-Length", "1").Want(401)
	a.As(a.AddKey(a.User, people.ScopeRead)).SendTus("POST", upload.TusPath, "", "Upload-Length", "1").Want(403)
	is.Equal(a.Get(upload.TusPath).Want(200).At("total"), 0.0)
	is.Equal(a.Parts(), 0)
	a.NothingLeft()

	at := a.Begin(5)
	for name, c := range map[string]struct {
		status int
		header []string
	}{
		"no version": {412, []string{"Tus-Resumable", ""}}, "type": {
			415, []string{"Content-Type", "application/octet-stream"},
		},
		"no offset": {400, []string{"Upload-Offset", ""}}, "negative offset": {400, []string{"Upload-Offset", "-1"}}, "another length": {400, []string{"Upload-Length", "6"}},
		"beyond": {409, []string{"Upload-Offset", "1"}},
	} {
		if got := a.Piece(at, 0, "hello", c.header...); got.Status != c.status {
			t.Errorf("%s: %d, want %d", name, got.Status, c.status)
		}
	}
	a.Piece(at, 0, "hello!").Want(413)
	is.Equal(a.Offset(at), "0")

	// Another's is not there.
	bob := a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll)
	for _, method := range []string{"HEAD", "PATCH", "DELETE", "GET"} {
		q := apitest.Request{
			Method: method, Path: at, Key: bob, Raw: true,
			Header: apitest.WithHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "0"),
		}
		a.Do(q).Want(404)
	}
	is.Equal(a.Offset(at), "0")
	a.SendTus("DELETE", at, "").Want(204)
	a.SendTus("HEAD", at, "").Want(404)
	a.SendTus("DELETE", upload.TusPath+"/nothing", "").Want(404)
	is.Equal(a.Parts(), 0)
}

// Bytes may come with the beginning; a length may come later; nothing is a file
// too.
func TestTusShapes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := a.SendTus("POST", upload.TusPath, "hel", "Upload-Length", "5").Want(201)
	is.Equal(got.Header.Get("Upload-Offset"), "3")
	a.Piece(got.Header.Get("Location"), 3, "lo").Want(204)
	whole := a.SendTus("POST", upload.TusPath, "hello", "Upload-Length", "5").Want(201)
	is.Equal(whole.At("data.complete"), true)
	is.True(whole.Text("file.slug") == whole.Header.Get("X-Kist-Slug"))
	is.Equal(len(a.BlobNames()), 1) // equal content is kept once

	empty := a.SendTus("POST", upload.TusPath, "", "Upload-Length", "0", "Upload-Metadata", "filename").Want(201)
	is.Equal(empty.At("file.size"), 0.0)

	later := a.SendTus("POST", upload.TusPath, "", "Upload-Defer-Length", "1").Want(201).Header.Get("Location")
	is.Equal(a.SendTus("HEAD", later, "").Want(200).Header.Get("Upload-Defer-Length"), "1")
	a.Piece(later, 0, "hel").Want(204)
	a.Piece(later, 3, "lo", "Upload-Length", "2").Want(400)
	is.Equal(a.Get(later).At("data.length"), nil)
	is.True(a.Piece(later, 3, "lo", "Upload-Length", "5").Want(204).Header.Get("X-Kist-Slug") != "")
	late := a.SendTus("POST", upload.TusPath, "hello", "Upload-Defer-Length", "1").Want(201).Header.Get("Location")
	is.True(a.Piece(late, 5, "", "Upload-Length", "5").Want(204).Header.Get("X-Kist-Slug") != "")

	over := a.Begin(5)
	a.SendTus("POST", over, "hello", "X-HTTP-Method-Override", "PATCH", "Upload-Offset", "0").Want(204)
	is.Equal(a.SendTus("POST", over, "", "X-HTTP-Method-Override", "HEAD").Want(204).Header.Get("Upload-Offset"), "5")
	a.SendTus("POST", over, "", "X-HTTP-Method-Override", "PUT").Want(405)
	gone := a.Begin(5)
	a.SendTus("POST", gone, "", "X-HTTP-Method-Override", "DELETE").Want(204)
	is.Equal(a.Get(gone).Want(404).Code(), "not_found")
	is.Equal(a.Parts(), 0)
}

func TestTusChecksum(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	at := a.Begin(10)
	one := sha1.Sum([]byte("hello")) //nolint:gosec // tus asks for it
	a.Piece(at, 0, "hello", "Upload-Checksum", "sha1 "+base64.StdEncoding.EncodeToString(one[:])).Want(204)
	is.Equal(
		a.Piece(at, 5, "world", "Upload-Checksum", "sha1 "+base64.StdEncoding.EncodeToString(one[:])).Want(460).Code(),
		"checksum_mismatch",
	)
	is.Equal(a.Offset(at), "5")
	two := sha256.Sum256([]byte("world"))
	got := a.Piece(at, 5, "world", "Upload-Checksum", "sha256 "+base64.StdEncoding.EncodeToString(two[:])).Want(204)
	is.Equal(string(a.Get("/x/"+got.Header.Get("X-Kist-Slug")).Want(200).Body), "helloworld")
}

// An upload is counted against the quota from its beginning.
func TestTusQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Patch("/api/v1/admin/settings", `{"defaultQuotaBytes":100,"maxUploadBytes":90}`).Want(200)
	is.Equal(a.SendTus("POST", upload.TusPath, "", "Upload-Length", "91").Want(413).Code(), "too_large")
	at := a.Begin(90)
	is.Equal(a.SendTus("POST", upload.TusPath, "", "Upload-Length", "11").Want(403).Code(), "quota_exceeded")
	is.Equal(a.Upload(nil, apitest.File("a", "", strings.Repeat("x", 11))).Want(403).Code(), "quota_exceeded")
	open := a.SendTus("POST", upload.TusPath, "", "Upload-Defer-Length", "1").Want(201).Header.Get("Location")
	is.Equal(a.Piece(open, 0, strings.Repeat("x", 11)).Want(403).Code(), "quota_exceeded")
	a.Piece(open, 0, strings.Repeat("x", 10)).Want(204)
	a.Piece(at, 0, strings.Repeat("x", 90)).Want(204)
	a.SendTus("DELETE", open, "").Want(204)
	// the text of the first one counts
	is.Equal(a.Upload(nil, apitest.File("a", "", strings.Repeat("x", 10))).Want(403).Code(), "quota_exceeded")
	text := int(a.Get("/api/v1/me").At("data.textBytes").(float64))
	a.Patch("/api/v1/admin/settings", map[string]int{"defaultQuotaBytes": 100 + text}).Want(200)
	a.Upload(nil, apitest.File("a", "", strings.Repeat("x", 10))).Want(201)
}

// stalled sends the first bytes of a body and keeps the connection, until the server ends it.
func stalled(
	a *apitest.App, method, path string, header http.Header, first string, length int64,
) (answered <-chan int, end func()) {
	a.Helper()
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(a.Context(), method, a.URL+path, r)
	a.NoErr(err)
	req.ContentLength = length
	req.Header = header
	req.Header.Set("X-Api-Key", a.Key)
	req.Header.Set("Tus-Resumable", web.TusVersion)
	req.Header.Set("Content-Type", upload.TusBody)
	status := inBackground(req)
	_, err = w.Write([]byte(first))
	a.NoErr(err)
	receiving(a)
	return status, func() { _ = w.CloseWithError(io.ErrUnexpectedEOF) }
}

// receiving waits until bytes of an upload arrive.
func receiving(a *apitest.App) {
	a.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		parts, err := os.ReadDir(filepath.Join(a.Server.Store.Dir(), "cache", "uploads", "parts"))
		if !errors.Is(err, fs.ErrNotExist) {
			a.NoErr(err)
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
		res, err := apitest.Plain.Do(req)
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
func sending(a *apitest.App, at string, offset int, first string, length int64) (answered <-chan int, end func()) {
	a.Helper()
	return stalled(a, "PATCH", at, apitest.WithHeader("Upload-Offset", fmt.Sprint(offset)), first, length)
}

// A client that asks how far its upload is does not begin a new one because the
// server is busy.
func TestTusBusy(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	busy := &record.Error{
		Fault: record.Busy, Code: "upload_busy", Text: "Another request is working on this upload.", Retry: time.Second,
	}
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
		a.Server.Fail(&web.AnswerWriter{ResponseWriter: w, Ctl: http.NewResponseController(w)}, r, "x", of.err)
		if w.Code != of.status {
			t.Errorf("%s %q after %v: %d, not %d", of.method, of.version, of.err, w.Code, of.status)
		}
	}
}

// Anyone who comes back does not wait for the connection that died: what that
// brought is kept.
func TestTusTakesOver(t *testing.T) {
	needs.Alone(t)
	for name, come := range map[string]func(a *apitest.App, at string) string{
		"HEAD": func(a *apitest.App, at string) string { return a.Offset(at) },
		"PATCH": func(a *apitest.App, at string) string {
			return a.Piece(at, 0, "x").Want(409).Header.Get("Upload-Offset")
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := apitest.Start(t)
			content := strings.Repeat("0123456789", 40_000)
			at := a.Begin(len(content))
			status, end := sending(a, at, 0, content[:300_000], int64(len(content)))
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
			end2 := a.Piece(at, offset, content[offset:]).Want(204)
			is.Equal(string(a.Get("/x/"+end2.Header.Get("X-Kist-Slug")).Want(200).Body), content)
		})
	}
}

// What a connection brought before it broke is kept, unless it has a checksum.
func TestTusBreaksOff(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	at := a.Begin(400_000)
	status, end := sending(a, at, 0, strings.Repeat("x", 300_000), 400_000)
	end()
	<-status
	apitest.Eventually(t, "the upload is not where it broke off", func() bool {
		return a.Get(at).At("data.offset") == 300_000.0
	})
	is.Equal(a.Offset(at), "300000")
}

// Where the bytes are not there, as in a backup, the upload starts again.
func TestTusWithoutItsBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	at := a.Begin(11)
	a.Piece(at, 0, "hello ").Want(204)
	path := filepath.Join(a.Server.Store.Dir(), "cache", "uploads", "parts", at[len(upload.TusPath)+1:])
	is.NoErr(os.Truncate(path, 3))
	is.Equal(a.Offset(at), "0")
	a.Piece(at, 0, "hello ").Want(204)
	is.NoErr(os.Remove(path))
	a.Piece(at, 6, "world").Want(409)
	got := a.Piece(at, 0, "hello world").Want(204)
	is.Equal(string(a.Get("/x/"+got.Header.Get("X-Kist-Slug")).Want(200).Body), "hello world")
}

// An end that fails, such as without free space, loses nothing: asking again
// tries again. So it is when the process ends before the record is made.
func TestTusEndFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	at := a.Begin(5)
	a.Patch("/api/v1/admin/settings", `{"defaultQuotaBytes":4}`).Want(200)
	a.Piece(at, 0, "hello").Want(403)
	is.Equal(a.SendTus("HEAD", at, "").Want(403).Header.Get("X-Kist-Slug"), "")
	is.Equal(a.Get("/api/v1/files").At("total"), 0.0)
	a.Patch("/api/v1/admin/settings", `{"defaultQuotaBytes":null}`).Want(200)
	got := a.SendTus("HEAD", at, "").Want(200)
	is.Equal(string(a.Get("/x/"+got.Header.Get("X-Kist-Slug")).Want(200).Body), "hello")
}

// A large upload passes through little memory, however it comes.
func TestTusMemory(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = 1 << 40 })
	// the document that answers are checked against is in memory now
	a.SendTus("POST", upload.TusPath, "", "Upload-Length", "1").Want(201)
	base, most := apitest.Heap(), int64(0)
	got := tusZeros(a, much, func() { most = max(most, apitest.Heap()) })
	is.True(most > 0)
	is.True(most < base+8<<20)
	is.Equal(got.Header.Get("Upload-Offset"), fmt.Sprint(much))
}

// tusZeros uploads zeros in one piece.
func tusZeros(a *apitest.App, size int64, at func()) *apitest.Answer {
	a.Helper()
	path := a.SendTus("POST", upload.TusPath, "", "Upload-Length", fmt.Sprint(size)).Want(201).Header.Get("Location")
	req, err := http.NewRequestWithContext(a.Context(), "PATCH", a.URL+path, &zeros{size: size, at: at})
	a.NoErr(err)
	req.ContentLength = size
	req.Header = apitest.WithHeader(
		"X-Api-Key", a.Key, "Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "0",
	)
	res, err := apitest.Plain.Do(req)
	a.NoErr(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a.NoErr(err)
	return (&apitest.Answer{App: a, Status: res.StatusCode, Header: res.Header, Body: body}).Want(204)
}

// TestTusLong uploads 20 GiB of zeros, for which the heap never grows past 48
// MiB, garbage and all: go test ./httpapi -run TusLong -long -timeout 1h
func TestTusLong(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	if !*apitest.Long {
		needs.LeaveOut(t, "a resumable upload of 20 GiB", "no -long")
	}
	a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = 1 << 40 })
	var m runtime.MemStats
	most := uint64(0)
	tusZeros(a, 20<<30, func() {
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
	a := apitest.Start(t)
	at := a.SendTus("POST", upload.TusPath, "", "Upload-Defer-Length", "1").Want(201).Header.Get("Location")
	a.Piece(at, 0, "hello").Want(204)
	a.Patch("/api/v1/admin/settings", map[string]any{"maxUploadBytes": 4}).Want(200)
	// of no known length
	req, err := http.NewRequestWithContext(t.Context(), "PATCH", a.URL+at, io.MultiReader(strings.NewReader("world")))
	is.NoErr(err)
	req.Header = apitest.WithHeader(
		"X-Api-Key", a.Key, "Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "5",
	)
	res, err := apitest.Plain.Do(req)
	is.NoErr(err)
	is.NoErr(res.Body.Close())
	is.Equal(res.StatusCode, 413)
}

// A user who is gone takes their uploads along.
func TestTusWithoutItsOwner(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	key := a.AddKey(bob, people.ScopeAll)
	a.Do(apitest.Request{
		Method: "POST", Path: upload.TusPath, Key: key, Raw: true, Body: strings.NewReader("hel"),
		Header: apitest.WithHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Length", "5"),
	}).Want(201)
	is.Equal(a.Parts(), 1)
	a.Delete("/api/v1/admin/users/" + bob.ID.String()).Want(200)
	is.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
		awaited, err := inbox.OpenUploads(tx)
		is.Equal(len(awaited), 0) // the sweep removes the bytes
		return err
	}))
}
