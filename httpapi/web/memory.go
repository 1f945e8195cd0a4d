package web

import (
	"context"
	"errors"
	"io"
	"net/http"

	"kist/httpapi/limit"
	"kist/kv/record"
)

// Bodies and forms are held in memory from reading until they are answered, and answers from
// making until they are sent. How much of that there may be is decided by limit.Memory.

const (
	anonymousBody = 16 << 10 // limit of a body, and of the fields of a form, without a credential, in bytes
	firstRead     = 4 << 10  // first buffer for a body of unknown length, in bytes
)

var errBusy = &record.Error{
	Fault: record.Busy, Code: "busy", Retry: limit.MemoryWait,
	Text: "The server has no memory left for more requests. Try again in a moment.",
}

// memory is what the request holds of the server's memory. All of it belongs to the caller that
// the request had when it first held something.
func (c *Request) memory() *limit.Held {
	if c.held.Begun() {
		return &c.held
	}
	of := limit.Holder{}
	if c.Caller != nil {
		of.Account = c.Caller.User.ID
	} else {
		of.Network = limit.Network(c.Addr)
	}
	c.held = c.Site.Limits.Memory.Begin(of)
	return &c.held
}

// Hold takes n more bytes of the memory for the request, until HoldOnly or the end of the
// request. It waits for them for two seconds, and then fails with Busy.
func (c *Request) Hold(n int64) error {
	ctx, cancel := context.WithTimeout(c.R.Context(), limit.MemoryWait)
	defer cancel()
	if !c.memory().Grow(ctx, n) {
		return errOverloaded(c.R)
	}
	return nil
}

// TryHold is Hold that does not wait. It reports whether the request has the bytes.
func (c *Request) TryHold(n int64) bool { return c.memory().TryGrow(n) }

// HoldOnly gives back what the request holds beyond n bytes.
func (c *Request) HoldOnly(n int64) {
	if c.held.Bytes() > n {
		c.held.Set(n)
	}
}

// ReleaseMemory gives back everything at the end of the request.
func (c *Request) ReleaseMemory() { c.held.End() }

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
	held, ctx := c.memory(), c.R.Context()
	if !held.TryMaking() {
		if c.W.Status == 0 {
			late, cancel := context.WithTimeout(ctx, limit.MemoryWait)
			defer cancel()
			ctx = late
		}
		if !held.AwaitMaking(ctx) {
			return errOverloaded(c.R)
		}
	}
	defer held.EndMaking()

	return fn()
}

// hold makes an answer and holds it, as HoldMade does. One that tells what was changed waits for nothing,
// because what was changed stays changed.
func (c *Request) hold(made func() ([]byte, error)) ([]byte, error) {
	if Safe(c.R.Method) {
		return c.HoldMade(made)
	}
	body, err := made()
	if err != nil {
		return nil, err
	}
	c.memory().Set(int64(len(body)))
	return body, nil
}

// HoldMade makes an answer with made, as Making does, and then holds it and nothing else. If there is no memory
// for it, it is given up, and made again when there is.
func (c *Request) HoldMade(made func() ([]byte, error)) (body []byte, err error) {
	for range 2 {
		if err := c.Making(func() error { body, err = made(); return err }); err != nil {
			return nil, err
		}
		more := int64(len(body)) - c.held.Bytes()
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
	before := c.held.Bytes()
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
			size = min(size, limit+1)
			if size <= int64(cap(data)) {
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
