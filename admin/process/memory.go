// Package process sets up the process that kist runs in: its memory, its
// threads, the mode of its files, its signals, and what it tells systemd.
package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// LimitMemory makes the garbage collector work harder before this process has
// used all the memory it may use. The rest is for memory that the runtime does
// not count and for the system's file cache, without which every read of the
// store waits for the disk. If GOMEMLIMIT is set, it takes precedence.
func LimitMemory() {
	bytes, limited, ok := memory()
	if !ok || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	share := bytes / 2 // others use the machine too
	if limited {
		share = bytes / 8 * 5
	}
	debug.SetMemoryLimit(share)
}

// How far the heap may grow before it is collected. A small heap may grow to four
// times the memory in use, because most of a request's memory is short-lived.
// Beyond easyHeap it may grow by half of the memory in use. A flood of large answers
// beside a merge of the search index keeps up to 90 MiB in use, and the process
// would have 200 MiB resident if the heap grew to twice of that.
const (
	easyPercent = 300
	fullPercent = 50
	easyHeap    = 96 << 20 // bytes
)

// gcPercent returns the percentage by which the heap may grow while live bytes of
// it are in use.
func gcPercent(live uint64) int {
	if live <= easyHeap*100/(100+easyPercent) {
		return easyPercent
	}
	return max(fullPercent, int(easyHeap*100/live)-100)
}

// PaceGC sets how far the heap may grow, now and after each collection. If GOGC is
// set, it takes precedence.
func PaceGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	last := easyPercent
	debug.SetGCPercent(last)
	type collection struct{ _ *byte } // the pointer makes it an object on its own
	var again func(*collection)
	again = func(c *collection) { // runs when a collection has found c unreachable
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

// minThreads is the least number of threads that run Go code. On a machine of one
// or two cores one thread often waits for the disk while another builds the search
// index. The system shares out the cores among threads better than the runtime,
// which moves goroutines after a hundredth of a second at the earliest.
const minThreads = 4

// RaiseThreads lets at least minThreads threads run Go code, unless GOMAXPROCS is
// set.
func RaiseThreads() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < minThreads {
		runtime.GOMAXPROCS(minThreads)
	}
}
