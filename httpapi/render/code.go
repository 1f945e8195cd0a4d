package render

import (
	"errors"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
)

const (
	// maxCode is the maximum length of highlighted text in bytes.
	maxCode = 256 << 10
	// maxTime is how long highlighting may take, for a single piece of code or for all code in
	// a Markdown text together.
	maxTime = 300 * time.Millisecond
	// maxNumbered is the maximum number of numbered lines: each number is a link.
	maxNumbered = 20_000
)

// Highlighted is highlighted code as HTML.
type Highlighted struct {
	// HTML is a pre element. Tokens are spans with the class names of chroma and Pygments. Each
	// line begins with an empty link with the id L1, L2, …. The style sheet draws its number, so
	// that selected or copied text does not contain it.
	HTML template.HTML
	// Language is the name of the recognised language, "" if it is unknown or the code is shown
	// as plain text.
	Language string
	// Lines is the number of lines.
	Lines int
}

// Code highlights code in a language, which is a name, an alias or an extension. If language is "" or
// unknown, the file's name decides, and without both the text itself. The whole text is always shown: without colours if the language is
// unknown, the text is long, or highlighting takes too long. It fails only if the build is broken.
func Code(src, language, filename string) (Highlighted, error) {
	text := clean(src)
	lines := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		lines++
	}
	tokens, name, err := highlight(text, languageOf(text, language, filename), filename, time.Now().Add(maxTime))
	if err != nil {
		return Highlighted{}, err
	}
	var b strings.Builder
	b.Grow(2 * len(text))
	b.WriteString(`<pre class="code" dir="ltr" tabindex="0"><code>`)
	writeCode(&b, tokens, lines <= maxNumbered)
	b.WriteString("</code></pre>\n")
	return Highlighted{HTML: template.HTML(b.String()), Language: name, Lines: lines}, nil // #nosec G203 -- writeCode escapes the text
}

// languageOf is the given language; if there is none and the file's name says nothing either, a guess.
func languageOf(text, language, filename string) string {
	if _, err := find("", filename); language == "" && err != nil {
		return guess(text)
	}
	return language
}

// highlight reads clean text and cuts it into tokens. If it cannot be highlighted, it is one token and
// the language has no name.
func highlight(text, language, filename string, deadline time.Time) (tokens []chroma.Token, name string, err error) {
	whole := []chroma.Token{{Type: chroma.Text, Value: text}}
	if len(text) > maxCode || text == "" || !time.Now().Before(deadline) {
		return whole, "", nil
	}
	g, err := find(language, filename)
	if errors.Is(err, errUnknown) {
		return whole, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	tokens, err = g.tokens(text, deadline)
	if errors.Is(err, errUnknown) || errors.Is(err, errGivenUp) {
		return whole, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	return tokens, strings.TrimPrefix(g.Name, "plaintext"), nil // that is no language
}

// writeCode writes tokens. No span continues across the end of a line.
func writeCode(b *strings.Builder, tokens []chroma.Token, numbered bool) {
	line, begin := 0, numbered
	open := ""
	end := func() {
		if open != "" {
			b.WriteString("</span>")
			open = ""
		}
	}
	for _, t := range tokens {
		class := classOf(t.Type)
		for part := range strings.SplitAfterSeq(t.Value, "\n") {
			if part == "" {
				continue
			}
			if begin {
				line++
				writeNumber(b, line)
				begin = false
			}
			rest, ended := strings.CutSuffix(part, "\n")
			if rest != "" && class != open {
				end()
				if class != "" {
					b.WriteString(`<span class="` + class + `">`)
					open = class
				}
			}
			_, _ = escaper.WriteString(b, rest) // a Builder never fails
			if ended {
				end()
				b.WriteByte('\n')
				begin = numbered
			}
		}
	}
	end()
}

// classOf is the class of a token's type or of its parent types. Most tokens, such as names and
// punctuation, have none, which keeps pages small.
func classOf(t chroma.TokenType) string {
	for ; t > 0; t = t.Parent() {
		if class, ok := classes[t]; ok {
			return class
		}
	}
	return ""
}

// classes are the types that look different. The style sheet has all of them.
var classes = map[chroma.TokenType]string{
	chroma.Keyword: "k", chroma.KeywordConstant: "m", chroma.KeywordType: "kt",
	chroma.NameAttribute: "na", chroma.NameProperty: "na", chroma.NameBuiltin: "nb", chroma.NameBuiltinPseudo: "nb",
	chroma.NameClass: "kt", chroma.NameNamespace: "kt", chroma.NameException: "kt",
	chroma.NameConstant: "m", chroma.NameDecorator: "cp", chroma.NameEntity: "se",
	chroma.NameFunction: "nf", chroma.NameKeyword: "k", chroma.NameTag: "nt", chroma.NameVariable: "na", chroma.NameLabel: "na",
	chroma.String: "s", chroma.StringEscape: "se", chroma.StringInterpol: "se", chroma.StringRegex: "se",
	chroma.LiteralDate: "m", chroma.Number: "m",
	chroma.OperatorWord: "k", chroma.OperatorReserved: "k",
	chroma.Comment: "c", chroma.CommentPreproc: "cp", chroma.CommentPreprocFile: "s",
	chroma.GenericDeleted: "gd", chroma.GenericInserted: "gi", chroma.GenericError: "gd", chroma.GenericTraceback: "gd",
	chroma.GenericHeading: "gh", chroma.GenericSubheading: "gh", chroma.GenericStrong: "gs", chroma.GenericEmph: "ge",
	chroma.GenericPrompt: "k", chroma.GenericOutput: "c",
}

// writeNumber writes the link of a line. Keyboard and screen reader users skip it.
func writeNumber(b *strings.Builder, line int) {
	id := "L" + strconv.Itoa(line)
	b.WriteString(`<a id="` + id + `" href="#` + id + `" tabindex="-1" aria-hidden="true"></a>`)
}
