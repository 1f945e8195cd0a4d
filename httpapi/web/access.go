package web

import (
	"net/http"
	"strings"

	"kist/httpapi/limit"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// Authorize checks that the caller may use the operation. Where anyone may, an invalid
// credential is ignored: its sender is a visitor.
func (c *Request) Authorize(d Access) error {
	if d.Operator {
		return record.NotFound("address")
	}
	if d.Open && (!d.optional || c.AtContentOrigin()) {
		return nil
	}
	caller, err := c.authenticate()
	if d.Open && err == errNoCredential { //nolint:errorlint // never wrapped; the usual case for visitors
		return nil
	}
	if _, status := ClientError(err); d.Open && status == http.StatusUnauthorized {
		return nil
	}
	if err != nil {
		return err
	}
	if caller.Key.Session && !safe(c.R.Method) {
		if err := c.SameOrigin(); err != nil {
			return err
		}
	}
	c.Caller = caller
	switch {
	case d.Open, d.AnyKey && !d.Admin, caller.Key.Session && (d.Session || d.Browser):
	case d.Browser:
		return &record.Error{Fault: record.Denied, Code: "session_needed", Text: "Only a user who is signed in may do this. An API key may not."}
	case !d.AnyKey && !caller.Key.Allows(d.Scope):
		return c.NeedScope(d.Scope)
	case d.Reads && !caller.Key.Allows(people.ScopeRead):
		return c.NeedScope(people.ScopeRead)
	case d.Admin && caller.User.Role != people.Admin:
		return &record.Error{Fault: record.Denied, Code: "not_admin", Text: "Only an administrator may do this."}
	}
	return nil
}

// NeedScope refuses an API key without the scope.
func (c *Request) NeedScope(s people.Scope) error {
	if c.Caller.Key.Allows(s) {
		return nil
	}
	return &record.Error{Fault: record.Denied, Code: "scope_missing", Text: "This API key does not have the scope " + string(s) + "."}
}

var errNoCredential = &record.Error{
	Fault: record.Unauthorized, Code: "no_credential", Text: "This needs an API key in the header x-api-key, or a browser that is signed in.",
}

// authenticate identifies the caller by an API key if there is one, otherwise by a session.
func (c *Request) authenticate() (*people.Caller, error) {
	key, err := credential(c.R.Header)
	if err != nil {
		return nil, err
	}
	if key != "" {
		caller, err := people.Authenticate(c.Site.Store, key)
		if err == nil && c.Addr.IsValid() {
			people.UsedFrom(c.Site.Store, &caller.Key, c.Addr, limit.Network(c.Addr))
		}
		return caller, err
	}
	if secret := c.Session(); secret != "" {
		return c.AuthenticateSession(secret)
	}
	return nil, errNoCredential
}

// AuthenticateSession finds the caller for the secret of a session. While a proxy names the
// user, a session of another user does not count: somebody else uses the browser now.
func (c *Request) AuthenticateSession(secret string) (*people.Caller, error) {
	caller, err := people.AuthenticateSession(c.Site.Store, secret)
	if err != nil {
		return nil, err
	}
	name, err := c.ProxyUser()
	if err == nil && name != "" && record.Fold(name) != record.Fold(caller.User.Name) {
		err = errNoCredential
	}
	return caller, err
}

// ProxyUser is the name of the user whom a trusted proxy has signed in, or "". The
// header of anybody else counts as absent.
func (c *Request) ProxyUser() (string, error) {
	if c.Site.AuthHeader == "" {
		return "", nil
	}
	named := c.R.Header.Values(c.Site.AuthHeader)
	if _, proxy := c.Site.peer(c.R); !proxy || len(named) == 0 {
		return "", nil
	}
	if len(named) > 1 { // the proxy has added its header to the client's
		return "", &record.Error{Fault: record.Malformed, Code: "conflicting_credentials", Text: "The request carries two different credentials."}
	}
	return strings.TrimSpace(named[0]), nil
}

// credential is the API key of a request, or "". Two different keys are
// refused, so that no other reader of the request can see another caller than kist does.
func credential(h http.Header) (string, error) {
	var key string
	differ := false
	found := func(v string) {
		if v = strings.TrimSpace(v); v == "" { // ignore an empty header
			return
		}
		differ = differ || key != "" && v != key
		key = v
	}
	for _, v := range h["X-Api-Key"] {
		found(v)
	}
	for _, v := range h["Authorization"] {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(v, "\t", " ")), " ")
		if strings.EqualFold(scheme, "ApiKey") || strings.EqualFold(scheme, "Bearer") {
			found(rest)
		}
	}
	if differ {
		return "", &record.Error{Fault: record.Malformed, Code: "conflicting_credentials", Text: "The request carries two different credentials."}
	}
	return key, nil
}

// safe reports whether a method changes nothing (RFC 9110, section 9.2.1).
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// Owns reports whether the caller may see everything in r.
func (c *Request) Owns(r *record.Record) bool { return c.Caller != nil && owns(c.Caller, r) }

// Owns reports whether the credential with the id is valid now and may see everything
// in r.
func (s *Site) Owns(id record.ID, r *record.Record) bool {
	caller, err := people.Recognize(s.Store, r.Owner, id)
	return err == nil && owns(caller, r)
}

func owns(caller *people.Caller, r *record.Record) bool {
	return caller.User.ID == r.Owner && caller.Key.Allows(people.ScopeRead)
}

// UpdateAsCaller is Store.Update for the end of a request that may have taken long. It
// refuses a caller whose credential was revoked in the meantime.
func (c *Request) UpdateAsCaller(fn func(*kv.Tx) error) error {
	return c.Site.Store.Update(func(tx *kv.Tx) error {
		if err := people.CheckNotRevoked(tx, &c.Caller.Key); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Session is the secret in the request's cookie, or "".
func (c *Request) Session() string {
	cookie, err := c.R.Cookie(c.SiteCookie(SessionCookie))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// SessionCookie is the name of the session cookie: see SiteCookie.
const SessionCookie = "kist_session"

// SameOrigin refuses requests that another site makes a browser send, where the browser
// would add a cookie or store one (CrossOriginProtection of the standard library:
// Sec-Fetch-Site, else Origin).
func (c *Request) SameOrigin() error {
	if err := c.Site.CrossOrigin.Check(c.R); err != nil {
		return &record.Error{Fault: record.Denied, Code: "cross_origin", Text: "The request comes from another site."}
	}
	return nil
}

// Access says who may call.
type Access struct {
	Open     bool         // anyone
	optional bool         // with Open: a valid credential identifies the caller
	AnyKey   bool         // any valid API key, whatever its scope
	Scope    people.Scope // the scope that an API key needs
	Reads    bool         // it needs the scope read as well
	Admin    bool         // the user must be an administrator

	Browser bool // only a session, not an API key
	Session bool // a session is enough, without the scope and the role

	// Confirms says by the members of the body which requests of a session must be confirmed, because they make,
	// redirect or copy lasting access; nil: none. See session.RequireConfirmed.
	Confirms func(field.Object) bool

	Operator bool // only a command of the operator; the network has no such row and refuses it
}

// Confirmed is the access for operations that need a confirmed session.
func (d Access) Confirmed() Access {
	return d.ConfirmedIf(func(field.Object) bool { return true })
}

// ConfirmedIf is Confirmed for the requests with such a body.
func (d Access) ConfirmedIf(such func(field.Object) bool) Access {
	d.Confirms = such
	return d
}

var (
	Anyone       = Access{Open: true}
	Visitors     = Access{Open: true, optional: true}
	AnyKeyHolder = Access{AnyKey: true}
	ReadsMetrics = Access{AnyKey: true, Admin: true}
	Reads        = Access{Scope: people.ScopeRead}
	Writes       = Access{Scope: people.ScopeWrite}
	SendsOn      = Access{Scope: people.ScopeWrite, Reads: true}
	Uploads      = Access{Scope: people.ScopeUpload}
	FullScope    = Access{Scope: people.ScopeAll}
	Manages      = Access{Scope: people.ScopeAdmin, Admin: true}
	OwnAccount   = Access{Scope: people.ScopeAdmin, Admin: true, Session: true}
	Browsers     = Access{Browser: true}
	Operators    = Access{Operator: true}
)
