package httpapi_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// conflict opens a note in the editor, and types while the note is changed elsewhere. It ends with the question what stays.
func conflict(t *testing.T) (b *tab, note string) {
	t.Helper()
	b = openBrowser(t)
	made := b.Post(
		"/api/v1/notes",
		map[string]any{"title": "Shopping", "content": "milk and bread", "tags": []string{"old"}, "isPublic": true},
	).Want(201)
	note = "/api/v1/notes/" + made.Text("data.id")
	b.open("/notes/" + made.Text("data.slug") + "?edit=1")
	b.fill("Text", "milk and butter")
	b.Patch(note, `{"content":"milk, cheese and bread","addTags":["phone"]}`).Want(200)
	b.press("Save")
	b.shows("This was changed elsewhere")
	return b, note
}

// versionsOf are the texts of the versions of a note, newest first.
func versionsOf(a *apitest.App, note string) (all []string) {
	list := a.Get(note + "/versions").Want(200)
	for _, id := range list.IDs() {
		all = append(all, a.Get(note+"/versions/"+id).Want(200).Text("data.content"))
	}
	return all
}

// textField is the field of the editor for the text of a note.
const textField = `document.querySelector('dialog.panel [name=content]')`

// TestBrowserKeepMine: the words that differ are marked, and the other text stays among the versions.
func TestBrowserKeepMine(t *testing.T) {
	is := is.New(t)
	b, note := conflict(t)
	marks := func(el string) any {
		return b.js(`[...document.querySelectorAll('dialog[open] .changes ` + el + `')].map((e) => e.textContent.trim()).join()`)
	}
	is.Equal(marks("ins"), ", cheese,butter,, phone")
	is.Equal(marks("del"), "bread")
	b.keys(kb.Escape) // back to the editor
	b.until(`document.querySelectorAll('dialog[open]').length === 1`)
	is.Equal(b.js(textField+`.value`), "milk and butter")
	b.press("Save")
	b.shows("This was changed elsewhere")
	b.press("Keep mine")
	b.says("Saved")
	b.until(`!` + textField)
	is.Equal(b.Get(note).Text("data.content"), "milk and butter")
	is.Equal(b.Get(note).At("data.tags"), []any{"old", "phone"})
	is.Equal(versionsOf(b.App, note)[0], "milk, cheese and bread")
}

// TestBrowserSaveKey: Ctrl and S save what is in the editor, and nothing else.
func TestBrowserSaveKey(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	made := b.Post("/api/v1/notes", `{"title":"Shopping","content":"milk"}`).Want(201)
	save := func() { b.do(chromedp.KeyEvent("s", chromedp.KeyModifiers(2))) } // Ctrl
	b.open("/notes/" + made.Text("data.slug"))
	b.until(`!!document.querySelector('dialog.reader')`)
	save() // there is nothing to save
	b.open("/notes/" + made.Text("data.slug") + "?edit=1")
	b.fill("Text", "butter")
	save()
	b.says("Saved")
	b.until(`!` + textField)
	is.Equal(b.Get("/api/v1/notes/"+made.Text("data.id")).Text("data.content"), "butter")
}

// TestBrowserTakeTheirs leaves no draft.
func TestBrowserTakeTheirs(t *testing.T) {
	is := is.New(t)
	b, note := conflict(t)
	b.press("Take theirs")
	b.until(`!` + textField)
	is.Equal(b.Get(note).Text("data.content"), "milk, cheese and bread")
	is.Equal(b.js(`Object.keys(localStorage).filter((k) => k.includes('draft')).length`), 0.0)
}

// TestBrowserKeepBoth makes a second note that only its owner sees.
func TestBrowserKeepBoth(t *testing.T) {
	is := is.New(t)
	b, note := conflict(t)
	b.press("Keep both")
	b.until(`!` + textField)
	is.Equal(b.Get(note).Text("data.content"), "milk, cheese and bread")
	is.Equal(one(b.App, "notes", "title"), "Shopping (my version)")
	is.Equal(one(b.App, "notes", "content"), "milk and butter")
	is.Equal(one(b.App, "notes", "isPublic"), false)
	is.Equal(b.Get("/api/v1/notes").At("total"), 2.0)
}

// TestBrowserMerges: changes of different fields do not replace each other, and nobody is asked. A note that is gone can be
// saved as a new one. A draft of a text that was changed since asks when it is opened.
func TestBrowserMerges(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	made := b.Post(
		"/api/v1/notes", map[string]any{"title": "Shopping", "content": "milk", "tags": []string{"old"}},
	).Want(201)
	note, page := "/api/v1/notes/"+made.Text("data.id"), "/notes/"+made.Text("data.slug")
	b.open(page + "?edit=1")
	b.fill("Text", "butter")
	b.Patch(note, `{"title":"Market","addTags":["phone"],"removeTags":["old"],"isFavorite":true}`).Want(200)
	b.press("Save")
	b.says("Saved")
	got := b.Get(note)
	is.Equal(
		[]any{got.At("data.title"), got.At("data.content"), got.At("data.tags"), got.At("data.isFavorite")},
		[]any{"Market", "butter", []any{"phone"}, true},
	)

	b.open(page + "?edit=1")
	b.fill("Text", "apples")
	b.until(`Object.keys(localStorage).some((k) => k.includes('draft') && localStorage[k].includes('apples'))`)
	b.Patch(note, `{"content":"pears"}`).Want(200)
	b.open(page)
	b.shows("This was changed elsewhere")
	b.press("Close")
	b.press("Save")
	b.shows("This was changed elsewhere")
	b.press("Keep mine")
	b.says("Saved")
	is.Equal(b.Get(note).Text("data.content"), "apples")
	is.Equal(versionsOf(b.App, note)[0], "pears")

	b.open(page + "?edit=1")
	b.fill("Text", "plums")
	b.Delete(note).Want(200)
	b.press("Save")
	b.shows("What you typed is still here")
	b.press("Save as a new one")
	b.until(`!` + textField)
	is.Equal(one(b.App, "notes", "content"), "plums")
	is.Equal(b.Get("/api/v1/notes").At("total"), 1.0)
}

// TestBrowserBulkTags: the tags that another device has added meanwhile stay.
func TestBrowserBulkTags(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	var ids []string
	for _, title := range []string{"a", "b", "c"} {
		ids = append(
			ids,
			b.Post(
				"/api/v1/notes", map[string]any{"title": title, "content": "x", "tags": []string{"old", "gone"}},
			).Want(201).Text("data.id"),
		)
	}
	b.open("/notes")
	for _, id := range ids {
		b.Patch("/api/v1/notes/"+id, `{"addTags":["phone"]}`).Want(200)
	}
	b.js(`document.querySelectorAll('#main .pick input').forEach((box) => box.click())`)
	b.click(`.bulk [data-act="bulk-tag"]`)
	b.fill("Add", "new")
	b.press("gone")
	b.press("Apply")
	b.says("Tags changed")
	for _, id := range ids {
		is.Equal(b.Get("/api/v1/notes/"+id).At("data.tags"), []any{"old", "phone", "new"})
	}
	b.until(`[...document.querySelectorAll('#main .item')].every((row) => row.textContent.includes('phone') && row.textContent.includes('new'))`)
}

// TestBrowserOfflineEdit: a change that was made without the server is sent later. If the note was changed elsewhere
// meanwhile, the user is asked.
func TestBrowserOfflineEdit(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	made := b.Post("/api/v1/notes", map[string]any{"title": "Shopping", "content": "milk"}).Want(201)
	note, page := "/api/v1/notes/"+made.Text("data.id"), "/notes/"+made.Text("data.slug")
	g := newGate(t, strings.TrimPrefix(b.URL, "http://"))
	server, there := b.URL, "http://"+g.at
	b.URL = there
	b.signIn()
	b.open("/account")
	b.js(`localStorage.setItem('kist.offline', 'true')`)
	b.open("/")
	b.until(`!!navigator.serviceWorker.controller && caches.open('kist-data').then((c) => c.match('/sw.js?kept'))`)
	const draft = `Object.keys(localStorage).some((k) => k.includes('draft'))`
	edit := func(text string) {
		t.Helper()
		b.open(page + "?edit=1")
		b.until(`!!` + textField)
		g.shut()
		b.fill("Text", text)
		b.js(`(() => {
			const fetched = window.fetch, held = new Promise((go) => { window.release = go; });
			let reads = 0;
			window.fetch = async (address, of) => {
				const isRead = of.method === 'GET' && String(address).endsWith(` + quoted(note) + `);
				const first = isRead && ++reads === 1;
				try {
					return await fetched(address, of);
				} finally {
					if (first) await held;
					else if (isRead) window.release();
				}
			};
		})()`) // the editor closes when it has read what was saved, or when the note is read again
		b.press("Save")
		b.says("Saved on this device")
		b.URL = server
	}

	edit("butter")
	b.js(`window.release()`)
	is.Equal(b.js(draft), true)
	g.open()
	b.js(`void navigator.serviceWorker.controller.postMessage({ want: 'send' })`)
	b.says("1 item saved on this device was sent")
	is.Equal(b.Get(note).Text("data.content"), "butter")
	is.Equal(b.js(draft), false)

	b.URL = there
	edit("cheese")
	b.Patch(note, `{"content":"bread"}`).Want(200)
	g.open()
	b.js(`void navigator.serviceWorker.controller.postMessage({ want: 'send' })`)
	b.says("Something you changed offline was changed elsewhere too")
	// The editor is still closing when another one is asked for.
	const show = `[...document.querySelectorAll('#toasts button')].find((e) => e.textContent === 'Show')`
	b.until(show)
	b.js(show + `.click(), setTimeout(window.release, 500)`)
	b.shows("This was changed elsewhere")
	b.press("Keep both")
	b.until(`!` + textField)
	is.Equal(b.Get(note).Text("data.content"), "bread")
	is.Equal(one(b.App, "notes", "content"), "cheese")
}
