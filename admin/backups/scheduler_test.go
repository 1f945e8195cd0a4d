package backups

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/admin/ops"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/datadir"
	"kist/kv/kvtest"
	"kist/kv/kvtest/needs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
)

// A place has a data directory and a marked folder for its backups.
type place struct {
	*testing.T
	*is.I
	data, folder string
	user         record.ID
	logged       bytes.Buffer
	now          time.Time
}

func newPlace(t *testing.T) *place {
	dir := t.TempDir()
	p := &place{T: t, I: is.New(t), data: filepath.Join(dir, "data"), folder: filepath.Join(dir, "backups")}
	p.now = time.Date(2026, 1, 1, 3, 30, 0, 0, time.UTC)
	p.change(func(s *kv.Store, _ *blobs.Store) {
		p.NoErr(s.Update(func(tx *kv.Tx) error {
			u, err := people.AddUser(tx, people.User{Name: "ann", Role: people.Admin, Quota: -1})
			if err == nil {
				p.user = u.ID
			}
			return err
		}))
	})
	p.put("a", "b", "c")
	made, err := Init(p.folder, p.data)
	p.NoErr(err)
	p.True(made)
	return p
}

// change opens the data directory for a moment.
func (p *place) change(fn func(*kv.Store, *blobs.Store)) {
	p.Helper()
	s, err := kv.Open(p.data, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Space: kvtest.SmallDisk})
	p.NoErr(err)
	content, err := blobs.OpenIn(p.data)
	p.NoErr(err)
	fn(s, content)
	p.NoErr(errors.Join(s.Close(), content.Close()))
}

// put adds files with these bytes.
func (p *place) put(texts ...string) {
	p.Helper()
	p.change(func(s *kv.Store, content *blobs.Store) {
		for _, text := range texts {
			stage, err := content.Stage()
			p.NoErr(err)
			_, err = stage.Write([]byte(text))
			p.NoErr(err)
			kept, err := stage.Keep()
			p.NoErr(err)
			f := record.NewForm(record.Files)
			b := f.Body.(*record.File)
			b.OriginalName, b.MimeType = text[:min(len(text), 40)], "text/plain"
			b.SHA256, b.Size = hex.EncodeToString(kept.Ref[:]), int64(len(text))
			p.NoErr(s.Update(func(tx *kv.Tx) error {
				_, err := catalog.Add(tx, catalog.Draft{
					Owner: p.user, Kind: record.Files, Form: f,
					Content: &record.Content{Ref: kept.Ref, Size: int64(len(text))},
				})
				return err
			}))
			kept.Release()
		}
	})
}

func (p *place) options() Options {
	log := slog.New(slog.NewTextHandler(&p.logged, nil))
	return Options{
		Folder: p.folder, At: TimeOfDay{3, 30}, Keep: Keep{Days: 3},
		Job:   ops.Job{Dir: p.data, Stderr: io.Discard, Log: log},
		Clock: Clock{func() time.Time { return p.now }, time.After}, Log: log,
		Failed: func(string, time.Time) {},
	}
}

// night makes a backup a day later. step is as in a Scheduler.
func (p *place) night(ctx context.Context, step func(string) error) error {
	p.now = p.now.Add(24 * time.Hour)
	s := New(p.options())
	if step != nil {
		s.step = step
	}
	return s.once(ctx)
}

func (p *place) list() []datadir.Backup {
	p.Helper()
	all, err := List(p.folder)
	p.NoErr(err)
	return all
}

// at is the path of a content in the data directory or a backup.
func at(dir, text string) string {
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	return filepath.Join(dir, "blobs", name[:2], name)
}

// names are the names in the folder.
func (p *place) names() (all []string) {
	p.Helper()
	entries, err := os.ReadDir(p.folder)
	p.NoErr(err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// restores fails unless a backup can be restored and is whole.
func (p *place) restores(b datadir.Backup) {
	p.Helper()
	job := p.options().Job
	job.Dir = filepath.Join(p.TempDir(), "data")
	done, err := job.Restore(ops.Source{Path: b.Path})
	p.NoErr(err)
	p.Equal(len(done.Missing), 0)
	v, err := job.Verify()
	p.NoErr(err)
	p.Equal(len(v.Missing)+len(v.Problems), 0)
}

// Each night has a backup of its own. Contents that the one before has are the same file, and new
// ones are copied. Those that need not be kept go.
func TestNights(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for night := range 5 {
		p.put(fmt.Sprint("night ", night))
		p.NoErr(p.night(t.Context(), nil))
	}
	all := p.list()
	p.Equal(len(all), 3)
	p.Equal(all[0].At, p.now)
	p.Equal(filepath.Base(all[0].Path), "2026-01-06T03-30-00Z")
	for i, b := range all {
		p.True(b.OK() && b.Size > 0 && !b.Checked.IsZero())
		p.restores(b)
		p.True(sameFile(at(b.Path, "a"), at(all[0].Path, "a")))
		_, err := os.Stat(at(b.Path, "night 4"))
		p.Equal(err == nil, i == 0)
	}
	p.True(!sameFile(at(all[0].Path, "a"), at(p.data, "a")))
	p.Equal(len(p.names()), 4) // nothing but the backups and the mark

	last, err := ops.LastBackup(p.data)
	p.NoErr(err)
	p.Equal(last.UTC(), p.now)
}

func sameFile(one, other string) bool {
	a, errA := os.Stat(one)
	b, errB := os.Stat(other)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// A run that is killed at any step leaves no half backup under a good name, and nothing that the next
// run does not remove.
func TestKilledRun(t *testing.T) {
	t.Parallel()
	steps := []string{"make", "note", "name", "named", "restore", "remove"}
	for _, at := range steps {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			for range 3 {
				p.NoErr(p.night(t.Context(), nil))
			}
			if at == "restore" { // a month after the last time
				p.now = p.now.Add(wholeEvery)
			}
			p.put("new")
			killed := errors.New("killed")
			err := p.night(t.Context(), func(step string) error {
				if step == at {
					return killed
				}
				return nil
			})
			p.True(errors.Is(err, killed))
			for _, b := range p.list() {
				p.restores(b)
			}
			// What a removal and a rehearsal leave behind.
			p.NoErr(os.MkdirAll(filepath.Join(p.folder, removingTag+"2025-01-01T00-00-00Z", "blobs", "aa"), 0o700))
			rest := filepath.Join(p.folder, scratchTag+"X")
			p.NoErr(os.MkdirAll(filepath.Join(rest, "data"), 0o700))
			p.NoErr(os.WriteFile(filepath.Join(rest, "owner"), nil, 0o600))

			p.NoErr(p.night(t.Context(), nil))
			p.Equal(len(p.names()), 4)
			for _, b := range p.list() {
				p.True(b.OK())
				p.restores(b)
			}
			p.Equal(p.list()[0].At, p.now)
		})
	}
}

// A stop of the server ends a backup and leaves it for the next run to go on with.
func TestStoppedRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx, stop := context.WithCancel(t.Context())
	err := p.night(ctx, func(step string) error {
		if step == "make" {
			stop()
		}
		return nil
	})
	p.True(errors.Is(err, context.Canceled))
	p.Equal(len(p.list()), 0)
	p.NoErr(p.night(t.Context(), nil))
	p.Equal(len(p.names()), 2)
	p.restores(p.list()[0])
}

// Folders that are refused, and why.
func TestRefusedFolders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(p *place)
		want   string
	}{
		"the disk is not mounted": {func(p *place) {
			p.NoErr(os.RemoveAll(p.folder))
			p.NoErr(os.Mkdir(p.folder, 0o700))
		}, "kist backup init "},
		"it is gone": {func(p *place) { p.NoErr(os.RemoveAll(p.folder)) }, "kist backup init "},
		"in the data directory": {func(p *place) {
			p.folder = filepath.Join(p.data, "backups")
			p.NoErr(os.Mkdir(p.folder, 0o700))
			p.NoErr(os.WriteFile(filepath.Join(p.folder, markName), nil, 0o600))
		}, "in the data directory"},
		"a link into the data directory": {func(p *place) {
			inside := filepath.Join(p.data, "backups")
			p.NoErr(os.Mkdir(inside, 0o700))
			p.NoErr(os.WriteFile(filepath.Join(inside, markName), nil, 0o600))
			p.NoErr(os.RemoveAll(p.folder))
			p.NoErr(os.Symlink(inside, p.folder))
		}, "in the data directory"},
		"another instance": {func(p *place) {
			p.NoErr(p.night(p.Context(), nil))
			p.NoErr(os.RemoveAll(p.data))
			p.change(func(*kv.Store, *blobs.Store) {})
		}, "another instance"},
		"another server": {func(p *place) {
			release, err := hold(p.folder)
			p.NoErr(err)
			p.Cleanup(release)
		}, "another backup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			c.before(p)
			before, _ := filepath.Glob(filepath.Join(p.folder, "*"))
			err := p.night(t.Context(), nil)
			p.True(err != nil && strings.Contains(err.Error(), c.want))
			after, _ := filepath.Glob(filepath.Join(p.folder, "*"))
			p.Equal(after, before)
		})
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	made, err := Init(p.folder, p.data)
	p.NoErr(err)
	p.True(!made)
	dir := t.TempDir()
	p.NoErr(os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	made, err = Init(dir, p.data)
	p.NoErr(err) // the top of a disk
	p.True(made)
	for _, folder := range []string{
		p.data, filepath.Join(p.data, "x"), filepath.Dir(p.data), filepath.Join(dir, "no", "parent"),
	} {
		_, err := Init(folder, p.data)
		p.True(err != nil)
	}
}

// Damage that the monthly check finds makes the backup a bad one. The next one reads everything, and
// copies what is damaged from the data directory.
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	for _, room := range []bool{true, false} {
		t.Run(fmt.Sprint("room to restore ", room), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.NoErr(p.night(t.Context(), nil))
			first := p.list()[0]
			p.NoErr(os.WriteFile(at(first.Path, "b"), []byte("x"), 0o600)) // a disk loses it
			p.now = p.now.Add(wholeEvery)
			night := func() error {
				p.now = p.now.Add(24 * time.Hour)
				o := p.options()
				o.Job.Space = func(string) (disk.Room, error) {
					return disk.Room{Free: 1 << 30, Total: map[bool]uint64{true: 1 << 31, false: 1 << 40}[room]}, nil
				}
				return New(o).once(t.Context())
			}
			err := night()
			p.True(err != nil)
			all := p.list()
			p.True(!all[0].OK() && !all[1].OK()) // they share the file
			p.True(lastGood(all, p.now).IsZero())

			p.NoErr(night())
			all = p.list()
			p.True(all[0].OK())
			p.True(sameFile(at(all[0].Path, "a"), at(first.Path, "a"))) // what is intact is linked
			p.restores(all[0])
		})
	}
}

// A clock that is set back shows in the times of the system's clock.
func TestSystemClock(t *testing.T) {
	t.Parallel()
	if now := SystemClock().Now(); strings.Contains(now.String(), "m=") {
		t.Errorf("%s has a monotonic part", now)
	}
}

// What a wrong clock has put into the future is not the backup that the next ones follow, and drives
// none of them out.
func TestBackupAhead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	now := p.now
	p.now = time.Date(2099, 1, 1, 3, 30, 0, 0, time.UTC)
	for range 3 { // as many as are kept
		p.NoErr(p.night(t.Context(), nil))
	}
	future := p.list()
	p.NoErr(note(future[0].Path, datadir.Backup{Error: "It is damaged."}))
	p.now = now

	p.put("new")
	p.NoErr(p.night(t.Context(), nil))
	p.NoErr(p.night(t.Context(), nil))
	p.True(strings.Contains(p.logged.String(), "files=4 copied=0")) // what the night before had copied
	all := credible(p.list(), p.now)
	p.Equal(len(all), 2)
	p.Equal(len(p.list()), 5)
	p.True(sameFile(at(all[0].Path, "new"), at(all[1].Path, "new")))
}

// Files that the data directory lacks make an incomplete backup, which is kept and told of.
func TestIncompleteBackup(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.NoErr(os.Remove(at(p.data, "b")))
	err := p.night(t.Context(), nil)
	p.True(errors.As(err, new(*lacking)))
	p.True(strings.Contains(p.list()[0].Error, "1 file is not in it, such as b"))
	_, err = ops.LastBackup(p.data)
	p.True(err != nil)
}

// A file that the data directory has lost does not end the monthly check of the others.
func TestIncompleteBackupIsChecked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.NoErr(os.Remove(at(p.data, "b")))
	p.True(errors.As(p.night(t.Context(), nil), new(*lacking)))
	first := p.list()[0]
	p.True(!first.Whole.IsZero())

	p.NoErr(os.WriteFile(at(first.Path, "c"), []byte("x"), 0o600)) // a disk loses it
	p.True(errors.As(p.night(t.Context(), nil), new(*lacking)))    // not read yet
	p.now = p.now.Add(wholeEvery)
	err := p.night(t.Context(), nil)
	p.True(errors.As(err, new(*ops.Incomplete)))
	for _, b := range p.list() {
		p.True(!b.Sound())
	}

	p.True(errors.As(p.night(t.Context(), nil), new(*lacking)))
	all := p.list()
	p.True(all[0].Sound() && !all[0].Whole.IsZero())
	p.True(!sameFile(at(all[0].Path, "c"), at(all[1].Path, "c")))
}

// What cannot be removed ends no backup, and is not offered as one.
func TestUndeletable(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	rest := filepath.Join(p.folder, removingTag+"2025-01-01T00-00-00Z")
	p.NoErr(os.Mkdir(rest, 0o700))
	p.NoErr(os.WriteFile(filepath.Join(rest, "blobs"), nil, 0o600)) // it cannot be listed
	for range 3 {
		p.NoErr(p.night(t.Context(), nil))
	}
	oldest := filepath.Join(p.list()[2].Path, "blobs")
	p.NoErr(os.RemoveAll(oldest))
	p.NoErr(os.WriteFile(oldest, nil, 0o600))

	p.now = p.now.Add(24 * time.Hour)
	s := New(p.options())
	p.NoErr(s.once(t.Context()))
	p.Equal(s.List(), p.list())
	p.Equal(len(p.list()), 3)
}

// A backup that takes long is late when it takes longer than the time between two, and counts as soon as it
// has its name.
func TestLongBackup(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := New(p.options())
	p.NoErr(s.once(t.Context()))
	begun := p.now.Add(24 * time.Hour)
	s.next = begun.Add(24 * time.Hour)
	s.step = func(step string) error {
		st := s.Status()
		switch step {
		case "make":
			p.now = begun.Add(lateAfter)
			st = s.Status()
			p.True(st.Error == "")
			p.now = begun.Add(lateAfter + time.Second)
			st = s.Status()
			p.True(st.Error != "" && strings.Contains(st.Error, "is not done"))
			p.now = begun.Add(3 * time.Hour)
		case "restore":
			p.True(st.Error == "" && st.Running)
			p.Equal(st.Last, begun)
		}
		return nil
	}
	p.NoErr(note(p.list()[0].Path, datadir.Backup{Checked: begun})) // never read as a whole
	p.now = begun
	p.NoErr(s.once(t.Context()))
}

// If the disk is missing at the start, the data directory knows when the last backup was made.
func TestMissingDiskAtStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.NoErr(p.night(t.Context(), nil))
	made := p.now
	p.NoErr(os.RemoveAll(p.folder))
	p.now = p.now.Add(48 * time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	o := p.options()
	var told time.Time
	o.Failed = func(_ string, last time.Time) {
		told = last
		stop()
	}
	New(o).Run(ctx)
	p.True(told.Equal(made))
}

// The schedule, with a clock that a test moves: at the start, each night, after failures, and a stop.
func TestSchedule(t *testing.T) {
	p := newPlace(t)
	synctest.Test(t, func(t *testing.T) {
		var told []string
		var mu sync.Mutex
		o := p.options()
		o.Clock = SystemClock()
		o.Failed = func(why string, _ time.Time) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, why)
		}
		s := New(o)
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { s.Run(ctx) })
		synctest.Wait()
		start := time.Now() // midnight UTC of 2000-01-01
		p.Equal(len(s.List()), 1)
		st := s.Status()
		p.True(st.Error == "" && !st.Running)
		p.Equal(st.Next, o.At.After(start))

		time.Sleep(48 * time.Hour)
		synctest.Wait()
		p.Equal(len(s.List()), 2) // the newest of each day

		p.NoErr(os.Rename(p.folder, p.folder+"-away")) // somebody pulls the disk
		p.NoErr(os.Mkdir(p.folder, 0o700))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		st = s.Status()
		p.True(st.Error != "" && strings.Contains(st.Error, "kist backup init"))
		p.True(st.Failures >= 3) // it is tried again
		p.Equal(len(told), 1)    // and told once a day
		empty, err := os.ReadDir(p.folder)
		p.NoErr(err)
		p.Equal(len(empty), 0)

		p.NoErr(os.Remove(p.folder))
		p.NoErr(os.Rename(p.folder+"-away", p.folder))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		st = s.Status()
		p.True(st.Error == "")
		p.True(time.Since(st.Last) < 24*time.Hour)
		stop()
		work.Wait()
	})
}

// Without a schedule there is nothing.
func TestNoSchedule(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var s *Scheduler
	s.Run(t.Context())
	is.True(s.Status() == nil)
	is.True(slices.Equal(s.List(), nil))
}

// Many files are backed up twice, and restored, in a bounded piece of memory. The second backup copies none of them.
func TestManyFiles(t *testing.T) {
	needs.Time(t)
	p := newPlace(t)
	const files, batch = 10_000, 1000
	p.change(func(s *kv.Store, _ *blobs.Store) {
		for n := 0; n < files; n += batch {
			p.NoErr(s.Update(func(tx *kv.Tx) error {
				for i := range batch {
					if err := p.bare(tx, fmt.Sprint("file ", n+i)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	})

	most, asked := uint64(0), 0
	measure := func() error {
		asked++
		if asked%500 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
		}
		return nil
	}
	for night := range 2 {
		p.now = p.now.Add(24 * time.Hour)
		job := p.options().Job
		job.Ended = measure
		r := &run{
			folder: p.folder, job: quiet(job), keep: Keep{Days: 3}, zone: time.UTC, now: func() time.Time { return p.now },
			log: job.Log, step: func(string) error { return nil }, named: func([]datadir.Backup) {},
		}
		p.NoErr(r.make())
		p.Equal(len(r.all), night+1)
	}
	all := p.list()
	p.True(sameFile(at(all[0].Path, "file 9999"), at(all[1].Path, "file 9999")))
	p.True(strings.Contains(p.logged.String(), "files=10003 copied=0"))
	t.Logf("%d MiB of memory at most", most>>20)
	p.True(most < 64<<20)
}

// bare adds a file whose bytes are put into place without the steps that make them durable.
func (p *place) bare(tx *kv.Tx, text string) error {
	sum := sha256.Sum256([]byte(text))
	path := at(p.data, text)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	f := record.NewForm(record.Files)
	b := f.Body.(*record.File)
	b.OriginalName, b.MimeType, b.SHA256, b.Size = text, "text/plain", hex.EncodeToString(sum[:]), int64(len(text))
	_, err := catalog.Add(tx, catalog.Draft{
		Owner: p.user, Kind: record.Files, Form: f, Content: &record.Content{Ref: sum, Size: int64(len(text))},
	})
	return err
}
