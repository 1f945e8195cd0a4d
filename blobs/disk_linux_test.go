package blobs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"
)

func TestModes(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		t.Run(fmt.Sprintf("%03o", umask), func(t *testing.T) {
			bothWays(t, func(t *testing.T, s *Store, _ string) {
				is := is.New(t)
				dir := filepath.Join(t.TempDir(), "blobs")
				unnamed := s.unnamed
				// The umask belongs to the whole process, and no other test
				// runs.
				before := unix.Umask(umask)
				s, err := Open(dir)
				if err == nil {
					defer s.Close()
					s.unnamed = unnamed
					_, err = tryKeep(s, []byte("content"))
				}
				unix.Umask(before)
				is.NoErr(err)
				is.NoErr(filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					info, err := d.Info()
					want := fs.FileMode(0o600)
					if d.IsDir() {
						want = 0o700
					}
					is.Equal(info.Mode().Perm(), want)
					return err
				}))
			})
		})
	}
}

func TestFileWithoutAName(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	if !s.unnamed {
		leaveOut(t, "files without a name", "the file system of this test has none")
	}
	stage, err := s.Stage()
	is.NoErr(err)
	_, err = stage.Write([]byte("content"))
	is.NoErr(err)
	is.Equal(paths(t, dir), []string{}) // a copy of the folder never meets it
	is.NoErr(stage.Drop())
}

func TestPlantedPipeDoesNotBlock(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	ref := refOf([]byte("content"))
	is.NoErr(os.Mkdir(filepath.Join(dir, ref.folder()), 0o700))
	is.NoErr(unix.Mkfifo(filepath.Join(dir, ref.path()), 0o600))
	_, err := s.Get(ref)
	is.True(errors.Is(err, ErrDamaged))
	keep(t, s, []byte("content")).Release()
	is.NoErr(s.Check(ref))
}

func init() { children["fill"] = fill }

const noMount = "cannot mount"

// TestFullDisk fills a real file system, in a process with its own mounts.
func TestFullDisk(t *testing.T) {
	is := is.New(t)
	cmd := run("fill", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || strings.Contains(string(out), noMount) {
		t.Logf("%v: %s", err, out)
		leaveOut(t, "a full disk", "this user may not mount one")
	}
	t.Logf("%s", out)
	is.NoErr(err)
}

func fill(args []string) error {
	if err := unix.Mount("tmpfs", args[0], "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("%s: %w", noMount, err)
	}
	s, err := Open(filepath.Join(args[0], "blobs"))
	if err != nil {
		return err
	}
	ways := []bool{false}
	if s.unnamed {
		ways = append(ways, true)
	}
	small, large := []byte("small"), bytes.Repeat([]byte("large"), 1<<20)
	for _, s.unnamed = range ways {
		kept, err := tryKeep(s, small)
		if err != nil {
			return err
		}
		kept.Release()
		for range 3 { // the space comes back each time
			if _, err := tryKeep(s, large); !errors.Is(err, syscall.ENOSPC) {
				return fmt.Errorf("on a full disk: %w", err)
			}
			kept, err = tryKeep(s, large[:512<<10])
			if err != nil {
				return fmt.Errorf("with space again: %w", err)
			}
			kept.Release()
			if _, err := s.Unlink(kept.Ref, always); err != nil {
				return err
			}
		}
		if temps, err := os.ReadDir(filepath.Join(args[0], "blobs", tempFolder)); err != nil || len(temps) != 0 {
			return fmt.Errorf("left in the temporary folder: %v, %w", temps, err)
		}
		if err := s.Check(refOf(small)); err != nil {
			return err
		}
		fmt.Println("filled, files without a name:", s.unnamed)
	}
	return nil
}
