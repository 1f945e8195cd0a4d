package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"kist/embed"
	"kist/httpapi/limit"
	"kist/httpapi/oidc"
	"kist/httpapi/outbound"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// A flow is what a browser keeps while its user is at the issuer. The server keeps nothing.
type flow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Next     string `json:"next"`
	// Link is set to link the account of the browser's session. It depends on the session's
	// secret, so that nobody who plants a cookie can link an identity to another's account.
	Link []byte `json:"link,omitempty"`
}

const (
	flowTime      = 10 * 60 // seconds
	flowBreak     = "."     // between two in the cookie
	maxFlows      = 4
	maxFlowCookie = 3500 // bytes: a cookie has 4096 at most
	maxFlowNext   = 1024 // bytes, as in the cookie: two flows fit
	leaveCookie   = "kist_oidc_end"
	maxLeave      = 3500
)

// OIDCPath is where sign-ins at the issuer begin; below it they end.
const OIDCPath = "/login/oidc"

func (f *flow) linkOf(secret string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte("link " + f.State))
	return h.Sum(nil)
}

// begin starts a sign-in at the issuer and returns where it goes on.
func begin(c *web.Request, next string, link, again bool) (string, error) {
	if c.Site.OIDC == nil {
		return "", record.NotFound("address")
	}
	next = nextPath(next)
	inCookie, err := json.Marshal(next)
	if err != nil {
		return "", err
	}
	if len(inCookie) > maxFlowNext {
		next = "/"
	}

	f := &flow{
		State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(),
		Next: next,
	}
	if link {
		f.Link = f.linkOf(sessionSecret(c))
	}
	at, err := c.Site.OIDC.Begin(c.R.Context(), f.State, f.Nonce, f.Verifier, again)
	if err != nil {
		logRefusal(c, err)
		return "", err
	}
	b, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	keepFlows(c, append([]string{base64.RawURLEncoding.EncodeToString(b)}, flowsOf(c)...))
	return at, nil
}

// flowsOf are the flows of the browser, the latest first: each tab may have one.
func flowsOf(c *web.Request) []string {
	return strings.Split(readCookie(c, flowCookie), flowBreak)
}

// keepFlows has the browser keep flows, as far as they fit into a cookie.
func keepFlows(c *web.Request, flows []string) {
	flows = slices.DeleteFunc(flows, func(text string) bool { return parseFlow(text) == nil })
	kept := strings.Join(flows[:min(len(flows), maxFlows)], flowBreak)
	for len(kept) > maxFlowCookie {
		kept = kept[:max(0, strings.LastIndex(kept, flowBreak))]
	}
	if kept == "" {
		setCookie(c, flowCookie, "", -1)
		return
	}
	setCookie(c, flowCookie, kept, flowTime)
}

// parseFlow reads a flow; nil if it is not one.
func parseFlow(text string) *flow {
	b, err := base64.RawURLEncoding.DecodeString(text)
	f := new(flow)
	if err != nil || json.Unmarshal(b, f) != nil || f.State == "" || f.Nonce == "" || f.Verifier == "" {
		return nil
	}
	return f
}

var BeginOIDC = web.PageOp(beginOIDC, 303, 404, 503)

// beginOIDC sends the browser to the issuer. A user who is signed in already has to prove
// again who they are.
func beginOIDC(c *web.Request) error {
	next := c.R.URL.Query().Get("next")
	at, err := begin(c, next, false, c.Caller != nil && c.Caller.Key.Session)
	if err != nil {
		return oidcProblem(c, err, next)
	}
	return redirectAway(c, at)
}

func redirectAway(c *web.Request, at string) error {
	h := c.W.Header()
	h.Set("Cache-Control", "no-store")
	h["Referrer-Policy"] = web.HeadNoReferrer
	h.Set("Location", at)
	c.W.WriteHeader(http.StatusSeeOther)
	return nil
}

var (
	errFlowExpired = &record.Error{
		Fault: record.Unauthorized, Code: "sign_in_expired",
		Text: "This sign-in took too long, or it was started in another browser. Start again.",
	}
	errFlowState = &record.Error{
		Fault: record.Unauthorized, Code: "sign_in_state",
		Text: "This answer does not belong to a sign-in that this browser has started. Start again.",
	}
	errFlowEnded = &record.Error{
		Fault: record.Unauthorized, Code: "sign_in_cancelled",
		Text: "The sign-in service did not let you in, or you cancelled. Start again.",
	}
	errLinkSession = &record.Error{
		Fault: record.Unauthorized, Code: "link_session",
		Text: "You are no longer signed in here with the account that you wanted to link. Sign in and try again.",
	}
	errNotAllowed = &record.Error{
		Fault: record.Denied, Code: "group_missing",
		Text: "Your account at the sign-in service may not use this server. Ask an administrator.",
	}
	errNotLinked = &record.Error{
		Fault: record.Denied, Code: "not_linked",
		Text: "No account here is linked to your account at the sign-in service. " +
			"Sign in as before and link it on the page Security of your account, or ask an administrator.",
	}
	errDisabled    = &record.Error{Fault: record.Denied, Code: "user_disabled", Text: "This account is disabled."}
	ErrPasswordOff = &record.Error{
		Fault: record.Denied, Code: "password_login_off",
		Text: "Signing in with a password is turned off on this server.",
	}
)

var FinishOIDC = web.PageOp(finishOIDC, 303, 401, 403, 404, 409, 429, 503)

// finishOIDC receives the browser that comes back from the issuer, signs it in or links its
// account, and sends it on.
func finishOIDC(c *web.Request) error {
	if c.Site.OIDC == nil {
		return record.NotFound("address")
	}
	flows := flowsOf(c)
	latest := parseFlow(flows[0])
	if latest == nil {
		return oidcProblem(c, errFlowExpired, "")
	}

	q := c.R.URL.Query()
	i := slices.IndexFunc(flows, func(text string) bool {
		f := parseFlow(text)
		return f != nil && subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(f.State)) == 1
	})
	if i < 0 || q.Has("iss") && q.Get("iss") != c.Site.OIDC.Issuer {
		return oidcProblem(c, errFlowState, latest.Next)
	}

	f := parseFlow(flows[i])
	keepFlows(c, slices.Delete(flows, i, i+1))
	if code := q.Get("error"); code != "" {
		logRefusal(c, fmt.Errorf("the issuer says %s", outbound.Printable([]byte(code), 64)))
		return oidcProblem(c, errFlowEnded, f.Next)
	}
	if err := f.finish(c, q.Get("code")); err != nil {
		return oidcProblem(c, err, f.Next)
	}
	return Redirect(c, nextPath(f.Next))
}

// finish signs the browser in, or links its account. It changes where somebody goes on who has joined.
func (f *flow) finish(c *web.Request, code string) error {
	id, err := f.identity(c, code)
	if err != nil {
		logRefusal(c, err)
		return err
	}
	if f.Link == nil {
		u, err := f.userOf(c, id)
		if err != nil {
			logRefusedUser(c, id, err)
			return err
		}
		return startOIDCSession(c, u, id)
	}

	asked := subtle.ConstantTimeCompare(f.Link, f.linkOf(sessionSecret(c))) == 1
	if c.Caller == nil || !c.Caller.Key.Session || !asked {
		return errLinkSession
	}
	if id.Refusal != "" {
		logRefusedUser(c, id, errNotAllowed)
		return errNotAllowed
	}
	return c.UpdateAsCaller(func(tx *kv.Tx) error {
		return people.AddIdentity(tx, c.Owner(), c.Site.OIDC.Issuer, id.Subject, nameOf(id), "")
	})
}

// identity asks the issuer who has come back. Codes that the issuer refuses are counted like
// wrong passwords, because each costs a request to the issuer.
func (f *flow) identity(c *web.Request, code string) (*oidc.Identity, error) {
	tries, now := people.TriesOf(c.Site.Store), c.Site.Store.Now()
	refused := limit.IssuerCodes(limit.Network(c.Addr))
	if wait := tries.Wait(now, refused); wait > 0 {
		return nil, tooManyCodes(wait)
	}

	id, err := c.Site.OIDC.Finish(c.R.Context(), code, f.Nonce, f.Verifier)
	if e, ok := errors.AsType[*record.Error](err); !ok || e.Fault == record.Unauthorized {
		tries.Settle(now, err == nil, refused)
	}
	return id, err
}

// nameOf is how the account at the issuer is shown.
func nameOf(id *oidc.Identity) string {
	if id.UserName != "" {
		return id.UserName
	}
	return id.Name
}

// userOf finds or makes the account of an identity and brings its role up to date. For an
// identity that has lost the group it ends the sessions that came from it.
func (f *flow) userOf(c *web.Request, id *oidc.Identity) (*people.User, error) {
	o := c.Site.OIDC
	var u *people.User
	var refusal error // which leaves what the transaction has changed
	if err := c.Site.Store.Update(func(tx *kv.Tx) (err error) {
		u, refusal, err = f.updateUser(tx, o, id)
		return err
	}); err != nil {
		return nil, err
	}
	return u, refusal
}

// updateUser is userOf in a transaction. refusal says why the identity may not sign in.
func (f *flow) updateUser(tx *kv.Tx, o *oidc.Client, id *oidc.Identity) (u *people.User, refusal, err error) {
	_, by, err := people.InvitationOf(tx, f.invitation())
	invited := err == nil
	if err != nil && !kv.Missing(err) {
		return nil, nil, err
	}
	l, err := people.ReadIdentity(tx, o.Issuer, id.Subject)
	linked := err == nil
	if err != nil && !kv.Missing(err) {
		return nil, nil, err
	}
	switch {
	case id.Refusal != "" && linked:
		return nil, errNotAllowed, lostGroup(tx, o, l)
	case id.Refusal != "":
		return nil, errNotAllowed, nil
	case linked:
		u, err = people.ReadUser(tx, l.Owner)
	case invited:
		u, err = f.join(tx, o.Issuer, id, by.Name)
	case o.Create:
		u, err = people.AddIdentityUser(tx, o.Issuer, id.Subject, id.UserName, id.Name, o.Name)
	default:
		return nil, errNotLinked, nil
	}
	if err != nil {
		return nil, nil, err
	}

	if u.Disabled {
		return u, errDisabled, nil
	}
	if o.AdminGroup == "" {
		return u, nil, nil
	}
	role := people.Member
	if id.Admin {
		role = people.Admin
	}
	return u, nil, people.SetRole(tx, u, role, o.Name)
}

// invitation is the secret of the invitation from whose page the flow began; "" if it began elsewhere.
func (f *flow) invitation() string {
	secret, found := strings.CutPrefix(f.Next, web.JoinPath)
	if !found {
		return ""
	}
	return secret
}

// join makes the account of an identity with the invitation of the flow, which leads to what is shared then.
func (f *flow) join(tx *kv.Tx, issuer string, id *oidc.Identity, by string) (*people.User, error) {
	u, err := people.AddIdentityUser(tx, issuer, id.Subject, id.UserName, id.Name, by)
	if err != nil {
		return nil, err
	}
	joined, err := catalog.Join(tx, f.invitation(), u)
	if err != nil {
		return nil, err
	}
	f.Next = AfterJoin(joined)
	return u, nil
}

// AfterJoin is where in the app somebody goes on who has joined: to the one collection that is shared, or to the home
// page.
func AfterJoin(joined []*record.Record) string {
	if len(joined) != 1 {
		return "/"
	}
	return "/collections/" + joined[0].ID.String()
}

// lostGroup ends all sessions of the account of an identity that may not sign in any more. Its
// role goes if groups decide about roles.
func lostGroup(tx *kv.Tx, o *oidc.Client, l *people.Identity) error {
	if err := people.EndIdentitySessions(tx, l); err != nil {
		return err
	}
	if o.AdminGroup != "" {
		u, err := people.ReadUser(tx, l.Owner)
		if err != nil {
			return err
		}
		if err := people.SetRole(tx, u, people.Member, o.Name); err != nil {
			return err
		}
	}
	return people.EndSessions(tx, l.Owner)
}

// requireIssuer refuses a passkey of an account that has nothing else but the issuer to sign
// in with, where the issuer's groups decide: they are read only there.
func requireIssuer(c *web.Request, u *people.User) error {
	o := c.Site.OIDC
	if o == nil || o.AllowGroup == "" && o.AdminGroup == "" || u.Password != "" && !c.Site.NoPasswords {
		return nil
	}
	return c.Site.Store.View(func(tx *kv.Tx) error {
		all, err := people.Identities(tx, u.ID)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(l people.Identity) bool { return l.Issuer == o.Issuer }) {
			return &record.Error{
				Fault: record.Denied, Code: "issuer_needed",
				Text: "Sign in with " + o.Name + ". This account is managed there.",
			}
		}
		return nil
	})
}

// startOIDCSession signs the browser in. Where groups decide, use does not extend the session,
// so that they are read again.
func startOIDCSession(c *web.Request, u *people.User, id *oidc.Identity) error {
	o := c.Site.OIDC
	var confirmed time.Time
	if id.SignedIn >= 0 {
		confirmed = c.Site.Store.Now().Add(-id.SignedIn)
	}
	if err := startSession(c, u, confirmed, func(tx *kv.Tx, k *people.Key) error {
		l, err := people.ReadIdentity(tx, o.Issuer, id.Subject)
		if err != nil {
			return err
		}
		if l.Owner != u.ID {
			return errNotLinked
		}
		if o.AllowGroup != "" || o.AdminGroup != "" {
			k.Slides = 0
			if err := people.SaveKey(tx, k); err != nil {
				return err
			}
		}
		return people.UseIdentity(tx, l, k.ID, nameOf(id))
	}); err != nil {
		return err
	}
	setLeave(c, id.Token, int(people.SlideTime.Seconds()))
	return nil
}

// setLeave keeps the ID token in the browser, which the issuer wants back at the end of the
// session. It proves nothing to this server.
func setLeave(c *web.Request, token string, age int) {
	if len(token) > maxLeave {
		token = "-"
	}
	http.SetCookie(c.W, &http.Cookie{ // #nosec G124 -- it is Secure on https
		Name: leaveCookie, Value: token, Path: c.Site.Prefix() + OIDCPath, MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: c.Secure(),
	})
}

var LeaveOIDC = web.PageOp(leaveOIDC, 303)

// leaveOIDC shows a browser that has signed out here the way to sign out at the issuer. It is a
// page because browsers do not follow redirects from a form of this server to another.
func leaveOIDC(c *web.Request) error {
	cookie, err := c.R.Cookie(leaveCookie)
	if err != nil || c.Site.OIDC == nil || sessionSecret(c) != "" {
		return Redirect(c, afterLogout)
	}
	setLeave(c, "", -1)
	token := cookie.Value
	if token == "-" {
		token = ""
	}
	at := c.Site.OIDC.End(c.R.Context(), token)
	if at == "" {
		return Redirect(c, afterLogout)
	}
	return c.RespondPage(http.StatusOK, embed.LeavePage{Base: c.Site.Prefix(), Issuer: c.Site.OIDC.Name, Address: at})
}

// oidcProblem shows the sign-in page with what went wrong; for a user who is signed in, a page
// that says so.
func oidcProblem(c *web.Request, err error, next string) error {
	e, status := web.ClientError(err)
	if c.Site.OIDC == nil || status == http.StatusInternalServerError || c.Caller != nil && c.Caller.Key.Session {
		return err
	}
	page, perr := loginPage(c, nextPath(next))
	if perr != nil {
		return perr
	}
	page.Problem = embed.Problem{Text: web.ErrorText(e, c.Lang())}
	web.SetRetry(c.W.Header(), e)
	c.W.Code = e.Code
	return c.RespondPage(status, page)
}

// logRefusal says in the log why a sign-in through the issuer failed. The browser learns less.
func logRefusal(c *web.Request, err error) {
	c.Site.Log.LogAttrs(c.R.Context(), slog.LevelWarn, "sign-in through the issuer refused",
		slog.String("client", address(c)), slog.String("requestId", c.ID), slog.String("error", err.Error()))
}

// logRefusedUser is logRefusal for a user whom the issuer has named.
func logRefusedUser(c *web.Request, id *oidc.Identity, err error) {
	who := fmt.Sprintf("issuer %s, subject %s", c.Site.OIDC.Issuer, id.Subject)
	if id.Refusal != "" {
		who += "; " + id.Refusal
	}
	logRefusal(c, fmt.Errorf("%w (%s)", err, who))
}

// ShownIdentity is a linked identity as its owner sees it.
type ShownIdentity struct{ people.Identity }

func (v *ShownIdentity) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the link.", web.SampleID)
	s.Text("issuer", &v.Issuer, 2048).Says("The issuer of OpenID Connect.", `"https://id.example.org"`)
	s.Text("subject", &v.Subject, 255).Says("Who the account is at the issuer.", `"248289761001"`)
	s.Text("name", &v.Name, record.MaxName).Says("How the issuer calls the user.", `"ann"`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was linked.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("lastUsedAt", &v.LastUsed).
		Says("When it was last used to sign in, to the minute.", `"2026-02-03T04:05:00.000Z"`)
}

var ListIdentities = web.ListOp("sign-in",
	"Lists the accounts at sign-in services that the caller's account is linked to.",
	"A page of identities.", "Identity", listIdentities)

func listIdentities(c *web.Request) error {
	return web.AnswerList(c,
		func(tx *kv.Tx) ([]people.Identity, error) { return people.Identities(tx, c.Owner()) },
		func(l *people.Identity) (record.ID, string) { return l.ID, l.Name },
		func(_ *kv.Tx, l *people.Identity) (*ShownIdentity, error) { return &ShownIdentity{*l}, nil })
}

// LinkForm says where a browser goes on after linking.
type LinkForm struct{ next string }

func (f *LinkForm) Fields(s *field.Set) {
	s.Text("next", &f.next, maxFlowNext).Says("Path on this server to go on to.", `"/account"`)
}

// LinkAddress is where the browser goes on.
type LinkAddress struct{ address string }

func (f *LinkAddress) Fields(s *field.Set) {
	s.Text("url", &f.address, 8192).
		Says("Address at the issuer that the browser has to open.", `"https://id.example.org/authorize?state=…"`)
}

var LinkIdentity = web.Operation{
	Tag: "sign-in", Summary: "Starts to link the account to one at the sign-in service.",
	Body:  web.BodyOf("IdentityLink"),
	Reply: web.Reply{Status: 200, Doc: "Where to go on.", Body: web.DataOf("IdentityAddress")},
	Fails: []int{404, 503}, Serve: linkIdentity,
}

func linkIdentity(c *web.Request) error {
	form := new(LinkForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	at, err := begin(c, form.next, true, false)
	if err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, &LinkAddress{at})
}

var RemoveIdentity = web.DoneOp("sign-in",
	"Removes a linked identity and ends the sessions that came from it.", removeIdentity, 404, 409)

func removeIdentity(c *web.Request) error {
	id, err := c.IDArg("link")
	if err != nil {
		return err
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error { return people.RemoveIdentity(tx, c.Owner(), id) }); err != nil {
		return err
	}
	return c.RespondOK()
}
