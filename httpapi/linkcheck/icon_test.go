package linkcheck

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/thumb"
	"kist/kv/record"
)

// Where the icon of a page is looked for, and in which order.
func TestIconsOf(t *testing.T) {
	const at = "https://example.org/docs/page?q=1#part"
	for name, row := range map[string]struct{ text, want string }{
		"nothing is said": {"", "https://example.org/favicon.ico"},
		"one":             {`<link rel=icon href=/i.png>`, "https://example.org/i.png /favicon.ico"},
		"as it is written": {
			`<LINK REL="Shortcut ICON" HREF=" i.png ">`, "https://example.org/docs/i.png /favicon.ico",
		},
		"elsewhere": {`<link rel=icon href=//cdn.example/i.png>`, "https://cdn.example/i.png /favicon.ico"},
		"below the base": {
			`<base href="/b/"><link rel=icon href=i.png>`, "https://example.org/b/i.png /favicon.ico",
		},
		"base after it": {
			`<link rel=icon href=i.png><base href="https://b.example/c/"><base href=/no/>`,
			"https://b.example/c/i.png /favicon.ico",
		},
		"no address":          {`<link rel=icon href="http://[">`, "/favicon.ico"},
		"empty":               {`<link rel=icon href=""><link rel=icon>`, "/favicon.ico"},
		"in the page itself":  {`<link rel=icon href="data:image/png;base64,AAAA">`, "/favicon.ico"},
		"scripts":             {`<link rel=icon href="javascript:alert(1)">`, "/favicon.ico"},
		"files":               {`<link rel=icon href="file:///etc/passwd">`, "/favicon.ico"},
		"SVG by its type":     {`<link rel=icon type=image/svg+xml href=/i.png>`, "/favicon.ico"},
		"SVG by its name":     {`<link rel=icon href="/i.svg?v=2">`, "/favicon.ico"},
		"what nobody decodes": {`<link rel=icon type=image/avif href=/i>`, "/favicon.ico"},
		"of one colour":       {`<link rel=mask-icon href=/i.svg><link rel=fluid-icon href=/f.png>`, "/favicon.ico"},
		"other links": {
			`<link rel=stylesheet href=/s.css><link rel=preload as=image href=/p.png>`, "/favicon.ico",
		},
		"the same twice": {
			`<link rel=icon href=/i.png><link rel=apple-touch-icon href=/i.png#a>`, "https://example.org/i.png /favicon.ico",
		},
		"the usual place": {`<link rel=icon href=/favicon.ico>`, "/favicon.ico"},
		"three at most": {
			`<link rel=icon href=/1><link rel=icon href=/2><link rel=icon href=/3><link rel=icon href=/4>`,
			"https://example.org/1 https://example.org/2 https://example.org/3 /favicon.ico",
		},
		"by size": {
			`<link rel=icon sizes=16x16 href=/16><link rel=icon sizes=512x512 href=/512><link rel=icon sizes=32x32 href=/32><link rel=icon sizes=64X64 href=/64>`,
			"https://example.org/64 https://example.org/32 https://example.org/16 /favicon.ico",
		},
		"too large before small": {
			`<link rel=icon sizes=16x16 href=/16><link rel=icon sizes=192x192 href=/192><link rel=icon sizes=96x96 href=/96>`,
			"https://example.org/96 https://example.org/192 https://example.org/16 /favicon.ico",
		},
		"several sizes": {
			`<link rel=icon sizes="32x32" href=/32.png><link rel=icon sizes="16x16 48x48 256x256" href=/many.ico type=image/x-icon>`,
			"https://example.org/32.png https://example.org/many.ico /favicon.ico",
		},
		"any size, and telephones": {
			`<link rel=icon href=/favicon.ico sizes=any><link rel=apple-touch-icon href=/touch.png><link rel=icon href=/i.svg type=image/svg+xml>`,
			"https://example.org/touch.png /favicon.ico",
		},
		"PNG before others": {
			`<link rel=icon sizes=32x32 href=/a.jpg><link rel=icon sizes=32x32 href=/b.png>`,
			"https://example.org/b.png https://example.org/a.jpg /favicon.ico",
		},
		"telephones": {
			`<link rel=apple-touch-icon sizes=180x180 href=/touch.png><link rel=icon sizes=48x48 href=/48.png>`,
			"https://example.org/48.png https://example.org/touch.png /favicon.ico",
		},
		"after the body began": {`<title>T</title><body><link rel=icon href=/no.png>`, "/favicon.ico"},
		"senseless sizes": {
			`<link rel=icon sizes="x 32 -1x-1 99999999x1 0x0" href=/i.png>`, "https://example.org/i.png /favicon.ico",
		},
		"endless": {`<link rel=icon href="/` + strings.Repeat("x", maxHref) + `">`, "/favicon.ico"},
		"thousands": {
			`<title>T</title>` + strings.Repeat(
				`<link rel=icon sizes=16x16 href=/16>`, 5000,
			) + `<link rel=icon sizes=64x64 href=/late>`,
			"https://example.org/16 /favicon.ico",
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			u, err := url.Parse(at)
			is.NoErr(err)
			var got []string
			for _, u := range iconsOf(parse(strings.NewReader(row.text), typed), u) {
				got = append(got, u.String())
			}
			want := strings.Fields(row.want)
			want[len(want)-1] = "https://example.org/favicon.ico"
			is.Equal(got, want)
		})
	}
}

// picture is a PNG of the size.
func picture(t testing.TB, edge int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, edge, edge))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What sites have for an icon, what is asked for it, and what becomes of it.
func TestAskIcon(t *testing.T) {
	const page = "text/html"
	good := picture(t, 100)
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(good); err != nil {
				return
			}
		}
	}
	type files map[string]any // a text, bytes, a status, or a handler
	linked := `<link rel=icon href=/i.png>`
	for name, row := range map[string]struct {
		has   files
		fill  bool
		asked string
		icon  bool
	}{
		"of a page that is read": {files{"/": linked, "/i.png": good}, true, "GET /, GET /i.png", true},
		"of one that is checked": {files{"/": linked, "/i.png": good}, false, "HEAD /, GET /, GET /i.png", true},
		"the usual place":        {files{"/": "", "/favicon.ico": good}, true, "GET /, GET /favicon.ico", true},
		"none":                   {files{"/": ""}, true, "GET /, GET /favicon.ico", false},
		"the next one": {
			files{"/": linked, "/i.png": 404, "/favicon.ico": good}, true, "GET /, GET /i.png, GET /favicon.ico", true,
		},
		"for those who are known": {files{"/": 403, "/favicon.ico": good}, true, "GET /, GET /favicon.ico", true},
		"of no page":              {files{"/": 404, "/favicon.ico": good}, true, "GET /", false},
		"of one who is busy":      {files{"/": 429, "/favicon.ico": good}, true, "GET /", false},
		"busy when checked":       {files{"/": 429, "/favicon.ico": good}, false, "HEAD /", false},
		"SVG with a script": {
			files{"/": "", "/favicon.ico": `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`},
			true,
			"GET /, GET /favicon.ico", false,
		},
		"HTML as PNG": {
			files{"/": linked, "/i.png": "<!doctype html><script>alert(1)</script>"},
			true,
			"GET /, GET /i.png, GET /favicon.ico", false,
		},
		"as large as may be": {
			files{"/": linked, "/i.png": append(bytes.Clone(good), make([]byte, thumb.MaxIcon-len(good))...)},
			true,
			"GET /, GET /i.png", true,
		},
		"larger": {
			files{"/": linked, "/i.png": append(bytes.Clone(good), make([]byte, thumb.MaxIcon-len(good)+1)...)},
			true,
			"GET /, GET /i.png, GET /favicon.ico", false,
		},
		"endless": {files{"/": linked, "/i.png": endless}, true, "GET /, GET /i.png, GET /favicon.ico", false},
		"of too many pixels": {
			files{"/": linked, "/i.png": picture(t, 1100)}, true, "GET /, GET /i.png, GET /favicon.ico", false,
		},
		"packed": {files{"/": linked, "/i.png": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(good)
		}}, true, "GET /, GET /i.png, GET /favicon.ico", false},
		"moved": {files{"/": linked, "/i.png": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other.png", http.StatusFound)
		}, "/other.png": good}, true, "GET /, GET /i.png, GET /other.png", true},
		"round in circles": {files{"/": linked, "/i.png": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/i.png", http.StatusFound)
		}}, true, "GET /" + strings.Repeat(", GET /i.png", redirects+1) + ", GET /favicon.ico", false},
		"in a closed network": {
			files{"/": `<link rel=icon href=http://10.0.0.1/i.png>`}, true, "GET /, GET /favicon.ico", false,
		},
		"of credentials": {
			files{"/": `<link rel=icon href=http://169.254.169.254/i.png>`}, true, "GET /, GET /favicon.ico", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
				switch c := row.has[r.URL.Path].(type) {
				case string:
					w.Header().Set("Content-Type", page)
					_, _ = io.WriteString(w, c)
				case []byte:
					_, _ = w.Write(c)
				case int:
					w.WriteHeader(c)
				case func(http.ResponseWriter, *http.Request):
					c(w, r)
				default:
					http.NotFound(w, r)
				}
			})
			c := here(t, nil)
			found := c.ask(t.Context(), s.url+"/", row.fill)
			is.Equal(s.asked(), row.asked)
			site := siteOf(t, s.url)
			_, kept := c.icons.Get(site)
			is.Equal(kept, row.icon)
			want := record.ID{}
			if row.icon {
				want = site
			}
			is.Equal(found.Icon, want)
			if row.fill || row.has["/"] == 404 || row.has["/"] == 429 {
				return
			}
			// Anyone who looks at the site next asks for no icon.
			is.Equal(c.ask(t.Context(), s.url+"/", false).Icon, want)
			is.Equal(s.asked(), "HEAD /")
		})
	}
}

// A hundred pages of a site cost one icon, and it belongs to the site that
// answers in the end.
func TestIconOfSite(t *testing.T) {
	is := is.New(t)
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			_, _ = w.Write(picture(t, 32))
		}
	})
	short := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.url+r.URL.Path, http.StatusFound)
	})
	c := here(t, nil)
	site := siteOf(t, s.url)
	asked := map[string]int{}
	for i := range 100 {
		from := s.url
		if i%2 == 1 {
			from = short.url
		}
		is.Equal(c.ask(t.Context(), from+"/"+string(rune('a'+i%26)), i%3 > 0).Icon, site)
		for one := range strings.SplitSeq(s.asked(), ", ") {
			asked[one]++
		}
	}
	is.Equal(asked["GET /favicon.ico"], 1)
	is.True(!strings.Contains(short.asked(), "favicon"))
	is.True(slices.Max(slices.Collect(maps.Values(asked))) < 10)
	_, has := c.icons.Get(siteOf(t, short.url))
	is.True(!has)
}

// A page has the server ask nothing of another host that is not public, be that
// allowed: who keeps a page did not name that one.
func TestIconOfOtherHost(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		_, port, _ := strings.Cut(r.Host, ":")
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/linked":
			_, _ = io.WriteString(w, "<link rel=icon href=http://inside.example:"+port+"/do>")
		case "/moved":
			_, _ = io.WriteString(w, "<link rel=icon href=/on>")
		case "/on":
			http.Redirect(w, r, "http://inside.example:"+port+"/do", http.StatusFound)
		default:
			_, _ = w.Write(picture(t, 32))
		}
	})
	lookup := func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	at := strings.Replace(s.url, "127.0.0.1", "page.example", 1)
	for path, asked := range map[string]string{
		"/linked": "GET /linked, GET /favicon.ico", "/moved": "GET /moved, GET /on, GET /favicon.ico",
	} {
		t.Run(path, func(t *testing.T) {
			is := is.New(t)
			is.Equal(here(t, lookup).ask(t.Context(), at+path, true).Icon, siteOf(t, at))
			is.Equal(s.asked(), asked)
		})
	}
}

// A check does not fail if the icon cannot be stored.
func TestIconCannotBeKept(t *testing.T) {
	is := is.New(t)
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			_, _ = w.Write(picture(t, 32))
		}
	})
	c := here(t, nil)
	dir := t.TempDir() + "/icons"
	pictures, err := thumb.New(t.TempDir() + "/thumbs")
	is.NoErr(err)
	defer pictures.Close()
	c.icons, err = pictures.Icons(dir)
	is.NoErr(err)
	is.NoErr(os.Remove(dir))
	is.NoErr(os.WriteFile(dir, nil, 0o600))
	is.Equal(c.ask(t.Context(), s.url+"/", true), record.Look{Verdict: record.Answers, Read: true})
}

// FuzzIconsOf: whatever a page says, a few addresses of the web are asked.
func FuzzIconsOf(f *testing.F) {
	f.Add(`<link rel="shortcut icon" href=/a.ico sizes="16x16 32x32" type=image/x-icon>`)
	f.Add(`<base href=//b.example/c><link rel=icon href=i.png><link rel=apple-touch-icon href="http://[">`)
	f.Add(`<link rel=icon href="javascript:1"><link rel=icon href=data:,><base href=javascript:1>`)
	f.Add(`<base href="mailto:a@b"><link rel=icon href=?a#b sizes=any>`)
	f.Fuzz(func(t *testing.T, text string) {
		at := &url.URL{Scheme: "https", Host: "example.org", Path: "/a/b"}
		all := iconsOf(parse(strings.NewReader(text), typed), at)
		if len(all) == 0 || len(all) > maxLinked+1 {
			t.Fatal(all)
		}
		for _, u := range all {
			if u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" {
				t.Error(u)
			}
		}
	})
}
