package admin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/journal"
	"kist/kv/kvtest/needs"
)

// A copier copies a folder. The load goes on meanwhile.
type copier struct {
	name  string
	needs []string // programs
	copy  func(l *load, from, to string) error
}

// tool is a copier that anyone has, a line of shell. The exit codes are those by which it says
// that something has changed under its hands: files of the search index come and
// go.
func tool(program, script string, fine ...int) copier {
	return copier{script, []string{program, "sh"}, func(_ *load, from, to string) error {
		cmd := exec.Command("sh", "-c", script, "sh", from, to)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			for _, code := range fine {
				if exit.ExitCode() == code {
					return nil
				}
			}
			return fmt.Errorf("%w: %s", err, out)
		}
		return err
	}}
}

// copiers are those that this machine has.
func copiers(t *testing.T) []copier {
	all := []copier{
		{"blocks at random", nil, copyBlocks},
		tool("cp", `cp -a "$1" "$2"`, 1),
		tool(
			"tar",
			`mkdir -m 700 "$2" && cd "$1" && tar cf "$2.tar" . 2>"$2.err"; code=$?; tar xf "$2.tar" -C "$2" && rm "$2.tar" && exit $code`,
			1,
		),
		tool("rsync", `rsync -a --exclude /cache "$1/" "$2"`), // as the README has it
	}
	var some []copier
	for _, c := range all {
		why := needs.Missing(c.needs...)
		if why == "" {
			some = append(some, c)
			continue
		}
		what := "copies with " + c.needs[0]
		needs.Note(what, why)
		if needs.ToolsRequired() {
			t.Errorf("cannot test %s (%s), and %s=required", what, why, needs.Tools)
		}
	}
	return some
}

// copyBlocks lists each folder once, opens each file once, and then reads
// blocks of all of them in random order, slowly. What was listed has to be
// there still, but for the files that come and go with a process.
func copyBlocks(l *load, from, to string) error {
	type block struct {
		in, out *os.File
		at, n   int64
	}
	var blocks []block
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close()
		}
	}()
	var names []string
	if err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(filepath.Join(to, rel), 0o700)
		case d.Type().IsRegular():
			names = append(names, rel)
		}
		return nil
	}); err != nil {
		return err
	}
	pace := pacer(l, 40)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i, name := range names {
		if i%(len(names)/20+1) == 0 {
			pace()
		}
		in, err := os.Open(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) && passing(name) {
			continue
		}
		if err != nil {
			return err
		}
		open = append(open, in)
		out, err := os.OpenFile(filepath.Join(to, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		open = append(open, out)
		info, err := in.Stat()
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "ballast") {
			continue // eight mebibytes of nothing
		}
		for at := int64(0); at < info.Size(); at += 4096 {
			blocks = append(blocks, block{in, out, at, min(4096, info.Size()-at)})
		}
	}
	rand.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	b := make([]byte, 4096)
	for i, k := range blocks {
		if i%(len(blocks)/40+1) == 0 {
			pace()
		}
		n, err := k.in.ReadAt(b[:k.n], k.at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := k.out.WriteAt(b[:n], k.at); err != nil {
			return err
		}
	}
	return nil
}

// passing tells the names that come and go while a server runs, starts or stops.
func passing(name string) bool {
	base := filepath.Base(name)
	return base == "CLEAN" || base == "CLAIM" || base == journal.RecentName || base == journal.CarriedName ||
		strings.HasPrefix(name, "cache/")
}

// pacer makes a function that waits until the load has got on a little, so
// that a copy takes as long as the load takes for steps times some operations.
func pacer(l *load, each int64) func() {
	next := l.done.Load()
	return func() {
		next = max(next, l.done.Load()-each) + each/4
		for deadline := time.Now().Add(time.Second); l.running.Load() && l.done.Load() < next &&
			time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
	}
}

// open serves a copy on a port of its own and returns the server.
func (p *place) serveCopy(name string) *server {
	p.t.Helper()
	at := &place{t: p.t, dir: p.dir, addr: freeAddr(p.t), env: p.env}
	return at.serve("--data-dir", p.path(name))
}

// A copy of the data directory of a running server, by any tool and at any
// speed, holds everything that was acknowledged before the copy began, of one
// moment; with the derived files or without.
func TestCopy(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s, l := crowded(t, 6)
	stop := l.run()
	l.untilDone(600)
	all := copiers(t)
	for n := range times(8, 100) {
		by := all[n%len(all)]
		name := fmt.Sprintf("copy-%d", n)
		from := l.mark()
		begun := l.done.Load()
		is.NoErr(by.copy(l, s.data(), s.path(name)))
		during := l.done.Load() - begun
		stop() // what is compared must hold still
		to := l.mark()
		if n/len(all)%2 == 1 {
			is.NoErr(os.RemoveAll(s.path(name, "cache")))
		}
		c := s.serveCopy(name)
		o := l.observe(c.addr)
		l.check(o, from, to)
		lack := l.content(c.addr, o, from, true)
		t.Logf("%s: %d operations meanwhile, %d files came without bytes", by.name, during, lack)
		if n%2 == 0 {
			c.stop()
		} else {
			c.kill()
		}
		c = c.place.serve("--data-dir", s.path(name)) // once more
		l.check(l.observe(c.addr), from, to)
		c.stop()
		if t.Failed() {
			t.Fatalf("copy %d", n+1)
		}
		is.NoErr(os.RemoveAll(s.path(name)))
		l.forget(l.observe(s.addr))
		stop = l.run()
		l.untilDone(100)
	}
	stop()
	s.stop()
}

// rsync, told as the README tells to, never meets a name that vanishes, and
// what it makes starts with everything.
func TestRsync(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	needs.Programs(t, "copies with rsync", "rsync", "sh")
	s, l := crowded(t, 6)
	stop := l.run()
	l.untilDone(300)
	by := tool("rsync", `rsync -a --delete --bwlimit=20m --exclude /cache "$1/" "$2"`)
	n := times(10, 200)
	var from mark
	for range n {
		from = l.mark()
		begun := l.done.Load()
		is.NoErr(by.copy(l, s.data(), s.path("copy"))) // over the copy before
		t.Logf("%d operations meanwhile", l.done.Load()-begun)
		l.untilDone(20)
	}
	stop()
	to := l.mark()
	c := s.serveCopy("copy")
	o := l.observe(c.addr)
	l.check(o, from, to)
	l.content(c.addr, o, from, true)
	c.stop()
	s.stop()
}

// rsync compares sizes and times in whole seconds. So each record must change
// the size of a file: a copy is brought up to date however soon it is made again.
func TestRsyncAtOnce(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	needs.Programs(t, "copies with rsync", "rsync", "sh")
	s := newPlace(t).serve()
	s.ann()
	key := s.must("key", "create", "--user", "ann", "--name", "load")
	by := tool("rsync", `rsync -a --delete --exclude /cache "$1/" "$2"`)
	for n := range times(40, 1000) {
		addNotes(t, s.place, key, n, 1)
		is.NoErr(by.copy(nil, s.data(), s.path("copy")))
		log, _ := newest(t, s.place)
		b, err := os.ReadFile(s.path("copy", "journal", log))
		is.NoErr(err)
		is.True(bytes.Contains(b, fmt.Appendf(nil, "text of %d\"", n)))
	}
	s.kill()
	c := s.serveCopy("copy")
	hasNotes(t, c.place, key, times(40, 1000))
	c.stop()
}

// So does a copy that began before the server was killed, or stopped, and
// ends after it was started again.
func TestCopyAcrossRestarts(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s, l := crowded(t, 6)
	stop := l.run()
	l.untilDone(300)
	for n := range times(4, 40) {
		name := fmt.Sprintf("copy-%d", n)
		from := l.mark()
		copied := make(chan error, 1)
		go func() { copied <- copyBlocks(l, s.data(), s.path(name)) }()
		for range 1 + rand.IntN(3) {
			l.untilDone(rand.Int64N(200))
			if rand.IntN(2) == 0 {
				s.kill()
				stop()
			} else {
				stop()
				s.stop()
			}
			s = s.place.serve()
			o := l.observe(s.addr)
			l.resolve(o)
			stop = l.run()
		}
		is.NoErr(<-copied)
		stop()
		to := l.mark()
		c := s.serveCopy(name)
		o := l.observe(c.addr)
		l.check(o, from, to)
		lack := l.content(c.addr, o, from, true)
		t.Logf("copy %d: %d files came without bytes", n+1, lack)
		c.stop()
		if t.Failed() {
			t.FailNow()
		}
		is.NoErr(os.RemoveAll(s.path(name)))
		l.forget(l.observe(s.addr))
		stop = l.run()
		l.untilDone(100)
	}
	stop()
	s.signal(syscall.SIGTERM)
	is.Equal(s.end(), 0)
}

// A copy may meet the proof of a stop that came after it had read the journal.
// That is a copy of everything up to there, and no damage.
func TestCopyWithALaterProof(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s, l := crowded(t, 2)
	work := func() {
		stop := l.run()
		l.untilDone(50)
		stop()
	}
	work()
	s.stop() // the copy begins here, and lists the proof
	from := l.mark()
	s = s.place.serve()
	work()
	is.NoErr(os.CopyFS(s.path("copy", "journal"), os.DirFS(s.data("journal"))))
	to := l.mark()
	work()
	s.stop()
	is.NoErr(os.CopyFS(s.path("copy", "blobs"), os.DirFS(s.data("blobs"))))
	proof, err := os.ReadFile(s.data("CLEAN"))
	is.NoErr(err)
	is.NoErr(os.WriteFile(s.path("copy", "CLEAN"), proof, 0o600))
	is.NoErr(os.Chmod(s.path("copy"), 0o700))

	c := s.serveCopy("copy")
	o := l.observe(c.addr)
	l.check(o, from, to)
	l.content(c.addr, o, from, false)
	is.True(strings.Contains(c.log.String(), "level=WARN")) // a copy that was cut short looks the same
	c.stop()
	c = c.place.serve("--data-dir", s.path("copy"))
	c.stop()

	// The same of the directory itself is damage. The working copy is proven
	// whole, so the journal is written again from it.
	logs, err := filepath.Glob(s.data("journal", "log-*"))
	is.NoErr(err)
	is.Equal(len(logs), 1)
	info, err := os.Stat(logs[0])
	is.NoErr(err)
	is.NoErr(os.Truncate(logs[0], info.Size()/2))
	s = s.place.serve()
	is.True(strings.Contains(s.log.String(), filepath.Base(logs[0])))
	s.kill() // the working copy proves nothing from now on
	s = s.place.serve()
	all := l.mark()
	o = l.observe(s.addr)
	l.check(o, all, all)
	s.stop()

	is.NoErr(os.RemoveAll(s.data("journal")))
	r := s.run("", "serve")
	is.Equal(r.code, 1)
	is.True(strings.HasPrefix(r.err, "journal/ is empty or missing"))
}

// TestCopyCounts: a copy by any tool is the last backup once it was verified, if it is whole and
// of this data directory.
func TestCopyCounts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newPlace(t).serve()
	key := s.inhabit()
	s.stop()
	p := s.place
	is.NoErr(os.CopyFS(p.path("copy"), os.DirFS(p.data())))
	is.NoErr(os.Symlink(p.data(), p.path("itself")))
	other := newPlace(t)
	other.ann()
	mark := p.data("BACKUP")
	doctor := func() string { return p.run("", "doctor").out }
	is.True(strings.Contains(doctor(), "warning  backup: none is known\n"))

	harmed := p.path("harmed")
	is.NoErr(os.CopyFS(harmed, os.DirFS(p.data())))
	for name := range tree(t, filepath.Join(harmed, "blobs")) {
		is.NoErr(os.Remove(name))
	}
	for copied, code := range map[string]int{harmed: 4, other.data(): 0, "itself": 0, "nowhere": 3} {
		r := p.run("", "verify", copied)
		if r.code != code || strings.Contains(r.out, "counts as a backup") || p.exists(mark) {
			t.Errorf("%s: %+v", copied, r)
		}
	}

	// Nothing has changed since.
	before := time.Now().Truncate(time.Second)
	const says = "\nThis copy counts as a backup of ./kist-data: it has everything up to "
	is.True(strings.Contains(p.must("verify", "copy"), says))
	info, err := os.Stat(mark)
	is.NoErr(err)
	is.True(!info.ModTime().Before(before))
	is.True(strings.Contains(doctor(), "ok       backup: the latest is of "))

	// Then it is as old as its newest change, and never the last backup instead of a later one.
	s = p.serve()
	s.upload(key, "later.txt", "later")
	var v struct{ BackupUntil time.Time }
	is.NoErr(json.Unmarshal([]byte(p.must("verify", "copy", "--json")), &v))
	is.True(!v.BackupUntil.IsZero() && v.BackupUntil.Before(info.ModTime()))
	again, err := os.Stat(mark)
	is.NoErr(err)
	is.Equal(again.ModTime(), info.ModTime())
	is.NoErr(os.Remove(mark))
	p.must("verify", "copy")
	info, err = os.Stat(mark)
	is.NoErr(err)
	is.True(info.ModTime().Equal(v.BackupUntil))

	// What the directory has left behind does not count: it went back to an earlier copy, and on from there.
	s.stop()
	left := p.path("left")
	is.NoErr(os.CopyFS(left, os.DirFS(p.data())))
	is.NoErr(os.RemoveAll(p.data()))
	is.NoErr(os.CopyFS(p.data(), os.DirFS(p.path("copy"))))
	s = p.serve()
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		s.upload(key, name, name)
	}
	is.True(!strings.Contains(p.must("verify", left), "counts as a backup"))
	is.True(strings.Contains(p.must("verify", "copy"), says))
}
