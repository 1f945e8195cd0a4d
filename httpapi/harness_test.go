package httpapi

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
type app struct {
	stop func()
	testing.TB
	server *Server
	url    string
	user   *people.User
	key    string // of the user, an administrator, with the scope admin
	clock  *clock
	log    *syncBuffer
}

// clock is the wall clock of a test.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

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
func cheapPasswords() *people.Passwords {
	p := people.NewPasswords()
	p.Memory, p.Passes = 8, 1
	return p
}

// realPasswords has a server hash passwords at the cost of the product, for
// tests of what that cost leads to.
func realPasswords(c *web.Config) { c.Passwords = people.NewPasswords() }

func start(t testing.TB, with ...func(*web.Config)) *app {
	t.Helper()
	a := startEmpty(t, with...)
	a.user = a.addUser("ann", people.Admin)
	a.key = a.addKey(a.user, people.ScopeAdmin)
	return a
}

// atHome gives the server the address that it is reached at, and its port to the
// origin for content where that has port 0.
func atHome(c *web.Config) { c.Base = "" }

// startEmpty starts a server without accounts.
func startEmpty(t testing.TB, with ...func(*web.Config)) *app {
	t.Helper()
	return startAt(t, filepath.Join(t.TempDir(), "data"), with...)
}

// startAt starts a server with the data in a directory. It runs until the test ends, or
// until stop.
func startAt(t testing.TB, dir string, with ...func(*web.Config)) *app {
	t.Helper()
	front := httptest.NewUnstartedServer(nil)
	a := &app{TB: t, clock: new(clock), log: new(syncBuffer), url: "http://" + front.Listener.Addr().String()}
	store, err := kv.Open(dir, kv.Options{Schema: tables.All, Now: a.clock.now, Space: kvtest.SmallDisk})
	a.fatal(err)
	files, err := blobs.OpenIn(dir)
	a.fatal(err)
	thumbs, err := thumb.New(filepath.Join(dir, "cache", "thumbs"))
	a.fatal(err)
	icons, err := thumbs.Icons(filepath.Join(dir, "cache", "icons"))
	a.fatal(err)
	c := web.Config{
		Outbound: local(t),
		Thumbs:   thumbs, Icons: icons, Store: store, Blobs: files, Passwords: cheapPasswords(), Base: "https://kist.example.org", MaxUpload: 64 << 20,
		Search: indexOf(dir, store, files),
		Backup: func(w io.Writer) error { return tar.NewWriter(w).Close() }, LastBackup: func() time.Time { return time.Time{} },
		Log: slog.New(slog.NewJSONHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range with {
		f(&c)
	}
	if c.Base == "" {
		c.Base = a.url
		c.Content = strings.Replace(c.Content, ":0", a.url[strings.LastIndex(a.url, ":"):], 1)
	}
	a.server, err = New(c)
	a.fatal(err)
	front.Config.Handler = a.server
	front.Start()
	a.stop = sync.OnceFunc(func() {
		front.Close()
		a.server.Imports.End()
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
	t.Cleanup(a.stop)
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

func (a *app) fatal(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// sessionCookie is the name of the cookie at the server's own address.
func (a *app) sessionCookie() string {
	if a.server.BaseURL.Scheme == "https" {
		return "__Host-" + session.CookieName
	}
	return session.CookieName
}

func (a *app) addUser(name string, role people.Role) *people.User {
	a.Helper()
	var u *people.User
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) (err error) {
		u, err = people.AddUser(tx, people.User{Name: name, Role: role, Quota: -1})
		return err
	}))
	return u
}

func (a *app) addKey(u *people.User, scopes ...people.Scope) string {
	a.Helper()
	var secret string
	a.fatal(a.server.Store.Update(func(tx *kv.Tx) (err error) {
		_, secret, err = people.AddKey(tx, people.Key{Owner: u.ID, Name: "test", Scopes: scopes})
		return err
	}))
	return secret
}

// apiRequest is a request of a test.
type apiRequest struct {
	method, path string
	key          string // in place of the app's
	anyone       bool   // without a key
	json         any    // body; a string is sent as it is
	body         io.Reader
	header       http.Header
	raw          bool // the request does not keep to the document: only the answer is checked
}

// answer is the answer to a request.
type answer struct {
	app    *app
	status int
	header http.Header
	body   []byte

	parse sync.Once
	json  any // the body, by value
	err   error
}

// value is the JSON of the body, parsed once. Nobody changes it.
func (g *answer) value() (any, error) {
	g.parse.Do(func() { g.json, g.err = jsonschema.UnmarshalJSON(bytes.NewReader(g.body)) })
	return g.json, g.err
}

var plain = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// longText is how long a body must be to be held against its schema no more,
// which takes a second for a megabyte.
const longText = 256 << 10

// do sends a request and checks the answer, and the request if it was taken,
// against the document.
func (a *app) do(q apiRequest) *answer {
	a.Helper()
	body := q.body
	header := q.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if q.json != nil {
		text, ok := q.json.(string)
		if !ok {
			b, err := json.Marshal(q.json)
			a.fatal(err)
			text = string(b)
		}
		body = strings.NewReader(text)
		if header.Get("Content-Type") == "" {
			header.Set("Content-Type", "application/json")
		}
	}
	var sent []byte
	if body != nil && !q.raw {
		var err error
		sent, err = io.ReadAll(body)
		a.fatal(err)
		body = bytes.NewReader(sent)
	}
	req, err := http.NewRequestWithContext(a.Context(), q.method, a.url+q.path, body)
	a.fatal(err)
	req.Header = header
	req.Host = header.Get("Host") // "" is that of the address
	if q.key != "" {
		req.Header.Set("X-Api-Key", q.key)
	} else if !q.anyone {
		req.Header.Set("X-Api-Key", a.key)
	}
	res, err := plain.Do(req)
	a.fatal(err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	a.fatal(err)
	out := &answer{app: a, status: res.StatusCode, header: res.Header, body: got}
	a.conforms(req, sent, out, q.raw)
	if row := a.routeOf(req, map[string]string{}); row != nil && answersRecord(row) && out.status == row.Reply.Status && mediaOf(out.header) == web.JSONType &&
		out.header.Get("Etag") == "" && header.Get("Idempotency-Key") == "" {
		a.Errorf("%s %s: the record has no entity tag", q.method, q.path)
	}
	if id := res.Header.Get("X-Request-Id"); id == "" {
		a.Errorf("%s %s: no X-Request-Id", q.method, q.path)
	}
	if res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "" {
		a.Errorf("%s %s: 429 without Retry-After", q.method, q.path)
	}
	if bytes.Contains(got, []byte("$argon2")) {
		a.Errorf("%s %s: a password hash leaks", q.method, q.path)
	}
	a.keepsRules(req, out)
	return out
}

// document is the shipped document, read once.
var document1 = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(embed.OpenAPI)
})

// routeOf is the route that answers the request, or nil. It fills in the parameters of its path.
func (a *app) routeOf(req *http.Request, params map[string]string) (row *Route) {
	routes := a.server.Routes()
	for i := range routes {
		r := &routes[i]
		if (r.Method == req.Method || r.Method == http.MethodGet && req.Method == http.MethodHead) && matches(r.Path, req.URL.Path, params) {
			if row == nil || r.Path < row.Path { // a word comes before a wildcard, which begins with {
				row = r
			}
		}
	}
	return row
}

func (a *app) conforms(req *http.Request, sent []byte, got *answer, raw bool) {
	a.Helper()
	doc, err := document1()
	a.fatal(err)
	params := map[string]string{}
	row := a.routeOf(req, params)
	if row == nil || req.Method == http.MethodHead {
		return
	}
	matches(row.Path, req.URL.Path, params)
	if raw && got.status == http.StatusNotFound || got.status == http.StatusMethodNotAllowed {
		return
	}
	if !documented(row) {
		if got.status != row.Reply.Status && !slices.Contains(statuses(row), got.status) {
			a.Errorf("%s %s: status %d is not in its row", req.Method, req.URL.Path, got.status)
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
	if media := req.Header.Get("Content-Type"); !raw && got.status < 300 && len(sent) < longText && (media == "" || media == "application/json") {
		req.Body = io.NopCloser(bytes.NewReader(sent))
		if err := openapi3filter.ValidateRequest(a.Context(), in); err != nil {
			a.Errorf("%s %s: the request is not as documented: %v", req.Method, req.URL.Path, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: got.status, Header: got.header, Options: in.Options}
	if mediaOf(got.header) != "application/json" {
		if op.Responses.Status(got.status) == nil {
			a.Errorf("%s %s: status %d is not documented", req.Method, req.URL.Path, got.status)
		}
		return
	}
	if len(got.body) > longText {
		return
	}
	judge, err := theJudge()
	a.fatal(err)
	if err := judge.answer(row.Method, row.Path, got); err != nil {
		a.Errorf("%s %s -> %d: the answer is not as documented: %v\n%s", req.Method, req.URL.Path, got.status, err, cutText(got.body))
	}
	out.SetBodyBytes(got.body)
	if err := openapi3filter.ValidateResponse(a.Context(), out); err != nil {
		a.Errorf("%s %s -> %d: the answer is not as documented: %v\n%s", req.Method, req.URL.Path, got.status, err, cutText(got.body))
	}
}

var (
	idForm   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
)

// keepsRules checks what holds for every answer of the API: JSON, errors too;
// ids and times in their one form; errors of one shape.
func (a *app) keepsRules(req *http.Request, got *answer) {
	a.Helper()
	path := req.URL.Path
	if !strings.HasPrefix(path, "/api/v1/") || path == "/api/v1/openapi" || path == "/api/v1/reference" || path == "/api/v1/qr" || (path == "/api/v1/export" || path == "/api/v1/admin/backup") && got.status == http.StatusOK || strings.HasSuffix(path, "/content") && got.status < 300 || len(got.body) == 0 || len(got.body) > longText {
		return
	}
	if mediaOf(got.header) == "text/plain" && web.PrefersText(req.Header) {
		return
	}
	if mediaOf(got.header) != "application/json" {
		a.Errorf("%s %s -> %d: the answer is %q, not JSON", req.Method, path, got.status, got.header.Get("Content-Type"))
		return
	}
	v, err := got.value()
	if err != nil {
		a.Errorf("%s %s -> %d: %v", req.Method, path, got.status, err)
		return
	}
	if got.status < 400 {
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
			a.Errorf("%s %s -> %d: the sentence begins with the name of a member: %s", req.Method, path, got.status, text)
		}
	}
	if text == "" || code == "" || e["requestId"] != got.header.Get("X-Request-Id") || fields != (got.status == http.StatusUnprocessableEntity) {
		a.Errorf("%s %s -> %d: the error is not of the one shape: %s", req.Method, path, got.status, cutText(got.body))
	}
}

func (a *app) walk(at, name string, v any) {
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
		if name == "id" && !idForm.MatchString(v) || len(name) > 2 && strings.HasSuffix(name, "At") && !timeForm.MatchString(v) {
			a.Errorf("%s: %s is %q", at, name, v)
		}
	}
}

func cutText(b []byte) []byte { return b[:min(len(b), 2000)] }

func mediaOf(h http.Header) string {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return media
}

func matches(template, path string, params map[string]string) bool {
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
func (g *answer) want(status int) *answer {
	g.app.Helper()
	if g.status != status {
		g.app.Fatalf("status %d, want %d: %s", g.status, status, cutText(g.body))
	}
	return g
}

// at reads a value of the JSON answer by path: data.tags.0
func (g *answer) at(path string) any {
	g.app.Helper()
	v, err := g.value()
	g.app.fatal(err)
	for part := range strings.SplitSeq(path, ".") {
		switch t := v.(type) {
		case map[string]any:
			v = t[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(t) {
				g.app.Fatalf("%s: no %s in %s", path, part, cutText(g.body))
			}
			v = t[i]
		default:
			g.app.Fatalf("%s: no %s in %s", path, part, cutText(g.body))
		}
	}
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		g.app.fatal(err)
		return f
	}
	return v
}

func (g *answer) text(path string) string {
	g.app.Helper()
	s, ok := g.at(path).(string)
	if !ok {
		g.app.Fatalf("%s is no text in %s", path, cutText(g.body))
	}
	return s
}

// file is a part of an upload.
type file struct{ name, media, content string }

// upload sends files and then fields, as clients do.
func (a *app) upload(fields map[string]string, files ...file) *answer {
	a.Helper()
	return a.do(a.uploadRequest(fields, files...))
}

func (a *app) uploadRequest(fields map[string]string, files ...file) apiRequest {
	a.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range files {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", `form-data; name="file"; filename="`+strings.ReplaceAll(f.name, `"`, "%22")+`"`)
		if f.media != "" {
			h.Set("Content-Type", f.media)
		}
		p, err := w.CreatePart(h)
		a.fatal(err)
		_, err = io.WriteString(p, f.content)
		a.fatal(err)
	}
	for name, value := range fields {
		a.fatal(w.WriteField(name, value))
	}
	a.fatal(w.Close())
	return apiRequest{method: "POST", path: "/api/v1/upload", body: &b, header: http.Header{"Content-Type": {w.FormDataContentType()}}}
}

func (a *app) get(path string) *answer {
	a.Helper()
	return a.do(apiRequest{method: "GET", path: path})
}

func (a *app) post(path string, body any) *answer {
	a.Helper()
	return a.do(apiRequest{method: "POST", path: path, json: body})
}

func (a *app) patch(path string, body any) *answer {
	a.Helper()
	return a.do(apiRequest{method: "PATCH", path: path, json: body})
}

func (a *app) delete(path string) *answer {
	a.Helper()
	return a.do(apiRequest{method: "DELETE", path: path})
}

// visit is a request without a credential.
func (a *app) visit(path string, header ...string) *answer {
	a.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return a.do(apiRequest{method: "GET", path: path, anyone: true, header: h})
}
