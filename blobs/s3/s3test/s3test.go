// Package s3test runs real S3 servers for tests, and a proxy that makes requests
// to them fail.
package s3test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kist/blobs/s3"
	"kist/kv/kvtest/needs"
)

// The credentials and the bucket of every server.
const (
	KeyID, Secret = "kist", "kist-secret"
	BucketName    = "home"
)

// A Server is a folder and the gateways that serve it.
type Server struct {
	t    testing.TB
	Dir  string // has the bucket as a folder
	mu   sync.Mutex
	runs []*exec.Cmd
}

// New makes a server without a gateway. It leaves the test out if versitygw is
// not installed, and fails it if KIST_TEST_TOOLS is required.
func New(t testing.TB) *Server {
	t.Helper()
	needs.Programs(t, "object stores", "versitygw") // go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	s := &Server{t: t, Dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.Dir, BucketName), 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

// Start starts a gateway and returns its URL.
func (s *Server) Start() string {
	s.t.Helper()
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		addr := l.Addr().String()
		_ = l.Close()
		// #nosec G204 -- the folder of a test
		cmd := exec.Command("versitygw", "--port", addr, "--access", KeyID, "--secret", Secret,
			"--quiet", "--keep-alive", "posix", s.Dir)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		s.t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
		if answers(addr, ended) {
			s.mu.Lock()
			s.runs = append(s.runs, cmd)
			s.mu.Unlock()
			return "http://" + addr
		}
	}
	s.t.Fatal("versitygw does not start")
	return ""
}

// answers waits until a gateway answers. It is false if it ended before: another
// program may have taken its address.
func answers(addr string, ended chan struct{}) bool {
	for {
		select {
		case <-ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return true
		}
	}
}

// Kill ends the first gateway.
func (s *Server) Kill() { s.kill(func(*exec.Cmd) bool { return true }) }

// KillAt ends the gateway with the URL.
func (s *Server) KillAt(url string) {
	s.kill(func(run *exec.Cmd) bool { return slices.Contains(run.Args, strings.TrimPrefix(url, "http://")) })
}

func (s *Server) kill(which func(*exec.Cmd) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.runs, which)
	_ = s.runs[i].Process.Signal(syscall.SIGKILL)
	s.runs = slices.Delete(s.runs, i, i+1)
}

// Options returns the options of a bucket with a prefix of the test.
func Options(prefix string, endpoints ...string) s3.Options {
	return s3.Options{
		URL: "s3://" + BucketName + "/" + prefix, Endpoints: endpoints,
		KeyID: KeyID, Secret: Secret, Idle: 2 * time.Second,
	}
}

// A Fault is what a Proxy does with requests.
type Fault int

// The faults.
const (
	None       Fault = iota
	Cut              // close the connection at once
	Stall            // do not answer, and close the connection at the next Set
	Busy             // 503
	BusyFor          // 503 with Retry-After: 1
	ResetBody        // read the body, then close the connection
	LoseAnswer       // let the server do it, then close the connection
	Truncate         // answer only half of the body
	Slow             // pass the body of the answer in small pieces, with pauses
	Full             // there is no room
	Skewed           // the clocks differ by an hour
	Lax              // let a put win that came too late
)

// Faults are all faults but Lax, which is not one of the network.
var Faults = []Fault{Cut, Stall, Busy, BusyFor, ResetBody, LoseAnswer, Truncate, Slow, Full, Skewed}

func (f Fault) String() string {
	return [...]string{
		"none", "cut", "stall", "503", "503 with Retry-After", "reset after the body", "lost answer",
		"truncated answer", "slow answer", "full", "clocks differ", "late put",
	}[f]
}

// A Proxy stands between a client and a gateway.
type Proxy struct {
	URL    string
	mu     sync.Mutex
	decide func(*http.Request) Fault
	set    chan struct{} // closed by the next Set
	lost   func()
}

// OnLost sets a function that is called when the server has done what LoseAnswer wants.
func (p *Proxy) OnLost(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = fn
}

// Set sets the function that says what happens to a request; nil lets all pass.
// Calls of the function do not overlap.
func (p *Proxy) Set(decide func(*http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = decide
	close(p.set)
	p.set = make(chan struct{})
}

// Always returns a function for Set that does the same to all requests.
func Always(f Fault) func(*http.Request) Fault { return func(*http.Request) Fault { return f } }

// Times returns a function for Set that does it to the first n requests with the
// method; to all methods if it is "".
func Times(n int, method string, f Fault) func(*http.Request) Fault {
	return func(r *http.Request) Fault {
		if n == 0 || method != "" && r.Method != method {
			return None
		}
		n--
		return f
	}
}

// NewProxy starts a proxy to the gateway.
func NewProxy(t testing.TB, gateway string) *Proxy {
	t.Helper()
	to, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p := &Proxy{set: make(chan struct{})}
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := None
		p.mu.Lock()
		if p.decide != nil {
			fault = p.decide(r)
		}
		lost, set := p.lost, p.set
		p.mu.Unlock()
		switch fault {
		case Cut:
			panic(http.ErrAbortHandler)
		case Stall:
			select {
			case <-done:
			case <-set:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		case Busy, BusyFor:
			_, _ = io.Copy(io.Discard, r.Body)
			if fault == BusyFor {
				w.Header().Set("Retry-After", "1")
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w,
				"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
		case Full, Skewed:
			_, _ = io.Copy(io.Discard, r.Body)
			status, code := http.StatusInsufficientStorage, "XMinioStorageFull"
			if fault == Skewed {
				status, code = http.StatusForbidden, "RequestTimeTooSkewed"
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>No.</Message></Error>")
		case ResetBody:
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		case LoseAnswer:
			pass.ServeHTTP(httptest.NewRecorder(), r)
			if lost != nil {
				lost()
			}
			panic(http.ErrAbortHandler)
		case Lax:
			got := httptest.NewRecorder()
			pass.ServeHTTP(got, r)
			if got.Code == http.StatusPreconditionFailed {
				got.Code = http.StatusOK
			}
			w.WriteHeader(got.Code)
		case Truncate, Slow:
			got := httptest.NewRecorder()
			pass.ServeHTTP(got, r)
			for name, values := range got.Header() {
				w.Header()[name] = values
			}
			body := got.Body.Bytes()
			if r.Method != http.MethodHead {
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			}
			w.WriteHeader(got.Code)
			if fault == Truncate {
				_, _ = w.Write(body[:len(body)/2])
				if len(body) > 0 {
					panic(http.ErrAbortHandler)
				}
				return
			}
			for len(body) > 0 {
				n := min(len(body), max(1<<10, len(body)/8))
				_, _ = w.Write(body[:n])
				_ = http.NewResponseController(w).Flush()
				body = body[n:]
				select {
				case <-done:
				case <-time.After(20 * time.Millisecond):
				}
			}
		default:
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { close(done); server.CloseClientConnections(); server.Close() })
	p.URL = server.URL
	return p
}

// Open returns a bucket.
func Open(t testing.TB, o s3.Options) *s3.Bucket {
	t.Helper()
	b, err := s3.Open(o)
	if err != nil {
		t.Fatal(fmt.Errorf("opening a bucket: %w", err))
	}
	t.Cleanup(b.Close)
	return b
}
