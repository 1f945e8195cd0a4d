package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kist/admin/console"
	"kist/admin/control"
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
	in := control.KeyInput{User: cmd.User, Name: string(cmd.Name), Expires: cmd.Expires.Time}
	for _, s := range cmd.Scope {
		in.Scopes = append(in.Scopes, record.Scope(s))
	}
	var k control.NewKey
	if err := c.ask(http.MethodPost, "/keys", in, &k); err != nil {
		return err
	}
	until := "does not expire"
	if k.Data.Expires != nil {
		until = "expires at " + k.Data.Expires.Format(time.RFC3339)
	}
	fmt.Fprintln(c.Stderr, console.Printable(fmt.Sprintf("The key %q of %s (id %s) %s. It is shown only once. Keep it safe.", k.Data.Name, k.Data.User, k.Data.ID, until)))
	return c.say(k, "%s", k.Secret)
}

// scope is one of the scopes of keys.
type scope string

func (s *scope) UnmarshalText(text []byte) error {
	clean, err := record.CleanScope(strings.TrimSpace(string(text)))
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
	var all []control.Key
	if err := c.ask(http.MethodGet, "/keys?user="+url.QueryEscape(cmd.User), control.Nothing{}, &all); err != nil {
		return err
	}
	if len(all) == 0 {
		return c.say(all, "There are no API keys; kist key create makes one.")
	}
	rows := [][]string{{"ID", "USER", "NAME", "SCOPES", "STATE", "EXPIRES", "LAST USED"}}
	for _, k := range all {
		var scopes []string
		for _, s := range k.Scopes {
			scopes = append(scopes, string(s))
		}
		rows = append(rows, []string{k.ID.String(), k.User, k.Name, strings.Join(scopes, ","), console.Word(k.Disabled, "disabled", "active"), console.Day(k.Expires), console.Day(k.LastUsed)})
	}
	return c.say(all, "%s", console.Table(rows))
}

type keyRevoke struct {
	ID string `arg:"" help:"The key's id, as kist key list shows it."`
}

func (cmd *keyRevoke) Run(c *Call) error {
	var k control.Key
	if err := c.ask(http.MethodDelete, "/keys/"+url.PathEscape(cmd.ID), control.Nothing{}, &k); err != nil {
		return err
	}
	return c.say(k, "The key %q of %s is revoked: it is refused from the next request on.", console.Printable(k.Name), k.User)
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

func (s tokenScope) set(c *Call, off bool) error {
	var t control.Tokens
	if err := c.ask(http.MethodPut, "/tokens", control.TokensInput{User: s.User, Disabled: off}, &t); err != nil {
		return err
	}
	return s.say(c, t)
}

func (cmd *tokensStatus) Run(c *Call) error {
	var t control.Tokens
	if err := c.ask(http.MethodGet, "/tokens?user="+url.QueryEscape(cmd.User), control.Nothing{}, &t); err != nil {
		return err
	}
	return cmd.say(c, t)
}

func (s tokenScope) say(c *Call, t control.Tokens) error {
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
