package httpapi

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
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

// registered are the operations that the routers hold, as OpenAPI writes them.
// The package does not tell, so its tree is read.
func (s *Server) registered() []string {
	var all []string
	var walk func(method, path string, node reflect.Value)
	walk = func(method, path string, node reflect.Value) {
		path += node.Elem().FieldByName("path").String()
		if !node.Elem().FieldByName("handle").IsNil() {
			all = append(all, method+" "+wildcard.ReplaceAllString(path, "{$1}"))
		}
		for children, i := node.Elem().FieldByName("children"), 0; i < children.Len(); i++ {
			walk(method, path, children.Index(i))
		}
	}
	for _, router := range s.routers {
		for trees := reflect.ValueOf(router).Elem().FieldByName("trees").MapRange(); trees.Next(); {
			walk(trees.Key().String(), "", trees.Value())
		}
	}
	slices.Sort(all)
	return all
}

var wildcard = regexp.MustCompile(`[:*](\w+)`)

// TestOpenAPIHoldsTheRoutes compares the operations of the document with those
// of the routers, both ways.
func TestOpenAPIHoldsTheRoutes(t *testing.T) {
	is := is.New(t)
	doc, err := openapi3.NewLoader().LoadFromData(embed.OpenAPI)
	is.NoErr(err)
	a := start(t)
	var documented []string
	ids := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			documented = append(documented, method+" "+path)
			is.True(op.OperationID != "" && op.Summary != "" && len(op.Tags) == 1) // every operation is described
			is.True(!ids[op.OperationID])                                          // operation ids are unique
			ids[op.OperationID] = true
			if method == "GET" {
				documented = append(documented, "HEAD "+path) // by the document's description
			}
			// And the router leads there: it does not answer 404 for the
			// address itself, nor 405.
			path := strings.NewReplacer("{slug}", "none", "{id}", "01890a5d-ac96-774b-bcce-b302099a8057", "{token}", "none", "{name}", "none").Replace(path)
			got := a.do(request{method: method, path: path, anyone: true, raw: true})
			is.True(got.status != 405)
			is.True(!strings.Contains(string(got.body), "There is no such address."))
		}
	}
	slices.Sort(documented)
	is.True(len(documented) > 60)
	for _, at := range a.server.registered() {
		if i, found := slices.BinarySearch(documented, at); found {
			documented = slices.Delete(documented, i, i+1)
		} else {
			t.Errorf("%s is not documented, or registered twice", at)
		}
	}
	is.Equal(documented, []string{}) // nothing is documented that is not there
}

// TestOpenAPITellsOfConditions: what http.ServeContent heeds of a request is
// declared where it answers.
func TestOpenAPITellsOfConditions(t *testing.T) {
	is := is.New(t)
	doc, err := openapi3.NewLoader().LoadFromData(embed.OpenAPI)
	is.NoErr(err)
	for _, name := range []string{"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "x-share-password"} {
		is.True(doc.Paths.Value("/x/{slug}").Get.Parameters.GetByInAndName("header", name) != nil)
	}
	file := doc.Paths.Value("/static/{name}").Get
	is.True(file.Parameters.GetByInAndName("header", "If-None-Match") != nil)
	is.True(file.Responses.Status(304) != nil)
	for _, word := range []string{"HEAD", "OPTIONS", "405"} {
		is.True(strings.Contains(doc.Info.Description, word))
	}
}
