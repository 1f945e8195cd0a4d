package linkcheck

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"
)

const typed = "text/html; charset=utf-8"

func TestParse(t *testing.T) {
	for name, row := range map[string]struct {
		text, media string
		want        page
	}{
		"plain": {
			"<!doctype html><title>Go</title><meta name=description content='A language'>", typed,
			page{title: "Go", description: "A language"},
		},
		"upper case": {
			"<HTML><HEAD><TITLE>Go</TITLE><META CONTENT=\"A language\" NAME=\"Description\">", typed,
			page{title: "Go", description: "A language"},
		},
		"entities and space": {
			"<title>\n  a &amp; b\t&lt;c&gt; &eacute; </title>", typed, page{title: "a & b <c> é", description: ""},
		},
		"of social networks": {
			`<meta property="og:title" content="OG"><meta property=og:description content=D>`, typed,
			page{title: "OG", description: "D"},
		},
		"both": {
			`<meta property="og:title" content="OG"><title>Own</title><meta name=description content=""><meta name="og:description" content=D>`,
			typed,
			page{title: "Own", description: "D"},
		},
		"empty title": {
			`<title> </title><meta name="twitter:title" content="T">`, typed, page{title: "T", description: ""},
		},
		"in a picture": {
			`<body><svg><title>Icon</title></svg><title>Page</title>`, typed, page{title: "Page", description: ""},
		},
		"second title": {`<title>One</title><title>Two</title>`, typed, page{title: "One", description: ""}},
		"in a script": {
			`<script>"<title>no</title>"</script><!-- <title>no</title> --><title>yes</title>`, typed,
			page{title: "yes", description: ""},
		},
		"after a long script": {
			"<script>" + strings.Repeat("x", 300<<10) + "</script><title>yes</title>", typed,
			page{title: "yes", description: ""},
		},
		"not in the body": {
			`<title>T</title><body><meta name=description content=no>`, typed, page{title: "T", description: ""},
		},
		"of no end": {`<title>T`, typed, page{title: "T", description: ""}},
		"nothing":   {"", typed, page{}},
		"by the header": {
			"<title>\xe9t\xe9</title>", "text/html; charset=iso-8859-1", page{title: "été", description: ""},
		},
		"by the page": {
			"<meta charset=windows-1251><title>\xcf\xf0\xe8\xe2\xe5\xf2</title>", "text/html",
			page{title: "Привет", description: ""},
		},
		"of Japan": {
			"<meta http-equiv=content-type content='text/html; charset=shift_jis'><title>\x83\x65\x83\x58\x83\x67</title>",
			"text/html",
			page{title: "テスト", description: ""},
		},
		"by nobody": {"<title>Gr\xf6\xdfe</title>", "text/html", page{title: "Größe", description: ""}},
		"by nobody, Russian": {
			"<title>\xcf\xf0\xe8\xe2\xe5\xf2</title>", "text/html", page{title: "Привет", description: ""},
		},
		"against the header": {
			"<title>Größe</title>", "text/html; charset=iso-8859-1", page{title: "Größe", description: ""},
		},
		"by its beginning": {
			"\xff\xfe<\x00t\x00i\x00t\x00l\x00e\x00>\x00T\x00", "text/html", page{title: "T", description: ""},
		},
		"controls": {"<title>a\x00\x1b[31mb\u202ec\u2066d\x7f</title>", typed, page{title: "a[31mbcd", description: ""}},
		"too late": {strings.Repeat(" ", maxPage) + "<title>T</title>", typed, page{}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(parse(strings.NewReader(row.text), row.media), row.want)
		})
	}
}

func TestIsPage(t *testing.T) {
	is := is.New(t)
	for media, want := range map[string]bool{
		"text/html": true, "Text/HTML; charset=x": true, "application/xhtml+xml": true, "": true,
		"application/pdf": false, "text/plain": false, "image/svg+xml": false, ";": false,
	} {
		if got := isPage(media); got != want {
			t.Errorf("%q: %t", media, got)
		}
	}
	is.True(!isPage("text/htmlx"))
}

// Whatever a page contains, its title becomes one line of text.
func FuzzParse(f *testing.F) {
	f.Add("<title>a &amp; b</title><meta name=description content='c\nd'>", "text/html")
	f.Add("<meta charset=shift_jis><title>\x83\x65</title>", "text/html; charset=utf-16")
	f.Add("<svg><title>x</svg></svg><title>\u202ey", "")
	f.Add("\xff\xfe<\x00t\x00i\x00t\x00l\x00e\x00>\x00T\x00", "text/html")
	f.Add("<meta property='og:title' content=\"\x00\x1b\xff\">", "application/xhtml+xml;charset=x")
	f.Fuzz(func(t *testing.T, text, media string) {
		p := parse(strings.NewReader(text), media)
		for _, s := range []string{p.title, p.description} {
			if !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\n\r\t\x1b\u202e") || s != strings.TrimSpace(s) {
				t.Errorf("%q", s)
			}
		}
	})
}
