package httpapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// TestDocumentIsWhole: every parameter has a schema, every body and answer a schema and an
// example, and the credential is lifted only where none is needed.
func TestDocumentIsWhole(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc, err := apitest.Document()
	is.NoErr(err)
	is.Equal(len(doc.Servers), 1)
	is.Equal(len(doc.Security), 2)
	scheme := doc.Components.SecuritySchemes["ApiKeyAuth"].Value
	is.Equal(scheme.Type+" "+scheme.In+" "+scheme.Name, "apiKey header x-api-key")
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
				if p.Value.Example != nil { // else whoever tries the operation out sends it
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
				name == "Password" || name == "Login" || name == "Confirm")
		}
	}
}
