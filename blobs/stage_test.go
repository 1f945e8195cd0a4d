package blobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"kist/blobs/disk"

	"github.com/matryer/is"
)

// recordSteps makes the store record its steps. It returns a function that
// returns and clears them.
func recordSteps(s *Store) func() []string {
	var steps []string
	s.steps.hook = func(step string) error {
		if n := len(steps); step != "write" || n == 0 || steps[n-1] != "write" {
			steps = append(steps, step)
		}
		return nil
	}
	return func() []string {
		defer func() { steps = nil }()
		return steps
	}
}

// The promise of Keep is an order: bytes, then the name, then the folder.
func TestOrderOfSyncs(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		name, replace := []string{"link"}, []string{"link", "link temp", "rename"}
		if !s.unnamed {
			name, replace = []string{"rename"}, []string{"rename"}
		}
		sequence := func(steps ...any) []string {
			var all []string
			for _, step := range steps {
				switch step := step.(type) {
				case string:
					all = append(all, step)
				case []string:
					all = append(all, step...)
				}
			}
			return all
		}
		// Two contents whose refs begin with the same byte.
		first, second := []byte("0"), []byte(nil)
		for i := 1; second == nil; i++ {
			if c := fmt.Append(nil, i); refOf(c)[0] == refOf(first)[0] {
				second = c
			}
		}
		steps := recordSteps(s)

		keep(t, s, first).Release()
		is.Equal(steps(), sequence("create", "write", "sync top", "sync file", name, "sync folder")) // a new folder

		keep(t, s, second).Release()
		is.Equal(steps(), sequence("create", "write", "sync file", name, "sync folder")) // an existing folder

		keep(t, s, second).Release()
		is.Equal(steps(), sequence("create", "write", "sync blob", "sync folder")) // an existing copy

		path := filepath.Join(dir, refOf(second).path())
		is.NoErr(os.Truncate(path, 0))
		keep(t, s, second).Release()
		is.Equal(steps(), sequence("create", "write", "sync file", replace, "sync folder")) // replacing a damaged copy

		is.NoErr(os.RemoveAll(filepath.Join(dir, refOf(first).folder())))
		keep(t, s, first).Release()
		// somebody removed the folder
		is.Equal(steps(), sequence("create", "write", "sync top", "sync file", name, "sync folder"))

		// The name of a new folder could not be synced: once of a first folder,
		// once of one that somebody had removed.
		third := []byte("in a folder whose name was made and not synced")
		for range 2 {
			s.steps.hook = func(step string) error {
				if step == "sync top" {
					return syscall.EIO
				}
				return nil
			}
			_, err := tryKeep(s, third)
			is.True(errors.Is(err, syscall.EIO))
			steps = recordSteps(s)
			keep(t, s, third).Release()
			is.Equal(steps(), sequence("create", "write", "sync top", "sync file", name, "sync folder"))
			is.NoErr(os.RemoveAll(filepath.Join(dir, refOf(third).folder())))
		}

		// A process that died may have made a folder without syncing its name,
		// so a store that is opened syncs what it finds, once.
		again, err := Open(dir)
		is.NoErr(err)
		defer again.Close()
		again.unnamed = s.unnamed
		steps = recordSteps(again)
		keep(t, again, first).Release()
		is.Equal(steps(), sequence("create", "write", "sync blob", "sync folder"))
	})
}

func TestOneCopyPerContent(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		first := keep(t, s, []byte("twice"))
		before, err := os.Stat(filepath.Join(dir, first.Ref.path()))
		is.NoErr(err)
		second := keep(t, s, []byte("twice"))
		after, err := os.Stat(filepath.Join(dir, first.Ref.path()))
		is.NoErr(err)

		is.Equal(first.Ref, second.Ref)
		is.Equal(second.Size, int64(5))
		is.True(os.SameFile(before, after)) // the existing copy is used
		is.Equal(before.ModTime(), after.ModTime())
		is.Equal(paths(t, dir), []string{first.Ref.path()})

		// Each pin counts.
		first.Release()
		removed, err := s.Unlink(first.Ref, always)
		is.NoErr(err)
		is.True(!removed)
		second.Release()
		removed, err = s.Unlink(first.Ref, always)
		is.NoErr(err)
		is.True(removed)
	})
}

func TestDamagedCopyIsReplaced(t *testing.T) {
	content := bytes.Repeat([]byte("the right bytes "), 2*len(copyBuffer{})/16)
	wrong := bytes.Repeat([]byte("the wrong bytes "), len(content)/16)
	for _, tt := range []struct {
		name  string
		spoil func(path string) error
	}{
		{"cut short", func(p string) error { return os.Truncate(p, 3) }},
		{"empty", func(p string) error { return os.Truncate(p, 0) }},
		{"longer", func(p string) error { return os.Truncate(p, 1<<20) }},
		{"other bytes in the middle", func(p string) error {
			f, err := os.OpenFile(p, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte{0}, int64(len(copyBuffer{}))+5)
			return err
		}},
		{"other bytes of the same size", func(p string) error {
			return os.WriteFile(p, wrong, 0o600)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, s *Store, dir string) {
				is := is.New(t)
				kept := keep(t, s, content)
				defer kept.Release()
				path := filepath.Join(dir, kept.Ref.path())
				is.NoErr(tt.spoil(path))
				reader, err := s.Get(kept.Ref)
				is.NoErr(err)
				defer reader.Close()
				spoiled, err := os.ReadFile(path)
				is.NoErr(err)

				keep(t, s, content).Release()
				is.NoErr(s.Check(kept.Ref))
				is.Equal(paths(t, dir), []string{kept.Ref.path()})

				// A reader continues in the file that it opened.
				got, err := io.ReadAll(reader)
				is.NoErr(err)
				is.True(bytes.Equal(got, spoiled))
			})
		})
	}
}

// A folder with the name of a blob is moved aside: a rename cannot replace it.
func TestFolderIsReplaced(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		kept := keep(t, s, []byte("the right bytes"))
		defer kept.Release()
		path := filepath.Join(dir, kept.Ref.path())
		for n := range 2 {
			is.NoErr(os.RemoveAll(path))
			is.NoErr(os.MkdirAll(filepath.Join(path, fmt.Sprint(n)), 0o700))
			keep(t, s, []byte("the right bytes")).Release()
			is.NoErr(s.Check(kept.Ref))
			is.Equal(s.Damaged.Err(kept.Ref), nil)
		}
		aside, err := filepath.Glob(path + "-folder-*")
		is.NoErr(err)
		is.Equal(len(aside), 2) // nothing was removed
	})
}

// Beyond rereadLimit an existing copy is replaced without being read.
func TestLargeCopyIsReplacedUnread(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		content := []byte("large, for a limit of four")
		s.reread = 4
		kept := keep(t, s, content)
		defer kept.Release()
		before, err := os.Stat(filepath.Join(dir, kept.Ref.path()))
		is.NoErr(err)
		keep(t, s, content).Release()
		after, err := os.Stat(filepath.Join(dir, kept.Ref.path()))
		is.NoErr(err)
		is.True(!os.SameFile(before, after))
		is.NoErr(s.Check(kept.Ref))
		is.Equal(paths(t, dir), []string{kept.Ref.path()})
	})
}

func TestSameContentAtOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		content := bytes.Repeat([]byte("same"), 10_000)
		const uploads = 64
		kept, errs := make([]*Kept, uploads), make([]error, uploads)
		var wg sync.WaitGroup
		for i := range uploads {
			wg.Go(func() { kept[i], errs[i] = tryKeep(s, content) })
		}
		wg.Wait()
		is.NoErr(errors.Join(errs...))
		is.Equal(paths(t, dir), []string{refOf(content).path()})
		is.NoErr(s.Check(refOf(content)))
		for _, k := range kept {
			is.Equal(k.Ref, refOf(content))
			is.Equal(k.Size, int64(len(content)))
			removed, err := s.Unlink(k.Ref, always)
			is.NoErr(err)
			is.True(!removed) // until the last pin is released
			k.Release()
		}
		is.Equal(len(s.names.held), 0) // no lock outlives its use
		is.Equal(len(s.temps.used), 0)
	})
}

// Whatever step the disk fails in, the caller gets the error and nothing stays.
func TestFailedStepsLeaveNothing(t *testing.T) {
	for _, step := range []string{
		"create", "write", "sync top", "sync file", "link", "link temp", "rename", "sync folder",
	} {
		t.Run(step, func(t *testing.T) {
			bothWays(t, func(t *testing.T, s *Store, dir string) {
				is := is.New(t)
				content := []byte("does not fit")
				path := filepath.Join(dir, refOf(content).path())
				if step == "link temp" || step == "rename" {
					// Both ways reach this step only if the name is taken.
					is.NoErr(os.MkdirAll(filepath.Dir(path), 0o700))
					is.NoErr(os.WriteFile(path, []byte("damaged"), 0o600))
				}
				before := paths(t, dir)
				reached := false
				s.steps.hook = func(at string) error {
					if at != step {
						return nil
					}
					reached = true
					return &os.PathError{Op: step, Path: "x", Err: syscall.ENOSPC}
				}
				kept, err := tryKeep(s, content)
				s.steps.hook = nil
				if !reached {
					is.NoErr(err) // the other way has this step
					kept.Release()
					return
				}
				is.True(errors.Is(err, syscall.ENOSPC))
				is.True(kept == nil)
				is.Equal(len(s.names.held), 0) // nothing is pinned
				is.Equal(len(s.temps.used), 0)
				if step == "sync folder" {
					before = []string{refOf(content).path()} // complete; the sweep removes it
				}
				is.Equal(paths(t, dir), before)

				// With space again, the same store continues to work.
				keep(t, s, content).Release()
				is.NoErr(s.Check(refOf(content)))
			})
		})
	}
}

func TestFailedStageStaysFailed(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)
		stage, err := s.Stage()
		is.NoErr(err)
		s.steps.hook = func(string) error { return syscall.ENOSPC }
		_, err = stage.Write([]byte("x"))
		is.True(errors.Is(err, syscall.ENOSPC))
		s.steps.hook = nil
		_, err = stage.Write([]byte("y"))
		is.True(errors.Is(err, syscall.ENOSPC)) // otherwise content with a hole would be kept
		_, err = stage.Keep()
		is.True(errors.Is(err, syscall.ENOSPC))
		is.NoErr(stage.Drop())
		is.Equal(paths(t, dir), []string{})
	})
}

func TestEndOfAStage(t *testing.T) {
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		is := is.New(t)

		dropped, err := s.Stage()
		is.NoErr(err)
		_, err = dropped.Write([]byte("not wanted"))
		is.NoErr(err)
		is.Equal(dropped.Size(), int64(10))
		is.NoErr(dropped.Drop())
		is.NoErr(dropped.Drop())
		_, err = dropped.Write(nil)
		is.Equal(err, errDropped)
		_, err = dropped.Keep()
		is.Equal(err, errDropped)
		is.Equal(paths(t, dir), []string{})

		stage, err := s.Stage()
		is.NoErr(err)
		kept, err := stage.Keep()
		is.NoErr(err)
		is.NoErr(stage.Drop()) // as a deferred Drop does
		_, err = stage.Keep()
		is.Equal(err, errKept)
		_, err = stage.Write(nil)
		is.Equal(err, errKept)
		is.NoErr(s.Check(kept.Ref))
		kept.Release()
		kept.Release()
		is.Equal(len(s.names.held), 0)
	})
}

func TestEarlyWriteBack(t *testing.T) {
	is := is.New(t)
	s, _ := open(t)
	stage, err := s.Stage()
	is.NoErr(err)
	defer stage.Drop()
	chunk := make([]byte, disk.WriteBack/4)
	for i := range 9 {
		_, err = stage.Write(chunk)
		is.NoErr(err)
		begun := (i + 1) / 4 * disk.WriteBack
		is.Equal(stage.flushing, int64(begun)) // each 8 MiB as soon as they are complete
	}
}

// TestReadFrom: for each length, hashed on one goroutine or two, everything is
// read, and a truncated source never counts as its end.
func TestReadFrom(t *testing.T) {
	for _, size := range []int{3*len(copyBuffer{}) + 17, inline, inline + 7*len(copyBuffer{}) + 17} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { testReadFrom(t, size) })
	}
}

func testReadFrom(t *testing.T, size int) {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	bothWays(t, func(t *testing.T, s *Store, dir string) {
		for _, tt := range []struct {
			name   string
			reader io.Reader
			want   error
		}{
			{"whole", bytes.NewReader(content), nil},
			{"in halves", iotest.HalfReader(bytes.NewReader(content)), nil},
			{"end with the last bytes", iotest.DataErrReader(bytes.NewReader(content)), nil},
			{"cut off", io.MultiReader(bytes.NewReader(content), iotest.ErrReader(io.ErrUnexpectedEOF)), io.ErrUnexpectedEOF},
			{"failed", io.MultiReader(bytes.NewReader(content), iotest.ErrReader(syscall.ECONNRESET)), syscall.ECONNRESET},
		} {
			t.Run(tt.name, func(t *testing.T) {
				is := is.New(t)
				stage, err := s.Stage()
				is.NoErr(err)
				defer stage.Drop()
				n, err := io.Copy(stage, struct{ io.Reader }{tt.reader}) // no WriteTo
				is.True(errors.Is(err, tt.want))                         // a truncated source never counts as its end
				is.Equal(n, int64(len(content)))
				is.Equal(stage.Size(), n)
				whole := content
				if tt.want != nil { // it may continue
					whole = append(bytes.Clone(content), "the rest"...)
					_, err := stage.Write([]byte("the rest"))
					is.NoErr(err)
				}
				kept, err := stage.Keep()
				is.NoErr(err)
				defer kept.Release()
				is.Equal(kept.Ref, refOf(whole))
				is.NoErr(s.Check(kept.Ref))
			})
		}
		t.Run("full disk", func(t *testing.T) {
			is := is.New(t)
			stage, err := s.Stage()
			is.NoErr(err)
			defer stage.Drop()
			writes, last := 0, size/len(copyBuffer{})
			s.steps.hook = func(string) error {
				writes++
				if writes == last {
					return syscall.ENOSPC
				}
				return nil
			}
			n, err := stage.ReadFrom(bytes.NewReader(content))
			s.steps.hook = nil
			is.True(errors.Is(err, syscall.ENOSPC))
			is.Equal(n, int64((last-1)*len(copyBuffer{})))
		})
	})
}
