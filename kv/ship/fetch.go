package ship

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv/journal"
)

// Fetched is what Fetch has read.
type Fetched struct {
	Instance string
	State    journal.State
	Begun    time.Time // when the snapshot was begun that it began with; zero for none
	Last     time.Time // when the last record was made; zero if the slots have none of it
	Whole    bool      // nothing follows the last record
	Damage   error     // why nothing after the last record can be read; nil if nothing is damaged there
	Bad      []string  // snapshots that cannot be used
	Files    string    // for Claim: the address of the store that alone has contents; "" if all were fetched
	bad      []uint64  // their numbers
	rotten   []uint64  // those of the damaged ones
	format   uint32
	lineage  lineage
}

// Reached is the moment of the last change that was read.
func (f *Fetched) Reached() time.Time {
	if f.Last.IsZero() {
		return f.Begun
	}
	return f.Last
}

// Gives says what a restore of the latest state gives. It takes what Fetch or Rehearse
// has returned.
func Gives(f *Fetched, err error) string {
	switch {
	case err != nil:
		return "nothing: " + err.Error()
	case f.Damage != nil:
		reached := f.Reached().UTC().Format(time.RFC3339)
		return fmt.Sprintf("everything up to %s and nothing later, because %v", reached, f.Damage)
	}
	return "everything"
}

// IsDamage reports whether an error of Fetch or Rehearse says that what is there cannot be
// used, and not that the remote cannot be read now.
func IsDamage(err error) bool { return isFlaw(err) }

// Rehearse reads what Fetch reads for a zero instant, and keeps nothing. It passes the
// changes that it reads to note. Before that it calls begin, which forgets what was noted.
func Rehearse(
	ctx context.Context, remote blobs.Remote, format uint32, begin func() error, note func([]journal.Op) error,
) (*Fetched, error) {
	if err := begin(); err != nil {
		return nil, err
	}
	h := history{remote}
	f, all, err := h.open(ctx, time.Time{}, format, func(seq uint64) (journal.State, error) {
		return h.snapshot(ctx, seq, format, note)
	}, func(uint64) error { return begin() })
	if err != nil {
		return nil, err
	}
	err = f.slots(ctx, h, all, time.Time{}, func(r journal.Framed) error { return note(r.Ops) })
	return f, f.found(ctx, h, time.Time{}, err)
}

// Fetch writes the journal of the store as it was at an instant to the folder journal
// in dir, which must not exist. A zero instant means the end of the history. The
// caller must read the journal and pass the state that it leads to to Confirm. format
// is the version of the data that this program writes. admin/ops/restore.go runs the whole
// restore, of which this is the first step. If something in the store is missing or damaged,
// a zero instant means the moment before that: see Fetched.Damage.
func Fetch(ctx context.Context, remote blobs.Remote, at time.Time, format uint32, dir string) (*Fetched, error) {
	h, path := history{remote}, filepath.Join(dir, "journal")
	folder, err := disk.OpenFolder(path)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	f, all, err := h.open(ctx, at, format, func(seq uint64) (journal.State, error) {
		return h.keep(ctx, seq, format, folder, path)
	}, func(seq uint64) error { return drop(folder, seq) })
	if err != nil {
		return nil, err
	}

	name, head := journal.LogHead(f.State, format, time.Now())
	start := *f
	err = folder.Publish(name, func(w io.Writer) error {
		*f = start // it is called again if a file cannot be made without a name
		b := bufio.NewWriterSize(w, 256<<10)
		if _, err := b.Write(head); err != nil {
			return err
		}
		err := f.slots(ctx, h, all, at, func(r journal.Framed) error {
			_, err := b.Write(r.Frame)
			return err
		})
		if err != nil {
			return err
		}
		return b.Flush()
	})
	return f, f.found(ctx, h, at, err)
}

// drop removes a snapshot that keep has written, if it has.
func drop(folder *disk.Folder, seq uint64) error {
	err := folder.Remove(journal.SnapshotName(seq))
	if absent(err) {
		return nil
	}
	return err
}

// open lists what the store has and reads the snapshot to begin with. It passes the numbers
// of snapshots to keep, and of those that cannot be used to drop.
func (h history) open(
	ctx context.Context, at time.Time, format uint32, keep func(uint64) (journal.State, error), drop func(uint64) error,
) (f *Fetched, all []span, err error) {
	snaps, err := h.snaps(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	all, err = h.spans(ctx, 0) // after the snapshots, so that these slots lead to each of them
	if err != nil {
		return nil, nil, err
	}
	f = &Fetched{format: format}
	f.Instance, err = h.instance(ctx, all)
	if err != nil {
		return nil, nil, err
	}
	return f, all, f.snapshot(ctx, h, snaps, all, keep, drop)
}

// instance returns whose history it is. meta and each object of the log say it, and two of
// them must agree if there are two.
func (h history) instance(ctx context.Context, all []span) (last string, err error) {
	votes := map[string]int{}
	b, err := h.read(ctx, metaName, -1)
	if err != nil && !absent(err) && !isFlaw(err) {
		return "", err
	}
	var meta meta
	if err == nil && json.Unmarshal(b, &meta) == nil {
		last = meta.Instance
		votes[last]++
	}

	for _, o := range slices.Backward(all) {
		got, err := h.slots(ctx, o)
		if isFlaw(err) || absent(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		last = hex.EncodeToString(got[0].Instance[:])
		votes[last]++
		if votes[last] > 1 {
			break
		}
	}
	if last == "" {
		return "", &flaw{errors.New("there is no data of kist in the object store at this prefix")}
	}
	return last, nil
}

// keep writes a snapshot to the folder, which path names, and returns the state that it has.
func (h history) keep(
	ctx context.Context, seq uint64, format uint32, folder *disk.Folder, path string,
) (journal.State, error) {
	fill := func(w io.Writer) error {
		r, err := h.remote.Get(ctx, snapName(seq), 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(w, r)
		return err
	}
	err := Again(ctx, func() error { return folder.Publish(journal.SnapshotName(seq), fill) })
	if isFlaw(err) { // the remote has found it out; there is nothing to read, and nothing to drop
		return journal.State{}, &flaw{fmt.Errorf("%s in the object store is damaged", snapName(seq))}
	}
	if err != nil {
		return journal.State{}, fmt.Errorf("cannot fetch %s: %w", snapName(seq), err)
	}

	j, err := journal.Read(path, format)
	if err != nil {
		return journal.State{}, err
	}
	defer j.Close() //nolint:errcheck // it was only read
	snap, err := j.Newest(0)
	if absent(err) {
		return journal.State{}, &flaw{fmt.Errorf("%s in the object store is damaged", snapName(seq))}
	}
	if err != nil {
		return journal.State{}, err
	}
	return snap.State, snap.Close()
}

// found returns the error of a reading that has ended with err.
func (f *Fetched) found(ctx context.Context, h history, at time.Time, err error) error {
	switch {
	case errors.Is(err, errEarly):
		return cmp.Or(Early(ctx, h.remote, at), err)
	case err != nil:
		return err
	case f.State.Seq > 0:
		return nil
	case len(f.Bad) > 0:
		return &flaw{fmt.Errorf("no snapshot can be used: %s", strings.Join(f.Bad, "; "))}
	case f.Damage != nil:
		return &flaw{fmt.Errorf("no snapshot is there, and %w", f.Damage)}
	}
	return nil
}

// errEarly says that the history begins after the instant, as far as it can be read.
var errEarly = errors.New("the object store has no snapshot from before that time that can be used")

// Early returns an error if the history begins after an instant. A zero one is the end of
// the history.
func Early(ctx context.Context, remote blobs.Remote, at time.Time) error {
	oldest, err := history{remote}.oldest(ctx)
	if err != nil || at.IsZero() || !at.Before(oldest) {
		return err
	}
	return fmt.Errorf("the history in the object store begins after %s; the oldest moment that can be restored is %s",
		at.Format(time.RFC3339), oldest.Add(time.Second-1).Truncate(time.Second).UTC().Format(time.RFC3339))
}

// Confirm returns an error unless the state that the fetched journal leads to is the one
// that the slots promise.
func (f *Fetched) Confirm(read journal.State) error {
	if read != f.State {
		return fmt.Errorf("what was fetched leads to record %d with digest %016x; "+
			"the object store promises record %d with %016x",
			read.Seq, uint64(read.Digest), f.State.Seq, uint64(f.State.Digest))
	}
	return nil
}

// Claim lets the data directory continue the history, if nothing in it follows what
// was fetched.
func (f *Fetched) Claim(dir string) error {
	if !f.Whole {
		return nil
	}
	f.lineage.Format, f.lineage.Files = 1, f.Files
	return writeLineage(dir, f.lineage)
}

// snapshot fetches the newest snapshot that is whole and has a state of the slots.
// A writer that was cut off may have put one of a history that nobody continued. If damage
// leaves none that can be compared, it fetches the newest whole one.
func (f *Fetched) snapshot(
	ctx context.Context, h history, snaps []uint64, all []span,
	keep func(uint64) (journal.State, error), drop func(uint64) error,
) error {
	unsure := uint64(0) // the newest one that is whole, and cannot be compared because slots are damaged
	use := func(seq uint64, at journal.State) (err error) {
		f.State = at
		f.Begun, err = h.begun(ctx, seq)
		return err
	}
	refuse := func(seq uint64, why string) error {
		f.bad = append(f.bad, seq)
		f.Bad = append(f.Bad, snapName(seq)+" in the object store "+why)
		return drop(seq)
	}

	for _, seq := range slices.Backward(snaps) {
		at, err := keep(seq)
		if err != nil && (absent(err) || !isFlaw(err)) {
			return err
		}
		if err != nil {
			f.rotten = append(f.rotten, seq)
			if err := refuse(seq, "is damaged"); err != nil {
				return err
			}
			continue
		}

		confirmed := false
		all, err = h.among(ctx, all, func(all []span) (err error) {
			confirmed, err = h.confirms(ctx, all, at)
			return err
		})
		if err != nil && !isFlaw(err) {
			return err
		}
		if confirmed {
			return use(seq, at)
		}
		why := "does not belong to the history that the slots have"
		if err != nil {
			unsure = max(unsure, seq)
			why = "cannot be compared with the slots: " + err.Error()
		}
		if err := refuse(seq, why); err != nil {
			return err
		}
	}

	if unsure == 0 {
		return nil // from the empty store
	}
	at, err := keep(unsure)
	if err != nil {
		return err
	}
	return use(unsure, at)
}

// slots passes the records after the snapshot to take. It goes on after an object that is
// missing or damaged if the next slot continues what was read: no record is lost then.
func (f *Fetched) slots(
	ctx context.Context, h history, all []span, at time.Time, take func(journal.Framed) error,
) error {
	f.Whole = true
	if len(all) == 0 {
		return nil
	}

	// A snapshot may follow a gap in the slots, so begin with the slot that reaches its state.
	var first int
	all, err := h.among(ctx, all, func(all []span) (err error) {
		first, err = h.reaching(ctx, all, f.State.Seq)
		return err
	})
	if err != nil {
		return err
	}

	next := all[first].first
	var bad error // what cannot be read before the next slot
	for rest := all[first:]; len(rest) > 0; {
		var later []span // what to continue with
		err := h.each(ctx, rest, func(o span, got []*Slot, err error) error {
			if o.first > next {
				bad = cmp.Or(bad, missing(slotName(next)))
			}
			if absent(err) { // it was merged a moment ago
				later, err = h.spans(ctx, next)
				if err != nil {
					return err
				}
				if len(later) > 0 && later[0].first <= next && later[0].name != o.name {
					return errMerged
				}
				later, err = nil, missing(o.name)
			}
			if err != nil && !isFlaw(err) {
				return err
			}
			for _, s := range got {
				if s.Number < next {
					continue
				}
				if s.Format > f.format {
					return fmt.Errorf("%s in the object store has data of format %d; "+
						"this version of kist reads formats up to %d: "+
						"install the version that wrote it or a newer one", slotName(s.Number), s.Format, f.format)
				}
				more, err := f.slot(s, at, bad, take)
				if err != nil {
					return err
				}
				if !more {
					return errEnough
				}
				next, bad = s.Number+1, nil
			}
			next = o.last + 1
			bad = cmp.Or(bad, err)
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil && !errors.Is(err, errMerged) {
			return err
		}
		rest = later
	}
	return f.ends(bad, at)
}

// missing says that an object is not there.
func missing(name string) error { return &flaw{fmt.Errorf("%s is missing in the object store", name)} }

// ends notes what cannot be read after the last record. For an instant after that record it
// returns an error.
func (f *Fetched) ends(bad error, at time.Time) error {
	if bad == nil {
		return nil
	}
	f.Whole = false
	if at.IsZero() {
		f.Damage = bad
		return nil
	}
	if f.State.Seq == 0 {
		return bad
	}
	last := f.Reached().UTC().Format(time.RFC3339)
	return &flaw{fmt.Errorf("%w; the latest moment before that is %s: add --at %s", bad, last, last)}
}

// Why the slots are not read further.
var (
	errEnough = errors.New("the rest is not wanted")
	errMerged = errors.New("slots were merged")
)

// slot passes the records of one slot to take. more is false if the rest is after the
// instant, or cannot be used. bad is what cannot be read before the slot.
func (f *Fetched) slot(s *Slot, at time.Time, bad error, take func(journal.Framed) error) (more bool, err error) {
	if hex.EncodeToString(s.Instance[:]) != f.Instance {
		return false, f.ends(cmp.Or(bad, f.foreign(s)), at)
	}
	f.lineage.Epoch, f.lineage.Slot = s.Epoch, s.Number
	if s.After.Seq <= f.State.Seq {
		if s.After.Seq == f.State.Seq && s.After != f.State {
			return false, f.ends(cmp.Or(bad, f.broken(s)), at)
		}
		return true, nil
	}
	if bad != nil && s.Before.Seq > f.State.Seq {
		return false, f.ends(bad, at)
	}
	if s.Before.Seq > f.State.Seq {
		// The snapshot after a gap would have been used if it were old enough.
		if !at.IsZero() && !slices.Contains(f.bad, s.Before.Seq) {
			f.Whole = false
			if f.State.Seq == 0 {
				err = errEarly
			}
			return false, err
		}
		return false, f.ends(f.broken(s), at)
	}

	_, err = journal.Frames(s.Frames, s.Before, func(r journal.Framed) (bool, error) {
		made := time.UnixMilli(s.Times[r.To.Seq-s.Before.Seq-1])
		switch {
		case r.To.Seq < f.State.Seq:
			return true, nil
		case r.To.Seq == f.State.Seq:
			if r.To != f.State {
				return false, f.broken(s)
			}
			return true, nil
		case s.Before.Seq == f.State.Seq && s.Before != f.State:
			return false, f.broken(s)
		case !at.IsZero() && made.After(at):
			f.Whole = false
			return false, nil
		}
		if err := take(r); err != nil {
			return false, err
		}
		f.State, f.Last = r.To, made
		return true, nil
	})
	if isFlaw(err) {
		err = f.ends(cmp.Or(bad, err), at)
	}
	return f.Whole, err
}

func (f *Fetched) foreign(s *Slot) error {
	return &flaw{fmt.Errorf("%s in the object store belongs to instance %x, not to %s",
		slotName(s.Number), s.Instance, f.Instance)}
}

func (f *Fetched) broken(s *Slot) error {
	return &flaw{fmt.Errorf("%s in the object store continues record %d with digest %016x, "+
		"but what is before it leads to record %d with %016x",
		slotName(s.Number), s.Before.Seq, uint64(s.Before.Digest), f.State.Seq, uint64(f.State.Digest))}
}

// Check reads all slots in the remote and calls problem with each thing that is wrong:
// a slot that is missing, damaged or foreign, or that does not continue the one before
// or a snapshot; the moments that are lost with it; and snapshots. It returns how many slots
// there are. format is the version of the data that this program reads.
func Check(
	ctx context.Context, remote blobs.Remote, format uint32, instance string, problem func(error),
) (slots int, err error) {
	h := history{remote}
	all, err := h.spans(ctx, 0)
	if err != nil {
		return 0, err
	}
	begin, err := h.begin(ctx)
	if err != nil {
		return 0, err
	}
	snaps, err := h.snaps(ctx, time.Time{})
	if err != nil {
		return 0, err
	}
	for _, seq := range slices.Compact(append([]uint64{begin.snap}, snaps...)) {
		err := h.examine(ctx, all, seq, format, seq == begin.snap)
		if err != nil && !isFlaw(err) {
			return 0, err
		}
		if err != nil && !h.removedSnapshot(ctx, seq) {
			problem(err)
		}
	}

	c := &checker{h: h, instance: instance, problem: problem, begin: begin, snaps: snaps, next: begin.slot}
	err = h.each(ctx, all, func(s span, got []*Slot, err error) error { return c.object(ctx, s, got, err) })
	return c.count, err
}

// A checker checks the slots for one call of Check.
type checker struct {
	h        history
	instance string
	problem  func(error)
	begin    mark     // where the history began when they were listed
	snaps    []uint64 // in order

	count    int       // slots until now
	next     uint64    // the number of the next slot
	last     Slot      // the one before; zero after damage
	lastTime time.Time // of the latest record
}

// object checks an object with slots, or notes why it cannot be read.
func (c *checker) object(ctx context.Context, s span, got []*Slot, err error) error {
	if s.first > c.next && !c.removed(ctx, s.first-1) {
		c.lost(ctx, missing(slotName(c.next)))
	}
	if absent(err) { // it was merged a moment ago
		later, failed := c.h.spans(ctx, s.first)
		if failed == nil && len(later) > 0 && later[0].first <= s.first && later[0].last >= s.last {
			got, err = c.h.slots(ctx, later[0])
		}
	}
	if absent(err) && c.removed(ctx, s.last) {
		c.next, c.last = s.last+1, Slot{}
		return nil
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		c.lost(ctx, err)
		c.next, c.last = s.last+1, Slot{}
		return nil
	}

	from := c.next
	c.next = s.last + 1
	for _, slot := range got {
		if slot.Number >= from && slot.Number <= s.last { // else another object has it, too
			c.slot(slot)
		}
	}
	return nil
}

// slot checks that a slot continues the one before.
func (c *checker) slot(slot *Slot) {
	c.count++
	_, anchored := slices.BinarySearch(c.snaps, slot.Before.Seq)
	switch last := &c.last; {
	case hex.EncodeToString(slot.Instance[:]) != c.instance:
		c.problem((&Fetched{Instance: c.instance}).foreign(slot))
	case last.Number > 0 && slot.Epoch < last.Epoch:
		c.problem(fmt.Errorf("%s in the object store has epoch %d after %d",
			slotName(slot.Number), slot.Epoch, last.Epoch))
	case last.Number > 0 && slot.Before != last.After && !anchored && slot.Before.Seq >= c.begin.snap:
		c.problem((&Fetched{State: last.After}).broken(slot))
	}
	c.last = *slot
	if n := len(slot.Times); n > 0 {
		c.lastTime = time.UnixMilli(slot.Times[n-1])
	}
}

// lost notes an error with which moments are lost.
func (c *checker) lost(ctx context.Context, err error) {
	c.problem(c.h.around(ctx, err, c.last.After.Seq, c.lastTime, c.snaps))
}

// removed reports whether the slots up to one were removed since they were listed.
func (c *checker) removed(ctx context.Context, last uint64) bool {
	now, err := c.h.begin(ctx)
	return err == nil && last < now.slot
}

// removedSnapshot reports whether the history has begun after a snapshot since that was listed.
func (h history) removedSnapshot(ctx context.Context, seq uint64) bool {
	now, err := h.begin(ctx)
	return err == nil && seq < now.snap
}

// around adds to an error about an object which moments cannot be restored without it: those
// after the record with the number seq, up to the next snapshot. That record was made at last.
func (h history) around(ctx context.Context, err error, seq uint64, last time.Time, snaps []uint64) error {
	from, to := "", ""
	if !last.IsZero() {
		from = " after " + last.UTC().Format(time.RFC3339)
	}
	if i, _ := slices.BinarySearch(snaps, seq+1); i < len(snaps) {
		if begun, err := h.begun(ctx, snaps[i]); err == nil {
			to = " before " + begun.UTC().Format(time.RFC3339)
		}
	}
	return fmt.Errorf("%w; moments%s%s may be lost", err, from, to)
}

// examine returns an error unless a snapshot is whole. The one that the history begins with
// must also lead to a state of the slots in the objects. Another one may be of a writer that
// was cut off.
func (h history) examine(ctx context.Context, all []span, seq uint64, format uint32, first bool) error {
	if seq == 0 {
		return nil
	}
	at, err := h.snapshot(ctx, seq, format, func([]journal.Op) error { return nil })
	switch {
	case absent(err) && !first: // it was removed since it was listed
		return nil
	case absent(err):
		return &flaw{fmt.Errorf("%s, with which the history begins, is missing in the object store", snapName(seq))}
	case err != nil || !first:
		return err
	}
	there := false
	_, err = h.among(ctx, all, func(all []span) (err error) {
		there, err = h.confirms(ctx, all, at)
		return err
	})
	if err != nil || there {
		return err
	}
	return &flaw{fmt.Errorf("%s in the object store does not belong to the history that the slots have", snapName(seq))}
}
