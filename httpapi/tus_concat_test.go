package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/inbox"
	"kist/kv/people"
	"kist/kv/record"
)

// part uploads a partial upload and returns its address.
func (a *app) part(content string) string {
	a.Helper()
	at := a.tus("POST", upload.TusPath, "", "Upload-Length", strconv.Itoa(len(content)), "Upload-Concat", "partial").want(201).header.Get("Location")
	if content != "" {
		a.piece(at, 0, content).want(204)
	}
	return at
}

// join asks for a file of partial uploads.
func (a *app) join(parts []string, header ...string) *answer {
	a.Helper()
	return a.tus("POST", upload.TusPath, "", append([]string{"Upload-Concat", "final;" + strings.Join(parts, " ")}, header...)...)
}

// Parts that were uploaded side by side become one file, in the order in which
// they are named.
func TestTusConcatenation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	parts := []string{a.part("hello "), a.part(""), a.part("world")}
	head := a.tus("HEAD", parts[0], "").want(200)
	is.Equal(head.header.Get("Upload-Concat"), "partial")
	is.Equal(head.header.Get("Upload-Offset"), "6")
	is.Equal(head.header.Get("X-Kist-Slug"), "") // no file of its own
	is.Equal(a.get("/api/v1/files").want(200).at("total"), 0.0)
	is.Equal(a.get(upload.TusPath).want(200).at("total"), 3.0)

	parts[2] = "https://kist.example.org" + parts[2] // whole addresses, too
	made := a.join(parts, "Upload-Metadata", meta("filename", "Sea.txt", "slug", "sea", "newTags", "x")).want(201)
	at := made.header.Get("Location")
	is.Equal(made.header.Get("Upload-Offset"), "11")
	is.Equal(made.header.Get("Upload-Length"), "11")
	is.Equal(made.header.Get("X-Kist-Slug"), "sea")
	file := a.get("/api/v1/files/sea").want(200)
	is.Equal(file.text("data.originalName"), "Sea.txt")
	sum := sha256.Sum256([]byte("hello world"))
	is.Equal(file.text("data.sha256"), hex.EncodeToString(sum[:]))
	is.Equal(string(a.get("/x/sea").want(200).body), "hello world")
	is.Equal(a.parts(), 0)
	is.Equal(a.get(upload.TusPath).want(200).at("total"), 0.0)

	// Anyone who missed the answer asks again and gets the same.
	again := a.join(parts, "Upload-Metadata", meta("filename", "Sea.txt", "slug", "sea", "newTags", "x"))
	is.Equal(again.want(201).header.Get("Location"), at)
	is.Equal(a.get("/api/v1/files").want(200).at("total"), 1.0)
}

// Parts that cannot be joined stay as they were.
func TestTusConcatenationRefuses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.MaxUpload = 10 })
	whole := a.begin(1)
	half := a.tus("POST", upload.TusPath, "", "Upload-Length", "2", "Upload-Concat", "partial").want(201).header.Get("Location")
	one, two := a.part("123456"), a.part("789012")
	bob := a.as(a.addKey(a.addUser("bob", record.Member), record.ScopeAll))
	for name, c := range map[string]struct {
		status int
		parts  []string
		header []string
	}{
		"none":           {400, nil, nil},
		"twice":          {400, []string{one, one}, nil},
		"no address":     {400, []string{"x"}, nil},
		"elsewhere":      {400, []string{"/other/" + one[len(one)-36:]}, nil},
		"unknown":        {404, []string{one[:len(one)-36] + "01890000-0000-7000-8000-000000000000"}, nil},
		"not a part":     {400, []string{whole}, nil},
		"not complete":   {409, []string{one, half}, nil},
		"with a length":  {400, []string{one}, []string{"Upload-Length", "6"}},
		"too large":      {413, []string{one, two}, nil},
		"bad field":      {422, []string{one}, []string{"Upload-Metadata", meta("slug", "a/b")}},
		"past its place": {400, strings.Fields(strings.Repeat(one+" ", upload.MaxJoined+1)), nil},
	} {
		got := a.join(c.parts, c.header...)
		if got.status != c.status {
			t.Errorf("%s: %d, want %d: %s", name, got.status, c.status, got.body)
		}
	}
	is.Equal(bob.join([]string{one}).status, 404)                                        // another's
	is.Equal(a.as(a.addKey(a.user, record.ScopeUpload)).join([]string{one}).status, 404) // another key's
	is.Equal(a.get("/api/v1/files").want(200).at("total"), 0.0)
	is.Equal(a.offset(one), "6")

	// One that fails at its end can be tried again.
	a.post("/api/v1/notes", `{"content":"c","slug":"taken"}`).want(201)
	is.Equal(a.join([]string{one}, "Upload-Metadata", meta("slug", "taken")).want(409).code(), "slug_taken")
	made := a.join([]string{one}, "Upload-Metadata", meta("filename", "a.txt")).want(201)
	at := made.header.Get("Location")
	is.Equal(a.tus("HEAD", at, "").want(200).header.Get("Upload-Concat"), "final;"+one)
	is.Equal(a.piece(at, 6, "x").want(403).code(), "upload_is_final")
	is.Equal(a.join([]string{one}, "Upload-Metadata", meta("filename", "a.txt")).want(201).header.Get("Location"), at) // the answer was lost
	is.Equal(a.join([]string{two, one}).want(409).code(), "upload_complete")
	is.Equal(a.tus("DELETE", one, "").want(409).code(), "upload_complete")
	a.tus("DELETE", two, "").want(204)
	a.clock.advance(25 * time.Hour)
	is.Equal(a.join([]string{half}).want(410).code(), "upload_expired")
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error { return inbox.DropUploads(tx) }))
	a.fatal(a.server.Store.View(func(tx *kv.Tx) error { return tx.Audit(func(err error) { t.Error(err) }) }))
}

// Parts and what they are joined into have one place in the quota.
func TestTusConcatenationQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		u, err := people.User(tx, a.user.ID)
		if err != nil {
			return err
		}
		u.Quota = 12
		return people.SaveUser(tx, u)
	}))
	parts := []string{a.part("123456"), a.part("789012")}
	is.Equal(a.tus("POST", upload.TusPath, "", "Upload-Length", "1", "Upload-Concat", "partial").want(403).code(), "quota_exceeded")
	a.join(parts, "Upload-Metadata", meta("filename", "a.txt")).want(201)
	is.Equal(a.get("/api/v1/files").want(200).at("total"), 1.0)
	is.Equal(a.tus("POST", upload.TusPath, "", "Upload-Length", "1").want(403).code(), "quota_exceeded")
	is.Equal(a.parts(), 0)
	a.fatal(a.server.Store.View(func(tx *kv.Tx) error { return tx.Audit(func(err error) { t.Error(err) }) }))
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
