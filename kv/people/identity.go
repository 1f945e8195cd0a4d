package people

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

// Identity is a subject at an issuer of OpenID Connect that an account is linked to.
type Identity struct {
	ID       record.ID   `json:"ID"`
	Owner    record.ID   `json:"Owner"`
	Issuer   string      `json:"Issuer"`
	Subject  string      `json:"Subject"`
	Name     string      `json:"Name"` // as the issuer calls the user; it may change
	Created  time.Time   `json:"Created"`
	LastUsed time.Time   `json:"LastUsed,omitzero"`  // to the minute
	Sessions []record.ID `json:"Sessions,omitempty"` // that came from it; some may have ended
}

// maxIdentities is how many identities an account may be linked to.
const maxIdentities = 20

var identityRows = kv.JsonTable(identityBucket,
	func(l *Identity) []byte { return kv.OwnedKey(l.Owner, l.ID[:]...) },
	table.Index[Identity]{
		Bucket: identitySubject, Name: "identity", Unique: true,
		Keys: func(l *Identity, file func([]byte)) { file(identityKey(l.Issuer, l.Subject)) },
	})

func identityKey(issuer, subject string) []byte {
	digest := sha256.Sum256([]byte(issuer + "\x00" + subject))
	return digest[:]
}

// IdentityTable keeps the identities at issuers of OpenID Connect that accounts are linked to.
var IdentityTable = kv.Table{
	Buckets: []table.Bucket{identityBucket, identitySubject},
	Check:   CheckOwned(identityRows, "link"), Refill: RefillOwned(identityRows), Drop: kv.DropRows(identityRows),
}

// Identities lists the owner's links, oldest first.
func Identities(tx *kv.Tx, owner record.ID) ([]Identity, error) {
	return kv.Collect(identityRows, tx, owner[:])
}

// Identity reads an identity.
func ReadIdentity(tx *kv.Tx, issuer, subject string) (*Identity, error) {
	l, err := identityRows.Find(tx.Tx, identitySubject, identityKey(issuer, subject))
	return l, kv.UserError(err, "link")
}

// AddIdentity links an account to an identity. by is the user who does it; "" is the owner.
// Linking the same account again changes only the name. An identity of another account is
// refused.
func AddIdentity(tx *kv.Tx, owner record.ID, issuer, subject, name, by string) error {
	if err := RequireOwner(tx, owner); err != nil {
		return err
	}
	name = record.Cut(name, record.MaxName)
	l, err := ReadIdentity(tx, issuer, subject)
	switch {
	case kv.Missing(err): // it is new
	case err != nil:
		return err
	case l.Owner != owner:
		return &record.Error{Fault: record.Taken, Code: "identity_taken", Text: "This identity is linked to another account."}
	default:
		l.Name = name
		return identityRows.Put(tx.Tx, l)
	}

	all, err := Identities(tx, owner)
	if err != nil {
		return err
	}
	if len(all) >= maxIdentities {
		return kv.TooMany("links", "too_many_links", maxIdentities)
	}
	l = &Identity{ID: tx.NewID(), Owner: owner, Issuer: issuer, Subject: subject, Name: name, Created: tx.Now}
	if err := identityRows.Put(tx.Tx, l); err != nil {
		return err
	}
	return Note(tx, Activity{Owner: owner, Event: LoginLinked, Name: linkName(l), By: by})
}

// linkName is how the activity calls a link.
func linkName(l *Identity) string {
	if l.Name != "" {
		return l.Name
	}
	return l.Subject
}

// UseIdentity records that a browser has signed in through a link, and under which name.
func UseIdentity(tx *kv.Tx, l *Identity, session record.ID, name string) error {
	kept := l.Sessions[:0]
	for _, id := range l.Sessions {
		_, err := ReadSession(tx, l.Owner, id)
		if kv.Missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		kept = append(kept, id)
	}
	l.Sessions, l.LastUsed, l.Name = append(kept, session), tx.Now.Truncate(time.Minute), record.Cut(name, record.MaxName)
	return identityRows.Put(tx.Tx, l)
}

// EndIdentitySessions signs out the browsers that signed in through a link.
func EndIdentitySessions(tx *kv.Tx, l *Identity) error {
	for _, id := range l.Sessions {
		k, err := ReadSession(tx, l.Owner, id)
		if kv.Missing(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := RevokeOne(tx, k, ""); err != nil {
			return err
		}
	}
	l.Sessions = nil
	return identityRows.Put(tx.Tx, l)
}

// RemoveIdentity removes one of the owner's links for the owner, who must keep a way to sign
// in, and ends its sessions.
func RemoveIdentity(tx *kv.Tx, owner, id record.ID) error {
	all, err := Identities(tx, owner)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(l Identity) bool { return l.ID == id })
	if i < 0 {
		return record.NotFound("link")
	}
	if len(all) == 1 {
		u, err := ReadUser(tx, owner)
		if err != nil {
			return err
		}
		if u.Password == "" {
			text := "This account has no password. Without this link you could not sign in any more."
			return &record.Error{Fault: record.Taken, Code: "last_link", Text: text}
		}
	}
	return keepWay(tx, owner, func() error { return removeIdentity(tx, &all[i], "") })
}

func removeIdentity(tx *kv.Tx, l *Identity, by string) error {
	if err := EndIdentitySessions(tx, l); err != nil {
		return err
	}
	if _, err := identityRows.Delete(tx.Tx, kv.OwnedKey(l.Owner, l.ID[:]...)); err != nil {
		return err
	}
	return Note(tx, Activity{Owner: l.Owner, Event: LoginUnlinked, Name: linkName(l), By: by})
}

// RemoveIdentities removes all links of an account with the issuer and the subject, where ""
// matches any, and ends their sessions. It returns them. by is the user who does it; "" is the
// owner.
func RemoveIdentities(tx *kv.Tx, owner record.ID, issuer, subject, by string) ([]Identity, error) {
	all, err := Identities(tx, owner)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(l Identity) bool {
		return issuer != "" && issuer != l.Issuer || subject != "" && subject != l.Subject
	})
	for i := range all {
		if err := removeIdentity(tx, &all[i], by); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// accountName makes a user name of what an issuer calls a user, the best first. Of an e-mail
// address it takes what is before the @, and of a name in a domain of Windows what is behind the \.
func accountName(called ...string) string {
	for _, t := range called {
		t, _, _ = strings.Cut(t, "@")
		t = t[strings.LastIndexByte(t, '\\')+1:]
		if name, err := record.CleanUserName(t); err == nil {
			return name
		}
		if name, err := record.CleanUserName(plainName(t)); err == nil {
			return name
		}
	}
	return "user"
}

// plainName writes a name as a user name: Jörg Müller is jorg.muller. It leaves out what it cannot
// write.
func plainName(t string) string {
	var words []string
	for word := range strings.FieldsSeq(norm.NFKD.String(plainLetters.Replace(record.Fold(t)))) {
		word = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
				return r
			}
			return -1
		}, word)
		word = strings.Trim(word, "._-")
		if word != "" {
			words = append(words, word)
		}
	}
	name := strings.Join(words, ".")
	return name[:min(len(name), maxUserName)]
}

// plainLetters are Latin letters that do not come apart into a plain one and a mark.
var plainLetters = strings.NewReplacer(
	"æ", "ae", "đ", "d", "ð", "d", "ħ", "h", "ı", "i", "ł", "l", "ø", "o", "œ", "oe", "þ", "th", "ŧ", "t",
)

// maxUserName is the longest user name in bytes.
const maxUserName = 64

// AddIdentityUser creates an account for an identity and links it. The account has no
// password. Its name is the one at the issuer, changed if it is taken or not allowed here:
// a name never decides whose an account is. by is the issuer's name.
func AddIdentityUser(tx *kv.Tx, issuer, subject, userName, displayName, by string) (*User, error) {
	name := accountName(userName, displayName)
	display, err := record.CleanName(displayName)
	if err != nil {
		display = ""
	}
	for i, free := 2, name; ; i++ {
		_, err := UserNamed(tx, free)
		if kv.Missing(err) {
			name = free
			break
		}
		if err != nil {
			return nil, err
		}
		suffix := fmt.Sprintf("-%d", i)
		free = name[:min(len(name), maxUserName-len(suffix))] + suffix
	}
	u, err := AddUser(tx, User{Name: name, DisplayName: display, Role: Member, Quota: -1})
	if err != nil {
		return nil, err
	}
	if err := Note(tx, Activity{Event: AccountCreated, Name: u.Name, By: by}); err != nil {
		return nil, err
	}
	return u, AddIdentity(tx, u.ID, issuer, subject, userName, by)
}

// SetRole gives an account a role. by is who decides it. The last administrator who can
// sign in stays one.
func SetRole(tx *kv.Tx, u *User, role Role, by string) error {
	if u.Role == role {
		return nil
	}
	before := u.Role
	u.Role = role
	err := SaveUser(tx, u)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Code == "last_admin" {
		u.Role = before
		return nil
	}
	if err != nil {
		return err
	}
	return Note(tx, Activity{Owner: u.ID, Event: AccountChanged, Name: u.Name, By: by, Changes: []string{"role"}})
}
