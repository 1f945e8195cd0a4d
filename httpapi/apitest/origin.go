package apitest

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
)

// from has the server answer a request that comes from an address, as its
// handler sees it. The others of the header are as withHeader takes them.
func (a *App) From(peer, method, path, host string, encrypted bool, body string, header ...string) *http.Response {
	a.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host, r.Header = peer+":5000", host, WithHeader(header...)
	if encrypted {
		r.TLS = new(tls.ConnectionState)
	}
	w := httptest.NewRecorder()
	a.Server.ServeHTTP(w, r)
	return w.Result()
}
