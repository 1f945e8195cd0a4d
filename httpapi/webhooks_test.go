package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

const hooksAt = "/api/v1/integrations/webhooks"

// runDeliveries runs the courier until the end of the test.
func (a *app) runDeliveries(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { a.server.Webhooks.Run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
}

// delivered is a request that a receiver got.
type delivered struct {
	event, id string
	header    http.Header
	body      []byte
}

func (d delivered) data(t testing.TB) map[string]any {
	t.Helper()
	var v struct{ Data map[string]any }
	if err := json.Unmarshal(d.body, &v); err != nil {
		t.Fatal(err)
	}
	return v.Data
}

// receiver is a target that answers with a status and hands over what it gets.
func (a *app) receiver(t testing.TB, status int) (address string, got chan delivered) {
	got = make(chan delivered, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- delivered{r.Header.Get("x-kist-event"), r.Header.Get("webhook-id"), r.Header, body}
		w.WriteHeader(status)
		fmt.Fprint(w, "heard")
	}))
	t.Cleanup(s.Close)
	return s.URL + "/hook", got
}

// next waits for something that is delivered.
func next(t testing.TB, got chan delivered) delivered {
	t.Helper()
	select {
	case d := <-got:
		return d
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is delivered")
		panic("")
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatal(what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// A webhook is sent what its owner writes, so a key that makes or redirects one must be allowed to read as well.
func TestWebhookScopes(t *testing.T) {
	t.Parallel()
	a := start(t)
	at := "/api/v1/integrations/webhooks"
	hook := a.post(at, `{"url":"https://example.org/hook"}`).want(201).text("data.id")
	for _, row := range []struct {
		scopes []people.Scope
		may    bool
	}{
		{[]people.Scope{people.ScopeWrite}, false},
		{[]people.Scope{people.ScopeWrite, people.ScopeUpload}, false},
		{[]people.Scope{people.ScopeRead, people.ScopeUpload}, false},
		{[]people.Scope{people.ScopeRead, people.ScopeWrite}, true},
		{[]people.Scope{people.ScopeAll}, true},
		{[]people.Scope{people.ScopeAdmin}, true},
	} {
		key := a.addKey(a.user, row.scopes...)
		made := a.do(apiRequest{method: "POST", path: at, key: key, json: `{"url":"https://example.org/hook"}`})
		edited := a.do(apiRequest{method: "PATCH", path: at + "/" + hook, key: key, json: `{"name":"x"}`})
		if row.may {
			made.want(201)
			edited.want(200)
			continue
		}
		made.want(403)
		edited.want(403)
	}
	key := a.addKey(a.user, people.ScopeWrite)
	a.do(apiRequest{method: "DELETE", path: at + "/" + hook, key: key}).want(200)
}

func TestWebhooks(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t).with(t)
	is.Equal(string(a.get(hooksAt).want(200).body), `{"webhooks":[],"data":[]}`)
	made := a.post(hooksAt, map[string]any{"name": "  home  ", "url": "HTTPS://Example.org/hook", "secret": "hush-hush"}).want(201)
	id := made.text("webhook.id")
	is.Equal(made.object("webhook"), made.object("data"))
	is.Equal(made.text("data.name"), "home")
	is.Equal(made.text("data.url"), "https://example.org/hook")
	is.Equal(made.text("data.format"), "json")
	is.Equal(made.at("data.events.0"), "*")
	is.Equal(made.at("data.enabled"), true)
	is.Equal(made.at("data.hasSecret"), true)
	for _, name := range []string{"lastStatus", "lastDeliveredAt", "lastTriedAt", "pausedAt", "formerSecretEndsAt"} {
		is.Equal(made.at("data."+name), nil)
	}
	is.Equal(made.at("data.consecutiveFailures"), 0.0)

	at := hooksAt + "/" + id
	is.Equal(a.get(at).want(200).object("data"), made.object("data"))
	got := a.patch(at, map[string]any{"events": []string{"note.created", "file.uploaded"}, "format": "discord", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "enabled": false}).want(200)
	is.Equal(got.at("data.events.1"), "file.uploaded")
	is.Equal(got.text("webhook.format"), "discord")
	is.Equal(got.text("data.name"), "home")
	is.True(got.at("data.formerSecretEndsAt") != nil)
	is.Equal(got.at("data.enabled"), false)
	got = a.patch(at, map[string]any{"secret": ""}).want(200)
	is.Equal(got.at("data.hasSecret"), false)
	is.Equal(got.at("data.formerSecretEndsAt"), nil)
	list := a.get(hooksAt).want(200)
	is.Equal(list.at("webhooks.0.id"), id)
	is.Equal(list.at("data.0.id"), id)
	is.Equal(string(a.get(at+"/deliveries").want(200).body), `{"data":[],"total":0,"nextCursor":null}`)

	// Another's is not there.
	bob := a.as(a.addKey(a.addUser("bob", people.Member), people.ScopeAll))
	is.Equal(string(bob.get(hooksAt).want(200).body), `{"webhooks":[],"data":[]}`)
	for _, q := range []apiRequest{
		{method: "GET", path: at},
		{method: "PATCH", path: at, json: "{}"},
		{method: "DELETE", path: at},
		{method: "POST", path: at + "/test"},
		{method: "GET", path: at + "/deliveries"},
		{method: "POST", path: at + "/deliveries/" + id + "/redeliver"},
	} {
		is.Equal(bob.do(q).want(404).text("error"), "There is no such webhook.")
	}
	a.do(apiRequest{method: "POST", path: at + "/deliveries/none/redeliver"}).want(404)
	a.do(apiRequest{method: "POST", path: at + "/deliveries/" + id + "/redeliver"}).want(409) // it is off
	is.Equal(string(a.delete(at).want(200).body), `{"ok":true}`)
	a.get(at).want(404)
}

// Bad input gets a sentence and stores nothing.
func TestBadWebhooks(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t).with(t)
	id := a.post(hooksAt, map[string]any{"url": "https://example.org/"}).want(201).text("data.id")
	before := string(a.get(hooksAt).body)
	for text, want := range map[string]string{
		`{}`:                                   "url",
		`{"url":""}`:                           "url",
		`{"url":"ftp://example.org/"}`:         "url",
		`{"url":"javascript:alert(1)"}`:        "url",
		`{"url":"http://user:pw@example.org"}`: "url",
		`{"url":"http://169.254.169.254/"}`:    "url",
		`{"url":"http://192.168.1.1/"}`:        "url",
		`{"url":"http://[::1]/"}`:              "url",
		`{"url":"http://2130706433/"}`:         "url",
		`{"url":"http://0x7f.1/"}`:             "url",
		`{"url":"https://example.org/","events":["note.created","note.read"]}`: "events",
		`{"url":"https://example.org/","events":[]}`:                           "events",
		`{"url":"https://example.org/","events":null,"format":"xml"}`:          "format",
		`{"url":"https://example.org/","secret":"whsec_short"}`:                "secret",
		`{"url":"https://example.org/","enabled":"maybe"}`:                     "enabled",
	} {
		got := a.do(apiRequest{method: "POST", path: hooksAt, json: text, raw: true}).want(422)
		is.Equal(got.fields(), []string{want})
		if text != "{}" {
			is.True(slices.Contains(a.do(apiRequest{method: "PATCH", path: hooksAt + "/" + id, json: strings.Replace(text, "null", `["*"]`, 1), raw: true}).want(422).fields(), want))
		}
	}
	is.Equal(string(a.get(hooksAt).body), before)
	got := a.do(apiRequest{method: "POST", path: hooksAt, json: `{"url":"http://192.168.1.1/","events":["x"],"secret":"whsec_x"}`, raw: true}).want(422)
	is.Equal(got.fields(), []string{"events", "secret", "url"}) // all at once
	is.True(strings.Contains(got.text("fields.url"), "--allow-outbound 192.168.1.1"))
	is.True(strings.Contains(got.text("fields.events"), "number 1 must be one of: file.uploaded, "))
	for range jobs.MaxWebhooks - 1 {
		a.post(hooksAt, map[string]any{"url": "https://example.org/"}).want(201)
	}
	is.Equal(a.post(hooksAt, map[string]any{"url": "https://example.org/"}).want(403).text("code"), "too_many_webhooks")
}

// An event arrives signed, is in the log with request and answer, and can be
// sent again; the secret is nowhere to be seen.
func TestDelivery(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t).with(t)
	a.runDeliveries(t)
	address, got := a.receiver(t, 200)
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	id := a.post(hooksAt, map[string]any{"url": address, "secret": secret}).want(201).text("data.id")
	at := hooksAt + "/" + id
	note := a.post("/api/v1/notes", map[string]any{"title": "T", "content": "c", "tags": []string{"x"}, "password": "open sesame"}).want(201)
	d := next(t, got)
	is.Equal(d.event, "note.created")
	hook, err := standardwebhooks.NewWebhook(secret)
	is.NoErr(err)
	is.NoErr(hook.Verify(d.body, d.header))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(d.body)
	is.Equal(d.header.Get("x-kist-signature"), "sha256="+hex.EncodeToString(mac.Sum(nil)))
	data := d.data(t)
	is.Equal(fmt.Sprint(data), fmt.Sprint(note.object("data")))

	done := func(n int) func() bool {
		return func() bool {
			list := a.get(at + "/deliveries").want(200)
			return len(list.at("data").([]any)) == n && list.at("data.0.state") == "done"
		}
	}
	eventually(t, "it is not in the log", done(1))
	log := a.get(at + "/deliveries").want(200)
	is.Equal(log.at("data.0.id"), d.id)
	is.Equal(log.at("data.0.status"), 200.0)
	is.Equal(log.at("data.0.answer"), "heard")
	is.Equal(log.at("data.0.tries"), 1.0)
	is.Equal(log.at("data.0.request.url"), address)
	is.Equal(log.at("data.0.request.headers.webhook-timestamp"), d.header.Get("webhook-timestamp"))
	is.Equal(log.at("data.0.request.body"), string(d.body))
	shown := a.get(at)
	is.Equal(shown.at("data.lastStatus"), 200.0)
	is.True(shown.at("data.lastDeliveredAt") != nil)

	a.do(apiRequest{method: "POST", path: at + "/deliveries/" + d.id + "/redeliver"}).want(200)
	again := next(t, got)
	is.Equal(again.id, d.id)
	is.Equal(string(again.body), string(d.body)) // as it was then
	is.NoErr(hook.Verify(again.body, again.header))
	eventually(t, "it is not done again", done(1))
	is.Equal(a.get(at+"/deliveries").at("data.0.tries"), 1.0)

	is.Equal(string(a.do(apiRequest{method: "POST", path: at + "/test"}).want(200).body), `{"ok":true,"status":200}`)
	is.Equal(next(t, got).event, "webhook.test")
	is.True(done(2)())
	for _, text := range []string{a.log.String(), string(a.get(hooksAt).body), string(log.body), string(d.body)} {
		is.True(!strings.Contains(text, "MfKQ9r8GKYqr"))
	}
	is.True(!strings.Contains(a.log.String(), "/hook")) // the address may be a secret too
}

// An event has the record as an answer of the API has it, whatever its kind.
func TestEventsHaveTheRecord(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t).with(t)
	a.runDeliveries(t)
	a.patch("/api/v1/admin/settings", `{"stripMetadata":false}`).want(200)
	address, got := a.receiver(t, 200)
	a.post(hooksAt, map[string]any{"url": address}).want(201)
	same := func(event string, answer *answer) {
		t.Helper()
		d := next(t, got)
		is.Equal(d.event, event)
		is.Equal(fmt.Sprint(d.data(t)), fmt.Sprint(answer.want(200).object("data")))
	}
	photo, _ := photo(t, "all.jpg")
	file := a.upload(map[string]string{"isPublic": "true", "tags": "sea", "folderName": "summer"}, file{"all.jpg", "", photo}).want(201).text("id")
	is.Equal(a.get("/api/v1/files/"+file).at("data.metadata"), "kept")
	same("file.uploaded", a.get("/api/v1/files/"+file))
	for kind, body := range map[string]string{
		"bookmarks": `{"url":"https://example.org/","title":"t","tags":["sea"]}`, "notes": `{"title":"t","content":"c"}`, "snippets": `{"title":"t","content":"c"}`,
		"recipes": `{"title":"t","ingredients":"salt"}`, "games": `{"title":"t"}`, "shorten": `{"originalUrl":"https://example.org/"}`,
		"collections": `{"title":"t","description":"d","sort":"title","isPublic":true,"allowDownload":true,"source":{"items":["` + file + `"]}}`,
	} {
		at := "/api/v1/" + kind
		made := a.post(at, body).want(201)
		item := at + "/" + made.text("data.id")
		same(made.text("data.kind")+".created", a.get(item))
		a.patch(item, `{"isFavorite":true}`).want(200)
		same(made.text("data.kind")+".updated", a.get(item))
	}
	live := a.post("/api/v1/collections", `{"title":"live","isPublic":true,"source":{"tag":"sea"}}`).want(201).text("data.id")
	same("collection.created", a.get("/api/v1/collections/"+live))
	before := a.get("/api/v1/collections/" + live).object("data")
	a.delete("/api/v1/collections/" + live).want(200)
	d := next(t, got)
	is.Equal(d.event, "collection.deleted")
	is.Equal(fmt.Sprint(d.data(t)), fmt.Sprint(before))
}

func TestWebhookTest(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t).with(t)
	address, got := a.receiver(t, 503)
	at := hooksAt + "/" + a.post(hooksAt, map[string]any{"url": address, "enabled": false, "format": "discord", "name": "n"}).want(201).text("data.id")
	answer := a.do(apiRequest{method: "POST", path: at + "/test"}).want(200)
	is.Equal(string(answer.body), `{"ok":false,"status":503,"error":"The target answered 503 Service Unavailable."}`)
	is.True(strings.Contains(string(next(t, got).body), `"embeds":[{"title":"n"`))
	is.Equal(a.get(at).at("data.lastError"), "The target answered 503 Service Unavailable.")
	is.Equal(a.get(at).at("data.consecutiveFailures"), 1.0)
	is.Equal(a.get(at+"/deliveries").at("data.0.state"), "parked")
	a.patch(at, map[string]any{"url": "https://does-not-exist.invalid/"}).want(200)
	is.Equal(a.get(at).at("data.consecutiveFailures"), 0.0)
	answer = a.do(apiRequest{method: "POST", path: at + "/test"}).want(200)
	is.Equal(answer.at("status"), 0.0)
	is.True(strings.Contains(answer.text("error"), "does-not-exist.invalid"))
}

// The log has what was sent, in the form in which it was, and nothing of what
// was given up before it was sent.
func TestLogOfUnsent(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t).with(t)
	address, got := a.receiver(t, 200)
	id := a.post(hooksAt, map[string]any{"url": address}).want(201).text("data.id")
	at := hooksAt + "/" + id
	big := jobs.Notice{Title: strings.Repeat("x", 6<<20)} // eleven do not go into a queue
	for range 11 {
		a.fatal(a.server.Store.Update(func(tx *kv.Tx) error { return jobs.Emit(tx, a.user.ID, jobs.UploadReceived, tx.NewID(), big) }))
	}
	log := a.get(at + "/deliveries").want(200)
	is.Equal(log.at("data.0.state"), "parked")
	is.Equal(log.at("data.0.tries"), 0.0)
	is.Equal(log.at("data.0.triedAt"), nil)
	is.Equal(log.at("data.0.request"), nil)

	a.do(apiRequest{method: "POST", path: at + "/test"}).want(200)
	sent := next(t, got)
	a.patch(at, `{"format":"discord"}`).want(200)
	is.Equal(a.get(at+"/deliveries").want(200).at("data.0.request.body"), string(sent.body))
}

// Every path that changes a record tells of it exactly once, and nothing else
// does.
func TestEventsOfEveryPath(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := start(t).with(t)
	a.runDeliveries(t)
	address, got := a.receiver(t, 204)
	hook := hooksAt + "/" + a.post(hooksAt, map[string]any{"url": address}).want(201).text("data.id")
	// events are those since it was last asked, sorted.
	events := func() (all []string) {
		eventually(t, "the queue does not empty", func() bool { return a.get(hook).at("data.queued") == 0.0 })
		for len(got) > 0 {
			all = append(all, (<-got).event)
		}
		slices.Sort(all)
		return all
	}
	of := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		if got := events(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	}
	for _, k := range record.Kinds[1:] {
		id := a.post("/api/v1/"+k.Path, whole[k]).want(201).text("data.id")
		of(k.Name + ".created")
		a.patch("/api/v1/"+k.Path+"/"+id, `{"isFavorite":true}`).want(200)
		of(k.Name + ".updated")
		a.get("/api/v1/" + k.Path + "/" + id).want(200)
		of()
		a.delete("/api/v1/" + k.Path + "/" + id).want(200)
		of(k.Name + ".deleted")
		a.do(apiRequest{method: "POST", path: "/api/v1/" + k.Path, json: `{"maxViews":0}`, raw: true}).want(422)
		a.do(apiRequest{method: "PATCH", path: "/api/v1/" + k.Path + "/" + id, json: `{"isPublic":true}`, raw: true}).want(404)
		of()
	}

	// Files: one upload, several at once, and a request that is repeated.
	slug := a.upload(map[string]string{"newTags": "a,b", "folderName": "F"}, file{"a.txt", "", "x"}).want(201).text("slug")
	of("file.uploaded")
	a.upload(nil, file{"a.txt", "", "x"}, file{"b.txt", "", "y"}).want(201)
	of("file.uploaded", "file.uploaded")
	for range 2 {
		q := a.uploadRequest(nil, file{"c.txt", "", "z"})
		q.header.Set("Idempotency-Key", "once")
		a.do(q).want(201)
	}
	of("file.uploaded")
	a.patch("/api/v1/files/"+slug, `{"description":"d"}`).want(200)
	of("file.updated")

	// An upload in pieces tells once, of its end, and one that is given up of nothing.
	at := a.begin(3, "filename", "p.txt")
	a.piece(at, 0, "x").want(204)
	of()
	a.piece(at, 1, "yz").want(204)
	of("file.uploaded")
	a.tus("DELETE", a.begin(3), "").want(204)
	of()

	// What browsers that are signed in do, with the app's session.
	a.withPassword(a.user, "correct horse")
	mine := a.enter("ann", "correct horse")
	id := a.do(as(mine, "POST", "/api/v1/notes", `{"content":"c"}`)).want(201).text("data.id")
	a.do(as(mine, "PATCH", "/api/v1/notes/"+id, `{"title":"t"}`)).want(200)
	a.do(as(mine, "DELETE", "/api/v1/notes/"+id, nil)).want(200)
	of("note.created", "note.updated", "note.deleted")

	// Upload requests: what strangers leave, by the API and by the plain form, and what becomes of it.
	asked, link := a.ask(nil)
	var items []string
	items = append(items, a.leave(link, nil, nil, file{"a.txt", "", "1"}).want(201).text("items.0.itemId"))
	of("upload_request.received")
	form := a.uploadRequest(nil, file{"b.txt", "", "2"}, file{"c.txt", "", "3"})
	form.path, form.anyone = "/up/"+link, true
	a.do(form).want(201)
	of("upload_request.received", "upload_request.received")
	queue := "/api/v1/upload-requests/" + asked + "/queue"
	items = append(items, a.get(queue).text("items.1.itemId"))
	for i, action := range []string{"approve", "reject"} {
		a.patch(queue+"/"+items[i], map[string]any{"action": action}).want(200)
		a.patch(queue+"/"+items[i], map[string]any{"action": action}).want(409)
		of(map[string][]string{"approve": {"upload_request.approved", "file.uploaded"}, "reject": {"upload_request.rejected"}}[action]...)
	}
	a.leave(link, nil, nil).want(422)
	a.patch("/api/v1/upload-requests/"+asked, map[string]any{"requiresApproval": false}).want(200)
	a.get(queue + "/" + a.get(queue).text("items.2.itemId") + "/content").want(200)
	of()
	a.leave(link, nil, nil, file{"d.txt", "", "4"}).want(201)
	of("upload_request.received", "file.uploaded")
	a.delete("/api/v1/upload-requests/" + asked).want(200)
	of()

	// What is imported, and nothing of what was there already.
	a.movedIn(a.moveIn(map[string]string{"dryRun": "true"}, "bookmarks.html", browserBookmarks))
	of()
	for _, want := range [][]string{{"bookmark.created"}, nil} {
		a.movedIn(a.moveIn(nil, "bookmarks.html", browserBookmarks))
		of(want...)
	}

	// Shared by phones.
	a.do(a.shareSheet(map[string]string{"title": "t", "text": "hello"})).want(303)
	a.do(a.shareSheet(map[string]string{"url": "https://go.dev"})).want(303)
	a.do(a.shareSheet(map[string]string{}, file{"a.txt", "text/plain", "aaa"}, file{"b.txt", "text/plain", "bbb"})).want(303)
	of("note.created", "bookmark.created", "file.uploaded", "file.uploaded")

	// A change of a tag or folder is not a change of its items.
	tag := a.get("/api/v1/tags").text("0.id")
	a.patch("/api/v1/tags/"+tag, `{"name":"other"}`).want(200)
	a.delete("/api/v1/tags/" + tag).want(200)
	folder := a.get("/api/v1/folders").text("data.0.id")
	a.patch("/api/v1/folders/"+folder, `{"name":"G"}`).want(200)
	a.delete("/api/v1/folders/" + folder).want(200)
	of()

	// Views, limits and ends.
	for action, want := range map[string][]string{"make_private": {"limit.reached"}, "delete": {"limit.reached", "snippet.deleted"}} {
		slug := a.post("/api/v1/snippets", fmt.Sprintf(`{"content":"c","isPublic":true,"maxViews":1,"maxViewsAction":%q}`, action)).want(201).text("data.slug")
		of("snippet.created")
		a.visit("/x/" + slug).want(200)
		of(want...)
		a.visit("/x/" + slug)
		of()
	}
	slug = a.post("/api/v1/shorten", `{"originalUrl":"https://go.dev","isPublic":true,"maxClicks":1}`).want(201).text("data.slug")
	a.visit("/s/" + slug).want(302)
	of("shortlink.created", "limit.reached")
	slug = a.upload(map[string]string{"isPublic": "true", "maxViews": "1", "maxViewsAction": "delete"}, file{"v.txt", "", "v"}).want(201).text("slug")
	a.visit("/x/" + slug).want(200)
	of("file.uploaded", "limit.reached", "file.deleted")
	slug = a.post("/api/v1/notes", `{"content":"c","isPublic":true,"maxViews":1}`).want(201).text("data.slug")
	a.do(apiRequest{method: "POST", path: "/api/v1/notes/p/" + slug, anyone: true, json: `{}`}).want(200)
	of("note.created", "limit.reached")
	slug = a.post("/api/v1/shorten", `{"originalUrl":"https://go.dev","isPublic":true,"expiresAt":"`+a.clock.now().Add(time.Hour).Format(time.RFC3339)+`"}`).want(201).text("data.slug")
	of("shortlink.created")
	a.visit("/s/" + slug).want(302)
	of()
	a.clock.advance(2 * time.Hour)
	var told []string
	eventually(t, "the end is not told", func() bool { told = append(told, events()...); return len(told) > 0 })
	is.Equal(told, []string{"item.expired"})
	a.visit("/s/" + slug).want(410)
	of()

	// An account that goes takes its webhooks along.
	bob := a.addUser("bob", people.Member)
	as := a.as(a.addKey(bob, people.ScopeAll))
	elsewhere, _ := a.receiver(t, 204)
	as.post(hooksAt, map[string]any{"url": elsewhere}).want(201)
	as.post("/api/v1/notes", `{"content":"c"}`).want(201)
	a.delete("/api/v1/admin/users/" + bob.ID.String()).want(200)
	of()
}

// Ten thousand deliveries that wait for a dead target keep nothing from
// another, take no memory to speak of, and are not looked through again and
// again.
func TestTenThousandQueued(t *testing.T) {
	needs.Alone(t)
	needs.Time(t)
	is := is.New(t)
	a := start(t)
	dead := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done() // never answers
	}))
	t.Cleanup(dead.Close)
	a.post(hooksAt, map[string]any{"url": dead.URL, "events": []string{"upload_request.received"}}).want(201)
	address, got := a.receiver(t, 204)
	a.post(hooksAt, map[string]any{"url": address, "events": []string{"bookmark.created"}}).want(201)
	notice := jobs.Notice{Title: strings.Repeat("text ", 100)}
	for range 20 {
		a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
			for range 500 {
				if err := jobs.Emit(tx, a.user.ID, jobs.UploadReceived, tx.NewID(), notice); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	before := heap()
	a.runDeliveries(t)
	most := int64(0)
	for range 10 {
		begun := time.Now()
		a.post("/api/v1/bookmarks", `{"url":"https://go.dev"}`).want(201)
		next(t, got)
		is.True(time.Since(begun) < 2*time.Second)
		most = max(most, heap()-before)
	}
	t.Logf("%d KiB more than before", most>>10)
	is.True(most < 10<<20)
}

// TestWebhookFormats: an address must be of the form that its format needs, whichever of the two is changed.
func TestWebhookFormats(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bad := a.post(hooksAt, `{"url":"https://ntfy.example.org/","format":"ntfy","events":["file.uploaded"]}`).want(422)
	is.Equal(bad.at("fields.url"), "must be that of an ntfy topic: the server, / and the topic")
	at := hooksAt + "/" + a.post(hooksAt, `{"url":"https://ntfy.example.org/topic","format":"ntfy","enabled":false}`).want(201).text("data.id")
	a.patch(at, `{"format":"gotify"}`).want(422)
	a.patch(at, `{"url":"https://ntfy.example.org/a/b"}`).want(422)
	is.Equal(a.patch(at, `{"format":"gotify","url":"https://gotify.example.org/message?token=A"}`).want(200).at("webhook.format"), "gotify")
	is.Equal(a.patch(at, `{"format":"slack"}`).want(200).at("webhook.format"), "slack")
}
