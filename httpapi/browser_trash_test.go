package httpapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/history"
)

// TestBrowserTrash: the server deletes at once, Undo restores, and so does the trash an
// hour later, in three actions.
func TestBrowserTrash(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for _, title := range []string{"one", "two", "three"} {
		b.App.Post("/api/v1/notes", fmt.Sprintf(`{"content":"c","title":%q,"slug":%q}`, title, title)).Want(201)
	}
	remove := func(title string) {
		b.Helper()
		b.until(fmt.Sprintf(`(() => {
			const row = [...document.querySelectorAll('#main .item')].find((row) => row.record?.title === %q);
			row?.querySelector('a.name').focus();
			row?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Delete', bubbles: true }));
			return !!row;
		})()`, title))
	}
	trashed := func(n float64) {
		b.Helper()
		b.App.Until("/api/v1/trash", func(g *apitest.Answer) bool { return g.At("total") == n })
	}
	b.open("/notes")
	b.until(`document.querySelectorAll('#main .item').length === 3`)
	remove("two")
	trashed(1) // while the message is shown
	b.press("Undo")
	b.until(`document.querySelectorAll('#main .item').length === 3`)
	trashed(0)
	remove("one")
	trashed(1)
	remove("two")
	trashed(2)
	b.until(`document.querySelector('.rail .trashed').textContent === '2'`)
	b.App.Post("/api/v1/notes", `{"content":"d","slug":"two"}`).Want(201)
	b.App.Clock.Advance(time.Hour)

	b.open("/notes")
	b.click(`.rail a[href$="/trash"]`)
	b.until(`document.querySelectorAll('#main .item').length === 2`)
	b.press("Restore one")
	b.until(`document.querySelectorAll('#main .item').length === 1`)
	is.Equal(b.Get("/api/v1/notes/one").Want(200).At("data.title"), "one")
	b.press("Restore two")
	b.says("Its link name was taken")
	b.until(`document.querySelector('#main .none')`)
	trashed(0)

	b.open("/notes")
	b.until(`document.querySelectorAll('#main .item').length === 4`)
	remove("one")
	trashed(1)
	b.open("/trash")
	b.press("Delete one permanently")
	b.click("dialog .danger")
	trashed(0)
	b.open("/notes")
	remove("three")
	trashed(1)
	b.open("/trash")
	b.press("Empty trash")
	b.click("dialog .danger")
	b.until(`document.querySelector('#main .none') && document.querySelector('.rail .trashed').hidden`)

	// A text comes back with its pictures, so their rows go with its own.
	photo := b.Upload(map[string]string{"attach": "true"}, apitest.File("a.png", "image/png", apitest.Picture(t)))
	note := fmt.Sprintf(`{"content":"![a](kist:%s)","slug":"trip"}`, photo.Want(201).Text("id"))
	b.App.Post("/api/v1/notes", note).Want(201)
	b.App.Delete("/api/v1/notes/trip").Want(200)
	b.App.Clock.Advance(time.Hour)
	b.open("/trash")
	b.until(`document.querySelectorAll('#main .item').length === 2`)
	b.js(`void [...document.querySelectorAll('#main .item')].find((row) => row.item.kind === 'note')
		.querySelector('button').click()`)
	b.until(`document.querySelector('#main .none') && document.querySelector('.rail .trashed').hidden`)
	trashed(0)

	// Turning the trash off empties it, and fewer days do in part, so both ask first.
	b.open("/notes")
	remove("two")
	trashed(1)
	days := func(n string) {
		b.fill("Keep deleted items for (days)", n)
		b.keys(kb.Enter)
	}
	b.signIn() // settings need a recent one
	b.open("/admin")
	days("0")
	b.shows("1 item in the trash will be deleted permanently")
	b.press("Cancel")
	b.until(`document.querySelector('[name=trashDays]').value === '30'`)
	trashed(1)
	days("10")
	b.shows("Keep deleted items for 10 days?")
	b.press("Cancel")
	b.until(`document.querySelector('[name=trashDays]').value === '30'`)
	days("40")
	b.says("Saved.")
	b.press("Undo")
	b.until(`document.querySelector('[name=trashDays]').value === '30'`)
	is.Equal(b.Get("/api/v1/admin/settings").At("data.trashDays"), 30.0)
	trashed(1)
	days("0")
	b.click("dialog .danger")
	b.App.Until("/api/v1/admin/settings", func(g *apitest.Answer) bool { return g.At("data.trashDays") == 0.0 })
	trashed(0)
	b.says("Saved.")
	is.Equal(b.js(`document.querySelector('[data-act=toast-run]')`), nil) // what is gone cannot come back
	is.True(b.Sound())
}

// TestBrowserVersions: the timeline of a note shows which words differ, and restores.
func TestBrowserVersions(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	id := b.App.Post(
		"/api/v1/notes", `{"content":"Buy milk and eggs\n\nSoon.","title":"List","slug":"n"}`,
	).Want(201).Text("data.id")
	b.App.Patch("/api/v1/notes/"+id, `{"content":"Buy oat milk and bread\n\nSoon."}`).Want(200)
	b.App.Clock.Advance(history.VersionEvery)
	b.open("/notes/n")
	b.press("Versions")
	b.click("dialog .versions summary")
	b.until(`document.querySelector('dialog .changes')`)
	is.Equal(
		b.js(`document.querySelector('dialog .changes').innerHTML`),
		"Buy <ins>oat </ins>milk and <del>eggs</del><ins>bread</ins>\n\nSoon.",
	)
	b.press("Restore this version")
	b.says("Version restored.")
	b.until(`document.querySelector('dialog.reader')?.textContent.includes('eggs')`)
	is.Equal(b.Get("/api/v1/notes/"+id).At("data.content"), "Buy milk and eggs\n\nSoon.")
	is.Equal(b.Get("/api/v1/notes/"+id+"/versions").At("total"), 2.0)

	// The runs of a difference, and what they say together.
	for _, c := range []struct{ a, b, want string }{
		{"", "", "[]"},
		{"a", "", `[["-","a"]]`},
		{"", "a", `[["+","a"]]`},
		{"a b c", "a x c", `[["=","a "],["-","b"],["+","x"],["="," c"]]`},
		{"one\ntwo\nthree\n", "one\nthree\n", `[["=","one\n"],["-","two\n"],["=","three\n"]]`},
		{"one\n", "one\ntwo\n", `[["=","one\n"],["+","two\n"]]`},
		{"größer", "größte", `[["-","größer"],["+","größte"]]`},
	} {
		got := b.js(fmt.Sprintf(
			`import(JSON.parse(document.getElementById('start').textContent).modules.versions).then((m) => JSON.stringify(m.difference(%q, %q)))`,
			c.a, c.b,
		))
		is.Equal(got, c.want)
	}
	is.Equal(b.js(`import(JSON.parse(document.getElementById('start').textContent).modules.versions).then(({ difference }) => {
		let seed = 1;
		const random = (n) => { seed = seed * 1103515245 + 12345 & 0x7fffffff; return (seed >> 8) % n; };
		const text = () => Array.from({ length: random(60) }, () => ['a', 'b', ' ', '\n', 'c d'][random(5)]).join('');
		for (let i = 0; i < 2000; i++) {
			const a = text(), b = text(), runs = difference(a, b), side = (op) => runs.filter(([o]) => o === '=' || o === op).map(([, t]) => t).join('');
			if (side('-') !== a || side('+') !== b) return JSON.stringify([a, b, runs]);
		}
		const long = Array.from({ length: 20000 }, (_, i) => 'line ' + i + '\n').join(''), other = Array.from({ length: 20000 }, (_, i) => 'other ' + i + '\n').join('');
		const begun = performance.now();
		difference(long, other);
		return performance.now() - begun < 5000 ? 'equal' : 'slow';
	})`), "equal")
	is.True(b.Sound())
}
