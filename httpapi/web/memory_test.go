package web_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/kv/kvtest/needs"
)

// memoryIsFree reports whether no request holds memory.
func memoryIsFree(a *apitest.App) bool {
	a.Helper()
	a.Server.Running.Wait()
	one, other := a.Holding(1), a.Holding(2)
	defer one.ReleaseMemory()
	defer other.ReleaseMemory()
	return one.TryHold(limit.MemoryBytes/4) && other.TryHold(limit.MemoryBytes/4)
}

// Whatever was answered, all of the memory for requests is free afterwards.
func TestMemoryIsReturned(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Post("/api/v1/notes", map[string]any{"content": "c"}).Want(201)
	a.Post("/api/v1/notes", `{"content":`).Want(400)
	a.Get("/api/v1/notes").Want(200)
	cookie := a.SessionCookie() + "=" + a.Session()
	for _, path := range []string{"/", "/notes", "/account"} { // which hold answers of the API
		a.Do(apitest.As(cookie, "GET", path, nil)).Want(200)
	}
	is.True(memoryIsFree(a))
}

// The page of a long record waits for memory. That of one that a visitor may not see does not, so that
// the answer does not tell that there is one.
func TestLongPagesHoldMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	text := strings.Repeat("x", 100_000)
	a.Post("/api/v1/notes", map[string]any{"slug": "open", "isPublic": true, "content": text}).Want(201)
	a.Post("/api/v1/notes", map[string]any{"slug": "closed", "content": text}).Want(201)
	free := a.FillMemory()
	a.Visit("/v/closed").Want(404)
	a.Visit("/x/closed").Want(404)
	is.True(a.Visit("/v/open").Want(503).Header.Get("Retry-After") != "")
	free()
	a.Visit("/v/open").Want(200)
	a.Visit("/x/open").Want(200)
	is.True(memoryIsFree(a))
}

// A public read by POST waits for memory as a page does, and before it uses a view.
func TestPostedReadsHoldMemory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for slug, length := range map[string]int{"short": 10, "long": 100_000} {
		a.Post("/api/v1/notes", map[string]any{
			"slug": slug, "isPublic": true, "maxViews": 1, "content": strings.Repeat("x", length),
		}).Want(201)
	}
	free := a.FillMemory()
	for _, slug := range []string{"short", "long"} {
		answer := a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes/p/" + slug, Anyone: true})
		is.True(answer.Want(503).Header.Get("Retry-After") != "")
	}
	free()
	for _, slug := range []string{"short", "long"} {
		a.Do(apitest.Request{Method: "POST", Path: "/api/v1/notes/p/" + slug, Anyone: true}).Want(200)
	}
	is.True(memoryIsFree(a))
}

// The text of an item that a visitor may not see is not read, so that the time of the answer does not
// tell how long it is.
func TestClosedTextIsNotRead(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	a := apitest.Start(t)
	a.Post("/api/v1/notes", map[string]any{"slug": "closed", "content": strings.Repeat("x", 1_000_000)}).Want(201)
	a.Server.Running.Wait()
	a.Visit("/v/closed").Want(404)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 4 {
		a.Visit("/v/closed").Want(404)
		a.Visit("/x/closed").Want(404)
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d KiB for each answer", (after.TotalAlloc-before.TotalAlloc)>>13)
	is.True(after.TotalAlloc-before.TotalAlloc < 8*300_000)
}

// Records of any length are answered whole, one by one and in lists.
func TestLongRecordsAreWhole(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	texts := map[string]string{}
	for _, n := range []int{10, 300 << 10, 1 << 20, 20} {
		slug := fmt.Sprint("n", n)
		texts[slug] = strings.Repeat("x", n)
		a.Post("/api/v1/notes", map[string]any{"slug": slug, "content": texts[slug]}).Want(201)
		is.Equal(a.Get("/api/v1/notes/"+slug).Want(200).Text("data.content"), texts[slug])
	}
	for _, query := range []string{"", "?sort=updated", "?sort=oldest&limit=2"} {
		list := a.Get("/api/v1/notes" + query).Want(200)
		for _, at := range []string{"0", "1"} {
			is.Equal(list.Text("data."+at+".content"), texts[list.Text("data."+at+".slug")])
		}
	}
	list := a.Get("/api/v1/notes?brief=true").Want(200)
	is.Equal(len(list.Text("data.1.content")), 300)
	is.Equal(list.Text("data.3.content"), texts["n10"])
}
