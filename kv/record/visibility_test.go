package record_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// fault is the class of an error, 0 if the error is not a record.Error.
func fault(err error) record.Fault {
	var e *record.Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return 0
}

func code(err error) string {
	var e *record.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestOpen(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name  string
		share record.Share
		now   time.Time
		want  string
	}{
		{"public", record.Share{Public: true}, at, ""},
		{"private", record.Share{}, at, "not_found"},
		{"private and expired", record.Share{Expires: at}, at, "not_found"},
		{"a millisecond before the end", record.Share{Public: true, Expires: at}, at.Add(-time.Millisecond), ""},
		{"at the end", record.Share{Public: true, Expires: at}, at, "expired"},
		{"after the end", record.Share{Public: true, Expires: at}, at.Add(time.Hour), "expired"},
		{"used up", record.Share{Reached: true}, at, "limit_reached"},
		{"used up and expired", record.Share{Reached: true, Expires: at}, at, "limit_reached"},
		{"limit not reached", record.Share{Public: true, Limit: 1}, at, ""},
		{"password", record.Share{Public: true, Password: "$"}, at, ""}, // Open ignores it
	} {
		t.Run(row.name, func(t *testing.T) {
			is := is.New(t)
			err := row.share.Open(row.now)
			is.Equal(code(err), row.want)
			is.Equal(err == nil, row.want == "")
			is.Equal(errors.Is(err, record.ErrMissing), row.want == "not_found") // unknown and private look the same
		})
	}
}

func TestExpired(t *testing.T) {
	is := is.New(t)
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := record.Share{}
	is.True(!s.Expired(at)) // never
	s.Expires = at
	is.True(!s.Expired(at.Add(-1)))
	is.True(s.Expired(at))
	is.True(s.Expired(at.In(time.FixedZone("", 3600))))
}

func TestSpend(t *testing.T) {
	for _, row := range []struct {
		limit, used, after int64
		due, gone          bool
	}{
		{0, 0, 1, false, false},
		{0, 1 << 40, 1<<40 + 1, false, false},
		{1, 0, 1, true, false},
		{1, 1, 1, true, true},
		{2, 0, 1, false, false},
		{2, 1, 2, true, false},
		{3, 5, 5, true, true}, // the limit was lowered
	} {
		t.Run(fmt.Sprintf("%d of %d", row.used, row.limit), func(t *testing.T) {
			is := is.New(t)
			s := record.Share{Public: true, Limit: row.limit}
			after, due, err := s.Spend(row.used)
			is.Equal(after, row.after)
			is.Equal(due, row.due)
			is.Equal(fault(err) == record.Gone, row.gone)
			is.Equal(s, record.Share{Public: true, Limit: row.limit}) // Spend does not change the share
		})
	}
}

func TestPublishAndClose(t *testing.T) {
	is := is.New(t)
	s := record.Share{Slug: "s", Password: "$", Limit: 1, AtLimit: record.MakePrivate}
	is.True(s.Publish(true)) // becomes public: the count starts again
	is.True(s.Public)
	is.True(!s.Publish(true)) // was public
	want := s
	s.Close()
	want.Public, want.Reached = false, true
	is.Equal(s, want) // nothing else changes
	is.True(!s.Publish(false))
	is.True(!s.Reached) // now private by its owner
	s.Close()
	is.True(s.Publish(true))
	is.True(s.Public && !s.Reached)
}

func TestScopes(t *testing.T) {
	all := []record.Scope{record.ScopeRead, record.ScopeWrite, record.ScopeUpload, record.ScopeAll, record.ScopeAdmin}
	for _, row := range []struct {
		has  []record.Scope
		want []bool
	}{
		{nil, []bool{false, false, false, false, false}},
		{[]record.Scope{record.ScopeRead}, []bool{true, false, false, false, false}},
		{[]record.Scope{record.ScopeWrite}, []bool{false, true, true, false, false}},
		{[]record.Scope{record.ScopeUpload}, []bool{false, false, true, false, false}},
		{[]record.Scope{record.ScopeRead, record.ScopeUpload}, []bool{true, false, true, false, false}},
		{[]record.Scope{record.ScopeAll}, []bool{true, true, true, true, false}},
		{[]record.Scope{record.ScopeAdmin}, []bool{true, true, true, true, true}},
	} {
		t.Run(fmt.Sprint(row.has), func(t *testing.T) {
			is := is.New(t)
			for i, s := range all {
				is.Equal((&record.Key{Scopes: row.has}).Allows(s), row.want[i])
			}
		})
	}
	is := is.New(t)
	for _, s := range all {
		got, err := record.CleanScope(string(s))
		is.NoErr(err)
		is.Equal(got, string(s))
	}
	for _, s := range []string{"", "ALL", "root"} {
		_, err := record.CleanScope(s)
		is.True(err != nil)
	}
}

func TestClassOf(t *testing.T) {
	for mime, want := range map[string]record.Class{
		"":                            record.Other,
		"image":                       record.Image,
		"image/png":                   record.Image,
		"IMAGE/PNG":                   record.Image,
		"image/svg+xml":               record.Image,
		"video/mp4":                   record.Video,
		"audio/ogg; codecs=opus":      record.Audio,
		"application/pdf":             record.PDF,
		"application/pdf;version=1.7": record.PDF,
		"text/plain; charset=utf-8":   record.Text,
		"application/json":            record.Text,
		"application/json; charset=x": record.Text,
		"application/xml":             record.Text,
		"application/javascript":      record.Text,
		"application/zip":             record.Other,
		"application/octet-stream":    record.Other,
		"imagery/png":                 record.Other,
		"application/pdf-not":         record.Other,
	} {
		t.Run(mime, func(t *testing.T) {
			is := is.New(t)
			is.Equal(record.ClassOf(mime), want)
		})
	}
	is := is.New(t)
	for i, name := range record.ClassNames() {
		is.Equal(record.Class(i).String(), name)
	}
}

func TestKinds(t *testing.T) {
	is := is.New(t)
	names, paths, events := map[string]bool{}, map[string]bool{}, map[record.Event]bool{}
	for i, k := range record.Kinds {
		is.Equal(record.KindOf(k.Code), k)
		is.Equal(int(k.Code), i+1)
		names[k.Name], paths[k.Path] = true, true
		events[k.Created()], events[k.Edited()], events[k.Removed()] = true, true, true
		is.True(k.Shape > 0)
		_, err := record.CleanSlug(k.Path)
		is.True(err != nil || k == record.Files || k == record.Links) // no item may have the address of a collection
	}
	is.Equal(len(names), len(record.Kinds))
	is.Equal(len(paths), len(record.Kinds))
	is.Equal(len(events), 3*len(record.Kinds))
	is.True(events["file.uploaded"] && events["shortlink.deleted"] && events["note.updated"])
	is.True(record.KindOf(0) == nil)
	is.True(record.KindOf(byte(len(record.Kinds)+1)) == nil)
	is.True(record.KindOf(255) == nil)
}

func TestWants(t *testing.T) {
	is := is.New(t)
	w := record.Webhook{Enabled: true, Events: []record.Event{"note.created"}}
	is.True(w.Wants("note.created"))
	is.True(!w.Wants("note.updated"))
	w.Events = []record.Event{"*"}
	is.True(w.Wants("note.updated"))
	w.Enabled = false
	is.True(!w.Wants("note.updated"))
}

func TestBad(t *testing.T) {
	is := is.New(t)
	is.True(record.Bad(nil) == nil)
	is.True(record.Bad(map[string]string{}) == nil)
	err := record.Bad(map[string]string{"url": "is required", "title": "must be text"})
	is.Equal(err.Error(), "The title must be text; the URL is required.")
	is.Equal(fault(err), record.Invalid)
	is.Equal(fault(record.NotFound("tag")), record.Missing)
	is.Equal(record.NotFound("tag").Error(), "There is no such tag.")
}

func TestDeviceOf(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]record.DeviceClass{
		"":                     record.Program,
		"curl/8.5.0":           record.Program,
		"Wget/1.24":            record.Program,
		"python-requests/2.32": record.Program,
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":                                                                                                           record.Program,
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)": record.Program,
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/141.0 Safari/537.36":                                                                          record.Program,
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1":                                            record.Phone,
		"Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36":                                                              record.Phone,
		"Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0":                                                                                                               record.Phone,
		"Mozilla/5.0 (Linux; Android 13; SM-X906C) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36":                                                                    record.Phone, // a tablet
		"Mozilla/5.0 (iPad; CPU OS 12_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.0 Mobile/15E148 Safari/604.1":                                                     record.Phone,
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                                                                             record.Desktop,
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 Edg/141.0":                                                          record.Desktop,
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15":                                                              record.Desktop,
	} {
		if got := record.DeviceOf(agent); got != want {
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
		if got := record.ReferringHost(header); got != want {
			t.Errorf("%.100q: %q", header, got)
		}
	}
}

func FuzzReferringHost(f *testing.F) {
	for header := range referrers {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		host := record.ReferringHost(header)
		if len(host) > 253 || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/"<>@?#%`, r) }) {
			t.Errorf("%q has the host %q", header, host)
		}
		if host != "" && !strings.Contains(host, ":") && record.ReferringHost("https://"+host+"/") != host {
			t.Errorf("%q is not stable", host)
		}
	})
}

// However many hosts visitors make up, a day keeps few, and a common one is among them.
func TestMadeUpReferrers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var d record.VisitDay
	for i := range 100_000 {
		d.Count(record.Visit{Device: record.Desktop, Referrer: fmt.Sprintf("host%d.example", i)})
		if i%10 == 0 {
			d.Count(record.Visit{Referrer: "real.example"})
		}
		if len(d.Hosts) > 2*record.ShownHosts {
			t.Fatal(len(d.Hosts))
		}
	}
	is.Equal(d.Views(), int64(110_000))
	is.Equal(len(d.Referrers()), record.ShownHosts)
	is.Equal(d.Referrers()[0], "real.example")
}

// A host that comes after many made-up ones gets in.
func TestReferrerAfterMadeUpOnes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var d record.VisitDay
	for i := range 1000 {
		d.Count(record.Visit{Referrer: fmt.Sprintf("host%d.example", i)})
	}
	for range 2 {
		d.Count(record.Visit{Referrer: "real.example"})
	}
	is.Equal(d.Hosts["real.example"], int64(2))
	is.Equal(len(d.Hosts), 2*record.ShownHosts)
}

// Two rows of a day become one, and the later of their last visits counts.
func TestMergeDays(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var a, b record.VisitDay
	for i, device := range []record.DeviceClass{record.Phone, record.Desktop, record.Desktop, record.Program, record.Program, record.Program} {
		a.Count(record.Visit{At: born.Add(time.Duration(i%4) * time.Hour), Device: device, Referrer: "a.example"})
	}
	is.Equal(a.Last, born.Add(3*time.Hour)) // not that of the visit that was counted last
	b.Count(record.Visit{At: born, Device: record.Phone, Referrer: "a.example"})
	b.Count(record.Visit{At: born.Add(time.Hour), Device: record.Desktop, Referrer: "b.example"})
	b.Count(record.Visit{At: born, Device: record.Program})
	for _, day := range []*record.VisitDay{&a, &b} {
		both := record.VisitDay{}
		other := &a
		if day == &a {
			other = &b
		}
		both.Merge(day)
		both.Merge(other)
		is.Equal(both, record.VisitDay{
			Phone: 2, Desktop: 3, Program: 4, Hosts: map[string]int64{"a.example": 7, "b.example": 1}, Last: born.Add(3 * time.Hour),
		})
	}
}

func TestDays(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, want := range map[string]bool{"2026-01-31": true, "1970-01-01": true, "2026-02-30": false, "1969-12-31": false, "2026-1-1": false, "": false, "2026-01-01T00:00:00Z": false} {
		d, ok := record.ParseDay(text)
		is.Equal(ok, want)
		if ok {
			is.Equal(d.String(), text)
			is.Equal(record.DayOf(d.Start()), d)
			is.Equal(record.DayOf(d.Start().Add(24*time.Hour-1)), d)
		}
	}
}
