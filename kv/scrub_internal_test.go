package kv

import (
	"testing"
	"time"

	"github.com/matryer/is"
)

// A scrub works for one part in scrubShare of the time, but fast enough to read
// everything within scrubMost.
func TestScrubPace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	begin := time.Unix(1000, 0)
	p := pace{total: 1 << 30, last: begin}
	is.Equal(p.wait(1<<20, begin.Add(10*time.Millisecond)), 190*time.Millisecond)
	is.Equal(p.wait(1<<20, begin.Add(time.Minute)), scrubMost/1024)
	is.Equal(p.wait(1<<20, begin.Add(-time.Second)), time.Duration(0))
	p.total = 0
	is.Equal(p.wait(1<<20, begin.Add(time.Hour)), scrubMost)
}
