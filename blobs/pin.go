package blobs

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// A Kept is a pin on a blob: no Unlink and no Sweep of the store removes the
// blob before Release. A blob may have any number of pins. Pins live in memory
// only; after a crash only the records say what is referred to.
type Kept struct {
	Ref     Ref
	Size    int64  // in bytes
	CRC     uint32 // CRC-32 (IEEE) of the content, if Summed
	Summed  bool
	Bytes   []byte // the content, if the record's commit must carry it: see Stage.KeepLater
	store   *Store
	release func()
}

// Release ends the pin. Call it when the transaction that refers to the blob
// has committed or has been abandoned. Calls after the first do nothing.
func (k *Kept) Release() { k.release() }

// pin pins an existing blob. With an object store, it fetches one that is missing here.
// The error is fs.ErrNotExist when the blob is gone.
func (s *Store) pin(ref Ref) (*Kept, error) {
	kept := s.names.pin(ref)
	info, err := s.bring(ref)
	if err != nil {
		kept.Release()
		return nil, err
	}
	kept.Size = info.Size
	return kept, nil
}

// bring is Stat. With an object store, it fetches a blob that is missing here.
func (s *Store) bring(ref Ref) (Info, error) {
	info, err := s.Stat(ref)
	if s.cache == nil || !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if err := s.cache.whole(ref, -1, true); err != nil {
		return Info{}, err
	}
	return s.Stat(ref)
}

// Unlink removes the blob if nothing needs it, and reports whether it did.
//
// A blob stays if it is pinned or missing, or if another Unlink is deciding
// about it. Otherwise Unlink calls unreferenced, which checks whether any
// record refers to the blob, in a transaction that begins within the call.
// Unlink removes the blob only if unreferenced returns true. Meanwhile nobody
// can pin this ref: a Keep or Adopt waits and then finds the blob gone, or it
// came first and Unlink leaves the blob alone. So Unlink never removes a blob
// between its pin and the commit of the record it was pinned for. Pins on other
// refs never wait.
//
// Within unreferenced, Keep and Adopt of the same ref would wait forever.
//
// The removal is not synced. A crash may bring the blob back without a record;
// the next sweep then removes it again.
func (s *Store) Unlink(ref Ref, unreferenced func() (bool, error)) (removed bool, err error) {
	_, err = s.Alone(ref, func() error {
		info, err := s.Stat(ref)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		free, err := unreferenced()
		if err != nil {
			return fmt.Errorf("blobs: checking the references to a blob: %w", err)
		}
		if !free {
			return nil
		}

		if err := s.steps.do("unlink", func() error { return s.root.Remove(ref.path()) }); err != nil {
			return fmt.Errorf("blobs: removing a blob: %w", err)
		}
		removed = true
		s.cache.grow(-info.Size)
		s.forget(ref)
		return s.Damaged.release(ref)
	})
	return removed, err
}

// Alone calls fn while nobody can pin the blob, whether or not it exists: a Keep or Adopt of it
// waits. If somebody has pinned it, or is alone with it, fn is not called and alone is false.
func (s *Store) Alone(ref Ref, fn func() error) (alone bool, err error) {
	lock := s.names.hold(ref)
	defer s.names.drop(ref)
	if !lock.TryLock() {
		return false, nil
	}
	defer lock.Unlock()
	return true, fn()
}

// nameLock protects one ref. Pins share it for reading. Unlink takes it for
// writing and never waits for it.
type nameLock struct {
	sync.RWMutex
	users int // how many goroutines hold it, guarded by nameLocks.mu
}

// nameLocks are the locks of the refs that somebody pins or tries to unlink.
type nameLocks struct {
	mu   sync.Mutex
	held map[Ref]*nameLock
}

// hold returns the lock of ref, which exists as long as somebody holds it.
func (n *nameLocks) hold(ref Ref) *nameLock {
	n.mu.Lock()
	defer n.mu.Unlock()
	lock := n.held[ref]
	if lock == nil {
		lock = new(nameLock)
		n.held[ref] = lock
	}
	lock.users++
	return lock
}

func (n *nameLocks) drop(ref Ref) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lock := n.held[ref]
	lock.users--
	if lock.users == 0 {
		delete(n.held, ref)
	}
}

// pin pins ref whether or not the blob exists.
func (n *nameLocks) pin(ref Ref) *Kept {
	lock := n.hold(ref)
	lock.RLock()
	return &Kept{Ref: ref, release: sync.OnceFunc(func() {
		lock.RUnlock()
		n.drop(ref)
	})}
}
