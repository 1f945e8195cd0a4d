package people_test

import (
	"errors"
	"fmt"
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
	add := func(owner record.ID, issuer, subject string) (l *record.Identity, err error) {
		err = s.Update(func(tx *kv.Tx) error {
			l, err = people.AddIdentity(tx, owner, issuer, subject, "ann@id", "")
			return err
		})
		return l, err
	}
	of := func(issuer, subject string) (l *record.Identity) {
		t.Helper()
		is.NoErr(s.View(func(tx *kv.Tx) (err error) { l, err = people.Identity(tx, issuer, subject); return err }))
		return l
	}
	first, err := add(ann.ID, issuer, "1")
	is.NoErr(err)
	again, err := add(ann.ID, issuer, "1")
	is.NoErr(err)
	is.Equal(again.ID, first.ID)
	_, err = add(bob.ID, issuer, "1")
	is.Equal(codeOf(err), "identity_taken")
	// The issuer is a part of the identity, and where it ends cannot be shifted.
	_, err = add(bob.ID, "https://other.example.org", "1")
	is.NoErr(err)
	is.Equal(of("https://other.example.org", "1").Owner, bob.ID)
	is.True(kv.Missing(s.View(func(tx *kv.Tx) error { _, err := people.Identity(tx, issuer+"1", ""); return err })))

	// A link knows its sessions and ends those and no others.
	var came, other *record.Key
	kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
		if other, _, err = people.AddSession(tx, ann.ID, "Firefox", ""); err != nil {
			return err
		}
		for range 3 { // the browser replaces its session
			if came != nil {
				if err := people.RemoveKey(tx, ann.ID, came.ID); err != nil {
					return err
				}
			}
			if came, _, err = people.AddSession(tx, ann.ID, "Chrome", ""); err != nil {
				return err
			}
			l, err := people.Identity(tx, issuer, "1")
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
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		n, err := people.EndIdentitySessions(tx, l)
		is.Equal(n, 1)
		return err
	})
	kvtest.Update(t, s, func(tx *kv.Tx) error {
		left, err := people.Sessions(tx, ann.ID)
		is.Equal(len(left), 1)
		is.Equal(left[0].ID, other.ID)
		return err
	})

	remove := func(owner, id record.ID, by string) error {
		return s.Update(func(tx *kv.Tx) error { return people.RemoveIdentity(tx, owner, id, by) })
	}
	is.True(kv.Missing(remove(bob.ID, l.ID, "")))
	is.Equal(codeOf(remove(ann.ID, l.ID, "")), "last_link") // ann has no password
	is.NoErr(remove(ann.ID, l.ID, "operator"))
	is.True(kv.Missing(remove(ann.ID, l.ID, "")))
	for i := range people.MaxIdentities {
		_, err := add(ann.ID, issuer, fmt.Sprint("n", i))
		is.NoErr(err)
	}
	_, err = add(ann.ID, issuer, "one more")
	is.Equal(codeOf(err), "too_many_links")

	// With the account, its links go, and the identity is free.
	is.NoErr(people.RemoveUser(s, bob.ID, ""))
	_, err = add(bob.ID, issuer, "2")
	is.True(kv.Missing(err))
	_, err = add(ann.ID, "https://other.example.org", "1")
	is.Equal(codeOf(err), "too_many_links")
}
