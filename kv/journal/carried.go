package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
)

// CarriedName is the name of an empty log that exists while records may carry
// what is on stable storage nowhere else: see Carry. Programs that do not know
// it take it for a log of a newer layout and refuse the journal. Otherwise they
// would begin a snapshot that does not have it. A clean stop removes the file.
const CarriedName = logName + "fffffffffffffffe"

// carriedMark is its content. In the place of the checksum are zeros, as in
// recentMark.
var carriedMark = append(binary.BigEndian.AppendUint32([]byte(logMagic), 4), make([]byte, headerSize-12)...)

// Carry is called before Append for a record that carries contents of other
// files, which may not be on stable storage. settle puts them there. Snapshot
// and Close call it before they do anything, because a Replay does not read the
// records before the newest snapshot, and a start after a clean stop reads none.
func (j *Journal) Carry(settle func() error) error {
	j.carried.settling.Store(&settle)
	if j.carried.marked {
		return nil
	}
	write := func(w io.Writer) error {
		_, err := w.Write(carriedMark)
		return err
	}
	if err := j.files.folder.Publish(CarriedName, write); err != nil {
		return fmt.Errorf("cannot write to the journal: %w", err)
	}
	j.carried.marked = true
	return nil
}

// carried is what a journal knows about contents that its records carry.
type carried struct {
	settling atomic.Pointer[func() error] // see Carry
	marked   bool                         // the file CarriedName exists
}

// settle puts on stable storage what earlier records carry.
func (c *carried) settle() error {
	settle := c.settling.Load()
	if settle == nil {
		return nil
	}
	if err := (*settle)(); err != nil {
		return fmt.Errorf("cannot sync what the journal carries: %w", err)
	}
	return nil
}

// end settles and removes the mark, so that an older program may continue.
func (c *carried) end(f Folder) error {
	if err := c.settle(); err != nil {
		return err
	}
	return remove(f, CarriedName)
}

// remove removes a file if it exists.
func remove(f Folder, name string) error {
	err := f.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Sync()
}

// Records passes the ops of each whole record in the logs that begin at or after
// the record with the number from. The ops are valid until apply returns. It goes
// on after damage, which is in the error.
func (j *Journal) Records(from uint64, apply func([]Op) error) error {
	g, err := j.files.list()
	if err != nil {
		return err
	}
	for i, seq := range g.logs {
		if seq < from {
			continue
		}
		failed := j.records(seq, g.after(i), apply)
		if failed != nil && !unusable(failed) {
			return failed
		}
		err = errors.Join(err, failed)
	}
	return err
}

// records is Records for one log. The next one begins at next; 0 means that it is the last.
func (j *Journal) records(seq, next uint64, apply func([]Op) error) error {
	h, err := j.files.header(fileName(logName, seq))
	if err != nil {
		return err
	}
	return j.files.readLog(&Replayed{State: h.State}, seq, next, apply)
}
