package limit

import (
	"maps"
	"sync"
	"time"
)

// maxCounts bounds the memory of a Rate.
const maxCounts = 100_000

// A Rate bounds how often each key, a network or an account, does something. A count starts
// with the first event of its key and ends after the window; nothing removes it earlier. The
// counts are lost when the process ends. All methods may be called at the same time.
//
// Memory is bounded: events of more than maxCounts keys in one window are not counted. So a
// crowd pushes nobody's count out, and locks out nobody else.
type Rate[K comparable] struct {
	Most   int // events in a window
	Window time.Duration

	mu     sync.Mutex
	counts map[K]count
	swept  time.Time // when counts that had ended were last removed
}

type count struct {
	n     int
	since time.Time
}

// Wait is how long the key must wait before its next event; 0 if it need not wait.
func (r *Rate[K]) Wait(key K, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wait(key, now)
}

// Take counts n events of the key, unless it has had Most of them. Then it returns how
// long the key must wait.
func (r *Rate[K]) Take(key K, n int, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = r.wait(key, now)
	if wait == 0 {
		r.add(key, n, now)
	}
	return wait
}

// Left is how many more events the key may have before its count ends, and when that is.
func (r *Rate[K]) Left(key K, now time.Time) (n int, end time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts[key]
	end = c.since.Add(r.Window).Sub(now)
	if end <= 0 {
		return r.Most, r.Window
	}
	return max(0, r.Most-c.n), end
}

// Return takes back n events that were counted and did not happen. A count that has ended
// meanwhile has none to give.
func (r *Rate[K]) Return(key K, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, there := r.counts[key]
	if !there {
		return
	}
	c.n = max(0, c.n-n)
	r.counts[key] = c
}

// wait is Wait for a caller that holds mu.
func (r *Rate[K]) wait(key K, now time.Time) time.Duration {
	c := r.counts[key]
	if c.n < r.Most {
		return 0
	}
	return max(0, c.since.Add(r.Window).Sub(now))
}

// add counts n events. The caller holds mu.
func (r *Rate[K]) add(key K, n int, now time.Time) {
	c, there := r.counts[key]
	if !there && !r.hasRoom(now) {
		return
	}
	if now.Sub(c.since) >= r.Window {
		c = count{since: now}
	}
	c.n += n
	if r.counts == nil {
		r.counts = map[K]count{}
	}
	r.counts[key] = c
}

// hasRoom reports whether a further key may have a count. It removes the counts that have
// ended at most once a second, because it looks at all of them. The caller holds mu.
func (r *Rate[K]) hasRoom(now time.Time) bool {
	if len(r.counts) >= maxCounts && now.Sub(r.swept) >= time.Second {
		r.swept = now
		maps.DeleteFunc(r.counts, func(_ K, c count) bool { return now.Sub(c.since) >= r.Window })
	}
	return len(r.counts) < maxCounts
}
