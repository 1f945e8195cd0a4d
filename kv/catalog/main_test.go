package catalog_test

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/repair"
	"kist/kv/tables"
)

func TestMain(m *testing.M) { kvtest.RunTests(m) }

// repaired closes and repairs a store, and opens it again.
func repaired(t *testing.T, s *kv.Store, dir string, now func() time.Time) *kv.Store {
	t.Helper()
	is := is.New(t)
	is.NoErr(s.Close())
	_, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
	is.NoErr(err)
	return kvtest.OpenAt(t, dir, now)
}
