package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kist/admin/console"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/datadir"
	"kist/kv/ship"
)

// Backup copies the data directory to dest: a folder, a file that ends in .tar, or
// stdout as a tar if dest is "-". A folder that holds a backup is brought up to
// date. The server may be running and does not wait: a copy of the journal is whole
// at any time, and stored contents never change. If files are missing from the
// backup, the result lists them and err is nil.
func (j Job) Backup(dest string, stdout io.Writer) (*BackedUp, error) {
	where, release, err := j.prepare(dest)
	if err != nil {
		return nil, fmt.Errorf("no backup was made: %w", err)
	}
	defer release()
	work, err := newScratch(j.Scratch, where)
	if err != nil {
		return nil, fmt.Errorf("no backup was made: %w", err)
	}
	defer work.Close() //nolint:errcheck // the next run removes what is left

	began := time.Now()
	b, err := j.freeze(j.Dir, work.Path)
	if err != nil {
		return nil, err
	}
	defer b.close()
	if err := b.write(dest, stdout); err != nil {
		return nil, fmt.Errorf("no backup was made: %w", err)
	}

	b.result.Dest = dest
	if len(b.result.Missing) > 0 {
		if j.Remote == nil {
			b.result.Store = ship.FilesIn(j.Dir)
		}
		return &b.result, nil
	}
	j.NoteBackup(began)
	return &b.result, nil
}

// prepare makes sure that a backup can be written to dest. It returns where the scratch folder of
// the backup goes, and a function that must be called when the backup has ended.
func (j Job) prepare(dest string) (scratch place, release func(), err error) {
	switch {
	case dest == "-":
		return within(j.Dir), func() {}, nil
	case strings.HasSuffix(dest, ".tar"):
		path, err := target(dest)
		if err != nil {
			return place{}, nil, err
		}
		if err := needParent(path); err != nil {
			return place{}, nil, err
		}
		return place{filepath.Dir(path), hiddenScratch}, func() {}, nil
	}
	release, err = j.prepareFolder(dest)
	if err != nil {
		return place{}, nil, err
	}
	return place{dest, hiddenScratch}, release, nil
}

// prepareFolder creates the folder dest if it is not there, and keeps other backups out of it until
// release is called. A folder that it created is removed again if nothing was put into it.
func (j Job) prepareFolder(dest string) (release func(), err error) {
	if err := j.usable(dest); err != nil {
		return nil, err
	}
	err = os.Mkdir(dest, 0o700)
	created := err == nil
	if !created && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	undo := func() {
		if created {
			_ = os.Remove(dest) // it fails if the folder is not empty, as it should
		}
	}

	unlock, err := claim(dest)
	if err != nil {
		undo()
		return nil, err
	}
	return func() {
		unlock()
		undo()
	}, nil
}

// write copies the snapshot to dest, which is as for Backup.
func (b *snapshot) write(dest string, stdout io.Writer) error {
	switch {
	case dest == "-":
		return b.writeTar(stdout)
	case strings.HasSuffix(dest, ".tar"):
		if err := b.toTar(dest); err != nil {
			return err
		}
		b.result.NoModes = exposed(dest)
		return nil
	}
	if err := b.toFolder(dest); err != nil {
		return err
	}
	b.result.NoModes = exposed(filepath.Join(dest, "journal"))
	return nil
}

// Stream writes a backup to w as a tar and logs which files are missing from it. It
// writes nothing before all records were read.
func (j Job) Stream(w io.Writer) error {
	done, err := j.Backup("-", w)
	if err != nil {
		return err
	}
	for _, m := range done.Missing {
		j.Log.Warn("a file is not in the backup", "id", m.ID, "name", m.Name, "why", m.Why)
	}
	return nil
}

// toFolder makes a backup in the folder or brings one up to date. At every moment
// the folder holds a whole backup, the old one or the new one.
func (b *snapshot) toFolder(dest string) error {
	if err := b.older(dest); err != nil {
		return err
	}
	if err := b.needRoom(dest); err != nil {
		return err
	}
	to, err := blobs.Open(filepath.Join(dest, "blobs"))
	if err != nil {
		return err
	}
	defer to.Close()

	// The bytes come before the records that refer to them.
	if err := b.each("Copying the files", func(ref blobs.Ref, n int64, p *console.Progress) (bool, error) {
		return b.bring(to, ref, n, p)
	}); err != nil {
		return err
	}
	if b.former != nil {
		if err := to.SyncNames(); err != nil {
			return err
		}
	}
	if err := b.writeInstance(dest); err != nil {
		return err
	}
	if err := b.copyJournal(dest); err != nil {
		return err
	}

	return b.state.View(func(tx *kv.Tx) error {
		loose := func(ref blobs.Ref) (bool, error) { return !catalog.Referenced(tx, ref), nil }
		_, err := to.Sweep(context.Background(), time.Now(), loose)
		return err
	})
}

// needRoom fails with a *NoRoom if the disk of the folder has too little space for what the folder gets.
func (b *snapshot) needRoom(dest string) error {
	to, err := blobs.Read(filepath.Join(dest, "blobs"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		to = nil
	case err != nil:
		return err
	default:
		defer to.Close()
	}

	need, _ := sizes(b.parts)
	err = b.state.View(func(tx *kv.Tx) error {
		for ref, n := range tx.Contents() {
			if b.former.has(ref, n) || to != nil && holds(to, ref, n) || b.lost(ref) {
				continue
			}
			need += (n + diskBlock - 1) / diskBlock * diskBlock
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.job.needSpace(dest, need)
}

// diskBlock is how many bytes a small file takes at least on most disks.
const diskBlock = 4096

// lost reports whether nobody has the content. Small ones of the newest changes may all the same.
func (b *snapshot) lost(ref blobs.Ref) bool {
	if b.job.Remote != nil {
		return false
	}
	_, err := b.blobs.Stat(ref)
	return errors.Is(err, fs.ErrNotExist)
}

// bring makes sure that a folder has a content. It returns whether the content was there, or in the
// former backup.
func (b *snapshot) bring(to *blobs.Store, ref blobs.Ref, n int64, p *console.Progress) (had bool, err error) {
	linked, err := b.former.link(b.job, to, ref, n)
	if err != nil {
		return false, err
	}
	if linked || to.CheckThrough(ref, b.job.through) == nil { // it is read: disks lose data, too
		p.Add(n)
		return true, nil
	}
	if err := b.copyContent(to, ref, p); err != nil {
		return false, err
	}
	return false, to.CheckThrough(ref, b.job.through)
}

// exposed reports whether others may read what was made at the path for its owner
// alone. Network shares, exFAT and FAT keep no modes.
func exposed(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Perm()&0o077 != 0
}

// claim keeps other backups out of the folder dest until release is called.
func claim(dest string) (release func(), err error) {
	path := filepath.Join(dest, hiddenScratch+"lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = disk.TryLock(f)
	mine, mineErr := f.Stat()
	named, namedErr := os.Stat(path)
	// The other one may have just ended.
	if errors.Is(err, disk.ErrLocked) || mineErr != nil || namedErr != nil || !os.SameFile(mine, named) {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("another backup is being written to %s; wait until it is done", dest)
	}
	return func() { // a file system that has no locks is used without
		_ = os.Remove(path) // a file that is left behind does no harm
		_ = f.Close()
	}, nil
}

// usable refuses a folder that holds anything else than a backup.
func (j Job) usable(dest string) error {
	// A disk that is not mounted must not be replaced by a new folder on the system's disk.
	if err := needParent(dest); err != nil {
		return err
	}
	info, err := os.Stat(dest)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("there is a file at %s; name a folder, or a file that ends in .tar", dest)
	}
	if err := j.outside(dest); err != nil {
		return err
	}

	entries, err := os.ReadDir(dest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, missing := os.Lstat(filepath.Join(dest, "LOCK"))
	if missing == nil {
		return fmt.Errorf("%s is a data directory that kist has run on; name another folder", dest)
	}
	for _, e := range entries {
		name := e.Name()
		ours := name == "journal" || name == "blobs" || name == datadir.InstanceName
		if !ours && !strings.HasPrefix(name, hiddenScratch) {
			return fmt.Errorf("%s has things in it that are no backup of kist, such as %s; name another folder",
				dest, console.Printable(name))
		}
	}
	return nil
}

// outside refuses a folder in the data directory.
func (j Job) outside(dest string) error {
	here, err := filepath.Abs(j.Dir)
	if err != nil {
		return err
	}
	there, err := filepath.Abs(dest)
	if err != nil {
		return err
	}
	if there == here || strings.HasPrefix(there, here+string(filepath.Separator)) {
		return fmt.Errorf("%s is in the data directory; name a folder elsewhere, best on another disk", dest)
	}
	return nil
}

// older refuses to overwrite a backup of another instance, or of a later state than
// the data directory has. An empty data directory in place of a disk that is not
// mounted must not destroy the backup.
func (b *snapshot) older(dest string) error {
	there, seq, err := kv.Origin(dest)
	if errors.Is(err, fs.ErrNotExist) || err == nil && seq == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the backup in %s cannot be read (%w); name another folder", dest, err)
	}
	mine, now, err := kv.Origin(b.scratch)
	switch {
	case err != nil:
		return err
	case there != mine:
		return fmt.Errorf("%s is a backup of another instance; name another folder", dest)
	case seq > now:
		return fmt.Errorf("%s is a backup of a later state (%d commits) than the data directory has (%d); "+
			"name another folder", dest, seq, now)
	}
	return nil
}
