package linkcheck

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/outbound"
	"kist/httpapi/thumb"
	"kist/kv/record"
)

// site is a server on 127.0.0.1 that notes what it is asked.
type site struct {
	url string
	mu  sync.Mutex
	got []string
}

func newSite(t testing.TB, serve http.HandlerFunc) *site {
	t.Helper()
	s := new(site)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.got = append(s.got, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		if r.Header.Get("Cookie") != "" || r.Header.Get("Referer") != "" {
			t.Error("more is told than has to be")
		}
		serve(w, r)
	}))
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

func (s *site) asked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.got, ", ")
	s.got = nil
	return all
}

func here(t testing.TB, lookup func(context.Context, string) ([]netip.Addr, error)) *client {
	t.Helper()
	var local outbound.Allowed
	if err := local.UnmarshalText([]byte("127.0.0.0/8")); err != nil {
		t.Fatal(err)
	}
	pictures, err := thumb.New(filepath.Join(t.TempDir(), "thumbs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pictures.Close() })
	icons, err := pictures.Icons(filepath.Join(t.TempDir(), "icons"))
	if err != nil {
		t.Fatal(err)
	}
	return &client{
		outbound.New(outbound.Options{Allow: []outbound.Allowed{local}, Lookup: lookup}), icons,
		slog.New(slog.DiscardHandler),
	}
}

// siteOf is the key of the site of an address.
func siteOf(t testing.TB, address string) record.ID {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return record.SiteKey(u)
}

// The answers of sites, and the resulting state of the page.
func TestAsk(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/status/%d", &status); err == nil {
			if wait := r.URL.Query().Get("wait"); wait != "" {
				w.Header().Set("Retry-After", wait)
			}
			w.WriteHeader(status)
			return
		}
		switch r.URL.Path {
		case "/get-only":
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
		case "/cut-head":
			if r.Method == http.MethodHead {
				panic(http.ErrAbortHandler)
			}
		case "/moved":
			http.Redirect(w, r, "/status/200", http.StatusMovedPermanently)
		case "/moved-away":
			http.Redirect(w, r, "/status/404", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	})
	c := here(t, nil)
	c.icons.Wants(siteOf(t, s.url)) // nothing is asked for an icon
	look := func(v record.Verdict, wait time.Duration) record.Look { return record.Look{Verdict: v, Wait: wait} }
	for path, row := range map[string]struct {
		want  record.Look
		asked string
	}{
		"/status/200":         {look(record.Answers, 0), "HEAD /status/200"},
		"/status/204":         {look(record.Answers, 0), "HEAD /status/204"},
		"/status/200?wait=50": {look(record.Answers, 0), "HEAD /status/200"},
		"/status/404":         {look(record.Fails, 0), "HEAD /status/404, GET /status/404"},
		"/status/410":         {look(record.Fails, 0), "HEAD /status/410, GET /status/410"},
		"/status/401":         {look(record.Answers, 0), "HEAD /status/401, GET /status/401"},
		"/status/403":         {look(record.Answers, 0), "HEAD /status/403, GET /status/403"},
		"/status/429?wait=60": {look(record.Answers, time.Minute), "HEAD /status/429"},
		"/status/500":         {look(record.Fails, 0), "HEAD /status/500, GET /status/500"},
		"/status/503?wait=60": {look(record.Fails, time.Minute), "HEAD /status/503, GET /status/503"},
		"/get-only":           {look(record.Answers, 0), "HEAD /get-only, GET /get-only"},
		"/moved":              {look(record.Answers, 0), "HEAD /moved, HEAD /status/200"},
		"/moved-away": {
			look(record.Fails, 0), "HEAD /moved-away, HEAD /status/404, GET /moved-away, GET /status/404",
		},
		"/round":    {look(record.Answers, 0), strings.TrimSuffix(strings.Repeat("HEAD /round, ", redirects+1), ", ")},
		"/cut-head": {look(record.Answers, 0), "HEAD /cut-head, GET /cut-head"},
		"/cut":      {look(record.Fails, 0), "HEAD /cut, GET /cut"},
	} {
		t.Run(path, func(t *testing.T) {
			is := is.New(t)
			is.Equal(c.ask(t.Context(), s.url+path, false), row.want)
			is.Equal(s.asked(), row.asked)
		})
	}
}

// Who lets a HEAD wait for ever is asked with GET in time.
func TestAskWithoutHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		c := here(t, nil)
		c.Client = outbound.New(outbound.Options{
			Own: func() ([]net.Addr, error) { return nil, nil },
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					defer far.Close()
					r, err := http.ReadRequest(bufio.NewReader(far))
					if err == nil && r.Method == http.MethodGet {
						_, _ = io.WriteString(far, "HTTP/1.1 204 No Content\r\n\r\n")
						return
					}
					_, _ = io.Copy(io.Discard, far)
				}()
				return near, nil
			},
		})
		at := "http://1.1.1.1/"
		c.icons.Wants(siteOf(t, at))
		is.Equal(c.ask(t.Context(), at, false), record.Look{Verdict: record.Answers})
	})
}

// The title and icons in a page's HTML.
func TestAskFill(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
			_, _ = io.WriteString(w, "<title>\xe9t\xe9</title><meta name=description content=text>")
		case "/moved":
			http.Redirect(w, r, "/page", http.StatusFound)
		case "/pdf":
			w.Header().Set("Content-Type", "application/pdf")
			_, _ = io.WriteString(w, "<title>no</title>")
		case "/endless":
			w.Header().Set("Content-Type", "text/html")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("<p>text", 1000)); err != nil {
					return
				}
			}
		case "/refused":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<title>Are you human?</title>")
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<title>Not found</title>")
		}
	})
	c := here(t, nil)
	for path, want := range map[string]record.Look{
		"/page":    {Verdict: record.Answers, Read: true, Title: "été", Description: "text"},
		"/moved":   {Verdict: record.Answers, Read: true, Title: "été", Description: "text"},
		"/pdf":     {Verdict: record.Answers, Read: true},
		"/endless": {Verdict: record.Answers, Read: true},
		"/refused": {Verdict: record.Answers},
		"/none":    {Verdict: record.Fails},
	} {
		t.Run(path, func(t *testing.T) {
			is := is.New(t)
			is.Equal(c.ask(t.Context(), s.url+path, true), want)
		})
	}
}

// Some sites send a compressed page although nobody asked for it.
func TestAskEncoded(t *testing.T) {
	const page = "<title>Packed</title>"
	type packer interface {
		io.WriteCloser
		Flush() error
	}
	pack := func(coding string, w io.Writer) packer {
		if coding == "deflate" {
			return zlib.NewWriter(w)
		}
		return gzip.NewWriter(w)
	}
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "identity" {
			t.Error("a compressed page is asked for")
		}
		coding, form, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", coding)
		var b bytes.Buffer
		packed := pack(strings.ToLower(coding), &b)
		_, _ = io.WriteString(packed, page)
		switch form {
		case "plain":
			b.Reset()
			b.WriteString(page)
		case "bomb":
			_, _ = io.CopyN(packed, zeros{}, 64*maxPage)
			_, _ = io.WriteString(packed, "<title>Late</title>")
		}
		switch form {
		case "plain":
		case "cut":
			_ = packed.Flush()
		default:
			_ = packed.Close()
		}
		_, _ = w.Write(b.Bytes())
	})
	c := here(t, nil)
	for path, want := range map[string]string{
		"/gzip": "Packed", "/GZIP": "Packed", "/x-gzip": "Packed", "/deflate": "Packed", "/gzip/bomb": "Packed", "/gzip/cut": "Packed",
		"/gzip/plain": "", "/deflate/plain": "", "/identity/plain": "Packed", "/br/plain": "", "/gzip,gzip": "",
	} {
		t.Run(path, func(t *testing.T) {
			is := is.New(t)
			found := c.ask(t.Context(), s.url+path, true)
			is.True(found.Read)
			is.Equal(found.Title, want)
		})
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// What stands between an address and its page: cookies, redirects, pages that lead on, and pages to sign in, whose
// titles are not that of the page.
func TestAskOnTheWay(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		write := func(text string) { _, _ = io.WriteString(w, text) }
		to := func(path string) { http.Redirect(w, r, path, http.StatusFound) }
		switch n := 0; {
		case r.URL.Path == "/cookie":
			if _, err := r.Cookie("seen"); err == nil {
				write("<title>After the cookie</title>")
				return
			}
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1", Path: "/"})
			to("/cookie")
		case scan(r.URL.Path, "/hop/%d", &n) && n > 0:
			to(fmt.Sprintf("/hop/%d", n-1))
		case scan(r.URL.Path, "/refresh/%d", &n) && n > 0:
			write(fmt.Sprintf(`<title>Redirecting...</title><meta http-equiv=Refresh content="0; URL='%d'">`, n-1))
		case r.URL.Path == "/later":
			write(`<title>The page</title><meta http-equiv=refresh content="300; url=/none">`)
		case r.URL.Path == "/script":
			write(`<title>The page</title><meta http-equiv=refresh content="0; url=javascript:alert(1)">`)
		case r.URL.Path == "/again":
			write(`<title>The page</title><meta http-equiv=refresh content="0; url=/again">`)
		case r.URL.Path == "/to":
			to(r.FormValue("p") + "?next=/page")
		case r.URL.Path == "/refresh-to-login":
			write(`<meta http-equiv=refresh content="0; url=/login">`)
		default:
			write("<title>The page</title><meta name=description content=text>")
		}
	}))
	t.Cleanup(s.Close)
	c := here(t, nil)
	for path, want := range map[string]record.Look{
		"/cookie":                    {Title: "After the cookie"},
		"/hop/7":                     {Title: "The page", Description: "text"},
		"/refresh/1":                 {Title: "The page", Description: "text"},
		"/refresh/3":                 {Title: "The page", Description: "text"},
		"/refresh/4":                 {Title: "Redirecting..."},
		"/later":                     {Title: "The page"},
		"/script":                    {Title: "The page"},
		"/again":                     {Title: "The page"},
		"/to?p=/page":                {Title: "The page", Description: "text"},
		"/to?p=/consent":             {SignIn: true},
		"/to?p=/login.php":           {SignIn: true},
		"/to?p=/users/sign_in":       {SignIn: true},
		"/to?p=/v3/SignIn/step":      {SignIn: true},
		"/to?p=/oauth2/authorize":    {SignIn: true},
		"/refresh-to-login":          {SignIn: true},
		"/login":                     {Title: "The page", Description: "text"},
		"/to?p=/blog/auth-explained": {Title: "The page", Description: "text"},
	} {
		t.Run(path, func(t *testing.T) {
			is := is.New(t)
			want.Verdict, want.Read = record.Answers, true
			got := c.ask(t.Context(), s.URL+path, true)
			want.Icon = got.Icon
			is.Equal(got, want)
			// HEAD has no page
			is.Equal(c.ask(t.Context(), s.URL+path, false).SignIn, want.SignIn && path != "/refresh-to-login")
		})
	}
}

func scan(text, format string, n *int) bool {
	_, err := fmt.Sscanf(text, format, n)
	return err == nil
}

func TestIsEntrance(t *testing.T) {
	for address, want := range map[string]bool{
		"https://accounts.google.com/v3/signin/identifier": true,
		"https://consent.youtube.com/m":                    true,
		"https://login.microsoftonline.com/common":         true,
		"https://www.facebook.com/login/?next=x":           true,
		"https://x.example/wp-login.php":                   true,
		"https://x.example/users/log-in":                   true,
		"https://x.example/cookie-consent":                 true,
		"https://x.example/age-gate":                       true,
		"https://sso.x.example/":                           true,
		"https://x.example/anmelden":                       true,
		"https://x.example/":                               false,
		"https://x.example/blog/login-forms":               false,
		"https://authors.example/authority":                false,
		"https://x.example/page?login=1":                   false,
		"https://x.example/signal":                         false,
	} {
		u, err := url.Parse(address)
		if err != nil || isEntrance(u) != want {
			t.Errorf("%s: %t %v", address, !want, err)
		}
	}
}

func TestRefreshOf(t *testing.T) {
	for content, want := range map[string]string{
		"0; url=/p2": "/p2", "0;URL='/p2'": "/p2", `3 ; url = "/p2"`: "/p2", "0 /p2": "/p2", "0.5;url=/p2": "/p2",
		"0, /a?b=c;d": "/a?b=c;d", "5": "", "0": "", "6; url=/p2": "", "300;url=/p2": "", "x; url=/p2": "", "": "",
		"-1;url=/p2": "", "99999999999;url=/": "", "0;url=": "",
	} {
		if got := refreshOf(content); got != want {
			t.Errorf("%q: %q, not %q", content, got, want)
		}
	}
}

// Where no answer comes, it matters whose fault that is.
func TestAskNobody(t *testing.T) {
	is := is.New(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	c := here(t, func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "none.example":
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		case "inside.example":
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		case "offline.example":
			return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
		}
		return nil, errors.New("what is asked for?")
	})
	for _, fill := range []bool{false, true} {
		for address, want := range map[string]record.Verdict{
			closed.URL: record.Fails, "http://none.example/": record.Fails, "http://inside.example/": record.Barred,
			"http://offline.example/": record.Offline, "http://169.254.169.254/": record.Barred,
		} {
			is.Equal(c.ask(t.Context(), address, fill), record.Look{Verdict: want})
		}
	}
	secure := httptest.NewTLSServer(nil) // whose certificate nobody vouches for
	defer secure.Close()
	is.Equal(c.ask(t.Context(), secure.URL, false), record.Look{Verdict: record.Fails})
}
