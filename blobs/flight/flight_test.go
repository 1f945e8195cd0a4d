package flight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/blobs/flight"
)

var errFailed = errors.New("failed")

// A caller asks at a time for a value that takes a while to make, and may leave.
type caller struct {
	key   string
	at    time.Duration
	takes time.Duration
	leave time.Duration // 0: never
	fails func() error  // instead of the result, if it is called
	want  string        // the value, or the beginning of the error
}

// Values are numbered in the order in which their making began.
func TestGroup(t *testing.T) {
	t.Parallel()
	const left = "context canceled"
	fails := func() error { return errFailed }
	panics := func() error { panic("oh no") }
	exits := func() error { runtime.Goexit(); return nil }
	for name, tt := range map[string]struct {
		turns   int // 0: no limit
		most    int
		closed  time.Duration
		callers []caller
		made    int
	}{
		"once for all": {
			made: 1,
			callers: []caller{
				{"a", 0, 5, 0, nil, "a1"},
				{"a", 1, 5, 0, nil, "a1"},
				{"a", 4, 5, 0, nil, "a1"},
			},
		},
		"nothing is remembered": {
			callers: []caller{{"a", 0, 5, 0, nil, "a1"}, {"a", 6, 5, 0, nil, "a2"}}, made: 2,
		},
		"keys are made side by side": {
			callers: []caller{{"a", 0, 5, 0, nil, "a1"}, {"b", 1, 2, 0, nil, "b2"}}, made: 2,
		},
		"a few at a time, in order": {
			turns: 1, made: 3,
			callers: []caller{
				{"a", 0, 5, 0, nil, "a1"},
				{"b", 1, 5, 0, nil, "b2"},
				{"c", 2, 5, 0, nil, "c3"},
				{"b", 3, 5, 0, nil, "b2"},
			},
		},
		"a caller leaves": {
			callers: []caller{{"a", 0, 5, 2, nil, left}, {"a", 1, 5, 0, nil, "a1"}}, made: 1,
		},
		"all leave before its turn": {
			turns: 1, made: 2,
			callers: []caller{
				{"a", 0, 5, 0, nil, "a1"},
				{"b", 1, 5, 3, nil, left},
				{"b", 2, 5, 4, nil, left},
				{"c", 3, 5, 0, nil, "c2"},
			},
		},
		"one is still there at its turn": {
			turns: 1, made: 2,
			callers: []caller{
				{"a", 0, 5, 0, nil, "a1"},
				{"b", 1, 5, 3, nil, left},
				{"b", 2, 5, 0, nil, "b2"},
			},
		},
		"all leave after it has begun, and another comes": {
			made: 1,
			callers: []caller{
				{"a", 0, 9, 2, nil, left},
				{"a", 1, 9, 3, nil, left},
				{"a", 5, 9, 0, nil, "a1"},
			},
		},
		"left and asked for again": {
			turns: 1, made: 2,
			callers: []caller{
				{"a", 0, 9, 0, nil, "a1"},
				{"b", 1, 5, 2, nil, left},
				{"b", 3, 5, 0, nil, "b2"},
			},
		},
		"a context that has ended": {
			callers: []caller{{"a", 5, 5, 1, nil, left}}, made: 0,
		},
		"it fails for all, and not for the next": {
			made: 2,
			callers: []caller{
				{"a", 0, 5, 0, fails, "failed"},
				{"a", 1, 5, 0, nil, "failed"},
				{"a", 6, 5, 0, nil, "a2"},
			},
		},
		"it panics": {
			turns: 1, made: 2,
			callers: []caller{
				{"a", 0, 5, 0, panics, "flight: oh no\n"},
				{"a", 1, 5, 0, nil, "flight: oh no\n"},
				{"b", 2, 5, 0, nil, "b2"},
			},
		},
		"its goroutine ends": {
			turns: 1, made: 2,
			callers: []caller{
				{"a", 0, 5, 0, exits, "flight: the function has not returned"},
				{"b", 2, 5, 0, nil, "b2"},
			},
		},
		"too many": {
			turns: 1, most: 2,
			callers: []caller{
				{"a", 0, 9, 0, nil, "a1"},
				{"b", 1, 9, 4, nil, left},
				{"c", 2, 9, 0, nil, flight.ErrBusy.Error()},
				{"b", 3, 9, 5, nil, left},
				{"c", 6, 9, 0, nil, "c2"},
			}, made: 2,
		},
		"closed": {
			turns: 1, closed: 3,
			callers: []caller{
				{"a", 0, 5, 0, nil, "a1"},
				{"a", 1, 5, 0, nil, "a1"},
				{"b", 2, 5, 0, nil, flight.ErrClosed.Error()},
				{"a", 4, 5, 0, nil, flight.ErrClosed.Error()},
			}, made: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				g := flight.Group[string, string]{Most: tt.most}
				if tt.turns > 0 {
					g.Turns = make(flight.Turns, tt.turns)
				}
				var mu sync.Mutex
				made := 0
				var work sync.WaitGroup
				for _, c := range tt.callers {
					work.Go(func() {
						ctx, leave := context.WithCancel(t.Context())
						defer leave()
						if c.leave > 0 {
							time.AfterFunc(c.leave*time.Second, leave)
						}
						time.Sleep(c.at * time.Second)
						got, err := g.Do(ctx, c.key, func(context.Context) (string, error) {
							mu.Lock()
							made++
							value := fmt.Sprint(c.key, made)
							mu.Unlock()
							time.Sleep(c.takes * time.Second)
							if c.fails != nil {
								return "", c.fails()
							}
							return value, nil
						})
						if err != nil {
							got = err.Error()
						}
						is.True(len(got) >= len(c.want) && got[:len(c.want)] == c.want) // the value, or the error
						is.True(err == nil || len(got) > 3)
					})
				}
				if tt.closed > 0 {
					time.Sleep(tt.closed * time.Second)
					g.Close()
				}
				work.Wait()
				is.Equal(made, tt.made)
				g.Close()
				is.Equal(len(g.Turns), 0)
			})
		})
	}
}

// The context of what is being made has nothing to do with that of a caller, and ends with Close.
func TestGroupClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var g flight.Group[int, int]
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan time.Time, 1)
		result := make(chan error, 1)
		go func() {
			_, err := g.Do(ctx, 1, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				ended <- time.Now()
				return 0, ctx.Err()
			})
			result <- err
		}()
		synctest.Wait()
		leave()
		is.True(errors.Is(<-result, context.Canceled))
		synctest.Wait()
		is.Equal(len(ended), 0)
		g.Close()
		is.Equal(len(ended), 1)
	})
}

// Work that its callers use while it goes on stops when the last has left, unless it has said that it stays.
func TestFlight(t *testing.T) {
	t.Parallel()
	type step struct {
		do   string
		want bool // what it returns
	}
	for name, tt := range map[string]struct {
		steps   []step
		stopped bool
	}{
		"one caller":        {[]step{{"leave", true}}, true},
		"two callers":       {[]step{{"join", true}, {"leave", false}}, false},
		"two callers leave": {[]step{{"join", true}, {"leave", false}, {"leave", true}}, true},
		"too late":          {[]step{{"leave", true}, {"join", false}, {"stay", false}, {"join", false}}, true},
		"it stays":          {[]step{{"stay", true}, {"leave", false}}, false},
		"it stays for others": {
			[]step{{"stay", true}, {"leave", false}, {"join", true}, {"leave", false}, {"stay", true}}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			var f flight.Flight
			ctx := f.Begin(t.Context())
			for _, s := range tt.steps {
				switch s.do {
				case "join":
					is.Equal(f.Join(), s.want)
				case "leave":
					is.Equal(f.Leave(), s.want)
				case "stay":
					is.Equal(f.Stay(), s.want)
				}
			}
			is.Equal(ctx.Err() != nil, tt.stopped)
			is.True(!f.Ended())
			gone, leave := context.WithCancel(t.Context())
			leave()
			is.Equal(f.Wait(gone), context.Canceled)
			f.End(errFailed)
			is.True(f.Ended())
			is.Equal(f.Wait(t.Context()), errFailed)
			is.True(ctx.Err() != nil)
		})
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		turns := make(flight.Turns, 2)
		ended, leave := context.WithCancel(t.Context())
		leave()
		for range 100 { // a context that has ended gets no turn, though there are some
			is.Equal(turns.Take(ended), context.Canceled)
		}
		is.NoErr(turns.Take(t.Context()))
		is.True(turns.Try())
		is.True(!turns.Try())
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		is.Equal(turns.Take(late), context.DeadlineExceeded)
		order := make(chan int, 3)
		for i := range cap(order) {
			go func() {
				is.NoErr(turns.Take(t.Context()))
				order <- i
			}()
			synctest.Wait()
		}
		for i := range cap(order) {
			turns.Give()
			is.Equal(<-order, i)
		}
	})
}

// Many callers come, leave and fail as they like, until the group is closed. Each key is made once at a time, no more
// are made than there are turns, a caller gets what was made after its key was last free, nothing is begun for nobody
// or after Close, and nothing stays.
func TestGroupModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			is := is.New(t)
			random := rand.New(rand.NewPCG(seed, 1))
			g := flight.Group[int, int]{Turns: make(flight.Turns, 1+random.IntN(3)), Most: 3 + random.IntN(4)}
			type made struct{ key, value int }
			var mu sync.Mutex
			closed, running, next := false, 0, 0
			making := map[int]bool{}      // by key
			asking := map[int]int{}       // callers, by key
			left := map[int]time.Time{}   // when the latest of them left
			began := map[made]time.Time{} // of each value
			begin := func(key int) (n int) {
				mu.Lock()
				defer mu.Unlock()
				running++
				is.True(running <= cap(g.Turns))                        // a few at a time
				is.True(!making[key])                                   // once
				is.True(asking[key] > 0 || left[key].Equal(time.Now())) // for somebody
				is.True(!closed)
				making[key] = true
				next++
				began[made{key, next}] = time.Now()
				return next
			}
			end := func(key int) {
				mu.Lock()
				defer mu.Unlock()
				running--
				making[key] = false
			}
			results := map[string]int{}
			var work sync.WaitGroup
			for range 300 {
				key, at, takes := random.IntN(6), random.IntN(2000), time.Duration(random.IntN(40))*time.Millisecond
				leave, fate := time.Duration(1+random.IntN(60))*time.Millisecond, random.IntN(10)
				work.Go(func() {
					time.Sleep(time.Duration(at)*time.Millisecond + time.Duration(key)*time.Microsecond)
					ctx, cancel := context.WithTimeout(t.Context(), leave)
					defer cancel()
					mu.Lock()
					asking[key]++
					mu.Unlock()
					from := time.Now()
					v, err := g.Do(ctx, key, func(context.Context) (int, error) {
						n := begin(key)
						defer end(key)
						time.Sleep(takes)
						switch fate {
						case 0:
							return 0, errFailed
						case 1:
							panic("oh no")
						}
						return n, nil
					})
					mu.Lock()
					defer mu.Unlock()
					asking[key]--
					left[key] = time.Now()
					if err == nil {
						at, known := began[made{key, v}]
						is.True(known) // of this key
						is.True(at.Add(40 * time.Millisecond).After(from))
						results["value"]++
						return
					}
					is.Equal(v, 0)
					switch {
					case errors.Is(err, errFailed):
						results["failed"]++
					case errors.Is(err, context.DeadlineExceeded):
						results["left"]++
					case errors.Is(err, flight.ErrBusy):
						results["busy"]++
					case errors.Is(err, flight.ErrClosed):
						results["closed"]++
					default:
						is.True(err.Error()[:14] == "flight: oh no\n")
						results["panic"]++
					}
				})
			}
			time.Sleep(1500*time.Millisecond + 500*time.Microsecond) // nothing else happens at this instant
			mu.Lock()
			closed = true
			mu.Unlock()
			g.Close()
			is.Equal(running, 0)
			work.Wait()
			is.Equal(len(g.Turns), 0)
			for _, kind := range []string{"value", "failed", "left", "closed", "panic"} {
				is.True(results[kind] > 0) // the test is about all of them
			}
		})
	}
}
