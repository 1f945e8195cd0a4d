package people_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/record"
)

const issuer = "https://id.example.org"

func codeOf(err error) string {
	if e, ok := errors.AsType[*record.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), c.Now)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	add := func(owner record.ID, issuer, subject string) error {
		return s.Update(func(tx *kv.Tx) error { return people.AddIdentity(tx, owner, issuer, subject, "ann@id", "") })
	}
	of := func(issuer, subject string) (l *people.Identity) {
		t.Helper()
		is.NoErr(s.View(func(tx *kv.Tx) (err error) { l, err = people.ReadIdentity(tx, issuer, subject); return err }))
		return l
	}
	is.NoErr(add(ann.ID, issuer, "1"))
	first := of(issuer, "1")
	is.NoErr(add(ann.ID, issuer, "1"))
	is.Equal(of(issuer, "1").ID, first.ID)
	is.Equal(codeOf(add(bob.ID, issuer, "1")), "identity_taken")
	// The issuer is a part of the identity, and where it ends cannot be shifted.
	is.NoErr(add(bob.ID, "https://other.example.org", "1"))
	is.Equal(of("https://other.example.org", "1").Owner, bob.ID)
	is.True(kv.Missing(s.View(func(tx *kv.Tx) error { _, err := people.ReadIdentity(tx, issuer+"1", ""); return err })))

	// A link knows its sessions and ends those and no others.
	var came, other *people.Key
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		other, _, err = people.AddSession(tx, ann.ID, "Firefox", "", tx.Now)
		if err != nil {
			return err
		}
		for range 3 { // the browser replaces its session
			if came != nil {
				if err := people.RemoveKey(tx, ann.ID, came.ID); err != nil {
					return err
				}
			}
			came, _, err = people.AddSession(tx, ann.ID, "Chrome", "", tx.Now)
			if err != nil {
				return err
			}
			l, err := people.ReadIdentity(tx, issuer, "1")
			if err == nil {
				err = people.UseIdentity(tx, l, came.ID, "Ann")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	l := of(issuer, "1")
	is.Equal(l.Sessions, []record.ID{came.ID})
	is.Equal(l.Name, "Ann")
	is.Equal(l.LastUsed, s.Now().Truncate(time.Minute))
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.EndIdentitySessions(tx, l) })
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		left, err := people.Sessions(tx, ann.ID)
		is.Equal(len(left), 1)
		is.Equal(left[0].ID, other.ID)
		return err
	})

	remove := func(owner, id record.ID) error {
		return s.Update(func(tx *kv.Tx) error { return people.RemoveIdentity(tx, owner, id) })
	}
	is.True(kv.Missing(remove(bob.ID, l.ID)))
	is.Equal(codeOf(remove(ann.ID, l.ID)), "last_link") // ann has no password
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		removed, err := people.RemoveIdentities(tx, ann.ID, issuer, "1", "operator")
		is.Equal(len(removed), 1)
		return err
	})
	is.True(kv.Missing(remove(ann.ID, l.ID)))
	for i := range people.MaxIdentities {
		is.NoErr(add(ann.ID, issuer, fmt.Sprint("n", i)))
	}
	is.Equal(codeOf(add(ann.ID, issuer, "one more")), "too_many_links")

	// With the account, its links go, and the identity is free.
	is.NoErr(people.RemoveUser(s, bob.ID, ""))
	is.True(kv.Missing(add(bob.ID, issuer, "2")))
	is.Equal(codeOf(add(ann.ID, "https://other.example.org", "1")), "too_many_links")
}

// TestIdentityNames: a new account is called what the issuer calls the user, as far as user names allow.
func TestIdentityNames(t *testing.T) {
	t.Parallel()
	s := kvtest.Open(t)
	for i, row := range []struct{ userName, displayName, name, display string }{
		{"ann", "Ann Example", "ann", "Ann Example"},
		{"Ann", "", "Ann-2", ""},
		{"bob.b@example.org", "", "bob.b", ""},
		{`CORP\carl`, "", "carl", ""},
		{"Jörg Müller", "", "jorg.muller", ""},
		{"", "Jörg Müller", "jorg.muller-2", "Jörg Müller"},
		{"Søren Groß", "", "soren.gross", ""},
		{"J. R. Łukasz", "", "j.r.lukasz", ""},
		{"ｄａｎ", "", "dan", ""},
		{"Иван Петров", "", "user", ""},
		{"Иван", "Ivan", "Ivan", "Ivan"},
		{"@example.org", "", "user-2", ""},
		{"-_.", "\x00", "user-3", ""},
		{strings.Repeat("é", 80), "", strings.Repeat("e", 64), ""},
		{strings.Repeat("é", 80), "", strings.Repeat("e", 62) + "-2", ""},
	} {
		var u *people.User
		kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
			u, err = people.AddIdentityUser(tx, issuer, fmt.Sprint(i), row.userName, row.displayName, "Example ID")
			return err
		})
		if u.Name != row.name || u.DisplayName != row.display {
			t.Errorf("%q, %q: %q, %q", row.userName, row.displayName, u.Name, u.DisplayName)
		}
	}
}

// While passwords are off, an account keeps another way to sign in, and so does one
// administrator.
func TestLastWay(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := kvtest.Open(t)
	var admins [3]*people.User
	for i := range admins {
		kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
			admins[i], err = people.AddUser(tx, people.User{Name: fmt.Sprint("admin", i), Role: people.Admin, Password: "hash"})
			return err
		})
	}
	ann, bob, root := admins[0], admins[1], admins[2]
	var link *people.Identity
	var key *people.Passkey
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		err = people.AddIdentity(tx, root.ID, "https://other.example.org", "1", "", "")
		if err == nil {
			err = people.AddIdentity(tx, ann.ID, issuer, "1", "", "")
		}
		if err == nil {
			link, err = people.ReadIdentity(tx, issuer, "1")
		}
		if err == nil {
			key, _, err = people.AddPasskey(tx, people.Passkey{Owner: bob.ID, Name: "phone", Credential: []byte("1")})
		}
		return err
	})
	const ok = "undone"
	try := func(fn func(*kv.Tx) error) string {
		return codeOf(s.Update(func(tx *kv.Tx) error { return errors.Join(fn(tx), errors.New(ok)) }))
	}
	disable := func(u *people.User) func(*kv.Tx) error {
		return func(tx *kv.Tx) error {
			now, err := people.ReadUser(tx, u.ID)
			if err != nil {
				return err
			}
			now.Disabled = true
			return people.SaveUser(tx, now)
		}
	}
	unlink := func(tx *kv.Tx) error { return people.RemoveIdentity(tx, ann.ID, link.ID) }
	drop := func(tx *kv.Tx) error { return people.RemovePasskey(tx, bob.ID, key.ID) }
	for name, row := range map[string]struct {
		ways                    people.Ways
		enters                  bool // some administrator
		ann, bob, unlink, drops string
	}{
		"passwords": {people.Ways{}, true, ok, ok, ok, ok},
		"proxy":     {people.Ways{NoPasswords: true, Proxy: true}, true, ok, ok, ok, ok},
		"both": {
			people.Ways{NoPasswords: true, Passkeys: true, Issuer: issuer}, true, ok, ok, "last_way", "last_way",
		},
		"issuer":          {people.Ways{NoPasswords: true, Issuer: issuer}, true, "last_admin", ok, "last_way", ok},
		"passkeys":        {people.Ways{NoPasswords: true, Passkeys: true}, true, ok, "last_admin", ok, "last_way"},
		"nobody any more": {people.Ways{NoPasswords: true, Issuer: "https://new.example.org"}, false, ok, ok, ok, ok},
	} {
		people.SetWays(s, row.ways)
		var enters bool
		is.NoErr(s.View(func(tx *kv.Tx) (err error) { enters, err = people.AdminEnters(tx); return err }))
		got := []any{enters, try(disable(ann)), try(disable(bob)), try(unlink), try(drop), try(disable(root))}
		want := []any{row.enters, row.ann, row.bob, row.unlink, row.drops, ok}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	people.SetWays(s, people.Ways{NoPasswords: true, Issuer: issuer})
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetRole(tx, ann, people.Member, "issuer") })
	is.Equal(ann.Role, people.Admin) // the last one who can sign in stays one
}
