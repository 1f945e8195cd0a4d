package httpapi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// TestBrowserBookmarks: who keeps a page twice is told, and pages that are gone
// are marked and found.
func TestBrowserBookmarks(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/bookmarks")
	b.press("New")
	b.fill("URL", "https://example.org/a")
	b.press("Add bookmark")
	b.says("Bookmark added.")
	b.press("New")
	b.fill("URL", "https://example.org/a?utm_source=mail")
	b.press("Add bookmark")
	b.says("You already had one of this page.")
	b.press("Show")
	b.until(`location.search.startsWith('?url=') && document.querySelectorAll('#main .item').length === 2`)

	b.open("/bookmarks")
	b.press("New")
	b.fill("URL", "https://example.org/b")
	b.press("Add bookmark")
	b.until(`document.querySelectorAll('#main .item').length === 3`)
	b.until(`!document.querySelector('dialog')`)
	b.js(`document.querySelector('#main [data-act=new]').click()`)
	b.until(`document.querySelector('dialog [type=url]')`)
	b.fill("URL", "https://example.org/a/")
	b.js(`document.querySelector('dialog [type=url]').dispatchEvent(new Event('change', { bubbles: true }))`)
	b.until(`document.querySelector('dialog').textContent.includes('You already have this.')`)
	b.fill("URL", "https://example.org/c")
	b.js(`document.querySelector('dialog [type=url]').dispatchEvent(new Event('change', { bubbles: true }))`)
	b.until(`!document.querySelector('dialog').textContent.includes('You already have this.')`)

	for range 4 { // over four days, the page of one is gone
		b.NoErr(b.Server.Store.Update(func(tx *kv.Tx) error {
			list, err := catalog.List(tx, catalog.Query{Owner: b.User.ID, Kind: record.Bookmarks, Limit: 1})
			if err != nil {
				return err
			}
			p, _, _, err := catalog.LoadDuePage(tx, catalog.DuePage{Owner: b.User.ID, ID: list.Records[0].ID})
			if err != nil {
				return err
			}
			return catalog.SavePageCheck(tx, p, record.Look{Verdict: record.Fails})
		}))
		b.Clock.Advance(36 * time.Hour)
	}
	is.Equal(b.Get("/api/v1/bookmarks?unreachable=true").At("total"), 1.0)
	b.open("/bookmarks")
	b.until(`document.querySelectorAll('#main .item .badge.warn').length === 1`)
	b.press("Unreachable")
	b.until(`document.querySelectorAll('#main .item').length === 1`)
	is.Equal(b.js(`document.querySelector('#main .item .badge.warn').textContent`), "unreachable")
	is.True(b.Sound())
}

// TestBrowserIcons: a bookmark shows the icon of its site, from this server, and
// the letter of the site where there is none.
func TestBrowserIcons(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	site, _ := apitest.IconSite(t)
	b.open("/bookmarks")
	b.Looking()
	b.press("New")
	b.fill("URL", site+"/page")
	b.press("Add bookmark")
	b.until(`document.querySelector('#main .item .favicon')?.naturalWidth === 64`) // when the server has it
	icon := b.js(`document.querySelector('#main .item .favicon').src`)
	is.Equal(icon, one(b.App, "bookmarks", "iconUrl"))
	is.True(strings.HasPrefix(icon.(string), b.URL+"/t/"))
	is.Equal(
		b.js(`performance.getEntriesByType('resource').filter((e) => !e.name.startsWith(location.origin)).length`), 0.0,
	)
	is.Equal(b.js(`document.querySelector('#main .item .pic b').textContent`), "1") // of 127.0.0.1
	b.open("/")
	b.until(`document.querySelector('#main .item .favicon')?.naturalWidth === 64`)

	slug := one(b.App, "bookmarks", "slug").(string)
	b.Patch("/api/v1/bookmarks/"+slug, `{"isPublic":true}`).Want(200)
	b.open("/v/" + slug)
	b.until(`document.querySelector('header .favicon')?.naturalWidth === 64`)

	// Lost, the letter is there.
	is.NoErr(os.RemoveAll(filepath.Join(b.Server.Store.Dir(), "cache", "icons")))
	b.Patch("/api/v1/admin/settings", `{"linkChecks":false}`).Want(200)
	b.open("/bookmarks")
	b.until(`!document.querySelector('#main .item .favicon') && document.querySelector('#main .item .pic b').textContent === '1'`)
	b.open("/v/" + slug)
	b.until(`document.querySelector('h1') && !document.querySelector('.favicon')`)
	is.True(b.Sound())
}

// TestBrowserCards: bookmarks and games are shown as cards with the pictures of their pages and covers, from this server.
func TestBrowserCards(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	site, _ := apitest.IconSite(t)
	b.Looking()
	b.Post("/api/v1/bookmarks", map[string]any{"url": site + "/page", "description": "A page with a picture"}).Want(201)
	b.Post("/api/v1/bookmarks", map[string]any{"url": "https://kist.invalid/", "title": "Without a picture"}).Want(201)
	b.Post(
		"/api/v1/games", map[string]any{"title": "Outer Wilds", "coverUrl": site + "/icon.png?cover", "status": "playing"},
	).Want(201)
	b.App.Until("/api/v1/bookmarks", func(g *apitest.Answer) bool {
		return strings.Contains(string(g.Body), "/icon.png?og")
	})
	for _, page := range []string{"/bookmarks", "/games"} {
		b.open(page)
		// when the server has it
		b.until(`[...document.querySelectorAll('#main .cardlist .cover')].some((i) => i.naturalWidth === 96)`)
		is.Equal(
			b.js(`performance.getEntriesByType('resource').filter((e) => !e.name.startsWith(location.origin)).length`), 0.0,
		)
		for _, width := range []int64{320, 768, 1280} {
			b.do(chromedp.EmulateViewport(width, 800))
			is.Equal(b.js(`document.documentElement.scrollWidth <= innerWidth`), true)
		}
		if *apitest.Gallery != "" {
			var picture []byte
			b.do(chromedp.FullScreenshot(&picture, 100))
			is.NoErr(os.WriteFile(
				filepath.Join(*apitest.Gallery, "cards"+strings.ReplaceAll(page, "/", "-")+".png"), picture, 0o600,
			))
		}
		b.press("List view")
		b.until(`!document.querySelector('.cardlist') && document.querySelector('#main .item')`)
		b.open(page) // it is remembered
		b.until(`!document.querySelector('.cardlist') && document.querySelector('#main .item')`)
		b.press("Grid view")
		b.until(`document.querySelector('#main .cardlist .item')`)
	}
	is.True(b.Sound())
}
