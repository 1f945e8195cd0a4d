package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// One at a time has a key, and is told of each who waits for it. Other keys are free, and who leaves gets nothing.
func TestHandOvers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var all handOvers[string, string]
		var hurried []string
		hurry := func(by string) { hurried = append(hurried, by) }
		first, err := all.take(t.Context(), "a", "first", hurry)
		is.NoErr(err)
		other, err := all.take(t.Context(), "b", "other", hurry)
		is.NoErr(err)
		other()
		is.Equal(len(hurried), 0)

		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = all.take(late, "a", "late", hurry)
		is.Equal(err, context.DeadlineExceeded)
		is.Equal(hurried, []string{"first"})

		next := make(chan func(), 2)
		for range cap(next) {
			go func() {
				release, err := all.take(t.Context(), "a", "next", nil)
				is.NoErr(err)
				next <- release
			}()
		}
		synctest.Wait()
		is.Equal(len(next), 0)
		first()
		second := <-next
		synctest.Wait()
		is.Equal(len(next), 0)
		second()
		(<-next)()
		is.Equal(len(all.of), 0)
	})
}
