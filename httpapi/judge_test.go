package httpapi

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"kist/embed"
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

var theJudge = sync.OnceValues(func() (*judge, error) {
	text := bytes.ReplaceAll(embed.OpenAPI, []byte(Placeholder), []byte("https://kist.example.org"))
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

// answer returns the errors in the body of a JSON answer.
func (j *judge) answer(method, path string, got *answer) error {
	schema, err := j.schema(method, path, got.status)
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
	if err == nil {
		j.schemas[pointer] = schema
	}
	return schema, err
}

func (j *judge) find(at []string) (found map[string]any, ok bool) {
	found, ok = j.doc, true
	for _, part := range at {
		if found, ok = found[part].(map[string]any); !ok {
			return nil, false
		}
	}
	return found, true
}

// TestJudge: the judge finds the errors that it must find.
func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		good = `{"data":{"id":"01890a5d-ac96-774b-bcce-b302099a8057","name":"a","color":"#AABBCC","createdAt":"2026-01-02T03:04:05.678Z","count":1,"counts":{"note":1}}}`
		path = web.APIPath + "tags"
	)
	for _, tt := range []struct{ name, body, want string }{
		{"good", good, ""},
		{"null", strings.Replace(good, `"name":"a"`, `"name":null`, 1), "got null, want string"},
		{"no id", strings.Replace(good, `"01890a5d-ac96-774b-bcce-b302099a8057"`, `null`, 1), "got null, want string"},
		{"bad id", strings.Replace(good, `01890a5d-`, ``, 1), "not valid uuid"},
		{"bad time", strings.Replace(good, `T03:04`, ` 03:04`, 1), "not valid date-time"},
		{"missing", strings.Replace(good, `"count":1,`, ``, 1), "missing property"},
		{"unknown", strings.Replace(good, `"count":1,`, `"count":1,"x":1,`, 1), "additional properties 'x' not allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			j, err := theJudge()
			is.NoErr(err)
			err = j.answer("POST", path, &answer{status: 201, body: []byte(tt.body)})
			if tt.want == "" {
				is.NoErr(err)
				return
			}
			is.True(err != nil)
			is.True(strings.Contains(err.Error(), tt.want))
		})
	}
}
