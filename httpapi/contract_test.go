package httpapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/kvtest/needs"
	"kist/kv/record"
)

// TestQueueCursor: deciding a page of a queue hides nothing of the next.
func TestQueueCursor(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	q := a.Post(
		web.RequestsPath, map[string]any{"title": "T", "slug": "drop", "requiresApproval": true},
	).Want(201).Text("data.id")
	const n = 7
	for i := range n {
		r := a.UploadRequest(nil, apitest.File(fmt.Sprintf("%d.txt", i), "text/plain", fmt.Sprint("content ", i)))
		r.Path, r.Anyone = web.RequestsPath+"/p/drop/files", true
		a.Do(r).Want(201)
	}
	for _, path := range []string{
		web.RequestsPath + "/queue", web.RequestsPath + "/" + q + "/queue",
		web.RequestsPath + "/" + q + "/queue?status=pending",
	} {
		join := "?"
		if path[len(path)-1] == 'g' {
			join = "&"
		}
		seen := map[string]bool{}
		for cursor := ""; ; {
			at := path + join + "limit=3"
			if cursor != "" {
				at += "&cursor=" + cursor
			}
			page := a.Get(at).Want(200)
			for i := range page.At("items").([]any) {
				seen[page.Text(fmt.Sprintf("items.%d.itemId", i))] = true
			}
			next, more := page.At("nextCursor").(string)
			if !more {
				break
			}
			cursor = next
		}
		is.Equal(len(seen), n) // every item, on one page each
	}
	a.Do(apitest.Request{Method: "GET", Path: web.RequestsPath + "/queue?cursor=AQ", Raw: true}).Want(400)
	a.Do(apitest.Request{Method: "GET", Path: web.RequestsPath + "/queue?cursor=AQ&offset=1", Raw: true}).Want(400)

	// Decide the first page; the cursor of it still leads to the next item.
	queue := web.RequestsPath + "/" + q + "/queue"
	first := a.Get(queue + "?status=pending&limit=3").Want(200)
	ids := []string{first.Text("items.0.itemId"), first.Text("items.1.itemId"), first.Text("items.2.itemId")}
	second := a.Get(queue + "?status=pending&limit=3&cursor=" + first.Text("nextCursor")).Want(200).Text("items.0.itemId")
	done := a.Patch(queue, map[string]any{"items": append(ids, ids[0]), "action": "approve"}).Want(200)
	is.Equal(len(done.At("items").([]any)), 3)
	is.Equal(done.Text("items.2.itemId"), ids[2])
	is.Equal(done.Text("items.2.status"), "approved")
	is.Equal(
		a.Get(queue+"?status=pending&limit=3&cursor="+first.Text("nextCursor")).Want(200).Text("items.0.itemId"), second,
	)

	// All or none.
	is.Equal(
		a.CodeOf(a.Patch(queue, map[string]any{"items": []string{second, ids[0]}, "action": "reject"}), 409),
		"already_decided",
	)
	a.Patch(queue, map[string]any{"items": []string{second, q}, "action": "reject"}).Want(404)
	is.Equal(a.Get(queue+"?status=rejected").Want(200).At("total"), 0.0)
	a.Do(apitest.Request{
		Method: "PATCH", Path: queue, JSON: map[string]any{"items": []string{}, "action": "reject"}, Raw: true,
	}).Want(422)
	a.Do(apitest.Request{Method: "PATCH", Path: queue, JSON: map[string]any{"action": "reject"}, Raw: true}).Want(422)
}

// TestContract holds what clients were found to stumble over.
func TestContract(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const none = "00000000-0000-0000-0000-000000000000"
	for _, path := range []string{"tags", "folders", "keys", "upload-requests", "integrations/webhooks"} {
		a.Delete(web.APIPath + path + "/" + none).Want(404)
	}
	slug := a.Upload(nil, apitest.File("a.txt", "text/plain", "a")).Want(201).Text("slug")
	at := "/api/v1/files/" + slug
	is.Equal(
		a.Do(apitest.Request{
			Method: "PATCH", Path: at, JSON: map[string]any{"slug": "one", "newSlug": "two"}, Raw: true,
		}).Want(422).Fields(),
		[]string{"slug"},
	)
	a.Get(at).Want(200)
	a.Patch(at, map[string]any{"isFavorite": true}).Want(200)
	for _, yes := range []string{"true", "1", "yes", "TRUE", "on"} {
		is.Equal(
			a.Do(apitest.Request{Method: "GET", Path: "/api/v1/files?favorite=" + yes, Raw: true}).Want(200).At("total"), 1.0,
		)
	}
	for _, no := range []string{"false", "0", "no"} {
		is.Equal(
			a.Do(apitest.Request{Method: "GET", Path: "/api/v1/files?favorite=" + no, Raw: true}).Want(200).At("total"), 0.0,
		)
	}
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/files?favorite=maybe", Raw: true}).Want(400)
}

// TestBasePath: with a path in the base address, links work with it and without.
func TestBasePath(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Base = "https://example.org/kist" })
	a.Post("/api/v1/notes", map[string]any{"content": "hello", "slug": "one", "isPublic": true}).Want(201)
	for _, path := range []string{"/v/one", "/kist/v/one", "/x/one", "/kist/x/one", "/kist/one", "/kist/login"} {
		is.Equal(a.Do(apitest.Request{Method: "GET", Path: path, Anyone: true, Raw: true}).Status, 200)
	}
	is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/kist/claim/none", Anyone: true, Raw: true}).Status, 404)
	is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/kist/api/v1/notes", Raw: true}).Want(200).At("total"), 1.0)
	is.Equal(a.Do(apitest.Request{Method: "GET", Path: "/kisto/api/v1/notes", Raw: true}).Status, 404)
}

// The pages of approval queues end at 4 MiB, like those of other lists, and what
// follows is on the next one.
func TestQueueBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	id := a.Post(web.RequestsPath, map[string]any{"title": "T", "slug": "drop"}).Want(201).Text("data.id")
	const n = 450
	store := a.Server.Store
	var q *inbox.Request
	a.NoErr(store.View(func(tx *kv.Tx) (err error) {
		q, err = inbox.ReadRequest(tx, a.User.ID, record.ID(apitest.MustID(t, id)))
		return err
	}))
	place, err := inbox.Reserve(store, t.Context(), q, "192.0.2.7", n, n)
	is.NoErr(err)
	a.NoErr(store.Update(func(tx *kv.Tx) error {
		var came []inbox.Received
		for i := range n {
			came = append(
				came, inbox.Received{Name: fmt.Sprint(i), MimeType: "text/plain", Ref: [32]byte{byte(i), byte(i >> 8)}, Size: 1},
			)
		}
		// Each of these characters is six in JSON.
		_, err := inbox.Receive(tx, place, &inbox.SenderForm{Message: strings.Repeat("\x01", inbox.MaxMessage)}, came)
		return err
	}))
	for _, path := range []string{
		web.RequestsPath + "/queue?limit=500", web.RequestsPath + "/" + id + "/queue?limit=500",
	} {
		sizes := wholeList(a, path, "items", "itemId", n)
		is.Equal(len(sizes), 2)
		is.True(sizes[0] > web.PageBytes-100_000) // a page is full before it ends
	}
}

// The log of a webhook has pages too.
func TestDeliveryPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	at := apitest.HooksAt + "/" + a.Post(
		apitest.HooksAt, map[string]any{"url": "https://hooks.example.org/", "events": []string{"note.created"}},
	).Want(201).Text("data.id") + "/deliveries"
	const n = 110
	for i := range n {
		a.Post("/api/v1/notes", fmt.Sprintf(`{"content":"%d"}`, i)).Want(201)
	}
	store := a.Server.Store
	for tried := 0; tried < n; {
		a.NoErr(store.Update(func(tx *kv.Tx) error {
			found, _, err := jobs.DueDeliveries(tx, func(*jobs.Webhook) int { return 50 }, func(jobs.Due) bool { return false })
			for _, d := range found {
				err = errors.Join(err, jobs.Tried(tx, d.Place, jobs.Try{Status: 200, Answer: strings.Repeat("\x01", 8000)}))
				tried++
			}
			return err
		}))
	}
	sizes := wholeList(a, at, "data", "id", n)
	is.Equal(len(sizes), 2)
	is.True(sizes[0] > web.PageBytes-100_000)
	is.Equal(len(wholeList(a, at+"?limit=30", "data", "id", n)), 4)
	is.Equal(len(wholeList(a, at+"?limit=110", "data", "id", n)), 2)
	for _, bad := range []string{"?limit=0", "?limit=501", "?cursor=AQ", "?cursor=x"} {
		a.Do(apitest.Request{Method: "GET", Path: at + bad, Raw: true}).Want(400)
	}
}

// wholeList reads a list from page to page to its end: n things, each once. It
// returns how many bytes each page has.
func wholeList(a *apitest.App, path, list, id string, n int) (sizes []int) {
	a.Helper()
	seen := map[string]bool{}
	for at := path; ; {
		page := a.Get(at).Want(200)
		if page.At("total") != float64(n) {
			a.Fatalf("total %v", page.At("total"))
		}
		if len(page.Body) > web.PageBytes+200 {
			a.Errorf("a page has %d bytes", len(page.Body))
		}
		sizes = append(sizes, len(page.Body))
		for _, row := range page.At(list).([]any) {
			it, _ := row.(map[string]any)[id].(string)
			if seen[it] {
				a.Errorf("%s is there twice", it)
			}
			seen[it] = true
		}
		next, more := page.At("nextCursor").(string)
		if !more {
			break
		}
		at = path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "cursor=" + next
	}
	if len(seen) != n {
		a.Errorf("%d are there of %d", len(seen), n)
	}
	return sizes
}

// The pages of all lists end at 4 MiB, whatever their entries are.
func TestListsEndAtBytes(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const n = 120
	long := strings.Repeat("<", record.MaxDescription) // each is six bytes of JSON
	address := "https://example.org/?" + strings.Repeat("&", field.MaxURL-30)
	for i := range n {
		a.Post(web.RequestsPath, map[string]any{"title": fmt.Sprint(i), "description": long}).Want(201)
		id := a.Post("/api/v1/bookmarks", map[string]any{"url": address + fmt.Sprint(i)}).Want(201).Text("data.id")
		a.Delete("/api/v1/bookmarks/" + id).Want(200)
	}
	for _, path := range []string{
		web.RequestsPath + "?limit=500", web.RequestsPath + "?limit=500&sort=title", "/api/v1/trash?limit=500",
		"/api/v1/trash?limit=500&kind=bookmark",
	} {
		sizes := wholeList(a, path, "data", "id", n)
		is.Equal(len(sizes), 2)
		is.True(sizes[0] > web.PageBytes-100_000)
	}
	for range 5 {
		a.Post("/api/v1/notes", map[string]any{"content": strings.Repeat("<", 200_000)}).Want(201)
	}
	is.Equal(len(wholeList(a, "/api/v1/notes?limit=500", "data", "id", 5)), 2)
}

// While there is no memory, all lists wait for it, and then say that the server
// is busy.
func TestListsWaitForMemory(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	ids := map[string]string{
		"Version":       a.Post("/api/v1/notes", `{"content":"c"}`).Want(201).Text("data.id"),
		"CollectedItem": a.Post("/api/v1/collections", `{"title":"c"}`).Want(201).Text("data.id"),
		"UploadItem":    a.Post(web.RequestsPath, `{"title":"T"}`).Want(201).Text("data.id"),
		"Delivery":      a.Post(apitest.HooksAt, `{"url":"https://hooks.example.org/"}`).Want(201).Text("data.id"),
	}
	cookie := a.SessionCookie() + "=" + a.Session()
	a.FillMemory()
	n := 0
	for _, r := range a.Server.Routes() {
		name, list := "", false
		if r.Reply.Body != nil {
			name, list = strings.CutSuffix(r.Reply.Body.Name, "List")
		}
		if r.Method != "GET" || !list || name == "Setup" || name == "Version" && !strings.Contains(r.Path, "/notes/") {
			continue // the list of programs is part of the server
		}
		n++
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			got := a.With(t).Do(apitest.As(cookie, "GET", strings.Replace(r.Path, "{id}", ids[name], 1), nil)).Want(503)
			if got.Code() != "busy" || got.Header.Get("Retry-After") == "" {
				t.Errorf("%s", got.Body)
			}
		})
	}
	if n < 25 {
		t.Errorf("there are %d lists", n)
	}
}
