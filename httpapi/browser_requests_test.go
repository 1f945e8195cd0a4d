package httpapi_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"image/color"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/people"
)

// takesDrops waits until the page takes what is dropped or pasted. The app loads that after its first rows.
func (b *tab) takesDrops() {
	b.Helper()
	b.until(`!document.body.matches('.app') || document.querySelector('.veil') !== null`)
}

// drop drops files of the given names and texts onto the page.
func (b *tab) drop(files ...string) {
	b.Helper()
	b.takesDrops()
	var made strings.Builder
	for i := 0; i+1 < len(files); i += 2 {
		made.WriteString(`d.items.add(new File([` + quoted(files[i+1]) + `], ` + quoted(files[i]) + `));`)
	}
	b.js(`(() => { const d = new DataTransfer(); ` + made.String() + `
		for (const t of ['dragenter', 'dragover', 'drop']) document.body.dispatchEvent(new DragEvent(t, { dataTransfer: d, bubbles: true, cancelable: true }));
	})()`)
}

// TestBrowserGuests: visitors add to a collection; the owner reviews them together and sees them on the board.
func TestBrowserGuests(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	id := b.Collect("wedding", "")
	b.open("/collections/" + id)
	b.press("Let visitors add")
	b.shows("up to 200 files")
	b.press("Make the link")
	b.until(`document.querySelector('dialog[open] input[aria-label=Link]')?.value.endsWith('/v/wedding')`)
	b.until(`document.querySelector('dialog[open] img.qr')?.naturalWidth > 0`)
	b.press("Close")
	request := b.Get("/api/v1/upload-requests").Want(200)
	is.Equal(request.At("total"), 1.0)
	is.Equal(request.Text("data.0.collectionId"), id)
	is.Equal(request.At("data.0.requiresApproval"), true)
	is.Equal(request.At("data.0.requiresName"), true)
	is.Equal(request.At("data.0.maxUploads"), 200.0)

	slug := request.Text("data.0.slug")
	for _, name := range []string{"one.png", "two.png", "three.png"} {
		b.Leave(slug, nil, map[string]string{"name": "Bob"}, apitest.File(name, "image/png", apitest.Picture(t))).Want(201)
	}
	b.open("/collections/" + id)
	b.press("3 to review")
	b.until(`document.querySelectorAll('#main .queue .item').length === 3`)
	b.press("Select all")
	b.press("Approve 3")
	b.says("3 files approved. They are in the collection.")
	b.press("into a collection")
	b.until(`document.querySelectorAll('.place [data-id] img').length === 3`)
	b.until(`![...document.querySelectorAll('.does > *')].some((e) => e.textContent.includes('review'))`)
	b.press("Visitors")
	b.until(`document.querySelector('dialog[open] input[aria-label=Link]')?.value.endsWith('/v/wedding')`)
	b.press("Rules and files")
	b.until(`document.querySelector('h1')?.textContent.startsWith('All of it') && !document.querySelector('dialog[open]')`)
}

// TestBrowserRequests: an owner makes a link, strangers leave files at it, with
// and without JavaScript, and the owner decides about them.
func TestBrowserRequests(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/upload-requests")
	b.press("New request")
	b.fill("Title", "Photos of the wedding")
	b.fill("Save files to folder", "Wedding")
	b.js(`(() => {
		for (const d of document.querySelectorAll('dialog[open] details')) d.open = true;
		const color = document.querySelector('dialog[open] [name=brandColor]');
		document.querySelector('dialog[open] [name=branded]').click();
		color.value = '#aa0000';
	})()`)
	b.fill("Custom link", "wedding")
	b.pick("expiresAt", "week")
	b.js(`document.querySelector('dialog[open] [name=requiresCaptcha]').click()`)
	b.press("Create link")
	b.until(`document.querySelector('dialog[open] input[aria-label=Link]')?.value.endsWith('/up/wedding')`)
	b.until(`document.querySelector('dialog[open] img.qr')?.naturalWidth > 0`)
	b.do(emulation.SetDeviceMetricsOverride(1280, 800, 1, false))
	is.Equal(
		b.js(`(() => { const d = document.querySelector('dialog[open]'); return d.scrollHeight <= d.clientHeight && d.querySelector('a.button').getBoundingClientRect().bottom < innerHeight; })()`),
		true,
	)
	b.do(emulation.ClearDeviceMetricsOverride())
	b.press("Close")
	is.True(one(b.App, "upload-requests", "expiresAt") != nil)

	// Dropped, with the proof of work that the link asks for.
	s := profile(b.App)
	s.do(emulation.SetDeviceMetricsOverride(320, 640, 1, true), chromedp.Navigate(b.URL+"/up/wedding"))
	is.Equal(s.js(`document.documentElement.scrollWidth <= 320`), true)
	is.Equal( // what was sent can be seen when something was
		s.js(`[...document.querySelectorAll('main button')].filter((x) => x.checkVisibility()).map((x) => x.id).join()`),
		"send",
	)
	s.until(`getComputedStyle(document.getElementById('send')).backgroundColor === 'rgb(170, 0, 0)'`)
	is.Equal(s.js(`getComputedStyle(document.getElementById('send')).color`), "rgb(255, 255, 255)")
	s.drop("first.txt", "hello <b>owner</b>", "second.txt", "second")
	is.Equal(
		s.js(`[...document.querySelectorAll('#list button')].filter((x) => x.getClientRects().length).map((x) => x.textContent).join()`),
		"Remove,Remove",
	)
	s.until(`(() => { // what is said of the captcha comes and goes, and moves the button for nobody
		const work = document.getElementById('work'), top = () => document.getElementById('send').getBoundingClientRect().top, before = top(), text = work.textContent;
		work.textContent = text ? '' : 'text';
		const after = top();
		work.textContent = text;
		return before === after;
	})()`)
	s.fill("Your name", "Bob")
	s.fill("Message", "from the second roll")
	s.click("#send")
	s.until(`document.getElementById('said').textContent === 'Thank you! 2 files received.'`)
	is.Equal(b.Get("/api/v1/upload-requests/queue").Want(200).At("total"), 2.0)

	// The plain form, without JavaScript; that link asks for no captcha.
	id := b.Get("/api/v1/upload-requests").Text("data.0.id")
	s.do(emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(b.URL+"/up/wedding"))
	s.until(`document.querySelector('noscript')?.textContent.includes('JavaScript')`)
	b.Patch("/api/v1/upload-requests/"+id, map[string]any{"requiresCaptcha": false}).Want(200)
	at := filepath.Join(t.TempDir(), "third.png")
	is.NoErr(os.WriteFile(at, []byte("\x89PNG\r\n\x1a\n"), 0o600))
	s.do(
		chromedp.Navigate(b.URL+"/up/wedding"), chromedp.SetUploadFiles("#file", []string{at}, chromedp.ByQuery),
		chromedp.Submit("#up", chromedp.ByQuery),
	)
	s.until(`document.querySelector('.good')?.textContent.includes('third.png')`)

	// The owner sees that something waits, wherever the owner is.
	b.open("/notes")
	b.until(`document.querySelector('.rail .waits:not([hidden])')?.textContent.startsWith('3')`)
	b.press("Upload requests")
	b.until(`document.querySelectorAll('#main .queue .item').length === 3`)
	b.until(`document.querySelector('#main .queue').textContent.includes('from the second roll')`)
	b.press("Preview first.txt")
	b.until(`document.querySelector('dialog[open] pre')?.textContent === 'hello <b>owner</b>'`)
	b.click(`dialog[open] [data-act="look-approve"]`)
	b.says("1 file approved")
	b.until(`document.querySelectorAll('#main .queue .item').length === 2`)
	b.press("Reject second.txt")
	b.shows("Reject second.txt?")
	is.Equal(b.Get("/api/v1/upload-requests/queue").At("total"), 2.0) // nothing happens before the answer
	b.click("dialog .danger")
	b.says("1 file rejected")
	b.until(`document.querySelector('.rail .waits').textContent.startsWith('1')`)
	b.until(`document.querySelectorAll('#main .queue .item').length === 1`)
	// what decides can be seen on a telephone, and covers nothing
	b.do(emulation.SetDeviceMetricsOverride(320, 640, 1, true))
	is.Equal(
		b.js(`[...document.querySelectorAll('.decide button')].every((x) => parseFloat(getComputedStyle(x).fontSize) > 12) && getComputedStyle(document.querySelector('.decide')).position`),
		"static",
	)
	is.Equal(b.js(`getComputedStyle(document.querySelector('.queue .pick input')).opacity`), "1")
	is.Equal(b.js(`document.documentElement.scrollWidth <= 320`), true)
	b.do(emulation.ClearDeviceMetricsOverride())
	b.press("Select all")
	b.press("Approve 1")
	b.until(`document.querySelector('.rail .waits').hidden`)
	files := b.Get("/api/v1/files").Want(200)
	is.Equal(files.At("total"), 2.0)
	is.Equal(files.At("data.0.isPublic"), false)
	is.Equal(files.At("data.1.folder.name"), "Wedding")
	b.press("Photos of the wedding")
	b.until(`document.querySelectorAll('#main ul[aria-label=Reviewed] .item').length === 3`)

	// A link that is switched off, and one that is full.
	b.Patch("/api/v1/upload-requests/"+id, map[string]any{"isActive": false}).Want(200)
	s.do(emulation.SetScriptExecutionDisabled(false), chromedp.Navigate(b.URL+"/up/wedding"))
	s.until(`document.body.textContent.includes('no such upload link')`)
	b.Patch("/api/v1/upload-requests/"+id, map[string]any{"isActive": true, "maxUploads": 4, "maxFileSize": 5}).Want(200)
	s.do(chromedp.Navigate(b.URL + "/up/wedding"))
	s.drop("big.txt", "too large for it", "a.txt", "1", "b.txt", "2")
	s.click("#send")
	s.until(`document.getElementById('list').textContent.includes('Too large') && document.getElementById('list').textContent.includes('file limit')`)
	s.click(`[aria-label="Remove b.txt"]`)
	s.until(`document.querySelectorAll('#list li').length === 2`)
	is.Equal(context.Cause(s.ctx), nil)
}

// TestBrowserSenderPage: a guest sees small versions of the pictures, sends them with one bar, sees what was sent, takes a
// file back and sends more. A name that the link needs is asked for.
func TestBrowserSenderPage(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	album := b.Collect("album", "")
	id, _ := b.App.Ask(map[string]any{"collectionId": album, "requiresName": true, "maxUploads": 2, "brandColor": "#aa0000"})
	s := profile(b.App)
	s.do(emulation.SetDeviceMetricsOverride(375, 740, 1, true), chromedp.Navigate(b.URL+"/v/album"))
	s.press("Add yours")
	s.until(`document.querySelector('form.live')`)
	is.Equal(s.js(`document.documentElement.scrollWidth <= 375`), true)
	is.Equal(s.js(`document.getElementById('drop').getBoundingClientRect().height >= 190`), true)
	path := filepath.Join(t.TempDir(), "a.jpg")
	is.NoErr(os.WriteFile(path, []byte(apitest.JpegOf(300, 200, color.White)), 0o600))
	s.do(chromedp.SetUploadFiles("#file", []string{path}, chromedp.ByQuery))
	s.drop("b.txt", "bb")
	s.until(`document.querySelector('#list canvas:not([hidden])')?.getContext('2d').getImageData(48, 48, 1, 1).data[3] === 255`)
	s.click("#send")
	is.Equal(s.js(`document.querySelector('#name:invalid') !== null && !document.querySelector('#list progress:not([hidden])')`), true)
	s.fill("Your name", "Bob")
	s.click("#send")
	s.until(`document.getElementById('said').textContent === 'Thank you! 2 files received.'`)
	is.Equal(s.js(`document.getElementById('up').hidden && document.activeElement.id`), "look") // no more is taken
	is.Equal(s.js(`document.getElementById('more').hidden`), true)
	s.press("See what I sent")
	s.until(`document.querySelectorAll('#sent li').length === 2`)
	s.press("Take back b.txt")
	s.until(`document.getElementById('sent').textContent.includes('Taken back')`)
	is.Equal(b.Get("/api/v1/upload-requests/"+id).At("data.uploadsCount"), 1.0)
	is.Equal(s.js(`document.getElementById('left').textContent`), "You can send 1 more file.")
	s.press("Send more")
	is.Equal(s.js(`document.querySelectorAll('#list li').length + ' ' + document.activeElement.id`), "0 file")

	// After the page was closed.
	s.do(chromedp.Reload())
	s.until(`document.querySelector('form.live')`)
	s.press("See what I sent")
	s.until(`document.querySelector('#sent li b')?.textContent === 'a.jpg'`)
	is.Equal(s.js(`document.querySelectorAll('#sent li').length`), 1.0)
	is.Equal(context.Cause(s.ctx), nil)
}

// TestBrowserChosenEarly: a file that was chosen before the script of the page
// was there is sent like any other.
func TestBrowserChosenEarly(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	_, slug := b.App.Ask(nil)
	s := profile(b.App)
	s.do(chromedp.Navigate(b.URL + "/up/" + slug))
	// without an event
	s.js(`(() => { const early = new DataTransfer(); early.items.add(new File(['salt'], 'early.txt')); document.getElementById('file').files = early.files; })()`)
	s.click("#send")
	s.until(`document.getElementById('said').textContent === 'Thank you! 1 file received.'`)
	is.Equal(b.Get("/api/v1/upload-requests/queue").At("total"), 1.0)
}

// TestBrowserSending sends what is large in pieces: it is paused, the page is
// closed and the connection breaks on the way; each time it goes on.
func TestBrowserSending(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t, func(c *web.Config) { c.MaxUpload = 64 << 20 })
	id, slug := b.App.Ask(map[string]any{"maxUploads": 1, "requiresCaptcha": true, "password": "sesame"})
	path := filepath.Join(t.TempDir(), "film.bin")
	content := strings.Repeat("0123456789", 1<<20)
	is.NoErr(os.WriteFile(path, []byte(content), 0o600))
	s := profile(b.App)
	s.do(chromedp.Navigate(b.URL + "/up/" + slug))
	s.fill("Password", "sesame")
	s.do(chromedp.Submit("form", chromedp.ByQuery))
	begin := func() {
		// the script has begun
		s.until(`document.getElementById('hint')?.hidden === false && document.readyState === 'complete'`)
		s.slow(4 << 20)
		s.do(chromedp.SetUploadFiles("#file", []string{path}, chromedp.ByQuery))
		s.click("#send")
	}
	moved := `document.querySelector('#list progress')?.value > 0.1`
	begin()
	s.until(moved)
	s.press("Pause film.bin")
	s.until(`document.getElementById('list').textContent.includes('Paused at')`)
	s.until(`document.getElementById('said').textContent.startsWith('Paused.')`)
	is.Equal(b.Get("/api/v1/tus").At("total"), 0.0) // it is not the owner's
	s.press("Resume film.bin")
	s.until(moved)
	s.js(`BeforeUnloadEvent.prototype.preventDefault = () => {}`) // it asks whether to leave
	s.do(chromedp.Reload())
	begin()
	s.until(moved)
	s.offline()
	s.until(`document.getElementById('list').textContent.includes('retrying in')`)
	s.slow(-1)
	s.until(`document.getElementById('said').textContent === 'Thank you! 1 file received.'`)
	is.Equal(s.js(`Object.keys(localStorage).filter((k) => k !== 'kist.offline' && !k.startsWith('kist.sent.')).length`), 0.0)
	is.Equal(s.js(`document.getElementById('left').textContent`), "You can send no more files.")
	queue := b.Get("/api/v1/upload-requests/" + id + "/queue").Want(200)
	is.Equal(queue.At("total"), 1.0)
	is.Equal(queue.At("items.0.fileName"), "film.bin")
	got := b.Get("/api/v1/upload-requests/" + id + "/queue/" + queue.Text("items.0.itemId") + "/content").Want(200)
	is.True(string(got.Body) == content)
	is.Equal(strings.Count(b.Logged.String(), `"op":"beginSending"`), 1)

	// What is cancelled leaves nothing on the server, and its place is free.
	b.Patch("/api/v1/upload-requests/"+id, map[string]any{"maxUploads": 2}).Want(200)
	s.do(chromedp.Reload())
	begin()
	s.until(moved)
	s.press("Cancel film.bin")
	for deadline := time.Now().Add(patience); b.Parts() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("bytes are left")
		}
	}
	b.Leave(
		slug, http.Header{"X-Upload-Password": {"sesame"}, "X-Captcha-Token": {b.Solve()}}, nil, apitest.File("a", "", "x"),
	).Want(201)
}

// widgets are what the providers' scripts do, as far as a page sees it: they
// take an element to draw in, as both do, show their frame in it, and
// call back once the visitor has clicked.
var widgets = map[people.CaptchaProvider]struct{ script, frame, code string }{
	people.CaptchaTurnstile: {
		"https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit", "https://challenges.cloudflare.com/frame",
		"turnstile",
	},
	people.CaptchaHCaptcha: {
		"https://js.hcaptcha.com/1/api.js?render=explicit", "https://newassets.hcaptcha.com/frame", "hcaptcha",
	},
}

const widgetScript = `window.%[1]s = {
	render(at, o) {
		if (!(at instanceof Element)) throw new Error('no place');
		const f = document.createElement('iframe');
		f.src = '%[2]s';
		f.width = o.size === 'compact' ? 156 : 300;
		at.append(f);
		window.solve = () => o.callback('token-of-' + o.sitekey + (window.solved = (window.solved ?? 0) + 1));
		window.expire = () => o['expired-callback']();
		window.asked = o;
		return 7;
	},
	reset(id) { window.again = id; },
};`

// TestBrowserCaptchaWidgets: the page of a link lets in the script and the
// frame of the provider that is set, and nothing else; what they give is
// verified, once for many files.
func TestBrowserCaptchaWidgets(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	var tokens sync.Map
	verifier := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, twice := tokens.LoadOrStore(r.FormValue("response"), true)
		fmt.Fprintf(
			w, `{"success":%t}`,
			!twice && r.FormValue("secret") == "hush" && strings.HasPrefix(r.FormValue("response"), "token-of-site"),
		)
	}))
	defer verifier.Close()
	_, slug := b.App.Ask(map[string]any{"requiresCaptcha": true})
	for provider, w := range widgets {
		b.Patch(
			"/api/v1/admin/settings",
			map[string]any{
				"captchaProvider": provider, "captchaSiteKey": "site" + w.code, "captchaSecret": "hush",
				"captchaVerifyUrl": verifier.URL,
			},
		).Want(200)
		s := profile(b.App)
		var broken atomic.Bool
		var mu sync.Mutex
		var fetched []string
		chromedp.ListenTarget(s.ctx, func(event any) {
			e, ok := event.(*fetch.EventRequestPaused)
			if !ok {
				return
			}
			mu.Lock()
			fetched = append(fetched, e.Request.URL)
			mu.Unlock()
			body, media := "<p>widget</p>", "text/html"
			if e.Request.URL == w.script {
				body, media = fmt.Sprintf(widgetScript, w.code, w.frame), "text/javascript"
			}
			answer := chromedp.Action(fetch.FulfillRequest(e.RequestID, 200).WithResponseHeaders([]*fetch.HeaderEntry{{Name: "Content-Type", Value: media}}).WithBody(base64.StdEncoding.EncodeToString([]byte(body))))
			if broken.Load() {
				answer = fetch.FailRequest(e.RequestID, cdpnet.ErrorReasonFailed)
			}
			go func() { _ = chromedp.Run(s.ctx, answer) }() // the page shows it
		})
		s.do(
			fetch.Enable().WithPatterns([]*fetch.RequestPattern{{URLPattern: "https://*"}}),
			emulation.SetDeviceMetricsOverride(320, 640, 1, true),
		)

		// A script that does not come is told, and asked for again.
		broken.Store(true)
		s.do(chromedp.Navigate(b.URL + "/up/" + slug))
		// nobody is asked for nothing
		is.Equal(s.js(`document.querySelectorAll('script[src*="//"]:not([src*="/static/"]), iframe').length`), 0.0)
		s.drop("a.txt", "1")
		s.until(`document.getElementById('work').textContent.includes('could not be loaded')`)
		s.click("#send")
		s.until(`document.querySelector('#list .bad')?.textContent.includes('could not be loaded')`)
		broken.Store(false)
		s.press("Retry a.txt")
		s.until(`window.asked && document.querySelector('#widget iframe')`)
		is.Equal(s.js(`document.documentElement.scrollWidth <= 320`), true)
		s.until(`document.getElementById('work').textContent === 'Please solve the captcha.'`)
		s.js(`solve()`)
		s.until(`document.getElementById('said').textContent === 'Thank you! 1 file received.'`)
		s.until(`window.again === 7`) // because a token is valid once

		// What comes next has the pass of the first.
		s.drop("b.txt", "2", "c.txt", "3")
		s.click("#send")
		s.until(`document.getElementById('said').textContent === 'Thank you! 3 files received.'`)
		is.Equal(s.js(`window.solved`), 1.0)

		// A token that has expired is not sent.
		s.do(chromedp.Navigate(b.URL + "/up/" + slug))
		s.drop("d.txt", "4")
		s.until(`window.asked`)
		s.js(`(solve(), expire())`)
		s.click("#send")
		s.until(`document.getElementById('work').textContent === 'Please solve the captcha.'`)
		s.js(`solve()`)
		s.until(`document.getElementById('said').textContent === 'Thank you! 1 file received.'`)
		mu.Lock()
		for _, at := range fetched {
			is.True(at == w.script || at == w.frame) // nothing else is let in
		}
		mu.Unlock()
		tokens.Clear()
	}
	is.Equal(b.Get("/api/v1/upload-requests/queue").Want(200).At("total"), 8.0)

	// With the proof of work, and where no captcha is asked for, no one else is let in.
	b.Patch("/api/v1/admin/settings", map[string]any{"captchaProvider": "pow"}).Want(200)
	_, plain := b.App.Ask(nil)
	for _, at := range []string{slug, plain} {
		is.True(!strings.Contains(b.Visit("/up/"+at).Want(200).Header.Get("Content-Security-Policy"), "https:"))
	}
}
