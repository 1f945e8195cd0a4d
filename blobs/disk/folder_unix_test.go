//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// Files and folders are their owner's alone, whatever the umask gives others, and
// whether the file is new or replaces another.
func TestModes(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077} {
		is := is.New(t)
		parent := t.TempDir()
		oldMask := syscall.Umask(mask)
		f, err := OpenFolder(filepath.Join(parent, "folder"))
		if err == nil {
			err = errors.Join(f.Publish("a", text("one")), f.Publish("b", text("one")), f.Publish("b", text("two")))
		}
		syscall.Umask(oldMask)
		is.NoErr(err)
		for name, mode := range map[string]fs.FileMode{"": fs.ModeDir | 0o700, "a": 0o600, "b": 0o600} {
			info, err := os.Stat(filepath.Join(parent, "folder", name))
			is.NoErr(err)
			is.Equal(info.Mode(), mode)
		}
		is.NoErr(f.Close())
	}
	// An existing folder keeps the mode that its owner chose.
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "folder")
	is.NoErr(os.Mkdir(dir, 0o750))
	is.NoErr(os.Chmod(dir, 0o750))
	f, err := OpenFolder(dir)
	is.NoErr(err)
	defer f.Close()
	info, err := os.Stat(dir)
	is.NoErr(err)
	is.Equal(info.Mode().Perm(), fs.FileMode(0o750))
}

// A symbolic link never leads out: it is not read and not written through.
// Publish and Remove act on the link itself.
func TestLinks(t *testing.T) {
	is := is.New(t)
	f, dir := openFolder(t)
	outside := filepath.Join(t.TempDir(), "outside")
	is.NoErr(os.WriteFile(outside, []byte("outside"), 0o600))
	for _, name := range []string{"a", "b", "c"} {
		is.NoErr(os.Symlink(outside, filepath.Join(dir, name)))
	}
	is.NoErr(os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	_, err := f.Open("a")
	is.True(err != nil)
	_, err = f.Read("a")
	is.True(err != nil)
	for _, name := range []string{"../outside", outside, "x/../../outside"} {
		_, err = f.Read(name)
		is.True(err != nil)
		is.True(f.Publish(name, text("x")) != nil)
		is.True(f.Remove(name) != nil)
	}
	for _, name := range []string{"b", "dangling"} {
		is.NoErr(f.Publish(name, text("inside")))
		info, err := os.Lstat(filepath.Join(dir, name))
		is.NoErr(err)
		is.True(info.Mode().IsRegular())
		is.Equal(read(t, filepath.Join(dir, name)), "inside")
	}
	is.NoErr(f.Remove("c"))
	is.Equal(read(t, outside), "outside")
	is.Equal(names(t, f), []string{"a", "b", "dangling"})
}
