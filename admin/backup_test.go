package admin_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	big "encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/journal"
	"kist/kv/kvtest/needs"
)

// upload stores a file over the API and returns its id.
func (p *place) upload(key, name, content string) string {
	p.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	if err == nil {
		_, err = io.WriteString(part, content)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return p.post("/api/v1/upload", key, form.FormDataContentType(), &body)
}

var idInAnswer = regexp.MustCompile(`"id":"([0-9a-f-]{36})"`)

// post makes something over the API and returns its id.
func (p *place) post(path, key, kind string, body io.Reader) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.addr+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("x-api-key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	id := idInAnswer.FindSubmatch(text)
	if err != nil || resp.StatusCode != http.StatusCreated || id == nil {
		p.t.Fatalf("POST %s: %d %s %v", path, resp.StatusCode, text, err)
	}
	return string(id[1])
}

// everything is what the API lists of every kind, as it answers, without addresses,
// and what the files hold.
func (p *place) everything(key string) map[string]string {
	p.t.Helper()
	all := map[string]string{}
	for _, kind := range []string{
		"files", "bookmarks", "notes", "snippets", "recipes", "games", "shorten", "tags", "folders",
	} {
		status, text := p.get("/api/v1/"+kind+"?limit=100", key)
		if status != http.StatusOK {
			p.t.Fatalf("%s: %d %s", kind, status, text)
		}
		all[kind] = strings.ReplaceAll(text, p.addr, "")
		if kind != "files" {
			continue
		}
		var list struct{ Data []struct{ ID, Slug string } }
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			p.t.Fatal(err)
		}
		for _, f := range list.Data {
			_, content := p.get("/x/"+f.Slug, key)
			sum := sha256.Sum256([]byte(content))
			all[f.ID] = hex.EncodeToString(sum[:])
		}
	}
	return all
}

// inhabit fills a running server and returns a key.
func (s *server) inhabit() (key string) {
	s.t.Helper()
	s.ann()
	// A check of a bookmark would change it at any time.
	settings := s.must("key", "create", "--user", "ann", "--name", "settings", "--scope", "admin")
	s.send(
		http.MethodPatch, "/api/v1/admin/settings", settings, "application/json", strings.NewReader(`{"linkChecks":false}`),
	)
	key = s.must("key", "create", "--user", "ann", "--name", "test")
	for i := range 5 {
		s.upload(key, fmt.Sprintf("file %d.txt", i), strings.Repeat(fmt.Sprint(i), 1000*i))
	}
	for kind, body := range map[string]string{
		"notes": `{"content":"a note","tags":["a","b"]}`, "bookmarks": `{"url":"https://example.org/","tags":["b"]}`,
		"snippets": `{"content":"x := 1"}`, "shorten": `{"originalUrl":"https://example.org/long"}`,
	} {
		s.post("/api/v1/"+kind, key, "application/json", strings.NewReader(body))
	}
	return key
}

// tree is every file below a folder and what it holds.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type() == fs.ModeSocket {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// The original, its backups and what is restored of them answer the same; and
// a folder is brought up to date by copying what is new alone.
func TestBackupAndRestore(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	key := s.inhabit()
	first := s.must("backup", "copy")
	is.True(strings.Contains(first, "5 files, 5 of them"))
	s.upload(key, "later.txt", "later")
	is.True(strings.Contains(s.must("backup", "copy"), "6 files, 1 of them (5 B) copied now"))
	want := s.everything(key)
	digest := func(dir string) string {
		var v struct{ Digest string }
		is.NoErr(json.Unmarshal([]byte(s.must("verify", dir, "--json")), &v))
		return v.Digest
	}
	var piped result
	before, after := "", "-"
	for before != after { // views and uses of keys are written a little late
		before = digest("kist-data")
		is.True(strings.Contains(s.must("backup", "copy"), "6 files"))
		is.True(strings.Contains(s.must("backup", "copy.tar"), "6 files"))
		piped = s.run("", "backup", "-")
		is.Equal(piped.code, 0)
		after = digest("kist-data")
	}
	s.stop()
	is.True(strings.Contains(s.must("backup", "stopped"), "6 files")) // no server is needed

	for name, restore := range map[string]func(*place) result{
		"folder":  func(p *place) result { return p.run("", "restore", s.path("copy")) },
		"tar":     func(p *place) result { return p.run("", "restore", s.path("copy.tar")) },
		"pipe":    func(p *place) result { return p.run(piped.out, "restore", "-") },
		"data":    func(p *place) result { return p.run("", "restore", s.data()) },
		"stopped": func(p *place) result { return p.run("", "restore", s.path("stopped")) },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			r := restore(p)
			is.Equal(r.err, "")
			is.Equal(r.code, 0)
			if name != "data" && name != "stopped" {
				is.Equal(digest(p.data()), before)
			}
			again := p.serve()
			is.True(maps.Equal(again.everything(key), want))
			again.stop()
			r = restore(p)
			is.Equal(r.code, 1)
			is.True(strings.Contains(r.err, "is not empty"))
		})
	}
	t.Run("as it is", func(t *testing.T) { // a backup is a data directory
		is := is.New(t)
		p := newPlace(t)
		is.NoErr(os.CopyFS(p.data(), os.DirFS(s.path("copy"))))
		is.NoErr(os.Chmod(p.data(), 0o700))
		is.True(maps.Equal(p.serve().everything(key), want))
	})
}

// After a power cut the newest commits may be in journal.RecentName alone. A tar of the
// data directory has them.
func TestRestoreTarAfterPowerCut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.ann()
	key := s.must("key", "create", "--user", "ann", "--name", "load")
	addNotes(t, s.place, key, 0, 50)
	s.kill()
	recent, err := os.ReadFile(s.data("journal", journal.RecentName))
	is.NoErr(err)
	base := int64(big.BigEndian.Uint64(recent[88:]))
	log, size := newest(t, s.place)
	is.True(base < size)
	is.NoErr(os.Truncate(s.data("journal", log), base))
	is.NoErr(os.CopyFS(s.path("cut", "journal"), os.DirFS(s.data("journal"))))

	var b bytes.Buffer
	to := tar.NewWriter(&b)
	is.NoErr(to.AddFS(os.DirFS(s.path("cut"))))
	is.NoErr(to.Close())
	p := newPlace(t)
	r := p.run(b.String(), "restore", "-")
	is.Equal(r.err, "")
	is.Equal(r.code, 0)
	again := p.serve()
	hasNotes(t, p, key, 50)
	again.stop()
}

// A folder that is no backup, and a data directory, are left alone.
func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.inhabit()
	is.NoErr(os.MkdirAll(s.path("photos", "2024"), 0o700))
	s.write("photos/a.jpg", "a")
	before := tree(t, s.path("photos"))
	r := s.run("", "backup", "photos")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "no backup of kist"))
	is.True(maps.Equal(tree(t, s.path("photos")), before))
	r = s.run("", "backup", "kist-data")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "is in the data directory"))
	is.Equal(s.run("", "--data-dir", "nowhere", "backup", "x").code, 3)
	_, err := os.Stat(s.path("x"))
	is.True(os.IsNotExist(err))

	for _, args := range [][]string{{"restore", "nowhere"}, {"restore", "--missing", "nowhere"}} { // the source first
		is.Equal(s.run("", args...), result{3, "", "There is no backup at nowhere.\n"})
	}

	p := newPlace(t)
	is.Equal(p.run("", "restore", "nowhere").code, 3)
	is.Equal(
		p.run(
			"not a tar at all, but long enough to be taken for the first block of one"+strings.Repeat(" ", 600), "restore", "-",
		).code,
		1,
	)
	r = p.run("", "restore", "-")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "no journal in standard input"))
	entries, err := os.ReadDir(p.data())
	is.True(err == nil && len(entries) == 0 || os.IsNotExist(err)) // nothing is left behind
}

// A backup is not written over by another instance, nor by an older state, and
// what has gone bad in it is mended.
func TestBackupKeeps(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	key := s.inhabit()
	s.must("backup", "copy")
	before := tree(t, s.path("copy"))
	other := newPlace(t)
	other.ann()
	r := other.run("", "backup", s.path("copy"))
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "another instance"))
	is.True(maps.Equal(tree(t, s.path("copy")), before))

	old := newPlace(t)
	old.must("restore", s.path("copy"))
	s.upload(key, "later.txt", "later")
	s.must("backup", "copy")
	before = tree(t, s.path("copy"))
	r = old.run("", "backup", s.path("copy"))
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "a later state"))
	is.True(maps.Equal(tree(t, s.path("copy")), before))

	for name, content := range before {
		if content == "later" {
			is.NoErr(os.WriteFile(name, []byte("lates"), 0o600))
		}
	}
	is.Equal(s.run("", "verify", "copy").code, 4)
	is.True(strings.Contains(s.must("backup", "copy"), "6 files, 1 of them"))
	is.True(maps.Equal(tree(t, s.path("copy", "blobs")), tree2(before, s.path("copy", "blobs"))))
	is.Equal(s.run("", "backup", "kist-data/x").code, 1)
}

// tree2 is the part of a tree below a folder.
func tree2(all map[string]string, dir string) map[string]string {
	part := map[string]string{}
	for name, content := range all {
		if strings.HasPrefix(name, dir+string(filepath.Separator)) {
			part[name] = content
		}
	}
	return part
}

// What is removed is gone from the backup when it is brought up to date.
func TestBackupForgets(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	key := s.inhabit()
	id := s.upload(key, "gone.txt", "gone")
	s.must("backup", "copy")
	req, err := http.NewRequestWithContext(
		t.Context(), http.MethodDelete, "http://"+s.addr+"/api/v1/files/"+id+"?permanent=true", nil,
	)
	is.NoErr(err)
	req.Header.Set("x-api-key", key)
	resp, err := http.DefaultClient.Do(req)
	is.NoErr(err)
	resp.Body.Close()
	s.must("backup", "copy")
	for name, content := range tree(t, s.path("copy", "blobs")) {
		is.True(content != "gone")
		is.True(!strings.Contains(name, ".new-"))
	}
}

// Each kind of damage is found, named, and told by the exit code; a repair
// mends what can be.
func TestVerify(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.inhabit()
	is.True(strings.HasSuffix(s.must("verify"), "No problems found.")) // while it runs
	s.stop()
	is.True(strings.HasSuffix(s.must("verify"), "No problems found."))
	is.Equal(s.run("", "verify", "nowhere").code, 3)

	damaged := func(t *testing.T, harm func(dir string)) (p *place, key string) {
		t.Helper()
		s := newPlace(t).serve() // not a copy: one that is cut short starts
		key = s.inhabit()
		s.stop()
		harm(s.data())
		return s.place, key
	}
	flip := func(path string, at int) {
		b, err := os.ReadFile(path)
		is.NoErr(err)
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 0x40
		is.NoErr(os.WriteFile(path, b, 0o600))
	}
	blob := func(dir string) string {
		for _, name := range slices.Sorted(maps.Keys(tree(t, filepath.Join(dir, "blobs")))) {
			if info, err := os.Stat(name); err == nil && info.Size() > 0 {
				return name
			}
		}
		t.Fatal("no content")
		return ""
	}
	log := func(dir string) string { // without the working copy, which would be used as it is
		is.NoErr(os.RemoveAll(filepath.Join(dir, "cache")))
		return filepath.Join(dir, "journal", "log-0000000000000000")
	}
	for name, row := range map[string]struct {
		harm   func(dir string)
		says   string
		starts bool // still, and holds everything but the bytes
	}{
		"content gone":    {func(dir string) { is.NoErr(os.Remove(blob(dir))) }, "its bytes are missing", true},
		"content flipped": {func(dir string) { flip(blob(dir), 0) }, "its bytes are damaged", true},
		"content torn": {func(dir string) {
			is.NoErr(os.Truncate(blob(dir), 10))
		}, "its bytes are 10 and should be", true},
		"log flipped": {func(dir string) { flip(log(dir), 500) }, "journal/log-0000000000000000 is damaged at byte", false},
		"log head":    {func(dir string) { flip(log(dir), 3) }, "journal/log-0000000000000000 is damaged at byte 0", false},
		"log end":     {func(dir string) { flip(log(dir), -2) }, "journal/log-0000000000000000 is damaged", false},
		"log torn": {func(dir string) {
			is.NoErr(os.Truncate(log(dir), 1000))
		}, "journal/log-0000000000000000 is damaged", false},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			p, key := damaged(t, row.harm)
			r := p.run("", "verify")
			is.Equal(r.code, 4)
			is.True(strings.Contains(r.out, row.says))
			is.Equal(p.run("", "verify", "--json").code, 4)
			if !row.starts {
				r := p.run("", "serve")
				is.Equal(r.code, 1)
				if !strings.Contains(strings.ToLower(r.err), "journal/log-0000000000000000 is damaged") {
					t.Error(r.err)
				}
				is.True(strings.Contains(r.err, "kist verify --repair"))
				r = p.run("", "verify", "--repair")
				is.True(r.code == 0 || r.code == 4) // what is lost may be the records of contents
				is.True(strings.Contains(r.out, "Repair: "))
				is.Equal(len(tree(t, p.data("blobs"))), 5) // contents stay, whatever was lost
				is.Equal(p.run("", "verify").code, 0)
			}
			again := p.serve()
			if row.starts {
				status, _ := again.get("/api/v1/files", key)
				is.Equal(status, http.StatusOK)
			}
		})
	}
}

// verify has a running server look at its working copy, and names the damage.
func TestVerifyOfWorkingCopy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.ann()
	key := s.must("key", "create", "--user", "ann", "--name", "test")
	s.post("/api/v1/notes", key, "application/json", strings.NewReader(`{"content":"what is written"}`))
	path := s.data("cache", "kist.db")
	rewrite := func(from, to string) {
		text, err := os.ReadFile(path)
		is.NoErr(err)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		is.NoErr(err)
		defer f.Close()
		n := 0
		for at := bytes.Index(text, []byte(from)); at >= 0; at = bytes.Index(text, []byte(from)) {
			_, err := f.WriteAt([]byte(to), int64(at))
			is.NoErr(err)
			copy(text[at:], to)
			n++
		}
		is.True(n > 0)
	}
	s.must("verify") // the working copy has everything now
	rewrite("what is written", "what is damaged")
	r := s.run("", "verify")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "\ncache/kist.db has the digest "))
	is.True(strings.Contains(r.err, "1 problem was found"))
	rewrite("what is damaged", "what is written")
	is.True(strings.HasSuffix(s.must("verify"), "No problems found."))
}

// A folder on a disk that is not mounted is not made on the system's disk.
func TestBackupWithoutParent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	is.Equal(
		p.run("", "backup", "mnt/kist"),
		result{1, "", "No backup was made: there is no folder at mnt; create it, or mount the disk that should be there.\n"},
	)
	is.True(!p.exists(p.path("mnt")))
	is.NoErr(os.Mkdir(p.path("mnt"), 0o700))
	p.must("backup", "mnt/kist")
	p.must("backup", "mnt/kist") // again, into what is there
}

// download asks for a backup over HTTP.
func (p *place) download(ctx context.Context, key string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+"/api/v1/admin/backup", http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// A backup over HTTP is one that kist restore takes. Only one is made at a time. If the
// client goes away, nothing is left behind, and the next client gets one.
func TestDownloadBackup(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	key := s.inhabit()
	s.upload(key, "large.bin", strings.Repeat("larger than what sockets buffer ", 1<<20))
	want := s.everything(key)
	key = s.must("key", "create", "--user", "ann", "--name", "backup", "--scope", "admin")

	ctx, leave := context.WithCancel(t.Context())
	first := s.download(ctx, key)
	is.Equal(first.StatusCode, http.StatusOK)
	second := s.download(t.Context(), key)
	is.Equal(second.StatusCode, http.StatusServiceUnavailable)
	is.Equal(second.Header.Get("Retry-After"), "30")
	is.Equal(len(s.scratches()), 1)
	leave()
	s.until("the temporary files are gone", func() bool { return len(s.scratches()) == 0 })
	is.True(!s.exists(s.data("BACKUP"))) // it was not complete

	var whole *http.Response
	s.until("another may download", func() bool {
		whole = s.download(t.Context(), key)
		return whole.StatusCode == http.StatusOK
	})
	is.True(regexp.MustCompile(`^attachment; filename="kist-backup-\d{4}-\d\d-\d\d\.tar"$`).MatchString(whole.Header.Get("Content-Disposition")))
	text, err := io.ReadAll(whole.Body)
	is.NoErr(err)
	is.True(s.exists(s.data("BACKUP")))
	is.Equal(len(s.scratches()), 0)

	to := newPlace(t)
	is.Equal(to.run(string(text), "restore", "-").code, 0)
	is.Equal(to.run("", "verify").code, 0)
	is.Equal(to.serve().everything(key), want)
}

// A backup into a folder or a tar that is a symbolic link keeps the link. An empty
// folder that the user made stays, also if the backup fails.
func TestBackupKeepsLinks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	is.NoErr(os.MkdirAll(p.path("disk", "copy"), 0o755))
	is.NoErr(os.Mkdir(p.path("empty"), 0o700))
	is.NoErr(os.Mkdir(p.path("dir.tar"), 0o700))
	for link, to := range map[string]string{
		"copy": "disk/copy", "first.tar": "disk/second.tar", "again.tar": "first.tar",
	} {
		is.NoErr(os.Symlink(to, p.path(link)))
	}
	for _, dest := range []string{"copy", "first.tar", "again.tar"} {
		for range 2 {
			p.must("backup", dest)
			info, err := os.Lstat(p.path(dest))
			is.NoErr(err)
			is.Equal(info.Mode().Type(), fs.ModeSymlink)
		}
	}
	p.must("verify", "disk/copy")
	newPlace(t).must("restore", p.path("disk", "second.tar"))
	is.Equal(p.run("", "backup", "dir.tar").err, "No backup was made: there is a folder at dir.tar; name another file.\n")
	is.NoErr(os.RemoveAll(p.data("journal")))
	is.True(p.run("", "backup", "empty").code != 0)
	_, err := os.Stat(p.path("empty"))
	is.NoErr(err)
}

// A data directory whose journal is empty gets advice from each command, not only from
// the server.
func TestEmptyJournal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	for name := range tree(t, p.data("journal")) {
		is.NoErr(os.Remove(name))
	}
	for range 2 { // an empty folder, then none
		for _, args := range [][]string{
			{"verify"}, {"backup", "copy"}, {"restore", "kist-data", "--data-dir", "new"}, {"user", "list"},
		} {
			r := p.run("", args...)
			is.Equal(r.code, 1)
			is.True(strings.Contains(r.err, "kist-data, but the file INSTANCE says"))
			is.True(strings.Contains(r.err, "or run kist verify --repair if cache/kist.db is there"))
		}
		is.True(strings.Contains(p.run("", "doctor").out, "problem  journal: journal/ is empty or missing in"))
		is.NoErr(os.RemoveAll(p.data("journal")))
	}
	is.Equal(p.run("", "verify", "--repair").code, 0)
	is.True(strings.Contains(p.must("user", "list"), "ann"))
}

// What other programs leave in blobs is no damage.
func TestVerifyForeignNames(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	is.NoErr(os.MkdirAll(p.data("blobs", "lost+found"), 0o700))
	p.write("kist-data/blobs/.DS_Store", "")
	said := p.must("verify")
	is.True(strings.Contains(said, "\nNo harm: blobs/ has a name that is not one of kist's: \"lost+found\".\n"))
	is.True(strings.Contains(said, "\".DS_Store\"."))
	is.True(strings.HasSuffix(said, "\nAll data that is needed is intact."))
}

// What cannot be restored, and where no backup can be made, is named in a plain sentence.
func TestBackupMessages(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	p := newPlace(t)
	p.ann()
	p.must("backup", "whole.tar")
	whole, err := os.ReadFile(p.path("whole.tar"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("cut.tar", string(whole[:len(whole)/2]))
	p.write("text", "text")
	p.write("long", strings.Repeat("text", 1000))
	p.write("empty.tar", string(make([]byte, 1024)))
	p.script(`
kist restore cut.tar --data-dir new
err Nothing was restored: cut.tar ends too early; copy it once more, or use another backup.
exit 1

kist restore text --data-dir new
err Nothing was restored: text is not a tar; if it is compressed, unpack it first.
exit 1

kist restore long --data-dir new
err Nothing was restored: long is not a tar; if it is compressed, unpack it first.
exit 1

kist restore empty.tar --data-dir new
err Nothing was restored: there is no journal in empty.tar, so it is no backup of kist.
exit 1

kist restore nowhere --data-dir new
err There is no backup at nowhere.
exit 3

kist restore - --data-dir new
< text
err Nothing was restored: standard input is not a tar; if it is compressed, unpack it first.
exit 1

kist backup text
err No backup was made: there is a file at text; name a folder, or a file that ends in .tar.
exit 1

kist backup text/copy
err No backup was made: there is no folder at text; create it, or mount the disk that should be there.
exit 1

kist backup text/copy.tar
err No backup was made: there is no folder at text; create it, or mount the disk that should be there.
exit 1

kist backup nowhere/copy.tar
err No backup was made: there is no folder at nowhere; create it, or mount the disk that should be there.
exit 1

kist export nowhere/ann.zip --user ann
err No export was made: there is no folder at nowhere; create it, or mount the disk that should be there.
exit 1
`)
}

// Of several backups into one folder at once, one is made, and the others say why not. All
// is well afterwards.
func TestBackupsAtOnce(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	s.inhabit()
	for range 3 { // into a new folder, then into one that has a backup
		results := make(chan result)
		for range 6 {
			go func() { results <- s.run("", "backup", "copy") }()
		}
		done := 0
		for range 6 {
			r := <-results
			if r.code == 0 {
				done++
			} else if r.err != "No backup was made: another backup is being written to copy; wait until it is done.\n" {
				t.Error(r.err)
			}
		}
		is.True(done > 0)
		s.must("verify", "copy")
	}
	lock := s.path("copy", ".kist-scratch-lock")
	_, err := os.Stat(lock)
	is.True(os.IsNotExist(err))
	is.NoErr(os.WriteFile(lock, nil, 0o600)) // as a killed backup leaves it
	s.must("backup", "copy")
}
