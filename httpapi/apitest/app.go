// Package apitest is a whole server for tests, and its clients. Every answer is checked against
// the document of the API, and the request too, if it was taken.
package apitest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"kist/blobs"
	"kist/embed"
	"kist/httpapi"
	"kist/httpapi/outbound"
	"kist/httpapi/session"
	"kist/httpapi/thumb"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
	"kist/search"
)

// App is a server over a store in a temporary directory, with one user.
type App struct {
	Stop func()
	testing.TB
	Server *httpapi.Server
	URL    string
	User   *people.User
	Key    string // of the user, an administrator, with the scope admin
	Clock  *clock
	Logged *syncBuffer
}

// clock is the wall clock of a test.
type clock struct{ Offset atomic.Int64 }

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.Offset.Load())) }

func (c *clock) Advance(d time.Duration) { c.Offset.Add(int64(d)) }

type syncBuffer struct {
	sync.Mutex
	b bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.Lock()
	defer s.Unlock()
	return s.b.String()
}

// local sends requests to this machine too.
func local(t testing.TB) *outbound.Client {
	t.Helper()
	var here outbound.Allowed
	if err := here.UnmarshalText([]byte("127.0.0.0/8")); err != nil {
		t.Fatal(err)
	}
	return outbound.New(outbound.Options{Allow: []outbound.Allowed{here}})
}

// CheapPasswords hashes passwords at next to no cost.
func CheapPasswords() *people.Passwords {
	p := people.NewPasswords()
	p.Memory, p.Passes = 8, 1
	return p
}

// RealPasswords has a server hash passwords at the cost of the product, for
// tests of what that cost leads to.
func RealPasswords(c *web.Config) { c.Passwords = people.NewPasswords() }

func Start(t testing.TB, with ...func(*web.Config)) *App {
	t.Helper()
	a := StartEmpty(t, with...)
	a.User = a.AddUser("ann", people.Admin)
	a.Key = a.AddKey(a.User, people.ScopeAdmin)
	return a
}

// AtHome gives the server the address that it is reached at, and its port to the
// origin for content where that has port 0.
func AtHome(c *web.Config) { c.Base = "" }

// StartEmpty starts a server without accounts.
func StartEmpty(t testing.TB, with ...func(*web.Config)) *App {
	t.Helper()
	return StartAt(t, filepath.Join(t.TempDir(), "data"), with...)
}

// StartAt starts a server with the data in a directory. It runs until the test ends, or
// until stop.
func StartAt(t testing.TB, dir string, with ...func(*web.Config)) *App {
	t.Helper()
	front := httptest.NewUnstartedServer(nil)
	a := &App{TB: t, Clock: new(clock), Logged: new(syncBuffer), URL: "http://" + front.Listener.Addr().String()}
	store, err := kv.Open(dir, kv.Options{Schema: tables.All, Now: a.Clock.Now, Space: kvtest.SmallDisk})
	a.NoErr(err)
	files, err := blobs.OpenIn(dir)
	a.NoErr(err)
	thumbs, err := thumb.New(filepath.Join(dir, "cache", "thumbs"))
	a.NoErr(err)
	icons, err := thumbs.Icons(filepath.Join(dir, "cache", "icons"))
	a.NoErr(err)
	c := web.Config{
		Outbound: local(t),
		Thumbs:   thumbs, Icons: icons, Store: store, Blobs: files, Passwords: CheapPasswords(), Base: "https://kist.example.org", MaxUpload: 64 << 20,
		Search: indexOf(dir, store, files),
		Backup: func(w io.Writer) error {
			return tar.NewWriter(w).Close()
		}, LastBackup: func() time.Time { return time.Time{} },
		Log: slog.New(slog.NewJSONHandler(a.Logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range with {
		f(&c)
	}
	if c.Base == "" {
		c.Base = a.URL
		c.Content = strings.Replace(c.Content, ":0", a.URL[strings.LastIndex(a.URL, ":"):], 1)
	}
	a.Server, err = httpapi.New(c)
	a.NoErr(err)
	front.Config.Handler = a.Server
	front.Start()
	a.Stop = sync.OnceFunc(func() {
		front.Close()
		a.Server.Imports.End()
		if err := thumbs.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(a.Stop)
	return a
}

// indexOf makes the index of a store, which does not run unless the test sees
// to that: most tests have records read through.
func indexOf(dir string, store *kv.Store, files *blobs.Store) *search.Index {
	return search.New(search.Options{
		Dir: filepath.Join(dir, "cache", "index"), Store: "test", Feed: store.Feed, Trim: store.Trim, Wake: store.Changed(),
		Content: func(r *record.Record) ([]byte, error) { return files.Head(blobs.Ref(r.Bytes.Ref), search.MaxContent) },
		Log:     slog.New(slog.DiscardHandler),
	})
}

func (a *App) NoErr(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// SessionCookie is the name of the cookie at the server's own address.
func (a *App) SessionCookie() string {
	if a.Server.BaseURL.Scheme == "https" {
		return "__Host-" + session.CookieName
	}
	return session.CookieName
}

func (a *App) AddUser(name string, role people.Role) *people.User {
	a.Helper()
	var u *people.User
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) {
		u, err = people.AddUser(tx, people.User{Name: name, Role: role, Quota: -1})
		return err
	}))
	return u
}

func (a *App) AddKey(u *people.User, scopes ...people.Scope) string {
	a.Helper()
	var secret string
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) {
		_, secret, err = people.AddKey(tx, people.Key{Owner: u.ID, Name: "test", Scopes: scopes})
		return err
	}))
	return secret
}

var Plain = &http.Client{
	Transport: &http.Transport{
		MaxIdleConnsPerHost: 256, DisableCompression: true,
		ExpectContinueTimeout: time.Minute, // a request with Expect waits until the server wants its body
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// longText is how long a body must be to be held against its schema no more,
// which takes a second for a megabyte.
const longText = 256 << 10

// Do sends a request and checks the answer, and the request if it was taken,
// against the document.
func (a *App) Do(q Request) *Answer {
	a.Helper()
	body := q.Body
	header := q.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if q.JSON != nil {
		text, ok := q.JSON.(string)
		if !ok {
			b, err := json.Marshal(q.JSON)
			a.NoErr(err)
			text = string(b)
		}
		body = strings.NewReader(text)
		if header.Get("Content-Type") == "" {
			header.Set("Content-Type", "application/json")
		}
	}
	var sent []byte
	if body != nil && !q.Raw {
		var err error
		sent, err = io.ReadAll(body)
		a.NoErr(err)
		body = bytes.NewReader(sent)
	}
	req, err := http.NewRequestWithContext(a.Context(), q.Method, a.URL+q.Path, body)
	a.NoErr(err)
	req.Header = header
	req.Host = header.Get("Host") // "" is that of the address
	if q.Key != "" {
		req.Header.Set("X-Api-Key", q.Key)
	} else if !q.Anyone {
		req.Header.Set("X-Api-Key", a.Key)
	} else if q.Method == http.MethodGet && header["Sec-Fetch-Mode"] == nil {
		req.Header.Set("Sec-Fetch-Mode", "navigate") // as browsers do
	}
	res, err := Plain.Do(req)
	a.NoErr(err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	a.NoErr(err)
	out := &Answer{App: a, Status: res.StatusCode, Header: res.Header, Body: got}
	a.Conforms(req, sent, out, q.Raw)
	if row := a.routeOf(req, map[string]string{}); row != nil && AnswersRecord(row) && out.Status == row.Reply.Status &&
		MediaOf(out.Header) == web.JSONType &&
		out.Header.Get("Etag") == "" && header.Get("Idempotency-Key") == "" {
		a.Errorf("%s %s: the record has no entity tag", q.Method, q.Path)
	}
	if id := res.Header.Get("X-Request-Id"); id == "" {
		a.Errorf("%s %s: no X-Request-Id", q.Method, q.Path)
	}
	if s := res.StatusCode; (s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable) &&
		res.Header.Get("Retry-After") == "" {
		a.Errorf("%s %s: %d without Retry-After", q.Method, q.Path, s)
	}
	if bytes.Contains(got, []byte("$argon2")) {
		a.Errorf("%s %s: a password hash leaks", q.Method, q.Path)
	}
	a.KeepsRules(req, out)
	return out
}

// Document is the shipped document, read once.
var Document = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(embed.OpenAPI())
})

var (
	IdForm   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
)

func (a *App) Get(path string) *Answer {
	a.Helper()
	return a.Do(Request{Method: "GET", Path: path})
}

func (a *App) Post(path string, body any) *Answer {
	a.Helper()
	return a.Do(Request{Method: "POST", Path: path, JSON: body})
}

func (a *App) Patch(path string, body any) *Answer {
	a.Helper()
	return a.Do(Request{Method: "PATCH", Path: path, JSON: body})
}

func (a *App) Delete(path string) *Answer {
	a.Helper()
	return a.Do(Request{Method: "DELETE", Path: path})
}

// Visit is a request without a credential.
func (a *App) Visit(path string, header ...string) *Answer {
	a.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return a.Do(Request{Method: "GET", Path: path, Anyone: true, Header: h})
}

// From has the server answer a request that comes from an address, as its
// handler sees it. The others of the header are as withHeader takes them.
func (a *App) From(peer, method, path, host string, encrypted bool, body string, header ...string) *http.Response {
	a.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host, r.Header = peer+":5000", host, WithHeader(header...)
	if encrypted {
		r.TLS = new(tls.ConnectionState)
	}
	w := httptest.NewRecorder()
	a.Server.ServeHTTP(w, r)
	return w.Result()
}

// Indexed runs the search index of the app until the test ends, or end is
// called.
func (a *App) Indexed() (end func()) {
	a.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { a.Server.Search.Run(ctx) })
	end = func() { cancel(); work.Wait() }
	a.Cleanup(end)
	wait, done := context.WithTimeout(ctx, 5*time.Minute)
	defer done()
	_, err := a.Server.Search.Await(wait, func(s search.State) bool { return s.Phase == search.Ready })
	a.NoErr(err)
	return end
}
