package ship

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Bounds of a merged object.
const (
	mergeBytes = 8 << 20 // a reader has all of it in memory
	mergeSlots = 8       // fewer are left for the next time
)

// merge puts the slots up to the one with the number to into larger objects, and then
// removes the single ones. A crash leaves both, and the next call removes the rest. It
// removes none at the beginning or the end of an epoch or of an object: a former
// writer that wakes up late would put its own in the place. mine is a slot of this
// writer.
func (s *Shipper) merge(ctx context.Context, mine Slot, to uint64) error {
	if !s.merging.TryLock() {
		return nil
	}
	defer s.merging.Unlock()
	if !s.Status().Exact || to <= s.merged {
		return nil
	}
	all, err := s.history.objects(ctx, "")
	if err != nil {
		return err
	}
	begin, err := s.history.begin(ctx)
	if err != nil {
		return err
	}
	last, err := s.history.last(ctx, to)
	if err != nil {
		return err
	}
	if last == nil || last.Writer != mine.Writer || last.Epoch != mine.Epoch {
		return errors.New("another server has taken over")
	}

	whole, err := s.mergeAll(ctx, all, begin.slot, to)
	if err != nil {
		return err
	}
	for _, one := range whole {
		if one.last > s.merged {
			if err := s.removeMerged(ctx, one, all); err != nil {
				return err
			}
		}
	}
	s.merged = to
	return nil
}

// mergeAll puts larger objects for the slots with the numbers between two. It returns the objects
// of several slots that are there now.
func (s *Shipper) mergeAll(ctx context.Context, all []span, from, to uint64) (whole []span, err error) {
	var group []span // single slots for the next object
	size := int64(0)
	put := func() error {
		if len(group) >= mergeSlots {
			some, err := s.putMerged(ctx, group)
			if err != nil {
				return err
			}
			whole = append(whole, some...)
		}
		group, size = nil, 0
		return nil
	}

	covered := uint64(0)
	for _, o := range all {
		if o.last > to {
			break
		}
		if o.last < from {
			continue
		}
		if o.first < o.last {
			whole, covered = append(whole, o), max(covered, o.last)
		}
		if o.last <= covered {
			continue
		}
		if n := len(group); n > 0 && (group[n-1].last+1 != o.first || size+o.size > mergeBytes) {
			if err := put(); err != nil {
				return nil, err
			}
		}
		group, size = append(group, o), size+o.size
	}
	err = put()
	return whole, err
}

// putMerged puts an object that has the slots of the group. A damaged slot stays alone,
// so that the others can still be read, and the slots around it are in two objects.
func (s *Shipper) putMerged(ctx context.Context, group []span) (whole []span, err error) {
	bodies := make([][]byte, len(group)) // nil for a damaged one
	err = together(ctx, atOnce, len(group), func(ctx context.Context, i int) error {
		b, err := s.history.read(ctx, group[i].name, -1)
		if err != nil {
			return err
		}
		slot, rest, bad := parseSlot(b)
		if bad == nil && len(rest) == 0 && slot.Number == group[i].first {
			bodies[i] = b
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	for from, to := 0, 0; to <= len(group); to++ {
		if to < len(group) && bodies[to] != nil {
			continue
		}
		if to-from >= mergeSlots {
			one := span{first: group[from].first, last: group[to-1].last}
			one.name = mergedName(one.first, one.last)
			body := bytes.Join(bodies[from:to], nil)
			one.size = int64(len(body))
			err := s.o.Remote.Put(ctx, one.name, bytes.NewReader(body), one.size)
			if err != nil && !errors.Is(err, fs.ErrExist) { // else an earlier attempt: slots never change
				return whole, err
			}
			whole = append(whole, one)
		}
		from = to + 1
	}
	return whole, nil
}

// removeMerged removes the single slots among all that the object has, too. It reads
// the object first.
func (s *Shipper) removeMerged(ctx context.Context, one span, all []span) error {
	single := map[uint64]bool{}
	for _, o := range all {
		if o.first == o.last && o.first > one.first && o.last < one.last {
			single[o.first] = true
		}
	}
	if len(single) == 0 {
		return nil
	}
	slots, err := s.history.slots(ctx, one)
	if err != nil {
		return err
	}
	for i := 1; i < len(slots)-1; i++ {
		if slots[i-1].Epoch != slots[i+1].Epoch || !single[slots[i].Number] {
			continue
		}
		if err := s.o.Remote.Delete(ctx, slotName(slots[i].Number)); err != nil {
			return fmt.Errorf("cannot remove a slot that was merged: %w", err)
		}
	}
	return nil
}

// objects lists the objects of the log after a name, in the order of their slots. Of
// two that begin alike, the larger one comes first.
func (h history) objects(ctx context.Context, after string) (all []span, err error) {
	err = Again(ctx, func() error {
		all = nil
		for o, err := range h.remote.After(ctx, logPrefix, after) {
			if err != nil {
				return err
			}
			if s, ok := parseSpan(o); ok {
				all = append(all, s)
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.last, a.last))
	})
	return all, err
}
