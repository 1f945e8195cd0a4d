package admin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// send sends a request that must succeed and returns the body of the answer.
func (p *place) send(method, path, key, media string, body io.Reader) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+p.addr+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		p.t.Fatalf("%s %s: %s %v %s", method, path, res.Status, err, text)
	}
	return string(text)
}

// discard uploads a file and removes it, so that its bytes have no record.
func (p *place) discard(key, content string) {
	p.t.Helper()
	p.send(http.MethodDelete, "/api/v1/files/"+p.upload(key, "some.txt", content)+"?permanent=true", key, "", http.NoBody)
}

// blob is the path of the file with the content.
func (p *place) blob(content string) string {
	sum := sha256.Sum256([]byte(content))
	name := hex.EncodeToString(sum[:])
	return p.data("blobs", name[:2], name)
}

func (p *place) exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// orphan leaves bytes of the given age without a record, as a crash does.
func (p *place) orphan(content string, age time.Duration) {
	p.t.Helper()
	name, at := p.blob(content), time.Now().Add(-age)
	for _, err := range []error{
		os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600), os.Chtimes(name, at, at),
	} {
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// stick puts something in the place of a content that cannot be removed.
func (p *place) stick(content string) {
	p.t.Helper()
	name := p.blob(content)
	for _, err := range []error{os.RemoveAll(name), os.MkdirAll(filepath.Join(name, "in the way"), 0o700)} {
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *place) key() string {
	p.t.Helper()
	p.ann()
	return p.must("key", "create", "--user", "ann", "--name", "laptop")
}

// The bytes of a removed file go when their delay is over.
func TestSweep(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	p.discard(key, "one")
	p.upload(key, "some.txt", "kept")
	s.stop()
	s = p.serve() // within the delay
	s.stop()
	is.True(p.exists(p.blob("one")))
	s = p.serve("--gc-delay", "0s")
	p.until("the bytes are gone", func() bool { return !p.exists(p.blob("one")) })
	is.True(p.exists(p.blob("kept")))
	s.stop()
}

// The thumbnail of a removed picture goes, without a delay.
func TestSweepThumbs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	var picture bytes.Buffer
	is.NoErr(png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8))))
	kept := p.upload(key, "kept.png", picture.String())
	picture.WriteString("another")
	gone := p.upload(key, "gone.png", picture.String())
	thumbs := func() int {
		names, err := filepath.Glob(p.data("cache", "thumbs", "*", "*"))
		is.NoErr(err)
		return len(names)
	}
	for _, id := range []string{kept, gone} {
		slug := regexp.MustCompile(`"slug":"([^"]+)"`).FindStringSubmatch(p.send(
			http.MethodGet, "/api/v1/files/"+id, key, "", http.NoBody,
		))[1]
		p.send(http.MethodGet, "/t/"+slug, key, "", http.NoBody)
	}
	p.until("both thumbnails are kept", func() bool { return thumbs() == 2 })
	p.send(http.MethodDelete, "/api/v1/files/"+gone+"?permanent=true", key, "", http.NoBody)
	p.must("gc")
	is.Equal(thumbs(), 1)
	s.stop()
}

// The poster of a removed film goes, and that of another film with the same bytes stays.
func TestSweepPosters(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	var picture bytes.Buffer
	is.NoErr(png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8))))
	posters := func() int {
		names, err := filepath.Glob(p.data("cache", "thumbs", "poster*", "*", "*"))
		is.NoErr(err)
		return len(names)
	}
	ids := []string{p.upload(key, "kept.webm", "\x1aE\xdf\xa3"), p.upload(key, "gone.webm", "\x1aE\xdf\xa3")}
	for _, id := range ids {
		p.send(
			http.MethodPut, "/api/v1/files/"+id+"/poster", key, "application/octet-stream", bytes.NewReader(picture.Bytes()),
		)
	}
	is.Equal(posters(), 4) // two sizes of each
	p.send(http.MethodDelete, "/api/v1/files/"+ids[1], key, "", http.NoBody)
	p.must("gc")
	is.Equal(posters(), 2)
	s.stop()
}

// The icon of a site goes when no bookmark leads there any more.
func TestSweepIcons(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			_ = png.Encode(w, image.NewGray(image.Rect(0, 0, 32, 32))) // the server may have gone
		}
	}))
	defer site.Close()
	p := newPlace(t)
	s := p.serve("--allow-outbound", "127.0.0.0/8")
	key := p.key()
	made := p.send(
		http.MethodPost, "/api/v1/bookmarks", key, "application/json", strings.NewReader(`{"url":"`+site.URL+`"}`),
	)
	at := "/api/v1/bookmarks/" + regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(made)[1]
	p.until("the bookmark has its icon", func() bool {
		return strings.Contains(p.send(http.MethodGet, at, key, "", http.NoBody), `/t/`)
	})
	icons := func() []string {
		names, err := filepath.Glob(p.data("cache", "icons", "*", "*"))
		is.NoErr(err)
		return names
	}
	is.Equal(len(icons()), 1)
	old := time.Now().Add(-3 * time.Hour)
	is.NoErr(os.Chtimes(icons()[0], old, old))
	p.must("gc")
	is.Equal(len(icons()), 1)
	p.send(http.MethodDelete, at, key, "", http.NoBody)
	p.must("gc")
	is.Equal(len(icons()), 0)
	s.stop()
}

// What cannot be removed keeps nothing else.
func TestSweepPassesOver(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	contents := strings.Fields("a b c d e f g h i j k l")
	first := contents[0] // in the order of a sweep
	for _, c := range contents {
		p.discard(key, c)
		if p.blob(c) < p.blob(first) {
			first = c
		}
	}
	s.stop()
	p.stick(first)
	p.orphan("orphan", 25*time.Hour)
	s = p.serve("--gc-delay", "0s")
	p.until("all the others are gone", func() bool {
		left, err := filepath.Glob(p.data("blobs", "??", "*"))
		is.NoErr(err)
		return len(left) == 1 && left[0] == p.blob(first)
	})
	p.until("the log says why", func() bool {
		return strings.Contains(s.log.String(), "the sweep has failed") && strings.Contains(
			s.log.String(), filepath.Base(p.blob(first)),
		)
	})
	s.stop()
}

// gc does the same over the socket and without a server.
func TestGC(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for _, live := range []bool{true, false} {
		t.Run(map[bool]string{true: "live", false: "stopped"}[live], func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			s := p.serve()
			key := p.key()
			p.discard(key, "one")
			p.discard(key, "other")
			p.upload(key, "some.txt", "kept")
			p.orphan("old", 25*time.Hour)
			p.orphan("some", 2*time.Hour)
			p.orphan("young", time.Minute)
			if !live {
				s.stop()
			}
			p.script(`
kist gc
out There is nothing to remove.

kist gc
out There is nothing to remove.
`)
			// An orphan's age does not count: it must be known for the delay.
			is.True(p.exists(p.blob("one")) && p.exists(p.blob("some")) && p.exists(p.blob("old")))
			p.script(`
kist gc --now --json
out {
out   "blobs": 4,
out   "bytes": 15,
out   "temporaryFiles": 0,
out   "failed": 0,
out   "thumbnails": 0,
out   "icons": 0
out }

kist gc --now
out There is nothing to remove.
`)
			is.True(p.exists(p.blob("kept")) && p.exists(p.blob("young")))
			is.True(!p.exists(p.blob("one")) && !p.exists(p.blob("other")) && !p.exists(p.blob("some")))
			if live {
				s.stop()
			}
		})
	}
}

// An upload under way keeps its content, were it just removed elsewhere.
func TestGCSparesUploads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	finish := slowUpload(t, p.addr, key)
	p.discard(key, "one")
	is.Equal(p.must("gc", "--now"), "Removed 1 blob and freed 3 B.")
	is.Equal(finish(), http.StatusCreated)
	is.Equal(p.must("gc", "--now"), "There is nothing to remove.")
	s.stop()
}

func TestGCDelayWithoutServer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.discard(p.key(), "one")
	s.stop()
	p.env = []string{"KIST_GC_DELAY=0s"}
	is.Equal(p.must("gc"), "Removed 1 blob and freed 3 B.")
}

// What gc cannot remove it tells after what it could.
func TestGCSaysWhatStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	p.discard(key, "one")
	p.discard(key, "other")
	s.stop()
	p.stick("one")
	p.script(`
kist gc --now --log-level error --log-format json
out Removed 1 blob and freed 5 B.
err {…"a blob cannot be unlinked; the next sweep tries again"…}
err Blobs that cannot be unlinked: 1, the first for this reason: …
exit 1

kist gc --now --json
out {
out   "blobs": 0,
out   "bytes": 0,
out   "temporaryFiles": 0,
out   "failed": 1,
out   "thumbnails": 0,
out   "icons": 0,
out   "error": "blobs that cannot be unlinked: 1, …"
out }
err …level=ERROR…
err {…"error":"Blobs that cannot be unlinked: 1, …
exit 1
`)
}

// The operator lists, restores and empties the trash of a user, with a server and without.
func TestTrashCommands(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := s.inhabit()
	var made struct{ Data struct{ ID string } }
	is.NoErr(json.Unmarshal(
		[]byte(p.send(
			http.MethodPost, "/api/v1/notes", key, "application/json",
			strings.NewReader(`{"title":"Plan","content":"c","slug":"plan"}`),
		)),
		&made,
	))
	remove := func() { p.send(http.MethodDelete, "/api/v1/notes/"+made.Data.ID, key, "", http.NoBody) }
	remove()
	list := p.must("trash", "list", "--user", "ann")
	is.True(strings.Contains(list, made.Data.ID) && strings.Contains(list, "Plan"))
	is.Equal(p.must("trash", "restore", made.Data.ID, "--user", "ann"), "Restored 1 item.")
	is.Equal(p.must("trash", "list", "--user", "ann"), "The trash is empty.")
	is.True(p.run("", "trash", "restore", made.Data.ID, "--user", "ann").code != 0)
	is.True(p.run("", "trash", "list", "--user", "nobody").code != 0)
	remove()
	other := uuid.NewString()
	r := p.run("", "trash", "restore", other, made.Data.ID, "--user", "ann") // what is there is restored
	is.Equal(r.code, 3)
	is.Equal(r.out, "Restored 1 item.\n")
	is.True(strings.Contains(r.err, other))
	remove()
	p.send(http.MethodPost, "/api/v1/notes", key, "application/json", strings.NewReader(`{"content":"c","slug":"plan"}`))
	s.stop()
	is.True(strings.Contains(
		p.must("trash", "restore", made.Data.ID, "--user", "ann"), "The link name plan is in use; the note has ",
	))
	is.Equal(p.must("trash", "empty", "--user", "ann"), "The trash of ann is empty.")
}
