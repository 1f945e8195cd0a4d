package serve

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
)

func TestSignInFlags(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	near := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	for name, row := range map[string]struct {
		with    func(*SignInFlags)
		proxies []netip.Prefix
		ok      bool
	}{
		"nothing": {func(*SignInFlags) {}, nil, true},
		"issuer": {func(f *SignInFlags) {
			f.OIDCIssuer, f.OIDCClientID = "https://id.example.org/", "kist"
		}, nil, true},
		"issuer here": {func(f *SignInFlags) {
			f.OIDCIssuer, f.OIDCClientID = "http://127.0.0.1:9000", "kist"
		}, nil, true},
		"issuer without TLS": {func(f *SignInFlags) {
			f.OIDCIssuer, f.OIDCClientID = "http://id.example.org", "kist"
		}, nil, false},
		"issuer with a query": {func(f *SignInFlags) {
			f.OIDCIssuer, f.OIDCClientID = "https://id.example.org?a", "kist"
		}, nil, false},
		"no client": {func(f *SignInFlags) { f.OIDCIssuer = "https://id.example.org" }, nil, false},
		"no issuer": {func(f *SignInFlags) { f.OIDCAllowGroup = "family" }, nil, false},
		"no openid": {func(f *SignInFlags) {
			f.OIDCIssuer, f.OIDCClientID, f.OIDCScopes = "https://id.example.org", "kist", []string{"profile"}
		}, nil, false},
		"nobody could sign in": {func(f *SignInFlags) { f.PasswordLogin = "off" }, nil, false},
		"header":               {func(f *SignInFlags) { f.AuthHeader, f.PasswordLogin = "Remote-User", "off" }, near, true},
		"header from anybody":  {func(f *SignInFlags) { f.AuthHeader = "Remote-User" }, nil, false},
		"header from all": {func(f *SignInFlags) {
			f.AuthHeader = "Remote-User"
		}, append(near, netip.MustParsePrefix("::/0")), false},
		"header of others":     {func(f *SignInFlags) { f.AuthHeader = "x-forwarded-for" }, near, false},
		"header with a secret": {func(f *SignInFlags) { f.AuthHeader = "cookie" }, near, false},
		"no header":            {func(f *SignInFlags) { f.AuthHeader = "Remote User" }, near, false},
	} {
		f := &SignInFlags{OIDCScopes: []string{"openid", "profile"}, PasswordLogin: "on"}
		row.with(f)
		if err := f.Check(row.proxies); (err == nil) != row.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := &SignInFlags{
		OIDCIssuer: "https://id.example.org/realms/home", OIDCClientID: "kist", OIDCScopes: []string{"openid"},
	}
	is.NoErr(f.Check(nil))
	is.Equal(f.OIDCName, "id.example.org")
}

// A server without passwords does not start if no administrator could sign in.
func TestCheckAdmins(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	const issuer = "https://id.example.org"
	f := &SignInFlags{PasswordLogin: "off", OIDCIssuer: issuer}
	people.SetWays(s, people.Ways{NoPasswords: true, Issuer: issuer})
	is.NoErr(f.CheckAdmins(s)) // there are no accounts yet
	var u *people.User
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		u, err = people.AddUser(tx, people.User{Name: "ann", Role: people.Admin, Password: "hash"})
		return err
	})
	err := f.CheckAdmins(s)
	is.True(err != nil && strings.Contains(err.Error(), "lock out every administrator"))
	is.NoErr((&SignInFlags{PasswordLogin: "on"}).CheckAdmins(s))
	// who makes administrators
	is.NoErr((&SignInFlags{PasswordLogin: "off", OIDCCreate: true, OIDCAdminGroup: "parents"}).CheckAdmins(s))
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		return people.AddIdentity(tx, u.ID, issuer, "1", "", "")
	})
	is.NoErr(f.CheckAdmins(s))
}
