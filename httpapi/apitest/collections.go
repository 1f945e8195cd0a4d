package apitest

import (
	"strings"
)

// Collect makes a public collection of items with these slugs or ids and returns its id.
func (a *App) Collect(slug string, more string, items ...string) string {
	a.Helper()
	list := strings.Join(items, `","`)
	if list != "" {
		list = `"` + list + `"`
	}
	return a.Post(
		"/api/v1/collections",
		`{"title":"All of it","slug":"`+slug+`","isPublic":true,"source":{"items":[`+list+`]}`+more+`}`,
	).Want(201).Text("data.id")
}

func (a *App) Note(text, more string) string {
	a.Helper()
	return a.Post("/api/v1/notes", `{"content":"`+text+`"`+more+`}`).Want(201).Text("data.id")
}
