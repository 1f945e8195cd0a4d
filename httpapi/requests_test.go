package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
)

// TestRequestSlugsAreNotTriedOut: the links of upload requests are shared
// addresses like all others.
func TestRequestSlugsAreNotTriedOut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	_, slug := a.Ask(nil)
	for i := range limit.MaxMisses {
		switch i % 3 {
		case 0:
			a.Visit(fmt.Sprintf("/up/guess%d", i)).Want(404)
		case 1:
			a.Visit(fmt.Sprintf("/api/v1/upload-requests/p/guess%d", i)).Want(404)
		default:
			a.Leave(fmt.Sprintf("guess%d", i), nil, nil, apitest.File("a", "", "x")).Want(404)
		}
	}
	for _, g := range []*apitest.Answer{a.Visit("/up/" + slug), a.Visit("/api/v1/upload-requests/p/" + slug), a.Leave(slug, nil, nil, apitest.File("a", "", "x"))} {
		is.Equal(g.Status, 429)
		is.True(g.Header.Get("Retry-After") != "")
	}
	a.Get("/up/" + slug).Want(200) // who is known may look
	a.Clock.Advance(limit.MissWindow)
	a.Visit("/up/" + slug).Want(200)
}
