package people

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"kist/kv"
	"kist/kv/record"
)

// Invitation lets one person make an account of their own. It is kept with the login of the administrator who made it,
// and ends when that account is disabled, is no administrator any more, or has its sign-in reset.
type Invitation struct {
	ID          record.ID   `json:"ID"`
	Digest      [32]byte    `json:"Digest"` // SHA-256 of the secret of the link
	Role        Role        `json:"Role"`
	Quota       int64       `json:"Quota"` // bytes; -1 is the instance's default
	Created     time.Time   `json:"Created"`
	Expires     time.Time   `json:"Expires"`
	Collections []InvitedTo `json:"Collections,omitempty"` // of the administrator

	Owner record.ID `json:"-"` // the administrator: that of the login
}

// InvitedTo is a part in a collection that comes with an invitation.
type InvitedTo struct {
	Collection record.ID   `json:"Collection"`
	Role       record.Role `json:"Role"`
}

// Bounds of invitations.
const (
	InvitationTime     = 7 * 24 * time.Hour  // how long one is valid unless it says otherwise
	MaxInvitationTime  = 90 * 24 * time.Hour // how long one may be valid
	MaxInvitedTo       = 20                  // collections of one invitation
	maxOpenInvitations = 50                  // of one account
)

// CheckInvitationEnd says what is wrong with the end of an invitation.
func CheckInvitationEnd(at, now time.Time) error {
	if at.Sub(now) > MaxInvitationTime {
		return fmt.Errorf("must be within %d days", MaxInvitationTime/(24*time.Hour))
	}
	return record.CheckEnd(at, now)
}

// AddInvitation makes an invitation of v.Owner, who must be an administrator. The secret of its link is returned only
// here.
func AddInvitation(tx *kv.Tx, v Invitation) (made *Invitation, secret string, err error) {
	if v.Expires.IsZero() {
		v.Expires = tx.Now.Add(InvitationTime)
	}
	err = CheckInvitationEnd(v.Expires, tx.Now)
	if err != nil {
		return nil, "", record.Bad(map[string]string{"expiresAt": err.Error()})
	}
	u, err := ReadUser(tx, v.Owner)
	if err != nil {
		return nil, "", err
	}
	if !administers(u) {
		return nil, "", &record.Error{Fault: record.Denied, Code: "not_admin", Text: "Only administrators invite people."}
	}
	l, err := LoginOf(tx, v.Owner)
	if err != nil {
		return nil, "", err
	}
	l.dropEnded(tx.Now)
	if len(l.Invitations) >= maxOpenInvitations {
		return nil, "", kv.TooMany("open invitations", "too_many_invitations", maxOpenInvitations)
	}

	random := make([]byte, 32)
	kv.Random(random)
	v.ID, v.Digest, v.Created = tx.NewID(), sha256.Sum256(random), tx.Now
	l.Invitations = append(l.Invitations, v)
	err = saveLogin(tx, l)
	if err != nil {
		return nil, "", err
	}
	err = Note(tx, Activity{Owner: v.Owner, Event: InvitationMade})
	return &v, base64.RawURLEncoding.EncodeToString(append(v.Owner[:], random...)), err
}

// dropEnded takes out the invitations that have ended.
func (l *Login) dropEnded(now time.Time) {
	l.Invitations = slices.DeleteFunc(l.Invitations, func(v Invitation) bool { return !now.Before(v.Expires) })
}

// Invitations lists the open invitations of all administrators, those of one after those of another.
func Invitations(tx *kv.Tx) ([]Invitation, error) {
	var all []Invitation
	for l, err := range loginRows.All(tx.Tx, nil) {
		if err != nil {
			return nil, err
		}
		l.dropEnded(tx.Now)
		for _, v := range l.Invitations {
			v.Owner = l.Owner
			all = append(all, v)
		}
	}
	return all, nil
}

// RemoveInvitation ends an invitation of any administrator. by is who does it.
func RemoveInvitation(tx *kv.Tx, id record.ID, by *User) error {
	all, err := Invitations(tx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(v Invitation) bool { return v.ID == id })
	if i < 0 {
		return record.NotFound("invitation")
	}
	err = takeOut(tx, &all[i])
	if err != nil {
		return err
	}
	gone := Activity{Owner: all[i].Owner, Event: InvitationRevoked}
	if by.ID != gone.Owner {
		gone.By = by.Name
	}
	return Note(tx, gone)
}

// takeOut removes an invitation from the login that keeps it.
func takeOut(tx *kv.Tx, v *Invitation) error {
	l, err := LoginOf(tx, v.Owner)
	if err != nil {
		return err
	}
	l.Invitations = slices.DeleteFunc(l.Invitations, func(other Invitation) bool { return other.ID == v.ID })
	return saveLogin(tx, l)
}

// errInvitation is the one answer for links that never were, and for those that have ended.
var errInvitation = &record.Error{
	Fault: record.Missing, Code: "not_found",
	Text: "This invitation was used already, has ended, or was taken back. Ask for another one.",
}

// InvitationOf reads the open invitation whose link has the secret, and who made it. It fails with Missing if there is
// none.
func InvitationOf(tx *kv.Tx, secret string) (*Invitation, *User, error) {
	b, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || len(b) != 48 {
		return nil, nil, errInvitation
	}
	l, err := LoginOf(tx, record.ID(b[:16]))
	if err != nil {
		return nil, nil, err
	}
	l.dropEnded(tx.Now)
	digest := sha256.Sum256(b[16:])
	i := slices.IndexFunc(l.Invitations, func(v Invitation) bool {
		return subtle.ConstantTimeCompare(digest[:], v.Digest[:]) == 1
	})
	if i < 0 {
		return nil, nil, errInvitation
	}
	v := &l.Invitations[i]
	v.Owner = l.Owner
	u, err := ReadUser(tx, v.Owner)
	if kv.Missing(err) {
		return nil, nil, errInvitation
	}
	if err != nil {
		return nil, nil, err
	}
	if !administers(u) {
		return nil, nil, errInvitation
	}
	return v, u, nil
}

// UseInvitation ends an invitation for an account that was just made, which gets its role and quota.
func UseInvitation(tx *kv.Tx, v *Invitation, u *User) error {
	err := takeOut(tx, v)
	if err != nil {
		return err
	}
	u.Role, u.Quota = v.Role, v.Quota
	return SaveUser(tx, u)
}

// DropInvitations deletes the invitations that have ended.
func DropInvitations(tx *kv.Tx) error {
	all, err := kv.Collect(loginRows, tx, nil)
	if err != nil {
		return err
	}
	for i := range all {
		before := len(all[i].Invitations)
		all[i].dropEnded(tx.Now)
		if len(all[i].Invitations) == before {
			continue
		}
		err = saveLogin(tx, &all[i])
		if err != nil {
			return err
		}
	}
	return nil
}

// endInvitations ends those of an account that may invite nobody any more.
func endInvitations(tx *kv.Tx, owner record.ID) error {
	l, err := LoginOf(tx, owner)
	if err != nil || len(l.Invitations) == 0 {
		return err
	}
	l.Invitations = nil
	return saveLogin(tx, l)
}
