package web

import (
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"kist/embed"
)

// TestOpenAPITellsOfConditions: what http.ServeContent heeds of a request is
// declared where it answers.
func TestOpenAPITellsOfConditions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	doc, err := openapi3.NewLoader().LoadFromData(embed.OpenAPI())
	is.NoErr(err)
	for _, name := range []string{"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since"} {
		is.True(doc.Paths.Value(RequestsPath+"/{id}/queue/{itemId}/content").Get.Parameters.GetByInAndName("header", name) != nil)
	}
	schema := doc.Paths.Value(APIPath + "openapi").Get
	is.True(schema.Parameters.GetByInAndName("header", "If-None-Match") != nil)
	is.True(schema.Responses.Status(304) != nil)
	for _, word := range []string{"HEAD", "OPTIONS", "405"} {
		is.True(strings.Contains(doc.Info.Description, word))
	}
}
