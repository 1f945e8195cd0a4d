package limit

import (
	"context"
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/matryer/is"

	"kist/kv/record"
)

// memory is one that knows the networks 10.0.0.0/8 from sign-ins.
func memory() *Memory { return newMemory(netip.MustParsePrefix("10.0.0.0/8").Overlaps) }

const (
	known = 10 << 24 // addresses from here on are familiar
	body  = 16 << 10 // a body that a stranger may send
)

// visitor is what a request of a visitor holds.
func visitor(m *Memory, address uint32) *Held {
	from := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, address)))
	h := m.Begin(Holder{Network: Network(from)})
	return &h
}

// Long requests have half of the memory, and short ones the other. One caller gets a part of each, and
// strangers leave a part to others.
func TestMemoryShares(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	most, part := mostOfOne.long, mostOfStranger.long
	type taken struct {
		caller string // an account, a familiar visitor or a stranger, and a number
		n      int64
		got    bool
	}
	for name, all := range map[string][]taken{
		"a part for one": {
			{"visitor 1", most, true},
			{"visitor 1", shortHeld + 1, false},
			{"visitor 2", 8 * mib, true},
			{"account 1", mib, false},
		},
		"too much": {{"visitor 1", most + 1, false}, {"account 1", most + 1, false}, {"account 1", most, true}},
		"in parts": {
			{"account 1", most - mib, true},
			{"account 1", mib, true},
			{"account 1", shortHeld + 1, false},
			{"account 2", mib, true},
		},
		"short ones": {
			{"visitor 1", most, true},
			{"visitor 2", 8 * mib, true},
			{"visitor 1", shortHeld, true},
			{"account 1", shortHeld, true},
			{"visitor 3", mib, false},
		},
		"a stranger": {
			{"stranger 1", part + 1, false},
			{"stranger 1", part, true},
			{"stranger 1", shortHeld + 1, false},
			{"visitor 1", 16 * mib, true},
		},
		"all strangers": {
			{"stranger 1", part, true},
			{"stranger 2", 8 * mib, true},
			{"stranger 3", shortHeld + 1, false},
			{"stranger 3", shortHeld, true},
			{"account 1", 8 * mib, true},
		},
		"strangers after most": {
			{"account 1", most, true}, {"stranger 1", 8 * mib, true}, {"stranger 2", shortHeld + 1, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := memory()
			var held []*Held
			for _, one := range all {
				kind, number, _ := strings.Cut(one.caller, " ")
				n, err := strconv.Atoi(number)
				is.NoErr(err)
				var c *Held
				switch kind {
				case "account":
					h := m.Begin(Holder{Account: record.ID{byte(n)}})
					c = &h
				case "visitor":
					c = visitor(m, known+uint32(n))
				default:
					c = visitor(m, uint32(n))
				}
				is.Equal(c.TryGrow(one.n), one.got)
				held = append(held, c)
			}
			for _, c := range held {
				c.End()
			}
			is.Equal(m.all, amounts{})
			is.Equal(m.strangers, amounts{})
			is.Equal(len(m.shares), 0)
		})
	}
}

// What does not grow may be above the limit, because answers to changes are held anyway.
func TestAmountsMayGrow(t *testing.T) {
	t.Parallel()
	limit := amounts{short: 10, long: 100, queued: 2, making: 1}
	for name, row := range map[string]struct {
		some, more amounts
		may        bool
	}{
		"nothing":              {amounts{}, amounts{}, true},
		"up to the limit":      {amounts{short: 4}, amounts{short: 6}, true},
		"above it":             {amounts{short: 4}, amounts{short: 7}, false},
		"another is above":     {amounts{long: 101}, amounts{short: 10}, true},
		"from short to long":   {amounts{short: 10, long: 50}, amounts{short: -5, long: 50}, true},
		"from short to longer": {amounts{short: 10, long: 50}, amounts{short: -5, long: 51}, false},
		"one more is queued":   {amounts{queued: 2}, amounts{queued: 1}, false},
		"one more is made":     {amounts{queued: 2}, amounts{making: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is.New(t).Equal(row.some.mayGrow(row.more, limit), row.may)
		})
	}
}

// A holder keeps what it has if somebody signs in from its network meanwhile.
func TestMemoryOfANetworkThatBecomesFamiliar(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	familiar := false
	m := newMemory(func(netip.Prefix) bool { return familiar })
	before := visitor(m, 1)
	is.True(before.TryGrow(LongOfStranger))
	familiar = true
	after := visitor(m, 1)
	is.True(after.TryGrow(LongOfStranger))
	before.End()
	after.End()
	is.Equal(m.strangers, amounts{})
	is.Equal(len(m.shares), 0)
}

// A request that grows is counted where it belongs.
func TestMemoryOfGrowing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := memory()
	c := visitor(m, 1)
	is.True(c.TryGrow(shortHeld))
	is.Equal(m.all, amounts{short: shortHeld})
	is.True(c.TryGrow(1))
	is.Equal(m.all, amounts{long: shortHeld + 1})
	c.Set(5)
	is.Equal(m.all, amounts{short: 5})
	c.Set(MemoryBytes)
	is.Equal(m.all, amounts{long: MemoryBytes})
	c.End()
	is.Equal(m.all, amounts{})
}

// While strangers hold all long answers that they may, and one body for each request that there may be, another
// one signs in, and others get long answers.
func TestMemoryForAnother(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := memory()
	for n := int64(MemoryBytes); n > shortHeld; n /= 2 {
		for network := range uint32(20) {
			c := visitor(m, network)
			for c.TryGrow(n) {
				c = visitor(m, network)
			}
		}
	}
	for i := range uint32(1800) {
		c := visitor(m, i/100)
		is.True(c.TryGrow(body))
	}
	c := visitor(m, 1000)
	is.True(c.TryGrow(body))

	for got, i := true, uint32(2000); got; i++ {
		c := visitor(m, i)
		got = c.TryGrow(shortHeld)
	}
	for _, address := range []uint32{known, known + 1} {
		c = visitor(m, address)
		is.True(c.TryGrow(body))
		c = visitor(m, address)
		is.True(c.TryGrow(4 << 20))
	}
}

// A request that finds no memory waits, until its context ends or there is some. A short request passes a long one.
func TestMemoryWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m := memory()
		first := visitor(m, 1)
		is.True(first.TryGrow(mostOfStranger.long))
		late := visitor(m, 1)
		ctx, cancel := context.WithTimeout(t.Context(), MemoryWait)
		defer cancel()
		is.True(!late.Grow(ctx, 1<<20))
		is.Equal(late.Bytes(), int64(0))

		got := make(chan bool)
		go func() { got <- late.Grow(t.Context(), 1<<20) }()
		synctest.Wait()
		short := visitor(m, 1)
		is.True(short.TryGrow(shortHeld))
		first.Set(mostOfStranger.long - 1<<20)
		is.True(<-got)

		for _, c := range []*Held{first, late, short} {
			c.End()
		}
		is.Equal(m.all, amounts{})
		is.Equal(m.waiting.Len(), 0)
	})
}

// A hundred requests of each of some networks do not stand in front of another's one. Strangers leave others a
// place where answers are made.
func TestQueueOfOneCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m := memory()
		made, turn := make(chan uint32), make(chan struct{})
		begin := func(address uint32) {
			c := visitor(m, address)
			go func() {
				if c.TryMaking() || c.AwaitMaking(context.Background()) {
					<-turn
					made <- address
					c.EndMaking()
				}
			}()
			synctest.Wait()
		}
		for range 100 {
			begin(1)
		}
		is.Equal(m.all, amounts{queued: 2, making: 2})
		for _, address := range []uint32{2, 3} {
			for range 100 {
				begin(address)
			}
		}
		is.Equal(m.all, amounts{queued: 6, making: 3})
		begin(known)
		is.Equal(m.all, amounts{queued: 7, making: 4})
		begin(4)

		seen := 0
		for range 5*2 + 1 {
			turn <- struct{}{}
			if <-made == 4 {
				seen++
			}
			synctest.Wait()
		}
		is.Equal(seen, 1)
		for range 302 - 5*2 - 1 {
			turn <- struct{}{}
			<-made
		}
		synctest.Wait()
		is.Equal(m.all, amounts{})
	})
}
