package blobs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"
)

// open opens a new store for the test and returns it with its folder.
func open(t testing.TB) (*Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

// bothWays runs the test on two stores. One stages in files without a name, if
// the file system of the test has them, and one stages in named files.
func bothWays(t *testing.T, test func(t *testing.T, s *Store, dir string)) {
	t.Helper()
	t.Run("named", func(t *testing.T) {
		s, dir := open(t)
		s.unnamed = false
		test(t, s, dir)
	})
	if s, dir := open(t); s.unnamed {
		t.Run("unnamed", func(t *testing.T) { test(t, s, dir) })
	}
}

// keep keeps the content and fails the test if it cannot.
func keep(t testing.TB, s *Store, content []byte) *Kept {
	t.Helper()
	kept, err := tryKeep(s, content)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func tryKeep(s *Store, content []byte) (*Kept, error) {
	stage, err := s.Stage()
	if err != nil {
		return nil, err
	}
	defer stage.Drop()
	if _, err := stage.Write(content); err != nil {
		return nil, err
	}
	return stage.Keep()
}

func read(s *Store, ref Ref) ([]byte, error) {
	f, err := s.Get(ref)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func refOf(content []byte) Ref { return sha256.Sum256(content) }

// paths lists the files below dir.
func paths(t testing.TB, dir string) []string {
	t.Helper()
	names := []string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, err = filepath.Rel(dir, name)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestOpen(t *testing.T) {
	t.Run("without a parent", func(t *testing.T) {
		is := is.New(t)
		_, err := Open(filepath.Join(t.TempDir(), "missing", "blobs"))
		is.True(errors.Is(err, fs.ErrNotExist))
	})
	t.Run("a file in its place", func(t *testing.T) {
		is := is.New(t)
		name := filepath.Join(t.TempDir(), "blobs")
		is.NoErr(os.WriteFile(name, nil, 0o600))
		_, err := Open(name)
		is.True(err != nil)
	})
	t.Run("again", func(t *testing.T) {
		is := is.New(t)
		s, dir := open(t)
		kept := keep(t, s, []byte("stays"))
		kept.Release()
		is.NoErr(s.Close())

		s, err := Open(dir)
		is.NoErr(err)
		defer s.Close()
		content, err := read(s, kept.Ref)
		is.NoErr(err)
		is.Equal(string(content), "stays")
	})
	t.Run("removes what a crash left", func(t *testing.T) {
		is := is.New(t)
		s, dir := open(t)
		keep(t, s, []byte("stays")).Release()
		before := paths(t, dir)
		is.NoErr(s.Close())
		is.NoErr(os.MkdirAll(filepath.Join(dir, "tmp"), 0o700))
		is.NoErr(os.WriteFile(filepath.Join(dir, "tmp", "LEFT"), []byte("half"), 0o600))

		s, err := Open(dir)
		is.NoErr(err)
		defer s.Close()
		is.Equal(paths(t, dir), before)
	})
}

func TestGet(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, _ string) {
		is := is.New(t)
		content := bytes.Repeat([]byte("kist"), 100_000)
		kept := keep(t, s, content)
		defer kept.Release()
		is.Equal(kept.Ref, refOf(content))
		is.Equal(kept.Size, int64(len(content)))

		got, err := read(s, kept.Ref)
		is.NoErr(err)
		is.True(bytes.Equal(got, content))

		info, err := s.Stat(kept.Ref)
		is.NoErr(err)
		is.Equal(info.Ref, kept.Ref)
		is.Equal(info.Size, kept.Size)
		is.True(!info.ModTime.IsZero())

		f, err := s.Get(kept.Ref)
		is.NoErr(err)
		defer f.Close()
		_, err = f.Write([]byte("x"))
		is.True(err != nil) // a blob is opened only for reading

		missing := refOf([]byte("missing"))
		_, err = s.Get(missing)
		is.True(errors.Is(err, fs.ErrNotExist))
		_, err = s.Stat(missing)
		is.True(errors.Is(err, fs.ErrNotExist))
		is.True(errors.Is(s.Check(missing), fs.ErrNotExist))
	})
}

func TestEmptyContent(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, _ string) {
		is := is.New(t)
		kept := keep(t, s, nil)
		defer kept.Release()
		is.Equal(kept.Ref, refOf(nil))
		is.Equal(kept.Size, int64(0))
		is.NoErr(s.Check(kept.Ref))
	})
}

func TestGetSurvivesUnlink(t *testing.T) {
	is := is.New(t)
	s, _ := open(t)
	content := bytes.Repeat([]byte("0123456789"), 50_000)
	kept := keep(t, s, content)
	kept.Release()
	f, err := s.Get(kept.Ref)
	is.NoErr(err)
	defer f.Close()
	head := make([]byte, 1000)
	_, err = io.ReadFull(f, head)
	is.NoErr(err)

	removed, err := s.Unlink(kept.Ref, always)
	is.NoErr(err)
	is.True(removed)
	rest, err := io.ReadAll(f)
	is.NoErr(err)
	is.True(bytes.Equal(append(head, rest...), content))
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(path string) error
	}{
		{"other bytes", func(p string) error { return os.WriteFile(p, []byte("CONTENT"), 0o600) }},
		{"cut short", func(p string) error { return os.Truncate(p, 3) }},
		{"empty", func(p string) error { return os.Truncate(p, 0) }},
		{"longer", func(p string) error { return os.WriteFile(p, []byte("content and more"), 0o600) }},
		{"a folder", func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := is.New(t)
			s, dir := open(t)
			kept := keep(t, s, []byte("content"))
			kept.Release()
			is.NoErr(s.Check(kept.Ref))
			is.NoErr(tt.spoil(filepath.Join(dir, kept.Ref.path())))
			is.True(errors.Is(s.Check(kept.Ref), ErrDamaged))
		})
	}
}

func TestAll(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	want := map[Ref]int64{}
	for i := range 40 {
		content := bytes.Repeat([]byte{byte(i)}, i)
		kept := keep(t, s, content)
		kept.Release()
		want[kept.Ref] = int64(i)
	}
	some := refOf(nil)
	foreignNames := []string{
		"README", ".DS_Store", "AB", "abc", "zz",
		"00/note.txt", "00/" + some.String(), // in the folder of another first byte
		some.folder() + "/" + some.String() + ".part",
	}
	is.NoErr(os.MkdirAll(filepath.Join(dir, "00"), 0o700))
	for _, name := range foreignNames {
		is.NoErr(os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	is.NoErr(os.MkdirAll(filepath.Join(dir, "lost+found"), 0o700))

	var foreigners int
	var last Ref
	got := map[Ref]int64{}
	for info, err := range s.All() {
		if err != nil {
			is.True(errors.Is(err, ErrForeign))
			is.Equal(info, Info{})
			foreigners++
			continue
		}
		is.True(bytes.Compare(last[:], info.Ref[:]) < 0) // in order
		is.True(!info.ModTime.IsZero())
		last = info.Ref
		got[info.Ref] = info.Size
	}
	is.Equal(got, want)
	is.Equal(foreigners, len(foreignNames)+1)

	for range s.All() {
		break // a consumer may stop early, on a blob or on an error
	}
}

// A planted link leads nowhere, whether its target is inside the store or
// outside.
func TestSymlinksAreNotFollowed(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		inside := keep(t, s, []byte("inside"))
		inside.Release()
		secret := filepath.Join(t.TempDir(), "secret")
		is.NoErr(os.WriteFile(secret, []byte("secret"), 0o600))

		for _, target := range []string{secret, filepath.Join("..", inside.Ref.path())} {
			content := []byte("linked to " + target)
			ref := refOf(content)
			path := filepath.Join(dir, ref.path())
			is.NoErr(os.MkdirAll(filepath.Dir(path), 0o700))
			is.NoErr(os.Symlink(target, path))

			_, err := s.Get(ref)
			is.True(errors.Is(err, ErrDamaged))
			is.True(errors.Is(s.Check(ref), ErrDamaged))
			_, err = s.pin(ref)
			is.True(errors.Is(err, ErrDamaged))
			_, err = s.Unlink(ref, always)
			is.True(errors.Is(err, ErrDamaged))
			is.Equal(foreigners(s), 1)

			keep(t, s, content).Release() // replaces the link
			got, err := read(s, ref)
			is.NoErr(err)
			is.Equal(got, content)
			is.Equal(foreigners(s), 0)
		}

		// A folder that is a link.
		content := []byte("in a linked folder")
		ref := refOf(content)
		elsewhere := t.TempDir()
		is.NoErr(os.WriteFile(filepath.Join(elsewhere, ref.String()), content, 0o600))
		is.NoErr(os.RemoveAll(filepath.Join(dir, ref.folder())))
		for _, target := range []string{elsewhere, inside.Ref.folder()} {
			is.NoErr(os.Symlink(target, filepath.Join(dir, ref.folder())))
			_, err := s.Get(ref)
			is.True(errors.Is(err, ErrDamaged))
			_, err = tryKeep(s, content)
			is.True(errors.Is(err, ErrForeign))
			is.Equal(foreigners(s), 1)
			is.NoErr(os.Remove(filepath.Join(dir, ref.folder())))
		}
		got, err := os.ReadFile(secret)
		is.NoErr(err)
		is.Equal(string(got), "secret")
		got, err = read(s, inside.Ref)
		is.NoErr(err)
		is.Equal(string(got), "inside")
	})
}

func TestTemporaryFolderIsNoSymlink(t *testing.T) {
	is := is.New(t)
	dir, elsewhere := t.TempDir(), t.TempDir()
	is.NoErr(os.WriteFile(filepath.Join(elsewhere, "mine"), nil, 0o600))
	is.NoErr(os.Symlink(elsewhere, filepath.Join(dir, "tmp")))
	_, err := Open(dir)
	is.True(errors.Is(err, ErrForeign))
	is.Equal(paths(t, elsewhere), []string{"mine"})
}

func foreigners(s *Store) (n int) {
	for _, err := range s.All() {
		if errors.Is(err, ErrForeign) {
			n++
		}
	}
	return n
}
