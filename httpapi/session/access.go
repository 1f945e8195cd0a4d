package session

import (
	"net/http"
	"strings"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv/people"
	"kist/kv/record"
)

// Authorize checks that the caller may use the operation. Where anyone may, an invalid
// credential is ignored: its sender is a visitor.
func Authorize(c *web.Request, d web.Access) error {
	if d.Operator {
		return record.NotFound("address")
	}
	if d.Open && (!d.Optional || c.AtContentOrigin()) {
		return nil
	}

	caller, err := authenticate(c)
	if d.Open && err == errNoCredential { //nolint:errorlint // never wrapped; the usual case for visitors
		return nil
	}
	if _, status := web.ClientError(err); d.Open && status == http.StatusUnauthorized {
		return nil
	}
	if err != nil {
		return err
	}
	if caller.Key.Session && !web.Safe(c.R.Method) {
		if err := c.SameOrigin(); err != nil {
			return err
		}
	}
	c.Caller = caller

	switch {
	case d.Open, d.AnyKey && !d.Admin, caller.Key.Session && (d.Session || d.Browser):
	case d.Browser:
		return &record.Error{
			Fault: record.Denied, Code: "session_needed",
			Text: "Only a user who is signed in may do this. An API key may not.",
		}
	case !d.AnyKey && !caller.Key.Allows(d.Scope):
		return c.NeedScope(d.Scope)
	case d.Reads && !caller.Key.Allows(people.ScopeRead):
		return c.NeedScope(people.ScopeRead)
	case d.Admin && caller.User.Role != people.Admin:
		return &record.Error{Fault: record.Denied, Code: "not_admin", Text: "Only an administrator may do this."}
	}
	return nil
}

var errNoCredential = &record.Error{
	Fault: record.Unauthorized, Code: "no_credential",
	Text: "This needs an API key in the header x-api-key, or a browser that is signed in.",
}

var errTwoCredentials = &record.Error{
	Fault: record.Malformed, Code: "conflicting_credentials",
	Text: "The request carries two different credentials.",
}

// authenticate identifies the caller by an API key if there is one, otherwise by a session.
func authenticate(c *web.Request) (*people.Caller, error) {
	key, err := credential(c.R.Header)
	if err != nil {
		return nil, err
	}
	if key != "" {
		caller, err := people.Authenticate(c.Site.Store, key)
		if err != nil {
			return nil, err
		}
		if c.Addr.IsValid() {
			people.UsedFrom(c.Site.Store, &caller.Key, c.Addr, limit.Network(c.Addr))
		}
		return caller, nil
	}
	if secret := sessionSecret(c); secret != "" {
		return authenticateSession(c, secret)
	}
	return nil, errNoCredential
}

// authenticateSession finds the caller for the secret of a session. While a proxy names the
// user, a session of another user does not count: somebody else uses the browser now.
func authenticateSession(c *web.Request, secret string) (*people.Caller, error) {
	caller, err := people.AuthenticateSession(c.Site.Store, secret)
	if err != nil {
		return nil, err
	}
	name, err := proxyUser(c)
	if err != nil {
		return nil, err
	}
	if name != "" && record.Fold(name) != record.Fold(caller.User.Name) {
		return nil, errNoCredential
	}
	return caller, nil
}

// proxyUser is the name of the user whom a trusted proxy has signed in, or "". The
// header of anybody else counts as absent.
func proxyUser(c *web.Request) (string, error) {
	if c.Site.AuthHeader == "" {
		return "", nil
	}
	named := c.R.Header.Values(c.Site.AuthHeader)
	if len(named) == 0 || !c.Site.ByProxy(c.R) {
		return "", nil
	}
	if len(named) > 1 { // the proxy has added its header to the client's
		return "", errTwoCredentials
	}
	return strings.TrimSpace(named[0]), nil
}

// credential is the API key of a request, or "". Two different keys are
// refused, so that no other reader of the request can see another caller than kist does.
func credential(h http.Header) (string, error) {
	var key string
	differ := false
	found := func(v string) {
		v = strings.TrimSpace(v)
		if v == "" { // ignore an empty header
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
		return "", errTwoCredentials
	}
	return key, nil
}
