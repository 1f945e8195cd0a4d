package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
)

// TestContentMisses: who has missed too often has what a grant is for, and
// nothing else.
func TestContentMisses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.Apart)
	a.Share("0123456789", "slug", "hidden", "isPublic", "false")
	a.Share("0123456789", "slug", "other", "isPublic", "false")
	at := apitest.RawApart(a.Get("/v/hidden").Want(200))
	for i := range limit.MaxMisses {
		a.Send("GET", fmt.Sprint("/x/none", i), "Host", apitest.ContentHost).Want(404)
	}
	a.Send("GET", "/x/hidden", "Host", apitest.ContentHost).Want(429)
	a.Send("GET", strings.Replace(at, "/hidden?", "/other?", 1), "Host", apitest.ContentHost).Want(429)
	is.Equal(string(a.Send("GET", at, "Host", apitest.ContentHost).Want(200).Body), "0123456789")
	a.Send("GET", strings.Replace(at, "/hidden?", "/hidden.txt?", 1), "Host", apitest.ContentHost).Want(200)
	a.Clock.Advance(limit.MissWindow)
	a.Send("GET", "/x/other", "Host", apitest.ContentHost).Want(404)
}
