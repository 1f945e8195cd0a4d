package admin_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
)

// peak is the most memory that the server has had resident, in MiB, without the
// pages of its database, which the system can take back at any time.
func (s *server) peak() int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	kib := func(name string) int {
		_, text, _ := strings.Cut(string(status), "\n"+name+":")
		text, _, _ = strings.Cut(text, "kB")
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	return (kib("VmHWM") - kib("RssFile") - kib("RssShmem")) >> 10 // RssShmem are files of a tmpfs
}

// floodMost is how many MiB a server may have resident under any flood.
const floodMost = 256

// signInMost is how long the owner may take to sign in after a flood.
const signInMost = 30 * time.Second

// signsIn reports how long the owner takes to sign in while others flood.
func (s *server) signsIn(client *http.Client) time.Duration {
	s.t.Helper()
	begun := time.Now()
	for deadline := begun.Add(signInMost); ; {
		res, err := client.Post("http://"+s.addr+"/api/v1/auth/login", "application/json", strings.NewReader(`{"username":"ann","password":"correct horse"}`))
		if err != nil {
			if time.Now().After(deadline) {
				s.t.Fatal(err)
			}
			continue // the connections of the flood still count: they come from the same address
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusCreated {
			return time.Since(begun)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("status %d", res.StatusCode)
		}
	}
}

// Bodies of JSON that cost many times their length to build do not fill the
// memory, with a key or without.
func TestFloodOfBodies(t *testing.T) {
	alone(t)
	values := func(n int) string { return `{"z":[` + strings.Repeat(`{"a":{}},`, n/9) + `0]}` }
	for _, row := range []struct {
		name, path string
		length     int
		key        bool
		status     int
	}{
		{"sign-in", "/api/v1/auth/login", 990_000, false, 413},
		{"sign-in, as large as may be", "/api/v1/auth/login", 16_000, false, 422},
		{"device", "/api/v1/auth/device/token", 990_000, false, 400},
		{"password of an item", "/api/v1/notes/p/x", 990_000, false, 413},
		{"notes", "/api/v1/notes", 990_000, true, 422},
		{"tags", "/api/v1/tags", 990_000, true, 422},
	} {
		t.Run(row.name, func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			p.ann()
			key := p.must("key", "create", "--user", "ann", "--name", "laptop")
			s := p.serve()
			before := s.peak()
			body := values(row.length)
			transport := &http.Transport{MaxConnsPerHost: 64}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: signInMost}
			var wrong atomic.Value
			var work sync.WaitGroup
			for range 64 {
				work.Go(func() {
					for range 4 {
						req, err := http.NewRequest("POST", "http://"+p.addr+row.path, strings.NewReader(body))
						if err != nil {
							wrong.Store(err.Error())
							return
						}
						req.Header.Set("Content-Type", "application/json")
						if row.key {
							req.Header.Set("X-Api-Key", key)
						}
						res, err := client.Do(req)
						if err != nil {
							continue // cut off while it sends: the answer came early
						}
						if res.StatusCode != row.status && res.StatusCode != 503 && res.StatusCode != 429 {
							wrong.Store(res.Status)
						}
						_ = res.Body.Close()
					}
				})
			}
			work.Wait()
			is.Equal(wrong.Load(), nil)
			t.Logf("%d MiB before, %d MiB at most", before, s.peak())
			is.True(s.peak() < floodMost)
		})
	}
}

// Long notes, read as pages by many at once, do not fill the memory, and every
// note is on one page.
func TestFloodOfPages(t *testing.T) {
	alone(t)
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "laptop")
	s := p.serve()
	content := `","content":"` + strings.Repeat("long ", 209_000) + `"}`
	for n := range 120 {
		p.send("POST", "/api/v1/notes", key, "application/json", strings.NewReader(`{"title":"n`+strconv.Itoa(n)+content))
	}
	s.stop()
	s = p.serve()
	before := s.peak()
	var work sync.WaitGroup
	var largest, refused atomic.Int64
	for range 16 {
		work.Go(func() {
			for range 3 {
				req, err := http.NewRequest("GET", "http://"+p.addr+"/api/v1/notes?limit=500", http.NoBody)
				is.NoErr(err)
				req.Header.Set("X-Api-Key", key)
				res, err := http.DefaultClient.Do(req)
				is.NoErr(err)
				n, _ := io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode == 503 {
					refused.Add(1)
				} else if n > largest.Load() {
					largest.Store(n)
				}
			}
		})
	}
	work.Wait()
	t.Logf("%d MiB before, %d MiB at most; the largest page has %d bytes, %d refused", before, s.peak(), largest.Load(), refused.Load())
	is.True(largest.Load() <= 5<<20)
	is.True(s.peak() < 180) // MiB, while the search index merges what was stored before
	seen := 0
	for path := "/api/v1/notes?limit=500"; ; {
		status, body := p.get(path, key)
		is.Equal(status, 200)
		n := strings.Count(body, `"title":"n`)
		is.True(n > 0)
		seen += n
		_, next, _ := strings.Cut(body, `"nextCursor":`)
		if strings.HasPrefix(next, "null") {
			break
		}
		path = "/api/v1/notes?limit=500&cursor=" + strings.Split(next, `"`)[1]
	}
	is.Equal(seen, 120)
}

// Bodies that stop coming take no memory, nor does it stay taken when they are
// cut off; and others are served meanwhile.
func TestFloodOfStalledBodies(t *testing.T) {
	alone(t)
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	s := p.serve()
	var conns []net.Conn
	for range 400 {
		conn, err := net.Dial("tcp", p.addr)
		is.NoErr(err)
		defer conn.Close()
		conns = append(conns, conn)
		_, _ = fmt.Fprintf(conn, "POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 990000\r\n\r\n{\"z\":[")
		_, _ = conn.Write([]byte(strings.Repeat(`{"a":{}},`, 100_000)))
	}
	t.Logf("%d MiB at most with 400 bodies under way", s.peak())
	is.True(s.peak() < floodMost)
	for _, conn := range conns {
		_ = conn.Close()
	}
	is.True(s.signsIn(http.DefaultClient) < signInMost)
}
