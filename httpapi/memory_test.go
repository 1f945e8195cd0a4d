package httpapi

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

// holding is a request of an account that holds memory.
func (a *app) holding(account byte) *web.Request {
	return &web.Request{
		Site: a.server.Site, R: httptest.NewRequest("GET", "/", nil),
		Caller: &people.Caller{User: people.User{ID: record.ID{account}}},
	}
}

// fillMemory holds all memory for requests, until free. Nothing may run.
func (a *app) fillMemory() (free func()) {
	a.Helper()
	a.server.Running.Wait()
	var all []*web.Request
	for n := int64(limit.MemoryBytes); n > 0; n /= 2 {
		for account := range byte(10) {
			c := a.holding(account)
			for ; c.TryHold(n); c = a.holding(account) {
				all = append(all, c)
			}
		}
	}
	return func() {
		for _, c := range all {
			c.ReleaseMemory()
		}
	}
}

// memoryIsFree reports whether no request holds memory.
func (a *app) memoryIsFree() bool {
	a.Helper()
	a.server.Running.Wait()
	one, other := a.holding(1), a.holding(2)
	defer one.ReleaseMemory()
	defer other.ReleaseMemory()
	return one.TryHold(limit.MemoryBytes/4) && other.TryHold(limit.MemoryBytes/4)
}

// Whatever was answered, all of the memory for requests is free afterwards.
func TestMemoryIsReturned(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.post("/api/v1/notes", map[string]any{"content": "c"}).want(201)
	a.post("/api/v1/notes", `{"content":`).want(400)
	a.get("/api/v1/notes").want(200)
	cookie := a.sessionCookie() + "=" + a.session()
	for _, path := range []string{"/", "/notes", "/account"} { // which hold answers of the API
		a.do(as(cookie, "GET", path, nil)).want(200)
	}
	is.True(a.memoryIsFree())
}

// The page of a long record waits for memory. That of one that a visitor may not see does not, so that
// the answer does not tell that there is one.
func TestLongPagesHoldMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	text := strings.Repeat("x", 100_000)
	a.post("/api/v1/notes", map[string]any{"slug": "open", "isPublic": true, "content": text}).want(201)
	a.post("/api/v1/notes", map[string]any{"slug": "closed", "content": text}).want(201)
	free := a.fillMemory()
	a.visit("/v/closed").want(404)
	a.visit("/x/closed").want(404)
	is.True(a.visit("/v/open").want(503).header.Get("Retry-After") != "")
	free()
	a.visit("/v/open").want(200)
	a.visit("/x/open").want(200)
	is.True(a.memoryIsFree())
}

// A public read by POST waits for memory as a page does, and before it uses a view.
func TestPostedReadsHoldMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for slug, length := range map[string]int{"short": 10, "long": 100_000} {
		a.post("/api/v1/notes", map[string]any{
			"slug": slug, "isPublic": true, "maxViews": 1, "content": strings.Repeat("x", length),
		}).want(201)
	}
	free := a.fillMemory()
	for _, slug := range []string{"short", "long"} {
		answer := a.do(apiRequest{method: "POST", path: "/api/v1/notes/p/" + slug, anyone: true})
		is.True(answer.want(503).header.Get("Retry-After") != "")
	}
	free()
	for _, slug := range []string{"short", "long"} {
		a.do(apiRequest{method: "POST", path: "/api/v1/notes/p/" + slug, anyone: true}).want(200)
	}
	is.True(a.memoryIsFree())
}

// The text of an item that a visitor may not see is not read, so that the time of the answer does not
// tell how long it is.
func TestClosedTextIsNotRead(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	a := start(t)
	a.post("/api/v1/notes", map[string]any{"slug": "closed", "content": strings.Repeat("x", 1_000_000)}).want(201)
	a.server.Running.Wait()
	a.visit("/v/closed").want(404)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 4 {
		a.visit("/v/closed").want(404)
		a.visit("/x/closed").want(404)
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d KiB for each answer", (after.TotalAlloc-before.TotalAlloc)>>13)
	is.True(after.TotalAlloc-before.TotalAlloc < 8*300_000)
}

// Records of any length are answered whole, one by one and in lists.
func TestLongRecordsAreWhole(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	texts := map[string]string{}
	for _, n := range []int{10, 300 << 10, 1 << 20, 20} {
		slug := fmt.Sprint("n", n)
		texts[slug] = strings.Repeat("x", n)
		a.post("/api/v1/notes", map[string]any{"slug": slug, "content": texts[slug]}).want(201)
		is.Equal(a.get("/api/v1/notes/"+slug).want(200).text("data.content"), texts[slug])
	}
	for _, query := range []string{"", "?sort=updated", "?sort=oldest&limit=2"} {
		list := a.get("/api/v1/notes" + query).want(200)
		for _, at := range []string{"0", "1"} {
			is.Equal(list.text("data."+at+".content"), texts[list.text("data."+at+".slug")])
		}
	}
	list := a.get("/api/v1/notes?brief=true").want(200)
	is.Equal(len(list.text("data.1.content")), 300)
	is.Equal(list.text("data.3.content"), texts["n10"])
}
