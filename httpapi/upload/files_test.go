package upload_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/httpapi/apitest"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// form sends a multipart body as it stands, with the boundary b. Line ends
// are those of the protocol.
func form(a *apitest.App, body string, header ...string) *apitest.Answer {
	a.Helper()
	h := apitest.WithHeader(append([]string{"Content-Type", "multipart/form-data; boundary=b"}, header...)...)
	return a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/upload", Raw: true, Header: h,
		Body: strings.NewReader(strings.ReplaceAll(body, "\n", "\r\n")),
	})
}

func aField(name, value string) string {
	return "--b\nContent-Disposition: form-data; name=\"" + name + "\"\n\n" + value + "\n"
}

func TestUploadFields(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	tag := a.Post("/api/v1/tags", `{"name":"old"}`).Want(201).Text("data.id")
	folder := a.Post("/api/v1/folders", `{"name":"Holidays"}`).Want(201).Text("data.id")
	fields := aField("description", "Noon") + aField("isPublic", "true") + aField("slug", "sea-24") + aField("folderId", folder) +
		aField("tagIds", `["`+tag+`"]`) + aField("newTags", " beach , 2024,beach") + aField("name", "../Sea.txt") + aField("password", "open sesame") +
		aField("maxViews", "3") + aField("maxViewsAction", "delete") + aField("expiresAt", "2130-01-01T00:00:00Z") + aField("unknown", "ignored")
	for _, order := range []string{
		apitest.FilePart + fields, fields + apitest.FilePart, aField("isFavorite", "true") + apitest.FilePart + fields,
	} {
		got := form(a, order+"--b--\n").Want(201)
		is.Equal(got.Text("slug"), "sea-24") // flat
		is.Equal(got.Text("url"), "https://kist.example.org/x/sea-24")
		is.Equal(got.Text("viewUrl"), "https://kist.example.org/v/sea-24")
		is.Equal(got.Text("originalName"), "Sea.txt")
		is.Equal(got.Text("mimeType"), "text/plain")
		is.Equal(got.At("size"), 5.0)
		is.Equal(got.Text("sha256"), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")
		is.Equal(got.Text("description"), "Noon")
		is.Equal(got.At("isPublic"), true)
		is.Equal(got.At("hasPassword"), true)
		is.Equal(got.Text("folder.name"), "Holidays")
		is.Equal(got.At("maxViews"), 3.0)
		is.Equal(got.Text("maxViewsAction"), "delete")
		is.Equal(got.Text("expiresAt"), "2130-01-01T00:00:00.000Z")
		var names []string
		for i := range 3 {
			names = append(names, got.Text(fmt.Sprintf("tags.%d.name", i)))
		}
		slices.Sort(names)
		is.Equal(names, []string{"2024", "beach", "old"})
		a.Delete("/api/v1/files/sea-24").Want(200)
	}
	for _, tail := range []string{"--b--", "--b-- \n", "--b--\nepilogue"} {
		got := form(a, "preamble\n"+apitest.FilePart+tail).Want(201)
		is.Equal(got.At("size"), 5.0)
		a.Delete("/api/v1/files/" + got.Text("slug")).Want(200)
	}
	in64 := strings.Replace(
		strings.Replace(apitest.FilePart, "\n\n", "\nContent-Transfer-Encoding: base64\n\n", 1), "hello", "aGVsbG8=", 1,
	)
	is.Equal(string(a.Get("/x/"+form(a, in64+"--b--").Want(201).Text("slug")).Want(200).Body), "hello")
	got := form(a, apitest.FilePart+aField("folderName", "New")+aField("isPublic", "'true'")+"--b--\n")
	is.Equal(got.Status, 422) // no spelling of a boolean but true and false
	got = form(a, apitest.FilePart+aField("folderName", "New")+"--b--\n").Want(201)
	is.Equal(got.Text("folder.name"), "New")
	is.Equal(got.At("isPublic"), false) // private unless said
	is.Equal(got.At("folder.id") != nil, true)
	got = form(a, apitest.FilePart+aField("folderName", "New")+"--b--\n").Want(201)
	is.Equal(len(got.Text("slug")), record.SlugLength)
	is.Equal(a.Get("/api/v1/folders").Want(200).At("total"), 2.0) // found, not made twice
}

func TestUploadSeveral(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := a.Upload(
		map[string]string{"isPublic": "true", "newTags": "x"}, apitest.File("a.txt", "", "one"),
		apitest.File("b.txt", "", "two"), apitest.File("c.txt", "", "one"),
	).Want(201)
	for i, name := range []string{"a.txt", "b.txt", "c.txt"} {
		is.Equal(got.Text(fmt.Sprintf("files.%d.originalName", i)), name)
		is.Equal(got.At(fmt.Sprintf("files.%d.isPublic", i)), true)
		is.Equal(
			string(a.Visit("/x/"+got.Text(fmt.Sprintf("files.%d.slug", i))).Want(200).Body), []string{"one", "two", "one"}[i],
		)
	}
	is.Equal(len(a.BlobNames()), 2) // equal content is kept once
	is.Equal(
		a.Upload(
			map[string]string{"slug": "mine"}, apitest.File("a.txt", "", "1"), apitest.File("b.txt", "", "2"),
		).Want(422).At("fields.slug") != nil,
		true,
	)
	is.Equal(len(a.BlobNames()), 2)
	is.Equal(a.Get("/api/v1/files").Want(200).At("total"), 3.0)
}

// TestUploadRefused sends uploads that are refused and must leave nothing behind.
func TestUploadRefused(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = 1000 })
	const end = "--b--\n"
	for name, c := range map[string]struct {
		body   string
		status int
		field  string // named in the answer
	}{
		"no parts": {end, 422, "file"},
		"no file":  {aField("description", "x") + end, 422, "file"},
		"an unknown encoding": {
			strings.Replace(apitest.FilePart, "\n\n", "\nContent-Transfer-Encoding: gzip\n\n", 1) + end, 400, "",
		},
		"base64 that is none": {
			strings.Replace(apitest.FilePart, "\n\n", "\nContent-Transfer-Encoding: base64\n\n?", 1) + end, 400, "",
		},
		"two same fields": {
			apitest.FilePart + aField("description", "x") + aField("description", "x") + end, 400, "",
		},
		"no end":                   {apitest.FilePart, 400, ""},
		"no end of the file":       {apitest.FilePart[:len(apitest.FilePart)-1], 400, ""},
		"no end of a field":        {apitest.FilePart + "--b\nContent-Disposition: form-data; name=\"slug\"\n\nabc", 400, ""},
		"end in a header":          {apitest.FilePart + "--b\nContent-Disposition: form", 400, ""},
		"end after a header":       {apitest.FilePart + "--b\nContent-Disposition: form-data; name=\"slug\"\n\n", 400, ""},
		"end after a boundary":     {apitest.FilePart + "--b\n", 400, ""},
		"end in the last boundary": {apitest.FilePart + "--b-", 400, ""},
		"nothing":                  {"", 400, ""},
		"only a preamble":          {"Hello\n", 400, ""},
		"an unreadable file": {
			apitest.FilePart + strings.Replace(apitest.FilePart, `"a.txt"`, `"a"b.txt"`, 1) + end, 400, "",
		},
		"an unreadable field":   {apitest.FilePart + aField(`password"x`, "open sesame") + end, 400, ""},
		"text after a boundary": {apitest.FilePart + "--bx\nrubbish", 400, ""},
		"10,000 empty parts":    {strings.Repeat("--b\n\n\n", 10_000) + end, 400, ""},
		"301 files":             {strings.Repeat(apitest.FilePart, upload.MaxFiles+1) + end, 400, ""},
		"101 fields":            {apitest.FilePart + strings.Repeat(aField("", "x"), 101) + end, 400, ""},
		"1 MB of header": {
			"--b\nContent-Disposition: form-data; name=\"file\"; filename=\"" + strings.Repeat("a", 1<<20) + "\"\n\nx\n" + end,
			400, "",
		},
		"1 MB of headers":    {"--b\n" + strings.Repeat("X-A: b\n", 1<<17) + "\nx\n" + end, 400, ""},
		"1 MB of preamble":   {strings.Repeat("preamble\n", 1<<17) + apitest.FilePart + end, 400, ""},
		"a line of preamble": {strings.Repeat("p", 1<<20) + "\n" + apitest.FilePart + end, 400, ""},
		"a field over 64 KiB": {
			apitest.FilePart + aField("description", strings.Repeat("x", upload.MaxField+1)) + end, 413, "",
		},
		"fields over 1 MiB":       {apitest.FilePart + manyFields(17) + end, 413, ""},
		"a file of one byte more": {strings.Replace(apitest.FilePart, "hello", strings.Repeat("x", 1001), 1) + end, 413, ""},
		"the second file too long": {
			apitest.FilePart + strings.Replace(apitest.FilePart, "hello", strings.Repeat("x", 1001), 1) + end, 413, "",
		},
		"a slug with a slash":    {apitest.FilePart + aField("slug", "a/b") + end, 422, "slug"},
		"a reserved slug":        {apitest.FilePart + aField("slug", "api") + end, 422, "slug"},
		"an empty limit":         {apitest.FilePart + aField("maxViews", "0") + end, 422, "maxViews"},
		"a negative limit":       {apitest.FilePart + aField("maxViews", "-1") + end, 422, "maxViews"},
		"half a view":            {apitest.FilePart + aField("maxViews", "1.5") + end, 422, "maxViews"},
		"a limit that is no one": {apitest.FilePart + aField("maxViews", "1_000") + end, 422, "maxViews"},
		"an unknown action":      {apitest.FilePart + aField("maxViewsAction", "explode") + end, 422, "maxViewsAction"},
		"a past end":             {apitest.FilePart + aField("expiresAt", "2000-01-01T00:00:00Z") + end, 422, "expiresAt"},
		"an end without a zone":  {apitest.FilePart + aField("expiresAt", "2130-01-01T00:00:00") + end, 422, "expiresAt"},
		"not my folder": {
			apitest.FilePart + aField("folderId", "01890a5d-ac96-774b-bcce-b302099a8057") + end, 422, "folderId",
		},
		"not my tag": {
			apitest.FilePart + aField("tagIds", `["01890a5d-ac96-774b-bcce-b302099a8057"]`) + end, 422, "tagIds",
		},
		"tags that are no ids":  {apitest.FilePart + aField("tagIds", `["x"]`) + end, 422, "tagIds"},
		"tags that are no list": {apitest.FilePart + aField("tagIds", `{"a":1}`) + end, 422, "tagIds"},
		"50,000 tags": {
			apitest.FilePart + aField("newTags", strings.Repeat(",a", 25_000)+strings.Repeat("b,", 5000)) + end, 0, "",
		},
		"NUL":             {apitest.FilePart + aField("description", "a\x00b") + end, 422, "description"},
		"not UTF-8":       {apitest.FilePart + aField("description", "a\xffb") + end, 422, "description"},
		"a long password": {apitest.FilePart + aField("password", strings.Repeat("x", 1025)) + end, 422, "password"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got := form(a, c.body)
			if c.status == 0 { // either way, and quickly
				is.True(got.Status == 201 || got.Status == 422)
				if got.Status == 201 {
					a.Delete("/api/v1/files/" + got.Text("slug")).Want(200)
					a.Sweep()
				}
				return
			}
			got.Want(c.status)
			if c.field != "" {
				is.True(got.At("fields."+c.field) != nil) // names the field
			}
		})
		a.NothingLeft()
	}
	for media, status := range map[string]int{
		"": 415, "application/json": 415, "multipart/mixed; boundary=b": 415, "multipart/form-data": 400, "multipart/form-data; boundary=": 415,
		"multipart/form-data; boundary=" + strings.Repeat("b", 71): 400, "multipart/form-data; boundary=b; boundary=c": 415,
		"multipart/form-data; boundary=" + strings.Repeat("b", 70): 400, "MULTIPART/FORM-DATA; BOUNDARY=b": 201, "multipart/form-data; boundary=\"b\"; charset=utf-8": 201,
	} {
		got := a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/upload", Raw: true, Header: apitest.WithHeader("Content-Type", media),
			Body: strings.NewReader(strings.ReplaceAll(apitest.FilePart+end, "\n", "\r\n")),
		})
		if got.Status != status {
			t.Errorf("%q: %d, want %d", media, got.Status, status)
		}
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
	a := apitest.Start(t)
	for _, size := range []int{2, upload.MaxField + 1} {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		p, err := w.CreateFormFile("fil", "photo.jpg")
		is.NoErr(err)
		_, err = p.Write(make([]byte, size))
		is.NoErr(err)
		is.NoErr(w.Close())
		got := a.Refused(
			apitest.Request{
				Method: "POST", Path: "/api/v1/upload", Body: &b, Header: http.Header{"Content-Type": {w.FormDataContentType()}},
			},
			422,
		)
		is.Equal(got.Code(), "invalid_fields")
		is.True(strings.Contains(got.Text("error"), `must be in the field file; the form has one in the field "fil"`))
	}
}

// TestUploadConflict: content of an upload that is refused by the store is
// unlinked at once, unless something else has it, or had it lately.
func TestUploadConflict(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Post("/api/v1/notes", `{"content":"x","slug":"taken"}`).Want(201)
	conflict := func(content string) {
		t.Helper()
		is.Equal(
			a.Upload(map[string]string{"slug": "taken"}, apitest.File("a.txt", "", content)).Want(409).Code(), "slug_taken",
		)
	}
	conflict("one")
	a.NothingLeft()
	slug := a.Upload(nil, apitest.File("a.txt", "", "one")).Want(201).Text("slug")
	conflict("one")
	is.Equal(len(a.BlobNames()), 1) // another file has it
	a.Get("/x/" + slug).Want(200)
	a.Delete("/api/v1/files/" + slug).Want(200)
	conflict("one")
	is.Equal(len(a.BlobNames()), 1) // a file had it: it stays for --gc-delay
	conflict("two")
	is.Equal(len(a.BlobNames()), 1)
}

func TestUploadSameContent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	first := a.Upload(nil, apitest.File("a.txt", "", "same")).Want(201)
	second := a.Upload(nil, apitest.File("b.txt", "", "same")).Want(201)
	is.True(first.Text("slug") != second.Text("slug"))
	is.Equal(len(a.BlobNames()), 1)
	loose := func() (n int) {
		is.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
			n = len(catalog.UnreferencedRefs(tx, a.Server.Store.Now(), 10))
			return nil
		}))
		return n
	}
	a.Delete("/api/v1/files/" + first.Text("slug")).Want(200)
	a.Delete("/api/v1/files/" + second.Text("slug")).Want(200)
	is.Equal(loose(), 0) // they are in the trash
	a.Delete("/api/v1/trash").Want(200)
	is.Equal(loose(), 1) // the last reference is gone
	a.Upload(nil, apitest.File("c.txt", "", "same")).Want(201)
	is.Equal(loose(), 0)
	is.Equal(len(a.Staged()), 0)
}

// TestUploadLimits: the bounds hold for the bytes that are read, whatever the
// request announces, and to the byte.
func TestUploadLimits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const most = 100_000
	a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = most })
	send := func(size int) *apitest.Answer {
		q := a.UploadRequest(nil, apitest.File("a.bin", "", strings.Repeat("\x01", size)))
		q.Raw, q.Body = true, struct{ io.Reader }{q.Body} // its length is not announced
		return a.Do(q)
	}
	send(most + 1).Want(413)
	a.NothingLeft()
	send(most).Want(201)
	send(0).Want(201)
	a.Patch("/api/v1/admin/settings", `{"maxUploadBytes":1000}`).Want(200)
	send(1001).Want(413)
	send(1000).Want(201)
	a.Patch("/api/v1/admin/settings", `{"maxUploadBytes":1000000}`).Want(200)
	send(most + 1).Want(413) // the setting cannot exceed the command line's
	send(most).Want(201)
	a.Patch("/api/v1/admin/settings", `{"maxUploadBytes":5}`).Want(200) // less than what tells the type
	send(6).Want(413)
	send(5).Want(201)
	is.Equal(len(a.Staged()), 0)
}

func TestUploadQuota(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	key := a.AddKey(bob, people.ScopeAll)
	a.Patch("/api/v1/admin/users/"+bob.ID.String(), `{"quotaBytes":1000}`).Want(200)
	send := func(sizes ...int) *apitest.Answer {
		var files []apitest.Part
		for i, n := range sizes {
			files = append(files, apitest.File(fmt.Sprintf("%d.bin", i), "", strings.Repeat(string(rune('a'+i)), n)))
		}
		q := a.UploadRequest(nil, files...)
		q.Key = key
		return a.Do(q)
	}
	is.Equal(send(1001).Want(403).Code(), "quota_exceeded")
	is.Equal(send(600, 401).Want(403).Code(), "quota_exceeded")
	is.Equal(send(60_000).Want(403).Code(), "quota_exceeded")
	a.NothingLeft()
	me := func() *apitest.Answer {
		return a.Do(apitest.Request{Method: "GET", Path: "/api/v1/me", Key: key}).Want(200)
	}
	left := func(n float64) { // sets the quota
		a.Patch(
			"/api/v1/admin/users/"+bob.ID.String(), map[string]float64{"quotaBytes": me().At("data.usedBytes").(float64) + n},
		).Want(200)
	}
	one := send(400).Want(201).Text("slug")
	row := me().At("data.textBytes").(float64)
	is.True(row > 100) // what is stored of a file beside its content
	is.Equal(me().At("data.usedBytes"), 400+row)
	a.Do(apitest.Request{Method: "DELETE", Path: "/api/v1/files/" + one + "?permanent=true", Key: key}).Want(200)
	send(600, 400).Want(403) // the first one's text counts already
	left(1000 + row)
	slug := send(600, 400).Want(201).Text("files.0.slug")
	send(1).Want(403)
	left(0)
	send(1).Want(403)
	send(0).Want(201)
	a.Do(apitest.Request{Method: "DELETE", Path: "/api/v1/files/" + slug + "?permanent=true", Key: key}).Want(200)
	left(599)
	send(600).Want(403)
	left(600)
	is.Equal(send(600).Want(201).At("size"), 600.0)

	// Two race for the last bytes: one gets them.
	left(500)
	got := make([]int, 8)
	var all sync.WaitGroup
	for i := range got {
		q := a.UploadRequest(nil, apitest.File("r.bin", "", strings.Repeat(fmt.Sprint(i), 500)))
		q.Key = key
		all.Go(func() { got[i] = a.Do(q).Status })
	}
	all.Wait()
	slices.Sort(got)
	is.Equal(got, []int{201, 403, 403, 403, 403, 403, 403, 403})
	is.Equal(me().At("data.usedBytes").(float64)-me().At("data.textBytes").(float64), 1500.0)
	is.Equal(len(a.Staged()), 0)
}

// TestUploadCutOff cuts connections in the middle of a file and of a field.
func TestUploadCutOff(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	body := strings.ReplaceAll(apitest.FilePart+aField("description", "x")+"--b--\n", "\n", "\r\n")
	for _, at := range []int{
		0, 1, 30, strings.Index(body, "hello"), strings.Index(body, "hello") + 3, strings.Index(body, "description") + 20,
		len(body) - 5,
	} {
		for _, head := range []string{fmt.Sprintf("Content-Length: %d", len(body)), "Transfer-Encoding: chunked"} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
			is.NoErr(err)
			_, err = fmt.Fprintf(
				conn,
				"POST /api/v1/upload HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nContent-Type: multipart/form-data; "+
					"boundary=b\r\nExpect: 100-continue\r\n%s\r\n\r\n",
				a.Key, head,
			)
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
			a.Server.Running.Wait()
			a.NothingLeft()
		}
	}
}

func TestUploadIdempotent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	bobs := a.AddKey(bob, people.ScopeUpload)
	send := func(key, idempotency, content, slug string) *apitest.Answer {
		fields := map[string]string{}
		if slug != "" {
			fields["slug"] = slug
		}
		q := a.UploadRequest(fields, apitest.File("a.txt", "", content))
		q.Key = key
		q.Header.Set("Idempotency-Key", idempotency)
		return a.Do(q)
	}
	first := send(a.Key, "k1", "one", "").Want(201)
	again := send(a.Key, "k1", "one", "").Want(201)
	// to the byte
	is.Equal(string(again.Body), string(first.Body))
	// of whichever key of the user
	is.Equal(string(send(a.AddKey(a.User, people.ScopeUpload), "k1", "one", "").Want(201).Body), string(first.Body))
	is.Equal(a.Get("/api/v1/files").Want(200).At("total"), 1.0)
	is.Equal(len(a.BlobNames()), 1)
	is.True(send(bobs, "k1", "one", "").Want(201).Text("id") != first.Text("id")) // another owner's key is another key
	is.True(send(a.Key, "k2", "one", "").Want(201).Text("id") != first.Text("id"))

	// An error is not kept as the answer to repeat.
	a.Post("/api/v1/notes", `{"content":"x","slug":"busy"}`).Want(201)
	send(a.Key, "k3", "three", "busy").Want(409)
	a.Delete("/api/v1/notes/busy").Want(200)
	send(a.Key, "k3", "three", "busy").Want(201)

	a.Clock.Advance(24*time.Hour - time.Minute)
	is.Equal(string(send(a.Key, "k1", "one", "").Want(201).Body), string(first.Body))
	a.Clock.Advance(time.Minute)
	is.True(send(a.Key, "k1", "one", "").Want(201).Text("id") != first.Text("id"))

	send(a.Key, strings.Repeat("k", 255), "long", "").Want(201)
	q := a.UploadRequest(nil, apitest.File("a.txt", "", "x"))
	q.Raw = true
	q.Header.Set("Idempotency-Key", strings.Repeat("k", 256))
	a.Do(q).Want(400)
	is.Equal(len(a.Staged()), 0)
}

// TestUploadIdempotencyMismatch: an Idempotency-Key belongs to one upload. The
// client of another is told that nothing of it was stored.
func TestUploadIdempotencyMismatch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	send := func(fields map[string]string, files ...apitest.Part) *apitest.Answer {
		q := a.UploadRequest(fields, files...)
		q.Header.Set("Idempotency-Key", "k")
		return a.Do(q)
	}
	one, two := apitest.File("a.txt", "text/plain", "one"), apitest.File("b.txt", "text/plain", "two")
	first := send(map[string]string{"description": "d", "password": "secret"}, one, two).Want(201)
	// in any order
	is.Equal(
		string(send(map[string]string{"password": "secret", "description": "d"}, one, two).Want(201).Body),
		string(first.Body),
	)
	for name, got := range map[string]*apitest.Answer{
		"content": send(
			map[string]string{"description": "d", "password": "secret"}, apitest.File("a.txt", "text/plain", "One"), two,
		),
		"long content": send(
			map[string]string{"description": "d", "password": "secret"},
			apitest.File("a.txt", "text/plain", strings.Repeat("one", 100_000)), two,
		),
		"name": send(
			map[string]string{"description": "d", "password": "secret"}, apitest.File("c.txt", "text/plain", "one"), two,
		),
		"type": send(
			map[string]string{"description": "d", "password": "secret"}, apitest.File("a.txt", "text/html", "one"), two,
		),
		"order":          send(map[string]string{"description": "d", "password": "secret"}, two, one),
		"a file less":    send(map[string]string{"description": "d", "password": "secret"}, one),
		"another field":  send(map[string]string{"description": "d", "password": "secret", "isPublic": "true"}, one, two),
		"a field less":   send(map[string]string{"description": "d"}, one, two),
		"another value":  send(map[string]string{"description": "e", "password": "secret"}, one, two),
		"password":       send(map[string]string{"description": "d", "password": "other"}, one, two),
		"a moved border": send(map[string]string{"description": "dpassword", "password": "secret"}, one, two),
		"a bad field":    send(map[string]string{"description": "d", "password": "secret", "maxViews": "0"}, one, two),
	} {
		if got.Status != 422 || got.Code() != "idempotency_mismatch" {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
	form(a, apitest.FilePart, "Idempotency-Key", "k").Want(400) // cut off
	is.Equal(a.Get("/api/v1/files").Want(200).At("total"), 2.0)
	is.Equal(len(a.BlobNames()), 2)
	is.Equal(len(a.Staged()), 0)

	// The answer is repeated when nothing could be stored any more.
	a.Patch("/api/v1/admin/settings", `{"maxUploadBytes":1,"defaultQuotaBytes":1}`).Want(200)
	is.Equal(
		string(send(map[string]string{"description": "d", "password": "secret"}, one, two).Want(201).Body),
		string(first.Body),
	)
	send(
		map[string]string{"description": "d", "password": "secret"}, apitest.File("a.txt", "text/plain", "other"),
	).Want(422)
}

func TestUploadIdempotentRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bodies := make([]string, 20)
	var all sync.WaitGroup
	for i := range bodies {
		q := a.UploadRequest(nil, apitest.File("a.txt", "", fmt.Sprintf("content %d", i%4)))
		q.Header.Set("Idempotency-Key", "one")
		all.Go(func() {
			got := a.Do(q)
			bodies[i] = fmt.Sprint(got.Status, string(got.Body))
			if got.Status != 201 {
				bodies[i] = fmt.Sprint(got.Status, got.Code())
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
	is.Equal(a.Get("/api/v1/files").Want(200).At("total"), 1.0)
	is.Equal(len(a.BlobNames()), 1) // what the others brought is gone
	is.Equal(len(a.Staged()), 0)
}

// TestUploadDiskFails: an upload that the disk does not take is answered with
// the reason, and leaves nothing.
func TestUploadDiskFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for err, status := range map[error]int{
		syscall.ENOSPC: 507, syscall.EDQUOT: 507, syscall.EROFS: 503, syscall.EMFILE: 503, syscall.EIO: 503, io.ErrUnexpectedEOF: 500,
	} {
		_, got := web.ClientError(fmt.Errorf(
			"blobs: writing staged content: %w", &fs.PathError{Op: "write", Path: "x", Err: err},
		))
		is.Equal(got, status)
	}
	for err, status := range map[error]int{
		syscall.ENOSPC: 507, syscall.EDQUOT: 507, syscall.EACCES: 503, syscall.EPERM: 503, syscall.EROFS: 503,
		syscall.EIO: 503,
	} {
		e, got := web.ClientError(fmt.Errorf("blobs: keeping staged content: %w", &blobs.Unwritable{Folder: "x", Err: err}))
		is.Equal(got, status)
		is.Equal(e.Retry > 0, status == 503)
		is.True(!strings.Contains(e.Text, "x/")) // no path for the client
	}
	_, other := web.ClientError(&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES})
	is.Equal(other, 500)
	a := apitest.Start(t)
	is.NoErr(a.Server.Blobs.Close())
	got := a.Upload(nil, apitest.File("a.txt", "", "x")).Want(500)
	is.True(!bytes.Contains(got.Body, []byte("blobs"))) // no detail for the client
	a.NothingLeft()
}

// TestUploadNames sends names as hostile clients do.
func TestUploadNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
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
		"filename=\"\xff\xfe.txt\"":                        "ÿþ.txt",
		`filename*=UTF-8''na%C3%AFve%2F..%2Fb.txt`:         "b.txt",
		`filename="<img src=x onerror=alert(1)>.html"`:     "<img src=x onerror=alert(1)>.html",
		`filename="` + strings.Repeat("é", 3000) + `.txt"`: strings.Repeat("é", 125) + ".txt",
		`size=1`:                     "file",
		`filename="a.txt`:            "file",
		`filename="a"; filename="b"`: "file",
	} {
		got := form(a, "--b\nContent-Disposition: form-data; name=\"file\"; "+sent+"\n\nhello\n--b--\n")
		if got.Status != 201 && !strings.Contains(sent, `"; filename`) && sent != `filename="a.txt` {
			t.Errorf("%s: %d %s", sent, got.Status, got.Body)
			continue
		}
		if got.Status != 201 { // the part's name cannot be read either
			is.True(strings.Contains(got.Want(400).Text("error"), "Content-Disposition"))
			continue
		}
		name := got.Text("originalName")
		if len(sent) < 6000 && name != want || len(name) > 255 || !strings.HasSuffix(name, filepath.Ext(want)) {
			t.Errorf("%s: %q, want %q", sent, name, want)
		}
		h := a.Get("/x/" + got.Text("slug")).Want(200).Header
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
		{"page.txt", "text/plain", "<html>", "text/plain", "inline"},
		{"page", "text/plain", "<html>", "text/html", "attachment"},
		{"page.HTML", octets, "hello", "text/html", "attachment"},
		{"page.xhtml", octets, "hello", "application/xhtml+xml", "attachment"},
		{"page.shtml", "text/html; charset=utf-7", "+ADw-script+AD4-alert(1)+ADw-/script+AD4-", "text/html", "attachment"},
		{"page", "text/html; charset=utf-7", "+ADw-script+AD4-", "text/html", "attachment"},
		{"a.gif", "text/html", "GIF89a/*<script>alert(1)</script>*/", "text/html", "attachment"},
		{"a.html", "text/html", "GIF89a<html><script>", "text/html", "attachment"},
		{"a.gif", "image/gif", "GIF89a<html><script>", "text/plain", "inline"},
		{"a.gif", "text/html", "GIF89a\x01\x00\x01\x00<script>", "image/gif", "inline"},
		{"a.pdf", octets, "%PDF-1.7\n", "application/pdf", "inline"},
		{"a.xml", octets, `<?xml version="1.0"?><a/>`, "text/xml", "attachment"},
		{"a.mht", octets, "MIME-Version: 1.0", "multipart/related", "attachment"},
		{"a.js", octets, "alert(1)", "text/javascript", "attachment"},
		{"a", "application/javascript", "alert(1)", "text/javascript", "attachment"},
		{"a", "text/x-ECMAScript", "alert(1)", "text/x-ecmascript", "attachment"},
		{"a", "text/javascript1.5", "alert(1)", "text/javascript1.5", "attachment"},
		{"a.css", "text/css", "body {}", "text/css", "attachment"},
		{"a", "text/jscript", "alert(1)", "text/jscript", "attachment"},
		{"a", "text/livescript", "alert(1)", "text/livescript", "attachment"},
		{"a.txt", octets, "hello", "text/plain", "inline"},
		{"a", "text/plain", "\x00\x01\x02", octets, "attachment"},
		{"a.png", "image/png", "hello", "text/plain", "inline"},
		{
			"a", "multipart/x-mixed-replace; boundary=x", "--x\nContent-Type: text/html\n\n<script>",
			"multipart/x-mixed-replace", "attachment",
		},
		{"a", "text/html\r\nX-Evil: 1", "hello", "text/plain", "inline"},
		{"a", "Text/X-Thing; a=b", "hello", "text/x-thing", "attachment"},
		{"a", "a/b/c", "hello", "text/plain", "inline"},
		{"a", "*/*", "\x00", "*/*", "attachment"},
		{"a", strings.Repeat("x", 200) + "/y", "\x00", octets, "attachment"},
		{
			"a.docx", octets, "PK\x03\x04", "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
			"attachment",
		},
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
		web.SetContentHeaders(h, got, "", c.name, false, false)
		// no page may have it for its own
		if sent := h.Get("Content-Type"); strings.Contains(sent, "script") || strings.Contains(sent, "css") {
			t.Errorf("%s as %s: sent as %s", c.name, got, sent)
		}
		if how, _, _ := strings.Cut(h.Get("Content-Disposition"), ";"); how != c.how {
			t.Errorf("%s as %s: %s, want %s", c.name, got, how, c.how)
		}
	}
	a := apitest.Start(t)
	got := a.Upload(
		map[string]string{"isPublic": "true"}, apitest.File("x.html", "text/html; charset=utf-7", "+ADw-script+AD4-"),
	).Want(201)
	h := a.Visit("/x/" + got.Text("slug") + ".html").Want(200).Header
	is.Equal(h.Get("Content-Type"), "text/html; charset=utf-8")
	is.Equal(h.Get("Content-Disposition"), `attachment; filename="x.html"`)
	is.Equal(h.Get("X-Content-Type-Options"), "nosniff")
	is.True(json.Valid(got.Body))
}

// What the disk has no room for is refused with 507, and nothing of it stays.
func TestUploadFullDisk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := &upload.Budget{File: 100, Left: 100, Disk: 10}
	is.NoErr(m.ErrTooLarge(10))
	_, status := web.ClientError(m.ErrTooLarge(11))
	is.Equal(status, http.StatusInsufficientStorage)
	a := apitest.Start(t)
	is.True(a.Server.Store.FreeForContent() > 0)
}
