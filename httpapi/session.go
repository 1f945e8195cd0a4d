package httpapi

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
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// sessionCookie names the cookie of a browser that is signed in: see siteCookie.
const sessionCookie = "kist_session"

// session is the secret in the request's cookie; "" if there is none.
func (c *request) session() string {
	cookie, err := c.r.Cookie(c.siteCookie(sessionCookie))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setSession has the browser keep a session's secret, or forget it if it is
// "".
func (c *request) setSession(secret string) {
	cookie := &http.Cookie{ // #nosec G124 -- it is Secure on https
		Name: c.siteCookie(sessionCookie), Value: secret, Path: "/", MaxAge: int(record.SlideTime.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.secure(),
	}
	if secret == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(c.w, cookie)
}

// sameOrigin refuses what another site has a browser send, where the browser
// would add a cookie on its own or keep one (the standard library's
// CrossOriginProtection: Sec-Fetch-Site, else Origin).
func (c *request) sameOrigin() error {
	if err := c.s.crossOrigin.Check(c.r); err != nil {
		return &record.Error{Fault: record.Denied, Code: "cross_origin", Text: "The request comes from another site."}
	}
	return nil
}

// loginForm is what a user signs in with.
type loginForm struct {
	name     string
	password field.Secret
}

func (f *loginForm) Fields(s *field.Set) {
	s.Text("username", &f.name, 256, field.Required, field.Filled).Says("Name of the user.", `"ann"`)
	s.Secret("password", &f.password, field.Required).Says("The user's password.", `"correct horse battery"`)
}

var errLogin = &record.Error{Fault: record.Unauthorized, Code: "wrong_login", Text: "The name or the password is not right."}

// maxAgent is how much is kept of what a browser calls itself, in bytes.
const maxAgent = 200

// signIn makes a session for the user who has the password, and returns the
// user. A wrong password is counted, and written to the log in a line that does
// not change: programs that shut out attackers read it.
func (c *request) signIn(name, password string) (*record.User, error) {
	if len(password) > field.MaxSecret { // no password is longer: nothing is tried out
		return nil, errLogin
	}
	name = strings.TrimSpace(name) // no name has any there, and keyboards of telephones add one
	var u *record.User
	err := c.s.Store.View(func(tx *kv.Tx) (err error) { u, err = tx.UserNamed(name); return err })
	if err != nil && !missing(err) {
		return nil, err
	}
	g := guess{at: "login:" + record.Fold(cutTo(name, 64)), password: password, proves: true} // no name is longer
	if u != nil {
		g.hash, g.device = u.Password, c.device(u)
	}
	right, err := c.checkPassword(g)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.TooMany {
		c.failedSignIn(name)
	}
	if err != nil {
		return nil, err
	}
	if !right || u == nil || u.Disabled {
		c.failedSignIn(name)
		return nil, errLogin
	}
	return u, c.startSession(u)
}

// startSession makes a session and gives it to the browser. One that the browser had
// ends.
func (c *request) startSession(u *record.User) error {
	old := c.session()
	var before *kv.Caller
	if old != "" {
		before, _ = c.s.Store.AuthenticateSession(old) // what cannot be used has ended
	}
	var secret string
	err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
		now, err := tx.User(u.ID)
		if err != nil || now.Disabled || now.Password != u.Password { // changed since it was checked
			return errLogin
		}
		if before != nil {
			if err := tx.RemoveKey(before.User.ID, before.Key.ID); err != nil && !missing(err) {
				return err
			}
		}
		_, secret, err = tx.AddSession(u.ID, cutTo(c.r.UserAgent(), maxAgent), c.address())
		return err
	})
	if err == nil {
		c.setSession(secret)
		c.setDevice(u)
		c.s.Store.Tries().SignedIn(network(c.addr).String(), c.s.Store.Now())
	}
	return err
}

// address is where the client asks from; "" if that is not known, as of one
// that comes over a socket and by no proxy.
func (c *request) address() string {
	if !c.addr.IsValid() {
		return ""
	}
	return c.addr.String()
}

// failedSignIn writes the line of a wrong sign-in.
func (c *request) failedSignIn(name string) {
	client := cmp.Or(c.address(), "local")
	c.s.Log.LogAttrs(c.r.Context(), slog.LevelWarn, "sign-in failed", slog.String("client", client), slog.String("user", cutTo(name, 64)))
}

// login signs a browser in.
func login(c *request) error {
	if err := c.sameOrigin(); err != nil {
		return err
	}
	form := new(loginForm)
	if err := c.decodeNew(form); err != nil {
		return err
	}
	u, err := c.signIn(form.name, form.password.Text)
	if err != nil {
		return err
	}
	return c.answerUser(http.StatusOK, u.ID)
}

// logout ends the session of the browser that asks, if it has one.
func logout(c *request) error {
	if err := c.endSession(); err != nil {
		return err
	}
	return c.respondOK()
}

func (c *request) endSession() error {
	if err := c.sameOrigin(); err != nil {
		return err
	}
	secret := c.session()
	if secret == "" {
		return nil
	}
	c.setSession("")
	caller, err := c.s.Store.AuthenticateSession(secret)
	if err != nil {
		return nil //nolint:nilerr // it has ended before
	}
	err = c.s.Store.Update(func(tx *kv.Tx) error { return tx.RemoveKey(caller.User.ID, caller.Key.ID) })
	if missing(err) {
		return nil
	}
	return err
}

// shownSession is a session as its owner sees it.
type shownSession struct {
	record.Key
	current bool
}

func (v *shownSession) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the session.", sampleID)
	s.Text("agent", &v.Agent, maxAgent).Says("What the browser calls itself.", `"Mozilla/5.0"`)
	s.Text("address", &v.Address, 64).Says("Where it signed in from.", `"192.0.2.7"`)
	s.Bool("current", &v.current).Says("Whether it is the one that asks.", `true`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it signed in.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("lastUsedAt", &v.LastUsed, field.Always).Says("When it was last used, to the minute.", `"2026-01-02T03:04:00.000Z"`)
	s.Time("expiresAt", &v.Expires, field.Always).Says("When it ends unless it is used.", `"2026-02-01T03:04:05.678Z"`)
}

func listSessions(c *request) error {
	return answerList(c,
		func(tx *kv.Tx) ([]record.Key, error) { return tx.Sessions(c.owner()) },
		func(k *record.Key) (record.ID, string) { return k.ID, k.Agent },
		func(_ *kv.Tx, k *record.Key) (*shownSession, error) {
			return &shownSession{*k, k.ID == c.caller.Key.ID}, nil
		})
}

func removeSession(c *request) error {
	id, err := c.uuid("session")
	if err != nil {
		return err
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		k, err := tx.Session(c.owner(), id)
		if err != nil {
			return err
		}
		return tx.RemoveKey(k.Owner, k.ID)
	}); err != nil {
		return err
	}
	return c.respondOK()
}

// removeSessions ends all sessions but the one that asks.
func removeSessions(c *request) error {
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		all, err := tx.Sessions(c.owner())
		for i := 0; err == nil && i < len(all); i++ {
			if all[i].ID != c.caller.Key.ID {
				err = tx.RemoveKey(all[i].Owner, all[i].ID)
			}
		}
		return err
	}); err != nil {
		return err
	}
	return c.respondOK()
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

// loginPage is the page to sign in at; who is signed in is sent on.
func loginPage(c *request) error {
	next := onward(c.r.URL.Query().Get("next"))
	if c.session() != "" {
		if _, err := c.s.Store.AuthenticateSession(c.session()); err == nil {
			return c.redirect(next)
		}
	}
	page := embed.LoginPage{Base: c.s.prefix(), Next: next}
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		all, err := tx.Users()
		page.Unclaimed = len(all) == 0
		return err
	}); err != nil {
		return err
	}
	return c.respondPage(http.StatusOK, page)
}

// redirect sends a browser on to a path of this server, with GET.
func (c *request) redirect(path string) error {
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.Header().Set("Location", asciiURL(c.s.prefix()+path))
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// signedIn takes the form of the login page.
func signedIn(c *request) error {
	if err := c.sameOrigin(); err != nil {
		return err
	}
	values, err := c.readForm()
	if err != nil {
		return err
	}
	c.readProofField(values)
	next, name := onward(values.Get("next")), values.Get("username")
	if _, err = c.signIn(name, values.Get("password")); err == nil {
		return c.redirect(next)
	}
	return c.problem(err, func(p embed.Problem) embed.Page {
		return embed.LoginPage{Base: c.s.prefix(), Next: next, UserName: name, Problem: p}
	})
}

// problem answers a page's form of which a password was not taken: with the
// page again, which says why, and when to try again. Other errors are returned.
func (c *request) problem(err error, page func(embed.Problem) embed.Page) error {
	e, status := clientError(err)
	p := embed.Problem{Text: e.Text, Wait: e.Fault == record.TooMany || e.Fault == record.Busy}
	switch needed, ok := errors.AsType[*proofNeeded](err); {
	case ok:
		challenge, err := json.Marshal(needed.challenge)
		if err != nil {
			return err
		}
		p.Text, p.Challenge, p.Without = "Too many wrong passwords.", string(challenge), roundedUp(e.Retry)
	case !p.Wait && e.Fault != record.Unauthorized:
		return err
	}
	setRetry(c.w.Header(), e)
	c.w.code = e.Code
	return c.respondPage(status, page(p))
}

// signedOut takes the form that signs out.
func signedOut(c *request) error {
	if err := c.endSession(); err != nil {
		return err
	}
	return c.redirect("/login")
}

// deviceForm is a client's request to be let in.
type deviceForm struct{ client string }

func (f *deviceForm) Fields(s *field.Set) {
	s.Name("extension_id", &f.client, 128, field.Required, field.Filled).Says("What the client calls itself.", `"kist-extension"`)
}

// authorizeDevice begins the device flow (RFC 8628, section 3.1).
func authorizeDevice(c *request) error {
	form := new(deviceForm)
	if err := c.decodeNew(form); err != nil {
		return c.invalidRequest(err)
	}
	var d *record.Device
	var secret string
	err := c.s.Store.Update(func(tx *kv.Tx) error {
		set, err := tx.Settings()
		if err != nil {
			return err
		}
		if set.TokensOff {
			return &record.Error{Fault: record.Denied, Code: "access_denied", Text: "API keys are turned off."}
		}
		d, secret, err = tx.AddDevice(form.client, c.address(), network(c.addr).String())
		return err
	})
	if e, ok := errors.AsType[*record.Error](err); ok && (e.Fault == record.TooMany || e.Fault == record.Denied) {
		setRetry(c.w.Header(), e)
		return c.deviceError(statuses[e.Fault], &record.DeviceError{Code: e.Code, Text: e.Text, Interval: kv.DeviceInterval})
	}
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"device_code": secret, "user_code": d.Code, "verification_uri": c.s.Base + "/device",
		"verification_uri_complete": c.s.Base + "/device?user_code=" + d.Code,
		"expires_in":                int(kv.DeviceTime.Seconds()), "interval": int(d.Interval.Seconds()),
	})
	if err != nil {
		return err
	}
	return c.respondJSON(http.StatusOK, body)
}

// tokenForm is a poll.
type tokenForm struct{ code string }

func (f *tokenForm) Fields(s *field.Set) {
	s.Text("device_code", &f.code, 256, field.Required, field.Filled).Says("The code that the client was given.", `"…"`)
}

// pollDevice answers a poll (RFC 8628, section 3.4).
func pollDevice(c *request) error {
	form := new(tokenForm)
	if err := c.decodeNew(form); err != nil {
		return c.invalidRequest(err)
	}
	var key string
	var wait *record.DeviceError
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) { key, wait, err = tx.PollDevice(form.code); return err }); err != nil {
		return err
	}
	if wait != nil {
		status := http.StatusBadRequest
		if wait.Off {
			status = http.StatusForbidden
		}
		return c.deviceError(status, wait)
	}
	body, err := json.Marshal(map[string]any{
		"token_type": "ApiKey", "api_key": key, "expires_in": int(record.SlideTime.Seconds()), "interval": int(kv.DeviceInterval.Seconds()),
	})
	if err != nil {
		return err
	}
	return c.respondJSON(http.StatusOK, body)
}

// revokeDevice takes the key of the device flow away that the request has come
// with, so that a client can leave; it may touch no other.
func revokeDevice(c *request) error {
	if c.caller.Key.Device == "" {
		return &record.Error{Fault: record.Denied, Code: "no_device", Text: "This ends what was connected with a code; other keys are revoked under “Keys and devices”."}
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error { return tx.RemoveKey(c.owner(), c.caller.Key.ID) }); err != nil {
		return err
	}
	return c.respondOK()
}

// invalidRequest tells a client of the device flow what is wrong with its
// body.
func (c *request) invalidRequest(err error) error {
	e, _ := clientError(err)
	return c.deviceError(http.StatusBadRequest, &record.DeviceError{Code: "invalid_request", Text: e.Text})
}

// deviceError answers in the form of OAuth (RFC 6749, section 5.2).
func (c *request) deviceError(status int, e *record.DeviceError) error {
	answer := map[string]any{"error": e.Code, "code": e.Code, "error_description": e.Text, "requestId": c.id}
	if e.Interval > 0 {
		answer["interval"] = int(e.Interval.Seconds())
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	c.w.code = e.Code
	return c.respondJSON(status, body)
}

// verifyForm is a user's decision.
type verifyForm struct{ code, action string }

var deviceActions = []string{"approve", "deny"}

func (f *verifyForm) Fields(s *field.Set) {
	s.Text("user_code", &f.code, 64, field.Required, field.Filled).Says("The code that the client shows.", `"BCDF-GHJK"`)
	field.Choice(s, "action", &f.action, deviceActions, field.Required).Says("Whether it is let in.", `"approve"`)
}

// tooManyCodes is tooMany for codes of the device flow.
func tooManyCodes(wait time.Duration) error {
	return &record.Error{Fault: record.TooMany, Code: "too_many_guesses", Text: "Too many wrong codes. Try again " + roundedUp(wait) + ".", Retry: wait}
}

// decideDevice lets the client of a code in, or refuses it. Codes cannot be tried
// out.
func (c *request) decideDevice(code string, approve bool) (*record.Device, error) {
	var d *record.Device
	err := c.tryCode(func() (err error) {
		return c.s.Store.Update(func(tx *kv.Tx) (err error) { d, err = tx.DecideDevice(code, c.owner(), approve); return err })
	})
	return d, err
}

// tryCode runs what looks for a code, and counts a code that is not there as a
// wrong guess.
func (c *request) tryCode(look func() error) error {
	now, at, tries := c.s.Store.Now(), "device:"+c.owner().String(), c.s.Store.Tries()
	limits := []kv.Limit{
		{Kind: limitFrom, Of: network(c.addr).String() + " " + at, Most: guessesFrom},
		{Kind: limitOverall, Of: at, Most: guessesOverall},
	}
	if wait := tries.Wait(now, limits...); wait > 0 {
		return tooManyCodes(wait)
	}
	err := look()
	if _, wait := tries.Settle(now, !missing(err), limits...); wait > 0 {
		return tooManyCodes(wait)
	}
	return err
}

func verifyDevice(c *request) error {
	form := new(verifyForm)
	if err := c.decodeNew(form); err != nil {
		return err
	}
	if _, err := c.decideDevice(form.code, form.action == "approve"); err != nil {
		return err
	}
	return c.respondOK()
}

// devicePage shows which client asks, to who is signed in; others sign in
// first and come back with the code still filled in.
func devicePage(c *request) error {
	code := record.CleanUserCode(c.r.URL.Query().Get("user_code"))
	if c.caller == nil || !c.caller.Key.Session {
		return c.redirect("/login?next=" + url.QueryEscape("/device?user_code="+code))
	}
	return c.answerDevice(http.StatusOK, code, "")
}

func (c *request) answerDevice(status int, code, problem string) error {
	page := embed.DevicePage{Base: c.s.prefix(), UserName: c.caller.User.Name, Code: code, Problem: problem}
	if code == "" || problem != "" {
		return c.respondPage(status, page)
	}
	var d *record.Device
	err := c.tryCode(func() error {
		return c.s.Store.View(func(tx *kv.Tx) (err error) { d, err = tx.DeviceFor(code); return err })
	})
	if missing(err) {
		page.Problem = "This code is not known, or its ten minutes are over. Look at the code again, or start again on the device."
		return c.respondPage(http.StatusNotFound, page)
	}
	if err != nil {
		return err
	}
	page.Client, page.Address, page.Asked = record.ClientName(d.Client), d.Address, d.Created
	return c.respondPage(status, page)
}

// deviceDecided takes the form of the device page.
func deviceDecided(c *request) error {
	values, err := c.readForm()
	if err != nil {
		return err
	}
	code := record.CleanUserCode(values.Get("user_code"))
	approve := values.Get("action") == "approve"
	if !approve && values.Get("action") != "deny" {
		return c.redirect("/device?user_code=" + code) // the code was typed
	}
	d, err := c.decideDevice(code, approve)
	if missing(err) {
		return c.answerDevice(http.StatusNotFound, code, "This code is not known any more. Start again on the device.")
	}
	if err != nil {
		return err
	}
	page := embed.MessagePage{Base: c.s.prefix(), Title: "Not connected", Text: record.ClientName(d.Client) + " was refused. You can close this page."}
	if approve {
		page.Title, page.Text = "Connected", record.ClientName(d.Client)+" is connected to your account. You can close this page and go back to it."
	}
	return c.respondPage(http.StatusOK, page)
}

// requireForm refuses a body that is no form of a page.
func (c *request) requireForm() error {
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return &record.Error{Fault: record.WrongType, Code: "unsupported_media_type", Text: "The body must be a form."}
	}
	return nil
}

// readForm reads a body of a page's form.
func (c *request) readForm() (url.Values, error) {
	if err := c.requireForm(); err != nil {
		return nil, err
	}
	data, err := c.readBody(maxQuery)
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, &record.Error{Fault: record.Malformed, Code: "malformed", Text: "The form cannot be read."}
	}
	return values, nil
}

// sessionRoutes are the operations of signing in.
func sessionRoutes() []route {
	text, number := object{"type": "string"}, object{"type": "integer"}
	uri := object{"type": "string", "format": "uri"}
	codes := named("DeviceCodes", jsonOf(members(object{
		"device_code": text, "user_code": text, "verification_uri": uri, "verification_uri_complete": uri, "expires_in": number, "interval": number,
	}, "device_code", "user_code", "verification_uri", "verification_uri_complete", "expires_in", "interval"), object{
		"device_code": "…", "user_code": "BCDF-GHJK", "verification_uri": "https://kist.example.org/device",
		"verification_uri_complete": "https://kist.example.org/device?user_code=BCDF-GHJK", "expires_in": 600, "interval": 5,
	}))
	key := named("DeviceKey", jsonOf(members(object{"token_type": text, "api_key": text, "expires_in": number, "interval": number},
		"token_type", "api_key", "expires_in", "interval"), object{"token_type": "ApiKey", "api_key": "kist_…", "expires_in": 2592000, "interval": 5}))
	return []route{
		{
			method: "POST", path: apiPath + "auth/login", id: "login", tag: "session", summary: "Signs a browser in: sets the session cookie.",
			access: anyone, args: []param{proofArg}, body: bodyOf("Login"), reply: reply{200, "The account.", dataOf("User")}, fails: []int{400, 401, 403, 429, 503}, serve: login,
		},
		{
			method: "POST", path: apiPath + "auth/logout", id: "logout", tag: "session", summary: "Ends the session of the browser that asks.",
			access: anyone, reply: done, fails: []int{403}, serve: logout,
		},
		{
			method: "GET", path: apiPath + "me/sessions", id: "listSessions", tag: "session", summary: "Lists the browsers that are signed in.",
			access: ownAccount, args: pageParams(shortSorts), reply: reply{200, "A page of sessions.", listOf("Session")}, serve: listSessions,
		},
		{
			method: "DELETE", path: apiPath + "me/sessions", id: "removeSessions", tag: "session", summary: "Ends all sessions but the one that asks.",
			access: ownAccount, reply: done, serve: removeSessions,
		},
		{
			method: "DELETE", path: apiPath + "me/sessions/{id}", id: "removeSession", tag: "session", summary: "Ends a session.",
			access: ownAccount, reply: done, fails: []int{404}, serve: removeSession,
		},
		{
			method: "POST", path: apiPath + "auth/device/authorize", id: "authorizeDevice", tag: "session", summary: "Begins the device flow (RFC 8628): a client asks to be let in.",
			access: anyone, body: bodyOf("Device"), reply: reply{200, "The codes.", codes}, fails: []int{403, 429}, serve: authorizeDevice,
		},
		{
			method: "POST", path: apiPath + "auth/device/token", id: "pollDevice", tag: "session", summary: "Polls for the key of a device.",
			access: anyone, body: bodyOf("DevicePoll"), reply: reply{200, "The key, once.", key}, fails: []int{403}, serve: pollDevice,
		},
		{
			method: "POST", path: apiPath + "auth/device/revoke", id: "revokeDevice", tag: "session", summary: "Revokes the key of the device flow that it is called with: the client leaves.",
			access: holders, reply: done, fails: []int{404}, serve: revokeDevice,
		},
		{
			method: "POST", path: apiPath + "auth/device/verify", id: "verifyDevice", tag: "session", summary: "Lets a device in or refuses it; for a browser that is signed in.",
			access: browsers, body: bodyOf("DeviceDecision"), reply: done, fails: []int{404, 429}, serve: verifyDevice,
		},
		{
			method: "GET", path: "/login", id: "readLogin", tag: "session", summary: "The page to sign in at.",
			access: anyone, args: []param{{"query", "next", "Path to go on to.", object{"type": "string"}, "/files"}}, reply: reply{200, "The page.", pageOf()}, fails: []int{303}, serve: loginPage,
		},
		{
			method: "POST", path: "/login", id: "postLogin", tag: "session", summary: "Takes the form of the page to sign in at.",
			access: anyone, body: formBody, reply: reply{303, "On to the page that was wanted.", nil}, fails: []int{400, 401, 403, 413, 415, 429, 503}, serve: signedIn,
		},
		{
			method: "POST", path: "/logout", id: "postLogout", tag: "session", summary: "Signs the browser out.",
			access: anyone, reply: reply{303, "On to the page to sign in at.", nil}, fails: []int{403}, serve: signedOut,
		},
		{
			method: "GET", path: "/device", id: "readDevice", tag: "session", summary: "The page where a user lets a device in.",
			access: visitors, args: []param{{"query", "user_code", "The code that the device shows.", object{"type": "string"}, "BCDF-GHJK"}}, reply: reply{200, "The page.", pageOf()}, fails: []int{303, 404, 429}, serve: devicePage,
		},
		{
			method: "POST", path: "/device", id: "postDevice", tag: "session", summary: "Takes the form of the page where a user lets a device in.",
			access: browsers, body: formBody, reply: reply{200, "What was done.", pageOf()}, fails: []int{303, 400, 404, 413, 415, 429}, serve: deviceDecided,
		},
	}
}
