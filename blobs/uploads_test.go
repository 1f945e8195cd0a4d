package blobs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"
)

// data makes a data directory with a store.
func data(t testing.TB) (s *Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := OpenIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

// piece adds to a part and returns the results of Sync.
func piece(t testing.TB, s *Store, name string, size int64, state []byte, text string) (int64, []byte) {
	t.Helper()
	is := is.New(t)
	st, err := s.Resume(name, size, state)
	is.NoErr(err)
	defer st.Drop()
	_, err = st.Write([]byte(text))
	is.NoErr(err)
	size, state, err = st.Sync()
	is.NoErr(err)
	return size, state
}

// Uploads of a data directory are in its cache. Those that an earlier version
// left among the blobs continue.
func TestUploadsInCache(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	old, err := Open(filepath.Join(dir, "blobs"))
	is.NoErr(err)
	old.unnamed = false
	size, state := piece(t, old, partID, 0, nil, "of an earlier ")
	_, err = old.Stage() // as a killed process leaves it
	is.NoErr(err)
	is.NoErr(os.WriteFile(filepath.Join(dir, "blobs", partFolder, "FOREIGN"), nil, 0o600))
	is.NoErr(old.Close())

	s, err := OpenIn(dir)
	is.NoErr(err)
	is.Equal(paths(t, dir), []string{"blobs/parts/FOREIGN", "cache/uploads/parts/" + partID})
	size, state = piece(t, s, partID, size, state, "version")
	is.NoErr(s.Close())
	s, err = OpenIn(dir)
	is.NoErr(err)
	defer s.Close()
	st, err := s.Resume(partID, size, state)
	is.NoErr(err)
	kept, err := st.Keep()
	is.NoErr(err)
	kept.Release()
	is.Equal(kept.Ref, refOf([]byte("of an earlier version")))
	is.NoErr(s.Check(kept.Ref))
	is.NoErr(os.Remove(filepath.Join(dir, "blobs/parts/FOREIGN")))
	is.Equal(paths(t, dir), []string{"blobs/" + kept.Ref.path()})
	for _, name := range []string{"cache/uploads", "cache/uploads/parts"} {
		info, err := os.Stat(filepath.Join(dir, name))
		is.NoErr(err)
		is.Equal(info.Mode().Perm(), fs.FileMode(0o700))
	}
}

// If files cannot be moved from the cache to blobs, uploads are in blobs too.
func TestUploadsThatCannotMove(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	there := filepath.Join(dir, "blobs")
	s, err := Open(there)
	is.NoErr(err)
	defer s.Close()
	is.NoErr(s.openUploads(filepath.Join(dir, "cache"), func(from, to *os.File) bool {
		is.Equal(filepath.Clean(from.Name()), filepath.Join(dir, "cache", uploadsFolder))
		is.Equal(filepath.Clean(to.Name()), there)
		return false
	}))
	uploadsStay(t, s, there)
}

// So it is if blobs is on another file system, where this machine has a second one.
func TestUploadsOnAnotherDisk(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	other, err := os.MkdirTemp("/dev/shm", "kist")
	if err != nil {
		t.Log(err)
		leaveOut(t, "uploads on another disk", "there is no /dev/shm")
	}
	defer os.RemoveAll(other)
	is.NoErr(os.Symlink(other, filepath.Join(dir, "blobs")))
	s, err := OpenIn(dir)
	is.NoErr(err)
	defer s.Close()
	uploadsStay(t, s, other)
}

// uploadsStay uploads in every way to a store that has its uploads in its folder.
func uploadsStay(t *testing.T, s *Store, folder string) {
	t.Helper()
	is := is.New(t)
	is.True(s.uploads == s.root)
	for _, s.unnamed = range []bool{s.unnamed, false} {
		k := keep(t, s, []byte{byte(len(paths(t, folder)))})
		k.Release()
		is.NoErr(s.Check(k.Ref))
	}
	size, state := piece(t, s, partID, 0, nil, "in pieces")
	is.Equal(size, int64(9))
	st, err := s.Resume(partID, size, state)
	is.NoErr(err)
	kept, err := st.Keep()
	is.NoErr(err)
	kept.Release()
	is.Equal(len(paths(t, folder)), 3)
}

// No name below blobs vanishes while contents are uploaded in every way.
func TestNamesStay(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, dir := data(t)
	s.unnamed = false
	gone := map[string]bool{}
	var last []string
	var mu sync.Mutex
	s.steps.hook = func(string) error {
		mu.Lock()
		defer mu.Unlock()
		now := paths(t, filepath.Join(dir, "blobs"))
		there := map[string]bool{}
		for _, name := range now {
			there[name] = true
		}
		for _, name := range last {
			if !there[name] {
				gone[name] = true
			}
		}
		last = now
		return nil
	}
	for i, c := range [][]byte{[]byte("one"), []byte("two"), []byte("one"), random(1, 300_000)} {
		keep(t, s, c).Release()
		if i == 0 { // replaced
			is.NoErr(os.WriteFile(filepath.Join(dir, "blobs", refOf(c).path()), []byte("wrong"), 0o600))
		}
	}
	size, state := piece(t, s, partID, 0, nil, strings.Repeat("piece ", 1000))
	st, err := s.Resume(partID, size, state)
	is.NoErr(err)
	kept, err := st.Keep()
	is.NoErr(err)
	kept.Release()
	is.NoErr(s.steps.hook(""))
	is.True(len(last) == 4)
	is.Equal(len(gone), 0)
}
