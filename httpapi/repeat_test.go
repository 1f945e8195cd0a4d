package httpapi

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/jobs"
)

// TestCreatesAreRepeatable: with an Idempotency-Key, a creation that is sent twice
// is made once, and is answered alike.
func TestCreatesAreRepeatable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, body, other string
		status            int
	}{
		{"notes", `{"content":"a"}`, `{"content":"b"}`, 201},
		{"bookmarks", `{"url":"https://go.dev/"}`, `{"url":"https://go.dev/doc"}`, 201},
		{"shorten", `{"originalUrl":"https://go.dev/"}`, `{"originalUrl":"https://go.dev/doc"}`, 201},
		{"tags", `{"name":"a"}`, `{"name":"b"}`, 201},
		{"folders", `{"name":"a"}`, `{"name":"b"}`, 201},
		{"upload-requests", `{"title":"a"}`, `{"title":"b"}`, 201},
		{"integrations/webhooks", `{"url":"https://example.org/a"}`, `{"url":"https://example.org/b"}`, 201},
		{"remote-upload", `{"url":"https://example.org/a"}`, `{"url":"https://example.org/b"}`, 202},
		{"admin/users", `{"username":"bob","password":"correct horse battery"}`, `{"username":"eve","password":"correct horse battery"}`, 201},
	} {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := start(t)
			send := func(body, key string) *answer {
				return a.do(apiRequest{method: "POST", path: web.APIPath + tt.path, json: body, header: http.Header{"Idempotency-Key": {key}}})
			}
			first := send(tt.body, "one").want(tt.status)
			again := send(tt.body, "one").want(tt.status)
			is.Equal(string(again.body), string(first.body))
			is.Equal(send(tt.other, "one").want(422).text("code"), "idempotency_mismatch")
			is.True(string(send(tt.other, "two").want(tt.status).body) != string(first.body))
			send(tt.other, strings.Repeat("k", 256)).want(400)
		})
	}
}

// When too many answers are kept, a request with a new key changes nothing. One without a key works.
func TestRepeatsAreBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(nil)
	key := func(name string) http.Header { return http.Header{"Idempotency-Key": {name}} }
	send := func(name string) *answer {
		return a.do(apiRequest{method: "POST", path: "/api/v1/notes", json: `{"content":"a"}`, header: key(name)})
	}
	first := send("one").want(201)
	fill := func() {
		a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
			return jobs.SaveIdempotentAnswer(tx, a.user.ID, rand.Text(), jobs.IdempotentAnswer{Body: make([]byte, 24<<20)})
		}))
	}
	fill()
	is.Equal(a.leave(slug, key("two"), nil, file{"a", "", "x"}).want(403).text("code"), "too_many_answers")
	a.leave(slug, nil, nil, file{"a", "", "x"}).want(201)
	send("three").want(201)
	fill()
	is.Equal(send("four").want(403).text("code"), "too_many_answers")
	is.Equal(a.get("/api/v1/notes").at("total"), 2.0)
	is.Equal(string(send("one").want(201).body), string(first.body))
	a.post("/api/v1/notes", `{"content":"a"}`).want(201)
}

// TestRepeatsAtOnce: of many at the same time one makes something.
func TestRepeatsAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			a.do(apiRequest{method: "POST", path: "/api/v1/notes", json: `{"content":"a"}`, header: http.Header{"Idempotency-Key": {"one"}}}).want(201)
		})
	}
	wait.Wait()
	is.Equal(a.get("/api/v1/notes").at("total"), 1.0)

	text := func() string {
		r := apiRequest{method: "POST", path: "/api/v1/notes", json: `{"content":"b"}`, header: http.Header{"Idempotency-Key": {"two"}, "Accept": {"text/plain"}}}
		return string(a.do(r).want(201).body)
	}
	is.Equal(text(), text())
	is.Equal(a.get("/api/v1/notes").at("total"), 2.0)
	a.post("/api/v1/notes", `{"content":"a"}`).want(201) // the key's absence changes nothing
	a.post("/api/v1/notes", `{"content":"a"}`).want(201)
	is.Equal(a.get("/api/v1/notes").at("total"), 4.0)
}

// TestRepeatsOfSecrets: a creation whose answer has secrets is made once, and its answer is
// not kept, so a repeat gets none.
func TestRepeatsOfSecrets(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	cookie := a.enter("ann", "correct horse")
	ask := a.do(as(cookie, "POST", "/api/v1/me/passkeys/options", nil)).want(200)
	passkey := map[string]any{"name": "phone", "ticket": ask.text("ticket"), "passkey": newSoftKey(a).create(a, ask.at("passkey").(map[string]any))}
	for path, body := range map[string]any{"keys": map[string]any{"name": "laptop"}, "setups": map[string]any{"program": "shell"}, "me/passkeys": passkey} {
		send := func(body any) *answer {
			r := as(cookie, "POST", web.APIPath+path, body)
			r.header.Set("Idempotency-Key", path)
			return a.do(r)
		}
		send(body).want(201)
		is.Equal(send(body).want(409).code(), "answered_before")
		is.Equal(send(map[string]any{"name": "other"}).want(422).code(), "idempotency_mismatch")
		a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
			kept, err := jobs.FindAnswer(tx, a.user.ID, path)
			is.NoErr(err)
			is.Equal(len(kept.Body), 0)
			return nil
		}))
	}
	is.Equal(a.get("/api/v1/keys").at("total"), 3.0) // with the one of the test
}

// TestRepeatedImport: an import that is sent twice runs once.
func TestRepeatedImport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	send := func(content string) *answer {
		q := a.uploadRequest(nil, file{"bookmarks.html", "", content})
		q.path = "/api/v1/import"
		q.header.Set("Idempotency-Key", "one")
		return a.do(q)
	}
	first := send(browserBookmarks).want(202)
	is.Equal(string(send(browserBookmarks).want(202).body), string(first.body)) // while it runs, too
	a.movedIn(first)
	is.Equal(string(send(browserBookmarks).want(202).body), string(first.body))
	is.Equal(send(browserBookmarks+" ").want(422).code(), "idempotency_mismatch")
	is.Equal(a.get("/api/v1/import").at("total"), 1.0)
}

// TestEveryCreationTakesAKey: all of them are repeatable, but those of tus, which are
// continued.
func TestEveryCreationTakesAKey(t *testing.T) {
	t.Parallel()
	n := 0
	for _, r := range start(t).server.routes {
		if r.Method != "POST" || r.Reply.Status != 201 && r.Reply.Status != 202 || r.Access.Open || r.Tus {
			continue
		}
		n++
		if !slices.ContainsFunc(r.Args, func(p web.Param) bool { return p.Name == "Idempotency-Key" }) {
			t.Errorf("%s %s takes no Idempotency-Key", r.Method, r.Path)
		}
	}
	if n < 20 {
		t.Errorf("there are %d creations", n)
	}
}
