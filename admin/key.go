package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

type keyCommands struct {
	Create keyCreate `cmd:"" help:"Create an API key and print it. It is shown only once."`
	List   keyList   `cmd:"" help:"List the API keys."`
	Revoke keyRevoke `cmd:"" help:"Revoke an API key."`
}

type keyCreate struct {
	User    string   `required:"" placeholder:"NAME" help:"The owner of the key."`
	Name    label    `required:"" placeholder:"LABEL" help:"What the key is for."`
	Scope   []scope  `default:"all" placeholder:"SCOPE" help:"Permissions of the key: all, read, write, upload or admin. Separate several with commas."`
	Expires deadline `placeholder:"WHEN" help:"When the key expires: a duration (90d, 720h) or a time (2030-01-31T00:00:00Z). Without this flag it never expires."`
}

func (cmd *keyCreate) Run(c *Call) error {
	in := map[string]any{"name": cmd.Name, "scopes": cmd.Scope}
	if !cmd.Expires.IsZero() {
		in["expiresAt"] = cmd.Expires.Time
	}
	k, err := reach(c, false, func(to *control.Client) (k newKey, err error) {
		owner, err := accountNamed(to, cmd.User)
		if err != nil {
			return k, err
		}
		if err := to.Call(context.Background(), http.MethodPost, as(cmd.User, keysPath), in, &k); err != nil {
			return k, err
		}
		k.Data.User = owner.Name
		return k, nil
	})
	if err != nil {
		return err
	}
	until := "does not expire"
	if k.Data.Expires != nil {
		until = "expires at " + k.Data.Expires.Format(time.RFC3339)
	}
	told := fmt.Sprintf("The key %q of %s (id %s) %s. It is shown only once. Keep it safe.",
		k.Data.Name, k.Data.User, k.Data.ID, until)
	fmt.Fprintln(c.Stderr, console.Printable(told))
	return c.say(k, "%s", k.Secret)
}

// key is an API key as the commands show it.
type key struct {
	ID       record.ID      `json:"id"`
	Name     string         `json:"name"`
	User     string         `json:"username"`
	Scopes   []people.Scope `json:"scopes"`
	Disabled bool           `json:"disabled"`
	Created  time.Time      `json:"createdAt"`
	Expires  *time.Time     `json:"expiresAt"`
	LastUsed *time.Time     `json:"lastUsedAt"`
	locked   string         // why none of the user's keys work; "" if they do
}

// state says whether the key works.
func (k *key) state() string {
	switch {
	case k.Disabled:
		return "disabled"
	case k.locked != "":
		return k.locked
	case k.Expires != nil && !k.Expires.After(time.Now()):
		return "expired"
	}
	return "active"
}

// newKey is a key that was just created, with its secret, which is shown only once.
type newKey struct {
	Data   key    `json:"data"`
	Secret string `json:"key"`
}

func keysOf(from *control.Client, u user) ([]key, error) {
	all, err := list[key](from, keysPath, u.Name)
	locked := ""
	switch {
	case u.Disabled:
		locked = "user disabled"
	case u.TokensOff:
		locked = "tokens disabled"
	}
	for i := range all {
		all[i].User, all[i].locked = u.Name, locked
	}
	return all, err
}

// listKeys lists the keys of the user with the name, or of everyone if it is "".
func listKeys(from *control.Client, name string) ([]key, error) {
	if name != "" {
		a, err := accountNamed(from, name)
		if err != nil {
			return nil, err
		}
		return keysOf(from, a.user)
	}
	users, err := listUsers(from)
	if err != nil {
		return nil, err
	}
	all := []key{}
	for _, u := range users {
		some, err := keysOf(from, u)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func revoke(to *control.Client, k key) error {
	return to.Call(context.Background(), http.MethodDelete, as(k.User, keysPath+"/"+k.ID.String()), nil, new(struct{}))
}

// revokeAll revokes the keys, each even if another cannot be revoked.
func revokeAll(to *control.Client, keys []key) error {
	var failed []error
	for _, k := range keys {
		failed = append(failed, revoke(to, k))
	}
	return errors.Join(failed...)
}

type scope string

func (s *scope) UnmarshalText(text []byte) error {
	clean, err := people.CleanScope(strings.TrimSpace(string(text)))
	*s = scope(clean)
	return err
}

// deadline is a time in the future, given as itself or as the time until then.
type deadline struct{ time.Time }

func (d *deadline) UnmarshalText(text []byte) error {
	if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
		d.Time = at.UTC()
		return record.CheckEnd(d.Time, time.Now())
	}
	var s Span
	if err := s.UnmarshalText(text); err != nil || s <= 0 {
		return fmt.Errorf("%q must be a time to come such as 90d, 720h or 2030-01-31T00:00:00Z", text)
	}
	d.Time = time.Now().Add(time.Duration(s)).UTC().Truncate(time.Millisecond)
	return nil
}

type keyList struct {
	User string `placeholder:"NAME" help:"Only this user's keys."`
}

func (cmd *keyList) Run(c *Call) error {
	all, err := reach(c, false, func(to *control.Client) ([]key, error) { return listKeys(to, cmd.User) })
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return c.say(all, "There are no API keys; kist key create makes one.")
	}
	rows := [][]string{{"ID", "USER", "NAME", "SCOPES", "STATE", "EXPIRES", "LAST USED"}}
	for _, k := range all {
		rows = append(rows, []string{
			k.ID.String(), k.User, k.Name, strings.Join(field.Words(k.Scopes), ","), k.state(),
			console.Day(k.Expires), console.Day(k.LastUsed),
		})
	}
	return c.say(all, "%s", console.Table(rows))
}

type keyRevoke struct {
	ID   string `arg:"" help:"The key's id, as kist key list shows it; with --user also its name."`
	User string `placeholder:"NAME" help:"The owner of the key."`
}

func (cmd *keyRevoke) Run(c *Call) error {
	k, err := reach(c, false, func(to *control.Client) (key, error) {
		all, err := listKeys(to, cmd.User)
		if err != nil {
			return key{}, err
		}
		k, err := cmd.choose(all)
		if err != nil {
			return key{}, err
		}
		return k, revoke(to, k)
	})
	if err != nil {
		return err
	}
	return c.say(k, "The key %q of %s is revoked: it is refused from the next request on.",
		console.Printable(k.Name), k.User)
}

// choose returns the key of that id. With --user, a name will do if only one key has it.
func (cmd *keyRevoke) choose(all []key) (key, error) {
	id, err := uuid.Parse(cmd.ID)
	if i := slices.IndexFunc(all, func(k key) bool { return err == nil && k.ID == id }); i >= 0 {
		return all[i], nil
	}
	text := fmt.Sprintf("There is no key with the id %q; kist key list shows the ids.", cmd.ID)
	if cmd.User != "" {
		var ids []string
		named := key{}
		for _, k := range all {
			if k.Name == cmd.ID {
				named = k
				ids = append(ids, k.ID.String())
			}
		}
		switch {
		case len(ids) == 1:
			return named, nil
		case len(ids) > 1:
			return key{}, exit.Misused("%s has %d keys named %q; give the id of one: %s",
				named.User, len(ids), cmd.ID, strings.Join(ids, ", "))
		}
		text = fmt.Sprintf("%s has no key with the name or id %q; kist key list --user %[1]s shows them.", cmd.User, cmd.ID)
	}
	return key{}, &record.Error{Fault: record.Missing, Code: "not_found", Text: text}
}

type tokenCommands struct {
	Disable tokensDisable `cmd:"" help:"Turn API keys off, starting with the next request."`
	Enable  tokensEnable  `cmd:"" help:"Turn API keys on again."`
	Status  tokensStatus  `cmd:"" help:"Show for whom API keys are off."`
}

type tokenScope struct {
	User string `placeholder:"NAME" help:"Only this user's keys."`
}

type (
	tokensDisable struct{ tokenScope }
	tokensEnable  struct{ tokenScope }
	tokensStatus  struct{ tokenScope }
)

func (cmd *tokensDisable) Run(c *Call) error { return cmd.set(c, true) }
func (cmd *tokensEnable) Run(c *Call) error  { return cmd.set(c, false) }

// tokens says for whom API keys are off.
type tokens struct {
	Disabled bool     `json:"disabled"` // for everyone
	Users    []string `json:"disabledUsers"`
}

func (s tokenScope) set(c *Call, off bool) error {
	return s.run(c, func(to *control.Client) (err error) {
		edit := map[string]any{"apiTokensDisabled": off}
		if s.User != "" {
			_, err = editUser(to, s.User, edit)
		} else {
			_, err = call[struct{}](to, http.MethodPatch, settingsPath, edit)
		}
		return err
	})
}

func (cmd *tokensStatus) Run(c *Call) error {
	return cmd.run(c, func(*control.Client) error { return nil })
}

// run runs change and says for whom API keys are off then, among all users or of the
// one named.
func (s tokenScope) run(c *Call, change func(to *control.Client) error) error {
	t, err := reach(c, false, func(to *control.Client) (tokens, error) {
		t := tokens{Users: []string{}}
		if err := change(to); err != nil {
			return t, err
		}
		set, err := call[struct {
			Off bool `json:"apiTokensDisabled"`
		}](to, http.MethodGet, settingsPath, nil)
		if err != nil {
			return t, err
		}
		t.Disabled = set.Off
		users, err := s.users(to)
		if err != nil {
			return t, err
		}
		for _, u := range users {
			if u.TokensOff {
				t.Users = append(t.Users, u.Name)
			}
		}
		return t, nil
	})
	if err != nil {
		return err
	}
	return s.say(c, t)
}

// users returns the user named, or all.
func (s tokenScope) users(from *control.Client) ([]user, error) {
	if s.User == "" {
		return listUsers(from)
	}
	one, err := accountNamed(from, s.User)
	if err != nil {
		return nil, err
	}
	return []user{one.user}, nil
}

func (s tokenScope) say(c *Call, t tokens) error {
	switch {
	case t.Disabled && len(t.Users) > 0:
		return c.say(t, "API keys are off for everyone, and by themselves for: %s.", strings.Join(t.Users, ", "))
	case t.Disabled:
		return c.say(t, "API keys are off for everyone.")
	case len(t.Users) > 0:
		return c.say(t, "API keys are off for: %s.", strings.Join(t.Users, ", "))
	case s.User != "":
		return c.say(t, "API keys are on for: %s.", s.User)
	}
	return c.say(t, "API keys are on for everyone.")
}
