package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"kist/blobs"
	"kist/kv"
	"kist/kv/record"
)

type verifyCommand struct {
	Dir    string `arg:"" optional:"" placeholder:"DIR" help:"A data directory, a copy or a backup; that of --data-dir if none is named."`
	Repair bool   `help:"Mend what can be mended and list what was lost. No server may be running on it."`
}

// Verified is what was found in a data directory.
type Verified struct {
	Dir      string   `json:"dir"`
	Seq      uint64   `json:"seq"`    // commits that led there
	Digest   string   `json:"digest"` // of everything the store holds
	Entries  int      `json:"entries"`
	Contents int      `json:"contents"` // that records have
	Bytes    int64    `json:"bytes"`    // of them
	Orphans  int      `json:"orphans"`  // contents that no record has; the sweep removes them
	Missing  []Lost   `json:"missing"`  // records without their bytes
	Problems []string `json:"problems"`
	Repaired []string `json:"repaired,omitempty"`
}

// Lost is a record whose content is not there, or is not what it was.
type Lost struct {
	ID      record.ID `json:"id"`
	Name    string    `json:"name"`
	Content string    `json:"sha256"`
	Why     string    `json:"why"`
}

// found is the error of a check that found something wrong.
type found struct{ text string }

func (e *found) Error() string { return e.text }

func problems(n int) string { return count(n, "problem") + word(n == 1, " was", " were") + " found" }

// bare says that files are without their bytes.
func bare(n int) error {
	return &found{count(n, "file") + word(n == 1, " is without its", " are without their") + " bytes; kist verify tells more"}
}

func (cmd *verifyCommand) Run(c *Call) error {
	dir := cmd.Dir
	if dir == "" {
		dir = c.DataDir
	}
	var lost []string
	if cmd.Repair {
		aside, err := kv.Repair(dir, func(err error) { lost = append(lost, err.Error()) })
		if e, ok := errors.AsType[*kv.InUse](err); ok {
			return fmt.Errorf("%w; stop the server first", e)
		}
		if err != nil {
			return fmt.Errorf("cannot repair %s: %w", dir, err)
		}
		lost = append(lost, "the journal was written anew; the old one is kept in "+filepath.Base(aside)+" and may be removed when all is well")
	}
	v, err := verify(c, dir)
	if err != nil {
		return err
	}
	v.Repaired = lost
	if err := errors.Join(c.copyProblems(dir, v)); err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s, %d %s, %s of %s; state %s.",
		dir, count(v.Seq, "commit"), v.Entries, word(v.Entries == 1, "entry", "entries"), count(v.Contents, "file"), size(v.Bytes), v.Digest)
	if v.Orphans > 0 {
		text += fmt.Sprintf("\nThe bytes of %s belong to no item; the sweep removes them.", count(v.Orphans, "file"))
	}
	for _, p := range v.Repaired {
		text += "\nRepair: " + printable(p)
	}
	for _, m := range v.Missing {
		text += fmt.Sprintf("\nFile %s (%s): %s. Uploading the same file again mends it.", m.ID, printable(m.Name), m.Why)
	}
	for _, p := range v.Problems {
		text += "\n" + printable(p)
	}
	bad := len(v.Missing) + len(v.Problems)
	if bad == 0 {
		text += "\nAll is well."
	}
	if err := c.say(v, "%s", text); err != nil || bad == 0 {
		return err
	}
	if len(v.Problems) > 0 && !cmd.Repair {
		return &found{problems(bad) + "; stop the server and run kist verify --repair, or restore a backup"}
	}
	return &found{problems(bad)}
}

// copyProblems has a running server look at its own working copy.
func (c *Call) copyProblems(dir string, v *Verified) error {
	conn, err := dialUnix(context.Background(), filepath.Join(dir, SocketName))
	if err != nil {
		return nil //nolint:nilerr // no server: the working copy is derived, and proves itself at the next start
	}
	client := overSocket(filepath.Join(dir, SocketName))
	var problems []string
	err = errors.Join(conn.Close(), client.call(context.Background(), http.MethodGet, "/copy", nothing{}, &problems), client.close())
	v.Problems = append(v.Problems, problems...)
	return err
}

func (v verbs) checkCopy(*http.Request, nothing) ([]string, error) {
	problems := []string{}
	err := v.store.CheckCopy(func(err error) { problems = append(problems, err.Error()) })
	return problems, err
}

// verify reads everything in a data directory. A server may be running on it.
func verify(c *Call, dir string) (*Verified, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, missing("data directory at", dir)
	}
	if !info.IsDir() {
		return nil, Misused("there is a file at %s, and no folder: to prove the tar of a backup, restore it into an empty folder with kist restore %[1]s --data-dir FOLDER", dir)
	}
	v := &Verified{Dir: dir, Missing: []Lost{}, Problems: []string{}}
	scratch, err := os.MkdirTemp("", "kist-verify-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a temporary folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	p := c.progress("Reading the journal", 0)
	problem := func(err error) { v.Problems = append(v.Problems, err.Error()) }
	i, err := kv.Inspect(dir, scratch, p.add, problem)
	p.end()
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
		known := map[blobs.Ref]bool{}
		for ref, n := range tx.Contents() {
			known[ref] = true
			v.Contents++
			v.Bytes += n
		}
		p := c.progress("Reading the files", v.Bytes)
		defer p.end()
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
			p.add(n)
		}
		for info, err := range store.All() {
			switch {
			case errors.Is(err, blobs.ErrForeign):
				v.Problems = append(v.Problems, "blobs/ has a name that is not one of kist's: "+err.Error())
			case err != nil:
				v.Problems = append(v.Problems, err.Error())
			case !known[info.Ref]:
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

// missing says that what a command was to work on is not there.
func missing(what, where string) error {
	return &record.Error{Fault: record.Missing, Code: "not_found", Text: fmt.Sprintf("There is no %s %s.", what, where)}
}
