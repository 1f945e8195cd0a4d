package admin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// The files are copied to another disk. If that is full, one sentence says so, and nothing stays there.
func TestRollbackToAnotherDisk(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p, o := keptPlace(t, "fourth")
	s := p.serve("--base-url", o.Base)
	s.stop()
	disk := p.path("disk")
	is.NoErr(os.Mkdir(disk, 0o700))
	mountSmall(t, disk, "16m")
	got := parseRolledBack(t, p.must("rollback", filepath.Join("disk", "back"), "--json"))
	is.Equal(got.Copied, got.Files)
	p.must("verify", filepath.Join("disk", "back"))
	is.NoErr(os.RemoveAll(filepath.Join(disk, "back")))

	is.Equal(parseRolledBack(t, p.must("rollback", "disk", "--json")).Files, got.Files) // the empty disk itself
	for _, name := range []string{"INSTANCE", "blobs", "journal"} {
		is.NoErr(os.RemoveAll(filepath.Join(disk, name)))
	}

	fill(t, filepath.Join(disk, "full"))
	r := p.run("", "rollback", filepath.Join("disk", "back"))
	is.Equal(r.code, 1)
	is.Equal(strings.Count(r.err, "\n"), 1)
	is.True(strings.HasPrefix(r.err, "Nothing was made: "))
	left, err := os.ReadDir(disk)
	is.NoErr(err)
	is.Equal(len(left), 1)
}
