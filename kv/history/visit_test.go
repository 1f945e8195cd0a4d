package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/history"
)

func TestDeviceOf(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]history.DeviceClass{
		"":                     history.Program,
		"curl/8.5.0":           history.Program,
		"Wget/1.24":            history.Program,
		"python-requests/2.32": history.Program,
		"Mozilla/5.0 (compatible; Googlebot/2.1; " +
			"+http://www.google.com/bot.html)": history.Program,
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0 Mobile " +
			"Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)": history.Program,
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/141.0 " +
			"Safari/537.36": history.Program,
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 " +
			"Mobile/15E148 Safari/604.1": history.Phone,
		"Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile " +
			"Safari/537.36": history.Phone,
		"Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 " +
			"Firefox/140.0": history.Phone,
		// a tablet
		"Mozilla/5.0 (Linux; Android 13; SM-X906C) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 " +
			"Safari/537.36": history.Phone,
		"Mozilla/5.0 (iPad; CPU OS 12_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.0 " +
			"Mobile/15E148 Safari/604.1": history.Phone,
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 " +
			"Firefox/140.0": history.Desktop,
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 Edg/141.0": history.Desktop,
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 " +
			"Safari/605.1.15": history.Desktop,
	} {
		if got := history.DeviceOf(agent); got != want {
			t.Errorf("%q is a %s", agent, got)
		}
	}
}

var referrers = map[string]string{
	"":                                                 "",
	"https://example.org/a?secret=1":                   "example.org",
	"HTTPS://WWW.Example.ORG:8443/":                    "www.example.org",
	"http://example.org.":                              "example.org",
	"http://user:password@example.org/":                "example.org",
	"http://192.0.2.1/":                                "192.0.2.1",
	"http://[2001:DB8::1]:80/":                         "2001:db8::1",
	"http://[fe80::1%25eth0]/":                         "",
	"android-app://com.slack/":                         "",
	"about:blank":                                      "",
	"example.org":                                      "",
	"https://":                                         "",
	"https:///path":                                    "",
	"https://exa mple.org/":                            "",
	"https://example.org<script>/":                     "",
	"https://münchen.example/":                         "",
	"https://xn--mnchen-3ya.example/":                  "xn--mnchen-3ya.example",
	"https://" + strings.Repeat("a.", 126) + "a/":      strings.Repeat("a.", 126) + "a",
	"https://" + strings.Repeat("a.", 127) + "a/":      "",
	"https://example.org/" + strings.Repeat("a", 5000): "example.org",
}

func TestReferringHost(t *testing.T) {
	t.Parallel()
	for header, want := range referrers {
		if got := history.ReferringHost(header); got != want {
			t.Errorf("%.100q: %q", header, got)
		}
	}
}

func FuzzReferringHost(f *testing.F) {
	for header := range referrers {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		host := history.ReferringHost(header)
		if len(host) > 253 || strings.ContainsFunc(host, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`/"<>@?#%`, r)
		}) {
			t.Errorf("%q has the host %q", header, host)
		}
		if host != "" && !strings.Contains(host, ":") && history.ReferringHost("https://"+host+"/") != host {
			t.Errorf("%q is not stable", host)
		}
	})
}

// However many hosts visitors make up, a day keeps few, and a common one is among them.
func TestMadeUpReferrers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var d history.VisitDay
	for i := range 100_000 {
		d.Count(history.Visit{Device: history.Desktop, Referrer: fmt.Sprintf("host%d.example", i)})
		if i%10 == 0 {
			d.Count(history.Visit{Referrer: "real.example"})
		}
		if len(d.Hosts) > 2*history.ShownHosts {
			t.Fatal(len(d.Hosts))
		}
	}
	is.Equal(d.Views(), int64(110_000))
	is.Equal(len(d.Referrers()), history.ShownHosts)
	is.Equal(d.Referrers()[0], "real.example")
}

// A host that comes after many made-up ones gets in.
func TestReferrerAfterMadeUpOnes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var d history.VisitDay
	for i := range 1000 {
		d.Count(history.Visit{Referrer: fmt.Sprintf("host%d.example", i)})
	}
	for range 2 {
		d.Count(history.Visit{Referrer: "real.example"})
	}
	is.Equal(d.Hosts["real.example"], int64(2))
	is.Equal(len(d.Hosts), 2*history.ShownHosts)
}

// Two rows of a day become one, and the later of their last visits counts.
func TestMergeDays(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var a, b history.VisitDay
	for i, device := range []history.DeviceClass{
		history.Phone, history.Desktop, history.Desktop, history.Program, history.Program, history.Program,
	} {
		a.Count(history.Visit{At: born.Add(time.Duration(i%4) * time.Hour), Device: device, Referrer: "a.example"})
	}
	is.Equal(a.Last, born.Add(3*time.Hour)) // not that of the visit that was counted last
	b.Count(history.Visit{At: born, Device: history.Phone, Referrer: "a.example"})
	b.Count(history.Visit{At: born.Add(time.Hour), Device: history.Desktop, Referrer: "b.example"})
	b.Count(history.Visit{At: born, Device: history.Program})
	for _, day := range []*history.VisitDay{&a, &b} {
		both := history.VisitDay{}
		other := &a
		if day == &a {
			other = &b
		}
		both.Merge(day)
		both.Merge(other)
		is.Equal(both, history.VisitDay{
			Phone: 2, Desktop: 3, Program: 4, Hosts: map[string]int64{"a.example": 7, "b.example": 1}, Last: born.Add(3 * time.Hour),
		})
	}
}

func TestDays(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, want := range map[string]bool{
		"2026-01-31": true, "1970-01-01": true, "2026-02-30": false, "1969-12-31": false, "2026-1-1": false, "": false,
		"2026-01-01T00:00:00Z": false,
	} {
		d, ok := history.ParseDay(text)
		is.Equal(ok, want)
		if ok {
			is.Equal(d.String(), text)
			is.Equal(history.DayOf(d.Start()), d)
			is.Equal(history.DayOf(d.Start().Add(24*time.Hour-1)), d)
		}
	}
}

var born = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
