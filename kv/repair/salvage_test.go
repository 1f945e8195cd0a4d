package repair_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/repair"
	"kist/kv/tables"
)

// written returns a data directory as a kill leaves it: a generation, and commits after
// it. The logs hold everything, so the second place of the newest records is
// removed: it would mend most of the damage.
func written(t *testing.T, notes int) (dir string, all map[string]string) {
	t.Helper()
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	for i := range notes {
		if i == notes/2 {
			if err := s.Compact(); err != nil {
				t.Fatal(err)
			}
		}
		kvtest.Add(
			t, s, u.ID, record.Notes,
			fmt.Sprintf(`{"title":"note %d","content":"c","tags":["t%d"],"slug":"note-%d"}`, i, i%7, i),
		)
	}
	dir = filepath.Join(t.TempDir(), "killed")
	// The working copy gets the last commits a moment after they are acknowledged.
	if err := s.CheckCopy(func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.Mkdir(dir, 0o700), os.CopyFS(dir, os.DirFS(s.Dir())), os.Remove(filepath.Join(dir, "journal", journal.RecentName)),
	); err != nil {
		t.Fatal(err)
	}
	return dir, kvtest.ContentOf(t, s)
}

// If the newest log is missing or begins with damage, what recent has of it is not lost.
func TestNewestLogInRecent(t *testing.T) {
	t.Parallel()
	s := kvtest.Open(t)
	u := kvtest.User(t, s, "ann")
	for i := range 40 {
		if i == 20 {
			if err := s.Compact(); err != nil {
				t.Fatal(err)
			}
		}
		kvtest.Add(t, s, u.ID, record.Notes, fmt.Sprintf(`{"title":"note %d","content":"c"}`, i))
	}
	want := kvtest.ContentOf(t, s)
	for what, harm := range map[string]func(log string) error{
		"control": func(string) error { return nil },
		"removed": os.Remove,
		"empty":   func(log string) error { return os.WriteFile(log, nil, 0o600) },
		"garbage": func(log string) error { return os.WriteFile(log, bytes.Repeat([]byte("garbage "), 4000), 0o600) },
		"short":   func(log string) error { return os.Truncate(log, 20) },
		"a folder": func(log string) error {
			if err := os.Remove(log); err != nil {
				return err
			}
			return os.Mkdir(log, 0o700)
		},
		"bad magic": func(log string) error { cleared(t, log, 0, 4); return nil },
		"bad head":  func(log string) error { cleared(t, log, 12, 8); return nil },
	} {
		for _, copied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, working copy %v", what, copied), func(t *testing.T) {
				is := is.New(t)
				dir := filepath.Join(t.TempDir(), "killed")
				is.NoErr(os.Mkdir(dir, 0o700))
				is.NoErr(os.CopyFS(dir, os.DirFS(s.Dir())))
				if !copied {
					is.NoErr(os.RemoveAll(filepath.Join(dir, "cache")))
				}
				log := ""
				logs, err := filepath.Glob(filepath.Join(dir, "journal", "log-*"))
				is.NoErr(err)
				for _, name := range logs {
					if filepath.Base(name) != journal.RecentName {
						log = max(log, name)
					}
				}
				is.NoErr(harm(log))
				r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
				is.NoErr(err)
				is.True(r.Whole())
				is.Equal(len(r.Damage) > 0, what != "control")
				is.True(maps.Equal(kvtest.ContentOf(t, kvtest.OpenAt(t, dir, nil)), want))
			})
		}
	}
}

// cleared overwrites the middle of a file with zeros.
func cleared(t *testing.T, path string, from, n int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		clear(b[from:min(len(b), from+n)])
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func titles(t *testing.T, s *kv.Store) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	kvtest.View(t, s, func(tx *kv.Tx) error {
		for r, err := range catalog.RecordRows.All(tx.Tx, nil) {
			if err != nil {
				return err
			}
			b, err := r.Decode()
			if err != nil {
				return err
			}
			all[b.Title()] = true
		}
		return nil
	})
	return all
}

// After a kill the working copy has the state of the last record, so nothing is lost,
// whatever is damaged before that record.
func TestRepairTakesWorkingCopy(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, dir string){
		"a bit":       func(t *testing.T, dir string) { kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 500) },
		"last record": func(t *testing.T, dir string) { kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), -3) },
		"head":        func(t *testing.T, dir string) { kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 20) },
		"layout":      func(t *testing.T, dir string) { kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 11) },
		"many places": func(t *testing.T, dir string) { cleared(t, kvtest.NewestFile(t, dir, "log"), 300, 3000) },
		"both": func(t *testing.T, dir string) {
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 500)
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "snap"), 200)
		},
		"snapshot gone": func(t *testing.T, dir string) {
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 500)
			os.Remove(kvtest.NewestFile(t, dir, "snap"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir, before := written(t, 40)
			harm(t, dir)
			dry, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All, DryRun: true})
			is.NoErr(err)
			r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
			is.NoErr(err)
			is.True(r.Whole())
			dry.Aside = r.Aside
			is.Equal(dry, r)
			is.True(len(r.Damage) > 0 || name == "last record")
			s := kvtest.OpenAt(t, dir, nil)
			is.True(maps.Equal(kvtest.ContentOf(t, s), before))
			kvtest.View(t, s, kvtest.Audit)
			for _, kept := range []string{"journal", "kist.db"} {
				_, err := os.Stat(filepath.Join(dir, r.Aside, kept))
				is.NoErr(err)
			}
		})
	}
}

// A damaged last record is not taken for one that a crash cut short if the working copy
// has its contents. Without the working copy nobody can tell.
func TestLastRecordDamaged(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, before := written(t, 20)
	kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), -3)
	name := filepath.Base(kvtest.NewestFile(t, dir, "log"))
	problems := func() (all []string) {
		i, err := tables.All.Inspect(dir, t.TempDir(), func(int64) {}, func(err error) { all = append(all, err.Error()) })
		is.NoErr(err)
		is.NoErr(i.Close())
		return all
	}
	is.True(strings.Contains(strings.Join(problems(), ""), "journal/"+name+" is damaged at byte "))
	bare := filepath.Join(t.TempDir(), "bare")
	is.NoErr(errors.Join(
		os.Mkdir(bare, 0o700), os.CopyFS(bare, os.DirFS(dir)), os.RemoveAll(filepath.Join(bare, "cache")),
	))

	files := kvtest.FilesIn(t, dir)
	_, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "journal/"+name+" is damaged at byte "))
	delete(files, filepath.Join(dir, "LOCK"))
	now := kvtest.FilesIn(t, dir)
	delete(now, filepath.Join(dir, "LOCK"))
	is.True(maps.Equal(now, files)) // nothing was changed
	r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
	is.NoErr(err)
	is.True(r.Whole())
	is.True(maps.Equal(kvtest.ContentOf(t, kvtest.OpenAt(t, dir, nil)), before))
	is.Equal(len(problems()), 0)

	is.Equal(len(titles(t, kvtest.OpenAt(t, bare, nil))), 19)
}

// Without the working copy, a repair keeps everything whole after the damage.
func TestRepairGoesOnBehindDamage(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		harm    func(t *testing.T, dir string)
		missing func(uint64) bool
		least   int // notes
	}{
		"one record": {func(t *testing.T, dir string) {
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 500)
		}, func(n uint64) bool { return n == 1 }, 39},
		"two places": {func(t *testing.T, dir string) {
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 500)
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 9000)
		}, func(n uint64) bool { return n == 2 }, 38},
		"head": {func(t *testing.T, dir string) {
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 20)
		}, func(n uint64) bool { return n == 0 }, 40},
		"snapshot": {func(t *testing.T, dir string) {
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "snap"), 200)
		}, func(n uint64) bool { return n == 0 }, 40},
		"log before snapshot": {func(t *testing.T, dir string) {
			kvtest.Flip(t, filepath.Join(dir, "journal", "log-0000000000000000"), 500)
		}, func(n uint64) bool { return n == 0 }, 40},
		"snapshot and log before": {func(t *testing.T, dir string) {
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "snap"), 200)
			kvtest.Flip(t, filepath.Join(dir, "journal", "log-0000000000000000"), 3000)
		}, func(n uint64) bool { return n == 1 }, 39},
		"stretch": {func(t *testing.T, dir string) {
			cleared(t, kvtest.NewestFile(t, dir, "log"), 2000, 4000)
		}, func(n uint64) bool { return n >= 2 && n < 10 }, 30},
		"log gone": {func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, "journal", "log-0000000000000000"))
		}, func(n uint64) bool { return n == 0 }, 40},
		"snapshot a link": {func(t *testing.T, dir string) {
			path := kvtest.NewestFile(t, dir, "snap")
			if err := errors.Join(os.Rename(path, path+"-moved"), os.Symlink(filepath.Base(path)+"-moved", path)); err != nil {
				t.Fatal(err)
			}
		}, func(n uint64) bool { return n == 0 }, 40},
		"newest log a link": {func(t *testing.T, dir string) {
			path := kvtest.NewestFile(t, dir, "log")
			if err := errors.Join(os.Rename(path, path+"-moved"), os.Symlink(filepath.Base(path)+"-moved", path)); err != nil {
				t.Fatal(err)
			}
		}, func(n uint64) bool { return n == 0 }, 40},
		"newest log a link out of the directory": {func(t *testing.T, dir string) {
			path, elsewhere := kvtest.NewestFile(t, dir, "log"), filepath.Join(t.TempDir(), "log")
			if err := errors.Join(os.Rename(path, elsewhere), os.Symlink(elsewhere, path)); err != nil {
				t.Fatal(err)
			}
		}, func(n uint64) bool { return n == 0 }, 40},
		"log a directory": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, "journal", "log-0000000000000000")
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, func(n uint64) bool { return n == 0 }, 40},
	} {
		for _, child := range []string{"", "panic", "hang", "memory", "nothing"} {
			if child != "" && name != "one record" {
				continue
			}
			t.Run(name+child, func(t *testing.T) {
				is := is.New(t)
				dir, before := written(t, 40)
				t.Parallel()
				if child == "" {
					is.NoErr(os.RemoveAll(filepath.Join(dir, "cache")))
				}
				row.harm(t, dir)
				files := kvtest.FilesIn(t, dir)
				o := repair.RepairOptions{Schema: tables.All, DryRun: true}
				if child != "" {
					o = repair.WithEnv(o, kvtest.HangEnv+"="+child)
				}
				if child == "hang" {
					o = repair.WithTimeout(o, 200*time.Millisecond)
				}
				dry, err := repair.Repair(dir, o)
				is.NoErr(err)
				is.True(maps.Equal(kvtest.FilesIn(t, dir), files)) // nothing was changed
				o.DryRun = false
				r, err := repair.Repair(dir, o)
				is.NoErr(err)
				dry.Aside = r.Aside
				is.Equal(dry, r)
				if !row.missing(r.Missing) {
					t.Fatalf("%d are missing: %+v", r.Missing, r)
				}
				if child != "" {
					is.True(strings.Contains(strings.Join(r.Damage, "\n"), "cache/kist.db cannot be read"))
				}
				s := kvtest.OpenAt(t, dir, nil)
				is.True(len(titles(t, s)) >= row.least)
				if r.Missing == 0 {
					is.True(maps.Equal(kvtest.ContentOf(t, s), before))
					is.True(r.Whole())
				} else {
					is.True(!r.Whole())
					is.Equal(uint64(r.Changes), r.Missing) // each added a note
				}
				kvtest.View(t, s, kvtest.Audit)
				kvtest.Add(t, s, kvtest.Anyone(t, s), record.Notes, `{"content":"after"}`)
				for path, text := range files { // it is all there still
					rel, err := filepath.Rel(dir, path)
					is.NoErr(err)
					if top := strings.Split(rel, string(filepath.Separator))[0]; top == "journal" {
						now, err := os.ReadFile(filepath.Join(dir, r.Aside, rel))
						is.NoErr(err)
						is.Equal(string(now), text)
					}
				}
			})
		}
	}
}

// When a repair is killed before any of its steps, the next one completes it with the
// same result. Until then no start takes the data for something else.
func TestRepairKilled(t *testing.T) {
	t.Parallel()
	for n := range 9 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir, before := written(t, 20)
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 500)
			steps := 0
			_, err := repair.Repair(dir, repair.WithStep(repair.RepairOptions{Schema: tables.All}, func(string) error {
				steps++
				if steps > n {
					return kvtest.ErrPlanned
				}
				return nil
			}))
			is.True(errors.Is(err, kvtest.ErrPlanned) == (steps > n))
			s, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
			if err == nil {
				is.True(maps.Equal(kvtest.ContentOf(t, s), before))
				is.NoErr(s.Close())
			}
			r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
			is.NoErr(err)
			is.True(r.Whole())
			s = kvtest.OpenAt(t, dir, nil)
			is.True(maps.Equal(kvtest.ContentOf(t, s), before))
			left, err := datadir.Interrupted(dir)
			is.NoErr(err)
			is.Equal(len(left), 0)
		})
	}
}

// The remains of a repair or dry run that was killed while reading are removed, because
// they hold copies of everything.
func TestKilledRepairLeavesNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, before := written(t, 20)
	left := filepath.Join(dir, datadir.RepairPrefix+"20260101T000000.000Z", "copy")
	is.NoErr(os.MkdirAll(left, 0o700))
	others := filepath.Join(dir, datadir.RepairPrefix+"notes of the owner")
	is.NoErr(os.Mkdir(others, 0o700))
	s, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
	is.NoErr(err)
	is.True(maps.Equal(kvtest.ContentOf(t, s), before))
	is.NoErr(s.Close())
	all, err := datadir.Interrupted(dir)
	is.NoErr(err)
	is.Equal(len(all), 0)
	_, err = os.Stat(others)
	is.NoErr(err)

	scratch := t.TempDir()
	killed := filepath.Join(scratch, datadir.DryPrefix+"KILLED")
	is.NoErr(os.Mkdir(killed, 0o700))
	is.NoErr(os.WriteFile(filepath.Join(killed, "owner"), nil, 0o600))
	r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All, DryRun: true, Scratch: scratch})
	is.NoErr(err)
	is.True(r.Whole())
	_, err = os.Stat(others)
	is.NoErr(err)
	entries, err := os.ReadDir(scratch)
	is.NoErr(err)
	is.Equal(len(entries), 0)
}

// A failed step is undone: the data directory is as it was, and starts if it did
// before.
func TestRepairFails(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, before := written(t, 20)
	is.NoErr(os.WriteFile(filepath.Join(dir, datadir.CleanName), []byte("no proof"), 0o600))
	_, err := repair.Repair(dir, repair.WithStep(repair.RepairOptions{Schema: tables.All}, func(what string) error {
		if what != "put aside "+datadir.CleanName {
			return nil
		}
		// The file cannot be moved: something has the name that it is to get.
		all, err := datadir.Interrupted(dir)
		return errors.Join(err, os.Mkdir(filepath.Join(all[0], "old", datadir.CleanName), 0o700))
	}))
	is.True(err != nil)
	s := kvtest.OpenAt(t, dir, nil)
	is.True(maps.Equal(kvtest.ContentOf(t, s), before))
}

// The next repair also reports what an earlier one lost, wherever that was killed,
// until its folder is removed.
func TestRepairTellsOfEarlierLoss(t *testing.T) {
	t.Parallel()
	for n := range 9 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir, _ := written(t, 20)
			is.NoErr(os.RemoveAll(filepath.Join(dir, "cache")))
			kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 500)
			steps := 0
			_, err := repair.Repair(dir, repair.WithStep(repair.RepairOptions{Schema: tables.All}, func(string) error {
				steps++
				if steps > n {
					return kvtest.ErrPlanned
				}
				return nil
			}))
			is.True(errors.Is(err, kvtest.ErrPlanned) == (steps > n))
			for range 2 {
				r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
				is.NoErr(err)
				is.True(!r.Whole())
			}
			lossy, err := repair.LossyRepairs(dir)
			is.NoErr(err)
			is.Equal(len(lossy), 1)
			is.NoErr(os.RemoveAll(filepath.Join(dir, lossy[0])))
			r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
			is.NoErr(err)
			is.True(r.Whole())
		})
	}
}

// A repair uses the working copy alone only when told to.
func TestRepairFromCopyAlone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, before := written(t, 20)
	is.NoErr(os.RemoveAll(filepath.Join(dir, "journal")))
	_, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "--unproven-copy"))
	r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All, Unproven: true})
	is.NoErr(err)
	is.True(!r.Whole())
	s := kvtest.OpenAt(t, dir, nil)
	got := kvtest.ContentOf(t, s)
	delete(got, "meta"+"seq")
	delete(before, "meta"+"seq")
	is.True(maps.Equal(got, before))
}

// A file with the name of a log but no contents of one does not count as lost commits.
// With the working copy nothing is lost. Without it nobody knows whether the file held
// something, and the report says only that.
func TestRepairWithStrayLog(t *testing.T) {
	t.Parallel()
	for _, cache := range []bool{true, false} {
		t.Run(fmt.Sprintf("cache %v", cache), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			dir, before := written(t, 20)
			if !cache {
				is.NoErr(os.RemoveAll(filepath.Join(dir, "cache")))
			}
			const name = "log-deadbeef00000000"
			is.NoErr(os.WriteFile(filepath.Join(dir, "journal", name), bytes.Repeat([]byte("none of a log's "), 500), 0o600))
			r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
			is.NoErr(err)
			is.Equal(r.Missing, uint64(0))
			is.Equal(len(r.Gaps), 0)
			is.Equal(r.Whole(), cache)
			is.True(strings.Contains(strings.Join(r.Damage, "\n"), name))
			is.True(strings.Contains(strings.Join(r.Unknown, "\n"), name))
			got := kvtest.ContentOf(t, kvtest.OpenAt(t, dir, nil))
			if !cache {
				delete(got, "meta"+"seq")
				delete(before, "meta"+"seq")
			}
			is.True(maps.Equal(got, before))
		})
	}
}

// A commit that differs from what was written, although its checksum is right, is found
// by the digest of the last commit, and a repair does not call the result whole.
func TestRepairComparesDigest(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, _ := written(t, 20)
	is.NoErr(os.RemoveAll(filepath.Join(dir, "cache")))
	path := kvtest.NewestFile(t, dir, "log")
	b, err := os.ReadFile(path)
	is.NoErr(err)
	changed := 0
	const head, frameHead = 44, 8
	for at := head; at < len(b); {
		n := int(binary.BigEndian.Uint32(b[at:]))
		payload := b[at+frameHead : at+frameHead+n]
		if i := bytes.Index(payload, []byte("note 15")); i >= 0 && changed == 0 {
			payload[i] = 'N'
			binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
			changed++
		}
		at += frameHead + n
	}
	is.Equal(changed, 1)
	is.NoErr(os.WriteFile(path, b, 0o600))
	_, err = kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "kist verify --repair"))
	r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
	is.NoErr(err)
	is.Equal(r.Missing, uint64(0))
	is.True(!r.Whole())
	is.True(r.Partial)
	is.True(strings.Contains(strings.Join(r.Unknown, "\n"), "digest"))
	kvtest.View(t, kvtest.OpenAt(t, dir, nil), kvtest.Audit)
}

// A repair without room to read the working copy ends before it changes anything.
// Continuing without the copy could lose its data.
func TestRepairWithoutRoom(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, before := written(t, 20)
	kvtest.Flip(t, kvtest.NewestFile(t, dir, "log"), 500)
	files := kvtest.FilesIn(t, dir)
	delete(files, filepath.Join(dir, "LOCK"))
	for _, dry := range []bool{true, false} {
		_, err := repair.Repair(
			dir, repair.WithEnv(repair.RepairOptions{Schema: tables.All, DryRun: dry}, kvtest.HangEnv+"=full"),
		)
		is.True(errors.Is(err, syscall.ENOSPC))
		is.True(strings.Contains(err.Error(), "Make room there"))
		now := kvtest.FilesIn(t, dir)
		delete(now, filepath.Join(dir, "LOCK"))
		is.True(maps.Equal(now, files))
	}
	r, err := repair.Repair(dir, repair.RepairOptions{Schema: tables.All})
	is.NoErr(err)
	is.True(r.Whole())
	is.True(maps.Equal(kvtest.ContentOf(t, kvtest.OpenAt(t, dir, nil)), before))
}
