package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/admin/ops"
	"kist/admin/serve"
	"kist/blobs"
	"kist/blobs/sealed"
	"kist/kv/record"
	"kist/kv/ship"
)

type restoreCommand struct {
	Source string `arg:"" placeholder:"SRC" help:"A backup or a copy of a data directory: a folder, a file that ends in .tar, or - for a tar on standard input. Or an object store that a server copied everything to, such as s3://bucket/prefix."`
	At     string `placeholder:"TIME" help:"From an object store: restore everything as it was at this time, such as 2026-11-22T05:00:00Z."`
	serve.AccessFlags
	KeyFile  string `placeholder:"FILE" help:"The key file of a tar that kist backup --key-file has encrypted."`
	FetchAll bool   `help:"From an object store: fetch all files now. Otherwise the server fetches a file when it is needed. Files of an earlier time are always fetched."`
	Missing  bool   `help:"Put back only the content of files that are missing or damaged, and change nothing else. The server may be running."`
}

// Run restores. It overwrites nothing: ops.Restore refuses a data directory that is not empty. With
// --missing it only adds contents that are missing or damaged.
func (cmd *restoreCommand) Run(c *Call) error {
	remote := strings.HasPrefix(cmd.Source, "s3:")
	switch {
	case remote && cmd.Missing:
		return exit.Misused("--missing needs a backup; it cannot use an object store")
	case remote && cmd.KeyFile != "":
		return exit.Misused("--key-file is for a tar; for an object store it is --store-key-file")
	case remote:
		return cmd.fetch(c)
	case cmd.At != "" || cmd.FetchAll:
		return exit.Misused("--at and --fetch-all need an object store, such as s3://bucket/prefix")
	}
	if err := cmd.requireSource(); err != nil { // before anything is said about the data directory
		return err
	}
	from, err := tarSource(c, cmd.Source, cmd.KeyFile, cmd.StoreKeyFile)
	if err != nil {
		return err
	}
	if cmd.Missing {
		return cmd.putBackMissing(c, from)
	}
	done, err := c.job(c.DataDir, "").Restore(from)
	if err != nil {
		return err
	}
	return c.sayCopied(done, "Restored "+cmd.Source, allRead)
}

// tarSource is a backup, which may be a tar that is encrypted: with keyFile, or with that of the object store. With
// keyFile a plain one is refused.
func tarSource(c *Call, path, keyFile, storeKeyFile string) (from ops.Source, err error) {
	from = ops.Source{Path: path, Stdin: c.Stdin, Sealed: keyFile != ""}
	if file := cmp.Or(keyFile, storeKeyFile); file != "" {
		from.Key, err = sealed.ReadKey(file)
	}
	return from, err
}

// requireSource fails if there is nothing where the backup should be.
func (cmd *restoreCommand) requireSource() error {
	if cmd.Source == "-" {
		return nil
	}
	_, err := os.Stat(cmd.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Absent("backup at", cmd.Source)
	}
	return err
}

// fetch restores from an object store.
func (cmd *restoreCommand) fetch(c *Call) error {
	at, err := cmd.moment()
	if err != nil {
		return err
	}
	from, err := cmd.Open(cmd.Source)
	if err != nil {
		return err
	}
	defer from.Bucket.Close()
	source := strings.TrimRight(cmd.Source, "/")
	done, got, err := c.job(c.DataDir, "").Fetch(context.Background(), from, source, at, cmd.FetchAll)
	if err != nil {
		return err
	}

	what := "Restored " + cmd.Source
	if last := got.Reached(); !last.IsZero() {
		what += " up to the change at " + last.UTC().Format(time.RFC3339)
	}
	if !at.IsZero() {
		what += " as it was at " + at.UTC().Format(time.RFC3339)
	}
	elsewhere := got.Whole && !cmd.FetchAll && done.Copied < done.Files
	proof := allRead
	if elsewhere {
		proof = "The records and what was copied were read back and are intact."
	}
	if err := c.sayCopied(done, what, proof); err != nil {
		return err
	}

	switch {
	case got.Damage != nil:
		return exit.Found("a restore from %s gives %s. Before you go on: a server that still has its data directory "+
			"puts what is missing there again. For an earlier moment, restore into another directory with --at. "+
			"To continue with what was restored, "+
			"give kist serve another address with --store, or none", cmd.Source, ship.Gives(got, nil))
	case c.JSON || got.Whole && !elsewhere:
		return nil
	case elsewhere:
		return c.say(nil, "The files that were not copied are still in the object store: each is there with its full size, "+
			"and its content was not read. Start kist serve with --store %s --take-over, which fetches them "+
			"when they are needed. The server that wrote there stops storing then.", cmd.Source)
	}
	return c.say(nil, "The object store has later changes. Give kist serve another address with --store, or none.")
}

// moment reads --at, and returns a zero time without it.
func (cmd *restoreCommand) moment() (time.Time, error) {
	if cmd.At == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, cmd.At)
	if err != nil {
		return time.Time{}, exit.Misused("--at must be a time such as 2026-11-22T05:00:00Z; it is %q", cmd.At)
	}
	if at.After(time.Now()) {
		return time.Time{}, exit.Misused("--at must be a moment in the past; %s is in the future", cmd.At)
	}
	return at, nil
}

// Refilled is what restore --missing did.
type Refilled struct {
	Source  string     `json:"source"`
	Files   int        `json:"files"`   // contents that were put back
	Bytes   int64      `json:"bytes"`   // of the contents that were put back
	Missing []ops.Lost `json:"missing"` // files whose bytes are still missing or damaged
	// Unreadable are files whose bytes could not be read, at most maxUnreadable of
	// them. UnreadableTotal is how many there are.
	Unreadable      []ops.Lost `json:"unreadable"`
	UnreadableTotal int        `json:"unreadableTotal"`
}

const maxUnreadable = 1000

// putBackMissing fetches the contents that are missing or damaged. No record
// changes. The server may be running.
func (cmd *restoreCommand) putBackMissing(c *Call, from ops.Source) error {
	if cmd.Source != "-" {
		if err := ops.RequireBackup(from); err != nil {
			return err
		}
	}
	out, err := cmd.fetchMissing(context.Background(), c, from)
	if err != nil {
		return err
	}
	if err := c.say(out, "%s", cmd.report(out)); err != nil {
		return err
	}
	return cmd.outcome(out)
}

// report says what was put back, and what was not.
func (cmd *restoreCommand) report(out *Refilled) string {
	text := "No file is missing or damaged. Nothing was changed."
	if out.UnreadableTotal > 0 {
		text = "No file that could be read is missing or damaged. Nothing was changed."
	}
	if n := len(out.Missing); out.Files > 0 || n > 0 {
		text = fmt.Sprintf("Restored the content of %s (%s) from %s.",
			record.Plural(out.Files, "file"), console.Bytes(out.Bytes), cmd.Source)
	}
	for _, m := range out.Missing {
		text += fmt.Sprintf("\nFile %s (%s): %s, and %s does not have them.",
			m.ID, console.Printable(m.Name), m.Why, cmd.Source)
	}
	for i, u := range out.Unreadable {
		if i == maxShown {
			text += fmt.Sprintf("\n… and %s more; --json lists up to %d",
				record.Plural(out.UnreadableTotal-i, "file"), maxUnreadable)
			break
		}
		text += fmt.Sprintf("\nFile %s (%s) was skipped: %s.",
			u.ID, console.Printable(u.Name), console.Printable(u.Why))
	}
	return text
}

// outcome is the error that the command ends with, nil if all is well.
func (cmd *restoreCommand) outcome(out *Refilled) error {
	var bad []string
	if n := len(out.Missing); n > 0 {
		bad = append(bad, record.Plural(n, "file")+console.Word(n == 1, " is", " are")+
			" still missing or damaged; try another backup, or upload the same "+
			console.Word(n == 1, "file", "files")+" again")
	}
	if n := out.UnreadableTotal; n > 0 {
		bad = append(bad, record.Plural(n, "file")+" could not be read and "+console.Word(n == 1, "was", "were")+
			" skipped; let the user who runs kist read the data directory, then run this again")
	}
	if len(bad) == 0 {
		return nil
	}
	return exit.Found("%s", strings.Join(bad, ". "))
}

// fetchMissing finds out which contents are missing or damaged, and puts back those that the source has.
func (cmd *restoreCommand) fetchMissing(
	ctx context.Context, c *Call, from ops.Source,
) (_ *Refilled, err error) {
	client, err := c.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	out := &Refilled{Source: cmd.Source, Missing: []ops.Lost{}, Unreadable: []ops.Lost{}}
	wanted, total, err := c.unsound(ctx, client, out)
	if err != nil || len(wanted) == 0 {
		return out, err
	}
	done, err := cmd.putBack(ctx, c, client, from, wanted, total)
	if err != nil {
		return nil, fmt.Errorf("not all files were fetched; what was put back stays: %w", err)
	}

	for _, text := range done.Refs {
		if ref, err := blobs.ParseRef(text); err == nil {
			delete(wanted, ref)
		}
	}
	out.Files, out.Bytes = len(done.Refs), done.Bytes
	for _, ref := range ops.SortedRefs(wanted) {
		out.Missing = append(out.Missing, wanted[ref]...)
	}
	return out, nil
}

// putBack sends the wanted contents that the source has, of total bytes at most.
func (cmd *restoreCommand) putBack(
	ctx context.Context, c *Call, client *control.Client, source ops.Source, wanted map[blobs.Ref][]ops.Lost, total int64,
) (done control.PutBack, err error) {
	p := c.progress("Fetching the files", total)
	defer p.End()
	client.Progress = p
	from, to := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := ops.WriteContents(to, source, wanted)
		_ = to.CloseWithError(err) // never fails
		sent <- err
	}()
	err = client.Send(ctx, http.MethodPost, "/contents", from, &done)
	_ = from.Close() // ends the sending if the handler failed
	if cause := <-sent; cause != nil && !errors.Is(cause, io.ErrClosedPipe) {
		return done, cause // of the other error
	}
	return done, err
}

// unsound makes the handler read all contents. It returns the files of missing and
// damaged contents and how many bytes those contents should have. It notes the files
// that cannot be read in out.
func (c *Call) unsound(
	ctx context.Context, client *control.Client, out *Refilled,
) (wanted map[blobs.Ref][]ops.Lost, total int64, err error) {
	res, err := client.Do(ctx, http.MethodGet, "/contents", http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	p := c.progress("Reading the files", 0)
	defer p.End()
	wanted = map[blobs.Ref][]ops.Lost{}
	for d := json.NewDecoder(res.Body); ; {
		var one ops.Content
		if err := d.Decode(&one); err != nil {
			return nil, 0, fmt.Errorf("the stored files could not all be read: %w", err)
		}
		if one.End {
			return wanted, total, nil
		}
		p.Add(one.Size)
		if one.Unread {
			out.UnreadableTotal += len(one.Files)
			room := maxUnreadable - len(out.Unreadable)
			out.Unreadable = append(out.Unreadable, one.Files[:min(len(one.Files), room)]...)
			continue
		}
		if len(one.Files) == 0 {
			continue
		}
		ref, err := blobs.ParseRef(one.Ref)
		if err != nil {
			return nil, 0, err
		}
		wanted[ref] = one.Files
		total += one.Size
	}
}
