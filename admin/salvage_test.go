package admin_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"kist/kv/journal"
	"kist/kv/kvtest/needs"
)

// addNotes makes notes numbered from first on, all acknowledged.
func addNotes(t *testing.T, p *place, key string, first, n int) {
	t.Helper()
	var work sync.WaitGroup
	for w := range 8 {
		work.Go(func() {
			for i := first + w; i < first+n; i += 8 {
				req, err := http.NewRequest(
					http.MethodPost, "http://"+p.addr+"/api/v1/notes",
					strings.NewReader(fmt.Sprintf(`{"title":"note %d","content":"text of %d"}`, i, i)),
				)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("X-Api-Key", key)
				req.Header.Set("Content-Type", "application/json")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				res.Body.Close()
				if res.StatusCode != http.StatusCreated {
					t.Errorf("note %d: status %d", i, res.StatusCode)
				}
			}
		})
	}
	work.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// hasNotes checks that the server has that many notes.
func hasNotes(t *testing.T, p *place, key string, n int) {
	t.Helper()
	status, body := p.get("/api/v1/notes?limit=1", key)
	if status != 200 || !strings.Contains(body, fmt.Sprintf(`"total":%d`, n)) {
		t.Fatalf("not %d notes: %d %s", n, status, body)
	}
}

// flipBit changes a bit of a note's text in the middle of the newest log, and returns the log's name.
func flipBit(t *testing.T, p *place) string {
	t.Helper()
	name, size := newest(t, p)
	path := p.data("journal", name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := bytes.Cut(b[size/2:], []byte("text of"))
	if !found {
		t.Fatal("the second half of " + name + " has no note")
	}
	b[len(b)-len(rest)-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// damagedStart is a place with 100 notes, whose newest log has lost a bit since
// the server was stopped, and a server that has started on it.
func damagedStart(t *testing.T) (s *server, key, log string) {
	t.Helper()
	p := newPlace(t)
	s = p.serve()
	p.ann()
	key = p.must("key", "create", "--user", "ann", "--name", "load")
	addNotes(t, p, key, 0, 100)
	s.stop()
	log = flipBit(t, p)
	return p.serve(), key, log
}

// A bit that changed in the journal while no server ran is found by the next
// one, which begins a new generation: a kill loses nothing from then on, and a
// backup is whole.
func TestFlippedBitIsHealed(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	s, key, log := damagedStart(t)
	addNotes(t, s.place, key, 100, 500)
	s.until("the damage is healed", func() bool { return strings.Contains(s.log.String(), "whole again") })
	is.True(strings.Contains(s.log.String(), "journal/"+log+" is damaged at byte "))
	status, body := s.get("/readyz", "")
	is.Equal(status, 200)
	is.True(strings.HasPrefix(body, "ok\njournal: damage was found and healed at "))
	r := s.run("", "doctor")
	is.True(strings.Contains(r.out, "journal/"+log+" is damaged"))
	s.must("backup", "copy")
	addNotes(t, s.place, key, 600, 10)
	s.kill()
	s = s.place.serve()
	hasNotes(t, s.place, key, 610)
	s.stop()
	is.True(!strings.Contains(s.log.String(), "level=ERROR"))
	_, err := os.Stat(s.data("journal", filepath.Base(log))) // what was damaged is kept
	is.NoErr(err)
	s.must("verify")

	s.must("restore", "copy", "--data-dir", "restored")
	restored := &place{t: t, dir: s.dir, addr: freeAddr(t), env: []string{"KIST_DATA_DIR=restored"}}
	at := restored.serve()
	hasNotes(t, restored, key, 600)
	at.stop()
}

// When the server is killed before it has healed the journal, a repair takes the
// working copy, which is what the last record says: nothing is lost, and nothing
// is removed.
func TestFlippedBitIsRepaired(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	addNotes(t, p, key, 0, 600)
	s.kill()
	log := flipBit(t, p)
	is.NoErr(os.Remove(p.data("journal", journal.RecentName))) // it would mend the log
	s = p.start()
	is.Equal(s.end(), 1)
	is.True(strings.Contains(s.log.String(), "journal/"+log+" is damaged"))

	r := p.run("", "verify", "--repair", "--dry-run")
	is.Equal(r.code, 0)
	is.True(strings.Contains(r.out, "no commit is lost"))
	is.True(strings.Contains(r.out, "nothing was changed"))
	r = p.run("", "verify", "--repair")
	is.Equal(r.code, 0)
	is.True(strings.Contains(r.out, "journal/"+log+" is damaged at byte "))
	is.True(strings.HasSuffix(r.out, "No problems found.\n"))
	kept, err := filepath.Glob(p.data("damaged-*", "*"))
	is.NoErr(err)
	is.Equal(len(kept), 4) // journal, INSTANCE, kist.db and the report
	s = p.serve()
	hasNotes(t, p, key, 600)
	s.stop()
	p.must("verify")
}

// Without the working copy, all that is whole is kept, and what is lost is told.
func TestRepairTellsWhatIsLost(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "load")
	addNotes(t, p, key, 0, 300)
	s.kill()
	is.NoErr(os.RemoveAll(p.data("cache")))
	flipBit(t, p)
	is.NoErr(os.Remove(p.data("journal", journal.RecentName))) // it would mend the log
	for _, args := range [][]string{{"--dry-run"}, nil} {
		r := p.run("", append([]string{"verify", "--repair"}, args...)...)
		is.Equal(r.code, 4)
		is.True(strings.Contains(r.out, "missing; they changed items up to"))
		is.True(!strings.Contains(r.out, "No problems found"))
	}
	again := p.run("", "verify", "--repair") // as after one that was killed before it could say so
	is.Equal(again.code, 4)
	is.True(strings.Contains(again.out, "an earlier repair lost something: damaged-"))
	is.True(!strings.Contains(again.out, "No problems found"))
	p.must("verify") // what is left is whole
	s = p.serve()
	_, body := p.get("/api/v1/notes?limit=1", key)
	m := regexp.MustCompile(`"total":(\d+)`).FindStringSubmatch(body)
	is.True(m != nil)
	n, err := strconv.Atoi(m[1])
	is.NoErr(err)
	is.True(n >= 300-8 && n < 300) // at most 8 writers share a commit
	s.stop()
	r := p.run("", "verify", "--dry-run")
	is.Equal(r.code, 2)
}

// A dry run lists the files without bytes that the repair lists.
func TestDryRunListsMissing(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	key := s.inhabit()
	id := s.upload(key, "gone.bin", "\x00gone")
	addNotes(t, p, key, 0, 20)
	s.stop()
	for name, content := range tree(t, p.data("blobs")) {
		if content == "\x00gone" {
			is.NoErr(os.Remove(name))
		}
	}
	flipBit(t, p)
	before := tree(t, p.data())
	dry := p.run("", "verify", "--repair", "--dry-run")
	is.Equal(dry.code, 4)
	is.True(strings.Contains(dry.out, "nothing was changed\nAfter the repair, this would be there:\n"))
	is.True(maps.Equal(tree(t, p.data()), before))
	r := p.run("", "verify", "--repair")
	is.Equal(r.code, 4)
	line := "\nFile " + id + " (gone.bin): its bytes are missing. "
	is.True(strings.Contains(r.out, line))
	is.True(strings.Contains(dry.out, line))
	is.Equal(dry.err, r.err)
}
