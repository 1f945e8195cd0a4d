package admin_test

import (
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/journal"
	"kist/kv/kvtest/needs"
	"kist/kv/workcopy"
)

var former = flag.String("former", "", "a program of an earlier commit: also go back to that")

// keptFormats are the data directories in testdata, with their formats. Those of versions have their names.
var keptFormats = map[string]uint32{
	"first": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
}

// rolledBack is what kist rollback --json prints.
type rolledBack struct {
	Changes []struct{ Change, Kind, Name, User, At string }

	Dest            string
	Seq             uint64
	Files, Copied   int
	Missing         []struct{ ID, Name string }
	Format          uint32
	PresentFormat   uint32
	At, KeptUntil   time.Time
	FormatChangedAt time.Time
}

func parseRolledBack(t *testing.T, text string) (r rolledBack) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return r
}

// keptPlace has a kept data directory that this program has opened and closed once.
func keptPlace(t *testing.T, name string) (p *place, o older) {
	t.Helper()
	is := is.New(t)
	p = newPlace(t)
	is.NoErr(os.Mkdir(p.data(), 0o700))
	p.untar(filepath.Join("testdata", name, "data.tar.gz"), p.data())
	o = readOlder(t, filepath.Join("testdata", name))
	if o.Answers == nil || name == "first" { // the oldest has the answers of two users
		var first struct {
			Keys    map[string]string
			Answers map[string]any
		}
		text, err := os.ReadFile("testdata/first/answers.json")
		is.NoErr(err)
		is.NoErr(json.Unmarshal(text, &first))
		o = older{"http://127.0.0.1:17321", first.Keys["ann"], map[string]any{}}
		for of, answer := range first.Answers {
			path, anns := strings.CutPrefix(of, "ann /")
			if anns {
				o.Answers[path] = answer
			}
		}
	}
	if me, ok := o.Answers["me"].(map[string]any); ok {
		delete(me["data"].(map[string]any), "textBytes") // grows when the metadata of an older file is examined
	}
	return p, o
}

// same compares what a running server says with what it said.
func (p *place) same(o older) {
	p.t.Helper()
	for path, was := range o.Answers {
		for _, lost := range lacking(path, was, p.answer(path, o.Key)) {
			p.t.Error(lost)
		}
	}
}

// beside is a place whose data directory is another one of this place.
func (p *place) beside(name string) *place {
	return &place{t: p.t, dir: p.dir, addr: freeAddr(p.t), env: append(p.env, "KIST_DATA_DIR="+name)}
}

// alter makes something of some kinds, changes and deletes some, and replaces a text.
func (p *place) alter(o older) {
	p.t.Helper()
	note := o.Answers["notes"].(map[string]any)["data"].([]any)[0].(map[string]any)["id"].(string)
	snippet := o.Answers["snippets"].(map[string]any)["data"].([]any)[0].(map[string]any)["id"].(string)
	p.post("/api/v1/notes", o.Key, "application/json", strings.NewReader(`{"title":"later","content":"x"}`))
	p.upload(o.Key, "later.txt", "later bytes")
	for _, change := range [][3]string{
		{"DELETE", "notes/" + note, ""}, {"PATCH", "snippets/" + snippet, `{"title":"altered"}`},
	} {
		p.send(change[0], "/api/v1/"+change[1], o.Key, "application/json", strings.NewReader(change[2]))
	}
}

// Each kept directory of a former format, opened and changed by this program, leads back to what it was:
// in the former format, whole, and this program opens it once more. The changes since then are named, and
// the present directory stays as it is, also while a server runs on it.
func TestRollback(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for name, format := range keptFormats {
		if format == workcopy.Format {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p, o := keptPlace(t, name)
			is.True(strings.Contains(p.must("rollback", "none"), "opens ./kist-data as it is")) // nothing has changed it yet
			is.True(!p.exists(p.path("none")))
			instance, seq, err := kv.Origin(p.data())
			is.NoErr(err)

			s := p.serve("--base-url", o.Base)
			is.True(strings.Contains(s.log.String(), "kist rollback"))
			p.alter(o)
			live := parseRolledBack(t, p.must("rollback", "live", "--json"))
			is.True(strings.Contains(p.run("", "doctor").out, "kist rollback")) // it cannot reach the base URL
			s.stop()
			before := tree(t, p.data())
			said := p.must("rollback", "back")
			got := parseRolledBack(t, p.must("rollback", "again", "--json"))
			is.True(maps.Equal(tree(t, p.data()), before))

			for _, r := range []rolledBack{live, got} {
				is.Equal(r.Format, format)
				is.Equal(r.PresentFormat, uint32(workcopy.Format))
				is.Equal(r.Seq, seq)
				is.Equal(len(r.Missing), 0)
				is.Equal(r.Copied, 0)
				is.Equal(r.KeptUntil, r.FormatChangedAt.Add(journal.FormerKeep))
				want := map[string]bool{
					"added note later": true, "added file later.txt": true, "changed snippet altered": true, "deleted note": true,
				}
				for _, c := range r.Changes {
					delete(want, strings.Join([]string{c.Change, c.Kind, c.Name}, " "))
					if c.Change == "deleted" {
						delete(want, "deleted "+c.Kind)
					}
					is.True(c.At != "" || c.Change == "deleted") // when the trash was emptied is not known
					is.Equal(c.User, "ann")
				}
				is.Equal(want, map[string]bool{})
				is.True(len(r.Changes) < 12)
			}
			is.True(strings.Contains(said, "4 changes") || len(got.Changes) != 4)
			for _, word := range []string{"later.txt", "altered", "deleted", p.path("back")[len(p.dir)+1:]} {
				is.True(strings.Contains(said, word))
			}

			q := p.beside("back")
			j, err := journal.Read(p.path("back", "journal"), format)
			is.NoErr(err) // a program of that format reads it
			is.NoErr(j.Close())
			_, err = journal.Read(p.path("back", "journal"), format-1)
			is.True(err != nil)
			again, at, err := kv.Origin(p.path("back"))
			is.NoErr(err)
			is.Equal(again, instance)
			is.Equal(at, seq)
			q.must("verify")
			if opensAs(t, format) {
				q.within = func(cmd *exec.Cmd) { cmd.Path = *former }
				s = q.serve("--base-url", o.Base)
				q.same(o)
				s.stop()
				q.within = nil
			}
			s = q.serve("--base-url", o.Base)
			q.same(o)
			s.stop()
			q.must("verify")
			is.True(maps.Equal(tree(t, p.data()), before)) // the names are shared, the bytes are not changed
		})
	}
}

// opensAs reports whether the former program writes the format.
func opensAs(t *testing.T, format uint32) bool {
	t.Helper()
	if *former == "" {
		return false
	}
	text, err := exec.Command(*former, "version", "--json").Output()
	is := is.New(t)
	is.NoErr(err)
	var v struct{ DataFormat uint32 }
	is.NoErr(json.Unmarshal(text, &v))
	return v.DataFormat == format
}

// Within a format there is nothing to make: the former program opens the directory as it is, reads
// everything, and this one goes on with it.
func TestRollbackWithinFormat(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p, o := keptPlace(t, "eighth")
	s := p.serve("--base-url", o.Base)
	p.post("/api/v1/notes", o.Key, "application/json", strings.NewReader(`{"title":"later","content":"x"}`))
	s.stop()
	before := tree(t, p.data())
	is.True(strings.Contains(p.must("rollback", "back"), "Nothing was made."))
	got := parseRolledBack(t, p.must("rollback", "back", "--json"))
	is.Equal(got, rolledBack{Changes: got.Changes, Format: workcopy.Format, PresentFormat: workcopy.Format})
	is.Equal(len(got.Changes), 0)
	is.True(!p.exists(p.path("back")))
	is.True(maps.Equal(tree(t, p.data()), before))

	if !opensAs(t, workcopy.Format) {
		needs.LeaveOut(t, "the former program on a directory of this one", "no -former of this format")
	}
	delete(o.Answers, "me")
	delete(o.Answers, "notes")
	lists := func() map[string]string { return p.everything(o.Key) }
	s = p.serve("--base-url", o.Base)
	want := lists()
	s.stop()
	p.within = func(cmd *exec.Cmd) { cmd.Path = *former }
	s = p.serve("--base-url", o.Base)
	p.same(o)
	is.Equal(lists(), want)
	p.post("/api/v1/notes", o.Key, "application/json", strings.NewReader(`{"title":"by the former","content":"x"}`))
	want = lists()
	s.stop()
	p.within = nil
	s = p.serve("--base-url", o.Base)
	is.Equal(lists(), want)
	s.stop()
	p.must("verify")
}

// What keeps a rollback from its work is one sentence, and nothing is made.
func TestRollbackRefuses(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	p, o := keptPlace(t, "fourth")
	p.serve("--base-url", o.Base).stop()
	p.script(`
kist rollback kist-data/back
err …/back is in the data directory; name a folder elsewhere, best on another disk.
exit 1

kist rollback ./kist-data
err ./kist-data is in the data directory; name a folder elsewhere, best on another disk.
exit 1

kist rollback .
err . is not empty; name a new folder or an empty one.
exit 1

kist rollback none/back
err There is no folder at none; create it, or mount the disk that should be there.
exit 1

kist rollback
err <dest> is missing; kist rollback --help shows how it is used.
exit 2

kist rollback back --data-dir none
err There is no data directory at none; kist serve and kist user add make one, and --data-dir names another.
exit 3`)
	is := is.New(t)
	is.True(!p.exists(p.path("back")))

	j, err := journal.Read(p.data("journal"), workcopy.Format)
	is.NoErr(err)
	f, err := j.Former()
	is.NoErr(err)
	is.NoErr(j.Close())
	text, err := os.ReadFile(p.data("journal", f.Name))
	is.NoErr(err)
	bad := append([]byte{}, text...)
	bad[len(bad)/2]++
	is.NoErr(os.WriteFile(p.data("journal", f.Name), bad, 0o600))
	p.script(`
kist rollback back
err Nothing was made: the state that was kept cannot be used: journal/` + f.Name + ` is damaged …; a backup from before … leads back: restore it with the former version of kist.
exit 1`)
	is.NoErr(os.WriteFile(p.data("journal", f.Name), text, 0o600))
	is.True(!p.exists(p.path("back")))

	// Contents that are gone or damaged are named.
	blobs := tree(t, p.data("blobs"))
	is.Equal(len(blobs), 2)
	for path := range blobs {
		is.NoErr(os.Remove(path))
	}
	r := p.run("", "rollback", "back")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "It is incomplete."))
	is.True(strings.Contains(r.out, "plan.txt) is not in it: its bytes are missing."))
	is.Equal(len(parseRolledBack(t, p.run("", "rollback", "json", "--json").out).Missing), 2)
	for path, text := range blobs {
		is.NoErr(os.WriteFile(path, []byte(strings.ToUpper(text)), 0o600))
	}
	r = p.run("", "rollback", "rotten")
	is.Equal(r.code, 4)
	is.True(strings.Contains(r.out, "its bytes are damaged"))
	is.Equal(len(tree(t, p.path("rotten", "blobs"))), 0)
	p.serve("--data-dir", "back").stop() // it opens all the same

	is.NoErr(os.Remove(p.data("journal", f.Name)))
	p.script(`
kist rollback gone
err The format of the data changed from 4 to 8 at …Z, and ./kist-data does not have the state before that any more; a backup from before leads back: restore it with the former version of kist.
exit 1`)
	is.True(!p.exists(p.path("gone")))
}

// A rollback that is killed leaves a folder that is no data directory yet, and that a server refuses or
// takes for empty with --expect-data; or a whole one.
func TestRollbackKilled(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p, o := keptPlace(t, "first")
	p.serve("--base-url", o.Base).stop()
	want := parseRolledBack(t, p.must("rollback", "whole", "--json"))
	whole, half := 0, 0
	for range times(40, 400) {
		cmd := p.command("rollback", "back")
		is.NoErr(cmd.Start())
		time.AfterFunc(time.Duration(rand.Int64N(int64(150*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed or not
		if p.exists(p.path("back", "journal")) {
			_, seq, err := kv.Origin(p.path("back"))
			is.NoErr(err)
			is.Equal(seq, want.Seq)
			is.Equal(p.run("", "verify", "back").code, 0)
			whole++
		} else {
			r := p.run("", "serve", "--data-dir", "back", "--expect-data")
			is.Equal(r.code, 1)
			half++
		}
		is.NoErr(os.RemoveAll(p.path("back")))
	}
	t.Logf("%d whole, %d not", whole, half)
	p.must("verify")
}
