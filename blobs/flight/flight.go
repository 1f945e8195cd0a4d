// Package flight makes things once for all who ask for them at the same time, and a few at a time.
//
// A Group makes values: callers who ask for the same key while it is made get the same value. Nothing is remembered,
// neither a value nor an error: that is up to the function which makes it. A caller may leave when its context ends.
// What waits for its turn when its last caller leaves is not made. What has begun is made to its end, so that it can
// serve the next.
//
// A Flight is for callers who use a result while it is still coming, and stops when the last of them has left.
package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

var (
	// ErrBusy says that a Group has as many flights as it may have.
	ErrBusy = errors.New("too many others are waiting")

	// ErrClosed says that a Group is closed.
	ErrClosed = errors.New("closed")

	errNoResult = errors.New("flight: the function has not returned")
)

// Turns lets as many run at the same time as its capacity. The others wait, and get their turns in the order in which
// they came.
type Turns chan struct{}

// Take waits for a turn, which ends with Give. It fails if ctx has ended, or ends meanwhile.
func (t Turns) Take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Try takes a turn if there is one now.
func (t Turns) Try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// Give ends a turn.
func (t Turns) Give() { <-t }

// A Flight is work that one caller begins and others join. Each of them leaves, and the last one stops the work.
type Flight struct {
	stop context.CancelFunc // set by Begin
	done chan struct{}      // set by Begin, closed when err is set
	err  error

	mu      sync.Mutex
	callers int
	stays   bool
}

// Begin begins the flight for its first caller. It returns the context of the work, which ends with parent or when all
// have left. The work calls End.
func (f *Flight) Begin(parent context.Context) context.Context {
	ctx, stop := context.WithCancel(parent)
	f.stop, f.done, f.callers = stop, make(chan struct{}), 1
	return ctx
}

// Join adds a caller. It reports false if all others have left: the work is ending without a result.
func (f *Flight) Join() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.callers == 0 && !f.stays {
		return false
	}
	f.callers++
	return true
}

// Leave removes a caller, and reports whether this stops the work.
func (f *Flight) Leave() (stopped bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callers--
	if f.callers > 0 || f.stays {
		return false
	}
	f.stop()
	return true
}

// Stay lets the work go on to its end without callers. It reports false if all have left before.
func (f *Flight) Stay() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stays = f.stays || f.callers > 0
	return f.stays
}

// End ends the flight with the result of the work.
func (f *Flight) End(err error) {
	f.err = err
	f.stop()
	close(f.done)
}

// Wait waits for the end of the flight and returns its result, or the error of ctx if that ends before.
func (f *Flight) Wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ended reports whether the flight has ended.
func (f *Flight) Ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// A Group makes one value at a time for each key. The zero value is ready for use; a group must not be copied.
type Group[K comparable, V any] struct {
	Turns Turns // of the flights; if it is nil, all run at the same time
	Most  int   // flights, with those that wait for their turn; 0 is no limit

	mu      sync.Mutex
	closed  bool
	flights map[K]*making[V]
	work    sync.WaitGroup
}

type making[V any] struct {
	Flight
	value V
}

// Do returns what make returns, which is called once for all who ask for the key until it returns. It is called in
// another goroutine, maybe after Do has returned. Its context is not that of a caller: it ends with Close. If it
// panics, all callers get an error. The other errors of Do are that of ctx, ErrBusy and ErrClosed.
func (g *Group[K, V]) Do(ctx context.Context, key K, make func(context.Context) (V, error)) (v V, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	f, err := g.join(key, make)
	if err != nil {
		return v, err
	}
	defer g.leave(key, f)
	if err := f.Wait(ctx); err != nil {
		return v, err
	}
	return f.value, nil
}

// join returns the flight for a key, and begins one if there is none.
func (g *Group[K, V]) join(key K, make func(context.Context) (V, error)) (*making[V], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	if f := g.flights[key]; f != nil && f.Join() {
		return f, nil
	}
	if g.Most > 0 && len(g.flights) >= g.Most {
		return nil, ErrBusy
	}
	if g.flights == nil {
		g.flights = map[K]*making[V]{}
	}
	f := &making[V]{}
	ctx := f.Begin(context.Background())
	g.flights[key] = f
	g.work.Go(func() { g.fly(ctx, key, f, make) })
	return f, nil
}

func (g *Group[K, V]) leave(key K, f *making[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.Leave() {
		g.drop(key, f)
	}
}

// drop forgets a flight, unless another has taken its place.
func (g *Group[K, V]) drop(key K, f *making[V]) {
	if g.flights[key] == f {
		delete(g.flights, key)
	}
}

// fly makes the value when its turn comes, if somebody still wants it.
func (g *Group[K, V]) fly(ctx context.Context, key K, f *making[V], make func(context.Context) (V, error)) {
	err := ErrClosed
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("flight: %v\n%s", p, debug.Stack())
		}
		g.mu.Lock()
		g.drop(key, f) // before its callers ask again
		g.mu.Unlock()
		f.End(err)
	}()
	if g.Turns != nil {
		if g.Turns.Take(ctx) != nil {
			return
		}
		defer g.Turns.Give()
	}
	if !f.Stay() || ctx.Err() != nil {
		return
	}
	err = errNoResult
	f.value, err = make(ctx)
}

// Close ends the contexts of the flights and waits for them. From then on, Do fails.
func (g *Group[K, V]) Close() {
	g.mu.Lock()
	g.closed = true
	for _, f := range g.flights {
		f.stop()
	}
	g.mu.Unlock()
	g.work.Wait()
}
