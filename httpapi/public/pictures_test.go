package public_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/image/tiff"

	"kist/httpapi/apitest"
)

// TestPictures: the picture of a bookmark's page and the cover of a game are fetched when their owner looks at them, made
// small, and shown to everyone who may see the item. Nobody else has anything fetched.
func TestPictures(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	asked := make(chan string, 10)
	var b bytes.Buffer
	is.NoErr(png.Encode(&b, image.NewGray(image.Rect(0, 0, 1200, 630))))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if r.URL.Path == "/text.png" {
			_, _ = w.Write([]byte("no picture"))
			return
		}
		_, _ = w.Write(b.Bytes())
	}))
	t.Cleanup(site.Close)
	a := apitest.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.Server.Pictures.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })

	a.Post(
		"/api/v1/bookmarks",
		map[string]any{
			"url": site.URL + "/", "imageUrl": site.URL + "/og.png", "slug": "book", "title": "T", "isPublic": true,
		},
	).Want(201)
	a.Post(
		"/api/v1/games", map[string]any{"title": "G", "coverUrl": site.URL + "/cover.png", "slug": "gam", "isPublic": true},
	).Want(201)
	a.Post("/api/v1/games", map[string]any{"title": "H", "coverUrl": site.URL + "/text.png", "slug": "bad"}).Want(201)
	a.Post("/api/v1/games", map[string]any{"title": "I", "slug": "none"}).Want(201)

	a.Post(
		"/api/v1/recipes", map[string]any{"title": "R", "imageUrl": site.URL + "/dish.png", "slug": "rec", "isPublic": true},
	).Want(201)

	for _, at := range []string{"/t/book?size=picture", "/t/gam", "/t/rec"} {
		slug, _, _ := strings.Cut(strings.TrimPrefix(at, "/t/"), "?")
		shown := func() bool {
			return bytes.Contains(a.Visit("/v/"+slug).Want(200).Body, []byte(`<img src="/t/`+slug+`?size=picture"`))
		}
		is.True(!shown())
		a.Send("GET", at).Want(404)
		is.Equal(len(asked), 0) // not by visitors
		a.Patch("/api/v1/admin/settings", `{"linkChecks":false}`).Want(200)
		a.Get(at).Want(404)
		if slug == "book" {
			is.Equal(len(asked), 0) // not while pages are not checked
			a.Patch("/api/v1/admin/settings", `{"linkChecks":true}`).Want(200)
			a.Get(at).Want(404)
		}
		<-asked
		for a.Get(at).Status != 200 {
			select {
			case <-t.Context().Done():
				t.Fatal("it is not stored")
			case <-time.After(5 * time.Millisecond):
			}
		}
		got := a.Send("GET", at).Want(200)
		small, _, err := image.Decode(bytes.NewReader(got.Body))
		is.NoErr(err)
		is.Equal(small.Bounds().Dx(), 480)
		is.True(got.Header.Get("Etag") != "")
		a.IsHostile(at, got.Header)
		is.True(shown()) // visitors see the copy, and no address of another server
		page := a.Visit("/v/" + slug).Want(200).Body
		is.True(bytes.Contains(
			page, []byte(`<meta property="og:image" content="`+a.Server.Base+"/t/"+slug+`?size=picture">`),
		))
		is.True(!bytes.Contains(page, []byte(site.URL+"/og.png")) && !bytes.Contains(page, []byte(site.URL+"/cover.png")) &&
			!bytes.Contains(page, []byte(site.URL+"/dish.png")))
	}
	a.Get("/t/bad").Want(404)
	is.Equal(<-asked, "/text.png")
	a.Get("/t/bad").Want(404)
	a.Get("/t/none").Want(404)
	a.Get("/t/book").Want(404) // the icon
	is.Equal(len(asked), 0)    // once a day
	stored, err := filepath.Glob(filepath.Join(a.Server.Store.Dir(), "cache", "pictures", "*", "*"))
	is.NoErr(err)
	is.Equal(len(stored), 3)
}

// TestPictureOfPage: what a page says about its picture reaches only public addresses and its own host.
func TestPictureOfPage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	asked := make(chan string, 10)
	site := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(site.Close)
	a := apitest.Start(t)
	a.Post(
		"/api/v1/bookmarks",
		map[string]any{"url": "https://example.org/", "imageUrl": site.URL + "/inside.png", "slug": "book", "title": "T"},
	).Want(201)
	ctx, stop := context.WithCancel(t.Context())
	a.Get("/t/book?size=picture").Want(404)
	own := a.Post(
		"/api/v1/bookmarks",
		map[string]any{"url": site.URL + "/page", "imageUrl": site.URL + "/own.png", "slug": "own", "title": "T"},
	).Want(201)
	is.True(own.Text("data.id") != "")
	a.Get("/t/own?size=picture").Want(404)
	done := make(chan struct{})
	go func() { defer close(done); a.Server.Pictures.Run(ctx) }()
	is.Equal(<-asked, "/own.png")
	stop()
	<-done
	is.Equal(len(asked), 0)
}

// TestCardSizes: link previews get a picture that is large enough for them, and its size in advance, which is also the
// shape of a film.
func TestCardSizes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	share := func(name, media, content string) string {
		return a.Upload(map[string]string{"isPublic": "true"}, apitest.File(name, media, content)).Want(201).Text("slug")
	}
	says := func(slug string, meta ...string) {
		t.Helper()
		page := string(a.Visit("/v/" + slug).Want(200).Body)
		for i := 0; i < len(meta); i += 2 {
			is.True(strings.Contains(page, `<meta property="og:`+meta[i]+`" content="`+meta[i+1]+`">`))
		}
	}
	wide := apitest.JpegOf(1600, 800, color.White)
	photo := share("a.jpg", "image/jpeg", wide)
	says(photo, "type", "website", "image:width", "1200", "image:height", "600")
	card := a.Visit("/t/" + photo + "?size=card").Want(200)
	c, err := jpeg.DecodeConfig(bytes.NewReader(card.Body))
	is.NoErr(err)
	is.Equal([2]int{c.Width, c.Height}, [2]int{1200, 600})
	says(share("b.jpg", "image/jpeg", apitest.JpegOf(60, 80, color.White)), "image:width", "60", "image:height", "80")

	// A film without a poster tells its own shape. A scan is shown by its small version, since browsers cannot show it.
	says(share("d.mp4", "video/mp4", filmOf(640, 360)), "type", "video.other", "video:width", "640", "video:height", "360")
	var picture bytes.Buffer
	is.NoErr(tiff.Encode(&picture, image.NewGray(image.Rect(0, 0, 600, 300)), nil))
	scan := share("e.tif", "image/tiff", picture.String())
	says(scan, "image:width", "600", "image:height", "300")
	page := string(a.Visit("/v/" + scan).Want(200).Body)
	is.True(strings.Contains(page, `<img src="/t/`+scan+`?size=screen"`))
	is.True(!strings.Contains(page, `src="/x/`))

	film := share("c.webm", "video/webm", "\x1a\x45\xdf\xa3 a film")
	says(film, "type", "video.other", "video:type", "video/webm")
	is.True(!strings.Contains(string(a.Visit("/v/"+film).Want(200).Body), "og:video:width"))
	a.Do(apitest.Request{
		Method: "PUT", Path: "/api/v1/files/" + film + "/poster", Body: strings.NewReader(wide),
		Header: apitest.WithHeader("Content-Type", "image/jpeg"),
	})
	says(film, "video:width", "1600", "video:height", "800", "image:width", "1600", "image:height", "800")
}

// filmOf is an MP4 film without samples.
func filmOf(width, height uint32) string {
	track := make([]byte, 84)
	binary.BigEndian.PutUint32(track[40:], 1<<16) // the matrix, upright
	binary.BigEndian.PutUint32(track[56:], 1<<16)
	binary.BigEndian.PutUint32(track[76:], width<<16)
	binary.BigEndian.PutUint32(track[80:], height<<16)
	return "\x00\x00\x00\x10ftypisom\x00\x00\x00\x00" +
		"\x00\x00\x00\x6cmoov\x00\x00\x00\x64trak\x00\x00\x00\x5ctkhd" + string(track)
}
