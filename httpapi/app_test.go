package httpapi_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/field"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

var startData = regexp.MustCompile(`(?s)<script type="application/json" id="start">(.*?)</script>`)

// browse asks for a page as a browser does.
func browse(a *apitest.App, path string) *apitest.Answer {
	a.Helper()
	return a.Do(apitest.Request{Method: "GET", Path: path, Header: http.Header{"Accept": {"text/html"}}})
}

// first returns the data that came with a page under a name.
func first(g *apitest.Answer, name string) any {
	g.App.Helper()
	found := startData.FindSubmatch(g.Body)
	if found == nil {
		g.App.Fatalf("no data in %s", apitest.CutText(g.Body))
	}
	var start struct{ Answers map[string]any }
	g.App.NoErr(json.Unmarshal(found[1], &start))
	return start.Answers[name]
}

// TestAppAddresses: every page of the app is there for its owner, with what it
// shows first, and sends everyone else to sign in and back.
func TestAppAddresses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Post("/api/v1/notes", map[string]any{"title": "Shopping", "content": "</script><!-- milk"}).Want(201)
	uploads := a.As(a.AddKey(a.User, people.ScopeUpload))
	for _, p := range httpapi.AppPages() {
		path := strings.NewReplacer("{id}", "new", "{slug}", "new").Replace(p.Path)
		page := browse(a, path).Want(200)
		is.Equal(page.Header.Get("Content-Security-Policy"), embed.AppPage{}.Policy())
		is.Equal(page.Header.Get("Cache-Control"), "no-store")
		is.True(first(page, "me") != nil)
		is.True(first(page, "tags") != nil)
		is.Equal(bytes.Count(page.Body, []byte("</script>")), 3) // none of the data's

		for _, stranger := range []*apitest.Answer{a.Visit(path + "?q=a+b"), browse(uploads, path+"?q=a+b")} {
			stranger.Want(303)
			is.Equal(stranger.Header.Get("Location"), "/login?next="+strings.ReplaceAll(path, "/", "%2F")+"%3Fq%3Da%2Bb")
		}
	}
	home := browse(a, "/")
	notes := first(home, "notes").(map[string]any)
	is.Equal(notes["total"], 1.0)
	is.True(first(home, "files") != nil)
	browse(a, "/notes/none").Want(200) // the script says that there is none
}

// TestAppFirstAnswers: what comes with a page is what the API answers to its
// caller, narrowed as the address says.
func TestAppFirstAnswers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for i := range 3 {
		a.Post(
			"/api/v1/notes",
			map[string]any{
				"title": fmt.Sprint("Note ", i), "content": strings.Repeat("long ", 1000),
				"tags": []string{[]string{"odd", "even"}[i%2]},
			},
		).Want(201)
	}
	slug := a.Post("/api/v1/shorten", map[string]any{"originalUrl": "https://go.dev"}).Want(201).Text("data.slug")

	list := first(browse(a, "/notes?tag=odd"), "notes").(map[string]any)
	is.Equal(list["total"], 2.0)
	one := list["data"].([]any)[0].(map[string]any)
	is.Equal(len(one["content"].(string)), 300) // lists are brief
	is.Equal(first(browse(a, "/notes?sort=nonsense"), "notes"), nil)
	is.Equal(first(browse(a, "/links/"+slug), "shorten/{id}").(map[string]any)["data"].(map[string]any)["slug"], slug)
	is.Equal(first(browse(a, "/search?q=Note+1"), "search").(map[string]any)["total"], 1.0)

	is.True(first(browse(a, "/admin"), "admin/users") != nil)
	member := a.As(a.AddKey(a.AddUser("ben", people.Member), people.ScopeAdmin))
	is.Equal(first(browse(member, "/admin"), "admin/users"), nil)
	is.Equal(first(browse(member, "/notes"), "notes").(map[string]any)["total"], 0.0)
	reads := a.As(a.AddKey(a.User, people.ScopeRead))
	is.Equal(first(browse(reads, "/keys"), "keys"), nil)
}

// TestAppWithManyTags: they weigh on no page, and are there when the script
// has asked for them.
func TestAppWithManyTags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for i := range 10 {
		var names []string
		for j := range 60 {
			names = append(names, fmt.Sprintf("tag %d of many %d", i, j))
		}
		a.Post("/api/v1/notes", map[string]any{"content": "x", "tags": names}).Want(201)
	}
	page := browse(a, "/notes")
	is.Equal(first(page, "tags"), nil)
	is.True(len(page.Body) < 60_000)
}

// TestFormsMatchTheDocument: a form has fields that its kind takes, and their bounds
// and choices as the API document gives them.
func TestFormsMatchTheDocument(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	type schema struct {
		AllOf []struct {
			Ref string `json:"$ref"`
		}
		Required   []string
		Enum       []any
		Minimum    *int64
		Maximum    *int64
		MaxLength  int
		Properties map[string]schema
	}
	var document struct {
		Components struct{ Schemas map[string]schema }
	}
	is.NoErr(json.Unmarshal(embed.OpenAPI(), &document))
	all := document.Components.Schemas
	var came struct{ Kinds []record.View }
	text := startData.FindSubmatch(browse(apitest.Start(t), "/").Want(200).Body)[1]
	text = regexp.MustCompile(`"choices":\{[^}]*\}`).ReplaceAllFunc(text, func(object []byte) []byte { // the names alone
		names := regexp.MustCompile(`"(\w+)":"([^"]*)"`).FindAllSubmatch(object[len(`"choices":`):], -1)
		list := make(record.Choices, len(names))
		for i, n := range names {
			list[i] = record.Choice{Value: string(n[1]), Words: string(n[2])}
		}
		out, err := json.Marshal([]record.Choice(list))
		is.NoErr(err)
		return append([]byte(`"choices":`), out...)
	})
	is.NoErr(json.Unmarshal(text, &came))
	is.Equal(len(came.Kinds), len(all["ItemKind"].Enum))
	for _, v := range came.Kinds {
		form := all[web.Title(v.Name)+"Create"]
		if v.Name == record.Files.Name { // which is created by its upload
			form = all["FileEdit"]
		}
		shown := make(map[string]bool)
		for _, in := range v.Inputs {
			shown[in.Name] = true
			property, ok := form.Properties[in.Name]
			if !ok {
				t.Errorf("the API takes no %s of a %s", in.Name, v.Name)
			}
			if property.Maximum != nil && *property.Maximum == field.MaxCount { // no help
				property.Maximum = nil
			}
			is.Equal(in.Min, property.Minimum)
			is.Equal(in.Max, property.Maximum)
			is.Equal(in.MaxLength, property.MaxLength)
			var choices record.Choices
			for _, of := range property.AllOf {
				for _, choice := range all[strings.TrimPrefix(of.Ref, web.SchemasPath)].Enum {
					if choice != nil { // which stands for none
						choices = append(choices, record.Choice{Value: choice.(string), Words: record.Spoken(choice.(string))})
					}
				}
			}
			is.Equal(in.Choices, choices)
		}
		for _, required := range form.Required {
			is.True(shown[required])
		}
	}
}

func TestListsCanBeBrief(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	long := strings.Repeat("é", 400)
	for path, members := range map[string]string{
		"notes": "content", "snippets": "content", "recipes": "ingredients instructions",
	} {
		body := map[string]any{"title": "t"}
		for name := range strings.FieldsSeq(members) {
			body[name] = long
		}
		id := a.Post("/api/v1/"+path, body).Want(201).Text("data.id")
		for name := range strings.FieldsSeq(members) {
			is.Equal(a.Get("/api/v1/"+path+"?brief=true").Want(200).Text("data.0."+name), strings.Repeat("é", 300))
			is.Equal(a.Get("/api/v1/"+path+"?brief=false").Want(200).Text("data.0."+name), long)
			is.Equal(a.Get("/api/v1/"+path+"/"+id).Want(200).Text("data."+name), long) // it is cut for the list alone
		}
	}
	a.Get("/api/v1/notes?brief=perhaps").Want(400)
}

var onDemand = regexp.MustCompile(`/static/(account|activity|admin|awake|backups|board|bookmarks|bulk|cards|collections|expiry|faces|help|home|house|keys|kind|live|moving|news|own|picker|pictures|poster|remote|replace|requests|search|security|settings|share|tags|ticks|tiles|trash|tus|uploads|versions|waiting|webhooks|welcome|zoom)\b`)

// loadsLater are the modules of onDemand that a page loads without being asked, or for a part of it that is opened.
var loadsLater = map[string][]string{
	"/": {"tiles", "welcome"}, "/account": {"activity", "cards"}, "/account/security": {"account", "activity", "keys"}, "/keys": {"account"}, "/admin": {"backups"},
}

// TestAppIsLight: a page full of records, whichever it is, takes less than
// 75 KiB of scripts and styles, which are kept for good.
func TestAppIsLight(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for i := range 60 {
		a.Post(
			"/api/v1/notes",
			map[string]any{
				"title": fmt.Sprint("Note ", i), "content": strings.Repeat(fmt.Sprint("word", i*7919%1000, " "), 500),
				"tags": []string{fmt.Sprint("tag", i%9)},
			},
		).Want(201)
		a.Post(
			"/api/v1/bookmarks",
			map[string]any{"url": fmt.Sprint("https://example.org/", i*7919), "title": fmt.Sprint("Bookmark ", i)},
		).Want(201)
	}
	_, link := a.Ask(map[string]any{"description": strings.Repeat("Please give us all you took. ", 9)})
	for i := range 60 {
		a.Leave(
			link, nil, map[string]string{"name": fmt.Sprint("Guest ", i), "message": fmt.Sprint("Here you are, number ", i)},
			apitest.File(fmt.Sprintf("IMG_%d.jpg", i*7919), "", fmt.Sprint("picture ", i)),
		).Want(201)
		a.Ask(map[string]any{"title": fmt.Sprint("Photos ", i)})
	}
	for _, p := range httpapi.AppPages() {
		path := strings.NewReplacer("{id}", "new", "{slug}", "new").Replace(p.Path)
		got := a.Do(apitest.Request{Method: "GET", Path: path, Header: http.Header{"Accept-Encoding": {"gzip"}}}).Want(200)
		is.Equal(got.Header.Get("Content-Encoding"), "gzip")
		r, err := gzip.NewReader(bytes.NewReader(got.Body))
		is.NoErr(err)
		page, err := io.ReadAll(r)
		is.NoErr(err)
		is.True(path != "/notes" || bytes.Contains(page, []byte("Note 59")))
		total := len(got.Body)
		files := regexp.MustCompile(`/static/[a-z0-9.-]+\.(?:css|js|svg)`).FindAllString(string(page), -1)
		is.True(len(files) >= 4)
		slices.Sort(files)
		for _, file := range slices.Compact(files) { // a browser asks for each once
			if m := onDemand.FindStringSubmatch(file); m != nil && m[1] != p.Module && (!p.List || !slices.Contains([]string{"faces", "kind", "tiles"}, m[1])) &&
				!slices.Contains(loadsLater[p.Path], m[1]) {
				continue // named here, and loaded by another page or with a large file
			}
			asset := a.Do(apitest.Request{
				Method: "GET", Path: file, Anyone: true, Header: http.Header{"Accept-Encoding": {"gzip"}},
			}).Want(200)
			is.Equal(asset.Header.Get("Cache-Control"), "public, max-age=31536000, immutable")
			total += len(asset.Body)
		}
		t.Logf("%s: %d bytes, %d of them the page", path, total, len(got.Body))
		is.True(total-len(got.Body) < 75<<10) // its scripts and styles
	}
}

// TestUnasked: browsers and search engines ask for these files on their own.
func TestUnasked(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	icon := a.Visit("/favicon.ico").Want(303)
	is.Equal(a.Visit(icon.Header.Get("Location")).Want(200).Header.Get("Content-Type"), "image/png")
	is.True(strings.Contains(string(a.Visit("/robots.txt").Want(200).Body), "User-agent: *"))
}

func TestManifest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Base = "https://kist.example.org/kist" })
	got := a.Visit("/manifest.webmanifest").Want(200)
	is.Equal(got.Header.Get("Content-Type"), "application/manifest+json")
	is.Equal(got.Text("start_url"), "/kist/")
	is.Equal(got.Text("share_target.action"), "/kist/share")
	is.Equal(got.Text("share_target.method"), "POST")
	for i, side := range []int{192, 512} {
		src := got.Text(fmt.Sprintf("icons.%d.src", i))
		icon := a.Visit(strings.TrimPrefix(src, "/kist")).Want(200)
		picture, err := png.DecodeConfig(bytes.NewReader(icon.Body))
		is.NoErr(err)
		is.Equal(picture.Width, side)
		is.Equal(icon.Header.Get("Content-Type"), "image/png")
	}
}

func TestQR(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := a.Get("/api/v1/qr?text=https://kist.example.org/v/summer").Want(200)
	is.Equal(got.Header.Get("Content-Type"), "image/svg+xml")
	is.True(bytes.HasPrefix(got.Body, []byte("<svg ")))
	a.Get("/api/v1/qr").Want(400)
	a.Get("/api/v1/qr?text=" + strings.Repeat("a", httpapi.MaxQRText+1)).Want(400)
	a.Get("/api/v1/qr?text=" + strings.Repeat("%F0%9F%8D%8E", httpapi.MaxQRText/4)).Want(200)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/qr?text=a", Anyone: true}).Want(401)
}

// Anyone gets the forms of the kinds, once; the archive of the extension has the same.
func TestKinds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := a.Visit("/kinds.json").Want(200)
	is.Equal(got.Header.Get("Content-Type"), "application/json")
	is.Equal(got.Body, record.Views())
	is.Equal(len(a.Visit("/kinds.json", "If-None-Match", got.Header.Get("Etag")).Want(304).Body), 0)
	archive := a.Visit("/extension.zip").Want(200).Body
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.NoErr(err)
	shipped, err := fs.ReadFile(files, "kinds.json")
	is.NoErr(err)
	is.Equal(shipped, record.Views())

	german := a.Visit("/kinds.json", "Accept-Language", "de-AT,de;q=0.9").Want(200)
	is.Equal(german.Header.Get("Vary"), "Accept-Language")
	is.True(bytes.Contains(german.Body, []byte(`"one":"Lesezeichen"`)))
}

// The translated views have all texts of the kinds, and no others.
func TestKindsInEveryLanguage(t *testing.T) {
	t.Parallel()
	for _, l := range embed.Langs() {
		if l == embed.English {
			continue
		}
		is.New(t).True(slices.Contains(people.Languages, people.Language(l)))
		for _, k := range record.Kinds {
			asked := make(map[string]bool)
			k.View().Translated(func(key, english string) string {
				asked[key] = true
				if english != "" && !l.Has("kinds."+k.Name+"."+key) {
					t.Errorf("%s has no text for %s of a %s: %q", l, key, k.Name, english)
				}
				return english
			})
			for _, key := range l.Keys("kinds", k.Name+".") {
				if !asked[key] {
					t.Errorf("%s: nothing uses kinds.%s.%s", l, k.Name, key)
				}
			}
		}
	}
}

// Anyone gets the extension, in a form that browsers take, and gets it once.
func TestExtensionZip(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := a.Visit("/extension.zip").Want(200)
	is.Equal(got.Header.Get("Content-Type"), "application/zip")
	is.Equal(got.Header.Get("Content-Disposition"), `attachment; filename="kist-extension.zip"`)
	archive, err := zip.NewReader(bytes.NewReader(got.Body), int64(len(got.Body)))
	is.NoErr(err)
	f, err := archive.Open("server.json")
	is.NoErr(err)
	defer f.Close()
	from, err := io.ReadAll(f)
	is.NoErr(err)
	is.Equal(string(from), `{"url":"https://kist.example.org"}`)
	tag := got.Header.Get("Etag")
	is.True(strings.HasPrefix(tag, `"`))
	is.Equal(len(a.Visit("/extension.zip", "If-None-Match", tag).Want(304).Body), 0)
	a.Visit("/extension.zip", "If-None-Match", `"other"`).Want(200)
	head := a.Do(apitest.Request{Method: "HEAD", Path: "/extension.zip", Anyone: true}).Want(200)
	is.Equal(head.Header.Get("Content-Length"), strconv.Itoa(len(got.Body)))
}
