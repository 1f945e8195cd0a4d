package ship

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"kist/blobs"
	"kist/kv/journal"
)

// Compare reads in the store what a restore would read now, and lists the rest. What is
// missing or damaged is put again if this server has it. Status says what a restore gives.
func (s *Shipper) Compare(ctx context.Context, c Contents) error {
	if s == nil || !s.Status().Complete {
		return nil
	}
	if !s.merging.TryLock() {
		return errMerging
	}
	defer s.merging.Unlock()

	lacks, bad, err := s.lacking(ctx)
	if err != nil {
		return err
	}
	if lacks != "" {
		s.o.Log.Error("an object in the object store is missing or damaged; a new snapshot is put there",
			"store", s.o.Address, "restore gives", lacks)
		was := lacks
		if err := s.heal(ctx, bad); err != nil {
			return err
		}
		lacks, _, err = s.lacking(ctx)
		if err != nil {
			return err
		}
		if lacks == "" {
			s.o.Log.Info("a restore from the object store gives everything again", "store", s.o.Address)
			s.with(func() { s.status.Healed = "a restore gave " + was })
		}
	}

	hole, err := s.history.hole(ctx)
	if err != nil {
		return err
	}
	s.with(func() { s.hole, s.status.Lacks, s.status.Compared = hole, lacks, time.Now() })
	return s.contents(ctx, c)
}

// lacking returns what a restore gives if that is not everything that was shipped before the
// call, and the snapshots that are damaged.
func (s *Shipper) lacking(ctx context.Context) (gives string, bad []uint64, err error) {
	if err := s.meta(ctx); err != nil {
		return "", nil, err
	}
	s.mu.Lock()
	shipped := s.shipped
	s.mu.Unlock()
	begin, note := func() error { return nil }, func([]journal.Op) error { return nil }
	got, err := Rehearse(ctx, s.o.Remote, s.src.Format, begin, note)
	if err != nil && !isFlaw(err) {
		return "", nil, err
	}
	if err == nil && got.Damage == nil && got.State.Seq < shipped.Seq {
		got.Damage = errors.New("the newest slots are missing in the object store")
	}
	if got != nil {
		bad = got.rotten
	}
	switch {
	case err != nil || got.Damage != nil:
		return Gives(got, err), bad, nil
	case len(bad) > 0:
		return fmt.Sprintf("everything, but %s in the object store is damaged", snapName(bad[0])), bad, nil
	}
	return "", nil, nil
}

// heal puts a snapshot of the present state, and removes the given ones, which are damaged.
func (s *Shipper) heal(ctx context.Context, bad []uint64) error {
	if err := s.src.Compact(); err != nil {
		return err
	}
	if _, err := s.confirm(ctx); err != nil { // this is the writer, and the store has all records until now
		return err
	}
	snap, err := s.src.Journal.Newest(0)
	if err != nil {
		return err
	}
	defer snap.Close() //nolint:errcheck // it was only read

	if slices.Contains(bad, snap.Seq) {
		if err := s.o.Remote.Delete(ctx, snapName(snap.Seq)); err != nil {
			return err
		}
	}
	if err := s.putSnapshot(ctx, snap); err != nil {
		return err
	}
	for _, seq := range bad {
		if seq == snap.Seq {
			continue
		}
		if err := s.o.Remote.Delete(ctx, snapName(seq)); err != nil {
			return err
		}
	}
	return nil
}

// Bounds of what is sent again.
const (
	maxLacking = 1000      // contents that are sent again at once
	settledFor = time.Hour // a younger content may not be shipped yet
)

// contents sends the contents again that records have and that the store lacks, or has with
// another size than the disk.
func (s *Shipper) contents(ctx context.Context, c Contents) error {
	next, stop := iter.Pull2(s.o.Remote.After(ctx, "blobs/", ""))
	defer stop()

	there, err, more := next()
	var lacking []blobs.Ref
	for ref, failed := range c.Here {
		if failed != nil {
			return failed
		}
		for more && err == nil && there.Name < ref.RemoteName() {
			there, err, more = next()
		}
		if err != nil {
			return err
		}

		info, failed := c.Store.Stat(ref)
		if failed != nil { // it may be in the store only
			continue
		}
		if more && there.Name == ref.RemoteName() {
			if there.Size == info.Size || c.Store.Check(ref) != nil { // the scrub reports a damaged one
				continue
			}
			removed, err := s.removeOther(ctx, c.Store, ref, info.Size)
			if err != nil {
				return err
			}
			if !removed {
				continue
			}
		} else if time.Since(info.ModTime) <= settledFor {
			continue
		}
		lacking = append(lacking, ref)
		if len(lacking) == maxLacking {
			if err := s.again(ctx, lacking); err != nil {
				return err
			}
			lacking = nil
		}
	}
	return s.again(ctx, lacking)
}

// removeOther removes an object that has another size than its content, unless somebody uses the
// content or it left the disk after it was compared. A list may be wrong, and an eviction trusts
// what Head says.
func (s *Shipper) removeOther(
	ctx context.Context, store *blobs.Store, ref blobs.Ref, size int64,
) (removed bool, err error) {
	if _, err := s.confirm(ctx); err != nil {
		return false, err
	}
	_, err = store.Alone(ref, func() error {
		if _, err := store.Stat(ref); err != nil {
			return nil // nothing is there to send again
		}
		o, err := s.o.Remote.Head(ctx, ref.RemoteName())
		if err != nil || o.Size == size {
			return err
		}
		err = s.o.Remote.Delete(ctx, ref.RemoteName())
		removed = err == nil
		return err
	})
	return removed, err
}

// again sends contents that the store lacks.
func (s *Shipper) again(ctx context.Context, refs []blobs.Ref) error {
	if len(refs) == 0 {
		return nil
	}
	s.o.Log.Warn("files were missing in the object store and are sent again", "store", s.o.Address,
		"files", len(refs), "first", refs[0].String())
	for _, ref := range refs {
		s.stored.forget(ref)
	}
	return s.stored.put(ctx, refs)
}

// hole says which slot is not there, though the history has earlier and later ones; "" for
// none.
func (h history) hole(ctx context.Context) (string, error) {
	all, err := h.spans(ctx, 0)
	if err != nil || len(all) == 0 {
		return "", err
	}
	next := all[0].first
	for _, o := range all {
		if o.first > next {
			return missing(slotName(next)).Error() + "; moments around it may be lost", nil
		}
		next = o.last + 1
	}
	return "", nil
}
