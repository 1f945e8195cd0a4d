package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"
)

// A name is missing when nothing has it. A folder has a name, and so does a
// dangling link.
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
	is.True(!Missing(folder, "nowhere")) // a folder that cannot be examined has no missing names
}
