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

	"kist/httpapi/limit"
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

// limits are some that know the networks 10.0.0.0/8 from sign-ins.
func limits() *limit.Limits { return limit.New(netip.MustParsePrefix("10.0.0.0/8").Overlaps) }

const known = 10 << 24 // addresses from here on are familiar

// An answer for which there is no memory is given up and made again when there is. One that tells what was
// changed is sent in any case. Both are held while they are sent, and nothing else is.
func TestAnswersAreHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Limits: limits()}
		other, _ := visitorFrom(s, "GET", 1)
		is.NoErr(other.Hold(limit.LongOfStranger))
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
		is.Equal(c.held.Bytes(), int64(size))
		c.ReleaseMemory()

		done := make(chan error)
		made = 0
		go func() {
			c, w, err := answer("GET")
			if err == nil && (w.Body.Len() != size || c.held.Bytes() != size || made != 2) {
				t.Errorf("%d bytes, %d held, made %d times", w.Body.Len(), c.held.Bytes(), made)
			}
			c.ReleaseMemory()
			done <- err
		}()
		synctest.Wait()
		other.ReleaseMemory()
		is.NoErr(<-done)
		is.True(other.TryHold(limit.LongOfStranger)) // all is there again
	})
}

// A few answers are made at a time. A change waits for none of them.
func TestFewAnswersAreMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := &Site{Limits: limits()}
		end := make(chan struct{})
		for i := range uint32(limit.MakingAtOnce) {
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
			s := &Site{Limits: limits()}
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
				is.True(c.held.Bytes() >= int64(row.length))
			}
			c.ReleaseMemory()
			is.Equal(c.held.Bytes(), int64(0))
		})
	}
}
