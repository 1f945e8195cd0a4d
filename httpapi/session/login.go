package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"kist/embed"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// LoginForm is the form for signing in.
type LoginForm struct {
	name     string
	password field.Secret
}

func (f *LoginForm) Fields(s *field.Set) {
	s.Text("username", &f.name, 256, field.Required, field.Filled).Says("Name of the user.", `"ann"`)
	s.Secret("password", &f.password, field.Required).Says("The user's password.", `"correct horse battery"`)
}

var errLogin = &record.Error{
	Fault: record.Unauthorized, Code: "wrong_login",
	Text: "The name or the password is wrong.",
}

// signIn checks the password, starts a session and returns the user. If the account has a
// second step, it starts none, and the error is a *web.StepNeeded. It counts a wrong password
// and logs it in a line that must not change, because programs that block attackers read it.
func signIn(c *web.Request, name, password string) (*people.User, error) {
	if c.Site.NoPasswords {
		return nil, ErrPasswordOff
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

func failedSignIn(c *web.Request, name string) {
	client := cmp.Or(address(c), "local")
	c.Site.Log.LogAttrs(c.R.Context(), slog.LevelWarn, "sign-in failed",
		slog.String("client", client), slog.String("user", web.CutTo(name, 64)))
}

var Login = web.Operation{
	Tag: "sign-in", Summary: "Signs a browser in and sets the session cookie.",
	Args: []web.Param{web.ProofArg}, Body: web.BodyOf("Login"),
	Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")},
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

// nextPath is the path on this server to go to after signing in. Any other address, and
// anything that a browser could take for one, becomes the home page.
func nextPath(next string) string {
	odd := func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsFunc(next, odd) {
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
	if sessionSecret(c) != "" {
		if _, err := authenticateSession(c, sessionSecret(c)); err == nil {
			return Redirect(c, next)
		}
	}
	named, err := proxyUser(c)
	if err != nil {
		return err
	}
	if named != "" {
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
		return c.RespondPage(http.StatusOK, embed.MessagePage{
			Base: c.Site.Prefix(), Title: c.Lang().T("login.left"),
			Text: c.Lang().T("login.proxyKnows", "name", web.CutTo(name, 64)),
		})
	}
	if !visits(c.R.Header) {
		return &record.Error{Fault: record.Denied, Code: "cross_origin", Text: "The request comes from another site."}
	}
	if err := startProxySession(c, name); err != nil {
		failedSignIn(c, name)
		return err
	}
	return Redirect(c, next)
}

// startProxySession starts a session for the account with the name.
func startProxySession(c *web.Request, name string) error {
	var u *people.User
	err := c.Site.Store.View(func(tx *kv.Tx) (err error) { u, err = people.UserNamed(tx, name); return err })
	if kv.Missing(err) {
		return &record.Error{
			Fault: record.Denied, Code: "proxy_user_unknown",
			Text: "There is no account here with the name that the proxy has signed you in with. Ask an administrator.",
		}
	}
	if err != nil {
		return err
	}
	if u.Disabled {
		return errDisabled
	}
	return startSession(c, u, time.Time{}) // nobody says when the proxy asked for a password
}

// visits reports whether a browser goes to the page itself. It does not if a page of another site
// contains the address as a picture or a frame. Following a link from there is a visit.
func visits(h http.Header) bool {
	site := h.Get("Sec-Fetch-Site")
	foreign := site == "cross-site" || site == "same-site"
	return !foreign || h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document"
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
	_, err = signIn(c, name, values.Get("password"))
	if err == nil {
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
