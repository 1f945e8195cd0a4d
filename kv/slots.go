package kv

import (
	"sync"
	"sync/atomic"
)

// A Slot is the place where each store keeps the in-memory state of one table.
type Slot[T any] struct{ _ byte } // two variables of size zero might share an address

// Set makes the store keep v.
func (k *Slot[T]) Set(s *Store, v *T) { s.slots.Store(k, v) }

// Of returns what the store keeps; a zero T at first.
func (k *Slot[T]) Of(s *Store) *T {
	v, there := s.slots.Load(k)
	if !there {
		v, _ = s.slots.LoadOrStore(k, new(T))
	}
	return v.(*T) //nolint:errcheck // nothing else is stored under k
}

// A Cache keeps data read from the store in memory until a commit drops it. A reader
// takes the cache before it starts to read and adds what it has read. If a commit
// dropped the cache in between, the late addition goes to one that nobody reads.
type Cache[T any] struct{ slot Slot[cache[T]] }

type cache[T any] struct{ now atomic.Pointer[T] }

func (c *cache[T]) refresh() { c.now.Store(new(T)) }

// Of returns the current cache.
func (k *Cache[T]) Of(s *Store) *T {
	c := k.slot.Of(s)
	for {
		if v := c.now.Load(); v != nil {
			return v
		}
		c.now.CompareAndSwap(nil, new(T))
	}
}

// In returns the cache that a transaction may read and fill. It is nil in an Update,
// and in a View if a commit dropped any cache since the View began.
func (k *Cache[T]) In(tx *Tx) *T {
	if tx.write {
		return nil
	}
	v := k.Of(tx.s)
	if tx.s.drops.Load() != tx.drops {
		return nil
	}
	return v
}

// Replace swaps a cache that has grown too large for an empty one.
func (k *Cache[T]) Replace(s *Store, full *T) { k.slot.Of(s).now.CompareAndSwap(full, new(T)) }

// Drop empties the cache when the transaction is committed, before the commit is
// acknowledged.
func (k *Cache[T]) Drop(tx *Tx) { tx.after = append(tx.after, k.slot.Of(tx.s)) }

// Renew empties the cache now.
func (k *Cache[T]) Renew(s *Store) { k.slot.Of(s).refresh() }

// A Signal tells one reader that something may have happened. Signals that are not
// received in time become one.
type Signal struct{ slot Slot[signal] }

type signal struct {
	once sync.Once
	c    chan struct{}
}

func (g *signal) channel() chan struct{} {
	g.once.Do(func() { g.c = make(chan struct{}, 1) })
	return g.c
}

func (g *signal) refresh() {
	select {
	case g.channel() <- struct{}{}:
	default: // the previous one was not received yet
	}
}

// Of returns the channel on which the reader waits.
func (k *Signal) Of(s *Store) <-chan struct{} { return k.slot.Of(s).channel() }

// Raise sends the signal when the transaction is committed.
func (k *Signal) Raise(tx *Tx) { tx.after = append(tx.after, k.slot.Of(tx.s)) }

// refresher is a cache or signal that a commit refreshes.
type refresher interface{ refresh() }
