package upload_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
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

	"kist/httpapi/apitest"
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

// Who would rather have text is told in a sentence.
func TestLeavePlainly(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for approval, became := range map[bool]string{true: " is waiting for approval.\n", false: " was received.\n"} {
		slug := a.Post(
			"/api/v1/upload-requests",
			map[string]any{"title": "In", "requiresApproval": approval, "allowedTypes": []string{".txt"}},
		).Want(201).Text("data.slug")
		plainly := http.Header{"Accept": {"text/plain"}}
		got := a.Leave(slug, plainly, nil, apitest.File("a.txt", "", "aaa"), apitest.File("../b c.txt", "", "bbb")).Want(201)
		is.Equal(apitest.MediaOf(got.Header), "text/plain")
		is.Equal(string(got.Body), "a.txt"+became+"b c.txt"+became)
		is.Equal(
			string(a.Leave(slug, plainly, nil, apitest.File("a.png", "", "aaa")).Want(415).Body),
			"This link accepts only .txt. Nothing was stored.\n",
		)
		is.Equal(
			a.Leave(
				slug, http.Header{"Accept": {"*/*"}}, nil, apitest.File("c.txt", "", "ccc"),
			).Want(201).Text("items.0.fileName"),
			"c.txt",
		)
	}
}

func TestUploadRequests(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	made := a.Post("/api/v1/upload-requests", map[string]any{
		"title": "Photos", "slug": "wedding", "maxUploads": 0, "maxFileSize": nil, "maxTotalSize": 1000, "password": "sesame",
		"allowedTypes": []string{"IMAGE/*", ".txt"}, "brandColor": "#abc",
	}).Want(201)
	id := made.Text("data.id")
	is.Equal(made.At("data.url"), "https://kist.example.org/up/wedding")
	is.Equal(made.At("data.isActive"), true)
	is.Equal(made.At("data.requiresApproval"), true)
	is.Equal(made.At("data.perUserWindowHours"), 24.0)
	is.Equal(made.At("data.maxUploads"), nil)
	is.Equal(made.At("data.maxTotalSize"), 1000.0)
	is.Equal(made.At("data.brandColor"), "#AABBCC")
	is.Equal(made.At("data.hasPassword"), true)
	is.Equal(made.At("data.uploadsCount"), 0.0)

	// What is not named stays; null clears.
	at := "/api/v1/upload-requests/" + id
	edited := a.Patch(at, map[string]any{"description": "please", "maxTotalSize": nil, "slug": nil}).Want(200)
	is.Equal(edited.At("data.slug"), "wedding")
	is.Equal(edited.At("data.description"), "please")
	is.Equal(edited.At("data.maxTotalSize"), nil)
	is.Equal(edited.At("data.hasPassword"), true)
	is.Equal(a.Patch(at, map[string]any{"password": ""}).Want(200).At("data.hasPassword"), false)
	is.Equal(a.Get(at).Want(200).At("data.allowedTypes.1"), ".txt")
	is.Equal(a.Get("/api/v1/upload-requests").Want(200).At("total"), 1.0)

	// One namespace of slugs.
	is.Equal(a.CodeOf(a.Post("/api/v1/notes", map[string]any{"content": "x", "slug": "wedding"}), 409), "slug_taken")
	is.Equal(
		a.CodeOf(a.Post("/api/v1/upload-requests", map[string]any{"title": "x", "slug": "wedding"}), 409), "slug_taken",
	)
	is.Equal(a.Visit("/wedding").Want(303).Header.Get("Location"), "/up/wedding")
	a.Post("/api/v1/notes", map[string]any{"content": "x", "slug": "note-1"}).Want(201)
	is.Equal(a.CodeOf(a.Patch(at, map[string]any{"slug": "note-1"}), 409), "slug_taken")

	for _, bad := range []map[string]any{
		{},
		{"title": " "},
		{"title": "x", "slug": "up"},
		{"title": "x", "maxUploads": -1},
		{"title": "x", "allowedTypes": []string{"*"}},
		{"title": "x", "expiresAt": "2001-01-01T00:00:00Z"},
	} {
		a.Do(apitest.Request{Method: "POST", Path: "/api/v1/upload-requests", JSON: bad, Raw: true}).Want(422)
	}

	// Another's are not there.
	bob := a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll)
	for _, q := range []apitest.Request{
		{Method: "GET", Path: at},
		{Method: "PATCH", Path: at, JSON: map[string]any{"title": "mine"}},
		{Method: "DELETE", Path: at},
		{Method: "GET", Path: at + "/queue"},
		{Method: "GET", Path: "/api/v1/upload-requests/nothing"},
	} {
		q.Key = bob
		a.Do(q).Want(404)
	}
	is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/api/v1/upload-requests", Key: bob}).Want(200).At("total"), 0.0)

	a.Delete(at).Want(200)
	a.Delete(at).Want(404)
	a.Visit("/up/wedding").Want(404)
}

func TestUploadLink(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id, slug := a.Ask(map[string]any{
		"description": "please", "maxUploads": 3, "maxFileSize": 100, "allowedTypes": []string{"text/plain", ".bin"},
		"folderName": "In",
	})
	public := "/api/v1/upload-requests/p/" + slug
	got := a.Visit(public).Want(200)
	is.Equal(got.At("owner.displayName"), "ann")
	is.Equal(got.At("authorized"), true)
	is.Equal(got.At("limits.maxFileSize"), 100.0)
	is.Equal(got.At("limits.remainingUploads"), 3.0)
	is.Equal(got.At("captcha"), nil)
	a.Visit("/api/v1/upload-requests/p/nothing").Want(404)

	// A stranger can set the file, a name and a message, and learns five things.
	left := a.Leave(slug, nil, map[string]string{
		"name": "Bob", "message": "hello", "isPublic": "true", "slug": "mine", "folderName": "Out", "status": "approved", "maxViews": "1", "tags": "x",
	}, apitest.File("../a.txt", "text/html", "first"), apitest.File("b.bin", "", "\x00\x01")).Want(201)
	var sent struct{ Items []map[string]any }
	a.NoErr(json.Unmarshal(left.Body, &sent))
	is.Equal(len(sent.Items), 2)
	is.Equal(len(sent.Items[0]), 5)
	is.Equal(left.At("items.0.status"), "pending")
	is.Equal(left.At("items.0.fileName"), "a.txt")
	is.Equal(left.At("items.0.fileSize"), 5.0)

	all := a.Get("/api/v1/upload-requests/queue").Want(200)
	is.Equal(all.At("total"), 2.0)
	is.Equal(all.At("items.0.uploaderName"), "Bob")
	is.Equal(all.At("items.0.message"), "hello")
	is.Equal(all.At("items.0.mimeType"), "text/plain")
	is.Equal(all.At("items.0.decidedAt"), nil)
	is.Equal(all.At("items.0.fileId"), nil)
	is.Equal(all.At("items.0.itemId"), left.At("items.0.itemId"))
	is.Equal(a.Get("/api/v1/files").Want(200).At("total"), 0.0)
	me := a.Get("/api/v1/me").Want(200)
	text := me.At("data.textBytes").(float64)
	is.True(text > float64(2*len("Bob"+"hello")))         // what the sender said counts,
	is.Equal(me.At("data.usedBytes").(float64)-text, 7.0) // and the files

	// The owner looks first, in the sandbox.
	queue := "/api/v1/upload-requests/" + id + "/queue"
	first, second := left.Text("items.0.itemId"), left.Text("items.1.itemId")
	look := a.Get(queue + "/" + first + "/content").Want(200)
	is.Equal(string(look.Body), "first")
	is.True(strings.Contains(look.Header.Get("Content-Security-Policy"), "sandbox"))
	is.Equal(look.Header.Get("Content-Type"), "text/plain; charset=utf-8")
	is.Equal(look.Header.Get("X-Content-Type-Options"), "nosniff")
	is.Equal(look.Header.Get("Cache-Control"), "private, no-store")
	is.Equal(
		string(a.Do(apitest.Request{
			Method: "GET", Path: queue + "/" + first + "/content", Header: http.Header{"Range": {"bytes=1-2"}},
		}).Want(206).Body),
		"ir",
	)
	a.Do(apitest.Request{
		Method: "GET", Path: queue + "/" + first + "/content", Header: http.Header{"Range": {"bytes=99-"}},
	}).Want(416)
	is.True(strings.HasPrefix(
		a.Get(queue+"/"+second+"/content").Want(200).Header.Get("Content-Disposition"), "attachment",
	))
	a.Flip("\x00\x01")
	a.Get(queue + "/" + second + "/content").Want(503)

	// Decisions: once.
	done := a.Patch(queue+"/"+first, map[string]any{"action": "approve", "tags": []string{"new"}}).Want(200)
	is.Equal(done.At("data.status"), "approved")
	file1 := a.Get("/api/v1/files/" + done.Text("data.fileSlug")).Want(200)
	is.Equal(file1.At("data.isPublic"), false)
	is.Equal(file1.At("data.folder.name"), "In")
	is.Equal(file1.At("data.tags.0.name"), "new")
	is.Equal(file1.At("data.id"), done.At("data.fileId"))
	a.Visit("/x/" + done.Text("data.fileSlug")).Want(404)
	for _, action := range []string{"approve", "reject"} {
		is.Equal(a.CodeOf(a.Patch(queue+"/"+first, map[string]any{"action": action}), 409), "already_decided")
	}
	a.Get(queue + "/" + first + "/content").Want(404)
	a.Do(apitest.Request{Method: "PATCH", Path: queue + "/" + second, JSON: `{"action":"keep"}`, Raw: true}).Want(422)
	a.Do(apitest.Request{Method: "PATCH", Path: queue + "/" + second, JSON: `{}`, Raw: true}).Want(422)
	is.Equal(a.Patch(queue+"/"+second, map[string]any{"action": "reject"}).Want(200).At("data.fileSlug"), nil)
	a.Get(queue + "/" + second + "/content").Want(404)
	is.Equal(a.Get(queue+"?status=rejected").Want(200).At("items.0.itemId"), second)
	is.Equal(a.Get(queue+"?status=pending").Want(200).At("total"), 0.0)
	is.Equal(a.Get(queue).Want(200).At("total"), 2.0)
	a.Do(apitest.Request{Method: "GET", Path: queue + "?status=lost", Raw: true}).Want(400)

	// The bytes of what was rejected are free for the sweep; of what was approved they are not.
	view := func(text string) (loose bool) {
		a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
			loose = catalog.Unreferenced(tx, sha256.Sum256([]byte(text)), tx.Now)
			return nil
		}))
		return loose
	}
	is.True(view("\x00\x01"))
	is.True(!view("first"))

	is.Equal(
		a.CodeOf(a.Leave(slug, nil, nil, apitest.File("a.html", "text/plain", "<html><body>")), 415), "type_not_allowed",
	)
	is.Equal(a.CodeOf(a.Leave(slug, nil, nil, apitest.File("a.txt", "", strings.Repeat("x", 101))), 413), "too_large")
	is.Equal(a.CodeOf(a.Leave(slug, nil, map[string]string{"name": "x"}), 422), "invalid_fields")
	is.Equal(
		a.CodeOf(
			a.Leave(slug, nil, map[string]string{"name": strings.Repeat("x", 101)}, apitest.File("a.txt", "", "x")), 422,
		),
		"invalid_fields",
	)
	// one more goes, not two
	is.Equal(
		a.CodeOf(a.Leave(slug, nil, nil, apitest.File("a.txt", "", "1"), apitest.File("b.txt", "", "2")), 403),
		"limit_reached",
	)
	a.Leave(slug, nil, nil, apitest.File("a.txt", "", "1")).Want(201)
	is.Equal(a.CodeOf(a.Leave(slug, nil, nil, apitest.File("a.txt", "", "1")), 403), "limit_reached")
	got = a.Visit(public).Want(200)
	is.Equal(got.At("limits.remainingUploads"), 0.0)
	is.Equal(a.Get("/api/v1/upload-requests/"+id).At("data.uploadsCount"), 3.0)

	// Switched off it is not there, and over it is gone.
	at := "/api/v1/upload-requests/" + id
	a.Patch(at, map[string]any{"maxUploads": nil, "isActive": false}).Want(200)
	a.Visit(public).Want(404)
	a.Leave(slug, nil, nil, apitest.File("a.txt", "", "1")).Want(404)
	a.Patch(
		at, map[string]any{"isActive": true, "expiresAt": a.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)},
	).Want(200)
	a.Visit(public).Want(200)
	a.Clock.Advance(2 * time.Hour)
	a.Visit(public).Want(410)
	a.Visit("/up/" + slug).Want(410)
	a.Leave(slug, nil, nil, apitest.File("a.txt", "", "1")).Want(410)

	// Without approval it is a private file at once.
	_, direct := a.Ask(map[string]any{"requiresApproval": false})
	is.Equal(a.Leave(direct, nil, nil, apitest.File("z.txt", "", "zzz")).Want(201).At("items.0.status"), "approved")
	is.Equal(a.Get("/api/v1/files").Want(200).At("data.0.originalName"), "z.txt")
	is.Equal(a.Get("/api/v1/files").Want(200).At("data.0.isPublic"), false)

	// A disabled account accepts nothing.
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		u, err := people.AddUser(tx, people.User{Name: "other", Role: people.Admin, Quota: -1})
		if err != nil {
			return err
		}
		_ = u
		me, err := people.ReadUser(tx, a.User.ID)
		if err != nil {
			return err
		}
		me.Disabled = true
		return people.SaveUser(tx, me)
	}))
	a.Visit("/api/v1/upload-requests/p/" + direct).Want(404)
	a.Leave(direct, nil, nil, apitest.File("z.txt", "", "zzz")).Want(404)
}

func TestUploadLinkPassword(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(map[string]any{"password": "sesame", "description": "inner", "requiresCaptcha": true})
	public := "/api/v1/upload-requests/p/" + slug
	var told map[string]any
	a.NoErr(json.Unmarshal(a.Visit(public).Want(200).Body, &told))
	is.Equal(len(told), 4) // the title, that there is a password, a captcha, and that it was not given
	is.Equal(told["authorized"], false)
	is.Equal(a.CodeOf(a.Leave(slug, nil, nil, apitest.File("a", "", "x")), 401), "password_required")
	is.Equal(
		a.CodeOf(a.Leave(slug, http.Header{"X-Upload-Password": {"wrong"}}, nil, apitest.File("a", "", "x")), 401),
		"wrong_password",
	)
	a.Visit(public, "X-Upload-Password", "%73esame").Want(200)
	right := a.Visit(public, "X-Upload-Password", "sesame").Want(200)
	is.Equal(right.At("description"), "inner")
	is.Equal(
		right.At("captcha"),
		map[string]any{"provider": "pow", "challengeUrl": "https://kist.example.org/api/v1/captcha/challenge"},
	)
	is.Equal(
		a.CodeOf(a.Leave(slug, http.Header{"X-Upload-Password": {"sesame"}}, nil, apitest.File("a", "", "x")), 400),
		"captcha_required",
	)
	for range limit.GuessesFrom {
		a.Visit(public, "X-Upload-Password", "guess")
	}
	is.Equal(a.CodeOf(a.Visit(public, "X-Upload-Password", "sesame"), 429), "too_many_guesses")
	a.Visit("/api/v1/upload-requests/p/nothing", "X-Upload-Password", "x").Want(404)

	// The page asks by a form, and the cookie is for this link alone.
	a.Clock.Advance(limit.GuessWindow)
	locked := a.Visit("/up/" + slug).Want(401)
	is.True(strings.Contains(string(locked.Body), `action="/up/`+slug+`/unlock"`))
	is.True(!strings.Contains(string(locked.Body), "Photos"))
	unlock := func(password string) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/up/" + slug + "/unlock", Anyone: true, JSON: url.Values{"password": {password}}.Encode(),
			Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		})
	}
	unlock("").Want(401)
	unlock("no").Want(401)
	in := unlock("sesame").Want(303)
	cookie, _, _ := strings.Cut(in.Header.Get("Set-Cookie"), ";")
	page := a.Visit("/up/"+slug, "Cookie", cookie).Want(200)
	is.True(strings.Contains(string(page.Body), "Photos"))
	is.Equal(a.Visit(public, "Cookie", cookie).Want(200).At("authorized"), true)
	_, other := a.Ask(map[string]any{"password": "sesame"})
	a.Visit("/up/"+other, "Cookie", cookie).Want(401)
}

// TestPlainForm: the page works without JavaScript.
func TestPlainForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id, slug := a.Ask(map[string]any{"maxUploads": 1, "brandColor": "#FF0000"})
	page := a.Visit("/up/" + slug).Want(200)
	is.True(strings.Contains(string(page.Body), `fill="#FF0000"`))
	a.Do(apitest.Request{Method: "HEAD", Path: "/up/" + slug, Anyone: true}).Want(200)
	a.Get("/up/" + slug).Want(200) // the owner
	post := func(files ...apitest.Part) *apitest.Answer {
		q := a.UploadRequest(map[string]string{"name": "Bob"}, files...)
		q.Path, q.Anyone = "/up/"+slug, true
		return a.Do(q)
	}
	is.True(strings.Contains(
		string(post(apitest.File("", "application/octet-stream", "")).Want(422).Body), "The file is required",
	))
	is.True(strings.Contains(string(post(apitest.File("<b>.txt", "", "x")).Want(201).Body), "&lt;b&gt;.txt"))
	is.True(strings.Contains(string(post(apitest.File("c.txt", "", "x")).Want(403).Body), "reached its file limit"))
	a.Patch("/api/v1/upload-requests/"+id, map[string]any{"maxUploads": nil, "requiresCaptcha": true}).Want(200)
	is.True(strings.Contains(string(post(apitest.File("c.txt", "", "x")).Want(400).Body), "needs JavaScript"))
	apitest.Eventually(t, "the view of the page is not counted", func() bool { // within a second
		return a.Get("/api/v1/upload-requests/"+id).At("data.viewsCount") == 1.0
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
			a := apitest.Start(t)
			id, slug := a.Ask(c.fields)
			var all sync.WaitGroup
			answers := make([]*apitest.Answer, 100)
			for i := range answers {
				all.Go(func() {
					for { // who is told to wait comes again
						answers[i] = a.Leave(slug, nil, nil, apitest.File("a.bin", "", fmt.Sprintf("%0*d", size, i)))
						if answers[i].Status != http.StatusServiceUnavailable {
							return
						}
					}
				})
			}
			all.Wait()
			won := 0
			for _, g := range answers {
				if g.Status == 201 {
					won++
					continue
				}
				is.Equal(g.Text("code"), c.code)
			}
			is.Equal(won, c.want)
			is.Equal(a.Get("/api/v1/upload-requests/"+id).At("data.pendingCount"), float64(c.want))
			if c.code == "sender_limit" {
				is.True(a.Leave(slug, nil, nil, apitest.File("a", "", "x")).Want(429).Header.Get("Retry-After") != "")
			}
		})
	}
}

// half begins a transfer to an upload link and returns once it has its place.
// How long its body is says a header.
func half(a *apitest.App, slug, length string) net.Conn {
	a.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
	a.NoErr(err)
	_, err = fmt.Fprintf(
		conn,
		"POST /api/v1/upload-requests/p/%s/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "+
			"boundary=b\r\nExpect: 100-continue\r\n%s\r\n\r\n",
		slug, length,
	)
	a.NoErr(err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	a.NoErr(err)
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
	a := apitest.Start(t)
	_, slug := a.Ask(map[string]any{
		"maxUploads": 1, "maxTotalSize": 200_000, "perUserUploadLimit": 1, "maxFileSize": 150_000,
	})
	const head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
	for range 3 {
		conn := half(a, slug, "Content-Length: 190000")
		_, err := fmt.Fprint(conn, head+"abc")
		is.NoErr(err)
		// What is too large in any case tells whether there is a place: 403 if
		// not, which is found first.
		large := apitest.File("b.txt", "", strings.Repeat("x", 150_001))
		a.Leave(slug, nil, nil, large).Want(403) // its place is taken while it sends
		is.NoErr(conn.Close())
		apitest.Eventually(t, "the place is not given back", func() bool {
			return a.Leave(slug, nil, nil, large).Status == 413
		})
	}
	for _, body := range []string{
		"", head, head + "abc", "--b\r\n" + strings.Repeat("x", 100_000),
		head + "x\r\n--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\ny\r\n--b--",
	} {
		g := a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/upload-requests/p/" + slug + "/files", Anyone: true, Raw: true, Body: strings.NewReader(body),
			Header: http.Header{"Content-Type": {"multipart/form-data; boundary=b"}},
		})
		is.True(g.Status == 400 || g.Status == 403 && strings.Contains(body, "y\r\n"))
	}
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/upload-requests/p/" + slug + "/files", Anyone: true, Raw: true, JSON: `{}`,
	}).Want(415)
	// there is all the room there was
	a.Leave(slug, nil, nil, apitest.File("b.txt", "", strings.Repeat("x", 150_000))).Want(201)
	is.Equal(a.Get("/api/v1/upload-requests/queue").Want(200).At("total"), 1.0)
	n := 0
	for _, err := range a.Server.Blobs.All() {
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
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	try := func(length int64) string {
		conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
		is.NoErr(err)
		defer conn.Close()
		_, err = fmt.Fprintf(
			conn,
			"POST /api/v1/upload-requests/p/%s/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "+
				"boundary=b\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
			slug, length,
		)
		is.NoErr(err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		is.NoErr(err)
		return strings.Fields(line)[1]
	}
	is.Equal(try(1<<60), "507")
	is.Equal(try(1<<20), "100")
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
		_, err := inbox.AddUpload(tx, inbox.Upload{Owner: a.User.ID, Length: 1 << 52})
		return err
	}))
	is.Equal(try(1<<20), "507")
}

func TestProofOfWork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(map[string]any{"requiresCaptcha": true})
	try := func(name, value string) *apitest.Answer {
		return a.Leave(slug, http.Header{name: {value}}, nil, apitest.File("a", "", "x"))
	}
	token := a.Solve()
	try("X-Captcha-Token", token).Want(201)
	is.Equal(a.CodeOf(try("X-Captcha-Token", token), 400), "captcha_required") // once
	verify := func(token string) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/captcha/verify", Anyone: true, JSON: map[string]any{"token": token},
		})
	}
	is.Equal(a.CodeOf(verify(token), 400), "captcha_required")
	got := verify(a.Solve()).Want(200)
	pass := got.Text("pass")
	is.Equal(got.At("ok"), true)
	for range 3 {
		try("X-Captcha-Pass", pass).Want(201)
	}
	is.Equal(a.CodeOf(try("X-Captcha-Pass", pass+"A"), 400), "captcha_required")
	is.True(a.Server.Challenges.Passes(pass, netip.MustParseAddr("127.0.0.1"), a.Clock.Now()))
	is.True(!a.Server.Challenges.Passes(pass, netip.MustParseAddr("127.0.0.2"), a.Clock.Now()))
	late := a.Solve()
	a.Clock.Advance(captcha.PowTime)
	is.Equal(a.CodeOf(verify(late), 400), "captcha_required")
	is.Equal(a.CodeOf(try("X-Captcha-Pass", pass), 400), "captcha_required")

	// What was tampered with.
	plain, err := base64.StdEncoding.DecodeString(a.Solve())
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
		verify(base64.StdEncoding.EncodeToString([]byte(bad))).Want(400)
	}
	verify(base64.StdEncoding.EncodeToString(plain)).Want(200)
	verify("no").Want(400)

	// No captcha on this instance: nothing is asked for.
	a.Patch("/api/v1/admin/settings", map[string]any{"captchaProvider": "none"}).Want(200)
	a.Leave(slug, nil, nil, apitest.File("a", "", "x")).Want(201)
	is.Equal(a.Visit("/api/v1/upload-requests/p/"+slug).Want(200).At("captcha"), nil)
	a.Visit("/api/v1/captcha/challenge").Want(404)
}

// TestSpentChallengesAreBounded: what is remembered of solved challenges does
// not grow without end, and nothing is taken that could not be remembered.
func TestSpentChallengesAreBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	p := a.Server.Challenges
	for i := range captcha.MaxSpent {
		p.Spent[sha256.Sum256([]byte(strconv.Itoa(i)))] = a.Clock.Now().Add(time.Minute)
	}
	token := a.Solve()
	var e *record.Error
	is.True(errors.As(p.Solved(token, a.Clock.Now()), &e) && e.Fault == record.Busy)
	is.NoErr(p.Solved(token, a.Clock.Now().Add(2*time.Minute)))
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
	a := apitest.Start(t)
	a.Server.Challenges.Wait = 500 * time.Millisecond
	set := func(fields map[string]any) *apitest.Answer { return a.Patch("/api/v1/admin/settings", fields) }
	set(map[string]any{"captchaProvider": "turnstile"}).Want(422) // without its keys
	got := set(map[string]any{
		"captchaProvider": "turnstile", "captchaSiteKey": "site", "captchaSecret": "hush",
		"captchaVerifyUrl": provider.URL + "/siteverify",
	}).Want(200)
	is.Equal(got.At("data.hasCaptchaSecret"), true)
	is.True(!bytes.Contains(got.Body, []byte("hush")))
	is.True(!bytes.Contains(a.Get("/api/v1/admin/settings").Want(200).Body, []byte("hush")))
	_, slug := a.Ask(map[string]any{"requiresCaptcha": true})
	is.Equal(a.Visit("/api/v1/upload-requests/p/"+slug).Want(200).At("captcha.siteKey"), "site")
	is.True(strings.Contains(
		a.Visit("/up/"+slug).Want(200).Header.Get("Content-Security-Policy"), "challenges.cloudflare.com",
	))
	try := func() *apitest.Answer {
		return a.Leave(slug, http.Header{"X-Captcha-Token": {"tok"}}, nil, apitest.File("a", "", "x"))
	}
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	how(says(200, `{"success":true,"hostname":"x"}`))
	try().Want(201)
	is.Equal(*asked.Load(), url.Values{"secret": {"hush"}, "response": {"tok"}, "remoteip": {"127.0.0.1"}})
	pass := a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/captcha/verify", Anyone: true, JSON: map[string]any{"token": "tok"},
	}).Want(200).Text("pass")
	how(says(200, `{"success":false,"error-codes":["timeout-or-duplicate"]}`))
	is.Equal(a.CodeOf(try(), 400), "captcha_required")
	a.Leave(slug, http.Header{"X-Captcha-Pass": {pass}}, nil, apitest.File("a", "", "x")).Want(201)
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
			g := try().Want(503)
			is.Equal(g.Text("code"), "captcha_unavailable")
			is.True(g.Header.Get("Retry-After") != "")
		})
	}
	stop()
	provider.Close()
	try().Want(503)
	is.True(!strings.Contains(a.Logged.String(), "hush"))
}

// TestConfiguredCaptcha: what the server was started with holds until an
// administrator says otherwise.
func TestConfiguredCaptcha(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) {
		c.Captcha = captcha.Config{
			Provider: people.CaptchaHCaptcha, SiteKey: "site", Secret: "hush", VerifyURL: "http://127.0.0.1:1/",
		}
	})
	_, slug := a.Ask(map[string]any{"requiresCaptcha": true})
	provider := func() any { return a.Visit("/api/v1/upload-requests/p/" + slug).Want(200).At("captcha") }
	is.Equal(provider(), map[string]any{"provider": "hcaptcha", "siteKey": "site"})
	a.Visit("/api/v1/captcha/challenge").Want(404)
	is.Equal(
		a.Leave(slug, http.Header{"X-Captcha-Token": {"tok"}}, nil, apitest.File("a", "", "x")).Want(503).Text("code"),
		"captcha_unavailable",
	)
	set := a.Get("/api/v1/admin/settings").Want(200)
	is.Equal(set.At("data.captchaProvider"), nil)
	is.Equal(set.At("data.hasCaptchaSecret"), false)
	a.Patch("/api/v1/admin/settings", map[string]any{"captchaProvider": "none"}).Want(200)
	is.Equal(provider(), nil)
	a.Patch("/api/v1/admin/settings", map[string]any{"captchaProvider": nil}).Want(200)
	is.Equal(provider().(map[string]any)["provider"], "hcaptcha")
}

// TestMessageBounds: line ends are counted as people count them, not as
// browsers send them.
func TestMessageBounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id, slug := a.Ask(nil)
	lines := strings.Repeat("é\r\n", inbox.MaxMessage/2)
	a.Leave(slug, nil, map[string]string{"message": lines}, apitest.File("a", "", "x")).Want(201)
	is.Equal(a.Get("/api/v1/upload-requests/"+id+"/queue").Text("items.0.message"), strings.ReplaceAll(lines, "\r", ""))
	for _, bad := range []map[string]string{
		{
			"message": strings.Repeat("é", inbox.MaxMessage+1),
		}, {"message": "a\x00b"}, {"message": "\xff"}, {"name": "a\x00"}, {
			"name": strings.Repeat("é", inbox.MaxSenderName+1),
		},
	} {
		g := a.Leave(slug, nil, bad, apitest.File("a", "", "x"))
		is.Equal(g.Status, 422)
	}
	is.Equal(a.Get("/api/v1/upload-requests/"+id+"/queue").At("total"), 1.0)
}

// TestPromisesAreNoLargerThanFiles: who says nothing of a body's length, or
// lies, is promised what so many files can be, not all that there is.
func TestPromisesAreNoLargerThanFiles(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	_, slug := a.Ask(map[string]any{"maxTotalSize": 250 * upload.MaxFiles, "maxFileSize": 100})
	conn := half(a, slug, "Transfer-Encoding: chunked")
	defer conn.Close()
	a.Leave(slug, nil, nil, apitest.File("b", "", "y")).Want(201)
}

// TestStalledSender: a sender whose bytes do not come keeps little from the others, whatever length
// was announced. A longer form gets its place as its bytes come.
func TestStalledSender(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const room = 10 << 20
	_, slug := a.Ask(map[string]any{"maxTotalSize": room})
	chunked := func(size int) *apitest.Answer {
		q := a.UploadRequest(nil, apitest.File("a", "", strings.Repeat("x", size)))
		q.Path, q.Anyone, q.Raw = "/api/v1/upload-requests/p/"+slug+"/files", true, true
		q.Body = io.MultiReader(q.Body) // of an unknown length
		return a.Do(q)
	}
	one, two := half(a, slug, "Transfer-Encoding: chunked"), half(a, slug, fmt.Sprint("Content-Length: ", room))
	defer one.Close()
	defer two.Close()
	a.Leave(slug, nil, nil, apitest.File("b", "", strings.Repeat("y", 2<<20))).Want(201)
	chunked(3 << 20).Want(201)
	is.NoErr(errors.Join(one.Close(), two.Close()))
	is.Equal(a.CodeOf(chunked(5<<20+1), 403), "limit_reached")
	is.Equal(a.CodeOf(a.Leave(slug, nil, nil, apitest.File("b", "", strings.Repeat("y", 6<<20))), 403), "limit_reached")
	a.Leave(
		slug, nil, nil, apitest.File("c", "", strings.Repeat("y", 1<<20-100)),
		apitest.File("d", "", strings.Repeat("y", 300)),
	).Want(201)
	chunked(4<<20 - 200).Want(201) // no place was lost
}

// TestSendersBehindProxies: a sender is an address, or the /64 of one, as a
// proxy that is trusted says and nobody else.
func TestSendersBehindProxies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for trusted, want := range map[bool][]int{true: {201, 429, 429, 201, 201}, false: {201, 429, 429, 429, 429}} {
		a := apitest.Start(t, func(c *web.Config) {
			if trusted {
				c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		_, slug := a.Ask(map[string]any{"perUserUploadLimit": 1})
		var got []int
		for _, from := range []string{
			"2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:9::1, 2001:db8:0:1::3", "2001:db8:0:2::1", "::ffff:192.0.2.1",
		} {
			got = append(got, a.Leave(slug, http.Header{"X-Forwarded-For": {from}}, nil, apitest.File("a", "", "x")).Status)
		}
		is.Equal(got, want)
	}
}

// TestRequestSlugsAreNotTriedOut: the links of upload requests are shared
// addresses like all others.
func TestRequestSlugsAreNotTriedOut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	for i := range limit.MaxMisses {
		switch i % 3 {
		case 0:
			a.Visit(fmt.Sprintf("/up/guess%d", i)).Want(404)
		case 1:
			a.Visit(fmt.Sprintf("/api/v1/upload-requests/p/guess%d", i)).Want(404)
		default:
			a.Leave(fmt.Sprintf("guess%d", i), nil, nil, apitest.File("a", "", "x")).Want(404)
		}
	}
	for _, g := range []*apitest.Answer{
		a.Visit("/up/" + slug), a.Visit("/api/v1/upload-requests/p/" + slug),
		a.Leave(slug, nil, nil, apitest.File("a", "", "x")),
	} {
		is.Equal(g.Status, 429)
		is.True(g.Header.Get("Retry-After") != "")
	}
	a.Get("/up/" + slug).Want(200) // who is known may look
	a.Clock.Advance(limit.MissWindow)
	a.Visit("/up/" + slug).Want(200)
}
