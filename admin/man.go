package admin

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"kist/embed"
)

type manCommand struct{}

func (manCommand) Run(c *Call, ctx *kong.Context) error {
	return c.print(manPage(ctx.Model, c.Build.Version))
}

// manPage is the manual page of the program, in the language of man (man 7 man).
func manPage(app *kong.Application, version string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`.TH KIST 1 "" "kist %s" "Kist"`, roff(version))
	line(".SH NAME\nkist \\- %s", roff("keep and share files, notes and links"))
	line(".SH SYNOPSIS\n.B kist\n.I command\n[flags]")
	line(".SH DESCRIPTION\n%s", roff(app.Help))
	line(".SH FLAGS OF EVERY COMMAND")
	flagsInRoff(&b, app.Flags)

	line(".SH COMMANDS")
	for _, leaf := range app.Leaves(true) {
		line(".SS %s", roff("kist "+strings.TrimPrefix(leaf.Summary(), "kist ")))
		line("%s", roff(leaf.Help))
		for _, p := range leaf.Positional {
			line(".TP\n.I %s\n%s", roff(p.Summary()), roff(describe(p)))
		}
		flagsInRoff(&b, leaf.Flags)
	}

	line(".SH EXIT STATUS")
	for code, meaning := range []string{
		"Done.", "Failed: one sentence on standard error says what, and what to do.", "Wrong usage, or an invalid value.",
		"What is named does not exist.", "A check found a problem.",
	} {
		line(".TP\n.B %d\n%s", code, meaning)
	}
	line(".SH SEE ALSO\nThe pages of the handbook, which kist help NAME prints:")
	for _, t := range embed.Topics(embed.English) {
		line(".TP\n.B %s\n%s", roff(t.Name), roff(t.Summary))
	}
	return b.String()
}

func flagsInRoff(b *strings.Builder, flags []*kong.Flag) {
	for _, f := range flags {
		if !f.Hidden {
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(f.String()), roff(describe(f.Value)))
		}
	}
}

// roff writes text so that it stands for itself: a backslash, a hyphen, and a line that begins like
// a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
		if line == "" {
			lines[i] = ".PP"
		}
	}
	return strings.Join(lines, "\n")
}
