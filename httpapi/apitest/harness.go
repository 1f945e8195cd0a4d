package apitest

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"

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

// app is a server over a store in a temporary directory, with one user.
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

// cheapPasswords hashes passwords at next to no cost.
func CheapPasswords() *people.Passwords {
	p := people.NewPasswords()
	p.Memory, p.Passes = 8, 1
	return p
}

// realPasswords has a server hash passwords at the cost of the product, for
// tests of what that cost leads to.
func RealPasswords(c *web.Config) { c.Passwords = people.NewPasswords() }

func Start(t testing.TB, with ...func(*web.Config)) *App {
	t.Helper()
	a := StartEmpty(t, with...)
	a.User = a.AddUser("ann", people.Admin)
	a.Key = a.AddKey(a.User, people.ScopeAdmin)
	return a
}

// atHome gives the server the address that it is reached at, and its port to the
// origin for content where that has port 0.
func AtHome(c *web.Config) { c.Base = "" }

// startEmpty starts a server without accounts.
func StartEmpty(t testing.TB, with ...func(*web.Config)) *App {
	t.Helper()
	return StartAt(t, filepath.Join(t.TempDir(), "data"), with...)
}

// startAt starts a server with the data in a directory. It runs until the test ends, or
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
		Backup: func(w io.Writer) error { return tar.NewWriter(w).Close() }, LastBackup: func() time.Time { return time.Time{} },
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

// apiRequest is a request of a test.
type ApiRequest struct {
	Method, Path string
	Key          string // in place of the app's
	Anyone       bool   // without a key
	JSON         any    // body; a string is sent as it is
	Body         io.Reader
	Header       http.Header
	Raw          bool // the request does not keep to the document: only the answer is checked
}

// answer is the answer to a request.
type Answer struct {
	App    *App
	Status int
	Header http.Header
	Body   []byte

	parse sync.Once
	json  any // the body, by value
	err   error
}

// value is the JSON of the body, parsed once. Nobody changes it.
func (g *Answer) value() (any, error) {
	g.parse.Do(func() { g.json, g.err = jsonschema.UnmarshalJSON(bytes.NewReader(g.Body)) })
	return g.json, g.err
}

var Plain = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// longText is how long a body must be to be held against its schema no more,
// which takes a second for a megabyte.
const longText = 256 << 10

// do sends a request and checks the answer, and the request if it was taken,
// against the document.
func (a *App) Do(q ApiRequest) *Answer {
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
	}
	res, err := Plain.Do(req)
	a.NoErr(err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	a.NoErr(err)
	out := &Answer{App: a, Status: res.StatusCode, Header: res.Header, Body: got}
	a.Conforms(req, sent, out, q.Raw)
	if row := a.routeOf(req, map[string]string{}); row != nil && AnswersRecord(row) && out.Status == row.Reply.Status && MediaOf(out.Header) == web.JSONType &&
		out.Header.Get("Etag") == "" && header.Get("Idempotency-Key") == "" {
		a.Errorf("%s %s: the record has no entity tag", q.Method, q.Path)
	}
	if id := res.Header.Get("X-Request-Id"); id == "" {
		a.Errorf("%s %s: no X-Request-Id", q.Method, q.Path)
	}
	if res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "" {
		a.Errorf("%s %s: 429 without Retry-After", q.Method, q.Path)
	}
	if bytes.Contains(got, []byte("$argon2")) {
		a.Errorf("%s %s: a password hash leaks", q.Method, q.Path)
	}
	a.KeepsRules(req, out)
	return out
}

// document is the shipped document, read once.
var Document = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(embed.OpenAPI)
})

// routeOf is the route that answers the request, or nil. It fills in the parameters of its path.
func (a *App) routeOf(req *http.Request, params map[string]string) (row *httpapi.Route) {
	routes := a.Server.Routes()
	for i := range routes {
		r := &routes[i]
		if (r.Method == req.Method || r.Method == http.MethodGet && req.Method == http.MethodHead) && Matches(r.Path, req.URL.Path, params) {
			if row == nil || r.Path < row.Path { // a word comes before a wildcard, which begins with {
				row = r
			}
		}
	}
	return row
}

func (a *App) Conforms(req *http.Request, sent []byte, got *Answer, raw bool) {
	a.Helper()
	doc, err := Document()
	a.NoErr(err)
	params := map[string]string{}
	row := a.routeOf(req, params)
	if row == nil || req.Method == http.MethodHead {
		return
	}
	Matches(row.Path, req.URL.Path, params)
	if raw && got.Status == http.StatusNotFound || got.Status == http.StatusMethodNotAllowed {
		return
	}
	if !Documented(row) {
		if got.Status != row.Reply.Status && !slices.Contains(Statuses(row), got.Status) {
			a.Errorf("%s %s: status %d is not in its row", req.Method, req.URL.Path, got.Status)
		}
		return
	}
	item := doc.Paths.Value(row.Path)
	op := item.GetOperation(row.Method)
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params,
		Route: &routers.Route{Spec: doc, Path: row.Path, PathItem: item, Method: row.Method, Operation: op},
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true,
		},
	}
	if media := req.Header.Get("Content-Type"); !raw && got.Status < 300 && len(sent) < longText && (media == "" || media == "application/json") {
		req.Body = io.NopCloser(bytes.NewReader(sent))
		if err := openapi3filter.ValidateRequest(a.Context(), in); err != nil {
			a.Errorf("%s %s: the request is not as documented: %v", req.Method, req.URL.Path, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: got.Status, Header: got.Header, Options: in.Options}
	if MediaOf(got.Header) != "application/json" {
		if op.Responses.Status(got.Status) == nil {
			a.Errorf("%s %s: status %d is not documented", req.Method, req.URL.Path, got.Status)
		}
		return
	}
	if len(got.Body) > longText {
		return
	}
	judge, err := TheJudge()
	a.NoErr(err)
	if err := judge.Answer(row.Method, row.Path, got); err != nil {
		a.Errorf("%s %s -> %d: the answer is not as documented: %v\n%s", req.Method, req.URL.Path, got.Status, err, CutText(got.Body))
	}
	out.SetBodyBytes(got.Body)
	if err := openapi3filter.ValidateResponse(a.Context(), out); err != nil {
		a.Errorf("%s %s -> %d: the answer is not as documented: %v\n%s", req.Method, req.URL.Path, got.Status, err, CutText(got.Body))
	}
}

var (
	IdForm   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
)

// keepsRules checks what holds for every answer of the API: JSON, errors too;
// ids and times in their one form; errors of one shape.
func (a *App) KeepsRules(req *http.Request, got *Answer) {
	a.Helper()
	path := req.URL.Path
	if !strings.HasPrefix(path, "/api/v1/") || path == "/api/v1/openapi" || path == "/api/v1/reference" || path == "/api/v1/qr" || (path == "/api/v1/export" || path == "/api/v1/admin/backup") && got.Status == http.StatusOK || strings.HasSuffix(path, "/content") && got.Status < 300 || len(got.Body) == 0 || len(got.Body) > longText {
		return
	}
	if MediaOf(got.Header) == "text/plain" && web.PrefersText(req.Header) {
		return
	}
	if MediaOf(got.Header) != "application/json" {
		a.Errorf("%s %s -> %d: the answer is %q, not JSON", req.Method, path, got.Status, got.Header.Get("Content-Type"))
		return
	}
	v, err := got.value()
	if err != nil {
		a.Errorf("%s %s -> %d: %v", req.Method, path, got.Status, err)
		return
	}
	if got.Status < 400 {
		a.walk(req.Method+" "+path, "", v)
		return
	}
	e, _ := v.(map[string]any)
	text, _ := e["error"].(string)
	code, _ := e["code"].(string)
	fieldsOf, fields := e["fields"].(map[string]any)
	first, _, _ := strings.Cut(text, " ")
	for name := range fieldsOf {
		if strings.EqualFold(first, name) {
			a.Errorf("%s %s -> %d: the sentence begins with the name of a member: %s", req.Method, path, got.Status, text)
		}
	}
	if text == "" || code == "" || e["requestId"] != got.Header.Get("X-Request-Id") || fields != (got.Status == http.StatusUnprocessableEntity) {
		a.Errorf("%s %s -> %d: the error is not of the one shape: %s", req.Method, path, got.Status, CutText(got.Body))
	}
}

func (a *App) walk(at, name string, v any) {
	a.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, v := range v {
			if name != "passkey" { // options of WebAuthn, whose ids are its own
				a.walk(at, name, v)
			}
		}
	case []any:
		for _, v := range v {
			a.walk(at, name, v)
		}
	case string:
		if name == "id" && !IdForm.MatchString(v) || len(name) > 2 && strings.HasSuffix(name, "At") && !timeForm.MatchString(v) {
			a.Errorf("%s: %s is %q", at, name, v)
		}
	}
}

func CutText(b []byte) []byte { return b[:min(len(b), 2000)] }

func MediaOf(h http.Header) string {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return media
}

func Matches(template, path string, params map[string]string) bool {
	if strings.Count(template, "/") != strings.Count(path, "/") {
		return false
	}
	for more := true; more; {
		var word, given string
		word, template, more = strings.Cut(template, "/")
		given, path, _ = strings.Cut(path, "/")
		if name, ok := strings.CutPrefix(word, "{"); ok && given != "" {
			params[strings.TrimSuffix(name, "}")] = given
		} else if word != given {
			return false
		}
	}
	return true
}

// want fails the test if the status is another.
func (g *Answer) Want(status int) *Answer {
	g.App.Helper()
	if g.Status != status {
		g.App.Fatalf("status %d, want %d: %s", g.Status, status, CutText(g.Body))
	}
	return g
}

// at reads a value of the JSON answer by path: data.tags.0
func (g *Answer) At(path string) any {
	g.App.Helper()
	v, err := g.value()
	g.App.NoErr(err)
	for part := range strings.SplitSeq(path, ".") {
		switch t := v.(type) {
		case map[string]any:
			v = t[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(t) {
				g.App.Fatalf("%s: no %s in %s", path, part, CutText(g.Body))
			}
			v = t[i]
		default:
			g.App.Fatalf("%s: no %s in %s", path, part, CutText(g.Body))
		}
	}
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		g.App.NoErr(err)
		return f
	}
	return v
}

func (g *Answer) Text(path string) string {
	g.App.Helper()
	s, ok := g.At(path).(string)
	if !ok {
		g.App.Fatalf("%s is no text in %s", path, CutText(g.Body))
	}
	return s
}

// file is a part of an upload.
type Part struct{ Name, Media, Content string }

// upload sends files and then fields, as clients do.
func (a *App) Upload(fields map[string]string, files ...Part) *Answer {
	a.Helper()
	return a.Do(a.UploadRequest(fields, files...))
}

func (a *App) UploadRequest(fields map[string]string, files ...Part) ApiRequest {
	a.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range files {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", `form-data; name="file"; filename="`+strings.ReplaceAll(f.Name, `"`, "%22")+`"`)
		if f.Media != "" {
			h.Set("Content-Type", f.Media)
		}
		p, err := w.CreatePart(h)
		a.NoErr(err)
		_, err = io.WriteString(p, f.Content)
		a.NoErr(err)
	}
	for name, value := range fields {
		a.NoErr(w.WriteField(name, value))
	}
	a.NoErr(w.Close())
	return ApiRequest{Method: "POST", Path: "/api/v1/upload", Body: &b, Header: http.Header{"Content-Type": {w.FormDataContentType()}}}
}

func (a *App) Get(path string) *Answer {
	a.Helper()
	return a.Do(ApiRequest{Method: "GET", Path: path})
}

func (a *App) Post(path string, body any) *Answer {
	a.Helper()
	return a.Do(ApiRequest{Method: "POST", Path: path, JSON: body})
}

func (a *App) Patch(path string, body any) *Answer {
	a.Helper()
	return a.Do(ApiRequest{Method: "PATCH", Path: path, JSON: body})
}

func (a *App) Delete(path string) *Answer {
	a.Helper()
	return a.Do(ApiRequest{Method: "DELETE", Path: path})
}

// visit is a request without a credential.
func (a *App) Visit(path string, header ...string) *Answer {
	a.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return a.Do(ApiRequest{Method: "GET", Path: path, Anyone: true, Header: h})
}

// File is a part of an upload with the name, the media type, which may be empty, and the content of a file.
func File(name, media, content string) Part { return Part{name, media, content} }
