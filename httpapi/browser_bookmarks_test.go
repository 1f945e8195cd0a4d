package httpapi

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/record"
)

// TestBrowserBookmarks: who keeps a page twice is told, and pages that are gone
// are marked and found.
func TestBrowserBookmarks(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/bookmarks")
	b.fill("New bookmark", "https://example.org/a")
	b.press("Add bookmark")
	b.says("Bookmark added.")
	b.fill("New bookmark", "https://example.org/a?utm_source=mail")
	b.press("Add bookmark")
	b.says("You had one of this page already.")
	b.press("Show")
	b.until(`location.search.startsWith('?url=') && document.querySelectorAll('#main .item').length === 2`)

	b.open("/bookmarks")
	b.fill("New bookmark", "https://example.org/b")
	b.press("Add bookmark")
	b.until(`document.querySelectorAll('#main .item').length === 3`)
	b.js(`document.querySelector('#main [data-act=new]').click()`)
	b.fill("Address", "https://example.org/a/")
	b.js(`document.querySelector('dialog [type=url]').dispatchEvent(new Event('change', { bubbles: true }))`)
	b.until(`document.querySelector('dialog').textContent.includes('You have this already.')`)
	b.fill("Address", "https://example.org/c")
	b.js(`document.querySelector('dialog [type=url]').dispatchEvent(new Event('change', { bubbles: true }))`)
	b.until(`!document.querySelector('dialog').textContent.includes('You have this already.')`)

	for range 4 { // over four days, the page of one is gone
		b.fatal(b.server.Store.Update(func(tx *kv.Tx) error {
			list, err := tx.List(kv.Query{Owner: b.user.ID, Kind: record.Bookmarks, Limit: 1})
			if err != nil {
				return err
			}
			p, _, _, err := tx.DuePage(kv.PageTurn{Owner: b.user.ID, ID: list.Records[0].ID})
			if err != nil {
				return err
			}
			return tx.Looked(p, record.Look{Verdict: record.Fails})
		}))
		b.clock.advance(36 * time.Hour)
	}
	is.Equal(b.get("/api/v1/bookmarks?unreachable=true").at("total"), 1.0)
	b.open("/bookmarks")
	b.until(`document.querySelectorAll('#main .item .badge.warn').length === 1`)
	b.press("Unreachable")
	b.until(`document.querySelectorAll('#main .item').length === 1`)
	is.Equal(b.js(`document.querySelector('#main .item .badge.warn').textContent`), "unreachable")
	is.True(b.sound())
}
