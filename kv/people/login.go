package people

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" // #nosec G505 -- RFC 6238 with the hash that every authenticator app supports
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/table"
)

var (
	loginRows = kv.JsonTable(loginBucket, func(l *record.Login) []byte { return kv.OwnedKey(l.Owner) })

	// PasskeyRows is the table of passkeys.
	PasskeyRows = kv.JsonTable(passkeyBucket, func(p *record.Passkey) []byte { return kv.OwnedKey(p.Owner, p.ID[:]...) })
)

// LoginTable keeps one-time codes, recovery codes and links that set a password.
var LoginTable = kv.Table{
	Buckets: []table.Bucket{loginBucket}, Check: CheckOwned(loginRows, "login"), Refill: RefillOwned(loginRows),
	Paid: []table.Bucket{loginBucket}, Drop: kv.DropRows(loginRows),
	Redate: kv.RedateRows(loginRows, func(r *kv.Redate, l *record.Login) bool {
		changed := r.Past(&l.Since)
		if now := timeStep(r.Now); l.Step > now { // or no code would be right until then
			l.Step, changed = now, true
		}
		return r.Limit(&l.ResetEnds, ResetTime) || changed
	}),
}

// PasskeyTable keeps passkeys.
var PasskeyTable = kv.Table{
	Buckets: []table.Bucket{passkeyBucket}, Check: CheckOwned(PasskeyRows, "passkey"), Refill: RefillOwned(PasskeyRows),
	Paid: []table.Bucket{passkeyBucket}, Drop: kv.DropRows(PasskeyRows),
	Redate: kv.RedateRows(PasskeyRows, func(r *kv.Redate, p *record.Passkey) bool { return r.Past(&p.Created, &p.LastUsed) }),
}

// Bounds of what an account signs in with.
const (
	ResetTime     = 24 * time.Hour // how long a link that sets a password is valid
	RecoveryCodes = 10
	MaxPasskeys   = 20
	minSecret     = 16 // bytes of the secret of one-time codes (RFC 4226, section 4)
	maxSecret     = 64
)

// LoginOf reads what an account signs in with besides its password. It is empty for most
// accounts.
func LoginOf(tx *kv.Tx, owner record.ID) (*record.Login, error) {
	l, err := loginRows.Get(tx.Tx, owner[:])
	if errors.Is(err, table.ErrMissing) {
		return &record.Login{Owner: owner}, nil
	}
	return l, err
}

func saveLogin(tx *kv.Tx, l *record.Login) error {
	if len(l.Secret) == 0 && len(l.Recovery) == 0 && l.ResetEnds.IsZero() {
		_, err := loginRows.Delete(tx.Tx, l.Owner[:])
		if errors.Is(err, table.ErrMissing) {
			return nil
		}
		return err
	}
	return errors.Join(RequireOwner(tx, l.Owner), loginRows.Put(tx.Tx, l))
}

// HasSecondStep reports whether a password alone does not sign in to the account: it has
// one-time codes or a passkey.
func HasSecondStep(tx *kv.Tx, owner record.ID) (bool, error) {
	for range tx.Walk(passkeyBucket, owner[:], nil, false) {
		return true, nil
	}
	l, err := LoginOf(tx, owner)
	return len(l.Secret) > 0, err
}

// One-time codes are those of RFC 6238 with SHA-1, six digits and steps of 30 seconds.
const stepTime = 30

func timeStep(at time.Time) int64 { return at.Unix() / stepTime }

// hotp is the value that the digits of a code come from (RFC 4226, section 5.3).
func hotp(secret []byte, step int64) uint32 {
	h := hmac.New(sha1.New, secret)
	_ = binary.Write(h, binary.BigEndian, step) // cannot fail
	sum := h.Sum(nil)
	return binary.BigEndian.Uint32(sum[sum[len(sum)-1]&15:]) &^ (1 << 31)
}

// OneTimeCode is the code of a secret at an instant.
func OneTimeCode(secret []byte, at time.Time) string { return codeOf(secret, timeStep(at)) }

func codeOf(secret []byte, step int64) string {
	return fmt.Sprintf("%06d", hotp(secret, step)%1_000_000)
}

// matchCode finds the step after the given one that a code belongs to: the present one, or
// one beside it because clocks differ.
func matchCode(secret []byte, code string, now time.Time, after int64) (step int64, ok bool) {
	code = strings.Join(strings.Fields(code), "")
	for at := timeStep(now) - 1; at <= timeStep(now)+1; at++ {
		if subtle.ConstantTimeCompare([]byte(codeOf(secret, at)), []byte(code)) == 1 && at > after && !ok {
			step, ok = at, true
		}
	}
	return step, ok
}

var errWrongCode = &record.Error{Fault: record.Invalid, Code: "invalid_fields", Text: "The code is wrong.", Fields: map[string]string{"code": "is wrong. Check that the clocks of your phone and of the server are right"}}

// SetCodes turns one-time codes on, or replaces their secret. The code proves that the
// user's app has the secret. It returns recovery codes if the account had no second step.
func SetCodes(tx *kv.Tx, owner record.ID, secret []byte, code string) (recovery []string, err error) {
	if len(secret) < minSecret || len(secret) > maxSecret {
		return nil, record.Bad(map[string]string{"secret": "must be the one from the server"})
	}
	l, err := LoginOf(tx, owner)
	if err != nil {
		return nil, err
	}
	step, ok := matchCode(secret, code, tx.Now, 0)
	if !ok {
		return nil, errWrongCode
	}
	l.Secret, l.Since, l.Step = secret, tx.Now, step
	l.Reset, l.ResetEnds = [32]byte{}, time.Time{} // it would go around the codes
	if len(l.Recovery) == 0 {
		recovery = makeRecovery(l)
	}
	return recovery, errors.Join(saveLogin(tx, l), Note(tx, record.Activity{Owner: owner, Event: record.CodesOn}))
}

// ClearCodes turns one-time codes off.
func ClearCodes(tx *kv.Tx, owner record.ID) error {
	l, err := LoginOf(tx, owner)
	if err != nil {
		return err
	}
	if len(l.Secret) == 0 {
		return record.NotFound("one-time codes")
	}
	l.Secret, l.Since, l.Step = nil, time.Time{}, 0
	return errors.Join(dropRecovery(tx, l), Note(tx, record.Activity{Owner: owner, Event: record.CodesOff}))
}

// dropRecovery saves l, without recovery codes if the account has no second step left.
func dropRecovery(tx *kv.Tx, l *record.Login) error {
	err := saveLogin(tx, l)
	if has, e := HasSecondStep(tx, l.Owner); has || err != nil || e != nil {
		return errors.Join(err, e)
	}
	l.Recovery = nil
	return saveLogin(tx, l)
}

// UseCode reports whether a one-time code is right, and uses it up. Each code is right
// once, and no code is right after a later one was used.
func UseCode(tx *kv.Tx, owner record.ID, code string) (bool, error) {
	l, err := LoginOf(tx, owner)
	if err != nil || len(l.Secret) == 0 {
		return false, err
	}
	step, ok := matchCode(l.Secret, code, tx.Now, l.Step)
	if !ok {
		return false, nil
	}
	l.Step = step
	return true, saveLogin(tx, l)
}

// RenewRecovery replaces the recovery codes. They are returned only here.
func RenewRecovery(tx *kv.Tx, owner record.ID) ([]string, error) {
	has, err := HasSecondStep(tx, owner)
	if err != nil {
		return nil, err
	}
	if !has {
		return nil, &record.Error{Fault: record.Taken, Code: "no_second_step", Text: "Recovery codes are for accounts with one-time codes or passkeys. Set up one of them first."}
	}
	return addRecovery(tx, owner)
}

func addRecovery(tx *kv.Tx, owner record.ID) ([]string, error) {
	l, err := LoginOf(tx, owner)
	if err != nil {
		return nil, err
	}
	codes := makeRecovery(l)
	return codes, errors.Join(saveLogin(tx, l), Note(tx, record.Activity{Owner: owner, Event: record.RecoveryMade}))
}

// makeRecovery makes codes of 16 letters, 69 bits: a fast hash is enough for them.
func makeRecovery(l *record.Login) (codes []string) {
	l.Recovery = nil
	for range RecoveryCodes {
		code := record.NewUserCode(kv.Random) + "-" + record.NewUserCode(kv.Random)
		codes, l.Recovery = append(codes, code), append(l.Recovery, recoveryDigest(code))
	}
	return codes
}

func recoveryDigest(code string) [32]byte {
	return sha256.Sum256([]byte(strings.Map(func(r rune) rune {
		if r < 'A' || r > 'Z' {
			return -1
		}
		return r
	}, strings.ToUpper(code))))
}

// UseRecovery reports whether a recovery code is right, and uses it up.
func UseRecovery(tx *kv.Tx, owner record.ID, code string) (bool, error) {
	l, err := LoginOf(tx, owner)
	if err != nil {
		return false, err
	}
	i := slices.Index(l.Recovery, recoveryDigest(code))
	if i < 0 {
		return false, nil
	}
	l.Recovery = slices.Delete(l.Recovery, i, i+1)
	return true, errors.Join(saveLogin(tx, l), Note(tx, record.Activity{Owner: owner, Event: record.RecoveryUsed}))
}

// Passkeys lists an account's passkeys, oldest first.
func Passkeys(tx *kv.Tx, owner record.ID) ([]record.Passkey, error) {
	return kv.Collect(PasskeyRows, tx, owner[:])
}

// AnyPasskey reports whether any account has a passkey.
func AnyPasskey(tx *kv.Tx) bool {
	for range tx.Walk(passkeyBucket, nil, nil, false) {
		return true
	}
	return false
}

// Passkey reads one of the owner's passkeys.
func Passkey(tx *kv.Tx, owner, id record.ID) (*record.Passkey, error) {
	p, err := PasskeyRows.Get(tx.Tx, kv.OwnedKey(owner, id[:]...))
	return p, kv.UserError(err, "passkey")
}

// AddPasskey adds a passkey. It returns recovery codes if the account had none.
func AddPasskey(tx *kv.Tx, p record.Passkey) (key *record.Passkey, recovery []string, err error) {
	if err := RequireOwner(tx, p.Owner); err != nil {
		return nil, nil, err
	}
	all, err := Passkeys(tx, p.Owner)
	if err != nil {
		return nil, nil, err
	}
	if len(all) >= MaxPasskeys {
		return nil, nil, kv.TooMany("passkeys", "too_many_passkeys", MaxPasskeys)
	}
	if slices.ContainsFunc(all, func(other record.Passkey) bool { return bytes.Equal(other.Credential, p.Credential) }) {
		return nil, nil, &record.Error{Fault: record.Taken, Code: "passkey_taken", Text: "This passkey is in the account already."}
	}
	l, err := LoginOf(tx, p.Owner)
	if err != nil {
		return nil, nil, err
	}
	p.ID, p.Created = tx.NewID(), tx.Now
	if err := errors.Join(PasskeyRows.Put(tx.Tx, &p), Note(tx, record.Activity{Owner: p.Owner, Event: record.PasskeyAdded, Name: p.Name})); err != nil {
		return nil, nil, err
	}
	l.Reset, l.ResetEnds = [32]byte{}, time.Time{} // it would go around the passkey
	if len(l.Recovery) == 0 {
		recovery = makeRecovery(l)
	}
	return &p, recovery, saveLogin(tx, l)
}

// SavePasskey changes a passkey, which must have been read in the same transaction.
func SavePasskey(tx *kv.Tx, p *record.Passkey) error { return PasskeyRows.Put(tx.Tx, p) }

// RemovePasskey deletes a passkey.
func RemovePasskey(tx *kv.Tx, owner, id record.ID) error {
	p, err := Passkey(tx, owner, id)
	if err != nil {
		return err
	}
	if err := keepWay(tx, owner, func() error {
		_, err := PasskeyRows.Delete(tx.Tx, PasskeyRows.Key(p))
		return err
	}); err != nil {
		return err
	}
	l, err := LoginOf(tx, owner)
	if err != nil {
		return err
	}
	return errors.Join(dropRecovery(tx, l), Note(tx, record.Activity{Owner: owner, Event: record.PasskeyRemoved, Name: p.Name}))
}

// UsePasskey records the use of a passkey whose signature was right, with the counter of
// the authenticator. It reports false if the counter has not grown: there may be a copy of
// the passkey then (WebAuthn, section 6.1.1). An authenticator without a counter sends 0.
func UsePasskey(tx *kv.Tx, owner, id record.ID, count int64, address string) (bool, error) {
	p, err := Passkey(tx, owner, id)
	if err != nil {
		return false, err
	}
	if count <= p.Count && (count != 0 || p.Count != 0) {
		return false, Note(tx, record.Activity{Owner: owner, Event: record.PasskeyRefused, Name: p.Name, Address: address})
	}
	p.Count, p.LastUsed = count, tx.Now
	return true, SavePasskey(tx, p)
}

// Ways says how users can sign in at the server that runs on a store. The zero value is that of
// a store without a server: passwords sign in.
type Ways struct {
	NoPasswords bool
	Passkeys    bool   // work at the server's address
	Issuer      string // "" if none
	Proxy       bool   // may name every account
}

var ways kv.Slot[Ways]

// SetWays says how users can sign in from now on. It is for a server that starts.
func SetWays(s *kv.Store, w Ways) { ways.Set(s, &w) }

// canEnter reports whether an account has a way to sign in while passwords are off.
func canEnter(tx *kv.Tx, owner record.ID) (bool, error) {
	w := ways.Of(tx.Store())
	if !w.NoPasswords || w.Proxy {
		return true, nil
	}
	if w.Passkeys {
		for range tx.Walk(passkeyBucket, owner[:], nil, false) {
			return true, nil
		}
	}
	all, err := Identities(tx, owner)
	return slices.ContainsFunc(all, func(l record.Identity) bool { return l.Issuer == w.Issuer }), err
}

// keepWay runs remove. It fails if that has left an account without a way to sign in that
// had one.
func keepWay(tx *kv.Tx, owner record.ID, remove func() error) error {
	before, err := canEnter(tx, owner)
	if err != nil {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	if after, err := canEnter(tx, owner); err != nil || after || !before {
		return err
	}
	return &record.Error{Fault: record.Taken, Code: "last_way", Text: "Passwords are off here. Without this you could not sign in any more."}
}

// AdminEnters reports whether an administrator can sign in, or there is no account yet.
func AdminEnters(tx *kv.Tx) (bool, error) {
	all, err := Users(tx)
	for i := range all {
		if enters, err := canEnter(tx, all[i].ID); err != nil || enters && administers(&all[i]) {
			return true, err
		}
	}
	return len(all) == 0, err
}

// ResetLogin removes the account's codes, passkeys and linked identities and returns the
// secret of a link with which a new password can be set, once and within ResetTime. An
// earlier link ends. Sessions stay until the password is set, except those that came from
// an identity. by is who does it, not the owner.
func ResetLogin(tx *kv.Tx, owner record.ID, by string) (secret string, err error) {
	if err := ClearLogin(tx, owner, by); err != nil {
		return "", err
	}
	random := make([]byte, 32)
	kv.Random(random)
	l := &record.Login{Owner: owner, Reset: sha256.Sum256(random), ResetEnds: tx.Now.Add(ResetTime)}
	return base64.RawURLEncoding.EncodeToString(append(owner[:], random...)),
		errors.Join(saveLogin(tx, l), Note(tx, record.Activity{Owner: owner, Event: record.LoginReset, By: by}))
}

// ClearLogin removes the account's codes, passkeys, linked identities and a link that sets
// its password.
func ClearLogin(tx *kv.Tx, owner record.ID, by string) error {
	if _, err := RemoveIdentities(tx, owner, "", "", by); err != nil {
		return err
	}
	all, err := Passkeys(tx, owner)
	if err != nil {
		return err
	}
	for i := range all {
		if _, err := PasskeyRows.Delete(tx.Tx, PasskeyRows.Key(&all[i])); err != nil {
			return err
		}
	}
	return saveLogin(tx, &record.Login{Owner: owner})
}

// ResetOf reads the account that the link with the secret sets the password of, or fails
// with Missing.
func ResetOf(tx *kv.Tx, secret string) (*record.User, error) {
	gone := &record.Error{Fault: record.Missing, Code: "not_found", Text: "This link is not valid, or has been used."}
	b, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || len(b) != 48 {
		return nil, gone
	}
	l, err := LoginOf(tx, record.ID(b[:16]))
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(b[16:])
	if l.ResetEnds.IsZero() || !tx.Now.Before(l.ResetEnds) || subtle.ConstantTimeCompare(digest[:], l.Reset[:]) != 1 {
		return nil, gone
	}
	u, err := User(tx, l.Owner)
	if err == nil && u.Disabled {
		err = gone
	}
	return u, err
}

// EndReset ends the link that sets the account's password.
func EndReset(tx *kv.Tx, owner record.ID) error {
	l, err := LoginOf(tx, owner)
	if err != nil || l.ResetEnds.IsZero() {
		return err
	}
	l.Reset, l.ResetEnds = [32]byte{}, time.Time{}
	return saveLogin(tx, l)
}

// ConfirmSession records that the user of a session has proved again who they are.
func ConfirmSession(tx *kv.Tx, owner, id record.ID) error {
	k, err := Session(tx, owner, id)
	if err != nil {
		return err
	}
	k.Confirmed = tx.Now
	return SaveKey(tx, k)
}
