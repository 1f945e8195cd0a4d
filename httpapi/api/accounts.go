package api

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"kist/embed"
	"kist/httpapi/session"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/search"

	"github.com/google/uuid"
)

// MeForm is what users can change about their own account.
type MeForm struct {
	name              string
	language          people.Language
	theme             people.Theme
	accent            people.Accent
	password, current field.Secret
	revoke            revoke
}

func (f *MeForm) Fields(s *field.Set) {
	s.Name("displayName", &f.name, record.MaxName).Says("Display name.", `"Ann"`)
	field.MaybeChoice(s, "language", &f.language, people.Languages).Says("Language of pages and the app; null leaves it to the browser.", `"de"`)
	field.MaybeChoice(s, "theme", &f.theme, people.Themes).Says("Brightness of the app; null follows the system.", `"dark"`)
	field.MaybeChoice(s, "accent", &f.accent, people.Accents).Says("Colour of what can be pressed in the app; null is the usual one.", `"blue"`)
	s.Secret("password", &f.password).Says("A new password of at least 8 characters. Repeats, rows such as 1234 or qwerty, the user name and the first part of the server's name count as one character each. Common passwords are refused.", `"correct horse battery"`)
	s.Secret("currentPassword", &f.current).Says("The current password; required with a new one.", `"open sesame"`)
	f.revoke.Fields(s)
}

// revoke has the ids of the keys that a new password revokes; nil means all devices.
type revoke []string

func (f *revoke) Fields(s *field.Set) {
	s.IDs("revoke", (*[]string)(f), maxRevoked).
		Says("Only with a new password: ids of the account's API keys to revoke, including those of connected devices. If absent, the keys of all connected devices are revoked, except the key of this request, and no other keys. A new password always ends all other sessions of the account.", `[]`)
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

// maxRevoked is more keys than an account can have.
const maxRevoked = 1000

var ReadMe = web.ReadOp("account", "Reads the caller's account, with usage and quota.", "The account.", "User", readMe)

// readMe renews the cookie of a session. The web app calls it whenever it is opened, so the
// cookie lives as long as the session.
func readMe(c *web.Request) error {
	if c.Caller.Key.Session {
		session.SetSession(c, c.Session())
	}
	return session.AnswerUser(c, c.Owner())
}

var EditMe = web.Operation{
	Tag: "account", Summary: "Changes the caller's name, language or password.",
	Body: web.BodyOf("MeEdit"), Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")}, Fails: []int{409, 429}, Serve: editMe,
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
			if err == nil {
				read = u.Password
			}
			return err
		}); err != nil {
			return err
		}
		right, err := session.CheckPassword(c, session.Guess{At: "user:" + c.Owner().String(), Hash: read, Password: form.current.Text})
		if err != nil {
			return err
		}
		if !right {
			return record.Bad(map[string]string{"currentPassword": "is wrong"})
		}
		if hash, err = c.Hash(form.password); err != nil {
			return err
		}
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		u, err := people.ReadUser(tx, c.Owner())
		if err != nil {
			return err
		}
		before, form := *u, &MeForm{name: u.DisplayName, language: u.Language, theme: u.Theme, accent: u.Accent}
		if err := field.Patch(form, in); err != nil {
			return err
		}
		u.DisplayName, u.Language, u.Theme, u.Accent = form.name, form.language, form.theme, form.accent
		if form.password.Said {
			if u.Password != read {
				return &record.Error{Fault: record.Taken, Code: "password_changed", Text: "Another request has just changed the password."}
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

// userForm is what an administrator can set for an account.
type userForm struct {
	u        *people.User
	password field.Secret
	revoke   revoke
	fresh    bool
}

func (f *userForm) Fields(s *field.Set) {
	var required []field.Traits
	if f.fresh {
		required = append(required, field.Required)
	}
	s.Ruled("username", &f.u.Name, record.CleanUserName, record.UserNamePattern, 64, field.Required, field.Filled).
		Says("Name to sign in with; unique, ignoring case.", `"ann"`)
	s.Secret("password", &f.password, required...).Says("Password of at least 8 characters. Repeats, rows such as 1234 or qwerty, the user name and the first part of the server's name count as one character each. Common passwords are refused.", `"correct horse battery"`)
	s.Name("displayName", &f.u.DisplayName, record.MaxName).Says("Display name.", `"Ann"`)
	field.Choice(s, "role", &f.u.Role, people.Roles).Says("What the user may do.", `"user"`)
	s.Bool("disabled", &f.u.Disabled).Says("Disables the account.", `false`)
	s.Bool("apiTokensDisabled", &f.u.TokensOff).Says("Turns the user's API keys off.", `false`)
	s.MaybeNumber("quotaBytes", &f.u.Quota, 0, 1<<53).
		Says("Bytes that the user may store; 0 means no limit, null means the instance's default. The quota applies to the sum of usedBytes and unfinishedBytes.", `10737418240`)
	if !f.fresh {
		f.revoke.Fields(s)
	}
}

func NewUserForm() *userForm {
	f := NewUserEdit()
	f.fresh = true
	return f
}

func NewUserEdit() *userForm { return &userForm{u: &people.User{Role: people.Member, Quota: -1}} }

// users are all accounts, for administrators.
var users = &web.Resource[people.User, *session.ShownUser]{
	Name:  "user",
	All:   func(tx *kv.Tx, _ record.ID) ([]people.User, error) { return people.Users(tx) },
	Place: func(u *people.User) (record.ID, string) { return u.ID, u.Name },
	Load:  func(tx *kv.Tx, _, id record.ID) (*people.User, error) { return people.ReadUser(tx, id) },
	Save:  people.SaveUser,
	Show: func(_ *web.Request, tx *kv.Tx, u *people.User) (*session.ShownUser, error) {
		return session.ShowUser(tx, u)
	},
}

var ListUsers = web.ListOp("admin", "Lists accounts.", "A page of accounts.", "User", users.List)

var CreateUser = web.CreateOp("admin", "Creates an account.", "The account.", "User", createUser, 409)

func createUser(c *web.Request) error {
	form := NewUserForm()
	if err := web.JoinProblems(c.DecodeNew(form), strong(c, &form.password, form.u.Name)); err != nil {
		return err
	}
	var err error
	if form.u.Password, err = c.Hash(form.password); err != nil {
		return err
	}
	return users.Create(c, func(tx *kv.Tx) (*people.User, error) {
		u, err := people.AddUser(tx, *form.u)
		if err != nil {
			return nil, err
		}
		return u, people.Note(tx, people.Activity{Event: people.AccountCreated, Name: u.Name, By: c.Caller.User.Name})
	})
}

var ReadUser = web.ReadOp("admin", "Reads an account.", "The account.", "User", users.Read, 404)

var EditUser = web.EditOp("admin", "Changes an account.", "The account.", "User", editUser, 404, 409)

func editUser(c *web.Request) error {
	id, err := c.IDArg("user")
	if err != nil {
		return err
	}
	form := NewUserEdit()
	in, err := c.DecodePatch(form)
	if err := web.JoinProblems(err, strong(c, &form.password, form.u.Name)); err != nil {
		return err
	}
	if err := form.revoke.check(in, &form.password); err != nil {
		return err
	}
	hash, err := c.Hash(form.password)
	if err != nil {
		return err
	}
	return users.Edit(c, id, func(tx *kv.Tx, u *people.User) error {
		before, form := *u, &userForm{u: u}
		if err := field.Patch(form, in); err != nil {
			return err
		}
		if err := strong(c, &form.password, u.Name); err != nil {
			return err
		}
		if !form.password.Said {
			return noteAccount(c, tx, before, *u)
		}
		u.Password = hash
		_, err := people.Revoke(tx, u.ID, doneBy(c, u.ID), form.revoke.names(c))
		return errors.Join(err, noteAccount(c, tx, before, *u))
	})
}

// doneBy is the name of the caller, for the activity of an account that is not the caller's.
func doneBy(c *web.Request, owner record.ID) string {
	if c.Owner() == owner {
		return ""
	}
	return c.Caller.User.Name
}

// noteAccount adds a change of an account to its activity.
func noteAccount(c *web.Request, tx *kv.Tx, before, got people.User) error {
	names := changes(&userForm{u: &before}, &userForm{u: &got})
	if before.Password != got.Password {
		names = append(names, "password")
	}
	if len(names) == 0 {
		return nil
	}
	return people.Note(tx, people.Activity{Owner: got.ID, Event: people.AccountChanged, Name: got.Name, By: doneBy(c, got.ID), Changes: names})
}

// changes are the names of the shown fields that differ.
func changes(before, got field.Shaped) []string {
	was, _ := field.Parse(field.AppendJSON(nil, before)) // its own output
	is, _ := field.Parse(field.AppendJSON(nil, got))
	maps.DeleteFunc(is, func(name string, value any) bool { return reflect.DeepEqual(value, was[name]) })
	return slices.Sorted(maps.Keys(is))
}

var RemoveUser = web.DoneOp("admin", "Deletes an account and everything in it.", removeUser, 404, 409)

func removeUser(c *web.Request) error {
	id, err := c.IDArg("user")
	if err != nil {
		return err
	}
	if err := people.RemoveUser(c.Site.Store, id, c.Caller.User.Name); err != nil {
		return err
	}
	return c.RespondOK()
}

// ShownKey is an API key without its secret.
type ShownKey struct{ people.Key }

// ShownCurrent is the key of a request and its user.
type ShownCurrent struct {
	ShownKey
	user string
}

func (v *ShownCurrent) Fields(s *field.Set) {
	v.ShownKey.Fields(s)
	s.Text("username", &v.user, record.MaxName).Says("Name of the account that the key belongs to.", `"ann"`)
}

var ReadCurrentKey = web.ReadOp("account", "Tells an API key its own name, scopes, end and user.", "The key.", "CurrentKey", readCurrentKey, 404)

func readCurrentKey(c *web.Request) error {
	if c.Caller.Key.Session {
		return record.NotFound("API key")
	}
	return c.RespondData(http.StatusOK, &ShownCurrent{ShownKey{c.Caller.Key}, c.Caller.User.Name})
}

func (v *ShownKey) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the key.", web.SampleID)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"laptop"`)
	s.Shown("scopes", field.Schema{Type: "array", Items: &field.Schema{Type: "string", Enum: ScopeNames}}, func(dst []byte) []byte { return field.AppendStrings(dst, v.Scopes) }).Says("What the key may be used for.", `["all"]`)
	s.Bool("disabled", &v.Disabled).Says("Whether it is turned off.", `false`)
	s.Text("device", &v.Device, record.MaxName).Says("The client that got the key by the device flow; empty for other keys.", `""`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the key was created.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("expiresAt", &v.Expires).Says("When the key expires; null means never.", `null`)
	s.Time("lastUsedAt", &v.LastUsed).Says("When the key was last used, to the minute.", `"2026-02-03T04:05:00.000Z"`)
}

var ScopeNames = field.Words(people.Scopes)

// KeyForm is the form of an API key.
type KeyForm struct {
	name     string
	scopes   []string
	expires  time.Time
	disabled bool
	Fresh    bool
}

func (f *KeyForm) Fields(s *field.Set) {
	s.Name("name", &f.name, record.MaxName, field.Required, field.Filled).Says("A name to recognise the key by.", `"laptop"`)
	if f.Fresh {
		s.Texts("scopes", &f.scopes, people.CleanScope, 5, 16, field.Filled).
			Says("What the key may be used for: all, read, write, upload, admin. Default: all.", `["all"]`).Among(ScopeNames)
		s.Time("expiresAt", &f.expires).Says("When the key expires; null means never.", `"2030-01-01T00:00:00.000Z"`)
	} else {
		s.Bool("disabled", &f.disabled).Says("Turns the key off.", `true`)
	}
}

func (f *KeyForm) ends(now time.Time) error {
	if err := record.CheckEnd(f.expires, now); err != nil {
		return field.Problems{"expiresAt": err.Error()}
	}
	return nil
}

var keys = &web.Resource[people.Key, *ShownKey]{
	Name: "key", All: people.Keys, Load: people.ReadKey, Save: people.SaveKey,
	Drop: func(s *kv.Store, owner, id record.ID) error {
		return s.Update(func(tx *kv.Tx) error {
			k, err := people.ReadKey(tx, owner, id)
			if err != nil {
				return err
			}
			return people.RevokeOne(tx, k, "")
		})
	},
	Place: func(k *people.Key) (record.ID, string) { return k.ID, k.Name },
	Show:  func(_ *web.Request, _ *kv.Tx, k *people.Key) (*ShownKey, error) { return &ShownKey{*k}, nil },
}

var ListKeys = web.ListOp("account", "Lists the caller's API keys.", "A page of keys.", "Key", keys.List)

var CreateKey = web.Operation{
	Tag: "account", Summary: "Creates an API key. The secret is shown only once.",
	Body:  web.BodyOf("KeyCreate"),
	Reply: web.Reply{Status: 201, Doc: "The key and its secret.", Body: web.BodyOf("KeyCreated")}, Fails: []int{409},
	Once: web.MadeKey, Serve: createKey,
}

func createKey(c *web.Request) error {
	form := &KeyForm{Fresh: true}
	if err := web.JoinProblems(c.DecodeNew(form), form.ends(c.Site.Store.Now())); err != nil {
		return err
	}
	k := people.Key{Owner: c.Owner(), Name: form.name, Expires: form.expires}
	for _, scope := range form.scopes {
		k.Scopes = append(k.Scopes, people.Scope(scope))
	}
	if len(k.Scopes) == 0 {
		k.Scopes = []people.Scope{people.ScopeAll}
	}
	return c.Create(func(tx *kv.Tx) (web.Created, error) {
		made, secret, err := people.AddKey(tx, k)
		if err != nil {
			return web.Created{}, err
		}
		return web.Created{ID: made.ID, Append: func(dst []byte) ([]byte, error) {
			dst = field.AppendJSON(append(dst, `{"data":`...), &ShownKey{*made})
			dst = field.AppendString(append(dst, `,"key":`...), secret)
			return append(dst, '}'), nil
		}}, nil
	})
}

var EditKey = web.EditOp("account", "Renames an API key, or turns it off or on.", "The key.", "Key", editKey, 404)

func editKey(c *web.Request) error {
	return keys.EditBy(c, new(KeyForm), func(k *people.Key, in field.Object) error {
		form := &KeyForm{name: k.Name, disabled: k.Disabled}
		err := field.Patch(form, in)
		k.Name, k.Disabled = form.name, form.disabled
		return err
	})
}

var RemoveKey = web.DoneOp("account", "Revokes an API key.", keys.Remove, 404)

var ReadSettings = web.ReadOp("admin", "Reads the settings of the instance.", "The settings.", "Settings", readSettings)

func readSettings(c *web.Request) error {
	var set people.Settings
	if err := c.Site.Store.View(func(tx *kv.Tx) (err error) {
		set, err = people.ReadSettings(tx)
		return err
	}); err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, &set)
}

var EditSettings = web.EditOp("admin", "Changes the settings of the instance.", "The settings.", "Settings", editSettings)

func editSettings(c *web.Request) error {
	in, err := c.DecodePatch(new(people.Settings))
	if err != nil {
		return err
	}
	var set people.Settings
	if err := c.Site.Store.Update(func(tx *kv.Tx) (err error) {
		if set, err = people.ReadSettings(tx); err != nil {
			return err
		}
		before := set
		if err := errors.Join(field.Patch(&set, in), set.Check()); err != nil {
			return err
		}
		names := changes(&before, &set)
		if before.CaptchaSecret != set.CaptchaSecret {
			names = append(names, "captchaSecret")
		}
		if len(names) == 0 {
			return nil
		}
		return errors.Join(people.SetSettings(tx, set), people.Note(tx, people.Activity{Event: people.SettingsChanged, By: c.Caller.User.Name, Changes: names}))
	}); err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, &set)
}

// Stats are the figures about the whole instance for administrators.
type Stats struct {
	Users, Bytes     int64
	Counts           map[string]int64
	Trashed          int64
	Pending, Waiting int64 // uploads, deliveries
	index            search.State
}

func (v *Stats) Fields(s *field.Set) {
	s.Number("users", &v.Users, 0, 1<<53).Says("Number of accounts.", `3`)
	s.Number("bytes", &v.Bytes, 0, 1<<53).Says("Bytes of all files, counted for each record.", `48213`)
	s.Shown("counts", field.Schema{Type: "object", Free: true, Items: &field.Schema{Type: "integer"}}, func(dst []byte) []byte {
		return web.AppendCounts(dst, v.Counts)
	}).Says("Number of records, by kind.", `{"file":3,"note":1}`)
	s.Number("trashed", &v.Trashed, 0, 1<<53).Says("Number of records in the trash.", `5`)
	s.Number("pendingUploads", &v.Pending, 0, 1<<53).Says("Received files waiting for approval.", `2`)
	s.Number("waitingDeliveries", &v.Waiting, 0, 1<<53).Says("Webhook deliveries that are still waiting.", `0`)
	s.Shown("index", field.ObjectOf(&indexState{&v.index}), func(dst []byte) []byte {
		return field.AppendJSON(dst, &indexState{&v.index})
	}).Says("The search index.", `{"state":"ready","documents":4,"behind":0,"problem":""}`)
}

type indexState struct{ *search.State }

func (v *indexState) Fields(s *field.Set) {
	behind := int64(v.Latest - min(v.Latest, v.Place))
	s.Shown("state", field.Schema{Type: "string", Enum: search.Phases()}, func(dst []byte) []byte {
		return field.AppendString(dst, string(v.Phase))
	}).Says("ready, or why searches read the records instead.", `"ready"`)
	s.Number("documents", &v.Documents, 0, 1<<53).Says("Records indexed since the server started.", `4`)
	s.Number("behind", &behind, 0, 1<<53).Says("Changes that are not in the index yet. Searches find them nevertheless.", `0`)
	s.LongText("problem", &v.Problem, record.MaxContent).Says("The problem, if there is one.", `""`)
}

var ReadStats = web.ReadOp("admin", "Counts accounts, records and bytes of the instance.", "The figures.", "Stats", readStats)

func readStats(c *web.Request) error {
	v, err := CollectStats(c.Site)
	if err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, v)
}

var ReadClaim = web.PageOp(readClaim, 404)

func readClaim(c *web.Request) error {
	if err := c.Site.Store.View(func(tx *kv.Tx) error { return people.Claimable(tx, c.Arg("token")) }); err != nil {
		return err
	}
	return c.RespondPage(http.StatusOK, embed.ClaimPage{Base: c.Site.Prefix(), Shortest: people.MinPassword})
}

type claimForm struct {
	name             string
	password, repeat field.Secret
}

func (f *claimForm) Fields(s *field.Set) {
	s.Ruled("username", &f.name, record.CleanUserName, record.UserNamePattern, 64, field.Required, field.Filled).
		Says("Name of the first administrator.", `"ann"`)
	s.Secret("password", &f.password, field.Required).Says("Password of at least 8 characters. Repeats, rows such as 1234 or qwerty, the user name and the first part of the server's name count as one character each. Common passwords are refused.", `"correct horse battery"`)
	s.Secret("repeat", &f.repeat).Says("The same password again.", `"correct horse battery"`)
}

var Claim = web.FormOp(201, claim, 400, 404, 409, 413, 415, 422, 503)

// claim creates the first administrator and a first API key from a form.
func claim(c *web.Request) error {
	token := c.Arg("token")
	if err := session.RequireForm(c); err != nil {
		return err
	}
	if err := c.Site.Store.View(func(tx *kv.Tx) error { return people.Claimable(tx, token) }); err != nil {
		return err
	}
	values, err := session.ReadForm(c)
	if err != nil {
		return err
	}
	in := field.Object{}
	for name := range values {
		in[name] = values.Get(name)
	}
	form := new(claimForm)
	problems, repeat := field.Create(form, in), error(nil)
	if form.repeat.Said && form.repeat != form.password {
		repeat = field.Problems{"repeat": "must be the same password"}
	}
	err = web.JoinProblems(problems, strong(c, &form.password, form.name), repeat)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Invalid {
		return c.RespondPage(http.StatusUnprocessableEntity, embed.ClaimPage{
			Base: c.Site.Prefix(), UserName: values.Get("username"), Shortest: people.MinPassword,
			Errors: embed.ClaimErrors{UserName: claimProblem(c, "claim.nameProblem", e.Fields["username"]), Password: claimProblem(c, "claim.passwordProblem", e.Fields["password"]), Repeat: claimProblem(c, "claim.repeatProblem", e.Fields["repeat"])},
		})
	}
	if err != nil {
		return err
	}
	hash, err := c.Hash(form.password)
	if err != nil {
		return err
	}
	var secret string
	var first *people.User
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		if err := people.Claimable(tx, token); err != nil {
			return err
		}
		u, err := people.AddUser(tx, people.User{Name: form.name, Role: people.Admin, Quota: -1, Password: hash})
		if err != nil {
			return err
		}
		first = u
		if err := people.Note(tx, people.Activity{Event: people.AccountCreated, Name: u.Name}); err != nil {
			return err
		}
		_, secret, err = people.AddKey(tx, people.Key{Owner: u.ID, Name: "first key", Scopes: []people.Scope{people.ScopeAdmin}})
		return err
	}); err != nil {
		return err
	}
	if err := session.StartSession(c, first); err != nil { // sign the new administrator in
		return err
	}
	return c.RespondPage(http.StatusCreated, embed.ClaimedPage{Base: c.Site.Prefix(), UserName: form.name, APIKey: secret, Address: c.Site.Base})
}

// claimProblem is a sentence about a field; "" if nothing is wrong with it.
func claimProblem(c *web.Request, key, problem string) string {
	if problem == "" {
		return ""
	}
	return c.Lang().T(key, "problem", c.Lang().Problem(problem))
}

// CollectStats counts accounts, records and bytes of the instance.
func CollectStats(s *web.Site) (*Stats, error) {
	v := &Stats{Counts: map[string]int64{}}
	err := s.Store.View(func(tx *kv.Tx) error {
		users, err := people.Users(tx)
		for i := 0; err == nil && i < len(users); i++ {
			var usage people.Usage
			usage, err = people.UsageOf(tx, &users[i])
			v.Users++
			v.Bytes += usage.Bytes
			v.Trashed += catalog.TrashCount(tx, users[i].ID, nil)
			v.Pending += inbox.PendingCount(tx, users[i].ID)
			for kind, n := range usage.Count {
				v.Counts[kind] += n
			}
			if err != nil {
				break
			}
			var hooks []jobs.Webhook
			hooks, err = jobs.Webhooks(tx, users[i].ID)
			for _, h := range hooks {
				v.Waiting += jobs.Queued(tx, h.ID)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot count the records: %w", err)
	}
	v.index = s.Search.State()
	return v, nil
}
