package httpapi_test

import (
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
