package httpapi

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"kist/kv/people"

	"github.com/matryer/is"
)

// TestChangesAreCounted: an account that changes too much in a minute has to wait. It can read,
// delete and revoke meanwhile, and others are not held up.
func TestChangesAreCounted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bob := a.addKey(a.addUser("bob", people.Member), people.ScopeWrite)
	key := "/api/v1/keys/" + a.post("/api/v1/keys", `{"name":"k"}`).want(http.StatusCreated).text("data.id")
	a.server.Changes.Most = 20
	tag := "/api/v1/tags/" + a.post("/api/v1/tags", `{"name":"first"}`).want(http.StatusCreated).text("data.id")
	n, status := 0, http.StatusOK
	for ; n < 60 && status == http.StatusOK; n++ {
		status = a.patch(tag, fmt.Sprintf(`{"name":"name %d"}`, n)).status
	}
	is.Equal(n, 20) // one made the tag
	is.Equal(status, http.StatusTooManyRequests)

	for path, body := range map[string]string{
		"/api/v1/tags": `{"name":"t"}`, "/api/v1/folders": `{"name":"f"}`, "/api/v1/notes": `{"content":"c"}`,
		"/api/v1/integrations/webhooks": `{"url":"https://example.org/"}`,
	} {
		got := a.post(path, body).want(http.StatusTooManyRequests)
		is.Equal(got.code(), "too_many_writes")
		is.True(got.header.Get("Retry-After") != "")
	}
	a.do(apiRequest{method: "POST", path: "/api/v1/notes", key: bob, json: `{"content":"c"}`}).want(http.StatusCreated)
	a.get("/api/v1/tags").want(http.StatusOK)
	a.delete(tag).want(http.StatusOK)
	a.delete(key).want(http.StatusOK)

	a.clock.offset.Store(int64(time.Minute))
	a.post("/api/v1/notes", `{"content":"c"}`).want(http.StatusCreated)
}

// TestStrangersAreCounted: a sender who continues an upload again and again is stopped. The owner
// is not, and the sender can cancel.
func TestStrangersAreCounted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	_, slug := a.ask(nil)
	at := a.beginSending(slug, 1000, "filename", "a.txt")
	a.server.Sent.Most = 20
	n, status := 0, http.StatusNoContent
	for ; n < 60 && status == http.StatusNoContent; n++ {
		status = a.sendPiece(at, n, "x").status
	}
	is.Equal(status, http.StatusTooManyRequests)
	is.Equal(n, 20) // one began the upload
	a.post("/api/v1/notes", `{"content":"x"}`).want(http.StatusCreated)
	a.stranger("DELETE", at, "").want(http.StatusNoContent)
}
