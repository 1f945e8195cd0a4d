package admin_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// jailVar makes the test binary a process that shuts itself up in the folder
// it names and becomes kist there.
const jailVar = "KIST_TEST_JAIL"

func init() {
	if root := os.Getenv(jailVar); root != "" {
		fmt.Fprintln(os.Stderr, "cannot make the jail:", enter(root))
		os.Exit(100)
	}
}

// volumes are the folders in a jail that may be written to.
var volumes = []string{"data", "backup"}

// enter makes the folder the root, which cannot be written to but for its
// volumes. The process has a mount namespace of its own.
func enter(root string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private: %w", err)
	}
	if err := syscall.Mount(root, root, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	for _, name := range volumes {
		if err := syscall.Mount(
			filepath.Join(filepath.Dir(root), name), filepath.Join(root, name), "", syscall.MS_BIND, "",
		); err != nil {
			return fmt.Errorf("volume %s: %w", name, err)
		}
	}
	var is syscall.Statfs_t
	if err := syscall.Statfs(root, &is); err != nil {
		return err
	}
	// a user may not take these away
	const kept = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC | syscall.MS_NOATIME | syscall.MS_NODIRATIME
	if err := syscall.Mount(
		"", root, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|uintptr(is.Flags)&kept, "",
	); err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	if err := syscall.Chroot(root); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	var env []string
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "KIST_") && !strings.HasPrefix(v, jailVar) {
			env = append(env, v)
		}
	}
	return syscall.Exec("/kist", append([]string{"/kist"}, os.Args[1:]...), env)
}

// jail is a place whose commands see a read-only root with the program and two
// volumes, and nothing else: no /tmp, no /proc.
func jail(t *testing.T) *place {
	t.Helper()
	is := is.New(t)
	p := newPlace(t)
	root := p.path("root")
	is.NoErr(os.Mkdir(root, 0o700))
	for _, name := range volumes {
		is.NoErr(os.Mkdir(p.path(name), 0o700))
		is.NoErr(os.Mkdir(p.path("root", name), 0o700))
	}
	in, err := os.Open(binary)
	is.NoErr(err)
	defer in.Close()
	out, err := os.OpenFile(p.path("root", "kist"), os.O_CREATE|os.O_WRONLY, 0o755)
	is.NoErr(err)
	_, err = io.Copy(out, in)
	is.NoErr(err)
	is.NoErr(out.Close())
	p.env = append(p.env, "KIST_DATA_DIR=/data", jailVar+"="+root)
	self, err := os.Executable()
	is.NoErr(err)
	p.apart(self)
	return p
}

// apart makes commands run the test binary first, with mounts of their own. Without the
// right to make them the test is left out.
func (p *place) apart(self string) {
	p.t.Helper()
	p.within = func(cmd *exec.Cmd) {
		cmd.Path = self
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		}
	}
	var errs bytes.Buffer
	cmd := p.command("version")
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		p.t.Logf("%v: %s", err, &errs)
		needs.Lacks(p.t, "a read-only root", "this user may not make one")
	}
}

// In the documented container there is the program and the data, and nothing
// else that can be written to. All of it works there.
func TestReadOnlyRoot(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := jail(t)
	s := p.serve()
	key := s.inhabit()
	s.upload(key, "large.bin", strings.Repeat("large", 100_000))
	want := s.everything(key)
	is.True(strings.HasSuffix(s.must("verify"), "No problems found."))
	s.must("backup", "/backup/folder")
	s.must("backup", "/backup/folder") // brought up to date
	s.must("backup", "/backup/copy.tar")
	piped := s.run("", "backup", "-")
	is.Equal(piped.err != "" && piped.code == 0, true)
	is.True(strings.HasSuffix(s.must("verify", "/backup/folder"), "No problems found."))
	r := s.run("", "backup", "/elsewhere")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "read-only file system"))
	s.must("doctor", "--help")
	s.stop()
	is.True(strings.HasSuffix(s.must("verify"), "No problems found."))
	s.must("backup", "/backup/stopped")

	for _, source := range []string{"/backup/folder", "/backup/copy.tar", "/backup/stopped", "-"} {
		is.NoErr(os.RemoveAll(p.path("data")))
		is.NoErr(os.Mkdir(p.path("data"), 0o700))
		stdin := ""
		if source == "-" {
			stdin = piped.out
		}
		r := p.run(stdin, "restore", source)
		is.Equal(r.code, 0)
		again := p.serve()
		is.True(maps.Equal(again.everything(key), want))
		again.stop()
	}

	// A directory that cannot be written to can be read with a folder aside.
	is.NoErr(os.CopyFS(p.path("root", "cd"), os.DirFS(p.path("backup", "folder"))))
	r = p.run("", "verify", "/cd")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "name another folder with --scratch"))
	is.True(strings.HasSuffix(p.must("verify", "/cd", "--scratch", "/backup"), "No problems found."))
	is.Equal(len(p.scratches()), 0)
	entries, err := os.ReadDir(p.path("root"))
	is.NoErr(err)
	is.Equal(len(entries), 4) // the program, two volumes, and the copy
}
