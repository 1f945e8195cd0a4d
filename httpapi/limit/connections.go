package limit

import (
	"net/netip"
	"sync"
)

// A Stage is how far a place has been used. If one of a network's places must be given up, it is
// one of the lowest stage.
type Stage uint8

const (
	Silent Stage = iota // the client has not asked for anything
	Idle                // the client has got its answer
	newest              // the place that was just taken: nothing is lost yet
	Working
)

const (
	// MaxConnections is the default maximum number of connections.
	MaxConnections = 2000

	// OfNetwork is how many connections, and how many requests in progress, one network may have.
	OfNetwork = 100

	fewest = 8  // places that any network may have
	keptOf = 20 // one place of so many is kept for familiar networks
)

// Places shares a number of places among networks. A place that nobody has is always for
// the one who asks next. If there is none, the network that has most gives up one of its own.
//
// The zero prefix stands for clients that cannot be told apart, such as those behind a
// trusted proxy. They have any number of places, and give up none that is in use.
//
// All methods may be called at the same time.
type Places[T comparable] struct {
	all  int     // places in all
	each int     // places of one network at most; fewer while most places are taken
	end  func(T) // ends who has lost a place, while the lock is held

	mu       sync.Mutex
	taken    map[T]*place
	of       map[netip.Prefix]*network
	familiar int // places of familiar networks
	last     uint64
}

// ForConnections makes the places of so many connections. They count for their peers. end
// closes one; it must not call the places.
func ForConnections[T comparable](n int, end func(T)) *Places[T] {
	return &Places[T]{all: n, each: OfNetwork, end: end}
}

// ForRequests makes the places of requests in progress on so many connections. They count for
// the clients whom trusted proxies name, so that one client behind a proxy cannot take
// everything either. Some connections are left without a request, so that a newcomer behind a
// proxy finds one that may be closed. end cuts a request off; it must not call the places.
func ForRequests[T comparable](connections int, end func(T)) *Places[T] {
	return &Places[T]{all: connections - connections/10, each: OfNetwork, end: end}
}

type place struct {
	of    *network
	stage Stage
	since uint64 // when the stage began, by Places.last
}

type network struct {
	prefix   netip.Prefix
	familiar bool
	places   int
}

// Enter takes a place, and reports whether who has got one. familiar says that somebody has
// signed in from the network before. If too many places are taken, another may lose its place
// instead. That one is ended while its Leave waits, so what comes after it, such as the next
// request on its connection, is never hit.
func (p *Places[T]) Enter(who T, from netip.Prefix, familiar bool, stage Stage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	loser, full := p.enter(who, from, familiar, stage)
	if full && loser == who {
		return false
	}
	if full {
		p.end(loser)
	}
	return true
}

// enter takes a place. If too many are taken, loser is the one that has lost its place, possibly
// who itself. The caller holds mu.
func (p *Places[T]) enter(who T, from netip.Prefix, familiar bool, stage Stage) (loser T, full bool) {
	if p.taken == nil {
		p.taken, p.of = map[T]*place{}, map[netip.Prefix]*network{}
	}
	n := p.of[from]
	if n == nil {
		n = &network{prefix: from, familiar: familiar}
		p.of[from] = n
	}
	n.places++
	if n.familiar {
		p.familiar++
	}
	entered := &place{of: n}
	p.taken[who] = entered
	p.set(entered, newest)

	switch {
	case from.IsValid() && n.places > p.most(n):
		loser, full = p.worst(func(other *place) bool { return other.of == n && other.stage != Working })
	case len(p.taken) > p.all:
		kept := p.familiar <= p.all/keptOf // the places of familiar networks
		loser, full = p.worst(func(other *place) bool {
			return !(kept && other.of.familiar) && (other.of.prefix.IsValid() || other.stage != Working)
		})
		if !full { // all that is left belongs to proxies and to familiar networks
			loser, full = who, true
		}
	}
	entered.stage = stage
	if full {
		p.leave(loser)
	}
	return loser, full
}

// most is how many places the network may have. It shrinks when more than half of all are
// taken, but not for a familiar network.
func (p *Places[T]) most(n *network) int {
	if n.familiar {
		return p.each
	}
	free := p.all - len(p.taken)
	return min(p.each, max(fewest, 2*p.each*free/p.all))
}

// worst is the place to give up among those that may be: of the network that has most, of
// the lowest stage, and the oldest of these. Of places at work it is the newest, on which least
// was done.
func (p *Places[T]) worst(may func(*place) bool) (loser T, found bool) {
	var worst *place
	for who, other := range p.taken {
		if may(other) && (worst == nil || other.before(worst)) {
			loser, worst = who, other
		}
	}
	return loser, worst != nil
}

func (l *place) before(m *place) bool {
	switch {
	case l.of.places != m.of.places:
		return l.of.places > m.of.places
	case l.stage != m.stage:
		return l.stage < m.stage
	case l.stage == Working:
		return l.since > m.since
	}
	return l.since < m.since
}

// Set says how far a place has come. It does nothing if the place was given up.
func (p *Places[T]) Set(who T, stage Stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if place := p.taken[who]; place != nil {
		p.set(place, stage)
	}
}

func (p *Places[T]) set(l *place, stage Stage) {
	p.last++
	l.stage, l.since = stage, p.last
}

// Leave gives up a place. It does nothing if it was given up before.
func (p *Places[T]) Leave(who T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(who)
}

func (p *Places[T]) leave(who T) {
	l := p.taken[who]
	if l == nil {
		return
	}
	delete(p.taken, who)
	l.of.places--
	if l.of.familiar {
		p.familiar--
	}
	if l.of.places == 0 {
		delete(p.of, l.of.prefix)
	}
}

// Count is how many places are at the stage.
func (p *Places[T]) Count(stage Stage) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, l := range p.taken {
		if l.stage == stage {
			n++
		}
	}
	return n
}
