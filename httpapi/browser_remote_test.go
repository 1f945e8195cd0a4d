package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"
)

// TestBrowserRemote has the server fetch files: sees one come in, cancels it,
// tries it again, sees another fail, and clears the finished ones.
func TestBrowserRemote(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	b.Fetching(t)
	var free atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/holiday.mp4" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Length", "2000000")
		_, _ = w.Write(make([]byte, 1_000_000))
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		if !free.Load() {
			<-r.Context().Done()
			return
		}
		_, _ = w.Write(make([]byte, 1_000_000))
	}))
	t.Cleanup(target.Close)
	b.open("/")
	b.fill("Add anything", target.URL+"/none")
	b.press("Download file")
	b.press("Show")
	b.shows("The other server answered 404 Not Found.")
	b.press("Remove none")
	b.shows("No recent downloads")
	b.open("/remote-upload")
	b.shows("No recent downloads")
	is.True(b.Sound())
	b.click("#main form button.main")
	b.says("Enter the URL of a file.")
	b.fill("URLs", target.URL+"/holiday.mp4\nnonsense")
	b.click("#main form button.main")
	b.says("The list has a bad entry: number 2 must be an absolute http or https address.")
	b.fill("URLs", target.URL+"/holiday.mp4\n"+target.URL+"/none")
	b.fill("Folder", "Films")
	b.click("#main form button.main")
	b.shows("1\u00a0MB of 2\u00a0MB")
	b.shows("The other server answered 404 Not Found.")
	is.True(b.Sound())
	is.Equal(b.js(`document.documentElement.scrollWidth <= innerWidth`), true)
	b.press("Cancel holiday.mp4")
	b.shows("cancelled")
	free.Store(true)
	b.press("Retry holiday.mp4")
	b.until(`document.querySelector('#main .item a.name')?.textContent === 'holiday.mp4'`)
	is.Equal(b.Get("/api/v1/files?folder=Films").Want(200).Text("data.0.originalName"), "holiday.mp4")
	b.press("Remove none")
	b.until(`document.querySelectorAll('#main .item').length === 1`)
	b.press("Clear finished")
	b.shows("No recent downloads")
	is.Equal(b.Get("/api/v1/files").At("total"), 1.0)
}
