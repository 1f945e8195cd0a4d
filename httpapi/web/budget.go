package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"kist/httpapi/grant"
	"kist/kv/record"
)

// The memory that JSON may take: all bodies that are read, until they are
// answered, and all answers that may be long, until they are written. One caller
// has at most half of it, so that those who read or send slowly with one
// credential, or from one network, do not block everyone. Who finds no room
// waits for it and is told to come again.
const (
	JsonBytes = 32 << 20
	jsonShare = JsonBytes / 2
	jsonWait  = 2 * time.Second

	openBody  = 16 << 10 // bytes of a body of somebody who brings no credential
	firstRead = 4 << 10  // bytes that a body of unknown length is read into at first
)

var errCrowded = &record.Error{
	Fault: record.Busy, Code: "busy", Retry: jsonWait,
	Text: "The server has as many requests in its hands as it has memory for. Try again in a moment.",
}

// A budget is the bytes of JSON that are in use, in all and by each caller.
type budget struct {
	All *semaphore.Weighted

	mu     sync.Mutex
	Shares map[spender]*share // of callers that have a call under way
}

// A spender is whom a share belongs to: a credential, or the network of a
// visitor.
type spender struct {
	credential record.ID
	network    netip.Prefix
}

// A share is what one caller has of the budget.
type share struct {
	*semaphore.Weighted
	of    spender
	calls int // that spend from it; guarded by budget.mu
}

func NewBudget() *budget {
	return &budget{All: semaphore.NewWeighted(JsonBytes), Shares: map[spender]*share{}}
}

// join is the share of a caller for one call, which leaves it at its end.
func (b *budget) join(of spender) *share {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.Shares[of]
	if s == nil {
		s = &share{Weighted: semaphore.NewWeighted(jsonShare), of: of}
		b.Shares[of] = s
	}
	s.calls++
	return s
}

func (b *budget) leave(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.calls--; s.calls == 0 {
		delete(b.Shares, s.of)
	}
}

// reserveJSON takes n bytes of the budget, jsonShare at most, for the call, until
// refund or releaseJSON.
func (c *Request) reserveJSON(n int64) error {
	if c.share == nil {
		of := spender{network: grant.Network(c.Addr)}
		if c.Caller != nil {
			of = spender{credential: c.Caller.Key.ID}
		}
		c.share = c.Site.Budget.join(of)
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), jsonWait)
	defer cancel()
	if c.share.Acquire(ctx, n) != nil {
		return c.errOverloaded()
	}
	if c.Site.Budget.All.Acquire(ctx, n) != nil {
		c.share.Release(n)
		return c.errOverloaded()
	}
	c.held += n
	return nil
}

// errOverloaded is the error of a call that found no room in the budget. A client
// that has gone gets no answer.
func (c *Request) errOverloaded() error {
	if c.R.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	return errCrowded
}

func (c *Request) releaseSomeJSON(n int64) {
	c.held -= n
	c.Site.Budget.All.Release(n)
	c.share.Release(n)
}

// ReleaseJSON gives back what the call has spent. It is the end of the call.
func (c *Request) ReleaseJSON() {
	if c.share != nil {
		c.releaseSomeJSON(c.held)
		c.Site.Budget.leave(c.share)
	}
}

// ReadBody reads the whole body, of at most limit bytes, or openBody if nobody is
// known to have sent it. The buffer grows as bytes arrive, whatever length the
// request announces.
func (c *Request) ReadBody(limit int64) ([]byte, error) {
	if c.Caller == nil {
		limit = min(limit, openBody)
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
				size = min(size, length+1) // one more, for the end to be found
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

// LongRecord is about how many bytes a long record of the kind has as JSON. A
// body may be longer, as its sender may escape every character.
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
