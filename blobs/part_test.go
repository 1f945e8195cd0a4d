package blobs

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

const partID = "01890a5d-ac96-774b-bcce-b302099a8057"

// Content that arrives in pieces, each after a restart, equals the same content
// in one piece. Bytes written after the last Sync are cut off.
func TestPart(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	whole := bytes.Repeat([]byte("All of it, in pieces. "), 9000)
	var size int64
	var state []byte
	for _, n := range []int{0, 1, 63, 64, 70_000, 131_072} {
		st, err := s.Resume(partID, size, state)
		is.NoErr(err)
		is.Equal(st.Size(), size)
		_, err = st.Write(whole[size : int(size)+n%len(whole[size:])])
		is.NoErr(err)
		size, state, err = st.Sync()
		is.NoErr(err)
		_, err = st.Write([]byte("never acknowledged"))
		is.NoErr(err)
		is.NoErr(st.Drop())

		names, err := s.Parts.Names()
		is.NoErr(err)
		is.Equal(names, []string{partID})
		is.NoErr(s.Close())
		s, err = Open(dir) // leaves parts alone
		is.NoErr(err)
		for _, err := range s.All() {
			t.Error("listed with the blobs: ", err)
		}
	}
	st, err := s.Resume(partID, size, state)
	is.NoErr(err)
	_, err = st.ReadFrom(bytes.NewReader(whole[size:]))
	is.NoErr(err)
	size, state, err = st.Sync()
	is.NoErr(err)
	_, err = s.Adopt(size, state)
	is.True(errors.Is(err, fs.ErrNotExist)) // it is not kept yet
	kept, err := st.Keep()
	is.NoErr(err)
	is.Equal(kept.Ref, refOf(whole))
	is.Equal(kept.Size, int64(len(whole)))
	is.True(kept.Summed)
	is.Equal(kept.CRC, crc32.ChecksumIEEE(whole))
	is.NoErr(s.Check(kept.Ref))
	early, err := s.Adopt(size, state[:len(state)-4]) // as earlier versions saved it
	is.NoErr(err)
	is.Equal(early.Ref, kept.Ref)
	is.True(!early.Summed)
	early.Release()
	kept.Release()

	_, err = s.Resume(partID, size, state)
	is.True(errors.Is(err, ErrPartLost)) // it has become a blob,
	again, err := s.Adopt(size, state)   // which Adopt finds
	is.NoErr(err)
	is.Equal(again.Ref, kept.Ref)
	again.Release()
	_, err = s.Adopt(size-1, state)
	is.True(errors.Is(err, fs.ErrNotExist))
	is.NoErr(s.Parts.Drop(partID)) // it is gone already
	is.NoErr(s.Close())
}

// A part with missing bytes returns ErrPartLost; at 0 it starts again.
func TestPartLost(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	st, err := s.Resume(partID, 0, nil)
	is.NoErr(err)
	_, err = st.Write([]byte("hello"))
	is.NoErr(err)
	size, state, err := st.Sync()
	is.NoErr(err)
	is.NoErr(st.Drop())
	path := filepath.Join(dir, partFolder, partID)
	is.NoErr(os.Truncate(path, 4))
	_, err = s.Resume(partID, size, state)
	is.True(errors.Is(err, ErrPartLost))
	is.NoErr(s.Parts.Drop(partID))
	_, err = s.Resume(partID, size, state)
	is.True(errors.Is(err, ErrPartLost))
	_, err = s.Resume(partID, size, []byte("no state"))
	is.True(errors.Is(err, ErrPartLost))
	st, err = s.Resume(partID, 0, nil)
	is.NoErr(err)
	is.NoErr(st.Drop())

	is.NoErr(os.Remove(path))
	is.NoErr(os.Symlink("../ab", path))
	_, err = s.Resume(partID, 0, nil)
	is.True(errors.Is(err, ErrForeign))
	for _, name := range []string{"", ".", "..", "../ab", "a/b", `a\b`, "A", strings.Repeat("a", 65)} {
		_, err := s.Resume(name, 0, nil)
		is.True(errors.Is(err, ErrForeign))
		is.True(errors.Is(s.Parts.Drop(name), ErrForeign))
	}
}

// Whatever step fails, the part is as it was at the last Sync, and continuing
// from there gives the content.
func TestPartFails(t *testing.T) {
	for _, step := range []string{"open part", "write", "sync part", "sync file", "rename", "sync folder"} {
		t.Run(step, func(t *testing.T) {
			is := is.New(t)
			s, _ := open(t)
			st, err := s.Resume(partID, 0, nil)
			is.NoErr(err)
			_, err = st.Write([]byte("hello "))
			is.NoErr(err)
			size, state, err := st.Sync()
			is.NoErr(err)
			is.NoErr(st.Drop())
			finish := func() (*Kept, error) {
				st, err := s.Resume(partID, size, state)
				if errors.Is(err, ErrPartLost) {
					return s.Adopt(size, state)
				}
				if err != nil {
					return nil, err
				}
				defer st.Drop()
				if size == 6 {
					if _, err := st.Write([]byte("world")); err != nil {
						return nil, err
					}
					n, now, err := st.Sync()
					if err != nil {
						return nil, err
					}
					size, state = n, now
				}
				return st.Keep()
			}
			s.steps.hook = func(at string) error {
				if at == step {
					return syscall.ENOSPC
				}
				return nil
			}
			_, err = finish()
			is.True(errors.Is(err, syscall.ENOSPC))
			steps := recordSteps(s)
			kept, err := finish()
			is.NoErr(err)
			taken := steps()
			is.Equal(taken[len(taken)-1], "sync folder") // another upload may have named it
			is.Equal(kept.Ref, refOf([]byte("hello world")))
			is.NoErr(s.Check(kept.Ref))
			kept.Release()
		})
	}
}

// The names of a part and of its folder are durable before any of its bytes can
// be acknowledged, even if the maker of either failed or died before.
func TestPartNameIsDurable(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	begin := func() error {
		st, err := s.Resume(partID, 0, nil)
		if err != nil {
			return err
		}
		return st.Drop()
	}
	for _, step := range []string{"sync top", "sync parts"} {
		s.steps.hook = func(at string) error {
			if at == step {
				return syscall.EIO
			}
			return nil
		}
		is.True(errors.Is(begin(), syscall.EIO))
		steps := recordSteps(s)
		if step == "sync top" {
			is.NoErr(begin())
			is.Equal(steps(), []string{"open part", "sync top", "sync parts"})
			continue
		}
		is.NoErr(begin())
		is.Equal(steps(), []string{"open part", "sync parts"})
	}

	again, err := Open(dir) // by another process
	is.NoErr(err)
	defer again.Close()
	s = again
	steps := recordSteps(s)
	is.NoErr(begin())
	is.Equal(steps(), []string{"open part", "sync parts"})
}

// The beginning of an unfinished part can be read.
func TestPartHead(t *testing.T) {
	is := is.New(t)
	s, _ := open(t)
	st, err := s.Resume("ab", 0, nil)
	is.NoErr(err)
	_, err = st.Write([]byte("hello"))
	is.NoErr(err)
	_, _, err = st.Sync()
	is.NoErr(err)
	is.NoErr(st.Drop())
	for size, want := range []string{"", "h", "he", "hel", "hell", "hello"} {
		got, err := s.Parts.Head("ab", int64(size))
		is.NoErr(err)
		is.Equal(string(got), want)
	}
	_, err = s.Parts.Head("ab", 6)
	is.True(errors.Is(err, ErrPartLost))
	_, err = s.Parts.Head("cd", 1)
	is.True(errors.Is(err, ErrPartLost))
	_, err = s.Parts.Head("../x", 1)
	is.True(errors.Is(err, ErrForeign))
}

// Nobody gets a content that OnKeep refuses. It is there for the next
// attempt.
func TestOnKeep(t *testing.T) {
	is := is.New(t)
	s, _ := open(t)
	refuse, told := errors.New("not now"), 0
	s.OnKeep = func(ref Ref, size int64) error {
		is.Equal(ref, refOf([]byte("content")))
		is.Equal(size, int64(7))
		told++
		return refuse
	}
	st, err := s.Resume(partID, 0, nil)
	is.NoErr(err)
	_, err = st.Write([]byte("content"))
	is.NoErr(err)
	size, state, err := st.Sync()
	is.NoErr(err)
	_, err = st.Keep()
	is.True(errors.Is(err, refuse))
	_, err = s.Adopt(size, state)
	is.True(errors.Is(err, refuse))
	is.Equal(len(s.names.held), 0) // no pin is left
	refuse = nil
	kept, err := s.Adopt(size, state)
	is.NoErr(err)
	kept.Release()
	is.Equal(told, 3)
}
