package admin

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/embed"
)

// plainWords rewrite the parser's messages in plain words.
var plainWords = []struct {
	words *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`^(-[\w-]+): expected \w+ value but got "EOL".*`), `$1 needs a value`},
	{
		regexp.MustCompile(`^(-[\w-]+): expected \w+ value but got (".*") \(.*; perhaps try (.*)\?$`),
		`$1 needs a value, and $2 looks like another flag; if it is the value, write $3`,
	},
	{regexp.MustCompile(`^expected "(.*)"$`), `$1 is missing`},
	{regexp.MustCompile(`^missing flags: ([^,]*)$`), `$1 is missing`},
	{regexp.MustCompile(`^missing flags: `), `these are missing: `},
	{regexp.MustCompile(`: bool value must be .* but got `), ` must be true or false; it is `},
	{regexp.MustCompile(`" but got "`), `"; it is "`},
	{regexp.MustCompile(`","`), `", "`},
	{regexp.MustCompile(`, did you mean (.*)\?$`), ` (did you mean $1?)`},
	{regexp.MustCompile(`\(from envar (\w+)=.*\)$`), `(from $1)`},
}

// printHelp prints the help of a command. The help of the program ends with a list of
// the pages of the handbook.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(o, ctx); err != nil || ctx.Selected() != nil {
		return err
	}
	rows := [][]string{}
	for _, t := range embed.Topics(embed.English) {
		rows = append(rows, []string{"  " + t.Name, t.Summary})
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\nPages of the handbook, which kist help NAME prints:\n%s\n", console.Table(rows))
	return err
}

// refuseEmpty refuses an empty data directory and empty arguments, which come from
// unset variables in scripts.
func (c *Call) refuseEmpty(ctx *kong.Context) error {
	what := ""
	if c.DataDir == "" {
		what = "--data-dir"
	}
	for _, step := range ctx.Path {
		if p := step.Positional; p != nil && p.Target.Kind() == reflect.String && p.Target.String() == "" {
			what = cmp.Or(p.Tag.PlaceHolder, strings.ToUpper(p.Name))
		}
	}
	if what == "" {
		return nil
	}
	return exit.Misused("%s must not be empty; %s --help shows how it is used", what, ctx.Selected().FullPath())
}

// misread returns an error of usage for what the parser did not understand. If a
// command is missing, it prints the help on standard error instead.
func (c *Call) misread(p *kong.Kong, err *kong.ParseError) error {
	text, command := err.Error(), p.Model.Node
	for _, step := range err.Context.Path {
		if step.Command != nil {
			command = step.Command
		}
	}
	if strings.HasPrefix(text, "expected one of ") {
		p.Stdout = c.Stderr
		if err := err.Context.PrintUsage(false); err != nil {
			return fmt.Errorf("cannot print the help: %w", err)
		}
		return exit.Misused("") // the help has said everything
	}
	if match := unreadWord.FindStringSubmatch(text); match != nil {
		if instead := gone(command.FullPath(), match[1]); instead != "" {
			return exit.Misused("%s", instead)
		}
	}
	meant := suggest(p.Model.Node, command, text)
	if meant != "" { // the parser's own guess compares only letters
		text, _, _ = strings.Cut(text, ", did you mean")
	}
	for _, p := range plainWords {
		text = p.words.ReplaceAllString(text, p.plain)
	}
	if meant != "" {
		text += fmt.Sprintf(" (did you mean %s?)", meant)
	}
	return exit.Misused("%s; %s --help shows how it is used", text, command.FullPath())
}

// otherNames maps the names that other programs use for commands and flags to kist's
// names for them.
var otherNames = map[string][]string{
	"start": {"serve"}, "run": {"serve"}, "server": {"serve"}, "up": {"serve"},
	"add": {"create"}, "create": {"add"}, "new": {"add", "create"},
	"delete": {"remove", "revoke"}, "remove": {"revoke"}, "rm": {"remove", "revoke"}, "del": {"remove", "revoke"},
	"revoke": {"remove"}, "ls": {"list"}, "password": {"passwd"}, "check": {"verify", "doctor"},
	"repair": {"verify"}, "status": {"healthcheck", "doctor"},
	"index": {"reindex"}, "token": {"key"}, "apikey": {"key"}, "account": {"user"},

	"--port": {"--listen"}, "--host": {"--listen"}, "--addr": {"--listen"}, "--address": {"--listen"},
	"--bind": {"--listen"},
	"--data": {"--data-dir"}, "--dir": {"--data-dir"}, "--url": {"--base-url"}, "--domain": {"--tls-domain"},
	"--verbose": {"--log-level"}, "--debug": {"--log-level"},
}

var unreadWord = regexp.MustCompile(`^(?:unexpected argument|unknown flag) (\S+?)(, did you mean .*)?$`)

// suggest returns what the user probably meant by the word that the parser does not
// know at a command, or "".
func suggest(root, at *kong.Node, complaint string) string {
	match := unreadWord.FindStringSubmatch(complaint)
	if match == nil {
		return ""
	}
	names := append([]string{match[1]}, otherNames[match[1]]...)
	var all []string
	if strings.HasPrefix(match[1], "--") {
		for _, group := range at.AllFlags(false) {
			for _, f := range group {
				if slices.Contains(names, "--"+f.Name) {
					all = append(all, "--"+f.Name)
				}
			}
		}
		return strings.Join(all, " or ")
	}
	for _, below := range []*kong.Node{at, root} {
		for _, child := range below.Children {
			if slices.Contains(names, child.Name) {
				all = append(all, child.FullPath())
			}
		}
		if len(all) > 0 {
			break
		}
		for _, leaf := range below.Leaves(true) {
			if slices.Contains(names, leaf.Name) {
				all = append(all, leaf.FullPath())
			}
		}
	}
	return strings.Join(all, " or ")
}

// split separates the flags of every command, with their values, from the other words.
func split(root *kong.Node, args []string) (words, flags []string) {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			words = append(words, args[i])
			continue
		}
		flags = append(flags, args[i])
		takesValue := func(f *kong.Flag) bool { return args[i] == "--"+f.Name && !f.IsBool() }
		if i+1 < len(args) && slices.ContainsFunc(root.Flags, takesValue) {
			i++
			flags = append(flags, args[i])
		}
	}
	return words, flags
}

// helpOn refuses a single word after help that is neither a command nor a page of
// the handbook, and names the pages.
func helpOn(root *kong.Node, words []string) error {
	if len(words) != 1 || slices.ContainsFunc(root.Children, func(n *kong.Node) bool { return n.Name == words[0] }) {
		return nil
	}
	var pages []string
	for _, t := range embed.Topics(embed.English) {
		pages = append(pages, t.Name)
	}
	return exit.Absent("command or help page",
		"named "+console.Printable(words[0])+"; the pages are "+strings.Join(pages, ", "))
}
