package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
)

// A Mark is a place in a journal: a state, and the log and the number of its
// bytes that lead there.
type Mark struct {
	State
	Log  string
	Size int64
}

// Scrub reads the newest snapshot and the logs after it up to the mark. It
// returns what is wrong with them; wrong is nil if a start would reach the
// mark's state. Records may be appended meanwhile. Scrub calls pace before each
// read with its length; pace may wait, and its error ends the scrub and is
// returned as err. The caller must hold the journal.
func (j *Journal) Scrub(to Mark, pace func(bytes int) error) (wrong, err error) {
	p := &paced{Folder: j.files.folder, to: to, pace: pace}
	wrong = (&files{folder: p, format: j.files.format, bare: true}).scrub(to)
	switch {
	case p.err != nil:
		return nil, p.err
	case wrong == nil || unusable(wrong) || errors.As(wrong, new(*Missing)):
		return wrong, nil
	}
	return nil, wrong
}

func (s *files) scrub(to Mark) error {
	g, err := s.list()
	if err != nil {
		return err
	}
	// A log that was started meanwhile comes after the mark.
	g.logs = slices.DeleteFunc(g.logs, func(seq uint64) bool { return fileName(logName, seq) > to.Log })
	g.snaps = slices.DeleteFunc(g.snaps, func(seq uint64) bool { return seq > to.Seq })
	if !slices.Contains(g.names(logName, g.logs), to.Log) {
		return &Missing{to.Log, "it is the log that is being written"}
	}

	var done Replayed
	if len(g.snaps) > 0 {
		done.State, err = s.readSnapshot(g.snaps[len(g.snaps)-1], nothing)
		if err != nil {
			return vanished(err, fileName(snapName, g.snaps[len(g.snaps)-1]))
		}
	}
	if err := s.readLogs(&done, g, nothing); err != nil {
		return vanished(err, to.Log)
	}
	if done.State != to.State {
		why := fmt.Sprintf("it leads to record %d with digest %016x, and should lead to %d with %016x",
			done.Seq, uint64(done.Digest), to.Seq, uint64(to.Digest))
		return &Damaged{Name: to.Log, At: to.Size - done.Cut, Why: why}
	}
	return nil
}

// vanished returns the error for a file that existed when the folder was
// listed.
func vanished(err error, name string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Missing{name, "it existed a moment ago"}
	}
	return err
}

// paced is a folder as it was at a mark. Its reads wait for pace.
type paced struct {
	Folder
	to   Mark
	pace func(int) error
	err  error // returned by pace
}

func (p *paced) Open(name string) (File, error) {
	f, err := p.Folder.Open(name)
	if err != nil {
		return nil, err
	}
	return pacedFile{f, p, name == p.to.Log}, nil
}

type pacedFile struct {
	File
	p    *paced
	last bool // whether it is the log that is being written
}

func (f pacedFile) ReadAt(b []byte, off int64) (int, error) {
	if f.p.err == nil {
		f.p.err = f.p.pace(len(b))
	}
	if f.p.err != nil {
		return 0, f.p.err
	}
	return f.File.ReadAt(b, off)
}

// Size is the size at the mark: the bytes after it may be half a record.
func (f pacedFile) Size() (int64, error) {
	size, err := f.File.Size()
	if f.last {
		size = min(size, f.p.to.Size)
	}
	return size, err
}

// endsWith reports whether a log's last record leads to the state. A frame does
// not tell where the previous one begins, so endsWith searches the last bytes
// of the file for a record that says so. It accepts a log whose last record may
// be longer than that: a scrub reads it.
func endsWith(r *reader, name string, h header, at State) error {
	const most = 1 << 20
	if h.State == at && r.size == headerSize {
		return nil
	}
	from := max(headerSize, r.size-most)
	b := make([]byte, r.size-from)
	if _, err := r.file.ReadAt(b, from); err != nil {
		return fmt.Errorf("cannot read journal/%s at byte %d: %w: %w", name, from, ErrRead, err)
	}
	for o := len(b) - frameHead - stateSize; o >= 0; o-- {
		size, payload := int(binary.BigEndian.Uint32(b[o:])), b[o+frameHead:]
		if binary.BigEndian.Uint64(payload) != at.Seq || binary.BigEndian.Uint64(payload[8:]) != uint64(at.Digest) ||
			size != len(payload) {
			continue
		}
		if crc32.Checksum(payload, castagnoli) == binary.BigEndian.Uint32(b[o+4:]) {
			return nil
		}
	}
	if from > headerSize {
		return nil
	}
	why := fmt.Sprintf("it does not end with record %d, as it did at the last stop", at.Seq)
	return &Damaged{Name: name, At: headerSize, Why: why}
}
