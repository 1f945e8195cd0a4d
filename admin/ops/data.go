// Package ops has the operations on a data directory: backup, restore, verify, the
// checks of doctor, and the sweep. They work on the store and on the stored files.
// They speak no HTTP and print nothing but their progress.
package ops

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/blobs/sealed"
	"kist/kv"
	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/workcopy"
)

// A Job says what an operation works on and where it reports.
type Job struct {
	Dir     string       // the data directory
	Scratch string       // a folder for temporary files; "" for the usual one
	Stderr  io.Writer    // shows progress
	Log     *slog.Logger // gets what does no harm to the result
	Remote  blobs.Remote // may have contents that the data directory lacks; may be nil
	Key     *sealed.Key  // seals the tar of Backup; may be nil
	// Ended is asked while files are read and copied: its error ends the operation. Nil means never.
	Ended func() error
	// Space is disk.Space, except in tests. Nil is disk.Space, too.
	Space func(path string) (disk.Room, error)
}

// ended returns the error that ends the operation, nil while it may go on.
func (j Job) ended() error {
	if j.Ended == nil {
		return nil
	}
	return j.Ended()
}

// through is a reader that fails when the operation has ended.
func (j Job) through(r io.Reader) io.Reader { return untilEnded{j, r} }

type untilEnded struct {
	job Job
	r   io.Reader
}

func (u untilEnded) Read(p []byte) (int, error) {
	if err := u.job.ended(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

func (j Job) progress(what string, total int64) *console.Progress {
	return console.NewProgress(j.Stderr, what, total)
}

// Lost is a record whose content is missing or damaged.
type Lost struct {
	ID      record.ID `json:"id"`
	Name    string    `json:"name"`
	Content string    `json:"sha256"`
	Why     string    `json:"why"`
}

// HasData reports whether kist has ever used the directory. It changes nothing.
func HasData(dir string) (bool, error) {
	for _, name := range []string{"LOCK", "cache", "journal", "blobs"} {
		_, err := os.Stat(filepath.Join(dir, name))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("cannot look into the data directory: %w", err)
		}
	}
	return false, nil
}

// ExpectData is the check of serve --expect-data: it fails if the directory has no
// data.
func ExpectData(dir string) error {
	there, err := HasData(dir)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("there is no data in %s, and --expect-data is set: see that the disk is mounted "+
			"and --data-dir is right, or start once without it (nothing was changed)", dir)
	}
	return nil
}

// readJournal opens the journal of a data directory or a backup. The error says what to do
// about a journal that is missing or empty.
func readJournal(dir string) (*journal.Journal, error) {
	j, err := journal.Read(filepath.Join(dir, "journal"), workcopy.Format)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noJournal(dir)
	}
	if err != nil {
		return nil, err
	}
	none, err := j.Empty()
	if none || err != nil {
		_ = j.Close() // nothing was written
	}
	if none {
		return nil, noJournal(dir)
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

// noJournal says what to do about a journal that is missing or empty.
func noJournal(dir string) error { return cmp.Or(kv.Unused(dir), exit.Absent("journal in", dir)) }
