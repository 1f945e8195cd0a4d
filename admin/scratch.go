package admin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"kist/admin/console"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/journal"
)

// scratchFlag says where a command may write what it needs while it runs.
type scratchFlag struct {
	Scratch string `placeholder:"DIR" help:"A folder for temporary files, which need about four times the size of the journal. By default they are kept where the command writes, or in the data directory."`
}

// Scratch folders begin with one of these names. They hold copies of the
// store, password hashes included.
const (
	hiddenScratch = ".kist-scratch-" // beside what people see
	cacheScratch  = "scratch-"       // in the cache of a data directory
	restoring     = ".restore-"      // in a data directory that is being restored
)

// A place is where a scratch folder may be made.
type place struct{ parent, prefix string }

// within is the place in a data directory or a backup, which has no cache.
func within(dir string) place {
	cache := filepath.Join(dir, "cache")
	if info, err := os.Stat(cache); err == nil && info.IsDir() {
		return place{cache, cacheScratch}
	}
	return place{dir, hiddenScratch}
}

// newScratch makes a scratch folder in the one that was named, if one was, or
// else in the place. The caller must Close it.
func newScratch(named string, usual place) (*disk.Scratch, error) {
	if named != "" {
		usual = place{named, hiddenScratch}
	}
	s, err := disk.NewScratch(usual.parent, usual.prefix)
	if err != nil {
		return nil, fmt.Errorf("cannot write to %s, where this command keeps files while it runs (%w); name another folder with --scratch", usual.parent, err)
	}
	return s, nil
}

// SweepScratch removes what killed commands have left in the data directory,
// which the caller holds open.
func SweepScratch(dir string) error {
	return errors.Join(
		disk.SweepScratch(filepath.Join(dir, "cache"), cacheScratch),
		disk.SweepScratch(dir, hiddenScratch), disk.SweepScratch(dir, restoring))
}

// room refuses to begin what needs more bytes than the disk has that holds the
// folder.
func room(folder string, need int64) error {
	got, err := disk.Space(folder)
	if err != nil {
		return nil //nolint:nilerr // then the disk says so itself when it is full
	}
	if need > int64(min(got.Free, 1<<62)) {
		return fmt.Errorf("%s has %s free, and this needs about %s there; make room there, or choose a folder on another disk", folder, console.Bytes(int64(got.Free)), console.Bytes(need))
	}
	return nil
}

// roomToRead refuses to read a journal into a scratch folder that has no room
// for it.
func roomToRead(dir, scratch string) error {
	j, err := journal.Read(filepath.Join(dir, "journal"), kv.Format)
	if err != nil {
		return nil //nolint:nilerr // what reads it says what is wrong
	}
	parts, err := j.Files()
	if err = errors.Join(err, j.Close()); err != nil {
		return nil //nolint:nilerr // as above
	}
	_, raw := sizes(parts)
	return room(scratch, workingCopies*raw)
}

// workingCopies is how many times the size of what a journal holds a working
// copy of it may take while it is made.
const workingCopies = 3

// sizes is how much the parts take on the disk, and how much they hold.
func sizes(parts []journal.Part) (onDisk, raw int64) {
	for _, p := range parts {
		onDisk += p.Size
		raw += p.Raw
	}
	return onDisk, raw
}
