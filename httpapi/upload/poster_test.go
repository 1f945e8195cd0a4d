package upload_test

import (
	"bytes"
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// putPoster sends a poster of a file.
func putPoster(a *apitest.App, slug, body string) *apitest.Answer {
	return putPosterOf(a, slug, "", body)
}

// putPosterOf sends a poster of the bytes of a file with a digest.
func putPosterOf(a *apitest.App, slug, digest, body string) *apitest.Answer {
	return a.Do(apitest.Request{
		Method: "PUT", Path: "/api/v1/files/" + slug + "/poster?sha256=" + digest, Raw: true, Body: strings.NewReader(body),
		Header: apitest.WithHeader("Content-Type", "application/octet-stream"),
	})
}

// widthOf is the width of a picture that was got.
func widthOf(is *is.I, got *apitest.Answer) int {
	c, _, err := image.DecodeConfig(bytes.NewReader(got.Want(200).Body))
	is.NoErr(err)
	return c.Width
}

// TestPicturePosters: a picture that the server cannot decode has the small version that its owner sends, on its page,
// in lists and on boards, until its bytes change.
func TestPicturePosters(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	heic := func(more string) apitest.Part {
		return apitest.File("garden.heic", "image/heic", "\x00\x00\x00\x18ftypheic\x00\x00\x00\x00heicmif1"+more)
	}
	made := a.Upload(map[string]string{"isPublic": "true"}, heic("1")).Want(201)
	slug, id := made.Text("slug"), made.Text("id")
	page := func() string { return string(a.Guest().See("GET", "/v/"+slug, "Accept", "text/html").Want(200).Body) }
	a.Get("/t/" + slug + "?size=screen").Want(204)
	is.True(!strings.Contains(page(), "/t/"+slug)) // nothing can be shown

	putPoster(a, slug, apitest.JpegOf(1600, 1200, color.RGBA{200, 30, 30, 255})).Want(200)
	for size, want := range map[string]int{"": 480, "small": 256, "row": 128, "screen": 1600, "card": 1600} {
		is.Equal(widthOf(is, a.Guest().See("GET", "/t/"+slug+"?size="+size)), want) // size
	}
	is.True(strings.Contains(page(), "/t/"+slug+"?size=screen")) // the page shows it
	board := a.Post("/api/v1/collections", map[string]any{
		"title": "Garden", "isPublic": true, "source": map[string]any{"items": []string{id}},
	}).Want(201)
	seen := string(a.Guest().See("GET", "/v/"+board.Text("data.slug"), "Accept", "text/html").Want(200).Body)
	is.True(strings.Contains(seen, `<img src="/t/`+board.Text("data.slug")+"/"+id+`"`)) // as a picture

	other := "\x00\x00\x00\x18ftypheic\x00\x00\x00\x00heicmif12"
	replace(a, "/api/v1/files/"+slug+"/content", other, "Content-Type", "image/heic").Want(200)
	a.Get("/t/" + slug + "?size=screen").Want(204) // other bytes

	// A page that still shows the bytes of before sends their poster.
	red := apitest.JpegOf(8, 8, color.RGBA{200, 30, 30, 255})
	is.Equal(a.CodeOf(putPosterOf(a, slug, made.Text("sha256"), red), 409), "changed_elsewhere")
	a.Get("/t/" + slug + "?size=screen").Want(204)
	putPosterOf(a, slug, a.Get("/api/v1/files/"+slug).Text("data.sha256"), red).Want(200)
	a.Get("/t/" + slug + "?size=screen").Want(200)
	is.True(a.Sound())
}

// TestPosters: films have the picture that their owner sends as their thumbnail, and texts have none.
func TestPosters(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	film := apitest.File("film.webm", "video/webm", "\x1aE\xdf\xa3 film")
	slug := a.Upload(map[string]string{"isPublic": "true"}, film).Want(201).Text("slug")
	a.Get("/t/" + slug).Want(204)
	a.Guest().See("GET", "/t/"+slug).Want(404)
	is.True(!strings.Contains(string(a.Guest().See("GET", "/v/"+slug, "Accept", "text/html").Want(200).Body), "poster="))

	for _, bad := range []string{"", "no picture", "\x89PNG\r\n\x1a\n", apitest.JpegOf(8, 8, color.Black)[:60]} {
		putPoster(a, slug, bad).Want(415)
	}
	putPoster(a, slug, string(bytes.Repeat([]byte{0xff}, 513<<10))).Want(413)
	putPoster(a, "nothing", apitest.JpegOf(8, 8, color.Black)).Want(404)
	other := a.Upload(nil, apitest.File("b.txt", "text/plain", "x")).Want(201).Text("slug")
	putPoster(a, other, apitest.JpegOf(8, 8, color.Black)).Want(422)

	putPoster(a, slug, apitest.JpegOf(960, 540, color.RGBA{200, 30, 30, 255})).Want(200)
	is.Equal(widthOf(is, a.Guest().See("GET", "/t/"+slug)), 480)
	is.Equal(widthOf(is, a.Get("/t/"+slug+"?size=row")), 128)
	is.Equal(widthOf(is, a.Get("/t/"+slug+"?size=small")), 256)
	page := string(a.Guest().See("GET", "/v/"+slug, "Accept", "text/html").Want(200).Body)
	is.True(strings.Contains(page, `poster="/t/`+slug+`"`))
	is.True(strings.Contains(page, `/t/`+slug+`?size=card">`))
	is.True(strings.Contains(page, `<meta property="og:video" content="`+a.Server.Base+`/x/`+slug+`">`))
	again := a.Upload(nil, film).Want(201).Text("slug")
	a.Get("/t/" + again).Want(204) // the same content in another file
	is.True(a.Sound())
}
