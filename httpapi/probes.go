package httpapi

import (
	"hash/maphash"
	"maps"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"

	"kist/httpapi/grant"
	"kist/httpapi/public"
	"kist/httpapi/session"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/record"
)

// hasGrant reports whether the visitor has a grant for the item of an address's
// name, which is a slug and may carry an extension.
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

// How many addresses at which nothing is shared a visitor may try in
// missWindow. Slugs that people choose can be guessed; what kist chooses has 58
// bits.

const missWindow = time.Minute

// A counter counts events by what they fall under. A count begins with its first
// event and holds for the window; until then nothing removes it. The zero
// value is ready for use, by one goroutine at a time.
type counter[K comparable] struct {
	counts map[K]guessLimits
	swept  time.Time
}

type guessLimits struct {
	n     int
	since time.Time
}

// wait is how long the count stays at or above limit; 0 or less if it is below.
func (t *counter[K]) wait(key K, limit int, window time.Duration, now time.Time) time.Duration {
	if c := t.counts[key]; c.n >= limit {
		return c.since.Add(window).Sub(now)
	}
	return 0
}

// add counts an event, and reports whether it did: what has no count yet finds
// no room among room counts that hold.
func (t *counter[K]) add(key K, room int, window time.Duration, now time.Time) bool {
	c, there := t.counts[key]
	if !there && len(t.counts) >= room && now.Sub(t.swept) >= time.Second { // it looks at all of them
		t.swept = now
		maps.DeleteFunc(t.counts, func(_ K, c guessLimits) bool { return now.Sub(c.since) >= window })
	}
	if !there && len(t.counts) >= room {
		return false
	}
	if t.counts == nil {
		t.counts = map[K]guessLimits{}
	}
	if now.Sub(c.since) >= window {
		c = guessLimits{since: now}
	}
	c.n++
	t.counts[key] = c
	return true
}

// slugProbes counts for how many slugs a visitor asks that are not shared, so that
// they cannot be tried out. Anyone who has missed too often is told nothing more
// of any slug until the window is over, but of what they have a grant for; of requests that come at the same time
// a few more may be answered. To ask for the same slug again is no guess and not
// counted, if it is among the last. The zero value is ready for use. The counts
// are gone when the process ends.
//
// It takes a bounded amount of memory: the misses of more than maxMissEntries
// networks in one window are not counted, so that a crowd of guessers shuts
// nobody else out.
type slugProbes struct {
	mu     sync.Mutex
	tally  counter[netip.Prefix]
	recent [session.RecentMisses]uint64 // hashes of who missed what, each in its one place
}

// allow reports whether the visitor may ask for another slug, or how long to
// wait.
func (m *slugProbes) allow(from netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tally.counts) == 0 {
		return 0, true
	}
	wait = m.tally.wait(grant.Network(from), session.MissesFrom, missWindow, now)
	return wait, wait <= 0
}

func (m *slugProbes) count(from netip.Addr, slug string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hash := maphash.Comparable(session.GuessSeed, session.SlugProbe{From: grant.Network(from), Slug: slug})
	place := &m.recent[hash%session.RecentMisses]
	if *place == hash {
		return
	}
	*place = hash
	m.tally.add(grant.Network(from), session.MaxMissEntries, missWindow, now)
}

// find answers a visitor by way of a route on which slugs could be guessed.
func (m *slugProbes) find(c *web.Request, serve func(*web.Request) error) error {
	name := c.Args[len(c.Args)-1].Value // the path ends in the slug
	if wait, ok := m.allow(c.Addr, c.Site.Store.Now()); !ok && !hasGrant(c, name) {
		return &record.Error{Fault: record.TooMany, Code: "too_many_misses", Text: "Too many addresses were tried at which there is nothing. Try again later.", Retry: wait}
	}
	err := serve(c)
	if web.IsMissing(err) {
		m.count(c.Addr, name, c.Site.Store.Now())
	}
	return err
}
