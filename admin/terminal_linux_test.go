package admin_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"kist/kv/kvtest/needs"
)

// typed runs a command on a terminal where each prompt gets its answer, and
// returns everything the terminal showed and the exit code.
func (p *place) typed(args []string, answers ...[2]string) (string, int) {
	p.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		needs.LeaveOut(p.t, "questions on a terminal", "no pseudo terminals: "+err.Error())
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := p.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	terminal.Close() // the command has it
	shown, all := new(buffer), make(chan struct{})
	go func() {
		copyTo(shown, master)
		close(all)
	}()
	for _, a := range answers {
		secret := !strings.HasSuffix(a[0], "[y/N] ")
		p.until(a[0], func() bool {
			if !strings.HasSuffix(shown.String(), a[0]) {
				return false
			}
			mode, err := unix.IoctlGetTermios(int(master.Fd()), unix.TCGETS)
			return err == nil && (mode.Lflag&unix.ECHO == 0) == secret // set right after the question is shown
		})
		if _, err := master.WriteString(a[1] + "\n"); err != nil {
			p.t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	<-all
	return strings.ReplaceAll(shown.String(), "\r\n", "\n"), cmd.ProcessState.ExitCode()
}

// copyTo copies until the other end is closed.
func copyTo(to *buffer, from *os.File) {
	b := make([]byte, 1024)
	for {
		n, err := from.Read(b)
		_, _ = to.Write(b[:n])
		if err != nil {
			return
		}
	}
}

func TestPasswordOnATerminal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	add := []string{"user", "add", "ann", "--admin"}
	shown, code := p.typed(add, [2]string{"Password: ", "correct horse"}, [2]string{"The same again: ", "correct house"})
	is.Equal(code, 1)
	is.True(strings.Contains(shown, "The two passwords differ; nothing was changed."))
	is.True(!strings.Contains(shown, "correct horse")) // it is not shown
	_, code = p.typed(add, [2]string{"Password: ", "short"})
	is.Equal(code, 2)
	_, code = p.typed(add, [2]string{"Password: ", "correct horse"}, [2]string{"The same again: ", "correct horse"})
	is.Equal(code, 0)
	is.True(strings.Contains(p.must("user", "list"), "ann"))
	shown, code = p.typed([]string{"user", "passwd", "nobody"})
	is.Equal(code, 3)
	is.True(!strings.Contains(shown, "Password: ")) // not asked in vain
}

func TestRemoveAsksOnATerminal(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	is.Equal(p.run("correct horse", "user", "add", "bob", "--password-stdin").code, 0)
	question := "Remove bob and everything the account keeps (0 items, 0 B of files)? [y/N] "
	shown, code := p.typed([]string{"user", "remove", "bob"}, [2]string{question, "n"})
	is.Equal(code, 1)
	is.True(strings.Contains(shown, "Nothing was removed."))
	_, code = p.typed([]string{"user", "remove", "bob"}, [2]string{question, "y"})
	is.Equal(code, 0)
	is.True(!strings.Contains(p.must("user", "list"), "bob"))
	shown, code = p.typed([]string{"user", "remove", "bob"})
	is.Equal(code, 3)
	is.Equal(shown, "There is no user named \"bob\"; kist user list shows the names.\n")
}

// TestDoctorColours: a terminal shows what is wrong in colours, unless they are turned off.
func TestDoctorColours(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	for _, row := range []struct {
		env   []string
		shows bool
	}{
		{[]string{"NO_COLOR=", "TERM=xterm"}, true},
		{[]string{"NO_COLOR=1", "TERM=xterm"}, false},
		{[]string{"NO_COLOR=", "TERM=dumb"}, false},
	} {
		p.env = row.env
		shown, _ := p.typed([]string{"doctor"})
		is.Equal(strings.Contains(shown, "\x1b[33mwarning \x1b[0m server: "), row.shows) // row
		is.Equal(strings.Contains(shown, "\x1b"), row.shows)                             // row
		is.True(!strings.Contains(p.run("", "doctor").out, "\x1b"))                      // a pipe
	}
}
