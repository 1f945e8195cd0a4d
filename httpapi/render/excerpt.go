package render

import (
	"strings"
	"time"
	"unicode/utf8"

	"kist/kv/record"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// A Line is a line of an [Excerpt], without marks of Markdown.
type Line struct {
	Text       string
	Task, Done bool // whether it has a checkbox, and whether that is checked
}

// Of a text, an excerpt is made of the first excerptSource bytes. A line of it has at most excerptLine characters.
const (
	excerptSource = 1 << 10
	excerptLine   = 160
)

// Excerpt is the beginning of a Markdown text as [Markdown] shows it: at most so many lines. It may end earlier in a
// long text, of which only the first KiB is read.
func Excerpt(src string, most int) []Line {
	_, body := record.FrontMatter(strings.TrimPrefix(clean(src), byteOrderMark))
	if len(body) > excerptSource {
		body = strings.ToValidUTF8(body[:excerptSource], "")
	}
	doc, err := parse(converter(), []byte(body), time.Now().Add(maxTime))
	if err != nil { // then it is shown as plain text
		return nil
	}

	var lines []Line
	add := func(l Line) ast.WalkStatus {
		l.Text = record.Cut(strings.Join(strings.Fields(l.Text), " "), excerptLine)
		if l.Text != "" {
			lines = append(lines, l)
		}
		if len(lines) >= most {
			return ast.WalkStop
		}
		return ast.WalkSkipChildren
	}
	_ = ast.Walk(doc, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || node.Type() != ast.TypeBlock {
			return ast.WalkContinue, nil
		}
		switch node.Kind() {
		case ast.KindHTMLBlock:
			return ast.WalkSkipChildren, nil
		case ast.KindCodeBlock, ast.KindFencedCodeBlock:
			first, _, _ := strings.Cut(string(node.Lines().Value([]byte(body))), "\n")
			return add(Line{Text: first}), nil
		}
		if node.FirstChild() == nil || node.FirstChild().Type() != ast.TypeInline {
			return ast.WalkContinue, nil
		}
		l := Line{Text: inlineText(node, body)}
		if box, ok := node.FirstChild().(*extast.TaskCheckBox); ok {
			l.Task, l.Done = true, box.IsChecked
		}
		return add(l), nil
	})
	return lines
}

// inlineText is the text in a block, without marks. Nothing of it is HTML.
func inlineText(block ast.Node, source string) string {
	var b strings.Builder
	_ = ast.Walk(block, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Text:
			text := node.Value([]byte(source))
			if !node.IsRaw() {
				text = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(text)))
			}
			b.Write(text)
			if node.SoftLineBreak() || node.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(node.Value)
		case *ast.AutoLink:
			b.Write(node.Label([]byte(source)))
		}
		return ast.WalkContinue, nil
	})
	return strings.ToValidUTF8(b.String(), string(utf8.RuneError))
}
