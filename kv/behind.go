package kv

import (
	"errors"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"kist/kv/table"
	"kist/kv/workcopy"
)

// A commit is over when the journal has it. Its changes stay in memory, where readers see
// them, until the working copy has them too: after behindCommits commits, behindChanges
// changes, behindBytes bytes or behindTime, whichever comes first. For each change bbolt may
// hold a page twice while it writes the lot.
const (
	behindCommits = 512
	behindChanges = 6000
	behindBytes   = 2 << 20
	behindTime    = 50 * time.Millisecond
)

// behind holds the changes that the working copy does not have yet, and brings them there.
// The committer adds changes and freezes them; applyLoop writes frozen ones to bbolt. At most
// two lots are in memory.
type behind struct {
	s *Store // set once

	layers  atomic.Pointer[layers] // stored by the committer and applyLoop, loaded by anyone
	version atomic.Uint64          // of the latest commit: see table.Mem; stored by the committer

	// Used by the committer only.
	latest  uint64      // the version of the latest attempt to commit
	commits int         // since the last freeze
	timer   *time.Timer // ends the wait for more commits
	spare   table.Spare // of the previous commit
	left    error       // why stop could not bring everything to the working copy; Close reads it afterwards

	// Set once.
	frozen  chan *table.Mem // to applyLoop
	applied chan struct{}   // from applyLoop: it is done with a lot, or cannot write it
	again   chan struct{}   // makes applyLoop try again at once

	broken atomic.Pointer[error] // why the working copy cannot be written, by applyLoop; nil if it can
}

// noChanges is the frozen layer while nothing is frozen.
var noChanges = new(table.Mem)

// layers are the changes in memory. Only the committer freezes the active ones, when
// there are no frozen ones. Only applyLoop removes frozen ones.
type layers struct {
	active, frozen *table.Mem
	applied        uint64 // how many lots went to the working copy
}

func (h *behind) start(s *Store) {
	h.s = s
	h.layers.Store(&layers{active: new(table.Mem), frozen: noChanges})
	h.timer = time.NewTimer(time.Hour)
	h.timer.Stop()
	h.frozen, h.applied, h.again = make(chan *table.Mem, 1), make(chan struct{}, 1), make(chan struct{}, 1)
}

// A view is the store at one instant: the working copy and what it does not have yet.
type view struct {
	bolt    *bolt.Tx
	version uint64
	layers  *layers
}

// pin returns the store as it is after the latest commit. The caller rolls back
// view.bolt when it is done. The error is ErrClosed if the store is closed.
func (h *behind) pin() (view, error) {
	for {
		applied := h.layers.Load().applied
		b, err := h.s.bolt.Begin(false)
		if errors.Is(err, berrors.ErrDatabaseNotOpen) {
			err = ErrClosed
		}
		if err != nil {
			return view{}, err
		}
		// All that bbolt contains was committed at or before this version. What bbolt does
		// not have is in the layers, unless it went there and was removed from them in between.
		v := view{bolt: b, version: h.version.Load(), layers: h.layers.Load()}
		if v.layers.applied == applied {
			return v, nil
		}
		if err := b.Rollback(); err != nil {
			return view{}, err
		}
	}
}

// SetRelaxed drops the pages of the working copy from this process's memory. They come
// back from the system's cache when they are read again. Not all systems can do that.
func (s *Store) SetRelaxed() error {
	v, err := s.behind.pin()
	if err != nil {
		return err
	}
	defer v.release()
	return workcopy.Relax(v.bolt)
}

// SetRelaxed is Store.SetRelaxed within a transaction.
func (tx *Tx) SetRelaxed() error { return workcopy.Relax(tx.view.bolt) }

// release ends the view.
func (v view) release() { _ = v.bolt.Rollback() } // only fails if it has ended already

// read returns a transaction that reads the view.
func (v view) read() *table.Tx { return table.On(v.bolt, v.version, v.layers.active, v.layers.frozen) }

// write returns a transaction that changes the view under the next version.
func (h *behind) write(v view) *table.Tx {
	h.latest++
	t := table.Write(v.bolt, h.latest, v.layers.active, v.layers.frozen)
	t.Reuse(h.spare)
	return t
}

// show makes the latest version the one that readers see.
func (h *behind) show() {
	h.version.Store(h.latest)
	h.commits++
	if h.commits == 1 {
		h.timer.Reset(behindTime)
	}
}

// full reports whether it is time to freeze the changes in memory.
func (h *behind) full() bool {
	m := h.layers.Load().active
	return h.commits >= behindCommits || m.Count() >= behindChanges || m.Volume() >= behindBytes
}

// refuse returns an error if nothing may be committed, because the working copy cannot be
// written. While it only lacks room on the disk, a few commits are taken: removals make
// room.
func (h *behind) refuse() error {
	if err := h.failure(); err != nil && (!workcopy.NoRoom(err) || h.full()) {
		return err
	}
	return nil
}

// proceed freezes the changes in memory if it is time, so that applyLoop writes them. It
// waits for applyLoop if there are too many. The committer calls it between commits.
func (h *behind) proceed() {
	now := h.layers.Load()
	if !h.full() {
		return
	}
	if now.frozen != noChanges && h.failure() == nil {
		<-h.applied
	}
	h.freeze()
}

// tick is called when the timer has fired.
func (h *behind) tick() {
	if h.layers.Load().frozen != noChanges && h.commits > 0 {
		h.timer.Reset(behindTime) // applyLoop is still busy
		return
	}
	h.freeze()
}

// freeze hands the changes in memory to applyLoop, unless it has some already.
func (h *behind) freeze() {
	now := h.layers.Load()
	if now.frozen != noChanges || now.active.Volume() == 0 {
		return
	}
	select {
	case <-h.applied: // of the lot before
	default:
	}
	h.layers.Store(&layers{active: new(table.Mem), frozen: now.active, applied: now.applied})
	h.commits = 0
	h.frozen <- now.active
}

// drain brings everything in memory to the working copy. It returns an error if the
// working copy cannot be written. The committer calls it between commits.
func (h *behind) drain() error {
	for {
		now := h.layers.Load()
		if now.frozen != noChanges {
			select {
			case <-h.applied: // of an earlier attempt
				continue
			default:
			}
			h.retry()
			<-h.applied
			if err := h.failure(); err != nil {
				return err
			}
			continue
		}
		if now.active.Volume() == 0 {
			return nil
		}
		h.freeze()
	}
}

// stop brings everything to the working copy, if it can be written, and ends applyLoop.
// Nobody may call retry any more.
func (h *behind) stop() {
	h.left = h.drain()
	close(h.frozen)
	close(h.again)
}

// failure returns why the working copy cannot be written, nil if it can.
func (h *behind) failure() error {
	if err := h.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// retry makes applyLoop try again at once if the working copy cannot be written.
func (h *behind) retry() {
	select {
	case h.again <- struct{}{}:
	default:
	}
}

// applyLoop writes frozen changes to the working copy. If that fails, nothing new is
// stored, reading goes on, and it tries again every second. If it never succeeds, the
// next start makes a new working copy from the journal.
func (h *behind) applyLoop() {
	for m := range h.frozen {
		for {
			err := h.apply(m)
			if err != nil {
				_ = h.s.space.commitFailed(err) // for the log; callers get it when they write
				h.broken.Store(&err)
			} else {
				h.broken.Store(nil)
				now := h.layers.Load()
				h.layers.Store(&layers{active: now.active, frozen: noChanges, applied: now.applied + 1})
			}
			select {
			case h.applied <- struct{}{}:
			default:
			}
			if err == nil {
				break
			}
			if _, open := <-h.again; !open {
				return
			}
		}
	}
}

// apply writes changes to bbolt.
func (h *behind) apply(m *table.Mem) error {
	s := h.s
	write := func(b *bolt.Tx) error { return m.Apply(b, s.buckets) }
	err := s.bolt.Update(write)
	if workcopy.NoRoom(err) && s.space.removeBallast() {
		err = s.bolt.Update(write)
	}
	if err != nil {
		return &copyError{err}
	}
	return nil
}

// copyError says that the working copy cannot be written.
type copyError struct{ cause error }

func (e *copyError) Error() string { return "cannot write the working copy: " + e.cause.Error() }

func (e *copyError) Unwrap() error { return e.cause }
