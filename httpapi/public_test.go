package httpapi_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/limit"
	"kist/httpapi/web"
)

// TestPublicMisses: slugs cannot be tried out, and who has seen nothing but
// what is shared, or is signed in, is not hindered.
func TestPublicMisses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	a.Share("x", "slug", "there")
	a.Share("x", "slug", "hidden", "isPublic", "false")
	from := func(method, path, addr string) *apitest.Answer {
		return a.Do(apitest.ApiRequest{Method: method, Path: path, Anyone: true, Raw: true, Header: apitest.WithHeader("X-Forwarded-For", addr)})
	}
	paths := []string{"/x/", "/v/", "/s/", "/t/", "/g/", "/"}
	for i := range limit.MaxMisses - 2 {
		path := fmt.Sprint(paths[i%len(paths)], "none", i)
		if i%len(paths) < 2 { // an item of a collection
			path += "/a"
		}
		from([]string{"GET", "HEAD"}[i%2], path, fmt.Sprintf("9.9.9.%d, 1.1.1.1", i)).Want(404)
	}
	from("GET", "/x/hidden", "1.1.1.1").Want(404)
	from("GET", "/x/there", "1.1.1.1").Want(200) // is no miss
	from("GET", "/x/there", "1.1.1.1").Want(200)
	from("POST", "/api/v1/notes/p/none", "1.1.1.1").Want(404)
	for _, path := range paths {
		for _, slug := range []string{"there", "none", "hidden"} {
			got := from("GET", path+slug, "1.1.1.1").Want(429)
			seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
			is.NoErr(err)
			is.True(seconds > 0 && seconds <= 60)
		}
	}
	is.Equal(from("POST", "/api/v1/notes/p/none", "1.1.1.1").Want(429).Code(), "too_many_misses")
	from("GET", "/healthz", "1.1.1.1").Want(200)
	from("GET", "/x/there", "1.1.1.2").Want(200)
	for range limit.MaxMisses + 1 { // who is known may look for anything
		a.Do(apitest.ApiRequest{Method: "GET", Path: "/x/none", Header: apitest.WithHeader("X-Forwarded-For", "1.1.1.1")}).Want(404)
	}
	a.Do(apitest.ApiRequest{Method: "GET", Path: "/x/hidden", Header: apitest.WithHeader("X-Forwarded-For", "1.1.1.1")}).Want(200)
	a.Clock.Advance(limit.MissWindow)
	from("GET", "/x/there", "1.1.1.1").Want(200)
	from("GET", "/x/none", "1.1.1.1").Want(404)
}
