package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/grant"
	"kist/httpapi/public"
)

// TestGrantCookies: a browser keeps so many grants of a kind and so many bytes
// of them; the oldest go, and a view that is over is counted again.
func TestGrantCookies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	const extra = 3
	g := a.guest()
	held := func() (n, size int) {
		for name, value := range g.cookies {
			if strings.HasPrefix(name, public.CookiePrefix(grant.ToRead)) {
				n, size = n+1, size+len(name)+len(value)
			}
		}
		return n, size
	}
	g.cookies[public.CookiePrefix(grant.ToRead)+"of-somebody"] = "x" // goes first
	g.cookies[public.CookieName(grant.ToUnlock, "other")] = "another kind"
	for i := range public.MaxCookies + extra {
		slug := fmt.Sprint("item", i)
		a.share("0123456789", "slug", slug, "maxViews", "9")
		g.see("GET", "/x/"+slug).want(200)
		a.clock.advance(time.Second)
	}
	n, _ := held()
	is.Equal(n, public.MaxCookies)
	is.Equal(g.cookies[public.CookieName(grant.ToUnlock, "other")], "another kind")
	for i := public.MaxCookies + extra - 1; i >= 0; i-- {
		slug := fmt.Sprint("item", i)
		views := 1
		if i < extra {
			views = 2
		}
		g.see("GET", "/x/"+slug).want(200)
		is.Equal(a.viewed(slug), views)
	}

	// Long names make long passings.
	a.clock.advance(public.ReadTime)
	g = a.guest()
	for i := range public.MaxCookies {
		slug := fmt.Sprint("long", i)
		a.upload(map[string]string{"isPublic": "true", "slug": slug, "maxViews": "9", "maxViewsAction": "delete"}, file{strings.Repeat("é", 120) + ".bin", "", "0123456789"}).want(201)
		g.see("GET", "/x/"+slug).want(200)
		a.clock.advance(time.Second)
	}
	n, size := held()
	is.True(n < public.MaxCookies && size <= public.MaxCookieBytes)
	last := fmt.Sprint("long", public.MaxCookies-1)
	g.see("GET", "/x/"+last).want(200)
	is.Equal(a.viewed(last), 1)
}
