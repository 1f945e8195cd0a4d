package session

import (
	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// ConfirmForm proves again who the user of a session is: with the password, or with a passkey
// and its ticket, or with a code if the account has no password.
type ConfirmForm struct {
	password                        field.Secret
	code, recovery, ticket, passkey string
}

func (f *ConfirmForm) Fields(s *field.Set) {
	s.Secret("password", &f.password).Says("The password.", `"correct horse battery"`)
	s.Text(stepCode, &f.code, 32).Says("A one-time code, for an account without a password.", `"123456"`)
	s.Text(stepRecovery, &f.recovery, 64).Says("A recovery code, for an account without a password. It is used up.", `"BCDF-GHJK-LMNP-QRST"`)
	s.Text("ticket", &f.ticket, 512).Says("The ticket that came with the options for the passkey.", `"2mUq…"`)
	s.LongText(stepPasskey, &f.passkey, maxPasskeyAnswer).Says("The credential from the browser, as JSON text.", `"{\"id\":\"…\",\"type\":\"public-key\",…}"`)
}

var Confirm = web.Operation{
	Tag: "session", Summary: "Confirms a session for ten minutes, with the password or a passkey, or with a code if the account has no password. A sign-in does the same, except through a proxy, and through an issuer that does not say when it asked its user.",
	Body: web.BodyOf("Confirm"), Reply: web.DoneReply, Fails: []int{409, 429}, Serve: confirm,
}

func confirm(c *web.Request) error {
	form := new(ConfirmForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	if err := proves(c, form); err != nil {
		return err
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error { return people.ConfirmSession(tx, c.Owner(), c.Caller.Key.ID) }); err != nil {
		return err
	}
	return c.RespondOK()
}

var errNoProof = &record.Error{Fault: record.Taken, Code: "nothing_to_confirm_with", Text: "This account has no password to confirm with. " +
	"Use its passkey or a one-time code, or let an administrator set a password for it, on the page Admin or with kist user passwd."}

// proves fails unless the form proves who the caller is. It never fails with 401, because
// the session goes on.
func proves(c *web.Request, f *ConfirmForm) error {
	u := &c.Caller.User
	if f.passkey != "" {
		k, err := c.Site.Tickets.Open(f.ticket, grant.ForConfirming, network(c), c.Site.Store.Now())
		if err == nil && k.Owner != u.ID {
			err = grant.ErrTicket
		}
		if err == nil {
			_, err = checkPasskey(c, k, f.passkey)
		}
		return wrongly(err)
	}
	name, right, err := "password", false, error(nil)
	switch {
	case u.Password != "":
		if !f.password.Said {
			return record.Bad(map[string]string{name: "is required: the account has one"})
		}
		right, err = CheckPassword(c, Guess{At: "user:" + u.ID.String(), Hash: u.Password, Password: f.password.Text})
	case f.recovery != "":
		name = stepRecovery
		right, err = checkStep(c, u, &StepForm{recovery: f.recovery})
	case f.code != "":
		name = stepCode
		right, err = checkStep(c, u, &StepForm{code: f.code})
	default:
		return errNoProof
	}
	if err == nil && !right {
		err = record.Bad(map[string]string{name: "is wrong"})
	}
	return err
}
