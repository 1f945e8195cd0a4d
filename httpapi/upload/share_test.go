package upload_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/people"
)

func TestShareTarget(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for _, c := range []struct {
		fields           map[string]string
		to, kind, member string
		want             string
	}{
		{map[string]string{"title": "Go", "url": "https://go.dev/"}, "/bookmarks/", "bookmarks", "url", "https://go.dev/"},
		{map[string]string{"text": "https://go.dev/a"}, "/bookmarks/", "bookmarks", "url", "https://go.dev/a"},
		{map[string]string{"text": "Look at this https://go.dev/b"}, "/bookmarks/", "bookmarks", "title", "Look at this"},
		{map[string]string{"title": "T", "text": "Look https://go.dev/c"}, "/bookmarks/", "bookmarks", "description", "Look"},
		{map[string]string{"text": "milk\nand bread"}, "/notes/", "notes", "content", "milk\nand bread"},
		{
			map[string]string{"title": strings.Repeat("x", 600), "text": "t"},
			"/notes/", "notes", "title", strings.Repeat("x", 512),
		},
		{map[string]string{"url": "javascript:alert(1)"}, "/notes/", "notes", "content", "javascript:alert(1)"},
	} {
		got := a.Do(a.ShareSheet(c.fields)).Want(303)
		to := got.Header.Get("Location")
		is.True(strings.HasPrefix(to, c.to))
		is.Equal(a.Get("/api/v1/"+c.kind).Want(200).Text("data.0."+c.member), c.want)
		is.Equal(a.Get("/api/v1/"+c.kind).At("data.0.isPublic"), false)
	}
	is.Equal(a.Do(a.ShareSheet(map[string]string{"title": ""})).Want(303).Header.Get("Location"), "/")

	got := a.Do(a.ShareSheet(
		map[string]string{"text": "from the phone"},
		apitest.File("a.txt", "text/plain", "aaa"), apitest.File("b.txt", "text/plain", "bbb"),
	)).Want(303)
	is.Equal(got.Header.Get("Location"), "/files")
	files := a.Get("/api/v1/files").Want(200)
	is.Equal(files.At("total"), 2.0)
	is.Equal(files.Text("data.0.description"), "from the phone")
}

// TestShareTargetOfStrangers: nothing that a stranger shares is kept, or even read.
func TestShareTargetOfStrangers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	before := a.State()
	q := a.ShareSheet(map[string]string{"text": "milk & bread"}, apitest.File("a.txt", "text/plain", "aaa"))
	q.Anyone = true
	is.Equal(a.Do(q).Want(303).Header.Get("Location"), "/login?next=%2F%3Fagain%3Dshare")
	other := apitest.Request{Method: "POST", Path: "/share", Body: strings.NewReader("no form"), Anyone: true, Raw: true}
	is.Equal(a.Do(other).Want(303).Header.Get("Location"), "/login?next=%2F%3Fagain%3Dshare")
	is.Equal(a.State(), before)

	// With a session, what another site has the browser send is refused.
	var secret string
	a.NoErr(a.Server.Store.Update(func(tx *kv.Tx) (err error) {
		_, secret, err = people.AddSession(tx, a.User.ID, "test", "192.0.2.1", tx.Now)
		return err
	}))
	for site, status := range map[string]int{"cross-site": 403, "same-site": 403, "none": 303, "same-origin": 303} {
		q := a.ShareSheet(map[string]string{"text": "milk"})
		q.Anyone = true
		q.Header.Set("Cookie", a.SessionCookie()+"="+secret)
		q.Header.Set("Sec-Fetch-Site", site)
		a.Do(q).Want(status)
	}
}

// TestShareTargetBadBodies: what is no form of the share sheet is refused and
// leaves nothing.
func TestShareTargetBadBodies(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t, func(c *web.Config) { c.MaxUpload = 1000 })
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	a.NoErr(w.WriteField("text", strings.Repeat("x", upload.MaxField+1)))
	a.NoErr(w.Close())
	media := http.Header{"Content-Type": {w.FormDataContentType()}}
	a.Refused(apitest.Request{Method: "POST", Path: "/share", Body: &b, Header: media, Raw: true}, 413)
	a.Refused(apitest.Request{Method: "POST", Path: "/share", JSON: `{"text":"x"}`, Raw: true}, 415)
	a.Refused(a.ShareSheet(nil, apitest.File("a.bin", "", strings.Repeat("x", 1001))), 413)
}
