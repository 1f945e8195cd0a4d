// Package admin is the command line of kist: one file for each subject, such as key.go. A command
// reaches the data through package control or works on it with package ops.
package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/admin/process"
	"kist/admin/serve"
	"kist/embed"
	"kist/kv"
	"kist/kv/record"
)

// Globals are the flags of every command.
type Globals struct {
	DataDir   string `default:"./kist-data" placeholder:"DIR" help:"The data directory. Without ./kist-data here, commands other than serve use /var/lib/kist if it is there, which has the data of the service."`
	JSON      bool   `help:"Print results as JSON."`
	LogFormat string `default:"text" enum:"text,json" placeholder:"FORMAT" help:"Format of log lines on standard error: text or json."`
	LogLevel  string `default:"info" enum:"debug,info,warn,error" placeholder:"LEVEL" help:"Lowest level to log: debug, info, warn or error."`
}

// Commands are all commands except serve.
type Commands struct {
	User        userCommands       `cmd:"" help:"Add, list, change and remove accounts."`
	Key         keyCommands        `cmd:"" help:"Create, list and revoke API keys."`
	Tokens      tokenCommands      `cmd:"" help:"Turn all API keys off and on, for everyone or for one user. (kist key creates and revokes single keys.)"`
	Backup      backupCommands     `cmd:"" help:"Back up everything to a folder or a tar, and look after backups by schedule."`
	Restore     restoreCommand     `cmd:"" help:"Restore a backup into an empty data directory, or put back the content of missing and damaged files."`
	Rollback    rollbackCommand    `cmd:"" help:"Go back to the former version: make a data directory that it opens, and say which changes stay behind."`
	Import      importCommand      `cmd:"" help:"Import an export of another program or of kist, or a folder of files."`
	Export      exportCommand      `cmd:"" help:"Export everything a user has as a zip of documented JSON and files."`
	Doctor      doctorCommand      `cmd:"" help:"Check address, proxy, disk, files, clock and backups, and say what to change."`
	Store       storeCommands      `cmd:"" help:"Make a key file, and encrypt an object store with it."`
	Verify      verifyCommand      `cmd:"" help:"Read all data, report damage and repair it if asked to."`
	Trash       trashCommands      `cmd:"" help:"List, restore and delete the deleted items of a user."`
	GC          gcCommand          `cmd:"" help:"Free the disk space of files that were removed at least --gc-delay ago, as the server does every hour."`
	Reindex     reindexCommand     `cmd:"" help:"Rebuild the search index. The server may be running."`
	Extension   extensionCommand   `cmd:"" help:"Write the browser extension to a folder, ready to load into a browser."`
	Install     installCommand     `cmd:"" help:"Print a configuration file for systemd, Docker, Compose, Unraid, nginx, Caddy or Traefik."`
	Healthcheck healthcheckCommand `cmd:"" help:"Check whether the server is healthy, for example in a container."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
	Completion  completionCommand  `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Man         manCommand         `cmd:"" help:"Print the manual page, for man."`

	Complete completeCommand `cmd:"" hidden:"" passthrough:"" help:"Print what a command line may go on with, for a shell."`
}

// A Call is what a command runs with.
type Call struct {
	*Globals
	Build          Build // of the program
	Stdin          *os.File
	Stdout, Stderr io.Writer
	Log            *slog.Logger  // on Stderr
	Access         *slog.Logger  // gets a line about each request; lines may be written a moment later
	delay          time.Duration // of a sweep in this process
	chosen         chosen        // how DataDir was
	operator       Operator
}

// Operator makes the HTTP handler that commands use as the operator, on a store that no
// server has open.
type Operator func(*kv.Store, *slog.Logger, control.Commands) http.Handler

// Main reads the command line and the environment into cli, a kong model that holds
// g and the commands. It runs the command with a *Call and returns the exit code. If
// the command fails, Main prints why in one sentence on standard error.
func Main(cli any, g *Globals, build Build, operator Operator) int {
	process.Private()
	call := &Call{
		Globals: g, Build: build, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, operator: operator,
	}
	err := call.denied(call.run(cli, os.Args[1:]))
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, failure(err, g.JSON || slices.Contains(os.Args[1:], "--json")))
	}
	return exit.Code(err)
}

// failure is what a command prints about its error: a sentence, or an object with --json.
func failure(err error, inJSON bool) string {
	text := console.Sentence(err.Error())
	if !inJSON {
		return text
	}
	object, _ := json.Marshal(map[string]string{"error": text, "code": exit.Word(err)}) // texts cannot fail
	return string(object)
}

// denied says what to do about an error that the rights to the data directory are the cause of.
func (c *Call) denied(err error) error {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(at, fs.ErrPermission) {
		return err
	}
	if below, outside := filepath.Rel(c.DataDir, at.Path); outside != nil || !filepath.IsLocal(below) {
		return err
	}
	return fmt.Errorf("this user cannot use the data directory %s: %w; run kist as the user that the directory "+
		"belongs to, or as root (sudo)", c.DataDir, err)
}

func (c *Call) run(cli any, args []string) error {
	parser, err := kong.New(cli, kong.Name("kist"), kong.Vars{"listen": serve.DefaultListen},
		kong.PostBuild(setVariables),
		kong.Description("Keeps and shares files, notes and links.\n\n"+
			"A flag that configures kist can be set by the environment variable that is shown with it, "+
			"or by a file whose path is in that variable with _FILE at the end. "+
			"Flags that tell a command what to do have no variable."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Help(printHelp), kong.ValueFormatter(describe))
	if err != nil {
		return fmt.Errorf("the commands are declared wrongly: %w", err)
	}
	warnings, err := readEnvironment(parser.Model, args)
	if err != nil {
		return err
	}

	words, flags := split(parser.Model.Node, args)
	if len(words) > 0 && words[0] == "help" {
		if len(words) == 2 {
			if topic, ok := embed.HelpTopic(embed.English, words[1]); ok {
				return c.print(topic.Text)
			}
		}
		if len(words) > 2 {
			if _, ok := embed.HelpTopic(embed.English, words[1]); ok {
				return exit.Misused("kist help %s prints a page of the handbook and takes no more words; "+
					"to search the handbook, open /help on your server", words[1])
			}
		}
		if err := helpOn(parser.Model.Node, words[1:]); err != nil {
			return err
		}
		args = slices.Concat(flags, words[1:], []string{"--help"})
	} else if len(words) == 0 && slices.Contains(flags, "--version") {
		args = append(slices.DeleteFunc(flags, func(f string) bool { return f == "--version" }), "version")
	}

	ctx, err := parser.Parse(args)
	if unread, ok := errors.AsType[*kong.ParseError](err); ok {
		return c.misread(parser, unread)
	}
	if err != nil {
		return fmt.Errorf("cannot read the command line: %w", err)
	}
	if err := c.refuseEmpty(ctx); err != nil {
		return err
	}
	c.chooseData(ctx)
	if info, err := os.Stat(c.DataDir); err == nil && !info.IsDir() {
		return exit.Misused("the data directory %s is a file; --data-dir must name a folder", c.DataDir)
	}
	for _, w := range warnings {
		fmt.Fprintln(c.Stderr, w)
	}

	lines := newLogWriter(c.Stderr)
	defer lines.Close()
	c.Log, c.Access = slog.New(c.logHandler(lines)), slog.New(c.logHandler(lines.late()))
	slog.SetDefault(c.Log)
	process.LimitMemory()
	began := time.Now()
	err = ctx.Run(c)
	if owned := process.GiveBack(c.DataDir, began); owned != nil {
		c.Log.Warn("some of what root has made in the data directory still belongs to root: "+
			"give it to the user of the server with chown", "error", owned)
	}
	return err
}

// setVariables gives an environment variable to each flag that configures kist: the
// flags of every command and of serve, and flags of the same name of other commands.
// The other flags say what a command does. They have no variable, because one that
// was left in the environment could remove an account.
func setVariables(k *kong.Kong) error {
	configures := map[string]bool{}
	for _, node := range append([]*kong.Node{k.Model.Node}, k.Model.Children...) {
		for _, f := range node.Flags {
			if (node == k.Model.Node || node.Name == "serve") && f.Name != "help" {
				configures[f.Name] = true
			}
		}
	}
	k.Model.HelpFlag.Help = "Show this help."
	return kong.Visit(k.Model, func(v kong.Visitable, next kong.Next) error {
		if f, ok := v.(*kong.Flag); ok && configures[f.Name] {
			f.Tag.Envs = []string{envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))}
			f.Envs = f.Tag.Envs
		}
		return next(nil)
	})
}

// describe returns the help of a flag with its default and its variable.
func describe(v *kong.Value) string {
	var more []string
	if v.HasDefault {
		more = append(more, "default "+v.Default)
	}
	for _, name := range v.Tag.Envs {
		more = append(more, "$"+name)
	}
	if len(more) == 0 {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " (" + strings.Join(more, ", ") + ")."
}

func (c *Call) logHandler(to io.Writer) slog.Handler {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}
	o := &slog.HandlerOptions{Level: levels[c.LogLevel]}
	if c.LogFormat == "json" {
		return slog.NewJSONHandler(to, o)
	}
	return slog.NewTextHandler(to, o)
}

// ask sends a request to the handler, in the server or in this process.
func (c *Call) ask(method, path string, in, out any) error {
	_, err := reach(c, false, func(to *control.Client) (struct{}, error) {
		return struct{}{}, to.Call(context.Background(), method, path, in, out)
	})
	return err
}

// reach runs fn with a client of the handler, in the server or in this process. With
// create it makes the data directory if it does not exist.
func reach[T any](c *Call, create bool, fn func(to *control.Client) (T, error)) (out T, err error) {
	client, err := c.connect(context.Background(), create)
	if err != nil {
		return out, err
	}
	out, err = fn(client)
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Invalid {
		err = exit.Misused("%s", inWords(e.Fields))
	}
	return out, errors.Join(err, client.Close())
}

// The API, as far as commands use it.
const (
	usersPath    = "/api/v1/admin/users"
	settingsPath = "/api/v1/admin/settings"
	mePath       = "/api/v1/me"
	keysPath     = "/api/v1/keys"
)

// as returns an address of the API for what belongs to the named user.
func as(user, path string) string { return path + "?user=" + url.QueryEscape(user) }

// call sends a request to the API and returns the data of the answer.
func call[T any](to *control.Client, method, path string, in any) (T, error) {
	var out struct{ Data T }
	err := to.Call(context.Background(), method, path, in, &out)
	return out.Data, err
}

// list reads all pages of a list of the API for the named user, oldest first.
func list[T any](from *control.Client, path, user string) ([]T, error) {
	all, next := []T{}, ""
	for {
		var page struct {
			Data []T
			Next string `json:"nextCursor"`
		}
		at := as(user, path) + "&sort=oldest&limit=500&cursor=" + url.QueryEscape(next)
		if err := from.Call(context.Background(), http.MethodGet, at, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		next = page.Next
		if next == "" {
			return all, nil
		}
	}
}

// fieldNames are the names of the handler's fields on the command line.
var fieldNames = map[string]string{
	"username": "the name", "password": "the password", "role": "the role",
	"displayName": "--display-name", "name": "--name", "ids": "the ids", "scopes": "--scope", "expiresAt": "--expires",
}

// inWords says what is wrong with the fields.
func inWords(fields map[string]string) string {
	var all []string
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, cmp.Or(fieldNames[field], field)+" "+fields[field])
	}
	return strings.Join(all, "; ")
}

// say prints what a command found or did: v as JSON if --json is set, or else the
// text.
func (c *Call) say(v any, format string, args ...any) error {
	text := fmt.Sprintf(format, args...) + "\n"
	if c.JSON {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(v); err != nil {
			return fmt.Errorf("cannot encode the answer: %w", err)
		}
		text = b.String()
	}
	return c.print(text)
}

func (c *Call) print(text string) error {
	if _, err := io.WriteString(c.Stdout, text); err != nil {
		return fmt.Errorf("cannot write the answer: %w", err)
	}
	return nil
}

// The variables that may hold a password. There is no flag for it, because other
// users of the machine could read the command line.
const (
	envPrefix    = "KIST_"
	fileSuffix   = "_FILE"
	passwordVar  = envPrefix + "PASSWORD"
	maxValueFile = 64 << 10
)

// readEnvironment prepares the environment for kong. It unsets empty variables, so
// that they do not replace a default, and sets KIST_X to the text of the file that
// KIST_X_FILE names. It returns a warning for each unknown KIST_ variable. One that does
// not exist any more is an error for serve, and a warning for the other commands: a backup
// at night must not stop because of a line for the server.
func readEnvironment(app *kong.Application, args []string) (warnings []string, err error) {
	known := map[string]bool{}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range n.Flags {
			for _, name := range f.Envs {
				known[name] = true
			}
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(app.Node)

	for _, pair := range slices.Sorted(slices.Values(os.Environ())) {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		base, isFile := strings.CutSuffix(name, fileSuffix)
		switch {
		case value == "":
			if err := os.Unsetenv(name); err != nil {
				return nil, fmt.Errorf("cannot prepare the environment: %w", err)
			}
		case known[name] || name == passwordVar || name == passwordVar+fileSuffix:
		case isFile && known[base]:
			if os.Getenv(base) != "" {
				return nil, exit.Misused("%s and %s are both set; keep one of them", base, name)
			}
			text, err := readValue(value)
			if err != nil {
				return nil, exit.Misused("cannot read the file that %s names: %v", name, err)
			}
			if err := os.Setenv(base, strings.TrimSpace(text)); err != nil {
				return nil, fmt.Errorf("cannot prepare the environment: %w", err)
			}
		case goneVariable(name) != "" && slices.Contains(args, "serve"):
			return nil, exit.Misused("%s", goneVariable(name))
		case goneVariable(name) != "":
			warnings = append(warnings, goneVariable(name))
		default:
			text := fmt.Sprintf("The environment variable %s is not known and has no effect; "+
				"kist --help shows those that are known.", name)
			warnings = append(warnings, console.Printable(text))
		}
	}
	return warnings, nil
}

// readValue reads a file of at most maxValueFile bytes.
func readValue(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readAll(f)
}

func readAll(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxValueFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxValueFile {
		return "", fmt.Errorf("it is longer than %d bytes", maxValueFile)
	}
	return string(b), nil
}

func (c *Call) progress(what string, total int64) *console.Progress {
	return console.NewProgress(c.Stderr, what, total)
}

// connect reaches the data directory, in the server or in this process. With create it makes one that does not exist,
// unless that would be the service's.
func (c *Call) connect(ctx context.Context, create bool) (*control.Client, error) {
	prepare := c.requireData
	if create {
		prepare = c.prepareData
	}
	err := prepare()
	if err != nil {
		return nil, err
	}
	if c.chosen == besideThat {
		fmt.Fprintf(c.Stderr, "This is about %s; for the data of the service, add --data-dir %s.\n", c.DataDir, serviceDir)
	}
	return control.Connect(ctx, control.Options{
		Dir: c.DataDir, GCDelay: c.delay, Log: c.Log,
		Handler: func(s *kv.Store, commands control.Commands) http.Handler { return c.operator(s, c.Log, commands) },
	})
}
