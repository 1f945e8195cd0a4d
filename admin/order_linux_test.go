package admin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"kist/kv/journal"
	"kist/kv/kvtest/needs"
)

// A syscall is one line of a trace: when it began and when it ended, in lines.
type syscallLine struct {
	begin, end int
	text       string // name, arguments and result
}

// trace reads what strace has written. A call that another thread's line came
// between is in two lines.
func trace(text string) []syscallLine {
	var calls []syscallLine
	open := map[string]int{} // by thread
	for n, line := range strings.Split(text, "\n") {
		thread, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if begun, is := strings.CutSuffix(rest, " <unfinished ...>"); is {
			open[thread] = len(calls)
			calls = append(calls, syscallLine{n, 1 << 30, begun})
		} else if strings.HasPrefix(rest, "<... ") {
			if i, is := open[thread]; is {
				_, more, _ := strings.Cut(rest, "resumed>")
				calls[i].end, calls[i].text = n, calls[i].text+more
				delete(open, thread)
			}
		} else {
			calls = append(calls, syscallLine{n, n, rest})
		}
	}
	return calls
}

// What is acknowledged is on stable storage: the bytes of a file, its name,
// and the record that refers to it, in this order, and then the answer.
func TestOrderOfSyncs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const what = "the order of syncs"
	needs.Programs(t, what, "strace")
	p := newPlace(t)
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	l := newLoad(t, p, key, 1)
	c := l.clients[0]

	cmd := p.command("serve")
	cmd.Args = append([]string{
		"strace", "-f", "-y", "-s", "100", "-e",
		"trace=fsync,fdatasync,syncfs,linkat,renameat,renameat2,write,writev,pwrite64", "-o", p.path("trace"), cmd.Path,
	}, cmd.Args[1:]...)
	cmd.Path, _ = exec.LookPath("strace")
	log := new(buffer)
	cmd.Stdout, cmd.Stderr = log, log
	is.NoErr(cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	refused := regexp.MustCompile(`ptrace|Operation not permitted`)
	p.until("the server listens", func() bool {
		if refused.MatchString(log.String()) {
			needs.Lacks(t, what, "strace may not trace")
		}
		return strings.Contains(log.String(), "is reachable at")
	})
	p.until("the server has its ballast, which it writes in the background", func() bool {
		return p.exists(p.data("cache", "ballast"))
	})
	traced := func() int { b, _ := os.ReadFile(p.path("trace")); return len(b) }

	// Contents in one folder, which only the first one makes.
	contents := [][]byte{[]byte("bytes of the first file")}
	folder := sha256.Sum256(contents[0])
	for i := 0; len(contents) < 3; i++ {
		if next := fmt.Appendf(nil, "more bytes %d", i); sha256.Sum256(next)[0] == folder[0] {
			contents = append(contents, next)
		}
	}
	begun := traced()
	is.True(c.uploadContent(http.DefaultClient, contents[0]))
	second := traced()
	is.True(c.uploadContent(http.DefaultClient, contents[1]))
	third := traced()
	is.True(c.uploadContent(http.DefaultClient, contents[2]))
	between := traced()
	is.True(c.create(http.DefaultClient, "notes"))
	p.until("the answer is in the trace", func() bool {
		b, err := os.ReadFile(p.path("trace"))
		return err == nil && strings.Count(string(b[begun:]), "HTTP/1.1 201") == 4
	})
	lock, err := os.ReadFile(p.data("LOCK"))
	is.NoErr(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(lock)))
	is.NoErr(err)
	is.NoErr(syscall.Kill(pid, syscall.SIGTERM)) // strace hands no signals on
	<-done
	b, err := os.ReadFile(p.path("trace"))
	is.NoErr(err)

	// Each comes to its end before the next one begins.
	inOrder := func(part string, patterns ...string) {
		t.Helper()
		calls, after, last := trace(part), -1, ""
		for _, pattern := range patterns {
			re, found := regexp.MustCompile(pattern), false
			for _, call := range calls {
				if call.begin > after && re.MatchString(call.text) {
					after, found = call.end, true
					break
				}
			}
			if !found {
				t.Fatalf("no %s after %s in\n%s", pattern, last, part)
			}
			last = pattern
		}
	}
	sum := hex.EncodeToString(folder[:])
	blobs := regexp.QuoteMeta(p.data("blobs"))
	recent := regexp.QuoteMeta(p.data("journal")) + `/` + journal.RecentName + `>`
	logs := regexp.QuoteMeta(p.data("journal")) + `/log-0[0-9a-f]+>`
	named := []string{
		`^linkat\(.*, "` + sum + `"`,
		`^fsync\(\d+<` + blobs + "/" + sum[:2] + `>\) += 0`,
	}
	if !regexp.MustCompile("(?m)" + named[0]).MatchString(joined(trace(string(b[begun:])))) {
		named[0] = `^renameat2?\(.*` + sum + `"`
	}
	// The answer to the first is the one before the second part begins.
	upload, small, note := string(b[begun:second]), string(b[third:between]), string(b[between:])
	inOrder(upload, append(append([]string{
		`^(write|pwrite64)\(\d+<` + blobs + `/.*bytes of the first file`,
		`^fsync\(\d+<` + blobs + `/.*\) += 0`,
	}, named...),
		`^pwrite64\(\d+<`+logs,
		`^pwrite64\(\d+<`+recent,
		`^fdatasync\(\d+<`+recent+`\) += 0`,
		`^writev?\(\d+<(socket|TCP).*HTTP/1.1 201`,
	)...)
	inOrder(upload, `^fsync\(\d+<`+blobs+`>\) += 0`, `^fdatasync\(\d+<`+recent+`\) += 0`) // the new folder's name
	// A small content in an existing folder is in the journal, and its file is not synced.
	inOrder(
		small, `^linkat\(.*, "`+fmt.Sprintf("%x", sha256.Sum256(contents[2]))+`"`, `^pwrite64\(\d+<`+logs,
		`^pwrite64\(\d+<`+recent, `^fdatasync\(\d+<`+recent+`\) += 0`, `^writev?\(\d+<(socket|TCP).*HTTP/1.1 201`,
	)
	for _, call := range trace(small) {
		if strings.Contains(call.text, "sync") && !regexp.MustCompile(`^fdatasync\(\d+<`+recent).MatchString(call.text) {
			t.Errorf("%s is not needed", call.text)
		}
	}
	inOrder(
		note, `^pwrite64\(\d+<`+logs, `^pwrite64\(\d+<`+recent, `^fdatasync\(\d+<`+recent+`\) += 0`,
		`^writev?\(\d+<(socket|TCP).*HTTP/1.1 201`,
	)

	// Nothing is answered before: of all answers, the first comes after the
	// first sync of the journal.
	for _, part := range []string{upload, small, note} {
		answered, synced := 1<<30, 1<<30
		for _, call := range trace(part) {
			if strings.Contains(call.text, "HTTP/1.1 201") && call.begin < answered {
				answered = call.begin
			}
			if regexp.MustCompile(`^fdatasync\(\d+<`+recent).MatchString(call.text) && call.end < synced {
				synced = call.end
			}
		}
		is.True(synced < answered)
	}
}

func joined(calls []syscallLine) string {
	var b strings.Builder
	for _, call := range calls {
		fmt.Fprintln(&b, call.text)
	}
	return b.String()
}
