package api

import (
	"net/http"
	"time"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

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

var ReadCurrentKey = web.ReadOp(
	"account", "Tells an API key its own name, scopes, end and user.", "The key.", "CurrentKey", readCurrentKey, 404,
)

func readCurrentKey(c *web.Request) error {
	if c.Caller.Key.Session {
		return record.NotFound("API key")
	}
	return c.RespondData(http.StatusOK, &ShownCurrent{ShownKey{c.Caller.Key}, c.Caller.User.Name})
}

func (v *ShownKey) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the key.", web.SampleID)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"laptop"`)
	s.Shown("scopes", field.Schema{
		Type: "array", Items: &field.Schema{Type: "string", Enum: ScopeNames},
	}, func(dst []byte) []byte {
		return field.AppendStrings(dst, v.Scopes)
	}).Says("What the key may be used for.", `["all"]`)
	s.Bool("disabled", &v.Disabled).Says("Whether it is turned off.", `false`)
	s.Text("device", &v.Device, record.MaxName).Says(
		"The client that got the key by the device flow; empty for other keys.", `""`,
	)
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
	s.Name("name", &f.name, record.MaxName, field.Required, field.Filled).Says(
		"A name to recognise the key by.", `"laptop"`,
	)
	if f.Fresh {
		s.Texts("scopes", &f.scopes, people.CleanScope, 5, 16, field.Filled).
			Says("What the key may be used for: all, read, write, upload, admin. Default: all.", `["all"]`).Among(ScopeNames)
		s.Time("expiresAt", &f.expires).
			Says("When the key expires; null means never. A date alone is the end of that day in UTC.", `"2030-01-01T00:00:00.000Z"`)
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
