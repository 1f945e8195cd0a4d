package httpapi

import (
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
)

// Whatever was answered, all of the memory for JSON is free afterwards.
func TestBudgetIsReturned(t *testing.T) {
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
	a.server.Running.Wait()
	is.True(a.server.Budget.All.TryAcquire(web.JSONBytes))
	is.Equal(len(a.server.Budget.Shares), 0)
}
