// Package session says who a caller is, by an API key or a session's cookie, and signs people
// and devices in: passwords, passkeys, second steps, single sign-on and the device flow. It
// counts wrong guesses. How long a session lasts is decided
// by Key.Slide in kv/people/key.go. What ends sessions, such as a new password or a
// disabled account, is in kv/people/session.go.
package session

import (
	"time"

	"github.com/google/uuid"

	"kist/httpapi/limit"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// maxAgent is how many bytes of a browser's User-Agent are stored.
const maxAgent = 200

// StartSession starts a session for the browser and ends the one that it had. The user has
// just proved who they are, with a password, a passkey or a link.
func StartSession(c *web.Request, u *people.User) error {
	return startSession(c, u, c.Site.Store.Now())
}

// startSession is StartSession for a user who proved at the instant confirmed who they are;
// zero if that is not known. also runs in the same transaction, with the new session.
func startSession(c *web.Request, u *people.User, confirmed time.Time, also ...func(*kv.Tx, *people.Key) error) error {
	var before *people.Caller
	if old := sessionSecret(c); old != "" {
		before, _ = people.AuthenticateSession(c.Site.Store, old) // an error means that it has ended
	}

	var secret string
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		now, err := people.ReadUser(tx, u.ID)
		if err != nil || now.Disabled || now.Password != u.Password { // changed since the check
			return errLogin
		}
		if before != nil {
			if err := people.RemoveKey(tx, before.User.ID, before.Key.ID); err != nil && !kv.Missing(err) {
				return err
			}
		}
		k, made, err := people.AddSession(tx, u.ID, web.CutTo(c.R.UserAgent(), maxAgent), address(c), confirmed)
		if err != nil {
			return err
		}
		secret = made
		for _, run := range also {
			if err := run(tx, k); err != nil {
				return err
			}
		}
		if before == nil {
			return nil
		}
		to := uuid.Nil
		if before.User.ID == u.ID {
			to = k.ID
		}
		return jobs.MoveFetches(tx, before.User.ID, before.Key.ID, to)
	}); err != nil {
		return err
	}

	setSession(c, secret)
	setDevice(c, u)
	people.TriesOf(c.Site.Store).SignedIn(limit.Network(c.Addr).String(), c.Site.Store.Now())
	return nil
}

// address is the client's address; "" if it is unknown, such as on a socket without a proxy.
func address(c *web.Request) string {
	if !c.Addr.IsValid() {
		return ""
	}
	return c.Addr.String()
}

var Logout = web.DoneOp("sign-in", "Ends the calling browser's session.", logout, 403)

func logout(c *web.Request) error {
	if err := endSession(c); err != nil {
		return err
	}
	return c.RespondOK()
}

func endSession(c *web.Request) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	secret := sessionSecret(c)
	if secret == "" {
		return nil
	}
	setSession(c, "")
	caller, err := people.AuthenticateSession(c.Site.Store, secret)
	if err != nil {
		return nil //nolint:nilerr // it has already ended
	}
	err = c.Site.Store.Update(func(tx *kv.Tx) error {
		if err := jobs.MoveFetches(tx, caller.User.ID, caller.Key.ID, uuid.Nil); err != nil {
			return err
		}
		return people.RemoveKey(tx, caller.User.ID, caller.Key.ID)
	})
	if kv.Missing(err) {
		return nil
	}
	return err
}

// ShownSession is a session as its owner sees it.
type ShownSession struct {
	people.Key
	current bool
}

func (v *ShownSession) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the session.", web.SampleID)
	s.Text("agent", &v.Agent, maxAgent).Says("The browser's User-Agent.", `"Mozilla/5.0"`)
	s.Text("address", &v.Address, 64).Says("Where it signed in from.", `"192.0.2.7"`)
	s.Bool("current", &v.current).Says("Whether this is the session of the request.", `true`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it signed in.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("lastUsedAt", &v.LastUsed, field.Always).
		Says("When it was last used, to the minute.", `"2026-01-02T03:04:00.000Z"`)
	s.Time("expiresAt", &v.Expires, field.Always).Says("When it ends if it is not used.", `"2026-02-01T03:04:05.678Z"`)
}

var ListSessions = web.ListOp("sign-in",
	"Lists the browsers that are signed in.", "A page of sessions.", "Session", listSessions)

func listSessions(c *web.Request) error {
	return web.AnswerList(c,
		func(tx *kv.Tx) ([]people.Key, error) { return people.Sessions(tx, c.Owner()) },
		func(k *people.Key) (record.ID, string) { return k.ID, k.Agent },
		func(_ *kv.Tx, k *people.Key) (*ShownSession, error) {
			return &ShownSession{*k, k.ID == c.Caller.Key.ID}, nil
		})
}

var RemoveSession = web.DoneOp("sign-in", "Ends a session.", removeSession, 404)

func removeSession(c *web.Request) error {
	id, err := c.IDArg("session")
	if err != nil {
		return err
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		k, err := people.ReadSession(tx, c.Owner(), id)
		if err != nil {
			return err
		}
		return people.RevokeOne(tx, k, "")
	}); err != nil {
		return err
	}
	return c.RespondOK()
}

var RemoveSessions = web.DoneOp("sign-in", "Ends all sessions except that of the request.", removeSessions)

func removeSessions(c *web.Request) error {
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		all, err := people.Sessions(tx, c.Owner())
		if err != nil {
			return err
		}
		for i := range all {
			if all[i].ID == c.Caller.Key.ID {
				continue
			}
			if err := people.RevokeOne(tx, &all[i], ""); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return c.RespondOK()
}

// afterLogout is where a browser goes on that has signed out.
const afterLogout = "/login?out=1"

var PostLogout = web.Operation{Reply: web.Reply{Status: 303}, Fails: []int{403}, Serve: postLogout}

// postLogout receives the form for signing out.
func postLogout(c *web.Request) error {
	if err := endSession(c); err != nil {
		return err
	}
	if c.Site.OIDC != nil {
		return Redirect(c, OIDCPath+"/end")
	}
	return Redirect(c, afterLogout)
}
