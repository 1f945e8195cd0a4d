package admin

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// LimitMemory has the garbage collector work harder before the memory that
// this process may use is gone. The rest is for what the runtime does not
// count and for the system's cache of files, without which every read of the
// store waits for the disk. GOMEMLIMIT, if it is set, stands.
func LimitMemory() {
	bytes, limited, ok := memory()
	if !ok || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	share := bytes / 2 // of a machine, which others use too
	if limited {
		share = bytes / 8 * 5
	}
	debug.SetMemoryLimit(share)
}

// How far the heap may grow before it is collected: to four times of what is in
// use, since little is and most of a request's memory is short-lived; but beyond
// easyHeap only to twice of it, or a flood of large answers, which keeps some
// 50 MiB in use, would take 200.
const (
	easyPercent = 300
	fullPercent = 100
	easyHeap    = 96 << 20 // bytes
)

// gcPercent is the percentage by which the heap may grow when so many bytes of it
// are in use.
func gcPercent(live uint64) int {
	if live <= easyHeap*100/(100+easyPercent) {
		return easyPercent
	}
	return max(fullPercent, int(easyHeap*100/live)-100)
}

// PaceGC sets how far the heap may grow, now and after each collection.
func PaceGC() {
	last := easyPercent
	debug.SetGCPercent(last)
	type collection struct{ _ *byte } // with a pointer, so that it is an object on its own
	var again func(*collection)
	again = func(c *collection) { // is run once a collection has found it unreachable
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if percent := gcPercent(live[0].Value.Uint64()); percent != last {
			debug.SetGCPercent(percent)
			last = percent
		}
		runtime.SetFinalizer(c, again)
	}
	runtime.SetFinalizer(new(collection), again)
}
