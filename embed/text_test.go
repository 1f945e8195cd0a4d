package embed

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

// inCode are the groups whose English is in the code. They have only translations.
var inCode = []string{"kinds", "errors", "problems", "remarks", "setups"}

// Every language has the same texts with the same plural forms and placeholders, and none is empty.
func TestLanguagesAgree(t *testing.T) {
	is := is.New(t)
	is.Equal(Langs(), []Lang{"de", "en"})
	for _, l := range Langs() {
		for group, messages := range texts()[l] {
			for name, m := range messages {
				for form, text := range m {
					if text == "" {
						t.Errorf("%s: %s.%s has an empty text", l, group, name)
					}
					if form != "" && form != "one" && form != "other" {
						t.Errorf("%s: %s.%s has the form %s", l, group, name, form)
					}
				}
				if len(m) != 1 && (m["one"] == "" || m["other"] == "") || len(m) == 1 && m[""] == "" {
					t.Errorf("%s: %s.%s has the forms %v", l, group, name, slices.Sorted(maps.Keys(m)))
				}
				if slices.Contains(inCode, group) {
					continue
				}
				english := texts()[English][group][name]
				if english == nil {
					t.Errorf("%s: %s.%s is not in en.json", l, group, name)
					continue
				}
				is.Equal(slices.Sorted(maps.Keys(m)), slices.Sorted(maps.Keys(english)))
				for form, text := range m {
					if got, want := placeholders(text), placeholders(english[form]); !slices.Equal(got, want) {
						t.Errorf("%s: %s.%s has %v, but the English has %v", l, group, name, got, want)
					}
				}
			}
		}
		for group, messages := range texts()[English] {
			for name := range messages {
				if texts()[l][group][name] == nil {
					t.Errorf("%s: %s.%s is missing", l, group, name)
				}
			}
		}
		for _, group := range inCode {
			is.True((texts()[l][group] == nil) == (l == English))
		}
	}
}

// The English has none of the words that make readers stop.
func TestPlainEnglish(t *testing.T) {
	odd := regexp.MustCompile(`(?i)\b(shut|kin|as it is|come in|go on|at once|user name|address of)\b`)
	for group, messages := range texts()[English] {
		for name, m := range messages {
			for _, text := range m {
				if found := odd.FindString(text); found != "" {
					t.Errorf("%s.%s says %q: %s", group, name, found, text)
				}
			}
		}
	}
}

func placeholders(text string) []string {
	return slices.Compact(slices.Sorted(slices.Values(placeholder.FindAllString(text, -1))))
}

// textSources are the files that use texts, by path.
func textSources(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	read := func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(at, "_test.go") || !slices.Contains(
			[]string{".js", ".html", ".go"}, filepath.Ext(at),
		) && filepath.Base(at) != "manifest.json" {
			return err
		}
		b, err := os.ReadFile(at)
		all[filepath.ToSlash(at)] = string(b)
		return err
	}
	if err := filepath.WalkDir(".", read); err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	wanted       = regexp.MustCompile(`(?:\btn?\(|\bth? |\.T\(|\.HTML\()['"]([a-zA-Z]+\.[a-zA-Z0-9]+)['"]|data-t[a-z-]*="([a-zA-Z]+\.[a-zA-Z0-9]+)"`)
	manifestText = regexp.MustCompile(`__MSG_([a-zA-Z]+)__`)
	// maybeKey is a string of a script that may be the key of a text, also one of several between which the script
	// chooses.
	maybeKey = regexp.MustCompile(`'([a-zA-Z]+)\.([a-zA-Z0-9]+)'`)
)

// Every text that is asked for is there, in a script that the page loads. A test of httpapi, which uses texts too,
// finds texts that nothing asks for.
func TestTextsAreThere(t *testing.T) {
	sources := textSources(t)
	for at, source := range sources {
		if filepath.Base(at) == "manifest.json" {
			for _, found := range manifestText.FindAllStringSubmatch(source, -1) {
				if English.find("manifest."+found[1]) == nil {
					t.Errorf("%s: there is no text manifest.%s", at, found[1])
				}
			}
		}
		for _, found := range wanted.FindAllStringSubmatch(source, -1) {
			key := found[1] + found[2]
			if English.find(key) == nil {
				t.Errorf("%s: there is no text %s", at, key)
			}
			group, _, _ := strings.Cut(key, ".")
			script := map[string]string{"static": "up-text", "extension": "extension"}[path.Dir(at)]
			if script != "" && at != "static/text.js" && !slices.Contains(scriptTexts[script], group) {
				t.Errorf("%s: the group of %s is not sent with the script", at, key)
			}
		}
	}
	for _, name := range loadedModules(sources) {
		sent := slices.Concat(scriptTexts["app-text"], scriptTexts[strings.TrimSuffix(name, ".js")+laterText])
		for part := range withImports(sources, name) {
			for _, found := range maybeKey.FindAllStringSubmatch(sources["static/app/"+part], -1) {
				key := found[1] + "." + found[2]
				if English.find(key) != nil && !slices.Contains(sent, found[1]) {
					t.Errorf("%s: the group of %s, which %s uses, is not sent with it", name, key, part)
				}
			}
		}
	}
}

// loadedModules are the scripts of the app that a page loads for themselves: those that no other script imports, and
// those that scripts load.
func loadedModules(sources map[string]string) []string {
	loads := regexp.MustCompile(`\b(?:loadModule|page)\('([a-z-]+)'\)`)
	imported := map[string]bool{}
	loaded := map[string]bool{"backups.js": true, "editor.js": true} // with others, after the first rows of a page
	for _, source := range sources {
		for _, found := range loads.FindAllStringSubmatch(source, -1) {
			loaded[found[1]+".js"] = true
		}
		for _, found := range importOf.FindAllStringSubmatch(source, -1) {
			imported[found[2]] = true
		}
	}
	for at := range sources {
		if name := path.Base(at); path.Dir(at) == "static/app" && !imported[name] {
			loaded[name] = true
		}
	}
	return slices.Sorted(maps.Keys(loaded))
}

// withImports are a script of the app and all that it imports.
func withImports(sources map[string]string, name string) map[string]bool {
	parts := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		if parts[name] {
			return
		}
		parts[name] = true
		for _, found := range importOf.FindAllStringSubmatch(sources["static/app/"+name], -1) {
			add(found[2])
		}
	}
	add(name)
	return parts
}

var (
	// textNode is text between tags of a template, and shownAttribute an attribute that people read.
	textNode       = regexp.MustCompile(`>([^<>]*)<`)
	shownAttribute = regexp.MustCompile(`[ \n](?:aria-label|title|placeholder|alt)="([^"]*)"`)
	actionOf       = regexp.MustCompile(`\{\{[^}]*\}\}`)
	word           = regexp.MustCompile(`\p{L}{2,}`)
	commentOf      = regexp.MustCompile(`(?s)<!--.*?-->|\{\{/\*.*?\*/ -?\}\}|<svg.*?</svg>`)
	// literal is a string of a script with a capital or a space in it, which people could read.
	literal = regexp.MustCompile("'((?:[^'\\\\\n]|\\\\.)*)'|\"((?:[^\"\\\\\n]|\\\\.)*)\"|`((?:[^`\\\\\n]|\\\\.)*)`")
	inserts = regexp.MustCompile(`\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}`)
	shown   = regexp.MustCompile(`^[^a-z]*[A-Z][a-z]+$|^\W*\p{L}+[’']?\p{L}*[,.:;]?( \S+)+\W*$`)
)

// proper are names and units, which are the same in every language, and code.
var proper = []string{
	"kist", "Kist", "SHA-256", "API", "PDF", "JSON", "XXXX-XXXX", "Edge", "Firefox", "Chrome", "Safari", "Android", "Windows", "Linux", "Deutsch", "English", "Discord", "Slack", "Gotify",
	"Cloudflare Turnstile", "Karakeep (JSON)", "Linkwarden (JSON)", "Omnivore (zip)", "Raindrop (CSV)", "Instapaper (CSV)", "Shlink (CSV, JSON)", "YOURLS (CSV, JSON)", "Kutt (CSV, JSON)", "Bitly (CSV, JSON)", "Grouvee (CSV, JSON)",
	"Playnite (CSV)", "Google Keep (zip)", "Mealie (JSON, zip)", "Tandoor (JSON, zip)", "Paprika (paprikarecipes)", "linkding (JSON)", "wallabag (JSON)",
	"kist restore --missing", "kist restore x", "kist backup init DIR", "kist serve --backup-to DIR", "kist verify", "kist help repair", "photo.jpg", "Enter", "Delete", "Escape", "Backspace", "ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Ctrl S or Ctrl Enter", "Tab", "Esc",
	"(pointer: fine)", "Location", "https://kist.example.org", "· kist", "x · kist", "POST x", "x h x min", "x x x.png", "kist extension (x)", "data-challenge=\"\" data-worker=\"/static/\"",
	"GET", "POST", "PATCH", "DELETE", "HEAD", "Files", "AbortError", "DOMContentLoaded", "↑ ↓ or j k", "g then h f b n s r a l t", "← → Space i", "use strict",
}

// No template and no script has a text of its own.
func TestNoTextOutsideTheCatalogue(t *testing.T) {
	for at, source := range textSources(t) {
		own := func(text string) {
			text = strings.TrimSpace(text)
			if word.MatchString(text) && !slices.Contains(proper, text) {
				t.Errorf("%s: %q is not in the catalogue", at, text)
			}
		}
		switch {
		case filepath.Ext(at) == ".html":
			source = actionOf.ReplaceAllString(commentOf.ReplaceAllString(source, ""), "")
			for _, found := range append(textNode.FindAllStringSubmatch(source, -1), shownAttribute.FindAllStringSubmatch(source, -1)...) {
				own(found[1])
			}
		case filepath.Ext(at) == ".js" && !strings.HasPrefix(at, "static/reference"):
			for line := range strings.Lines(string(lean([]byte(source)))) {
				if strings.Contains(line, "import ") || strings.HasPrefix(line, "*") || strings.HasPrefix(line, "/*") ||
					strings.Contains(line, "new Error(") {
					continue
				}
				line, _, _ = strings.Cut(line, "; // ")
				for _, found := range literal.FindAllStringSubmatch(line, -1) {
					if text := strings.TrimSpace(inserts.ReplaceAllString(found[1]+found[2]+found[3], "x")); shown.MatchString(text) && !selector(text) {
						own(text)
					}
				}
			}
		}
	}
}

// selector reports whether a string is for the browser: a style, a selector, a header or a list of types.
func selector(text string) bool {
	return strings.ContainsAny(text, "#[]{}=/_<>") || strings.HasPrefix(text, ".") ||
		regexp.MustCompile(`^[a-z-]+( [a-z-]+)?$|^[A-Z][a-zA-Z]*-[A-Za-z-]+$|^(main|main upload|quiet square( star)?|toast bad|noopener noreferrer|alert bad)$|, `).MatchString(text) && !strings.ContainsAny(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.!?")
}

func TestPreferred(t *testing.T) {
	for header, want := range map[string]Lang{
		"": English, "de": "de", "de-AT,de;q=0.9,en;q=0.8": "de", "fr, de;q=0.5, en;q=0.7": English, "fr": English, "DE-ch": "de",
		"en;q=0.2,de;q=0.3": "de", "de;q=0": English, "*": English, "de;q=x": English, ",;": English, "en-GB,en,de": English,
	} {
		if got := Preferred(header); got != want {
			t.Errorf("%q: %s", header, got)
		}
	}
}

func TestFormats(t *testing.T) {
	is := is.New(t)
	at := time.Date(2026, 3, 5, 14, 7, 0, 0, time.UTC)
	is.Equal(English.Date(at), "5 March 2026")
	is.Equal(Lang("de").Date(at), "5. März 2026")
	is.Equal(English.Time(at), "5 March 2026, 14:07 UTC")
	is.Equal(Lang("de").Time(at), "5. März 2026, 14:07 Uhr (UTC)")
	for n, want := range map[int64][2]string{
		0: {"0", "0"}, 999: {"999", "999"}, 1234567: {"1,234,567", "1.234.567"}, -1000: {"-1,000", "-1.000"},
		-100: {"-100", "-100"},
	} {
		is.Equal([2]string{English.Number(n), Lang("de").Number(n)}, want)
	}
	for n, want := range map[int64][2]string{
		0: {"0 bytes", "0 Byte"}, 1: {"1 byte", "1 Byte"}, 999: {"999 bytes", "999 Byte"}, 1000: {"1 kB", "1 kB"}, 4_123_456: {"4.1 MB", "4,1 MB"}, 99_960_000: {"100 MB", "100 MB"},
		999_600: {"1 MB", "1 MB"}, 1 << 53: {"9 PB", "9 PB"}, 10 << 30: {"10.7 GB", "10,7 GB"},
	} {
		is.Equal(
			[2]string{strings.ReplaceAll(English.Size(n), "\u00a0", " "), strings.ReplaceAll(Lang("de").Size(n), "\u00a0", " ")},
			want,
		)
	}
	is.Equal(English.Wait(0), "in 1 second")
	is.Equal(Lang("de").Wait(200*time.Second), "in 4 Minuten")
	is.Equal(English.Wait(3*time.Hour), "in 3 hours")
}

// Nothing in a value becomes markup or a placeholder.
func TestTextsEscape(t *testing.T) {
	is := is.New(t)
	is.Equal(English.T("page.sharedByOwner", "owner", "{n} <b>"), "shared by {n} <b>")
	is.Equal(string(English.HTML("page.sharedByOwner", "owner", "<b>")), "shared by &lt;b&gt;")
	is.Equal(English.T("nothing.here"), "nothing.here")
	is.Equal(English.T("page.lines", "n", 1), "1 line")
	is.Equal(Lang("de").T("page.lines", "n", 1200), "1.200 Zeilen")
}

// Every page is whole in every language.
func TestPagesInEveryLanguage(t *testing.T) {
	for _, l := range Langs() {
		for name, page := range pages {
			t.Run(fmt.Sprint(name, " in ", l), func(t *testing.T) {
				is := is.New(t)
				var b strings.Builder
				is.NoErr(Render(&b, l, page))
				is.True(strings.Contains(b.String(), `<html lang="`+string(l)+`" dir="ltr">`))
				for _, found := range textNode.FindAllStringSubmatch(b.String(), -1) {
					if _, ok := page.(AppPage); !ok && English.find(strings.TrimSpace(found[1])) != nil {
						t.Errorf("a key is shown: %s", found[1])
					}
				}
			})
		}
	}
}

// The single texts that a script gets are there in each language that translates errors.
func TestSingleTexts(t *testing.T) {
	t.Parallel()
	for script, groups := range scriptTexts {
		for _, key := range groups {
			if strings.Contains(key, ".") && len(Lang("de").groups([]string{key})) != 1 {
				t.Errorf("%s: there is no text %s", script, key)
			}
		}
	}
}

// The script with texts is valid JSON in a statement, and each page gets that of its language.
func TestScriptTexts(t *testing.T) {
	is := is.New(t)
	for _, l := range Langs() {
		for _, name := range []string{"app-text", "up-text"} {
			asset := served(t, l.scriptName(name))
			text, ok := strings.CutPrefix(string(asset.Bytes()), "globalThis.kist=")
			is.True(ok)
			text, _, ok = strings.Cut(text, ";\nrequestAnimationFrame(")
			is.True(ok)
			is.True(json.Valid([]byte(text)))
			t.Logf("%s: %d bytes, %d compressed", asset.Name, len(asset.Bytes()), len(asset.Gzip()))
		}
		var b strings.Builder
		is.NoErr(Render(&b, l, AppPage{Data: []byte("{}")}))
		is.True(strings.Contains(b.String(), served(t, l.scriptName("app-text")).Name))
	}
}

// What is wrong with a field is said in the language of the page, also if there is a number in it.
func TestProblem(t *testing.T) {
	is := is.New(t)
	for english, german := range map[string]string{
		"must be the same password":          "muss dasselbe Passwort sein",
		"must be at least 8 characters long": "muss mindestens 8 Zeichen lang sein",
		"must be at least x characters long": "must be at least x characters long",
		"is something else":                  "is something else",
	} {
		is.Equal(English.Problem(english), english)
		if got := Lang("de").Problem(english); got != german {
			t.Errorf("%s: %s", english, got)
		}
	}
}
