package admin_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// footprint is what a server takes up.
type footprint struct {
	memory int64 // anonymous, in bytes
	files  int   // open ones
	disk   int64 // bytes below the data directory; the journal, which keeps old generations by design, apart
}

func (s *server) footprint() footprint {
	s.t.Helper()
	var f footprint
	proc := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			if _, err := fmt.Sscan(rest, &f.memory); err != nil {
				s.t.Fatal(err)
			}
			f.memory <<= 10
		}
	}
	open, err := os.ReadDir(proc + "fd")
	if err != nil {
		s.t.Fatal(err)
	}
	f.files = len(open)
	// Files come and go while they are counted.
	_ = filepath.WalkDir(s.data(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && path == s.data("journal") {
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			f.disk += info.Size()
		}
		return nil
	})
	return f
}

// TestSoak: a server that works on a bounded number of things takes up a
// bounded amount of memory, descriptors and disk. With -long it runs for 20
// minutes.
func TestSoak(t *testing.T) {
	needs.Time(t)
	t.Parallel() // it measures its own server, which other tests only slow down
	is := is.New(t)
	p := newPlace(t)
	p.env = manyVisitors
	s := p.serve("--gc-delay", "1s")
	p.ann()
	l := newLoad(t, p, p.must("key", "create", "--user", "ann", "--name", "load"), 4)
	duration := time.Duration(times(12, 1200)) * time.Second
	stop := l.run()
	defer stop()
	var all []footprint
	tick := time.NewTicker(duration / 60)
	defer tick.Stop()
	for len(all) < 60 && !t.Failed() {
		<-tick.C
		if len(all)%10 == 9 {
			p.must("gc", "--now")
		}
		all = append(all, s.footprint())
	}
	stop()
	// The first third warms caches up. From then on nothing grows.
	median := func(from, to int, of func(footprint) int64) int64 {
		var values []int64
		for _, f := range all[from:to] {
			values = append(values, of(f))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	for _, c := range []struct {
		what  string
		of    func(footprint) int64
		slack int64
	}{
		{"memory", func(f footprint) int64 { return f.memory }, 24 << 20},
		{"descriptors", func(f footprint) int64 { return int64(f.files) }, 16},
		{"disk", func(f footprint) int64 { return f.disk }, 24 << 20},
	} {
		early, late := median(20, 40, c.of), median(40, 60, c.of)
		t.Logf("%s: %d, then %d, after %d operations", c.what, early, late, l.done.Load())
		if late > early+early/4+c.slack {
			t.Errorf("%s grows: %d, then %d", c.what, early, late)
		}
	}
	o := l.observe(s.addr)
	l.check(o, l.mark(), l.mark())
	s.stop()
	is.Equal(p.run("", "verify").code, 0)
}
