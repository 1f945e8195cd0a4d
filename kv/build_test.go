package kv_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/kvtest"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// A start removes the remains of an earlier start that was killed, also when the
// working copy is proven.
func TestUnfinishedCopyIsRemoved(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{false, true} {
		is := is.New(t)
		dir := t.TempDir()
		s, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
		is.NoErr(err)
		is.NoErr(s.Close())
		if !clean {
			is.NoErr(os.Remove(filepath.Join(dir, datadir.CleanName)))
		}
		names := []string{
			filepath.Join(dir, "cache", "kist.db.new"), filepath.Join(dir, "cache", "kist.db.new"+workcopy.RunsSuffix),
		}
		for _, name := range names {
			is.NoErr(os.WriteFile(name, []byte("half of it"), 0o600))
		}
		s, err = kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
		is.NoErr(err)
		is.NoErr(s.Close())
		for _, name := range names {
			_, err := os.Lstat(name)
			is.True(errors.Is(err, os.ErrNotExist))
		}
	}
}
