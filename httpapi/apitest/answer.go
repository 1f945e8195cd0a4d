package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kist/httpapi/web"
)

func WithHeader(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
	}
	return h
}

// Lines are those of the log since mark.
func (a *App) Lines(mark int) []string {
	return strings.Split(strings.TrimSuffix(a.Logged.String()[mark:], "\n"), "\n")
}

// Code is the code of an error answered in the API.
func (g *Answer) Code() string {
	g.App.Helper()
	return g.Text("code")
}

// apiRequest is a request of a test.
type Request struct {
	Method, Path string
	Key          string // in place of the app's
	Anyone       bool   // without a key
	JSON         any    // body; a string is sent as it is
	Body         io.Reader
	Header       http.Header
	Raw          bool // the request does not keep to the document: only the answer is checked
}

// Answer is the answer to a request.
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

func CutText(b []byte) []byte { return b[:min(len(b), 2000)] }

func MediaOf(h http.Header) string {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return media
}

// Want fails the test if the status is another.
func (g *Answer) Want(status int) *Answer {
	g.App.Helper()
	if g.Status != status {
		g.App.Fatalf("status %d, want %d: %s", g.Status, status, CutText(g.Body))
	}
	return g
}

// At reads a value of the JSON answer by path: data.tags.0
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

// CookieOf is the cookie that an answer sets, as the browser sends it; "" if it is
// to forget.
func (got *Answer) CookieOf(name string) string {
	got.App.Helper()
	res := http.Response{Header: got.Header}
	for _, c := range res.Cookies() {
		if c.Name == name {
			if c.MaxAge < 0 {
				return ""
			}
			return c.Name + "=" + c.Value
		}
	}
	got.App.Fatalf("no cookie %s", name)
	return ""
}

func (g *Answer) Uploader(i int) *Uploader {
	g.App.Helper()
	var v struct {
		Data struct{ Files []struct{ Content string } }
	}
	g.App.NoErr(json.Unmarshal(g.Body, &v))
	u := &Uploader{app: g.App}
	d := json.NewDecoder(strings.NewReader(v.Data.Files[i].Content))
	d.DisallowUnknownFields()
	g.App.NoErr(d.Decode(&u.CustomUploader))
	return u
}

// Fields are the names of the bad fields of a 422 answer.
func (g *Answer) Fields() []string {
	g.App.Helper()
	var e struct{ Fields map[string]string }
	g.App.NoErr(json.Unmarshal(g.Body, &e))
	return web.SortedKeys(e.Fields)
}

// IDs are the ids of the records on a page.
func (g *Answer) IDs() []string {
	g.App.Helper()
	var page struct{ Data []struct{ ID string } }
	g.App.NoErr(json.Unmarshal(g.Body, &page))
	all := []string{}
	for _, r := range page.Data {
		all = append(all, r.ID)
	}
	return all
}

// Object is a member of the answer that is an object.
func (g *Answer) Object(path string) map[string]any {
	g.App.Helper()
	o, ok := g.At(path).(map[string]any)
	if !ok {
		g.App.Fatalf("%s is no object in %s", path, CutText(g.Body))
	}
	return maps.Clone(o)
}
