package httpapi

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"
)

// drop drops files of the given names and texts onto the page.
func (b *tab) drop(files ...string) {
	b.Helper()
	var made strings.Builder
	for i := 0; i+1 < len(files); i += 2 {
		made.WriteString(`d.items.add(new File([` + quoted(files[i+1]) + `], ` + quoted(files[i]) + `));`)
	}
	b.js(`(() => { const d = new DataTransfer(); ` + made.String() + `
		for (const t of ['dragenter', 'dragover', 'drop']) document.body.dispatchEvent(new DragEvent(t, { dataTransfer: d, bubbles: true, cancelable: true }));
	})()`)
}

// TestBrowserRequests: an owner makes a link, strangers leave files at it, with
// and without JavaScript, and the owner decides about them.
func TestBrowserRequests(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.open("/upload-requests")
	b.press("New request")
	b.fill("What do you ask for?", "Photos of the wedding")
	b.fill("End of the link", "wedding")
	b.fill("Colour of the page", "#AA0000")
	b.fill("Folder for what comes in", "Wedding")
	b.js(`document.querySelector('dialog[open] [name=requiresCaptcha]').click()`)
	b.press("Make the link")
	b.until(`document.querySelector('dialog[open] input[aria-label=Link]')?.value.endsWith('/up/wedding')`)
	b.until(`document.querySelector('dialog[open] img.qr')?.naturalWidth > 0`)
	b.press("Close")

	// Dropped, with the proof of work that the link asks for.
	s := b.profile()
	s.do(emulation.SetDeviceMetricsOverride(320, 640, 1, true), chromedp.Navigate(b.url+"/up/wedding"))
	is.Equal(s.js(`document.documentElement.scrollWidth <= 320`), true)
	s.until(`getComputedStyle(document.getElementById('send')).backgroundColor === 'rgb(170, 0, 0)'`)
	is.Equal(s.js(`getComputedStyle(document.getElementById('send')).color`), "rgb(255, 255, 255)")
	s.drop("first.txt", "hello <b>owner</b>", "second.txt", "second")
	s.fill("Your name", "Bob")
	s.fill("Message", "from the second roll")
	s.do(chromedp.Click("#send", chromedp.ByQuery))
	s.until(`document.getElementById('said').textContent === 'Thank you. 2 files came in.'`)
	is.Equal(b.get("/api/v1/upload-requests/queue").want(200).at("total"), 2.0)

	// The plain form, without JavaScript; that link asks for no captcha.
	id := b.get("/api/v1/upload-requests").text("data.0.id")
	s.do(emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(b.url+"/up/wedding"))
	s.until(`document.querySelector('noscript')?.textContent.includes('JavaScript')`)
	b.patch("/api/v1/upload-requests/"+id, map[string]any{"requiresCaptcha": false}).want(200)
	at := filepath.Join(t.TempDir(), "third.png")
	is.NoErr(os.WriteFile(at, []byte("\x89PNG\r\n\x1a\n"), 0o600))
	s.do(chromedp.Navigate(b.url+"/up/wedding"), chromedp.SetUploadFiles("#file", []string{at}, chromedp.ByQuery), chromedp.Submit("#up", chromedp.ByQuery))
	s.until(`document.querySelector('.good')?.textContent.includes('third.png')`)

	// The owner sees that something waits, wherever the owner is.
	b.open("/notes")
	b.until(`document.querySelector('.rail .waits:not([hidden])')?.textContent.startsWith('3')`)
	b.press("Requests")
	b.until(`document.querySelectorAll('#main .queue .item').length === 3`)
	b.until(`document.querySelector('#main .queue').textContent.includes('from the second roll')`)
	b.press("Look at first.txt")
	b.until(`document.querySelector('dialog[open] pre')?.textContent === 'hello <b>owner</b>'`)
	b.do(chromedp.Click(`dialog[open] [data-act="look-approve"]`, chromedp.ByQuery))
	b.says("1 file approved")
	b.until(`document.querySelectorAll('#main .queue .item').length === 2`)
	b.press("Reject second.txt")
	b.says("1 file rejected")
	b.until(`document.querySelector('.rail .waits').textContent.startsWith('1')`)
	b.until(`document.querySelectorAll('#main .queue .item').length === 1`)
	b.press("Choose all")
	b.press("Approve 1")
	b.until(`document.querySelector('.rail .waits').hidden`)
	files := b.get("/api/v1/files").want(200)
	is.Equal(files.at("total"), 2.0)
	is.Equal(files.at("data.0.isPublic"), false)
	is.Equal(files.at("data.1.folder.name"), "Wedding")
	b.press("Photos of the wedding")
	b.until(`document.querySelectorAll('#main ul[aria-label=Decided] .item').length === 3`)

	// A link that is switched off, and one that is full.
	b.patch("/api/v1/upload-requests/"+id, map[string]any{"isActive": false}).want(200)
	s.do(emulation.SetScriptExecutionDisabled(false), chromedp.Navigate(b.url+"/up/wedding"))
	s.until(`document.body.textContent.includes('no such upload link')`)
	b.patch("/api/v1/upload-requests/"+id, map[string]any{"isActive": true, "maxUploads": 4, "maxFileSize": 5}).want(200)
	s.do(chromedp.Navigate(b.url + "/up/wedding"))
	s.drop("big.txt", "too large for it", "a.txt", "1", "b.txt", "2")
	s.do(chromedp.Click("#send", chromedp.ByQuery))
	s.until(`document.getElementById('list').textContent.includes('Too large') && document.getElementById('list').textContent.includes('as many files')`)
	s.do(chromedp.Click(`[aria-label="Remove b.txt"]`, chromedp.ByQuery))
	s.until(`document.querySelectorAll('#list li').length === 2`)
	is.Equal(context.Cause(s.ctx), nil)
}
