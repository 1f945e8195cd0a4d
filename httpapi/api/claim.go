package api

import (
	"errors"
	"net/http"

	"kist/embed"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

var ReadClaim = web.PageOp(readClaim, 404)

func readClaim(c *web.Request) error {
	if err := c.Site.Store.View(func(tx *kv.Tx) error { return people.Claimable(tx, c.Arg("token")) }); err != nil {
		return err
	}
	return c.RespondPage(http.StatusOK, embed.ClaimPage{Base: c.Site.Prefix(), Shortest: people.MinPassword})
}

type claimForm struct {
	name             string
	password, repeat field.Secret
}

func (f *claimForm) Fields(s *field.Set) {
	s.Ruled("username", &f.name, record.CleanUserName, record.UserNamePattern, 64, field.Required, field.Filled).
		Says("Name of the first administrator.", `"ann"`)
	s.Secret("password", &f.password, field.Required).Says(
		"Password of at least 8 characters. Repeats, rows such as 1234 or qwerty, the user name and the first part of the "+
			"server's name count as one character each. Common passwords are refused.",
		`"correct horse battery"`,
	)
	s.Secret("repeat", &f.repeat).Says("The same password again.", `"correct horse battery"`)
}

var Claim = web.FormOp(201, claim, 400, 404, 409, 413, 415, 422, 503).NotCounted()

// claim creates the first administrator from a form, and signs them in.
func claim(c *web.Request) error {
	token := c.Arg("token")
	if err := session.RequireForm(c); err != nil {
		return err
	}
	if err := c.Site.Store.View(func(tx *kv.Tx) error { return people.Claimable(tx, token) }); err != nil {
		return err
	}
	values, err := session.ReadForm(c)
	if err != nil {
		return err
	}
	in := field.Object{}
	for name := range values {
		in[name] = values.Get(name)
	}
	form := new(claimForm)
	problems, repeat := field.Create(form, in), error(nil)
	if form.repeat.Said && form.repeat != form.password {
		repeat = field.Problems{"repeat": "must be the same password"}
	}
	err = web.JoinProblems(problems, strong(c, &form.password, form.name), repeat)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Invalid {
		return c.RespondPage(http.StatusUnprocessableEntity, embed.ClaimPage{
			Base: c.Site.Prefix(), UserName: values.Get("username"), Shortest: people.MinPassword,
			Errors: embed.ClaimErrors{
				UserName: claimProblem(c, "claim.nameProblem", e.Fields["username"]),
				Password: claimProblem(c, "claim.passwordProblem", e.Fields["password"]),
				Repeat:   claimProblem(c, "claim.repeatProblem", e.Fields["repeat"]),
			},
		})
	}
	if err != nil {
		return err
	}
	hash, err := c.Hash(form.password)
	if err != nil {
		return err
	}
	var first *people.User
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		if err := people.Claimable(tx, token); err != nil {
			return err
		}
		u, err := people.AddUser(tx, people.User{Name: form.name, Role: people.Admin, Quota: -1, Password: hash})
		if err != nil {
			return err
		}
		first = u
		return people.Note(tx, people.Activity{Event: people.AccountCreated, Name: u.Name})
	}); err != nil {
		return err
	}
	if err := session.StartSession(c, first); err != nil {
		return err
	}
	return c.RespondPage(http.StatusCreated, embed.ClaimedPage{Base: c.Site.Prefix(), UserName: form.name})
}

// claimProblem is a sentence about a field; "" if nothing is wrong with it.
func claimProblem(c *web.Request, key, problem string) string {
	if problem == "" {
		return ""
	}
	return c.Lang().T(key, "problem", c.Lang().Problem(problem))
}
