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
	first, found, err := j.checkSnapshots(g.snaps, read)
	if err != nil {
		return err
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
	for i, seq := range g.logs {
		size, err := j.checkLog(seq, g.after(i), problem)
		if unusable(err) {
			tell(seq, err)
		} else if err != nil {
			return err
		}
		read(size)
	}
	return nil
}

// checkSnapshots reads the snapshots. It returns the newest one that is whole, or 0, and what is
// wrong with the others. A start needs no files older than first.
func (j *Journal) checkSnapshots(
	snaps []uint64, read func(bytes int64),
) (first uint64, found map[uint64]error, err error) {
	found = map[uint64]error{}
	for _, seq := range snaps {
		_, err := j.files.readSnapshot(seq, nothing)
		switch {
		case err == nil:
			first = seq
		case unusable(err):
			found[seq] = err
		default:
			return 0, nil, err
		}
		if _, size, err := j.files.measure(fileName(snapName, seq)); err == nil {
			read(size)
		}
	}
	return first, found, nil
}

// checkLog reads a log and returns its size in bytes. The next log begins at next; 0 means that this
// is the last one. problem is called if it is Mended.
func (j *Journal) checkLog(seq, next uint64, problem func(error)) (size int64, err error) {
	h, size, err := j.files.measure(fileName(logName, seq))
	if err != nil {
		return size, err
	}
	err = j.files.readLog(&Replayed{State: h.State}, seq, next, nothing)
	if err != nil || next != 0 {
		return size, err
	}
	if err := j.files.unmended(seq, h.State); unusable(err) {
		problem(&Mended{err})
	}
	return size, nil
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
	for _, seq := range slices.Backward(g.snaps) {
		p, err := j.wholeSnapshot(seq)
		if unusable(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		parts, from = append(parts, p), seq
		break
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

// wholeSnapshot reads a snapshot, to check it, and describes it.
func (j *Journal) wholeSnapshot(seq uint64) (Part, error) {
	var raw int64
	_, err := j.files.readSnapshot(seq, func(ops []Op) error {
		for _, op := range ops {
			raw += int64(len(op.Key) + len(op.Value) + opOverhead)
		}
		return nil
	})
	if err != nil {
		return Part{}, err
	}
	p, err := j.part(fileName(snapName, seq))
	if err != nil {
		return Part{}, err
	}
	p.Raw = raw
	return p, nil
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
	if err != nil {
		return err
	}
	if n < p.Size {
		return fmt.Errorf("copying journal/%s: %w", p.Name, io.ErrUnexpectedEOF)
	}
	return nil
}
