package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/blobs"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/repair"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

// Verified is what was found in a data directory.
type Verified struct {
	Dir            string   `json:"dir"`
	Seq            uint64   `json:"seq"`    // commits that led there
	Digest         string   `json:"digest"` // of everything the store holds
	Entries        int      `json:"entries"`
	Contents       int      `json:"contents"`            // that records have
	Bytes          int64    `json:"bytes"`               // of them
	Elsewhere      int      `json:"elsewhere,omitempty"` // contents that are only in the object store
	ElsewhereBytes int64    `json:"elsewhereBytes,omitempty"`
	Store          string   `json:"store,omitempty"` // the object store that should have them, if it was not asked
	Orphans        int      `json:"orphans"`         // contents that no record has; the sweep removes them
	Missing        []Lost   `json:"missing"`         // records without their bytes
	Problems       []string `json:"problems"`
	Notes          []string `json:"notes,omitempty"` // what is wrong but does no harm
	// Mended is damage to the newest log that the next start mends; it is a problem if a server runs.
	Mended   []string         `json:"-"`
	Told     bool             `json:"toldServer,omitempty"` // the running server now checks what was found
	Repaired *repair.Repaired `json:"repaired,omitempty"`
}

// Verify reads everything in the data directory, which may also be a copy or a
// folder with a backup, and reports what is missing or damaged. A server may be
// running on it.
func (j Job) Verify() (*Verified, error) {
	dir := j.Dir
	info, err := os.Stat(dir)
	if err != nil {
		return nil, exit.Absent("data directory at", dir)
	}
	if !info.IsDir() {
		return nil, exit.Misused("there is a file at %s, not a folder; to check a tar, restore it into an empty folder: "+
			"kist restore %[1]s --data-dir FOLDER", dir)
	}
	if err := workcopy.Readable(dir); err != nil { // before anything is written
		return nil, err
	}
	work, err := newScratch(j.Scratch, within(dir))
	if err != nil {
		return nil, err
	}
	defer work.Close() //nolint:errcheck // the next run removes what is left
	v, snapshot, err := j.verify(dir, work.Path)
	if err != nil {
		return nil, err
	}
	return v, v.carried(snapshot)
}

// VerifyRebuilt returns what Verify would find after a repair. A dry run of the repair has
// made the folder rebuilt, as repair.RepairOptions describes it.
func (j Job) VerifyRebuilt(rebuilt string) (*Verified, error) {
	v, _, err := j.verify(rebuilt, rebuilt)
	if err != nil {
		return nil, err
	}
	mended, err := blobs.Read(filepath.Join(rebuilt, "contents"))
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	v.Missing = slices.DeleteFunc(v.Missing, func(m Lost) bool {
		ref, err := blobs.ParseRef(m.Content)
		return err == nil && mended.Check(ref) == nil
	})
	return v, mended.Close()
}

// verify reads the journal in the folder records, and the files of the data directory. It
// returns the commit of the snapshot that the journal begins with, too.
func (j Job) verify(records, work string) (_ *Verified, snapshot uint64, err error) {
	v := &Verified{Dir: j.Dir, Missing: []Lost{}, Problems: []string{}}
	all, err := readJournal(records)
	if err == nil {
		err = all.Close()
	}
	if err != nil {
		return nil, 0, err
	}
	if err := needSpaceToRead(records, work); err != nil {
		return nil, 0, err
	}
	p := j.progress("Reading the journal", 0)
	problem := func(err error) {
		if errors.As(err, new(*journal.Superseded)) {
			v.Notes = append(v.Notes, err.Error())
			return
		}
		if errors.As(err, new(*journal.Mended)) {
			v.Mended = append(v.Mended, err.Error())
			return
		}
		v.Problems = append(v.Problems, err.Error())
	}
	i, err := tables.All.Inspect(records, work, p.Add, problem)
	p.End()
	if err != nil {
		return nil, 0, err
	}
	defer i.Close()
	v.Seq, v.Digest, v.Entries = i.Seq, fmt.Sprintf("%016x", uint64(i.Digest)), i.Entries
	if err := i.View(func(tx *kv.Tx) error {
		tx.Audit(problem)
		return nil
	}); err != nil {
		return nil, 0, err
	}
	store, err := blobs.Read(filepath.Join(j.Dir, "blobs"))
	if errors.Is(err, fs.ErrNotExist) { // there were no files when it was copied
		if err = os.Mkdir(filepath.Join(work, "blobs"), 0o700); err == nil {
			store, err = blobs.Read(filepath.Join(work, "blobs"))
		}
	}
	if err == nil {
		err = v.contents(j, i, store)
		_ = store.Close() // it was only read
	}
	if err != nil {
		return nil, 0, err
	}
	return v, i.Snapshot, nil
}

// carried removes from the missing contents those that a power cut has lost and that
// the next start writes, because the journal has them.
func (v *Verified) carried(snapshot uint64) error {
	if !unsettled(v.Dir) {
		return nil
	}
	gone := map[blobs.Ref][]Lost{}
	for _, m := range v.Missing {
		ref, err := blobs.ParseRef(m.Content)
		if err != nil {
			return err
		}
		gone[ref] = append(gone[ref], m)
	}
	before := len(gone)
	found := func(ref blobs.Ref, _ []byte) error {
		delete(gone, ref)
		return nil
	}
	if err := carriedOf(v.Dir, snapshot, gone, found); err != nil {
		return err
	}
	if n := before - len(gone); n > 0 {
		v.Missing = slices.DeleteFunc(v.Missing, func(m Lost) bool {
			ref, err := blobs.ParseRef(m.Content)
			return err == nil && gone[ref] == nil
		})
		v.Mended = append(v.Mended, record.Plural(n, "small file")+console.Word(n == 1, " is", " are")+
			" only in the journal; the next start writes "+console.Word(n == 1, "it", "them")+" to blobs/")
	}
	return nil
}

// unsettled reports whether small files of the data directory may not be on stable
// storage. After a clean stop, and in a backup, a wrong file is damage.
func unsettled(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "journal", journal.CarriedName))
	return err == nil
}

// carriedOf passes the wanted contents to take that the journal in dir carries since
// the snapshot. It skips records that are damaged.
func carriedOf(dir string, snapshot uint64, wanted map[blobs.Ref][]Lost, take func(blobs.Ref, []byte) error) error {
	if len(wanted) == 0 {
		return nil
	}
	j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
	if err != nil {
		return err
	}
	err = j.Records(snapshot, workcopy.Carried(func(ref [32]byte, b []byte) error {
		if _, needed := wanted[ref]; !needed || blobs.CheckBytes(ref, bytes.NewReader(b)) != nil {
			return nil
		}
		return take(ref, b)
	}))
	if workcopy.Harmed(err) {
		err = nil // the readers of the records report it
	}
	return errors.Join(err, j.Close())
}

// miss notes the records whose content cannot be read.
func (v *Verified) miss(tx *kv.Tx, ref blobs.Ref, why string) {
	for _, r := range tx.Having(ref) {
		v.Missing = append(v.Missing, Lost{ID: r.ID, Name: r.Name, Content: ref.String(), Why: why})
	}
}

func (v *Verified) contents(j Job, i *kv.Inspection, store *blobs.Store) error {
	return i.View(func(tx *kv.Tx) error {
		for _, n := range tx.Contents() {
			v.Contents++
			v.Bytes += n
		}
		p := j.progress("Reading the files", v.Bytes)
		defer p.End()
		there := func(blobs.Ref, int64) (bool, error) { return false, nil }
		if j.Remote != nil {
			all := list(context.Background(), j.Remote)
			defer all.close()
			there = func(ref blobs.Ref, n int64) (bool, error) {
				o, err := all.find(ref)
				if errors.Is(err, fs.ErrNotExist) {
					err = nil
				}
				return o.Size == n && o.Name != "", err
			}
		}
		elsewhere := ""
		if j.Remote == nil {
			elsewhere = ship.FilesIn(v.Dir)
		}
		for ref, n := range tx.Contents() {
			switch info, err := store.Stat(ref); {
			case errors.Is(err, fs.ErrNotExist):
				found, err := there(ref, n)
				if err != nil {
					return err
				}
				if found || elsewhere != "" {
					v.Elsewhere++
					v.ElsewhereBytes += n
					v.Store = elsewhere
				} else {
					v.miss(tx, ref, "its bytes are missing")
				}
			case err == nil && info.Size != n:
				v.miss(tx, ref, fmt.Sprintf("its bytes are %d and should be %d", info.Size, n))
			default:
				if err := store.Check(ref); errors.Is(err, blobs.ErrDamaged) {
					why := "its bytes are damaged"
					if found, _ := there(ref, n); found {
						why += " on this disk; the server fetches them from the object store again"
					}
					v.miss(tx, ref, why)
				} else if err != nil {
					v.miss(tx, ref, "its bytes cannot be read: "+err.Error())
				}
			}
			p.Add(n)
		}
		for info, err := range store.All() {
			switch {
			case errors.Is(err, blobs.ErrForeign):
				what := strings.TrimSuffix(strings.TrimPrefix(err.Error(), "blobs: "), ": "+blobs.ErrForeign.Error())
				v.Notes = append(v.Notes, "blobs/ has a name that is not one of kist's: "+what)
			case err != nil:
				v.Problems = append(v.Problems, err.Error())
			case !catalog.Referenced(tx, info.Ref):
				v.Orphans++
			}
		}
		return nil
	})
}
