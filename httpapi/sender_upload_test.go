package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/julienschmidt/httprouter"
	"github.com/matryer/is"

	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/inbox"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

// stranger sends a request of the protocol without a credential.
func (a *app) stranger(method, path, body string, header ...string) *answer {
	a.Helper()
	return a.tusBy(true, method, path, body, header...)
}

// beginSending begins an upload to a link and returns its address.
func (a *app) beginSending(slug string, length int, pairs ...string) string {
	a.Helper()
	return a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", fmt.Sprint(length), "Upload-Metadata", meta(pairs...)).want(201).header.Get("Location")
}

func (a *app) sendPiece(at string, offset int, body string, header ...string) *answer {
	a.Helper()
	return a.stranger("PATCH", at, body, append([]string{"Upload-Offset", fmt.Sprint(offset)}, header...)...)
}

// What is kept of a sender's metadata is short, whatever the sender says.
func TestSenderMetadataIsShort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(nil)
	long := strings.Repeat("x", 5000)
	at := a.beginSending(slug, 1, "filename", long+".txt", "filetype", long, "name", "Bob"+strings.Repeat(" ", 5000), "other", long)
	kept := a.stranger("HEAD", at, "").want(200).header.Get("Upload-Metadata")
	is.Equal(kept, meta("filename", long[:record.MaxFileName-4]+".txt", "name", "Bob"))
}

// TestSending takes an upload to a link from its beginning into the queue.
func TestSending(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	id, slug := a.ask(map[string]any{"maxUploads": 2, "slug": "in"})
	begun := a.stranger("POST", web.RequestsPath+"/p/in/tus", "", "Upload-Length", "11", "Upload-Metadata", meta("filename", "../Sea.txt", "filetype", "text/html", "name", "Bob", "message", "hi\r\nyou", "isPublic", "true", "slug", "mine")).want(201)
	at := begun.header.Get("Location")
	is.True(strings.HasPrefix(at, web.SentPath+"/") && len(at) >= len(web.SentPath)+1+22)
	is.Equal(begun.text("data.filename"), "Sea.txt")
	is.Equal(begun.at("data.id"), nil)
	is.Equal(begun.at("item"), nil)
	ends, err := http.ParseTime(begun.header.Get("Upload-Expires"))
	is.NoErr(err)
	is.True(time.Until(ends) <= 10*time.Minute) // until bytes come

	got := a.sendPiece(at, 0, "hello ").want(204)
	is.Equal(got.header.Get("Upload-Offset"), "6")
	ends, err = http.ParseTime(got.header.Get("Upload-Expires"))
	is.NoErr(err)
	is.True(time.Until(ends) > 23*time.Hour)
	head := a.stranger("HEAD", at, "").want(200)
	is.Equal(head.header.Get("Upload-Metadata"), meta("filename", "../Sea.txt", "filetype", "text/html", "name", "Bob", "message", "hi\r\nyou")) // what is not known is not kept
	is.Equal(head.header.Get("Upload-Offset"), "6")
	is.Equal(head.header.Get("Upload-Length"), "11")
	is.Equal(head.header.Get("Cache-Control"), "no-store")
	is.Equal(a.sendPiece(at, 5, "x").want(409).code(), "offset_mismatch")
	is.Equal(a.visit(at).want(200).at("data.offset"), 6.0)
	is.Equal(a.get("/api/v1/upload-requests/queue").want(200).at("total"), 0.0)
	is.Equal(a.get(upload.TusPath).want(200).at("total"), 0.0) // it is not the owner's
	me := a.get("/api/v1/me").want(200)
	is.True(me.at("data.textBytes").(float64) > 0) // what the sender said
	is.Equal(me.at("data.usedBytes"), me.at("data.textBytes"))

	end := a.sendPiece(at, 6, "world").want(204)
	item := end.header.Get("X-Kist-Item")
	is.Equal(end.header.Get("X-Kist-Status"), "pending")
	is.Equal(end.header.Get("X-Kist-Url")+end.header.Get("X-Kist-Slug")+end.header.Get("X-Kist-Id")+end.header.Get("Upload-Metadata"), "")
	queue := a.get("/api/v1/upload-requests/queue").want(200)
	is.Equal(queue.text("items.0.itemId"), item)
	is.Equal(queue.text("items.0.fileName"), "Sea.txt")
	is.Equal(queue.text("items.0.mimeType"), "text/plain")
	is.Equal(queue.text("items.0.uploaderName"), "Bob")
	is.Equal(queue.text("items.0.message"), "hi\nyou")
	at1 := "/api/v1/upload-requests/" + id + "/queue/" + item
	is.Equal(string(a.get(at1+"/content").want(200).body), "hello world")
	is.Equal(a.parts(), 0)

	// Anyone who missed the answer finds out, and nothing of what is decided.
	decided := a.patch(at1, map[string]any{"action": "approve"}).want(200)
	is.Equal(a.get("/api/v1/files/"+decided.text("data.fileSlug")).want(200).at("data.isPublic"), false)
	again := a.stranger("HEAD", at, "").want(200)
	is.Equal(again.header.Get("Upload-Offset"), "11")
	is.Equal(again.header.Get("X-Kist-Status"), "pending")
	seen := a.visit(at).want(200)
	is.Equal(seen.text("data.filename"), "Sea.txt")
	is.Equal(seen.text("item.itemId"), item)
	is.Equal(seen.text("item.status"), "pending")
	is.True(!strings.Contains(string(seen.body), decided.text("data.fileSlug")) && !strings.Contains(string(seen.body), decided.text("data.fileId")))
	a.sendPiece(at, 11, "").want(204)
	a.sendPiece(at, 11, "more").want(413)
	is.Equal(a.stranger("DELETE", at, "").want(409).code(), "upload_complete")
	is.True(!strings.Contains(a.log.String(), at[len(web.SentPath)+1:])) // the log has no secret

	// One more has a place, which is its own until it is cancelled.
	at = a.beginSending(slug, 5)
	is.Equal(a.stranger("POST", web.RequestsPath+"/p/in/tus", "", "Upload-Length", "1").want(403).code(), "limit_reached")
	is.Equal(a.leave(slug, nil, nil, file{"a", "", "x"}).want(403).code(), "limit_reached")
	a.sendPiece(at, 0, "hel").want(204)
	a.stranger("POST", at, "", "X-Http-Method-Override", "DELETE").want(204)
	is.Equal(a.parts(), 0)
	a.sendPiece(at, 3, "lo").want(404)
	a.leave(slug, nil, nil, file{"a", "", "x"}).want(201)

	// Without approval it is a private file at once; all bytes may come with the first request.
	_, direct := a.ask(map[string]any{"requiresApproval": false})
	one := a.stranger("POST", web.RequestsPath+"/p/"+direct+"/tus", "zzz", "Upload-Length", "3", "Upload-Metadata", meta("filename", "z.txt")).want(201)
	is.Equal(one.text("item.status"), "approved")
	is.Equal(a.get("/api/v1/files").want(200).at("data.0.originalName"), "z.txt")
	is.Equal(a.get("/api/v1/files").want(200).at("data.0.isPublic"), false)
	a.visit("/x/" + a.get("/api/v1/files").text("data.0.slug")).want(404)
	for _, path := range []string{web.RequestsPath + "/p/" + slug + "/tus", at} {
		is.Equal(a.do(apiRequest{method: "OPTIONS", path: path, anyone: true}).want(204).header.Get("Tus-Extension"), "creation,creation-with-upload,expiration,checksum,termination")
	}
	part := a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "abc", "Upload-Length", "3", "Upload-Concat", "partial")
	is.Equal(part.want(400).code(), "malformed") // nobody joins parts
}

// TestSendingWhileAsked: a request for an upload that is not there forgets none that another request begins at that
// address meanwhile.
func TestSendingWhileAsked(t *testing.T) {
	t.Parallel()
	a := start(t)
	_, slug := a.ask(nil)
	const secret = "known"
	asked := upload.SenderOperation(func(c *web.Request) error {
		var q *inbox.Request
		if err := c.Site.Store.View(func(tx *kv.Tx) (err error) { q, err = inbox.RequestAt(tx, slug); return err }); err != nil {
			return err
		}
		if _, _, err := inbox.BeginSenderUpload(c.Site.Store, t.Context(), q, inbox.Upload{Length: 11}, "here", secret); err != nil {
			t.Error(err)
		}
		return record.NotFound("upload") // as it was a moment ago
	})
	c := &web.Request{
		Site: a.server.Site, R: httptest.NewRequest("HEAD", "/", nil), Args: httprouter.Params{{Key: "secret", Value: secret}},
	}
	if err := asked(c); !kv.Missing(err) {
		t.Error(err)
	}
	a.stranger("HEAD", web.RequestsPath+"/tus/"+secret, "").want(200)
}

// TestSendingRepeated: a sender whose answer was lost can send the request again. It starts one
// upload. Another sender's request with the key, or another file, is not a repetition.
func TestSendingRepeated(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(map[string]any{"maxUploads": 1})
	begin := func(key, name, body string) *answer {
		return a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", body, "Upload-Length", "6", "Upload-Metadata", meta("filename", name), "Idempotency-Key", key)
	}
	at := begin("k", "a.txt", "abc").want(201).header.Get("Location")
	again := begin("k", "a.txt", "abc").want(201) // though the only place is taken
	is.Equal(again.header.Get("Location"), at)
	is.Equal(again.header.Get("Upload-Offset"), "3")
	is.Equal(begin("other", "a.txt", "").want(403).code(), "limit_reached")
	is.Equal(begin("k", "b.txt", "").want(403).code(), "limit_reached")
	begin(strings.Repeat("k", 256), "a.txt", "").want(400)

	item := a.sendPiece(at, 3, "def").want(204).header.Get("X-Kist-Item")
	is.Equal(begin("k", "a.txt", "abc").want(201).header.Get("X-Kist-Item"), item)
	is.Equal(a.get("/api/v1/upload-requests/queue").want(200).at("total"), 1.0)
	is.True(!strings.Contains(a.log.String(), at[len(web.SentPath)+1:])) // the log has no secret

	// An upload that was cancelled is not given again.
	_, slug = a.ask(map[string]any{"maxUploads": 1})
	at = begin("k", "a.txt", "").want(201).header.Get("Location")
	a.stranger("DELETE", at, "").want(204)
	is.Equal(begin("k", "a.txt", "abc").want(201).header.Get("Upload-Offset"), "3")

	// The address is derived from the key, and differs from link to link.
	_, slug = a.ask(map[string]any{"maxUploads": 1})
	is.True(begin("k", "a.txt", "").want(201).header.Get("Location") != at)
}

// TestSendingRepeatedLate: an upload that expired does not stand in the way of a repetition.
func TestSendingRepeatedLate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(nil)
	begin := func() *answer {
		return a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", "6", "Idempotency-Key", "k").want(201)
	}
	own := func() *answer {
		return a.tus("POST", upload.TusPath, "", "Upload-Length", "6", "Idempotency-Key", "k").want(201)
	}
	begin()
	first := own().text("data.id")
	a.clock.advance(11 * time.Minute)
	is.Equal(begin().header.Get("Upload-Offset"), "0")
	is.Equal(own().text("data.id"), first)
}

// TestSendingRepeatedAtOnce: however many clients repeat a request and continue the upload, one file
// arrives, and an address that was given stays.
func TestSendingRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	a := start(t)
	_, slug := a.ask(nil)
	for name, path := range map[string]string{"owner": upload.TusPath, "sender": web.RequestsPath + "/p/" + slug + "/tus"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := a.with(t)
			for round := range 10 {
				var mu sync.Mutex
				var work sync.WaitGroup
				at, made := map[string]bool{}, map[string]bool{}
				note := func(in map[string]bool, text string) {
					mu.Lock()
					defer mu.Unlock()
					if text != "" {
						in[text] = true
					}
				}
				for range 6 {
					work.Go(func() {
						for range 200 {
							got := a.tusBy(name == "sender", "POST", path, "abcdef", "Upload-Length", "6", "Upload-Metadata", meta("filename", "a.txt"), "Idempotency-Key", fmt.Sprint(round))
							if got.status != 201 { // ended by another, or busy
								if got.status != 409 && got.status != 503 {
									a.Errorf("POST: %d %s", got.status, got.body)
								}
								continue
							}
							where, offset := got.header.Get("Location"), 0
							note(at, where)
							_, _ = fmt.Sscan(got.header.Get("Upload-Offset"), &offset)
							more := a.tusBy(name == "sender", "PATCH", where, "abcdef"[offset:], "Upload-Offset", fmt.Sprint(offset))
							if more.status == 404 || more.status == 410 {
								a.Errorf("PATCH: %d %s", more.status, more.body)
							}
							note(made, got.header.Get("X-Kist-Id")+got.header.Get("X-Kist-Item"))
							note(made, more.header.Get("X-Kist-Id")+more.header.Get("X-Kist-Item"))
							if more.status == 204 {
								return
							}
						}
						a.Errorf("no end")
					})
				}
				work.Wait()
				if len(at) != 1 || len(made) != 1 {
					a.Fatalf("round %d: addresses %v, files %v", round, at, made)
				}
			}
		})
	}
}

// TestSendingRepeatedEarly: a repetition may come before the first bytes; the captcha was solved
// once.
func TestSendingRepeatedEarly(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(map[string]any{"requiresCaptcha": true})
	path, token := web.RequestsPath+"/p/"+slug+"/tus", a.solve()
	r, w := io.Pipe()
	defer w.Close()
	req, err := http.NewRequestWithContext(a.Context(), "POST", a.url+path, r)
	is.NoErr(err)
	req.ContentLength = 6
	req.Header = withHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Length", "6", "Idempotency-Key", "k", "X-Captcha-Token", token)
	first := inBackground(req)
	begun := func() (n int) {
		a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
			all, err := inbox.OpenUploads(tx)
			n = len(all)
			return err
		}))
		return n
	}
	for deadline := time.Now().Add(10 * time.Second); begun() == 0; runtime.Gosched() {
		is.True(time.Now().Before(deadline))
	}
	again := a.stranger("POST", path, "", "Upload-Length", "6", "Idempotency-Key", "k").want(201)
	is.Equal(again.header.Get("Upload-Offset"), "0")
	// The first one may begin to wait for its bytes only now. Bytes of another request end it.
	a.sendPiece(again.header.Get("Location"), 0, "abcdef").want(204)
	is.Equal(<-first, 409)
}

// TestSendingToALinkThatGoes: a request without a key that meets the end of its link is not told to
// try again.
func TestSendingToALinkThatGoes(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	a := start(t)
	id, slug := a.ask(nil)
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(a.Context(), "POST", a.url+web.RequestsPath+"/p/"+slug+"/tus", r)
	is.NoErr(err)
	req.ContentLength = 400_000
	req.Header = withHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Length", "400000")
	status := inBackground(req)
	_, err = io.WriteString(w, strings.Repeat("x", 300_000))
	is.NoErr(err)
	a.receiving()
	a.delete(web.RequestsPath + "/" + id).want(200)
	_, _ = io.WriteString(w, strings.Repeat("x", 100_000)) // the server may have ended the request
	_ = w.Close()
	is.Equal(<-status, 404)
}

// TestLeavingRepeated: the same for a form with files. Its captcha may be used up.
func TestLeavingRepeated(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(map[string]any{"maxUploads": 2})
	leave := func(key string, fields map[string]string, files ...file) *answer {
		return a.leave(slug, withHeader("Idempotency-Key", key), fields, files...)
	}
	said := map[string]string{"name": "Bob"}
	two := []file{{"a.txt", "", "abc"}, {"b.txt", "", "def"}}
	first := leave("k", said, two...).want(201)
	is.Equal(leave("k", said, two...).want(201).at("items"), first.at("items"))
	is.Equal(leave("k", said, two[0]).want(422).code(), "idempotency_mismatch")
	is.Equal(leave("k", nil, two...).want(422).code(), "idempotency_mismatch")
	is.Equal(leave("other", said, two...).want(403).code(), "limit_reached")
	leave(strings.Repeat("k", 256), said, two...).want(400)
	is.Equal(a.get("/api/v1/upload-requests/queue").want(200).at("total"), 2.0)

	_, other := a.ask(map[string]any{"maxUploads": 2}) // the key belongs to the link
	a.leave(other, withHeader("Idempotency-Key", "k"), said, two...).want(201)
	is.Equal(a.get("/api/v1/upload-requests/queue").want(200).at("total"), 4.0)
}

// TestLeavingRepeatedAtOnce: a form that is sent again while the first one still comes in waits for
// it, and gets its items, though the link is full and the captcha used up.
func TestLeavingRepeatedAtOnce(t *testing.T) {
	needs.Alone(t)
	for name, of := range map[string]map[string]any{"full": {"maxUploads": 1}, "too much": {"maxTotalSize": 3}, "captcha": {"requiresCaptcha": true}} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			_, slug := a.ask(of)
			header := withHeader("Idempotency-Key", "k")
			if name == "captcha" {
				header.Set("X-Captcha-Token", a.solve())
			}
			r, w := io.Pipe()
			form := multipart.NewWriter(w)
			req := httptest.NewRequestWithContext(a.Context(), "POST", "/api/v1/upload-requests/p/"+slug+"/files", r)
			req.Host, req.RemoteAddr, req.Header = "localhost", "127.0.0.1:1", header.Clone()
			req.Header.Set("Content-Type", form.FormDataContentType())
			first, second := make(chan int, 1), make(chan *answer, 1)
			go func() { // not through a connection, which would take bytes before the server reads them
				answer := httptest.NewRecorder()
				a.server.ServeHTTP(answer, req)
				first <- answer.Code
			}()
			p, err := form.CreateFormFile("file", "a.txt")
			is.NoErr(err)
			_, err = io.WriteString(p, "abc") // it is read: the first form has begun
			is.NoErr(err)
			go func() { second <- a.leave(slug, header, nil, file{"a.txt", "application/octet-stream", "abc"}) }()
			select {
			case got := <-second:
				t.Fatalf("it does not wait: %d %s", got.status, got.body)
			case <-time.After(200 * time.Millisecond):
			}
			is.NoErr(form.Close())
			is.NoErr(w.Close())
			is.Equal(<-first, 201)
			got := (<-second).want(201)
			is.Equal(got.text("items.0.fileName"), "a.txt")
			is.Equal(a.get("/api/v1/upload-requests/queue").want(200).at("total"), 1.0)
		})
	}
}

// TestSendingRefuses begins what is refused at the beginning, as the form is;
// nothing is left.
func TestSendingRefuses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.MaxUpload = 1000 })
	_, plain := a.ask(map[string]any{"maxFileSize": 100, "allowedTypes": []string{".txt"}, "slug": "plain"})
	_, locked := a.ask(map[string]any{"password": "sesame", "requiresCaptcha": true})
	offID, off := a.ask(nil)
	a.patch("/api/v1/upload-requests/"+offID, map[string]any{"isActive": false}).want(200)
	_, full := a.ask(map[string]any{"maxTotalSize": 9})
	for name, c := range map[string]struct {
		slug   string
		status int
		code   string
		body   string
		header []string
	}{
		"no version":        {plain, 412, "tus_version", "", []string{"Tus-Resumable", ""}},
		"no length":         {plain, 400, "malformed", "", []string{"Upload-Length", ""}},
		"length deferred":   {plain, 400, "malformed", "", []string{"Upload-Length", "", "Upload-Defer-Length", "1"}},
		"too large":         {plain, 413, "too_large", "", []string{"Upload-Length", "101"}},
		"far too large":     {plain, 413, "too_large", "", []string{"Upload-Length", "9223372036854775807"}},
		"more than said":    {plain, 413, "too_large", "12345678901", nil},
		"type by name":      {plain, 415, "type_not_allowed", "", []string{"Upload-Metadata", meta("filename", "a.png")}},
		"no bytes":          {plain, 415, "unsupported_media_type", "x", []string{"Content-Type", "text/plain"}},
		"long name":         {plain, 422, "invalid_fields", "", []string{"Upload-Metadata", meta("filename", "a.txt", "name", strings.Repeat("x", 101))}},
		"damaged":           {plain, 460, "checksum_mismatch", "1234567890", []string{"Upload-Checksum", "sha1 AAAAAAAAAAAAAAAAAAAAAAAAAAA="}},
		"no password":       {locked, 401, "password_required", "", nil},
		"wrong password":    {locked, 401, "wrong_password", "", []string{"X-Upload-Password", "no"}},
		"no captcha":        {locked, 400, "captcha_required", "", []string{"X-Upload-Password", "sesame"}},
		"no link":           {"nothing", 404, "not_found", "", nil},
		"switched off":      {off, 404, "not_found", "", nil},
		"more than is left": {full, 403, "limit_reached", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			header := append([]string{"Upload-Length", "10", "Upload-Metadata", meta("filename", "a.txt")}, c.header...)
			is.Equal(a.stranger("POST", web.RequestsPath+"/p/"+c.slug+"/tus", c.body, header...).want(c.status).code(), c.code)
		})
	}
	is.Equal(a.parts(), 0)
	is.NoErr(a.server.Store.View(func(tx *kv.Tx) error {
		awaited, err := inbox.OpenUploads(tx)
		is.Equal(len(awaited), 0)
		return err
	}))

	// With both it goes, and what is there needs neither.
	at := a.stranger("POST", web.RequestsPath+"/p/"+locked+"/tus", "", "Upload-Length", "2", "X-Upload-Password", "sesame", "X-Captcha-Token", a.solve()).want(201).header.Get("Location")
	is.Equal(a.sendPiece(at, 0, "ab").want(204).header.Get("X-Kist-Status"), "pending")
}

// TestSendingTypes: what the link does not take is refused with its first bytes,
// however they come, and gives its place back.
func TestSendingTypes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(map[string]any{"maxUploads": 1, "allowedTypes": []string{"image/png"}})
	png, html := "\x89PNG\r\n\x1a\n"+strings.Repeat("x", 992), "<html>"+strings.Repeat("x", 994)
	for name, pieces := range map[string][]int{"at once": {1000}, "the beginning first": {600, 400}, "in small ones": {3, 4, 504, 1, 488}, "by the byte": {511, 1, 488}} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			at := a.beginSending(slug, len(html), "filename", "a.png")
			offset, refused := 0, false
			for _, n := range pieces {
				got := a.sendPiece(at, offset, html[offset:offset+n])
				if offset += n; offset >= 512 {
					is.Equal(got.want(415).code(), "type_not_allowed")
					refused = true
					break
				}
				got.want(204)
			}
			is.True(refused)
			is.Equal(a.parts(), 0)
			a.stranger("HEAD", at, "").want(404)
			at = a.beginSending(slug, len(png)) // the place is free
			a.stranger("DELETE", at, "").want(204)
		})
	}
	// The owner thinks otherwise meanwhile: what counts is the end.
	id := a.get("/api/v1/upload-requests").text("data.0.id")
	at := a.beginSending(slug, len(png))
	a.sendPiece(at, 0, png[:900]).want(204)
	a.patch("/api/v1/upload-requests/"+id, map[string]any{"allowedTypes": []string{"image/gif"}}).want(200)
	is.Equal(a.sendPiece(at, 900, png[900:]).want(415).code(), "type_not_allowed")
	n := 0
	for range a.server.Blobs.All() {
		n++
	}
	is.Equal(n+a.parts(), 0)
	a.patch("/api/v1/upload-requests/"+id, map[string]any{"allowedTypes": []string{"image/*"}}).want(200)
	at = a.beginSending(slug, len(png))
	for i := 0; i < len(png); i += 250 {
		a.sendPiece(at, i, png[i:i+250]).want(204)
	}
	is.Equal(a.visit(at).want(200).text("item.status"), "pending")
}

// TestRacingSendings: of a hundred who begin at the same time as many have a
// place as the limit says; when they give it up, others have it.
func TestRacingSendings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fields map[string]any
		code   string
	}{
		"count":  {map[string]any{"maxUploads": 7}, "limit_reached"},
		"bytes":  {map[string]any{"maxTotalSize": 7*3000 + 1500}, "limit_reached"},
		"sender": {map[string]any{"perUserUploadLimit": 7}, "sender_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t, behindProxy)
			id, slug := a.ask(c.fields)
			from := func(i int) string { // one network may have a third of the places unfinished
				if c.code == "sender_limit" {
					return "192.0.2.1"
				}
				return fmt.Sprintf("192.0.2.%d", i)
			}
			for round := range 2 {
				var all sync.WaitGroup
				answers := make([]*answer, 100)
				for i := range answers {
					all.Go(func() {
						answers[i] = a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", "3000", "X-Forwarded-For", from(i))
					})
				}
				all.Wait()
				var won []string
				for _, g := range answers {
					if g.status == 201 {
						won = append(won, g.header.Get("Location"))
						continue
					}
					is.Equal(g.text("code"), c.code)
				}
				is.Equal(len(won), 7)
				for i, at := range won {
					if round == 0 {
						a.stranger("DELETE", at, "").want(204)
					} else {
						is.Equal(a.sendPiece(at, 0, fmt.Sprintf("%03000d", i)).want(204).header.Get("X-Kist-Status"), "pending")
					}
				}
			}
			is.Equal(a.get("/api/v1/upload-requests/"+id).at("data.pendingCount"), 7.0)
		})
	}
}

// TestSendingToAClosedLink: when the link ends, is switched off or removed, or
// its owner is shut, those who send are told, and what they had reserved is
// free.
func TestSendingToAClosedLink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(a *app, id string)
		status int
	}{
		"switched off": {func(a *app, id string) {
			a.patch("/api/v1/upload-requests/"+id, map[string]any{"isActive": false}).want(200)
		}, 404},
		"removed": {func(a *app, id string) { a.delete("/api/v1/upload-requests/" + id).want(200) }, 404},
		"over": {func(a *app, id string) {
			a.patch("/api/v1/upload-requests/"+id, map[string]any{"expiresAt": a.clock.now().Add(time.Hour).UTC().Format(time.RFC3339)}).want(200)
			a.clock.advance(2 * time.Hour)
		}, 410},
		"its owner shut": {func(a *app, _ string) {
			a.addUser("other", people.Admin)
			a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
				me, err := people.ReadUser(tx, a.user.ID)
				if err == nil {
					me.Disabled = true
					err = people.SaveUser(tx, me)
				}
				return err
			}))
		}, 404},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := start(t)
			id, slug := a.ask(nil)
			at := a.beginSending(slug, 10)
			a.sendPiece(at, 0, "hello").want(204)
			c.end(a, id)
			is.True(strings.Contains(a.sendPiece(at, 5, "world").want(c.status).text("error"), "link"))
			is.NoErr(a.server.Store.View(func(tx *kv.Tx) error {
				is.Equal(inbox.ReservedBytes(tx), int64(0))
				return nil
			}))
		})
	}
}

// A large file of a sender's is the one that was sent.
func TestSendingWhole(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	id, slug := a.ask(nil)
	content := strings.Repeat("0123456789", 300_000)
	at := a.beginSending(slug, len(content), "filename", "a.bin")
	for i := 0; i < len(content); i += 700_000 {
		a.sendPiece(at, i, content[i:min(len(content), i+700_000)]).want(204)
	}
	item := a.visit(at).want(200).text("item.itemId")
	got := sha256.Sum256(a.get("/api/v1/upload-requests/" + id + "/queue/" + item + "/content").want(200).body)
	want := sha256.Sum256([]byte(content))
	is.Equal(hex.EncodeToString(got[:]), hex.EncodeToString(want[:]))
}

// An upload whose bytes are coming in is not over, be they noted only at their
// end, as those with a checksum are.
func TestSweepLeavesWhatIsSent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(nil)
	content := make([]byte, upload.NoteBytes+2)
	sum := sha256.Sum256(content)
	at := a.beginSending(slug, len(content))
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "PATCH", a.url+at, r)
	is.NoErr(err)
	req.ContentLength = int64(len(content))
	req.Header = withHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "0", "Upload-Checksum", "sha256 "+base64.StdEncoding.EncodeToString(sum[:]))
	answered := make(chan int, 1)
	go func() {
		status := 0
		if res, err := plain.Do(req); err == nil {
			_ = res.Body.Close()
			status = res.StatusCode
		}
		_ = r.Close()
		answered <- status
	}()
	ends := func() (end time.Time) {
		a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
			u, err := inbox.SenderUpload(tx, at[len(web.SentPath)+1:])
			if err == nil {
				end = u.Expires
			}
			return err
		}))
		return end
	}
	sweep := func() { a.fatal(a.server.Store.Update(inbox.DropUploads)) }
	begun := a.clock.now().Add(time.Hour)
	_, err = w.Write(content[:1])
	is.NoErr(err)
	eventually(t, "it is not kept for longer", func() bool { return ends().After(begun) })
	a.clock.advance(11 * time.Minute) // until when an upload without bytes is kept
	sweep()
	a.clock.advance(23*time.Hour + 30*time.Minute)
	was := ends()
	_, err = w.Write(content[1 : upload.NoteBytes+1])
	is.NoErr(err)
	eventually(t, "it is not kept for longer", func() bool { return ends().After(was) })
	a.clock.advance(time.Hour)
	sweep()
	_, err = w.Write(content[upload.NoteBytes+1:])
	is.NoErr(err)
	is.NoErr(w.Close())
	is.Equal(<-answered, 204)
	is.Equal(a.get("/api/v1/upload-requests/queue").want(200).at("total"), 1.0)
}
