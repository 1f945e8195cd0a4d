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

// guess is a thing that is guessed at, and from where; the zero prefix is
// from anywhere.
type guess struct {
	from netip.Prefix
	at   string
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

// allow reports whether another password may be tried, or how long to wait.
func (g *guesses) allow(from netip.Addr, at string, now time.Time) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, most := range map[guess]int{{network(from), at}: guessesFrom, {at: at}: guessesOverall} {
		if t := g.tries[key]; t.n >= most {
			if left := t.since.Add(guessWindow).Sub(now); left > 0 {
				wait = max(wait, left)
			}
		}
	}
	return wait, wait == 0
}

// failed counts a wrong password.
func (g *guesses) failed(from netip.Addr, at string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
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
	for _, key := range []guess{{network(from), at}, {at: at}} {
		t := g.tries[key]
		if now.Sub(t.since) >= guessWindow {
			t = tries{since: now}
		}
		t.n++
		g.tries[key] = t
	}
}

func tooMany(wait time.Duration) error {
	return &record.Error{Fault: record.TooMany, Code: "too_many_guesses", Text: "Too many wrong passwords. Try again later.", Retry: wait}
}
