package admin

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"

	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/embed"
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
	var u control.User
	if err := c.askNew(http.MethodPost, "/users", control.UserInput{Name: string(cmd.Name), DisplayName: string(cmd.DisplayName), Password: password, Admin: cmd.Admin}, &u); err != nil {
		return err
	}
	return c.say(u, "Added %s, %s.", u.Name, roleWords[u.Role])
}

var roleWords = map[record.Role]string{record.Admin: "an administrator", record.Member: "a user"}

type userList struct{}

func (userList) Run(c *Call) error {
	var all []control.User
	if err := c.ask(http.MethodGet, "/users", control.Nothing{}, &all); err != nil {
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
	u, err := c.editUser(cmd.Name, control.UserEdit{Password: &password, Revoke: cmd.Revoke})
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
	u, err := c.editUser(cmd.Name, control.UserEdit{Role: &cmd.Role})
	if err != nil {
		return err
	}
	return c.say(u, "%s is now %s.", u.Name, roleWords[u.Role])
}

type userDisable struct {
	Name string `arg:"" help:"The user's name."`
}

func (cmd *userDisable) Run(c *Call) error {
	u, err := c.editUser(cmd.Name, control.UserEdit{Disabled: new(true)})
	if err != nil {
		return err
	}
	return c.say(u, "%s is disabled: the account's keys and passwords are refused from the next request on.", u.Name)
}

type userEnable struct {
	Name string `arg:"" help:"The user's name."`
}

func (cmd *userEnable) Run(c *Call) error {
	u, err := c.editUser(cmd.Name, control.UserEdit{Disabled: new(false)})
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
			return exit.Misused("this removes the account and everything it keeps (%s): add --yes to confirm", contentsOf(&u))
		}
		fmt.Fprintf(c.Stderr, "Remove %s and everything the account keeps (%s)? [y/N] ", u.Name, contentsOf(&u))
		reply, err := bufio.NewReader(c.Stdin).ReadString('\n')
		if answer := strings.ToLower(strings.TrimSpace(reply)); err != nil || answer != "y" && answer != "yes" {
			return fmt.Errorf("nothing was removed")
		}
	}
	if err := c.ask(http.MethodDelete, "/users/"+url.PathEscape(cmd.Name), control.Nothing{}, &u); err != nil {
		return err
	}
	return c.say(u, "Removed %s and everything the account kept (%s).", u.Name, contentsOf(&u))
}

// contentsOf says what an account keeps.
func contentsOf(a *control.Account) string {
	return fmt.Sprintf("%s, %s of files", console.Count(a.Items, "item"), console.Bytes(a.Bytes))
}

func (c *Call) user(name string) (u control.Account, err error) {
	return u, c.ask(http.MethodGet, "/users/"+url.PathEscape(name), control.Nothing{}, &u)
}

func (c *Call) editUser(name string, edit control.UserEdit) (u control.User, err error) {
	return u, c.ask(http.MethodPatch, "/users/"+url.PathEscape(name), edit, &u)
}

func (c *Call) terminal() bool { return term.IsTerminal(int(c.Stdin.Fd())) }

// password returns the new password of the named user: from standard input if the
// flag says so, or from the environment, or as it is typed twice on a terminal. It
// checks the rule for passwords here, because the JSON that the password is sent in
// would change bytes that are not UTF-8.
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

// chomp removes one line end.
func chomp(t string) string { return strings.TrimSuffix(strings.TrimSuffix(t, "\n"), "\r") }

// userName is the name of a new account.
type userName string

func (n *userName) UnmarshalText(text []byte) error {
	clean, err := record.CleanUserName(string(text))
	*n = userName(clean)
	return err
}

// label is a display name.
type label string

func (l *label) UnmarshalText(text []byte) error {
	clean, err := record.CleanName(string(text))
	*l = label(clean)
	return err
}
