package linkcheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/worker"
	"kist/kv/catalog"
	"kist/kv/record"
)

// memory is a queue for tests in which time is not real, where bbolt cannot be.
// The store's own code decides what a result means.
type memory struct {
	mu       sync.Mutex
	pages    []*record.Page
	on       bool
	broken   error // of Load
	full     bool  // results cannot be written
	finds    int
	postpone int
	due      chan struct{}
}

func newMemory() *memory { return &memory{on: true, due: make(chan struct{}, 1)} }

func (m *memory) add(host uint64, fill bool, due time.Time) *record.Page {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.pages) + 1
	p := &record.Page{ID: record.ID{byte(n >> 8), byte(n)}, Host: host, Fill: fill, Due: due}
	m.pages = append(m.pages, p)
	m.tell()
	return p
}

func (m *memory) tell() {
	select {
	case m.due <- struct{}{}:
	default:
	}
}

func (m *memory) Due() <-chan struct{} { return m.due }

func (m *memory) Find(take func(catalog.DuePage) bool) (wait time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finds++
	if !m.on {
		return 0, nil
	}
	all := slices.Clone(m.pages)
	slices.SortStableFunc(all, func(a, b *record.Page) int { return b.Due.Compare(a.Due) })
	more := true
	for _, p := range all {
		if left := time.Until(p.Due); left > 0 {
			wait = left // the least comes last
		} else if more {
			more = take(catalog.DuePage{ID: p.ID, Host: p.Host, Fill: p.Fill})
		}
	}
	return wait, nil
}

func (m *memory) counts() (finds, postponed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finds, m.postpone
}

func (m *memory) find(id record.ID) *record.Page {
	for _, p := range m.pages {
		if p.ID == id {
			return p
		}
	}
	return nil
}

func (m *memory) Load(t catalog.DuePage) (*record.Page, string, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.find(t.ID)
	if m.broken != nil {
		return nil, "", false, m.broken
	}
	now := *p
	return &now, fmt.Sprint(p.Host), false, nil
}

func (m *memory) Postpone(t catalog.DuePage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.postpone++
	if m.full {
		return errors.New("the disk is full")
	}
	m.find(t.ID).Postpone(time.Now())
	return nil
}

func (m *memory) Looked(p *record.Page, l record.Look) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return errors.New("the disk is full")
	}
	m.find(p.ID).Record(l, time.Now())
	return nil
}

// world answers for all hosts, and holds looks against the rules.
type world struct {
	t     testing.TB
	mu    sync.Mutex
	out   map[string]bool
	ended map[string]time.Time
	most  int
	looks int
	last  []string
	takes time.Duration
	tells record.Look
}

func (w *world) ask(ctx context.Context, address string, fill bool) record.Look {
	w.mu.Lock()
	if w.out[address] {
		w.t.Errorf("two looks at %s at once", address)
	}
	gap := checkGap
	if fill {
		gap = fillGap
	}
	if at, ok := w.ended[address]; ok && time.Since(at) < gap {
		w.t.Errorf("a look at %s %s after the last", address, time.Since(at))
	}
	w.out[address] = true
	w.most = max(w.most, len(w.out))
	w.looks++
	w.last = append(w.last, address)
	w.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(w.takes):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.out, address)
	w.ended[address] = time.Now()
	return w.tells
}

// lookingAt runs a Checker for a while of time that is not real.
func lookingAt(t *testing.T, m *memory, w *world, do func()) {
	t.Helper()
	w.t, w.out, w.ended = t, map[string]bool{}, map[string]time.Time{}
	l := &Checker{queue: m, ask: w.ask, log: slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { l.Run(ctx) })
	do()
	stop()
	run.Wait()
}

func (w *world) atOnce() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks
}

// A few hosts at a time, one look at each, with time between.
func TestPolite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), &world{takes: 3 * time.Second, tells: record.Look{Verdict: record.Answers, Read: true}}
		for i := range 60 {
			m.add(uint64(i%6), i%2 == 0, time.Now())
		}
		lookingAt(t, m, w, func() {
			time.Sleep(20 * time.Minute)
			is.Equal(w.count(), 60)
			is.Equal(w.atOnce(), maxOut)
			time.Sleep(30 * 24 * time.Hour)
			is.True(w.count() >= 3*60) // and again, every two weeks
			finds, _ := m.counts()
			is.True(finds < 50*w.count())
		})
	})
}

// New bookmarks are checked before waiting ones.
func TestLatestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), &world{takes: time.Second, tells: record.Look{Verdict: record.Answers, Read: true}}
		for i := range 1000 {
			m.add(uint64(i), true, time.Now().Add(-time.Hour))
		}
		lookingAt(t, m, w, func() {
			time.Sleep(10*time.Second + 500*time.Millisecond)
			before := w.count()
			is.True(before < 100)
			m.add(5000, true, time.Now())
			time.Sleep(time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			is.True(slices.Contains(w.last[before:], "5000"))
		})
	})
}

// A host with many pages keeps no other host waiting, whether it is being asked
// or not.
func TestManyPagesOfHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), &world{takes: time.Minute, tells: record.Look{Verdict: record.Answers, Read: true}}
		m.add(1, true, time.Now())
		lookingAt(t, m, w, func() {
			synctest.Wait()
			is.Equal(w.count(), 1)
			m.mu.Lock()
			for _, host := range []uint64{2, 3, 4, 4, 4, 4, 1, 1, 1, 1} {
				id := record.ID{1, byte(len(m.pages))}
				m.pages = slices.Insert(m.pages, 0, &record.Page{ID: id, Host: host, Fill: true, Due: time.Now()})
			}
			m.tell()
			m.mu.Unlock()
			synctest.Wait()
			is.Equal(w.count(), maxOut)
		})
	})
}

// A host that asks for time gets it, for its other pages too.
func TestRetryAfterOfHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), &world{takes: time.Second, tells: record.Look{Verdict: record.Answers, Wait: time.Hour}}
		m.add(1, false, time.Now())
		m.add(1, false, time.Now())
		lookingAt(t, m, w, func() {
			time.Sleep(59 * time.Minute)
			is.Equal(w.count(), 1)
			time.Sleep(2 * time.Minute)
			is.Equal(w.count(), 2)
		})
	})
}

// Turned off, nothing is asked; turned on, it goes on.
func TestTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), &world{tells: record.Look{Verdict: record.Answers, Read: true}}
		m.on = false
		m.add(1, true, time.Now())
		lookingAt(t, m, w, func() {
			time.Sleep(100 * time.Hour)
			is.Equal(w.count(), 0)
			m.mu.Lock()
			m.on = true
			m.tell()
			m.mu.Unlock()
			synctest.Wait()
			is.Equal(w.count(), 1)
		})
	})
}

// A page that cannot be read is put off. What cannot be written down is not
// asked for over and over.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), &world{tells: record.Look{Verdict: record.Answers, Read: true}}
		m.broken = errors.New("this row is damaged")
		m.add(1, true, time.Now())
		lookingAt(t, m, w, func() {
			time.Sleep(24 * time.Hour)
			is.Equal(w.count(), 0)
			_, postponed := m.counts()
			is.Equal(postponed, 1)
			m.mu.Lock()
			m.broken, m.full = nil, true
			m.mu.Unlock()
			m.add(2, true, time.Now())
			time.Sleep(time.Minute)
			is.True(w.count() > 1 && w.count() <= 13)
			time.Sleep(24 * time.Hour)
			is.True(w.count() < 24*7) // no site has to bear that this disk is full
			m.mu.Lock()
			m.full = false
			m.mu.Unlock()
			before := w.count()
			time.Sleep(maxCheckTime + time.Second)
			is.Equal(w.count(), before+1)
			m.add(3, true, time.Now())
			synctest.Wait()
			is.Equal(w.count(), before+2) // nothing is held any more
			m.mu.Lock()
			m.full = true
			m.mu.Unlock()
			m.add(4, true, time.Now())
			time.Sleep(worker.Again + time.Second)
			is.Equal(w.count(), before+4) // and the next failure holds it as shortly as the first
		})
	})
}

// The end cuts off what is under way, and nothing is taken for its answer.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m, w := newMemory(), &world{takes: time.Hour, tells: record.Look{Verdict: record.Fails}}
		p := m.add(1, true, time.Now())
		begun := time.Now()
		lookingAt(t, m, w, func() { time.Sleep(time.Second) })
		is.Equal(time.Since(begun), time.Second)
		is.Equal(w.count(), 1)
		is.True(p.Checked.IsZero())
	})
}
