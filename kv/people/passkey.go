package people

import (
	"bytes"
	"slices"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

// Passkey is a credential of WebAuthn.
type Passkey struct {
	ID         record.ID `json:"ID"`
	Owner      record.ID `json:"Owner"`
	Name       string    `json:"Name"`
	Credential []byte    `json:"Credential"` // its id, which the authenticator chose
	Key        []byte    `json:"Key"`        // the public key (COSE)
	Count      int64     `json:"Count"`      // the authenticator's latest counter; 0 if it has none
	Flags      int64     `json:"Flags"`      // the authenticator's flags when it was added
	Transports []string  `json:"Transports,omitempty"`
	Created    time.Time `json:"Created"`
	LastUsed   time.Time `json:"LastUsed,omitzero"`
}

// MaxPasskeys is how many passkeys an account may have.
const MaxPasskeys = 20

var passkeyRows = kv.JsonTable(passkeyBucket, func(p *Passkey) []byte { return kv.OwnedKey(p.Owner, p.ID[:]...) })

// PasskeyTable keeps passkeys.
var PasskeyTable = kv.Table{
	Buckets: []table.Bucket{passkeyBucket}, Check: CheckOwned(passkeyRows, "passkey"), Refill: RefillOwned(passkeyRows),
	Drop: kv.DropRows(passkeyRows),
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
	// An authenticator chooses the id, so it may copy another's (WebAuthn, section 7.1).
	everyones, err := kv.Collect(passkeyRows, tx, nil)
	if err != nil {
		return nil, nil, err
	}
	same := func(other Passkey) bool { return bytes.Equal(other.Credential, p.Credential) }
	if slices.ContainsFunc(everyones, same) {
		text := "This passkey is in an account already."
		return nil, nil, &record.Error{Fault: record.Taken, Code: "passkey_taken", Text: text}
	}
	l, err := LoginOf(tx, p.Owner)
	if err != nil {
		return nil, nil, err
	}
	p.ID, p.Created = tx.NewID(), tx.Now
	if err := passkeyRows.Put(tx.Tx, &p); err != nil {
		return nil, nil, err
	}
	if err := Note(tx, Activity{Owner: p.Owner, Event: PasskeyAdded, Name: p.Name}); err != nil {
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
	if err := dropRecovery(tx, l); err != nil {
		return err
	}
	return Note(tx, Activity{Owner: owner, Event: PasskeyRemoved, Name: p.Name})
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
