package search

import (
	"context"
	"slices"
	"sync"
)

// turns lets so many run at a time, in the order in which they came.
type turns struct {
	mu      sync.Mutex
	limit   int
	running int
	waiting []chan struct{}
}

// take waits for a turn, which ends with give. It fails when ctx ends.
func (t *turns) take(ctx context.Context) error {
	t.mu.Lock()
	mine := make(chan struct{})
	t.waiting = append(t.waiting, mine)
	t.begin()
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(t.waiting, mine); at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
	} else { // it came at the same moment
		t.running--
		t.begin()
	}
	return ctx.Err()
}

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	t.begin()
}

// allow changes how many run at a time.
func (t *turns) allow(limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = limit
	t.begin()
}

// begin begins the turns of those who wait, as far as they may run.
func (t *turns) begin() {
	for t.running < t.limit && len(t.waiting) > 0 {
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
		t.running++
	}
}
