package catalog

import (
	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// CheckInvited fails with Missing unless all collections are the owner's.
func CheckInvited(tx *kv.Tx, owner record.ID, to []people.InvitedTo) error {
	for _, t := range to {
		_, err := Owned(tx, owner, record.Collections, t.Collection)
		if err != nil {
			return err
		}
	}
	return nil
}

// Join gives an account that was just made what the invitation promises, and ends the invitation. It fails with Missing
// if the invitation is not open any more. A collection that is gone or full is left out; the others are returned.
func Join(tx *kv.Tx, secret string, u *people.User) (joined []*record.Record, err error) {
	v, by, err := people.InvitationOf(tx, secret)
	if err != nil {
		return nil, err
	}
	err = people.UseInvitation(tx, v, u)
	if err != nil {
		return nil, err
	}
	for _, to := range v.Collections {
		c, err := Owned(tx, v.Owner, record.Collections, to.Collection)
		if kv.Missing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = Invite(tx, c, u.ID, to.Role, by.Name)
		if isFull(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		joined = append(joined, c)
	}
	return joined, nil
}
