package session

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"

	"kist/embed"
	"kist/httpapi/grant"
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
func network(c *web.Request) [32]byte { return sha256.Sum256([]byte(grant.Network(c.Addr).String())) }

func issue(c *web.Request, purpose grant.Purpose, u *record.User) (string, grant.Ticket) {
	k := grant.Ticket{For: purpose, Network: network(c)}
	if u != nil {
		k.Owner, k.Password = u.ID, sha256.Sum256([]byte(u.Password))
	}
	return c.Site.Tickets.Issue(k, c.Site.Store.Now())
}

// needsStep returns a *web.StepNeeded if the account has a second step.
func needsStep(c *web.Request, u *record.User) error {
	step := new(web.StepNeeded)
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		l, err := people.LoginOf(tx, u.ID)
		if err != nil {
			return err
		}
		if len(l.Secret) > 0 {
			step.Methods = append(step.Methods, stepCode)
		}
		if len(step.Methods) > 0 && len(l.Recovery) > 0 {
			step.Methods = append(step.Methods, stepRecovery)
		}
		return nil
	}); err != nil || len(step.Methods) == 0 {
		return err
	}
	step.Ticket, _ = issue(c, grant.ForSecondStep, u)
	return step
}

// StepForm is the answer to a second step: one of its members besides the ticket.
type StepForm struct{ ticket, code, recovery string }

func (f *StepForm) Fields(s *field.Set) {
	s.Text("ticket", &f.ticket, 512, field.Required, field.Filled).Says("The ticket in the answer to the password. It is valid for five minutes, for one sign-in, from the network that it was given to.", `"2mUq…"`)
	s.Text(stepCode, &f.code, 32).Says("A one-time code.", `"123456"`)
	s.Text(stepRecovery, &f.recovery, 64).Says("A recovery code. It is used up.", `"BCDF-GHJK-LMNP-QRST"`)
}

var SecondFactor = web.Operation{
	Tag: "session", Summary: "Signs a browser in with the second step, after the password.",
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
	u, err := finish(c, form)
	if err != nil {
		return err
	}
	return AnswerUser(c, http.StatusOK, u.ID)
}

var errStep = &record.Error{Fault: record.Unauthorized, Code: "wrong_second_factor", Text: "The code is wrong or was used before."}

// finish signs in with a second step. It counts and logs a wrong one like a wrong password.
func finish(c *web.Request, f *StepForm) (*record.User, error) {
	now := c.Site.Store.Now()
	k, err := c.Site.Tickets.Open(f.ticket, grant.ForSecondStep, network(c), now)
	if err != nil {
		return nil, err
	}
	u, err := holder(c, k)
	if err != nil {
		return nil, err
	}
	right, err := checkStep(c, u, f)
	if _, limited := errors.AsType[*record.Error](err); limited || err == nil && !right {
		failedSignIn(c, u.Name)
	}
	if err != nil {
		return nil, err
	}
	if !right {
		if err := c.Site.Store.Update(func(tx *kv.Tx) error {
			return people.Note(tx, record.Activity{Owner: u.ID, Event: record.StepFailed, Address: address(c)})
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

// holder is the account of a ticket, if it is as it was when the ticket was made.
func holder(c *web.Request, k grant.Ticket) (u *record.User, err error) {
	err = c.Site.Store.View(func(tx *kv.Tx) (err error) { u, err = people.User(tx, k.Owner); return err })
	if kv.Missing(err) || err == nil && (u.Disabled || sha256.Sum256([]byte(u.Password)) != k.Password) {
		err = grant.ErrTicket
	}
	return u, err
}

// checkStep reports whether a code is right, and uses it up. Only those who know the
// password can make wrong guesses here, so they have their own count for each account.
func checkStep(c *web.Request, u *record.User, f *StepForm) (bool, error) {
	return check(c, Guess{At: "code:" + u.ID.String(), device: device(c, u)}, func(people.Seat) (right bool, err error) {
		return right, c.Site.Store.Update(func(tx *kv.Tx) (err error) {
			if f.recovery != "" {
				right, err = people.UseRecovery(tx, u.ID, f.recovery)
			} else {
				right, err = people.UseCode(tx, u.ID, f.code)
			}
			return err
		})
	})
}

// answerStep shows the page that asks for the second step.
func answerStep(c *web.Request, status int, next string, step *web.StepNeeded, problem embed.Problem) error {
	return c.RespondPage(status, embed.StepPage{Base: c.Site.Prefix(), Next: next, Ticket: step.Ticket, Problem: problem})
}

var PostStep = web.FormOp(303, postStep, 400, 401, 403, 413, 415, 429, 503)

// postStep receives the form of that page. Its one field takes both kinds of codes.
func postStep(c *web.Request) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	values, err := ReadForm(c)
	if err != nil {
		return err
	}
	next, f := nextPath(values.Get("next")), &StepForm{ticket: values.Get("ticket"), code: values.Get("code")}
	if strings.ContainsFunc(strings.ToUpper(f.code), func(r rune) bool { return 'A' <= r && r <= 'Z' }) {
		f.code, f.recovery = "", f.code
	}
	if _, err = finish(c, f); err == nil {
		return Redirect(c, next)
	}
	return Problem(c, err, func(p embed.Problem) embed.Page {
		if errors.Is(err, grant.ErrTicket) {
			return embed.LoginPage{Base: c.Site.Prefix(), Next: next, Problem: p}
		}
		return embed.StepPage{Base: c.Site.Prefix(), Next: next, Ticket: f.ticket, Problem: p}
	})
}
