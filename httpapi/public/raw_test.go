package public_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/httpapi/public"
	"kist/httpapi/web"
	"kist/kv/people"
	"kist/kv/record"
)

// viewed is how often a file was seen by others. Of an item without a limit
// the views of the last second are missing, until flush.
func viewed(a *apitest.App, slug string) int {
	a.Helper()
	return a.Counted("files", slug, "views")
}

func TestPublicRanges(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	slug := a.Share("0123456789")
	etag := a.Visit("/x/" + slug).Want(200).Header.Get("Etag")
	is.Equal(etag, `"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"`) // the SHA-256
	for _, c := range []struct {
		ranges string
		status int
		body   string
		part   string
	}{
		{"", 200, "0123456789", ""},
		{"bytes=0-4", 206, "01234", "bytes 0-4/10"},
		{"bytes=5-", 206, "56789", "bytes 5-9/10"},
		{"bytes=-3", 206, "789", "bytes 7-9/10"},
		{"bytes=-500", 206, "0123456789", "bytes 0-9/10"},
		{"bytes=8-99999999999999999", 206, "89", "bytes 8-9/10"},
		{"Bytes=0-0", 206, "0", "bytes 0-0/10"},
		{"bytes=9-9", 206, "9", "bytes 9-9/10"},
		{"bytes=10-", 416, "", "bytes */10"},
		{"bytes=9999999999-", 416, "", "bytes */10"},
		{"bytes=-0", 416, "", "bytes */10"},
		{"bytes=5-2", 416, "", "bytes */10"},
		{"bytes=abc", 416, "", "bytes */10"},
		{"bytes=--1", 416, "", "bytes */10"},
		{"bytes=99999999999999999999-", 416, "", "bytes */10"},
		{"bytes=", 200, "0123456789", ""},
		{"items=0-1", 200, "0123456789", ""},
		{"bytes 0-1", 200, "0123456789", ""},
		{"bytes=0-9,0-9", 200, "0123456789", ""}, // more than all there is
		{"bytes=" + strings.Repeat("0-0,", 1000) + "0-0", 200, "0123456789", ""},
	} {
		got := a.Send("GET", "/x/"+slug, "Range", c.ranges)
		is.Equal(got.Status, c.status)
		is.Equal(got.Header.Get("Content-Range"), c.part)
		if c.status != 416 {
			is.Equal(string(got.Body), c.body)
			is.Equal(got.Header.Get("Accept-Ranges"), "bytes")
			is.Equal(got.Header.Get("Etag"), etag)
		}
		a.IsHostile(c.ranges, got.Header)
		head := a.Send("HEAD", "/x/"+slug, "Range", c.ranges)
		is.Equal(head.Status, c.status)
		is.Equal(len(head.Body), 0)
		for _, name := range []string{
			"Content-Length", "Content-Type", "Content-Range", "Etag", "Content-Disposition", "Content-Security-Policy",
			"Cache-Control",
		} {
			is.Equal(head.Header.Get(name), got.Header.Get(name)) // as GET
		}
	}
	got := a.Send("GET", "/x/"+slug, "Range", "bytes=1-2,5-6").Want(206)
	is.True(strings.HasPrefix(got.Header.Get("Content-Type"), "multipart/byteranges; boundary="))
	is.True(bytes.Contains(got.Body, []byte("\r\n\r\n12\r\n")) && bytes.Contains(got.Body, []byte("\r\n\r\n56\r\n")))
	a.IsHostile("two ranges", got.Header)

	is.Equal(a.Send("GET", "/x/"+slug, "Range", "bytes=1-2", "If-Range", etag).Status, 206)
	is.Equal(a.Send("GET", "/x/"+slug, "Range", "bytes=1-2", "If-Range", "W/"+etag).Status, 200) // a weak one does not do
	is.Equal(a.Send("GET", "/x/"+slug, "Range", "bytes=1-2", "If-Range", `"other"`).Status, 200)
	is.Equal(a.Send("GET", "/x/"+slug, "Range", "bytes=1-2", "If-Range", "Mon, 02 Jan 2006 15:04:05 GMT").Status, 200)
	is.Equal(a.Send("GET", "/x/"+slug, "Range", "bytes=50-", "If-Range", `"other"`).Status, 200)

	empty := a.Share("")
	for _, ranges := range []string{"bytes=0-", "bytes=-5", "bytes=5-6", "bytes=-0"} {
		is.Equal(a.Send("GET", "/x/"+empty, "Range", ranges).Status, 200)
	}
}

// TestPublicManyRanges: several ranges are answered as they are asked for, in
// one answer that is about as long as they are, or with all of it.
func TestPublicManyRanges(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	content := strings.Repeat("0123456789abcdef", 256)
	slug := a.Share(content)
	repeat := func(part string, n int) string {
		return "bytes=" + strings.TrimSuffix(strings.Repeat(part+",", n), ",")
	}
	for _, c := range []struct {
		ranges string
		parts  []string // nil is all of it
	}{
		{repeat("5-5", public.MaxRanges), slices.Repeat([]string{"5"}, public.MaxRanges)},
		{repeat("5-5", public.MaxRanges+1), nil},
		{repeat("5-5", 1000), nil},
		{repeat("0-", public.MaxRanges), nil}, // more than there is
		{repeat("-4096", 2), nil},
		{"bytes=0-3,2-5", []string{"0123", "2345"}}, // overlap, and are no more than there is
		{"bytes=-1,-2,-3", []string{"f", "ef", "def"}},
		{"bytes=4095-,0-0", []string{"f", "0"}},
		{"bytes=4094-99999,-1", []string{"ef", "f"}},
		{"bytes=1-1,4096-", []string{"1"}},
		{"bytes= 1-1 ,, 2-2 ", []string{"1", "2"}},
		{"bytes=1-1,x", []string{}},
		{"bytes=4096-,9999-", []string{}},
		{"bytes=1-1\nbytes=2-2", nil}, // two lines
	} {
		h := http.Header{"Range": strings.Split(c.ranges, "\n")}
		got := a.Do(apitest.Request{Method: "GET", Path: "/x/" + slug, Anyone: true, Header: h, Raw: true})
		a.IsHostile(c.ranges, got.Header)
		switch {
		case c.parts == nil:
			is.Equal(got.Status, 200)
			is.Equal(string(got.Body), content)
		case len(c.parts) == 0:
			is.Equal(got.Status, 416)
			is.Equal(got.Header.Get("Content-Range"), "bytes */4096")
		case len(c.parts) == 1:
			is.Equal(got.Status, 206)
			is.Equal(string(got.Body), c.parts[0])
		default:
			is.Equal(got.Status, 206)
			_, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
			is.NoErr(err)
			r := multipart.NewReader(bytes.NewReader(got.Body), params["boundary"])
			var parts []string
			for {
				p, err := r.NextPart()
				if err == io.EOF {
					break
				}
				is.NoErr(err)
				is.Equal(p.Header.Get("Content-Type"), "text/plain; charset=utf-8")
				part, err := io.ReadAll(p)
				is.NoErr(err)
				parts = append(parts, string(part))
			}
			is.Equal(parts, c.parts)
		}
		head := a.Do(apitest.Request{Method: "HEAD", Path: "/x/" + slug, Anyone: true, Header: h.Clone(), Raw: true})
		is.Equal(head.Status, got.Status)
		is.Equal(head.Header.Get("Content-Length"), got.Header.Get("Content-Length"))
	}
}

func TestPublicConditions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	slug := a.Share("hello")
	etag := a.Visit("/x/" + slug).Want(200).Header.Get("Etag")
	for match, status := range map[string]int{
		etag: 304, "W/" + etag: 304, "*": 304, `"a", ` + etag + `, "b"`: 304, `"a",` + etag: 304, `W/"a"`: 200, `"a"`: 200, "": 200, strings.Trim(etag, `"`): 200, `"`: 200, ",": 200, `"a,b", ` + etag: 304,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := a.Send(method, "/x/"+slug, "If-None-Match", match)
			is.Equal(got.Status, status)
			is.Equal(got.Header.Get("Etag"), etag)
			is.Equal(got.Header.Get("Cache-Control"), "private, no-cache")
			a.IsHostile(match, got.Header)
			if status == 304 {
				is.Equal(len(got.Body), 0)
				is.Equal(got.Header.Get("Content-Type"), "")
			}
		}
	}
	is.Equal(a.Send("GET", "/x/"+slug, "If-None-Match", `"a"`, "If-None-Match", etag).Status, 304) // in two lines
	is.Equal(a.Send("GET", "/x/"+slug, "If-None-Match", etag, "Range", "bytes=0-1").Status, 304)
	is.Equal(a.Send("GET", "/x/"+slug, "If-Match", etag).Status, 200)
	is.Equal(a.Send("GET", "/x/"+slug, "If-Match", "*").Status, 200)
	is.Equal(a.Send("GET", "/x/"+slug, "If-Match", `"a", `+etag).Status, 200)
	// a weak one does not do
	is.Equal(a.Send("GET", "/x/"+slug, "If-Match", "W/"+etag).Status, 412)
	// the first of all
	is.Equal(a.Send("GET", "/x/"+slug, "If-Match", `"a"`, "If-None-Match", etag, "Range", "bytes=0-").Status, 412)
	is.Equal(a.Send("HEAD", "/x/"+slug, "If-None-Match", `"a"`, "Range", "bytes=1-2", "If-Range", etag).Status, 206)
	is.Equal(a.Send("HEAD", "/x/"+slug, "If-None-Match", `"a"`, "Range", "bytes=1-2", "If-Range", `"a"`).Status, 200)
	is.Equal(a.Send("GET", "/x/"+slug, "If-Unmodified-Since", "Fri, 01 Jan 1999 00:00:00 GMT").Status, 200)
	// there are no dates
	is.Equal(a.Send("GET", "/x/"+slug, "If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT").Status, 200)

	// A failed condition is an error like any other.
	r := httptest.NewRequest("GET", "/x/"+slug, nil)
	r.Host = "localhost"
	r.Header.Set("If-Match", `"other"`)
	w := httptest.NewRecorder()
	a.Server.ServeHTTP(w, r)
	is.Equal(w.Code, 412)
	is.True(!strings.Contains(w.Body.String(), "hello"))
	a.IsHostile("412", w.Header())

	note := a.Post("/api/v1/notes", `{"content":"text","isPublic":true}`).Want(201).Text("data.slug")
	was := a.Visit("/x/" + note).Want(200).Header.Get("Etag")
	a.Send("GET", "/x/"+note, "If-None-Match", was).Want(304)
	a.Patch("/api/v1/notes/"+note, `{"content":"new"}`).Want(200)
	is.Equal(string(a.Send("GET", "/x/"+note, "If-None-Match", was).Want(200).Body), "new")
}

// TestPublicAddress: an extension is ignored, unless a slug has it.
func TestPublicAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Share("plain", "slug", "abc")
	a.Share("dotted", "slug", "abc.tar")
	a.Upload(map[string]string{"slug": "hid.txt"}, apitest.File("a.txt", "", "private")).Want(201)
	a.Share("public", "slug", "hid")
	a.Post("/api/v1/shorten", `{"originalUrl":"https://example.org/","slug":"golink","isPublic":true}`).Want(201)
	a.Post("/api/v1/bookmarks", `{"url":"https://example.org/","slug":"mark","isPublic":true}`).Want(201)
	a.Post("/api/v1/snippets", `{"content":"x := 1","slug":"code","isPublic":true}`).Want(201)
	for path, want := range map[string]string{
		"/x/abc": "plain", "/x/abc.txt": "plain", "/x/abc.html": "plain", "/x/abc.tar": "dotted", "/x/abc.tar.gz": "dotted", "/x/hid.txt": "public", "/x/abc.": "plain",
		"/x/code": "x := 1", "/x/code.go": "x := 1",
	} {
		got := a.Visit(path).Want(200)
		is.Equal(string(got.Body), want)
		is.Equal(got.Header.Get("Content-Type"), "text/plain; charset=utf-8") // whatever the address says
	}
	for _, path := range []string{
		"/x/ABC", "/x/abc.x.y", "/x/.txt", "/x/none.txt", "/x/golink", "/x/mark", "/s/abc", "/s/code", "/s/golink.html",
		"/s/none",
	} {
		a.Visit(path).Want(404)
	}
	is.Equal(string(a.Get("/x/hid.txt").Want(200).Body), "private") // to its owner
}

// TestPublicHeaders: stored bytes come in the headers that tame them, on every
// status.
func TestPublicHeaders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	up := func(name, content string) string {
		return a.Upload(map[string]string{"isPublic": "true"}, apitest.File(name, "", content)).Want(201).Text("slug")
	}
	svg := up(`"><img src=x onerror=alert(1)>.svg`, "<svg onload=alert(1)>")
	got := a.Visit("/x/" + svg).Want(200)
	is.Equal(got.Header.Get("Content-Type"), "image/svg+xml")
	is.True(strings.HasSuffix(got.Header.Get("Content-Security-Policy"), "; sandbox")) // no script runs in it
	pdf := up("a.pdf", "%PDF-1.7")
	got = a.Visit("/x/" + pdf).Want(200)
	is.True(!strings.Contains(got.Header.Get("Content-Security-Policy"), "sandbox")) // viewers refuse it
	is.Equal(got.Header.Get("Content-Disposition"), `inline; filename="a.pdf"`)
	html := up("ä.html", "<html>")
	got = a.Visit("/x/" + html).Want(200)
	is.Equal(got.Header.Get("Content-Disposition"), `attachment; filename="_.html"; filename*=UTF-8''%C3%A4.html`)
	a.Share("x", "slug", "limited", "maxViews", "1")
	a.Share("x", "slug", "locked", "password", "secret")
	for _, c := range []struct {
		status int
		path   string
		header []string
	}{
		{200, "/x/" + svg, nil},
		{206, "/x/" + svg, []string{"Range", "bytes=0-0"}},
		{304, "/x/" + svg, []string{"If-None-Match", "*"}},
		{416, "/x/" + svg, []string{"Range", "bytes=99-"}},
		{404, "/x/none", nil},
		{401, "/x/locked", nil},
		{401, "/x/locked", []string{"X-Api-Key", "kist_bad"}},
		{400, "/x/locked", []string{"X-Api-Key", "kist_bad", "Authorization", "ApiKey b"}},
		{400, "/x/locked?" + strings.Repeat("a", web.MaxQuery+1), nil},
		{503, "/x/limited", []string{"Sec-Purpose", "prefetch"}},
		{200, "/x/limited", nil},
		{410, "/x/limited", nil},
	} {
		got := a.Send("GET", c.path, c.header...)
		is.Equal(got.Status, c.status)
		a.IsHostile(fmt.Sprint(c.status, " ", c.path), got.Header)
		if c.status >= 400 {
			is.Equal(got.Header.Get("Content-Type"), "text/plain; charset=utf-8")
			is.Equal(got.Header.Get("Content-Disposition"), "")
			is.Equal(got.Header.Get("Etag"), "")
			is.Equal(got.Header.Get("Cache-Control"), "no-store")
		}
		page := a.Send("GET", c.path, append(c.header, "Accept", "text/html")...)
		if page.Status >= 400 {
			is.True(strings.HasPrefix(page.Header.Get("Content-Type"), "text/html"))
			is.True(strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'"))
		}
	}
	// Other sites' pages may show what is open to everyone, and no more.
	for slug, policy := range map[string]string{svg: "cross-origin", "limited": "same-origin", "locked": "same-origin"} {
		is.Equal(a.Get("/x/"+slug).Want(200).Header.Get("Cross-Origin-Resource-Policy"), policy)
	}
}

// TestRawHeaders: at every address of stored bytes, at both origins, every
// answer has them, whatever its status and no matter who asks.
func TestRawHeaders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 900, 600))))
	for name, hosts := range map[string][]string{"one origin": {""}, "content apart": {"", apitest.ContentHost}} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			a := apitest.Start(t, func(c *web.Config) {
				if len(hosts) > 1 {
					apitest.Apart(c)
				}
			})
			for slug, fields := range map[string][]string{
				"open": nil, "locked": {"password", "secret"}, "hidden": {"isPublic", "false"}, "few": {"maxViews", "1"}, "over": {
					"expiresAt", a.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339),
				},
			} {
				a.Share(b.String(), append(fields, "slug", slug)...)
			}
			a.Clock.Advance(2 * time.Hour)
			seen := map[string]bool{}
			for _, host := range hosts {
				for _, at := range []string{"/x/", "/t/"} {
					for _, c := range []struct {
						status int // where the bytes are
						method string
						slug   string
						header []string
					}{
						{200, "GET", "open", nil},
						{200, "HEAD", "open", nil},
						{200, "GET", "open.html", nil},
						{200, "GET", "open?download=1", nil},
						{206, "GET", "open", []string{"Range", "bytes=0-1"}},
						{206, "GET", "open", []string{"Range", "bytes=0-1,3-4"}},
						{304, "GET", "open", []string{"If-None-Match", "*"}},
						{412, "GET", "open", []string{"If-Match", `"a"`}},
						{416, "GET", "open", []string{"Range", "bytes=9999999-"}},
						{400, "GET", "open?" + strings.Repeat("a", web.MaxQuery+1), nil},
						{401, "GET", "locked", nil},
						{200, "GET", "locked", []string{"X-Share-Password", "secret"}},
						{404, "GET", "hidden", nil},
						{404, "GET", "none", nil},
						{410, "GET", "over", nil},
						{405, "POST", "open", nil},
						{405, "DELETE", "open", nil},
						{204, "OPTIONS", "open", nil},
					} {
						for _, accept := range []string{"*/*", "text/html"} {
							header := append(slices.Clone(c.header), "Accept", accept)
							if host != "" {
								header = append(header, "Host", host)
							}
							got := a.Send(c.method, at+c.slug, header...)
							want := c.status
							switch {
							case host != "" && (want == 405 || want == 204): // one answer for all that is not there
								want = 404
							case host == "" && len(hosts) > 1 && (want < 400 || want == 412 || want == 416) && want != 204:
								want = 302
							}
							what := fmt.Sprint(c.method, " ", at, c.slug, " ", c.header, " ", accept, " at ", host)
							if got.Status != want {
								t.Errorf("%s: %d, want %d", what, got.Status, want)
							}
							if want != 204 {
								a.IsHostile(what, got.Header)
							}
							if want >= 400 && len(got.Header["Etag"])+len(got.Header["Content-Disposition"])+len(got.Header["Last-Modified"]) > 0 {
								t.Errorf("%s: tells of the content: %v", what, got.Header)
							}
							seen[fmt.Sprint(at, want)] = true
						}
					}
				}
			}
			for range limit.GuessesFrom {
				a.Send("GET", "/x/locked", "X-Share-Password", "wrong")
			}
			got := a.Send("GET", "/t/locked", "X-Share-Password", "wrong").Want(429)
			a.IsHostile("429", got.Header)
			got = a.Send("GET", "/x/few", "Sec-Purpose", "prefetch", "Host", hosts[len(hosts)-1]).Want(503)
			a.IsHostile("503", got.Header)
			is.True(seen["/x/206"] && seen["/t/304"])
		})
	}
}

// TestDisposition: a name is one line of ASCII that every reader takes for the
// same name, or, if it knows no better, for a harmless one.
func TestDisposition(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a.txt":           `filename="a.txt"`,
		"a b;c,d='e'.txt": `filename="a b;c,d='e'.txt"`,
		`a"b.txt`:         `filename="a_b.txt"; filename*=UTF-8''a%22b.txt`,
		`a\"b.txt`:        `filename="a__b.txt"; filename*=UTF-8''a%5C%22b.txt`,
		`..\..\a`:         `filename=".._.._a"; filename*=UTF-8''..%5C..%5Ca`,
		"../a":            `filename=".._a"; filename*=UTF-8''..%2Fa`,
		"100%.txt":        `filename="100_.txt"; filename*=UTF-8''100%25.txt`,
		"%22.txt":         `filename="_22.txt"; filename*=UTF-8''%2522.txt`,
		"été.txt":         `filename="_t_.txt"; filename*=UTF-8''%C3%A9t%C3%A9.txt`,
		"日本語":             `filename="___"; filename*=UTF-8''%E6%97%A5%E6%9C%AC%E8%AA%9E`,
		"😀.png":           `filename="_.png"; filename*=UTF-8''%F0%9F%98%80.png`,
		"\u202egnp.exe":   `filename="_gnp.exe"; filename*=UTF-8''%E2%80%AEgnp.exe`,
		"a\r\nX: 1":       `filename="a__X: 1"; filename*=UTF-8''a%0D%0AX%3A%201`,
		"a\x00\t\x7fb":    `filename="a___b"; filename*=UTF-8''a%00%09%7Fb`,
		"*'%":             `filename="*'_"; filename*=UTF-8''%2A%27%25`,
	} {
		for _, how := range []string{"inline", "attachment"} {
			if got := web.Disposition(how, name); got != how+"; "+want {
				t.Errorf("%q: %s", name, got)
			}
			apitest.IsDisposition(t, how, name)
		}
	}
	is := is.New(t)
	a := apitest.Start(t)
	// As they come out of an upload: without paths and what turns text about, and no longer than file systems take.
	for name, want := range map[string]string{
		"\u202egnp.exe": "gnp.exe", "CON.txt": "_CON.txt", strings.Repeat("日", 2000) + ".txt": strings.Repeat("日", 83) + ".txt", "../../a\u2066b": "ab",
	} {
		slug := a.Upload(map[string]string{"isPublic": "true"}, apitest.File(name, "", "text")).Want(201).Text("slug")
		_, params, err := mime.ParseMediaType(a.Visit("/x/" + slug).Want(200).Header.Get("Content-Disposition"))
		is.NoErr(err)
		is.Equal(params["filename"], want)
		is.True(len(params["filename"]) <= 255)
	}
}

func TestPublicCaching(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for name, c := range map[string]struct {
		fields []string
		want   string
	}{
		"public":    {nil, "private, no-cache"},
		"private":   {[]string{"isPublic", "false"}, "private, no-store"},
		"limited":   {[]string{"maxViews", "5"}, "private, no-store"},
		"protected": {[]string{"password", "secret"}, "private, no-store"},
		"expiring":  {[]string{"expiresAt", "2130-01-01T00:00:00Z"}, "private, no-store"},
	} {
		got := a.Get("/x/" + a.Share("x", append([]string{"slug", "is-" + name}, c.fields...)...)).Want(200)
		is.Equal(got.Header.Get("Cache-Control"), c.want)
		is.True(got.Header.Get("Etag") != "")
	}
	// An item made private is gone at the next request, for caches too.
	etag := a.Visit("/x/is-public").Want(200).Header.Get("Etag")
	a.Patch("/api/v1/files/is-public", `{"isPublic":false}`).Want(200)
	a.Send("GET", "/x/is-public", "If-None-Match", etag).Want(404)
	a.Visit("/x/is-public").Want(404)
	a.Patch("/api/v1/files/is-public", `{"isPublic":true}`).Want(200)
	a.Send("GET", "/x/is-public", "If-None-Match", etag).Want(304)
	a.Patch("/api/v1/files/is-public", `{"password":"secret"}`).Want(200)
	a.Send("GET", "/x/is-public", "If-None-Match", etag).Want(401)
	a.Delete("/api/v1/files/is-public").Want(200)
	a.Send("GET", "/x/is-public", "If-None-Match", etag).Want(404)
}

// TestPublicOwner: the owner's key opens everything and counts nothing;
// another user's is a visitor's.
func TestPublicOwner(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Admin)
	as := func(key, path string) *apitest.Answer {
		return a.Do(apitest.Request{Method: "GET", Path: path, Key: key})
	}
	a.Share("hidden", "slug", "hidden", "isPublic", "false", "password", "secret")
	a.Share("once", "slug", "once", "maxViews", "2")
	for range 5 {
		a.Get("/x/hidden").Want(200)
		a.Get("/x/once").Want(200)
	}
	as(a.AddKey(bob, people.ScopeAdmin), "/x/hidden").Want(404)             // administrators see no more than others
	as(a.AddKey(a.User, people.ScopeUpload), "/x/hidden").Want(404)         // a key that may not read does not
	as(a.AddKey(a.User, people.ScopeRead), "/x/hidden").Want(200)           //
	is.Equal(viewed(a, "once"), 0)                                          //
	as(a.AddKey(bob, people.ScopeAll), "/x/once").Want(200)                 // counted
	as(a.AddKey(a.User, people.ScopeUpload), "/x/once").Want(200)           // counted
	as(a.AddKey(bob, people.ScopeAll), "/x/once").Want(410)                 //
	is.Equal(viewed(a, "once"), 2)                                          //
	is.Equal(a.Get("/x/once").Want(200).Header.Get("Etag") != "", true)     // used up, but for its owner
	a.Patch("/api/v1/files/hidden", `{"expiresAt":"2130-01-01T00:00:00Z"}`) //
	a.Clock.Advance(200 * 365 * 24 * time.Hour)
	is.Equal(string(a.Get("/x/hidden").Want(200).Body), "hidden") // expired, but for its owner
}

// TestPublicHidden: what is private, unknown or of another kind is answered
// alike, byte for byte.
func TestPublicHidden(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Share("x", "slug", "private", "isPublic", "false")
	a.Share(
		"x", "slug", "sealed", "isPublic", "false", "password", "secret", "maxViews", "3", "expiresAt",
		"2130-01-01T00:00:00Z",
	)
	a.Post("/api/v1/shorten", `{"originalUrl":"https://example.org/","slug":"privlink"}`).Want(201)
	a.Post("/api/v1/notes", `{"content":"x","slug":"privnote","password":"secret"}`).Want(201)
	bob := a.AddUser("bob", people.Member)
	q := a.UploadRequest(map[string]string{"slug": "bobs", "isPublic": "true"}, apitest.File("a.txt", "", "x"))
	q.Key = a.AddKey(bob, people.ScopeAll)
	a.Do(q).Want(201)
	a.Visit("/x/bobs").Want(200)
	a.Patch("/api/v1/admin/users/"+bob.ID.String(), `{"disabled":true}`).Want(200)

	dump := func(method, path string, header ...string) string {
		h := apitest.WithHeader(header...)
		h.Set("X-Request-Id", "same")
		req := apitest.Request{Method: method, Path: path, Anyone: true, Header: h, Raw: true}
		if method == "POST" {
			req.JSON = "{}"
		}
		got := a.Do(req).Want(404)
		got.Header.Del("Date")
		return fmt.Sprint(got.Header, string(got.Body))
	}
	for _, header := range [][]string{
		nil, {"X-Share-Password", "guess"}, {"Range", "bytes=0-1"}, {"If-None-Match", "*"}, {"Accept", "text/html"}, {"Sec-Purpose", "prefetch"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			want := dump(method, "/x/unknown", header...)
			for _, path := range []string{
				"/x/private", "/x/sealed", "/x/sealed.txt", "/x/privnote", "/x/privlink", "/x/bobs", "/x/unknown.txt",
			} {
				is.Equal(dump(method, path, header...), want)
			}
			want = dump(method, "/s/unknown", header...)
			for _, path := range []string{"/s/privlink", "/s/private", "/s/privnote"} {
				is.Equal(dump(method, path, header...), want)
			}
		}
	}
	want := dump("POST", "/api/v1/notes/p/unknown")
	for _, path := range []string{"/api/v1/notes/p/privnote", "/api/v1/notes/p/private", "/api/v1/snippets/p/privnote"} {
		is.Equal(dump("POST", path), want)
	}
	// An account that is opened again shares again.
	a.Patch("/api/v1/admin/users/"+bob.ID.String(), `{"disabled":false}`).Want(200)
	a.Visit("/x/bobs").Want(200)
}

func TestPublicExpiry(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	at := a.Server.Store.Now().Add(time.Hour).Truncate(time.Millisecond)
	expires := at.Format("2006-01-02T15:04:05.000Z")
	a.Share("x", "slug", "file", "expiresAt", expires)
	a.Share("x", "slug", "locked", "expiresAt", expires, "password", "secret")
	a.Share("x", "slug", "private", "expiresAt", expires, "isPublic", "false")
	a.Post(
		"/api/v1/shorten", `{"originalUrl":"https://example.org/","slug":"short","isPublic":true,"expiresAt":"`+expires+`"}`,
	).Want(201)
	a.Visit("/x/file").Want(200)
	a.Visit("/s/short").Want(302)
	a.Clock.Advance(time.Until(at) - time.Duration(a.Clock.Offset.Load())) // the very instant
	for _, path := range []string{"/x/file", "/s/short", "/x/locked"} {
		is.Equal(a.Visit(path).Status, 410)
		is.Equal(a.Send("HEAD", path).Status, 410)
		is.Equal(a.Send("GET", path, "If-None-Match", "*", "Range", "bytes=0-0").Status, 410)
	}
	a.Visit("/x/private").Want(404) // the visitor was never entitled to know of it
	a.Clock.Advance(-2 * time.Hour)
	a.Visit("/x/file").Want(410) // a clock that is set back revives nothing
	a.Patch("/api/v1/files/file", `{"expiresAt":null}`).Want(200)
	a.Visit("/x/file").Want(200)
}

// TestPublicViews: what is a view of an item without a limit, and what is not.
func TestPublicViews(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	slug := a.Share("0123456789")
	etag := a.Visit("/x/" + slug).Want(200).Header.Get("Etag") // 1
	for _, header := range [][]string{
		{"Range", "bytes=0-"},                                // 2
		{"Range", "bytes=0-0"},                               // 3
		{"Range", "bytes=-10"},                               // 4: all of it
		{"Range", "bytes=5-", "If-Range", `"other"`},         // 5: all of it
		{"Range", "items=5-"},                                // 6: all of it
		{"Range", "bytes=8-9,0-1"},                           // 7
		{"If-None-Match", `"other"`},                         // 8
		{"User-Agent", "Mozilla/5.0 (X11; Linux x86_64) XY"}, // 9
		{"Range", "bytes=5-6,-10"},                           // 10: from the start, counted from the end
		{"Range", "bytes=0-9,0-9"},                           // 11: all of it
		{"Range", "bytes=5-6, 0-0 ,99-"},                     // 12
		{"Range", "bytes=1-2,5-6", "If-Range", `"other"`},    // 13: all of it
		{"Range", "bytes=5-"},
		{"Range", "bytes=-3"},
		{"Range", "bytes=1-2,5-6"},
		{"Range", "bytes=1-,-1"},
		{"Range", "bytes=5-6,-3, 1-1"},
		{"Range", "bytes=99-,5-6"},
		{"Range", "bytes=10-"},
		{"Range", "bytes=abc"},
		{"If-None-Match", etag},
		{"Sec-Purpose", "prefetch;prerender"},
		{"Purpose", "Prefetch"},
		{"X-Moz", "prefetch"},
		{"User-Agent", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"},
		{"User-Agent", "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)"},
	} {
		a.Send("GET", "/x/"+slug, header...)
		a.Send("HEAD", "/x/"+slug, header...)
	}
	a.Send("OPTIONS", "/x/"+slug).Want(204)
	a.Send("POST", "/x/"+slug).Want(405)
	a.Flush()
	is.Equal(viewed(a, slug), 13)
}

// TestPublicLimitedViews: every byte of a limited item costs a view, and
// nothing else does.
func TestPublicLimitedViews(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Share("0123456789", "slug", "few", "maxViews", "5")
	etag := a.Send("HEAD", "/x/few").Want(200).Header.Get("Etag")
	is.True(!strings.Contains(etag, "84d89877")) // which tells nothing of the content
	card := a.Send("GET", "/x/few", "User-Agent", "WhatsApp/2.23").Want(200)
	is.Equal(card.Header.Get("Content-Type"), "text/html; charset=utf-8")
	is.Equal(card.Header.Get("Etag")+card.Header.Get("Content-Disposition"), "")
	is.True(!strings.Contains(string(card.Body), "0123456789"))
	for _, c := range []struct {
		status int
		header []string
	}{
		{503, []string{"Sec-Purpose", "prefetch"}},
		{304, []string{"If-None-Match", etag}},
		{304, []string{"If-None-Match", "*"}},
		{416, []string{"Range", "bytes=10-"}},
		{416, []string{"Range", "bytes=-0"}},
		{206, []string{"Range", "bytes=1-"}}, // 1
		{206, []string{"Range", "bytes=9-9"}},
		{206, []string{"Range", "bytes=1-2,4-5"}},
		{206, []string{"User-Agent", "another", "Range", "bytes=1-2,4-5"}}, // 2
		{206, []string{"User-Agent", "a third", "Range", "bytes=1-2"}},     // 3
		// 4: guessing the content is no way
		{200, []string{"If-None-Match", `"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"`}},
		// 5
		{
			200,
			[]string{
				"If-None-Match", `"other"`, "Range", "bytes=3-4", "If-Range", `"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c1"`,
			},
		},
		{410, nil},
		{206, []string{"Range", "bytes=1-"}}, // of the first view
		{410, []string{"User-Agent", "a fourth", "Range", "bytes=1-"}},
		{410, []string{"Sec-Purpose", "prefetch"}},
		{410, []string{"If-None-Match", etag}},
	} {
		head := a.Send("HEAD", "/x/few", c.header...)
		is.True(head.Status != 503 && len(head.Body) == 0)
		got := a.Send("GET", "/x/few", c.header...)
		is.Equal(got.Status, c.status)
		a.IsHostile(fmt.Sprint(c.header), got.Header)
	}
	is.Equal(viewed(a, "few"), 5)
	// Published again, the count starts again. Failed passwords are no views.
	a.Patch("/api/v1/files/few", `{"isPublic":true,"password":"secret","maxViews":1}`).Want(200)
	a.Visit("/x/few").Want(401)
	a.Send("GET", "/x/few", "X-Share-Password", "wrong", "Range", "bytes=1-").Want(401)
	a.Send("GET", "/x/few", "X-Share-Password", "secret").Want(200)
	a.Visit("/x/few").Want(410)
	is.Equal(viewed(a, "few"), 6)
}

// TestPublicUsedUp: visitors are told that an item is used up until its owner
// says that it is private, or takes the limit away.
func TestPublicUsedUp(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	use := func(slug string) {
		t.Helper()
		a.Share("x", "slug", slug, "maxViews", "1")
		a.Visit("/x/" + slug).Want(200)
		a.Visit("/x/" + slug).Want(410)
		a.Patch("/api/v1/files/"+slug, `{"description":"d","maxViewsAction":"make_private"}`).Want(200)
		a.Visit("/x/" + slug).Want(410)
	}
	use("hidden")
	is.Equal(a.Patch("/api/v1/files/hidden", `{"isPublic":false}`).Want(200).At("data.isPublic"), false)
	a.Visit("/x/hidden").Want(404)
	a.Patch("/api/v1/files/hidden", `{"isPublic":true}`).Want(200)
	a.Visit("/x/hidden").Want(200) // its count started again
	a.Visit("/x/hidden").Want(410)
	use("unlimited")
	is.Equal(a.Patch("/api/v1/files/unlimited", `{"maxViews":null}`).Want(200).At("data.isPublic"), false)
	a.Visit("/x/unlimited").Want(404)

	a.Post(
		"/api/v1/shorten", `{"originalUrl":"https://example.org/","slug":"short","isPublic":true,"maxClicks":1}`,
	).Want(201)
	a.Visit("/s/short").Want(302)
	a.Visit("/s/short").Want(410)
	a.Patch("/api/v1/shorten/short", `{"isPublic":false}`).Want(200)
	a.Visit("/s/short").Want(404)
}

// TestOpensOfOneNetwork: one network opens items with a limit so often and no more, by whatever
// address. Other networks and items without a limit are left alone.
func TestOpensOfOneNetwork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.Post(
		"/api/v1/shorten", `{"originalUrl":"https://example.org/","slug":"l","isPublic":true,"maxClicks":1000}`,
	).Want(201)
	a.Post("/api/v1/notes", `{"content":"n","slug":"n","isPublic":true,"maxViews":1000}`).Want(201)
	a.Share("content", "slug", "f", "maxViews", "1000")
	a.Share("content", "slug", "free")
	read := func(from string) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/notes/p/n", Anyone: true, JSON: `{}`,
			Header: apitest.WithHeader("X-Forwarded-For", from),
		})
	}
	const own, other = "192.0.2.1", "192.0.2.2"
	for range 15 {
		a.Visit("/s/l", "X-Forwarded-For", own).Want(302)
		a.Visit("/v/n", "X-Forwarded-For", own).Want(200)
		a.Visit("/x/f", "X-Forwarded-For", own).Want(200)
		read(own).Want(200)
	}

	for path, status := range map[string]int{"/s/l": 302, "/v/n": 200, "/x/f": 200} {
		is.True(a.Visit(path, "X-Forwarded-For", own).Want(429).Header.Get("Retry-After") != "")
		a.Visit(path, "X-Forwarded-For", other).Want(status)
	}
	is.Equal(read(own).Want(429).Text("code"), "too_many_views")
	read(other).Want(200)
	a.Visit("/x/free", "X-Forwarded-For", own).Want(200)
	is.Equal(a.Get("/api/v1/shorten/l").At("data.clicks"), 16.0) // those that were refused do not count

	a.Clock.Advance(time.Minute)
	a.Visit("/s/l", "X-Forwarded-For", own).Want(302)
}

// TestPublicLimitRace: of 200 clients at once exactly N get the item, whole,
// whatever becomes of it then.
func TestPublicLimitRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const clients, most = 200, 7
	content := strings.Repeat("0123456789abcdef", 16<<10) // longer than buffers
	for action, after := range map[string]int{"make_private": 410, "delete": 404} {
		for _, kind := range map[string][]string{
			"make_private": {"file", "link", "read"}, "delete": {"file", "link", "note"},
		}[action] {
			t.Run(action+" "+kind, func(t *testing.T) {
				is := is.New(t)
				a := apitest.Start(t, apitest.BehindProxy) // many clients, as one may open only so many
				whole, method, path, want := content, "GET", "/x/hot", 200
				switch kind {
				case "file":
					a.Share(content, "slug", "hot", "maxViews", fmt.Sprint(most), "maxViewsAction", action)
				case "link":
					whole, path, want = "", "/s/hot", 302
					a.Post(
						"/api/v1/shorten",
						fmt.Sprintf(
							`{"originalUrl":"https://example.org/","slug":"hot","isPublic":true,"maxClicks":%d,"maxViewsAction":%q}`, most,
							action,
						),
					).Want(201)
				default:
					whole = content[:16<<10]
					a.Post(
						"/api/v1/notes",
						fmt.Sprintf(`{"content":%q,"slug":"hot","isPublic":true,"maxViews":%d,"maxViewsAction":%q}`, whole, most, action),
					).Want(201)
				}
				if kind == "read" {
					method, path = "POST", "/api/v1/notes/p/hot"
				}
				got := make([]*http.Response, clients)
				bodies := make([]string, clients)
				var all sync.WaitGroup
				begin := make(chan struct{})
				for i := range clients {
					all.Go(func() {
						<-begin
						req, err := http.NewRequestWithContext(a.Context(), method, a.URL+path, nil)
						if err != nil {
							t.Error(err)
							return
						}
						req.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i))
						res, err := apitest.Plain.Do(req)
						if err != nil {
							t.Error(err)
							return
						}
						defer res.Body.Close()
						var b bytes.Buffer
						if _, err := b.ReadFrom(res.Body); err != nil {
							t.Error(err)
						}
						got[i], bodies[i] = res, b.String()
					})
				}
				close(begin)
				all.Wait()
				served := 0
				for i, res := range got {
					switch {
					case res.StatusCode == want:
						served++
						if kind == "read" {
							var v struct{ Data struct{ Content string } }
							is.NoErr(json.Unmarshal([]byte(bodies[i]), &v))
							bodies[i] = v.Data.Content
						}
						if bodies[i] != whole {
							t.Errorf("an answer has %d bytes in place of %d", len(bodies[i]), len(whole))
						}
					case res.StatusCode != after:
						t.Errorf("status %d", res.StatusCode)
					}
				}
				is.Equal(served, most)
				collection, counter := map[string]string{"file": "files", "link": "shorten"}[kind], "views"
				if kind == "link" {
					counter = "clicks"
				}
				if collection == "" {
					collection = "notes"
				}
				if action == "delete" {
					a.Get("/api/v1/" + collection + "/hot").Want(404)
				} else {
					is.Equal(a.Counted(collection, "hot", counter), most)
					is.Equal(a.Get("/api/v1/"+collection+"/hot").At("data.isPublic"), false)
				}
			})
		}
	}
	is.True(most < clients)
}

func TestPublicLinks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	link := func(slug, more string) {
		a.Post(
			"/api/v1/shorten", `{"originalUrl":"https://example.org/ä b?q=1#f","slug":"`+slug+`","isPublic":true`+more+`}`,
		).Want(201)
	}
	link("free", "")
	got := a.Visit("/s/free").Want(302) // 1
	is.Equal(got.Header.Get("Location"), "https://example.org/%C3%A4%20b?q=1#f")
	is.Equal(got.Header.Get("Cache-Control"), "no-store")
	is.Equal(got.Header.Get("Referrer-Policy"), "no-referrer")
	is.Equal(a.Send("HEAD", "/s/free").Want(302).Header.Get("Location"), got.Header.Get("Location"))
	a.Send("GET", "/s/free", "Sec-Purpose", "prefetch").Want(302)
	a.Send("GET", "/s/free", "User-Agent", "Twitterbot/1.0").Want(302)
	a.Send("GET", "/s/free", "Range", "bytes=5-", "If-None-Match", "*").Want(302) // 2: neither means anything here
	a.Get("/s/free").Want(302)                                                    // the owner
	a.Flush()
	is.Equal(a.Counted("shorten", "free", "clicks"), 2)

	link("few", `,"maxClicks":2,"password":"secret"`)
	ok := []string{"X-Share-Password", "secret"}
	a.Visit("/s/few").Want(401)
	a.Send("GET", "/s/few", "X-Share-Password", "wrong").Want(401)
	head := a.Send("HEAD", "/s/few", ok...)
	is.Equal(head.Status, 200)
	is.Equal(head.Header.Get("Location"), "") // where it leads costs a click
	got = a.Send("GET", "/s/few", append(ok, "Sec-Purpose", "prefetch")...).Want(503)
	is.Equal(got.Header.Get("Location"), "")
	for _, path := range []string{"/s/few", "/few"} { // a card that does not tell where it leads
		got = a.Send("GET", path, append(ok, "User-Agent", "facebookexternalhit/1.1")...).Want(200)
		is.Equal(got.Header.Get("Location"), "")
		is.True(!bytes.Contains(got.Body, []byte("example.org/%")) && !bytes.Contains(got.Body, []byte("example.org/ä")))
		is.True(bytes.Contains(got.Body, []byte(`property="og:title" content="few"`)))
		is.True(bytes.Contains(got.Body, []byte(`href="https://kist.example.org/s/few"`)))
	}
	is.True(a.Get("/s/few").Want(302).Header.Get("Location") != "")
	a.Send("GET", "/s/few", ok...).Want(302)
	a.Send("GET", "/s/few", append(ok, "Range", "bytes=1-")...).Want(302)
	a.Send("GET", "/s/few", ok...).Want(410)
	is.Equal(a.Counted("shorten", "few", "clicks"), 2)
}

func TestPublicPasswords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	a.Share("x", "slug", "locked", "password", "sésame ")
	from := func(addr, password string) *apitest.Answer {
		return a.Send("GET", "/x/locked", "X-Forwarded-For", addr, "X-Share-Password", password)
	}
	body := func(got *apitest.Answer) string { return string(got.Want(401).Body) }
	is.Equal(body(a.Visit("/x/locked")), body(from("1.1.1.1", "")))
	a.Visit("/x/locked?password=s%C3%A9same%20&x-share-password=s%C3%A9same%20").Want(401) // never in the address
	is.Equal(a.Send("GET", "/x/locked", "Authorization", "Basic OnPDqXNhbWUg").Status, 401)
	post := a.Post("/api/v1/notes", `{"content":"text","slug":"diary","isPublic":true,"password":"secret"}`).Want(201)
	is.Equal(post.At("data.hasPassword"), true)

	is.Equal(from("1.1.1.1", "sésame").Status, 401) // header values are trimmed on the way, the password is not
	from("1.1.1.1", strings.Repeat("x", 2000)).Want(401)
	for range 4 { // the long one was no guess: no password is as long
		from("1.1.1.1", "wrong").Want(401)
	}
	for _, password := range []string{"wrong", "sésame "} { // the sixth, right or wrong
		got := from("1.1.1.1", password).Want(429)
		seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
		is.NoErr(err)
		is.True(seconds > 200 && seconds <= 300)
		is.True(!bytes.Contains(got.Body, []byte("sésame")))
	}
	is.Equal(a.Visit("/x/locked").Status, 401)                         // no guess, no limit
	a.Get("/x/locked").Want(200)                                       // never the owner
	a.Send("GET", "/x/locked", "X-Forwarded-For", "1.1.1.1").Want(401) //
	from("2001:db8::1", "wrong").Want(401)                             // another address
	for i := range 24 {                                                // thirty in all, as if from anywhere
		a.Guessed(fmt.Sprintf("3.3.3.%d/32", i), a.ID("locked"))
	}
	is.Equal(from("4.4.4.4", "wrong").Status, 400) // a proof of work is needed
	a.Clock.Advance(5 * time.Minute)
	from("4.4.4.4", "wrong").Want(401)

	// In the API the password is in the body, or in the header.
	read := func(body any, header ...string) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/notes/p/diary", Anyone: true, JSON: body, Header: apitest.WithHeader(header...),
			Raw: true,
		})
	}
	is.Equal(read(`{"password":"secret"}`).Want(200).Text("data.content"), "text")
	is.Equal(read(`{}`, "X-Share-Password", "secret").Want(200).Text("data.content"), "text")
	is.Equal(read(`{"password":null}`, "X-Share-Password", "secret").Want(200).Text("data.content"), "text")
	is.Equal(read(`{}`).Want(401).Code(), "password_required")
	is.Equal(read(`{"password":""}`).Want(401).Code(), "password_required")
	is.Equal(read(`{"password":"wrong"}`, "X-Share-Password", "secret").Want(401).Code(), "wrong_password")
	read(`{"password":["secret"]}`).Want(422)
	read(`{"password":1}`).Want(422)
	read(`[`).Want(400)
	is.Equal(
		a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/notes/p/diary?password=secret", Anyone: true, Raw: true,
		}).Want(401).Code(),
		"password_required",
	)
	a.Flush()
	is.Equal(a.Counted("notes", "diary", "views"), 3)
	// A new password ends what the old one opened.
	a.Patch("/api/v1/notes/diary", `{"password":"other"}`).Want(200)
	is.Equal(read(`{"password":"secret"}`).Want(401).Code(), "wrong_password")
	read(`{"password":"other"}`).Want(200)
}

// TestPublicGuessesInParallel: many guesses at once tell no more than as many
// one by one.
func TestPublicGuessesInParallel(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.RealPasswords)
	a.Share("x", "slug", "locked", "password", "secret")
	got := make([]int, 12)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { got[i] = a.Send("GET", "/x/locked", "X-Share-Password", "wrong").Status })
	}
	all.Wait()
	wrong := 0
	for _, status := range got {
		is.True(status == 401 || status == 429 || status == 503)
		if status == 401 {
			wrong++
		}
	}
	is.True(wrong <= limit.GuessesFrom)
}

// TestPublicGuessUnknown: a password for what is not there costs the same work
// as for what is, and is limited in the same way.
func TestPublicGuessUnknown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for i := range limit.GuessesFrom {
		a.Send("GET", fmt.Sprintf("/x/unknown%d", i), "X-Share-Password", "guess").Want(404)
	}
	limit := people.Limit{Kind: limit.KindFrom, Of: "127.0.0.1/32 missing", Most: limit.GuessesFrom}
	// every one was checked against a hash and counted
	is.True(people.TriesOf(a.Server.Store).Wait(a.Server.Store.Now(), limit) > 0)
	a.Send("GET", "/x/unknown", "X-Share-Password", "guess").Want(404)
}

// TestPublicGuessExtension: an extension after the slug makes no second guess
// of a password, nor one at something unknown.
func TestPublicGuessExtension(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Share("x", "slug", "locked", "password", "secret")
	// counted reports how many wrong guesses there were at the thing so far.
	counted := func(at string) (n int) {
		for n = 0; people.TriesOf(a.Server.Store).Wait(
			a.Server.Store.Now(), people.Limit{Kind: limit.KindOverall, Of: at, Most: n + 1},
		) > 0; n++ {
		}
		return n
	}
	id := a.ID("locked")
	for _, c := range []struct {
		path, password string
		status         int
		locked, gone   int // guesses at the item, and at what is not there
	}{
		{"/x/locked.txt", "secret", 200, 0, 0},
		{"/x/locked.txt", "wrong", 401, 1, 0},
		{"/x/locked", "wrong", 401, 2, 0},
		{"/x/none.txt", "wrong", 404, 2, 1},
		{"/x/none", "wrong", 404, 2, 2},
	} {
		a.Send("GET", c.path, "X-Share-Password", c.password).Want(c.status)
		is.Equal(counted(id), c.locked)
		is.Equal(counted("missing"), c.gone)
	}
}

func TestPublicReadCounts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, k := range record.Kinds[1:] {
		body := map[string]any{
			"title": "t", "content": "c", "url": "https://example.org/", "originalUrl": "https://example.org/",
			"slug": "one-" + k.Name, "isPublic": true, k.Limit: 2,
		}
		if k == record.Links {
			delete(body, "url")
		}
		a.Post("/api/v1/"+k.Path, body).Want(201)
		path := "/api/v1/" + k.Path + "/p/one-" + k.Name
		read := func(key string) int {
			return a.Do(apitest.Request{Method: "POST", Path: path, Key: key, Anyone: key == "", JSON: "{}"}).Status
		}
		is.Equal(read(a.Key), 200) // the owner
		is.Equal(read(""), 200)
		is.Equal(a.Do(apitest.Request{Method: "POST", Path: path, Anyone: true, Raw: true}).Status, 200) // without a body
		is.Equal(read(""), 410)
		is.Equal(read(a.Key), 200)
		is.Equal(a.Counted(k.Path, "one-"+k.Name, k.Counter), 2)
		for _, other := range record.Kinds[1:] {
			if other != k {
				is.Equal(
					a.Do(apitest.Request{
						Method: "POST", Path: "/api/v1/" + other.Path + "/p/one-" + k.Name, Anyone: true, JSON: "{}",
					}).Status,
					404,
				)
			}
		}
	}
}

// TestPublicReadHides: what a record is to its owner is not shown to others,
// nor to its owner where others look.
func TestPublicReadHides(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, k := range record.Kinds[1:] {
		body := apitest.Parse(t, apitest.Whole[k])
		body["slug"], body["isPublic"], body["isFavorite"], body["tags"] = "one-"+k.Name, true, true, []string{"travel"}
		owners := a.Post("/api/v1/"+k.Path, body).Want(201).Object("data")
		is.Equal(owners["isFavorite"], true)
		for _, key := range []string{"", a.Key} {
			got := a.Do(apitest.Request{
				Method: "POST", Path: "/api/v1/" + k.Path + "/p/one-" + k.Name, Key: key, Anyone: key == "", JSON: "{}",
			}).Want(200).Object("data")
			_, there := got["isFavorite"]
			is.True(!there)
			hidden := []string{"isFavorite"}
			if k == record.Bookmarks {
				hidden = append(hidden, "reachable", "checkedAt", "unreachableSince", "iconUrl", "behindSignIn")
			}
			if k == record.Collections {
				hidden = append(hidden, "source", "leftOut", "members", "pictures", "uploadRequestId")
			}
			for name := range owners {
				_, there := got[name]
				is.Equal(there, !slices.Contains(hidden, name))
			}
			is.Equal(len(got), len(owners)-len(hidden))
		}
		a.Get("/api/v1/" + k.Path + "/one-" + k.Name).Want(200).Object("data") // as documented: with all of it
	}
}

// TestPublicLostContent: a record without its bytes answers as if it were not
// there; with other bytes it answers none of them.
func TestPublicLostContent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	a.Share("hello", "slug", "lost", "maxViews", "5")
	blob := filepath.Join(a.Server.Store.Dir(), "blobs", a.BlobNames()[0])
	is.NoErr(os.Truncate(blob, 3))
	got := a.Visit("/x/lost").Want(410)
	is.True(!bytes.Contains(got.Body, []byte("hel")))
	a.IsHostile("410", got.Header)
	is.NoErr(os.Remove(blob))
	a.Visit("/x/lost").Want(404)
	is.Equal(viewed(a, "lost"), 0)
	is.True(strings.Contains(a.Logged.String(), "a file has no content"))
	elsewhere := apitest.Start(t, func(c *web.Config) { c.Elsewhere = "s3://bucket/home" })
	elsewhere.Share("hello", "slug", "lost", "maxViews", "5")
	is.NoErr(os.Remove(filepath.Join(elsewhere.Server.Store.Dir(), "blobs", elsewhere.BlobNames()[0])))
	is.Equal(elsewhere.Visit("/x/lost").Want(503).Header.Get("Retry-After"), "10")
	is.Equal(viewed(elsewhere, "lost"), 0)
	is.True(strings.Contains(string(elsewhere.Get("/x/lost").Want(503).Body), "the server was started without it"))
	a.Share("hello") // the same content again mends it
	a.Visit("/x/lost").Want(200)
}

// TestPublicMisses: slugs cannot be tried out, and who has seen nothing but
// what is shared, or is signed in, is not hindered.
func TestPublicMisses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	a.Share("x", "slug", "there")
	a.Share("x", "slug", "hidden", "isPublic", "false")
	from := func(method, path, addr string) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: method, Path: path, Anyone: true, Raw: true, Header: apitest.WithHeader("X-Forwarded-For", addr),
		})
	}
	paths := []string{"/x/", "/v/", "/s/", "/t/", "/g/", "/"}
	for i := range limit.MaxMisses - 2 {
		path := fmt.Sprint(paths[i%len(paths)], "none", i)
		if i%len(paths) < 2 { // an item of a collection
			path += "/a"
		}
		from([]string{"GET", "HEAD"}[i%2], path, fmt.Sprintf("9.9.9.%d, 1.1.1.1", i)).Want(404)
	}
	from("GET", "/x/hidden", "1.1.1.1").Want(404)
	from("GET", "/x/there", "1.1.1.1").Want(200) // is no miss
	from("GET", "/x/there", "1.1.1.1").Want(200)
	from("POST", "/api/v1/notes/p/none", "1.1.1.1").Want(404)
	for _, path := range paths {
		for _, slug := range []string{"there", "none", "hidden"} {
			got := from("GET", path+slug, "1.1.1.1").Want(429)
			seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
			is.NoErr(err)
			is.True(seconds > 0 && seconds <= 60)
		}
	}
	is.Equal(from("POST", "/api/v1/notes/p/none", "1.1.1.1").Want(429).Code(), "too_many_misses")
	from("GET", "/healthz", "1.1.1.1").Want(200)
	from("GET", "/x/there", "1.1.1.2").Want(200)
	for range limit.MaxMisses + 1 { // who is known may look for anything
		a.Do(apitest.Request{
			Method: "GET", Path: "/x/none", Header: apitest.WithHeader("X-Forwarded-For", "1.1.1.1"),
		}).Want(404)
	}
	a.Do(apitest.Request{
		Method: "GET", Path: "/x/hidden", Header: apitest.WithHeader("X-Forwarded-For", "1.1.1.1"),
	}).Want(200)
	a.Clock.Advance(limit.MissWindow)
	from("GET", "/x/there", "1.1.1.1").Want(200)
	from("GET", "/x/none", "1.1.1.1").Want(404)
}
