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
	"os"
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
	Snapshot uint64    // the snapshot that it began with; 0 for none
	Slots    int       // read
	Last     time.Time // when the last record was made; zero if the slots have none of it
	Whole    bool      // nothing follows the last record
	Bad      []string  // snapshots that cannot be used
	Files    string    // for Claim: the address of the store that alone has contents; "" if all were fetched
	bad      []uint64  // their numbers
	format   uint32
	lineage  lineage
}

// Fetch writes the journal of the store as it was at an instant to the folder journal
// in dir, which must not exist. A zero instant means the end of the history. The
// caller must read the journal and pass the state that it leads to to Confirm. format
// is the version of the data that this program writes. admin/ops/restore.go runs the whole
// restore, of which this is the first step.
func Fetch(ctx context.Context, remote blobs.Remote, at time.Time, format uint32, dir string) (*Fetched, error) {
	h := history{remote}
	for try := 0; ; try++ {
		before, err := h.begin(ctx)
		if err != nil {
			return nil, err
		}
		f, err := fetch(ctx, h, at, format, dir)
		if err == nil || ctx.Err() != nil || try == fetchTries {
			return f, err
		}
		if now, failed := h.begin(ctx); failed != nil || !before.before(now) {
			return nil, err
		}
		// What was being read may have been removed meanwhile.
		if err := os.RemoveAll(filepath.Join(dir, "journal")); err != nil {
			return nil, err
		}
	}
}

// fetchTries is how often Fetch starts over when old slots or snapshots are removed while it
// reads them.
const fetchTries = 3

func fetch(ctx context.Context, h history, at time.Time, format uint32, dir string) (*Fetched, error) {
	b, err := h.read(ctx, metaName, -1)
	if absent(err) {
		return nil, errors.New("there is no data of kist in the object store at this prefix")
	}
	if err != nil {
		return nil, err
	}
	var meta meta
	if err := json.Unmarshal(b, &meta); err != nil {
		return nil, fmt.Errorf("%s in the object store is damaged: %w", metaName, err)
	}
	folder, err := disk.OpenFolder(filepath.Join(dir, "journal"))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	f := &Fetched{Instance: meta.Instance, format: format}
	snaps, err := h.snaps(ctx, at)
	if err != nil {
		return nil, err
	}
	all, err := h.spans(ctx, 0) // after the snapshots, so that these slots lead to each of them
	if err != nil {
		return nil, err
	}
	if err := f.snapshot(ctx, h, snaps, all, folder, filepath.Join(dir, "journal")); err != nil {
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
		if err := f.slots(ctx, h, all, at, b); err != nil {
			return err
		}
		return b.Flush()
	})
	switch {
	case errors.Is(err, errEarly):
		return nil, cmp.Or(Early(ctx, h.remote, at), err)
	case err == nil && f.State.Seq == 0 && len(f.Bad) > 0:
		err = fmt.Errorf("no snapshot can be used: %s", strings.Join(f.Bad, "; "))
	}
	return f, err
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
		return fmt.Errorf("what was fetched leads to record %d with digest %016x; the object store promises record %d with %016x", read.Seq, uint64(read.Digest), f.State.Seq, uint64(f.State.Digest))
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
// A writer that was cut off may have put one of a history that nobody continued.
func (f *Fetched) snapshot(ctx context.Context, h history, snaps []uint64, all []span, folder *disk.Folder, path string) error {
	for _, seq := range slices.Backward(snaps) {
		name := journal.SnapshotName(seq)
		err := Again(ctx, func() error {
			return folder.Publish(name, func(w io.Writer) error {
				r, err := h.remote.Get(ctx, snapName(seq), 0, -1)
				if err != nil {
					return err
				}
				defer r.Close()
				_, err = io.Copy(w, r)
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("cannot fetch %s: %w", snapName(seq), err)
		}
		j, err := journal.Read(path, f.format)
		if err != nil {
			return err
		}
		snap, err := journal.OpenNewest(j, 0)
		if err == nil {
			err = snap.Close()
		}
		if err = errors.Join(err, j.Close()); err != nil && !absent(err) {
			return err
		}
		why := "is damaged"
		if err == nil {
			confirmed := false
			if all, err = h.among(ctx, all, func(all []span) (err error) {
				confirmed, err = h.confirms(ctx, all, snap.State)
				return err
			}); err != nil {
				return err
			}
			if confirmed {
				f.State, f.Snapshot = snap.State, seq
				return nil
			}
			why = "does not belong to the history that the slots have"
		}
		f.bad = append(f.bad, seq)
		f.Bad = append(f.Bad, snapName(seq)+" in the object store "+why)
		if err := folder.Remove(name); err != nil {
			return err
		}
	}
	return nil // from the empty store
}

// slots writes the frames of the records after the snapshot.
func (f *Fetched) slots(ctx context.Context, h history, all []span, at time.Time, w io.Writer) error {
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
	for rest := all[first:]; len(rest) > 0; {
		var later []span // what to continue with
		if err := h.each(ctx, rest, func(o span, got []*Slot, err error) error {
			if o.first > next {
				return fmt.Errorf("%s is missing in the object store", slotName(next))
			}
			if absent(err) { // it was merged a moment ago
				if later, err = h.spans(ctx, next); err == nil && (len(later) == 0 || later[0].first > next || later[0].name == o.name) {
					return fmt.Errorf("%s is missing in the object store", o.name)
				}
				return cmp.Or(err, errMerged)
			}
			for _, s := range got {
				if s.Number < next {
					continue
				}
				if hex.EncodeToString(s.Instance[:]) != f.Instance {
					return fmt.Errorf("%s in the object store belongs to instance %x, not to %s", slotName(s.Number), s.Instance, f.Instance)
				}
				if s.Format > f.format {
					return fmt.Errorf("%s in the object store has data of format %d; this version of kist reads formats up to %d: install the version that wrote it or a newer one", slotName(s.Number), s.Format, f.format)
				}
				if more, err := f.slot(s, at, w); err != nil || !more {
					return cmp.Or(err, errEnough)
				}
				next = s.Number + 1
			}
			return err
		}); errors.Is(err, errEnough) {
			return nil
		} else if !errors.Is(err, errMerged) && err != nil {
			return err
		}
		rest = later
	}
	return nil
}

// Why the slots are not read further.
var (
	errEnough = errors.New("the rest is not wanted")
	errMerged = errors.New("slots were merged")
)

// slot writes the frames of one slot. more is false if the rest is after the instant.
func (f *Fetched) slot(s *Slot, at time.Time, w io.Writer) (more bool, err error) {
	f.Slots++
	f.lineage.Epoch, f.lineage.Slot = s.Epoch, s.Number
	if s.After.Seq <= f.State.Seq {
		if s.After.Seq == f.State.Seq && s.After != f.State {
			return false, f.broken(s)
		}
		return true, nil
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
		return false, f.broken(s)
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
		if _, err := w.Write(r.Frame); err != nil {
			return false, err
		}
		f.State, f.Last = r.To, made
		return true, nil
	})
	return f.Whole, err
}

func (f *Fetched) broken(s *Slot) error {
	return fmt.Errorf("%s in the object store continues record %d with digest %016x, but what is before it leads to record %d with %016x", slotName(s.Number), s.Before.Seq, uint64(s.Before.Digest), f.State.Seq, uint64(f.State.Digest))
}

// Check reads all slots in the remote and calls problem with each thing that is wrong:
// a slot that is missing, damaged or foreign, or that does not continue the one before
// or a snapshot; and the snapshot that the history begins with. It returns how many slots
// there are. format is the version of the data that this program reads.
func Check(ctx context.Context, remote blobs.Remote, format uint32, instance string, problem func(error)) (slots int, err error) {
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
	// removed reports whether the slots up to one were removed since they were listed.
	removed := func(last uint64) bool {
		now, err := h.begin(ctx)
		return err == nil && last < now.slot
	}
	if begin.snap > 0 {
		if err := h.begins(ctx, all, begin.snap, format); err != nil {
			if now, failed := h.begin(ctx); failed != nil || !begin.before(now) {
				problem(err)
			}
		}
	}
	next, last := begin.slot, Slot{}
	err = h.each(ctx, all, func(s span, got []*Slot, err error) error {
		if s.first > next && !removed(s.first-1) {
			problem(fmt.Errorf("%s is missing in the object store", slotName(next)))
		}
		if absent(err) { // it was merged a moment ago
			if later, failed := h.spans(ctx, s.first); failed == nil && len(later) > 0 && later[0].first <= s.first && later[0].last >= s.last {
				got, err = h.slots(ctx, later[0])
			}
		}
		if absent(err) && removed(s.last) {
			next, last = s.last+1, Slot{}
			return nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			problem(err)
			next, last = s.last+1, Slot{}
			return nil
		}
		from := next
		next = s.last + 1
		for _, slot := range got {
			if slot.Number < from || slot.Number > s.last {
				continue // another object has it, too
			}
			slots++
			_, anchored := slices.BinarySearch(snaps, slot.Before.Seq)
			switch {
			case hex.EncodeToString(slot.Instance[:]) != instance:
				problem(fmt.Errorf("%s in the object store belongs to instance %x, not to %s", slotName(slot.Number), slot.Instance, instance))
			case last.Number > 0 && slot.Epoch < last.Epoch:
				problem(fmt.Errorf("%s in the object store has epoch %d after %d", slotName(slot.Number), slot.Epoch, last.Epoch))
			case last.Number > 0 && slot.Before != last.After && !anchored && slot.Before.Seq >= begin.snap:
				problem((&Fetched{State: last.After}).broken(slot))
			}
			last = *slot
		}
		return nil
	})
	return slots, err
}

// begins returns an error unless the snapshot that the history begins with is whole and
// leads to a state of the slots in the objects.
func (h history) begins(ctx context.Context, all []span, seq uint64, format uint32) error {
	at, err := h.snapshot(ctx, seq, format, func([]journal.Op) error { return nil })
	switch {
	case absent(err):
		return fmt.Errorf("%s, with which the history begins, is missing in the object store", snapName(seq))
	case err != nil:
		return err
	}
	there := false
	if _, err = h.among(ctx, all, func(all []span) (err error) { there, err = h.confirms(ctx, all, at); return err }); err != nil || there {
		return err
	}
	return fmt.Errorf("%s in the object store does not belong to the history that the slots have", snapName(seq))
}
