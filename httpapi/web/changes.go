package web

import (
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
	case c.Addr.IsValid():
		c.counted.network = limit.Network(c.Addr)
		wait = c.Site.Limits.Sent.Take(c.counted.network, n, now)
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
