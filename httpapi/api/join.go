package api

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"kist/embed"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

var ReadJoin = web.PageOp(readJoin, 404, 429)

func readJoin(c *web.Request) error {
	page, err := joinPage(c)
	if err != nil {
		return refuseJoin(c, err)
	}
	if c.Caller != nil && c.Caller.Key.Session {
		page.Invited.SignedIn = c.Caller.User.Name
	}
	return c.RespondPage(http.StatusOK, page)
}

// joinPage is the page of the open invitation whose secret is in the path.
func joinPage(c *web.Request) (embed.ClaimPage, error) {
	v, by, err := open(c, c.Arg("token"))
	if err != nil {
		return embed.ClaimPage{}, err
	}
	invited := &embed.Invited{Token: c.Arg("token"), By: cmp.Or(by.DisplayName, by.Name), NoPassword: c.Site.NoPasswords}
	if c.Site.OIDC != nil {
		invited.Issuer = c.Site.OIDC.Name
	}
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		for _, to := range v.Collections {
			title, err := titleOf(tx, v.Owner, to.Collection)
			if err != nil {
				return err
			}
			if title != "" {
				invited.Collections = append(invited.Collections, title)
			}
		}
		return nil
	})
	if err != nil {
		return embed.ClaimPage{}, err
	}
	passkey, err := session.OfferFirst(c)
	return embed.ClaimPage{
		Base: c.Site.Prefix(), Shortest: people.MinPassword, Invited: invited, Passkey: passkey,
	}, err
}

// titleOf is the title of an owner's collection; "" if it is gone.
func titleOf(tx *kv.Tx, owner, id record.ID) (string, error) {
	r, err := catalog.Owned(tx, owner, record.Collections, id)
	if kv.Missing(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	b, err := r.Decode()
	if err != nil {
		return "", err
	}
	return b.Title(), nil
}

// refuseJoin says that an invitation lets nobody in any more. It returns other errors.
func refuseJoin(c *web.Request, err error) error {
	if !kv.Missing(err) {
		return err
	}
	c.W.Code = "not_found"
	return c.RespondPage(http.StatusNotFound, embed.MessagePage{
		Base: c.Site.Prefix(), Home: true, Title: c.Lang().T("join.gone"), Text: c.Lang().T("join.goneText"),
	})
}

var PostJoin = web.FormOp(303, postJoin, 400, 401, 403, 404, 409, 413, 415, 422, 429, 503).NotCounted()

// postJoin makes the account of an invitation from a form, and leads to what is shared.
func postJoin(c *web.Request) error {
	err := c.SameOrigin()
	if err != nil {
		return err
	}
	page, err := joinPage(c)
	if err != nil {
		return refuseJoin(c, err)
	}
	values, err := session.ReadForm(c)
	if err != nil {
		return err
	}
	page.UserName, page.Invited.DisplayName = values.Get("username"), values.Get("displayName")
	joined, err := joinByForm(c, values)
	if err != nil {
		return joinAgain(c, page, err)
	}
	return session.Redirect(c, session.AfterJoin(joined))
}

// joinByForm makes the account with a passkey if the form has one, otherwise with a password.
func joinByForm(c *web.Request, values url.Values) ([]*record.Record, error) {
	in := field.Object{}
	for _, name := range []string{"username", "displayName", "password"} {
		in[name] = values.Get(name)
	}
	answer := values.Get("passkey")
	if answer == "" && c.Site.NoPasswords {
		return nil, session.ErrPasswordOff
	}
	form, repeat := &NewAccount{passkey: answer != ""}, error(nil)
	problems := field.Create(form, in)
	if form.password.Said && values.Get("repeat") != form.password.Text {
		repeat = field.Problems{"repeat": "must be the same password"}
	}
	err := web.JoinProblems(problems, strong(c, &form.password, form.name), repeat)
	if err != nil {
		return nil, err
	}

	var passkey people.Passkey
	if answer != "" {
		passkey, err = session.FirstPasskey(c, values.Get("ticket"), answer)
		if err != nil {
			return nil, err
		}
	}
	_, joined, err := joinWith(c, c.Arg("token"), form, passkey)
	return joined, err
}

// joinAgain shows the page again, with what was typed but for the password, if a field was refused or it may succeed
// later: with the reason. It returns other errors.
func joinAgain(c *web.Request, page embed.ClaimPage, err error) error {
	again := []record.Fault{
		record.Invalid, record.Taken, record.Unauthorized, record.TooMany, record.Busy, record.Full,
	}
	e, known := errors.AsType[*record.Error](err)
	if !known || !slices.Contains(again, e.Fault) {
		return refuseJoin(c, err)
	}
	page.Errors = embed.ClaimErrors{
		UserName: claimProblem(c, "claim.nameProblem", e.Fields["username"]),
		Display:  claimProblem(c, "join.displayProblem", e.Fields["displayName"]),
		Password: claimProblem(c, "claim.passwordProblem", e.Fields["password"]),
		Repeat:   claimProblem(c, "claim.repeatProblem", e.Fields["repeat"]),
	}
	switch e.Fault {
	case record.Taken:
		page.Errors.UserName = c.Lang().T("join.taken")
	case record.Unauthorized:
		page.Errors.Form = c.Lang().T("join.passkeyRefused")
	case record.TooMany, record.Busy, record.Full:
		page.Errors.Form = web.ErrorText(e, c.Lang())
		web.SetRetry(c.W.Header(), e)
		c.W.Code = e.Code
	}
	return c.RespondPage(web.Statuses[e.Fault], page)
}
