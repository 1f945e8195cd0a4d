package web

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"kist/httpapi/grant"
	"kist/kv/record"
)

// What requests hold in memory: bodies and forms from reading until they are answered, and
// answers from making until they are sent. An answer is streamed, or it is held here; a list
// ends at PageBytes. A request that finds no memory waits for memoryWait and is then told to
// try again, so that neither slow senders nor slow readers fill the memory.
//
// Half of the memory is for requests that hold little, so that nobody who holds long answers
// keeps others from signing in. It has room for all connections that there may be. One caller
// gets a part of each half.
const (
	MemoryBytes = 64 << 20 // of all requests
	shortHeld   = 32 << 10 // the most that a short request holds
	longOfOne   = MemoryBytes / 8 * 3
	shortOfOne  = MemoryBytes / 16
	memoryWait  = 2 * time.Second
	makers      = 4 // answers that are made at the same time; what they are made from is not counted

	anonymousBody = 16 << 10 // limit of a body, and of the fields of a form, without a credential, in bytes
	firstRead     = 4 << 10  // first buffer for a body of unknown length, in bytes
)

var errBusy = &record.Error{
	Fault: record.Busy, Code: "busy", Retry: memoryWait,
	Text: "The server has no memory left for more requests. Try again in a moment.",
}

// A Memory counts the bytes that requests hold.
type Memory struct {
	making chan struct{} // taken while an answer is made

	mu      sync.Mutex
	all     halves
	of      map[holder]halves // of those who hold any
	waiting list.List         // of *waiter, in the order in which they came
}

// halves are the bytes of short requests and those of long ones.
type halves struct{ short, long int64 }

// move changes what one request holds.
func (h *halves) move(from, to int64) {
	*h.half(from) -= from
	*h.half(to) += to
}

// half is where a request that holds n bytes is counted.
func (h *halves) half(n int64) *int64 {
	if n > shortHeld {
		return &h.long
	}
	return &h.short
}

// A holder is an account, or the network of a visitor.
type holder struct {
	account record.ID
	network netip.Prefix
}

// A waiter waits for n more bytes for a request that holds some.
type waiter struct {
	of      holder
	some, n int64
	got     chan struct{} // closed when it has them
}

// NewMemory makes a memory that nobody holds.
func NewMemory() *Memory {
	return &Memory{making: make(chan struct{}, makers), of: map[holder]halves{}}
}

// fits reports whether the waiter may have its bytes now. The caller holds mu.
func (m *Memory) fits(w *waiter) bool {
	all, one, after := m.all, m.of[w.of], w.some+w.n
	all.move(w.some, after)
	one.move(w.some, after)
	if after > shortHeld {
		return all.long <= MemoryBytes/2 && one.long <= longOfOne
	}
	return all.short <= MemoryBytes/2 && one.short <= shortOfOne
}

// move changes what a request of a holder holds. The caller holds mu.
func (m *Memory) move(of holder, from, to int64) {
	one := m.of[of]
	one.move(from, to)
	m.all.move(from, to)
	m.of[of] = one
	if one == (halves{}) {
		delete(m.of, of)
	}
}

func (m *Memory) try(w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.fits(w) {
		return false
	}
	m.move(w.of, w.some, w.some+w.n)
	return true
}

// wait is try that waits until ctx ends.
func (m *Memory) wait(ctx context.Context, w *waiter) bool {
	w.got = make(chan struct{})
	m.mu.Lock()
	place := m.waiting.PushBack(w)
	m.serve()
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
			m.move(w.of, w.some, w.some+w.n)
			m.waiting.Remove(place)
			close(w.got)
		}
		place = next
	}
}

// holds are the bytes of one request.
type holds struct {
	of holder
	n  int64
}

// wants are n more bytes for the request. All of them belong to the caller that it had first.
func (c *Request) wants(n int64) *waiter {
	if c.held.n == 0 {
		c.held.of = holder{network: grant.Network(c.Addr)}
		if c.Caller != nil {
			c.held.of = holder{account: c.Caller.User.ID}
		}
	}
	return &waiter{of: c.held.of, some: c.held.n, n: n}
}

// Hold takes n more bytes of the memory for the request, until HoldOnly or the end of the
// request. It waits for them for two seconds, and then fails with Busy.
func (c *Request) Hold(n int64) error {
	if c.TryHold(n) {
		return nil
	}
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
	w, m := c.wants(n), c.Site.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move(w.of, w.some, n)
	m.serve()
	c.held.n = n
}

// ReleaseMemory gives back everything at the end of the request.
func (c *Request) ReleaseMemory() { c.HoldOnly(0) }

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
	wait := time.NewTimer(memoryWait)
	defer wait.Stop()
	late := wait.C
	if c.W.Status != 0 {
		late = nil
	}
	select {
	case c.Site.Memory.making <- struct{}{}:
	case <-c.R.Context().Done():
		return errOverloaded(c.R)
	case <-late:
		return errBusy
	}
	defer func() { <-c.Site.Memory.making }()
	return fn()
}

// hold makes an answer with made, and then holds it and nothing else. If there is no memory for
// it, it is given up, and made again when there is. One that tells what was changed waits for nothing,
// because what was changed stays changed.
func (c *Request) hold(made func() ([]byte, error)) (body []byte, err error) {
	if !safe(c.R.Method) {
		if body, err = made(); err == nil {
			c.holdAnyway(int64(len(body)))
		}
		return body, err
	}
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
