package limit

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestRateLeft(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := Rate[int]{Most: 5, Window: time.Minute}
	r.Take(1, 3, now)
	r.Take(2, 7, now) // more than it may have, at once
	for _, row := range []struct {
		key   int
		after time.Duration
		n     int
		end   time.Duration
	}{
		{1, 0, 2, time.Minute},
		{1, 59 * time.Second, 2, time.Second},
		{1, time.Minute, 5, time.Minute},
		{2, 20 * time.Second, 0, 40 * time.Second},
		{3, 0, 5, time.Minute},
	} {
		if n, end := r.Left(row.key, now.Add(row.after)); n != row.n || end != row.end {
			t.Errorf("%d after %v: %d for %v, want %d for %v", row.key, row.after, n, end, row.n, row.end)
		}
	}
}

// TestRate: each network has so many events in a window, however many ask at once.
func TestRate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := Rate[netip.Prefix]{Most: 5, Window: time.Minute}
	var all sync.WaitGroup
	var taken atomic.Int32
	for range 50 {
		all.Go(func() {
			if r.Take(net4(1), 1, now) == 0 {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	is.Equal(taken.Load(), int32(5))

	for _, row := range []struct {
		network int
		after   time.Duration
		wait    time.Duration
	}{
		{1, 20 * time.Second, 40 * time.Second},
		{2, 20 * time.Second, 0},
		{1, time.Minute, 0},
		{1, 61 * time.Second, 0}, // of a new window
	} {
		is.Equal(r.Take(net4(row.network), 1, now.Add(row.after)), row.wait)
	}
}
