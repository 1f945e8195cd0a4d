package admin_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// libraryVar makes the test binary a process that has the folder it names as /var/lib, and becomes the program there.
const (
	libraryVar = "KIST_TEST_LIBRARY"
	programVar = libraryVar + "_PROGRAM"
)

func init() {
	if dir := os.Getenv(libraryVar); dir != "" {
		fmt.Fprintln(os.Stderr, "cannot replace /var/lib:", besides(dir, os.Getenv(programVar)))
		os.Exit(100)
	}
}

// besides becomes the program on a machine whose /var/lib is the folder. The process has a mount namespace of its own.
func besides(dir, program string) error {
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err != nil {
		return fmt.Errorf("private: %w", err)
	}
	err = syscall.Mount(dir, "/var/lib", "", syscall.MS_BIND, "")
	if err != nil {
		return err
	}
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, libraryVar) {
			env = append(env, v)
		}
	}
	return syscall.Exec(program, append([]string{"kist"}, os.Args[1:]...), env)
}

// serviced is a place on a machine that has a service, with its data in lib/kist of the place.
func serviced(t *testing.T) *place {
	t.Helper()
	is := is.New(t)
	p := newPlace(t)
	is.NoErr(os.MkdirAll(p.path("lib", "kist"), 0o700))
	self, err := os.Executable()
	is.NoErr(err)
	p.env = append(p.env, "KIST_LOG_LEVEL=warn", libraryVar+"="+p.path("lib"), programVar+"="+binary)
	p.apart(self)
	return p
}

// On a machine with the service, commands reach its data from every folder, and make no other data directory.
func TestCommandsReachTheService(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := serviced(t)

	none := result{code: 3, err: "There is no data directory at /var/lib/kist; the service makes it when it starts, " +
		"and --data-dir names another.\n"}
	is.Equal(p.run("correct horse battery", "user", "add", "ann", "--admin", "--password-stdin"), none)
	is.Equal(p.run("", "user", "add", "ann", "--admin"), none) // before it asks for a password
	is.Equal(p.run("", "user", "list"), none)
	is.Equal(p.run("correct horse battery", "user", "add", "ann", "--admin", "--password-stdin",
		"--data-dir", "/var/lib/kist").code, 0)

	is.Equal(p.run("correct horse battery", "user", "add", "ben", "--password-stdin"), result{out: "Added ben, a user.\n"})
	is.True(strings.Contains(p.must("user", "list"), "\nben "))
	is.True(strings.Contains(p.must("backup", "copy"), " to copy: "))
	is.True(!p.exists(p.data()))
	is.NoErr(os.Mkdir(p.data(), 0o700)) // without data it is as good as none
	is.True(strings.Contains(p.must("user", "list"), "\nben "))

	// Backups by schedule are a matter of the service.
	folder := p.path("backup")
	is.True(strings.HasSuffix(p.must("backup", "init", folder), "\nTo make them there, run: systemctl edit kist, and add "+
		"these lines:\n\n[Service]\nEnvironment=KIST_BACKUP_TO="+folder+"\nReadWritePaths=-"+folder+
		"\n\nThen run: systemctl restart kist"))

	// A data directory that is there counts, and the command says so where both are.
	is.Equal(p.run("", "restore", "copy", "--data-dir", "./kist-data").code, 0)
	r := p.run("", "user", "list")
	is.Equal(r.code, 0)
	is.Equal(r.err, "This is about ./kist-data; for the data of the service, add --data-dir /var/lib/kist.\n")
	is.Equal(p.run("", "user", "list", "--data-dir", "./kist-data"), result{out: r.out})

	// A new server is another thing than the service.
	other := serviced(t)
	s := other.serve()
	is.True(other.exists(other.data("LOCK")))
	is.True(!other.exists(other.path("lib", "kist", "LOCK")))
	s.stop()
}
