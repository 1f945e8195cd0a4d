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

// A Survey is what can still be read of a journal, damaged or not.
type Survey struct {
	Reached uint64  // the highest record number found in the journal
	Harm    []error // what is damaged, missing or irregular, in the order of the files; at most maxHarm
	More    int     // how many errors did not fit into Harm
	Tail    int64   // bytes after the last whole record of the newest log
	// Blind says that the newest log is missing or completely unreadable, so
	// that the number of its records is unknown.
	Blind bool
	// Unplaced are the names of completely unreadable logs and snapshots whose
	// numbers are beyond Reached. They may not belong to the journal.
	Unplaced []string
	// Like are the numbers of the records whose digest is the given one.
	Like []uint64

	files files
	like  Digest
	snaps []foundSnapshot
	runs  []run
	zero  bool // the logs begin with the empty store
}

// foundSnapshot is a snapshot. Some of its frames may be damaged.
type foundSnapshot struct {
	seq   uint64
	whole bool
}

// maxHarm bounds Harm.
const maxHarm = 1000

func (s *Survey) harm(err error) {
	if len(s.Harm) == maxHarm {
		s.More++
		return
	}
	s.Harm = append(s.Harm, err)
}

// run is a stretch of whole, consecutive records in a log.
type run struct {
	log         uint64 // the number in the log's name
	kind        frameKind
	at, end     int64  // in bytes
	first, last uint64 // records
}

// Survey reads every file of the journal and continues after damage, because
// each record has a number and a checksum. like is the digest of a store whose
// place in the history is wanted. Survey calls read with the number of bytes
// read. It fails only if it cannot continue.
func (j *Journal) Survey(like Digest, read func(bytes int64)) (*Survey, error) {
	s := &Survey{like: like, files: files{folder: lenient{j.files.folder}, format: j.files.format}}
	g, err := s.files.list()
	if err != nil {
		return nil, err
	}
	if err := s.standIn(&g); err != nil {
		return nil, err
	}
	s.zero = slices.Contains(g.logs, 0)
	s.links(j.files.folder, g)
	logs := g.logs
	unread, err := s.setAside(&g)
	if err != nil {
		return nil, err
	}

	for _, seq := range g.snaps {
		whole, err := s.snapshot(seq, read)
		if err != nil {
			return nil, err
		}
		if whole && !slices.Contains(logs, seq) && !g.apart(seq) {
			s.harm(lacks(g, seq))
		}
	}
	for i, seq := range g.logs {
		s.Reached = max(s.Reached, seq)
		if err := s.scan(seq, g.after(i)); err != nil {
			return nil, err
		}
		if _, size, err := s.files.measure(fileName(logName, seq)); err == nil {
			read(size)
		}
	}
	slices.Sort(s.Like)

	s.judgeUnread(unread, g)
	return s, nil
}

// links reports files that are symbolic links.
func (s *Survey) links(folder Folder, g generations) {
	for _, name := range slices.Concat(g.names(snapName, g.snaps), g.names(logName, g.logs)) {
		f, err := folder.Open(name)
		if isLink(err) {
			s.harm(err)
		} else if err == nil {
			_ = f.Close() // the survey reads it later
		}
	}
}

// same notes a state if its digest is the wanted one.
func (s *Survey) same(at State) {
	if at.Digest == s.like && !slices.Contains(s.Like, at.Seq) {
		s.Like = append(s.Like, at.Seq)
	}
}

// snapshot reads a snapshot and reports whether it is whole.
func (s *Survey) snapshot(seq uint64, read func(bytes int64)) (whole bool, err error) {
	at, err := s.files.readSnapshot(seq, nothing)
	whole = err == nil
	switch {
	case whole:
		s.same(at)
	case errors.As(err, new(*Newer)):
		return false, err
	case !isLink(err): // a link is reported already
		s.harm(err)
	}
	if h, size, err := s.files.measure(fileName(snapName, seq)); err == nil {
		read(size)
		s.same(h.State)
	}
	s.snaps = append(s.snaps, foundSnapshot{seq, whole})
	s.Reached = max(s.Reached, seq)
	return whole, nil
}

// judgeUnread tells whether unreadable files may have records after those that were found.
func (s *Survey) judgeUnread(unread []named, g generations) {
	for _, f := range unread {
		// Only its name tells where the file belongs. The newest log follows
		// the last record before it, which may never have been acknowledged.
		switch {
		case f.seq > s.Reached:
			s.Unplaced = append(s.Unplaced, fileName(f.kind, f.seq))
		case f.kind == logName && f.seq+1 >= s.Reached && (len(g.logs) == 0 || f.seq > g.logs[len(g.logs)-1]):
			s.Blind = true
		}
	}
	// A log is made before its snapshot.
	if n := len(g.snaps); n > 0 && (len(g.logs) == 0 || g.logs[len(g.logs)-1] < g.snaps[n-1]) {
		s.Blind = true
	}
}

// named is the content of a file's name.
type named struct {
	kind string
	seq  uint64
}

// setAside removes from g, and returns, the completely unreadable files. Their
// heads do not have the number in the name, and no frame after the head is
// whole. Any file may have such a name. So the name alone must not decide how
// long other logs are, or how many records there were.
func (s *Survey) setAside(g *generations) (unread []named, err error) {
	var kept generations
	for _, seq := range g.logs {
		likely := func(first []byte) bool { return claims(first, seq, seq+maxRecords) }
		readable, err := s.readable(logName, seq, likely)
		if err != nil {
			return nil, err
		}
		if readable {
			kept.logs = append(kept.logs, seq)
		} else {
			unread = append(unread, named{logName, seq})
		}
	}
	for _, seq := range g.snaps {
		readable := slices.Contains(kept.logs, seq) // a log continues it
		if !readable {
			readable, err = s.readable(snapName, seq, likelyEntries())
			if err != nil {
				return nil, err
			}
		}
		if readable {
			kept.snaps = append(kept.snaps, seq)
		} else {
			unread = append(unread, named{snapName, seq})
		}
	}
	*g = kept
	return unread, nil
}

// readable reports whether the head of a file has the number in the name, or a frame after it is
// whole. If neither is so, that is harm.
func (s *Survey) readable(kind string, seq uint64, likely func(first []byte) bool) (bool, error) {
	name := fileName(kind, seq)
	h, wrong := s.files.header(name)
	if errors.As(wrong, new(*Newer)) {
		return false, wrong
	}
	if wrong == nil && h.Seq == seq || s.hasFrame(name, likely) {
		return true, nil
	}

	if wrong == nil {
		wrong = &Damaged{Name: name, Why: fmt.Sprintf("its head is that of record %d", h.Seq)}
	}
	if !isLink(wrong) { // a link is reported already
		s.harm(wrong)
	}
	return false, nil
}

// hasFrame reports whether a file has a whole frame.
func (s *Survey) hasFrame(name string, likely func(first []byte) bool) bool {
	f, r, err := s.files.behindHead(name)
	if err != nil {
		return false
	}
	defer f.Close()
	_, found := r.find(r.at, likely)
	return found
}

// scan searches one log for whole records. The next log begins at next; 0 means
// that this is the last log.
func (s *Survey) scan(seq, next uint64) error {
	name := fileName(logName, seq)
	f, r, h, err := s.files.open(name)
	switch {
	case err == nil:
		s.same(h.State)
	case errors.As(err, new(*Newer)):
		return err
	default:
		if !isLink(err) { // a link is reported already
			s.harm(err)
		}
		f, r, err = s.files.behindHead(name)
		if err != nil {
			return nil //nolint:nilerr // it is in Harm
		}
	}
	defer f.Close()

	last := seq
	limit := next
	if next == 0 {
		limit = last + maxRecords
	}
	open := false        // the last run continues
	afterDamage := false // the frame was found after damage
	at := r.at           // the beginning of the frame; a compressed one has several records
	for last < limit {
		if len(r.rest) == 0 {
			at = r.at
		}
		to, err := r.wholeRecord(last, limit)
		if err == io.EOF { //nolint:errorlint // a wrapped one is of a read, not the end
			if next != 0 {
				why := fmt.Sprintf("it ends too early; records %d to %d are missing", last+1, next)
				s.harm(&Damaged{Name: name, At: at, Why: why})
			}
			break
		}
		if err != nil {
			if !s.skip(r, &Damaged{Name: name, At: at, Why: err.Error()}, last, next, limit) {
				break
			}
			open, afterDamage = false, true
			continue
		}

		if open && to.Seq == last+1 {
			s.runs[len(s.runs)-1].last, s.runs[len(s.runs)-1].end = to.Seq, r.at
		} else {
			if to.Seq != last+1 && !afterDamage {
				why := fmt.Sprintf("records %d to %d are missing", last+1, to.Seq-1)
				s.harm(&Damaged{Name: name, At: at, Why: why})
			}
			s.runs = append(s.runs, run{seq, r.kind, at, r.at, to.Seq, to.Seq})
			open, afterDamage = true, false
		}
		last = to.Seq
		s.same(to)
	}
	s.Reached = max(s.Reached, last)
	return nil
}

// skip moves the reader from a bad frame to the next whole one, and reports whether there is one. If
// not, what is left is the tail of the last log, or harm.
func (s *Survey) skip(r *reader, bad *Damaged, last, next, limit uint64) bool {
	// A damaged record may still have the right state. A match of 64 bits
	// with a digest is no accident.
	if claim, ok := r.claim(bad.At); ok && claim.Seq > last && claim.Seq <= limit {
		s.same(claim)
	}
	r.rest = nil
	at, found := r.find(bad.At+1, func(first []byte) bool { return claims(first, last, limit) })
	switch {
	case found:
		bad.Lost = fmt.Sprintf("whole records follow from byte %d on", at)
		s.harm(bad)
		r.at, r.buf = at, nil
	case next != 0:
		bad.Lost = fmt.Sprintf("records %d to %d cannot be read", last+1, next)
		s.harm(bad)
	default:
		s.Tail = r.size - bad.At
	}
	return found
}

// maxRecords is the maximum number of records in a log. A number that is farther off
// is not a record's number.
const maxRecords = 1 << 32

// wholeRecord reads the next record and returns the state that it leads to. Its
// number must be above last and at most limit. The errors are those of next.
func (r *reader) wholeRecord(last, limit uint64) (State, error) {
	payload, err := r.next()
	if err != nil {
		return State{}, err
	}
	if len(payload) < stateSize {
		return State{}, fmt.Errorf("%w: it is too short", errFrame)
	}
	to := State{binary.BigEndian.Uint64(payload), Digest(binary.BigEndian.Uint64(payload[8:]))}
	if to.Seq <= last || to.Seq > limit {
		return State{}, fmt.Errorf("%w: it has number %d after %d", errFrame, to.Seq, last)
	}
	_, err = r.ops(payload[stateSize:])
	return to, err
}

// claims reports whether the bytes may be the beginning of a record's payload.
func claims(first []byte, last, limit uint64) bool {
	if len(first) < stateSize {
		return false
	}
	seq := binary.BigEndian.Uint64(first)
	return seq > last && seq <= limit
}

// claim returns the state in the frame at the given place, whole or not.
func (r *reader) claim(at int64) (State, bool) {
	var b [stateSize]byte
	if _, err := r.file.ReadAt(b[:], at+frameHead); err != nil {
		return State{}, false
	}
	return State{binary.BigEndian.Uint64(b[:]), Digest(binary.BigEndian.Uint64(b[8:]))}, true
}

// fills reports whether the frame at the given place has the length of the rest
// of the file.
func (r *reader) fills(at int64) bool {
	var b [4]byte
	_, err := r.file.ReadAt(b[:], at)
	return err == nil && at+frameHead+int64(binary.BigEndian.Uint32(b[:])) == r.size
}

// window is how many bytes of a file find examines at once.
const window = 1 << 20

// find searches from the given place on for a frame whose checksum is right. It
// first calls likely with the first bytes of the payload, because a checksum
// takes long.
func (r *reader) find(from int64, likely func(first []byte) bool) (at int64, found bool) {
	const first = stateSize
	buf := make([]byte, min(window+frameHead+first, max(r.size-from, 0)))
	for from+frameHead < r.size {
		b := buf[:min(int64(len(buf)), r.size-from)]
		m, _ := r.file.ReadAt(b, from) // see cut
		cut := m < len(b)              // the disk cannot read what follows
		b = b[:m]

		o := 0
		for ; o+frameHead < len(b); o++ {
			if o == window { // the next window begins here
				break
			}
			n := int64(binary.BigEndian.Uint32(b[o:]))
			if n == 0 || n > MaxRecord || n > r.size-from-int64(o)-frameHead {
				continue
			}
			rest := b[o+frameHead:]
			if !likely(rest[:min(int64(first), n, int64(len(rest)))]) {
				continue
			}
			if sum, err := r.sum(from+int64(o)+frameHead, n); err == nil && sum == binary.BigEndian.Uint32(b[o+4:]) {
				return from + int64(o), true
			}
		}

		if cut {
			break
		}
		from += int64(o)
	}
	return 0, false
}

// behindHead opens a file whose head may be damaged, at the place of its first
// frame. It trusts the layout in the head: if that is wrong, no frame is valid.
func (s *files) behindHead(name string) (File, *reader, error) {
	f, err := s.openFile(name)
	if err != nil {
		return nil, nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	r := &reader{file: f, at: min(headerSize, size), size: size}
	var head [headerSize]byte
	if _, err := f.ReadAt(head[:], 0); err == nil && r.packed(head[:]) {
		r.kind = packedLog
		if strings.HasPrefix(name, snapName) {
			r.kind = packedSnapshot
		}
	}
	return f, r, nil
}

// packed guesses whether the file is compressed from a head that may be
// damaged. It uses the layout, and the checksum with one layout or the other.
func (r *reader) packed(head []byte) bool {
	n := binary.BigEndian.Uint32(head[8:])
	if n != plainLayout && n != layout {
		n = layoutOf(head)
	}
	return n != plainLayout
}

// A Span is a stretch of records, by number, that cannot be read.
type Span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// Salvaged is the result of Salvage.
type Salvaged struct {
	Seq     uint64 // of the last record, or of Base
	Digest  Digest // the store's digest then, if nothing is missing
	Base    uint64 // the snapshot it began with; 0 is the empty store
	Partial bool   // the snapshot it began with is incomplete, by an unknown amount
	Gaps    []Span // the records that are missing
}

// A Source receives what Salvage finds.
type Source interface {
	// Start is called first. The store is then empty, or holds the caller's
	// copy.
	Start() error
	// Entries passes entries of a snapshot.
	Entries([]Op) error
	// Record passes one complete record.
	Record(seq uint64, ops []Op) error
	// Gap says that records are missing before the next call.
	Gap(Span) error
}

// Best is the snapshot that Salvage begins with.
func (s *Survey) Best() (seq uint64, whole bool) {
	for i := len(s.snaps) - 1; i >= 0; i-- {
		if s.snaps[i].whole {
			return s.snaps[i].seq, true
		}
	}
	return 0, s.zero
}

// Last is the number of the last whole record, in a log or a snapshot.
func (s *Survey) Last() uint64 {
	last, _ := s.Best()
	for _, r := range s.runs {
		last = max(last, r.last)
	}
	return last
}

// Salvage passes everything that the survey has found to to, in order: the
// newest whole snapshot, then every whole record after it. If records are
// missing, it adds what later damaged snapshots still have. If from is not nil,
// the caller already holds the store as it was after that record. Each argument
// is valid until its call returns.
func (s *Survey) Salvage(from *uint64, to Source) (Salvaged, error) {
	if err := to.Start(); err != nil {
		return Salvaged{}, err
	}
	done, err := s.begin(from, to)
	if err != nil {
		return done, err
	}

	snaps := slices.DeleteFunc(slices.Clone(s.snaps), func(f foundSnapshot) bool { return f.seq <= done.Base })
	// reach records a gap before the record with the given number, if there is
	// one, and passes what damaged snapshots have of it.
	reach := func(seq uint64) error {
		for len(snaps) > 0 && snaps[0].seq < seq {
			at := snaps[0].seq
			snaps = snaps[1:]
			if at > done.Seq {
				gap := Span{done.Seq + 1, at}
				done.Gaps = append(done.Gaps, gap)
				if err := to.Gap(gap); err != nil {
					return err
				}
				done.Seq = at
			}
			if len(done.Gaps) > 0 || done.Partial {
				if err := s.pieces(at, to.Entries); err != nil {
					return err
				}
			}
		}
		if seq > done.Seq+1 {
			gap := Span{done.Seq + 1, seq - 1}
			done.Gaps = append(done.Gaps, gap)
			done.Seq = seq - 1
			return to.Gap(gap)
		}
		return nil
	}

	for _, run := range s.runs {
		if run.last <= done.Seq {
			continue
		}
		err := s.files.readRun(run, func(at State, ops []Op) error {
			if at.Seq <= done.Seq {
				return nil
			}
			if err := reach(at.Seq); err != nil {
				return err
			}
			done.Seq, done.Digest = at.Seq, at.Digest
			return to.Record(at.Seq, ops)
		})
		if err != nil {
			return done, err
		}
	}

	if s.Reached > done.Seq || len(snaps) > 0 {
		err = reach(max(s.Reached, done.Seq) + 1)
	}
	return done, err
}

// begin passes what the records are added to: the newest whole snapshot, or else what the oldest one
// still has.
func (s *Survey) begin(from *uint64, to Source) (done Salvaged, err error) {
	base, whole := s.Best()
	switch {
	case from != nil:
		done.Base, done.Digest = *from, s.like
	case whole:
		done.Base = base
		if base > 0 {
			at, err := s.files.readSnapshot(base, to.Entries)
			if err != nil {
				return done, err
			}
			done.Digest = at.Digest
		}
	case len(s.snaps) > 0: // no snapshot is whole, and the records before the first are gone
		done.Base, done.Partial = s.snaps[0].seq, true
		if err := s.pieces(done.Base, to.Entries); err != nil {
			return done, err
		}
	default:
		done.Partial = true
		if len(s.runs) > 0 {
			done.Base = s.runs[0].first - 1
		}
	}
	done.Seq = done.Base
	return done, nil
}

// Records passes the ops of each whole record after the newest whole snapshot to
// apply. They are valid until apply returns.
func (s *Survey) Records(apply func([]Op) error) error {
	base, _ := s.Best()
	for _, run := range s.runs {
		if run.last <= base {
			continue
		}
		if err := s.files.readRun(run, func(_ State, ops []Op) error { return apply(ops) }); err != nil {
			return err
		}
	}
	return nil
}

// readRun passes the records of a run to each.
func (s *files) readRun(run run, each func(at State, ops []Op) error) (err error) {
	f, r, err := s.behindHead(fileName(logName, run.log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r.at, r.size, r.kind = run.at, run.end, run.kind
	for r.at < run.end || len(r.rest) > 0 {
		payload, err := r.next()
		if err != nil {
			return fmt.Errorf("journal/%s has changed while it was read: %w", fileName(logName, run.log), err)
		}
		ops, err := r.ops(payload[stateSize:])
		if err != nil {
			return err
		}
		at := State{binary.BigEndian.Uint64(payload), Digest(binary.BigEndian.Uint64(payload[8:]))}
		if at.Seq < run.first || at.Seq > run.last {
			continue
		}
		if err := each(at, ops); err != nil {
			return err
		}
	}
	return nil
}

// pieces passes the whole frames of a snapshot to apply.
func (s *Survey) pieces(seq uint64, apply func([]Op) error) error {
	name := fileName(snapName, seq)
	f, r, err := s.files.behindHead(name)
	if errors.As(err, new(*Irregular)) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	entries := func(payload []byte) ([]Op, bool) {
		if payload[0] != entriesFrame {
			return nil, false
		}
		ops, err := r.ops(payload[1:])
		return ops, err == nil
	}
	likely := likelyEntries()
	for {
		at := r.at
		payload, err := r.next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is of a read, not the end
			return nil
		}
		if err != nil {
			found, ok := r.find(at+1, likely)
			if !ok {
				return nil
			}
			r.at, r.buf = found, nil
			continue
		}
		if ops, ok := entries(payload); ok {
			if err := apply(ops); err != nil {
				return err
			}
		}
	}
}

// likelyEntries returns a test for frames that may hold entries of a snapshot.
// It limits the number of useless checksums, of about packTarget bytes each.
func likelyEntries() func(first []byte) bool {
	tries := 1 << 12
	return func(first []byte) bool {
		if first[0] != entriesFrame && first[0] != packedFrame || tries == 0 {
			return false
		}
		tries--
		return true
	}
}

// isLink reports whether the error says that a file's name is a symbolic link.
func isLink(err error) bool {
	got, ok := errors.AsType[*Irregular](err)
	return ok && got.Type&fs.ModeSymlink != 0
}

// lenient is a folder that follows symbolic links and returns zeros for bytes
// that the disk cannot read. Checksums tell what is whole.
type lenient struct{ Folder }

func (l lenient) Open(name string) (File, error) {
	f, err := l.Folder.Open(name)
	if linked, ok := l.Folder.(interface {
		OpenLinked(name string) (File, error)
	}); ok && isLink(err) {
		if target, linkErr := linked.OpenLinked(name); linkErr == nil {
			f, err = target, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return lenientFile{f}, nil
}

type lenientFile struct{ File }

func (f lenientFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if n == len(b) || errors.Is(err, io.EOF) {
		return n, err
	}
	const block = 4096
	clear(b)
	for at := 0; at < len(b); {
		end := min(len(b), at+block-int((off+int64(at))%block))
		if n, err := f.File.ReadAt(b[at:end], off+int64(at)); n < end-at {
			clear(b[at:end])
			if errors.Is(err, io.EOF) {
				return at + n, err
			}
		}
		at = end
	}
	return len(b), nil
}
