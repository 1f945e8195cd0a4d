package apitest

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/people"
)

// guessed counts a wrong password for a thing, as if a visitor from the network
// had sent it.
func (a *App) Guessed(network, at string) {
	a.Helper()
	people.TriesOf(a.Server.Store).Settle(a.Server.Store.Now(), false,
		people.Limit{Kind: limit.KindFrom, Of: network + " " + at}, people.Limit{Kind: limit.KindAll, Of: network}, people.Limit{Kind: limit.KindOverall, Of: at})
}

// behindProxy has the server believe X-Forwarded-For, so that a test has many
// addresses.
func BehindProxy(c *web.Config) {
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// flood sends sign-ins with ever new names until the returned function is
// called: from one address, or each from the next of many.
func (a *App) Flood(connections int, from func(n int) string) (end func()) {
	var stop atomic.Bool
	var n atomic.Int64
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for !stop.Load() {
				i := int(n.Add(1))
				body := fmt.Sprintf(`{"username":"u%d","password":"wrong horse"}`, i)
				req, err := http.NewRequestWithContext(a.Context(), "POST", a.URL+"/api/v1/auth/login", strings.NewReader(body))
				if err != nil {
					a.Error(err)
					return
				}
				req.Header = http.Header{"Content-Type": {web.JSONType}, "X-Forwarded-For": {from(i)}}
				res, err := Plain.Do(req)
				if err != nil {
					a.Error(err)
					return
				}
				_ = res.Body.Close()
			}
		})
	}
	return func() {
		stop.Store(true)
		all.Wait()
	}
}
