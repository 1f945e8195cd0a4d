package kv

import (
	"sync"
	"sync/atomic"
)

// A Slot is where each store keeps in memory what one table has of its own.
type Slot[T any] struct{ _ byte } // two of no size might have one address

// Set has the store keep v.
func (k *Slot[T]) Set(s *Store, v *T) { s.slots.Store(k, v) }

// Of is what the store keeps; a zero T at first.
func (k *Slot[T]) Of(s *Store) *T {
	v, there := s.slots.Load(k)
	if !there {
		v, _ = s.slots.LoadOrStore(k, new(T))
	}
	return v.(*T) //nolint:errcheck // nothing else is filed under k
}

// A Cache keeps in memory what was read of the store, until a commit drops it. A
// reader takes it before it begins to read, and files what it has read in that:
// what it takes late to file goes to a cache that nobody reads any more.
type Cache[T any] struct{ slot Slot[cache[T]] }

type cache[T any] struct{ now atomic.Pointer[T] }

func (c *cache[T]) refresh() { c.now.Store(new(T)) }

// Of is what is kept now.
func (k *Cache[T]) Of(s *Store) *T {
	c := k.slot.Of(s)
	for {
		if v := c.now.Load(); v != nil {
			return v
		}
		c.now.CompareAndSwap(nil, new(T))
	}
}

// In is what a transaction may read and file in: nil in an Update, and in a View
// if a commit has dropped a cache since it began.
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

// Replace begins an empty cache in place of one that has grown too large.
func (k *Cache[T]) Replace(s *Store, full *T) { k.slot.Of(s).now.CompareAndSwap(full, new(T)) }

// Drop empties the cache when the transaction is committed, before that is
// acknowledged.
func (k *Cache[T]) Drop(tx *Tx) { tx.after = append(tx.after, k.slot.Of(tx.s)) }

// Renew empties the cache now.
func (k *Cache[T]) Renew(s *Store) { k.slot.Of(s).refresh() }

// A Signal tells one reader that something may have happened. Several that were
// not received yet are one.
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
	default: // it was not received yet
	}
}

// Of is where the reader waits.
func (k *Signal) Of(s *Store) <-chan struct{} { return k.slot.Of(s).channel() }

// Raise sends the signal when the transaction is committed.
func (k *Signal) Raise(tx *Tx) { tx.after = append(tx.after, k.slot.Of(tx.s)) }

// refresher is what a commit does something with.
type refresher interface{ refresh() }

// everySlot drops all caches and raises all signals.
type everySlot struct{ *Store }

func (s everySlot) refresh() {
	s.slots.Range(func(_, v any) bool {
		if r, ok := v.(refresher); ok {
			r.refresh()
		}
		return true
	})
}
