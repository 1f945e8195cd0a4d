//go:build !unix

package disk

import (
	"os"
	"path/filepath"
)

// Rename moves a file from one folder to another and replaces a file of that
// name.
func Rename(from *os.File, name string, to *os.File, as string) error {
	return os.Rename(filepath.Join(from.Name(), name), filepath.Join(to.Name(), as))
}

// CanMove reports whether files can be moved from one folder to the other.
func CanMove(a, b *os.File) bool {
	x, err := filepath.EvalSymlinks(a.Name())
	y, err2 := filepath.EvalSymlinks(b.Name())
	return err == nil && err2 == nil && filepath.VolumeName(x) == filepath.VolumeName(y)
}
