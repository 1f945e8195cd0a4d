package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"kist/httpapi"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

// exampleOf is the example of a body.
func exampleOf(t *testing.T, c *openapi3.MediaType) map[string]any {
	t.Helper()
	example := c.Example
	if c.Examples != nil {
		example = c.Examples["default"].Value.Value
	}
	// numbers as the document has them
	text, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	err = json.Unmarshal(text, &members)
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// tryOut is the request that the reference fills in: everything that has an example.
func tryOut(t *testing.T, a *apitest.App, r *httpapi.Route) apitest.Request {
	t.Helper()
	doc, err := apitest.Document()
	a.NoErr(err)
	op := doc.Paths.Value(r.Path).GetOperation(r.Method)
	q := apitest.Request{Method: r.Method, Path: r.Path, Header: http.Header{}}
	query := url.Values{}
	for _, p := range op.Parameters {
		if p.Value.Example == nil {
			continue
		}
		switch p.Value.In {
		case "query":
			query.Set(p.Value.Name, fmt.Sprint(p.Value.Example))
		case "header":
			q.Header.Set(p.Value.Name, fmt.Sprint(p.Value.Example))
		}
	}
	if len(query) > 0 {
		q.Path += "?" + query.Encode()
	}
	if op.RequestBody == nil {
		return q
	}

	content := op.RequestBody.Value.Content
	if c := content[web.JSONType]; c != nil {
		q.JSON = exampleOf(t, c)
		return q
	}
	fields := map[string]string{}
	for name, v := range exampleOf(t, content[web.MultipartForm.Media]) {
		if name == "file" {
			continue // the reader chooses one
		}
		text, isText := v.(string)
		if !isText {
			b, err := json.Marshal(v)
			a.NoErr(err)
			text = string(b)
		}
		fields[name] = text
	}
	form := a.UploadRequest(fields, apitest.File("bookmarks.html", "text/html", netscape))
	q.Body = form.Body
	q.Header.Set("Content-Type", form.Header.Get("Content-Type"))
	return q
}

// netscape is a file with a bookmark, as browsers export it.
const netscape = `<!DOCTYPE NETSCAPE-Bookmark-file-1>
<DL><p><DT><A HREF="https://go.dev/doc/" ADD_DATE="1700000000">Go</A></DL><p>`

// TestExamples: what the reference fills in works unchanged. On an account without anything, each
// create succeeds after all others and says where what it made is, each edit of that succeeds, and
// each list.
func TestExamples(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Backups = someBackups("") })
	table := httpapi.Table()
	row := func(method, path string) *httpapi.Route {
		i := slices.IndexFunc(table, func(r httpapi.Route) bool { return r.Method == method && r.Path == path })
		if i < 0 {
			return nil
		}
		return &table[i]
	}
	creates, edits, located := 0, 0, 0
	for i := range table {
		r := &table[i]
		creating := r.Method == "POST" && (r.Reply.Status == http.StatusCreated || r.Reply.Status == http.StatusAccepted)
		if !apitest.Documented(r) || !creating || r.Deprecated || r.Tus || r.Access.Open || r.Access.Browser ||
			strings.Contains(r.Path, "{") {
			continue
		}
		made := a.Do(tryOut(t, a, r)).Want(r.Reply.Status)
		creates++
		if r.At != "" {
			a.Get(made.Header.Get("Location")).Want(200)
			located++
		}

		edit := row("PATCH", r.Path+"/{id}")
		var of struct {
			ID   string
			Data struct{ ID string }
		}
		if strings.HasPrefix(made.Header.Get("Content-Type"), web.JSONType) {
			_ = json.Unmarshal(made.Body, &of) // some answers have a list as data
		}
		if r.ID == "uploadFiles" {
			edit, of.Data.ID = row("PATCH", "/api/v1/files/{slug}"), of.ID
		}
		if edit == nil || of.Data.ID == "" {
			continue
		}
		q := tryOut(t, a, edit)
		q.Path = edit.Path[:strings.LastIndexByte(edit.Path, '/')+1] + of.Data.ID
		a.Do(q).Want(edit.Reply.Status)
		edits++
	}
	is.True(creates >= 15 && located >= 8)
	is.True(edits >= 12)

	reads := 0
	for i := range table {
		r := &table[i]
		if !apitest.Documented(r) || r.Method != "GET" || strings.Contains(r.Path, "{") || r.Access.Browser {
			continue
		}
		want := r.Reply.Status
		if r.ID == "readQR" {
			want = http.StatusBadRequest // without the address that the picture is of
		}
		a.Do(tryOut(t, a, r)).Want(want)
		reads++
	}
	is.True(reads >= 30)
}
