package blobs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
)

// later opens a store that has the folders of the contents, and stages a content
// with KeepLater.
func laterStore(t *testing.T, contents ...[]byte) (*Store, string) {
	t.Helper()
	is := is.New(t)
	// Old kernels have no files without a name on overlayfs. Those of /dev/shm always have.
	for _, parent := range []string{t.TempDir(), shared(t)} {
		dir := filepath.Join(parent, "blobs")
		is.NoErr(os.Mkdir(dir, 0o700))
		for _, c := range contents {
			if err := os.Mkdir(filepath.Join(dir, refOf(c).folder()), 0o700); !errors.Is(err, fs.ErrExist) {
				is.NoErr(err)
			}
		}
		s, err := Open(dir)
		is.NoErr(err)
		t.Cleanup(func() { _ = s.Close() })
		if s.later.top != nil {
			return s, dir
		}
	}
	t.Fatal("no file system has files without a name")
	return nil, ""
}

// shared is a folder on a file system in memory.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "kist-blobs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func keepLater(t *testing.T, s *Store, c []byte) *Kept {
	t.Helper()
	is := is.New(t)
	st, err := s.StageSmall()
	is.NoErr(err)
	defer st.Drop()
	_, err = st.ReadFrom(bytes.NewReader(c))
	is.NoErr(err)
	kept, err := st.KeepLater()
	is.NoErr(err)
	is.Equal(kept.Ref, refOf(c))
	is.Equal(kept.Size, int64(len(c)))
	got, err := read(s, kept.Ref)
	is.NoErr(err)
	is.True(bytes.Equal(got, c))
	return kept
}

// Small content gets its name without a sync, and Settle syncs it once.
func TestKeepLater(t *testing.T) {
	is := is.New(t)
	c := bytes.Repeat([]byte("s"), SmallContent)
	s, dir := laterStore(t, c, nil)
	steps := recordSteps(s)
	kept := keepLater(t, s, c)
	is.Equal(kept.Bytes, c)
	is.Equal(steps(), []string{"name"})
	info, err := os.Lstat(filepath.Join(dir, kept.Ref.path()))
	is.NoErr(err)
	is.Equal(info.Mode(), fs.FileMode(0o600))
	kept.Release()
	kept.Release()
	is.Equal(s.later.held, 0)

	empty := keepLater(t, s, nil)
	is.True(empty.Bytes != nil)
	empty.Release()
	is.Equal(steps(), []string{"name"})

	is.NoErr(s.Settle())
	got := steps()
	slices.Sort(got)
	is.Equal(got, []string{"sync blob", "sync blob", "sync folder", "sync folder"})
	is.NoErr(s.Settle())
	is.Equal(len(steps()), 0)

	gone := keepLater(t, s, []byte{})
	gone.Release()
	is.NoErr(os.Remove(filepath.Join(dir, gone.Ref.path()))) // as Unlink does
	is.NoErr(s.Settle())
}

// In all other cases KeepLater is Keep.
func TestKeepLaterOrKeep(t *testing.T) {
	is := is.New(t)
	small, large, damaged, elsewhere := []byte("small"), bytes.Repeat([]byte("l"), SmallContent+1), []byte("damaged"), []byte("elsewhere")
	s, dir := laterStore(t, small, large, damaged)
	now := func(c []byte) {
		t.Helper()
		kept := keepLater(t, s, c)
		is.True(kept.Bytes == nil)
		kept.Release()
	}
	now(large)
	now(elsewhere) // in a new folder
	keepLater(t, s, small).Release()
	now(small) // it may not be on stable storage yet, so it is synced
	is.NoErr(os.WriteFile(filepath.Join(dir, refOf(small).path()), []byte("wrong"), 0o600))
	now(small)
	is.NoErr(os.WriteFile(filepath.Join(dir, refOf(damaged).path()), []byte("DAMAGED"), 0o600))
	is.True(errors.Is(s.Check(refOf(damaged)), ErrDamaged))
	is.NoErr(os.Remove(filepath.Join(dir, refOf(damaged).path())))
	now(damaged) // which ends the quarantine
	is.NoErr(s.Damaged.Err(refOf(damaged)))

	s.steps.hook = func(step string) error {
		if step == "name" {
			return syscall.ENOSPC
		}
		return nil
	}
	other := []byte("another") // whatever fails, Keep decides
	is.NoErr(s.root.makeDurable(refOf(other).folder()))
	now(other)
	s.steps.hook = nil

	var all []*Stage
	for range maxHeld {
		st, err := s.StageSmall()
		is.NoErr(err)
		all = append(all, st)
	}
	bounded := []byte("memory is bounded")
	is.NoErr(s.root.makeDurable(refOf(bounded).folder()))
	now(bounded)
	for _, st := range all {
		is.NoErr(st.Drop())
	}
	is.Equal(s.later.held, 0)
	s.later.syncing = maxLater
	third := []byte("third")
	is.NoErr(s.root.makeDurable(refOf(third).folder()))
	now(third) // too many wait
	s.later.syncing = 0
	keepLater(t, s, []byte("and a fourth")).Release()
}

// Content that turns out to be large moves to a file.
func TestStageSmallGrows(t *testing.T) {
	is := is.New(t)
	s, _ := laterStore(t)
	c := bytes.Repeat([]byte("0123456789"), SmallContent/5)
	st, err := s.StageSmall()
	is.NoErr(err)
	for part := range slices.Chunk(c, 5000) {
		_, err := st.Write(part)
		is.NoErr(err)
	}
	is.Equal(st.Size(), int64(len(c)))
	kept, err := st.KeepLater()
	is.NoErr(err)
	defer kept.Release()
	got, err := read(s, refOf(c))
	is.NoErr(err)
	is.True(bytes.Equal(got, c))

	s.steps.hook = func(step string) error {
		if step == "create" {
			return syscall.ENOSPC
		}
		return nil
	}
	st, err = s.StageSmall()
	is.NoErr(err)
	_, err = st.Write(c)
	is.True(errors.Is(err, syscall.ENOSPC))
	_, err = st.KeepLater()
	is.True(errors.Is(err, syscall.ENOSPC))
	is.NoErr(st.Drop())
	is.Equal(s.later.held, 0)
}

// After a failed sync, a new file gets the bytes: later syncs skip what that one
// lost.
func TestSettleAfterFailedSync(t *testing.T) {
	for _, step := range []string{"sync blob", "sync all"} {
		t.Run(step, func(t *testing.T) {
			is := is.New(t)
			c := []byte("lost by the disk")
			s, dir := laterStore(t, c)
			if step == "sync all" {
				s.later.all = 1
			}
			path := filepath.Join(dir, refOf(c).path())
			keepLater(t, s, c).Release()
			first, err := os.Lstat(path)
			is.NoErr(err)
			failing := []string{step, "sync file"}
			s.steps.hook = func(at string) error {
				if slices.Contains(failing, at) {
					return syscall.EIO
				}
				return nil
			}
			is.True(errors.Is(s.Settle(), syscall.EIO))
			is.True(errors.Is(s.Settle(), syscall.EIO)) // it is not forgotten
			failing = failing[:1]
			is.NoErr(s.Settle())
			second, err := os.Lstat(path)
			is.NoErr(err)
			is.True(!os.SameFile(first, second))
			got, err := os.ReadFile(path)
			is.NoErr(err)
			is.Equal(got, c)

			failing = []string{"sync folder"}
			is.NoErr(s.Redo(refOf(c), c))
			s.later.all = 2
			is.True(errors.Is(s.Settle(), syscall.EIO))
			failing = nil
			steps := recordSteps(s)
			is.NoErr(s.Settle())
			is.Equal(steps(), []string{"sync blob", "sync folder"})
		})
	}
}

// Redo leaves the right bytes under the name, whatever is there.
func TestRedo(t *testing.T) {
	c := []byte("the right bytes")
	for name, before := range map[string]func(path string) error{
		"missing":        func(string) error { return nil },
		"missing folder": func(path string) error { return os.Remove(filepath.Dir(path)) },
		"right":          func(path string) error { return os.WriteFile(path, c, 0o600) },
		"zeros":          func(path string) error { return os.WriteFile(path, make([]byte, len(c)), 0o600) },
		"short":          func(path string) error { return os.WriteFile(path, c[:3], 0o600) },
		"long":           func(path string) error { return os.WriteFile(path, append(c[:len(c):len(c)], 0), 0o600) },
		"folder":         func(path string) error { return os.Mkdir(path, 0o700) },
		"quarantine":     func(path string) error { return os.WriteFile(path, []byte("the wrong bytes"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s, dir := laterStore(t, c)
			ref := refOf(c)
			path := filepath.Join(dir, ref.path())
			is.NoErr(before(path))
			if name == "quarantine" {
				is.True(errors.Is(s.Check(ref), ErrDamaged))
			}
			is.NoErr(s.Redo(ref, c))
			is.NoErr(s.Settle())
			is.NoErr(s.Check(ref))
			is.NoErr(s.Damaged.Err(ref))
			is.True(errors.Is(s.Redo(ref, []byte("others")), ErrDamaged))
			is.NoErr(s.Check(ref))
		})
	}
}

// The background settles what there is and then ends. Close settles the rest.
func TestSettleInTheBackground(t *testing.T) {
	is := is.New(t)
	first, second := []byte("first"), []byte("second")
	s, _ := laterStore(t, first, second)
	keepLater(t, s, first).Release()
	s.later.wake <- struct{}{}
	s.later.work.Wait()
	is.Equal(len(s.later.refs), 0)
	is.True(!s.later.running)
	keepLater(t, s, second).Release()
	is.Equal(len(s.later.refs), 1)
	is.NoErr(s.Close())
	is.Equal(len(s.later.refs), 0)
}

// Whatever runs at the same time: a blob that somebody pins has its bytes, and
// what is named after a Settle has begun waits for the next one.
func TestKeepLaterConcurrently(t *testing.T) {
	is := is.New(t)
	var contents [][]byte
	for i := range 6 {
		contents = append(contents, fmt.Appendf(nil, "content %d", i))
	}
	s, _ := laterStore(t, contents...)
	s.later.all = 3
	stop := time.Now().Add(300 * time.Millisecond)
	var work sync.WaitGroup
	for n := range 4 {
		work.Go(func() {
			for i := n; time.Now().Before(stop); i++ {
				c := contents[i%len(contents)]
				kept := keepLater(t, s, c)
				if err := s.Check(kept.Ref); err != nil {
					t.Error(err)
				}
				kept.Release()
				if _, err := s.Unlink(kept.Ref, func() (bool, error) { return i%3 == 0, nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Go(func() {
		for time.Now().Before(stop) {
			if err := s.Settle(); err != nil {
				t.Error(err)
			}
		}
	})
	work.Wait()
	is.NoErr(s.Settle())
	is.Equal(len(s.later.refs), 0)
	is.Equal(s.later.held, 0)
}
