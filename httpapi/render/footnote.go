package render

import (
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// maxFootnotes is the maximum number of footnotes of a text, because goldmark sorts them one by one.
const maxFootnotes = 2000

// footnotes counts the footnotes of a text.
type footnotes struct{ parser.BlockParser }

var footnotesKey = parser.NewContextKey()

func (p footnotes) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	node, state := p.BlockParser.Open(parent, reader, pc)
	if node == nil {
		return nil, state
	}
	n, _ := pc.Get(footnotesKey).(int)
	if n == maxFootnotes {
		panic(errGivenUp)
	}
	pc.Set(footnotesKey, n+1)
	return node, state
}

// allFootnotes shows footnotes too that nothing refers to. goldmark would leave them out, and their text with
// them.
type allFootnotes struct{ parser.ASTTransformer }

func (p allFootnotes) Transform(doc *ast.Document, reader text.Reader, pc parser.Context) {
	var list *extast.FootnoteList
	// Walk fails only if the function does.
	_ = ast.Walk(doc, func(n ast.Node, _ bool) (ast.WalkStatus, error) {
		found, ok := n.(*extast.FootnoteList)
		if !ok {
			return ast.WalkContinue, nil
		}
		list = found
		return ast.WalkStop, nil
	})
	if list == nil {
		return
	}
	for n := list.FirstChild(); n != nil; n = n.NextSibling() {
		if note := n.(*extast.Footnote); note.Index < 0 {
			list.Count++
			note.Index = list.Count
		}
	}

	p.ASTTransformer.Transform(doc, reader, pc)
	for n := list.FirstChild(); n != nil; n = n.NextSibling() {
		last := n.LastChild()
		if last.Kind() != extast.KindFootnoteBacklink {
			last = last.LastChild()
		}
		if last.(*extast.FootnoteBacklink).RefCount == 0 { // it leads nowhere
			last.Parent().RemoveChild(last.Parent(), last)
		}
	}
}
