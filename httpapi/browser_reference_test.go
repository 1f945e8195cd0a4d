package httpapi_test

import (
	"testing"

	"github.com/matryer/is"
)

// TestBrowserReference: the reference of the API opens folded, finds operations by their words, and
// opens one that an address names.
func TestBrowserReference(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/api/v1/reference")
	const found = `Array.from(document.querySelectorAll('.opblock'), (o) => o.id.split('-').at(-1)).join(' ')`
	b.until(`document.querySelectorAll('.opblock-tag').length > 10`)
	is.Equal(b.js(`document.querySelectorAll('.opblock').length`), 0.0)

	b.js(`document.querySelector('.operation-filter-input').focus()`)
	b.keys("resumable remove")
	b.until(found + `.includes('cancelUpload')`)
	is.Equal(b.js(found+`.includes('createNote')`), false)

	b.open("/api/v1/reference?#/notes/createNote")
	b.until(`document.querySelector('.opblock.is-open') !== null`)
	is.Equal(b.js(`document.querySelector('.opblock.is-open').id`), "operations-notes-createNote")
	is.True(b.Sound())
}
