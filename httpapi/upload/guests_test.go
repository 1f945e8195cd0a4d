package upload_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/inbox"
	"kist/kv/people"
)

// sent asks about sent files.
func sent(a *apitest.App, secrets ...string) *apitest.Answer {
	a.Helper()
	return a.Do(apitest.Request{
		Method: "POST", Path: web.RequestsPath + "/sent", Anyone: true, JSON: map[string]any{"secrets": secrets},
	}).Want(200)
}

// takeBack takes a sent file back.
func takeBack(a *apitest.App, secret string) *apitest.Answer {
	a.Helper()
	return a.Do(apitest.Request{Method: "DELETE", Path: web.TakeBackPath + secret, Anyone: true})
}

// What guests send goes into the album, with their names if its owner shows them.
func TestGuestsAdd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	album := a.Collect("album", "")
	at := "/api/v1/collections/" + album
	is.Equal(a.Get(at).At("data.uploadRequestId"), nil)
	is.True(!strings.Contains(string(a.Visit("/v/album").Want(200).Body), "Add yours"))
	id, slug := a.Ask(map[string]any{"collectionId": album, "requiresName": true})
	is.Equal(a.Get(at).At("data.uploadRequestId"), id)
	link := "/api/v1/upload-requests/" + id
	is.Equal(a.Get(link).At("data.collectionId"), album)
	is.Equal(a.Visit("/api/v1/upload-requests/p/"+slug).Want(200).At("requiresName"), true)
	page := string(a.Visit("/v/album").Want(200).Body)
	is.True(strings.Contains(page, `href="/up/`+slug+`"`) && strings.Contains(page, "Add yours"))

	// A name is asked for.
	unseen := map[string]string{"name": "\u200b\ufeff\u00ad\u3164\u115f\u2800\ufe0f\U000e0041"}
	for _, none := range []map[string]string{nil, {"name": " \u202e "}, unseen} {
		is.Equal(a.CodeOf(a.Leave(slug, nil, none, apitest.File("a.txt", "", "a")), 400), "name_required")
	}
	begin := a.Stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length", "1", "Upload-Metadata",
		apitest.Meta("filename", "a.txt"))
	is.Equal(begin.Want(400).Code(), "name_required")
	is.Equal(a.Get("/api/v1/upload-requests/queue").At("total"), 0.0)
	is.Equal(len(a.BlobNames()), 0)

	const hostile = `<i>Bob</i> "&amp;`
	came := a.Leave(slug, nil, map[string]string{"name": hostile + "\u202e"}, apitest.File("a.txt", "", "a")).Want(201)
	is.Equal(a.Get(at).At("data.itemCount"), 0.0)
	decided := a.Patch(link+"/queue", map[string]any{"items": []string{came.Text("items.0.itemId")}, "action": "approve"})
	is.Equal(decided.Want(200).At("items.0.notCollected"), nil)
	file := decided.Text("items.0.fileId")
	is.Equal(a.Get(at+"/items").IDs(), []string{file})
	is.Equal(a.Get("/api/v1/files/"+file).Want(200).At("data.uploaderName"), hostile)
	is.True(!strings.Contains(string(a.Visit("/v/album").Want(200).Body), "Bob"))
	a.Patch(at, map[string]any{"showNames": true}).Want(200)
	page = string(a.Visit("/v/album").Want(200).Body)
	is.True(strings.Contains(page, "from &lt;i&gt;Bob&lt;/i&gt; &#34;&amp;amp;"))

	// A member sees the name on the board only, and no request.
	bob := a.AddUser("bob", people.Member)
	key := a.AddKey(bob, people.ScopeRead)
	a.Do(apitest.Request{Method: "PUT", Path: at + "/members/" + bob.ID.String(), JSON: map[string]any{"role": "see"}}).Want(200)
	is.Equal(a.As(key).Get("/api/v1/files/"+file).Want(200).At("data.uploaderName"), "")
	is.Equal(a.As(key).Get(at).Want(200).At("data.uploadRequestId"), nil)

	// New bytes do not change who sent it. What the owner adds has no name.
	own := a.Upload(nil, apitest.File("own.txt", "", "own")).Want(201)
	is.Equal(own.At("uploaderName"), "")
	a.Do(apitest.Request{
		Method: "PUT", Path: "/api/v1/files/" + file + "/content", Body: strings.NewReader("new"),
		Header: apitest.WithHeader("Content-Type", "text/plain"), Raw: true,
	}).Want(200)
	is.Equal(a.Get("/api/v1/files/"+file).At("data.uploaderName"), hostile)

	// Closed, there is no way in; and a second request takes over.
	a.Patch(link, map[string]any{"isActive": false}).Want(200)
	is.True(!strings.Contains(string(a.Visit("/v/album").Want(200).Body), "Add yours"))
	is.Equal(a.Get(at).At("data.uploadRequestId"), id) // the owner sees it still
	second, _ := a.Ask(map[string]any{"collectionId": album})
	is.Equal(a.Get(at).At("data.uploadRequestId"), second)
	is.Equal(a.Get(link).At("data.collectionId"), nil)
	a.Patch("/api/v1/upload-requests/"+second, map[string]any{"collectionId": nil}).Want(200)
	is.Equal(a.Get(at).At("data.uploadRequestId"), nil)

	// Only an album of one's own takes what guests send.
	a.Post("/api/v1/notes", map[string]any{"content": "x", "tags": []string{"sea"}}).Want(201)
	live := a.Post("/api/v1/collections", map[string]any{"title": "Sea", "source": map[string]any{"tag": "sea"}}).Want(201)
	for _, bad := range []string{live.Text("data.id"), file, bob.ID.String()} {
		q := apitest.Request{Method: "PATCH", Path: link, JSON: map[string]any{"collectionId": bad}}
		is.True(a.Do(q).Want(422).Text("fields.collectionId") != "")
	}
	a.Delete(at).Want(200)
	a.Patch(link, map[string]any{"isActive": true, "requiresName": false}).Want(200)
	is.Equal(a.Get(link).At("data.requiresName"), false)
}

// A sender sees what was sent and takes it back.
func TestSentFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	album := a.Collect("album", "")
	id, slug := a.Ask(map[string]any{"collectionId": album, "maxUploads": 3})
	link := "/api/v1/upload-requests/" + id
	key := http.Header{"Idempotency-Key": {"one"}}
	came := a.Leave(slug, key, nil, apitest.File("a.txt", "", "aa"), apitest.File("b.txt", "", "bbb")).Want(201)
	one, two := came.Text("items.0.takeBack"), came.Text("items.1.takeBack")
	is.True(one != two)
	again := a.Leave(slug, key, nil, apitest.File("a.txt", "", "aa"), apitest.File("b.txt", "", "bbb")).Want(201)
	is.Equal(string(again.Body), string(came.Body))
	up := a.BeginSending(slug, 1, "filename", "c.txt")
	end := a.SendPiece(up, 0, "c").Want(204)
	three := end.Header.Get("X-Kist-Take-Back")
	is.Equal(a.Visit(up).Want(200).Text("item.takeBack"), three)
	is.Equal(a.Stranger("HEAD", up, "").Want(200).Header.Get("X-Kist-Take-Back"), three)
	sealed, err := base64.RawURLEncoding.DecodeString(one)
	is.NoErr(err)
	for _, known := range []string{id, came.Text("items.0.itemId"), a.User.ID.String()} {
		is.True(!strings.Contains(fmt.Sprintf("%x", sealed), strings.ReplaceAll(known, "-", "")))
	}

	got := sent(a, one, two, three, "x", one[:len(one)-1]+"_")
	is.Equal(len(got.At("items").([]any)), 5)
	is.Equal(got.Text("items.0.status")+got.Text("items.0.fileName")+fmt.Sprint(got.At("items.0.fileSize")), "pendinga.txt2")
	until, err := time.Parse(time.RFC3339, got.Text("items.0.until"))
	is.NoErr(err)
	is.True(until.Sub(a.Clock.Now()) <= inbox.TakeBackTime)
	for _, n := range []string{"3", "4"} {
		is.Equal(got.Text("items."+n+".status")+got.Text("items."+n+".fileName"), "gone")
	}
	q := apitest.Request{
		Method: "POST", Path: web.RequestsPath + "/sent", Anyone: true, Raw: true,
		JSON: map[string]any{"secrets": make([]string, 201)},
	}
	a.Do(q).Want(422)

	// One waits, one is a file, one was declined.
	is.Equal(a.CodeOf(a.Leave(slug, nil, nil, apitest.File("d.txt", "", "d")), 403), "limit_reached")
	takeBack(a, one).Want(200)
	a.CodeOf(takeBack(a, one), 404)
	is.Equal(a.Get(link).At("data.uploadsCount"), 2.0)
	is.Equal(a.Get(link).At("data.pendingCount"), 1.0+1)
	is.Equal(sent(a, one).At("items.0.status"), "gone")
	queue := a.Get(link + "/queue").Want(200)
	approve := queue.Text("items.0.itemId")
	file := a.Patch(link+"/queue/"+approve, map[string]any{"action": "approve"}).Want(200).Text("data.fileId")
	is.Equal(sent(a, two).At("items.0.status"), "approved")
	is.Equal(a.Get("/api/v1/collections/"+album+"/items").IDs(), []string{file})
	takeBack(a, two).Want(200)
	is.Equal(a.Get("/api/v1/collections/"+album+"/items").At("total"), 0.0)
	is.Equal(a.Get("/api/v1/trash").Want(200).Text("data.0.id"), file)
	a.Get("/api/v1/files/" + file).Want(404)
	a.Patch(link+"/queue/"+queue.Text("items.1.itemId"), map[string]any{"action": "reject"}).Want(200)
	is.Equal(sent(a, three).At("items.0.status"), "rejected")
	is.Equal(a.CodeOf(takeBack(a, three), 409), "already_decided")
	a.CodeOf(takeBack(a, "x"), 404)

	// After an hour; and it is in no log.
	four := a.Leave(slug, nil, nil, apitest.File("d.txt", "", "d")).Want(201).Text("items.0.takeBack")
	a.Clock.Advance(inbox.TakeBackTime)
	is.Equal(sent(a, four).At("items.0.status"), "gone")
	is.Equal(a.CodeOf(takeBack(a, four), 410), "too_late")
	is.True(!strings.Contains(a.Logged.String(), four))
	is.True(a.Sound())
}

// A wedding: 60 guests send at once, some in pieces over broken connections, some the same form twice; some take a file
// back. Limits are exact, nothing is doubled, and the album has everything once in the order of the decision.
func TestWedding(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const guests, each = 60, 5
	album := a.Collect("wedding", `,"showNames":true`)
	id, slug := a.Ask(map[string]any{"collectionId": album, "maxUploads": guests * (each - 1), "requiresName": true})
	link := "/api/v1/upload-requests/" + id

	var mu sync.Mutex
	kept, refused := map[string]bool{}, 0
	note := func(names ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range names {
			if kept[name] {
				t.Errorf("%s came twice", name)
			}
			kept[name] = true
		}
	}
	full := func() {
		mu.Lock()
		defer mu.Unlock()
		refused++
	}
	var all sync.WaitGroup
	for g := range guests {
		all.Go(func() {
			name := fmt.Sprint("guest-", g)
			for n := range each {
				file := fmt.Sprintf("%s-%d.txt", name, n)
				if n == 0 && g%3 == 0 { // in pieces; the first request of the second piece breaks off
					begun := a.Stranger("POST", web.RequestsPath+"/p/"+slug+"/tus", "", "Upload-Length",
						fmt.Sprint(len(file)), "Upload-Metadata", apitest.Meta("filename", file, "name", name))
					if begun.Status == http.StatusForbidden {
						full()
						continue
					}
					at := begun.Want(201).Header.Get("Location")
					a.SendPiece(at, 0, file[:4]).Want(204)
					a.SendPiece(at, 0, file[:4]).Want(409) // the answer was lost
					a.SendPiece(at, 4, file[4:]).Want(204)
					a.SendPiece(at, len(file), "").Want(204)
					note(file)
					continue
				}
				key := http.Header{"Idempotency-Key": {file}}
				send := func() *apitest.Answer {
					return a.Leave(slug, key, map[string]string{"name": name}, apitest.File(file, "", file))
				}
				got := send()
				if got.Status == http.StatusForbidden {
					full()
					continue
				}
				got.Want(201)
				if g%5 == 0 { // the answer was lost
					is.Equal(string(send().Want(201).Body), string(got.Body))
				}
				if n == 1 && g%10 == 0 {
					takeBack(a, got.Text("items.0.takeBack")).Want(200)
					continue
				}
				note(file)
			}
		})
	}
	all.Wait()
	q := a.Get(link).Want(200)
	is.Equal(q.At("data.uploadsCount"), float64(len(kept)))
	is.True(len(kept) <= guests*(each-1))
	is.True(refused > 0)
	for len(kept) < guests*(each-1) { // the places of what was taken back
		file := fmt.Sprint("late-", len(kept))
		a.Leave(slug, nil, map[string]string{"name": "late"}, apitest.File(file, "", file)).Want(201)
		note(file)
	}
	is.Equal(a.CodeOf(a.Leave(slug, nil, map[string]string{"name": "x"}, apitest.File("x", "", "x")), 403), "limit_reached")

	var ids, names []string
	queue := a.Get(link + "/queue?status=pending&limit=500").Want(200)
	for _, one := range queue.At("items").([]any) {
		item := one.(map[string]any)
		ids, names = append(ids, item["itemId"].(string)), append(names, item["fileName"].(string))
	}
	is.Equal(len(ids), guests*(each-1))
	decided := a.Patch(link+"/queue", map[string]any{"items": ids, "action": "approve"}).Want(200)
	is.Equal(a.Get(link).At("data.pendingCount"), 0.0)
	var files []string
	for n, one := range decided.At("items").([]any) {
		item := one.(map[string]any)
		is.Equal(item["fileName"], names[n])
		is.True(kept[names[n]])
		files = append(files, item["fileId"].(string))
	}
	is.Equal(a.Get("/api/v1/collections/"+album+"/items?limit=500").Want(200).IDs(), files)
	is.Equal(a.Get("/api/v1/collections/"+album).At("data.itemCount"), float64(len(files)))
	is.Equal(a.Get("/api/v1/files").At("total"), float64(len(files)))
	is.True(a.Sound())
}

// What is taken back stays on the disk for a time, so a link has a bound for it.
func TestTakenBackIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Server.Limits.TakenBack.Most = 2
	_, slug := a.Ask(nil)
	var secrets []string
	for range 3 {
		got := a.Leave(slug, nil, nil, apitest.File("a.txt", "", "aa")).Want(201)
		secrets = append(secrets, got.Text("items.0.takeBack"))
	}
	takeBack(a, secrets[0]).Want(200)
	takeBack(a, secrets[1]).Want(200)
	is.Equal(a.CodeOf(takeBack(a, secrets[2]), 429), "too_many_writes")
	is.Equal(sent(a, secrets[2]).Text("items.0.status"), "pending")
	_, other := a.Ask(nil)
	takeBack(a, a.Leave(other, nil, nil, apitest.File("a.txt", "", "aa")).Want(201).Text("items.0.takeBack")).Want(200)
}
