package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi"
	"kist/httpapi/apitest"
	"kist/httpapi/web"
)

// TestLinkLeadsBack: a short link that would lead back to itself is not made,
// and one that came to be so shows its page instead of going round.
func TestLinkLeadsBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, func(c *web.Config) { c.Base = "https://kist.example.org/at/home" })
	const host = "kist.example.org"
	add := func(slug, target string, more ...any) *apitest.Answer {
		body := map[string]any{"originalUrl": target, "slug": slug, "isPublic": true}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return a.Post("/api/v1/shorten", body)
	}
	refused := func(got *apitest.Answer) {
		t.Helper()
		is.Equal(got.Want(422).Text("fields.originalUrl"), "must not lead back to this short link")
	}
	for _, target := range []string{
		"https://" + host + "/at/home/s/way", "https://" + host + "/at/home/way", "http://" + host + "/at/home/s/way", "https://" + host + ":443/at/home/s/way",
		"https://" + host + "./at/home/s/way", "HTTPS://KIST.example.org/at/home/s/way?x=1#y", "https://" + host + "/at/home//s/%77ay", "https://" + host + "/a/../at/home/./s/way",
	} {
		refused(add("way", target))
	}
	for i, target := range []string{
		"https://" + host + "/at/home/v/me%d", "https://" + host + "/s/me%d", "https://" + host + ":8443/at/home/s/me%d", "https://other.example.org/at/home/s/me%d",
		"https://" + host + "/at/home/s/ME%d", "https://" + host + "/at/home/x/me%d", "https://" + host + "/at/home/s/me%d/", "https://example.org/?u=https://" + host + "/at/home/s/me%d",
	} {
		target = fmt.Sprintf(target, i)
		slug := fmt.Sprint("me", i)
		add(slug, target).Want(201)
		is.Equal(a.Guest().See("GET", "/s/"+slug).Want(302).Header.Get("Location"), target)
	}
	a.Post("/api/v1/shorten", `{"originalUrl":"https://`+host+`/at/home/s/way"}`).Want(201) // of a slug that is made up
	const me = "https://" + host + "/at/home/s/"
	got := add("way", me+"way", "expiresAt", "2000-01-01T00:00:00Z").Want(422)
	is.True(got.Text("fields.originalUrl") != "" && got.Text("fields.expiresAt") != "") // all at once

	// By way of others, in the order that it takes.
	add("a", me+"b").Want(201)
	add("b", me+"c").Want(201)
	refused(add("c", me+"a"))
	add("c", "https://example.org/").Want(201)
	a.Guest().See("GET", "/s/a").Want(302)
	refused(a.Patch("/api/v1/shorten/c", `{"originalUrl":"`+me+`a"}`))
	add("d", me+"e").Want(201)
	refused(a.Patch("/api/v1/shorten/c", `{"slug":"e","originalUrl":"`+me+`d"}`))
	add("f", me+"j").Want(201)
	refused(a.Patch("/api/v1/shorten/f", `{"slug":"j"}`))

	// What others may not follow is the end of the way, and not told.
	for slug, more := range map[string][]any{
		"private": {"isPublic", false}, "locked": {"password", "open sesame"}, "few": {"maxClicks", 3},
	} {
		add(slug, me+"to-"+slug, more...).Want(201)
		add("to-"+slug, me+slug).Want(201)
		is.Equal(a.Guest().See("GET", "/s/to-"+slug).Want(302).Header.Get("Location"), me+slug)
	}

	// Of links that were made at another address of the server, here by its change.
	add("old", "https://new.example.org/s/old").Want(201)
	add("old-few", "https://new.example.org/old-few", "maxClicks", 3).Want(201)
	moved, err := httpapi.New(func() web.Config { c := a.Server.Config; c.Base = "https://new.example.org"; return c }())
	is.NoErr(err)
	a.Server.Handle(moved)
	for _, path := range []string{"/s/old", "/old", "/s/old-few", "/old-few"} {
		got := a.Guest().See("GET", path).Want(200)
		is.Equal(apitest.MediaOf(got.Header), "text/html")
		is.Equal(strings.Contains(string(got.Body), "new.example.org/s/old"+`"`), !strings.Contains(path, "few"))
		is.Equal(a.Get(path).Status, 200)
		a.Guest().See("HEAD", path).Want(200)
	}
	is.Equal(a.Counted("shorten", "old-few", "clicks"), 0)
	// nothing new
	a.Patch("/api/v1/shorten/old", `{"isFavorite":true,"originalUrl":"https://new.example.org/s/old"}`).Want(200)
	a.Patch("/api/v1/shorten/old", `{"originalUrl":"https://example.org/"}`).Want(200)
	a.Guest().See("GET", "/s/old").Want(302)
}
