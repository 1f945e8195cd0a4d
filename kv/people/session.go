package people

import (
	"slices"
	"time"

	"kist/kv"
	"kist/kv/record"
)

// AddSession signs a browser in. confirmed is when its user proved who they are; zero if that
// is not known. The secret is returned only here. It fails while the account's sign-in is reset,
// whatever has named the user.
func AddSession(
	tx *kv.Tx, owner record.ID, agent, address string, confirmed time.Time,
) (key *Key, secret string, err error) {
	l, err := LoginOf(tx, owner)
	if err != nil {
		return nil, "", err
	}
	if l.Closed {
		return nil, "", &record.Error{
			Fault: record.Denied, Code: "login_reset",
			Text: "The sign-in of this account was reset. Set a new password with the link first; " +
				"an administrator can make another link.",
		}
	}
	return AddKey(tx, Key{
		Owner: owner, Scopes: []Scope{ScopeAdmin}, Session: true, Agent: agent, Address: address, Confirmed: confirmed,
		Slides: SlideTime, Expires: tx.Now.Add(SlideTime), LastUsed: tx.Now.Truncate(time.Minute),
	})
}

// Sessions lists the owner's unexpired sessions, oldest first.
func Sessions(tx *kv.Tx, owner record.ID) ([]Key, error) {
	all, err := credentials(tx, owner[:], true)
	return slices.DeleteFunc(all, func(k Key) bool { return !tx.Now.Before(k.Expires) }), err
}

// EndSessions signs out all of the owner's browsers. Devices that the owner approved
// and that have not fetched their key yet are dropped too.
func EndSessions(tx *kv.Tx, owner record.ID) error {
	waiting, err := kv.Collect(deviceRows, tx, nil)
	if err != nil {
		return err
	}
	for i := range waiting {
		if waiting[i].Owner != owner {
			continue
		}
		if _, err := deviceRows.Delete(tx.Tx, waiting[i].Digest[:]); err != nil {
			return err
		}
	}

	all, err := credentials(tx, owner[:], true)
	if err != nil {
		return err
	}
	for i := range all {
		if err := RemoveKey(tx, owner, all[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// Session reads one of the owner's sessions.
func ReadSession(tx *kv.Tx, owner, id record.ID) (*Key, error) {
	return credential(tx, owner, id, true)
}

// DropSessions deletes expired sessions.
func DropSessions(tx *kv.Tx) error {
	all, err := credentials(tx, nil, true)
	if err != nil {
		return err
	}
	for i := range all {
		if tx.Now.Before(all[i].Expires) {
			continue
		}
		if err := RemoveKey(tx, all[i].Owner, all[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// RecentTime is how long a session may change how its user signs in, after its user has
// proved who they are.
const RecentTime = 10 * time.Minute

// SlideTime is how long a session, or a key from the device flow, stays valid
// without use. SessionTime is the maximum life of a session.
const (
	SlideTime   = 30 * 24 * time.Hour
	SessionTime = 365 * 24 * time.Hour
)

// slideStep is the minimum by which use moves an expiry.
const slideStep = time.Hour

// ConfirmSession records that the user of a session has proved again who they are.
func ConfirmSession(tx *kv.Tx, owner, id record.ID) error {
	k, err := ReadSession(tx, owner, id)
	if err != nil {
		return err
	}
	k.Confirmed = tx.Now
	return SaveKey(tx, k)
}
