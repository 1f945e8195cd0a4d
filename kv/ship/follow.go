package ship

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"kist/blobs"
	"kist/kv/journal"
)

// A Follower reads the history in a remote as it grows, and can take it over. One
// goroutine at a time may use it.
type Follower struct {
	o        Options
	format   uint32
	instance string
	process  [8]byte // random
	history  history
	state    journal.State // that the records lead to that were passed on
	next     uint64        // the slot to read
	ahead    []span        // listed and not read yet
	last     Slot          // the newest slot that was read, without its records
	newest   uint64        // the last record that is known to be in the remote
}

// Broken says that the history does not continue what was read of it.
type Broken struct{ text string }

func (e *Broken) Error() string { return e.text }

// Hopeless reports whether the error is about this data directory or its settings, so
// that trying again is of no use.
func Hopeless(err error) bool { return errors.As(err, new(*overError)) }

// ErrMoved says that the history goes on after what was read of it.
var ErrMoved = errors.New("another server has written to the object store")

// Follow returns a Follower of the history that led to a state. The error is Broken if
// the history does not have that state, or not any more. format is the version of the
// data that this program reads, and instance has 16 hexadecimal digits. Of the options
// it uses Remote and Address, and for TakeOver MaxLag and URL.
func Follow(ctx context.Context, o Options, format uint32, instance string, at journal.State) (*Follower, error) {
	f := &Follower{o: o, format: format, instance: instance, process: [8]byte(randomBytes(8)), history: history{o.Remote}, state: at}
	all, err := f.history.spans(ctx, 0)
	if err != nil {
		return nil, err
	}
	there, i := false, 0
	all, err = f.history.among(ctx, all, func(all []span) (err error) {
		if there, err = f.history.confirms(ctx, all, at); err == nil && there {
			i, err = f.history.reaching(ctx, all, at.Seq)
		}
		return err
	})
	if err != nil && !isFlaw(err) {
		return nil, err
	}
	if !there {
		return nil, &Broken{fmt.Sprintf("%s does not have the record %d with digest %016x that this data directory ends with", o.Address, at.Seq, uint64(at.Digest))}
	}
	f.ahead, f.next = all[i:], all[i].first
	return f, nil
}

// Read passes the records of the next slots to take, some of them at a time. It returns
// how many slots it has read; 0 means that there are no more now. If take fails, the next
// call begins with the same record.
func (f *Follower) Read(ctx context.Context, take func(journal.Framed) error) (slots int, err error) {
	if len(f.ahead) == 0 {
		// The newest slot is never merged, so a list that begins with it is short.
		if f.ahead, err = f.history.spans(ctx, max(f.next, 1)-1); err != nil {
			return 0, err
		}
		f.ahead = slices.DeleteFunc(f.ahead, func(s span) bool { return s.last < f.next })
	}
	if n := len(f.ahead); n > readAtOnce && f.newest <= f.state.Seq {
		head, err := f.history.head(ctx, f.ahead[n-1])
		if err != nil {
			f.ahead = nil
			return 0, err
		}
		f.newest = head.After.Seq
	}
	objects := batch(f.ahead)
	if len(objects) > 0 && objects[0].first > f.next {
		f.ahead = nil
		if begin, err := f.history.begin(ctx); err == nil && begin.slot > f.next {
			return 0, &Broken{"the history in the object store begins after what this data directory has; it was away for longer than the writer's --store-history"}
		}
		return 0, &Broken{slotName(f.next) + " is missing in the object store"}
	}
	err = f.history.each(ctx, objects, func(_ span, got []*Slot, err error) error {
		for _, s := range got {
			if s.Number < f.next {
				continue
			}
			f.newest = max(f.newest, s.After.Seq)
			if err := f.slot(s, take); err != nil {
				return err
			}
			slots++
		}
		f.ahead = f.ahead[1:]
		return err
	})
	if err != nil { // if an object was merged a moment ago, the next list has that
		f.ahead = nil
	}
	return slots, err
}

// slot passes the records of a slot on.
func (f *Follower) slot(s *Slot, take func(journal.Framed) error) error {
	broken := func() error {
		return &Broken{(&Fetched{State: f.state}).broken(s).Error()}
	}
	switch {
	case hex.EncodeToString(s.Instance[:]) != f.instance:
		return &overError{fmt.Sprintf("%s in the object store belongs to instance %x, and this data directory to %s", slotName(s.Number), s.Instance, f.instance)}
	case s.Format > f.format:
		return &overError{fmt.Sprintf("%s in the object store has data of format %d; this version of kist reads formats up to %d: install the version that wrote it or a newer one", slotName(s.Number), s.Format, f.format)}
	case s.Before.Seq > f.state.Seq, s.Before.Seq == f.state.Seq && s.Before != f.state, s.After.Seq == f.state.Seq && s.After != f.state:
		return broken()
	}
	if _, err := journal.Frames(s.Frames, s.Before, func(r journal.Framed) (bool, error) {
		switch {
		case r.To.Seq < f.state.Seq:
			return true, nil
		case r.To.Seq == f.state.Seq:
			if r.To != f.state {
				return false, broken()
			}
			return true, nil
		}
		if err := take(r); err != nil {
			return false, err
		}
		f.state = r.To
		return true, nil
	}); err != nil {
		return err
	}
	f.next, f.last = s.Number+1, *s
	f.last.Frames, f.last.Times = nil, nil
	return nil
}

// Last returns the newest slot that was read, without its records.
func (f *Follower) Last() Slot { return f.last }

// Behind returns how many records the remote has, as far as is known, that were not
// passed on.
func (f *Follower) Behind() uint64 { return f.newest - min(f.newest, f.state.Seq) }

// Won reports whether the newest slot that was read is the fence of TakeOver.
func (f *Follower) Won() bool { return f.last.Process == f.process }

// TakeOver puts a fence after the slots that were read, so that the present writer stops.
// If there are further slots, the error is ErrMoved, or with force the fence is put after
// them. The data directory is the writer's when Read has reached the fence: see Won. After
// another error that will show, too. The caller must know that the remote lets one writer
// win.
func (f *Follower) TakeOver(ctx context.Context, dir string, force bool) error {
	l, err := readLineage(dir)
	if err != nil {
		return err
	}
	if l.Writer == "" {
		l.Writer = hex.EncodeToString(randomBytes(8))
	}
	writer, err := hex.DecodeString(l.Writer)
	if err != nil || len(writer) != 8 {
		return fmt.Errorf("the file %s in the data directory is damaged; remove it", lineageName)
	}
	l.Files = cmp.Or(l.Files, f.o.Address) // some contents may be only there
	before := &f.last
	if force {
		last, err := f.history.last(ctx, f.next)
		if err != nil {
			return err
		}
		before = cmp.Or(last, before)
	}
	for {
		l.Epoch = before.Epoch
		if err := writeLineage(dir, l); err != nil { // before the store knows the writer
			return err
		}
		fence := Slot{
			Number: before.Number + 1, Format: f.format, Instance: before.Instance, Writer: [8]byte(writer), Process: f.process, Epoch: before.Epoch + 1,
			Before: before.After, After: before.After, MaxLag: f.o.MaxLag, URL: f.o.URL,
		}
		there, err := f.fence(ctx, fence)
		switch {
		case err != nil:
			return err
		case there.Process == f.process:
			newest, err := f.history.last(ctx, fence.Number)
			if err != nil {
				return err
			}
			if newest.Process != f.process { // the slot was merged and removed since it was read: nobody reads the fence
				if there = newest; !force {
					return ErrMoved
				}
				break
			}
			l.Epoch, l.Slot = fence.Epoch, fence.Number
			return writeLineage(dir, l)
		case !force:
			return ErrMoved
		}
		before = there
	}
}

// fence puts a slot, and returns the one that is there then.
func (f *Follower) fence(ctx context.Context, s Slot) (there *Slot, err error) {
	b := s.encode()
	return there, Again(ctx, func() error {
		there = &s
		err := f.o.Remote.Put(ctx, slotName(s.Number), bytes.NewReader(b), int64(len(b)))
		if errors.Is(err, fs.ErrExist) {
			var got []*Slot
			if got, err = f.history.slots(ctx, span{slotName(s.Number), s.Number, s.Number, 0}); err == nil {
				there = got[0]
			}
		}
		return err
	})
}

// Writes reports whether the newest slot in the remote is the data directory's.
func Writes(ctx context.Context, remote blobs.Remote, dir string) (bool, error) {
	l, err := readLineage(dir)
	if err != nil || l.Writer == "" {
		return false, err
	}
	last, err := history{remote}.last(ctx, l.Slot)
	return last != nil && hex.EncodeToString(last.Writer[:]) == l.Writer, err
}
