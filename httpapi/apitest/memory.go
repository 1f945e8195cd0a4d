package apitest

import (
	"net/http/httptest"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/people"
	"kist/kv/record"
)

// holding is a request of an account that holds memory.
func (a *App) Holding(account byte) *web.Request {
	return &web.Request{
		Site: a.Server.Site, R: httptest.NewRequest("GET", "/", nil),
		Caller: &people.Caller{User: people.User{ID: record.ID{account}}},
	}
}

// fillMemory holds all memory for requests, until free. Nothing may run.
func (a *App) FillMemory() (free func()) {
	a.Helper()
	a.Server.Running.Wait()
	var all []*web.Request
	for n := int64(limit.MemoryBytes); n > 0; n /= 2 {
		for account := range byte(10) {
			c := a.Holding(account)
			for ; c.TryHold(n); c = a.Holding(account) {
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
