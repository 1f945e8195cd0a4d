// Package search finds records by their words. It keeps an index beside the store, which is derived from the
// store and rebuilt unless it is proven intact. The index only suggests ids: callers read each record from the
// store.
package search

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/index/scorch/mergeplan"
	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"kist/kv"
	"kist/kv/record"
)

// Options configure an Index. All fields are required except FreeSpace, Relax, Mapped and Content.
type Options struct {
	Dir   string // the folder of the index, created if missing; its content may be deleted while it is not open
	Store string // identifies the store; an index of another store is rebuilt
	// Feed reads up to limit changes after a place, with the current state of the records. It also returns
	// the latest place, and the place up to which removals may be forgotten.
	Feed func(since uint64, limit int) (some []kv.Change, latest, trimmed uint64, err error)
	// Trim forgets the removals at the places, which the index has applied.
	Trim func(places []uint64) error
	Wake <-chan struct{} // receives if there are changes
	// FreeSpace is how many bytes the disk has free for the index. With none, the index waits, so that it takes
	// no space from others.
	FreeSpace func() int64
	// Relax releases the memory that reading records took.
	Relax func() error
	// Mapped is how many bytes of files the process has in its memory; 0 if unknown.
	Mapped func() int64
	// Content reads the first MaxContent bytes of a file.
	Content func(*record.Record) ([]byte, error)
	Log     *slog.Logger

	idle time.Duration // instead of idle, for tests
}

// Limits of a batch: the number of changes and the bytes of text. Larger batches take less time for each change, and
// leave less to merge, but more memory, and a search may have to wait for one. So batches are small while someone
// searches, unless the index is far behind.
const (
	batchChanges = 500
	batchLarge   = 4000
	batchText    = 1 << 20
	// batchMemory is the minimum memory limit for batches of batchLarge changes: two at a time take up to
	// 70 MB.
	batchMemory = 256 << 20
)

// searching is how long after a search another one is expected.
const searching = 5 * time.Second

// largeBuild is the number of changes from which a new index is optimised after it was built: its segments are
// merged into one, and it is opened again, which releases the memory for building it. segmentsRebuild is how many
// segments of a size may exist until then. Merging them earlier would only mean to merge them twice.
const (
	largeBuild      = 5000
	segmentsRebuild = 64
)

// maxRemovals is how many marks of removals are remembered while they cannot be removed. Others are removed when the
// index is next rebuilt.
const maxRemovals = 100_000

// idle is how long nothing must have changed before memory is released, and how often memory taken by searches is
// released after that.
const idle = time.Minute

// linger is how long changes may wait for more, so that a few changes do not become a separate batch. Searches find
// them nevertheless: see View.Find.
const linger = time.Second

// retryAfter is the pause after an error, such as a full disk.
const retryAfter = 10 * time.Second

// An Index is the search index of a store. Run maintains it. It is safe for concurrent use.
type Index struct {
	o      Options
	queue  *index.AnalysisQueue
	memory int64 // the limit of the process, unless in a flood of changes

	mu   sync.RWMutex   // read-locked by each View
	live *scorch.Scorch // nil while the index cannot be used

	turns turns

	ordersMu sync.Mutex
	orders   map[segment.Segment]func() (*order, error)

	stateMu sync.Mutex
	state   State
	moved   chan struct{} // closed when the state changes

	asked      atomic.Bool   // whether there was a search since memory was last released
	flooded    atomic.Bool   // whether searches leave time to writers
	searched   atomic.Int64  // when there last was one, in nanoseconds
	flood      chan struct{} // many changes arrived at once
	hurry      chan struct{} // a caller is waiting for the index to catch up
	broken     chan error    // why the open index cannot continue
	rebuildNow chan struct{} // a rebuild was requested
}

// State is the state of an index.
type State struct {
	Phase Phase `json:"state"`
	// Documents is how many documents this process has written since it started or since the last rebuild
	// began.
	Documents int64 `json:"documents"`
	// Place is the place in the feed of changes that the index has reached. Latest is the last known place in
	// the feed.
	Place  uint64 `json:"place"`
	Latest uint64 `json:"latest"`
	// Problem is why it is not ready, if there is a problem.
	Problem string `json:"problem,omitempty"`
	Built   int    `json:"-"` // number of rebuilds by this process
}

// Phase is what an index is doing.
type Phase string

// The phases. An index is used only when it is Ready. Otherwise, searches read the records.
const (
	Opening  Phase = "opening"
	Building Phase = "building"
	Ready    Phase = "ready"
	Failed   Phase = "failed" // it will try again
	Closed   Phase = "closed"
)

// Phases lists all phases.
func Phases() []string {
	return []string{string(Opening), string(Building), string(Ready), string(Failed), string(Closed)}
}

var errDamaged = errors.New("the search index is damaged")

// New makes an index, which is closed until Run is called.
func New(o Options) *Index {
	o.idle = cmp.Or(o.idle, idle)
	x := &Index{
		o: o, state: State{Phase: Closed}, moved: make(chan struct{}),
		orders: map[segment.Segment]func() (*order, error){},
		flood:  make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		broken: make(chan error, 1), rebuildNow: make(chan struct{}, 1),
	}
	x.leaveCore(false)
	return x
}

// State returns the state of the index.
func (x *Index) State() State {
	x.stateMu.Lock()
	defer x.stateMu.Unlock()
	return x.state
}

// change changes the state and wakes those who wait for that.
func (x *Index) change(fn func(*State)) {
	x.stateMu.Lock()
	defer x.stateMu.Unlock()
	fn(&x.state)
	close(x.moved)
	x.moved = make(chan struct{})
}

// Await returns the state when it satisfies a condition, or ctx's error.
func (x *Index) Await(ctx context.Context, got func(State) bool) (State, error) {
	for {
		x.stateMu.Lock()
		s, moved := x.state, x.moved
		x.stateMu.Unlock()
		if got(s) {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-moved:
		}
	}
}

// Hurry makes waiting changes go into the index immediately. It returns when the index is beyond the place, is no
// longer ready, or ctx ends.
func (x *Index) Hurry(ctx context.Context, place uint64) {
	offer(x.hurry, struct{}{})
	_, _ = x.Await(ctx, func(s State) bool { return s.Phase != Ready || s.Place > place })
}

// Rebuild starts a rebuild of the index and returns at once. State shows its progress.
func (x *Index) Rebuild() {
	x.change(func(s *State) { s.Phase = Building })
	offer(x.rebuildNow, struct{}{})
}

// offer sends unless the channel has something already.
func offer[T any](to chan<- T, v T) {
	select {
	case to <- v:
	default:
	}
}

// Turn waits until this search may run, so that many at a time leave time to writers and take little memory. The caller
// calls done at the end. It fails when ctx ends.
func (x *Index) Turn(ctx context.Context) (done func(), err error) {
	if err := x.turns.take(ctx); err != nil {
		return nil, err
	}
	begun := time.Now()
	return func() {
		if x.flooded.Load() {
			time.AfterFunc(time.Since(begun), x.turns.give) // the next one waits as long as this one took
		} else {
			x.turns.give()
		}
	}, nil
}

// leaveCore is whether searches leave one core to others, and time on the other cores.
func (x *Index) leaveCore(leave bool) {
	x.flooded.Store(leave)
	cores := max(2, runtime.GOMAXPROCS(0))
	if leave {
		cores--
	}
	x.turns.allow(cores)
}

// View returns the current index; false if it is not ready. While it is Opening, which takes a moment at the start and
// after a rebuild, a caller may Await its end first.
func (x *Index) View() (*View, bool) {
	x.mu.RLock()
	if x.live == nil || x.State().Phase != Ready {
		x.mu.RUnlock()
		return nil, false
	}
	snap, err := snapshot(x.live)
	if err != nil {
		x.mu.RUnlock()
		return nil, false
	}
	x.asked.Store(true)
	x.searched.Store(time.Now().UnixNano())
	return &View{x: x, snap: snap, at: placeOf(snap)}, true
}

// markDamaged notes that the open index must not be used any longer.
func (x *Index) markDamaged(err error) {
	x.change(func(s *State) {
		if s.Phase == Ready || s.Phase == Building {
			s.Phase, s.Problem = Failed, err.Error()
		}
	})
	offer(x.broken, err)
}

// content is the searchable text of a file.
func (x *Index) content(r *record.Record) string {
	if x.o.Content == nil {
		return ""
	}
	b, err := x.o.Content(r)
	if err != nil {
		x.o.Log.Warn("cannot read a file, so searches find it only by its name", "id", r.ID, "error", err)
		return ""
	}
	return textOf(b)
}

// orderOf returns the order of a segment's documents. Segments never change, so it is made once.
func (x *Index) orderOf(s segment.Segment) (*order, error) {
	x.ordersMu.Lock()
	get := x.orders[s]
	if get == nil {
		get = sync.OnceValues(func() (*order, error) { return newOrder(s) })
		x.orders[s] = get
	}
	x.ordersMu.Unlock()
	return get()
}

// forget drops the orders of segments that no longer exist.
func (x *Index) forget(s *scorch.IndexSnapshot) {
	there := map[segment.Segment]bool{}
	if s != nil {
		for _, seg := range s.Segments() {
			there[seg.Segment()] = true
		}
	}
	x.ordersMu.Lock()
	defer x.ordersMu.Unlock()
	maps.DeleteFunc(x.orders, func(s segment.Segment, _ func() (*order, error)) bool { return !there[s] })
}

// Run opens the index, keeps it up to date until ctx ends, and closes it. It is called once.
func (x *Index) Run(ctx context.Context) {
	x.change(func(s *State) { s.Phase = Opening })
	x.memory = debug.SetMemoryLimit(-1) // only reads it
	x.queue = index.NewAnalysisQueue(1)
	defer x.queue.Close()
	listeners.Store(x.folder(), x)
	defer listeners.Delete(x.folder())
	defer x.change(func(s *State) { s.Phase = Closed })

	var work sync.WaitGroup
	defer work.Wait()
	within, end := context.WithCancel(ctx)
	defer end()
	work.Go(func() { x.watchFloods(within) })

	wipe := false
	for ctx.Err() == nil {
		err := x.openAndFollow(ctx, wipe)
		if ctx.Err() != nil {
			if !errors.Is(err, ctx.Err()) && !errors.Is(err, errSettled) {
				x.o.Log.Warn("the search index will be rebuilt at the next start", "error", err)
			}
			return
		}
		if errors.Is(err, errSettled) {
			wipe = false
			x.relaxStore()
			debug.FreeOSMemory() // building the index takes more memory than using it
			continue
		}

		var needed *rebuild
		wipe = errors.As(err, &needed)
		if wipe {
			if needed.why != nil {
				x.o.Log.Warn("the search index is rebuilt", "error", needed.why)
			}
			continue
		}

		x.o.Log.Error("the search index failed and will try again; searches take longer in the meantime",
			"error", err, "after", retryAfter)
		x.change(func(s *State) { s.Phase, s.Problem = Failed, err.Error() })
		select {
		case <-ctx.Done():
		case <-x.rebuildNow:
			x.Rebuild() // openAndFollow sees the request
		case <-time.After(retryAfter):
		}
	}
}

// rebuild says that the index must be rebuilt. why is nil if someone requested it.
type rebuild struct{ why error }

func (r *rebuild) Error() string { return fmt.Sprintf("the search index must be rebuilt: %v", r.why) }
func (r *rebuild) Unwrap() error { return r.why }

func (x *Index) folder() string { return filepath.Join(x.o.Dir, "scorch") }

// openAndFollow opens the index, or starts a new one, and follows the feed until ctx ends or there is an error.
func (x *Index) openAndFollow(ctx context.Context, wipe bool) error {
	select {
	case <-x.broken: // an error of the previous index
	default:
	}
	_, latest, trimmed, err := x.o.Feed(^uint64(0)>>1, 1)
	if err != nil {
		return err
	}

	at, wipe := x.mustRebuild(wipe, latest, trimmed)
	if err := os.Remove(x.proofFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	if wipe {
		if err := os.RemoveAll(x.folder()); err != nil {
			return fmt.Errorf("cannot remove the old search index: %w", err)
		}
		x.change(func(s *State) { *s = State{Phase: Building, Latest: latest, Built: s.Built + 1} })
	} else {
		x.change(func(s *State) { *s = State{Phase: Opening, Latest: latest, Documents: s.Documents, Built: s.Built} })
	}

	large := wipe && latest >= largeBuild
	live, err := x.open(large)
	if err != nil {
		if !wipe {
			err = &rebuild{err}
		}
		return err
	}

	err = x.use(ctx, live, at, latest, wipe, large)
	ended := errors.Is(err, errSettled) || ctx.Err() != nil && errors.Is(err, ctx.Err())
	failed := x.end(live, ended)
	if failed != nil && ended {
		return failed // the reason for the end does not matter
	}
	return errors.Join(err, failed)
}

// use lets searches use the open index, which is at a place in the feed, and follows the feed.
func (x *Index) use(ctx context.Context, live *scorch.Scorch, at, latest uint64, building, large bool) error {
	snap, err := snapshot(live)
	if err != nil {
		return err
	}
	has := placeOf(snap)
	_ = snap.Close()
	if has != at {
		return &rebuild{fmt.Errorf("%w: it is at %d but should be at %d", errDamaged, has, at)}
	}

	x.mu.Lock()
	x.live = live
	x.mu.Unlock()
	x.change(func(s *State) {
		s.Place, s.Latest, s.Problem = at, latest, ""
		if !building {
			s.Phase = Ready // maybe behind
		}
	})
	mapped(live, release) // opening reads scattered pages
	return x.follow(ctx, live, at, building, large)
}

// end closes the open index. If it ended well, it writes the proof that it is intact.
func (x *Index) end(live *scorch.Scorch, well bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	x.mu.Lock() // waits for open Views
	x.live = nil
	x.mu.Unlock()
	x.forget(nil)

	at := uint64(0)
	if snap, err := snapshot(live); err == nil {
		at = placeOf(snap)
		_ = snap.Close()
	}
	if err := live.Close(); err != nil {
		return err
	}
	if phase := x.State().Phase; well && (phase == Ready || phase == Opening) {
		return x.prove(at)
	}
	return nil
}

// open opens the index in the folder. A damaged index gives an error, whatever the library does about it. large means
// that it is rebuilt and merged at the end, so that its segments are hardly merged before.
func (x *Index) open(large bool) (s *scorch.Scorch, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	if err := os.MkdirAll(x.folder(), 0o700); err != nil {
		return nil, err
	}

	config := map[string]any{"path": x.folder(), "bolt_timeout": "1s", "asyncErrorCallbackName": listener}
	if large {
		config["scorchMergePlanOptions"] = map[string]any{
			"MaxSegmentsPerTier": segmentsRebuild, "SegmentsPerMergeTask": segmentsRebuild,
		}
	}
	made, err := scorch.NewScorch(scorch.Name, config, x.queue)
	if err != nil {
		return nil, err
	}
	s, ok := made.(*scorch.Scorch)
	if !ok {
		return nil, fmt.Errorf("%w: unexpected type of index", errDamaged)
	}
	if err := s.Open(); err != nil {
		return nil, fmt.Errorf("cannot open the search index: %w", err)
	}
	return s, nil
}

// The library reports background errors to listeners by name, with the path of the index.
const listener = "kist"

var listeners sync.Map // of *Index, by path

func init() {
	scorch.RegistryAsyncErrorCallbacks[listener] = func(err error, path string) {
		if x, ok := listeners.Load(path); ok {
			x.(*Index).markDamaged(err) //nolint:errcheck // it has only indexes
		}
	}
}

func snapshot(s *scorch.Scorch) (*scorch.IndexSnapshot, error) {
	r, err := s.Reader()
	if err != nil {
		return nil, err
	}
	snap, ok := r.(*scorch.IndexSnapshot)
	if !ok || snap == nil {
		return nil, errDamaged
	}
	return snap, nil
}

// follow applies changes as they arrive. building means that the index is being rebuilt, large that it is merged at
// the end.
func (x *Index) follow(ctx context.Context, live *scorch.Scorch, at uint64, building, large bool) error {
	begun := time.Now()
	w := &writer{x: x, live: live}
	defer func() { _ = w.flush() }() // if this fails, something else has failed before
	var gone []uint64                // the places of applied removals
	last := uint64(0)                // the latest change at the previous check

	for {
		started := time.Now()
		searched := started.UnixNano()-x.searched.Load() < int64(searching)
		some, latest, _, err := x.o.Feed(at, x.batch(searched && !building, last-min(at, last)))
		if err != nil {
			return err
		}

		if len(some) > 0 {
			if x.o.FreeSpace != nil && x.o.FreeSpace() <= 0 {
				if _, err := x.wait(ctx, nil, time.After(retryAfter)); err != nil {
					return err
				}
				continue
			}
			if err := w.apply(some); err != nil {
				return err
			}
			if !building && len(some) >= floodChanges {
				offer(x.flood, struct{}{})
				x.leaveCore(true)
			}
			at = some[len(some)-1].Seq
			gone = append(gone, removals(some)...)
		}

		caught := len(some) == 0 || at >= latest
		if caught && at < latest {
			// The places in between are empty: removals there were forgotten, or the places
			// were never used.
			if err := w.write(index.NewBatch(), latest); err != nil {
				return err
			}
			at = latest
		}

		if caught || !building {
			if err := w.flush(); err != nil {
				return err
			}
			gone = x.trim(gone)
		}

		x.change(func(s *State) {
			s.Place, s.Latest = at, max(latest, at)
			s.Documents += int64(len(some))
			if caught && building && s.Phase == Building {
				s.Phase = Ready
			}
		})

		if caught && building {
			building = false
			if n := x.State().Documents; n > 0 {
				x.o.Log.Info("the search index was rebuilt",
					"documents", n, "took", time.Since(begun).Round(time.Millisecond))
			}
			if large {
				return x.mergeSegments(ctx, live)
			}
		}

		x.forgetMerged(live)
		pause := time.Duration(0)
		if !building && latest > last { // leave most of the time to writers
			pause = time.Since(started)
			if !searched {
				pause *= 3
			}
		}
		last = latest
		if err := x.waitForChanges(ctx, live, caught, pause); err != nil {
			return err
		}
	}
}

// batch is how many changes are applied at once. disturbs means that larger batches would delay a search, behind is how
// many changes the index lacks.
func (x *Index) batch(disturbs bool, behind uint64) int {
	if x.memory < batchMemory || disturbs && behind < batchLarge {
		return batchChanges
	}
	return batchLarge
}

// forgetMerged drops the orders of segments that were merged into others.
func (x *Index) forgetMerged(live *scorch.Scorch) {
	snap, err := snapshot(live)
	if err != nil {
		return
	}
	x.forget(snap)
	_ = snap.Close()
}

// removals are the places of the changes that removed a record.
func removals(some []kv.Change) (places []uint64) {
	for _, c := range some {
		if c.Record == nil {
			places = append(places, c.Seq)
		}
	}
	return places
}

// trim removes the marks of applied removals, and returns those that have to be tried again.
func (x *Index) trim(gone []uint64) []uint64 {
	if len(gone) == 0 {
		return gone
	}
	err := x.o.Trim(gone)
	if err == nil || len(gone) > maxRemovals {
		return gone[:0]
	}
	x.o.Log.Warn("cannot remove marks of removals yet", "error", err)
	return gone
}

// errSettled says that the index must be closed and opened again.
var errSettled = errors.New("the search index is complete")

// tidyFrom and tidyShare say when segments are merged while nothing changes: if there are so many documents outside the
// largest segment, and this share of all. So an index that grows is merged a few times in all, and one to which a
// little was added is not.
const (
	tidyFrom  = 500
	tidyShare = 5 // one in 5
)

// tidy merges all segments into one, which takes less of the disk and answers faster, if that is worth it and there is
// space. It gives up when there are changes; woken says so.
func (x *Index) tidy(ctx context.Context, live *scorch.Scorch) (woken bool, err error) {
	snap, err := snapshot(live)
	if err != nil {
		return false, err
	}

	volume, all, largest := int64(0), int64(0), int64(0)
	for _, s := range snap.Segments() {
		volume += s.FileSize()
		all += s.FullSize()
		largest = max(largest, s.LiveSize())
	}
	_ = snap.Close()
	rest := all - largest
	if rest < tidyFrom || rest < all/tidyShare || x.o.FreeSpace != nil && x.o.FreeSpace() <= volume {
		return false, nil
	}

	within, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan time.Time)
	wait := x.begin(func() error {
		defer close(ended)
		return mergeDurably(within, live)
	})
	woken, err = x.wait(ctx, x.o.Wake, ended)
	stop()
	return woken, errors.Join(err, wait())
}

// mergeSegments merges the segments of a new index into one, if the disk has space for both. Then searches wait until
// the index is open again.
func (x *Index) mergeSegments(ctx context.Context, live *scorch.Scorch) error {
	volume := int64(0)
	mapped(live, func(file []byte) { volume += int64(len(file)) })
	if x.o.FreeSpace == nil || x.o.FreeSpace() > volume {
		if err := x.begin(func() error { return mergeDurably(ctx, live) })(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	x.change(func(s *State) {
		if s.Phase == Ready {
			s.Phase = Opening
		}
	})
	return errSettled
}

// mergeDurably merges all segments into one and returns when the folder has the result. ForceMerge alone returns
// earlier, and closing the index then would undo the merge. If ctx ends, it stops without an error.
func mergeDurably(ctx context.Context, live *scorch.Scorch) error {
	one := mergeplan.SingleSegmentMergePlanOptions
	one.SegmentsPerMergeTask = math.MaxInt // all at once
	snap, err := snapshot(live)
	if err != nil {
		return err
	}
	place := placeOf(snap)
	if err := snap.Close(); err != nil {
		return err
	}

	if err := live.ForceMerge(ctx, &one); err != nil || ctx.Err() != nil {
		return err
	}
	b := index.NewBatch() // is written after everything before it
	b.SetInternal(placeKey, binary.BigEndian.AppendUint64(nil, place))
	return live.Batch(b)
}

// mapped calls fn with each file of the index that is mapped into memory.
func mapped(live *scorch.Scorch, fn func(file []byte)) {
	snap, err := snapshot(live)
	if err != nil {
		return
	}
	defer snap.Close()
	for _, s := range snap.Segments() {
		if m, ok := s.Segment().(interface{ Data() []byte }); ok {
			fn(m.Data())
		}
	}
}

// relaxStore makes the store release the memory that reading it took.
func (x *Index) relaxStore() {
	if x.o.Relax == nil {
		return
	}
	if err := x.o.Relax(); err != nil {
		x.o.Log.Warn("cannot release memory of the store", "error", err)
	}
}

// waitForChanges waits for changes, and then a little for more. If there are changes already, it waits for the pause,
// or until a caller is waiting for the index.
func (x *Index) waitForChanges(ctx context.Context, live *scorch.Scorch, caught bool, pause time.Duration) error {
	if !caught {
		_, err := x.wait(ctx, x.hurry, time.After(pause))
		return err
	}
	if err := x.rest(ctx, live); err != nil {
		return err
	}
	soon := time.NewTimer(linger)
	defer soon.Stop()
	_, err := x.wait(ctx, x.hurry, soon.C)
	return err
}

// rest waits for a change. While there is none, it merges segments once, and releases memory now and then.
func (x *Index) rest(ctx context.Context, live *scorch.Scorch) error {
	woken, err := x.wait(ctx, x.o.Wake, time.After(min(linger, x.o.idle)))
	if err != nil || woken {
		return err
	}

	x.leaveCore(false)
	woken, err = x.wait(ctx, x.o.Wake, time.After(x.o.idle))
	if err != nil || woken {
		return err
	}

	woken, err = x.tidy(ctx, live)
	if err != nil || woken {
		return err
	}

	for first := true; ; first = false {
		asked := x.asked.Swap(false)
		if first || asked {
			mapped(live, release)
			x.relaxStore()
		}
		if asked {
			debug.FreeOSMemory() // concurrent searches take much memory
		}
		woken, err = x.wait(ctx, x.o.Wake, time.After(x.o.idle))
		if err != nil || woken {
			return err
		}
	}
}

// wait returns when wake or after receives; woken says whether it was wake. It fails when the index cannot continue.
func (x *Index) wait(ctx context.Context, wake <-chan struct{}, after <-chan time.Time) (woken bool, err error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case err := <-x.broken:
		return false, x.causeOf(err)
	case <-x.rebuildNow:
		return false, &rebuild{}
	case <-wake:
		return true, nil
	case <-after:
		return false, nil
	}
}

// causeOf is the consequence of a background error. It also passes the error on to others that wait for the open index.
func (x *Index) causeOf(err error) error {
	offer(x.broken, err)
	if persists(err) {
		return err
	}
	return &rebuild{err}
}

// persists reports whether the error comes from writing, for example to a full disk. Then the files on the disk are
// intact.
func persists(err error) bool {
	var e *scorch.ScorchError
	return errors.As(err, &e) && errors.Is(e, scorch.ErrPersist)
}

// writer writes batches to an index, one at a time, while the next one is prepared.
type writer struct {
	x    *Index
	live *scorch.Scorch
	busy func() error // waits for the batch that is being written, or nil
}

// apply writes changes in batches. Each batch starts when the previous one is on the disk. apply returns when the last
// batch has started.
func (w *writer) apply(some []kv.Change) error {
	b := index.NewBatch()
	volume := 0
	for i := range some {
		c := &some[i]
		if d := w.x.row(c); d == nil {
			b.Delete(docID(c.Kind, c.ID))
		} else {
			b.Update(d)
			volume += d.volume
		}
		if volume > batchText || i == len(some)-1 {
			if err := w.write(b, c.Seq); err != nil {
				return err
			}
			b, volume = index.NewBatch(), 0
		}
	}
	return nil
}

// write starts to write a batch that brings the index to a place in the feed.
func (w *writer) write(b *index.Batch, at uint64) error {
	if err := w.flush(); err != nil {
		return err
	}
	b.SetInternal(placeKey, binary.BigEndian.AppendUint64(nil, at))
	w.busy = w.x.begin(func() error { return w.live.Batch(b) })
	return nil
}

// flush returns when all batches are on the disk.
func (w *writer) flush() error {
	if w.busy == nil {
		return nil
	}
	wait := w.busy
	w.busy = nil
	return wait()
}

// begin starts a call of the library; wait returns when it has ended. The library's goroutines may have died because of
// a damaged file. Then the call never returns, but wait does.
func (x *Index) begin(call func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- &rebuild{fmt.Errorf("%w: %v", errDamaged, p)}
			}
		}()
		done <- call()
	}()
	return func() error {
		select {
		case err := <-done:
			return err
		case err := <-x.broken:
			return x.causeOf(err)
		}
	}
}

// Score is how well a record matches, read without the index; false if it does not match.
func (x *Index) Score(f *Finder, r *record.Record) (int, bool) {
	score, ok, err := f.score(r, x.content)
	return score, ok && err == nil // an unreadable row counts as missing
}

// Scan reads the records instead of an index that is not ready. When ctx ends, it stops and complete is false.
func (x *Index) Scan(ctx context.Context, f *Finder, all iter.Seq2[*record.Record, error]) (h *Hits, complete bool) {
	h = new(Hits)
	for r, err := range all {
		if ctx.Err() != nil {
			return h.sort(), false
		}
		if err != nil {
			continue // an unreadable record counts as missing
		}
		if score, ok := x.Score(f, r); ok {
			h.loose = append(h.loose, Hit{r.Kind, r.ID, score})
		}
	}
	return h.sort(), true
}
