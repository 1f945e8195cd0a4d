package people

import (
	"kist/kv"
	"kist/kv/record"
)

// ErrNotListed refuses the list of people to members while the setting listPeople is off.
var ErrNotListed = &record.Error{
	Fault: record.Denied, Code: "people_not_listed",
	Text: "Only administrators see the people of this server. An administrator can change that.",
}

// mayFind reports whether a user may find another on this server. Administrators find everybody. Others do not find
// disabled accounts and people who hide themselves.
func mayFind(by, other *User) bool { return by.Role == Admin || !other.Hidden && !other.Disabled }

// FindPerson reads the account that a user names, to share something with it. It fails with Missing if the user may not
// find it or if there is none, and nobody can tell which. It fails with ErrNotListed if members find nobody.
func FindPerson(tx *kv.Tx, by *User, id record.ID) (*User, error) {
	if err := checkListed(tx, by); err != nil {
		return nil, err
	}
	u, err := ReadUser(tx, id)
	if kv.Missing(err) {
		return nil, record.NotFound("person")
	}
	if err != nil {
		return nil, err
	}
	if !mayFind(by, u) {
		return nil, record.NotFound("person")
	}
	return u, nil
}

// ListPeople lists the accounts of this server for a user, without disabled ones and people who hide themselves. It
// fails with ErrNotListed if members see no list.
func ListPeople(tx *kv.Tx, by *User) ([]User, error) {
	if err := checkListed(tx, by); err != nil {
		return nil, err
	}
	all, err := Users(tx)
	if err != nil {
		return nil, err
	}
	shown := all[:0]
	for _, u := range all {
		if !u.Hidden && !u.Disabled {
			shown = append(shown, u)
		}
	}
	return shown, nil
}

func checkListed(tx *kv.Tx, by *User) error {
	set, err := ReadSettings(tx)
	if err != nil {
		return err
	}
	if set.PeopleUnlisted && by.Role != Admin {
		return ErrNotListed
	}
	return nil
}
