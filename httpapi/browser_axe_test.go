package httpapi

import (
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

const npmAxe = "axe-core@4.11.0"

// TestBrowserAxe lets axe-core judge every page of the app and every kind of public page, with an item open, with the
// editor, and in both themes.
func TestBrowserAxe(t *testing.T) {
	fetches(t, "the judge axe-core")
	b := openBrowser(t)
	w := newWorkshop(t)
	w.npm(npmAxe)
	axe, err := os.ReadFile(filepath.Join(w.dir, "node_modules", "axe-core", "axe.min.js"))
	b.fatal(err)

	var slugs []string
	for kind, in := range map[string]map[string]any{
		"notes":     {"title": "Harbour", "content": "# Boats\n\nThey arrive **daily**. See [this](https://example.org).\n\n- [x] one\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```go\nfunc main() {}\n```\n", "tags": []string{"sea"}},
		"snippets":  {"title": "Loop", "language": "go", "content": "for i := range 10 {}\n"},
		"recipes":   {"title": "Pancakes", "ingredients": "- 250 g flour\n- 2 eggs", "instructions": "1. Whisk"},
		"bookmarks": {"url": "https://go.dev/", "title": "Go", "description": "A language"},
		"games":     {"title": "Chess", "status": "playing", "rating": 9},
	} {
		in["isPublic"] = true
		slugs = append(slugs, kind+"/"+b.post("/api/v1/"+kind, in).want(201).text("data.slug"))
	}
	for _, f := range []file{{"photo.jpg", "image/jpeg", jpegOf(400, 300, color.RGBA{90, 120, 200, 255})}, {"table.csv", "text/csv", "a,b\n1,2\n"}, {"readme.md", "text/plain", "# Read\n\nme"}} {
		slugs = append(slugs, "files/"+b.upload(map[string]string{"isPublic": "true"}, f).want(201).text("slug"))
	}
	locked := b.post("/api/v1/notes", map[string]any{"title": "Locked", "content": "x", "isPublic": true, "password": "a long secret"}).want(201).text("data.slug")
	_, ask := b.app.ask(map[string]any{"title": "Photos of the day"})
	b.leave(ask, nil, nil, file{"b.txt", "text/plain", "text"}).want(201)

	paths := []string{"/v/" + locked, "/up/" + ask, "/nothing-here", "/help", "/device"}
	for _, at := range slugs {
		_, slug, _ := strings.Cut(at, "/")
		paths = append(paths, "/"+at, "/"+at+"?edit=1", "/v/"+slug)
	}
	for _, p := range appPages() {
		if !strings.Contains(p.path, "{") {
			paths = append(paths, p.path)
		}
	}
	// judge returns what axe-core finds wrong with the page.
	judge := func(rules string) []any {
		b.do(chromedp.Evaluate(string(axe)+"\n;0", nil))
		return b.js(`axe.run(document, { resultTypes: ['violations'], runOnly: ` + rules + ` }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary.slice(0, 200)).join(' | ')))`).([]any)
	}
	for theme, rules := range map[string]string{
		"light": `['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']`,
		"dark":  `{ type: 'rule', values: ['color-contrast', 'link-in-text-block'] }`, // only colours differ
	} {
		b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
		for _, path := range paths {
			b.open(path)
			if len(strings.Split(path, "/")) == 3 && path != "/account/security" && b.js(`!!document.querySelector('#main')`).(bool) {
				b.until(`document.querySelector('dialog[open]')`)
			}
			for _, v := range judge(rules) {
				t.Errorf("%s, %s: %s", path, theme, v)
			}
		}
	}
	b.js(`document.body.append(document.createElement('img'))`)
	if len(judge(`['wcag2a']`)) == 0 {
		t.Error("the judge does not see a picture without a text")
	}
}
