package httpapi_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// box is the box of a task in the reader, by its line.
func box(line string) string {
	return `document.querySelector('dialog.reader [data-line="` + line + `"]')`
}

// openNote opens the reader of a note whose tasks can be ticked.
func openNote(b *tab, at string) {
	b.Helper()
	b.open(at)
	b.until(`document.querySelectorAll('dialog.reader .tick [data-line]:enabled').length > 0`)
}

// textBecomes waits for the text of a note.
func textBecomes(a *apitest.App, note, text string) {
	a.Helper()
	apitest.Eventually(a.TB, "the note does not become "+text, func() bool {
		return a.Get(note).Want(200).Text("data.content") == text
	})
}

// TestBrowserTicks: two pages show one note, and each ticks with one tap or key. The focus stays on the box.
func TestBrowserTicks(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	made := b.Post("/api/v1/notes", map[string]any{
		"title": "Shopping", "content": "- [ ] milk **fresh**\n- [x] salt\n  - [ ] fine\n\n> - [ ] bread\n\n```\n- [ ] code\n```\n",
	}).Want(201)
	note, at := "/api/v1/notes/"+made.Text("data.id"), "/notes/"+made.Text("data.slug")
	openNote(b, at)
	is.Equal(b.js(`document.querySelectorAll('dialog.reader [data-line]').length`), 4.0)
	is.Equal(b.js(`[...document.querySelectorAll('dialog.reader [data-line]')].every((e) => {
		const { width, height } = e.labels[0].getBoundingClientRect();
		return width >= 24 && height >= 24;
	})`), true)
	is.Equal(b.js(box("2")+`.checked`), true)
	other := profile(b.App)
	other.signIn()
	openNote(other, at)

	b.js(box("1") + `.focus()`)
	b.keys(" ")
	b.until(box("1") + `.checked`)
	textBecomes(b.App, note, "- [x] milk **fresh**\n- [x] salt\n  - [ ] fine\n\n> - [ ] bread\n\n```\n- [ ] code\n```\n")
	b.until(`document.activeElement === ` + box("1"))
	other.js(`document.querySelector('dialog.reader [data-line="5"]').labels[0].click()`)
	textBecomes(b.App, note, "- [x] milk **fresh**\n- [x] salt\n  - [ ] fine\n\n> - [x] bread\n\n```\n- [ ] code\n```\n")
	other.until(box("1") + `.checked`) // after its own tick, it shows the other's
	b.js(`dispatchEvent(new Event('focus'))`)
	b.until(box("5") + `.checked`)
	is.Equal(b.js(`document.activeElement === `+box("1")), true)

	// Many at once go in order.
	b.js(`Array.from({ length: 7 }, () => ` + box("3") + `.click()).length`)
	textBecomes(b.App, note, "- [x] milk **fresh**\n- [x] salt\n  - [x] fine\n\n> - [x] bread\n\n```\n- [ ] code\n```\n")
	b.until(box("3") + `.checked`)

	// A task that is gone: the page shows the note as it has become. The task that has moved is found.
	b.Patch(note, map[string]any{"content": "- [ ] butter\n- [ ] salt\n"}).Want(200)
	b.expects("409")
	b.js(box("1") + `.click()`)
	b.says("This task is not in the note any more")
	b.until(box("1") + `.dataset.task === 'butter' && !` + box("1") + `.checked`)
	b.Patch(note, map[string]any{"content": "# Today\n\n- [ ] butter\n- [ ] salt\n"}).Want(200)
	b.js(box("2") + `.click()`)
	textBecomes(b.App, note, "# Today\n\n- [ ] butter\n- [x] salt\n")
	b.until(box("4") + `?.checked`)
	b.keys(kb.Escape)
	b.until(`!document.querySelector('dialog')`)
	is.Equal(b.Get(note+"/versions").At("total"), 4.0) // two runs of ticks and two changes
}

// TestBrowserTicksOffline: ticks wait while the server is off, show when the note is opened again, and arrive in order.
func TestBrowserTicksOffline(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	made := b.Post("/api/v1/notes", map[string]any{"title": "Shopping", "content": "- [ ] milk\n- [ ] salt\n- [ ] bread"}).Want(201)
	note, at := "/api/v1/notes/"+made.Text("data.id"), "/notes/"+made.Text("data.slug")
	g := newGate(t, strings.TrimPrefix(b.URL, "http://"))
	server, there := b.URL, "http://"+g.at
	b.URL = there
	b.signIn()
	b.open("/account")
	b.js(`localStorage.setItem('kist.offline', 'true')`)
	b.open("/")
	b.until(`!!navigator.serviceWorker.controller && caches.open('kist-data').then((c) => c.match('/sw.js?kept'))`)
	openNote(b, at)
	g.shut()
	b.js(box("1") + `.click()`)
	b.says("Saved on this device")
	const waiting = `new Promise((done) => {
		indexedDB.open('kist-waiting', 1).onsuccess = (e) => {
			const db = e.target.result;
			db.transaction('requests').objectStore('requests').getAll().onsuccess = (e) => { db.close(); done(e.target.result.map((x) => x.body)); };
		};
	})`
	b.until(waiting + `.then((all) => all.length === 1)`)
	b.js(box("3") + `.click()`)
	b.until(waiting + `.then((all) => all.length === 2)`)
	b.js(box("1") + `.click()`)
	b.js(box("1") + `.click()`)
	b.js(box("3") + `.click()`)
	b.open("/notes") // the page is another one, and what waits is on the disk: each task once
	b.until(waiting + `.then((all) => all.length === 2 && /milk.*true/.test(all[0]) && /bread.*false/.test(all[1]))`)
	b.click("#main a.name")
	b.until(box("1") + `?.checked && !` + box("3") + `.checked`)
	is.Equal(b.js(box("1")+`.disabled`), false)

	b.URL = server
	b.Patch(note, map[string]any{"content": "- [ ] milk\n- [x] salt\n- [ ] bread"}).Want(200)
	g.open()
	b.js(`void navigator.serviceWorker.controller.postMessage({ want: 'send' })`)
	textBecomes(b.App, note, "- [x] milk\n- [x] salt\n- [ ] bread")
	b.until(box("2") + `?.checked && ` + box("1") + `.checked`)
	b.until(waiting + `.then((all) => all.length === 0)`)
	is.Equal(b.js(`Object.keys(localStorage).some((k) => k.includes('draft'))`), false)

	b.URL = there
	g.shut()
	b.js(box("2") + `.click()`)
	b.until(waiting + `.then((all) => all.length === 1)`)
	b.URL = server
	b.Patch(note, map[string]any{"content": "- [ ] butter"}).Want(200)
	g.open()
	b.js(`void navigator.serviceWorker.controller.postMessage({ want: 'send' })`)
	b.says("Something saved on this device was refused")
	b.until(box("1") + `.dataset.task === 'butter'`)
	is.Equal(b.js(`Object.keys(localStorage).some((k) => k.includes('draft'))`), false) // it is no new note
}

// TestBrowserLists: Enter continues a list that is written, and ends with an empty line.
func TestBrowserLists(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/notes/new")
	b.until(`document.querySelector('dialog[open] [name=content]')`)
	b.js(`document.querySelector('dialog[open] [name=content]').focus()`)
	b.write("- [x] milk")
	b.keys(kb.Enter)
	b.write("salt")
	b.keys(kb.Enter, kb.Enter)
	b.write("9. then")
	b.keys(kb.Enter)
	b.write("home")
	is.Equal(b.js(`document.querySelector('dialog[open] [name=content]').value`), "- [x] milk\n- [ ] salt\n9. then\n10. home")
	b.press("Add note")
	b.says("Note added")
}
