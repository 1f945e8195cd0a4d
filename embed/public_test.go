package embed

import (
	"html"
	"html/template"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

// fill sets every text that can be reached from v, those that are HTML already
// aside, and every number and flag.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.String:
		if v.Type() != reflect.TypeFor[template.HTML]() {
			v.SetString(text)
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Bool:
		v.SetBool(true)
	}
}

var plainTexts = []string{
	hostile, "javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,<script>alert(1)</script>",
	" \tjavascript:alert(1)", "' onload=alert(1) x='", "\u202e</title>",
}

// ownScript matches the attributes of a script that the server has itself.
var ownScript = regexp.MustCompile(`src="/kist/static/(?:page|recipe)\.`)

// Nothing that someone wrote runs, styles or is fetched, wherever it stands.
func TestPublicPagesTakeNothingActive(t *testing.T) {
	for _, text := range plainTexts {
		for _, show := range []Show{ShowImage, ShowVideo, ShowAudio, ShowPDF, ShowText, ""} {
			var item ItemPage
			var games GamesPage
			fill(reflect.ValueOf(&item).Elem(), text)
			fill(reflect.ValueOf(&games).Elem(), text)
			item.Base, games.Base = "/kist", "/kist"
			item.File.Show = show
			for _, page := range []Page{item, games} {
				out := render(t, page)
				for _, tag := range tags.FindAllStringSubmatch(out, -1) {
					name := strings.ToLower(tag[1])
					if name == "style" || name == "base" || name == "object" || name == "embed" {
						t.Errorf("%q: a tag %s", text, name)
					}
					rest := attributes.ReplaceAllStringFunc(tag[2], func(a string) string {
						found := attributes.FindStringSubmatch(a)
						key, value := strings.ToLower(found[1]), strings.ToLower(strings.TrimSpace(html.UnescapeString(found[2])))
						if key == "style" || key == "srcdoc" || strings.HasPrefix(key, "on") {
							t.Errorf("%q: attribute %s", text, key)
						}
						if key != "content" && key != "alt" && key != "title" && key != "aria-label" &&
							(strings.HasPrefix(value, "javascript:") || strings.HasPrefix(value, "data:")) {
							t.Errorf("%q: %s=%q", text, key, value)
						}
						return ""
					})
					if strings.ContainsAny(rest, "='\"") {
						t.Errorf("%q: left over in a tag: %q", text, rest)
					}
				}
				for _, script := range scripts.FindAllStringSubmatch(out, -1) {
					if !ownScript.MatchString(script[1]) || strings.TrimSpace(script[2]) != "" {
						t.Errorf("%q: script %q", text, script[0])
					}
				}
			}
			if policy := item.Policy(); policy != (ItemPage{}).Policy() {
				t.Errorf("%q: policy %q", text, policy)
			}
		}
	}
}

func TestItemPagePolicy(t *testing.T) {
	is := is.New(t)
	policy := ItemPage{Origin: "https://content.example.org:8443"}.Policy()
	for _, part := range []string{
		"img-src 'self' data: https://content.example.org:8443;", "media-src 'self' https://content.example.org:8443;",
		"frame-src 'self' https://content.example.org:8443;", "script-src 'self';",
	} {
		is.True(strings.Contains(policy, part))
	}
	for _, bad := range []string{
		"https://", "https://a/b", "https://a;script-src *", "https://a b", "*", "https://*", "javascript:alert(1)",
		"https://a'", "ftp://a", "https://user@a",
	} {
		is.Equal(ItemPage{Origin: bad}.Policy(), ItemPage{}.Policy())
	}
	is.True(!strings.Contains(ItemPage{}.Policy(), "unsafe"))
}

func TestItemPageTellsOthersOnlyWhenOpen(t *testing.T) {
	is := is.New(t)
	item := ItemPage{
		Name: "Boiler", Title: "The code is 4711", Address: "https://kist.home/v/a", Picture: "https://kist.home/t/a",
		Description: "a\n\nb " + strings.Repeat("ü", 300),
	}
	head := func() string {
		head, _, _ := strings.Cut(render(t, item), "</head>")
		return head
	}
	closed := head()
	is.True(!strings.Contains(closed, "og:") && !strings.Contains(closed, "twitter:") &&
		!strings.Contains(closed, `name="description"`))
	is.True(strings.Contains(closed, `<link rel="canonical" href="https://kist.home/v/a">`))
	item.Open = true
	open := head()
	is.True(!strings.Contains(closed+open, "4711"))
	for _, part := range []string{
		`property="og:title" content="Boiler"`, `property="og:url" content="https://kist.home/v/a"`, `property="og:image" content="https://kist.home/t/a"`,
		`property="og:description" content="a b ü`, `name="twitter:card" content="summary_large_image"`,
	} {
		is.True(strings.Contains(open, part))
	}
	is.True(len(item.Summary()) < 210)
}

func TestItemPageTellsOnlyTheOwnerOfViews(t *testing.T) {
	is := is.New(t)
	item := ItemPage{Left: 3, Limit: 10}
	is.True(!strings.Contains(render(t, item), "Views left"))
	item.Own = true
	is.True(strings.Contains(render(t, item), "Views left for visitors: 3 of 10."))
	item.Limit = 0
	is.True(!strings.Contains(render(t, item), "Views left"))
}

func TestLockedPage(t *testing.T) {
	is := is.New(t)
	page := render(
		t, LockedPage{Base: "/kist", Action: "/v/abc", Button: "Unlock", Problem: Problem{Text: "The password is wrong."}},
	)
	is.True(strings.Contains(page, `<form class="fields" method="post" action="/kist/v/abc">`))
	is.True(strings.Contains(page, `name="password"`) && strings.Contains(page, `aria-invalid="true"`))
	is.True(strings.Contains(page, `role="alert"`))
	is.True(!strings.Contains(
		render(t, LockedPage{Action: "/v/abc", Problem: Problem{Text: "Wait a minute.", Wait: true}}), "aria-invalid",
	))
	is.True(!strings.Contains(render(t, LockedPage{}), "alert"))
}

func TestDot(t *testing.T) {
	is := is.New(t)
	is.Equal(Chip{Color: "#3F7fd0"}.Dot(), "#3F7fd0")
	for _, none := range []string{"", "#fff", "red", "#3F7fdg", `#3F7fd"`, "#3F7fd00"} {
		is.Equal(Chip{Color: none}.Dot(), "")
	}
}

// The page of an upload link works as a plain form, lets in no provider that it does not need, and writes on the
// owner's colour in what can be read there.
func TestUploadPage(t *testing.T) {
	is := is.New(t)
	page := UploadPage{
		Base: "/kist", Slug: "abc", Title: "Photos", Owner: "Ann", FileSize: "1 MB", Left: 2,
		Types: []string{"image/*", ".pdf"}, Color: "#0F6B5C", AtOnce: 300,
	}
	html := render(t, page)
	is.True(strings.Contains(html, `method="post" enctype="multipart/form-data" action="/kist/up/abc"`))
	is.True(strings.Contains(html, `accept="image/*,.pdf"`))
	is.True(strings.Contains(html, `fill="#0F6B5C"`))
	is.True(strings.Contains(html, "<li>At most 1 MB per file.</li>\n<li>Allowed: Pictures, .pdf</li>\n"))
	is.True(strings.Contains(html, ">You can send 2 more files.</li>"))
	is.True(!strings.Contains(html, "checks that you are not a bot"))
	is.True(strings.Contains(html, "<noscript><p class=\"soft\">At most 300 files at a time."))
	is.True(!strings.Contains(page.Policy(), "http"))
	page.Captcha = "pow"
	is.True(strings.Contains(render(t, page), "checks that you are not a bot"))
	is.True(!strings.Contains(page.Policy(), "http"))
	page.Captcha = "turnstile"
	is.True(strings.Contains(page.Policy(), "frame-src https://challenges.cloudflare.com;"))
	page.Left = 0
	is.True(!strings.Contains(render(t, page), "<form"))
	for color, ink := range map[string]string{
		"#FFFFFF": "#000000", "#000000": "#FFFFFF", "#0F6B5C": "#FFFFFF", "#FFFF00": "#000000", "#777777": "#000000",
		"red": "", "": "",
	} {
		is.Equal(UploadPage{Color: color}.Ink(), ink) // on color
	}
}
