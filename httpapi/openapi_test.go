package httpapi

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"kist/embed"
)

var update = flag.Bool("update", false, "rewrite embed/openapi.json from the routes and fields")

// TestOpenAPI holds the shipped document against the routes and fields.
func TestOpenAPI(t *testing.T) {
	is := is.New(t)
	doc, err := Document()
	is.NoErr(err)
	if *update {
		is.NoErr(os.WriteFile("../embed/openapi.json", doc, 0o644))
		return
	}
	if !bytes.Equal(doc, embed.OpenAPI) {
		t.Fatal("embed/openapi.json is not what the routes and fields make; run: go test ./httpapi -run TestOpenAPI -update")
	}
}

// TestOpenAPIIsValid validates the document, with its examples, as OpenAPI 3.0.
func TestOpenAPIIsValid(t *testing.T) {
	is := is.New(t)
	doc, err := openapi3.NewLoader().LoadFromData(embed.OpenAPI)
	is.NoErr(err)
	doc.Servers[0].URL = "http://127.0.0.1"
	is.NoErr(doc.Validate(t.Context(), openapi3.EnableExamplesValidation()))
	is.Equal(doc.OpenAPI, "3.0.3")
	is.Equal(doc.Info.Version, "1.0.0")
}

// TestOpenAPIHoldsTheRoutes compares the operations of the document with those
// of the router, both ways.
func TestOpenAPIHoldsTheRoutes(t *testing.T) {
	is := is.New(t)
	doc, err := openapi3.NewLoader().LoadFromData(embed.OpenAPI)
	is.NoErr(err)
	documented := map[string]bool{}
	ids := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			documented[method+" "+path] = true
			is.True(op.OperationID != "" && op.Summary != "" && len(op.Tags) == 1) // every operation is described
			is.True(!ids[op.OperationID])                                          // operation ids are unique
			ids[op.OperationID] = true
		}
	}
	a := start(t)
	for _, r := range a.server.routes {
		if !documented[r.method+" "+r.path] {
			t.Errorf("%s %s is not documented", r.method, r.path)
		}
		delete(documented, r.method+" "+r.path)
		// And the router leads there: it does not answer 404 for the address
		// itself, nor 405.
		path := strings.NewReplacer("{slug}", "none", "{id}", "01890a5d-ac96-774b-bcce-b302099a8057", "{token}", "none", "{name}", "none").Replace(r.path)
		got := a.do(request{method: r.method, path: path, anyone: true, raw: true})
		is.True(got.status != 405)
		is.True(!strings.Contains(string(got.body), "There is no such address."))
	}
	is.Equal(len(documented), 0) // nothing is documented that is not there
}
