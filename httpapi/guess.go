package httpapi

import (
	"hash/maphash"
	"maps"
	"net/netip"
	"sync"
	"time"

	"kist/kv/record"
)

// How many wrong passwords are taken in guessWindow: for one thing from one
// address, and for one thing from anywhere.
const (
	guessWindow     = 5 * time.Minute
	guessesFrom     = 5
	guessesOverall  = 30
	maxGuessEntries = 100_000
	sharedGuesses   = 1024
)

// How many addresses at which nothing is shared a visitor may try in
// missWindow. Slugs that people choose can be guessed; what kist chooses has 58
// bits.
const (
	missWindow     = time.Minute
	missesFrom     = 60
	maxMissEntries = 100_000
	recentMisses   = 4096
)

// A tally counts events by what they fall under. A count begins with its first
// event and holds for the window; until then nothing removes it. The zero
// value is ready for use, by one goroutine at a time.
type tally[K comparable] struct {
	counts map[K]tries
	swept  time.Time
}

type tries struct {
	n     int
	since time.Time
}

// wait is how long the count stays at or above most; 0 or less if it is below.
func (t *tally[K]) wait(key K, most int, window time.Duration, now time.Time) time.Duration {
	if c := t.counts[key]; c.n >= most {
		return c.since.Add(window).Sub(now)
	}
	return 0
}

// add counts an event, and reports whether it did: what has no count yet finds
// no room among room counts that hold.
func (t *tally[K]) add(key K, room int, window time.Duration, now time.Time) bool {
	c, there := t.counts[key]
	if !there && len(t.counts) >= room && now.Sub(t.swept) >= time.Second { // it looks at all of them
		t.swept = now
		maps.DeleteFunc(t.counts, func(_ K, c tries) bool { return now.Sub(c.since) >= window })
	}
	if !there && len(t.counts) >= room {
		return false
	}
	if t.counts == nil {
		t.counts = map[K]tries{}
	}
	if now.Sub(c.since) >= window {
		c = tries{since: now}
	}
	c.n++
	t.counts[key] = c
	return true
}

// guessSeed keeps from everyone which things share a place.
var guessSeed = maphash.MakeSeed()

// guesses counts wrong passwords, so that they cannot be tried out. The zero
// value is ready for use. The counts are gone when the process ends.
//
// It takes a bounded amount of memory. Guesses that would begin one count more
// than maxGuessEntries fall under one of sharedGuesses counts, by a hash that
// nobody outside can know: no guess goes uncounted, no attacker can push a
// count out by making others, and at worst some visitors wait for what others
// have guessed.
type guesses struct {
	mu    sync.Mutex
	tally tally[guess]
}

// guess is a thing that is guessed at, and from where. Visitors without an
// address share the zero prefix.
type guess struct {
	from     netip.Prefix
	at       string
	anywhere bool // all visitors together
	shared   int  // of what found no room; from 1
}

// sharing is what a guess falls under for which there is no room.
func (g *guesses) sharing(key guess) guess {
	return guess{anywhere: key.anywhere, shared: 1 + int(maphash.Comparable(guessSeed, key)%sharedGuesses)}
}

// network is what stands for one visitor: an IPv4 address, or the /64 of an
// IPv6 one, which one household has at least.
func network(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// counted are the two counts that a password tried for a thing falls under,
// and how high each may go.
func counted(from netip.Addr, at string) [2]struct {
	guess
	most int
} {
	p := network(from)
	return [2]struct {
		guess
		most int
	}{{guess{from: p, at: at}, guessesFrom}, {guess{at: at, anywhere: true}, guessesOverall}}
}

// allow reports whether another password may be tried, or how long to wait.
func (g *guesses) allow(from netip.Addr, at string, now time.Time) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait(from, at, now)
}

func (g *guesses) wait(from netip.Addr, at string, now time.Time) (wait time.Duration, ok bool) {
	for _, c := range counted(from, at) {
		wait = max(wait, g.tally.wait(c.guess, c.most, guessWindow, now), g.tally.wait(g.sharing(c.guess), c.most, guessWindow, now))
	}
	return wait, wait <= 0
}

// settle says whether the outcome of a try may be told, or how long to wait,
// and counts the try if it was wrong. Checking takes a while, so that many may
// be under way at once; no more are told than if they had come one by one.
func (g *guesses) settle(from netip.Addr, at string, right bool, now time.Time) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if wait, ok = g.wait(from, at, now); ok && !right {
		g.count(from, at, now)
	}
	return wait, ok
}

func (g *guesses) count(from netip.Addr, at string, now time.Time) {
	for _, c := range counted(from, at) {
		if !g.tally.add(c.guess, maxGuessEntries, guessWindow, now) {
			// There is room: as many more as are shared, for each of the two sorts.
			g.tally.add(g.sharing(c.guess), maxGuessEntries+2*sharedGuesses, guessWindow, now)
		}
	}
}

func tooMany(wait time.Duration) error {
	return &record.Error{Fault: record.TooMany, Code: "too_many_guesses", Text: "Too many wrong passwords. Try again later.", Retry: wait}
}

// misses counts for how many slugs a visitor asks that are not shared, so that
// they cannot be tried out. Whoever has missed too often is told nothing more
// of any slug until the window is over, but of what they have a grant for; of requests that come at the same time
// a few more may be answered. To ask for the same slug again is no guess and not
// counted, if it is among the last. The zero value is ready for use. The counts
// are gone when the process ends.
//
// It takes a bounded amount of memory: the misses of more than maxMissEntries
// networks in one window are not counted, so that a crowd of guessers shuts
// nobody else out.
type misses struct {
	mu     sync.Mutex
	tally  tally[netip.Prefix]
	recent [recentMisses]uint64 // hashes of who missed what, each in its one place
}

// allow reports whether the visitor may ask for another slug, or how long to
// wait.
func (m *misses) allow(from netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tally.counts) == 0 {
		return 0, true
	}
	wait = m.tally.wait(network(from), missesFrom, missWindow, now)
	return wait, wait <= 0
}

func (m *misses) count(from netip.Addr, slug string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hash := maphash.Comparable(guessSeed, guess{from: network(from), at: slug})
	place := &m.recent[hash%recentMisses]
	if *place == hash {
		return
	}
	*place = hash
	m.tally.add(network(from), maxMissEntries, missWindow, now)
}

// find answers a visitor by way of a route on which slugs could be guessed.
func (m *misses) find(c *call, serve func(*call) error) error {
	name := c.args[len(c.args)-1].Value // the path ends in the slug
	if wait, ok := m.allow(c.addr, c.s.Store.Now()); !ok && !c.proven(name) {
		return &record.Error{Fault: record.TooMany, Code: "too_many_misses", Text: "Too many addresses were tried at which there is nothing. Try again later.", Retry: wait}
	}
	err := serve(c)
	if missing(err) {
		m.count(c.addr, name, c.s.Store.Now())
	}
	return err
}
