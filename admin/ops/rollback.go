package ops

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"kist/admin/console"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/journal"
	"kist/kv/workcopy"
)

// RolledBack is the data directory that a rollback made, if it had to make one.
type RolledBack struct {
	*BackedUp           // nil if nothing was made; Copied are the files without a hard link
	Format    uint32    `json:"format"`        // that a program must read to open Dest, or the present one
	Present   uint32    `json:"presentFormat"` // of the data directory
	At        time.Time `json:"at,omitzero"`   // of the newest change in Dest
	Changed   time.Time `json:"formatChangedAt,omitzero"`
	Until     time.Time `json:"keptUntil,omitzero"` // how long the data directory leads back
}

// Rollback makes a data directory in the folder dest, which must be empty or missing: as the data
// was before its format changed, for a program of the former format. It calls left with each change
// since then. The data directory stays as it is, and a server may be running. If files are missing
// from dest, the result lists them and err is nil. If the format has not changed, nothing is made.
func (j Job) Rollback(dest string, left func(Left) error) (*RolledBack, error) {
	from, err := readJournal(j.Dir)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	done := &RolledBack{Present: workcopy.Format}
	former, err := j.former(from, done)
	if errors.Is(err, errUnchanged) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	if err := needParent(dest); err != nil {
		return nil, err
	}
	if err := j.outside(dest); err != nil {
		return nil, err
	}

	_, missing := os.Lstat(dest)
	done.BackedUp, err = fillEmpty(dest, func(work string) (*snapshot, error) {
		b, err := j.fillFormer(work, from, former, left)
		if err == nil {
			done.At, err = b.state.Newest()
		}
		return b, err
	})
	if err != nil && errors.Is(missing, fs.ErrNotExist) {
		_ = os.Remove(dest) // it fails if the folder is not empty, as it should
	}
	switch {
	case errors.Is(err, errNotEmpty):
		return nil, fmt.Errorf("%s is not empty; name a new folder or an empty one", dest)
	case workcopy.NoRoom(err):
		return nil, fmt.Errorf("nothing was made: there is no room left in %s; make room there, "+
			"or name a folder on another disk", dest)
	case err != nil && !kv.Missing(err):
		return nil, fmt.Errorf("nothing was made: %w", err)
	}
	return done, err
}

// errUnchanged says that the format of the data has not changed.
var errUnchanged = errors.New("the format has not changed")

// former finds the state to go back to. The error is errUnchanged if the format has not changed.
func (j Job) former(from *journal.Journal, done *RolledBack) (journal.Former, error) {
	format, change, known, err := kv.FormatOf(from)
	if err != nil {
		return journal.Former{}, err
	}
	done.Format, done.Present = format, format
	if format < workcopy.Format { // no start has changed it yet
		return journal.Former{}, errUnchanged
	}

	f, err := from.Former()
	switch {
	case errors.Is(err, fs.ErrNotExist) && !known:
		return f, errUnchanged
	case errors.Is(err, fs.ErrNotExist):
		return f, fmt.Errorf("the format of the data changed from %d to %d at %s, and %s does not have the state "+
			"before that any more; a backup from before leads back: restore it with the former version of kist",
			change.From, format, change.At.UTC().Format(time.RFC3339), j.Dir)
	case err != nil:
		return f, err
	}
	done.Format, done.Changed, done.Until = f.Format, f.At.UTC(), f.Until().UTC()
	return f, nil
}

// fillFormer makes the data directory in the folder work.
func (j Job) fillFormer(
	work string, from *journal.Journal, former journal.Former, left func(Left) error,
) (_ *snapshot, err error) {
	b := &snapshot{job: j, scratch: work, result: BackedUp{Missing: []Lost{}}}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := b.takeFormer(from, former); err != nil {
		return nil, err
	}
	aside := filepath.Join(work, "present")
	if err := os.Mkdir(aside, 0o700); err != nil {
		return nil, err
	}
	b.blobs, err = readBlobs(j.Dir, aside)
	if err != nil {
		return nil, err
	}
	content, err := blobs.Open(filepath.Join(work, "blobs"))
	if err != nil {
		return nil, err
	}
	err = errors.Join(b.linkAll(work, content), content.Close())
	if err != nil {
		return nil, err
	}

	now, err := j.freeze(j.Dir, aside)
	if err != nil {
		return nil, err
	}
	defer now.close()
	return b, behind(b.state, now.state, left)
}

// takeFormer makes the journal of the former state in scratch, and reads it.
func (b *snapshot) takeFormer(from *journal.Journal, f journal.Former) error {
	if err := b.job.needSpace(b.scratch, (1+workingCopies)*f.Size); err != nil {
		return err
	}
	if err := from.CopyFormer(f, filepath.Join(b.scratch, "journal")); err != nil {
		if !journal.IsDamage(err) {
			return err
		}
		return fmt.Errorf("the state that was kept cannot be used: %w; "+
			"a backup from before %s leads back: restore it with the former version of kist",
			err, f.At.UTC().Format(time.RFC3339))
	}
	return b.inspect(b.scratch)
}

// linkAll gives each content of the snapshot to content, as a second name of the same file, or as a
// copy if that is on another disk. Each is read.
func (b *snapshot) linkAll(work string, content *blobs.Store) error {
	apart := false // no links are possible
	err := b.each("Taking the files", func(ref blobs.Ref, n int64, p *console.Progress) (bool, error) {
		if _, fetched := b.carries(ref); fetched || apart {
			return false, b.copyContent(content, ref, p)
		}
		if err := b.blobs.Check(ref); err != nil {
			return false, err
		}
		err := content.Link(ref, n, b.blobs)
		if err == nil {
			p.Add(n)
			return true, nil
		}
		if disk.TooManyLinks(err) {
			return false, b.copyContent(content, ref, p)
		}
		if !disk.NoLinks(err) {
			return false, err // it was removed a moment ago, or the disk fails
		}
		apart = true
		if err := b.job.needSpace(work, b.contents()); err != nil {
			return false, err
		}
		return false, b.copyContent(content, ref, p)
	})
	if err != nil {
		return err
	}
	return content.SyncNames()
}
