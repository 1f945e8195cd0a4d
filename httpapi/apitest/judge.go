package apitest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"kist/embed"
	"kist/httpapi"
	"kist/httpapi/web"
)

// judge holds JSON answers against the document, more strictly than package
// openapi3filter: null only where the schema has it, formats of ids, times and
// addresses, and no member that the schema does not name.
type judge struct {
	mu       sync.Mutex
	doc      map[string]any
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer into the document
}

var TheJudge = sync.OnceValues(func() (*judge, error) {
	text := bytes.ReplaceAll(embed.OpenAPI(), []byte(httpapi.Placeholder), []byte("https://kist.example.org"))
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	strict(doc)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("mem:///document", doc); err != nil {
		return nil, err
	}
	return &judge{doc: doc.(map[string]any), compiler: c, schemas: map[string]*jsonschema.Schema{}}, nil
})

// strict turns the schemas of OpenAPI 3.0 below v into those of JSON Schema, in
// which objects have the members that they name and no others.
func strict(v any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			strict(x)
		}
	case map[string]any:
		if v["nullable"] == true {
			v["type"] = []any{v["type"], "null"}
		}
		if _, named := v["properties"].(map[string]any); named && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for name, x := range v {
			if name != "example" && name != "examples" {
				strict(x)
			}
		}
	}
}

// Answer returns the errors in the body of a JSON answer. A file that happens to be
// JSON has no schema.
func (j *judge) Answer(method, path string, got *Answer) error {
	at := []string{"paths", path, strings.ToLower(method), "responses", strconv.Itoa(got.Status), "content", "*/*"}
	if _, bytes := j.find(at); bytes {
		return nil
	}
	schema, err := j.schema(method, path, got.Status)
	if err != nil {
		return err
	}
	v, err := got.value()
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// schema is that of the body of an answer, compiled once.
func (j *judge) schema(method, path string, status int) (*jsonschema.Schema, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := []string{"paths", path, strings.ToLower(method), "responses", strconv.Itoa(status)}
	if found, _ := j.find(at); found["$ref"] != nil {
		at = strings.Split(strings.TrimPrefix(found["$ref"].(string), "#/"), "/")
	}
	at = append(at, "content", web.JSONType, "schema")
	if _, ok := j.find(at); !ok {
		return nil, fmt.Errorf("no JSON is documented for %s %s with %d", method, path, status)
	}
	pointer := ""
	for _, part := range at {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(part)
	}
	if schema := j.schemas[pointer]; schema != nil {
		return schema, nil
	}
	schema, err := j.compiler.Compile("mem:///document#" + pointer)
	if err != nil {
		return nil, err
	}
	j.schemas[pointer] = schema
	return schema, nil
}

func (j *judge) find(at []string) (found map[string]any, ok bool) {
	found, ok = j.doc, true
	for _, part := range at {
		found, ok = found[part].(map[string]any)
		if !ok {
			return nil, false
		}
	}
	return found, true
}

// routeOf is the route that answers the request, or nil. It fills in the parameters of its path.
func (a *App) routeOf(req *http.Request, params map[string]string) (row *httpapi.Route) {
	routes := a.Server.Routes()
	for i := range routes {
		r := &routes[i]
		if (r.Method == req.Method || r.Method == http.MethodGet && req.Method == http.MethodHead) &&
			Matches(r.Path, req.URL.Path, params) {
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
	if item == nil || item.GetOperation(row.Method) == nil {
		a.Fatalf("%s %s is not in the document; go test ./httpapi -run TestOpenAPI -update writes it", row.Method, row.Path)
	}
	op := item.GetOperation(row.Method)
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params,
		Route: &routers.Route{Spec: doc, Path: row.Path, PathItem: item, Method: row.Method, Operation: op},
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true,
		},
	}
	if media := req.Header.Get("Content-Type"); !raw && got.Status < 300 && len(sent) < longText &&
		(media == "" || media == "application/json") {
		req.Body = io.NopCloser(bytes.NewReader(sent))
		if err := openapi3filter.ValidateRequest(a.Context(), in); err != nil {
			a.Errorf("%s %s: the request is not as documented: %v", req.Method, req.URL.Path, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: got.Status, Header: got.Header, Options: in.Options,
	}
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
		a.Errorf(
			"%s %s -> %d: the answer is not as documented: %v\n%s", req.Method, req.URL.Path, got.Status, err, CutText(got.Body),
		)
	}
	out.SetBodyBytes(got.Body)
	if err := openapi3filter.ValidateResponse(a.Context(), out); err != nil {
		a.Errorf(
			"%s %s -> %d: the answer is not as documented: %v\n%s", req.Method, req.URL.Path, got.Status, err, CutText(got.Body),
		)
	}
}

// KeepsRules checks what holds for every answer of the API: JSON, errors too;
// ids and times in their one form; errors of one shape.
func (a *App) KeepsRules(req *http.Request, got *Answer) {
	a.Helper()
	path := req.URL.Path
	if !strings.HasPrefix(path, "/api/v1/") || path == "/api/v1/openapi" || path == "/api/v1/reference" ||
		path == "/api/v1/qr" || (path == "/api/v1/export" || path == "/api/v1/admin/backup") &&
		got.Status == http.StatusOK || strings.HasSuffix(path, "/content") && got.Status < 300 || len(got.Body) == 0 ||
		len(got.Body) > longText {
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
	if !slices.ContainsFunc(web.ErrorCodes, func(c web.ErrorCode) bool {
		return c.Code == code && slices.Contains(c.Statuses, got.Status)
	}) {
		a.Errorf("%s %s -> %d: the table of codes does not have %s with this status", req.Method, path, got.Status, code)
	}
	if text == "" || code == "" || e["requestId"] != got.Header.Get("X-Request-Id") ||
		fields != (got.Status == http.StatusUnprocessableEntity) && code != "not_owner" {
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
		if name == "id" && !IdForm.MatchString(v) || len(name) > 2 && strings.HasSuffix(name, "At") &&
			!timeForm.MatchString(v) {
			a.Errorf("%s: %s is %q", at, name, v)
		}
	}
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
