package session

import (
	"crypto/sha256"
	"errors"
	"slices"

	"kist/embed"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// The names of the members that answer a second step.
const (
	stepCode     = "code"
	stepRecovery = "recoveryCode"
)

// network is the digest of the client's network, which tickets are bound to.
func network(c *web.Request) [32]byte { return sha256.Sum256([]byte(limit.Network(c.Addr).String())) }

func issue(c *web.Request, purpose grant.Purpose, u *people.User) (string, grant.Ticket) {
	k := grant.Ticket{For: purpose, Network: network(c)}
	if u != nil {
		k.Owner, k.Password = u.ID, sha256.Sum256([]byte(u.Password))
	}
	return c.Site.Tickets.Issue(k, c.Site.Store.Now())
}

// needsStep returns a *web.StepNeeded if the account has a second step.
func needsStep(c *web.Request, u *people.User) error {
	step := new(web.StepNeeded)
	var keys []people.Passkey
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		l, err := people.LoginOf(tx, u.ID)
		if err != nil {
			return err
		}
		if len(l.Secret) > 0 {
			step.Methods = append(step.Methods, stepCode)
		}
		keys, err = people.Passkeys(tx, u.ID)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			step.Methods = append(step.Methods, stepPasskey)
		}
		if len(step.Methods) > 0 && len(l.Recovery) > 0 {
			step.Methods = append(step.Methods, stepRecovery)
		}
		return nil
	}); err != nil || len(step.Methods) == 0 {
		return err
	}

	if len(keys) > 0 {
		var err error
		step.Ticket, step.Options, err = passkeyOptions(c, grant.ForSecondStep, &passkeyUser{u, keys})
		if err == nil {
			return step
		}
		if !errors.Is(err, errNoPasskeys) {
			return err
		}
		// The address has changed: the other ways are left.
		step.Methods = slices.DeleteFunc(step.Methods, func(m string) bool { return m == stepPasskey })
	}
	step.Ticket, _ = issue(c, grant.ForSecondStep, u)
	return step
}

// StepForm is the answer to a second step: one of its members besides the ticket.
type StepForm struct{ ticket, code, recovery, passkey string }

func (f *StepForm) Fields(s *field.Set) {
	s.Text("ticket", &f.ticket, 512, field.Required, field.Filled).
		Says("The ticket in the answer to the password. It is valid for five minutes, for one sign-in, "+
			"from the network that it was given to.", `"2mUq…"`)
	s.Text(stepCode, &f.code, 32).Says("A one-time code.", `"123456"`)
	s.Text(stepRecovery, &f.recovery, 64).Says("A recovery code. It is used up.", `"BCDF-GHJK-LMNP-QRST"`)
	s.LongText(stepPasskey, &f.passkey, maxPasskeyAnswer).
		Says("The credential from the browser for the options in the answer to the password, as JSON text.",
			`"{\"id\":\"…\",\"type\":\"public-key\",…}"`)
}

var SecondFactor = web.Operation{
	Tag: "sign-in", Summary: "Signs a browser in with the second step, after the password.",
	Body: web.BodyOf("SecondFactor"), Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")},
	Fails: []int{401, 403, 429, 503}, Serve: secondFactor,
}

func secondFactor(c *web.Request) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	form := new(StepForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	u, err := finish(c, grant.ForSecondStep, form)
	if err != nil {
		return err
	}
	return AnswerUser(c, u.ID)
}

var errStep = &record.Error{
	Fault: record.Unauthorized, Code: "wrong_second_factor",
	Text: "The code is wrong or was used before.",
}

// finish signs in with a second step, or with a passkey alone. It counts and logs a wrong
// code like a wrong password. Passkeys cannot be guessed and are not counted.
func finish(c *web.Request, purpose grant.Purpose, f *StepForm) (*people.User, error) {
	now := c.Site.Store.Now()
	k, err := c.Site.Tickets.Open(f.ticket, purpose, network(c), now)
	if err != nil {
		return nil, err
	}
	if purpose == grant.ForPasskey {
		return finishByPasskey(c, k, f.passkey, "")
	}
	u, err := holder(c, k)
	if err != nil {
		return nil, err
	}
	if f.passkey != "" {
		return finishByPasskey(c, k, f.passkey, u.Name)
	}

	right, err := checkStep(c, u, f)
	if err != nil {
		if _, limited := errors.AsType[*record.Error](err); limited {
			failedSignIn(c, u.Name)
		}
		return nil, err
	}
	if !right {
		failedSignIn(c, u.Name)
		if err := c.Site.Store.Update(func(tx *kv.Tx) error {
			return people.Note(tx, people.Activity{Owner: u.ID, Event: people.StepFailed, Address: address(c)})
		}); err != nil {
			return nil, err
		}
		return nil, errStep
	}
	if err := c.Site.Tickets.Use(k, now); err != nil {
		return nil, err
	}
	return u, StartSession(c, u)
}

// finishByPasskey is finish for a passkey. name is that of the account, if the sign-in has begun
// with one.
func finishByPasskey(c *web.Request, k grant.Ticket, answer, name string) (*people.User, error) {
	u, err := checkPasskey(c, k, answer)
	if err != nil {
		if _, shown := errors.AsType[*record.Error](err); shown {
			failedSignIn(c, name)
		}
		return nil, err
	}
	if k.For == grant.ForPasskey {
		if err := requireIssuer(c, u); err != nil {
			return nil, err
		}
	}
	return u, StartSession(c, u)
}

// holder is the account of a ticket, if it is as it was when the ticket was made.
func holder(c *web.Request, k grant.Ticket) (u *people.User, err error) {
	err = c.Site.Store.View(func(tx *kv.Tx) (err error) { u, err = people.ReadUser(tx, k.Owner); return err })
	if kv.Missing(err) {
		return nil, grant.ErrTicket
	}
	if err != nil {
		return nil, err
	}
	if u.Disabled || sha256.Sum256([]byte(u.Password)) != k.Password {
		return nil, grant.ErrTicket
	}
	return u, nil
}

// checkStep reports whether a code is right, and uses it up. Only those who know the
// password can make wrong guesses here, so they have their own count for each account.
// After CodesPerDay wrong one-time codes only recovery codes, passkeys and browsers that have
// signed in before still work. The codes themselves are checked by people.UseCode and people.UseRecovery.
func checkStep(c *web.Request, u *people.User, f *StepForm) (bool, error) {
	g := Guess{At: "code:" + u.ID.String(), device: device(c, u), oneTime: f.recovery == ""}
	right, err := check(c, g, func(people.Seat) (right bool, err error) {
		return right, c.Site.Store.Update(func(tx *kv.Tx) (err error) {
			if f.recovery != "" {
				right, err = people.UseRecovery(tx, u.ID, f.recovery)
			} else {
				right, err = people.UseCode(tx, u.ID, f.code)
			}
			return err
		})
	})
	e, ok := errors.AsType[*record.Error](err)
	switch {
	case !ok || e.Fault != record.TooMany:
		return right, err
	case e.Retry > limit.GuessWindow:
		return false, &record.Error{
			Fault: record.TooMany, Code: "too_many_codes", Retry: e.Retry,
			Text: "Too many wrong one-time codes in a day. Use a recovery code or a passkey, " +
				"or try again " + record.In(e.Retry) + ".",
		}
	}
	return false, tooManyCodes(e.Retry)
}

// stepPage asks for the second step.
func stepPage(c *web.Request, next string, step *web.StepNeeded) embed.StepPage {
	page := embed.StepPage{Base: c.Site.Prefix(), Next: next, Ticket: step.Ticket}
	if step.Options != nil {
		page.Passkey = embed.PasskeyAsk{
			Action: "/login/second-factor", Next: next, Ticket: step.Ticket, Options: string(step.Options),
		}
	}
	return page
}

// loginPage asks for a name and a password, or a passkey if anybody here has one.
func loginPage(c *web.Request, next string) (embed.LoginPage, error) {
	page, some := embed.LoginPage{Base: c.Site.Prefix(), Next: next, NoPassword: c.Site.NoPasswords}, false
	if c.Site.OIDC != nil {
		page.Issuer = c.Site.OIDC.Name
	}
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		all, err := people.Users(tx)
		page.Unclaimed, some = len(all) == 0, people.AnyPasskey(tx)
		return err
	}); err != nil || !some {
		return page, err
	}
	ticket, options, err := passkeyOptions(c, grant.ForPasskey, nil)
	if errors.Is(err, errNoPasskeys) {
		return page, nil
	}
	page.Passkey = embed.PasskeyAsk{Action: "/login/passkey", Next: next, Ticket: ticket, Options: string(options)}
	return page, err
}

var (
	PostStep    = web.FormOp(303, postStep, 400, 401, 403, 413, 415, 429, 503)
	PostPasskey = web.FormOp(303, postPasskey, 400, 401, 403, 413, 415, 429, 503)
)

func postStep(c *web.Request) error    { return receiveStep(c, grant.ForSecondStep) }
func postPasskey(c *web.Request) error { return receiveStep(c, grant.ForPasskey) }

// receiveStep receives the second steps of the pages to sign in. The field for a code takes
// one-time codes and recovery codes.
func receiveStep(c *web.Request, purpose grant.Purpose) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	values, err := ReadForm(c)
	if err != nil {
		return err
	}
	next, f := nextPath(values.Get("next")), &StepForm{ticket: values.Get("ticket"), passkey: values.Get("passkey")}
	f.code, f.recovery = splitCode(values.Get("code"))
	_, err = finish(c, purpose, f)
	if err == nil {
		return Redirect(c, next)
	}

	login, e := loginPage(c, next)
	if e != nil {
		return e
	}
	return Problem(c, err, func(p embed.Problem) embed.Page {
		if purpose == grant.ForPasskey || errors.Is(err, grant.ErrTicket) {
			login.Problem = p
			return login
		}
		return embed.StepPage{Base: c.Site.Prefix(), Next: next, Ticket: f.ticket, Problem: p}
	})
}
