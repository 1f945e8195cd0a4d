package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"
)

func openFolder(t *testing.T) (*Folder, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "folder")
	f, err := OpenFolder(dir)
	is.New(t).NoErr(err)
	t.Cleanup(func() { _ = f.Close() })
	return f, dir
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func names(t *testing.T, f *Folder) []string {
	t.Helper()
	names, err := f.Names()
	is.New(t).NoErr(err)
	slices.Sort(names)
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	is.New(t).NoErr(err)
	return string(b)
}

func TestPublish(t *testing.T) {
	is := is.New(t)
	f, dir := openFolder(t)
	is.NoErr(f.Publish("a", text("one")))
	is.Equal(read(t, filepath.Join(dir, "a")), "one")
	old, err := f.Read("a")
	is.NoErr(err)
	defer old.Close()

	is.NoErr(f.Publish("a", text("two")))
	is.Equal(read(t, filepath.Join(dir, "a")), "two")
	b, err := io.ReadAll(old) // a reader that has the old file open still reads it
	is.NoErr(err)
	is.Equal(string(b), "one")
	is.Equal(names(t, f), []string{"a"})

	large := strings.Repeat("0123456789abcdef", (2*WriteBack+5)/16)
	is.NoErr(f.Publish("large", text(large)))
	is.True(read(t, filepath.Join(dir, "large")) == large)

	is.NoErr(f.Remove("a"))
	is.True(errors.Is(f.Remove("a"), fs.ErrNotExist))
	is.Equal(names(t, f), []string{"large"})
	_, err = f.Open("a")
	is.True(errors.Is(err, fs.ErrNotExist))
}

// A failed Publish leaves nothing behind, and the previous file stays.
func TestPublishFails(t *testing.T) {
	is := is.New(t)
	f, dir := openFolder(t)
	failed := errors.New("planned")
	fill := func(w io.Writer) error {
		_, err := io.WriteString(w, "a part")
		return errors.Join(err, failed)
	}
	is.True(errors.Is(f.Publish("a", fill), failed))
	is.Equal(len(names(t, f)), 0)

	is.NoErr(f.Publish("a", text("one")))
	is.True(errors.Is(f.Publish("a", fill), failed))
	is.Equal(names(t, f), []string{"a"})
	is.Equal(read(t, filepath.Join(dir, "a")), "one")

	is.NoErr(os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	is.True(f.Publish("folder", text("one")) != nil)
	is.Equal(names(t, f), []string{"a", "folder"})
}

// Nobody sees an incomplete file or a missing name while a file is replaced
// again and again.
func TestPublishIsAtomic(t *testing.T) {
	f, dir := openFolder(t)
	is := is.New(t)
	version := func(n int) string { return strings.Repeat(fmt.Sprintf("%04d", n), 20_000) }
	is.NoErr(f.Publish("a", text(version(0))))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				b, err := os.ReadFile(filepath.Join(dir, "a"))
				if err != nil || len(b) != 80_000 || string(b) != strings.Repeat(string(b[:4]), 20_000) {
					t.Errorf("%d bytes, %v", len(b), err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	for n := range 30 {
		err := f.Publish("a", func(w io.Writer) error {
			for part := range slices.Chunk([]byte(version(n)), 7000) {
				if _, err := w.Write(part); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
	is.Equal(names(t, f), []string{"a"})
}

// OpenFolder removes unfinished files and nothing else. ReadFolder removes
// nothing.
func TestOpenFolderRemovesLeftovers(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	for _, name := range []string{unfinished + "ABC", unfinished, "a", "new-b", ".newer"} {
		is.NoErr(os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	outside := filepath.Join(t.TempDir(), "outside")
	is.NoErr(os.WriteFile(outside, []byte("outside"), 0o600))
	if runtime.GOOS != "windows" {
		is.NoErr(os.Symlink(outside, filepath.Join(dir, unfinished+"link")))
	}
	r, err := ReadFolder(dir)
	is.NoErr(err)
	is.True(len(names(t, r)) >= 5)
	is.NoErr(r.Close())

	f, err := OpenFolder(dir)
	is.NoErr(err)
	is.Equal(names(t, f), []string{".newer", "a", "new-b"})
	is.NoErr(f.Close())
	is.Equal(read(t, outside), "outside")

	_, err = ReadFolder(filepath.Join(dir, "missing"))
	is.True(errors.Is(err, fs.ErrNotExist))
	_, err = OpenFolder(filepath.Join(dir, "missing", "too"))
	is.True(errors.Is(err, fs.ErrNotExist)) // the parent is not made
	_, err = OpenFolder(filepath.Join(dir, "a"))
	is.True(err != nil) // a file
}

// A file that replaces another is written in the folder aside, so that no name
// vanishes from its own. Without that folder it is written in its own.
func TestAside(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, aside := t.TempDir(), t.TempDir()
	f, err := OpenFolder(dir)
	is.NoErr(err)
	defer f.Close()
	f.Aside(aside)
	names := func(dir string) int {
		all, err := os.ReadDir(dir)
		is.NoErr(err)
		return len(all)
	}
	for n := range 3 {
		is.NoErr(f.Publish("name", func(w io.Writer) error {
			if n > 0 {
				is.Equal(names(dir), 1)
				is.Equal(names(aside), 1)
			}
			_, err := fmt.Fprint(w, n)
			return err
		}))
		b, err := os.ReadFile(filepath.Join(dir, "name"))
		is.NoErr(err)
		is.Equal(string(b), fmt.Sprint(n))
		is.Equal(names(aside), 0)
	}
	failed := errors.New("planned")
	is.True(errors.Is(f.Publish("name", func(io.Writer) error { return failed }), failed))
	is.Equal(names(aside), 0)
	f.Aside(filepath.Join(aside, "missing"))
	is.NoErr(f.Publish("name", func(w io.Writer) error { _, err := io.WriteString(w, "last"); return err }))
	b, err := os.ReadFile(filepath.Join(dir, "name"))
	is.NoErr(err)
	is.Equal(string(b), "last")
	is.Equal(names(dir), 1)
}
