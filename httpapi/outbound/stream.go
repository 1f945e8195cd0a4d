package outbound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// The head of an answer that is streamed must come within headTime, redirects
// included, and its body at this rate or better.
const (
	headTime  = 30 * time.Second
	paceTime  = 30 * time.Second
	paceBytes = 32 << 10 // in each paceTime that is spent on waiting for them
)

// ErrSlow says that an answer did not come, or came too slowly.
var ErrSlow = errors.New("the answer does not come, or too slowly")

// Stream gets what is at an address, however long that takes, as long as it
// comes in at a pace: otherwise the error, of Stream or of reading the body, is
// ErrSlow. Redirects are as with Do. The body is as it was sent; of the coding
// that it may have, other than what was asked for, Content-Encoding tells. It
// has no bound. The caller closes it.
func (c *Client) Stream(ctx context.Context, address string, redirects int) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	r.Header = http.Header{"User-Agent": {"kist"}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"}}
	p := &paced{ctx: ctx, cancel: cancel, left: headTime, due: paceBytes}
	p.timer = time.AfterFunc(p.left, func() { cancel(ErrSlow) })
	res, err := c.Do(r, redirects)
	p.timer.Stop()
	if err != nil {
		err = p.why(err)
		cancel(nil)
		return nil, err
	}
	p.body, p.left = res.Body, paceTime
	res.Body = p
	return res, nil
}

// paced is a body that must keep coming in. What its reader does in between
// counts for nothing.
type paced struct {
	body   io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	left   time.Duration // until so many bytes are due
	due    int
}

func (p *paced) Read(b []byte) (int, error) {
	begun := time.Now()
	p.timer.Reset(p.left)
	n, err := p.body.Read(b)
	p.timer.Stop()
	p.left -= time.Since(begun)
	if p.due -= n; p.due <= 0 {
		p.left, p.due = paceTime, paceBytes
	}
	if err != nil && err != io.EOF { // net/http returns it bare
		err = p.why(err)
	}
	return n, err
}

func (p *paced) Close() error {
	p.cancel(nil)
	return p.body.Close()
}

// why is the error of a request that was perhaps ended here.
func (p *paced) why(err error) error {
	if errors.Is(context.Cause(p.ctx), ErrSlow) {
		return ErrSlow
	}
	return err
}
