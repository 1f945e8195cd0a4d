package httpapi

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"kist/embed"
	"kist/kv/record"
)

// helpRoutes are the pages of the handbook.
func helpRoutes() []route {
	return []route{
		{
			method: "GET", path: "/help", id: "readHandbook", tag: "app", summary: "The first page of the handbook or, with q, the pages that have all its words.",
			access: anyone, reply: reply{200, "The page.", pageOf()}, fails: []int{400, 503}, serve: readHandbook,
		},
		{
			method: "GET", path: "/help/{topic}", id: "readTopic", tag: "app", summary: "A page of the handbook.",
			access: anyone, reply: reply{200, "The page.", pageOf()}, fails: []int{404, 503}, serve: readTopic,
		},
	}
}

func readHandbook(c *request) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	if words := strings.TrimSpace(q.Get("q")); words != "" {
		found := embed.FindHelp(words)
		return c.respondPage(http.StatusOK, embed.HelpPage{Base: c.s.prefix(), Title: fmt.Sprintf("Found: %d", len(found)), Query: words, Found: found})
	}
	return c.help("Handbook", embed.HelpIndex())
}

func readTopic(c *request) error {
	t, ok := embed.HelpTopic(c.arg("topic"))
	if !ok {
		return record.NotFound("page of the handbook")
	}
	return c.help(t.Title, t.Text)
}

func (c *request) help(title, text string) error {
	base := c.s.prefix()
	body, err := c.s.renders.handbook(helpLink.ReplaceAllStringFunc(text, func(link string) string {
		name, anchor, _ := strings.Cut(link[2:], ".md")
		if anchor != "" {
			anchor = "#h-" // which the renderer puts before the ids of headings
		}
		return "](" + base + "/help/" + name + anchor
	}))
	if err != nil {
		return err
	}
	return c.respondPage(http.StatusOK, embed.HelpPage{Base: base, Title: title, Body: body})
}

// helpLink begins a link from one file of the handbook to another.
var helpLink = regexp.MustCompile(`\]\([a-z-]+\.md#?`)
