package blobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kist/kv/kvtest/needs"

	"github.com/matryer/is"
)

// child, when set in the environment, makes the test binary run only the
// function of that name in children.
const child = "KIST_BLOBS_TEST_CHILD"

var children = map[string]func(args []string) error{"crash": crash}

func TestMain(m *testing.M) {
	if act := children[os.Getenv(child)]; act != nil {
		if err := act(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	needs.Run(m)
}

// run runs the test binary as the named child.
func run(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// The race detector would make each child wait a second at its end.
	cmd.Env = append(os.Environ(), child+"="+name, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// leaveOut ends a test that cannot run here. It prints the line that tests of
// admin and httpapi print for theirs.
func leaveOut(t *testing.T, what, why string) {
	t.Helper()
	fmt.Printf("left out: %s (%s)\n", what, why)
	t.SkipNow()
}

var crashContent = []byte("the process ends while this is uploaded")

// crash uploads to the store in a folder and ends the process just before a
// step.
func crash(args []string) error {
	dir, way, step := args[0], args[1], args[2]
	s, err := Open(dir)
	if err != nil {
		return err
	}
	s.unnamed = way == "unnamed"
	s.steps.hook = func(at string) error {
		if at == step {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				return err
			}
			select {}
		}
		return nil
	}
	kept, err := tryKeep(s, crashContent)
	if err != nil {
		return err
	}
	fmt.Print("kept ", kept.Ref)
	return nil
}

// A process that dies at any step leaves the complete blob or no blob. It
// leaves nothing else once the store is opened again.
func TestCrash(t *testing.T) {
	for _, tt := range []struct {
		step  string
		whole map[string]bool // by way
	}{
		{"write", nil},
		{"sync top", nil},
		{"sync file", nil},
		{"link", map[string]bool{"named": true}}, // the other way has no such step
		{"rename", map[string]bool{"unnamed": true}},
		{"sync folder", map[string]bool{"named": true, "unnamed": true}},
	} {
		t.Run(tt.step, func(t *testing.T) {
			bothWays(t, func(t *testing.T, s *Store, dir string) {
				is := is.New(t)
				way := filepath.Base(t.Name())
				is.NoErr(s.Close())
				out, err := run("crash", dir, way, tt.step).Output()
				reached := err != nil
				var exit *exec.ExitError
				is.True(!reached || errors.As(err, &exit) && len(exit.Stderr) == 0) // killed
				is.Equal(reached, string(out) != "kept "+refOf(crashContent).String())

				again, err := Open(dir)
				is.NoErr(err)
				defer again.Close()
				if tt.whole[way] {
					is.Equal(paths(t, dir), []string{refOf(crashContent).path()})
					is.NoErr(again.Check(refOf(crashContent)))
				} else {
					is.Equal(paths(t, dir), []string{})
					_, err := again.Get(refOf(crashContent))
					is.True(errors.Is(err, fs.ErrNotExist))
				}
				keep(t, again, crashContent).Release()
				is.NoErr(again.Check(refOf(crashContent)))
			})
		})
	}
}
