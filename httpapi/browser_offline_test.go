package httpapi_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

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

// TestBrowserDroppedTree: the files of each folder of a dropped tree stay apart, what systems put there is left out, and
// what cannot be read is counted.
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
	for _, path := range []string{board, board + "/" + note} {
		b.js(`fetch(` + quoted(path) + `).then((r) => r.status)`) // as the reader does
		b.until(kept + `.then((all) => all.includes(` + quoted(path) + `))`)
	}

	// It can be read while the server is away, and goes with the next page of the app after the end.
	g.shut()
	b.until(`fetch(` + quoted(board+"/"+note) + `).then((r) => r.text()).then((text) => text.includes('marker of bob'))`)
	g.open()
	member.Method, member.JSON = "DELETE", nil
	bob.Do(member).Want(200)
	b.open("/")
	b.until(kept + `.then((all) => !all.some((path) => path.startsWith(` + quoted(board) + `)))`)
	g.shut()
	b.open("/notes")
	b.until(`document.querySelector('#main a.name')?.textContent === 'Harbour'`) // what is one's own stays
	b.until(`caches.open('kist-data').then(async (c) => (await Promise.all((await c.keys()).map(async (r) =>
		(await (await c.match(r)).text()).includes('marker of bob')))).every((has) => !has))`)
}
