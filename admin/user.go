package admin

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/admin/serve"
	"kist/embed"
	"kist/kv/people"
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
	Link    userLink    `cmd:"" help:"Link an account to an identity of OpenID Connect."`
	Unlink  userUnlink  `cmd:"" help:"Remove links of an account to identities of OpenID Connect, and end the sessions that came from them."`

	Invite     userInvite `cmd:"" help:"Print a link with which one person makes an account."`
	ResetLogin userReset  `cmd:"" help:"Close every way in to an account, and print a link with which its user sets a new password."`
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
	_, err := c.mayPrepare() // before anybody types a password for nothing
	if err != nil {
		return err
	}
	password, err := cmd.password(c, string(cmd.Name))
	if err != nil {
		return err
	}
	in := map[string]any{
		"username": cmd.Name, "displayName": cmd.DisplayName, "password": password, "role": people.Member,
	}
	if cmd.Admin {
		in["role"] = people.Admin
	}
	u, err := reach(c, true, func(to *control.Client) (user, error) {
		return call[user](to, http.MethodPost, usersPath, in)
	})
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Taken {
		err = fmt.Errorf("there is a user named %q already; choose another name", cmd.Name)
	}
	if err != nil {
		return err
	}
	return c.say(u, "Added %s, %s.", u.Name, roleWords[u.Role])
}

// user is an account as the commands show it.
type user struct {
	ID          record.ID   `json:"id"`
	Name        string      `json:"username"`
	DisplayName string      `json:"displayName"`
	Role        people.Role `json:"role"`
	Disabled    bool        `json:"disabled"`
	TokensOff   bool        `json:"apiTokensDisabled"`
	Quota       *int64      `json:"quotaBytes"` // null: the instance's default
	Used        int64       `json:"usedBytes"`
	Created     time.Time   `json:"createdAt"`
	Revoked     []string    `json:"revoked,omitempty"` // names of the keys that a new password has revoked
}

// account is an account with how much it keeps.
type account struct {
	user
	Items int64 `json:"items"`
	Bytes int64 `json:"bytes"` // of files, those that wait for approval too
}

func accountNamed(from *control.Client, name string) (account, error) {
	got, err := call[struct {
		user
		Text   int64            `json:"textBytes"`
		Counts map[string]int64 `json:"counts"`
	}](from, http.MethodGet, as(name, mePath), nil)
	a := account{user: got.user, Bytes: got.Used - got.Text}
	for _, n := range got.Counts {
		a.Items += n
	}
	return a, err
}

func listUsers(from *control.Client) ([]user, error) { return list[user](from, usersPath, "") }

var roleWords = map[people.Role]string{people.Admin: "an administrator", people.Member: "a user"}

type userList struct{}

func (userList) Run(c *Call) error {
	all, err := reach(c, false, listUsers)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return c.say(all, "There are no users yet; kist user add NAME --admin makes the first one.")
	}
	rows := [][]string{{"NAME", "ROLE", "STATE", "API KEYS", "STORAGE", "CREATED", "DISPLAY NAME"}}
	for _, u := range all {
		rows = append(rows, []string{
			u.Name, string(u.Role), console.Word(u.Disabled, "disabled", "active"),
			console.Word(u.TokensOff, "off", "on"), console.Bytes(u.Used), console.Day(&u.Created), u.DisplayName,
		})
	}
	return c.say(all, "%s", console.Table(rows))
}

type userPasswd struct {
	Name   string `arg:"" help:"The user's name."`
	Revoke string `default:"devices" enum:"devices,all,none" placeholder:"WHICH" help:"Which of the user's API keys to revoke: devices (keys of connected devices), all, or none. All browser sessions are always signed out."`
	passwordSource
}

func (cmd *userPasswd) Run(c *Call) error {
	a, err := c.user(cmd.Name)
	if err != nil {
		return err // before the password is asked for
	}
	password, err := cmd.password(c, string(cmd.Name))
	if err != nil {
		return err
	}
	u, err := reach(c, false, func(to *control.Client) (user, error) { return cmd.set(to, a.user, password) })
	if err != nil {
		return err
	}
	if len(u.Revoked) > 0 {
		return c.say(u, "%s has a new password. Revoked: %s.", u.Name, strings.Join(u.Revoked, ", "))
	}
	return c.say(u, "%s has a new password.", u.Name)
}

func (cmd *userPasswd) set(to *control.Client, u user, password string) (user, error) {
	before, err := keysOf(to, u)
	if err != nil {
		return u, err
	}
	edit := map[string]any{"password": password} // which revokes the devices
	if cmd.Revoke != "devices" {
		ids := []record.ID{}
		for _, k := range before {
			if cmd.Revoke == "all" {
				ids = append(ids, k.ID)
			}
		}
		edit["revoke"] = ids
	}
	u, err = editUser(to, u.Name, edit)
	if err != nil {
		return u, err
	}

	after, err := keysOf(to, u)
	if err != nil {
		return u, err
	}
	for cmd.Revoke == "all" && len(after) > 0 { // keys that were made meanwhile
		if err := revokeAll(to, after); err != nil {
			return u, err
		}
		before = append(before, after...)
		after, err = keysOf(to, u)
		if err != nil {
			return u, err
		}
	}

	for _, k := range before {
		if !slices.ContainsFunc(after, func(left key) bool { return left.ID == k.ID }) {
			u.Revoked = append(u.Revoked, k.Name)
		}
	}
	return u, nil
}

type userRole struct {
	Name string      `arg:"" help:"The user's name."`
	Role people.Role `arg:"" enum:"admin,user" help:"admin or user."`
}

func (cmd *userRole) Run(c *Call) error {
	u, err := c.editUser(cmd.Name, map[string]any{"role": cmd.Role})
	if err != nil {
		return err
	}
	return c.say(u, "%s is now %s.", u.Name, roleWords[u.Role])
}

type userDisable struct {
	Name string `arg:"" help:"The user's name."`
}

func (cmd *userDisable) Run(c *Call) error {
	u, err := c.editUser(cmd.Name, map[string]any{"disabled": true})
	if err != nil {
		return err
	}
	return c.say(u, "%s is disabled: the account's keys and passwords are refused from the next request on.", u.Name)
}

type userEnable struct {
	Name string `arg:"" help:"The user's name."`
}

func (cmd *userEnable) Run(c *Call) error {
	u, err := c.editUser(cmd.Name, map[string]any{"disabled": false})
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
			return exit.Misused("this removes the account and everything it keeps (%s): add --yes to confirm",
				contentsOf(&u))
		}
		fmt.Fprintf(c.Stderr, "Remove %s and everything the account keeps (%s)? [y/N] ", u.Name, contentsOf(&u))
		reply, err := bufio.NewReader(c.Stdin).ReadString('\n')
		if answer := strings.ToLower(strings.TrimSpace(reply)); err != nil || answer != "y" && answer != "yes" {
			return fmt.Errorf("nothing was removed")
		}
	}
	if err := c.ask(http.MethodDelete, usersPath+"/"+u.ID.String(), nil, new(struct{})); err != nil {
		return err
	}
	return c.say(u, "Removed %s and everything the account kept (%s).", u.Name, contentsOf(&u))
}

type userReset struct {
	Name    string `arg:"" help:"The user's name."`
	BaseURL string `name:"base-url" placeholder:"URL" help:"The address of the server, for the link. It is only needed when no server runs."`

	RevokeKeys bool `help:"Revoke the user's API keys too. Those of connected devices always end."`
}

func (cmd *userReset) Run(c *Call) error {
	base, err := serve.PublicAddress("--base-url", cmp.Or(cmd.BaseURL, "http://127.0.0.1:7080"))
	if err != nil {
		return err // before anything is changed
	}
	link, err := reach(c, false, func(to *control.Client) (link resetLink, err error) {
		a, err := accountNamed(to, cmd.Name)
		if err != nil {
			return link, err
		}
		in := map[string]any{"revokeKeys": cmd.RevokeKeys}
		path := usersPath + "/" + a.ID.String() + "/reset-login"
		err = to.Call(context.Background(), http.MethodPost, path, in, &link)
		return link, err
	})
	if err != nil {
		return err
	}
	if strings.HasPrefix(link.URL, "/") { // no server runs
		link.URL = strings.TrimRight(base.String(), "/") + link.URL
	}
	return c.say(link, "The password of %s no longer works, nor do the sessions, connected devices, one-time codes, "+
		"passkeys and linked sign-ins. %s\n"+
		"Nothing signs in to the account before %s sets a new password with this link, once, until %s:\n%s",
		cmd.Name, link.keys(), cmd.Name, link.Ends.Local().Format("2006-01-02 15:04"), link.URL)
}

type resetLink struct {
	URL     string    `json:"url"`
	Ends    time.Time `json:"expiresAt"`
	Devices int64     `json:"devicesEnded"`
	Revoked int64     `json:"keysRevoked"`
	Kept    int64     `json:"keysKept"`
}

// keys says what became of the API keys.
func (l *resetLink) keys() string {
	switch {
	case l.Revoked > 0:
		return record.Plural(l.Revoked, "API key") + " revoked."
	case l.Kept > 0:
		return record.Plural(l.Kept, "API key") + " still " + console.Word(l.Kept == 1, "works", "work") +
			". --revoke-keys revokes them too."
	}
	return "The account has no API key."
}

type userInvite struct {
	User       string      `placeholder:"NAME" help:"The administrator who invites. It is only needed if there are several."`
	Admin      bool        `help:"Make the new user an administrator."`
	Collection []string    `placeholder:"ID" help:"Share collections of the administrator with the new user. Separate several with commas."`
	Role       record.Role `default:"see" enum:"see,add,edit" help:"What the new user may do in the collections: see, add or edit."`
	Expires    deadline    `placeholder:"WHEN" help:"When the link ends: a duration (7d, 12h) or a time (2030-01-31T00:00:00Z), within 90 days. Without this flag it is 7d."`
	BaseURL    string      `name:"base-url" placeholder:"URL" help:"The address of the server, for the link. It is only needed when no server runs."`
}

func (cmd *userInvite) Run(c *Call) error {
	base, err := serve.PublicAddress("--base-url", cmp.Or(cmd.BaseURL, "http://127.0.0.1:7080"))
	if err != nil {
		return err // before anything is made
	}
	in := map[string]any{"role": people.Member}
	if cmd.Admin {
		in["role"] = people.Admin
	}
	if !cmd.Expires.IsZero() {
		in["expiresAt"] = cmd.Expires.Time
	}
	shared := []map[string]any{}
	for _, id := range cmd.Collection {
		shared = append(shared, map[string]any{"id": id, "role": cmd.Role})
	}
	in["collections"] = shared

	made, err := reach(c, false, func(to *control.Client) (made invitation, err error) {
		by, err := inviter(to, cmd.User)
		if err != nil {
			return made, err
		}
		err = to.Call(context.Background(), http.MethodPost, as(by, "/api/v1/admin/invitations"), in, &made)
		return made, err
	})
	if err != nil {
		return err
	}
	if strings.HasPrefix(made.URL, "/") { // no server runs
		made.URL = strings.TrimRight(base.String(), "/") + made.URL
	}
	fmt.Fprintf(c.Stderr, "With this link one person makes an account, once, until %s:\n",
		made.Data.Ends.Local().Format("2006-01-02 15:04"))
	return c.say(made, "%s", made.URL)
}

// invitation is one that was just made, with its link, which is shown only once.
type invitation struct {
	Data struct {
		ID   record.ID   `json:"id"`
		Role people.Role `json:"role"`
		Ends time.Time   `json:"expiresAt"`
	} `json:"data"`
	URL string `json:"url"`
}

// inviter is the name of the administrator who invites: the one who is named, or the only one.
func inviter(from *control.Client, name string) (string, error) {
	if name != "" {
		a, err := accountNamed(from, name)
		return a.Name, err
	}
	all, err := listUsers(from)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(u user) bool { return u.Role != people.Admin || u.Disabled })
	switch len(all) {
	case 0:
		return "", errors.New("there is no administrator yet; kist user add NAME --admin makes the first one")
	case 1:
		return all[0].Name, nil
	}
	return "", exit.Misused("there are several administrators; say who invites with --user NAME")
}

type userLink struct {
	Name    string `arg:"" help:"The user's name."`
	Issuer  string `required:"" placeholder:"URL" help:"The issuer, exactly as --oidc-issuer names it."`
	Subject string `required:"" placeholder:"ID" help:"The user's id at the issuer (the claim sub)."`
}

func (cmd *userLink) Run(c *Call) error {
	u, err := url.Parse(cmd.Issuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
		cmd.Subject == "" || len(cmd.Subject) > 255 {
		return exit.Misused("--issuer must be an http or https address, and --subject 1 to 255 bytes")
	}
	in := control.IdentityInput{User: cmd.Name, Issuer: cmd.Issuer, Subject: cmd.Subject}
	if err := c.ask(http.MethodPost, "/link", in, new(control.Nothing)); err != nil {
		return err
	}
	return c.say(in, "%s is linked to %s at %s.", cmd.Name, cmd.Subject, cmd.Issuer)
}

type userUnlink struct {
	Name    string `arg:"" help:"The user's name."`
	Issuer  string `placeholder:"URL" help:"Only links to this issuer."`
	Subject string `placeholder:"ID" help:"Only links to this id."`
}

func (cmd *userUnlink) Run(c *Call) error {
	removed := []control.Identity{}
	in := control.IdentityInput{User: cmd.Name, Issuer: cmd.Issuer, Subject: cmd.Subject}
	if err := c.ask(http.MethodPost, "/unlink", in, &removed); err != nil {
		return err
	}
	return c.say(removed, "Removed %s of %s.", record.Plural(int64(len(removed)), "link"), cmd.Name)
}

func contentsOf(a *account) string {
	return fmt.Sprintf("%s, %s of files", record.Plural(a.Items, "item"), console.Bytes(a.Bytes))
}

func (c *Call) user(name string) (account, error) {
	return reach(c, false, func(to *control.Client) (account, error) { return accountNamed(to, name) })
}

func (c *Call) editUser(name string, edit map[string]any) (user, error) {
	return reach(c, false, func(to *control.Client) (user, error) { return editUser(to, name, edit) })
}

func editUser(to *control.Client, name string, edit map[string]any) (user, error) {
	a, err := accountNamed(to, name)
	if err != nil {
		return a.user, err
	}
	return call[user](to, http.MethodPatch, usersPath+"/"+a.ID.String(), edit)
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
	if err := people.CheckPassword(text, []string{name}, embed.CommonPassword); err != nil {
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
		return "", exit.Misused("a password is needed and there is no terminal to ask on: "+
			"use --password-stdin, or set %s or %s", passwordVar, passwordVar+fileSuffix)
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

type userName string

func (n *userName) UnmarshalText(text []byte) error {
	clean, err := record.CleanUserName(string(text))
	*n = userName(clean)
	return err
}

type label string

func (l *label) UnmarshalText(text []byte) error {
	clean, err := record.CleanName(string(text))
	*l = label(clean)
	return err
}
