package api_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/api"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/people"
)

// setUp sets a program up.
func setUp(a *apitest.App, program string, public bool) *apitest.Answer {
	a.Helper()
	return a.Post("/api/v1/setups", map[string]any{"program": program, "isPublic": public}).Want(201)
}

// TestShareX does with each uploader what ShareX does, down to the deletion
// address in its history.
func TestShareX(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	got := setUp(a, "sharex", true)
	is.Equal(got.Text("data.key.name"), "ShareX")
	is.Equal(got.At("data.key.scopes"), []any{"write"})
	files, text, links := got.Uploader(0), got.Uploader(1), got.Uploader(2)
	is.Equal(files.DestinationType, "ImageUploader, FileUploader")
	is.Equal(text.DestinationType, "TextUploader")
	is.Equal(links.DestinationType, "URLShortener")

	shot := apitest.Picture(t)
	sent := files.Send("shot ☂.png", shot).Want(201)
	is.Equal(string(a.Visit(a.Path(files.Filled(files.URL, sent.Body))).Want(200).Body), shot)
	is.True(strings.HasPrefix(
		apitest.MediaOf(a.Visit(a.Path(files.Filled(files.ThumbnailURL, sent.Body))).Want(200).Header), "image/",
	))
	for _, plain := range []string{"no picture", "\x89PNG\r\n\x1a\nbut cut off"} {
		is.Equal(files.Filled(files.ThumbnailURL, files.Send("x.png", plain).Want(201).Body), "")
	}

	const hard = "a \"quote\", a \\ and a {brace}\n\tünïcode ☂ 🌂 %mo </script> \u2028"
	pasted := text.Send("", hard).Want(201)
	is.Equal(
		string(a.Visit(strings.Replace(a.Path(text.Filled(text.URL, pasted.Body)), "/v/", "/x/", 1)).Want(200).Body), hard,
	)

	const long = "https://example.org/a?b=%22c%22&d={e}#f"
	short := links.Send("", long).Want(201)
	is.Equal(a.Visit(a.Path(links.Filled(links.URL, short.Body))).Want(302).Header.Get("Location"), long)

	for u, answer := range map[*apitest.Uploader]*apitest.Answer{files: sent, text: pasted, links: short} {
		at, shared := a.Path(u.Filled(u.DeletionURL, answer.Body)), a.Path(u.Filled(u.URL, answer.Body))
		a.Visit(at).Want(200)
		is.True(a.Visit(shared).Status < 400) // looking deletes nothing
		a.Do(apitest.Request{Method: "POST", Path: at, Anyone: true}).Want(200)
		a.Visit(shared).Want(404)
	}

	bad := links.Send("", "javascript:alert(1)").Want(422)
	is.True(strings.Contains(links.Filled(links.ErrorMessage, bad.Body), "must be an absolute http or https address"))
}

// TestSetups: each has a key that is just enough, or none, and its secret is
// told once.
func TestSetups(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Base = "https://kist.example.org/a{b}'c" })
	list := a.Get("/api/v1/setups").Want(200)
	is.Equal(list.At("total"), float64(len(api.Setups)))
	for i, p := range api.Setups {
		is.Equal(list.Text("data."+string(rune('0'+i))+".program"), p.Program)
		before := a.Get("/api/v1/keys").At("total").(float64)
		got := setUp(a, p.Program, false)
		secret := regexp.MustCompile(`kist_[0-9A-Za-z]{20,}`).FindString(string(got.Body))
		is.True(len(got.At("data.steps").([]any)) >= 3)
		if p.Scopes == nil {
			is.Equal(got.At("data.key"), nil)
			is.Equal(secret, "")
			is.Equal(a.Get("/api/v1/keys").At("total"), before)
			continue
		}
		is.Equal(a.Get("/api/v1/keys").At("total"), before+1)
		is.Equal(a.Get("/api/v1/keys").Text("data.0.name"), p.Name)
		key := a.As(secret)
		key.Upload(nil, apitest.File("a.txt", "text/plain", "a")).Want(201)
		key.Get("/api/v1/files").Want(403)
		is.Equal(key.Post("/api/v1/snippets", `{"content":"x"}`).Status == 201, slices.Contains(p.Scopes, people.ScopeWrite))
		is.True(!strings.Contains(a.Logged.String(), secret))
	}
	is.Equal(setUp(a, "sharex", false).Uploader(0).RequestURL, `https://kist.example.org/a\{b\}'c/api/v1/upload`)
	is.Equal(setUp(a, "sharex", false).Uploader(0).Arguments["isPublic"], "false")
	a.Post("/api/v1/setups", `{"program":"telnet"}`).Want(422)
	a.Post("/api/v1/setups", `{}`).Want(422)
	a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/setups", JSON: `{"program":"shell"}`, Key: a.AddKey(a.User, people.ScopeAll),
	}).Want(403)
}

// TestBareAddresses: who asks for text has the addresses alone, and sentences
// where something is wrong.
func TestBareAddresses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bare := func(q apitest.Request) *apitest.Answer {
		if q.Header == nil {
			q.Header = http.Header{}
		}
		q.Header.Set("Accept", "text/plain")
		return a.Do(q)
	}
	got := bare(a.UploadRequest(map[string]string{"slug": "one"}, apitest.File("a.txt", "", "a"))).Want(201)
	is.Equal(string(got.Body), "https://kist.example.org/x/one\n")
	is.Equal(got.Header.Get("Content-Type"), web.TextType)
	is.True(slices.Contains(got.Header.Values("Vary"), "Accept"))
	q := a.UploadRequest(nil, apitest.File("a.txt", "", "a"), apitest.File("b.txt", "", "b"))
	q.Header.Set("Idempotency-Key", "k")
	several := bare(q).Want(201)
	is.True(regexp.MustCompile(`^(https://kist\.example\.org/x/\w{10}\n){2}$`).Match(several.Body))
	q = a.UploadRequest(nil, apitest.File("a.txt", "", "a"), apitest.File("b.txt", "", "b"))
	q.Header.Set("Idempotency-Key", "k")
	is.Equal(bare(q).Want(201).Body, several.Body)
	for path, body := range map[string]string{
		"shorten": `{"originalUrl":"https://example.org","slug":"s-1"}`, "notes": `{"content":"x","slug":"v-1"}`, "bookmarks": `{"url":"https://example.org","slug":"v-2"}`,
	} {
		got := bare(apitest.Request{Method: "POST", Path: "/api/v1/" + path, JSON: body}).Want(201)
		is.True(regexp.MustCompile(`^https://kist\.example\.org/(s/s|v/v)-\d\n$`).Match(got.Body))
	}
	for _, c := range []struct {
		q      apitest.Request
		status int
		says   string
	}{
		{a.UploadRequest(map[string]string{"slug": "one"}, apitest.File("a.txt", "", "a")), 409, "slug"},
		{a.UploadRequest(map[string]string{"maxViews": "x"}), 422, "The file is required; the limit of views"},
		{apitest.Request{Method: "POST", Path: "/api/v1/shorten", JSON: `{`}, 400, "JSON"},
		{apitest.Request{Method: "POST", Path: "/api/v1/shorten", JSON: `{}`, Anyone: true}, 401, "API key"},
	} {
		c.q.Raw = true
		got := bare(c.q).Want(c.status)
		is.Equal(apitest.MediaOf(got.Header), "text/plain")
		is.True(strings.HasSuffix(string(got.Body), ".\n") && !strings.Contains(string(got.Body), `"code"`))
		is.True(strings.Contains(string(got.Body), c.says))
	}
	// lists have no other form
	is.Equal(apitest.MediaOf(bare(apitest.Request{Method: "GET", Path: "/api/v1/notes"}).Want(200).Header), web.JSONType)
}
