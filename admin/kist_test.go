package admin_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kist/kv/kvtest/needs"
)

var long = flag.Bool(
	"long", false, "kill, copy and damage many times more often; takes half an hour: also set -timeout",
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	needs.RaiseParallel()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "kist-test")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "kist")
		build := exec.Command(
			"go", "build", "-buildvcs=false", "-ldflags", "-X main.version=1.2.3-test", "-o", binary, "kist",
		)
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // static, as it is given away
		build.Stdout, build.Stderr = os.Stdout, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot build kist:", err)
			return 1
		}
		code := m.Run()
		needs.Print()
		return code
	}())
}

// patience bounds every wait for a condition. It only ends a test whose condition
// never comes true.
const patience = 2 * time.Minute

// A place is a folder to run kist in, with an environment of its own. The
// data directory is the default one.
type place struct {
	t    *testing.T
	dir  string
	env  []string
	addr string // of the server

	within func(*exec.Cmd) // changes what surrounds a command, unless nil
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{t: t, dir: t.TempDir(), addr: freeAddr(t)}
}

// given holds the addresses that freeAddr has returned.
var given sync.Map

// freeAddr is an address that nothing listens on. No two tests get the same
// one: a test may listen on its address late, or stop and listen again. Its port
// is below those that systems give to outgoing connections, which another
// process could have by then.
func freeAddr(t *testing.T) string {
	t.Helper()
	for {
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		l, err := net.Listen("tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if _, taken := given.LoadOrStore(addr, true); !taken {
			return addr
		}
	}
}

// path is a path in the place.
func (p *place) path(elem ...string) string {
	return filepath.Join(append([]string{p.dir}, elem...)...)
}

func (p *place) data(elem ...string) string {
	return p.path(append([]string{"kist-data"}, elem...)...)
}

func (p *place) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = p.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "KIST_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, "KIST_LISTEN="+p.addr), p.env...)
	if p.within != nil {
		p.within(cmd)
	}
	return cmd
}

type result struct {
	code     int
	out, err string
}

// run runs a command to its end.
func (p *place) run(stdin string, args ...string) result {
	p.t.Helper()
	var out, err bytes.Buffer
	cmd := p.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &err
	if e := cmd.Run(); e != nil && !errors.As(e, new(*exec.ExitError)) {
		p.t.Fatal(e)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), err.String()}
}

// must runs a command that has to succeed and returns what it printed.
func (p *place) must(args ...string) string {
	p.t.Helper()
	r := p.run("", args...)
	if r.code != 0 {
		p.t.Fatalf("kist %s: exit %d: %s", strings.Join(args, " "), r.code, r.err)
	}
	return strings.TrimSuffix(r.out, "\n")
}

// ann makes the administrator.
func (p *place) ann() {
	p.t.Helper()
	if r := p.run("correct horse\n", "user", "add", "ann", "--admin", "--password-stdin"); r.code != 0 {
		p.t.Fatal(r.err)
	}
}

// A server is a running kist serve.
type server struct {
	*place
	cmd  *exec.Cmd
	log  *buffer
	done chan struct{} // closed when the process has ended
}

// buffer is a buffer that may be read while a process writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// serve starts a server and waits until it has said where it listens.
func (p *place) serve(args ...string) *server {
	p.t.Helper()
	s := p.start(args...)
	p.until("the server listens", func() bool {
		select {
		case <-s.done:
			p.t.Fatalf("the server has ended: %s", s.log)
		default:
		}
		return s.listens()
	})
	return s
}

// start starts a server and does not wait for it.
func (p *place) start(args ...string) *server {
	p.t.Helper()
	s := &server{
		place: p, cmd: p.command(append([]string{"serve"}, args...)...), log: new(buffer), done: make(chan struct{}),
	}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	p.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	return s
}

// listens reports whether the server has said where it listens.
func (s *server) listens() bool { return strings.Contains(s.log.String(), "is reachable at") }

// kill ends the server without any notice.
func (s *server) kill() {
	s.t.Helper()
	s.signal(os.Kill)
	s.end()
}

// until waits for a condition.
func (p *place) until(what string, is func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("still not so: %s", what)
		}
	}
}

func (s *server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the end of the process and returns its exit code; -1 if a
// signal ended it.
func (s *server) end() int {
	s.t.Helper()
	select {
	case <-s.done:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		s.t.Fatalf("the server goes on: %s", s.log)
		return 0
	}
}

// stop ends the server as a service manager does.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.end(); code != 0 {
		s.t.Fatalf("exit %d: %s", code, s.log)
	}
}

// get asks the server and returns the status and the body.
func (p *place) get(path, key string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+p.addr+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-Api-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// script runs commands and compares what they print. A step is
//
//	kist ARGUMENTS      separated by white space; 'in quotes' for more words
//	< LINE              of standard input
//	out LINE            of standard output, all of it
//	err LINE            of standard error, all of it
//	exit CODE           unless 0
//
// In out and err, … stands for any text in the line.
func (p *place) script(text string) {
	p.t.Helper()
	for step := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var args []string
		var stdin, out, errs string
		code := 0
		for line := range strings.SplitSeq(step, "\n") {
			verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch verb {
			case "kist":
				for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(rest, -1) {
					args = append(args, m[1]+m[2])
				}
			case "<":
				stdin += rest + "\n"
			case "out":
				out += rest + "\n"
			case "err":
				errs += rest + "\n"
			case "exit":
				if _, err := fmt.Sscan(rest, &code); err != nil {
					p.t.Fatalf("%s: %v", line, err)
				}
			default:
				p.t.Fatalf("no such verb: %s", line)
			}
		}
		r := p.run(stdin, args...)
		if r.code != code || !matches(out, r.out) || !matches(errs, r.err) {
			p.t.Errorf("%s\ngot exit %d\nout %s\nerr %s", step, r.code, r.out, r.err)
		}
	}
}

func matches(want, got string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
	return regexp.MustCompile(`\A` + pattern + `\z`).MatchString(got)
}
