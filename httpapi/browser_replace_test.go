package httpapi_test

import (
	"image/color"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// TestBrowserReplace: the owner puts another picture in the place of one, sees it in the list, and goes back.
func TestBrowserReplace(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	dir := t.TempDir()
	red, blue := apitest.JpegOf(60, 40, color.RGBA{200, 30, 30, 255}), apitest.JpegOf(40, 60, color.RGBA{30, 30, 200, 255})
	path := filepath.Join(dir, "blue.jpg")
	is.NoErr(os.WriteFile(path, []byte(blue), 0o600))
	slug := b.Upload(
		map[string]string{"isPublic": "true"}, apitest.File("red.jpg", "image/jpeg", red),
	).Want(201).Text("slug")
	wide := `(() => {
		const img = document.querySelector('#main .item img');
		return img?.complete && img.naturalWidth > 0 && img.naturalWidth > img.naturalHeight;
	})()`

	b.open("/files")
	b.until(wide)
	b.open("/files/" + slug + "?edit=1")
	b.press("Replace the file")
	b.shows("The present file is kept for 30 days")
	b.do(chromedp.SetUploadFiles("dialog input[type=file]", []string{path}, chromedp.NodeReady))
	b.says("File replaced")
	b.until(`document.querySelector('dialog.panel [name=originalName]').value === 'blue.jpg'`) // the editor goes on
	is.Equal(string(b.Visit("/x/"+slug).Want(200).Body), blue)
	b.until(`(() => {
		const img = document.querySelector('#main .item img');
		return img?.complete && img.naturalWidth < img.naturalHeight;
	})()`)

	b.press("Replace the file")
	b.shows("Earlier versions")
	b.press("Restore")
	b.says("Version restored")
	b.until(`document.querySelector('dialog.panel [name=originalName]').value === 'red.jpg'`)
	is.Equal(string(b.Visit("/x/"+slug).Want(200).Body), red)
}

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
