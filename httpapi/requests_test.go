package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/captcha"
	"kist/httpapi/limit"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/inbox"
	"kist/kv/people"
	"kist/kv/record"
)

// ask makes an upload request and answers its id and slug.
func (a *app) ask(fields map[string]any) (id, slug string) {
	a.Helper()
	all := map[string]any{"title": "Photos"}
	for k, v := range fields {
		all[k] = v
	}
	made := a.post("/api/v1/upload-requests", all).want(201)
	return made.text("data.id"), made.text("data.slug")
}

// leave sends files to an upload link, as a stranger does.
func (a *app) leave(slug string, header http.Header, fields map[string]string, files ...file) *answer {
	a.Helper()
	q := a.uploadRequest(fields, files...)
	q.path, q.anyone = "/api/v1/upload-requests/p/"+slug+"/files", true
	for name, v := range header {
		q.header[name] = v
	}
	return a.do(q)
}

func (a *app) codeOf(g *answer, status int) string { a.Helper(); return g.want(status).text("code") }

// Who would rather have text is told in a sentence.
func TestLeavePlainly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for approval, became := range map[bool]string{true: " is waiting for approval.\n", false: " was received.\n"} {
		slug := a.post("/api/v1/upload-requests", map[string]any{"title": "In", "requiresApproval": approval, "allowedTypes": []string{".txt"}}).want(201).text("data.slug")
		plainly := http.Header{"Accept": {"text/plain"}}
		got := a.leave(slug, plainly, nil, file{"a.txt", "", "aaa"}, file{"../b c.txt", "", "bbb"}).want(201)
		is.Equal(mediaOf(got.header), "text/plain")
		is.Equal(string(got.body), "a.txt"+became+"b c.txt"+became)
		is.Equal(string(a.leave(slug, plainly, nil, file{"a.png", "", "aaa"}).want(415).body), "This link accepts only .txt. Nothing was stored.\n")
		is.Equal(a.leave(slug, http.Header{"Accept": {"*/*"}}, nil, file{"c.txt", "", "ccc"}).want(201).text("items.0.fileName"), "c.txt")
	}
}

func TestUploadRequests(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	made := a.post("/api/v1/upload-requests", map[string]any{
		"title": "Photos", "slug": "wedding", "maxUploads": 0, "maxFileSize": nil, "maxTotalSize": 1000, "password": "sesame",
		"allowedTypes": []string{"IMAGE/*", ".txt"}, "brandColor": "#abc",
	}).want(201)
	id := made.text("data.id")
	is.Equal(made.at("data.url"), "https://kist.example.org/up/wedding")
	is.Equal(made.at("data.isActive"), true)
	is.Equal(made.at("data.requiresApproval"), true)
	is.Equal(made.at("data.perUserWindowHours"), 24.0)
	is.Equal(made.at("data.maxUploads"), nil)
	is.Equal(made.at("data.maxTotalSize"), 1000.0)
	is.Equal(made.at("data.brandColor"), "#AABBCC")
	is.Equal(made.at("data.hasPassword"), true)
	is.Equal(made.at("data.uploadsCount"), 0.0)

	// What is not named stays; null clears.
	at := "/api/v1/upload-requests/" + id
	edited := a.patch(at, map[string]any{"description": "please", "maxTotalSize": nil, "slug": nil}).want(200)
	is.Equal(edited.at("data.slug"), "wedding")
	is.Equal(edited.at("data.description"), "please")
	is.Equal(edited.at("data.maxTotalSize"), nil)
	is.Equal(edited.at("data.hasPassword"), true)
	is.Equal(a.patch(at, map[string]any{"password": ""}).want(200).at("data.hasPassword"), false)
	is.Equal(a.get(at).want(200).at("data.allowedTypes.1"), ".txt")
	is.Equal(a.get("/api/v1/upload-requests").want(200).at("total"), 1.0)

	// One namespace of slugs.
	is.Equal(a.codeOf(a.post("/api/v1/notes", map[string]any{"content": "x", "slug": "wedding"}), 409), "slug_taken")
	is.Equal(a.codeOf(a.post("/api/v1/upload-requests", map[string]any{"title": "x", "slug": "wedding"}), 409), "slug_taken")
	is.Equal(a.visit("/wedding").want(303).header.Get("Location"), "/up/wedding")
	a.post("/api/v1/notes", map[string]any{"content": "x", "slug": "note-1"}).want(201)
	is.Equal(a.codeOf(a.patch(at, map[string]any{"slug": "note-1"}), 409), "slug_taken")

	for _, bad := range []map[string]any{{}, {"title": " "}, {"title": "x", "slug": "up"}, {"title": "x", "maxUploads": -1}, {"title": "x", "allowedTypes": []string{"*"}}, {"title": "x", "expiresAt": "2001-01-01T00:00:00Z"}} {
		a.do(apiRequest{method: "POST", path: "/api/v1/upload-requests", json: bad, raw: true}).want(422)
	}

	// Another's are not there.
	bob := a.addKey(a.addUser("bob", people.Member), people.ScopeAll)
	for _, q := range []apiRequest{
		{method: "GET", path: at},
		{method: "PATCH", path: at, json: map[string]any{"title": "mine"}},
		{method: "DELETE", path: at},
		{method: "GET", path: at + "/queue"},
		{method: "GET", path: "/api/v1/upload-requests/nothing"},
	} {
		q.key = bob
		a.do(q).want(404)
	}
	is.Equal(a.do(apiRequest{method: "GET", path: "/api/v1/upload-requests", key: bob}).want(200).at("total"), 0.0)

	a.delete(at).want(200)
	a.delete(at).want(404)
	a.visit("/up/wedding").want(404)
}

func TestUploadLink(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	id, slug := a.ask(map[string]any{"description": "please", "maxUploads": 3, "maxFileSize": 100, "allowedTypes": []string{"text/plain", ".bin"}, "folderName": "In"})
	public := "/api/v1/upload-requests/p/" + slug
	got := a.visit(public).want(200)
	is.Equal(got.at("owner.displayName"), "ann")
	is.Equal(got.at("authorized"), true)
	is.Equal(got.at("limits.maxFileSize"), 100.0)
	is.Equal(got.at("limits.remainingUploads"), 3.0)
	is.Equal(got.at("captcha"), nil)
	a.visit("/api/v1/upload-requests/p/nothing").want(404)

	// A stranger can set the file, a name and a message, and learns four things.
	left := a.leave(slug, nil, map[string]string{
		"name": "Bob", "message": "hello", "isPublic": "true", "slug": "mine", "folderName": "Out", "status": "approved", "maxViews": "1", "tags": "x",
	}, file{"../a.txt", "text/html", "first"}, file{"b.bin", "", "\x00\x01"}).want(201)
	var sent struct{ Items []map[string]any }
	a.fatal(json.Unmarshal(left.body, &sent))
	is.Equal(len(sent.Items), 2)
	is.Equal(len(sent.Items[0]), 4)
	is.Equal(left.at("items.0.status"), "pending")
	is.Equal(left.at("items.0.fileName"), "a.txt")
	is.Equal(left.at("items.0.fileSize"), 5.0)

	all := a.get("/api/v1/upload-requests/queue").want(200)
	is.Equal(all.at("total"), 2.0)
	is.Equal(all.at("items.0.uploaderName"), "Bob")
	is.Equal(all.at("items.0.message"), "hello")
	is.Equal(all.at("items.0.mimeType"), "text/plain")
	is.Equal(all.at("items.0.decidedAt"), nil)
	is.Equal(all.at("items.0.fileId"), nil)
	is.Equal(all.at("items.0.itemId"), left.at("items.0.itemId"))
	is.Equal(a.get("/api/v1/files").want(200).at("total"), 0.0)
	me := a.get("/api/v1/me").want(200)
	text := me.at("data.textBytes").(float64)
	is.True(text > float64(2*len("Bob"+"hello")))         // what the sender said counts,
	is.Equal(me.at("data.usedBytes").(float64)-text, 7.0) // and the files

	// The owner looks first, in the sandbox.
	queue := "/api/v1/upload-requests/" + id + "/queue"
	first, second := left.text("items.0.itemId"), left.text("items.1.itemId")
	look := a.get(queue + "/" + first + "/content").want(200)
	is.Equal(string(look.body), "first")
	is.True(strings.Contains(look.header.Get("Content-Security-Policy"), "sandbox"))
	is.Equal(look.header.Get("Content-Type"), "text/plain; charset=utf-8")
	is.Equal(look.header.Get("X-Content-Type-Options"), "nosniff")
	is.Equal(look.header.Get("Cache-Control"), "private, no-store")
	is.Equal(string(a.do(apiRequest{method: "GET", path: queue + "/" + first + "/content", header: http.Header{"Range": {"bytes=1-2"}}}).want(206).body), "ir")
	a.do(apiRequest{method: "GET", path: queue + "/" + first + "/content", header: http.Header{"Range": {"bytes=99-"}}}).want(416)
	is.True(strings.HasPrefix(a.get(queue+"/"+second+"/content").want(200).header.Get("Content-Disposition"), "attachment"))
	a.flip("\x00\x01")
	a.get(queue + "/" + second + "/content").want(503)

	// Decisions: once.
	done := a.patch(queue+"/"+first, map[string]any{"action": "approve", "tags": []string{"new"}}).want(200)
	is.Equal(done.at("data.status"), "approved")
	file1 := a.get("/api/v1/files/" + done.text("data.fileSlug")).want(200)
	is.Equal(file1.at("data.isPublic"), false)
	is.Equal(file1.at("data.folder.name"), "In")
	is.Equal(file1.at("data.tags.0.name"), "new")
	is.Equal(file1.at("data.id"), done.at("data.fileId"))
	a.visit("/x/" + done.text("data.fileSlug")).want(404)
	for _, action := range []string{"approve", "reject"} {
		is.Equal(a.codeOf(a.patch(queue+"/"+first, map[string]any{"action": action}), 409), "already_decided")
	}
	a.get(queue + "/" + first + "/content").want(404)
	a.do(apiRequest{method: "PATCH", path: queue + "/" + second, json: `{"action":"keep"}`, raw: true}).want(422)
	a.do(apiRequest{method: "PATCH", path: queue + "/" + second, json: `{}`, raw: true}).want(422)
	is.Equal(a.patch(queue+"/"+second, map[string]any{"action": "reject"}).want(200).at("data.fileSlug"), nil)
	a.get(queue + "/" + second + "/content").want(404)
	is.Equal(a.get(queue+"?status=rejected").want(200).at("items.0.itemId"), second)
	is.Equal(a.get(queue+"?status=pending").want(200).at("total"), 0.0)
	is.Equal(a.get(queue).want(200).at("total"), 2.0)
	a.do(apiRequest{method: "GET", path: queue + "?status=lost", raw: true}).want(400)

	// The bytes of what was rejected are free for the sweep; of what was approved they are not.
	view := func(text string) (loose bool) {
		a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
			loose = catalog.Unreferenced(tx, sha256.Sum256([]byte(text)), tx.Now)
			return nil
		}))
		return loose
	}
	is.True(view("\x00\x01"))
	is.True(!view("first"))

	is.Equal(a.codeOf(a.leave(slug, nil, nil, file{"a.html", "text/plain", "<html><body>"}), 415), "type_not_allowed")
	is.Equal(a.codeOf(a.leave(slug, nil, nil, file{"a.txt", "", strings.Repeat("x", 101)}), 413), "too_large")
	is.Equal(a.codeOf(a.leave(slug, nil, map[string]string{"name": "x"}), 422), "invalid_fields")
	is.Equal(a.codeOf(a.leave(slug, nil, map[string]string{"name": strings.Repeat("x", 101)}, file{"a.txt", "", "x"}), 422), "invalid_fields")
	is.Equal(a.codeOf(a.leave(slug, nil, nil, file{"a.txt", "", "1"}, file{"b.txt", "", "2"}), 403), "limit_reached") // one more goes, not two
	a.leave(slug, nil, nil, file{"a.txt", "", "1"}).want(201)
	is.Equal(a.codeOf(a.leave(slug, nil, nil, file{"a.txt", "", "1"}), 403), "limit_reached")
	got = a.visit(public).want(200)
	is.Equal(got.at("limits.remainingUploads"), 0.0)
	is.Equal(a.get("/api/v1/upload-requests/"+id).at("data.uploadsCount"), 3.0)

	// Switched off it is not there, and over it is gone.
	at := "/api/v1/upload-requests/" + id
	a.patch(at, map[string]any{"maxUploads": nil, "isActive": false}).want(200)
	a.visit(public).want(404)
	a.leave(slug, nil, nil, file{"a.txt", "", "1"}).want(404)
	a.patch(at, map[string]any{"isActive": true, "expiresAt": a.clock.now().Add(time.Hour).UTC().Format(time.RFC3339)}).want(200)
	a.visit(public).want(200)
	a.clock.advance(2 * time.Hour)
	a.visit(public).want(410)
	a.visit("/up/" + slug).want(410)
	a.leave(slug, nil, nil, file{"a.txt", "", "1"}).want(410)

	// Without approval it is a private file at once.
	_, direct := a.ask(map[string]any{"requiresApproval": false})
	is.Equal(a.leave(direct, nil, nil, file{"z.txt", "", "zzz"}).want(201).at("items.0.status"), "approved")
	is.Equal(a.get("/api/v1/files").want(200).at("data.0.originalName"), "z.txt")
	is.Equal(a.get("/api/v1/files").want(200).at("data.0.isPublic"), false)

	// A disabled account accepts nothing.
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		u, err := people.AddUser(tx, people.User{Name: "other", Role: people.Admin, Quota: -1})
		if err != nil {
			return err
		}
		_ = u
		me, err := people.ReadUser(tx, a.user.ID)
		if err != nil {
			return err
		}
		me.Disabled = true
		return people.SaveUser(tx, me)
	}))
	a.visit("/api/v1/upload-requests/p/" + direct).want(404)
	a.leave(direct, nil, nil, file{"z.txt", "", "zzz"}).want(404)
}

func TestUploadLinkPassword(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(map[string]any{"password": "sesame", "description": "inner", "requiresCaptcha": true})
	public := "/api/v1/upload-requests/p/" + slug
	var told map[string]any
	a.fatal(json.Unmarshal(a.visit(public).want(200).body, &told))
	is.Equal(len(told), 4) // the title, that there is a password, a captcha, and that it was not given
	is.Equal(told["authorized"], false)
	is.Equal(a.codeOf(a.leave(slug, nil, nil, file{"a", "", "x"}), 401), "password_required")
	is.Equal(a.codeOf(a.leave(slug, http.Header{"X-Upload-Password": {"wrong"}}, nil, file{"a", "", "x"}), 401), "wrong_password")
	right := a.visit(public, "X-Upload-Password", "sesame").want(200)
	is.Equal(right.at("description"), "inner")
	is.Equal(right.at("captcha"), map[string]any{"provider": "pow", "challengeUrl": "https://kist.example.org/api/v1/captcha/challenge"})
	is.Equal(a.codeOf(a.leave(slug, http.Header{"X-Upload-Password": {"sesame"}}, nil, file{"a", "", "x"}), 400), "captcha_required")
	for range limit.GuessesFrom {
		a.visit(public, "X-Upload-Password", "guess")
	}
	is.Equal(a.codeOf(a.visit(public, "X-Upload-Password", "sesame"), 429), "too_many_guesses")
	a.visit("/api/v1/upload-requests/p/nothing", "X-Upload-Password", "x").want(404)

	// The page asks by a form, and the cookie is for this link alone.
	a.clock.advance(limit.GuessWindow)
	locked := a.visit("/up/" + slug).want(401)
	is.True(strings.Contains(string(locked.body), `action="/up/`+slug+`/unlock"`))
	is.True(!strings.Contains(string(locked.body), "Photos"))
	unlock := func(password string) *answer {
		return a.do(apiRequest{
			method: "POST", path: "/up/" + slug + "/unlock", anyone: true, json: url.Values{"password": {password}}.Encode(),
			header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		})
	}
	unlock("").want(401)
	unlock("no").want(401)
	in := unlock("sesame").want(303)
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	page := a.visit("/up/"+slug, "Cookie", cookie).want(200)
	is.True(strings.Contains(string(page.body), "Photos"))
	is.Equal(a.visit(public, "Cookie", cookie).want(200).at("authorized"), true)
	_, other := a.ask(map[string]any{"password": "sesame"})
	a.visit("/up/"+other, "Cookie", cookie).want(401)
}

// TestPlainForm: the page works without JavaScript.
func TestPlainForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	id, slug := a.ask(map[string]any{"maxUploads": 1, "brandColor": "#FF0000"})
	page := a.visit("/up/" + slug).want(200)
	is.True(strings.Contains(string(page.body), `fill="#FF0000"`))
	a.do(apiRequest{method: "HEAD", path: "/up/" + slug, anyone: true}).want(200)
	a.get("/up/" + slug).want(200) // the owner
	post := func(files ...file) *answer {
		q := a.uploadRequest(map[string]string{"name": "Bob"}, files...)
		q.path, q.anyone = "/up/"+slug, true
		return a.do(q)
	}
	is.True(strings.Contains(string(post(file{"", "application/octet-stream", ""}).want(422).body), "The file is required"))
	is.True(strings.Contains(string(post(file{"<b>.txt", "", "x"}).want(201).body), "&lt;b&gt;.txt"))
	is.True(strings.Contains(string(post(file{"c.txt", "", "x"}).want(403).body), "reached its file limit"))
	a.patch("/api/v1/upload-requests/"+id, map[string]any{"maxUploads": nil, "requiresCaptcha": true}).want(200)
	is.True(strings.Contains(string(post(file{"c.txt", "", "x"}).want(400).body), "needs JavaScript"))
	eventually(t, "the view of the page is not counted", func() bool { // within a second
		return a.get("/api/v1/upload-requests/"+id).at("data.viewsCount") == 1.0
	})
}

// TestRacingSenders: of a hundred who send at the same time, as many get
// through as the limit says.
func TestRacingSenders(t *testing.T) {
	t.Parallel()
	const size = 3000
	for name, c := range map[string]struct {
		fields map[string]any
		want   int
		code   string
	}{
		"count":  {map[string]any{"maxUploads": 7}, 7, "limit_reached"},
		"bytes":  {map[string]any{"maxTotalSize": 7*size + size/2}, 7, "limit_reached"},
		"exact":  {map[string]any{"maxTotalSize": 7 * size}, 7, "limit_reached"},
		"sender": {map[string]any{"perUserUploadLimit": 7}, 7, "sender_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			id, slug := a.ask(c.fields)
			var all sync.WaitGroup
			answers := make([]*answer, 100)
			for i := range answers {
				all.Go(func() {
					for { // who is told to wait comes again
						answers[i] = a.leave(slug, nil, nil, file{"a.bin", "", fmt.Sprintf("%0*d", size, i)})
						if answers[i].status != http.StatusServiceUnavailable {
							return
						}
					}
				})
			}
			all.Wait()
			won := 0
			for _, g := range answers {
				if g.status == 201 {
					won++
					continue
				}
				is.Equal(g.text("code"), c.code)
			}
			is.Equal(won, c.want)
			is.Equal(a.get("/api/v1/upload-requests/"+id).at("data.pendingCount"), float64(c.want))
			if c.code == "sender_limit" {
				is.True(a.leave(slug, nil, nil, file{"a", "", "x"}).want(429).header.Get("Retry-After") != "")
			}
		})
	}
}

// half begins a transfer to an upload link and returns once it has its place.
// How long its body is says a header.
func (a *app) half(slug, length string) net.Conn {
	a.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
	a.fatal(err)
	_, err = fmt.Fprintf(conn, "POST /api/v1/upload-requests/p/%s/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nExpect: 100-continue\r\n%s\r\n\r\n", slug, length)
	a.fatal(err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	a.fatal(err)
	if !strings.Contains(line, " 100 ") { // which comes when the body is read
		a.Fatal(line)
	}
	return conn
}

// TestBrokenTransfers: whatever breaks off or is refused gives its place back
// and leaves nothing.
func TestBrokenTransfers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(map[string]any{"maxUploads": 1, "maxTotalSize": 200_000, "perUserUploadLimit": 1, "maxFileSize": 150_000})
	const head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
	for range 3 {
		conn := a.half(slug, "Content-Length: 190000")
		_, err := fmt.Fprint(conn, head+"abc")
		is.NoErr(err)
		// What is too large in any case tells whether there is a place: 403 if
		// not, which is found first.
		large := file{"b.txt", "", strings.Repeat("x", 150_001)}
		a.leave(slug, nil, nil, large).want(403) // its place is taken while it sends
		is.NoErr(conn.Close())
		eventually(t, "the place is not given back", func() bool { return a.leave(slug, nil, nil, large).status == 413 })
	}
	for _, body := range []string{"", head, head + "abc", "--b\r\n" + strings.Repeat("x", 100_000), head + "x\r\n--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ny\r\n--b--"} {
		g := a.do(apiRequest{
			method: "POST", path: "/api/v1/upload-requests/p/" + slug + "/files", anyone: true, raw: true, body: strings.NewReader(body),
			header: http.Header{"Content-Type": {"multipart/form-data; boundary=b"}},
		})
		is.True(g.status == 400 || g.status == 403 && strings.Contains(body, "y\r\n"))
	}
	a.do(apiRequest{method: "POST", path: "/api/v1/upload-requests/p/" + slug + "/files", anyone: true, raw: true, json: `{}`}).want(415)
	a.leave(slug, nil, nil, file{"b.txt", "", strings.Repeat("x", 150_000)}).want(201) // there is all the room there was
	is.Equal(a.get("/api/v1/upload-requests/queue").want(200).at("total"), 1.0)
	n := 0
	for _, err := range a.server.Blobs.All() {
		is.NoErr(err)
		n++
	}
	is.Equal(n, 1)
}

// TestUploadLinkFullDisk: nothing is read that the disk has no room for, beside
// what it is to have of uploads that have been begun.
func TestUploadLinkFullDisk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(nil)
	try := func(length int64) string {
		conn, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
		is.NoErr(err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /api/v1/upload-requests/p/%s/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", slug, length)
		is.NoErr(err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		is.NoErr(err)
		return strings.Fields(line)[1]
	}
	is.Equal(try(1<<60), "507")
	is.Equal(try(1<<20), "100")
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		_, err := inbox.AddUpload(tx, inbox.Upload{Owner: a.user.ID, Length: 1 << 52})
		return err
	}))
	is.Equal(try(1<<20), "507")
}

// solve works out a challenge as a widget does.
func (a *app) solve() string {
	a.Helper()
	c := a.visit("/api/v1/captcha/challenge").want(200)
	salt, want := c.text("salt"), c.text("challenge")
	for n := range captcha.PowMax + 1 {
		if sum := sha256.Sum256([]byte(salt + strconv.Itoa(n))); hex.EncodeToString(sum[:]) == want {
			b, err := json.Marshal(map[string]any{"algorithm": "SHA-256", "challenge": want, "number": n, "salt": salt, "signature": c.text("signature"), "took": 12})
			a.fatal(err)
			return base64.StdEncoding.EncodeToString(b)
		}
	}
	a.Fatal("the challenge has no solution")
	return ""
}

func TestProofOfWork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(map[string]any{"requiresCaptcha": true})
	try := func(name, value string) *answer {
		return a.leave(slug, http.Header{name: {value}}, nil, file{"a", "", "x"})
	}
	token := a.solve()
	try("X-Captcha-Token", token).want(201)
	is.Equal(a.codeOf(try("X-Captcha-Token", token), 400), "captcha_required") // once
	verify := func(token string) *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/captcha/verify", anyone: true, json: map[string]any{"token": token}})
	}
	is.Equal(a.codeOf(verify(token), 400), "captcha_required")
	got := verify(a.solve()).want(200)
	pass := got.text("pass")
	is.Equal(got.at("ok"), true)
	for range 3 {
		try("X-Captcha-Pass", pass).want(201)
	}
	is.Equal(a.codeOf(try("X-Captcha-Pass", pass+"A"), 400), "captcha_required")
	is.True(a.server.Challenges.Passes(pass, netip.MustParseAddr("127.0.0.1"), a.clock.now()))
	is.True(!a.server.Challenges.Passes(pass, netip.MustParseAddr("127.0.0.2"), a.clock.now()))
	late := a.solve()
	a.clock.advance(captcha.PowTime)
	is.Equal(a.codeOf(verify(late), 400), "captcha_required")
	is.Equal(a.codeOf(try("X-Captcha-Pass", pass), 400), "captcha_required")

	// What was tampered with.
	plain, err := base64.StdEncoding.DecodeString(a.solve())
	is.NoErr(err)
	for _, change := range [][2]string{
		{`"SHA-256"`, `"SHA-1"`},
		{`"number":`, `"number":-`},
		{`"signature":"`, `"signature":"0`},
		{`?expires=`, `?expires=9`},
		{`"salt":"`, `"salt":"0`},
	} {
		bad := strings.Replace(string(plain), change[0], change[1], 1)
		is.True(bad != string(plain))
		verify(base64.StdEncoding.EncodeToString([]byte(bad))).want(400)
	}
	verify(base64.StdEncoding.EncodeToString(plain)).want(200)
	verify("no").want(400)

	// No captcha on this instance: nothing is asked for.
	a.patch("/api/v1/admin/settings", map[string]any{"captchaProvider": "none"}).want(200)
	a.leave(slug, nil, nil, file{"a", "", "x"}).want(201)
	is.Equal(a.visit("/api/v1/upload-requests/p/"+slug).want(200).at("captcha"), nil)
	a.visit("/api/v1/captcha/challenge").want(404)
}

// TestSpentChallengesAreBounded: what is remembered of solved challenges does
// not grow without end, and nothing is taken that could not be remembered.
func TestSpentChallengesAreBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	p := a.server.Challenges
	for i := range captcha.MaxSpent {
		p.Spent[sha256.Sum256([]byte(strconv.Itoa(i)))] = a.clock.now().Add(time.Minute)
	}
	token := a.solve()
	var e *record.Error
	is.True(errors.As(p.Solved(token, a.clock.now()), &e) && e.Fault == record.Busy)
	is.NoErr(p.Solved(token, a.clock.now().Add(2*time.Minute)))
	is.Equal(len(p.Spent), 1)
}

// TestCaptchaProvider holds the providers' verification against a server that
// behaves in every way.
func TestCaptchaProvider(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var replies atomic.Pointer[http.HandlerFunc]
	how := func(h http.HandlerFunc) { replies.Store(&h) }
	var asked atomic.Pointer[url.Values]
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := r.ParseForm()
		asked.Store(&r.PostForm)
		if a == nil {
			(*replies.Load())(w, r)
		}
	}))
	defer provider.Close()
	gone, stop := context.WithCancel(t.Context())
	a := start(t)
	a.server.Challenges.Wait = 500 * time.Millisecond
	set := func(fields map[string]any) *answer { return a.patch("/api/v1/admin/settings", fields) }
	set(map[string]any{"captchaProvider": "turnstile"}).want(422) // without its keys
	got := set(map[string]any{"captchaProvider": "turnstile", "captchaSiteKey": "site", "captchaSecret": "hush", "captchaVerifyUrl": provider.URL + "/siteverify"}).want(200)
	is.Equal(got.at("data.hasCaptchaSecret"), true)
	is.True(!bytes.Contains(got.body, []byte("hush")))
	is.True(!bytes.Contains(a.get("/api/v1/admin/settings").want(200).body, []byte("hush")))
	_, slug := a.ask(map[string]any{"requiresCaptcha": true})
	is.Equal(a.visit("/api/v1/upload-requests/p/"+slug).want(200).at("captcha.siteKey"), "site")
	is.True(strings.Contains(a.visit("/up/"+slug).want(200).header.Get("Content-Security-Policy"), "challenges.cloudflare.com"))
	try := func() *answer {
		return a.leave(slug, http.Header{"X-Captcha-Token": {"tok"}}, nil, file{"a", "", "x"})
	}
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	how(says(200, `{"success":true,"hostname":"x"}`))
	try().want(201)
	is.Equal(*asked.Load(), url.Values{"secret": {"hush"}, "response": {"tok"}, "remoteip": {"127.0.0.1"}})
	pass := a.do(apiRequest{method: "POST", path: "/api/v1/captcha/verify", anyone: true, json: map[string]any{"token": "tok"}}).want(200).text("pass")
	how(says(200, `{"success":false,"error-codes":["timeout-or-duplicate"]}`))
	is.Equal(a.codeOf(try(), 400), "captcha_required")
	a.leave(slug, http.Header{"X-Captcha-Pass": {pass}}, nil, file{"a", "", "x"}).want(201)
	for name, bad := range map[string]http.HandlerFunc{
		"garbage": says(200, "<html>"), "nothing": says(200, ""), "another shape": says(200, `{"ok":true}`), "no boolean": says(200, `{"success":"true"}`),
		"an error": says(500, `{"success":true}`),
		"a bomb":   says(200, `{"success":true,"x":"`+strings.Repeat("x", 2*captcha.VerifyBytes)+`"}`),
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, provider.URL+"/elsewhere", http.StatusTemporaryRedirect)
		},
		"silence": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-gone.Done():
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			how(bad)
			g := try().want(503)
			is.Equal(g.text("code"), "captcha_unavailable")
			is.True(g.header.Get("Retry-After") != "")
		})
	}
	stop()
	provider.Close()
	try().want(503)
	is.True(!strings.Contains(a.log.String(), "hush"))
}

// TestConfiguredCaptcha: what the server was started with holds until an
// administrator says otherwise.
func TestConfiguredCaptcha(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) {
		c.Captcha = captcha.Config{Provider: people.CaptchaHCaptcha, SiteKey: "site", Secret: "hush", VerifyURL: "http://127.0.0.1:1/"}
	})
	_, slug := a.ask(map[string]any{"requiresCaptcha": true})
	provider := func() any { return a.visit("/api/v1/upload-requests/p/" + slug).want(200).at("captcha") }
	is.Equal(provider(), map[string]any{"provider": "hcaptcha", "siteKey": "site"})
	a.visit("/api/v1/captcha/challenge").want(404)
	is.Equal(a.leave(slug, http.Header{"X-Captcha-Token": {"tok"}}, nil, file{"a", "", "x"}).want(503).text("code"), "captcha_unavailable")
	set := a.get("/api/v1/admin/settings").want(200)
	is.Equal(set.at("data.captchaProvider"), nil)
	is.Equal(set.at("data.hasCaptchaSecret"), false)
	a.patch("/api/v1/admin/settings", map[string]any{"captchaProvider": "none"}).want(200)
	is.Equal(provider(), nil)
	a.patch("/api/v1/admin/settings", map[string]any{"captchaProvider": nil}).want(200)
	is.Equal(provider().(map[string]any)["provider"], "hcaptcha")
}

// TestMessageBounds: line ends are counted as people count them, not as
// browsers send them.
func TestMessageBounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	id, slug := a.ask(nil)
	lines := strings.Repeat("é\r\n", inbox.MaxMessage/2)
	a.leave(slug, nil, map[string]string{"message": lines}, file{"a", "", "x"}).want(201)
	is.Equal(a.get("/api/v1/upload-requests/"+id+"/queue").text("items.0.message"), strings.ReplaceAll(lines, "\r", ""))
	for _, bad := range []map[string]string{
		{"message": strings.Repeat("é", inbox.MaxMessage+1)}, {"message": "a\x00b"}, {"message": "\xff"}, {"name": "a\x00"}, {"name": strings.Repeat("é", inbox.MaxSenderName+1)},
	} {
		g := a.leave(slug, nil, bad, file{"a", "", "x"})
		is.Equal(g.status, 422)
	}
	is.Equal(a.get("/api/v1/upload-requests/"+id+"/queue").at("total"), 1.0)
}

// TestPromisesAreNoLargerThanFiles: who says nothing of a body's length, or
// lies, is promised what so many files can be, not all that there is.
func TestPromisesAreNoLargerThanFiles(t *testing.T) {
	t.Parallel()
	a := start(t)
	_, slug := a.ask(map[string]any{"maxTotalSize": 250 * upload.MaxParts, "maxFileSize": 100})
	conn := a.half(slug, "Transfer-Encoding: chunked")
	defer conn.Close()
	a.leave(slug, nil, nil, file{"b", "", "y"}).want(201)
}

// TestStalledSender: a sender whose bytes do not come keeps little from the others, whatever length
// was announced. A longer form gets its place as its bytes come.
func TestStalledSender(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	const room = 10 << 20
	_, slug := a.ask(map[string]any{"maxTotalSize": room})
	chunked := func(size int) *answer {
		q := a.uploadRequest(nil, file{"a", "", strings.Repeat("x", size)})
		q.path, q.anyone, q.raw = "/api/v1/upload-requests/p/"+slug+"/files", true, true
		q.body = io.MultiReader(q.body) // of an unknown length
		return a.do(q)
	}
	one, two := a.half(slug, "Transfer-Encoding: chunked"), a.half(slug, fmt.Sprint("Content-Length: ", room))
	defer one.Close()
	defer two.Close()
	a.leave(slug, nil, nil, file{"b", "", strings.Repeat("y", 2<<20)}).want(201)
	chunked(3 << 20).want(201)
	is.NoErr(errors.Join(one.Close(), two.Close()))
	is.Equal(a.codeOf(chunked(5<<20+1), 403), "limit_reached")
	is.Equal(a.codeOf(a.leave(slug, nil, nil, file{"b", "", strings.Repeat("y", 6<<20)}), 403), "limit_reached")
	a.leave(slug, nil, nil, file{"c", "", strings.Repeat("y", 1<<20-100)}, file{"d", "", strings.Repeat("y", 300)}).want(201)
	chunked(4<<20 - 200).want(201) // no place was lost
}

// TestSendersBehindProxies: a sender is an address, or the /64 of one, as a
// proxy that is trusted says and nobody else.
func TestSendersBehindProxies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for trusted, want := range map[bool][]int{true: {201, 429, 429, 201, 201}, false: {201, 429, 429, 429, 429}} {
		a := start(t, func(c *web.Config) {
			if trusted {
				c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		_, slug := a.ask(map[string]any{"perUserUploadLimit": 1})
		var got []int
		for _, from := range []string{"2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:9::1, 2001:db8:0:1::3", "2001:db8:0:2::1", "::ffff:192.0.2.1"} {
			got = append(got, a.leave(slug, http.Header{"X-Forwarded-For": {from}}, nil, file{"a", "", "x"}).status)
		}
		is.Equal(got, want)
	}
}

// TestRequestSlugsAreNotTriedOut: the links of upload requests are shared
// addresses like all others.
func TestRequestSlugsAreNotTriedOut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(nil)
	for i := range limit.MaxMisses {
		switch i % 3 {
		case 0:
			a.visit(fmt.Sprintf("/up/guess%d", i)).want(404)
		case 1:
			a.visit(fmt.Sprintf("/api/v1/upload-requests/p/guess%d", i)).want(404)
		default:
			a.leave(fmt.Sprintf("guess%d", i), nil, nil, file{"a", "", "x"}).want(404)
		}
	}
	for _, g := range []*answer{a.visit("/up/" + slug), a.visit("/api/v1/upload-requests/p/" + slug), a.leave(slug, nil, nil, file{"a", "", "x"})} {
		is.Equal(g.status, 429)
		is.True(g.header.Get("Retry-After") != "")
	}
	a.get("/up/" + slug).want(200) // who is known may look
	a.clock.advance(limit.MissWindow)
	a.visit("/up/" + slug).want(200)
}
