package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/term"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/admin/ops"
	"kist/blobs"
	"kist/embed"
	"kist/kv"
	"kist/kv/record"
)

type userCommands struct {
	Add     userAdd     `cmd:"" help:"Add an account."`
	List    userList    `cmd:"" help:"List the accounts."`
	Passwd  userPasswd  `cmd:"" help:"Set a user's password."`
	Role    userRole    `cmd:"" help:"Change a user's role."`
	Disable userDisable `cmd:"" help:"Disable an account. Its content stays."`
	Enable  userEnable  `cmd:"" help:"Enable a disabled account."`
	Remove  userRemove  `cmd:"" help:"Remove an account and everything in it."`
}

type passwordSource struct {
	PasswordStdin bool `help:"Read the password from standard input. Without this flag it is read from KIST_PASSWORD, from the file named by KIST_PASSWORD_FILE, or from a prompt on a terminal."`
}

type userAdd struct {
	Name        userName `arg:"" help:"The name to sign in with."`
	Admin       bool     `help:"Make the user an administrator."`
	DisplayName label    `placeholder:"TEXT" help:"The name that others see."`
	passwordSource
}

func (cmd *userAdd) Run(c *Call) error {
	password, err := cmd.password(c, string(cmd.Name))
	if err != nil {
		return err
	}
	var u User
	if err := c.askNew(http.MethodPost, "/users", newUser{string(cmd.Name), string(cmd.DisplayName), password, cmd.Admin}, &u); err != nil {
		return err
	}
	return c.say(u, "Added %s, %s.", u.Name, roleWords[u.Role])
}

var roleWords = map[record.Role]string{record.Admin: "an administrator", record.Member: "a user"}

type userList struct{}

func (userList) Run(c *Call) error {
	var all []User
	if err := c.ask(http.MethodGet, "/users", nothing{}, &all); err != nil {
		return err
	}
	if len(all) == 0 {
		return c.say(all, "There are no users yet; kist user add NAME --admin makes the first one.")
	}
	rows := [][]string{{"NAME", "ROLE", "STATE", "API KEYS", "CREATED", "DISPLAY NAME"}}
	for _, u := range all {
		rows = append(rows, []string{u.Name, string(u.Role), console.Word(u.Disabled, "disabled", "active"), console.Word(u.TokensOff, "off", "on"), console.Day(&u.Created), u.DisplayName})
	}
	return c.say(all, "%s", console.Table(rows))
}

type userPasswd struct {
	Name   string `arg:"" help:"The user's name."`
	Revoke string `default:"devices" enum:"devices,all,none" placeholder:"WHICH" help:"Which of the user's API keys to revoke: devices (keys of connected devices), all, or none. All browser sessions are signed out in any case."`
	passwordSource
}

func (cmd *userPasswd) Run(c *Call) error {
	if _, err := c.user(cmd.Name); err != nil {
		return err // before the password is asked for
	}
	password, err := cmd.password(c, string(cmd.Name))
	if err != nil {
		return err
	}
	u, err := c.editUser(cmd.Name, userEdit{Password: &password, Revoke: cmd.Revoke})
	if err != nil {
		return err
	}
	if len(u.Revoked) > 0 {
		return c.say(u, "%s has a new password. Revoked: %s.", u.Name, strings.Join(u.Revoked, ", "))
	}
	return c.say(u, "%s has a new password.", u.Name)
}

type userRole struct {
	Name string      `arg:"" help:"The user's name."`
	Role record.Role `arg:"" enum:"admin,user" help:"admin or user."`
}

func (cmd *userRole) Run(c *Call) error {
	u, err := c.editUser(cmd.Name, userEdit{Role: &cmd.Role})
	if err != nil {
		return err
	}
	return c.say(u, "%s is now %s.", u.Name, roleWords[u.Role])
}

type userDisable struct {
	Name string `arg:"" help:"The user's name."`
}

func (cmd *userDisable) Run(c *Call) error {
	u, err := c.editUser(cmd.Name, userEdit{Disabled: new(true)})
	if err != nil {
		return err
	}
	return c.say(u, "%s is disabled: the account's keys and passwords are refused from the next request on.", u.Name)
}

type userEnable struct {
	Name string `arg:"" help:"The user's name."`
}

func (cmd *userEnable) Run(c *Call) error {
	u, err := c.editUser(cmd.Name, userEdit{Disabled: new(false)})
	if err != nil {
		return err
	}
	return c.say(u, "%s is enabled.", u.Name)
}

type userRemove struct {
	Name string `arg:"" help:"The user's name."`
	Yes  bool   `help:"Do not ask for confirmation."`
}

func (cmd *userRemove) Run(c *Call) error {
	u, err := c.user(cmd.Name)
	if err != nil {
		return err // before anything is asked
	}
	if !cmd.Yes {
		if !c.terminal() {
			return exit.Misused("this removes the account and everything it keeps (%s): add --yes to confirm", u.keeps())
		}
		fmt.Fprintf(c.Stderr, "Remove %s and everything the account keeps (%s)? [y/N] ", u.Name, u.keeps())
		reply, err := bufio.NewReader(c.Stdin).ReadString('\n')
		if answer := strings.ToLower(strings.TrimSpace(reply)); err != nil || answer != "y" && answer != "yes" {
			return fmt.Errorf("nothing was removed")
		}
	}
	if err := c.ask(http.MethodDelete, "/users/"+url.PathEscape(cmd.Name), nothing{}, &u); err != nil {
		return err
	}
	return c.say(u, "Removed %s and everything the account kept (%s).", u.Name, u.keeps())
}

func (a *Account) keeps() string {
	return fmt.Sprintf("%s, %s of files", console.Count(a.Items, "item"), console.Bytes(a.Bytes))
}

func (c *Call) user(name string) (u Account, err error) {
	return u, c.ask(http.MethodGet, "/users/"+url.PathEscape(name), nothing{}, &u)
}

func (c *Call) editUser(name string, edit userEdit) (u User, err error) {
	return u, c.ask(http.MethodPatch, "/users/"+url.PathEscape(name), edit, &u)
}

func (c *Call) terminal() bool { return term.IsTerminal(int(c.Stdin.Fd())) }

// password is the new password of the user with the name: from standard input if that was said, else
// from the environment, else as it is typed, twice, on a terminal. It keeps to
// the rule: JSON, which it goes on in, would change bytes that are no UTF-8.
func (s passwordSource) password(c *Call, name string) (string, error) {
	text, err := s.given(c, name)
	if err != nil {
		return "", err
	}
	return text, checkPassword(text, name)
}

func checkPassword(text, name string) error {
	if err := record.CheckPassword(text, name, embed.CommonPassword); err != nil {
		return exit.Misused("%s", inWords(map[string]string{"password": err.Error()}))
	}
	return nil
}

func (s passwordSource) given(c *Call, name string) (string, error) {
	value, file := os.Getenv(passwordVar), os.Getenv(passwordVar+fileSuffix)
	switch {
	case s.PasswordStdin:
		text, err := readAll(c.Stdin)
		if err != nil {
			return "", fmt.Errorf("cannot read the password: %w", err)
		}
		return chomp(text), nil
	case value != "" && file != "":
		return "", exit.Misused("%s and %s are both set; keep one of them", passwordVar, passwordVar+fileSuffix)
	case value != "":
		return value, nil
	case file != "":
		text, err := readValue(file)
		if err != nil {
			return "", fmt.Errorf("cannot read the file that %s names: %w", passwordVar+fileSuffix, err)
		}
		return chomp(text), nil
	case !c.terminal():
		return "", exit.Misused("a password is needed and there is no terminal to ask on: use --password-stdin, or set %s or %s", passwordVar, passwordVar+fileSuffix)
	}
	first, err := c.typed("Password: ")
	if err != nil {
		return "", err
	}
	if err := checkPassword(first, name); err != nil {
		return "", err // before it is typed again
	}
	second, err := c.typed("The same again: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", fmt.Errorf("the two passwords differ; nothing was changed")
	}
	return first, nil
}

func (c *Call) typed(prompt string) (string, error) {
	fmt.Fprint(c.Stderr, prompt)
	b, err := term.ReadPassword(int(c.Stdin.Fd()))
	fmt.Fprintln(c.Stderr)
	if err != nil {
		return "", fmt.Errorf("cannot read the password: %w", err)
	}
	return string(b), nil
}

// chomp takes one line end away.
func chomp(t string) string { return strings.TrimSuffix(strings.TrimSuffix(t, "\n"), "\r") }

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
	in := newKey{User: cmd.User, Name: string(cmd.Name), Expires: cmd.Expires.Time}
	for _, s := range cmd.Scope {
		in.Scopes = append(in.Scopes, record.Scope(s))
	}
	var k NewKey
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

// userName is the name of a new account.
type userName string

func (n *userName) UnmarshalText(text []byte) error {
	clean, err := record.CleanUserName(string(text))
	*n = userName(clean)
	return err
}

// label is a name that people see.
type label string

func (l *label) UnmarshalText(text []byte) error {
	clean, err := record.CleanName(string(text))
	*l = label(clean)
	return err
}

// scope is one of the scopes of keys.
type scope string

func (s *scope) UnmarshalText(text []byte) error {
	clean, err := record.CleanScope(strings.TrimSpace(string(text)))
	*s = scope(clean)
	return err
}

// deadline is an instant, given as itself or as the time until then.
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
	var all []Key
	if err := c.ask(http.MethodGet, "/keys?user="+url.QueryEscape(cmd.User), nothing{}, &all); err != nil {
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
	var k Key
	if err := c.ask(http.MethodDelete, "/keys/"+url.PathEscape(cmd.ID), nothing{}, &k); err != nil {
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
	var t Tokens
	if err := c.ask(http.MethodPut, "/tokens", setTokens{s.User, off}, &t); err != nil {
		return err
	}
	return s.say(c, t)
}

func (cmd *tokensStatus) Run(c *Call) error {
	var t Tokens
	if err := c.ask(http.MethodGet, "/tokens?user="+url.QueryEscape(cmd.User), nothing{}, &t); err != nil {
		return err
	}
	return cmd.say(c, t)
}

func (s tokenScope) say(c *Call, t Tokens) error {
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

type gcCommand struct {
	Now   bool `help:"Do not wait for --gc-delay. Uploads in progress are kept. A copy or backup that is being made may miss files that were removed since it began."`
	Delay Span `name:"gc-delay" default:"24h" placeholder:"TIME" help:"As for serve. It applies only while no server runs; a running server uses its own setting."`
}

func (cmd *gcCommand) Run(c *Call) error {
	c.delay = time.Duration(cmd.Delay)
	var done collected
	if err := c.ask(http.MethodPost, "/gc", collect{cmd.Now}, &done); err != nil {
		return err
	}
	text := "There is nothing to remove."
	if done.Blobs > 0 || done.Failed > 0 {
		text = fmt.Sprintf("Removed %s and freed %s.", console.Count(done.Blobs, "blob"), console.Bytes(done.Bytes))
	}
	if err := c.say(done, "%s", text); err != nil || done.Problem == "" {
		return err
	}
	return errors.New(done.Problem)
}

// sweepOn sweeps a store that is open in this process.
func (c *Call) sweepOn(store *kv.Store) func(context.Context, bool) (ops.Swept, error) {
	return func(ctx context.Context, now bool) (swept ops.Swept, err error) {
		err = contentsOf(store)(func(content *blobs.Store) (err error) {
			swept, err = (&ops.Sweeper{Store: store, Blobs: content, Delay: c.delay, Log: c.Log}).Sweep(ctx, now)
			return err
		})
		return swept, err
	}
}

type versionCommand struct{}

func (versionCommand) Run(c *Call) error {
	v := struct {
		Version string `json:"version"`
		Format  int    `json:"dataFormat"`
		Go      string `json:"go"`
	}{c.Version, kv.Format, runtime.Version()}
	return c.say(v, "kist %s, data format %d, %s", v.Version, v.Format, v.Go)
}
