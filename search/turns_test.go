package search

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// So many run at a time as are allowed, in the order in which they came, and who gives up leaves no gap.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		turns := turns{limit: 2}
		is.NoErr(turns.take(t.Context()))
		is.NoErr(turns.take(t.Context()))
		gone, leave := context.WithCancel(t.Context())
		came := make(chan int, 4)
		for i, ctx := range []context.Context{gone, t.Context(), t.Context(), t.Context()} {
			go func() {
				if err := turns.take(ctx); err != nil {
					i = -1
				}
				came <- i
			}()
			synctest.Wait()
		}
		is.Equal(len(came), 0)
		leave()
		is.Equal(<-came, -1)
		turns.give()
		is.Equal(<-came, 1)
		turns.allow(1)
		turns.give()
		synctest.Wait()
		is.Equal(len(came), 0) // one is running
		turns.give()
		is.Equal(<-came, 2)
		turns.allow(2)
		is.Equal(<-came, 3)
		is.Equal(turns.running, 2)
		leave()
		is.True(errors.Is(turns.take(gone), context.Canceled))
		is.Equal(len(turns.waiting), 0)
	})
}

// While many changes arrive, a search waits for as long as the one before it took.
func TestTurnsLeaveTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		x := New(Options{})
		for flooded, pause := range map[bool]time.Duration{false: 0, true: time.Second} {
			x.leaveCore(flooded)
			x.turns.allow(1)
			done, err := x.Turn(t.Context())
			is.NoErr(err)
			time.Sleep(time.Second) // of the test's clock
			done()
			ended := time.Now()
			done, err = x.Turn(t.Context())
			is.NoErr(err)
			is.Equal(time.Since(ended), pause)
			x.leaveCore(false)
			done()
		}
	})
}
