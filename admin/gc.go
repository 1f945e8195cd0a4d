package admin

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"kist/admin/console"
	"kist/admin/control"
)

type gcCommand struct {
	Now   bool `help:"Do not wait for --gc-delay. Uploads in progress are kept. A copy or backup that is being made may miss files that were removed since it began."`
	Delay Span `name:"gc-delay" default:"24h" placeholder:"TIME" help:"As for serve. It applies only while no server runs; a running server uses its own setting."`
}

func (cmd *gcCommand) Run(c *Call) error {
	c.delay = time.Duration(cmd.Delay)
	var done control.SweepResult
	if err := c.ask(http.MethodPost, "/gc", control.SweepInput{Now: cmd.Now}, &done); err != nil {
		return err
	}
	text := "There is nothing to remove."
	if done.Blobs > 0 || done.Failed > 0 {
		text = fmt.Sprintf("Removed %s and freed %s.", console.Count(done.Blobs, "blob"), console.Bytes(done.Bytes))
	}
	if err := c.say(done, "%s", text); err != nil || done.Problem == "" {
		return err
	}
	return errors.New(done.Problem)
}
