package linkcheck

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"iter"
	"mime"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"kist/kv/media"
)

// Limits for reading a page, in bytes.
const (
	maxPage  = 1 << 20
	maxTitle = 64 << 10
	surveyed = 64 << 10 // of a page, for its charset
)

// page is what a page says about itself.
type page struct {
	title, description string
	image              string // address of a picture, as the page writes it
	refresh            string // where the page leads without a click within moments, relative to its base

	base  string // the base of its links, relative to the page's address; "" means that address
	icons []iconLink
}

// baseAt is the address to which the links of a page at an address are relative.
func (p page) baseAt(at *url.URL) *url.URL {
	if u, err := at.Parse(strings.TrimSpace(p.base)); err == nil && p.base != "" {
		return u
	}
	return at
}

// parse reads an HTML page, at most maxPage bytes, in the charset that its header or the page names,
// or the likeliest. It treats malformed HTML almost as browsers do.
func parse(r io.Reader, contentType string) page {
	whole := bufio.NewReaderSize(io.LimitReader(r, maxPage), surveyed)
	head, _ := whole.Peek(surveyed) // a page that ends early, or breaks off, is read up to its end
	charset, err := media.CharsetOf(bytes.NewReader(head), contentType)
	if err != nil {
		return page{}
	}

	z := html.NewTokenizer(charset.NewReader(whole))
	p := parser{meta: map[string]string{}}
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
			if p.inTitle && p.text.Len() < maxTitle {
				p.text.Write(z.Text())
			}
		}
	}
	p.title = cmp.Or(oneLine(p.text.String()), oneLine(p.meta["og:title"]), oneLine(p.meta["twitter:title"]))
	p.description = cmp.Or(
		oneLine(p.meta["description"]), oneLine(p.meta["og:description"]), oneLine(p.meta["twitter:description"]),
	)
	p.image = cmp.Or(
		oneLine(p.meta["og:image:secure_url"]), oneLine(p.meta["og:image"]), oneLine(p.meta["og:image:url"]),
		oneLine(p.meta["twitter:image"]), oneLine(p.meta["twitter:image:src"]),
	)
	return p.page
}

// parser has the state while reading a page.
type parser struct {
	page
	text     bytes.Buffer // of the title
	inTitle  bool
	titled   bool // there was a title
	pictures int  // depth in SVG, which has titles too
	meta     map[string]string
	done     bool
}

// open reads a start tag.
func (p *parser) open(z *html.Tokenizer) {
	name, more := z.TagName()
	switch atom.Lookup(name) {
	case atom.Svg:
		p.pictures++
	case atom.Title:
		p.inTitle = !p.titled && p.pictures == 0
		p.titled = p.titled || p.inTitle
	case atom.Body: // everything needed comes before it
		p.done = p.titled
	case atom.Meta:
		var name, content string
		for key, value := range attributes(z, more) {
			switch key {
			case "name", "property", "http-equiv":
				name = strings.ToLower(strings.TrimSpace(value))
			case "content":
				content = value
			}
		}
		if name == "refresh" && p.refresh == "" {
			p.refresh = refreshOf(content)
		}
		if wanted[name] && p.meta[name] == "" {
			p.meta[name] = content
		}
	case atom.Base:
		for key, value := range attributes(z, more) {
			if key == "href" && p.base == "" {
				p.base = value
			}
		}
	case atom.Link:
		if len(p.icons) < maxLinks {
			if l, got := readIconLink(attributes(z, more)); got {
				p.icons = append(p.icons, l)
			}
		}
	}
}

// maxRefresh is the longest wait in seconds after which a page leads to another one that is still a redirect.
const maxRefresh = 5

var (
	refresh    = regexp.MustCompile(`^\s*(\d{1,3})(?:\.\d*)?\s*[;,\s]\s*(.*?)\s*$`)
	refreshURL = regexp.MustCompile(`(?i)^url\s*=\s*`)
)

// refreshOf reads the content of a meta element that leads to another page (HTML, section 4.2.5.3); "" if it does not
// at once.
func refreshOf(content string) string {
	found := refresh.FindStringSubmatch(content[:min(len(content), maxHref)])
	if found == nil {
		return ""
	}
	if seconds, err := strconv.Atoi(found[1]); err != nil || seconds > maxRefresh {
		return ""
	}
	return strings.Trim(refreshURL.ReplaceAllString(found[2], ""), `"'`)
}

// attributes are those of the tag that was just read, with names in lower case. more says whether
// there are any.
func attributes(z *html.Tokenizer, more bool) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for more {
			var key, value []byte
			key, value, more = z.TagAttr()
			if !yield(string(key), string(value)) {
				return
			}
		}
	}
}

var wanted = map[string]bool{
	"description": true, "og:title": true, "og:description": true, "twitter:title": true, "twitter:description": true,
	"og:image": true, "og:image:url": true, "og:image:secure_url": true, "twitter:image": true, "twitter:image:src": true,
}

// oneLine turns foreign text into one line of valid UTF-8 without characters that control a
// terminal or the direction of text.
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

func isPage(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return media == "text/html" || media == "application/xhtml+xml" || contentType == "" && err != nil
}
