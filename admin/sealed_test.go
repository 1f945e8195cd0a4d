package admin_test

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/blobs/s3/s3test"
	"kist/embed"
	"kist/kv/kvtest/needs"
)

// sheetOf makes a key file and returns the words of its recovery sheet, as they were printed.
func (p *place) sheetOf(file string) string {
	p.t.Helper()
	text := p.must("store", "key", file)
	words := regexp.MustCompile(`(?m)^( ?\d+\. [a-z]+ *)+$`).FindAllString(text, -1)
	var all []string
	for i, m := range regexp.MustCompile(`(\d+)\. ([a-z]+)`).FindAllStringSubmatch(strings.Join(words, "\n"), -1) {
		if m[1] != fmt.Sprint(i+1) { // they are read in rows
			p.t.Fatal(text)
		}
		all = append(all, m[2])
	}
	if len(all) != 26 {
		p.t.Fatal(text)
	}
	pasted := p.run(strings.Join(words, "\n"), "store", "key", file+".pasted", "--from-words")
	if pasted.code != 0 {
		p.t.Fatal(pasted.err)
	}
	return strings.Join(all, "\n")
}

// The key file and its sheet.
func TestStoreKey(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	words := p.sheetOf("store.key")
	file, err := os.ReadFile(p.path("store.key"))
	is.NoErr(err)
	info, err := os.Stat(p.path("store.key"))
	is.NoErr(err)
	is.Equal(info.Mode().Perm(), fs.FileMode(0o600))

	r := p.run("", "store", "key", "store.key")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "never overwritten"))
	r = p.run("1. "+strings.ToUpper(strings.ReplaceAll(words, "\n", " 2. ")), "store", "key", "again.key", "--from-words")
	is.Equal(r.code, 0)
	is.True(!strings.Contains(r.out, strings.Split(words, "\n")[0])) // the sheet is printed once
	again, err := os.ReadFile(p.path("again.key"))
	is.NoErr(err)
	is.Equal(string(again), string(file))
	r = p.run(strings.Replace(words, "\n", "\nkist\n", 1), "store", "key", "third.key", "--from-words")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, `"kist", is not one of the words`))
	_, err = os.Stat(p.path("third.key"))
	is.True(os.IsNotExist(err))

	for _, args := range [][]string{
		{"serve", "--store-key-file", "store.key"},
		{"store", "encrypt", "--store", "s3://bucket/home"},
		{"backup", "folder", "--key-file", "store.key"},
		{"restore", "s3://bucket/home", "--key-file", "store.key"},
	} {
		p.write("kist-data-of-"+args[0], "")
		if r := p.run("", args...); r.code != 2 && r.code != 3 || r.err == "" {
			t.Errorf("%v: %d %s", args, r.code, r.err)
		}
	}
}

// A backup that is encrypted with a key file is restored with it, and with nothing else. One that was changed
// leaves nothing behind.
func TestEncryptedBackup(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	p.upload(key, "marker.txt", strings.Repeat("marker of a file ", 20_000))
	want := p.everything(key)
	s.stop()
	p.sheetOf("backup.key")
	p.sheetOf("other.key")
	r := p.run("", "backup", "-", "--key-file", "backup.key")
	is.Equal(r.code, 0)
	stream := r.out
	is.True(!strings.Contains(stream, "marker") && !strings.Contains(stream, "journal"))
	p.must("backup", "whole.tar", "--key-file", "backup.key")
	p.must("backup", "plain.tar")
	plain, err := os.ReadFile(p.path("plain.tar"))
	is.NoErr(err)

	last := []byte(stream)
	last[len(last)-1] ^= 1
	middle := []byte(stream)
	middle[len(middle)/2] ^= 1
	for _, c := range []struct {
		what, stdin string
		args        []string
		says        string
	}{
		{"no key", stream, nil, "is encrypted; add --key-file"},
		{"another key", stream, []string{"--key-file", "other.key"}, "name the right file"},
		{"cut", stream[:len(stream)-1], []string{"--key-file", "backup.key"}, "was altered, or it ends too early"},
		{"cut at a chunk", stream[:48+65552], []string{"--key-file", "backup.key"}, "was altered, or it ends too early"},
		{"extended", stream + "x", []string{"--key-file", "backup.key"}, "was altered, or it ends too early"},
		{"changed at the end", string(last), []string{"--key-file", "backup.key"}, "was altered"},
		{"changed", string(middle), []string{"--key-file", "backup.key"}, "was altered"},
		{"forged", string(plain), []string{"--key-file", "backup.key"}, "is not encrypted"},
	} {
		r := p.run(c.stdin, append([]string{"restore", "-", "--data-dir", "new"}, c.args...)...)
		if r.code != 1 || !strings.Contains(r.err, c.says) {
			t.Errorf("%s: %d %s", c.what, r.code, r.err)
		}
		left, err := filepath.Glob(p.path("new", "*"))
		is.NoErr(err)
		is.Equal(len(left), 0)
		v := p.run(c.stdin, append([]string{"verify", "-"}, c.args...)...)
		want := 1
		if strings.Contains(c.says, "altered") {
			want = 4
		}
		if v.code != want || !strings.Contains(v.err, c.says) {
			t.Errorf("verify %s: %d %s", c.what, v.code, v.err)
		}
	}
	p.verifiesTars(stream, plain)

	for _, from := range []string{"-", "whole.tar"} {
		q := newPlace(t)
		r := q.run(stream, "restore", strings.Replace(from, "whole", p.path("whole"), 1), "--key-file", p.path("backup.key"))
		is.Equal(r.code, 0)
		s := q.serve()
		is.Equal(s.everything(key), want)
		s.stop()
	}
	files, err := filepath.Glob(p.data("blobs", "??", "*"))
	is.NoErr(err)
	is.NoErr(os.Remove(files[0]))
	is.Equal(p.run("", "restore", "whole.tar", "--missing").code, 1)
	out := p.must("restore", "whole.tar", "--missing", "--key-file", "backup.key")
	is.True(strings.Contains(out, "1 file"))
	p.must("verify")
}

// verifiesTars checks that verify reads tars as restore does: a sealed one of all that p has, and a plain one.
func (p *place) verifiesTars(stream string, plain []byte) {
	p.t.Helper()
	is := is.New(p.t)
	lacks := tarWithout(p.t, plain, "blobs/")
	changed := bytes.Replace(plain, []byte("marker of a file"), []byte("Marker of a file"), 1)
	p.write("lacks.tar", string(lacks))
	p.write("changed.tar", string(changed))
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		says        string
	}{
		{"sealed", "", []string{"whole.tar", "--key-file", "backup.key"}, 0, "No problems found"},
		{"sealed, by the other flag", "", []string{"whole.tar", "--store-key-file", "backup.key"}, 0, "No problems found"},
		{"a stream", stream, []string{"-", "--key-file", "backup.key"}, 0, "This copy counts as a backup"},
		{"plain", "", []string{"plain.tar"}, 0, "1 file of"},
		{"without a file", "", []string{"lacks.tar"}, 4, "its bytes are missing"},
		{"with a changed file", "", []string{"changed.tar"}, 4, "its bytes are damaged"},
		{"a stream on a new machine", stream, []string{"-", "--key-file", "backup.key", "--data-dir", "none"}, 2, "--scratch"},
		{"a file on a new machine", "", []string{"plain.tar", "--data-dir", "none"}, 0, "No problems found"},
		{"a folder", "", []string{".", "--key-file", "backup.key"}, 2, "is for a tar"},
		{"a store", "", []string{"s3://bucket/home", "--key-file", "backup.key"}, 2, "it is --store-key-file"},
		{"a repair", "", []string{"plain.tar", "--repair"}, 2, "restore the tar instead"},
		{"none", "", []string{"none.tar"}, 3, "no data directory"},
	} {
		r := p.run(c.stdin, append([]string{"verify"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.out+r.err, c.says) {
			p.t.Errorf("verify of %s: %d %s%s", c.name, r.code, r.out, r.err)
		}
		is.Equal(len(p.scratches()), 0)
	}
}

// tarWithout is a tar without the entries whose names begin with the prefix.
func tarWithout(t *testing.T, b []byte, prefix string) []byte {
	t.Helper()
	is := is.New(t)
	var out bytes.Buffer
	to, from := tar.NewWriter(&out), tar.NewReader(bytes.NewReader(b))
	for {
		h, err := from.Next()
		if err == io.EOF {
			break
		}
		is.NoErr(err)
		if strings.HasPrefix(h.Name, prefix) {
			continue
		}
		is.NoErr(to.WriteHeader(h))
		_, err = io.Copy(to, from)
		is.NoErr(err)
	}
	is.NoErr(to.Close())
	return out.Bytes()
}

// The drill of the handbook, word for word, after a plain store was encrypted: the disk is dead, and the new machine
// has the sheet. Until then nothing that was stored can be found in the bucket.
func TestEncryptedDrill(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	store := s3test.New(t)
	p := storing(t, "", store.Start())
	bucket := filepath.Join(store.Dir, s3test.BucketName)
	s := p.serve("--store-mode", "sync")
	key := p.key()
	bodies := [][]byte{[]byte("marker of a small file")}
	large := make([]byte, 70<<20)
	_, _ = rand.Read(large)
	bodies = append(bodies, large, large[:300<<10])
	for _, b := range bodies {
		p.upload(key, "marker.bin", string(b))
	}
	p.post("/api/v1/notes", key, "application/json", strings.NewReader(`{"title":"marker note","content":"marker text"}`))
	words := p.sheetOf("store.key")

	r := p.run("", "store", "encrypt", "--store", kistStore, "--store-key-file", "store.key")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "stop it first"))
	s.stop()
	out := p.must("store", "encrypt", "--store", kistStore, "--store-key-file", "store.key")
	is.True(strings.Contains(out, "is encrypted now"))
	is.True(strings.Contains(p.must("store", "encrypt", "--store", kistStore, "--store-key-file", "store.key"), "already"))
	is.True(p.start().end() != 0) // without the key
	plainly := p.run("", "verify", kistStore)
	is.Equal(plainly.code, 1)
	is.True(strings.Contains(plainly.err, "add --store-key-file"))

	s = p.serve("--store-mode", "sync", "--store-key-file", "store.key")
	bodies = append(bodies, []byte("marker of a later file"), large[:66<<20])
	for _, b := range bodies[3:] {
		p.upload(key, "marker.bin", string(b))
	}
	want := s.everything(key)
	is.Equal(p.run("", "doctor", "--store", kistStore, "--store-key-file", "store.key").code&^4, 0)
	s.kill()
	is.NoErr(os.RemoveAll(p.data()))
	is.Equal(found(t, bucket, marks(bodies)), "")
	is.True(found(t, bucket, []string{"kistseal"}) != "") // the control

	q := newPlace(t)
	q.addr, q.env = p.addr, slices.DeleteFunc(slices.Clone(p.env), func(v string) bool {
		return strings.HasPrefix(v, "KIST_STORE=")
	})
	page, ok := embed.HelpTopic(embed.English, "encryption")
	is.True(ok)
	drill := regexp.MustCompile("(?s)```sh drill\n(.*?)```").FindStringSubmatch(page.Text)
	is.True(drill != nil)
	ran := 0
	for line := range strings.Lines(strings.ReplaceAll(drill[1], "s3://bucket/home", kistStore)) {
		args := strings.Fields(line)
		switch {
		case args[0] == "export": // p.env has these of the test
			continue
		case args[1] == "serve":
			s = q.serve(args[2:]...)
		case strings.Contains(line, "--from-words"):
			is.Equal(q.run(words, args[1:]...).code, 0)
		case args[1] == "restore": // it names the time that the handbook asks to compare
			is.True(strings.Contains(q.must(args[1:]...), " up to the change at "))
		default:
			q.must(args[1:]...)
		}
		ran++
	}
	is.Equal(ran, 4)
	is.Equal(s.everything(key), want)
	status, body := q.get("/healthz", key)
	is.Equal(status, http.StatusOK)
	is.True(body != "")
	s.stop()
	is.Equal(q.run("", "verify", kistStore, "--full", "--store-key-file", "store.key").code, 0)
	is.Equal(found(t, bucket, marks(bodies)), "")
}

// marks are what would give contents away: parts of them, and their hashes in each form.
func marks(bodies [][]byte) []string {
	all := []string{"marker", "kistslot", "instance"}
	for _, b := range bodies {
		sum := sha256.Sum256(b)
		text := hex.EncodeToString(sum[:])
		all = append(all, string(b[:16]), string(sum[:]), text[:16], strings.ToUpper(text[:16]),
			base64.StdEncoding.EncodeToString(sum[:])[:16], base64.RawURLEncoding.EncodeToString(sum[:])[:16])
	}
	return all
}

// found returns the first object below a folder whose name or bytes have one of the marks; "" if none has.
func found(t *testing.T, dir string, marks []string) (name string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || name != "" {
			return err
		}
		b := []byte(path)
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b = append(b, text...)
		}
		for _, mark := range marks {
			if bytes.Contains(b, []byte(mark)) {
				name = path + " has " + mark
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}
