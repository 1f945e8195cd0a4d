package people

import (
	"crypto/sha256"
	"errors"
	"maps"
	"math/big"
	"slices"
	"sync"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
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

// Recent reports whether the session's user proved a short time ago who they are. A sign-in
// alone does not: a proxy or an issuer may know its user from long before.
func (k *Key) Recent(now time.Time) bool { return now.Sub(k.Confirmed) < RecentTime }

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

// KeyRows is the table of credentials: API keys and sessions.
var KeyRows = kv.JsonTable(keyBucket, func(k *Key) []byte { return kv.OwnedKey(k.Owner, k.ID[:]...) },
	table.Index[Key]{Bucket: keyDigest, Name: "key", Unique: true, Keys: func(k *Key, file func([]byte)) {
		file(k.Digest[:])
	}})

// KeyTable keeps API keys and sessions.
var KeyTable = kv.Table{
	Buckets: []table.Bucket{keyBucket, keyDigest}, Check: CheckOwned(KeyRows, "key"), Refill: RefillOwned(KeyRows),
	Drop: func(tx *kv.Tx, owner record.ID) (bool, error) {
		callers.Drop(tx)
		return kv.DropRows(KeyRows)(tx, owner)
	},
	Flush: flushKeys,
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
	if err := KeyRows.Put(tx.Tx, &k); err != nil {
		return nil, "", err
	}
	return &k, secret, Note(tx, a)
}

// secretDigest is the stored form of a secret. The secret of a session cannot be
// used as an API key, nor the other way round.
func secretDigest(secret string, session bool) [32]byte {
	if session {
		secret = "session " + secret
	}
	return sha256.Sum256([]byte(secret))
}

// Keys lists the owner's API keys, oldest first.
func Keys(tx *kv.Tx, owner record.ID) ([]Key, error) { return credentials(tx, owner[:], false) }

func credentials(tx *kv.Tx, prefix []byte, sessions bool) ([]Key, error) {
	all, err := kv.Collect(KeyRows, tx, prefix)
	return slices.DeleteFunc(all, func(k Key) bool { return k.Session != sessions }), err
}

// Key reads one of the owner's API keys.
func ReadKey(tx *kv.Tx, owner, id record.ID) (*Key, error) {
	return credential(tx, owner, id, false)
}

func credential(tx *kv.Tx, owner, id record.ID, session bool) (*Key, error) {
	what := "key"
	if session {
		what = "session"
	}
	k, err := KeyRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	if err != nil {
		return nil, kv.UserError(err, what)
	}
	if k.Session != session {
		return nil, record.NotFound(what)
	}
	return k, nil
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
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(k Key) bool { return !which(&k) })
	for i := range all {
		if err := RevokeOne(tx, &all[i], by); err != nil {
			return nil, err
		}
	}
	return all, nil
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
	if err := RemoveKey(tx, k.Owner, k.ID); err != nil {
		return err
	}
	return Note(tx, a)
}

// CheckNotRevoked fails if a credential was revoked or turned off, or its account
// was disabled, since the request that carried it started. Call it in the
// transaction that ends the request. A credential may expire in between. The
// operator of the server has no credential, and a key without an id.
func CheckNotRevoked(tx *kv.Tx, k *Key) error {
	if k.ID == (record.ID{}) {
		return nil
	}
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
