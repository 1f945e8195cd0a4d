package search

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Bounds of memory in a flood of changes, such as an import. Without them the
// process would map all of the store and of the index, and let the heap grow to
// several times of what is in use.
const (
	floodChanges = 100                   // that come at once make a flood
	floodCalm    = 5 * time.Second       // without so many ends it
	leanEvery    = 20 * time.Millisecond // memory is looked at
	leanMapped   = 44 << 20              // bytes of files that stay mapped, the program among them
	leanHeap     = 88 << 20              // bytes that the runtime takes, unless twice of what is in use is more
)

// noteFlood says that many changes came at once.
func (x *Index) noteFlood() {
	select {
	case x.flood <- struct{}{}:
	default:
	}
}

// watchFloods bounds memory while there are floods, until ctx ends.
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

// leanFlood bounds memory until a flood is over.
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
		if limit := min(before, max(leanHeap, 2*int64(use[0].Value.Uint64()))); limit != set { // setting it stops the program for a moment
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
