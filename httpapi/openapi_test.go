package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"kist/embed"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

var update = flag.Bool("update", false, "rewrite embed/openapi.json from the routes and fields")

// TestOpenAPI holds the shipped document against the routes and fields.
func TestOpenAPI(t *testing.T) {
	is := is.New(t)
	doc, err := makeDocument()
	is.NoErr(err)
	if *update {
		is.NoErr(os.WriteFile("../embed/openapi.json", doc, 0o644))
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		is.NoErr(err)
		_, err = w.Write(doc)
		is.NoErr(errors.Join(err, w.Close()))
		is.NoErr(os.WriteFile("../embed/openapi.json.gz", packed.Bytes(), 0o644))
		return
	}
	readable, err := os.ReadFile("../embed/openapi.json")
	is.NoErr(err)
	if !bytes.Equal(doc, embed.OpenAPI()) || !bytes.Equal(doc, readable) {
		t.Fatal("embed/openapi.json is not what the routes and fields make; run: go test ./httpapi -run TestOpenAPI -update")
	}
}

// TestOpenAPIIsValid validates the document, with its examples, as OpenAPI 3.0.
func TestOpenAPIIsValid(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc, err := openapi3.NewLoader().LoadFromData(embed.OpenAPI())
	is.NoErr(err)
	doc.Servers[0].URL = "http://127.0.0.1"
	is.NoErr(doc.Validate(t.Context(), openapi3.EnableExamplesValidation()))
	is.Equal(doc.OpenAPI, "3.0.3")
	is.Equal(doc.Info.Version, "1.0.0")
}

// TestOpenAPIHoldsTheRoutes compares the operations of the document with those
// of the routers, both ways.
func TestOpenAPIHoldsTheRoutes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc, err := openapi3.NewLoader().LoadFromData(embed.OpenAPI())
	is.NoErr(err)
	a := apitest.Start(t)
	ids := map[string]bool{}
	operations := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			operations++
			// every operation is described
			is.True(op.OperationID != "" && op.Summary != "" && op.Description != "" && len(op.Tags) == 1)
			is.True(!ids[op.OperationID]) // operation ids are unique
			ids[op.OperationID] = true
			is.True(strings.HasPrefix(path, web.APIPath)) // pages, assets and probes are no business of a program's
			// And the router leads there: it does not answer 404 for the
			// address itself, nor 405.
			path := strings.NewReplacer(
				"{slug}", "none", "{id}", "01890a5d-ac96-774b-bcce-b302099a8057", "{token}", "none", "{name}", "none",
			).Replace(path)
			got := a.Do(apitest.Request{Method: method, Path: path, Anyone: true, Raw: true})
			is.True(got.Status != 405)
			is.True(!strings.Contains(string(got.Body), "There is no such address."))
		}
	}
	var rows []string
	for _, r := range a.Server.Routes() {
		rows = append(rows, r.Method+" "+r.Path)
		if r.Method == "GET" {
			rows = append(rows, "HEAD "+r.Path) // by the document's description
		}
		if !apitest.Documented(&r) {
			// what is below the API's prefix is documented, but for a page
			is.True(!strings.HasPrefix(r.Path, web.APIPath) || r.ID == "readReference")
			continue
		}
		operations--
		item := doc.Paths.Value(r.Path)
		is.True(item != nil && item.GetOperation(r.Method) != nil && item.GetOperation(r.Method).OperationID == r.ID)
	}
	is.Equal(operations, 0) // every documented operation exists
	slices.Sort(rows)
	is.Equal(a.Server.Registered(), rows) // every row is registered, once, and nothing else
}

// TestVersion: what the program was made from is the same wherever it is shown. A commit is for administrators.
func TestVersion(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) {
		c.Version, c.Commit, c.Date = "1.2.3", "17f9375b+", "2026-11-27T22:58:44Z"
	})
	is.Equal(a.Visit("/api/v1/openapi").Want(200).At("info.x-kist-version"), "1.2.3")
	is.True(strings.Contains(string(a.Visit("/about").Want(200).Body), "Kist 1.2.3"))
	health := a.Get("/api/v1/admin/health").Want(200)
	is.Equal(health.At("data.version"), "1.2.3")
	is.Equal(health.At("data.commit"), "17f9375b+")
	is.Equal(health.At("data.commitDate"), "2026-11-27T22:58:44Z")
	for _, open := range []string{"/api/v1/openapi", "/about"} {
		is.True(!strings.Contains(string(a.Visit(open).Body), "17f9375b"))
	}
}
