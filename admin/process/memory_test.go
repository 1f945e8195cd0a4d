package process

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/matryer/is"
)

// The heap grows to four times of what is in use while that is little, and to
// one and a half times of it when it is much; in between its size stays the same.
func TestGCPercent(t *testing.T) {
	is := is.New(t)
	for live, want := range map[uint64]int{
		0: 300, 1 << 20: 300, 24 << 20: 300, 32 << 20: 200, 40 << 20: 140, 48 << 20: 100, 64 << 20: 50, 1 << 40: 50,
	} {
		is.Equal(gcPercent(live), want)
	}
}

// The pace follows what is in use, up and down again.
func TestPaceGC(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer func() { debug.SetGCPercent(before) }()
	PaceGC()
	now := func(want uint64) {
		t.Helper()
		at := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for deadline := time.Now().Add(time.Minute); ; runtime.GC() {
			metrics.Read(at)
			got := at[0].Value.Uint64()
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d percent, want %d", got, want)
			}
		}
	}
	now(easyPercent)
	func() {
		held := make([]byte, easyHeap)
		now(fullPercent)
		runtime.KeepAlive(held)
	}()
	now(easyPercent)
}
