package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"kist/admin/console"
	"kist/admin/control"
	"kist/kv"
	"kist/kv/record"
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
		text = fmt.Sprintf("Removed %s and freed %s.", record.Plural(done.Blobs, "blob"), console.Bytes(done.Bytes))
	}
	if err := c.say(done, "%s", text); err != nil || done.Problem == "" {
		return err
	}
	return errors.New(done.Problem)
}

type trashCommands struct {
	List    trashList    `cmd:"" help:"List the items in a user's trash."`
	Restore trashRestore `cmd:"" help:"Restore items from a user's trash."`
	Empty   trashEmpty   `cmd:"" help:"Delete everything in a user's trash permanently."`
}

// trashPath is the path of the trash in the API.
const trashPath = "/api/v1/trash"

// trashed is an item in the trash as the commands show it.
type trashed struct {
	ID      record.ID `json:"id"`
	Kind    string    `json:"kind"`
	Title   string    `json:"title"`
	Size    int64     `json:"size"`
	Deleted time.Time `json:"deletedAt"`
	By      string    `json:"deletedBy"`
	Purged  time.Time `json:"purgedAt"`
}

type trashList struct {
	User string `required:"" placeholder:"NAME" help:"The owner of the trash."`
}

func (cmd *trashList) Run(c *Call) error {
	all, err := reach(c, false, func(to *control.Client) ([]trashed, error) {
		return list[trashed](to, trashPath, cmd.User)
	})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return c.say(all, "The trash is empty.")
	}
	rows := [][]string{{"ID", "KIND", "TITLE", "SIZE", "DELETED", "UNTIL"}}
	for _, t := range all {
		rows = append(rows, []string{
			t.ID.String(), t.Kind, console.Printable(t.Title), console.Bytes(t.Size),
			console.Day(&t.Deleted), console.Day(&t.Purged),
		})
	}
	return c.say(all, "%s", console.Table(rows))
}

type trashRestore struct {
	User string   `required:"" placeholder:"NAME" help:"The owner of the trash."`
	IDs  []string `arg:"" name:"id" help:"Ids of items, as kist trash list shows them."`
}

// restored is an item that was restored.
type restored struct {
	ID     record.ID `json:"id"`
	Kind   string    `json:"kind"`
	Slug   string    `json:"slug"`
	Former *string   `json:"formerSlug"`
}

func (cmd *trashRestore) Run(c *Call) error {
	missing := func(id string) error {
		text := fmt.Sprintf("The trash of %s has no item with the id %q; kist trash list --user %[1]s shows the ids.",
			cmd.User, id)
		return &record.Error{Fault: record.Missing, Code: "not_found", Text: text}
	}
	all, err := reach(c, false, func(to *control.Client) ([]restored, error) {
		if _, err := accountNamed(to, cmd.User); err != nil {
			return nil, err
		}
		for _, id := range cmd.IDs {
			if uuid.Validate(id) != nil {
				return nil, missing(id)
			}
		}
		in := map[string]any{"ids": cmd.IDs}
		all, err := call[[]restored](to, http.MethodPost, as(cmd.User, trashPath+"/restore"), in)
		if kv.Missing(err) {
			err = missing(cmd.IDs[0])
		}
		return all, err
	})
	if err != nil {
		return err
	}

	text := "Restored " + record.Plural(len(all), "item") + "."
	for _, r := range all {
		if r.Former != nil {
			text += fmt.Sprintf("\nThe link name %s is in use; the %s has %s now.", *r.Former, r.Kind, r.Slug)
		}
	}
	if err := c.say(all, "%s", text); err != nil {
		return err
	}
	for _, id := range cmd.IDs {
		if !slices.ContainsFunc(all, func(r restored) bool { return r.ID == uuid.MustParse(id) }) {
			return missing(id)
		}
	}
	return nil
}

type trashEmpty struct {
	User string `required:"" placeholder:"NAME" help:"The owner of the trash."`
}

func (cmd *trashEmpty) Run(c *Call) error {
	done, err := reach(c, false, func(to *control.Client) (struct{}, error) {
		return struct{}{}, to.Call(context.Background(), http.MethodDelete, as(cmd.User, trashPath), nil, new(struct{}))
	})
	if err != nil {
		return err
	}
	return c.say(done, "The trash of %s is empty.", cmd.User)
}
