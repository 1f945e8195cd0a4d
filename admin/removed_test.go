package admin

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/admin/exit"
	"kist/admin/serve"
)

// parsed is what the command line answers to arguments that it does not take.
func parsed(args ...string) error {
	var cli struct {
		Globals
		Serve struct {
			serve.AddressFlags
			serve.StoreFlags
		} `cmd:""`
		Commands
	}
	call := &Call{Globals: &cli.Globals, Stdin: os.Stdin, Stdout: io.Discard, Stderr: io.Discard}
	return call.run(&cli, args)
}

// TestRemoved: a flag, a variable or a command that is gone says what to do instead.
func TestRemoved(t *testing.T) {
	for name, instead := range removed {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			words := strings.Fields(name)[1:]
			last := words[len(words)-1]
			told := func(err error, what string) {
				is.Equal(exit.Code(err), 2)
				is.Equal(err.Error(), what+" does not exist any more: "+instead)
			}
			flag, isFlag := strings.CutPrefix(last, "--")
			if !isFlag {
				told(parsed(words...), name)
				told(parsed(append(words, "--json")...), name)
				return
			}
			told(parsed(words...), last)
			told(parsed(append(words, "value")...), last)
			words[len(words)-1] += "=value"
			told(parsed(words...), last)
			if words[0] != "serve" {
				return
			}
			variable := envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
			for _, variable := range []string{variable, variable + fileSuffix} {
				t.Setenv(variable, "value")
				told(parsed("serve"), variable)
				is.NoErr(parsed("version")) // other commands only warn
				is.NoErr(os.Unsetenv(variable))
			}
		})
	}
}
