package admin_test

import (
	"image"
	"image/color"
	"image/jpeg"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// session is the block of a document that a test runs word for word.
func session(t *testing.T, document string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```sh session\n(.*?)\n```").FindStringSubmatch(documents(t)[document])
	if found == nil {
		t.Fatalf("%s has no session", document)
	}
	return found[1]
}

// play runs a session in bash, which must succeed.
func (p *place) play(text string, env ...string) string {
	p.t.Helper()
	out, err := p.try(text, env...)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// try runs a session in bash until a step of it fails. A server that the session has
// started may go on until the end of the test. So the output goes to a file: a pipe
// would stay open as long.
func (p *place) try(text string, env ...string) (out string, failed error) {
	p.t.Helper()
	needs.Programs(p.t, "the sessions of README and handbook", "bash", "curl", "sed", "cmp")
	p.photo("photo.jpg")
	p.write("session.sh", text)
	cmd := exec.Command("bash", "-eu", "session.sh")
	cmd.Dir = p.dir
	p.env = append(env, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	cmd.Env = p.command().Env
	printed, err := os.Create(p.path("session.out"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer printed.Close()
	cmd.Stdout, cmd.Stderr = printed, printed
	p.t.Cleanup(func() { p.reap() })
	failed = cmd.Run()
	b, err := os.ReadFile(printed.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b), failed
}

// A session whose step fails ends, although its server goes on.
func TestFailedSession(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	out, err := p.try(
		"kist serve &\nuntil [ -e kist-data/kist.sock ]; do :; done\necho before\nfalse\necho after", "KIST_LISTEN="+p.addr,
	)
	is.True(err != nil)
	is.True(strings.Contains(out, "before"))
	is.True(!strings.Contains(out, "after"))
	status, _ := p.get("/healthz", "")
	is.Equal(status, 200) // the server goes on
	p.reap()
	p.until("the server has ended", func() bool { return p.exists(p.data("CLEAN")) })
}

const usual = "127.0.0.1:7080"

// TestFirstSteps runs the session of the handbook word for word; only the port
// is another one where the usual one is taken.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	text, listen := session(t, "embed/help/first-steps.md"), "KIST_LISTEN="
	if l, err := net.Listen("tcp", usual); err == nil {
		l.Close()
	} else {
		text = strings.ReplaceAll(text, usual, p.addr)
		listen += p.addr
	}
	out := p.play(text, listen)
	for _, want := range []string{
		"Added ann, an administrator.",
		"the photo came back unchanged",
		"302 https://go.dev/doc/",
		`"content":"Buy *salt*."`,
		`"description":"Seen from the pier"`,
		`{"ok":true}`,
		"404",
	} {
		is.True(strings.Contains(out, want)) // the session's output
	}
}

// TestREADME runs the lines of the README with the key that they need.
func TestREADME(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "laptop")
	out := p.play(strings.ReplaceAll(session(t, "README.md"), usual, p.addr), "key="+key)
	for _, want := range []string{
		"http://" + p.addr + "/v/", `"url":"https://go.dev"`, `"total":1`, `"content":"Buy *salt*."`,
	} {
		is.True(strings.Contains(out, want)) // the session's output
	}
	s.stop()
}

// TestAPISession runs the commands of the handbook about the API.
func TestAPISession(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "laptop")
	out := p.play(strings.ReplaceAll(session(t, "embed/help/programs.md"), usual, p.addr), "key="+key)
	for _, want := range []string{
		`"username":"ann"`, `"content":"2 litres"`, `"total":2`, `"content":"rye, sliced"`, `"code":"changed_elsewhere"`,
		`"titel":"is not known here"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
	is.True(!strings.Contains(out, `"content":"white"`)) // the second change named a former state
	s.stop()
}

// photo writes a picture as a camera would.
func (p *place) photo(name string) {
	p.t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 320, 240))
	for y := range 240 {
		for x := range 320 {
			m.Set(x, y, color.RGBA{uint8(x * y >> 6), uint8(x), uint8(y), 255})
		}
	}
	f, err := os.Create(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	if err := jpeg.Encode(f, m, nil); err != nil {
		p.t.Fatal(err)
	}
}

// reap ends a server that a broken session has left, by the process id in its
// lock file.
func (p *place) reap() {
	if _, err := os.Stat(p.data("kist.sock")); err != nil {
		return
	}
	if text, err := os.ReadFile(p.data("LOCK")); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

// Answers in JSON have no newline at their end. A documented command that prints one adds it, so that the prompt of the
// shell stands on a line of its own. Texts end with one.
func TestCurlLinesEndAnswers(t *testing.T) {
	t.Parallel()
	elsewhere := regexp.MustCompile(`accept: text/plain| -o |[|>]`)
	count := 0
	for name, text := range documents(t) {
		text = strings.ReplaceAll(text, "\\\n", "")
		for _, found := range regexp.MustCompile(`(?m)^ *curl .*$`).FindAllString(text, -1) {
			count++
			if !elsewhere.MatchString(found) && !strings.HasSuffix(found, "; echo") {
				t.Errorf("%s: %s", name, found)
			}
		}
	}
	is.New(t).True(count > 15)
}
