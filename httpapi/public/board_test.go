package public_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// The board of a collection for its owner, a member, visitors and others: everybody gets the same template. Those inside
// see who shares it. In the app it has every item, also those that visitors do not see, and says which one is which.
func TestBoard(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	note := a.Note(`# Shopping\n- [ ] **Milk**\n- [x] Eggs`, ``)
	hidden := a.Note("only inside", `,"maxViews":3`)
	site := a.Post("/api/v1/bookmarks", `{"url":"https://www.example.org/a","title":"A site"}`).Want(201).Text("data.id")
	picture := a.Upload(nil, apitest.File("wide.png", "image/png", pictureOf(t, 60, 20))).Want(201).Text("id")
	id := a.Collect("all", "", note, hidden, site, picture)
	bob := a.AddUser("bob", people.Member)
	key := a.AddKey(bob, people.ScopeAll)
	other := a.AddKey(a.AddUser("eve", people.Member), people.ScopeAll)
	a.Do(apitest.Request{
		Method: "PUT", Path: "/api/v1/collections/" + id + "/members/" + bob.ID.String(), JSON: `{"role":"see"}`,
	}).Want(200)

	at := "/collections/" + id + "/board"
	board := func(key string, header http.Header) *apitest.Answer {
		return a.Do(apitest.Request{Method: "GET", Path: at, Key: key, Header: header, Raw: true})
	}
	for who, of := range map[string]struct {
		got        *apitest.Answer
		app, inner bool
	}{
		"the owner": {got: board(a.Key, nil), app: true, inner: true},
		"a member":  {got: board(key, nil), app: true, inner: true},
		"a visitor": {got: a.Visit("/v/all")},
		"the owner at the address": {
			got: a.Do(apitest.Request{Method: "GET", Path: "/v/all", Raw: true}), inner: true,
		},
	} {
		page := string(of.got.Want(200).Body)
		has := func(text string) bool { return strings.Contains(page, text) }
		is.True(has(`<p class="open">Milk</p><p class="done">Eggs</p>`)) // as its reader shows it
		is.True(has(`<span class="name" dir="auto">A site</span>`) && has("example.org"))
		is.True(has(`<li class="s23"`)) // 3 times as wide as high
		is.Equal(has(`data-id="`+note+`"`), of.app)
		is.Equal(has("only inside"), of.app || who == "the owner at the address") // there it says why it is left out
		is.Equal(has(`class="initial`), of.inner)
		is.Equal(has("own view limit"), of.inner && who != "a member")
		if t.Failed() {
			t.Fatalf("%s: %s", who, page)
		}
	}
	board(other, nil).Want(404)
	a.Do(apitest.Request{Method: "GET", Path: at, Anyone: true, Raw: true}).Want(303)

	first := board(key, nil).Want(200)
	tag := http.Header{"If-None-Match": {first.Header.Get("ETag")}}
	board(key, tag).Want(304)
	a.Patch("/api/v1/notes/"+note, `{"title":"changed"}`).Want(200)
	is.True(strings.Contains(string(board(key, tag).Want(200).Body), "changed"))

	// What may be done is part of the page, so that the app of a member whose role changes learns of it.
	tag.Set("If-None-Match", board(key, nil).Want(200).Header.Get("ETag"))
	a.Do(apitest.Request{
		Method: "PUT", Path: "/api/v1/collections/" + id + "/members/" + bob.ID.String(), JSON: `{"role":"edit"}`,
	}).Want(200)
	board(key, tag).Want(200)
	is.True(strings.Contains(string(board(key, nil).Want(200).Body), "shared by"))
	is.True(!strings.Contains(string(board(a.Key, nil).Want(200).Body), "shared by")) // it is theirs

	faces := func() bool { return strings.Contains(string(board(a.Key, nil).Want(200).Body), `class="initial`) }
	is.True(faces())
	a.Disable(bob)
	is.True(!faces()) // the owner's alone says nothing
	is.True(a.Sound())
}

// A long board comes in pages, with sections by kind. Each is below 15 KiB without the style sheet.
func TestLongBoard(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	var ids []string
	for i := range 250 {
		if i%2 == 0 {
			ids = append(ids, a.Note(fmt.Sprintf("Note %d with words %d", i, i*7919), ``))
			continue
		}
		b := fmt.Sprintf(`{"url":"https://host%d.example/","title":"Site %d"}`, i, i)
		ids = append(ids, a.Post("/api/v1/bookmarks", b).Want(201).Text("data.id"))
	}
	a.Collect("all", "", ids...)
	seen := 0
	for n := 1; n <= 3; n++ {
		page := string(a.Visit(fmt.Sprintf("/v/all?page=%d", n)).Want(200).Body)
		seen += strings.Count(page, `<li class="thing`)
		is.True(strings.Contains(page, "<h2>Notes</h2>") && strings.Contains(page, "<h2>Bookmarks</h2>"))
		is.Equal(strings.Contains(page, `rel="next"`), n < 3)
		packed := a.Visit(fmt.Sprintf("/v/all?page=%d", n), "Accept-Encoding", "gzip").Want(200)
		is.True(len(packed.Body) < 9<<10)
	}
	is.Equal(seen, 250)
	a.Visit("/v/all?page=4").Want(404)
}

// pictureOf is a PNG picture of a size.
func pictureOf(t *testing.T, width, height int) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
