package people

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

var (
	loginRows = kv.JsonTable(loginBucket, func(l *Login) []byte { return kv.OwnedKey(l.Owner) })

	// passkeyRows is the table of passkeys.
	passkeyRows = kv.JsonTable(passkeyBucket, func(p *Passkey) []byte { return kv.OwnedKey(p.Owner, p.ID[:]...) })
)

// LoginTable keeps one-time codes, recovery codes and links that set a password.
// Sessions are keys: see accounts.go.
var LoginTable = kv.Table{
	Buckets: []table.Bucket{loginBucket}, Check: CheckOwned(loginRows, "login"), Refill: RefillOwned(loginRows),
	Drop: kv.DropRows(loginRows),
}

// PasskeyTable keeps passkeys.
var PasskeyTable = kv.Table{
	Buckets: []table.Bucket{passkeyBucket}, Check: CheckOwned(passkeyRows, "passkey"), Refill: RefillOwned(passkeyRows),
	Drop: kv.DropRows(passkeyRows),
}

// Bounds of what an account signs in with.
const (
	ResetTime   = 24 * time.Hour // how long a link that sets a password is valid
	MaxPasskeys = 20
)

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
	if len(l.Secret) == 0 && len(l.Recovery) == 0 && l.ResetEnds.IsZero() && !l.Closed {
		_, err := loginRows.Delete(tx.Tx, l.Owner[:])
		if errors.Is(err, table.ErrMissing) {
			return nil
		}
		return err
	}
	return errors.Join(RequireOwner(tx, l.Owner), loginRows.Put(tx.Tx, l))
}

// Passkeys lists an account's passkeys, oldest first.
func Passkeys(tx *kv.Tx, owner record.ID) ([]Passkey, error) {
	return kv.Collect(passkeyRows, tx, owner[:])
}

// AnyPasskey reports whether any account has a passkey.
func AnyPasskey(tx *kv.Tx) bool {
	for range tx.Walk(passkeyBucket, nil, nil, false) {
		return true
	}
	return false
}

// Passkey reads one of the owner's passkeys.
func ReadPasskey(tx *kv.Tx, owner, id record.ID) (*Passkey, error) {
	p, err := passkeyRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return p, kv.UserError(err, "passkey")
}

// AddPasskey adds a passkey. It returns recovery codes if the account had none.
func AddPasskey(tx *kv.Tx, p Passkey) (key *Passkey, recovery []string, err error) {
	if err := RequireOwner(tx, p.Owner); err != nil {
		return nil, nil, err
	}
	all, err := Passkeys(tx, p.Owner)
	if err != nil {
		return nil, nil, err
	}
	if len(all) >= MaxPasskeys {
		return nil, nil, kv.TooMany("passkeys", "too_many_passkeys", MaxPasskeys)
	}
	everyones, err := kv.Collect(passkeyRows, tx, nil) // an authenticator chooses the id, so it may copy another's (WebAuthn, section 7.1)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(everyones, func(other Passkey) bool { return bytes.Equal(other.Credential, p.Credential) }) {
		return nil, nil, &record.Error{Fault: record.Taken, Code: "passkey_taken", Text: "This passkey is in an account already."}
	}
	l, err := LoginOf(tx, p.Owner)
	if err != nil {
		return nil, nil, err
	}
	p.ID, p.Created = tx.NewID(), tx.Now
	if err := errors.Join(passkeyRows.Put(tx.Tx, &p), Note(tx, Activity{Owner: p.Owner, Event: PasskeyAdded, Name: p.Name})); err != nil {
		return nil, nil, err
	}
	l.Reset, l.ResetEnds = [32]byte{}, time.Time{} // it would go around the passkey
	if len(l.Recovery) == 0 {
		recovery = makeRecovery(l)
	}
	return &p, recovery, saveLogin(tx, l)
}

// SavePasskey changes a passkey, which must have been read in the same transaction.
func SavePasskey(tx *kv.Tx, p *Passkey) error { return passkeyRows.Put(tx.Tx, p) }

// RemovePasskey deletes a passkey.
func RemovePasskey(tx *kv.Tx, owner, id record.ID) error {
	p, err := ReadPasskey(tx, owner, id)
	if err != nil {
		return err
	}
	if err := keepWay(tx, owner, func() error {
		_, err := passkeyRows.Delete(tx.Tx, passkeyRows.Key(p))
		return err
	}); err != nil {
		return err
	}
	l, err := LoginOf(tx, owner)
	if err != nil {
		return err
	}
	return errors.Join(dropRecovery(tx, l), Note(tx, Activity{Owner: owner, Event: PasskeyRemoved, Name: p.Name}))
}

// UsePasskey records the use of a passkey whose signature was right, with the counter of
// the authenticator. It reports false if the counter has not grown: there may be a copy of
// the passkey then (WebAuthn, section 6.1.1). An authenticator without a counter sends 0.
func UsePasskey(tx *kv.Tx, owner, id record.ID, count int64, address string) (bool, error) {
	p, err := ReadPasskey(tx, owner, id)
	if err != nil {
		return false, err
	}
	if count <= p.Count && (count != 0 || p.Count != 0) {
		return false, Note(tx, Activity{Owner: owner, Event: PasskeyRefused, Name: p.Name, Address: address})
	}
	p.Count, p.LastUsed = count, tx.Now
	return true, SavePasskey(tx, p)
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
	return &record.Error{Fault: record.Taken, Code: "last_way", Text: "Passwords are off here. Without this you could not sign in any more."}
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

// A Reset is what ResetLogin has made and ended.
type Reset struct {
	Secret  string // of the link
	Devices int    // that were connected
	Revoked int    // API keys, without those of devices
	Kept    int    // API keys that still work
}

// ResetLogin makes the account's password unusable, ends its sessions and devices, and removes
// its codes, passkeys and linked identities. With the link whose secret it returns, a new
// password can be set, once and within ResetTime; nothing signs in before. An earlier link ends.
// API keys stay unless revokeKeys is set. by is who does it, not the owner.
func ResetLogin(tx *kv.Tx, owner record.ID, by string, revokeKeys bool) (Reset, error) {
	var done Reset
	u, err := ReadUser(tx, owner)
	if err != nil {
		return done, err
	}
	u.Password = ""
	if err := SaveUser(tx, u); err != nil {
		return done, err
	}
	if err := ClearLogin(tx, owner, by); err != nil {
		return done, err
	}
	if err := EndSessions(tx, owner); err != nil { // also of an account that had no password
		return done, err
	}
	revoked, err := Revoke(tx, owner, by, func(k *Key) bool { return k.Device != "" || revokeKeys })
	if err != nil {
		return done, err
	}
	for _, k := range revoked {
		if k.Device != "" {
			done.Devices++
		} else {
			done.Revoked++
		}
	}
	kept, err := Keys(tx, owner)
	if err != nil {
		return done, err
	}
	for _, k := range kept {
		if !k.Disabled && (k.Expires.IsZero() || tx.Now.Before(k.Expires)) {
			done.Kept++
		}
	}

	random := make([]byte, 32)
	kv.Random(random)
	done.Secret = base64.RawURLEncoding.EncodeToString(append(owner[:], random...))
	l := &Login{Owner: owner, Reset: sha256.Sum256(random), ResetEnds: tx.Now.Add(ResetTime), Closed: true}
	if err := saveLogin(tx, l); err != nil {
		return done, err
	}
	return done, Note(tx, Activity{Owner: owner, Event: LoginReset, By: by})
}

// ClearLogin removes the account's codes, passkeys, linked identities and a link that sets
// its password.
func ClearLogin(tx *kv.Tx, owner record.ID, by string) error {
	if _, err := RemoveIdentities(tx, owner, "", "", by); err != nil {
		return err
	}
	all, err := Passkeys(tx, owner)
	if err != nil {
		return err
	}
	for i := range all {
		if _, err := passkeyRows.Delete(tx.Tx, passkeyRows.Key(&all[i])); err != nil {
			return err
		}
	}
	return saveLogin(tx, &Login{Owner: owner})
}

// ResetOf reads the account that the link with the secret sets the password of, or fails
// with Missing.
func ResetOf(tx *kv.Tx, secret string) (*User, error) {
	gone := &record.Error{Fault: record.Missing, Code: "not_found", Text: "This link is not valid, or has been used."}
	b, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || len(b) != 48 {
		return nil, gone
	}
	l, err := LoginOf(tx, record.ID(b[:16]))
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(b[16:])
	if l.ResetEnds.IsZero() || !tx.Now.Before(l.ResetEnds) || subtle.ConstantTimeCompare(digest[:], l.Reset[:]) != 1 {
		return nil, gone
	}
	u, err := ReadUser(tx, l.Owner)
	if err == nil && u.Disabled {
		err = gone
	}
	return u, err
}

// endReset ends the link that sets the account's password. If the account has a password now, it
// signs in again.
func endReset(tx *kv.Tx, u *User) error {
	l, err := LoginOf(tx, u.ID)
	if err != nil || l.ResetEnds.IsZero() && !l.Closed {
		return err
	}
	l.Reset, l.ResetEnds = [32]byte{}, time.Time{}
	l.Closed = l.Closed && u.Password == ""
	return saveLogin(tx, l)
}

// ConfirmSession records that the user of a session has proved again who they are.
func ConfirmSession(tx *kv.Tx, owner, id record.ID) error {
	k, err := ReadSession(tx, owner, id)
	if err != nil {
		return err
	}
	k.Confirmed = tx.Now
	return SaveKey(tx, k)
}

// Login is what an account signs in with besides its password and its passkeys.
// An account that has nothing of this has none.
type Login struct {
	Owner     record.ID  `json:"Owner"`
	Secret    []byte     `json:"Secret,omitempty"`   // of the one-time codes; empty: none
	Since     time.Time  `json:"Since,omitzero"`     // when the codes were set up
	Step      int64      `json:"Step,omitempty"`     // the latest time step whose code was used
	Recovery  [][32]byte `json:"Recovery,omitempty"` // SHA-256 of each unused recovery code
	Reset     [32]byte   `json:"Reset,omitzero"`     // SHA-256 of the secret of the link that sets a password
	ResetEnds time.Time  `json:"ResetEnds,omitzero"`
	Closed    bool       `json:"Closed,omitempty"` // the sign-in was reset: nothing signs in until there is a new password
}
