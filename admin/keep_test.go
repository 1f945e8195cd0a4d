package admin_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

var keep = flag.String(
	"keep", "", "make a data directory of this program in testdata, under this name: see TestKeep",
)

// TestKeep makes a data directory with something of each kind and keeps it as test data, with what the
// API says about it. Each version has one, from the last commit before its tag:
//
//	KIST_TESTS=all go test ./admin -run TestKeep -keep 1.2.0
//
// Add the name to keptFormats then, with its format. The files are never made a
// second time: a later program would make those of its own format. Without the flag a directory is made
// and tried, and nothing is kept.
func TestKeep(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	const base = "http://127.0.0.1:17325"
	s := p.serve("--base-url", base)
	key := p.full()
	read := append([]string{}, keptPaths...)
	for path, list := range map[string]string{"notes": "versions", "collections": "items", "upload-requests": "queue"} {
		read = append(read, fmt.Sprintf("%s/%s/%s", path, p.firstOf(path, key), list))
	}
	made := older{Base: base, Key: key, Answers: map[string]any{}}
	for _, path := range read {
		made.Answers[path] = p.answer(path, key)
	}
	s.stop()
	p.must("verify")

	text, err := json.MarshalIndent(made, "", " ")
	is.NoErr(err)
	packed := pack(t, p.data())
	is.True(len(packed) < 16<<10) // it stays small
	to := t.TempDir()
	if *keep != "" {
		to = filepath.Join("testdata", *keep)
		is.NoErr(os.Mkdir(to, 0o750)) // the former ones stay as they are
	}
	is.NoErr(os.WriteFile(filepath.Join(to, "answers.json"), append(text, '\n'), 0o600))
	is.NoErr(os.WriteFile(filepath.Join(to, "data.tar.gz"), packed, 0o600))
	if *keep == "" {
		olderAnswers(t, to)
	}
}

// keptPaths are the lists whose answers are kept.
var keptPaths = []string{
	"me", "notes", "bookmarks", "snippets", "recipes", "games", "shorten", "files", "collections", "trash", "tags",
	"folders", "upload-requests", "integrations/webhooks", "admin/settings",
}

// full makes something of each kind, and returns ann's key.
func (p *place) full() (key string) {
	p.t.Helper()
	p.ann()
	key = p.must("key", "create", "--user", "ann", "--name", "kept", "--scope", "admin")
	send := func(method, path, body string) {
		p.t.Helper()
		p.send(method, "/api/v1/"+path, key, "application/json", strings.NewReader(body))
	}
	send(http.MethodPatch, "admin/settings", `{"trashDays":3650}`)
	for _, made := range [][2]string{
		{"notes", `{"title":"Plan","content":"one","tags":["home"]}`},
		{"bookmarks", `{"url":"https://example.org/","title":"Example","tags":["home"]}`},
		{"snippets", `{"title":"Hello","content":"print(1)","language":"python"}`},
		{"recipes", `{"title":"Pancakes","ingredients":"- 250 g flour\n- 2 eggs","instructions":"1. Whisk"}`},
		{"games", `{"title":"Chess","status":"playing","rating":9}`},
		{"shorten", `{"originalUrl":"https://example.org/long","slug":"long"}`},
		{"folders", `{"name":"Letters"}`},
		{"collections", `{"title":"Home","isPublic":true}`},
		{"upload-requests", `{"title":"Films","slug":"films","maxUploads":3}`},
		{
			"integrations/webhooks",
			`{"name":"Hook","url":"https://example.org/hook","events":["note.created"],"enabled":false}`,
		},
	} {
		send(http.MethodPost, made[0], made[1])
	}
	note, file := p.firstOf("notes", key), p.upload(key, "plan.txt", "first bytes")
	send(http.MethodPatch, "notes/"+note, `{"content":"two"}`)
	send(http.MethodPost, "collections/"+p.firstOf("collections", key)+"/items", `{"add":["`+note+`"]}`)
	p.shareWithBob(key)
	p.send(http.MethodPut, "/api/v1/files/"+file+"/content", key, "text/plain", strings.NewReader("other bytes"))
	p.send(http.MethodDelete, "/api/v1/files/"+p.upload(key, "gone.txt", "gone"), key, "", http.NoBody)
	p.leave("films", "a film")
	p.pictured(key)
	return key
}

// pictured makes a recipe and a note that show an attached file, and lets guests add to a collection.
func (p *place) pictured(key string) {
	p.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	err := form.WriteField("attach", "true")
	if err != nil {
		p.t.Fatal(err)
	}
	part, err := form.CreateFormFile("file", "soup.svg")
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = io.WriteString(part, `<svg xmlns="http://www.w3.org/2000/svg"/>`)
	if err != nil {
		p.t.Fatal(err)
	}
	err = form.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	file := p.post("/api/v1/upload", key, form.FormDataContentType(), &body)
	for path, text := range map[string]string{
		"recipes":         `{"title":"Soup","photoId":"` + file + `"}`,
		"notes":           `{"title":"Shown","content":"![soup](kist:` + file + `)"}`,
		"upload-requests": `{"title":"Guests","collectionId":"` + p.firstOf("collections", key) + `","requiresName":true}`,
	} {
		p.send(http.MethodPost, "/api/v1/"+path, key, "application/json", strings.NewReader(text))
	}
}

// shareWithBob makes bob a member of a collection, in which he puts a note of his own.
func (p *place) shareWithBob(key string) {
	p.t.Helper()
	if r := p.run("battery staple\n", "user", "add", "bob", "--password-stdin"); r.code != 0 {
		p.t.Fatal(r.err)
	}
	bobs := p.must("key", "create", "--user", "bob", "--name", "kept", "--scope", "all")
	bob, _ := p.answer("me", bobs).(map[string]any)["data"].(map[string]any)["id"].(string)
	items := "/api/v1/collections/" + p.firstOf("collections", key)
	p.send(http.MethodPut, items+"/members/"+bob, key, "application/json", strings.NewReader(`{"role":"add"}`))
	p.send(http.MethodPost, "/api/v1/notes", bobs, "application/json", strings.NewReader(`{"content":"of bob"}`))
	p.send(http.MethodPost, items+"/items", bobs, "application/json",
		strings.NewReader(`{"add":["`+p.firstOf("notes", bobs)+`"]}`))
}

// answer is what the API says at a path.
func (p *place) answer(path, key string) (v any) {
	p.t.Helper()
	status, body := p.get("/api/v1/"+path, key)
	if err := json.Unmarshal([]byte(body), &v); err != nil || status != http.StatusOK {
		p.t.Fatalf("%s: %d %s %v", path, status, body, err)
	}
	return v
}

// firstOf is the id of the first item in a list of the API.
func (p *place) firstOf(path, key string) string {
	p.t.Helper()
	return p.answer(path, key).(map[string]any)["data"].([]any)[0].(map[string]any)["id"].(string)
}

// pack makes a compressed tar of a data directory without what each start makes again.
func pack(t *testing.T, dir string) []byte {
	t.Helper()
	is := is.New(t)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range []string{"INSTANCE", "CLEAN"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		is.NoErr(err)
		is.NoErr(w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}))
		_, err = w.Write(text)
		is.NoErr(err)
	}
	for _, folder := range []string{"journal", "blobs"} {
		for path, text := range tree(t, filepath.Join(dir, folder)) {
			name, err := filepath.Rel(dir, path)
			is.NoErr(err)
			is.NoErr(w.WriteHeader(&tar.Header{
				Name: filepath.ToSlash(filepath.Dir(name)) + "/", Typeflag: tar.TypeDir, Mode: 0o700,
			}))
			is.NoErr(w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(text))}))
			_, err = w.Write([]byte(text))
			is.NoErr(err)
		}
	}
	is.NoErr(w.Close())
	is.NoErr(z.Close())
	return b.Bytes()
}
