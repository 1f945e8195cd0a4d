package apitest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// blobNames lists the contents on the disk, by their names.
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

// staged lists the temporary files of uploads: those with a name and those
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

// nothingLeft checks that no upload left anything: no record, no content and
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

// sweep removes the content that no record refers to.
func (a *App) Sweep() {
	a.Helper()
	for _, path := range a.BlobNames() {
		a.NoErr(os.Remove(filepath.Join(a.Server.Store.Dir(), "blobs", path)))
	}
}
