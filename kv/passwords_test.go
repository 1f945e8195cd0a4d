package kv

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kist/kv/record"

	"github.com/matryer/is"
)

func TestPasswords(t *testing.T) {
	is := is.New(t)
	p, ctx := NewPasswords(), t.Context()
	long := strings.Repeat("x", 72)
	for _, password := range []string{"", " x\x00é ", long + "1"} {
		phc, err := p.Hash(ctx, "", password)
		is.NoErr(err)
		is.True(regexp.MustCompile(`^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`).MatchString(phc))
		ok, err := p.Check(ctx, Seat{}, phc, password)
		is.NoErr(err)
		is.True(ok)
		ok, err = p.Check(ctx, Seat{}, phc, password+"2")
		is.NoErr(err)
		is.True(!ok)
	}
	one, err := p.Hash(ctx, "", long+"1")
	is.NoErr(err)
	ok, err := p.Check(ctx, Seat{}, one, long+"2") // all 73 bytes count
	is.NoErr(err)
	is.True(!ok)
	two, err := p.Hash(ctx, "", long+"1")
	is.NoErr(err)
	is.True(one != two) // salted
	ok, err = p.Check(ctx, Seat{}, "", "")
	is.NoErr(err)
	is.True(!ok) // where there is nothing to guess, nothing is right

	// A known answer: the reference implementation's, of other parameters.
	known := "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	ok, err = p.Check(ctx, Seat{}, known, "password")
	is.NoErr(err)
	is.True(ok)
	for _, bad := range []string{
		"x", "$$$$$", strings.Replace(known, "2id", "2i", 1), strings.Replace(known, "v=19", "v=16", 1), strings.Replace(known, "t=2", "t=0", 1),
		strings.Replace(known, "p=1", "p=0", 1), strings.Replace(known, "p=1", "p=300", 1), strings.Replace(known, "65536", "4294967295", 1),
		strings.Replace(known, "t=2", "t=9999", 1), known + "$", known[:len(known)-30], strings.Replace(known, "c29t", "!!!!", 1), strings.Replace(known, "m=", "m=-", 1),
	} {
		ok, err := p.Check(ctx, Seat{}, bad, "password")
		is.True(err != nil)
		is.True(!ok)
	}
}

// A flood of guesses waits in a short queue; what does not fit in it, or waits
// for too long, is turned away. Known seats find a place all the same, and no
// seat has more than its share.
func TestPasswordsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		p := NewPasswords()
		var refused *record.Error
		slots := cap(p.slots)
		for range slots { // all at work, and at it for long
			is.True(p.take(Seat{Of: "long"}, placesOfSeat))
			p.slots <- struct{}{}
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
		atOnce(Seat{Of: "flood"}) // no more of one network
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
		<-p.slots // a slot comes free
		p.giveUp(Seat{Of: "long"})
		wg.Wait()
		is.NoErr(served)
		is.Equal(p.all, slots-1)
	})
}

// A hash from outside must cost no more to check than those made here.
func TestValidHash(t *testing.T) {
	is := is.New(t)
	hash, err := NewPasswords().Hash(t.Context(), "", "open sesame")
	is.NoErr(err)
	is.True(ValidHash(hash))
	is.True(!ValidHash(""))
	for _, bad := range []string{"m=19457,t=2,p=1", "m=19456,t=3,p=1", "m=19456,t=2,p=2", "m=19456,t=0,p=1", "m=x,t=2,p=1"} {
		is.True(!ValidHash(strings.Replace(hash, "m=19456,t=2,p=1", bad, 1)))
	}
	is.True(!ValidHash(hash + strings.Repeat("A", 200)))
}
