package ops

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv/datadir"
)

// Restore puts a backup or a copy of a data directory into the data directory, which
// must be empty or missing. source is a folder, a tar, or "-" for a tar on stdin.
// Everything is restored into a folder inside the data directory first and moved
// into place when it is whole. If files are missing from the source, the result
// lists them and err is nil.
func (j Job) Restore(source string, stdin io.Reader) (*BackedUp, error) {
	empty := func() error {
		entries, err := os.ReadDir(j.Dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot look into the data directory: %w", err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), restoring) {
				return fmt.Errorf("the data directory %s is not empty; name an empty one with --data-dir, or move this one away first", j.Dir)
			}
		}
		return nil
	}
	if err := empty(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(j.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the data directory: %w", err)
	}
	work, err := disk.NewScratch(j.Dir, restoring) // it removes those of runs that were cut short
	if err != nil {
		return nil, fmt.Errorf("cannot write to the data directory: %w", err)
	}
	defer work.Close() //nolint:errcheck // the next run, or the next start, removes what is left
	b, err := j.fill(source, stdin, work.Path)
	if err != nil {
		return nil, fmt.Errorf("nothing was restored: %w", err)
	}
	defer b.close()
	if err := empty(); err != nil { // still
		return nil, err
	}
	for _, name := range []string{"blobs", "journal"} { // without the journal it is no data directory
		if err := os.Rename(filepath.Join(work.Path, name), filepath.Join(j.Dir, name)); err != nil {
			return nil, fmt.Errorf("cannot move what was restored into place: %w", err)
		}
	}
	instance, err := b.state.Instance()
	if err == nil {
		err = datadir.WriteInstance(j.Dir, instance)
	}
	if err != nil {
		return nil, err
	}
	d, err := disk.ReadFolder(j.Dir)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return nil, err
	}
	b.result.Dest = j.Dir
	return &b.result, nil
}

// fill makes a data directory in the folder work from the source, and reads it.
func (j Job) fill(source string, stdin io.Reader, work string) (*snapshot, error) {
	content, err := blobs.Open(filepath.Join(work, "blobs"))
	if err != nil {
		return nil, err
	}
	defer content.Close()
	scratch := filepath.Join(work, "scratch")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return nil, err
	}
	var from *snapshot
	if info, err := os.Stat(source); err == nil && info.IsDir() {
		if from, err = j.freeze(source, scratch); err != nil {
			return nil, err
		}
		if err = needSpace(work, from.contents()); err == nil {
			err = from.copyJournal(work)
		}
		if err == nil {
			err = from.each("Copying the files", func(ref blobs.Ref, _ int64, p *console.Progress) (bool, error) {
				return false, from.copyContent(content, ref, p)
			})
		}
		if err == nil {
			err = from.check(filepath.Join(work, "journal"))
		}
		if err != nil {
			from.close()
			return nil, err
		}
		return from, nil
	}
	in := io.NopCloser(stdin)
	if source != "-" {
		if in, err = os.Open(source); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, exit.Absent("backup at", source)
			}
			return nil, err
		}
		defer in.Close()
	}
	p := j.progress("Reading the backup", 0)
	err = unpack(io.TeeReader(in, p), filepath.Join(work, "journal"), func(ref blobs.Ref, r io.Reader) error {
		if err := keep(content, ref, r); !errors.Is(err, blobs.ErrDamaged) { // a damaged content is listed as missing later
			return err
		}
		return nil
	})
	p.End()
	if err != nil {
		return nil, err
	}
	if from, err = j.freeze(work, scratch); err != nil {
		return nil, err
	}
	err = from.each("Checking the files", func(ref blobs.Ref, n int64, p *console.Progress) (bool, error) {
		info, err := content.Stat(ref)
		if err == nil && info.Size != n {
			err = blobs.ErrDamaged
		}
		if err != nil && from.of(ref) == from.carried {
			return false, from.copyContent(content, ref, p)
		}
		p.Add(n)
		return false, err
	})
	if err != nil {
		from.close()
		return nil, err
	}
	return from, nil
}
