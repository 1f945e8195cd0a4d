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
