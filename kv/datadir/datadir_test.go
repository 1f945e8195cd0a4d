package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// directory is a data directory with a working copy and a folder for the journal.
func directory(t *testing.T) string {
	t.Helper()
	is := is.New(t)
	dir := t.TempDir()
	is.NoErr(os.Mkdir(filepath.Join(dir, "cache"), 0o700))
	is.NoErr(os.Mkdir(filepath.Join(dir, "journal"), 0o700))
	is.NoErr(os.WriteFile(filepath.Join(dir, "cache", "kist.db"), []byte("copy"), 0o600))
	return dir
}

func TestInstance(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := directory(t)
	path := filepath.Join(dir, InstanceName)
	_, err := ReadInstance(dir)
	is.True(errors.Is(err, fs.ErrNotExist))
	for _, name := range []string{InstanceOf([]byte("a")), InstanceOf([]byte("b"))} {
		is.Equal(len(name), 16)
		is.NoErr(WriteInstance(dir, name))
		got, err := ReadInstance(dir)
		is.NoErr(err)
		is.Equal(got, name)
	}
	is.True(InstanceOf([]byte("a")) != InstanceOf([]byte("b")))
	text, err := os.ReadFile(path)
	is.NoErr(err)
	is.Equal(string(text), `{"format":1,"instance":"`+InstanceOf([]byte("b"))+"\"}\n")

	before, err := os.Stat(path)
	is.NoErr(err)
	is.NoErr(WriteInstance(dir, InstanceOf([]byte("b")))) // it is named already
	after, err := os.Stat(path)
	is.NoErr(err)
	is.True(os.SameFile(before, after))

	for text, fails := range map[string]bool{
		"":                                 false,
		"{":                                false,
		`{"format":0,"instance":"a"}`:      false,
		`{"format":2,"instance":"a"}`:      true, // of a newer version
		`{"format":"1","instance":"a"}`:    false,
		`{"instance":"a","and":"no more"}`: false,
	} {
		is.NoErr(os.WriteFile(path, []byte(text), 0o600))
		got, err := ReadInstance(dir)
		is.Equal(got, "")
		is.Equal(err != nil, fails) // text
	}
	is.NoErr(os.Remove(path))
	is.NoErr(os.Mkdir(path, 0o700))
	_, err = ReadInstance(dir)
	is.True(errors.As(err, new(*Irregular)))
}

// The lock file names the process that has the lock.
// A link in the place of the lock file is not followed: what it leads to stays as it is.
func TestLockLink(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	target, path := filepath.Join(dir, "precious"), filepath.Join(dir, "LOCK")
	is.NoErr(os.WriteFile(target, []byte("keep"), 0o600))
	is.NoErr(os.Symlink(target, path))
	_, err := Acquire(path)
	is.True(err != nil && strings.Contains(err.Error(), "is not a file"))
	text, err := os.ReadFile(target)
	is.NoErr(err)
	is.Equal(string(text), "keep")
}

func TestLock(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "LOCK")
	is.NoErr(os.WriteFile(path, []byte("an old and longer text\n"), 0o600))
	for range 2 { // released, it can be had again
		l, err := Acquire(path)
		is.NoErr(err)
		text, err := os.ReadFile(path)
		is.NoErr(err)
		is.Equal(string(text), strconv.Itoa(os.Getpid())+"\n")
		_, err = Acquire(path)
		var in *InUse
		is.True(errors.As(err, &in))
		is.Equal(in.PID, os.Getpid())
		is.NoErr(l.Release())
	}
	is.Equal((&InUse{}).Error(), "the data directory is in use by another process")
	is.Equal((&InUse{7}).Error(), "the data directory is in use by process 7")

	folder := t.TempDir()
	_, err := Acquire(folder)
	is.Equal(err.Error(), folder+" is not a file; remove it and try again")
	_, err = Acquire(filepath.Join(folder, "none", "LOCK"))
	is.True(errors.Is(err, fs.ErrNotExist))
}

// Only a repair that has not set the old files aside yet is removed.
func TestUnfinishedRepairs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	at := func(name ...string) string { return filepath.Join(append([]string{dir}, name...)...) }
	begun, replacing := RepairPrefix+"20260102T030405.678Z", RepairPrefix+"20260102T030405.679Z"
	others := []string{RepairPrefix + "notes", AsidePrefix + "20260102T030405.678Z", "20260102T030405.678Z"}
	for _, name := range append([]string{begun, replacing + "/old"}, others...) {
		is.NoErr(os.MkdirAll(at(name), 0o700))
	}
	file := RepairPrefix + "20260102T030405.680Z"
	is.NoErr(os.WriteFile(at(file), nil, 0o600))
	is.NoErr(os.WriteFile(at(begun, "file"), nil, 0o600))
	all, err := Interrupted(dir)
	is.NoErr(err)
	is.Equal(all, []string{at(begun), at(replacing)})
	is.NoErr(DropUnfinished(dir))
	_, err = os.Lstat(at(begun))
	is.True(errors.Is(err, fs.ErrNotExist))
	for _, name := range append([]string{replacing, file}, others...) {
		_, err = os.Lstat(at(name))
		is.NoErr(err)
	}
	_, err = Interrupted(at("none"))
	is.True(errors.Is(err, fs.ErrNotExist))
	is.True(errors.Is(DropUnfinished(at("none")), fs.ErrNotExist))
}
