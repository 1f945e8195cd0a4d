package apitest

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"kist/blobs"
)

// flip changes one bit of a content on the disk, in the middle, and makes the
// file an old one.
func (a *App) Flip(content string) blobs.Ref {
	a.Helper()
	ref := RefOf(content)
	name := filepath.Join(a.Server.Store.Dir(), "blobs", ref.String()[:2], ref.String())
	b, err := os.ReadFile(name)
	a.NoErr(err)
	b[len(b)/2] ^= 16
	a.NoErr(os.WriteFile(name, b, 0o600))
	a.NoErr(os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour-time.Duration(rand.IntN(1e6))*time.Second)))
	return ref
}

// fetch reads an address to its end. The error is that of a connection which
// ends before the answer does.
func (a *App) Fetch(path string, header http.Header) (status int, body []byte, cut error) {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Context(), "GET", a.URL+path, nil)
	a.NoErr(err)
	req.Header = header.Clone()
	req.Host = header.Get("Host")
	res, err := Plain.Do(req)
	a.NoErr(err)
	defer res.Body.Close()
	body, cut = io.ReadAll(res.Body)
	return res.StatusCode, body, cut
}

func RefOf(content string) blobs.Ref { return sha256.Sum256([]byte(content)) }
