package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Damaged says where the journal differs from what was written.
type Damaged struct {
	Name string // of the file
	At   int64  // in bytes
	Why  string
	Lost string // what follows the damage, if that is known
}

func (e *Damaged) Error() string {
	text := fmt.Sprintf("journal/%s is damaged at byte %d (%s)", e.Name, e.At, e.Why)
	if e.Lost != "" {
		text += "; " + e.Lost
	}
	return text
}

// Missing says that a file of the journal does not exist.
type Missing struct{ Name, Because string }

func (e *Missing) Error() string {
	return fmt.Sprintf("journal/%s is missing: %s", e.Name, e.Because)
}

// Irregular says that a file of the journal is not a regular file. It is not
// read, as a link may lead anywhere. Only a salvage reads the target of a link.
type Irregular struct {
	Name string
	Type fs.FileMode // the type bits
}

func (e *Irregular) Error() string {
	got := "not a regular file"
	switch {
	case e.Type&fs.ModeSymlink != 0:
		got = "a symbolic link, not a file"
	case e.Type&fs.ModeDir != 0:
		got = "a directory, not a file"
	}
	return fmt.Sprintf("journal/%s is %s", e.Name, got)
}

// IsDamage reports whether the error is about the content of the journal's
// files or a missing file. It is false if the disk or the system failed.
func IsDamage(err error) bool {
	return errors.As(err, new(*Damaged)) || errors.As(err, new(*Missing)) || errors.As(err, new(*Irregular))
}

// unusable reports whether the error is about the content of a file, or about
// bytes that can no longer be read. It is false if the system failed.
func unusable(err error) bool {
	return errors.Is(err, ErrRead) || errors.As(err, new(*Damaged)) ||
		errors.As(err, new(*Irregular)) || errors.As(err, new(*Newer))
}

// Replayed is the result of Replay.
type Replayed struct {
	State
	Snapshot uint64 // the snapshot it began with; 0 is the empty store
	Records  int    // read from logs
	Cut      int64  // bytes after the last whole record of the newest log
	// Torn is the record in those bytes, if they have the length that it
	// claims. A power cut may leave a record that was never acknowledged.
	// Damage may leave one that was: lastRecord in kv/start.go tells the two
	// apart, and a store with the second does not start. What the file recent
	// still has was added before (recent.go).
	Torn *Torn
	Bad  []string // snapshots that are unusable

	last extent // the last record read from a log
}

// A Torn is a last record whose checksum is wrong.
type Torn struct {
	Damaged
	To State // the state that it claims to lead to
}

// Replay passes everything the journal holds to apply, in order: the newest
// whole snapshot, then the records that follow in the logs. It calls start
// before the first, and again if a snapshot turns out to be damaged half way
// and Replay begins with another. The ops are valid until apply returns. Begin
// continues a journal only after a Replay. An empty journal needs no Replay, nor
// does Resume after a clean stop.
//
// Replay skips what a crash left at the end of the newest log: it was never
// acknowledged. The error is Damaged or Missing if acknowledged changes cannot
// be read. By then apply has received the changes before them.
func (j *Journal) Replay(start func() error, apply func([]Op) error) (Replayed, error) {
	done, err := j.files.replay(start, apply)
	if err != nil {
		return done, err
	}
	j.unsynced = done.last
	return done, nil
}

func (s *files) replay(start func() error, apply func([]Op) error) (Replayed, error) {
	g, err := s.list()
	if err != nil {
		return Replayed{}, err
	}
	var done Replayed
	var bad []error
	for i := len(g.snaps) - 1; i >= 0; i-- {
		if g.apart(g.snaps[i]) {
			continue
		}
		if err := start(); err != nil {
			return done, err
		}
		done.State, err = s.readSnapshot(g.snaps[i], apply)
		if unusable(err) {
			done.Bad = append(done.Bad, err.Error())
			bad = append(bad, err)
			continue
		}
		if err != nil {
			return done, err
		}
		done.Snapshot = g.snaps[i]
		err = s.readLogs(&done, g, apply)
		return done, err
	}

	done.State = State{}
	if err := start(); err != nil {
		return done, err
	}
	if len(g.logs)+len(g.snaps) == 0 {
		return done, nil
	}
	if len(bad) > 0 && !slices.Contains(g.logs, 0) {
		return done, fmt.Errorf("no snapshot can be read: %w", errors.Join(bad...))
	}
	err = s.readLogs(&done, g, apply)
	return done, err
}

// Watch sets a function that is called with the number of bytes read from now
// on.
func (j *Journal) Watch(read func(bytes int64)) { j.files.onRead = read }

// Ahead is how many bytes Replay reads if the newest snapshot is whole.
func (j *Journal) Ahead() (int64, error) {
	snap, logs, err := j.files.newest()
	if err != nil {
		return 0, err
	}
	return j.files.total(append(snap, logs...)), nil
}

// Ended is how many bytes the logs after the newest snapshot have, without the last one.
func (j *Journal) Ended() (int64, error) {
	_, logs, err := j.files.newest()
	if err != nil {
		return 0, err
	}
	return j.files.total(logs[:max(0, len(logs)-1)]), nil
}

// newest returns the names of the newest snapshot, if there is one, and of the logs
// after it.
func (s *files) newest() (snap, logs []string, err error) {
	g, err := s.list()
	if err != nil {
		return nil, nil, err
	}
	var from uint64
	if n := len(g.snaps); n > 0 {
		from = g.snaps[n-1]
		snap = []string{fileName(snapName, from)}
	}
	at, _ := slices.BinarySearch(g.logs, from)
	return snap, g.names(logName, g.logs[at:]), nil
}

// total is the size of files in bytes, without those that cannot be read: Replay reports
// them.
func (s *files) total(names []string) (total int64) {
	for _, name := range names {
		if _, size, err := s.measure(name); err == nil {
			total += size
		}
	}
	return total
}

// lacks returns the error for a missing log that follows a state.
func lacks(g generations, seq uint64) error {
	if seq == 0 && len(g.snaps) == 0 {
		return &Missing{snapName + "…", "the existing logs continue a snapshot, and there is no snapshot"}
	}
	return &Missing{fileName(logName, seq), "it continues the snapshot with the same number"}
}

// open opens a file of the journal and reads past its header.
func (s *files) open(name string) (File, *reader, header, error) {
	f, err := s.openFile(name)
	if errors.As(err, new(*Irregular)) {
		return nil, nil, header{}, err
	}
	if err != nil {
		return nil, nil, header{}, fmt.Errorf("cannot open journal/%s: %w", name, err)
	}
	size, err := f.Size()
	if err != nil {
		return nil, nil, header{}, errors.Join(fmt.Errorf("cannot read journal/%s: %w", name, err), f.Close())
	}

	r := &reader{file: f, size: size, onRead: s.onRead}
	magic := logMagic
	if strings.HasPrefix(name, snapName) {
		magic = snapMagic
	}
	h, err := r.header(magic)
	if err != nil {
		return nil, nil, header{}, errors.Join(damaged(name, 0, err), f.Close())
	}
	if h.layout > layout {
		return nil, nil, h, errors.Join(&Newer{name, h.layout, h.format, s.format}, f.Close())
	}

	r.at, r.buf = headerSize, r.buf[headerSize:]
	if h.layout != plainLayout {
		r.kind = packedLog
		if magic == snapMagic {
			r.kind = packedSnapshot
		}
	}
	return f, r, h, nil
}

// header reads the head of the file and stays before it.
func (r *reader) header(magic string) (header, error) {
	b, err := r.peek(headerSize)
	if err != nil && !errors.Is(err, errFrame) { // parseHeader says that a file is too short
		return header{}, err
	}
	return parseHeader(b, magic)
}

func (s *files) header(name string) (header, error) {
	f, _, h, err := s.open(name)
	if err != nil {
		return h, err
	}
	return h, f.Close()
}

// damaged returns the error for a frame that could not be read or is wrong.
func damaged(name string, at int64, err error) error {
	if !errors.Is(err, errFrame) {
		return fmt.Errorf("cannot read journal/%s at byte %d: %w", name, at, err)
	}
	return &Damaged{Name: name, At: at, Why: err.Error()}
}

// readLogs passes the records after done.State to apply.
func (s *files) readLogs(done *Replayed, g generations, apply func([]Op) error) error {
	from := slices.Index(g.logs, done.Seq)
	if from < 0 {
		return lacks(g, done.Seq)
	}
	for i := from; i < len(g.logs); i++ {
		if err := s.readLog(done, g.logs[i], g.after(i), apply); err != nil {
			return err
		}
	}
	return nil
}

// readLog passes the records of one log to apply. The next log begins at next;
// 0 means that this is the last log.
func (s *files) readLog(done *Replayed, seq, next uint64, apply func([]Op) error) (err error) {
	name := fileName(logName, seq)
	f, r, h, err := s.open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if h.State != done.State {
		why := fmt.Sprintf("it continues record %d with digest %016x, "+
			"but the logs before it lead to record %d with %016x",
			h.Seq, uint64(h.Digest), done.Seq, uint64(done.Digest))
		return &Damaged{Name: name, Why: why}
	}

	at, err := readRecords(done, r, name, next, apply)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrRead):
		return fmt.Errorf("cannot read journal/%s at byte %d: %w", name, at, err)
	case !errors.Is(err, errFrame) && err != io.EOF: //nolint:errorlint // a wrapped one is of a read, not the end
		return err // the error of apply: the file is not its cause
	case next != 0:
		lost := fmt.Sprintf("records %d to %d cannot be read, and journal/%s continues after them",
			done.Seq+1, next, fileName(logName, next))
		bad := &Damaged{Name: name, At: at, Why: err.Error(), Lost: lost}
		if err == io.EOF { //nolint:errorlint // as above
			bad.Why = "it ends too early"
		}
		return bad
	case err == io.EOF: //nolint:errorlint // as above
		return nil
	}

	// The last log has no whole record at this place.
	r.at = at
	if whole, found := r.resync(done.Seq); found {
		lost := fmt.Sprintf("whole records follow from byte %d on", whole)
		return &Damaged{Name: name, At: at, Why: err.Error(), Lost: lost}
	}
	done.Cut = r.size - at
	if to, ok := r.claim(at); ok && to.Seq == done.Seq+1 && r.fills(at) {
		done.Torn = &Torn{Damaged{Name: name, At: at, Why: err.Error()}, to}
	}
	return nil
}

// readRecords passes the records of an open log to apply, up to the one with the number next, or to
// the end if next is 0. An error comes with the place of its frame.
func readRecords(
	done *Replayed, r *reader, name string, next uint64, apply func([]Op) error,
) (at int64, err error) {
	for next == 0 || done.Seq < next {
		at = r.at
		payload, err := r.next()
		if err != nil {
			return at, err
		}
		if err := record(done, r, payload, apply); err != nil {
			return at, err
		}
		done.last = extent{name, at, r.at - at}
	}
	return at, nil
}

// record passes the ops of one record to apply.
func record(done *Replayed, r *reader, payload []byte, apply func([]Op) error) error {
	if len(payload) < stateSize {
		return fmt.Errorf("%w: it is too short", errFrame)
	}
	to := State{binary.BigEndian.Uint64(payload), Digest(binary.BigEndian.Uint64(payload[8:]))}
	if to.Seq != done.Seq+1 {
		return fmt.Errorf("%w: it has number %d after %d", errFrame, to.Seq, done.Seq)
	}
	ops, err := r.ops(payload[stateSize:])
	if err != nil {
		return err
	}
	if err := apply(ops); err != nil {
		return err
	}
	done.State = to
	done.Records++
	return nil
}
