package kv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/workcopy"
)

// spared is what of cache/ a start gives up on a full disk, in this order. All of it is made
// again once there is room.
var spared = [][]string{{ballastName}, {"index", "thumbs", "pictures", "icons"}}

// inRoom runs a step of the start. If it finds no room on the disk, inRoom gives up files of
// cache/ and runs it again: those that are made again, and at last what last removes.
func (s *Store) inRoom(step func() error, last func() (removed bool, err error)) error {
	err := step()
	for _, names := range spared {
		if !workcopy.NoRoom(err) {
			return err
		}
		removed, failed := s.giveUp(names)
		if failed != nil {
			return fmt.Errorf("%w; %w", err, failed)
		}
		if removed {
			err = step()
		}
	}
	if !workcopy.NoRoom(err) || last == nil {
		return err
	}

	removed, failed := last()
	if failed != nil {
		return fmt.Errorf("%w; %w", err, failed)
	}
	if removed {
		err = step()
	}
	return err
}

// giveUp removes entries of cache/ and reports whether there were any.
func (s *Store) giveUp(names []string) (removed bool, err error) {
	for _, name := range names {
		path := filepath.Join(s.dir, "cache", name)
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return removed, fmt.Errorf("cannot make room: %w", err)
		}
		s.log.Warn("the disk is full; a part of cache/ was removed to make room", "removed", name)
		removed = true
	}
	return removed, nil
}

// giveUpCopy removes a working copy that this start will not open. It keeps one that may have
// what the journal lacks: where the journal cannot be read to its end, ends before the last stop,
// or belongs to another instance.
func (s *Store) giveUpCopy(clean datadir.Proof, certified bool) (removed bool, err error) {
	if certified && clean.Holds(filepath.Join(s.dir, "cache", "kist.db")) {
		return false, nil
	}
	var secret []byte
	done, err := s.journal.Replay(
		func() error {
			secret = nil
			return nil
		},
		func(ops []journal.Op) error {
			for _, op := range ops {
				if op.Bucket == workcopy.MetaBucket.No && bytes.Equal(op.Key, MetaSecret) {
					secret = bytes.Clone(op.Value)
				}
			}
			return nil
		},
	)
	if err != nil {
		return false, err
	}
	if certified && done.Seq < clean.Seq {
		return false, nil
	}
	if err := belongs(s.dir, secret); err != nil {
		return false, err
	}
	if err := lastRecord(s.dir, s.buckets, done); err != nil {
		return false, err
	}
	return s.giveUp([]string{"kist.db"})
}
