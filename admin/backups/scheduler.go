package backups

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"kist/admin/console"
	"kist/admin/ops"
	"kist/kv/datadir"
)

// Times of the schedule.
const (
	// lateAfter is the age of the last good backup from which on one is made at once.
	lateAfter = 26 * time.Hour
	// firstRetry is how soon a failed backup is tried again; each further time it takes twice as long.
	firstRetry = time.Hour
	// lookEvery is how often the wall clock is read, which may leap and goes on while a machine sleeps.
	lookEvery = 10 * time.Minute
	// tellEvery is the least time between two reports of failures that follow each other.
	tellEvery = 20 * time.Hour
)

// A Clock tells the time and waits.
type Clock struct {
	Now   func() time.Time // in the zone of the schedule
	After func(time.Duration) <-chan time.Time
}

// SystemClock is the machine's. Its times have no monotonic part: they show when the clock was set back.
func SystemClock() Clock {
	return Clock{func() time.Time { return time.Now().Round(0) }, time.After}
}

// Options are what a Scheduler needs. All are required.
type Options struct {
	Folder string // see Init
	At     TimeOfDay
	Keep   Keep
	Job    ops.Job // on the data directory
	Clock  Clock
	Log    *slog.Logger
	// Failed tells the administrators that a backup failed or is late. last is when the last good
	// one was made; zero if never.
	Failed func(why string, last time.Time)
}

// A Scheduler makes backups by schedule. Its methods may be called by any number of goroutines at
// once, on a nil Scheduler too. They touch no disk, which may hang.
type Scheduler struct {
	o     Options
	begun time.Time          // when the server started
	step  func(string) error // before each step on the disk; does nothing except in tests

	wake chan struct{} // has a value if a backup is asked for

	mu       sync.Mutex
	all      []datadir.Backup // the newest first
	noted    time.Time        // up to when the data directory says that a backup has everything; for a missing folder
	next     time.Time
	running  time.Time   // since when; zero if none is being made
	asked    chan<- made // gets what comes of the running or next one; nil if nobody asked
	failure  string      // of the latest run; "" if it was good
	failures int64       // runs that failed since the start
}

// made is what came of a run.
type made struct {
	done *ops.BackedUp // nil if no backup was made
	err  error
}

// New makes a Scheduler. It does nothing before Run.
func New(o Options) *Scheduler {
	o.Job = quiet(o.Job)
	return &Scheduler{
		o: o, begun: o.Clock.Now(), all: []datadir.Backup{}, step: func(string) error { return nil },
		wake: make(chan struct{}, 1),
	}
}

// Status describes the backups; nil on a nil Scheduler.
func (s *Scheduler) Status() *datadir.BackupStatus {
	if s == nil {
		return nil
	}
	now := s.o.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &datadir.BackupStatus{
		Folder: s.o.Folder, At: s.o.At.String(), Keep: s.o.Keep.String(),
		Last: s.last(now), Next: s.next, Running: !s.running.IsZero(), Error: s.failure, Failures: s.failures,
	}
	patience := st.Running && now.Sub(s.running) <= lateAfter || s.next.IsZero() // it has just started
	if st.Error == "" && now.Sub(st.Last) > lateAfter && !patience {
		st.Error = lateText(st.Last, s.running, now.Location())
	}
	return st
}

// last is when the last good backup was made, as far as that is known; zero if never. The caller
// holds mu.
func (s *Scheduler) last(now time.Time) time.Time {
	if len(s.all) == 0 {
		return s.noted
	}
	return lastGood(s.all, now)
}

// lateText says that the last good backup is too old.
func lateText(last, running time.Time, zone *time.Location) string {
	const layout = "2006-01-02 15:04"
	text := "No backup has been made yet"
	if !last.IsZero() {
		text = "The last good backup is of " + last.In(zone).Format(layout)
	}
	if !running.IsZero() {
		text += ", and the one that began at " + running.In(zone).Format(layout) + " is not done"
	}
	return text + "."
}

// List returns the backups, the newest first, as the last run has found them. Callers must not
// change the list.
func (s *Scheduler) List() []datadir.Backup {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// lastGood is when the last good backup was made; zero if never.
func lastGood(all []datadir.Backup, now time.Time) time.Time {
	all = credible(all, now)
	i := slices.IndexFunc(all, datadir.Backup.OK)
	if i < 0 {
		return time.Time{}
	}
	return all[i].At
}

// A plan is when the next backup is made.
type plan struct {
	since  time.Time // from when on the schedule counts: the end of the latest run, or the start
	failed int       // runs in a row
	ran    bool      // since the start
}

// next is the next moment. A missed backup is made up for at the start, and where the clock leapt
// ahead or the machine slept. A failed one is tried again before its next night.
func (p plan) next(at TimeOfDay, last, now time.Time) time.Time {
	night := at.After(p.since.In(now.Location()))
	if p.failed > 0 {
		again := p.since.Add(firstRetry << min(p.failed-1, 10))
		if again.Before(night) {
			return again
		}
		return night
	}
	if !p.ran && now.Sub(last) > lateAfter {
		return now
	}
	return night
}

// Begin has a backup made at once. It returns false if one is being made.
func (s *Scheduler) Begin() bool {
	_, begun := s.ask()
	return begun
}

// ErrRunning says that a backup is being made.
var ErrRunning = errors.New("a backup is being made already; wait until it is done")

// Make makes a backup at once, and waits for it. The result is as that of the function Make. The error is ErrRunning
// if one is being made. The backup is made also if ctx ends.
func (s *Scheduler) Make(ctx context.Context) (*ops.BackedUp, error) {
	result, begun := s.ask()
	if !begun {
		return nil, ErrRunning
	}
	select {
	case got := <-result:
		return got.done, ignoreLacking(got.err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errStopped = errors.New("the server stops; the backup was not made")

// ask has a backup made at once, unless one is being made. result gets what came of it.
func (s *Scheduler) ask() (result <-chan made, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running.IsZero() {
		return nil, false
	}
	answer := make(chan made, 1)
	s.running, s.asked = s.o.Clock.Now(), answer
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return answer, true
}

// begin notes that a backup is made from now on. It is the one that was asked for, if one was.
func (s *Scheduler) begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = now
	select {
	case <-s.wake:
	default:
	}
}

// Run makes backups until ctx ends. It ends a running backup then, and returns when that has ended.
func (s *Scheduler) Run(ctx context.Context) {
	if s == nil {
		return
	}
	s.look()
	defer s.answer(made{err: errStopped})
	p := plan{since: s.begun}
	var told time.Time // when the administrators were last told of this row of failures
	for {
		if !s.wait(ctx, &p) {
			return
		}
		err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		p.since, p.ran = s.o.Clock.Now(), true
		if err == nil {
			p.failed, told = 0, time.Time{}
			continue
		}

		p.failed++
		if errors.As(err, new(*lacking)) {
			p.failed = 0 // there is a backup; trying again would not find the files
		}
		if told.IsZero() || p.since.Sub(told) > tellEvery {
			told = p.since
			s.o.Failed(console.Sentence(err.Error()), s.Status().Last)
		}
	}
}

// look finds out what backups there are when the server starts. What the folder has is noted in the data directory,
// which may know of none or of older ones after a restore. If the folder cannot be read, the data directory knows more.
func (s *Scheduler) look() {
	all, err := List(s.o.Folder)
	if err != nil || sameInstance(all, s.o.Job.Dir) != nil {
		noted, _ := ops.LastBackup(s.o.Job.Dir) // zero if none is known
		s.set(func() { s.noted = noted })
		return
	}
	s.set(func() { s.all = all })
	s.noteLast(lastGood(all, s.o.Clock.Now()))
}

// noteLast notes in the data directory when the last good backup was made.
func (s *Scheduler) noteLast(at time.Time) {
	if !at.IsZero() {
		s.o.Job.NoteBackup(at)
	}
}

// wait waits for the next backup. It returns false if ctx ends first.
func (s *Scheduler) wait(ctx context.Context, p *plan) bool {
	for {
		now := s.o.Clock.Now()
		if now.Before(p.since) { // the clock was set back
			p.since = now
		}
		next := p.next(s.o.At, lastGood(s.List(), now), now)
		s.set(func() { s.next = next })
		if !next.After(now) {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.wake:
			return true
		case <-s.o.Clock.After(min(next.Sub(now), lookEvery)):
		}
	}
}

// once makes a backup and notes what came of it. While it takes too long, that is told.
func (s *Scheduler) once(ctx context.Context) error {
	began := s.o.Clock.Now()
	s.begin(began)
	job := s.o.Job
	job.Ended = ctx.Err
	r := &run{
		folder: s.o.Folder, job: job, keep: s.o.Keep, zone: began.Location(), now: s.o.Clock.Now, log: s.o.Log,
		step: s.step, all: s.List(),
		named: func(all []datadir.Backup) { s.set(func() { s.all = all }) },
	}
	done := make(chan error, 1)
	go func() { done <- r.make() }() // it is waited for below
	err := s.attend(done, began)

	s.ended(ctx, r, err)
	s.answer(made{r.done, err})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.o.Log.Error("the backup has failed", "to", s.o.Folder, "error", err)
	default:
		s.noteLast(lastGood(r.all, s.o.Clock.Now()))
	}
	if r.done != nil {
		s.noteFolder()
	}
	return err
}

// answer tells what came of a run to the caller who asked for it, if one did.
func (s *Scheduler) answer(m made) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked != nil {
		s.asked <- m // it has room for one
		s.asked = nil
	}
}

// ended notes what came of a run.
func (s *Scheduler) ended(ctx context.Context, r *run, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.all = time.Time{}, slices.Clone(r.all)
	if ctx.Err() != nil {
		return
	}
	s.failure = ""
	if err != nil {
		s.failure = console.Sentence(err.Error())
		s.failures++
	}
}

// noteFolder notes in the data directory which folder is used, and says if it is another one than before.
func (s *Scheduler) noteFolder() {
	before := usedBefore(s.o.Job.Dir)
	if before != "" && before != s.o.Folder {
		s.o.Log.Warn("backups are made in another folder from now on", "folder", s.o.Folder, "before", before)
	}
	if err := noteUsed(s.o.Job.Dir, s.o.Folder); err != nil {
		s.o.Log.Warn("the folder for backups is not noted in the data directory", "error", err)
	}
}

// attend waits for a backup. It tells once if it takes longer than the time between two.
func (s *Scheduler) attend(done <-chan error, began time.Time) error {
	told := false
	for {
		select {
		case err := <-done:
			return err
		case <-s.o.Clock.After(lookEvery):
		}
		now := s.o.Clock.Now()
		if last := lastGood(s.List(), now); !told && now.Sub(began) > lateAfter && now.Sub(last) > lateAfter {
			told = true
			text := lateText(last, began, now.Location())
			s.o.Log.Error("the backup is late", "to", s.o.Folder, "error", text)
			s.o.Failed(text, last)
		}
	}
}

func (s *Scheduler) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}
