package admin_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/blobs/s3/s3test"
	"kist/kv/kvtest/needs"
)

// part asks for a range of a file. It returns what came, and whether that was all of the answer.
func (p *place) part(key, path, part string) (status int, got []byte, whole bool) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.addr+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	if part != "" {
		req.Header.Set("Range", "bytes="+part)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, false
	}
	defer res.Body.Close()
	got, err = io.ReadAll(res.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		p.t.Fatal(err)
	}
	return res.StatusCode, got, err == nil
}

// A real server sends the right parts of files that are only in an encrypted store, and no wrong byte of one that
// was altered there.
func TestPartsOfEncryptedFiles(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	store := s3test.New(t)
	p := storing(t, "", store.Start())
	p.sheetOf("store.key")
	p.env = append(p.env, "KIST_STORE_KEY_FILE="+p.path("store.key"))
	s := p.serve("--store-mode", "sync")
	key := p.key()
	const chunk = 64 << 10
	size := 3*chunk + 100
	parts := []struct {
		part     string
		from, to int
	}{
		{"", 0, size},
		{"0-0", 0, 1},
		{"0-65535", 0, chunk},
		{"65535-65536", chunk - 1, chunk + 1},
		{"65536-131071", chunk, 2 * chunk},
		{"131072-", 2 * chunk, size},
		{"-100", size - 100, size},
		{"-101", size - 101, size},
		{"196607-196608", 3*chunk - 1, 3*chunk + 1},
		{fmt.Sprintf("%d-", size-1), size - 1, size},
		{"1-196700", 1, 196701},
		{"196608-999999", 3 * chunk, size},
	}
	var paths []string
	for n := range 2 * len(parts) {
		slug := fmt.Sprint("part-", n)
		s.put(key, slug, noise(uint64(n), size))
		paths = append(paths, "/x/"+slug)
	}
	s.stop()

	q := p.fetched()
	s = q.serve("--store-mode", "sync", "--cache-size", "64MiB")
	for i, c := range parts {
		_, got, whole := s.part(key, paths[i], c.part)
		is.True(whole)
		if want := noise(uint64(i), size)[c.from:c.to]; !bytes.Equal(got, want) {
			t.Errorf("%q: %d bytes of %d", c.part, len(got), len(want))
		}
	}

	objects, err := filepath.Glob(filepath.Join(store.Dir, s3test.BucketName, "kist", "sealed", "blobs", "??", "*"))
	is.NoErr(err)
	is.Equal(len(objects), 2*len(parts))
	for i, object := range objects {
		b, err := os.ReadFile(object)
		is.NoErr(err)
		switch i % 3 {
		case 0:
			b[len(b)/2] ^= 1
		case 1:
			b = b[:48+2*(chunk+16)]
		case 2:
			b = append(b, 0)
		}
		is.NoErr(os.WriteFile(object, b, 0o600)) // #nosec G703 -- in the folder of the test
	}
	for i, c := range parts {
		n := len(parts) + i
		status, got, whole := s.part(key, paths[n], c.part)
		want := noise(uint64(n), size)[c.from:c.to]
		if whole && status < 300 && !bytes.Equal(got, want) || status < 300 && !bytes.HasPrefix(want, got) {
			t.Errorf("%q of an altered one: %d, %d bytes", c.part, status, len(got))
		}
	}
	is.True(strings.Contains(p.run("", "verify", kistStore, "--full").out, "damaged"))
}
