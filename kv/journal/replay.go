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

// Damaged says where the journal is not what was written.
type Damaged struct {
	Name string // of the file
	At   int64  // in bytes
	Why  string
	Lost string // what comes after the damage, if that is known
}

func (e *Damaged) Error() string {
	text := fmt.Sprintf("journal/%s is damaged at byte %d (%s)", e.Name, e.At, e.Why)
	if e.Lost != "" {
		text += "; " + e.Lost
	}
	return text
}

// Missing says that a file of the journal is not there.
type Missing struct{ Name, Because string }

func (e *Missing) Error() string {
	return fmt.Sprintf("journal/%s is missing: %s", e.Name, e.Because)
}

// Irregular says that something that is no regular file has the name of a file
// of the journal. It is not read, as a link may lead anywhere; only a salvage
// reads what a link leads to.
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

// IsDamage reports whether the error is about what the journal's files hold, or
// that one is not there. It is not about a disk or a system that fails.
func IsDamage(err error) bool {
	return errors.As(err, new(*Damaged)) || errors.As(err, new(*Missing)) || errors.As(err, new(*Irregular))
}

// unusable reports whether the error is about what a file holds or that it
// cannot be read any more, and not about the system.
func unusable(err error) bool {
	return errors.Is(err, ErrRead) || errors.As(err, new(*Damaged)) || errors.As(err, new(*Irregular)) || errors.As(err, new(*Newer))
}

// Replayed says what Replay did.
type Replayed struct {
	State
	Snapshot uint64 // what it began from; 0 is the empty store
	Records  int    // of logs
	Cut      int64  // bytes at the end of the newest log that are no whole record
	// Torn is the record that those bytes say they are, if they have its length.
	// A power cut may leave that of one that was never acknowledged, and damage
	// that of one that was.
	Torn *Torn
	Bad  []string // snapshots that could not be used

	last extent // of the records of logs
}

// A Torn is a last record whose checksum is wrong.
type Torn struct {
	Damaged
	To State // what it says it leads to
}

// Replay hands everything the journal holds to apply, in order: the newest
// whole snapshot, then what the logs have after it. start is called before the
// first, and again when a snapshot turns out to be damaged half way and
// another is begun with. The ops are valid until apply returns. No log has been
// begun or resumed yet.
//
// What a crash left at the end of the newest log was never acknowledged and is
// passed over. The error is Damaged or Missing where acknowledged changes
// cannot be read; those before them have been handed over by then.
func (j *Journal) Replay(start func() error, apply func([]Op) error) (Replayed, error) {
	done, err := j.files.replay(start, apply)
	if err == nil {
		j.read = done.last
	}
	return done, err
}

func (s *files) replay(start func() error, apply func([]Op) error) (Replayed, error) {
	g, err := s.list()
	if err != nil {
		return Replayed{}, err
	}
	var done Replayed
	var bad []error
	for i := len(g.snaps) - 1; i >= 0; i-- {
		if err := start(); err != nil {
			return done, err
		}
		done.State, err = s.readSnapshot(g.snaps[i], apply)
		if err == nil {
			done.Snapshot = g.snaps[i]
			err = s.readLogs(&done, g, apply)
			return done, err
		}
		if !unusable(err) {
			return done, err
		}
		done.Bad = append(done.Bad, err.Error())
		bad = append(bad, err)
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

// Watch has read told of the bytes of files that are read from now on.
func (j *Journal) Watch(read func(bytes int64)) { j.files.tell = read }

// Ahead is how many bytes Replay would read if the newest snapshot is whole.
func (j *Journal) Ahead() (int64, error) {
	g, err := j.files.list()
	if err != nil {
		return 0, err
	}
	var from uint64
	var names []string
	if n := len(g.snaps); n > 0 {
		from = g.snaps[n-1]
		names = append(names, fileName(snapName, from))
	}
	at, _ := slices.BinarySearch(g.logs, from)
	var total int64
	for _, name := range append(names, g.names(logName, g.logs[at:])...) {
		if _, size, err := j.files.measure(name); err == nil { // Replay tells of those that cannot be read
			total += size
		}
	}
	return total, nil
}

// lacks says that what goes on from a state is not there.
func lacks(g generations, seq uint64) error {
	if seq == 0 && len(g.snaps) == 0 {
		return &Missing{snapName + "…", "the logs that are there go on from a snapshot, and there is none"}
	}
	return &Missing{fileName(logName, seq), "it goes on from the snapshot of the same number"}
}

// open opens a file of the journal behind its header.
func (s *files) open(name string) (File, *reader, header, error) {
	f, err := s.folder.Open(name)
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
	r := &reader{file: f, size: size, tell: s.tell}
	magic := logMagic
	if strings.HasPrefix(name, snapName) {
		magic = snapMagic
	}
	b, err := r.peek(headerSize)
	if errors.Is(err, errFrame) || err == nil {
		var h header
		if h, err = parseHeader(b, magic); err == nil && h.layout > layout {
			return nil, nil, h, errors.Join(&Newer{name, h.layout, h.format, s.format}, f.Close())
		}
		if err == nil {
			r.at, r.buf = headerSize, r.buf[headerSize:]
			if h.layout != plainLayout {
				r.kind = packedLog
				if magic == snapMagic {
					r.kind = packedSnapshot
				}
			}
			return f, r, h, nil
		}
	}
	return nil, nil, header{}, errors.Join(damaged(name, 0, err), f.Close())
}

func (s *files) header(name string) (header, error) {
	f, _, h, err := s.open(name)
	if err != nil {
		return h, err
	}
	return h, f.Close()
}

// damaged is the error of a file whose bytes are there and wrong.
func damaged(name string, at int64, err error) error {
	if !errors.Is(err, errFrame) {
		return fmt.Errorf("cannot read journal/%s at byte %d: %w", name, at, err)
	}
	return &Damaged{Name: name, At: at, Why: err.Error()}
}

// readLogs hands over what the logs have after done.State.
func (s *files) readLogs(done *Replayed, g generations, apply func([]Op) error) error {
	from := slices.Index(g.logs, done.Seq)
	if from < 0 {
		return lacks(g, done.Seq)
	}
	for i := from; i < len(g.logs); i++ {
		next := uint64(0)
		if i+1 < len(g.logs) {
			next = g.logs[i+1]
		}
		if err := s.readLog(done, g.logs[i], next, apply); err != nil {
			return err
		}
	}
	return nil
}

// readLog hands over one log's records. The log after it begins at next; 0 if
// there is none.
func (s *files) readLog(done *Replayed, seq, next uint64, apply func([]Op) error) error {
	return s.eachRecord(done, seq, next, func(r *reader, payload []byte) error { return record(done, r, payload, apply) })
}

// eachRecord hands over the payload of each record of a log to take, which
// notes in done that it has it: see record.
func (s *files) eachRecord(done *Replayed, seq, next uint64, take func(r *reader, payload []byte) error) (err error) {
	name := fileName(logName, seq)
	f, r, h, err := s.open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if h.State != done.State {
		return &Damaged{Name: name, Why: fmt.Sprintf("it goes on from record %d with digest %016x, but %d with %016x is what was reached", h.Seq, uint64(h.Digest), done.Seq, uint64(done.Digest))}
	}
	for next == 0 || done.Seq < next {
		at := r.at
		payload, err := r.next()
		if err == nil {
			err = take(r, payload)
		}
		if err == nil {
			done.last = extent{name, at, r.at - at}
			continue
		}
		switch {
		case errors.Is(err, ErrRead):
			return fmt.Errorf("cannot read journal/%s at byte %d: %w", name, at, err)
		case !errors.Is(err, errFrame) && err != io.EOF: //nolint:errorlint // a wrapped one is of a read, not the end
			return err // take's own: the file has no part in it
		case next != 0 && done.Seq < next:
			bad := &Damaged{Name: name, At: at, Why: err.Error(), Lost: fmt.Sprintf("records %d to %d cannot be read, and journal/%s goes on after them", done.Seq+1, next, fileName(logName, next))}
			if err == io.EOF { //nolint:errorlint // as above
				bad.Why = "it ends too early"
			}
			return bad
		case err == io.EOF: //nolint:errorlint // as above
			return nil
		}
		r.at = at
		if whole, found := r.resync(done.Seq); found {
			return &Damaged{Name: name, At: at, Why: err.Error(), Lost: fmt.Sprintf("records that are whole follow from byte %d on", whole)}
		}
		done.Cut = r.size - at
		if to, ok := r.claim(at); ok && to.Seq == done.Seq+1 && r.fills(at) {
			done.Torn = &Torn{Damaged{Name: name, At: at, Why: err.Error()}, to}
		}
		return nil
	}
	return nil
}

// record hands over one record.
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
