package public_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/grant"
	"kist/httpapi/public"
)

// TestGrantCookies: a browser keeps so many grants of a kind and so many bytes
// of them; the oldest go, and a view that is over is counted again.
func TestGrantCookies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const extra = 3
	g := a.Guest()
	held := func() (n, size int) {
		for name, value := range g.Cookies {
			if strings.HasPrefix(name, public.CookiePrefix(grant.ToRead)) {
				n, size = n+1, size+len(name)+len(value)
			}
		}
		return n, size
	}
	g.Cookies[public.CookiePrefix(grant.ToRead)+"of-somebody"] = "x" // goes first
	g.Cookies[public.CookieName(grant.ToUnlock, "other")] = "another kind"
	for i := range public.MaxCookies + extra {
		slug := fmt.Sprint("item", i)
		a.Share("0123456789", "slug", slug, "maxViews", "9")
		g.See("GET", "/x/"+slug).Want(200)
		a.Clock.Advance(time.Second)
	}
	n, _ := held()
	is.Equal(n, public.MaxCookies)
	is.Equal(g.Cookies[public.CookieName(grant.ToUnlock, "other")], "another kind")
	for i := public.MaxCookies + extra - 1; i >= 0; i-- {
		slug := fmt.Sprint("item", i)
		views := 1
		if i < extra {
			views = 2
		}
		g.See("GET", "/x/"+slug).Want(200)
		is.Equal(viewed(a, slug), views)
	}

	// Long names make long passings.
	a.Clock.Advance(public.ReadTime)
	g = a.Guest()
	for i := range public.MaxCookies {
		slug := fmt.Sprint("long", i)
		a.Upload(
			map[string]string{"isPublic": "true", "slug": slug, "maxViews": "9", "maxViewsAction": "delete"},
			apitest.File(strings.Repeat("é", 120)+".bin", "", "0123456789"),
		).Want(201)
		g.See("GET", "/x/"+slug).Want(200)
		a.Clock.Advance(time.Second)
	}
	n, size := held()
	is.True(n < public.MaxCookies && size <= public.MaxCookieBytes)
	last := fmt.Sprint("long", public.MaxCookies-1)
	g.See("GET", "/x/"+last).Want(200)
	is.Equal(viewed(a, last), 1)
}
