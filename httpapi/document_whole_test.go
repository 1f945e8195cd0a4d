package httpapi_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/field"
)

// TestDocumentIsWhole: every parameter has a schema, every body and answer a schema and an
// example, and the credential is lifted only where none is needed.
func TestDocumentIsWhole(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc, err := apitest.Document()
	is.NoErr(err)
	for _, r := range httpapi.Table() {
		if r.Method != "POST" || !apitest.Documented(&r) || r.Reply.Status != 201 || r.At == "" {
			continue
		}
		made := doc.Paths.Value(r.Path).Post.Responses.Status(201).Value
		is.True(made.Headers["Location"] != nil)
	}
	is.Equal(len(doc.Servers), 1)
	is.Equal(len(doc.Security), 2)
	scheme := doc.Components.SecuritySchemes["ApiKeyAuth"].Value
	is.Equal(scheme.Type+" "+scheme.In+" "+scheme.Name, "apiKey header x-api-key")
	for _, tag := range doc.Tags {
		is.True(tag.Description != "")
	}
	open := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			at := method + " " + path
			described := func(what string, content openapi3.Content) {
				t.Helper()
				for media, c := range content {
					if c.Schema == nil || c.Example == nil && c.Examples == nil {
						t.Errorf("%s: %s (%s) has no schema or no example", at, what, media)
					}
				}
			}
			for _, p := range op.Parameters {
				if p.Value.Schema == nil || p.Value.Description == "" {
					t.Errorf("%s: parameter %s has no schema or description", at, p.Value.Name)
				}
				if p.Value.Example != nil { // a reader who tries the operation out would send it
					t.Errorf("%s: parameter %s has an example", at, p.Value.Name)
				}
			}
			if op.RequestBody != nil {
				is.True(len(op.RequestBody.Value.Content) == 1)
				described("the body", op.RequestBody.Value.Content)
			}
			for status, r := range op.Responses.Map() {
				if *r.Value.Description == "" || *r.Value.Description == "." {
					t.Errorf("%s: status %s is not described", at, status)
				}
				if len(r.Value.Content) == 0 && !strings.HasPrefix(status, "3") && status != "204" {
					t.Errorf("%s: the answer %s has no body", at, status)
				}
				described("the answer "+status, r.Value.Content)
				if c := r.Value.Content["application/json"]; c != nil && status >= "400" {
					is.Equal(c.Schema.Ref, "#/components/schemas/Error") // errors have one shape
					is.True(c.Example.(map[string]any)["code"] != "")
				} else if c != nil && !strings.HasPrefix(c.Schema.Ref, "#/components/schemas/") {
					t.Errorf("%s: the answer %s has a schema without a name", at, status)
				}
			}
			needed := []string{"400", "401", "500"}
			if op.Security != nil && len(*op.Security) == 0 {
				open[at] = true
				needed = []string{"400", "500"}
			}
			for _, status := range needed {
				if op.Responses.Value(status) == nil {
					t.Errorf("%s: status %s is missing", at, status)
				}
			}
		}
	}
	for at := range open {
		for _, owned := range []string{
			"GET /api/v1/files", "POST /api/v1/upload ", "GET /api/v1/me", "GET /api/v1/keys", "GET /api/v1/notes",
			"GET /api/v1/tags", "GET /api/v1/admin",
		} {
			if strings.HasPrefix(at+" ", owned) && !strings.Contains(at, "/p/") {
				t.Errorf("%s asks for no one's key or session", at)
			}
		}
	}
	for name, schema := range doc.Components.Schemas {
		for _, member := range []string{"id", "itemId", "createdAt", "updatedAt"} { // they are always there
			// most errors are about nothing that has an id
			if p := schema.Value.Properties[member]; p != nil && name != "Error" {
				is.True(!p.Value.Nullable)
				is.True(slices.Contains(schema.Value.Required, member))
			}
		}
		for member, p := range schema.Value.Properties { // words have a name
			for _, p := range []*openapi3.SchemaRef{p, p.Value.Items} {
				if p != nil && p.Ref == "" && len(p.Value.Enum) > 1 {
					t.Errorf("%s.%s is an enum without a name", name, member)
				}
			}
		}
		for member, s := range schema.Value.Properties {
			if !slices.ContainsFunc(components(), func(c component) bool { return c.name == name }) {
				break // an answer around those
			}
			request := strings.HasSuffix(name, "Create") || strings.HasSuffix(name, "Edit")
			if s.Value.Description == "" ||
				s.Value.Example == nil && s.Ref == "" && !s.Value.Nullable && !(request && personal[member]) {
				t.Errorf("%s.%s has no description or no example", name, member)
			}
		}
		for member := range schema.Value.Properties {
			// the server's own
			is.True(!strings.HasSuffix(name, "Create") && !strings.HasSuffix(name, "Edit") ||
				member != "id" && member != "createdAt")
		}
		for member := range schema.Value.Properties {
			// never shown
			is.True(member != "password" || strings.HasSuffix(name, "Create") || strings.HasSuffix(name, "Edit") ||
				name == "Password" || name == "Login" || name == "Confirm" || name == "Join")
		}
	}
}

// TestDocumentForGenerators: the document has nothing that a generator of code is known to
// stumble over.
func TestDocumentForGenerators(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc, err := apitest.Document()
	is.NoErr(err)
	for name := range doc.Components.SecuritySchemes {
		is.True(doc.Components.Schemas[name] == nil) // ogen makes one type of each
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			at := method + " " + path
			if len(op.Summary) >= 80 { // viewers list them in a line
				t.Errorf("%s: the summary has %d bytes", at, len(op.Summary))
			}
			if reservedWords[strings.ToLower(op.OperationID)] {
				t.Errorf("%s: %s is a word of a language", at, op.OperationID)
			}
			for status, r := range op.Responses.Map() {
				if len(r.Value.Content) > 1 { // openapi-fetch types the answer as one or the other
					t.Errorf("%s: the answer %s has several types", at, status)
				}
			}
			if op.RequestBody == nil || op.RequestBody.Value.Content[web.MultipartForm.Media] == nil {
				continue
			}
			for name, p := range op.RequestBody.Value.Content[web.MultipartForm.Media].Schema.Value.Properties {
				enum := p.Value.AllOf
				if p.Value.Nullable || len(enum) > 0 && enum[0].Value.Nullable {
					t.Errorf("%s: %s may be null, which no form can hold", at, name)
				}
			}
		}
	}

	var whole any
	is.NoErr(json.Unmarshal(embed.OpenAPI(), &whole))
	eachSchema(whole, "", func(at string, s map[string]any) {
		if s["type"] == "integer" && s["format"] == nil {
			t.Errorf("%s: generators take 32 bits for a whole number without a format", at)
		}
		if top, ok := s["maximum"].(float64); ok && top > field.MaxSafe {
			t.Errorf("%s: JavaScript cannot hold the maximum", at)
		}
		words, _ := s["enum"].([]any)
		names, _ := s["x-enum-varnames"].([]any)
		if slices.Contains(words, nil) && len(names) != len(words) {
			t.Errorf(`%s: oapi-codegen makes "<nil>" of null`, at)
		}
	})
}

// reservedWords are words of languages that an operation could have as its id, in small letters.
var reservedWords = wordSet(
	"break", "case", "catch", "class", "const", "continue", "default", "delete", "do", "else", "enum", "export", "extends",
	"final", "for", "func", "function", "go", "goto", "if", "import", "in", "interface", "is", "let", "match", "new", "not",
	"package", "pass", "private", "public", "return", "select", "static", "struct", "super", "switch", "this", "throw",
	"try", "type", "typeof", "var", "void", "while", "with", "yield",
)

// eachSchema calls f with each object in a value of JSON that may be a schema.
func eachSchema(v any, at string, f func(at string, s map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, part := range v {
			eachSchema(part, at, f)
		}
	case map[string]any:
		f(at, v)
		for name, part := range v {
			if name != "example" && name != "examples" {
				eachSchema(part, at+"/"+name, f)
			}
		}
	}
}
