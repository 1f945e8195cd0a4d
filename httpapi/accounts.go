package httpapi

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"kist/embed"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
	"kist/search"
)

// shownUser is an account as its owner and administrators see it.
type shownUser struct {
	record.User
	usage kv.Usage
	used  int64
}

func (v *shownUser) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the user.", sampleID)
	s.Ruled("username", &v.Name, record.CleanUserName, record.UserNamePattern, 64).Says("Name to sign in with.", `"ann"`)
	s.Text("displayName", &v.DisplayName, record.MaxName).Says("Name to show.", `"Ann"`)
	field.Choice(s, "role", &v.Role, record.Roles).Says("What the user may do.", `"user"`)
	s.Bool("disabled", &v.Disabled).Says("Whether the account is shut.", `false`)
	s.Bool("apiTokensDisabled", &v.TokensOff).Says("Whether the user's API keys are off.", `false`)
	s.MaybeNumber("quotaBytes", &v.Quota, 0, 1<<53).
		Says("Bytes the user may keep; 0 is no limit, null the instance's default. It counts what usedBytes and unfinishedBytes count.", `null`)
	s.Number("usedBytes", &v.used, 0, 1<<53).Says("Bytes the user keeps: files, files sent to upload requests that wait for approval, and textBytes. A file whose stored bytes are damaged counts as long as it is not deleted.", `48213`)
	s.Number("textBytes", &v.usage.Text, 0, 1<<53).Says("Bytes of text: the stored records of every kind, tags, the files that came in by upload requests with their senders' names and messages, and the metadata of unfinished uploads.", `1873`)
	s.Number("unfinishedBytes", &v.usage.Begun, 0, 1<<53).Says("Bytes reserved for uploads and remote uploads that are not finished.", `0`)
	s.Number("quotaEffectiveBytes", &v.usage.Quota, 0, 1<<53).Says("The quota that holds; 0 is no limit.", `0`)
	s.Shown("counts", field.Schema{Type: "object", Free: true, Items: &field.Schema{Type: "integer"}}, func(dst []byte) []byte {
		return appendCounts(dst, v.usage.Count)
	}).Says("Records the user keeps, by kind.", `{"file":3,"note":1}`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the account was made.", `"2026-01-02T03:04:05.678Z"`)
}

func showUser(tx *kv.Tx, u *record.User) (*shownUser, error) {
	usage, err := tx.Usage(u)
	return &shownUser{*u, usage, usage.Used()}, err
}

func (c *request) answerUser(status int, id record.ID) error {
	var v *shownUser
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		u, err := tx.User(id)
		if err == nil {
			v, err = showUser(tx, u)
		}
		return err
	}); err != nil {
		return err
	}
	return c.respondData(status, v)
}

// meForm is what a user may change of their own account.
type meForm struct {
	name              string
	password, current field.Secret
	revoke            revoke
}

func (f *meForm) Fields(s *field.Set) {
	s.Name("displayName", &f.name, record.MaxName).Says("Name to show.", `"Ann"`)
	s.Secret("password", &f.password).Says("A new password of at least 8 bytes. The 10 000 most common passwords and those that contain the user name are refused.", `"correct horse battery"`)
	s.Secret("currentPassword", &f.current).Says("The present password, needed for a new one.", `"open sesame"`)
	f.revoke.Fields(s)
}

// revoke are the ids of the keys that a new password revokes; nil is all devices.
type revoke []string

func (f *revoke) Fields(s *field.Set) {
	s.IDs("revoke", (*[]string)(f), maxRevoked).
		Says("With a new password: ids of the account's API keys to revoke, those of connected devices included. If absent, all devices but the one that asks are revoked, and no other key. A new password ends all other sessions of the account in any case.", `[]`)
}

// check refuses ids without a new password.
func (f revoke) check(in field.Object, p *field.Secret) error {
	if in["revoke"] != nil && !p.Said {
		return record.Bad(map[string]string{"revoke": "goes with a new password"})
	}
	return nil
}

// names says which keys are meant. The key that asks is no device among them.
func (f revoke) names(c *request) func(*record.Key) bool {
	return func(k *record.Key) bool {
		if f == nil {
			return k.Device != "" && k.ID != c.caller.Key.ID
		}
		return slices.Contains(f, k.ID.String())
	}
}

// maxRevoked is more than an account may have keys.
const maxRevoked = 1000

// readMe is asked whenever the web app is opened, so that the cookie of a
// session that is used lives on with it.
func readMe(c *request) error {
	if c.caller.Key.Session {
		c.setSession(c.session())
	}
	return c.answerUser(http.StatusOK, c.owner())
}

func patchMe(c *request) error {
	form := new(meForm)
	in, err := c.decodePatch(form)
	if err := joinProblems(err, strong(&form.password, c.caller.User.Name)); err != nil {
		return err
	}
	if err := form.revoke.check(in, &form.password); err != nil {
		return err
	}
	var before, hash string
	var changed *record.User
	if form.password.Said {
		if err := c.s.Store.View(func(tx *kv.Tx) error {
			u, err := tx.User(c.owner())
			if err == nil {
				before = u.Password
			}
			return err
		}); err != nil {
			return err
		}
		right, err := c.checkPassword(guess{at: "user:" + c.owner().String(), hash: before, password: form.current.Text})
		if err != nil {
			return err
		}
		if !right {
			return record.Bad(map[string]string{"currentPassword": "is not the present password"})
		}
		if hash, err = c.hash(form.password); err != nil {
			return err
		}
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		u, err := tx.User(c.owner())
		if err != nil {
			return err
		}
		form := &meForm{name: u.DisplayName}
		if err := field.Patch(form, in); err != nil {
			return err
		}
		u.DisplayName = form.name
		if form.password.Said {
			if u.Password != before {
				return &record.Error{Fault: record.Taken, Code: "password_changed", Text: "The password has just been changed by another request."}
			}
			u.Password = hash
			if _, err := tx.Revoke(u.ID, form.revoke.names(c)); err != nil {
				return err
			}
		}
		changed = u
		return tx.SaveUser(u)
	}); err != nil {
		return err
	}
	if form.password.Said && c.caller.Key.Session { // the new password has ended all sessions
		if err := c.startSession(changed); err != nil {
			return err
		}
	}
	return c.answerUser(http.StatusOK, c.owner())
}

// strong is the rule of a new password for the account with the name.
func strong(p *field.Secret, name string) error {
	if !p.Said {
		return nil
	}
	if err := record.CheckPassword(p.Text, name, embed.CommonPassword); err != nil {
		return field.Problems{"password": err.Error()}
	}
	return nil
}

// userForm is what an administrator may say of an account.
type userForm struct {
	u        *record.User
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
		Says("Name to sign in with; unique without regard to case.", `"ann"`)
	s.Secret("password", &f.password, required...).Says("Password of at least 8 bytes. The 10 000 most common passwords and those that contain the user name are refused.", `"correct horse battery"`)
	s.Name("displayName", &f.u.DisplayName, record.MaxName).Says("Name to show.", `"Ann"`)
	field.Choice(s, "role", &f.u.Role, record.Roles).Says("What the user may do.", `"user"`)
	s.Bool("disabled", &f.u.Disabled).Says("Shuts the account.", `false`)
	s.Bool("apiTokensDisabled", &f.u.TokensOff).Says("Turns the user's API keys off.", `false`)
	s.MaybeNumber("quotaBytes", &f.u.Quota, 0, 1<<53).
		Says("Bytes the user may keep; 0 is no limit, null the instance's default. It counts what usedBytes and unfinishedBytes count.", `10737418240`)
	if !f.fresh {
		f.revoke.Fields(s)
	}
}

func newUserForm() *userForm {
	f := newUserEdit()
	f.fresh = true
	return f
}

func newUserEdit() *userForm { return &userForm{u: &record.User{Role: record.Member, Quota: -1}} }

func listUsers(c *request) error {
	return answerList(c, (*kv.Tx).Users, func(u *record.User) (record.ID, string) { return u.ID, u.Name }, showUser)
}

func createUser(c *request) error {
	form := newUserForm()
	if err := joinProblems(c.decodeNew(form), strong(&form.password, form.u.Name)); err != nil {
		return err
	}
	var err error
	if form.u.Password, err = c.hash(form.password); err != nil {
		return err
	}
	var u *record.User
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
		u, err = tx.AddUser(*form.u)
		return err
	}); err != nil {
		return err
	}
	return c.answerUser(http.StatusCreated, u.ID)
}

func readUser(c *request) error {
	id, err := c.uuid("user")
	if err != nil {
		return err
	}
	return c.answerUser(http.StatusOK, id)
}

func patchUser(c *request) error {
	id, err := c.uuid("user")
	if err != nil {
		return err
	}
	form := newUserEdit()
	in, err := c.decodePatch(form)
	if err := joinProblems(err, strong(&form.password, form.u.Name)); err != nil {
		return err
	}
	if err := form.revoke.check(in, &form.password); err != nil {
		return err
	}
	hash, err := c.hash(form.password)
	if err != nil {
		return err
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		u, err := tx.User(id)
		if err != nil {
			return err
		}
		form := &userForm{u: u}
		if err := field.Patch(form, in); err != nil {
			return err
		}
		if err := strong(&form.password, u.Name); err != nil {
			return err
		}
		if form.password.Said {
			u.Password = hash
			if _, err := tx.Revoke(u.ID, form.revoke.names(c)); err != nil {
				return err
			}
		}
		return tx.SaveUser(u)
	}); err != nil {
		return err
	}
	return c.answerUser(http.StatusOK, id)
}

func removeUser(c *request) error {
	id, err := c.uuid("user")
	if err != nil {
		return err
	}
	if err := c.s.Store.RemoveUser(id); err != nil {
		return err
	}
	return c.respondOK()
}

// shownKey is an API key without its secret.
type shownKey struct{ record.Key }

func (v *shownKey) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the key.", sampleID)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"laptop"`)
	s.Shown("scopes", field.Schema{Type: "array", Items: &field.Schema{Type: "string", Enum: scopeNames}}, v.appendScopes).Says("What it may be used for.", `["all"]`)
	s.Bool("disabled", &v.Disabled).Says("Whether it is turned off.", `false`)
	s.Text("device", &v.Device, record.MaxName).Says("The client that got it by the device flow; empty for other keys.", `""`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was made.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("expiresAt", &v.Expires).Says("When it ends; null is never.", `null`)
	s.Time("lastUsedAt", &v.LastUsed).Says("When it was last used, to the minute.", `"2026-02-03T04:05:00.000Z"`)
}

var scopeNames = field.Words(record.Scopes)

func (v *shownKey) appendScopes(dst []byte) []byte {
	dst = append(dst, '[')
	for i, scope := range v.Scopes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = field.AppendString(dst, string(scope))
	}
	return append(dst, ']')
}

// keyForm is what may be said of an API key.
type keyForm struct {
	name     string
	scopes   []string
	expires  time.Time
	disabled bool
	fresh    bool
}

func (f *keyForm) Fields(s *field.Set) {
	s.Name("name", &f.name, record.MaxName, field.Required, field.Filled).Says("A name to know it by.", `"laptop"`)
	if f.fresh {
		s.Texts("scopes", &f.scopes, record.CleanScope, 5, 16, field.Filled).
			Says("What it may be used for: all, read, write, upload, admin; all if absent.", `["all"]`).Among(scopeNames)
		s.Time("expiresAt", &f.expires).Says("When it ends; null is never.", `"2030-01-01T00:00:00.000Z"`)
	} else {
		s.Bool("disabled", &f.disabled).Says("Turns it off.", `true`)
	}
}

// ends is the rule of a new key's expiry.
func (f *keyForm) ends(now time.Time) error {
	if err := record.CheckEnd(f.expires, now); err != nil {
		return field.Problems{"expiresAt": err.Error()}
	}
	return nil
}

func listKeys(c *request) error {
	return answerList(c,
		func(tx *kv.Tx) ([]record.Key, error) { return tx.Keys(c.owner()) },
		func(k *record.Key) (record.ID, string) { return k.ID, k.Name },
		func(_ *kv.Tx, k *record.Key) (*shownKey, error) { return &shownKey{*k}, nil })
}

func createKey(c *request) error {
	form := &keyForm{fresh: true}
	if err := joinProblems(c.decodeNew(form), form.ends(c.s.Store.Now())); err != nil {
		return err
	}
	k := record.Key{Owner: c.owner(), Name: form.name, Expires: form.expires}
	for _, scope := range form.scopes {
		k.Scopes = append(k.Scopes, record.Scope(scope))
	}
	if len(k.Scopes) == 0 {
		k.Scopes = []record.Scope{record.ScopeAll}
	}
	var made *record.Key
	var secret string
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
		made, secret, err = tx.AddKey(k)
		return err
	}); err != nil {
		return err
	}
	return c.respond(http.StatusCreated, func(dst []byte) ([]byte, error) {
		dst = field.AppendJSON(append(dst, `{"data":`...), &shownKey{*made})
		dst = field.AppendString(append(dst, `,"key":`...), secret)
		return append(dst, '}'), nil
	})
}

func patchKey(c *request) error {
	id, err := c.uuid("key")
	if err != nil {
		return err
	}
	in, err := c.decodePatch(new(keyForm))
	if err != nil {
		return err
	}
	v := new(shownKey)
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		k, err := tx.Key(c.owner(), id)
		if err != nil {
			return err
		}
		form := &keyForm{name: k.Name, disabled: k.Disabled}
		if err := field.Patch(form, in); err != nil {
			return err
		}
		k.Name, k.Disabled = form.name, form.disabled
		v.Key = *k
		return tx.SaveKey(k)
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusOK, v)
}

func removeKey(c *request) error {
	id, err := c.uuid("key")
	if err != nil {
		return err
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error { return tx.RemoveKey(c.owner(), id) }); err != nil {
		return err
	}
	return c.respondOK()
}

func readSettings(c *request) error {
	var set record.Settings
	if err := c.s.Store.View(func(tx *kv.Tx) (err error) {
		set, err = tx.Settings()
		return err
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusOK, &set)
}

func patchSettings(c *request) error {
	in, err := c.decodePatch(new(record.Settings))
	if err != nil {
		return err
	}
	var set record.Settings
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
		if set, err = tx.Settings(); err != nil {
			return err
		}
		if err := errors.Join(field.Patch(&set, in), set.Check()); err != nil {
			return err
		}
		return tx.SetSettings(set)
	}); err != nil {
		return err
	}
	return c.respondData(http.StatusOK, &set)
}

// stats is what an administrator sees of the whole instance.
type stats struct {
	users, bytes     int64
	counts           map[string]int64
	pending, waiting int64 // uploads, deliveries
	index            search.State
}

func (v *stats) Fields(s *field.Set) {
	s.Number("users", &v.users, 0, 1<<53).Says("Accounts.", `3`)
	s.Number("bytes", &v.bytes, 0, 1<<53).Says("Bytes of all files, each record counted.", `48213`)
	s.Shown("counts", field.Schema{Type: "object", Free: true, Items: &field.Schema{Type: "integer"}}, func(dst []byte) []byte {
		return appendCounts(dst, v.counts)
	}).Says("Records, by kind.", `{"file":3,"note":1}`)
	s.Number("pendingUploads", &v.pending, 0, 1<<53).Says("Files that strangers sent and that wait for approval.", `2`)
	s.Number("waitingDeliveries", &v.waiting, 0, 1<<53).Says("Deliveries to webhooks that are not done.", `0`)
	s.Shown("index", field.ObjectOf(&indexState{&v.index}), func(dst []byte) []byte {
		return field.AppendJSON(dst, &indexState{&v.index})
	}).Says("The search index.", `{"state":"ready","documents":4,"behind":0,"problem":""}`)
}

// indexState is how the search index is.
type indexState struct{ *search.State }

func (v *indexState) Fields(s *field.Set) {
	behind := int64(v.Latest - min(v.Latest, v.Place))
	s.Shown("state", field.Schema{Type: "string", Enum: search.Phases()}, func(dst []byte) []byte {
		return field.AppendString(dst, string(v.Phase))
	}).Says("ready, or why records are read through instead.", `"ready"`)
	s.Number("documents", &v.Documents, 0, 1<<53).Says("Records that were indexed since the start.", `4`)
	s.Number("behind", &behind, 0, 1<<53).Says("Changes that are not in the index yet; they are found all the same.", `0`)
	s.LongText("problem", &v.Problem, record.MaxContent).Says("What is wrong, if something is.", `""`)
}

func readStats(c *request) error {
	v, err := c.s.stats()
	if err != nil {
		return err
	}
	return c.respondData(http.StatusOK, v)
}

// respondPage answers with an HTML page.
func (c *request) respondPage(status int, p embed.Page) error {
	body, err := rendered(c.w.Header(), c.r, p)
	if err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // the client may be gone
	return nil
}

// rendered renders a page, and sets the headers that go with it. It is
// compressed if the client takes that, but for an API key, of which the length
// could tell. Grants in pages differ each time.
func rendered(h http.Header, r *http.Request, p embed.Page) ([]byte, error) {
	var b bytes.Buffer
	h.Add("Vary", "Accept-Encoding, Cookie")
	if _, secret := p.(embed.ClaimedPage); takesGzip(r) && !secret {
		w := gzip.NewWriter(&b)
		if err := errors.Join(embed.Render(w, p), w.Close()); err != nil {
			return nil, err
		}
		h.Set("Content-Encoding", "gzip")
	} else if err := embed.Render(&b, p); err != nil {
		return nil, err
	}
	h.Set("Content-Type", htmlType)
	h.Set("Content-Security-Policy", p.Policy())
	h["Cross-Origin-Opener-Policy"] = headSameOrigin
	h["Permissions-Policy"] = headPermissions
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	return b.Bytes(), nil
}

// prefix is the path below which the server's addresses are, as it stands in
// them: "" or "/kist".
func (s *site) prefix() string {
	u, err := url.Parse(s.Base)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.EscapedPath(), "/")
}

func claimPage(c *request) error {
	if err := c.s.Store.View(func(tx *kv.Tx) error { return tx.Claimable(c.arg("token")) }); err != nil {
		return err
	}
	return c.respondPage(http.StatusOK, embed.ClaimPage{Base: c.s.prefix(), Shortest: record.MinPassword})
}

// claimForm is what the claim page sends.
type claimForm struct {
	name             string
	password, repeat field.Secret
}

func (f *claimForm) Fields(s *field.Set) {
	s.Ruled("username", &f.name, record.CleanUserName, record.UserNamePattern, 64, field.Required, field.Filled).
		Says("Name of the first administrator.", `"ann"`)
	s.Secret("password", &f.password, field.Required).Says("Password of at least 8 bytes. The 10 000 most common passwords and those that contain the user name are refused.", `"correct horse battery"`)
	s.Secret("repeat", &f.repeat).Says("The same password once more.", `"correct horse battery"`)
}

// claimed makes the first administrator, and an API key to begin with, out of
// a form.
func claimed(c *request) error {
	token := c.arg("token")
	if err := c.requireForm(); err != nil {
		return err
	}
	if err := c.s.Store.View(func(tx *kv.Tx) error { return tx.Claimable(token) }); err != nil {
		return err
	}
	values, err := c.readForm()
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
	err = joinProblems(problems, strong(&form.password, form.name), repeat)
	var e *record.Error
	if errors.As(err, &e) && e.Fault == record.Invalid {
		return c.respondPage(http.StatusUnprocessableEntity, embed.ClaimPage{
			Base: c.s.prefix(), UserName: values.Get("username"), Shortest: record.MinPassword,
			Errors: embed.ClaimErrors{UserName: sentence("The name", e.Fields["username"]), Password: sentence("The password", e.Fields["password"]), Repeat: sentence("This", e.Fields["repeat"])},
		})
	}
	if err != nil {
		return err
	}
	hash, err := c.hash(form.password)
	if err != nil {
		return err
	}
	var secret string
	var first *record.User
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		if err := tx.Claimable(token); err != nil {
			return err
		}
		u, err := tx.AddUser(record.User{Name: form.name, Role: record.Admin, Quota: -1, Password: hash})
		if err != nil {
			return err
		}
		first = u
		_, secret, err = tx.AddKey(record.Key{Owner: u.ID, Name: "first key", Scopes: []record.Scope{record.ScopeAdmin}})
		return err
	}); err != nil {
		return err
	}
	if err := c.startSession(first); err != nil { // the account is there: who made it is signed in
		return err
	}
	return c.respondPage(http.StatusCreated, embed.ClaimedPage{Base: c.s.prefix(), UserName: form.name, APIKey: secret, Address: c.s.Base})
}

func sentence(subject, problem string) string {
	if problem == "" {
		return ""
	}
	return subject + " " + problem + "."
}
