package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kist/httpapi/captcha"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/people"
	"kist/kv/record"
)

// siteVerify has the addresses where providers verify tokens.
var siteVerify = map[people.CaptchaProvider]string{
	people.CaptchaTurnstile: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
	people.CaptchaHCaptcha:  "https://api.hcaptcha.com/siteverify",
}

var errProvider = &record.Error{
	Fault: record.Busy, Code: "captcha_unavailable", Retry: 10 * time.Second,
	Text: "The captcha cannot be checked at the moment. Try again soon.",
}

// askProvider asks the provider of the settings whether a token is that of a solved captcha.
func askProvider(c *web.Request, set *people.Settings, token string) error {
	ctx, cancel := context.WithTimeout(c.R.Context(), c.Site.Challenges.Wait)
	defer cancel()
	if c.Site.Challenges.Turns.Take(ctx) != nil {
		return errProvider
	}
	defer c.Site.Challenges.Turns.Give()

	form := url.Values{"secret": {set.CaptchaSecret}, "response": {token}}
	if c.Addr.IsValid() {
		form.Set("remoteip", c.Addr.String())
	}
	address := cmp.Or(set.CaptchaURL, siteVerify[set.Provider()])
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")

	success, err := verdict(c, r)
	if err != nil || success == nil {
		c.Site.Log.Warn("cannot verify a captcha",
			"requestId", c.ID, "provider", string(set.Provider()), "error", err)
		return errProvider
	}
	if !*success {
		return captcha.ErrBadCaptcha
	}
	return nil
}

// verdict is what a provider answers to the request; nil if that says neither yes nor no.
func verdict(c *web.Request, r *http.Request) (success *bool, err error) {
	answer, err := c.Site.Outbound.Do(r, 0) // no redirects: the request has a secret
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, captcha.VerifyBytes+1))
	if err != nil {
		return nil, err
	}

	redirect, failed := answer.StatusCode >= 300 && answer.StatusCode < 400, answer.StatusCode >= 500
	var says struct{ Success *bool }
	if redirect || failed || len(body) > captcha.VerifyBytes || json.Unmarshal(bytes.TrimSpace(body), &says) != nil {
		return nil, nil
	}
	return says.Success, nil
}

// Settings are the effective settings: those of the administrator, with the captcha of the
// configuration if they have none.
func Settings(s *web.Site, tx *kv.Tx) (people.Settings, error) {
	set, err := people.ReadSettings(tx)
	if d := s.Captcha; set.Captcha == "" && d.Provider != "" {
		set.Captcha, set.CaptchaSiteKey, set.CaptchaSecret, set.CaptchaURL = d.Provider, d.SiteKey, d.Secret, d.VerifyURL
	}
	return set, err
}

func settings(c *web.Request) (set people.Settings, err error) {
	return set, c.Site.Store.View(func(tx *kv.Tx) error { set, err = Settings(c.Site, tx); return err })
}

func checkCaptcha(c *web.Request, set *people.Settings, token string) error {
	switch {
	case token == "" || len(token) > captcha.MaxCaptcha:
		return captcha.ErrBadCaptcha
	case set.Provider() == people.CaptchaPow:
		return c.Site.Challenges.Solved(token, c.Site.Store.Now())
	}
	return askProvider(c, set, token)
}

// RequireCaptcha refuses visitors who have not solved a captcha, if the upload request asks
// for one and the instance has a provider.
func RequireCaptcha(c *web.Request, q *inbox.Request) error {
	if !q.Captcha {
		return nil
	}
	set, err := settings(c)
	if err != nil || set.Provider() == people.CaptchaNone {
		return err
	}
	pass, token := c.R.Header.Get("X-Captcha-Pass"), c.R.Header.Get("X-Captcha-Token")
	switch {
	case pass != "" && c.Site.Challenges.Passes(pass, c.Addr, c.Site.Store.Now()):
		return nil
	case token != "":
		return checkCaptcha(c, &set, token)
	case pass != "":
		return captcha.ErrBadCaptcha
	}
	return captcha.ErrNoCaptcha
}

var errCaptchaOff = record.NotFound("captcha")

var ReadChallenge = web.Operation{
	Tag: "captcha",
	Summary: "A challenge of the built-in proof of work in ALTCHA's format. " +
		"Find the number that, appended to the salt, has the SHA-256 in the challenge. " +
		"In version 2, find the counter for which the SHA-256 of salt, nonce and counter begins with the prefix.",
	Args:  []web.Param{captchaVersion},
	Reply: web.Reply{Status: 200, Doc: "The challenge.", Body: web.BodyOf("CaptchaChallenges")},
	Fails: []int{404}, Serve: readChallenge,
}

func readChallenge(c *web.Request) error {
	set, err := settings(c)
	if err != nil {
		return err
	}
	if set.Provider() != people.CaptchaPow {
		return errCaptchaOff
	}
	var challenge any
	switch c.R.URL.Query().Get("version") {
	case "", "1":
		challenge = c.Site.Challenges.Challenge(c.Site.Store.Now())
	case "2":
		challenge = c.Site.Challenges.Challenge2(c.Site.Store.Now())
	default:
		return &record.Error{Fault: record.Malformed, Code: "bad_query", Text: "The parameter version must be 1 or 2."}
	}
	return c.RespondValue(http.StatusOK, challenge)
}

// TokenOfCaptcha is the form that is exchanged for a pass.
type TokenOfCaptcha struct{ token string }

func (f *TokenOfCaptcha) Fields(s *field.Set) {
	s.Text("token", &f.token, captcha.MaxCaptcha, field.Required, field.Filled).
		Says("The token from solving the captcha.", `"eyJhbGdvcml0aG0iOiJTSEEtMjU2Iiwi…"`)
}

var VerifyCaptcha = web.Operation{
	Tag: "captcha",
	Summary: "Exchanges the token of a solved captcha for a pass. The token is valid once, " +
		"the pass for ten minutes for the caller's address.",
	Body:  web.BodyOf("CaptchaToken"),
	Reply: web.Reply{Status: 200, Doc: "The pass, for the header x-captcha-pass.", Body: web.BodyOf("CaptchaPass")},
	Fails: []int{404, 503}, Uncounted: true, Serve: verifyCaptcha,
}

func verifyCaptcha(c *web.Request) error {
	form := new(TokenOfCaptcha)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	set, err := settings(c)
	if err != nil {
		return err
	}
	if set.Provider() == people.CaptchaNone {
		return errCaptchaOff
	}
	if err := checkCaptcha(c, &set, form.token); err != nil {
		return err
	}
	pass, ends := c.Site.Challenges.Pass(c.Addr, c.Site.Store.Now())
	until := ends.UTC().Format(field.TimeLayout)
	return c.RespondJSON(http.StatusOK, []byte(`{"ok":true,"pass":"`+pass+`","expiresAt":"`+until+`"}`))
}

var captchaVersion = web.Param{
	In: "query", Name: "version", Doc: "Version of ALTCHA's format: 1 (the default) or 2.",
	Schema: web.Object{"type": "string", "enum": []string{"1", "2"}},
}
