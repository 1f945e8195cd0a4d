package apitest

import (
	"flag"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/people"
	"kist/kv/record"
)

// Holding is a request of an account that holds memory.
func (a *App) Holding(account byte) *web.Request {
	return &web.Request{
		Site: a.Server.Site, R: httptest.NewRequest("GET", "/", nil),
		Caller: &people.Caller{User: people.User{ID: record.ID{account}}},
	}
}

// FillMemory holds all memory for requests, until free. Nothing may run.
func (a *App) FillMemory() (free func()) {
	a.Helper()
	a.Server.Running.Wait()
	var all []*web.Request
	for n := int64(limit.MemoryBytes); n > 0; n /= 2 {
		for account := range byte(10) {
			c := a.Holding(account)
			for ; c.TryHold(n); c = a.Holding(account) {
				all = append(all, c)
			}
		}
	}
	return func() {
		for _, c := range all {
			c.ReleaseMemory()
		}
	}
}

var Long = flag.Bool(
	"long", false, "also upload 1 GiB, and send a zip of 1.5 GiB, in processes of their own and measure that",
)

// Heap is how many bytes of the heap are reachable: garbage of earlier tests is
// no part of it.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // what sync.Pools held goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const MemoryChild = "KIST_TEST_MEMORY_CHILD"

// Again runs the test in a process of its own and returns what it said.
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
