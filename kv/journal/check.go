package journal

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Check reads every byte of the journal, the parts that Replay does not need
// included, and tells problem what is wrong with it. read is told how many
// more bytes were read.
func (j *Journal) Check(read func(bytes int64), problem func(error)) error {
	g, err := j.list()
	if err != nil {
		return err
	}
	first := uint64(0) // the newest log that all others may be missing before
	for _, seq := range g.snaps {
		_, err := j.readSnapshot(seq, nothing)
		switch {
		case err == nil:
			first = seq
		case unusable(err):
			problem(err)
		default:
			return err
		}
		if _, size, err := j.measure(fileName(snapName, seq)); err == nil {
			read(size)
		}
	}
	if len(g.logs)+len(g.snaps) > 0 && !slices.Contains(g.logs, first) {
		problem(lacks(g, first))
	}
	// Each log is read by itself, so that the ones behind a gap are read too.
	for i := 0; i < len(g.logs); i++ {
		name := fileName(logName, g.logs[i])
		h, size, err := j.measure(name)
		next := uint64(0)
		if i+1 < len(g.logs) {
			next = g.logs[i+1]
		}
		if err == nil {
			err = j.readLog(&Replayed{State: h.State}, g.logs[i], next, nothing)
		}
		if unusable(err) {
			problem(err)
		} else if err != nil {
			return err
		}
		read(size)
	}
	return nil
}

func nothing([]Op) error { return nil }

// Files are the journal's files that a copy needs which is to hold the store
// as it is now: the newest snapshot that is whole, which is read for that, and
// the logs from there. Of the last log only Size bytes belong to the copy. The
// caller holds the journal.
func (j *Journal) Files() ([]Part, error) {
	g, err := j.list()
	if err != nil {
		return nil, err
	}
	var from uint64
	var parts []Part
	for i := len(g.snaps) - 1; i >= 0; i-- {
		if _, err = j.readSnapshot(g.snaps[i], nothing); err == nil {
			name := fileName(snapName, g.snaps[i])
			var size int64
			_, size, err = j.measure(name)
			parts = append(parts, Part{name, size, true})
			from = g.snaps[i]
		}
		if err == nil {
			break
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
		name := fileName(logName, seq)
		_, size, err := j.measure(name)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{name, size, false})
	}
	return parts, nil
}

// A Part is a file of the journal.
type Part struct {
	Name  string
	Size  int64 // in bytes
	Final bool  // it never changes any more
}

// Copy writes the first bytes of a part, as many as its Size says. The error is
// io.ErrUnexpectedEOF if there are fewer now: an Append has failed since.
func (j *Journal) Copy(w io.Writer, p Part) (err error) {
	f, err := j.folder.Open(p.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := io.Copy(w, io.NewSectionReader(f, 0, p.Size))
	if err == nil && n < p.Size {
		err = fmt.Errorf("copying journal/%s: %w", p.Name, io.ErrUnexpectedEOF)
	}
	return err
}
