package httpapi_test

import (
	"image/color"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"kist/httpapi/apitest"
)

// TestBrowserReplace: the owner puts another picture in the place of one, sees it in the list, and goes back.
func TestBrowserReplace(t *testing.T) {
	is := is.New(t)
	b := openBrowser(t)
	dir := t.TempDir()
	red, blue := apitest.JpegOf(60, 40, color.RGBA{200, 30, 30, 255}), apitest.JpegOf(40, 60, color.RGBA{30, 30, 200, 255})
	path := filepath.Join(dir, "blue.jpg")
	is.NoErr(os.WriteFile(path, []byte(blue), 0o600))
	slug := b.Upload(map[string]string{"isPublic": "true"}, apitest.File("red.jpg", "image/jpeg", red)).Want(201).Text("slug")
	wide := `(() => {
		const img = document.querySelector('#main .item img');
		return img?.complete && img.naturalWidth > 0 && img.naturalWidth > img.naturalHeight;
	})()`

	b.open("/files")
	b.until(wide)
	b.open("/files/" + slug + "?edit=1")
	b.press("Replace the file")
	b.shows("The present file is kept for 30 days")
	b.do(chromedp.SetUploadFiles("dialog input[type=file]", []string{path}, chromedp.NodeReady))
	b.says("File replaced")
	b.until(`document.querySelector('dialog.panel [name=originalName]').value === 'blue.jpg'`) // the editor goes on
	is.Equal(string(b.Visit("/x/"+slug).Want(200).Body), blue)
	b.until(`(() => {
		const img = document.querySelector('#main .item img');
		return img?.complete && img.naturalWidth < img.naturalHeight;
	})()`)

	b.press("Replace the file")
	b.shows("Earlier versions")
	b.press("Restore")
	b.says("Version restored")
	b.until(`document.querySelector('dialog.panel [name=originalName]').value === 'red.jpg'`)
	is.Equal(string(b.Visit("/x/"+slug).Want(200).Body), red)
}
