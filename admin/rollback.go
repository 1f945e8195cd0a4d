package admin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"kist/admin/console"
	"kist/admin/ops"
	"kist/admin/serve"
	"kist/kv/record"
	"kist/kv/workcopy"
)

type rollbackCommand struct {
	serve.RemoteFlags
	Dest string `arg:"" placeholder:"DEST" help:"A folder that is new or empty, best on the disk of the data directory: files take no room there."`
}

// Run makes a data directory for the former version. The present one stays as it is.
func (cmd *rollbackCommand) Run(c *Call) error {
	if err := c.requireData(); err != nil {
		return err
	}
	if err := workcopy.Readable(c.DataDir); err != nil { // before anything is written
		return err
	}
	job := c.job(c.DataDir, "")
	remote, release, err := cmd.Remote()
	if err != nil {
		return err
	}
	defer release()
	job.Remote = remote

	left := &changeList{c: c}
	done, err := job.Rollback(cmd.Dest, left.add)
	if err != nil {
		return err
	}
	if c.JSON {
		err = left.end(done)
	} else {
		err = c.print(rollbackReport(c.DataDir, done, left))
	}
	if err != nil || done.BackedUp == nil || len(done.Missing) == 0 {
		return err
	}
	return bytesMissing(len(done.Missing))
}

// changeList takes the changes that stay behind: with --json it prints each as it comes, and
// otherwise it counts them and keeps the newest.
type changeList struct {
	c      *Call
	n      int
	newest []ops.Left // at most maxShown, newest first
}

func (l *changeList) add(one ops.Left) error {
	l.n++
	if l.c.JSON {
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		before := ",\n"
		if l.n == 1 {
			before = "{\n  \"changes\": [\n"
		}
		return l.c.print(before + "    " + string(text))
	}
	at, _ := slices.BinarySearchFunc(l.newest, one, func(x, y ops.Left) int { return y.At.Compare(x.At) })
	if at < maxShown {
		l.newest = slices.Insert(l.newest, at, one)
		l.newest = l.newest[:min(len(l.newest), maxShown)]
	}
	return nil
}

// end completes the object that add has begun.
func (l *changeList) end(done *ops.RolledBack) error {
	text, err := json.MarshalIndent(done, "", "  ")
	if err != nil {
		return err
	}
	before := "\n  ],"
	if l.n == 0 {
		before = "{\n  \"changes\": [],"
	}
	return l.c.print(before + strings.TrimPrefix(string(text), "{") + "\n")
}

// rollbackReport says what a rollback made of the data directory dir, and what stays behind.
func rollbackReport(dir string, done *ops.RolledBack, left *changeList) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if done.BackedUp == nil {
		line("The format of the data has not changed: it is %d, and every version of kist that reads format %[1]d opens "+
			"%s as it is (kist version says which it reads). Nothing was made.", done.Format, dir)
		return b.String()
	}

	proof := allRead
	if len(done.Missing) > 0 {
		proof = "It is incomplete."
	}
	line("Made %s for the version of kist that reads format %d. It has everything as it was at %s, before the format "+
		"changed to %d.", done.Dest, done.Format, done.At.UTC().Format(time.RFC3339), done.Present)
	line("It has %s, %d of them (%s) copied and the others shared with %s; checksum of the records %s. %s",
		record.Plural(done.Files, "file"), done.Copied, console.Bytes(done.Bytes), dir, done.Digest, proof)
	for i, m := range done.Missing {
		if i == maxShown {
			line("… and %s more; --json lists them", record.Plural(len(done.Missing)-i, "file"))
			break
		}
		line("File %s (%s) is not in it: %s.", m.ID, console.Printable(m.Name), m.Why)
	}
	if done.NoModes {
		line("File modes are not kept there: make sure that nobody else can read it.")
	}

	switch {
	case left.n == 0:
		line("%s stays as it is. It has no changes since then.", dir)
	default:
		line("%s stays as it is. %s since then %s only there:", dir, record.Plural(left.n, "change"),
			console.Word(left.n == 1, "is", "are"))
		rows := make([][]string, 0, len(left.newest))
		for _, one := range left.newest {
			rows = append(rows, leftRow(one))
		}
		line("%s", strings.TrimRight(console.Table(rows), "\n"))
	}
	if n := left.n - len(left.newest); n > 0 {
		line("… and %d more; --json lists all", n)
	}
	line("To go back, stop the server, install the former version, and start it with --data-dir %s. "+
		"kist help updating says more.", done.Dest)
	return b.String()
}

func leftRow(one ops.Left) []string {
	at := "-"
	if !one.At.IsZero() {
		at = one.At.UTC().Format(time.RFC3339)
	}
	name := console.Printable(one.Name)
	if one.User != "" {
		name = strings.TrimSpace(name + " (" + one.User + ")")
	}
	return []string{"  " + at, one.What, one.Kind, name}
}
