package people

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

// callers caches credentials by digest, and by account id whether the account is
// disabled. It reflects the last commit that touched them.
var callers kv.Cache[sync.Map]

// Caller is the user and credential of a request. It must not be changed.
type Caller struct {
	User      User
	Key       Key
	tokensOff bool
}

// Client names the browser, key or device of the request.
func (c *Caller) Client() string { return cmp.Or(c.Key.Name, c.Key.Agent) }

func forbidden(code, text string) error {
	return &record.Error{Fault: record.Unauthorized, Code: code, Text: text}
}

// Authenticate finds the caller for the secret of an API key, or fails with
// Unauthorized. It sees every commit that ended before the call, and records the
// time of use to the minute.
func Authenticate(s *kv.Store, secret string) (*Caller, error) { return authenticate(s, secret, false) }

// AuthenticateSession is Authenticate for the secret of a session. Sessions keep
// working while API keys are turned off.
func AuthenticateSession(s *kv.Store, secret string) (*Caller, error) {
	return authenticate(s, secret, true)
}

func authenticate(s *kv.Store, secret string, session bool) (*Caller, error) {
	digest := secretDigest(secret, session)
	known := callers.Of(s) // before the lookup: a result from before a commit then goes to a map nobody reads
	v, ok := known.Load(digest)
	if !ok {
		var c *Caller
		if err := s.View(func(tx *kv.Tx) (err error) {
			c, err = findCaller(tx, digest)
			if session && errors.Is(err, table.ErrMissing) {
				return errSessionEnded
			}
			return unknownKey(err)
		}); err != nil {
			return nil, err
		}
		v, _ = known.LoadOrStore(digest, c)
	}
	c := v.(*Caller)
	now := s.Now()
	if err := c.usable(now); err != nil {
		return nil, err
	}
	used(s, c, now)
	return c, nil
}

// Recognize is Authenticate for a token that was derived from an API key or a
// session of the owner's and names it by id. It doesn't record a use.
func Recognize(s *kv.Store, owner, id record.ID) (*Caller, error) {
	var c *Caller
	if err := s.View(func(tx *kv.Tx) error {
		k, err := KeyRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
		if err != nil {
			return unknownKey(err)
		}
		c, err = caller(tx, k)
		return unknownKey(err)
	}); err != nil {
		return nil, err
	}
	if err := c.usable(s.Now()); err != nil {
		return nil, err
	}
	return c, nil
}

// turnedOff returns why the credential cannot be used at all.
func (c *Caller) turnedOff() error {
	switch {
	case !c.Key.Session && (c.tokensOff || c.User.TokensOff):
		return forbidden("api_tokens_disabled", "API keys are turned off.")
	case c.User.Disabled:
		return forbidden("user_disabled", "This account is disabled.")
	case c.Key.Disabled:
		return forbidden("key_disabled", "This API key is disabled.")
	}
	return nil
}

// usable returns why the credential cannot be used at the given instant.
func (c *Caller) usable(now time.Time) error {
	if err := c.turnedOff(); err != nil {
		return err
	}
	session := c.Key.Session
	switch {
	case session && !now.Before(c.Key.Expires):
		return errSessionEnded
	case !c.Key.Expires.IsZero() && !now.Before(c.Key.Expires):
		return forbidden("key_expired", "This API key has expired.")
	}
	return nil
}

var errSessionEnded = forbidden("session_ended", "This session has ended; sign in again.")

func unknownKey(err error) error {
	if errors.Is(err, table.ErrMissing) {
		return forbidden("unknown_key", "This API key is not known.")
	}
	return err
}

// findCaller reads the credential with the digest, and what belongs to it.
func findCaller(tx *kv.Tx, digest [32]byte) (*Caller, error) {
	k, err := KeyRows.Find(tx.Tx, keyDigest, digest[:])
	if err != nil {
		return nil, err
	}
	return caller(tx, k)
}

// caller reads the account and the settings that belong to a credential.
func caller(tx *kv.Tx, k *Key) (*Caller, error) {
	u, err := ReadUser(tx, k.Owner)
	if err != nil {
		return nil, err
	}
	set, err := ReadSettings(tx)
	return &Caller{*u, *k, set.TokensOff}, err
}

// used records the use of a key, unless this minute is already recorded.
func used(s *kv.Store, c *Caller, now time.Time) {
	at := now.Truncate(time.Minute)
	if !c.Key.LastUsed.Before(at) {
		return
	}
	var key [32]byte
	copy(key[copy(key[:], c.Key.Owner[:]):], c.Key.ID[:])
	u := uses.Of(s)
	u.Lock()
	defer u.Unlock()
	if u.keys[key] != at && u.noted[key] != at {
		u.note(key, at)
	}
}
