package datadir

import "time"

// A Backup is one of those that a server makes by schedule.
type Backup struct {
	At      time.Time `json:"-"`                  // it has everything up to then
	Path    string    `json:"-"`                  // of its folder
	Size    int64     `json:"size"`               // of everything in it, in bytes; 0 if it is not known
	Digest  string    `json:"digest"`             // of the records; "" if it is not known
	Checked time.Time `json:"checkedAt,omitzero"` // when what was new in it, or all of it, was last read
	Whole   time.Time `json:"wholeAt,omitzero"`   // when all of it was last read; zero if never
	Missing int       `json:"missing,omitempty"`  // files that the data directory lacked
	Error   string    `json:"error,omitempty"`    // what is wrong with it, as a sentence; "" if nothing is
}

// OK reports whether nothing is known to be wrong with it.
func (b Backup) OK() bool { return b.Error == "" }

// Sound reports whether no content of the backup is known to be damaged. It may lack some.
func (b Backup) Sound() bool { return b.OK() || b.Missing > 0 }

// ahead is how far beyond the clock a backup may be dated.
const ahead = time.Hour

// Ahead reports whether a clock that was wrong has put the backup into the future.
func (b Backup) Ahead(now time.Time) bool { return !b.At.Before(now.Add(ahead)) }

// BackupStatus is how the backups by schedule are doing.
type BackupStatus struct {
	Folder   string    `json:"folder"`
	At       string    `json:"at"`       // the time of the day
	Keep     string    `json:"keep"`     // as --backup-keep
	Last     time.Time `json:"last"`     // of the last good one; zero without one
	Next     time.Time `json:"next"`     // of the next one; zero just after the start
	Running  bool      `json:"running"`  // one is being made, or is asked for
	Error    string    `json:"error"`    // why the latest failed or that it is late, as a sentence; "" if all is well
	Failures int64     `json:"failures"` // runs that failed since the server started
}
