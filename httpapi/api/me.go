package api

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"kist/embed"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// MeForm is what users can change about their own account.
type MeForm struct {
	name              string
	language          people.Language
	theme             people.Theme
	accent            people.Accent
	seen              string
	hidden            bool
	password, current field.Secret
	revoke            revoke
}

func (f *MeForm) Fields(s *field.Set) {
	s.Name("displayName", &f.name, record.MaxName).Says("Display name.", `"Ann"`)
	field.MaybeChoice(s, "language", &f.language, people.Languages).Says(
		"Language of pages and the app; null leaves it to the browser.", `"de"`,
	)
	field.MaybeChoice(s, "theme", &f.theme, people.Themes).Says(
		"Brightness of the app; null follows the system.", `"dark"`,
	)
	field.MaybeChoice(s, "accent", &f.accent, people.Accents).Says(
		"Colour of what can be pressed in the app; null is the usual one.", `"blue"`,
	)
	s.Bool("hidden", &f.hidden).Says(
		"Hides the user from the other people of this server. Administrators see the account.", `false`,
	)
	s.Text("seenVersion", &f.seen, maxVersion, field.WriteOnly).Says(
		"The version of the server whose changes the user was told of. The app tells of a newer one once.", `"1.2.0"`,
	)
	s.Secret("password", &f.password).Says(
		"A new password of at least 8 characters. Repeats, rows such as 1234 or qwerty, the user name and the first part "+
			"of the server's name count as one character each. Common passwords are refused.",
		`"correct horse battery"`,
	)
	s.Secret("currentPassword", &f.current).Says("The current password; required with a new one.", `"open sesame"`)
	f.revoke.Fields(s)
}

// revoke has the ids of the keys that a new password revokes; nil means all devices.
type revoke []string

func (f *revoke) Fields(s *field.Set) {
	s.IDs("revoke", (*[]string)(f), maxRevoked).
		Says(
			"Only with a new password: ids of the account's API keys to revoke, including those of connected devices. If "+
				"absent, the keys of all connected devices are revoked, except the key of this request, and no other keys. A "+
				"new password always ends all other sessions of the account.",
			`[]`,
		)
}

func (f revoke) check(in field.Object, p *field.Secret) error {
	if in["revoke"] != nil && !p.Said {
		return record.Bad(map[string]string{"revoke": "can only be given together with a new password"})
	}
	return nil
}

// names reports which keys to revoke. By default that is not the key of the request.
func (f revoke) names(c *web.Request) func(*people.Key) bool {
	return func(k *people.Key) bool {
		if f == nil {
			return k.Device != "" && k.ID != c.Caller.Key.ID
		}
		return slices.Contains(f, k.ID.String())
	}
}

// maxVersion is more characters than the name of a version has.
const maxVersion = 64

// maxRevoked is more keys than an account can have.
const maxRevoked = 1000

var ReadMe = web.ReadOp("account", "Reads the caller's account, with usage and quota.", "The account.", "User", readMe)

// readMe renews the cookie of a session. The web app calls it whenever it is opened, so the
// cookie lives as long as the session.
func readMe(c *web.Request) error {
	if c.Caller.Key.Session {
		session.RenewCookie(c)
	}
	return session.AnswerUser(c, c.Owner())
}

var EditMe = web.Operation{
	Tag: "account", Summary: "Changes the caller's name, language or password.",
	Body:  web.BodyOf("MeEdit"),
	Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")},
	Fails: []int{409, 429}, Serve: editMe,
}

func editMe(c *web.Request) error {
	form := new(MeForm)
	in, err := c.DecodePatch(form)
	if err := web.JoinProblems(err, strong(c, &form.password, c.Caller.User.Name)); err != nil {
		return err
	}
	if err := form.revoke.check(in, &form.password); err != nil {
		return err
	}
	var read, hash string
	var changed *people.User
	if form.password.Said {
		if err := c.Site.Store.View(func(tx *kv.Tx) error {
			u, err := people.ReadUser(tx, c.Owner())
			if err != nil {
				return err
			}
			read = u.Password
			return nil
		}); err != nil {
			return err
		}
		right, err := session.CheckPassword(
			c, session.Guess{At: "user:" + c.Owner().String(), Hash: read, Password: form.current.Text},
		)
		if err != nil {
			return err
		}
		if !right {
			return record.Bad(map[string]string{"currentPassword": "is wrong"})
		}
		hash, err = c.Hash(form.password)
		if err != nil {
			return err
		}
	}
	if err := c.UpdateAsCaller(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, c.Owner())
		if err != nil {
			return err
		}
		before, form := *u, &MeForm{
			name: u.DisplayName, language: u.Language, theme: u.Theme, accent: u.Accent, seen: u.SeenVersion,
			hidden: u.Hidden,
		}
		if err := field.Patch(form, in); err != nil {
			return err
		}
		u.DisplayName, u.Language, u.Theme, u.Accent = form.name, form.language, form.theme, form.accent
		u.SeenVersion, u.Hidden = form.seen, form.hidden
		if form.password.Said {
			if u.Password != read {
				return &record.Error{
					Fault: record.Taken, Code: "password_changed", Text: "Another request has just changed the password.",
				}
			}
			u.Password = hash
			if _, err := people.Revoke(tx, u.ID, "", form.revoke.names(c)); err != nil {
				return err
			}
			if c.Caller.Key.Session { // it goes on as another one
				if err := jobs.MoveFetches(tx, u.ID, c.Caller.Key.ID, uuid.Nil); err != nil {
					return err
				}
			}
		}
		changed = u
		return errors.Join(people.SaveUser(tx, u), noteAccount(c, tx, before, *u))
	}); err != nil {
		return err
	}
	if form.password.Said && c.Caller.Key.Session { // the new password has ended all sessions
		if err := session.StartSession(c, changed); err != nil {
			return err
		}
	}
	return session.AnswerUser(c, c.Owner())
}

// strong checks a new password for the account with the name.
func strong(c *web.Request, p *field.Secret, name string) error {
	if !p.Said {
		return nil
	}
	names := []string{name}
	if c.Site.BaseURL != nil { // a command without a server has none
		host, _, _ := strings.Cut(c.Site.BaseURL.Hostname(), ".")
		names = append(names, host)
	}
	if err := people.CheckPassword(p.Text, names, embed.CommonPassword); err != nil {
		return field.Problems{"password": err.Error()}
	}
	return nil
}
