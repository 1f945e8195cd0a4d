package public

import (
	"testing"

	"github.com/matryer/is"
)

func TestContentOrigin(t *testing.T) {
	t.Parallel()
	const base = "https://kist.example.org/at/home"
	for address, want := range map[string]string{
		"https://content.example.org":      "https://content.example.org",
		"https://content.example.org/":     "https://content.example.org",
		"HTTPS://Content.Example.ORG:443/": "https://content.example.org",
		"https://content.example.org:8443": "https://content.example.org:8443",
		"https://kist.example.org:8443":    "https://kist.example.org:8443",
		"https://[2001:DB8::1]:443":        "https://[2001:db8::1]",

		"":                                   "",
		"content.example.org":                "",
		"//content.example.org":              "",
		"ftp://content.example.org":          "",
		"https://":                           "",
		"https://:8443":                      "",
		"https://content.example.org/a":      "",
		"https://content.example.org//":      "",
		"https://content.example.org?a":      "",
		"https://content.example.org?":       "",
		"https://content.example.org#a":      "",
		"https://ann@content.example.org":    "",
		"https://content.example.org:x":      "",
		"https://content.example.org;script": "",
		"https://*.example.org":              "",
		"https://höst.example.org":           "",
		"https://a b":                        "",
		"http://content.example.org":         "", // in pages of https
		"https://kist.example.org":           "",
		"https://KIST.example.org:443/":      "",
		"http://kist.example.org:443":        "",
	} {
		got, err := ContentOrigin(address, base)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", address, got, err, want)
		}
	}
	is := is.New(t)
	for _, address := range []string{
		"http://kist.test", "https://kist.test", "http://kist.test:80", "https://KIST.test:443",
	} {
		_, err := ContentOrigin(address, "http://kist.test") // Host is the same for both
		is.True(err != nil)
	}
	_, err := ContentOrigin("https://content.test", "http://kist.test")
	is.NoErr(err)
	_, err = ContentOrigin("http://127.0.0.1:7081", "http://127.0.0.1:7080")
	is.NoErr(err)
}
