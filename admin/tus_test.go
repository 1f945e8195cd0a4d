package admin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// tus sends a request of the protocol; the status is 0 if the server went away
// on the way.
func (p *place) tus(method, path, key string, body io.Reader, header ...string) (int, http.Header) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+p.addr+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-Api-Key", key)
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	req.Header.Set("Content-Type", "application/offset+octet-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header
}

// at asks where an upload is.
func (p *place) at(path, key string) (offset int, header http.Header) {
	p.t.Helper()
	status, header := p.tus("HEAD", path, key, nil)
	if status != 200 {
		p.t.Fatalf("the upload answers %d", status)
	}
	if _, err := fmt.Sscan(header.Get("Upload-Offset"), &offset); err != nil {
		p.t.Fatal(err)
	}
	return offset, header
}

// slowly reads in pieces and tells of each.
type slowly struct {
	r    io.Reader
	each func()
}

func (s *slowly) Read(b []byte) (int, error) {
	s.each()
	return s.r.Read(b[:min(len(b), 16<<10)])
}

// However often the server is killed while an upload comes in, what it had said
// to have is there, and the file is the one that was sent.
func TestKillUpload(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	content := random(t, times(6<<20, 200<<20))
	status, header := p.tus(
		"POST", "/api/v1/tus", key, nil, "Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata",
		"filename YS5iaW4=,slug YWxsLW9mLWl0",
	)
	is.Equal(status, 201)
	path := header.Get("Location")
	s, header = p.killing(s, path, key, content)
	is.Equal(header.Get("X-Kist-Slug"), "all-of-it")
	status, body := p.get("/x/all-of-it", key)
	is.Equal(status, 200)
	is.Equal(sha256.Sum256([]byte(body)), sha256.Sum256(content))
	s.kill()
	s = p.serve()
	offset, _ := p.at(path, key) // and a client whose last answer was lost uploads nothing again
	is.Equal(offset, len(content))
	s.stop()
	p.must("verify")
}

// So it is with what a stranger sends to an upload request, whose only place is
// kept meanwhile.
func TestKillSending(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	p.post(
		"/api/v1/upload-requests", key, "application/json",
		strings.NewReader(`{"title":"Films","slug":"films","maxUploads":1}`),
	)
	content := random(t, times(4<<20, 200<<20))
	begin := func() (int, string) {
		status, header := p.tus(
			"POST", "/api/v1/upload-requests/p/films/tus", "", nil, "Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata",
			"filename YS5iaW4=",
		)
		return status, header.Get("Location")
	}
	status, path := begin()
	is.Equal(status, 201)
	s, header := p.killing(s, path, "", content)
	is.Equal(header.Get("X-Kist-Status"), "pending")
	status, _ = begin()
	is.Equal(status, 403)
	_, queue := p.get("/api/v1/upload-requests/queue", key)
	var got struct {
		Items []struct{ ItemID, UploadRequestID string }
	}
	is.NoErr(json.Unmarshal([]byte(queue), &got))
	is.Equal(len(got.Items), 1)
	is.Equal(got.Items[0].ItemID, header.Get("X-Kist-Item"))
	_, body := p.get("/api/v1/upload-requests/"+got.Items[0].UploadRequestID+"/queue/"+got.Items[0].ItemID+"/content", key)
	is.Equal(sha256.Sum256([]byte(body)), sha256.Sum256(content))
	s.stop()
	p.must("verify")
}

func random(t *testing.T, n int) []byte {
	t.Helper()
	content := make([]byte, n)
	if _, err := rand.NewChaCha8([32]byte{8}).Read(content); err != nil {
		t.Fatal(err)
	}
	return content
}

// killing sends an upload to its end with the server killed again and again, and
// returns the server that is there then, and what it says of the end.
func (p *place) killing(s *server, path, key string, content []byte) (*server, http.Header) {
	p.t.Helper()
	is := is.New(p.t)
	said, kills := 0, 0
	for {
		offset, header := p.at(path, key)
		is.True(offset >= said) // what was said is there
		said = offset
		if offset == len(content) {
			p.t.Logf("%d kills", kills)
			is.True(kills > 0)
			return s, header
		}
		most := min(len(content)-offset, 64<<10+rand.IntN(1<<20))
		dies := 1 + rand.IntN(3*most/(16<<10)+3) // sometimes after the answer, however little is left
		n := 0
		body := &slowly{bytes.NewReader(content[offset : offset+most]), func() {
			n++
			if n == dies {
				s.kill()
			}
		}}
		if status, header := p.tus("PATCH", path, key, body, "Upload-Offset", fmt.Sprint(offset)); status != 0 {
			is.Equal(status, 204)
			said = offset + most
			is.Equal(header.Get("Upload-Offset"), fmt.Sprint(said))
		}
		if n < dies && rand.IntN(2) == 0 {
			s.kill()
			n = dies
		}
		if n >= dies {
			kills++
			s = p.serve()
		}
	}
}

// Parts are in no backup; what was restored goes on from the beginning. The
// sweep removes the bytes that no upload waits for.
func TestUploadsAndBackup(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := p.key()
	_, header := p.tus("POST", "/api/v1/tus", key, strings.NewReader("hello "), "Upload-Length", "11")
	path := header.Get("Location")
	parts, err := filepath.Glob(p.data("cache", "uploads", "parts", "*"))
	is.NoErr(err)
	is.Equal(len(parts), 1)
	p.must("backup", p.path("saved"))
	left, err := filepath.Glob(p.path("saved", "cache", "uploads", "parts", "*"))
	is.NoErr(err)
	is.Equal(len(left), 0)
	s.stop()

	stray := p.data("cache", "uploads", "parts", "01890a5d-ac96-774b-bcce-b302099a8057")
	is.NoErr(os.WriteFile(stray, []byte("nobody's"), 0o600))
	p.must("gc")
	is.True(!p.exists(stray) && p.exists(parts[0]))
	p.must("verify")

	is.NoErr(os.RemoveAll(p.data()))
	p.must("restore", p.path("saved"))
	s = p.serve()
	offset, _ := p.at(path, key)
	is.Equal(offset, 0)
	status, _ := p.tus("PATCH", path, key, strings.NewReader("hello world"), "Upload-Offset", "0")
	is.Equal(status, 204)
	_, header = p.at(path, key)
	sum := sha256.Sum256([]byte("hello world"))
	is.True(p.exists(p.data("blobs", hex.EncodeToString(sum[:1]), hex.EncodeToString(sum[:]))))
	is.True(header.Get("X-Kist-Slug") != "")
	s.stop()
}
