package httpapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

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
	a := start(t)
	q := a.post(web.RequestsPath, map[string]any{"title": "T", "slug": "drop", "requiresApproval": true}).want(201).text("data.id")
	const n = 7
	for i := range n {
		r := a.uploadRequest(nil, file{fmt.Sprintf("%d.txt", i), "text/plain", fmt.Sprint("content ", i)})
		r.path, r.anyone = web.RequestsPath+"/p/drop/files", true
		a.do(r).want(201)
	}
	for _, path := range []string{web.RequestsPath + "/queue", web.RequestsPath + "/" + q + "/queue", web.RequestsPath + "/" + q + "/queue?status=pending"} {
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
			page := a.get(at).want(200)
			for i := range page.at("items").([]any) {
				seen[page.text(fmt.Sprintf("items.%d.itemId", i))] = true
			}
			next, more := page.at("nextCursor").(string)
			if !more {
				break
			}
			cursor = next
		}
		is.Equal(len(seen), n) // every item, on one page each
	}
	a.do(apiRequest{method: "GET", path: web.RequestsPath + "/queue?cursor=AQ", raw: true}).want(400)
	a.do(apiRequest{method: "GET", path: web.RequestsPath + "/queue?cursor=AQ&offset=1", raw: true}).want(400)

	// Decide the first page; the cursor of it still leads to the next item.
	queue := web.RequestsPath + "/" + q + "/queue"
	first := a.get(queue + "?status=pending&limit=3").want(200)
	ids := []string{first.text("items.0.itemId"), first.text("items.1.itemId"), first.text("items.2.itemId")}
	second := a.get(queue + "?status=pending&limit=3&cursor=" + first.text("nextCursor")).want(200).text("items.0.itemId")
	done := a.patch(queue, map[string]any{"items": append(ids, ids[0]), "action": "approve"}).want(200)
	is.Equal(len(done.at("items").([]any)), 3)
	is.Equal(done.text("items.2.itemId"), ids[2])
	is.Equal(done.text("items.2.status"), "approved")
	is.Equal(a.get(queue+"?status=pending&limit=3&cursor="+first.text("nextCursor")).want(200).text("items.0.itemId"), second)

	// All or none.
	is.Equal(a.codeOf(a.patch(queue, map[string]any{"items": []string{second, ids[0]}, "action": "reject"}), 409), "already_decided")
	a.patch(queue, map[string]any{"items": []string{second, q}, "action": "reject"}).want(404)
	is.Equal(a.get(queue+"?status=rejected").want(200).at("total"), 0.0)
	a.do(apiRequest{method: "PATCH", path: queue, json: map[string]any{"items": []string{}, "action": "reject"}, raw: true}).want(422)
	a.do(apiRequest{method: "PATCH", path: queue, json: map[string]any{"action": "reject"}, raw: true}).want(422)
}

// TestContract holds what clients were found to stumble over.
func TestContract(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	const none = "00000000-0000-0000-0000-000000000000"
	for _, path := range []string{"tags", "folders", "keys", "upload-requests", "integrations/webhooks"} {
		a.delete(web.APIPath + path + "/" + none).want(404)
	}
	slug := a.upload(nil, file{"a.txt", "text/plain", "a"}).want(201).text("slug")
	at := "/api/v1/files/" + slug
	is.Equal(a.do(apiRequest{method: "PATCH", path: at, json: map[string]any{"slug": "one", "newSlug": "two"}, raw: true}).want(422).fields(), []string{"slug"})
	a.get(at).want(200)
	a.patch(at, map[string]any{"isFavorite": true}).want(200)
	for _, yes := range []string{"true", "1", "yes", "TRUE", "on"} {
		is.Equal(a.do(apiRequest{method: "GET", path: "/api/v1/files?favorite=" + yes, raw: true}).want(200).at("total"), 1.0)
	}
	for _, no := range []string{"false", "0", "no"} {
		is.Equal(a.do(apiRequest{method: "GET", path: "/api/v1/files?favorite=" + no, raw: true}).want(200).at("total"), 0.0)
	}
	a.do(apiRequest{method: "GET", path: "/api/v1/files?favorite=maybe", raw: true}).want(400)
}

// TestBasePath: with a path in the base address, links work with it and without.
func TestBasePath(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.Base = "https://example.org/kist" })
	a.post("/api/v1/notes", map[string]any{"content": "hello", "slug": "one", "isPublic": true}).want(201)
	for _, path := range []string{"/v/one", "/kist/v/one", "/x/one", "/kist/x/one", "/kist/one", "/kist/login"} {
		is.Equal(a.do(apiRequest{method: "GET", path: path, anyone: true, raw: true}).status, 200)
	}
	is.Equal(a.do(apiRequest{method: "GET", path: "/kist/claim/none", anyone: true, raw: true}).status, 404)
	is.Equal(a.do(apiRequest{method: "GET", path: "/kist/api/v1/notes", raw: true}).want(200).at("total"), 1.0)
	is.Equal(a.do(apiRequest{method: "GET", path: "/kisto/api/v1/notes", raw: true}).status, 404)
}

// The pages of approval queues end at 4 MiB, like those of other lists, and what
// follows is on the next one.
func TestQueueBytes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	id := a.post(web.RequestsPath, map[string]any{"title": "T", "slug": "drop"}).want(201).text("data.id")
	const n = 450
	store := a.server.Store
	var q *inbox.Request
	a.fatal(store.View(func(tx *kv.Tx) (err error) {
		q, err = inbox.ReadRequest(tx, a.user.ID, record.ID(mustID(t, id)))
		return err
	}))
	place, err := inbox.Reserve(store, t.Context(), q, "192.0.2.7", n, n)
	is.NoErr(err)
	a.fatal(store.Update(func(tx *kv.Tx) error {
		var came []inbox.Received
		for i := range n {
			came = append(came, inbox.Received{Name: fmt.Sprint(i), MimeType: "text/plain", Ref: [32]byte{byte(i), byte(i >> 8)}, Size: 1})
		}
		// Each of these characters is six in JSON.
		_, err := inbox.Receive(tx, place, &inbox.SenderForm{Message: strings.Repeat("\x01", inbox.MaxMessage)}, came)
		return err
	}))
	for _, path := range []string{web.RequestsPath + "/queue?limit=500", web.RequestsPath + "/" + id + "/queue?limit=500"} {
		sizes := a.wholeList(path, "items", "itemId", n)
		is.Equal(len(sizes), 2)
		is.True(sizes[0] > web.PageBytes-100_000) // a page is full before it ends
	}
}

// The log of a webhook has pages too.
func TestDeliveryPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	at := hooksAt + "/" + a.post(hooksAt, map[string]any{"url": "https://hooks.example.org/", "events": []string{"note.created"}}).want(201).text("data.id") + "/deliveries"
	const n = 110
	for i := range n {
		a.post("/api/v1/notes", fmt.Sprintf(`{"content":"%d"}`, i)).want(201)
	}
	store := a.server.Store
	for tried := 0; tried < n; {
		a.fatal(store.Update(func(tx *kv.Tx) error {
			found, _, err := jobs.DueDeliveries(tx, func(*jobs.Webhook) int { return 50 }, func(jobs.Due) bool { return false })
			for _, d := range found {
				err = errors.Join(err, jobs.Tried(tx, d.Place, jobs.Try{Status: 200, Answer: strings.Repeat("\x01", 8000)}))
				tried++
			}
			return err
		}))
	}
	sizes := a.wholeList(at, "data", "id", n)
	is.Equal(len(sizes), 2)
	is.True(sizes[0] > web.PageBytes-100_000)
	is.Equal(len(a.wholeList(at+"?limit=30", "data", "id", n)), 4)
	is.Equal(len(a.wholeList(at+"?limit=110", "data", "id", n)), 2)
	for _, bad := range []string{"?limit=0", "?limit=501", "?cursor=AQ", "?cursor=x"} {
		a.do(apiRequest{method: "GET", path: at + bad, raw: true}).want(400)
	}
}

// wholeList reads a list from page to page to its end: n things, each once. It
// returns how many bytes each page has.
func (a *app) wholeList(path, list, id string, n int) (sizes []int) {
	a.Helper()
	seen := map[string]bool{}
	for at := path; ; {
		page := a.get(at).want(200)
		if page.at("total") != float64(n) {
			a.Fatalf("total %v", page.at("total"))
		}
		if len(page.body) > web.PageBytes+200 {
			a.Errorf("a page has %d bytes", len(page.body))
		}
		sizes = append(sizes, len(page.body))
		for _, row := range page.at(list).([]any) {
			it, _ := row.(map[string]any)[id].(string)
			if seen[it] {
				a.Errorf("%s is there twice", it)
			}
			seen[it] = true
		}
		next, more := page.at("nextCursor").(string)
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
	a := start(t)
	const n = 120
	long := strings.Repeat("<", record.MaxDescription) // each is six bytes of JSON
	address := "https://example.org/?" + strings.Repeat("&", field.MaxURL-30)
	for i := range n {
		a.post(web.RequestsPath, map[string]any{"title": fmt.Sprint(i), "description": long}).want(201)
		id := a.post("/api/v1/bookmarks", map[string]any{"url": address + fmt.Sprint(i)}).want(201).text("data.id")
		a.delete("/api/v1/bookmarks/" + id).want(200)
	}
	for _, path := range []string{web.RequestsPath + "?limit=500", web.RequestsPath + "?limit=500&sort=title", "/api/v1/trash?limit=500", "/api/v1/trash?limit=500&kind=bookmark"} {
		sizes := a.wholeList(path, "data", "id", n)
		is.Equal(len(sizes), 2)
		is.True(sizes[0] > web.PageBytes-100_000)
	}
	for range 5 {
		a.post("/api/v1/notes", map[string]any{"content": strings.Repeat("<", 200_000)}).want(201)
	}
	is.Equal(len(a.wholeList("/api/v1/notes?limit=500", "data", "id", 5)), 2)
}

// While there is no memory, all lists wait for it, and then say that the server
// is busy.
func TestListsWaitForMemory(t *testing.T) {
	t.Parallel()
	a := start(t)
	ids := map[string]string{
		"Version":       a.post("/api/v1/notes", `{"content":"c"}`).want(201).text("data.id"),
		"CollectedItem": a.post("/api/v1/collections", `{"title":"c"}`).want(201).text("data.id"),
		"UploadItem":    a.post(web.RequestsPath, `{"title":"T"}`).want(201).text("data.id"),
		"Delivery":      a.post(hooksAt, `{"url":"https://hooks.example.org/"}`).want(201).text("data.id"),
	}
	cookie := a.sessionCookie() + "=" + a.session()
	a.fillMemory()
	n := 0
	for _, r := range a.server.Routes() {
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
			got := a.with(t).do(as(cookie, "GET", strings.Replace(r.Path, "{id}", ids[name], 1), nil)).want(503)
			if got.code() != "busy" || got.header.Get("Retry-After") == "" {
				t.Errorf("%s", got.body)
			}
		})
	}
	if n < 25 {
		t.Errorf("there are %d lists", n)
	}
}
