package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"kist/blobs/disk"
)

// FormerKeep is how long the state before a change of format is kept, unless the disk gets
// short of space.
const FormerKeep = 90 * 24 * time.Hour

// A Former is the state just before the data got its present format, in a snapshot of its own
// that a program of the former format can read.
type Former struct {
	State
	Name   string // of the snapshot
	Format uint32
	At     time.Time // when the format changed
	Size   int64     // of the snapshot in bytes
}

// Until returns how long the state is kept if the disk has room.
func (f Former) Until() time.Time { return f.At.Add(FormerKeep) }

// Former returns the newest state of an older format, if the newest log has the present format.
// Only heads of files are read. The error is fs.ErrNotExist if there is none.
func (j *Journal) Former() (Former, error) {
	g, err := j.files.list()
	if err != nil {
		return Former{}, err
	}
	return j.files.former(g)
}

func (s *files) former(g generations) (Former, error) {
	if len(g.logs) == 0 {
		return Former{}, fs.ErrNotExist
	}
	newest, err := s.header(fileName(logName, g.logs[len(g.logs)-1]))
	if unusable(err) || err == nil && newest.format < s.format {
		return Former{}, fs.ErrNotExist // what a start would change is not known, or not changed yet
	}
	if err != nil {
		return Former{}, err
	}
	for _, seq := range slices.Backward(g.snaps) {
		name := fileName(snapName, seq)
		h, size, err := s.measure(name)
		switch {
		case unusable(err), errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return Former{}, err
		case h.format < s.format && h.Seq == seq:
			return Former{h.State, name, h.format, time.UnixMilli(h.created), size}, nil
		}
	}
	return Former{}, fs.ErrNotExist
}

// CopyFormer makes a journal in the folder with the path, which it makes if missing. It holds the
// former state and nothing else, and is read back. A program of the former format goes on from there.
func (j *Journal) CopyFormer(f Former, path string) error {
	to, err := disk.OpenFolder(path)
	if err != nil {
		return err
	}
	return errors.Join(j.copyFormer(f, folder{to}), to.Close())
}

func (j *Journal) copyFormer(f Former, to Folder) error {
	log, head := LogHead(f.State, f.Format, f.At)
	err := to.Publish(log, func(w io.Writer) error { _, err := w.Write(head); return err })
	if err != nil {
		return err
	}
	from, err := j.files.openFile(f.Name)
	if err != nil {
		return fmt.Errorf("cannot open journal/%s: %w", f.Name, err)
	}
	err = to.Publish(f.Name, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(from, 0, f.Size))
		return err
	})
	err = errors.Join(err, from.Close())
	if err != nil {
		return err
	}

	copied := &files{folder: to, format: f.Format}
	at, err := copied.readSnapshot(f.Seq, nothing)
	if err != nil {
		return err
	}
	if at != f.State {
		return fmt.Errorf("the copy of journal/%s is not what was written", f.Name)
	}
	return nil
}

// pruneFormer removes the former state if it has been kept long enough, or if the disk has
// become short of space. Before floor there are no other parts of the journal.
func (j *Journal) pruneFormer(f Former, floor uint64) error {
	s, known := j.disk()
	short := known && s.Free < s.Reserve
	if f.Seq >= floor || j.now().Before(f.Until()) && !short {
		return nil
	}
	err := j.files.folder.Remove(f.Name)
	if err == nil {
		err = j.files.folder.Sync()
	}
	if err != nil {
		return fmt.Errorf("cannot remove old parts of the journal: %w", err)
	}
	return nil
}

// apart reports whether a snapshot stands alone before all logs. It is kept for the former
// version, and no start uses it.
func (g generations) apart(snap uint64) bool {
	return len(g.logs) > 0 && snap < g.logs[0] && snap != g.snaps[len(g.snaps)-1]
}
