package admin_test

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/embed"
)

// volatile are members of answers that say how a moment was and not what was
// stored.
var volatile = map[string]bool{
	"lastUsedAt": true, // the test uses the keys
	"checkedAt":  true, // pages are looked at again
	"usedBytes":  true, // the text of records counts too now
	// Deliveries are tried again.
	"queued": true, "lastTriedAt": true, "consecutiveFailures": true, "lastError": true, "lastStatus": true,
}

// TestFirstAnswers serves a data directory of the first round's program. The
// answers must have everything that they had.
func TestFirstAnswers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	is.NoErr(os.Mkdir(p.data(), 0o700))
	p.untar("testdata/first/data.tar.gz", p.data())
	text, err := os.ReadFile("testdata/first/answers.json")
	is.NoErr(err)
	var first struct {
		Keys    map[string]string
		Answers map[string]json.RawMessage
	}
	is.NoErr(json.Unmarshal(text, &first))

	p.must("verify")
	s := p.serve("--base-url", "http://127.0.0.1:17321")
	defer s.stop()
	for of, was := range first.Answers {
		who, path, _ := strings.Cut(of, " ")
		status, body := p.get("/api/v1"+path, first.Keys[who])
		is.Equal(status, 200)
		var a, b any
		is.NoErr(json.Unmarshal(was, &a))
		is.NoErr(json.Unmarshal([]byte(body), &b))
		for _, lost := range lacking(path, a, b) {
			t.Error(lost)
		}
	}
}

// TestOlderAnswers serves the data directories that former programs have left. Their answers must all be there, and
// what later formats added is used.
func TestOlderAnswers(t *testing.T) {
	t.Parallel()
	for name := range keptFormats {
		if name == "first" { // TestFirst serves that
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			olderAnswers(t, filepath.Join("testdata", name))
		})
	}
}

// A data directory of each version but the newest, which may not be released yet, is kept: see TestKeep.
func TestVersionsAreKept(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	changes, ok := embed.HelpTopic(embed.English, "changes")
	is.True(ok)
	versions := regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(changes.Text, -1)
	is.True(len(versions) > 0)
	for _, v := range versions[1:] {
		_, kept := keptFormats[v[1]]
		if !kept {
			t.Errorf("no data directory of version %s is kept", v[1])
		}
	}
}

// older is what a former program's API said about a kept data directory.
type older struct {
	Base    string
	Key     string
	Answers map[string]any
}

// readOlder reads what is kept. Of a trash that is emptied after some days it has nothing once they are over.
func readOlder(t *testing.T, from string) (o older) {
	t.Helper()
	is := is.New(t)
	text, err := os.ReadFile(filepath.Join(from, "answers.json"))
	is.NoErr(err)
	is.NoErr(json.Unmarshal(text, &o))
	trash, _ := o.Answers["trash"].(map[string]any)
	items, _ := trash["data"].([]any)
	for _, item := range items {
		purged, err := time.Parse(time.RFC3339, item.(map[string]any)["purgedAt"].(string))
		is.NoErr(err)
		if time.Now().After(purged.Add(-time.Hour)) {
			delete(o.Answers, "trash")
		}
	}
	return o
}

func olderAnswers(t *testing.T, from string) {
	is := is.New(t)
	p := newPlace(t)
	is.NoErr(os.Mkdir(p.data(), 0o700))
	p.untar(filepath.Join(from, "data.tar.gz"), p.data())
	older := readOlder(t, from)
	me := older.Answers["me"].(map[string]any)["data"].(map[string]any)
	delete(me, "textBytes") // grows when the metadata of an older file is examined

	p.must("verify")
	s := p.serve("--base-url", older.Base)
	read := func(path string) any { return p.answer(path, older.Key) }
	trashed := read("trash").(map[string]any)["total"]
	same := func() {
		for path, was := range older.Answers {
			for _, lost := range lacking(path, was, read(path)) {
				t.Error(lost)
			}
		}
	}
	same()
	id := older.Answers["notes"].(map[string]any)["data"].([]any)[0].(map[string]any)["id"].(string)
	for _, change := range [][3]string{
		{"DELETE", "notes/" + id, ""}, {"POST", "trash/restore", `{"ids":["` + id + `"]}`},
	} {
		p.send(change[0], "/api/v1/"+change[1], older.Key, "application/json", strings.NewReader(change[2]))
	}
	is.Equal(read("trash").(map[string]any)["total"], trashed)
	delete(older.Answers, "activity")
	same()
	files := older.Answers["files"].(map[string]any)["data"].([]any)
	slug := files[0].(map[string]any)["slug"].(string)
	p.send("PUT", "/api/v1/files/"+slug+"/content", older.Key, "text/plain", strings.NewReader("other bytes"))
	is.Equal(read("files/" + slug + "/versions").(map[string]any)["total"], 1.0)
	s.stop()
	p.must("verify")
}

// lacking lists what the first answer has and the other has not, or otherwise.
func lacking(at string, a, b any) (all []string) {
	switch a := a.(type) {
	case map[string]any:
		other, _ := b.(map[string]any)
		for name, v := range a {
			if w, there := other[name]; !there {
				all = append(all, at+"."+name+" is not there")
			} else if !volatile[name] {
				all = append(all, lacking(at+"."+name, v, w)...)
			}
		}
	case []any:
		other, _ := b.([]any)
		if len(a) != len(other) {
			return []string{fmt.Sprintf("%s has %d entries and had %d", at, len(other), len(a))}
		}
		for i := range a {
			all = append(all, lacking(fmt.Sprintf("%s[%d]", at, i), a[i], other[i])...)
		}
	default:
		none := a == "" && b == nil && strings.HasSuffix(at, "Url") // "" was an address that is not there
		if !none && !reflect.DeepEqual(a, b) {
			all = append(all, fmt.Sprintf("%s is %v and was %v", at, b, a))
		}
	}
	return all
}

// TestFirstExport takes in an export that the first round's program wrote and
// exports it again. Both must say the same.
func TestFirstExport(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	defer p.serve().stop()
	is.Equal(p.run("correct horse battery", "user", "add", "ann", "--admin", "--password-stdin").code, 0)
	first, err := filepath.Abs("testdata/first/export.zip")
	is.NoErr(err)
	p.must("import", "--user", "ann", first)
	p.must("export", "--user", "ann", p.path("again.zip"))
	is.Equal(zipped(t, p.path("again.zip")), zipped(t, first))
}

var fileID = regexp.MustCompile(`,"id":"[^"]*"`)

// zipped is the content of each file of an export. The first round wrote "" for
// a picture that a bookmark does not have, its recipes and games had no pictures, and its files no senders and no ids.
func zipped(t *testing.T, name string) map[string]string {
	t.Helper()
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	all := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		all[f.Name] = strings.ReplaceAll(string(text), `"imageUrl":""`, `"imageUrl":null`)
		all[f.Name] = strings.ReplaceAll(all[f.Name], `,"uploaderName":""`, "")
		all[f.Name] = fileID.ReplaceAllString(all[f.Name], "")
		for _, name := range []string{"photoId", "coverId"} {
			all[f.Name] = strings.ReplaceAll(all[f.Name], `,"`+name+`":null`, "")
		}
		if f.Name == "recipes.jsonl" {
			all[f.Name] = strings.ReplaceAll(all[f.Name], `,"imageUrl":null`, "")
		}
	}
	return all
}

// untar unpacks a compressed tar with the modes that a data directory has.
func (p *place) untar(name, dir string) {
	p.t.Helper()
	f, err := os.Open(name)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		p.t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			p.t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			if err := os.MkdirAll(path, 0o700); err != nil {
				p.t.Fatal(err)
			}
			continue
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
			p.t.Fatal(err)
		}
	}
}
