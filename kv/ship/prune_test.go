package ship_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/kvtest"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
)

func instanceOf(t *testing.T, dir string) string {
	t.Helper()
	instance, err := datadir.ReadInstance(dir)
	if err != nil {
		t.Fatal(err)
	}
	return instance
}

// referred is the bucket of the rows that refer to contents: see refer.
var referred = tables.All.Contents()[0].Bucket

// pruned is a store whose old history is removed.
type pruned struct {
	t       *testing.T
	m       *memory
	clock   *kvtest.Clock
	dir     string
	history time.Duration
	window  time.Duration              // for removals
	unused  time.Duration              // for which contents without a record stay at least
	async   bool                       // instead of sync mode
	limit   int64                      // of the contents on the disk, in bytes; 0 means no limit
	bold    bool                       // contents are evicted at any time
	log     *slog.Logger               // kvtest.Quiet if nil
	stuck   chan time.Time             // nil, or gets the time of the first removal of a content, which is stuck then
	reads   func(name string, n int64) // nil, or called before each read of an object
	store   *kv.Store
	ship    *ship.Shipper
	content *blobs.Store
}

const shortWindow = 300 * time.Millisecond

// pruning opens a new one, in sync mode.
func pruning(t *testing.T, history time.Duration) *pruned {
	t.Helper()
	p := &pruned{t: t, m: newMemory(), clock: kvtest.NewClock(), dir: filepath.Join(t.TempDir(), "data"), history: history, window: shortWindow}
	p.m.now = p.clock.Now
	p.open()
	t.Cleanup(p.close)
	return p
}

func (p *pruned) open() {
	p.t.Helper()
	p.ship = ship.New(ship.Options{Remote: watched{p.m, p}, Sync: !p.async, History: p.history, Log: cmp.Or(p.log, kvtest.Quiet), Address: "s3://test/kist"})
	ship.Hasten(p.ship, p.window, p.unused)
	p.store = kvtest.Opened(p.t, p.dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Now: p.clock.Now, Ship: p.ship})
	content, err := blobs.Open(filepath.Join(p.dir, "blobs"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.content = content
	if content.OnKeep = p.ship.Ahead; !p.bold {
		content.OnEvict = p.ship.Settled
	}
	blobs.Behind(content, p.m, p.limit, func() int64 { return 1 << 40 }, kvtest.Quiet)
	ready(p.t, p.store)
}

// watched is the remote of a pruned.
type watched struct {
	*memory
	p *pruned
}

func (w watched) Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	if w.p.reads != nil {
		w.p.reads(name, n)
	}
	return w.memory.Get(ctx, name, from, n)
}

func (w watched) Delete(ctx context.Context, name string, by time.Time) error {
	if w.p.stuck != nil && strings.HasPrefix(name, "blobs/") {
		w.p.stuck <- by
		<-ctx.Done()
		return ctx.Err()
	}
	return w.memory.Delete(ctx, name, by)
}

func (p *pruned) close() {
	if err := errors.Join(p.content.Close(), p.store.Close()); err != nil {
		p.t.Error(err)
	}
}

// prune removes what is too old, contents included.
func (p *pruned) prune() error {
	if err := os.RemoveAll(filepath.Join(p.dir, "cache", "store-removal")); err != nil {
		return err
	}
	_, err := p.ship.Prune(p.t.Context(), p.contents())
	return err
}

// contents is what a Shipper must know of the contents.
func (p *pruned) contents() ship.Contents {
	return ship.Contents{
		Store: p.content,
		Here: func(yield func(blobs.Ref, error) bool) {
			for _, ref := range p.refs(p.store) {
				if !yield(ref, nil) {
					return
				}
			}
		},
		Unknown: func(ref [32]byte) (unknown bool, err error) {
			return !slices.Contains(p.refs(p.store), blobs.Ref(ref)), nil
		},
	}
}

// refs are the contents that rows refer to.
func (p *pruned) refs(store *kv.Store) (all []blobs.Ref) {
	kvtest.View(p.t, store, func(tx *kv.Tx) error {
		for k := range tx.Walk(referred, nil, nil, false) {
			all = append(all, blobs.Ref(k[:32]))
		}
		return nil
	})
	return all
}

// body is a content.
func body(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "content %d ", n), 10+n) }

// add stores a content and refers to it.
func (p *pruned) add(n int) blobs.Ref {
	p.t.Helper()
	st, err := p.content.StageSmall()
	if err == nil {
		_, err = st.Write(body(n))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	kept, err := st.KeepLater()
	if err != nil {
		p.t.Fatal(err)
	}
	defer kept.Release()
	if err := refer(p.store, kept.Ref); err != nil {
		p.t.Fatal(err)
	}
	return kept.Ref
}

// remove ends the reference to a content. With disk it also removes it from the disk.
func (p *pruned) remove(ref blobs.Ref, disk bool) {
	p.t.Helper()
	kvtest.Update(p.t, p.store, func(tx *kv.Tx) error { return tx.Delete(referred, append(slices.Clone(ref[:]), "a row"...)) })
	if disk {
		if _, err := p.content.Unlink(ref, func() (bool, error) { return true, nil }); err != nil {
			p.t.Fatal(err)
		}
	}
}

// snapshot puts one of the present state.
func (p *pruned) snapshot() {
	p.t.Helper()
	if err := p.store.Compact(); err != nil {
		p.t.Fatal(err)
	}
	ship.ShipSnapshot(p.t.Context(), p.ship)
}

// A past is what there was at a moment.
type past struct {
	at   time.Time
	want map[string]string
	refs []blobs.Ref
}

func (p *pruned) now() past {
	p.t.Helper()
	got := past{p.clock.Now(), kvtest.ContentOf(p.t, p.store), p.refs(p.store)}
	p.clock.Add(time.Millisecond)
	return got
}

// lacks returns why a moment cannot be restored from a remote with its files; nil if it
// can.
func (p *pruned) lacks(m *memory, want past) error {
	p.t.Helper()
	back, _, err := restored(p.t, m, want.at)
	if err != nil {
		return err
	}
	defer back.Close()
	if key := differing(kvtest.ContentOf(p.t, back), want.want); key != "" {
		return errors.New(key)
	}
	for _, ref := range want.refs {
		if err := blobs.CheckBytes(ref, bytes.NewReader(m.objects[ref.RemoteName()])); err != nil {
			return fmt.Errorf("content %s: %w", ref, err)
		}
	}
	return nil
}

// Whatever happens, and wherever a removal is cut short, every moment of the time that
// is kept can be restored with its files, and an earlier one is refused. What nothing
// needs goes in the end.
func TestPrune(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			rnd, picks := rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 8)) // the second one for checks
			const keep = 20 * time.Hour
			p := pruning(t, keep)
			var all []past
			var cut []string // removals that were cut short
			owner := kvtest.User(t, p.store, "ann").ID
			check := func(m *memory, n int) {
				t.Helper()
				from := slices.IndexFunc(all, func(one past) bool { return !one.at.Before(p.clock.Now().Add(-keep)) })
				for range n {
					one := all[from+picks.IntN(len(all)-from)]
					if err := p.lacks(m, one); err != nil {
						t.Fatalf("%s of %s, after %v: %v", one.at, p.clock.Now(), cut, err)
					}
				}
				_, err := ship.Check(t.Context(), m, workcopy.Format, instanceOf(t, p.dir), func(err error) { t.Fatal(err) })
				is.NoErr(err)
			}
			for step := range 240 {
				p.clock.Add(time.Duration(1+rnd.IntN(40)) * time.Minute)
				held := p.refs(p.store)
				switch n := rnd.IntN(20); {
				case n < 8:
					p.add(rnd.IntN(16))
				case n < 14 && len(held) > 0:
					p.remove(held[rnd.IntN(len(held))], rnd.IntN(4) > 0)
				case n < 17:
					kvtest.Add(t, p.store, owner, record.Notes, fmt.Sprintf(`{"content":"%d"}`, step))
				case n == 17:
					p.snapshot()
				case n == 18:
					is.NoErr(ship.Merge(t.Context(), p.m))
				case step%3 == 0:
					p.close()
					p.open()
				}
				all = append(all, p.now())
				if step%40 != 39 {
					continue
				}
				for err, tries := errCut, 0; err != nil; tries++ { // a crash after each removal
					is.True(tries < 500)
					done := 0
					p.m.set(func(verb, name string) error {
						if verb != "delete" || strings.HasPrefix(name, "race/") {
							return nil
						}
						if done++; done > 1 {
							return errCut
						}
						cut = append(cut, name)
						return nil
					}, nil)
					err = p.prune()
					p.m.set(nil, nil)
					if picks.IntN(3) == 0 {
						check(p.m.copied(), 1)
					}
				}
				check(p.m, 3)
				oldest := p.ship.Status().Oldest
				is.True(!oldest.IsZero())
				for _, one := range all {
					if one.at.Before(oldest) {
						err := p.lacks(p.m, one)
						is.True(err != nil && strings.Contains(err.Error(), "the oldest moment that can be restored is "+oldest.Add(time.Second-1).Truncate(time.Second).UTC().Format(time.RFC3339)))
						break
					}
				}
			}
			is.True(slices.ContainsFunc(cut, func(name string) bool { return strings.HasPrefix(name, "blobs/") }))
			is.True(slices.ContainsFunc(cut, func(name string) bool { return strings.HasPrefix(name, "snap/") }))
			is.True(slices.ContainsFunc(cut, func(name string) bool { return strings.HasPrefix(name, "log/") }))
			is.Equal(p.ship.Status().Failure, nil)

			// Of what is removed everywhere, nothing stays.
			for _, ref := range p.refs(p.store) {
				p.remove(ref, true)
			}
			for n := range 16 {
				_, err := p.content.Unlink(blobs.Ref(sha256.Sum256(body(n))), func() (bool, error) { return true, nil })
				is.NoErr(err)
			}
			p.snapshot()
			p.clock.Add(2 * keep)
			is.NoErr(p.prune())
			is.Equal(len(p.m.names("blobs/")), 0)
			is.Equal(len(p.m.names("snap/")), 1)
			is.Equal(len(p.m.names("from/")), 1)
			is.NoErr(p.lacks(p.m, p.now()))
		})
	}
}

// Contents that only the history refers to stay, and those that a record has again. The
// control overlooks the history.
func TestPruneReadsHistory(t *testing.T) {
	t.Parallel()
	for _, blind := range []bool{false, true} {
		t.Run(fmt.Sprint(blind), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := pruning(t, 10*time.Hour)
			p.snapshot()
			p.clock.Add(11 * time.Hour)
			old := p.add(1)
			both := p.add(2)
			p.clock.Add(time.Hour)
			last := p.now()
			p.remove(old, true)
			p.remove(both, true)
			p.clock.Add(9 * time.Hour)
			is.NoErr(p.prune())
			is.NoErr(p.lacks(p.m, last))
			p.clock.Add(2 * time.Hour) // the contents are too old now, and so is the moment
			p.snapshot()
			p.add(2)
			last = p.now()
			p.remove(both, true)
			p.clock.Add(9 * time.Hour)
			if blind {
				ship.Blind(p.ship)
			}
			is.NoErr(p.prune())
			is.Equal(p.lacks(p.m, last) != nil, blind)
			p.clock.Add(2 * time.Hour)
			p.snapshot()
			p.clock.Add(11 * time.Hour)
			is.NoErr(p.prune())
			is.Equal(len(p.m.names("blobs/")), 0)
		})
	}
}

// A content that is kept again while it is removed is in the store afterwards.
func TestPruneAndKeepAgain(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, time.Hour)
	for round := range 6 {
		ref := p.add(round)
		p.remove(ref, true)
		p.clock.Add(time.Minute)
		p.snapshot()
		p.clock.Add(2 * time.Hour)
		reached, done := make(chan struct{}), make(chan struct{})
		p.m.set(func(verb, name string) error { // each at another step
			if name == ref.RemoteName() && verb == "delete" || round%2 == 1 && strings.HasPrefix(name, "snap/") && verb == "get" {
				select {
				case <-reached:
				default:
					close(reached)
				}
			}
			return nil
		}, nil)
		go func() {
			defer close(done)
			<-reached
			p.add(round)
		}()
		is.NoErr(p.prune())
		select {
		case <-reached:
		default:
			close(reached)
		}
		<-done
		p.m.set(nil, nil)
		is.NoErr(p.lacks(p.m, p.now()))
	}
}

// A content that was kept for a moment while the history was read is needed for that
// moment.
func TestPruneAndKeepMeanwhile(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, time.Hour)
	ref := p.add(1)
	p.remove(ref, true)
	p.clock.Add(time.Minute)
	p.snapshot()
	p.clock.Add(2 * time.Hour)
	p.m.set(func(verb, name string) error {
		if verb == "delete" && name == ref.RemoteName() {
			return errCut
		}
		return nil
	}, nil)
	is.True(p.prune() != nil) // but the history begins later now
	p.m.set(nil, nil)
	snap := p.m.names("snap/")[0]
	var whole, meanwhile atomic.Bool
	var then past
	p.reads = func(name string, n int64) {
		if name == snap && n > 1<<20 {
			whole.Store(true)
		}
		if !whole.Load() || !strings.HasPrefix(name, "log/") || meanwhile.Swap(true) {
			return
		}
		p.add(1)
		then = p.now()
		p.remove(ref, true)
	}
	is.NoErr(p.prune())
	is.True(meanwhile.Load())
	is.NoErr(p.lacks(p.m, then))
}

// A content that only the snapshot after a gap refers to stays.
func TestPruneGap(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, 10*time.Hour)
	ref := p.add(1)
	p.clock.Add(time.Hour)
	p.remove(ref, true)
	p.snapshot()
	p.clock.Add(2 * time.Hour)
	p.close()
	alone := kvtest.OpenAt(t, p.dir, p.clock.Now)
	content, err := blobs.Open(filepath.Join(p.dir, "blobs"))
	is.NoErr(err)
	st, err := content.Stage()
	is.NoErr(err)
	_, err = st.Write(body(1))
	is.NoErr(err)
	kept, err := st.Keep()
	is.NoErr(err)
	is.NoErr(refer(alone, kept.Ref))
	kept.Release()
	is.NoErr(alone.Compact())
	is.NoErr(errors.Join(alone.Close(), content.Close()))
	newest := filepath.Base(kvtest.NewestFile(t, p.dir, "snap"))
	for path := range kvtest.FilesIn(t, filepath.Join(p.dir, "journal")) {
		if _, seq, _ := strings.Cut(filepath.Base(path), "-"); seq < strings.TrimPrefix(newest, "snap-") {
			is.NoErr(os.Remove(path))
		}
	}
	p.open()
	is.Equal(len(p.m.names("snap/")), 3)
	then := p.now()
	p.remove(ref, true)
	p.clock.Add(9 * time.Hour)
	is.NoErr(tried(p.store))
	is.NoErr(p.prune())
	is.Equal(len(p.m.names("snap/")), 2) // the one before the gap is the first
	is.NoErr(p.lacks(p.m, then))
	_, err = ship.Check(t.Context(), p.m, workcopy.Format, instanceOf(t, p.dir), func(err error) { t.Error(err) })
	is.NoErr(err)
	p.clock.Add(3 * time.Hour)
	is.NoErr(p.prune())
	p.snapshot()
	p.clock.Add(11 * time.Hour)
	is.NoErr(p.prune())
	is.Equal(len(p.m.names("blobs/")), 0)
}

// What the store has lost and the disk has is sent again.
func TestPruneSendsAgain(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, 0)
	ref, young := p.add(1), p.add(2)
	old := time.Now().Add(-2 * time.Hour)
	is.NoErr(os.Chtimes(filepath.Join(p.dir, ref.RemoteName()), old, old))
	is.NoErr(p.m.Delete(t.Context(), ref.RemoteName(), time.Time{}))
	is.NoErr(p.m.Delete(t.Context(), young.RemoteName(), time.Time{}))
	is.NoErr(p.prune())
	is.Equal(p.m.names("blobs/"), []string{ref.RemoteName()}) // the other one may be on its way
	is.Equal(p.ship.Status().Removed, uint64(0))
}

// A history that begins later than it did is whole. If it has lost something, that is
// named, and a former writer finds its place taken.
func TestPrunedHistory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, 10*time.Hour)
	for range 3 {
		for range 12 {
			is.NoErr(tried(p.store))
		}
		p.clock.Add(time.Hour)
		p.snapshot()
		p.close()
		p.open()
	}
	before, epoch := p.m.names("log/"), map[string]uint64{}
	for _, name := range before {
		got, err := ship.SlotIn(t.Context(), p.m, name)
		is.NoErr(err)
		epoch[name] = got.Epoch
	}
	p.clock.Add(11 * time.Hour)
	for range 3 {
		is.NoErr(tried(p.store))
	}
	is.NoErr(p.prune())
	names := p.m.names("log/")
	is.True(len(names) < len(before)/2)
	is.Equal(names[0], before[0])
	is.Equal(len(p.m.names("snap/")), 1)
	problems := func(m *memory) (text string) {
		_, err := ship.Check(t.Context(), m, workcopy.Format, instanceOf(t, p.dir), func(err error) { text += err.Error() + "\n" })
		is.NoErr(err)
		return text
	}
	is.Equal(problems(p.m), "")
	is.NoErr(p.lacks(p.m, p.now()))

	// The first and last slots of each epoch are there.
	edges := 0
	for i, name := range before[1:] {
		if epoch[before[i]] != epoch[name] {
			is.True(slices.Contains(names, before[i]) && slices.Contains(names, name))
			edges++
		}
	}
	is.Equal(edges, 3)

	// What is missing is named.
	begin := p.m.names("from/")
	is.Equal(len(begin), 1)
	first := "log/" + strings.Split(strings.TrimPrefix(begin[0], "from/"), "-")[0]
	snap := p.m.names("snap/")[0]
	for _, name := range []string{first, snap, names[len(names)-2]} {
		m := p.m.copied()
		delete(m.objects, name)
		is.True(strings.Contains(problems(m), name)) // name
		m = p.m.copied()
		m.objects[name][len(m.objects[name])-1] ^= 1
		is.True(strings.Contains(problems(m), name)) // name
	}
	m := p.m.copied()
	delete(m.objects, begin[0]) // so nothing says that it was meant
	is.True(strings.Contains(problems(m), "is missing"))
}

// late is a remote that calls a function before one of its reads.
type late struct {
	*memory
	reads atomic.Int64
	fn    func()
}

func (l *late) Get(ctx context.Context, name string, from, n int64) (r io.ReadCloser, err error) {
	if l.reads.Add(-1) == 0 {
		l.fn()
	}
	return l.memory.Get(ctx, name, from, n)
}

// A restore that reads while the history is removed gives what there was, or begins
// again, or says that the moment is gone.
func TestRestoreWhilePruned(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, 10*time.Hour)
	var all []past
	for range 4 {
		for range 5 {
			is.NoErr(tried(p.store))
			p.clock.Add(time.Hour)
			all = append(all, p.now())
		}
		p.snapshot()
		is.NoErr(ship.Merge(t.Context(), p.m))
	}
	p.clock.Add(6 * time.Hour)
	is.NoErr(tried(p.store))
	after := p.m.copied()
	p.m.set(nil, nil)
	is.NoErr(p.prune())
	gone := 0
	for i, want := range append(all, past{want: kvtest.ContentOf(t, p.store)}) {
		for reads := 1 + i%7; reads < 40; reads += 7 {
			l := &late{memory: after.copied()}
			l.reads.Store(int64(reads))
			l.fn = func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.objects = p.m.copied().objects
			}
			back, _, err := restored(t, l, want.at)
			if err != nil {
				is.True(!want.at.IsZero() && want.at.Before(p.ship.Status().Oldest))
				is.True(strings.Contains(err.Error(), "the oldest moment"))
				gone++
				continue
			}
			is.Equal(differing(kvtest.ContentOf(t, back), want.want), "")
			is.NoErr(back.Close())
		}
	}
	is.True(gone > 10)
}

// Only the writer removes objects, and only a moment after it has put a slot.
func TestPruneOnlyByWriter(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, time.Hour)
	old := p.add(1)
	p.remove(old, true)
	p.clock.Add(time.Minute)
	p.snapshot()
	p.clock.Add(2 * time.Hour)
	is.NoErr(tried(p.store))

	place := filepath.Join(t.TempDir(), "data")
	is.NoErr(os.Mkdir(place, 0o700))
	got, err := ship.Fetch(t.Context(), p.m, time.Time{}, workcopy.Format, place)
	is.NoErr(err)
	is.NoErr(errors.Join(datadir.WriteInstance(place, got.Instance), got.Claim(place)))
	second, _ := opened(t, place, ship.Options{Remote: p.m, Sync: true, TakeOver: true}, p.clock.Now)
	ready(t, second)
	before := p.m.names("")
	err = p.prune()
	is.True(err != nil && strings.Contains(err.Error(), "has taken over"))
	is.Equal(p.m.names(""), before)

	q := pruning(t, time.Hour) // the control
	old = q.add(1)
	q.remove(old, true)
	q.clock.Add(time.Minute)
	q.snapshot()
	q.clock.Add(2 * time.Hour)
	var put time.Time
	removed := 0
	q.m.set(func(verb, name string) error {
		switch {
		case verb == "put" && strings.HasPrefix(name, "log/"):
			put = time.Now()
		case verb == "delete":
			removed++
			is.True(time.Since(put) < shortWindow)
		}
		return nil
	}, nil)
	is.NoErr(q.prune())
	q.m.set(nil, nil)
	is.Equal(len(q.m.names("blobs/")), 0)
	is.True(removed > 1)
}

// stuckRemoval begins to remove a content that nothing needs, without an end that this
// writer gets to know. It returns the content and until when the store accepts the removal.
func (p *pruned) stuckRemoval() (ref blobs.Ref, by time.Time) {
	p.t.Helper()
	ref = p.add(1)
	p.remove(ref, true)
	p.clock.Add(time.Minute)
	p.snapshot()
	p.clock.Add(2 * time.Hour)
	p.stuck = make(chan time.Time, 1)
	if err := p.prune(); !errors.Is(err, context.DeadlineExceeded) {
		p.t.Fatal(err)
	}
	by = <-p.stuck
	p.stuck = nil
	return ref, by
}

// here reports whether the content is on the disk.
func (p *pruned) here(ref blobs.Ref) bool {
	_, err := p.content.Stat(ref)
	return !errors.Is(err, fs.ErrNotExist)
}

// until waits until a condition holds.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// A removal that was stuck while another writer took over, and while that one stored the
// content again and evicted it from its disk, removes nothing: the store refuses it. The
// control is a store that carries out whatever comes.
func TestLateRemoval(t *testing.T) {
	t.Parallel()
	for _, lax := range []bool{false, true} {
		t.Run(fmt.Sprint(lax), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := pruning(t, time.Hour)
			ref, by := p.stuckRemoval()
			is.True(by.Sub(p.clock.Now()) <= 2*shortWindow)
			p.close()
			p.limit = 1
			p.open()
			p.add(1)
			last := p.now()
			until(t, "the content is not evicted", func() bool { return !p.here(ref) })
			p.clock.Add(3 * shortWindow) // as long as a new writer waits at least
			p.m.mu.Lock()
			p.m.loose = lax
			p.m.mu.Unlock()
			err := p.m.Delete(t.Context(), ref.RemoteName(), by)
			is.Equal(errors.Is(err, blobs.ErrLate), !lax)
			is.Equal(p.lacks(p.m, last) != nil, lax)
		})
	}
}

// A writer that has taken over evicts nothing as long as a removal of the former one may
// be on its way. The control does.
func TestRemovalBeforeEviction(t *testing.T) {
	t.Parallel()
	for _, bold := range []bool{false, true} {
		t.Run(fmt.Sprint(bold), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := pruning(t, time.Hour)
			ref, by := p.stuckRemoval()
			p.close()
			p.window, p.async, p.limit, p.bold = 2*time.Second, true, 1, bold
			asked := make(chan struct{}, 1)
			p.m.set(func(verb, name string) error {
				if verb == "put" && name == ref.RemoteName() {
					select {
					case asked <- struct{}{}:
					default:
					}
				}
				return nil
			}, nil)
			p.open()
			p.add(1)
			last := p.now()
			if bold {
				until(t, "the content is not evicted", func() bool { return !p.here(ref) })
			} else {
				<-asked
			}
			is.NoErr(p.m.Delete(t.Context(), ref.RemoteName(), by))
			until(t, "the commit is not shipped", func() bool { return p.ship.Status().Records == 0 })
			is.Equal(p.lacks(p.m, last) != nil, bold)
		})
	}
}

// A damaged slot is named once. What is provably not needed goes nevertheless, and the
// rest when the history begins later. In the control it goes at once.
func TestPruneDamaged(t *testing.T) {
	t.Parallel()
	for _, damaged := range []bool{true, false} {
		t.Run(fmt.Sprint(damaged), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := pruning(t, 10*time.Hour)
			p.close()
			log := &lines{}
			p.log = slog.New(slog.NewTextHandler(log, nil))
			p.open()
			for range 5 {
				is.NoErr(tried(p.store))
			}
			old := p.m.names("log/")
			p.remove(p.add(1), true)
			early := p.m.names("log/")
			early = early[len(early)-1:]
			p.clock.Add(time.Minute)
			p.snapshot()
			for range 3 {
				is.NoErr(tried(p.store))
			}
			names := p.m.names("log/")
			bad := names[len(names)-2]
			if damaged {
				p.m.mu.Lock()
				for _, name := range []string{bad, early[0]} { // the second one is not needed
					p.m.objects[name][20] ^= 1 // in the head
				}
				p.m.mu.Unlock()
			}
			p.clock.Add(11 * time.Hour)
			is.NoErr(tried(p.store))
			for range 2 {
				is.NoErr(p.prune())
				is.Equal(len(p.m.names("blobs/")) > 0, damaged)
				is.Equal(strings.Contains(p.ship.Status().Damage, bad), damaged)
				is.True(!slices.Contains(p.m.names("log/"), old[len(old)-2]))
			}
			is.Equal(log.having(bad), map[bool]int{true: 1}[damaged])
			p.snapshot()
			p.clock.Add(11 * time.Hour)
			p.snapshot()
			is.NoErr(p.prune())
			is.Equal(len(p.m.names("blobs/")), 0)
			is.Equal(p.ship.Status().Damage, "")
			is.NoErr(p.lacks(p.m, p.now()))
		})
	}
}

// lines are what is written to a log.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}

// having counts the lines that have the text.
func (l *lines) having(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(l.text)) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// A content without a record may be that of an upload, which waits for its record for a
// week. The control lets it wait for as long as the history is.
func TestPruneUnfinished(t *testing.T) {
	t.Parallel()
	for _, unused := range []time.Duration{8 * 24 * time.Hour, 0} {
		is := is.New(t)
		p := pruning(t, time.Hour)
		p.close()
		p.unused = unused
		p.open()
		st, err := p.content.Stage()
		is.NoErr(err)
		_, err = st.Write(bytes.Repeat([]byte("x"), 300<<10))
		is.NoErr(err)
		kept, err := st.Keep() // which puts it in the store
		is.NoErr(err)
		kept.Release()
		_, err = p.content.Unlink(kept.Ref, func() (bool, error) { return true, nil }) // as if it were evicted
		is.NoErr(err)
		p.snapshot()
		p.clock.Add(7 * 24 * time.Hour)
		is.NoErr(p.prune())
		is.Equal(len(p.m.names("blobs/")) > 0, unused > 0)
		p.clock.Add(48 * time.Hour)
		is.NoErr(p.prune())
		is.Equal(len(p.m.names("blobs/")), 0)
	}
}

// From a store that carries out requests that have expired, no content is removed.
func TestPruneWithoutExpiry(t *testing.T) {
	t.Parallel()
	for _, expires := range []bool{false, true} {
		is := is.New(t)
		p := pruning(t, time.Hour)
		ship.Expires(p.ship, expires)
		p.remove(p.add(1), true)
		p.clock.Add(time.Minute)
		p.snapshot()
		p.clock.Add(2 * time.Hour)
		is.NoErr(p.prune())
		is.Equal(len(p.m.names("blobs/")) == 0, expires)
	}
}

// A writer that has just taken over does not rely on a content that the former one may
// be removing.
func TestTakeOverWhilePruned(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, time.Hour)
	ref := p.add(1)
	p.remove(ref, true)
	p.close()
	p.window = 2 * time.Second
	p.open()
	asked := make(chan struct{})
	p.m.set(func(verb, name string) error {
		if verb == "put" && name == ref.RemoteName() {
			select {
			case <-asked:
			default:
				close(asked)
			}
		}
		return nil
	}, nil)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		p.add(1)
	}()
	<-asked
	is.NoErr(p.m.Delete(t.Context(), ref.RemoteName(), time.Time{})) // it came late
	<-kept
	is.Equal(p.m.names("blobs/"), []string{ref.RemoteName()})
}
