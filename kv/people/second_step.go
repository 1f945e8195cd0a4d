package people

// One-time codes and recovery codes: what an account enters after its password. When it must is
// decided in package session.

import (
	"crypto/hmac"
	"crypto/sha1" // #nosec G505 -- RFC 6238 with the hash that every authenticator app supports
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"kist/kv"
	"kist/kv/record"
)

// Bounds of the second step.
const (
	RecoveryCodes = 10
	minSecret     = 16 // bytes of the secret of one-time codes (RFC 4226, section 4)
	maxSecret     = 64
)

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

// matchCode returns the time step of a code: now, or one step before or after, because clocks
// differ. It must be later than after. A phone shows the true time, which may be the store's
// time or the clock's while the two differ.
func matchCode(tx *kv.Tx, secret []byte, code string, after int64) (step int64, ok bool) {
	code = strings.Join(strings.Fields(code), "")
	for _, now := range []time.Time{tx.Now, tx.Clock()} {
		for at := timeStep(now) - 1; at <= timeStep(now)+1; at++ {
			if subtle.ConstantTimeCompare([]byte(codeOf(secret, at)), []byte(code)) == 1 && at > after && !ok {
				step, ok = at, true
			}
		}
	}
	return step, ok
}

var errWrongCode = &record.Error{
	Fault: record.Invalid, Code: "invalid_fields", Text: "The code is wrong.",
	Fields: map[string]string{"code": "is wrong. Check that the clocks of your phone and of the server are right"},
}

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
	step, ok := matchCode(tx, secret, code, 0)
	if !ok {
		return nil, errWrongCode
	}
	l.Secret, l.Since, l.Step = secret, tx.Now, step
	l.Reset, l.ResetEnds = [32]byte{}, time.Time{} // it would go around the codes
	if len(l.Recovery) == 0 {
		recovery = makeRecovery(l)
	}
	if err := saveLogin(tx, l); err != nil {
		return nil, err
	}
	return recovery, Note(tx, Activity{Owner: owner, Event: CodesOn})
}

// ClearCodes turns one-time codes off.
func ClearCodes(tx *kv.Tx, owner record.ID) error {
	l, err := LoginOf(tx, owner)
	if err != nil {
		return err
	}
	if len(l.Secret) == 0 {
		return &record.Error{Fault: record.Missing, Code: "not_found", Text: "The user has no one-time codes."}
	}
	l.Secret, l.Since, l.Step = nil, time.Time{}, 0
	if err := dropRecovery(tx, l); err != nil {
		return err
	}
	return Note(tx, Activity{Owner: owner, Event: CodesOff})
}

// dropRecovery saves l, without recovery codes if the account has no second step left.
func dropRecovery(tx *kv.Tx, l *Login) error {
	if err := saveLogin(tx, l); err != nil {
		return err
	}
	if has, err := HasSecondStep(tx, l.Owner); err != nil || has {
		return err
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
	step, ok := matchCode(tx, l.Secret, code, l.Step)
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
		return nil, &record.Error{
			Fault: record.Taken, Code: "no_second_step",
			Text: "Recovery codes are for accounts with one-time codes or passkeys. Set up one of them first.",
		}
	}
	return addRecovery(tx, owner)
}

func addRecovery(tx *kv.Tx, owner record.ID) ([]string, error) {
	l, err := LoginOf(tx, owner)
	if err != nil {
		return nil, err
	}
	codes := makeRecovery(l)
	if err := saveLogin(tx, l); err != nil {
		return nil, err
	}
	return codes, Note(tx, Activity{Owner: owner, Event: RecoveryMade})
}

// makeRecovery makes codes of 16 letters, 69 bits: a fast hash is enough for them.
func makeRecovery(l *Login) (codes []string) {
	l.Recovery = nil
	for range RecoveryCodes {
		code := NewUserCode(kv.Random) + "-" + NewUserCode(kv.Random)
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
	if err := saveLogin(tx, l); err != nil {
		return false, err
	}
	return true, Note(tx, Activity{Owner: owner, Event: RecoveryUsed})
}
