package ops

import (
	"os"
	"path/filepath"
	"time"

	"kist/kv"
	"kist/kv/journal"
)

// backupMark is a file in the data directory. Its time is that of the latest backup.
const backupMark = "BACKUP"

// LastBackup says up to when the latest backup of the data directory has everything. The error is
// fs.ErrNotExist if none is known.
func LastBackup(dir string) (time.Time, error) {
	info, err := os.Stat(filepath.Join(dir, backupMark))
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// NoteBackup records that a backup of the data directory has everything up to a time, unless a later one is recorded.
func (j Job) NoteBackup(at time.Time) {
	if last, err := LastBackup(j.Dir); err == nil && last.After(at) && !last.After(time.Now()) {
		return
	}
	if err := noteBackup(j.Dir, at); err != nil {
		j.Log.Warn("the time of the backup is not noted", "error", err)
	}
}

// noteBackup records that a backup has everything up to a time.
func noteBackup(dir string, at time.Time) error {
	path := filepath.Join(dir, backupMark)
	if err := os.WriteFile(path, []byte(at.UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Chtimes(path, at, at)
}

// NoteCopy records what was verified as the last backup of the data directory dir, if it is a whole
// copy of it. It returns up to when that has everything: to its newest change, or until now if the
// data directory has no newer one. The time is zero if it is no such copy.
func (v *Verified) NoteCopy(dir string) (time.Time, error) {
	if len(v.Missing)+len(v.Problems)+v.Elsewhere > 0 || same(dir, v.Dir) {
		return time.Time{}, nil
	}
	now := time.Now() // before the journal is read: it may grow meanwhile
	instance, seq, err := kv.Origin(dir)
	if err != nil || instance != v.instance || seq < v.Seq || !leadsThrough(dir, v.state) {
		return time.Time{}, nil //nolint:nilerr // there is no data directory that it could be a copy of
	}

	at := v.newest
	if seq == v.Seq {
		at = now
	}
	if last, err := LastBackup(dir); err == nil && last.After(at) {
		return at, nil
	}
	if err := noteBackup(dir, at); err != nil {
		return time.Time{}, err
	}
	return at, nil
}

// leadsThrough reports whether the journal of a data directory still has a state in its history. It has not if the
// directory was restored from an earlier backup and went on from there.
func leadsThrough(dir string, state journal.State) bool {
	j, err := readJournal(dir)
	if err != nil {
		return false
	}
	defer j.Close()
	tail, err := j.Tail(state)
	if err != nil {
		return false
	}
	return tail.Close() == nil
}

// same reports whether two paths lead to one folder.
func same(one, other string) bool {
	a, err := os.Stat(one)
	if err != nil {
		return false
	}
	b, err := os.Stat(other)
	return err == nil && os.SameFile(a, b)
}
