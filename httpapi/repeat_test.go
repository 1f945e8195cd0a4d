package httpapi

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
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
