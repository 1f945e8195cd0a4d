package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/admin/exit"
	"kist/admin/ops"
)

// TestCompareVersions: as Semantic Versioning, section 11, orders them. What is no release has no order.
func TestCompareVersions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	rising := []string{
		"0.9.12", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
		"1.0.0-rc.1", "1.0.0", "1.0.2", "1.0.10", "1.10.0", "2.0.0", "10.0.0",
	}
	for i, a := range rising {
		for k, b := range rising {
			order, known := compareVersions(a, "v"+b)
			is.True(known)
			is.True((order < 0) == (i < k) && (order > 0) == (i > k))
		}
	}
	order, known := compareVersions("1.2.3+dirty", "1.2.3")
	is.True(known && order == 0)
	for _, none := range []string{
		"dev", "ci", "", "1.2", "1.2.3.4", "1.2.x", "01234567890.0.0", "0.0.0-20261128014000-3cf16cca1234",
		"1.2.4-0.20261128014000-3cf16cca1234+dirty", "1.2.3-" + strings.Repeat("a", 65),
	} {
		_, known := compareVersions(none, "1.2.3")
		is.True(!known)
	}
}

// TestUpdate: what is found out about the newest version, for each answer and each failure.
func TestUpdate(t *testing.T) {
	t.Parallel()
	const mine = "1.2.3"
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	leads := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	plain := httptest.NewServer(says(`{"version":"1.3.0"}`))
	defer plain.Close()
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		mine   string
		state  ops.State
		text   string
	}{
		"newer": {
			says(`{"version":"1.3.0","notes":"Much","more":1}`), mine, ops.Warning, "version 1.3.0 is there; this is 1.2.3",
		},
		"with a v": {says(`{"version":"v1.3.0"}`), mine, ops.Warning, "version 1.3.0 is there"},
		"same":     {says(`{"version":"1.2.3"}`), mine, ops.OK, "this is the newest version, 1.2.3"},
		"older":    {says(`{"version":"1.2.2"}`), mine, ops.OK, "which is newer than 1.2.2"},
		"of a checkout": {
			says(`{"version":"1.3.0"}`), "dev", ops.OK, "the newest version is 1.3.0; this program (dev) was not built",
		},
		"between":    {says(`{"version":"1.3.0"}`), "1.3.0-rc.1", ops.Warning, "version 1.3.0 is there"},
		"prerelease": {says(`{"version":"1.2.3-rc.2"}`), mine, ops.OK, "newer"},
		"a redirect": {leads("/there"), mine, ops.Warning, "1.3.0"},

		"no JSON":     {says("<html>"), mine, ops.Problem, "no JSON object"},
		"a list":      {says("[]"), mine, ops.Problem, "no JSON object"},
		"two objects": {says(`{"version":"1.3.0"}{}`), mine, ops.Problem, "no JSON object"},
		"wrong types": {says(`{"version":1}`), mine, ops.Problem, "no JSON object"},
		"nothing":     {says(""), mine, ops.Problem, "no JSON object"},
		"no version":  {says(`{"notes":"x"}`), mine, ops.Problem, `no version such as 1.2.3; it says ""`},
		"odd version": {says(`{"version":"latest"}`), mine, ops.Problem, `it says "latest"`},
		"long": {
			says(`{"notes":"` + strings.Repeat("x", updateBytes) + `","version":"1.3.0"}`),
			mine, ops.Problem, "more than 65536 bytes",
		},
		"missing":      {http.NotFound, mine, ops.Problem, "it answers 404 Not Found"},
		"in a circle":  {leads("/"), mine, ops.Problem, "redirects more than 5 times"},
		"elsewhere":    {leads("ftp://example.org/"), mine, ops.Problem, `redirects to "ftp"`},
		"out of https": {leads(plain.URL), mine, ops.Problem, "redirects from https to http"},
		"cut short": {
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9") },
			mine, ops.Problem, "ended early",
		},
		"no answer": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			mine, ops.Problem, "the newest version is not known",
		},
		"large headers": {
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 64<<10)) },
			mine, ops.Problem, "not known",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			asked := 0
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				is.Equal(r.Method, http.MethodGet)
				is.Equal(r.UserAgent(), "kist")
				is.Equal(r.Referer(), "")
				is.Equal(r.Header.Get("Cookie"), "")
				w.Header().Set("Set-Cookie", "a=b")
				if r.URL.Path == "/there" {
					says(`{"version":"1.3.0"}`)(w, r)
					return
				}
				row.answer(w, r)
			}))
			defer s.Close()
			client := updateClient()
			client.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
			client.Transport.(*http.Transport).Proxy = nil
			d := new(checkup)
			d.update(s.URL, row.mine, client)
			is.Equal(len(d.Findings), 1)
			f := d.Findings[0]
			is.Equal(f.State, row.state)
			is.True(strings.Contains(f.Text, row.text))
			is.Equal(f.State == ops.Problem, f.Version == "")
			is.True(asked >= 1 && asked <= updateRedirects+1)
		})
	}
}

// TestUpdateAddress: an address that cannot be asked is a mistake of usage.
func TestUpdateAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for address, good := range map[string]bool{
		"https://example.org/latest.json": true, "http://127.0.0.1:80/": true,
		"example.org": false, "ftp://example.org": false, "https://": false, "https://ann:secret@example.org/": false,
		"file:///etc/passwd": false, "": false, "https://[::1": false,
	} {
		err := checkAddress(address)
		is.Equal(err == nil, good)
		if !good {
			is.Equal(exit.Code(err), 2)
		}
	}
}

// TestNotes: the notes of a version are shown in bounds, and cannot steer a terminal.
func TestNotes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	notes := "\x1b[31mred\r\n" + strings.Repeat("long", 100) + "\n" + strings.Repeat("x\n", 100)
	f := ops.Finding{State: ops.Warning, Notes: notes}
	text := notesOf(f)
	is.True(!strings.Contains(text, "\x1b") && !strings.Contains(text, "\r"))
	is.Equal(strings.Count(text, "\n"), shownNotes+1)
	is.True(len(text) < 2000)
	f.State = ops.OK
	is.Equal(notesOf(f), "")
	b, err := json.Marshal(ops.Finding{What: "disk", State: ops.OK, Text: "x"})
	is.NoErr(err)
	is.Equal(string(b), `{"what":"disk","state":"ok","text":"x"}`)
}
