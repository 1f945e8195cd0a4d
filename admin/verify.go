package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/admin/ops"
	"kist/admin/serve"
	"kist/kv/datadir"
	"kist/kv/record"
	"kist/kv/repair"
	"kist/kv/tables"
)

type verifyCommand struct {
	Dir string `arg:"" optional:"" placeholder:"DIR" help:"A data directory, a copy, a backup (a folder, a tar, or - for a tar on standard input), or an object store such as s3://bucket/prefix. A whole copy of the data directory counts as a backup from then on. Without it, the data directory is checked."`
	scratchFlag
	serve.RemoteFlags
	KeyFile string `placeholder:"FILE" help:"The key file of a tar that kist backup --key-file has encrypted."`
	Full    bool   `help:"With an object store: read the bytes of all files, not only of some."`
	Repair  bool   `help:"Rebuild the journal from everything that can be read, and report what was lost. Nothing is removed: the old files are kept in a folder. Stop the server first."`

	DryRun       bool `help:"With --repair: say what would be done, and change nothing."`
	UnprovenCopy bool `help:"With --repair: use the working copy (cache/kist.db) even if nothing proves that it is correct."`
}

// foundProblems is the error of a check that found n problems. advice is what to
// do about them; it may be empty.
func foundProblems(n int, advice string) error {
	return exit.Found("%s %s found%s", record.Plural(n, "problem"), console.Word(n == 1, "was", "were"), advice)
}

// bytesMissing is the error of a copy in which n files have no bytes.
func bytesMissing(n int) error {
	without := console.Word(n == 1, "is without its", "are without their")
	return exit.Found("%s %s bytes; kist verify tells more", record.Plural(n, "file"), without)
}

func (cmd *verifyCommand) Run(c *Call) error {
	if strings.HasPrefix(cmd.Dir, "s3:") {
		return cmd.remote(c)
	}
	dir := cmp.Or(cmd.Dir, c.DataDir)
	if err := cmd.check(dir); err != nil {
		return err
	}
	v, err := cmd.read(c, dir)
	if err != nil {
		return err
	}
	if err := c.consult(dir, v); err != nil {
		return err
	}
	if !cmd.Repair {
		v.BackupUntil, err = v.NoteCopy(c.DataDir)
		if err != nil {
			c.Log.Warn("the time of the backup is not noted", "error", err)
		}
	}

	if err := c.say(v, "%s", cmd.report(c, dir, v)); err != nil {
		return err
	}
	return cmd.outcome(v)
}

// read reads everything in a folder or a tar.
func (cmd *verifyCommand) read(c *Call, dir string) (*ops.Verified, error) {
	if cmd.tar() {
		from, err := tarSource(c, dir, cmd.KeyFile, cmd.StoreKeyFile)
		if err != nil {
			return nil, err
		}
		return c.job(c.DataDir, cmd.Scratch).VerifyTar(from)
	}

	job := c.job(dir, cmd.Scratch)
	if dir == c.DataDir {
		remote, release, err := cmd.Remote()
		if err != nil {
			return nil, err
		}
		defer release()
		job.Remote = remote
	}
	return cmd.verify(c, job)
}

// tar reports whether a tar is to be checked.
func (cmd *verifyCommand) tar() bool {
	info, err := os.Stat(cmd.Dir)
	return cmd.Dir == "-" || err == nil && info.Mode().IsRegular()
}

// check refuses flags that do not fit together.
func (cmd *verifyCommand) check(dir string) error {
	if cmd.Repair && cmd.tar() {
		return exit.Misused("--repair needs a data directory; restore the tar instead")
	}
	if cmd.KeyFile != "" && !cmd.tar() {
		return exit.Misused("--key-file is for a tar; %s is none", dir)
	}
	if cmd.Full {
		return exit.Misused("--full needs an object store, such as s3://bucket/prefix; " +
			"of a data directory all files are read")
	}
	if !cmd.Repair && (cmd.DryRun || cmd.UnprovenCopy) {
		return exit.Misused("--dry-run and --unproven-copy need --repair")
	}
	if _, err := os.Stat(dir); cmd.Repair && err != nil {
		return exit.Absent("data directory at", dir)
	}
	return nil
}

// verify repairs the data directory if that was asked for, and reads everything in it. Of a dry
// run it reads what there would be.
func (cmd *verifyCommand) verify(c *Call, job ops.Job) (*ops.Verified, error) {
	if !cmd.Repair {
		return job.Verify()
	}
	var v *ops.Verified
	repaired, err := repair.Repair(job.Dir, repair.RepairOptions{
		Schema: tables.All, DryRun: cmd.DryRun, Unproven: cmd.UnprovenCopy, Scratch: cmd.Scratch,
		Look: func(r *repair.Repaired, rebuilt string) (err error) {
			if err := c.sayRepaired(r); err != nil {
				return err
			}
			v, err = job.VerifyRebuilt(rebuilt)
			return err
		},
	})
	if e, ok := errors.AsType[*datadir.InUse](err); ok {
		return nil, fmt.Errorf("%w; stop the server first", e)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot repair %s: %w", job.Dir, err)
	}

	if v == nil { // it was no dry run
		if err := c.sayRepaired(repaired); err != nil {
			return nil, err
		}
		v, err = job.Verify()
		if err != nil {
			return nil, err
		}
	}
	v.Repaired = repaired
	return v, nil
}

// report says what was found.
func (cmd *verifyCommand) report(c *Call, dir string, v *ops.Verified) string {
	var text strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&text, format, args...) }

	if cmd.DryRun {
		say("After the repair, this would be there:\n")
	}
	say("%s: %s, %d %s, %s of %s; state %s.", dir, record.Plural(v.Seq, "commit"),
		v.Entries, console.Word(v.Entries == 1, "entry", "entries"),
		record.Plural(v.Contents, "file"), console.Bytes(v.Bytes), v.Digest)
	if v.Orphans > 0 && len(v.Problems) == 0 { // unreadable records may have them
		say("\nThe bytes of %s belong to no item; the hourly sweep frees their space.", record.Plural(v.Orphans, "file"))
	}

	away := fmt.Sprintf("\nThe bytes of %s (%s)", record.Plural(v.Elsewhere, "file"), console.Bytes(v.ElsewhereBytes))
	switch {
	case v.Store != "":
		place := "" // --store is for the data directory
		if dir != c.DataDir {
			place = " --data-dir " + dir
		}
		say("%s are not on this disk and were not checked. They should be in the object store; "+
			"to look for them there, run kist verify%s --store %s.", away, place, v.Store)
	case v.Elsewhere > 0:
		say("%s are in the object store and not on this disk. Run kist verify %s to check them there.", away, cmd.Store)
	}

	for _, m := range v.Missing {
		say("\nFile %s (%s): %s. To repair it, upload the same file again, or run kist restore --missing with a backup.",
			m.ID, console.Printable(m.Name), m.Why)
	}
	for _, n := range v.Notes {
		say("\nNo harm: %s.", console.Printable(n))
	}
	for _, p := range v.Problems {
		say("\n%s", console.Printable(p))
	}
	if v.Told {
		say("\nThe running server checks this itself now, and repairs its journal if it can.")
	}

	if !v.BackupUntil.IsZero() {
		say("\nThis copy counts as a backup of %s: it has everything up to %s.",
			c.DataDir, v.BackupUntil.Local().Format("2006-01-02 15:04:05"))
	}

	lossy := v.Repaired != nil && !v.Repaired.Whole()
	switch {
	case lossy, found(v) > 0, v.Store != "":
	case len(v.Notes) == 0:
		say("\nNo problems found.")
	default:
		say("\nAll data that is needed is intact.")
	}
	return text.String()
}

// found is how many things are wrong.
func found(v *ops.Verified) int { return len(v.Missing) + len(v.Problems) }

// outcome is the error that the command ends with, nil if all is well.
func (cmd *verifyCommand) outcome(v *ops.Verified) error {
	bad := found(v)
	switch {
	case v.Repaired != nil && !v.Repaired.Whole():
		return lossError(v.Repaired)
	case bad == 0 && v.Store != "":
		files := record.Plural(v.Elsewhere, "file") + console.Word(v.Elsewhere == 1, " was", " were")
		return exit.Found("%s not checked; add --store %s", files, v.Store)
	case bad == 0:
		return nil
	case len(v.Problems) > 0 && v.Told:
		return foundProblems(bad, "; run kist verify again in a few minutes, and if it still finds some, "+
			"stop the server and run kist verify --repair, or restore a backup")
	case len(v.Problems) > 0 && !cmd.Repair:
		return foundProblems(bad, "; stop the server and run kist verify --repair, or restore a backup")
	}
	return foundProblems(bad, "")
}

// sayRepaired prints what a repair did, before all files are read, which may take hours or
// be interrupted.
func (c *Call) sayRepaired(r *repair.Repaired) error {
	if c.JSON {
		return nil // it is a part of what verify prints
	}
	return c.say(nil, "%s", strings.TrimPrefix(repairReport(r), "\n"))
}

// remote checks an object store.
func (cmd *verifyCommand) remote(c *Call) error {
	if cmd.Repair {
		return exit.Misused("--repair needs a data directory; restore from the object store instead")
	}
	if cmd.KeyFile != "" {
		return exit.Misused("--key-file is for a tar; for an object store it is --store-key-file")
	}
	from, err := cmd.AccessFlags.Open(cmd.Dir)
	if err != nil {
		return err
	}
	defer from.Bucket.Close()
	v, err := c.job("", cmd.Scratch).VerifyRemote(context.Background(), from, cmd.Full)
	if err != nil {
		return err
	}
	v.Source = cmd.Dir
	text := fmt.Sprintf("%s: %s in %s, %s of %s, %d of them read; state %s.",
		cmd.Dir, record.Plural(v.Seq, "commit"), record.Plural(v.Slots, "slot"),
		record.Plural(v.Contents, "file"), console.Bytes(v.Bytes), v.Read, v.Digest)
	for _, p := range v.Problems {
		text += "\n" + console.Printable(p)
	}
	if len(v.Problems) == 0 {
		text += "\nNo problems found."
	}
	if err := c.say(v, "%s", text); err != nil || len(v.Problems) == 0 {
		return err
	}
	return foundProblems(len(v.Problems), "")
}

// repairReport says what a repair did or would do, with a line for each fact.
func repairReport(r *repair.Repaired) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString("\nRepair: " + console.Printable(fmt.Sprintf(format, args...)))
	}
	for _, d := range r.Damage {
		line("%s", d)
	}

	line("the journal is rebuilt from %s, up to commit %d", r.From, r.Seq)
	for i, g := range r.Gaps {
		if i == maxShown {
			line("… and %d more stretches", len(r.Gaps)-i)
			break
		}
		line("commits %d to %d are lost", g.First, g.Last)
	}
	if r.Missing > 0 {
		line("%s %s missing; they changed items up to %s",
			record.Plural(r.Missing, "commit"), console.Word(r.Missing == 1, "is", "are"), record.Plural(r.Changes, "time"))
	}

	for i, t := range r.Touched {
		if i == maxShown {
			break
		}
		line("%s %s (%s): %s", cmp.Or(t.Kind, "item"), t.ID, t.Name, t.Why)
	}
	if n := r.TouchedTotal - maxShown; n > 0 {
		line("… and %d more items that missing commits may have changed; --json lists up to 100", n)
	}

	for i, l := range r.Lost {
		if i == maxShown {
			line("… and %d more; --json lists them", len(r.Lost)-i)
			break
		}
		line("%s", l)
	}
	for _, u := range r.Unknown {
		line("%s", u)
	}
	for _, e := range r.Earlier {
		line("an earlier repair lost something: %s/report.json says what, until you remove that folder", e)
	}

	if r.Whole() {
		line("no commit is lost")
	}
	if r.Aside != "" {
		line("the old files are kept in %s; remove it once you are sure that nothing is missing", r.Aside)
	} else {
		line("nothing was changed")
	}
	return b.String()
}

// maxShown is how many things of a kind are listed without --json.
const maxShown = 20

// lossError is the error of a repair that lost something.
func lossError(r *repair.Repaired) error {
	switch {
	case r.Partial:
		return exit.Found("the repair could not save everything, and how much is lost is not known")
	case r.Missing > 0:
		return exit.Found("%s %s lost", record.Plural(r.Missing, "commit"), console.Word(r.Missing == 1, "was", "were"))
	case len(r.Lost) == 0:
		return exit.Found("an earlier repair lost something")
	}
	return exit.Found("the repair could not save everything as it was")
}

// consult makes a running server check its working copy and, if anything is wrong,
// its journal and the contents in question.
func (c *Call) consult(dir string, v *ops.Verified) (err error) {
	client, err := control.Running(context.Background(), dir)
	if err != nil {
		v.Notes = append(v.Notes, v.Mended...) // a power cut leaves such a log
		// Without a server: the working copy is derived, and the next start checks it.
		return nil //nolint:nilerr // see above
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	v.Problems = append(v.Problems, v.Mended...)
	var problems []string
	err = client.Call(context.Background(), http.MethodGet, "/copy", control.Nothing{}, &problems)
	if err != nil {
		return err
	}
	v.Problems = append(v.Problems, problems...)
	if found(v) == 0 {
		return nil
	}

	in := control.Suspects{}
	for _, m := range v.Missing[:min(len(v.Missing), maxSuspects)] {
		in.Contents = append(in.Contents, m.Content)
	}
	// A server of another version may not know how.
	v.Told = client.Call(context.Background(), http.MethodPost, "/scrub", in, &control.Nothing{}) == nil
	return nil
}

// maxSuspects is how many contents a server is asked to check at once. It checks the
// others within a week anyway.
const maxSuspects = 200
