package session

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/url"
	"strings"

	"kist/embed"
	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// CurrentPassword is the member of a body with which a request itself confirms who sends it.
const CurrentPassword = "currentPassword"

var errUnconfirmed = &record.Error{
	Fault: record.Denied, Code: "recent_sign_in_required",
	Text: "Confirm that it is you. The server has not asked who you are in the last ten minutes.",
}

// RequireConfirmed refuses a request that makes, redirects or copies lasting access, as d says, if it comes from a
// session whose user has not proved in the last people.RecentTime who they are. The member currentPassword of the body
// proves it too. API keys need nothing.
func RequireConfirmed(c *web.Request, d web.Access) error {
	if d.Confirms == nil || c.Caller == nil || !c.Caller.Key.Session || c.Caller.Key.Recent(c.Site.Store.Now()) {
		return nil
	}
	in, err := peek(c)
	if err != nil {
		return err
	}
	if !d.Confirms(in) {
		return nil
	}

	u := &c.Caller.User
	password, given := in[CurrentPassword].(string)
	if !given || u.Password == "" {
		return errUnconfirmed
	}
	right, err := CheckPassword(c, Guess{At: "user:" + u.ID.String(), Hash: u.Password, Password: password})
	if err != nil {
		return err
	}
	if !right {
		return record.Bad(map[string]string{CurrentPassword: "is wrong"})
	}
	return nil
}

// peek reads the members of a JSON body or a form; another body has none. The body can be read again.
func peek(c *web.Request) (field.Object, error) {
	media, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	isForm := media == formType
	if err != nil || c.R.ContentLength == 0 || !web.TakesAsJSON(c.R) && !isForm {
		return nil, nil //nolint:nilerr // the operation refuses such a body if it needs one
	}
	data, err := c.ReadBody(web.SmallBody)
	if err != nil {
		return nil, err
	}
	c.R.Body = io.NopCloser(bytes.NewReader(data))
	if !isForm {
		return field.Parse(data)
	}
	values, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, errForm
	}
	in := field.Object{}
	for name := range values {
		in[name] = values.Get(name)
	}
	return in, nil
}

// ConfirmForm proves again who the user of a session is: with the password, or with a passkey
// and its ticket, or with a code if the account has no password.
type ConfirmForm struct {
	password                        field.Secret
	code, recovery, ticket, passkey string
}

func (f *ConfirmForm) Fields(s *field.Set) {
	s.Secret("password", &f.password).Says("The password.", `"correct horse battery"`)
	s.Text(stepCode, &f.code, 32).Says("A one-time code, for an account without a password.", `"123456"`)
	s.Text(stepRecovery, &f.recovery, 64).
		Says("A recovery code, for an account without a password. It is used up.", `"BCDF-GHJK-LMNP-QRST"`)
	s.Text("ticket", &f.ticket, 512).Says("The ticket that came with the options for the passkey.", `"2mUq…"`)
	s.LongText(stepPasskey, &f.passkey, maxPasskeyAnswer).
		Says("The credential from the browser, as JSON text.", `"{\"id\":\"…\",\"type\":\"public-key\",…}"`)
}

var Confirm = web.Operation{
	Tag: "sign-in",
	Summary: "Confirms a session for ten minutes. That takes the password or a passkey, " +
		"or a code if the account has no password. A sign-in does the same, except through a proxy, " +
		"and through an issuer that does not say when it asked its user.",
	Body: web.BodyOf("Confirm"), Reply: web.DoneReply, Fails: []int{409, 429}, Serve: confirm,
}

func confirm(c *web.Request) error {
	form := new(ConfirmForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	if err := confirmBy(c, form); err != nil {
		return err
	}
	return c.RespondOK()
}

// confirmBy confirms the session if the form proves who the caller is.
func confirmBy(c *web.Request, form *ConfirmForm) error {
	if err := proves(c, form); err != nil {
		return err
	}
	return c.Site.Store.Update(func(tx *kv.Tx) error { return people.ConfirmSession(tx, c.Owner(), c.Caller.Key.ID) })
}

var errNoProof = &record.Error{
	Fault: record.Taken, Code: "nothing_to_confirm_with",
	Text: "This account has no password to confirm with. Use its passkey or a one-time code, " +
		"or let an administrator set a password for it, on the page Admin or with kist user passwd.",
}

// proves fails unless the form proves who the caller is. It never fails with 401, because
// the session goes on.
func proves(c *web.Request, f *ConfirmForm) error {
	u := &c.Caller.User
	if f.passkey != "" {
		return wrongly(provesByPasskey(c, f))
	}

	var name string // of the member that is judged
	var right bool
	var err error
	switch {
	case u.Password != "":
		name = "password"
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
	if err != nil || right {
		return err
	}
	return record.Bad(map[string]string{name: "is wrong"})
}

// provesByPasskey is proves for a passkey. It fails like a sign-in with one.
func provesByPasskey(c *web.Request, f *ConfirmForm) error {
	ticket, err := c.Site.Tickets.Open(f.ticket, grant.ForConfirming, network(c), c.Site.Store.Now())
	if err != nil {
		return err
	}
	if ticket.Owner != c.Owner() {
		return grant.ErrTicket
	}
	_, err = checkPasskey(c, ticket, f.passkey)
	return err
}

// confirmPage asks who uses the browser, by the means of the account, and leads on to next.
func confirmPage(c *web.Request, next string) (embed.ConfirmPage, error) {
	u, err := withPasskeys(c, c.Owner())
	if err != nil {
		return embed.ConfirmPage{}, err
	}
	page := embed.ConfirmPage{Base: c.Site.Prefix(), Next: next, UserName: u.Name, Password: u.Password != ""}
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		l, err := people.LoginOf(tx, u.ID)
		if err != nil {
			return err
		}
		page.Code = !page.Password && len(l.Secret) > 0
		links, err := people.Identities(tx, u.ID)
		if c.Site.OIDC != nil && len(links) > 0 {
			page.Issuer = c.Site.OIDC.Name
		}
		return err
	}); err != nil {
		return page, err
	}
	if len(u.keys) == 0 {
		return page, nil
	}
	ticket, options, err := passkeyOptions(c, grant.ForConfirming, u)
	if errors.Is(err, errNoPasskeys) {
		return page, nil
	}
	page.Passkey = embed.PasskeyAsk{Action: "/login/confirm", Next: next, Ticket: ticket, Options: string(options)}
	return page, err
}

var PostConfirm = web.FormOp(303, postConfirm, 400, 409, 413, 415, 422, 429, 503)

// postConfirm receives the form of a page that asks who uses the browser.
func postConfirm(c *web.Request) error {
	values, err := ReadForm(c)
	if err != nil {
		return err
	}
	next := nextPath(values.Get("next"))
	f := &ConfirmForm{ticket: values.Get("ticket"), passkey: values.Get("passkey")}
	f.password = field.Secret{Text: values.Get("password"), Said: true}
	f.code, f.recovery = splitCode(values.Get("code"))
	err = confirmBy(c, f)
	if err == nil {
		return Redirect(c, next)
	}

	page, failed := confirmPage(c, next)
	if failed != nil {
		return failed
	}
	e, ok := errors.AsType[*record.Error](err)
	if ok && (e.Fault == record.Invalid || e.Fault == record.Taken) {
		page.Problem = embed.Problem{Text: c.Lang().T("security.confirmWrong")}
		return c.RespondPage(web.Statuses[e.Fault], page)
	}
	return Problem(c, err, func(p embed.Problem) embed.Page { page.Problem = p; return page })
}

// splitCode tells a one-time code from a recovery code, which has letters.
func splitCode(text string) (code, recovery string) {
	if strings.ContainsFunc(strings.ToUpper(text), func(r rune) bool { return 'A' <= r && r <= 'Z' }) {
		return "", text
	}
	return text, ""
}
