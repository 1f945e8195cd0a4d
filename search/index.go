// Package search finds records by their words. It keeps an index beside the
// store, which is derived from it and rebuilt whenever it is not proven
// whole. The index only proposes: who asks reads each record from the store.
package search

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/index/scorch/mergeplan"
	index "github.com/blevesearch/bleve_index_api"

	"kist/kv/record"
)

// Options are what an Index is made of. All but Room, Relax, Mapped and Content are required.
type Options struct {
	Dir   string // the folder of the index, which is made; its content may be deleted while nobody has it open
	Store string // names the store whose records these are: another one's index is rebuilt
	// Feed reads up to limit changes after a place, with the records as they
	// are now, the latest place there is, and the place up to which removals
	// may be forgotten.
	Feed func(since uint64, limit int) (some []record.Change, latest, trimmed uint64, err error)
	// Trim forgets the removals at the places, which are in the index.
	Trim func(places []uint64) error
	Wake <-chan struct{} // receives when there are changes
	// Room is how many bytes the disk takes at present: without room the index
	// waits, so that it takes no one else's.
	Room func() int64
	// Relax gives back the memory that reading records through took.
	Relax func() error
	// Mapped is how many bytes of files the process has in its memory; 0 if
	// nobody can tell.
	Mapped func() int64
	// Content reads the first MaxContent bytes of a file.
	Content func(*record.Record) ([]byte, error)
	Log     *slog.Logger
}

// Bounds of a batch: of changes, of those while the index is rebuilt, when
// larger ones leave less to merge, and of the text in it, in bytes.
const (
	batchChanges = 500
	batchAnew    = 2000
	batchText    = 1 << 20
	// batchMemory is the least memory limit for batches of batchAnew changes:
	// two at a time take up to 70 MB.
	batchMemory = 256 << 20
)

// largeBuild is how many changes make an index that is settled once it is made:
// its segments are merged into one, and it is opened again, which gives back the
// memory that making it took. segmentsAnew is how many segments of a size may
// come together until then: to merge them earlier is work that is done again.
const (
	largeBuild   = 5000
	segmentsAnew = 64
)

// mostGone bounds the marks of removals that are kept in mind while they cannot
// be taken away. Others go when the index is next rebuilt.
const mostGone = 100_000

// idle is how long nothing must have changed until memory is given back, and how
// often what searches took is given back from then on.
const idle = time.Minute

// linger is how long changes may wait for more of them, so that a few are not
// a batch of their own. They are found meanwhile: see View.Find.
const linger = time.Second

// retryAfter is how long the index is let be after something went wrong, such
// as a full disk.
const retryAfter = 10 * time.Second

// An Index is the search index of a store. Run keeps it; it is safe for
// concurrent use.
type Index struct {
	o     Options
	queue *index.AnalysisQueue

	mu   sync.RWMutex   // held for reading by each View
	live *scorch.Scorch // nil while there is none to be asked

	ordersMu sync.Mutex
	orders   map[uint64]*order // by segment

	stateMu sync.Mutex
	state   State
	moved   chan struct{} // closed when the state has changed

	asked      atomic.Bool   // since memory was last given back
	flood      chan struct{} // many changes came at once
	hurry      chan struct{} // somebody waits for the index to catch up
	broken     chan error    // why the index that is open cannot go on
	rebuildNow chan struct{} // it is to be rebuilt
}

// State is how an index is.
type State struct {
	Phase Phase `json:"state"`
	// Documents is how many this process has written since it began, or began
	// the index again.
	Documents int64 `json:"documents"`
	// Place is the place in the feed of changes that it has reached, Latest
	// the last one that was there when it looked.
	Place  uint64 `json:"place"`
	Latest uint64 `json:"latest"`
	// Problem is why it is not ready, if something is wrong.
	Problem string `json:"problem,omitempty"`
	Built   int    `json:"-"` // how often it was rebuilt by this process
}

// Phase is what an index does.
type Phase string

// The phases. An index that is not Ready is not asked: records are read
// through instead.
const (
	Opening  Phase = "opening"
	Building Phase = "building"
	Ready    Phase = "ready"
	Failed   Phase = "failed" // it is tried again
	Closed   Phase = "closed"
)

// Phases are all phases.
func Phases() []string {
	return []string{string(Opening), string(Building), string(Ready), string(Failed), string(Closed)}
}

var errDamaged = errors.New("the search index is damaged")

// New makes an index, which is not open until Run is called.
func New(o Options) *Index {
	return &Index{
		o: o, state: State{Phase: Closed}, moved: make(chan struct{}),
		flood: make(chan struct{}, 1), hurry: make(chan struct{}, 1), broken: make(chan error, 1), rebuildNow: make(chan struct{}, 1),
	}
}

// State tells how the index is.
func (x *Index) State() State {
	x.stateMu.Lock()
	defer x.stateMu.Unlock()
	return x.state
}

// change changes the state and tells those who wait for that.
func (x *Index) change(fn func(*State)) {
	x.stateMu.Lock()
	defer x.stateMu.Unlock()
	fn(&x.state)
	close(x.moved)
	x.moved = make(chan struct{})
}

// Await returns when the state satisfies a condition, with it, or when ctx is
// over, with its error.
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

// Hurry lets what waits for more changes go on at once, and returns when the
// index is beyond the place, is not ready any more, or ctx is over.
func (x *Index) Hurry(ctx context.Context, place uint64) {
	select {
	case x.hurry <- struct{}{}:
	default:
	}
	_, _ = x.Await(ctx, func(s State) bool { return s.Phase != Ready || s.Place > place })
}

// Rebuild has the index rebuilt. It returns at once; State tells how far it
// is.
func (x *Index) Rebuild() {
	x.change(func(s *State) { s.Phase = Building })
	select {
	case x.rebuildNow <- struct{}{}:
	default:
	}
}

// View is the index as it is now; false if it is not ready. While it is being
// opened, which takes a moment at the start and once it was made, it waits for
// that.
func (x *Index) View(ctx context.Context) (*View, bool) {
	if _, err := x.Await(ctx, func(s State) bool { return s.Phase != Opening }); err != nil {
		return nil, false
	}
	x.mu.RLock()
	if x.live == nil || x.State().Phase != Ready {
		x.mu.RUnlock()
		return nil, false
	}
	r, err := x.live.Reader()
	snap, ok := r.(*scorch.IndexSnapshot)
	if err != nil || !ok || snap == nil {
		x.mu.RUnlock()
		return nil, false
	}
	x.asked.Store(true)
	return &View{x: x, snap: snap, at: placeOf(snap)}, true
}

// markDamaged notes that the index that is open must not be asked any more.
func (x *Index) markDamaged(err error) {
	x.change(func(s *State) {
		if s.Phase == Ready || s.Phase == Building {
			s.Phase, s.Problem = Failed, err.Error()
		}
	})
	select {
	case x.broken <- err:
	default:
	}
}

// content is what of a file is searched.
func (x *Index) content(r *record.Record) string {
	if x.o.Content == nil {
		return ""
	}
	b, err := x.o.Content(r)
	if err != nil {
		x.o.Log.Warn("a file is searched by its name alone: it cannot be read", "id", r.ID, "error", err)
		return ""
	}
	return textOf(b)
}

// orderOf is the order of a segment.
func (x *Index) orderOf(s *scorch.SegmentSnapshot) (*order, error) {
	x.ordersMu.Lock()
	o := x.orders[s.Id()]
	x.ordersMu.Unlock()
	if o != nil {
		return o, nil
	}
	o, err := newOrder(s.Segment())
	if err != nil {
		return nil, err
	}
	x.ordersMu.Lock()
	defer x.ordersMu.Unlock()
	if x.orders == nil {
		x.orders = map[uint64]*order{}
	}
	x.orders[s.Id()] = o
	return o, nil
}

// forget drops the orders of segments that are no more.
func (x *Index) forget(s *scorch.IndexSnapshot) {
	there := map[uint64]bool{}
	if s != nil {
		for _, seg := range s.Segments() {
			there[seg.Id()] = true
		}
	}
	x.ordersMu.Lock()
	defer x.ordersMu.Unlock()
	for id := range x.orders {
		if !there[id] {
			delete(x.orders, id)
		}
	}
}

// Run opens the index, keeps it up to date until ctx is over, and closes it.
// It is called once.
func (x *Index) Run(ctx context.Context) {
	x.change(func(s *State) { s.Phase = Opening })
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
				x.o.Log.Warn("the search index is rebuilt at the next start", "error", err)
			}
			return
		}
		if errors.Is(err, errSettled) {
			wipe = false
			x.relaxStore()
			debug.FreeOSMemory() // making the index took more than keeping it does
			continue
		}
		var again *rebuild
		if wipe = errors.As(err, &again); wipe {
			if again.why != nil {
				x.o.Log.Warn("the search index is rebuilt", "error", again.why)
			}
			continue
		}
		x.o.Log.Error("the search index cannot be kept; it is tried again, and searches take longer meanwhile", "error", err, "after", retryAfter)
		x.change(func(s *State) { s.Phase, s.Problem = Failed, err.Error() })
		select {
		case <-ctx.Done():
		case <-x.rebuildNow:
			x.Rebuild() // keep looks again
		case <-time.After(retryAfter):
		}
	}
}

// rebuild says that the index must be rebuilt, and why if that is not what
// somebody wanted.
type rebuild struct{ why error }

func (r *rebuild) Error() string { return fmt.Sprintf("the search index must be rebuilt: %v", r.why) }
func (r *rebuild) Unwrap() error { return r.why }

func (x *Index) folder() string { return filepath.Join(x.o.Dir, "scorch") }

// openAndFollow opens the index, or begins a new one, and follows the feed until ctx is
// over or something is wrong.
func (x *Index) openAndFollow(ctx context.Context, wipe bool) (err error) {
	select {
	case <-x.broken: // of the one before
	default:
	}
	select {
	case <-x.rebuildNow:
		wipe = true
	default:
	}
	_, latest, trimmed, err := x.o.Feed(^uint64(0)>>1, 1)
	if err != nil {
		return err
	}
	at := uint64(0)
	if !wipe {
		if at, err = x.proven(latest, trimmed); err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				x.o.Log.Info("the search index is rebuilt", "because", err)
			}
			wipe = true
		}
	}
	if err := os.Remove(x.proofFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if wipe {
		if err := os.RemoveAll(x.folder()); err != nil {
			return fmt.Errorf("cannot remove the old search index: %w", err)
		}
		x.change(func(s *State) { *s = State{Phase: Building, Latest: latest, Built: s.Built + 1} })
		at = 0
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
	ended := false
	defer func() {
		if failed := x.end(live, ended); failed != nil && ended {
			err = failed // what it ended by is no matter
		} else {
			err = errors.Join(err, failed)
		}
	}()
	snap, err := snapshot(live)
	if err != nil {
		return err
	}
	has := placeOf(snap)
	_ = snap.Close()
	if has != at {
		return &rebuild{fmt.Errorf("%w: it is at %d and should be at %d", errDamaged, has, at)}
	}
	x.mu.Lock()
	x.live = live
	x.mu.Unlock()
	x.change(func(s *State) {
		if s.Place, s.Latest, s.Problem = at, latest, ""; !wipe {
			s.Phase = Ready // perhaps behind
		}
	})
	mapped(live, release) // opening it has read here and there
	err = x.follow(ctx, live, at, wipe, large)
	if ended = errors.Is(err, errSettled); ctx.Err() != nil {
		ended = ended || errors.Is(err, ctx.Err())
	}
	return err
}

// end closes the index that was open; if it ended well, it proves it whole.
func (x *Index) end(live *scorch.Scorch, well bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	x.mu.Lock() // waits for those who are looking
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

// open opens what is in the folder. A damaged index makes an error, whatever
// the library does about it. large says that it is rebuilt and settled then:
// its segments are hardly merged before.
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
		config["scorchMergePlanOptions"] = map[string]any{"MaxSegmentsPerTier": segmentsAnew, "SegmentsPerMergeTask": segmentsAnew}
	}
	made, err := scorch.NewScorch(scorch.Name, config, x.queue)
	if err != nil {
		return nil, err
	}
	s, ok := made.(*scorch.Scorch)
	if !ok {
		return nil, fmt.Errorf("%w: not the kind of index that was made", errDamaged)
	}
	if err := s.Open(); err != nil {
		return nil, fmt.Errorf("cannot open the search index: %w", err)
	}
	return s, nil
}

// The library calls by name anyone who should hear of what goes wrong behind the
// calls, with the path of the index.
const listener = "kist"

var listeners sync.Map // of *Index, by path

func init() {
	scorch.RegistryAsyncErrorCallbacks[listener] = func(err error, path string) {
		if x, ok := listeners.Load(path); ok {
			x.(*Index).markDamaged(err) //nolint:errcheck // nothing else is in it
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

// follow applies changes as they come. building says that the index is made
// again, large that it is settled then.
func (x *Index) follow(ctx context.Context, live *scorch.Scorch, at uint64, building, large bool) error {
	begun := time.Now()
	w := &writer{x: x, live: live}
	defer func() { _ = w.flush() }() // where that fails, something else has
	var gone []uint64                // the places of removals that were applied
	last := uint64(0)                // the latest change when it looked before
	for {
		started := time.Now()
		limit := batchChanges
		if building && debug.SetMemoryLimit(-1) >= batchMemory { // which only reads it
			limit = batchAnew
		}
		some, latest, _, err := x.o.Feed(at, limit)
		if err != nil {
			return err
		}
		if len(some) > 0 {
			if x.o.Room != nil && x.o.Room() <= 0 {
				if _, err := x.wait(ctx, nil, time.After(retryAfter)); err != nil {
					return err
				}
				continue
			}
			if err := w.apply(some); err != nil {
				return err
			}
			if !building && len(some) >= floodChanges {
				x.noteFlood()
			}
			at = some[len(some)-1].Seq
			for _, c := range some {
				if c.Record == nil {
					gone = append(gone, c.Seq)
				}
			}
		}
		caught := len(some) == 0 || at >= latest
		if caught && at < latest {
			// The places in between are empty: the removals there are forgotten,
			// or never came to be.
			if err := w.write(index.NewBatch(), latest); err != nil {
				return err
			}
			at = latest
		}
		if caught || !building {
			if err := w.flush(); err != nil {
				return err
			}
			if len(gone) == 0 {
				// Nothing was removed.
			} else if err := x.o.Trim(gone); err == nil || len(gone) > mostGone {
				gone = gone[:0]
			} else {
				x.o.Log.Warn("marks of removals were not taken away yet", "error", err)
			}
		}
		x.change(func(s *State) {
			s.Place, s.Latest = at, max(latest, at)
			if s.Documents += int64(len(some)); caught && building && s.Phase == Building {
				s.Phase = Ready
			}
		})
		if caught && building {
			building = false
			n := x.State().Documents
			if n > 0 {
				x.o.Log.Info("the search index was rebuilt", "documents", n, "took", time.Since(begun).Round(time.Millisecond))
			}
			if large {
				return x.mergeSegments(ctx, live)
			}
		}
		if snap, err := snapshot(live); err == nil {
			x.forget(snap)
			_ = snap.Close()
		}
		pause := time.Duration(0)
		if !building && latest > last { // while others write, they have half of the time to themselves
			pause = time.Since(started)
		}
		last = latest
		if err := x.waitForChanges(ctx, live, caught, pause); err != nil {
			return err
		}
	}
}

// errSettled says that the index is to be closed and opened again.
var errSettled = errors.New("the search index is made")

// mergeSegments merges the segments of an index that was just made into one, if the
// disk has room for that beside them. Who asks waits from then on until the
// index is opened again.
func (x *Index) mergeSegments(ctx context.Context, live *scorch.Scorch) error {
	volume := int64(0)
	mapped(live, func(file []byte) { volume += int64(len(file)) })
	if x.o.Room == nil || x.o.Room() > volume {
		one := mergeplan.SingleSegmentMergePlanOptions
		one.SegmentsPerMergeTask = math.MaxInt // all at once
		if err := x.begin(func() error { return mergeDurably(ctx, live, &one) })(); err != nil {
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

// mergeDurably merges segments and returns when the folder says so: ForceMerge
// alone returns before, and closing the index then would undo it.
func mergeDurably(ctx context.Context, live *scorch.Scorch, how *mergeplan.MergePlanOptions) error {
	snap, err := snapshot(live)
	if err != nil {
		return err
	}
	place := placeOf(snap)
	if err := errors.Join(snap.Close(), live.ForceMerge(ctx, how)); err != nil {
		return err
	}
	b := index.NewBatch() // waits until all before it is written
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

// relaxStore has the store give back what was read of it.
func (x *Index) relaxStore() {
	if x.o.Relax == nil {
		return
	}
	if err := x.o.Relax(); err != nil {
		x.o.Log.Warn("memory stays taken", "error", err)
	}
}

// waitForChanges waits for changes if there are none, and then a little for more; for the
// pause if there are, or until somebody waits for the index.
func (x *Index) waitForChanges(ctx context.Context, live *scorch.Scorch, caught bool, pause time.Duration) error {
	if !caught {
		_, err := x.wait(ctx, x.hurry, time.After(pause))
		return err
	}
	quiet := time.NewTimer(idle)
	defer quiet.Stop()
	woken, err := x.wait(ctx, x.o.Wake, quiet.C)
	for first := true; err == nil && !woken; first = false {
		asked := x.asked.Swap(false)
		if first || asked {
			mapped(live, release)
			x.relaxStore()
		}
		if asked {
			debug.FreeOSMemory() // many searches at a time take much more than a few
		}
		woken, err = x.wait(ctx, x.o.Wake, time.After(idle))
	}
	if err != nil {
		return err
	}
	soon := time.NewTimer(linger)
	defer soon.Stop()
	_, err = x.wait(ctx, x.hurry, soon.C)
	return err
}

// wait returns when one of the two receives, and whether it was the first; or
// when the index cannot go on.
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

// causeOf is what follows from an error that was told behind the calls. Anyone who
// else waits for the index that is open hears of it too.
func (x *Index) causeOf(err error) error {
	select {
	case x.broken <- err:
	default:
	}
	if persists(err) {
		return err
	}
	return &rebuild{err}
}

// persists reports whether an error is one of writing, which a full disk
// makes: what is on the disk is whole.
func persists(err error) bool {
	var e *scorch.ScorchError
	return errors.As(err, &e) && errors.Is(e, scorch.ErrPersist)
}

// writer writes batches to an index, one at a time. The next one is made
// meanwhile.
type writer struct {
	x    *Index
	live *scorch.Scorch
	busy func() error // waits for the batch that is being written; nil if there is none
}

// apply writes changes in batches, of which it begins each when the one before
// is on the disk. It returns when the last one is begun.
func (w *writer) apply(some []record.Change) error {
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

// write begins to write a batch that brings the index to a place in the feed.
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

// begin runs a call of the library; wait returns when it has ended. The
// library's own goroutines may have died of a damaged file, in which case the
// call never returns.
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

// Score is how well a record fits, read through without the index; false if it
// does not fit.
func (x *Index) Score(f *Finder, r *record.Record) (int, bool) {
	score, ok, err := f.score(r, x.content)
	return score, ok && err == nil // a row that cannot be read is not there
}

// Scan reads records through in place of an index that is not ready, until ctx
// is over: then it reports that there may be more.
func (x *Index) Scan(ctx context.Context, f *Finder, all iter.Seq2[*record.Record, error]) (h *Hits, complete bool) {
	h = new(Hits)
	for r, err := range all {
		if ctx.Err() != nil {
			return h.sort(), false
		}
		if err != nil {
			continue // as above
		}
		if score, ok := x.Score(f, r); ok {
			h.loose = append(h.loose, Hit{r.Kind, r.ID, score})
		}
	}
	return h.sort(), true
}
