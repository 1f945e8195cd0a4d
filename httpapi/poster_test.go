package httpapi

import (
	"bytes"
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/matryer/is"
)

// TestPosters: films have the picture that their owner sends as their thumbnail, and nothing else has one.
func TestPosters(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	film := file{"film.webm", "video/webm", "\x1aE\xdf\xa3 film"}
	slug := a.upload(map[string]string{"isPublic": "true"}, film).want(201).text("slug")
	at := "/api/v1/files/" + slug + "/poster"
	put := func(path, body string) *answer {
		return a.do(apiRequest{method: "PUT", path: path, raw: true, body: strings.NewReader(body), header: withHeader("Content-Type", "application/octet-stream")})
	}
	a.get("/t/" + slug).want(204)
	a.guest().see("GET", "/t/"+slug).want(404)
	is.True(!strings.Contains(string(a.guest().see("GET", "/v/"+slug, "Accept", "text/html").want(200).body), "poster="))

	for _, bad := range []string{"", "no picture", "\x89PNG\r\n\x1a\n", jpegOf(8, 8, color.Black)[:60]} {
		put(at, bad).want(415)
	}
	put(at, string(bytes.Repeat([]byte{0xff}, 513<<10))).want(413)
	put("/api/v1/files/nothing/poster", jpegOf(8, 8, color.Black)).want(404)
	other := a.upload(nil, file{"b.txt", "text/plain", "x"}).want(201).text("slug")
	put("/api/v1/files/"+other+"/poster", jpegOf(8, 8, color.Black)).want(422)

	put(at, jpegOf(960, 540, color.RGBA{200, 30, 30, 255})).want(200)
	width := func(got *answer) int {
		c, _, err := image.DecodeConfig(bytes.NewReader(got.want(200).body))
		is.NoErr(err)
		return c.Width
	}
	is.Equal(width(a.guest().see("GET", "/t/"+slug)), 480)
	is.Equal(width(a.get("/t/"+slug+"?size=row")), 128)
	is.Equal(width(a.get("/t/"+slug+"?size=small")), 256)
	page := string(a.guest().see("GET", "/v/"+slug, "Accept", "text/html").want(200).body)
	is.True(strings.Contains(page, `poster="/t/`+slug+`"`))
	is.True(strings.Contains(page, `/t/`+slug+`">`))
	is.True(strings.Contains(page, `<meta property="og:video" content="`+a.server.Base+`/x/`+slug+`">`))
	again := a.upload(nil, film).want(201).text("slug")
	a.get("/t/" + again).want(204) // the same content in another file
	is.True(a.sound())
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
	is.True(b.sound())
}
