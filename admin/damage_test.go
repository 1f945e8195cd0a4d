package admin_test

import (
	big "encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/journal"
	"kist/kv/kvtest/needs"
)

// A harm is something that happens to a file while no server runs.
type harm struct {
	name string
	do   func(b []byte) []byte // nil removes the file
}

var harms = []harm{
	{"removed", func([]byte) []byte { return nil }},
	{"emptied", func([]byte) []byte { return []byte{} }},
	{"cut", func(b []byte) []byte { return b[:rand.IntN(max(1, len(b)))] }},
	{"flipped", func(b []byte) []byte {
		if len(b) > 0 {
			b[rand.IntN(len(b))] ^= 1 << rand.IntN(8)
		}
		return b
	}},
	{"zeroed", func(b []byte) []byte {
		at := rand.IntN(len(b)+1) &^ 511
		clear(b[at:min(len(b), at+4096)])
		return b
	}},
	{"garbled", func(b []byte) []byte {
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return b
	}},
	{"longer", func(b []byte) []byte { return append(b, "what should not be here"...) }},
}

func (h harm) to(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	b = h.do(b)
	if b == nil {
		err = os.Remove(path)
		if os.IsNotExist(err) {
			err = nil
		}
	} else {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever happens to the files that are derived from others, after a clean
// stop or a crash, the server starts with everything.
func TestTornDerivedFiles(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s, l := crowded(t, 2)
	names := []string{
		"cache/kist.db", "CLEAN", "cache", "cache/CACHEDIR.TAG", "cache/kist.db.new", "cache/ballast", "LOCK", "CLAIM",
		"kist.sock",
	}
	for round := range times(1, 5) {
		for n, name := range names {
			for k, h := range harms {
				if name == "cache" && k > 0 {
					break
				}
				if n > 2 && k != (n+round)%len(harms) { // of less weight
					continue
				}
				for _, clean := range []bool{true, false} {
					stop := l.run()
					l.untilDone(5)
					if clean {
						stop()
						s.stop()
					} else {
						s.kill()
						stop()
					}
					if name == "cache" || name == "kist.sock" {
						is.NoErr(os.RemoveAll(s.data(name)))
					} else {
						h.to(t, s.data(name))
					}
					s = s.place.serve()
					o := l.observe(s.addr)
					l.resolve(o)
					l.forget(o)
					if t.Failed() {
						t.Fatalf("%s was %s, clean: %v", name, h.name, clean)
					}
				}
			}
		}
	}
	s.stop()
}

// An entry is a note and where the journal ended when it was acknowledged.
type entry struct {
	title string
	log   string
	end   int64
}

// Whatever happens to the journal, the server starts with everything, or says
// which file is damaged and what to do, and ends. What cannot be told from an
// end that was never acknowledged is the last record of the newest log, and an
// end that is cut off; nothing before that is lost with it.
func TestTornJournal(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	l := newLoad(t, p, key, 1)
	var entries []entry
	for generation := range 3 {
		for n := range 8 {
			title := fmt.Sprintf("note %d of generation %d", n, generation)
			status, b, err := l.call(http.DefaultClient, "POST", "/api/v1/notes", map[string]string{
				"X-Api-Key": key, "Content-Type": "application/json",
			},
				fmt.Appendf(nil, `{"title": %q, "content": %q}`, title, strings.Repeat(title, 1+rand.IntN(40))))
			is.NoErr(err)
			if status != 201 {
				t.Fatalf("%d %s", status, b)
			}
			name, size := newest(t, p)
			entries = append(entries, entry{title, name, size})
		}
		if generation == 2 {
			break
		}
		s.kill()
		s = p.serve()
		p.until("there is a snapshot", func() bool {
			snaps, _ := filepath.Glob(p.data("journal", "snap-*"))
			return len(snaps) > generation
		})
	}
	s.kill()
	last, _ := newest(t, p)
	frames := ends(t, p.data("journal", last))
	lastFrame := frames[len(frames)-2] // where it begins

	names, err := os.ReadDir(p.data("journal"))
	is.NoErr(err)
	started, refused := 0, 0
	for round := range times(2, 30) {
		for _, file := range names {
			for _, h := range harms {
				if h.name == "removed" && file.Name() == last {
					continue // tested where it can be noticed
				}
				name := fmt.Sprintf("%s-%s-%d", h.name, file.Name(), round)
				is.NoErr(os.CopyFS(p.path(name, "journal"), os.DirFS(p.data("journal"))))
				is.NoErr(os.Chmod(p.path(name), 0o700))
				path := p.path(name, "journal", file.Name())
				before, err := os.ReadFile(path)
				is.NoErr(err)
				h.to(t, path)
				after, _ := os.ReadFile(path)
				whole := int64(len(before)) // what must be read of the newest log
				if file.Name() == last {
					same := 0
					for same < min(len(before), len(after)) && before[same] == after[same] {
						same++
					}
					switch {
					case len(after) > len(before):
					case len(after) < len(before): // a cut, or more
						whole = int64(same)
					case int64(same) >= lastFrame:
						whole = lastFrame
					case h.name == "zeroed" || h.name == "garbled": // up to the end
						if string(after[lastFrame:]) != string(before[lastFrame:]) {
							whole = int64(same)
						}
					}
				}

				at := &place{t: t, dir: p.dir, addr: freeAddr(t)}
				c := at.start("--data-dir", p.path(name))
				at.until("the server listens or ends, with "+name, func() bool {
					select {
					case <-c.done:
						return true
					default:
						return c.listens()
					}
				})
				text := c.log.String()
				switch {
				case strings.Contains(text, "panic") || strings.Contains(text, "goroutine"):
					t.Errorf("%s: %s", name, text)
				case c.listens():
					started++
					o := l.observe(c.addr)
					titles := map[string]bool{}
					for _, r := range o.records {
						titles[r.Title] = true
					}
					for _, e := range entries {
						if !titles[e.title] && (e.log != last || e.end <= whole) {
							t.Errorf("%s: %s is missing; %d of %d bytes are whole, it ends at %d", name, e.title, whole, len(before), e.end)
						}
					}
					c.stop()
				default:
					refused++
					if code := c.end(); code != 1 {
						t.Errorf("%s: exit %d: %s", name, code, text)
					}
					if !oneSentence.MatchString(text) {
						t.Errorf("%s: %s", name, text)
					}
					now, _ := os.ReadFile(path)
					is.True(slices.Equal(now, after)) // nothing was changed
				}
				if t.Failed() {
					t.FailNow()
				}
				is.NoErr(os.RemoveAll(p.path(name)))
			}
		}
	}
	t.Logf("%d damaged journals started, %d were refused", started, refused)
}

// oneSentence is how a damaged journal is refused.
var oneSentence = regexp.MustCompile(`\A[^\n]*[Jj]ournal/(log|snap)-[^\n]*kist verify --repair[^\n]*\n\z`)

// newest is the newest log and its size.
func newest(t *testing.T, p *place) (name string, size int64) {
	t.Helper()
	logs, err := filepath.Glob(p.data("journal", "log-*"))
	if err != nil {
		t.Fatal(err)
	}
	logs = slices.DeleteFunc(logs, func(path string) bool { return filepath.Base(path) == journal.RecentName })
	path := slices.Max(logs)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(path), info.Size()
}

// ends are the places in a log between its records.
func ends(t *testing.T, path string) []int64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const head, frame = 44, 8
	at := []int64{head}
	for n := int64(head); n+frame <= int64(len(b)); {
		n += frame + int64(big.BigEndian.Uint32(b[n:]))
		at = append(at, n)
	}
	return at
}

// Content that is damaged or gone never keeps the server from starting, is
// never delivered short, and comes back when it is uploaded again.
func TestTornContent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, l := crowded(t, 1)
	c := l.clients[0]
	for len(c.tags) < 3 {
		is.True(c.makeTag(http.DefaultClient))
	}
	for range 12 {
		is.True(c.upload(http.DefaultClient))
	}
	s.stop()
	var paths []string
	is.NoErr(filepath.WalkDir(s.data("blobs"), func(path string, d fs.DirEntry, err error) error {
		if d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	}))
	harmed := map[string]string{}
	for i, path := range paths {
		h := harms[i%len(harms)]
		h.to(t, path)
		harmed[filepath.Base(path)] = h.name
	}
	s = s.place.serve()
	o := l.observe(s.addr)
	all := l.mark()
	l.check(o, all, all)
	for _, th := range c.live() {
		status, body, err := l.call(http.DefaultClient, "GET", "/x/"+th.name, map[string]string{"X-Api-Key": l.key}, nil)
		if err != nil || status == 200 && int64(len(body)) != th.now.Size || status != 200 && status != 404 && status != 503 {
			t.Errorf("%s, whose content was %s: %d, %d bytes, %v", th.name, harmed[th.sum], status, len(body), err)
		}
	}
	for _, content := range slices.Clone(c.bodies) { // the same again, as other files
		c.bodies = [][]byte{content}
		is.True(c.uploadContent(http.DefaultClient, content))
	}
	o = l.observe(s.addr)
	l.content(s.addr, o, mark{}, false)
	s.stop()
	is.True(!t.Failed())
}
