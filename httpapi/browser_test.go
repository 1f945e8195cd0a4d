package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// TestBrowserKinds makes, changes and deletes one of each kind as a user does.
func TestBrowserKinds(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for _, c := range []struct {
		page, api, field, typed, member string
		edit, text, shown               string // shown is its title in the list then
	}{
		{"bookmarks", "bookmarks", "URL", "https://go.dev/doc", "title", "Title", "Documentation", "Documentation"},
		{"notes", "notes", "Text", "Buy milk <b>now</b>", "title", "Title", "Groceries", "Groceries"},
		{"snippets", "snippets", "Code", "  for range 3 {}", "language", "Language", "go", "for range 3 {}"},
		{"games", "games", "Title", "Outer Wilds", "platform", "Platform", "PC", "Outer Wilds"},
		{"links", "shorten", "Target URL", "https://example.org/a/long/way", "description", "Description", "Tickets", "/s/"},
		{"recipes", "recipes", "Dish", "Pancakes", "description", "Description", "For four", "Pancakes"},
	} {
		b.open("/" + c.page)
		b.press("New")
		b.fill(c.field, c.typed)
		if c.page == "recipes" {
			b.fill("Ingredients", "- 2 eggs")
		}
		b.click("dialog .main")
		b.until(`document.querySelectorAll('#main .item').length === 1`)
		b.says("added.")

		b.js(`document.querySelector('#main .item :is([data-act=row-menu], .menu summary)').click()`)
		b.press("Edit")
		b.fill(c.edit, c.text)
		b.fill("Tags", "one, two")
		b.click("dialog .main")
		b.says("Saved.")
		b.until(`!document.querySelector('dialog') && location.pathname === ` + quoted("/"+c.page))
		becomes(b.App, c.api, c.member, c.text) // the words may be those of the kind before
		is.Equal(one(b.App, c.api, "tags.1"), "two")
		is.True(strings.HasPrefix(b.js(`document.querySelector('#main .item .name').textContent`).(string), c.shown))

		b.js(`document.querySelector('#main .item :is([data-act=row-menu], .menu summary)').click()`)
		b.press("Delete")
		b.until(`document.querySelectorAll('#main .item').length === 0`)
		b.press("Undo")
		b.until(`document.querySelectorAll('#main .item').length === 1`)
		is.Equal(b.Get("/api/v1/"+c.api).At("total"), 1.0)

		// Nothing waits until the page is left.
		b.js(`document.querySelector('#main .item :is([data-act=row-menu], .menu summary)').click()`)
		b.press("Delete")
		b.until(`document.querySelectorAll('#main .item').length === 0`)
		b.open("/account")
		b.gone("/api/v1/" + c.api)
	}
	is.True(b.Sound())
}

// TestBrowserDialogThenItem: an item that is opened just after a dialog has ended
// stays open, although the dialog goes back in the history.
func TestBrowserDialogThenItem(t *testing.T) {
	b := openBrowser(t)
	slug := b.Post("/api/v1/recipes", map[string]any{"title": "One", "ingredients": "x"}).Want(201).Text("data.slug")
	b.open("/recipes")
	b.press("New")
	b.until(`document.querySelector('dialog[open] form') && location.pathname === '/recipes/new'`)
	b.js(`(() => {
		addEventListener('popstate', () => { window.steps = (window.steps ?? 0) + 1; });
		document.querySelector('dialog').close('done');
		document.querySelector('#main .item a.name').click();
	})()`)
	b.until(`window.steps === 1`)
	b.until(`location.pathname === ` + quoted("/recipes/"+slug) + ` && document.querySelectorAll('dialog[open]').length === 1`)
}

// TestBrowserOpenMenu: the menu of a row stays open while the row is drawn again, as it is when the
// tags of a saved item arrive.
func TestBrowserOpenMenu(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.Post("/api/v1/notes", map[string]any{"content": "Milk"}).Want(201)
	for tag, focused := range map[string]string{"one": "summary", "two": "[data-act=copy]"} {
		b.open("/notes")
		b.until(`document.querySelectorAll('#main .item').length === 1`)
		b.js(`(() => {
			const fetched = window.fetch;
			const sent = new Promise((go) => { window.sendTags = go; });
			window.fetch = async (address, ...of) => {
				if (String(address.url ?? address).endsWith('/tags')) {
					window.asked = true;
					await sent;
				}
				return fetched(address, ...of);
			};
			document.querySelector('#main .item [data-act=row-menu]').click();
		})()`)
		b.press("Edit")
		b.fill("Tags", tag)
		b.click("dialog .main")
		b.says("Saved.")
		b.until(`!document.querySelector('dialog') && window.asked`)
		b.js(`(() => {
			const row = document.querySelector('#main .item');
			row.dataset.old = '';
			row.querySelector('[data-act=row-menu], .menu summary').click();
		})()`)
		b.until(`document.querySelector('#main .item .menu[open] [data-act=delete]')`)
		b.js(`document.querySelector('#main .menu[open] ` + focused + `').focus(), window.sendTags()`)
		b.until(`!('old' in document.querySelector('#main .item').dataset)`)
		b.until(`document.activeElement === document.querySelector('#main .item.open .menu[open] ` + focused + `')`)
	}
	b.press("Make public")
	becomes(b.App, "notes", "isPublic", true)
	is.True(b.Sound())
}

// TestBrowserUnselect: what is selected no more is not shown as selected, whatever ended the selection.
func TestBrowserUnselect(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for i := range 3 {
		b.Post("/api/v1/notes", map[string]any{"title": fmt.Sprint("note ", i), "content": "x"}).Want(201)
	}
	b.open("/notes")
	const picked = `document.querySelectorAll('.item.picked, .item .pick input:checked').length`
	shows := func(n int) {
		b.Helper()
		b.until(fmt.Sprintf(`%s === %d && document.querySelector('.bulk').hidden === %t`, picked, 2*n, n == 0))
	}
	// The box is ticked and the record selected at once, also before the script of the selection has come.
	b.js(`document.querySelector('#main .pick input').click(), document.querySelector('#main .item a.name').focus()`)
	b.keys(kb.Escape)
	is.Equal(b.js(picked), 0.0)

	b.click(`#main .item:nth-child(2) .pick`)
	shows(1)
	b.keys(kb.Escape)
	shows(0)
	b.click(`#main .item:nth-child(2) .pick`)
	b.click(`#main .item:nth-child(3) .pick`)
	shows(2)
	b.keys(kb.Delete)
	b.until(`document.querySelectorAll('#main .item').length === 1`)
	b.press("Undo")
	b.until(`document.querySelectorAll('#main .item').length === 3`)
	shows(0)
	b.click(`#main .item:nth-child(2) .pick`)
	shows(1)
	b.click(`nav a[data-nav="bookmark"]`)
	b.until(`document.querySelector('h1')?.textContent === 'Bookmarks'`)
	b.js(`history.back()`)
	b.until(`document.querySelectorAll('#main .item').length === 3`)
	shows(0)
	b.click(`#main .item:nth-child(1) .pick`)
	shows(1)
	b.press("Clear selection")
	shows(0)
}

// TestBrowserHome: the box of the home page makes what was typed into what it
// looks like.
func TestBrowserHome(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/")
	b.fill("Add anything", "https://go.dev/")
	b.keys(kb.Enter)
	b.says("Bookmark added.")
	b.fill("Add anything", "https://go.dev/doc")
	b.press("Shorten")
	b.says("Short link added.")
	b.fill("Add anything", "milk and bread")
	b.press("Add note")
	b.says("Note added.")
	b.until(`document.querySelectorAll('#main .item').length === 3`)
	is.Equal(one(b.App, "notes", "content"), "milk and bread")
	is.Equal(one(b.App, "shorten", "originalUrl"), "https://go.dev/doc")

	b.open("/?text=shared+while+signed+out")
	is.Equal(b.js(`document.querySelector('.add textarea').value`), "shared while signed out")
}

// TestBrowserUpload uploads several files with a slow connection, one of them
// too large, and one again after the connection broke.
func TestBrowserUpload(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	dir := t.TempDir()
	var paths []string
	for name, size := range map[string]int{"small.txt": 10, "middle.bin": 600 << 10, "large.bin": 9 << 20} {
		path := filepath.Join(dir, name)
		b.NoErr(os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600))
		paths = append(paths, path)
	}
	b.open("/files")
	b.js(`void (navigator.clipboard.writeText = async (text) => { window.copied = text; })`)
	b.slow(400 << 10)
	b.do(chromedp.SetUploadFiles("input[type=file]", paths, chromedp.NodeReady))
	b.until(`[...document.querySelectorAll('#uploads [role=progressbar]')].some((p) => p.ariaValueNow > 0 && p.ariaValueNow < 100)`)
	b.until(`/\/s · \d+ s left/.test(document.querySelector('#uploads').textContent.replaceAll('\u00a0', ' '))`)
	b.until(`document.querySelector('#uploads').textContent.includes('(limit ')`)
	b.says("2 files uploaded. Only you can open them.")
	b.until(`document.querySelectorAll('#main .item').length === 2`)
	is.Equal(b.js(`window.copied`), nil) // nobody asked for it
	b.press("Share as one link")
	b.fill("Title", "Trip")
	b.press("Share")
	// The people in the dialog are loaded while there is a connection.
	b.until(`document.querySelector('dialog[open].sharing .house')`)
	is.Equal(one(b.App, "collections", "itemCount"), 2.0)
	b.js(`document.querySelectorAll('dialog[open]').forEach((d) => d.close())`)
	is.Equal(b.Get("/api/v1/files").At("total"), 2.0)
	is.Equal(one(b.App, "files", "isPublic"), false)

	// Without a connection it tries again, and keeps the file once.
	b.until(`document.querySelector('#uploads').hidden`) // all have one link
	b.offline()
	b.do(chromedp.SetUploadFiles("input[type=file]", []string{filepath.Join(dir, "small.txt")}, chromedp.NodeReady))
	b.until(`document.querySelector('#uploads').textContent.includes('retrying in')`)
	b.slow(-1)
	b.says("“small.txt” uploaded.")
	is.Equal(b.js(`document.querySelector('.toast')?.textContent ?? null`), nil) // it is said in one place
	b.press("Share …")                                                           // a link would open for nobody
	b.until(`document.querySelector('dialog[open].sharing')`)
	b.js(`document.querySelectorAll('dialog[open]').forEach((d) => d.close())`)
	is.Equal(b.Get("/api/v1/files").At("total"), 3.0)

	// What is cancelled leaves nothing, and what gave up can be tried again.
	b.press("Close")
	b.slow(50 << 10)
	b.do(chromedp.SetUploadFiles("input[type=file]", []string{filepath.Join(dir, "middle.bin")}, chromedp.NodeReady))
	b.until(`document.querySelector('#uploads [role=progressbar]')?.ariaValueNow > 0`)
	b.press("Cancel")
	b.until(`document.querySelector('#uploads').hidden`)
	b.offline()
	b.do(chromedp.SetUploadFiles("input[type=file]", []string{filepath.Join(dir, "middle.bin")}, chromedp.NodeReady))
	b.until(`document.querySelector('#uploads').textContent.includes('retrying in')`)
	b.js(`document.querySelector('#uploads .item').upload.tries = 3`) // as after ten seconds
	b.until(`document.querySelector('#uploads').textContent.includes('cannot be reached')`)
	b.slow(-1)
	b.press("Retry")
	b.says("“middle.bin” uploaded.")
	is.Equal(b.Get("/api/v1/files").At("total"), 4.0)
}

// TestBrowserLargeUpload uploads what is large in pieces: it is paused, the
// connection breaks, and the page is closed on the way; each time it goes on.
func TestBrowserLargeUpload(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t, func(c *web.Config) { c.MaxUpload = 64 << 20 })
	path := filepath.Join(t.TempDir(), "film.bin")
	content := strings.Repeat("0123456789", 1<<20)
	b.NoErr(os.WriteFile(path, []byte(content), 0o600))
	begin := func() {
		b.open("/files")
		b.slow(4 << 20)
		b.do(chromedp.SetUploadFiles("input[type=file]", []string{path}, chromedp.NodeReady))
	}
	moved := `[...document.querySelectorAll('#uploads .item')].some((i) => i.upload.sent > 1e6)`
	begin()
	b.until(moved)
	b.press("Pause")
	b.until(`document.querySelector('#uploads').textContent.includes('Paused at')`)
	is.Equal(b.Get("/api/v1/tus").At("total"), 1.0)

	b.js(`BeforeUnloadEvent.prototype.preventDefault = () => {}`) // it asks whether to leave
	begin()
	b.until(moved)
	b.offline()
	b.until(`document.querySelector('#uploads').textContent.includes('retrying in')`)
	b.slow(-1)
	b.says("“film.bin” uploaded.")
	is.Equal(b.Get("/api/v1/files").At("total"), 1.0)
	sum := sha256.Sum256([]byte(content))
	is.Equal(one(b.App, "files", "sha256"), hex.EncodeToString(sum[:]))
	is.Equal(strings.Count(b.Logged.String(), `"op":"beginUpload"`), 1)
	is.Equal(b.Parts(), 0)

	// What is cancelled leaves nothing on the server either.
	b.press("Close")
	b.NoErr(os.WriteFile(path, []byte("!"+content), 0o600))
	begin()
	b.until(moved)
	b.press("Cancel")
	b.until(`document.querySelector('#uploads').hidden`)
	for deadline := time.Now().Add(patience); b.Parts() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("bytes are left")
		}
	}
	is.Equal(b.Get("/api/v1/tus").At("total"), 0.0)
}

// TestBrowserUploadOptions chooses who gets the next files, and how, before they are sent.
func TestBrowserUploadOptions(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/")
	b.press("Options")
	b.until(`document.querySelector('.add .conditions')`)
	b.press("One download")
	b.until(`document.querySelector('.add select').value === '1'`)
	b.press("For a week")
	b.press("Password: none")
	b.fill("Password", "open sesame")
	b.keys(kb.Enter)
	b.until(`document.querySelector('[data-part=password]').textContent === 'Password: set'`)
	b.fill("Folder", "Plans")
	b.fill("Tags", "sea")
	path := filepath.Join(t.TempDir(), "plan.txt")
	b.NoErr(os.WriteFile(path, []byte("x"), 0o600))
	b.do(chromedp.SetUploadFiles("input[type=file]", []string{path}, chromedp.NodeReady))
	b.says("“plan.txt” uploaded.")
	is.Equal(one(b.App, "files", "isPublic"), true)
	is.Equal(one(b.App, "files", "maxViews"), 1.0)
	is.Equal(one(b.App, "files", "hasPassword"), true)
	is.True(one(b.App, "files", "expiresAt") != nil)
	files := b.Get("/api/v1/files")
	is.Equal(files.At("data.0.folder.name"), "Plans")
	is.Equal(files.At("data.0.tags.0.name"), "sea")

	// What is not a file gets what applies to it.
	b.open("/")
	b.press("Options")
	b.until(`document.querySelector('.add .conditions')`)
	b.press("One download")
	b.fill("Tags", "sea")
	b.fill("Add anything", "https://go.dev/doc")
	b.press("Shorten")
	b.says("Short link added.")
	is.Equal(one(b.App, "shorten", "maxClicks"), 1.0)
	is.Equal(one(b.App, "shorten", "isPublic"), true)
}

// TestBrowserDrop drops and pastes files, as far as a script can.
func TestBrowserDrop(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/tags") // files can be dropped on every page, also on one that was opened directly
	b.drop("early.txt", "abc")
	b.says("“early.txt” uploaded.")
	b.open("/notes")
	b.takesDrops()
	b.js(`(() => {
		const data = new DataTransfer();
		data.items.add(new File(['abc'], 'dropped.txt', { type: 'text/plain' }));
		document.querySelector('main').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
	})()`)
	b.says("“dropped.txt” uploaded.")
	b.js(`(() => {
		const data = new DataTransfer();
		data.items.add(new File(['\x89PNG'], 'image.png', { type: 'image/png' }));
		document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
	})()`)
	b.says("“pasted ")
	is.True(strings.HasPrefix(one(b.App, "files", "originalName").(string), "pasted "))
	b.js(`(() => {
		const data = new DataTransfer();
		data.setData('text/plain', 'pasted text');
		document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
	})()`)
	b.until(`document.querySelector('dialog [name=content]')?.value === 'pasted text'`) // the page of notes makes one of it
}

// TestBrowserLateScripts: loading a script that is first needed now can fail. The
// page says so, keeps the files that were dropped, and the next try loads it.
func TestBrowserLateScripts(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/notes")
	b.block("*/static/uploads.*", "*/static/help.*")
	b.keys("?")
	b.says("The server cannot be reached.")
	b.press("Dismiss")
	b.drop("a.txt", "a")
	b.says("The server cannot be reached.")
	b.press("Try again")
	b.says("The server cannot be reached.")
	b.block()
	b.press("Try again")
	b.says("“a.txt” uploaded.")
	b.keys("?")
	b.until(`document.querySelector('dialog h2')?.textContent === 'Keyboard and help'`)
	is.Equal(b.Get("/api/v1/files").At("total"), 1.0)
}

// TestBrowserBulk changes several files at once.
func TestBrowserBulk(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for i := range 5 {
		b.Upload(map[string]string{"newTags": "old"}, apitest.File(fmt.Sprintf("%d.txt", i), "text/plain", "text")).Want(201)
	}
	b.open("/files")
	b.click(`#main .item:nth-child(1) .pick`)
	b.click(`#main .item:nth-child(3) .pick`)
	b.until(`document.querySelector('.bulk').textContent.includes('2 selected')`)
	b.click(`.bulk [data-act="bulk-tag"]`)
	b.fill("Add", "fresh")
	b.click(`dialog .checks input`)
	b.click(`dialog .main`)
	b.says("Tags changed.")
	is.Equal(b.Get("/api/v1/files?tag=fresh").At("total"), 2.0)
	is.Equal(b.Get("/api/v1/files?tag=old").At("total"), 3.0)

	b.click(`.bulk [data-act="bulk-share"]`)
	b.until(`document.querySelector('dialog select') !== null`)
	b.js(`(() => { const s = document.querySelector('dialog select'); s.value = 'true'; s.dispatchEvent(new Event('change', { bubbles: true })); })()`)
	b.click(`dialog .main`)
	b.says("Changed.")
	is.Equal(b.Get("/api/v1/files?public=true").At("total"), 2.0)

	b.click(`.bulk [data-act="bulk-folder"]`)
	b.fill("Folder", "Papers")
	b.click(`dialog .main`)
	b.says("Moved.")
	b.until(`document.querySelector('.folders').textContent.includes('Papers 2')`)
	is.Equal(b.Get("/api/v1/files?folder=Papers").At("total"), 2.0)

	b.until(`document.querySelectorAll('#main .item').length === 5`)
	b.click(`#main .item:nth-child(1) .pick`)
	b.click(`.bulk [data-act="pick-all"]`)
	b.until(`document.querySelector('.bulk').textContent.includes('5 selected')`)
	b.click(`.bulk [data-act="bulk-delete"]`)
	b.until(`document.querySelectorAll('#main .item').length === 0`)
	b.says("Deleted 5 items.")
	b.hasten(20)
	// its time goes on
	b.js(`document.querySelectorAll('.toast').forEach((e) => e.dispatchEvent(new Event('pointerleave')))`)
	b.gone("/api/v1/files")
}

// TestBrowserHelp: the pages of the app on which questions arise lead to pages
// of the handbook that are there.
func TestBrowserHelp(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for path, topic := range map[string]string{
		"/upload-requests": "collecting", "/webhooks": "webhooks", "/import": "moving", "/keys": "programs", "/admin": "configuration",
		"/bookmarks": "bookmarks", "/search?q=a": "search", "/remote-upload": "remote-upload", "/account": "signing-in",
	} {
		b.open(path)
		b.until(`document.querySelector('#main .head a')`)
		is.Equal(b.js(`document.querySelector('#main .head a').getAttribute('href')`), "/help/"+topic)
		b.Visit("/help/" + topic).Want(200)
	}
	b.open("/notes")
	b.keys("?")
	b.until(`document.querySelector('dialog a[href="/help"]')`)
}

// TestBrowserKeyboard does without a pointer.
func TestBrowserKeyboard(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/")
	// Tab goes from the link that skips the navigation through all that is
	// seen, in the order it is read in, and what has the focus shows it.
	for i, name := range []string{
		"Skip to content", "kist", "Home", "Files", "Bookmarks", "Notes", "Snippets", "Recipes", "Games", "Links",
		"Collections", "Upload requests", "Tags", "Trash", "Settings", "Search everything", "Keyboard and help", "Add anything", "Choose files",
		"Choose a folder", "Who can see new items",
	} {
		b.keys(kb.Tab)
		got := b.js(`(() => { const e = document.activeElement; return [(e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.innerText).trim(), getComputedStyle(e).outlineStyle !== 'none' || !!e.closest('.add')] })()`).([]any)
		is.Equal(got[0], name)
		is.Equal(got[1], true)
		if i == 0 {
			b.until(`document.activeElement.getBoundingClientRect().top >= 0`)
		}
	}
	b.do(chromedp.Focus(".skip"))
	b.keys(kb.Enter)
	b.until(`document.activeElement.id === 'main'`)
	b.keys("g", "n")
	b.until(`location.pathname === '/notes' && document.title === 'Notes · kist'`)
	b.keys("n")
	b.until(`document.querySelector('dialog.panel') && document.activeElement.name === 'title'`)
	b.keys("F", "i", "r", "s", "t", kb.Tab)
	b.write("text of the first")
	b.do(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(2))) // Ctrl
	b.until(`document.querySelectorAll('#main .item').length === 1 && location.pathname === '/notes'`)
	is.Equal(one(b.App, "notes", "title"), "First")
	b.Post("/api/v1/notes", map[string]any{"title": "Second", "content": ""}).Want(201)
	b.open("/notes")
	at := func(title string) { b.Helper(); b.until(`document.activeElement.textContent === ` + quoted(title)) }
	b.keys(kb.ArrowDown)
	at("Second")
	b.keys(kb.ArrowDown)
	at("First")
	b.keys("k")
	at("Second")
	b.keys(kb.Enter)
	b.until(`document.querySelector('dialog.panel') && location.pathname.startsWith('/notes/')`)
	b.keys(kb.Escape)
	b.until(`!document.querySelector('dialog') && location.pathname === '/notes'`)
	at("Second") // the focus comes back
	b.keys("f")
	b.until(`document.querySelector('#main .item .star').getAttribute('aria-pressed') === 'true'`)
	is.Equal(one(b.App, "notes", "isFavorite"), true)
	b.keys(kb.ArrowDown, "x")
	b.until(`document.querySelector('.bulk').textContent.includes('1 selected')`)
	b.keys(kb.Escape)
	b.until(`document.querySelector('.bulk').hidden`)
	b.keys("j", "k")
	at("Second")
	b.keys(kb.Delete)
	b.until(`document.querySelectorAll('#main .item').length === 1`)
	b.keys("u")
	b.until(`document.querySelectorAll('#main .item').length === 2`)
	b.keys("/")
	b.until(`document.activeElement.id === 'q'`)
	b.keys("F", "i", "r")
	b.until(`location.search === '?q=Fir' && document.querySelectorAll('#main .item').length === 1`)
	b.keys(kb.ArrowDown)
	at("First")
	b.keys("?")
	b.until(`document.querySelector('dialog h2')?.textContent === 'Keyboard and help'`)
	b.keys(kb.Escape)
	b.until(`!document.querySelector('dialog')`)
	b.keys("s")
	b.until(`document.querySelector('dialog h2')?.textContent === 'Share First'`)
	b.keys(kb.Escape)
	b.js(`history.back()`)
	b.until(`location.pathname === '/notes' && document.querySelectorAll('#main .item').length === 2`)

	// A note that comes when the user has left does not open.
	b.js(`void ((real) => { window.fetch = async (at, o) => { if (String(at).includes('/v/')) { await new Promise((go) => { window.answer = go; }); window.answered = true; } return real(at, o); }; })(fetch)`)
	b.js(`document.querySelector('#main a.name').click()`)
	b.until(`window.answer`)
	b.js(`history.back()`)
	b.until(`location.pathname === '/notes'`)
	b.js(`window.answer()`)
	b.until(`window.answered`)
	is.Equal(b.js(`new Promise((go) => setTimeout(() => go(document.querySelectorAll('dialog').length), 300))`), 0.0)
}

// TestBrowserGrid goes through pictures in two dimensions.
func TestBrowserGrid(t *testing.T) {
	b := openBrowser(t)
	for i := range 9 {
		b.Upload(nil, apitest.File(fmt.Sprintf("%d.txt", i), "text/plain", "text")).Want(201)
	}
	b.open("/files")
	b.press("Grid view")
	b.until(`document.querySelectorAll('#main .list.grid .item').length === 9`)
	at := func(i int) {
		b.Helper()
		b.until(fmt.Sprintf(
			`[...document.querySelectorAll('#main .item')].indexOf(document.activeElement.closest('.item')) === %d`, i,
		))
	}
	wide := int(b.js(`[...document.querySelectorAll('#main .item')].filter((e, i, rows) => e.getBoundingClientRect().top === rows[0].getBoundingClientRect().top).length`).(float64))
	b.js(`document.activeElement.blur()`)
	b.keys(kb.ArrowDown)
	at(0)
	b.keys(kb.ArrowRight)
	at(1)
	b.keys(kb.ArrowDown)
	at(1 + wide)
	b.keys(kb.ArrowLeft)
	at(wide)
	b.keys(kb.ArrowUp)
	at(0)
}

// TestBrowserSearch finds things of every kind while typing, and shows where.
func TestBrowserSearch(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.Indexed()
	b.Post(
		"/api/v1/notes",
		map[string]any{"title": "Harbour <b>walk</b>", "content": "Along the 😀 harbour wall", "tags": []string{"sea"}},
	).Want(201)
	b.Post("/api/v1/bookmarks", map[string]any{"title": "Harbours", "url": "https://example.org/x"}).Want(201)
	b.Post("/api/v1/games", map[string]any{"title": "Chess"}).Want(201)
	b.open("/")
	b.keys("/")
	b.keys("h", "a", "r", "b", "o", "u", "r")
	b.until(`location.search === '?q=harbour' && document.querySelectorAll('#main .item').length === 2`)
	marks := func() any {
		return b.js(`[...document.querySelectorAll('#main mark')].map((m) => m.textContent).join('|')`)
	}
	is.Equal(marks(), "Harbour|harbour|Harbours")
	is.Equal(b.js(`document.querySelector('#main .name').textContent`), "Harbour <b>walk</b>")         // text, not HTML
	is.Equal(b.js(`document.querySelector('#main .item').textContent.split('Along the').length`), 2.0) // said once
	// to the first result
	b.keys(kb.Enter)
	b.until(`document.activeElement.textContent.startsWith('Harbour <b>')`)
	b.Post("/api/v1/notes", `{"title":"Shopping","content":"- [ ] oranges\n- [x] bread"}`).Want(201)
	b.Indexed()
	b.open("/search?q=oranges")
	b.until(`document.querySelector('#main mark')?.textContent === 'oranges'`)
	is.Equal(b.js(`document.querySelector('#main .item').textContent.split('oranges').length`), 2.0) // ticks, too
	b.open("/search?tag=sea&kind=note")
	b.until(`document.querySelectorAll('#main .item').length === 1`)
	b.open("/search?q=kind:game")
	b.until(`document.querySelectorAll('#main .item').length === 1 && document.querySelector('#main .name').textContent === 'Chess'`)
	is.True(b.Sound())
}

// TestBrowserShare sets everything that sharing has, each with one action or in its own form, and shows who opened it.
func TestBrowserShare(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	slug := b.Post("/api/v1/notes", map[string]any{"title": "Shared", "content": "x"}).Want(201).Text("data.slug")
	b.open("/notes")
	b.press("Share Shared")
	// What is chosen has the focus and a check mark.
	chosen := `[...document.querySelectorAll('.segments button')].map((e) => [e.textContent, e.ariaPressed, !!e.querySelector('svg'), e === document.activeElement].join(' ')).join()`
	b.until(chosen + ` === 'Only me true true true,Anyone with the link false false false'`)
	is.Equal(b.js(`document.querySelector('dialog input[readonly]')`), nil) // nobody else can open it
	b.press("Anyone with the link")
	b.until(chosen + `.endsWith('Anyone with the link true true false')`)
	b.until(`document.querySelector('dialog input[readonly]')?.value === ` + quoted(b.URL+"/v/"+slug))
	is.Equal(one(b.App, "notes", "isPublic"), true)
	b.press("QR code")
	b.until(`document.querySelector('.code').naturalWidth > 0`)

	b.press("Views: no limit") // it opens below its name
	b.until(`document.querySelector('[data-part=limit] + .part')?.contains(document.activeElement)`)
	b.fill("View limit", "0")
	b.click(`.part .main`)
	b.until(`document.querySelector('dialog .error:not([hidden])')?.textContent.startsWith('View limit')`)
	b.fill("View limit", "3")
	b.click(`.part .main`)
	b.until(`document.querySelector('[data-part=limit]').textContent.includes('3')`)
	b.press("Password: none")
	b.fill("Password", "open sesame")
	b.click(`.part .main`)
	b.until(`document.querySelector('[data-part=password]').textContent === 'Password: set'`)
	week := `[...document.querySelectorAll('dialog [aria-pressed]')].find((e) => e.textContent === 'For a week').ariaPressed`
	is.Equal(b.js(week), "false")
	b.press("For a week")
	b.until(`document.querySelector('[data-part=expires]').textContent === 'Expires: in 7 days'`)
	is.Equal(b.js(week), "true")
	is.Equal(b.js(`/, 20\d\d,? .*\d:\d\d/.test(document.querySelector('[data-part=expires]').title)`), true) // exactly
	b.press("For a week")                                                                                    // takes it back
	b.until(`document.querySelector('[data-part=expires]').textContent === 'Expires: never'`)
	b.press("For a week")
	b.until(week + ` === 'true'`)
	is.Equal(one(b.App, "notes", "hasPassword"), true)
	is.Equal(one(b.App, "notes", "maxViews"), 3.0)
	is.True(one(b.App, "notes", "expiresAt") != nil)
	b.until(`document.querySelector('#main .item .meta').textContent.includes('0 of 3')`)

	b.press("Password: set")
	b.press("Remove password")
	b.until(`document.querySelector('[data-part=password]').textContent === 'Password: none'`)
	b.click("[data-part=limit]")
	b.fill("View limit", "")
	b.click(`.part .main`)
	b.until(`document.querySelector('[data-part=limit]').textContent === 'Views: no limit'`)
	b.click("[data-part=expires]")
	b.pick("expiresAt", "never")
	b.click(`.part .main`)
	b.until(`document.querySelector('[data-part=expires]').textContent === 'Expires: never'`)
	is.Equal(one(b.App, "notes", "hasPassword"), false)
	is.Equal(one(b.App, "notes", "maxViews"), nil)
	is.Equal(one(b.App, "notes", "expiresAt"), nil)

	// Who opened it, and when: two actions from the list.
	b.js(`document.querySelector('dialog .visits').open = true`)
	b.until(`document.querySelector('dialog .visits').innerText.includes('Nobody has opened it')`)
	b.press("Log visits. The page tells visitors about it.")
	b.until(`document.querySelector('dialog .visits input').checked`)
	becomes(b.App, "notes", "logVisits", true)
	b.keys(kb.Escape)
	b.Guest().See(
		"GET", "/v/"+slug, "Referer", "https://example.org/x", "User-Agent", "Mozilla/5.0 (iPhone) Mobile",
	).Want(200)
	is.NoErr(b.Server.Store.Flush())
	b.press("Share Shared")
	b.until(`document.querySelector('dialog.sharing')`)
	b.click("dialog .visits summary")
	b.until(`document.querySelectorAll('dialog .log li').length === 1 && document.querySelector('dialog .visits').innerText.includes('example.org')`)
	b.until(`document.querySelector('.curve polyline').getAttribute('points').endsWith(',0.0')`)

	// "One view" lets one more visitor in, however many there were.
	for range 2 {
		b.Visit("/v/" + slug).Want(200)
	}
	becomes(b.App, "notes", "views", 3.0)
	b.press("One view")
	becomes(b.App, "notes", "maxViews", 1.0)
	b.until(`document.querySelector('#main .item .meta').textContent.includes('0 of 1')`)
	b.Visit("/v/" + slug).Want(200)
	becomes(b.App, "notes", "isPublic", false)
	b.open("/notes")
	b.press("Share Shared")
	b.until(`document.querySelector('dialog.sharing')`)
	b.press("One view") // once more
	becomes(b.App, "notes", "isPublic", true)
	is.Equal(one(b.App, "notes", "maxViews"), 1.0)
	b.until(`[...document.querySelectorAll('dialog [aria-pressed]')].find((e) => e.textContent === 'One view').ariaPressed === 'true'`)
	b.press("One view") // takes it back
	becomes(b.App, "notes", "maxViews", nil)
}

// TestBrowserShareTyped: what is typed into a condition and not applied is saved before the link is copied, before another
// condition opens and when the sheet closes. The box for new items saves it before it sends them.
func TestBrowserShareTyped(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.Post("/api/v1/notes", map[string]any{"title": "Shared", "content": "x"}).Want(201)
	b.open("/notes")
	b.press("Share Shared")
	b.press("Anyone with the link")
	b.press("Password: none")
	b.fill("Password", "open sesame")
	b.press("Copy link")
	b.says("Link copied.")
	is.Equal(one(b.App, "notes", "hasPassword"), true)
	b.until(`!document.querySelector('dialog .part')`)

	b.click("[data-part=limit]")
	b.fill("View limit", "3")
	b.click("[data-part=expires]")
	b.until(`document.querySelector('dialog [name=expiresAt]')`)
	is.Equal(one(b.App, "notes", "maxViews"), 3.0)

	// What cannot be saved stays, and nothing is copied meanwhile.
	b.js(`document.querySelectorAll('.toast').forEach((message) => message.end())`)
	b.pick("expiresAt", "other")
	const missing = `document.querySelector('dialog.sharing .part .error:not([hidden])')?.textContent.includes('is required')`
	for _, press := range []string{"Copy link", "Views: at most 3", "For a week", "Only me", "QR code", "Close"} {
		b.press(press)
		b.until(missing)
		b.js(`void document.querySelectorAll('dialog .part .error').forEach((e) => { e.hidden = true; })`)
	}
	b.keys(kb.Escape)
	b.until(missing)
	is.Equal(b.js(`document.querySelector('.toast')`), nil)
	is.Equal(one(b.App, "notes", "isPublic"), true)
	is.Equal(one(b.App, "notes", "expiresAt"), nil)
	b.pick("expiresAt", "day")
	b.press("Close")
	b.until(`!document.querySelector('dialog')`)
	is.True(one(b.App, "notes", "expiresAt") != nil)

	b.open("/")
	b.press("Options")
	b.press("Password: none")
	b.fill("Password", "open sesame")
	path := filepath.Join(t.TempDir(), "plan.txt")
	b.NoErr(os.WriteFile(path, []byte("x"), 0o600))
	b.do(chromedp.SetUploadFiles("input[type=file]", []string{path}, chromedp.NodeReady))
	b.says("“plan.txt” uploaded.")
	is.Equal(one(b.App, "files", "hasPassword"), true)
	is.True(b.Sound())
}

// TestBrowserUntitled: the first line of a note without a title is its title, without marks, and is not said again below
// it. Of a long line, the text goes on where the title ends.
func TestBrowserUntitled(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for _, content := range []string{
		"We left the harbour **before dawn**, with the tide, and nobody on the quay but the man who sells the bread and his old dog.\n\nThen rain.",
		"# Packing\n- [ ] tent\n- [x] stove",
		"---\ntitle: From the front\n---\nA text.",
		"one line",
	} {
		b.Post("/api/v1/notes", map[string]any{"content": content}).Want(201)
	}
	b.Post("/api/v1/notes", map[string]any{"title": "Boats", "content": "# Boats\nThe red one."}).Want(201)
	shown := func(text string) string {
		return `JSON.stringify([...document.querySelectorAll('#main .item')].map((e) => [e.querySelector('.name').textContent, e.querySelector('` + text + `')?.innerText.replaceAll('\n', ' ') ?? '']))`
	}
	const harbour = `"We left the harbour before dawn, with the tide, and nobody on the quay but the…","… man who sells the bread and his old dog. `
	b.open("/notes")
	b.until(shown(".excerpt") + ` === ` + quoted(`[["Boats","The red one."],["one line",""],["From the front","A text."],["Packing","☐ tent ☑ stove"],[`+harbour+`Then rain."]]`))
	b.press("List view")
	b.Post("/api/v1/notes", map[string]any{"title": "Tides", "content": "| high | low |\n|------|:---:|\n| 3 m | 1 m |\n\n![IMG_1](kist:x)"}).Want(201)
	b.open("/notes")
	b.until(shown(".cutoff") + ` === ` + quoted(`[["Tides","high | low 3 m | 1 m"],["Boats","The red one."],["one line",""],["From the front","A text."],["Packing","☐ tent ☑ stove"],[`+harbour+`Then rain."]]`))
	is.True(b.Sound())
}

// TestBrowserDrafts: what was typed survives a server that is away, and a
// reload.
func TestBrowserDrafts(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	slug := b.Post("/api/v1/notes", map[string]any{"title": "Old", "content": "was"}).Want(201).Text("data.slug")
	b.open("/notes/" + slug + "?edit=1")
	b.until(`document.querySelector('dialog textarea')?.value === 'was'`)
	b.fill("Text", "typed for an hour")
	b.offline()
	b.click(`dialog .main`)
	b.says("cannot be reached")
	b.slow(-1)
	b.open("/notes/" + slug) // a draft is shown instead of the item
	b.until(`document.querySelector('dialog textarea')?.value === 'typed for an hour'`)
	b.until(`document.querySelector('dialog .note').textContent.includes('Draft restored')`)
	b.click(`dialog .foot .main`)
	b.says("Saved.")
	is.Equal(one(b.App, "notes", "content"), "typed for an hour")
	is.Equal(b.js(`Object.keys(localStorage).filter((k) => k.includes('draft')).length`), 0.0)

	b.open("/")
	b.fill("Add anything", "half a tho")
	b.open("/")
	is.Equal(b.js(`document.querySelector('.add textarea').value`), "half a tho")
	// Signed out meanwhile: it says so, and keeps the text.
	b.do(cdpnet.ClearBrowserCookies())
	b.press("Add note")
	b.says("You are signed out.")
	is.Equal(b.js(`document.querySelector('.add textarea').value`), "half a tho")
}

// TestBrowserKeys makes, turns off and revokes a key.
func TestBrowserKeys(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/keys")
	b.press("New key")
	b.click(`dialog .main`)
	b.until(`document.querySelector('dialog .error:not([hidden])')?.textContent === 'Name is required.'`)
	b.fill("Name", "laptop")
	b.click(`dialog .main`)
	b.until(`document.querySelector('dialog pre.copy')?.textContent.startsWith('kist_')`)
	secret := b.js(`document.querySelector('dialog pre.copy').textContent`).(string)
	b.press("Done")
	b.As(secret).Get("/api/v1/me").Want(200)
	b.press("Disable laptop")
	b.until(`document.querySelector('#main .list')?.textContent.includes('Enable')`)
	b.As(secret).Get("/api/v1/me").Want(401)
	b.press("Enable laptop")
	b.until(`document.querySelector('#main .list') && !document.querySelector('#main .list')?.textContent.includes('Enable')`)

	b.press("New key")
	b.fill("Name", "camera")
	b.press("Full access to my items")
	b.press("Upload only")
	b.pick("expiresAt", "other")
	b.click(`dialog .main`)
	b.until(`document.querySelector('dialog [type=datetime-local][aria-invalid]') === document.activeElement`)
	b.shows("Expires is required.")
	b.pick("expiresAt", "year")
	b.click(`dialog .main`)
	b.until(`document.querySelector('dialog pre.copy')?.textContent.startsWith('kist_')`)
	camera := b.As(b.js(`document.querySelector('dialog pre.copy').textContent`).(string))
	b.press("Done")
	b.until(`document.querySelector('#main .list .meta')?.textContent.includes('Upload only')`)
	b.until(`document.querySelector('#main .list .meta')?.textContent.includes('expires')`)
	b.until(`!document.documentElement.textContent.includes(` + quoted(camera.Key) + `)`) // shown once
	camera.Upload(nil, apitest.File("p.txt", "text/plain", "p")).Want(201)
	camera.Get("/api/v1/files").Want(403)

	b.press("Revoke laptop")
	b.shows("loses access immediately")
	b.As(secret).Get("/api/v1/me").Want(200)
	b.press("Cancel")
	b.until(`!document.querySelector('dialog[open]')`)
	b.press("Revoke laptop")
	b.click(`dialog .danger`)
	b.says("Revoked “laptop”.")
	is.Equal(b.As(secret).Get("/api/v1/me").Status, 401) // as soon as the page says so
	b.until(`!document.querySelector('#main').textContent.includes('laptop')`)
	is.True(b.Sound())
}

// TestBrowserSecurity revokes a key and a device on the page that shows all that signs in to the account.
func TestBrowserSecurity(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.WithPassword(b.User, "correct horse")
	b.signIn() // the new password ended the session
	laptop := addNamed(b.App, "laptop", "")
	phone := addNamed(b.App, "phone", "phone")
	b.open("/account/security")
	b.js(`void (window.stays = true)`)
	named := func(list string) any {
		t.Helper()
		return b.js(`[...document.querySelectorAll('#main ul[aria-label=` + quoted(list) + `] .name')].map((e) => e.textContent).sort().join()`)
	}
	is.Equal(named("API keys"), "laptop,test")
	is.Equal(named("Connected devices"), "phone")
	is.Equal(named("Browsers that are signed in"), "test")
	is.True(b.js(`!!document.querySelector('#main form[aria-label=Password]')`).(bool))
	for name, secret := range map[string]string{"laptop": laptop, "phone": phone} {
		b.As(secret).Get("/api/v1/notes").Want(200)
		b.press("Revoke " + name)
		b.shows("loses access immediately")
		b.As(secret).Get("/api/v1/notes").Want(200)
		b.click(`dialog .danger`)
		b.says("Revoked “" + name + "”.")
		is.Equal(b.As(secret).Get("/api/v1/notes").Status, 401) // as soon as the page says so
		b.until(`!document.querySelector('#main [aria-label="Revoke ` + name + `"]')`)
	}
	is.Equal(named("API keys"), "test")
	b.shows("No device is connected.")
	b.until(`document.querySelector('#main ul[aria-label=Activity]').innerText.includes('Device revoked')`)
	is.True(b.js(`window.stays`).(bool)) // the page was not loaded again

	b.press("New key")
	b.fill("Name", "tablet")
	b.click(`dialog .main`)
	b.until(`document.querySelector('dialog pre.copy')?.textContent.startsWith('kist_')`)
	b.press("Done")
	b.until(`document.querySelector('#main [aria-label="Revoke tablet"]')`)
	is.True(b.Sound())
}

// TestBrowserMoving tries an import, makes it, reads its report, and takes an
// export away.
func TestBrowserMoving(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	t.Cleanup(b.Server.Imports.End)
	name := filepath.Join(t.TempDir(), "bookmarks.html")
	is.NoErr(os.WriteFile(name, []byte(apitest.BrowserBookmarks), 0o600))
	b.open("/import")
	b.do(chromedp.SetUploadFiles("input[name=import]", []string{name}, chromedp.NodeReady))
	b.js(`document.querySelector('form[aria-label=Import] [type=checkbox]').click()`)
	b.click(`form[aria-label=Import] .main`)
	b.shows("Would create: 1 bookmark. 1 to import, 0 duplicates, 1 to skip (of 2).")
	b.says("Import of bookmarks.html: done.")
	is.Equal(b.Get("/api/v1/bookmarks").At("total"), 0.0)
	b.js(`document.querySelector('form[aria-label=Import] [type=checkbox]').click()`)
	b.click(`form[aria-label=Import] .main`)
	b.shows("1 imported, 0 duplicates, 1 skipped (of 2).")
	b.shows("Skipped line 4, evil: The URL must be an absolute http or https address.")
	is.Equal(b.Get("/api/v1/bookmarks").At("total"), 1.0)
	b.open("/import") // what was done is remembered, and its report is fetched when it is opened
	b.until(`document.querySelectorAll('main details').length === 2`)
	b.js(`document.querySelector('main details summary').click()`)
	b.shows("Skipped line 4, evil")
	is.True(b.js(`fetch(document.querySelector('main a[download]').href).then(r => r.blob()).then(x => x.size > 200)`) == true)
	is.True(b.Sound())
}

// TestBrowserMovingInGerman reads what an import says in the language of the user.
func TestBrowserMovingInGerman(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	t.Cleanup(b.Server.Imports.End)
	b.open("/account")
	b.js(`(() => { const s = document.querySelector('[name=language]'); s.value = 'de'; s.form.requestSubmit(); })()`)
	b.until(`document.documentElement?.lang === 'de' && document.querySelector('#main h1')?.textContent === 'Konto'`)
	send := func(text string) {
		name := filepath.Join(t.TempDir(), "list.csv")
		is.NoErr(os.WriteFile(name, []byte(text), 0o600))
		b.open("/import")
		b.do(chromedp.SetUploadFiles("input[name=import]", []string{name}, chromedp.NodeReady))
		b.click(`form[aria-label=Import] .main`)
	}
	send("name,url,username,password\na,https://a.test,b,c\n")
	b.says("Die Datei kann nicht importiert werden. Das ist eine Tabelle mit den Spalten \"name\", \"url\"")
	send("keyword,url,title,ip,clicks\nabc,https://a.test,A,192.0.2.1,3\ndef,javascript:x,,,\n")
	b.shows(`Hinweis Spalte "ip": Das wird nicht importiert; 1 Eintrag hat es.`)
	b.shows(`Übersprungen Zeile 3, def: Die URL muss eine vollständige http- oder https-URL sein.`)
}

// TestBrowserWebhooks makes a webhook, tests it, looks into its log, sends a
// delivery again, and sees it fail.
func TestBrowserWebhooks(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.RunDeliveries(t)
	address, got := b.Receiver(t, 200)
	b.open("/webhooks")
	b.shows("No webhooks yet")
	b.press("New webhook")
	b.fill("Name", "automation")
	b.fill("Webhook URL", "ftp")
	b.press("Add webhook")
	b.until(`document.querySelector('dialog .error:not([hidden])')?.textContent.includes('absolute http')`)
	b.fill("Webhook URL", address)
	is.Equal(b.js(`(() => { // the button stands in the field
		const [field, button] = ['[name=secret]', '[data-act=hook-secret]'].map((s) => document.querySelector(s).getBoundingClientRect());
		return field.left < button.left && button.right < field.right && field.top < button.top && button.bottom < field.bottom;
	})()`), true)
	b.press("Generate secret")
	b.until(`/^whsec_.{44}$/.test(document.querySelector('dialog [name=secret]').value)`)
	b.press("Add webhook")
	b.shows("not used yet")
	b.press("Test automation")
	b.says("Delivered. The target answered 200.")
	b.shows("works")
	is.Equal(apitest.Next(t, got).Event, "webhook.test")
	b.Post("/api/v1/notes", `{"title":"<b>T</b>","content":"c"}`).Want(201)
	sent := apitest.Next(t, got)
	is.Equal(sent.Event, "note.created")
	apitest.Eventually(t, "it is not in the log", func() bool {
		return one(b.App, "integrations/webhooks", "queued") == 0.0
	})
	b.press("Log of automation")
	b.shows("note.created")
	b.until(`document.querySelectorAll('dialog details').length === 2`)
	b.js(`document.querySelector('dialog details summary').click()`)
	b.shows(sent.ID)
	b.shows("heard")
	b.press("Resend note.created")
	is.Equal(apitest.Next(t, got).ID, sent.ID)
	b.says("Sending again.")
	b.press("Close")
	b.until(`!document.querySelector('dialog')`)

	b.press("Edit automation")
	b.js(`document.querySelector('dialog [name=url]').value = ''`)
	closed := httptest.NewServer(nil)
	closed.Close()
	b.fill("Webhook URL", closed.URL)
	b.press("Save")
	b.until(`!document.querySelector('dialog')`)
	b.press("Test automation")
	b.says("The target refuses the connection")
	b.shows("failing")
	b.press("Delete automation")
	b.says("Deleted “automation”.")
	b.open("/account")
	apitest.Eventually(t, "it is never deleted", func() bool {
		return len(b.Get(apitest.HooksAt).At("data").([]any)) == 0
	})
	is.True(b.Sound())
}

// TestBrowserAdmin changes the settings, which are saved at once and can be taken back, turns all keys off and on, and
// deletes a user.
func TestBrowserAdmin(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.WithPassword(b.User, "correct horse")
	b.signIn() // the new password ended the session
	const ended = `document.querySelectorAll('.toast').forEach((message) => message.end())`
	b.Upload(nil, apitest.File("a.txt", "text/plain", "abc")).Want(201)
	b.open("/admin")
	is.Equal(b.js(`document.querySelector('#storage .figure').textContent`), "3 bytes")
	// the dot could begin a line
	is.Equal(b.js(`[...document.querySelectorAll('#storage .soft')].some((p) => /[^\u00a0]·/.test(p.textContent))`), false)
	shown := `document.querySelector('#main .list .what').innerText.split('\n').filter((line) => line === 'ann').length`
	is.Equal(b.js(shown), 1.0)
	b.Patch("/api/v1/me", `{"displayName":"Ann Lindqvist"}`).Want(200)
	b.open("/admin")
	is.Equal(b.js(shown), 1.0)
	is.Equal(b.js(`document.querySelector('#main .list .name').textContent`), "Ann Lindqvist")
	// Of a captcha there is to say what its provider needs.
	asked := `document.querySelector('[name=captchaSecret]').getClientRects().length > 0`
	is.Equal(b.js(asked), false)
	b.pick("captchaProvider", "hcaptcha")
	is.Equal(b.js(asked), true)
	b.fill("Site key", "10000000")
	b.keys(kb.Tab)
	is.Equal(b.Get("/api/v1/admin/settings").At("data.captchaProvider"), nil) // until there are both keys
	b.fill("Secret", "0x0")
	b.keys(kb.Tab)
	b.says("Saved.")
	b.until(`document.querySelector('[name=captchaSecret]').value === ''`)
	is.Equal(b.Get("/api/v1/admin/settings").At("data.captchaProvider"), "hcaptcha")
	b.press("Undo")
	b.until(`document.querySelector('[name=captchaProvider]').value === ''`)
	is.Equal(b.Get("/api/v1/admin/settings").At("data.hasCaptchaSecret"), false)

	b.press("Allow API keys")
	b.says("API keys are blocked for everyone.")
	is.Equal(b.Get("/api/v1/me").Want(401).Text("code"), "api_tokens_disabled")
	b.press("Allow API keys")
	b.says("API keys are allowed again.")
	b.Get("/api/v1/me").Want(200)
	b.js(ended)

	b.fill("Default quota per user", "nonsense")
	b.keys(kb.Tab)
	b.until(`document.querySelector('form[aria-label=Limits] .error:not([hidden])')`)
	b.until(`document.activeElement.name === 'maxUploadBytes'`) // it is told, and goes on
	b.fill("Default quota per user", "50 GB")
	b.keys(kb.Enter)
	b.says("Saved.")
	is.Equal(b.Get("/api/v1/admin/settings").At("data.defaultQuotaBytes"), 50e9)
	b.press("Undo")
	b.until(`document.querySelector('[name=defaultQuotaBytes]').value === ''`)
	is.Equal(b.Get("/api/v1/admin/settings").At("data.defaultQuotaBytes"), nil)

	b.press("Check bookmarked pages")
	b.App.Until("/api/v1/admin/settings", func(g *apitest.Answer) bool { return g.At("data.linkChecks") == false })
	b.fill("Report weaknesses to", "me")
	b.keys(kb.Enter)
	b.until(`document.querySelector('form[aria-label=Security] .error:not([hidden])')?.textContent.includes('mailto')`)

	// Some time after the sign-in the server asks who it is. Without an answer the switch shows what holds.
	b.Clock.Advance(people.RecentTime)
	b.press("Check bookmarked pages")
	b.fill("Password", "correct horse")
	b.press("Cancel")
	b.until(`!document.querySelector('dialog') && !document.querySelector('[name=linkChecks]').checked`)
	b.says("Confirm")
	b.press("Check bookmarked pages")
	b.fill("Password", "correct horse")
	b.keys(kb.Enter)
	b.App.Until("/api/v1/admin/settings", func(g *apitest.Answer) bool { return g.At("data.linkChecks") == true })
	b.says("Saved.")
	b.js(ended)

	b.AddUser("ben", people.Member)
	b.open("/admin")
	b.until(`document.querySelector('[aria-label="Edit ben"]')`)
	b.press("Edit ben")
	var ben *people.User
	b.NoErr(b.Server.Store.View(func(tx *kv.Tx) (err error) { ben, err = people.UserNamed(tx, "ben"); return err }))
	his := b.As(b.AddKey(ben, people.ScopeAll))
	his.Get("/api/v1/notes").Want(200)
	b.press("API keys disabled")
	b.fill("Quota", "5 GB")
	b.click(`dialog .main`)
	b.until(`document.querySelector('#main').textContent.includes('API keys disabled')`)
	b.until(`document.querySelector('#main').textContent.replaceAll('\u00a0', ' ').includes('0 bytes of 5 GB')`)
	is.Equal(his.Get("/api/v1/notes").Want(401).Text("code"), "api_tokens_disabled")
	b.Get("/api/v1/me").Want(200) // another's goes on
	b.press("Edit ben")
	b.press("API keys disabled")
	b.click(`dialog .main`)
	b.until(`!document.querySelector('#main').textContent.includes('API keys disabled')`)
	his.Get("/api/v1/notes").Want(200)
	b.press("Delete ben")
	b.fill("Type ben to confirm", "ben")
	b.click(`dialog .danger`)
	b.until(`!document.querySelector('[aria-label="Edit ben"]')`)
	is.Equal(b.Get("/api/v1/admin/users").At("total"), 1.0)
}

// TestBrowserHealth shows what is well and what is not, and downloads a backup.
func TestBrowserHealth(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t, func(c *web.Config) {
		c.LastBackup = func() time.Time { return time.Now().Add(-8 * 24 * time.Hour) }
		c.Version, c.Commit, c.Date = "1.2.3", "3e58d5ce5b6f2a7c0d1e", "2026-01-02T03:04:05Z"
	})
	b.Upload(nil, apitest.File("a.txt", "text/plain", "abc")).Want(201)
	ben := b.AddUser("ben", people.Member)
	b.As(b.AddKey(ben, people.ScopeAll)).Upload(nil, apitest.File("b.txt", "text/plain", "abcdef")).Want(201)
	b.Share("damaged")
	is.True(b.Server.Blobs.Check(b.Flip("damaged")) != nil)
	b.open("/admin")
	check := func(name string) any {
		return b.js(fmt.Sprintf(
			`[...document.querySelectorAll('#health li')].filter((li) => li.querySelector('span b').textContent === %q).map((li) => li.className + ' ' + li.querySelector('[role=img]').ariaLabel + ' ' + li.querySelector('.soft').textContent).join()`,
			name,
		))
	}
	is.Equal(check("Files"), "problem Problem 1 file is damaged or missing")
	is.Equal(check("Clock"), "ok OK Correct")
	is.Equal(check("Records"), "ok OK No damage found")
	is.Equal(check("HTTPS"), "ok OK Not needed on the server itself")
	is.Equal(check("Proxy"), "ok OK None")
	is.True(strings.HasPrefix(check("URL").(string), "warning Warning http://127.0.0.1:"))
	is.True(strings.HasPrefix(check("Backup").(string), "warning "))
	is.Equal(b.js(`document.querySelector('#health li').className`), "problem") // problems come first
	is.Equal(b.js(`document.querySelector('#health').textContent.includes('Version 1.2.3, commit 3e58d5ce5b of Jan 2, 2026')`), true)
	is.Equal(
		b.js(`[...document.querySelectorAll('[aria-label="Storage by user"] li > span')].map((li) => li.textContent.replace(/[0-9]+/, 'N')).join()`),
		"ann N bytes,ben N bytes",
	)
	is.Equal(b.js(`document.querySelector('#backup time') !== null`), true)
	is.Equal(
		b.js(`(async () => { const a = await fetch(document.querySelector('#backup a[download]').href); return a.status + ' ' + a.headers.get('content-type'); })()`),
		"200 application/x-tar",
	)
	is.True(b.Sound())
}

// TestBrowserWelcome greets on an empty home page. What an administrator has done is ticked off.
func TestBrowserWelcome(t *testing.T) {
	is := is.New(t)
	var backup atomic.Pointer[time.Time]
	backup.Store(new(time.Time))
	b := openBrowser(t, func(c *web.Config) {
		c.Base = "http://kist.example.org"
		c.LastBackup = func() time.Time { return *backup.Load() }
	})
	setup := func() any {
		b.open("/")
		b.until(`document.querySelector('#setup')`)
		return b.js(`[...document.querySelectorAll('#setup li')].map((li) => li.querySelector('[role=img]').ariaLabel + ': ' + li.querySelector('span').textContent).join()`)
	}
	is.Equal(setup(), "To do: Use HTTPS,To do: Make a backup,To do: Add a second user")
	is.Equal(b.js(`document.querySelectorAll('.welcome > .card:not(#setup)').length`), 3.0)
	b.until(`document.querySelector('.welcome img.qr').naturalWidth > 0`)
	is.Equal(b.js(`document.querySelector('.welcome img.qr').alt`), "QR code of http://kist.example.org")
	is.True(b.Sound())
	now := time.Now()
	backup.Store(&now)
	ben := b.AddUser("ben", people.Member)
	is.Equal(setup(), "To do: Use HTTPS,Done: Make a backup,Done: Add a second user")

	// The list stays when the first item comes.
	b.fill("Add anything", "A first note")
	b.press("Add note")
	b.until(`document.querySelector('#main .item') && !document.querySelector('.welcome') && document.querySelector('#setup li')`)
	is.True(b.Sound())
	// Later a line says what is left, until it is closed.
	note := one(b.App, "notes", "id").(string)
	b.open("/")
	b.until(`document.querySelector('#main .note')?.textContent.startsWith('Set up kist: 1 step left.')`)
	b.press("Show")
	b.until(`document.querySelector('#setup') && !document.querySelector('#main .note')`)
	is.True(b.Sound())
	b.open("/")
	b.press("Dismiss")
	b.open("/")
	is.Equal(b.js(`document.querySelector('#main .note')`), nil)
	b.Delete("/api/v1/notes/" + note).Want(200)

	// Another user sees the cards alone, and no card once there is an item.
	b.User = ben
	b.signIn()
	b.open("/")
	b.until(`document.querySelectorAll('.welcome > .card').length === 3`)
	is.Equal(b.js(`document.querySelector('#setup')`), nil)
	b.fill("Add anything", "A first note")
	b.press("Add note")
	b.until(`document.querySelector('#main .item') && !document.querySelector('.welcome')`)
}

// TestBrowserSetupNote: the line on the home page counts the steps that are left now, whatever was done elsewhere. Its parts are in
// one row.
func TestBrowserSetupNote(t *testing.T) {
	is := is.New(t)
	var backup atomic.Pointer[time.Time]
	backup.Store(new(time.Time))
	b := openBrowser(t, func(c *web.Config) { c.LastBackup = func() time.Time { return *backup.Load() } })
	b.open("/")
	b.until(`document.querySelector('#setup')`)
	b.Post("/api/v1/notes", map[string]any{"content": "x"}).Want(201)
	now := time.Now()
	backup.Store(&now)
	b.open("/")
	left := func(text string) {
		t.Helper()
		b.until(`document.querySelector('#main .note span')?.textContent === ` + quoted("Set up kist: "+text+" left."))
	}
	left("2 steps")
	b.AddUser("ben", people.Member)
	b.click(`.rail [data-nav=note]`)
	b.until(`location.pathname === '/notes' && document.querySelector('#main h1').textContent === 'Notes'`)
	b.js(`history.back()`)
	left("1 step")
	b.press("Show")
	b.until(`document.querySelectorAll('#setup .todo').length === 1`)
	b.open("/")
	left("1 step")

	for _, width := range []int64{360, 768, 1280} {
		b.do(emulation.SetDeviceMetricsOverride(width, 800, 1, false))
		is.Equal(b.js(`(() => {
			const note = document.querySelector('#main .note'), at = (e) => e.getBoundingClientRect(), middle = (e) => (at(e).top + at(e).bottom) / 2;
			const [text, show, close] = note.children;
			return [Math.abs(middle(text) - middle(close)) < 2, Math.abs(middle(show) - middle(close)) < 2, at(note).right - at(close).right < 15, at(close).left - at(show).right < 15].join();
		})()`), "true,true,true,true")
	}
}

// TestBrowserTags recolours, renames, merges and deletes tags.
func TestBrowserTags(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.Post("/api/v1/notes", map[string]any{"content": "x", "tags": []string{"one", "two"}}).Want(201)
	b.open("/tags")
	b.press("Rename one")
	b.fill("Name", "first")
	b.click(`dialog .main`)
	b.until(`document.querySelector('[aria-label="Rename first"]')`)
	b.js(`(() => { const c = document.querySelector('[aria-label="Colour of first"]'); c.value = '#123456'; c.dispatchEvent(new Event('change', { bubbles: true })); })()`)
	b.press("Merge two")
	b.click(`dialog .main`)
	b.until(`document.querySelectorAll('#main .item').length === 1`)
	got := b.Get("/api/v1/tags").Want(200)
	is.Equal(got.At("0.name"), "first")
	is.Equal(got.At("0.color"), "#123456")
	is.Equal(got.At("0.count"), 1.0)
	b.fill("New tag", "third")
	b.keys(kb.Enter)
	b.until(`document.querySelectorAll('#main .item').length === 2`)
	b.press("Delete third")
	b.press("Undo")
	b.until(`document.querySelectorAll('#main .item').length === 2`)

	// A locked phone deletes at once, while the pointer rests on the message.
	b.press("Delete third")
	b.until(`document.querySelector('.toast')?.dispatchEvent(new Event('pointermove'))`)
	b.js(`void (Object.defineProperty(document, 'hidden', { value: true }), document.dispatchEvent(new Event('visibilitychange')))`)
	b.App.Until("/api/v1/tags", func(g *apitest.Answer) bool { return !strings.Contains(string(g.Body), "third") })
}

// TestBrowserManyTags: tags that are too many to come with a page are there a
// little later.
func TestBrowserManyTags(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for i := range 10 {
		var names []string
		for j := range 60 {
			names = append(names, fmt.Sprintf("tag %d of many %d", i, j))
		}
		b.Post("/api/v1/notes", map[string]any{"content": "x", "tags": names}).Want(201)
	}
	id := b.Get("/api/v1/tags").Want(200).Text("0.id")
	b.Patch("/api/v1/tags/"+id, map[string]any{"color": "#123456"}).Want(200)
	b.open("/notes")
	b.until(`[...document.querySelectorAll('.chip')].some((c) => c.style.getPropertyValue('--tag').toUpperCase() === '#123456')`)
	b.open("/tags")
	b.until(`document.querySelectorAll('#main .item').length === 600`)
	is.True(b.Sound())
}

// TestBrowserLate: what is too much to come with a page takes its place when it
// comes, and when it does not come, the page says so and asks again.
func TestBrowserLate(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	long := strings.Repeat("é", 240)
	var folder string
	for i := range 110 {
		folder = b.Post("/api/v1/folders", map[string]any{"name": fmt.Sprint(long, i)}).Want(201).Text("data.id")
	}
	for i := range 7 {
		var names []string
		for j := range 60 {
			names = append(names, fmt.Sprintf("tag %d of a great many that there are %d", i, j))
		}
		b.Post("/api/v1/notes", map[string]any{"content": "x", "tags": names}).Want(201)
	}
	b.Upload(
		map[string]string{"newTags": "sea", "folderId": folder}, apitest.File("a.txt", "text/plain", "text"),
	).Want(201)
	tagged := `[...document.querySelectorAll('#main [data-param=tag] option')].some((o) => o.value === 'sea')`
	is.Equal(first(browse(b.App, "/files"), "tags"), nil)
	is.Equal(first(browse(b.App, "/files"), "folders"), nil)

	// They do not come.
	b.block("*/api/v1/tags", "*/api/v1/folders?*")
	b.open("/files?folder=" + folder)
	b.says("Tags and folders could not be loaded.")
	is.Equal(b.js(tagged), false)
	// The file goes where the page says that one is.
	b.drop("b.txt", "b")
	b.says("“b.txt” uploaded.")
	is.Equal(one(b.App, "files", "folder.id"), folder)
	b.until(`document.querySelectorAll('#main .item').length === 2`)
	b.block()
	b.press("Try again")
	b.until(tagged)
	b.until(`document.querySelectorAll('#main .folders a').length === 112 && document.querySelector('#main .folders [aria-current]').textContent.includes(' 2')`)
	is.Equal(b.js(`document.querySelectorAll('.toast.bad').length`), 0.0)

	b.open("/files") // they come late
	b.until(tagged)

	b.block("*/api/v1/tags")
	b.open("/tags")
	b.until(`document.querySelector('#main .alert')?.textContent.includes('cannot be reached')`)
	b.block()
	b.press("Try again")
	b.until(`document.querySelectorAll('#main .item').length === 421`)
}

// TestBrowserManners: on every page and at every width nothing runs over the
// side, everything that can be pressed has a name and is
// large enough for a finger.
func TestBrowserManners(t *testing.T) {
	b := openBrowser(t)
	b.Upload(
		map[string]string{"newTags": "a tag with quite a long name", "folderName": "A folder with a long name"},
		apitest.File(strings.Repeat("long", 40)+".txt", "text/plain", "text"),
	).Want(201)
	b.Post("/api/v1/bookmarks", map[string]any{"url": "https://example.org/" + strings.Repeat("x", 300)}).Want(201)
	b.Post(
		"/api/v1/notes",
		map[string]any{"title": strings.Repeat("word ", 60), "content": strings.Repeat("x", 500), "isPublic": true},
	).Want(201)
	b.Post(
		"/api/v1/shorten",
		map[string]any{
			"originalUrl": "https://example.org/", "maxClicks": 3, "isPublic": true, "expiresAt": "2999-01-01T00:00:00Z",
		},
	).Want(201)
	tagged := b.Post(
		"/api/v1/notes", map[string]any{"content": "x", "tags": []string{"one", "two"}},
	).Want(201).Text("data.slug")
	_, ask := b.App.Ask(nil)
	b.Leave(ask, nil, nil, apitest.File(strings.Repeat("long", 40)+".txt", "text/plain", "text")).Want(201)
	for _, name := range []string{strings.Repeat("long", 50), strings.Repeat("word ", 39)} {
		addNamed(b.App, name, "")
		addNamed(b.App, name, "extension")
		addPasskeyNamed(b.App, name)
	}
	p := apitest.NewProvider(t)
	b.Server.OIDC = p.Client(t, b.URL)
	b.Link(b.User, p, strings.Repeat("long", 50))
	paths := []string{"/notes/" + tagged}
	for _, p := range httpapi.AppPages() {
		paths = append(paths, strings.NewReplacer("{id}", "new", "{slug}", "new").Replace(p.Path))
	}
	for _, path := range paths {
		b.open(path)
		if strings.Count(path, "/") == 2 && !strings.HasPrefix(path, "/files/") && path != "/account/security" {
			b.until(`document.querySelector('dialog.panel')`)
		}
		if path == "/files" { // with the bar for what is selected
			b.js(`document.querySelector('.pick input').click()`)
		}
		for _, width := range []int64{320, 768, 1440, 2560} {
			b.do(chromedp.EmulateViewport(width, 800))
			if over := b.js(`document.documentElement.scrollWidth - innerWidth`); over.(float64) > 0 {
				t.Errorf("%s at %d: runs over by %v", path, width, over)
			}
			if bad := b.js(manners); len(bad.([]any)) > 0 {
				t.Errorf("%s at %d: %v", path, width, bad)
			}
		}
	}
	b.do(chromedp.EmulateViewport(1366, 720))
	if low := b.js(`innerHeight - document.querySelector('.rail').scrollHeight`); low.(float64) < 0 {
		t.Errorf("the menu is too high by %v", low)
	}
	b.do(emulation.SetTouchEmulationEnabled(true))
	if b.js(`matchMedia('(pointer: coarse)').matches`) != true {
		t.Error("this is no touch screen")
	}
	if bad := b.js(manners); len(bad.([]any)) > 0 {
		t.Errorf("with touch: %v", bad)
	}
}

const manners = `[...document.querySelectorAll('button, a[href], input:not([type=hidden]), select, textarea, summary')].filter((e) => e.getClientRects().length && !e.closest('.skip, [aria-hidden=true]')).flatMap((e) => {
	const name = (e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent || e.title || '').trim();
	const box = (e.matches('[type=checkbox]') && e.labels?.[0] || e).getBoundingClientRect();
	const inText = e.matches('a.name, .meta a, p a, .tags input'); // WCAG 2.5.8 leaves these out
	const out = [];
	if (!name) out.push('no name: ' + e.outerHTML.slice(0, 120));
	if ((box.left < -0.5 || box.right > innerWidth + 0.5) && !e.closest('.filters, .sections')) out.push('beyond the side: ' + name);
	if (e.matches('button, a') && !e.querySelector('svg') && getComputedStyle(e).fontSize === '0px') out.push('nothing to see: ' + name);
	const least = e.closest('.rail') && !matchMedia('(pointer: coarse)').matches ? 24 : 43.5; // with a mouse the menu is lower, so that all of it shows
	if (!inText && (box.height < least || box.width < 43.5)) out.push('small, ' + Math.round(box.width) + 'x' + Math.round(box.height) + ': ' + (name || e.outerHTML).slice(0, 60));
	return out;
}).concat([...document.querySelectorAll('.item .what')].filter((e) => e.getClientRects().length && e.clientWidth < 90 && !e.closest('.grid')).map((e) => 'cramped: ' + e.innerText))`

// TestBrowserPages asks for the next page of a long list as it is scrolled to.
func TestBrowserPages(t *testing.T) {
	b := openBrowser(t)
	for i := range 130 {
		b.Post("/api/v1/notes", map[string]any{"title": fmt.Sprint("Note ", i), "content": ""}).Want(201)
	}
	b.open("/notes")
	b.click("[data-act=view-list]")
	b.until(`document.querySelector('.chunk') !== null && document.querySelectorAll('#main .item').length === 50`)
	b.js(`scrollTo(0, 1e6)`)
	b.until(`document.querySelectorAll('#main .item').length === 100`)
	b.press("Show more (100 of 130)")
	b.until(`document.querySelectorAll('#main .item').length === 130 && document.querySelector('[data-act=more]').hidden`)
	// Rows that are not near the window take no part in drawing.
	b.until(`[...document.querySelectorAll('#main .item')].filter((e) => e.checkVisibility({ contentVisibilityAuto: true })).length <= 90`)
	b.open("/")
	b.until(`document.querySelectorAll('#main .item').length === 12`)
}

// TestBrowserBeforeScripts: before the scripts run, a page shows what it begins with, where it stays.
func TestBrowserBeforeScripts(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.Post("/api/v1/notes", map[string]any{"title": "Note", "content": ""}).Want(201)
	const place = `[...document.querySelectorAll('#main h1, #main .add textarea, #main .add select')].map((e) => {
		const at = e.getBoundingClientRect();
		return [e.placeholder ?? e.value ?? e.textContent, at.x, at.y, at.height].join(' ');
	})`
	block := cdpnet.SetBlockedURLs().WithURLPatterns([]*cdpnet.BlockPattern{
		{URLPattern: b.URL + "/static/app.*.js", Block: true},
	})
	for _, width := range []int64{412, 1280} {
		for path, n := range map[string]int{"/notes": 1, "/snippets": 1, "/files": 1} {
			b.do(chromedp.EmulateViewport(width, 800), block, chromedp.Navigate(b.URL+path), cdpnet.SetBlockedURLs())
			is.Equal(b.js(`document.querySelector('#main > :not([inert], noscript)')`), nil) // nobody types into it
			early := b.js(place).([]any)
			is.Equal(len(early), n)
			b.open(path)
			is.Equal(b.js(place).([]any)[:n], early)
		}
		b.do(block, chromedp.Navigate(b.URL+"/"), cdpnet.SetBlockedURLs())
		early := b.js(place).([]any)
		is.Equal(len(early), 2)
		b.open("/")
		is.True(slices.Contains(b.js(place).([]any), early[0]))
	}
}

// idle matches what the app fetches when it has nothing else to do, and the last cards of the account, which keep
// nothing above them waiting.
var idle = regexp.MustCompile(
	`^/static/(cards|cards-later-en|deleting|drops|editor|forms|live|metadata|offline|page|reader|viewer)\.`,
)

// TestBrowserOneRound: whatever the page, the document names all that it needs,
// and nothing is asked for because a script, a style sheet or an answer came.
func TestBrowserOneRound(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	note := b.Post(
		"/api/v1/notes", map[string]any{"title": "x", "content": "", "tags": []string{"x"}},
	).Want(201).Text("data.slug")
	up := b.Upload(nil, apitest.File("a.txt", "text/plain", "text")).Want(201).Text("slug")
	_, ask := b.App.Ask(nil)
	b.Leave(ask, nil, nil, apitest.File("b.txt", "text/plain", "text")).Want(201)
	b.Server.OIDC = apitest.NewProvider(t).Client(t, b.URL)
	var mu sync.Mutex
	asked := map[string]string{} // whose doing a request is
	chromedp.ListenTarget(b.ctx, func(event any) {
		e, ok := event.(*cdpnet.EventRequestWillBeSent)
		if !ok || e.Type == cdpnet.ResourceTypeDocument {
			return
		}
		why := string(e.Initiator.Type)
		if e.Initiator.URL != "" && e.Initiator.URL != e.DocumentURL {
			why += " of " + e.Initiator.URL
		}
		mu.Lock()
		defer mu.Unlock()
		asked[strings.TrimPrefix(e.Request.URL, b.URL)] = why
	})
	b.do(cdpnet.SetCacheDisabled(true)) // each page as the first
	paths := []string{"/search?tag=x", "/notes/" + note, "/files/" + up}
	for _, p := range httpapi.AppPages() {
		paths = append(paths, strings.NewReplacer("{id}", "new", "{slug}", "new").Replace(p.Path))
	}
	for _, path := range paths {
		b.do(chromedp.Navigate("about:blank")) // the page before asks for nothing more
		mu.Lock()
		clear(asked)
		mu.Unlock()
		b.open(path)
		b.until(`document.querySelector('h1') && document.querySelector('main').children.length > 1`)
		if path == "/collections/new" { // it has the address of a collection, and shows the list of all below
			continue
		}
		mu.Lock()
		is.True(asked["/static/"+assetName(t, "app.js")] != "") // it is seen what is asked for
		for address, why := range asked {
			named := why == "parser" || why == "other" && (address == "/manifest.webmanifest" ||
				strings.HasSuffix(address, ".svg"))
			// what the item shows
			content := strings.HasSuffix(address, path[strings.LastIndex(path, "/"):]) && strings.HasPrefix(address, "/v/")
			later := idle.MatchString(address)
			if !named && !content && !later && address != "/api/v1/files/new" { // there is no such file
				t.Errorf("%s: %s is asked for by %s", path, address, why)
			}
		}
		mu.Unlock()
	}
}

func assetName(t *testing.T, logical string) string {
	t.Helper()
	name, err := embed.Name(logical)
	if err != nil {
		t.Fatal(err)
	}
	return name
}
