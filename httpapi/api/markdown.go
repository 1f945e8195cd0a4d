package api

import (
	"net/http"

	"kist/httpapi/public"
	"kist/httpapi/web"
	"kist/kv/field"
	"kist/kv/record"
)

// Markdown is a text to render.
type Markdown struct{ text string }

func (m *Markdown) Fields(s *field.Set) {
	s.LongText("text", &m.text, record.MaxContent, field.Required).Says(
		"The text, in Markdown.", `"Boats arrive **daily**."`,
	)
}

// HTML is a rendered text.
type HTML struct{ html string }

func (h *HTML) Fields(s *field.Set) {
	s.LongText("html", &h.html, 0, field.ReadOnly).Says(
		"The text as pages show it: without scripts, styles and addresses that a browser would fetch from other hosts.",
		`"<p>Boats arrive <strong>daily</strong>.</p>\n"`,
	)
}

var RenderMarkdown = web.Operation{
	Tag: "app", Summary: "Renders Markdown as the page of a note shows it, with the caller's own files. " +
		"Nothing is stored.",
	Body:  web.BodyOf("Markdown"),
	Reply: web.Reply{Status: http.StatusOK, Doc: "The text as HTML.", Body: web.DataOf("HTML")},
	Fails: []int{503}, Serve: renderMarkdown,
}

func renderMarkdown(c *web.Request) error {
	form := new(Markdown)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	html, err := c.Site.Renders.Markdown(form.text)
	if err != nil {
		return err
	}
	html, err = public.PreviewFiles(c, html)
	if err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, &HTML{string(html)})
}
