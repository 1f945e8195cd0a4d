package grant_test

import (
	"errors"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/grant"
	"kist/kv/record"
)

// A ticket is used once, and one account cannot keep others from using theirs.
func TestTickets(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	all, err := grant.NewTickets()
	is.NoErr(err)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ann, bob := record.ID{1}, record.ID{2}
	use := func(owner record.ID) error {
		text, _ := all.Issue(grant.Ticket{For: grant.ForConfirming, Owner: owner}, now)
		k, err := all.Open(text, grant.ForConfirming, [32]byte{}, now)
		is.NoErr(err)
		if err := all.Use(k, now); err != nil {
			return err
		}
		is.Equal(all.Use(k, now), grant.ErrTicket)
		_, err = all.Open(text, grant.ForConfirming, [32]byte{}, now)
		is.Equal(err, grant.ErrTicket)
		return nil
	}
	for range grant.MaxUsedByOne {
		is.NoErr(use(ann))
	}
	e, ok := errors.AsType[*record.Error](use(ann))
	is.True(ok)
	is.Equal(e.Fault, record.TooMany)
	is.Equal(e.Retry, grant.TicketTime)
	is.NoErr(use(bob))
	now = now.Add(grant.TicketTime)
	is.NoErr(use(ann))
}

// A ticket opens for its purpose and network, before its end and in its process.
func TestTicketOpens(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	all, err := grant.NewTickets()
	is.NoErr(err)
	others, err := grant.NewTickets()
	is.NoErr(err)
	now, home := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), [32]byte{7}
	text, k := all.Issue(
		grant.Ticket{For: grant.ForAdding, Owner: record.ID{1}, Password: [32]byte{2}, Network: home}, now,
	)
	ends := now.Add(grant.TicketTime)
	is.Equal(k.Ends, ends.UnixMilli())
	_, next := all.Issue(k, now)
	is.True(next.Challenge != k.Challenge)
	last := ends.Add(-time.Millisecond)
	got, err := all.Open(text, grant.ForAdding, home, last)
	is.NoErr(err)
	is.Equal(got, k)
	for _, bad := range []func() (grant.Ticket, error){
		func() (grant.Ticket, error) { return all.Open(text, grant.ForAdding, home, ends) },
		func() (grant.Ticket, error) { return all.Open(text, grant.ForConfirming, home, last) },
		func() (grant.Ticket, error) { return all.Open(text, grant.ForAdding, [32]byte{8}, last) },
		func() (grant.Ticket, error) { return all.Open(text[:40], grant.ForAdding, home, last) },
		func() (grant.Ticket, error) { return all.Open("?", grant.ForAdding, home, last) },
		func() (grant.Ticket, error) { return others.Open(text, grant.ForAdding, home, last) },
	} {
		_, err := bad()
		is.Equal(err, grant.ErrTicket)
	}
}

// When an account has used too many tickets, it waits for the end of its oldest one.
func TestTicketsWait(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	all, err := grant.NewTickets()
	is.NoErr(err)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	use := func(owner record.ID, now time.Time) error {
		_, k := all.Issue(grant.Ticket{Owner: owner}, now)
		return all.Use(k, now)
	}
	is.NoErr(use(record.ID{2}, start.Add(-time.Minute))) // of another account
	is.NoErr(use(record.ID{1}, start))
	for range grant.MaxUsedByOne - 1 {
		is.NoErr(use(record.ID{1}, start.Add(time.Minute)))
	}
	e, ok := errors.AsType[*record.Error](use(record.ID{1}, start.Add(2*time.Minute)))
	is.True(ok)
	is.Equal(e.Retry, grant.TicketTime-2*time.Minute)
	is.NoErr(use(record.ID{1}, start.Add(grant.TicketTime))) // the place of the oldest
	is.True(use(record.ID{1}, start.Add(grant.TicketTime)) != nil)
}
