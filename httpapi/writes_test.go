package httpapi

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/tables"
)

// writesPerHour gives the server a store with another limit of written bytes.
func writesPerHour(t *testing.T, limit int64) func(*web.Config) {
	return func(c *web.Config) {
		dir := c.Store.Dir()
		err := c.Store.Close()
		if err == nil {
			c.Store, err = kv.Open(dir, kv.Options{Schema: tables.All, Space: smallDisk, WritesPerHour: limit})
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The limit of written bytes applies to everything that an owner writes, not only to
// records. Reading and deleting go on.
func TestWritesOfAllKindsAreLimited(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, writesPerHour(t, 4000)) // the activity of the key counts too
	tag := "/api/v1/tags/" + a.post("/api/v1/tags", `{"name":"first"}`).want(http.StatusCreated).text("data.id")
	n, status := 0, http.StatusOK
	for ; n < 60 && status == http.StatusOK; n++ {
		status = a.patch(tag, fmt.Sprintf(`{"name":"name %d"}`, n)).status
	}
	is.True(n > 5)
	is.Equal(status, http.StatusTooManyRequests)
	for path, body := range map[string]string{
		"/api/v1/tags": `{"name":"t"}`, "/api/v1/folders": `{"name":"f"}`, "/api/v1/notes": `{"content":"c"}`,
		"/api/v1/integrations/webhooks": `{"url":"https://example.org/"}`,
	} {
		got := a.post(path, body)
		is.Equal(got.status, http.StatusTooManyRequests)
		is.True(got.header.Get("Retry-After") != "")
	}
	is.Equal(a.get("/api/v1/tags").status, http.StatusOK)
	is.True(a.delete(tag).status < 300)
}

// When the limit of written bytes is used up, changes that make something safer still work, and
// other changes do not.
func TestSaferWritesGoOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, writesPerHour(t, 60_000))
	at := func(kind, body string) string {
		return "/api/v1/" + kind + "/" + a.post("/api/v1/"+kind, body).want(http.StatusCreated).text("data.id")
	}
	public, open := at("notes", `{"content":"x","isPublic":true}`), at("notes", `{"content":"y","isPublic":true}`)
	long := at("notes", `{"content":"z","isPublic":true}`)
	link, locked := at("upload-requests", `{"title":"files"}`), at("upload-requests", `{"title":"more files"}`)
	slug := a.get(link).text("data.slug")
	items := at("collections", `{"title":"c","isPublic":true}`) + "/items"
	pick := func(verb string) *answer { return a.post(items, `{"`+verb+`":["`+open[len("/api/v1/notes/"):]+`"]}`) }
	pick("add").want(http.StatusOK)
	hook, tag := at("integrations/webhooks", `{"url":"https://example.org/","events":["note.created"]}`), at("tags", `{"name":"t"}`)
	key := at("keys", `{"name":"k"}`)
	queue := link + "/queue"
	for range 3 {
		a.leave(slug, nil, nil, file{"a.txt", "text/plain", "x"}).want(http.StatusCreated)
	}
	waiting := func(n int) string { return a.get(queue).text(fmt.Sprintf("items.%d.id", n)) }
	first, second := waiting(0), waiting(1)

	for n := 0; a.post("/api/v1/notes", fmt.Sprintf(`{"content":"%0800d"}`, n)).status == http.StatusCreated; n++ {
		is.True(n < 90)
	}
	for n, status := 0, 0; status != http.StatusTooManyRequests; n++ { // these must not use up what is for safer changes
		is.True(n < 90)
		status = a.patch(tag, fmt.Sprintf(`{"name":"name %d"}`, n)).status
	}
	a.patch(public, `{"title":"new"}`).want(http.StatusTooManyRequests)
	a.patch(long, fmt.Sprintf(`{"isPublic":false,"content":"%01000d"}`, 0)).want(http.StatusTooManyRequests)
	a.patch(public, `{"isPublic":false}`).want(http.StatusOK)
	a.patch(public, `{"isPublic":true}`).want(http.StatusTooManyRequests)
	a.patch(open, `{"password":"correct horse"}`).want(http.StatusOK)
	for n, status := 0, http.StatusOK; status == http.StatusOK; n++ { // another password goes a little beyond the limit
		is.True(n < 90)
		status = a.patch(open, `{"password":"battery staple"}`).status
	}
	a.patch(open, `{"password":null}`).want(http.StatusTooManyRequests)
	a.patch(open, `{"isPublic":false}`).want(http.StatusOK)
	pick("remove").want(http.StatusOK)
	pick("remove").want(http.StatusTooManyRequests)
	a.patch(locked, `{"password":"correct horse"}`).want(http.StatusOK)
	a.patch(locked, `{"title":"new"}`).want(http.StatusTooManyRequests)
	a.patch(queue+"/"+first, `{"action":"approve"}`).want(http.StatusTooManyRequests)
	a.patch(queue+"/"+first, `{"action":"reject"}`).want(http.StatusOK)
	a.patch(queue, `{"action":"reject","items":["`+second+`"]}`).want(http.StatusOK)
	a.patch(link, `{"isActive":false}`).want(http.StatusOK)
	a.patch(link, `{"isActive":true}`).want(http.StatusTooManyRequests)
	a.patch(hook, `{"enabled":false}`).want(http.StatusOK)
	a.patch(hook, `{"enabled":true}`).want(http.StatusTooManyRequests)
	a.patch("/api/v1/me", `{"displayName":"Ann"}`).want(http.StatusOK) // also changes the password, and writes nothing that counts
	for _, path := range []string{open, link, locked, hook, tag, key, "/api/v1/me/sessions"} {
		a.delete(path).want(http.StatusOK)
	}
}
