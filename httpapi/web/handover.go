package web

import (
	"context"
	"sync"
)

// handOvers lets one holder at a time have a key. The next one waits until it is released.
type handOvers[K comparable, H any] struct {
	mu sync.Mutex
	of map[K]held[H]
}

type held[H any] struct {
	by   H
	done chan struct{} // closed when it is released
}

// take waits for a key, until ctx ends. The caller has it until release is called. Unless hurry is
// nil, it is called for each holder that the caller waits for, which cannot release the key meanwhile.
func (all *handOvers[K, H]) take(ctx context.Context, key K, by H, hurry func(H)) (release func(), err error) {
	for {
		all.mu.Lock()
		before, taken := all.of[key]
		if !taken {
			mine := held[H]{by, make(chan struct{})}
			if all.of == nil {
				all.of = map[K]held[H]{}
			}
			all.of[key] = mine
			all.mu.Unlock()
			return func() {
				all.mu.Lock()
				delete(all.of, key)
				all.mu.Unlock()
				close(mine.done)
			}, nil
		}
		if hurry != nil {
			hurry(before.by)
		}
		all.mu.Unlock()

		select {
		case <-before.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
