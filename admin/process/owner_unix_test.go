//go:build unix

package process

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// What root makes in a folder of another user belongs to that user afterwards, and nothing outside of it does.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	if os.Geteuid() != 0 {
		needs.LeaveOut(t, "files of root in a folder of another user", "only root can make them")
	}
	const user = 65534
	dir, outside := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"new/within", "old", "link"} {
		is.NoErr(os.MkdirAll(at(folder), 0o700))
	}
	for _, file := range []string{"file", "new/within/file", "old/file"} {
		is.NoErr(os.WriteFile(at(file), nil, 0o600))
	}
	is.NoErr(os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600))
	is.NoErr(os.Symlink(filepath.Join(outside, "secret"), at("link/file")))
	is.NoErr(os.Symlink(outside, at("link/folder")))
	is.NoErr(os.Link(filepath.Join(outside, "secret"), at("link/second")))
	now := time.Now()
	is.NoErr(os.Chtimes(at("old"), now, now.Add(-time.Hour))) // nothing was made in it since

	owner := func(path string) int {
		t.Helper()
		info, err := os.Lstat(path)
		is.NoErr(err)
		return int(info.Sys().(*syscall.Stat_t).Uid)
	}
	is.NoErr(GiveBack(dir, now.Add(-time.Minute))) // a folder of root
	is.Equal(owner(at("file")), 0)

	is.NoErr(os.Chown(dir, user, user))
	is.NoErr(GiveBack(dir, now.Add(-time.Minute)))
	for name, want := range map[string]int{
		"file": user, "new": user, "new/within": user, "new/within/file": user, "old": user, "old/file": 0,
		"link": user, "link/file": user, "link/folder": user, "link/second": 0,
	} {
		is.Equal(owner(at(name)), want) // name
	}
	is.Equal(owner(outside), 0)
	is.Equal(owner(filepath.Join(outside, "secret")), 0)
	is.NoErr(GiveBack(at("absent"), now))
}
