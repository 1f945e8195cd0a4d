package admin_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

var tusClient = flag.String(
	"tus-client", "", "a folder in which npm has installed tus-js-client: also upload with that, by Node.js",
)

// needsTusClient ends a test that uploads by Node.js.
func needsTusClient(t *testing.T) {
	t.Helper()
	if *tusClient == "" {
		needs.LeaveOut(t, "uploads by tus-js-client and Uppy", "no -tus-client")
	}
	needs.Programs(t, "uploads by tus-js-client and Uppy", "node")
}

// The client that most programs use for resumable uploads brings them to their
// end, unmodified, by way of connections that break after each MiB and a server
// that is killed at random: an owner's and a stranger's, in one stream and in
// pieces.
func TestTusClient(t *testing.T) {
	t.Parallel()
	needsTusClient(t)
	for _, pieces := range []int{0, 3_000_000} {
		t.Run(fmt.Sprintf("owner,%d", pieces), func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			s := p.serve()
			key := p.key()
			content := random(t, times(24<<20, 300<<20))
			s, path := p.client(s, "/api/v1/tus", key, content, pieces)
			_, header := p.at(path, key)
			status, body := p.get("/x/"+header.Get("X-Kist-Slug"), key)
			is.Equal(status, 200)
			is.Equal(sha256.Sum256([]byte(body)), sha256.Sum256(content))
			s.stop()
			p.must("verify")
		})
		t.Run(fmt.Sprintf("stranger,%d", pieces), func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			s := p.serve()
			key := p.key()
			p.post(
				"/api/v1/upload-requests", key, "application/json",
				strings.NewReader(`{"title":"Films","slug":"films","maxUploads":1}`),
			)
			content := random(t, times(24<<20, 300<<20))
			s, _ = p.client(s, "/api/v1/upload-requests/p/films/tus", "", content, pieces)
			is.Equal(sha256.Sum256(p.onlyReceived(key)), sha256.Sum256(content))
			s.stop()
			p.must("verify")
		})
	}
}

// onlyReceived is the content of the one file that strangers have sent.
func (p *place) onlyReceived(key string) []byte {
	p.t.Helper()
	_, queue := p.get("/api/v1/upload-requests/queue", key)
	var got struct {
		Items []struct{ ItemID, UploadRequestID string }
	}
	if err := json.Unmarshal([]byte(queue), &got); err != nil || len(got.Items) != 1 {
		p.t.Fatalf("%v: %s", err, queue)
	}
	_, body := p.get("/api/v1/upload-requests/"+got.Items[0].UploadRequestID+"/queue/"+got.Items[0].ItemID+"/content", key)
	return []byte(body)
}

// client uploads with the client and kills the server meanwhile. It returns the
// server that is there then, and the path of the upload.
func (p *place) client(s *server, endpoint, key string, content []byte, pieces int) (*server, string) {
	p.t.Helper()
	is := is.New(p.t)
	is.NoErr(os.WriteFile(p.path("content"), content, 0o600))
	w := p.wire()
	cmd := exec.Command(
		"node", "testdata/upload.mjs", *tusClient, p.path("content"), "http://"+w.l.Addr().String()+endpoint,
		fmt.Sprint(pieces), key,
	)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	is.NoErr(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	kills := 0
	for {
		select {
		case err := <-ended:
			if err != nil {
				p.t.Fatalf("%v: %s", err, errs.String())
			}
			p.t.Logf("%d kills, %d cuts", kills, w.cuts.Load())
			is.True(kills > 0 && int(w.cuts.Load()) >= len(content)>>21)
			return s, strings.TrimSpace(out.String())
		case <-w.now:
			kills++
			s.kill()
			s = p.serve()
		}
	}
}

// wire is a way to the server that breaks after each MiB.
type wire struct {
	l    net.Listener
	to   string
	now  chan struct{} // a moment to kill the server at
	cuts atomic.Int64
	work sync.WaitGroup
}

func (p *place) wire() *wire {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	w := &wire{l: l, to: p.addr, now: make(chan struct{}, 1)}
	w.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.work.Go(func() { w.carry(c) })
		}
	})
	p.t.Cleanup(func() {
		_ = l.Close()
		w.work.Wait()
	})
	return w
}

// carry brings a MiB of a connection to the server, and all answers back.
func (w *wire) carry(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer s.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, s)
		_ = c.Close() // and what is still coming has nowhere to go
	})
	first := int64(rand.IntN(1 << 20))
	n, err := io.CopyN(s, c, first)
	if err == nil && rand.IntN(3) == 0 {
		select {
		case w.now <- struct{}{}:
		default:
		}
	}
	if n == first {
		if _, err := io.CopyN(s, c, 1<<20-first); err == nil {
			w.cuts.Add(1)
		}
	}
	_ = s.Close()
	back.Wait()
}
