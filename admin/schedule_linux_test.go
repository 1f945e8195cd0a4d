package admin_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// other is the user and the group that a server of a test runs as beside root.
const other = 65534

// asOther makes the commands of the place run as another user than root, to whom its files belong from now on.
func (p *place) asOther() {
	p.t.Helper()
	is := is.New(p.t)
	needs.Programs(p.t, "a folder of another user", "setpriv")
	if os.Geteuid() != 0 {
		needs.LeaveOut(p.t, "a folder of another user", "only root may give files away")
	}
	setpriv, err := exec.LookPath("setpriv")
	is.NoErr(err)
	is.NoErr(os.Chmod(filepath.Dir(p.dir), 0o711))
	is.NoErr(exec.Command("cp", binary, p.path("kist")).Run())
	is.NoErr(exec.Command("chown", "-R", fmt.Sprintf("%d:%[1]d", other), p.dir).Run())
	p.within = func(cmd *exec.Cmd) {
		user := fmt.Sprint(other)
		args := []string{setpriv, "--reuid", user, "--regid", user, "--clear-groups", p.path("kist")}
		cmd.Args = append(args, cmd.Args[1:]...)
		cmd.Path = setpriv
	}
}

// Folders that the user of the server may not use, and what to do about each. The server starts, also if there never
// was a backup, and says so.
func TestFolderOfAnotherUser(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		close func(folder string) error
		want  string
	}{
		"of root": {
			func(folder string) error { return exec.Command("chown", "-R", "0:0", folder).Run() },
			"chown -R 65534:65534 ",
		},
		"of root, readable": {
			func(folder string) error {
				return exec.Command("sh", "-c", "chown -R 0:0 $0 && chmod -R a+rX $0", folder).Run()
			},
			"chown -R 65534:65534 ",
		},
		"closed": {func(folder string) error { return os.Chmod(folder, 0) }, "chmod -R u+rwX "},
		"below a folder of root": {
			func(folder string) error {
				return exec.Command("chown", "0:0", filepath.Dir(folder)).Run()
			},
			"may not enter a folder above it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := newPlace(t)
			p.ann()
			above := p.path("mnt")
			is.NoErr(os.Mkdir(above, 0o700))
			folder := filepath.Join(above, "backup")
			p.asOther()
			p.must("backup", "init", folder)
			is.NoErr(c.close(folder))

			s := p.serve("--backup-to", folder)
			p.until("doctor says what to do", func() bool {
				return strings.Contains(p.run("", "doctor").out, c.want)
			})
			s.stop()
			is.True(strings.Contains(s.log.String(), c.want))
		})
	}
}

// kist backup init as root says how the folder is given to the user of the server.
func TestInitAsRoot(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	p.asOther()
	p.within = nil
	folder := p.path("backup")
	is.True(strings.Contains(p.must("backup", "init", folder), "chown -R 65534:65534 "+folder))
	other := p.path("other")
	is.NoErr(os.Mkdir(other, 0o700))
	is.NoErr(exec.Command("chown", "-R", "65534:65534", other).Run())
	is.True(!strings.Contains(p.must("backup", "init", other), "chown"))
}
