package admin_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// contents are the paths of the contents below a data directory.
func contents(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "blobs", "[0-9a-f][0-9a-f]", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || info.Size() == 0
	})
}

// Whatever has become of contents, restore --missing puts them back from every
// kind of source, whether or not the server runs, and changes nothing else.
func TestRestoreMissing(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	key := s.inhabit()
	s.must("backup", "copy")
	s.must("backup", "copy.tar")
	piped := s.run("", "backup", "-").out
	want := s.everything(key)
	is.Equal(s.must("restore", "copy", "--missing"), "No file is missing or damaged. Nothing was changed.")
	is.Equal(s.run("", "restore", "nowhere", "--missing").code, 3)
	is.Equal(s.must("restore", "copy.tar", "--missing"), "No file is missing or damaged. Nothing was changed.")
	is.NoErr(os.WriteFile(s.path("text"), []byte("no tar"), 0o600))
	is.NoErr(os.WriteFile(s.path("none.tar"), make([]byte, 1024), 0o600))
	is.NoErr(os.Mkdir(s.path("photos"), 0o700))
	for _, source := range []string{"text", "none.tar", "photos"} {
		r := s.run("", "restore", source, "--missing")
		is.Equal(r.code, 1)
		is.True(strings.Contains(r.err, "no backup of kist at "+source))
	}
	s.stop()
	is.NoErr(os.CopyFS(s.path("plain"), os.DirFS(s.data())))

	harm := func(dir string) {
		all := contents(t, dir)
		is.Equal(len(all), 4)
		is.NoErr(os.Remove(all[0]))
		b, err := os.ReadFile(all[1])
		is.NoErr(err)
		b[len(b)/3] ^= 1
		is.NoErr(os.WriteFile(all[1], b, 0o600))
		is.NoErr(os.Truncate(all[2], 10))
	}
	for _, running := range []bool{false, true} {
		for _, source := range []string{"copy", "copy.tar", "-", "plain"} {
			harm(s.data())
			if running {
				s = s.serve()
			}
			stdin := ""
			if source == "-" {
				stdin = piped
			}
			r := s.run(stdin, "restore", source, "--missing", "--json")
			is.Equal(r.code, 0)
			var out struct {
				Files   int
				Missing []any
			}
			is.NoErr(json.Unmarshal([]byte(r.out), &out))
			is.Equal(out.Files, 3)
			is.Equal(len(out.Missing), 0)
			if running {
				is.True(maps.Equal(s.everything(key), want))
				s.stop()
			}
			is.True(strings.HasSuffix(s.must("verify"), "No problems found."))
			markers, err := filepath.Glob(s.data("blobs", "damaged", "*"))
			is.NoErr(err)
			is.Equal(len(markers), 0)
		}
	}

	// What the source does not have, or has damaged, is named.
	harm(s.data())
	source := contents(t, s.path("copy"))
	b, err := os.ReadFile(source[0])
	is.NoErr(err)
	b[0] ^= 1
	is.NoErr(os.WriteFile(source[0], b, 0o600))
	is.NoErr(os.Remove(source[1]))
	r := s.run("", "restore", "copy", "--missing")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "Restored the content of 1 file ("))
	is.Equal(strings.Count(r.out, "\nFile "), 2)
	is.True(strings.Contains(r.err, "2 files are still missing or damaged"))
	// A tar that is cut off puts back what it has, and says so.
	cut := piped[:strings.LastIndex(piped, "blobs/")+600]
	r = s.run(cut, "restore", "-", "--missing")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "ends too early"))
	is.Equal(s.run(piped, "restore", "-", "--missing").code, 0)
	is.True(strings.HasSuffix(s.must("verify"), "No problems found."))

	// A copy that was made while the server ran may have small files in its journal only.
	small := "only the journal has it yet"
	folder := fmt.Sprintf("%x", sha256.Sum256([]byte(small)))[:2]
	is.NoErr(os.MkdirAll(s.data("blobs", folder), 0o700)) // otherwise it is written at once
	s = s.serve()
	is.True(maps.Equal(s.everything(key), want))
	s.upload(key, "small.txt", small)
	for _, name := range []string{"journal", "blobs"} {
		is.NoErr(os.CopyFS(s.path("live", name), os.DirFS(s.data(name))))
	}
	s.stop()
	for _, dir := range []string{s.data(), s.path("live")} {
		for _, name := range contents(t, dir) {
			if b, err := os.ReadFile(name); err == nil && string(b) == small {
				is.NoErr(os.Remove(name))
			}
		}
	}
	is.True(strings.Contains(s.must("restore", "live", "--missing"), "Restored the content of 1 file ("))
	is.True(strings.HasSuffix(s.must("verify"), "No problems found."))
}

// A file that is found to be damaged stays so after the process is killed;
// doctor and verify tell of it and how to heal it, and uploading the same file
// again does.
func TestDamagedFile(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	key := s.inhabit()
	admin := s.must("key", "create", "--user", "ann", "--name", "admin", "--scope", "admin")
	content := strings.Repeat("to be damaged ", 1000)
	s.upload(key, "precious.txt", content)
	s.stop()
	is.NoErr(os.CopyFS(s.path("plain"), os.DirFS(s.data())))
	var damaged string
	for _, name := range contents(t, s.data()) {
		b, err := os.ReadFile(name)
		is.NoErr(err)
		if string(b) == content {
			damaged = filepath.Base(name)
			b[5] ^= 2
			is.NoErr(os.WriteFile(name, b, 0o600))
		}
	}
	marker := s.data("blobs", "damaged", damaged)
	is.NoErr(os.Remove(s.data("cache", "scrub", "progress"))) // the week is over
	for range 2 {                                             // found by the weekly check, then known
		s = s.serve()
		s.until("the damage is found", func() bool { _, err := os.Stat(marker); return err == nil })
		_, body := s.get("/api/v1/admin/health", admin)
		if !strings.Contains(body, `"name":"precious.txt"`) {
			t.Error(body)
		}
		s.kill()
	}
	s = s.serve()
	r := s.run("", "doctor")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, damaged) && strings.Contains(r.out, "kist restore --missing"))
	r = s.run("", "verify")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "precious.txt") && strings.Contains(r.out, "kist restore --missing"))
	is.True(!strings.Contains(r.out, "not one of kist's"))
	r = s.run("", "backup", "copy")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "precious.txt") && strings.Contains(r.out, "its bytes are damaged"))
	s.upload(key, "again.txt", content)
	_, err := os.Stat(marker)
	is.True(os.IsNotExist(err))
	is.True(strings.HasSuffix(s.must("verify"), "No problems found."))
	s.must("backup", "copy")
	s.stop()
}

// What verify finds in the data of a running server, the server looks at itself
// at once: it heals its journal and no longer sends damaged bytes.
func TestVerifyTellsServer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	key := s.inhabit()
	admin := s.must("key", "create", "--user", "ann", "--name", "admin", "--scope", "admin")
	s.until("the journal was read once, and is not read again today", func() bool {
		_, body := s.get("/api/v1/admin/health", admin)
		return strings.Contains(body, `"checkedAt":"`)
	})
	is.True(!strings.Contains(s.must("verify"), "The running server"))
	addNotes(t, s.place, key, 0, 20)
	log := flipBit(t, s.place)
	damaged := contents(t, s.data())[0]
	b, err := os.ReadFile(damaged)
	is.NoErr(err)
	b[len(b)/2] ^= 1
	is.NoErr(os.WriteFile(damaged, b, 0o600))
	r := s.run("", "verify")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, log))
	is.True(strings.Contains(r.out, "The running server checks this itself now"))
	healed := strings.Contains(r.out, "No harm: ") // the server was faster
	is.True(healed || strings.Contains(r.err, "run kist verify again in a few minutes"))
	s.until("the journal is healed", func() bool {
		status, body := s.get("/readyz", "")
		return status == 200 && strings.Contains(body, "damage was found and healed")
	})
	s.until("the content is in quarantine", func() bool {
		_, err := os.Stat(s.data("blobs", "damaged", filepath.Base(damaged)))
		return err == nil
	})
	s.stop()
}
