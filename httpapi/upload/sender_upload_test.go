package upload_test

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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/inbox"
	"kist/kv/kvtest/needs"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// What is kept of a sender's metadata is short, whatever the sender says.
func TestSenderMetadataIsShort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	long := strings.Repeat("x", 5000)
	at := a.BeginSending(
		slug, 1, "filename", long+".txt", "filetype", long, "name", "Bob"+strings.Repeat(" ", 5000), "other", long,
	)
	kept := a.Stranger("HEAD", at, "").Want(200).Header.Get("Upload-Metadata")
	is.Equal(kept, apitest.Meta("filename", long[:record.MaxFileName-4]+".txt", "name", "Bob"))
}

// TestSending takes an upload to a link from its beginning into the queue.
func TestSending(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id, slug := a.Ask(map[string]any{"maxUploads": 2, "slug": "in"})
	begun := a.Stranger(
		"POST", web.RequestsPath+"/p/in/tus", "", "Upload-Length", "11", "Upload-Metadata",
		apitest.Meta(
			"filename", "../Sea.txt", "filetype", "text/html", "name", "Bob", "message", "hi\r\nyou", "isPublic", "true", "slug",
			"mine",
		),
	).Want(201)
	at := begun.Header.Get("Location")
	is.True(strings.HasPrefix(at, web.SentPath+"/") && len(at) >= len(web.SentPath)+1+22)
	is.Equal(begun.Text("data.filename"), "Sea.txt")
	is.Equal(begun.At("data.id"), nil)
	is.Equal(begun.At("item"), nil)
	ends, err := http.ParseTime(begun.Header.Get("Upload-Expires"))
	is.NoErr(err)
	is.True(time.Until(ends) <= 10*time.Minute) // until bytes come

	got := a.SendPiece(at, 0, "hello ").Want(204)
	is.Equal(got.Header.Get("Upload-Offset"), "6")
	ends, err = http.ParseTime(got.Header.Get("Upload-Expires"))
	is.NoErr(err)
	is.True(time.Until(ends) > 23*time.Hour)
	head := a.Stranger("HEAD", at, "").Want(200)
	// what is not known is not kept
	is.Equal(
		head.Header.Get("Upload-Metadata"),
		apitest.Meta("filename", "../Sea.txt", "filetype", "text/html", "name", "Bob", "message", "hi\r\nyou"),
	)
	is.Equal(head.Header.Get("Upload-Offset"), "6")
	is.Equal(head.Header.Get("Upload-Length"), "11")
	is.Equal(head.Header.Get("Cache-Control"), "no-store")
	is.Equal(a.SendPiece(at, 5, "x").Want(409).Code(), "offset_mismatch")
	is.Equal(a.Visit(at).Want(200).At("data.offset"), 6.0)
	is.Equal(a.Get("/api/v1/upload-requests/queue").Want(200).At("total"), 0.0)
	is.Equal(a.Get(upload.TusPath).Want(200).At("total"), 0.0) // it is not the owner's
	me := a.Get("/api/v1/me").Want(200)
	is.True(me.At("data.textBytes").(float64) > 0) // what the sender said
	is.Equal(me.At("data.usedBytes"), me.At("data.textBytes"))

	end := a.SendPiece(at, 6, "world").Want(204)
	item := end.Header.Get("X-Kist-Item")
	is.Equal(end.Header.Get("X-Kist-Status"), "pending")
	is.Equal(
		end.Header.Get("X-Kist-Url")+end.Header.Get("X-Kist-Slug")+end.Header.Get("X-Kist-Id")+end.Header.Get("Upload-Metadata"),
		"",
	)
	queue := a.Get("/api/v1/upload-requests/queue").Want(200)
	is.Equal(queue.Text("items.0.itemId"), item)
	is.Equal(queue.Text("items.0.fileName"), "Sea.txt")
	is.Equal(queue.Text("items.0.mimeType"), "text/plain")
	is.Equal(queue.Text("items.0.uploaderName"), "Bob")
	is.Equal(queue.Text("items.0.message"), "hi\nyou")
	at1 := "/api/v1/upload-requests/" + id + "/queue/" + item
	is.Equal(string(a.Get(at1+"/content").Want(200).Body), "hello world")
	is.Equal(a.Parts(), 0)

	// Anyone who missed the answer finds out, and nothing of what is decided.
	decided := a.Patch(at1, map[string]any{"action": "approve"}).Want(200)
	is.Equal(a.Get("/api/v1/files/"+decided.Text("data.fileSlug")).Want(200).At("data.isPublic"), false)
	again := a.Stranger("HEAD", at, "").Want(200)
	is.Equal(again.Header.Get("Upload-Offset"), "11")
	is.Equal(again.Header.Get("X-Kist-Status"), "pending")
	seen := a.Visit(at).Want(200)
	is.Equal(seen.Text("data.filename"), "Sea.txt")
	is.Equal(seen.Text("item.itemId"), item)
	is.Equal(seen.Text("item.status"), "pending")
	is.True(!strings.Contains(
		string(seen.Body), decided.Text("data.fileSlug"),
	) && !strings.Contains(string(seen.Body), decided.Text("data.fileId")))
	a.SendPiece(at, 11, "").Want(204)
	a.SendPiece(at, 11, "more").Want(413)
	is.Equal(a.Stranger("DELETE", at, "").Want(409).Code(), "upload_complete")
	is.True(!strings.Contains(a.Logged.String(), at[len(web.SentPath)+1:])) // the log has no secret

	// One more has a place, which is its own until it is cancelled.
	at = a.BeginSending(slug, 5)
	is.Equal(a.Stranger("POST", web.RequestsPath+"/p/in/tus", "", "Upload-Length", "1").Want(403).Code(), "limit_reached")
	is.Equal(a.Leave(slug, nil, nil, apitest.File("a", "", "x")).Want(403).Code(), "limit_reached")
	a.SendPiece(at, 0, "hel").Want(204)
	a.Stranger("POST", at, "", "X-Http-Method-Override", "DELETE").Want(204)
	is.Equal(a.Parts(), 0)
	a.SendPiece(at, 3, "lo").Want(404)
	a.Leave(slug, nil, nil, apitest.File("a", "", "x")).Want(201)

	// Without approval it is a private file at once; all bytes may come with the first request.
	_, direct := a.Ask(map[string]any{"requiresApproval": false})
	one := a.Stranger(
		"POST", web.RequestsPath+"/p/"+direct+"/tus", "zzz", "Upload-Length", "3", "Upload-Metadata",
		apitest.Meta("filename", "z.txt"),
	).Want(201)
	is.Equal(one.Text("item.status"), "approved")
	is.Equal(a.Get("/api/v1/files").Want(200).At("data.0.originalName"), "z.txt")
	is.Equal(a.Get("/api/v1/files").Want(200).At("data.0.isPublic"), false)
	a.Visit("/x/" + a.Get("/api/v1/files").Text("data.0.slug")).Want(404)
	for _, path := range []string{web.RequestsPath + "/p/" + slug + "/tus", at} {
		is.Equal(
			a.Do(apitest.Request{Method: "OPTIONS", Path: path, Anyone: true}).Want(204).Header.Get("Tus-Extension"),
			"creation,creation-with-upload,expiration,checksum,termination",
		)
	}
	part := a.Stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "abc", "Upload-Length", "3", "Upload-Concat", "partial")
	is.Equal(part.Want(400).Code(), "malformed") // nobody joins parts
}

// TestSendingWhileAsked: a request for an upload that is not there forgets none that another request begins at that
// address meanwhile.
func TestSendingWhileAsked(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	const secret = "known"
	asked := upload.SenderOperation(func(c *web.Request) error {
		var q *inbox.Request
		if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
			q, err = inbox.RequestAt(tx, slug)
			return err
		}); err != nil {
			return err
		}
		if _, _, err := inbox.BeginSenderUpload(
			c.Site.Store, t.Context(), q, inbox.Upload{Length: 11}, "here", secret,
		); err != nil {
			t.Error(err)
		}
		return record.NotFound("upload") // as it was a moment ago
	})
	c := &web.Request{Site: a.Server.Site, R: httptest.NewRequest("HEAD", "/", nil)}
	c.Args = slices.Grow(c.Args, 1)[:1]
	c.Args[0].Key, c.Args[0].Value = "secret", secret
	if err := asked(c); !kv.Missing(err) {
		t.Error(err)
	}
	a.Stranger("HEAD", web.RequestsPath+"/tus/"+secret, "").Want(200)
}

// TestSendingRepeated: a sender whose answer was lost can send the request again. It starts one
// upload. Another sender's request with the key, or another file, is not a repetition.
func TestSendingRepeated(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(map[string]any{"maxUploads": 1})
	begin := func(key, name, body string) *apitest.Answer {
		return a.Stranger(
			"POST", web.RequestsPath+"/p/"+slug+"/tus", body, "Upload-Length", "6", "Upload-Metadata",
			apitest.Meta("filename", name), "Idempotency-Key", key,
		)
	}
	at := begin("k", "a.txt", "abc").Want(201).Header.Get("Location")
	again := begin("k", "a.txt", "abc").Want(201) // though the only place is taken
	is.Equal(again.Header.Get("Location"), at)
	is.Equal(again.Header.Get("Upload-Offset"), "3")
	is.Equal(begin("other", "a.txt", "").Want(403).Code(), "limit_reached")
	is.Equal(begin("k", "b.txt", "").Want(403).Code(), "limit_reached")
	begin(strings.Repeat("k", 256), "a.txt", "").Want(400)

	item := a.SendPiece(at, 3, "def").Want(204).Header.Get("X-Kist-Item")
	is.Equal(begin("k", "a.txt", "abc").Want(201).Header.Get("X-Kist-Item"), item)
	is.Equal(a.Get("/api/v1/upload-requests/queue").Want(200).At("total"), 1.0)
	is.True(!strings.Contains(a.Logged.String(), at[len(web.SentPath)+1:])) // the log has no secret

	// An upload that was cancelled is not given again.
	_, slug = a.Ask(map[string]any{"maxUploads": 1})
	at = begin("k", "a.txt", "").Want(201).Header.Get("Location")
	a.Stranger("DELETE", at, "").Want(204)
	is.Equal(begin("k", "a.txt", "abc").Want(201).Header.Get("Upload-Offset"), "3")

	// The address is derived from the key, and differs from link to link.
	_, slug = a.Ask(map[string]any{"maxUploads": 1})
	is.True(begin("k", "a.txt", "").Want(201).Header.Get("Location") != at)
}

// TestSendingRepeatedLate: an upload that expired does not stand in the way of a repetition.
func TestSendingRepeatedLate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	begin := func() *apitest.Answer {
		return a.Stranger(
			"POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", "6", "Idempotency-Key", "k",
		).Want(201)
	}
	own := func() *apitest.Answer {
		return a.SendTus("POST", upload.TusPath, "", "Upload-Length", "6", "Idempotency-Key", "k").Want(201)
	}
	begin()
	first := own().Text("data.id")
	a.Clock.Advance(11 * time.Minute)
	is.Equal(begin().Header.Get("Upload-Offset"), "0")
	is.Equal(own().Text("data.id"), first)
}

// TestSendingRepeatedAtOnce: however many clients repeat a request and continue the upload, one file
// arrives, and an address that was given stays.
func TestSendingRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	for name, path := range map[string]string{
		"owner": upload.TusPath, "sender": web.RequestsPath + "/p/" + slug + "/tus",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := a.With(t)
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
							got := a.SendTusBy(
								name == "sender", "POST", path, "abcdef", "Upload-Length", "6", "Upload-Metadata",
								apitest.Meta("filename", "a.txt"), "Idempotency-Key", fmt.Sprint(round),
							)
							if got.Status != 201 { // ended by another, or busy
								if got.Status != 409 && got.Status != 503 {
									a.Errorf("POST: %d %s", got.Status, got.Body)
								}
								continue
							}
							where, offset := got.Header.Get("Location"), 0
							note(at, where)
							_, _ = fmt.Sscan(got.Header.Get("Upload-Offset"), &offset)
							more := a.SendTusBy(name == "sender", "PATCH", where, "abcdef"[offset:], "Upload-Offset", fmt.Sprint(offset))
							if more.Status == 404 || more.Status == 410 {
								a.Errorf("PATCH: %d %s", more.Status, more.Body)
							}
							note(made, got.Header.Get("X-Kist-Id")+got.Header.Get("X-Kist-Item"))
							note(made, more.Header.Get("X-Kist-Id")+more.Header.Get("X-Kist-Item"))
							if more.Status == 204 {
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
	a := apitest.Start(t)
	_, slug := a.Ask(map[string]any{"requiresCaptcha": true})
	path, token := web.RequestsPath+"/p/"+slug+"/tus", a.Solve()
	r, w := io.Pipe()
	defer w.Close()
	req, err := http.NewRequestWithContext(a.Context(), "POST", a.URL+path, r)
	is.NoErr(err)
	req.ContentLength = 6
	req.Header = apitest.WithHeader(
		"Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Length", "6", "Idempotency-Key", "k",
		"X-Captcha-Token", token,
	)
	first := inBackground(req)
	begun := func() (n int) {
		a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
			all, err := inbox.OpenUploads(tx)
			n = len(all)
			return err
		}))
		return n
	}
	for deadline := time.Now().Add(10 * time.Second); begun() == 0; runtime.Gosched() {
		is.True(time.Now().Before(deadline))
	}
	again := a.Stranger("POST", path, "", "Upload-Length", "6", "Idempotency-Key", "k").Want(201)
	is.Equal(again.Header.Get("Upload-Offset"), "0")
	// The first one may begin to wait for its bytes only now. Bytes of another request end it.
	a.SendPiece(again.Header.Get("Location"), 0, "abcdef").Want(204)
	is.Equal(<-first, 409)
}

// TestSendingToALinkThatGoes: a request without a key that meets the end of its link is not told to
// try again.
func TestSendingToALinkThatGoes(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	a := apitest.Start(t)
	id, slug := a.Ask(nil)
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(a.Context(), "POST", a.URL+web.RequestsPath+"/p/"+slug+"/tus", r)
	is.NoErr(err)
	req.ContentLength = 400_000
	req.Header = apitest.WithHeader("Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Length", "400000")
	status := inBackground(req)
	_, err = io.WriteString(w, strings.Repeat("x", 300_000))
	is.NoErr(err)
	receiving(a)
	a.Delete(web.RequestsPath + "/" + id).Want(200)
	_, _ = io.WriteString(w, strings.Repeat("x", 100_000)) // the server may have ended the request
	_ = w.Close()
	is.Equal(<-status, 404)
}

// TestLeavingRepeated: the same for a form with files. Its captcha may be used up.
func TestLeavingRepeated(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(map[string]any{"maxUploads": 2})
	leave := func(key string, fields map[string]string, files ...apitest.Part) *apitest.Answer {
		return a.Leave(slug, apitest.WithHeader("Idempotency-Key", key), fields, files...)
	}
	said := map[string]string{"name": "Bob"}
	two := []apitest.Part{apitest.File("a.txt", "", "abc"), apitest.File("b.txt", "", "def")}
	first := leave("k", said, two...).Want(201)
	is.Equal(leave("k", said, two...).Want(201).At("items"), first.At("items"))
	is.Equal(leave("k", said, two[0]).Want(422).Code(), "idempotency_mismatch")
	is.Equal(leave("k", nil, two...).Want(422).Code(), "idempotency_mismatch")
	is.Equal(leave("other", said, two...).Want(403).Code(), "limit_reached")
	leave(strings.Repeat("k", 256), said, two...).Want(400)
	is.Equal(a.Get("/api/v1/upload-requests/queue").Want(200).At("total"), 2.0)

	_, other := a.Ask(map[string]any{"maxUploads": 2}) // the key belongs to the link
	a.Leave(other, apitest.WithHeader("Idempotency-Key", "k"), said, two...).Want(201)
	is.Equal(a.Get("/api/v1/upload-requests/queue").Want(200).At("total"), 4.0)
}

// TestLeavingRepeatedAtOnce: a form that is sent again while the first one still comes in waits for
// it, and gets its items, though the link is full and the captcha used up.
func TestLeavingRepeatedAtOnce(t *testing.T) {
	needs.Alone(t)
	for name, of := range map[string]map[string]any{
		"full": {"maxUploads": 1}, "too much": {"maxTotalSize": 3}, "captcha": {"requiresCaptcha": true},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := apitest.Start(t)
			_, slug := a.Ask(of)
			header := apitest.WithHeader("Idempotency-Key", "k")
			if name == "captcha" {
				header.Set("X-Captcha-Token", a.Solve())
			}
			r, w := io.Pipe()
			form := multipart.NewWriter(w)
			req := httptest.NewRequestWithContext(a.Context(), "POST", "/api/v1/upload-requests/p/"+slug+"/files", r)
			req.Host, req.RemoteAddr, req.Header = "localhost", "127.0.0.1:1", header.Clone()
			req.Header.Set("Content-Type", form.FormDataContentType())
			first, second := make(chan int, 1), make(chan *apitest.Answer, 1)
			go func() { // not through a connection, which would take bytes before the server reads them
				answer := httptest.NewRecorder()
				a.Server.ServeHTTP(answer, req)
				first <- answer.Code
			}()
			p, err := form.CreateFormFile("file", "a.txt")
			is.NoErr(err)
			_, err = io.WriteString(p, "abc") // it is read: the first form has begun
			is.NoErr(err)
			go func() { second <- a.Leave(slug, header, nil, apitest.File("a.txt", "application/octet-stream", "abc")) }()
			select {
			case got := <-second:
				t.Fatalf("it does not wait: %d %s", got.Status, got.Body)
			case <-time.After(200 * time.Millisecond):
			}
			is.NoErr(form.Close())
			is.NoErr(w.Close())
			is.Equal(<-first, 201)
			got := (<-second).Want(201)
			is.Equal(got.Text("items.0.fileName"), "a.txt")
			is.Equal(a.Get("/api/v1/upload-requests/queue").Want(200).At("total"), 1.0)
		})
	}
}

// TestSendingRefuses begins what is refused at the beginning, as the form is;
// nothing is left.
func TestSendingRefuses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = 1000 })
	_, plain := a.Ask(map[string]any{"maxFileSize": 100, "allowedTypes": []string{".txt"}, "slug": "plain"})
	_, locked := a.Ask(map[string]any{"password": "sesame", "requiresCaptcha": true})
	offID, off := a.Ask(nil)
	a.Patch("/api/v1/upload-requests/"+offID, map[string]any{"isActive": false}).Want(200)
	_, full := a.Ask(map[string]any{"maxTotalSize": 9})
	for name, c := range map[string]struct {
		slug   string
		status int
		code   string
		body   string
		header []string
	}{
		"no version":      {plain, 412, "tus_version", "", []string{"Tus-Resumable", ""}},
		"no length":       {plain, 400, "malformed", "", []string{"Upload-Length", ""}},
		"length deferred": {plain, 400, "malformed", "", []string{"Upload-Length", "", "Upload-Defer-Length", "1"}},
		"too large":       {plain, 413, "too_large", "", []string{"Upload-Length", "101"}},
		"far too large":   {plain, 413, "too_large", "", []string{"Upload-Length", "9223372036854775807"}},
		"more than said":  {plain, 413, "too_large", "12345678901", nil},
		"type by name": {
			plain, 415, "type_not_allowed", "", []string{"Upload-Metadata", apitest.Meta("filename", "a.png")},
		},
		"no bytes": {plain, 415, "unsupported_media_type", "x", []string{"Content-Type", "text/plain"}},
		"long name": {
			plain, 422, "invalid_fields", "",
			[]string{"Upload-Metadata", apitest.Meta("filename", "a.txt", "name", strings.Repeat("x", 101))},
		},
		"damaged": {
			plain, 460, "checksum_mismatch", "1234567890", []string{"Upload-Checksum", "sha1 AAAAAAAAAAAAAAAAAAAAAAAAAAA="},
		},
		"no password":       {locked, 401, "password_required", "", nil},
		"wrong password":    {locked, 401, "wrong_password", "", []string{"X-Upload-Password", "no"}},
		"no captcha":        {locked, 400, "captcha_required", "", []string{"X-Upload-Password", "sesame"}},
		"no link":           {"nothing", 404, "not_found", "", nil},
		"switched off":      {off, 404, "not_found", "", nil},
		"more than is left": {full, 403, "limit_reached", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			header := append([]string{"Upload-Length", "10", "Upload-Metadata", apitest.Meta("filename", "a.txt")}, c.header...)
			is.Equal(a.Stranger("POST", web.RequestsPath+"/p/"+c.slug+"/tus", c.body, header...).Want(c.status).Code(), c.code)
		})
	}
	is.Equal(a.Parts(), 0)
	is.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
		awaited, err := inbox.OpenUploads(tx)
		is.Equal(len(awaited), 0)
		return err
	}))

	// With both it goes, and what is there needs neither.
	at := a.Stranger(
		"POST", web.RequestsPath+"/p/"+locked+"/tus", "", "Upload-Length", "2", "X-Upload-Password", "sesame",
		"X-Captcha-Token", a.Solve(),
	).Want(201).Header.Get("Location")
	is.Equal(a.SendPiece(at, 0, "ab").Want(204).Header.Get("X-Kist-Status"), "pending")
}

// TestSendingTypes: what the link does not take is refused with its first bytes,
// however they come, and gives its place back.
func TestSendingTypes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(map[string]any{"maxUploads": 1, "allowedTypes": []string{"image/png"}})
	png, html := "\x89PNG\r\n\x1a\n"+strings.Repeat("x", 7992), "<html>"+strings.Repeat("x", 7994)
	for name, pieces := range map[string][]int{
		"at once": {8000}, "the beginning first": {4800, 3200}, "in small ones": {3, 4, media.Sniffed - 8, 1, 3904},
		"by the byte": {media.Sniffed - 1, 1, 3904},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			at := a.BeginSending(slug, len(html), "filename", "a.png")
			offset, refused := 0, false
			for _, n := range pieces {
				got := a.SendPiece(at, offset, html[offset:offset+n])
				offset += n
				if offset >= media.Sniffed {
					is.Equal(got.Want(415).Code(), "type_not_allowed")
					refused = true
					break
				}
				got.Want(204)
			}
			is.True(refused)
			is.Equal(a.Parts(), 0)
			a.Stranger("HEAD", at, "").Want(404)
			at = a.BeginSending(slug, len(png)) // the place is free
			a.Stranger("DELETE", at, "").Want(204)
		})
	}
	// The owner thinks otherwise meanwhile: what counts is the end.
	id := a.Get("/api/v1/upload-requests").Text("data.0.id")
	at := a.BeginSending(slug, len(png))
	a.SendPiece(at, 0, png[:900]).Want(204)
	a.Patch("/api/v1/upload-requests/"+id, map[string]any{"allowedTypes": []string{"image/gif"}}).Want(200)
	is.Equal(a.SendPiece(at, 900, png[900:]).Want(415).Code(), "type_not_allowed")
	n := 0
	for range a.Server.Blobs.All() {
		n++
	}
	is.Equal(n+a.Parts(), 0)
	a.Patch("/api/v1/upload-requests/"+id, map[string]any{"allowedTypes": []string{"image/*"}}).Want(200)
	at = a.BeginSending(slug, len(png))
	for i := 0; i < len(png); i += 250 {
		a.SendPiece(at, i, png[i:i+250]).Want(204)
	}
	is.Equal(a.Visit(at).Want(200).Text("item.status"), "pending")
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
			a := apitest.Start(t, apitest.BehindProxy)
			id, slug := a.Ask(c.fields)
			from := func(i int) string { // one network may have a third of the places unfinished
				if c.code == "sender_limit" {
					return "192.0.2.1"
				}
				return fmt.Sprintf("192.0.2.%d", i)
			}
			for round := range 2 {
				var all sync.WaitGroup
				answers := make([]*apitest.Answer, 100)
				for i := range answers {
					all.Go(func() {
						answers[i] = a.Stranger(
							"POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", "3000", "X-Forwarded-For", from(i),
						)
					})
				}
				all.Wait()
				var won []string
				for _, g := range answers {
					if g.Status == 201 {
						won = append(won, g.Header.Get("Location"))
						continue
					}
					is.Equal(g.Text("code"), c.code)
				}
				is.Equal(len(won), 7)
				for i, at := range won {
					if round == 0 {
						a.Stranger("DELETE", at, "").Want(204)
					} else {
						is.Equal(a.SendPiece(at, 0, fmt.Sprintf("%03000d", i)).Want(204).Header.Get("X-Kist-Status"), "pending")
					}
				}
			}
			is.Equal(a.Get("/api/v1/upload-requests/"+id).At("data.pendingCount"), 7.0)
		})
	}
}

// TestSendingToAClosedLink: when the link ends, is switched off or removed, or
// its owner is shut, those who send are told, and what they had reserved is
// free.
func TestSendingToAClosedLink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(a *apitest.App, id string)
		status int
	}{
		"switched off": {func(a *apitest.App, id string) {
			a.Patch("/api/v1/upload-requests/"+id, map[string]any{"isActive": false}).Want(200)
		}, 404},
		"removed": {func(a *apitest.App, id string) { a.Delete("/api/v1/upload-requests/" + id).Want(200) }, 404},
		"over": {func(a *apitest.App, id string) {
			a.Patch(
				"/api/v1/upload-requests/"+id, map[string]any{"expiresAt": a.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)},
			).Want(200)
			a.Clock.Advance(2 * time.Hour)
		}, 410},
		"its owner shut": {func(a *apitest.App, _ string) {
			a.AddUser("other", people.Admin)
			a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
				me, err := people.ReadUser(tx, a.User.ID)
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
			a := apitest.Start(t)
			id, slug := a.Ask(nil)
			at := a.BeginSending(slug, 10)
			a.SendPiece(at, 0, "hello").Want(204)
			c.end(a, id)
			is.True(strings.Contains(a.SendPiece(at, 5, "world").Want(c.status).Text("error"), "link"))
			is.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
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
	a := apitest.Start(t)
	id, slug := a.Ask(nil)
	content := strings.Repeat("0123456789", 300_000)
	at := a.BeginSending(slug, len(content), "filename", "a.bin")
	for i := 0; i < len(content); i += 700_000 {
		a.SendPiece(at, i, content[i:min(len(content), i+700_000)]).Want(204)
	}
	item := a.Visit(at).Want(200).Text("item.itemId")
	got := sha256.Sum256(a.Get("/api/v1/upload-requests/" + id + "/queue/" + item + "/content").Want(200).Body)
	want := sha256.Sum256([]byte(content))
	is.Equal(hex.EncodeToString(got[:]), hex.EncodeToString(want[:]))
}

// An upload whose bytes are coming in is not over, be they noted only at their
// end, as those with a checksum are.
func TestSweepLeavesWhatIsSent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	content := make([]byte, upload.NoteBytes+2)
	sum := sha256.Sum256(content)
	at := a.BeginSending(slug, len(content))
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "PATCH", a.URL+at, r)
	is.NoErr(err)
	req.ContentLength = int64(len(content))
	req.Header = apitest.WithHeader(
		"Tus-Resumable", "1.0.0", "Content-Type", upload.TusBody, "Upload-Offset", "0", "Upload-Checksum",
		"sha256 "+base64.StdEncoding.EncodeToString(sum[:]),
	)
	answered := make(chan int, 1)
	go func() {
		status := 0
		if res, err := apitest.Plain.Do(req); err == nil {
			_ = res.Body.Close()
			status = res.StatusCode
		}
		_ = r.Close()
		answered <- status
	}()
	ends := func() (end time.Time) {
		a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
			u, err := inbox.SenderUpload(tx, at[len(web.SentPath)+1:])
			if err == nil {
				end = u.Expires
			}
			return err
		}))
		return end
	}
	sweep := func() { a.NoErr(a.Server.Store.Update(inbox.DropUploads)) }
	begun := a.Clock.Now().Add(time.Hour)
	_, err = w.Write(content[:1])
	is.NoErr(err)
	apitest.Eventually(t, "it is not kept for longer", func() bool { return ends().After(begun) })
	a.Clock.Advance(11 * time.Minute) // until when an upload without bytes is kept
	sweep()
	a.Clock.Advance(23*time.Hour + 30*time.Minute)
	was := ends()
	_, err = w.Write(content[1 : upload.NoteBytes+1])
	is.NoErr(err)
	apitest.Eventually(t, "it is not kept for longer", func() bool { return ends().After(was) })
	a.Clock.Advance(time.Hour)
	sweep()
	_, err = w.Write(content[upload.NoteBytes+1:])
	is.NoErr(err)
	is.NoErr(w.Close())
	is.Equal(<-answered, 204)
	is.Equal(a.Get("/api/v1/upload-requests/queue").Want(200).At("total"), 1.0)
}
