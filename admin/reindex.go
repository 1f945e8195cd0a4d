package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"kist/admin/control"
	"kist/kv/record"
	"kist/search"
)

type reindexCommand struct{}

// reindexPoll is the time between two requests for the progress.
const reindexPoll = 100 * time.Millisecond

func (cmd *reindexCommand) Run(c *Call) (err error) {
	ctx := context.Background()
	client, err := c.connect(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	var before, got control.Indexing
	if err := client.Call(ctx, http.MethodPost, "/index", control.Nothing{}, &before); err != nil {
		return err
	}
	started := time.Now()
	p := c.progress("Indexing", 0)
	p.Unit = func(n int64) string { return strconv.FormatInt(n, 10) }
	for {
		if err := client.Call(ctx, http.MethodGet, "/index", control.Nothing{}, &got); err != nil {
			return err
		}
		if got.Over(before) {
			break
		}
		p.Total = int64(got.Latest)
		p.Reach(int64(got.Place))
		if err := control.Wait(ctx, reindexPoll); err != nil {
			return err
		}
	}
	p.End()
	if got.Phase != search.Ready {
		return fmt.Errorf("the search index could not be made: %s", cmp.Or(got.Problem, "the server is ending"))
	}
	return c.say(got, "Indexed %s in %s.", record.Plural(got.Documents, "record"),
		time.Since(started).Round(10*time.Millisecond))
}
