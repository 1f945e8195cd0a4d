package people

import (
	"errors"
	"slices"
	"time"

	"kist/kv/record"
)

// Key is a credential: an API key, or the session of a browser that is signed
// in. Only the SHA-256 of its secret is kept.
type Key struct {
	ID       record.ID `json:"ID"`
	Owner    record.ID `json:"Owner"`
	Name     string    `json:"Name"`
	Scopes   []Scope   `json:"Scopes"`
	Disabled bool      `json:"Disabled"`
	Digest   [32]byte  `json:"Digest"`
	Created  time.Time `json:"Created"`
	Expires  time.Time `json:"Expires"`  // zero: never
	LastUsed time.Time `json:"LastUsed"` // to the minute

	Session bool          `json:"Session,omitempty"` // a session, not an API key
	Slides  time.Duration `json:"Slides,omitempty"`  // if not 0, use moves Expires this far ahead
	Device  string        `json:"Device,omitempty"`  // the client that got the key by the device flow
	Agent   string        `json:"Agent,omitempty"`   // of a session: the browser, as it calls itself
	Address string        `json:"Address,omitempty"` // of a session: where it signed in from

	Confirmed time.Time `json:"Confirmed,omitzero"` // of a session: when the user last proved who they are
}

// RecentTime is how long a session may change how its user signs in, after its user has
// proved who they are.
const RecentTime = 10 * time.Minute

// Recent reports whether the session's user proved a short time ago who they are. A sign-in
// alone does not: a proxy or an issuer may know its user from long before.
func (k *Key) Recent(now time.Time) bool { return now.Sub(k.Confirmed) < RecentTime }

// SlideTime is how long a session, or a key from the device flow, stays valid
// without use. SessionTime is the maximum life of a session.
const (
	SlideTime   = 30 * 24 * time.Hour
	SessionTime = 365 * 24 * time.Hour
)

// slideStep is the minimum by which use moves an expiry.
const slideStep = time.Hour

// Slide moves the expiry because the key was used at the given instant. It
// reports whether it did.
func (k *Key) Slide(at time.Time) bool {
	ends := at.Add(k.Slides)
	if latest := k.Created.Add(SessionTime); k.Session && ends.After(latest) {
		ends = latest
	}
	if k.Slides == 0 || ends.Sub(k.Expires) < slideStep {
		return false
	}
	k.Expires = ends
	return true
}

// Scope is what a key may be used for.
type Scope string

// The scopes. ScopeAll is read, write and upload. ScopeAdmin includes ScopeAll,
// and the administration if the key's user is an administrator.
const (
	ScopeAll    Scope = "all"
	ScopeRead   Scope = "read"
	ScopeWrite  Scope = "write"
	ScopeUpload Scope = "upload"
	ScopeAdmin  Scope = "admin"
)

// Scopes lists the scopes.
var Scopes = []Scope{ScopeAll, ScopeRead, ScopeWrite, ScopeUpload, ScopeAdmin}

// Allows reports whether the key has the scope or a wider one.
func (k *Key) Allows(s Scope) bool {
	switch {
	case slices.Contains(k.Scopes, ScopeAdmin), slices.Contains(k.Scopes, s):
		return true
	case s == ScopeUpload:
		return slices.Contains(k.Scopes, ScopeAll) || slices.Contains(k.Scopes, ScopeWrite)
	}
	return s != ScopeAdmin && slices.Contains(k.Scopes, ScopeAll)
}

// CleanScope is the rule for scopes.
func CleanScope(t string) (string, error) {
	if !slices.Contains(Scopes, Scope(t)) {
		return "", errors.New("must be one of: all, read, write, upload, admin")
	}
	return t, nil
}
