package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/matryer/is"
)

// TestBrowserSelectMatching: what the list has not shown yet is selected too, tagged and deleted, and comes back.
func TestBrowserSelectMatching(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	const notes = 620 // more than one request changes
	for i := range notes {
		b.Post("/api/v1/notes", fmt.Sprintf(`{"title":"note %d","content":"x"}`, i)).Want(201)
	}
	b.Post("/api/v1/notes", `{"title":"another","content":"y","isFavorite":true}`).Want(201)
	total := func(query string) any { return b.Get("/api/v1/notes?limit=1" + query).Want(200).At("total") }

	b.open("/notes?public=false&q=note")
	b.until(`document.querySelectorAll('#main .item').length >= 50`)
	b.click(`#main .item .pick`)
	b.click(`[data-act="pick-all"]`)
	b.click(`[data-act="pick-matching"]`)
	b.until(`document.querySelector('.bulk b').textContent.startsWith('620')`)
	b.until(`!document.querySelector('[data-act="pick-matching"]')`)

	b.click(`[data-act="bulk-tag"]`)
	b.fill("Add", "many")
	b.click(`dialog .main`)
	b.says("Tags changed")
	is.Equal(total("&tag=many"), float64(notes))

	b.click(`[data-act="bulk-delete"]`)
	b.shows("Delete 620 items?")
	b.click(`dialog .danger`)
	b.says("Deleted 620 items.")
	is.Equal(total(""), 1.0)
	b.until(`document.querySelectorAll('#main .item').length === 0`)
	b.click(`.toast [data-act="toast-run"]`)
	b.until(`document.querySelectorAll('#main .item').length >= 50`)
	is.Equal(total(""), float64(notes+1))
	is.True(b.Sound())
}
