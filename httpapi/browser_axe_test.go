package httpapi_test

import (
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"kist/httpapi"
	"kist/httpapi/apitest"
	"kist/kv/history"
)

const npmAxe = "axe-core@4.11.0"

// TestBrowserAxe lets axe-core judge every page of the app and every kind of public page, with an item open, with the
// editor, with what actions open, and in both themes.
func TestBrowserAxe(t *testing.T) {
	fetches(t, "the judge axe-core")
	b := openBrowser(t)
	w := newWorkshop(t)
	w.npm(npmAxe)
	axe, err := os.ReadFile(filepath.Join(w.dir, "node_modules", "axe-core", "axe.min.js"))
	b.NoErr(err)

	var slugs []string
	for kind, in := range map[string]map[string]any{
		"notes": {
			"title": "Harbour",
			"content": "# Boats\n\nThey arrive **daily**. See [this](https://example.org).\n\n- [x] one\n\n| a | b " +
				"|\n|---|---|\n| 1 | 2 |\n\n```go\nfunc main() {}\n```\n",
			"tags": []string{"sea"},
		},
		"snippets":  {"title": "Loop", "language": "go", "content": "for i := range 10 {}\n"},
		"recipes":   {"title": "Pancakes", "ingredients": "- 250 g flour\n- 2 eggs", "instructions": "1. Whisk"},
		"bookmarks": {"url": "https://go.dev/", "title": "Go", "description": "A language"},
		"games":     {"title": "Chess", "status": "playing", "rating": 9},
	} {
		in["isPublic"] = true
		slugs = append(slugs, kind+"/"+b.Post("/api/v1/"+kind, in).Want(201).Text("data.slug"))
	}
	for _, f := range []apitest.Part{
		apitest.File("photo.jpg", "image/jpeg", apitest.JpegOf(400, 300, color.RGBA{90, 120, 200, 255})),
		apitest.File("table.csv", "text/csv", "a,b\n1,2\n"), apitest.File("readme.md", "text/plain", "# Read\n\nme"),
	} {
		slugs = append(slugs, "files/"+b.Upload(map[string]string{"isPublic": "true"}, f).Want(201).Text("slug"))
	}
	locked := b.Post(
		"/api/v1/notes", map[string]any{"title": "Locked", "content": "x", "isPublic": true, "password": "a long secret"},
	).Want(201).Text("data.slug")
	_, ask := b.App.Ask(map[string]any{"title": "Photos of the day"})
	b.Leave(ask, nil, nil, apitest.File("b.txt", "text/plain", "text")).Want(201)

	photo := strings.TrimPrefix(slugs[len(slugs)-3], "files/")
	changed := b.Post(
		"/api/v1/notes", map[string]any{"title": "List", "content": "Buy milk and eggs"},
	).Want(201).Text("data.slug")
	b.Clock.Advance(history.VersionEvery)
	b.Patch("/api/v1/notes/"+changed, `{"content":"Buy oat milk"}`).Want(200)
	gone := b.Post("/api/v1/notes", map[string]any{"title": "Gone", "content": "x"}).Want(201).Text("data.id")
	b.Delete("/api/v1/notes/" + gone).Want(200)
	photoID := b.Get("/api/v1/files/" + photo).Text("data.id")
	_, secret, _ := strings.Cut(b.Post("/api/v1/admin/invitations", `{}`).Want(201).Text("url"), "/join/")
	noteID := b.Get("/api/v1/notes/" + changed).Text("data.id")
	album := b.Post(
		"/api/v1/collections",
		map[string]any{"title": "Summer", "isPublic": true, "source": map[string]any{"items": []string{photoID, noteID}}},
	).Want(201).Text("data.slug")
	b.WithPassword(b.User, "correct horse")
	b.CodesOn(b.SessionCookie() + "=" + b.Session())
	b.signIn() // the new password ended the session
	addNamed(b.App, "laptop", "")
	addNamed(b.App, "phone", "phone")
	addPasskeyNamed(b.App, "stick")
	p := apitest.NewProvider(t)
	b.Server.OIDC = p.Client(t, b.URL)
	b.Link(b.User, p, "id-ann")

	paths := []string{"/v/" + locked, "/up/" + ask, "/nothing-here", "/help", "/device"}
	for _, at := range slugs {
		_, slug, _ := strings.Cut(at, "/")
		paths = append(paths, "/"+at, "/"+at+"?edit=1", "/v/"+slug)
	}
	for _, p := range httpapi.AppPages() {
		if !strings.Contains(p.Path, "{") {
			paths = append(paths, p.Path)
		}
	}
	// judge returns what axe-core finds wrong with the page.
	judge := func(b *tab, rules string) []any {
		if !b.js(`'axe' in window`).(bool) { // it is half a megabyte
			b.do(chromedp.Evaluate(string(axe)+"\n;0", nil))
		}
		return b.js(`axe.run(document, { resultTypes: ['violations'], runOnly: ` + rules + ` }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary.slice(0, 200)).join(' | ')))`).([]any)
	}
	both := func(b *tab, what string) {
		t.Helper()
		for theme, rules := range map[string]string{
			"light": `['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']`,
			"dark":  `{ type: 'rule', values: ['color-contrast', 'link-in-text-block'] }`, // only colours differ
		} {
			b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			}))
			for _, v := range judge(b, rules) {
				t.Errorf("%s, %s: %s", what, theme, v)
			}
		}
	}
	for _, path := range paths {
		b.open(path)
		if len(strings.Split(path, "/")) == 3 && path != "/account/security" &&
			b.js(`!!document.querySelector('#main')`).(bool) {
			b.until(`document.querySelector('dialog[open]')`)
		}
		if b.js(`location.pathname`) == "/login" {
			t.Fatalf("%s: the browser is not signed in", path)
		}
		both(b, path)
	}

	// What an action opens.
	dialog := `document.querySelector('dialog[open]')`
	for _, state := range []struct {
		what, path string
		do         func()
		shown      string
	}{
		{"the menu of a row", "/notes", func() {
			b.click(`#main .item [data-act=row-menu]`)
		}, `document.querySelector('.pop button')`},
		{"a selection", "/files", func() { b.click(`#main .pick`) }, `!document.querySelector('.bulk').hidden`},
		{"uploads", "/files", func() {
			b.takesDrops()
			b.js(trayScript)
			b.js(`BeforeUnloadEvent.prototype.preventDefault = () => {}`) // it asks whether to leave
			b.js(`dropAll('a.txt', 'b.txt', 'c.txt', 'd.txt')`)
			b.press("Details")
		}, `rows().includes('d.txt')`},
		{"cards", "/games", func() { b.press("Grid view") }, `document.querySelector('.cardlist .item')`},
		{"a grid", "/files?type=image", func() {
			b.js(`document.querySelector('#main .item a.name').focus()`)
		}, `document.querySelector('.grid :focus')`},
		{"search", "/search?q=boats", nil, `document.querySelector('#main mark')`},
		{"the share sheet", "/notes", func() {
			b.press("Share Harbour")
		}, `document.querySelector('dialog input[readonly]')`},
		{"a condition in the share sheet", "/notes", func() {
			b.press("Share Harbour")
			b.press("Password: none")
		}, `document.querySelector('dialog .part [type=password]')`},
		{"the viewer with its panel", "/files/" + photo, func() {
			b.until(dialog)
			b.keys("i")
		}, `document.querySelector('.viewer aside')?.textContent.includes('image/jpeg')`},
		{"versions", "/notes/" + changed, func() {
			b.press("Versions")
			b.click("dialog .versions summary")
		}, `document.querySelector('dialog .changes')`},
		{"the trash", "/trash", nil, `document.querySelector('#main .item')`},
		{"emptying the trash", "/trash", func() { b.press("Empty trash") }, dialog},
		{"a collection", "/collections/" + album, nil, `document.querySelector('.place [data-id]')`},
		{"arranging a collection", "/collections/" + album, func() {
			b.press("Arrange")
		}, `document.querySelector('.place.arranging .step')`},
		{"adding to a collection", "/collections/" + album, func() {
			b.press("Add")
		}, `document.querySelector('.picks li')`},
		{"sharing a collection", "/collections/" + album, func() {
			b.press("Share")
		}, `document.querySelector('dialog .segments')`},
		{"a shared collection", "/v/" + album, nil, `document.querySelector('.things, .album')`},
		{"an item of a shared collection", "/v/" + album + "/" + photoID, nil, `document.querySelector('.among')`},
		{
			"keys and devices among the sign-in", "/account/security", nil,
			`document.querySelector('[aria-label="Revoke laptop"]') && document.querySelector('[aria-label="Revoke phone"]') && document.querySelector('[aria-label="Remove stick"]') && document.querySelector('[aria-label="Unlink id-ann"]')`,
		},
		{"inviting", "/admin", func() { b.press("Invite") }, `document.querySelector('dialog select')`},
		{"an invitation", "/join/" + secret, nil, `document.querySelector('#username')`},
		{"setting up one-time codes", "/account/security", func() {
			b.press("Use another phone")
		}, `document.querySelector('dialog .qr img')`},
		{"recovery codes", "/account/security", func() {
			b.press("New recovery codes")
			b.click("dialog .main")
		}, `document.querySelector('dialog pre.copy')`},
		{"what a sender has chosen", "/up/" + ask, func() {
			b.until(`document.querySelector('form.live')`)
			b.drop("c.txt", "c")
		}, `document.querySelector('#list li')`},
		{"what a sender has sent", "/up/" + ask, func() {
			b.until(`document.querySelector('form.live')`)
			b.drop("d.txt", "d")
			b.click("#send")
			b.until(`document.getElementById('said').textContent.startsWith('Thank you')`)
			b.press("See what I sent")
		}, `document.querySelector('#sent li')`},
		{"no server", "/notes", func() {
			b.until(`!!document.querySelector('.away')`)
			b.js(`(() => {
				window.fetch = () => Promise.reject(new TypeError('no server'));
				dispatchEvent(new Event('offline'));
			})()`)
		}, `document.querySelector('.away')?.textContent.startsWith('Offline')`},
		{"the keyboard", "/", func() { b.keys("?") }, dialog},
		{"what is above the list", "/", nil, `document.querySelector('.shelf img')`},
	} {
		b.open(state.path)
		if state.do != nil {
			state.do()
		}
		b.until(state.shown)
		both(b, state.what)
	}
	v := profile(b.App)
	v.open("/login")
	v.enterAs("ann", "correct horse")
	v.until(`document.querySelector('[autocomplete=one-time-code]')`)
	both(v, "the second step")
	b.js(`document.body.append(document.createElement('img'))`)
	if len(judge(b, `['wcag2a']`)) == 0 {
		t.Error("the judge does not see a picture without a text")
	}
}
