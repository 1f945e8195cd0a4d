package httpapi

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"kist/kv/people"

	"github.com/google/uuid"
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
	a.server.Limits.Changes.Most = 20
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
	a.server.Limits.Sent.Most = 20
	n, status := 0, http.StatusNoContent
	for ; n < 60 && status == http.StatusNoContent; n++ {
		status = a.sendPiece(at, n, "x").status
	}
	is.Equal(status, http.StatusTooManyRequests)
	is.Equal(n, 20) // one began the upload
	a.post("/api/v1/notes", `{"content":"x"}`).want(http.StatusCreated)
	a.stranger("DELETE", at, "").want(http.StatusNoContent)
}

// TestWhatCountsAsAChange: a change of many items counts each, one without a body counts, and a request that is refused
// counts nothing.
func TestWhatCountsAsAChange(t *testing.T) {
	t.Parallel()
	a := start(t)
	note := a.post("/api/v1/notes", `{"content":"one"}`).want(http.StatusCreated).text("data.id")
	at := "/api/v1/notes/" + note
	a.patch(at, `{"content":"two"}`).want(http.StatusOK)
	version := a.get(at + "/versions").want(http.StatusOK).text("data.0.id")
	var ids []string
	for range 10 {
		ids = append(ids, a.post("/api/v1/notes", `{"content":"c"}`).want(http.StatusCreated).text("data.id"))
	}
	for name, row := range map[string]struct {
		counts int
		send   func() *answer
	}{
		"a change of ten": {10, func() *answer {
			return a.post("/api/v1/bulk", map[string]any{"ids": ids, "set": map[string]any{"isFavorite": true}})
		}},
		"an earlier text":    {1, func() *answer { return a.post(at+"/versions/"+version+"/restore", nil) }},
		"a body that is cut": {0, func() *answer { return a.do(apiRequest{method: "POST", path: "/api/v1/notes", json: `{`, raw: true}) }},
		"a wrong member": {0, func() *answer {
			return a.do(apiRequest{method: "POST", path: "/api/v1/notes", json: `{"no":1}`, raw: true})
		}},
		"no such note": {0, func() *answer { return a.patch("/api/v1/notes/"+uuid.NewString(), `{"content":"c"}`) }},
	} {
		is := is.New(t)
		a.clock.advance(time.Minute)
		a.server.Limits.Changes.Most = 20
		for range 20 - max(row.counts, 1) {
			a.patch(at, `{"isFavorite":true}`).want(http.StatusOK)
		}
		row.send()
		left := max(row.counts, 1) - row.counts // changes that still fit
		for range left {
			a.patch(at, `{"isFavorite":true}`).want(http.StatusOK)
		}
		if status := a.patch(at, `{"isFavorite":true}`).status; status != http.StatusTooManyRequests {
			is.Equal(name+": "+fmt.Sprint(status), "429")
		}
	}
}
