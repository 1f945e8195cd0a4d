package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// AsidePrefix begins the names of the folders in which a repair keeps what it
// has replaced, repairPrefix those in which it works, and dryPrefix those in
// which a dry run works.
const (
	AsidePrefix  = "damaged-"
	RepairPrefix = "repair-"
	DryPrefix    = ".kist-repair-"

	RepairTime = "20060102T150405.000Z" // comes after the first two
)

// Interrupted lists the folders of repairs that did not come to their end.
func Interrupted(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		when, got := strings.CutPrefix(e.Name(), RepairPrefix)
		if _, err := time.Parse(RepairTime, when); got && err == nil && e.IsDir() { // others' folders are left alone
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all, nil
}

// DropUnfinished removes what repairs have left that were killed before they
// changed anything.
func DropUnfinished(dir string) error {
	all, err := Interrupted(dir)
	for _, scratch := range all {
		if _, none := os.Lstat(filepath.Join(scratch, "old")); errors.Is(none, fs.ErrNotExist) {
			err = errors.Join(err, os.RemoveAll(scratch))
		}
	}
	return err
}
