package journal

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Superseded says that a part of the journal is damaged that a start does not
// need, because a newer snapshot is whole.
type Superseded struct{ Err error }

func (e *Superseded) Error() string { return e.Err.Error() + "; a newer snapshot has the same data" }

func (e *Superseded) Unwrap() error { return e.Err }

// Mended says that the newest log is damaged and that recent has the records. A
// power cut leaves such a log. While a server runs it shows that the disk has
// failed.
type Mended struct{ Err error }

func (e *Mended) Error() string {
	return e.Err.Error() + "; journal/" + RecentName + " has the same data"
}

func (e *Mended) Unwrap() error { return e.Err }

// Check reads every byte of the journal, including the parts that Replay does
// not need. It calls problem with each error, as Superseded or Mended if it does
// no harm to a start, and read with the number of bytes read.
func (j *Journal) Check(read func(bytes int64), problem func(error)) error {
	g, err := j.files.list()
	if err != nil {
		return err
	}
	first := uint64(0) // a start needs no files older than this one
	found := map[uint64]error{}
	for _, seq := range g.snaps {
		_, err := j.files.readSnapshot(seq, nothing)
		switch {
		case err == nil:
			first = seq
		case unusable(err):
			found[seq] = err
		default:
			return err
		}
		if _, size, err := j.files.measure(fileName(snapName, seq)); err == nil {
			read(size)
		}
	}
	tell := func(seq uint64, err error) {
		if seq < first && !errors.As(err, new(*Newer)) {
			err = &Superseded{err}
		}
		problem(err)
	}
	for _, seq := range g.snaps {
		if err := found[seq]; err != nil {
			tell(seq, err)
		}
	}
	if len(g.logs)+len(g.snaps) > 0 && !slices.Contains(g.logs, first) {
		problem(lacks(g, first))
	}
	// Read each log on its own, to include the logs after a gap.
	for i := 0; i < len(g.logs); i++ {
		name := fileName(logName, g.logs[i])
		h, size, err := j.files.measure(name)
		next := uint64(0)
		if i+1 < len(g.logs) {
			next = g.logs[i+1]
		}
		if err == nil {
			err = j.files.readLog(&Replayed{State: h.State}, g.logs[i], next, nothing)
		}
		if err == nil && next == 0 {
			if err := j.files.unmended(g.logs[i], h.State); unusable(err) {
				problem(&Mended{err})
			}
		}
		if unusable(err) {
			tell(g.logs[i], err)
		} else if err != nil {
			return err
		}
		read(size)
	}
	return nil
}

func nothing([]Op) error { return nil }

// Files returns the files that a copy of the current store needs: the newest
// whole snapshot, which it reads to check it, and the logs after that. Only
// Size bytes of the last log belong to the copy. The files stay open until
// Close, so they can be copied even if they lose their names.
func (j *Journal) Files() ([]Part, error) {
	g, err := j.files.list()
	if err != nil {
		return nil, err
	}
	var from uint64
	var parts []Part
	for i := len(g.snaps) - 1; i >= 0; i-- {
		var raw int64
		if _, err = j.files.readSnapshot(g.snaps[i], func(ops []Op) error {
			for _, op := range ops {
				raw += int64(len(op.Key) + len(op.Value) + opOverhead)
			}
			return nil
		}); err == nil {
			var p Part
			if p, err = j.part(fileName(snapName, g.snaps[i])); err == nil {
				p.Raw = raw
				parts, from = append(parts, p), g.snaps[i]
				break
			}
		}
		if !unusable(err) {
			return nil, err
		}
	}
	if !slices.Contains(g.logs, from) {
		return nil, lacks(g, from)
	}
	for _, seq := range g.logs {
		if seq < from {
			continue
		}
		p, err := j.part(fileName(logName, seq))
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// Size is the approximate size of the journal's files in bytes.
func (j *Journal) Size() (int64, error) {
	g, err := j.files.list()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, name := range slices.Concat(g.names(snapName, g.snaps), g.names(logName, g.logs)) {
		f, err := j.files.folder.Open(name)
		if err != nil {
			continue // readers of the file report it
		}
		size, err := f.Size()
		total += size
		if err := errors.Join(err, f.Close()); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// opOverhead is about how many bytes an Op takes in a file besides its key and
// value.
const opOverhead = 4

// A Part is a file of the journal.
type Part struct {
	Name string
	Size int64 // in bytes
	Raw  int64 // the approximate uncompressed size in bytes
	file File
}

// part opens a file and describes it.
func (j *Journal) part(name string) (Part, error) {
	f, r, h, err := j.files.open(name)
	if err != nil {
		return Part{}, err
	}
	j.parts = append(j.parts, f)
	p := Part{Name: name, Size: r.size, Raw: r.size, file: f}
	if h.layout != plainLayout {
		p.Raw *= packedShare
	}
	return p, nil
}

// packedShare is the assumed ratio of a compressed log's content to its size.
const packedShare = 5

// Copy writes the first Size bytes of a part. The error is io.ErrUnexpectedEOF
// if the file is shorter now, because an Append has failed since.
func (j *Journal) Copy(w io.Writer, p Part) error {
	n, err := io.Copy(w, io.NewSectionReader(p.file, 0, p.Size))
	if err == nil && n < p.Size {
		err = fmt.Errorf("copying journal/%s: %w", p.Name, io.ErrUnexpectedEOF)
	}
	return err
}
