package apitest

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Looking has the server look at pages until the test ends, or stop is called.
func (a *App) Looking() (stop func()) {
	ctx, end := context.WithCancel(a.Context())
	var run sync.WaitGroup
	run.Go(func() { a.Server.Links.Run(ctx) })
	run.Go(func() { a.Server.Pictures.Run(ctx) })
	stop = func() { end(); run.Wait() }
	a.Cleanup(stop)
	return stop
}

// Until asks for a record until it is as it should be.
func (a *App) Until(path string, good func(*Answer) bool) *Answer {
	a.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		got := a.Do(Request{Method: "GET", Path: path}).Want(200)
		if good(got) {
			return got
		}
		if time.Now().After(end) {
			a.Fatalf("%s stays as %s", path, got.Body)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// IconSite is a site with an icon, which counts how often it is asked for it.
func IconSite(t testing.TB) (address string, asked *atomic.Int32) {
	t.Helper()
	var icon bytes.Buffer
	m := image.NewNRGBA(image.Rect(0, 0, 96, 96))
	draw.Draw(m, m.Rect, image.NewUniform(color.NRGBA{0xd0, 0x20, 0x30, 0xff}), image.Point{}, draw.Src)
	if err := png.Encode(&icon, m); err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int32)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/icon.png" {
			if r.URL.RawQuery == "" { // not for the picture of the page
				asked.Add(1)
			}
			_, _ = w.Write(icon.Bytes())
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(
			w, "<title>Page</title><link rel=icon href=/icon.png><meta property=og:image content=/icon.png?og>",
		)
	}))
	t.Cleanup(site.Close)
	return site.URL, asked
}
