// Package journal is the write-ahead log of a store of (bucket, key, value):
// append-only logs, one record and one sync for each commit, and immutable
// snapshots of everything. They alone bring the store back. DESIGN.md of
// package kv has the formats.
//
// What Append has acknowledged is on stable storage. A crash may leave one
// record more than that, never one less. A copy of the folder, made by any
// tool that lists it before it reads, in any order and at any speed, holds
// what had been acknowledged before the copy began: logs only grow, snapshots
// and the beginnings of logs appear whole, and names stay for long.
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
	"time"

	"kist/blobs/disk"
)

// A State is a point in the history of the store: how many records led there
// and the digest of everything it holds.
type State struct {
	Seq    uint64
	Digest Digest
}

// Folder is where a journal lies. Open makes one of a folder on disk; tests
// have one that loses what was not synced.
type Folder interface {
	Names() ([]string, error)
	Open(name string) (File, error)
	// Publish gives the name to a new file with what fill writes, which may be
	// called twice. Bytes and name are on stable storage when it returns, and
	// nobody sees a part of them before.
	Publish(name string, fill func(io.Writer) error) error
	// Remove takes a name away, for good when Sync has returned.
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

// readOnly is a folder whose files are opened for reading alone.
type readOnly struct{ *disk.Folder }

func (f readOnly) Open(name string) (File, error) { return openRegular(f.Folder, name, f.Read) }

// OpenLinked opens the regular file that a symbolic link of the name leads to,
// wherever that is. Only a salvage may read it: checksums and record numbers
// tell whether it is the journal's.
func (f readOnly) OpenLinked(name string) (File, error) {
	file, err := f.ReadLinked(name)
	return osFile{file}, err
}

// openRegular opens a file of the folder, and nothing else that has its name:
// the error is Irregular then.
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
// begin a log; snapshots may be written meanwhile by another.
type Journal struct {
	files files
	now   func() time.Time
	most  int          // bytes of a record: MaxRecord
	held  sync.RWMutex // for reading by who needs all files to stay
	space func() (Space, error)
	parts []File // that Files has opened

	log    File   // nil until Begin or Resume
	name   string // of log
	data   uint32 // the format that its head says
	end    int64  // where the last acknowledged record of log ends
	before int64  // where it begins
	at     State  // what it leads to
	prior  State  // what that was one record before
	dirty  bool   // there may be more in log than that
	failed bool   // a sync of log failed: nothing more goes into it
	begun  *State // where a log begins that may be there to see and is not log: Begin failed
	read   extent // the last record that Replay read, until it is on stable storage
}

// extent is a part of a file.
type extent struct {
	name     string
	at, size int64 // in bytes
}

// Open opens the journal in the folder with the path, which is made if it is
// missing. Format is the version of the data that this program writes: a
// journal of a newer one is refused and nothing is changed.
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

// Aside names a folder on the same file system, other than the journal's, in
// which files lie until they are whole: a copy of the journal then never lists
// a name that vanishes.
func (j *Journal) Aside(path string) {
	if f, got := j.files.folder.(folder); got {
		f.Folder.Aside(path)
	}
}

// Read opens the journal for replaying and checking; nothing in it is changed.
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

// New is Open for a folder of the caller's, which Close closes.
func New(f Folder, format uint32) (*Journal, error) {
	j := &Journal{files: files{folder: f, format: format}, now: time.Now, most: MaxRecord}
	g, err := j.files.list()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(g.names(snapName, g.snaps), g.names(logName, g.logs)) {
		h, err := j.files.header(name)
		switch {
		case errors.As(err, new(*Newer)):
			return nil, err
		case unusable(err): // whether that matters is for Replay to say
		case err != nil:
			return nil, err
		case h.format > format:
			return nil, &Newer{name, h.layout, h.format, format}
		}
	}
	return j, nil
}

// SetClock sets the clock that tells when files are begun and how old they
// are, instead of the wall clock. It is called before Append and Begin.
func (j *Journal) SetClock(now func() time.Time) { j.now = now }

// Newer says that a version of the program wrote the journal that is newer
// than this one.
type Newer struct {
	Name                  string // of the file
	Layout, Format, Reads uint32
}

func (e *Newer) Error() string {
	if e.Layout > layout {
		return fmt.Sprintf("journal/%s has layout %d; this version of kist reads up to %d: install the version that wrote it or a newer one (nothing was changed)", e.Name, e.Layout, layout)
	}
	return fmt.Sprintf("journal/%s has data of format %d; this version of kist reads formats up to %d: install the version that wrote it or a newer one (nothing was changed)", e.Name, e.Format, e.Reads)
}

// Close ends the use of the journal.
func (j *Journal) Close() error {
	var err error
	for _, f := range j.parts {
		err = errors.Join(err, f.Close())
	}
	if j.log != nil {
		err = errors.Join(err, j.log.Close())
	}
	return errors.Join(err, j.files.folder.Close())
}

// Names of files: what they are, and the number of the record they begin
// after, in hexadecimal.
const (
	logName  = "log-"
	snapName = "snap-"
)

func fileName(kind string, seq uint64) string { return fmt.Sprintf("%s%016x", kind, seq) }

// generations are the numbers in the names of a journal's files, in order.
type generations struct{ snaps, logs []uint64 }

func (generations) names(kind string, seqs []uint64) []string {
	names := make([]string, len(seqs))
	for i, seq := range seqs {
		names[i] = fileName(kind, seq)
	}
	return names
}

// files reads the files of a journal.
type files struct {
	folder Folder
	format uint32      // of the data that this program writes
	tell   func(int64) // nil, or called with the bytes that were read: see Watch
}

func (s *files) list() (generations, error) {
	names, err := s.folder.Names()
	if err != nil {
		return generations{}, fmt.Errorf("cannot list the journal: %w", err)
	}
	var g generations
	for _, name := range names {
		for kind, seqs := range map[string]*[]uint64{logName: &g.logs, snapName: &g.snaps} {
			if seq, err := strconv.ParseUint(strings.TrimPrefix(name, kind), 16, 64); err == nil && name == fileName(kind, seq) {
				*seqs = append(*seqs, seq)
			}
		}
	}
	slices.Sort(g.snaps)
	slices.Sort(g.logs)
	return g, nil
}

// Empty reports whether nothing was ever written to the journal.
func (j *Journal) Empty() (bool, error) {
	g, err := j.files.list()
	return len(g.snaps)+len(g.logs) == 0, err
}

// Begin starts a new log at the state, which is what Replay reached or the
// last Append left. The log before ends there. When it fails, the log before
// goes on, or, if the new one may be there to see, or a sync of the log before
// has failed, Append tries again first.
func (j *Journal) Begin(at State) error {
	name := fileName(logName, at.Seq)
	if name == j.name && j.data == j.files.format && j.begun == nil && !j.failed {
		return nil // nothing was written since it began
	}
	if err := j.harden(); err != nil {
		return fmt.Errorf("cannot begin a log: %w", err)
	}
	head := header{plainLayout, j.files.format, at, j.now().UnixMilli()}.append(nil, logMagic)
	// A log that began here and got no acknowledged record is replaced: what
	// it has was never acknowledged, or Replay would have gone past it.
	err := j.files.folder.Publish(name, func(w io.Writer) error { _, err := w.Write(head); return err })
	var log File
	if err == nil {
		log, err = j.files.folder.Open(name)
	}
	if err != nil {
		if g, listed := j.files.list(); listed != nil || slices.Contains(g.logs, at.Seq) {
			j.begun = &at
		}
		return fmt.Errorf("cannot begin a log: %w", err)
	}
	if j.log != nil {
		err = j.log.Close() // what is acknowledged of it is synced
	}
	j.log, j.name, j.data, j.begun = log, name, j.files.format, nil
	j.end, j.before, j.dirty, j.failed = int64(len(head)), int64(len(head)), false, false
	j.at, j.prior = at, at
	return err
}

// harden brings the last record that Replay read to stable storage. A process
// that ended in Append leaves one that is whole to see and nowhere else; the
// log that goes on from it must not outlive it. It is written once more, as a
// sync that failed before makes later ones pass over what it lost.
func (j *Journal) harden() error {
	if j.read.size == 0 {
		return nil
	}
	f, err := j.files.folder.Open(j.read.name)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(f, j.read.at), io.NewSectionReader(f, j.read.at, j.read.size))
	if err == nil {
		err = f.Datasync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		j.read = extent{}
	}
	return err
}

// Resume goes on with the newest log, which was closed with the state and size
// bytes long. The error is ErrOther if it is another log, and Damaged if its
// head or its last record is not what leads to the state.
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
	j.log, j.name, j.data, j.end, j.before = log, name, h.format, size, size
	j.at, j.prior = at, at
	return nil
}

// ErrOther says that the journal is not the one it was.
var ErrOther = errors.New("the journal has changed since it was closed")

// End is the name of the log that is being written and where its last
// acknowledged record ends.
func (j *Journal) End() (name string, size int64) { return j.name, j.end }

// Append writes the record that leads to the state, which is one of no more
// than MaxRecord bytes, and syncs it. When it fails, nothing has happened; it
// may be tried again, and works again when the disk does.
//
// After a sync that failed, the system may say of a later one that it worked
// though it has dropped what the first should have written (Linux marks the
// pages as clean). So nothing more is written to that log: the next Append
// begins another, after the last record that was acknowledged.
func (j *Journal) Append(r *Record, to State) error {
	if n := len(r.buf); n > j.most {
		return fmt.Errorf("cannot write to the journal: a change of %d bytes is more than the %d that a record may have", n, j.most)
	}
	if j.begun != nil {
		if err := j.Begin(*j.begun); err != nil {
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
	frame := r.seal(to)
	j.before, j.dirty = j.end, true
	_, err := j.log.WriteAt(frame, j.end)
	if err == nil {
		err = j.sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot write to the journal: %w", err), j.settle())
	}
	j.end += int64(len(frame))
	j.prior, j.at = j.at, to
	j.dirty = false
	return nil
}

// Retract takes the last record back that Append wrote: what it says has not
// happened. Until that works, nothing else is written.
func (j *Journal) Retract() error {
	j.end, j.at, j.dirty = j.before, j.prior, true
	return j.settle()
}

// settle cuts off what was not acknowledged.
func (j *Journal) settle() error {
	if !j.dirty {
		return nil
	}
	if err := j.log.Truncate(j.end); err != nil {
		return fmt.Errorf("cannot cut the journal back: %w", err)
	}
	if err := j.sync(); err != nil {
		return fmt.Errorf("cannot cut the journal back: %w", err)
	}
	j.dirty = false
	return nil
}

// sync brings the log to stable storage.
func (j *Journal) sync() error {
	err := j.log.Datasync()
	j.failed = j.failed || err != nil
	return err
}
