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
	// maxCode is the most text that is highlighted.
	maxCode = 256 << 10
	// maxTime is how long highlighting may take: of one piece of code, or of
	// all of them in a Markdown text.
	maxTime = 300 * time.Millisecond
	// maxNumbered is the most lines that are numbered: each is a link.
	maxNumbered = 20_000
)

// Highlighted is code as HTML.
type Highlighted struct {
	// HTML is a pre element. Tokens are in spans with classes, whose names are
	// those of chroma and Pygments. Each line begins with an empty link with
	// the ids L1, L2, …: its number is for the style sheet to draw, so that it
	// is no part of what is selected or copied.
	HTML template.HTML
	// Language is the name of the language it was read as, "" if that is not
	// known or it is shown as plain text.
	Language string
	// Lines is how many there are.
	Lines int
}

// Code shows code in the language, which is a name, an alias or an extension,
// or if that is "" or not known the one that goes with the file's name. The
// text is shown whole in every case: without colours if the language is not
// known, it is long, or highlighting takes too long. It fails only if the
// binary was built wrongly.
func Code(src, language, filename string) (Highlighted, error) {
	text := clean(src)
	lines := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		lines++
	}
	tokens, name, err := highlight(text, language, filename, time.Now().Add(maxTime))
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

// highlight reads clean text. The tokens are the text, cut in pieces; if it
// cannot be highlighted, it is one piece, and the language has no name.
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
	if errors.Is(err, errGivenUp) {
		return whole, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	return tokens, g.Name, nil
}

// writeCode writes tokens, no span across the end of a line.
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
			_, _ = escaper.WriteString(b, rest) // a Builder takes everything
			if ended {
				end()
				b.WriteByte('\n')
				begin = numbered
			}
		}
	}
	end()
}

// classOf is the class of a token's type, or of what that is a sort of. Most
// of a text, such as names and punctuation, has none, which keeps pages small.
func classOf(t chroma.TokenType) string {
	for ; t > 0; t = t.Parent() {
		if class, ok := classes[t]; ok {
			return class
		}
	}
	return ""
}

// classes are the types that look different; the style sheet has them all.
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

// writeNumber writes the link of a line. Anyone who moves by keyboard or listens
// is not led through all of them.
func writeNumber(b *strings.Builder, line int) {
	id := "L" + strconv.Itoa(line)
	b.WriteString(`<a id="` + id + `" href="#` + id + `" tabindex="-1" aria-hidden="true"></a>`)
}
