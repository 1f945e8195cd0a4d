package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// TestChangesAreCounted: an account that changes too much in a minute has to wait. It can read,
// delete and revoke meanwhile, and others are not held up.
func TestChangesAreCounted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddKey(a.AddUser("bob", people.Member), people.ScopeWrite)
	key := "/api/v1/keys/" + a.Post("/api/v1/keys", `{"name":"k"}`).Want(http.StatusCreated).Text("data.id")
	a.Server.Limits.Changes.Most = 20
	tag := "/api/v1/tags/" + a.Post("/api/v1/tags", `{"name":"first"}`).Want(http.StatusCreated).Text("data.id")
	n, status := 0, http.StatusOK
	for ; n < 60 && status == http.StatusOK; n++ {
		status = a.Patch(tag, fmt.Sprintf(`{"name":"name %d"}`, n)).Status
	}
	is.Equal(n, 20) // one made the tag
	is.Equal(status, http.StatusTooManyRequests)

	for path, body := range map[string]string{
		"/api/v1/tags": `{"name":"t"}`, "/api/v1/folders": `{"name":"f"}`, "/api/v1/notes": `{"content":"c"}`,
		"/api/v1/integrations/webhooks": `{"url":"https://example.org/"}`,
	} {
		got := a.Post(path, body).Want(http.StatusTooManyRequests)
		is.Equal(got.Code(), "too_many_writes")
		is.True(got.Header.Get("Retry-After") != "")
	}
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/notes", Key: bob, JSON: `{"content":"c"}`,
	}).Want(http.StatusCreated)
	a.Get("/api/v1/tags").Want(http.StatusOK)
	a.Delete(tag).Want(http.StatusOK)
	a.Delete(key).Want(http.StatusOK)

	a.Clock.Offset.Store(int64(time.Minute))
	a.Post("/api/v1/notes", `{"content":"c"}`).Want(http.StatusCreated)
}

// TestLimitIsTold: a client that comes near the limit learns what is left of it.
func TestLimitIsTold(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	a.Server.Limits.Changes.Most = 20
	tag := "/api/v1/tags/" + a.Post("/api/v1/tags", `{"name":"first"}`).Want(http.StatusCreated).Text("data.id")
	for n := 2; n <= 22; n++ {
		got := a.Patch(tag, fmt.Sprintf(`{"name":"name %d"}`, n))
		policy, left := "", ""
		if n >= 18 { // a tenth is left
			policy, left = `"changes";q=20;w=60`, fmt.Sprintf(`"changes";r=%d`, max(0, 20-n))
		}
		said, _, _ := strings.Cut(got.Header.Get("RateLimit"), ";t=") // the clock goes on
		if got.Header.Get("RateLimit-Policy") != policy || said != left {
			t.Errorf("change %d: %v", n, got.Header)
		}
		if refused := got.Status == http.StatusTooManyRequests; refused != (n > 20) {
			t.Errorf("change %d: %d", n, got.Status)
		}
	}
	a.Clock.Advance(time.Minute)
	if told := a.Patch(tag, `{"name":"again"}`).Want(http.StatusOK).Header.Get("RateLimit"); told != "" {
		t.Errorf("a new minute: %s", told)
	}
}

// TestStrangersAreCounted: a sender who continues an upload again and again is stopped. The owner
// is not, and the sender can cancel.
func TestStrangersAreCounted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	at := a.BeginSending(slug, 1000, "filename", "a.txt")
	a.Server.Limits.Sent.Most = 20
	n, status := 0, http.StatusNoContent
	for ; n < 60 && status == http.StatusNoContent; n++ {
		status = a.SendPiece(at, n, "x").Status
	}
	is.Equal(status, http.StatusTooManyRequests)
	is.Equal(n, 20) // one began the upload
	a.Post("/api/v1/notes", `{"content":"x"}`).Want(http.StatusCreated)
	a.Stranger("DELETE", at, "").Want(http.StatusNoContent)
}

// TestWhatCountsAsAChange: a change of many items counts each, one without a body counts, and a request that is refused
// counts nothing.
func TestWhatCountsAsAChange(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	note := a.Post("/api/v1/notes", `{"content":"one"}`).Want(http.StatusCreated).Text("data.id")
	at := "/api/v1/notes/" + note
	a.Patch(at, `{"content":"two"}`).Want(http.StatusOK)
	version := a.Get(at + "/versions").Want(http.StatusOK).Text("data.0.id")
	var ids []string
	for range 10 {
		ids = append(ids, a.Post("/api/v1/notes", `{"content":"c"}`).Want(http.StatusCreated).Text("data.id"))
	}
	for name, row := range map[string]struct {
		counts int
		send   func() *apitest.Answer
	}{
		"a change of ten": {10, func() *apitest.Answer {
			return a.Post("/api/v1/bulk", map[string]any{"ids": ids, "set": map[string]any{"isFavorite": true}})
		}},
		"an earlier text": {1, func() *apitest.Answer { return a.Post(at+"/versions/"+version+"/restore", nil) }},
		"a body that is cut": {0, func() *apitest.Answer {
			return a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes", JSON: `{`, Raw: true})
		}},
		"a wrong member": {0, func() *apitest.Answer {
			return a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes", JSON: `{"no":1}`, Raw: true})
		}},
		"no such note": {0, func() *apitest.Answer { return a.Patch("/api/v1/notes/"+uuid.NewString(), `{"content":"c"}`) }},
	} {
		is := is.New(t)
		a.Clock.Advance(time.Minute)
		a.Server.Limits.Changes.Most = 20
		for range 20 - max(row.counts, 1) {
			a.Patch(at, `{"isFavorite":true}`).Want(http.StatusOK)
		}
		row.send()
		left := max(row.counts, 1) - row.counts // changes that still fit
		for range left {
			a.Patch(at, `{"isFavorite":true}`).Want(http.StatusOK)
		}
		if status := a.Patch(at, `{"isFavorite":true}`).Status; status != http.StatusTooManyRequests {
			is.Equal(name+": "+fmt.Sprint(status), "429")
		}
	}
}
