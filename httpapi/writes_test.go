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

// A change that is safer goes beyond the limit of written bytes a little, and others do not.
func TestSaferWritesGoOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, writesPerHour(t, 40_000))
	at := func(kind, body string) string {
		return "/api/v1/" + kind + "/" + a.post("/api/v1/"+kind, body).want(http.StatusCreated).text("data.id")
	}
	public, open := at("notes", `{"content":"x","isPublic":true}`), at("notes", `{"content":"y","isPublic":true}`)
	link := at("upload-requests", `{"title":"files"}`)
	for n := 0; a.post("/api/v1/notes", fmt.Sprintf(`{"content":"%0800d"}`, n)).status == http.StatusCreated; n++ {
		is.True(n < 60)
	}
	a.patch(public, `{"title":"new"}`).want(http.StatusTooManyRequests)
	a.patch(public, `{"isPublic":false}`).want(http.StatusOK)
	a.patch(public, `{"isPublic":true}`).want(http.StatusTooManyRequests)
	a.patch(open, `{"password":"correct horse"}`).want(http.StatusOK)
	a.patch(open, `{"password":null}`).want(http.StatusTooManyRequests)
	a.patch(link, `{"isActive":false}`).want(http.StatusOK)
	a.delete(open).want(http.StatusOK)
}
