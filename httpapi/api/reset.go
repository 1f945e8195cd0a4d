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

// ResetUserForm says what goes with an account's sign-in.
type ResetUserForm struct{ keys bool }

func (f *ResetUserForm) Fields(s *field.Set) {
	s.Bool("revokeKeys", &f.keys).Says("Revokes the account's API keys too.", `false`)
}

var ResetUser = web.Operation{
	Tag: "admin", Summary: "Makes a link with which a user sets a new password. The old password becomes " +
		"unusable. Sessions and connected devices end. One-time codes, recovery codes, passkeys and links are removed. " +
		"Nothing signs in before the link is used. API keys stay unless revokeKeys is set.",
	Body:  &web.Content{Media: web.JSONType, Name: "ResetCreate", Optional: true},
	Reply: web.Reply{Status: 200, Doc: "The link. It works once, for 24 hours.", Body: web.BodyOf("Reset")},
	Fails: []int{404}, Serve: resetUser,
}

func resetUser(c *web.Request) error {
	id, err := c.IDArg("user")
	if err != nil {
		return err
	}
	form := new(ResetUserForm)
	if c.R.ContentLength != 0 {
		if err := c.DecodeNew(form); err != nil {
			return err
		}
	}
	var done people.Reset
	if err := c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
		done, err = people.ResetLogin(tx, id, doneBy(c, id), form.keys)
		return err
	}); err != nil {
		return err
	}
	return c.RespondValue(http.StatusOK, map[string]any{
		"url": c.Site.Base + web.ResetPath + done.Secret, "expiresAt": c.Site.Store.Now().Add(people.ResetTime).UTC().Format(field.TimeLayout),
		"devicesEnded": done.Devices, "keysRevoked": done.Revoked, "keysKept": done.Kept,
	})
}

// resetForm is the form for a new password.
type resetForm struct{ password, repeat field.Secret }

func (f *resetForm) Fields(s *field.Set) {
	s.Secret("password", &f.password, field.Required).Says("The new password.", `"correct horse battery"`)
	s.Secret("repeat", &f.repeat).Says("The same password again.", `"correct horse battery"`)
}

var ReadReset = web.PageOp(readReset, 404)

func readReset(c *web.Request) error {
	var u *people.User
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		u, err = people.ResetOf(tx, c.Arg("token"))
		return err
	}); err != nil {
		return err
	}
	return c.RespondPage(
		http.StatusOK, embed.ClaimPage{Reset: true, Base: c.Site.Prefix(), UserName: u.Name, Shortest: people.MinPassword},
	)
}

var Reset = web.FormOp(303, reset, 400, 403, 404, 413, 415, 422, 503).NotCounted()

// reset sets the password and signs the browser in.
func reset(c *web.Request) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	values, err := session.ReadForm(c)
	if err != nil {
		return err
	}
	var u *people.User
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		u, err = people.ResetOf(tx, c.Arg("token"))
		return err
	}); err != nil {
		return err
	}
	form, mismatch := new(resetForm), error(nil)
	problems := field.Create(form, field.Object{"password": values.Get("password"), "repeat": values.Get("repeat")})
	if form.repeat.Said && form.repeat != form.password {
		mismatch = field.Problems{"repeat": "must be the same password"}
	}
	err = web.JoinProblems(problems, strong(c, &form.password, u.Name), mismatch)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Invalid {
		return c.RespondPage(http.StatusUnprocessableEntity, embed.ClaimPage{
			Reset: true, Base: c.Site.Prefix(), UserName: u.Name, Shortest: people.MinPassword,
			Errors: embed.ClaimErrors{
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
	if err := c.Site.Store.Update(func(tx *kv.Tx) (err error) {
		u, err = people.ResetOf(tx, c.Arg("token"))
		if err != nil {
			return err
		}
		u.Password = hash
		// Somebody else who knew the old password may have added a second step meanwhile.
		return errors.Join(people.SaveUser(tx, u), people.ClearLogin(tx, u.ID, ""),
			people.Note(
				tx, people.Activity{Owner: u.ID, Event: people.AccountChanged, Name: u.Name, Changes: []string{"password"}},
			))
	}); err != nil {
		return err
	}
	if err := session.StartSession(c, u); err != nil {
		return err
	}
	return session.Redirect(c, "/")
}
