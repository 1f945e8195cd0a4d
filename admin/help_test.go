package admin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/matryer/is"

	"kist/admin"
	"kist/embed"
	"kist/kv/kvtest/needs"
)

// documents are the README, those for contributors, and the pages of the handbook.
func documents(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../embed/help/*.md")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	others, err := filepath.Glob("../.github/*.md")
	if err != nil || len(others) == 0 {
		t.Fatal(others, err)
	}
	all := map[string]string{}
	for _, path := range slices.Concat(files, others, []string{"../README.md"}) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))] = string(text)
	}
	return all
}

// TestHandbook: kist help lists the pages, kist help NAME prints one, and the name
// of a command is never that of a page.
func TestHandbook(t *testing.T) {
	is := is.New(t)
	p := newPlace(t)
	list := p.must("help")
	parser, err := kong.New(new(struct{ admin.Commands }), kong.Vars{"listen": usual})
	is.NoErr(err)
	for _, topic := range embed.Topics(embed.English) {
		is.True(regexp.MustCompile(`(?m)^  ` + topic.Name + ` +` + regexp.QuoteMeta(topic.Summary) + `$`).MatchString(list))
		r := p.run("", "help", topic.Name)
		is.Equal(r, result{0, topic.Text, ""})
		is.True(topic.Name != "serve" && !slices.ContainsFunc(parser.Model.Children, func(n *kong.Node) bool {
			return n.Name == topic.Name
		}))
	}
	is.Equal(p.run("", "help", "backup"), p.run("", "backup", "--help"))
	is.True(!strings.Contains(p.must("help", "backup"), "handbook"))
	wrong := p.run("", "help", "nonsense")
	is.Equal(wrong.code, 3)
	for _, topic := range embed.Topics(embed.English) { // they are named
		is.True(strings.Contains(wrong.err, topic.Name))
	}
	file := p.path("file")
	is.NoErr(os.WriteFile(file, nil, 0o600))
	for _, args := range [][]string{{"serve"}, {"user", "list"}, {"backup", "copy"}} {
		wrong := p.run("", append(args, "--data-dir", file)...)
		is.Equal(wrong.code, 2)
		is.Equal(wrong.err, "The data directory "+file+" is a file; --data-dir must name a folder.\n")
	}
	more := p.run("", "help", "search", "backup")
	is.Equal(more.code, 2)
	is.True(strings.Contains(more.err, "prints a page of the handbook"))
}

// commandLine finds kist and its arguments in a line of code. The first one is no path, as in mv DIR/kist DIR.
var commandLine = regexp.MustCompile(`(?m)(?:^|[|;(&] *|sudo +|/)kist +([^/#|>&;)\n][^#|>&;)\n]*)`)

// needsMore is what the parser says of a command that needs more.
var needsMore = regexp.MustCompile(`^(missing|expected) `)

// TestDocumentedCommands: every command line in the README and the handbook is
// one that kist takes. Prose may also name a command without what it needs.
func TestDocumentedCommands(t *testing.T) {
	needs.Time(t)
	is := is.New(t)
	parse := func(args []string) error { // by a new parser: one that was used keeps values
		parser, err := kong.New(new(struct {
			admin.Globals
			admin.Commands
		}), kong.Name("kist"), kong.Vars{"listen": usual})
		is.NoErr(err)
		_, err = parser.Parse(args)
		return err
	}
	p := newPlace(t)
	count := 0
	for name, text := range documents(t) {
		var code, prose []string
		for _, block := range regexp.MustCompile("(?ms)^```(\\w*)[^\n]*\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
			if block[1] == "sh" {
				code = append(code, block[2])
			}
			text = strings.Replace(text, block[0], "", 1)
		}
		for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
			prose = append(prose, span[1])
		}
		for i, texts := range [][]string{code, prose} {
			for _, found := range commandLine.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
				args := strings.Fields(found[1])
				count++
				err := parse(args)
				named := i == 1 && !strings.Contains(found[1], "-") && err != nil && needsMore.MatchString(err.Error())
				if named || args[0] == "serve" { // which the parser does not know here
					args = append(args, "--help")
				} else if args[0] != "help" {
					if err != nil {
						t.Errorf("%s: kist %s: %v", name, found[1], err)
					}
					continue
				}
				if r := p.run("", args...); r.code != 0 {
					t.Errorf("%s: kist %s: %s", name, found[1], r.err)
				}
			}
		}
	}
	t.Log(count, "command lines")
	is.True(count > 50)
}

// TestDocumentedFlags: the handbook has every flag of kist serve.
func TestDocumentedFlags(t *testing.T) {
	is := is.New(t)
	page := documents(t)["embed/help/configuration.md"]
	flags := regexp.MustCompile(`(?m)^ +(--[a-z-]+)`).FindAllStringSubmatch(newPlace(t).must("serve", "--help"), -1)
	is.True(len(flags) > 20)
	for _, f := range flags {
		if !strings.Contains(page, "`"+f[1]+"`") {
			t.Errorf("%s is not in the handbook", f[1])
		}
	}
}

// The flags of every command may stand anywhere, also around help and --version.
func TestHelpAfterFlags(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	page, command := p.must("help", "backups"), p.must("help", "user", "add")
	for _, args := range [][]string{
		{"--data-dir", "x", "help"},
		{"--data-dir=x", "help"},
		{"--data-dir", "help", "help"},
		{"--json", "help"},
		{"help", "--json"},
	} {
		is.Equal(p.must(append(args, "backups")...), page)
		is.Equal(p.must(append(args, "user", "add")...), command)
	}
	is.Equal(p.must("--data-dir", "x", "user", "add", "--help"), command)
	is.Equal(p.run("", "--data-dir", "x", "help", "nothing").code, 3)
	is.True(strings.HasPrefix(p.must("--log-level", "debug", "--version"), "kist 1.2.3-test"))
}

// With --json a failure is an object, whatever failed.
func TestFailureInJSON(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.ann()
	for code, args := range map[string][]string{
		"not_found": {"user", "role", "nobody", "admin"},
		"usage":     {"user", "role", "ann"},
		"failed":    {"backup", "nowhere/copy"},
	} {
		t.Run(code, func(t *testing.T) {
			is := is.New(t)
			r := p.run("", append(args, "--json")...)
			var got map[string]string
			is.NoErr(json.Unmarshal([]byte(r.err), &got))
			is.Equal(got["code"], code)
			is.True(strings.HasSuffix(got["error"], "."))
			is.Equal(r.code, p.run("", args...).code)
		})
	}
}
