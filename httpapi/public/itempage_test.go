package public_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi/apitest"
	"kist/httpapi/public"
	"kist/httpapi/web"
	"kist/kv/field"
	"kist/kv/kvtest/needs"
	"kist/kv/media"
	"kist/kv/people"
	"kist/kv/record"
)

// sampleView is an item of the kind with every part that a page can show.
func sampleView(k *record.Kind, body record.Body) public.Viewing {
	at := time.Date(2026, 11, 20, 16, 5, 0, 0, time.UTC)
	shown := &record.Shown{
		Record: record.Record{
			Kind: k, Created: at, Updated: at.Add(26 * time.Hour),
			Share: record.Share{Slug: "winter-light", Public: true},
		},
		TagList: []record.Tag{{Name: "photos", Color: "#D98A2B"}, {Name: "harbour", Color: "#3F7FD0"}},
	}
	return public.Viewing{
		Shown: shown, Body: body, Owner: people.User{Name: "ann", DisplayName: "Ann Lindqvist"},
		Address: "https://kist.example.org/v/winter-light", Open: true,
	}
}

func sampleFile(mimeType, name string) public.Viewing {
	v := sampleView(record.Files, &record.File{
		OriginalName: name, MimeType: mimeType, Size: 4_123_456,
		SHA256:      "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Description: "Seen from the pier on the first clear morning.\nThe tide was out.",
	})
	v.Raw, v.Download = "/x/winter-light", "/x/winter-light?download=1"
	return v
}

// samples are views of every kind and of every way to show a file.
func samples() map[string]public.Viewing {
	long := strings.Repeat("Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", 3)
	all := map[string]public.Viewing{
		"image": sampleFile("image/jpeg", "Résumé of the harbour, winter light.jpg"),
		"svg":   sampleFile("image/svg+xml", "plan.svg"),
		"video": sampleFile("video/mp4", "first-steps-in-the-garden.mp4"),
		"audio": sampleFile("audio/mpeg", "Grandmother tells of the flood.mp3"),
		"pdf":   sampleFile("application/pdf", "Contract.pdf"),
		"text":  sampleFile("text/yaml", "compose.yaml"),
		"other": sampleFile("application/zip", "photos 2026.zip"),
		"note": sampleView(
			record.Notes,
			&record.Note{
				Name: "Boiler reset, step by step", Content: apitest.SampleMarkdown, SourceURL: "https://example.org/boiler",
			},
		),
		"recipe": sampleView(record.Recipes, &record.Recipe{
			Name: "Pancakes", Description: "Thin ones, for four.", Ingredients: "- 2 eggs\n- 250 ml milk\n- 120 g flour\n- a " +
				"pinch of salt\n- butter",
			Instructions: "1. Whisk eggs, milk, flour and salt. Let it rest for 20 minutes.\n2. Fry thinly in butter, a " +
				"minute on each side.\n3. Eat at once.",
		}),
		"snippet": sampleView(
			record.Snippets, &record.Snippet{Name: "retry with back-off", Language: "go", Content: apitest.SampleGo},
		),
		"bookmark": sampleView(
			record.Bookmarks,
			&record.Bookmark{
				URL: "https://go.dev/ref/mem", Name: "The Go memory model", Description: "What one goroutine sees of another.",
			},
		),
		"game": sampleView(record.Games, &record.Game{
			Name: "Outer Wilds", Platform: "Steam Deck", Status: "playing", Rating: 9, Playtime: 1265,
			Notes: "No spoilers, please.", StoreURL: "https://shop.example.org/outer-wilds",
		}),
		"link": sampleView(
			record.Links,
			&record.Link{
				URL: "https://example.org/a/long/path?with=a&query=" + strings.Repeat("x", 180), Description: "Tickets",
			},
		),
		"long": sampleFile("application/octet-stream", long+".bin"),
		"rtl": sampleView(
			record.Notes,
			&record.Note{
				Name: "רשימת קניות לשבת", Content: "חלה ויין, גם 2 ק״ג תפוחים.\n\n- מלח\n- קמח מלא\n\nAnd bread in English.",
			},
		),
	}
	text := all["text"]
	text.Text = []byte(strings.Repeat(
		"services:\n  kist: # the chest\n    image: \"kist:latest\"\n    ports: [7080:7080]\n    read_only: true\n    "+
			"environment:\n      KIST_BASE_URL: https://kist.example.org\n",
		8,
	))
	all["text"] = text
	own := all["snippet"]
	shown := *own.Shown
	shown.Limit, shown.Expires = 10, time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)
	own.Own, own.Left, own.Open, own.Shown = true, 3, false, &shown
	own.Raw = "/x/winter-light"
	all["own"] = own
	longView := all["long"]
	tagged := *longView.Shown
	tagged.TagList = []record.Tag{{Name: long, Color: "#8A5BC7"}, {Name: "a"}, {Name: "صور العائلة", Color: "#D98A2B"}}
	longView.Shown = &tagged
	all["long"] = longView
	return all
}

func pageServer() *web.Site {
	return &web.Site{Config: web.Config{Base: "https://kist.example.org/sub"}, Renders: web.NewRenders()}
}

func renderPage(t *testing.T, p embed.Page) string {
	t.Helper()
	is := is.New(t)
	var b strings.Builder
	is.NoErr(embed.Render(&b, embed.English, p))
	return b.String()
}

// TestGallery writes pages for people to look at, with -gallery.
func TestGallery(t *testing.T) {
	t.Parallel()
	if *apitest.Gallery == "" {
		needs.LeaveOut(t, "pages to look at", "no -gallery")
	}
	is := is.New(t)
	is.NoErr(os.MkdirAll(filepath.Join(*apitest.Gallery, "static"), 0o755))
	write := func(name string, p embed.Page) {
		html := renderPage(t, p)
		for _, found := range regexp.MustCompile(`\./static/([^"]+)`).FindAllStringSubmatch(html, -1) {
			asset, ok := embed.Static(found[1])
			is.True(ok)
			is.NoErr(os.WriteFile(filepath.Join(*apitest.Gallery, "static", found[1]), asset.Bytes(), 0o600))
		}
		is.NoErr(os.WriteFile(filepath.Join(*apitest.Gallery, name+".html"), []byte(html), 0o600))
	}
	is.NoErr(os.WriteFile(filepath.Join(*apitest.Gallery, "picture.svg"), []byte(apitest.SamplePicture), 0o600))
	for name, v := range samples() {
		p, err := public.ItemPage(pageServer(), v)
		is.NoErr(err)
		p.Base = "."
		if p.File != nil && p.File.Show == embed.ShowImage {
			p.Raw = "picture.svg"
		}
		write(name, p)
	}
	game := samples()["game"].Body.(*record.Game)
	games := public.GamesPage(pageServer(), embed.English, people.User{Name: "ann"}, "", []public.ListedGame{
		{Game: game, Address: "/v/a"},
		{Game: &record.Game{Name: "Chess", Platform: "board", Status: "playing", Rating: -1, Playtime: -1}, Address: "/v/b"},
		{
			Game:    &record.Game{Name: "Elden Ring", Platform: "PC", Status: "backlog", Rating: -1, Playtime: 300},
			Address: "/v/c",
		},
	})
	games.Base = "."
	write("games", games)
	write("nogames", embed.GamesPage{Base: ".", Owner: "Ann"})
	write("locked", embed.LockedPage{Base: ".", Action: "/v/abc", Button: "Unlock"})
	write(
		"wrong",
		embed.LockedPage{
			Base: ".", Action: "/v/abc", Button: "Unlock", Problem: embed.Problem{Text: "The password is wrong."},
		},
	)
	write("card", embed.CardPage{Base: ".", Title: "Boiler reset, step by step", Owner: "Ann", Kind: "Note"})
	write("home", embed.HomePage{Base: "."})
}

func TestItemPages(t *testing.T) {
	t.Parallel()
	for name, v := range samples() {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			p, err := public.ItemPage(pageServer(), v)
			is.NoErr(err)
			is.Equal(p.Base, "/sub")
			html := renderPage(t, p)
			is.True(strings.Contains(html, "Ann Lindqvist"))
			is.True(strings.Contains(html, `<svg class="qr"`))
			is.Equal(strings.Contains(html, "og:title"), v.Open)
			is.Equal(strings.Contains(html, "Views left for visitors: 3 of 10."), name == "own")
			is.True(!strings.Contains(html, " style="))
			is.True(!strings.Contains(html, "ZgotmplZ"))
			is.True(len(html) > 1000)
		})
	}
}

func TestEveryKindHasAPage(t *testing.T) {
	t.Parallel()
	for _, k := range record.Kinds {
		is := is.New(t)
		p, err := public.ItemPage(
			pageServer(), public.Viewing{Shown: &record.Shown{Record: record.Record{Kind: k}}, Body: k.New()},
		)
		is.NoErr(err)
		is.True(p.Kind != "")
		is.True(renderPage(t, p) != "")
	}
}

// A cellar is a kind of which no code knows more than its fields.
type cellar struct {
	Name, Region, Remarks, Text, Shop, Colour string
	Bottles                                   int64
	Open                                      bool
	Until                                     time.Time
}

func (b *cellar) Fields(f *field.Set) {
	f.Ruled("title", &b.Name, record.CleanTitle, "", record.MaxName, field.Required, field.Filled)
	f.Text("homeRegion", &b.Region, 64)
	f.Text("remarks", &b.Remarks, record.MaxDescription)
	f.LongText("text", &b.Text, record.MaxContent)
	f.URL("shopUrl", &b.Shop)
	field.MaybeChoice(f, "colour", &b.Colour, []string{"red", "off_white"})
	f.MaybeNumber("bottles", &b.Bottles, 0, 99)
	f.Bool("open", &b.Open)
	f.Time("drinkUntil", &b.Until)
}

func (b *cellar) Title() string { return b.Name }

func (b *cellar) Named() string { return b.Name }

var cellars = &record.Kind{Code: 200, Name: "cellar", Path: "cellars", Shape: 1, Counter: "views", Limit: "maxViews", New: func() record.Body {
	return &cellar{Bottles: -1}
}}

// The page of a kind without a page of its own shows its fields.
func TestPageFollowsFromTheFields(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	body := &cellar{
		"Margaux", "Médoc", "Under the stairs.", "**Old** ones", "https://example.org/wine", "off_white", 0, true,
		time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC),
	}
	p, err := public.ItemPage(pageServer(), sampleView(cellars, body))
	is.NoErr(err)
	is.Equal(p.Kind, "Cellar")
	is.Equal(
		p.Fields.Facts,
		[]embed.Fact{
			{Label: "Home region", Value: "Médoc"},
			{Label: "Colour", Value: "Off white"},
			{Label: "Bottles", Value: "0"},
			{Label: "Open", Value: "Yes"},
			{Label: "Drink until", Value: "1 May 2031, 00:00 UTC"},
		},
	)
	html := renderPage(t, p)
	for _, part := range []string{
		`<h1 dir="auto">Margaux</h1>`, `<dt>Home region</dt><dd dir="auto">Médoc</dd>`,
		`<h2 id="field-remarks">Remarks</h2>` + "\n" + `<p class="text" dir="auto">Under the stairs.</p>`,
		`<h2 id="field-text">Text</h2>` + "\n" + `<div class="prose"><p><strong>Old</strong> ones</p>`,
		`<a class="button" href="https://example.org/wine" rel="nofollow noopener noreferrer ugc"><span>Shop url: <bdi>example.org</bdi></span></a>`,
	} {
		if !strings.Contains(html, part) {
			t.Errorf("no %s in %s", part, html)
		}
	}
	p, err = public.ItemPage(pageServer(), sampleView(cellars, cellars.New()))
	is.NoErr(err)
	is.Equal(*p.Fields, embed.FieldsView{Facts: []embed.Fact{{Label: "Open", Value: "No"}}})
}

func TestFilePreviews(t *testing.T) {
	t.Parallel()
	for mimeType, want := range map[string]embed.Show{
		"image/png": embed.ShowImage, "image/svg+xml": embed.ShowImage, "image/jxl": "", "video/mp4": embed.ShowVideo,
		"video/x-matroska": "", "audio/flac": embed.ShowAudio, "application/pdf": embed.ShowPDF,
		"text/html": "", "text/plain": "", "application/zip": "", "": "",
	} {
		is := is.New(t)
		v := sampleFile(mimeType, "a.bin")
		p, err := public.ItemPage(pageServer(), v)
		is.NoErr(err)
		is.Equal(p.File.Show, want) // of the media type
		is.Equal(p.Raw != "", media.Inline(mimeType))
		v.Raw = ""
		p, err = public.ItemPage(pageServer(), v)
		is.NoErr(err)
		is.Equal(p.File.Show, embed.Show("")) // nothing without an address
	}
}

func TestTextPreview(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	v := sampleFile("text/html", "a.html")
	v.Text, v.TextGoesOn = []byte("<script>alert(1)</script>\nhalf a li"), true
	p, err := public.ItemPage(pageServer(), v)
	is.NoErr(err)
	is.Equal(p.File.Show, embed.ShowText)
	is.True(p.File.Text.Cut)
	is.Equal(p.File.Text.Lines, 1) // the last line was cut
	is.Equal(p.Raw, "")            // it is not shown by browsers
	is.True(!strings.Contains(string(p.File.Text.Body), "<script"))

	v.TextGoesOn = false
	p, err = public.ItemPage(pageServer(), v)
	is.NoErr(err)
	is.True(!p.File.Text.Cut)
	is.Equal(p.File.Text.Lines, 2)
	is.Equal(string(public.WholeLines([]byte("cut \xe2\x82"))), "cut ")
}

// Only an item that is open has a picture for other sites, and only its
// thumbnail.
func TestPicture(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	v := sampleFile("image/jpeg", "a.jpg")
	v.Thumb = "https://kist.example.org/t/winter-light"
	p, err := public.ItemPage(pageServer(), v)
	is.NoErr(err)
	is.Equal(p.Picture, v.Thumb)
	v.Thumb = "" // as of one that is not open
	p, err = public.ItemPage(pageServer(), v)
	is.NoErr(err)
	is.Equal(p.Picture, "")
}

func TestHostileFieldsStayText(t *testing.T) {
	t.Parallel()
	const script = `"><img src=x onerror=alert(1)><script>alert(1)</script>`
	for _, text := range []string{
		script, "javascript:alert(1)", "JavaScript://example.org/%0aalert(1)", "data:text/html,x", "vbscript:x",
		"//evil.example",
	} {
		for k, body := range map[*record.Kind]record.Body{
			record.Files:     &record.File{OriginalName: text, MimeType: text, SHA256: text, Description: text},
			record.Bookmarks: &record.Bookmark{URL: text, Name: text, Description: text, ImageURL: text},
			record.Notes: &record.Note{
				Name: text, Content: "[a](" + text + ") ![b](" + text + ") <" + text + ">\n\n" + text, SourceURL: text,
			},
			record.Snippets: &record.Snippet{Name: text, Content: text, Language: text},
			record.Recipes:  &record.Recipe{Name: text, Description: text, Ingredients: text, Instructions: text},
			record.Games: &record.Game{
				Name: text, Platform: text, CoverURL: text, StoreURL: text, Notes: text, Status: record.GameStatus(text),
			},
			record.Links: &record.Link{URL: text, Description: text},
			cellars:      &cellar{text, text, text, text, text, text, 1, true, time.Time{}},
		} {
			v := sampleView(k, body)
			v.Shown.TagList = []record.Tag{{Name: text, Color: text}}
			v.Owner.DisplayName, v.Text = text, []byte(text)
			p, err := public.ItemPage(pageServer(), v)
			if err != nil {
				t.Fatal(err)
			}
			html := renderPage(t, p)
			for _, bad := range []string{
				`href="javascript:`, `href="JavaScript:`, `href="data:`, `href="vbscript:`, "<img", "onerror=alert(1)>", "<script>",
				`src="//`,
			} {
				if strings.Contains(html, bad) {
					t.Errorf("%s: %q leaves %s", k.Name, text, bad)
				}
			}
		}
	}
}

func TestGamesPage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := public.GamesPage(pageServer(), embed.English, people.User{Name: "ann"}, "https://kist.example.org/g/ann", []public.ListedGame{
		{Game: &record.Game{Name: "A", Status: "backlog", Rating: -1, Playtime: -1}, Address: "/v/a"},
		{Game: &record.Game{Name: "B", Status: "playing", Rating: 10, Playtime: 60}, Address: "/v/b"},
		{Game: &record.Game{Name: "C", Rating: -1, Playtime: -1}, Address: "javascript:alert(1)"},
	})
	is.Equal(len(p.Groups), 3)
	is.Equal(p.Groups[0].Name, "Playing")
	is.Equal(p.Groups[0].Games[0].Rating, "10 of 10")
	is.Equal(p.Groups[2].Name, "Others")
	html := renderPage(t, p)
	is.True(strings.Contains(html, `<a href="/v/a">A</a>`))
	is.True(!strings.Contains(html, "javascript:"))
}
