package public_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/image/tiff"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/catalog"
	"kist/kv/people"
)

// TestShownFiles is the table of who sees a file through a text: text, file and caller.
func TestShownFiles(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	bobs := a.AddKey(bob, people.ScopeAll)
	eves := a.AddKey(a.AddUser("eve", people.Member), people.ScopeAll)
	photo := func(key, name, more string) string {
		t.Helper()
		got := a.As(key).Upload(map[string]string{"attach": "true"},
			apitest.File(name, "image/jpeg", apitest.JpegOf(40, 30, color.White)+name)).Want(201)
		if more != "" {
			a.As(key).Patch("/api/v1/files/"+got.Text("slug"), more).Want(200)
		}
		return got.Text("id")
	}
	plain, limited := photo(a.Key, "plain.jpg", ""), photo(a.Key, "limited.jpg", `{"maxViews":3}`)
	locked, ended := photo(a.Key, "locked.jpg", `{"password":"sesame open"}`), photo(a.Key, "ends.jpg", `{"expiresAt":"2099-01-01T00:00:00Z"}`)
	foreign, unshown := photo(bobs, "foreign.jpg", ""), photo(a.Key, "unshown.jpg", "")
	text := fmt.Sprintf("![plain](kist:%s) ![limited](kist:%s) ![locked](kist:%s) ![ended](kist:%s) ![foreign](kist:%s)",
		plain, limited, locked, ended, foreign)

	type made struct{ id, slug string }
	texts := map[string]made{}
	for name, more := range map[string]string{
		"private": ``, "public": `,"isPublic":true`, "password": `,"isPublic":true,"password":"correct horse"`,
	} {
		got := a.Post("/api/v1/notes", fmt.Sprintf(`{"content":%q%s}`, text, more)).Want(201)
		texts[name] = made{got.Text("data.id"), got.Text("data.slug")}
	}
	collection := a.Collect("shared", "", texts["private"].id)
	a.Do(apitest.Request{
		Method: "PUT", Path: "/api/v1/collections/" + collection + "/members/" + bob.ID.String(), JSON: `{"role":"see"}`,
	}).Want(200)

	const see, lock, no = http.StatusOK, http.StatusUnauthorized, http.StatusNotFound
	for _, row := range []struct {
		at                     string
		owner, member, visitor int // of the plain file
		conditions             int // of those with their own, for the visitor
	}{
		{texts["private"].slug, see, no, no, no},
		{texts["public"].slug, see, see, see, no},
		{texts["password"].slug, see, lock, lock, lock},
		{"shared/" + texts["private"].id, see, see, see, no},
	} {
		get := func(key, prefix, file string) int {
			q := apitest.Request{Method: "GET", Path: prefix + row.at + "/" + file, Key: key, Raw: true}
			q.Anyone = key == ""
			return a.Do(q).Status
		}
		for _, prefix := range []string{"/x/", "/t/"} {
			t.Run(prefix+row.at, func(t *testing.T) {
				is := is.New(t)
				is.Equal(get(a.Key, prefix, plain), row.owner)
				is.Equal(get(bobs, prefix, plain), row.member)
				is.Equal(get(eves, prefix, plain), row.visitor)
				is.Equal(get("", prefix, plain), row.visitor)
				for _, file := range []string{limited, locked, ended} {
					is.Equal(get(a.Key, prefix, file), see)
					is.Equal(get("", prefix, file), row.conditions)
				}
				for _, file := range []string{foreign, unshown, texts["public"].id, "x"} {
					is.Equal(get(a.Key, prefix, file), no)
					is.True(get("", prefix, file) != see)
				}
			})
		}
	}

	t.Run("pages", func(t *testing.T) {
		is := is.New(t)
		page := string(a.Visit("/v/" + texts["public"].slug).Want(200).Body)
		small := "/t/" + texts["public"].slug + "/" + plain + "?size=screen"
		is.True(strings.Contains(page, `<img src="`+small+`" alt="plain" loading="lazy">`))
		is.Equal(strings.Count(page, "picture removed"), 4)
		is.True(!strings.Contains(page, limited) && !strings.Contains(page, foreign))

		page = string(a.Visit("/v/shared/" + texts["private"].id).Want(200).Body)
		is.True(strings.Contains(page, "/t/shared/"+texts["private"].id+"/"+plain+"?size=screen"))
		a.Visit("/x/" + plain).Want(404) // nothing makes the file itself public
		a.Visit("/v/shared/" + plain).Want(404)
	})

	t.Run("gone", func(t *testing.T) {
		is := is.New(t)
		a.Patch("/api/v1/notes/"+texts["public"].id, `{"content":"no more"}`).Want(200)
		a.Visit("/x/" + texts["public"].slug + "/" + plain).Want(404)
		is.True(a.Sound())
	})
}

// A view of a text with a limit covers what it shows, and opening that is no other view.
func TestShownFileWithinTheView(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	photo := a.Upload(map[string]string{"attach": "true"}, apitest.File("a.jpg", "image/jpeg", apitest.JpegOf(40, 30, color.White))).Want(201).Text("id")
	note := a.Post("/api/v1/notes", fmt.Sprintf(`{"content":"![a](kist:%s)","isPublic":true,"maxViews":2}`, photo)).Want(201)
	slug := note.Text("data.slug")
	a.Visit("/t/" + slug + "/" + photo).Want(404) // is no view, and there was none
	g := a.Guest()
	page := string(g.See("GET", "/v/"+slug).Want(200).Body)
	is.True(strings.Contains(page, "/t/"+slug+"/"+photo))
	g.See("GET", "/t/"+slug+"/"+photo).Want(200)
	g.See("GET", "/x/"+slug+"/"+photo).Want(200)
	is.Equal(a.Get("/api/v1/notes/"+slug).Want(200).At("data.views"), 1.0)
}

// The only reader of a text sees its pictures, and nobody else does. Text and pictures are gone an hour later.
func TestShownFileOfABurningText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	photo := a.Upload(map[string]string{"attach": "true"}, apitest.File("a.jpg", "image/jpeg", apitest.JpegOf(40, 30, color.White))).Want(201).Text("id")
	note := a.Post("/api/v1/notes", fmt.Sprintf(
		`{"content":"![a](kist:%s)","isPublic":true,"maxViews":1,"maxViewsAction":"delete"}`, photo)).Want(201)
	slug, id := note.Text("data.slug"), note.Text("data.id")
	g := a.Guest()
	g.See("GET", "/v/"+slug).Want(200)
	g.See("GET", "/t/"+slug+"/"+photo).Want(200)
	g.See("GET", "/x/"+slug+"/"+photo).Want(200)
	a.Visit("/v/" + slug).Want(410)
	is.True(a.Visit("/x/"+slug+"/"+photo).Status != 200)
	a.Get("/api/v1/notes/" + id).Want(200)

	a.Clock.Advance(time.Hour + time.Minute)
	a.NoErr(a.Server.Store.Update(catalog.DropSpent))
	a.Get("/api/v1/notes/" + id).Want(404)
	a.Get("/api/v1/files/" + photo).Want(404)
	is.Equal(a.Get("/api/v1/trash").Want(200).At("total"), 0.0)
	is.True(a.Sound())
}

// A recipe's own photo stands for it; a member cannot make others see the owner's files.
func TestOwnPicture(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	photo := a.Upload(nil, apitest.File("a.jpg", "image/jpeg", apitest.JpegOf(40, 30, color.White))).Want(201).Text("id")
	recipe := a.Post("/api/v1/recipes", fmt.Sprintf(`{"title":"Soup","photoId":%q,"isPublic":true}`, photo)).Want(201)
	paper := a.Upload(nil, apitest.File("a.pdf", "", "%PDF-1.4 x")).Want(201).Text("id")
	for id, want := range map[string]string{
		"01890a5d-ac96-774b-bcce-b302099a8057": "names a file that you do not have", paper: "names a file that is not a picture",
	} {
		a.Post("/api/v1/games", fmt.Sprintf(`{"title":"Go","coverId":%q}`, id)).Want(422)
		got := a.Post("/api/v1/recipes", fmt.Sprintf(`{"title":"Soup","photoId":%q}`, id)).Want(422)
		is.Equal(got.At("fields.photoId"), want)
	}
	slug, id := recipe.Text("data.slug"), recipe.Text("data.id")
	a.Visit("/t/" + slug).Want(200)
	is.True(strings.Contains(string(a.Visit("/v/"+slug).Want(200).Body), `<img src="/t/`+slug+`?size=picture"`))

	bob := a.AddUser("bob", people.Member)
	collection := a.Collect("shared", "", id)
	is.Equal(a.Get("/api/v1/collections/"+collection).Want(200).At("data.pictures.0"), id)
	a.Do(apitest.Request{
		Method: "PUT", Path: "/api/v1/collections/" + collection + "/members/" + bob.ID.String(), JSON: `{"role":"edit"}`,
	}).Want(200)
	as := a.As(a.AddKey(bob, people.ScopeAll))
	secret := a.Upload(nil, apitest.File("b.jpg", "image/jpeg", apitest.JpegOf(41, 30, color.White))).Want(201).Text("id")
	as.Patch("/api/v1/recipes/"+id, fmt.Sprintf(`{"instructions":"![a](kist:%s)"}`, secret)).Want(403)
	as.Patch("/api/v1/recipes/"+id, fmt.Sprintf(`{"photoId":%q}`, secret)).Want(403)
	as.Patch("/api/v1/recipes/"+id, `{"instructions":"Stir"}`).Want(200)
}

// TestOwnPictures is the table of the files that are the picture of a recipe or a game: what visitors and the owner get
// at its address, and whether its page, the tile in a collection and that of the collection have it.
func TestOwnPictures(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	var scan bytes.Buffer
	is.New(t).NoErr(tiff.Encode(&scan, image.NewGray(image.Rect(0, 0, 600, 300)), nil))
	avif, _ := apitest.Photo(t, "all.avif")
	heic, _ := apitest.Photo(t, "all.heic")
	for _, row := range []struct {
		name, content, more string
		visitor, owner      string // the type of what they get; "" for no picture
	}{
		{"a.jpg", apitest.JpegOf(40, 30, color.White), ``, "image/jpeg", "image/jpeg"},
		{"a.tif", scan.String(), ``, "image/jpeg", "image/jpeg"},
		{"a.avif", avif, ``, "image/avif", "image/avif"},
		{"a.svg", `<svg xmlns="http://www.w3.org/2000/svg"/>`, ``, "image/svg+xml", "image/svg+xml"},
		{"a.heic", heic, ``, "", ""},
		{"b.jpg", apitest.JpegOf(41, 30, color.White), `{"password":"sesame open"}`, "", "image/jpeg"},
		{"c.jpg", apitest.JpegOf(42, 30, color.White), `{"maxViews":3}`, "", "image/jpeg"},
	} {
		file := a.Upload(nil, apitest.File(row.name, "", row.content)).Want(201)
		if row.more != "" {
			a.Patch("/api/v1/files/"+file.Text("slug"), row.more).Want(200)
		}
		for kind, field := range map[string]string{"recipes": "photoId", "games": "coverId"} {
			t.Run(row.name+" "+kind, func(t *testing.T) {
				is := is.New(t)
				made := a.Post("/api/v1/"+kind, fmt.Sprintf(`{"title":"Soup","isPublic":true,%q:%q}`, field, file.Text("id"))).Want(201)
				id, slug := made.Text("data.id"), made.Text("data.slug")
				holder := strings.ReplaceAll(row.name, ".", "-") + kind
				collection := a.Collect(holder, ``, id)
				gets := func(get func(string) *apitest.Answer, want string) {
					t.Helper()
					for _, at := range []string{"/t/" + slug, "/t/" + holder + "/" + id} {
						if want == "" {
							get(at + "?size=picture").Want(404)
							continue
						}
						is.Equal(get(at+"?size=picture").Want(200).Header.Get("Content-Type"), want)
					}
					page, board := string(get("/v/"+slug).Want(200).Body), string(get("/v/"+holder).Want(200).Body)
					is.Equal(strings.Contains(page, `<img src="/t/`+slug+`?size=picture"`), want != "")
					is.Equal(strings.Contains(board, `/t/`+holder+"/"+id+`?size=picture`), want != "")
				}
				gets(func(at string) *apitest.Answer { return a.Visit(at) }, row.visitor)
				gets(func(at string) *apitest.Answer { return a.Get(at) }, row.owner)
				pictures, _ := a.Get("/api/v1/collections/" + collection).Want(200).At("data.pictures").([]any)
				is.Equal(len(pictures) == 1, row.visitor != "")
			})
		}
	}
}

// A recipe with a limit shows its own photo within a view, and nowhere else.
func TestOwnPictureWithinTheView(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	photo := a.Upload(nil, apitest.File("a.jpg", "", apitest.JpegOf(40, 30, color.White))).Want(201).Text("id")
	recipe := a.Post("/api/v1/recipes", fmt.Sprintf(`{"title":"Soup","photoId":%q,"isPublic":true,"maxViews":2}`, photo)).Want(201)
	slug := recipe.Text("data.slug")
	small := "/t/" + slug + "?size=picture"
	a.Visit(small).Want(404)
	card := string(a.Visit("/v/"+slug, "User-Agent", "Twitterbot/1.0").Want(200).Body)
	is.True(!strings.Contains(card, "/t/"))
	a.Visit(small).Want(404)
	is.Equal(a.Get("/api/v1/recipes/"+slug).Want(200).At("data.views"), 0.0)

	g := a.Guest()
	page := string(g.See("GET", "/v/"+slug).Want(200).Body)
	is.True(strings.Contains(page, `<img src="`+small+`"`))
	is.True(!strings.Contains(page, "og:image"))
	g.See("GET", small).Want(200)
	is.Equal(a.Get("/api/v1/recipes/"+slug).Want(200).At("data.views"), 1.0)
}

// TestPictureOfThisServer: an address of the owner's own image becomes its id, and nothing else does.
func TestPictureOfThisServer(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t, func(c *web.Config) { c.Base, c.Content = "https://kist.example.org/k", "https://content.example.org" })
	upload := func(key, slug, name, content string) string {
		return a.As(key).Upload(map[string]string{"slug": slug}, apitest.File(name, "", content)).Want(201).Text("id")
	}
	jpeg := apitest.JpegOf(40, 30, color.White)
	photo := upload(a.Key, "beach", "a.jpg", jpeg)
	other := upload(a.Key, "other", "b.jpg", jpeg+"b")
	upload(a.Key, "paper", "a.pdf", "%PDF-1.4 x")
	upload(a.AddKey(a.AddUser("bob", people.Member), people.ScopeAll), "bobs", "a.jpg", jpeg)
	const base = "https://kist.example.org/k"
	for _, row := range []struct {
		address string
		own     bool
	}{
		{base + "/x/beach", true},
		{base + "/x/beach.jpg", true},
		{base + "/v/beach", true},
		{base + "/t/beach?size=card", true},
		{base + "/beach", true},
		{base + "/files/beach", true},
		{base + "/x/summer/" + photo, true},
		{"https://KIST.example.org:443/k//x/beach", true},
		{"https://content.example.org/x/beach", true},
		{base + "/x/bobs", false},
		{base + "/x/paper", false},
		{base + "/x/nothing", false},
		{base + "/help/beach", false},
		{"https://kist.example.org/x/beach", false},
		{"https://elsewhere.example.org/k/x/beach", false},
	} {
		for kind, field := range map[string][2]string{"recipes": {"imageUrl", "photoId"}, "games": {"coverUrl", "coverId"}} {
			t.Run(kind+" "+row.address, func(t *testing.T) {
				is := is.New(t)
				is1 := func(got *apitest.Answer) {
					t.Helper()
					if row.own {
						is.Equal(got.At("data."+field[1]), photo)
						is.Equal(got.At("data."+field[0]), nil)
					} else {
						is.Equal(got.At("data."+field[0]), row.address)
					}
				}
				is1(a.Post("/api/v1/"+kind, map[string]any{"title": "A", field[0]: row.address}).Want(201))
				made := a.Post("/api/v1/"+kind, map[string]any{"title": "B", field[1]: other}).Want(201).Text("data.id")
				is1(a.Patch("/api/v1/"+kind+"/"+made, map[string]any{field[0]: row.address}).Want(200))
				both := a.Post("/api/v1/"+kind, map[string]any{"title": "C", field[0]: row.address, field[1]: other}).Want(201)
				is.Equal(both.At("data."+field[1]), other)
			})
		}
	}
}

// What a browser cannot show is a link in a text.
func TestUnshownInText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	heic, _ := apitest.Photo(t, "all.heic")
	photo := a.Upload(map[string]string{"attach": "true"}, apitest.File("a.heic", "", heic)).Want(201).Text("id")
	text := fmt.Sprintf("![words](kist:%s)", photo)
	slug := a.Post("/api/v1/notes", map[string]any{"content": text, "isPublic": true}).Want(201).Text("data.slug")
	for _, page := range []string{
		string(a.Visit("/v/" + slug).Want(200).Body), a.Post("/api/v1/markdown", map[string]any{"text": text}).Want(200).Text("data.html"),
	} {
		is.True(!strings.Contains(page, `alt="words"`))
		is.True(strings.Contains(page, `>words</a>`))
	}
}
