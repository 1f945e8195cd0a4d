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
	"time"

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
	// BackupUntil is set for a copy that is now recorded as the last backup: see NoteCopy.
	BackupUntil time.Time `json:"backupUntil,omitzero"`
	instance    string    // as kv.Origin returns it
	state       journal.State
	newest      time.Time // when the latest change was made
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
		return nil, exit.Misused("there is a file at %s, not a folder", dir)
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
	return j.inspect(records, work, func(v *Verified, i *kv.Inspection) error {
		store, err := readBlobs(j.Dir, work)
		if err != nil {
			return err
		}
		defer store.Close()
		return v.contents(j, i, store)
	})
}

// inspect is verify with a function that looks at the files.
func (j Job) inspect(
	records, work string, contents func(*Verified, *kv.Inspection) error,
) (_ *Verified, snapshot uint64, err error) {
	v := &Verified{Dir: j.Dir, Missing: []Lost{}, Problems: []string{}}
	all, err := readJournal(records)
	if err != nil {
		return nil, 0, err
	}
	if err := all.Close(); err != nil {
		return nil, 0, err
	}
	if err := j.needSpaceToRead(records, work); err != nil {
		return nil, 0, err
	}

	p := j.progress("Reading the journal", 0)
	i, err := tables.All.Inspect(records, work, p.Add, v.problem)
	p.End()
	if err != nil {
		return nil, 0, err
	}
	defer i.Close()
	v.Seq, v.Digest, v.Entries = i.Seq, fmt.Sprintf("%016x", uint64(i.Digest)), i.Entries
	v.state = i.State
	v.instance, err = i.Instance()
	if err != nil {
		return nil, 0, err
	}
	v.newest, err = i.Newest()
	if err != nil {
		return nil, 0, err
	}
	if err := i.View(func(tx *kv.Tx) error {
		tx.Audit(v.problem)
		return nil
	}); err != nil {
		return nil, 0, err
	}

	if err := contents(v, i); err != nil {
		return nil, 0, err
	}
	return v, i.Snapshot, nil
}

// problem notes what is wrong with the journal or the records.
func (v *Verified) problem(err error) {
	switch {
	case errors.As(err, new(*journal.Superseded)):
		v.Notes = append(v.Notes, err.Error())
	case errors.As(err, new(*journal.Mended)):
		v.Mended = append(v.Mended, err.Error())
	default:
		v.Problems = append(v.Problems, err.Error())
	}
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

// contents reads all files and notes what is wrong with them.
func (v *Verified) contents(j Job, i *kv.Inspection, store *blobs.Store) error {
	return i.View(func(tx *kv.Tx) error {
		for _, n := range tx.Contents() {
			v.Contents++
			v.Bytes += n
		}
		p := j.progress("Reading the files", v.Bytes)
		defer p.End()
		away := elsewhere{}
		if j.Remote != nil {
			away.remote = list(context.Background(), j.Remote)
			defer away.remote.close()
		} else {
			away.store = ship.FilesIn(v.Dir)
		}

		for ref, n := range tx.Contents() {
			if err := v.content(j, tx, store, away, ref, n); err != nil {
				return err
			}
			if err := j.ended(); err != nil { // then it was not read
				return err
			}
			p.Add(n)
		}
		v.strays(tx, store)
		return nil
	})
}

// elsewhere is where contents may be that are not on the disk.
type elsewhere struct {
	remote *listing // the object store, in the order of the refs; nil if it is not asked
	store  string   // the object store that should have them, if it is not asked
}

// has reports whether the object store has a content of n bytes.
func (e elsewhere) has(ref blobs.Ref, n int64) (bool, error) {
	if e.remote == nil {
		return false, nil
	}
	o, err := e.remote.find(ref)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return o.Size == n, nil
}

// content reads one content, which should have n bytes.
func (v *Verified) content(j Job, tx *kv.Tx, store *blobs.Store, away elsewhere, ref blobs.Ref, n int64) error {
	info, err := store.Stat(ref)
	if errors.Is(err, fs.ErrNotExist) {
		found, err := away.has(ref, n)
		if err != nil {
			return err
		}
		if !found && away.store == "" {
			v.miss(tx, ref, "its bytes are missing")
			return nil
		}
		v.Elsewhere++
		v.ElsewhereBytes += n
		v.Store = away.store
		return nil
	}
	if err == nil && info.Size != n {
		v.miss(tx, ref, fmt.Sprintf("its bytes are %d and should be %d", info.Size, n))
		return nil
	}

	err = store.CheckThrough(ref, j.through)
	switch {
	case errors.Is(err, blobs.ErrDamaged):
		why := "its bytes are damaged"
		if found, _ := away.has(ref, n); found {
			why += " on this disk; the server fetches them from the object store again"
		}
		v.miss(tx, ref, why)
	case err != nil:
		v.miss(tx, ref, "its bytes cannot be read: "+err.Error())
	}
	return nil
}

// strays counts the stored contents that no record has, and notes what else is among them.
func (v *Verified) strays(tx *kv.Tx, store *blobs.Store) {
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
}
