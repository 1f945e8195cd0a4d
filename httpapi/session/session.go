// Package session signs people and devices in: passwords, passkeys, second steps, single
// sign-on and the device flow. It limits wrong guesses. How long a session lasts is decided
// by Key.Slide in kv/people/key.go. What ends sessions, such as a new password or a
// disabled account, is in kv/people/session.go.
package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/embed"
	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// ShownUser is an account as its owner and administrators see it.
type ShownUser struct {
	people.User
	usage people.Usage
	used  int64
	step  bool
}

func (v *ShownUser) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the user.", web.SampleID)
	s.Ruled("username", &v.Name, record.CleanUserName, record.UserNamePattern, 64).Says("Name to sign in with.", `"ann"`)
	s.Text("displayName", &v.DisplayName, record.MaxName).Says("Display name.", `"Ann"`)
	field.MaybeChoice(s, "language", &v.Language, people.Languages).Says("Language of pages and the app; null leaves it to the browser.", `"de"`)
	field.MaybeChoice(s, "theme", &v.Theme, people.Themes).Says("Brightness of the app; null follows the system.", `"dark"`)
	field.MaybeChoice(s, "accent", &v.Accent, people.Accents).Says("Colour of what can be pressed in the app; null is the usual one.", `"blue"`)
	field.Choice(s, "role", &v.Role, people.Roles).Says("What the user may do.", `"user"`)
	s.Bool("disabled", &v.Disabled).Says("Whether the account is disabled.", `false`)
	s.Bool("apiTokensDisabled", &v.TokensOff).Says("Whether the user's API keys are off.", `false`)
	s.Bool("secondFactor", &v.step).Says("Whether signing in needs more than the password: the account has one-time codes or a passkey.", `false`)
	s.MaybeNumber("quotaBytes", &v.Quota, 0, 1<<53).
		Says("Bytes that the user may store; 0 means no limit, null means the instance's default. The quota applies to the sum of usedBytes and unfinishedBytes.", `null`)
	s.Number("usedBytes", &v.used, 0, 1<<53).Says("Bytes that the user stores: files, received files waiting for approval, and textBytes. A damaged file counts until it is deleted.", `48213`)
	s.Number("textBytes", &v.usage.Text, 0, 1<<53).Says("Bytes of text: the stored records of every kind, tags, folders, upload requests, files received through them with their senders' names and messages, remote uploads, and the metadata of unfinished uploads.", `1873`)
	s.Number("unfinishedBytes", &v.usage.Begun, 0, 1<<53).Says("Bytes reserved for unfinished uploads and remote uploads.", `0`)
	s.Number("quotaEffectiveBytes", &v.usage.Quota, 0, 1<<53).Says("The effective quota; 0 means no limit.", `0`)
	s.Shown("counts", field.Schema{Type: "object", Free: true, Items: &field.Schema{Type: "integer"}}, func(dst []byte) []byte {
		return web.AppendCounts(dst, v.usage.Count)
	}).Says("Number of the user's records, by kind.", `{"file":3,"note":1}`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the account was created.", `"2026-01-02T03:04:05.678Z"`)
}

func ShowUser(tx *kv.Tx, u *people.User) (*ShownUser, error) {
	usage, err := people.UsageOf(tx, u)
	if err != nil {
		return nil, err
	}
	step, err := people.HasSecondStep(tx, u.ID)
	return &ShownUser{*u, usage, usage.Used(), step}, err
}

// AnswerUser answers with an account.
func AnswerUser(c *web.Request, id record.ID) error {
	var v *ShownUser
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, id)
		if err == nil {
			v, err = ShowUser(tx, u)
		}
		return err
	}); err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, v)
}

// SetSession makes the browser store a session's secret, or forget it if secret is "".
func SetSession(c *web.Request, secret string) {
	cookie := &http.Cookie{ // #nosec G124 -- it is Secure on https
		Name: c.SiteCookie(web.SessionCookie), Value: secret, Path: "/", MaxAge: int(people.SlideTime.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.Secure(),
	}
	if secret == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(c.W, cookie)
}

// LoginForm is the form for signing in.
type LoginForm struct {
	name     string
	password field.Secret
}

func (f *LoginForm) Fields(s *field.Set) {
	s.Text("username", &f.name, 256, field.Required, field.Filled).Says("Name of the user.", `"ann"`)
	s.Secret("password", &f.password, field.Required).Says("The user's password.", `"correct horse battery"`)
}

var errLogin = &record.Error{Fault: record.Unauthorized, Code: "wrong_login", Text: "The name or the password is wrong."}

// maxAgent is how many bytes of a browser's User-Agent are stored.
const maxAgent = 200

// signIn checks the password, starts a session and returns the user. If the account has a
// second step, it starts none, and the error is a *web.StepNeeded. It counts a wrong password
// and logs it in a line that must not change, because programs that block attackers read it.
func signIn(c *web.Request, name, password string) (*people.User, error) {
	if c.Site.NoPasswords {
		return nil, errPasswordOff
	}
	if len(password) > field.MaxSecret { // no password is longer, so this is no guess
		return nil, errLogin
	}
	name = strings.TrimSpace(name) // phone keyboards add a space; names have none there
	var u *people.User
	err := c.Site.Store.View(func(tx *kv.Tx) (err error) { u, err = people.UserNamed(tx, name); return err })
	if err != nil && !kv.Missing(err) {
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
	if err := needsStep(c, u); err != nil {
		return nil, err
	}
	return u, StartSession(c, u)
}

// StartSession starts a session for the browser and ends the one that it had. The user has
// just proved who they are, with a password, a passkey or a link.
func StartSession(c *web.Request, u *people.User) error {
	return startSession(c, u, c.Site.Store.Now())
}

// startSession is StartSession for a user who proved at the instant confirmed who they are;
// zero if that is not known. also runs in the same transaction, with the new session.
func startSession(c *web.Request, u *people.User, confirmed time.Time, also ...func(*kv.Tx, *people.Key) error) error {
	old := c.Session()
	var before *people.Caller
	if old != "" {
		before, _ = people.AuthenticateSession(c.Site.Store, old) // an error means that it has ended
	}
	var secret string
	err := c.Site.Store.Update(func(tx *kv.Tx) (err error) {
		now, err := people.ReadUser(tx, u.ID)
		if err != nil || now.Disabled || now.Password != u.Password { // changed since the check
			return errLogin
		}
		if before != nil {
			if err := people.RemoveKey(tx, before.User.ID, before.Key.ID); err != nil && !kv.Missing(err) {
				return err
			}
		}
		var k *people.Key
		k, secret, err = people.AddSession(tx, u.ID, web.CutTo(c.R.UserAgent(), maxAgent), address(c), confirmed)
		for i := 0; err == nil && i < len(also); i++ {
			err = also[i](tx, k)
		}
		if before != nil && err == nil {
			to := uuid.Nil
			if before.User.ID == u.ID {
				to = k.ID
			}
			err = jobs.MoveFetches(tx, before.User.ID, before.Key.ID, to)
		}
		return err
	})
	if err == nil {
		SetSession(c, secret)
		setDevice(c, u)
		people.TriesOf(c.Site.Store).SignedIn(grant.Network(c.Addr).String(), c.Site.Store.Now())
	}
	return err
}

// address is the client's address; "" if it is unknown, such as on a socket without a proxy.
func address(c *web.Request) string {
	if !c.Addr.IsValid() {
		return ""
	}
	return c.Addr.String()
}

func failedSignIn(c *web.Request, name string) {
	client := cmp.Or(address(c), "local")
	c.Site.Log.LogAttrs(c.R.Context(), slog.LevelWarn, "sign-in failed", slog.String("client", client), slog.String("user", web.CutTo(name, 64)))
}

var Login = web.Operation{
	Tag: "session", Summary: "Signs a browser in and sets the session cookie.",
	Args: []web.Param{web.ProofArg}, Body: web.BodyOf("Login"), Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")},
	Fails: []int{400, 401, 403, 429, 503}, Serve: login,
}

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
	return AnswerUser(c, u.ID)
}

var Logout = web.DoneOp("session", "Ends the calling browser's session.", logout, 403)

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
		return nil //nolint:nilerr // it has already ended
	}
	err = c.Site.Store.Update(func(tx *kv.Tx) error {
		return errors.Join(jobs.MoveFetches(tx, caller.User.ID, caller.Key.ID, uuid.Nil), people.RemoveKey(tx, caller.User.ID, caller.Key.ID))
	})
	if kv.Missing(err) {
		return nil
	}
	return err
}

// ShownSession is a session as its owner sees it.
type ShownSession struct {
	people.Key
	current bool
}

func (v *ShownSession) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the session.", web.SampleID)
	s.Text("agent", &v.Agent, maxAgent).Says("The browser's User-Agent.", `"Mozilla/5.0"`)
	s.Text("address", &v.Address, 64).Says("Where it signed in from.", `"192.0.2.7"`)
	s.Bool("current", &v.current).Says("Whether this is the session of the request.", `true`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it signed in.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("lastUsedAt", &v.LastUsed, field.Always).Says("When it was last used, to the minute.", `"2026-01-02T03:04:00.000Z"`)
	s.Time("expiresAt", &v.Expires, field.Always).Says("When it ends if it is not used.", `"2026-02-01T03:04:05.678Z"`)
}

var ListSessions = web.ListOp("session", "Lists the browsers that are signed in.", "A page of sessions.", "Session", listSessions)

func listSessions(c *web.Request) error {
	return web.AnswerList(c,
		func(tx *kv.Tx) ([]people.Key, error) { return people.Sessions(tx, c.Owner()) },
		func(k *people.Key) (record.ID, string) { return k.ID, k.Agent },
		func(_ *kv.Tx, k *people.Key) (*ShownSession, error) {
			return &ShownSession{*k, k.ID == c.Caller.Key.ID}, nil
		})
}

var RemoveSession = web.DoneOp("session", "Ends a session.", removeSession, 404)

func removeSession(c *web.Request) error {
	id, err := c.IDArg("session")
	if err != nil {
		return err
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		k, err := people.ReadSession(tx, c.Owner(), id)
		if err != nil {
			return err
		}
		return people.RevokeOne(tx, k, "")
	}); err != nil {
		return err
	}
	return c.RespondOK()
}

var RemoveSessions = web.DoneOp("session", "Ends all sessions except that of the request.", removeSessions)

func removeSessions(c *web.Request) error {
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		all, err := people.Sessions(tx, c.Owner())
		for i := 0; err == nil && i < len(all); i++ {
			if all[i].ID != c.Caller.Key.ID {
				err = people.RevokeOne(tx, &all[i], "")
			}
		}
		return err
	}); err != nil {
		return err
	}
	return c.RespondOK()
}

// nextPath is the path on this server to go to after signing in. Any other address, and
// anything that a browser could take for one, becomes the home page.
func nextPath(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsFunc(next, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
		return "/"
	}
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || strings.HasPrefix(u.Path, "//") {
		return "/"
	}
	return next
}

var ReadLogin = web.PageOp(readLogin, 303, 400, 403)

// readLogin shows the sign-in page. It redirects users who are already signed in.
func readLogin(c *web.Request) error {
	next := nextPath(c.R.URL.Query().Get("next"))
	if c.Session() != "" {
		if _, err := c.AuthenticateSession(c.Session()); err == nil {
			return Redirect(c, next)
		}
	}
	if named, err := c.ProxyUser(); err != nil || named != "" {
		if err != nil {
			return err
		}
		return enterByProxy(c, named, next)
	}
	page, err := loginPage(c, next)
	if err != nil {
		return err
	}
	return c.RespondPage(http.StatusOK, page)
}

// enterByProxy starts a session for the user whom a trusted proxy has signed in. Accounts are
// not created this way. Just after signing out here, it only says that the proxy has not.
func enterByProxy(c *web.Request, name, next string) error {
	if c.R.URL.Query().Has("out") {
		return c.RespondPage(http.StatusOK, embed.MessagePage{Base: c.Site.Prefix(), Title: c.Lang().T("login.left"), Text: c.Lang().T("login.proxyKnows", "name", web.CutTo(name, 64))})
	}
	if !visits(c.R.Header) {
		return &record.Error{Fault: record.Denied, Code: "cross_origin", Text: "The request comes from another site."}
	}
	var u *people.User
	err := c.Site.Store.View(func(tx *kv.Tx) (err error) { u, err = people.UserNamed(tx, name); return err })
	switch {
	case kv.Missing(err):
		err = &record.Error{Fault: record.Denied, Code: "proxy_user_unknown", Text: "There is no account here with the name that the proxy has signed you in with. Ask an administrator."}
	case err == nil && u.Disabled:
		err = errDisabled
	case err == nil:
		err = startSession(c, u, time.Time{}) // nobody says when the proxy asked for a password
	}
	if err != nil {
		failedSignIn(c, name)
		return err
	}
	return Redirect(c, next)
}

// visits reports whether a browser goes to the page itself. It does not if a page of another site
// contains the address as a picture or a frame. Following a link from there is a visit.
func visits(h http.Header) bool {
	site := h.Get("Sec-Fetch-Site")
	return site != "cross-site" && site != "same-site" || h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document"
}

// Redirect redirects to a path of this server, with GET.
func Redirect(c *web.Request, path string) error {
	c.W.Header().Set("Cache-Control", "no-store")
	c.W.Header().Set("Location", asciiURL(c.Site.Prefix()+path))
	c.W.WriteHeader(http.StatusSeeOther)
	return nil
}

// asciiURL escapes the characters that a header may not contain.
func asciiURL(t string) string {
	if !strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return t
	}
	var b strings.Builder
	for i := range len(t) {
		if t[i] <= ' ' || t[i] >= 0x7f {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(t[i])|0x100, 16)[1:]))
		} else {
			b.WriteByte(t[i])
		}
	}
	return b.String()
}

var PostLogin = web.FormOp(303, postLogin, 200, 400, 401, 403, 413, 415, 429, 503)

// postLogin receives the form of the sign-in page.
func postLogin(c *web.Request) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	values, err := ReadForm(c)
	if err != nil {
		return err
	}
	ReadProofField(c, values)
	next, name := nextPath(values.Get("next")), values.Get("username")
	if _, err = signIn(c, name, values.Get("password")); err == nil {
		return Redirect(c, next)
	}
	if step, ok := errors.AsType[*web.StepNeeded](err); ok {
		return c.RespondPage(http.StatusOK, stepPage(c, next, step))
	}
	page, perr := loginPage(c, next)
	if perr != nil {
		return perr
	}
	return Problem(c, err, func(p embed.Problem) embed.Page {
		page.UserName, page.Problem = name, p
		return page
	})
}

// Problem answers a form whose password was not accepted: with the page again, which says
// why and when to try again. It returns other errors.
func Problem(c *web.Request, err error, page func(embed.Problem) embed.Page) error {
	e, status := web.ClientError(err)
	p := embed.Problem{Text: web.ErrorText(e, c.Lang()), Wait: e.Fault == record.TooMany || e.Fault == record.Busy}
	switch needed, ok := errors.AsType[*web.ProofNeeded](err); {
	case ok:
		challenge, err := json.Marshal(needed.Challenge)
		if err != nil {
			return err
		}
		p.Text, p.Challenge, p.Without = c.Lang().T("login.tooMany"), string(challenge), c.Lang().Wait(e.Retry)
	case !p.Wait && e.Fault != record.Unauthorized:
		return err
	}
	web.SetRetry(c.W.Header(), e)
	c.W.Code = e.Code
	return c.RespondPage(status, page(p))
}

// afterLogout is where a browser goes on that has signed out.
const afterLogout = "/login?out=1"

var PostLogout = web.Operation{Reply: web.Reply{Status: 303}, Fails: []int{403}, Serve: postLogout}

// postLogout receives the form for signing out.
func postLogout(c *web.Request) error {
	if err := endSession(c); err != nil {
		return err
	}
	if c.Site.OIDC != nil {
		return Redirect(c, OIDCPath+"/end")
	}
	return Redirect(c, afterLogout)
}

// DeviceForm is a client's request to connect.
type DeviceForm struct{ client string }

func (f *DeviceForm) Fields(s *field.Set) {
	s.Name("extension_id", &f.client, 128, field.Required, field.Filled).Says("Name of the client.", `"kist-extension"`)
}

var AuthorizeDevice = web.Operation{
	Tag: "session", Summary: "Starts the device flow (RFC 8628): a client asks to connect.",
	Body: web.BodyOf("Device"), Reply: web.Reply{Status: 200, Doc: "The codes.", Body: web.BodyOf("DeviceCodes")}, Fails: []int{403, 429}, Serve: authorizeDevice,
}

// authorizeDevice starts the device flow (RFC 8628, section 3.1).
func authorizeDevice(c *web.Request) error {
	form := new(DeviceForm)
	if err := c.DecodeNew(form); err != nil {
		return invalidRequest(c, err)
	}
	if c.Addr.IsValid() {
		if wait := c.Site.Devices.Take(grant.Network(c.Addr), c.Site.Store.Now()); wait > 0 {
			return slowDown(c, &record.Error{Fault: record.TooMany, Code: "slow_down", Text: "Too many devices asked to be let in.", Retry: wait})
		}
	}
	var d *people.Device
	var secret string
	err := c.Site.Store.Update(func(tx *kv.Tx) error {
		set, err := people.ReadSettings(tx)
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
	return deviceError(c, web.Statuses[e.Fault], &people.DeviceError{Code: e.Code, Text: e.Text, Interval: people.DeviceInterval})
}

// TokenForm is a poll.
type TokenForm struct{ code string }

func (f *TokenForm) Fields(s *field.Set) {
	s.Text("device_code", &f.code, 256, field.Required, field.Filled).Says("The client's device code.", `"…"`)
}

var PollDevice = web.Operation{
	Tag: "session", Summary: "Polls for the key of a device.",
	Body: web.BodyOf("DevicePoll"), Reply: web.Reply{Status: 200, Doc: "The key, once.", Body: web.BodyOf("DeviceKey")}, Fails: []int{403}, Serve: pollDevice,
}

// pollDevice answers a poll (RFC 8628, section 3.4).
func pollDevice(c *web.Request) error {
	form := new(TokenForm)
	if err := c.DecodeNew(form); err != nil {
		return invalidRequest(c, err)
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
	return c.RespondValue(http.StatusOK, map[string]any{
		"token_type": "ApiKey", "api_key": key, "expires_in": int(people.SlideTime.Seconds()), "interval": int(people.DeviceInterval.Seconds()),
	})
}

var RevokeDevice = web.DoneOp("session", "Revokes the calling client's own key, if it comes from the device flow.", revokeDevice, 404)

// revokeDevice revokes the key that the request was sent with, so that a client can
// disconnect. It cannot revoke other keys.
func revokeDevice(c *web.Request) error {
	if c.Caller.Key.Device == "" {
		return &record.Error{Fault: record.Denied, Code: "no_device", Text: "Only a client that connected with a code can revoke its key here. Revoke other keys under “Keys and devices”."}
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
	field.Choice(s, "action", &f.action, DeviceActions, field.Required).Says("Whether the client may connect.", `"approve"`)
}

// tooManyCodes is the error for too many wrong codes: of devices, second steps and issuers.
func tooManyCodes(wait time.Duration) error {
	return &record.Error{Fault: record.TooMany, Code: "too_many_guesses", Text: "Too many wrong codes. Try again " + record.In(wait) + ".", Retry: wait}
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
		return c.Site.Store.Update(func(tx *kv.Tx) (err error) { d, err = people.DecideDevice(tx, code, c.Owner(), approve); return err })
	})
	return d, err
}

// tryCode runs look, which looks for a code, and counts a missing code as a wrong guess.
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
	if _, wait := tries.Settle(now, !kv.Missing(err), limits...); wait > 0 {
		return tooManyCodes(wait)
	}
	return err
}

var VerifyDevice = web.Operation{
	Tag: "session", Summary: "Approves or denies a device; only for a browser that is signed in.",
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
	page := embed.MessagePage{Base: c.Site.Prefix(), Title: l.T("device.notConnected"), Text: l.T("device.denied", "client", client)}
	if approve {
		page.Title, page.Text = l.T("device.connected"), l.T("device.allowed", "client", client)
	}
	return c.RespondPage(http.StatusOK, page)
}

// RequireForm refuses a body that is not a page's form.
func RequireForm(c *web.Request) error {
	media, _, err := mime.ParseMediaType(c.R.Header.Get("Content-Type"))
	if err != nil || media != formType {
		return &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be a form."}
	}
	return nil
}

// ReadForm reads a page's form.
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
		return nil, errForm
	}
	return values, nil
}

// formType is the media type of the form of a page.
const formType = "application/x-www-form-urlencoded"

var errForm = &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The form cannot be read."}
