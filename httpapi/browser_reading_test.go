package httpapi_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// TestBrowserReads opens items to read them. The editor is one key away and leads back.
func TestBrowserReads(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.Post(
		"/api/v1/notes", map[string]any{"title": "Harbour", "content": "Boats arrive **daily**.", "tags": []string{"sea"}},
	).Want(201)
	b.open("/notes")
	b.click("#main a.name") // one action
	b.until(`document.querySelector('dialog.reader .prose strong')?.textContent === 'daily'`)
	is.Equal(b.js(`document.querySelector('dialog.reader textarea')`), nil)
	b.until(`document.activeElement.textContent === 'Harbour'`)
	is.True(strings.Contains(b.js(`document.querySelector('.reader .meta').innerText`).(string), "private"))

	b.keys("f")
	b.until(`document.querySelector('.reader .star').getAttribute('aria-pressed') === 'true'`)
	is.Equal(one(b.App, "notes", "isFavorite"), true)
	b.keys("e")
	b.until(`document.querySelector('dialog.panel:not(.reader) [name=content]')`)
	b.fill("Text", "Boats arrive *rarely*.")
	b.press("Preview")
	b.until(`document.querySelector('dialog .rendered:not([hidden]) em')?.textContent === 'rarely'`)
	b.press("Write")
	b.press("Save")
	b.until(`document.querySelector('dialog.reader .prose em')?.textContent === 'rarely'`)
	b.keys(kb.Escape)
	b.until(`!document.querySelector('dialog') && location.pathname === '/notes'`)

	// A note that begins with its title as a heading shows it once on a screen. Its prints keep the heading.
	b.Post("/api/v1/notes", map[string]any{"content": "# Walls *and* paths\n\nRoses"}).Want(201)
	b.Post("/api/v1/notes", map[string]any{"content": "# Garden & plan\n\nBeds"}).Want(201)
	headings := func(text string) any {
		b.open("/notes/" + one(b.App, "notes?q="+text, "slug").(string))
		b.until(`document.querySelector('dialog.reader .prose')?.textContent.includes(` + quoted(text) + `)`)
		return b.js(`[...document.querySelectorAll('dialog.reader .prose > :is(h1, h2, h3)')].filter((e) => e.getClientRects().length).length`)
	}
	is.Equal(headings("Beds"), 0.0)
	is.Equal(headings("Roses"), 1.0)
	b.do(emulation.SetEmulatedMedia().WithMedia("print"))
	is.Equal(headings("Beds"), 1.0)
	b.do(emulation.SetEmulatedMedia())
	b.open("/notes")

	// Ticks and amounts of a recipe, with a list, without one, and with one that begins as a list.
	for _, lines := range []string{
		"- 250 g flour\n- 1/2 l milk\n- 1-2 eggs\n- salt", "250 g flour  \n1/2 l milk  \n1-2 eggs  \nsalt",
		"- 250 g flour\n1/2 l milk\n1-2 eggs\nsalt",
	} {
		slug := b.Post(
			"/api/v1/recipes",
			map[string]any{"title": "Pancakes", "ingredients": lines, "instructions": "1. Whisk", "isPublic": true},
		).Want(201).Text("data.slug")
		for _, at := range []string{"/recipes/" + slug, "/v/" + slug} {
			b.open(at)
			b.until(`document.querySelectorAll('.field-ingredients .tick input').length === 4`)
			b.press("2×")
			is.Equal(
				b.js(`[...document.querySelectorAll('.tick')].map((li) => li.innerText.trim()).join(', ')`),
				"500 g flour, 1 l milk, 2-4 eggs, salt",
			)
			b.press("1×")
			is.Equal(
				b.js(`[...document.querySelectorAll('.tick')].map((li) => li.innerText.trim()).join(', ')`),
				"250 g flour, 1/2 l milk, 1-2 eggs, salt",
			)
		}
	}
}

// TestBrowserTaken: pictures stand by the day they were taken, which the viewer tells.
func TestBrowserTaken(t *testing.T) {
	b := openBrowser(t)
	for i, taken := range []string{"2019-05-06T12:00:00Z", ""} {
		id := b.Upload(nil, apitest.File("a.jpg", "image/jpeg", apitest.JpegOf(300, 200+i, color.White))).Want(201).Text("id")
		if taken != "" {
			b.Patch("/api/v1/files/"+id, map[string]string{"takenAt": taken}).Want(200)
		}
	}
	b.open("/files")
	b.js(`(() => {
		const types = document.querySelector('[data-param="type"]');
		types.value = 'image';
		types.dispatchEvent(new Event('change', { bubbles: true }));
	})()`)
	b.until(`[...document.querySelectorAll('.grid .date h2')].map((e) => e.textContent).join() === 'Today,May 2019'`)
	for _, width := range []int64{1280, 390} { // one that is alone below its day is not as wide as the page
		b.do(emulation.SetDeviceMetricsOverride(width, 800, 1, false))
		b.until(`[...document.querySelectorAll('.grid .item')]
			.every((e) => e.offsetWidth && e.offsetWidth < e.parentElement.offsetWidth / 2)`)
	}
	b.do(emulation.ClearDeviceMetricsOverride())
	b.click(".grid .item:last-child .see")
	b.until(`document.querySelector('.viewer h2')?.textContent === 'a.jpg'`)
	b.keys("i")
	b.until(`document.querySelector('.viewer aside').innerText.includes('May 6, 2019')`)
	b.press("Close")

	// What is uploaded here takes its place.
	b.js(`(() => {
		const data = new DataTransfer();
		const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=';
		data.items.add(new File([Uint8Array.fromBase64(png)], 'new.png'));
		document.querySelector('main').dispatchEvent(
			new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
	})()`)
	b.until(`document.querySelector('.grid .item .name')?.textContent === 'new.png'`)
}

// TestBrowserZoom: the wheel, a double click and two fingers make a picture larger, and it follows the finger that goes
// to the next one.
func TestBrowserZoom(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for i, name := range []string{"a.jpg", "b.jpg"} {
		b.Upload(nil, apitest.File(name, "image/jpeg", apitest.JpegOf(300, 200+i, color.White))).Want(201)
	}
	b.open("/files?type=image")
	b.click(".grid .media .see")
	titled := func(name string) {
		b.Helper()
		b.until(`document.querySelector('.viewer h2')?.textContent === ` + quoted(name))
	}
	titled("b.jpg")
	b.until(`performance.getEntriesByType('resource').some((r) => r.name.includes('/static/zoom.'))`)
	picture := func(does string) {
		b.Helper()
		b.js(`(() => { const e = document.querySelector('.stage img'); ` + does + ` })()`)
	}
	pointer := func(kind string, id, x, y int) {
		b.Helper()
		picture(fmt.Sprintf(`e.dispatchEvent(new PointerEvent('pointer%s', {
			pointerId: %d, isPrimary: %d === 1, pointerType: 'touch', clientX: %d, clientY: %d, bubbles: true,
		}));`, kind, id, id, x, y))
	}
	transform := func() any { b.Helper(); return b.js(`document.querySelector('.stage img').style.transform`) }
	scaled := `document.querySelector('.stage img').style.transform.includes('scale(2')`

	b.until(`(() => { // it hears the wheel as soon as the module runs
		document.querySelector('.stage img').dispatchEvent(new WheelEvent('wheel', { deltaY: -400, clientX: 300, clientY: 300, bubbles: true, cancelable: true }));
		return document.querySelector('.stage img').style.transform !== '';
	})()`)
	picture(`e.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }));`)
	is.Equal(transform(), "")
	picture(`e.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }));`)
	is.Equal(b.js(scaled), true)
	picture(`e.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }));`)
	pointer("down", 1, 300, 300)
	pointer("down", 2, 400, 300)
	pointer("move", 2, 500, 300)
	is.Equal(b.js(scaled), true)
	pointer("up", 2, 500, 300)
	pointer("move", 1, 200, 300)
	pointer("up", 1, 200, 300)
	titled("b.jpg") // it was moved, and is no other picture
	picture(`e.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }));`)
	is.Equal(transform(), "")

	pointer("down", 1, 300, 300)
	pointer("move", 1, 280, 300)
	is.Equal(transform(), "translate(-20px, 0px) scale(1)")
	pointer("up", 1, 280, 300) // not far enough
	is.Equal(transform(), "")
	titled("b.jpg")
	pointer("down", 1, 300, 300)
	pointer("move", 1, 100, 310)
	pointer("up", 1, 100, 310)
	titled("a.jpg")
	is.Equal(transform(), "")
	pointer("down", 1, 300, 300)
	pointer("move", 1, 300, 500)
	pointer("up", 1, 300, 500)
	b.until(`!document.querySelector('dialog')`)
}

// TestBrowserLooks counts what it takes to look at pictures: one action to open one, one to see the next.
func TestBrowserLooks(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for i, name := range []string{"a.jpg", "b.jpg", "c.jpg"} {
		b.Upload(
			nil, apitest.File(name, "image/jpeg", apitest.JpegOf(300, 200+i*50, color.RGBA{uint8(80 * i), 90, 120, 255})),
		).Want(201)
	}
	b.Upload(nil, apitest.File("text.txt", "text/plain", "not a picture")).Want(201)
	b.open("/files?type=image")
	b.until(`document.querySelectorAll('.grid .media').length === 3`)
	is.Equal(b.js(`document.querySelector('.date h2').textContent`), "Today")
	b.until(`[...document.querySelectorAll('.grid .media')].every((row) => row.style.getPropertyValue('--shape'))`)
	is.Equal(b.js(`document.querySelector('.grid .media').style.getPropertyValue('--shape')`), "1.000") // c.jpg

	b.click(".grid .media .see")
	title := func(name string) {
		b.Helper()
		b.until(`document.querySelector('.viewer h2')?.textContent === ` + quoted(name))
	}
	title("c.jpg")
	is.Equal(b.js(`document.querySelectorAll('.pick input:checked').length`), 0.0)
	is.Equal(b.js(`document.querySelector('.viewer .count').textContent`), "1 of 3")
	b.keys(kb.ArrowRight)
	title("b.jpg")
	b.until(`document.querySelector('.stage img').complete && document.querySelector('.stage img').naturalHeight === 250`)
	is.Equal(
		b.js(`location.pathname === new URL([...document.querySelectorAll('a.name')].find((a) => a.textContent === 'b.jpg').href).pathname`),
		true,
	)
	b.keys("i")
	b.until(`document.querySelector('.viewer aside').innerText.includes('image/jpeg')`)
	b.keys(kb.Delete)
	title("a.jpg")
	is.Equal(b.js(`document.querySelector('.viewer .count').textContent`), "2 of 2")
	b.press("Undo")
	b.keys(kb.Escape)
	b.until(`!document.querySelector('dialog') && location.pathname === '/files'`)
	b.until(`document.activeElement.textContent === 'a.jpg'`) // the tile of the last picture
	b.until(`document.querySelectorAll('.grid .media').length === 3`)

	b.keys(kb.ArrowUp, kb.ArrowLeft) // in a grid, arrows move in both directions
	b.until(`document.activeElement.matches('a.name') && document.activeElement.textContent !== 'a.jpg'`)

	// A phone offers the download in the viewer and in the menu of a row.
	b.do(emulation.SetDeviceMetricsOverride(360, 740, 1, true))
	b.open("/files?type=text")
	b.click("#main .item [data-act=row-menu]")
	b.until(`document.querySelector('#main .pop a[download="text.txt"]')?.getClientRects().length > 0`)
	b.open("/files/" + one(b.App, "files?type=image", "slug").(string))
	b.until(`document.querySelector('.viewer .tools a[download]')?.getClientRects().length > 0`)
	is.Equal(
		b.js(`[...document.querySelectorAll('.viewer .tools > *')].every((e) => e.getBoundingClientRect().right <= 360) && document.querySelector('.viewer .count').getBoundingClientRect().right <= document.querySelector('.viewer .tools').getBoundingClientRect().left`),
		true,
	)
	b.do(emulation.ClearDeviceMetricsOverride())
	b.open("/files?type=image")

	// On a page of files without a picture beside it, the viewer has one picture.
	b.open(b.js(`new URL([...document.querySelectorAll('a.name')].find((a) => a.textContent === 'b.jpg').href).pathname + '?type=text'`).(string))
	title("b.jpg")
	is.Equal(b.js(`document.querySelector('.viewer .count').textContent`), "1 of 1")
}

// TestBrowserTasks counts what frequent tasks take, each from the home page: clicks and keys.
func TestBrowserTasks(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for i, name := range []string{"a.jpg", "b.jpg"} {
		b.Upload(
			nil, apitest.File(name, "image/jpeg", apitest.JpegOf(60, 40, color.RGBA{uint8(80 * i), 90, 120, 255})),
		).Want(201)
	}
	b.Post("/api/v1/notes", map[string]any{"title": "Gone", "content": "x", "slug": "gone"}).Want(201)
	b.Delete("/api/v1/notes/gone").Want(200)
	b.App.Clock.Advance(time.Hour)
	b.signIn() // the backup needs a recent one
	slug := b.Post(
		"/api/v1/notes",
		map[string]any{"title": "Harbour", "content": "Boats arrive **daily**.", "isPublic": true, "logVisits": true},
	).Want(201).Text("data.slug")
	b.Guest().See("GET", "/v/"+slug, "Referer", "https://example.org/x").Want(200)
	is.NoErr(b.Server.Store.Flush())
	saved := make(chan struct{}, 9)
	chromedp.ListenTarget(b.ctx, func(event any) {
		if e, ok := event.(*cdpnet.EventRequestWillBeSent); ok && strings.HasSuffix(e.Request.URL, "/api/v1/admin/backup") {
			saved <- struct{}{}
		}
	})
	for _, task := range []struct {
		name string
		most int
		do   func()
	}{
		{"open a photo and go to the next", 2, func() {
			b.click("#main .strip .item a")
			b.until(`document.querySelector('.viewer h2')?.textContent === 'b.jpg'`)
			b.keys(kb.ArrowRight)
			b.until(`document.querySelector('.viewer h2')?.textContent === 'a.jpg'`)
		}},
		{"read a note", 1, func() {
			b.click(`#main a.name[href$="` + slug + `"]`)
			b.until(`document.querySelector('dialog.reader .prose strong')?.textContent === 'daily'`)
		}},
		{"who opened it, and when", 2, func() {
			b.press("Share Harbour")
			b.until(`document.querySelector('dialog.sharing')`)
			b.click("dialog .visits summary")
			b.until(`document.querySelector('dialog .log time') && document.querySelector('dialog .log').innerText.includes('example.org')`)
		}},
		{"undo a deletion after an hour", 3, func() {
			b.click(`.rail a[href$="/trash"]`)
			b.press("Restore Gone")
			b.until(`document.querySelector('#main .none')`)
			b.Get("/api/v1/notes/gone").Want(200)
		}},
		{"download a backup", 3, func() {
			b.click(`.rail [data-nav=settings]`)
			b.click(`.sections a[href$="/admin"]`)
			b.click("#backup a[download]")
			<-saved
		}},
	} {
		b.open("/")
		b.acts = 0
		task.do()
		if b.acts > task.most {
			t.Errorf("%s takes %d actions, not %d", task.name, b.acts, task.most)
		}
	}
}

// TestBrowserActivity shows in the account what happened in it.
func TestBrowserActivity(t *testing.T) {
	b := openBrowser(t)
	b.Post("/api/v1/notes", map[string]any{"title": "Harbour", "content": "x", "isPublic": true}).Want(201)
	b.open("/account")
	b.block("*/api/v1/activity?*")
	b.click(".activity summary")
	b.until(`document.querySelector('.activity [role=alert]')?.textContent.startsWith('The activity could not be loaded.')`)
	b.block()
	b.press("Try again")
	b.until(`[...document.querySelectorAll('.activity .name')].some((e) => e.textContent === 'Shared')`)
	b.until(`document.querySelector('.activity .date').textContent === 'Today'`)
	b.click(".activity a")
	b.until(`document.querySelector('dialog.reader h2')?.textContent === 'Harbour' && location.pathname.startsWith('/notes/')`)
}

// photoOf is a JPEG with as much detail as a photo.
func photoOf(w, h int, seed uint64) string {
	m, r := image.NewRGBA(image.Rect(0, 0, w, h)), rand.New(rand.NewPCG(seed, 0))
	for i := range w * h {
		wave := func(length float64) uint8 {
			return uint8(120 + 80*math.Sin(float64(i%w)/length+float64(seed))*math.Cos(float64(i/w)/length) + 24*r.Float64())
		}
		m.Set(i%w, i/w, color.RGBA{wave(9), wave(23), wave(41), 255})
	}
	var b bytes.Buffer
	_ = jpeg.Encode(&b, m, nil) // a buffer takes everything
	return b.String()
}

// TestBrowserHomeIsLight: the home page with as many tiles of collections as it shows, four pictures on each, takes less
// than 150 KiB, with all that the app loads when it has nothing else to do.
func TestBrowserHomeIsLight(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	var photos []string
	for i := range 16 {
		got := b.Upload(nil, apitest.File(fmt.Sprintf("photo-%d.jpg", i), "image/jpeg", photoOf(320, 240, uint64(i)))).Want(201)
		photos = append(photos, got.Text("id"))
	}
	for i := range 16 {
		b.Post(
			"/api/v1/notes",
			map[string]any{
				"title": fmt.Sprint("Note ", i), "content": strings.Repeat(fmt.Sprint("word", i*7919%1000, " "), 60),
				"tags": []string{fmt.Sprint("tag", i%9)},
			},
		).Want(201)
	}
	for i := range 7 {
		b.Collect(fmt.Sprint("place-", i), "", slices.Concat(photos[i:], photos[:i])...)
	}
	var total atomic.Int64
	chromedp.ListenTarget(b.ctx, func(event any) {
		if e, ok := event.(*cdpnet.EventLoadingFinished); ok {
			total.Add(int64(e.EncodedDataLength))
		}
	})
	b.do(cdpnet.SetCacheDisabled(true)) // as on the first visit
	b.open("/")
	b.js(`void document.querySelectorAll('#main img').forEach((img) => { img.loading = 'eager'; })`)
	b.until(`document.querySelectorAll('#main .item').length === 12 && document.querySelectorAll('.shelf img').length === 28 && [...document.querySelectorAll('#main img')].every((img) => img.naturalWidth > 0)`)
	b.until(`performance.getEntriesByType('resource').some((r) => r.name.includes('/static/forms.'))`)
	t.Logf("%d bytes", total.Load())
	is.True(total.Load() > 60<<10) // it is seen what is loaded
	is.True(total.Load() < 150<<10)
}

// TestBrowserOverview: the home page shows pictures and favourites above what is recent. An address that leads to nothing says
// so, and the focus stays with what was saved.
func TestBrowserOverview(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	for i := range 3 {
		b.Upload(
			nil,
			apitest.File(
				fmt.Sprintf("photo-%d.jpg", i), "image/jpeg", apitest.JpegOf(60, 40, color.RGBA{uint8(90 * i), 120, 200, 255}),
			),
		).Want(201)
	}
	b.Post("/api/v1/notes", map[string]any{"title": "Harbour", "content": "x", "isFavorite": true}).Want(201)
	b.open("/")
	b.until(`document.querySelectorAll('#main .strip .item').length === 3 && document.querySelectorAll('#main .list .item').length === 4`)
	is.Equal(b.js(`document.querySelector('.overview .chip').textContent`), "Harbour")
	b.click(`.strip .item:nth-child(2) a`)
	b.until(`document.querySelector('.viewer .count')?.textContent === '2 of 3'`)
	b.keys(kb.Delete)
	b.until(`document.querySelectorAll('#main .strip .item').length === 2 && document.querySelectorAll('#main .list .item').length === 3`)

	b.open("/notes/nothing")
	b.until(`document.querySelector('#main .none')?.textContent.startsWith('This note does not exist.')`)
	is.Equal(b.js(`location.pathname`), "/notes/nothing")
	b.press("Notes")
	b.until(`location.pathname === '/notes' && document.querySelector('#main .item')`)
	b.js(`(() => { const a = document.querySelector('#main .item a.name'); a.focus(); a.click(); })()`)
	b.until(`document.querySelector('dialog.reader')`)
	b.keys("e")
	b.fill("Title", "Port")
	b.press("Save")
	b.until(`document.querySelector('dialog.reader h2')?.textContent === 'Port'`)
	b.keys(kb.Escape)
	b.until(`!document.querySelector('dialog') && document.activeElement.matches('a.name') && document.activeElement.textContent === 'Port'`)
	is.True(b.Sound())
}
