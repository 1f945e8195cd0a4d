package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs/disk"
)

// A copy of a journal's folder, made while it is written and in any order, has
// everything that was acknowledged before.
func TestLiveCopies(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		m := newMemory(rand.New(rand.NewPCG(1, 60)))
		liveCopies(t, m, m, 200)
	})
	t.Run("disk", func(t *testing.T) {
		is := is.New(t)
		dir := t.TempDir()
		f, err := disk.OpenFolder(dir)
		is.NoErr(err)
		read, err := disk.ReadFolder(dir)
		is.NoErr(err)
		defer read.Close()
		liveCopies(t, folder{f}, readOnly{read}, 60)
	})
}

func liveCopies(t *testing.T, f, read Folder, copies int64) {
	if *long {
		copies *= 50
	}
	is := is.New(t)
	j, b := opened(t, f)
	var acked, taken atomic.Int64
	clock := newCopyClock(time.UnixMilli(1_700_000_000_000))
	j.now = clock.time
	digests := map[State]bool{b.State: true}
	stop := make(chan struct{})
	var writing, copying sync.WaitGroup

	writing.Go(func() {
		rnd := rand.New(rand.NewPCG(1, 61))
		var r Record
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			next := b.with(&r, someOps(rnd))
			if err := j.Append(&r, next.State); err != nil {
				t.Errorf("append: %v", err)
				return
			}
			j.Drain()
			b = next
			digests[b.State] = true
			acked.Store(int64(b.Seq))
			if n%25 > 0 {
				continue
			}
			clock.add(30 * time.Hour)
			if n%50 > 0 { // as after an unclean stop whose snapshot failed
				if err := j.Begin(b.State); err != nil {
					t.Errorf("new log: %v", err)
					return
				}
				continue
			}
			if err := errors.Join(j.Begin(b.State), j.Snapshot(t.Context(), b.State, format, b.all()), j.Prune()); err != nil {
				t.Errorf("new generation: %v", err)
				return
			}
		}
	})
	copied := make([][]State, 2)
	for i := range copied {
		copying.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 62))
			for taken.Add(1) <= copies || acked.Load() < 110 && !t.Failed() {
				from := acked.Load()
				ended := clock.copying()
				m, err := copyFolder(read, rnd)
				ended()
				var got State
				if err == nil {
					got, err = stateOf(m)
				}
				if err == nil && int64(got.Seq) < from {
					err = fmt.Errorf("it ends at %d, and %d were acknowledged before", got.Seq, from)
				}
				if err != nil {
					t.Errorf("copy: %v", err)
					return
				}
				copied[i] = append(copied[i], got)
			}
		})
	}
	copying.Wait()
	close(stop)
	writing.Wait()
	all := slices.Concat(copied...)
	for _, state := range all {
		is.True(digests[state])
	}
	t.Logf("%d copies of %d records", len(all), b.Seq)
	is.True(len(all) >= int(copies))
	is.NoErr(j.Close())
}

// A copyClock is a clock that waits for running copies: each of them takes less
// than Keep, however slow the machine is.
type copyClock struct {
	mu    sync.Mutex
	ended *sync.Cond
	now   time.Time
	begun map[int]time.Time // of the running copies
	last  int
}

func newCopyClock(now time.Time) *copyClock {
	c := &copyClock{now: now, begun: map[int]time.Time{}}
	c.ended = sync.NewCond(&c.mu)
	return c
}

func (c *copyClock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// add moves the clock forward as soon as no copy would take too long.
func (c *copyClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.wouldBeLate(c.now.Add(d)) {
		c.ended.Wait()
	}
	c.now = c.now.Add(d)
}

func (c *copyClock) wouldBeLate(now time.Time) bool {
	for _, begun := range c.begun {
		if now.Sub(begun) >= Keep {
			return true
		}
	}
	return false
}

// copying says that a copy begins.
func (c *copyClock) copying() (ended func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id := c.last
	c.begun[id] = c.now
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.begun, id)
		c.ended.Broadcast()
	}
}

// stateOf is the state of a copy.
func stateOf(m *memory) (State, error) {
	j, err := New(m, format)
	if err != nil {
		return State{}, err
	}
	got, _, err := replay(j)
	return got.State, err
}

// copyFolder lists the folder once and then reads the files in any order. It
// reads the blocks of each in any order, up to its size when it was opened. It
// continues when a file is gone, as such tools do.
func copyFolder(f Folder, rnd *rand.Rand) (*memory, error) {
	names, err := f.Names()
	if err != nil {
		return nil, err
	}
	rnd.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	m := newMemory(rnd)
	for _, name := range names {
		b, err := copyFile(f, name, rnd)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.seen[name] = &inode{data: b}
	}
	return m, nil
}

func copyFile(f Folder, name string, rnd *rand.Rand) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	const block = 4096
	b := make([]byte, size)
	for _, n := range rnd.Perm((len(b) + block - 1) / block) {
		part := b[n*block : min((n+1)*block, len(b))]
		if n, err := file.ReadAt(part, int64(n*block)); n < len(part) {
			return nil, err
		}
		if rnd.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
	return b, nil
}
