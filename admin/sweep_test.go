package admin_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
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
	p.send(http.MethodDelete, "/api/v1/files/"+p.upload(key, "some.txt", content), key, "", http.NoBody)
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
	for _, err := range []error{os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600), os.Chtimes(name, at, at)} {
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

// What cannot be removed keeps nothing else.
func TestSweepPassesOver(t *testing.T) {
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
		return strings.Contains(s.log.String(), "the sweep has failed") && strings.Contains(s.log.String(), filepath.Base(p.blob(first)))
	})
	s.stop()
}
