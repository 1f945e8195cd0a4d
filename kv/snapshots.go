package kv

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/ship"
	"kist/kv/workcopy"
)

// A new generation of the journal begins after generationBytes, or after as many
// bytes as the newest snapshot if it is larger, so that snapshots cost no more than
// the logs. One also begins every generationEvery if there was a change.
const (
	generationBytes = 64 << 20
	generationEvery = 24 * time.Hour
	// snapshotRetry is how long to wait after a failed snapshot.
	snapshotRetry = 15 * time.Minute
)

// generation is what the committer, and it alone, knows about the current generation.
type generation struct {
	due   bool  // a new one is due, whatever the size and age of this one
	size  int64 // approximate size of the newest snapshot in bytes
	begun time.Time
	from  uint64     // the number of the record it begins after
	ended int64      // bytes of its logs on the disk, without the current one
	retry time.Time  // no attempt before this time, because the last one failed
	busy  chan int64 // receives the size of the snapshot being written, 0 if it failed

	written chan struct{} // closed when the latest snapshot is written or has failed
}

// renew begins a new generation if one is due. The committer calls it between
// commits.
func (g *generation) renew(s *Store) {
	s.journal.Drain()
	_, end := s.journal.End()
	now := time.Now()
	if g.busy != nil {
		select {
		case size := <-g.busy:
			g.busy = nil
			if size == 0 {
				g.due, g.retry = true, now.Add(snapshotRetry)
			} else {
				g.size = size
			}
		default:
			return
		}
	}

	switch {
	case now.Before(g.retry):
		return
	case g.due, g.ended+end >= max(generationBytes, g.size), now.Sub(g.begun) >= generationEvery && s.state.Seq > g.from:
	default:
		return
	}

	v, err := s.beginPart()
	if err != nil {
		g.retry = now.Add(snapshotRetry)
		s.log.Error("cannot start a new part of the journal; continuing with the current one", "error", err)
		return
	}
	at := s.state
	g.due, g.begun, g.from, g.ended = false, now, at.Seq, 0
	busy, written := make(chan int64, 1), make(chan struct{})
	g.busy, g.written = busy, written
	s.work.Go(func() {
		defer close(written)
		busy <- s.snapshot(v, at)
	})
}

// beginPart begins a new part of the journal and returns a view of the state that it continues.
func (s *Store) beginPart() (view, error) {
	v, err := s.behind.pin()
	if err != nil {
		return view{}, err
	}
	if err := s.journal.Begin(s.state); err != nil {
		v.release()
		return view{}, err
	}
	return v, nil
}

// snapshot writes the view and releases it. It returns the approximate size in bytes,
// or 0 if it failed; then all logs are still there.
func (s *Store) snapshot(v view, at journal.State) int64 {
	start := time.Now()
	size, err := s.writeSnapshot(v, at)
	if err != nil {
		if s.stopping.Err() == nil {
			s.log.Error("cannot write a snapshot; the data in the logs is safe", "error", err)
		}
		return 0
	}
	s.log.Debug("snapshot written", "commits", at.Seq, "took", time.Since(start).Round(time.Millisecond))
	return size
}

// writeSnapshot writes the view, releases it and removes what the journal no longer needs.
func (s *Store) writeSnapshot(v view, at journal.State) (size int64, err error) {
	err = s.journal.Snapshot(s.stopping, at, workcopy.Format, s.unmapped(v, workcopy.Everything(v.read(), s.buckets)))
	size = v.bolt.Size()
	v.release()
	if err != nil {
		return 0, err
	}
	return size, s.prune()
}

// prune removes what the journal no longer needs, and says so if the way back to a former format
// goes with it.
func (s *Store) prune() error {
	before, none := s.journal.Former()
	err := s.journal.Prune()
	if none != nil {
		return err
	}
	_, gone := s.journal.Former()
	if errors.Is(gone, fs.ErrNotExist) {
		s.log.Warn("the state before the change of the data's format was removed, because of its age or to make room: "+
			"kist rollback no longer leads back to it", "format", before.Format, "changedAt", before.At.UTC())
	}
	return err
}

// unmapped yields the operations and gives back the memory used to read them, so that
// a snapshot does not keep the whole working copy in memory.
func (s *Store) unmapped(v view, all func(func(journal.Op) bool)) func(func(journal.Op) bool) {
	return func(yield func(journal.Op) bool) {
		read := 0
		all(func(op journal.Op) bool {
			read += len(op.Key) + len(op.Value)
			if read > 2<<20 {
				read = 0
				if workcopy.FileMemory() > workcopy.MostMapped {
					_ = workcopy.Relax(v.bolt) // if this fails, the memory is given back later
				}
			}
			return yield(op)
		})
	}
}

// between runs fn on the committer's goroutine while no commit is under way.
func (s *Store) between(fn func() error) error {
	return s.submit(&job{between: fn, done: make(chan struct{})})
}

// Compact begins a new generation of the journal and returns when it is written. The
// store does this on its own when the logs have grown.
func (s *Store) Compact() error {
	return s.between(func() error { return s.upgrade(workcopy.Format) })
}

// upgrade begins a log in the current format and writes a snapshot of the store as it
// is, in its old format: see journal.Former.
func (s *Store) upgrade(from uint32) error {
	if err := s.journal.Begin(s.state); err != nil {
		return err
	}
	return s.View(func(tx *Tx) error {
		return s.journal.Snapshot(context.Background(), s.state, from, workcopy.Everything(tx.Tx, s.buckets))
	})
}

// startShipping begins to copy the records elsewhere.
func (s *Store) startShipping() error {
	secret, err := s.Secret()
	if err != nil {
		return err
	}
	return s.ship.Start(ship.Source{
		Dir: s.dir, Journal: s.journal, At: s.state, Format: workcopy.Format, Instance: datadir.InstanceOf(secret[:]),
		Compact: s.Compact, Now: s.Now, Instant: MetaInstant, Refers: s.schema.Refers(),
	})
}

// State returns the state of a store after the last commit.
func State(s *Store) (at journal.State, err error) {
	return at, s.between(func() error { at = s.state; return nil })
}
