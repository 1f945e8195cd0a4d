package httpapi_test

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/matryer/is"
)

// TestBrowserPoster: the browser sends a picture of a film that it uploads, and again when the server has lost it.
func TestBrowserPoster(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.do(emulation.SetFocusEmulationEnabled(true))
	b.open("/files")
	b.js(`(async () => {
		const canvas = document.createElement('canvas');
		canvas.width = 320; canvas.height = 180;
		const pen = canvas.getContext('2d');
		const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: 'video/webm' }), parts = [];
		recorder.ondataavailable = (e) => parts.push(e.data);
		const stopped = new Promise((done) => { recorder.onstop = done; });
		recorder.start();
		for (let i = 0; i < 10; i++) { pen.fillStyle = i % 2 ? '#c22' : '#d33'; pen.fillRect(0, 0, 320, 180); await new Promise((done) => setTimeout(done, 40)); }
		recorder.stop();
		await stopped;
		const data = new DataTransfer();
		data.items.add(new File(parts, 'film.webm', { type: 'video/webm' }));
		document.querySelector('main').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
	})()`)
	b.says("“film.webm” uploaded.")
	b.until(`document.querySelector('#main .item .pic img')?.naturalWidth === 128`)
	b.click(`#main .item a.name`)
	b.until(`document.querySelector('.viewer video')?.poster && document.querySelector('.viewer video').readyState >= 2`)
	is.True(b.Sound())
}
