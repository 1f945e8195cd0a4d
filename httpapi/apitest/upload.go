package apitest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"

	"kist/httpapi/web"
)

// BlobNames lists the contents on the disk, by their names.
func (a *App) BlobNames() []string {
	a.Helper()
	var names []string
	a.NoErr(fs.WalkDir(os.DirFS(filepath.Join(a.Server.Store.Dir(), "blobs")), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	}))
	return names
}

// Staged lists the temporary files of uploads: those with a name and those
// that are only open (where the system tells which files are open).
func (a *App) Staged() []string {
	a.Helper()
	var found []string
	blobs := filepath.Join(a.Server.Store.Dir(), "blobs")
	named, err := os.ReadDir(filepath.Join(blobs, "tmp"))
	if !errors.Is(err, fs.ErrNotExist) {
		a.NoErr(err)
	}
	for _, f := range named {
		found = append(found, f.Name())
	}
	open, _ := os.ReadDir("/proc/self/fd") // not every system has it
	for _, f := range open {
		to, err := os.Readlink("/proc/self/fd/" + f.Name())
		if err == nil && strings.HasPrefix(to, blobs+"/") {
			found = append(found, to)
		}
	}
	return found
}

// NothingLeft checks that no upload left anything: no record, no content and
// no temporary file.
func (a *App) NothingLeft() {
	a.Helper()
	if total := a.Get("/api/v1/files").Want(200).At("total"); total != 0.0 {
		a.Errorf("%v records are left", total)
	}
	if names := a.BlobNames(); len(names) > 0 {
		a.Errorf("content is left: %q", names)
	}
	if names := a.Staged(); len(names) > 0 {
		a.Errorf("temporary files are left: %q", names)
	}
}

const FilePart = "--b\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\n\nhello\n"

// Sweep removes the content that no record refers to.
func (a *App) Sweep() {
	a.Helper()
	for _, path := range a.BlobNames() {
		a.NoErr(os.Remove(filepath.Join(a.Server.Store.Dir(), "blobs", path)))
	}
}

func IsDisposition(t *testing.T, how, name string) {
	t.Helper()
	is := is.New(t)
	header := web.Disposition(how, name)
	for i := range len(header) {
		is.True(header[i] >= ' ' && header[i] < 0x7f) // one line of ASCII
	}
	got, params, err := mime.ParseMediaType(header)
	is.NoErr(err)
	is.Equal(got, how)
	is.True(len(params) == 1)
	if utf8.ValidString(name) {
		is.Equal(params["filename"], name)
	}
	// A reader that knows only the plain form gets no path and no escape.
	plain, _, _ := strings.Cut(header, "; filename*=")
	_, params, err = mime.ParseMediaType(plain)
	is.NoErr(err)
	is.True(!strings.ContainsAny(params["filename"], `"\%`))
	is.Equal(utf8.RuneCountInString(params["filename"]), utf8.RuneCountInString(name))
}

// ShareSheet sends the request of a phone's share sheet.
func (a *App) ShareSheet(fields map[string]string, files ...Part) Request {
	q := a.UploadRequest(fields, files...)
	q.Path = "/share"
	return q
}

// file is a part of an upload.
type Part struct{ Name, Media, Content string }

// Upload sends files and then fields, as clients do.
func (a *App) Upload(fields map[string]string, files ...Part) *Answer {
	a.Helper()
	return a.Do(a.UploadRequest(fields, files...))
}

func (a *App) UploadRequest(fields map[string]string, files ...Part) Request {
	a.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range files {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", `form-data; name="file"; filename="`+strings.ReplaceAll(f.Name, `"`, "%22")+`"`)
		if f.Media != "" {
			h.Set("Content-Type", f.Media)
		}
		p, err := w.CreatePart(h)
		a.NoErr(err)
		_, err = io.WriteString(p, f.Content)
		a.NoErr(err)
	}
	for name, value := range fields {
		a.NoErr(w.WriteField(name, value))
	}
	a.NoErr(w.Close())
	return Request{
		Method: "POST", Path: "/api/v1/upload", Body: &b, Header: http.Header{"Content-Type": {w.FormDataContentType()}},
	}
}

// File is a part of an upload with the name, the media type, which may be empty, and the content of a file.
func File(name, media, content string) Part { return Part{name, media, content} }
