package admin_test

import (
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// remoteUploads are the server's, as far as these tests look at them.
func (p *place) remoteUploads(key string) []remoteUpload {
	p.t.Helper()
	var all struct{ Jobs []remoteUpload }
	status, body := p.get("/api/v1/remote-upload", key)
	if err := json.Unmarshal([]byte(body), &all); err != nil || status != http.StatusOK {
		p.t.Fatal(status, body, err)
	}
	return all.Jobs
}

type remoteUpload struct {
	State, Error string
	Bytes, Tries int
}

// However a server ends while it fetches a file, the next one goes on from the
// beginning; there is one file then, and nothing else is left.
func TestKillRemoteUpload(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	content := make([]byte, 1<<20)
	seed := rand.NewChaCha8([32]byte{9})
	_, err := seed.Read(content)
	is.NoErr(err)
	var whole atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if whole.Load() {
			_, _ = w.Write(content)
			return
		}
		_, _ = w.Write(content[:len(content)/2]) // and no more, until it is asked again
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(target.Close)
	p := newPlace(t)
	serve := func() *server { return p.serve("--allow-outbound", "127.0.0.1") }
	s := serve()
	key := p.key()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/api/v1/remote-upload",
		strings.NewReader(`{"url":"`+target.URL+`/all.bin","slug":"all-of-it"}`))
	is.NoErr(err)
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	is.NoErr(err)
	is.NoErr(res.Body.Close())
	is.Equal(res.StatusCode, http.StatusAccepted)
	half := func(tries int) {
		t.Helper()
		p.until("half of it is there", func() bool {
			now := p.remoteUploads(key)[0]
			return now.State == "running" && now.Tries == tries && now.Bytes == len(content)/2
		})
	}
	for n := range 2 { // a kill counts as a try
		half(n + 1)
		s.kill()
		p.must("verify")
		s = serve()
	}
	half(3)
	s.stop() // which does not wait for it, and counts for none
	s = serve()
	half(3)
	s.kill()
	whole.Store(true)
	s = serve()
	p.until("it is done", func() bool { return p.remoteUploads(key)[0].State == "done" })
	is.Equal(p.remoteUploads(key)[0], remoteUpload{State: "done", Bytes: len(content), Tries: 4})
	status, body := p.get("/x/all-of-it", key)
	is.Equal(status, 200)
	is.Equal(sha256.Sum256([]byte(body)), sha256.Sum256(content))
	status, body = p.get("/api/v1/files", key)
	is.Equal(status, 200)
	is.True(strings.Contains(body, `"total":1,`))
	s.stop()
	kept, err := filepath.Glob(p.data("blobs", "??", "*"))
	is.NoErr(err)
	is.Equal(len(kept), 1)
	p.must("verify")
}
