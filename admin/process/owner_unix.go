//go:build unix

package process

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// clockStep is more than what the times of files may be behind the clock.
const clockStep = 2 * time.Second

// GiveBack gives what root has made in a folder since the time to the user whose folder it is, so that the server,
// which runs as that user, can read and replace it. That user cannot have anything outside of the folder given away: no link
// is followed, and no file that has a second name is touched. It does nothing for other users than root, and nothing in
// a folder of root.
func GiveBack(dir string, since time.Time) error {
	if os.Geteuid() != 0 {
		return nil
	}
	top, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer top.Close()
	info, err := top.Lstat(".")
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}

	return fs.WalkDir(top.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // another process removes files meanwhile
			return nil
		}
		if err != nil || !d.IsDir() {
			return err
		}
		err = giveEntries(top, name, since.Add(-clockStep), owner)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// giveEntries gives away what root has made in a folder, not in those below it. A folder in which nothing was made has
// not changed since.
func giveEntries(top *os.Root, name string, since time.Time, owner *syscall.Stat_t) error {
	info, err := top.Lstat(name)
	if err != nil || info.ModTime().Before(since) {
		return err
	}
	entries, err := fs.ReadDir(top.FS(), name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		err := giveEntry(top, path.Join(name, e.Name()), owner)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func giveEntry(top *os.Root, name string, owner *syscall.Stat_t) error {
	info, err := top.Lstat(name)
	if err != nil {
		return err
	}
	its, ok := info.Sys().(*syscall.Stat_t)
	if !ok || its.Uid != 0 || info.Mode().IsRegular() && its.Nlink > 1 {
		return nil
	}
	return top.Lchown(name, int(owner.Uid), int(owner.Gid))
}
