package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// blobNames lists the contents on the disk, by their names.
func (a *app) blobNames() []string {
	a.Helper()
	var names []string
	a.fatal(fs.WalkDir(os.DirFS(filepath.Join(a.server.Store.Dir(), "blobs")), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	}))
	return names
}

// staged lists the temporary files of uploads: those with a name and those
// that are only open (where the system tells which files are open).
func (a *app) staged() []string {
	a.Helper()
	var found []string
	blobs := filepath.Join(a.server.Store.Dir(), "blobs")
	named, err := os.ReadDir(filepath.Join(blobs, "tmp"))
	if !errors.Is(err, fs.ErrNotExist) {
		a.fatal(err)
	}
	for _, f := range named {
		found = append(found, f.Name())
	}
	open, _ := os.ReadDir("/proc/self/fd") // not every system has it
	for _, f := range open {
		to, err := os.Readlink("/proc/self/fd/" + f.Name())
		if err == nil && strings.HasPrefix(to, blobs+"/") {
			found = append(found, to)
		}
	}
	return found
}

// nothingLeft checks that no upload left anything: no record, no content and
// no temporary file.
func (a *app) nothingLeft() {
	a.Helper()
	if total := a.get("/api/v1/files").want(200).at("total"); total != 0.0 {
		a.Errorf("%v records are left", total)
	}
	if names := a.blobNames(); len(names) > 0 {
		a.Errorf("content is left: %q", names)
	}
	if names := a.staged(); len(names) > 0 {
		a.Errorf("temporary files are left: %q", names)
	}
}

// form sends a multipart body as it stands, with the boundary b. Line ends
// are those of the protocol.
func (a *app) form(body string, header ...string) *answer {
	a.Helper()
	h := withHeader(append([]string{"Content-Type", "multipart/form-data; boundary=b"}, header...)...)
	return a.do(apiRequest{method: "POST", path: "/api/v1/upload", raw: true, header: h, body: strings.NewReader(strings.ReplaceAll(body, "\n", "\r\n"))})
}

const aFile = "--b\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\n\nhello\n"

func aField(name, value string) string {
	return "--b\nContent-Disposition: form-data; name=\"" + name + "\"\n\n" + value + "\n"
}

func TestUploadFields(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	tag := a.post("/api/v1/tags", `{"name":"old"}`).want(201).text("data.id")
	folder := a.post("/api/v1/folders", `{"name":"Holidays"}`).want(201).text("data.id")
	fields := aField("description", "Noon") + aField("isPublic", "true") + aField("slug", "sea-24") + aField("folderId", folder) +
		aField("tagIds", `["`+tag+`"]`) + aField("newTags", " beach , 2024,beach") + aField("name", "../Sea.txt") + aField("password", "open sesame") +
		aField("maxViews", "3") + aField("maxViewsAction", "delete") + aField("expiresAt", "2130-01-01T00:00:00Z") + aField("unknown", "ignored")
	for _, order := range []string{aFile + fields, fields + aFile, aField("isFavorite", "true") + aFile + fields} {
		got := a.form(order + "--b--\n").want(201)
		is.Equal(got.text("slug"), "sea-24") // flat
		is.Equal(got.text("url"), "https://kist.example.org/x/sea-24")
		is.Equal(got.text("viewUrl"), "https://kist.example.org/v/sea-24")
		is.Equal(got.text("originalName"), "Sea.txt")
		is.Equal(got.text("mimeType"), "text/plain")
		is.Equal(got.at("size"), 5.0)
		is.Equal(got.text("sha256"), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
		is.Equal(got.text("description"), "Noon")
		is.Equal(got.at("isPublic"), true)
		is.Equal(got.at("hasPassword"), true)
		is.Equal(got.text("folder.name"), "Holidays")
		is.Equal(got.at("maxViews"), 3.0)
		is.Equal(got.text("maxViewsAction"), "delete")
		is.Equal(got.text("expiresAt"), "2130-01-01T00:00:00.000Z")
		var names []string
		for i := range 3 {
			names = append(names, got.text(fmt.Sprintf("tags.%d.name", i)))
		}
		slices.Sort(names)
		is.Equal(names, []string{"2024", "beach", "old"})
		a.delete("/api/v1/files/sea-24").want(200)
	}
	for _, tail := range []string{"--b--", "--b-- \n", "--b--\nepilogue"} {
		got := a.form("preamble\n" + aFile + tail).want(201)
		is.Equal(got.at("size"), 5.0)
		a.delete("/api/v1/files/" + got.text("slug")).want(200)
	}
	in64 := strings.Replace(strings.Replace(aFile, "\n\n", "\nContent-Transfer-Encoding: base64\n\n", 1), "hello", "aGVsbG8=", 1)
	is.Equal(string(a.get("/x/"+a.form(in64+"--b--").want(201).text("slug")).want(200).body), "hello")
	got := a.form(aFile + aField("folderName", "New") + aField("isPublic", "'true'") + "--b--\n")
	is.Equal(got.status, 422) // no spelling of a boolean but true and false
	got = a.form(aFile + aField("folderName", "New") + "--b--\n").want(201)
	is.Equal(got.text("folder.name"), "New")
	is.Equal(got.at("isPublic"), false) // private unless said
	is.Equal(got.at("folder.id") != nil, true)
	got = a.form(aFile + aField("folderName", "New") + "--b--\n").want(201)
	is.Equal(len(got.text("slug")), record.SlugLength)
	is.Equal(a.get("/api/v1/folders").want(200).at("total"), 2.0) // found, not made twice
}

func TestUploadSeveral(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	got := a.upload(map[string]string{"isPublic": "true", "newTags": "x"}, file{"a.txt", "", "one"}, file{"b.txt", "", "two"}, file{"c.txt", "", "one"}).want(201)
	for i, name := range []string{"a.txt", "b.txt", "c.txt"} {
		is.Equal(got.text(fmt.Sprintf("files.%d.originalName", i)), name)
		is.Equal(got.at(fmt.Sprintf("files.%d.isPublic", i)), true)
		is.Equal(string(a.visit("/x/"+got.text(fmt.Sprintf("files.%d.slug", i))).want(200).body), []string{"one", "two", "one"}[i])
	}
	is.Equal(len(a.blobNames()), 2) // equal content is kept once
	is.Equal(a.upload(map[string]string{"slug": "mine"}, file{"a.txt", "", "1"}, file{"b.txt", "", "2"}).want(422).at("fields.slug") != nil, true)
	is.Equal(len(a.blobNames()), 2)
	is.Equal(a.get("/api/v1/files").want(200).at("total"), 3.0)
}

// TestUploadRefused sends uploads that are refused and must leave nothing behind.
func TestUploadRefused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.MaxUpload = 1000 })
	const end = "--b--\n"
	for name, c := range map[string]struct {
		body   string
		status int
		field  string // named in the answer
	}{
		"no parts":                 {end, 422, "file"},
		"no file":                  {aField("description", "x") + end, 422, "file"},
		"an unknown encoding":      {strings.Replace(aFile, "\n\n", "\nContent-Transfer-Encoding: gzip\n\n", 1) + end, 400, ""},
		"base64 that is none":      {strings.Replace(aFile, "\n\n", "\nContent-Transfer-Encoding: base64\n\n?", 1) + end, 400, ""},
		"two same fields":          {aFile + aField("description", "x") + aField("description", "x") + end, 400, ""},
		"no end":                   {aFile, 400, ""},
		"no end of the file":       {aFile[:len(aFile)-1], 400, ""},
		"no end of a field":        {aFile + "--b\nContent-Disposition: form-data; name=\"slug\"\n\nabc", 400, ""},
		"end in a header":          {aFile + "--b\nContent-Disposition: form", 400, ""},
		"end after a header":       {aFile + "--b\nContent-Disposition: form-data; name=\"slug\"\n\n", 400, ""},
		"end after a boundary":     {aFile + "--b\n", 400, ""},
		"end in the last boundary": {aFile + "--b-", 400, ""},
		"nothing":                  {"", 400, ""},
		"only a preamble":          {"Hello\n", 400, ""},
		"an unreadable file":       {aFile + strings.Replace(aFile, `"a.txt"`, `"a"b.txt"`, 1) + end, 400, ""},
		"an unreadable field":      {aFile + aField(`password"x`, "open sesame") + end, 400, ""},
		"text after a boundary":    {aFile + "--bx\nrubbish", 400, ""},
		"10,000 empty parts":       {strings.Repeat("--b\n\n\n", 10_000) + end, 400, ""},
		"101 files":                {strings.Repeat(aFile, 101) + end, 400, ""},
		"1 MB of header":           {"--b\nContent-Disposition: form-data; name=\"file\"; filename=\"" + strings.Repeat("a", 1<<20) + "\"\n\nx\n" + end, 400, ""},
		"1 MB of headers":          {"--b\n" + strings.Repeat("X-A: b\n", 1<<17) + "\nx\n" + end, 400, ""},
		"1 MB of preamble":         {strings.Repeat("preamble\n", 1<<17) + aFile + end, 400, ""},
		"a line of preamble":       {strings.Repeat("p", 1<<20) + "\n" + aFile + end, 400, ""},
		"a field over 64 KiB":      {aFile + aField("description", strings.Repeat("x", upload.MaxField+1)) + end, 413, ""},
		"fields over 1 MiB":        {aFile + manyFields(17) + end, 413, ""},
		"a file of one byte more":  {strings.Replace(aFile, "hello", strings.Repeat("x", 1001), 1) + end, 413, ""},
		"the second file too long": {aFile + strings.Replace(aFile, "hello", strings.Repeat("x", 1001), 1) + end, 413, ""},
		"a slug with a slash":      {aFile + aField("slug", "a/b") + end, 422, "slug"},
		"a reserved slug":          {aFile + aField("slug", "api") + end, 422, "slug"},
		"an empty limit":           {aFile + aField("maxViews", "0") + end, 422, "maxViews"},
		"a negative limit":         {aFile + aField("maxViews", "-1") + end, 422, "maxViews"},
		"half a view":              {aFile + aField("maxViews", "1.5") + end, 422, "maxViews"},
		"a limit that is no one":   {aFile + aField("maxViews", "1_000") + end, 422, "maxViews"},
		"an unknown action":        {aFile + aField("maxViewsAction", "explode") + end, 422, "maxViewsAction"},
		"a past end":               {aFile + aField("expiresAt", "2000-01-01T00:00:00Z") + end, 422, "expiresAt"},
		"an end without a zone":    {aFile + aField("expiresAt", "2130-01-01T00:00:00") + end, 422, "expiresAt"},
		"not my folder":            {aFile + aField("folderId", "01890a5d-ac96-774b-bcce-b302099a8057") + end, 422, "folderId"},
		"not my tag":               {aFile + aField("tagIds", `["01890a5d-ac96-774b-bcce-b302099a8057"]`) + end, 422, "tagIds"},
		"tags that are no ids":     {aFile + aField("tagIds", `["x"]`) + end, 422, "tagIds"},
		"tags that are no list":    {aFile + aField("tagIds", `{"a":1}`) + end, 422, "tagIds"},
		"50,000 tags":              {aFile + aField("newTags", strings.Repeat(",a", 25_000)+strings.Repeat("b,", 5000)) + end, 0, ""},
		"NUL":                      {aFile + aField("description", "a\x00b") + end, 422, "description"},
		"not UTF-8":                {aFile + aField("description", "a\xffb") + end, 422, "description"},
		"a long password":          {aFile + aField("password", strings.Repeat("x", 1025)) + end, 422, "password"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got := a.form(c.body)
			if c.status == 0 { // either way, and quickly
				is.True(got.status == 201 || got.status == 422)
				if got.status == 201 {
					a.delete("/api/v1/files/" + got.text("slug")).want(200)
					a.sweep()
				}
				return
			}
			got.want(c.status)
			if c.field != "" {
				is.True(got.at("fields."+c.field) != nil) // names the field
			}
		})
		a.nothingLeft()
	}
	for media, status := range map[string]int{
		"": 415, "application/json": 415, "multipart/mixed; boundary=b": 415, "multipart/form-data": 400, "multipart/form-data; boundary=": 415,
		"multipart/form-data; boundary=" + strings.Repeat("b", 71): 400, "multipart/form-data; boundary=b; boundary=c": 415,
		"multipart/form-data; boundary=" + strings.Repeat("b", 70): 400, "MULTIPART/FORM-DATA; BOUNDARY=b": 201, "multipart/form-data; boundary=\"b\"; charset=utf-8": 201,
	} {
		got := a.do(apiRequest{method: "POST", path: "/api/v1/upload", raw: true, header: withHeader("Content-Type", media), body: strings.NewReader(strings.ReplaceAll(aFile+end, "\n", "\r\n"))})
		if got.status != status {
			t.Errorf("%q: %d, want %d", media, got.status, status)
		}
	}
}

// sweep removes the content that no record refers to.
func (a *app) sweep() {
	a.Helper()
	for _, path := range a.blobNames() {
		a.fatal(os.Remove(filepath.Join(a.server.Store.Dir(), "blobs", path)))
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(aField(fmt.Sprintf("unknown%d", i), strings.Repeat("x", upload.MaxField)))
	}
	return b.String()
}

// A file in another field than file is refused by a sentence that names the field, and
// not as a text that is too large.
func TestUploadMisnamedFile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for _, size := range []int{2, upload.MaxField + 1} {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		p, err := w.CreateFormFile("fil", "photo.jpg")
		is.NoErr(err)
		_, err = p.Write(make([]byte, size))
		is.NoErr(err)
		is.NoErr(w.Close())
		got := a.refused(apiRequest{method: "POST", path: "/api/v1/upload", body: &b, header: http.Header{"Content-Type": {w.FormDataContentType()}}}, 422)
		is.Equal(got.code(), "invalid_fields")
		is.True(strings.Contains(got.text("error"), `must be in the field file; the form has one in the field "fil"`))
	}
}

// TestUploadConflict: content of an upload that is refused by the store is
// unlinked at once, unless something else has it, or had it lately.
func TestUploadConflict(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.post("/api/v1/notes", `{"content":"x","slug":"taken"}`).want(201)
	conflict := func(content string) {
		t.Helper()
		is.Equal(a.upload(map[string]string{"slug": "taken"}, file{"a.txt", "", content}).want(409).code(), "slug_taken")
	}
	conflict("one")
	a.nothingLeft()
	slug := a.upload(nil, file{"a.txt", "", "one"}).want(201).text("slug")
	conflict("one")
	is.Equal(len(a.blobNames()), 1) // another file has it
	a.get("/x/" + slug).want(200)
	a.delete("/api/v1/files/" + slug).want(200)
	conflict("one")
	is.Equal(len(a.blobNames()), 1) // a file had it: it stays for --gc-delay
	conflict("two")
	is.Equal(len(a.blobNames()), 1)
}

func TestUploadSameContent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	first := a.upload(nil, file{"a.txt", "", "same"}).want(201)
	second := a.upload(nil, file{"b.txt", "", "same"}).want(201)
	is.True(first.text("slug") != second.text("slug"))
	is.Equal(len(a.blobNames()), 1)
	loose := func() (n int) {
		is.NoErr(a.server.Store.View(func(tx *kv.Tx) error {
			n = len(catalog.UnreferencedRefs(tx, a.server.Store.Now(), 10))
			return nil
		}))
		return n
	}
	a.delete("/api/v1/files/" + first.text("slug")).want(200)
	a.delete("/api/v1/files/" + second.text("slug")).want(200)
	is.Equal(loose(), 0) // they are in the trash
	a.delete("/api/v1/trash").want(200)
	is.Equal(loose(), 1) // the last reference is gone
	a.upload(nil, file{"c.txt", "", "same"}).want(201)
	is.Equal(loose(), 0)
	is.Equal(len(a.staged()), 0)
}

// TestUploadLimits: the bounds hold for the bytes that are read, whatever the
// request announces, and to the byte.
func TestUploadLimits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const most = 100_000
	a := start(t, func(c *web.Config) { c.MaxUpload = most })
	send := func(size int) *answer {
		q := a.uploadRequest(nil, file{"a.bin", "", strings.Repeat("\x01", size)})
		q.raw, q.body = true, struct{ io.Reader }{q.body} // its length is not announced
		return a.do(q)
	}
	send(most + 1).want(413)
	a.nothingLeft()
	send(most).want(201)
	send(0).want(201)
	a.patch("/api/v1/admin/settings", `{"maxUploadBytes":1000}`).want(200)
	send(1001).want(413)
	send(1000).want(201)
	a.patch("/api/v1/admin/settings", `{"maxUploadBytes":1000000}`).want(200)
	send(most + 1).want(413) // the setting cannot exceed the command line's
	send(most).want(201)
	a.patch("/api/v1/admin/settings", `{"maxUploadBytes":5}`).want(200) // less than what tells the type
	send(6).want(413)
	send(5).want(201)
	is.Equal(len(a.staged()), 0)
}

func TestUploadQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addUser("bob", people.Member)
	key := a.addKey(bob, people.ScopeAll)
	a.patch("/api/v1/admin/users/"+bob.ID.String(), `{"quotaBytes":1000}`).want(200)
	send := func(sizes ...int) *answer {
		var files []file
		for i, n := range sizes {
			files = append(files, file{fmt.Sprintf("%d.bin", i), "", strings.Repeat(string(rune('a'+i)), n)})
		}
		q := a.uploadRequest(nil, files...)
		q.key = key
		return a.do(q)
	}
	is.Equal(send(1001).want(403).code(), "quota_exceeded")
	is.Equal(send(600, 401).want(403).code(), "quota_exceeded")
	is.Equal(send(60_000).want(403).code(), "quota_exceeded")
	a.nothingLeft()
	me := func() *answer { return a.do(apiRequest{method: "GET", path: "/api/v1/me", key: key}).want(200) }
	left := func(n float64) { // sets the quota
		a.patch("/api/v1/admin/users/"+bob.ID.String(), map[string]float64{"quotaBytes": me().at("data.usedBytes").(float64) + n}).want(200)
	}
	one := send(400).want(201).text("slug")
	row := me().at("data.textBytes").(float64)
	is.True(row > 100) // what is stored of a file beside its content
	is.Equal(me().at("data.usedBytes"), 400+row)
	a.do(apiRequest{method: "DELETE", path: "/api/v1/files/" + one + "?permanent=true", key: key}).want(200)
	send(600, 400).want(403) // the first one's text counts already
	left(1000 + row)
	slug := send(600, 400).want(201).text("files.0.slug")
	send(1).want(403)
	left(0)
	send(1).want(403)
	send(0).want(201)
	a.do(apiRequest{method: "DELETE", path: "/api/v1/files/" + slug + "?permanent=true", key: key}).want(200)
	left(599)
	send(600).want(403)
	left(600)
	is.Equal(send(600).want(201).at("size"), 600.0)

	// Two race for the last bytes: one gets them.
	left(500)
	got := make([]int, 8)
	var all sync.WaitGroup
	for i := range got {
		q := a.uploadRequest(nil, file{"r.bin", "", strings.Repeat(fmt.Sprint(i), 500)})
		q.key = key
		all.Go(func() { got[i] = a.do(q).status })
	}
	all.Wait()
	slices.Sort(got)
	is.Equal(got, []int{201, 403, 403, 403, 403, 403, 403, 403})
	is.Equal(me().at("data.usedBytes").(float64)-me().at("data.textBytes").(float64), 1500.0)
	is.Equal(len(a.staged()), 0)
}

// TestUploadCutOff cuts connections in the middle of a file and of a field.
func TestUploadCutOff(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	body := strings.ReplaceAll(aFile+aField("description", "x")+"--b--\n", "\n", "\r\n")
	for _, at := range []int{0, 1, 30, strings.Index(body, "hello"), strings.Index(body, "hello") + 3, strings.Index(body, "description") + 20, len(body) - 5} {
		for _, head := range []string{fmt.Sprintf("Content-Length: %d", len(body)), "Transfer-Encoding: chunked"} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
			is.NoErr(err)
			_, err = fmt.Fprintf(conn, "POST /api/v1/upload HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nContent-Type: multipart/form-data; boundary=b\r\nExpect: 100-continue\r\n%s\r\n\r\n", a.key, head)
			is.NoErr(err)
			line, err := bufio.NewReader(conn).ReadString('\n')
			is.NoErr(err)
			is.Equal(line, "HTTP/1.1 100 Continue\r\n") // the upload is under way
			part := body[:at]
			if strings.HasPrefix(head, "T") {
				part = fmt.Sprintf("%x\r\n%s", len(body), part)
			}
			_, err = io.WriteString(conn, part)
			is.NoErr(err)
			is.NoErr(conn.Close())
			a.server.Running.Wait()
			a.nothingLeft()
		}
	}
}

func TestUploadIdempotent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addUser("bob", people.Member)
	bobs := a.addKey(bob, people.ScopeUpload)
	send := func(key, idempotency, content, slug string) *answer {
		fields := map[string]string{}
		if slug != "" {
			fields["slug"] = slug
		}
		q := a.uploadRequest(fields, file{"a.txt", "", content})
		q.key = key
		q.header.Set("Idempotency-Key", idempotency)
		return a.do(q)
	}
	first := send(a.key, "k1", "one", "").want(201)
	again := send(a.key, "k1", "one", "").want(201)
	is.Equal(string(again.body), string(first.body))                                                                 // to the byte
	is.Equal(string(send(a.addKey(a.user, people.ScopeUpload), "k1", "one", "").want(201).body), string(first.body)) // of whichever key of the user
	is.Equal(a.get("/api/v1/files").want(200).at("total"), 1.0)
	is.Equal(len(a.blobNames()), 1)
	is.True(send(bobs, "k1", "one", "").want(201).text("id") != first.text("id")) // another owner's key is another key
	is.True(send(a.key, "k2", "one", "").want(201).text("id") != first.text("id"))

	// An error is not kept as the answer to repeat.
	a.post("/api/v1/notes", `{"content":"x","slug":"busy"}`).want(201)
	send(a.key, "k3", "three", "busy").want(409)
	a.delete("/api/v1/notes/busy").want(200)
	send(a.key, "k3", "three", "busy").want(201)

	a.clock.advance(24*time.Hour - time.Minute)
	is.Equal(string(send(a.key, "k1", "one", "").want(201).body), string(first.body))
	a.clock.advance(time.Minute)
	is.True(send(a.key, "k1", "one", "").want(201).text("id") != first.text("id"))

	send(a.key, strings.Repeat("k", 255), "long", "").want(201)
	q := a.uploadRequest(nil, file{"a.txt", "", "x"})
	q.raw = true
	q.header.Set("Idempotency-Key", strings.Repeat("k", 256))
	a.do(q).want(400)
	is.Equal(len(a.staged()), 0)
}

// TestUploadIdempotencyMismatch: an Idempotency-Key belongs to one upload. The
// client of another is told that nothing of it was stored.
func TestUploadIdempotencyMismatch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	send := func(fields map[string]string, files ...file) *answer {
		q := a.uploadRequest(fields, files...)
		q.header.Set("Idempotency-Key", "k")
		return a.do(q)
	}
	one, two := file{"a.txt", "text/plain", "one"}, file{"b.txt", "text/plain", "two"}
	first := send(map[string]string{"description": "d", "password": "secret"}, one, two).want(201)
	is.Equal(string(send(map[string]string{"password": "secret", "description": "d"}, one, two).want(201).body), string(first.body)) // in any order
	for name, got := range map[string]*answer{
		"content":        send(map[string]string{"description": "d", "password": "secret"}, file{"a.txt", "text/plain", "One"}, two),
		"long content":   send(map[string]string{"description": "d", "password": "secret"}, file{"a.txt", "text/plain", strings.Repeat("one", 100_000)}, two),
		"name":           send(map[string]string{"description": "d", "password": "secret"}, file{"c.txt", "text/plain", "one"}, two),
		"type":           send(map[string]string{"description": "d", "password": "secret"}, file{"a.txt", "text/html", "one"}, two),
		"order":          send(map[string]string{"description": "d", "password": "secret"}, two, one),
		"a file less":    send(map[string]string{"description": "d", "password": "secret"}, one),
		"another field":  send(map[string]string{"description": "d", "password": "secret", "isPublic": "true"}, one, two),
		"a field less":   send(map[string]string{"description": "d"}, one, two),
		"another value":  send(map[string]string{"description": "e", "password": "secret"}, one, two),
		"password":       send(map[string]string{"description": "d", "password": "other"}, one, two),
		"a moved border": send(map[string]string{"description": "dpassword", "password": "secret"}, one, two),
		"a bad field":    send(map[string]string{"description": "d", "password": "secret", "maxViews": "0"}, one, two),
	} {
		if got.status != 422 || got.code() != "idempotency_mismatch" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	a.form(aFile, "Idempotency-Key", "k").want(400) // cut off
	is.Equal(a.get("/api/v1/files").want(200).at("total"), 2.0)
	is.Equal(len(a.blobNames()), 2)
	is.Equal(len(a.staged()), 0)

	// The answer is repeated when nothing could be stored any more.
	a.patch("/api/v1/admin/settings", `{"maxUploadBytes":1,"defaultQuotaBytes":1}`).want(200)
	is.Equal(string(send(map[string]string{"description": "d", "password": "secret"}, one, two).want(201).body), string(first.body))
	send(map[string]string{"description": "d", "password": "secret"}, file{"a.txt", "text/plain", "other"}).want(422)
}

func TestUploadIdempotentRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bodies := make([]string, 20)
	var all sync.WaitGroup
	for i := range bodies {
		q := a.uploadRequest(nil, file{"a.txt", "", fmt.Sprintf("content %d", i%4)})
		q.header.Set("Idempotency-Key", "one")
		all.Go(func() {
			got := a.do(q)
			bodies[i] = fmt.Sprint(got.status, string(got.body))
			if got.status != 201 {
				bodies[i] = fmt.Sprint(got.status, got.code())
			}
		})
	}
	all.Wait()
	won := slices.IndexFunc(bodies, func(b string) bool { return strings.HasPrefix(b, "201{") })
	is.True(won >= 0)
	for i, body := range bodies { // one answer for all that are alike, and a refusal for the others
		if i%4 == won%4 {
			is.Equal(body, bodies[won])
		} else {
			is.Equal(body, "422idempotency_mismatch")
		}
	}
	is.Equal(a.get("/api/v1/files").want(200).at("total"), 1.0)
	is.Equal(len(a.blobNames()), 1) // what the others brought is gone
	is.Equal(len(a.staged()), 0)
}

// TestUploadDiskFails: an upload that the disk does not take is answered with
// the reason, and leaves nothing.
func TestUploadDiskFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for err, status := range map[error]int{
		syscall.ENOSPC: 507, syscall.EDQUOT: 507, syscall.EROFS: 503, syscall.EMFILE: 503, syscall.EIO: 503, io.ErrUnexpectedEOF: 500,
	} {
		_, got := web.ClientError(fmt.Errorf("blobs: writing staged content: %w", &fs.PathError{Op: "write", Path: "x", Err: err}))
		is.Equal(got, status)
	}
	for err, status := range map[error]int{syscall.ENOSPC: 507, syscall.EDQUOT: 507, syscall.EACCES: 503, syscall.EPERM: 503, syscall.EROFS: 503, syscall.EIO: 503} {
		e, got := web.ClientError(fmt.Errorf("blobs: keeping staged content: %w", &blobs.Unwritable{Folder: "x", Err: err}))
		is.Equal(got, status)
		is.Equal(e.Retry > 0, status == 503)
		is.True(!strings.Contains(e.Text, "x/")) // no path for the client
	}
	_, other := web.ClientError(&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES})
	is.Equal(other, 500)
	a := start(t)
	is.NoErr(a.server.Blobs.Close())
	got := a.upload(nil, file{"a.txt", "", "x"}).want(500)
	is.True(!bytes.Contains(got.body, []byte("blobs"))) // no detail for the client
	a.nothingLeft()
}

// TestUploadNames sends names as hostile clients do.
func TestUploadNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for sent, want := range map[string]string{
		`filename="a.txt"`:                                 "a.txt",
		`filename=a.txt`:                                   "a.txt",
		`filename="a%22b.txt"`:                             `a"b.txt`,
		`filename="a\"b.txt"`:                              `a"b.txt`,
		`filename="a%0D%0ASet-Cookie: x=1.txt"`:            "aSet-Cookie: x=1.txt",
		`filename="../../etc/passwd"`:                      "passwd",
		`filename="/etc/passwd"`:                           "passwd",
		`filename="..\..\a.txt"`:                           "a.txt",
		`filename="C:\Users\ann\a.txt"`:                    "a.txt",
		`filename="..%2f..%2fa"`:                           "..%2f..%2fa",
		`filename="a%00b"`:                                 "a%00b",
		`filename=""`:                                      "file",
		`filename="."`:                                     "file",
		`filename=".."`:                                    "file",
		`filename="a/"`:                                    "file",
		`filename="   "`:                                   "file",
		`filename="CON.txt"`:                               "_CON.txt",
		"filename=\"\u202egnp.exe\"":                       "gnp.exe",
		"filename=\"a\tb\"":                                "ab",
		"filename=\"e\u0301.txt\"":                         "é.txt",
		`filename="日本語 ファイル.txt"`:                          "日本語 ファイル.txt",
		"filename=\"\xff\xfe.txt\"":                        "\uFFFD.txt",
		`filename*=UTF-8''na%C3%AFve%2F..%2Fb.txt`:         "b.txt",
		`filename="<img src=x onerror=alert(1)>.html"`:     "<img src=x onerror=alert(1)>.html",
		`filename="` + strings.Repeat("é", 3000) + `.txt"`: strings.Repeat("é", 125) + ".txt",
		`size=1`:                     "file",
		`filename="a.txt`:            "file",
		`filename="a"; filename="b"`: "file",
	} {
		got := a.form("--b\nContent-Disposition: form-data; name=\"file\"; " + sent + "\n\nhello\n--b--\n")
		if got.status != 201 && !strings.Contains(sent, `"; filename`) && sent != `filename="a.txt` {
			t.Errorf("%s: %d %s", sent, got.status, got.body)
			continue
		}
		if got.status != 201 { // the part's name cannot be read either
			is.True(strings.Contains(got.want(400).text("error"), "Content-Disposition"))
			continue
		}
		name := got.text("originalName")
		if len(sent) < 6000 && name != want || len(name) > 255 || !strings.HasSuffix(name, filepath.Ext(want)) {
			t.Errorf("%s: %q, want %q", sent, name, want)
		}
		h := a.get("/x/" + got.text("slug")).want(200).header
		is.Equal(len(h.Values("Content-Disposition")), 1)
		is.Equal(h.Get("Set-Cookie"), "")
	}
}

// TestUploadTypes: what a file is said to be and how it is then served.
func TestUploadTypes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const png = "\x89PNG\r\n\x1a\n0000"
	const octets = "application/octet-stream"
	for _, c := range []struct{ name, claimed, content, want, how string }{
		{"a.png", octets, png, "image/png", "inline"},
		{"a", "", png, "image/png", "inline"},
		{"a.html", "text/html", png, "image/png", "inline"},
		{"a.png", "image/svg+xml", png, "image/png", "inline"},
		{"README.md", octets, "# Title", "text/markdown", "attachment"},
		{"README.md", octets, "<h1 align=center>Title</h1>", "text/markdown", "attachment"},
		{"a.csv", octets, "a,b\n1,2", "text/csv", "attachment"},
		{"a.csv", "application/vnd.ms-excel", "a,b", "text/csv", "attachment"},
		{"a.svg", octets, `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`, "image/svg+xml", "inline"},
		{"a.svg", octets, `<?xml version="1.0"?><svg/>`, "image/svg+xml", "inline"},
		{"a.svg", octets, "<!-- made by hand -->\n<svg>", "image/svg+xml", "inline"},
		{"a.svg", octets, "<!-- --><html><script>alert(1)</script>", "text/html", "attachment"},
		{"a.svgz", "image/svg+xml", "\x1f\x8b\x08\x00", "application/x-gzip", "attachment"},
		{"page", octets, "<!DOCTYPE html><script>alert(1)</script>", "text/html", "attachment"},
		{"page", "image/png", "  <script>alert(1)</script>", "text/html", "attachment"},
		{"page.txt", "text/plain", "<html>", "text/html", "attachment"},
		{"page.HTML", octets, "hello", "text/html", "attachment"},
		{"page.xhtml", octets, "hello", "application/xhtml+xml", "attachment"},
		{"page.shtml", "text/html; charset=utf-7", "+ADw-script+AD4-alert(1)+ADw-/script+AD4-", "text/html", "attachment"},
		{"page", "text/html; charset=utf-7", "+ADw-script+AD4-", "text/html", "attachment"},
		{"a.gif", "text/html", "GIF89a/*<script>alert(1)</script>*/", "image/gif", "inline"},
		{"a.html", "text/html", "GIF89a<html><script>", "image/gif", "inline"},
		{"a.pdf", octets, "%PDF-1.7\n", "application/pdf", "inline"},
		{"a.xml", octets, `<?xml version="1.0"?><a/>`, "text/xml", "attachment"},
		{"a.mht", octets, "MIME-Version: 1.0", "multipart/related", "attachment"},
		{"a.js", octets, "alert(1)", "text/javascript", "attachment"},
		{"a", "application/javascript", "alert(1)", "application/javascript", "attachment"},
		{"a", "text/x-ECMAScript", "alert(1)", "text/x-ecmascript", "attachment"},
		{"a", "text/javascript1.5", "alert(1)", "text/javascript1.5", "attachment"},
		{"a.css", "text/css", "body {}", "text/css", "attachment"},
		{"a", "text/jscript", "alert(1)", "text/jscript", "attachment"},
		{"a", "text/livescript", "alert(1)", "text/livescript", "attachment"},
		{"a.txt", octets, "hello", "text/plain", "inline"},
		{"a", "text/plain", "\x00\x01\x02", octets, "attachment"},
		{"a.png", "image/png", "hello", "text/plain", "inline"},
		{"a", "multipart/x-mixed-replace; boundary=x", "--x\nContent-Type: text/html\n\n<script>", "multipart/x-mixed-replace", "attachment"},
		{"a", "text/html\r\nX-Evil: 1", "hello", "text/plain", "inline"},
		{"a", "Text/X-Thing; a=b", "hello", "text/x-thing", "attachment"},
		{"a", "a/b/c", "hello", "text/plain", "inline"},
		{"a", "*/*", "\x00", "*/*", "attachment"},
		{"a", strings.Repeat("x", 200) + "/y", "\x00", octets, "attachment"},
		{"a.docx", octets, "PK\x03\x04", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "attachment"},
		{"a.zip", octets, "PK\x03\x04", "application/zip", "attachment"},
		{"a.png", "image/png", "PK\x03\x04", "application/zip", "attachment"},
		{"a.m4a", octets, "\x00\x00\x00\x14ftypM4A \x00\x00\x00\x00mp42", "audio/mp4", "inline"},
		{"a.mp4", octets, "\x00\x00\x00\x14ftypmp42\x00\x00\x00\x00mp42", "video/mp4", "inline"},
		{"a.mkv", octets, "\x1a\x45\xdf\xa3", "video/x-matroska", "attachment"},
		{"a.webm", octets, "\x1a\x45\xdf\xa3", "video/webm", "inline"},
		{"a.opus", octets, "OggS\x00", "audio/ogg", "inline"},
		{"a.avif", octets, "\x00\x00\x00\x1cftypavif\x00\x00\x00\x00avifmif1", "image/avif", "inline"},
		{"empty.png", "image/png", "", "text/plain", "inline"},
	} {
		got := media.Of(c.claimed, c.name, []byte(c.content))
		if got != c.want {
			t.Errorf("%s, said to be %q, with %q: %q, want %q", c.name, c.claimed, c.content, got, c.want)
		}
		h := http.Header{}
		web.SetContentHeaders(h, got, c.name, false, false)
		if sent := h.Get("Content-Type"); strings.Contains(sent, "script") || strings.Contains(sent, "css") { // no page may have it for its own
			t.Errorf("%s as %s: sent as %s", c.name, got, sent)
		}
		if how, _, _ := strings.Cut(h.Get("Content-Disposition"), ";"); how != c.how {
			t.Errorf("%s as %s: %s, want %s", c.name, got, how, c.how)
		}
	}
	a := start(t)
	got := a.upload(map[string]string{"isPublic": "true"}, file{"x.html", "text/html; charset=utf-7", "+ADw-script+AD4-"}).want(201)
	h := a.visit("/x/" + got.text("slug") + ".html").want(200).header
	is.Equal(h.Get("Content-Type"), "text/html; charset=utf-8")
	is.Equal(h.Get("Content-Disposition"), `attachment; filename="x.html"`)
	is.Equal(h.Get("X-Content-Type-Options"), "nosniff")
	is.True(json.Valid(got.body))
}

// What the disk has no room for is refused with 507, and nothing of it stays.
func TestUploadFullDisk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := &upload.Budget{File: 100, Left: 100, Disk: 10}
	is.NoErr(m.ErrTooLarge(10))
	_, status := web.ClientError(m.ErrTooLarge(11))
	is.Equal(status, http.StatusInsufficientStorage)
	a := start(t)
	is.True(a.server.Store.FreeForContent() > 0)
}
