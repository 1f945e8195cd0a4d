package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	bolt "go.etcd.io/bbolt"

	"kist/kv/record"
)

// openEnv makes the test binary another process that opens a store.
const openEnv = "KIST_TEST_OPEN"

func TestMain(m *testing.M) {
	dir := os.Getenv(openEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	start := time.Now()
	_, err := Open(dir, Options{})
	var used *InUse
	if !errors.As(err, &used) || time.Since(start) > 2*time.Second {
		fmt.Printf("%v after %v\n", err, time.Since(start))
		os.Exit(1)
	}
	fmt.Print(used.PID)
}

// A second process gives up soon, and says which one is there.
func TestSecondProcess(t *testing.T) {
	is := is.New(t)
	s := open(t)
	self, err := os.Executable()
	is.NoErr(err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), openEnv+"="+s.Dir())
	out, err := cmd.CombinedOutput()
	is.Equal(string(out), fmt.Sprint(os.Getpid()))
	is.NoErr(err)

	_, err = Open(s.Dir(), Options{}) // nor is there a second store in one process
	var used *InUse
	is.True(errors.As(err, &used))
	is.Equal(used.PID, os.Getpid())
	is.Equal(err.Error(), fmt.Sprintf("the data directory is in use by process %d", os.Getpid()))
	is.Equal((&InUse{}).Error(), "the data directory is in use by another process")
	user(t, s, "ann") // the first goes on
}

func TestUnsafeDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // has no such modes
	}
	for mode, ok := range map[os.FileMode]bool{0o700: true, 0o750: true, 0o755: true, 0o770: false, 0o702: false, 0o777: false} {
		t.Run(mode.String(), func(t *testing.T) {
			is := is.New(t)
			dir := t.TempDir()
			is.NoErr(os.Chmod(dir, mode))
			s, err := Open(dir, Options{Log: quiet})
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
	s := openAt(t, dir, nil)
	for _, p := range []string{dir, filepath.Join(dir, "cache"), filepath.Join(dir, "LOCK"), filepath.Join(dir, "cache", "kist.db")} {
		info, err := os.Stat(p)
		is.NoErr(err)
		is.Equal(info.Mode().Perm()&0o077, os.FileMode(0))
	}
	is.Equal(s.Dir(), dir)
	file := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(file, nil, 0o600))
	_, err := Open(file, Options{})
	is.True(err != nil)
	_, err = Open(filepath.Join(file, "below"), Options{})
	is.True(err != nil)
}

// setFormat writes another format into a store that is closed.
func setFormat(t testing.TB, dir string, n uint32) string {
	t.Helper()
	path := filepath.Join(dir, "cache", "kist.db")
	db, err := bolt.Open(path, 0o600, nil)
	if err == nil {
		err = db.Update(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(metaBucket.Name)).Put(metaFormat, binary.BigEndian.AppendUint32(nil, n))
		})
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNewerFormat(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, nil)
	user(t, s, "ann")
	is.NoErr(s.Close())
	path := setFormat(t, dir, Format+1)
	before, err := os.ReadFile(path)
	is.NoErr(err)
	_, err = Open(dir, Options{})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), fmt.Sprintf("has format %d", Format+1)))
	is.True(strings.Contains(err.Error(), fmt.Sprintf("reads formats up to %d", Format)))
	after, err := os.ReadFile(path)
	is.NoErr(err)
	is.True(bytes.Equal(before, after))
	setFormat(t, dir, Format)
	openAt(t, dir, nil) // the refusal has let the directory go
}

// A store of an older format is brought to the present one in one commit, by
// steps that see it as any transaction does; if one fails, nothing changed.
func TestMigration(t *testing.T) {
	is := is.New(t)
	c := newClock()
	dir := filepath.Join(t.TempDir(), "data")
	s := openAt(t, dir, c.now)
	u := user(t, s, "ann")
	last := add(t, s, u.ID, record.Notes, `{"content":"c"}`).ID
	is.NoErr(s.Close())
	path := setFormat(t, dir, 0)
	was := migrations[0]
	t.Cleanup(func() { migrations[0] = was })
	c.add(-time.Hour)

	migrations[0] = func(tx *Tx) error {
		if _, err := tx.AddUser(record.User{Name: "bob"}); err != nil {
			return err
		}
		return errPlanned
	}
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
	_, err := Open(dir, Options{Log: quiet, Now: c.now})
	is.True(errors.Is(err, errPlanned))
	is.True(strings.Contains(err.Error(), "from format 0 to 1"))
	is.Equal(contents(), before)

	var id record.ID
	migrations[0] = func(tx *Tx) error {
		bob, err := tx.AddUser(record.User{Name: "bob"})
		if err == nil {
			id = bob.ID
		}
		return err
	}
	n := 0
	for range 2 { // the second time there is nothing to do
		s = openAt(t, dir, c.now)
		is.True(string(id[:]) > string(last[:])) // ids go on from the latest, the clock too
		view(t, s, func(tx *Tx) error {
			is.Equal(binary.BigEndian.Uint32(tx.Get(metaBucket, metaFormat)), uint32(Format))
			all, err := tx.Users()
			is.NoErr(err)
			n = len(all)
			return audit(tx)
		})
		is.Equal(n, 2)
		update(t, s, func(tx *Tx) error {
			if next := tx.NewID(); string(next[:]) <= string(id[:]) {
				return fmt.Errorf("%s is not after %s", next, id)
			}
			return nil
		})
		is.NoErr(s.Close())
	}
}

// A first start that was cut short is started again.
func TestEmptyFile(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	is.NoErr(os.MkdirAll(filepath.Join(dir, "cache"), 0o700))
	is.NoErr(os.WriteFile(filepath.Join(dir, "cache", "kist.db"), nil, 0o600))
	user(t, openAt(t, dir, nil), "ann")
}

func TestNotAStore(t *testing.T) {
	is := is.New(t)
	dir := filepath.Join(t.TempDir(), "data")
	is.NoErr(os.MkdirAll(filepath.Join(dir, "cache"), 0o700))
	path := filepath.Join(dir, "cache", "kist.db")
	is.NoErr(os.WriteFile(path, bytes.Repeat([]byte("not a store"), 10_000), 0o600))
	_, err := Open(dir, Options{})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), path))
}

// The numbers and names of buckets are for good.
func TestBuckets(t *testing.T) {
	is := is.New(t)
	want := strings.Fields(`meta user user.name key key.digest record record.slug record.label record.order sum view change
		tag tag.name folder folder.name blob blob.loose webhook delivery answer`)
	is.Equal(len(buckets), len(want))
	for i, b := range buckets {
		is.Equal(b.Name, want[i])
		is.Equal(int(b.No), i+1)
	}
}
