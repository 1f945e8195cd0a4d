package web

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"time"

	"kist/httpapi/limit"
	"kist/kv/record"
)

// counted is what CountChanges counted for a request, and for whom.
type counted struct {
	account record.ID
	network netip.Prefix
	n       int
}

// CountChanges counts n changes that the request makes: for the account of its caller, or for the
// network of a stranger. It fails with TooMany if that had too many in the last minute, and does
// nothing for a stranger whose address is not known. A request of many changes counts each.
func (c *Request) CountChanges(n int) error {
	now := c.Site.Store.Now()
	var wait time.Duration
	switch {
	case c.Caller != nil:
		c.counted.account = c.Owner()
		wait = c.Site.Limits.Changes.Take(c.counted.account, n, now)
		tellLimit(c.W.Header(), &c.Site.Limits.Changes, c.counted.account, now)
	case c.Addr.IsValid():
		c.counted.network = limit.Network(c.Addr)
		wait = c.Site.Limits.Sent.Take(c.counted.network, n, now)
		tellLimit(c.W.Header(), &c.Site.Limits.Sent, c.counted.network, now)
	default:
		return nil
	}
	if wait > 0 {
		return &record.Error{
			Fault: record.TooMany, Code: "too_many_writes", Retry: wait,
			Text: "Too many changes came in the last minute. Try again " + record.In(wait) + ".",
		}
	}
	c.counted.n += n
	return nil
}

// tellLimit tells a client that is near the limit of changes how many are left, and for how many seconds
// (draft-ietf-httpapi-ratelimit-headers). Others are not told, because nobody comes near it by hand.
func tellLimit[K comparable](h http.Header, of *limit.Rate[K], key K, now time.Time) {
	left, end := of.Left(key, now)
	if left > of.Most/nearLimit {
		return
	}
	h.Set("RateLimit-Policy", fmt.Sprintf(`"changes";q=%d;w=%d`, of.Most, int(of.Window.Seconds())))
	h.Set("RateLimit", fmt.Sprintf(`"changes";r=%d;t=%d`, left, int(math.Ceil(end.Seconds()))))
}

// nearLimit is the part of a limit from which a client is told what is left.
const nearLimit = 10

// UncountChanges takes back what the request counted, because it was refused. So nobody is kept out by requests that
// change nothing.
func (c *Request) UncountChanges() {
	n := c.counted.n
	c.counted.n = 0
	switch {
	case n == 0:
	case c.counted.network.IsValid():
		c.Site.Limits.Sent.Return(c.counted.network, n)
	default:
		c.Site.Limits.Changes.Return(c.counted.account, n)
	}
}
