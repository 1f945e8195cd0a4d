package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"kist/kv/field"
)

// Role is what a user may do beyond their own content.
type Role string

// The roles.
const (
	Admin  Role = "admin"
	Member Role = "user"
)

// Roles lists the roles.
var Roles = []Role{Admin, Member}

// User is an account.
type User struct {
	ID          ID
	Name        string
	DisplayName string
	Role        Role
	Disabled    bool
	TokensOff   bool  // the user's API keys are off
	Quota       int64 // bytes of files; -1 is the instance's default
	Password    string
	Created     time.Time
}

// Key is an API key. Its secret is not kept, only the SHA-256 of it.
type Key struct {
	ID, Owner ID
	Name      string
	Scopes    []Scope
	Disabled  bool
	Digest    [32]byte
	Created   time.Time
	Expires   time.Time // zero: never
	LastUsed  time.Time // to the minute
}

// Scope is what a key may be used for.
type Scope string

// The scopes. ScopeAdmin includes ScopeAll, and reaches the administration
// too if the key's user is an administrator; ScopeAll is all of read, write
// and upload.
const (
	ScopeAll    Scope = "all"
	ScopeRead   Scope = "read"
	ScopeWrite  Scope = "write"
	ScopeUpload Scope = "upload"
	ScopeAdmin  Scope = "admin"
)

var scopes = []Scope{ScopeAll, ScopeRead, ScopeWrite, ScopeUpload, ScopeAdmin}

// Allows reports whether the key has the scope, by itself or by a wider one.
func (k *Key) Allows(s Scope) bool {
	switch {
	case slices.Contains(k.Scopes, ScopeAdmin), slices.Contains(k.Scopes, s):
		return true
	case s == ScopeUpload:
		return slices.Contains(k.Scopes, ScopeAll) || slices.Contains(k.Scopes, ScopeWrite)
	}
	return s != ScopeAdmin && slices.Contains(k.Scopes, ScopeAll)
}

// CleanScope is the rule of scopes.
func CleanScope(t string) (string, error) {
	if !slices.Contains(scopes, Scope(t)) {
		return "", errors.New("must be one of: all, read, write, upload, admin")
	}
	return t, nil
}

// Bounds of an account's password in bytes.
const (
	MinPassword = 8
	MaxPassword = field.MaxSecret
)

// CheckPassword is the rule of an account's password: one line of MinPassword
// to MaxPassword bytes of UTF-8. It is kept as given, so what a person cannot
// type again into one line is refused.
func CheckPassword(t string) error {
	switch {
	case len(t) < MinPassword || len(t) > MaxPassword:
		return fmt.Errorf("must be %d to %d bytes long", MinPassword, MaxPassword)
	case !utf8.ValidString(t):
		return errors.New("must be valid UTF-8")
	case strings.ContainsFunc(t, unicode.IsControl):
		return errors.New("must be one line without control characters")
	}
	return nil
}

// Settings are what an administrator sets for the whole instance.
type Settings struct {
	TokensOff    bool  // all API keys are off
	DefaultQuota int64 // bytes of files a user may keep; 0 is no limit
	MaxUpload    int64 // bytes of one file; 0 leaves it to the command line
}

// Fields is the shape of the settings.
func (v *Settings) Fields(s *field.Set) {
	s.Bool("apiTokensDisabled", &v.TokensOff).Says("Turns all API keys off, from the next request on.", `false`)
	s.MaybeNumber("defaultQuotaBytes", &v.DefaultQuota, 1, 1<<53).
		Says("Bytes of files a user may keep unless told otherwise; null is no limit.", `107374182400`)
	s.MaybeNumber("maxUploadBytes", &v.MaxUpload, 1, 1<<53).
		Says("Bytes of one file; null leaves it to --max-upload-size, which it cannot exceed.", `5368709120`)
}
