package people

import (
	"errors"
	"slices"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

var loginRows = kv.JsonTable(loginBucket, func(l *Login) []byte { return kv.OwnedKey(l.Owner) })

// LoginTable keeps one-time codes, recovery codes, links that set a password, and invitations.
// Sessions are keys: see session.go.
var LoginTable = kv.Table{
	Buckets: []table.Bucket{loginBucket}, Check: CheckOwned(loginRows, "login"), Refill: RefillOwned(loginRows),
	Drop: kv.DropRows(loginRows),
}

// LoginOf reads what an account signs in with besides its password. It is empty for most
// accounts.
func LoginOf(tx *kv.Tx, owner record.ID) (*Login, error) {
	l, err := loginRows.Get(tx.Tx, owner[:])
	if errors.Is(err, table.ErrMissing) {
		return &Login{Owner: owner}, nil
	}
	return l, err
}

func saveLogin(tx *kv.Tx, l *Login) error {
	if len(l.Secret) == 0 && len(l.Recovery) == 0 && l.ResetEnds.IsZero() && !l.Closed &&
		len(l.Invitations) == 0 {
		_, err := loginRows.Delete(tx.Tx, l.Owner[:])
		if errors.Is(err, table.ErrMissing) {
			return nil
		}
		return err
	}
	if err := RequireOwner(tx, l.Owner); err != nil {
		return err
	}
	return loginRows.Put(tx.Tx, l)
}

// Ways says how users can sign in at the server that runs on a store. The zero value is that of
// a store without a server: passwords sign in.
type Ways struct {
	NoPasswords bool
	Passkeys    bool   // work at the server's address
	Issuer      string // "" if none
	Proxy       bool   // may name every account
}

var ways kv.Slot[Ways]

// SetWays says how users can sign in from now on. It is for a server that starts.
func SetWays(s *kv.Store, w Ways) { ways.Set(s, &w) }

// canEnter reports whether an account has a way to sign in while passwords are off.
func canEnter(tx *kv.Tx, owner record.ID) (bool, error) {
	w := ways.Of(tx.Store())
	if !w.NoPasswords || w.Proxy {
		return true, nil
	}
	if w.Passkeys {
		for range tx.Walk(passkeyBucket, owner[:], nil, false) {
			return true, nil
		}
	}
	all, err := Identities(tx, owner)
	return slices.ContainsFunc(all, func(l Identity) bool { return l.Issuer == w.Issuer }), err
}

// keepWay runs remove. It fails if that has left an account without a way to sign in that
// had one.
func keepWay(tx *kv.Tx, owner record.ID, remove func() error) error {
	before, err := canEnter(tx, owner)
	if err != nil {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	if after, err := canEnter(tx, owner); err != nil || after || !before {
		return err
	}
	text := "Passwords are off here. Without this you could not sign in any more."
	return &record.Error{Fault: record.Taken, Code: "last_way", Text: text}
}

// AdminEnters reports whether an administrator can sign in, or there is no account yet.
func AdminEnters(tx *kv.Tx) (bool, error) {
	all, err := Users(tx)
	for i := range all {
		if enters, err := canEnter(tx, all[i].ID); err != nil || enters && administers(&all[i]) {
			return true, err
		}
	}
	return len(all) == 0, err
}

// Login is what an account signs in with besides its password and its passkeys, and the links that it lets others in
// with. An account that has nothing of this has none.
type Login struct {
	Owner     record.ID  `json:"Owner"`
	Secret    []byte     `json:"Secret,omitempty"`   // of the one-time codes; empty: none
	Since     time.Time  `json:"Since,omitzero"`     // when the codes were set up
	Step      int64      `json:"Step,omitempty"`     // the latest time step whose code was used
	Recovery  [][32]byte `json:"Recovery,omitempty"` // SHA-256 of each unused recovery code
	Reset     [32]byte   `json:"Reset,omitzero"`     // SHA-256 of the secret of the link that sets a password
	ResetEnds time.Time  `json:"ResetEnds,omitzero"`
	Closed    bool       `json:"Closed,omitempty"` // the sign-in was reset: nothing signs in until there is a new password

	Invitations []Invitation `json:"Invitations,omitempty"` // that the account has made and nobody has used
}
