package ship_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	"kist/kv/kvtest/needs"
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
	over    func(blobs.Remote) blobs.Remote // what the store uses; the memory itself if nil
	clock   *kvtest.Clock
	dir     string
	history time.Duration
	log     *slog.Logger               // kvtest.Quiet if nil
	reads   func(name string, n int64) // nil, or called before each read of an object
	removes func(name string)          // nil, or called before each removal of an object
	store   *kv.Store
	ship    *ship.Shipper
	content *blobs.Store
}

// eight is for how long nothing may have needed what is removed.
const eight = 8 * 24 * time.Hour

// pruning opens a new one, in sync mode.
func pruning(t *testing.T, history time.Duration) *pruned {
	t.Helper()
	return pruningOver(t, history, nil)
}

// pruningOver is pruning with a remote in front of the memory.
func pruningOver(t *testing.T, history time.Duration, over func(blobs.Remote) blobs.Remote) *pruned {
	t.Helper()
	p := &pruned{t: t, m: newMemory(), over: over, clock: kvtest.NewClock(), dir: filepath.Join(t.TempDir(), "data"), history: history}
	p.m.now = p.clock.Now
	p.open()
	t.Cleanup(p.close)
	return p
}

func (p *pruned) open() {
	p.t.Helper()
	p.ship = ship.New(ship.Options{
		Remote: p.remote(watched{p.m, p}), Sync: true, History: p.history, Log: cmp.Or(p.log, kvtest.Quiet), Address: "s3://test/kist",
	})
	p.store = kvtest.Opened(p.t, p.dir, kv.Options{Schema: tables.All, Log: kvtest.Quiet, Now: p.clock.Now, Ship: p.ship})
	content, err := blobs.Open(filepath.Join(p.dir, "blobs"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.content = content
	content.OnKeep = p.ship.Ahead
	content.PutBehind(p.remote(p.m), 0, func() int64 { return 1 << 40 }, kvtest.Quiet)
	ready(p.t, p.store)
}

// remote is what the store uses of a remote.
func (p *pruned) remote(m blobs.Remote) blobs.Remote {
	if p.over == nil {
		return m
	}
	return p.over(m)
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

func (w watched) Delete(ctx context.Context, name string) error {
	if w.p.removes != nil {
		w.p.removes(name)
	}
	return w.memory.Delete(ctx, name)
}

func (p *pruned) close() {
	if err := errors.Join(p.content.Close(), p.store.Close()); err != nil {
		p.t.Error(err)
	}
}

// prune removes what nothing needs any more.
func (p *pruned) prune() error { return p.ship.Prune(p.t.Context(), p.contents()) }

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
	kept := p.keep(n)
	defer kept.Release()
	if err := refer(p.store, kept.Ref); err != nil {
		p.t.Fatal(err)
	}
	return kept.Ref
}

// keep stores a content, which gets into the remote with a commit, and returns a pin on it.
func (p *pruned) keep(n int) *blobs.Kept {
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
	return kept
}

// remove ends the reference to a content. With disk it also removes it from the disk.
func (p *pruned) remove(ref blobs.Ref, disk bool) {
	p.t.Helper()
	kvtest.Update(p.t, p.store, func(tx *kv.Tx) error {
		return tx.Delete(referred, append(slices.Clone(ref[:]), "a row"...))
	})
	if disk {
		p.unlink(ref)
	}
}

// unlink removes a content from the disk.
func (p *pruned) unlink(ref blobs.Ref) {
	p.t.Helper()
	if _, err := p.content.Unlink(ref, func() (bool, error) { return true, nil }); err != nil {
		p.t.Fatal(err)
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

// pass lets so much time pass, and eight days, in which there is a change and a snapshot.
func (p *pruned) pass(d time.Duration) {
	p.t.Helper()
	p.clock.Add(d + eight/2)
	if err := tried(p.store); err != nil {
		p.t.Fatal(err)
	}
	p.snapshot()
	p.clock.Add(eight / 2)
}

// letBegin lets the history begin with the newest snapshot, like a version that kept no longer
// history than it was asked to.
func (p *pruned) letBegin() {
	p.t.Helper()
	snaps := p.m.names("snap/")
	newest := snaps[len(snaps)-1]
	seq, err := strconv.ParseUint(strings.TrimPrefix(newest, "snap/"), 16, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range p.m.names("log/") {
		slot, err := ship.SlotIn(p.t.Context(), p.m, name)
		if err != nil {
			p.t.Fatal(err)
		}
		if slot.After.Seq >= seq {
			mark := strings.NewReader("kist\n")
			name := fmt.Sprintf("from/%016x-%016x", slot.Number, seq)
			if err := p.m.Put(p.t.Context(), name, mark, mark.Size()); err != nil {
				p.t.Fatal(err)
			}
			break
		}
	}
	for _, name := range snaps[:len(snaps)-1] {
		if err := p.m.Delete(p.t.Context(), name); err != nil {
			p.t.Fatal(err)
		}
	}
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
	from := p.remote(m)
	back, _, err := restored(p.t, from, want.at)
	if err != nil {
		return err
	}
	defer back.Close()
	if key := differing(kvtest.ContentOf(p.t, back), want.want); key != "" {
		return errors.New(key)
	}
	for _, ref := range want.refs {
		r, err := from.Get(p.t.Context(), ref.RemoteName(), 0, -1)
		if err == nil {
			err = errors.Join(blobs.CheckBytes(ref, r), r.Close())
		}
		if err != nil {
			return fmt.Errorf("content %s: %w", ref, err)
		}
	}
	return nil
}

// Whatever happens, and wherever a removal is cut short, every moment of the time that is kept, and
// of eight days before, can be restored with its files, and an earlier one is refused. What nothing
// needs goes in the end.
func TestPruneKeepsHistory(t *testing.T) {
	t.Parallel()
	inEachStore(t, pruneKeepsHistory)
}

func pruneKeepsHistory(t *testing.T, in string, over func(blobs.Remote) blobs.Remote) {
	seeds := uint64(3)
	if over != nil {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			rnd, picks := rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 8)) // the second one for checks
			const keep = 20 * time.Hour
			p := pruningOver(t, keep, over)
			var all []past
			var cut []string // removals that were cut short
			owner := kvtest.User(t, p.store, "ann").ID
			check := func(m *memory, n int) {
				t.Helper()
				from := slices.IndexFunc(all, func(one past) bool { return !one.at.Before(p.clock.Now().Add(-keep - eight)) })
				for range n {
					one := all[from+picks.IntN(len(all)-from)]
					if err := p.lacks(m, one); err != nil {
						t.Fatalf("%s of %s, after %v: %v", one.at, p.clock.Now(), cut, err)
					}
				}
				_, err := ship.Check(t.Context(), p.remote(m), workcopy.Format, instanceOf(t, p.dir), func(err error) { t.Fatal(err) })
				is.NoErr(err)
			}
			for step := range 240 {
				p.clock.Add(time.Duration(1+rnd.IntN(40)) * 10 * time.Minute)
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
					is.NoErr(ship.Merge(t.Context(), p.remote(p.m)))
				case step%3 == 0:
					p.close()
					p.open()
				}
				all = append(all, p.now())
				if step%40 != 39 {
					continue
				}
				for err, tries := errCut, 0; err != nil; tries++ { // a kill after each removal
					is.True(tries < 500)
					done := 0
					p.m.set(func(verb, name string) error {
						if verb != "delete" || strings.HasPrefix(name, in+"race/") {
							return nil
						}
						done++
						if done > 1 {
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
					if err != nil && picks.IntN(3) == 0 {
						p.close()
						p.open()
					}
				}
				check(p.m, 3)
				oldest := p.ship.Status().Oldest
				is.True(!oldest.IsZero())
				for _, one := range all {
					if one.at.Before(oldest) {
						err := p.lacks(p.m, one)
						is.True(err != nil && strings.Contains(err.Error(), "the oldest moment that can be restored is "+
							oldest.Add(time.Second-1).Truncate(time.Second).UTC().Format(time.RFC3339)))
						break
					}
				}
			}
			for _, prefix := range []string{"blobs/", "snap/", "log/", "from/"} {
				is.True(slices.ContainsFunc(cut, func(name string) bool { return strings.HasPrefix(name, in+prefix) })) // prefix
			}
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
			p.pass(2 * keep)
			is.NoErr(p.prune())
			is.Equal(len(p.m.names(in+"blobs/")), 0)
			is.Equal(len(p.m.names(in+"snap/")), 2) // and that of the eight days
			is.Equal(len(p.m.names(in+"from/")), 1)
			is.NoErr(p.lacks(p.m, p.now()))
		})
	}
}

// A content is removed when nothing in the history has needed it for eight days. Here the history
// is two days, a snapshot is made each day, and the removal is at the end of the last day.
func TestPrune(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		put, ended int           // the days when a record got the content, and when it was removed; 0 for never
		loose      bool          // no record ever had the content
		disk       bool          // it is still on the disk
		pinned     bool          // and somebody may use it
		again      int           // the day when a record got it again; 0 for never
		begin      int           // the day on which a former version let the history begin; 0 for none
		forever    bool          // the history is to be kept
		inexact    bool          // the store lets several writers win
		blind      bool          // the control: the history is not read
		leaps      time.Duration // of the clock of this machine, and the store's does not
		storeLeaps time.Duration
		days       int
		stays      bool
	}{
		"a record has it":                    {put: 1, days: 14, stays: true},
		"a moment of the history has it":     {put: 1, ended: 4, days: 5, stays: true},
		"one had it eight days ago":          {put: 1, ended: 4, days: 13, stays: true},
		"without a look at the history":      {put: 1, ended: 4, days: 13, blind: true},
		"nothing needs it":                   {put: 1, ended: 4, days: 15},
		"it is on the disk":                  {put: 1, ended: 4, days: 15, disk: true, stays: true},
		"it is pinned":                       {put: 1, ended: 4, days: 15, pinned: true, stays: true},
		"a record has it again":              {put: 1, ended: 4, again: 15, days: 15, stays: true},
		"an upload may still get its record": {put: 6, loose: true, days: 14, stays: true},
		"no upload waits for so long":        {put: 6, loose: true, days: 17},
		"the history begins later":           {put: 1, ended: 4, begin: 10, days: 15, stays: true},
		"it began long ago":                  {put: 1, ended: 4, begin: 10, days: 22},
		"the history is kept":                {put: 1, ended: 4, days: 15, forever: true, stays: true},
		"the clock of this machine leaps":    {put: 1, ended: 4, days: 5, leaps: 300 * day, stays: true},
		"the clock of the store leaps":       {put: 1, ended: 4, days: 5, storeLeaps: 300 * day, stays: true},
		"both clocks leap": {
			put: 1, ended: 4, days: 5, leaps: 300 * day, storeLeaps: 300 * day, stays: true,
		},
		"this may not be the only writer": {put: 1, ended: 4, days: 15, inexact: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := pruning(t, 2*day)
			p.close()
			p.m.loose = tt.inexact
			if tt.forever {
				p.history = 0
			}
			p.open()
			if tt.blind {
				ship.Blind(p.ship)
			}
			n := 1
			if tt.loose {
				n = 30000 // large enough to be put before there is a record
			}
			var kept *blobs.Kept
			var begin past
			for today := 1; today <= tt.days; today++ {
				if today == tt.put || today == tt.again {
					kept = p.keep(n)
					if !tt.loose {
						is.NoErr(refer(p.store, kept.Ref))
					}
				}
				if today == tt.put && !tt.pinned {
					kept.Release()
				}
				if today == tt.ended {
					p.remove(kept.Ref, !tt.disk && !tt.pinned)
				}
				if today == tt.ended && tt.pinned {
					is.NoErr(os.Remove(filepath.Join(p.dir, kept.Ref.RemoteName())))
				}
				if today == tt.put && tt.loose {
					p.unlink(kept.Ref)
				}
				p.clock.Add(day - time.Minute)
				is.NoErr(tried(p.store))
				p.snapshot()
				if today == tt.begin {
					p.letBegin()
					begin = p.now()
				}
				p.clock.Add(time.Minute)
			}
			p.clock.Add(tt.leaps)
			p.m.now = func() time.Time { return p.clock.Now().Add(tt.storeLeaps - tt.leaps) }
			is.NoErr(p.prune())
			kept.Release()
			is.Equal(len(p.m.names("blobs/")) > 0, tt.stays)
			if tt.begin > 0 && tt.stays {
				is.NoErr(p.lacks(p.m, begin))
			}
			is.Equal(len(p.m.names("snap/")) < tt.days, !tt.forever && !tt.inexact && tt.days > 11)
			is.NoErr(p.lacks(p.m, p.now()))
		})
	}
}

// A content that is kept again while it is removed is in the store afterwards.
func TestPruneAndKeepAgain(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := pruning(t, time.Hour)
	removed := 0
	p.removes = func(name string) {
		ref, err := blobs.ParseRef(filepath.Base(name))
		if err != nil {
			return
		}
		removed++
		alone, err := p.content.Alone(ref, func() error { return nil })
		is.NoErr(err)
		is.True(!alone) // so an upload waits
	}
	for round := range 6 {
		ref := p.add(round)
		p.remove(ref, true)
		p.clock.Add(time.Minute)
		p.snapshot()
		p.pass(2 * time.Hour)
		reached, done := make(chan struct{}), make(chan struct{})
		p.m.set(func(verb, name string) error { // each at another step
			if name == ref.RemoteName() && verb == "delete" || round%2 == 1 && strings.HasPrefix(name, "snap/") &&
				verb == "get" {
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
	is.True(removed > 0)
}

// A content that a record had for a moment while the history was read is needed for that moment,
// also if it was pinned before.
func TestPruneAndKeepMeanwhile(t *testing.T) {
	t.Parallel()
	for _, pinned := range []bool{false, true} {
		t.Run(fmt.Sprint(pinned), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := pruning(t, time.Hour)
			ref := p.add(1)
			p.remove(ref, true)
			p.clock.Add(time.Minute)
			p.snapshot()
			p.pass(2 * time.Hour)
			p.m.set(func(verb, name string) error {
				if verb == "delete" && name == ref.RemoteName() {
					return errCut
				}
				return nil
			}, nil)
			is.True(p.prune() != nil) // but the history begins later now
			p.m.set(nil, nil)

			contents := p.contents()
			unknown, kept := contents.Unknown, (*blobs.Kept)(nil)
			contents.Unknown = func(ref [32]byte) (bool, error) {
				is, err := unknown(ref)
				if pinned && kept == nil { // after it was found unneeded
					kept = p.keep(1)
				}
				return is, err
			}
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
				if kept == nil {
					kept = p.keep(1)
				}
				is.NoErr(refer(p.store, ref))
				then = p.now()
				kept.Release()
				p.remove(ref, true)
			}
			is.NoErr(p.ship.Prune(t.Context(), contents))
			is.True(meanwhile.Load())
			is.NoErr(p.lacks(p.m, then))
		})
	}
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
	p.pass(9 * time.Hour)
	is.NoErr(tried(p.store))
	is.NoErr(p.prune())
	is.Equal(len(p.m.names("snap/")), 3) // the one before the gap is the first, that of the eight days the last
	is.NoErr(p.lacks(p.m, then))
	_, err = ship.Check(t.Context(), p.m, workcopy.Format, instanceOf(t, p.dir), func(err error) { t.Error(err) })
	is.NoErr(err)
	p.clock.Add(3 * time.Hour)
	is.NoErr(p.prune())
	p.snapshot()
	p.pass(11 * time.Hour)
	is.NoErr(p.prune())
	is.Equal(len(p.m.names("blobs/")), 0)
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
	p.pass(11 * time.Hour)
	for range 3 {
		is.NoErr(tried(p.store))
	}
	is.NoErr(p.prune())
	names := p.m.names("log/")
	is.True(len(names) < len(before)/2)
	is.Equal(names[0], before[0])
	is.Equal(len(p.m.names("snap/")), 2)
	problems := func(m *memory) (text string) {
		_, err := ship.Check(t.Context(), m, workcopy.Format, instanceOf(t, p.dir), func(err error) {
			text += err.Error() + "\n"
		})
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

// A restore of a moment of the history reads nothing that a removal meanwhile takes away. One of an
// earlier moment gives what there was, or fails.
func TestRestoreWhilePruned(t *testing.T) {
	needs.Time(t)
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
	p.pass(6 * time.Hour)
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
				gone++
				continue
			}
			is.Equal(differing(kvtest.ContentOf(t, back), want.want), "")
			is.NoErr(back.Close())
		}
	}
	is.True(gone > 10)
}

// Only the writer removes objects: another server may have taken over before a removal, or between
// two of them.
func TestPruneOnlyByWriter(t *testing.T) {
	t.Parallel()
	for _, between := range []bool{false, true} {
		t.Run(fmt.Sprint(between), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := pruning(t, time.Hour)
			ship.Distrust(p.ship)
			for n := range 5 {
				p.remove(p.add(n), true)
			}
			p.clock.Add(time.Minute)
			p.snapshot()
			p.pass(2 * time.Hour)
			is.NoErr(tried(p.store))
			takeOver := sync.OnceFunc(func() {
				place := filepath.Join(t.TempDir(), "data")
				is.NoErr(os.Mkdir(place, 0o700))
				got, err := ship.Fetch(t.Context(), p.m, time.Time{}, workcopy.Format, place)
				is.NoErr(err)
				is.NoErr(errors.Join(datadir.WriteInstance(place, got.Instance), got.Claim(place)))
				second, _ := opened(t, place, ship.Options{Remote: p.m, Sync: true, TakeOver: true}, p.clock.Now)
				ready(t, second)
			})
			removed := []string{"blobs/"}
			if between {
				p.removes = func(name string) {
					if strings.HasPrefix(name, "blobs/") {
						takeOver()
					}
				}
			} else {
				takeOver()
				removed = nil
			}
			before := p.m.names("")
			err := p.prune()
			is.True(err != nil && strings.Contains(err.Error(), "has taken over"))
			if removed == nil {
				is.Equal(p.m.names(""), before)
			}
			is.Equal(len(p.m.names("blobs/")), 5-len(removed))
		})
	}
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
			p.pass(11 * time.Hour)
			is.NoErr(tried(p.store))
			for range 2 {
				is.NoErr(p.prune())
				is.Equal(len(p.m.names("blobs/")) > 0, damaged)
				is.Equal(strings.Contains(p.ship.Status().Damage, bad), damaged)
				is.True(!slices.Contains(p.m.names("log/"), old[len(old)-2]))
			}
			is.Equal(log.having(bad), map[bool]int{true: 1}[damaged])
			p.snapshot()
			p.pass(11 * time.Hour)
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
