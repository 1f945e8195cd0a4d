package lookout

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"kist/httpapi/outbound"
	"kist/kv/record"
)

// client asks for pages.
type client struct{ *outbound.Client }

// Bounds of a look.
const (
	lookTime  = 30 * time.Second // for all of it; a resolver that hears nothing gives up before
	redirects = 5
	maxDrain  = 4 << 10 // bytes of a body that nobody wants
)

// ask asks for the page at an address; with fill, for what it says of itself.
func (c *client) ask(ctx context.Context, address string, fill bool) record.Look {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if fill {
		return c.read(ctx, address)
	}
	res, err := c.head(ctx, http.MethodHead, address)
	if err == nil && res.StatusCode >= 400 && res.StatusCode != http.StatusTooManyRequests {
		// Some know no HEAD, and say so in many ways.
		res, err = c.head(ctx, http.MethodGet, address)
	}
	return judge(res, err)
}

// read asks for a page and reads it.
func (c *client) read(ctx context.Context, address string) record.Look {
	res, err := c.send(ctx, http.MethodGet, address)
	found := judge(res, err)
	if err != nil {
		return found
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return found
	}
	found.Read = true
	media := res.Header.Get("Content-Type")
	if coding := res.Header.Get("Content-Encoding"); isPage(media) && (coding == "" || coding == "identity") {
		p := parse(res.Body, media)
		found.Title, found.Description = p.title, p.description
	}
	return found
}

// head sends a request of which the answer's head alone is wanted.
func (c *client) head(ctx context.Context, method, address string) (*http.Response, error) {
	res, err := c.send(ctx, method, address)
	if err == nil {
		_, _ = io.CopyN(io.Discard, res.Body, maxDrain) // what comes of it is no matter
		err = res.Body.Close()
	}
	return res, err
}

func (c *client) send(ctx context.Context, method, address string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	// Many sites turn away what does not say that it is like a browser.
	r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; kist)")
	r.Header.Set("Accept", "text/html, application/xhtml+xml, */*;q=0.5")
	return c.Do(r, redirects)
}

// judge says what an answer, or that there is none, tells of a page.
func judge(res *http.Response, err error) record.Look {
	var refused *outbound.Refused
	var name *net.DNSError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		return record.Look{Verdict: record.Barred}
	case errors.As(err, &name) && !name.IsNotFound, errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		return record.Look{Verdict: record.Offline}
	default:
		return record.Look{Verdict: record.Fails}
	}
	found := record.Look{Verdict: record.Answers, Wait: outbound.RetryAfter(res.Header, time.Now())}
	if s := res.StatusCode; s == http.StatusNotFound || s == http.StatusGone || s >= 500 {
		found.Verdict = record.Fails
	}
	if s := res.StatusCode; s != http.StatusTooManyRequests && s != http.StatusServiceUnavailable {
		found.Wait = 0 // it is said of something else
	}
	return found
}
