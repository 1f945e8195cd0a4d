package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdpnet "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi/apitest"
)

// TestBrowserLanguage: the account chooses the language of the app, and a visitor's browser
// that of the pages.
func TestBrowserLanguage(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	slug := b.Post(
		"/api/v1/notes",
		map[string]any{"title": "Ausflug", "content": "Morgen", "isPublic": true, "expiresAt": "2199-03-05T12:00:00Z"},
	).Want(201).Text("data.slug")
	b.open("/account")
	is.Equal(b.js(`document.documentElement.lang + ' ' + document.documentElement.dir`), "en ltr")
	// the account has no password
	is.Equal(
		b.js(`document.querySelectorAll('#main form').length + ' ' + document.querySelectorAll('#main [type=password]').length`),
		"2 0",
	)
	b.js(`(() => { const s = document.querySelector('[name=language]'); s.value = 'de'; s.form.requestSubmit(); })()`)
	b.until(`document.documentElement?.lang === 'de' && document.querySelector('#main h1')?.textContent === 'Konto'`)
	is.Equal(b.Get("/api/v1/me").Text("data.language"), "de")

	b.open("/")
	is.Equal(b.js(`document.title`), "Start · kist")
	is.Equal(
		b.js(`[...document.querySelectorAll('.rail a span')].slice(0, 4).map((e) => e.textContent).join()`),
		"Start,Dateien,Lesezeichen,Notizen",
	)
	b.until(`document.querySelector('#main .head small').textContent.startsWith('1 Eintrag · ')`)
	b.Post("/api/v1/notes", `{"title":"Zwei","content":"x"}`).Want(201)
	b.open("/notes")
	b.until(`document.querySelector('#main .head small').textContent === '2 Notizen'`)
	is.Equal(b.js(`document.querySelector('#main .head .main').textContent`), "Neu")
	b.until(`/^\d+\.\d+\.\d{4}, \d\d:\d\d$/.test(document.querySelector('#main time').title)`)
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

	addPasskeyNamed(b.App, "Telefon")
	b.do(emulation.SetDeviceMetricsOverride(320, 640, 1, true)) // longer words fit a telephone
	for _, path := range []string{
		"/", "/files", "/account", "/account/security", "/keys", "/upload-requests", "/webhooks", "/admin", "/import",
		"/tags",
	} {
		b.open(path)
		if wide := b.js(`document.documentElement.scrollWidth`).(float64); wide > 320 {
			t.Errorf("%s is %.0f pixels wide", path, wide)
		}
	}
	b.do(emulation.ClearDeviceMetricsOverride())

	v := profile(b.App)
	v.do(
		cdpnet.SetExtraHTTPHeaders(cdpnet.Headers{"Accept-Language": "de-AT,de;q=0.9,en;q=0.8"}),
		chromedp.Navigate(b.URL+"/v/"+slug),
	)
	is.Equal(v.js(`document.documentElement.lang`), "de")
	is.True(v.js(`document.querySelector('.meta').textContent.includes('bis 5. März 2199')`) == true)
	is.Equal(v.js(`document.querySelector('summary').textContent`), "Details")
	is.True(v.js(`document.querySelector('.foot').textContent.startsWith('geteilt über')`) == true)
	is.Equal(
		v.js(`document.querySelector(':not(script)[data-copy]').parentNode.querySelector('button').textContent`), "Kopieren",
	)
	v.do(chromedp.Navigate(b.URL + "/v/none"))
	is.True(v.js(`document.body.textContent.includes('Diese Seite gibt es nicht')`) == true)

	_, link := b.App.Ask(map[string]any{"maxUploads": 2})
	v.do(chromedp.Navigate(b.URL + "/up/" + link))
	v.until(`document.getElementById('left')?.textContent === 'Du kannst noch 2 Dateien senden.'`)
	v.drop("a.txt", "1")
	v.until(`getComputedStyle(document.getElementById('file')).opacity === '0'`)
	v.click("#send")
	v.until(`document.getElementById('said').textContent === 'Danke! 1 Datei erhalten.'`)
	is.Equal(v.js(`document.getElementById('left').textContent`), "Du kannst noch 1 Datei senden.")
	is.True(b.Sound())
}

// TestLanguage: pages follow the account, then the browser, and say so to caches. The API
// answers in English.
func TestLanguage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	german := http.Header{"Accept": {"text/html"}, "Accept-Language": {"de"}}
	page := func(path string) string {
		got := a.Do(apitest.Request{Method: "GET", Path: path, Header: german.Clone()}).Want(200)
		is.True(strings.Contains(strings.Join(got.Header.Values("Vary"), ", "), "Accept-Language"))
		return string(got.Body)
	}
	is.True(strings.Contains(page("/"), `<html lang="de"`))
	a.Patch("/api/v1/me", `{"language":"en"}`).Want(200)
	is.True(strings.Contains(page("/"), `<html lang="en"`))
	a.Patch("/api/v1/me", `{"displayName":"Ann"}`).Want(200)
	is.Equal(a.Get("/api/v1/me").Text("data.language"), "en") // another change leaves it
	a.Patch("/api/v1/me", `{"language":null}`).Want(200)
	is.Equal(a.Get("/api/v1/me").At("data.language"), nil)
	a.Patch("/api/v1/me", `{"language":"xx"}`).Want(422)

	missing := a.Do(apitest.Request{Method: "GET", Path: "/v/none", Header: german.Clone(), Anyone: true}).Want(404)
	is.True(strings.Contains(string(missing.Body), embed.Lang("de").T("status.missing")))
	nowhere := a.Visit("/nowhere/at/all", "Accept", "text/html").Want(404)
	is.True(strings.Contains(string(nowhere.Body), embed.English.T("status.missing")))
	is.True(strings.Contains(string(nowhere.Body), embed.English.T("page.home"))) // a way on
	answer := a.Do(apitest.Request{
		Method: "GET", Path: "/api/v1/notes/none", Header: http.Header{"Accept-Language": {"de"}},
	}).Want(404)
	is.True(strings.Contains(string(answer.Body), "There is no such"))
	manifest := a.Visit("/manifest.webmanifest", "Accept-Language", "de").Want(200)
	is.True(strings.Contains(string(manifest.Body), `"lang":"de"`))
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
	// before any script runs
	is.True(strings.Contains(b.js(`fetch('/').then((a) => a.text())`).(string), `data-theme="dark" data-accent="blue">`))
	is.Equal(b.js(colours), chosen)
	b.open("/help")
	is.Equal(b.js(`getComputedStyle(document.documentElement).colorScheme`), "dark")
	is.Equal(b.js(colours), chosen)
}
