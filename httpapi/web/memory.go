package web

import (
	"container/list"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"kist/httpapi/limit"
	"kist/kv/record"
)

// What requests hold in memory: bodies and forms from reading until they are answered, and
// answers from making until they are sent. An answer is streamed, or it is held here; a list
// ends at PageBytes. A request that finds no memory waits for memoryWait and is then told to
// try again, so that neither slow senders nor slow readers fill the memory.
//
// Half of the memory is for requests that hold little, so that nobody who holds long answers
// keeps others from signing in. It has room for all requests that there may be. One caller
// gets a part of each half, and all strangers together leave a part of each to others.
const (
	MemoryBytes = 64 << 20 // of all requests
	shortHeld   = 32 << 10 // the most that a short request holds
	memoryWait  = 2 * time.Second

	// LongOfStranger is the most that the long requests of one stranger hold, so one request of anybody may hold it.
	LongOfStranger = MemoryBytes / 4

	anonymousBody = 16 << 10 // limit of a body, and of the fields of a form, without a credential, in bytes
	firstRead     = 4 << 10  // first buffer for a body of unknown length, in bytes
)

// What all requests, those of strangers, those of one caller and those of one stranger hold at most.
// Few answers are made at a time, because what they are made from is not counted. A caller has two of
// its own in the queue for that, so that nobody waits for a hundred of another.
var (
	mostOfAll = amounts{
		short: MemoryBytes / 2, long: MemoryBytes / 2, queued: math.MaxInt64, making: 4,
	}
	mostOfStrangers = amounts{
		short: mostOfAll.short / 16 * 15, long: mostOfAll.long / 4 * 3, queued: math.MaxInt64, making: mostOfAll.making - 1,
	}
	mostOfOne      = amounts{short: MemoryBytes / 16, long: MemoryBytes / 8 * 3, queued: 2, making: 2}
	mostOfStranger = amounts{short: mostOfOne.short, long: LongOfStranger, queued: mostOfOne.queued, making: mostOfOne.making}
)

var errBusy = &record.Error{
	Fault: record.Busy, Code: "busy", Retry: memoryWait,
	Text: "The server has no memory left for more requests. Try again in a moment.",
}

// A Memory counts what requests hold.
type Memory struct {
	familiar func(netip.Prefix) bool // set once

	mu        sync.Mutex
	all       amounts
	strangers amounts
	shares    map[holder]*share // of those who have requests that hold something
	waiting   list.List         // of *waiter, in the order in which they came
}

// NewMemory makes a memory that nobody holds. familiar reports whether somebody has signed in
// from a network before. Visitors from other networks are strangers.
func NewMemory(familiar func(network netip.Prefix) bool) *Memory {
	return &Memory{familiar: familiar, shares: map[holder]*share{}}
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

// A holder is an account, or the network of a visitor.
type holder struct {
	account  record.ID
	network  netip.Prefix
	stranger bool // a visitor from a network that nobody has signed in from
}

// A share is what the requests of a holder hold together.
type share struct {
	of       holder
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
func (m *Memory) shareOf(of holder) *share {
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

// holds are the bytes of one request. All of them belong to the caller that it had first.
type holds struct {
	share *share // nil until it holds something
	n     int64
}

// share is what the caller's requests hold together.
func (c *Request) share() *share {
	if c.held.share != nil {
		return c.held.share
	}
	of := holder{}
	if c.Caller != nil {
		of.account = c.Caller.User.ID
	} else {
		of.network = limit.Network(c.Addr)
		of.stranger = !c.Site.Memory.familiar(of.network)
	}
	c.held.share = c.Site.Memory.shareOf(of)
	return c.held.share
}

// wants are n more bytes for the request.
func (c *Request) wants(n int64) *waiter {
	return &waiter{of: c.share(), more: bytesOf(c.held.n + n).minus(bytesOf(c.held.n))}
}

// Hold takes n more bytes of the memory for the request, until HoldOnly or the end of the
// request. It waits for them for two seconds, and then fails with Busy.
func (c *Request) Hold(n int64) error {
	ctx, cancel := context.WithTimeout(c.R.Context(), memoryWait)
	defer cancel()
	if !c.Site.Memory.wait(ctx, c.wants(n)) {
		return errOverloaded(c.R)
	}
	c.held.n += n
	return nil
}

// TryHold is Hold that does not wait. It reports whether the request has the bytes.
func (c *Request) TryHold(n int64) bool {
	if !c.Site.Memory.try(c.wants(n)) {
		return false
	}
	c.held.n += n
	return true
}

// HoldOnly gives back what the request holds beyond n bytes.
func (c *Request) HoldOnly(n int64) {
	if c.held.n > n {
		c.holdAnyway(n)
	}
}

// holdAnyway makes n bytes what the request holds, even if there is no memory for them.
func (c *Request) holdAnyway(n int64) {
	w := c.wants(n - c.held.n)
	c.Site.Memory.give(w.of, amounts{}.minus(w.more))
	c.held.n = n
}

// ReleaseMemory gives back everything at the end of the request.
func (c *Request) ReleaseMemory() {
	if c.held.share == nil {
		return
	}
	c.Site.Memory.leave(c.held.share, bytesOf(c.held.n))
	c.held = holds{}
}

// errOverloaded is the error for a request that found no memory. A client that is gone gets
// no answer.
func errOverloaded(r *http.Request) error {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	return errBusy
}

// Making runs fn, which makes an answer or a part of one and waits for nobody. Only a few run at a
// time, so that what answers are made from takes little memory. It fails with Busy if others take
// too long, unless a part of the answer has been sent.
func (c *Request) Making(fn func() error) error {
	of, held := c.share(), amounts{}
	defer func() { c.Site.Memory.give(of, held) }()
	if both := (amounts{queued: 1, making: 1}); c.Site.Memory.try(&waiter{of: of, more: both}) {
		held = both
		return fn()
	}

	ctx := c.R.Context()
	if c.W.Status == 0 {
		late, cancel := context.WithTimeout(ctx, memoryWait)
		defer cancel()
		ctx = late
	}
	for _, next := range []amounts{{queued: 1}, {making: 1}} {
		if !c.Site.Memory.wait(ctx, &waiter{of: of, more: next}) {
			return errOverloaded(c.R)
		}
		held = held.plus(next)
	}
	return fn()
}

// hold makes an answer and holds it, as HoldMade does. One that tells what was changed waits for nothing,
// because what was changed stays changed.
func (c *Request) hold(made func() ([]byte, error)) ([]byte, error) {
	if safe(c.R.Method) {
		return c.HoldMade(made)
	}
	body, err := made()
	if err != nil {
		return nil, err
	}
	c.holdAnyway(int64(len(body)))
	return body, nil
}

// HoldMade makes an answer with made, as Making does, and then holds it and nothing else. If there is no memory
// for it, it is given up, and made again when there is.
func (c *Request) HoldMade(made func() ([]byte, error)) (body []byte, err error) {
	for range 2 {
		if err := c.Making(func() error { body, err = made(); return err }); err != nil {
			return nil, err
		}
		more := int64(len(body)) - c.held.n
		c.HoldOnly(int64(len(body)))
		if more <= 0 || c.TryHold(more) {
			return body, nil
		}
		body = nil
		if err := c.Hold(more); err != nil {
			return nil, err
		}
	}
	return nil, errBusy
}

// FieldsLimit is how many bytes of fields a form may have: limit, or less if there is no credential.
func (c *Request) FieldsLimit(limit int64) int64 {
	if c.Caller == nil {
		return min(limit, anonymousBody)
	}
	return limit
}

// ReadBody reads the whole body, at most limit bytes, or anonymousBody if there is no
// credential.
func (c *Request) ReadBody(limit int64) ([]byte, error) {
	limit = c.FieldsLimit(limit)
	if c.R.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	data, err := c.readHeld(c.LimitBody(limit), c.R.ContentLength, limit)
	if err != nil {
		return nil, BodyError(err)
	}
	return data, nil
}

// ReadField reads a field of a form, at most limit bytes.
func (c *Request) ReadField(r io.Reader, limit int64) (string, error) {
	before := c.held.n
	data, err := c.readHeld(r, -1, limit)
	if err != nil {
		return "", err
	}
	c.HoldOnly(before + int64(len(data)))
	return string(data), nil
}

// readHeld reads all that r has, which the request then holds. length is how long it is said to be,
// or negative, and limit the most. The buffer grows as bytes arrive, whatever length is announced.
func (c *Request) readHeld(r io.Reader, length, limit int64) (data []byte, err error) {
	for {
		if len(data) == cap(data) {
			size := max(2*int64(cap(data)), firstRead)
			if length >= 0 {
				size = min(size, length+1) // one more byte, to find the end
			}
			if size = min(size, limit+1); size <= int64(cap(data)) {
				size = int64(cap(data)) + firstRead
			}
			if err := c.Hold(size - int64(cap(data))); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
