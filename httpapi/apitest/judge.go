package apitest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

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
	text := bytes.ReplaceAll(embed.OpenAPI, []byte(httpapi.Placeholder), []byte("https://kist.example.org"))
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
func (j *judge) Answer(method, path string, got *Answer) error {
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
