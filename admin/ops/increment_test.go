package ops

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/blobs"
)

// An error of a link that concerns neither the file system nor the one file is an error of the backup.
func TestLinkFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	from, err := blobs.Open(filepath.Join(dir, "from"))
	is.NoErr(err)
	to, err := blobs.Open(filepath.Join(dir, "to"))
	is.NoErr(err)
	stage, err := from.Stage()
	is.NoErr(err)
	_, err = stage.ReadFrom(strings.NewReader("a"))
	is.NoErr(err)
	kept, err := stage.Keep()
	is.NoErr(err)
	kept.Release()

	f := &former{blobs: from}
	linked, err := f.link(Job{}, to, kept.Ref, 2)
	is.True(err == nil && !linked && !f.failed) // it is not whole: it is copied
	linked, err = f.link(Job{}, to, kept.Ref, 1)
	is.True(err == nil && linked)
	is.NoErr(to.Close())
	for range 2 {
		linked, err = f.link(Job{}, to, kept.Ref, 1)
		is.True(err != nil && !linked && !f.failed)
	}
	is.NoErr(from.Close())
}
