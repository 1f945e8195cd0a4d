package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestBrowserPictures: a picture that is pasted into a note is uploaded as a part of it and stands at the cursor, in the
// preview, in the reader and on the page. The list of files does not have it.
func TestBrowserPictures(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	slug := b.Post("/api/v1/notes", map[string]any{"title": "Trip", "content": "one\ntwo", "isPublic": true}).
		Want(201).Text("data.slug")
	b.open("/notes/" + slug + "?edit=1")
	b.until(`document.querySelector('dialog textarea')?.value === 'one\ntwo'`)
	b.js(`(async () => {
		const area = document.querySelector('dialog textarea'), canvas = document.createElement('canvas');
		canvas.width = 60, canvas.height = 40;
		canvas.getContext('2d').fillRect(0, 0, 60, 40);
		const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
		const clipboardData = new DataTransfer();
		clipboardData.items.add(new File([blob], 'Beach [1].png', { type: 'image/png' }));
		area.focus();
		area.setSelectionRange(3, 3);
		area.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
	})()`)
	b.until(`/^one\n!\[Beach  1\]\(kist:[0-9a-f-]{36}\)\ntwo$/.test(document.querySelector('dialog textarea').value)`)
	b.press("Preview")
	b.until(`document.querySelector('dialog .rendered img')?.naturalWidth > 0`)
	b.click(`dialog .foot .main`)
	b.says("Saved.")
	text, _ := one(b.App, "notes", "content").(string)
	is.True(strings.Contains(text, "(kist:"))
	is.Equal(b.Get("/api/v1/files").Want(200).At("total"), 0.0)

	b.open("/notes/" + slug)
	b.until(`document.querySelector('dialog.reader img[alt="Beach  1"]')?.naturalWidth > 0`)
	b.open("/v/" + slug)
	b.until(`document.querySelector('.prose img')?.naturalWidth > 0`)
}

// pasteScript defines paste, which pastes pictures of the given names at a place of the text, and has uploads wait until
// free sends the one of that number.
const pasteScript = `void (() => {
	const canvas = document.createElement('canvas'), send = XMLHttpRequest.prototype.send, held = [];
	canvas.width = 60, canvas.height = 40;
	canvas.getContext('2d').fillRect(0, 0, 60, 40);
	XMLHttpRequest.prototype.send = function (body) { held.push(() => send.call(this, body)); };
	const { fetch } = window;
	window.patches = 0;
	window.fetch = (at, options) => {
		if (options?.method === 'PATCH') patches++;
		return fetch(at, options);
	};
	window.held = held;
	window.free = (n) => held[n]();
	window.area = document.querySelector('dialog textarea');
	window.paste = async (at, ...names) => {
		const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
		const clipboardData = new DataTransfer();
		for (const name of names) {
			const large = name === 'large.png' && new Uint8Array(9 << 20);
			clipboardData.items.add(new File([blob, large || name], name, { type: 'image/png' }));
		}
		area.focus();
		area.setSelectionRange(at, at);
		area.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
		return area.value;
	};
})()`

// TestBrowserPicturesWait: a line stands for a picture where it was pasted while it is being uploaded, and saving waits
// for it.
func TestBrowserPicturesWait(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.Post("/api/v1/notes", map[string]any{"title": "Trip", "content": "one\ntwo", "slug": "trip"}).Want(201)
	edit := func() {
		t.Helper()
		b.open("/notes/trip?edit=1")
		b.until(`document.querySelector('dialog textarea')?.value === 'one\ntwo'`)
		b.js(pasteScript)
	}
	value := func(want string) { t.Helper(); b.until(`area.value === ` + quoted(want)) }

	// Two at once keep their order, and their places when the text moves.
	edit()
	is.Equal(b.js(`paste(3, 'a.png', 'a.png')`), "one\n![Uploading a.png …]()\n![Uploading a.png (2) …]()\ntwo")
	b.js(`void (area.setRangeText('zero\n', 0, 0), area.setSelectionRange(4, 4),
		area.dispatchEvent(new Event('input', { bubbles: true })))`)
	b.until(`held.length === 2`)
	b.click(`dialog .foot .main`)
	b.until(`document.querySelector('dialog .foot small').textContent.includes('Waits for 2')`)
	b.js(`void document.querySelector('dialog form').requestSubmit()`) // as Ctrl+Enter does
	b.js(`void free(1)`)
	b.until(`/^zero\none\n!\[Uploading a.png …\]\(\)\n!\[a\]\(kist:[0-9a-f-]{36}\)\ntwo$/.test(area.value)`)
	is.Equal(b.js(`area.selectionStart`), 4.0)
	b.until(`document.querySelector('dialog .foot small').textContent.includes('Waits for 1')`)
	is.Equal(b.js(`patches`), 0.0)
	b.js(`void free(0)`)
	b.says("Saved.")
	is.Equal(b.js(`patches`), 1.0)
	files := b.Get("/api/v1/files?attachments=true&sort=oldest").Want(200).IDs()
	is.Equal(
		b.Get("/api/v1/notes/trip").Want(200).Text("data.content"),
		fmt.Sprintf("zero\none\n![a](kist:%s)\n![a](kist:%s)\ntwo", files[1], files[0]),
	)
	b.Patch("/api/v1/notes/trip", `{"content":"one\ntwo"}`).Want(200)

	// What the user takes out stays out, and is not waited for. A file that cannot be sent leaves nothing behind.
	edit()
	b.js(`paste(7, 'gone.png')`)
	b.until(`held.length === 1`)
	b.js(`void (area.value = 'one\ntwo!', area.dispatchEvent(new Event('input', { bubbles: true })))`)
	b.js(`void free(0)`)
	b.says("“gone.png” is not in the text")
	value("one\ntwo!")
	b.js(`paste(8, 'large.png')`)
	b.says("was not added. Too large")
	value("one\ntwo!")

	// A draft has no such line.
	b.js(`paste(0, 'late.png')`)
	b.until(`held.length === 2`)
	b.press("Cancel")
	b.until(`!document.querySelector('dialog')`)
	b.js(`void free(1)`)
	b.says("“late.png” is not in the text")
	is.Equal(b.js(`JSON.parse(Object.entries(localStorage).find(([k]) => k.includes('note'))[1]).values.content`), "one\ntwo!")
}

// TestBrowserOwnPicture: the picture of a recipe or a game is chosen in its form, which shows it, and taken away there.
func TestBrowserOwnPicture(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	choose := func(name string) {
		t.Helper()
		b.press("Choose a picture")
		b.until(`document.querySelector('dialog .photo input[type=file]')`)
		b.js(`(async () => {
			const canvas = document.createElement('canvas'), file = document.querySelector('dialog .photo input[type=file]');
			canvas.width = 60, canvas.height = 40;
			canvas.getContext('2d').fillRect(0, 0, 60, 40);
			const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
			const all = new DataTransfer();
			all.items.add(new File([blob, ` + quoted(name) + `], ` + quoted(name) + `, { type: 'image/png' }));
			file.files = all.files;
			file.dispatchEvent(new Event('change', { bubbles: true }));
		})()`)
		b.until(`document.querySelector('dialog .photo img')?.naturalWidth === 60`)
	}
	save := func(says string) {
		t.Helper()
		b.click(`dialog .foot .main`)
		b.says(says)
		b.until(`!document.querySelector('dialog')`)
	}
	b.Post("/api/v1/recipes", map[string]any{"title": "Soup", "slug": "soup"}).Want(201)

	b.open("/recipes/soup?edit=1")
	b.until(`document.querySelector('dialog .photo')`)
	b.press("Cancel")
	b.until(`!document.querySelector('dialog')`)
	is.Equal(b.js(`Object.entries(localStorage).filter(([k, v]) => k.includes('recipe.') && v !== 'null').length`), 0.0)

	b.open("/recipes/soup?edit=1")
	choose("soup.png") // and save at once
	save("Saved.")
	photo := b.Get("/api/v1/recipes/soup").Want(200).Text("data.photoId")
	is.Equal(b.Get("/api/v1/files?attachments=true").Want(200).IDs()[0], photo)
	b.until(`document.querySelector('#main .item img.cover')?.naturalWidth > 0`)

	b.open("/recipes/soup?edit=1")
	b.until(`document.querySelector('dialog .photo img')?.naturalWidth > 0`)
	b.press("Remove")
	b.until(`document.querySelector('dialog .photo img').hidden`)
	save("Saved.")
	is.Equal(b.Get("/api/v1/recipes/soup").Want(200).At("data.photoId"), nil)

	b.open("/recipes/soup?edit=1")
	b.until(`document.querySelector('dialog [name=imageUrl]')`)
	is.True(b.js(`!document.querySelector('dialog .photo img')`) == true)
	b.fill("Photo URL", b.URL+"/x/"+b.Get("/api/v1/files/"+photo).Want(200).Text("data.slug"))
	save("Saved.")
	is.Equal(b.Get("/api/v1/recipes/soup").Want(200).At("data.photoId"), photo)

	b.open("/games/new")
	b.fill("Title", "Go")
	choose("go.png")
	save("Game added.")
	is.Equal(one(b.App, "games", "coverId"), b.Get("/api/v1/files?attachments=true").Want(200).IDs()[0])
}
