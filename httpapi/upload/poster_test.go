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

// TestPosters: films have the picture that their owner sends as their thumbnail, and nothing else has one.
func TestPosters(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	film := apitest.File("film.webm", "video/webm", "\x1aE\xdf\xa3 film")
	slug := a.Upload(map[string]string{"isPublic": "true"}, film).Want(201).Text("slug")
	at := "/api/v1/files/" + slug + "/poster"
	put := func(path, body string) *apitest.Answer {
		return a.Do(apitest.Request{
			Method: "PUT", Path: path, Raw: true, Body: strings.NewReader(body),
			Header: apitest.WithHeader("Content-Type", "application/octet-stream"),
		})
	}
	a.Get("/t/" + slug).Want(204)
	a.Guest().See("GET", "/t/"+slug).Want(404)
	is.True(!strings.Contains(string(a.Guest().See("GET", "/v/"+slug, "Accept", "text/html").Want(200).Body), "poster="))

	for _, bad := range []string{"", "no picture", "\x89PNG\r\n\x1a\n", apitest.JpegOf(8, 8, color.Black)[:60]} {
		put(at, bad).Want(415)
	}
	put(at, string(bytes.Repeat([]byte{0xff}, 513<<10))).Want(413)
	put("/api/v1/files/nothing/poster", apitest.JpegOf(8, 8, color.Black)).Want(404)
	other := a.Upload(nil, apitest.File("b.txt", "text/plain", "x")).Want(201).Text("slug")
	put("/api/v1/files/"+other+"/poster", apitest.JpegOf(8, 8, color.Black)).Want(422)

	put(at, apitest.JpegOf(960, 540, color.RGBA{200, 30, 30, 255})).Want(200)
	width := func(got *apitest.Answer) int {
		c, _, err := image.DecodeConfig(bytes.NewReader(got.Want(200).Body))
		is.NoErr(err)
		return c.Width
	}
	is.Equal(width(a.Guest().See("GET", "/t/"+slug)), 480)
	is.Equal(width(a.Get("/t/"+slug+"?size=row")), 128)
	is.Equal(width(a.Get("/t/"+slug+"?size=small")), 256)
	page := string(a.Guest().See("GET", "/v/"+slug, "Accept", "text/html").Want(200).Body)
	is.True(strings.Contains(page, `poster="/t/`+slug+`"`))
	is.True(strings.Contains(page, `/t/`+slug+`?size=card">`))
	is.True(strings.Contains(page, `<meta property="og:video" content="`+a.Server.Base+`/x/`+slug+`">`))
	again := a.Upload(nil, film).Want(201).Text("slug")
	a.Get("/t/" + again).Want(204) // the same content in another file
	is.True(a.Sound())
}
