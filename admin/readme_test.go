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
)

// TestREADME runs the session of the README word for word; only the port is
// another one where the usual one is taken.
func TestREADME(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	needs(t, "the session of the README", "bash", "curl", "sed", "cmp")
	text, err := os.ReadFile("../README.md")
	is.NoErr(err)
	found := regexp.MustCompile("(?s)<!-- session[^\n]*-->\n+```sh\n(.*?)\n```").FindSubmatch(text)
	is.True(found != nil) // the README has a session
	session := string(found[1])

	p := newPlace(t)
	p.photo("photo.jpg")
	const usual = "127.0.0.1:7080"
	listen := "KIST_LISTEN="
	if l, err := net.Listen("tcp", usual); err == nil {
		l.Close()
	} else {
		session = strings.ReplaceAll(session, usual, p.addr)
		listen += p.addr
	}
	p.write("session.sh", session)
	cmd := exec.Command("bash", "-eu", "session.sh")
	cmd.Dir = p.dir
	p.env = []string{listen, "PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH")}
	cmd.Env = p.command().Env
	out, err := cmd.CombinedOutput()
	t.Cleanup(func() { p.reap() })
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"Added ann, an administrator.",
		"the photo came back as it went",
		"302 https://go.dev/doc/",
		`"content":"Buy *salt*."`,
		`"description":"Seen from the pier"`,
		`{"ok":true}`,
		"404",
	} {
		is.True(strings.Contains(string(out), want)) // the session's output
	}
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
