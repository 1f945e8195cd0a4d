package people_test

import (
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
)

// Whatever ends an invitation, its link lets nobody in, and the store keeps nothing of it.
func TestInvitationEnds(t *testing.T) {
	t.Parallel()
	save := func(change func(u *people.User)) func(tx *kv.Tx, v *people.Invitation) error {
		return func(tx *kv.Tx, v *people.Invitation) error {
			u, err := people.ReadUser(tx, v.Owner)
			if err != nil {
				return err
			}
			change(u)
			return people.SaveUser(tx, u)
		}
	}
	again := func(off, on func(u *people.User)) func(tx *kv.Tx, v *people.Invitation) error {
		return func(tx *kv.Tx, v *people.Invitation) error {
			err := save(off)(tx, v)
			if err != nil {
				return err
			}
			return save(on)(tx, v)
		}
	}
	for name, c := range map[string]struct {
		do    func(tx *kv.Tx, v *people.Invitation) error
		after time.Duration
		stays bool
	}{
		"nothing":      {stays: true},
		"nearly ended": {after: people.InvitationTime - time.Second, stays: true},
		"ended":        {after: people.InvitationTime},
		"a new password of who made it": {
			do: save(func(u *people.User) { u.Password = "another" }), stays: true,
		},
		"who made it is disabled":           {do: save(func(u *people.User) { u.Disabled = true })},
		"who made it is no administrator":   {do: save(func(u *people.User) { u.Role = people.Member })},
		"who made it was no administrator":  {do: again(func(u *people.User) { u.Role = people.Member }, func(u *people.User) { u.Role = people.Admin })},
		"who made it was disabled meantime": {do: again(func(u *people.User) { u.Disabled = true }, func(u *people.User) { u.Disabled = false })},
		"the sign-in is reset": {do: func(tx *kv.Tx, v *people.Invitation) error {
			_, err := people.ResetLogin(tx, v.Owner, "operator", false)
			return err
		}},
		"taken back": {do: func(tx *kv.Tx, v *people.Invitation) error {
			return people.RemoveInvitation(tx, v.ID, &people.User{Name: "root"})
		}},
		"used": {do: func(tx *kv.Tx, v *people.Invitation) error {
			u, err := people.AddUser(tx, people.User{Name: "bob", Role: people.Member})
			if err != nil {
				return err
			}
			return people.UseInvitation(tx, v, u)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			clock := kvtest.NewClock()
			s := kvtest.OpenAt(t, t.TempDir(), clock.Now)
			kvtest.User(t, s, "root")
			ann := kvtest.User(t, s, "ann")
			var made *people.Invitation
			var secret string
			kvtest.Update(t, s, func(tx *kv.Tx) (err error) {
				made, secret, err = people.AddInvitation(tx, people.Invitation{Owner: ann.ID, Role: people.Member})
				return err
			})
			if c.do != nil {
				kvtest.Update(t, s, func(tx *kv.Tx) error { return c.do(tx, made) })
			}
			clock.Add(c.after)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				open, err := people.Invitations(tx)
				is.NoErr(err)
				is.Equal(len(open) == 1, c.stays)
				got, by, err := people.InvitationOf(tx, secret)
				if !c.stays {
					is.Equal(kvtest.Code(err), "not_found")
					return nil
				}
				is.NoErr(err)
				is.Equal(got.ID, made.ID)
				is.Equal(by.ID, ann.ID)
				for _, bad := range []string{"", "x", secret[1:], secret + "A", secret[:63] + "!", strings.Repeat("A", 64)} {
					_, _, err := people.InvitationOf(tx, bad)
					is.Equal(kvtest.Code(err), "not_found")
				}
				return nil
			})
			kvtest.Update(t, s, people.DropInvitations)
			kvtest.View(t, s, func(tx *kv.Tx) error {
				l, err := people.LoginOf(tx, ann.ID)
				is.NoErr(err)
				is.Equal(len(l.Invitations) == 1, c.stays)
				return kvtest.Audit(tx)
			})
		})
	}
}

func TestInvitationBounds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	clock := kvtest.NewClock()
	s := kvtest.OpenAt(t, t.TempDir(), clock.Now)
	ann, bob := kvtest.User(t, s, "ann"), kvtest.User(t, s, "bob")
	kvtest.Update(t, s, func(tx *kv.Tx) error { return people.SetRole(tx, bob, people.Member, "") })
	invite := func(v people.Invitation) string {
		return kvtest.Code(s.Update(func(tx *kv.Tx) error {
			_, _, err := people.AddInvitation(tx, v)
			return err
		}))
	}
	is.Equal(invite(people.Invitation{Owner: bob.ID}), "not_admin")
	for _, end := range []time.Duration{-time.Second, people.MaxInvitationTime + time.Second} {
		is.Equal(invite(people.Invitation{Owner: ann.ID, Expires: clock.Now().Add(end)}), "invalid_fields")
	}
	for range 50 {
		is.Equal(invite(people.Invitation{Owner: ann.ID}), "")
	}
	is.Equal(invite(people.Invitation{Owner: ann.ID}), "too_many_invitations")
	clock.Add(people.InvitationTime)
	is.Equal(invite(people.Invitation{Owner: ann.ID}), "") // those that have ended make room
	kvtest.View(t, s, func(tx *kv.Tx) error {
		l, err := people.LoginOf(tx, ann.ID)
		is.Equal(len(l.Invitations), 1)
		return err
	})
}
