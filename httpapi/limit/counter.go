package limit

import (
	"maps"
	"sync"
	"time"
)

// MaxCounts bounds the memory of a Counter.
const MaxCounts = 100_000

// A Counter counts events by key. A count starts with the first event and ends after the
// window; nothing removes it earlier. The zero value is ready for use, by one goroutine at
// a time.
type Counter[K comparable] struct {
	counts map[K]count
	swept  time.Time
}

type count struct {
	n     int
	since time.Time
}

// Len is how many keys have a count.
func (t *Counter[K]) Len() int { return len(t.counts) }

// Wait is how long the count stays at or above most; at most 0 if it is below.
func (t *Counter[K]) Wait(key K, most int, window time.Duration, now time.Time) time.Duration {
	if c := t.counts[key]; c.n >= most {
		return c.since.Add(window).Sub(now)
	}
	return 0
}

// Add counts n events. It does not count that of a further key if there are already MaxCounts
// unexpired counts.
func (t *Counter[K]) Add(key K, n int, window time.Duration, now time.Time) {
	c, there := t.counts[key]
	if !there && len(t.counts) >= MaxCounts && now.Sub(t.swept) >= time.Second { // at most once a second, because it looks at all counts
		t.swept = now
		maps.DeleteFunc(t.counts, func(_ K, c count) bool { return now.Sub(c.since) >= window })
	}
	if !there && len(t.counts) >= MaxCounts {
		return
	}
	if t.counts == nil {
		t.counts = map[K]count{}
	}
	if now.Sub(c.since) >= window {
		c = count{since: now}
	}
	c.n += n
	t.counts[key] = c
}

// Remove takes n events back. A count that has ended meanwhile has none to give.
func (t *Counter[K]) Remove(key K, n int) {
	c, there := t.counts[key]
	if !there {
		return
	}
	c.n = max(0, c.n-n)
	t.counts[key] = c
}

// A Rate bounds how often a network or an account does something for which the server writes to
// the disk. Its methods may be called at the same time. The counts are lost when the process ends.
type Rate[K comparable] struct {
	Most   int
	Window time.Duration // from the first event of a key on

	mu      sync.Mutex
	counter Counter[K]
}

// Take counts n events of the key, unless it has had Most of them. Then it returns how
// long the key must wait.
func (r *Rate[K]) Take(from K, n int, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = r.counter.Wait(from, r.Most, r.Window, now)
	if wait > 0 {
		return wait
	}
	r.counter.Add(from, n, r.Window, now)
	return 0
}

// Return takes back n events that were counted and did not happen.
func (r *Rate[K]) Return(from K, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counter.Remove(from, n)
}
