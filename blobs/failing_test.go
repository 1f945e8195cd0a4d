package blobs

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// Content that the disk refuses is reported once, with the folder. Try fails as
// long as that lasts, whatever the step.
func TestUnwritable(t *testing.T) {
	for _, step := range []string{"create", "write", "sync file"} {
		for _, cause := range []error{syscall.EACCES, syscall.EROFS, syscall.EIO, syscall.ENOSPC, syscall.EDQUOT} {
			t.Run(step+" "+cause.Error(), func(t *testing.T) {
				bothWays(t, func(t *testing.T, s *Store, dir string) {
					is := is.New(t)
					var told []error
					s.OnFailure(func(err error) { told = append(told, err) })
					s.steps.hook = func(at string) error {
						if at == step {
							return &fs.PathError{Op: step, Path: "x", Err: cause}
						}
						return nil
					}
					for range 3 {
						_, err := tryKeep(s, []byte("not taken"))
						is.True(errors.Is(err, cause))
						e, ok := errors.AsType[*Unwritable](err)
						is.True(ok && e.Folder == dir)
						is.True(errors.Is(s.Try(), cause))
					}
					is.Equal(len(told), 1)
					is.True(errors.Is(told[0], cause))
					s.steps.hook = nil
					is.NoErr(s.Try())
					is.Equal(paths(t, dir), []string{})
					is.Equal(len(told), 2)
					is.NoErr(told[1])
					is.NoErr(s.Try())
					keep(t, s, []byte("taken")).Release()
					is.Equal(len(told), 2)
				})
			})
		}
	}
}

// A failing reader, or a caller's mistake, is not a failure of the disk.
func TestNotTheDisksFault(t *testing.T) {
	is := is.New(t)
	s, _ := open(t)
	s.OnFailure(func(err error) { t.Error(err) })
	_, err := s.Resume("0123", 5, nil)
	is.True(errors.Is(err, ErrPartLost))
	st, err := s.Stage()
	is.NoErr(err)
	is.NoErr(st.Drop())
	_, err = st.Keep()
	is.Equal(err, errDropped)
	is.NoErr(s.Try())
}

// Try tests the folder that failed: another folder that works proves nothing.
func TestTryFolderThatFailed(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	s, err := OpenIn(dir)
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(s.Close()) })
	var told []error
	s.OnFailure(func(err error) { told = append(told, err) })
	var fails bool
	s.steps.hook = func(at string) error {
		if fails && at == "open part" {
			return &fs.PathError{Op: at, Path: "x", Err: syscall.EACCES}
		}
		return nil
	}
	fails = true
	_, err = s.Resume("0123", 0, nil)
	e, ok := errors.AsType[*Unwritable](err)
	is.True(ok && e.Folder != s.root.Name())
	keep(t, s, []byte("elsewhere")).Release()
	is.True(errors.Is(s.Try(), syscall.EACCES))
	is.Equal(len(told), 1)
	fails = false
	is.NoErr(s.Try())
	is.Equal(len(told), 2)
	is.NoErr(told[1])
	parts, err := s.Parts.Names()
	is.NoErr(err)
	is.Equal(len(parts), 0)
}
