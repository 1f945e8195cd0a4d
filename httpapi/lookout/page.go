package lookout

import (
	"bytes"
	"io"
	"mime"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// Bounds of what is read of a page, in bytes.
const (
	maxPage  = 1 << 20
	maxTitle = 64 << 10
)

// page is what a page says of itself.
type page struct {
	title, description string
}

// parse reads a page of HTML, as far as maxPage, in the encoding that it or
// its header names. What is not well-formed is read as browsers do it, nearly.
func parse(r io.Reader, contentType string) page {
	r, err := charset.NewReader(io.LimitReader(r, maxPage), contentType)
	if err != nil { // nothing in it
		return page{}
	}
	z := html.NewTokenizer(r)
	var p reading
	for !p.done {
		switch z.Next() {
		case html.ErrorToken:
			p.done = true
		case html.StartTagToken, html.SelfClosingTagToken:
			p.open(z)
		case html.EndTagToken:
			name, _ := z.TagName()
			switch atom.Lookup(name) {
			case atom.Title:
				p.inTitle = false
			case atom.Svg:
				p.pictures = max(0, p.pictures-1)
			}
		case html.TextToken:
			if p.inTitle && p.title.Len() < maxTitle {
				p.title.Write(z.Text())
			}
		}
	}
	return page{
		title:       first(p.title.String(), p.meta["og:title"], p.meta["twitter:title"]),
		description: first(p.meta["description"], p.meta["og:description"], p.meta["twitter:description"]),
	}
}

// reading is a page that is being read.
type reading struct {
	title    bytes.Buffer
	inTitle  bool
	titled   bool // there was one
	pictures int  // SVG around the present place, which has titles too
	meta     map[string]string
	done     bool
}

// open takes what a tag says.
func (p *reading) open(z *html.Tokenizer) {
	name, more := z.TagName()
	switch atom.Lookup(name) {
	case atom.Svg:
		p.pictures++
	case atom.Title:
		p.inTitle = !p.titled && p.pictures == 0
		p.titled = p.titled || p.inTitle
	case atom.Body: // what is asked for was before it
		p.done = p.titled
	case atom.Meta:
		var name, content string
		for more {
			var key, value []byte
			key, value, more = z.TagAttr()
			switch string(key) {
			case "name", "property":
				name = strings.ToLower(strings.TrimSpace(string(value)))
			case "content":
				content = string(value)
			}
		}
		if wanted[name] && p.meta[name] == "" {
			if p.meta == nil {
				p.meta = map[string]string{}
			}
			p.meta[name] = content
		}
	}
}

var wanted = map[string]bool{
	"description": true, "og:title": true, "og:description": true, "twitter:title": true, "twitter:description": true,
}

// first is the first text with something in it, on one line.
func first(texts ...string) string {
	for _, t := range texts {
		if t = oneLine(t); t != "" {
			return t
		}
	}
	return ""
}

// oneLine makes foreign text into one line of valid UTF-8, without characters
// that control a terminal or the direction of text.
func oneLine(t string) string {
	t = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar, unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(t, ""))
	return strings.Join(strings.Fields(t), " ")
}

// isPage reports whether an answer of the media type is HTML.
func isPage(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return media == "text/html" || media == "application/xhtml+xml" || contentType == "" && err != nil
}
