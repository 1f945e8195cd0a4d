// Package journal is the write-ahead log of a store of (bucket, key, value). It
// has append-only logs, with one record and one sync for each commit, and
// immutable snapshots of the whole store. These files alone can restore the
// store, except after a power cut: then the file recent has the newest records.
// DESIGN.md has the formats.
//
// When Append returns, its record is on stable storage. A crash may leave one
// record more than were acknowledged, never one less. A copy of the folder
// holds everything that was acknowledged before the copy began. That is true
// for any tool that lists the folder before it reads, in any order and at any
// speed: logs only grow, snapshots and the beginnings of logs appear complete,
// and names stay for a long time.
package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kist/blobs/disk"
)

// A State is a point in the history of the store: how many records led there
// and the digest of everything it holds.
type State struct {
	Seq    uint64
	Digest Digest
}

// Folder is the folder of a journal. Open uses a folder on disk; tests use one
// that loses unsynced data.
type Folder interface {
	Names() ([]string, error)
	Open(name string) (File, error)
	// Publish creates or replaces the named file with the bytes that fill
	// writes; fill may be called twice. Bytes and name are on stable storage
	// when it returns, and nobody sees an incomplete file before.
	Publish(name string, fill func(io.Writer) error) error
	// Remove removes a name. The removal is permanent when Sync has returned.
	Remove(name string) error
	Sync() error
	Close() error
}

// File is an open file of a Folder.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	Datasync() error
}

type folder struct{ *disk.Folder }

func (f folder) Open(name string) (File, error) { return openRegular(f.Folder, name, f.Folder.Open) }

// readOnly is a folder whose files are opened only for reading.
type readOnly struct{ *disk.Folder }

func (f readOnly) Open(name string) (File, error) { return openRegular(f.Folder, name, f.Read) }

// OpenLinked opens the regular file that a symbolic link of the name leads to,
// wherever that is. Only a salvage may read it, because it checks by checksums
// and record numbers that the file belongs to the journal.
func (f readOnly) OpenLinked(name string) (File, error) {
	file, err := f.ReadLinked(name)
	return osFile{file}, err
}

// openRegular opens a regular file of the folder. The error is Irregular if the
// name belongs to anything else.
func openRegular(f *disk.Folder, name string, open func(string) (*os.File, error)) (File, error) {
	info, err := f.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &Irregular{name, info.Mode().Type()}
	}
	file, err := open(name)
	return osFile{file}, err
}

type osFile struct{ *os.File }

func (f osFile) Datasync() error { return disk.Datasync(f.File) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// A Journal is an open journal. One goroutine at a time may append to it or
// begin a log. Another may write snapshots meanwhile.
type Journal struct {
	// Set before the first record is appended.
	files     files
	now       func() time.Time
	maxRecord int // maximum bytes of a record: MaxRecord, except in tests
	space     func() (Space, error)
	parts     []File // opened by Files, which is for a journal that is only read

	// For any goroutine.
	held   sync.RWMutex  // held for reading by callers that need all files to stay
	wanted atomic.Uint64 // see KeepFrom

	// Used by the goroutine that appends.
	log      File   // nil until Begin or Resume
	name     string // of log
	data     uint32 // the format in its head
	end      int64  // the end of the last acknowledged record of log
	at       State  // the state after that record
	dirty    bool   // log may have bytes after end
	failed   bool   // a sync of log failed: nothing more is written to it
	pending  *State // the state of a log that may exist and is not in use because Begin failed
	unsynced extent // the last record that Replay read, until it is on stable storage

	// Of recent; used by the goroutine that appends, too.
	head       []byte // of log
	recent     File   // nil if each Append syncs log
	base       int64  // where in log recent begins
	stale      bool   // recent may have a record that was not acknowledged
	lost       bool   // a sync of log failed: the records in recent must be written to it again
	wantRecent bool   // the next Append tries to make recent

	carried carried // what is marked is the appending goroutine's; what settles is for any
}

// extent is a part of a file.
type extent struct {
	name     string
	at, size int64 // in bytes
}

// Open opens the journal in the folder with the path, which it makes if
// missing. Format is the version of the data that this program writes. A
// journal with a newer version is refused and left unchanged.
func Open(path string, format uint32) (*Journal, error) {
	f, err := disk.OpenFolder(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the journal: %w", err)
	}
	j, err := New(folder{f}, format)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// Aside sets a folder for incomplete files, on the same file system and outside
// the journal's folder. A copy of the journal then never lists a name that
// vanishes.
func (j *Journal) Aside(path string) {
	if f, got := j.files.folder.(folder); got {
		f.Folder.Aside(path)
	}
}

// Read opens the journal for replaying and checking; it changes nothing.
func Read(path string, format uint32) (*Journal, error) {
	f, err := disk.ReadFolder(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the journal: %w", err)
	}
	j, err := New(readOnly{f}, format)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// New is Open for the caller's own folder, which Close closes.
func New(f Folder, format uint32) (*Journal, error) {
	j := &Journal{files: files{folder: f, format: format}, now: time.Now, maxRecord: MaxRecord}
	g, err := j.files.list()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(g.names(snapName, g.snaps), g.names(logName, g.logs)) {
		h, err := j.files.header(name)
		switch {
		case errors.As(err, new(*Newer)):
			return nil, err
		case unusable(err): // Replay decides whether that matters
		case err != nil:
			return nil, err
		case h.format > format:
			return nil, &Newer{name, h.layout, h.format, format}
		}
	}
	return j, nil
}

// SetClock replaces the wall clock as the source of the times of files. Call it
// before Append and Begin.
func (j *Journal) SetClock(now func() time.Time) { j.now = now }

// Newer says that a newer version of the program wrote the journal.
type Newer struct {
	Name                  string // of the file
	Layout, Format, Reads uint32
}

func (e *Newer) Error() string {
	if e.Layout > layout {
		return fmt.Sprintf("journal/%s has layout %d; this version of kist reads up to %d: "+
			"install the version that wrote it or a newer one (nothing was changed)", e.Name, e.Layout, layout)
	}
	return fmt.Sprintf("journal/%s has data of format %d; this version of kist reads formats up to %d: "+
		"install the version that wrote it or a newer one (nothing was changed)", e.Name, e.Format, e.Reads)
}

// Close closes the journal. Without an error the log has, on stable storage, the
// acknowledged records and nothing else.
func (j *Journal) Close() error {
	var err error
	for _, f := range j.parts {
		err = errors.Join(err, f.Close())
	}
	if j.log != nil {
		err = errors.Join(err, j.settle(), j.closeRecent(), j.carried.end(j.files.folder), j.log.Close())
	}
	return errors.Join(err, j.files.folder.Close())
}

// A file's name has its kind and, in hexadecimal, the number of the record that
// precedes it.
const (
	logName  = "log-"
	snapName = "snap-"
)

func fileName(kind string, seq uint64) string { return fmt.Sprintf("%s%016x", kind, seq) }

// generations holds the numbers in the names of a journal's files, in order.
type generations struct{ snaps, logs []uint64 }

func (generations) names(kind string, seqs []uint64) []string {
	names := make([]string, len(seqs))
	for i, seq := range seqs {
		names[i] = fileName(kind, seq)
	}
	return names
}

// after is the number in the name of the log that follows the one with an index; 0 if there is none.
func (g generations) after(log int) uint64 {
	if log+1 == len(g.logs) {
		return 0
	}
	return g.logs[log+1]
}

// files reads the files of a journal.
type files struct {
	folder Folder
	format uint32      // of the data that this program writes
	onRead func(int64) // nil, or called with the number of bytes read: see Watch
	bare   bool        // recent is not read
}

func (s *files) list() (generations, error) {
	names, err := s.folder.Names()
	if err != nil {
		return generations{}, fmt.Errorf("cannot list the journal: %w", err)
	}
	var g generations
	for _, name := range names {
		if name == RecentName || name == CarriedName {
			continue
		}
		for kind, seqs := range map[string]*[]uint64{logName: &g.logs, snapName: &g.snaps} {
			seq, err := strconv.ParseUint(strings.TrimPrefix(name, kind), 16, 64)
			if err == nil && name == fileName(kind, seq) {
				*seqs = append(*seqs, seq)
			}
		}
	}
	slices.Sort(g.snaps)
	slices.Sort(g.logs)
	return g, nil
}

// Empty reports whether the journal has no files.
func (j *Journal) Empty() (bool, error) {
	g, err := j.files.list()
	return len(g.snaps)+len(g.logs) == 0, err
}

// Begin starts a new log at the given state, which Replay reached or the last
// Append left. The previous log ends there. If Begin fails, the previous log
// stays in use. If the new log may exist already, or if a sync of the previous
// one has failed, Append calls Begin again first.
func (j *Journal) Begin(at State) error {
	name := fileName(logName, at.Seq)
	if name == j.name && j.data == j.files.format && j.pending == nil && !j.failed {
		return nil // nothing was written since it began
	}
	if err := j.harden(); err != nil {
		return fmt.Errorf("cannot begin a log: %w", err)
	}
	if err := j.flush(); err != nil {
		return fmt.Errorf("cannot begin a log: %w", err)
	}

	h := header{plainLayout, j.files.format, at, j.now().UnixMilli()}
	if old, err := j.files.header(name); err == nil { // recent tells logs apart by their heads
		h.created = max(h.created, old.created+1)
	}
	head := h.append(nil, logMagic)
	log, err := j.makeLog(name, head)
	if err != nil {
		if g, listed := j.files.list(); listed != nil || slices.Contains(g.logs, at.Seq) {
			j.pending = &at
		}
		return fmt.Errorf("cannot begin a log: %w", err)
	}

	if j.log != nil {
		err = j.log.Close() // its acknowledged records are synced
	}
	j.log, j.name, j.data, j.pending = log, name, j.files.format, nil
	j.end, j.dirty, j.failed = int64(len(head)), false, false
	j.at, j.head = at, head
	if j.stale && j.recent != nil { // its record must not follow this head
		_ = j.recent.Close()
		j.recent = nil
	}
	j.stale, j.lost, j.wantRecent = false, false, j.recent == nil
	j.aim(j.end, at.Seq)
	return err
}

// makeLog makes a log that has only a head, and opens it.
func (j *Journal) makeLog(name string, head []byte) (File, error) {
	// Publish may replace a log that began here and has no acknowledged record.
	// Its bytes were never acknowledged, or Replay would have reached past
	// them.
	err := j.files.folder.Publish(name, func(w io.Writer) error { _, err := w.Write(head); return err })
	if err != nil {
		return nil, err
	}
	return j.files.folder.Open(name)
}

// harden puts the last record that Replay read, and all that recent has, on
// stable storage in the log. A process that died may leave records that are
// readable but not yet on the disk. The next log must not outlive them. harden
// writes them again: after a failed sync, later syncs skip the bytes that it
// lost.
func (j *Journal) harden() error {
	if j.unsynced.size == 0 {
		return nil
	}
	f, err := j.files.openFile(j.unsynced.name)
	if err != nil {
		return err
	}
	from, end := j.unsynced.at, j.unsynced.at+j.unsynced.size
	if m, mended := f.(*mendedLog); mended {
		from = min(from, m.base)
	}
	err = errors.Join(rewrite(f, from, end), f.Close())
	if err != nil {
		return err
	}
	j.unsynced = extent{}
	return nil
}

// rewrite writes bytes of a file again and syncs them.
func rewrite(f File, from, end int64) error {
	_, err := io.Copy(io.NewOffsetWriter(f, from), io.NewSectionReader(f, from, end-from))
	if err != nil {
		return err
	}
	return f.Datasync()
}

// Resume continues the newest log, which was closed with the given state and
// size in bytes. The error is ErrOther if the newest log is another one, and
// Damaged if its head is wrong or its last record does not lead to the state.
func (j *Journal) Resume(at State, name string, size int64) error {
	g, err := j.files.list()
	if err != nil {
		return err
	}
	if len(g.logs) == 0 || fileName(logName, g.logs[len(g.logs)-1]) != name || g.logs[len(g.logs)-1] > at.Seq {
		return ErrOther
	}
	log, r, h, err := j.files.open(name)
	if err != nil {
		return fmt.Errorf("cannot open the log: %w", err)
	}
	if r.size != size {
		return errors.Join(ErrOther, log.Close())
	}
	if err := endsWith(r, name, h, at); err != nil {
		return errors.Join(err, log.Close())
	}
	j.log, j.name, j.data, j.end = log, name, h.format, size
	j.at, j.head, j.wantRecent = at, h.append(nil, logMagic), true
	return nil
}

// ErrOther says that the journal is not the one that was closed.
var ErrOther = errors.New("the journal has changed since it was closed")

// End returns the name of the current log and the end of its last acknowledged
// record.
func (j *Journal) End() (name string, size int64) { return j.name, j.end }

// Append writes the record that leads to the given state and syncs it. The
// record has at most MaxRecord bytes. If Append fails, nothing has happened.
// The caller may try again; Append works again when the disk does.
//
// After a failed sync, the system may report success for a later sync although
// it has dropped what the first should have written: Linux marks the pages as
// clean. So nothing more is written to that log. The next Append begins another
// log after the last acknowledged record.
func (j *Journal) Append(r *Record, to State) error {
	if n := len(r.buf); n > j.maxRecord {
		return fmt.Errorf("cannot write to the journal: "+
			"a change of %d bytes is more than the %d that a record may have", n, j.maxRecord)
	}
	if j.pending != nil {
		if err := j.Begin(*j.pending); err != nil {
			return err
		}
	}
	if err := j.settle(); err != nil {
		return err
	}
	if j.failed {
		if err := j.Begin(j.at); err != nil {
			return err
		}
	}
	if j.wantRecent {
		j.wantRecent = false
		_ = j.renewRecent() // without it each commit syncs the log
	}

	frame := r.seal(to)
	if n := int64(len(frame)); j.recent != nil && n <= recentSize && j.end-j.base+n > recentSize {
		if err := j.drain(); err != nil {
			return fmt.Errorf("cannot write to the journal: %w", err)
		}
	}

	j.dirty = true
	if err := j.write(frame); err != nil {
		return errors.Join(fmt.Errorf("cannot write to the journal: %w", err), j.settle())
	}
	j.end += int64(len(frame))
	j.at = to
	j.dirty = false
	return nil
}

// write writes a frame to the end of the log and puts it on stable storage.
func (j *Journal) write(frame []byte) error {
	if _, err := j.log.WriteAt(frame, j.end); err != nil {
		return err
	}
	return j.keep(frame)
}

// settle cuts off bytes that were not acknowledged.
func (j *Journal) settle() error {
	if !j.dirty {
		return nil
	}
	if err := j.log.Truncate(j.end); err != nil {
		return fmt.Errorf("cannot cut the journal back: %w", err)
	}
	if err := j.syncCut(); err != nil {
		return fmt.Errorf("cannot cut the journal back: %w", err)
	}
	j.dirty = false
	return nil
}

// syncCut syncs the log, which was cut, and cuts recent as well.
func (j *Journal) syncCut() error {
	if j.recent == nil {
		if err := j.sync(); err != nil {
			return err
		}
	} else {
		if j.stale { // as programs see it; renewRecent makes it permanent
			_, _ = j.recent.WriteAt(make([]byte, frameHead), recentHead+max(0, j.end-j.base))
		}
		if err := j.flush(); err != nil {
			return err
		}
	}
	if j.stale {
		return j.renewRecent()
	}
	return nil
}

// sync puts the log on stable storage.
func (j *Journal) sync() error {
	err := j.log.Datasync()
	j.failed = j.failed || err != nil
	return err
}
