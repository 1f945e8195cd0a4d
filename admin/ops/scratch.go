package ops

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"kist/admin/console"
	"kist/blobs/disk"
	"kist/kv/journal"
	"kist/kv/workcopy"
)

// The names of scratch folders begin with these prefixes. The folders hold copies of
// the store with its password hashes.
const (
	hiddenScratch = ".kist-scratch-" // where people may see it
	cacheScratch  = "scratch-"       // in the cache of a data directory
	restoring     = ".restore-"      // in a data directory during a restore
)

// A place is where a scratch folder may be created.
type place struct{ parent, prefix string }

// within returns the place in a data directory, or in a backup, which has no cache.
func within(dir string) place {
	cache := filepath.Join(dir, "cache")
	if info, err := os.Stat(cache); err == nil && info.IsDir() {
		return place{cache, cacheScratch}
	}
	return place{dir, hiddenScratch}
}

// newScratch creates a scratch folder in the folder named, or in the usual place if
// that is "". The caller must Close it.
func newScratch(named string, usual place) (*disk.Scratch, error) {
	if named != "" {
		usual = place{named, hiddenScratch}
	}
	s, err := disk.NewScratch(usual.parent, usual.prefix)
	if err != nil {
		return nil, fmt.Errorf("cannot write to %s, where this command keeps files while it runs (%w); "+
			"name another folder with --scratch", usual.parent, err)
	}
	return s, nil
}

// WriteFile creates or replaces the file dest in one step. fill writes a temporary file
// beside it, which check reads back. If dest is a symbolic link, it stays, and the file
// that it leads to is replaced.
func WriteFile(dest string, fill, check func(*os.File) error) error {
	dest, err := target(dest)
	if err != nil {
		return err
	}
	if err := needParent(dest); err != nil {
		return err
	}
	if info, err := os.Stat(dest); err == nil && info.IsDir() {
		return fmt.Errorf("there is a folder at %s; name another file", dest)
	}

	beside, err := disk.NewScratch(filepath.Dir(dest), hiddenScratch)
	if err != nil {
		return err
	}
	defer beside.Close() //nolint:errcheck // the next run removes what is left
	path := filepath.Join(beside.Path, "file")
	if err := writeNew(path, fill, check); err != nil {
		return err
	}
	if err := os.Rename(path, dest); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dest))
}

// writeNew creates the file at the path, which fill writes and check reads back.
func writeNew(path string, fill, check func(*os.File) error) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return check(f)
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	folder, err := disk.ReadFolder(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// target returns where the symbolic links at the path lead to. There may be no file yet.
func target(path string) (string, error) {
	for range 40 {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // it is no link
		}
		if !filepath.IsAbs(to) {
			folder, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", err
			}
			to = filepath.Join(folder, to)
		}
		path = to
	}
	return "", fmt.Errorf("the symbolic links at %s lead nowhere", path)
}

// needParent fails if the folder that the path is in is not there.
func needParent(path string) error {
	folder := filepath.Dir(filepath.Clean(path))
	info, err := os.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return fmt.Errorf("there is no folder at %s; create it, or mount the disk that should be there", folder)
	}
	return err
}

// SweepScratch removes the scratch folders of killed commands from the data
// directory, which the caller must hold open.
func SweepScratch(dir string) error {
	return errors.Join(
		disk.SweepScratch(filepath.Join(dir, "cache"), cacheScratch),
		disk.SweepScratch(dir, hiddenScratch), disk.SweepScratch(dir, restoring))
}

// A NoRoom says that a disk has too little space for an operation, which has written nothing there.
type NoRoom struct {
	Folder     string
	Free, Need int64 // in bytes
}

func (e *NoRoom) Error() string {
	return fmt.Sprintf("%s has %s free, and this needs about %s there; make room there, "+
		"or choose a folder on another disk", e.Folder, console.Bytes(e.Free), console.Bytes(e.Need))
}

// needSpace fails with a *NoRoom if the disk of the folder has fewer than need bytes free.
func (j Job) needSpace(folder string, need int64) error {
	space := j.Space
	if space == nil {
		space = disk.Space
	}
	got, err := space(folder)
	if err != nil {
		return nil //nolint:nilerr // a full disk will say so itself
	}
	free := int64(min(got.Free, 1<<62))
	if need > free {
		return &NoRoom{folder, free, need}
	}
	return nil
}

// needSpaceToRead fails if the scratch folder has too little space to read the
// journal of the data directory into it.
func (j Job) needSpaceToRead(dir, scratch string) error {
	from, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
	if err != nil {
		return nil //nolint:nilerr // the code that reads it says what is wrong
	}
	defer from.Close()
	parts, err := from.Files()
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	_, raw := sizes(parts)
	return j.needSpace(scratch, workingCopies*raw)
}

// workingCopies is how many times the size of its journal a working copy may take
// while it is built.
const workingCopies = 3

// sizes returns how many bytes the parts take on the disk and how many they hold.
func sizes(parts []journal.Part) (onDisk, raw int64) {
	for _, p := range parts {
		onDisk += p.Size
		raw += p.Raw
	}
	return onDisk, raw
}
