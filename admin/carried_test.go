package admin_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// After a power cut the bytes of small files may be in the journal alone. Every command
// finds them there, and the next start writes them to their files.
func TestSmallFilesAfterPowerCut(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.ann()
	key := s.must("key", "create", "--user", "ann", "--name", "load")
	// The first content in a folder does not get there later.
	for first := range 256 {
		is.NoErr(os.MkdirAll(s.data("blobs", fmt.Sprintf("%02x", first)), 0o700))
	}
	s.stop()
	s = s.place.serve()
	c := newLoad(t, s.place, key, 1).clients[0]
	c.load.addr = s.addr
	var files []string
	for i := range 12 {
		b := fmt.Appendf(nil, "small file %d", i)
		sum := sha256.Sum256(b)
		name := hex.EncodeToString(sum[:])
		is.True(c.uploadContent(http.DefaultClient, b))
		files = append(files, filepath.Join("blobs", name[:2], name))
	}
	want := s.everything(key)
	s.kill()
	for i, name := range files {
		info, err := os.Lstat(s.data(name))
		is.NoErr(err)
		switch i % 3 {
		case 0:
			err = os.Remove(s.data(name))
		case 1:
			err = os.WriteFile(s.data(name), make([]byte, info.Size()), 0o600)
		case 2:
			err = os.Truncate(s.data(name), 0)
		}
		is.NoErr(err)
	}
	cut := s.path("cut") // what a snapshot of the disk or a tool copies now
	for _, name := range []string{"journal", "blobs"} {
		is.NoErr(os.CopyFS(filepath.Join(cut, name), os.DirFS(s.data(name))))
	}
	is.NoErr(os.Chmod(cut, 0o700))

	r := s.run("", "doctor")
	is.True(!strings.Contains(r.out, "damaged"))
	is.True(!strings.Contains(r.out, "without"))
	r = s.run("", "verify")
	is.Equal(r.code, 0)
	is.True(strings.Contains(r.out+r.err, "12 small files are only in the journal"))

	// Backups and restores.
	var b bytes.Buffer
	to := tar.NewWriter(&b)
	is.NoErr(to.AddFS(os.DirFS(cut)))
	is.NoErr(to.Close())
	is.Equal(s.run("", "backup", "folder").code, 0)
	is.Equal(s.run("", "backup", "file.tar").code, 0)
	is.Equal(s.run("", "--data-dir", "folder", "verify").code, 0)
	for name, source := range map[string]string{
		"a folder": s.path("folder"), "a tar": s.path("file.tar"), "a copy": cut, "a tar of a copy": "-",
	} {
		p := newPlace(t)
		r := p.run(b.String(), "restore", source)
		if r.err != "" || r.code != 0 {
			t.Errorf("%s: %d %s", name, r.code, r.err)
		}
		again := p.serve()
		if got := again.everything(key); !maps.Equal(got, want) {
			t.Errorf("%s: %v and not %v", name, got, want)
		}
		again.stop()
	}

	// A repair, a start and a start of the copy. Maybe only the system's cache has the file that is right, so a repair
	// writes it once more and syncs it.
	right, long := filepath.Join(cut, files[0]), time.Now().Add(-time.Hour)
	is.NoErr(os.WriteFile(right, []byte("small file 0"), 0o600))
	is.NoErr(os.Chtimes(right, long, long))
	is.Equal(s.run("", "--data-dir", "cut", "verify", "--repair").code, 0)
	info, err := os.Lstat(right)
	is.NoErr(err)
	is.True(info.ModTime().After(long.Add(time.Minute)))
	r = s.run("", "--data-dir", "cut", "verify")
	is.Equal(r.code, 0)
	is.True(!strings.Contains(r.out+r.err, "only in the journal"))
	again := s.place.serve()
	is.True(maps.Equal(again.everything(key), want))
	again.stop()
	r = s.run("", "verify")
	is.Equal(r.code, 0)
	is.True(!strings.Contains(r.out+r.err, "only in the journal"))
}
