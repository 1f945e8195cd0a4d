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
	"kist/kv/field"
	"kist/kv/record"
)

// client requests pages and the icons of their sites.
type client struct {
	*outbound.Client
	icons *thumb.Icons
	log   *slog.Logger
}

// Bounds of a check.
const (
	// for the whole check; GET after a failed HEAD has as much again. A resolver without an answer gives up earlier
	lookTime  = 30 * time.Second
	redirects = 5
	maxDrain  = 4 << 10 // bytes of an unwanted body
)

// ask requests the page at an address. With fill, it also reads the page's title and description.
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
	if found.Verdict == record.Fails || err == nil && res.StatusCode >= 400 &&
		res.StatusCode != http.StatusTooManyRequests {
		// Some sites do not support HEAD, and say so in various ways or not at all.
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

// response says who answered for a page, and has the page's data.
type response struct {
	page
	at   *url.URL // after redirects; nil if there was no answer
	busy bool     // the site asked for fewer requests
}

func from(res *http.Response) response {
	return response{at: res.Request.URL, busy: res.StatusCode == http.StatusTooManyRequests}
}

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
		found.Title, found.Description, found.Image = a.title, a.description, imageOf(a.page, a.at)
	}
	return found, a
}

// plain reports whether the body of the answer is not encoded, as requested.
func plain(res *http.Response) bool {
	coding := res.Header.Get("Content-Encoding")
	return coding == "" || coding == "identity"
}

// head sends a request and needs only the head of the answer.
func (c *client) head(ctx context.Context, method, address string) (*http.Response, error) {
	res, err := c.send(ctx, method, address, acceptPage)
	if err == nil {
		_, _ = io.CopyN(io.Discard, res.Body, maxDrain) // errors do not matter
		err = res.Body.Close()
	}
	return res, err
}

// acceptPage is the Accept header for pages.
const acceptPage = "text/html, application/xhtml+xml, */*;q=0.5"

func (c *client) send(ctx context.Context, method, address, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, field.SentURL(address), nil)
	if err != nil {
		return nil, err
	}
	// Many sites refuse clients that do not claim to be like a browser.
	r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; kist)")
	r.Header.Set("Accept", accept)
	return c.Do(r, redirects)
}

// judge draws a conclusion about a page from an answer or an error.
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
		found.Wait = 0 // Retry-After has another meaning with other statuses
	}
	return found
}
