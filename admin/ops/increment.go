package ops

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv/datadir"
	"kist/kv/ship"
)

// BackupAfter is Backup to the folder dest, which shares the contents with a former backup of the
// data directory, as hard links. Where the file system has none they are copied. former is a folder,
// or "" for none. Contents that are linked are not read, unless read is set: they were when they
// were copied. The caller notes the backup when it is in its place.
func (j Job) BackupAfter(former, dest string, read bool) (*BackedUp, error) {
	release, err := j.prepareFolder(dest)
	if err != nil {
		return nil, err
	}
	defer release()
	work, err := newScratch(j.Scratch, place{dest, hiddenScratch})
	if err != nil {
		return nil, err
	}
	defer work.Close() //nolint:errcheck // the next run removes what is left

	b, err := j.freeze(j.Dir, work.Path)
	if err != nil {
		return nil, err
	}
	defer b.close()
	if err := b.follow(former, work.Path, read); err != nil {
		return nil, err
	}
	if err := b.write(dest, nil); err != nil {
		return nil, err
	}

	onDisk, _ := sizes(b.parts)
	b.result.Dest, b.result.Size = dest, onDisk+b.contents()
	b.result.Unlinks = b.former != nil && b.former.failed
	if len(b.result.Missing) > 0 && j.Remote == nil {
		b.result.Store = ship.FilesIn(j.Dir)
	}
	return &b.result, nil
}

// A former is a backup whose contents the next one may link.
type former struct {
	blobs  *blobs.Store
	read   bool // contents are read before they are linked
	failed bool // the file system links nothing
}

// follow makes the former backup in a folder known; "" is none. work is a folder beside the next one.
func (b *snapshot) follow(folder, work string, read bool) error {
	if folder == "" {
		return nil
	}
	store, err := blobs.Read(filepath.Join(folder, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the former backup cannot be read: %w", err)
	}
	err = os.Link(filepath.Join(folder, datadir.InstanceName), filepath.Join(work, datadir.InstanceName))
	b.former = &former{blobs: store, read: read, failed: disk.NoLinks(err)}
	return nil
}

// has reports whether a content of n bytes can be linked, as far as that is known before it is done.
func (f *former) has(ref blobs.Ref, n int64) bool {
	return f != nil && !f.failed && holds(f.blobs, ref, n)
}

// holds reports whether a store has a content of n bytes that is not known to be damaged.
func holds(s *blobs.Store, ref blobs.Ref, n int64) bool {
	info, err := s.Stat(ref)
	return err == nil && info.Size == n && s.Damaged.Err(ref) == nil
}

// link links a content of n bytes into a folder. It returns false if the content must be copied: the
// former backup does not have it whole, its file has as many names as it can, or no file can be linked.
func (f *former) link(j Job, to *blobs.Store, ref blobs.Ref, n int64) (bool, error) {
	if f == nil || f.failed {
		return false, nil
	}
	if f.read && f.blobs.CheckThrough(ref, j.through) != nil {
		return false, j.ended()
	}
	err := to.Link(ref, n, f.blobs)
	switch {
	case err == nil:
		return true, nil
	case disk.NoLinks(err):
		f.failed = true
		return false, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), disk.TooManyLinks(err):
		return false, nil
	}
	return false, err
}

// An Incomplete says which files are missing or damaged in a backup.
type Incomplete struct{ Missing []Lost }

func (e *Incomplete) Error() string {
	return fmt.Sprintf("%d files are missing or damaged in it, such as %s", len(e.Missing), e.Missing[0].Name)
}

// Rehearse restores the backup in a folder into an empty folder, and reads what came of it. It fails
// if that is not all of the backup, whose checksum of the records is digest, and which lacked so many
// files when it was made. The error is an *Incomplete if more of them are.
func (j Job) Rehearse(backup, into, digest string, lacked int) error {
	there := j
	there.Dir, there.Scratch, there.Remote = into, "", nil
	done, err := there.Restore(Source{Path: backup})
	if err != nil {
		return err
	}
	if len(done.Missing) > lacked {
		return &Incomplete{done.Missing}
	}
	v, err := there.Verify()
	if err != nil {
		return err
	}
	return v.whole(digest, lacked)
}

// ReadAll reads everything in the backup in a folder. It fails as Rehearse does.
func (j Job) ReadAll(backup, digest string, lacked int) error {
	there := j
	there.Dir, there.Remote = backup, nil
	v, err := there.Verify()
	if err != nil {
		return err
	}
	return v.whole(digest, lacked)
}

// whole fails unless everything is there but so many files, with the checksum of the records.
func (v *Verified) whole(digest string, lacked int) error {
	switch {
	case len(v.Missing) > lacked:
		return &Incomplete{v.Missing}
	case len(v.Problems) > 0:
		return errors.New(v.Problems[0])
	case v.Digest != digest:
		return fmt.Errorf("its records have the checksum %s and should have %s", v.Digest, digest)
	}
	return nil
}
