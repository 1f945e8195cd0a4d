// Package limit keeps a few clients from taking everything that the server has for all.
package limit

import "net/netip"

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
	fewest = 8  // places that any network may have
	keptOf = 20 // one place of so many is kept for familiar networks
)

// Places shares a number of places among networks. A place that nobody has is always for
// the one who asks next. If there is none, the network that has most gives up one of its own.
//
// The zero prefix stands for clients that cannot be told apart, such as those behind a
// trusted proxy. They have any number of places, and give up none that is in use.
//
// Its methods must not be called at the same time.
type Places[T comparable] struct {
	All  int // places in all
	Each int // places of one network at most; fewer while most places are taken

	taken    map[T]*place
	of       map[netip.Prefix]*network
	familiar int // places of familiar networks
	last     uint64
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

// Enter takes a place. familiar says that somebody has signed in from the network before.
// If too many places are taken, loser is the one that loses its place, possibly who itself,
// and the caller must end it.
func (p *Places[T]) Enter(who T, from netip.Prefix, familiar bool, stage Stage) (loser T, full bool) {
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
	case from.IsValid() && n.places > p.share(n):
		loser, full = p.worst(func(other *place) bool { return other.of == n && other.stage != Working })
	case len(p.taken) > p.All:
		kept := p.familiar <= p.All/keptOf // the places of familiar networks
		loser, full = p.worst(func(other *place) bool {
			return !(kept && other.of.familiar) && (other.of.prefix.IsValid() || other.stage != Working)
		})
		if !full { // all that is left belongs to proxies and to familiar networks
			loser, full = who, true
		}
	}
	entered.stage = stage
	if full {
		p.Leave(loser)
	}
	return loser, full
}

// share is how many places the network may have. It shrinks when more than half of all are
// taken, but not for a familiar network.
func (p *Places[T]) share(n *network) int {
	if n.familiar {
		return p.Each
	}
	free := p.All - len(p.taken)
	return min(p.Each, max(fewest, 2*p.Each*free/p.All))
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
	n := 0
	for _, l := range p.taken {
		if l.stage == stage {
			n++
		}
	}
	return n
}
