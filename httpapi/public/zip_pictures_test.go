package public_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"image/color"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/kv/people"
)

// zipOf are the entries of a zip, by name.
func zipOf(t *testing.T, out []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(out), int64(len(out)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r) // checks the CRC-32
		if err != nil {
			t.Fatal(f.Name, err)
		}
		if _, twice := all[f.Name]; twice {
			t.Errorf("%s is in it twice", f.Name)
		}
		all[f.Name] = string(text)
	}
	return all
}

// The zip of a collection has the pictures of texts beside the texts, for those who see them there.
func TestZipPictures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	bob := a.AddUser("bob", people.Member)
	bobs := a.AddKey(bob, people.ScopeAll)
	photo := func(key, name, more string) (id string) {
		t.Helper()
		got := a.As(key).Upload(map[string]string{"attach": "true"},
			apitest.File(name, "image/jpeg", apitest.JpegOf(40, 30, color.White)+name)).Want(201)
		if more != "" {
			a.As(key).Patch("/api/v1/files/"+got.Text("slug"), more).Want(200)
		}
		return got.Text("id")
	}
	sea, twice := photo(a.Key, "sea (1).jpg", ""), photo(a.Key, "Sea (1).jpg", "")
	limited, foreign := photo(a.Key, "limited.jpg", `{"maxViews":3}`), photo(bobs, "foreign.jpg", "")
	code := "`![a](kist:" + sea + ") ![a](kist:" + limited + ")`"
	trip := a.Post("/api/v1/notes", map[string]any{
		"title": "Trip", "content": fmt.Sprintf(
			"![sea](kist:%s)\n![two](kist:%s)\n![limited](kist:%s) ![foreign](kist:%s)\n%s", sea, twice, limited, foreign, code,
		),
	}).Want(201).Text("data.id")
	cake := a.Post("/api/v1/recipes", map[string]any{
		"title": "Cake", "photoId": sea, "instructions": "Bake", "ingredients": fmt.Sprintf("- flour ![x](kist:%s)", twice),
	}).Want(201).Text("data.id")
	chess := a.Post("/api/v1/games", map[string]any{"title": "Chess", "coverId": limited}).Want(201).Text("data.id")
	plain := a.Note("no pictures", "")
	id := a.Collect("all", "", trip, cake, chess, plain, sea)
	a.Do(apitest.Request{
		Method: "PUT", Path: "/api/v1/collections/" + id + "/members/" + bob.ID.String(), JSON: `{"role":"see"}`,
	}).Want(200)

	const one, two = "sea%20%281%29.jpg", "Sea%20%281%29%20%282%29.jpg"
	texts := func(limited, code string) map[string]string {
		cover := ""
		if limited == "![limited](limited.jpg)" {
			cover = "![Cover](limited.jpg)\n\n"
		}
		return map[string]string{
			"Trip.md": "![sea](" + one + ")\n![two](" + two + ")\n" + limited + " *picture removed*\n" + code,
			"Cake.md": "# Cake\n\n![Photo](" + one + ")\n\n## Ingredients\n\n- flour ![x](" + two + ")\n\n" +
				"## Instructions\n\nBake\n\n",
			"Chess.md": "# Chess\n\n" + cover, "no pictures.md": "no pictures",
		}
	}
	names := []string{"Cake.md", "Chess.md", "Sea (1) (2).jpg", "Trip.md", "no pictures.md", "sea (1).jpg"}
	got := a.Visit("/x/all.zip").Want(200)
	is.True(!bytes.Contains(got.Body, []byte(limited)) && !bytes.Contains(got.Body, []byte(foreign)))
	all := zipOf(t, got.Body)
	is.Equal(slices.Sorted(maps.Keys(all)), names)
	for name, text := range texts("*picture removed*", "`![a]("+one+") *picture removed*`") {
		is.Equal(all[name], text)
	}

	names = slices.Sorted(slices.Values(append(names, "limited.jpg")))
	for _, key := range []string{a.Key, bobs} { // inside, conditions of the file's own do not count
		all := zipOf(t, a.Do(apitest.Request{Method: "GET", Path: "/x/all.zip", Key: key}).Want(200).Body)
		is.Equal(slices.Sorted(maps.Keys(all)), names)
		for name, text := range texts("![limited](limited.jpg)", "`![a]("+one+") ![a](limited.jpg)`") {
			is.Equal(all[name], text)
		}
		if key == a.Key { // others get pictures without their metadata
			is.True(strings.HasSuffix(all["sea (1).jpg"], "sea (1).jpg"))
			is.True(strings.HasSuffix(all["Sea (1) (2).jpg"], "Sea (1).jpg"))
		}
	}

	// Some items have their pictures, and no others. It goes on where it was.
	some := a.Visit("/x/all.zip?items=" + cake).Want(200)
	is.Equal(slices.Sorted(maps.Keys(zipOf(t, some.Body))), []string{"Cake.md", "Sea (1) (2).jpg", "sea (1).jpg"})
	tag := got.Header.Get("Etag")
	rest := a.Visit("/x/all.zip", "Range", "bytes=700-", "If-Range", tag).Want(206)
	is.Equal(rest.Body, got.Body[700:])
	is.Equal(a.Send("HEAD", "/x/all.zip").Want(200).Header.Get("Content-Length"), fmt.Sprint(len(got.Body)))

	// The file is renamed, then gone.
	a.Patch("/api/v1/files/"+sea, `{"originalName":"lake.jpg"}`).Want(200)
	all = zipOf(t, a.Visit("/x/all.zip").Want(200).Body)
	is.True(strings.HasPrefix(all["Trip.md"], "![sea](lake.jpg)"))
	a.Patch("/api/v1/files/"+sea, `{"password":"sesame open"}`).Want(200)
	got = a.Visit("/x/all.zip").Want(200)
	is.True(!bytes.Contains(got.Body, []byte(sea)))
	is.True(strings.HasPrefix(zipOf(t, got.Body)["Trip.md"], "*picture removed*\n"))
	got = a.Visit("/x/all.zip", "Accept-Language", "de").Want(200)
	is.True(strings.HasPrefix(zipOf(t, got.Body)["Trip.md"], "*Bild entfernt*\n"))
	is.True(a.Sound())
}
