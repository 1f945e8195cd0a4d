package web

import (
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/matryer/is"
)

// TestContentHost: hosts are compared as origins are, and those that proxies
// tell of are believed as their addresses are.
func TestContentHost(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for name, c := range map[string]struct {
		content   string
		proxies   []netip.Prefix
		host      string
		forwarded []string
		want      bool
	}{
		"the very one":                {"https://content.example.org", nil, "content.example.org", nil, true},
		"in capitals":                 {"https://content.example.org", nil, "Content.EXAMPLE.org", nil, true},
		"with the port of its scheme": {"https://content.example.org", nil, "content.example.org:443", nil, true},
		"of http":                     {"http://content.example.org", nil, "content.example.org:80", nil, true},
		"another port":                {"https://content.example.org", nil, "content.example.org:80", nil, false},
		"its port":                    {"https://content.example.org:8443", nil, "content.example.org:8443", nil, true},
		"without its port":            {"https://content.example.org:8443", nil, "content.example.org", nil, false},
		"the base":                    {"https://content.example.org", nil, "kist.example.org", nil, false},
		"any other":                   {"https://content.example.org", nil, "127.0.0.1:7080", nil, false},
		"below":                       {"https://content.example.org", nil, "x.content.example.org", nil, false},
		"none apart":                  {"", nil, "", nil, false},
		"told by a stranger": {
			"https://content.example.org", nil, "kist.example.org", []string{"content.example.org"}, false,
		},
		"told by a proxy": {
			"https://content.example.org", trusted, "127.0.0.1:7080", []string{"Content.example.org:443"}, true,
		},
		"told by a proxy, the base": {
			"https://content.example.org", trusted, "content.example.org", []string{"kist.example.org"}, false,
		},
		"told through a proxy": {
			"https://content.example.org", trusted, "127.0.0.1:7080", []string{"content.example.org, kist.example.org"}, false,
		},
		"the last counts": {
			"https://content.example.org", trusted, "127.0.0.1:7080", []string{"kist.example.org", "content.example.org"}, true,
		},
		"a proxy that tells nothing": {"https://content.example.org", trusted, "content.example.org", []string{""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := &Site{Config: Config{Content: c.content, TrustedProxies: c.proxies}}
			if c.content != "" {
				u, err := url.Parse(c.content)
				is.NoErr(err)
				s.ContentScheme, s.ContentHost = u.Scheme, u.Host
			}
			r := httptest.NewRequest("GET", "/x/a", nil)
			r.RemoteAddr, r.Host = "127.0.0.1:5000", c.host
			r.Header["X-Forwarded-Host"] = c.forwarded
			is.Equal(s.AtContent(r), c.want)
		})
	}
}
