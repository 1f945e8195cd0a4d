package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/matryer/is"

	"kist/kv/catalog"
	"kist/kv/people"
	"kist/kv/record"
)

// One caller has at most half of the memory for JSON; others find the rest.
func TestBudgetShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Budget: NewBudget()}
		by := func(key byte, addr string) *Request {
			c := &Request{Site: s, R: httptest.NewRequest("GET", "/", nil), Addr: netip.MustParseAddr(addr)}
			if key != 0 {
				c.Caller = &people.Caller{User: record.User{ID: record.ID{key}}, Key: record.Key{ID: record.ID{key}}}
			}
			return c
		}
		first, second := by(1, "192.0.2.1"), by(1, "192.0.2.2")
		is.NoErr(first.reserveJSON(jsonShare - 10))
		is.NoErr(second.reserveJSON(10))
		is.Equal(second.reserveJSON(1), errBusy) // half is all that one key has
		other := by(2, "192.0.2.1")
		is.NoErr(other.reserveJSON(jsonShare - 20))
		for _, addr := range []string{"192.0.2.1", "2001:db8::1"} {
			visitor := by(0, addr)
			is.NoErr(visitor.reserveJSON(5))
			defer visitor.ReleaseJSON()
		}
		late := by(3, "192.0.2.3")
		is.NoErr(late.reserveJSON(10))
		is.Equal(late.reserveJSON(1), errBusy) // there is no more at all
		is.Equal(late.held, int64(10))

		done := make(chan error)
		go func() { done <- second.reserveJSON(100) }() // waits for its own key's share
		synctest.Wait()
		first.ReleaseJSON()
		is.NoErr(<-done)

		second.ReleaseJSON()
		other.ReleaseJSON()
		late.ReleaseJSON()
		is.Equal(len(s.Budget.Shares), 2) // the visitors'

		visitor := by(0, "2001:db8::2") // of one network with the one before
		is.NoErr(visitor.reserveJSON(jsonShare - 5))
		is.Equal(visitor.reserveJSON(1), errBusy)
		visitor.ReleaseJSON()
		by(4, "192.0.2.4").ReleaseJSON() // spent nothing
	})
}

// One account has at most three quarters of the memory for JSON, however many keys it has.
func TestBudgetOfAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Budget: NewBudget()}
		by := func(account, key byte) *Request {
			return &Request{
				Site: s, R: httptest.NewRequest("GET", "/", nil), Addr: netip.MustParseAddr("192.0.2.1"),
				Caller: &people.Caller{User: record.User{ID: record.ID{account}}, Key: record.Key{ID: record.ID{key}}},
			}
		}
		first, second, third := by(1, 1), by(1, 2), by(1, 3)
		is.NoErr(first.reserveJSON(jsonShare))
		is.NoErr(second.reserveJSON(accountShare - jsonShare))
		is.Equal(third.reserveJSON(1), errBusy)
		other, visitor := by(2, 4), by(0, 0)
		visitor.Caller = nil
		is.NoErr(other.reserveJSON(JSONBytes - accountShare - 10))
		is.NoErr(visitor.reserveJSON(10))
		done := make(chan error)
		go func() { done <- third.reserveJSON(100) }()
		synctest.Wait()
		second.ReleaseJSON()
		is.NoErr(<-done)
		for _, c := range []*Request{first, third, other, visitor} {
			c.ReleaseJSON()
		}
		is.Equal(len(s.Budget.Shares), 0)
		is.True(s.Budget.All.TryAcquire(JSONBytes))
	})
}

// A short answer is made while there is no memory for a long one. An answer that turns
// out to be long waits for that, and gets as much as it needs.
func TestRespondShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Budget: NewBudget()}
		by := func(addr string) *Request {
			w := httptest.NewRecorder()
			return &Request{
				Site: s, R: httptest.NewRequest("GET", "/", nil), Addr: netip.MustParseAddr(addr),
				W: &AnswerWriter{ResponseWriter: w, Ctl: http.NewResponseController(w)},
			}
		}
		others := []*Request{by("192.0.2.1"), by("192.0.2.2")}
		is.NoErr(others[0].reserveJSON(jsonShare))
		is.NoErr(others[1].reserveJSON(jsonShare - 3*shortRoom))

		var rooms []int
		answer := func(c *Request, n int) error {
			defer c.ReleaseJSON()
			return c.RespondShort(http.StatusOK, PageBytes, func(dst []byte, room int) ([]byte, error) {
				if rooms = append(rooms, room); room > 0 && n > room {
					return dst, catalog.ErrLong
				}
				return append(dst, make([]byte, n)...), nil
			})
		}
		is.NoErr(answer(by("192.0.2.3"), shortRoom))
		is.Equal(rooms, []int{shortRoom})
		is.Equal(answer(by("192.0.2.3"), shortRoom+1), errBusy)

		rooms = nil
		done := make(chan error)
		go func() { done <- answer(by("192.0.2.3"), shortRoom+1) }()
		synctest.Wait()
		others[0].ReleaseJSON()
		is.NoErr(<-done)
		is.Equal(rooms, []int{shortRoom, 0})
		others[1].ReleaseJSON()
		is.True(s.Budget.All.TryAcquire(JSONBytes))
	})
}
