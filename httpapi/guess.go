package httpapi

import (
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
)

// guesses counts wrong passwords, so that they cannot be tried out. The zero
// value is ready for use.
type guesses struct {
	mu    sync.Mutex
	tries map[guess]tries
}

// guess is a thing that is guessed at, and from where. Visitors without an
// address share the zero prefix.
type guess struct {
	from     netip.Prefix
	at       string
	anywhere bool // all visitors together
}

type tries struct {
	n     int
	since time.Time
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
	}{{guess{p, at, false}, guessesFrom}, {guess{netip.Prefix{}, at, true}, guessesOverall}}
}

// allow reports whether another password may be tried, or how long to wait.
func (g *guesses) allow(from netip.Addr, at string, now time.Time) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait(from, at, now)
}

func (g *guesses) wait(from netip.Addr, at string, now time.Time) (wait time.Duration, ok bool) {
	for _, c := range counted(from, at) {
		if t := g.tries[c.guess]; t.n >= c.most {
			wait = max(wait, t.since.Add(guessWindow).Sub(now))
		}
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
	if len(g.tries) >= maxGuessEntries {
		for key, t := range g.tries {
			if now.Sub(t.since) >= guessWindow {
				delete(g.tries, key)
			}
		}
	}
	if g.tries == nil {
		g.tries = map[guess]tries{}
	}
	for _, c := range counted(from, at) {
		t := g.tries[c.guess]
		if now.Sub(t.since) >= guessWindow {
			t = tries{since: now}
		}
		t.n++
		g.tries[c.guess] = t
	}
}

func tooMany(wait time.Duration) error {
	return &record.Error{Fault: record.TooMany, Code: "too_many_guesses", Text: "Too many wrong passwords. Try again later.", Retry: wait}
}
