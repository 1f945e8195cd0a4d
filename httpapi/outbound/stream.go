package outbound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// The head of a streamed answer must arrive within headTime, including redirects, and its body at
// least at this rate.
const (
	headTime  = 30 * time.Second
	paceTime  = 30 * time.Second
	paceBytes = 32 << 10 // in each paceTime spent waiting for them
)

// ErrSlow says that an answer did not arrive or arrived too slowly.
var ErrSlow = errors.New("the answer did not arrive, or too slowly")

// Stream fetches the content at an address. It may take any time as long as bytes arrive fast enough.
// Otherwise the error, of Stream or of reading the body, is ErrSlow. Redirects are handled as in Do.
// The body is not decoded; Content-Encoding says whether the server encoded it against the request. It
// has no size limit. The caller closes it.
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

// paced is a body that must keep arriving. The time that its reader spends between reads does not
// count.
type paced struct {
	body   io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	left   time.Duration // until due bytes must have arrived
	due    int
}

func (p *paced) Read(b []byte) (int, error) {
	begun := time.Now()
	p.timer.Reset(p.left)
	n, err := p.body.Read(b)
	p.timer.Stop()
	p.left -= time.Since(begun)
	p.due -= n
	if p.due <= 0 {
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

// why is ErrSlow if the request was cut off here, otherwise err.
func (p *paced) why(err error) error {
	if errors.Is(context.Cause(p.ctx), ErrSlow) {
		return ErrSlow
	}
	return err
}
