package search

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Limits for memory during a flood of changes, such as an import. Without them the process would map all of the store
// and the index, and let the heap grow to several times of what is in use.
const (
	floodChanges = 100                   // changes at once that make a flood
	floodCalm    = 5 * time.Second       // time without so many changes that ends it
	leanEvery    = 20 * time.Millisecond // interval between checks of memory
	leanMapped   = 44 << 20              // bytes of files that stay mapped, including the program
	leanHeap     = 88 << 20              // bytes for the runtime, unless twice the live heap is more
)

// watchFloods limits memory during floods, until ctx ends.
func (x *Index) watchFloods(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.flood:
			x.leanFlood(ctx)
		}
	}
}

// leanFlood limits memory until a flood is over.
func (x *Index) leanFlood(ctx context.Context) {
	before := debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetMemoryLimit(before)
		debug.FreeOSMemory()
	}()

	use := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(leanEvery)
	defer tick.Stop()
	set := before
	for over := time.Now().Add(floodCalm); time.Now().Before(over); {
		metrics.Read(use)
		limit := min(before, max(leanHeap, 2*int64(use[0].Value.Uint64())))
		if limit != set { // setting it stops the program for a moment
			debug.SetMemoryLimit(limit)
			set = limit
		}
		select {
		case <-ctx.Done():
			return
		case <-x.flood:
			over = time.Now().Add(floodCalm)
		case <-tick.C:
		}
		if x.o.Mapped != nil && x.o.Mapped() > leanMapped {
			x.mu.RLock()
			if x.live != nil {
				mapped(x.live, release)
			}
			x.mu.RUnlock()
			x.relaxStore()
		}
	}
}
