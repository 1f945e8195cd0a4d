package admin_test

import (
	bigendian "encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// stamps is every name below a folder with its mode, its time of change and
// what it holds.
func stamps(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := tree(t, dir)
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all[path] += fmt.Sprint(info.Mode(), info.ModTime().UnixNano())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// Whatever is asked of data of a newer version, nothing in it is touched, not
// even LOCK.
func TestNewerDataIsLeftAlone(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.inhabit()
	s.stop()
	log := s.data("journal", "log-0000000000000000")
	b, err := os.ReadFile(log)
	is.NoErr(err)
	bigendian.BigEndian.PutUint32(b[12:], 1000) // the format
	bigendian.BigEndian.PutUint32(b[40:], crc32.Checksum(b[:40], crc32.MakeTable(crc32.Castagnoli)))
	is.NoErr(os.WriteFile(log, b, 0o600))
	is.NoErr(os.WriteFile(s.data("LOCK"), []byte("1\n"), 0o600))
	before := stamps(t, s.data())
	for _, args := range [][]string{
		{"serve"},
		{"user", "list"},
		{"key", "list"},
		{"gc"},
		{"reindex"},
		{"verify"},
		{"verify", "--repair"},
		{"backup", "copy"},
		{"backup", "copy.tar"},
		{"backup", "-"},
		{"--data-dir", "new", "restore", "kist-data"},
		{"doctor"},
	} {
		r := s.run("", args...)
		is.True(r.code != 0)
		if !strings.Contains(r.err+r.out, "format 1000") {
			t.Errorf("%v: %s%s", args, r.out, r.err)
		}
		if !maps.Equal(stamps(t, s.data()), before) {
			t.Fatalf("%v has changed something", args)
		}
	}
}

// A copy that took so long that nothing of the journal is in it is refused. It
// is not a new instance, which would belong to anyone who opens its claim link.
func TestEmptyCopy(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.inhabit()
	name, err := os.ReadFile(s.data("INSTANCE"))
	is.NoErr(err)
	s.stop()
	for _, dir := range []string{"missing", "empty"} {
		is.NoErr(os.Mkdir(s.path(dir), 0o700))
		is.NoErr(os.WriteFile(s.path(dir, "INSTANCE"), name, 0o600))
		if dir == "empty" {
			is.NoErr(os.Mkdir(s.path(dir, "journal"), 0o700))
		}
		r := s.run("", "--data-dir", dir, "serve")
		is.Equal(r.code, 1)
		is.True(strings.Contains(r.err, "the file INSTANCE says that there were records"))
		is.True(!strings.Contains(r.err+r.out, "/claim/"))
		_, err := os.Lstat(s.path(dir, "CLAIM"))
		is.True(os.IsNotExist(err))
	}
	// An interrupted copy that is made again is whole.
	is.NoErr(os.CopyFS(s.path("empty", "journal"), os.DirFS(s.data("journal"))))
	again := &place{t: t, dir: s.dir, addr: s.addr}
	again.serve("--data-dir", "empty").stop()
}
