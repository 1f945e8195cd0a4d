package kv_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

func TestMain(m *testing.M) { kvtest.RunTests(m) }

// A second process gives up soon and names the process that holds the directory.
func TestSecondProcess(t *testing.T) {
	is := is.New(t)
	s := kvtest.Open(t)
	self, err := os.Executable()
	is.NoErr(err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), kvtest.OpenEnv+"="+s.Dir())
	out, err := cmd.CombinedOutput()
	is.Equal(string(out), fmt.Sprint(os.Getpid()))
	is.NoErr(err)

	_, err = kv.Open(s.Dir(), kv.Options{Schema: tables.All}) // nor is there a second store in one process
	var used *datadir.InUse
	is.True(errors.As(err, &used))
	is.Equal(used.PID, os.Getpid())
	is.Equal(err.Error(), fmt.Sprintf("the data directory is in use by process %d", os.Getpid()))
	is.Equal((&datadir.InUse{}).Error(), "the data directory is in use by another process")
	kvtest.User(t, s, "ann") // the first goes on
}

func TestUnsafeDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("this system has no such modes")
	}
	for mode, ok := range map[os.FileMode]bool{
		0o700: true, 0o750: true, 0o755: true, 0o770: false, 0o702: false, 0o777: false,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			is := is.New(t)
			dir := t.TempDir()
			is.NoErr(os.Chmod(dir, mode))
			s, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
			is.Equal(err == nil, ok)
			if ok {
				is.NoErr(s.Close())
				return
			}
			is.True(strings.Contains(err.Error(), "chmod 700 "+dir))
			entries, err := os.ReadDir(dir)
			is.NoErr(err)
			is.Equal(len(entries), 0)
		})
	}
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := kvtest.OpenAt(t, dir, nil)
	for _, p := range []string{
		dir, filepath.Join(dir, "cache"), filepath.Join(dir, "LOCK"), filepath.Join(dir, "cache", "kist.db"),
	} {
		info, err := os.Stat(p)
		is.NoErr(err)
		is.Equal(info.Mode().Perm()&0o077, os.FileMode(0))
	}
	is.Equal(s.Dir(), dir)
	file := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(file, nil, 0o600))
	_, err := kv.Open(file, kv.Options{Schema: tables.All})
	is.True(err != nil)
	_, err = kv.Open(filepath.Join(file, "below"), kv.Options{Schema: tables.All})
	is.True(err != nil)
}

// Whatever has the name of the working copy, the store opens with everything.
func TestFolderForWorkingCopy(t *testing.T) {
	for _, name := range []string{"kist.db", "kist.db/within", "kist.db.new/within", "kist.db.new.runs/within"} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := kvtest.OpenAt(t, dir, nil)
			kvtest.User(t, s, "ann")
			is.NoErr(s.Close())
			path := filepath.Join(dir, "cache", name)
			is.NoErr(os.RemoveAll(filepath.Join(dir, "cache", "kist.db")))
			is.NoErr(os.MkdirAll(path, 0o700))
			s = kvtest.OpenAt(t, dir, nil)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				_, err := people.UserNamed(tx, "ann")
				return err
			})
			is.NoErr(s.Close())
		})
	}
}

// A newer format is refused wherever it is recorded, and nothing is touched.
func TestNewerFormat(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := kvtest.OpenAt(t, dir, nil)
			kvtest.User(t, s, "ann")
			kvtest.SetFormat(t, s, workcopy.Format+1)
			if !clean {
				is.NoErr(os.Remove(filepath.Join(dir, datadir.CleanName)))
			}
			before := kvtest.FilesIn(t, dir)
			for range 2 { // the refusal has let the directory go
				_, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
				is.True(err != nil)
				is.True(strings.Contains(err.Error(), fmt.Sprintf("has format %d", workcopy.Format+1)))
				is.True(strings.Contains(err.Error(), fmt.Sprintf("reads formats up to %d", workcopy.Format)))
				is.True(maps.Equal(kvtest.FilesIn(t, dir), before))
			}
		})
	}
}

// TestFormerStandby: the data directory of a standby is refused and not touched, and the error says how
// to get a server.
func TestFormerStandby(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	is.NoErr(kvtest.OpenAt(t, dir, nil).Close())
	is.NoErr(os.WriteFile(
		filepath.Join(dir, datadir.StandbyName), []byte(`{"format":1,"store":"s3://bucket/home"}`), 0o600,
	))
	before := kvtest.FilesIn(t, dir)
	_, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "kist restore"))
	is.True(strings.Contains(err.Error(), "--take-over"))
	is.True(maps.Equal(kvtest.FilesIn(t, dir), before))
}

// A store of an older format is migrated in one commit, by steps that see it as any
// transaction does. If a step fails, nothing has changed.
func TestMigration(t *testing.T) {
	is := is.New(t)
	c := kvtest.NewClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, c.Now)
	u := kvtest.User(t, s, "ann")
	last := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`).ID
	kvtest.SetFormat(t, s, 0)
	path := filepath.Join(dir, "cache", "kist.db")
	was := tables.All.Migrations[0]
	t.Cleanup(func() { tables.All.Migrations[0] = was })
	c.Add(-time.Hour)

	tables.All.Migrations[0] = []kv.Migration{func(tx *kv.Tx) error {
		if _, err := people.AddUser(tx, people.User{Name: "bob"}); err != nil {
			return err
		}
		return kvtest.ErrPlanned
	}}
	contents := func() map[string]string {
		db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
		is.NoErr(err)
		out := map[string]string{}
		is.NoErr(db.View(func(tx *bolt.Tx) error {
			return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
				return b.ForEach(func(k, v []byte) error { out[string(name)+string(k)] = string(v); return nil })
			})
		}))
		is.NoErr(db.Close())
		return out
	}
	before := contents()
	_, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Now: c.Now})
	is.True(errors.Is(err, kvtest.ErrPlanned))
	is.True(strings.Contains(err.Error(), "from format 0 to 1"))
	is.Equal(contents(), before)

	var id record.ID
	tables.All.Migrations[0] = []kv.Migration{func(tx *kv.Tx) error {
		bob, err := people.AddUser(tx, people.User{Name: "bob"})
		if err == nil {
			id = bob.ID
		}
		return err
	}}
	n := 0
	for range 2 { // the second time there is nothing to do
		s = kvtest.OpenAt(t, dir, c.Now)
		is.True(string(id[:]) > string(last[:])) // ids go on from the latest, the clock too
		kvtest.View(t, s, func(tx *kv.Tx) error {
			is.Equal(binary.BigEndian.Uint32(tx.Get(kvtest.Bucket("meta"), []byte("format"))), uint32(workcopy.Format))
			all, err := people.Users(tx)
			is.NoErr(err)
			n = len(all)
			return kvtest.Audit(tx)
		})
		is.Equal(n, 2)
		kvtest.Update(t, s, func(tx *kv.Tx) error {
			if next := tx.NewID(); string(next[:]) <= string(id[:]) {
				return fmt.Errorf("%s is not after %s", next, id)
			}
			return nil
		})
		is.NoErr(s.Close())
	}
}

// A first start that was cut short can be repeated.
func TestEmptyFile(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	is.NoErr(os.MkdirAll(filepath.Join(dir, "cache"), 0o700))
	is.NoErr(os.WriteFile(filepath.Join(dir, "cache", "kist.db"), nil, 0o600))
	kvtest.User(t, kvtest.OpenAt(t, dir, nil), "ann")
}

// A directory that held data but has no journal is not taken for a new one.
func TestNoJournal(t *testing.T) {
	for name, take := range map[string]string{"copy": "blobs", "blobs": "cache"} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := kvtest.OpenAt(t, dir, nil)
			kvtest.User(t, s, "ann")
			is.NoErr(s.Close())
			is.NoErr(os.MkdirAll(filepath.Join(dir, "blobs", "ab"), 0o700))
			for _, gone := range []string{"journal", take, datadir.CleanName} {
				is.NoErr(os.RemoveAll(filepath.Join(dir, gone)))
			}
			before := kvtest.FilesIn(t, dir)
			_, err := kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
			is.True(err != nil)
			is.True(strings.Contains(err.Error(), "journal/ is empty or missing"))
			is.True(maps.Equal(kvtest.FilesIn(t, dir), before))
		})
	}
}

// A working copy that is torn, empty, missing or from another store is rebuilt. The
// proof of another copy proves nothing.
func TestWorkingCopyHeals(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"gone":    os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"torn":    func(path string) error { return os.Truncate(path, 20_000) },
		"foreign": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("not a store"), 10_000), 0o600) },
		"copied": func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.Remove(path)
			}
			if err != nil {
				return err
			}
			return os.WriteFile(path, b, 0o600)
		},
		"folder": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			dir := filepath.Join(t.TempDir(), "data")
			s := kvtest.OpenAt(t, dir, nil)
			u := kvtest.User(t, s, "ann")
			r := kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
			is.NoErr(s.Close())
			path := filepath.Join(dir, "cache", "kist.db")
			before, known := datadir.Identify(path)
			is.NoErr(harm(path))
			s = kvtest.OpenAt(t, dir, nil)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				_, err := catalog.Record(tx, u.ID, record.Notes, r.ID.String())
				is.NoErr(err)
				return kvtest.Audit(tx)
			})
			after, _ := datadir.Identify(path)
			is.True(known != nil || before != after)
		})
	}
}

// After a clean stop the working copy is used as it is, and the same log continues.
func TestCleanStart(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "cache", "kist.db")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	if _, err := datadir.Identify(path); err != nil {
		t.Skip("this system cannot tell a file from its copies")
	}
	for range 3 {
		is.NoErr(s.Close())
		before, err := datadir.Identify(path)
		is.NoErr(err)
		s = kvtest.OpenAt(t, dir, nil)
		after, err := datadir.Identify(path)
		is.NoErr(err)
		is.Equal(before.Inode, after.Inode)
		_, err = os.Lstat(filepath.Join(dir, datadir.CleanName))
		is.True(os.IsNotExist(err)) // nothing is proven while it runs
		kvtest.Add(t, s, u.ID, record.Notes, `{"content":"c"}`)
		names, err := os.ReadDir(filepath.Join(dir, "journal"))
		is.NoErr(err)
		is.Equal(len(names), 2) // the log, and journal.RecentName
	}
}

// A journal that ends before the last clean stop has lost acknowledged data and is
// refused.
func TestShortJournal(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	kvtest.User(t, s, "ann")
	is.NoErr(s.Close())
	log := filepath.Join(dir, "journal", "log-0000000000000000")
	b, err := os.ReadFile(log)
	is.NoErr(err)
	b[len(b)-3] ^= 1
	is.NoErr(os.WriteFile(log, b, 0o600))
	is.NoErr(os.RemoveAll(filepath.Join(dir, "cache")))
	before := kvtest.FilesIn(t, dir)
	_, err = kv.Open(dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "journal/log-0000000000000000 is damaged"))
	after := kvtest.FilesIn(t, dir)
	delete(after, filepath.Join(dir, "cache", "CACHEDIR.TAG"))
	is.True(maps.Equal(after, before))
}

// The numbers and names of buckets never change. A new bucket is a new format: an older
// program would take it for damage.
func TestBuckets(t *testing.T) {
	is := is.New(t)
	is.Equal(workcopy.Format, 8) // the format with the buckets below
	want := strings.Fields(`meta user user.name key key.digest record record.slug record.label record.order sum view change
		tag tag.name folder folder.name blob blob.loose webhook delivery answer record.end device device.code spent notice delivery.line delivery.due delivery.log delivery.sum request item item.state item.blob sender 40:upload upload.slug upload.secret import import.remarks 46:fetch fetch.line 50:page page.due activity history.index visit visit.log
		56:trash trash.line version trash.blob member member.order
		62:login passkey 65:identity identity.subject 70:crc trash.version membership membership.user`)
	all := slices.Collect(tables.All.Buckets().All())
	is.Equal(len(all), len(want))
	no := 0
	for i, b := range all {
		no++
		if at, name, jumps := strings.Cut(want[i], ":"); jumps {
			want[i] = name
			_, err := fmt.Sscan(at, &no)
			is.NoErr(err)
		}
		is.Equal(b.Name, want[i])
		is.Equal(int(b.No), no)
	}
}

// Before a migration the store is kept as it was: an older program continues from the
// earlier logs when the files of the newer one are moved away.
func TestUpgradeIsTakenBack(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := kvtest.OpenAt(t, dir, nil)
	u := kvtest.User(t, s, "ann")
	kvtest.SetFormat(t, s, 0)
	was := tables.All.Migrations[0]
	t.Cleanup(func() { tables.All.Migrations[0] = was })
	tables.All.Migrations[0] = nil
	old := kvtest.FilesIn(t, filepath.Join(dir, "journal"))
	s = kvtest.OpenAt(t, dir, nil)
	kvtest.Add(t, s, u.ID, record.Notes, `{"content":"new"}`)
	is.NoErr(s.Close())
	j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
	is.NoErr(err)
	parts, err := j.Files()
	is.NoErr(errors.Join(err, j.Close()))
	is.Equal(len(parts), 2) // a snapshot and a log
	for name, text := range kvtest.FilesIn(t, filepath.Join(dir, "journal")) {
		if strings.HasPrefix(filepath.Base(name), "snap-") {
			is.Equal(binary.BigEndian.Uint32([]byte(text[12:])), uint32(0)) // in the format it has
		}
		if _, before := old[name]; !before {
			is.NoErr(os.Remove(name))
		}
	}
	is.True(maps.Equal(kvtest.FilesIn(t, filepath.Join(dir, "journal")), old))
}
