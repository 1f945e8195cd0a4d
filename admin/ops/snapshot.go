package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"kist/admin/console"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/ship"
	"kist/kv/tables"
)

// BackedUp is what a backup or a restore holds.
type BackedUp struct {
	Dest    string `json:"dest"`
	Seq     uint64 `json:"seq"`
	Digest  string `json:"digest"`
	Files   int    `json:"files"`  // contents in it
	Copied  int    `json:"copied"` // contents that were not there before
	Bytes   int64  `json:"bytes"`  // of the copied contents
	Missing []Lost `json:"missing"`
	NoModes bool   `json:"noModes,omitempty"` // others may be able to read it: no modes are kept there
	Store   string `json:"store,omitempty"`   // the object store that should have the missing ones, if it was not asked
	Size    int64  `json:"-"`                 // of everything in it, in bytes
	Unlinks bool   `json:"-"`                 // contents of the previous backup were copied: they cannot be linked there
}

// snapshot is the state of a data directory at one moment.
type snapshot struct {
	job     Job
	scratch string // holds a copy of the journal
	parts   []journal.Part
	state   *kv.Inspection
	blobs   *blobs.Store
	carried *blobs.Store // what blobs lacks and the journal or the object store has; nil if that is nothing
	former  *former      // a backup whose contents are linked; may be nil
	result  BackedUp
}

func (b *snapshot) close() {
	if b.state != nil {
		_ = b.state.Close() // a file in scratch
	}
	if b.blobs != nil {
		_ = b.blobs.Close()
	}
	if b.carried != nil {
		_ = b.carried.Close() // files in scratch
	}
	if b.former != nil {
		_ = b.former.blobs.Close() // it is only read
	}
}

// carries returns the size of a content that carried has. ok is false if it does not have it.
func (b *snapshot) carries(ref blobs.Ref) (size int64, ok bool) {
	if b.carried == nil {
		return 0, false
	}
	info, err := b.carried.Stat(ref)
	return info.Size, err == nil
}

// of returns the store that has the content.
func (b *snapshot) of(ref blobs.Ref) *blobs.Store {
	if _, ok := b.carries(ref); ok {
		return b.carried
	}
	return b.blobs
}

// carry writes the wanted contents that the journal carries to a folder in scratch.
func (b *snapshot) carry(wanted map[blobs.Ref][]Lost) (err error) {
	return carriedOf(b.scratch, b.state.Snapshot, wanted, func(ref blobs.Ref, c []byte) error {
		if err := b.openCarried(); err != nil {
			return err
		}
		return b.carried.Redo(ref, c)
	})
}

func (b *snapshot) openCarried() (err error) {
	if b.carried == nil {
		b.carried, err = blobs.Open(filepath.Join(b.scratch, "carried"))
	}
	return err
}

// freeze copies the journal of a data directory into the folder scratch and reads
// the copy. The folder stays the caller's.
func (j Job) freeze(dir, scratch string) (_ *snapshot, err error) {
	b := &snapshot{job: j, scratch: scratch, result: BackedUp{Missing: []Lost{}}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := b.takeJournal(dir); err != nil {
		return nil, err
	}
	if err := b.inspect(dir); err != nil {
		return nil, err
	}
	b.blobs, err = readBlobs(dir, scratch)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// takeJournal copies the journal of a data directory to scratch.
func (b *snapshot) takeJournal(dir string) error {
	from, err := readJournal(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	b.parts, err = from.Files()
	if err != nil {
		return err
	}
	onDisk, raw := sizes(b.parts)
	if err := b.job.needSpace(b.scratch, onDisk+workingCopies*raw); err != nil {
		return err
	}

	to, err := disk.OpenFolder(filepath.Join(b.scratch, "journal"))
	if err != nil {
		return err
	}
	defer to.Close()
	for _, p := range b.parts {
		if err := to.Publish(p.Name, func(w io.Writer) error { return from.Copy(w, p) }); err != nil {
			return err
		}
		if err := b.job.ended(); err != nil {
			return err
		}
	}
	return nil
}

// inspect reads the copy of the journal of dir.
func (b *snapshot) inspect(dir string) (err error) {
	var problems []error
	problem := func(err error) { problems = append(problems, err) }
	b.state, err = tables.All.Inspect(b.scratch, b.scratch, func(int64) {}, problem)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s is damaged: %w; kist verify tells more", dir, problems[0])
	}
	b.result.Seq, b.result.Digest = b.state.Seq, fmt.Sprintf("%016x", uint64(b.state.Digest))
	return nil
}

// readBlobs opens the stored files of a data directory. If it has none, because no file was ever
// uploaded, it opens an empty folder that it makes in the folder scratch.
func readBlobs(dir, scratch string) (*blobs.Store, error) {
	store, err := blobs.Read(filepath.Join(dir, "blobs"))
	if !errors.Is(err, fs.ErrNotExist) {
		return store, err
	}
	none := filepath.Join(scratch, "blobs")
	if err := os.Mkdir(none, 0o700); err != nil {
		return nil, err
	}
	return blobs.Read(none)
}

// writeInstance notes in the folder dest which instance the snapshot is of.
func (b *snapshot) writeInstance(dest string) error {
	instance, err := b.state.Instance()
	if err != nil {
		return err
	}
	return datadir.WriteInstance(dest, instance)
}

// each calls copy with each content of the snapshot and its size, and notes the
// contents that cannot be read. copy returns whether the content was there already.
func (b *snapshot) each(
	what string, copy func(ref blobs.Ref, n int64, p *console.Progress) (had bool, err error),
) error {
	p := b.job.progress(what, b.contents())
	defer p.End()
	return b.state.View(func(tx *kv.Tx) error {
		lost := map[blobs.Ref][]Lost{}
		one := func(ref blobs.Ref, n int64) error {
			if err := b.job.ended(); err != nil {
				return err
			}
			had, err := copy(ref, n, p)
			if b.job.Remote != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, blobs.ErrDamaged)) {
				had, err = b.fetched(ref, func() (bool, error) { return copy(ref, n, p) })
			}
			var why string
			switch {
			case errors.Is(err, fs.ErrNotExist):
				why = "its bytes are missing"
			case errors.Is(err, blobs.ErrDamaged):
				why = "its bytes are damaged"
			case err != nil:
				return err
			default:
				delete(lost, ref)
				b.result.Files++
				if !had {
					b.result.Copied++
					b.result.Bytes += n
				}
				return nil
			}
			lost[ref] = nil
			for _, r := range tx.Having(ref) {
				lost[ref] = append(lost[ref], Lost{ID: r.ID, Name: r.Name, Content: ref.String(), Why: why})
			}
			return nil
		}

		for ref, n := range tx.Contents() {
			if err := one(ref, n); err != nil {
				return err
			}
		}

		if err := b.carry(lost); err != nil {
			return err
		}
		for _, ref := range SortedRefs(lost) {
			if n, ok := b.carries(ref); ok {
				if err := one(ref, n); err != nil {
					return err
				}
			}
			b.result.Missing = append(b.result.Missing, lost[ref]...)
		}
		return nil
	})
}

// fetched calls copy while a content of the object store is in scratch.
func (b *snapshot) fetched(ref blobs.Ref, copy func() (bool, error)) (had bool, err error) {
	if err := b.openCarried(); err != nil {
		return false, err
	}
	if err := fetchContent(context.Background(), b.job.Remote, b.carried, ref, io.Discard); err != nil {
		return false, err
	}
	had, err = copy()
	_, failed := b.carried.Unlink(ref, func() (bool, error) { return true, nil })
	return had, errors.Join(err, failed)
}

// fetchContent stores a content that an object store has. seen gets its bytes, too. The
// error is blobs.ErrDamaged if they are wrong.
func fetchContent(ctx context.Context, remote blobs.Remote, to *blobs.Store, ref blobs.Ref, seen io.Writer) error {
	return ship.Again(ctx, func() error {
		r, err := remote.Get(ctx, ref.RemoteName(), 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		return keep(to, ref, io.TeeReader(r, seen))
	})
}

// copyContent copies one content and checks its hash on the way.
func (b *snapshot) copyContent(to *blobs.Store, ref blobs.Ref, p *console.Progress) error {
	f, err := b.of(ref).Get(ref)
	if err != nil {
		return err
	}
	defer f.Close()
	return keep(to, ref, b.job.through(io.TeeReader(f, p)))
}

// keep stores the bytes of r. It fails with blobs.ErrDamaged if ref is not their
// hash.
func keep(to *blobs.Store, ref blobs.Ref, r io.Reader) error {
	stage, err := to.Stage()
	if err != nil {
		return err
	}
	defer stage.Drop() //nolint:errcheck // the next sweep removes what is left
	if _, err := stage.ReadFrom(r); err != nil {
		return err
	}
	if got := stage.Ref(); got != ref {
		return fmt.Errorf("%s hashes to %s: %w", ref, got, blobs.ErrDamaged)
	}
	kept, err := stage.Keep()
	if err != nil {
		return err
	}
	kept.Release()
	return nil
}

func (b *snapshot) copyJournal(dest string) error {
	from, err := disk.ReadFolder(filepath.Join(b.scratch, "journal"))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := disk.OpenFolder(filepath.Join(dest, "journal"))
	if err != nil {
		return err
	}
	defer to.Close()

	mine := map[string]bool{}
	// Logs come first: a snapshot is used as soon as it is there, and needs its log.
	for i := len(b.parts) - 1; i >= 0; i-- {
		name := b.parts[i].Name
		mine[name] = true
		if err := to.Publish(name, func(w io.Writer) error {
			f, err := from.Read(name)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(w, b.job.through(f))
			return err
		}); err != nil {
			return err
		}
	}

	if err := b.check(filepath.Join(dest, "journal")); err != nil { // before the old journal is removed
		return err
	}
	names, err := to.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !mine[name] {
			err = errors.Join(err, to.Remove(name))
		}
	}
	return errors.Join(err, to.Sync())
}

// contents returns how many bytes the contents have.
func (b *snapshot) contents() (total int64) {
	_ = b.state.View(func(tx *kv.Tx) error { // the function returns no error
		for _, n := range tx.Contents() {
			total += n
		}
		return nil
	})
	return total
}
