package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/admin/socket"
	"kist/blobs"
	"kist/kv"
	"kist/kv/journal"
	"kist/kv/record"
)

type verifyCommand struct {
	Dir string `arg:"" optional:"" placeholder:"DIR" help:"A data directory, a copy or a backup. Without it, the data directory is checked."`
	scratchFlag
	Repair bool `help:"Rebuild the journal from everything that can be read, and report what was lost. Nothing is removed: the old files are kept in a folder. Stop the server first."`

	DryRun       bool `help:"With --repair: say what would be done, and change nothing."`
	UnprovenCopy bool `help:"With --repair: use the working copy (cache/kist.db) even if nothing proves that it is correct."`
}

// Verified is what was found in a data directory.
type Verified struct {
	Dir      string       `json:"dir"`
	Seq      uint64       `json:"seq"`    // commits that led there
	Digest   string       `json:"digest"` // of everything the store holds
	Entries  int          `json:"entries"`
	Contents int          `json:"contents"` // that records have
	Bytes    int64        `json:"bytes"`    // of them
	Orphans  int          `json:"orphans"`  // contents that no record has; the sweep removes them
	Missing  []Lost       `json:"missing"`  // records without their bytes
	Problems []string     `json:"problems"`
	Notes    []string     `json:"notes,omitempty"`      // what is wrong and does no harm
	Told     bool         `json:"toldServer,omitempty"` // the running server looks at what was found itself
	Repaired *kv.Repaired `json:"repaired,omitempty"`
}

// Lost is a record whose content is not there, or is not what it was.
type Lost struct {
	ID      record.ID `json:"id"`
	Name    string    `json:"name"`
	Content string    `json:"sha256"`
	Why     string    `json:"why"`
}

// foundProblems is the error of a check that found n problems. advice is what to
// do about them; it may be empty.
func foundProblems(n int, advice string) error {
	return exit.Found("%s %s found%s", console.Count(n, "problem"), console.Word(n == 1, "was", "were"), advice)
}

// bytesMissing is the error of a copy in which n files have no bytes.
func bytesMissing(n int) error {
	return exit.Found("%s %s bytes; kist verify tells more", console.Count(n, "file"), console.Word(n == 1, "is without its", "are without their"))
}

func (cmd *verifyCommand) Run(c *Call) error {
	dir := cmd.Dir
	if dir == "" {
		dir = c.DataDir
	}
	if !cmd.Repair && (cmd.DryRun || cmd.UnprovenCopy) {
		return exit.Misused("--dry-run and --unproven-copy need --repair")
	}
	var repaired *kv.Repaired
	if cmd.Repair {
		var err error
		if _, err := os.Stat(dir); err != nil {
			return exit.Absent("data directory at", dir)
		}
		repaired, err = kv.Repair(dir, kv.RepairOptions{DryRun: cmd.DryRun, Unproven: cmd.UnprovenCopy, Scratch: cmd.Scratch})
		if e, ok := errors.AsType[*kv.InUse](err); ok {
			return fmt.Errorf("%w; stop the server first", e)
		}
		if err != nil {
			return fmt.Errorf("cannot repair %s: %w", dir, err)
		}
		if cmd.DryRun {
			if err := c.say(&Verified{Dir: dir, Missing: []Lost{}, Problems: []string{}, Repaired: repaired}, "%s", strings.TrimPrefix(told(repaired), "\n")); err != nil || repaired.Whole() {
				return err
			}
			return lossy(repaired)
		}
	}
	if repaired != nil && !c.JSON { // now: reading all files may take hours, or be cut short
		if err := c.say(nil, "%s", strings.TrimPrefix(told(repaired), "\n")); err != nil {
			return err
		}
	}
	v, err := verify(c, dir, cmd.Scratch)
	if err != nil {
		return err
	}
	v.Repaired = repaired
	if err := c.consult(dir, v); err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s, %d %s, %s of %s; state %s.",
		dir, console.Count(v.Seq, "commit"), v.Entries, console.Word(v.Entries == 1, "entry", "entries"), console.Count(v.Contents, "file"), console.Bytes(v.Bytes), v.Digest)
	if v.Orphans > 0 && len(v.Problems) == 0 { // records that cannot be read may have them
		text += fmt.Sprintf("\nThe bytes of %s belong to no item; the hourly sweep frees their space.", console.Count(v.Orphans, "file"))
	}
	for _, m := range v.Missing {
		text += fmt.Sprintf("\nFile %s (%s): %s. To repair it, upload the same file again, or run kist restore --missing with a backup.", m.ID, console.Printable(m.Name), m.Why)
	}
	for _, n := range v.Notes {
		text += "\nNo harm: " + console.Printable(n) + "."
	}
	for _, p := range v.Problems {
		text += "\n" + console.Printable(p)
	}
	if v.Told {
		text += "\nThe running server checks this itself now, and heals its journal if it can."
	}
	bad := len(v.Missing) + len(v.Problems)
	switch {
	case repaired != nil && !repaired.Whole():
	case bad == 0 && len(v.Notes) == 0:
		text += "\nNo problems found."
	case bad == 0:
		text += "\nAll data that is needed is intact."
	}
	if err := c.say(v, "%s", text); err != nil {
		return err
	}
	if repaired != nil && !repaired.Whole() {
		return lossy(repaired)
	}
	if bad == 0 {
		return nil
	}
	if len(v.Problems) > 0 && v.Told {
		return foundProblems(bad, "; run kist verify again in a few minutes, and if it still finds some, stop the server and run kist verify --repair, or restore a backup")
	}
	if len(v.Problems) > 0 && !cmd.Repair {
		return foundProblems(bad, "; stop the server and run kist verify --repair, or restore a backup")
	}
	return foundProblems(bad, "")
}

// told is what a repair did, or would do, a line for each fact.
func told(r *kv.Repaired) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString("\nRepair: " + console.Printable(fmt.Sprintf(format, args...)))
	}
	for _, d := range r.Damage {
		line("%s", d)
	}
	line("the journal is rebuilt from %s, up to commit %d", r.From, r.Seq)
	for i, g := range r.Gaps {
		if i == mostTold {
			line("… and %d more stretches", len(r.Gaps)-i)
			break
		}
		line("commits %d to %d are lost", g.First, g.Last)
	}
	if r.Missing > 0 {
		line("%s %s missing; they changed items up to %s", console.Count(r.Missing, "commit"), console.Word(r.Missing == 1, "is", "are"), console.Count(r.Changes, "time"))
	}
	for i, t := range r.Touched {
		if i == mostTold {
			break
		}
		line("%s %s (%s): %s", cmp.Or(t.Kind, "item"), t.ID, t.Name, t.Why)
	}
	if n := r.TouchedTotal - mostTold; n > 0 {
		line("… and %d more items that missing commits may have changed; --json lists up to 100", n)
	}
	for i, l := range r.Lost {
		if i == mostTold {
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

// mostTold is how many things of a kind are listed as text.
const mostTold = 20

// lossy says that a repair has lost something.
func lossy(r *kv.Repaired) error {
	switch {
	case r.Partial:
		return exit.Found("the repair could not save everything, and how much is lost is not known")
	case r.Missing > 0:
		return exit.Found("%s %s lost", console.Count(r.Missing, "commit"), console.Word(r.Missing == 1, "was", "were"))
	case len(r.Lost) == 0:
		return exit.Found("an earlier repair lost something")
	}
	return exit.Found("the repair could not save everything as it was")
}

// consult has a running server look at its own working copy, and, if anything
// is wrong, at its journal and at the contents in question.
func (c *Call) consult(dir string, v *Verified) error {
	conn, err := socket.Dial(context.Background(), filepath.Join(dir, socket.Name))
	if err != nil {
		return nil //nolint:nilerr // no server: the working copy is derived, and proves itself at the next start
	}
	client := overSocket(filepath.Join(dir, socket.Name))
	var problems []string
	err = errors.Join(conn.Close(), client.call(context.Background(), http.MethodGet, "/copy", nothing{}, &problems))
	v.Problems = append(v.Problems, problems...)
	if err == nil && len(v.Missing)+len(v.Problems) > 0 {
		in := suspects{}
		for _, m := range v.Missing[:min(len(v.Missing), mostSuspects)] {
			in.Contents = append(in.Contents, m.Content)
		}
		// A server of another version may not know how.
		v.Told = client.call(context.Background(), http.MethodPost, "/scrub", in, &nothing{}) == nil
	}
	return errors.Join(err, client.close())
}

// mostSuspects is how many contents a server is asked to check at once. The
// others have their turn within the week.
const mostSuspects = 200

// suspects are contents that may be damaged.
type suspects struct{ Contents []string }

// scrub has the journal and some contents checked in the background.
func (v verbs) scrub(_ *http.Request, in suspects) (nothing, error) {
	v.store.ScrubNow()
	return nothing{}, v.contents(func(store *blobs.Store) error {
		for _, text := range in.Contents {
			ref, err := blobs.ParseRef(text)
			if err != nil {
				return err
			}
			store.CheckSoon(ref)
		}
		return nil
	})
}

func (v verbs) checkCopy(*http.Request, nothing) ([]string, error) {
	problems := []string{}
	err := v.store.CheckCopy(func(err error) { problems = append(problems, err.Error()) })
	return problems, err
}

// verify reads everything in a data directory. A server may be running on it.
// Its scratch files lie in the folder scratch, or in the directory itself if
// that is "".
func verify(c *Call, dir, scratch string) (*Verified, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, exit.Absent("data directory at", dir)
	}
	if !info.IsDir() {
		return nil, exit.Misused("there is a file at %s, not a folder; to check a tar, restore it into an empty folder: kist restore %[1]s --data-dir FOLDER", dir)
	}
	v := &Verified{Dir: dir, Missing: []Lost{}, Problems: []string{}}
	if err := kv.Readable(dir); err != nil { // before anything is written
		return nil, err
	}
	work, err := newScratch(scratch, within(dir))
	if err != nil {
		return nil, err
	}
	defer work.Close() //nolint:errcheck // the next run removes what is left
	if err := roomToRead(dir, work.Path); err != nil {
		return nil, err
	}
	p := c.progress("Reading the journal", 0)
	problem := func(err error) {
		if errors.As(err, new(*journal.Superseded)) {
			v.Notes = append(v.Notes, err.Error())
			return
		}
		v.Problems = append(v.Problems, err.Error())
	}
	i, err := kv.Inspect(dir, work.Path, p.Add, problem)
	p.End()
	if err != nil {
		return nil, err
	}
	defer i.Close()
	v.Seq, v.Digest, v.Entries = i.Seq, fmt.Sprintf("%016x", uint64(i.Digest)), i.Entries
	if err := i.View(func(tx *kv.Tx) error { return tx.Audit(problem) }); err != nil {
		return nil, err
	}
	store, err := blobs.Read(filepath.Join(dir, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		err = i.View(func(tx *kv.Tx) error {
			for ref := range tx.Contents() {
				v.miss(tx, ref, "its bytes are missing")
			}
			return nil
		})
		return v, err
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return v, v.contents(c, i, store)
}

// miss notes the records that have a content which cannot be read.
func (v *Verified) miss(tx *kv.Tx, ref blobs.Ref, why string) {
	for _, r := range tx.Having(ref) {
		v.Missing = append(v.Missing, Lost{ID: r.ID, Name: r.Name, Content: ref.String(), Why: why})
	}
}

// contents reads the bytes of all files.
func (v *Verified) contents(c *Call, i *kv.Inspection, store *blobs.Store) error {
	return i.View(func(tx *kv.Tx) error {
		for _, n := range tx.Contents() {
			v.Contents++
			v.Bytes += n
		}
		p := c.progress("Reading the files", v.Bytes)
		defer p.End()
		for ref, n := range tx.Contents() {
			switch info, err := store.Stat(ref); {
			case errors.Is(err, fs.ErrNotExist):
				v.miss(tx, ref, "its bytes are missing")
			case err == nil && info.Size != n:
				v.miss(tx, ref, fmt.Sprintf("its bytes are %d and should be %d", info.Size, n))
			default:
				if err := store.Check(ref); errors.Is(err, blobs.ErrDamaged) {
					v.miss(tx, ref, "its bytes are damaged")
				} else if err != nil {
					v.miss(tx, ref, "its bytes cannot be read: "+err.Error())
				}
			}
			p.Add(n)
		}
		for info, err := range store.All() {
			switch {
			case errors.Is(err, blobs.ErrForeign):
				v.Problems = append(v.Problems, "blobs/ has a name that is not one of kist's: "+err.Error())
			case err != nil:
				v.Problems = append(v.Problems, err.Error())
			case !tx.Referenced(info.Ref):
				v.Orphans++
			}
		}
		return nil
	})
}

// lastBackup is when the data directory was last backed up, by the file that
// backup leaves in it.
func lastBackup(dir string) (time.Time, error) {
	info, err := os.Stat(filepath.Join(dir, backupMark))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
