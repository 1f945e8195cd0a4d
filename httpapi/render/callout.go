package render

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// callouts makes a title of the marker at the beginning of a quote, such as "[!NOTE]" (GitHub) or
// "[!tip]- Title" (Obsidian).
type callouts struct{}

var calloutMarker = regexp.MustCompile(`^\[!(\p{L}[\p{L}\p{N} -]{0,31})\][-+]?(?:[ \t]+|\n|$)`)

// Transform implements [parser.ParagraphTransformer].
func (callouts) Transform(node *ast.Paragraph, reader text.Reader, _ parser.Context) {
	quote, ok := node.Parent().(*ast.Blockquote)
	if !ok || node.PreviousSibling() != nil {
		return
	}
	lines := node.Lines()
	first := lines.At(0)
	found := calloutMarker.FindSubmatchIndex(first.Value(reader.Source()))
	if found == nil || first.Padding > 0 {
		return
	}

	title := &calloutTitle{word: string(first.Value(reader.Source())[found[2]:found[3]])}
	rest := first.WithStart(first.Start + found[1])
	rest = rest.TrimRightSpace(reader.Source())
	if !rest.IsEmpty() {
		title.Lines().Append(rest)
	}
	quote.InsertBefore(quote, node, title)
	if lines.Len() == 1 {
		quote.RemoveChild(quote, node)
		return
	}
	lines.SetSliced(1, lines.Len())
}

// A calloutTitle is the first line of a callout. Its lines are the title, if the callout has one of its own.
type calloutTitle struct {
	ast.BaseBlock
	word string // in the marker
}

var kindCalloutTitle = ast.NewNodeKind("CalloutTitle")

// Kind implements [ast.Node].
func (*calloutTitle) Kind() ast.NodeKind { return kindCalloutTitle }

// Dump implements [ast.Node].
func (n *calloutTitle) Dump(source []byte, level int) {
	ast.DumpHelper(n, source, level, map[string]string{"Word": n.word}, nil)
}

func (nodes) calloutTitle(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, _ = w.WriteString("</strong></p>\n")
		return ast.WalkContinue, nil
	}
	n := node.(*calloutTitle)
	first, size := utf8.DecodeRuneInString(n.word)
	_, _ = w.WriteString("<p><strong>" + escape(string(unicode.ToUpper(first))+strings.ToLower(n.word[size:])))
	if n.HasChildren() {
		_, _ = w.WriteString(": ")
	}
	return ast.WalkContinue, nil
}
