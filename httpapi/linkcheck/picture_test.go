package linkcheck

import (
	"net/url"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestImageOf: a page names its picture for social networks, relative to its base or its address.
func TestImageOf(t *testing.T) {
	t.Parallel()
	at, err := url.Parse("https://example.org/a/page")
	is.New(t).NoErr(err)
	for text, want := range map[string]string{
		``: "",
		`<meta property="og:image" content="https://cdn.example.com/a.png">`:                         "https://cdn.example.com/a.png",
		`<meta property="og:image" content="b.png">`:                                                 "https://example.org/a/b.png",
		`<base href="/x/"><meta property="og:image" content="b.png">`:                                "https://example.org/x/b.png",
		`<meta name="twitter:image" content="//cdn.example.com/t.png">`:                              "https://cdn.example.com/t.png",
		`<meta name="twitter:image" content="/t.png"><meta property="og:image" content="/o.png">`:    "https://example.org/o.png",
		`<meta property="og:image" content="javascript:alert(1)">`:                                   "",
		`<meta property="og:image" content="data:image/png;base64,AAAA">`:                            "",
		`<meta property="og:image" content="https://user:secret@example.org/a.png">`:                 "",
		`<meta property="og:image" content="https://example.org/` + strings.Repeat("a", 9000) + `">`: "",
		`<meta property="og:image" content="http://[::1">`:                                           "",
	} {
		is.New(t).Equal(
			imageOf(parse(strings.NewReader("<title>T</title>"+text+"<body>"), "text/html; charset=utf-8"), at), want,
		)
	}
}
