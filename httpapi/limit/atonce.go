package limit

import (
	"errors"
	"sync"
)

var (
	// ErrEach says that one has as much as it may have.
	ErrEach = errors.New("one has too much at once")

	// ErrAll says that all together have as much as they may have.
	ErrAll = errors.New("all have too much at once")
)

// An AtOnce bounds what each key, a network or an account, and all together have at the same
// time, such as exports or bytes. Nobody waits and nobody loses anything: who asks for more is
// refused. All methods may be called at the same time.
type AtOnce[K comparable] struct {
	All  int
	Each int

	mu sync.Mutex
	of map[K]int
	n  int // the sum of of
}

// Take gives n to a key, until Give. It fails with ErrEach or ErrAll if that is too much.
func (a *AtOnce[K]) Take(key K, n int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[key]+n > a.Each {
		return ErrEach
	}
	if a.n+n > a.All {
		return ErrAll
	}
	if a.of == nil {
		a.of = map[K]int{}
	}
	a.of[key] += n
	a.n += n
	return nil
}

// Give takes n back that Take gave to the key.
func (a *AtOnce[K]) Give(key K, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n -= n
	a.of[key] -= n
	if a.of[key] == 0 {
		delete(a.of, key)
	}
}
