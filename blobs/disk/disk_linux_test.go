package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"
)

// A name is missing when nothing has it: a folder and a link to nowhere do.
func TestMissing(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	is.NoErr(os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	is.NoErr(os.Symlink("nowhere", filepath.Join(dir, "link")))
	folder, err := os.Open(dir)
	is.NoErr(err)
	for name, missing := range map[string]bool{"file": false, "folder": false, "link": false, "nowhere": true} {
		is.Equal(Missing(folder, name), missing)
	}
	is.NoErr(folder.Close())
	is.True(!Missing(folder, "nowhere")) // what cannot be looked at is not missing
}
