package api

import (
	"time"

	"kist/httpapi/limit"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/table"
)

// ShownInvitation is an open invitation as administrators see it.
type ShownInvitation struct {
	people.Invitation
	by Person
	to []InvitedTo // nil: another administrator's
}

// InvitedTo is a part in a collection that comes with an invitation.
type InvitedTo struct {
	people.InvitedTo
	title string
}

// Fields is the shape of an entry of an invitation, in requests and in answers.
func (v *InvitedTo) Fields(s *field.Set) {
	s.ID("id", &v.Collection, field.Required, field.Filled).Says("Id of the collection.", web.SampleID)
	field.Choice(s, "role", &v.Role, record.MemberRoles, field.Required).Says("What the person may do in it.", `"see"`)
	s.Text("title", &v.title, record.MaxName, field.ReadOnly).Says("Its title.", `"Holidays"`)
}

func (v *ShownInvitation) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the invitation.", web.SampleID)
	field.Choice(s, "role", &v.Role, people.Roles).Says("What the new user may do.", `"user"`)
	s.MaybeNumber("quotaBytes", &v.Quota, 0, 1<<53).
		Says("Bytes that the new user may store; 0 means no limit, null means the instance's default.", `null`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was made.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("expiresAt", &v.Expires, field.Always).Says("When it ends.", `"2026-01-09T03:04:05.678Z"`)
	s.Shown("createdBy", field.ObjectOf(&Person{}), func(dst []byte) []byte { return field.AppendJSON(dst, &v.by) }).
		Says("Who made it.", `{"id":"01890a5d-ac96-774b-bcce-b302099a8057","name":"ann","displayName":"Ann"}`)
	entry := field.ObjectOf(new(InvitedTo))
	s.Shown("collections", field.Schema{Type: "array", Items: &entry, Nullable: true}, v.appendTo).Says(
		"The collections that come with it and are still there; null if another administrator made it.", `[]`,
	)
}

func (v *ShownInvitation) appendTo(dst []byte) []byte {
	if v.to == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i := range v.to {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = field.AppendJSON(dst, &v.to[i])
	}
	return append(dst, ']')
}

func showInvitation(c *web.Request, tx *kv.Tx, v *people.Invitation) (*ShownInvitation, error) {
	u, err := people.ReadUser(tx, v.Owner)
	if err != nil {
		return nil, err
	}
	shown := &ShownInvitation{Invitation: *v, by: Person{*u}}
	if v.Owner != c.Owner() {
		return shown, nil
	}
	shown.to = []InvitedTo{}
	for _, to := range v.Collections {
		title, err := titleOf(tx, v.Owner, to.Collection)
		if err != nil {
			return nil, err
		}
		if title != "" {
			shown.to = append(shown.to, InvitedTo{to, title})
		}
	}
	return shown, nil
}

// InvitationForm is what an administrator can say about an invitation.
type InvitationForm struct {
	people.Invitation
	to []InvitedTo
}

func (f *InvitationForm) Fields(s *field.Set) {
	field.Choice(s, "role", &f.Role, people.Roles).Says("What the new user may do.", `"user"`)
	s.MaybeNumber("quotaBytes", &f.Quota, 0, 1<<53).
		Says("Bytes that the new user may store; 0 means no limit, null means the instance's default.", `10737418240`)
	s.Time("expiresAt", &f.Expires).Says(
		"When the invitation ends, within 90 days. Default: in 7 days. A date alone is the end of that day in UTC.",
		`"2030-01-01T00:00:00.000Z"`,
	)
	s.Rows("collections", people.MaxInvitedTo, func() field.Shaped {
		f.to = append(f.to, InvitedTo{})
		return &f.to[len(f.to)-1]
	}, func() { f.to = nil }).Says(
		"Own collections that the new user becomes a member of.",
		`[{"id":"01890a5d-ac96-774b-bcce-b302099a8057","role":"see"}]`,
	)
}

func NewInvitationForm() *InvitationForm {
	return &InvitationForm{Invitation: people.Invitation{Role: people.Member, Quota: -1}}
}

// check says what is wrong with an invitation beside its fields one by one.
func (f *InvitationForm) check(now time.Time) error {
	problems := field.Problems{}
	if !f.Expires.IsZero() {
		err := people.CheckInvitationEnd(f.Expires, now)
		if err != nil {
			problems["expiresAt"] = err.Error()
		}
	}
	named := map[record.ID]bool{}
	for _, to := range f.to {
		if named[to.Collection] {
			problems["collections"] = "has a collection twice"
		}
		named[to.Collection] = true
	}
	if len(problems) == 0 {
		return nil
	}
	return problems
}

var ListInvitations = web.ListOp(
	"admin", "Lists the open invitations of all administrators.", "A page of invitations.", "Invitation", listInvitations,
)

func listInvitations(c *web.Request) error {
	return web.AnswerList(c, people.Invitations,
		func(v *people.Invitation) (record.ID, string) { return v.ID, "" },
		func(tx *kv.Tx, v *people.Invitation) (*ShownInvitation, error) { return showInvitation(c, tx, v) })
}

var CreateInvitation = web.Operation{
	Tag: "admin", Summary: "Makes an invitation. With its link, which is shown only once, one person makes an account.",
	Body: web.BodyOf("InvitationCreate"),
	Reply: web.Reply{
		Status: 201, Doc: "The invitation and its link.", Body: web.BodyOf("InvitationCreated"),
	},
	Fails: []int{403, 404, 409}, Once: web.MadeInvitation, Serve: createInvitation,
}

func createInvitation(c *web.Request) error {
	form := NewInvitationForm()
	err := web.JoinProblems(c.DecodeNew(form), form.check(c.Site.Store.Now()))
	if err != nil {
		return err
	}
	form.Owner = c.Owner()
	for _, to := range form.to {
		form.Collections = append(form.Collections, to.InvitedTo)
	}
	return c.Create(func(tx *kv.Tx) (web.Created, error) {
		err := catalog.CheckInvited(tx, form.Owner, form.Collections)
		if err != nil {
			return web.Created{}, err
		}
		made, secret, err := people.AddInvitation(tx, form.Invitation)
		if err != nil {
			return web.Created{}, err
		}
		shown, err := showInvitation(c, tx, made)
		return web.Created{ID: made.ID, Append: func(dst []byte) ([]byte, error) {
			dst = field.AppendJSON(append(dst, `{"data":`...), shown)
			dst = field.AppendString(append(dst, `,"url":`...), c.Site.Base+web.JoinPath+secret)
			return append(dst, '}'), nil
		}}, err
	})
}

var RemoveInvitation = web.DoneOp("admin", "Takes an open invitation back.", removeInvitation, 404)

func removeInvitation(c *web.Request) error {
	id, err := c.IDArg("invitation")
	if err != nil {
		return err
	}
	err = c.UpdateAsCaller(func(tx *kv.Tx) error { return people.RemoveInvitation(tx, id, &c.Caller.User) })
	if err != nil {
		return err
	}
	return c.RespondOK()
}

// NewAccount is what a person says who makes an account with an invitation.
type NewAccount struct {
	name, display string
	password      field.Secret
	passkey       bool // in place of the password
}

func (f *NewAccount) Fields(s *field.Set) {
	s.Ruled("username", &f.name, record.CleanUserName, record.UserNamePattern, 64, field.Required, field.Filled).
		Says("Name to sign in with; unique, ignoring case.", `"bob"`)
	s.Name("displayName", &f.display, record.MaxName).Says("Display name.", `"Bob"`)
	if f.passkey {
		return
	}
	s.Secret("password", &f.password, field.Required).Says(
		"Password of at least 8 characters. Repeats, rows such as 1234 or qwerty, the user name and the first part of the "+
			"server's name count as one character each. Common passwords are refused.",
		`"correct horse battery"`,
	)
}

// JoinForm is NewAccount with the secret of the invitation.
type JoinForm struct {
	NewAccount
	token string
}

func (f *JoinForm) Fields(s *field.Set) {
	s.Text("token", &f.token, 256, field.Required, field.Filled).
		Says("What follows /join/ in the link of the invitation.", `"AZClBcDf…"`)
	f.NewAccount.Fields(s)
}

var Join = web.Operation{
	Tag: "sign-in", Summary: "Makes an account with an invitation, and signs the browser in. " +
		"The invitation is used up then. A collection of it that is gone or full meanwhile is left out.",
	Body: web.BodyOf("Join"), Reply: web.Reply{Status: 201, Doc: "The account.", Body: web.DataOf("User")},
	Fails: []int{400, 403, 404, 409, 429, 503}, Serve: join,
}

func join(c *web.Request) error {
	err := c.SameOrigin()
	if err != nil {
		return err
	}
	form := new(JoinForm)
	err = web.JoinProblems(c.DecodeNew(form), strong(c, &form.password, form.name))
	if err != nil {
		return err
	}
	if c.Site.NoPasswords {
		return session.ErrPasswordOff
	}
	u, _, err := joinWith(c, form.token, &form.NewAccount, people.Passkey{})
	if err != nil {
		return err
	}
	return session.AnswerUser(c, u.ID)
}

// open reads an open invitation and who made it. Secrets without one count as addresses without an item do.
func open(c *web.Request, secret string) (v *people.Invitation, by *people.User, err error) {
	network, now := limit.Network(c.Addr), c.Site.Store.Now()
	wait := c.Site.Limits.Misses.Wait(network, now)
	if wait > 0 {
		return nil, nil, &record.Error{
			Fault: record.TooMany, Code: "too_many_misses", Retry: wait,
			Text: "You opened too many links that do not exist. Try again " + record.In(wait) + ".",
		}
	}
	err = c.Site.Store.View(func(tx *kv.Tx) (err error) {
		v, by, err = people.InvitationOf(tx, secret)
		return err
	})
	if kv.Missing(err) {
		c.Site.Limits.Misses.Count(network, secret, now)
	}
	return v, by, err
}

// joinWith makes the account of an invitation and signs the browser in. It returns the collections that the account is a
// member of. A name or a password that is refused does not use the invitation up. With a passkey, the account has its
// owner as id.
func joinWith(
	c *web.Request, secret string, f *NewAccount, passkey people.Passkey,
) (u *people.User, joined []*record.Record, err error) {
	v, by, err := open(c, secret)
	if err != nil {
		return nil, nil, err
	}
	err = isFree(c, v, f.name)
	if err != nil {
		return nil, nil, err
	}
	hash, err := c.Hash(f.password)
	if err != nil {
		return nil, nil, err
	}

	err = c.Site.Store.Update(func(tx *kv.Tx) error {
		u, err = people.AddUser(tx, people.User{
			ID: passkey.Owner, Name: f.name, DisplayName: f.display, Role: people.Member, Quota: -1, Password: hash,
		})
		if err != nil {
			return err
		}
		if len(passkey.Key) > 0 {
			_, _, err = people.AddPasskey(tx, passkey)
			if err != nil {
				return err
			}
		}
		err = people.Note(tx, people.Activity{Event: people.AccountCreated, Name: u.Name, By: by.Name})
		if err != nil {
			return err
		}
		joined, err = catalog.Join(tx, secret, u)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return u, joined, session.StartSession(c, u)
}

// isFree fails if a name is in use. Who has a link could ask for all names, so names in use count like wrong passwords.
func isFree(c *web.Request, v *people.Invitation, name string) error {
	tries, now, names := people.TriesOf(c.Site.Store), c.Site.Store.Now(), limit.Overall("join:"+v.ID.String())
	wait := tries.Wait(now, names)
	if wait > 0 {
		return &record.Error{
			Fault: record.TooMany, Code: "too_many_guesses", Retry: wait,
			Text: "Too many of these names are taken. Try again " + record.In(wait) + ".",
		}
	}
	err := c.Site.Store.View(func(tx *kv.Tx) error { _, err := people.UserNamed(tx, name); return err })
	if kv.Missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	tries.Settle(now, false, names)
	return kv.UserError(&table.Taken{Index: "username"}, "user")
}
