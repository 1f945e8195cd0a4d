package session

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"kist/embed"
	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// DeviceForm is a client's request to connect.
type DeviceForm struct{ client, clientID, scope string }

func (f *DeviceForm) Fields(s *field.Set) {
	s.Name("extension_id", &f.client, 128, field.Filled).Says("Name of the client.", `"kist-extension"`)
	s.Name("client_id", &f.clientID, 128, field.Filled).Says("Name of the client, as standard libraries send it.", `null`)
	s.Text("scope", &f.scope, 1024).Says("Ignored: every device gets read, write and upload.", `null`)
}

// readDeviceForm reads a request of the device flow into a new form: JSON, or the form of RFC 8628.
func readDeviceForm(c *web.Request, form field.Shaped) error {
	if !isForm(c) {
		return c.DecodeNew(form)
	}
	if err := c.SameOrigin(); err != nil { // a page of another site can send forms
		return err
	}
	values, err := ReadForm(c)
	if err != nil {
		return err
	}
	in := field.Object{}
	for name, all := range values {
		if len(all) > 1 { // RFC 6749, section 3.2
			return &record.Error{
				Fault: record.Malformed, Code: "malformed",
				Text: "The form names " + strconv.Quote(web.CutTo(name, 64)) + " twice.",
			}
		}
		if all[0] != "" { // as if it were not there
			in[name] = all[0]
		}
	}
	return web.JoinProblems(c.RefuseUnknown(form, in), field.Create(form, in))
}

var AuthorizeDevice = web.Operation{
	Tag: "sign-in", Summary: "Starts the device flow (RFC 8628): a client asks to connect. The body may be a form, too.",
	Body:  web.BodyOf("Device"),
	Reply: web.Reply{Status: 200, Doc: "The codes.", Body: web.BodyOf("DeviceCodes")},
	Fails: []int{403, 429}, Serve: authorizeDevice,
}

// authorizeDevice starts the device flow (RFC 8628, section 3.1).
func authorizeDevice(c *web.Request) error {
	form := new(DeviceForm)
	err := readDeviceForm(c, form)
	if err != nil {
		return invalidRequest(c, err)
	}
	client := cmp.Or(form.client, form.clientID)
	if client == "" {
		return invalidRequest(c, record.Bad(map[string]string{"extension_id": "is required"}))
	}
	if c.Addr.IsValid() {
		if wait := c.Site.Limits.Devices.Take(limit.Network(c.Addr), 1, c.Site.Store.Now()); wait > 0 {
			return slowDown(c, &record.Error{
				Fault: record.TooMany, Code: "slow_down", Retry: wait,
				Text: "Too many devices asked to be let in.",
			})
		}
	}
	var d *people.Device
	var secret string
	err = c.Site.Store.Update(func(tx *kv.Tx) error {
		set, err := people.ReadSettings(tx)
		if err != nil {
			return err
		}
		if set.TokensOff {
			return &record.Error{Fault: record.Denied, Code: "access_denied", Text: "API keys are turned off."}
		}
		d, secret, err = people.AddDevice(tx, client, address(c), limit.Network(c.Addr).String())
		return err
	})
	if e, ok := errors.AsType[*record.Error](err); ok && (e.Fault == record.TooMany || e.Fault == record.Denied) {
		return slowDown(c, e)
	}
	if err != nil {
		return err
	}
	return c.RespondValue(http.StatusOK, map[string]any{
		"device_code": secret, "user_code": d.Code, "verification_uri": c.Site.Base + "/device",
		"verification_uri_complete": c.Site.Base + "/device?user_code=" + d.Code,
		"expires_in":                int(people.DeviceTime.Seconds()), "interval": int(d.Interval.Seconds()),
	})
}

// slowDown answers a client that may not ask now.
func slowDown(c *web.Request, e *record.Error) error {
	web.SetRetry(c.W.Header(), e)
	says := &people.DeviceError{Code: e.Code, Text: e.Text, Interval: people.DeviceInterval}
	return deviceError(c, web.Statuses[e.Fault], says)
}

// TokenForm is a poll.
type TokenForm struct{ code, clientID, grant string }

// deviceGrant is the grant_type of a poll by a standard library (RFC 8628, section 3.4).
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

func (f *TokenForm) Fields(s *field.Set) {
	s.Text("device_code", &f.code, 256, field.Required, field.Filled).Says("The client's device code.", `"…"`)
	s.Text("client_id", &f.clientID, 256).Says("Ignored.", `null`)
	s.Text("grant_type", &f.grant, 256).Says("If it is given: "+deviceGrant+".", `null`)
}

var PollDevice = web.Operation{
	Tag: "sign-in", Summary: "Polls for the key of a device. The body may be a form, too.",
	Body:  web.BodyOf("DevicePoll"),
	Reply: web.Reply{Status: 200, Doc: "The key, once.", Body: web.BodyOf("DeviceKey")},
	Fails: []int{403}, Uncounted: true, Serve: pollDevice,
}

// pollDevice answers a poll (RFC 8628, section 3.4).
func pollDevice(c *web.Request) error {
	form := new(TokenForm)
	if err := readDeviceForm(c, form); err != nil {
		return invalidRequest(c, err)
	}
	if form.grant != "" && form.grant != deviceGrant {
		return deviceError(c, http.StatusBadRequest, &people.DeviceError{
			Code: "unsupported_grant_type", Text: "The grant_type must be " + deviceGrant + ".",
		})
	}
	key, wait, err := people.PollDevice(c.Site.Store, form.code)
	if err != nil {
		return err
	}
	if wait != nil {
		status := http.StatusBadRequest
		if wait.Off {
			status = http.StatusForbidden
		}
		return deviceError(c, status, wait)
	}
	kind := "ApiKey"
	if form.grant != "" { // standard libraries know no other
		kind = "Bearer"
	}
	return c.RespondValue(http.StatusOK, map[string]any{
		"token_type": kind, "api_key": key, "access_token": key, "scope": "read write upload",
		"expires_in": int(people.SlideTime.Seconds()), "interval": int(people.DeviceInterval.Seconds()),
	})
}

var RevokeDevice = web.DoneOp("sign-in",
	"Revokes the calling client's own key, if it comes from the device flow.", revokeDevice, 404)

// revokeDevice revokes the key that the request was sent with, so that a client can
// disconnect. It cannot revoke other keys.
func revokeDevice(c *web.Request) error {
	if c.Caller.Key.Device == "" {
		return &record.Error{
			Fault: record.Denied, Code: "no_device",
			Text: "Only a client that connected with a code can revoke its key here. " +
				"Revoke other keys under “Keys and devices”.",
		}
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error { return people.RevokeOne(tx, &c.Caller.Key, "") }); err != nil {
		return err
	}
	return c.RespondOK()
}

// invalidRequest tells a client of the device flow what is wrong with its body.
func invalidRequest(c *web.Request, err error) error {
	e, status := web.ClientError(err)
	switch {
	case e.Fault == record.Busy: // the client must go on
		web.SetRetry(c.W.Header(), e)
		return deviceError(c, status, &people.DeviceError{Code: "slow_down", Text: e.Text, Interval: people.DeviceInterval})
	case status != http.StatusRequestEntityTooLarge:
		status = http.StatusBadRequest
	}
	return deviceError(c, status, &people.DeviceError{Code: "invalid_request", Text: e.Text})
}

// deviceError answers with an error in the format of OAuth (RFC 6749, section 5.2).
func deviceError(c *web.Request, status int, e *people.DeviceError) error {
	answer := map[string]any{"error": e.Code, "code": e.Code, "error_description": e.Text, "requestId": c.ID}
	if e.Interval > 0 {
		answer["interval"] = int(e.Interval.Seconds())
	}
	c.W.Code = e.Code
	return c.RespondValue(status, answer)
}

// VerifyForm is the user's decision.
type VerifyForm struct{ code, action string }

var DeviceActions = []string{"approve", "deny"}

func (f *VerifyForm) Fields(s *field.Set) {
	s.Text("user_code", &f.code, 64, field.Required, field.Filled).Says("The code that the client shows.", `"BCDF-GHJK"`)
	field.Choice(s, "action", &f.action, DeviceActions, field.Required).
		Says("Whether the client may connect.", `"approve"`)
}

// tooManyCodes is the error for too many wrong codes: of devices, second steps and issuers.
func tooManyCodes(wait time.Duration) error {
	return &record.Error{
		Fault: record.TooMany, Code: "too_many_guesses", Retry: wait,
		Text: "Too many wrong codes. Try again " + record.In(wait) + ".",
	}
}

// Approves reports whether a decision about a device may let it in.
func Approves(in field.Object) bool {
	action, given := in["action"]
	return given && action != "deny"
}

// decideDevice approves or denies the client with the code. Codes cannot be guessed.
func decideDevice(c *web.Request, code string, approve bool) (*people.Device, error) {
	var d *people.Device
	err := tryCode(c, func() (err error) {
		return c.UpdateAsCaller(func(tx *kv.Tx) (err error) {
			d, err = people.DecideDevice(tx, code, c.Owner(), approve)
			return err
		})
	})
	return d, err
}

// tryCode runs look, which looks for a code, and counts a missing code as a wrong guess.
func tryCode(c *web.Request, look func() error) error {
	now, at, tries := c.Site.Store.Now(), "device:"+c.Owner().String(), people.TriesOf(c.Site.Store)
	limits := []people.Limit{limit.FromNetwork(limit.Network(c.Addr), at), limit.Overall(at)}
	if wait := tries.Wait(now, limits...); wait > 0 {
		return tooManyCodes(wait)
	}

	err := look()
	if _, wait := tries.Settle(now, !kv.Missing(err), limits...); wait > 0 {
		return tooManyCodes(wait)
	}
	return err
}

var VerifyDevice = web.Operation{
	Tag: "sign-in", Summary: "Approves or denies a device; only for a browser that is signed in.",
	Body: web.BodyOf("DeviceDecision"), Reply: web.DoneReply, Fails: []int{404, 429}, Serve: verifyDevice,
}

func verifyDevice(c *web.Request) error {
	form := new(VerifyForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	if _, err := decideDevice(c, form.code, form.action == "approve"); err != nil {
		return err
	}
	return c.RespondOK()
}

var ReadDevice = web.PageOp(readDevice, 303, 404, 429)

// readDevice shows a signed-in user which client asks. Others sign in first, or confirm that it is
// them, and return with the code filled in.
func readDevice(c *web.Request) error {
	code := people.CleanUserCode(c.R.URL.Query().Get("user_code"))
	if c.Caller == nil || !c.Caller.Key.Session {
		return Redirect(c, "/login?next="+url.QueryEscape("/device?user_code="+code))
	}
	if code != "" && !c.Caller.Key.Recent(c.Site.Store.Now()) {
		page, err := confirmPage(c, "/device?user_code="+code)
		if err != nil {
			return err
		}
		return c.RespondPage(http.StatusOK, page)
	}
	return answerDevice(c, http.StatusOK, code, "")
}

func answerDevice(c *web.Request, status int, code, problem string) error {
	page := embed.DevicePage{Base: c.Site.Prefix(), UserName: c.Caller.User.Name, Code: code, Problem: problem}
	if code == "" || problem != "" {
		return c.RespondPage(status, page)
	}
	var d *people.Device
	err := tryCode(c, func() error {
		return c.Site.Store.View(func(tx *kv.Tx) (err error) { d, err = people.DeviceFor(tx, code); return err })
	})
	if kv.Missing(err) {
		page.Problem = c.Lang().T("device.unknown")
		return c.RespondPage(http.StatusNotFound, page)
	}
	if err != nil {
		return err
	}
	page.Client, page.Address, page.Asked = people.ClientName(d.Client), d.Address, d.Created
	return c.RespondPage(status, page)
}

var PostDevice = web.FormOp(200, postDevice, 303, 400, 404, 413, 415, 429)

// postDevice receives the form of the device page.
func postDevice(c *web.Request) error {
	values, err := ReadForm(c)
	if err != nil {
		return err
	}
	code := people.CleanUserCode(values.Get("user_code"))
	approve := values.Get("action") == "approve"
	if !approve && values.Get("action") != "deny" {
		return Redirect(c, "/device?user_code="+code) // the user has typed the code
	}
	d, err := decideDevice(c, code, approve)
	if kv.Missing(err) {
		return answerDevice(c, http.StatusNotFound, code, c.Lang().T("device.invalid"))
	}
	if err != nil {
		return err
	}

	l, client := c.Lang(), people.ClientName(d.Client)
	title, text := l.T("device.notConnected"), l.T("device.denied", "client", client)
	if approve {
		title, text = l.T("device.connected"), l.T("device.allowed", "client", client)
	}
	return c.RespondPage(http.StatusOK, embed.MessagePage{Base: c.Site.Prefix(), Title: title, Text: text})
}
