package admin_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
)

// small is a place whose programs may take no more than so much memory. Where a
// memory cgroup can be made, that includes the pages of files that the system
// keeps for them, which it can drop.
type small struct {
	*place
	most  int64  // bytes
	group string // the folder of its memory cgroup; "" if this user may make none
	v2    bool
}

func newSmall(t *testing.T, most int64) *small {
	t.Helper()
	j := &small{place: newPlace(t), most: most}
	set := func(name string, n int64) error {
		return os.WriteFile(filepath.Join(j.group, name), []byte(strconv.FormatInt(n, 10)), 0o600)
	}
	for _, root := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		j.group = filepath.Join(root, fmt.Sprintf("kist-test-%d", os.Getpid()))
		if os.Mkdir(j.group, 0o700) != nil {
			continue
		}
		t.Cleanup(func() {
			for deadline := time.Now().Add(patience); os.Remove(j.group) != nil && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond) // its last process is about to end
			}
		})
		if set("memory.limit_in_bytes", most) == nil {
			return j
		}
		if set("memory.max", most) == nil {
			j.v2 = true
			_ = set("memory.swap.max", 0) // where there is swap
			return j
		}
		_ = os.Remove(j.group)
	}
	t.Log("no memory cgroup can be made here: the anonymous memory of each process is measured instead")
	j.group = ""
	j.env = append(j.env, fmt.Sprintf("GOMEMLIMIT=%d", most/8*5)) // as kist would set it
	return j
}

// peak is what was measured of a program.
type peak struct {
	anonymous, resident int64 // bytes
	took                time.Duration
}

func (k peak) String() string {
	return fmt.Sprintf(
		"%4d MiB of its own, %4d MiB with mapped files, %v", k.anonymous>>20, k.resident>>20,
		k.took.Round(100*time.Millisecond),
	)
}

// confine has a command that is not started yet run in it.
func (j *small) confine(cmd *exec.Cmd) {
	if j.group == "" {
		return
	}
	args := append([]string{
		"/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, j.group, cmd.Path,
	}, cmd.Args[1:]...)
	cmd.Path, cmd.Args = "/bin/sh", args
}

// watch measures a process until done is closed.
func (j *small) watch(pid int, done <-chan struct{}) (end func() peak) {
	begun := time.Now()
	var anonymous, resident atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
			for line := range strings.Lines(string(text)) {
				name, rest, _ := strings.Cut(line, ":")
				n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				switch name {
				case "RssAnon":
					anonymous.Store(max(anonymous.Load(), n<<10))
				case "VmHWM":
					resident.Store(max(resident.Load(), n<<10))
				}
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return func() peak {
		select {
		case <-done:
			<-ended
		default:
		}
		return peak{anonymous.Load(), resident.Load(), time.Since(begun)}
	}
}

// holds says what a program took, and fails if that is too much.
func (j *small) holds(what string, k peak) {
	j.t.Helper()
	j.t.Logf("%-28s %v", what, k)
	if k.anonymous > j.most {
		j.t.Errorf("%s: more than %d MiB", what, j.most>>20)
	}
}

// bounded runs a command to its end.
func (j *small) bounded(args ...string) string {
	j.t.Helper()
	var out, errs buffer
	cmd := j.command(args...)
	j.confine(cmd)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	done := make(chan struct{})
	end := j.watch(cmd.Process.Pid, done)
	err := cmd.Wait()
	close(done)
	k := end()
	if err != nil {
		j.t.Fatalf("kist %s: %v: %s%s (%v)", strings.Join(args, " "), err, out.String(), errs.String(), k)
	}
	j.holds("kist "+strings.Join(args[:1], " "), k)
	return out.String()
}

// served starts a server.
func (j *small) served(args ...string) (*server, func() peak) {
	j.t.Helper()
	s := &server{
		place: j.place, cmd: j.command(append([]string{"serve"}, args...)...), log: new(buffer), done: make(chan struct{}),
	}
	j.confine(s.cmd)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	end := j.watch(s.cmd.Process.Pid, s.done)
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	j.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	return s, end
}

// awaits waits for a server for as long as a large store takes.
func (s *server) awaits(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-s.done:
			s.t.Fatalf("the server has ended (%v) before this was so: %s: %s", s.cmd.ProcessState, what, s.log)
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("still not so: %s: %s", what, s.log)
		}
	}
}

// words are what texts are made of: some are in most texts and most in few.
func someWords(rnd *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		at := rnd.IntN(1 << (1 + rnd.IntN(15)))
		for first := true; first || at > 0; first = false {
			b.WriteByte("aeioubdfglmnprst"[at&15])
			b.WriteByte("lnrstaeiouaeiou"[at%15])
			at >>= 5
		}
	}
	return b.String()
}

// grow fills a data directory with notes, as if a server had been killed.
func (j *small) grow(n int) {
	j.t.Helper()
	is := is.New(j.t)
	j.ann()
	s, err := kv.Open(j.data(), kv.Options{Schema: tables.All})
	is.NoErr(err)
	var ann people.User
	is.NoErr(s.View(func(tx *kv.Tx) error {
		all, err := people.Users(tx)
		ann = all[0]
		return err
	}))
	rnd := rand.New(rand.NewPCG(1, 2))
	forms := make([]*record.Form, 500)
	for done := 0; done < n; {
		for i := range forms {
			forms[i] = record.NewForm(record.Notes)
			forms[i].Body = &record.Note{Name: someWords(rnd, 4), Content: someWords(rnd, 15)}
		}
		is.NoErr(s.Update(func(tx *kv.Tx) error {
			for _, f := range forms {
				if _, err := catalog.Add(tx, catalog.Draft{Owner: ann.ID, Kind: record.Notes, Form: f}); err != nil {
					return err
				}
			}
			return nil
		}))
		done += len(forms)
	}
	is.NoErr(s.Close())
	is.NoErr(os.Remove(j.data("CLEAN")))
}

// bookmarks writes a file of bookmarks.
func (j *small) bookmarks(n int) string {
	j.t.Helper()
	is := is.New(j.t)
	f, err := os.Create(j.path("bookmarks.html"))
	is.NoErr(err)
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n")
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		fmt.Fprintf(
			w, "<DT><A HREF=\"https://example.org/%d\" ADD_DATE=\"%d\" TAGS=\"one,two\">%s</A>\n", i, 1_600_000_000+i,
			someWords(rnd, 5),
		)
	}
	fmt.Fprint(w, "</DL><p>\n")
	is.NoErr(w.Flush())
	is.NoErr(f.Close())
	return f.Name()
}

// Every program that reads all of a large store works within little memory. With
// -long there are a million records.
func TestSmallMachine(t *testing.T) {
	needs.Time(t)
	needs.Alone(t)
	if raceEnabled {
		needs.LeaveOut(t, "memory with a large store", "takes minutes with the race detector")
	}
	is := is.New(t)
	records, rows, most := 100_000, 10_000, int64(160<<20)
	if *long {
		records, rows, most = 1_000_000, 300_000, 256<<20
	}
	j := newSmall(t, most)
	begun := time.Now()
	j.grow(records)
	size := func() int64 {
		info, err := os.Stat(j.data("cache", "kist.db"))
		is.NoErr(err)
		return info.Size() >> 20
	}
	t.Logf(
		"%d records within %d MiB, made in %v; kist.db has %d MiB", records, most>>20,
		time.Since(begun).Round(100*time.Millisecond), size(),
	)

	s, end := j.served()
	s.awaits("it says that it starts", func() bool {
		status, body, err := j.ask("/readyz")
		if err == nil && status != http.StatusServiceUnavailable {
			t.Fatal(status, body)
		}
		return err == nil && strings.HasPrefix(body, "Starting: reading the journal, ")
	})
	status, body, err := j.ask("/healthz")
	is.NoErr(err)
	is.Equal(status, http.StatusOK)
	is.Equal(body, "ok\n")
	s.awaits("it listens", s.listens)
	j.holds("start after a kill", end())
	t.Logf("kist.db has %d MiB", size())
	s.kill()
	j.holds("the same until the next kill", end())

	j.bounded("verify")
	j.bounded("backup", "backup")
	j.bounded("restore", "backup", "--data-dir", "restored")
	j.bounded("import", j.bookmarks(rows), "--user", "ann")

	j.bounded("reindex")

	s, end = j.served()
	s.awaits("it listens", s.listens)
	j.search(16, 20)
	j.holds("16 searches at a time", end())
	now, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	t.Logf("afterwards %s", regexp.MustCompile(`RssAnon:\s*(.*)`).FindSubmatch(now)[1])
	s.stop()
}

// ask asks a server that may not be there.
func (j *small) ask(path string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(j.t.Context(), http.MethodGet, "http://"+j.addr+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// search has so many clients search at a time, each so often. On a slow machine the
// server may say, after a wait, that a client should ask again.
func (j *small) search(clients, times int) {
	j.t.Helper()
	key := j.must("key", "create", "--user", "ann", "--name", fmt.Sprint("k", time.Now().UnixNano()))
	failed := make(chan string, clients)
	var busy atomic.Int64
	for c := range clients {
		go func() {
			rnd := rand.New(rand.NewPCG(uint64(c), 5))
			for range times {
				query := "/api/v1/search?q=" + strings.ReplaceAll(someWords(rnd, 2), " ", "+")
				status, body := j.get(query, key)
				for deadline := time.Now().Add(patience); status == http.StatusServiceUnavailable && time.Now().Before(deadline); {
					busy.Add(1)
					status, body = j.get(query, key)
				}
				if status != 200 {
					failed <- body
					return
				}
			}
			failed <- ""
		}()
	}
	why := ""
	for range clients {
		why = cmp.Or(<-failed, why)
	}
	if why != "" {
		j.t.Fatal(why)
	}
	j.t.Logf("%d times a client had to ask again", busy.Load())
}
