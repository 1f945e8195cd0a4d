package control

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"kist/embed"
	"kist/kv"
	"kist/kv/record"
)

// User is an account as the commands show it.
type User struct {
	ID          record.ID   `json:"id"`
	Name        string      `json:"username"`
	DisplayName string      `json:"displayName"`
	Role        record.Role `json:"role"`
	Disabled    bool        `json:"disabled"`
	TokensOff   bool        `json:"apiTokensDisabled"`
	Quota       *int64      `json:"quotaBytes"` // null: the instance's default
	Created     time.Time   `json:"createdAt"`
	Revoked     []string    `json:"revoked,omitempty"` // names of the keys that a new password has revoked
}

// Account is an account with how much it keeps.
type Account struct {
	User
	Items int64 `json:"items"`
	Bytes int64 `json:"bytes"` // of files, those that wait for approval too
}

// UserInput is the body of POST /users.
type UserInput struct {
	Name, DisplayName, Password string
	Admin                       bool
}

// UserEdit is the body of PATCH /users/{name}. A nil field does not change.
type UserEdit struct {
	Password  *string
	Revoke    string // with a password, the keys to revoke: devices, all or none
	Role      *record.Role
	Disabled  *bool
	TokensOff *bool
}

func (v handler) users(_ *http.Request, _ Nothing) ([]User, error) {
	return view(v, func(tx *kv.Tx) ([]User, error) {
		all, err := tx.Users()
		shown := make([]User, len(all))
		for i := range all {
			shown[i] = showUser(&all[i])
		}
		return shown, err
	})
}

func (v handler) user(r *http.Request, _ Nothing) (Account, error) {
	return view(v, func(tx *kv.Tx) (Account, error) {
		u, err := named(tx, r.PathValue("name"))
		if err != nil {
			return Account{}, err
		}
		kept, err := tx.Usage(u)
		if err != nil {
			return Account{}, err
		}
		out := Account{User: showUser(u), Bytes: kept.Bytes}
		for _, n := range kept.Count {
			out.Items += n
		}
		return out, nil
	})
}

func (v handler) addUser(r *http.Request, in UserInput) (User, error) {
	bad := map[string]string{}
	name, err := record.CleanUserName(in.Name)
	if err != nil {
		bad["username"] = err.Error()
	}
	display, err := record.CleanName(in.DisplayName)
	if err != nil {
		bad["displayName"] = err.Error()
	}
	if err := record.CheckPassword(in.Password, name, embed.CommonPassword); err != nil {
		bad["password"] = err.Error()
	}
	if err := record.Bad(bad); err != nil {
		return User{}, err
	}
	hash, err := v.Passwords.Hash(r.Context(), "", in.Password)
	if err != nil {
		return User{}, err
	}
	role := record.Member
	if in.Admin {
		role = record.Admin
	}
	return update(v, func(tx *kv.Tx) (User, error) {
		u, err := tx.AddUser(record.User{Name: name, DisplayName: display, Role: role, Quota: -1, Password: hash})
		if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Taken {
			e.Text = fmt.Sprintf("There is a user named %q already; choose another name.", name)
		}
		if err != nil {
			return User{}, err
		}
		return showUser(u), nil
	})
}

func (v handler) editUser(r *http.Request, in UserEdit) (User, error) {
	hash := ""
	if in.Password != nil {
		err := record.CheckPassword(*in.Password, r.PathValue("name"), embed.CommonPassword)
		if err != nil {
			return User{}, record.Bad(map[string]string{"password": err.Error()})
		}
		if hash, err = v.Passwords.Hash(r.Context(), "", *in.Password); err != nil {
			return User{}, err
		}
	}
	if in.Role != nil && !slices.Contains(record.Roles, *in.Role) {
		return User{}, record.Bad(map[string]string{"role": "must be one of: admin, user"})
	}
	return update(v, func(tx *kv.Tx) (User, error) {
		u, err := named(tx, r.PathValue("name"))
		if err != nil {
			return User{}, err
		}
		var names []string
		if in.Password != nil {
			u.Password = hash
			gone, err := tx.Revoke(u.ID, func(k *record.Key) bool { return in.Revoke == "all" || in.Revoke == "devices" && k.Device != "" })
			if err != nil {
				return User{}, err
			}
			for _, k := range gone {
				names = append(names, k.Name)
			}
		}
		if in.Role != nil {
			u.Role = *in.Role
		}
		if in.Disabled != nil {
			u.Disabled = *in.Disabled
		}
		if in.TokensOff != nil {
			u.TokensOff = *in.TokensOff
		}
		shown := showUser(u)
		shown.Revoked = names
		return shown, tx.SaveUser(u)
	})
}

// removeUser returns what the account kept.
func (v handler) removeUser(r *http.Request, in Nothing) (Account, error) {
	u, err := v.user(r, in)
	if err != nil {
		return Account{}, err
	}
	return u, v.Store.RemoveUser(u.ID)
}

// named reads the account with the name. The error says which command lists names.
func named(tx *kv.Tx, name string) (*record.User, error) {
	u, err := tx.UserNamed(name)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Missing {
		e.Text = fmt.Sprintf("There is no user named %q; kist user list shows the names.", name)
	}
	return u, err
}

func showUser(u *record.User) User {
	shown := User{
		ID: u.ID, Name: u.Name, DisplayName: u.DisplayName, Role: u.Role,
		Disabled: u.Disabled, TokensOff: u.TokensOff, Created: u.Created,
	}
	if u.Quota >= 0 {
		shown.Quota = &u.Quota
	}
	return shown
}
