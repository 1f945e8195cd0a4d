package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/record"
)

// owner is what the jobs of a test share.
type owner byte

// task is a job in the store of a test.
type task struct {
	id  int
	of  owner
	due time.Time
}

// store is a durable queue in memory.
type store struct {
	mu    sync.Mutex
	tasks []task
	scans int
	fails bool
	off   time.Duration     // of its clock
	found func(*Queue[int]) // called after a scan unless nil
	do    func(context.Context, task)
	began []task
	log   bytes.Buffer
}

func (s *store) add(q *Queue[int], tasks ...task) {
	s.mu.Lock()
	s.tasks = append(s.tasks, tasks...)
	s.mu.Unlock()
	if q != nil {
		q.Rescan()
	}
}

func (s *store) remove(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = slices.DeleteFunc(s.tasks, func(t task) bool { return t.id == id })
}

func (s *store) scanned() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scans
}

// begun are the ids of the jobs that started since it was last asked.
func (s *store) begun() (ids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.began {
		ids = append(ids, t.id)
	}
	s.began = nil
	return ids
}

const ofOwner = 2 // at once

func (s *store) find(q *Queue[int], _ int) (due []Job[int], wait time.Duration, err error) {
	s.mu.Lock()
	s.scans++
	now := time.Now().Add(s.off)
	for _, t := range s.tasks {
		if left := t.due.Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		due = append(due, Job[int]{
			Key: t.id, Turn: record.ID{byte(t.of)}, Shares: []Share{{t.of, ofOwner}},
			Do: func(ctx context.Context) { s.do(ctx, t) },
		})
	}
	if s.fails {
		due, wait, err = nil, 0, errors.New("no store")
	}
	found := s.found
	s.mu.Unlock()
	if found != nil {
		found(q)
	}
	return due, wait, err
}

// run runs a queue of at most four jobs at once until stop.
func run(t *testing.T, s *store, o Options[int]) (q *Queue[int], stop func()) {
	do := s.do
	s.do = func(ctx context.Context, t task) {
		s.mu.Lock()
		s.began = append(s.began, t)
		s.mu.Unlock()
		do(ctx, t)
	}
	o.Name, o.AtOnce, o.Longest, o.Find, o.Log = "tests", 4, time.Minute, s.find, slog.New(slog.NewTextHandler(&s.log, nil))
	q = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); q.Run(ctx) }()
	return q, func() { cancel(); <-ended }
}

// until is a job that runs until its channel is closed.
func until(s *store, over map[int]chan struct{}) func(context.Context, task) {
	return func(ctx context.Context, t task) {
		select {
		case <-over[t.id]:
			s.remove(t.id)
		case <-ctx.Done():
		}
	}
}

// The one that was served longest ago comes first, and each has one job before
// another has two, and two at most.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s, over := new(store), map[int]chan struct{}{}
		for id := range 100 {
			over[id] = make(chan struct{})
		}
		s.do = until(s, over)
		begun := func() []int {
			t.Helper()
			synctest.Wait()
			ids := s.begun()
			slices.Sort(ids) // those of one scan start at the same time
			return ids
		}
		s.add(nil, task{id: 10, of: 1}, task{id: 11, of: 1}, task{id: 12, of: 1})
		q, stop := run(t, s, Options[int]{})
		defer stop()
		is.Equal(begun(), []int{10, 11}) // though four may run
		s.add(q, task{id: 20, of: 2}, task{id: 21, of: 2}, task{id: 22, of: 2}, task{id: 30, of: 3}, task{id: 31, of: 3})
		is.Equal(begun(), []int{20, 30})
		close(over[20])
		is.Equal(begun(), []int{21}) // of 1 are two, and 2 comes before 3
		close(over[10])
		is.Equal(begun(), []int{12}) // whose turn was longest ago
		s.add(q, task{id: 40, of: 4})
		close(over[21])
		is.Equal(begun(), []int{40}) // whose turn never was
		close(over[30])
		is.Equal(begun(), []int{31})
		close(over[12])
		is.Equal(begun(), []int{22})
		is.Equal(q.Served(record.ID{4}), time.Now())
		q.Forget(func(id record.ID) bool { return id != record.ID{4} })
		is.True(q.Served(record.ID{4}).IsZero())
		is.True(!q.Served(record.ID{2}).IsZero())
	})
}

// What becomes due during a scan, or when a job ends, is found at once.
func TestNoLostWakeUp(t *testing.T) {
	for name, wake := range map[string]func(*Queue[int], chan struct{}){
		"by the store":   func(_ *Queue[int], due chan struct{}) { due <- struct{}{} },
		"by the handler": func(q *Queue[int], _ chan struct{}) { q.Rescan() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				s, due := new(store), make(chan struct{}, 1)
				s.do = func(_ context.Context, t task) { s.remove(t.id) }
				added := false
				s.found = func(q *Queue[int]) {
					if !added {
						added = true
						s.add(nil, task{id: 1})
						wake(q, due)
					}
				}
				begun := time.Now()
				_, stop := run(t, s, Options[int]{Due: due})
				defer stop()
				synctest.Wait()
				is.Equal(s.begun(), []int{1})
				is.Equal(time.Since(begun), time.Duration(0))
			})
		})
	}
}

// A queue scans again before long, though the clock was set back and says that
// the next job is due much later, and sleeps in between.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &store{off: -24 * time.Hour}
		s.do = func(_ context.Context, t task) { s.remove(t.id) }
		s.add(nil, task{id: 1, due: time.Now()})
		_, stop := run(t, s, Options[int]{})
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		is.Equal(s.begun(), nil)
		is.True(s.scanned() <= 62)
		s.mu.Lock()
		s.off = 0
		s.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		is.Equal(s.begun(), []int{1})
	})
}

// When a queue stops, it starts nothing more, and cancels what is still running
// when its time is over.
func TestDrain(t *testing.T) {
	for _, parting := range []time.Duration{0, 3 * time.Second} {
		t.Run(parting.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				s := new(store)
				takes := map[int]time.Duration{1: 2 * time.Second, 2: time.Hour}
				var mu sync.Mutex
				ends := map[int]bool{} // true if cancelled
				s.do = func(ctx context.Context, t task) {
					select {
					case <-time.After(takes[t.id]):
						s.remove(t.id)
					case <-ctx.Done():
					}
					mu.Lock()
					defer mu.Unlock()
					ends[t.id] = ctx.Err() != nil
				}
				s.add(nil, task{id: 1, of: 1}, task{id: 2, of: 1}, task{id: 3, of: 1})
				q, stop := run(t, s, Options[int]{Parting: parting})
				synctest.Wait()
				s.begun()
				begun := time.Now()
				stop()
				is.Equal(time.Since(begun), parting)
				is.Equal(ends, map[int]bool{1: parting == 0, 2: true})
				is.Equal(s.begun(), nil)
				is.Equal(q.Running(2), nil)
			})
		})
	}
}

// A job that panics keeps neither the others nor itself from running, but does
// not run again at once.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := new(store)
		s.do = func(_ context.Context, t task) {
			if t.id == 1 {
				panic("oh no")
			}
			s.remove(t.id)
		}
		s.add(nil, task{id: 1, of: 1}, task{id: 2, of: 1})
		_, stop := run(t, s, Options[int]{})
		synctest.Wait()
		ids := s.begun()
		slices.Sort(ids)
		is.Equal(ids, []int{1, 2})
		time.Sleep(Again - 1)
		is.Equal(s.begun(), nil)
		time.Sleep(10 * Again)
		synctest.Wait()
		is.Equal(s.begun(), slices.Repeat([]int{1}, 10))
		stop() // does not wait for the pause
		is.True(strings.Contains(s.log.String(), "oh no") && strings.Contains(s.log.String(), "queue_test.go"))
	})
}

// A store that cannot be read is asked again before long, and not all the time.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &store{fails: true}
		s.do = func(_ context.Context, t task) { s.remove(t.id) }
		s.add(nil, task{id: 1})
		_, stop := run(t, s, Options[int]{})
		time.Sleep(time.Minute - 1)
		is.Equal(s.scanned(), 12)
		s.mu.Lock()
		s.fails = false
		s.mu.Unlock()
		time.Sleep(Again)
		synctest.Wait()
		is.Equal(s.begun(), []int{1})
		stop()
		is.True(strings.Contains(s.log.String(), "cannot read the queue of tests; trying again"))
	})
}

// One job is cancelled and no other, and its place is free.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := new(store)
		var latest context.Context // of those that have ended
		s.do = func(ctx context.Context, t task) {
			if t.id == 4 {
				latest = ctx
			} else {
				<-ctx.Done()
			}
			s.remove(t.id)
		}
		s.add(nil, task{id: 1, of: 1}, task{id: 2, of: 1}, task{id: 3, of: 1})
		q, stop := run(t, s, Options[int]{})
		defer stop()
		synctest.Wait()
		is.Equal(len(s.begun()), 2)
		is.Equal(q.Running(1).Key, 1)
		s.remove(1)
		q.Cancel(1)
		q.Cancel(99) // is not there
		synctest.Wait()
		is.Equal(q.Running(1), nil)
		is.True(q.Running(2) != nil)
		is.Equal(s.begun(), []int{3})
		s.add(q, task{id: 4, of: 2})
		synctest.Wait()
		is.True(latest.Err() != nil) // it is released when its job ends
	})
}

// Persist repeats the write until it succeeds, the store is closed, or ctx ends.
func TestPersist(t *testing.T) {
	full := errors.New("the disk is full")
	for name, test := range map[string]struct {
		last  error // of the fourth try
		ends  time.Duration
		tries int
		took  time.Duration
	}{
		"in the end": {nil, time.Hour, 4, 3 * Again},
		"closed":     {kv.ErrClosed, time.Hour, 4, 3 * Again},
		"cut off":    {nil, Again + time.Second, 2, Again + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				ctx, cancel := context.WithTimeout(t.Context(), test.ends)
				defer cancel()
				begun, tries := time.Now(), 0
				Persist(ctx, slog.New(slog.DiscardHandler), func() error {
					tries++
					if tries == 4 {
						return test.last
					}
					return full
				})
				is.Equal(tries, test.tries)
				is.Equal(time.Since(begun), test.took)
			})
		})
	}
}

// Whatever is added, fails, panics, is cancelled or cannot be read, the limits
// hold, a queue is never idle while something is due and has room, and in the
// end everything was done.
func TestAnyHistory(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1)) // #nosec G404 -- for tests
			s := new(store)
			var mu sync.Mutex
			running, owned := map[int]bool{}, map[owner]int{}
			s.do = func(ctx context.Context, j task) {
				mu.Lock()
				if running[j.id] {
					t.Errorf("job %d runs twice", j.id)
				}
				running[j.id] = true
				owned[j.of]++
				if owned[j.of] > ofOwner || len(running) > 4 {
					t.Errorf("%d jobs run, %d of owner %d", len(running), owned[j.of], j.of)
				}
				takes, comes := time.Duration(rnd.IntN(5000))*time.Millisecond, rnd.IntN(5)
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					delete(running, j.id)
					owned[j.of]--
				}()
				select {
				case <-time.After(takes):
				case <-ctx.Done():
				}
				switch comes {
				case 0:
					panic("oh no")
				case 1: // it fails
					s.mu.Lock()
					defer s.mu.Unlock()
					for i := range s.tasks {
						if s.tasks[i].id == j.id {
							s.tasks[i].due = time.Now().Add(10 * time.Second)
						}
					}
				default:
					s.remove(j.id)
				}
			}
			q, stop := run(t, s, Options[int]{})
			steps := 0
			for id := range 200 {
				mu.Lock()
				what, of, due := rnd.IntN(10), owner(rnd.IntN(6)), time.Duration(max(0, rnd.IntN(20_000)-10_000))*time.Millisecond
				pause, other := time.Duration(rnd.IntN(1500))*time.Millisecond, rnd.IntN(id+1)
				mu.Unlock()
				s.mu.Lock()
				s.fails = what == 0
				s.mu.Unlock()
				if what == 1 {
					q.Cancel(other)
				}
				s.add(q, task{id, of, time.Now().Add(due)})
				time.Sleep(pause)
				synctest.Wait()
				steps++
				q.mu.Lock()
				s.mu.Lock()
				waits := slices.DeleteFunc(slices.Clone(s.tasks), func(j task) bool {
					return j.due.After(time.Now()) || q.running[j.id] != nil || q.used[j.of] == ofOwner
				})
				if s.fails {
					waits = nil
				}
				s.mu.Unlock()
				if len(waits) > 0 && len(q.running) < 4 {
					t.Errorf("seed %d, step %d: %v wait, and only %d run", seed, steps, waits, len(q.running))
				}
				q.mu.Unlock()
			}
			s.mu.Lock()
			s.fails = false
			s.mu.Unlock()
			time.Sleep(time.Hour)
			synctest.Wait()
			stop()
			if len(s.tasks) > 0 || len(q.running) > 0 || len(q.used) > 0 {
				t.Errorf("seed %d: left %v, running %v, used %v", seed, s.tasks, q.running, q.used)
			}
			if s.scans > 2*len(s.began)+200+200+60*60 {
				t.Errorf("seed %d: %d scans for %d jobs", seed, s.scans, len(s.began))
			}
		})
	}
}

// A scan that read the store before a job ended finds it due still. It is not
// started again.
func TestScanBesideAnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		scans, started, end := 0, 0, make(chan struct{})
		job := Job[int]{Key: 1, Do: func(context.Context) { started++; <-end }}
		q := New(Options[int]{AtOnce: 2, Longest: time.Minute, Log: slog.New(slog.DiscardHandler), Find: func(q *Queue[int], _ int) ([]Job[int], time.Duration, error) {
			switch scans++; scans {
			case 1:
				return []Job[int]{job}, 0, nil
			case 2: // the job ends after this has read the store
				close(end)
				for q.Running(1) != nil {
					time.Sleep(time.Millisecond)
				}
				return []Job[int]{job}, 0, nil
			}
			return nil, 0, nil
		}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); q.Run(ctx) }()
		synctest.Wait()
		q.Rescan()
		time.Sleep(time.Second)
		stop()
		<-ended
		is.Equal(started, 1)
		is.True(scans > 2)
	})
}
