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

	"kist/kv/kvtest/needs"
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

// signInMost is how long a test waits for the owner to be signed in.
const signInMost = 30 * time.Second

// underFlood signs the owner in a few times while others flood. That takes no longer than
// two seconds, or than it takes a slow machine without a flood.
func (s *server) underFlood(quiet time.Duration) {
	s.t.Helper()
	limit := max(2*time.Second, 16*quiet)
	for range 5 {
		if took := s.signsIn(http.DefaultClient); took > limit {
			s.t.Errorf("the owner is signed in within %v, and within %v without a flood", took, quiet)
		}
	}
}

// signsIn reports how long the owner takes to sign in while others flood.
func (s *server) signsIn(client *http.Client) time.Duration {
	s.t.Helper()
	begun := time.Now()
	for deadline := begun.Add(signInMost); ; {
		res, err := client.Post(
			"http://"+s.addr+"/api/v1/auth/login", "application/json",
			strings.NewReader(`{"username":"ann","password":"correct horse"}`),
		)
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
// memory. Those of visitors are shorter: httpapi floods every route that they can reach.
func TestFloodOfBodies(t *testing.T) {
	needs.Time(t)
	needs.Alone(t)
	values := func(n int) string { return `{"z":[` + strings.Repeat(`{"a":{}},`, n/9) + `0]}` }
	for _, row := range []struct {
		name, path string
		status     int
	}{
		{"notes", "/api/v1/notes", 422},
		{"tags", "/api/v1/tags", 422},
	} {
		t.Run(row.name, func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			p.ann()
			key := p.must("key", "create", "--user", "ann", "--name", "laptop")
			s := p.serve()
			before := s.peak()
			quiet := s.signsIn(http.DefaultClient)
			body := values(990_000)
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
						req.Header.Set("X-Api-Key", key)
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
			s.underFlood(quiet)
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
	needs.Time(t)
	needs.Alone(t)
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
	quiet := s.signsIn(http.DefaultClient)
	var work sync.WaitGroup
	var largest, refused atomic.Int64
	for range 16 {
		work.Go(func() {
			for range 6 {
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
	s.underFlood(quiet)
	work.Wait()
	t.Logf(
		"%d MiB before, %d MiB at most; the largest page has %d bytes, %d refused", before, s.peak(), largest.Load(),
		refused.Load(),
	)
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

// Wrong passwords for ever new names, from one address or from many that the server does
// not know, leave the owner room to sign in from an address that it knows.
func TestFloodOfSignIns(t *testing.T) {
	needs.Time(t)
	needs.Alone(t)
	for name, from := range map[string]func(int64) net.IP{
		"one address":   func(int64) net.IP { return net.IPv4(127, 0, 1, 1) },
		"new addresses": func(n int64) net.IP { return net.IPv4(127, 1, byte(n>>8), byte(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			p.ann()
			s := p.serve()
			quiet := s.signsIn(http.DefaultClient)
			var stop atomic.Bool
			var n, checked, refused atomic.Int64
			var work sync.WaitGroup
			for range 24 {
				work.Go(func() {
					for !stop.Load() {
						i := n.Add(1)
						dial := net.Dialer{LocalAddr: &net.TCPAddr{IP: from(i)}}
						client := &http.Client{Transport: &http.Transport{DialContext: dial.DialContext, DisableKeepAlives: true}}
						body := fmt.Sprintf(`{"username":"u%d","password":"wrong horse"}`, i)
						res, err := client.Post("http://"+p.addr+"/api/v1/auth/login", "application/json", strings.NewReader(body))
						if err != nil {
							continue // a limit of connections
						}
						_ = res.Body.Close()
						switch res.StatusCode {
						case http.StatusUnauthorized:
							checked.Add(1)
						case http.StatusTooManyRequests, http.StatusServiceUnavailable:
							refused.Add(1)
						default:
							t.Errorf("status %d", res.StatusCode)
						}
					}
				})
			}
			for range 3 {
				s.underFlood(quiet)
			}
			stop.Store(true)
			work.Wait()
			t.Logf("%d MiB at most; %d passwords checked, %d refused", s.peak(), checked.Load(), refused.Load())
			is.True(checked.Load() > 0 && refused.Load() > 0)
			is.True(s.peak() < floodMost)
		})
	}
}
