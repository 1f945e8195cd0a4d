// Package standby is a server that follows another one through its object store, and
// can take over. DESIGN.md of package kv says how; see The object store.
package standby

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"kist/admin/exit"
	"kist/admin/ops"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/journal"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
	"kist/search"
)

// Options configure a Standby.
type Options struct {
	Dir  string       // the data directory
	Ship ship.Options // the object store, and what the slot says that takes over
	// After is after how long without a new slot the standby takes over without being
	// asked; 0 means never.
	After    time.Duration
	FetchAll bool                         // fetch contents ahead, and not when they are needed
	Content  func() (*blobs.Store, error) // opens the contents of the data directory
	// Metrics answers /metrics with what is open and how far the standby is. It may be nil.
	Metrics func(w http.ResponseWriter, r *http.Request, o Open, st Status)
	Log     *slog.Logger
}

// Open is the data of a standby. It is only for reading.
type Open struct {
	Store   *kv.Store
	Content *blobs.Store
	Index   *search.Index
}

// A Standby keeps a data directory as far as the object store is, and changes nothing
// in it otherwise. It is a handler for visitors: see ServeHTTP.
type Standby struct {
	o          Options
	promotions chan chan error
	ended      chan struct{} // closed when Run ends
	wanted     wanted

	mu     sync.Mutex
	status Status

	using sync.RWMutex // held for reading while a request reads what is open
	open  *Open        // nil while the data directory is not open

	// Used by Run only.
	marked   bool          // the data directory is a standby's
	fetched  *ship.Fetched // what the latest restore promised; nil if there was none
	restored time.Time     // when it was; zero if it was not
	raced    bool
	mine     bool      // the data directory's fence is in the object store, and is to be reached
	store    *kv.Store // nil while the data directory is not open
	content  *blobs.Store
	index    *search.Index
	stop     func()         // ends the work on the store
	work     sync.WaitGroup // of the index
	ahead    sync.WaitGroup // of fetchContents
	follower *ship.Follower
	checked  bool      // the lag of the writer was
	refused  bool      // the writer's lag does not allow to take over, which was logged
	read     time.Time // when the object store was last read without a new slot
	back     time.Time // since when it was read often enough to know that the writer is silent
}

// Status is how far a Standby is.
type Status struct {
	Slot    ship.Slot // the newest one, without its records
	Seen    time.Time // when it was first seen; zero if none was
	Current time.Time // when everything was applied that was in the object store; at first when the standby was made
	Behind  uint64    // records in the object store that are not applied, as far as is known
	Slots   uint64    // applied
	Errors  uint64    // failed attempts to read the object store
	Failure error     // of the latest attempt
	exact   bool      // the store lets one writer win
}

// Times.
const (
	pollBusy   = time.Second
	pollIdle   = 15 * time.Second
	busyFor    = 30 * time.Second // after the latest slot
	pollShare  = 6                // polls in Options.After
	retryMost  = 15 * time.Second
	restoreAll = 10 * time.Minute // between two restores
	hurryMost  = 5 * time.Second
)

// New returns a Standby, which does nothing until Run.
func New(o Options) *Standby {
	return &Standby{
		o: o, promotions: make(chan chan error), ended: make(chan struct{}), wanted: wanted{more: make(chan struct{}, 1)},
		status: Status{Current: time.Now()},
	}
}

// Status returns how far the standby is.
func (s *Standby) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Promote makes the standby take over. It returns when the other server is stopped;
// then Run ends.
func (s *Standby) Promote(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case s.promotions <- done:
		select {
		case err := <-done:
			return err
		case <-s.ended:
		}
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ended:
	}
	return &record.Error{Fault: record.Busy, Code: "not_ready", Text: "The standby is stopping."}
}

// fatal is an error that does not pass.
type fatal struct{ error }

func (e *fatal) Unwrap() error { return e.error }

// errWriter says that the data directory is the writer's.
var errWriter = errors.New("this data directory is the writer's")

// Run follows until ctx ends, or until the data directory is the writer's: then took is
// true and the server must continue with ship.Options of the same store. When Run
// returns, the data directory is closed.
func (s *Standby) Run(ctx context.Context) (took bool, err error) {
	defer close(s.ended)
	defer func() { err = errors.Join(err, s.close()) }()
	var retry time.Duration
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var asked chan error
		select {
		case <-ctx.Done():
			return false, nil
		case <-timer.C:
		case asked = <-s.promotions:
		}
		more, err := s.step(ctx)
		if err == nil && (asked != nil || !more && s.silent()) {
			err = s.takeOver(ctx, asked != nil)
		}
		if asked != nil {
			asked <- clean(err)
		}
		switch {
		case errors.Is(err, errWriter):
			return true, nil
		case ctx.Err() != nil:
			return false, nil
		case ship.Hopeless(err), errors.As(err, new(*fatal)):
			return false, err
		}
		s.note(err)
		switch {
		case more:
			timer.Reset(0)
		case err != nil:
			retry = min(max(2*retry, s.poll()), retryMost)
			timer.Reset(retry)
		default:
			retry = 0
			timer.Reset(s.poll())
		}
	}
}

// PromoteNow takes over without following first, and closes the data directory.
func (s *Standby) PromoteNow(ctx context.Context) error {
	_, err := s.step(ctx)
	if err == nil {
		err = s.takeOver(ctx, true)
	}
	return errors.Join(clean(err), s.close())
}

// clean is the error of a promotion.
func clean(err error) error {
	if errors.Is(err, errWriter) {
		return nil
	}
	return err
}

// poll is how long to wait before the object store is asked again.
func (s *Standby) poll() time.Duration {
	st := s.Status()
	wait := pollIdle
	if time.Since(st.Seen) < busyFor {
		wait = pollBusy
	}
	if s.o.After > 0 {
		wait = min(wait, s.o.After/pollShare, max(s.o.After-s.quiet(st), 10*time.Millisecond))
	}
	return wait
}

// silent reports whether it is time to take over without being asked. The object store
// was just read.
func (s *Standby) silent() bool {
	st := s.Status()
	if time.Since(s.read) > s.o.After/2 {
		s.back = time.Now()
	}
	s.read = time.Now()
	if s.o.After == 0 || s.quiet(st) < s.o.After {
		return false
	}
	if err := s.lagOf(st.Slot); err != nil {
		if !s.refused {
			s.refused = true
			s.o.Log.Error("the writer is silent; not taking over", "error", err)
		}
		return false
	}
	return true
}

// quiet is how long the writer has written nothing while the object store was read. After
// an outage of the store the writer gets its time again.
func (s *Standby) quiet(st Status) time.Duration {
	return min(time.Since(st.Seen), time.Since(s.back))
}

// lagOf returns an error if the writer of a slot may acknowledge changes when it is
// taken over.
func (s *Standby) lagOf(slot ship.Slot) error {
	switch {
	case slot.MaxLag == 0:
		return &fatal{exit.Misused("--promote-after needs a writer with --store-max-lag; this one (%s) has none", slot.URL)}
	case slot.MaxLag >= s.o.After:
		return &fatal{exit.Misused("--promote-after must be longer than the --store-max-lag of the writer (%s), which is %s", slot.URL, slot.MaxLag)}
	}
	return nil
}

// note notes how an attempt ended, and logs changes.
func (s *Standby) note(err error) {
	err = clean(err)
	s.mu.Lock()
	before := s.status.Failure
	if s.status.Failure = err; err != nil {
		s.status.Errors++
	}
	s.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.o.Log.Error("cannot follow the object store; trying again", "store", s.o.Ship.Address, "error", err)
	case err == nil && before != nil:
		s.o.Log.Info("following the object store again", "store", s.o.Ship.Address)
	}
}

// step applies the next slots. more says that others may follow.
func (s *Standby) step(ctx context.Context) (more bool, err error) {
	if err := s.race(ctx); err != nil {
		return false, err
	}
	if s.store == nil {
		if err := s.openDir(ctx); err != nil {
			return false, err
		}
	}
	began := time.Now()
	slots, err := s.follower.Read(ctx, func(f journal.Framed) error { return s.apply(ctx, f) })
	s.mu.Lock()
	s.status.Behind = s.follower.Behind()
	s.status.Slots += uint64(slots)
	switch {
	case slots > 0:
		s.status.Slot, s.status.Seen = s.follower.Last(), time.Now()
	case err == nil:
		s.status.Current = began
	}
	s.mu.Unlock()
	if slots > 0 {
		s.refused = false
		s.wanted.wake()
	}
	switch {
	case errors.As(err, new(*ship.Broken)), errors.Is(err, journal.ErrOther):
		return false, s.again(ctx, err)
	case err != nil:
		return false, err
	case s.follower.Won(), s.mine && slots == 0:
		return false, errors.Join(errWriter, s.unmark())
	case slots == 0 && !s.checked && s.o.After > 0:
		s.checked = true
		return false, s.lagOf(s.follower.Last())
	}
	return slots > 0, nil
}

// race finds out once whether the store lets one writer win.
func (s *Standby) race(ctx context.Context) error {
	if s.raced {
		return nil
	}
	exact, err := ship.Race(ctx, s.o.Ship.Endpoints...)
	if err != nil {
		return err
	}
	s.raced = true
	s.mu.Lock()
	s.status.exact = exact
	s.mu.Unlock()
	if !exact && s.o.After > 0 {
		return &fatal{exit.Misused("%s lets several writers win, so a standby cannot stop the writer; leave out --promote-after", s.o.Ship.Address)}
	}
	return nil
}

// takeOver stops the writer and makes the data directory the writer's: then the error is
// errWriter. If nobody has asked for it, it gives up when there is a new slot.
func (s *Standby) takeOver(ctx context.Context, asked bool) error {
	if !s.Status().exact {
		return &record.Error{Fault: record.Taken, Code: "store_not_exact", Text: "The object store lets several writers win, so a standby cannot stop the writer. Stop the writer, and restore from the object store."}
	}
	if err := s.follower.TakeOver(ctx, s.o.Dir, asked); err != nil {
		return err
	}
	s.mine = true
	s.o.Log.Warn("this server takes over", "store", s.o.Ship.Address, "from", s.Status().Slot.URL)
	for {
		if _, err := s.step(ctx); err != nil { // at the fence, if not before
			return err
		}
	}
}

// openDir opens the data directory, and restores it if it is empty.
func (s *Standby) openDir(ctx context.Context) error {
	if err := os.MkdirAll(s.o.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	var err error
	if s.marked, err = exists(filepath.Join(s.o.Dir, datadir.StandbyName)); err != nil {
		return err
	}
	folder, err := exists(filepath.Join(s.o.Dir, "journal"))
	if err != nil {
		return err
	}
	empty := !folder
	if folder {
		j, err := journal.Read(filepath.Join(s.o.Dir, "journal"), workcopy.Format)
		if err != nil {
			return err
		}
		empty, err = j.Empty()
		if err = errors.Join(err, j.Close()); err != nil {
			return err
		}
	}
	if empty && (folder || !s.marked) { // else a restore was cut short
		if err := kv.Unused(s.o.Dir); err != nil {
			return &fatal{fmt.Errorf("this data directory cannot follow %s: %w", s.o.Ship.Address, err)}
		}
	}
	if s.marked || !empty {
		if mine, err := ship.Writes(ctx, s.o.Ship.Remote, s.o.Dir); err != nil {
			return err
		} else if s.mine = mine; mine && !s.marked { // a marked one lacks slots before its fence
			return errors.Join(errWriter, s.unmark())
		}
	} else if err := s.mark(); err != nil {
		return err
	}
	if empty {
		if err := s.restore(ctx); err != nil {
			return err
		}
	}
	return s.openStore(ctx)
}

// openStore opens the data directory and finds its place in the history.
func (s *Standby) openStore(ctx context.Context) error {
	store, err := kv.Open(s.o.Dir, kv.Options{Schema: tables.All, Log: s.o.Log, Follow: true})
	if errors.As(err, new(*datadir.InUse)) {
		return &fatal{fmt.Errorf("%w; stop that one first, or choose another --data-dir", err)}
	}
	if workcopy.IsDamage(err) {
		return s.again(ctx, err)
	}
	if err != nil {
		return err
	}
	s.store = store
	err = s.openRest(ctx)
	if broken := (*ship.Broken)(nil); errors.As(err, &broken) {
		return s.again(ctx, err)
	}
	if err != nil {
		err = errors.Join(err, s.close())
	}
	return err
}

func (s *Standby) openRest(ctx context.Context) error {
	at, err := kv.State(s.store)
	if err == nil && s.fetched != nil {
		err = s.fetched.Confirm(at)
	}
	if err != nil {
		return err
	}
	s.fetched = nil
	instance, err := datadir.ReadInstance(s.o.Dir)
	if err != nil {
		return err
	}
	if s.follower, err = ship.Follow(ctx, s.o.Ship, workcopy.Format, instance, at); err != nil {
		return err
	}
	if err := s.mark(); err != nil {
		return err
	}
	if s.content, err = s.o.Content(); err != nil {
		return err
	}
	if s.index, err = ops.NewIndex(s.store, s.content, s.o.Log); err != nil {
		return err
	}
	work, stop := context.WithCancel(context.Background())
	s.stop = stop
	blobs.Behind(s.content, s.o.Ship.Remote, 0, s.store.FreeForContent, s.o.Log)
	s.work.Go(func() { s.index.Run(work) })
	if s.o.FetchAll {
		s.wanted.wantAll()
		s.ahead.Go(func() { s.fetchContents(work, s.store, s.content) })
	}
	s.show(&Open{s.store, s.content, s.index})
	s.o.Log.Info("following the object store", "store", s.o.Ship.Address, "commits", at.Seq)
	return nil
}

// again makes the data directory from the newest snapshot, because it cannot be
// continued. A directory that was not a standby's is left alone.
func (s *Standby) again(ctx context.Context, because error) error {
	if err := s.close(); err != nil {
		return err
	}
	if !s.marked {
		return &fatal{fmt.Errorf("this data directory cannot follow %s: %w; give the standby an empty data directory", s.o.Ship.Address, because)}
	}
	if wait := restoreAll - time.Since(s.restored); !s.restored.IsZero() && wait > 0 {
		return fmt.Errorf("%w; restoring from the newest snapshot has not helped, and is tried again in %s", because, wait.Round(time.Minute))
	}
	s.o.Log.Warn("the standby cannot go on from here; restoring it from the newest snapshot", "because", because)
	if err := s.restore(ctx); err != nil {
		return err
	}
	return s.openStore(ctx)
}

// restore replaces the records in the data directory, which is marked and not open, by
// those in the object store. It keeps the contents.
func (s *Standby) restore(ctx context.Context) (err error) {
	lock, err := datadir.Acquire(filepath.Join(s.o.Dir, "LOCK"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	work, err := disk.NewScratch(s.o.Dir, ops.Restoring)
	if err != nil {
		return fmt.Errorf("cannot write to the data directory: %w", err)
	}
	defer work.Close() //nolint:errcheck // the next start removes what is left
	got, err := ship.Fetch(ctx, s.o.Ship.Remote, time.Time{}, workcopy.Format, work.Path)
	if err == nil {
		err = got.Damage
	}
	if err != nil {
		return err
	}
	if got.State.Seq == 0 {
		return fmt.Errorf("the server that writes to %s has not copied its data there yet", s.o.Ship.Address)
	}
	for _, bad := range got.Bad {
		s.o.Log.Warn("an older snapshot and the slots after it were used", "error", bad)
	}
	for _, name := range []string{"journal", datadir.CleanName, datadir.InstanceName} { // the first one as a whole: see openDir
		err := os.Rename(filepath.Join(s.o.Dir, name), filepath.Join(work.Path, "old-"+name))
		if name == "journal" && (errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV)) { // nothing is changed yet
			return &fatal{fmt.Errorf("%s is a mount point or on another disk than its data directory, so a standby cannot be restored there; mount the data directory as a whole", filepath.Join(s.o.Dir, name))}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(s.o.Dir, "cache"), 0o700); err != nil {
		return err
	}
	if err := datadir.WriteInstance(s.o.Dir, got.Instance); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(work.Path, "journal"), filepath.Join(s.o.Dir, "journal")); err != nil {
		return err
	}
	s.fetched, s.restored = got, time.Now()
	s.o.Log.Info("restored from the object store", "store", s.o.Ship.Address, "commits", got.State.Seq)
	return s.sync()
}

// show lets requests read what is open. Nil ends that and waits for them.
func (s *Standby) show(o *Open) {
	s.using.Lock()
	defer s.using.Unlock()
	s.open = o
}

// close closes the data directory.
func (s *Standby) close() error {
	s.show(nil)
	if s.stop != nil {
		s.stop()
		s.work.Wait()
	}
	var err error
	if s.content != nil {
		err = s.content.Close() // which ends what is being fetched
	}
	s.ahead.Wait()
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	s.store, s.content, s.index, s.stop, s.follower = nil, nil, nil, nil, nil
	return err
}

// mark makes the data directory a standby's, which no command opens to change it.
func (s *Standby) mark() error {
	if s.marked {
		return nil
	}
	text, err := json.Marshal(ops.Marker{Format: 1, Store: s.o.Ship.Address})
	if err == nil {
		err = os.WriteFile(filepath.Join(s.o.Dir, datadir.StandbyName), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write to the data directory: %w", err)
	}
	s.marked = true
	return s.sync()
}

func (s *Standby) unmark() error {
	if err := os.Remove(filepath.Join(s.o.Dir, datadir.StandbyName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write to the data directory: %w", err)
	}
	return s.sync()
}

func (s *Standby) sync() error {
	d, err := disk.ReadFolder(s.o.Dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
