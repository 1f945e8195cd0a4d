package ship

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kist/blobs"
	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/workcopy"
)

// Options configure a Shipper.
type Options struct {
	Remote blobs.Remote
	// Endpoints are the same store by each of its addresses: see Race.
	Endpoints []blobs.Remote
	Address   string // of the store, as s3://bucket/prefix
	Evicts    bool   // contents that are in the store may be removed from the disk
	TakeOver  bool   // another data directory may have written last
	Sync      bool   // a commit is acknowledged when it is in the store
	Sealed    bool   // the Remote encrypts everything
	// History is how long every moment can be restored; what only earlier ones need is
	// removed after eight days more: see Prune. 0 means that nothing is removed.
	History time.Duration
	URL     string // where visitors reach this server
	Log     *slog.Logger
}

// A Source is the store whose history is shipped.
type Source struct {
	Dir      string
	Journal  *journal.Journal
	At       journal.State
	Format   uint32
	Instance string           // 16 hexadecimal digits
	Now      func() time.Time // by the clock of the records
	// Instant is the key in workcopy.MetaBucket of when a record was made, in
	// milliseconds. One that does not change it was made at the same time as the one
	// before.
	Instant []byte
	Refers  func(journal.Op) (blobs.Ref, bool) // what a change adds a reference to
	Compact func() error                       // writes a snapshot of the present state
}

// A Shipper copies the records of a store to a remote. A nil Shipper does nothing.
type Shipper struct {
	// Set by New and Start.
	o        Options
	src      Source
	instance [8]byte
	process  [8]byte // random
	history  history
	trust    time.Duration // confirmedFor, except in tests

	stored storedContents // safe for concurrent use

	// Made by Start.
	wake     chan struct{}   // a record was committed
	full     chan struct{}   // enough of them for a slot
	progress chan struct{}   // something changed for Await and Committed
	ctx      context.Context // ends when Close has waited for long enough
	stop     context.CancelFunc
	hurry    chan struct{} // closed when the store is being closed
	asks     chan ask      // see confirm
	ended    chan struct{} // closed when nothing is shipped any more
	work     sync.WaitGroup

	failed atomic.Uint64 // requests, and attempts of other work
	done   atomic.Uint64 // requests that have put something

	mu       sync.Mutex    // guards what follows, up to putting
	at       journal.State // acknowledged on the disk
	since    time.Time     // when the oldest record was committed that is not shipped, or before; zero if all are
	behind   *time.Timer   // calls warn when since is too long ago; nil before the first commit
	warned   bool          // the log says that since is too long ago
	shipped  journal.State // in the store
	complete bool          // nothing is missing in the store before shipped
	failure  error         // of the latest attempt; nil if it succeeded
	over     error         // why this is not the writer any more; nil if it is
	good     time.Time     // when the latest successful put began
	bytes    int           // committed since the latest slot
	status   Status
	hole     string // in the log, which the latest Compare has found; "" for none
	snap     uint64 // the newest snapshot in the store
	putting  bool   // a snapshot, beside the slots

	merging sync.Mutex      // held while slots are merged or removed; guards merged and told
	merged  uint64          // up to here all slots are
	told    map[string]bool // damage that the log has

	// Used by run only.
	lineage lineage
	last    Slot // the newest slot in the store, without its records
	tail    *journal.Tail
	upkeep  time.Time // of the latest maintenance
	raced   bool
	older   uint64 // the newest slot at the latest maintenance
	begun   bool   // begin has written a snapshot, which it has not put yet
	instant int64  // of the latest record that was read, in milliseconds; 0 if none was
	writer  bool   // the latest fence is this writer's
}

// Status is what a Shipper has done.
type Status struct {
	Records      uint64        // that are not in the store yet
	Lag          time.Duration // since the oldest of them was committed
	Slots        uint64        // put by this process
	Bytes        int64         // put by this process
	Errors       uint64        // failed requests and attempts
	Removed      uint64        // objects that nothing needed any more
	Oldest       time.Time     // moment that can be restored; zero if it is not known yet
	LastPut      time.Time     // of a slot
	LastSnapshot time.Time     // zero if the store has none
	Complete     bool          // a restore gives everything but the unshipped records
	Exact        bool          // the store lets one writer win
	Damage       string        // of an object that the history needs; "" for none
	Lacks        string        // what a restore gives if that is not everything; "" if it is
	Healed       string        // what was wrong and is not any more; "" for nothing
	Compared     time.Time     // when Lacks was found out; zero if it was not yet
	Failure      error         // of the latest attempt
}

// Times and sizes.
const (
	shipEvery   = time.Second
	slotBytes   = 1 << 20 // are shipped at once
	slotMost    = 4 << 20 // in a slot, so that a slow store keeps up
	lagWarning  = 10 * time.Second
	patience    = 10 * time.Second // of a commit in sync mode
	closing     = 10 * time.Second // to ship the rest at a stop
	firstRetry  = 50 * time.Millisecond
	maxRetry    = 15 * time.Second
	maxAsked    = time.Minute // that the remote may be left alone because it asks for that
	upkeepEvery = time.Hour
	maxKnown    = 1 << 16

	// Contents that are put at the same time. A store that takes 1.5 s for each request keeps
	// up with 60 small files a second if it gets more than 90 requests at once.
	atOnce      = 4   // after a failure, and always of large ones
	smallAtOnce = 192 // of small ones
)

// The errors of commits.
var (
	ErrOver = &record.Error{
		Fault: record.Busy, Code: "not_the_writer", Retry: time.Minute,
		Text: "Another server has taken over this data. This server stores nothing any more. " +
			"Its log names the other server.",
	}
	ErrUnreachable = &record.Error{
		Fault: record.Busy, Code: "store_unreachable", Retry: 10 * time.Second,
		Text: "The server cannot reach its object store. Nothing was stored; existing data can still be read.",
	}
	errUnsure = &record.Error{
		Fault: record.Busy, Code: "store_unreachable", Retry: 10 * time.Second,
		Text: "The object store did not answer in time. The change may have been stored.",
	}
)

// New returns a Shipper, which does nothing until Start.
func New(o Options) *Shipper {
	if len(o.Endpoints) == 0 {
		o.Endpoints = []blobs.Remote{o.Remote}
	}
	s := &Shipper{o: o, told: map[string]bool{}, trust: confirmedFor, history: history{o.Remote}}
	s.stored = storedContents{
		remote: o.Remote, log: o.Log, known: map[blobs.Ref]struct{}{},
		width: smallAtOnce, large: make(chan struct{}, atOnce), request: s.request,
	}
	return s
}

// request makes a request that puts something, and again if it fails: alone, and with a
// pause of its own.
func (s *Shipper) request(ctx context.Context, fn func() error) error {
	return Again(ctx, func() error {
		err := fn()
		switch {
		case err == nil:
			s.done.Add(1)
		case !settled(err):
			s.failed.Add(1)
		}
		return err
	})
}

// Start begins to ship the records of the source. It takes over the store's history
// first. If the remote cannot be reached now, it tries again later and returns no
// error. The error says that this data directory must not be the writer.
func (s *Shipper) Start(src Source) error {
	if s == nil {
		return nil
	}
	id, err := hex.DecodeString(src.Instance)
	if err != nil || len(id) != len(s.instance) {
		return fmt.Errorf("the instance %q is invalid", src.Instance)
	}
	s.process = randomID()
	s.src, s.instance, s.at, s.upkeep = src, [8]byte(id), src.At, time.Now()
	s.stored.dir = src.Dir
	s.wake, s.full, s.progress = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	s.asks, s.hurry, s.ended = make(chan ask), make(chan struct{}), make(chan struct{})
	s.lineage, err = readLineage(src.Dir)
	if err != nil {
		return err
	}

	if s.wasSealed() && !s.o.Sealed {
		return &overError{fmt.Sprintf("what this data directory has put in %s is encrypted; add --store-key-file with "+
			"the key file, or use another prefix to go on without encryption", s.o.Address)}
	}

	src.Journal.KeepFrom(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	err = s.attach(ctx)
	cancel()
	s.note(err)
	if s.over != nil {
		return s.over
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.work.Go(func() { s.run(s.ctx) })
	return nil
}

// Await waits in sync mode until commits can be shipped, for ten seconds at most and
// not if the remote cannot be reached.
func (s *Shipper) Await() {
	if s == nil || !s.o.Sync {
		return
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for {
		s.mu.Lock()
		over := s.complete || s.failure != nil || s.over != nil
		s.mu.Unlock()
		if over {
			return
		}
		select {
		case <-s.progress:
		case <-wait.C:
			return
		}
	}
}

var errClosed = errors.New("the store is being closed")

// Close ships what is left, for ten seconds at most, and ends.
func (s *Shipper) Close() error {
	if s == nil || s.stop == nil {
		return nil
	}
	s.mu.Lock()
	close(s.hurry)
	if s.failure != nil && s.over == nil && s.shipped.Seq < s.at.Seq {
		s.o.Log.Warn("the object store cannot be reached; trying for ten seconds before the stop",
			"commits", s.at.Seq-s.shipped.Seq)
	}
	s.mu.Unlock()

	timer := time.AfterFunc(closing, s.stop)
	s.work.Wait()
	timer.Stop()
	s.stop()

	s.mu.Lock()
	s.over = cmp.Or(s.over, errClosed)
	s.waits(time.Time{})
	s.mu.Unlock()

	err := s.remember()
	if s.tail != nil {
		err = errors.Join(err, s.tail.Close())
	}
	return errors.Join(err, s.stored.close())
}

// Status returns what was done so far.
func (s *Shipper) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Bytes += s.stored.sent()
	st.Errors = s.failed.Load()
	st.Records, st.Failure, st.Complete = s.at.Seq-min(s.at.Seq, s.shipped.Seq), cmp.Or(s.over, s.failure), s.complete
	st.Damage = cmp.Or(st.Damage, s.hole)
	if st.Lacks != "" {
		st.Damage = "a restore gives " + st.Lacks
	}
	if !s.since.IsZero() {
		st.Lag = time.Since(s.since)
	}
	return st
}

// Refuse returns an error if nothing may be committed now.
func (s *Shipper) Refuse() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over != nil:
		return ErrOver
	case s.o.Sync && (!s.complete || s.failure != nil && s.shipped.Seq < s.at.Seq):
		return ErrUnreachable
	}
	return nil
}

// Committed notes that a record of n bytes leads to the state and is on the disk. In
// sync mode it waits until the record is in the store. After an error the record may
// get there, and must not be acknowledged.
func (s *Shipper) Committed(to journal.State, n int) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.at = to
	s.bytes += n
	full := s.bytes >= slotBytes
	if s.since.IsZero() {
		s.waits(time.Now())
	}
	over := s.over
	s.mu.Unlock()

	raise(s.wake)
	if full || s.o.Sync {
		raise(s.full)
	}
	if !s.o.Sync {
		if over != nil {
			return ErrOver
		}
		return nil
	}

	wait := time.NewTimer(patience)
	defer wait.Stop()
	for {
		s.mu.Lock()
		done, over := s.shipped.Seq >= to.Seq, s.over
		s.mu.Unlock()
		if done {
			return nil
		}
		if over != nil {
			return ErrOver
		}
		select {
		case <-s.progress:
		case <-wait.C:
			s.mu.Lock()
			failing := s.failure != nil
			s.mu.Unlock()
			if !failing { // else that is the reason
				s.note(errors.New("the object store is too slow"))
			}
			return errUnsure
		}
	}
}

// waits notes since when the oldest record has waited; zero means that none does. s.mu is
// held.
func (s *Shipper) waits(since time.Time) {
	s.since = since
	lag := time.Since(since)
	switch {
	case since.IsZero() && s.behind != nil:
		s.behind.Stop()
	case since.IsZero():
	case s.behind == nil:
		s.behind = time.AfterFunc(lagWarning-lag, s.warn)
	default:
		s.behind.Reset(lagWarning - lag)
	}
	if s.warned && (since.IsZero() || lag < lagWarning) {
		s.warned = false
		s.o.Log.Info("the object store has caught up", "store", s.o.Address)
	}
}

// warn logs once that records have waited for too long.
func (s *Shipper) warn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warned || s.since.IsZero() || s.over != nil || time.Since(s.since) < lagWarning {
		return
	}
	s.warned = true
	s.o.Log.Warn("the object store is behind; if this machine is lost now, so are the changes that are not there yet",
		"store", s.o.Address, "seconds", int(time.Since(s.since).Seconds()),
		"commits", s.at.Seq-min(s.at.Seq, s.shipped.Seq))
}

func raise(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// note notes how an attempt ended and logs changes.
func (s *Shipper) note(err error) {
	s.mu.Lock()
	before, over := s.failure, s.over != nil
	s.failure = err
	if err != nil {
		s.failed.Add(1)
		if fatal := (*overError)(nil); (errors.As(err, &fatal) || unfit(err)) && s.over == nil {
			s.over = err
		}
	}
	over = !over && s.over != nil
	s.mu.Unlock()

	raise(s.progress)
	switch {
	case over:
		s.o.Log.Error("this server stores nothing any more", "store", s.o.Address, "error", err)
	case err != nil && before == nil:
		s.o.Log.Error("cannot write to the object store; trying again", "store", s.o.Address, "error", err)
	case err == nil && before != nil:
		s.o.Log.Info("writing to the object store again", "store", s.o.Address)
	}
}

// overError says that this data directory must not be the writer.
type overError struct{ text string }

func (e *overError) Error() string { return e.text }

// run ships until the Shipper is closed.
func (s *Shipper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	aside, cancel := context.WithCancel(ctx)
	defer cancel()
	defer close(s.ended)
	var retry time.Duration // 0 after a success
	for hurry := s.hurry; ; {
		var wanted ask
		select {
		case <-ctx.Done():
			return
		case <-hurry:
			hurry = nil
		case <-timer.C:
		case wanted = <-s.asks:
		case <-s.wake:
			if retry > 0 { // the timer says when to try again
				continue
			}
			s.pause(ctx)
		}

		done := s.done.Load()
		err := s.step(ctx)
		if wanted.answer != nil {
			for err == nil && s.good.Before(wanted.at) {
				err = s.follow(ctx, Slot{Before: s.shipped, After: s.shipped})
			}
			wanted.answer <- confirmed{s.last.Number, s.good, err}
		}
		if ctx.Err() != nil {
			return
		}

		s.note(err)
		switch {
		case s.over != nil, err == nil && hurry == nil:
			return
		case err == nil:
			retry = 0
			timer.Reset(upkeepEvery)
			if time.Since(s.upkeep) >= upkeepEvery {
				s.keepUp(aside)
			}
		case hurry == nil:
			timer.Reset(max(firstRetry, asked(err)))
		default:
			if s.done.Load() > done { // it has come further
				retry = 0
			}
			retry = min(max(2*retry, firstRetry), maxRetry)
			timer.Reset(max(retry, asked(err)))
		}
	}
}

// keepUp notes the latest slot, and begins to put a snapshot and to merge slots beside the shipping.
func (s *Shipper) keepUp(ctx context.Context) {
	s.upkeep = time.Now()
	if err := s.remember(); err != nil {
		s.o.Log.Warn("the latest slot could not be noted; the next start takes longer", "error", err)
	}
	mine, to := s.last, s.older
	s.older = mine.Number
	s.work.Go(func() {
		s.shipSnapshot(ctx)
		if err := s.merge(ctx, mine, to); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("slots in the object store were not merged; trying again in an hour", "error", err)
		}
	})
}

// pause waits for more records until the oldest one has waited for a second.
func (s *Shipper) pause(ctx context.Context) {
	s.mu.Lock()
	since := s.since
	s.mu.Unlock()
	if s.o.Sync || since.IsZero() {
		return
	}
	wait := time.NewTimer(shipEvery - time.Since(since))
	defer wait.Stop()
	select {
	case <-ctx.Done():
	case <-s.hurry:
	case <-s.full:
	case <-wait.C:
	}
}

// step does all that can be done now.
func (s *Shipper) step(ctx context.Context) error {
	if !s.writer {
		if err := s.attach(ctx); err != nil {
			return err
		}
	}
	if !s.complete {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	return s.ship(ctx)
}

// remember notes the latest slot for the next start.
func (s *Shipper) remember() error {
	if !s.writer || s.lineage.Slot == s.last.Number {
		return nil
	}
	s.lineage.Slot = s.last.Number
	return writeLineage(s.src.Dir, s.lineage)
}

func (s *Shipper) setComplete(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = is
}

// begin puts a snapshot of the present state and all contents, when the store lacks
// the records before it. After a failure it goes on with the same snapshot.
func (s *Shipper) begin(ctx context.Context) error {
	s.o.Log.Info("copying everything to the object store", "store", s.o.Address)
	if !s.begun {
		if err := s.src.Compact(); err != nil {
			return err
		}
	}
	snap, err := s.src.Journal.Newest(0)
	s.begun = err == nil
	if err != nil {
		return err
	}
	defer snap.Close()
	s.src.Journal.KeepFrom(snap.Seq)

	if err := s.stored.putAll(ctx); err != nil {
		return err
	}
	// Another writer may have taken over long ago: its history must get no snapshot of
	// this one.
	if err := s.follow(ctx, Slot{Before: s.shipped, After: s.shipped}); err != nil {
		return err
	}
	if err := s.putSnapshot(ctx, snap); err != nil {
		return err
	}
	s.dropTail()
	if err := s.follow(ctx, Slot{Before: snap.State, After: snap.State}); err != nil {
		return err
	}
	s.begun = false
	s.setComplete(true)
	s.o.Log.Info("everything is in the object store", "store", s.o.Address, "commits", snap.Seq)
	return nil
}

func (s *Shipper) dropTail() {
	if s.tail != nil {
		_ = s.tail.Close() // it was only read
		s.tail = nil
	}
}

// ship puts all records that are committed.
func (s *Shipper) ship(ctx context.Context) error {
	for {
		s.mu.Lock()
		at := s.at
		s.mu.Unlock()
		if s.shipped.Seq >= at.Seq {
			return nil
		}
		err := s.shipSlot(ctx, at)
		if err == nil {
			continue
		}
		s.dropTail()
		if !errors.As(err, new(*journal.Missing)) {
			return err
		}
		s.o.Log.Warn("the journal could not keep all that the object store lacks; the store's history has a gap, "+
			"and everything will be copied again", "store", s.o.Address)
		s.setComplete(false)
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
}

// shipSlot puts the next slot.
func (s *Shipper) shipSlot(ctx context.Context, at journal.State) (err error) {
	if s.tail == nil {
		s.tail, err = s.src.Journal.Tail(s.shipped)
		if err != nil {
			return err
		}
	}
	if s.instant == 0 {
		s.instant = s.src.Now().UnixMilli()
	}

	slot := Slot{Before: s.shipped}
	var refs []blobs.Ref
	err = s.tail.Read(at.Seq, func(f journal.Framed) (bool, error) {
		slot.After = f.To
		slot.Frames = append(slot.Frames, f.Frame...)
		for _, op := range f.Ops {
			if op.Bucket == workcopy.MetaBucket.No && bytes.Equal(op.Key, s.src.Instant) && len(op.Value) == 8 {
				s.instant = int64(binary.BigEndian.Uint64(op.Value))
			}
			if ref, adds := s.src.Refers(op); adds {
				refs = append(refs, ref)
			}
		}
		slot.Times = append(slot.Times, s.instant)
		return len(slot.Frames) < slotMost, nil
	})
	if err != nil {
		return err
	}
	if slot.After.Seq == at.Seq && slot.After != at {
		return fmt.Errorf("the journal has a record %d that leads to another digest (%016x) than the one that was "+
			"acknowledged (%016x); it is not shipped", at.Seq, uint64(slot.After.Digest), uint64(at.Digest))
	}
	if err := s.stored.put(ctx, refs); err != nil {
		return err
	}
	if err := s.follow(ctx, slot); err != nil {
		return err
	}
	if s.shipped != slot.After { // an earlier attempt had put another slot
		s.dropTail()
	}
	return nil
}

// Ahead puts a content of size bytes before a record refers to it, so that the records
// after that one need not wait for it. The store of contents calls it for each content
// that it keeps. It does nothing for a small one, nor without Options.Sync.
func (s *Shipper) Ahead(ref blobs.Ref, size int64) error {
	if s == nil {
		return nil
	}
	s.stored.spare(ref)
	if size < askFirst || !s.o.Sync {
		return nil
	}
	if err := s.Refuse(); err != nil {
		return err
	}
	s.mu.Lock()
	select {
	case <-s.hurry:
		s.mu.Unlock()
		return ErrUnreachable
	default:
	}
	s.work.Add(1)
	s.mu.Unlock()
	defer s.work.Done()

	if err := s.stored.put(s.ctx, []blobs.Ref{ref}); err != nil {
		s.o.Log.Warn("a file could not be put in the object store", "sha256", ref.String(), "error", err)
		return ErrUnreachable
	}
	return nil
}

// together calls fn with each number below n, a width of them at the same time, until a
// call fails.
func together(ctx context.Context, width, n int, fn func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int32
	var work sync.WaitGroup
	for range min(width, n) {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := fn(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

// Remote returns the store, or nil.
func (s *Shipper) Remote() blobs.Remote {
	if s == nil {
		return nil
	}
	return s.o.Remote
}

// shipSnapshot puts the newest local snapshot that the store lacks, if all records
// before it are there. If that fails, the next hour tries again.
func (s *Shipper) shipSnapshot(ctx context.Context) {
	s.mu.Lock()
	after, shipped, busy := s.snap, s.shipped, s.putting
	s.putting = true
	s.mu.Unlock()
	if busy {
		return
	}

	err := s.shipNewest(ctx, after, shipped.Seq)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.putting = false
	if err != nil && !absent(err) {
		s.failed.Add(1)
		s.o.Log.Warn("a snapshot could not be put in the object store", "store", s.o.Address, "error", err)
	}
}

// shipNewest puts the newest local snapshot after the one with the number after, unless records
// up to it are not shipped yet.
func (s *Shipper) shipNewest(ctx context.Context, after, shipped uint64) error {
	snap, err := s.src.Journal.Newest(after)
	if err != nil {
		return err
	}
	if snap.Seq <= shipped {
		err = s.putSnapshot(ctx, snap)
	}
	return errors.Join(err, snap.Close())
}

func (s *Shipper) putSnapshot(ctx context.Context, snap *journal.Snap) error {
	size, err := snap.Size()
	if err != nil {
		return err
	}
	err = s.request(ctx, func() error { return s.o.Remote.Put(ctx, snapName(snap.Seq), snap, size) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	s.mu.Lock()
	s.snap = snap.Seq
	s.status.Bytes += size
	s.status.LastSnapshot = time.Now()
	s.mu.Unlock()
	return nil
}
