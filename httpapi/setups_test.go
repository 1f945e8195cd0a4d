package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/api"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

// uploader is a custom uploader as ShareX understands it.
type uploader struct {
	app *app
	api.CustomUploader
}

// setUp sets a program up.
func (a *app) setUp(program string, public bool) *answer {
	a.Helper()
	return a.post("/api/v1/setups", map[string]any{"program": program, "isPublic": public}).want(201)
}

func (g *answer) uploader(i int) *uploader {
	g.app.Helper()
	var v struct {
		Data struct{ Files []struct{ Content string } }
	}
	g.app.fatal(json.Unmarshal(g.body, &v))
	u := &uploader{app: g.app}
	d := json.NewDecoder(strings.NewReader(v.Data.Files[i].Content))
	d.DisallowUnknownFields()
	g.app.fatal(d.Decode(&u.CustomUploader))
	return u
}

// filled is a text of an uploader with the functions that it calls filled in;
// those of the answer are "" where it does not have them.
func (u *uploader) filled(text string, answer []byte) string {
	u.app.Helper()
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
			out.WriteByte(text[i])
		case '{':
			call, rest, closed := strings.Cut(text[i+1:], "}")
			name, json := strings.CutPrefix(call, "json:")
			if !closed || !json {
				u.app.Fatalf("%q is no call", text)
			}
			out.WriteString(memberOf(u.app, answer, name))
			i = len(text) - len(rest) - 1
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String()
}

func memberOf(a *app, body []byte, name string) string {
	a.Helper()
	var v map[string]any
	a.fatal(json.Unmarshal(body, &v))
	text, _ := v[name].(string)
	return text
}

// send sends a request like ShareX: a file, or text in place of {input}.
func (u *uploader) send(name, input string) *answer {
	u.app.Helper()
	at, err := url.Parse(u.filled(u.RequestURL, nil))
	u.app.fatal(err)
	q := apiRequest{method: u.RequestMethod, path: at.Path, anyone: true, header: http.Header{}}
	for name, value := range u.Headers {
		q.header.Set(name, u.filled(value, nil))
	}
	switch u.Body {
	case "MultipartFormData":
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for name, value := range u.Arguments {
			u.app.fatal(w.WriteField(name, u.filled(value, nil)))
		}
		p, err := w.CreateFormFile(u.FileFormName, name)
		u.app.fatal(err)
		_, err = io.WriteString(p, input)
		u.app.fatal(err)
		u.app.fatal(w.Close())
		q.body = &b
		q.header.Set("Content-Type", w.FormDataContentType())
	case "JSON":
		quoted, err := json.Marshal(input)
		u.app.fatal(err)
		q.json = strings.ReplaceAll(u.Data, "{input}", string(quoted[1:len(quoted)-1]))
	default:
		u.app.Fatalf("body %q", u.Body)
	}
	return u.app.do(q)
}

// path is the path of an address of the server.
func (a *app) path(address string) string {
	a.Helper()
	path, ok := strings.CutPrefix(address, a.server.Base)
	if !ok {
		a.Fatalf("%q is not of this server", address)
	}
	return path
}

func picture(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 30))); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestShareX does with each uploader what ShareX does, down to the deletion
// address in its history.
func TestShareX(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	got := a.setUp("sharex", true)
	is.Equal(got.text("data.key.name"), "ShareX")
	is.Equal(got.at("data.key.scopes"), []any{"write"})
	files, text, links := got.uploader(0), got.uploader(1), got.uploader(2)
	is.Equal(files.DestinationType, "ImageUploader, FileUploader")
	is.Equal(text.DestinationType, "TextUploader")
	is.Equal(links.DestinationType, "URLShortener")

	shot := picture(t)
	sent := files.send("shot ☂.png", shot).want(201)
	is.Equal(string(a.visit(a.path(files.filled(files.URL, sent.body))).want(200).body), shot)
	is.True(strings.HasPrefix(mediaOf(a.visit(a.path(files.filled(files.ThumbnailURL, sent.body))).want(200).header), "image/"))
	for _, plain := range []string{"no picture", "\x89PNG\r\n\x1a\nbut cut off"} {
		is.Equal(files.filled(files.ThumbnailURL, files.send("x.png", plain).want(201).body), "")
	}

	const hard = "a \"quote\", a \\ and a {brace}\n\tünïcode ☂ 🌂 %mo </script> \u2028"
	pasted := text.send("", hard).want(201)
	is.Equal(string(a.visit(strings.Replace(a.path(text.filled(text.URL, pasted.body)), "/v/", "/x/", 1)).want(200).body), hard)

	const long = "https://example.org/a?b=%22c%22&d={e}#f"
	short := links.send("", long).want(201)
	is.Equal(a.visit(a.path(links.filled(links.URL, short.body))).want(302).header.Get("Location"), long)

	for u, answer := range map[*uploader]*answer{files: sent, text: pasted, links: short} {
		at, shared := a.path(u.filled(u.DeletionURL, answer.body)), a.path(u.filled(u.URL, answer.body))
		a.visit(at).want(200)
		is.True(a.visit(shared).status < 400) // looking deletes nothing
		a.do(apiRequest{method: "POST", path: at, anyone: true}).want(200)
		a.visit(shared).want(404)
	}

	bad := links.send("", "javascript:alert(1)").want(422)
	is.True(strings.Contains(links.filled(links.ErrorMessage, bad.body), "must be an absolute http or https address"))
}

// TestSetups: each has a key that is just enough, or none, and its secret is
// told once.
func TestSetups(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, func(c *web.Config) { c.Base = "https://kist.example.org/a{b}'c" })
	list := a.get("/api/v1/setups").want(200)
	is.Equal(list.at("total"), float64(len(api.Setups)))
	for i, p := range api.Setups {
		is.Equal(list.text("data."+string(rune('0'+i))+".program"), p.Program)
		before := a.get("/api/v1/keys").at("total").(float64)
		got := a.setUp(p.Program, false)
		secret := regexp.MustCompile(`kist_[0-9A-Za-z]{20,}`).FindString(string(got.body))
		is.True(len(got.at("data.steps").([]any)) >= 3)
		if p.Scopes == nil {
			is.Equal(got.at("data.key"), nil)
			is.Equal(secret, "")
			is.Equal(a.get("/api/v1/keys").at("total"), before)
			continue
		}
		is.Equal(a.get("/api/v1/keys").at("total"), before+1)
		is.Equal(a.get("/api/v1/keys").text("data.0.name"), p.Name)
		key := a.as(secret)
		key.upload(nil, file{"a.txt", "text/plain", "a"}).want(201)
		key.get("/api/v1/files").want(403)
		is.Equal(key.post("/api/v1/snippets", `{"content":"x"}`).status == 201, slices.Contains(p.Scopes, people.ScopeWrite))
		is.True(!strings.Contains(a.log.String(), secret))
	}
	is.Equal(a.setUp("sharex", false).uploader(0).RequestURL, `https://kist.example.org/a\{b\}'c/api/v1/upload`)
	is.Equal(a.setUp("sharex", false).uploader(0).Arguments["isPublic"], "false")
	a.post("/api/v1/setups", `{"program":"telnet"}`).want(422)
	a.post("/api/v1/setups", `{}`).want(422)
	a.do(apiRequest{method: "POST", path: "/api/v1/setups", json: `{"program":"shell"}`, key: a.addKey(a.user, people.ScopeAll)}).want(403)
}

// TestDeletionAddress: anyone who has it can delete the one item, by a button and once;
// nothing is told of the item but its name, and nothing of what is not there.
func TestDeletionAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	visit := func(path string) *answer { return a.visit(path, "Accept", "text/html") }
	press := func(path string) *answer { return a.do(apiRequest{method: "POST", path: path, anyone: true}) }

	made := a.post("/api/v1/notes", `{"title":"Where <gold> is","content":"under the oak","password":"12345678"}`).want(201)
	at := a.path(made.text("deletionUrl"))
	page := visit(at).want(200)
	is.True(bytes.Contains(page.body, []byte("Where &lt;gold&gt; is")))
	is.True(!bytes.Contains(page.body, []byte("oak")))
	is.Equal(page.header.Get("Cache-Control"), "no-store")
	a.do(apiRequest{method: "HEAD", path: at, anyone: true}).want(200)
	a.visit(at, "Sec-Purpose", "prefetch").want(200)
	a.patch("/api/v1/notes/"+made.text("data.id"), `{"slug":"moved"}`).want(200)
	is.True(!strings.Contains(string(a.get("/api/v1/notes/moved").want(200).body), "deletionUrl"))
	is.True(!strings.Contains(string(a.get("/api/v1/notes").want(200).body), "deletionUrl"))
	press(at).want(200)
	a.get("/api/v1/notes/moved").want(404)
	visit(at).want(410)
	press(at).want(410)

	// Names that are the content are not told.
	for path, body := range map[string]string{
		"notes": `{"content":"concealed"}`, "snippets": `{"content":"concealed"}`, "bookmarks": `{"url":"https://concealed.example"}`, "shorten": `{"originalUrl":"https://concealed.example"}`,
	} {
		made := a.post("/api/v1/"+path, body).want(201)
		page := visit(a.path(made.text("deletionUrl"))).want(200)
		is.True(!bytes.Contains(page.body, []byte("concealed")))
		is.True(bytes.Contains(page.body, []byte(made.text("data.slug"))))
	}

	// No token is made of another, and all that are none look alike.
	one, two := a.upload(map[string]string{}, file{"a.txt", "", "a"}).want(201), a.upload(nil, file{"b.txt", "", "b"}, file{"c.txt", "", "c"}).want(201)
	token := func(address string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(a.path(address), web.DeletionPath))
		a.fatal(err)
		return b
	}
	first, second := token(one.text("deletionUrl")), token(two.text("files.1.deletionUrl"))
	mixed := append(bytes.Clone(first[:len(first)-grant.DeletionMAC]), second[len(second)-grant.DeletionMAC:]...)
	kind := bytes.Clone(first)
	kind[16] = 99
	none := visit(web.DeletionPath + "none").want(404)
	for _, wrong := range [][]byte{mixed, kind, first[:len(first)-1], append(bytes.Clone(first), 0), first[:len(first)-grant.DeletionMAC], {}} {
		at := web.DeletionPath + base64.RawURLEncoding.EncodeToString(wrong)
		if len(wrong) > 0 {
			is.Equal(visit(at).want(404).body, none.body)
		}
		press(at).want(404)
	}
	a.get("/api/v1/files/" + one.text("id")).want(200)

	// A shut account's things stay.
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) error {
		u := a.user
		if _, err := people.AddUser(tx, people.User{Name: "other", Role: people.Admin, Quota: -1}); err != nil {
			return err
		}
		u.Disabled = true
		return people.SaveUser(tx, u)
	}))
	press(a.path(one.text("deletionUrl"))).want(404)
	is.True(!strings.Contains(a.log.String(), a.path(made.text("deletionUrl"))[len(web.DeletionPath):]))

	for i := range limit.MaxMisses {
		visit(web.DeletionPath + "guess" + strings.Repeat("x", i))
	}
	visit(web.DeletionPath + "one-more").want(429)
}

// TestBareAddresses: who asks for text has the addresses alone, and sentences
// where something is wrong.
func TestBareAddresses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	bare := func(q apiRequest) *answer {
		if q.header == nil {
			q.header = http.Header{}
		}
		q.header.Set("Accept", "text/plain")
		return a.do(q)
	}
	got := bare(a.uploadRequest(map[string]string{"slug": "one"}, file{"a.txt", "", "a"})).want(201)
	is.Equal(string(got.body), "https://kist.example.org/x/one\n")
	is.Equal(got.header.Get("Content-Type"), web.TextType)
	is.True(slices.Contains(got.header.Values("Vary"), "Accept"))
	q := a.uploadRequest(nil, file{"a.txt", "", "a"}, file{"b.txt", "", "b"})
	q.header.Set("Idempotency-Key", "k")
	several := bare(q).want(201)
	is.True(regexp.MustCompile(`^(https://kist\.example\.org/x/\w{10}\n){2}$`).Match(several.body))
	q = a.uploadRequest(nil, file{"a.txt", "", "a"}, file{"b.txt", "", "b"})
	q.header.Set("Idempotency-Key", "k")
	is.Equal(bare(q).want(201).body, several.body)
	for path, body := range map[string]string{
		"shorten": `{"originalUrl":"https://example.org","slug":"s-1"}`, "notes": `{"content":"x","slug":"v-1"}`, "bookmarks": `{"url":"https://example.org","slug":"v-2"}`,
	} {
		got := bare(apiRequest{method: "POST", path: "/api/v1/" + path, json: body}).want(201)
		is.True(regexp.MustCompile(`^https://kist\.example\.org/(s/s|v/v)-\d\n$`).Match(got.body))
	}
	for _, c := range []struct {
		q      apiRequest
		status int
		says   string
	}{
		{a.uploadRequest(map[string]string{"slug": "one"}, file{"a.txt", "", "a"}), 409, "slug"},
		{a.uploadRequest(map[string]string{"maxViews": "x"}), 422, "The file is required; the limit of views"},
		{apiRequest{method: "POST", path: "/api/v1/shorten", json: `{`}, 400, "JSON"},
		{apiRequest{method: "POST", path: "/api/v1/shorten", json: `{}`, anyone: true}, 401, "API key"},
	} {
		c.q.raw = true
		got := bare(c.q).want(c.status)
		is.Equal(mediaOf(got.header), "text/plain")
		is.True(strings.HasSuffix(string(got.body), ".\n") && !strings.Contains(string(got.body), `"code"`))
		is.True(strings.Contains(string(got.body), c.says))
	}
	is.Equal(mediaOf(bare(apiRequest{method: "GET", path: "/api/v1/notes"}).want(200).header), web.JSONType) // lists have no other form
}
