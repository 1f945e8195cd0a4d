package httpapi

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
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
	a := start(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.server.Pictures.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })

	a.post("/api/v1/bookmarks", map[string]any{"url": site.URL + "/", "imageUrl": site.URL + "/og.png", "slug": "book", "title": "T", "isPublic": true}).want(201)
	a.post("/api/v1/games", map[string]any{"title": "G", "coverUrl": site.URL + "/cover.png", "slug": "gam", "isPublic": true}).want(201)
	a.post("/api/v1/games", map[string]any{"title": "H", "coverUrl": site.URL + "/text.png", "slug": "bad"}).want(201)
	a.post("/api/v1/games", map[string]any{"title": "I", "slug": "none"}).want(201)

	a.post("/api/v1/recipes", map[string]any{"title": "R", "imageUrl": site.URL + "/dish.png", "slug": "rec", "isPublic": true}).want(201)

	for _, at := range []string{"/t/book?size=picture", "/t/gam", "/t/rec"} {
		slug, _, _ := strings.Cut(strings.TrimPrefix(at, "/t/"), "?")
		shown := func() bool {
			return bytes.Contains(a.visit("/v/"+slug).want(200).body, []byte(`<img src="/t/`+slug+`?size=picture"`))
		}
		is.True(!shown())
		a.send("GET", at).want(404)
		is.Equal(len(asked), 0) // not by visitors
		a.patch("/api/v1/admin/settings", `{"linkChecks":false}`).want(200)
		a.get(at).want(404)
		if slug == "book" {
			is.Equal(len(asked), 0) // not while pages are not checked
			a.patch("/api/v1/admin/settings", `{"linkChecks":true}`).want(200)
			a.get(at).want(404)
		}
		<-asked
		for a.get(at).status != 200 {
			select {
			case <-t.Context().Done():
				t.Fatal("it is not stored")
			case <-time.After(5 * time.Millisecond):
			}
		}
		got := a.send("GET", at).want(200)
		small, _, err := image.Decode(bytes.NewReader(got.body))
		is.NoErr(err)
		is.Equal(small.Bounds().Dx(), 480)
		is.True(got.header.Get("Etag") != "")
		a.isHostile(at, got.header)
		is.True(shown()) // visitors see the copy, and no address of another server
		page := a.visit("/v/" + slug).want(200).body
		is.True(bytes.Contains(page, []byte(`<meta property="og:image" content="`+a.server.Base+"/t/"+slug+`?size=picture">`)))
		is.True(!bytes.Contains(page, []byte(site.URL+"/og.png")) && !bytes.Contains(page, []byte(site.URL+"/cover.png")) && !bytes.Contains(page, []byte(site.URL+"/dish.png")))
	}
	a.get("/t/bad").want(404)
	is.Equal(<-asked, "/text.png")
	a.get("/t/bad").want(404)
	a.get("/t/none").want(404)
	a.get("/t/book").want(404) // the icon
	is.Equal(len(asked), 0)    // once a day
	stored, err := filepath.Glob(filepath.Join(a.server.Store.Dir(), "cache", "pictures", "*", "*"))
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
	a := start(t)
	a.post("/api/v1/bookmarks", map[string]any{"url": "https://example.org/", "imageUrl": site.URL + "/inside.png", "slug": "book", "title": "T"}).want(201)
	ctx, stop := context.WithCancel(t.Context())
	a.get("/t/book?size=picture").want(404)
	own := a.post("/api/v1/bookmarks", map[string]any{"url": site.URL + "/page", "imageUrl": site.URL + "/own.png", "slug": "own", "title": "T"}).want(201)
	is.True(own.text("data.id") != "")
	a.get("/t/own?size=picture").want(404)
	done := make(chan struct{})
	go func() { defer close(done); a.server.Pictures.Run(ctx) }()
	is.Equal(<-asked, "/own.png")
	stop()
	<-done
	is.Equal(len(asked), 0)
}
