package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/matryer/is"

	"kist/admin/serve"
)

// model is the command line as it is declared.
func model(t *testing.T) *kong.Application {
	t.Helper()
	var cli struct {
		Globals
		Commands
	}
	parser, err := kong.New(&cli, kong.Name("kist"), kong.Vars{"listen": serve.DefaultListen},
		kong.PostBuild(setVariables), kong.Description("Keeps files.\n\n.So it does."))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// TestComplete: what the Tab key offers.
func TestComplete(t *testing.T) {
	t.Parallel()
	root := model(t).Node
	for line, want := range map[string]string{
		"":                              "",
		"us":                            "user",
		"user ":                         "add list passwd role disable enable remove link unlink invite reset-login",
		"user re":                       "remove reset-login",
		"user remove ":                  "",
		"user remove --y":               "--yes",
		"user add ann --password-stdi":  "--password-stdin",
		"user role ann ":                "admin user",
		"user passwd ann --revoke ":     "devices all none",
		"user passwd ann --revoke=all ": "",
		"user passwd ann --revoke=":     "--revoke=devices --revoke=all --revoke=none",
		"user passwd ann --revoke=d":    "--revoke=devices",
		"user passwd ann --data-dir=x":  "",
		"--log-format ":                 "text json",
		"--log-format json key ":        "create list revoke",
		"--json tok":                    "tokens",
		"completion ":                   "bash zsh fish",
		"comp":                          "completion", // what the shell itself runs is hidden
		"help back":                     "backups",
		"backup ":                       "", // the shell offers files
		"backup i":                      "init",
		"backup --dat":                  "--data-dir",
		"nonsense ":                     "",
		"user remove ann --data":        "--data-dir",
	} {
		t.Run(line, func(t *testing.T) {
			is := is.New(t)
			var got []string
			for _, w := range complete(root, strings.Split(line, " ")) {
				got = append(got, w.text)
			}
			if line == "" { // all commands
				is.True(slices.Contains(got, "user") && slices.Contains(got, "help") && !slices.Contains(got, "complete"))
				return
			}
			is.Equal(strings.Join(got, " "), want)
		})
	}
	if complete(root, nil) != nil {
		t.Error("no words go on with something")
	}
}

// TestMan: the manual page has every command and flag, and no text in it is taken for a request.
func TestMan(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	app := model(t)
	page := manPage(app, "1.2-rc")
	is.True(strings.Contains(page, `"kist 1.2\-rc"`))
	is.True(strings.Contains(page, "Keeps files.\n.PP\n\\&.So it does.\n"))
	for _, leaf := range app.Leaves(true) {
		is.True(strings.Contains(page, "\n.SS "+roff("kist "+leaf.Path()))) // leaf
		for _, f := range leaf.Flags {
			is.True(f.Hidden || strings.Contains(page, "\n.B "+roff("--"+f.Name))) // leaf
		}
	}
	is.True(!strings.Contains(page, "kist complete "))
	requests := []string{".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".I"}
	for line := range strings.SplitSeq(page, "\n") {
		if first, _, _ := strings.Cut(line, " "); strings.HasPrefix(line, ".") {
			is.True(slices.Contains(requests, first)) // line
		}
		is.True(!strings.HasPrefix(line, "'"))
	}
}
