package disk

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"
)

// A scratch folder is private to its owner. It stays while the owner lives and
// is swept afterwards.
func TestScratch(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	names := func() int {
		all, err := os.ReadDir(dir)
		is.NoErr(err)
		return len(all)
	}
	s, err := NewScratch(dir, "x-")
	is.NoErr(err)
	info, err := os.Stat(s.Path)
	is.NoErr(err)
	is.Equal(info.Mode().Perm()&0o077, os.FileMode(0))
	is.NoErr(os.WriteFile(filepath.Join(s.Path, "file"), []byte("x"), 0o600))
	other, err := NewScratch(dir, "x-") // which sweeps
	is.NoErr(err)
	is.NoErr(SweepScratch(dir, "x-"))
	is.Equal(names(), 2)
	is.NoErr(other.Close())
	is.Equal(names(), 1)

	is.NoErr(s.owner.Close()) // as if its process was killed
	is.NoErr(os.Mkdir(filepath.Join(dir, "x-new"), 0o700))
	is.NoErr(os.Mkdir(filepath.Join(dir, "x-old"), 0o700))
	old := time.Now().Add(-2 * youngScratch)
	is.NoErr(os.Chtimes(filepath.Join(dir, "x-old"), old, old))
	is.NoErr(os.Mkdir(filepath.Join(dir, "y-other"), 0o700))
	is.NoErr(os.WriteFile(filepath.Join(dir, "x-file"), nil, 0o600))
	is.NoErr(SweepScratch(dir, "x-"))
	for _, name := range []string{"x-new", "y-other", "x-file"} {
		_, err := os.Lstat(filepath.Join(dir, name))
		is.NoErr(err)
	}
	is.Equal(names(), 3)
}
