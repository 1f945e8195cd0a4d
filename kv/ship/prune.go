package ship

// Once a day the writer removes from the remote what nothing in the history has needed for eight
// days. DESIGN.md says why nothing that is needed goes.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"kist/blobs"
	"kist/kv/journal"
)

// Times and bounds of a Prune.
const (
	unneededFor  = 8 * 24 * time.Hour // for how long nothing may have needed what is removed
	leapShown    = 3 * 24 * time.Hour // for how long a wrong clock may go unnoticed
	pruneEvery   = 24 * time.Hour
	pruneRetry   = 10 * time.Minute
	pruneFirst   = time.Second      // between looks whether everything is in the store, after a start
	confirmedFor = 10 * time.Second // for how long a confirmed writer removes contents
	maxDoomed    = 1 << 16          // contents that are judged in one reading of the history
)

// Contents is what Compare and Prune must know of the contents of the data directory.
type Contents struct {
	Store *blobs.Store // with the remote behind it; its OnKeep is Ahead
	// Here lists the contents that records have, in order.
	Here iter.Seq2[blobs.Ref, error]
	// Unknown reports whether no record has a content, in a transaction that begins with
	// the call.
	Unknown func(ref [32]byte) (bool, error)
}

// Tend calls Compare after a start and once a day until ctx ends, and then Prune if there
// were commits since.
func (s *Shipper) Tend(ctx context.Context, c Contents) {
	if s == nil {
		return
	}
	pruned, wait := uint64(0), time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		s.mu.Lock()
		at, complete, over, damaged := s.at.Seq, s.complete, s.over, s.status.Damage != ""
		s.mu.Unlock()
		if over != nil {
			return
		}
		if !complete {
			wait = pruneFirst
			continue
		}

		if err := s.tend(ctx, c, at != pruned || damaged); err != nil {
			s.warnTend(ctx, err)
			wait = pruneRetry
			continue
		}
		pruned, wait = at, pruneEvery
	}
}

// tend compares, and then removes old history if that was asked for.
func (s *Shipper) tend(ctx context.Context, c Contents, prune bool) error {
	if err := s.Compare(ctx, c); err != nil {
		return err
	}
	if !prune {
		return nil
	}
	return s.Prune(ctx, c)
}

// warnTend logs why tend failed, unless that is no news.
func (s *Shipper) warnTend(ctx context.Context, err error) {
	if ctx.Err() != nil || s.Refuse() == ErrOver || errors.Is(err, errMerging) {
		return
	}
	s.o.Log.Warn("the object store could not be compared with what it should have, or old history "+
		"not be removed; trying again in ten minutes", "store", s.o.Address, "error", err)
}

// errMerging says that slots are being merged, so that none can be removed now.
var errMerging = errors.New("slots are being merged")

// Prune removes what no moment of Options.History has needed for eight days, and notes the
// oldest moment that can be restored.
func (s *Shipper) Prune(ctx context.Context, c Contents) error {
	if !s.merging.TryLock() {
		return errMerging
	}
	defer s.merging.Unlock()
	if s.o.History > 0 && s.Status().Exact {
		p := &pruning{Shipper: s, c: c}
		err := p.run(ctx)
		if err == nil || p.damage != "" {
			s.with(func() { s.status.Damage = p.damage })
		}
		if err != nil {
			return err
		}
	}

	oldest, err := s.history.oldest(ctx)
	if err != nil {
		return err
	}
	s.with(func() { s.status.Oldest = oldest })
	return nil
}

// pruning is one call of Prune. What the history had at some moment of the last eight days is what
// a history has that reaches back eight days further. So the removal keeps such a longer history,
// and need not note what it has found unneeded before.
type pruning struct {
	*Shipper
	c      Contents
	now    time.Time // by the store's clock
	tooOld time.Time // what the store got earlier, by its own clock, is older than the longer history
	begin  mark      // of the longer history
	damage string    // the latest that was found
}

// run removes slots and snapshots, and then contents.
func (p *pruning) run(ctx context.Context) error {
	last, err := p.confirm(ctx)
	if err != nil {
		return err
	}
	o, err := p.o.Remote.Head(ctx, slotName(last.slot))
	if err != nil {
		return err
	}
	p.now = o.ModTime
	p.tooOld = p.now.Add(-p.o.History - unneededFor)

	steady, err := p.steady(ctx)
	if err != nil || !steady {
		return err
	}
	whole, err := p.log(ctx)
	if err != nil || !whole {
		return err
	}
	err = p.contents(ctx)
	if isFlaw(err) { // what the damaged object refers to is not known, and a copy of it may turn up
		p.damaged("files that nothing needs any more stay until the history begins after it", err)
		return nil
	}
	return err
}

// steady reports whether the store got a snapshot three to eight days ago. If the clocks of this machine
// and the store, which may be one, have leapt further than that, three days pass before the store has one.
func (p *pruning) steady(ctx context.Context) (bool, error) {
	for o, err := range p.o.Remote.After(ctx, snapPrefix, "") {
		if err != nil {
			return false, err
		}
		if age := p.now.Sub(o.ModTime); age >= leapShown && age <= unneededFor {
			return true, nil
		}
	}
	return false, nil
}

// remove removes an object.
func (p *pruning) remove(ctx context.Context, name string) error {
	if err := p.o.Remote.Delete(ctx, name); err != nil {
		return fmt.Errorf("cannot remove %s from the object store: %w", name, err)
	}
	p.with(func() { p.status.Removed++ })
	return nil
}

// log removes the snapshots, slots and marks before the beginning. The mark comes first: it
// explains what is missing after that. Their names are never used again, so it does no harm if a
// removal is late. whole is false if the store does not have all of the longer history.
func (p *pruning) log(ctx context.Context) (whole bool, err error) {
	all, err := p.history.marks(ctx)
	if err != nil {
		return false, err
	}
	old, _, err := p.history.latest(ctx, all)
	if err != nil {
		return false, err
	}
	p.begin, whole, err = p.choose(ctx, old)
	if err != nil {
		return false, err
	}
	if old.before(p.begin) {
		if err := p.putMark(ctx); err != nil {
			return false, err
		}
	}

	names, err := p.slots(ctx)
	if err != nil {
		return false, err
	}
	for o, err := range p.o.Remote.After(ctx, snapPrefix, "") {
		if err != nil {
			return false, err
		}
		if seq, ok := parseSnap(o.Name); ok && seq < p.begin.snap {
			names = append(names, o.Name)
		}
	}
	for _, m := range all[1:] {
		if m.before(p.begin) {
			names = append(names, m.name())
		}
	}
	return whole, together(ctx, atOnce, len(names), func(ctx context.Context, i int) error {
		return p.remove(ctx, names[i])
	})
}

// putMark puts the mark of the beginning, in the place of one that was found damaged.
func (p *pruning) putMark(ctx context.Context) error {
	put := func() error {
		body := strings.NewReader("kist\n")
		return p.o.Remote.Put(ctx, p.begin.name(), body, body.Size())
	}
	err := put()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := p.o.Remote.Delete(ctx, p.begin.name()); err != nil {
		return err
	}
	return put()
}

// choose returns where the history may begin, which is old until now: with the newest snapshot that
// is whole, that the slots have as a state, and that is too old itself. So a restore at any later
// moment finds what it found before. whole is false if there is none.
func (p *pruning) choose(ctx context.Context, old mark) (begin mark, whole bool, err error) {
	snaps, err := p.history.snaps(ctx, p.src.Now().Add(-p.o.History-unneededFor))
	if err != nil {
		return old, false, err
	}
	all, err := p.history.spans(ctx, 0)
	if err != nil {
		return old, false, err
	}
	for _, seq := range slices.Backward(snaps) {
		o, err := p.o.Remote.Head(ctx, snapName(seq))
		if err != nil {
			return old, false, err
		}
		if o.ModTime.After(p.tooOld) { // the clock of the store must agree
			continue
		}
		if seq == old.snap {
			return old, true, nil
		}
		first, there, err := p.history.leading(ctx, all, seq, p.src.Format)
		if isFlaw(err) {
			p.damaged("an older snapshot and the slots after it are kept", err)
			continue
		}
		if err != nil {
			return old, false, err
		}
		if there {
			return mark{first, seq}, true, nil
		}
	}
	return old, false, nil
}

// leading reads a snapshot and returns the first slot of the object that has its state. there is
// false if the slots have another state in its place.
func (h history) leading(
	ctx context.Context, all []span, seq uint64, format uint32,
) (first uint64, there bool, err error) {
	at, err := h.snapshot(ctx, seq, format, func([]journal.Op) error { return nil })
	if err != nil {
		return 0, false, err
	}
	there, err = h.confirms(ctx, all, at)
	if err != nil || !there {
		return 0, false, err
	}
	i, err := h.reaching(ctx, all, at.Seq)
	return all[i].first, err == nil, err
}

// damaged notes what is wrong with an object in the store. The log gets it once.
func (p *pruning) damaged(what string, err error) {
	p.damage = err.Error()
	if !p.told[p.damage] {
		p.told[p.damage] = true
		p.o.Log.Error("the object store has a damaged object; "+what, "store", p.o.Address, "error", err)
	}
}

// slots returns the names of the objects with slots before the beginning. Fences stay, and the
// single slots before them: a former writer that wakes up late would put its own in the place of
// one. A fence is empty. Other empty slots, and damaged ones, stay with them.
func (p *pruning) slots(ctx context.Context) (names []string, err error) {
	all, err := p.history.objects(ctx, "")
	if err != nil {
		return nil, err
	}
	single := slices.DeleteFunc(slices.Clone(all), func(o span) bool {
		return o.first < o.last || o.first > p.begin.slot
	})
	empty := make([]bool, len(single))
	err = together(ctx, atOnce, len(single), func(ctx context.Context, i int) error {
		slot, err := p.history.head(ctx, single[i])
		if err != nil && !isFlaw(err) {
			return err
		}
		empty[i] = err != nil || slot.Before == slot.After
		return nil
	})
	if err != nil {
		return nil, err
	}

	fences := map[uint64]bool{}
	for i, o := range single {
		fences[o.first] = empty[i]
	}
	for _, o := range all {
		stays := o.first == o.last && (fences[o.first] || fences[o.first+1])
		if o.last < p.begin.slot && !stays {
			names = append(names, o.name)
		}
	}
	return names, nil
}

// contents removes the contents that nothing needs.
func (p *pruning) contents(ctx context.Context) error {
	var doomed []blobs.Ref
	for o, err := range p.o.Remote.After(ctx, "blobs/", "") {
		if err != nil {
			return err
		}
		ref, bad := blobs.ParseRef(o.Name[strings.LastIndexByte(o.Name, '/')+1:])
		if bad != nil || ref.RemoteName() != o.Name || o.ModTime.After(p.tooOld) {
			continue
		}
		unneeded, err := p.unneeded(ref)
		if err != nil {
			return err
		}
		if !unneeded {
			continue
		}
		doomed = append(doomed, ref)
		if len(doomed) == maxDoomed {
			if err := p.discard(ctx, doomed); err != nil {
				return err
			}
			doomed = nil
		}
	}
	return p.discard(ctx, doomed)
}

// unneeded reports whether a content is not on the disk, where the sweep removes it first, and no
// record has it.
func (p *pruning) unneeded(ref blobs.Ref) (bool, error) {
	_, err := p.c.Store.Stat(ref)
	if !absent(err) {
		return false, err
	}
	return p.c.Unknown(ref)
}

// discard removes the contents that nothing in the history refers to.
func (p *pruning) discard(ctx context.Context, refs []blobs.Ref) error {
	if len(refs) == 0 {
		return nil
	}
	p.stored.doom(refs)
	defer p.stored.doom(nil)
	// From here on Ahead spares what is kept. A content that was kept earlier must not be
	// pinned now, because its commit may still come.
	for _, ref := range refs {
		alone, err := p.c.Store.Alone(ref, func() error { return nil })
		if err != nil {
			return err
		}
		if !alone {
			p.stored.spare(ref)
		}
	}
	last, err := p.confirm(ctx) // so all commits until now are in the slots
	if err != nil {
		return err
	}
	if err := p.spareReferred(ctx, last.slot); err != nil {
		return err
	}

	for _, ref := range refs {
		if !p.stored.isDoomed(ref) {
			continue
		}
		if time.Since(last.at.Round(0)).Abs() > p.trust { // also if the machine has slept
			last, err = p.confirm(ctx)
			if err != nil {
				return err
			}
		}
		if _, err := p.c.Store.Alone(ref, func() error { return p.discardOne(ctx, ref) }); err != nil {
			return err
		}
	}
	return nil
}

// discardOne removes a content that nobody can pin meanwhile, unless somebody has used it since it
// was judged.
func (p *pruning) discardOne(ctx context.Context, ref blobs.Ref) error {
	unneeded, err := p.unneeded(ref)
	if err != nil || !unneeded || !p.stored.isDoomed(ref) {
		return err
	}
	p.stored.forget(ref)
	return p.remove(ctx, ref.RemoteName())
}

// errListed ends reading the slots after all that matter were read.
var errListed = errors.New("the slots were read")

// spareReferred spares the contents that the history refers to, up to a slot at least.
func (p *pruning) spareReferred(ctx context.Context, to uint64) error {
	h := p.history
	spare := func(ops []journal.Op) error {
		for _, op := range ops {
			if ref, adds := p.src.Refers(op); adds {
				p.stored.spare(ref)
			}
		}
		return nil
	}
	if _, err := h.snapshot(ctx, p.begin.snap, p.src.Format, spare); err != nil {
		return err
	}
	all, err := h.spans(ctx, p.begin.slot)
	if err != nil {
		return err
	}

	next, last := p.begin.slot, Slot{}
	err = h.each(ctx, all, func(o span, got []*Slot, err error) error {
		if o.first > next && next > to { // it is not listed yet
			return errListed
		}
		if o.first > next {
			return missing(slotName(next))
		}
		if err != nil {
			return err
		}
		for _, slot := range got {
			if slot.Number < next {
				continue
			}
			if slot.Instance != p.instance || slot.Format > p.src.Format {
				return &flaw{fmt.Errorf("%s in the object store belongs to instance %x and has data of format %d",
					slotName(slot.Number), slot.Instance, slot.Format)}
			}
			gap := next > p.begin.slot && slot.Before != last.After && slot.Before.Seq >= p.begin.snap
			if gap { // a snapshot has the state after it
				at, err := h.snapshot(ctx, slot.Before.Seq, p.src.Format, spare)
				if err != nil {
					return err
				}
				if at != slot.Before {
					return (&Fetched{State: at}).broken(slot)
				}
			}
			_, err := journal.Frames(slot.Frames, slot.Before, func(r journal.Framed) (bool, error) {
				return true, spare(r.Ops)
			})
			if err != nil {
				return err
			}
			next, last = slot.Number+1, *slot
		}
		return nil
	})
	if err != nil && !errors.Is(err, errListed) {
		return err
	}
	if next <= to {
		return missing(slotName(next))
	}
	return nil
}

// with calls fn while nobody else reads or changes what s.mu guards.
func (s *Shipper) with(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}
