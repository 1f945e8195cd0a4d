// Package people keeps accounts with their keys, sessions, devices and quotas, and
// counts wrong passwords.
package people

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
	"kist/kv/workcopy"
)

// UserRows is the table of accounts.
var UserRows = kv.JsonTable(UserBucket, func(u *User) []byte { return kv.OwnedKey(u.ID) }, // a copy: the key of a stored row must not change
	table.Index[User]{Bucket: userName, Name: "username", Unique: true, Keys: func(u *User, file func([]byte)) {
		file([]byte(record.Fold(u.Name)))
	}})

// KeyRows is the table of credentials: API keys and sessions.
var KeyRows = kv.JsonTable(keyBucket, func(k *Key) []byte { return kv.OwnedKey(k.Owner, k.ID[:]...) },
	table.Index[Key]{Bucket: keyDigest, Name: "key", Unique: true, Keys: func(k *Key, file func([]byte)) {
		file(k.Digest[:])
	}})

// callers caches credentials by digest, and by account id whether the account is
// disabled. It reflects the last commit that touched them.
var callers kv.Cache[sync.Map]

// PagesDue signals that a page may be due, or that the settings have changed. The
// settings turn page checks on and off.
var PagesDue kv.Signal

// Claimed signals that there is an administrator, however made: the claim link has ended.
var Claimed kv.Signal

// UserTable keeps accounts.
var UserTable = kv.Table{
	Buckets: []table.Bucket{UserBucket, userName},
	Check:   kv.CheckRows(UserRows, nil),
	Refill:  kv.RefillRows(UserRows, kv.Mending[User]{Rename: func(r *kv.Refill, u *User) error { return r.Rename(&u.Name, "account", u.ID) }}),
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		callers.Drop(tx)
		_, err := UserRows.Delete(tx.Tx, owner[:])
		return true, kv.UserError(err, "user")
	},
}

// KeyTable keeps API keys and sessions.
var KeyTable = kv.Table{
	Buckets: []table.Bucket{keyBucket, keyDigest}, Check: CheckOwned(KeyRows, "key"), Refill: RefillOwned(KeyRows),
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		callers.Drop(tx)
		return kv.DropRows(KeyRows)(tx, owner)
	},
	Flush: flushKeys,
}

// CheckOwned is the Check of a table whose keys begin with the owner's id and end
// with the row's id.
func CheckOwned[T any](t *table.Table[T], what string) func(*kv.Audit) {
	return kv.CheckRows(t, func(a *kv.Audit, v *T) {
		k := t.Key(v)
		a.Refers(UserBucket, k[:16], what, record.ID(k[len(k)-16:]))
	})
}

// RefillOwned is the Refill of a table whose keys begin with the owner's id and
// whose rows refer to nothing else.
func RefillOwned[T any](t *table.Table[T]) func(*kv.Refill) error {
	return kv.RefillRows(t, kv.Mending[T]{Mend: func(r *kv.Refill, v *T) error { return StandIn(r, record.ID(t.Key(v)[:16])) }})
}

// StandIn creates a disabled account for rows whose owner is lost.
func StandIn(r *kv.Refill, owner record.ID) error {
	if r.Get(UserBucket, owner[:]) != nil {
		return nil
	}
	u := &User{ID: owner, Name: fmt.Sprintf("recovered-%x", owner[10:]), Role: Member, Disabled: true, Quota: -1, Created: time.UnixMilli(int64(binary.BigEndian.Uint64(owner[:8]) >> 16)).UTC()}
	r.Lost(fmt.Errorf("account %s is lost; the disabled account %s takes its place", owner, u.Name))
	return UserRows.Put(r.Tx.Tx, u)
}

// Users lists all accounts, oldest first.
func Users(tx *kv.Tx) ([]User, error) { return kv.Collect(UserRows, tx, nil) }

// User reads an account.
func ReadUser(tx *kv.Tx, id record.ID) (*User, error) {
	u, err := UserRows.Get(tx.Tx, id[:])
	return u, kv.UserError(err, "user")
}

// RequireOwner fails if the account is gone. A request may still be running when
// its user is removed, and it must not leave rows behind.
func RequireOwner(tx *kv.Tx, id record.ID) error {
	if tx.Get(UserBucket, id[:]) == nil {
		return record.NotFound("user")
	}
	return nil
}

// Disabled reports whether the account is disabled or gone. Views share a cached
// answer until a commit changes an account.
func Disabled(tx *kv.Tx, id record.ID) (bool, error) {
	kept := callers.In(tx)
	if kept != nil {
		if disabled, ok := kept.Load(id); ok {
			return disabled.(bool), nil //nolint:errcheck // an id always maps to a bool
		}
	}
	u, err := UserRows.Get(tx.Tx, id[:])
	gone := errors.Is(err, table.ErrMissing)
	if err != nil && !gone {
		return false, err
	}
	disabled := gone || u.Disabled
	if kept != nil && !gone {
		kept.Store(id, disabled)
	}
	return disabled, nil
}

// UserNamed reads the account with the name, ignoring case.
func UserNamed(tx *kv.Tx, name string) (*User, error) {
	u, err := UserRows.Find(tx.Tx, userName, []byte(record.Fold(name)))
	return u, kv.UserError(err, "user")
}

// AddUser creates an account; u.Password is already a hash. The first administrator
// ends the claim.
func AddUser(tx *kv.Tx, u User) (*User, error) {
	u.ID, u.Created = tx.NewID(), tx.Now
	return &u, putUser(tx, &u)
}

func putUser(tx *kv.Tx, u *User) error {
	if err := kv.UserError(UserRows.Put(tx.Tx, u), "user"); err != nil || u.Role != Admin {
		return err
	}
	Claimed.Raise(tx)
	return tx.Delete(workcopy.MetaBucket, kv.MetaClaim)
}

// SaveUser changes an account, which must have been read in the same transaction.
// It refuses to leave the instance without an administrator who can sign in. A new
// password ends the account's sessions. Disabling the account ends them too, and
// enabling it again does not bring them back.
func SaveUser(tx *kv.Tx, u *User) error {
	callers.Drop(tx)
	before, err := ReadUser(tx, u.ID)
	if err != nil {
		return err
	}
	if administers(before) && !administers(u) {
		if err := keepAdmin(tx, before); err != nil {
			return err
		}
	}
	if err := putUser(tx, u); err != nil {
		return err
	}
	if before.Password != u.Password || u.Disabled && !before.Disabled {
		if err := errors.Join(EndSessions(tx, u.ID), endReset(tx, u)); err != nil {
			return err
		}
	}
	return nil
}

func administers(u *User) bool { return u.Role == Admin && !u.Disabled }

// keepAdmin refuses if the user is the last administrator, or the last who can sign in.
func keepAdmin(tx *kv.Tx, u *User) error {
	users, err := Users(tx)
	if err != nil {
		return err
	}
	enters, err := canEnter(tx, u.ID)
	if err != nil {
		return err
	}
	others := false
	for _, other := range users {
		if other.ID == u.ID || !administers(&other) {
			continue
		}
		others = true
		if does, err := canEnter(tx, other.ID); err != nil || does || !enters {
			return err
		}
	}
	if others {
		return &record.Error{Fault: record.Taken, Code: "last_admin", Text: "This is the last administrator who can sign in while passwords are off; give another one a passkey or a link first."}
	}
	return &record.Error{Fault: record.Taken, Code: "last_admin", Text: "This is the last administrator; make another one first."}
}

// RemoveUser deletes an account and everything it owns: what the Drop of each table in
// kv/tables finds. It disables the account
// first and deletes the content in several transactions, so that other writers are
// not kept waiting. If it is interrupted, calling it again continues. by is the user who
// removes it.
func RemoveUser(s *kv.Store, id record.ID, by string) error {
	name := ""
	err := s.Update(func(tx *kv.Tx) error {
		u, err := ReadUser(tx, id)
		if err != nil {
			return err
		}
		name = u.Name
		u.Disabled = true
		return SaveUser(tx, u)
	})
	for done := false; err == nil && !done; {
		err = s.Update(func(tx *kv.Tx) (err error) {
			if done, err = tx.Drop(id); err == nil && done {
				err = Note(tx, Activity{Event: AccountRemoved, Name: name, By: by})
			}
			return err
		})
	}
	return err
}

// Settings reads the instance's settings.
func ReadSettings(tx *kv.Tx) (Settings, error) {
	set := Settings{LinkChecks: true, TrashDays: DefaultTrashDays}
	if v := tx.Get(workcopy.MetaBucket, kv.MetaSettings); v != nil {
		if err := json.Unmarshal(v, &set); err != nil {
			return set, fmt.Errorf("settings: %w", err)
		}
	}
	return set, nil
}

// SetSettings writes the instance's settings.
func SetSettings(tx *kv.Tx, set Settings) error {
	callers.Drop(tx)
	PagesDue.Raise(tx)
	v, err := json.Marshal(set)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return tx.Put(workcopy.MetaBucket, kv.MetaSettings, v)
}

// KeyPrefix is the prefix of every API key.
const KeyPrefix = "kist_"

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewSecret is KeyPrefix and 256 random bits in base 62, 43 characters.
func NewSecret() string {
	var b [32]byte
	kv.Random(b[:])
	n, mod, digits := new(big.Int).SetBytes(b[:]), new(big.Int), make([]byte, 43)
	for i := len(digits) - 1; i >= 0; i-- {
		n.DivMod(n, big.NewInt(int64(len(base62))), mod)
		digits[i] = base62[mod.Int64()]
	}
	return KeyPrefix + string(digits)
}

// AddKey creates an API key. The secret is returned only here.
func AddKey(tx *kv.Tx, k Key) (key *Key, secret string, err error) {
	if err := record.CheckEnd(k.Expires, tx.Now); err != nil {
		return nil, "", record.Bad(map[string]string{"expiresAt": err.Error()})
	}
	if err := RequireOwner(tx, k.Owner); err != nil {
		return nil, "", err
	}
	if err := checkKeyBound(tx, &k); err != nil {
		return nil, "", err
	}
	secret = NewSecret()
	k.ID, k.Created, k.Digest = tx.NewID(), tx.Now, secretDigest(secret, k.Session)
	a := Activity{Owner: k.Owner, Event: KeyCreated, Name: k.Name, Key: k.ID}
	switch {
	case k.Session:
		// Programs sign in again and again: rows without the session can repeat.
		a.Event, a.Name, a.Address, a.Key = SignedIn, k.Agent, k.Address, record.ID{}
	case k.Device != "":
		a.Event = DeviceConnected
	}
	return &k, secret, errors.Join(KeyRows.Put(tx.Tx, &k), Note(tx, a))
}

// secretDigest is the stored form of a secret. The secret of a session cannot be
// used as an API key, nor the other way round.
func secretDigest(secret string, session bool) [32]byte {
	if session {
		secret = "session " + secret
	}
	return sha256.Sum256([]byte(secret))
}

// AddSession signs a browser in. confirmed is when its user proved who they are; zero if that
// is not known. The secret is returned only here. It fails while the account's sign-in is reset,
// whatever has named the user.
func AddSession(tx *kv.Tx, owner record.ID, agent, address string, confirmed time.Time) (key *Key, secret string, err error) {
	l, err := LoginOf(tx, owner)
	if err != nil {
		return nil, "", err
	}
	if l.Closed {
		return nil, "", &record.Error{
			Fault: record.Denied, Code: "login_reset",
			Text: "The sign-in of this account was reset. Set a new password with the link first; an administrator can make another link.",
		}
	}
	return AddKey(tx, Key{
		Owner: owner, Scopes: []Scope{ScopeAdmin}, Session: true, Agent: agent, Address: address, Confirmed: confirmed,
		Slides: SlideTime, Expires: tx.Now.Add(SlideTime), LastUsed: tx.Now.Truncate(time.Minute),
	})
}

// Keys lists the owner's API keys, oldest first.
func Keys(tx *kv.Tx, owner record.ID) ([]Key, error) { return credentials(tx, owner[:], false) }

// Sessions lists the owner's unexpired sessions, oldest first.
func Sessions(tx *kv.Tx, owner record.ID) ([]Key, error) {
	all, err := credentials(tx, owner[:], true)
	return slices.DeleteFunc(all, func(k Key) bool { return !tx.Now.Before(k.Expires) }), err
}

func credentials(tx *kv.Tx, prefix []byte, sessions bool) ([]Key, error) {
	all, err := kv.Collect(KeyRows, tx, prefix)
	return slices.DeleteFunc(all, func(k Key) bool { return k.Session != sessions }), err
}

// EndSessions signs out all of the owner's browsers. Devices that the owner approved
// and that have not fetched their key yet are dropped too.
func EndSessions(tx *kv.Tx, owner record.ID) error {
	waiting, err := kv.Collect(deviceRows, tx, nil)
	for i := 0; err == nil && i < len(waiting); i++ {
		if waiting[i].Owner == owner {
			_, err = deviceRows.Delete(tx.Tx, waiting[i].Digest[:])
		}
	}
	if err != nil {
		return err
	}
	all, err := credentials(tx, owner[:], true)
	for i := 0; err == nil && i < len(all); i++ {
		err = RemoveKey(tx, owner, all[i].ID)
	}
	return err
}

// Key reads one of the owner's API keys.
func ReadKey(tx *kv.Tx, owner, id record.ID) (*Key, error) {
	return credential(tx, owner, id, false)
}

// Session reads one of the owner's sessions.
func ReadSession(tx *kv.Tx, owner, id record.ID) (*Key, error) {
	return credential(tx, owner, id, true)
}

func credential(tx *kv.Tx, owner, id record.ID, session bool) (*Key, error) {
	what := "key"
	if session {
		what = "session"
	}
	k, err := KeyRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	if err == nil && k.Session != session {
		err = table.ErrMissing
	}
	return k, kv.UserError(err, what)
}

// SaveKey changes an API key or a session, which must have been read in the same
// transaction.
func SaveKey(tx *kv.Tx, k *Key) error {
	callers.Drop(tx)
	return KeyRows.Put(tx.Tx, k)
}

// RemoveKey deletes an API key or a session; the next request with it is refused.
func RemoveKey(tx *kv.Tx, owner, id record.ID) error {
	callers.Drop(tx)
	_, err := KeyRows.Delete(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return kv.UserError(err, "key")
}

// Revoke deletes the owner's API keys that which selects, and returns them. by is the
// user who revokes them; "" is the owner.
func Revoke(tx *kv.Tx, owner record.ID, by string, which func(*Key) bool) ([]Key, error) {
	all, err := Keys(tx, owner)
	all = slices.DeleteFunc(all, func(k Key) bool { return !which(&k) })
	for i := 0; err == nil && i < len(all); i++ {
		err = RevokeOne(tx, &all[i], by)
	}
	return all, err
}

// RevokeOne is Revoke for one API key or session.
func RevokeOne(tx *kv.Tx, k *Key, by string) error {
	a := Activity{Owner: k.Owner, Event: KeyRevoked, Name: k.Name, Key: k.ID, By: by}
	switch {
	case k.Session:
		a.Event, a.Name, a.Address = SessionRevoked, k.Agent, k.Address
	case k.Device != "":
		a.Event = DeviceRevoked
	}
	return errors.Join(RemoveKey(tx, k.Owner, k.ID), Note(tx, a))
}

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
		if err := s.View(func(tx *kv.Tx) error {
			k, err := KeyRows.Find(tx.Tx, keyDigest, digest[:])
			if err == nil {
				c, err = caller(tx, k)
			}
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
		if err == nil {
			c, err = caller(tx, k)
		}
		return unknownKey(err)
	}); err != nil {
		return nil, err
	}
	if err := c.usable(s.Now()); err != nil {
		return nil, err
	}
	return c, nil
}

// CheckNotRevoked fails if a credential was revoked or turned off, or its account
// was disabled, since the request that carried it started. Call it in the
// transaction that ends the request. A credential may expire in between.
func CheckNotRevoked(tx *kv.Tx, k *Key) error {
	now, err := KeyRows.Get(tx.Tx, kv.OwnedKey(k.Owner, k.ID[:]...))
	if k.Session && errors.Is(err, table.ErrMissing) {
		return errSessionEnded
	}
	if err != nil {
		return unknownKey(err)
	}
	c, err := caller(tx, now)
	if err != nil {
		return err
	}
	return c.turnedOff()
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

// Claim makes the token for the one-time claim that creates the first
// administrator. It replaces an earlier token. It returns "" if there is an
// administrator. Only the token's digest is stored.
func Claim(tx *kv.Tx) (string, error) {
	all, err := Users(tx)
	if err != nil || slices.ContainsFunc(all, func(u User) bool { return u.Role == Admin }) {
		return "", err
	}
	token := strings.TrimPrefix(NewSecret(), KeyPrefix)
	digest := sha256.Sum256([]byte(token))
	return token, tx.Put(workcopy.MetaBucket, kv.MetaClaim, digest[:])
}

// Claimable fails with Missing unless the token belongs to the open claim.
func Claimable(tx *kv.Tx, token string) error {
	digest := sha256.Sum256([]byte(token))
	if v := tx.Get(workcopy.MetaBucket, kv.MetaClaim); v == nil || string(v) != string(digest[:]) {
		return &record.Error{Fault: record.Missing, Code: "not_found", Text: "This claim link is not valid, or has been used."}
	}
	return nil
}

// DropSessions deletes expired sessions.
func DropSessions(tx *kv.Tx) error {
	all, err := credentials(tx, nil, true)
	for i := 0; err == nil && i < len(all); i++ {
		if !tx.Now.Before(all[i].Expires) {
			err = RemoveKey(tx, all[i].Owner, all[i].ID)
		}
	}
	return err
}

// keyUses has the times keys were last used, by owner and id, until the next flush.
type keyUses struct {
	sync.Mutex
	keys  map[[32]byte]time.Time
	noted map[[32]byte]time.Time // the latest use of each key that a flush has taken
}

var uses kv.Slot[keyUses]

func (u *keyUses) note(key [32]byte, at time.Time) {
	if u.keys == nil {
		u.keys = map[[32]byte]time.Time{}
	}
	u.keys[key] = at
}

func flushKeys(s *kv.Store) (write func(*kv.Tx) error, giveBack func()) {
	u := uses.Of(s)
	u.Lock()
	defer u.Unlock()
	used := u.keys
	u.keys = nil
	if u.noted == nil {
		u.noted = map[[32]byte]time.Time{}
	}
	maps.Copy(u.noted, used)
	if len(used) == 0 {
		return nil, nil
	}
	return func(tx *kv.Tx) error {
			for key, at := range used {
				k, err := KeyRows.Get(tx.Tx, key[:])
				if errors.Is(err, table.ErrMissing) {
					continue
				}
				if err != nil { // must not hold up the others
					s.Log().Error("cannot record the use of a key", "error", err)
					continue
				}
				k.LastUsed = at
				if k.Slide(at) {
					callers.Drop(tx)
				}
				if err := KeyRows.Put(tx.Tx, k); err != nil {
					return err
				}
			}
			return nil
		}, func() {
			u.Lock()
			defer u.Unlock()
			for key, at := range used {
				if u.keys[key].Before(at) {
					u.note(key, at)
				}
			}
		}
}

// checkKeyBound refuses an API key beyond the bound for each owner. At MaxSessions sessions it ends
// the least recently used one instead.
func checkKeyBound(tx *kv.Tx, k *Key) error {
	all, err := credentials(tx, k.Owner[:], k.Session)
	if err != nil || int64(len(all)) < tx.Bounds().Each {
		return err
	}
	if !k.Session {
		return kv.TooMany("API keys", "too_many_keys", int64(len(all)))
	}
	oldest := slices.MinFunc(all, func(a, b Key) int { return a.LastUsed.Compare(b.LastUsed) })
	return RemoveKey(tx, k.Owner, oldest.ID)
}
