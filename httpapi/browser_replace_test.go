package httpapi_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
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
	b.takesDrops()
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

// rawPhoto is the raw file of a camera: a TIFF that lies on its side, whose second directory has the preview.
func rawPhoto(preview string) string {
	const inner, at = 8 + 2 + 2*12 + 4, 8 + 2 + 2*12 + 4 + 2 + 2*12 + 4
	directory := func(entries ...[3]uint32) (b []byte) {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(entries)))
		for _, e := range entries {
			b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
			b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
			b = binary.LittleEndian.AppendUint32(b, 1)
			b = binary.LittleEndian.AppendUint32(b, e[2])
		}
		return append(b, 0, 0, 0, 0)
	}
	const short, long = 3, 4
	return "II*\x00\x08\x00\x00\x00" + string(directory([3]uint32{274, short, 6}, [3]uint32{330, long, inner})) +
		string(directory([3]uint32{513, long, at}, [3]uint32{514, long, uint32(len(preview))})) + preview
}

// TestBrowserPicturePoster: the browser sends small versions of a drawing and of the preview in a raw file, which the
// server does not decode. The viewer sends that of a drawing that came another way, and says what it cannot show.
func TestBrowserPicturePoster(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.do(emulation.SetFocusEmulationEnabled(true))
	drawing := `<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200"><circle cx="150" cy="100" r="80"/></svg>`
	raw := rawPhoto(apitest.JpegOf(600, 400, color.RGBA{200, 30, 30, 255}))
	api := b.Upload(nil, apitest.File("api.svg", "image/svg+xml", drawing)).Want(201).Text("slug")
	phone := b.Upload(nil, apitest.File("phone.heic", "image/heic", "\x00\x00\x00\x18ftypheic\x00\x00\x00\x00heicmif1")).
		Want(201).Text("slug")

	b.open("/files")
	b.takesDrops()
	b.js(`(() => {
		const data = new DataTransfer();
		data.items.add(new File([` + quoted(drawing) + `], 'drawing.svg'));
		data.items.add(new File([Uint8Array.fromBase64(` + quoted(base64.StdEncoding.EncodeToString([]byte(raw))) +
		`)], 'photo.nef'));
		document.querySelector('main').dispatchEvent(
			new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
	})()`)
	b.until(`[...document.querySelectorAll('#main .item')].filter((row) =>
		/drawing|photo/.test(row.textContent) && row.querySelector('.pic img')?.naturalWidth > 0).length === 2`)
	raws := b.Get("/api/v1/files?q=photo.nef").Want(200).Text("data.0.slug")
	c, _, err := image.DecodeConfig(bytes.NewReader(b.Get("/t/" + raws + "?size=screen").Want(200).Body))
	is.NoErr(err)
	is.Equal([]int{c.Width, c.Height}, []int{400, 600}) // it stands as it was taken

	look := func(name string) {
		b.Helper()
		row := `[...document.querySelectorAll('#main .item a.name')].find((a) => a.textContent === '` + name + `')`
		b.until(`!!` + row)
		b.js(row + `.click()`)
	}
	b.open("/files")
	look("api.svg")
	b.until(`document.querySelector('.stage img')?.naturalWidth === 300`)
	b.until(`fetch('/t/` + api + `').then((answer) => answer.status === 200)`)

	b.open("/files")
	look("phone.heic")
	b.until(`document.querySelector('.stage')?.textContent.includes('cannot show this picture')`)

	// A hostile raw file, whose directories name each other millions of times, does not stop the page.
	b.js(`(async () => {
		const { modules } = JSON.parse(document.getElementById('start').textContent);
		const { sendPoster } = await import(modules.poster);
		const inner = 0xf000, entries = 0xf000; // the end of an entry is the count of the next directory
		const data = new DataView(new ArrayBuffer(1 << 20)), head = 64;
		for (const [at, v] of [[0, 0x4d4d002a], [4, head]]) data.setUint32(at, v);
		data.setUint16(head, entries);
		for (let at = head + 2, n = 0; n < entries + 8; at += 12, n++) {
			[0x14a << 16 | 4, 8, inner].forEach((v, i) => data.setUint32(at + 4 * i, v));
		}
		for (let n = 0; n < 8; n++) data.setUint32(inner + 4 * n, head + 12 * n);
		await sendPoster({ slug: ` + quoted(phone) + `, mimeType: 'image/x-nikon-nef' }, new File([data], 'loop.nef'));
	})()`)
	is.True(b.Sound())
}
