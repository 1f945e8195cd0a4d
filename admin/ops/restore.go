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
	"kist/admin/exit"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/blobs/sealed"
	"kist/kv"
	"kist/kv/ship"
	"kist/kv/workcopy"
)

// Restore puts a backup or a copy of a data directory into the data directory, which
// must be empty or missing.
// Everything is restored into a folder inside the data directory first and moved
// into place when it is whole. If files are missing from the source, the result
// lists them and err is nil. If none are, the source is noted as the last backup.
func (j Job) Restore(from Source) (*BackedUp, error) {
	var newest time.Time
	done, err := j.restore(func(work string) (*snapshot, error) {
		b, err := j.fill(from, work)
		if err != nil {
			return nil, err
		}
		newest, err = b.state.Newest()
		if err != nil {
			b.close()
			return nil, err
		}
		return b, nil
	})
	if err != nil {
		return nil, err
	}
	if len(done.Missing) == 0 && !newest.IsZero() {
		j.NoteBackup(newest)
	}
	return done, nil
}

// Fetch is Restore from an object store: its data as it was at an instant, or the latest
// if that is zero. If got.Whole, the object store has nothing newer than what was restored, and
// the data directory may continue its history. Then the files stay in the object store at the
// address, unless all is set. If it has something later, all files are fetched.
func (j Job) Fetch(
	ctx context.Context, remote blobs.Remote, address string, at time.Time, all bool,
) (done *BackedUp, got *ship.Fetched, err error) {
	done, err = j.restore(func(work string) (from *snapshot, err error) {
		from, got, err = j.fetch(ctx, remote, at, all, work)
		return from, err
	})
	if err != nil {
		return nil, nil, err
	}
	if !all {
		got.Files = address
	}
	return done, got, got.Claim(j.Dir)
}

// fetch makes a data directory in the folder work from an object store, and reads it.
func (j Job) fetch(
	ctx context.Context, remote blobs.Remote, at time.Time, all bool, work string,
) (_ *snapshot, _ *ship.Fetched, err error) {
	content, err := blobs.Open(filepath.Join(work, "blobs"))
	if err != nil {
		return nil, nil, err
	}
	defer content.Close()
	scratch := filepath.Join(work, "scratch")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return nil, nil, err
	}

	p := j.progress("Reading the object store", 0)
	got, err := ship.Fetch(ctx, remote, at, workcopy.Format, work)
	p.End()
	if err != nil {
		return nil, nil, err
	}
	for _, bad := range got.Bad {
		j.Log.Warn("an older snapshot and the slots after it were used", "error", bad)
	}

	b, err := j.freeze(work, scratch)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := got.Confirm(b.state.State); err != nil {
		return nil, nil, err
	}
	if all || !got.Whole { // a directory that cannot continue there cannot fetch them later
		if err := b.job.needSpace(work, b.contents()); err != nil {
			return nil, nil, err
		}
		err = b.fetchAll(ctx, remote, content)
	} else {
		err = b.lookForAll(ctx, remote, content)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(b.result.Missing) > 0 { // what the moment needs may have been removed meanwhile
		if err := ship.Early(ctx, remote, at); err != nil {
			return nil, nil, err
		}
	}
	return b, got, nil
}

// fetchAll copies all files to content, from the journal or from remote.
func (b *snapshot) fetchAll(ctx context.Context, remote blobs.Remote, content *blobs.Store) error {
	return b.each("Fetching the files", func(ref blobs.Ref, _ int64, p *console.Progress) (bool, error) {
		if _, ok := b.carries(ref); ok {
			return false, b.copyContent(content, ref, p)
		}
		return false, fetchContent(ctx, remote, content, ref, p)
	})
}

// lookForAll looks whether remote has all files. It copies only those to content that the journal
// carries.
func (b *snapshot) lookForAll(ctx context.Context, remote blobs.Remote, content *blobs.Store) error {
	objects := list(ctx, remote)
	defer objects.close()
	return b.each("Looking for the files", func(ref blobs.Ref, n int64, p *console.Progress) (bool, error) {
		if _, ok := b.carries(ref); ok {
			return false, b.copyContent(content, ref, p)
		}
		p.Add(n)
		there, err := objects.find(ref)
		if err != nil {
			return true, err
		}
		if there.Size != n {
			return true, blobs.ErrDamaged
		}
		return true, nil
	})
}

// restore restores what fill puts into the folder work.
func (j Job) restore(fill func(work string) (*snapshot, error)) (*BackedUp, error) {
	done, err := fillEmpty(j.Dir, func(work string) (*snapshot, error) {
		b, err := fill(work)
		if err == nil || kv.Missing(err) {
			return b, err // an error is a sentence
		}
		return nil, fmt.Errorf("nothing was restored: %w", err)
	})
	if errors.Is(err, errNotEmpty) {
		return nil, fmt.Errorf("the data directory %s is not empty; name an empty one with --data-dir, "+
			"or move this one away first", j.Dir)
	}
	return done, err
}

// fillEmpty makes a data directory of what fill puts into the folder work, which is in dir, and of the
// state that fill returns. A program that opens dir earlier finds no data in it, or refuses it. The error is
// errNotEmpty if dir has anything in it, except what earlier runs left behind.
func fillEmpty(dir string, fill func(work string) (*snapshot, error)) (*BackedUp, error) {
	if err := requireEmpty(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the data directory: %w", err)
	}
	work, err := disk.NewScratch(dir, restoring) // it removes those of runs that were cut short
	if err != nil {
		return nil, fmt.Errorf("cannot write to the data directory: %w", err)
	}
	defer work.Close() //nolint:errcheck // the next run, or the next start, removes what is left

	b, err := fill(work.Path)
	if err != nil {
		return nil, err
	}
	defer b.close()

	if err := requireEmpty(dir); err != nil { // still
		return nil, err
	}
	if err := b.writeInstance(dir); err != nil { // beside it a missing journal is never begun
		return nil, err
	}
	for _, name := range []string{"blobs", "journal"} { // without the journal it is no data directory
		if err := os.Rename(filepath.Join(work.Path, name), filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("cannot move what was made into place: %w", err)
		}
	}
	if err := syncFolder(dir); err != nil {
		return nil, err
	}

	b.result.Dest = dir
	b.result.NoModes = exposed(filepath.Join(dir, "journal"))
	return &b.result, nil
}

var errNotEmpty = errors.New("the folder is not empty")

func requireEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot look into the data directory: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), restoring) {
			return errNotEmpty
		}
	}
	return nil
}

// fill makes a data directory in the folder work from the source, and reads it.
func (j Job) fill(source Source, work string) (*snapshot, error) {
	content, err := blobs.Open(filepath.Join(work, "blobs"))
	if err != nil {
		return nil, err
	}
	defer content.Close()
	scratch := filepath.Join(work, "scratch")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return nil, err
	}
	folder, err := source.folder()
	if err != nil {
		return nil, err
	}
	if folder {
		return j.fillFromFolder(source.Path, work, scratch, content)
	}
	return j.fillFromTar(source, work, scratch, content)
}

func (j Job) fillFromFolder(source, work, scratch string, content *blobs.Store) (_ *snapshot, err error) {
	b, err := j.freeze(source, scratch)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := b.job.needSpace(work, b.contents()); err != nil {
		return nil, err
	}
	if err := b.copyJournal(work); err != nil {
		return nil, err
	}
	if err := b.each("Copying the files", func(ref blobs.Ref, _ int64, p *console.Progress) (bool, error) {
		return false, b.copyContent(content, ref, p)
	}); err != nil {
		return nil, err
	}
	if err := b.check(filepath.Join(work, "journal")); err != nil {
		return nil, err
	}
	return b, nil
}

func (j Job) fillFromTar(source Source, work, scratch string, content *blobs.Store) (*snapshot, error) {
	if err := j.unpackTo(source, work, content); err != nil {
		return nil, err
	}
	b, err := j.freeze(work, scratch)
	if err != nil {
		return nil, err
	}
	if err := b.each("Checking the files", func(ref blobs.Ref, n int64, p *console.Progress) (bool, error) {
		info, err := content.Stat(ref)
		if err == nil && info.Size != n {
			err = blobs.ErrDamaged
		}
		if _, ok := b.carries(ref); ok && err != nil {
			return false, b.copyContent(content, ref, p)
		}
		p.Add(n)
		return false, err
	}); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// unpackTo writes the journal of a tar into the folder work, and its files to content.
func (j Job) unpackTo(source Source, work string, content *blobs.Store) error {
	in, err := source.open()
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Absent("backup at", source.Path)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	p := j.progress("Reading the backup", 0)
	defer p.End()
	to := filepath.Join(work, "journal")
	err = unpack(io.TeeReader(in, p), source.name(), to, func(ref blobs.Ref, r io.Reader) error {
		err := keep(content, ref, r)
		if errors.Is(err, blobs.ErrDamaged) && !errors.Is(err, sealed.ErrAltered) { // it is listed as missing later
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return in.end()
}
