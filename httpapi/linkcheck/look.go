package linkcheck

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"kist/httpapi/outbound"
	"kist/httpapi/thumb"
	"kist/kv/record"
)

// client asks for pages, and for the icons of their sites.
type client struct {
	*outbound.Client
	icons *thumb.Icons
	log   *slog.Logger
}

// Bounds of a look.
const (
	lookTime  = 30 * time.Second // for all of it, or for HEAD alone if that fails; a resolver that hears nothing gives up before
	redirects = 5
	maxDrain  = 4 << 10 // bytes of a body that nobody wants
)

// ask asks for the page at an address; with fill, for what it says of itself.
func (c *client) ask(all context.Context, address string, fill bool) record.Look {
	ctx, cancel := context.WithTimeout(all, lookTime)
	defer cancel()
	if fill {
		found, a := c.read(ctx, address)
		if found.Verdict == record.Answers {
			found.Icon = c.icon(ctx, a, func() response { return a })
		}
		return found
	}
	res, err := c.head(ctx, http.MethodHead, address)
	found := judge(res, err)
	if found.Verdict == record.Fails || err == nil && res.StatusCode >= 400 && res.StatusCode != http.StatusTooManyRequests {
		// Some know no HEAD, and say so in many ways, or not at all.
		ctx, cancel = context.WithTimeout(all, lookTime)
		defer cancel()
		res, err = c.head(ctx, http.MethodGet, address)
		found = judge(res, err)
	}
	if found.Verdict == record.Answers {
		found.Icon = c.icon(ctx, from(res), func() response {
			_, a := c.read(ctx, address)
			return a
		})
	}
	return found
}

// response is who answered for a page, and what it says of itself.
type response struct {
	page
	at   *url.URL // after redirects; nil if nobody did
	busy bool     // and wants to be left alone
}

func from(res *http.Response) response {
	return response{at: res.Request.URL, busy: res.StatusCode == http.StatusTooManyRequests}
}

// read asks for a page and reads it.
func (c *client) read(ctx context.Context, address string) (record.Look, response) {
	res, err := c.send(ctx, http.MethodGet, address, acceptPage)
	found := judge(res, err)
	if err != nil {
		return found, response{}
	}
	defer res.Body.Close()
	a := from(res)
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return found, a
	}
	found.Read = true
	if media := res.Header.Get("Content-Type"); isPage(media) && plain(res) {
		a.page = parse(res.Body, media)
		found.Title, found.Description = a.title, a.description
	}
	return found, a
}

// plain reports whether the answer's body is as it is meant: it was not asked
// for in any coding.
func plain(res *http.Response) bool {
	coding := res.Header.Get("Content-Encoding")
	return coding == "" || coding == "identity"
}

// head sends a request of which the answer's head alone is wanted.
func (c *client) head(ctx context.Context, method, address string) (*http.Response, error) {
	res, err := c.send(ctx, method, address, acceptPage)
	if err == nil {
		_, _ = io.CopyN(io.Discard, res.Body, maxDrain) // what comes of it is no matter
		err = res.Body.Close()
	}
	return res, err
}

// acceptPage is what is asked for at the address of a page.
const acceptPage = "text/html, application/xhtml+xml, */*;q=0.5"

func (c *client) send(ctx context.Context, method, address, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	// Many sites turn away what does not say that it is like a browser.
	r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; kist)")
	r.Header.Set("Accept", accept)
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
