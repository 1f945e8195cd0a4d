package web

import (
	"net/http"

	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// NeedScope refuses an API key without the scope.
func (c *Request) NeedScope(s people.Scope) error {
	if c.Caller.Key.Allows(s) {
		return nil
	}
	return &record.Error{
		Fault: record.Denied, Code: "scope_missing", Text: "This API key does not have the scope " + string(s) + ".",
	}
}

// Safe reports whether a method changes nothing (RFC 9110, section 9.2.1).
func Safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// Owns reports whether the caller may see everything in r.
func (c *Request) Owns(r *record.Record) bool {
	return c.Caller != nil && c.Caller.User.ID == r.Owner && c.Caller.Key.Allows(people.ScopeRead)
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

// CheckCaller fails if the caller's credential was revoked since the request began, as its body may have taken long.
// It is for operations of several transactions; UpdateAsCaller is for one.
func (c *Request) CheckCaller() error {
	return c.Site.Store.View(func(tx *kv.Tx) error { return people.CheckNotRevoked(tx, &c.Caller.Key) })
}

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
	Optional bool         // with Open: a valid credential identifies the caller
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
	Visitors     = Access{Open: true, Optional: true}
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
