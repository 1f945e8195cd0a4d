package people

import (
	"crypto/sha256"
	"slices"
	"strings"

	"kist/kv"
	"kist/kv/record"
	"kist/kv/workcopy"
)

// Claimed signals that there is an administrator, however made: the claim link has ended.
var Claimed kv.Signal

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
		text := "This claim link is not valid, or has been used."
		return &record.Error{Fault: record.Missing, Code: "not_found", Text: text}
	}
	return nil
}
