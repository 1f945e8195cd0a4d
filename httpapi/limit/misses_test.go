package limit

import (
	"strconv"
	"testing"
	"time"

	"github.com/matryer/is"
)

// A network has so many misses in a window, each slug once. A crowd neither pushes its count out
// nor keeps others out.
func TestMisses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &New(nil).Misses
	for i := range MaxMisses {
		is.Equal(m.Wait(net4(1), now), time.Duration(0))
		m.Count(net4(1), strconv.Itoa(i), now)
	}
	is.Equal(m.Wait(net4(1), now.Add(time.Second)), MissWindow-time.Second)
	is.Equal(m.Wait(net4(2), now), time.Duration(0))
	for range 2 * MaxMisses { // of the same slug
		m.Count(net4(2), "a", now)
	}
	is.Equal(m.Wait(net4(2), now), time.Duration(0))

	for i := range 200_000 {
		m.Count(net4(100+i), "a", now)
	}
	is.Equal(len(m.rate.counts), maxCounts)
	is.True(m.Wait(net4(1), now) > 0)                // not pushed out
	is.Equal(m.Wait(net4(3), now), time.Duration(0)) // and nobody is kept out by others
	is.Equal(m.Wait(net4(1), now.Add(MissWindow)), time.Duration(0))
}
