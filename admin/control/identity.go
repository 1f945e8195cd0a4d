package control

import (
	"net/http"
	"time"

	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
)

// IdentityInput is the body of POST /link and POST /unlink. Without an issuer, /unlink removes all
// links of the user.
type IdentityInput struct {
	User    string `json:"username"`
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// Identity is a removed link, with the names of the API.
type Identity struct {
	ID       record.ID `json:"id"`
	Issuer   string    `json:"issuer"`
	Subject  string    `json:"subject"`
	Name     string    `json:"name"`
	Created  time.Time `json:"createdAt"`
	LastUsed time.Time `json:"lastUsedAt,omitzero"`
}

// operator names who did it, in the activity of the account.
const operator = "operator"

// link links an account to an identity.
func (v handler) link(_ *http.Request, in IdentityInput) (Nothing, error) {
	return Nothing{}, v.Store.Update(func(tx *kv.Tx) error {
		u, err := named(tx, in.User)
		if err != nil {
			return err
		}
		return people.AddIdentity(tx, u.ID, in.Issuer, in.Subject, "", operator)
	})
}

// unlink removes links of an account and returns them.
func (v handler) unlink(_ *http.Request, in IdentityInput) ([]Identity, error) {
	all := []Identity{}
	err := v.Store.Update(func(tx *kv.Tx) error {
		u, err := named(tx, in.User)
		if err != nil {
			return err
		}
		removed, err := people.RemoveIdentities(tx, u.ID, in.Issuer, in.Subject, operator)
		for _, i := range removed {
			all = append(all, Identity{i.ID, i.Issuer, i.Subject, i.Name, i.Created, i.LastUsed})
		}
		return err
	})
	return all, err
}
