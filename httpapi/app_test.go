package httpapi

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
)

var startData = regexp.MustCompile(`(?s)<script type="application/json" id="start">(.*?)</script>`)

// browse asks for a page as a browser does.
func (a *app) browse(path string) *answer {
	a.Helper()
	return a.do(apiRequest{method: "GET", path: path, header: http.Header{"Accept": {"text/html"}}})
}

// first returns the data that came with a page under a name.
func (g *answer) first(name string) any {
	g.app.Helper()
	found := startData.FindSubmatch(g.body)
	if found == nil {
		g.app.Fatalf("no data in %s", cutText(g.body))
	}
	var start struct{ Answers map[string]any }
	g.app.fatal(json.Unmarshal(found[1], &start))
	return start.Answers[name]
}

// TestAppAddresses: every page of the app is there for its owner, with what it
// shows first, and sends everyone else to sign in and back.
func TestAppAddresses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.post("/api/v1/notes", map[string]any{"title": "Shopping", "content": "</script><!-- milk"}).want(201)
	uploads := a.as(a.addKey(a.user, people.ScopeUpload))
	for _, p := range AppPages() {
		path := strings.NewReplacer("{id}", "new", "{slug}", "new").Replace(p.Path)
		page := a.browse(path).want(200)
		is.Equal(page.header.Get("Content-Security-Policy"), embed.AppPage{}.Policy())
		is.Equal(page.header.Get("Cache-Control"), "no-store")
		is.True(page.first("me") != nil)
		is.True(page.first("tags") != nil)
		is.Equal(bytes.Count(page.body, []byte("</script>")), 3) // none of the data's

		for _, stranger := range []*answer{a.visit(path + "?q=a+b"), uploads.browse(path + "?q=a+b")} {
			stranger.want(303)
			is.Equal(stranger.header.Get("Location"), "/login?next="+strings.ReplaceAll(path, "/", "%2F")+"%3Fq%3Da%2Bb")
		}
	}
	home := a.browse("/")
	notes := home.first("notes").(map[string]any)
	is.Equal(notes["total"], 1.0)
	is.True(home.first("files") != nil)
	a.browse("/notes/none").want(200) // the script says that there is none
}

// TestAppFirstAnswers: what comes with a page is what the API answers to its
// caller, narrowed as the address says.
func TestAppFirstAnswers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for i := range 3 {
		a.post("/api/v1/notes", map[string]any{"title": fmt.Sprint("Note ", i), "content": strings.Repeat("long ", 1000), "tags": []string{[]string{"odd", "even"}[i%2]}}).want(201)
	}
	slug := a.post("/api/v1/shorten", map[string]any{"originalUrl": "https://go.dev"}).want(201).text("data.slug")

	list := a.browse("/notes?tag=odd").first("notes").(map[string]any)
	is.Equal(list["total"], 2.0)
	one := list["data"].([]any)[0].(map[string]any)
	is.Equal(len(one["content"].(string)), 300) // lists are brief
	is.Equal(a.browse("/notes?sort=nonsense").first("notes"), nil)
	is.Equal(a.browse("/links/" + slug).first("shorten/{id}").(map[string]any)["data"].(map[string]any)["slug"], slug)
	is.Equal(a.browse("/search?q=Note+1").first("search").(map[string]any)["total"], 1.0)

	is.True(a.browse("/admin").first("admin/users") != nil)
	member := a.as(a.addKey(a.addUser("ben", people.Member), people.ScopeAdmin))
	is.Equal(member.browse("/admin").first("admin/users"), nil)
	is.Equal(member.browse("/notes").first("notes").(map[string]any)["total"], 0.0)
	reads := a.as(a.addKey(a.user, people.ScopeRead))
	is.Equal(reads.browse("/keys").first("keys"), nil)
}

// TestAppWithManyTags: they weigh on no page, and are there when the script
// has asked for them.
func TestAppWithManyTags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for i := range 10 {
		var names []string
		for j := range 60 {
			names = append(names, fmt.Sprintf("tag %d of many %d", i, j))
		}
		a.post("/api/v1/notes", map[string]any{"content": "x", "tags": names}).want(201)
	}
	page := a.browse("/notes")
	is.Equal(page.first("tags"), nil)
	is.True(len(page.body) < 60_000)
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
	is.NoErr(json.Unmarshal(embed.OpenAPI, &document))
	all := document.Components.Schemas
	var came struct{ Kinds []record.View }
	text := startData.FindSubmatch(start(t).browse("/").want(200).body)[1]
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
	a := start(t)
	long := strings.Repeat("é", 400)
	for path, members := range map[string]string{"notes": "content", "snippets": "content", "recipes": "ingredients instructions"} {
		body := map[string]any{"title": "t"}
		for name := range strings.FieldsSeq(members) {
			body[name] = long
		}
		id := a.post("/api/v1/"+path, body).want(201).text("data.id")
		for name := range strings.FieldsSeq(members) {
			is.Equal(a.get("/api/v1/"+path+"?brief=true").want(200).text("data.0."+name), strings.Repeat("é", 300))
			is.Equal(a.get("/api/v1/"+path+"?brief=false").want(200).text("data.0."+name), long)
			is.Equal(a.get("/api/v1/"+path+"/"+id).want(200).text("data."+name), long) // it is cut for the list alone
		}
	}
	a.get("/api/v1/notes?brief=perhaps").want(400)
}

var onDemand = regexp.MustCompile(`/static/(account|activity|admin|bookmarks|bulk|collections|film|help|keys|moving|remote|replace|requests|search|security|share|tags|trash|tus|uploads|versions|webhooks|welcome)\b`)

// loadsLater are the modules of onDemand that a page loads without being asked, or for a part of it that is opened.
var loadsLater = map[string][]string{"/": {"welcome"}, "/account": {"activity"}, "/account/security": {"account", "activity", "keys"}, "/keys": {"account"}}

// TestAppIsLight: a page full of records, whichever it is, takes less than
// 75 KiB of scripts and styles, which are kept for good.
func TestAppIsLight(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for i := range 60 {
		a.post("/api/v1/notes", map[string]any{"title": fmt.Sprint("Note ", i), "content": strings.Repeat(fmt.Sprint("word", i*7919%1000, " "), 500), "tags": []string{fmt.Sprint("tag", i%9)}}).want(201)
		a.post("/api/v1/bookmarks", map[string]any{"url": fmt.Sprint("https://example.org/", i*7919), "title": fmt.Sprint("Bookmark ", i)}).want(201)
	}
	_, link := a.ask(map[string]any{"description": strings.Repeat("Please give us all you took. ", 9)})
	for i := range 60 {
		a.leave(link, nil, map[string]string{"name": fmt.Sprint("Guest ", i), "message": fmt.Sprint("Here you are, number ", i)}, file{fmt.Sprintf("IMG_%d.jpg", i*7919), "", fmt.Sprint("picture ", i)}).want(201)
		a.ask(map[string]any{"title": fmt.Sprint("Photos ", i)})
	}
	for _, p := range AppPages() {
		path := strings.NewReplacer("{id}", "new", "{slug}", "new").Replace(p.Path)
		got := a.do(apiRequest{method: "GET", path: path, header: http.Header{"Accept-Encoding": {"gzip"}}}).want(200)
		is.Equal(got.header.Get("Content-Encoding"), "gzip")
		r, err := gzip.NewReader(bytes.NewReader(got.body))
		is.NoErr(err)
		page, err := io.ReadAll(r)
		is.NoErr(err)
		is.True(path != "/notes" || bytes.Contains(page, []byte("Note 59")))
		total := len(got.body)
		files := regexp.MustCompile(`/static/[a-z0-9.-]+\.(?:css|js|svg)`).FindAllString(string(page), -1)
		is.True(len(files) >= 4)
		slices.Sort(files)
		for _, file := range slices.Compact(files) { // a browser asks for each once
			if m := onDemand.FindStringSubmatch(file); m != nil && m[1] != p.Module && !slices.Contains(loadsLater[p.Path], m[1]) {
				continue // named here, and loaded by another page or with a large file
			}
			asset := a.do(apiRequest{method: "GET", path: file, anyone: true, header: http.Header{"Accept-Encoding": {"gzip"}}}).want(200)
			is.Equal(asset.header.Get("Cache-Control"), "public, max-age=31536000, immutable")
			total += len(asset.body)
		}
		t.Logf("%s: %d bytes, %d of them the page", path, total, len(got.body))
		is.True(total-len(got.body) < 75<<10) // its scripts and styles
	}
}

// TestUnasked: browsers and search engines ask for these files on their own.
func TestUnasked(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	icon := a.visit("/favicon.ico").want(303)
	is.Equal(a.visit(icon.header.Get("Location")).want(200).header.Get("Content-Type"), "image/png")
	is.True(strings.Contains(string(a.visit("/robots.txt").want(200).body), "User-agent: *"))
}

func TestManifest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.Base = "https://kist.example.org/kist" })
	got := a.visit("/manifest.webmanifest").want(200)
	is.Equal(got.header.Get("Content-Type"), "application/manifest+json")
	is.Equal(got.text("start_url"), "/kist/")
	is.Equal(got.text("share_target.action"), "/kist/share")
	is.Equal(got.text("share_target.method"), "POST")
	for i, side := range []int{192, 512} {
		src := got.text(fmt.Sprintf("icons.%d.src", i))
		icon := a.visit(strings.TrimPrefix(src, "/kist")).want(200)
		picture, err := png.DecodeConfig(bytes.NewReader(icon.body))
		is.NoErr(err)
		is.Equal(picture.Width, side)
		is.Equal(icon.header.Get("Content-Type"), "image/png")
	}
}

func TestQR(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	got := a.get("/api/v1/qr?text=https://kist.example.org/v/summer").want(200)
	is.Equal(got.header.Get("Content-Type"), "image/svg+xml")
	is.True(bytes.HasPrefix(got.body, []byte("<svg ")))
	a.get("/api/v1/qr").want(400)
	a.get("/api/v1/qr?text=" + strings.Repeat("a", MaxQRText+1)).want(400)
	a.get("/api/v1/qr?text=" + strings.Repeat("%F0%9F%8D%8E", MaxQRText/4)).want(200)
	a.do(apiRequest{method: "GET", path: "/api/v1/qr?text=a", anyone: true}).want(401)
}

// shareSheet sends the request of a phone's share sheet.
func (a *app) shareSheet(fields map[string]string, files ...file) apiRequest {
	q := a.uploadRequest(fields, files...)
	q.path = "/share"
	return q
}

func TestShareTarget(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	for _, c := range []struct {
		fields           map[string]string
		to, kind, member string
		want             string
	}{
		{map[string]string{"title": "Go", "url": "https://go.dev/"}, "/bookmarks/", "bookmarks", "url", "https://go.dev/"},
		{map[string]string{"text": "https://go.dev/a"}, "/bookmarks/", "bookmarks", "url", "https://go.dev/a"},
		{map[string]string{"text": "Look at this https://go.dev/b"}, "/bookmarks/", "bookmarks", "title", "Look at this"},
		{map[string]string{"title": "T", "text": "Look https://go.dev/c"}, "/bookmarks/", "bookmarks", "description", "Look"},
		{map[string]string{"text": "milk\nand bread"}, "/notes/", "notes", "content", "milk\nand bread"},
		{map[string]string{"title": strings.Repeat("x", 600), "text": "t"}, "/notes/", "notes", "title", strings.Repeat("x", 512)},
		{map[string]string{"url": "javascript:alert(1)"}, "/notes/", "notes", "content", "javascript:alert(1)"},
	} {
		got := a.do(a.shareSheet(c.fields)).want(303)
		to := got.header.Get("Location")
		is.True(strings.HasPrefix(to, c.to))
		is.Equal(a.get("/api/v1/"+c.kind).want(200).text("data.0."+c.member), c.want)
		is.Equal(a.get("/api/v1/"+c.kind).at("data.0.isPublic"), false)
	}
	is.Equal(a.do(a.shareSheet(map[string]string{"title": ""})).want(303).header.Get("Location"), "/")

	got := a.do(a.shareSheet(map[string]string{"text": "from the phone"}, file{"a.txt", "text/plain", "aaa"}, file{"b.txt", "text/plain", "bbb"})).want(303)
	is.Equal(got.header.Get("Location"), "/files")
	files := a.get("/api/v1/files").want(200)
	is.Equal(files.at("total"), 2.0)
	is.Equal(files.text("data.0.description"), "from the phone")
}

// TestShareTargetOfStrangers: nothing that a stranger shares is kept, or even read.
func TestShareTargetOfStrangers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	before := a.state()
	q := a.shareSheet(map[string]string{"text": "milk & bread"}, file{"a.txt", "text/plain", "aaa"})
	q.anyone = true
	is.Equal(a.do(q).want(303).header.Get("Location"), "/login?next=%2F%3Fagain%3Dshare")
	other := apiRequest{method: "POST", path: "/share", body: strings.NewReader("no form"), anyone: true, raw: true}
	is.Equal(a.do(other).want(303).header.Get("Location"), "/login?next=%2F%3Fagain%3Dshare")
	is.Equal(a.state(), before)

	// With a session, what another site has the browser send is refused.
	var secret string
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) (err error) {
		_, secret, err = people.AddSession(tx, a.user.ID, "test", "192.0.2.1", tx.Now)
		return err
	}))
	for site, status := range map[string]int{"cross-site": 403, "same-site": 403, "none": 303, "same-origin": 303} {
		q := a.shareSheet(map[string]string{"text": "milk"})
		q.anyone = true
		q.header.Set("Cookie", a.sessionCookie()+"="+secret)
		q.header.Set("Sec-Fetch-Site", site)
		a.do(q).want(status)
	}
}

// TestShareTargetBadBodies: what is no form of the share sheet is refused and
// leaves nothing.
func TestShareTargetBadBodies(t *testing.T) {
	t.Parallel()
	a := start(t, func(c *web.Config) { c.MaxUpload = 1000 })
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	a.fatal(w.WriteField("text", strings.Repeat("x", upload.MaxField+1)))
	a.fatal(w.Close())
	media := http.Header{"Content-Type": {w.FormDataContentType()}}
	a.refused(apiRequest{method: "POST", path: "/share", body: &b, header: media, raw: true}, 413)
	a.refused(apiRequest{method: "POST", path: "/share", json: `{"text":"x"}`, raw: true}, 415)
	a.refused(a.shareSheet(nil, file{"a.bin", "", strings.Repeat("x", 1001)}), 413)
}

// Anyone gets the forms of the kinds, once; the archive of the extension has the same.
func TestKinds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	got := a.visit("/kinds.json").want(200)
	is.Equal(got.header.Get("Content-Type"), "application/json")
	is.Equal(got.body, record.Views())
	is.Equal(len(a.visit("/kinds.json", "If-None-Match", got.header.Get("Etag")).want(304).body), 0)
	archive := a.visit("/extension.zip").want(200).body
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	is.NoErr(err)
	shipped, err := fs.ReadFile(files, "kinds.json")
	is.NoErr(err)
	is.Equal(shipped, record.Views())

	german := a.visit("/kinds.json", "Accept-Language", "de-AT,de;q=0.9").want(200)
	is.Equal(german.header.Get("Vary"), "Accept-Language")
	is.True(bytes.Contains(german.body, []byte(`"one":"Lesezeichen"`)))
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
	a := start(t)
	got := a.visit("/extension.zip").want(200)
	is.Equal(got.header.Get("Content-Type"), "application/zip")
	is.Equal(got.header.Get("Content-Disposition"), `attachment; filename="kist-extension.zip"`)
	archive, err := zip.NewReader(bytes.NewReader(got.body), int64(len(got.body)))
	is.NoErr(err)
	f, err := archive.Open("server.json")
	is.NoErr(err)
	defer f.Close()
	from, err := io.ReadAll(f)
	is.NoErr(err)
	is.Equal(string(from), `{"url":"https://kist.example.org"}`)
	tag := got.header.Get("Etag")
	is.True(strings.HasPrefix(tag, `"`))
	is.Equal(len(a.visit("/extension.zip", "If-None-Match", tag).want(304).body), 0)
	a.visit("/extension.zip", "If-None-Match", `"other"`).want(200)
	head := a.do(apiRequest{method: "HEAD", path: "/extension.zip", anyone: true}).want(200)
	is.Equal(head.header.Get("Content-Length"), strconv.Itoa(len(got.body)))
}
