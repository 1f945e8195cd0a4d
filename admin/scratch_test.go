package admin_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/blobs/disk"
	"kist/kv/kvtest/needs"
)

// scratches are the scratch folders below the place.
func (p *place) scratches() []string {
	p.t.Helper()
	var all []string
	if err := filepath.WalkDir(p.dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the server removed it meanwhile
			return nil
		}
		name := filepath.Base(path)
		if err == nil && d.IsDir() && (strings.HasPrefix(name, ".kist-scratch-") || strings.HasPrefix(name, "scratch-") ||
			strings.HasPrefix(name, ".restore-")) {
			all = append(all, path)
		}
		return err
	}); err != nil {
		p.t.Fatal(err)
	}
	return all
}

// killedBackup kills a backup to standard output half way.
func (p *place) killedBackup() {
	p.t.Helper()
	is := is.New(p.t)
	cmd := p.command("backup", "-")
	out, err := cmd.StdoutPipe()
	is.NoErr(err)
	is.NoErr(cmd.Start())
	_, err = io.ReadFull(out, make([]byte, 512)) // it has begun, and does not fit the pipe
	is.NoErr(err)
	is.NoErr(cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}

// What commands lay aside is in the data directory or beside what they write,
// for its owner alone, gone when they end, and swept when they were killed.
func TestScratchFolders(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.env = append(p.env, "TMPDIR="+p.path("missing")) // nothing may be written there
	s := p.serve()
	key := s.inhabit()
	s.upload(key, "large.bin", strings.Repeat("large", 100_000))
	for _, args := range [][]string{
		{"backup", "copy"},
		{"backup", "copy.tar"},
		{"backup", "-"},
		{"verify"},
		{"verify", "copy"},
		{"--data-dir", "new", "restore", "copy"},
		{"--data-dir", "new2", "restore", "copy.tar"},
	} {
		r := s.run("", args...)
		if r.code != 0 {
			t.Fatalf("%v: %s", args, r.err)
		}
		is.Equal(len(s.scratches()), 0)
	}

	s.killedBackup()
	left := s.scratches()
	is.Equal(len(left), 1)
	is.Equal(filepath.Dir(left[0]), s.data("cache"))
	is.NoErr(filepath.WalkDir(left[0], func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	}))
	s.must("verify")
	is.Equal(len(s.scratches()), 0) // the next run has swept

	s.killedBackup()
	is.Equal(len(s.scratches()), 1)
	live, err := disk.NewScratch(s.data("cache"), "scratch-") // which sweeps as well
	is.NoErr(err)
	is.Equal(s.scratches(), []string{live.Path})
	s.killedBackup()
	is.Equal(len(s.scratches()), 2)
	is.NoErr(os.MkdirAll(s.data(".restore-old"), 0o700))
	is.NoErr(os.WriteFile(s.data(".restore-old", "owner"), nil, 0o600))
	s.stop()
	s = p.serve()
	is.Equal(s.scratches(), []string{live.Path}) // the start, too; what has an owner stays
	is.NoErr(live.Close())

	is.NoErr(os.MkdirAll(s.path("copy", ".kist-scratch-old"), 0o700))
	is.NoErr(os.WriteFile(s.path("copy", ".kist-scratch-old", "owner"), nil, 0o600))
	s.must("backup", "copy")
	is.Equal(len(s.scratches()), 0)

	is.NoErr(os.Mkdir(s.path("aside"), 0o700))
	s.must("verify", "--scratch", "aside")
	s.must("backup", "copy", "--scratch", "aside")
	r := s.run("", "verify", "--scratch", "missing")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "name another folder with --scratch"))
	s.stop()
}
