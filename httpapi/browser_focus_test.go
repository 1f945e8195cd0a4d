package httpapi_test

import (
	"image/color"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// TestBrowserKeepsFocus: after a save with the keyboard the focus stays where it was, though the button is disabled meanwhile
// or the page drawn again.
func TestBrowserKeepsFocus(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	addNamed(b.App, "laptop", "")
	b.open("/account")
	b.fill("Display name", "Ann")
	b.js(`document.activeElement.form.querySelector('button').focus()`)
	b.keys(kb.Enter)
	b.says("Saved.")
	b.until(`document.activeElement.textContent === 'Save'`)
	b.open("/keys")
	b.until(`document.querySelector('[aria-label="Disable laptop"]')`)
	b.js(`document.querySelector('[aria-label="Disable laptop"]').focus()`)
	b.keys(kb.Enter)
	b.until(`document.activeElement.ariaLabel === 'Enable laptop'`)
	b.js(`document.querySelector('[data-act=key-edit]').focus()`)
	b.keys(kb.Enter)
	b.fill("Name", "desk")
	b.keys(kb.Enter)
	b.until(`document.activeElement.dataset.act === 'key-edit' && document.querySelector('#main').innerText.includes('desk')`)
	is.True(b.Sound())
}

// TestBrowserNameTaken: a name that something else has is shown at its field.
func TestBrowserNameTaken(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.Post("/api/v1/notes", map[string]any{"title": "First", "content": "x", "slug": "plan"}).Want(201)
	slug := b.Post("/api/v1/notes", map[string]any{"title": "Second", "content": "x"}).Want(201).Text("data.slug")
	b.open("/notes/" + slug + "?edit=1")
	b.until(`document.querySelector('dialog details')`)
	b.js(`document.querySelectorAll('dialog details').forEach((d) => { d.open = true; })`)
	b.fill("Link name", "plan")
	b.js(`document.querySelectorAll('dialog details').forEach((d) => { d.open = false; })`)
	b.click("dialog .foot .main")
	b.until(`document.activeElement.value === 'plan' && document.activeElement.getAttribute('aria-invalid') === 'true'`)
	is.Equal(b.js(`document.querySelector('dialog .error:not([hidden])').textContent`), "Link name is in use already.")
}

// TestBrowserTurning: arrow keys lead through a shared collection, and Escape back to it.
func TestBrowserTurning(t *testing.T) {
	b := openBrowser(t)
	var ids []string
	for _, name := range []string{"a.jpg", "b.jpg"} {
		slug := b.Upload(
			map[string]string{"isPublic": "true"},
			apitest.File(name, "image/jpeg", apitest.JpegOf(400, 300, color.RGBA{90, 120, 200, 255})),
		).Want(201).Text("slug")
		ids = append(ids, b.Get("/api/v1/files/"+slug).Text("data.id"))
	}
	album := b.Post(
		"/api/v1/collections", map[string]any{"title": "Summer", "isPublic": true, "source": map[string]any{"items": ids}},
	).Want(201).Text("data.slug")
	b.open("/v/" + album + "/" + ids[0])
	for _, step := range []struct{ key, path string }{
		{kb.ArrowRight, "/" + ids[1]}, {kb.ArrowRight, "/" + ids[1]}, {kb.ArrowLeft, "/" + ids[0]}, {kb.Escape, ""},
	} {
		b.until(`document.querySelector('.among')`)
		b.keys(step.key)
		b.until(`location.pathname === ` + quoted("/v/"+album+step.path) + ` && document.readyState === 'complete'`)
	}
}
