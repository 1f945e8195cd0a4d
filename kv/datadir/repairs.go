package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// These begin the names of folders. AsidePrefix is for the files that a repair
// replaced, RepairPrefix for a repair in progress, and DryPrefix for a dry run in
// progress.
const (
	AsidePrefix  = "damaged-"
	RepairPrefix = "repair-"
	DryPrefix    = ".kist-repair-"

	RepairTime = "20060102T150405.000Z" // follows the first two prefixes
)

// Interrupted lists the folders of repairs that did not finish.
func Interrupted(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		when, got := strings.CutPrefix(e.Name(), RepairPrefix)
		if _, err := time.Parse(RepairTime, when); got && err == nil && e.IsDir() { // leaves other folders alone
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all, nil
}

// DropUnfinished removes the folders of repairs that were killed before they changed
// anything.
func DropUnfinished(dir string) error {
	all, err := Interrupted(dir)
	for _, scratch := range all {
		if _, none := os.Lstat(filepath.Join(scratch, "old")); errors.Is(none, fs.ErrNotExist) {
			err = errors.Join(err, os.RemoveAll(scratch))
		}
	}
	return err
}
