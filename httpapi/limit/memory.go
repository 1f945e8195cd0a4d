package limit

import (
	"container/list"
	"context"
	"math"
	"net/netip"
	"sync"
	"time"

	"kist/kv/record"
)

// What requests hold in memory: bodies and forms from reading until they are answered, and
// answers from making until they are sent. An answer is streamed, or it is held here; a list
// ends at web.PageBytes. A request that finds no memory waits for MemoryWait and is then told to
// try again, so that neither slow senders nor slow readers fill the memory.
//
// Half of the memory is for requests that hold little, so that nobody who holds long answers
// keeps others from signing in. It has room for all requests that there may be. One caller
// gets a part of each half, and all strangers together leave a part of each to others.
const (
	MemoryBytes = 64 << 20        // of all requests
	MemoryWait  = 2 * time.Second // of one request
	shortHeld   = 32 << 10        // the most that a short request holds

	// MakingAtOnce is how many answers are made at a time, because what they are made from is not counted.
	MakingAtOnce = 4

	// LongOfStranger is the most that the long requests of one stranger hold, so one request of anybody may hold it.
	LongOfStranger = MemoryBytes / 4
)

// What all requests, those of strangers, those of one caller and those of one stranger hold at most.
// A caller has two answers of its own in the queue to be made, so that nobody waits for a hundred of another.
var (
	mostOfAll = amounts{
		short: MemoryBytes / 2, long: MemoryBytes / 2, queued: math.MaxInt64, making: MakingAtOnce,
	}
	mostOfStrangers = amounts{
		short: mostOfAll.short / 16 * 15, long: mostOfAll.long / 4 * 3,
		queued: math.MaxInt64, making: mostOfAll.making - 1,
	}
	mostOfOne      = amounts{short: MemoryBytes / 16, long: MemoryBytes / 8 * 3, queued: 2, making: 2}
	mostOfStranger = amounts{
		short: mostOfOne.short, long: LongOfStranger, queued: mostOfOne.queued, making: mostOfOne.making,
	}
)

// A Memory counts what requests hold.
type Memory struct {
	familiar func(netip.Prefix) bool // set once

	mu        sync.Mutex
	all       amounts
	strangers amounts
	shares    map[Holder]*share // of those who have requests that hold something
	waiting   list.List         // of *waiter, in the order in which they came
}

// newMemory makes a memory that nobody holds. familiar reports whether somebody has signed in
// from a network before. Visitors from other networks are strangers.
func newMemory(familiar func(network netip.Prefix) bool) *Memory {
	return &Memory{familiar: familiar, shares: map[Holder]*share{}}
}

// amounts are what some requests hold.
type amounts struct {
	short, long int64 // bytes of requests that hold little, and of others
	queued      int64 // answers that are to be made, or are being made
	making      int64 // answers that are being made
}

// bytesOf is where a request that holds n bytes is counted.
func bytesOf(n int64) amounts {
	if n > shortHeld {
		return amounts{long: n}
	}
	return amounts{short: n}
}

func (a amounts) plus(b amounts) amounts {
	return amounts{a.short + b.short, a.long + b.long, a.queued + b.queued, a.making + b.making}
}

func (a amounts) minus(b amounts) amounts {
	return amounts{a.short - b.short, a.long - b.long, a.queued - b.queued, a.making - b.making}
}

// mayGrow reports whether more may be held within a limit. What does not grow may be above it.
func (a amounts) mayGrow(more, limit amounts) bool {
	within := func(n, more, limit int64) bool { return more <= 0 || n+more <= limit }
	return within(a.short, more.short, limit.short) && within(a.long, more.long, limit.long) &&
		within(a.queued, more.queued, limit.queued) && within(a.making, more.making, limit.making)
}

// A Holder is an account, or the network of a visitor.
type Holder struct {
	Account record.ID
	Network netip.Prefix // only of a visitor

	stranger bool // a visitor from a network that nobody has signed in from
}

// A share is what the requests of a holder hold together.
type share struct {
	of       Holder
	held     amounts // under Memory.mu
	requests int     // that have it, under Memory.mu
}

// A waiter waits for a request to hold more.
type waiter struct {
	of   *share
	more amounts
	got  chan struct{} // closed when it has them
}

// shareOf returns the share of a holder, for one request more, which must leave it.
func (m *Memory) shareOf(of Holder) *share {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shares[of]
	if s == nil {
		s = &share{of: of}
		m.shares[of] = s
	}
	s.requests++
	return s
}

// leave ends the part of a request in a share. less is what it still holds of it.
func (m *Memory) leave(s *share, less amounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(s, amounts{}.minus(less))
	s.requests--
	if s.requests == 0 {
		delete(m.shares, s.of)
	}
	m.serve()
}

// fits reports whether the waiter may have what it waits for now. The caller holds mu.
func (m *Memory) fits(w *waiter) bool {
	if !m.all.mayGrow(w.more, mostOfAll) {
		return false
	}
	if w.of.of.stranger {
		return m.strangers.mayGrow(w.more, mostOfStrangers) && w.of.held.mayGrow(w.more, mostOfStranger)
	}
	return w.of.held.mayGrow(w.more, mostOfOne)
}

// add changes what a holder holds. The caller holds mu.
func (m *Memory) add(to *share, more amounts) {
	m.all = m.all.plus(more)
	to.held = to.held.plus(more)
	if to.of.stranger {
		m.strangers = m.strangers.plus(more)
	}
}

// give is add for a holder that holds less then.
func (m *Memory) give(from *share, less amounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(from, amounts{}.minus(less))
	m.serve()
}

func (m *Memory) try(w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.fits(w) {
		return false
	}
	m.add(w.of, w.more)
	return true
}

// wait is try that waits until ctx ends.
func (m *Memory) wait(ctx context.Context, w *waiter) bool {
	m.mu.Lock()
	if m.fits(w) {
		m.add(w.of, w.more)
		m.mu.Unlock()
		return true
	}
	w.got = make(chan struct{})
	place := m.waiting.PushBack(w)
	m.mu.Unlock()

	select {
	case <-w.got:
		return true
	case <-ctx.Done():
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-w.got: // just now
		return true
	default:
		m.waiting.Remove(place)
		return false
	}
}

// serve gives memory to those who wait for it. The caller holds mu.
func (m *Memory) serve() {
	for place := m.waiting.Front(); place != nil; {
		next := place.Next()
		if w := place.Value.(*waiter); m.fits(w) { // every value is one
			m.add(w.of, w.more)
			m.waiting.Remove(place)
			close(w.got)
		}
		place = next
	}
}

// Held is what one request holds of a Memory. Its methods must not be called at the same time.
// The zero value holds nothing and belongs to no memory yet.
type Held struct {
	memory *Memory
	share  *share // of the holder, with what its other requests hold
	n      int64
}

// Begin begins to count what a request of the holder holds, until End. It holds nothing yet.
func (m *Memory) Begin(of Holder) Held {
	of.stranger = of.Account == record.ID{} && !m.familiar(of.Network)
	return Held{memory: m, share: m.shareOf(of)}
}

// Begun reports whether it belongs to a memory.
func (h *Held) Begun() bool { return h.memory != nil }

// Bytes is how much the request holds.
func (h *Held) Bytes() int64 { return h.n }

// Grow takes n more bytes. It waits for them until ctx ends, and reports whether it got them.
func (h *Held) Grow(ctx context.Context, n int64) bool {
	if !h.memory.wait(ctx, h.wants(n)) {
		return false
	}
	h.n += n
	return true
}

// TryGrow is Grow that does not wait.
func (h *Held) TryGrow(n int64) bool {
	if !h.memory.try(h.wants(n)) {
		return false
	}
	h.n += n
	return true
}

// Set makes n bytes what the request holds, even if there is no memory for them.
func (h *Held) Set(n int64) {
	w := h.wants(n - h.n)
	h.memory.give(w.of, amounts{}.minus(w.more))
	h.n = n
}

// End gives everything back.
func (h *Held) End() {
	if !h.Begun() {
		return
	}
	h.memory.leave(h.share, bytesOf(h.n))
	*h = Held{}
}

// wants are n more bytes for the request.
func (h *Held) wants(n int64) *waiter {
	return &waiter{of: h.share, more: bytesOf(h.n + n).minus(bytesOf(h.n))}
}

// makes is an answer that is being made. It is in the queue until it is made.
var makes = amounts{queued: 1, making: 1}

// TryMaking begins to make an answer, until EndMaking, if it need not wait for that.
func (h *Held) TryMaking() bool { return h.memory.try(&waiter{of: h.share, more: makes}) }

// AwaitMaking is TryMaking that waits until ctx ends: first outside of the queue, and then in it.
func (h *Held) AwaitMaking(ctx context.Context) bool {
	queued := amounts{queued: 1}
	if !h.memory.wait(ctx, &waiter{of: h.share, more: queued}) {
		return false
	}
	if !h.memory.wait(ctx, &waiter{of: h.share, more: amounts{making: 1}}) {
		h.memory.give(h.share, queued)
		return false
	}
	return true
}

// EndMaking ends what TryMaking or AwaitMaking began.
func (h *Held) EndMaking() { h.memory.give(h.share, makes) }
