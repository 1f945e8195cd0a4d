package httpapi

import (
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/record"
)

// One caller has at most half of the memory for JSON; others find the rest.
func TestBudgetShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &site{json: newBudget()}
		by := func(key byte, addr string) *request {
			c := &request{s: s, r: httptest.NewRequest("GET", "/", nil), addr: netip.MustParseAddr(addr)}
			if key != 0 {
				c.caller = &kv.Caller{Key: record.Key{ID: record.ID{key}}}
			}
			return c
		}
		first, second := by(1, "192.0.2.1"), by(1, "192.0.2.2")
		is.NoErr(first.reserveJSON(jsonShare - 10))
		is.NoErr(second.reserveJSON(10))
		is.Equal(second.reserveJSON(1), errCrowded) // half is all that one key has
		other := by(2, "192.0.2.1")
		is.NoErr(other.reserveJSON(jsonShare - 20))
		for _, addr := range []string{"192.0.2.1", "2001:db8::1"} {
			visitor := by(0, addr)
			is.NoErr(visitor.reserveJSON(5))
			defer visitor.releaseJSON()
		}
		late := by(3, "192.0.2.3")
		is.NoErr(late.reserveJSON(10))
		is.Equal(late.reserveJSON(1), errCrowded) // there is no more at all
		is.Equal(late.held, int64(10))

		done := make(chan error)
		go func() { done <- second.reserveJSON(100) }() // waits for its own key's share
		synctest.Wait()
		first.releaseJSON()
		is.NoErr(<-done)

		second.releaseJSON()
		other.releaseJSON()
		late.releaseJSON()
		is.Equal(len(s.json.shares), 2) // the visitors'

		visitor := by(0, "2001:db8::2") // of one network with the one before
		is.NoErr(visitor.reserveJSON(jsonShare - 5))
		is.Equal(visitor.reserveJSON(1), errCrowded)
		visitor.releaseJSON()
		by(4, "192.0.2.4").releaseJSON() // spent nothing
	})
}

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
	a.server.running.Wait()
	is.True(a.server.json.all.TryAcquire(jsonBytes))
	is.Equal(len(a.server.json.shares), 0)
}
