package httpapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"
)

// trayScript defines dropAll, which drops files of the given names, and has each upload wait until free sends that of
// its name. What is broken breaks off at once. said counts the texts for screen readers.
const trayScript = `void (() => {
	const send = XMLHttpRequest.prototype.send, held = new Map();
	window.broken = new Set();
	window.said = 0;
	window.began = performance.now();
	XMLHttpRequest.prototype.send = function (body) {
		const name = body.get('file').name;
		if (broken.has(name)) setTimeout(() => this.onerror());
		else held.set(name, () => send.call(this, body));
	};
	window.free = (...names) => { for (const name of names) held.get(name)(); };
	window.isHeld = (name) => held.has(name);
	window.dropAll = (...names) => {
		const dataTransfer = new DataTransfer();
		for (const name of names) dataTransfer.items.add(new File([name.repeat(100)], name, { type: 'text/plain' }));
		document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
	};
	window.tray = document.querySelector('#uploads');
	window.line = () => tray.querySelector('p').textContent.replaceAll('\u00a0', ' ');
	window.leaves = () => dispatchEvent(new Event('beforeunload', { cancelable: true }));
	window.named = (label) => [...tray.querySelectorAll('button')]
		.find((b) => b.offsetParent && (b.ariaLabel ?? b.textContent) === label);
	window.rows = () => [...tray.querySelectorAll('.name')].map((e) => e.textContent).join();
	new MutationObserver(() => {
		const spoken = tray.querySelector('[aria-live]');
		if (spoken && spoken.textContent !== window.spoken) said++, window.spoken = spoken.textContent;
	}).observe(tray, { subtree: true, childList: true });
})()`

// TestBrowserTray uploads more files than are shown in rows: one tray says how far all are, and what came of them. What
// failed can be tried again, and one link shares all.
func TestBrowserTray(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/files")
	b.hasten(100)
	b.takesDrops()
	b.js(trayScript)
	b.js(`broken.add('b.txt'), dropAll('a.txt', 'b.txt', 'c.txt', 'd.txt', 'e.txt')`)
	b.until(`isHeld('a.txt') && isHeld('c.txt')`)
	b.until(`/^0 of 5 · (1 failed · 0 of 2 kB|0 of 2.5 kB)$/.test(line())`)
	is.Equal(b.js(`rows()`), "") // nobody wants to see them yet
	is.Equal(b.js(`named('Details').ariaExpanded`), "false")
	b.press("Details")
	b.until(`named('Details').ariaExpanded === 'true' && rows().split(',').length === 5`)
	b.js(`free('a.txt', 'c.txt')`)
	b.until(`line().startsWith('2 of 5 · 1 failed · 1 of 2 kB')`)
	is.Equal(b.js(`(({ ariaValueMin, ariaValueNow, ariaValueMax }) => [ariaValueMin, ariaValueNow, ariaValueMax].join())(
		tray.querySelector('[role=progressbar]'))`), "0,50,100")
	is.Equal(b.js(`!named('Close') && !named('Try again') && !named('Share as one link')`), true)
	b.until(`isHeld('d.txt') && isHeld('e.txt')`)
	b.js(`free('d.txt', 'e.txt')`)
	b.says("4 files uploaded. Only you can open them. 1 file could not be uploaded.")
	is.Equal(b.js(`line() === tray.querySelector('[aria-live]').textContent`), true)
	is.Equal(b.js(`rows()`), "b.txt") // what somebody has to look at
	is.Equal(b.js(`document.querySelector('.toast')`), nil)
	is.Equal(b.js(`said <= 3 + (performance.now() - began) / 10000`), true)

	b.js(`broken.clear()`)
	b.press("Try again")
	b.until(`isHeld('b.txt')`)
	b.js(`free('b.txt')`)
	b.says("5 files uploaded. Only you can open them.")
	is.Equal(b.js(`!!named('Try again')`), false)
	b.until(`rows().split(',').length === 5 && !tray.querySelector('[data-act=upload-copy]')`)
	b.press("Share as one link")
	b.fill("Title", "Trip")
	b.press("Share")
	b.until(`document.querySelector('dialog[open].sharing')`)
	is.Equal(one(b.App, "collections", "itemCount"), 5.0)
	b.until(`tray.hidden`) // it says no longer that only the owner can open them
	is.Equal(b.Get("/api/v1/files").At("total"), 5.0)
}

// TestBrowserCancelAll cancels all uploads but what is there already.
func TestBrowserCancelAll(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/files")
	b.takesDrops()
	b.js(trayScript)
	b.js(`dropAll('a.txt', 'b.txt', 'c.txt', 'd.txt', 'e.txt')`)
	b.until(`isHeld('a.txt')`)
	b.js(`free('a.txt')`)
	b.until(`line().startsWith('1 of 5') && isHeld('d.txt')`)
	b.js(`document.activeElement.blur(), named('Cancel all').focus()`)
	b.press("Cancel all")
	b.says("Cancelled. 1 file uploaded. Only you can open it.")
	is.Equal(b.js(`tray.contains(document.activeElement)`), true)
	is.Equal(b.js(`isHeld('e.txt')`), false) // it waited
	b.until(`named('Share …') && !named('Copy link')`)
	is.Equal(b.js(`leaves()`), true)
	is.Equal(b.Get("/api/v1/files").At("total"), 1.0)

	// A thousand have no thousand rows.
	b.press("Close")
	b.js(`dropAll(...Array.from({ length: 1000 }, (_, i) => i + '.txt'))`)
	b.press("Details")
	b.until(`tray.querySelectorAll('.item').length === 200`)
	is.Equal(b.js(`tray.querySelector('.more').textContent`), "and 800 more")
	is.Equal(b.js(`leaves()`), false)
	b.hasten(100)
	b.press("Cancel all")
	b.js(`document.activeElement.blur()`)
	b.until(`tray.hidden`) // on its own: there is nothing to look at
	is.Equal(b.Get("/api/v1/files").At("total"), 1.0)
}

// TestBrowserTimeLeft: the tray says how long all take at the rate of the last seconds.
func TestBrowserTimeLeft(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	var paths []string
	for i := range 5 {
		path := filepath.Join(dir, fmt.Sprint(i, ".bin"))
		b.NoErr(os.WriteFile(path, make([]byte, 1<<20), 0o600))
		paths = append(paths, path)
	}
	b.open("/files")
	b.slow(100 << 10)
	b.do(chromedp.SetUploadFiles("input[type=file]", paths, chromedp.NodeReady))
	b.until(`/^0 of 5 · [\d.]+( kB)? of 5.2 MB · (\d+ s|\d min) left$/
		.test(document.querySelector('#uploads p')?.textContent.replaceAll('\u00a0', ' '))`)
	b.press("Cancel all")
	b.says("Cancelled. No file was uploaded.")
}

// TestBrowserChosenFolder uploads a folder that the user chooses: its folders stay apart, and what systems put there is
// left out.
func TestBrowserChosenFolder(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	dir := filepath.Join(t.TempDir(), "Trip")
	for _, name := range []string{
		"a.txt", "Thumbs.db", "Day 1/b.txt", "Day 1/.DS_Store", "Day 1/Beach/c.txt", "Day 2/b.txt",
	} {
		path := filepath.Join(dir, name)
		b.NoErr(os.MkdirAll(filepath.Dir(path), 0o700))
		b.NoErr(os.WriteFile(path, []byte(name), 0o600))
	}
	b.open("/files")
	b.click(`.none [data-act="choose-folder"]`)
	b.until(`document.querySelector('input[webkitdirectory]')`)
	b.do(chromedp.SetUploadFiles("input[webkitdirectory]", []string{dir}, chromedp.NodeReady))
	b.says("4 files uploaded. Only you can open them.")
	var names []string
	for i := range 4 {
		names = append(names, b.Get("/api/v1/files").Text(fmt.Sprintf("data.%d.folder.name", i)))
	}
	slices.Sort(names)
	is.Equal(names, []string{"Trip", "Trip / Day 1", "Trip / Day 1 / Beach", "Trip / Day 2"})
	b.press("Share as one link")
	b.until(`document.querySelector('dialog[open] input')?.value === 'Trip'`)
	b.press("Share")
	b.until(`document.querySelector('dialog[open].sharing')`)
	items := b.Get("/api/v1/collections/" + b.Get("/api/v1/collections").Text("data.0.id") + "/items")
	names = nil
	for i := range 4 {
		names = append(names, items.Text(fmt.Sprintf("data.%d.folder.name", i)))
	}
	is.Equal(names, []string{"Trip", "Trip / Day 1", "Trip / Day 1 / Beach", "Trip / Day 2"}) // in the order of names

	// A phone offers to upload in a list and in a grid, at the same place.
	b.do(emulation.SetDeviceMetricsOverride(390, 844, 1, true))
	b.open("/files")
	place := `(() => {
		const { x, y, width } = document.querySelector('.head .upload').getBoundingClientRect();
		return [x, y, width].join();
	})()`
	at := b.js(place)
	is.True(at != "0,0,0")
	b.click(`[data-act="view-grid"]`)
	b.until(`document.querySelector('#main .grid')`)
	is.Equal(b.js(place), at)
}
