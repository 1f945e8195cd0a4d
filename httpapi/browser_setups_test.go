package httpapi_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// TestBrowserSetups sets a program up, and saves the file that holds its key,
// which is shown this once.
func TestBrowserSetups(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/keys")
	b.press("Set up a program")
	b.shows("Photos and files from the share sheet")
	b.press("Shell script")
	b.press("Anyone with the link can see what the program sends")
	b.press("Set up")
	b.shows("Kist created a key named Shell script.")
	b.js(`(() => { const was = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((t) => { window.saved = t; }); return was.call(URL, blob); }; })()`)
	b.press("Save kist-upload")
	b.until(`window.saved?.startsWith('#!/bin/sh')`)
	script := b.js(`window.saved`).(string)
	is.True(strings.Contains(script, "public=true\n"))
	key := b.As(regexp.MustCompile(`kist_\w+`).FindString(script))
	key.Upload(nil, apitest.File("a.txt", "", "a")).Want(201)
	b.press("Done")
	b.until(`document.querySelector('#main .list .name')?.textContent === 'Shell script'`)
	is.True(!strings.Contains(b.js(`document.documentElement.textContent`).(string), key.Key))

	b.press("Set up a program")
	b.press("Apple Shortcut")
	b.press("Set up")
	b.until(`[...document.querySelectorAll('dialog pre.copy')].some((e) => /^kist_\w+$/.test(e.textContent))`)
	for _, width := range []int64{320, 1280} {
		b.do(chromedp.EmulateViewport(width, 800))
		is.Equal(b.js(`document.querySelector('dialog').scrollWidth - document.querySelector('dialog').clientWidth`), 0.0)
		is.Equal(b.js(manners), []any{})
	}
	is.True(b.Sound())
}

// TestBrowserBookmarklet runs the bookmarklet on a page, and keeps that page.
func TestBrowserBookmarklet(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/keys")
	b.press("Set up a program")
	b.press("Bookmarklet")
	// it sends nothing on its own
	is.True(!b.js(`[...document.querySelectorAll('dialog label')].some((l) => l.textContent.includes('Anyone') && l.getClientRects().length)`).(bool))
	b.press("Set up")
	b.until(`document.querySelector('dialog a[href^="javascript:"]')`)
	b.press("Save to kist")
	b.says("Drag this to the bookmarks bar.")
	code, err := url.PathUnescape(strings.TrimPrefix(
		b.js(`document.querySelector('dialog a[href^="javascript:"]').getAttribute('href')`).(string), "javascript:",
	))
	is.NoErr(err)
	is.Equal(b.Get("/api/v1/keys").At("total"), 1.0) // none was made

	long := strings.Repeat("Ünïcode & \"more\" ☂ ", 200)
	page := b.Post(
		"/api/v1/notes", map[string]any{"title": "A <b>page</b> & more", "content": long, "isPublic": true},
	).Want(201).Text("url")
	b.do(chromedp.Navigate(page + "?a=1&b=%20#c"))
	b.js(`getSelection().selectAllChildren(document.querySelector('article, main'))`)
	b.js(`(window.open = (u) => { window.opened = u; }, 0)`)
	is.Equal(b.js(`(`+strings.TrimPrefix(code, "void")+`, 0)`), 0.0)
	opened := b.js(`window.opened`).(string)
	is.True(len(opened) <= 4000)
	b.do(chromedp.Navigate(opened))
	b.until(`document.querySelector('dialog.panel [name=title], dialog.panel input')`)
	is.Equal(b.js(`location.href.includes('url=')`), true)
	b.press("Add bookmark")
	b.until(`!document.querySelector('dialog')`)
	is.Equal(one(b.App, "bookmarks", "url"), page+"?a=1&b=%20#c")
	is.Equal(one(b.App, "bookmarks", "title"), "A <b>page</b> & more · kist")
	is.True(strings.Contains(one(b.App, "bookmarks", "description").(string), `Ünïcode & "more" ☂`))
	is.Equal(one(b.App, "bookmarks", "isPublic"), false)
	b.until(`location.pathname === '/bookmarks' && !location.search`)
	is.True(b.Sound())
}
