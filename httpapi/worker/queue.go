// Package worker runs what the server does in the background: the jobs of
// durable queues, and imports.
package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kist/kv"
	"kist/kv/record"
)

// Again is how long a queue waits after the store or a job failed.
const Again = 5 * time.Second

// Options say how a Queue works.
type Options[K comparable] struct {
	Name    string          // for the log
	AtOnce  int             // jobs at most
	Longest time.Duration   // at most between two scans, because the clock may have been set
	Parting time.Duration   // for running jobs when the queue stops
	Due     <-chan struct{} // receives a value when something may be due; nil if only Rescan says so
	// Find scans the store for jobs that are due. free is how many more can
	// start. wait is how long until the next one is due, 0 if that is unknown.
	Find func(q *Queue[K], free int) (due []Job[K], wait time.Duration, err error)
	Log  *slog.Logger
}

// A Job is something that is due.
type Job[K comparable] struct {
	Key    K             // jobs with the same key never run at the same time
	Turn   record.ID     // the one whose latest job started longest ago comes first
	Shares []Share       // all of them must have room
	Bytes  *atomic.Int64 // progress; nil if it isn't counted
	Do     func(context.Context)

	ctx  context.Context
	stop context.CancelFunc
}

// A Share limits how many running jobs have something in common.
type Share struct {
	Of  any // comparable
	Max int
}

// A Queue runs the due jobs of a durable queue. The store remembers the jobs, so
// a Queue keeps nothing but what is running.
type Queue[K comparable] struct {
	Options[K]
	rescan chan struct{}

	mu      sync.Mutex
	running map[K]*Job[K]
	ended   map[K]bool  // jobs that have ended since the scan under way began; nil between scans
	used    map[any]int // of the shares
	served  map[record.ID]turn
	started int
}

// turn is when the latest job of a Turn started.
type turn struct {
	n  int // among all that started
	at time.Time
}

// New makes a queue.
func New[K comparable](o Options[K]) *Queue[K] {
	return &Queue[K]{
		Options: o, rescan: make(chan struct{}, 1),
		running: map[K]*Job[K]{}, used: map[any]int{}, served: map[record.ID]turn{},
	}
}

// Run runs due jobs until ctx ends. Then it starts no more, cancels those that
// are still running after Parting, and returns when all have ended.
func (q *Queue[K]) Run(ctx context.Context) {
	jobs, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var work sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		some, wait := q.next(jobs)
		for _, j := range some {
			work.Go(func() { q.do(j) })
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-q.Due:
		case <-q.rescan:
		}
	}
	late := time.AfterFunc(q.Parting, cancel)
	defer late.Stop()
	work.Wait()
}

// next starts due jobs within the limits. wait is how long to wait if nothing
// happens.
func (q *Queue[K]) next(ctx context.Context) (some []*Job[K], wait time.Duration) {
	q.mu.Lock()
	free := q.AtOnce - len(q.running)
	if free == 0 {
		q.mu.Unlock()
		return nil, q.Longest
	}
	q.ended = map[K]bool{} // the store may have been read before they were stored
	q.mu.Unlock()
	due, wait, err := q.Find(q, free)
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.ended = nil }()
	if err != nil {
		q.Log.Error("cannot read the queue of "+q.Name+"; trying again", "error", err)
		return nil, Again
	}
	wait = cmp.Or(wait, q.Longest)
	slices.SortStableFunc(due, func(a, b Job[K]) int { return cmp.Compare(q.served[a.Turn].n, q.served[b.Turn].n) })
	for len(due) > 0 { // each round starts one job of each turn
		had := map[record.ID]bool{}
		var rest []Job[K]
		for _, j := range due {
			if had[j.Turn] {
				rest = append(rest, j)
			} else if q.hasRoom(j) {
				had[j.Turn] = true
				some = append(some, q.start(ctx, j))
			}
		}
		due = rest
	}
	return some, max(min(wait, q.Longest), time.Millisecond)
}

func (q *Queue[K]) hasRoom(j Job[K]) bool {
	return len(q.running) < q.AtOnce && q.running[j.Key] == nil && !q.ended[j.Key] &&
		!slices.ContainsFunc(j.Shares, func(s Share) bool { return q.used[s.Of] >= s.Max })
}

func (q *Queue[K]) start(ctx context.Context, j Job[K]) *Job[K] {
	for _, s := range j.Shares {
		q.used[s.Of]++
	}
	q.started++
	q.served[j.Turn] = turn{q.started, time.Now()}
	j.ctx, j.stop = context.WithCancel(ctx) // #nosec G118 -- called when the job ends, or is cancelled
	q.running[j.Key] = &j
	return &j
}

// do does a job. One that panics keeps its place for a while, since it may be
// due again at once.
func (q *Queue[K]) do(j *Job[K]) {
	defer func() {
		if p := recover(); p != nil {
			q.Log.Error("a job of the queue of "+q.Name+" panicked", "panic", p, "stack", string(debug.Stack()))
			Pause(j.ctx)
		}
		j.stop()
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.running, j.Key)
		if q.ended != nil {
			q.ended[j.Key] = true
		}
		for _, s := range j.Shares {
			q.used[s.Of]--
			if q.used[s.Of] == 0 {
				delete(q.used, s.Of)
			}
		}
		q.Rescan()
	}()
	j.Do(j.ctx)
}

// Rescan makes the queue scan the store for due jobs.
func (q *Queue[K]) Rescan() {
	select {
	case q.rescan <- struct{}{}:
	default: // a scan is already pending
	}
}

// Running is the running job with a key, or nil.
func (q *Queue[K]) Running(key K) *Job[K] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running[key]
}

// Cancel cancels the running job with a key, if there is one. Before that, the
// store must say that the job is cancelled.
func (q *Queue[K]) Cancel(key K) {
	if j := q.Running(key); j != nil {
		j.stop()
	}
}

// Served is when the latest job of a turn started, zero if unknown.
func (q *Queue[K]) Served(id record.ID) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.served[id].at
}

// Forget forgets when the latest jobs of turns started, except those for which
// waits returns true. Find calls it to bound the memory.
func (q *Queue[K]) Forget(waits func(record.ID) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id := range q.served {
		if !waits(id) {
			delete(q.served, id)
		}
	}
}

// Persist calls write until the result of a job is stored: otherwise the job would
// be due again immediately. It gives up when ctx ends or the store is closed.
func Persist(ctx context.Context, log *slog.Logger, write func() error) {
	for {
		err := write()
		if err == nil || errors.Is(err, kv.ErrClosed) {
			return
		}
		log.Error("cannot store the result of a job; trying again", "error", err)
		if !Pause(ctx) {
			return // the next start does the job again
		}
	}
}

// Pause waits after a failure. It returns false if ctx ends first.
func Pause(ctx context.Context) bool {
	timer := time.NewTimer(Again)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
