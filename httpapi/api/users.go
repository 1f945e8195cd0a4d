package api

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// userForm is what an administrator can set for an account.
type userForm struct {
	u        *people.User
	password field.Secret
	revoke   revoke
	fresh    bool
}

func (f *userForm) Fields(s *field.Set) {
	var required []field.Traits
	if f.fresh {
		required = append(required, field.Required)
	}
	s.Ruled("username", &f.u.Name, record.CleanUserName, record.UserNamePattern, 64, field.Required, field.Filled).
		Says("Name to sign in with; unique, ignoring case.", `"ann"`)
	s.Secret("password", &f.password, required...).Says(
		"Password of at least 8 characters. Repeats, rows such as 1234 or qwerty, the user name and the first part of the "+
			"server's name count as one character each. Common passwords are refused.",
		`"correct horse battery"`,
	)
	s.Name("displayName", &f.u.DisplayName, record.MaxName).Says("Display name.", `"Ann"`)
	field.Choice(s, "role", &f.u.Role, people.Roles).Says("What the user may do.", `"user"`)
	s.Bool("disabled", &f.u.Disabled).Says("Disables the account.", `false`)
	s.Bool("apiTokensDisabled", &f.u.TokensOff).Says("Turns the user's API keys off.", `false`)
	s.MaybeNumber("quotaBytes", &f.u.Quota, 0, 1<<53).
		Says(
			"Bytes that the user may store; 0 means no limit, null means the instance's default. The quota applies to the "+
				"sum of usedBytes and unfinishedBytes.",
			`10737418240`,
		)
	if !f.fresh {
		f.revoke.Fields(s)
	}
}

func NewUserForm() *userForm {
	f := NewUserEdit()
	f.fresh = true
	return f
}

func NewUserEdit() *userForm { return &userForm{u: &people.User{Role: people.Member, Quota: -1}} }

// users are all accounts, for administrators.
var users = &web.Resource[people.User, *session.ShownUser]{
	Name:  "user",
	All:   func(tx *kv.Tx, _ record.ID) ([]people.User, error) { return people.Users(tx) },
	Place: func(u *people.User) (record.ID, string) { return u.ID, u.Name },
	Load:  func(tx *kv.Tx, _, id record.ID) (*people.User, error) { return people.ReadUser(tx, id) },
	Save:  people.SaveUser,
	Show: func(_ *web.Request, tx *kv.Tx, u *people.User) (*session.ShownUser, error) {
		return session.ShowUser(tx, u)
	},
}

var ListUsers = web.ListOp("admin", "Lists accounts.", "A page of accounts.", "User", users.List)

var CreateUser = web.CreateOp("admin", "Creates an account.", "The account.", "User", createUser, 409)

func createUser(c *web.Request) error {
	form := NewUserForm()
	if err := web.JoinProblems(c.DecodeNew(form), strong(c, &form.password, form.u.Name)); err != nil {
		return err
	}
	hash, err := c.Hash(form.password)
	if err != nil {
		return err
	}
	form.u.Password = hash
	return users.Create(c, func(tx *kv.Tx) (*people.User, error) {
		u, err := people.AddUser(tx, *form.u)
		if err != nil {
			return nil, err
		}
		return u, people.Note(tx, people.Activity{Event: people.AccountCreated, Name: u.Name, By: c.Caller.User.Name})
	})
}

var ReadUser = web.ReadOp("admin", "Reads an account.", "The account.", "User", users.Read, 404)

var EditUser = web.EditOp("admin", "Changes an account.", "The account.", "User", editUser, 404, 409)

func editUser(c *web.Request) error {
	id, err := c.IDArg("user")
	if err != nil {
		return err
	}
	form := NewUserEdit()
	in, err := c.DecodePatch(form)
	if err := web.JoinProblems(err, strong(c, &form.password, form.u.Name)); err != nil {
		return err
	}
	if err := form.revoke.check(in, &form.password); err != nil {
		return err
	}
	hash, err := c.Hash(form.password)
	if err != nil {
		return err
	}
	return users.Edit(c, id, func(tx *kv.Tx, u *people.User) error {
		before, form := *u, &userForm{u: u}
		if err := field.Patch(form, in); err != nil {
			return err
		}
		if err := strong(c, &form.password, u.Name); err != nil {
			return err
		}
		if !form.password.Said {
			return noteAccount(c, tx, before, *u)
		}
		u.Password = hash
		_, err := people.Revoke(tx, u.ID, doneBy(c, u.ID), form.revoke.names(c))
		return errors.Join(err, noteAccount(c, tx, before, *u))
	})
}

// doneBy is the name of the caller, for the activity of an account that is not the caller's.
func doneBy(c *web.Request, owner record.ID) string {
	if c.Owner() == owner {
		return ""
	}
	return c.Caller.User.Name
}

// noteAccount adds a change of an account to its activity.
func noteAccount(c *web.Request, tx *kv.Tx, before, got people.User) error {
	names := changes(&userForm{u: &before}, &userForm{u: &got})
	if before.Password != got.Password {
		names = append(names, "password")
	}
	if len(names) == 0 {
		return nil
	}
	return people.Note(
		tx,
		people.Activity{Owner: got.ID, Event: people.AccountChanged, Name: got.Name, By: doneBy(c, got.ID), Changes: names},
	)
}

// changes are the names of the shown fields that differ.
func changes(before, got field.Shaped) []string {
	was, _ := field.Parse(field.AppendJSON(nil, before)) // its own output
	is, _ := field.Parse(field.AppendJSON(nil, got))
	maps.DeleteFunc(is, func(name string, value any) bool { return reflect.DeepEqual(value, was[name]) })
	return slices.Sorted(maps.Keys(is))
}

var RemoveUser = web.DoneOp("admin", "Deletes an account and everything in it.", removeUser, 404, 409)

func removeUser(c *web.Request) error {
	id, err := c.IDArg("user")
	if err != nil {
		return err
	}
	if err := people.RemoveUser(c.Site.Store, id, c.Caller.User.Name); err != nil {
		return err
	}
	return c.RespondOK()
}
