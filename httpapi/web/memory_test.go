package web

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"net/netip"
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

// Long requests have half of the memory, and short ones the other. One caller gets a part of each.
func TestMemoryShares(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	type taken struct {
		caller byte // even ones are accounts, odd ones visitors
		n      int64
		got    bool
	}
	for name, all := range map[string][]taken{
		"a part for one": {{1, longOfOne, true}, {1, shortHeld + 1, false}, {3, 8 * mib, true}, {2, mib, false}},
		"too much":       {{1, longOfOne + 1, false}, {2, longOfOne + 1, false}, {2, longOfOne, true}},
		"in parts":       {{2, longOfOne - mib, true}, {2, mib, true}, {2, shortHeld + 1, false}, {4, mib, true}},
		"short ones":     {{1, longOfOne, true}, {3, 8 * mib, true}, {1, shortHeld, true}, {2, shortHeld, true}, {5, mib, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := &Site{Memory: NewMemory()}
			var held []*Request
			for _, one := range all {
				c, _ := visitorFrom(s, "GET", uint32(one.caller))
				if one.caller%2 == 0 {
					c.Caller = &people.Caller{User: record.User{ID: record.ID{one.caller}}}
				}
				is.Equal(c.TryHold(one.n), one.got)
				held = append(held, c)
			}
			for _, c := range held {
				c.ReleaseMemory()
			}
			is.Equal(s.Memory.all, halves{})
			is.Equal(len(s.Memory.of), 0)
		})
	}
}

// A request that grows is counted where it belongs.
func TestMemoryOfGrowing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := &Site{Memory: NewMemory()}
	c, _ := visitorFrom(s, "GET", 1)
	is.True(c.TryHold(shortHeld))
	is.Equal(s.Memory.all, halves{short: shortHeld})
	is.True(c.TryHold(1))
	is.Equal(s.Memory.all, halves{long: shortHeld + 1})
	c.HoldOnly(5)
	is.Equal(s.Memory.all, halves{short: 5})
	c.holdAnyway(MemoryBytes)
	is.Equal(s.Memory.all, halves{long: MemoryBytes})
	c.ReleaseMemory()
	is.Equal(s.Memory.all, halves{})
}

// While clients hold all long answers that there may be, and one short request on each connection that there may be,
// another one signs in.
func TestMemoryForAnother(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := &Site{Memory: NewMemory()}
	for n := int64(MemoryBytes); n > shortHeld; n /= 2 {
		for network := range uint32(20) {
			c, _ := visitorFrom(s, "GET", network)
			for c.TryHold(n) {
				c, _ = visitorFrom(s, "GET", network)
			}
		}
	}
	for i := range uint32(2000) {
		c, _ := visitorFrom(s, "POST", i/100)
		is.True(c.TryHold(anonymousBody))
	}
	c, _ := visitorFrom(s, "POST", 1000)
	is.True(c.TryHold(anonymousBody))
}

// A request that finds no memory waits, and is told to try again. A short request passes a long one.
func TestMemoryWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Memory: NewMemory()}
		first, _ := visitorFrom(s, "GET", 1)
		is.NoErr(first.Hold(longOfOne))
		late, _ := visitorFrom(s, "GET", 1)
		is.Equal(late.Hold(1<<20), errBusy)
		is.Equal(late.held.n, int64(0))

		done := make(chan error)
		go func() { done <- late.Hold(1 << 20) }()
		synctest.Wait()
		short, _ := visitorFrom(s, "GET", 1)
		is.NoErr(short.Hold(shortHeld))
		first.HoldOnly(longOfOne - 1<<20)
		is.NoErr(<-done)

		for _, c := range []*Request{first, late, short} {
			c.ReleaseMemory()
		}
		is.Equal(s.Memory.all, halves{})
		is.Equal(s.Memory.waiting.Len(), 0)
	})
}

// An answer for which there is no memory is given up and made again when there is. One that tells what was
// changed is sent in any case. Both are held while they are sent, and nothing else is.
func TestAnswersAreHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Memory: NewMemory()}
		other, _ := visitorFrom(s, "GET", 1)
		is.NoErr(other.Hold(longOfOne))
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
		is.Equal(s.Memory.all, halves{})
	})
}

// A few answers are made at a time. A change waits for none of them.
func TestFewAnswersAreMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Memory: NewMemory()}
		end := make(chan struct{})
		for range makers {
			c, _ := visitorFrom(s, "GET", 1)
			go func() { _ = c.Making(func() error { <-end; return nil }) }()
		}
		synctest.Wait()
		short := func(dst []byte) ([]byte, error) { return append(dst, "{}"...), nil }
		c, _ := visitorFrom(s, "GET", 2)
		is.Equal(c.Respond(http.StatusOK, short), errBusy)
		c, _ = visitorFrom(s, "POST", 2)
		is.NoErr(c.Respond(http.StatusOK, short))
		close(end)
		c, _ = visitorFrom(s, "GET", 2)
		is.NoErr(c.Respond(http.StatusOK, short))
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
			s := &Site{Memory: NewMemory()}
			c, _ := visitorFrom(s, "POST", 1)
			if row.known {
				c.Caller = &people.Caller{User: record.User{ID: record.ID{1}}}
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
			is.Equal(s.Memory.all, halves{})
		})
	}
}
