package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/julienschmidt/httprouter"
	"github.com/matryer/is"

	"kist/httpapi/grant"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/inbox"
	"kist/kv/record"
)

// sendPart uploads a part of a sender's and returns its address.
func (a *app) sendPart(slug, content string, header ...string) string {
	a.Helper()
	at := a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", append([]string{"Upload-Length", fmt.Sprint(len(content)), "Upload-Concat", "partial"}, header...)...).want(201).header.Get("Location")
	if content != "" {
		a.sendPiece(at, 0, content, header...).want(204)
	}
	return at
}

// joinSent asks for a file of a sender's parts.
func (a *app) joinSent(slug string, parts []string, header ...string) *answer {
	a.Helper()
	return a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", append([]string{"Upload-Concat", "final;" + strings.Join(parts, " ")}, header...)...)
}

// queued are the names and the sizes of what waits for approval.
func (a *app) queued() (all []string) {
	a.Helper()
	list := a.get("/api/v1/upload-requests/queue").want(200)
	for i := range int(list.at("total").(float64)) {
		all = append(all, fmt.Sprintf("%s %v", list.text(fmt.Sprintf("items.%d.fileName", i)), list.at(fmt.Sprintf("items.%d.fileSize", i))))
	}
	return all
}

func (a *app) audits() {
	a.Helper()
	a.fatal(a.server.Store.View(func(tx *kv.Tx) error { return tx.Audit(func(err error) { a.Error(err) }) }))
}

// Parts that a sender uploads side by side become one file of the queue, in the
// order in which they are named.
func TestSendingParts(t *testing.T) {
	is := is.New(t)
	a := start(t)
	id, slug := a.ask(map[string]any{"maxUploads": 1, "perUserUploadLimit": 1, "maxTotalSize": 11, "password": "sesame", "requiresCaptcha": true})
	pass := []string{"X-Upload-Password", "sesame", "X-Captcha-Token"}
	parts := []string{a.sendPart(slug, "hello ", append(pass, a.solve())...), a.sendPart(slug, "", append(pass, a.solve())...), a.sendPart(slug, "world", append(pass, a.solve())...)}
	head := a.stranger("HEAD", parts[0], "").want(200)
	is.Equal(head.header.Get("Upload-Concat"), "partial")
	is.Equal(head.header.Get("Upload-Offset"), "6")
	is.Equal(head.header.Get("X-Kist-Item"), "") // nothing on its own
	is.Equal(len(a.queued()), 0)
	is.Equal(a.get("/api/v1/upload-requests/"+id).want(200).at("data.uploadsCount"), 0.0)
	is.Equal(a.get(upload.TusPath).want(200).at("total"), 0.0)
	is.Equal(a.parts(), 3)

	parts[2] = "https://kist.example.org" + parts[2] // whole addresses, too
	said := []string{"Upload-Metadata", meta("filename", "Sea.txt", "name", "Bob", "message", "hi"), "X-Upload-Password", "sesame"}
	is.Equal(a.joinSent(slug, parts, said[:2]...).want(401).code(), "password_required")
	made := a.joinSent(slug, parts, said...).want(201)
	at := made.header.Get("Location")
	is.True(strings.HasPrefix(at, web.SentPath+"/") && len(at) >= len(web.SentPath)+1+22)
	is.Equal(made.header.Get("Upload-Offset"), "11")
	is.Equal(made.header.Get("X-Kist-Status"), "pending")
	is.Equal(a.queued(), []string{"Sea.txt 11"})
	queue := a.get("/api/v1/upload-requests/queue").want(200)
	is.Equal(queue.text("items.0.itemId"), made.header.Get("X-Kist-Item"))
	is.Equal(queue.text("items.0.uploaderName"), "Bob")
	is.Equal(queue.text("items.0.message"), "hi")
	is.Equal(string(a.get("/api/v1/upload-requests/"+id+"/queue/"+made.header.Get("X-Kist-Item")+"/content").want(200).body), "hello world")
	is.Equal(a.parts(), 0)
	is.Equal(a.visit(at).want(200).text("item.itemId"), made.header.Get("X-Kist-Item"))
	is.Equal(a.sendPiece(at, 11, "x").want(403).code(), "upload_is_final")
	is.Equal(a.stranger("DELETE", parts[0], "").want(409).code(), "upload_complete")
	is.True(!strings.Contains(a.log.String(), at[len(web.SentPath)+1:]))

	// Anyone who missed the answer asks again and gets the same, though the link is full.
	again := a.joinSent(slug, parts, said...).want(201)
	is.Equal(again.header.Get("Location"), at)
	is.Equal(again.header.Get("X-Kist-Item"), made.header.Get("X-Kist-Item"))
	is.Equal(len(a.queued()), 1)
	is.Equal(a.joinSent(slug, parts[:2], said...).want(409).code(), "upload_complete")
	a.audits()
}

// Without approval the parts become a private file at once.
func TestSendingPartsWithoutApproval(t *testing.T) {
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(map[string]any{"requiresApproval": false})
	made := a.joinSent(slug, []string{a.sendPart(slug, "ab"), a.sendPart(slug, "c")}, "Upload-Metadata", meta("filename", "z.txt")).want(201)
	is.Equal(made.text("item.status"), "approved")
	files := a.get("/api/v1/files").want(200)
	is.Equal(files.at("total"), 1.0)
	is.Equal(files.text("data.0.originalName"), "z.txt")
	is.Equal(files.at("data.0.isPublic"), false)
}

// The limits of the link hold for the whole. What is refused leaves the parts as
// they were, but for a type that the link does not take.
func TestSendingPartsRefuses(t *testing.T) {
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	_, slug := a.ask(map[string]any{"maxFileSize": 10, "allowedTypes": []string{".txt"}})
	_, elsewhere := a.ask(nil)
	one, two := a.sendPart(slug, "123456"), a.sendPart(slug, "789012")
	half := a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", "2", "Upload-Concat", "partial").want(201).header.Get("Location")
	whole := a.beginSending(slug, 1, "filename", "a.txt")
	mine := a.part("mine")
	name := []string{"Upload-Metadata", meta("filename", "a.txt")}
	for what, c := range map[string]struct {
		status int
		code   string
		slug   string
		parts  []string
		header []string
	}{
		"none":            {400, "malformed", slug, nil, name},
		"twice":           {400, "malformed", slug, []string{one, one}, name},
		"no address":      {400, "malformed", slug, []string{"x"}, name},
		"an owner's":      {400, "malformed", slug, []string{mine}, name},
		"unknown":         {404, "not_found", slug, []string{one + "0"}, name},
		"another link's":  {404, "not_found", elsewhere, []string{one}, name},
		"another sender":  {404, "not_found", slug, []string{one}, append([]string{"X-Forwarded-For", "192.0.2.7"}, name...)},
		"not a part":      {400, "malformed", slug, []string{whole}, name},
		"not complete":    {409, "upload_incomplete", slug, []string{one, half}, name},
		"with a length":   {400, "malformed", slug, []string{one}, append([]string{"Upload-Length", "6"}, name...)},
		"too large":       {413, "too_large", slug, []string{one, two}, name},
		"type by name":    {415, "type_not_allowed", slug, []string{one}, []string{"Upload-Metadata", meta("filename", "a.png")}},
		"long name":       {422, "invalid_fields", slug, []string{one}, []string{"Upload-Metadata", meta("filename", "a.txt", "name", strings.Repeat("x", 101))}},
		"too many":        {400, "malformed", slug, strings.Fields(strings.Repeat(one+" ", upload.MaxJoined+1)), name},
		"no such link":    {404, "not_found", "nothing", []string{one}, name},
		"neither of both": {400, "malformed", slug, nil, []string{"Upload-Concat", "some"}},
	} {
		got := a.joinSent(c.slug, c.parts, c.header...)
		if got.status != c.status || got.code() != c.code {
			t.Errorf("%s: %d %s, want %d %s", what, got.status, got.body, c.status, c.code)
		}
	}
	too := a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", "11", "Upload-Concat", "partial")
	is.Equal(too.want(413).code(), "too_large") // a part has no more than the whole
	is.Equal(len(a.queued()), 0)
	is.Equal(a.parts(), 5)
	is.Equal(a.stranger("HEAD", one, "").want(200).header.Get("Upload-Offset"), "6")
	a.joinSent(slug, []string{one}, name...).want(201)
	is.Equal(a.queued(), []string{"a.txt 6"})
	is.Equal(a.joinSent(slug, []string{two, one}, name...).want(413).code(), "too_large")
	a.stranger("DELETE", two, "").want(204)
	is.Equal(a.parts(), 3)
	a.audits()

	// The bytes say what it is once they are joined.
	_, slug = a.ask(map[string]any{"allowedTypes": []string{"image/png"}})
	parts := []string{a.sendPart(slug, "<ht"), a.sendPart(slug, "ml>")}
	is.Equal(a.joinSent(slug, parts, "Upload-Metadata", meta("filename", "a.png")).want(415).code(), "type_not_allowed")
	for _, at := range parts {
		a.stranger("HEAD", at, "").want(404)
	}
	is.Equal(a.parts(), 3)
	parts = []string{a.sendPart(slug, "\x89PNG\r\n"), a.sendPart(slug, "\x1a\n")}
	a.joinSent(slug, parts, "Upload-Metadata", meta("filename", "a.png")).want(201)
	is.Equal(a.queued(), []string{"a.txt 6", "a.png 8"})
	a.audits()
}

// Parts count against the bytes that the link has left, and not as files. Their
// number is bounded with that of what was begun.
func TestSendingPartsCount(t *testing.T) {
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(map[string]any{"maxTotalSize": 12, "maxUploads": 2, "perUserUploadLimit": 2})
	begin := func(slug string, header ...string) *answer {
		return a.stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", append([]string{"Upload-Length", "1"}, header...)...)
	}
	parts := []string{a.sendPart(slug, "1234"), a.sendPart(slug, "5678"), a.sendPart(slug, "9012")}
	is.Equal(begin(slug, "Upload-Concat", "partial").want(403).code(), "limit_reached")
	is.Equal(begin(slug).want(403).code(), "limit_reached")
	is.Equal(a.leave(slug, nil, nil, file{"a", "", "x"}).want(403).code(), "limit_reached")
	a.joinSent(slug, parts[:2], "Upload-Metadata", meta("filename", "a.txt")).want(201)
	is.Equal(begin(slug).want(403).code(), "limit_reached") // the third has its place
	a.stranger("DELETE", parts[2], "").want(204)
	one := begin(slug).want(201).header.Get("Location")
	part := begin(slug, "Upload-Concat", "partial")
	is.Equal(part.want(403).code(), "limit_reached") // the link takes no file that it could be of
	a.stranger("DELETE", one, "").want(204)
	a.joinSent(slug, []string{a.sendPart(slug, "x"), a.sendPart(slug, "y")}, "Upload-Metadata", meta("filename", "b.txt")).want(201)
	is.Equal(a.queued(), []string{"a.txt 8", "b.txt 2"})
	is.Equal(begin(slug, "Upload-Concat", "partial").want(403).code(), "limit_reached")

	_, many := a.ask(nil)
	for range 50 {
		begin(many, "Upload-Concat", "partial").want(201)
	}
	is.Equal(begin(many, "Upload-Concat", "partial").want(403).code(), "too_many_uploads")
	is.Equal(begin(many).want(403).code(), "too_many_uploads")
	a.audits()

	// Nobody goes on with them.
	a.clock.advance(25 * time.Hour)
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error { return inbox.DropUploads(tx) }))
	begin(many).want(201)
	a.audits()
}

// A link that is switched off ends the parts.
func TestSendingPartsToAClosedLink(t *testing.T) {
	is := is.New(t)
	a := start(t)
	id, slug := a.ask(nil)
	parts := []string{a.sendPart(slug, "ab"), a.sendPart(slug, "cd")}
	a.patch("/api/v1/upload-requests/"+id, map[string]any{"isActive": false}).want(200)
	a.joinSent(slug, parts).want(404)
	a.stranger("HEAD", parts[0], "").want(404)
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error { return inbox.DropUploads(tx) }))
	a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
		awaited, err := inbox.OpenUploads(tx)
		is.Equal(len(awaited), 0)
		return err
	}))
	a.patch("/api/v1/upload-requests/"+id, map[string]any{"isActive": true}).want(200)
	a.joinSent(slug, parts).want(404)
	is.Equal(len(a.queued()), 0)
	a.audits()
}

// Of many files whose parts are joined at the same time, the link takes as many as
// it should. Who asks for the same file again and again has it once.
func TestRacingSendingParts(t *testing.T) {
	is := is.New(t)
	a := start(t, behindProxy)
	_, slug := a.ask(map[string]any{"maxUploads": 3})
	sets := make([][]string, 8)
	from := func(i int) []string { return []string{"X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i)} }
	for i := range sets { // one network may have a third of the places unfinished
		sets[i] = []string{a.sendPart(slug, "ab", from(i)...), a.sendPart(slug, "cd", from(i)...)}
	}
	joined := func(sets [][]string, from func(int) []string) (made int) {
		answers := make([]*answer, len(sets))
		var all sync.WaitGroup
		for i, parts := range sets {
			all.Go(func() { answers[i] = a.joinSent(slug, parts, from(i)...) })
		}
		all.Wait()
		for _, got := range answers {
			if got.status == 201 {
				made++
			}
		}
		return made
	}
	is.Equal(joined(sets, from), 3)
	is.Equal(len(a.queued()), 3)
	is.Equal(a.parts(), 10) // of those that were refused

	_, slug = a.ask(nil)
	parts := []string{a.sendPart(slug, "ef"), a.sendPart(slug, "gh")}
	joined([][]string{parts, parts, parts, parts, parts, parts, parts, parts}, func(int) []string { return nil })
	a.joinSent(slug, parts).want(201)
	is.Equal(len(a.queued()), 4)
	is.Equal(a.parts(), 10)
	a.audits()
}

// A request for an upload that is not there forgets none that another request
// begins at that address meanwhile.
func TestSendingPartsWhileAsked(t *testing.T) {
	t.Parallel()
	a := start(t)
	_, slug := a.ask(nil)
	parts := []string{a.sendPart(slug, "hello "), a.sendPart(slug, "world")}
	var secrets []string
	for _, at := range parts {
		secrets = append(secrets, at[strings.LastIndex(at, "/")+1:])
	}
	digest := sha256.Sum256([]byte("kist joined " + strings.Join(secrets, " ")))
	secret := base64.RawURLEncoding.EncodeToString(digest[:])
	from := grant.Network(netip.MustParseAddr("127.0.0.1")).String()
	asked := upload.SenderOperation(func(c *web.Request) error {
		var q *record.Request
		if err := c.Site.Store.View(func(tx *kv.Tx) (err error) { q, err = inbox.RequestAt(tx, slug); return err }); err != nil {
			return err
		}
		if _, joined, err := inbox.JoinSent(c.Site.Store, t.Context(), q, inbox.Upload{Length: 11}, from, secrets); err != nil || joined != secret {
			t.Error(err)
		}
		return record.NotFound("upload") // as it was a moment ago
	})
	c := &web.Request{Site: a.server.Site, R: httptest.NewRequest("HEAD", "/", nil), Args: httprouter.Params{{Key: "secret", Value: secret}}}
	if err := asked(c); !kv.Missing(err) {
		t.Error(err)
	}
	a.stranger("HEAD", web.RequestsPath+"/tus/"+secret, "").want(200)
	for _, at := range parts {
		a.stranger("HEAD", at, "").want(200)
	}
	a.audits()
}
