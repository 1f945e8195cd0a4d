package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi/apitest"
	"kist/kv/people"
	"kist/kv/record"
)

// unpacked writes the extension to a folder as the server hands it out, but
// for one thing: to allow what is asked for, and to click a menu, which lends
// the extension the tab (activeTab), takes a person. What these would grant
// stands in host_permissions of this copy's manifest. The address that its
// pages begin with follows from the folder.
func unpacked(a *apitest.App, granted ...string) (dir, at string) {
	a.Helper()
	files := embed.Extension(a.URL, record.Views())
	var manifest map[string]any
	a.NoErr(json.Unmarshal(files["manifest.json"], &manifest))
	manifest["host_permissions"] = granted
	text, err := json.Marshal(manifest)
	files["manifest.json"] = text
	a.NoErr(err)
	dir, err = filepath.EvalSymlinks(a.TempDir())
	a.NoErr(err)
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		a.NoErr(os.MkdirAll(filepath.Dir(path), 0o700))
		a.NoErr(os.WriteFile(path, content, 0o600))
	}
	var id []byte
	for _, b := range sha256.Sum256([]byte(dir)) {
		id = append(id, 'a'+b>>4, 'a'+b&15)
	}
	return dir, "chrome-extension://" + string(id[:32]) + "/"
}

// withExtensions starts a Chromium of its own with extensions in it: they live
// in the first profile of a process alone. Once each has opened its page to
// connect, below the addresses, it returns a tab of its own there.
func withExtensions(a *apitest.App, dirs, ats []string) *tab {
	a.Helper()
	ctx, stop := chromedp.NewExecAllocator(context.Background(), append(chromeOptions(browserPath(a)),
		chromedp.Flag("headless", "new"), chromedp.Flag("disable-extensions", false),
		chromedp.Flag("disable-features", "DisableLoadExtensionCommandLineSwitch,Translate"),
		chromedp.Flag("load-extension", strings.Join(dirs, ",")))...)
	ctx, leave := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	ctx, cancel := context.WithTimeout(ctx, tabTime)
	a.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		leave()
		stop()
	})
	a.NoErr(chromedp.Run(ctx))
	first := &tab{App: a, ctx: ctx}
	for _, at := range ats { // which may take the place of the first tab, as it is empty
		first.other(at + "options.html")
	}
	own, shut := chromedp.NewContext(ctx)
	a.Cleanup(shut)
	b := &tab{App: a, ctx: own}
	b.NoErr(b.watch())
	return b
}

// other waits for another page or worker of the browser, whose address begins
// so, and returns it.
func (b *tab) other(address string) *tab {
	b.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		all, err := chromedp.Targets(b.ctx)
		b.NoErr(err)
		for _, x := range all {
			if strings.HasPrefix(x.URL, address) {
				ctx, leave := chromedp.NewContext(b.ctx, chromedp.WithTargetID(x.TargetID))
				o := &tab{App: b.App, ctx: ctx}
				b.Cleanup(leave)
				err := chromedp.Run(ctx) // attaches to it
				if err == nil && x.Type == "page" {
					err = o.watch()
				} else if err == nil {
					err = chromedp.Run(ctx, runtime.Enable())
				}
				if !isLeaving(err) { // as an empty tab is that the page is opened in
					b.NoErr(err)
					return o
				}
			}
		}
		if time.Now().After(end) {
			b.Fatalf("nothing is opened at %s", address)
		}
	}
}

// end closes a page, or ends a worker as the browser does when it is idle.
func (b *tab) end() {
	b.Helper()
	c := chromedp.FromContext(b.ctx)
	b.NoErr(target.CloseTarget(c.Target.TargetID).Do(cdp.WithExecutor(b.ctx, c.Browser)))
}

// comes waits until what an expression promises holds a text.
func (b *tab) comes(expression, text string) {
	b.Helper()
	var got any
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got = b.js(expression)
		if got != nil && strings.Contains(got.(string), text) {
			return
		}
	}
	b.Fatalf("%s comes to %v, and not to %q", expression, got, text)
}

// elsewhere is a web site that knows nothing of kist, and the origin that its
// pictures come from. Some of those may be read by the site's pages, the
// others by none; one is the site's own, for who has its cookie. What is below
// /moved leads to the other origin, which takes any key: it is told.
func elsewhere(t *testing.T) (site, pictures string, picture []byte, taken func() string) {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 30))); err != nil {
		t.Fatal(err)
	}
	var page string
	var got atomic.Value // the key that was taken
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/moved/") {
			http.Redirect(w, r, pictures+"/taken", http.StatusTemporaryRedirect)
			return
		}
		if _, err := r.Cookie("member"); err == nil && r.URL.Path == "/own.png" {
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(b.Bytes())
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	}))
	t.Cleanup(web.Close)
	images := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none.png" {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/open") {
			w.Header().Set("Access-Control-Allow-Origin", web.URL)
		}
		if r.URL.Path == "/taken" {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Allow-Headers", "x-api-key, content-type")
			if key := r.Header.Get("X-Api-Key"); key != "" {
				got.Store(key)
			}
		}
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(b.Bytes())
	}))
	t.Cleanup(images.Close)
	pictures = images.URL
	page = `<!doctype html><title>Tide tables</title><h1>Tides</h1><p>High at six.</p><p>Low at noon.</p><img src="` + images.URL + `/open/chart.png">`
	taken = func() string { key, _ := got.Load().(string); return key }
	return web.URL, pictures, b.Bytes(), taken
}

// rules tries what of the extension needs no server: how addresses are read,
// and how it polls (RFC 8628, section 3.5).
func rules(page *tab) {
	page.Helper()
	is := is.New(page.TB)
	for typed, want := range map[string]string{
		"kist.example.org":               "https://kist.example.org",
		" HTTPS://Kist.Example.org:443/": "https://kist.example.org",
		"http://kist.example.org/":       "http://kist.example.org",
		"https://example.org/kist//":     "https://example.org/kist",
		"https://example.org/?a=b#c":     "https://example.org",
		"nas:7080":                       "http://nas:7080",
		"nas.lan":                        "http://nas.lan",
		"192.168.1.5:7080":               "http://192.168.1.5:7080",
		"172.32.0.1":                     "https://172.32.0.1",
		"[::1]:7080":                     "http://[::1]:7080",
		"[2001:db8::1]":                  "https://[2001:db8::1]",
		"localhost:7080/kist":            "http://localhost:7080/kist",
		"bücher.example":                 "https://xn--bcher-kva.example",
		"":                               "! Enter the URL of your server",
		"my server":                      "! A URL cannot contain spaces",
		"ftp://example.org":              "! The URL must begin with https:// or http://, not with ftp://",
		"https://ann:secret@example.org": "! Leave out the username and password",
		"https://":                       "! This is not a URL.",
		"https://exa%mple":               "! This is not a URL.",
	} {
		got := page.js(`import('./connect.js').then(({ serverOf }) => { try { return serverOf(` + quoted(typed) + `); } catch (e) { return '! ' + e.message; } })`).(string)
		if got != want && !(strings.HasPrefix(want, "! ") && strings.HasPrefix(got, want)) {
			page.Errorf("%q is read as %q, and not as %q", typed, got, want)
		}
	}
	for address, want := range map[string]bool{
		"http://kist.example.org": true, "https://kist.example.org": false, "http://10.0.0.1": false, "http://nas.home.arpa": false, "http://8.8.8.8": true,
	} {
		is.Equal(page.js(`import('./connect.js').then(({ unsafe }) => unsafe(`+quoted(address)+`))`), want)
	}
	// polls runs the machine over answers, on a clock that its pauses move; it
	// tells the pauses and the end.
	polls := func(answers string) string {
		page.Helper()
		return page.js(`import('./connect.js').then(async ({ poll, unreachable }) => {
			const answers = ` + answers + `, waits = [];
			let clock = 0;
			const ask = async () => {
				const next = answers.shift();
				if (next === 'offline') throw unreachable('http://nas:7080');
				return next;
			};
			const sleep = async (seconds) => { waits.push(seconds); clock += seconds * 1000; };
			const end = await poll({ interval: 5, ends: 600_000 }, { ask, sleep, now: () => clock }).catch((e) => e.message.slice(0, 28));
			return waits.join(' ') + ': ' + end;
		})`).(string)
	}
	const waits, slower = `{ status: 400, body: { error: 'authorization_pending' } }, `, `{ status: 400, body: { error: 'slow_down', interval: 30 } }, `
	const key = `{ status: 200, body: { api_key: 'k' } }`
	for answers, want := range map[string]string{
		key:                  "5: k",
		waits + waits + key:  "5 5 5: k",
		slower + waits + key: "5 30 30: k",
		`{ status: 429, body: { error: 'slow_down' } }, ` + key: "5 10: k",
		`'offline', 'offline', ` + key:                          "5 10 20: k",
		`{ status: 502, body: null }, ` + key:                   "5 10: k",
		`{ status: 400, body: { error: 'access_denied' } }`:     "5: You denied the connection. C",
		`{ status: 403, body: { error: 'access_denied' } }`:     "5: API keys are disabled on thi",
		`{ status: 400, body: { error: 'expired_token' } }`:     "5: The code has expired. It is ",
		`{ status: 400, body: { error: 'invalid_grant' } }`:     "5: The server no longer knows t",
		`{ status: 404, body: null }`:                           "5: The server gave an unexpecte",
		`{ status: 0, body: null }`:                             "5: The server redirects to anot",
		`...Array(30).fill({ status: 503, body: null })`:        "5 10 20 40" + strings.Repeat(" 60", 9) + ": The code has expired. It is ",
	} {
		want = want[:min(len(want), strings.Index(want, ":")+2+28)]
		if got := polls("[" + answers + "]"); got != want {
			page.Errorf("polls %s: %q, and not %q", answers, got, want)
		}
	}
	is.True(strings.HasPrefix(
		page.js(`import('./connect.js').then(({ begin }) => begin('http://127.0.0.1:1', 'x')).catch((e) => e.message)`).(string),
		"No answer from 127.0.0.1:1.",
	))
	is.True(strings.Contains(
		page.js(`import('./connect.js').then(({ begin }) => begin('`+page.URL+`/elsewhere', 'x')).catch((e) => e.message)`).(string),
		"does not seem to be kist",
	))
	for given, want := range map[string]string{
		`'', { type: 'image/png' }, 'https://example.org/a/b%20c.png?x'`: "b c.png",
		`'', { type: 'text/html' }, 'https://example.org/'`:              "example-org.html",
		`'a/b:c', { type: 'image/jpeg' }, ''`:                            "a b c.jpg",
		`'', { type: '' }, 'data:,'`:                                     "file",
	} {
		got := page.js(`import('./save.js').then(({ nameOf }) => ((name, blob, address) => nameOf(name, { blob, disposition: '' }, address))(` + given + `))`)
		is.Equal(got, want)
	}
}

// TestBrowserExtension loads the extension, connects it through the page of
// the server, and saves one of each kind by its button, its menu and its keys.
func TestBrowserExtension(t *testing.T) {
	is := is.New(t)
	browserPath(t)
	t.Parallel()
	a := apitest.Start(t, apitest.AtHome)
	a.Post("/api/v1/tags", map[string]any{"name": "boats"}).Want(201)
	site, pictures, picture, taken := elsewhere(t)
	dir, at := unpacked(a, a.URL+"/*", site+"/*")
	shotDir, shotAt := unpacked(a, "<all_urls>") // of a tab's picture, see the end
	b := withExtensions(a, []string{dir, shotDir}, []string{at, shotAt})
	b.signIn()
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		b.do(browser.SetPermission(&browser.PermissionDescriptor{Name: name}, browser.PermissionSettingGranted))
	}

	// It opens the page to connect on its own, once it is installed.
	page := b.other(at + "options.html")
	page.until(`document.querySelector('#server')?.value === ` + quoted(a.URL))
	rules(page)
	is.Equal(page.js(`document.querySelectorAll('#keys kbd').length`), 4.0) // the browser has no other use for them
	page.fill("Server URL", "ftp://kist.example.org")
	page.click("#server-form button")
	page.says("must begin with https:// or http://")
	page.fill("Server URL", " "+a.URL+"/ ")
	page.hasten(50) // it polls too fast, and is told to slow down
	page.click("#server-form button")
	ask := b.other(a.URL + "/device?user_code=")
	ask.at("Connect a device")
	page.until(`document.querySelector('#code')?.textContent`)
	is.Equal(
		ask.js(`document.querySelector('.compare').textContent`), page.js(`document.querySelector('#code').textContent`),
	)
	is.True(strings.HasPrefix(
		ask.js(`document.querySelector('.sheet b').textContent`).(string), "kist extension (Chromium",
	))
	ask.press("Allow")
	ask.at("Connected")
	a.Clock.Advance(5 * time.Minute) // which it has done
	page.until(`!document.querySelector('#connected').hidden && document.querySelector('#connected').textContent.includes(' as ann')`)
	worker := b.other(at + "background.js")
	key := worker.js(`chrome.storage.local.get('connection').then((s) => s.connection.key)`).(string)
	a.As(key).Get("/api/v1/keys").Want(403)

	// The pop-up, opened as a page: suggestions, sharing, what is there already.
	b.do(chromedp.Navigate(site + "/tides?utm_source=x"))
	id := worker.js(`chrome.tabs.query({ url: ` + quoted(site+"/*") + ` }).then(([t]) => t.id)`)
	popup := func() *tab {
		number := fmt.Sprintf("%.0f", id)
		worker.js(`chrome.tabs.create({ url: 'popup.html?tab=` + number + `' })`)
		p := b.other(at + "popup.html")
		p.until(`document.querySelector('#recent-section') && !document.querySelector('#form').hidden && document.activeElement.id === 'title'`)
		return p
	}
	a.Post("/api/v1/collections", `{"title":"Live","source":{"tag":"boats"}}`).Want(201) // to which nothing can be added
	trip := "/api/v1/collections/" + a.Collect("trip", "") + "/items"
	p := popup()
	told := func(text string) {
		t.Helper()
		p.until(`!document.querySelector('#saved').hidden && document.querySelector('#saved').textContent.includes(` + quoted(text) + `)`)
	}
	is.Equal(p.js(`document.querySelector('#title').value`), "Tide tables")
	p.do(chromedp.EmulateViewport(400, 600)) // the most that browsers allow
	p.until(`!document.querySelector('#others').hidden`)
	is.True(p.js(`document.querySelector('#save').getBoundingClientRect().bottom`).(float64) <= 600)
	p.fill("Tags", "sea, bo")
	p.until(`document.querySelector('[role=option]')?.textContent.startsWith('boats')`)
	p.keys(kb.ArrowDown)
	enter := func(kind input.KeyType) *input.DispatchKeyEventParams { // as a keyboard sends it: it can be taken
		return input.DispatchKeyEvent(kind).WithKey("Enter").WithCode("Enter").WithWindowsVirtualKeyCode(13)
	}
	p.do(enter(input.KeyDown).WithText("\r"), enter(input.KeyUp))
	is.Equal(p.js(`document.querySelector('#tags').value`), "sea, boats, ")
	p.js(`(() => { const e = document.querySelector('#isPublic'); e.value = '1'; e.dispatchEvent(new Event('input', { bubbles: true })); })()`)
	p.click("summary")
	p.fill("Password", "open sesame")
	p.fill("View limit", "no")
	p.click("#save")
	p.says("The limit must be a whole number")
	p.fill("View limit", "7")
	is.Equal(
		p.js(`(() => { const e = document.querySelector('#collection'); e.selectedIndex = 1; return [...e.options].map((o) => o.text).join() + e.closest('.field').hidden; })()`),
		"—,All of itfalse",
	)
	p.click("#save")
	told("Bookmark saved. Link copied.")
	got := a.Get("/api/v1/bookmarks").Want(200)
	is.Equal(a.Get(trip).Want(200).IDs(), []string{got.Text("data.0.id")})
	is.Equal(got.At("total"), 1.0)
	is.Equal(got.At("data.0.url"), site+"/tides?utm_source=x")
	is.Equal(got.At("data.0.title"), "Tide tables")
	is.Equal(got.At("data.0.tags"), []any{"sea", "boats"})
	is.Equal(got.At("data.0.isPublic"), true)
	is.Equal(got.At("data.0.hasPassword"), true)
	is.Equal(got.At("data.0.maxViews"), 7.0)
	is.Equal(got.At("data.0.maxViewsAction"), "make_private")
	is.Equal(p.js(`navigator.clipboard.readText()`), got.At("data.0.shareUrl"))
	p.until(`document.querySelector('#recent')?.textContent.includes('Tide tables')`)
	p.until(`document.querySelector('#save').textContent === 'Save changes'`)
	// The next change begins while the newest items are still fetched after this one.
	p.js(`void ((fetch) => {
		let go;
		const held = new Promise((resolve) => { go = resolve; });
		window.fetch = (at, ...rest) => (String(at).includes('brief=true') ? held : Promise.resolve()).then(() => fetch(at, ...rest));
		window.release = () => { window.fetch = fetch; go(); };
	})(window.fetch)`)
	p.fill("Title", "Tides")
	p.click("#save")
	told("Bookmark changed.")
	is.Equal(a.Get("/api/v1/bookmarks").Want(200).At("total"), 1.0)
	is.Equal(one(b.App, "bookmarks", "title"), "Tides")
	is.Equal(one(b.App, "bookmarks", "maxViews"), 7.0) // what was not touched stays

	// What was changed elsewhere meanwhile is told before it is replaced, and its tags stay.
	a.Patch("/api/v1/bookmarks/"+got.Text("data.0.id"), `{"title":"High water","addTags":["phone"]}`).Want(200)
	p.fill("Title", "Low water")
	p.fill("Tags", "sea, moon")
	p.js(`(document.querySelector("#save").click(), window.release())`)
	p.says("Save again to replace the other text. Title: High water")
	is.Equal(one(b.App, "bookmarks", "title"), "High water")
	p.click("#save")
	told("Bookmark changed.")
	is.Equal(one(b.App, "bookmarks", "title"), "Low water")
	is.Equal(one(b.App, "bookmarks", "tags"), []any{"sea", "phone", "moon"})
	p.until(`document.querySelector('#tags').value === 'sea, phone, moon'`)
	p.fill("Title", "Tides")
	p.click("#save")
	told("Bookmark changed.")

	// the same page
	is.Equal(
		p.js(`import('./save.js').then(({ bookmarkOf }) => bookmarkOf(`+quoted(site+"/tides/?fbclid=1#top")+`)).then((kept) => kept.title)`),
		"Tides",
	)
	is.Equal(p.js(`document.querySelector('#isPublic').value`), "1")

	p.click(`[value=link]`)
	is.Equal(p.js(`document.querySelector('#isPublic').value`), "") // that was the bookmark's
	p.click("#save")
	told("Short link created. Only you can open it, so its link was not copied.")
	is.Equal(p.js(`navigator.clipboard.readText()`), got.At("data.0.shareUrl")) // what was there stays
	is.Equal(p.js(`document.querySelector('#copy-saved').hidden`), true)
	p.until(`[...document.querySelectorAll('#recent li:has(button)')].map((e) => e.querySelector('a').textContent).join() === 'Tides,All of it'`)
	// the choice stays
	is.Equal(a.Get(trip).Want(200).IDs(), []string{got.Text("data.0.id"), one(b.App, "shorten", "id").(string)})
	p.js(`document.querySelector('#collection').selectedIndex = 0`)
	is.Equal(one(b.App, "shorten", "originalUrl"), site+"/tides?utm_source=x")
	p.click(`[value=file]`)
	p.fill("File name", "tides")
	p.click("#save")
	told("File saved.")
	is.Equal(one(b.App, "files", "originalName"), "tides.html")
	is.Equal(len(a.Get(trip).Want(200).IDs()), 2)
	is.True(strings.Contains(string(a.Get("/x/"+one(b.App, "files", "slug").(string)).Want(200).Body), "High at six."))

	// A kind that the pop-up has no place for is drawn from its form.
	p.click(`[value="own:game"]`)
	is.Equal(p.js(`document.querySelector('#own-title').value`), "Tide tables")
	is.Equal(p.js(`document.querySelector('#own-title').maxLength`), 512.0)
	is.Equal(
		p.js(`(() => { const e = document.querySelector('#own-rating'); e.value = '11'; return e.validity.rangeOverflow; })()`),
		true,
	)
	p.js(`(() => { document.querySelector('#own-status').value = 'playing'; document.querySelector('#own-rating').value = '9'; })()`)
	p.js(`(() => { document.querySelector('#own-platform').value = 'x'.repeat(513); })()`) // which nobody could type
	p.fill("Tags", "boats")
	p.click("#save")
	p.says("Platform must be at most 512 characters long.")
	p.fill("Platform", "PC")
	p.click("#save")
	told("Game saved.")
	game := a.Get("/api/v1/games").Want(200)
	is.Equal(game.At("data.0.title"), "Tide tables")
	is.Equal(game.At("data.0.status"), "playing")
	is.Equal(game.At("data.0.rating"), 9.0)
	is.Equal(game.At("data.0.coverUrl"), nil)
	is.Equal(game.At("data.0.tags"), []any{"boats"})
	p.until(`document.querySelector('#recent')?.textContent.includes('Game')`)

	// The last forms of the server stay when it cannot be asked. An older server has
	// none: then there is what every server keeps.
	is.Equal(p.js(`import('./client.js').then(async ({ forms, freshForms }) => {
		const names = async () => (await forms()).map((k) => k.name).join(' ');
		const real = fetch, states = [];
		for (const answer of [
			null, () => { throw new TypeError('no network'); }, () => new Response('<html>'), () => Response.json([{ name: 'note' }]), () => new Response('', { status: 404 }),
		]) {
			globalThis.fetch = answer ? (at, ...more) => at.startsWith('http') ? Promise.resolve().then(answer) : real(at, ...more) : real;
			await freshForms();
			states.push(await names());
		}
		globalThis.fetch = real;
		await freshForms();
		return states.join(', ');
	})`), strings.Repeat(
		"file bookmark note snippet recipe game shortlink collection, ", 4,
	)+"file bookmark note shortlink")
	is.Equal(p.js(`chrome.storage.local.get('forms').then((s) => s.forms.server)`), a.URL)

	// The menu and the keys: the same listeners as a click calls.
	tabOf := `chrome.tabs.get(` + fmt.Sprintf("%.0f", id) + `)`
	worker.js(`chrome.tabs.update(` + fmt.Sprintf("%.0f", id) + `, { active: true })`)
	menu := func(w *tab, item string, info map[string]any) {
		t.Helper()
		info["menuItemId"] = item
		info["pageUrl"] = site + "/tides"
		text, err := json.Marshal(info)
		a.NoErr(err)
		w.js(tabOf + `.then((t) => chrome.contextMenus.onClicked.dispatch(` + string(text) + `, t))`)
	}
	a.Post("/api/v1/notes", map[string]any{"content": "an older one"}).Want(201)
	b.js(`getSelection().selectAllChildren(document.body)`)
	menu(worker, "selection:note", map[string]any{"selectionText": "Tides High at six. Low at noon."})
	becomes(b.App, "notes", "sourceUrl", site+"/tides")
	// the lines of the page, which a menu does not tell
	is.Equal(one(b.App, "notes", "content"), "Tides\nHigh at six.\n\nLow at noon.")
	is.Equal(one(b.App, "notes", "title"), "Tide tables")
	is.Equal(one(b.App, "notes", "isPublic"), false)
	is.Equal(b.js(`navigator.clipboard.readText()`), got.At("data.0.shareUrl"))
	menu(worker, "link:link", map[string]any{"linkUrl": "https://example.org/far"})
	becomes(b.App, "shorten", "originalUrl", "https://example.org/far")
	menu(worker, "link:bookmark", map[string]any{"linkUrl": "https://example.org/near"})
	becomes(b.App, "bookmarks", "url", "https://example.org/near")
	b.js(`document.cookie = 'member=1'`)
	menu(worker, "media:file", map[string]any{"srcUrl": site + "/own.png"}) // with the page's cookies, as it is seen
	becomes(b.App, "files", "originalName", "own.png")
	is.Equal(a.Get("/x/"+one(b.App, "files", "slug").(string)).Want(200).Body, picture)
	menu(worker, "media:file", map[string]any{"srcUrl": pictures + "/open/chart.png"}) // by way of the page
	becomes(b.App, "files", "originalName", "chart.png")
	is.Equal(a.Get("/x/"+one(b.App, "files", "slug").(string)).Want(200).Body, picture)

	// What neither the extension nor the page may read, the server fetches, if
	// it may.
	b.expects("Access to fetch at '" + pictures + "/shut.png' from origin '" + site + "' has been blocked by CORS policy: ")
	problem := `chrome.storage.session.get('problem').then((s) => s.problem ?? '')`
	sign := `chrome.action.getBadgeText({})`
	const shut, instead = "The site does not let the extension read this", "Open it in a separate tab and save the " +
		"page as a file there."
	connection := func(server, key string) string {
		return `chrome.storage.local.set({ connection: { server: ` + quoted(server) + `, key: ` + quoted(key) + `, user: 'ann' } })`
	}
	worker.js(connection(a.URL, a.AddKey(a.User, people.ScopeRead)))
	menu(worker, "media:file", map[string]any{"srcUrl": pictures + "/shut.png"})
	worker.comes(problem, shut+". "+instead)
	worker.comes(sign, "!")
	worker.js(connection(a.URL, key))
	later := p.js(`import('./save.js').then(({ remote }) => {
		let clock = 0;
		return remote({ url: ` + quoted(pictures+"/later.png") + ` }, { sleep: async (seconds) => { clock += seconds * 1000; }, now: () => clock });
	})`).(map[string]any)
	is.Equal(later["text"], "Your server is still downloading the file. It will then appear in your files.")
	is.Equal(later["see"], a.URL+"/remote-upload")
	a.Fetching(t)
	becomes(b.App, "files", "originalName", "later.png")
	worker.js(`chrome.storage.local.set({ settings: { isPublic: true } })`)
	menu(worker, "media:file", map[string]any{"srcUrl": pictures + "/shut.png"})
	becomes(b.App, "files", "originalName", "shut.png")
	is.Equal(a.Get("/x/"+one(b.App, "files", "slug").(string)).Want(200).Body, picture)
	b.comes(`navigator.clipboard.readText()`, one(b.App, "files", "viewUrl").(string))
	worker.js(`chrome.storage.local.set({ settings: {} })`)
	asked := p.js(`chrome.runtime.sendMessage({ save: 'file', fields: {
		url: ` + quoted(pictures+"/shut.png") + `, name: 'chart of May', text: 'From the harbour.', tags: 'sea, boats', isPublic: true, password: 'open sesame', limit: '3', atLimit: 'delete',
	} })`).(map[string]any)
	becomes(b.App, "files", "originalName", "chart of May.png")
	is.Equal(asked["saved"].(map[string]any)["address"], one(b.App, "files", "viewUrl"))
	is.Equal(asked["saved"].(map[string]any)["text"], "Your server has downloaded the file and saved it.")
	got = a.Get("/api/v1/files").Want(200)
	is.Equal(got.At("data.0.description"), "From the harbour.")
	is.Equal(got.At("data.0.tags.1.name"), "boats")
	is.Equal(got.At("data.0.isPublic"), true)
	is.Equal(got.At("data.0.hasPassword"), true)
	is.Equal(got.At("data.0.maxViews"), 3.0)
	is.Equal(got.At("data.0.maxViewsAction"), "delete")
	worker.comes(sign, "!") // it was not looked at
	worker.js(`chrome.storage.session.remove('problem')`)
	p.js(`chrome.runtime.sendMessage({ save: 'note', fields: { text: 'seen' } })`)
	worker.comes(sign, "✓")
	menu(worker, "link:file", map[string]any{"linkUrl": "http://10.0.0.1/chart.png"})
	worker.comes(problem, shut+", and your server refuses to download it. The URL must be an address that the server "+
		"may call: the host 10.0.0.1 has the address 10.0.0.1, which is private; "+
		"an administrator can allow it with --allow-outbound 10.0.0.1. "+instead)
	worker.comes(sign, "!")
	b.expects("Access to fetch at '" + pictures + "/none.png' from origin '" + site + "' has been blocked by CORS policy: ")
	menu(worker, "media:file", map[string]any{"srcUrl": pictures + "/none.png"})
	worker.comes(
		problem, shut+", and your server could not download it: The other server answered 404 Not Found. "+instead,
	)
	is.Equal(a.Get("/api/v1/files").Want(200).At("total"), 6.0)

	// What is in the page can neither read the key nor have anything saved.
	inPage := func(do string) any {
		t.Helper()
		return worker.js(`chrome.scripting.executeScript({ target: { tabId: ` + fmt.Sprint(id) + ` }, func: ` + do + ` }).then(([r]) => r.result)`)
	}
	is.Equal(inPage(`() => chrome.storage.local.get('connection').then(() => 'read', () => 'refused')`), "refused")
	notes := a.Get("/api/v1/notes").Want(200).At("total")
	is.Equal(
		inPage(`() => chrome.runtime.sendMessage({ save: 'note', fields: { text: 'x' } }).then((r) => r ?? 'unheard', () => 'unheard')`),
		"unheard",
	)

	// The key goes to no other origin than that which the user has named; where
	// the browser bars that one, it is told.
	worker.js(connection(site+"/moved", key))
	menu(worker, "page:bookmark", map[string]any{})
	worker.comes(problem, "redirects to another URL, and the extension does not send its key there.")
	is.Equal(taken(), "")
	is.Equal(page.js(`document.querySelector('#barred').hidden`), true)
	worker.js(connection(pictures, key))
	menu(worker, "page:bookmark", map[string]any{})
	worker.comes(problem, "The browser no longer lets the extension reach")
	page.until(`!document.querySelector('#barred').hidden && !document.querySelector('#allow').hidden`)
	worker.js(connection(a.URL, key))

	// What is too long loses nothing without a word. What was under way when the
	// browser ended the worker is told by the next one.
	long := p.js(`chrome.runtime.sendMessage({ save: 'note', fields: { text: 'x'.repeat(1 << 21) } })`).(map[string]any)
	is.True(strings.HasPrefix(fmt.Sprint(long["problem"]), "The "))
	is.Equal(a.Get("/api/v1/notes").Want(200).At("total"), notes)
	worker.js(`chrome.storage.session.remove('problem').then(() => chrome.storage.session.set({ saving: 1 }))`)
	worker.end()
	p.js(`chrome.runtime.sendMessage({ save: 'note', fields: { text: 'afterwards' } })`)
	becomes(b.App, "notes", "content", "afterwards")
	worker = b.other(at + "background.js")
	worker.comes(problem, "The browser stopped the extension while it was saving.")
	worker.comes(sign, "!")
	worker.js(tabOf + `.then((t) => chrome.commands.onCommand.dispatch('save-page', { ...t, url: t.url + '&by=key' }))`)
	becomes(b.App, "bookmarks", "url", site+"/tides?utm_source=x&by=key")

	// A picture of the tab: no origin is enough for that, but the click that
	// cannot be done here, in whose place another copy may see all. It is
	// handed the same key.
	shooter := b.other(shotAt + "background.js")
	shooter.js(connection(a.URL, key))
	shooter.js(tabOf + `.then((t) => chrome.commands.onCommand.dispatch('save-screenshot', t))`)
	becomes(b.App, "files", "description", site+"/tides?utm_source=x")
	is.True(strings.HasPrefix(one(b.App, "files", "originalName").(string), "Tide tables 20"))
	shot, err := png.Decode(bytes.NewReader(a.Get("/x/" + one(b.App, "files", "slug").(string)).Want(200).Body))
	is.NoErr(err)
	is.True(shot.Bounds().Dx() >= 800 && shot.Bounds().Dy() >= 400)

	// Disconnecting takes the key away at the server; who still has it is told
	// so, and what to do.
	page.click("#disconnect")
	page.until(`!document.querySelector('#connect').hidden`)
	a.As(key).Get("/api/v1/notes").Want(401)
	is.Equal(worker.js(`chrome.storage.local.get('connection').then((s) => s.connection ?? null)`), nil)
	menu(shooter, "page:bookmark", map[string]any{})
	shooter.comes(problem, "no longer accepts this connection")
	last := b.other(shotAt + "options.html")
	last.until(`document.querySelector('#ended').textContent.endsWith('Connect again.')`)
}
