package admin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/admin/ops"
	"kist/admin/serve"
	"kist/kv/record"
	"kist/kv/workcopy"
)

// scratchFlag says where a command keeps its temporary files.
type scratchFlag struct {
	Scratch string `placeholder:"DIR" help:"A folder for temporary files, which need about four times the size of the journal. By default they are kept where the command writes, or in the data directory."`
}

type backupCommand struct {
	scratchFlag
	serve.RemoteFlags
	Dest string `arg:"" placeholder:"DEST" help:"A folder, a file that ends in .tar, or - for a tar on standard output. A folder that holds a backup is brought up to date."`
}

func (cmd *backupCommand) Run(c *Call) error {
	if err := ops.RequireData(c.DataDir); err != nil {
		return err
	}
	if err := workcopy.Readable(c.DataDir); err != nil { // before anything is written
		return err
	}
	if f, ok := c.Stdout.(*os.File); ok && cmd.Dest == "-" && term.IsTerminal(int(f.Fd())) {
		return exit.Misused("a tar is not for the terminal; send it somewhere, such as: kist backup - > kist.tar")
	}
	if strings.EqualFold(filepath.Ext(cmd.Dest), ".zip") {
		return exit.Misused("a backup is a folder or a tar, not a zip; name a folder or a file that ends in .tar")
	}
	job := c.job(c.DataDir, cmd.Scratch)
	remote, release, err := cmd.Remote()
	if err != nil {
		return err
	}
	defer release()
	job.Remote = remote
	done, err := job.Backup(cmd.Dest, c.Stdout)
	if err != nil {
		return err
	}
	return c.sayCopied(done, "Backed up", allRead)
}

// job is an operation on a data directory that reports to the user.
func (c *Call) job(dir, scratch string) ops.Job {
	return ops.Job{Dir: dir, Scratch: scratch, Stderr: c.Stderr, Log: c.Log}
}

// allRead is what sayCopied says of a copy that was read from end to end.
const allRead = "All of it was read back and is intact."

// sayCopied prints what a backup or a restore copied, and what was checked. It fails if
// files are missing.
func (c *Call) sayCopied(done *ops.BackedUp, what, proof string) error {
	to := " to " + done.Dest
	if done.Dest == "-" {
		to, proof = "", ""
	}
	if len(done.Missing) > 0 {
		proof = "It is incomplete."
	}
	text := fmt.Sprintf("%s%s: %s, %d of them (%s) copied now; checksum of the records %s. %s", what, to,
		record.Plural(done.Files, "file"), done.Copied, console.Bytes(done.Bytes), done.Digest, proof)
	text = strings.TrimRight(text, " ")
	for _, m := range done.Missing {
		if done.Store != "" {
			break // most of them should be in the object store
		}
		text += fmt.Sprintf("\nFile %s (%s) is not in it: %s.", m.ID, console.Printable(m.Name), m.Why)
	}
	if done.NoModes {
		text += "\nFile modes are not kept there: make sure that nobody else can read it."
	}
	out := *c
	if done.Dest == "-" {
		out.Stdout = out.Stderr // standard output has the tar
	}
	if err := out.say(done, "%s", text); err != nil {
		return err
	}
	n := len(done.Missing)
	switch {
	case n == 0:
		return nil
	case done.Store != "":
		return exit.Found("%s missing or damaged on this disk; the object store should have all files: "+
			"run this command again with --store %s",
			record.Plural(n, "file")+console.Word(n == 1, " is", " are"), done.Store)
	}
	return bytesMissing(n)
}
