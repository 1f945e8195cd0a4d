package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"
)

// A Tail reads the records of a journal after a state, while another goroutine
// appends to it. One goroutine at a time may use it.
type Tail struct {
	files files
	at    State
	file  File
	r     *reader
	name  string
}

// Tail returns a Tail that begins after the given state. The error is Missing if the records that
// follow are not there any more, and ErrOther if the journal has another history.
func (j *Journal) Tail(from State) (*Tail, error) {
	t := &Tail{files: files{folder: j.files.folder, format: j.files.format, bare: true}}
	g, err := t.files.list()
	if err != nil {
		return nil, err
	}
	i, found := slices.BinarySearch(g.logs, from.Seq)
	if !found {
		i--
	}
	if i < 0 {
		return nil, gone(from.Seq)
	}
	if err := t.open(g.logs[i]); err != nil {
		return nil, err
	}
	if err := t.Read(from.Seq, func(Framed) (bool, error) { return true, nil }); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if t.at != from {
		return nil, errors.Join(ErrOther, t.Close())
	}
	return t, nil
}

func (t *Tail) open(seq uint64) error {
	f, r, h, err := t.files.open(fileName(logName, seq))
	if errors.Is(err, fs.ErrNotExist) {
		return gone(seq)
	}
	if err != nil {
		return err
	}
	if t.file != nil && h.State != t.at {
		return errors.Join(ErrOther, f.Close())
	}
	err = t.Close()
	t.file, t.r, t.name, t.at = f, r, fileName(logName, seq), h.State
	return err
}

// Framed is a record. Its parts are valid until the function that got it returns.
type Framed struct {
	To    State // the state that it leads to
	Frame []byte
	Ops   []Op
}

// Read passes the records up to the one with the number to to take, until take
// returns false or fails. They must have been acknowledged before. After an error
// the Tail is of no more use.
func (t *Tail) Read(to uint64, take func(Framed) (more bool, err error)) error {
	if t.at.Seq >= to {
		return nil
	}
	if err := t.readLogs(to, take); err != nil {
		return fmt.Errorf("cannot read the records after %d: %w", t.at.Seq, err)
	}
	return nil
}

// readLogs is Read, log by log.
func (t *Tail) readLogs(to uint64, take func(Framed) (bool, error)) error {
	g, err := t.files.list()
	if err != nil {
		return err
	}
	for more := true; more && t.at.Seq < to; {
		i, begins := slices.BinarySearch(g.logs, t.at.Seq)
		if begins { // also if it is the open one, which may have been replaced
			if err := t.open(t.at.Seq); err != nil {
				return err
			}
			i++
		} else if i == 0 || fileName(logName, g.logs[i-1]) != t.name {
			return gone(t.at.Seq)
		}

		end := to
		if i < len(g.logs) {
			end = min(end, g.logs[i])
		}
		more, err = t.readLog(end, take)
		if err != nil {
			return err
		}
	}
	return nil
}

// readLog is Read for the records up to the one with the number end, all of which are
// in the open log. What follows them there was never acknowledged.
func (t *Tail) readLog(end uint64, take func(Framed) (bool, error)) (more bool, err error) {
	t.r.size, err = t.file.Size()
	if err != nil {
		return false, fmt.Errorf("cannot read journal/%s: %w", t.name, err)
	}
	more, err = t.readFrames(end, take)
	if t.r.kind == plainFrames {
		t.r.buf = nil // bytes after the last record may change
	}
	if err == io.EOF { //nolint:errorlint // a wrapped one is of a read, not the end
		err = gone(t.at.Seq)
	}
	return more, err
}

func (t *Tail) readFrames(end uint64, take func(Framed) (bool, error)) (more bool, err error) {
	for more = true; more && t.at.Seq < end; {
		payload, err := t.r.next()
		if err != nil {
			return more, err
		}
		frame := append(make([]byte, frameHead, frameHead+len(payload)), payload...)
		more, err = framed(&t.at, t.r, payload, sealFrame(frame), take)
		if err != nil {
			return more, err
		}
	}
	return more, nil
}

// gone says that a log was removed before its records were used.
func gone(seq uint64) error {
	return &Missing{fileName(logName, seq), "it was removed before its records were used"}
}

// framed passes a record that follows at, and sets at to the state that it leads to.
func framed(at *State, r *reader, payload, frame []byte, take func(Framed) (bool, error)) (more bool, err error) {
	done := Replayed{State: *at}
	err = record(&done, r, payload, func(ops []Op) (err error) {
		to := State{binary.BigEndian.Uint64(payload), Digest(binary.BigEndian.Uint64(payload[8:]))}
		more, err = take(Framed{to, frame, ops})
		return err
	})
	*at = done.State
	return more, err
}

// Close closes the Tail.
func (t *Tail) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// Frames passes the records in b, which are frames as in a log of layout 1, to take
// until take returns false or fails, and returns the state after the last one that
// was passed. The error says that they do not follow the state.
func Frames(b []byte, from State, take func(Framed) (more bool, err error)) (State, error) {
	r := &reader{file: bytes.NewReader(b), size: int64(len(b)), buf: b}
	for {
		start := r.at
		payload, err := r.frame()
		if err == io.EOF { //nolint:errorlint // a wrapped one is of a read, not the end
			return from, nil
		}
		if err != nil {
			return from, err
		}
		more, err := framed(&from, r, payload, b[start:r.at], take)
		if err != nil || !more {
			return from, err
		}
	}
}

// Frame completes the record and returns it as in a log. It is valid until the next
// call of Reset.
func (r *Record) Frame(to State) []byte { return r.seal(to) }

// LogHead is the beginning of a log of layout 1 that continues the state, and its
// name. Frames follow it.
func LogHead(at State, format uint32, begun time.Time) (name string, head []byte) {
	return fileName(logName, at.Seq), header{plainLayout, format, at, begun.UnixMilli()}.append(nil, logMagic)
}

// SnapshotName is the name of the snapshot of the state after a record.
func SnapshotName(seq uint64) string { return fileName(snapName, seq) }

// SnapshotHead is how many bytes SnapshotBegun needs.
const SnapshotHead = headerSize

// SnapshotBegun returns when a snapshot was begun, from its first bytes.
func SnapshotBegun(head []byte) (time.Time, error) {
	h, err := parseHeader(head, snapMagic)
	return time.UnixMilli(h.created), err
}

// A Snap is an open snapshot, which is whole.
type Snap struct {
	State
	File
}

// Newest opens the newest snapshot after a record. It reads all of it, to check it.
// The error is fs.ErrNotExist if there is none. Damaged ones do not count.
func (j *Journal) Newest(after uint64) (*Snap, error) {
	g, err := j.files.list()
	if err != nil {
		return nil, err
	}
	for _, seq := range slices.Backward(g.snaps) {
		if seq <= after {
			break
		}
		at, err := j.files.readSnapshot(seq, nothing)
		if unusable(err) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f, err := j.files.folder.Open(fileName(snapName, seq))
		if err != nil {
			return nil, err
		}
		return &Snap{at, f}, nil
	}
	return nil, fs.ErrNotExist
}

// KeepFrom makes Prune keep the records after the one with the number seq, unless
// their logs have more than a fifth of the free space or 4 GiB.
func (j *Journal) KeepFrom(seq uint64) { j.wanted.Store(seq + 1) }

const (
	maxWanted   = 4 << 30
	wantedShare = 5 // of the free space, a fifth
)

// unwanted is how many of the logs, of which the first n are outdated, may be
// removed: see KeepFrom.
func (j *Journal) unwanted(logs []uint64, n int) int {
	wanted := j.wanted.Load()
	if wanted == 0 {
		return n
	}
	i, found := slices.BinarySearch(logs, wanted-1)
	if !found {
		i-- // the log that has the first record
	}
	i = max(i, 0)
	if i >= n {
		return n
	}
	limit := int64(maxWanted)
	if s, known := j.disk(); known {
		limit = min(limit, s.Free/wantedShare)
	}
	if j.files.total(generations{}.names(logName, logs[i:n])) > limit {
		return n
	}
	return i
}
