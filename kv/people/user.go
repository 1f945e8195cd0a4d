package people

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// Role is what a user may do beyond their own content.
type Role string

// The roles.
const (
	Admin  Role = "admin"
	Member Role = "user"
)

// Roles lists the roles.
var Roles = []Role{Admin, Member}

// User is an account.
type User struct {
	ID          record.ID `json:"ID"`
	Name        string    `json:"Name"`
	DisplayName string    `json:"DisplayName"`
	Role        Role      `json:"Role"`
	Disabled    bool      `json:"Disabled"`
	TokensOff   bool      `json:"TokensOff"` // the user's API keys are off
	Quota       int64     `json:"Quota"`     // bytes; -1 is the instance's default
	Password    string    `json:"Password"`
	Created     time.Time `json:"Created"`
	Language    Language  `json:"Language,omitempty"`
	Theme       Theme     `json:"Theme,omitempty"`
	Accent      Accent    `json:"Accent,omitempty"`

	// SeenVersion is the version of the program whose changes the user was last told of; "" if none.
	SeenVersion string `json:"SeenVersion,omitempty"`

	Hidden bool `json:"Hidden,omitempty"` // members of the server do not find the user
}

// Language is the language that a user has chosen; "" leaves it to the browser.
type Language string

// Languages lists the languages.
var Languages = []Language{"de", "en"}

// Theme is the brightness of the app that a user has chosen; "" follows the system.
type Theme string

// Themes lists the themes.
var Themes = []Theme{"light", "dark"}

// Accent is the colour of what can be pressed in the app; "" is the usual one.
type Accent string

// Accents lists the colours. The style sheet of the app has their values.
var Accents = []Accent{"blue", "violet", "rose", "amber"}

// UserRows is the table of accounts. Its key is a copy: that of a stored row must not change.
var UserRows = kv.JsonTable(UserBucket, func(u *User) []byte { return kv.OwnedKey(u.ID) },
	table.Index[User]{Bucket: userName, Name: "username", Unique: true, Keys: func(u *User, file func([]byte)) {
		file([]byte(record.Fold(u.Name)))
	}})

// PagesDue signals that a page may be due, or that the settings have changed. The
// settings turn page checks on and off.
var PagesDue kv.Signal

// UserTable keeps accounts.
var UserTable = kv.Table{
	Buckets: []table.Bucket{UserBucket, userName},
	Check:   kv.CheckRows(UserRows, nil),
	Refill: kv.RefillRows(UserRows, kv.Mending[User]{
		Rename: func(r *kv.Refill, u *User) error { return r.Rename(&u.Name, "account", u.ID) },
	}),
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		callers.Drop(tx)
		_, err := UserRows.Delete(tx.Tx, owner[:])
		return true, kv.UserError(err, "user")
	},
}

// CheckOwned is the Check of a table whose keys begin with the owner's id and end
// with the row's id.
func CheckOwned[T any](t *table.Table[T], what string) func(*kv.Audit) {
	return kv.CheckRows(t, func(a *kv.Audit, v *T) {
		k := t.Key(v)
		a.Refers(UserBucket, k[:16], what, record.ID(k[len(k)-16:]))
	})
}

// RefillOwned is the Refill of a table whose keys begin with the owner's id and
// whose rows refer to nothing else.
func RefillOwned[T any](t *table.Table[T]) func(*kv.Refill) error {
	return kv.RefillRows(t, kv.Mending[T]{
		Mend: func(r *kv.Refill, v *T) error { return StandIn(r, record.ID(t.Key(v)[:16])) },
	})
}

// StandIn creates a disabled account for rows whose owner is lost.
func StandIn(r *kv.Refill, owner record.ID) error {
	if r.Get(UserBucket, owner[:]) != nil {
		return nil
	}
	u := &User{
		ID: owner, Name: fmt.Sprintf("recovered-%x", owner[10:]), Role: Member, Disabled: true, Quota: -1,
		Created: time.UnixMilli(int64(binary.BigEndian.Uint64(owner[:8]) >> 16)).UTC(),
	}
	r.Lost(fmt.Errorf("account %s is lost; the disabled account %s takes its place", owner, u.Name))
	return UserRows.Put(r.Tx.Tx, u)
}

// Users lists all accounts, oldest first.
func Users(tx *kv.Tx) ([]User, error) { return kv.Collect(UserRows, tx, nil) }

// User reads an account.
func ReadUser(tx *kv.Tx, id record.ID) (*User, error) {
	u, err := UserRows.Get(tx.Tx, id[:])
	return u, kv.UserError(err, "user")
}

// PersonOf is an account as other people see it.
func PersonOf(tx *kv.Tx, id record.ID) (record.Person, error) {
	u, err := ReadUser(tx, id)
	if err != nil {
		return record.Person{}, err
	}
	return record.Person{ID: u.ID, Name: u.Name, DisplayName: u.DisplayName}, nil
}

// RequireOwner fails if the account is gone. A request may still be running when
// its user is removed, and it must not leave rows behind.
func RequireOwner(tx *kv.Tx, id record.ID) error {
	if tx.Get(UserBucket, id[:]) == nil {
		return record.NotFound("user")
	}
	return nil
}

// Disabled reports whether the account is disabled or gone. Views share a cached
// answer until a commit changes an account.
func Disabled(tx *kv.Tx, id record.ID) (bool, error) {
	kept := callers.In(tx)
	if kept != nil {
		if disabled, ok := kept.Load(id); ok {
			return disabled.(bool), nil //nolint:errcheck // an id always maps to a bool
		}
	}
	u, err := UserRows.Get(tx.Tx, id[:])
	gone := errors.Is(err, table.ErrMissing)
	if err != nil && !gone {
		return false, err
	}
	disabled := gone || u.Disabled
	if kept != nil && !gone {
		kept.Store(id, disabled)
	}
	return disabled, nil
}

// UserNamed reads the account with the name, ignoring case.
func UserNamed(tx *kv.Tx, name string) (*User, error) {
	u, err := UserRows.Find(tx.Tx, userName, []byte(record.Fold(name)))
	return u, kv.UserError(err, "user")
}

// AddUser creates an account; u.Password is already a hash. It has a new id, unless u has one that a passkey was made
// for. The first administrator ends the claim.
func AddUser(tx *kv.Tx, u User) (*User, error) {
	if u.ID == uuid.Nil {
		u.ID = tx.NewID()
	}
	if tx.Get(UserBucket, u.ID[:]) != nil {
		return nil, fmt.Errorf("the account %s is there already", u.ID)
	}
	u.Created = tx.Now
	return &u, putUser(tx, &u)
}

func putUser(tx *kv.Tx, u *User) error {
	if err := kv.UserError(UserRows.Put(tx.Tx, u), "user"); err != nil || u.Role != Admin {
		return err
	}
	Claimed.Raise(tx)
	return tx.Delete(workcopy.MetaBucket, kv.MetaClaim)
}

// SaveUser changes an account, which must have been read in the same transaction.
// It refuses to leave the instance without an administrator who can sign in. A new
// password ends the account's sessions. Disabling the account ends them too, and
// enabling it again does not bring them back.
func SaveUser(tx *kv.Tx, u *User) error {
	callers.Drop(tx)
	before, err := ReadUser(tx, u.ID)
	if err != nil {
		return err
	}
	if administers(before) && !administers(u) {
		if err := keepAdmin(tx, before); err != nil {
			return err
		}
	}
	if err := putUser(tx, u); err != nil {
		return err
	}
	if administers(before) && !administers(u) {
		if err := endInvitations(tx, u.ID); err != nil {
			return err
		}
	}
	if before.Password == u.Password && (!u.Disabled || before.Disabled) {
		return nil
	}
	if err := EndSessions(tx, u.ID); err != nil {
		return err
	}
	return endReset(tx, u)
}

func administers(u *User) bool { return u.Role == Admin && !u.Disabled }

// keepAdmin refuses if the user is the last administrator, or the last who can sign in.
func keepAdmin(tx *kv.Tx, u *User) error {
	users, err := Users(tx)
	if err != nil {
		return err
	}
	enters, err := canEnter(tx, u.ID)
	if err != nil {
		return err
	}
	others := false
	for _, other := range users {
		if other.ID == u.ID || !administers(&other) {
			continue
		}
		others = true
		if does, err := canEnter(tx, other.ID); err != nil || does || !enters {
			return err
		}
	}
	if others {
		return &record.Error{
			Fault: record.Taken, Code: "last_admin",
			Text: "This is the last administrator who can sign in while passwords are off; " +
				"give another one a passkey or a link first.",
		}
	}
	text := "This is the last administrator; make another one first."
	return &record.Error{Fault: record.Taken, Code: "last_admin", Text: text}
}

// RemoveUser deletes an account and everything it owns: what the Drop of each table in
// kv/tables finds. It disables the account
// first and deletes the content in several transactions, so that other writers are
// not kept waiting. If it is interrupted, calling it again continues. by is the user who
// removes it.
func RemoveUser(s *kv.Store, id record.ID, by string) error {
	name := ""
	err := s.Update(func(tx *kv.Tx) error {
		u, err := ReadUser(tx, id)
		if err != nil {
			return err
		}
		name = u.Name
		u.Disabled = true
		return SaveUser(tx, u)
	})
	if err != nil {
		return err
	}

	for {
		done := false
		err := s.Update(func(tx *kv.Tx) (err error) {
			done, err = tx.Drop(id)
			if err != nil || !done {
				return err
			}
			return Note(tx, Activity{Event: AccountRemoved, Name: name, By: by})
		})
		if err != nil || done {
			return err
		}
	}
}
