package apitest

import (
	"net/http"
	"strings"
	"time"
)

// send is a request by a visitor, with any method.
func (a *App) Send(method, path string, header ...string) *Answer {
	a.Helper()
	return a.Do(ApiRequest{Method: method, Path: path, Anyone: true, Header: WithHeader(header...), Raw: true})
}

// share uploads a public file and returns its slug.
func (a *App) Share(content string, fields ...string) string {
	a.Helper()
	form := map[string]string{"isPublic": "true"}
	for i := 0; i+1 < len(fields); i += 2 {
		form[fields[i]] = fields[i+1]
	}
	return a.Upload(form, File("a.txt", "text/plain", content)).Want(201).Text("slug")
}

func (a *App) Counted(collection, slug, counter string) int {
	a.Helper()
	return int(a.Get("/api/v1/" + collection + "/" + slug).Want(200).At("data." + counter).(float64))
}

// flush waits until views that are counted late are written: a mark that is
// counted after them shows.
func (a *App) Flush() {
	a.Helper()
	mark := a.Post("/api/v1/notes", `{"content":"mark","isPublic":true}`).Want(201).Text("data.slug")
	a.Visit("/v/" + mark).Want(200)
	for a.Get("/api/v1/notes/"+mark).Want(200).At("data.views") == 0.0 {
		select {
		case <-a.Context().Done():
			a.Fatal("views are not written")
		case <-time.After(20 * time.Millisecond):
		}
	}
	a.Delete("/api/v1/notes/" + mark).Want(200)
}

// isHostile checks the headers that every answer at a raw address has.
func (a *App) IsHostile(what string, h http.Header) {
	a.Helper()
	policy := h.Get("Content-Security-Policy")
	if h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "allow-scripts") ||
		strings.Contains(policy, "allow-same-origin") || h.Get("Cross-Origin-Resource-Policy") == "" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") == "" {
		a.Errorf("%s: headers of stored bytes are missing: %v", what, h)
	}
}

// id is the id of a file.
func (a *App) ID(slug string) string {
	a.Helper()
	return a.Get("/api/v1/files/" + slug).Want(200).Text("data.id")
}
