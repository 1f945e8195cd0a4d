package repair_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest"
	"kist/kv/repair"
	"kist/kv/tables"
)

// A repair works if cache/ is on another file system than journal/, and so does undoing
// an interrupted repair.
func TestRepairWithCacheElsewhere(t *testing.T) {
	t.Parallel()
	for _, interrupt := range []bool{false, true} {
		is := is.New(t)
		dir, before := written(t, 20)
		elsewhere, err := os.MkdirTemp("/dev/shm", "kist-test-")
		is.NoErr(err)
		t.Cleanup(func() { _ = os.RemoveAll(elsewhere) })
		cache := filepath.Join(dir, "cache")
		is.NoErr(os.CopyFS(elsewhere, os.DirFS(cache)))
		is.NoErr(os.RemoveAll(cache))
		is.NoErr(os.Symlink(elsewhere, cache))
		kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 500)
		if interrupt {
			_, err := repair.Repair(dir, repair.WithStep(repair.RepairOptions{Schema: tables.All}, func(what string) error {
				if what == "put the new journal in place" {
					return kvtest.ErrPlanned
				}
				return nil
			}))
			is.True(errors.Is(err, kvtest.ErrPlanned))
		}
		r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
		is.NoErr(err)
		is.True(r.Whole())
		_, err = os.Stat(filepath.Join(dir, r.Aside, "kist.db"))
		is.NoErr(err)
		s := kvtest.OpenAt(t, dir, nil)
		is.True(maps.Equal(kvtest.ContentOf(t, s), before))
	}
}
