package apitest

import (
	"net/http"
	"strings"
)

// guest is a visitor with a browser's cookies.
type Guest struct {
	*App
	Cookies map[string]string
}

func (a *App) Guest() *Guest { return &Guest{App: a, Cookies: map[string]string{}} }

// see sends a request with what cookies there are and keeps those that come.
func (g *Guest) See(method, path string, header ...string) *Answer {
	g.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	var pairs []string
	for name, value := range g.Cookies {
		pairs = append(pairs, name+"="+value)
	}
	if pairs != nil {
		h.Set("Cookie", strings.Join(pairs, "; "))
	}
	q := ApiRequest{Method: method, Path: path, Anyone: true, Header: h, Raw: true}
	if method == http.MethodPost {
		h.Set("Content-Type", "application/x-www-form-urlencoded")
		q.Body = strings.NewReader(h.Get("X-Form"))
		h.Del("X-Form")
	}
	got := g.Do(q)
	for _, c := range (&http.Response{Header: got.Header}).Cookies() {
		if g.Cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(g.Cookies, c.Name)
		}
	}
	return got
}
