package httpapi_test

import (
	"encoding/json"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// TestBrowserNews: after an update each user is told once, on whatever device, where to read what is new. A new account
// is not.
func TestBrowserNews(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t, func(c *web.Config) { c.Version = "1.0.0" })
	seen := func() (version string) {
		b.NoErr(b.Server.Store.View(func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, b.User.ID)
			if err == nil {
				version = u.SeenVersion
			}
			return err
		}))
		return version
	}
	news := `document.querySelector('.toast')?.textContent ?? ''`

	b.open("/")
	b.until(`performance.getEntriesByType('resource').some((e) => e.name.includes('/news.'))`)
	b.App.Until("/api/v1/me", func(*apitest.Answer) bool { return seen() == "1.0.0" })
	is.Equal(b.js(news), "")

	b.Patch("/api/v1/me", `{"seenVersion":"0.9.0","language":"de"}`).Want(200)
	b.open("/notes")
	b.says("Kist wurde auf 1.0.0 aktualisiert.")
	is.Equal(seen(), "1.0.0")
	b.press("Was ist neu?")
	b.until(`location.pathname === '/help/changes'`)
	b.until(`document.querySelector(':target')?.textContent === '1.0.0'`)

	other := profile(b.App)
	other.signIn()
	for _, last := range []string{"1.0.0", "1.1.0"} { // a newer program ran before this one
		b.Patch("/api/v1/me", `{"seenVersion":"`+last+`"}`).Want(200)
		other.open("/")
		is.Equal(other.js(`!!JSON.parse(document.querySelector('#start').textContent).news`), false)
	}
}

// TestNews: the page of the app says that there is news if the handbook tells of the version and the user has seen only
// earlier ones.
func TestNews(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, seen string
		news          any
	}{
		{"1.0.0", "0.9.0", map[string]any{"version": "1.0.0", "anchor": "h-100", "first": false}},
		{"1.0.0", "", map[string]any{"version": "1.0.0", "anchor": "h-100", "first": true}},
		{"1.0.0", "1.0.0", nil},
		{"1.0.0", "1.1.0", nil}, // a newer program ran before
		{"dev", "", nil},
		{"dev", "0.9.0", nil},
		{"", "0.9.0", nil},
		{"0.0.0-20261127225844-17f9375b0000", "", nil}, // a build of a checkout
	} {
		t.Run(c.version+" after "+c.seen, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			a := apitest.Start(t, func(s *web.Config) { s.Version = c.version })
			a.Patch("/api/v1/me", map[string]any{"seenVersion": c.seen}).Want(200)
			found := startData.FindSubmatch(browse(a, "/").Want(200).Body)
			is.True(found != nil)
			var start map[string]any
			is.NoErr(json.Unmarshal(found[1], &start))
			is.Equal(start["news"], c.news)
			modules := start["modules"].(map[string]any)
			for _, name := range start["begin"].([]any) {
				is.True(modules[name.(string)] != nil)
			}
		})
	}
}
