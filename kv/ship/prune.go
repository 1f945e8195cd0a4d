package ship

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"kist/blobs"
	"kist/kv/journal"
)

// Times and bounds of a Prune.
const (
	removeFor   = 2 * time.Second // for how long after its confirmation a writer may send removals
	permitFor   = 2               // of these times, until the store refuses the removals
	settleFor   = 3               // of these times, until a new writer relies on what is there
	permitTries = 4
	pruneEvery  = 24 * time.Hour
	pruneRetry  = 10 * time.Minute
	pruneFirst  = time.Second        // between looks whether everything is in the store, after a start
	discardMost = 7 * 24 * time.Hour // between two removals of contents, or a quarter of Options.History
	maxDoomed   = 1 << 16            // contents that are judged in one reading of the history
	maxLacking  = 1000               // contents that are sent again at once
	settledFor  = time.Hour          // a younger content may not be shipped yet
	unusedFor   = 8 * 24 * time.Hour // a younger content may be that of an upload, which waits for its record for a week
)

// Contents is what Prune must know of the contents of the data directory.
type Contents struct {
	Store *blobs.Store // with the remote behind it; its OnKeep is Ahead
	// Here lists the contents that records have, in order.
	Here iter.Seq2[blobs.Ref, error]
	// Unknown reports whether no record has a content, in a transaction that begins with
	// the call.
	Unknown func(ref [32]byte) (bool, error)
}

// An ask asks whether this is still the writer.
type ask struct {
	at     time.Time
	answer chan<- confirmed
}

// A confirmed says that this is the writer.
type confirmed struct {
	slot uint64    // the newest one
	at   time.Time // when its put began
	err  error
}

// confirm returns a slot that this writer has put after the call began. All that was
// committed before the call is in the store.
func (s *Shipper) confirm(ctx context.Context) (c confirmed, err error) {
	answer := make(chan confirmed, 1)
	select {
	case s.asks <- ask{time.Now(), answer}:
		select {
		case c = <-answer:
			return c, c.err
		case <-ctx.Done():
		}
	case <-s.ended:
		return c, errClosed
	case <-ctx.Done():
	}
	return c, ctx.Err()
}

// Tend calls Compare after a start and once a day until ctx ends, and then Prune if there
// were commits or if time alone has made something too old.
func (s *Shipper) Tend(ctx context.Context, c Contents) {
	if s == nil {
		return
	}
	pruned, more, wait := uint64(0), true, time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		s.mu.Lock()
		at, complete, over := s.at.Seq, s.complete, s.over
		s.mu.Unlock()
		switch {
		case over != nil:
			return
		case !complete:
			wait = pruneFirst
			continue
		}

		var err error
		more, err = s.tend(ctx, c, more || at != pruned)
		if err == nil {
			pruned, wait = at, pruneEvery
			continue
		}
		wait = pruneRetry
		if ctx.Err() == nil && s.Refuse() != ErrOver && !errors.Is(err, errMerging) {
			s.o.Log.Warn("the object store could not be compared with what it should have, or old history "+
				"not be removed; trying again in ten minutes",
				"store", s.o.Address, "error", err)
		}
	}
}

// tend compares what the store has with what it should have, and then removes old history if
// that is due. more says whether it is due again without a commit.
func (s *Shipper) tend(ctx context.Context, c Contents, due bool) (more bool, err error) {
	if err := s.Compare(ctx, c); err != nil {
		return due, err
	}
	if !due {
		return false, nil
	}
	return s.Prune(ctx, c)
}

// Prune removes what only moments need that are older than Options.History: first
// snapshots and slots, and once a week contents. It sends contents again that the store
// should have and lacks. more says that the same call may find more later, even if
// nothing is committed until then.
func (s *Shipper) Prune(ctx context.Context, c Contents) (more bool, err error) {
	if !s.merging.TryLock() {
		return true, errMerging
	}
	defer s.merging.Unlock()
	p := &pruning{Shipper: s, c: c}
	last, err := s.confirm(ctx)
	if err != nil {
		return true, err
	}
	o, err := s.o.Remote.Head(ctx, slotName(last.slot))
	if err != nil {
		return true, err
	}
	p.tooOld = o.ModTime.Add(-s.o.History)
	removes := s.o.History > 0 && s.Status().Exact
	defer func() {
		if p.damage != "" || err == nil {
			s.with(func() { s.status.Damage = p.damage })
		}
	}()
	if removes {
		if more, err = p.log(ctx); err != nil {
			return true, errors.Join(err, p.contents(ctx, false)) // which still sends what is missing
		}
	}
	oldest, err := s.history.oldest(ctx)
	if err != nil {
		return true, errors.Join(err, p.contents(ctx, false))
	}
	err = p.contents(ctx, removes)
	s.with(func() { s.status.Oldest = oldest })
	return more || p.damage != "", err
}

// errMerging says that slots are being merged, so that none can be removed now.
var errMerging = errors.New("slots are being merged")

// pruning is one call of Prune.
type pruning struct {
	*Shipper
	c      Contents
	tooOld time.Time // objects older than this, by the clock of the store, are too old
	begin  mark
	damage string // the latest that was found

	mu  sync.Mutex
	put time.Time // when the put of the latest confirmation began
	by  time.Time // see permit
}

// remove removes an object whose name is never used again, so it does no harm if the
// removal is late.
func (p *pruning) remove(ctx context.Context, name string) error {
	if _, err := p.permit(ctx); err != nil {
		return err
	}
	return p.removeBy(ctx, time.Time{}, name)
}

// removeBy removes an object unless the store's clock has passed by; zero is no limit.
func (p *pruning) removeBy(ctx context.Context, by time.Time, name string) error {
	ctx, cancel := context.WithTimeout(ctx, p.stored.window)
	defer cancel()
	if err := p.o.Remote.Delete(ctx, name, by); err != nil {
		return fmt.Errorf("cannot remove %s from the object store: %w", name, err)
	}
	p.with(func() { p.status.Removed++ })
	return nil
}

// permit returns until when this writer may remove objects, by the clock of the store. A
// writer that takes over puts its fence later than the slot whose time this is, and
// relies on nothing before that time: see settle.
func (p *pruning) permit(ctx context.Context) (by time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range permitTries {
		if time.Since(p.put) < p.stored.window/2 {
			return p.by, nil
		}
		last, err := p.confirm(ctx)
		if err != nil {
			return by, err
		}
		o, err := p.o.Remote.Head(ctx, slotName(last.slot))
		if err != nil {
			return by, err
		}
		p.put, p.by = last.at, o.ModTime.Add(permitFor*p.stored.window)
	}
	return by, errors.New("the object store is too slow to remove anything from it")
}

// log removes the snapshots, slots and marks that are too old. What stays begins with a
// snapshot that is whole and too old itself, so that a restore at any later moment finds
// what it found before. The mark comes first: it explains what is missing after that.
func (p *pruning) log(ctx context.Context) (more bool, err error) {
	h := p.history
	all, err := h.marks(ctx)
	if err != nil {
		return false, err
	}
	old := all[len(all)-1]
	if p.begin, err = p.choose(ctx, old); err != nil {
		return false, err
	}
	if old.before(p.begin) {
		if _, err := p.permit(ctx); err != nil {
			return false, err
		}
		body := strings.NewReader("kist\n")
		if err := p.o.Remote.Put(ctx, p.begin.name(), body, body.Size()); err != nil {
			return false, err
		}
	}
	var names []string
	for o, err := range p.o.Remote.After(ctx, snapPrefix, "") {
		if err != nil {
			return false, err
		}
		if seq, ok := parseSnap(o.Name); ok && seq < p.begin.snap {
			names = append(names, o.Name)
		}
		more = more || o.Name > snapName(p.begin.snap)
	}
	slots, err := p.slots(ctx)
	if err != nil {
		return false, err
	}
	names = append(names, slots...)
	for _, m := range all[1:] {
		if m.before(p.begin) {
			names = append(names, m.name())
		}
	}
	return more, together(ctx, atOnce, len(names), func(ctx context.Context, i int) error { return p.remove(ctx, names[i]) })
}

// choose returns where the history may begin.
func (p *pruning) choose(ctx context.Context, old mark) (mark, error) {
	h := p.history
	snaps, err := h.snaps(ctx, p.src.Now().Add(-p.o.History))
	if err != nil {
		return old, err
	}
	all, err := h.spans(ctx, 0)
	if err != nil {
		return old, err
	}
	for _, seq := range slices.Backward(snaps) {
		if seq <= old.snap {
			break
		}
		// The clock of the store must agree that it is too old.
		if o, err := p.o.Remote.Head(ctx, snapName(seq)); err != nil {
			return old, err
		} else if o.ModTime.After(p.tooOld) {
			continue
		}
		at, err := h.snapshot(ctx, seq, p.src.Format, func([]journal.Op) error { return nil })
		i, there := 0, false
		if err == nil {
			i, err = h.reaching(ctx, all, at.Seq)
		}
		if err == nil {
			there, err = h.confirms(ctx, all, at)
		}
		switch {
		case isFlaw(err):
			p.damaged("an older snapshot and the slots after it are kept", err)
		case err != nil:
			return old, err
		case there:
			return mark{all[i].first, seq}, nil
		}
	}
	return old, nil
}

// damaged notes what is wrong with an object in the store. The log gets it once.
func (p *pruning) damaged(what string, err error) {
	p.damage = err.Error()
	if !p.told[p.damage] {
		p.told[p.damage] = true
		p.o.Log.Error("the object store has a damaged object; "+what, "store", p.o.Address, "error", err)
	}
}

// slots returns the names of the objects with slots before the beginning. The first and
// last single slots of each epoch stay: a former writer that wakes up late would put its
// own in the place of one. A neighbour that is missing was removed, so it has the same
// epoch.
func (p *pruning) slots(ctx context.Context) (names []string, err error) {
	all, err := p.history.objects(ctx, "")
	if err != nil {
		return nil, err
	}
	epochs, unknown := map[uint64]uint64{}, map[uint64]bool{}
	single := slices.DeleteFunc(slices.Clone(all), func(o span) bool { return o.first != p.begin.slot && (o.first < o.last || o.last >= p.begin.slot) })
	if err := together(ctx, atOnce, len(single), func(ctx context.Context, i int) error {
		head, err := p.history.head(ctx, single[i])
		damaged := isFlaw(err) // it and its neighbours stay
		if damaged {
			head, err = &Slot{}, nil
		}
		if err == nil {
			p.with(func() { epochs[single[i].first], unknown[single[i].first] = head.Epoch, damaged })
		}
		return err
	}); err != nil {
		return nil, err
	}
	for _, o := range all {
		if o.last >= p.begin.slot {
			continue
		}
		edge := o.first == 1 || unknown[o.first]
		for _, n := range []uint64{o.first - 1, o.first + 1} {
			epoch, there := epochs[n]
			edge = edge || there && epoch != epochs[o.first] || unknown[n]
		}
		if o.first < o.last || !edge {
			names = append(names, o.name)
		}
	}
	return names, nil
}

// contents compares the contents in the store with those that records have.
func (p *pruning) contents(ctx context.Context, removes bool) error {
	if _, err := p.stored.settle(ctx); err != nil {
		return err
	}
	noted := filepath.Join(p.src.Dir, "cache", "store-removal")
	if info, err := os.Stat(noted); err == nil && time.Since(info.ModTime()).Abs() < max(pruneEvery/2, min(discardMost, p.o.History/4)) || p.begin.snap == 0 {
		removes = false
	}
	if removes && p.o.Expires != nil {
		expires, err := p.o.Expires(ctx)
		if err != nil {
			return err
		}
		if removes = expires; !expires {
			p.o.Log.Warn("the object store carries out requests that have expired, so files that nothing needs any more stay there", "store", p.o.Address)
		}
	}
	here, stop := iter.Pull2(p.c.Here)
	defer stop()
	ref, err, more := here()
	var unused, lacking []blobs.Ref
	lacks := func(before string) error { // notes the contents up to a name
		for more && err == nil && (before == "" || ref.RemoteName() < before) {
			if info, err := p.c.Store.Stat(ref); err == nil && time.Since(info.ModTime) > settledFor {
				lacking = append(lacking, ref)
			}
			if len(lacking) == maxLacking {
				if err := p.again(ctx, lacking); err != nil {
					return err
				}
				lacking = nil
			}
			ref, err, more = here()
		}
		return err
	}
	for o, failed := range p.o.Remote.After(ctx, "blobs/", "") {
		if failed != nil {
			return failed
		}
		if err := lacks(o.Name); err != nil {
			return err
		}
		if more && ref.RemoteName() == o.Name {
			if info, err := p.c.Store.Stat(ref); err == nil && info.Size != o.Size {
				if err := p.replace(ctx, ref); err != nil {
					return err
				}
			}
			ref, err, more = here()
			continue
		}
		loose, bad := blobs.ParseRef(o.Name[strings.LastIndexByte(o.Name, '/')+1:])
		if !removes || bad != nil || loose.RemoteName() != o.Name || o.ModTime.After(p.tooOld.Add(-max(0, p.unused-p.o.History))) {
			continue
		}
		if unused = append(unused, loose); len(unused) == maxDoomed {
			if removes, err = p.discarded(ctx, unused); err != nil {
				return err
			}
			unused = nil
		}
	}
	if err := lacks(""); err != nil {
		return err
	}
	if err := p.again(ctx, lacking); err != nil || !removes {
		return err
	}
	if removes, err = p.discarded(ctx, unused); err != nil || !removes {
		return err
	}
	return os.WriteFile(noted, []byte("\n"), 0o600)
}

// replace puts a content again that has another size in the store than on the disk.
func (p *pruning) replace(ctx context.Context, ref blobs.Ref) error {
	if err := p.c.Store.Check(ref); err != nil {
		return nil //nolint:nilerr // the scrub reports it
	}
	by, err := p.permit(ctx)
	if err != nil {
		return err
	}
	if err := p.removeBy(ctx, by, ref.RemoteName()); err != nil {
		return err
	}
	return p.again(ctx, []blobs.Ref{ref})
}

// again sends contents that the store lacks.
func (p *pruning) again(ctx context.Context, refs []blobs.Ref) error {
	if len(refs) == 0 {
		return nil
	}
	p.o.Log.Warn("files were missing in the object store and are sent again", "store", p.o.Address, "files", len(refs), "first", refs[0].String())
	for _, ref := range refs {
		p.stored.forget(ref)
	}
	return p.stored.put(ctx, refs)
}

// discarded calls discard. ok is false if the history is damaged. Then what it refers to is
// not known, and all contents stay: a copy of the damaged object may turn up.
func (p *pruning) discarded(ctx context.Context, refs []blobs.Ref) (ok bool, err error) {
	err = p.discard(ctx, refs)
	if isFlaw(err) {
		p.damaged("files that nothing needs any more stay until the history begins after it", err)
		return false, nil
	}
	return true, err
}

// discard removes the contents that nothing in the history refers to. See
// DESIGN.md of package kv for why none is removed that is needed.
func (p *pruning) discard(ctx context.Context, refs []blobs.Ref) error {
	if len(refs) == 0 {
		return nil
	}
	doomed := make(map[blobs.Ref]struct{}, len(refs))
	for _, ref := range refs {
		doomed[ref] = struct{}{}
	}
	p.stored.doom(doomed)
	defer p.stored.doom(nil)
	// From here on Ahead spares what is kept. A content that was kept earlier must not be
	// pinned now, because its commit may still come.
	none := func(context.Context) error { return nil }
	for _, ref := range refs {
		pinned := true
		if _, err := blobs.Discard(p.c.Store, ref, func() (bool, error) { pinned = false; return false, nil }, none); err != nil {
			return err
		}
		if pinned {
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
	discard := func(i int) error {
		by, err := p.permit(ctx) // before the content is locked, because it may take long
		if err != nil {
			return err
		}
		_, err = blobs.Discard(p.c.Store, refs[i], func() (bool, error) {
			if !p.stored.isDoomed(refs[i]) {
				return false, nil
			}
			if _, err := p.c.Store.Stat(refs[i]); !absent(err) {
				return false, err // the sweep removes it from the disk first
			}
			return p.c.Unknown(refs[i])
		}, func(context.Context) error {
			p.stored.forget(refs[i])
			err := p.removeBy(ctx, by, refs[i].RemoteName())
			if err != nil && !errors.Is(err, blobs.ErrLate) { // the store may still remove it
				p.stored.distrust()
			}
			return err
		})
		return err
	}
	return together(ctx, atOnce, len(refs), func(_ context.Context, i int) error { // one that has begun goes on
		err := discard(i)
		if errors.Is(err, blobs.ErrLate) { // the machine was busy: with a new permit
			p.mu.Lock()
			p.put = time.Time{}
			p.mu.Unlock()
			err = discard(i)
		}
		return err
	})
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
	missing := func() error {
		return &flaw{fmt.Errorf("%s is missing in the object store", slotName(next))}
	}
	if err := h.each(ctx, all, func(o span, got []*Slot, err error) error {
		switch {
		case o.first > next && next > to: // it is not listed yet
			return errListed
		case o.first > next:
			return missing()
		case err != nil:
			return err
		}
		for _, slot := range got {
			switch {
			case slot.Number < next:
				continue
			case slot.Instance != p.instance || slot.Format > p.src.Format:
				return &flaw{fmt.Errorf("%s in the object store belongs to instance %s and has data of format %d", slotName(slot.Number), hex.EncodeToString(slot.Instance[:]), slot.Format)}
			case next > p.begin.slot && slot.Before != last.After && slot.Before.Seq >= p.begin.snap: // a gap: a snapshot has the state after it
				at, err := h.snapshot(ctx, slot.Before.Seq, p.src.Format, spare)
				if err != nil {
					return err
				}
				if at != slot.Before {
					return &flaw{(&Fetched{State: at}).broken(slot)}
				}
			}
			if _, err := journal.Frames(slot.Frames, slot.Before, func(r journal.Framed) (bool, error) { return true, spare(r.Ops) }); err != nil {
				return err
			}
			next, last = slot.Number+1, *slot
		}
		return nil
	}); err != nil && err != errListed { //nolint:errorlint // never wrapped
		return err
	}
	if next <= to {
		return missing()
	}
	return nil
}

// with calls fn while nobody else reads or changes what s.mu guards.
func (s *Shipper) with(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}
