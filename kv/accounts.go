package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"kist/kv/record"
	"kist/kv/table"
)

var users = jsonTable(userBucket, func(u *record.User) []byte { return ownedKey(u.ID) }, // a copy: what is put must not change
	table.Index[record.User]{Bucket: userName, Name: "username", Unique: true, Keys: func(u *record.User, file func([]byte)) {
		file([]byte(record.Fold(u.Name)))
	}})

var keys = jsonTable(keyBucket, func(k *record.Key) []byte { return ownedKey(k.Owner, k.ID[:]...) },
	table.Index[record.Key]{Bucket: keyDigest, Name: "key", Unique: true, Keys: func(k *record.Key, file func([]byte)) {
		file(k.Digest[:])
	}})

var userTable = Table{
	Buckets: []table.Bucket{userBucket, userName},
	Check:   checkRows(users, nil),
	Refill:  refillRows(users, mending[record.User]{rename: func(r *Refill, u *record.User) error { return r.rename(&u.Name, "account", u.ID) }}),
	Drop: func(tx *Tx, owner record.ID) (bool, error) {
		tx.callers = true
		_, err := users.Delete(tx.Tx, owner[:])
		return true, userError(err, "user")
	},
}

var keyTable = Table{
	Buckets: []table.Bucket{keyBucket, keyDigest}, Check: checkOwned(keys, "key"), Refill: refillOwned(keys),
	Paid: []table.Bucket{keyBucket},
	Drop: func(tx *Tx, owner record.ID) (bool, error) {
		tx.callers = true
		return dropRows(keys)(tx, owner)
	},
	Redate: redateRows(keys, func(r *Redate, v *record.Key) bool {
		changed := r.Past(&v.Created, &v.LastUsed)
		return v.Slides > 0 && r.Limit(&v.Expires, v.Slides) || changed
	}),
	Flush: flushKeys,
}

// checkOwned is the Check of a table whose keys begin with the id of an owner and
// end with that of the row.
func checkOwned[T any](t *table.Table[T], what string) func(*Audit) {
	return checkRows(t, func(a *Audit, v *T) {
		k := t.Key(v)
		a.Refers(userBucket, k[:16], what, record.ID(k[len(k)-16:]))
	})
}

// refillOwned is the Refill of a table whose keys begin with the id of an owner,
// and whose rows refer to nothing else.
func refillOwned[T any](t *table.Table[T]) func(*Refill) error {
	return refillRows(t, mending[T]{mend: func(r *Refill, v *T) error { return standIn(r, record.ID(t.Key(v)[:16])) }})
}

// standIn makes a disabled account for rows whose owner is lost.
func standIn(r *Refill, owner record.ID) error {
	if r.Get(userBucket, owner[:]) != nil {
		return nil
	}
	u := &record.User{ID: owner, Name: fmt.Sprintf("recovered-%x", owner[10:]), Role: record.Member, Disabled: true, Quota: -1, Created: time.UnixMilli(int64(binary.BigEndian.Uint64(owner[:8]) >> 16)).UTC()}
	r.Lost(fmt.Errorf("account %s: it is lost, and %s, which is disabled, stands in for it", owner, u.Name))
	return users.Put(r.Tx.Tx, u)
}

// Users lists all accounts, oldest first.
func (tx *Tx) Users() ([]record.User, error) { return collect(users, tx, nil) }

// User reads an account.
func (tx *Tx) User(id record.ID) (*record.User, error) {
	u, err := users.Get(tx.Tx, id[:])
	return u, userError(err, "user")
}

// requireOwner refuses what is to belong to an account that is gone: a request may
// still be under way when its user is removed, and nothing may be left over.
func (tx *Tx) requireOwner(id record.ID) error {
	if tx.Get(userBucket, id[:]) == nil {
		return record.NotFound("user")
	}
	return nil
}

// Disabled reports whether the account is disabled or gone. A View takes it from
// what earlier ones read, until a commit changes an account.
func (tx *Tx) Disabled(id record.ID) (bool, error) {
	if tx.people != nil {
		if shut, ok := tx.people.Load(id); ok {
			return shut.(bool), nil //nolint:errcheck // nothing else is filed by id
		}
	}
	u, err := users.Get(tx.Tx, id[:])
	gone := errors.Is(err, table.ErrMissing)
	if err != nil && !gone {
		return false, err
	}
	shut := gone || u.Disabled
	if tx.people != nil && !gone {
		tx.people.Store(id, shut)
	}
	return shut, nil
}

// UserNamed reads the account with the name, in any case.
func (tx *Tx) UserNamed(name string) (*record.User, error) {
	u, err := users.Find(tx.Tx, userName, []byte(record.Fold(name)))
	return u, userError(err, "user")
}

// AddUser makes an account; its password is a hash. The first administrator
// ends the claim.
func (tx *Tx) AddUser(u record.User) (*record.User, error) {
	u.ID, u.Created = tx.NewID(), tx.Now
	return &u, tx.putUser(&u)
}

func (tx *Tx) putUser(u *record.User) error {
	if err := userError(users.Put(tx.Tx, u), "user"); err != nil || u.Role != record.Admin {
		return err
	}
	return tx.Delete(metaBucket, metaClaim)
}

// SaveUser changes an account, which must have been read in the same
// transaction. The last administrator who can sign in stays one. A new password
// ends the account's sessions, and so does disabling it: enabling it again does
// not bring them back.
func (tx *Tx) SaveUser(u *record.User) error {
	tx.callers = true
	before, err := tx.User(u.ID)
	if err != nil {
		return err
	}
	if err := tx.putUser(u); err != nil {
		return err
	}
	if before.Password != u.Password || u.Disabled && !before.Disabled {
		if err := tx.EndSessions(u.ID); err != nil {
			return err
		}
	}
	if canAdminister(before) && !canAdminister(u) {
		return tx.requireAdmin()
	}
	return nil
}

// canAdminister reports whether the user is an administrator who can sign in.
func canAdminister(u *record.User) bool { return u.Role == record.Admin && !u.Disabled }

// requireAdmin refuses to leave the instance without an administrator.
func (tx *Tx) requireAdmin() error {
	all, err := tx.Users()
	if err != nil {
		return err
	}
	for i := range all {
		if canAdminister(&all[i]) {
			return nil
		}
	}
	return &record.Error{Fault: record.Taken, Code: "last_admin", Text: "This is the last administrator; make another one first."}
}

// RemoveUser takes an account and everything of it away. The account is shut
// first; its content goes in several transactions, so that others are not
// kept waiting. When it is cut short, calling it again goes on.
func (s *Store) RemoveUser(id record.ID) error {
	err := s.Update(func(tx *Tx) error {
		u, err := tx.User(id)
		if err != nil {
			return err
		}
		u.Disabled = true
		return tx.SaveUser(u)
	})
	for done := false; err == nil && !done; {
		err = s.Update(func(tx *Tx) (err error) {
			done, err = tx.drop(id)
			return err
		})
	}
	return err
}

// Settings reads the instance's settings.
func (tx *Tx) Settings() (record.Settings, error) {
	set := record.Settings{LinkChecks: true}
	if v := tx.Get(metaBucket, metaSettings); v != nil {
		if err := json.Unmarshal(v, &set); err != nil {
			return set, fmt.Errorf("settings: %w", err)
		}
	}
	return set, nil
}

// SetSettings writes the instance's settings.
func (tx *Tx) SetSettings(set record.Settings) error {
	tx.callers, tx.look = true, true
	v, err := json.Marshal(set)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return tx.Put(metaBucket, metaSettings, v)
}

// KeyPrefix begins every API key.
const KeyPrefix = "kist_"

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newSecret is KeyPrefix and 256 random bits in base 62, 43 characters.
func newSecret() string {
	var b [32]byte
	random(b[:])
	n, mod, digits := new(big.Int).SetBytes(b[:]), new(big.Int), make([]byte, 43)
	for i := len(digits) - 1; i >= 0; i-- {
		n.DivMod(n, big.NewInt(int64(len(base62))), mod)
		digits[i] = base62[mod.Int64()]
	}
	return KeyPrefix + string(digits)
}

// AddKey makes an API key. The secret is returned this once.
func (tx *Tx) AddKey(k record.Key) (key *record.Key, secret string, err error) {
	if err := record.CheckEnd(k.Expires, tx.Now); err != nil {
		return nil, "", record.Bad(map[string]string{"expiresAt": err.Error()})
	}
	if err := tx.requireOwner(k.Owner); err != nil {
		return nil, "", err
	}
	if err := tx.checkKeyBound(&k); err != nil {
		return nil, "", err
	}
	secret = newSecret()
	k.ID, k.Created, k.Digest = tx.NewID(), tx.Now, secretDigest(secret, k.Session)
	return &k, secret, keys.Put(tx.Tx, &k)
}

// secretDigest is what is kept of a secret. That of a session cannot be used
// as an API key, nor the other way round.
func secretDigest(secret string, session bool) [32]byte {
	if session {
		secret = "session " + secret
	}
	return sha256.Sum256([]byte(secret))
}

// AddSession signs a browser in. The secret is returned this once.
func (tx *Tx) AddSession(owner record.ID, agent, address string) (key *record.Key, secret string, err error) {
	return tx.AddKey(record.Key{
		Owner: owner, Scopes: []record.Scope{record.ScopeAdmin}, Session: true, Agent: agent, Address: address,
		Slides: record.SlideTime, Expires: tx.Now.Add(record.SlideTime), LastUsed: tx.Now.Truncate(time.Minute),
	})
}

// Keys lists the owner's API keys, oldest first.
func (tx *Tx) Keys(owner record.ID) ([]record.Key, error) { return tx.credentials(owner[:], false) }

// AllKeys lists everyone's API keys.
func (tx *Tx) AllKeys() ([]record.Key, error) { return tx.credentials(nil, false) }

// Sessions lists the owner's sessions that hold, oldest first.
func (tx *Tx) Sessions(owner record.ID) ([]record.Key, error) {
	all, err := tx.credentials(owner[:], true)
	return slices.DeleteFunc(all, func(k record.Key) bool { return !tx.Now.Before(k.Expires) }), err
}

func (tx *Tx) credentials(prefix []byte, sessions bool) ([]record.Key, error) {
	all, err := collect(keys, tx, prefix)
	return slices.DeleteFunc(all, func(k record.Key) bool { return k.Session != sessions }), err
}

// EndSessions signs all browsers of the owner out; what they have approved and
// was not fetched yet ends too.
func (tx *Tx) EndSessions(owner record.ID) error {
	waiting, err := collect(devices, tx, nil)
	for i := 0; err == nil && i < len(waiting); i++ {
		if waiting[i].Owner == owner {
			_, err = devices.Delete(tx.Tx, waiting[i].Digest[:])
		}
	}
	if err != nil {
		return err
	}
	all, err := tx.credentials(owner[:], true)
	for i := 0; err == nil && i < len(all); i++ {
		err = tx.RemoveKey(owner, all[i].ID)
	}
	return err
}

// Key reads one of the owner's API keys.
func (tx *Tx) Key(owner, id record.ID) (*record.Key, error) { return tx.credential(owner, id, false) }

// Session reads one of the owner's sessions.
func (tx *Tx) Session(owner, id record.ID) (*record.Key, error) {
	return tx.credential(owner, id, true)
}

func (tx *Tx) credential(owner, id record.ID, session bool) (*record.Key, error) {
	what := "key"
	if session {
		what = "session"
	}
	k, err := keys.Get(tx.Tx, ownedKey(owner, id[:]...))
	if err == nil && k.Session != session {
		err = table.ErrMissing
	}
	return k, userError(err, what)
}

// SaveKey changes an API key, which must have been read in the same
// transaction.
func (tx *Tx) SaveKey(k *record.Key) error {
	tx.callers = true
	return keys.Put(tx.Tx, k)
}

// RemoveKey takes an API key away; it is refused from the next request on.
func (tx *Tx) RemoveKey(owner, id record.ID) error {
	tx.callers = true
	_, err := keys.Delete(tx.Tx, ownedKey(owner, id[:]...))
	return userError(err, "key")
}

// Revoke takes those API keys of the owner away that which names, and returns
// them.
func (tx *Tx) Revoke(owner record.ID, which func(*record.Key) bool) ([]record.Key, error) {
	all, err := tx.Keys(owner)
	all = slices.DeleteFunc(all, func(k record.Key) bool { return !which(&k) })
	for i := 0; err == nil && i < len(all); i++ {
		err = tx.RemoveKey(owner, all[i].ID)
	}
	return all, err
}

// Caller is who a credential stands for. It must not be changed.
type Caller struct {
	User      record.User
	Key       record.Key
	tokensOff bool
}

func forbidden(code, text string) error {
	return &record.Error{Fault: record.Unauthorized, Code: code, Text: text}
}

// Authenticate tells who presents the secret of an API key, or refuses with
// Unauthorized. It sees every commit that ended before the call, and notes the
// key's use, to the minute.
func (s *Store) Authenticate(secret string) (*Caller, error) { return s.authenticate(secret, false) }

// AuthenticateSession is Authenticate for the secret of a session. That API
// keys are turned off does not concern it.
func (s *Store) AuthenticateSession(secret string) (*Caller, error) {
	return s.authenticate(secret, true)
}

func (s *Store) authenticate(secret string, session bool) (*Caller, error) {
	digest := secretDigest(secret, session)
	known := s.callers.Load() // before the look: what is filed after a commit goes to a map nobody reads
	v, ok := known.Load(digest)
	if !ok {
		var c *Caller
		if err := s.View(func(tx *Tx) error {
			k, err := keys.Find(tx.Tx, keyDigest, digest[:])
			if err == nil {
				c, err = tx.caller(k)
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
	now := s.wall()
	if err := c.usable(now); err != nil {
		return nil, err
	}
	s.used(c, now)
	return c, nil
}

// Recognize is Authenticate for what was derived from one of the owner's
// credentials and names it by its id, an API key or a session. It notes no use.
func (s *Store) Recognize(owner, id record.ID) (*Caller, error) {
	var c *Caller
	if err := s.View(func(tx *Tx) error {
		k, err := keys.Get(tx.Tx, ownedKey(owner, id[:]...))
		if err == nil {
			c, err = tx.caller(k)
		}
		return unknownKey(err)
	}); err != nil {
		return nil, err
	}
	if err := c.usable(s.wall()); err != nil {
		return nil, err
	}
	return c, nil
}

// CheckNotRevoked refuses a credential that was revoked or turned off, or whose
// account was disabled, after a request that carried it had begun. It belongs in
// the transaction that ends such a request. A credential may expire meanwhile.
func (tx *Tx) CheckNotRevoked(k *record.Key) error {
	now, err := keys.Get(tx.Tx, ownedKey(k.Owner, k.ID[:]...))
	if k.Session && errors.Is(err, table.ErrMissing) {
		return errSessionEnded
	}
	if err != nil {
		return unknownKey(err)
	}
	c, err := tx.caller(now)
	if err != nil {
		return err
	}
	return c.turnedOff()
}

// turnedOff says why the credential cannot be used at any time.
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

// usable says why the credential cannot be used at the instant now.
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

// caller is who the credential stands for.
func (tx *Tx) caller(k *record.Key) (*Caller, error) {
	u, err := tx.User(k.Owner)
	if err != nil {
		return nil, err
	}
	set, err := tx.Settings()
	return &Caller{*u, *k, set.TokensOff}, err
}

// used notes the use of a key, unless it is noted for this minute.
func (s *Store) used(c *Caller, now time.Time) {
	at := now.Truncate(time.Minute)
	if !c.Key.LastUsed.Before(at) {
		return
	}
	var key [32]byte
	copy(key[copy(key[:], c.Key.Owner[:]):], c.Key.ID[:])
	s.pending.Lock()
	defer s.pending.Unlock()
	if s.pending.keys[key] != at && s.pending.noted[key] != at {
		s.pending.use(key, at)
	}
}

// Claim makes the token of the one-time claim that creates the first
// administrator, in place of an earlier one; "" if there is an administrator.
// Only its digest is kept.
func (tx *Tx) Claim() (string, error) {
	all, err := tx.Users()
	if err != nil {
		return "", err
	}
	for _, u := range all {
		if u.Role == record.Admin {
			return "", nil
		}
	}
	token := strings.TrimPrefix(newSecret(), KeyPrefix)
	digest := sha256.Sum256([]byte(token))
	return token, tx.Put(metaBucket, metaClaim, digest[:])
}

// Claimable says whether the token is the one of the open claim; Missing if
// not.
func (tx *Tx) Claimable(token string) error {
	digest := sha256.Sum256([]byte(token))
	if v := tx.Get(metaBucket, metaClaim); v == nil || string(v) != string(digest[:]) {
		return &record.Error{Fault: record.Missing, Code: "not_found", Text: "This claim link is not valid, or has been used."}
	}
	return nil
}

// DropSessions drops the sessions that are over.
func (tx *Tx) DropSessions() error {
	all, err := tx.credentials(nil, true)
	for i := 0; err == nil && i < len(all); i++ {
		if !tx.Now.Before(all[i].Expires) {
			err = tx.RemoveKey(all[i].Owner, all[i].ID)
		}
	}
	return err
}

// flushKeys takes what is counted of the use of keys.
func flushKeys(s *Store) (write func(*Tx) error, giveBack func()) {
	s.pending.Lock()
	defer s.pending.Unlock()
	used := s.pending.keys
	s.pending.keys = nil
	for key, at := range used {
		s.pending.note(key, at)
	}
	if len(used) == 0 {
		return nil, nil
	}
	return func(tx *Tx) error {
			for key, at := range used {
				k, err := keys.Get(tx.Tx, key[:])
				if errors.Is(err, table.ErrMissing) {
					continue
				}
				if err != nil { // must not hold up the others
					s.log.Error("use of a key not noted", "error", err)
					continue
				}
				k.LastUsed = at
				tx.callers = tx.callers || k.Slide(at)
				if err := keys.Put(tx.Tx, k); err != nil {
					return err
				}
			}
			return nil
		}, func() {
			s.pending.Lock()
			defer s.pending.Unlock()
			for key, at := range used {
				if s.pending.keys[key].Before(at) {
					s.pending.use(key, at)
				}
			}
		}
}

// checkKeyBound refuses an API key beyond MaxEach, and ends the session that was
// used longest ago where one more would be beyond MaxSessions.
func (tx *Tx) checkKeyBound(k *record.Key) error {
	all, err := tx.credentials(k.Owner[:], k.Session)
	if err != nil || int64(len(all)) < tx.s.most.each {
		return err
	}
	if !k.Session {
		return tooMany("API keys", "keys", int64(len(all)))
	}
	oldest := &all[0]
	for i := range all {
		if all[i].LastUsed.Before(oldest.LastUsed) {
			oldest = &all[i]
		}
	}
	return tx.RemoveKey(k.Owner, oldest.ID)
}
