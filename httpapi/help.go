package httpapi

import (
	"html/template"
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
		found := embed.FindHelp(c.Lang(), words)
		return c.RespondPage(http.StatusOK, embed.HelpPage{
			Base: c.Site.Prefix(), Look: lookOf(c), Title: c.Lang().T("page.found", "n", len(found)),
			Query: words, Found: found,
		})
	}
	return help(c, embed.Topic{
		Name: "index", Lang: c.Lang(), Title: c.Lang().T("page.handbook"), Text: embed.HelpIndex(c.Lang()),
	}, embed.HelpIndex(embed.English))
}

func readTopic(c *web.Request) error {
	t, ok := embed.HelpTopic(c.Lang(), c.Arg("topic"))
	if !ok {
		return record.NotFound("page of the handbook")
	}
	english, _ := embed.HelpTopic(embed.English, t.Name)
	return help(c, t, english.Text)
}

// help shows a page. The headings of a translation have the ids of the English page, so that every link to one of them
// works for everybody.
func help(c *web.Request, t embed.Topic, english string) error {
	body, err := helpBody(c, t.Text)
	if err != nil {
		return err
	}
	if t.Text != english {
		original, err := helpBody(c, english)
		if err != nil {
			return err
		}
		body = markOthers(c, withIDs(body, original), t.Lang)
	}
	return c.RespondPage(http.StatusOK, embed.HelpPage{
		Base: c.Site.Prefix(), Look: lookOf(c), Title: t.Title, Lang: t.Lang, Body: body,
	})
}

func helpBody(c *web.Request, text string) (template.HTML, error) {
	base := c.Site.Prefix()
	return c.Site.Renders.Handbook(helpLink.ReplaceAllStringFunc(text, func(link string) string {
		name, anchor, _ := strings.Cut(link[2:], ".md")
		if anchor != "" {
			anchor = "#h-" // the renderer prefixes the ids of headings with h-
		}
		return "](" + base + "/help/" + name + anchor
	}))
}

// withIDs gives the headings of a translation the ids of the original's, which has the same headings.
func withIDs(translation, original template.HTML) template.HTML {
	ids := headingID.FindAllString(string(original), -1)
	// #nosec G203 -- both are HTML that the renderer made
	return template.HTML(headingID.ReplaceAllStringFunc(string(translation), func(own string) string {
		if len(ids) == 0 {
			return own
		}
		id := ids[0]
		ids = ids[1:]
		return id
	}))
}

// markOthers marks the links by the title of a page that is in another language.
func markOthers(c *web.Request, body template.HTML, l embed.Lang) template.HTML {
	for _, t := range embed.Topics(l) {
		if t.Lang != l {
			start, end := `<a href="`+c.Site.Prefix()+"/help/"+t.Name+`"`, ">"+t.Title+"</a>"
			// #nosec G203 -- what is put in is ours
			body = template.HTML(strings.ReplaceAll(string(body), start+end, start+` lang="`+string(t.Lang)+`"`+end))
		}
	}
	return body
}

// headingID matches the beginning of a heading.
var headingID = regexp.MustCompile(`<h[1-6] id="[^"]*"`)

// lookOf is what the user chose. Visitors have no choice.
func lookOf(c *web.Request) (l embed.Look) {
	if c.Caller != nil {
		l = embed.Look{Theme: string(c.Caller.User.Theme), Accent: string(c.Caller.User.Accent)}
	}
	return l
}

// helpLink matches the beginning of a link from one handbook page to another.
var helpLink = regexp.MustCompile(`\]\([a-z-]+\.md#?`)
