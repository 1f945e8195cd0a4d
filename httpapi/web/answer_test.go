package web

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"testing"

	"github.com/matryer/is"
)

// A sink hands on what is written and keeps nothing of it.
type sink struct {
	http.ResponseWriter
	write func([]byte)
}

func (s sink) Write(b []byte) (int, error) {
	s.write(b)
	return len(b), nil
}

// answerLong answers with n bytes, each the lowest byte of n. sent is called for
// each piece that is written.
func answerLong(t *testing.T, site *Site, n int, sent func(c *Request, piece []byte)) {
	t.Helper()
	is := is.New(t)
	c := &Request{Site: site, R: httptest.NewRequest("GET", "/", nil), Addr: netip.MustParseAddr("192.0.2.1")}
	w := sink{httptest.NewRecorder(), func(piece []byte) { sent(c, piece) }}
	c.W = &AnswerWriter{ResponseWriter: w, Ctl: http.NewResponseController(w)}
	is.NoErr(c.RespondLarge(http.StatusOK, PageBytes, func(dst []byte) ([]byte, error) {
		dst = GrowAnswer(dst, n)[:n]
		dst[0] = byte(n)
		for done := 1; done < n; done *= 2 {
			copy(dst[done:], dst[:done])
		}
		return dst, nil
	}))
	c.ReleaseJSON()
}

// Long answers use the same buffers, one after the other. It counts the memory of
// the whole process, so nothing else may run.
func TestLongAnswersShareBuffers(t *testing.T) {
	site := &Site{Budget: NewBudget()}
	answer := func() {
		sent := 0
		answerLong(t, site, PageBytes, func(_ *Request, piece []byte) { sent += len(piece) })
		if sent != PageBytes {
			t.Errorf("%d bytes are sent of %d", sent, PageBytes)
		}
	}
	answer()
	const rounds = 64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		answer()
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / rounds
	t.Logf("%d bytes are allocated for an answer of %d", each, PageBytes)
	if each > PageBytes/4*3 { // the race detector makes pools forget many buffers
		t.Errorf("%d bytes are allocated for an answer of %d", each, PageBytes)
	}
}

// While an answer is sent, the budget counts all of its buffer. A long answer that
// is sent leaves room in its caller's share for another one.
func TestLongAnswerHoldsItsBuffer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const need = PageBytes + largeBuffer + keptBuffer
	is.True(largeBuffer+need <= jsonShare)
	site := &Site{Budget: NewBudget()}
	for n, want := range map[int]int64{keptBuffer + 1: largeBuffer, PageBytes: largeBuffer, largeBuffer: largeBuffer, 2 * largeBuffer: need} {
		answerLong(t, site, n, func(c *Request, _ []byte) { is.Equal(c.held, want) })
	}
	answerLong(t, site, 100, func(c *Request, _ []byte) { is.True(c.held <= keptBuffer) }) // what the buffer grew to before
	is.Equal(len(site.Budget.Shares), 0)
	is.True(site.Budget.All.TryAcquire(JSONBytes))
}

// Two answers at the same time never share a buffer.
func TestAnswersAtTheSameTime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	site := &Site{Budget: NewBudget()}
	const n = keptBuffer + 7
	same := func(piece []byte, b byte) bool { return bytes.Count(piece, []byte{b}) == len(piece) }
	answerLong(t, site, n, func(_ *Request, outer []byte) {
		answerLong(t, site, n+1, func(_ *Request, inner []byte) { is.True(same(inner, 8)) })
		is.True(same(outer, 7))
	})
}

// Only buffers of the one large length are kept.
func TestGrowAnswer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dst := append(make([]byte, 0, firstBuffer), "head"...)
	for _, row := range []struct {
		n     int
		large bool
	}{
		{0, false},
		{firstBuffer, false},
		{keptBuffer - 4, false},
		{keptBuffer - 3, true},
		{largeBuffer - 4, true},
		{largeBuffer - 3, false},
	} {
		got := GrowAnswer(dst, row.n)
		is.Equal(string(got), "head")
		is.True(cap(got)-len(got) >= row.n)
		is.Equal(cap(got) == largeBuffer, row.large)
		keepLarge(got)
	}
	large := GrowAnswer(dst, keptBuffer)
	is.Equal(&GrowAnswer(large, largeBuffer/2)[0], &large[0]) // there is room already
}

// A page that grows record by record moves into a large buffer in time.
func TestGrowPage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dst := []byte(`{"data":[`)
	first := len(dst)
	record := bytes.Repeat([]byte("r"), 10<<10)
	for !PageFull(len(dst)-first, 1) {
		dst = append(GrowPage(dst, first), record...)
		is.Equal(cap(dst) == largeBuffer, len(dst) > keptBuffer/2+len(record))
	}
	is.True(len(dst) > PageBytes)
	dst = append(dst, make([]byte, 2*PageBytes)...)
	is.Equal(&GrowPage(dst, first)[0], &dst[0]) // the page is longer than it may be
}
