package session

import (
	"encoding/base32"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kist/httpapi/render"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
)

// ShownSecurity is how an account signs in, as its owner sees it.
type ShownSecurity struct {
	password, possible, recent bool
	since                      time.Time
	recovery, passkeys         int64
}

func (v *ShownSecurity) Fields(s *field.Set) {
	s.Bool("hasPassword", &v.password).Says("Whether the account has a password.", `true`)
	s.Time("codesSince", &v.since).
		Says("When one-time codes were set up; null without them.", `"2026-01-02T03:04:05.678Z"`)
	s.Number("passkeys", &v.passkeys, 0, people.MaxPasskeys).Says("Number of passkeys.", `2`)
	s.Bool("passkeysPossible", &v.possible).
		Says("Whether passkeys work at the server's address: it needs HTTPS and a name.", `true`)
	s.Bool("recent", &v.recent).Says("Whether the session was confirmed in the last ten minutes.", `true`)
	s.Number("recoveryCodes", &v.recovery, 0, people.RecoveryCodes).Says("Number of unused recovery codes.", `10`)
}

var ReadSecurity = web.ReadOp("sign-in",
	"Reads how the caller's account signs in.", "How it signs in.", "Security", readSecurity)

func readSecurity(c *web.Request) error {
	var v ShownSecurity
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, c.Owner())
		if err != nil {
			return err
		}
		l, err := people.LoginOf(tx, u.ID)
		if err != nil {
			return err
		}
		keys, err := people.Passkeys(tx, u.ID)
		v = ShownSecurity{
			password: u.Password != "", since: l.Since,
			recovery: int64(len(l.Recovery)), passkeys: int64(len(keys)),
		}
		return err
	}); err != nil {
		return err
	}
	_, err := relyingParty(c)
	v.possible, v.recent = err == nil, c.Caller.Key.Recent(c.Site.Store.Now())
	return c.RespondData(http.StatusOK, &v)
}

var secretText = base32.StdEncoding.WithPadding(base32.NoPadding)

var OfferCodes = web.Operation{
	Tag: "sign-in", Summary: "Makes a secret for one-time codes. Nothing is stored until it is confirmed with a code.",
	Reply: web.Reply{Status: 200, Doc: "The secret, for an authenticator app.", Body: web.BodyOf("CodesOffer")},
	Serve: offerCodes,
}

func offerCodes(c *web.Request) error {
	secret := make([]byte, 20) // as RFC 4226, section 4 recommends
	kv.Random(secret)
	text := secretText.EncodeToString(secret)
	uri := codesURI(c.Site.BaseURL.Hostname(), c.Caller.User.Name, text)
	qr, err := render.QR(uri)
	if err != nil {
		return err
	}
	svg := strings.Replace(string(qr), "<svg", `<svg xmlns="http://www.w3.org/2000/svg"`, 1)
	picture := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg))
	return c.RespondValue(http.StatusOK, map[string]any{"secret": text, "uri": uri, "qr": picture})
}

// codesURI is the address from which an authenticator app takes a secret, as its makers agree ("Key Uri Format"). The
// first colon of the label ends the issuer, so the issuer has none.
func codesURI(host, user, secret string) string {
	if strings.Contains(host, ":") { // IPv6
		host = "Kist"
	}
	label := &url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + host + ":" + user}
	label.RawQuery = "secret=" + secret + "&issuer=" + url.QueryEscape(host)
	return label.String()
}

// CodesForm confirms a secret for one-time codes.
type CodesForm struct{ secret, code string }

func (f *CodesForm) Fields(s *field.Set) {
	s.Text("secret", &f.secret, 128, field.Required, field.Filled).
		Says("The secret that was offered.", `"JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"`)
	s.Text("code", &f.code, 32, field.Required, field.Filled).Says("A code that the app shows for it.", `"123456"`)
}

var SetCodes = web.Operation{
	Tag: "sign-in", Summary: "Turns one-time codes on, or replaces their secret.",
	Body: web.BodyOf("Codes"),
	Reply: web.Reply{
		Status: 200, Doc: "New recovery codes, if the account had none. They are shown only once.",
		Body: web.BodyOf("RecoveryCodes"),
	},
	Serve: setCodes,
}

func setCodes(c *web.Request) error {
	form := new(CodesForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	secret, err := secretText.DecodeString(strings.ToUpper(strings.Join(strings.Fields(form.secret), "")))
	if err != nil {
		secret = nil // SetCodes says what is wrong
	}
	return answerRecovery(c, func(tx *kv.Tx) ([]string, error) {
		return people.SetCodes(tx, c.Owner(), secret, form.code)
	})
}

var ClearCodes = web.DoneOp("sign-in", "Turns one-time codes off.", clearCodes, 404)

func clearCodes(c *web.Request) error {
	if err := c.Site.Store.Update(func(tx *kv.Tx) error { return people.ClearCodes(tx, c.Owner()) }); err != nil {
		return err
	}
	return c.RespondOK()
}

var RenewRecovery = web.Operation{
	Tag: "sign-in", Summary: "Replaces the recovery codes.",
	Reply: web.Reply{Status: 200, Doc: "The new ones. They are shown only once.", Body: web.BodyOf("RecoveryCodes")},
	Fails: []int{409}, Serve: renewRecovery,
}

func renewRecovery(c *web.Request) error {
	return answerRecovery(c, func(tx *kv.Tx) ([]string, error) { return people.RenewRecovery(tx, c.Owner()) })
}

// answerRecovery answers with the recovery codes that change has made.
func answerRecovery(c *web.Request, change func(*kv.Tx) ([]string, error)) error {
	var codes []string
	if err := c.UpdateAsCaller(func(tx *kv.Tx) (err error) { codes, err = change(tx); return err }); err != nil {
		return err
	}
	return c.RespondValue(http.StatusOK, map[string]any{"recoveryCodes": append([]string{}, codes...)})
}
