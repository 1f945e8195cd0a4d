package admin

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"kist/admin/exit"
	"kist/admin/ops"
)

// serviceDir is where the service has its data: that of the packages, and that of kist install systemd.
const serviceDir = "/var/lib/kist"

// chosen says how the data directory of a command was chosen.
type chosen int

const (
	named      chosen = iota // by a flag or the environment, or the command is serve
	usual                    // the default
	ofService                // that of the service, since there is none here
	besideThat               // the default, which is there, as the service's is
)

// chooseData makes commands that name no data directory reach the service of this machine, from every folder that has
// no data directory of its own. A server that is started by hand is never the service.
func (c *Call) chooseData(ctx *kong.Context) {
	for _, step := range ctx.Path {
		if step.Flag != nil && step.Flag.Name == "data-dir" || step.Command != nil && step.Command.Name == "serve" {
			return
		}
	}
	if os.Getenv(envPrefix+"DATA_DIR") != "" {
		return
	}
	here, err := ops.HasData(c.DataDir)
	here = here || err != nil     // the command says why it cannot look
	_, err = os.Lstat(serviceDir) // it may be a link whose end this user cannot see
	service := err == nil
	switch {
	case here && service:
		c.chosen = besideThat
	case service:
		c.chosen, c.DataDir = ofService, serviceDir
	default:
		c.chosen = usual
	}
}

// requireData fails if kist has never used the data directory.
func (c *Call) requireData() error {
	there, err := ops.HasData(c.DataDir)
	if err != nil || there {
		return err
	}
	makers := "kist serve and kist user add make one"
	if c.chosen == ofService {
		makers = "the service makes it when it starts"
	}
	return exit.Absent("data directory at", c.DataDir+"; "+makers+", and --data-dir names another")
}

// mayPrepare is requireData for a command that makes a data directory. It makes none of the service.
func (c *Call) mayPrepare() (there bool, err error) {
	if c.chosen == ofService {
		return true, c.requireData()
	}
	return ops.HasData(c.DataDir)
}

// prepareData says where a data directory is about to be made, unless the command has named it.
func (c *Call) prepareData() error {
	there, err := c.mayPrepare()
	if err != nil {
		return err
	}
	if !there && c.chosen == usual {
		fmt.Fprintf(c.Stderr, "There is no data directory yet; %s becomes one.\n", c.DataDir)
	}
	return nil
}
