package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/embed"
)

// TestBrowserLanguage: the account chooses the language of the app, and a visitor's browser
// that of the pages.
func TestBrowserLanguage(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	slug := b.post("/api/v1/notes", map[string]any{"title": "Ausflug", "content": "Morgen", "isPublic": true, "expiresAt": "2199-03-05T12:00:00Z"}).want(201).text("data.slug")
	b.open("/account")
	is.Equal(b.js(`document.documentElement.lang + ' ' + document.documentElement.dir`), "en ltr")
	is.Equal(b.js(`document.querySelectorAll('#main form').length + ' ' + document.querySelectorAll('#main [type=password]').length`), "2 0") // the account has no password
	b.js(`(() => { const s = document.querySelector('[name=language]'); s.value = 'de'; s.form.requestSubmit(); })()`)
	b.until(`document.documentElement?.lang === 'de' && document.querySelector('#main h1')?.textContent === 'Konto'`)
	is.Equal(b.get("/api/v1/me").text("data.language"), "de")

	b.open("/")
	is.Equal(b.js(`document.title`), "Start · kist")
	is.Equal(b.js(`[...document.querySelectorAll('.rail a span')].slice(0, 4).map((e) => e.textContent).join()`), "Start,Dateien,Lesezeichen,Notizen")
	b.until(`document.querySelector('#main .head small').textContent.startsWith('1 Eintrag · ')`)
	b.post("/api/v1/notes", `{"title":"Zwei","content":"x"}`).want(201)
	b.open("/notes")
	b.until(`document.querySelector('#main .head small').textContent === '2 Notizen'`)
	is.Equal(b.js(`document.querySelector('#main .add textarea').placeholder`), "Notiz schreiben …")
	b.until(`/^\d+\.\d+\.\d{4}, \d\d:\d\d:\d\d$/.test(document.querySelector('#main time').title)`)
	b.until(`document.querySelector('#main .list').textContent.includes('Ablauf: 5. März 2199')`)
	b.press("Neu")
	b.fill("Titel", "Drei")
	b.click("dialog .main")
	b.says("Notiz hinzugefügt.")
	b.until(`location.pathname === '/notes'`) // the step back is over
	b.press("Neu")
	b.fill("Titel", strings.Repeat("x", 513))
	b.click("dialog details.field summary")
	b.fill("Name im Link", "notes")
	b.click("dialog .main")
	b.shows("darf höchstens 512 Zeichen lang sein")
	b.shows("ist schon eine Adresse von kist selbst; wähle einen anderen, zum Beispiel my-notes")
	b.open("/files?folder=none")
	b.shows("Keine Treffer")
	b.open("/search?q=Ausflug")
	b.shows("„Ausflug“")
	b.open("/notes?q=Ausflug")
	b.shows("„Ausflug“")

	b.addPasskeyNamed("Telefon")
	b.do(emulation.SetDeviceMetricsOverride(320, 640, 1, true)) // longer words fit a telephone
	for _, path := range []string{"/", "/files", "/account", "/account/security", "/keys", "/upload-requests", "/webhooks", "/admin", "/import", "/tags"} {
		b.open(path)
		if wide := b.js(`document.documentElement.scrollWidth`).(float64); wide > 320 {
			t.Errorf("%s is %.0f pixels wide", path, wide)
		}
	}
	b.do(emulation.ClearDeviceMetricsOverride())

	v := b.profile()
	v.do(cdpnet.SetExtraHTTPHeaders(cdpnet.Headers{"Accept-Language": "de-AT,de;q=0.9,en;q=0.8"}), chromedp.Navigate(b.url+"/v/"+slug))
	is.Equal(v.js(`document.documentElement.lang`), "de")
	is.True(v.js(`document.querySelector('.meta').textContent.includes('bis 5. März 2199')`) == true)
	is.Equal(v.js(`document.querySelector('summary').textContent`), "Details")
	is.True(v.js(`document.querySelector('.foot').textContent.startsWith('geteilt über')`) == true)
	is.Equal(v.js(`document.querySelector(':not(script)[data-copy]').parentNode.querySelector('button').textContent`), "Kopieren")
	v.do(chromedp.Navigate(b.url + "/v/none"))
	is.True(v.js(`document.body.textContent.includes('Diese Seite gibt es nicht')`) == true)

	_, link := b.app.ask(map[string]any{"maxUploads": 2})
	v.do(chromedp.Navigate(b.url + "/up/" + link))
	v.until(`document.getElementById('left')?.textContent === 'Du kannst noch 2 Dateien senden.'`)
	v.drop("a.txt", "1")
	v.until(`getComputedStyle(document.getElementById('file')).color === 'rgba(0, 0, 0, 0)'`)
	v.click("#send")
	v.until(`document.getElementById('said').textContent === 'Danke! 1 Datei erhalten.'`)
	is.Equal(v.js(`document.getElementById('left').textContent`), "Du kannst noch 1 Datei senden.")
	is.True(b.sound())
}

// TestLanguage: pages follow the account, then the browser, and say so to caches. The API
// answers in English.
func TestLanguage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	german := http.Header{"Accept": {"text/html"}, "Accept-Language": {"de"}}
	page := func(path string) string {
		got := a.do(apiRequest{method: "GET", path: path, header: german.Clone()}).want(200)
		is.True(strings.Contains(strings.Join(got.header.Values("Vary"), ", "), "Accept-Language"))
		return string(got.body)
	}
	is.True(strings.Contains(page("/"), `<html lang="de"`))
	a.patch("/api/v1/me", `{"language":"en"}`).want(200)
	is.True(strings.Contains(page("/"), `<html lang="en"`))
	a.patch("/api/v1/me", `{"displayName":"Ann"}`).want(200)
	is.Equal(a.get("/api/v1/me").text("data.language"), "en") // another change leaves it
	a.patch("/api/v1/me", `{"language":null}`).want(200)
	is.Equal(a.get("/api/v1/me").at("data.language"), nil)
	a.patch("/api/v1/me", `{"language":"xx"}`).want(422)

	missing := a.do(apiRequest{method: "GET", path: "/v/none", header: german.Clone(), anyone: true}).want(404)
	is.True(strings.Contains(string(missing.body), embed.Lang("de").T("status.missing")))
	nowhere := a.visit("/nowhere/at/all", "Accept", "text/html").want(404)
	is.True(strings.Contains(string(nowhere.body), embed.English.T("status.missing")))
	is.True(strings.Contains(string(nowhere.body), embed.English.T("page.home"))) // a way on
	answer := a.do(apiRequest{method: "GET", path: "/api/v1/notes/none", header: http.Header{"Accept-Language": {"de"}}}).want(404)
	is.True(strings.Contains(string(answer.body), "There is no such"))
	manifest := a.visit("/manifest.webmanifest", "Accept-Language", "de").want(200)
	is.True(strings.Contains(string(manifest.body), `"lang":"de"`))
}

// TestBrowserTheme: the account chooses the theme and the accent of the app. Pages for visitors follow the system.
func TestBrowserTheme(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	colours := `[getComputedStyle(document.body.parentElement).backgroundColor, getComputedStyle(document.documentElement).getPropertyValue('--accent')].join(' ')`
	b.open("/account")
	usual := b.js(colours)
	b.js(`(() => { const form = document.querySelector('[name=theme]').form; form.elements.theme.value = 'dark'; form.elements.accent.value = 'blue'; form.requestSubmit(); })()`)
	b.says("Saved.")
	chosen := b.js(colours)
	is.True(chosen != usual)
	b.open("/")
	is.True(strings.Contains(b.js(`fetch('/').then((a) => a.text())`).(string), `data-theme="dark" data-accent="blue">`)) // before any script runs
	is.Equal(b.js(colours), chosen)
	b.open("/help")
	is.Equal(b.js(`getComputedStyle(document.documentElement).colorScheme`), "dark")
	is.Equal(b.js(colours), chosen)
}
