package apitest

import (
	"net/http"
	"strings"
)

// code is the code of an error answered in the API.
func (g *Answer) Code() string {
	g.App.Helper()
	return g.Text("code")
}

func WithHeader(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
	}
	return h
}

// lines are those of the log since mark.
func (a *App) Lines(mark int) []string {
	return strings.Split(strings.TrimSuffix(a.Logged.String()[mark:], "\n"), "\n")
}
