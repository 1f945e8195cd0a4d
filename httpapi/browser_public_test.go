package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/kvtest/needs"
)

// landscape is a photograph of a harbour, or near enough.
func landscape(t *testing.T) string {
	t.Helper()
	const w, h = 1600, 1067
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			fx, fy := float64(x)/w, float64(y)/h
			hills := 0.55 + 0.08*math.Sin(fx*9) + 0.04*math.Sin(fx*23)
			c := color.RGBA{uint8(150 + 90*fy), uint8(180 + 40*fy), uint8(225 - 60*fy), 255}
			switch {
			case fy > hills+0.2:
				c = color.RGBA{24, uint8(60 + 20*math.Sin(fy*200)), 74, 255}
			case fy > hills:
				c = color.RGBA{uint8(52 + 60*fx), 84, 92, 255}
			case math.Hypot(fx-0.7, (fy-0.3)*h/w) < 0.05:
				c = color.RGBA{250, 232, 180, 255}
			}
			m.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// tone is two seconds of sound (WAV).
func tone() string {
	samples := make([]byte, 16000)
	for i := range samples {
		samples[i] = byte(128 + 60*math.Sin(float64(i)/4))
	}
	n := len(samples)
	le := func(v, size int) string {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(v >> (8 * i))
		}
		return string(b)
	}
	return "RIFF" + le(36+n, 4) + "WAVEfmt " + le(16, 4) + le(1, 2) + le(1, 2) + le(8000, 4) + le(8000, 4) + le(1, 2) + le(8, 2) + "data" + le(n, 4) + string(samples)
}

const samplePDF = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n" +
	"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 " +
	"R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n" +
	"4 0 obj<</Length 44>>stream\nBT /F 24 Tf 40 100 Td (A contract) Tj ET    \nendstream endobj\ntrailer<</Root 1 0 " +
	"R>>\n%%EOF\n"

// publicPages makes one of everything that visitors see and returns the
// addresses by name.
func publicPages(a *apitest.App, t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{"about": "/about", "login": "/login", "missing": "/v/nothing", "nobody": "/g/nobody"}
	a.Patch("/api/v1/me", `{"displayName":"Ann Lindqvist"}`).Want(200)
	long := strings.Repeat("Donaudampfschifffahrtselektrizitätenhauptbetriebswerk", 3)
	for name, f := range map[string]apitest.Part{
		"image": apitest.File("Résumé of the harbour, winter light.jpg", "", landscape(t)),
		"svg":   apitest.File("plan.svg", "", apitest.SamplePicture),
		"video": apitest.File(
			"first-steps-in-the-garden.mp4", "", "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"+strings.Repeat("\x00", 4000),
		),
		"audio": apitest.File("Grandmother tells of the flood.wav", "", tone()),
		"pdf":   apitest.File("Contract.pdf", "", samplePDF),
		"text": apitest.File(
			"compose.yaml", "",
			strings.Repeat(
				"services:\n  kist: # the chest\n    image: \"kist:latest\"\n    environment:\n      KIST_BASE_URL: "+
					"https://kist.example.org/with/a/long/address/that/does/not/fit\n",
				20,
			),
		),
		"other": apitest.File("photos 2026.zip", "", "PK\x03\x04"+strings.Repeat("\x00\x01", 90000)),
		"long":  apitest.File(long+".bin", "", "\x00\x01\x02"),
	} {
		fields := map[string]string{
			"isPublic": "true", "slug": "the-" + name, "newTags": "photos,harbour",
			"description": "Seen from the pier on the first clear morning.\nThe tide was out.",
		}
		if name == "long" {
			fields["newTags"] = long[:60]
		}
		a.Upload(fields, f).Want(201)
		pages[name] = "/v/the-" + name
	}
	for name, body := range map[string]any{
		"note": map[string]any{
			"title": "Boiler reset, step by step",
			"content": apitest.SampleMarkdown + strings.Repeat(
				"\n\nMore of it, in a paragraph that is long enough to need several lines on any screen, be it as wide as it may.",
				12,
			),
			"tags": []string{"home", "winter"}, "sourceUrl": "https://example.org/boiler",
		},
		"rtl": map[string]any{
			"title": "רשימת קניות לשבת", "content": "חלה ויין, גם 2 ק״ג תפוחים.\n\n- מלח\n- קמח מלא\n\nAnd bread in English.",
		},
		"recipe": map[string]any{
			"title": "Pancakes", "description": "Thin ones, for four.",
			"ingredients": "- 2 eggs\n- 250 ml milk\n- 120 g flour\n- a pinch of salt\n- butter",
			"instructions": "1. Whisk eggs, milk, flour and salt. Let it rest for 20 minutes.\n2. Fry thinly in butter, a " +
				"minute on each side.\n3. Eat at once.",
		},
		"snippet": map[string]any{"title": "retry with back-off", "language": "go", "content": apitest.SampleGo},
		"bookmark": map[string]any{
			"title": "The Go memory model", "url": "https://go.dev/ref/mem",
			"description": "What one goroutine sees of another.",
		},
		"game": map[string]any{
			"title": "Outer Wilds", "platform": "Steam Deck", "status": "playing", "rating": 9, "playtime": 1265,
			"notes": "No spoilers, please.", "storeUrl": "https://shop.example.org/outer-wilds",
		},
		"link": map[string]any{
			"originalUrl": "https://example.org/a/long/path?with=a&query=" + strings.Repeat("x", 180), "description": "Tickets",
		},
		"locked": map[string]any{"title": "Secret", "content": "x", "password": "open sesame"},
		"expired": map[string]any{
			"title": "Over", "content": "x", "expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		},
		"ends": map[string]any{
			"title": "Until Christmas", "content": "Few words.",
			"expiresAt": time.Now().Add(30 * 24 * time.Hour).UTC().Format(time.RFC3339),
		},
	} {
		path := map[string]string{
			"note": "notes", "rtl": "notes", "recipe": "recipes", "snippet": "snippets", "bookmark": "bookmarks",
			"game": "games", "link": "shorten",
		}[name]
		if path == "" {
			path = "notes"
		}
		m := body.(map[string]any)
		m["slug"], m["isPublic"] = "the-"+name, true
		a.Post("/api/v1/"+path, m).Want(201)
		pages[name] = "/v/the-" + name
	}
	for _, g := range []string{
		`{"title":"Chess","platform":"board","status":"playing","isPublic":true}`,
		`{"title":"Elden Ring","platform":"PC","status":"backlog","playtime":300,"isPublic":true}`,
		`{"title":"` + long + `","isPublic":true}`,
	} {
		a.Post("/api/v1/games", g).Want(201)
	}
	pages["games"] = "/g/ann"
	a.Clock.Advance(2 * time.Hour)
	return pages
}

// TestPublicIsLight: a page for visitors takes less than 15 KB on the wire with
// all that it loads, pictures aside.
func TestPublicIsLight(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	pages := publicPages(a, t)
	source, err := os.ReadFile("public/raw.go")
	is.NoErr(err)
	a.Upload(
		map[string]string{"isPublic": "true", "slug": "the-source"}, apitest.File("raw.go", "", string(source)),
	).Want(201)
	a.Upload(
		map[string]string{"isPublic": "true", "slug": "the-log"},
		apitest.File(
			"a.log", "",
			strings.Repeat("2026-11-20T10:00:00Z request method=GET path=/v/item status=200 bytes=4821 ms=1.25\n", 3000),
		),
	).Want(201)
	pages["source"], pages["log"] = "/v/the-source", "/v/the-log"
	gzipped := http.Header{"Accept-Encoding": {"gzip"}, "Accept": {"text/html"}}
	fetch := func(path string) *apitest.Answer {
		return a.Do(apitest.Request{Method: "GET", Path: path, Anyone: true, Header: gzipped, Raw: true})
	}
	for name, path := range pages {
		got := fetch(path)
		is.Equal(got.Header.Get("Content-Encoding"), "gzip") // of every page, with any status
		is.True(strings.Contains(got.Header.Get("Vary"), "Accept-Encoding"))
		r, err := gzip.NewReader(bytes.NewReader(got.Body))
		is.NoErr(err)
		page, err := io.ReadAll(r)
		is.NoErr(err)
		is.Equal(string(page[:15]), "<!doctype html>")
		total := len(got.Body)
		for _, file := range regexp.MustCompile(`/static/[a-z0-9.-]+\.(?:css|js|svg)`).FindAllString(string(page), -1) {
			total += len(fetch(file).Want(200).Body)
		}
		t.Logf("%s: %d bytes, %d of them the page", name, total, len(got.Body))
		is.True(total < 15_000)
	}
	is.Equal(a.Send("GET", "/about", "Accept-Encoding", "gzip;q=0, identity").Header.Get("Content-Encoding"), "")
	is.Equal(a.Visit("/about").Header.Get("Content-Encoding"), "")
}

// faults lists what is wrong with a page for who cannot see it or point well:
// it is wider than the window; what is pressed has no name or is too small;
// text does not stand out from its ground (WCAG 2.2, 1.4.3, 1.4.10, 2.5.5,
// 4.1.2). Links within text may be as low as the text. Code keeps its columns.
const faults = `(() => {
	const found = [];
	const page = document.documentElement;
	if (page.scrollWidth > innerWidth) found.push('as wide as ' + page.scrollWidth);
	const seen = (e) => e.getClientRects().length > 0;
	for (const e of document.querySelectorAll('a[href], button, input, summary, video, audio, iframe, img, pre[tabindex]')) {
		if (!seen(e) || e.closest('[aria-hidden=true]')) continue;
		const name = e.getAttribute('aria-label') || e.getAttribute('alt') || e.title || e.labels?.[0]?.textContent ||
			(e.getAttribute('aria-labelledby') && document.getElementById(e.getAttribute('aria-labelledby'))?.textContent) || e.textContent;
		if (!name.trim() && !e.closest('pre.code') && e.type !== 'hidden' && e.type !== 'checkbox') found.push('no name: ' + e.outerHTML.slice(0, 120));
		if (e.matches('button, .button, input:not([type=checkbox], [type=hidden]), summary, .brand, .games a') && e.getBoundingClientRect().height < 43.9) found.push('low: ' + e.outerHTML.slice(0, 120));
	}
	const parts = (c) => { const m = c.match(/[\d.]+/g).map(Number); return [...m.slice(0, 3), m[3] ?? 1]; };
	const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const ground = (e) => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (const said = new Set(); walk.nextNode();) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.data.trim() || !seen(e) || e.matches('.sr')) continue;
		const s = getComputedStyle(e);
		const [a, b] = [light(parts(s.color)), light(ground(e))].sort((a, b) => b - a);
		const ratio = (a + 0.05) / (b + 0.05);
		const large = parseFloat(s.fontSize) >= 24 || parseFloat(s.fontSize) >= 18.66 && s.fontWeight >= 700;
		if (ratio < (large ? 3 : 4.5) && !said.has(e.className)) { said.add(e.className); found.push('contrast ' + ratio.toFixed(2) + ': ' + walk.currentNode.data.trim().slice(0, 40)); }
	}
	if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
	if (document.querySelectorAll('main').length !== 1) found.push('not one main');
	for (const e of document.querySelectorAll('pre.code')) {
		const s = getComputedStyle(e);
		if (s.textAlign !== 'start' || s.letterSpacing !== 'normal' || s.fontWeight !== '400') found.push('code is set as something else');
	}
	if (!document.documentElement.lang) found.push('no language');
	return found.join('\n');
})()`

// TestBrowserPublic looks at every page for visitors as a telephone, a tablet
// and a desktop show it. With -gallery it takes pictures, by day and by night.
func TestBrowserPublic(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	pages := publicPages(b.App, t)
	b.do(cdpnet.ClearBrowserCookies())
	look := func(name string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{320, 768, 1440} {
				if *apitest.Gallery == "" && (scheme == "dark") != (width == 768) {
					continue
				}
				b.do(
					emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
						{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
					}),
					emulation.SetDeviceMetricsOverride(width, 900, 1, width < 500),
				)
				if found := b.js(faults); found != "" {
					t.Errorf("%s, %d, %s: %s", name, width, scheme, found)
				}
				if *apitest.Gallery != "" {
					var picture []byte
					b.do(chromedp.FullScreenshot(&picture, 100))
					is.NoErr(os.MkdirAll(*apitest.Gallery, 0o755))
					is.NoErr(os.WriteFile(
						filepath.Join(*apitest.Gallery, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o600,
					))
				}
			}
		}
	}
	for name, path := range pages {
		b.do(chromedp.Navigate(b.URL + path))
		look(name)
	}
	b.do(chromedp.Navigate(b.URL + pages["snippet"]))
	b.js(`document.querySelector('summary').click()`)
	look("details")
	b.do(chromedp.Navigate(b.URL + pages["locked"]))
	guess := func(wanted string) {
		t.Helper()
		b.js(`document.querySelector('[type=password]').value = 'wrong', document.querySelector('form').requestSubmit()`)
		b.until(`document.querySelector('[role=alert]')?.textContent.includes(` + quoted(wanted) + `) && document.querySelector('[type=password]')?.value === ''`)
	}
	guess("is wrong")
	look("wrong")
	for range limit.GuessesFrom {
		b.Guessed("127.0.0.1/32", b.Get("/api/v1/notes/the-locked").Want(200).Text("data.id"))
	}
	guess("Too many")
	look("toomany")
}

// TestBrowserFilePreview: the owner of a file sees what visitors see of it, also with a separate origin for content.
func TestBrowserFilePreview(t *testing.T) {
	for name, with := range map[string]func(*web.Config){
		"one address":    func(*web.Config) {},
		"another for it": func(c *web.Config) { c.Content = "http://content.test:0" },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			b := openBrowser(t, with)
			for slug, f := range map[string]apitest.Part{
				"sound": apitest.File("tone.wav", "", tone()), "film": apitest.File(
					"garden.mp4", "", "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"+strings.Repeat("\x00", 4000),
				),
				"text": apitest.File("a.yaml", "", "a: <b>1</b>\n"), "pdf": apitest.File("Contract.pdf", "", samplePDF), "zip": apitest.File(
					"a.zip", "", "PK\x03\x04"+strings.Repeat("\x00", 99),
				),
			} {
				b.Upload(map[string]string{"slug": slug}, f).Want(201)
			}
			b.open("/files/sound")
			b.until(`document.querySelector('dialog.reader .shown audio')?.duration === 2`)
			b.open("/files/film")
			b.until(`document.querySelector('dialog.viewer video[controls]')?.getAttribute('src').includes('/x/film')`)
			b.open("/files/text")
			b.until(`document.querySelector('dialog.reader .shown pre')?.textContent.includes('a: <b>1</b>')`)
			is.Equal(b.js(`document.querySelector('dialog.reader .shown pre b')`), nil)
			b.open("/files/pdf")
			b.until(`document.querySelector('dialog.reader .shown iframe')?.getAttribute('src').includes('/x/pdf')`)
			b.open("/files/zip")
			b.until(`document.querySelector('dialog.reader a[download]')`)
			is.True(b.Sound())
			is.Equal(b.Get("/api/v1/files/sound").At("data.views"), 0.0)
		})
	}
}
