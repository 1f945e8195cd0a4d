package people

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"time"

	"kist/kv"
	"kist/kv/record"
)

// ResetTime is how long a link that sets a password is valid.
const ResetTime = 24 * time.Hour

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

// ClearLogin removes the account's codes, passkeys, linked identities, a link that sets
// its password, and the invitations that it has made: somebody else may have made them.
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
	if err != nil {
		return nil, err
	}
	if u.Disabled {
		return nil, gone
	}
	return u, nil
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
