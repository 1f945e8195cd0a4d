package blobs

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kist/blobs/flight"
)

// ErrAway says that a content is not on the disk and that the object store, which
// may have it, cannot be read now.
var ErrAway = errors.New("the object store cannot be reached")

// A cache is the second place of a store: an object store that has the contents, or
// will have them, and what is known about their use on the disk. A nil cache is that
// of a store without one.
type cache struct {
	store  *Store
	remote Remote
	limit  int64 // of the contents on the disk, in bytes; 0 means no limit
	free   func() int64
	retry  time.Duration // fetchRetry, except in tests
	log    *slog.Logger
	ctx    context.Context
	end    context.CancelFunc
	work   sync.WaitGroup
	wake   chan struct{} // the contents may be over the limit
	pulls  flight.Turns  // of fetches
	direct flight.Turns  // of answers of the object store that a visitor reads

	here    atomic.Int64 // bytes of the contents on the disk, as far as is known
	coming  atomic.Int64 // bytes that running fetches will add
	hits    atomic.Uint64
	misses  atomic.Uint64
	fetched atomic.Int64

	evicting sync.Mutex    // held while contents are evicted
	counted  bool          // here is right; guarded by evicting like rest
	rest     time.Time     // nothing is evicted before
	resting  time.Duration // the latest rest; 0 if something was evicted since

	mu      sync.Mutex
	fetches map[Ref]*fetch
	bad     map[Ref]time.Time // contents with wrong bytes in the object store, and when they were read
	used    map[Ref]*list.Element
	order   list.List // of use, the latest first
	latest  int64     // the time of the latest use
}

// A use is an element of cache.order.
type use struct {
	ref Ref
	at  int64 // in nanoseconds since 1970
}

// Bounds of a cache.
const (
	maxPulls   = 8
	maxDirect  = 64
	maxUsed    = 1 << 16 // contents whose last use is known; others have the time of their file
	maxBad     = 1024
	evictBatch = 4096             // contents that are chosen in one walk
	maxRefused = 256              // contents in a walk that cannot be evicted
	evictRest  = 4 * time.Second  // after a walk that could evict nothing; doubled after another
	evictMost  = time.Minute      // and this at most
	evictWait  = 10 * time.Second // for the object store
	badFor     = time.Minute      // how long wrong bytes are not fetched again
)

// CacheStatus is what a cache has done since the start.
type CacheStatus struct {
	Hits, Misses uint64 // contents that were opened, on the disk and not
	Fetched      int64  // bytes read from the object store
	Here         int64  // bytes of the contents on the disk
}

// PutBehind puts an object store behind the store. Contents that are not on the disk, or
// damaged there, are fetched from it. If limit is not 0, contents that are on the disk
// and in the object store are removed from the disk, those that were not used for
// longest first, so that the rest has at most limit bytes. What is not in the object
// store stays. Call PutBehind before more than one goroutine uses the store; Close ends
// what it starts. free says how many bytes may be added to the disk.
func (s *Store) PutBehind(remote Remote, limit int64, free func() int64, log *slog.Logger) {
	c := &cache{
		store: s, remote: remote, limit: limit, free: free, retry: fetchRetry, log: log, wake: make(chan struct{}, 1),
		pulls: make(flight.Turns, maxPulls), direct: make(flight.Turns, maxDirect),
		fetches: map[Ref]*fetch{}, bad: map[Ref]time.Time{}, used: map[Ref]*list.Element{},
	}
	c.ctx, c.end = context.WithCancel(context.Background())
	s.cache, s.Damaged.heal = c, c.heal
	c.work.Go(c.run)
}

// CacheStatus returns what was done since the start. ok is false without an object store.
func (s *Store) CacheStatus() (st CacheStatus, ok bool) {
	c := s.cache
	if c == nil {
		return st, false
	}
	return CacheStatus{c.hits.Load(), c.misses.Load(), c.fetched.Load(), c.here.Load()}, true
}

// run counts the contents and evicts some when new ones need the space.
func (c *cache) run() {
	for {
		var again <-chan time.Time
		if !c.evict() { // new contents are not in the object store at once
			again = time.After(evictRest)
		}
		select {
		case <-c.ctx.Done():
			return
		case <-c.wake:
		case <-again:
		}
	}
}

func (c *cache) stop() {
	if c != nil {
		c.mu.Lock() // join begins nothing after that
		c.end()
		c.mu.Unlock()
		c.work.Wait()
	}
}

// grow counts bytes that were added to the contents on the disk, or removed.
func (c *cache) grow(n int64) {
	if c == nil {
		return
	}
	c.here.Add(n)
	if n > 0 && c.over() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// hit notes that a content was opened on the disk.
func (c *cache) hit(ref Ref) {
	if c != nil {
		c.hits.Add(1)
		c.touch(ref)
	}
}

// touch notes a use of a content.
func (c *cache) touch(ref Ref) {
	if c.limit == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = max(c.latest+1, time.Now().UnixNano())
	if e := c.used[ref]; e != nil {
		e.Value = use{ref, c.latest}
		c.order.MoveToFront(e)
		return
	}
	if c.order.Len() == maxUsed {
		delete(c.used, c.order.Remove(c.order.Back()).(use).ref)
	}
	c.used[ref] = c.order.PushFront(use{ref, c.latest})
}

// forget drops what is known about a content that is not on the disk any more.
func (c *cache) forget(ref Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.used[ref]; e != nil {
		c.order.Remove(e)
		delete(c.used, ref)
	}
}

// room makes room for n bytes and reports whether there is enough. If so, the caller
// has to take n from c.coming when they have arrived or will not arrive.
func (c *cache) room(n int64) bool {
	if c.limit > 0 && n > c.limit || c.full(n) {
		return false
	}
	c.coming.Add(n)
	if !c.over() || c.evict() {
		return true
	}
	c.coming.Add(-n)
	return false
}

// full reports whether the disk has no room for n more bytes.
func (c *cache) full(n int64) bool { return c.free() < c.coming.Load()+n }

// Sound is Prove, but it does not fetch the blob if the object store has it. Then it
// returns no error, and a damaged copy on the disk is replaced in the background.
func (s *Store) Sound(ref Ref) error {
	err := s.proveHere(ref)
	if s.cache == nil || !elsewhere(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(s.cache.ctx, evictWait)
	defer cancel()
	if _, there := s.cache.remote.Head(ctx, ref.RemoteName()); there != nil {
		return worse(err, away(there))
	}
	return nil
}

// Lost reports whether the blob is missing or damaged on the disk and nothing else
// may have it. It does not ask the object store.
func (s *Store) Lost(ref Ref) bool {
	_, err := s.Stat(ref)
	return s.cache == nil && (err != nil || s.Damaged.Err(ref) != nil)
}

// A spare content could be evicted.
type spare struct {
	Info
	used int64
}

// evict removes contents from the disk until a tenth of the limit is free, if they
// are over the limit, and reports whether they are not any more.
func (c *cache) evict() bool {
	c.evicting.Lock()
	defer c.evicting.Unlock()
	if c.counted && !c.over() || time.Now().Before(c.rest) {
		return c.counted && !c.over()
	}
	for c.ctx.Err() == nil {
		all, err := c.spares()
		need := c.here.Load() + c.coming.Load() - c.limit
		if err != nil || c.limit == 0 || need <= 0 {
			break
		}

		need += c.limit / 10
		gone, refused := 0, 0
		for _, one := range all {
			if need <= 0 || refused == maxRefused || c.ctx.Err() != nil {
				break
			}
			var ok bool
			ok, err = c.evictOne(one)
			if err != nil {
				break
			}
			if !ok {
				c.touch(one.Ref) // others are tried first the next time
				refused++
				continue
			}
			need -= one.Size
			gone++
		}

		if err != nil || gone == 0 {
			c.resting = min(max(2*c.resting, evictRest), evictMost)
			c.rest = time.Now().Add(c.resting)
			break
		}
		c.resting = 0
	}
	return !c.over()
}

// over reports whether the contents are over the limit.
func (c *cache) over() bool {
	return c.limit > 0 && c.here.Load()+c.coming.Load() > c.limit
}

// spares counts the contents on the disk and returns those that were not used for
// longest, first the one that was used first.
func (c *cache) spares() ([]spare, error) {
	var all []spare
	sort := func() {
		slices.SortFunc(all, func(a, b spare) int {
			return cmp.Or(cmp.Compare(a.used, b.used), bytes.Compare(a.Ref[:], b.Ref[:]))
		})
		all = all[:min(len(all), evictBatch)]
	}

	before, total := c.here.Load(), int64(0)
	for info, err := range c.store.All() {
		if errors.Is(err, ErrForeign) {
			continue
		}
		if err != nil || c.ctx.Err() != nil {
			return nil, cmp.Or(err, c.ctx.Err())
		}
		total += info.Size
		if c.limit == 0 {
			continue
		}
		all = append(all, spare{info, c.usedAt(info)})
		if len(all) == 2*evictBatch {
			sort()
		}
	}
	c.here.Add(total - before) // what changed meanwhile is counted beside it
	c.counted = true
	sort()
	return all, nil
}

// usedAt returns when the content was last used or written.
func (c *cache) usedAt(info Info) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.used[info.Ref]; e != nil {
		return e.Value.(use).at
	}
	return info.ModTime.UnixNano()
}

// evictOne removes a content from the disk if the object store has it and nobody
// needs it here. The error says that the object store does not answer.
func (c *cache) evictOne(one spare) (done bool, err error) {
	c.mu.Lock()
	_, bad := c.bad[one.Ref]
	c.mu.Unlock()
	if bad { // the object store has other bytes
		return false, nil
	}

	ctx, cancel := context.WithTimeout(c.ctx, evictWait)
	defer cancel()
	_, err = c.store.Alone(one.Ref, func() error {
		there, err := c.remote.Head(ctx, one.Ref.RemoteName())
		if errors.Is(err, fs.ErrNotExist) || err == nil && there.Size != one.Size {
			return nil
		}
		if err != nil {
			return err
		}
		info, gone := c.store.Stat(one.Ref)
		if gone != nil || info != one.Info || c.usedAt(info) != one.used { // it is not the same any more
			return nil
		}

		if c.store.steps.do("evict", func() error { return c.store.root.Remove(one.Ref.path()) }) != nil {
			return nil
		}
		done = true
		c.grow(-one.Size)
		c.store.forget(one.Ref)
		c.forget(one.Ref)
		if err := c.store.Damaged.release(one.Ref); err != nil {
			c.log.Warn("the marker of a damaged file could not be removed", "error", err)
		}
		return nil
	})
	return done, err
}
