package control

import (
	"net/http"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// IdentityInput is the body of POST /link and POST /unlink. Without an issuer, /unlink removes all
// links of the user.
type IdentityInput struct{ User, Issuer, Subject string }

// operator names who did it, in the activity of the account.
const operator = "operator"

// link links an account to an identity.
func (v handler) link(_ *http.Request, in IdentityInput) (Nothing, error) {
	return Nothing{}, v.Store.Update(func(tx *kv.Tx) error {
		u, err := named(tx, in.User)
		if err == nil {
			_, err = people.AddIdentity(tx, u.ID, in.Issuer, in.Subject, "", operator)
		}
		return err
	})
}

// unlink removes links of an account and returns them.
func (v handler) unlink(_ *http.Request, in IdentityInput) (removed []record.Identity, err error) {
	err = v.Store.Update(func(tx *kv.Tx) error {
		u, err := named(tx, in.User)
		if err != nil {
			return err
		}
		removed, err = people.RemoveIdentities(tx, u.ID, in.Issuer, in.Subject, operator)
		return err
	})
	return removed, err
}
