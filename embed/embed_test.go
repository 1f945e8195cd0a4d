package embed

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

const hostile = `"><img src=x onerror=alert(1)>'` + "`{{.}}</script></pre>"

// pages are all pages, with and without what they can show.
var pages = map[string]Page{
	"claim":         ClaimPage{},
	"claim, prefix": ClaimPage{Base: "/kist", UserName: "ann"},
	"claim, refused": ClaimPage{
		Base:   "/kist",
		Errors: ClaimErrors{Form: "a", UserName: "b", Password: "c", Repeat: "d"},
	},
	"invited": ClaimPage{Invited: &Invited{Token: "x", By: "Ann", Issuer: "Example"}},
	"invited, all": ClaimPage{
		Base: "/kist", UserName: "bob", Shortest: 8,
		Invited: &Invited{
			Token: "x", By: "Ann", Collections: []string{"Holidays", "Recipes"}, DisplayName: "Bob", SignedIn: "ann", Issuer: "Example",
		},
		Errors: ClaimErrors{UserName: "a", Display: "b", Password: "c", Repeat: "d"},
	},
	"invited, no password": ClaimPage{Invited: &Invited{NoPassword: true}},
	"invited, passkey": ClaimPage{
		Base: "/kist", Invited: &Invited{Token: "x", By: "Ann"}, Passkey: PasskeyAsk{Options: "{}", Ticket: "a"},
		Errors: ClaimErrors{Form: "a"},
	},
	"hostile invitation": ClaimPage{Invited: &Invited{
		Token: hostile, By: hostile, Collections: []string{hostile}, DisplayName: hostile, SignedIn: hostile, Issuer: hostile,
	}},
	"reset":   ClaimPage{Reset: true, UserName: "ann"},
	"claimed": ClaimedPage{Base: "/kist", UserName: "ann"},
	"message": MessagePage{Title: "Gone", Home: true, Text: "It was shared for a while."},
	"bare":    MessagePage{Title: "Gone"},
	"delete":  DeletePage{},
	"confirm": ConfirmPage{},
	"confirm, all": ConfirmPage{
		Base: "/kist", Next: "/device?user_code=BCDF-GHJK", UserName: "ann", Password: true, Issuer: "Example",
		Passkey: PasskeyAsk{Action: "/login/confirm", Options: "{}"}, Problem: Problem{Text: "a"},
	},
	"confirm, code": ConfirmPage{Code: true},
	"home":          HomePage{},
	"home, prefix":  HomePage{Base: "/kist", Version: "1.2.3"},
	"reference":     ReferencePage{},
	"item":          ItemPage{},
	"locked":        LockedPage{},
	"wrong":         LockedPage{Base: "/kist", Action: "/v/a", Button: "Unlock", Problem: Problem{Text: "b"}},
	"card":          CardPage{},
	"upload":        UploadPage{Left: -1},
	"upload, all": UploadPage{
		Base: "/kist", Slug: "a", Title: "b", Description: "c", Owner: "d", Expires: time.Unix(1, 0), Approval: true, Color: "#0F6B5C",
		FileSize: "1 MB", Left: 2, Types: []string{"image/*"}, Captcha: "pow", Came: []CameView{{"e", "1 kB"}}, Problem: "f",
	},
	"upload, full": UploadPage{},
	"hostile upload": UploadPage{
		Title: hostile, Slug: hostile, Description: hostile, Owner: hostile, Color: hostile, FileSize: hostile, Left: 1,
		Types: []string{hostile}, Captcha: hostile, SiteKey: hostile, Came: []CameView{{hostile, hostile}}, Problem: hostile,
	},
	"games":        GamesPage{},
	"help":         HelpPage{Base: "/kist", Title: "Searching", Lang: English, Body: "<h1>Searching</h1>"},
	"help, found":  HelpPage{Query: "a", Found: []HelpHit{{"search", English, "Searching", "de", "b"}}},
	"hostile help": HelpPage{Title: hostile, Query: hostile, Found: []HelpHit{{hostile, hostile, hostile, hostile, hostile}}},
	"app":          AppPage{Title: "Home", Data: []byte(`{}`)},
	"app, prefix": AppPage{
		Base: "/kist", Title: "Home", Admin: true, Content: "https://content.example.org", Data: []byte(`{"a":1}`),
	},
	"hostile claim": ClaimPage{
		UserName: hostile,
		Errors:   ClaimErrors{Form: hostile, UserName: hostile, Password: hostile, Repeat: hostile},
	},
	"hostile claimed": ClaimedPage{UserName: hostile},
	"hostile message": MessagePage{Title: hostile, Text: hostile},
	"hostile delete":  DeletePage{Base: "/kist", Title: hostile, Kind: hostile},
	"hostile locked": LockedPage{
		Base: "/kist", Action: "/v/" + hostile, Button: hostile, Problem: Problem{Text: hostile},
	},
	"hostile card": CardPage{Address: hostile, Title: hostile, Owner: hostile, Kind: hostile},
	"hostile app": AppPage{
		Title: hostile, Data: must(json.Marshal(map[string]string{"a": hostile, "b": "<!--<script>"})),
	},
	"hostile base": MessagePage{Base: `javascript:alert(1)//"><b onclick=x>`, Title: "t"},
}

func render(t *testing.T, page Page) string {
	t.Helper()
	is := is.New(t)
	var out strings.Builder
	is.NoErr(Render(&out, English, page))
	return out.String()
}

var (
	tags       = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9]*)\b([^>]*)>`)
	attributes = regexp.MustCompile(`([a-zA-Z-]+)\s*=\s*"([^"]*)"`)
	scripts    = regexp.MustCompile(`(?s)<script\b([^>]*)>(.*?)</script>`)
)

// The claim page says how short a password may be before one is typed.
func TestClaimPageSaysTheShortest(t *testing.T) {
	is := is.New(t)
	is.True(strings.Contains(render(t, ClaimPage{Shortest: 8}), `id="password-hint">At least 8 characters.`))
}

func TestPagesKeepTheirPolicy(t *testing.T) {
	for name, page := range pages {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			html := render(t, page)

			for _, tag := range tags.FindAllStringSubmatch(html, -1) {
				is.True(!strings.EqualFold(tag[1], "style")) // no inline style sheet
				is.True(!strings.EqualFold(tag[1], "base"))
				is.True(!strings.EqualFold(tag[1], "img")) // nothing of the data became a tag
				for _, attribute := range attributes.FindAllStringSubmatch(tag[2], -1) {
					key, value := strings.ToLower(attribute[1]), strings.ToLower(attribute[2])
					is.True(key != "style")
					is.True(!strings.HasPrefix(key, "on"))
					is.True(key == "value" || !strings.Contains(value, "//")) // no other origin
					is.True(key == "value" || !strings.Contains(value, "javascript:"))
				}
			}
			for _, script := range scripts.FindAllStringSubmatch(html, -1) {
				if strings.Contains(script[1], `type="application/json"`) { // data, which is not run
					is.True(json.Valid([]byte(script[2])))
					is.True(!strings.Contains(script[2], "<"))
					continue
				}
				is.True(strings.Contains(script[1], "src="))
				is.Equal(strings.TrimSpace(script[2]), "")
			}
			is.True(!strings.Contains(html, "<no value>"))
		})
	}
}

func TestPagesFindTheirFiles(t *testing.T) {
	used := regexp.MustCompile(`(?:href|src)="([^"]*)/static/([^"]*)"`)
	for name, page := range pages {
		if name == "hostile base" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			found := used.FindAllStringSubmatch(render(t, page), -1)
			is.True(len(found) >= 2)
			for _, link := range found {
				_, ok := Static(link[2])
				is.True(ok)
			}
			if _, relative := page.(ReferencePage); relative {
				is.Equal(found[0][1], "../..")
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	is := is.New(t)
	for _, page := range pages {
		policy := page.Policy()
		is.True(strings.HasPrefix(policy, "default-src 'none'; "))
		is.True(!strings.Contains(policy, "unsafe"))
		is.True(!strings.ContainsAny(policy, "*\r\n"))
		for _, closed := range []string{"frame-ancestors 'none'", "base-uri 'none'", "style-src 'self'"} {
			is.True(strings.Contains(policy, closed))
		}
	}
	is.True(!strings.Contains(ClaimPage{}.Policy(), "script-src"))
	is.True(strings.Contains(ClaimPage{}.Policy(), "form-action 'self'"))
	is.True(strings.Contains(ReferencePage{}.Policy(), "script-src 'self'; "))
	is.True(strings.Contains(LockedPage{}.Policy(), "form-action 'self'"))
}

func TestClaimPage(t *testing.T) {
	t.Run("posts to its own address", func(t *testing.T) {
		is := is.New(t)
		html := render(t, ClaimPage{Base: "/kist"})
		is.True(strings.Contains(html, `method="post">`))
		is.True(!strings.Contains(html, "action="))
		for _, field := range []string{"username", "password", "repeat"} {
			is.True(strings.Contains(html, `name="`+field+`"`))
		}
		is.True(strings.Contains(html, "This link creates the first administrator. It works only once."))
		is.True(!strings.Contains(html, "aria-invalid"))
	})
	t.Run("says what was wrong beside the field", func(t *testing.T) {
		is := is.New(t)
		html := render(t, ClaimPage{UserName: "ann", Errors: ClaimErrors{Repeat: "The two passwords differ."}})
		is.Equal(strings.Count(html, `aria-invalid="true"`), 1)
		is.True(strings.Contains(html, `aria-describedby="repeat-error"`))
		is.True(strings.Contains(html, `id="repeat-error">The two passwords differ.<`))
		is.True(strings.Contains(html, `value="ann"`))
		is.Equal(strings.Count(html, " autofocus"), 1)
	})
	t.Run("keeps the origin in the post", func(t *testing.T) {
		is := is.New(t)
		is.True(strings.Contains(render(t, ClaimPage{}), `<meta name="referrer" content="same-origin">`))
	})
}

func TestClaimedPage(t *testing.T) {
	is := is.New(t)
	html := render(t, ClaimedPage{Base: "/kist", UserName: "ann"})
	is.True(strings.Contains(html, `href="/kist/keys?new"`))
	is.True(strings.Contains(html, `<a class="button main" href="/kist/">`)) // on into the app
}

// shellWords splits a command as a POSIX shell does, of whose syntax it knows quotes and backslashes. Outside of them,
// everything that means more to a shell is an error.
func shellWords(command string) (words []string, err error) {
	var word []byte
	begun := false
	end := func() {
		if begun {
			words = append(words, string(word))
		}
		word, begun = nil, false
	}
	for rest := command; rest != ""; rest = rest[1:] {
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "\\\n"):
			rest = rest[1:]
		case c == '\\' && len(rest) > 1:
			word, begun, rest = append(word, rest[1]), true, rest[1:]
		case c == '\'':
			text, after, ok := strings.Cut(rest[1:], "'")
			if !ok {
				return nil, errors.New("a quote is not closed")
			}
			word, begun, rest = append(word, text...), true, "'"+after
		case c == ' ':
			end()
		case strings.IndexByte("\n\t\"`$\\;&|<>()*?[]{}#!~", c) >= 0:
			return nil, fmt.Errorf("%q is not quoted", c)
		default:
			word, begun = append(word, c), true
		}
	}
	end()
	return words, nil
}

// A command with what was quoted is split into words, and run by a shell where there is one.
func TestQuotedIsOneWord(t *testing.T) {
	shell, noShell := exec.LookPath("sh")
	for _, nasty := range []string{"plain", "it's", "'; exit 3; '", "$(exit 3)`exit 3`", `a\`, "a b"} {
		t.Run(nasty, func(t *testing.T) {
			is := is.New(t)
			command := "printf " + quote("%s\n") + " \\\n" + quote(nasty) + " " + quote("x-api-key: "+nasty)
			words, err := shellWords(command)
			is.NoErr(err)
			is.Equal(words, []string{"printf", "%s\n", nasty, "x-api-key: " + nasty})
			if noShell != nil {
				return
			}
			//nolint:gosec // running what a reader would paste is the test
			out, err := exec.CommandContext(t.Context(), shell, "-c", command).Output()
			is.NoErr(err)
			is.Equal(string(out), nasty+"\nx-api-key: "+nasty+"\n")
		})
	}
}

type broken struct{}

var errBroken = errors.New("broken")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestRenderReportsTheWriter(t *testing.T) {
	is := is.New(t)
	is.True(errors.Is(Render(broken{}, English, MessagePage{}), errBroken))
}

func TestStatic(t *testing.T) {
	hashed := regexp.MustCompile(`^[a-z0-9-]+\.[0-9a-f]{10}\.(css|js|png|svg)$`)
	for _, s := range sources() {
		t.Run(s.logical, func(t *testing.T) {
			is := is.New(t)
			name, err := Name(s.logical)
			is.NoErr(err)
			is.True(hashed.MatchString(name))
			asset, ok := Static(name)
			is.True(ok)
			is.Equal(asset.Name, name)
			is.True(asset.Type != "")
			is.True(len(asset.Bytes()) > 0)
			is.True(regexp.MustCompile(`^"[!-~]+"$`).MatchString(asset.ETag))

			packed := asset.Gzip()
			is.Equal(packed == nil, asset.GzipETag == "") // a form and its tag come together
			if packed == nil {
				return
			}
			is.True(asset.GzipETag != asset.ETag)
			is.True(len(packed) < len(asset.Bytes()))
			r, err := gzip.NewReader(bytes.NewReader(packed))
			is.NoErr(err)
			plain, err := io.ReadAll(r)
			is.NoErr(err)
			is.True(bytes.Equal(plain, asset.Bytes()))
		})
	}
	t.Run("only under the present name", func(t *testing.T) {
		is := is.New(t)
		for _, name := range []string{"", "kist.css", "kist.0000000000.css", "static/kist.css", "../embed.go"} {
			_, ok := Static(name)
			is.True(!ok)
		}
		_, err := Name("nothing.css")
		is.True(err != nil)
	})
}

// What is ours asks nothing of another host; the name of the SVG format is not an address that is fetched.
func TestStaticFilesStayHome(t *testing.T) {
	for _, s := range sources() {
		if s.packed {
			continue
		}
		t.Run(s.logical, func(t *testing.T) {
			is := is.New(t)
			name, err := Name(s.logical)
			is.NoErr(err)
			asset, _ := Static(name)
			text := strings.ReplaceAll(string(asset.Bytes()), "http://www.w3.org/2000/svg", "")
			text = strings.ReplaceAll(text, `"https://"`, "") // the beginning of an address that someone typed
			for _, away := range []string{"://", "@import", "url(", "eval(", "innerHTML"} {
				is.True(!strings.Contains(text, away))
			}
		})
	}
}

// The app is all that its owner loads, but for what is shown: 75 KiB are allowed to every page of it.
func TestAppIsSmall(t *testing.T) {
	is := is.New(t)
	page := AppPage{Title: "Home", Data: []byte("{}")}
	html := pack([]byte(render(t, page)))
	total := len(html)
	names, err := page.Modules()
	is.NoErr(err)
	for _, file := range []string{"kist.css", "app.css", "app.js", "kist.svg", Lang("de").scriptName("app-text")} {
		name, err := Name(file)
		is.NoErr(err)
		names = append(names, name)
	}
	for _, name := range names {
		asset, _ := Static(name)
		if packed := asset.Gzip(); packed != nil {
			total += len(packed)
		} else {
			total += len(asset.Bytes())
		}
	}
	t.Logf("%d files, %d bytes", len(names)+1, total)
	is.True(total < 56<<10) // the rest is for other modules and the records of the page
}

func TestPagesAreSmall(t *testing.T) {
	sheet, err := Name("kist.css")
	if err != nil {
		t.Fatal(err)
	}
	code, err := Name("item.js")
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		switch page.(type) {
		case ReferencePage, AppPage:
			continue
		}
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			html := pack([]byte(render(t, page)))
			asset, _ := Static(sheet)
			script, _ := Static(code)
			total := len(html) + len(asset.Gzip())
			if _, ok := page.(UploadPage); ok {
				for _, file := range []string{"up.css", "up.js", "pow.js", "text.js", Lang("de").scriptName("up-text")} {
					name, err := Name(file)
					is.NoErr(err)
					asset, _ := Static(name)
					total += len(asset.Gzip())
				}
			} else {
				total += len(script.Gzip())
			}
			is.True(total < 15<<10)
		})
	}
}

// Text can be read in both themes and with every accent: 4.5 to 1 at least, as WCAG 2 asks of small text.
func TestContrast(t *testing.T) {
	is := is.New(t)
	read := func(logical string) string {
		name, err := Name(logical)
		is.NoErr(err)
		asset, _ := Static(name)
		return string(asset.Bytes())
	}
	token := regexp.MustCompile(`--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`)
	usual, accents := token.FindAllStringSubmatch(read("kist.css"), -1), regexp.MustCompile(`\[data-accent="([a-z]+)"\]\{[^}]*`).FindAllStringSubmatch(read("app.css"), -1)
	is.True(len(accents) > 0)
	for _, accent := range append(accents, []string{"", "usual"}) {
		for i, theme := range []string{"light", "dark"} {
			t.Run(accent[1]+", "+theme, func(t *testing.T) {
				is := is.New(t)
				colour := make(map[string]string)
				for _, found := range append(slices.Clone(usual), token.FindAllStringSubmatch(accent[0], -1)...) {
					colour[found[1]] = found[2+i]
				}
				for _, pair := range []string{
					"ink/paper", "ink/card", "ink/sunk", "soft/paper", "soft/card", "soft/sunk",
					"accent/paper", "accent/card", "warn/card", "warn/warn-tint", "accent-ink/accent", "accent-ink/accent-up",
					"code-keyword/sunk", "code-type/sunk", "code-string/sunk", "code-escape/sunk", "code-number/sunk", "code-comment/sunk",
					"code-meta/sunk", "code-function/sunk", "code-builtin/sunk", "code-attribute/sunk", "code-gone/sunk", "code-new/sunk",
				} {
					front, back, _ := strings.Cut(pair, "/")
					if got := contrast(luminance(is, colour[front]), luminance(is, colour[back])); got < 4.5 {
						t.Errorf("%s: %.2f", pair, got)
					}
				}
				is.True(contrast(luminance(is, colour["edge"]), luminance(is, colour["card"])) >= 3) // the edge of a field
			})
		}
	}
}

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }

func luminance(is *is.I, hex string) float64 {
	is.Helper()
	is.Equal(len(hex), 7)
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		is.NoErr(err)
		c := float64(v) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestOpenAPI(t *testing.T) {
	is := is.New(t)
	var schema struct {
		OpenAPI string
		Servers []struct{ URL string }
	}
	is.NoErr(json.Unmarshal(OpenAPI(), &schema))
	is.Equal(schema.OpenAPI, "3.0.3")
	is.Equal(schema.Servers[0].URL, "{base_url}")
}

// The first answer of a server waits for this once; starting does not.
func BenchmarkCatalogue(b *testing.B) {
	for b.Loop() {
		if _, err := newAssets(sources()); err != nil {
			b.Fatal(err)
		}
	}
}

// served is the file of a name without a hash.
func served(t *testing.T, logical string) *Asset {
	t.Helper()
	name, err := Name(logical)
	if err != nil {
		t.Fatal(err)
	}
	asset, ok := Static(name)
	if !ok {
		t.Fatalf("%s is not served", name)
	}
	return asset
}

// A page lists every script that its scripts import, under the name that the import has as it is served.
func TestScriptsImportByHashedNames(t *testing.T) {
	is := is.New(t)
	imported := regexp.MustCompile(`(?:from|import) ?['"]\./([^'"]*)['"]`)
	for _, module := range []string{"", "admin", "keys", "moving", "remote", "requests", "webhooks"} {
		html := render(t, AppPage{Base: "/kist", Module: module, Data: []byte("{}")})
		names, err := AppPage{Module: module}.Modules()
		is.NoErr(err)
		app, err := Name("app.js")
		is.NoErr(err)
		for _, name := range append(names, app) {
			is.Equal(strings.Count(html, "/kist/static/"+name), 1) // no script is asked for twice
			asset, ok := Static(name)
			is.True(ok)
			for _, found := range imported.FindAllStringSubmatch(string(asset.Bytes()), -1) {
				is.True(found[1] == app || strings.Contains(
					html, `<link rel="modulepreload" fetchpriority="low" href="/kist/static/`+found[1]+`">`,
				))
			}
		}
	}
	_, err := AppPage{Module: "nothing"}.Modules()
	is.True(err != nil)
}

// scriptSources are sources made of texts by name.
func scriptSources(scripts map[string]string) []source {
	var all []source
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		text := []byte(scripts[name])
		all = append(all, source{logical: name, read: func() ([]byte, error) { return text, nil }})
	}
	return all
}

// A changed module has a new name, and so have all scripts that import it, directly or not.
func TestChangedModuleRenamesItsImporters(t *testing.T) {
	is := is.New(t)
	scripts := map[string]string{
		"a.js": "import { b } from './b.js';\nimport './d.js';\n",
		"b.js": "import {\n  c,\n} from './c.js';\nexport const b = c;\n",
		"c.js": "export const c = 1;\n",
		"d.js": "export const from = 'd';\n",
	}
	before, err := newAssets(scriptSources(scripts))
	is.NoErr(err)
	a, b, c, d := before.byLogical["a.js"], before.byLogical["b.js"], before.byLogical["c.js"], before.byLogical["d.js"]
	is.Equal(a.modules, []string{c.Name, b.Name, d.Name})
	is.Equal(string(a.Bytes()), "import { b } from './"+b.Name+"';\nimport './"+d.Name+"';\n")
	is.True(strings.Contains(string(b.Bytes()), "from './"+c.Name+"'"))

	scripts["c.js"] = "export const c = 2;\n"
	after, err := newAssets(scriptSources(scripts))
	is.NoErr(err)
	for _, name := range []string{"a.js", "b.js", "c.js"} {
		is.True(after.byLogical[name].Name != before.byLogical[name].Name)
	}
	is.Equal(after.byLogical["d.js"].Name, d.Name)
}

func TestBadImportsAreRefused(t *testing.T) {
	for name, scripts := range map[string]map[string]string{
		"scripts import each other: a.js, b.js, a.js": {"a.js": "import './b.js';\n", "b.js": "import './a.js';\n"},
		"a.js imports b.js, which does not exist":     {"a.js": "import './b.js';\n"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			_, err := newAssets(scriptSources(scripts))
			is.Equal(fmt.Sprint(err), name)
		})
	}
	t.Run("two files of one name", func(t *testing.T) {
		is := is.New(t)
		one := scriptSources(map[string]string{"a.js": "1"})
		_, err := newAssets(append(one, one...))
		is.Equal(fmt.Sprint(err), `two static files are named "a.js"`)
	})
}
