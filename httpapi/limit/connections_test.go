package limit

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/matryer/is"
)

// net4 is the network of the n-th address.
func net4(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(n >> 16), byte(n >> 8), byte(n)}), 32)
}

var proxy netip.Prefix

type client struct {
	name     string
	from     netip.Prefix
	familiar bool
	stage    Stage
}

// several clients of one network have asked for something.
func several(from netip.Prefix, n int) (all []client) {
	for i := range n {
		all = append(all, client{fmt.Sprint(from.Addr(), " ", i+1), from, false, Working})
	}
	return all
}

// TestPlacesLoser: who gives up a place if one more comes.
func TestPlacesLoser(t *testing.T) {
	t.Parallel()
	a, b, c, d, e := net4(1), net4(2), net4(3), net4(4), net4(5)
	for name, row := range map[string]struct {
		all, each int
		there     []client
		comes     client
		loser     string // "" if nobody
	}{
		"there is room": {3, 2, []client{{"a1", a, false, Silent}}, client{"b1", b, false, Silent}, ""},
		"of the network with most": {
			3, 9,
			[]client{{"b1", b, false, Silent}, {"a1", a, false, Working}, {"a2", a, false, Working}},
			client{"c1", c, false, Silent},
			"a2",
		},
		"the silent one first": {
			3, 9,
			[]client{{"a1", a, false, Idle}, {"a2", a, false, Working}, {"a3", a, false, Silent}},
			client{"b1", b, false, Silent},
			"a3",
		},
		"then the idle one": {
			3, 9,
			[]client{{"a1", a, false, Working}, {"a2", a, false, Idle}, {"b1", b, false, Silent}},
			client{"c1", c, false, Silent},
			"a2",
		},
		"the oldest silent one": {
			3, 9,
			[]client{{"a1", a, false, Silent}, {"a2", a, false, Silent}, {"b1", b, false, Silent}},
			client{"c1", c, false, Silent},
			"a1",
		},
		"the newest at work": {
			2, 9, []client{{"a1", a, false, Working}, {"a2", a, false, Working}}, client{"b1", b, false, Silent}, "a2",
		},
		"as many each: the oldest silent": {
			2, 9, []client{{"a1", a, false, Silent}, {"b1", b, false, Silent}}, client{"c1", c, false, Silent}, "a1",
		},
		"as many each, at work: who comes": {
			2, 9, []client{{"a1", a, false, Working}, {"b1", b, false, Working}}, client{"c1", c, false, Silent}, "c1",
		},
		"who comes has most": {
			2, 9, []client{{"a1", a, false, Working}, {"a2", a, false, Working}}, client{"a3", a, false, Silent}, "a3",
		},
		"a full share: the oldest silent": {
			99, 2, []client{{"a1", a, false, Silent}, {"a2", a, false, Silent}}, client{"a3", a, false, Silent}, "a1",
		},
		"a full share: the longest idle": {
			99, 2, []client{{"a1", a, false, Working}, {"a2", a, false, Idle}}, client{"a3", a, false, Silent}, "a2",
		},
		"a full share at work: who comes": {
			99, 2, []client{{"a1", a, false, Working}, {"a2", a, false, Working}}, client{"a3", a, false, Working}, "a3",
		},
		"a proxy has no share": {
			99, 2, []client{{"p1", proxy, false, Working}, {"p2", proxy, false, Idle}}, client{"p3", proxy, false, Silent}, "",
		},
		"a proxy gives up what is idle": {
			2, 9, []client{{"p1", proxy, false, Working}, {"p2", proxy, false, Idle}}, client{"p3", proxy, false, Silent}, "p2",
		},
		"a proxy keeps what is at work": {
			2, 9,
			[]client{{"p1", proxy, false, Working}, {"p2", proxy, false, Working}},
			client{"p3", proxy, false, Silent},
			"p3",
		},
		"a proxy at work, and somebody else": {
			3, 9,
			[]client{{"p1", proxy, false, Working}, {"p2", proxy, false, Working}, {"a1", a, false, Working}},
			client{"p3", proxy, false, Silent},
			"p3",
		},
		"a proxy keeps all from who comes": {
			2, 9, []client{{"p1", proxy, false, Working}, {"p2", proxy, false, Working}}, client{"a1", a, false, Silent}, "a1",
		},
		"a familiar network keeps its places": {
			20, 20, slices.Concat(several(a, 8), several(b, 8), []client{{"c1", c, true, Silent}}, several(d, 3)),
			client{"e1", e, false, Silent},
			"127.0.0.2 8",
		},
		"a familiar network comes when all are at work": {
			20, 20, slices.Concat(several(a, 5), several(b, 5), several(c, 5), several(d, 5)),
			client{"e1", e, true, Silent},
			"127.0.0.4 5",
		},
		"familiar networks with more than is kept": {
			3, 9, []client{
				{"a1", a, true, Silent}, {"b1", b, false, Working}, {"b2", b, false, Working},
			}, client{"a2", a, true, Silent}, "a1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := Places[string]{all: row.all, each: row.each}
			for _, there := range row.there {
				_, full := p.enter(there.name, there.from, there.familiar, there.stage)
				is.True(!full)
			}
			loser, full := p.enter(row.comes.name, row.comes.from, row.comes.familiar, row.comes.stage)
			is.Equal(full, row.loser != "")
			is.Equal(loser, row.loser)
		})
	}
}

// TestPlacesStrangers: however many networks dial again whenever they are cut off, and whatever
// they do with their places, a newcomer gets one and has the time to use it.
func TestPlacesStrangers(t *testing.T) {
	t.Parallel()
	const meanwhile = 399 // dials of the others in the five seconds for the head of a request
	for _, row := range []struct{ networks, each, newcomers int }{
		{4, 100, 8}, {20, 100, 8}, {200, 2, 1}, {399, 1, 1},
	} {
		for _, stage := range []Stage{Silent, Idle, Working} {
			for _, familiar := range []bool{false, true} {
				if row.networks == 399 && stage != Silent && !familiar {
					continue // everybody has one place and uses it
				}
				t.Run(fmt.Sprint(row.networks, " of ", row.each, " at ", stage, " familiar ", familiar), func(t *testing.T) {
					t.Parallel()
					is := is.New(t)
					p := Places[int]{all: 400, each: 100}
					ours, lost, dialled := map[int]bool{}, 0, 0
					dial := func() {
						dialled++
						loser, full := p.enter(dialled, net4(1+dialled%row.networks), false, Silent)
						if full && ours[loser] {
							lost++
						}
						p.Set(dialled, stage)
					}
					for range row.networks * row.each {
						dial()
					}

					for i := range row.newcomers {
						ours[-1-i] = true
						loser, full := p.enter(-1-i, net4(0), familiar, Silent)
						is.True(!full || !ours[loser])
					}
					for range meanwhile {
						dial()
					}

					is.Equal(lost, 0)
					is.True(len(p.taken) <= p.all)
				})
			}
		}
	}
}

// TestPlacesCounts takes and gives up places at random and compares what is counted with
// what is there.
func TestPlacesCounts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	random := rand.New(rand.NewPCG(1, 2))
	p := Places[int]{all: 50, each: 12}
	there := map[int]netip.Prefix{}
	for who := range 20_000 {
		from := proxy
		if random.IntN(5) > 0 {
			from = net4(random.IntN(9))
		}
		there[who] = from
		if loser, full := p.enter(who, from, from == net4(0), Stage(random.IntN(2))*Working); full {
			_, known := there[loser]
			is.True(known)
			delete(there, loser)
		}
		for other := range there {
			switch random.IntN(40) {
			case 0:
				p.Leave(other)
				p.Leave(other)
				delete(there, other)
			case 1:
				p.Set(other, Idle)
			}
		}

		of, familiar := map[netip.Prefix]int{}, 0
		for who, from := range there {
			is.True(p.taken[who] != nil)
			of[from]++
			if from == net4(0) {
				familiar++
			}
		}
		is.Equal(len(p.taken), len(there))
		is.Equal(len(p.of), len(of))
		is.Equal(p.familiar, familiar)
		is.True(len(there) <= p.all)
		for from, n := range of {
			is.Equal(p.of[from].places, n)
			is.True(!from.IsValid() || n <= p.each)
		}
	}
}
