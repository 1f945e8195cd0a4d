package httpapi_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// A gate stands before a server and can be shut, as if the server were off.
type gate struct {
	testing.TB
	to, at string
	work   sync.WaitGroup

	mu    sync.Mutex
	ln    net.Listener
	conns []net.Conn
}

func newGate(t testing.TB, to string) *gate {
	g := &gate{TB: t, to: to, at: "127.0.0.1:0"}
	g.open()
	t.Cleanup(func() { g.shut(); g.work.Wait() })
	return g
}

func (g *gate) open() {
	g.Helper()
	ln, err := net.Listen("tcp", g.at)
	if err != nil {
		g.Fatal(err)
	}
	g.mu.Lock()
	g.ln, g.at = ln, ln.Addr().String()
	g.mu.Unlock()
	g.work.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", g.to)
			if err != nil {
				_ = in.Close()
				continue
			}
			g.mu.Lock()
			g.conns = append(g.conns, in, out)
			g.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				g.work.Go(func() { _, _ = io.Copy(pair[0], pair[1]); _ = pair[0].Close() })
			}
		}
	})
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.ln.Close()
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns = nil
}

// TestBrowserOffline reads and adds while the server is off.
func TestBrowserOffline(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	slug := b.Post(
		"/api/v1/notes", map[string]any{"title": "Harbour", "content": "Boats arrive **daily**."},
	).Want(201).Text("data.slug")
	b.Post("/api/v1/bookmarks", map[string]any{"url": "https://go.dev/", "title": "Go"}).Want(201)
	g := newGate(t, strings.TrimPrefix(b.URL, "http://"))
	server := b.URL
	b.URL = "http://" + g.at
	b.signIn()
	b.open("/account")
	b.js(`localStorage.setItem('kist.offline', 'true')`)
	b.open("/")
	const kept = `caches.open('kist-data').then((c) => c.keys()).then((all) => all.map((r) => new URL(r.url).pathname))`
	b.until(kept + `.then((all) => all.includes('/v/` + slug + `'))`)
	b.until(`!!navigator.serviceWorker.controller`)
	b.until(kept + `.then((all) => all.includes('/sw.js'))`) // all is copied, after one visit

	g.shut()
	b.open("/notes")
	b.until(`document.querySelector('#main a.name')?.textContent === 'Harbour'`)
	b.click("#main a.name")
	b.until(`document.querySelector('dialog.reader .prose strong')?.textContent === 'daily'`)
	b.open("/notes")
	b.press("New")
	b.fill("Text", "written on the train")
	b.press("Add note")
	b.says("Saved on this device")
	b.until(`location.pathname === '/notes' && !document.querySelector('dialog[open]')`) // it has gone back
	b.js(`(() => {
		const f = document.createElement('form');
		Object.assign(f, { method: 'post', action: '/share', enctype: 'multipart/form-data' });
		for (const [name, value] of [['title', 'Shared'], ['url', 'https://example.org/shared']]) { const i = document.createElement('input'); Object.assign(i, { name, value }); f.append(i); }
		document.body.append(f);
		f.submit();
	})()`)
	// for the user to add
	b.until(`document.querySelector('dialog.panel [name=url]')?.value === 'https://example.org/shared'`)
	b.press("Add bookmark")
	b.says("Saved on this device")

	g.open()
	b.open("/")
	there := b.URL
	b.URL = server
	becomes(b.App, "notes", "content", "written on the train")
	becomes(b.App, "bookmarks", "url", "https://example.org/shared")
	is.Equal(b.Get("/api/v1/notes").At("total"), 2.0) // once
	b.URL = there

	// Nothing of the user stays after signing out.
	b.open("/account")
	b.press("Sign out")
	b.until(`location.pathname === '/login'`)
	b.until(`caches.has('kist-data').then((has) => !has)`)
	// The page that was left may have told the worker late whose copies to keep.
	for _, want := range []string{"owner", "keep"} {
		before := strings.Count(b.Logged.String(), refusedMe)
		b.js(`void navigator.serviceWorker.controller.postMessage({ want: ` + quoted(want) + `, user: ` + quoted(b.User.ID.String()) + ` })`)
		apitest.Eventually(t, "the worker does not ask who is signed in", func() bool {
			return strings.Count(b.Logged.String(), refusedMe) > before
		})
		b.until(`caches.has('kist-data').then((has) => !has)`)
	}
}

// TestBrowserReplacedChange: a change that waits goes only when the one that replaces it is stored. The worker's script
// runs in a page here, where its database can be made to fail.
func TestBrowserReplacedChange(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.do(sent("Page.setBypassCSP", map[string]any{"enabled": true}))
	b.open("/")
	b.js(`(async () => {
		const script = await (await fetch('/sw.js')).text();
		const scope = [() => {}, async () => {}, {}];
		globalThis.worker = new Function('addEventListener', 'skipWaiting', 'registration', script + '; return { later, ask };')(...scope);
		globalThis.change = (text, name = 'note.1') => worker.later({ user: 'u', etag: '"1"', body: text, draft: { name } });
		globalThis.kept = async () => (await worker.ask('readonly', (store) => store.getAll())).map((x) => x.body).join();
	})()`)
	is.Equal(b.js(`change('one').then(kept)`), "one")
	is.Equal(b.js(`change('two').then(kept)`), "two") // it has what the first has
	is.Equal(b.js(`change('other', 'note.2').then(kept)`), "two,other")

	b.js(`(() => {
		globalThis.add = IDBObjectStore.prototype.add;
		IDBObjectStore.prototype.add = function (entry) { // the second time the key is taken
			add.call(this, entry, 1000);
			return add.call(this, entry, 1000);
		};
	})()`)
	is.Equal(b.js(`change('three').then(() => 'kept', kept)`), "two,other")
	b.js(`void (IDBObjectStore.prototype.add = add)`)
	b.js(`worker.ask('readwrite', (store) => Array.from({ length: 498 }, () => store.add({ body: 'x' })).at(-1))`)
	is.Equal(b.js(`change('x', 'note.501').then(() => 'kept', () => 'refused')`), "refused") // too many wait
	is.Equal(b.js(`change('four').then(kept).then((all) => all.split(',').filter((x) => x !== 'x').join())`), "other,four")
}

// TestBrowserLateAnswer: an answer that comes after the copies of a user were removed is not kept, as the copies there
// are of the next user.
func TestBrowserLateAnswer(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.do(sent("Page.setBypassCSP", map[string]any{"enabled": true}))
	b.open("/")
	is.Equal(b.js(`(async () => {
		const script = await (await fetch('/sw.js')).text();
		const names = ['addEventListener', 'skipWaiting', 'registration', 'fetch'];
		let answer = null;
		const late = () => new Promise((done) => { answer = done; });
		const make = new Function(...names, script + '; return { reach, forget };');
		const worker = make(() => {}, async () => {}, {}, late), request = new Request('/t/of-ann');
		await caches.open('kist-data');
		const got = worker.reach(request, true);
		await worker.forget();
		await caches.open('kist-data'); // of Bob
		answer(new Response('of Ann'));
		await got;
		return !!await caches.match(request, { cacheName: 'kist-data' });
	})()`), false)
}

// refusedMe is a line of the log: nobody is signed in.
const refusedMe = `"path":"/api/v1/me","status":401`

// TestBrowserSignOut: what this device keeps for the user goes when they sign out, after a question if the server does not
// have it.
func TestBrowserSignOut(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/account")
	b.js(`localStorage.setItem('kist.draft.someone.note.new', '1')`) // of another user
	b.js(`localStorage.setItem('kist.tus.` + b.User.ID.String() + `.x', '"/api/v1/tus/x"')`)
	b.open("/notes/new")
	b.fill("Title", "Letter to Bob")
	b.until(`Object.keys(localStorage).some((k) => k.endsWith('.note.new') && localStorage[k].includes('Letter to Bob'))`)
	b.open("/account")
	b.press("Sign out")
	b.shows("This device has 1 draft or new item that the server does not have.")
	b.press("Cancel")
	b.until(`!document.querySelector('dialog')`)
	b.open("/notes/new")
	b.until(`document.querySelector('dialog [name=title]')?.value === 'Letter to Bob'`)
	b.open("/account")
	b.press("Sign out")
	b.shows("This device has 1 draft")
	b.press("Sign out")
	b.until(`location.pathname === '/login'`)
	is.Equal(b.js(`Object.keys(localStorage).filter((k) => /draft|tus/.test(k)).join()`), "kist.draft.someone.note.new")

	// Without something unsent, nobody is asked.
	b.signIn()
	b.open("/account")
	b.press("Sign out")
	b.until(`location.pathname === '/login'`)
}

// TestBrowserDroppedTree: the files of each folder of a dropped tree stay apart, what systems put there is left out,
// and what cannot be read is counted.
func TestBrowserDroppedTree(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/files")
	is.Equal(b.js(`(async () => {
		const { texts, modules } = JSON.parse(document.getElementById('start').textContent);
		if (texts.uploads) await import(texts.uploads);
		const { filesIn } = await import(modules.uploads);
		const file = (name) => ({ name, isFile: true, file: (done) => done(new File(['x'], name)) });
		const bad = (name) => ({ name, isFile: true, file: (_, fail) => fail(new Error('gone')) });
		const folder = (name, ...all) => ({ name, isDirectory: true, createReader: () => ({ readEntries: (done) => done(all.splice(0, 2)) }) });
		const closed = { name: 'closed', isDirectory: true, createReader: () => ({ readEntries: (_, fail) => fail(new Error('closed')) }) };
		const trip = folder('Trip', file('.DS_Store'), file('a.jpg'), folder('Day 1', file('b.jpg')), bad('c.jpg'), folder('Day 2', closed, file('b.jpg')));
		const long = folder('x'.repeat(300), folder('y'.repeat(300), file('d.jpg')));
		const { files, unread } = await filesIn([[trip, null], [null, new File(['x'], 'e.jpg')], [long, null]]);
		return [unread, ...files.map((f) => f.kist ? f.kist.folderName.slice(0, 12) + f.kist.folderName.length + ':' + f.name : f.name)].join(' ');
	})()`), "2 Trip4:a.jpg Trip / Day 112:b.jpg Trip / Day 212:b.jpg e.jpg …xxxxxxxxxxx512:d.jpg")
}

// TestBrowserOfflineLeft: what a browser has kept of a collection of another goes when the user is online again after
// the end of their part in it.
func TestBrowserOfflineLeft(t *testing.T) {
	b := openBrowser(t)
	bob := b.As(b.AddKey(b.AddUser("bob", people.Member), people.ScopeAll))
	note := bob.Post("/api/v1/notes", `{"title":"Marker","content":"marker of bob"}`).Want(201).Text("data.id")
	made := bob.Post("/api/v1/collections", `{"title":"Board","source":{"items":["`+note+`"]}}`).Want(201)
	board, id := "/v/"+made.Text("data.slug"), made.Text("data.id")
	member := apitest.Request{
		Method: "PUT", Path: "/api/v1/collections/" + id + "/members/" + b.User.ID.String(), JSON: `{"role":"see"}`,
	}
	bob.Do(member).Want(200)
	b.Post("/api/v1/notes", `{"title":"Harbour","content":"own"}`).Want(201)
	g := newGate(t, strings.TrimPrefix(b.URL, "http://"))
	b.URL = "http://" + g.at
	b.signIn()
	b.open("/account")
	b.js(`localStorage.setItem('kist.offline', 'true')`)
	b.open("/")
	const kept = `caches.open('kist-data').then((c) => c.keys()).then((all) => all.map((r) => new URL(r.url).pathname))`
	b.until(`!!navigator.serviceWorker.controller`)
	b.until(`caches.open('kist-data').then((c) => c.match('/sw.js?kept'))`) // all is copied
	for _, path := range []string{board, board + "/" + note, "/collections/" + id + "/board"} {
		b.js(`fetch(` + quoted(path) + `).then((r) => r.status)`) // as the reader and the page of a collection do
		b.until(kept + `.then((all) => all.includes(` + quoted(path) + `))`)
	}

	// It can be read while the server is away, and goes with the next page of the app after the end.
	g.shut()
	b.until(`fetch(` + quoted(board+"/"+note) + `).then((r) => r.text()).then((text) => text.includes('marker of bob'))`)
	g.open()
	member.Method, member.JSON = "DELETE", nil
	bob.Do(member).Want(200)
	b.open("/")
	b.until(kept + `.then((all) => !all.some((path) => path.startsWith(` + quoted(board) + `) || path.includes(` + quoted(id) + `)))`)
	g.shut()
	b.open("/notes")
	b.until(`document.querySelector('#main a.name')?.textContent === 'Harbour'`) // what is one's own stays
	b.until(`caches.open('kist-data').then(async (c) => (await Promise.all((await c.keys()).map(async (r) =>
		(await (await c.match(r)).text()).includes('marker of bob')))).every((has) => !has))`)
}

// atGate opens a browser that reaches its server through a gate, and has copied the newest items to this device.
// direct is the address of the server past the gate.
func atGate(t *testing.T, fill func(b *tab)) (b *tab, g *gate, direct string) {
	t.Helper()
	b = openBrowser(t)
	fill(b)
	g, direct = newGate(t, strings.TrimPrefix(b.URL, "http://")), b.URL
	b.URL = "http://" + g.at
	b.signIn()
	b.open("/account")
	b.js(`localStorage.setItem('kist.offline', 'true')`)
	b.open("/")
	b.until(`!!navigator.serviceWorker.controller && caches.open('kist-data').then((c) => c.match('/sw.js?kept'))`)
	return b, g, direct
}

// awayLine is what the page says of the server.
const awayLine = `(document.querySelector('.away[role=status]')?.textContent ?? 'none')`

// TestBrowserOfflineLine: while the server is away, a line says so, and how many copies there are of when.
func TestBrowserOfflineLine(t *testing.T) {
	is := is.New(t)
	b, g, _ := atGate(t, func(b *tab) {
		b.Post("/api/v1/notes", `{"title":"Harbour","content":"Boats"}`).Want(201)
		b.Post("/api/v1/bookmarks", `{"url":"https://go.dev/","title":"Go"}`).Want(201)
	})
	is.Equal(b.js(awayLine), "")
	g.shut()
	b.js(`void document.querySelector('.rail [data-nav=note]').click()`) // the worker finds no server
	b.until(`/^Offline · newest 2 items, as of \d+:\d\d/.test(` + awayLine + `)`)
	is.Equal(b.js(`document.documentElement.scrollWidth <= innerWidth`), true)
	b.open("/notes") // also on a page that begins without it
	b.until(awayLine + `.startsWith('Offline · newest 2 items')`)
	g.open()
	b.js(`void dispatchEvent(new Event('online'))`)
	b.until(awayLine + ` === ''`)

	// Without copies there is nothing to say of them.
	b.open("/account")
	b.until(`(() => {
		const box = document.querySelector('[aria-label="This device"] [role=switch]');
		box?.click();
		return !!box;
	})()`)
	b.until(`caches.has('kist-data').then((has) => !has)`)
	g.shut()
	b.js(`void dispatchEvent(new Event('offline'))`)
	b.until(awayLine + ` === 'Offline'`)
	g.open()
	b.until(awayLine + ` === ''`) // the page asks again and again
}

// names are the titles of the rows of a page.
const names = `[...document.querySelectorAll('#main a.name')].map((a) => a.textContent).join()`

// TestBrowserOfflineSearch: a search without the server looks at the copies: their titles, tags and whole texts.
func TestBrowserOfflineSearch(t *testing.T) {
	is := is.New(t)
	long := strings.Repeat("word ", 400)
	b, g, _ := atGate(t, func(b *tab) {
		b.Post("/api/v1/notes", map[string]any{"title": "Harbour", "content": long + "Crème brûlée"}).Want(201)
		b.Post("/api/v1/bookmarks", `{"url":"https://creme.example/","title":"Shop","tags":["Food stuff"]}`).Want(201)
		b.Post("/api/v1/recipes", `{"title":"Soup","ingredients":"leek","isFavorite":true}`).Want(201)
	})
	g.shut()
	for _, search := range []struct{ words, found string }{
		{"creme", "Shop,Harbour"},
		{"CRÈME brul", "Harbour"},
		{"rulee", ""}, // a word begins as it is typed
		{`"creme brulee"`, "Harbour"},
		{`tag:"food stuff"`, "Shop"},
		{"creme -shop", "Harbour"},
		{"kind:recipe", "Soup"},
		{"is:favorite", "Soup"},
		{"is:public", ""},
	} {
		b.open("/search?q=" + url.QueryEscape(search.words))
		b.shows("Offline: only the 3 copies on this device were searched.")
		b.until(names + ` === ` + quoted(search.found))
	}
	b.open("/search?q=creme&kind=note")
	b.until(names + ` === 'Harbour'`)
	b.click("#main a.name")
	b.until(`document.querySelector('dialog.reader')?.textContent.includes('Crème')`)
	b.open("/notes?tag=none") // a filter holds for the copies, too
	b.shows("No matches")

	g.open()
	b.open("/search?q=creme")
	b.until(names + ` === 'Shop,Harbour'`)
	is.Equal(b.js(`document.body.innerText.includes('copies on this device')`), false)
}

// TestBrowserOfflineWriting: a note is opened and saved again and again without the server. What was typed shows at once
// and arrives as one change.
func TestBrowserOfflineWriting(t *testing.T) {
	is := is.New(t)
	var note, slug string
	b, g, direct := atGate(t, func(b *tab) {
		content := "**milk**\n" + strings.Repeat("and more\n", 200)
		made := b.Post("/api/v1/notes", map[string]any{"title": "Shopping", "content": content}).Want(201)
		note, slug = "/api/v1/notes/"+made.Text("data.id"), made.Text("data.slug")
	})
	g.shut()
	b.open("/notes")
	b.until(names + ` === 'Shopping'`)
	edit := func(has, text string) {
		t.Helper()
		b.until(`!!document.querySelector('dialog.reader [aria-keyshortcuts=e]')`)
		b.js(`document.querySelector('dialog.reader [aria-keyshortcuts=e]').click()`)
		b.until(textField + `?.value.includes(` + quoted(has) + `)`)
		b.fill("Text", text)
		b.do(chromedp.KeyEvent("s", chromedp.KeyModifiers(2))) // Ctrl
		b.until(`document.querySelector('dialog.reader .said')?.textContent === ` + quoted(text))
	}
	b.click("#main a.name")
	b.until(`document.querySelector('dialog.reader .prose strong')?.textContent === 'milk'`)
	edit("and more\nand more", "butter") // the whole text, which the list cuts off
	is.Equal(b.js(`document.querySelector('dialog.reader').innerText.includes('This change waits for the server')`), true)
	b.until(`document.querySelector('#main .item')?.textContent.includes('waiting')`)

	b.open("/notes/" + slug) // after a reload
	b.until(`document.querySelector('dialog.reader .said')?.textContent === 'butter'`)
	b.until(`/butter.*waiting/.test(document.querySelector('#main .item').textContent)`)
	edit("butter", "butter and jam")
	b.open("/search?q=jam")
	b.until(names + ` === 'Shopping'`)
	b.open("/notes")
	b.until(`document.querySelector('#main .item')?.textContent.includes('butter and jam')`)
	b.until(awayLine + `.startsWith('Offline')`) // the page listens

	g.open()
	b.js(`void navigator.serviceWorker.controller.postMessage({ want: 'send' })`)
	b.says("1 item saved on this device was sent")
	b.until(`document.querySelector('#main .item').textContent.includes('butter and jam')`)
	b.until(`!document.querySelector('#main .item').textContent.includes('waiting')`)
	b.URL = direct
	is.Equal(b.Get(note).Text("data.content"), "butter and jam")
	is.Equal(b.js(`Object.keys(localStorage).some((k) => k.includes('draft'))`), false)

	// The copy is as it was sent. A change can be taken back while it waits.
	g.shut()
	b.URL = "http://" + g.at
	b.open("/notes/" + slug + "?edit=1")
	b.until(textField + `?.value === 'butter and jam'`)
	b.fill("Text", "nothing")
	b.press("Save")
	b.says("Saved on this device")
	b.open("/notes/" + slug + "?edit=1")
	b.until(textField + `?.value === 'nothing'`)
	b.press("Discard")
	b.until(`!document.querySelector('dialog')`)
	b.until(`!document.querySelector('#main .item')?.textContent.includes('waiting')`)
	g.open()
	b.js(`void navigator.serviceWorker.controller.postMessage({ want: 'send' })`)
	b.open("/notes/" + slug + "?edit=1")
	b.until(textField + `?.value === 'butter and jam'`)
}

// TestBrowserOfflinePictures: without the server, the small versions of pictures stand for them: in the viewer and in
// texts.
func TestBrowserOfflinePictures(t *testing.T) {
	is := is.New(t)
	var photo, note string
	b, g, _ := atGate(t, func(b *tab) {
		made := b.Upload(nil, apitest.File("boat.jpg", "", photoOf(900, 600, 1))).Want(201)
		photo = made.Text("slug")
		shown := map[string]any{"title": "Trip", "content": "![Boat](kist:" + made.Text("id") + ")"}
		note = b.Post("/api/v1/notes", shown).Want(201).Text("data.slug")
	})
	const kept = `caches.open('kist-data').then((c) => c.keys()).then((all) => all.map((r) => new URL(r.url).pathname))`
	b.until(kept + `.then((all) => all.includes('/t/` + photo + `') && all.some((at) => at.startsWith('/t/` + note + `/')))`)
	g.shut()
	b.open("/files")
	b.until(`document.querySelector('#main .item img')?.naturalWidth > 0`)
	b.open("/files/" + photo)
	b.until(`document.querySelector('dialog.viewer .stage img')?.naturalWidth > 0`)
	is.True(b.js(`document.querySelector('dialog.viewer .stage img').naturalWidth`).(float64) < 900)
	b.open("/notes/" + note)
	b.until(`document.querySelector('dialog.reader img[alt=Boat]')?.naturalWidth > 0`)
}

// TestBrowserOfflineBoard: without the server a collection looks as it did, and its items open.
func TestBrowserOfflineBoard(t *testing.T) {
	is := is.New(t)
	var photo, board string
	b, g, _ := atGate(t, func(b *tab) {
		made := b.Upload(nil, apitest.File("boat.jpg", "", photoOf(900, 600, 1))).Want(201)
		photo = made.Text("slug")
		note := b.Post("/api/v1/notes", `{"title":"Trip","content":"by **boat**"}`).Want(201).Text("data.id")
		items := map[string]any{"items": []string{made.Text("id"), note}}
		whole := b.Post("/api/v1/collections", map[string]any{"title": "Summer", "source": items}).Want(201)
		board = whole.Text("data.slug")
	})
	b.until(`caches.open('kist-data').then((c) => c.match('/t/` + photo + `', { ignoreSearch: true }))`)
	g.shut()
	b.open("/collections/" + board)
	b.until(`document.querySelector('.board .album img')?.naturalWidth > 0`)
	is.Equal(b.js(`getComputedStyle(document.querySelector('.board .album')).listStyleType`), "none")
	is.Equal(b.js(`!!document.querySelector('.board .own, .board a[download]')`), false)
	b.click(".board .things a")
	b.until(`document.querySelector('dialog.reader .prose strong')?.textContent === 'boat'`)
	b.keys(kb.Escape)
	b.until(`!document.querySelector('dialog')`)
	b.js(`document.querySelector('.board .album a').click()`)
	b.until(`document.querySelector('dialog.viewer .stage img')?.naturalWidth > 0`)
}

// TestBrowserOfflineLimits: copies of limited items are no views of them, and others still need the password.
func TestBrowserOfflineLimits(t *testing.T) {
	is := is.New(t)
	limited := map[string]any{"isPublic": true, "maxViews": 1, "password": "open sesame"}
	var note, slug, board string
	b, _, direct := atGate(t, func(b *tab) {
		limited["title"], limited["content"] = "Harbour", "Boats"
		made := b.Post("/api/v1/notes", limited).Want(201)
		note, slug = "/api/v1/notes/"+made.Text("data.id"), made.Text("data.slug")
		delete(limited, "content")
		limited["source"] = map[string]any{"items": []string{made.Text("data.id")}}
		board = "/api/v1/collections/" + b.Post("/api/v1/collections", limited).Want(201).Text("data.id")
	})
	b.URL = direct
	for _, at := range []string{note, board} {
		is.Equal(b.Get(at).At("data.views"), 0.0)
		is.Equal(b.Get(at).At("data.viewsOfLimit"), 0.0)
	}
	b.Visit("/v/" + slug).Want(401)
	is.True(strings.Contains(string(b.Visit("/v/"+slug, "X-Share-Password", "open sesame").Want(200).Body), "Boats"))
}

// TestBrowserOfflineOthers: what pages of others show is not kept: a password may guard it.
func TestBrowserOfflineOthers(t *testing.T) {
	is := is.New(t)
	b, _, _ := atGate(t, func(b *tab) {
		b.Upload(nil, apitest.File("boat.jpg", "", photoOf(900, 600, 1))).Want(201)
	})
	bob := b.As(b.AddKey(b.AddUser("bob", people.Member), people.ScopeAll))
	made := bob.Upload(
		map[string]string{"isPublic": "true"}, apitest.File("secret.jpg", "", photoOf(900, 600, 2)),
	).Want(201)
	b.open("/v/" + made.Text("slug"))
	b.until(`document.querySelector('main img')?.naturalWidth > 0`)
	const kept = `caches.open('kist-data').then((c) => c.keys()).then((all) => all.map((r) => r.url).join())`
	is.Equal(b.js(kept+`.then((all) => all.includes(`+quoted(made.Text("slug"))+`))`), false)
}
