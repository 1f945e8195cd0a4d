package httpapi

import (
	"net/http"
	"regexp"
	"strings"

	"kist/embed"
	"kist/httpapi/web"
	"kist/kv/record"
)

func readHandbook(c *web.Request) error {
	q, err := c.Query()
	if err != nil {
		return err
	}
	if words := strings.TrimSpace(q.Get("q")); words != "" {
		found := embed.FindHelp(words)
		return c.RespondPage(http.StatusOK, embed.HelpPage{
			Base: c.Site.Prefix(), Look: lookOf(c), Title: c.Lang().T("page.found", "n", len(found)),
			Query: words, Found: found,
		})
	}
	return help(c, c.Lang().T("page.handbook"), embed.HelpIndex())
}

func readTopic(c *web.Request) error {
	t, ok := embed.HelpTopic(c.Arg("topic"))
	if !ok {
		return record.NotFound("page of the handbook")
	}
	return help(c, t.Title, t.Text)
}

func help(c *web.Request, title, text string) error {
	base := c.Site.Prefix()
	body, err := c.Site.Renders.Handbook(helpLink.ReplaceAllStringFunc(text, func(link string) string {
		name, anchor, _ := strings.Cut(link[2:], ".md")
		if anchor != "" {
			anchor = "#h-" // the renderer prefixes the ids of headings with h-
		}
		return "](" + base + "/help/" + name + anchor
	}))
	if err != nil {
		return err
	}
	return c.RespondPage(http.StatusOK, embed.HelpPage{Base: base, Look: lookOf(c), Title: title, Body: body})
}

// lookOf is what the user chose. Visitors have no choice.
func lookOf(c *web.Request) (l embed.Look) {
	if c.Caller != nil {
		l = embed.Look{Theme: string(c.Caller.User.Theme), Accent: string(c.Caller.User.Accent)}
	}
	return l
}

// helpLink matches the beginning of a link from one handbook page to another.
var helpLink = regexp.MustCompile(`\]\([a-z-]+\.md#?`)
