package httpapi

import (
	"hash/maphash"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"

	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/public"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// hasGrant reports whether the visitor has a grant for the item with the name, which is a
// slug, possibly with an extension.
func hasGrant(c *web.Request, name string) bool {
	for _, slug := range []string{name, strings.TrimSuffix(name, path.Ext(name))} {
		var r *record.Record
		err := c.Site.Store.View(func(tx *kv.Tx) (err error) { r, err = catalog.Slug(tx, slug); return err })
		if err == nil && (public.Granted(c, grant.ToRead, r) || public.Granted(c, grant.ToUnlock, r) || c.AtContentOrigin() && public.Granted(c, grant.ToOwn, r)) {
			return true
		}
	}
	if q, err := upload.OpenRequest(c, name); err == nil && public.Granted(c, grant.ToUnlock, upload.Lock(q)) {
		return true
	}
	_, err := public.RemovedFileAt(c, name)
	return err == nil
}

// A visitor may try a limited number of addresses without a shared item within missWindow,
// because slugs that people choose can be guessed. Those that kist chooses have 58 bits.

const missWindow = time.Minute

// Limits of guessed slugs: misses of one network in the window, and recent misses that are remembered so that asking
// for the same slug again does not count.
const (
	maxMisses    = 60
	recentMisses = 4096
)

// missSeed makes the hashes of misses unpredictable for visitors.
var missSeed = maphash.MakeSeed()

// missed is what is hashed of a miss.
type missed struct {
	from netip.Prefix
	slug string
}

// slugProbes counts the different slugs without a shared item that a visitor asks for, so
// that slugs cannot be guessed. A visitor with too many misses can only see items for which
// they have a grant, until the window is over. Requests at the same time may get a few more
// answers. Asking for a recently missed slug again does not count. The zero value is ready
// for use. The counts are lost when the process ends.
//
// Memory is bounded: misses of more than limit.MaxCounts networks in one window are not
// counted. So a crowd of guessers does not lock out anyone else.
type slugProbes struct {
	mu     sync.Mutex
	tally  limit.Counter[netip.Prefix]
	recent [recentMisses]uint64 // hashes of network and slug, each at a fixed place
}

// allow reports whether the visitor may ask for another slug. If not, wait is the time
// until then.
func (m *slugProbes) allow(from netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tally.Len() == 0 {
		return 0, true
	}
	wait = m.tally.Wait(limit.Network(from), maxMisses, missWindow, now)
	return wait, wait <= 0
}

func (m *slugProbes) count(from netip.Addr, slug string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hash := maphash.Comparable(missSeed, missed{limit.Network(from), slug})
	place := &m.recent[hash%recentMisses]
	if *place == hash {
		return
	}
	*place = hash
	m.tally.Add(limit.Network(from), 1, missWindow, now)
}

// find serves a route on which slugs could be guessed.
func (m *slugProbes) find(c *web.Request, serve func(*web.Request) error) error {
	name := c.Args[0].Value // the first part of the path that varies
	if wait, ok := m.allow(c.Addr, c.Site.Store.Now()); !ok && !hasGrant(c, name) {
		return &record.Error{Fault: record.TooMany, Code: "too_many_misses", Text: "You opened too many links that do not exist. Try again " + record.In(wait) + ".", Retry: wait}
	}
	err := serve(c)
	if kv.Missing(err) {
		m.count(c.Addr, name, c.Site.Store.Now())
	}
	return err
}
