package people

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"kist/kv/record"
)

// A flood of guesses waits in a short queue. Guesses that do not fit, or wait too
// long, are turned away. Known seats still get a place, and no seat gets more than
// its share.
func TestPasswordsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		p := NewPasswords()
		var refused *record.Error
		slots := cap(p.turns)
		for range slots { // all busy, for a long time
			is.True(p.take(Seat{Of: "long"}, placesOfSeat))
			is.True(p.turns.Try())
		}
		start := time.Now()
		var wg sync.WaitGroup
		check := func(seat Seat) *error {
			err := new(error)
			wg.Go(func() { _, *err = p.Check(t.Context(), seat, "", "x") })
			synctest.Wait()
			return err
		}
		atOnce := func(seat Seat) {
			_, err := p.Check(t.Context(), seat, "", "x")
			is.True(errors.As(err, &refused) && refused.Code == "busy")
			is.Equal(time.Since(start), time.Duration(0))
		}
		var waiting []*error
		for range placesOfSeat {
			waiting = append(waiting, check(Seat{Of: "flood"}))
		}
		atOnce(Seat{Of: "flood"}) // one network gets no more places
		for i := range maxWaiting - reservedPlaces - placesOfSeat {
			waiting = append(waiting, check(Seat{Of: fmt.Sprint(i)}))
		}
		atOnce(Seat{Of: "unknown"})
		for range placesOfSeat {
			waiting = append(waiting, check(Seat{Of: "browser", Known: true}))
		}
		atOnce(Seat{Of: "browser", Known: true})
		for i := range reservedPlaces - placesOfSeat {
			waiting = append(waiting, check(Seat{Of: fmt.Sprint("known ", i), Known: true}))
		}
		atOnce(Seat{Of: "one more", Known: true}) // the queue is bounded for all
		wg.Wait()
		is.Equal(time.Since(start), maxWait)
		for _, err := range waiting {
			is.True(errors.As(*err, &refused) && refused.Code == "busy")
		}
		is.Equal(p.all, slots)
		is.Equal(len(p.occupied), 1)

		gone, cancel := context.WithCancel(t.Context())
		var stopped, served error
		wg.Go(func() { _, stopped = p.Hash(gone, "ann", "x") })
		wg.Go(func() { _, served = p.Hash(t.Context(), "ann", "x") })
		synctest.Wait()
		cancel() // one stops waiting
		synctest.Wait()
		is.True(stopped != nil)
		p.turns.Give() // a turn comes free
		p.giveUp(Seat{Of: "long"})
		wg.Wait()
		is.NoErr(served)
		is.Equal(p.all, slots-1)
	})
}
