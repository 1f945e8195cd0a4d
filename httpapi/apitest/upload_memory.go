package apitest

import (
	"flag"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

var Long = flag.Bool("long", false, "also upload 1 GiB, and send a zip of 1.5 GiB, in processes of their own and measure that")

// heap is how many bytes of the heap are reachable: garbage of earlier tests is
// no part of it.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // what sync.Pools held goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const MemoryChild = "KIST_TEST_MEMORY_CHILD"

// again runs the test in a process of its own and returns what it said.
func Again(t *testing.T) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), MemoryChild+"=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
