package ship

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"kist/blobs"
	"kist/kv/journal"
)

// history reads what a remote has.
type history struct{ remote blobs.Remote }

// span is an object with the slots from first to last.
type span struct {
	name        string
	first, last uint64
	size        int64
}

// spans lists the objects that cover the slots from the one with the number from on.
// A merged object covers what single ones that it was made of still cover, too. What
// the history does not have any more is left out.
func (h history) spans(ctx context.Context, from uint64) (all []span, err error) {
	after := ""
	if from > 0 {
		after = slotName(from - 1)
	}
	for range listTries {
		all, err = h.objects(ctx, after)
		if err != nil {
			return nil, err
		}
		var m mark
		if after == "" {
			m, err = h.begin(ctx) // after the list, so that it explains what the list lacks
			if err != nil {
				return nil, err
			}
		}

		gap := from > 0 && (len(all) == 0 || all[0].first > from)
		covered, some := uint64(0), false
		all = slices.DeleteFunc(all, func(s span) bool {
			if s.last < max(from, m.slot) || some && s.last <= covered {
				return true
			}
			gap = gap || some && s.first > covered+1
			covered, some = s.last, true
			return false
		})
		if !gap {
			break
		}
		// An object may begin before from, or slots were merged while they were listed.
		after = ""
	}
	return all, nil
}

// listTries is how often a list with a gap is asked for. A gap that stays is one. So is an
// object that is in each list and cannot be read.
const listTries = 3

func parseSpan(o blobs.Object) (span, bool) {
	first, last, merged := strings.Cut(strings.TrimPrefix(o.Name, logPrefix), "-")
	a, err := strconv.ParseUint(first, 16, 64)
	if err != nil {
		return span{}, false
	}
	if !merged {
		return span{o.Name, a, a, o.Size}, slotName(a) == o.Name
	}
	b, err := strconv.ParseUint(last, 16, 64)
	if err != nil {
		return span{}, false
	}
	return span{o.Name, a, b, o.Size}, mergedName(a, b) == o.Name && a <= b
}

// maxObject bounds the object that is read at once.
const maxObject = 1 << 30

// read returns the first n bytes of an object, or all if n is less than 0.
func (h history) read(ctx context.Context, name string, n int64) ([]byte, error) {
	return h.piece(ctx, name, 0, n)
}

// piece returns n bytes of an object from a byte on, or all the rest if n is less than 0.
func (h history) piece(ctx context.Context, name string, from, n int64) (b []byte, err error) {
	err = Again(ctx, func() error {
		r, err := h.remote.Get(ctx, name, from, n)
		if err != nil {
			return err
		}
		defer r.Close()
		b, err = io.ReadAll(io.LimitReader(r, maxObject))
		if err != nil {
			return fmt.Errorf("cannot read %s in the object store: %w", name, err)
		}
		return nil
	})
	return b, err
}

// Again calls fn, which makes a request, up to six times until it succeeds. It does not
// try again if fn says that there is no such object, or that there is one.
func Again(ctx context.Context, fn func() error) error {
	for wait := firstRetry; ; wait *= 3 {
		err := fn()
		if err == nil || settled(err) || wait > 81*firstRetry || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(wait, asked(err))):
		}
	}
}

// settled reports whether an error is an answer that another request would get, too.
func settled(err error) bool {
	return absent(err) || errors.Is(err, fs.ErrExist) || errors.Is(err, blobs.ErrDamaged) || unfit(err)
}

// unfit reports whether the remote must not be used as it was asked for.
func unfit(err error) bool { return errors.As(err, new(*blobs.Unfit)) }

// asked is how long the remote asks to be left alone.
func asked(err error) time.Duration {
	var later *blobs.Later
	if errors.As(err, &later) {
		return min(later.Wait, maxAsked)
	}
	return 0
}

// A flaw is an error in an object in the store that trying again cannot mend.
type flaw struct{ error }

func (f *flaw) Unwrap() error { return f.error }

// isFlaw reports whether trying again is of no use, because an object is damaged. A remote that can
// tell says so with blobs.ErrDamaged.
func isFlaw(err error) bool {
	return errors.As(err, new(*flaw)) || journal.IsDamage(err) || errors.Is(err, blobs.ErrDamaged)
}

// damaged says what is wrong with an object of the log.
func (s span) damaged(format string, args ...any) error {
	return &flaw{fmt.Errorf("%s in the object store is damaged: "+format, append([]any{s.name}, args...)...)}
}

// slots returns the slots in an object and checks that they are those that its name
// says. If the object is damaged, it returns the slots before the damage, too.
func (h history) slots(ctx context.Context, s span) (all []*Slot, err error) {
	b, err := h.read(ctx, s.name, -1)
	if err != nil {
		return nil, err
	}
	for n := s.first; n <= s.last; n++ {
		slot, rest, err := parseSlot(b)
		if err != nil {
			return all, s.damaged("%w", err)
		}
		if slot.Number != n {
			return all, s.damaged("it has slot %d in the place of slot %d", slot.Number, n)
		}
		all, b = append(all, slot), rest
	}
	if len(b) > 0 {
		return all, s.damaged("it is too long")
	}
	return all, nil
}

// Bounds of what is read at the same time. A busy writer in sync mode puts a slot for each
// group of commits, and a list may have thousands of them.
const (
	readAtOnce = 8
	readBytes  = 2 * mergeBytes
)

// batch returns the first objects, those that are read at the same time.
func batch(all []span) []span {
	size := int64(0)
	for n, s := range all {
		size += s.size
		if n == readAtOnce || n > 0 && size > readBytes {
			return all[:n]
		}
	}
	return all
}

// each calls fn with the objects in their order, and with their slots or why they cannot
// be read. It ends with the first error of fn.
func (h history) each(ctx context.Context, all []span, fn func(span, []*Slot, error) error) error {
	for len(all) > 0 {
		some := batch(all)
		got, errs := make([][]*Slot, len(some)), make([]error, len(some))
		var work sync.WaitGroup
		for i, o := range some {
			work.Go(func() { got[i], errs[i] = h.slots(ctx, o) })
		}
		work.Wait()
		for i, o := range some {
			if err := fn(o, got[i], errs[i]); err != nil {
				return err
			}
			got[i] = nil // its memory is not needed any more
		}
		all = all[len(some):]
	}
	return nil
}

// among calls fn with the objects. If it finds that one is not there any more, because it
// was merged meanwhile, fn is called with a new list. among returns the list that was used.
func (h history) among(ctx context.Context, all []span, fn func([]span) error) ([]span, error) {
	for try := 1; ; try++ {
		err := fn(all)
		if !absent(err) {
			return all, err
		}
		if try == listTries {
			return all, fmt.Errorf("the object store lists an object that it does not have: %w", err)
		}
		all, err = h.spans(ctx, 0)
		if err != nil {
			return nil, err
		}
	}
}

// reaching returns which of the objects is the last one that begins at or before the
// record with the number seq, or 0. A damaged one counts as beginning with the next one.
func (h history) reaching(ctx context.Context, all []span, seq uint64) (i int, err error) {
	i = sort.Search(len(all), func(i int) bool {
		s, failed := h.head(ctx, all[i])
		for i++; isFlaw(failed) && i < len(all); i++ {
			s, failed = h.head(ctx, all[i])
		}
		if !isFlaw(failed) {
			err = cmp.Or(err, failed)
		}
		return isFlaw(failed) || failed == nil && s.Before.Seq > seq
	})
	return max(i-1, 0), err
}

// confirms reports whether the slots in the objects lead to the state. The error is a flaw if
// the slots around its record are missing or damaged.
func (h history) confirms(ctx context.Context, all []span, at journal.State) (bool, error) {
	unknown := &flaw{fmt.Errorf("no slot in the object store has record %d", at.Seq)}
	if len(all) == 0 {
		return false, unknown
	}
	i, err := h.reaching(ctx, all, at.Seq)
	if err != nil {
		return false, err
	}

	got, err := h.slots(ctx, all[i])
	found, reached := false, false
	for _, s := range got {
		reached = reached || s.Before.Seq <= at.Seq && at.Seq <= s.After.Seq
		found = found || s.Before == at || s.After == at
		if s.Before.Seq < at.Seq && at.Seq < s.After.Seq {
			to, err := journal.Frames(s.Frames, s.Before, func(f journal.Framed) (bool, error) {
				return f.To.Seq < at.Seq, nil
			})
			if err != nil {
				return false, err
			}
			found = found || to == at
		}
	}
	switch {
	case found:
		return true, nil
	case err != nil:
		return false, err
	case !reached:
		return false, unknown
	}
	return false, nil
}

// last returns the newest slot, or nil. It looks from the slot with the number from on. If
// the newest ones are damaged, it returns the newest one before them, with the number of the
// newest: the next slot has the number after that.
func (h history) last(ctx context.Context, from uint64) (*Slot, error) {
	all, err := h.spans(ctx, from)
	if err != nil {
		return nil, err
	}
	var damage error
	for _, o := range slices.Backward(all) {
		got, err := h.slots(ctx, o)
		if err != nil && !isFlaw(err) {
			return nil, err
		}
		damage = cmp.Or(damage, err)
		if len(got) > 0 {
			slot := got[len(got)-1]
			slot.Number = all[len(all)-1].last
			return slot, nil
		}
	}
	if from > 0 {
		return h.last(ctx, 0)
	}
	return nil, damage
}

// Latest returns the instance whose history a remote has, and when the last change was made. The time is zero if
// no slot has a change.
func Latest(ctx context.Context, remote blobs.Remote) (instance string, at time.Time, err error) {
	h := history{remote}
	all, err := h.spans(ctx, 0)
	if err != nil {
		return "", at, err
	}
	for _, o := range slices.Backward(all) {
		got, err := h.slots(ctx, o)
		if err != nil && !isFlaw(err) {
			return "", at, err
		}
		for _, s := range slices.Backward(got) {
			instance = cmp.Or(instance, hex.EncodeToString(s.Instance[:]))
			if n := len(s.Times); n > 0 {
				return instance, time.UnixMilli(s.Times[n-1]), nil
			}
		}
	}
	if instance != "" {
		return instance, at, nil
	}

	b, err := h.read(ctx, metaName, -1)
	if err != nil {
		return "", at, err
	}
	var m meta
	if err := json.Unmarshal(b, &m); err != nil {
		return "", at, &flaw{fmt.Errorf("the object %s is damaged: %w", metaName, err)}
	}
	return m.Instance, at, nil
}

// head returns the head of the first slot of an object.
func (h history) head(ctx context.Context, s span) (*Slot, error) {
	b, err := h.read(ctx, s.name, slotHead)
	if err != nil {
		return nil, err
	}
	slot, _, err := parseHead(b)
	if err != nil {
		return nil, s.damaged("%w", err)
	}
	if slot.Number != s.first {
		return nil, s.damaged("it has slot %d in the place of slot %d", slot.Number, s.first)
	}
	return slot, nil
}

// snaps lists the numbers of the snapshots up to an instant, in order; of all if it is
// zero. What the history does not have any more is left out.
func (h history) snaps(ctx context.Context, at time.Time) (all []uint64, err error) {
	err = Again(ctx, func() error {
		all = nil
		for o, err := range h.remote.After(ctx, snapPrefix, "") {
			if err != nil {
				return err
			}
			if seq, ok := parseSnap(o.Name); ok {
				all = append(all, seq)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	m, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(seq uint64) bool { return seq < m.snap })
	for n := len(all); n > 0 && !at.IsZero(); n-- {
		begun, err := h.begun(ctx, all[n-1])
		if err != nil && !isFlaw(err) {
			return nil, err
		}
		if err == nil && !begun.After(at) {
			break
		}
		all = all[:n-1]
	}
	return all, nil
}

func parseSnap(name string) (seq uint64, ok bool) {
	seq, err := strconv.ParseUint(strings.TrimPrefix(name, snapPrefix), 16, 64)
	return seq, err == nil && snapName(seq) == name
}

// begun returns when a snapshot was begun. The error is a flaw if that cannot be known.
func (h history) begun(ctx context.Context, seq uint64) (time.Time, error) {
	b, err := h.read(ctx, snapName(seq), journal.SnapshotHead)
	if err != nil {
		return time.Time{}, err
	}
	begun, err := journal.SnapshotBegun(b)
	if err != nil {
		err = &journal.Damaged{Name: journal.SnapshotName(seq), Why: err.Error()}
	}
	return begun, err
}

// oldest returns the oldest moment that can be restored.
func (h history) oldest(ctx context.Context) (time.Time, error) {
	snaps, err := h.snaps(ctx, time.Time{})
	if err != nil {
		return time.Time{}, err
	}
	for _, seq := range snaps {
		if begun, err := h.begun(ctx, seq); !isFlaw(err) {
			return begun, err
		}
	}
	return time.Time{}, nil
}

// snapshot passes the entries of a snapshot to apply. The error satisfies
// journal.IsDamage if it is not whole.
func (h history) snapshot(
	ctx context.Context, seq uint64, format uint32, apply func([]journal.Op) error,
) (journal.State, error) {
	name := snapName(seq)
	o, err := h.remote.Head(ctx, name)
	if absent(err) {
		err = &flaw{fmt.Errorf("%s is missing in the object store: %w", name, err)}
	}
	if err != nil {
		return journal.State{}, err
	}
	at, err := journal.ReadSnapshot(&pieces{ctx: ctx, history: h, name: name}, o.Size, seq, format, apply)
	if err != nil {
		err = fmt.Errorf("%s in the object store: %w", name, err)
	}
	return at, err
}

// pieces reads an object a piece at a time.
type pieces struct {
	history
	ctx  context.Context
	name string
	at   int64 // where b begins
	b    []byte
}

const pieceBytes = 4 << 20

// ReadAt reads from the object. The next read is fast if it continues this one.
func (p *pieces) ReadAt(b []byte, from int64) (n int, err error) {
	for n < len(b) {
		if at := from + int64(n); at < p.at || at >= p.at+int64(len(p.b)) {
			p.b, err = p.piece(p.ctx, p.name, at, pieceBytes)
			if err != nil {
				return n, err
			}
			p.at = at
			if len(p.b) == 0 {
				return n, io.EOF
			}
		}
		n += copy(b[n:], p.b[from+int64(n)-p.at:])
	}
	return n, nil
}

// A mark says where the history begins. What it had before was removed, except the
// single slots that stop a former writer.
type mark struct {
	slot uint64 // the first one
	snap uint64 // the first snapshot: to a state in that slot, or in one of the same object; 0 for none
}

func (m mark) name() string { return fmt.Sprintf("%s%016x-%016x", markPrefix, m.slot, m.snap) }

// before reports whether the history has begun later since.
func (m mark) before(later mark) bool { return m.snap < later.snap }

// marks lists the marks, the latest last.
func (h history) marks(ctx context.Context) (all []mark, err error) {
	err = Again(ctx, func() error {
		all = []mark{{slot: 1}}
		for o, err := range h.remote.After(ctx, markPrefix, "") {
			if err != nil {
				return err
			}
			if m, ok := parseMark(o.Name); ok {
				all = append(all, m)
			}
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b mark) int { return cmp.Compare(a.snap, b.snap) })
	return all, err
}

func parseMark(name string) (mark, bool) {
	slot, snap, _ := strings.Cut(strings.TrimPrefix(name, markPrefix), "-")
	a, err := strconv.ParseUint(slot, 16, 64)
	if err != nil {
		return mark{}, false
	}
	b, err := strconv.ParseUint(snap, 16, 64)
	if err != nil {
		return mark{}, false
	}
	m := mark{slot: a, snap: b}
	return m, m.name() == name
}

// begin returns where the history begins. What was listed before the call may lack what
// was before that.
func (h history) begin(ctx context.Context) (m mark, err error) {
	for range listTries {
		all, err := h.marks(ctx)
		if err != nil {
			return m, err
		}
		gone := false
		m, gone, err = h.latest(ctx, all)
		if err != nil || !gone {
			return m, err
		}
	}
	return m, nil
}

// latest returns the latest of the marks that a writer has put. A remote which encrypts tells that from what
// somebody else has put there: such a mark would hide the history. gone says that a later one was listed and is not
// there, because a still later one has replaced it, or because somebody lists what is not there.
func (h history) latest(ctx context.Context, all []mark) (m mark, gone bool, err error) {
	for _, m := range slices.Backward(all[1:]) {
		_, err := h.read(ctx, m.name(), -1)
		if err == nil {
			return m, gone, nil
		}
		if !absent(err) && !isFlaw(err) {
			return m, false, err
		}
		gone = gone || absent(err)
	}
	return all[0], gone, nil
}

// absent reports whether the error says that there is no such object.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
