package control

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"kist/kv"
	"kist/kv/record"
)

// Key is an API key as the commands show it.
type Key struct {
	ID       record.ID      `json:"id"`
	Name     string         `json:"name"`
	User     string         `json:"username"`
	Scopes   []record.Scope `json:"scopes"`
	Disabled bool           `json:"disabled"`
	Created  time.Time      `json:"createdAt"`
	Expires  *time.Time     `json:"expiresAt"`
	LastUsed *time.Time     `json:"lastUsedAt"`
}

// NewKey is a key that was just created, with its secret, which is shown only once.
type NewKey struct {
	Data   Key    `json:"data"`
	Secret string `json:"key"`
}

// KeyInput is the body of POST /keys.
type KeyInput struct {
	User, Name string
	Scopes     []record.Scope
	Expires    time.Time
}

// Tokens says for whom API keys are turned off.
type Tokens struct {
	Disabled bool     `json:"disabled"` // for everyone
	Users    []string `json:"disabledUsers"`
}

// TokensInput is the body of PUT /tokens.
type TokensInput struct {
	User     string // "" means everyone
	Disabled bool
}

func (v handler) keys(r *http.Request, _ Nothing) ([]Key, error) {
	return view(v, func(tx *kv.Tx) ([]Key, error) {
		users, err := tx.Users()
		if err != nil {
			return nil, err
		}
		names := map[record.ID]string{}
		for _, u := range users {
			names[u.ID] = u.Name
		}
		var all []record.Key
		if name := r.URL.Query().Get("user"); name != "" {
			u, err := named(tx, name)
			if err != nil {
				return nil, err
			}
			all, err = tx.Keys(u.ID)
			if err != nil {
				return nil, err
			}
		} else if all, err = tx.AllKeys(); err != nil {
			return nil, err
		}
		shown := make([]Key, len(all))
		for i := range all {
			shown[i] = showKey(&all[i], names[all[i].Owner])
		}
		return shown, nil
	})
}

func (v handler) addKey(_ *http.Request, in KeyInput) (NewKey, error) {
	bad := map[string]string{}
	label, err := record.CleanName(in.Name)
	if err != nil {
		bad["name"] = err.Error()
	} else if label == "" {
		bad["name"] = "must not be empty"
	}
	for _, s := range in.Scopes {
		if _, err := record.CleanScope(string(s)); err != nil {
			bad["scope"] = err.Error()
		}
	}
	if err := record.Bad(bad); err != nil {
		return NewKey{}, err
	}
	return update(v, func(tx *kv.Tx) (NewKey, error) {
		u, err := named(tx, in.User)
		if err != nil {
			return NewKey{}, err
		}
		k, secret, err := tx.AddKey(record.Key{Owner: u.ID, Name: label, Scopes: in.Scopes, Expires: in.Expires})
		if err != nil {
			return NewKey{}, err
		}
		return NewKey{showKey(k, u.Name), secret}, nil
	})
}

func (v handler) removeKey(r *http.Request, _ Nothing) (Key, error) {
	text := r.PathValue("id")
	missing := &record.Error{Fault: record.Missing, Code: "not_found", Text: fmt.Sprintf("There is no key with the id %q; kist key list shows the ids.", text)}
	id, err := uuid.Parse(text)
	if err != nil {
		return Key{}, missing
	}
	return update(v, func(tx *kv.Tx) (Key, error) {
		all, err := tx.AllKeys()
		if err != nil {
			return Key{}, err
		}
		for _, k := range all {
			if k.ID != id {
				continue
			}
			u, err := tx.User(k.Owner)
			if err != nil {
				return Key{}, err
			}
			return showKey(&k, u.Name), tx.RemoveKey(k.Owner, k.ID)
		}
		return Key{}, missing
	})
}

func (v handler) tokens(r *http.Request, _ Nothing) (Tokens, error) {
	return view(v, func(tx *kv.Tx) (Tokens, error) { return tokens(tx, r.URL.Query().Get("user")) })
}

func (v handler) setTokens(_ *http.Request, in TokensInput) (Tokens, error) {
	return update(v, func(tx *kv.Tx) (Tokens, error) {
		if in.User != "" {
			u, err := named(tx, in.User)
			if err != nil {
				return Tokens{}, err
			}
			u.TokensOff = in.Disabled
			if err := tx.SaveUser(u); err != nil {
				return Tokens{}, err
			}
			return tokens(tx, u.Name)
		}
		set, err := tx.Settings()
		if err != nil {
			return Tokens{}, err
		}
		set.TokensOff = in.Disabled
		if err := tx.SetSettings(set); err != nil {
			return Tokens{}, err
		}
		return tokens(tx, "")
	})
}

// tokens reads for whom API keys are off, among all users or of the one named.
func tokens(tx *kv.Tx, user string) (Tokens, error) {
	set, err := tx.Settings()
	if err != nil {
		return Tokens{}, err
	}
	t := Tokens{Disabled: set.TokensOff, Users: []string{}}
	users, err := tx.Users()
	if user != "" {
		u, missing := named(tx, user)
		if missing != nil {
			return Tokens{}, missing
		}
		users = []record.User{*u}
	}
	for _, u := range users {
		if u.TokensOff {
			t.Users = append(t.Users, u.Name)
		}
	}
	return t, err
}

func showKey(k *record.Key, user string) Key {
	shown := Key{ID: k.ID, Name: k.Name, User: user, Scopes: k.Scopes, Disabled: k.Disabled, Created: k.Created}
	if !k.Expires.IsZero() {
		shown.Expires = &k.Expires
	}
	if !k.LastUsed.IsZero() {
		shown.LastUsed = &k.LastUsed
	}
	return shown
}
