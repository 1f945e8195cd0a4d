package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"kist/httpapi/grant"
	"kist/kv/catalog"
	"kist/kv/record"
)

// The memory for long requests and answers: all JSON bodies, from reading until they are
// answered, and all JSON, texts and pages that may be long, until they are written. One caller gets at most half of
// it, so that clients who send or read slowly with one credential, or from one
// network, do not block everyone. All credentials of an account get at most three
// quarters. A request that finds no space waits for jsonWait and is then told to try
// again.
const (
	JSONBytes    = 32 << 20
	jsonShare    = JSONBytes / 2
	accountShare = JSONBytes / 4 * 3
	jsonWait     = 2 * time.Second

	anonymousBody = 16 << 10 // limit of a body without a credential, in bytes
	firstRead     = 4 << 10  // first buffer for a body of unknown length, in bytes
)

var errBusy = &record.Error{
	Fault: record.Busy, Code: "busy", Retry: jsonWait,
	Text: "The server has no memory left for more requests. Try again in a moment.",
}

// A budget counts the bytes of JSON in use, in total and for each caller.
type budget struct {
	All *semaphore.Weighted

	reads chan struct{} // taken while a record is read that may be long

	mu     sync.Mutex
	Shares map[spender]*share // of callers with a request in progress
}

// A spender is the owner of a share: a credential, an account, or the network of a visitor.
type spender struct {
	credential, account record.ID
	network             netip.Prefix
}

// A share is one spender's part of the budget.
type share struct {
	*semaphore.Weighted
	of    spender
	whole *share // of the account, if this is the share of a credential; nil otherwise
	calls int    // requests that use it; guarded by budget.mu
}

func NewBudget() *budget {
	return &budget{All: semaphore.NewWeighted(JSONBytes), Shares: map[spender]*share{}, reads: make(chan struct{}, 2*runtime.GOMAXPROCS(0))}
}

// join returns the share of a request, which leaves it at the end.
func (b *budget) join(c *Request) *share {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Caller == nil {
		return b.joined(spender{network: grant.Network(c.Addr)}, jsonShare, nil)
	}
	account := b.joined(spender{account: c.Caller.User.ID}, accountShare, nil)
	if c.Caller.Key.ID == (record.ID{}) { // the operator has none
		return account
	}
	return b.joined(spender{credential: c.Caller.Key.ID, account: c.Caller.User.ID}, jsonShare, account)
}

func (b *budget) joined(of spender, most int64, whole *share) *share {
	s := b.Shares[of]
	if s == nil {
		s = &share{Weighted: semaphore.NewWeighted(most), of: of, whole: whole}
		b.Shares[of] = s
	}
	s.calls++
	return s
}

func (b *budget) leave(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; s != nil; s = s.whole {
		if s.calls--; s.calls == 0 {
			delete(b.Shares, s.of)
		}
	}
}

// try takes n bytes of the share and of what it is a part of, if both have them.
func (s *share) try(n int64) bool {
	if !s.TryAcquire(n) {
		return false
	}
	if s.whole != nil && !s.whole.TryAcquire(n) {
		s.Release(n)
		return false
	}
	return true
}

// wait is try that waits for the bytes.
func (s *share) wait(ctx context.Context, n int64) error {
	if err := s.Acquire(ctx, n); err != nil || s.whole == nil {
		return err
	}
	err := s.whole.Acquire(ctx, n)
	if err != nil {
		s.Release(n)
	}
	return err
}

func (s *share) giveBack(n int64) {
	for ; s != nil; s = s.whole {
		s.Release(n)
	}
}

// reserveJSON takes n bytes of the budget for the request, at most jsonShare, until
// releaseSomeJSON or ReleaseJSON.
func (c *Request) reserveJSON(n int64) error {
	if c.share == nil {
		c.share = c.Site.Budget.join(c)
	}
	if err := c.acquireJSON(n); err != nil {
		return err
	}
	c.held += n
	return nil
}

// acquireJSON takes n bytes of the share and of the budget. It sets up waiting only if
// it has to wait.
func (c *Request) acquireJSON(n int64) error {
	if tryJSON(c, n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), jsonWait)
	defer cancel()
	if c.share.wait(ctx, n) != nil {
		return errOverloaded(c.R)
	}
	if c.Site.Budget.All.Acquire(ctx, n) != nil {
		c.share.giveBack(n)
		return errOverloaded(c.R)
	}
	return nil
}

// tryJSON is acquireJSON that does not wait.
func tryJSON(c *Request, n int64) bool {
	if !c.share.try(n) {
		return false
	}
	if !c.Site.Budget.All.TryAcquire(n) {
		c.share.giveBack(n)
		return false
	}
	return true
}

// errOverloaded is the error for a request that found no space in the budget. A client
// that is gone gets no answer.
func errOverloaded(r *http.Request) error {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	return errBusy
}

func (c *Request) releaseSomeJSON(n int64) {
	c.held -= n
	c.Site.Budget.All.Release(n)
	c.share.giveBack(n)
}

// ReleaseJSON gives back everything at the end of the request.
func (c *Request) ReleaseJSON() {
	if c.share != nil {
		c.releaseSomeJSON(c.held)
		c.Site.Budget.leave(c.share)
	}
}

// longText is from how many bytes a record needs memory of the budget before a page is made
// of it or its text is sent.
const longText = 32 << 10

// HoldRecord reads a record with find. If it is long, the request holds memory of the budget
// from then on: for its row, its text, that as HTML, and the page. The request does not keep
// the record while it waits for memory.
func HoldRecord(c *Request, find func() (*record.Record, error)) (*record.Record, error) {
	r, wants, err := tryRecord(c, find)
	if wants == 0 {
		return r, err
	}
	if err := c.reserveJSON(wants); err != nil {
		return nil, err
	}
	return find()
}

// tryRecord is HoldRecord that does not wait for memory: it returns how many bytes it wants instead.
func tryRecord(c *Request, find func() (*record.Record, error)) (r *record.Record, wants int64, err error) {
	c.Site.Budget.reads <- struct{}{}
	defer func() { <-c.Site.Budget.reads }()
	if r, err = find(); err != nil || len(r.Body) < longText {
		return r, 0, err
	}
	n := min(4*int64(len(r.Body)), jsonShare) - c.held
	if n <= 0 {
		return r, 0, nil
	}
	if c.share == nil {
		c.share = c.Site.Budget.join(c)
	}
	if !tryJSON(c, n) {
		return nil, n, nil
	}
	c.held += n
	return r, 0, nil
}

// HoldOnly gives back what the request holds of the budget beyond n bytes.
func HoldOnly(c *Request, n int) {
	if spare := c.held - int64(n); spare > 0 {
		c.releaseSomeJSON(spare)
	}
}

// ReadBody reads the whole body, at most limit bytes, or anonymousBody if there is no
// credential. The buffer grows as bytes arrive, whatever length the request announces.
func (c *Request) ReadBody(limit int64) ([]byte, error) {
	if c.Caller == nil {
		limit = min(limit, anonymousBody)
	}
	length := c.R.ContentLength
	if length > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	body := c.LimitBody(limit)
	var data []byte
	for {
		if len(data) == cap(data) {
			size := max(2*int64(cap(data)), firstRead)
			if length >= 0 {
				size = min(size, length+1) // one more byte, to find the end
			}
			if size = min(size, limit+1); size <= int64(cap(data)) {
				size = int64(cap(data)) + firstRead
			}
			if err := c.reserveJSON(size - int64(cap(data))); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, BodyError(err)
		}
	}
}

// LongRecord is about the size of a long record of the kind as JSON, in bytes. A body
// may be longer, because clients may escape every character.
func LongRecord(k *record.Kind) int64 { return k.MaxBody / 4 }

// RespondLarge is Respond for an answer that may be long, of about limit bytes and
// what it is made from: it waits until there is memory for that. While the answer
// is sent, which a client may take slowly, the call holds what its buffer has.
func (c *Request) RespondLarge(status int, limit int64, write func(dst []byte) ([]byte, error)) error {
	before := c.held
	need := 3 * limit // what is read, the answer, and what was given up as it grew
	if limit > keptBuffer {
		need = limit + largeBuffer + keptBuffer
	}
	if err := c.reserveJSON(need); err != nil {
		return err
	}
	return c.Respond(status, func(dst []byte) ([]byte, error) {
		dst, err := write(dst)
		if spare := c.held - before - int64(cap(dst)); spare > 0 {
			c.releaseSomeJSON(spare)
		}
		return dst, err
	})
}

// shortRoom is how many bytes of records a short answer may be made from. A page of 50
// records of 4 KiB fits.
const shortRoom = 256 << 10

// RespondShort is RespondLarge for an answer that is usually made from few bytes of
// records. It calls write with the number of bytes that may be read. If write fails
// with ErrLong, it waits until there is memory for an answer of limit bytes and calls
// write again, with 0 for no limit. So short answers do not wait for memory that only
// long ones need.
func (c *Request) RespondShort(status int, limit int64, write func(dst []byte, room int) ([]byte, error)) error {
	before := c.held
	err := c.RespondLarge(status, shortRoom, func(dst []byte) ([]byte, error) { return write(dst, shortRoom) })
	if !errors.Is(err, catalog.ErrLong) {
		return err
	}
	c.releaseSomeJSON(c.held - before)
	return c.RespondLarge(status, limit, func(dst []byte) ([]byte, error) { return write(dst, 0) })
}
