package admin_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// times is how often something is done: few times, or with -long many.
func times(few, many int) int {
	if *long {
		return many
	}
	return few
}

// crowded starts a server in a new place and makes clients for it.
func crowded(t *testing.T, clients int) (*server, *load) {
	t.Helper()
	p := newPlace(t)
	p.env = manyVisitors
	s := p.serve()
	p.ann()
	return s, newLoad(t, p, p.must("key", "create", "--user", "ann", "--name", "load"), clients)
}

// killSoon starts a server and kills it at some moment of its start.
func (p *place) killSoon(within time.Duration) {
	p.t.Helper()
	s := p.start()
	select { // the moment is what is tried out
	case <-time.After(time.Duration(rand.Int64N(int64(within)))):
	case <-s.done:
		p.t.Fatalf("the server has ended: %s", s.log)
	}
	s.kill()
}

// Whenever the server is killed, what it had acknowledged is there when it is
// started again, and nothing is there twice, half, or too often.
func TestKill(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s, l := crowded(t, 8)
	for n := range times(12, 200) {
		stop := l.run()
		l.untilDone(rand.Int64N(500))
		s.kill()
		stop()
		if n%3 == 1 {
			for range 1 + rand.IntN(3) {
				s.killSoon(60 * time.Millisecond)
			}
		}
		s = s.place.serve()
		o := l.observe(s.addr)
		l.content(s.addr, o, mark{}, false)
		l.resolve(o)
		l.forget(o)
		if t.Failed() {
			t.Fatalf("after kill %d", n+1)
		}
		if n%20 == 11 {
			t.Logf("%d kills, %d operations and views", n+1, l.done.Load())
		}
	}
	l.drain()
	s.stop()

	s = s.place.serve()
	o := l.observe(s.addr)
	all := l.mark()
	l.check(o, all, all)
	l.content(s.addr, o, mark{}, false)
	collections := 0
	for _, r := range o.records {
		if r.Kind == "collection" {
			collections++
		}
	}
	t.Logf("%d records, %d collections among them, and %d in the trash", len(o.records), collections, len(o.trash))
	is.True(collections > 0 && len(o.trash) > 0)
	s.stop()
	is.True(!t.Failed())
}

// A snapshot of what is there is written in the background after an unclean
// stop. Killed while it is, the server has the logs, and tries again.
func TestKillAtSnapshot(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		needs.LeaveOut(t, "a kill while a snapshot is written", "no /proc/self/fd")
	}
	s, l := crowded(t, 4)
	large := strings.Repeat("All of this is in every snapshot. ", 30_000)
	for range 8 {
		c := l.clients[0]
		th := c.add("notes")
		of := shown{Title: th.name, Content: large}
		is.True(c.do(
			http.DefaultClient, "POST", "/api/v1/notes",
			map[string]any{"slug": th.name, "title": of.Title, "content": of.Content}, 201, map[*thing]*shown{th: &of}, nil,
		))
	}
	// A file without a name in the journal's folder is a snapshot or the
	// beginning of a log.
	writing := func(s *server) bool {
		fds := fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)
		open, _ := os.ReadDir(fds)
		for _, fd := range open {
			if name, _ := os.Readlink(filepath.Join(fds, fd.Name())); strings.Contains(name, "/journal/") &&
				strings.HasSuffix(name, "(deleted)") {
				return true
			}
		}
		return false
	}
	at := 0
	for range times(4, 40) {
		stop := l.run()
		l.untilDone(50)
		s.kill()
		stop()
		began := s.place.start()
		for !began.listens() && began.cmd.ProcessState == nil {
			if writing(began) {
				at++
				break
			}
		}
		began.kill()
		s = s.place.serve()
		o := l.observe(s.addr)
		l.resolve(o)
		l.forget(o)
		is.True(!t.Failed())
	}
	t.Logf("killed %d times while a snapshot or the head of a log was written", at)
	s.stop()
}
