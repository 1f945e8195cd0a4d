package api_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"kist/httpapi/apitest"
	"kist/kv"
	"kist/kv/jobs"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

// A webhook is sent what its owner writes, so a key that makes or redirects one must be allowed to read as well.
func TestWebhookScopes(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	at := "/api/v1/integrations/webhooks"
	hook := a.Post(at, `{"url":"https://example.org/hook"}`).Want(201).Text("data.id")
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
		key := a.AddKey(a.User, row.scopes...)
		made := a.Do(apitest.Request{Method: "POST", Path: at, Key: key, JSON: `{"url":"https://example.org/hook"}`})
		edited := a.Do(apitest.Request{Method: "PATCH", Path: at + "/" + hook, Key: key, JSON: `{"name":"x"}`})
		if row.may {
			made.Want(201)
			edited.Want(200)
			continue
		}
		made.Want(403)
		edited.Want(403)
	}
	key := a.AddKey(a.User, people.ScopeWrite)
	a.Do(apitest.Request{Method: "DELETE", Path: at + "/" + hook, Key: key}).Want(200)
}

func TestWebhooks(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t).With(t)
	is.Equal(string(a.Get(apitest.HooksAt).Want(200).Body), `{"webhooks":[],"data":[]}`)
	made := a.Post(
		apitest.HooksAt, map[string]any{"name": "  home  ", "url": "HTTPS://Example.org/hook", "secret": "hush-hush"},
	).Want(201)
	id := made.Text("webhook.id")
	is.Equal(made.Object("webhook"), made.Object("data"))
	is.Equal(made.Text("data.name"), "home")
	is.Equal(made.Text("data.url"), "https://example.org/hook")
	is.Equal(made.Text("data.format"), "json")
	is.Equal(made.At("data.events.0"), "*")
	is.Equal(made.At("data.enabled"), true)
	is.Equal(made.At("data.hasSecret"), true)
	for _, name := range []string{"lastStatus", "lastDeliveredAt", "lastTriedAt", "pausedAt", "formerSecretEndsAt"} {
		is.Equal(made.At("data."+name), nil)
	}
	is.Equal(made.At("data.consecutiveFailures"), 0.0)

	at := apitest.HooksAt + "/" + id
	is.Equal(a.Get(at).Want(200).Object("data"), made.Object("data"))
	got := a.Patch(
		at,
		map[string]any{
			"events": []string{"note.created", "file.uploaded"}, "format": "discord",
			"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "enabled": false,
		},
	).Want(200)
	is.Equal(got.At("data.events.1"), "file.uploaded")
	is.Equal(got.Text("webhook.format"), "discord")
	is.Equal(got.Text("data.name"), "home")
	is.True(got.At("data.formerSecretEndsAt") != nil)
	is.Equal(got.At("data.enabled"), false)
	got = a.Patch(at, map[string]any{"secret": ""}).Want(200)
	is.Equal(got.At("data.hasSecret"), false)
	is.Equal(got.At("data.formerSecretEndsAt"), nil)
	list := a.Get(apitest.HooksAt).Want(200)
	is.Equal(list.At("webhooks.0.id"), id)
	is.Equal(list.At("data.0.id"), id)
	is.Equal(string(a.Get(at+"/deliveries").Want(200).Body), `{"data":[],"total":0,"nextCursor":null}`)

	// Another's is not there.
	bob := a.As(a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll))
	is.Equal(string(bob.Get(apitest.HooksAt).Want(200).Body), `{"webhooks":[],"data":[]}`)
	for _, q := range []apitest.Request{
		{Method: "GET", Path: at},
		{Method: "PATCH", Path: at, JSON: "{}"},
		{Method: "DELETE", Path: at},
		{Method: "POST", Path: at + "/test"},
		{Method: "GET", Path: at + "/deliveries"},
		{Method: "POST", Path: at + "/deliveries/" + id + "/redeliver"},
	} {
		is.Equal(bob.Do(q).Want(404).Text("error"), "There is no such webhook.")
	}
	a.Do(apitest.Request{Method: "POST", Path: at + "/deliveries/none/redeliver"}).Want(404)
	a.Do(apitest.Request{Method: "POST", Path: at + "/deliveries/" + id + "/redeliver"}).Want(409) // it is off
	is.Equal(string(a.Delete(at).Want(200).Body), `{"ok":true}`)
	a.Get(at).Want(404)
}

// Bad input gets a sentence and stores nothing.
func TestBadWebhooks(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t).With(t)
	id := a.Post(apitest.HooksAt, map[string]any{"url": "https://example.org/"}).Want(201).Text("data.id")
	before := string(a.Get(apitest.HooksAt).Body)
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
		got := a.Do(apitest.Request{Method: "POST", Path: apitest.HooksAt, JSON: text, Raw: true}).Want(422)
		is.Equal(got.Fields(), []string{want})
		if text != "{}" {
			is.True(slices.Contains(
				a.Do(apitest.Request{
					Method: "PATCH", Path: apitest.HooksAt + "/" + id, JSON: strings.Replace(text, "null", `["*"]`, 1), Raw: true,
				}).Want(422).Fields(),
				want,
			))
		}
	}
	is.Equal(string(a.Get(apitest.HooksAt).Body), before)
	got := a.Do(apitest.Request{
		Method: "POST", Path: apitest.HooksAt, JSON: `{"url":"http://192.168.1.1/","events":["x"],"secret":"whsec_x"}`,
		Raw: true,
	}).Want(422)
	is.Equal(got.Fields(), []string{"events", "secret", "url"}) // all at once
	is.True(strings.Contains(got.Text("fields.url"), "--allow-outbound 192.168.1.1"))
	is.True(strings.Contains(got.Text("fields.events"), "number 1 must be one of: file.uploaded, "))
	for range jobs.MaxWebhooks - 1 {
		a.Post(apitest.HooksAt, map[string]any{"url": "https://example.org/"}).Want(201)
	}
	is.Equal(
		a.Post(apitest.HooksAt, map[string]any{"url": "https://example.org/"}).Want(403).Text("code"), "too_many_webhooks",
	)
}

// An event arrives signed, is in the log with request and answer, and can be
// sent again; the secret is nowhere to be seen.
func TestDelivery(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t).With(t)
	a.RunDeliveries(t)
	address, got := a.Receiver(t, 200)
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	id := a.Post(apitest.HooksAt, map[string]any{"url": address, "secret": secret}).Want(201).Text("data.id")
	at := apitest.HooksAt + "/" + id
	note := a.Post(
		"/api/v1/notes", map[string]any{"title": "T", "content": "c", "tags": []string{"x"}, "password": "open sesame"},
	).Want(201)
	d := apitest.Next(t, got)
	is.Equal(d.Event, "note.created")
	hook, err := standardwebhooks.NewWebhook(secret)
	is.NoErr(err)
	is.NoErr(hook.Verify(d.Body, d.Header))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(d.Body)
	is.Equal(d.Header.Get("x-kist-signature"), "sha256="+hex.EncodeToString(mac.Sum(nil)))
	data := d.Data(t)
	is.Equal(fmt.Sprint(data), fmt.Sprint(note.Object("data")))

	done := func(n int) func() bool {
		return func() bool {
			list := a.Get(at + "/deliveries").Want(200)
			return len(list.At("data").([]any)) == n && list.At("data.0.state") == "done"
		}
	}
	apitest.Eventually(t, "it is not in the log", done(1))
	log := a.Get(at + "/deliveries").Want(200)
	is.Equal(log.At("data.0.id"), d.ID)
	is.Equal(log.At("data.0.status"), 200.0)
	is.Equal(log.At("data.0.answer"), "heard")
	is.Equal(log.At("data.0.tries"), 1.0)
	is.Equal(log.At("data.0.request.url"), address)
	is.Equal(log.At("data.0.request.headers.webhook-timestamp"), d.Header.Get("webhook-timestamp"))
	is.Equal(log.At("data.0.request.body"), string(d.Body))
	shown := a.Get(at)
	is.Equal(shown.At("data.lastStatus"), 200.0)
	is.True(shown.At("data.lastDeliveredAt") != nil)

	a.Do(apitest.Request{Method: "POST", Path: at + "/deliveries/" + d.ID + "/redeliver"}).Want(200)
	again := apitest.Next(t, got)
	is.Equal(again.ID, d.ID)
	is.Equal(string(again.Body), string(d.Body)) // as it was then
	is.NoErr(hook.Verify(again.Body, again.Header))
	apitest.Eventually(t, "it is not done again", done(1))
	is.Equal(a.Get(at+"/deliveries").At("data.0.tries"), 1.0)

	is.Equal(string(a.Do(apitest.Request{Method: "POST", Path: at + "/test"}).Want(200).Body), `{"ok":true,"status":200}`)
	is.Equal(apitest.Next(t, got).Event, "webhook.test")
	is.True(done(2)())
	for _, text := range []string{
		a.Logged.String(), string(a.Get(apitest.HooksAt).Body), string(log.Body), string(d.Body),
	} {
		is.True(!strings.Contains(text, "MfKQ9r8GKYqr"))
	}
	is.True(!strings.Contains(a.Logged.String(), "/hook")) // the address may be a secret too
}

// An event has the record as an answer of the API has it, whatever its kind.
func TestEventsHaveTheRecord(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t).With(t)
	a.RunDeliveries(t)
	a.Patch("/api/v1/admin/settings", `{"stripMetadata":false}`).Want(200)
	address, got := a.Receiver(t, 200)
	a.Post(apitest.HooksAt, map[string]any{"url": address}).Want(201)
	same := func(event string, answer *apitest.Answer) {
		t.Helper()
		d := apitest.Next(t, got)
		is.Equal(d.Event, event)
		is.Equal(fmt.Sprint(d.Data(t)), fmt.Sprint(answer.Want(200).Object("data")))
	}
	photo, _ := apitest.Photo(t, "all.jpg")
	file := a.Upload(
		map[string]string{"isPublic": "true", "tags": "sea", "folderName": "summer"}, apitest.File("all.jpg", "", photo),
	).Want(201).Text("id")
	is.Equal(a.Get("/api/v1/files/"+file).At("data.metadata"), "kept")
	same("file.uploaded", a.Get("/api/v1/files/"+file))
	for kind, body := range map[string]string{
		"bookmarks": `{"url":"https://example.org/","title":"t","tags":["sea"]}`, "notes": `{"title":"t","content":"c"}`, "snippets": `{"title":"t","content":"c"}`,
		"recipes": `{"title":"t","ingredients":"salt"}`, "games": `{"title":"t"}`, "shorten": `{"originalUrl":"https://example.org/"}`,
		"collections": `{"title":"t","description":"d","sort":"title","isPublic":true,"allowDownload":true,"source":{"items":["` + file + `"]}}`,
	} {
		at := "/api/v1/" + kind
		made := a.Post(at, body).Want(201)
		item := at + "/" + made.Text("data.id")
		same(made.Text("data.kind")+".created", a.Get(item))
		a.Patch(item, `{"isFavorite":true}`).Want(200)
		same(made.Text("data.kind")+".updated", a.Get(item))
	}
	live := a.Post(
		"/api/v1/collections", `{"title":"live","isPublic":true,"source":{"tag":"sea"}}`,
	).Want(201).Text("data.id")
	same("collection.created", a.Get("/api/v1/collections/"+live))
	before := a.Get("/api/v1/collections/" + live).Object("data")
	a.Delete("/api/v1/collections/" + live).Want(200)
	d := apitest.Next(t, got)
	is.Equal(d.Event, "collection.deleted")
	is.Equal(fmt.Sprint(d.Data(t)), fmt.Sprint(before))
}

func TestWebhookTest(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t).With(t)
	address, got := a.Receiver(t, 503)
	at := apitest.HooksAt + "/" + a.Post(
		apitest.HooksAt, map[string]any{"url": address, "enabled": false, "format": "discord", "name": "n"},
	).Want(201).Text("data.id")
	answer := a.Do(apitest.Request{Method: "POST", Path: at + "/test"}).Want(200)
	is.Equal(string(answer.Body), `{"ok":false,"status":503,"error":"The target answered 503 Service Unavailable."}`)
	is.True(strings.Contains(string(apitest.Next(t, got).Body), `"embeds":[{"title":"n"`))
	is.Equal(a.Get(at).At("data.lastError"), "The target answered 503 Service Unavailable.")
	is.Equal(a.Get(at).At("data.consecutiveFailures"), 1.0)
	is.Equal(a.Get(at+"/deliveries").At("data.0.state"), "parked")
	a.Patch(at, map[string]any{"url": "https://does-not-exist.invalid/"}).Want(200)
	is.Equal(a.Get(at).At("data.consecutiveFailures"), 0.0)
	answer = a.Do(apitest.Request{Method: "POST", Path: at + "/test"}).Want(200)
	is.Equal(answer.At("status"), 0.0)
	is.True(strings.Contains(answer.Text("error"), "does-not-exist.invalid"))
}

// The log has what was sent, in the form in which it was, and nothing of what
// was given up before it was sent.
func TestLogOfUnsent(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t).With(t)
	address, got := a.Receiver(t, 200)
	id := a.Post(apitest.HooksAt, map[string]any{"url": address}).Want(201).Text("data.id")
	at := apitest.HooksAt + "/" + id
	big := jobs.Notice{Title: strings.Repeat("x", 6<<20)} // eleven do not go into a queue
	for range 11 {
		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			return jobs.Emit(tx, a.User.ID, jobs.UploadReceived, tx.NewID(), big)
		}))
	}
	log := a.Get(at + "/deliveries").Want(200)
	is.Equal(log.At("data.0.state"), "parked")
	is.Equal(log.At("data.0.tries"), 0.0)
	is.Equal(log.At("data.0.triedAt"), nil)
	is.Equal(log.At("data.0.request"), nil)

	a.Do(apitest.Request{Method: "POST", Path: at + "/test"}).Want(200)
	sent := apitest.Next(t, got)
	a.Patch(at, `{"format":"discord"}`).Want(200)
	is.Equal(a.Get(at+"/deliveries").Want(200).At("data.0.request.body"), string(sent.Body))
}

// Every path that changes a record tells of it exactly once, and nothing else
// does.
func TestEventsOfEveryPath(t *testing.T) {
	is := is.New(t)
	t.Parallel()
	a := apitest.Start(t).With(t)
	a.RunDeliveries(t)
	address, got := a.Receiver(t, 204)
	hook := apitest.HooksAt + "/" + a.Post(apitest.HooksAt, map[string]any{"url": address}).Want(201).Text("data.id")
	// events are those since it was last asked, sorted.
	events := func() (all []string) {
		apitest.Eventually(t, "the queue does not empty", func() bool { return a.Get(hook).At("data.queued") == 0.0 })
		for len(got) > 0 {
			all = append(all, (<-got).Event)
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
		id := a.Post("/api/v1/"+k.Path, apitest.Whole[k]).Want(201).Text("data.id")
		of(k.Name + ".created")
		a.Patch("/api/v1/"+k.Path+"/"+id, `{"isFavorite":true}`).Want(200)
		of(k.Name + ".updated")
		a.Get("/api/v1/" + k.Path + "/" + id).Want(200)
		of()
		a.Delete("/api/v1/" + k.Path + "/" + id).Want(200)
		of(k.Name + ".deleted")
		a.Do(apitest.Request{Method: "POST", Path: "/api/v1/" + k.Path, JSON: `{"maxViews":0}`, Raw: true}).Want(422)
		a.Do(apitest.Request{
			Method: "PATCH", Path: "/api/v1/" + k.Path + "/" + id, JSON: `{"isPublic":true}`, Raw: true,
		}).Want(404)
		of()
	}

	// Files: one upload, several at once, and a request that is repeated.
	slug := a.Upload(
		map[string]string{"newTags": "a,b", "folderName": "F"}, apitest.File("a.txt", "", "x"),
	).Want(201).Text("slug")
	of("file.uploaded")
	a.Upload(nil, apitest.File("a.txt", "", "x"), apitest.File("b.txt", "", "y")).Want(201)
	of("file.uploaded", "file.uploaded")
	for range 2 {
		q := a.UploadRequest(nil, apitest.File("c.txt", "", "z"))
		q.Header.Set("Idempotency-Key", "once")
		a.Do(q).Want(201)
	}
	of("file.uploaded")
	a.Patch("/api/v1/files/"+slug, `{"description":"d"}`).Want(200)
	of("file.updated")

	// An upload in pieces tells once, of its end, and one that is given up of nothing.
	at := a.Begin(3, "filename", "p.txt")
	a.Piece(at, 0, "x").Want(204)
	of()
	a.Piece(at, 1, "yz").Want(204)
	of("file.uploaded")
	a.SendTus("DELETE", a.Begin(3), "").Want(204)
	of()

	// What browsers that are signed in do, with the app's session.
	a.WithPassword(a.User, "correct horse")
	mine := a.Enter("ann", "correct horse")
	id := a.Do(apitest.As(mine, "POST", "/api/v1/notes", `{"content":"c"}`)).Want(201).Text("data.id")
	a.Do(apitest.As(mine, "PATCH", "/api/v1/notes/"+id, `{"title":"t"}`)).Want(200)
	a.Do(apitest.As(mine, "DELETE", "/api/v1/notes/"+id, nil)).Want(200)
	of("note.created", "note.updated", "note.deleted")

	// Upload requests: what strangers leave, by the API and by the plain form, and what becomes of it.
	asked, link := a.Ask(nil)
	var items []string
	items = append(items, a.Leave(link, nil, nil, apitest.File("a.txt", "", "1")).Want(201).Text("items.0.itemId"))
	of("upload_request.received")
	form := a.UploadRequest(nil, apitest.File("b.txt", "", "2"), apitest.File("c.txt", "", "3"))
	form.Path, form.Anyone = "/up/"+link, true
	a.Do(form).Want(201)
	of("upload_request.received", "upload_request.received")
	queue := "/api/v1/upload-requests/" + asked + "/queue"
	items = append(items, a.Get(queue).Text("items.1.itemId"))
	for i, action := range []string{"approve", "reject"} {
		a.Patch(queue+"/"+items[i], map[string]any{"action": action}).Want(200)
		a.Patch(queue+"/"+items[i], map[string]any{"action": action}).Want(409)
		of(map[string][]string{
			"approve": {"upload_request.approved", "file.uploaded"}, "reject": {"upload_request.rejected"},
		}[action]...)
	}
	a.Leave(link, nil, nil).Want(422)
	a.Patch("/api/v1/upload-requests/"+asked, map[string]any{"requiresApproval": false}).Want(200)
	a.Get(queue + "/" + a.Get(queue).Text("items.2.itemId") + "/content").Want(200)
	of()
	a.Leave(link, nil, nil, apitest.File("d.txt", "", "4")).Want(201)
	of("upload_request.received", "file.uploaded")
	a.Delete("/api/v1/upload-requests/" + asked).Want(200)
	of()

	// What is imported, and nothing of what was there already.
	a.MovedIn(a.MoveIn(map[string]string{"dryRun": "true"}, "bookmarks.html", apitest.BrowserBookmarks))
	of()
	for _, want := range [][]string{{"bookmark.created"}, nil} {
		a.MovedIn(a.MoveIn(nil, "bookmarks.html", apitest.BrowserBookmarks))
		of(want...)
	}

	// Shared by phones.
	a.Do(a.ShareSheet(map[string]string{"title": "t", "text": "hello"})).Want(303)
	a.Do(a.ShareSheet(map[string]string{"url": "https://go.dev"})).Want(303)
	a.Do(a.ShareSheet(
		map[string]string{}, apitest.File("a.txt", "text/plain", "aaa"), apitest.File("b.txt", "text/plain", "bbb"),
	)).Want(303)
	of("note.created", "bookmark.created", "file.uploaded", "file.uploaded")

	// A change of a tag or folder is not a change of its items.
	tag := a.Get("/api/v1/tags").Text("0.id")
	a.Patch("/api/v1/tags/"+tag, `{"name":"other"}`).Want(200)
	a.Delete("/api/v1/tags/" + tag).Want(200)
	folder := a.Get("/api/v1/folders").Text("data.0.id")
	a.Patch("/api/v1/folders/"+folder, `{"name":"G"}`).Want(200)
	a.Delete("/api/v1/folders/" + folder).Want(200)
	of()

	// Views, limits and ends.
	for action, want := range map[string][]string{
		"make_private": {"limit.reached"}, "delete": {"limit.reached", "snippet.deleted"},
	} {
		slug := a.Post(
			"/api/v1/snippets", fmt.Sprintf(`{"content":"c","isPublic":true,"maxViews":1,"maxViewsAction":%q}`, action),
		).Want(201).Text("data.slug")
		of("snippet.created")
		a.Visit("/x/" + slug).Want(200)
		of(want...)
		a.Visit("/x/" + slug)
		of()
	}
	slug = a.Post(
		"/api/v1/shorten", `{"originalUrl":"https://go.dev","isPublic":true,"maxClicks":1}`,
	).Want(201).Text("data.slug")
	a.Visit("/s/" + slug).Want(302)
	of("shortlink.created", "limit.reached")
	slug = a.Upload(
		map[string]string{"isPublic": "true", "maxViews": "1", "maxViewsAction": "delete"}, apitest.File("v.txt", "", "v"),
	).Want(201).Text("slug")
	a.Visit("/x/" + slug).Want(200)
	of("file.uploaded", "limit.reached", "file.deleted")
	slug = a.Post("/api/v1/notes", `{"content":"c","isPublic":true,"maxViews":1}`).Want(201).Text("data.slug")
	a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes/p/" + slug, Anyone: true, JSON: `{}`}).Want(200)
	of("note.created", "limit.reached")
	slug = a.Post(
		"/api/v1/shorten",
		`{"originalUrl":"https://go.dev","isPublic":true,"expiresAt":"`+a.Clock.Now().Add(time.Hour).Format(time.RFC3339)+`"}`,
	).Want(201).Text("data.slug")
	of("shortlink.created")
	a.Visit("/s/" + slug).Want(302)
	of()
	a.Clock.Advance(2 * time.Hour)
	var told []string
	apitest.Eventually(t, "the end is not told", func() bool { told = append(told, events()...); return len(told) > 0 })
	is.Equal(told, []string{"item.expired"})
	a.Visit("/s/" + slug).Want(410)
	of()

	// An account that goes takes its webhooks along.
	bob := a.AddUser("bob", people.Member)
	as := a.As(a.AddKey(bob, people.ScopeAll))
	elsewhere, _ := a.Receiver(t, 204)
	as.Post(apitest.HooksAt, map[string]any{"url": elsewhere}).Want(201)
	as.Post("/api/v1/notes", `{"content":"c"}`).Want(201)
	a.Delete("/api/v1/admin/users/" + bob.ID.String()).Want(200)
	of()
}

// Ten thousand deliveries that wait for a dead target keep nothing from
// another, take no memory to speak of, and are not looked through again and
// again.
func TestTenThousandQueued(t *testing.T) {
	needs.Alone(t)
	needs.Time(t)
	is := is.New(t)
	a := apitest.Start(t)
	dead := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done() // never answers
	}))
	t.Cleanup(dead.Close)
	a.Post(apitest.HooksAt, map[string]any{"url": dead.URL, "events": []string{"upload_request.received"}}).Want(201)
	address, got := a.Receiver(t, 204)
	a.Post(apitest.HooksAt, map[string]any{"url": address, "events": []string{"bookmark.created"}}).Want(201)
	notice := jobs.Notice{Title: strings.Repeat("text ", 100)}
	for range 20 {
		a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) error {
			for range 500 {
				if err := jobs.Emit(tx, a.User.ID, jobs.UploadReceived, tx.NewID(), notice); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	before := apitest.Heap()
	a.RunDeliveries(t)
	most := int64(0)
	for range 10 {
		begun := time.Now()
		a.Post("/api/v1/bookmarks", `{"url":"https://go.dev"}`).Want(201)
		apitest.Next(t, got)
		is.True(time.Since(begun) < 2*time.Second)
		most = max(most, apitest.Heap()-before)
	}
	t.Logf("%d KiB more than before", most>>10)
	is.True(most < 10<<20)
}

// TestWebhookFormats: an address must be of the form that its format needs, whichever of the two is changed.
func TestWebhookFormats(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bad := a.Post(
		apitest.HooksAt, `{"url":"https://ntfy.example.org/","format":"ntfy","events":["file.uploaded"]}`,
	).Want(422)
	is.Equal(bad.At("fields.url"), "must be that of an ntfy topic: the server, / and the topic")
	at := apitest.HooksAt + "/" + a.Post(
		apitest.HooksAt, `{"url":"https://ntfy.example.org/topic","format":"ntfy","enabled":false}`,
	).Want(201).Text("data.id")
	a.Patch(at, `{"format":"gotify"}`).Want(422)
	a.Patch(at, `{"url":"https://ntfy.example.org/a/b"}`).Want(422)
	is.Equal(
		a.Patch(at, `{"format":"gotify","url":"https://gotify.example.org/message?token=A"}`).Want(200).At("webhook.format"),
		"gotify",
	)
	is.Equal(a.Patch(at, `{"format":"slack"}`).Want(200).At("webhook.format"), "slack")
}
