package web

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/matryer/is"

	"kist/kv/people"
	"kist/kv/record"
)

// visitorFrom is a request of a visitor. What is answered is in its recorder.
func visitorFrom(s *Site, method string, address uint32) (*Request, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	c := &Request{
		Site: s, R: httptest.NewRequest(method, "/", nil),
		Addr: netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, address))),
		W:    &AnswerWriter{ResponseWriter: w, Ctl: http.NewResponseController(w)},
	}
	return c, w
}

// memory is one that knows the networks 10.0.0.0/8 from sign-ins.
func memory() *Memory {
	return NewMemory(netip.MustParsePrefix("10.0.0.0/8").Overlaps)
}

const known = 10 << 24 // addresses from here on are familiar

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
		"a part for one":       {{"visitor 1", most, true}, {"visitor 1", shortHeld + 1, false}, {"visitor 2", 8 * mib, true}, {"account 1", mib, false}},
		"too much":             {{"visitor 1", most + 1, false}, {"account 1", most + 1, false}, {"account 1", most, true}},
		"in parts":             {{"account 1", most - mib, true}, {"account 1", mib, true}, {"account 1", shortHeld + 1, false}, {"account 2", mib, true}},
		"short ones":           {{"visitor 1", most, true}, {"visitor 2", 8 * mib, true}, {"visitor 1", shortHeld, true}, {"account 1", shortHeld, true}, {"visitor 3", mib, false}},
		"a stranger":           {{"stranger 1", part + 1, false}, {"stranger 1", part, true}, {"stranger 1", shortHeld + 1, false}, {"visitor 1", 16 * mib, true}},
		"all strangers":        {{"stranger 1", part, true}, {"stranger 2", 8 * mib, true}, {"stranger 3", shortHeld + 1, false}, {"stranger 3", shortHeld, true}, {"account 1", 8 * mib, true}},
		"strangers after most": {{"account 1", most, true}, {"stranger 1", 8 * mib, true}, {"stranger 2", shortHeld + 1, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := &Site{Memory: memory()}
			var held []*Request
			for _, one := range all {
				kind, number, _ := strings.Cut(one.caller, " ")
				n, err := strconv.Atoi(number)
				is.NoErr(err)
				c, _ := visitorFrom(s, "GET", uint32(n))
				switch kind {
				case "account":
					c.Caller = &people.Caller{User: people.User{ID: record.ID{byte(n)}}}
				case "visitor":
					c, _ = visitorFrom(s, "GET", known+uint32(n))
				}
				is.Equal(c.TryHold(one.n), one.got)
				held = append(held, c)
			}
			for _, c := range held {
				c.ReleaseMemory()
			}
			is.Equal(s.Memory.all, amounts{})
			is.Equal(s.Memory.strangers, amounts{})
			is.Equal(len(s.Memory.shares), 0)
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
	s := &Site{Memory: NewMemory(func(netip.Prefix) bool { return familiar })}
	before, _ := visitorFrom(s, "GET", 1)
	is.True(before.TryHold(LongOfStranger))
	familiar = true
	after, _ := visitorFrom(s, "GET", 1)
	is.True(after.TryHold(LongOfStranger))
	before.ReleaseMemory()
	after.ReleaseMemory()
	is.Equal(s.Memory.strangers, amounts{})
	is.Equal(len(s.Memory.shares), 0)
}

// A request that grows is counted where it belongs.
func TestMemoryOfGrowing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := &Site{Memory: memory()}
	c, _ := visitorFrom(s, "GET", 1)
	is.True(c.TryHold(shortHeld))
	is.Equal(s.Memory.all, amounts{short: shortHeld})
	is.True(c.TryHold(1))
	is.Equal(s.Memory.all, amounts{long: shortHeld + 1})
	c.HoldOnly(5)
	is.Equal(s.Memory.all, amounts{short: 5})
	c.holdAnyway(MemoryBytes)
	is.Equal(s.Memory.all, amounts{long: MemoryBytes})
	c.ReleaseMemory()
	is.Equal(s.Memory.all, amounts{})
}

// While strangers hold all long answers that they may, and one body for each request that there may be, another
// one signs in, and others get long answers.
func TestMemoryForAnother(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := &Site{Memory: memory()}
	for n := int64(MemoryBytes); n > shortHeld; n /= 2 {
		for network := range uint32(20) {
			c, _ := visitorFrom(s, "GET", network)
			for c.TryHold(n) {
				c, _ = visitorFrom(s, "GET", network)
			}
		}
	}
	for i := range uint32(1800) {
		c, _ := visitorFrom(s, "POST", i/100)
		is.True(c.TryHold(anonymousBody))
	}
	c, _ := visitorFrom(s, "POST", 1000)
	is.True(c.TryHold(anonymousBody))

	for got, i := true, uint32(2000); got; i++ {
		c, _ := visitorFrom(s, "POST", i)
		got = c.TryHold(shortHeld)
	}
	for _, address := range []uint32{known, known + 1} {
		c, _ = visitorFrom(s, "POST", address)
		is.True(c.TryHold(anonymousBody))
		c, _ = visitorFrom(s, "GET", address)
		is.True(c.TryHold(4 << 20))
	}
}

// A request that finds no memory waits, and is told to try again. A short request passes a long one.
func TestMemoryWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Memory: memory()}
		first, _ := visitorFrom(s, "GET", 1)
		is.NoErr(first.Hold(mostOfStranger.long))
		late, _ := visitorFrom(s, "GET", 1)
		is.Equal(late.Hold(1<<20), errBusy)
		is.Equal(late.held.n, int64(0))

		done := make(chan error)
		go func() { done <- late.Hold(1 << 20) }()
		synctest.Wait()
		short, _ := visitorFrom(s, "GET", 1)
		is.NoErr(short.Hold(shortHeld))
		first.HoldOnly(mostOfStranger.long - 1<<20)
		is.NoErr(<-done)

		for _, c := range []*Request{first, late, short} {
			c.ReleaseMemory()
		}
		is.Equal(s.Memory.all, amounts{})
		is.Equal(s.Memory.waiting.Len(), 0)
	})
}

// An answer for which there is no memory is given up and made again when there is. One that tells what was
// changed is sent in any case. Both are held while they are sent, and nothing else is.
func TestAnswersAreHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Memory: memory()}
		other, _ := visitorFrom(s, "GET", 1)
		is.NoErr(other.Hold(mostOfStranger.long))
		const size = 1 << 20
		made := 0
		write := func(dst []byte) ([]byte, error) {
			made++
			return append(dst, strings.Repeat("x", size)...), nil
		}
		answer := func(method string) (*Request, *httptest.ResponseRecorder, error) {
			c, w := visitorFrom(s, method, 1)
			return c, w, c.Respond(http.StatusOK, write)
		}

		_, w, err := answer("GET")
		is.Equal(err, errBusy)
		is.Equal(w.Body.Len(), 0)
		is.Equal(made, 1)

		c, w, err := answer("POST")
		is.NoErr(err)
		is.Equal(w.Body.Len(), size)
		is.Equal(c.held.n, int64(size))
		c.ReleaseMemory()

		done := make(chan error)
		made = 0
		go func() {
			c, w, err := answer("GET")
			if err == nil && (w.Body.Len() != size || c.held.n != size || made != 2) {
				t.Errorf("%d bytes, %d held, made %d times", w.Body.Len(), c.held.n, made)
			}
			c.ReleaseMemory()
			done <- err
		}()
		synctest.Wait()
		other.ReleaseMemory()
		is.NoErr(<-done)
		is.Equal(s.Memory.all, amounts{})
	})
}

// A few answers are made at a time. A change waits for none of them.
func TestFewAnswersAreMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Memory: memory()}
		end := make(chan struct{})
		for i := range uint32(mostOfAll.making) {
			c, _ := visitorFrom(s, "GET", known+i/2)
			go func() { _ = c.Making(func() error { <-end; return nil }) }()
		}
		synctest.Wait()
		short := func(dst []byte) ([]byte, error) { return append(dst, "{}"...), nil }
		c, _ := visitorFrom(s, "GET", known+9)
		is.Equal(c.Respond(http.StatusOK, short), errBusy)
		c, _ = visitorFrom(s, "POST", known+9)
		is.NoErr(c.Respond(http.StatusOK, short))
		close(end)
		c, _ = visitorFrom(s, "GET", known+9)
		is.NoErr(c.Respond(http.StatusOK, short))
	})
}

// A hundred requests of each of some networks do not stand in front of another's one. Strangers leave others a
// place where answers are made.
func TestQueueOfOneCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Memory: memory()}
		made, turn := make(chan uint32), make(chan struct{})
		begin := func(address uint32) {
			c, _ := visitorFrom(s, "GET", address)
			c.W.Status = http.StatusOK // it waits as long as it takes
			go func() {
				_ = c.Making(func() error {
					<-turn
					made <- address
					return nil
				})
			}()
			synctest.Wait()
		}
		for range 100 {
			begin(1)
		}
		is.Equal(s.Memory.all, amounts{queued: 2, making: 2})
		for _, address := range []uint32{2, 3} {
			for range 100 {
				begin(address)
			}
		}
		is.Equal(s.Memory.all, amounts{queued: 6, making: 3})
		begin(known)
		is.Equal(s.Memory.all, amounts{queued: 7, making: 4})
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
		is.Equal(s.Memory.all, amounts{})
	})
}

// The fields of a form and a body are held as they arrive. A visitor has few of them.
func TestReadBodyIsHeld(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		known  bool
		length int
		fails  bool
	}{
		{"of a visitor", false, anonymousBody, false},
		{"of a visitor, too long", false, anonymousBody + 1, true},
		{"of a user", true, 1 << 20, false},
		{"of a user, too long", true, 1<<20 + 1, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := &Site{Memory: memory()}
			c, _ := visitorFrom(s, "POST", 1)
			if row.known {
				c.Caller = &people.Caller{User: people.User{ID: record.ID{1}}}
			}
			c.R = httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", row.length)))
			c.R.ContentLength = -1
			data, err := c.ReadBody(1 << 20)
			is.Equal(err != nil, row.fails)
			if err == nil {
				is.Equal(len(data), row.length)
				is.True(c.held.n >= int64(row.length))
			}
			c.ReleaseMemory()
			is.Equal(s.Memory.all, amounts{})
		})
	}
}
