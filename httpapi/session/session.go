// Package session lets people and devices in: signing in and out, the device
// flow, and the limits on wrong passwords.
package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kist/embed"
	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// ShownUser is an account as its owner and administrators see it.
type ShownUser struct {
	record.User
	usage people.Usage
	used  int64
}

func (v *ShownUser) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the user.", web.SampleID)
	s.Ruled("username", &v.Name, record.CleanUserName, record.UserNamePattern, 64).Says("Name to sign in with.", `"ann"`)
	s.Text("displayName", &v.DisplayName, record.MaxName).Says("Name to show.", `"Ann"`)
	field.Choice(s, "role", &v.Role, record.Roles).Says("What the user may do.", `"user"`)
	s.Bool("disabled", &v.Disabled).Says("Whether the account is shut.", `false`)
	s.Bool("apiTokensDisabled", &v.TokensOff).Says("Whether the user's API keys are off.", `false`)
	s.MaybeNumber("quotaBytes", &v.Quota, 0, 1<<53).
		Says("Bytes the user may keep; 0 is no limit, null the instance's default. It counts what usedBytes and unfinishedBytes count.", `null`)
	s.Number("usedBytes", &v.used, 0, 1<<53).Says("Bytes the user keeps: files, files sent to upload requests that wait for approval, and textBytes. A file whose stored bytes are damaged counts as long as it is not deleted.", `48213`)
	s.Number("textBytes", &v.usage.Text, 0, 1<<53).Says("Bytes of text: the stored records of every kind, tags, the files that came in by upload requests with their senders' names and messages, and the metadata of unfinished uploads.", `1873`)
	s.Number("unfinishedBytes", &v.usage.Begun, 0, 1<<53).Says("Bytes reserved for uploads and remote uploads that are not finished.", `0`)
	s.Number("quotaEffectiveBytes", &v.usage.Quota, 0, 1<<53).Says("The quota that holds; 0 is no limit.", `0`)
	s.Shown("counts", field.Schema{Type: "object", Free: true, Items: &field.Schema{Type: "integer"}}, func(dst []byte) []byte {
		return web.AppendCounts(dst, v.usage.Count)
	}).Says("Records the user keeps, by kind.", `{"file":3,"note":1}`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the account was made.", `"2026-01-02T03:04:05.678Z"`)
}

func ShowUser(tx *kv.Tx, u *record.User) (*ShownUser, error) {
	usage, err := people.UsageOf(tx, u)
	return &ShownUser{*u, usage, usage.Used()}, err
}

func AnswerUser(c *web.Request, status int, id record.ID) error {
	var v *ShownUser
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		u, err := people.User(tx, id)
		if err == nil {
			v, err = ShowUser(tx, u)
		}
		return err
	}); err != nil {
		return err
	}
	return c.RespondData(status, v)
}

// SetSession has the browser keep a session's secret, or forget it if it is
// "".
func SetSession(c *web.Request, secret string) {
	cookie := &http.Cookie{ // #nosec G124 -- it is Secure on https
		Name: c.SiteCookie(web.SessionCookie), Value: secret, Path: "/", MaxAge: int(record.SlideTime.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.Secure(),
	}
	if secret == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(c.W, cookie)
}

// LoginForm is what a user signs in with.
type LoginForm struct {
	name     string
	password field.Secret
}

func (f *LoginForm) Fields(s *field.Set) {
	s.Text("username", &f.name, 256, field.Required, field.Filled).Says("Name of the user.", `"ann"`)
	s.Secret("password", &f.password, field.Required).Says("The user's password.", `"correct horse battery"`)
}

var errLogin = &record.Error{Fault: record.Unauthorized, Code: "wrong_login", Text: "The name or the password is not right."}

// maxAgent is how much is kept of what a browser calls itself, in bytes.
const maxAgent = 200

// signIn makes a session for the user who has the password, and returns the
// user. A wrong password is counted, and written to the log in a line that does
// not change: programs that shut out attackers read it.
func signIn(c *web.Request, name, password string) (*record.User, error) {
	if len(password) > field.MaxSecret { // no password is longer: nothing is tried out
		return nil, errLogin
	}
	name = strings.TrimSpace(name) // no name has any there, and keyboards of telephones add one
	var u *record.User
	err := c.Site.Store.View(func(tx *kv.Tx) (err error) { u, err = people.UserNamed(tx, name); return err })
	if err != nil && !web.IsMissing(err) {
		return nil, err
	}
	g := Guess{At: "login:" + record.Fold(web.CutTo(name, 64)), Password: password, Proves: true} // no name is longer
	if u != nil {
		g.Hash, g.device = u.Password, device(c, u)
	}
	right, err := CheckPassword(c, g)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.TooMany {
		failedSignIn(c, name)
	}
	if err != nil {
		return nil, err
	}
	if !right || u == nil || u.Disabled {
		failedSignIn(c, name)
		return nil, errLogin
	}
	return u, StartSession(c, u)
}

// StartSession makes a session and gives it to the browser. One that the browser had
// ends.
func StartSession(c *web.Request, u *record.User) error {
	old := c.Session()
	var before *people.Caller
	if old != "" {
		before, _ = people.AuthenticateSession(c.Site.Store, old) // what cannot be used has ended
	}
	var secret string
	err := c.Site.Store.Update(func(tx *kv.Tx) (err error) {
		now, err := people.User(tx, u.ID)
		if err != nil || now.Disabled || now.Password != u.Password { // changed since it was checked
			return errLogin
		}
		if before != nil {
			if err := people.RemoveKey(tx, before.User.ID, before.Key.ID); err != nil && !web.IsMissing(err) {
				return err
			}
		}
		_, secret, err = people.AddSession(tx, u.ID, web.CutTo(c.R.UserAgent(), maxAgent), address(c))
		return err
	})
	if err == nil {
		SetSession(c, secret)
		setDevice(c, u)
		people.TriesOf(c.Site.Store).SignedIn(grant.Network(c.Addr).String(), c.Site.Store.Now())
	}
	return err
}

// address is where the client asks from; "" if that is not known, as of one
// that comes over a socket and by no proxy.
func address(c *web.Request) string {
	if !c.Addr.IsValid() {
		return ""
	}
	return c.Addr.String()
}

// failedSignIn writes the line of a wrong sign-in.
func failedSignIn(c *web.Request, name string) {
	client := cmp.Or(address(c), "local")
	c.Site.Log.LogAttrs(c.R.Context(), slog.LevelWarn, "sign-in failed", slog.String("client", client), slog.String("user", web.CutTo(name, 64)))
}

var Login = web.Operation{
	Tag: "session", Summary: "Signs a browser in: sets the session cookie.",
	Args: []web.Param{web.ProofArg}, Body: web.BodyOf("Login"), Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")},
	Fails: []int{400, 401, 403, 429, 503}, Serve: login,
}

// login signs a browser in.
func login(c *web.Request) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	form := new(LoginForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	u, err := signIn(c, form.name, form.password.Text)
	if err != nil {
		return err
	}
	return AnswerUser(c, http.StatusOK, u.ID)
}

var Logout = web.Operation{
	Tag: "session", Summary: "Ends the session of the browser that asks.",
	Reply: web.DoneReply, Fails: []int{403}, Serve: logout,
}

// logout ends the session of the browser that asks, if it has one.
func logout(c *web.Request) error {
	if err := endSession(c); err != nil {
		return err
	}
	return c.RespondOK()
}

func endSession(c *web.Request) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	secret := c.Session()
	if secret == "" {
		return nil
	}
	SetSession(c, "")
	caller, err := people.AuthenticateSession(c.Site.Store, secret)
	if err != nil {
		return nil //nolint:nilerr // it has ended before
	}
	err = c.Site.Store.Update(func(tx *kv.Tx) error { return people.RemoveKey(tx, caller.User.ID, caller.Key.ID) })
	if web.IsMissing(err) {
		return nil
	}
	return err
}

// ShownSession is a session as its owner sees it.
type ShownSession struct {
	record.Key
	current bool
}

func (v *ShownSession) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the session.", web.SampleID)
	s.Text("agent", &v.Agent, maxAgent).Says("What the browser calls itself.", `"Mozilla/5.0"`)
	s.Text("address", &v.Address, 64).Says("Where it signed in from.", `"192.0.2.7"`)
	s.Bool("current", &v.current).Says("Whether it is the one that asks.", `true`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it signed in.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("lastUsedAt", &v.LastUsed, field.Always).Says("When it was last used, to the minute.", `"2026-01-02T03:04:00.000Z"`)
	s.Time("expiresAt", &v.Expires, field.Always).Says("When it ends unless it is used.", `"2026-02-01T03:04:05.678Z"`)
}

var ListSessions = web.Operation{
	Tag: "session", Summary: "Lists the browsers that are signed in.",
	Args: web.PageParams(web.ShortSorts), Reply: web.Reply{Status: 200, Doc: "A page of sessions.", Body: web.ListOf("Session")}, Serve: listSessions,
}

func listSessions(c *web.Request) error {
	return web.AnswerList(c,
		func(tx *kv.Tx) ([]record.Key, error) { return people.Sessions(tx, c.Owner()) },
		func(k *record.Key) (record.ID, string) { return k.ID, k.Agent },
		func(_ *kv.Tx, k *record.Key) (*ShownSession, error) {
			return &ShownSession{*k, k.ID == c.Caller.Key.ID}, nil
		})
}

var RemoveSession = web.Operation{
	Tag: "session", Summary: "Ends a session.",
	Reply: web.DoneReply, Fails: []int{404}, Serve: removeSession,
}

func removeSession(c *web.Request) error {
	id, err := c.IDArg("session")
	if err != nil {
		return err
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		k, err := people.Session(tx, c.Owner(), id)
		if err != nil {
			return err
		}
		return people.RemoveKey(tx, k.Owner, k.ID)
	}); err != nil {
		return err
	}
	return c.RespondOK()
}

var RemoveSessions = web.Operation{
	Tag: "session", Summary: "Ends all sessions but the one that asks.",
	Reply: web.DoneReply, Serve: removeSessions,
}

// removeSessions ends all sessions but the one that asks.
func removeSessions(c *web.Request) error {
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		all, err := people.Sessions(tx, c.Owner())
		for i := 0; err == nil && i < len(all); i++ {
			if all[i].ID != c.Caller.Key.ID {
				err = people.RemoveKey(tx, all[i].Owner, all[i].ID)
			}
		}
		return err
	}); err != nil {
		return err
	}
	return c.RespondOK()
}

// onward is where a page leads after the sign-in: a path of this server. Any
// other address, and what browsers could take for one, is home.
func onward(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsFunc(next, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
		return "/"
	}
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || strings.HasPrefix(u.Path, "//") {
		return "/"
	}
	return next
}

var ReadLogin = web.Operation{
	Tag: "session", Summary: "The page to sign in at.",
	Args:  []web.Param{{In: "query", Name: "next", Doc: "Path to go on to.", Schema: web.Object{"type": "string"}, Example: "/files"}},
	Reply: web.Reply{Status: 200, Doc: "The page.", Body: web.PageOf()}, Fails: []int{303}, Serve: readLogin,
}

// readLogin is the page to sign in at; who is signed in is sent on.
func readLogin(c *web.Request) error {
	next := onward(c.R.URL.Query().Get("next"))
	if c.Session() != "" {
		if _, err := people.AuthenticateSession(c.Site.Store, c.Session()); err == nil {
			return Redirect(c, next)
		}
	}
	page := embed.LoginPage{Base: c.Site.Prefix(), Next: next}
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		all, err := people.Users(tx)
		page.Unclaimed = len(all) == 0
		return err
	}); err != nil {
		return err
	}
	return c.RespondPage(http.StatusOK, page)
}

// Redirect sends a browser on to a path of this server, with GET.
func Redirect(c *web.Request, path string) error {
	c.W.Header().Set("Cache-Control", "no-store")
	c.W.Header().Set("Location", web.ASCIIURL(c.Site.Prefix()+path))
	c.W.WriteHeader(http.StatusSeeOther)
	return nil
}

var PostLogin = web.Operation{
	Tag: "session", Summary: "Takes the form of the page to sign in at.",
	Body: web.FormBody, Reply: web.Reply{Status: 303, Doc: "On to the page that was wanted.", Body: nil}, Fails: []int{400, 401, 403, 413, 415, 429, 503},
	Serve: postLogin,
}

// postLogin takes the form of the login page.
func postLogin(c *web.Request) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	values, err := ReadForm(c)
	if err != nil {
		return err
	}
	ReadProofField(c, values)
	next, name := onward(values.Get("next")), values.Get("username")
	if _, err = signIn(c, name, values.Get("password")); err == nil {
		return Redirect(c, next)
	}
	return Problem(c, err, func(p embed.Problem) embed.Page {
		return embed.LoginPage{Base: c.Site.Prefix(), Next: next, UserName: name, Problem: p}
	})
}

// Problem answers a page's form of which a password was not taken: with the
// page again, which says why, and when to try again. Other errors are returned.
func Problem(c *web.Request, err error, page func(embed.Problem) embed.Page) error {
	e, status := web.ClientError(err)
	p := embed.Problem{Text: e.Text, Wait: e.Fault == record.TooMany || e.Fault == record.Busy}
	switch needed, ok := errors.AsType[*web.ProofNeeded](err); {
	case ok:
		challenge, err := json.Marshal(needed.Challenge)
		if err != nil {
			return err
		}
		p.Text, p.Challenge, p.Without = "Too many wrong passwords.", string(challenge), roundedUp(e.Retry)
	case !p.Wait && e.Fault != record.Unauthorized:
		return err
	}
	web.SetRetry(c.W.Header(), e)
	c.W.Code = e.Code
	return c.RespondPage(status, page(p))
}

var PostLogout = web.Operation{
	Tag: "session", Summary: "Signs the browser out.",
	Reply: web.Reply{Status: 303, Doc: "On to the page to sign in at.", Body: nil}, Fails: []int{403}, Serve: postLogout,
}

// postLogout takes the form that signs out.
func postLogout(c *web.Request) error {
	if err := endSession(c); err != nil {
		return err
	}
	return Redirect(c, "/login")
}

// DeviceForm is a client's request to be let in.
type DeviceForm struct{ client string }

func (f *DeviceForm) Fields(s *field.Set) {
	s.Name("extension_id", &f.client, 128, field.Required, field.Filled).Says("What the client calls itself.", `"kist-extension"`)
}

var AuthorizeDevice = web.Operation{
	Tag: "session", Summary: "Begins the device flow (RFC 8628): a client asks to be let in.",
	Body: web.BodyOf("Device"), Reply: web.Reply{Status: 200, Doc: "The codes.", Body: deviceCodes}, Fails: []int{403, 429}, Serve: authorizeDevice,
}

// authorizeDevice begins the device flow (RFC 8628, section 3.1).
func authorizeDevice(c *web.Request) error {
	form := new(DeviceForm)
	if err := c.DecodeNew(form); err != nil {
		return invalidRequest(c, err)
	}
	var d *record.Device
	var secret string
	err := c.Site.Store.Update(func(tx *kv.Tx) error {
		set, err := people.Settings(tx)
		if err != nil {
			return err
		}
		if set.TokensOff {
			return &record.Error{Fault: record.Denied, Code: "access_denied", Text: "API keys are turned off."}
		}
		d, secret, err = people.AddDevice(tx, form.client, address(c), grant.Network(c.Addr).String())
		return err
	})
	if e, ok := errors.AsType[*record.Error](err); ok && (e.Fault == record.TooMany || e.Fault == record.Denied) {
		web.SetRetry(c.W.Header(), e)
		return deviceError(c, web.Statuses[e.Fault], &record.DeviceError{Code: e.Code, Text: e.Text, Interval: people.DeviceInterval})
	}
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"device_code": secret, "user_code": d.Code, "verification_uri": c.Site.Base + "/device",
		"verification_uri_complete": c.Site.Base + "/device?user_code=" + d.Code,
		"expires_in":                int(people.DeviceTime.Seconds()), "interval": int(d.Interval.Seconds()),
	})
	if err != nil {
		return err
	}
	return c.RespondJSON(http.StatusOK, body)
}

// TokenForm is a poll.
type TokenForm struct{ code string }

func (f *TokenForm) Fields(s *field.Set) {
	s.Text("device_code", &f.code, 256, field.Required, field.Filled).Says("The code that the client was given.", `"…"`)
}

var PollDevice = web.Operation{
	Tag: "session", Summary: "Polls for the key of a device.",
	Body: web.BodyOf("DevicePoll"), Reply: web.Reply{Status: 200, Doc: "The key, once.", Body: deviceKey}, Fails: []int{403}, Serve: pollDevice,
}

// pollDevice answers a poll (RFC 8628, section 3.4).
func pollDevice(c *web.Request) error {
	form := new(TokenForm)
	if err := c.DecodeNew(form); err != nil {
		return invalidRequest(c, err)
	}
	var key string
	var wait *record.DeviceError
	if err := c.Site.Store.Update(func(tx *kv.Tx) (err error) { key, wait, err = people.PollDevice(tx, form.code); return err }); err != nil {
		return err
	}
	if wait != nil {
		status := http.StatusBadRequest
		if wait.Off {
			status = http.StatusForbidden
		}
		return deviceError(c, status, wait)
	}
	body, err := json.Marshal(map[string]any{
		"token_type": "ApiKey", "api_key": key, "expires_in": int(record.SlideTime.Seconds()), "interval": int(people.DeviceInterval.Seconds()),
	})
	if err != nil {
		return err
	}
	return c.RespondJSON(http.StatusOK, body)
}

var RevokeDevice = web.Operation{
	Tag: "session", Summary: "Revokes the key of the device flow that it is called with: the client leaves.",
	Reply: web.DoneReply, Fails: []int{404}, Serve: revokeDevice,
}

// revokeDevice takes the key of the device flow away that the request has come
// with, so that a client can leave; it may touch no other.
func revokeDevice(c *web.Request) error {
	if c.Caller.Key.Device == "" {
		return &record.Error{Fault: record.Denied, Code: "no_device", Text: "This ends what was connected with a code; other keys are revoked under “Keys and devices”."}
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error { return people.RemoveKey(tx, c.Owner(), c.Caller.Key.ID) }); err != nil {
		return err
	}
	return c.RespondOK()
}

// invalidRequest tells a client of the device flow what is wrong with its
// body.
func invalidRequest(c *web.Request, err error) error {
	e, _ := web.ClientError(err)
	return deviceError(c, http.StatusBadRequest, &record.DeviceError{Code: "invalid_request", Text: e.Text})
}

// deviceError answers in the form of OAuth (RFC 6749, section 5.2).
func deviceError(c *web.Request, status int, e *record.DeviceError) error {
	answer := map[string]any{"error": e.Code, "code": e.Code, "error_description": e.Text, "requestId": c.ID}
	if e.Interval > 0 {
		answer["interval"] = int(e.Interval.Seconds())
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	c.W.Code = e.Code
	return c.RespondJSON(status, body)
}

// VerifyForm is a user's decision.
type VerifyForm struct{ code, action string }

var DeviceActions = []string{"approve", "deny"}

func (f *VerifyForm) Fields(s *field.Set) {
	s.Text("user_code", &f.code, 64, field.Required, field.Filled).Says("The code that the client shows.", `"BCDF-GHJK"`)
	field.Choice(s, "action", &f.action, DeviceActions, field.Required).Says("Whether it is let in.", `"approve"`)
}

// tooManyCodes is tooMany for codes of the device flow.
func tooManyCodes(wait time.Duration) error {
	return &record.Error{Fault: record.TooMany, Code: "too_many_guesses", Text: "Too many wrong codes. Try again " + roundedUp(wait) + ".", Retry: wait}
}

// decideDevice lets the client of a code in, or refuses it. Codes cannot be tried
// out.
func decideDevice(c *web.Request, code string, approve bool) (*record.Device, error) {
	var d *record.Device
	err := tryCode(c, func() (err error) {
		return c.Site.Store.Update(func(tx *kv.Tx) (err error) { d, err = people.DecideDevice(tx, code, c.Owner(), approve); return err })
	})
	return d, err
}

// tryCode runs what looks for a code, and counts a code that is not there as a
// wrong guess.
func tryCode(c *web.Request, look func() error) error {
	now, at, tries := c.Site.Store.Now(), "device:"+c.Owner().String(), people.TriesOf(c.Site.Store)
	limits := []people.Limit{
		{Kind: LimitFrom, Of: grant.Network(c.Addr).String() + " " + at, Most: GuessesFrom},
		{Kind: LimitOverall, Of: at, Most: GuessesOverall},
	}
	if wait := tries.Wait(now, limits...); wait > 0 {
		return tooManyCodes(wait)
	}
	err := look()
	if _, wait := tries.Settle(now, !web.IsMissing(err), limits...); wait > 0 {
		return tooManyCodes(wait)
	}
	return err
}

var VerifyDevice = web.Operation{
	Tag: "session", Summary: "Lets a device in or refuses it; for a browser that is signed in.",
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

var ReadDevice = web.Operation{
	Tag: "session", Summary: "The page where a user lets a device in.",
	Args:  []web.Param{{In: "query", Name: "user_code", Doc: "The code that the device shows.", Schema: web.Object{"type": "string"}, Example: "BCDF-GHJK"}},
	Reply: web.Reply{Status: 200, Doc: "The page.", Body: web.PageOf()}, Fails: []int{303, 404, 429}, Serve: readDevice,
}

// readDevice shows which client asks, to who is signed in; others sign in
// first and come back with the code still filled in.
func readDevice(c *web.Request) error {
	code := record.CleanUserCode(c.R.URL.Query().Get("user_code"))
	if c.Caller == nil || !c.Caller.Key.Session {
		return Redirect(c, "/login?next="+url.QueryEscape("/device?user_code="+code))
	}
	return answerDevice(c, http.StatusOK, code, "")
}

func answerDevice(c *web.Request, status int, code, problem string) error {
	page := embed.DevicePage{Base: c.Site.Prefix(), UserName: c.Caller.User.Name, Code: code, Problem: problem}
	if code == "" || problem != "" {
		return c.RespondPage(status, page)
	}
	var d *record.Device
	err := tryCode(c, func() error {
		return c.Site.Store.View(func(tx *kv.Tx) (err error) { d, err = people.DeviceFor(tx, code); return err })
	})
	if web.IsMissing(err) {
		page.Problem = "This code is not known, or its ten minutes are over. Look at the code again, or start again on the device."
		return c.RespondPage(http.StatusNotFound, page)
	}
	if err != nil {
		return err
	}
	page.Client, page.Address, page.Asked = record.ClientName(d.Client), d.Address, d.Created
	return c.RespondPage(status, page)
}

var PostDevice = web.Operation{
	Tag: "session", Summary: "Takes the form of the page where a user lets a device in.",
	Body: web.FormBody, Reply: web.Reply{Status: 200, Doc: "What was done.", Body: web.PageOf()}, Fails: []int{303, 400, 404, 413, 415, 429},
	Serve: postDevice,
}

// postDevice takes the form of the device page.
func postDevice(c *web.Request) error {
	values, err := ReadForm(c)
	if err != nil {
		return err
	}
	code := record.CleanUserCode(values.Get("user_code"))
	approve := values.Get("action") == "approve"
	if !approve && values.Get("action") != "deny" {
		return Redirect(c, "/device?user_code="+code) // the code was typed
	}
	d, err := decideDevice(c, code, approve)
	if web.IsMissing(err) {
		return answerDevice(c, http.StatusNotFound, code, "This code is not known any more. Start again on the device.")
	}
	if err != nil {
		return err
	}
	page := embed.MessagePage{Base: c.Site.Prefix(), Title: "Not connected", Text: record.ClientName(d.Client) + " was refused. You can close this page."}
	if approve {
		page.Title, page.Text = "Connected", record.ClientName(d.Client)+" is connected to your account. You can close this page and go back to it."
	}
	return c.RespondPage(http.StatusOK, page)
}

// RequireForm refuses a body that is no form of a page.
func RequireForm(c *web.Request) error {
	media, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be a form."}
	}
	return nil
}

// ReadForm reads a body of a page's form.
func ReadForm(c *web.Request) (url.Values, error) {
	if err := RequireForm(c); err != nil {
		return nil, err
	}
	data, err := c.ReadBody(web.MaxQuery)
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The form cannot be read."}
	}
	return values, nil
}

// deviceCodes and deviceKey are the answers of the device flow.
var (
	deviceCodes = web.Named("DeviceCodes", web.JSONOf(web.Members(web.Object{
		"device_code": aText, "user_code": aText, "verification_uri": aURI, "verification_uri_complete": aURI, "expires_in": aNumber, "interval": aNumber,
	}, "device_code", "user_code", "verification_uri", "verification_uri_complete", "expires_in", "interval"), web.Object{
		"device_code": "…", "user_code": "BCDF-GHJK", "verification_uri": "https://kist.example.org/device",
		"verification_uri_complete": "https://kist.example.org/device?user_code=BCDF-GHJK", "expires_in": 600, "interval": 5,
	}))
	deviceKey = web.Named("DeviceKey", web.JSONOf(web.Members(web.Object{"token_type": aText, "api_key": aText, "expires_in": aNumber, "interval": aNumber},
		"token_type", "api_key", "expires_in", "interval"), web.Object{"token_type": "ApiKey", "api_key": "kist_…", "expires_in": 2592000, "interval": 5}))

	aText, aNumber = web.Object{"type": "string"}, web.Object{"type": "integer"}
	aURI           = web.Object{"type": "string", "format": "uri"}
)
